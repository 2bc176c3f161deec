"""Write files of summaries from fairseq's output for ``scripts/generate.sh``."""

import json
import re
import sys
from pathlib import Path
from typing import Any, Dict, Iterable, List

from fairseq_etads.platform.errors import InputError
from fairseq_etads.platform.outputs import write_text, writing
from fairseq_etads.text.files import read_lines

SUMMARY = re.compile(r"D-(\d+)\t[^\t]*\t(.*)")
"""Line of fairseq's output with the number of a document, the score and the words of a hypothesis. The best hypothesis
comes first.
"""


def best_summaries(log: Path) -> Dict[int, str]:
    """Map document numbers to their best summaries, as read from a log of fairseq."""
    found: Dict[int, str] = {}
    for line in read_lines(log):
        match = SUMMARY.match(line)
        if match:
            found.setdefault(int(match.group(1)), match.group(2))
    return found


def in_order(found: Dict[int, str], documents: int, log: Path) -> List[str]:
    """List the summaries of all documents, starting with number 0.

    Raises:
        InputError: a summary is missing.
    """
    if sorted(found) != list(range(documents)):
        raise InputError(f"{documents:,} documents but {len(found):,} summaries; see {log}")
    return [found[number] for number in range(documents)]


def write_summaries(output: str, summaries: Iterable[str], names: List[str]) -> None:
    """Write summaries to a file, or to standard output if ``output`` is ``-``.

    A .jsonl file contains JSON lines with the names of the documents. For other files, the names are written to
    OUTPUT.names, unless they are the line numbers.

    Raises:
        InputError: the numbers of names and summaries differ.
    """
    lines = list(summaries)
    if len(lines) != len(names):
        raise InputError(f"--output {output}: {len(lines):,} summaries for {len(names):,} documents")
    if output == "-":
        sys.stdout.buffer.write("".join(f"{line}\n" for line in lines).encode("utf-8", "replace"))
        return
    are_records = output.endswith(".jsonl")
    with writing(output, errors="replace") as file:
        for name, line in zip(names, lines):
            record: Any = {"document": name, "summary": line}
            file.write((json.dumps(record, ensure_ascii=False) if are_records else line) + "\n")
    names_file = Path(f"{output}.names")
    if are_records or names == [str(number) for number in range(1, len(names) + 1)]:
        names_file.unlink(missing_ok=True)
    else:
        write_text(names_file, "".join(f"{name}\n" for name in names), errors="replace")
        print(f"== the document of each line is listed in: {names_file}", file=sys.stderr)
