"""Length and coverage penalties in the search: against a slow search, and stopping early without losing anything."""

import itertools

import pytest
import reference
import torch
from decoding import DICTIONARY, Boundless, assert_same, make_sample, sharpened
from fairseq import search
from helpers import EOS, PAD, make_batch
from scripted import scripted_model

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.search.beam_search import BeamSearch


def reference_search(model, document, **options):
    """The oracle's search with the model run from the start for every hypothesis."""
    source = make_batch([document])

    def predict(words):
        with torch.no_grad():
            out, extra = model(source, source.ne(PAD).sum(1), torch.tensor([[EOS, *words]]))
        log_probs = out[0, -1].double().log_softmax(-1)
        return log_probs.tolist(), extra["attn"][0][0, -1].double().tolist()

    return reference.beam_search(predict, eos=EOS, pad=PAD, **options)


@pytest.mark.parametrize("length_kind,alpha", [("avg", 1.0), ("wu", 0.9)])
@pytest.mark.parametrize("coverage_kind", ["summary", "wu"])
@pytest.mark.parametrize("stepwise", [False, True])
@pytest.mark.parametrize("arch", ["etads", "scripted"])
def test_penalties_against_the_slow_search(arch, stepwise, coverage_kind, length_kind, alpha, documents):
    model = scripted_model(DICTIONARY, 3, end=1.0) if arch == "scripted" else sharpened(arch)
    beam, longest, weight = 4, 7, 0.4
    got = SummaryGenerator(
        [model],
        DICTIONARY,
        beam,
        max_len_b=longest,
        min_len=2,
        len_penalty=alpha,
        coverage_penalty=weight,
        coverage_penalty_type=coverage_kind,
        stepwise_coverage_penalty=stepwise,
        length_penalty_type=length_kind,
        no_repeat_ngram_size=2,
    ).generate(None, make_sample(documents))
    for document, row in zip(documents, got):
        want = reference_search(
            model,
            document,
            beam=beam,
            longest=longest,
            shortest=2,
            alpha=alpha,
            length_kind=length_kind,
            weight=weight,
            coverage_kind=coverage_kind,
            stepwise=stepwise,
            block=2,
        )
        tokens, log_prob, score = want[0]
        assert row[0]["tokens"].tolist() == tokens
        assert row[0]["score"].item() == pytest.approx(score, abs=2e-4)
        assert row[0]["positional_scores"].sum().item() == pytest.approx(log_prob, abs=2e-4)


@pytest.mark.parametrize("nbest", [1, 3, 5])
@pytest.mark.parametrize("length_kind,alpha", [("avg", 2.0), ("wu", 1.5), ("wu", 0.0), ("avg", -0.5)])
@pytest.mark.parametrize("coverage_kind,weight", [("summary", 0.2), ("wu", 0.1)])
def test_stopping_early_loses_nothing(nbest, length_kind, alpha, coverage_kind, weight, documents):
    """A negative penalty for unknown words makes log P grow, and the "wu" cost falls; the bound allows for both."""
    for seed, unk in itertools.product(range(4), (0.0, -0.7, -4.0)):
        model = scripted_model(DICTIONARY, seed, end=1.5)
        options = {
            "beam_size": 5,
            "max_len_b": 12,
            "len_penalty": alpha,
            "length_penalty_type": length_kind,
            "coverage_penalty": weight,
            "coverage_penalty_type": coverage_kind,
            "early_stopping": "admissible",
            "unk_penalty": unk,
        }
        sample = make_sample(documents)
        early = SummaryGenerator([model], DICTIONARY, nbest=nbest, **options).generate(None, sample)
        late = SummaryGenerator([model], DICTIONARY, **options)
        late.scoring = Boundless(late.options)
        want = late.generate(None, sample)
        assert_same([row[:nbest] for row in early], [row[:nbest] for row in want])


def test_the_bound_is_asked_about_the_hypotheses_that_go_on(monkeypatch, documents):
    """Hypotheses of n words can end with n + 1 to 7 tokens; their costs must have been reordered with them."""
    asked, is_decided = [], BeamSearch._find_decided_documents

    class Recording(Boundless):
        def compute_upper_bound(self, log_probs, shortest, longest, cost, source_lengths, gain):
            asked.append((shortest, longest, source_lengths.tolist(), gain))
            return super().compute_upper_bound(log_probs)

    def checked(search, step, log_probs, cost):
        torch.testing.assert_close(log_probs, search.live.log_probs[:, :, step])
        torch.testing.assert_close(
            cost, search.scoring.compute_coverage_cost(search.live.coverage, search.source.padding)
        )
        return is_decided(search, step, log_probs, cost)

    monkeypatch.setattr(BeamSearch, "_find_decided_documents", checked)
    generator = SummaryGenerator(
        [scripted_model(DICTIONARY)], DICTIONARY, 3, max_len_b=6, unk_penalty=-0.7, coverage_penalty=0.5
    )
    generator.scoring = Recording(generator.options)
    generator.generate(None, make_sample(documents))
    lengths = [len(document) + 1 for document in documents]
    assert asked == [(words + 1, 7, lengths, 0.7) for words in range(1, 7)]


def test_stopping_early_stops_early(monkeypatch, documents):
    model = scripted_model(DICTIONARY, end=6.0)
    steps = []
    forward = type(model.decoder).forward
    monkeypatch.setattr(type(model.decoder), "forward", lambda *a, **k: steps.append(1) or forward(*a, **k))
    options = {"beam_size": 3, "max_len_b": 50, "length_penalty_type": "wu"}
    counts = []
    for rule in ("admissible", "fairseq"):
        steps.clear()
        SummaryGenerator([model], DICTIONARY, early_stopping=rule, **options).generate(None, make_sample(documents))
        counts.append(len(steps))
    assert counts[1] <= counts[0] < 51


def test_the_rule_for_stopping_follows_the_score():
    def rule(**options):
        return SummaryGenerator([scripted_model(DICTIONARY)], DICTIONARY, **options).options.early_stopping

    assert rule() == rule(len_penalty=2.0, no_repeat_ngram_size=3) == "fairseq"
    assert rule(coverage_penalty=1.0) == rule(length_penalty_type="wu") == "admissible"
    assert rule(coverage_penalty=1.0, early_stopping="fairseq") == "fairseq"
    assert rule(coverage_penalty=1.0, search_strategy=search.Sampling(DICTIONARY)) == "fairseq"
