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


def test_the_rule_for_stopping_follows_the_score():
    def rule(**options):
        return SummaryGenerator([scripted_model(DICTIONARY)], DICTIONARY, **options).options.early_stopping

    assert rule() == rule(len_penalty=2.0, no_repeat_ngram_size=3) == "fairseq"
    assert rule(coverage_penalty=1.0) == rule(length_penalty_type="wu") == "admissible"
    assert rule(coverage_penalty=1.0, early_stopping="fairseq") == "fairseq"
    assert rule(coverage_penalty=1.0, search_strategy=search.Sampling(DICTIONARY)) == "fairseq"
