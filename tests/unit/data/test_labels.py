"""Labels of content selection against oracles, their properties, and the picking of sentences by probability."""

import itertools
import random

import pytest
import reference
from rouge_score.rouge_scorer import _summary_level_lcs

from fairseq_etads.data import labels
from fairseq_etads.data.labels import (
    FULL,
    SHORTEST,
    SentencePickingSettings,
    is_content_word,
    label_copied_words,
    pick_sentences,
)
from fairseq_etads.data.preparation import WordText, list_summary_sentences
from fairseq_etads.platform.errors import InputError


def texts(seed, count, longest=7, words="abcde"):
    """Pairs of a document and a summary of up to 5 and 3 sentences."""
    r = random.Random(seed)
    for _ in range(count):
        yield (
            [[r.choice(words) for _ in range(r.randint(0, longest))] for _ in range(r.randint(0, 5))],
            [[r.choice(words) for _ in range(r.randint(1, longest))] for _ in range(r.randint(0, 3))],
        )


def flat(sentences):
    return [word for sentence in sentences for word in sentence]


def recall(sentences, summary):
    return _summary_level_lcs(summary, sentences).recall if flat(sentences) else 0


@pytest.mark.parametrize("words", ["ab", "abcdefgh"])
def test_copied_words_are_those_of_the_definition(words):
    """The authors' program finds "he" in "the" and leaves out the last word; this one does not."""
    for document, summary in texts(1, 400, words=words):
        x, y = flat(document), flat(summary)
        assert label_copied_words(x, y) == reference.label_copied_words(x, y), (x, y)
    assert label_copied_words(["he", "saw", "it"], ["the", "cat", "saw", "it"]) == [0, 1, 1]


def test_matched_sentences_are_those_of_the_definition():
    for document, summary in texts(5, 300, longest=5):
        assert labels.match_sentences(document, summary) == reference.match_sentences(document, summary)


def test_extracted_sentences_are_those_of_the_definition():
    for document, summary in texts(6, 300):
        expected = reference.select_by_greedy_recall(document, summary, recall) if summary else []
        assert labels.select_by_greedy_recall(document, summary) == expected, (document, summary)


def test_distributions_are_the_cosines_of_the_definition():
    words = ("the", "of", ",", "cat", "dog", "1984", "n't", "tree")
    documents = [flat(document) for document, _ in texts(8, 20, words=words)]
    idf, unseen = labels.compute_idf(documents)
    for document, summary in texts(9, 100, words=(*words, "new")):
        found = labels.compute_selection_targets(document, summary, idf, unseen)
        expected = reference.cosines(document, summary, documents, is_content_word)
        assert found == [pytest.approx(row) for row in expected]
        assert all(sum(row) == pytest.approx(1) or not any(row) for row in found)
    assert not is_content_word("the") and not is_content_word("``") and is_content_word("1984") and is_content_word("é")


def test_subwords_have_the_label_of_their_word():
    tokens = ["the", "c@@", "at", "<q>", "s@@", "a@@", "t", "down"]
    text = WordText.from_tokens(tokens, "subword_nmt")
    assert text.words == ["the", "cat", "<q>", "sat", "down"]
    assert text.expand_word_values_to_tokens([1, 2, 3, 4, 5]) == [1, 2, 2, None, 4, 4, 4, 5]
    pieces = WordText.from_tokens(["▁the", "▁c", "at", "<q>", "▁s", "a", "t", "▁down"], "sentencepiece")
    assert pieces == text
    assert text.split_sentences() == [["the", "cat"], ["sat", "down"]]
    assert text.get_sentence_indices() == [0, 0, None, 1, 1]
    cut = WordText.from_tokens(tokens, "subword_nmt", limit=6)
    assert cut.words == ["the", "cat", "<q>", "sat"]
    assert cut.expand_word_values_to_tokens("abcd") == [*"abb", None, *"dd"]
    assert WordText.from_tokens(["a", "b@@"], "subword_nmt").words == ["a", "b"]
    # sentences are numbered by the marks before them
    text = WordText.from_tokens(["<q>", "a", "<q>", "<q>", "b", "<q>"], "none")
    assert text.split_sentences() == [[], ["a"], [], ["b"]]
    assert list_summary_sentences(["<q>", "a", "<q>", "<q>", "b", "<q>"], "none") == [["a"], ["b"]]
    assert WordText.from_tokens([], "none").split_sentences() == list_summary_sentences(["<q>"], "none") == []


def f1_of_both(sentences, summary):
    """F1 of distinct words plus that of bigrams; an extract's size is the sum of its sentences' sizes."""
    words, bigrams = set(flat(summary)), {pair for s in summary for pair in zip(s, s[1:])}
    found, pairs = set(flat(sentences)), {pair for s in sentences for pair in zip(s, s[1:])}
    size = sum(len(set(s)) for s in sentences)
    return 2 * len(words & found) / (len(words) + size) + 2 * len(bigrams & pairs) / (len(bigrams) + size)


def test_sentences_by_f1_are_those_of_a_greedy_search():
    others = 0
    for document, summary in texts(11, 400, words="abcdefgh"):
        free = [number for number, sentence in enumerate(document) if sentence]
        taken, best, first = [], 0.0, free[:1]
        while free:
            values = {number: f1_of_both([document[n] for n in [*taken, number]], summary) for number in free}
            top = max(free, key=lambda number: (round(values[number], 9), -number))
            if values[top] <= best + 1e-9:
                break
            best = values[top]
            taken.append(top)
            free.remove(top)
        found = labels.select_by_greedy_f1(document, summary)
        assert found == (sorted(taken) or first), (document, summary)
        others += found != labels.select_by_greedy_recall(document, summary)
    assert others > 50, "it is another kind of labels"


def test_the_likeliest_that_fit_are_picked_in_the_documents_order():
    lengths, probabilities = [50, 80, 40, 2, 30], [0.2, 0.9, 0.1, 0.99, 0.5]
    for budget, picked in (
        (202, [0, 1, 2, 3, 4]),  # a document that fits is taken whole
        (201, [0, 1, 2, 4]),  # all but the fragment of two words
        (110, [1, 4]),  # the budget is full
        (100, [1]),  # none of the others fits, and a fragment is not picked
        (79, [2, 4]),  # the likeliest is too long, and so is the third with the second
        (10, [1]),  # not even one fits: the likeliest
    ):
        assert pick_sentences(lengths, probabilities, budget) == picked
    assert pick_sentences([2, 1, 2, 0], [0.1, 0.2, 0.3, 0.9], 3) == [1, 2], "short ones where there are no others"
    assert pick_sentences([5, 5], [0.5, 0.5], 5) == [0] and pick_sentences([5, 5], [None, 0.0], 5) == [1]
    assert pick_sentences([0, 0], [0.5, None], 10) == []


def test_properties_of_a_pick():
    r = random.Random(1)
    for _ in range(500):
        count, budget = r.randint(1, 12), r.randint(3, 60)
        lengths = [r.randint(0, 25) for _ in range(count)]
        probabilities = [r.random() for _ in range(count)]
        found = pick_sentences(lengths, probabilities, budget)
        usable = [n for n in range(count) if lengths[n] >= SHORTEST]
        total = sum(lengths[n] for n in found)
        assert found == sorted(set(found)) and (total <= budget or len(found) == 1)
        if not usable or total > budget or sum(lengths) <= budget:
            continue
        assert set(found) <= set(usable)
        for n in set(usable) - set(found):
            likelier = sum(lengths[m] for m in found if probabilities[m] > probabilities[n])
            assert likelier + lengths[n] > budget or likelier >= FULL * budget, "a likelier one that fits is picked"


def test_levels_are_quantiles_of_the_training():
    values = [number / 1000 for number in range(1000)]
    random.Random(2).shuffle(values)
    edges = labels.compute_probability_level_bounds(values)
    assert edges == (0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.9)
    picking = SentencePickingSettings(200, edges)
    levels = [int(picking.find_probability_level(value)) for value in sorted(values)]
    assert [(level, len(list(group))) for level, group in itertools.groupby(levels)] == [
        *((1, 150), (2, 150), (3, 150), (4, 150)),
        *((5, 100), (6, 100), (7, 100), (8, 100)),
    ]
    with pytest.raises(InputError, match="no sentences"):
        labels.compute_probability_level_bounds([])


def test_a_file_is_read_as_it_was_written_and_words_are_counted_between_white_space(tmp_path):
    picking, path = SentencePickingSettings(6, (0.1, 0.25)), tmp_path / "picking.json"
    path.write_text(picking.to_json())
    assert SentencePickingSettings.read(path, "") == picking
    picked = picking.pick(["one two three.", "four five six seven", "a  b\tc"], [0.1, 0.2, 0.3])
    assert [pick.number for pick in picked] == [0, 2]


@pytest.mark.parametrize("edges", ["[0.2, 0.1]", '"0.1"', '[], "more": 1', "[NaN]"])
def test_a_damaged_file_is_refused(tmp_path, edges):
    path = tmp_path / "picking.json"
    path.write_text(f'{{"words": 200, "edges": {edges}}}')
    with pytest.raises(InputError, match=r"picking.json is damaged .*; make it again"):
        SentencePickingSettings.read(path, "make it again")
