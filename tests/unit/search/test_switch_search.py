"""Search with a switch that decides between generating and pointing: against a slow search, in every strategy."""

import math

import pytest
import reference
import torch
from decoding import make_sample, sharpened
from fairseq import search
from fairseq.token_generation_constraints import pack_constraints
from helpers import EOS, PAD, make_batch, make_task

from fairseq_etads.generation import SummaryGenerator

KNOWN, UNK = 44, 3
TASK = make_task(tail=30)
DOCUMENTS = [[5, 50, 6, 50, 5, 61, 7], [9, 9, 9], [8, 45, 60, 62, 63], [70, 71, 70, 12], [52]]


def switching(seed=1, bias=0.0, pointer="switch"):
    """A model with decisions that change from word to word; with a positive bias it prefers generating."""
    model = sharpened("etads", seed, TASK, pointer=pointer)
    if pointer != "none":
        with torch.no_grad():
            gate = model.decoder.pointer.gate
            gate.weight.normal_(std=1.5, generator=torch.Generator().manual_seed(seed))
            gate.bias.fill_(bias)
    return model


def forced(model, source, words):
    """Output of the model when it reads the words (ids of the dictionary or extended ids) from the start."""
    with torch.no_grad():
        return model(source, source.ne(PAD).sum(1), torch.tensor([[EOS, *words]]))


def slow_prediction(models, document):
    """For the oracle's search: log P of the next word, attention, and the words that no model's decision allows."""
    source = make_batch([document])
    extended, own = reference.extended_ids(document, KNOWN)
    size = KNOWN + len(own)

    def predict_alone(model, words):
        """Probabilities by the decision and of the mixture, and attention."""
        logits, extra = forced(model, source, words)
        vocabulary, pointer = logits[0, -1].double().softmax(-1), extra["output"].pointer
        attention = extra["attn"][0][0, -1].double()
        if pointer is None:
            return [*vocabulary.tolist(), *[0.0] * len(own)], [*vocabulary.tolist(), *[0.0] * len(own)], attention
        copied, gate = pointer.log_copy[0, -1].double().exp(), pointer.gate[0, -1].double().sigmoid().item()
        arguments = (vocabulary, copied, gate, extended, size)
        return reference.switch_decision(*arguments), reference.pointer_mixture(*arguments), attention

    def predict(words):
        decisions, mixtures, attentions = zip(*(predict_alone(model, words) for model in models))
        decided, mixture = ([sum(of_word) / len(models) for of_word in zip(*each)] for each in (decisions, mixtures))
        against = {word for word in range(size) if decided[word] == 0.0}
        values = [p or mixture[word] for word, p in enumerate(decided)]
        log_probs = [math.log(p) if p > 0 and word not in (UNK, PAD) else -math.inf for word, p in enumerate(values)]
        return log_probs, torch.stack(attentions).mean(0).tolist(), against

    return predict


NAMES = {
    **{"shortest": "min_len", "alpha": "len_penalty", "length_kind": "length_penalty_type"},
    **{"weight": "coverage_penalty", "coverage_kind": "coverage_penalty_type"},
    **{"stepwise": "stepwise_coverage_penalty", "block": "no_repeat_ngram_size"},
}
"""Options of the oracle's search, which has the same defaults, and their names in the generator."""


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"length_kind": "wu", "alpha": 0.9, "weight": 0.3},
        {"alpha": 2.0, "block": 1, "shortest": 3},
        {"alpha": 0.0, "weight": 0.5, "coverage_kind": "wu", "stepwise": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("pointers,bias", [(("switch",), -2.0), (("none", "switch"), 0.0)])
def test_the_search_equals_a_slow_one(pointers, bias, options):
    """If the end is forced, or every word of the document is blocked, the decision cannot be followed."""
    models = [switching(seed, bias, pointer=pointer) for seed, pointer in enumerate(pointers, 1)]
    arguments = {NAMES[name]: value for name, value in options.items()}
    generator = SummaryGenerator(
        models, TASK.target_dictionary, 3, max_len_b=5, nbest=3, early_stopping="admissible", **arguments
    )
    for document, row in zip(DOCUMENTS, generator.generate(None, make_sample(DOCUMENTS))):
        want = reference.beam_search(slow_prediction(models, document), 3, 5, eos=EOS, pad=PAD, **options)
        assert len(row) == min(3, len(want))
        own = reference.extended_ids(document, KNOWN)[1]
        for hypothesis, (tokens, log_prob, score) in zip(row, want):
            assert hypothesis["tokens"].tolist() == [own[w - KNOWN] if w >= KNOWN else w for w in tokens]
            assert hypothesis["score"].item() == pytest.approx(score, abs=2e-4) and score > -1000
            assert hypothesis["positional_scores"].sum().item() == pytest.approx(log_prob, abs=2e-4)


def check_scores(model, document, hypothesis):
    """A word has the log-probability of the decision, or that of the mixture where the switch decided against it.
    Returns whether it decided for each word.
    """
    tokens = hypothesis["tokens"].tolist()
    output = forced(model, make_batch([document]), tokens[:-1])[1]["output"]
    words = output.vocabulary.convert_to_extended_ids(torch.tensor([tokens]))[:, :, None]
    decided, mixed = (
        model.get_normalized_probs(each.to_fairseq_output(), log_probs=True).gather(2, words)[0, :, 0]
        for each in (output, output.to_mixture())
    )
    log_probs = torch.where(decided.isfinite(), decided, mixed)
    torch.testing.assert_close(hypothesis["positional_scores"], log_probs, rtol=1e-4, atol=1e-4)
    return decided.isfinite().tolist()


STRATEGIES = {
    "beam": lambda: search.BeamSearch(TASK.target_dictionary),
    "sampling": lambda: search.Sampling(TASK.target_dictionary),
    "nucleus": lambda: search.Sampling(TASK.target_dictionary, sampling_topp=0.8),
    "diverse": lambda: search.DiverseBeamSearch(TASK.target_dictionary, num_groups=2, diversity_strength=0.0),
    "siblings": lambda: search.DiverseSiblingsSearch(TASK.target_dictionary, diversity_rate=0.0),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_keeps_to_the_decisions(strategy):
    """All words except a forced end are the ones decided for, however improbable the others are."""
    model, kinds = switching(), set()
    torch.manual_seed(0)
    generator = SummaryGenerator(
        [model], TASK.target_dictionary, 4, max_len_b=6, search_strategy=STRATEGIES[strategy]()
    )
    for document, row in zip(DOCUMENTS, generator.generate(None, make_sample(DOCUMENTS))):
        for hypothesis in row:
            kept = check_scores(model, document, hypothesis)
            assert all(kept[:-1]) and (kept[-1] or len(kept) == 7)
            kinds |= {kept[-1], *(word >= KNOWN for word in hypothesis["tokens"].tolist())}
    assert kinds == {True, False}, "nothing was pointed at, or nothing generated: nothing was shown"


def test_a_prefix_and_constraints_go_before_decisions():
    model, document = switching(bias=-30.0), DOCUMENTS[0]  # points, always

    def search_with(strategy=None, **given):
        generator = SummaryGenerator([model], TASK.target_dictionary, 4, max_len_b=4, search_strategy=strategy)
        hypothesis = generator.generate(None, make_sample([document]), **given)[0][0]
        return hypothesis["tokens"].tolist(), check_scores(model, document, hypothesis)

    words, kept = search_with(prefix_tokens=torch.tensor([[12]]))
    assert words[0] == 12 and not kept[0] and all(kept[1:-1])
    strategy = search.LexicallyConstrainedBeamSearch(TASK.target_dictionary, "unordered")
    words, _ = search_with(strategy, constraints=pack_constraints([[torch.tensor([12])]]))
    assert 12 in words and set(words) <= {*document, 12, EOS}
