"""The terms of the score: an exhaustive search finds the same as brute force, and ends no earlier."""

import itertools
import math

import pytest
import torch
from decoding import make_sample
from helpers import EOS, make_batch, make_dictionary
from scripted import scripted_language_model, scripted_model

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.search import terms
from fairseq_etads.search.terms import ActiveTerm, SearchTerm, compute_largest_gain
from fairseq_etads.systems.abs.features import NO_WORD, ExtractiveFeatures, count_extractive_features

DICTIONARY = make_dictionary(40)
WORDS, LONGEST, BEAM = (4, 5, 6), 3, 43
"""27 beginnings of three words, fewer than a beam of this size: the search leaves none out."""
DOCUMENT = [4, 6, 5]


class Bonus(SearchTerm):
    def __init__(self, word, bonus):
        self.word, self.bonus = word, bonus

    def begin(self, batch):
        return ActiveBonus(self)

    def add_to(self, lprobs, tokens):
        lprobs[..., self.word] += self.bonus


class ActiveBonus(ActiveTerm):
    def __init__(self, term):
        self.add, self.largest_gain = term.add_to, max(0.0, term.bonus)

    def add_to(self, lprobs, tokens):
        self.add(lprobs, tokens)


def only_few_words(model):
    """The model restricted to the words of the tiny vocabulary and, for rewards, the unknown word."""
    impossible = [word for word in range(len(DICTIONARY)) if word not in (*WORDS, EOS)]
    model.decoder.table[:, impossible] = -math.inf
    return model


def next_word_scores(model):
    """For each beginning of a summary, the log-probabilities of the next word."""
    found = {}
    for length in range(LONGEST + 1):
        for words in itertools.product(WORDS, repeat=length):
            tokens = torch.tensor([[EOS, *words]])
            with torch.no_grad():
                output = model(make_batch([DOCUMENT]), None, tokens) if hasattr(model, "encoder") else model(tokens)
            found[words] = output[0][0, -1].double().log_softmax(-1)
    return found


def brute_force(model, language_model, lm_weight, weights, bonus, alpha):
    """The best of all summaries: score and words."""
    found, scores, lm_scores = [], next_word_scores(model), next_word_scores(language_model)
    for words in scores:
        tokens = [*words, EOS]
        total = sum(scores[words[:n]][word].item() for n, word in enumerate(tokens))
        total += lm_weight * sum(lm_scores[words[:n]][word].item() for n, word in enumerate(tokens))
        counts = count_extractive_features(DOCUMENT, [*words, NO_WORD])
        total = weights[0] * total + sum(w * c for w, c in zip(weights[1:], counts)) + bonus * words.count(WORDS[1])
        found.append((total / len(tokens) ** alpha, tokens))
    return max(found)


@pytest.mark.parametrize("lm_weight", [-0.9, -0.3, 0.0, 0.6])
@pytest.mark.parametrize("weights", [(1.0, 0.0, 0.0, 0.0, 0.0), (0.7, 1.5, 1.0, -2.0, 0.7)], ids=str)
@pytest.mark.parametrize("bonus", [0.0, 2.5, -1.0])
@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.5])
def test_the_best_of_a_search_is_that_of_brute_force(lm_weight, weights, bonus, alpha):
    for seed in range(4):
        model = only_few_words(scripted_model(DICTIONARY, seed, end=3.0))
        language_model = scripted_language_model(DICTIONARY, seed + 10)
        generator = SummaryGenerator(
            [model], DICTIONARY, BEAM, max_len_b=LONGEST, min_len=0, len_penalty=alpha, early_stopping="admissible",
            lm_model=language_model, lm_weight=lm_weight, extractive_weights=weights, terms=[Bonus(WORDS[1], bonus)],
        )  # fmt: skip
        found = generator.generate(None, make_sample([DOCUMENT]))[0][0]
        score, tokens = brute_force(model, language_model, lm_weight, weights, bonus, alpha)
        assert found["score"].item() == pytest.approx(score, abs=1e-4)
        assert found["tokens"].tolist() == tokens


def test_gains_add_up_in_order():
    features = ExtractiveFeatures(torch.tensor([[4, 5]]), (0.5, 1.0, 2.0, -3.0, 0.25))
    bonus = Bonus(4, 2.0).begin(None)
    assert (features.scale, features.largest_gain) == (0.5, 3.25)
    assert compute_largest_gain([]) == 0.0
    assert compute_largest_gain([bonus, features]) == 2.0 * 0.5 + 3.25
    assert compute_largest_gain([features, bonus]) == 3.25 + 2.0


def test_an_option_of_a_missing_system_is_refused_by_its_name(monkeypatch):
    monkeypatch.setattr(terms, "_OPTION_TERMS", {})
    model = scripted_model(DICTIONARY)
    assert not SummaryGenerator([model], DICTIONARY, extractive_weights="").terms
    message = "--extractive-weights 1,2,0,0,0 belongs to the system in fairseq_etads/systems/abs, .*: leave"
    for weights in ("1,2,0,0,0", (1, 2, 0, 0, 0)):
        with pytest.raises(ValueError, match=message):
            SummaryGenerator([model], DICTIONARY, extractive_weights=weights)


def test_the_models_of_a_term_are_in_evaluation_mode_and_limit_the_length():
    inside = torch.nn.Dropout(0.5)
    inside.max_decoder_positions = lambda: 9
    modes = []

    class Reading(Bonus):
        models = (inside,)

        def add_to(self, lprobs, tokens):
            modes.append(inside.training)

    generator = SummaryGenerator([scripted_model(DICTIONARY)], DICTIONARY, 2, terms=[Reading(3, 0.0)])
    generator.generate(None, make_sample([[5]]))
    assert generator.options.positions == 9
    assert inside.training and modes and not any(modes)
