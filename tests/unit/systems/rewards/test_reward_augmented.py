"""summarization_raml: sampling and weights against enumeration and loops, and learning."""

from collections import Counter
from types import SimpleNamespace

import pytest
import reference
import torch
from helpers import EOS, PAD, make_model, make_task
from recurrent import MARK, recurrent_task
from seeds import shifted
from test_criterions import criterion, make_sample

from fairseq_etads.platform.command_options import check_options
from fairseq_etads.systems.entailment.model import EntailmentScorer, NliConfig
from fairseq_etads.systems.rewards.augmented import (
    EditedReferences,
    SummarizationRAML,
    SummarizationRAMLConfig,
    compute_edit_count_distribution,
    compute_sample_weights,
    make_augmented_batch,
)
from fairseq_etads.text.subsequences import rouge_n

RAML = {"raml_reward": "none", "raml_temperature": 0.85, "raml_samples": 5, "raml_entailment_model": None}
TASK = {"tail": 30}


def raml(task=None, **options):
    return SummarizationRAML(task or make_task(**TASK), **{**RAML, **options})


def test_the_number_of_edits_is_that_of_all_texts_gone_through():
    for temperature in (0.5, 0.85, 2.0):
        want = torch.tensor(reference.edit_distances(3, 4, temperature), dtype=torch.float64)
        torch.testing.assert_close(compute_edit_count_distribution(3, 4, temperature), want)
    found = compute_edit_count_distribution(8, 500_000, 0.85)
    assert [round(float(share), 3) for share in found[:3]] == [0.787, 0.192, 0.020]
    assert compute_edit_count_distribution(0, 4, 0.85).tolist() == [1.0]


def test_weights_are_those_of_the_loop():
    rewards, distances = [1.0, 0.25, 0.5], [0, 2, 1]
    found = compute_sample_weights(torch.tensor([rewards]), torch.tensor([distances]), 0.85)
    torch.testing.assert_close(found[0], torch.tensor(reference.raml_weights(rewards, distances, 0.85)))


def test_what_is_drawn_is_another_word_at_e_places():
    """In 4,000 samples, the number of edits follows q, and places and other known words are equally frequent."""
    ours = raml(make_task(tail=30, mark=True), raml_temperature=3.0, raml_samples=4000)
    target = torch.tensor([[PAD, 5, 43, 60, 7, EOS], [PAD, PAD, PAD, PAD, 3, EOS], [PAD, PAD, PAD, PAD, PAD, EOS]])
    torch.manual_seed(shifted(1))
    distances, changed, edited = ours.sample_edited_references(target)
    assert torch.equal(changed.sum(2), distances) and torch.equal(edited != target[:, None], changed)
    assert set(ours.words.tolist()) == set(range(4, 43)), "43 is the sentence mark, from 44 on words are only copied"
    assert torch.isin(edited[changed], ours.words).all()
    of_first = compute_edit_count_distribution(3, 39, 3.0)
    counts = torch.bincount(distances[0], minlength=4) / 4000
    assert ((counts - of_first).abs() < 5 * (of_first * (1 - of_first) / 4000).sqrt() + 1e-9).all()
    assert not changed[0, :, [0, 2, 5]].any() and not distances[2].any()
    places = changed[0].float().mean(0)[[1, 3, 4]]
    share = float((of_first * torch.arange(4)).sum() / 3)
    assert (places - share).abs().max() < 5 * (share * (1 - share) / 4000) ** 0.5
    drawn = Counter(edited[0, :, 1][changed[0, :, 1]].tolist())
    assert set(drawn) == set(ours.words.tolist()) - {5}
    total = sum(drawn.values())
    assert max(abs(count / total - 1 / 38) for count in drawn.values()) < 5 * (1 / 38 / total) ** 0.5


def edits_of(rows, target):
    """Edits by hand: for each pair a list of samples, each a dictionary from places in the summary to words."""
    edited = target[:, None].repeat(1, len(rows[0]), 1)
    first = (target != PAD).int().argmax(1).tolist()
    for pair, samples in enumerate(rows):
        for number, sample in enumerate(samples):
            for place, word in sample.items():
                edited[pair, number, first[pair] + place] = word
    changed = edited != target[:, None]
    return EditedReferences(changed.sum(2), changed, edited)


EDITS = [[{}, {0: 9}, {}], [{0: 5, 1: 50}, {1: 6}, {1: 4}], [{}, {}, {}], [{1: 8}, {0: 8}, {}]]


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("pointer", ["none", "soft", "switch"])
def test_the_loss_is_the_weighted_sum_of_the_samples_likelihoods(pointer, left, monkeypatch):
    """Each sample is scored by itself, with the words before it. The logged value is the same sum."""
    task = make_task(**TASK)
    model, plain = make_model("etads", task, pointer=pointer).train(), criterion(task, coverage_loss=0.5)
    ours = raml(task, raml_temperature=0.6, coverage_loss=0.5)
    sample = make_sample(left=left)
    edits = edits_of(EDITS, sample["target"])
    rewards = torch.tensor([[1.0, 0.3, 1.0], [0.9, 0.2, 0.4], [1.0, 1.0, 1.0], [0.0, 0.7, 1.0]])
    monkeypatch.setattr(ours, "sample_edited_references", lambda _: edits)
    monkeypatch.setattr(ours, "compute_rewards", lambda *_: rewards)
    expected = 0.0
    for pair in range(4):
        weights = reference.raml_weights(rewards[pair].tolist(), edits.distances[pair].tolist(), 0.6)
        for number, weight in enumerate(weights):
            texts = sample["net_input"]["src_tokens"][pair], edits.target[pair, number]
            document, summary = ([word for word in text.tolist() if word not in (PAD, EOS)] for text in texts)
            loss, _, one = plain(model, make_sample([document], [summary]))
            expected += weight * torch.stack([loss.detach(), one["nll_loss"]])
    total, size, logs = ours(model, sample)
    torch.testing.assert_close(torch.stack([total.detach(), logs["nll_loss"]]), expected, rtol=1e-5, atol=1e-5)
    assert size == sample["ntokens"] and logs["nsentences"] == 4 and logs["raml_edits"] == 7
    batch = make_augmented_batch(sample, edits, torch.full((4, 3), 1 / 3))
    assert batch["id"].tolist() == [7, 9, 10, 7, 8, 8, 8, 10, 10], "references drawn as they are are one row"
    assert torch.equal(sample["target"], make_sample(left=left)["target"]), "the batch itself has changed"
    assert raml(task, sentence_avg=True)(model, sample)[1] == 4
    assert torch.equal(ours(model.eval(), sample)[0], plain(model, sample)[0]), "the likelihood, in validation"


def test_rouge_is_that_of_the_edited_reference():
    ours = raml(raml_reward="rouge2")
    sample = make_sample(summaries=[[5, 6, 7, 8], [9, 9], [4], [50, 5, 6]], documents=[[5], [6], [7], [8]])
    edits = edits_of([[{0: 9}, {1: 9}], [{}, {0: 4}], [{}, {0: 8}], [{2: 50}, {}]], sample["target"])
    found = ours.compute_rewards(sample, edits)
    assert found[1, 0] == found[2, 0] == found[3, 1] == 1
    assert found[0].tolist() == pytest.approx([2 / 3, 1 / 3]) and found[2, 1] == 0
    assert found[3, 0] == pytest.approx(rouge_n([["rare6", "w1", "rare6"]], [["rare6", "w1", "w2"]], 2)) == 0.5


def test_entailment_counts_no_more_than_that_of_the_reference(monkeypatch):
    """Words keep their spelling, including copied ones, and sentence marks are not words."""
    asked = []

    def score(premises, hypotheses):
        """Return the share of each hypothesis's words in the premise."""
        asked.extend(zip(premises, hypotheses))
        return torch.tensor([sum(w in p for w in h) / max(1, len(h)) for p, h in zip(premises, hypotheses)])

    judge = SimpleNamespace(config=NliConfig(), to=lambda device: None, score=score)
    monkeypatch.setattr(EntailmentScorer, "load", lambda path: judge)
    task = recurrent_task()
    ours = raml(task, raml_reward="entail", raml_entailment_model="somewhere")
    sample = make_sample([[5, MARK, 50, 6, 8], [9], [7]], [[5, MARK, 50, 7], [9, 4], [7]])
    edits = edits_of([[{3: 6}, {0: 9}], [{1: 9}, {0: 4}], [{}, {}]], sample["target"])
    found = ours.compute_rewards(sample, edits)
    torch.testing.assert_close(found, torch.tensor([[2 / 3, 1 / 3], [0.5, 0.0], [1, 1]]))
    premises, hypotheses = zip(*asked)
    assert ["w1", "rare6", "w2", "w4"] in premises and ["w1", "rare6", "w2"] in hypotheses
    assert ["w3"] not in hypotheses, "the reference that is drawn as it is"


def test_impossible_options_are_refused():
    with pytest.raises(ValueError, match="--raml-entailment-model"):
        check_options(SummarizationRAMLConfig(raml_reward="entail"), SummarizationRAMLConfig)
    with pytest.raises(ValueError, match="--large-vocabulary-trick"):
        SummarizationRAML.check_options(SummarizationRAMLConfig(), frozenset({"--large-vocabulary-trick"}))
