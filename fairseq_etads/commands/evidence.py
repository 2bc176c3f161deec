"""The command ``etads-evidence`` (evaluate): show from where in its document each sentence of a summary was copied."""

import contextlib
import json
import sys
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from tqdm import tqdm

from ..evaluation.evidence import NOTICE, EvidenceFinder
from ..evaluation.summaries import SENTENCE_MARK, unify_sentence_marks
from ..files.outputs import check_output_paths, open_output, write_text
from ..platform.command_options import SIZE, option, options_command
from ..text.words import split_marked_sentences
from .shared_options import SystemsOptions, parse_file_name, parse_named_files, read_summaries


@dataclass
class EvidenceOptions(SystemsOptions):
    """Options of ``etads-evidence``."""

    sentence_mark: Optional[List[str]] = option(
        None, f"separator between sentences, in addition to {SENTENCE_MARK}; may be repeated", metavar="MARK"
    )
    output: Optional[str] = option(
        None, "output file in JSON lines (default: standard output)", metavar="FILE", short="-o"
    )
    page: Optional[str] = option(
        None, "also write a page with the sources of sentences (.html)", metavar="FILE", parse=parse_file_name(".html")
    )
    page_documents: int = option(100, "number of documents on the page, from the first", bounds=SIZE, needs=("--page",))


@options_command(
    "etads-evidence",
    EvidenceOptions,
    ValueError,
    description="Find the sentences of the document from which each sentence of a summary was copied, and the words, "
    "numbers and names that the document does not contain. " + NOTICE,
    epilog="""\
example:
  etads-evidence --source test.source --system etads=etads.txt --system basic=basic.txt --page evidence.html > e.jsonl

  Each line of the output belongs to a document. For each sentence of a summary, it contains its support (from 0 to 1,
  copied word for word), its sources (number, position start:end in the line of the document, and copied words), new
  words with their kind (number, name or word), and whether the sentence joins several sources. Do not rank systems by
  support, because it rewards copying. Files may be compressed (.gz, .xz, .bz2, .zst).""",
)
def main(args: EvidenceOptions) -> None:
    """Run the command ``etads-evidence``."""
    files = parse_named_files(args.system)
    inputs = {"--source": args.source, "--system": files.values()}
    check_output_paths({"--output": args.output, "--page": args.page}, inputs)
    *outputs, documents = read_summaries([*files.values()], "", args.source, args.source_column)
    mark = [SENTENCE_MARK, *(args.sentence_mark or ())]
    progress = tqdm(documents, desc="evidence", unit=" documents", disable=None)
    shown: List[Dict[str, Any]] = []
    with open_output(args.output) if args.output else contextlib.nullcontext(sys.stdout) as file:
        for number, (document, *summaries) in enumerate(zip(progress, *outputs), 1):
            finder = EvidenceFinder(document, mark)
            systems = {
                name: [finder.find(sentence).to_dict() for sentence in split_marked_sentences(text)]
                for name, text in zip(files, (unify_sentence_marks(summary, mark) for summary in summaries))
            }
            file.write(json.dumps({"line": number, "systems": systems}) + "\n")
            if len(shown) < args.page_documents:
                shown.append({"line": number, "document": document, "systems": systems})
    if args.page:
        from ..summarizer.explanation import make_evidence_page

        write_text(args.page, make_evidence_page(shown))
