"""The examples for Slurm and Kubernetes."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml
from helpers import run_command

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


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
    if program == "fairseq-train":  # with an incomplete help; it gets as far as the missing data
        words = [program, "nowhere", *words[first + 2 :], "--cpu", "--distributed-world-size", "1"]
        assert 'data folder (DATA) "nowhere" does not exist' in run_command(words, tmp_path, check=False).stdout
        return
    given = {word for word in words[first + 1 :] if re.fullmatch(r"--[a-z][\w-]*", word)}
    listed = set(re.findall(r"--[a-z][\w-]*", run_command([program, "--help"], cwd=tmp_path).stdout))
    assert given and given <= listed, given - listed
    tasks = re.search(r"--array=1-(\d+)", script)
    assert (tasks is not None) == ("SLURM_ARRAY_TASK_ID" in script)
    assert tasks is None or f'SLURM_ARRAY_TASK_ID/{tasks[1]}"' in script, "as many shards as tasks"


def test_each_indexed_job_has_its_share():
    (job,) = yaml.safe_load_all((EXAMPLES / "kubernetes" / "generate.yaml").read_text())
    assert f'JOB_COMPLETION_INDEX + 1))/{job["spec"]["completions"]}"' in str(job)
    assert job["spec"]["completionMode"] == "Indexed"
