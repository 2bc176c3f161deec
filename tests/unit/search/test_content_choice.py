"""The content model: priors, features, the file, and the choice of sentences by expected ROUGE."""

import itertools
import math
import random
import tracemalloc

import numpy as np
import pytest
import reference
from rouge_score import rouge_scorer
from selection_data import random_networks

from fairseq_etads.search.content_model import (
    FILE,
    PRIOR_WEIGHT,
    WIDTHS,
    ContentModel,
    NgramPriorProbabilities,
    count_summary_ngrams,
    make_feature_tables,
)
from fairseq_etads.search.sentence_choosing import SAME, ExpectedNgrams, Readability, choose_sentence_set


def text(r, sentences, kinds=9):
    return [[f"w{r.randint(0, kinds)}" for _ in range(r.randint(3, 7))] for _ in range(sentences)]


def test_expected_rouge_of_a_known_reference_is_its_rouge():
    """If the reference is certain, the expectation is ROUGE-1 plus two ROUGE-2, as rouge-score computes them."""
    r = random.Random(3)
    scorer = rouge_scorer.RougeScorer(["rouge1", "rouge2"])
    for _ in range(40):
        reference, summary = text(r, 3, 30), text(r, r.randint(1, 3), 30)
        items = {
            (gram, count): 1.0
            for order in (1, 2)
            for gram, number in count_summary_ngrams(reference, order).items()
            for count in range(1, number + 1)
        }
        scores = scorer.score(*(" ".join(itertools.chain(*sentences)) for sentences in (reference, summary)))
        expected = ExpectedNgrams(items, sum(map(len, reference))).compute_expected_rouge(summary)
        assert expected == pytest.approx(scores["rouge1"].fmeasure + 2 * scores["rouge2"].fmeasure)


@pytest.fixture(params=range(12))
def drawn(request):
    """Five sentences as words and as texts, with words of the rules, and the expected content of a summary."""
    r = random.Random(request.param)
    sentences = text(r, 5, 30)
    items = {(gram, 1): r.random() for order in (1, 2) for gram in count_summary_ngrams(sentences, order)}
    items.update({((f"w{n}",), 2): r.random() / 2 for n in range(30)})
    for sentence in sentences:
        sentence[r.randint(0, 1)] = r.choice(["he", "but", "she", "i", "pictured", "said", "word", "well"])
        sentence[-1] = r.choice(["long", "word", "w1"])
    begins = [r.choice([2, 3, 99]) for _ in sentences]  # the word that is spelled as if it began a sentence
    texts = [
        " ".join("The" if n == begin else word for n, word in enumerate(sentence))
        for sentence, begin in zip(sentences, begins)
    ]
    texts = [text + r.choice([".", ".", ""]) for text in texts]
    return sentences, texts, ExpectedNgrams(items, 9.0)


def test_readability_is_that_of_the_loops(drawn):
    sentences, texts, _ = drawn
    reading = Readability(texts, sentences)
    for size in range(5):
        for before in itertools.combinations(range(5), size):
            found = reading.score_extensions(np.array([[number in before for number in range(5)]]))[0]
            for number in set(range(5)).difference(before):
                wanted = reference.readability(sorted((*before, number)), texts, sentences)
                assert found[number] == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("weight", [0.0, 0.1, 1.0])
def test_the_chosen_set_is_the_best_of_all(drawn, weight):
    """Five sentences have at most ten sets of each size, and the search keeps all of them."""
    sentences, texts, expectation = drawn
    most = 16
    reading = Readability(texts, sentences) if weight else None

    def allowed(numbers):
        pairs = itertools.combinations([set(sentences[number]) for number in numbers], 2)
        return sum(len(sentences[number]) for number in numbers) <= most and all(
            len(one & other) <= SAME * min(len(one), len(other)) for one, other in pairs
        )

    def score(numbers):
        found = reference.expected_rouge([sentences[number] for number in numbers], *expectation)
        return found + weight * reference.readability(numbers, texts, sentences)

    sets = [numbers for size in range(1, 6) for numbers in itertools.combinations(range(5), size) if allowed(numbers)]
    assert choose_sentence_set(sentences, expectation, most, reading, weight) == list(max(sets, key=score))


def test_a_sentence_is_chosen_once_and_something_always_is():
    expectation = ExpectedNgrams({(("a",), 1): 0.9, (("b",), 1): 0.8}, 4.0)
    twice = [["a", "c", "d"], ["a", "c", "d"], ["b", "e", "f"]]
    assert choose_sentence_set(twice, expectation, 100) == [0, 2]
    assert choose_sentence_set(twice, expectation, 2) == [0], "all are too long"
    assert choose_sentence_set([["a"], ["b"]], expectation, 10) == [0, 1], "all are too short"
    assert choose_sentence_set([[], []], expectation, 10) == choose_sentence_set([], expectation, 10) == []


def test_the_sentences_of_a_book_fit_into_memory():
    """A table of all pairs of 4,000 sentences, or of sentences and words, takes 64 and 256 MB."""
    book = [[f"w{number}-{place}" for place in range(4)] for number in range(4000)]
    expected = ExpectedNgrams({(("w7-1",), 1): 1.0, (("w3000-2",), 1): 0.5}, 8.0)
    tracemalloc.start()
    reading = Readability([" ".join(one) for one in book], book)
    chosen = choose_sentence_set(book, expected, 8, reading, 1e-6)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert chosen == [7, 3000] and most < 5e7


def test_priors_are_proportions_and_leave_out_a_pair():
    pairs = [([["a", "b", "a"]], [["a", "b"]]), ([["a", "c"]], [["c"]]), ([["a"]], [["a", "a"]])]
    priors = NgramPriorProbabilities.from_pairs(iter(pairs))
    assert priors.counts[("a",), 1] == (3, 2) and priors.counts[("a",), 2] == (1, 0)
    assert priors.counts[("a", "b"), 1] == (1, 1) and priors.counts[("a", "c"), 1] == (1, 0)
    # items of one word with count 1: a, b; a, c; a. of these five items, the three summaries contain a and b, c, and a
    assert priors.base[1, 1] == pytest.approx((4 + 1) / (5 + 2))
    without = NgramPriorProbabilities.from_pairs(iter(pairs[1:]))
    shared = NgramPriorProbabilities(without.counts, priors.base)
    for item, has in (((("a",), 1), 1), ((("b",), 1), 1), ((("a",), 2), 0), ((("b", "a"), 1), 0)):
        found = priors.compute_prior_features([item], [has])
        assert found == pytest.approx(shared.compute_prior_features([item]))
    base = priors.base[1, 1]
    wanted = (2 + PRIOR_WEIGHT * base) / (3 + PRIOR_WEIGHT)
    found = priors.compute_prior_features([(("a",), 1)])
    assert found == pytest.approx(np.array([[math.log(wanted / (1 - wanted)), math.log(4)]]))
    assert set(priors.keep_frequent_ngrams(2).counts) == {(("a",), 1)}


def test_features_say_where_and_how_often_a_word_occurs():
    document = [["a", "b"], ["a", "a"], ["c"]]
    found = make_feature_tables(
        document, [0.2, 0.6, 0.5], NgramPriorProbabilities.from_pairs(iter([])), [["a", "a"], ["c"]]
    )
    words = found[1]
    assert words.items == [(("a",), 1), (("a",), 2), (("a",), 3), (("b",), 1), (("c",), 1)]
    assert words.labels == [True, True, False, False, True]
    a = words.features[0]
    assert a[:7] == pytest.approx(
        [math.log(3), math.log(2), math.log(11), 0.6, 0.2, 0.4, math.log((1 - 0.8 * 0.4) / (0.8 * 0.4))], rel=1e-5
    )
    # first and last place, in the first, the last and the last but one sentence, three sentences, the most probable one
    assert a[7:17] == pytest.approx([0, 1 / 3, 1, 0, 1, math.log(3), 1, 1, 1, 1])
    assert words.features[4][7:17] == pytest.approx([2 / 3, 2 / 3, 0, 1, 0, math.log(3), 0, 1, 1, 1])
    assert [gram for gram, _ in found[2].items] == [("a", "b"), ("a", "a")], "no bigram crosses sentences"
    assert {order: table.features.shape[1] for order, table in found.items()} == WIDTHS


def test_a_model_is_the_same_after_storing(tmp_path):
    r = random.Random(1)
    priors = NgramPriorProbabilities.from_pairs((text(r, 4), text(r, 2)) for _ in range(30)).keep_frequent_ngrams(5)
    model = ContentModel(priors, random_networks(1), 11.5)
    model.save(tmp_path / FILE)
    again = ContentModel.load(tmp_path / FILE, "")
    document, probabilities = text(random.Random(2), 5), [0.1, 0.2, 0.3, 0.4, 0.5]
    found = model.predict_ngram_probabilities(document, probabilities)
    assert found == again.predict_ngram_probabilities(document, probabilities) and len(found) > 20
    assert len(set(found.values())) > 10 and again.length == 11.5
    assert again.predict_ngram_probabilities([], []) == again.predict_ngram_probabilities([[]], [0.5]) == {}
