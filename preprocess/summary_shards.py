"""Divide summarisation among processes. ``scripts/generate.sh`` writes one shard of the summaries or joins all shards.

A shard is a file of JSON lines such as OUT.shards/2-of-4.jsonl. The first line describes the inputs of the shard
(``made_of``). Each further line contains a summary and the index of its document. An incomplete shard never has its
final name. When a process finds that all shards exist and were made from the same inputs, it writes OUT. If two
processes do so at the same time, they write the same content.
"""

import argparse
import heapq
import json
import re
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

from fairseq_etads.platform.console import Parser, report_errors_in_one_line
from fairseq_etads.platform.errors import InputError
from fairseq_etads.platform.outputs import open_output
from fairseq_etads.text.checksums import compute_sha256
from fairseq_etads.text.files import read_lines

from .shards import Shard
from .summary_files import read_best_summaries, write_summaries

TRANSLATED = re.compile(r"(?:\| |:)Translated ([\d,]+) sentences")
"""Pattern for a log line that contains the number of documents.

The log format of fairseq-generate is "time | INFO | module | text". If another module logs a message before fairseq
sets this format, the format is "INFO:module:text".
"""


def get_shard_path(output: Path, shard: Shard) -> Path:
    """Return the path of the file that contains a shard of ``output``."""
    return output.with_name(f"{output.name}.shards") / f"{shard.name}.jsonl"


def make_input_record(command: str, documents: int, files: List[Path]) -> Dict[str, Any]:
    """Return a record of everything that affects the summaries.

    It contains the command, the number of documents, and the SHA-256 checksum of each input file.
    """
    return {"command": command, "documents": documents, "sha256": [compute_sha256(path) for path in files]}


def read_shard(path: Path) -> Iterator[Any]:
    """Yield the input record of a shard, followed by pairs of a document index and a summary, sorted by index.

    Raises:
        InputError: the file of the shard is damaged.
    """
    try:
        records = map(json.loads, read_lines(path))
        yield next(records)["made_of"]
        for record in records:
            yield int(record["document"]), str(record["summary"])
    except (ValueError, KeyError, TypeError, StopIteration, RecursionError) as error:
        raise InputError(f"{path} is damaged ({error}); delete it to have it made again") from None


def is_shard_complete(path: Path, wanted: Dict[str, Any]) -> bool:
    """Return whether a shard exists and was created from the inputs in ``wanted``."""
    return path.is_file() and next(read_shard(path)) == wanted


def write_shard(path: Path, log: Path, wanted: Dict[str, Any], numbers: Optional[List[int]]) -> None:
    """Create a shard from the best summaries in a fairseq log.

    Args:
        numbers: indices of the documents in the order in which fairseq read them. If None, the log contains these
            indices and ends with the number of documents.

    Raises:
        InputError: the summary of a document is missing.
    """
    found = read_best_summaries(log)
    if numbers is not None:
        found = {numbers[number]: summary for number, summary in found.items()}
        expected = len(numbers)
    else:
        said = [*filter(None, map(TRANSLATED.search, read_lines(log)))]
        expected = int(said[-1].group(1).replace(",", "")) if said else 0
    if len(found) != expected:
        raise InputError(f"{expected:,} documents but {len(found):,} summaries; see {log}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_output(path) as file:
        file.write(json.dumps({"made_of": wanted}) + "\n")
        for number in sorted(found):
            file.write(json.dumps({"document": number, "summary": found[number]}, ensure_ascii=False) + "\n")


def collect_all_summaries(output: Path, shard: Shard, wanted: Dict[str, Any]) -> Optional[Iterator[str]]:
    """Return the summaries of all documents in order, or None if shards are missing or were created from other inputs.

    The numbers that identify these shards are printed to standard error.
    """
    paths = {str(sibling.number): get_shard_path(output, sibling) for sibling in shard.list_all_shards()}
    missing = [number for number, path in paths.items() if not path.is_file()]
    other = [number for number, path in paths.items() if number not in missing and not is_shard_complete(path, wanted)]
    for numbers, what in ((missing, "still missing"), (other, "made with other options, data or another checkpoint")):
        if numbers:
            print(f"== shards of {shard.shares} {what}: {', '.join(numbers)}", file=sys.stderr)
    if missing or other:
        return None
    return _merge_summaries_in_order([read_shard(path) for path in paths.values()], wanted["documents"], output)


def _merge_summaries_in_order(shares: List[Iterator[Any]], documents: int, output: Path) -> Iterator[str]:
    """Merge the summaries in all shards by document index.

    Raises InputError unless each document has exactly one summary.
    """
    for share in shares:
        next(share)
    expected = 0
    for number, summary in heapq.merge(*shares):
        if number != expected:
            break
        yield summary
        expected += 1
    if expected != documents:
        raise InputError(
            f"{output}.shards: document {expected:,} of {documents:,} (from 0) has no summary, or the previous one has "
            "two; delete the folder and make the summaries again"
        )


def main(argv: Optional[List[str]] = None) -> None:
    """Run the steps of generate.sh that precede fairseq or, with --log, the steps that follow it.

    The function prints "done" if the shard is complete, or "joined" if all shards are complete and OUT has been
    written.
    """
    parser = Parser("generate.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shard", required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--documents", type=int, required=True, help="total number of documents in all shards")
    parser.add_argument("--command", required=True, help="fairseq command that summarises the documents")
    parser.add_argument(
        "--reads",
        type=Path,
        nargs="+",
        required=True,
        help="files that fairseq reads; a shard is kept only as long as they are unchanged",
    )
    parser.add_argument("--log", type=Path, help="log file of the fairseq command")
    parser.add_argument(
        "--every", action="store_true", help="use this option if fairseq read only every N-th document of a file"
    )
    parser.add_argument(
        "--names", type=Path, required=True, help="file containing the names of all documents, one per line"
    )
    args = parser.parse_args(argv)
    with report_errors_in_one_line("generate.sh"):
        shard = Shard.parse(args.shard)
        path, wanted = get_shard_path(args.output, shard), make_input_record(args.command, args.documents, args.reads)
        if args.log:
            numbers = list(range(shard.number - 1, args.documents, shard.shares))
            write_shard(path, args.log, wanted, numbers if args.every else None)
        elif not is_shard_complete(path, wanted):
            return
        summaries = collect_all_summaries(args.output, shard, wanted)
        if summaries is not None:
            write_summaries(str(args.output), summaries, list(read_lines(args.names)))
        print("done" if summaries is None else "joined")


if __name__ == "__main__":
    main()
