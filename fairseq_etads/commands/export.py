"""The command ``etads-export``: a trained model and all that summarising needs, as a folder that others can load.

It stands here, beside ``etads-prepare``, because it reads what that one has written.
"""

import argparse
import json
import logging
import sys
from pathlib import Path
from typing import Any, Dict, Optional

from ..data.preparation import prepared_options
from ..jobs.run_record import RunRecord, prepared_of
from ..platform.console import Parser, command
from ..platform.errors import InputError
from ..search import call_options
from ..summarizer.folder.card import CardInfo, check_code, model_card, read_scores
from ..summarizer.folder.config import DTYPES, SHORTLIST

EXAMPLES = """\
examples:
  etads-export runs/quickstart model
  etads-export runs/mine model --shortlist runs/mine/prepared/bin/shortlist.safetensors --infer-dtype int8
  etads-export runs/mine model --checkpoint runs/mine/average.pt --beam 4 --min-len 35 --lenpen 0.9 --license mit

The folder is then all that is needed:

  etads-summarize model new-documents.txt
"""


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-export",
        description="Make a model folder: weights (safetensors), settings (JSON), dictionaries, the subword model and "
        "a model card. Loading it runs no code from the folder, so that it can be given to others.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("run", metavar="RUN", type=Path, help="what scripts/train.sh or scripts/quickstart.sh made")
    add("folder", metavar="FOLDER", type=Path, help="the folder to make; must not exist, or be empty")
    add(
        "--checkpoint",
        metavar="FILE",
        type=Path,
        help="default: RUN/checkpoints/checkpoint_best.pt, or checkpoint_last.pt",
    )
    add("--prepared", metavar="DIR", type=Path, help="the prepared data (default: those of the training)")
    add(
        "--dtype",
        choices=DTYPES,
        default="fp32",
        help="how weights are stored; fp16 takes half the room (default: fp32)",
    )
    add("--shortlist", metavar="FILE", type=Path, help="decode with this shortlist, which etads-shortlist makes")
    card = parser.add_argument_group("model card")
    card.add_argument("--title", help="default: the name of FOLDER")
    card.add_argument("--license", default="", help="such as mit or cc-by-4.0")
    card.add_argument("--language", default="", help="of the texts, such as en")
    card.add_argument(
        "--scores", metavar="FILE", type=Path, help="what etads-rouge --json wrote (default: RUN/rouge.json)"
    )
    others = {name: value for name, value in call_options.DEFAULTS.items() if name != "max_len"}
    call_options.add_arguments(
        parser,
        "defaults of decoding, which the folder remembers (where not given: --max-len is the length of the longest "
        "summary in training, "
        + ", ".join(f"{call_options.flag(name)} {value}" for name, value in others.items())
        + ")",
        without=["shortlist"],
    )
    return parser


def _checkpoint(args: argparse.Namespace) -> Path:
    if args.checkpoint is not None:
        if not args.checkpoint.is_file():
            raise InputError(f"--checkpoint {args.checkpoint}: no such file")
        return Path(args.checkpoint)
    if not args.run.is_dir():
        raise InputError(f"RUN {args.run}: no such folder; name what scripts/train.sh or scripts/quickstart.sh made")
    for name in ("best", "last"):
        path = Path(args.run / "checkpoints" / f"checkpoint_{name}.pt")
        if path.is_file():
            return path
    raise InputError(f"RUN {args.run}: no checkpoints/checkpoint_best.pt or checkpoint_last.pt; give --checkpoint")


def _report(path: Path) -> Dict[str, Any]:
    """A report.json; empty if there is none that can be read, for it only adorns the card."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _card_info(args: argparse.Namespace, prepared: Path) -> CardInfo:
    record = RunRecord.read(args.run)
    scores = args.scores or args.run / "rouge.json"
    return CardInfo(
        title=" ".join((args.title or args.folder.resolve().name).split()),
        license=check_code("--license", args.license),
        language=check_code("--language", args.language),
        command=" ".join(record.command) if record is not None else "",
        scores=read_scores(scores) if args.scores or scores.is_file() else None,
        text_report=_report(args.run / "text" / "report.json"),
        prepared_report=_report(prepared / "report.json"),
    )


def _longest_target(report: Dict[str, Any]) -> Optional[int]:
    """The tokens of the longest summary of the training data; None if the report does not say."""
    try:
        longest = report["lengths"]["train.target"]["max tokens"]
    except (KeyError, TypeError):
        return None
    return longest if type(longest) is int and longest > 0 else None


@command(_parser)
def main(args: argparse.Namespace) -> None:
    """Run ``etads-export``."""
    given = {name: value for name, value in vars(args).items() if name != "shortlist"}
    decoding = call_options.given_on(argparse.Namespace(**given))
    call_options.call_settings(call_options.DEFAULTS, decoding)
    prepared = prepared_of(args.run, args.prepared)
    checkpoint = _checkpoint(args)
    info = _card_info(args, prepared)
    text_options = prepared_options(prepared)
    idf = prepared / "factors" / "idf.txt"
    logging.getLogger("fairseq_etads").setLevel(logging.WARNING)  # fairseq shows the INFO of all modules
    from ..summarizer.folder.export import Exported, Source, export
    from ..vocabulary.dictionary import known_words

    def write_card(made: Exported) -> str:
        words = {"source": known_words(made.task.source_dictionary), "target": known_words(made.task.target_dictionary)}
        return model_card(made.config, made.parameters, words, info)

    extra = {"idf.txt": idf} if idf.is_file() else {}
    if args.shortlist is not None:
        extra[SHORTLIST] = args.shortlist
        decoding["shortlist"] = True
    source = Source(checkpoint, prepared / "bin", text_options, extra)
    exported = export(source, args.folder, decoding, args.dtype, write_card, _longest_target(info.prepared_report))
    size = sum(path.stat().st_size for path in args.folder.iterdir())
    print(f"{args.folder}: {exported.config.architecture}, {exported.parameters:,} parameters, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    sys.exit(main())
