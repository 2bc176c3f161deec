"""Write result files with one line per document. If a run is interrupted, the next run can complete the file."""

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple, TypeVar

from ..platform.errors import InputError
from .checksums import compute_sha256
from .outputs import lock_output, name_file_in_errors

Document = TypeVar("Document", bound=Tuple[str, ...])
OUTPUT = "output_sha256"
"""Key of the last record in OUT.resume, the SHA-256 digest of the complete file, written before the file is renamed."""


def format_json_line(record: Dict[str, Any]) -> bytes:
    """Format a record as one line of JSON."""
    return json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def find_differing_settings(before: Dict[str, Any], now: Dict[str, Any]) -> List[str]:
    """Return the names of all settings with different values in ``before`` and ``now``."""
    return [str(name) for name in {**now, **before} if before.get(name) != now.get(name)]


class Progress(NamedTuple):
    """Progress of a run that writes a result file."""

    documents: int  # number of documents that have been processed
    size: int  # total size in bytes of the result lines for these documents
    failed: int  # number of processed documents without a result
    sha256: str  # SHA-256 checksum of the names and texts of the processed documents


class ResumableWriter:
    """Writer for a result file OUT that can be completed after an interruption.

    The lines are written to OUT.partial, which is renamed to OUT when all documents have been processed. OUT.resume is
    a journal, in which progress is recorded only after the result lines have been written. After an interruption, the
    next run removes all lines from OUT.partial that are not recorded, so no document is missing or repeated.

    ``settings`` are all settings that affect the result lines, apart from the documents. Raises InputError, which names
    ``option``, if OUT.partial was created with others and the run does not start again (``restarts``), or if another
    process is writing to it.
    """

    progress: Progress  # progress of the run, which includes the lines of an interrupted run
    is_complete: bool  # True if OUT is complete and only OUT.resume must still be deleted

    def __init__(self, path: Path, settings: Dict[str, Any], restarts: bool = False, option: str = "--output"):
        self._restarts, self._option = restarts, option
        self.path, self.partial, self.journal = self.list_files(path)
        self._digest = hashlib.sha256()
        self._output_sha256: Optional[str] = None
        self._log: Any = None  # binary files, while they are open
        self._file: Any = None
        self._lock = contextlib.ExitStack()
        self._lock.enter_context(lock_output(path, option))
        try:
            self._open_files(settings)
        except BaseException:
            self.close()
            raise

    @staticmethod
    def list_files(path: Path) -> List[Path]:
        """Return the files that a writer for OUT writes: OUT (where a link leads), OUT.partial and OUT.resume."""
        path = Path(os.path.realpath(path)) if path.is_symlink() else path
        return [path, *(path.with_name(path.name + end) for end in (".partial", ".resume"))]

    def _open_files(self, settings: Dict[str, Any]) -> None:
        begun = [Progress(0, 0, 0, self._digest.hexdigest()), *self._read_journal(settings)]
        self.progress = begun[-1]
        is_renamed = self._output_sha256 is not None and not self.partial.exists() and self.path.is_file()
        self.is_complete = is_renamed and compute_sha256(self.path) == self._output_sha256  # otherwise, an older file
        if self.is_complete:
            return
        self._file = open(self.partial, "ab")  # noqa: SIM115  # closed by close()
        # After a power failure, the file may be shorter than the size recorded in the journal.
        size = self._file.tell()
        self.progress = [done for done in begun if done.size <= size][-1]
        self._file.truncate(self.progress.size)
        fresh = self.journal.with_name(self.journal.name + ".new")
        fresh.write_bytes(format_json_line(settings) + format_json_line(self.progress._asdict()))
        os.replace(fresh, self.journal)
        self._log = open(self.journal, "ab")  # noqa: SIM115

    def _read_journal(self, settings: Dict[str, Any]) -> List[Progress]:
        """Return the progress records of the previous run in order, if any, after checking that they are its own."""
        content = self.journal.read_bytes() if self.journal.exists() else b""
        found: List[Dict[str, Any]] = []
        for line in content.split(b"\n")[:-1]:  # the process that wrote an incomplete line was killed
            with contextlib.suppress(ValueError, RecursionError):
                found += [record] if isinstance(record := json.loads(line), dict) else []
        if not found:
            for path, other in ((self.journal, content.strip()), (self.partial, not self.journal.exists())):
                if other and path.exists() and path.stat().st_size:
                    said = f"{path} was not written by this command; move it away"
                    raise InputError(f"{self._option} {self.path}: {said}")
            return []
        if found[0] != json.loads(json.dumps(settings)):
            if self._restarts:
                return []
            differ = " and ".join(sorted(find_differing_settings(found[0], settings)))
            raise self._make_error(f"was started with another {differ}")
        begun = []
        for done in found[1:]:
            self._output_sha256 = done.get(OUTPUT, self._output_sha256)
            with contextlib.suppress(TypeError):
                begun.append(Progress(**done))
        return begun

    def _make_error(self, how: str) -> InputError:
        advice = f"choose another {self._option}, or delete it and {self.journal.name} to start again"
        return InputError(f"{self._option} {self.path}: {self.partial.name} next to it {how}; {advice}")

    def skip_processed(self, documents: Iterator[Document]) -> Iterator[Document]:
        """Return the documents that have not been processed yet.

        Raises InputError if a document that has already been processed has changed or is missing.
        """
        done = f"contains summaries of {self.progress.documents:,} documents"
        for number in range(self.progress.documents):
            document = next(documents, None)
            if document is None:
                raise self._make_error(f"{done}, but there are only {number:,} documents now")
            self._add_document_to_digest(document)
        if self._digest.hexdigest() != self.progress.sha256:
            raise self._make_error(f"{done}, which have changed")
        return documents

    def _add_document_to_digest(self, document: Tuple[str, ...]) -> None:
        for part in document:
            encoded = part.encode("utf-8", "surrogatepass")
            self._digest.update(b"%d:" % len(encoded) + encoded)

    def write(self, document: Tuple[str, ...], line: str, failed: bool) -> None:
        """Write the result line of the next document. ``failed`` states whether the document has no result."""
        content = line.encode("utf-8", "replace") + b"\n"
        with name_file_in_errors(self.partial):
            self._file.write(content)
        self._add_document_to_digest(document)
        documents, size, failures, digest = self.progress
        self.progress = Progress(documents + 1, size + len(content), failures + failed, digest)

    def record_progress(self) -> None:
        """Record in the journal which lines have been written."""
        with name_file_in_errors(self.partial):
            self._file.flush()
        # The lines must be on disk before the journal records them.
        os.fsync(self._file.fileno())
        self.progress = self.progress._replace(sha256=self._digest.hexdigest())
        self._write_journal_record(self.progress._asdict())

    def _write_journal_record(self, content: Dict[str, Any]) -> None:
        with name_file_in_errors(self.journal):
            self._log.write(format_json_line(content))
            self._log.flush()

    def close(self) -> None:
        """Close the files. A later run continues after the last line that :meth:`record_progress` recorded."""
        for file in (self._file, self._log):
            if file is not None:
                with name_file_in_errors(Path(file.name)):
                    file.close()
        if self._file is not None and not self.progress.documents:  # nothing to continue
            for path in (self.partial, self.journal):
                path.unlink(missing_ok=True)
        self._lock.close()

    def finish(self) -> None:
        """Rename OUT.partial to OUT, and delete the journal, after all documents have been written."""
        if not self.is_complete:
            self.record_progress()
            self._write_journal_record({OUTPUT: compute_sha256(self.partial)})
            os.replace(self.partial, self.path)
        self.journal.unlink()
        self.close()
