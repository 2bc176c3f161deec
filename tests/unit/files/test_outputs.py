"""Files are written completely or not at all, never over an input; files of results continue after any end."""

import ast
import contextlib
import errno
import hashlib
import itertools
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_etads.files.outputs import check_output_paths, lock_output, make_output_folder, open_output
from fairseq_etads.files.resumable import ResumableWriter
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.records import InputDocument

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
def other():
    """Starts a process that is writing an output, and ends it after the test."""
    with contextlib.ExitStack() as ends:

        def start(path, how):
            command = [sys.executable, "-c", WRITER, str(path), how]
            process = ends.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            ends.callback(process.kill)
            assert process.stdout.readline() == "begun\n"
            return process

        yield start


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_when_it_is_complete_and_the_old_file_stands_after_an_error(tmp_path):
    path = tmp_path / "deep" / "out.txt"
    with open_output(path) as file:
        file.write("ä\r\n")
        assert not path.exists()
    with pytest.raises(KeyboardInterrupt), open_output(path) as file:
        file.write("new")
        raise KeyboardInterrupt
    assert path.read_bytes() == "ä\r\n".encode()
    assert names(path.parent) == ["out.txt"]
    for where in (path, os.devnull):
        with pytest.raises(OSError, match="No space left") as error, open_output(where) as file:
            file.write("a")
            raise OSError(errno.ENOSPC, "No space left on device")
        assert error.value.filename == str(where) and names(path.parent) == ["out.txt"]


def test_a_second_process_is_told_who_writes_and_a_third_comes_after_a_kill(tmp_path, other):
    path = tmp_path / "out.txt"
    path.write_text("old")
    first = other(path, "file")
    with pytest.raises(InputError, match=rf"out.txt: is being written \(-c, process {first.pid} on .*since 20"):
        open_output(path).__enter__()
    assert path.read_text() == "old"
    first.kill()
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
    with pytest.raises(KeyError), make_output_folder(tmp_path / "other", "FOLDER") as partial:
        (partial / "half").write_text("")
        raise KeyError
    assert names(tmp_path) == ["model", "model.partial"]


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


ROOT = Path(__file__).parents[3]
OWN_WRITERS = {
    "fairseq_etads/files/outputs.py": "is where files are written",
    "fairseq_etads/fairseq_fixes/checkpoints.py": "fairseq's checkpoints, which fairseq writes",
    "fairseq_etads/files/resumable.py": "adds each document to a locked file that a later run continues",
    "fairseq_etads/summarizer/folder/export.py": "fills a folder that writing_folder() made",
    "fairseq_etads/evaluation/perl_rouge.py": "files in a temporary folder, for ROUGE-1.5.5.pl",
    "fairseq_etads/commands/human.py": "fills a folder that make_output_folder() made",
    "fairseq_etads/pipeline/steps.py": "the standard output of a command, in a file of make_temporary_output()",
    "fairseq_etads/pipeline/training.py": "adds to the log of a training, which a later run continues",
    "preprocess/corpus.py": "standard input, copied into a temporary folder",
    "preprocess/prepare.py": "the log of fairseq-preprocess, in a folder that is locked",
}
"""Reason why each file opens files for writing itself."""


def writes(tree):
    """Line numbers of calls that open or write a file."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in ("write_text", "write_bytes") and isinstance(node.func, ast.Attribute):
            yield node.lineno
        elif name == "open":
            words = [*node.args[:2], *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
            modes = [word.value for word in words if isinstance(word, ast.Constant) and isinstance(word.value, str)]
            if any(set(mode) <= set("rwaxbt+") and set(mode) & set("wax+") for mode in modes):
                yield node.lineno
        elif name == "replace" and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "os":
            yield node.lineno


def test_every_file_is_written_through_outputs():
    """A file that is written in place is left half-written when the process is killed or the disk is full."""
    found = {}
    for path in (*(ROOT / "fairseq_etads").rglob("*.py"), *(ROOT / "preprocess").rglob("*.py")):
        lines = [*writes(ast.parse(path.read_text(encoding="utf-8")))]
        if lines:
            found[path.relative_to(ROOT).as_posix()] = lines
    wrong = found.keys() ^ OWN_WRITERS.keys()
    assert not wrong, f"write with files/outputs.py, or say in OWN_WRITERS why not: {wrong}"


SETTINGS = {"model": "x", "--beam": 3}
DOCUMENTS = [InputDocument(str(number), f"text {number}\ud83d", "bad" * (number == 2)) for number in range(7)]
WANTED = "".join(f"summary of {number} é\n" for number in range(7)).encode()


def work(path, documents=DOCUMENTS, stop=None):
    """Write the lines of all documents, or of as many as ``stop``, and mark every second; returns the writer."""
    output = ResumableWriter(path, SETTINGS)
    for number, document in enumerate(output.skip_processed(iter(documents))):
        if number == stop:
            return output
        output.write(document, f"summary of {document.name} é", bool(document.problem))
        if output.progress.documents % 2 == 0:
            output.record_progress()
    if stop is None:
        output.finish()
    return output


@pytest.mark.parametrize("stop", range(1, 8))
def test_after_an_end_at_any_moment_nothing_is_missing_and_nothing_is_there_twice(stop, tmp_path):
    """All possible states of the disk: some of the data since the last mark, and part of a journal's line."""
    for case, (lines_lost, journal_lost) in enumerate(itertools.product((0, 1, 9, 10_000), (0, 1, 40))):
        path = tmp_path / str(case)
        first = work(path, stop=stop)
        if not first._file.closed:
            first._file.flush()
        marked = first.progress.documents // 2 * 2
        first.close()
        if path.exists():
            path.unlink()
        else:
            partial, journal = first.partial.read_bytes(), first.journal.read_bytes()
            safe = len(WANTED.split(b"\n")[0] + b"\n") * marked
            first.partial.write_bytes(partial[: max(safe, len(partial) - lines_lost)])
            first.journal.write_bytes(journal[: len(journal) - journal_lost])
        again = work(path)
        assert path.read_bytes() == WANTED
        assert again.progress.failed == 1 and again.progress.documents == 7
        assert [file.name for file in tmp_path.iterdir() if file.name.startswith(f"{case}.")] == []


def test_marked_documents_are_not_done_again(tmp_path):
    work(tmp_path / "out", stop=5).close()
    output = ResumableWriter(tmp_path / "out", SETTINGS)
    assert [document.name for document in output.skip_processed(iter(DOCUMENTS))] == ["4", "5", "6"]
    with pytest.raises(InputError, match="is being written"):
        ResumableWriter(tmp_path / "out", SETTINGS)
    output.close()


def test_a_run_that_was_ended_after_the_file_had_its_name(tmp_path):
    """It was killed before it deleted its journal."""
    output = work(tmp_path / "out", stop=len(DOCUMENTS))
    output.finish()
    digest = hashlib.sha256((tmp_path / "out").read_bytes()).hexdigest()
    lines = [SETTINGS, output.progress._asdict(), {"output_sha256": digest}]
    output.journal.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    again = ResumableWriter(tmp_path / "out", SETTINGS)
    with pytest.raises(InputError, match="contains summaries of 7 documents, which have changed"):
        again.skip_processed(iter([document._replace(text="other") for document in DOCUMENTS]))
    again.close()
    again = ResumableWriter(tmp_path / "out", SETTINGS)
    assert again.is_complete and again.progress.failed == 1
    assert list(again.skip_processed(iter(DOCUMENTS))) == []
    again.finish()
    assert [file.name for file in tmp_path.iterdir()] == ["out"]
    work(tmp_path / "out")  # the work starts again from the beginning
    assert (tmp_path / "out").read_bytes() == WANTED


def test_an_older_file_is_not_taken_for_one_whose_partial_file_is_gone(tmp_path):
    """Summaries of A are complete; a run over B is killed, and somebody deletes its partial file."""
    path = tmp_path / "out"
    work(path)
    others = [document._replace(name=f"b{document.name}") for document in DOCUMENTS]
    output = work(path, others, stop=5)
    output.close()
    output.partial.unlink()
    again = ResumableWriter(path, SETTINGS)
    assert not again.is_complete and again.progress.documents == 0
    again.close()


def test_other_settings_and_other_documents_are_refused(tmp_path):
    path = tmp_path / "out"
    work(path, stop=5).close()
    with pytest.raises(InputError, match=r"out.partial next to it was started with another --beam and --lenpen; ch"):
        ResumableWriter(path, {"model": "x", "--lenpen": 1})
    with pytest.raises(InputError, match="contains summaries of 4 documents, but there are only 3 documents now"):
        work(path, documents=DOCUMENTS[:3])
    for changed in (DOCUMENTS[0]._replace(text="other"), InputDocument("0t", "ext 0\ud83d")):
        with pytest.raises(InputError, match="contains summaries of 4 documents, which have changed"):
            work(path, documents=[changed, *DOCUMENTS[1:]])
    work(path)
    assert path.read_bytes() == WANTED


def test_a_journal_without_content_is_begun_anew_and_those_of_others_stay(tmp_path):
    path = tmp_path / "out"
    path.symlink_to("elsewhere")
    work(path, stop=5).close()
    (tmp_path / "elsewhere.resume").write_bytes(b"\n\n")
    work(path)
    assert path.is_symlink() and path.read_bytes() == WANTED
    for name, content in (("resume", b"{"), ("resume", b"[" * 100_000 + b"\n"), ("partial", b"a")):
        (tmp_path / f"elsewhere.{name}").write_bytes(content)
        with pytest.raises(InputError, match=f"elsewhere.{name} was not written by this command"):
            work(path)
        assert (tmp_path / f"elsewhere.{name}").read_bytes() == content
        (tmp_path / f"elsewhere.{name}").unlink()


def test_a_file_that_may_not_grow_is_named(tmp_path):
    output, limits = ResumableWriter(tmp_path / "out", SETTINGS), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(OSError) as raised:
            output.write(DOCUMENTS[0], "x" * 9999, False)
            output.record_progress()
        assert raised.value.filename == str(output.partial)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
