"""The command ``etads-analyse`` (evaluate): analyse the novelty, repetition and lengths of summaries."""

import json
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

from tabulate import tabulate
from tqdm import tqdm

from ..evaluation.analysis import (
    NGRAM_ORDERS,
    PLOT_SUFFIXES,
    TENTHS,
    WORD_SPLITTERS,
    analyse_systems,
    check_matplotlib,
    draw_summary_analysis,
    make_baseline_extract,
)
from ..evaluation.summaries import split_summary_into_sentences
from ..files.outputs import check_output_paths, write_json
from ..platform.command_options import SIZE, option, options_command
from ..version import get_version
from . import shared_options
from .shared_options import ScoringOptions, SystemsOptions

TABULATE_FORMATS = {"markdown": "pipe", "latex": "latex_booktabs"}
REFERENCE = "reference"
"""Name under which the report lists the summaries in the first reference file, which are analysed like a system."""
COLUMN_HEADINGS = {
    "words": "words",
    "sentences": "sent.",
    "copy rate": "copied",
    **{f"novel {n}-grams": f"new {n}" for n in NGRAM_ORDERS},
    "novel sentences": "new sent.",
    **{f"repeated {n}-grams": f"rep. {n}" for n in NGRAM_ORDERS},
    "new numbers": "new numbers",
    "new names": "new names",
    "joined": "joined",
}
"""Dictionary that maps the names of statistics to their column headings in the table."""


@dataclass
class AnalyseOptions(ScoringOptions, SystemsOptions):
    """Options of ``etads-analyse``."""

    reference: List[str] = option(
        None,
        "file containing the reference summaries, one per line; give one file for each set of references",
        metavar="FILE",
        nargs="+",
        required=True,
    )
    system: List[str] = option(
        [], "name of a system and path of its summaries, one per line; may be repeated", metavar="NAME=FILE"
    )
    lead: List[int] = option(
        [], "add a baseline system that returns the first N sentences of each document; may be repeated", bounds=SIZE
    )
    lead_words: List[int] = option(
        [], "add a baseline system that returns the first N words of each document; may be repeated", bounds=SIZE
    )
    oracle: Optional[int] = option(
        None, "add an oracle that extracts at most N sentences of each document, greedily by ROUGE", bounds=SIZE
    )
    words: str = option(
        "words", "rules for splitting text into words for all statistics except ROUGE", choices=list(WORD_SPLITTERS)
    )
    format: str = option("markdown", "output format of the tables", choices=(*TABULATE_FORMATS, "json"))
    plot: Optional[str] = option(
        None,
        "output file for the plots; the file name must end in " + " or ".join(PLOT_SUFFIXES),
        metavar="FILE",
        parse=shared_options.parse_file_name(*PLOT_SUFFIXES),
    )


def analyse_files(args: AnalyseOptions) -> Dict[str, Any]:
    """Analyse the summaries of all systems, and return the report as a dictionary of JSON types."""
    settings = shared_options.make_rouge_settings(args)
    files = shared_options.parse_named_files(args.system, REFERENCE)
    names = [*args.reference, *files.values()]
    *texts, sources = shared_options.read_summaries(names, args.target_column, args.source, args.source_column)
    references, outputs = texts[: len(args.reference)], dict(zip(files, texts[len(args.reference) :]))
    shared_options.print_text_warnings("etads-analyse", args, settings, names, texts)
    mark = settings.sentence_mark
    systems = {
        name: [split_summary_into_sentences(line, mark, settings.split_sentences) for line in lines]
        for name, lines in {REFERENCE: references[0], **outputs}.items()
    }
    baselines = {f"lead-{n}": ("lead", n) for n in args.lead}
    baselines.update({f"lead-{n}-words": ("lead-words", n) for n in args.lead_words})
    if args.oracle is not None:
        baselines["oracle"] = ("oracle", args.oracle)
    for name, (kind, limit) in baselines.items():
        if name in systems:
            raise ValueError(f'--system "{name}=…": the name {name} is already used')
        extracts = systems[name] = [
            make_baseline_extract(kind, limit, document, several, settings)
            for document, *several in tqdm([*zip(sources, *references)], name, unit=" documents", disable=None)
        ]
        outputs[name] = [shared_options.join_extract(sentences, settings) for sentences in extracts]
    score = shared_options.score_summaries
    scores = {name: score(args, lines, references, settings)[1] for name, lines in outputs.items()}
    progress = tqdm(sources, desc="n-grams", unit=" documents", disable=None)
    analyses = analyse_systems(progress, systems, WORD_SPLITTERS[args.words], mark)
    report = {
        name: {
            "file": files.get(name, args.reference[0] if name == REFERENCE else None),
            "rouge": scores[name].to_dict() if name in scores else None,
            **vars(analysis),
        }
        for name, analysis in analyses.items()
    }
    signature = f"ANALYSIS|words:{args.words}|n:{len(sources)}|v:{get_version()}"
    return {"systems": report, "metrics": list(settings.metrics), "signature": signature}


def _format_tables(report: Dict[str, Any], form: str) -> Tuple[str, str]:
    """Format a table of the results of all systems, and one of the document positions of copied bigrams."""
    metrics = report["metrics"]
    rows, positions = [], []
    for name, system in report["systems"].items():
        shown = name.replace("|", "\\|") if form == "pipe" else name
        rouge = system["rouge"]["scores"] if system["rouge"] else {}
        figures = [rouge[m]["f1"] if m in rouge else None for m in metrics]
        rows.append([shown, *figures, *(system["figures"][figure] for figure in COLUMN_HEADINGS)])
        positions.append([shown, *system["positions"]])
    heads = ["system", *(f"R-{metric[5:]}" for metric in metrics), *COLUMN_HEADINGS.values()]
    tenths = ["copied bigrams from tenth", *(str(tenth) for tenth in range(1, TENTHS + 1))]
    return (
        tabulate(rows, heads, tablefmt=form, floatfmt=".2f", missingval="-"),
        tabulate(positions, tenths, tablefmt=form, floatfmt=".1f"),
    )


@options_command(
    "etads-analyse",
    AnalyseOptions,
    ValueError,
    description="Analyse the summaries of one or more systems. The report contains ROUGE scores, the percentages "
    "of copied words, of new and repeated n-grams, and of sentences with new numbers or names, or from several places "
    "of the document.",
    epilog="""\
example:
  etads-analyse --source test.source --reference test.target --system etads=etads.txt --system basic=basic.txt \\
      --lead 3 --oracle 3 --plot systems.svg

  The page etads docs evaluation describes the columns. Use - as FILE to read standard input. Files may be compressed
  (.gz, .xz, .bz2, .zst).""",
)
def main(args: AnalyseOptions) -> None:
    """Run the command ``etads-analyse``."""
    systems = shared_options.parse_named_files(args.system).values()
    inputs = {"--source": args.source, "--reference": args.reference, "--system": systems}
    check_output_paths({"--json": args.json, "--plot": args.plot}, inputs)
    if args.plot:
        check_matplotlib("--plot")
    report = analyse_files(args)
    if args.format == "json":
        print(json.dumps(report, indent=2))
    else:
        print("\n\n".join(_format_tables(report, TABULATE_FORMATS[args.format])))
        signatures = {system["rouge"]["signature"] for system in report["systems"].values() if system["rouge"]}
        print("\n" + "\n".join([*sorted(signatures), report["signature"]]))
    if args.json:
        write_json(args.json, report)
    if args.plot:
        draw_summary_analysis(report["systems"], args.plot)
