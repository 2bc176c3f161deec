"""Pointers restricted to a selector's words (--selection): the equation, the search, and a task that needs it."""

import random
from dataclasses import replace

import pytest
import reference
import torch
from decoding import sharpen
from fairseq.dataclass.configs import GenerationConfig
from helpers import EOS, PAD, make_batch, make_model, make_task
from omegaconf import OmegaConf
from recurrent import recurrent, recurrent_task

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.layers.pointer import Selection

MARK = 43
TASK = recurrent_task()
ARCHS = ("etads", "pg_coverage", "words_lvt2k")
DOCUMENTS = [[5, 6, 44, 7, 45, MARK, 9, 5, 46, 45], [30, 31], [4, 47, 5, 8, 8, 44, 49], [21, 22, 50, 23, 51]]


def model_of(arch, task=TASK):
    build = recurrent if arch in ("gru_seq2seq", "pg_coverage", "words_lvt2k") else make_model
    model = build(arch, task, pointer="soft")
    if arch == "etads":
        sharpen(model)
    return model


def selection_of(tokens, seed=1, low=0.0):
    """Random probabilities, missing at marks, end symbols and padding."""
    r = random.Random(seed)
    values = [[r.uniform(low, 1) for _ in row] for row in tokens.tolist()]
    special = (tokens == PAD) | (tokens == EOS) | (tokens == MARK)
    return torch.tensor(values).masked_fill(special, -1)


def sample_of(documents, probabilities, **padding):
    """A batch with the probabilities (a list for each document, without the end symbol)."""
    tokens = make_batch(documents, **padding)
    table = torch.full(tokens.shape, -1.0)
    for row, values in zip(range(len(tokens)), probabilities):
        table[row, tokens[row] != PAD] = torch.tensor([*values, -1.0])
    return {
        "id": torch.arange(len(tokens)),
        "net_input": {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1)},
        "selection": table,
    }


def probabilities(seed=1):
    r = random.Random(seed)
    return [[-1.0 if word == MARK else r.random() for word in document] for document in DOCUMENTS]


def search(model, sample, **options):
    generator = SummaryGenerator([model], TASK.target_dictionary, beam_size=3, max_len_b=8, **options)
    return generator.generate(None, sample)


def tokens_and_scores(results):
    return [[(h["tokens"].tolist(), h["positional_scores"]) for h in row] for row in results]


def pointer_of(model, tokens, previous):
    with torch.no_grad():
        logits, extra = model(tokens, tokens.ne(PAD).sum(1), previous)
    return logits, extra["output"].pointer


@pytest.mark.parametrize("arch", ["etads", "pg_coverage"])
@pytest.mark.parametrize("threshold, factor", [(0.5, 2.0), (0.5, 0.3), (0.99, 3.0), (-1.0, 2.0), (0.9, 1.0)])
def test_the_distribution_is_that_of_the_definition(arch, threshold, factor):
    model, tokens = model_of(arch), make_batch(DOCUMENTS)
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
    model, tokens = model_of("etads"), make_batch([*DOCUMENTS, []])
    logits, pointer = pointer_of(model, tokens, torch.tensor([[EOS, 5]] * 5))
    for threshold, low in ((-1.0, 0.0), (0.5, 0.6), (1 - 1e-6, 0.0)):  # all; all; none, and so all
        q = selection_of(tokens, low=low)
        found = pointer.restrict_to_selection(Selection(q, threshold, 1.0)).compute_log_probs(logits)
        assert torch.equal(found, pointer.compute_log_probs(logits))
    q = selection_of(tokens)
    q[0] = q[0].clamp(min=0.6)  # all words of one document only
    found = pointer.restrict_to_selection(Selection(q, 0.5, 1.0)).compute_log_probs(logits)
    assert [torch.equal(x, y) for x, y in zip(found, pointer.compute_log_probs(logits))] == [True, *[False] * 3, True]
    with_factor = pointer.restrict_to_selection(Selection(q, -1.0, 2.0))
    assert torch.equal(with_factor.gate[4], pointer.gate[4]), "a document without a word is generated from alone"


@pytest.mark.parametrize("arch", ARCHS)
def test_the_search_scores_what_the_whole_model_gives(arch):
    """Cached decoding equals uncached, and finished documents take their probabilities with them."""
    model, sample = model_of(arch), sample_of(DOCUMENTS, probabilities())
    # the second document is finished first: no summary is longer than its document
    results = search(model, sample, selection_threshold=0.5, selection_factor=3.0, match_source_len=True)
    plain = search(model, {**sample, "selection": torch.full_like(sample["selection"], -1)})
    assert tokens_and_scores(results) != tokens_and_scores(plain)
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
    documents, q = [[45, 45, 45, 45, 45], [44, 46, 44, 46, 44]], [[0, 0, 0, 1, 0], [0, 0, 0, 1, 1]]
    for row, hypotheses in enumerate(
        search(model, sample_of(documents, q), selection_threshold=0.5, copied_positions=True)
    ):
        found = {int(p) for h in hypotheses for p in h["copied_from"] if p >= 0}
        assert found and found <= {place for place, value in enumerate(q[row]) if value}


def test_ensembles_select_in_each_model():
    models, sample = [model_of("etads"), model_of("pg_coverage")], sample_of(DOCUMENTS, probabilities())
    generator = SummaryGenerator(models, TASK.target_dictionary, beam_size=2, max_len_b=8, selection_threshold=0.5)
    allowed = [{w for w, q in zip(d, p) if q > 0.5 or q < 0} for d, p in zip(DOCUMENTS, probabilities())]
    for row, hypotheses in enumerate(generator.generate(None, sample)):
        unknown = {word for h in hypotheses for word in h["tokens"].tolist() if word >= 44}
        assert unknown <= allowed[row]


def test_options_of_decoding_are_checked():
    task = recurrent_task(selection="somewhere")
    options = OmegaConf.structured(GenerationConfig(beam=2, max_len_b=6))
    assert task.build_generator([model_of("etads")], options).options.selection_threshold == 0.15
    for pointer in ("none", "switch"):
        with pytest.raises(ValueError, match="--selection somewhere needs models with --pointer soft"):
            task.build_generator([make_model("etads", task, pointer=pointer)], options)
    with pytest.raises(ValueError, match=r"--min-sentences 2: this model does not write sentence marks \(<q>\)"):
        SummaryGenerator([model_of("etads")], make_task(tail=9).target_dictionary, min_sentences=2)
