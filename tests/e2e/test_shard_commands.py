"""Summaries by several processes, each with a share of the documents: none is lost or repeated, the order is kept."""

import os
import subprocess

import pytest
from helpers import environment
from toy import PLUGIN, hypotheses


@pytest.fixture
def fairseq_generate(corpus, trained, tmp_path):
    command = ["fairseq-generate", str(corpus / "bin"), *PLUGIN, "--cpu", "--max-tokens", "100", "--beam", "2"]
    command += ["--path", str(trained / "checkpoint_last.pt"), "--max-len-b", "6"]

    def run(*options, **variables):
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.run([*command, *options], cwd=tmp_path, env={**environment(), **variables}, **streams).stdout

    return run


def test_fairseq_generate_divides_the_documents(fairseq_generate, tmp_path):
    """fairseq-generate divides its documents with --num-shards and under torchrun, even with more processes than
    batches."""
    whole = hypotheses(fairseq_generate())
    shares = [hypotheses(fairseq_generate("--num-shards", "2", "--shard-id", str(n))) for n in (0, 1)]
    assert all(shares) and {**shares[0], **shares[1]} == whole and len(shares[0]) + len(shares[1]) == len(whole)
    launched = {"MASTER_ADDR": "localhost", "MASTER_PORT": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "RANK": "1"}
    results = tmp_path / "results"
    fairseq_generate("--results-path", str(results), **launched)
    assert os.listdir(results) == ["2-of-2"]
    assert hypotheses((results / "2-of-2" / "generate-test.txt").read_text()) == shares[1]
    idle = fairseq_generate("--num-shards", "100", "--shard-id", "99")
    assert not hypotheses(idle) and "ZeroDivisionError" not in idle


def test_a_share_that_does_not_exist_is_refused(fairseq_generate):
    last = fairseq_generate("--num-shards", "2", "--shard-id", "2").rstrip().splitlines()[-1]
    assert "--shard-id 2 of --num-shards 2: choose a number from 0 to 1" in last
