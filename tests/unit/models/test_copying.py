"""Copying through beam search: extended ids inside, words outside."""

import argparse

import pytest
import torch
from fairseq.token_generation_constraints import pack_constraints
from helpers import EOS, PAD, make_batch, make_dictionary, make_model, make_task

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.layers.decoder_output import DecoderOutput

TAIL = 30
DOCUMENTS = [[5, 50, 6, 50, 5, 61, 7], [9, 9, 9], [3, 8, 45, 3, 60, 62, 63], [70, 71, 70], [52]]


def options(**changes):
    values = {"beam": 3, "max_len_b": 6, "max_len_a": 0, "replace_unk": None, "print_alignment": None}
    values["constraints"] = None
    return argparse.Namespace(**{**values, **changes})


def copying(task, logit=-1e4, kind="soft", **changes):
    """A pointer model that only copies by default."""
    model = make_model("etads", task, pointer=kind, **changes)
    with torch.no_grad():
        model.decoder.pointer.gate.weight.zero_()
        model.decoder.pointer.gate.bias.fill_(logit)
    return model


def fond_of_the_unknown_word(model):
    """The same model, built with ``output_bias``; it writes the unknown word wherever possible."""
    with torch.no_grad():
        model.decoder.output_projection.bias[3] = 20
    return model


def summarise(task, models, documents, prefix=None, **changes):
    generator = task.build_generator(models, options(**changes))
    tokens = make_batch(documents)
    sample = {
        "id": torch.arange(len(tokens)),
        "net_input": {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1)},
    }
    return task.inference_step(generator, models, sample, prefix_tokens=prefix)


def words(hypotheses):
    return [hypothesis[0]["tokens"].tolist() for hypothesis in hypotheses]


@pytest.mark.parametrize("kind", ["soft", "switch"])
def test_copied_words_come_out_under_their_own_ids(kind):
    task = make_task(tail=TAIL)
    found = words(summarise(task, [copying(task, kind=kind)], DOCUMENTS, max_len_b=4))
    for document, summary in zip(DOCUMENTS, found):
        assert summary[-1] == EOS and summary[:-1]
        assert set(summary[:-1]) <= set(document) - {3}, "a word that the document does not have, or an unknown one"
    assert task.target_dictionary.string(torch.tensor(found[4])).split()[0] == "rare8"


def test_documents_that_finish_early_leave_the_others_their_words():
    """The document that finishes first has the most words of its own, so the batch needs fewer slots afterwards."""
    documents = [[9, 9, 9, 50, 51, 52, 53, 54, 55, 56], *DOCUMENTS]
    task = make_task(tail=TAIL)
    model = copying(task, logit=0.0)
    with torch.no_grad():  # prefers to end a summary after 9
        model.decoder.embed_tokens.weight[EOS] = model.decoder.embed_tokens.weight[9] * 2
    together = words(summarise(task, [model], documents, max_len_b=12))
    alone = [words(summarise(task, [model], [document], max_len_b=12))[0] for document in documents]
    assert together == alone
    assert len(alone[0]) < max(map(len, alone)), "it was not done first: nothing was shown"


@pytest.mark.parametrize("allow,seen", [(False, False), (True, True)])
def test_the_unknown_word_appears_only_if_allowed(allow, seen):
    task = make_task(tail=TAIL, allow_unk=allow)
    model = fond_of_the_unknown_word(copying(task, logit=3.0, output_bias=True))
    found = [word for summary in words(summarise(task, [model], DOCUMENTS)) for word in summary]
    assert (3 in found) == seen


def test_a_plain_model_on_a_dictionary_with_a_tail_gives_known_words():
    task, short = make_task(tail=TAIL), make_task()
    found = words(summarise(task, [make_model("etads", task)], DOCUMENTS))
    hidden = [[3 if word >= 44 else word for word in document] for document in DOCUMENTS]
    assert found == words(summarise(short, [make_model("etads", short)], hidden))
    assert max(max(summary) for summary in found) < 44


@pytest.mark.parametrize("pointer", ["none", "soft"])
def test_prefixes_may_hold_words_that_are_copied_or_that_nobody_knows(pointer):
    task = make_task(tail=TAIL)
    model = copying(task, logit=0.0) if pointer == "soft" else make_model("etads", task)
    prefix = torch.tensor([[50, 49], [71, 3], [3, 47]])
    found = words(summarise(task, [model], [[5, 50, 6], [70, 71], [5, 6]], prefix=prefix))
    unknown = 3
    expected = [[50, unknown], [71, unknown], [unknown, unknown]] if pointer == "soft" else [[unknown] * 2] * 3
    assert [summary[:2] for summary in found] == expected


def test_constraints_may_hold_copied_words():
    task = make_task(tail=TAIL)
    model = copying(task, logit=0.0)
    constraints = pack_constraints([[torch.tensor([71])], [torch.tensor([6, 50])]])
    generator = task.build_generator([model], options(constraints="ordered", beam=4, max_len_b=8))
    tokens = make_batch([[5, 70, 71], [5, 50, 6]])
    net_input = {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1)}
    first, second = words(task.inference_step(generator, [model], {"net_input": net_input}, constraints=constraints))
    assert 71 in first
    assert (6, 50) in zip(second, second[1:])


def test_the_dictionary_may_grow_after_the_model_was_built():
    """The dictionary grows in interactive use, and when fairseq encodes its own output, also without a copy tail."""
    for pointer in ("none", "soft"):
        task = make_task()
        model = copying(task, logit=0.0) if pointer == "soft" else make_model("etads", task)
        before = words(summarise(task, [model], [[5, 6, 7]]))
        new = task.src_dict.add_symbol("new", n=0)
        assert words(summarise(task, [model], [[5, 6, 7]])) == before
        found = words(summarise(task, [model], [[5, new, 7, new]]))[0]
        assert max(found) <= new
        tokens = make_batch([[5, new, 7]])
        target = model.decoder.make_output_vocabulary(tokens).convert_to_extended_ids(torch.tensor([[new, new + 9]]))
        assert target.tolist() == [[44 if pointer == "soft" else 3, 3]]


@pytest.mark.parametrize("pointers", [("none", "soft"), ("soft", "soft"), ("none", "none")])
def test_ensembles_average_probabilities(pointers):
    """Models with and without a pointer together: the latter give the documents' own words no probability."""
    task = make_task(tail=TAIL)
    models = []
    for seed, pointer in enumerate(pointers):
        model = copying(task, logit=0.0) if pointer == "soft" else make_model("etads", task)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed)) * 0.05)
        models.append(model)
    for document, hypotheses in zip(DOCUMENTS, summarise(task, models, DOCUMENTS)):
        tokens = make_batch([document])
        target = hypotheses[0]["tokens"][None]
        before = target.roll(1, 1)
        before[:, 0] = EOS
        total = 0.0
        for model in models:
            net_output = model(tokens, tokens.ne(PAD).sum(1), before)
            scores = model.get_normalized_probs(net_output, log_probs=False)
            encoded = model.decoder.make_output_vocabulary(tokens).convert_to_extended_ids(target)
            known = encoded != 3
            total = total + scores.gather(2, encoded[:, :, None])[0, :, 0] * (known | (target == 3))[0]
        torch.testing.assert_close(
            hypotheses[0]["positional_scores"], (total / len(models)).log(), rtol=1e-4, atol=1e-4
        )


def test_positions_are_those_of_the_summary_with_its_own_start_symbol():
    task = make_task(tail=TAIL)
    model = make_model("etads_basic", task, pointer="soft")
    with torch.no_grad():
        model.decoder.pointer.gate.bias.zero_()
    generator = SummaryGenerator([model], task.target_dictionary, beam_size=2, max_len_b=6, copied_positions=True)
    torch.manual_seed(0)
    tokens = make_batch([torch.randint(4, 49, (12,)).tolist() for _ in range(30)])
    sample = {"net_input": {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1)}}
    start = task.target_dictionary.bos()
    for row, (best, *_) in enumerate(generator.generate(None, sample, bos_token=start)):
        before = best["tokens"].roll(1)[None]
        before[:, 0] = start
        output = DecoderOutput.from_fairseq_output(model(tokens[row : row + 1], None, before))
        columns = output.vocabulary.convert_to_target_columns(best["tokens"][None])
        assert output.pointer.find_copied_positions(output.logits, columns)[0].tolist() == best["copied_from"].tolist()


def test_positions_of_copied_words():
    task = make_task(tail=TAIL)
    models = [copying(task)]
    generator = task.build_generator(models, options(), extra_gen_cls_kwargs={"copied_positions": True})
    tokens = make_batch([[5, 50, 6], [70, 71], []])
    sample = {"id": torch.arange(3), "net_input": {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1)}}
    for row, hypotheses in enumerate(task.inference_step(generator, models, sample)):
        for hypothesis in hypotheses:
            assert hypothesis["copied_from"].shape == hypothesis["tokens"].shape
            for word, position in zip(hypothesis["tokens"].tolist(), hypothesis["copied_from"].tolist()):
                assert (position == -1) if word == EOS else tokens[row, position] == word


def test_unknown_words_are_replaced_by_what_is_attended_most():
    task = make_task(tail=TAIL)
    model = fond_of_the_unknown_word(make_model("etads", task, output_bias=True))
    generator = task.build_generator([model], options(), extra_gen_cls_kwargs={"keep_attention": True})
    tokens, prefix = make_batch(DOCUMENTS), torch.full((len(DOCUMENTS), 1), 5)  # a word that is not replaced
    net_input = {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1)}
    plain = task.inference_step(generator, [model], {"net_input": net_input}, prefix_tokens=prefix)
    replaced = summarise(task, [model], DOCUMENTS, prefix=prefix, replace_unk="")
    some = 0
    for document, before, after in zip(DOCUMENTS, plain, replaced):
        attention = before[0]["attention"]  # (S, T)
        for step, (old, new) in enumerate(zip(before[0]["tokens"].tolist(), after[0]["tokens"].tolist())):
            if old != 3:
                assert new == old
                continue
            some += 1
            known = [place for place, word in enumerate(document) if word != 3]
            assert new == document[max(known, key=lambda place: attention[place, step].item())]
    assert some, "no unknown word was produced: nothing was shown"
    task.cfg.replace_unknown = True
    same = summarise(task, [model], DOCUMENTS, prefix=prefix)
    assert words(same) == words(replaced), "--replace-unknown is the same"


def test_an_unknown_word_is_replaced_by_its_spelling_where_there_are_two_dictionaries():
    task = make_task(tail=TAIL)
    task.tgt_dict = make_dictionary(words=20)
    model = fond_of_the_unknown_word(make_model("etads", task, share_all_embeddings=False, output_bias=True))
    documents = [[10, 50, 43], [60, 61]]
    found = summarise(task, [model], documents, replace_unk="")
    spelt = [set(task.tgt_dict.string(hypotheses[0]["tokens"]).split()) for hypotheses in found]
    source = [{task.src_dict[word] for word in document} for document in documents]
    known = {f"w{number}" for number in range(20)}
    assert all(words - known <= document for words, document in zip(spelt, source))
    assert any(words - known for words in spelt), "no unknown word was produced: nothing was shown"
    assert "<unk>" not in spelt[0] | spelt[1]


def test_with_a_file_of_replacements_and_without_known_words_there_is_an_alignment():
    task = make_task(tail=TAIL)
    model = fond_of_the_unknown_word(make_model("etads", task, output_bias=True))
    documents = [[5, 6, 7], [3, 3]]
    plain, filed = words(summarise(task, [model], documents)), summarise(task, [model], documents, replace_unk="file")
    assert words(filed) == plain
    replaced = summarise(task, [model], documents, replace_unk="")
    assert words(replaced)[1] == plain[1], "there is nothing better in the document"
    for document, found in zip(documents, replaced):
        assert len(found[0]["alignment"]) == len(found[0]["tokens"])
        assert all(place < len(document) for place in found[0]["alignment"].tolist())


def test_alignments_are_made_from_the_attention():
    task = make_task(tail=TAIL)
    models = [copying(task)]
    generator = task.build_generator(models, options(print_alignment="hard"))
    tokens = make_batch(DOCUMENTS)
    net_input = {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1)}
    for document, hypotheses in zip(DOCUMENTS, task.inference_step(generator, models, {"net_input": net_input})):
        best = hypotheses[0]
        attention = best["attention"][: len(document)]  # of the words, not of the end symbol
        expected = [(attention[:, step].argmax().item(), step) for step in range(len(best["tokens"]) - 1)]
        assert [tuple(map(int, pair)) for pair in best["alignment"]] == expected
    soft = summarise(task, models, DOCUMENTS, print_alignment="soft")
    assert all(len(hypotheses[0]["alignment"]) for hypotheses in soft)


def test_replacing_and_aligning_exclude_one_another():
    task = make_task(tail=TAIL)
    with pytest.raises(ValueError, match="--print-alignment hard does not go with --replace-unknown"):
        task.build_generator([copying(task)], options(replace_unk="", print_alignment="hard"))


def test_references_are_scored_as_the_criterion_does():
    task = make_task(tail=TAIL)
    model = copying(task, logit=0.0)
    scorer = task.build_generator([model], options(score_reference=True))
    target = make_batch([[50, 5], [9, 47]])
    previous = target.roll(1, 1)
    previous[:, 0] = EOS
    tokens = make_batch(DOCUMENTS[:2])
    net_input = {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1), "prev_output_tokens": previous}
    scored = task.inference_step(scorer, [model], {"id": torch.arange(2), "net_input": net_input, "target": target})
    net_output = model(**net_input)
    encoded = net_output[1]["output"].pointer.vocab.encode(target)
    expected = model.get_normalized_probs(net_output, log_probs=True).gather(2, encoded[:, :, None])[:, :, 0]
    for row in range(2):
        torch.testing.assert_close(scored[row][0]["positional_scores"], expected[row])
        assert torch.equal(scored[row][0]["tokens"], target[row]), "words, not slots"


@pytest.mark.parametrize("alignment", [None, "hard"])
@pytest.mark.parametrize("order", [1, -1])
def test_references_are_scored_by_models_with_and_without_a_pointer_together(order, alignment):
    """Models without a pointer give copied words no probability, as in search. Includes an empty document and
    summary.
    """
    task = make_task(tail=TAIL)
    models = [copying(task, logit=0.0), make_model("etads", task)][::order]
    scorer = task.build_generator(models, options(score_reference=True, print_alignment=alignment))
    target = make_batch([[50, 5], [9, 47], []])
    previous = target.roll(1, 1)
    previous[:, 0] = EOS
    tokens = make_batch([DOCUMENTS[0], DOCUMENTS[1], []])
    net_input = {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1), "prev_output_tokens": previous}
    scored = task.inference_step(scorer, models, {"id": torch.arange(3), "net_input": net_input, "target": target})
    vocabulary = models[0 if order == 1 else 1].decoder.make_output_vocabulary(tokens)
    extended, total = vocabulary.convert_to_extended_ids(target), 0.0
    for model in models:
        probs = model.get_normalized_probs(model(**net_input), log_probs=False)
        total = total + torch.nn.functional.pad(probs, (0, 9)).gather(2, extended[:, :, None])[:, :, 0]
    for row, found in enumerate(scored):
        kept = target[row].ne(PAD)
        torch.testing.assert_close(found[0]["positional_scores"], (total / 2).log()[row, kept], rtol=1e-4, atol=1e-4)
        assert (found[0]["alignment"] is None) == (alignment is None)


@pytest.mark.parametrize("kind", ["soft", "switch"])
@pytest.mark.parametrize("temperature", [0.5, 3.0])
def test_the_temperature_is_that_of_the_whole_mixture(kind, temperature):
    """Temperature also applies to copied words: log P(w) / T, normalised again."""
    task = make_task(tail=TAIL)
    model = copying(task, logit=0.5, kind=kind)
    for document, found in zip(DOCUMENTS, summarise(task, [model], DOCUMENTS, beam=1, temperature=temperature)):
        tokens, target = make_batch([document]), found[0]["tokens"][None]
        before = target.roll(1, 1)
        before[:, 0] = EOS
        with torch.no_grad():
            net_output = model(tokens, tokens.ne(PAD).sum(1), before)
            scores = model.get_normalized_probs(net_output, log_probs=True)
        scores = (scores / temperature).log_softmax(-1)
        encoded = model.get_targets({"target": target}, net_output)
        expected = scores.gather(2, encoded[:, :, None])[0, :, 0]
        torch.testing.assert_close(found[0]["positional_scores"], expected, rtol=1e-4, atol=1e-4)
