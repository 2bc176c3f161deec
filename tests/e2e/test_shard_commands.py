"""Summaries by several processes, each with a share of the documents: none is lost or repeated, the order is kept."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from helpers import environment, run_command
from toy import PLUGIN, hypotheses, write_pairs

SCRIPTS = Path(__file__).parents[2] / "scripts"
SIZES = {"train": 60, "valid": 5, "test": 23}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Output of train.sh after a few steps."""
    folder = tmp_path_factory.mktemp("shards")
    (folder / "text").mkdir()
    for seed, (split, count) in enumerate(SIZES.items()):
        write_pairs(folder / "text", split, count, seed, longest=30, words=[f"w{n}" for n in range(60)])
    options = [
        "--tokens",
        "word",
        "--size",
        "80",
        "--pointer",
        "soft",
        "--max-update",
        "4",
        "--cpu",
        "--",
        "--lr",
        "1e-2",
    ]
    options += ["--encoder-layers", "1", "--decoder-layers", "1", "--encoder-embed-dim", "32", "--num-workers", "0"]
    options += ["--encoder-ffn-embed-dim", "32", "--encoder-attention-heads", "2", "--decoder-attention-heads", "2"]
    run_command([str(SCRIPTS / "train.sh"), "--text", "text", "--out", "run", *options], cwd=folder)
    return folder / "run"


def generate(run, folder, output, *options, status=0, **variables):
    command = [str(SCRIPTS / "generate.sh"), "--run", str(run), "--output", output, "--cpu", "--max-len", "6", *options]
    result = subprocess.run(
        [*command, "--max-tokens", "100"],
        cwd=folder,
        env={**environment(), **variables},
        capture_output=True,
        text=True,
    )
    assert result.returncode == status, result.stderr
    return result.stderr


def lines(path):
    return path.read_text().splitlines()


def test_shares_of_new_documents_are_joined_with_their_names(run, tmp_path):
    """There are more shards than documents, and one document is empty. torchrun's variables number the shards."""
    records = [{"id": f"no. {n}", "article": text} for n, text in enumerate(["w1 w2 w3", ""])]
    (tmp_path / "new.jsonl").write_text("\n".join(map(json.dumps, records)))
    options = ["--input", "new.jsonl"]
    generate(run, tmp_path, "whole.jsonl", *options)
    launched = {"MASTER_ADDR": "localhost", "MASTER_PORT": "1", "WORLD_SIZE": "3", "LOCAL_RANK": "0"}
    for number in (2, 0, 1):
        generate(run, tmp_path, "out.jsonl", *options, RANK=str(number), **launched)
    assert lines(tmp_path / "out.jsonl") == lines(tmp_path / "whole.jsonl")
    assert [json.loads(line)["document"] for line in lines(tmp_path / "out.jsonl")] == ["no. 0", "no. 1"]


def fairseq_generate(run, *options, anew=False, **variables):
    command = [
        "fairseq-generate",
        str(run / "prepared" / "bin"),
        *PLUGIN,
        "--cpu",
        "--max-tokens",
        "100",
        "--beam",
        "2",
    ]
    command += ["--path", str(run / "checkpoints" / "checkpoint_last.pt"), "--max-len-b", "6", *options]
    return subprocess.run(
        command,
        cwd=run,
        env={**environment(), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ).stdout


def test_fairseq_generate_divides_the_documents(run, tmp_path):
    """fairseq-generate divides its documents with --num-shards and under torchrun, even with more processes than
    batches."""
    whole = hypotheses(fairseq_generate(run))
    shares = [hypotheses(fairseq_generate(run, "--num-shards", "2", "--shard-id", str(n))) for n in (0, 1)]
    assert all(shares) and {**shares[0], **shares[1]} == whole and len(shares[0]) + len(shares[1]) == len(whole)
    launched = {"MASTER_ADDR": "localhost", "MASTER_PORT": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "RANK": "1"}
    fairseq_generate(run, "--results-path", str(tmp_path), anew=True, **launched)
    assert os.listdir(tmp_path) == ["2-of-2"]
    assert hypotheses((tmp_path / "2-of-2" / "generate-test.txt").read_text()) == shares[1]
    idle = fairseq_generate(run, "--num-shards", "100", "--shard-id", "99")
    assert not hypotheses(idle) and "ZeroDivisionError" not in idle


def test_a_share_that_does_not_exist_is_refused(run):
    last = fairseq_generate(run, "--num-shards", "2", "--shard-id", "2").rstrip().splitlines()[-1]
    assert "--shard-id 2 of --num-shards 2: choose a number from 0 to 1" in last
