"""A file of results that continues an earlier run, ended at any moment and in any state."""

import hashlib
import itertools
import json
import resource

import pytest

from fairseq_etads.files.resumable import ResumableWriter
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.records import InputDocument

SETTINGS = {"model": "x", "--beam": 3}
DOCUMENTS = [InputDocument(str(number), f"text {number}\ud83d", "bad" * (number == 2)) for number in range(7)]
WANTED = "".join(f"summary of {number} é\n" for number in range(7)).encode()


def work(path, documents=DOCUMENTS, settings=SETTINGS, stop=None, every=2):
    """Write the lines of all documents, or of as many as ``stop``, and mark every second; returns the writer."""
    output = ResumableWriter(path, settings)
    for number, document in enumerate(output.skip_processed(iter(documents))):
        if number == stop:
            return output
        output.write(document, f"summary of {document.name} é", bool(document.problem))
        if output.progress.documents % every == 0:
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
    work(path, others)
    assert path.read_bytes() == WANTED.replace(b"of ", b"of b")


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
