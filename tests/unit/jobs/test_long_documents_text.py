"""Checks of the text of a training with --long, and the recipes' choices for picked sentences."""

import pytest

from fairseq_etads.jobs.long_documents import (
    FEWEST_PAIRS,
    check_architecture_reads_salience,
    choose_word_budget,
    describe_content_training_time,
    describe_lengths,
    estimate_content_training_seconds,
    main,
    measure_training_text_lengths,
)
from fairseq_etads.jobs.recipes import SIZES, Machine, TrainingDataSize, make_recipe
from fairseq_etads.platform.errors import InputError
from fairseq_etads.search.lengths import TextLengths
from fairseq_etads.text.picking import FILE, WORDS, SentencePickingSettings

PICKED = TrainingDataSize(26_000, TextLengths([180, 200, 210, 226]), TextLengths([50, 85, 128]))
WHOLE = TrainingDataSize(26_000, TextLengths([300, 500, 900]), TextLengths([50, 85, 128]))
SALIENCE = ["--source-factors", "salience"]


@pytest.fixture
def text(tmp_path):
    """A folder with 100 pairs for training, of documents with 7 words and a mark."""
    for split, lines in (("train", FEWEST_PAIRS), ("valid", 3)):
        (tmp_path / f"{split}.source").write_text("One two three . <q> Four five .\n" * lines)
        (tmp_path / f"{split}.target").write_text("One five .\n" * lines)
    return tmp_path


def test_marks_are_no_words(text):
    assert measure_training_text_lengths(text).documents.get_percentile(50) == 7


def test_short_documents_need_no_extractor(text):
    assert "read whole" in describe_lengths(measure_training_text_lengths(text), 7)
    said = describe_lengths(WHOLE, 200)
    assert "500 words (median), 300 to 900" in said and "up to 200 words" in said and "read whole" not in said


def test_the_time_of_the_content_model_is_said_unless_it_is_left_out(text, capsys):
    """Measured on SumPubMed: 26,284 pairs, 520 words (median), 203 s of processor time."""
    measured = TrainingDataSize(26_284, TextLengths([520]), TextLengths([80]))
    assert estimate_content_training_seconds(measured) == pytest.approx(203, rel=0.1)
    assert "about 4 minutes on 1 core (--no-content leaves it out)" in describe_content_training_time(measured)
    arguments = [str(text), "--words", "200", "--extractor", str(text / "extractor")]
    for options, is_said in (([], True), (["--no-content"], False)):
        assert main([*arguments, *options]) == 0
        assert ("its content model" in capsys.readouterr().err) is is_said


@pytest.mark.parametrize("missing", ["train.target", "valid.source"])
def test_a_missing_file_is_named(text, missing):
    (text / missing).unlink()
    with pytest.raises(InputError, match=rf"--text .*: no {missing} in it"):
        measure_training_text_lengths(text)


def test_too_few_pairs_are_refused(text, capsys):
    (text / "train.source").write_text("One .\n" * (FEWEST_PAIRS - 1))
    assert main([str(text), "--words", "200", "--extractor", str(text / "extractor")]) == 2
    assert f"has {FEWEST_PAIRS - 1} training pairs" in capsys.readouterr().err


@pytest.mark.parametrize("arch", ["etads", "aggregation_transformer", "pg_coverage", "somebodys_own"])
def test_architectures_that_read_factors_are_taken(arch):
    check_architecture_reads_salience(arch)


@pytest.mark.parametrize("arch", ["abs", "sentence_extractor"])
def test_others_are_refused_with_those_that_do(arch):
    with pytest.raises(InputError, match=rf"--arch {arch} has no --source-factors; choose one of etads, .*pg_coverage"):
        check_architecture_reads_salience(arch)


@pytest.mark.parametrize("name", [*SIZES])
def test_picked_sentences_are_read_to_the_end(name):
    words = make_recipe(name, PICKED, Machine(1), "etads", SALIENCE).train
    assert words[words.index("--truncate-source") + 1] == "230"
    wide = make_recipe(name, WHOLE, Machine(1), "etads", ["--source-factors", "pos,salience:16"]).train
    assert wide[wide.index("--truncate-source") + 1] == "900"


@pytest.mark.parametrize(
    "name,data,given,expected",
    [
        ("small", WHOLE, [], True),
        ("base", WHOLE, [], True),
        ("large", WHOLE, [], False),
        ("base", PICKED, [], False),
        ("small", WHOLE, SALIENCE, False),
        ("small", WHOLE, ["--source-factors", "pos"], True),
        ("small", WHOLE, ["--truncate-source", "600"], False),
    ],
)
def test_long_documents_are_pointed_to_the_extractor(name, data, given, expected):
    said = "\n".join(make_recipe(name, data, Machine(1), "etads", given).says)
    assert (
        "half of the documents have more than" in said and "with --long, documents are read whole" in said
    ) == expected


def test_the_number_of_words_is_the_one_of_an_extractor_that_is_there(tmp_path):
    assert choose_word_budget(None, tmp_path) == WORDS and choose_word_budget(90, tmp_path) == 90
    (tmp_path / FILE).write_text(SentencePickingSettings(60, (0.1, 0.5)).to_json())
    assert choose_word_budget(None, tmp_path) == choose_word_budget(60, tmp_path) == 60
    with pytest.raises(InputError, match=r"--words 90: .* were shortened to 60 words"):
        choose_word_budget(90, tmp_path)
    (tmp_path / FILE).write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        choose_word_budget(None, tmp_path)
