"""etads-corpus KIND --prepare: from raw data, in the original formats, to binarised data by one command."""

from pathlib import Path

import corpora
import torch
from fairseq.data import indexed_dataset
from helpers import run_command

import fairseq_etads  # noqa: F401  # so that checkpoints load
from fairseq_etads.systems.rewards.self_critical import TaggerSaliency
from fairseq_etads.training.task import SummarizationTask

SCRIPTS = Path(__file__).parents[2] / "scripts"


def prepare(kind, out, *options, check=True):
    command = ["etads-corpus", kind, "--prepare", out, "--jobs", "1", *options]
    return run_command([*map(str, command)], cwd=out.parent, check=check)


def sizes(out, split, side="source"):
    """Numbers of tokens of a binarised side, with the end symbol."""
    dataset = indexed_dataset.make_dataset(str(out / f"prepared/bin/{split}.source-target.{side}"), "mmap")
    # A list is returned, because the dataset's memory is unmapped when the dataset is deleted.
    return dataset.sizes.tolist()


def test_gigaword_with_two_dictionaries_and_duc_for_its_model(tmp_path):
    gigaword, duc = tmp_path / "gigaword", tmp_path / "duc"
    more = ["--", "--separate-dictionaries", "--source-size", "12", "--target-size", "8"]
    prepare("gigaword", gigaword, "--data", corpora.gigaword(tmp_path / "data"), *more)
    dictionaries = [(gigaword / f"prepared/bin/dict.{side}.txt").read_bytes() for side in ("source", "target")]
    assert dictionaries[0] != dictionaries[1] and b" 0\n" in dictionaries[0]
    assert len(sizes(gigaword, "train")) == 24 and len(sizes(gigaword, "test", "target")) == 2
    corpora.duc(tmp_path / "raw")
    data = ["--docs", tmp_path / "raw/docs", "--models", tmp_path / "raw/models"]
    refused = prepare("duc", duc, *data, check=False)
    assert refused.returncode == 2 and "--like is missing" in refused.stdout and not duc.exists()
    prepare("duc", duc, *data, "--like", gigaword / "prepared")
    assert len(sizes(duc, "test")) == 2 and (duc / "text/test.target.3").exists()
    assert "network maker" in (duc / "prepared/tokens/test.source").read_text(), "in lower case, without a dateline"
    assert (duc / "prepared/bin/dict.target.txt").read_bytes() == dictionaries[1]


def test_a_table_is_prepared_once_and_wrong_options_are_refused_before_it_is_read(tmp_path):
    out = tmp_path / "out"
    files = [corpora.table(tmp_path / f"{split}.csv", corpora.rows(9)) for split in ("train", "valid", "test")]
    options = [word for file in files for word in (f"--{file.stem}", file)]
    for more, words in (
        (["--", "--size", "0"], "--size 0: choose 1 or more"),
        (["--", "--colour"], "unrecognized arguments: --colour"),
        (["--out", "x"], "not allowed with argument"),
    ):
        refused = prepare("table", out, *options, *more, check=False)
        assert refused.returncode == 2 and words in refused.stdout and not out.exists()
    command = ["etads-corpus", "table", "--out", "out", "--train", str(files[0]), "--", "--size", "9"]
    assert "--size after --: is for etads-prepare" in run_command(command, cwd=tmp_path, check=False).stdout
    options += ["--", "--tokens", "sentencepiece-bpe", "--size", "60"]
    first = prepare("table", out, *options).stdout
    assert "train: 9 documents" in first and "train.source: 9 lines" in first
    made = (out / "prepared/bin/complete").stat().st_mtime_ns
    prepare("table", out, *options)
    assert (out / "prepared/bin/complete").stat().st_mtime_ns == made


def test_scripts_of_earlier_versions_run_this_command(tmp_path):
    rows = [{"Document": row["article"], "SUMMARY": "x"} for row in corpora.rows(60)]
    path = corpora.table(tmp_path / "mine.jsonl", rows)
    script, out = SCRIPTS / "prepare_custom.sh", tmp_path / "out"
    command = f"{script} --input - --split 60/20/20 --out {out} --jobs 1 -- --tokens word --size 20 < {path}"
    said = run_command(["bash", "-c", command], cwd=tmp_path).stdout
    numbers = [len(sizes(out, split)) for split in ("train", "valid", "test")]
    assert sum(numbers) == 60 and min(numbers) > 2 and f"train: {numbers[0]} documents" in said
    text = [str(out / f"text/train.{side}") for side in ("source", "target")]
    parallel = ["--marked", "--train", *text, "--kind", "parallel", "--out", "two", "--", "--size", "9"]
    result = run_command([str(script), *parallel], cwd=tmp_path, check=False)
    assert (tmp_path / "two/text/train.source").read_bytes() == (out / "text/train.source").read_bytes()
    assert 'TEXT "two/text" has no file valid.source' in result.stdout


SMALL = ["--encoder-embed-dim", "16", "--encoder-hidden-size", "16", "--optimizer", "adam", "--lr", "0.02"]
SMALL += ["--clip-norm", "2", "--batch-size", "4", "--max-update", "40", "--num-workers", "0", "--cpu", "--seed", "1"]


def test_a_tagger_of_salient_words_learns_the_answers_of_squad(tmp_path):
    """The commands of docs/rewards.md."""
    corpora.squad(tmp_path / "squad")
    run_command(["etads-corpus", "squad", "--data", "squad", "--out", "squad/text", "--jobs", "1"], cwd=tmp_path)
    # These are the summariser's data. The tagger shares the dictionary.
    for split in ("train", "valid", "test"):
        for side in ("source", "target"):
            text = "Dr. Ada Zeno made the audio in 1800 . It weighs 2 tons , was by No question .\n"
            corpora.write(tmp_path / f"text/{split}.{side}", text * 3)
    run_command(["etads-prepare", "text", "prepared", "--tokens", "word", "--size", "100"], cwd=tmp_path)
    run_command(["etads-prepare", "squad/text", "squad/prepared", "--like", "prepared"], cwd=tmp_path)
    labelled = run_command(["etads-labels", "squad/prepared", "--kind", "words", "--jobs", "1"], cwd=tmp_path)
    assert "30 of 96 tokens of 12 documents are copied" in labelled.stdout, labelled.stdout
    command = ["fairseq-train", "squad/prepared/bin", "--user-dir", "fairseq_etads", "--task", "summarization"]
    command += ["--arch", "word_tagger", "--criterion", "selection_nll", "--labels", "squad/prepared/bin", *SMALL]
    run_command([*command, "--save-dir", "runs/saliency"], cwd=tmp_path)
    tagger = TaggerSaliency(
        str(tmp_path / "runs/saliency/checkpoint_best.pt"), SummarizationTask.of_folder(tmp_path / "prepared/bin")
    )
    words = ["it", "weighs", "2", "tons"]
    (weights,) = tagger([words])
    salient = dict(zip(words, torch.tensor(weights) > 0.5))
    assert salient == {"it": False, "weighs": False, "2": True, "tons": True}, weights
