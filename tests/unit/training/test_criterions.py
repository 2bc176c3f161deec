"""summarization_nll: against fairseq's criterions and loops; logging; the schedule."""

import math

import pytest
import reference
import steps
import torch
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.logging import metrics
from helpers import PAD, make_model, make_task

from fairseq_etads.layers.attention_probe import FIGURES
from fairseq_etads.training.losses import SummarizationNLL, coverage_loss

DOCUMENTS = [[5, 50, 6, 50, 5, 61, 7], [9, 9, 9], [70, 71, 70], []]
SUMMARIES = [[50, 5, 12], [9, 47], [71, 4], [6, 7]]


def criterion(task, **options):
    return SummarizationNLL(task, **options)


def make_sample(documents=DOCUMENTS, summaries=SUMMARIES, left=False):
    sample = steps.make_sample(None, documents, summaries, left)
    return {**sample, "id": sample["id"] + 7}


def build(pointer, **options):
    task = make_task(tail=30)
    return make_model("etads", task, pointer=pointer), criterion(task, **options)


def test_without_options_it_is_fairseqs_cross_entropy():
    model, ours = build("none")
    sample = make_sample()
    expected, size, _ = CrossEntropyCriterion(ours.task, sentence_avg=False)(model, sample)
    found, found_size, _ = ours(model, sample)
    torch.testing.assert_close(found, expected)
    assert found_size == size == sample["ntokens"] and SummarizationNLL.logging_outputs_can_be_summed()


@pytest.mark.parametrize("pointer", ["none", "soft"])
def test_likelihood_and_smoothing_equal_a_loop_over_the_words_that_can_be_produced(pointer):
    model, ours = build(pointer, label_smoothing=0.1)
    sample = make_sample()
    loss, _, logs = ours(model, sample)
    net_output = model(**sample["net_input"])
    scores = model.get_normalized_probs(net_output, log_probs=True).double()
    target = model.get_targets(sample, net_output)
    nll = smooth = 0.0
    for row, summary in enumerate(SUMMARIES):
        for step in range(len(summary) + 1):
            possible = [w for w in range(scores.shape[2]) if w not in (0, PAD) and scores[row, step, w] > -math.inf]
            nll -= scores[row, step, target[row, step]].item()
            smooth -= sum(scores[row, step, word].item() for word in possible) / len(possible)
    assert logs["nll_loss"].item() == pytest.approx(nll, rel=1e-5)
    assert loss.item() == pytest.approx(0.9 * nll + 0.1 * smooth, rel=1e-5)


def test_coverage_loss_equals_a_loop_on_either_side_of_padding():
    attention = torch.rand(2, 5, 6).softmax(-1)
    real = torch.tensor([[True, True, True, True, True], [False, False, True, True, True]])
    found = coverage_loss(attention, real)
    torch.testing.assert_close(found[0], torch.tensor(reference.coverage_loss(attention[0])))
    torch.testing.assert_close(found[1, 2:], torch.tensor(reference.coverage_loss(attention[1, 2:])))
    assert found[1, :2].tolist() == [0, 0]


@pytest.mark.parametrize("pointer", ["none", "soft"])
def test_coverage_counts_in_training_from_its_start_and_ramps_up(pointer):
    model, ours = build(pointer, coverage_loss=2.0, coverage_loss_start=10, coverage_loss_ramp=4)
    model.train()
    losses, coverage = [], None
    for update in (0, 9, 10, 12, 14, 1000):
        ours.set_num_updates(update)
        loss, _, logs = ours(model, make_sample())
        losses.append(loss.item())
        coverage = logs["coverage_loss"].item()
    assert coverage > 0
    expected = [losses[0] + weight * coverage for weight in (0, 0, 2 / 5, 6 / 5, 2, 2)]
    assert losses == pytest.approx(expected, rel=1e-6)
    assert ours(model.eval(), make_sample())[0].item() == pytest.approx(losses[0], rel=1e-6), "validation compares"


def test_coverage_with_a_pointer_is_that_of_the_copy_attention():
    model, ours = build("soft", coverage_loss=1.0)
    sample = make_sample(DOCUMENTS[:3], SUMMARIES[:3])
    extra = model(**sample["net_input"])[1]
    found = ours(model, sample)[2]["coverage_loss"].item()
    for attention, same in ((extra["output"].pointer.log_copy.exp(), True), (extra["attn"][0], False)):
        rows = zip(attention.detach(), sample["target"].ne(PAD))
        expected = sum(sum(reference.coverage_loss(row[words])) for row, words in rows)
        assert (found == pytest.approx(expected, rel=1e-3)) == same


def test_figures_are_means_over_words_and_summaries_in_bits():
    """Two intervals that are logged together are weighted by their numbers."""
    bit = math.log(2)
    first = {"loss": 12.34567 * bit, "nll_loss": 9.87654 * bit, "ntokens": 4, "nsentences": 3, "sample_size": 5}
    second = {"loss": 1.5 * bit, "nll_loss": 2.5 * bit, "ntokens": 8, "nsentences": 2, "sample_size": 15}
    names = ("p_gen", "copied", "coverage_loss", "extraction_loss", "inconsistency_loss", "closed_book_loss", *FIGURES)
    of_words = {name: (number + 1) * 1.11111 for number, name in enumerate(names)}
    counts, more = ({f"{name}_count": number for name in FIGURES} for number in (3, 9))
    metrics.reset()
    with metrics.aggregate() as values:
        SummarizationNLL.reduce_metrics([{**first, **of_words, "selection_loss": 4.44444, **counts}])
        SummarizationNLL.reduce_metrics([{**dict.fromkeys([*of_words, "selection_loss"], 0), **second, **more}])
    nll = (9.87654 + 2.5) / 12
    expected = {"loss": round((12.34567 + 1.5) / 20, 3), "nll_loss": round(nll, 3), "ppl": round(2**nll, 2)}
    expected |= {"nll_per_summary": round((9.87654 + 2.5) / 5, 2), "selection_loss": round(4.44444 / 5, 3)}
    assert values.get_smoothed_values() == expected | {name: round(of_words[name] / 12, 3) for name in names}


@pytest.mark.parametrize("pointer", ["none", "soft", "switch"])
def test_a_length_normalised_loss_is_the_mean_over_summaries_of_their_own_means(pointer):
    """This includes the coverage loss and padding on either side. A mean over all words would be another number."""
    options = {"label_smoothing": 0.1, "coverage_loss": 2.0}
    model, ours = build(pointer, length_normalised=True, **options)
    model, by_word = model.train(), criterion(ours.task, **options)
    means = []
    summaries = [*SUMMARIES[:3], []]  # an empty summary has one word, the end symbol
    for document, summary in zip(DOCUMENTS, summaries):
        loss, words, _ = by_word(model, make_sample([document], [summary]))
        means.append(float(loss) / words)
    for left in (False, True):
        loss, size, logs = ours(model, make_sample(summaries=summaries, left=left))
        assert size == logs["sample_size"] == logs["nsentences"] == len(DOCUMENTS)
        assert float(loss) / size == pytest.approx(sum(means) / len(means), rel=1e-5)
        plain, words, plain_logs = by_word(model, make_sample(summaries=summaries, left=left))
        assert abs(float(plain) / words - float(loss) / size) > 1e-3
        for name in ("nll_loss", "coverage_loss", "ntokens"):  # figures are still per word
            assert float(logs[name]) == pytest.approx(float(plain_logs[name]), rel=1e-5)
