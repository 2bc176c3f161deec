"""Extract summaries from fairseq's output and write them to files. Used by ``scripts/generate.sh``."""

import json
import re
import sys
from pathlib import Path
from typing import Any, Dict, Iterable, List

from fairseq_etads.platform.errors import InputError
from fairseq_etads.platform.outputs import open_output, write_text
from fairseq_etads.text.files import read_lines

SUMMARY = re.compile(r"D-(\d+)\t[^\t]*\t(.*)")
"""Pattern for a line in fairseq's output with the index of a document and the score and words of a hypothesis.

The first hypothesis of a document is the best one.
"""


def read_best_summaries(log: Path) -> Dict[int, str]:
    """Read a fairseq log, and return a dictionary that maps document indices to the best summaries."""
    found: Dict[int, str] = {}
    for line in read_lines(log):
        match = SUMMARY.match(line)
        if match:
            found.setdefault(int(match.group(1)), match.group(2))
    return found


def sort_summaries(found: Dict[int, str], documents: int, log: Path) -> List[str]:
    """Return the summaries of all documents, in the order of their indices 0, 1, ...

    Raises:
        InputError: the summary of a document is missing.
    """
    if sorted(found) != list(range(documents)):
        raise InputError(f"{documents:,} documents but {len(found):,} summaries; see {log}")
    return [found[number] for number in range(documents)]


def write_summaries(output: str, summaries: Iterable[str], names: List[str]) -> None:
    """Write summaries to a file, or to standard output if ``output`` is ``-``.

    If ``output`` ends in .jsonl, each summary is written as a line of JSON together with the name of its document.
    Otherwise, the names are written to OUTPUT.names, unless they are simply the line numbers.

    Raises:
        InputError: the number of names differs from the number of summaries.
    """
    lines = list(summaries)
    if len(lines) != len(names):
        raise InputError(f"--output {output}: {len(lines):,} summaries for {len(names):,} documents")
    if output == "-":
        sys.stdout.buffer.write("".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
        return
    are_records = output.endswith(".jsonl")
    with open_output(output, errors="replace") as file:
        for name, line in zip(names, lines):
            record: Any = {"document": name, "summary": line}
            file.write((json.dumps(record, ensure_ascii=False) if are_records else line) + "\n")
    names_file = Path(f"{output}.names")
    if are_records or names == [str(number) for number in range(1, len(names) + 1)]:
        names_file.unlink(missing_ok=True)
    else:
        write_text(names_file, "".join(f"{name}\n" for name in names), errors="replace")
        print(f"== the document of each line is listed in: {names_file}", file=sys.stderr)
