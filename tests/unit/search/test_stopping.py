"""Penalties in the search, and the time at which it ends a document: not before it is decided, and then at once.

The oracle's search looks at all steps and runs the model from the start for each hypothesis.
"""

import functools
import itertools

import pytest
import reference
import torch
from decoding import DICTIONARY, make_sample
from helpers import EOS, PAD, make_batch
from scripted import scripted_model

from fairseq_etads.generation import SummaryGenerator

DOCUMENTS = ((5, 6, 7), tuple(range(4, 34)), (9,) * 12)
BEAM, LONGEST, WEIGHT = 4, 9, 0.3
LENGTHS = [("avg", 1.0), ("wu", 0.9), ("wu", 0.0), ("avg", -0.5)]


@functools.cache
def scripted(seed, end):
    return scripted_model(DICTIONARY, seed, end=end)


@functools.cache
def slow_search(model, document, **options):
    """Hypotheses of the oracle, and what remained after each step."""
    source, history = make_batch([document]), []

    def predict(words):
        with torch.no_grad():
            out, extra = model(source, source.ne(PAD).sum(1), torch.tensor([[EOS, *words]]))
        return out[0, -1].double().log_softmax(-1).tolist(), extra["attn"][0][0, -1].double().tolist()

    found = reference.beam_search(
        predict, beam=BEAM, longest=LONGEST, eos=EOS, pad=PAD, weight=WEIGHT, history=history, **options
    )
    return found, history


def search(model, document, alpha, length_kind, coverage_kind, **options):
    penalties = {"len_penalty": alpha, "length_penalty_type": length_kind, "coverage_penalty_type": coverage_kind}
    options.update(penalties, max_len_b=LONGEST, coverage_penalty=WEIGHT)
    return SummaryGenerator([model], DICTIONARY, BEAM, **options).generate(None, make_sample([document]))[0]


def steps_needed(history, nbest, source_length, rule, **scoring):
    """The first step after which no unfinished hypothesis can become one of the n best, or the last step."""
    for step, (finished, unfinished) in enumerate(history):
        lengths = range(step + 2, LONGEST + 2 if rule == "admissible" else min(step + 3, LONGEST + 2))
        if len(finished) >= nbest and lengths:
            wanted = sorted(finished)[-nbest]
            bounds = [
                reference.best_possible_score(
                    log_prob, cost, lengths, weight=WEIGHT, source_length=source_length, **scoring
                )
                for log_prob, cost in unfinished
            ]
            if wanted >= max(bounds):
                return step + 1
    return len(history)


@pytest.mark.parametrize("length_kind,alpha", LENGTHS)
@pytest.mark.parametrize("coverage_kind", ["summary", "wu"])
def test_a_document_ends_as_soon_as_the_rule_lets_it(monkeypatch, coverage_kind, length_kind, alpha):
    """The admissible rule never ends a document before it is decided."""
    calls, early = [], set()
    scoring = {"alpha": alpha, "length_kind": length_kind, "coverage_kind": coverage_kind}
    for seed, end, document in itertools.product(range(2), (2.0, 6.0, 10.0), DOCUMENTS):
        model = scripted(seed, end)
        want, history = slow_search(model, document, **scoring)
        forward = model.decoder.forward
        with monkeypatch.context() as patch:
            patch.setattr(model.decoder, "forward", lambda *a, f=forward, **k: calls.append(1) or f(*a, **k))
            for rule, nbest in itertools.product(("admissible", "heuristic"), (1, 3)):
                calls.clear()
                got = search(model, document, **scoring, nbest=nbest, early_stopping=rule)
                for mine, (words, log_prob, score) in zip(got[:nbest], want):
                    assert mine["score"].item() <= score + 2e-4
                    if rule == "admissible":
                        assert mine["tokens"].tolist() == words
                        assert mine["score"].item() == pytest.approx(score, abs=2e-4)
                        assert mine["positional_scores"].sum().item() == pytest.approx(log_prob, abs=2e-4)
                needed = steps_needed(history, nbest, len(document) + 1, rule, beta=5.0, **scoring)
                assert len(calls) == needed, (rule, nbest)
                early |= {rule} if needed <= LONGEST else set()
    assert early == {"admissible", "heuristic"}, "nothing is decided early: nothing is shown"
