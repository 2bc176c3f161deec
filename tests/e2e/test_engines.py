"""The model inside other engines: Ray Data, and the examples for Slurm and Kubernetes."""

import importlib.util
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from helpers import environment, run_command

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"

FRAGILE = """
import os, pathlib, signal
import numpy as np
from fairseq_etads.summarizer.records import RecordSummarizer

class Fragile(RecordSummarizer):
    def __call__(self, batch):
        killed = pathlib.Path(os.environ["KILLED"])
        if 20 in batch["id"] and not killed.exists():
            killed.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return {**super().__call__(batch), "worker": np.full(len(batch["id"]), os.getpid())}
"""
RUN = """
import runpy, sys
from fairseq_etads.summarizer import records
from fragile import Fragile
records.RecordSummarizer = Fragile
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs ray, which is no part of [dev]: 70 MB")
def test_a_killed_worker_of_ray_loses_no_record(tmp_path):
    """Two workers run on a local cluster; one kills itself while it has a batch."""
    (tmp_path / "fragile.py").write_text(FRAGILE)
    (tmp_path / "run.py").write_text(RUN)
    (tmp_path / "in").mkdir()
    texts = [f"This package contains the library number {n} for reading files." for n in range(48)]
    for part in range(4):
        records = [{"id": n, "article": texts[n]} for n in range(part, 48, 4)]
        (tmp_path / "in" / f"{part}.jsonl").write_text("\n".join(map(json.dumps, records)) + "\n")
    variables = {"PYTHONPATH": str(tmp_path), "KILLED": str(tmp_path / "killed"), "RAY_USAGE_STATS_ENABLED": "0"}
    command = [
        "python",
        "run.py",
        str(EXAMPLES / "summarize_with_ray.py"),
        "debian",
        "in",
        "out",
        "--column",
        "article",
    ]
    command += ["--batch-size", "4", "--workers", "2", "--cpus", "0.5"]
    result = subprocess.run(
        command,
        cwd=tmp_path,
        env={**environment(anew=True), **variables},
        timeout=600,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert result.returncode == 0, result.stdout[-4000:]
    found = [json.loads(line) for path in (tmp_path / "out").iterdir() for line in path.read_text().splitlines()]
    assert sorted(record["id"] for record in found) == list(range(48))
    assert all(record["article"] == texts[record["id"]] and record["summary"] for record in found)
    assert not any(record["problem"] for record in found)
    workers = {record["worker"] for record in found}
    assert len(workers) >= 2 and int((tmp_path / "killed").read_text()) not in {
        record["worker"] for record in found if record["id"] == 20
    }


def jobs():
    """Scripts of the examples: name -> text."""
    for path in sorted(EXAMPLES.glob("slurm/*.sbatch")):
        yield path.name, path.read_text()
    for path in sorted(EXAMPLES.glob("kubernetes/*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document["kind"] == "Job":
                for container in document["spec"]["template"]["spec"]["containers"]:
                    assert container["command"] == ["bash", "-c"]
                    yield path.name, container["args"][0]


def check_options(program, words, folder):
    """Options exist: others list them; fairseq-train, with an incomplete help, gets as far as the missing data."""
    if program == "fairseq-train":
        result = run_command(
            [program, "nowhere", *words, "--cpu", "--distributed-world-size", "1"], folder, check=False
        )
        assert 'data folder (DATA) "nowhere" does not exist' in result.stdout, result.stdout[-2000:]
        return
    script = str(ROOT / program) if "/" in program else program
    given = {word for word in words if re.fullmatch(r"--[a-z][\w-]*", word)}
    listed = set(re.findall(r"--[a-z][\w-]*", run_command([script, "--help"], cwd=folder).stdout))
    assert given and given <= listed, given - listed


@pytest.mark.parametrize("name,script", jobs(), ids=lambda value: "" if " " in value else value)
def test_jobs_are_valid_scripts_with_options_that_exist(name, script, tmp_path):
    (tmp_path / "job").write_text(script)
    run_command(["bash", "-n", "job"], cwd=tmp_path)
    if shutil.which("shellcheck"):
        run_command(["shellcheck", "-s", "bash", "job"], cwd=tmp_path)
    words = shlex.split(re.sub(r"\\\n", " ", script), comments=True)
    first, program = next(
        (number, program)
        for number, word in enumerate(words)
        if "--" not in word
        for program in ("etads-summarize", "etads-prepare", "fairseq-train")
        if re.search(rf"(^| ){program}\)?$", word)
    )
    words = words[first + 1 :]
    check_options(program, words[1:] if program == "fairseq-train" else words, tmp_path)


def test_each_task_of_an_array_has_its_share():
    """There are as many shards as tasks, in Slurm's arrays and in Kubernetes' indexed jobs."""
    for path in EXAMPLES.glob("slurm/*.sbatch"):
        tasks = re.search(r"--array=1-(\d+)", path.read_text())
        assert (tasks is not None) == ("ARRAY_TASK_ID" in path.read_text())
        if tasks:
            assert f'SLURM_ARRAY_TASK_ID/{tasks.group(1)}"' in path.read_text(), path
    (job,) = yaml.safe_load_all((EXAMPLES / "kubernetes" / "generate.yaml").read_text())
    assert f'JOB_COMPLETION_INDEX + 1))/{job["spec"]["completions"]}"' in str(job)
    assert job["spec"]["completionMode"] == "Indexed"
