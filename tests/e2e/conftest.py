"""A server of commands for all tests; the binarised toy task, and a model trained on it by the real commands."""

import contextlib
import fcntl
import os

import pytest
from command_server import CommandServer
from helpers import PROGRAMS, run_command
from toy import PREPROCESS, train_command, write_pairs


@pytest.fixture(scope="session", autouse=True)
def programs():
    """Folder of programs that run commands without their start-up time; ``run_command`` finds it."""
    with contextlib.closing(CommandServer()) as server:
        PROGRAMS.insert(0, str(server.programs))
        yield server.programs
        PROGRAMS.remove(str(server.programs))


def made_once(tmp_path_factory, name, make):
    """A folder that all processes which share the tests use, and that the first of them makes."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            folder.mkdir()
            make(folder)
            (folder / "complete").touch()
    return folder


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """Folder with text/ and bin/."""
    return made_once(tmp_path_factory, "corpus", make_corpus)


def make_corpus(directory):
    text = directory / "text"
    text.mkdir()
    for seed, (split, count) in enumerate((("train", 600), ("valid", 40), ("test", 37))):
        write_pairs(text, split, count, seed)
    run_command(
        [*PREPROCESS, str(directory / "bin")]
        + [f"--{split}pref={text / split}" for split in ("train", "valid", "test")],
        cwd=directory,
        anew=True,
    )


@pytest.fixture(scope="session")
def trained(corpus, tmp_path_factory):
    """Checkpoint folder of an etads model that has learned the task."""
    options = ["--dropout", "0.0", "--truncate-source", "8", "--truncate-target", "5", "--lr", "2e-3"]
    options += ["--max-update", "300", "--log-interval", "100"]
    return made_once(
        tmp_path_factory,
        "trained",
        lambda folder: run_command(train_command(corpus / "bin", folder, *options), cwd=folder, anew=True),
    )
