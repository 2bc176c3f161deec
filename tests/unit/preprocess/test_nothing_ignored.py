"""etads-corpus and similar commands never ignore a file, row or option silently."""

import corpora
import pytest
from etads_preprocess.debian import main as debian
from test_readers import lines, refused, run

PAIR = '{"source": ["A document."], "target": ["One."]}\n'


@pytest.fixture
def folder(tmp_path):
    """Write files with these names into a folder, each with a line of text."""

    def make(*names, text="a b .\n"):
        for name in names:
            corpora.write(tmp_path / "raw" / name, text)
        return tmp_path / "raw"

    return make


def test_half_a_pair_of_gigaword_is_named(folder, tmp_path, capsys):
    raw = folder("train.article.txt", "train.titel.txt", "input.txt", "task1_ref0.txt")
    error = refused(tmp_path, capsys, "gigaword", "--data", raw)
    assert "train.article.txt exists, but train.title.txt does not" in error


@pytest.mark.parametrize("kind", ["gigaword", "duc"])
def test_a_gap_in_the_references_is_named(folder, tmp_path, capsys, kind):
    raw = folder("input.txt", "task1_ref0.txt", "task1_ref1.txt", "task1_ref3.txt")
    assert "task1_ref3.txt exists, but task1_ref2.txt does not" in refused(tmp_path, capsys, kind, "--data", raw)


def test_two_files_for_one_split_are_refused(folder, tmp_path, capsys):
    raw = folder("train.jsonl", "dev.jsonl", "valid.jsonl", text=PAIR)
    for kind in ("sumpubmed", "scitldr"):
        error = refused(tmp_path, capsys, kind, "--data", raw)
        assert "dev.jsonl and valid.jsonl are both valid: remove one" in error


def test_articles_of_one_number_are_refused_and_zeros_kept(folder, tmp_path, capsys):
    raw = folder("line_text/text_3.txt", "line_text/text_003.txt", "abstract/abstract_3.txt")
    error = refused(tmp_path, capsys, "sumpubmed", "--data", raw)
    assert "text_003.txt and text_3.txt have the same number" in error


def test_a_missing_list_of_urls_is_not_as_published(tmp_path, capsys):
    raw = corpora.cnndm(tmp_path / "raw")
    (raw / "url_lists" / "all_val.txt").unlink()
    stories = ["--stories", raw / "cnn" / "stories", raw / "dailymail" / "stories", "--urls", raw / "url_lists"]
    assert "--expect: there is no valid" in refused(tmp_path, capsys, "cnndm", *stories, "--expect", "5,2,2")
    assert set(run(tmp_path, "cnndm", *stories, "--expect", "any")[1]["splits"]) == {"train", "test"}


def test_the_header_of_a_second_file_is_no_pair(tmp_path):
    table = "\ufeffdocument,summary\nA one.,first\n\ufeffdocument,summary\nA two.,second\n"
    out, report = run(tmp_path, "table", "--train", corpora.write(tmp_path / "both.csv", table))
    assert lines(out / "train.target") == ["first", "second"]
    assert report["splits"]["train"]["dropped"] == {"the header again": 1}


def test_another_seed_of_the_split_is_not_the_old_split(tmp_path, capsys):
    table = corpora.write(
        tmp_path / "all.csv", "document,summary\n" + "".join(f"Document {n}.,s{n}\n" for n in range(60))
    )
    split = ["table", "--input", table, "--split", "60/20/20"]
    run(tmp_path, *split, "--split-seed", "0")
    for other in (["--split-seed", "1"], []):
        assert "was made with other options" in refused(tmp_path, capsys, *split, *other)


@pytest.mark.parametrize(
    "words,said",
    [
        (["duc", "--data", "{}", "--as-gigaword"], "--as-gigaword: needs --docs and --models"),
        (["sumpubmed", "--data", "{}", "--seed", "1"], "--seed 1 has no effect on JSON lines"),
        (["sumpubmed", "--data", "{}", "--test-size", "5"], "--test-size 5 has no effect on JSON lines"),
        (["table", "--train", "{}/train.jsonl", "--no-quotes"], "--no-quotes: applies only to CSV and TSV"),
        (
            ["table", "--train", "{}/train.jsonl", "--short-lead", "9"],
            "--short-lead 9 has no effect without",
        ),
    ],
)
def test_options_without_effect_are_refused(folder, tmp_path, capsys, words, said):
    raw = folder("train.jsonl", text=PAIR)
    assert said in refused(tmp_path, capsys, *(word.format(raw) for word in words))


def test_no_negative_number_of_processes(folder, tmp_path, capsys):
    raw = folder("train.jsonl", text=PAIR)
    with pytest.raises(SystemExit):
        run(tmp_path, "table", "--train", raw / "train.jsonl", jobs=-3)
    assert "--jobs -3: choose 1 or more" in capsys.readouterr().err


def test_the_debian_sample_has_no_lists(tmp_path, capsys):
    assert debian(["--sample", "--lists", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "--sample is ready-made" in capsys.readouterr().err
