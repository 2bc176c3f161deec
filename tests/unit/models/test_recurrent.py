"""The recurrent family: equations against loops, invariances, gradients, cached decoding."""

import pytest
import reference
import torch
from helpers import EOS, PAD, RECURRENT, make_batch, make_dictionary
from recurrent import ARCHS, DOCUMENTS, MARK, SUMMARIES, V, encode, inputs, log_probs, recurrent, recurrent_task

from fairseq_etads.kernels.beam_state import BeamState
from fairseq_etads.layers.recurrent import compute_sentence_ids, find_sentence_ends
from fairseq_etads.training.losses import SummarizationNLL


@pytest.mark.parametrize("arch", ARCHS)
def test_padding_side_and_batch_composition_change_nothing(arch):
    model = recurrent(arch)
    alone = [encode(model, make_batch([document])) for document in DOCUMENTS]
    for left in (False, True):
        for width in (None, 30):
            tokens = make_batch(DOCUMENTS, left=left, width=width)
            together = encode(model, tokens)
            for row, one in enumerate(alone):
                real = tokens[row].ne(PAD)
                for name in ("encoder_out", "keys"):
                    torch.testing.assert_close(together[name][0][row][real], one[name][0][0], rtol=0, atol=2e-6)
                for name in {"first_state", "first_cell"}.intersection(together):
                    torch.testing.assert_close(together[name][0][row], one[name][0][0], rtol=0, atol=2e-6)


@pytest.mark.parametrize("arch", ARCHS)
def test_summary_distributions_do_not_depend_on_padding_or_the_batch(arch):
    model = recurrent(arch)
    previous = torch.tensor([[EOS, *summary] + [PAD] * (4 - len(summary)) for summary in SUMMARIES])
    for row, summary in enumerate(SUMMARIES):
        steps = len(summary) + 1
        alone, alone_extra = log_probs(model, make_batch([DOCUMENTS[row]]), previous[row : row + 1, :steps])
        for left in (False, True):
            tokens = make_batch(DOCUMENTS, left=left, width=25)
            together, extra = log_probs(model, tokens, previous)
            width = alone.shape[2]
            torch.testing.assert_close(together[row : row + 1, :steps, :width], alone, rtol=0, atol=1e-5)
            assert together[row, :, width:].isneginf().all()
            attention = extra["attn"][0][row : row + 1, :steps, tokens[row].ne(PAD)]
            torch.testing.assert_close(attention, alone_extra["attn"][0], rtol=0, atol=2e-6)
            torch.testing.assert_close(attention.sum(-1), torch.ones(1, steps))


@pytest.mark.parametrize("arch", ARCHS)
def test_summaries_may_be_padded_on_the_left(arch):
    model = recurrent(arch)
    tokens = make_batch(DOCUMENTS[:1])
    plain, _ = log_probs(model, tokens, torch.tensor([[EOS, 5, MARK, 6]]))
    padded, _ = log_probs(model, tokens, torch.tensor([[PAD, PAD, EOS, 5, MARK, 6]]))
    torch.testing.assert_close(padded[:, 2:], plain, rtol=0, atol=2e-6)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("left", [False, True])
def test_cached_decoding_equals_uncached_decoding(arch, left):
    model = recurrent(arch)
    tokens = make_batch(DOCUMENTS, left=left)
    previous = torch.tensor([[EOS, 5, MARK, 4, 7, MARK, 8]]).expand(len(DOCUMENTS), -1)
    full, extra = log_probs(model, tokens, previous)
    encoded, state = encode(model, tokens), {}
    with torch.no_grad():
        for step in range(previous.shape[1]):
            out = model.decoder(previous[:, : step + 1], encoder_out=encoded, incremental_state=state)
            scores = model.get_normalized_probs(out, log_probs=True)
            torch.testing.assert_close(scores[:, 0], full[:, step], rtol=0, atol=1e-5)
            torch.testing.assert_close(out[1]["attn"][0][:, 0], extra["attn"][0][:, step], rtol=0, atol=2e-6)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("shared", [False, True])
def test_beams_change_places_and_documents_leave(arch, shared):
    """Three beams of each document, with rows of the encoder for each of them or for the document alone."""
    model = recurrent(arch)
    tokens, beam = make_batch(DOCUMENTS), 3
    rows = torch.arange(len(DOCUMENTS)).repeat_interleave(beam)
    first = torch.tensor([EOS]).expand(len(rows), 1)
    second = torch.cat([first, torch.arange(4, 4 + len(rows))[:, None]], dim=1)
    second[::2, 1] = MARK
    documents, parents = torch.tensor([0, 2, 4]), torch.tensor([[2, 0, 0], [1, 1, 2], [0, 2, 1]])
    kept = (documents[:, None] * beam + parents).view(-1)
    third = torch.cat([second[kept], torch.arange(9)[:, None] + 5], dim=1)
    encoded = encode(model, tokens)
    with torch.no_grad():
        if shared:
            state = BeamState(len(tokens), tokens.device)
            state.beam = beam
        else:
            state, encoded = {}, model.encoder.reorder_encoder_out(encoded, rows)
        for words in (first, second):
            model.decoder(words, encoder_out=encoded, incremental_state=state)
        model.decoder.reorder_incremental_state_scripting(state, kept)
        encoded = model.encoder.reorder_encoder_out(encoded, documents if shared else kept)
        out = model.decoder(third, encoder_out=encoded, incremental_state=state)
        scores = model.get_normalized_probs(out, log_probs=True)[:, 0]
    expected, extra = log_probs(model, tokens[documents].repeat_interleave(beam, 0), third)
    width = expected.shape[2]
    torch.testing.assert_close(scores[:, :width], expected[:, 2], rtol=0, atol=1e-5)
    torch.testing.assert_close(out[1]["attn"][0][:, 0], extra["attn"][0][:, 2], rtol=0, atol=2e-6)


@pytest.mark.parametrize("arch", ARCHS)
def test_every_parameter_receives_gradient(arch):
    model = recurrent(arch).train()
    task = recurrent_task()
    target = make_batch([[5, 45, MARK], [30, 8], [47, MARK, 4], [6], [50, 50]])
    previous = target.roll(1, 1)
    previous[:, 0] = EOS
    sample = {"net_input": {**inputs(model, make_batch(DOCUMENTS)), "prev_output_tokens": previous}, "target": target}
    sample["ntokens"] = 14
    criterion = SummarizationNLL(task, False, 0.1, 0.5, 0, 0, 1.0)
    criterion(model, sample)[0].backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, f"{name} receives no gradient"


@pytest.mark.parametrize(
    "option",
    [
        {"temporal_attention": True},
        {"coverage": True},
        {"hierarchical_attention": True},
        {"pointer": "soft"},
        {"pointer": "switch"},
        {"source_factors": "tf,pos:3"},
        {"large_vocabulary_trick": 12},
        {"encoder_layers": 2},
    ],
    ids=lambda option: "-".join(option),
)
def test_each_option_changes_the_output(option):
    """A model that differs only in the option computes something else, with all common weights equal."""
    with_it, without = recurrent("gru_seq2seq", **option), recurrent("gru_seq2seq")
    with torch.no_grad():  # attention's preferences should show
        for name, parameter in with_it.named_parameters():
            if name.endswith(("attention.weight", "coverage_weight")):
                parameter.mul_(30)
    own = without.state_dict()
    shared = {name: value for name, value in with_it.state_dict().items() if name in own}
    if "source_factors" in option:  # the first GRU layer is wider: give it the same columns for words
        for suffix in ("", "_reverse"):
            name = f"encoder.gru.rnn.weight_ih_l0{suffix}"
            shared[name] = shared[name][:, : RECURRENT["encoder_embed_dim"]]
    own.update(shared)
    without.load_state_dict(own)
    previous = torch.tensor([[EOS, 5, 6, 7]]).expand(len(DOCUMENTS), -1)
    tokens = make_batch(DOCUMENTS)
    a, b = log_probs(with_it, tokens, previous)[0][:, :, :V], log_probs(without, tokens, previous)[0]
    assert not torch.allclose(a, b, rtol=0, atol=1e-4)


@pytest.mark.parametrize("pointer", ["none", "soft", "switch"])
def test_the_trick_over_all_words_is_the_full_softmax(pointer):
    task = recurrent_task()
    full, tricked = (recurrent("gru_seq2seq", task, pointer=pointer, large_vocabulary_trick=n) for n in (0, V))
    tricked.load_state_dict(full.state_dict())
    tokens, previous = make_batch(DOCUMENTS), make_batch(SUMMARIES)
    torch.testing.assert_close(log_probs(tricked, tokens, previous)[0], log_probs(full, tokens, previous)[0])
    losses, gradients = [], []
    for model in (full, tricked):
        model.train()
        sample = {"net_input": {**inputs(model, tokens), "prev_output_tokens": previous}, "target": previous}
        sample["ntokens"] = 9
        losses.append(SummarizationNLL(task, False, 0.1, 0.0, 0, 0, 1.0)(model, sample)[0])
        losses[-1].backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    torch.testing.assert_close(losses[1], losses[0])
    for a, b in zip(*gradients):
        torch.testing.assert_close(a, b)


def test_the_trick_runs_over_the_words_that_the_paper_says():
    """The softmax is over the batch's words in training, and otherwise over the document's, without the summary's."""
    model = recurrent("words_lvt2k", large_vocabulary_trick=12)
    tokens, previous = make_batch(DOCUMENTS), torch.tensor([[EOS, 40, 41]]).expand(5, -1)
    for training in (True, False):
        model.train(training)
        with torch.no_grad():
            output = model(**inputs(model, tokens), prev_output_tokens=previous)
            scores = model.get_normalized_probs(output, log_probs=True)
        texts = tokens.tolist()
        for row, text in enumerate(texts):
            expected = reference.candidates(texts if training else [text], 12, V, 4)
            assert scores[row, 0].isfinite().nonzero().flatten().tolist() == expected
        torch.testing.assert_close(scores.exp().sum(2), torch.ones(5, 3))


@pytest.mark.parametrize("arch", ["words_lvt2k", "feats_lvt2k_ptr"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_words_that_only_other_documents_have_are_unknown_in_validation(arch, smoothing):
    """In evaluation, each document has its own list; other words have no probability."""
    task = recurrent_task()
    model = recurrent(arch, task, large_vocabulary_trick=6)
    tokens, target = make_batch([[40, 30], [41, 31]]), make_batch([[41, 30], [40, 31]])
    unknown = torch.where(target == torch.tensor([[41], [40]]), task.target_dictionary.unk(), target)
    losses = []
    for summaries in (target, unknown):
        sample = {
            "net_input": {**inputs(model, tokens), "prev_output_tokens": target},
            "target": summaries,
            "ntokens": 6,
        }
        losses.append(SummarizationNLL(task, False, smoothing, 0.0, 0, 0, 1.0)(model, sample)[0])
    assert losses[0].isfinite()
    torch.testing.assert_close(losses[0], losses[1])


def test_rows_that_no_text_asks_for_receive_no_gradient():
    model = recurrent("words_lvt2k", large_vocabulary_trick=12).train()
    tokens = make_batch([[30, 31]])
    out, _ = model(**inputs(model, tokens), prev_output_tokens=torch.tensor([[EOS, 35]]))
    out.logsumexp(2).sum().backward()
    touched = model.decoder.output_projection.weight.grad.abs().sum(1).nonzero().flatten().tolist()
    assert touched == reference.candidates([[30, 31]], 12, V, 4) and 35 not in touched


def test_two_dictionaries_are_matched_by_spelling():
    task = recurrent_task()
    task.tgt_dict = make_dictionary(words=30)
    target = task.tgt_dict
    target.symbols[4:] = target.symbols[:3:-1]  # the same words in another order
    target.indices = {word: number for number, word in enumerate(target.symbols)}
    model = recurrent("words_lvt2k", task, large_vocabulary_trick=1)
    document = [4, 9, 40, 46]  # the last two are not among the summaries' words
    scores, _ = log_probs(model, make_batch([document]), torch.tensor([[EOS]]))
    words = [target[number] for number in scores[0, 0].isfinite().nonzero().flatten().tolist()]
    assert sorted(words[4:]) == sorted(task.src_dict[number] for number in document[:2])


def attend(model, encoded, hidden, word, past, covered, sentences):
    """One step of attention over one document, in loops; float64."""
    decoder, keys = model.decoder, encoded["keys"][0][0]

    def scores_of(part, keys, *extra):
        query = part.from_hidden(hidden) + part.from_word(word)
        return reference.additive_scores(query[None], keys, part.weight, *extra)[0]

    extra = (covered[None], decoder.coverage_weight) if decoder.coverage_weight is not None else ()
    scores = scores_of(decoder.attention, keys, *extra)
    past.append(scores)
    weights = reference.temporal_attention(torch.stack(past))[-1] if decoder.temporal else scores.softmax(0)
    if decoder.sentence_attention is not None:
        by_sentence = scores_of(decoder.sentence_attention, encoded["sentence_keys"][0][0]).softmax(0)
        weights = reference.hierarchical_attention(weights[None], by_sentence[None], sentences)[0]
    return weights


@pytest.mark.parametrize(
    "options",
    [{}, {"temporal_attention": True}, {"coverage": True}, {"hierarchical_attention": True}]
    + [{"temporal_attention": True, "hierarchical_attention": True, "coverage": True}],
    ids=lambda options: "-".join(options) or "plain",
)
def test_the_decoder_is_the_loop(options):
    model = recurrent("gru_seq2seq", **options).double()
    document, previous = DOCUMENTS[0], [EOS, 5, 6, 7]
    tokens, fed = make_batch([document]), torch.tensor([previous])
    with torch.no_grad():
        encoded = model.encoder(tokens)
        got, extra = model.decoder(fed, encoder_out=encoded)
        decoder, memory = model.decoder, encoded["encoder_out"][0][0]
        hidden, past, covered = encoded["first_state"][0][0], [], torch.zeros(len(memory)).double()
        sentences = [sum(word == MARK for word in document[:place]) for place in range(len(document) + 1)]
        for t, token in enumerate(previous):
            word = decoder.embed_tokens.weight[token]
            weights = attend(model, encoded, hidden, word, past, covered, sentences)
            covered = covered + weights
            context = sum(weight * state for weight, state in zip(weights, memory))
            gates = [getattr(decoder.cell, name) for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
            hidden = reference.gru_step(torch.cat([word, context]), hidden, *gates)
            states = torch.tanh(decoder.readout(torch.cat([hidden, word, context])))
            logits = decoder.output_projection.weight @ states + decoder.output_projection.bias[:, 0]
            torch.testing.assert_close(extra["attn"][0][0, t], weights)
            torch.testing.assert_close(got[0, t], logits)


def test_sentences_are_counted_by_their_marks():
    tokens = make_batch(DOCUMENTS, left=True)
    padding = tokens.eq(PAD)
    ids = compute_sentence_ids(tokens, MARK)
    for row, real, document in zip(ids, ~padding, DOCUMENTS):
        expected = [sum(word == MARK for word in document[:place]) for place in range(len(document) + 1)]
        assert row[real].tolist() == expected
    first, last, missing = find_sentence_ends(ids, padding)
    assert missing.sum(1).tolist() == [0, 2, 0, 2, 2]
    width = tokens.shape[1]
    assert first[0].tolist() == [width - 12, width - 9, width - 4]
    assert last[0].tolist() == [width - 10, width - 5, width - 1]
    assert first[3, 0] == last[3, 0] == width - 1


def test_the_encoder_is_its_gru_in_both_directions():
    model = recurrent("gru_seq2seq")
    document = make_batch([DOCUMENTS[2]])
    encoded = encode(model, document)
    rnn, x = model.encoder.gru.rnn, model.encoder.embed_tokens(document)[0].detach()
    hidden = RECURRENT["encoder_hidden_size"]
    for suffix, steps, half in (("", range(len(x)), 0), ("_reverse", reversed(range(len(x))), hidden)):
        names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        gates = [getattr(rnn, name + suffix).detach() for name in names]
        state = torch.zeros(hidden)
        for place in steps:
            state = reference.gru_step(x[place], state, *gates)
            got = encoded["encoder_out"][0][0, place, half : half + hidden]
            torch.testing.assert_close(got, state, rtol=0, atol=1e-5)
