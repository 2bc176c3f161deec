"""etads-corpus from raw data, in the original formats: by the scripts of earlier versions, and for a tagger."""

from pathlib import Path

import corpora
import torch
from helpers import run_command

import fairseq_etads  # noqa: F401  # so that checkpoints load
from fairseq_etads.systems.rewards.self_critical import TaggerSaliency
from fairseq_etads.training.task import SummarizationTask

SCRIPTS = Path(__file__).parents[2] / "scripts"


def test_scripts_of_earlier_versions_prepare_a_table_and_refuse_wrong_options_before_it_is_read(tmp_path):
    rows = [{"Document": row["article"], "SUMMARY": "x"} for row in corpora.rows(60)]
    path = corpora.table(tmp_path / "mine.jsonl", rows)
    script, out = SCRIPTS / "prepare_custom.sh", tmp_path / "out"
    command = f"{script} --input - --split 60/20/20 --out {out} --jobs 1 -- --tokens word --size 20 < {path}"
    refused = run_command(["bash", "-c", command.replace("--size 20", "--size 0")], cwd=tmp_path, check=False)
    assert "--size 0: choose 1 or more" in refused.stdout and not out.exists()
    said = run_command(["bash", "-c", command], cwd=tmp_path).stdout
    numbers = [len((out / f"text/{split}.source").read_text().splitlines()) for split in ("train", "valid", "test")]
    assert sum(numbers) == 60 and min(numbers) > 2 and f"train: {numbers[0]} documents" in said
    assert (out / "prepared/bin/complete").is_file()
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
    # The summariser's data, with which the tagger shares the dictionary.
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
