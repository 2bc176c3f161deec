"""The time at which a search may end a document: not before it is decided, and then at once; checked against a slow
search.
"""

import itertools

import pytest
import reference
import torch
from helpers import EOS, PAD, make_batch, make_task
from scripted import scripted_model

from fairseq_etads.generation import SummaryGenerator

DICTIONARY = make_task().target_dictionary
BEAM, LONGEST, WEIGHT = 4, 9, 0.3
DOCUMENTS = [[5, 6, 7], list(range(4, 34)), [9] * 12]


def slow_search(model, document, **options):
    """Hypotheses of the oracle that looks at all steps, and what remained after each step."""
    source, history = make_batch([document]), []

    def predict(words):
        with torch.no_grad():
            out, extra = model(source, source.ne(PAD).sum(1), torch.tensor([[EOS, *words]]))
        return out[0, -1].double().log_softmax(-1).tolist(), extra["attn"][0][0, -1].double().tolist()

    found = reference.beam_search(
        predict, beam=BEAM, longest=LONGEST, eos=EOS, pad=PAD, weight=WEIGHT, history=history, **options
    )
    return found, history


def steps_needed(history, nbest, source_length, rule, **scoring):
    """The first step after which no unfinished hypothesis can become one of the n best; the last step if there is
    none.
    """
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


@pytest.mark.parametrize("rule", ["admissible", "heuristic"])
@pytest.mark.parametrize("nbest", [1, 3])
@pytest.mark.parametrize("length_kind,alpha", [("avg", 1.0), ("wu", 0.9), ("wu", 0.0), ("avg", -0.5)])
@pytest.mark.parametrize("coverage_kind", ["summary", "wu"])
def test_a_document_ends_as_soon_as_the_rule_lets_it(monkeypatch, coverage_kind, length_kind, alpha, nbest, rule):
    """The admissible rule never ends a document before it is decided."""
    calls, counts = [], []
    for seed, end, document in itertools.product(range(4), (2.0, 6.0, 10.0), DOCUMENTS):
        model = scripted_model(DICTIONARY, seed, end=end)
        scoring = {"alpha": alpha, "length_kind": length_kind, "coverage_kind": coverage_kind}
        want, history = slow_search(model, document, **scoring)
        forward = model.decoder.forward
        monkeypatch.setattr(model.decoder, "forward", lambda *a, f=forward, **k: calls.append(1) or f(*a, **k))
        calls.clear()
        tokens = make_batch([document])
        generator = SummaryGenerator(
            [model],
            DICTIONARY,
            BEAM,
            max_len_b=LONGEST,
            len_penalty=alpha,
            length_penalty_type=length_kind,
            coverage_penalty=WEIGHT,
            coverage_penalty_type=coverage_kind,
            nbest=nbest,
            early_stopping=rule,
        )
        got = generator.generate(None, {"net_input": {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1)}})
        for mine, (words, _, score) in zip(got[0][:nbest], want[:nbest]):
            if rule == "heuristic":
                assert mine["score"].item() <= score + 2e-4
                continue
            assert mine["tokens"].tolist() == words, "stopped too early"
            assert mine["score"].item() == pytest.approx(score, abs=2e-4)
        needed = steps_needed(history, nbest, len(document) + 1, rule, beta=5.0, **scoring)
        counts.append((len(calls), needed))
    assert [took for took, _ in counts] == [needed for _, needed in counts]
    assert min(needed for _, needed in counts) <= LONGEST, "nothing is decided early: nothing is shown"
