"""Content models, and sentences and hypotheses chosen by expected ROUGE; lengths of summaries, and limits."""

import itertools
import json
import math
import random
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
import reference
from decoding import DICTIONARY, TASK, make_sample, sharpen
from folders import DECODING, make_folder
from helpers import make_model
from hypothesis import given
from hypothesis import strategies as st
from rouge_score import rouge_scorer
from selection_data import content_model, made_text, random_networks
from test_long_documents import LONG

from fairseq_etads import Summarizer
from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.platform.errors import InputError
from fairseq_etads.search.content_model import (
    FILE,
    PRIOR_WEIGHT,
    WIDTHS,
    ContentModel,
    NgramPriorProbabilities,
    count_summary_ngrams,
    make_feature_tables,
)
from fairseq_etads.search.lengths import LimitError, SummaryLimits, TextLengths, are_percentiles, choose_length_bounds
from fairseq_etads.search.sentence_choosing import (
    CONSENSUS_WEIGHT,
    SAME,
    ContentTerm,
    ExpectedNgrams,
    Readability,
    Reranker,
    choose_sentence_set,
    compute_consensus,
    split_sentences,
)


def test_expected_rouge_of_a_known_reference_is_its_rouge():
    """If the reference is certain, the expectation is ROUGE-1 plus two ROUGE-2, as rouge-score computes them."""
    r = random.Random(3)
    scorer = rouge_scorer.RougeScorer(["rouge1", "rouge2"])
    for _ in range(40):
        reference, summary = made_text(r, 3, 30), made_text(r, r.randint(1, 3), 30)
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
    sentences = made_text(r, 5, 30)
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
    priors = NgramPriorProbabilities.from_pairs(
        (made_text(r, 4), made_text(r, 2)) for _ in range(30)
    ).keep_frequent_ngrams(5)
    model = ContentModel(priors, random_networks(1), 11.5)
    model.save(tmp_path / FILE)
    again = ContentModel.load(tmp_path / FILE, "")
    document, probabilities = made_text(random.Random(2), 5), [0.1, 0.2, 0.3, 0.4, 0.5]
    found = model.predict_ngram_probabilities(document, probabilities)
    assert found == again.predict_ngram_probabilities(document, probabilities) and len(found) > 20
    assert len(set(found.values())) > 10 and again.length == 11.5
    assert again.predict_ngram_probabilities([], []) == again.predict_ngram_probabilities([[]], [0.5]) == {}


DOCUMENTS = [[5, 6, 7, 8, 9, 10, 11], [9, 12, 9], [8, 4, 13, 14, 5, 6]]
OPTIONS = {"beam_size": 6, "max_len_b": 6, "min_len": 2}


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    return ContentModel.load(content_model(tmp_path_factory.mktemp("content") / FILE, of_extractor=False), "")


@pytest.fixture(scope="module")
def model():
    return sharpen(make_model("etads", TASK, share_all_embeddings=False, pointer="soft"))


def found(model, terms, **options):
    generator = SummaryGenerator([model], DICTIONARY, terms=terms, **{**OPTIONS, **options})
    return generator.generate(None, make_sample(DOCUMENTS))


def words(hypothesis):
    return [DICTIONARY[word] for word in hypothesis["tokens"].tolist() if word != DICTIONARY.eos()]


def term(content, weight=3.0):
    return ContentTerm(Reranker(content, weight, "none"), TASK.source_dictionary)


def test_hypotheses_are_ordered_by_score_expected_rouge_and_consensus(model, content):
    """The same by hand: for each hypothesis of the plain search the sum, and the largest first."""
    moved = 0
    for ids, plain, ranked in zip(DOCUMENTS, found(model, [], nbest=6), found(model, [term(content)])):
        document = [TASK.source_dictionary[word] for word in ids]
        expected = ExpectedNgrams(content.predict_ngram_probabilities([document], [1.0]), content.length)
        agreement = reference.consensus([words(one) for one in plain], [True] * len(plain))
        sums = [
            float(one["score"]) + 3.0 * (expected.compute_expected_rouge([words(one)]) + CONSENSUS_WEIGHT * agrees)
            for one, agrees in zip(plain, agreement)
        ]
        order = sorted(range(len(plain)), key=lambda number: -sums[number])
        assert [one["tokens"].tolist() for one in ranked] == [plain[number]["tokens"].tolist() for number in order]
        assert [float(one["score"]) for one in ranked] == pytest.approx([sums[number] for number in order], abs=1e-5)
        moved += order[0] != 0
    assert moved
    with pytest.raises(ValueError, match="--beam 1"):
        found(model, [term(content)], beam_size=1)


def test_sentences_end_at_marks_or_at_final_punctuation():
    for text, sentences in {"a b . c ! d": "a b .|c !|d", "a . b <q> c d <q>": "a . b|c d", ". <q> . ": ".|."}.items():
        assert [" ".join(sentence) for sentence in split_sentences(text.split())] == sentences.split("|")
    assert split_sentences([]) == []


def test_subwords_and_marks_are_no_words(content):
    """Pieces count as the word that they form, and a sentence mark adds nothing."""
    whole = Reranker(content, 1.0, "none").compute_scores(["w1", "w2"], [["w1", "w2"]], [0.0])
    pieces = Reranker(content, 1.0, "subword_nmt").compute_scores(
        ["w@@", "1", "w2"], [["w@@", "1", "<q>", "w2"]], [0.0]
    )
    assert whole == pieces and whole[0] > 0


def test_each_hypothesis_with_a_finite_score_counts_in_the_consensus(content):
    """The third has an infinite score, so the other ones have the scores of a beam without it."""
    reranker, texts = Reranker(content, 2.0, "none"), [["w1", "w2"], ["w1", "w3"], ["w1", "w2", "w3"]]
    three = reranker.compute_scores(["w1", "w2"], texts, [-1.0, -2.0, -math.inf])
    assert three == [*reranker.compute_scores(["w1", "w2"], texts[:2], [-1.0, -2.0]), -math.inf]
    assert reranker.compute_scores(["w1", "w2"], texts, [-1.0, -2.0, -3.0])[0] > three[0]


def folder_with(content, path):
    decoding = {name: value for name, value in DECODING.items() if name != "beam"}
    return make_folder(path, decoding=decoding, extra_files={FILE: content}, pointer="soft")[0]


def test_a_folder_with_a_content_model_that_needs_no_extractor_reranks_unless_told_otherwise(tmp_path):
    with pytest.raises(InputError, match="needs an extractor's probabilities"):
        folder_with(content_model(tmp_path / FILE), tmp_path / "refused")
    folder = folder_with(content_model(tmp_path / FILE, of_extractor=False), tmp_path / "made")
    summarizer = Summarizer.load(folder, device="cpu")
    assert "hypothesis" in summarizer.supported_choose_values
    assert (summarizer.config.decoding["choose"], summarizer.config.decoding["beam"]) == ("hypothesis", 12)
    texts = [LONG, "W5 w6. W7 w9.", "W1 W2 W3 w4 W5. W6 w7 w8."]
    ranked = list(summarizer.stream(texts))
    assert [one.text for one in ranked] == [summarizer.summarize(text).text for text in texts]
    strong = [summarizer.summarize(text, content_weight=1000.0) for text in texts]
    plain = [summarizer.summarize(text, choose="none", beam=12) for text in texts]
    assert [one.text for one in strong] != [one.text for one in plain]
    assert all(one.score > other.score for one, other in zip(strong, plain))
    with pytest.raises(InputError, match="--choose content"):
        summarizer.summarize(LONG, choose="content")
    greedy = summarizer.summarize(LONG, beam=1, choose="none")
    assert summarizer.summarize(LONG, beam=1).text == greedy.text, "the option of a call wins over the folder's choice"


@pytest.mark.parametrize("seed", range(5))
def test_the_consensus_is_the_mean_over_the_others(seed):
    r = random.Random(seed)
    hypotheses = [[f"w{r.randint(0, 5)}" for _ in range(r.randint(0, 8))] for _ in range(6)]
    for counts in ([True] * 6, [r.random() < 0.5 for _ in range(6)], [False] * 6):
        assert compute_consensus(hypotheses, counts) == pytest.approx(reference.consensus(hypotheses, counts))


SENTENCES = st.lists(st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=6).map(" ".join), min_size=1, max_size=7)
LIMITS = st.builds(
    SimpleNamespace,
    sentences=st.integers(0, 3),
    words=st.integers(0, 12),
    percent=st.sampled_from([0.0, 20.0, 60.0]),
    must_include=st.lists(st.sampled_from(["a b", "C", "g", "x"]), max_size=2),
)


def holds(text, sentences):
    return any(f" {text.lower()} " in f" {sentence} " for sentence in sentences)


def check(chosen, document, options):
    """The limits hold, as counted here."""
    words = sum(len(one.split()) for one in chosen)
    assert not options.sentences or len(chosen) <= options.sentences
    assert not options.words or words <= options.words
    assert not options.percent or words <= options.percent / 100 * sum(len(one.split()) for one in document)
    assert all(holds(text, chosen) for text in options.must_include)


def check_refusal(error, candidates, document, options):
    """The message is about a limit that cannot hold."""
    if "neither" in str(error):
        missing = [text for text in options.must_include if not holds(text, [*candidates, *document])]
        assert missing and missing[0] in str(error)
    elif "shortest sentences that contain" in str(error):
        assert options.must_include
    else:
        share = int(sum(len(one.split()) for one in document) * options.percent / 100) if options.percent else 99
        shortest = min(len(one.split()) for one in candidates)
        assert shortest > min(options.words or 99, share) and f"the shortest has {shortest} words" in str(error)


@given(SENTENCES, st.lists(SENTENCES, min_size=1, max_size=3), LIMITS)
def test_sentences_of_hypotheses_keep_to_the_limits(document, hypotheses, options):
    try:
        places = SummaryLimits.for_document(options, " ".join(document)).choose_among(hypotheses, document)
    except LimitError as error:
        check_refusal(error, [one for sentences in hypotheses for one in sentences], document, options)
    else:
        assert places == sorted(places)
        check([[*hypotheses, document][number][place] for number, place in places], document, options)


@given(SENTENCES, LIMITS)
def test_sentences_that_a_content_model_chooses_keep_to_the_limits(document, options):
    limits = SummaryLimits.for_document(options, " ".join(document))
    expected = ExpectedNgrams({(("a",), 1): 0.9, (("b", "c"), 1): 0.5, (("d",), 1): 0.2}, 5.0)
    try:
        chosen = choose_sentence_set([one.split() for one in document], expected, 1e9, limits=limits, written=document)
    except LimitError as error:
        check_refusal(error, document, document, options)
    else:
        assert chosen == sorted(set(chosen)) and chosen
        check([document[number] for number in chosen], document, options)


def test_as_many_sentences_as_wanted_are_chosen_and_a_text_is_found_as_whole_words_in_any_case():
    document = ["a b c", "x y z", "u v w"]
    expected = ExpectedNgrams({(("a",), 1): 1.0}, 3.0)
    words = [one.split() for one in document]
    assert choose_sentence_set(words, expected, 1e9, limits=SummaryLimits(), written=document) == [0]
    assert len(choose_sentence_set(words, expected, 1e9, limits=SummaryLimits(sentences=3), written=document)) == 3
    limits = SummaryLimits(texts=("New  York", "art"))
    assert limits.list_missing(["a party in new york"]) == ["art"]
    with pytest.raises(LimitError, match='--must-include "art": neither'):
        limits.choose_required(["a party in new york"])


def test_percentiles_and_means_by_hand():
    lengths = TextLengths(range(101, 0, -1))
    assert [lengths.get_percentile(percent) for percent in (0, 1, 50, 99, 100)] == [1, 2, 51, 100, 101]
    assert (lengths.compute_mean(), lengths.compute_mean(longest=1)) == (51, 1)
    assert TextLengths([1, 5, 9]).compute_mean(longest=6) == 4
    found = lengths.get_percentiles()
    assert found == {str(percent): percent + 1 for percent in (1, 5, 10, 25, 50, 75, 90, 95, 99)}
    assert are_percentiles(json.loads(json.dumps(found)))
    for other in ([], {}, None, {**found, "50": -1}, {**found, "50": 51.5}, {**found, "1": 99}, {**found, "2": 5}):
        assert not are_percentiles(other)
    with pytest.raises(ValueError):
        TextLengths([])


def test_short_summaries_lose_only_odd_lengths_and_long_ones_have_the_median_at_least():
    short = TextLengths([3] * 8 + [7] * 80 + [11] * 11 + [40]).get_percentiles()
    assert choose_length_bounds(short) == {"min_len": 7, "max_len": 12}
    long = TextLengths([50, 66, 85, 108, 128]).get_percentiles()
    assert choose_length_bounds(long) == {"min_len": 85, "max_len": 128}
    assert choose_length_bounds(long, longest=100) == {"min_len": 85, "max_len": 100}
    assert choose_length_bounds(long, longest=60) == {"min_len": 60, "max_len": 60}
    assert choose_length_bounds(TextLengths([0, 0, 1]).get_percentiles()) == {"min_len": 1, "max_len": 5}
