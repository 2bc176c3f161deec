"""The command ``etads-rouge`` (evaluate): compute ROUGE with confidence intervals."""

import itertools
import json
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence

import numpy as np

from ..evaluation import other_scores
from ..evaluation.analysis import make_baseline_extract
from ..evaluation.other_scores import ScoreOptions
from ..evaluation.resampling import compare_pairs, correct_p_values
from ..evaluation.rouge import FIGURES, RESAMPLES, RougeSettings, align_columns, format_interval
from ..files.outputs import check_output_paths, write_json, write_text
from ..platform.command_options import NOT_NEGATIVE, SIZE, argument, option, options_command
from . import shared_options
from .shared_options import ScoringOptions


def write_scores_per_example(
    path: str, scores: np.ndarray, metrics: Sequence[str], heads: Sequence[str], figures: np.ndarray
) -> None:
    """Write the scores of each example as JSON Lines or, if the file name ends in .tsv, as a tab-separated table.

    ``scores`` contains F1, precision and recall of each ROUGE metric, shape (n, metrics, 3), in [0, 100], and
    ``figures`` all other scores, shape (n, heads).
    """
    lines = []
    if path.endswith(".tsv"):
        lines.append("\t".join(["line", *(f"{metric}_{figure}" for metric in metrics for figure in FIGURES), *heads]))
    for number, (rows, others) in enumerate(zip(scores.round(4).tolist(), figures.round(4).tolist()), 1):
        if path.endswith(".tsv"):
            lines.append("\t".join([str(number), *(f"{value:.4f}" for value in [*itertools.chain(*rows), *others])]))
        else:
            values = {metric: dict(zip(FIGURES, row)) for metric, row in zip(metrics, rows)}
            lines.append(json.dumps({"line": number, **values, **dict(zip(heads, others))}))
    write_text(path, "\n".join(lines) + "\n")


@dataclass
class RougeOptions(ScoringOptions, ScoreOptions):
    """Options of ``etads-rouge``."""

    hypothesis: str = argument(
        "HYP", "file containing the system's summaries, one per line; with --system, another REF"
    )
    references: List[str] = argument("REF", "file containing the reference summaries, one per line", nargs="*")
    system: List[str] = option(
        [],
        "score the summaries of several systems instead of HYP, and test each against the first; may be repeated",
        metavar="NAME=FILE",
        excludes=dict.fromkeys(("--duc75", "--also", "--per-example", "--lead-words", "--show"), ""),
    )
    duc75: bool = option(
        False, "compute scores as in DUC-2004 (--bytes 75 --multi average), with a confidence interval for recall"
    )
    bootstrap: int = option(RESAMPLES, "number of bootstrap resamples; 0: no intervals", bounds=NOT_NEGATIVE)
    documents: Optional[str] = option(None, "file containing the documents, one per line", metavar="FILE")
    source_column: str = option(
        "", "column of --documents, if it is a table (default: by its name)", metavar="NAME", needs=("--documents",)
    )
    lead_words: Optional[int] = option(
        None, "also score the first N words of each line of --documents", bounds=SIZE, needs=("--documents",)
    )
    show: int = option(0, "also print the first N documents, references and summaries", bounds=NOT_NEGATIVE)
    per_example: Optional[str] = option(
        None,
        "also write the scores of each summary to FILE (.jsonl or .tsv)",
        metavar="FILE",
        parse=shared_options.parse_file_name(".jsonl", ".tsv"),
    )
    format: str = option("table", "output format of the scores", choices=("table", "json"))


def score_systems(
    files: Mapping[str, str], references: Sequence[str], settings: RougeSettings, args: RougeOptions
) -> Dict[str, Any]:
    """Score the summaries of several systems, given their files by name, and compare each with the first.

    The report consists of JSON types. Its p-values are from paired approximate randomisation, corrected by Holm's
    method for all systems and metrics.
    """
    names = [*files.values(), *references]
    texts = shared_options.read_summaries(names, args.target_column)
    shared_options.print_text_warnings("etads-rouge", args, settings, names, texts, len(files))
    outputs, wanted = texts[: len(files)], texts[len(files) :]
    scores, reports = zip(*(shared_options.score_summaries(args, lines, wanted, settings) for lines in outputs))
    f1 = [each[:, :, 0] for each in scores]
    tests = [compare_pairs(each, f1[0], args.bootstrap, args.seed) for each in f1[1:] if args.bootstrap]
    found = np.array([test["p_randomisation"] for test in tests])  # (systems - 1, metrics)
    p_values = correct_p_values(found.reshape(-1).tolist()).reshape(found.shape).tolist() if tests else []
    return {
        "systems": {
            name: {"file": file, **report.to_dict(), "p": dict(zip(settings.metrics, p)) if p else None}
            for (name, file), report, p in zip(files.items(), reports, [None, *p_values])
        },
        "reference_files": list(references),
        "tests": f"approximate-randomisation against {next(iter(files))}|holm:{found.size}|resamples:{args.bootstrap}",
    }


def format_systems(report: Dict[str, Any], settings: RougeSettings) -> str:
    """Format the report of :func:`score_systems` as a table with a row for each system."""
    rows = []
    for name, system in report["systems"].items():
        row = [name]
        for metric in settings.metrics:
            score, p = system["scores"][metric], system["p"]
            row += [f"{score['f1']:.2f}", format_interval(score["f1_interval"]), f"{p[metric]:.4f}" if p else "-"]
        rows.append(row)
    heads = [head for metric in settings.metrics for head in (f"R-{metric[5:]}", "95 % interval", "p")]
    signature = next(iter(report["systems"].values()))["signature"]
    return "\n".join([align_columns(["system", *heads], rows), "", signature, report["tests"]])


def _print_report(report: Dict[str, Any], text: str, args: RougeOptions) -> None:
    """Print a report as text or as JSON, and write it to --json."""
    print(json.dumps(report, indent=2) if args.format == "json" else text)
    if args.json:
        write_json(args.json, report)


@options_command(
    "etads-rouge",
    RougeOptions,
    ValueError,
    RuntimeError,
    description="Compute ROUGE-1, ROUGE-2 and summary-level ROUGE-L with 95 % confidence intervals.",
    epilog="""\
examples:
  etads-rouge output.txt test.target
  etads-rouge output.txt reference1.txt reference2.txt --json scores.json
  etads-rouge headlines.txt task1_ref*.txt --duc75
  etads-rouge 'decoded/*.dec' 'reference/*.ref'                   a summary in each file, a sentence in each line
  etads-rouge test.target --system basic=basic.txt --system etads=etads.txt
  etads-rouge output.txt test.target --documents test.source --lead-words 8 --show 3

  HYP contains the system's summaries. Line i of each file belongs to the same document. With several reference files,
  each summary is scored against the reference with the highest F1, separately for each metric. The mark <q> separates
  sentences, as in "First sentence . <q> second one .", on which only ROUGE-L depends. A line without a mark is split
  wherever ".", "!" or "?" is followed by white space, also after abbreviations. Publish the signature together with the
  scores, because it names everything on which they depend. Use - as a file name to read standard input. Files may be
  compressed (.gz, .xz, .bz2, .zst), and may be tables: JSON lines, CSV, TSV or Parquet.""",
)
def main(args: RougeOptions) -> None:
    """Run the command ``etads-rouge``."""
    if args.duc75:
        if args.bytes not in (None, 75):
            raise ValueError(f"--duc75 and --bytes {args.bytes} cannot be combined")
        args.bytes, args.multi = 75, args.multi or "average"
    systems = shared_options.parse_named_files(args.system)
    if not systems and not args.references:
        raise ValueError("the following arguments are required: REF")
    inputs: Dict[str, Any] = {"HYP": args.hypothesis, "REF": args.references, "--system": systems.values()}
    inputs.update({"--documents": args.documents, **other_scores.list_score_inputs(args)})
    outputs = {"--per-example": args.per_example, "--json": args.json}
    check_output_paths(outputs, inputs)
    settings = shared_options.make_rouge_settings(args)
    other_scores.check_score_options(args)
    if systems:
        found = score_systems(systems, [args.hypothesis, *args.references], settings, args)
        _print_report(found, format_systems(found, settings), args)
        return
    names = [args.hypothesis, *args.references]
    texts = shared_options.read_summaries(names, args.target_column, args.documents, args.source_column)
    documents = texts.pop() if args.documents else []
    shared_options.print_text_warnings("etads-rouge", args, settings, names, texts, 1)
    others = shared_options.load_scorers(args)
    scores, report = shared_options.score_summaries(args, texts[0], texts[1:], settings)
    heads, figures, signatures = other_scores.compute_scores(others, texts[0], texts[1:], settings)
    if args.per_example:
        write_scores_per_example(args.per_example, scores, settings.metrics, heads, figures)
    baseline = None
    if args.lead_words is not None:
        extracts = [make_baseline_extract("lead-words", args.lead_words, text, [], settings) for text in documents]
        leads = [shared_options.join_extract(sentences, settings) for sentences in extracts]
        _, baseline = shared_options.score_summaries(args, leads, texts[1:], settings)
    also = other_scores.make_score_report(heads, figures, signatures, args.bootstrap, args.seed) if others else None
    files = {"hypothesis_file": names[0], "reference_files": names[1:]}
    more = {**({"also": also} if also else {}), **({"lead": baseline.to_dict()} if baseline else {})}
    heading = "\n".join([f"hypothesis: {names[0]}", *(f"reference:  {name}" for name in names[1:])])
    table = report.format_table("recall" if args.duc75 else "f1")
    table += f"\n\n{other_scores.format_table(also)}" if also else ""
    if baseline:
        table += f"\n\nhypothesis: first {args.lead_words} words of {args.documents}\n\n{baseline.format_table()}"
    shown = {**({"document": documents} if documents else {}), "reference": texts[1], "summary": texts[0]}
    for example in list(zip(*shown.values()))[: args.show]:
        table += "\n" + "".join(f"\n{name:<9}  {text[:300]}" for name, text in zip(shown, example))
    _print_report({**files, **report.to_dict(), **more}, f"{heading}\n\n{table}", args)
