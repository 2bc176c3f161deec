"""Hypotheses re-ranked by a content model: by --content-model, and by model folders."""

import math
import random

import pytest
import reference
from decoding import DICTIONARY, TASK, make_sample, sharpen
from folders import DECODING, make_folder
from helpers import make_model
from test_chosen_summaries import content_model
from test_long_documents import LONG

from fairseq_etads import Summarizer
from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.platform.errors import InputError
from fairseq_etads.search.content_model import FILE, ContentModel
from fairseq_etads.search.sentence_choosing import (
    CONSENSUS_WEIGHT,
    ContentTerm,
    ExpectedNgrams,
    Reranker,
    compute_consensus,
    split_sentences,
)

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


def test_a_beam_of_one_leaves_nothing_to_choose_from(model, content):
    with pytest.raises(ValueError, match="--beam 1"):
        found(model, [term(content)], beam_size=1)


@pytest.mark.parametrize("seed", range(5))
def test_the_consensus_is_the_mean_over_the_others(seed):
    r = random.Random(seed)
    hypotheses = [[f"w{r.randint(0, 5)}" for _ in range(r.randint(0, 8))] for _ in range(6)]
    for counts in ([True] * 6, [r.random() < 0.5 for _ in range(6)], [False] * 6):
        assert compute_consensus(hypotheses, counts) == pytest.approx(reference.consensus(hypotheses, counts))
