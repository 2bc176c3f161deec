#!/usr/bin/env python3
"""Run fairseq-generate or fairseq-interactive, and write the best summary of each document in the order of the
documents.

    scripts/fairseq_summaries.py LOG --names FILE --output OUT -- fairseq-generate ...

fairseq's output is written to LOG. FILE contains the names of the documents, one per line. Only one process at a time
can write OUT and LOG. OUT appears only when it is complete; - is standard output.
"""

import argparse
import sys
from pathlib import Path
from typing import List

from etads_preprocess.summary_files import read_best_summaries, sort_summaries, write_summaries

from fairseq_etads.pipeline import children, fairseq_log
from fairseq_etads.platform.console import report_errors_in_one_line
from fairseq_etads.platform.outputs import lock_output
from fairseq_etads.text.files import read_lines


def generate_and_write_summaries(log: Path, names: List[str], output: str, command: List[str]) -> int:
    """Run the command, write its summaries, and return its exit status."""
    watcher = fairseq_log.LogWatcher(command, fairseq_log.ProgressTerminal().show_line, documents=len(names))
    with lock_output(log, "the log") as held:
        status = fairseq_log.run_logged_command(command, str(log), watcher, held, new=True)
        if status:
            return 2 if status < 128 else status
        write_summaries(output, sort_summaries(read_best_summaries(log), len(names), log), names)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", metavar="LOG", type=Path, help="log file for the output of fairseq")
    parser.add_argument(
        "--names",
        metavar="FILE",
        type=Path,
        required=True,
        help="file containing the names of the documents, one per line",
    )
    parser.add_argument("--output", metavar="OUT", required=True, help="output file for the summaries")
    parser.add_argument("command", metavar="COMMAND", nargs="+", help="fairseq command to run, given after --")
    args = parser.parse_args()
    children.watch_parent()
    with report_errors_in_one_line("generate.sh"):
        return generate_and_write_summaries(args.log, list(read_lines(args.names)), args.output, args.command)


if __name__ == "__main__":
    sys.exit(main())
