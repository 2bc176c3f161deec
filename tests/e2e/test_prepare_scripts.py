"""scripts/prepare_*.sh from raw data, in the original formats."""

from pathlib import Path

import corpora
import pytest
from fairseq.data import indexed_dataset
from helpers import run_command

SCRIPTS = Path(__file__).parents[2] / "scripts"
NAMES = ("cnndm", "gigaword", "duc", "sumpubmed", "debian", "custom")


def prepare(name, out, *options, check=True):
    command = [str(SCRIPTS / f"prepare_{name}.sh"), *map(str, options)]
    return run_command(command, cwd=out.parent, check=check)


def sizes(out, split, side="source"):
    """Numbers of tokens of a binarised side, with the end symbol."""
    dataset = indexed_dataset.make_dataset(str(out / f"prepared/bin/{split}.source-target.{side}"), "mmap")
    # A list is returned, because the dataset's memory is unmapped when the dataset is deleted.
    return dataset.sizes.tolist()


@pytest.fixture(scope="module")
def gigaword(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gigaword")
    data, out = corpora.gigaword(folder / "data"), folder / "out"
    more = ["--", "--separate-dictionaries", "--source-size", "12", "--target-size", "8"]
    prepare("gigaword", out, "--data", data, "--out", out, "--jobs", "2", *more)
    return out


@pytest.mark.parametrize("name", NAMES)
def test_help_and_a_missing_option(name, tmp_path):
    output = prepare(name, tmp_path / "out", "--help").stdout
    assert f"scripts/prepare_{name}.sh" in output and "--out DIR" in output and "source " not in output
    result = prepare(name, tmp_path / "out", check=False)
    assert result.returncode == 2 and "is missing; see --help" in result.stdout


def test_cnn_daily_mail_with_factors_for_hierarchical_models(tmp_path):
    folder, out = corpora.cnndm(tmp_path / "raw"), tmp_path / "out"
    stories = ["--stories", folder / "cnn/stories", folder / "dailymail/stories", "--urls", folder / "url_lists"]
    more = ["--", "--source-sentence-marks", "--factors", "tf", "idf", "--size", "20"]
    prepare("cnndm", out, *stories, "--expect", "5,2,2", "--out", out, "--jobs", "1", *more)
    tokens = (out / "prepared/tokens/test.source").read_text().splitlines()[0]
    assert "does n't play files . <q> dr. smith , of the u.s. team" in tokens and "-lrb- cnn -rrb-" in tokens
    assert (out / "prepared/tokens/test.target").read_text().splitlines()[0].count("<q>") == 1
    assert sizes(out, "test")[0] == len(tokens.split()) + 1
    factors = indexed_dataset.make_dataset(str(out / "prepared/bin/test.factor-idf"), "mmap")
    assert list(factors.sizes) == sizes(out, "test")


def test_gigaword_with_two_dictionaries(gigaword):
    dictionaries = [(gigaword / f"prepared/bin/dict.{side}.txt").read_text() for side in ("source", "target")]
    assert dictionaries[0] != dictionaries[1] and " 0\n" in dictionaries[0]
    assert len(sizes(gigaword, "train")) == 24 and len(sizes(gigaword, "test", "target")) == 2


@pytest.fixture(scope="module")
def duc(gigaword, tmp_path_factory):
    folder = tmp_path_factory.mktemp("duc")
    corpora.duc(folder / "raw")
    data = ["--docs", folder / "raw/docs", "--models", folder / "raw/models"]
    prepare("duc", folder / "out", *data, "--like", gigaword / "prepared", "--out", folder / "out", "--jobs", "1")
    return folder / "out"


def test_duc_for_a_model_of_gigaword(gigaword, duc):
    out = duc
    assert len(sizes(out, "test")) == 2 and (out / "text/test.target.3").exists()
    assert "network maker" in (out / "prepared/tokens/test.source").read_text()
    target = "prepared/bin/dict.target.txt"
    assert (out / target).read_bytes() == (gigaword / target).read_bytes()


def test_sumpubmed(tmp_path):
    out = tmp_path / "out"
    data = corpora.sumpubmed(tmp_path / "raw")
    prepare("sumpubmed", out, "--data", data, "--out", out, "--jobs", "1", "--", "--tokens", "bpe", "--size", "9")
    assert len(sizes(out, "valid")) == len(sizes(out, "test", "target")) == 1
    assert "<q>" in (out / "prepared/tokens/test.target").read_text().split()


def test_debian(tmp_path):
    out = tmp_path / "out"
    lists = ["--translation", corpora.debian(tmp_path / "Translation-en"), "--valid-size", "2", "--test-size", "3"]
    prepare("debian", out, *lists, "--out", out, "--jobs", "1", "--", "--tokens", "word", "--size", "20")
    assert len(sizes(out, "test")) == 3 and len(sizes(out, "valid")) == 2 and len(sizes(out, "train")) == 3


def test_a_corpus_of_ones_own_runs_twice_and_names_what_is_wrong(tmp_path):
    out = tmp_path / "out"
    files = [corpora.table(tmp_path / f"{split}.csv", corpora.rows(9)) for split in ("train", "valid", "test")]
    options = [word for file in files for word in (f"--{file.stem}", file)]
    options += ["--out", out, "--jobs", "1", "--", "--tokens", "sentencepiece-bpe", "--size", "60"]
    first = prepare("custom", out, *options).stdout
    assert "train: 9 documents" in first and "train.source: 9 lines" in first
    made = (out / "prepared/bin/complete").stat().st_mtime_ns
    prepare("custom", out, *options)
    assert (out / "prepared/bin/complete").stat().st_mtime_ns == made
    text = [out / f"text/train.{side}" for side in ("source", "target")]
    wrong = ["--", "--size", "0"]  # with this error, only the reading is done
    parallel = ["--kind", "parallel", "--marked", "--train", *text, "--out", tmp_path / "two", *wrong]
    assert "--size 0: choose 1 or more" in prepare("custom", out, *parallel, check=False).stdout
    assert (tmp_path / "two/text/train.source").read_bytes() == text[0].read_bytes()
    result = prepare("custom", out, "--kind", "xml", "--out", out, check=False)
    assert result.returncode == 2 and "--kind xml: choose one of: table parallel" in result.stdout
    result = prepare("custom", out, "--train", "nowhere.csv", "--out", out, check=False)
    assert result.returncode == 2 and "--train nowhere.csv: no such file" in result.stdout


def test_one_file_of_json_lines_becomes_prepared_data_by_one_command(tmp_path):
    path = corpora.table(
        tmp_path / "mine.jsonl", [{"Document": r["article"], "SUMMARY": "x"} for r in corpora.rows(60)]
    )
    script, out = SCRIPTS / "prepare_custom.sh", tmp_path / "out"
    command = f"{script} --input - --split 60/20/20 --out {out} --jobs 1 -- --tokens word --size 20 < {path}"
    said = run_command(["bash", "-c", command], cwd=tmp_path).stdout
    numbers = [len(sizes(out, split)) for split in ("train", "valid", "test")]
    assert sum(numbers) == 60 and min(numbers) > 2 and f"train: {numbers[0]} documents" in said
