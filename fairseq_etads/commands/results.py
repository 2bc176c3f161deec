"""The command ``etads-results`` (evaluate): compare systems by records of the scores of their training runs."""

import itertools
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Optional, Sequence

import numpy as np
from tabulate import tabulate

from ..evaluation.records import LEVEL, Claims, Comparison, Corpus, compare_claimed_systems, read_claims, read_corpora
from ..evaluation.resampling import bootstrap_intervals, trainings_needed
from ..evaluation.rouge import RESAMPLES, SEED, format_interval
from ..files.outputs import write_text
from ..platform.command_options import SIZE, argument, option, options_command
from ..platform.errors import InputError

MOST_RUNS = 200
"""Largest number of training runs that is shown as necessary for a verdict."""
_TABLE = re.compile(r"(<!-- etads results: (.+?) -->\n)(?:(?!<!-- etads).)*?(<!-- end -->)", re.DOTALL)
"""Place of a table in a page, with its name."""


@dataclass
class ResultsOptions:
    """Options of ``etads-results``."""

    results: Path = argument("RESULTS", "folder containing a folder of records for each corpus")
    corpus: Optional[str] = option(
        None, "print only the tables of this corpus", metavar="NAME", excludes={"--page": "", "--check": ""}
    )
    claims: Optional[Path] = option(None, "file containing the claims (default: RESULTS/claims.json)")
    page: Optional[Path] = option(
        None, "write the tables to this Markdown page, and keep its other text", excludes={"--check": ""}
    )
    check: Optional[Path] = option(None, "check that this page contains the tables of the records")
    bootstrap: int = option(10_000, "number of bootstrap resamples per test", bounds=SIZE)


def _format_systems(corpus: Corpus, form: str) -> str:
    """Format a table of the systems, the best first, with a line about the test documents."""
    systems = sorted(corpus.systems.items(), key=lambda item: -np.mean([run.scores for run in item[1]]))
    rows = []
    for name, runs in systems:
        rouge = np.mean([run.rouge for run in runs], axis=0)
        if len(runs) > 1:
            means = np.mean([run.scores[:, :3] for run in runs], axis=0)
            rouge[:, 1:] = bootstrap_intervals(means, RESAMPLES, SEED).T
        cells = [f"{value:.2f} {format_interval(interval)}" for value, *interval in rouge]
        rows.append([f"`{name}`" if form == "pipe" else name, len(runs), *cells])
    about = f"{len(corpus.counts):,} test documents"
    if not corpus.counts.all():
        families = [len(np.unique(part)) for part in (corpus.families, corpus.families[corpus.counts])]
        about += f" in {families[0]:,} families; {corpus.counts.sum():,} in {families[1]:,} families count in tests"
    deviation = corpus.estimate_seed_deviation()
    if deviation > 0:
        about += f"; standard deviation of mean ROUGE between seeds: {deviation:.2f}"
    about += f".\n\n`{systems[0][1][0].signature}`" if systems[0][1][0].signature else "."
    heads = ["system", "seeds", "ROUGE-1", "ROUGE-2", "ROUGE-L"]
    return f"{about}\n\n{tabulate(rows, heads, tablefmt=form, disable_numparse=True)}"


def _format_p_value(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def _format_mean(one: Comparison) -> str:
    return f"{one.difference[3]:+.2f} {format_interval([*one.interval[:, 3]], '+.2f')}"


def _format_comparisons(found: Sequence[Comparison]) -> str:
    """Format the comparisons on a corpus as a table for a terminal."""
    rows = []
    for one in found:
        p_values = [_format_p_value(p) if one.has_enough_runs else "" for p in (one.p, one.corrected)]
        about = [f"{one.claim.paper}: {one.claim.text}", f"{one.claim.first} - {one.claim.second}"]
        parts = [", ".join(map(str, one.runs)), *(f"{value:+.2f}" for value in one.difference[:3])]
        rows.append([*about, *parts, _format_mean(one), *p_values, one.verdict])
    heads = ["claim", "systems", "seeds", "ROUGE-1", "ROUGE-2", "ROUGE-L", "mean", "p", "p (Holm)", "verdict"]
    return tabulate(rows, heads, tablefmt="simple", disable_numparse=True)


def _format_verdict(one: Optional[Comparison], corpus: Corpus) -> str:
    """Format a cell in the table of claims on a page. If it has no verdict, add the number of runs needed for one."""
    if one is None:
        return ""
    about = f"seeds {one.runs[0]}, {one.runs[1]}"
    if one.has_enough_runs:
        about = f"p {_format_p_value(one.corrected)}, " + re.sub("holds|contradicted", r"**\g<0>**", one.verdict)
    deviation, published = corpus.estimate_seed_deviation(), one.claim.published
    if one.verdict in ("no verdict", "undecided") and published and deviation > 0:
        needed = trainings_needed(abs(published), deviation, level=LEVEL, most=MOST_RUNS)
        about += f" (needs {needed or f'over {MOST_RUNS}'})"
    return f"{_format_mean(one)}, {about}"


def _format_claims(about: Claims, corpora: Dict[str, Corpus], found: Sequence[Comparison]) -> str:
    """Format a table of the claims for a page, with a column for each corpus."""
    rows = []
    for claim in about.claims:
        published = "" if claim.published is None else f"{claim.published:+.2f}"
        cells = [f"{claim.paper} {claim.where}", claim.text, f"`{claim.first}` − `{claim.second}`", published]
        tested = {one.corpus: one for one in found if one.claim is claim}
        rows.append([*cells, *(_format_verdict(tested.get(name), corpus) for name, corpus in corpora.items())])
    heads = ["paper", "claim", "systems", "published", *(about.corpora.get(name, name) for name in corpora)]
    return tabulate(rows, heads, tablefmt="pipe", disable_numparse=True)


@options_command(
    "etads-results",
    ResultsOptions,
    ValueError,
    description="Print tables of systems with the scores of their training runs, and test claims that one system "
    "is better than another.",
    epilog="""\
examples:
  etads-rouge summaries.txt test.target --per-example results/news/mine-1.jsonl
  etads-results results                            # print the tables of all corpora
  etads-results results --page docs/results.md     # write the tables to a page
  etads-results results --check docs/results.md    # exit status 1 if the page has other tables

  The page etads docs evaluation describes the records and claims. A claim is decided only if each system was trained
  three times. It holds or is contradicted if p < 0.05 in a test over runs and documents, after Holm's correction for
  the number of claims in the same paper.""",
)
def main(args: ResultsOptions) -> None:
    """Run the command ``etads-results``."""
    if not args.results.is_dir():
        raise InputError(f"RESULTS {args.results}: no such folder")
    path = args.claims or args.results / "claims.json"
    about = read_claims(path) if args.claims or path.exists() else Claims([], {}, [])
    corpora = read_corpora(args.results, list(about.corpora))
    if args.corpus and args.corpus not in corpora:
        raise InputError(f"--corpus {args.corpus}: choose one of {', '.join(corpora)}")
    page, text = args.page or args.check, ""
    if page and (args.check or page.exists()):
        text = page.read_text(encoding="utf-8")
    elif page:
        names = ["claims", *(f"systems {name}" for name in corpora)]
        text = "# Results\n" + "".join(f"\n<!-- etads results: {name} -->\n<!-- end -->\n" for name in names)
    named = [name for _, name, _ in _TABLE.findall(text)]
    for name in {*named} - {"claims", *(f"systems {name}" for name in corpora)}:
        raise InputError(f"{page}: there are no records for the table {name}")
    if page and not 0 < text.count("<!-- etads results:") == len(named):
        raise InputError(f"{page}: mark the place of each table by <!-- etads results: claims --> and <!-- end -->")
    found = compare_claimed_systems(about, corpora, args.bootstrap, args.corpus)
    if page:
        tables = {f"systems {name}": _format_systems(corpus, "pipe") for name, corpus in corpora.items()}
        tables["claims"] = _format_claims(about, corpora, found)
        made = _TABLE.sub(lambda place: f"{place[1]}\n{tables[place[2]]}\n\n{place[3]}", text)
        if args.page:
            write_text(page, made)
            print(f"{page}: {len(named)} tables")
        elif made != text:
            pairs = enumerate(itertools.zip_longest(made.split("\n"), text.split("\n")), 1)
            line = next(number for number, (right, written) in pairs if right != written)
            print(f"{page}: the records give another line {line}; to write it, use --page", file=sys.stderr)
            sys.exit(1)
        return
    for name, corpus in corpora.items():
        if args.corpus in (None, name):
            print(f"{about.corpora.get(name, name)}\n\n{_format_systems(corpus, 'simple')}\n")
            compared = [one for one in found if one.corpus == name]
            print(f"{_format_comparisons(compared)}\n\n" if compared else "")
