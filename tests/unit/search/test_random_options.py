"""Random combinations of decoding options: the best summary of each document is the one that brute force finds.

The beam leaves no summary out, so every option has one right answer. Documents of a batch differ in length, and the
brute force looks at each alone: an option must not read a neighbour, padding, or another document's limit.
"""

import itertools
import math
import os

import pytest
import reference
import torch
from decoding import make_sample
from helpers import EOS, make_batch, make_dictionary
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import scripted_language_model, scripted_model

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.search.terms import ActiveTerm, SearchTerm
from fairseq_etads.systems.abs import NO_WORD, count_extractive_features

DICTIONARY = make_dictionary(60)
UNK = DICTIONARY.unk()
WORDS, LONGEST, BEAM = (UNK, 4, 5), 3, 60
"""3 + 9 + 27 unfinished summaries, and those that have ended: fewer than a beam of this size."""
DOCUMENTS = ([4, 6], [5], [4, 5])

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
    impossible = [word for word in range(len(DICTIONARY)) if word not in (*WORDS, EOS)]
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
    every = itertools.chain(*(itertools.product(WORDS, repeat=length) for length in range(least, most + 1)))
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
    found = generator.generate(None, make_sample(list(DOCUMENTS)))
    for document, hypotheses in zip(DOCUMENTS, found):
        score, tokens = brute_force(model, language_model, options, document)
        assert hypotheses[0]["score"].item() == pytest.approx(score, abs=2e-4)
        assert hypotheses[0]["tokens"].tolist() == tokens
