"""Store trials as JSON lines, without importing torch or fairseq. Each trial is on disk before the next one starts."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any, Dict, List, Tuple

from ...platform.errors import InputError
from ...platform.processes import lock_file
from ...text.resumable_output import find_differing_settings, format_json_line, parse_json_lines

VERSION = "version of fairseq-etads"
"""Name of a setting that is recorded, but may change between calls."""
FORMAT = "fairseq-etads trials"


class TrialStore:
    """File that contains the trials of a study.

    If a process is interrupted at any time, a later process can continue the study. The first line of the file contains
    the settings of the study, and every other line contains a trial. If a process was killed while writing a line, the
    next process removes this line. While the store is open, no other process can open it.

    Args:
        path: path of the file, which is created if it does not exist.
        settings: all settings that affect the results of a trial, as JSON types. Messages refer to them by name.
            :data:`VERSION` is only recorded, and a study can be continued even if its value changes.

    Attributes:
        trials: all trials in the order in which they were run.

    Raises:
        InputError: the file contains other settings, is damaged or cannot be written, or another process is writing to
            it.
    """

    def __init__(self, path: Path, settings: Dict[str, Any]):
        self.path = path
        self.trials: List[Dict[str, Any]] = []
        head = {"format": FORMAT, "version": 1, "settings": json.loads(json.dumps(settings))}
        try:
            self._file = open(path, "a+b")  # noqa: SIM115  # closed by close()
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror})") from None
        try:
            if not lock_file(self._file):
                raise InputError(f"{self.path}: another process is writing it")
            whole = self._read_trials(head)
            self._file.truncate(whole)
            if not whole:
                self._write_record(head)
        except BaseException:
            self.close()
            raise

    def _read_trials(self, head: Dict[str, Any]) -> int:
        """Read the trials from the file. Returns the number of bytes in complete lines."""
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        for number, record in enumerate(parse_json_lines(content)):
            if not isinstance(record, dict) or (number == 0 and record.get("format") != FORMAT):
                raise InputError(
                    f"{self.path}, line {number + 1}: not a record of a trial; delete the file to start again"
                )
            if number:
                self.trials.append(record)
            elif _remove_project_version(record) != _remove_project_version(head):
                self._raise_settings_mismatch(_remove_project_version(record), _remove_project_version(head))
        return whole

    def _raise_settings_mismatch(self, before: Dict[str, Any], head: Dict[str, Any]) -> None:
        differ = (
            " and ".join(find_differing_settings(before.get("settings") or {}, head["settings"]))
            or "version of this format"
        )
        raise InputError(
            f"{self.path}: its trials used another {differ}; name another folder, or delete it to start again"
        )

    @staticmethod
    def read_trials_without_lock(path: Path) -> Tuple[Dict[str, Any], List[Dict[str, Any]]]:
        """Read the settings and the trials from a file without opening it for writing.

        If the file does not exist, both results are empty.
        """
        records: List[Any] = []
        with contextlib.suppress(OSError):
            records = parse_json_lines(path.read_bytes())
        if not records or not all(isinstance(record, dict) for record in records):
            return {}, []
        settings = records[0].get("settings")
        return settings if isinstance(settings, dict) else {}, records[1:]

    def append(self, trial: Dict[str, Any]) -> None:
        """Add a trial, which is a dictionary of JSON types, and write it to disk."""
        self._write_record(trial)
        self.trials.append(json.loads(json.dumps(trial)))

    def _write_record(self, record: Dict[str, Any]) -> None:
        self._file.write(format_json_line(record))
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file, so that other processes can open it."""
        self._file.close()

    def __enter__(self) -> "TrialStore":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _remove_project_version(head: Dict[str, Any]) -> Dict[str, Any]:
    """Return the first record of a file without the version of this project."""
    settings = head.get("settings")
    if not isinstance(settings, dict):
        return head
    return {**head, "settings": {name: value for name, value in settings.items() if name != VERSION}}
