"""As a user types them: the shell pipelines, jobs for Slurm and Kubernetes, and all commands of docs/tutorial.md."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import corpora
import helpers
import pytest
import yaml
from command_server import entry_points
from helpers import run_command

import fairseq_etads

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"
EXAMPLES = ROOT / "examples"


def test_every_script_tells_its_version_and_refuses_unknown_options(tmp_path):
    recipes, scripts = [*SCRIPTS.glob("reproduce/*.sh")], [*SCRIPTS.glob("*.sh")]
    forward = '#!/usr/bin/env bash\nexec "$(dirname "${{BASH_SOURCE[0]}}")/../reproduce.sh" {} "$@"\n'
    assert len(recipes) > 20 and all(path.read_text() == forward.format(path.stem) for path in recipes)
    for script in [*scripts, recipes[0]]:
        if script.name != "common.sh":
            # The option comes after others, as people type it.
            output = run_command([str(script), "--out", "x", "--version"], cwd=tmp_path).stdout
            name = "reproduce.sh" if script in recipes else script.name
            assert output == f"{name} {fairseq_etads.__version__}\n"
    for name in ("quickstart", "install", "evaluate", "test", "release"):
        output = run_command([str(SCRIPTS / f"{name}.sh"), "--help"], cwd=tmp_path).stdout
        assert f"scripts/{name}.sh" in output and "--" in output and not output.startswith("#")
        result = run_command([str(SCRIPTS / f"{name}.sh"), "--colour"], cwd=tmp_path, check=False)
        assert result.returncode == 2 and f"{name}.sh: unknown option --colour" in result.stdout
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    "command, words",
    [
        ("generate.sh --run x --output x -- --nbest 2", "unrecognized arguments: --nbest"),
        ("evaluate.sh --summaries file --references file --compare", "--compare needs"),
        (
            "evaluate.sh --summaries file --references file --summaries file -- --json out",
            "several commands would write this file",
        ),
    ],
)
def test_bad_input_is_refused_in_words(tmp_path, command, words):
    (tmp_path / "file").touch()
    script, *options = command.split()
    result = run_command([str(SCRIPTS / script), *options], cwd=tmp_path, check=False)
    assert result.returncode == 2 and words in result.stdout


def test_evaluate_scores_compares_and_analyses(tmp_path):
    texts = {
        "source": ["the cat sat on the mat . <q> it slept . <q> dogs bark .", "one two three four . <q> five six ."],
        "target": ["a cat slept .", "five and six ."],
        "good": ["the cat slept .", "five six ."],
        "lr=1,beam=4": ["dogs .", "one ."],
    }
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(line + "\n" for line in lines * 10))
    command = "--summaries good --references target --documents source --show 1 --summaries lr=1,beam=4 --compare"
    command = [str(SCRIPTS / "evaluate.sh"), *command.split(), "--analyse", "--", "--metrics", "1"]
    output = run_command(command, cwd=tmp_path).stdout
    # ROUGE-1 stands with both systems, the first words and the comparison.
    assert output.count("ROUGE-1 ") == 4 and "ROUGE-2" not in output
    comparison = next(line for line in output.split("p rand.")[1].splitlines() if line.startswith("ROUGE-1"))
    assert comparison.split()[-2:] == ["0.0001", "0.0001"] and "A: good" in output
    for row in ("| good", "| lr:1,beam:4", "| lead-8-words", "| oracle"):
        assert output.count(row) == 2
    first = output.split("hypothesis: first 8 words of source\n")[1]
    assert "23.81" in first.split("ROUGE-1 ")[1].split()[:3], "<q> is no word"


@pytest.mark.parametrize(
    "script,visible",
    [
        ("quickstart.sh --no-install --steps 1 --out run", ""),
        ("generate.sh --run x --output out.txt -- --cpu", ""),
        ("generate.sh --run x --output out.txt", "0,1"),
    ],
)
def test_with_cpu_every_command_of_a_script_sees_no_gpu(script, visible, tmp_path, monkeypatch):
    """Commands are replaced by programs that record whether they see a GPU."""
    (tmp_path / "bin").mkdir()
    for name in entry_points():
        program = tmp_path / "bin" / name
        program.write_text(f'#!/bin/sh\necho "$0 $CUDA_VISIBLE_DEVICES" >> {tmp_path}/seen\n')
        program.chmod(0o755)
    monkeypatch.setattr(helpers, "PROGRAMS", [str(tmp_path / "bin"), *helpers.PROGRAMS])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    name, *options = script.split()
    # The script ends where the output of a command is missing.
    run_command([str(SCRIPTS / name), *options], cwd=tmp_path, check=False)
    seen = [line.rpartition("/")[2].split(" ") for line in (tmp_path / "seen").read_text().splitlines()]
    expected = {"quickstart.sh": {"etads-summarize", "etads-train"}, "generate.sh": {"etads-summarize"}}
    assert expected[name] <= {command for command, _ in seen}
    assert {devices for _, devices in seen} == {visible}


def test_quickstart_in_short_runs_twice_and_summarises_new_text(tmp_path):
    """Run the whole pipeline on the real sample, with so few steps that only the plumbing is tested."""
    out = tmp_path / "run"
    command = [str(SCRIPTS / "quickstart.sh"), "--no-install", "--out", str(out), "--steps", "6"]
    first = run_command(command, cwd=tmp_path).stdout
    assert first.count("ROUGE-1") == 2 and first.count("ROUGE|backend") == 2, "the model's, and the first words'"
    assert len((out / "summaries.txt").read_text().splitlines()) == 500
    made = [out / "checkpoints" / "checkpoint_last.pt", out / "summaries.txt"]
    times = [path.stat().st_mtime_ns for path in made]

    second = run_command(command, cwd=tmp_path).stdout
    assert second.count("ROUGE-1") == 2
    assert [path.stat().st_mtime_ns for path in made] == times, "trained or summarised again"

    assert re.search(rf"^== \S*etads export {out} model && etads summarize model ", first, re.MULTILINE)
    assert first.count("--min-len 4 --max-len 15 --no-repeat-ngram-size 2") == 1
    command = [str(SCRIPTS / "generate.sh"), "--run", str(out), "--cpu", "--max-len", "10", "--input", "-"]
    run_command([*command, "--output", "new.txt"], cwd=tmp_path, input="A game of chess.\n\nA library.\n")
    assert [bool(line) for line in (tmp_path / "new.txt").read_text().split("\n")] == [True, False, True, False]


@pytest.mark.parametrize("number, status", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_script_that_is_ended_ends_what_it_started(number, status, tmp_path):
    """Otherwise, a second run would train in the same folder at the same time."""
    child = "import os, pathlib, time; pathlib.Path('pid').write_text(str(os.getpid())); time.sleep(60)"
    script = f'source "{SCRIPTS}/common.sh"; supervise {sys.executable} -c "{child}"'
    process = subprocess.Popen(["bash", "-c", script], cwd=tmp_path)
    deadline = time.monotonic() + 30
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    assert process.wait(timeout=30) == status
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


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


PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(bash|python)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
TINY = "--encoder-layers 1 --decoder-layers 1 --encoder-embed-dim 32 --encoder-ffn-embed-dim 32 --cpu --num-workers 0"
SHORTENED = {
    "source .venv/bin/activate\n": "",  # the environment of the test is active already
    "etads-debian --sample --out data/sample\n": "",  # the quickstart runs this command, and its files are small here
    "--size 1000": "--size 40",
    "python explain.py": "python - < explain.py",  # the server runs this without importing torch once more
    "--max-update 800 --cpu --": "--max-update 8 --cpu -- --num-workers 0",
    "--warmup-updates 200": "--warmup-updates 2",
    "--documents 200 --trials 20": "--documents 5 --trials 2",
    "text runs/fairseq\n": f"text runs/fairseq --max-update 8 {TINY}\n",
}
"""Text of the tutorial -> its replacement here, with fewer texts and shorter trainings."""


def shortened(code, used):
    for long, short in SHORTENED.items():
        if long in code:
            assert long not in used, f"{long} stands twice in the tutorial"
            used.add(long)
            code = code.replace(long, short)
    return code


@pytest.fixture(scope="module")
def followed(programs, tmp_path_factory):
    """Folder of a reader who has followed the tutorial, and the output of each block of commands."""
    folder, printed, used = tmp_path_factory.mktemp("tutorial"), {}, set()
    (folder / "scripts").symlink_to(ROOT / "scripts")
    corpora.plain(folder / "data" / "sample")
    for side, text in (("source", "The text"), ("target", "It")):  # 100 lines are enough for shares of 4 %
        with open(folder / "data" / "sample" / f"train.{side}", "a", encoding="utf-8") as file:
            file.writelines(f"{text} of number {n}\n" for n in range(100))
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    for language, code in BLOCKS:
        if language == "python":
            (folder / re.match(r"# (\w+\.py):", code)[1]).write_text(code, encoding="utf-8")
            continue
        command = ["bash", "-euo", "pipefail", "-c", shortened(code, used)]
        result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, f"{code}\n{result.stdout[-2000:]}{result.stderr[-2000:]}"
        printed[code] = result.stdout
    assert used == set(SHORTENED), "the tutorial no longer says what is shortened here"
    return folder, printed


def output_of(command, printed):
    """Output of the block of commands that contains this command."""
    (output,) = [output for code, output in printed.items() if re.search(rf"^{command} ?", code, re.MULTILINE)]
    return output


def test_one_file_becomes_summaries_and_scores_and_options_are_tried(followed):
    folder, printed = followed
    references = (folder / "runs/mine/text/test.target").read_text().splitlines()
    assert len((folder / "summaries.txt").read_text().splitlines()) == len(references) > 0
    scores = output_of("etads-rouge", printed)
    assert scores.count("ROUGE-1") == 2 and scores.count("ROUGE|backend") == 2 and scores.count("reference  ") == 2
    assert "rep. 1" in output_of("etads-analyse", printed)
    table = [line for line in output_of("etads-tune", printed).splitlines() if line.startswith("|")]
    assert len(table) == 4 and (folder / "model-tuning" / "tuning.png").is_file()


def test_a_summary_of_new_text_says_what_was_copied(followed):
    folder, printed = followed
    assert (folder / "model" / "model.safetensors").is_file()
    text = (folder / "new.txt").read_text(encoding="utf-8")
    summary, *explained = output_of("python explain.py", printed).splitlines()
    shown = output_of("etads-summarize model", printed).splitlines()[-1]  # with the case of the document
    assert summary.lower() == shown.lower() != ""
    assert explained, "after eight steps it copies more often than it generates"
    for line in explained:
        word, start, end, shown = re.fullmatch(r"(\S+) +copied from characters (\d+) to (\d+): (.+)", line).groups()
        assert text[int(start) : int(end)] == shown and shown.lower() == word and word in summary


def test_fairseqs_commands_train_and_score_on_the_same_text(followed):
    folder, printed = followed
    out = folder / "runs" / "fairseq"
    assert "ROUGE-L" in output_of("scripts/fairseq.sh", printed)
    lines = (out / "generated.txt").read_text().splitlines()
    summaries = dict(line[2:].split("\t")[::2] for line in lines if line.startswith("D-"))
    written = (out / "summaries.txt").read_text().splitlines()
    assert written == [summaries[str(number)] for number in range(len(summaries))] != [], "in the documents' order"
