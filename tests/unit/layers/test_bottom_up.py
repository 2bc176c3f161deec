"""Pointers restricted to a selector's words (--selection): the equation, the search, and a task that needs it."""

from dataclasses import replace

import pytest
import reference
import torch
from decoding import make_sample, sharpen
from fairseq.dataclass.configs import GenerationConfig
from helpers import EOS, PAD, make_batch, make_model
from omegaconf import OmegaConf
from recurrent import recurrent, recurrent_task

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.layers.pointer import Selection

MARK = 43
TASK = recurrent_task()
DOCUMENTS = [[5, 6, 44, 7, 45, MARK, 9, 5, 46, 45], [30, 31], [4, 47, 5, 8, 8, 44, 49], [21, 22, 50, 23, 51]]


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
    q[1:4, 0], q[1:4, 1] = 0.1, 0.9
    found = pointer.restrict_to_selection(Selection(q, 0.5, 1.0)).compute_log_probs(logits)
    assert [torch.equal(x, y) for x, y in zip(found, pointer.compute_log_probs(logits))] == [True, *[False] * 3, True]
    with_factor = pointer.restrict_to_selection(Selection(q, -1.0, 2.0))
    assert torch.equal(with_factor.gate[4], pointer.gate[4]), "a document without a word is generated from alone"


@pytest.mark.parametrize("arch", ["etads", "pg_coverage", "words_lvt2k"])
def test_the_search_scores_what_the_whole_model_gives(arch):
    """Cached decoding equals uncached, and finished documents take their probabilities with them."""
    model, sample = model_of(arch), sample_of(DOCUMENTS)
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
    models, sample = [model_of("etads"), model_of("pg_coverage")], sample_of(DOCUMENTS)
    found = search(models, sample, selection_threshold=0.5)
    for document, q, hypotheses in zip(DOCUMENTS, sample["selection"].tolist(), found):
        copied = {word for h in hypotheses for word in h["tokens"].tolist() if word >= 44}
        assert copied <= {word for word, value in zip(document, q) if value > 0.5}


def test_options_of_decoding_are_checked():
    task = recurrent_task(selection="somewhere")
    options = OmegaConf.structured(GenerationConfig(beam=2, max_len_b=6))
    assert task.build_generator([model_of("etads")], options).options.selection_threshold == 0.15
    for pointer in ("none", "switch"):
        with pytest.raises(ValueError, match="--selection somewhere needs"):
            task.build_generator([make_model("etads", task, pointer=pointer)], options)
