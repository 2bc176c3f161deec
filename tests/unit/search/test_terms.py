"""Terms of the score: missing systems, the term of docs/extending.md, and random options against brute force.

The beam leaves no summary out, so every option has one right answer. Documents of a batch differ in length, and the
brute force looks at each alone: an option must not read a neighbour, padding, or another document's limit.
"""

import importlib
import itertools
import math
import os
import re
from pathlib import Path

import pytest
import reference
import torch
from decoding import make_sample, sharpen
from helpers import EOS, make_batch, make_dictionary, make_model, make_task
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import scripted_language_model, scripted_model

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.search import terms
from fairseq_etads.search.terms import ActiveTerm, SearchTerm, compute_largest_gain
from fairseq_etads.systems.abs import NO_WORD, ExtractiveFeatures, count_extractive_features

DICTIONARY = make_dictionary(60)
UNK = DICTIONARY.unk()
FEW, LONGEST, BEAM = (UNK, 4, 5), 3, 60
"""3 + 9 + 27 unfinished summaries, and those that have ended: fewer than a beam of this size."""
SHORT = ([4, 6], [5], [4, 5])

OPTIONS = st.fixed_dictionaries(
    {
        "len_penalty": st.sampled_from([1.0, 0.0, 0.6, -0.5, 2.0]),
        "length_penalty_type": st.sampled_from(["avg", "wu"]),
        "normalize_scores": st.sampled_from([True, True, False]),
        "coverage_penalty": st.sampled_from([0.0, 0.0, 0.7, 3.0]),
        "coverage_penalty_type": st.sampled_from(["summary", "wu"]),
        "stepwise_coverage_penalty": st.booleans(),
        "unk_penalty": st.sampled_from([0.0, 1.5, -1.0]),
        "temperature": st.sampled_from([1.0, 0.5, 1.7]),
        "min_len": st.sampled_from([0, 1, 2]),
        "no_repeat_ngram_size": st.sampled_from([0, 0, 1, 2]),
        "exact_length": st.sampled_from([0, 0, 0, 2]),
        "match_source_len": st.sampled_from([False, False, False, True]),
        "max_len_a": st.sampled_from([0.0, 0.34]),
        "lm_weight": st.sampled_from([None, None, 0.6, -0.6]),
        "extractive_weights": st.sampled_from([(), (), (0.7, 1.5, 1.0, -2.0, 0.7)]),
        "bonus": st.sampled_from([0.0, 0.0, 2.5, -1.0]),
        "early_stopping": st.sampled_from(["admissible", None]),
        "seed": st.integers(0, 10_000),
    }
)


class Bonus(SearchTerm, ActiveTerm):
    """A term that adds a bonus to a word; its search has no state."""

    def __init__(self, word, bonus):
        self.word, self.bonus, self.largest_gain = word, bonus, max(0.0, bonus)

    def begin(self, batch):
        return self

    def add_to(self, lprobs, tokens):
        lprobs[..., self.word] += self.bonus


def only_few_words(model):
    """The model, restricted to the tiny vocabulary."""
    impossible = [word for word in range(len(DICTIONARY)) if word not in (*FEW, EOS)]
    model.decoder.table[:, impossible] = -math.inf
    return model


def most_words(options, document):
    """Maximum length of a summary of a document, without the end symbol."""
    if options["exact_length"]:
        return options["exact_length"]
    if options["match_source_len"]:
        return len(document) + 1
    if not options["max_len_a"]:
        return LONGEST
    # with max_len_per_document, where a summary is no longer than its document
    return min(int(options["max_len_a"] * (len(document) + 1) + LONGEST - 1), max(len(document), 1))


def steps(model, language_model, options, document, words):
    """For each word of a summary and its end: the log-probability, and the attention to the document."""
    tokens = torch.tensor([[EOS, *words]])
    source = make_batch([document])
    found = []
    for length in range(1, tokens.size(1) + 1):
        logits, extra = model(source, None, tokens[:, :length])
        scores = (logits[0, -1].double() / options["temperature"]).log_softmax(-1)
        if language_model is not None:
            own = language_model(tokens[:, :length])[0][0, -1].double()  # without temperature, as in fairseq
            scores = scores + options["lm_weight"] * own.log_softmax(-1)
        found.append((scores, extra["attn"][0][0, -1].double()))
    return found


def brute_force(model, language_model, options, document):
    """The best of all summaries that the options allow: score and words."""
    found, most = [], most_words(options, document)
    least = options["exact_length"] or options["min_len"]
    if options["max_len_a"] and not options["exact_length"]:  # with max_len_per_document
        least = min(least, len(document))
    weights, blocked = options["extractive_weights"] or (1.0, 0.0, 0.0, 0.0, 0.0), options["no_repeat_ngram_size"]
    every = itertools.chain(*(itertools.product(FEW, repeat=length) for length in range(least, most + 1)))
    for words in every:
        if blocked and reference.repeats(words, blocked):
            continue
        total, coverage, size = 0.0, 0.0, len(words) + 1
        for word, (scores, attention) in zip([*words, EOS], steps(model, language_model, options, document, words)):
            total += 0.0 if word == EOS and options["exact_length"] else scores[word].item()
            coverage = coverage + attention
        counts = count_extractive_features(document, [*words, NO_WORD])
        total = weights[0] * total + sum(w * c for w, c in zip(weights[1:], counts))
        total += options["bonus"] * words.count(4) - options["unk_penalty"] * words.count(UNK)  # no weight scales them
        if options["normalize_scores"]:
            total /= reference.length_penalty(size, options["len_penalty"], 5.0, options["length_penalty_type"])
        weight, kind = options["coverage_penalty"], options["coverage_penalty_type"]
        found.append((total - reference.coverage_penalty(coverage.tolist(), weight, kind), [*words, EOS]))
    return max(found)


@settings(max_examples=int(os.environ.get("ETADS_EXAMPLES", "40")), deadline=None)
@given(OPTIONS)
def test_the_best_of_each_document_is_that_of_brute_force(options):
    options = dict(options)
    seed, terms = options.pop("seed"), [Bonus(4, options["bonus"])]
    if options["exact_length"]:  # says all about lengths
        options["min_len"], options["match_source_len"] = 0, False
    if options["match_source_len"]:
        options["min_len"], options["max_len_a"] = 0, 0.0
    if not options["coverage_penalty"]:
        options["stepwise_coverage_penalty"] = False
    model, language_model = only_few_words(scripted_model(DICTIONARY, seed, end=2.0)), None
    chosen = {name: value for name, value in options.items() if name not in ("max_len_a", "lm_weight", "bonus")}
    chosen["max_len_b"] = LONGEST
    if options["lm_weight"] is not None:
        language_model = scripted_language_model(DICTIONARY, seed + 1)
        chosen.update(lm_weight=options["lm_weight"], lm_model=language_model)
    if options["max_len_a"]:
        chosen.update(max_len_a=options["max_len_a"], max_len_b=LONGEST - 1, max_len_per_document=True)
    generator = SummaryGenerator([model], DICTIONARY, BEAM, terms=terms, **chosen)
    if generator.options.early_stopping == "fairseq":  # which ends a document before all summaries have been seen
        chosen["early_stopping"] = "admissible"
        generator = SummaryGenerator([model], DICTIONARY, BEAM, terms=terms, **chosen)
    found = generator.generate(None, make_sample(list(SHORT)))
    for document, hypotheses in zip(SHORT, found):
        score, tokens = brute_force(model, language_model, options, document)
        assert hypotheses[0]["score"].item() == pytest.approx(score, abs=2e-4)
        assert hypotheses[0]["tokens"].tolist() == tokens


def test_gains_add_up_in_order():
    features, bonus = ExtractiveFeatures(torch.tensor([[4, 5]]), (0.5, 1.0, 2.0, -3.0, 0.25)), Bonus(4, 2.0)
    assert compute_largest_gain([bonus, features]) == 2.0 * 0.5 + 3.25
    assert compute_largest_gain([features, bonus]) == 3.25 + 2.0


def test_an_option_of_a_missing_system_is_refused_by_its_name(monkeypatch):
    monkeypatch.setattr(terms, "_OPTION_TERMS", {})
    model = scripted_model(DICTIONARY)
    assert not SummaryGenerator([model], DICTIONARY, extractive_weights="").terms
    for weights in ("1,2,0,0,0", (1, 2, 0, 0, 0)):
        with pytest.raises(ValueError, match=r"--extractive-weights 1,2,0,0,0 belongs to .*systems/abs"):
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


ROOT = Path(__file__).parents[3]
TASK = make_task(tail=30)
WORDS = TASK.target_dictionary
DOCUMENTS = [[5, 50, 6, 50, 5, 61, 7], [9, 9, 9], [8, 45, 33, 62, 20, 30, 31, 8, 45]]
FAVOURED = ["w5", "rare6", "rare17"]  # ids 9, 50 and 61: generated by all, copied from one document each


@pytest.fixture
def term(tmp_path, monkeypatch):
    """The class, imported from a package outside this one."""
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    (example,) = [code for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "class FavouredWords" in code]
    (tmp_path / "favouring.py").write_text(example, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(importlib.sys.modules, "favouring", raising=False)
    return importlib.import_module("favouring").FavouredWords


def test_a_users_term_favours_the_words_of_its_list(term):
    model = sharpen(make_model("etads", TASK, share_all_embeddings=False, pointer="soft"))
    torch.nn.init.zeros_(model.decoder.pointer.gate.bias)

    def summaries(*terms):
        generator = SummaryGenerator([model], WORDS, 4, max_len_b=8, min_len=2, terms=terms)
        return generator.generate(None, make_sample(DOCUMENTS))

    def texts(found):
        return [[hypothesis["tokens"].tolist() for hypothesis in row] for row in found]

    without, favouring = summaries(term(FAVOURED, 0.0)), summaries(term(FAVOURED, 8.0))
    assert texts(without) == texts(summaries())
    ids = {WORDS.index(word) for word in FAVOURED}
    possible = [{9, 50, 61}, {9}, {9}]  # a document's summary holds the words of the tail that the document has
    for row, tokens, words in zip(favouring, texts(favouring), possible):
        assert words <= set(tokens[0])
        assert [hypothesis["favoured"] for hypothesis in row] == [len(ids & set(each)) for each in tokens]
    assert [row[0]["favoured"] for row in without] < [row[0]["favoured"] for row in favouring] == [3, 1, 1]
