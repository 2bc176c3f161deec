"""Steps and trainings decide by contents, not by times, what is already done."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_etads.pipeline import training
from fairseq_etads.pipeline.recipes import Command
from fairseq_etads.pipeline.steps import Step
from fairseq_etads.platform.errors import InputError

SCRIPTS = Path(__file__).parents[3] / "scripts"


def write_program(path, code):
    """Write a shell script in place of a command; it counts its calls in ``count``."""
    path.write_text(f"#!/bin/bash\necho x >> count\n{code}\n")
    path.chmod(0o755)


def calls(folder):
    return len((folder / "count").read_text().split())


def test_an_output_is_made_again_for_other_contents_or_another_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_program(tmp_path / "copy", "cp in out; echo made")
    (tmp_path / "data").mkdir()

    def once(*words):
        Step(["./copy", *words], [Path("out")], [Path("in"), Path("data")], Path("said")).run()
        assert (tmp_path / "said").read_text() == "made\n"
        assert (tmp_path / "out").read_bytes() == (tmp_path / "in").read_bytes()
        return calls(tmp_path)

    (tmp_path / "in").write_text("one")
    assert [once(), once()] == [1, 1]
    os.utime(tmp_path / "in")  # the file is newer, with the same content
    assert once() == 1
    for number, (name, text) in enumerate([("in", "two"), ("data/words", "b"), ("out", "changed"), ("said", "m")], 2):
        (tmp_path / name).write_text(text)
        os.utime(tmp_path / name, (0, 0))  # the file is older, as after a wrong clock
        assert once() == number
    assert once("--another-option") == 6
    (tmp_path / "out.made.json").unlink()
    assert once("--another-option") == 7, "nobody knows what it was made from"


@pytest.mark.parametrize("code, status", [("exit 3", 3), ("true", 2), ("kill -9 $$", 137)])
def test_a_command_that_failed_is_not_taken_for_done(code, status, tmp_path):
    write_program(tmp_path / "fails", code)
    step = [sys.executable, "-m", "fairseq_etads.pipeline.steps", "--makes", "out", "--", "./fails"]
    assert subprocess.run(step, cwd=tmp_path).returncode == status
    assert not (tmp_path / "out.made.json").exists()


@pytest.mark.parametrize(
    "word, reads", [("text", "text/sums"), ("run", "run/checkpoints/checkpoint_best.pt"), ("in", "in")]
)
def test_a_command_of_a_recipe_runs_again_for_other_contents_of_its_words(word, reads, tmp_path, monkeypatch):
    """Labels and exported models are not made from earlier data."""
    monkeypatch.chdir(tmp_path)
    write_program(tmp_path / "copy", f"cp {reads} out")
    (tmp_path / reads).parent.mkdir(parents=True, exist_ok=True)

    def make(text):
        (tmp_path / reads).write_text(text)
        os.utime(tmp_path / reads, (0, 0))
        Command(("./copy", "--from", word), (Path("out"),)).run()
        return calls(tmp_path)

    assert (make("old"), make("old"), make("new")) == (1, 1, 2) and (tmp_path / "out").read_text() == "new"


def test_no_script_decides_by_times_or_by_a_file_that_exists():
    """Scripts leave the decision to steps, which compare contents."""
    times = r"^.*\s-(?:nt|ot|newer\w*)\s.*$"
    skips = r"\[ -[efsd] [^]]*\] \|\|(?:[^\S\n]*#.*)?\s+(?:supervise |python )?(?:etads-\w+|fairseq-\w+)"
    found = {path.name: re.findall(f"{times}|{skips}", path.read_text(), re.M) for path in SCRIPTS.rglob("*.sh")}
    assert {name: places for name, places in found.items() if places} == {}


@pytest.fixture
def train(tmp_path, monkeypatch, capsys):
    """Train with a program in place of fairseq-train; returns what is said, the error if there is one."""
    (tmp_path / "prepared").mkdir()
    (tmp_path / "prepared" / "prepare.json").write_text('{"text": 1}')
    code = "mkdir -p run/checkpoints; : > run/checkpoints/checkpoint_last.pt; [ ! -f fails ]"
    write_program(tmp_path / "fairseq-train", code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    def call(*options):
        try:
            training.train(Path("run"), Path("prepared"), options)
        except InputError as error:
            return str(error)
        return capsys.readouterr().err

    return call


def test_a_training_is_done_once_with_the_same_options_and_data(train, tmp_path):
    checkpoint, record = tmp_path / "run/checkpoints/checkpoint_last.pt", tmp_path / "run/training.json"
    (tmp_path / "fails").touch()
    with pytest.raises(SystemExit, match="2"):
        train("--lr", "1")
    assert not (tmp_path / "run" / "finished.txt").exists()
    (tmp_path / "fails").unlink()
    said = train("--lr", "1")
    assert "already trained" not in said and "other options" not in said and calls(tmp_path) == 2
    assert "already trained with these options" in train("--lr", "1", "--log-interval", "7")
    record.unlink()  # as in the runs of earlier versions
    assert "already trained" in train("--lr", "1") and record.exists() and calls(tmp_path) == 2
    said = train("--lr", "2")
    assert "a training with other options" in said and "     < --lr 1\n     > --lr 2\n" in said
    assert calls(tmp_path) == 3
    checkpoint.unlink()
    assert "already trained" not in train("--lr", "2") and calls(tmp_path) == 4


@pytest.mark.parametrize(
    "changed, words",
    [
        ("--seed", "--seed 2: run contains a training with --seed 1; name another"),
        ("prepared/prepare.json", "trained with other data, at"),
        ("base.pt", "--out run: base.pt has changed since this training"),
    ],
)
def test_a_training_is_not_continued_with_another_seed_other_data_or_another_model(changed, words, train, tmp_path):
    """The result used to have the first weights, and to be recorded as a training with the second."""
    record = tmp_path / "run/training.json"
    (tmp_path / "base.pt").write_text("first")
    train("--seed", "1", "--init-from", "base.pt")
    before = record.read_text()
    if changed.endswith((".json", ".pt")):
        (tmp_path / changed).write_text('{"text": 2}')
    seed = "2" if changed == "--seed" else "1"
    for more in ([], ["--lr", "2"]):
        assert words in train(f"--seed={seed}", "--init-from=base.pt", *more)
    assert calls(tmp_path) == 1 and record.read_text() == before
