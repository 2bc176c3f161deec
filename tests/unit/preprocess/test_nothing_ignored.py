"""etads-corpus never ignores a file, row or option silently."""

import corpora
import pytest
from test_readers import refused, run

PAIR = '{"source": ["A document."], "target": ["One."]}\n'


@pytest.mark.parametrize(
    "kinds,names,said",
    [
        (
            ("gigaword",),
            ("train.article.txt", "train.titel.txt", "input.txt", "task1_ref0.txt"),
            "train.article.txt exists, but train.title.txt does not",
        ),
        (
            ("gigaword", "duc"),
            ("input.txt", "task1_ref0.txt", "task1_ref1.txt", "task1_ref3.txt"),
            "task1_ref3.txt exists, but task1_ref2.txt does not",
        ),
        (
            ("sumpubmed", "scitldr"),
            ("train.jsonl", "dev.jsonl", "valid.jsonl"),
            "dev.jsonl and valid.jsonl are both valid: remove one",
        ),
        (
            ("sumpubmed",),
            ("line_text/text_3.txt", "line_text/text_003.txt", "abstract/abstract_3.txt"),
            "text_003.txt and text_3.txt have the same number",
        ),
    ],
)
def test_files_that_would_be_left_out_are_named(tmp_path, capsys, kinds, names, said):
    for name in names:
        corpora.write(tmp_path / "raw" / name, PAIR)
    for kind in kinds:
        assert said in refused(tmp_path, capsys, kind, "--data", tmp_path / "raw")


def test_a_missing_list_of_urls_is_not_as_published(tmp_path, capsys):
    raw = corpora.cnndm(tmp_path / "raw")
    (raw / "url_lists" / "all_val.txt").unlink()
    stories = ["--stories", raw / "cnn" / "stories", raw / "dailymail" / "stories", "--urls", raw / "url_lists"]
    assert "--expect: there is no valid" in refused(tmp_path, capsys, "cnndm", *stories, "--expect", "5,2,2")
    assert set(run(tmp_path, "cnndm", *stories, "--expect", "any")[1]["splits"]) == {"train", "test"}


def test_another_seed_of_the_split_is_not_the_old_split(tmp_path, capsys):
    rows = "".join(f"Document {n}.,s{n}\n" for n in range(60))
    table = corpora.write(tmp_path / "all.csv", "document,summary\n" + rows)
    split = ["table", "--input", table, "--split", "60/20/20"]
    run(tmp_path, *split, "--split-seed", "0")
    for other in (["--split-seed", "1"], []):
        assert "was made with other options" in refused(tmp_path, capsys, *split, *other)


@pytest.mark.parametrize(
    "words,said",
    [
        (["table"], "at least one of --train"),
        (["table", "--train", "x", "--source-words", "-1"], "--source-words -1: choose 0"),
        (["duc", "--data", "{}", "--as-gigaword"], "give --docs and --models"),
        (["sumpubmed", "--data", "{}", "--seed", "1"], "--seed 1 has no effect on JSON lines"),
        (["sumpubmed", "--data", "{}", "--test-size", "5"], "--test-size 5 has no effect on JSON lines"),
        (["table", "--train", "{}/train.jsonl", "--no-quotes"], "--no-quotes: applies only to CSV and TSV"),
        (["table", "--train", "{}/train.jsonl", "--delimiter", ";"], "--delimiter ;: applies only to CSV and TSV"),
        (["table", "--train", "{}/train.jsonl", "--delimiter", "::"], '--delimiter "::": choose one character'),
        (["table", "--train", "{}/train.jsonl", "--short-lead", "9"], "--short-lead 9 has no effect without"),
    ],
)
def test_options_without_effect_and_impossible_ones_are_refused(tmp_path, capsys, words, said):
    corpora.write(tmp_path / "raw" / "train.jsonl", PAIR)
    assert said in refused(tmp_path, capsys, *(word.format(tmp_path / "raw") for word in words))
