"""The command ``etads-export`` (use a trained model): write a model folder from a training run."""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Optional

from ..data.labels import PICKING, SentencePickingSettings
from ..data.run_record import RunRecord
from ..files.inputs import read_json
from ..platform.command_options import UserDirOption, argument, format_option_name, option, options_command
from ..search.content_model import FILE as CONTENT
from ..search.options import FOLDER_DEFAULTS, combine_options, decoding_options
from ..summarizer.folder.config import DTYPES, SHORTLIST
from ..summarizer.folder.model_card import ModelCardMetadata, check_language_or_licence_code, read_scores
from ..summarizer.folder.run_files import RunFiles, find_run_files
from .shared_options import prepared_option

EXAMPLES = """\
examples:
  etads-export runs/quickstart model
  etads-export runs/mine model --shortlist runs/mine/prepared/bin/shortlist.safetensors --infer-dtype int8
  etads-export runs/mine model --extractor runs/long/extractor
  etads-export runs/mine model --checkpoint runs/mine/average.pt --beam 4 --min-len 35 --lenpen 0.9 --license mit

Summarising then needs only the folder:

  etads-summarize model new-documents.txt
"""


_card_option = functools.partial(option, group="model card")


@dataclass
class ExportOptions(UserDirOption):
    """Options of ``etads-export``."""

    run: Path = argument("RUN", "run folder created by etads-train")
    folder: Path = argument("FOLDER", "output folder, which must be empty or must not exist yet")
    checkpoint: Optional[str] = option(
        None, "checkpoint to export: a file, best or last (default: the best one, or else the last one)", metavar="FILE"
    )
    prepared: Optional[Path] = prepared_option("the folder used for training")
    dtype: str = option(
        "fp32", "data type of the stored weights; fp16 halves their size (default: fp32)", choices=DTYPES
    )
    shortlist: Optional[Path] = option(None, "file containing a decoding shortlist, written by etads-shortlist")
    extractor: Optional[str] = option(
        None,
        "run folder of the sentence extractor that shortened the training documents (etads-train --long "
        "or etads-shorten); the exported model then shortens long documents with this extractor "
        "(default: the extractor in RUN or next to its prepared data, if any; none: no extractor)",
        metavar="RUN",
    )
    content: Optional[str] = option(
        None,
        "run folder containing a content model trained by etads-content. Unless --choose is given, an "
        "extractor's content model chooses the sentences of summaries, and a summariser's content model chooses among "
        "hypotheses (default: the content model in the extractor's run folder or in RUN, if any; none: no content "
        "model)",
        metavar="RUN",
    )
    title: Optional[str] = _card_option(None, "title of the model card (default: the name of FOLDER)", metavar="TITLE")
    license: str = _card_option("", "licence to state on the model card, such as mit or cc-by-4.0", metavar="LICENSE")
    language: str = _card_option("", "language of the texts, such as en", metavar="LANGUAGE")
    scores: Optional[Path] = _card_option(
        None, "ROUGE report written by etads-rouge --json, for the model card (default: RUN/rouge.json)"
    )
    decoding: Dict[str, Any] = decoding_options(
        "decoding defaults to store in the folder (if not given: --min-len and --max-len from the training summaries, "
        + ", ".join(
            f"{format_option_name(name)} {value}"
            for name, value in FOLDER_DEFAULTS.items()
            if name not in ("min_len", "max_len")
        )
        + ")",
        without=("shortlist",),
    )


def _collect_model_card_fields(
    args: ExportOptions, source: RunFiles, extractor: Optional[SentencePickingSettings]
) -> ModelCardMetadata:
    def read_report(path: Path) -> Dict[str, Any]:
        return dict(read_json(path, "delete it")) if path.is_file() else {}

    record = RunRecord.read(args.run)
    scores = args.scores or args.run / "rouge.json"
    return ModelCardMetadata(
        title=" ".join((args.title or args.folder.resolve().name).split()),
        license=check_language_or_licence_code("--license", args.license),
        language=check_language_or_licence_code("--language", args.language),
        command=" ".join(record.command) if record is not None else "",
        scores=read_scores(scores) if args.scores or scores.is_file() else None,
        text_report=read_report(args.run / "text" / "report.json"),
        prepared_report=read_report(source.data.parent / "report.json"),
        picked_words=0 if extractor is None else extractor.words,
        has_content=source.content is not None,
    )


@options_command(
    "etads-export",
    ExportOptions,
    description="Export a trained model to a model folder, which contains the weights (safetensors), the settings "
    "(JSON), the dictionaries, the subword model and a model card. Model folders are safe to share, because no "
    "code from a folder is run when it is loaded.",
    epilog=EXAMPLES,
)
def main(args: ExportOptions) -> None:
    """Run the command ``etads-export``."""
    decoding = args.decoding
    source = find_run_files(args.run, args.checkpoint, args.prepared, args.extractor, args.content)
    extractor = None
    if source.extractor is not None:
        advice = "name a run that etads-shorten has used to shorten the documents"
        extractor = SentencePickingSettings.read(source.extractor.extra_files[PICKING], advice)
    of_extractor = source.content is not None and CONTENT not in source.extra_files
    of_content = "extract" if source.extracts else "content" if of_extractor else "hypothesis"
    chooses = {} if source.content is None else {"choose": of_content}
    combine_options({**FOLDER_DEFAULTS, **chooses}, decoding)
    info = _collect_model_card_fields(args, source, extractor)
    if args.shortlist is not None:
        source = source._replace(extra_files={**source.extra_files, SHORTLIST: args.shortlist})
        decoding["shortlist"] = True
    from ..summarizer.folder.export import export_folder

    config, parameters = export_folder(source, args.folder, decoding, args.dtype, info)
    size = sum(path.stat().st_size for path in args.folder.rglob("*"))
    print(f"{args.folder}: {config.architecture}, {parameters:,} parameters, {size / 1e6:.1f} MB")
    if source.extractor is not None and args.extractor is None and not source.extracts:
        extractor_run = source.extractor.run
        print(f"including the extractor of this run, {extractor_run}, so the model accepts documents of any length")
    choice = config.decoding.get("choose", "none")
    if choice != "none":
        what = "among the hypotheses in the beam" if choice == "hypothesis" else "the sentences of summaries"
        off = "" if source.extracts else "; --choose none turns it off"
        print(f"with the content model {source.content}, which chooses {what}{off}")
    shown = " ".join(
        f"{format_option_name(name)} {value}"
        for name, value in config.decoding.items()
        if name not in decoding and name not in ("beam", "choose") and value != FOLDER_DEFAULTS.get(name)
    )
    if shown:
        print(f"default lengths, from the training summaries: {shown}")
