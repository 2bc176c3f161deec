"""Surprisal of documents, compared with the documents of training."""

import json
import math

import pytest
from folders import TEXT, make_folder
from selection_data import content_model
from test_long_documents import make_long_folder, source_of, source_of_extractor

from fairseq_etads import Summarizer
from fairseq_etads.search.content_model import FILE
from fairseq_etads.search.lengths import are_percentiles
from fairseq_etads.summarizer.folder.export import export_folder
from fairseq_etads.summarizer.surprisal import (
    FEWEST,
    PERCENTS,
    SAMPLE,
    TrainingSurprisals,
    WordFrequencies,
    compute_surprisal_percentiles,
)

COUNTS = {"the": 60, "model": 30, "rare": 5}
TOTAL = 60 + 30 + 5 + 3 + 1
USUAL = " ".join(f"w{n % 7}" for n in range(20))
STRANGE = " ".join(f"strange{n}" for n in range(20))


def test_surprisal_is_the_mean_over_tokens_and_unknown_words_are_one():
    tokens = [*["the"] * 6, *["rare"] * 3, "<q>", "new"]
    bits, unknown = WordFrequencies(COUNTS).measure_surprisal(tokens)
    by_hand = (6 * math.log2(TOTAL / 61) + 3 * math.log2(TOTAL / 6) + math.log2(TOTAL)) / 10
    assert bits == pytest.approx(by_hand) and unknown == pytest.approx(0.1)
    total = sum(2 ** -WordFrequencies(COUNTS).measure_surprisal([word] * FEWEST)[0] for word in (*COUNTS, "unknown"))
    assert total == pytest.approx(1), "the probabilities of all words and the unknown one"
    assert WordFrequencies(COUNTS).measure_surprisal(["the"] * (FEWEST - 1) + ["<q>"]) is None, "too few words"


def test_percentiles_are_of_the_part_that_is_read_and_of_a_sample(tmp_path):
    frequencies = WordFrequencies(COUNTS)
    path = tmp_path / "train.source"
    lines = [" ".join(["the"] * (100 - share) + ["rare"] * share + ["unknown"] * 900) for share in range(101)]
    path.write_text("\n".join(lines) + "\n")
    found = compute_surprisal_percentiles(path, frequencies, 100)
    assert are_percentiles(json.loads(json.dumps(found)), PERCENTS, (int, float))
    for percent in PERCENTS:
        by_hand = ((100 - percent) * math.log2(TOTAL / 61) + percent * math.log2(TOTAL / 6)) / 100
        assert found[str(percent)] == pytest.approx(by_hand, abs=1e-4)
    path.write_text("the\n" * 50)
    assert compute_surprisal_percentiles(path, frequencies, 100) is None
    path.write_text((" ".join(["the"] * 20) + "\n" + " ".join(["rare"] * 20) + "\n") * SAMPLE)
    assert len(set(compute_surprisal_percentiles(path, frequencies, 100).values())) == 1, "every second line"


def test_a_document_is_placed_among_those_of_training():
    bits = dict(zip(map(str, PERCENTS), (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12)))
    surprisals = TrainingSurprisals(WordFrequencies({}), bits)
    percentiles = [surprisals.find_percentile(value) for value in (0.5, 1, 1.5, 5.5, 11, 12, 13)]
    assert percentiles == [0, 0, 0.5, 37.5, 99.5, 100, 100]
    level = TrainingSurprisals(WordFrequencies({}), dict.fromkeys(bits, 5))
    assert [level.find_percentile(value) for value in (4, 5, 6)] == [0, 0, 100]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model folder made from training documents with words of the dictionary."""
    path = tmp_path_factory.mktemp("usual")
    make_folder(path, pointer="soft")
    tokens = path / "train.source"
    tokens.write_text("".join(" ".join(f"w{(n * k) % 20}" for k in range(30)) + "\n" for n in range(1, 200)))
    export_folder(source_of(path / "run", TEXT)._replace(documents=tokens), path / "usual", {})
    return path


def test_summaries_and_explanations_have_it(folder):
    summarizer = Summarizer.load(folder / "usual", "cpu")
    usual, strange, short, empty = summarizer.summarize([USUAL, STRANGE, "w1 w2", ""])
    assert usual.surprisal.unknown == 0 and not usual.surprisal.is_unusual
    assert strange.surprisal.unknown == 1 and strange.surprisal.percentile == 100 and strange.surprisal.is_unusual
    assert short.surprisal is None and empty.surprisal is None
    assert strange.to_dict()["surprisal"]["percentile"] == 100 and "surprisal" not in short.to_dict()
    explanation = strange.explain()
    assert explanation.surprisal == strange.surprisal
    assert '"unusual":true' in explanation.to_html() and '"unusual":false' in usual.explain().to_html()
    without = Summarizer.load(folder / "model", "cpu").summarize(STRANGE)
    assert without.surprisal is None and "surprisal" not in without.explain().to_dict()


def test_documents_of_which_sentences_are_chosen_are_compared_with_those_that_the_extractor_read(folder, tmp_path):
    make_long_folder(tmp_path)
    content_model(tmp_path / "extractor" / FILE)
    (tmp_path / "strange.source").write_text(f"{STRANGE}\n")
    extractor = source_of_extractor(tmp_path / "extractor", "picking.json", FILE)
    extractor = extractor._replace(documents=tmp_path / "strange.source")
    source = source_of(tmp_path / "run", TEXT, None, extractor)._replace(documents=folder / "train.source")
    export_folder(source, tmp_path / "both", {})
    summarizer = Summarizer.load(tmp_path / "both", "cpu")
    assert summarizer.summarize(STRANGE, choose="none").surprisal.is_unusual
    assert not summarizer.summarize(STRANGE, choose="extract").surprisal.is_unusual
