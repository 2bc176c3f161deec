"""Pointers: distributions against loops, copies that continue, restriction to selected words, copying in searches."""

import math
from dataclasses import replace

import pytest
import reference
import steps
import torch
from decoding import make_sample, options, sharpen
from fairseq.dataclass.configs import GenerationConfig
from fairseq.token_generation_constraints import pack_constraints
from helpers import EOS, PAD, RECURRENT, make_batch, make_model, make_task
from omegaconf import OmegaConf
from recurrent import recurrent, recurrent_task

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.layers.pointer import AttentionPointer, CopyHistory, Pointer, Selection

KNOWN, TAIL, MARK, UNK = 44, 30, 43, 3
DOCUMENTS = [[5, 50, 6, 50, 5, 61, 7], [9, 9, 9], [3, 8, 45, 3], [70, 71, 43, 70, 71, 72], [52], []]
SUMMARIES = [[50, 6, 50, 5, 12], [9, 9], [45, 3, 8], [71, 43, 70, 71, 72], [52, 52], [6, 7]]
"""Known and rare words, repetitions, unknown words, the last known one, one word alone, and nothing."""
MARKED = [[5, 6, 44, 7, 45, MARK, 9, 5, 46, 45], [30, 31], [4, 47, 5, 8, 8, 44, 49], [21, 22, 50, 23, 51]]
TASK = recurrent_task()
FAMILIES = {"etads": {}, "gru_seq2seq": RECURRENT}


def pointer_model(kind="soft"):
    return make_model("etads", make_task(tail=TAIL), pointer=kind)


def run(model, documents=DOCUMENTS, summaries=SUMMARIES):
    return model(**steps.make_sample(None, documents, summaries)["net_input"])


def test_the_mixture_equals_a_loop():
    model = pointer_model()
    net_output = run(model)
    logits, pointer = net_output[0].double(), net_output[1]["output"].pointer
    found = model.get_normalized_probs(net_output, log_probs=False)
    for row, document in enumerate(DOCUMENTS):
        extended, own = reference.extended_ids(document, KNOWN)
        for step in range(len(SUMMARIES[row]) + 1):
            expected = reference.pointer_mixture(
                logits[row, step].softmax(-1),
                pointer.log_copy[row, step].exp(),
                pointer.gate[row, step].double().sigmoid().item(),
                extended,
                KNOWN + len(own),
            )
            torch.testing.assert_close(found[row, step, : len(expected)], torch.tensor(expected), rtol=1e-4, atol=1e-7)
            assert not found[row, step, len(expected) :].any(), "a slot that the document does not have"


@pytest.mark.parametrize("kind", ["soft", "switch"])
def test_shortcuts_equal_the_whole_distribution(kind):
    logits, extra = run(pointer_model(kind))
    pointer = extra["output"].pointer
    pointer.hard = False
    whole = pointer.compute_log_probs(logits)
    log_vocab = logits.log_softmax(-1)
    targets = pointer.vocab.encode(make_batch(SUMMARIES))
    found, share = pointer.compute_target_log_probs(log_vocab, targets)
    torch.testing.assert_close(found, whole.gather(2, targets[:, :, None])[:, :, 0])
    assert share[0, 0] == 1 and share[5].max() == 0, "only copying gives a rare word, and an empty document none"

    specials = [0, PAD]
    total, count = log_vocab.sum(-1) - log_vocab[:, :, specials].sum(-1), KNOWN - len(specials)
    sums, counts = pointer.sum_log_probs(log_vocab, total, count)
    for row, document in enumerate(DOCUMENTS):
        own = len(reference.extended_ids(document, KNOWN)[1])
        words = [word for word in range(KNOWN + own) if word not in specials]
        torch.testing.assert_close(sums[row], whole[row][:, words].sum(-1), rtol=1e-5, atol=1e-3)
        assert counts[row] == len(words)


def test_the_supervised_switch_equals_a_loop():
    documents, summaries = DOCUMENTS[:5], SUMMARIES[:5]
    logits, extra = run(pointer_model("switch"), documents, summaries)
    pointer = extra["output"].pointer
    targets = pointer.vocab.encode(make_batch(summaries))
    word, decision, point = pointer.compute_supervised_log_probs(logits.log_softmax(-1), targets)
    for row, document in enumerate(documents):
        extended = reference.extended_ids(document, KNOWN)[0]
        for step, target in enumerate(targets[row, : len(summaries[row]) + 1].tolist()):
            expected = reference.switch_loss(
                logits[row, step].double().softmax(-1),
                pointer.log_copy[row, step].exp(),
                pointer.gate[row, step].sigmoid().item(),
                extended,
                target,
            )
            assert -(word + decision)[row, step].item() == pytest.approx(expected, rel=1e-4)
            assert point[row, step] == (target >= KNOWN)


def test_copied_positions_are_those_of_a_loop():
    """A word is copied if that gives more than half of its probability, from the position with most attention."""
    logits, extra = run(pointer_model())
    pointer, log_vocab, seen = extra["output"].pointer, logits.log_softmax(-1), set()
    pointer.log_copy = (torch.randn(pointer.log_copy.shape) + pointer.log_copy).log_softmax(-1)
    extended = [reference.extended_ids(document, KNOWN)[0] for document in DOCUMENTS]
    for target in (3, 5, 8, 9, 43, 44, 45):
        targets = torch.full(logits.shape[:2], target)
        pointer.gate = torch.randn(pointer.gate.shape) * 4
        found = pointer.find_copied_positions(logits, targets)
        for row, ids in enumerate(extended):
            for step in range(logits.shape[1]):
                places = [place for place, word in enumerate(ids) if word == target]
                attention = pointer.log_copy[row, step].exp()
                p_gen = pointer.gate[row, step].sigmoid()
                generated = p_gen * log_vocab[row, step, target].exp() if target < KNOWN else 0.0
                is_copied = bool(places) and (1 - p_gen) * attention[places].sum() > generated
                expected = max(places, key=lambda place: attention[place]) if is_copied else -1
                assert found[row, step] == expected
                seen.add((bool(places), expected >= 0))
    assert seen == {(True, True), (True, False), (False, False)}


def test_a_word_that_is_as_well_generated_as_copied_is_generated():
    logits, extra = run(pointer_model(), [[5, 50]], [[5]])
    pointer = extra["output"].pointer
    pointer.gate = torch.zeros_like(pointer.gate)
    pointer.log_copy = torch.full_like(pointer.log_copy, -math.inf)
    pointer.log_copy[:, :, 0] = logits.log_softmax(-1)[:, :, 5]
    assert pointer.find_copied_positions(logits, torch.tensor([[5, 5]])).tolist() == [[-1, -1]]


@pytest.mark.parametrize("left", [False, True])
def test_copy_attention_is_the_query_on_the_encoders_words(left):
    """softmax of (W h + b)·u over the root of the width, over the words of the document; none in an empty one."""
    head = Pointer(6, 4, "soft")
    torch.nn.init.normal_(head.query.bias)
    tokens = make_batch(DOCUMENTS, left=left)
    vocab = pointer_model().decoder.make_output_vocabulary(tokens).slots
    states, memory = torch.randn(len(tokens), 3, 6), torch.randn(tokens.shape[1], len(tokens), 4)
    output = head(states, memory, vocab)
    assert output.kind == "soft" and not output.hard
    assert output.log_copy[5].eq(-math.inf).all()
    for row in range(5):
        words = [place for place, token in enumerate(tokens[row].tolist()) if token not in (EOS, PAD)]
        for step in range(3):
            query = head.query.weight @ states[row, step] + head.query.bias
            scores = torch.stack([query @ memory[place, row] / 2 for place in words])
            torch.testing.assert_close(output.log_copy[row, step, words], scores.log_softmax(0))
            logit = head.gate.weight[0] @ states[row, step] + head.gate.bias[0]
            torch.testing.assert_close(output.gate[row, step], logit)


def test_the_decoders_own_attention_is_renormalised_over_the_words():
    tokens = make_batch([[5, 50, 6]])
    vocab = pointer_model().decoder.make_output_vocabulary(tokens).slots
    head = AttentionPointer(6, "switch")
    states = torch.randn(1, 1, 6)
    output = head(states, torch.tensor([[[0.1, 0.2, 0.1, 0.6]]]).log(), vocab)  # the last is the end symbol
    torch.testing.assert_close(output.log_copy.exp(), torch.tensor([[[0.25, 0.5, 0.25, 0.0]]]))
    assert output.kind == "switch" and not output.hard, "it decides in evaluation only"
    assert head.eval()(states, torch.zeros(1, 1, 4), vocab).hard
    torch.testing.assert_close(output.gate[0], head.gate.weight @ states[0, 0] + head.gate.bias)


def test_generation_can_begin_with_one_probability_for_all_states():
    head = Pointer(6, 4, "soft")
    head.initialise_generation_probability(0.9)
    torch.testing.assert_close(head.gate(torch.randn(5, 6) * 100).sigmoid(), torch.full((5, 1), 0.9))


@pytest.mark.parametrize("gate,is_copied", [(1e-3, False), (0.0, False), (-1e-3, True), (-30.0, True)])
def test_a_hard_switch_decides_alone_where_a_word_comes_from(gate, is_copied):
    """However small the attention is, a word is copied if the switch says so, and generated otherwise."""
    logits, extra = run(pointer_model("switch"), [[5, 50]], [[5]])
    pointer = extra["output"].pointer
    assert pointer.hard
    pointer.gate = torch.full_like(pointer.gate, gate)
    pointer.log_copy = torch.full_like(pointer.log_copy, -math.inf)
    pointer.log_copy[:, :, 0], pointer.log_copy[:, :, 1] = math.log(1e-5), math.log(1 - 1e-5)
    target, log_vocab = torch.tensor([[5, 5]]), logits.log_softmax(-1)
    log_prob, share = pointer.compute_target_log_probs(log_vocab, target)
    expected = torch.full((1, 2), math.log(1e-5)) if is_copied else log_vocab[:, :, 5]
    torch.testing.assert_close(log_prob, expected)
    assert share.tolist() == [[float(is_copied)] * 2] and not pointer.to_mixture().hard
    assert pointer.find_copied_positions(logits, target).tolist() == [[0 if is_copied else -1] * 2]


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("count", [1, 3, 5])
def test_the_features_are_those_of_the_loop(count, left):
    """Features of the last steps, for documents and summaries that are padded on either side."""
    net_input = steps.make_sample(None, DOCUMENTS, SUMMARIES, left)["net_input"]
    tokens, previous = net_input["src_tokens"], net_input["prev_output_tokens"]
    history = CopyHistory.from_summary(previous, tokens, count, UNK)
    shown = 0
    for row, document in enumerate(DOCUMENTS):
        offset = tokens.shape[1] - len(document) - 1 if left else 0
        start = previous.shape[1] - len(SUMMARIES[row]) - 1 if left else 0
        for place, step in enumerate(range(previous.shape[1] - count, previous.shape[1])):
            if not 0 <= step - start <= len(SUMMARIES[row]):
                continue  # padding
            expected = reference.copy_history(document, SUMMARIES[row][: step - start], UNK)
            found = torch.stack([feature[row, place] for feature in history], dim=1)
            assert found[offset : offset + len(document)].tolist() == [list(features) for features in expected]
            shown += sum(map(sum, expected))
    assert shown >= 3, "nothing was shown"


@pytest.mark.parametrize("arch", FAMILIES)
def test_the_pointer_adds_what_the_features_are_worth(arch):
    """The logits of the copy attention and of p_gen, against a loop over positions."""
    model, plain = (
        make_model(arch, make_task(tail=TAIL), pointer="soft", pointer_continue=continues, **FAMILIES[arch])
        for continues in (True, False)
    )
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if ".continuation." not in k})
    head, inputs = model.decoder.pointer.continuation, {}
    head.register_forward_hook(lambda _, given, __: inputs.update(states=given[0]))
    with torch.no_grad():
        for parameter in head.parameters():  # as after training: every feature matters
            parameter.normal_()
        with_features, without = (run(each)[1]["output"].pointer for each in (model, plain))
    for row, document in enumerate(DOCUMENTS[:-1]):
        for step in range(len(SUMMARIES[row]) + 1):
            features = reference.copy_history(document, SUMMARIES[row][:step], UNK)
            values = head.values.weight @ inputs["states"][row, step] + head.values.bias
            added = sum(head.gate[k] for k in (0, 1) if any(feature[k] for feature in features))
            gate = without.gate[row, step] + added
            torch.testing.assert_close(with_features.gate[row, step], gate, rtol=1e-4, atol=1e-4)
            logits = without.log_copy[row, step, : len(document)].clone()
            for position, feature in enumerate(features):
                logits[position] += sum(values[k] for k in range(3) if feature[k])
            found = with_features.log_copy[row, step, : len(document)]
            torch.testing.assert_close(found, logits.log_softmax(0), rtol=1e-4, atol=1e-4)


def model_of(arch):
    if arch == "etads":
        return sharpen(make_model(arch, TASK, pointer="soft"))
    return recurrent(arch, TASK, pointer="soft")


def selection_of(tokens, low=0.0):
    """Random probabilities, missing at marks, end symbols and padding."""
    values = torch.rand(tokens.shape, generator=torch.Generator().manual_seed(1)) * (1 - low) + low
    return values.masked_fill(torch.isin(tokens, torch.tensor([PAD, EOS, MARK])), -1)


def sample_of(documents, probabilities=None):
    """A batch with given or random probabilities."""
    sample = make_sample(documents)
    tokens = sample["net_input"]["src_tokens"]
    return {**sample, "selection": selection_of(tokens) if probabilities is None else probabilities}


def search(models, sample, **options):
    models = models if isinstance(models, list) else [models]
    return SummaryGenerator(models, TASK.target_dictionary, beam_size=3, max_len_b=8, **options).generate(None, sample)


def pointer_of(model, tokens, previous):
    with torch.no_grad():
        logits, extra = model(tokens, tokens.ne(PAD).sum(1), previous)
    return logits, extra["output"].pointer


@pytest.mark.parametrize("arch", ["etads", "pg_coverage"])
@pytest.mark.parametrize("threshold, factor", [(0.5, 2.0), (0.5, 0.3), (-1.0, 2.0), (0.9, 1.0)])
def test_the_distribution_is_that_of_the_definition(arch, threshold, factor):
    model, tokens = model_of(arch), make_batch(MARKED)
    q = selection_of(tokens)
    q[1] = q[1].clamp(max=0.4)  # a document without a selected word, for thresholds from 0.5 on
    previous = torch.tensor([[EOS, 5, 44]] * len(tokens))
    logits, pointer = pointer_of(model, tokens, previous)
    found = pointer.restrict_to_selection(Selection(q, threshold, factor)).compute_log_probs(logits).exp()
    torch.testing.assert_close(found.sum(2), torch.ones(found.shape[:2]))
    for row in range(len(tokens)):
        copyable = pointer.vocab.copyable[row].tolist()
        words = [c if there else None for c, there in zip(pointer.vocab.source_columns[row].tolist(), copyable)]
        values = [None if value < 0 else value for value in q[row].tolist()]
        for step in range(3):
            expected = reference.bottom_up(
                pointer.gate[row, step].sigmoid().item(),
                logits[row, step].softmax(0).tolist(),
                pointer.log_copy[row, step].exp().tolist(),
                words,
                values,
                threshold,
                factor,
            )
            for column, probability in enumerate(found[row, step].tolist()):
                assert probability == pytest.approx(expected.get(column, 0), abs=1e-6)


def test_nothing_masked_and_a_factor_of_one_change_nothing_to_the_bit():
    model, tokens = model_of("etads"), make_batch([*MARKED, []])
    logits, pointer = pointer_of(model, tokens, torch.tensor([[EOS, 5]] * 5))
    for threshold, low in ((-1.0, 0.0), (0.5, 0.6), (1 - 1e-6, 0.0)):  # all; all; none, and so all
        q = selection_of(tokens, low=low)
        found = pointer.restrict_to_selection(Selection(q, threshold, 1.0)).compute_log_probs(logits)
        assert torch.equal(found, pointer.compute_log_probs(logits))
    q = selection_of(tokens)
    q[0] = q[0].clamp(min=0.6)  # all words of one document only
    q[1:4, 0], q[1:4, 1] = 0.1, 0.9
    found = pointer.restrict_to_selection(Selection(q, 0.5, 1.0)).compute_log_probs(logits)
    assert [torch.equal(x, y) for x, y in zip(found, pointer.compute_log_probs(logits))] == [True, *[False] * 3, True]
    with_factor = pointer.restrict_to_selection(Selection(q, -1.0, 2.0))
    assert torch.equal(with_factor.gate[4], pointer.gate[4]), "a document without a word is generated from alone"


@pytest.mark.parametrize("arch", ["etads", "pg_coverage", "words_lvt2k"])
def test_the_search_scores_what_the_whole_model_gives(arch):
    """Cached decoding equals uncached, and finished documents take their probabilities with them."""
    model, sample = model_of(arch), sample_of(MARKED)
    # the second document is finished first: no summary is longer than its document
    results = search(model, sample, selection_threshold=0.5, selection_factor=3.0, match_source_len=True)
    for row, hypotheses in enumerate(results):
        for hypothesis in hypotheses:
            tokens = hypothesis["tokens"]
            document = sample["net_input"]["src_tokens"][row : row + 1]
            with torch.no_grad():
                _, extra = model(document, document.ne(PAD).sum(1), torch.tensor([[EOS, *tokens[:-1].tolist()]]))
            output = extra["output"]
            chosen = output.pointer.restrict_to_selection(Selection(sample["selection"][row : row + 1], 0.5, 3.0))
            chosen = replace(output, pointer=chosen).to_fairseq_output()
            extended = output.vocabulary.convert_to_extended_ids(tokens[None])[0]
            expected = model.get_normalized_probs(chosen, log_probs=True)[0].gather(1, extended[:, None])[:, 0]
            torch.testing.assert_close(hypothesis["positional_scores"], expected, rtol=1e-3, atol=1e-3)


def test_copied_positions_are_selected_ones():
    """Most of the attention is on occurrences that may not be copied, while other occurrences of the same word may."""
    model = model_of("pg_coverage")
    model.decoder.pointer.gate.bias.data.fill_(-20.0)  # copies nearly always
    q = torch.tensor([[0, 0, 0, 1, 0, -1], [0, 0, 0, 1, 1, -1.0]])
    sample = sample_of([[45, 45, 45, 45, 45], [44, 46, 44, 46, 44]], q)
    for row, hypotheses in zip(q, search(model, sample, selection_threshold=0.5, copied_positions=True)):
        found = {int(p) for h in hypotheses for p in h["copied_from"] if p >= 0}
        assert found and all(row[place] == 1 for place in found)


def test_ensembles_select_in_each_model():
    models, sample = [model_of("etads"), model_of("pg_coverage")], sample_of(MARKED)
    found = search(models, sample, selection_threshold=0.5)
    for document, q, hypotheses in zip(MARKED, sample["selection"].tolist(), found):
        copied = {word for h in hypotheses for word in h["tokens"].tolist() if word >= 44}
        assert copied <= {word for word, value in zip(document, q) if value > 0.5}


def test_options_of_decoding_are_checked():
    task = recurrent_task(selection="somewhere")
    options = OmegaConf.structured(GenerationConfig(beam=2, max_len_b=6))
    assert task.build_generator([model_of("etads")], options).options.selection_threshold == 0.15
    for pointer in ("none", "switch"):
        with pytest.raises(ValueError, match="--selection somewhere needs"):
            task.build_generator([make_model("etads", task, pointer=pointer)], options)


def summarise(task, model, documents, prefix=None, phrases=None, **changes):
    generator = task.build_generator([model], options(**changes))
    sample = make_sample(documents)
    return task.inference_step(generator, [model], sample, prefix_tokens=prefix, constraints=phrases)


def words(hypotheses):
    return [hypothesis[0]["tokens"].tolist() for hypothesis in hypotheses]


@pytest.mark.parametrize("pointer", ["none", "soft"])
def test_prefixes_may_hold_words_that_are_copied_or_that_nobody_knows(pointer):
    task = make_task(tail=TAIL)
    prefix = torch.tensor([[50, 49], [71, 3], [3, 47]])
    model = make_model("etads", task, pointer=pointer)
    found = words(summarise(task, model, [[5, 50, 6], [70, 71], [5, 6]], prefix))
    expected = [[50, UNK], [71, UNK], [UNK, UNK]] if pointer == "soft" else [[UNK] * 2] * 3
    assert [summary[:2] for summary in found] == expected


def test_constraints_may_hold_copied_words():
    task = make_task(tail=TAIL)
    model = make_model("etads", task, pointer="soft")
    constraints = pack_constraints([[torch.tensor([71])], [torch.tensor([6, 50])]])
    documents, search = [[5, 70, 71], [5, 50, 6]], {"constraints": "ordered", "beam": 4, "max_len_b": 8}
    first, second = words(summarise(task, model, documents, phrases=constraints, **search))
    assert 71 in first and (6, 50) in zip(second, second[1:])


def test_the_dictionary_may_grow_after_the_model_was_built():
    """The dictionary grows in interactive use, and when fairseq encodes its own output, also without a copy tail."""
    for pointer in ("none", "soft"):
        task = make_task()
        model = make_model("etads", task, pointer=pointer)
        before = words(summarise(task, model, [[5, 6, 7]]))
        new = task.src_dict.add_symbol("new", n=0)
        assert words(summarise(task, model, [[5, 6, 7]])) == before
        assert max(words(summarise(task, model, [[5, new, 7, new]]))[0]) <= new


@pytest.mark.parametrize("alignment", [None, "hard"])
@pytest.mark.parametrize("order", [1, -1])
def test_references_are_scored_by_models_with_and_without_a_pointer_together(order, alignment):
    """Models without a pointer give copied words no probability, as in search."""
    task = make_task(tail=TAIL)
    models = [make_model("etads", task, pointer="soft"), make_model("etads", task)][::order]
    scorer = task.build_generator(models, options(score_reference=True, print_alignment=alignment))
    sample = steps.make_sample(None, [*DOCUMENTS[:2], []], [[50, 5], [9, 47], []])
    net_input, target = sample["net_input"], sample["target"]
    scored = task.inference_step(scorer, models, sample)
    vocabulary = models[0 if order == 1 else 1].decoder.make_output_vocabulary(net_input["src_tokens"])
    extended, total = vocabulary.convert_to_extended_ids(target), 0.0
    for model in models:
        probs = model.get_normalized_probs(model(**net_input), log_probs=False)
        total = total + torch.nn.functional.pad(probs, (0, 9)).gather(2, extended[:, :, None])[:, :, 0]
    for row, found in enumerate(scored):
        kept = target[row].ne(PAD)
        torch.testing.assert_close(found[0]["positional_scores"], (total / 2).log()[row, kept], rtol=1e-4, atol=1e-4)
        assert (found[0]["alignment"] is None) == (alignment is None)
