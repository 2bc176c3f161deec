"""Reports of a search at every step: the best summary so far, its score, and the attention of its last word."""

import math
from types import SimpleNamespace

import pytest
import torch
from folders import make_folder
from helpers import make_task

from fairseq_etads import Summarizer
from fairseq_etads.search.hypotheses import ActiveHypotheses, FinishedHypotheses, find_best_hypotheses

CPU = torch.device("cpu")
TEXTS = ["w1 w2 New w3 new other w9", "W5 w6 Zebra yak w20", "", "only unknown words here", "w9 w8 " * 20]


@pytest.fixture(scope="module")
def summarizer(tmp_path_factory):
    return Summarizer.load(make_folder(tmp_path_factory.mktemp("made"), pointer="soft")[0], device="cpu")


def watch(summarizer, texts, **decoding):
    """The summaries, and what was reported of each text."""
    seen = {}
    found = summarizer.summarize(
        texts, on_step=lambda partial: seen.setdefault(partial.number, []).append(partial), **decoding
    )
    return found, seen


@pytest.mark.parametrize(
    "decoding",
    [{}, {"beam": 1}, {"early_stopping": "fairseq"}, {"stepwise_coverage_penalty": True, "coverage_penalty": 2.0}],
)
def test_watching_changes_nothing_and_no_report_is_better_than_the_summary(summarizer, decoding):
    found, seen = watch(summarizer, TEXTS, **decoding)
    assert found == summarizer.summarize(TEXTS, **decoding)
    assert sorted(seen) == [0, 1, 3, 4], "nothing is searched for in an empty text"
    for number, partials in seen.items():
        for step, partial in enumerate(partials, 1):
            assert partial.score <= found[number].score + 1e-6 if partial.has_ended else len(partial.tokens) == step
            assert partial.text == summarizer._texts.join(partial.tokens)
            assert [TEXTS[number][slice(*span)] for span in partial.spans] == TEXTS[number].split()


def test_the_best_of_living_and_ended_hypotheses_is_reported():
    """Two documents, rows 1 and 3 of the batch: the second beam leads in one, an ended hypothesis in the other."""
    live = ActiveHypotheses(2, beam=2, longest=4, start=2, device=CPU, keep_ancestors=False)
    live.batch_rows = torch.tensor([1, 3])
    live.tokens[:, :, 1:3] = torch.tensor([[[10, 11], [12, 13]], [[20, 21], [22, 23]]])
    done = FinishedHypotheses(4, 2, 4, CPU, by_score=False)
    done.score[[1, 3, 3], [0, 0, 1]] = torch.tensor([-5.0, -9.0, -1.5])
    done.length[[1, 3, 3], [0, 0, 1]] = 2
    done.tokens[[1, 3, 3], [0, 0, 1], :2] = torch.tensor([[30, 2], [31, 2], [32, 2]])
    scores, parents = torch.tensor([[-4.0, -3.0], [-2.0, -math.inf]]), torch.tensor([[1, 0], [0, 0]])
    attention = torch.tensor([[[0.1, 0.9], [0.8, 0.2]], [[0.5, 0.5], [0.4, 0.6]]])
    vocabulary = SimpleNamespace(convert_to_dictionary_ids=lambda tokens, row: tokens + 100 * row)
    first, second = find_best_hypotheses(1, live, done, scores, parents, (attention, None), vocabulary)
    assert (first.row, first.tokens.tolist(), first.score) == (1, [112, 113], -3.0)
    assert first.attention.tolist() == attention[0, 0].tolist(), "of the beam that it continues"
    assert (second.row, second.tokens.tolist(), second.score, second.attention) == (3, [332, 302], -1.5, None)
    live, done = ActiveHypotheses(1, 2, 4, 2, CPU, keep_ancestors=False), FinishedHypotheses(1, 2, 4, CPU, True)
    (only,) = find_best_hypotheses(0, live, done, scores[:1], parents[:1], (None, attention[:1, :1]), None)
    assert only.copying.tolist() == attention[0, 0].tolist(), "in the first step there is one beam"


@pytest.mark.parametrize("left", [False, True])
def test_attention_and_copying_are_those_of_the_last_word_for_each_token_that_was_read(tmp_path, left):
    """Equal to the results of a single pass over document and summary."""
    task = make_task(60, 20, tail=3, left_pad_source=left)
    summarizer = Summarizer.load(make_folder(tmp_path, pointer="soft", task=task)[0], "cpu")
    found, seen = watch(summarizer, TEXTS[:2], beam=1, min_len=3)
    for number, summary in enumerate(found):
        explanation = summary.explain()
        partials = [partial for partial in seen[number] if not partial.has_ended]
        assert len(partials) >= 3
        for place, partial in enumerate(partials):
            assert partial.attention == pytest.approx(explanation.attention[place][:-1], abs=1e-5)
            assert partial.copying == pytest.approx(explanation.copying[place][:-1], abs=1e-5)
            assert partial.attention != pytest.approx(partial.copying, abs=1e-3)
