"""Terms of the score: their gains, their models, and those of missing systems."""

import math

import pytest
import torch
from decoding import make_sample
from helpers import make_dictionary
from scripted import scripted_model
from test_random_options import Bonus

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.search import terms
from fairseq_etads.search.terms import LanguageModelTerm, TermBatch, compute_largest_gain
from fairseq_etads.systems.abs.features import ExtractiveFeatures

DICTIONARY = make_dictionary(40)


def test_gains_add_up_in_order():
    features = ExtractiveFeatures(torch.tensor([[4, 5]]), (0.5, 1.0, 2.0, -3.0, 0.25))
    bonus = Bonus(4, 2.0).begin(None)
    assert (features.scale, features.largest_gain) == (0.5, 3.25)
    assert compute_largest_gain([]) == 0.0
    assert compute_largest_gain([bonus, features]) == 2.0 * 0.5 + 3.25
    assert compute_largest_gain([features, bonus]) == 3.25 + 2.0
    batch = TermBatch({}, None, None)
    assert [LanguageModelTerm(None, weight).begin(batch).largest_gain for weight in (0.6, -0.6)] == [0.0, math.inf]


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
