"""The command ``etads-correlate`` (evaluate): compare ROUGE with people's ratings of the same summaries."""

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import numpy as np

from ..evaluation.rouge import FIGURES, align_columns, format_interval, score_pairs
from ..files import inputs
from ..files.outputs import check_output_paths, write_json
from ..platform.command_options import argument, option, options_command
from ..version import get_version
from .shared_options import ScoringOptions, make_rouge_settings, print_text_warnings


@dataclass
class CorrelateOptions(ScoringOptions):
    """Options of ``etads-correlate``."""

    file: str = argument("FILE", "JSON lines, one document per line")
    ratings: str = option("human", "key of the ratings in each line", metavar="KEY")
    figure: str = option("f1", "value of each metric to correlate", choices=tuple(FIGURES))


def compute_pearson(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Compute Pearson's r along the last axis. It is NaN if all values of one side are equal."""
    x, y = (values - values.mean(-1, keepdims=True) for values in (first, second))
    with np.errstate(invalid="ignore", divide="ignore"):
        r: np.ndarray = (x * y).sum(-1) / np.sqrt((x**2).sum(-1) * (y**2).sum(-1))
    return r


def compute_spearman(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Compute Spearman's rho along the last axis: Pearson's r of the ranks."""
    from scipy.stats import rankdata  # imported here, because this takes a second

    return compute_pearson(rankdata(first, axis=-1), rankdata(second, axis=-1))


def compute_kendall(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Compute Kendall's tau-b along the last axis, which allows for equal values (Kendall 1945)."""
    x, y = (np.sign(values[..., :, None] - values[..., None, :]) for values in (first, second))
    return compute_pearson(*(signs.reshape(*signs.shape[:-2], -1) for signs in (x, y)))


CORRELATIONS: Dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "pearson": compute_pearson,
    "spearman": compute_spearman,
    "kendall": compute_kendall,
}


def correlate(scores: np.ndarray, ratings: np.ndarray, resamples: int, seed: int) -> Dict[str, Dict[str, Tuple]]:
    """Correlate the scores and ratings (documents, systems) of summaries, with 95 % bootstrap intervals over documents.

    Returns, for each name in :data:`CORRELATIONS`, a dictionary with "summary", the mean over the documents of the
    correlation between the systems' summaries (documents with equal scores or ratings are left out), and "system", the
    correlation between the systems' means. Each is a tuple (value, lower bound, upper bound).
    """
    draws = np.random.default_rng(seed).integers(len(scores), size=(resamples, len(scores)))
    found: Dict[str, Dict[str, Tuple]] = {}
    for name, compute in CORRELATIONS.items():
        within = compute(scores, ratings)
        of_systems = compute(scores.mean(0), ratings.mean(0)), compute(scores[draws].mean(1), ratings[draws].mean(1))
        levels = {"summary": (np.nanmean(within), np.nanmean(within[draws], axis=1)), "system": of_systems}
        found[name] = {
            level: (float(value), *np.nanpercentile(sample, [2.5, 97.5]).tolist())
            for level, (value, sample) in levels.items()
        }
    return found


def _read_rows(args: CorrelateOptions) -> List[Dict[str, Any]]:
    """Read the lines of the file. Raises ValueError if one has no references, or other systems or scales."""
    rows: List[Dict[str, Any]] = []
    for number, line in enumerate(inputs.read_lines(Path(args.file)), 1):
        where = f"{args.file}, line {number}"
        try:
            row = json.loads(line)
            references = row["references"] if "references" in row else [row["reference"]]
            texts = {name: str(row["systems"][name]) for name in sorted(row["systems"])}
            scales = sorted(next(iter(row[args.ratings].values())))
            ratings = [[float(row[args.ratings][name][scale]) for scale in scales] for name in texts]
        except (ValueError, TypeError, KeyError, AttributeError, StopIteration) as error:
            raise ValueError(
                f'{where}: must have "systems" (texts by name), "references" (texts) and "{args.ratings}" (numbers by '
                f"name and scale): {type(error).__name__} {error}"
            ) from None
        rows.append({"texts": texts, "references": references, "ratings": ratings, "scales": scales})
        kinds = [(list(each["texts"]), each["scales"], len(each["references"])) for each in (rows[0], rows[-1])]
        if kinds[0] != kinds[1] or not references:
            raise ValueError(f"{where}: its systems, scales or number of references differ from those of line 1")
    if len(rows) < 2 or len(rows[0]["texts"]) < 3:
        raise ValueError(f"{args.file}: correlations need two documents and three systems, or more")
    return rows


@options_command(
    "etads-correlate",
    CorrelateOptions,
    ValueError,
    RuntimeError,
    description="Correlate ROUGE with people's ratings of the same summaries, with 95 % bootstrap intervals over the "
    "documents.",
    epilog="""\
example:
  etads-correlate summeval.jsonl

  Each line of FILE belongs to a document: {"references": [text, ...], "systems": {"A": text, ...}, "human": {"A":
  {"coherence": 3.7, ...}, ...}}. Without --multi, a summary's score is the mean over its references. "summary" is the
  correlation between the systems' summaries of one document, averaged over the documents; "system" is the correlation
  between the means of the systems. Kendall's tau is tau-b.""",
)
def main(args: CorrelateOptions) -> None:
    """Run the command ``etads-correlate``."""
    if args.target_column:
        raise ValueError(f"--target-column {args.target_column} has no effect: FILE has texts of several systems")
    check_output_paths({"--json": args.json}, {"FILE": args.file})
    rows, settings = _read_rows(args), make_rouge_settings(args)
    names, scales = list(rows[0]["texts"]), rows[0]["scales"]
    texts = [text for row in rows for text in row["texts"].values()]
    print_text_warnings("etads-correlate", args, settings, [args.file], [texts])
    references = [[row["references"][k] for row in rows for _ in names] for k in range(len(rows[0]["references"]))]
    # without --multi, a summary's score is the mean over its references
    sets = [references] if args.multi else [[each] for each in references]
    every = np.mean([score_pairs(texts, each, settings, args.jobs, progress=True) for each in sets], axis=0)
    scores = every[:, :, list(FIGURES).index(args.figure)].reshape(len(rows), len(names), -1)
    ratings = np.array([row["ratings"] for row in rows])
    found = {
        metric: {
            scale: correlate(scores[:, :, m], ratings[:, :, s], args.bootstrap, args.seed)
            for s, scale in enumerate(scales)
        }
        for m, metric in enumerate(settings.metrics)
    }
    signature = (
        f"CORRELATION|ROUGE|{settings.signature(len(sets[0]))}|figure:{args.figure}|mean-of:{len(sets)}|documents:{len(rows)}"
        f"|systems:{len(names)}|bootstrap:{args.bootstrap}|seed:{args.seed}|v:{get_version()}"
    )
    heads = ["metric", "rating", *(f"{name}, {level}" for level in ("summary", "system") for name in CORRELATIONS)]
    table = []
    for metric, scale in itertools.product(found, scales):
        values = [found[metric][scale][name][level] for level in ("summary", "system") for name in CORRELATIONS]
        cells = [f"{value:.3f} {format_interval(interval)}" for value, *interval in values]
        table.append([metric.replace("rouge", "ROUGE-"), scale, *cells])
    print(align_columns(heads, table), signature, sep="\n\n")
    if args.json:
        write_json(args.json, {"correlations": found, "signature": signature})
