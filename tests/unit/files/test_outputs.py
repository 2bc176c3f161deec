"""Files are written completely or not at all, by one process at a time, and never over an input."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from fairseq_etads.files.outputs import check_output_paths, lock_output, make_output_folder, open_output
from fairseq_etads.platform.errors import InputError

WRITER = """
import sys, time
from pathlib import Path
from fairseq_etads.files.outputs import lock_output, open_output
path, how = Path(sys.argv[1]), sys.argv[2]
with (lock_output(path, "--out", folder=True) if how == "folder" else open_output(path)) as file:
    if how == "file":
        file.write("half")
        file.flush()
    print("begun", flush=True)
    time.sleep(60)
"""
COUNTER = """
import sys
from pathlib import Path
from fairseq_etads.files.outputs import lock_output
from fairseq_etads.platform.errors import InputError
path, done = Path(sys.argv[1]), 0
while done < 300:
    try:
        with lock_output(path):
            path.write_text(f"{int(path.read_text()) + 1:6d}")
        done += 1
    except InputError:
        pass
"""


@pytest.fixture
def other(tmp_path):
    """Starts a process that is writing an output, and ends it after the test."""
    processes = []

    def start(path, how):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(path), how], stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout.readline() == "begun\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "deep" / "out.txt"
    with open_output(path) as file:
        file.write("ä\r\n")
        assert not path.exists()
    assert path.read_bytes() == "ä\r\n".encode()
    assert names(path.parent) == ["out.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_after_an_error_the_old_file_stands(tmp_path, error):
    path = tmp_path / "out.txt"
    path.write_text("old")
    with pytest.raises(error), open_output(path) as file:
        file.write("new")
        raise error
    assert path.read_text() == "old"
    assert names(tmp_path) == ["out.txt"]


def test_a_second_process_is_told_who_writes_and_a_third_comes_after_a_kill(tmp_path, other):
    path = tmp_path / "out.txt"
    path.write_text("old")
    first = other(path, "file")
    with pytest.raises(InputError, match=rf"out.txt: is being written \(-c, process {first.pid} on .*since 20"):
        open_output(path).__enter__()
    assert path.read_text() == "old"
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert len(names(tmp_path)) == 3, "the file, what the killed process left, and its lock"
    with open_output(path) as file:
        file.write("new")
    assert path.read_text() == "new"
    assert names(tmp_path) == ["out.txt"]


def test_a_folder_has_one_writer_who_writes_files_in_it(tmp_path, other):
    out = tmp_path / "out"
    with lock_output(out, "--out", folder=True):
        with lock_output(out, "--out", folder=True), open_output(out / "a") as file:
            file.write("a")
        assert names(out) == [".lock", "a"]
    assert names(out) == ["a"]
    first = other(out, "folder")
    with pytest.raises(InputError, match=f"--out {out}: is being written .*process {first.pid} "):
        lock_output(out, "--out", folder=True).__enter__()


def test_lock_files_of_killed_processes_are_deleted_from_a_folder(tmp_path, other):
    """A process can be killed after it has renamed its output, and before it deletes the lock file."""
    out = tmp_path / "out"
    (out / "bin").mkdir(parents=True)
    for stale in (out / ".sums.lock", out / "bin" / ".sums.lock"):
        stale.write_text('{"pid": 1}')
    other(out / "text", "file")
    with open_output(out / "mine"), lock_output(out, "--out", folder=True):
        assert ".mine.lock" in names(out), "this process holds it"
        assert ".text.lock" in names(out), "another process holds it"
    assert not {".sums.lock", ".mine.lock"} & {*names(out)} and ".text.lock" in names(out)
    assert names(out / "bin") == []


def test_folders_that_stay_empty_are_not_left(tmp_path):
    with pytest.raises(KeyError), lock_output(tmp_path / "deep" / "out", "--out", folder=True):
        raise KeyError
    assert names(tmp_path) == []
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot write to --out .*file/out: "):
        lock_output(tmp_path / "file" / "out", "--out", folder=True).__enter__()


def test_locks_that_are_given_up_while_others_wait_are_not_lost(tmp_path):
    """A lock file is deleted by its holder; a process that opened it before must not believe that it has the lock."""
    path = tmp_path / "number"
    path.write_text("     0")
    processes = [subprocess.Popen([sys.executable, "-c", COUNTER, str(path)]) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert int(path.read_text()) == 900
    assert names(tmp_path) == ["number"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG])
def test_a_full_disk_and_a_file_that_may_not_grow_name_the_file(tmp_path, number):
    for path in (str(tmp_path / "out"), os.devnull):
        with pytest.raises(OSError, match=os.strerror(number)) as error, open_output(path) as file:
            file.write("a")
            raise OSError(number, os.strerror(number))
        assert error.value.filename == path and names(tmp_path) == []


def test_links_are_followed_and_pipes_written_to(tmp_path):
    target, link, pipe = (tmp_path / name for name in ("target", "link", "pipe"))
    link.symlink_to(target)
    with open_output(link) as file:
        file.write("new")
    assert link.is_symlink() and target.read_text() == "new"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
        with open_output(pipe) as file:
            file.write("through")
        assert reader.communicate()[0] == "through"
    ends = os.pipe()
    with open_output(f"/dev/fd/{ends[1]}") as file:  # as /dev/stdout before a "|", and as >(...)
        file.write("piped")
    assert os.read(ends[0], 10) == b"piped"
    for end in ends:
        os.close(end)


def test_a_folder_appears_when_it_is_complete_and_replaces_nothing(tmp_path):
    unrelated = tmp_path / "model.partial"
    unrelated.mkdir()
    (unrelated / "precious").write_text("mine")
    with make_output_folder(tmp_path / "model", "FOLDER") as partial:
        (partial / "config.json").write_text("{}")
        assert not (tmp_path / "model").exists()
    assert names(tmp_path) == ["model", "model.partial"]
    assert (unrelated / "precious").read_text() == "mine"
    with pytest.raises(InputError, match=r"FOLDER .*model already exists"):
        make_output_folder(tmp_path / "model", "FOLDER").__enter__()
    (tmp_path / "empty").mkdir()
    with make_output_folder(tmp_path / "empty", "FOLDER") as partial:
        (partial / "config.json").write_text("{}")
    assert names(tmp_path / "empty") == ["config.json"]
    with pytest.raises(KeyError), make_output_folder(tmp_path / "other", "FOLDER") as partial:
        (partial / "half").write_text("")
        raise KeyError
    assert names(tmp_path) == ["empty", "model", "model.partial"]


def test_outputs_are_no_inputs_nor_compressed(tmp_path):
    document, link, hard, missing = (tmp_path / name for name in ("a.txt", "link", "hard", "new"))
    document.write_text("text")
    link.symlink_to(document)
    os.link(document, hard)
    for output in (document, link, hard, f"{tmp_path}/../{tmp_path.name}/a.txt"):
        with pytest.raises(InputError, match=r"--json .* is also read \(HYP .*a.txt\): name another"):
            check_output_paths({"--json": output}, {"HYP": [str(document)]})
    for paths, words in (
        ({"--json": tmp_path}, "--json .*: is a folder; name a file"),
        ({"--json": missing, "--csv": str(missing)}, "--csv .*new and --json name the same file"),
        ({"--out": "a.gz"}, "--out a.gz: is written uncompressed"),
    ):
        with pytest.raises(InputError, match=words):
            check_output_paths(paths, {})
    check_output_paths({"--json": "-", "--csv": None, "--out": missing}, {"HYP": ["-", document], "REF": None})
    check_output_paths({"--out": "a.txt"}, {"FILE": "a.txt.gz"})
