"""The command ``etads-export``: create a model folder, which contains all files needed for summarisation."""

import argparse
import json
import logging
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Optional

from ..data.preparation import read_inference_preprocessing_options
from ..jobs.recipe_choice import read_decoding_options
from ..jobs.run_record import RunRecord, find_prepared_folder
from ..platform.console import Parser, command
from ..platform.errors import InputError
from ..search import call_options
from ..search.content.model import FILE as CONTENT
from ..summarizer.folder.config import DTYPES, SHORTLIST
from ..summarizer.folder.model_card import (
    ModelCardMetadata,
    check_language_or_licence_code,
    make_model_card,
    read_scores,
)
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
        type=Path,
        help="checkpoint to export (default: RUN/checkpoints/checkpoint_best.pt, or checkpoint_last.pt)",
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
    others = {name: value for name, value in call_options.DEFAULTS.items() if name not in ("min_len", "max_len")}
    call_options.add_decoding_arguments(
        parser,
        "decoding defaults to store in the folder (if not given: --min-len and --max-len from the training summaries, "
        + ", ".join(f"{call_options.format_option_name(name)} {value}" for name, value in others.items())
        + ")",
        without=["shortlist"],
    )
    return parser


def _find_checkpoint(args: argparse.Namespace) -> Path:
    if args.checkpoint is not None:
        if not args.checkpoint.is_file():
            raise InputError(f"--checkpoint {args.checkpoint}: no such file")
        return Path(args.checkpoint)
    if not args.run.is_dir():
        raise InputError(
            f"RUN {args.run}: no such folder; name the output folder of etads-train or scripts/quickstart.sh"
        )
    found = _find_best_checkpoint(args.run)
    if found is None:
        raise InputError(f"RUN {args.run}: no checkpoints/checkpoint_best.pt or checkpoint_last.pt; give --checkpoint")
    return found


def _find_best_checkpoint(run: Path) -> Optional[Path]:
    """Return the path of the best checkpoint of a run or, if it does not exist, of the last checkpoint."""
    paths = (run / "checkpoints" / f"checkpoint_{name}.pt" for name in ("best", "last"))
    return next(filter(Path.is_file, paths), None)


def _find_extractor_run(args: argparse.Namespace, prepared: Path) -> Optional[Path]:
    """Return the run folder of the extractor, or None if there is no extractor.

    This is the folder specified with --extractor or, by default, the run that was used to shorten the training text.
    """
    if args.extractor is not None:
        return None if args.extractor == "none" else Path(args.extractor)
    for folder in dict.fromkeys((args.run, prepared.parent)):
        for path in (folder / "shortened" / "extractor", folder / "extractor"):
            if (path / PICKING).is_file():
                return path
    return None


def _read_sentence_picking_settings(run: Path) -> SentencePickingSettings:
    """Read picking.json of an extractor. Raises InputError if the extractor was not used to shorten documents."""
    return SentencePickingSettings.read(
        run / PICKING, "name a run that etads-shorten has used to shorten the documents"
    )


def _find_content_model(args: argparse.Namespace, extractor: Optional[Path]) -> Optional[Path]:
    """Return the path of the content model, or None if there is no content model.

    The file is in the run folder specified with --content. By default, it is searched for in the extractor's run folder
    and in RUN.

    Raises:
        InputError: the file does not exist, or the content model requires an extractor but there is none.
    """
    if args.content == "none":
        return None
    if args.content is None:
        runs = [run for run in (extractor, args.run) if run is not None]
        path = next((run / CONTENT for run in runs if (run / CONTENT).is_file()), None)
        if path is None:
            return None
    else:
        path = Path(args.content) / CONTENT
    if not path.is_file():
        raise InputError(f"--content {args.content}: it has no {CONTENT}; create it with etads-content")
    if extractor is None and _needs_extractor_probabilities(path):
        raise InputError(
            f"{path}: this content model needs the extractor with which it was trained: name its run with --extractor, "
            "or leave the content model out with --content none"
        )
    return path


def _needs_extractor_probabilities(content: Path) -> bool:
    """Return whether a content model requires the probabilities of an extractor.

    Raises InputError if the file is damaged.
    """
    from ..search.content.model import ContentModel

    return ContentModel.load(content, f"create it with etads-content {content.parent}").of_extractor


def _collect_extractor_files(run: Path, content: Optional[Path], make: Callable[..., Any]) -> Any:
    """Collect the files to include in the extractor's folder.

    Args:
        run: path of the run folder of the extractor.
        content: path of the content model, or None.
        make: the class :class:`~fairseq_etads.summarizer.folder.export.ExportSource`. The caller passes this class so
            that this function does not have to import it.

    Raises:
        InputError: the run contains no checkpoint or no prepared data.
    """
    checkpoint, prepared = _find_best_checkpoint(run), find_prepared_folder(run, None)
    if checkpoint is None:
        raise InputError(f"--extractor {run}: no checkpoints/checkpoint_best.pt or checkpoint_last.pt in it")
    extra = {PICKING: run / PICKING, **({} if content is None else {CONTENT: content})}
    return make(checkpoint, prepared / "bin", read_inference_preprocessing_options(prepared), extra)


def _read_report(path: Path) -> Dict[str, Any]:
    """Read a report.json, which only the model card requires. If the file cannot be read, the result is empty."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _collect_model_card_fields(
    args: argparse.Namespace, prepared: Path, extractor: Optional[Path], content: Optional[Path]
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
        prepared_report=_read_report(prepared / "report.json"),
        picked_words=0 if extractor is None else _read_sentence_picking_settings(extractor).words,
        has_content=content is not None,
    )


def _get_longest_training_summary(report: Dict[str, Any]) -> Optional[int]:
    """Return the number of tokens in the longest training summary, or None if it is not in the report."""
    try:
        longest = report["lengths"]["train.target"]["max tokens"]
    except (KeyError, TypeError):
        return None
    return longest if type(longest) is int and longest > 0 else None


@command(_build_parser)
def main(args: argparse.Namespace) -> None:
    """Run the command ``etads-export``."""
    given = {name: value for name, value in vars(args).items() if name != "shortlist"}
    decoding = call_options.get_given_options(argparse.Namespace(**given))
    prepared = find_prepared_folder(args.run, args.prepared)
    checkpoint = _find_checkpoint(args)
    extractor_run = _find_extractor_run(args, prepared)
    content = _find_content_model(args, extractor_run)
    of_extractor = content is not None and _needs_extractor_probabilities(content)
    chooses = {} if content is None else {"choose": "content" if of_extractor else "hypothesis"}
    call_options.make_call_settings({**call_options.DEFAULTS, **chooses}, decoding)
    info = _collect_model_card_fields(args, prepared, extractor_run, content)
    text_options = read_inference_preprocessing_options(prepared)
    idf = prepared / "factors" / "idf.txt"
    logging.getLogger("fairseq_etads").setLevel(
        logging.WARNING
    )  # importing fairseq causes all loggers to show INFO messages
    from ..summarizer.folder.export import ExportedModel, ExportSource, export_folder

    def write_card(made: ExportedModel) -> str:
        source, target = made.task.source_dictionary, made.task.target_dictionary
        words = {"source": source.known_words, "target": target.known_words}
        return make_model_card(made.config, made.parameters, words, info)

    extra = {"idf.txt": idf} if idf.is_file() else {}
    if args.shortlist is not None:
        extra[SHORTLIST] = args.shortlist
        decoding["shortlist"] = True
    if content is not None and not of_extractor:
        extra[CONTENT] = content
    extractor = (
        None
        if extractor_run is None
        else _collect_extractor_files(extractor_run, content if of_extractor else None, ExportSource)
    )
    documents = prepared / "tokens" / "train.source"
    has_documents = documents.is_file()
    source = ExportSource(
        checkpoint, prepared / "bin", text_options, extra, extractor, documents if has_documents else None
    )
    by_recipe = {
        name: value for name, value in read_decoding_options(args.run).items() if name not in ("min_len", "max_len")
    }
    longest = _get_longest_training_summary(info.prepared_report)
    exported = export_folder(source, args.folder, {**by_recipe, **decoding}, args.dtype, write_card, longest)
    size = sum(path.stat().st_size for path in args.folder.rglob("*"))
    print(f"{args.folder}: {exported.config.architecture}, {exported.parameters:,} parameters, {size / 1e6:.1f} MB")
    if extractor_run is not None and args.extractor is None:
        print(f"including the extractor of this run, {extractor_run}, so the model accepts documents of any length")
    choice = exported.config.decoding.get("choose", "none")
    if choice != "none":
        what = "the sentences of summaries" if choice == "content" else "among the hypotheses in the beam"
        print(f"with the content model {content}, which chooses {what}; --choose none turns it off")
    chosen = {name: value for name, value in exported.config.decoding.items() if name not in decoding}
    by_texts = {
        name: value
        for name, value in chosen.items()
        if name not in ("beam", "choose") and value != call_options.DEFAULTS.get(name)
    }
    if by_texts:
        shown = " ".join(f"{call_options.format_option_name(name)} {value}" for name, value in by_texts.items())
        print(f"default lengths, from the training summaries: {shown}")


if __name__ == "__main__":
    sys.exit(main())
