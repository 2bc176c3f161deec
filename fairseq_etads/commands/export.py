"""The command ``etads-export``: create a model folder, which contains all files needed for summarisation."""

import argparse
import json
import logging
import sys
from pathlib import Path
from typing import Any, Dict, Optional

from ..data.run_record import RunRecord
from ..platform.console import Parser, command
from ..platform.option_checks import format_option_name
from ..search.content.model import FILE as CONTENT
from ..search.options import FOLDER_DEFAULTS, add_decoding_arguments, combine_options, get_given_options
from ..summarizer.folder.config import DTYPES, SHORTLIST
from ..summarizer.folder.model_card import (
    ModelCardMetadata,
    check_language_or_licence_code,
    make_model_card,
    read_scores,
)
from ..summarizer.folder.run_files import RunFiles, find_run_files
from ..text.picking import FILE as PICKING
from ..text.picking import SentencePickingSettings

EXAMPLES = """\
examples:
  etads-export runs/quickstart model
  etads-export runs/mine model --shortlist runs/mine/prepared/bin/shortlist.safetensors --infer-dtype int8
  etads-export runs/mine model --extractor runs/long/extractor
  etads-export runs/mine model --checkpoint runs/mine/average.pt --beam 4 --min-len 35 --lenpen 0.9 --license mit

Summarising then needs only the folder:

  etads-summarize model new-documents.txt
"""


def _build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-export",
        description="Export a trained model to a model folder, which contains the weights (safetensors), the settings "
        "(JSON), the dictionaries, the subword model and a model card. Model folders are safe to share, because no "
        "code from a folder is run when it is loaded.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("run", metavar="RUN", type=Path, help="run folder created by etads-train or scripts/quickstart.sh")
    add("folder", metavar="FOLDER", type=Path, help="output folder, which must be empty or must not exist yet")
    add(
        "--checkpoint",
        metavar="FILE",
        help="checkpoint to export: a file, best or last (default: the best one, or else the last one)",
    )
    add(
        "--prepared",
        metavar="DIR",
        type=Path,
        help="folder containing the prepared data (default: the folder used for training)",
    )
    add(
        "--dtype",
        choices=DTYPES,
        default="fp32",
        help="data type of the stored weights; fp16 halves their size (default: fp32)",
    )
    add(
        "--shortlist",
        metavar="FILE",
        type=Path,
        help="file containing a decoding shortlist, written by etads-shortlist",
    )
    add(
        "--extractor",
        metavar="RUN",
        help="run folder of the sentence extractor that shortened the training documents (etads-train --long, "
        "scripts/shorten.sh or etads-shorten); the exported model then shortens long documents with this extractor "
        "(default: the extractor in RUN or next to its prepared data, if any; none: no extractor)",
    )
    add(
        "--content",
        metavar="RUN",
        help="run folder containing a content model trained by etads-content. Unless --choose is given, an "
        "extractor's content model chooses the sentences of summaries, and a summariser's content model chooses among "
        "hypotheses (default: the content model in the extractor's run folder or in RUN, if any; none: no content "
        "model)",
    )
    card = parser.add_argument_group("model card")
    card.add_argument("--title", help="title of the model card (default: the name of FOLDER)")
    card.add_argument("--license", default="", help="licence to state on the model card, such as mit or cc-by-4.0")
    card.add_argument("--language", default="", help="language of the texts, such as en")
    card.add_argument(
        "--scores",
        metavar="FILE",
        type=Path,
        help="ROUGE report written by etads-rouge --json, for the model card (default: RUN/rouge.json)",
    )
    others = {name: value for name, value in FOLDER_DEFAULTS.items() if name not in ("min_len", "max_len")}
    add_decoding_arguments(
        parser,
        "decoding defaults to store in the folder (if not given: --min-len and --max-len from the training summaries, "
        + ", ".join(f"{format_option_name(name)} {value}" for name, value in others.items())
        + ")",
        without=["shortlist"],
    )
    return parser


def _read_report(path: Path) -> Dict[str, Any]:
    """Read a report.json, which only the model card requires. If the file cannot be read, the result is empty."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _collect_model_card_fields(
    args: argparse.Namespace, source: RunFiles, extractor: Optional[SentencePickingSettings]
) -> ModelCardMetadata:
    record = RunRecord.read(args.run)
    scores = args.scores or args.run / "rouge.json"
    return ModelCardMetadata(
        title=" ".join((args.title or args.folder.resolve().name).split()),
        license=check_language_or_licence_code("--license", args.license),
        language=check_language_or_licence_code("--language", args.language),
        command=" ".join(record.command) if record is not None else "",
        scores=read_scores(scores) if args.scores or scores.is_file() else None,
        text_report=_read_report(args.run / "text" / "report.json"),
        prepared_report=_read_report(source.data.parent / "report.json"),
        picked_words=0 if extractor is None else extractor.words,
        has_content=source.content is not None,
    )


@command(_build_parser)
def main(args: argparse.Namespace) -> None:
    """Run the command ``etads-export``."""
    given = {name: value for name, value in vars(args).items() if name != "shortlist"}
    decoding = get_given_options(argparse.Namespace(**given))
    source = find_run_files(args.run, args.checkpoint, args.prepared, args.extractor, args.content)
    extractor = None
    if source.extractor is not None:
        advice = "name a run that etads-shorten has used to shorten the documents"
        extractor = SentencePickingSettings.read(source.extractor.extra_files[PICKING], advice)
    of_extractor = source.content is not None and CONTENT not in source.extra_files
    chooses = {} if source.content is None else {"choose": "content" if of_extractor else "hypothesis"}
    combine_options({**FOLDER_DEFAULTS, **chooses}, decoding)
    info = _collect_model_card_fields(args, source, extractor)
    if args.shortlist is not None:
        source = source._replace(extra_files={**source.extra_files, SHORTLIST: args.shortlist})
        decoding["shortlist"] = True
    logging.getLogger("fairseq_etads").setLevel(
        logging.WARNING
    )  # importing fairseq causes all loggers to show INFO messages
    from ..summarizer.folder.export import ExportedModel, export_folder

    def write_card(made: ExportedModel) -> str:
        source, target = made.task.source_dictionary, made.task.target_dictionary
        words = {"source": source.known_words, "target": target.known_words}
        return make_model_card(made.config, made.parameters, words, info)

    exported = export_folder(source, args.folder, decoding, args.dtype, write_card)
    size = sum(path.stat().st_size for path in args.folder.rglob("*"))
    print(f"{args.folder}: {exported.config.architecture}, {exported.parameters:,} parameters, {size / 1e6:.1f} MB")
    if source.extractor is not None and args.extractor is None:
        print(
            f"including the extractor of this run, {source.extractor.run}, so the model accepts documents of any length"
        )
    choice = exported.config.decoding.get("choose", "none")
    if choice != "none":
        what = "the sentences of summaries" if choice == "content" else "among the hypotheses in the beam"
        print(f"with the content model {source.content}, which chooses {what}; --choose none turns it off")
    chosen = {name: value for name, value in exported.config.decoding.items() if name not in decoding}
    by_texts = {
        name: value
        for name, value in chosen.items()
        if name not in ("beam", "choose") and value != FOLDER_DEFAULTS.get(name)
    }
    if by_texts:
        shown = " ".join(f"{format_option_name(name)} {value}" for name, value in by_texts.items())
        print(f"default lengths, from the training summaries: {shown}")


if __name__ == "__main__":
    sys.exit(main())
