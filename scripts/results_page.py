#!/usr/bin/env python3
"""Write docs/results.md from the records in results/.

    python scripts/results_page.py [--check | --table CORPUS]

With --check, the script writes nothing and fails if the page does not match the records. scripts/reproduce/evidence.sh
creates the records.
"""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import numpy as np
from claims_table import ClaimEvidence, compute_seed_deviation, make_claim_rows
from results_comparisons import (
    CORPORA,
    LEVEL,
    RESAMPLES,
    SEEDS,
    UNKNOWN,
    Comparison,
    Record,
    Records,
    compare_systems,
    compute_system_differences,
    correct_p_values_by_paper,
    get_mean_log_likelihoods,
    get_rouge_scores,
    read_documents,
    read_records,
    select_unseen_documents,
    split_documents_by_length,
    split_documents_by_unknown_words,
)
from tabulate import tabulate

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "results.md"
BENCHMARKS = ROOT / "benchmarks" / "results"

HEAD = """\
# Results

This page examines whether the papers' mechanisms have the effects that the papers claim. The papers' corpora cannot be
redistributed, so the models are trained on two freely available corpora: synopses of Debian packages (56,070 training
pairs, similar to Gigaword's headlines) and backgrounds of SumPubMed's articles (26,284 pairs, similar in shape to
CNN/Daily Mail). The models are small enough for two cores.

`scripts/results_page.py` creates this page from the records in `results/`. Each record describes one training run: it
contains the command, the seed, the commit at which the run was recorded, and the scores of every test document.
[experiments.md](experiments.md) reports measurements for individual questions.

    scripts/reproduce/evidence.sh --corpus debian --data data/debian
    scripts/reproduce/evidence.sh --corpus sumpubmed --data data/sumpubmed
    scripts/reproduce/evidence.sh --corpus debian_recipe --data data/debian2
    scripts/reproduce/evidence.sh --corpus sumpubmed_recipe --data data/sumpubmed_long
    python scripts/results_page.py

The comparisons called *Debian synopses, recipe* and *SumPubMed, recipe* use the recipe `small` of `scripts/train.sh`,
tuned learning rates and, on Debian, other test pairs. [The protocol](protocol.md) was written before their first
training run. The rest of this introduction describes the other comparisons.

`evidence.sh --help` describes each system. All systems use the same data, number of steps and decoding options. With
two exceptions, compared systems differ in only one respect. `es` and `gated_es` use three separate embedding tables
instead of one, and therefore have 60 % more parameters than `plain`. The `layers_*` systems use saliency-selection,
which Table 6 of the ETADS paper omits. No learning rate was tuned. The decoding options were chosen for `etads` on the
validation pairs. The lengths of `lead-12-words`, `textrank-14-words`, `lexrank-14-words` and, for SumPubMed,
`lead-120-words` were also chosen on the validation pairs (`results/extracts.json`).
"""

HOW = """\
## What the papers claim

Each row shows the difference between two systems on the same test documents (first minus second). *mean* is the mean of
ROUGE-1, 2 and L (F1). *log-likelihood* is the references' log-likelihood per word, which varies less than ROUGE and
does not depend on the search. This cell is empty if the two systems use different vocabularies.

- **The test.** Training runs differ by chance, so a comparison requires at least three seeds per system. The test
  combines a paired bootstrap over the documents with Student's t-test on the means of the seeds
  (`compare_systems_over_runs` in `evaluation/resampling.py`, {resamples:,} draws). A simulation
  (`results/comparisons.json`) shows how often the test errs: {simulated}.
- **Documents.** Debian's 2,000 test pairs belong to 979 families of packages with the same source or a common text, and
  the bootstrap resamples whole families. The {seen} pairs that are also validation or test pairs of the sample corpus
  are excluded from the tests, because length limits and other options were chosen on the sample. SumPubMed's 563 test
  pairs were also used in earlier measurements. The tests with the recipe exclude all families with pairs on which a
  choice was made before, so that 1,870 pairs in 1,062 families remain.
- **Many claims.** *p (Holm)* is corrected for the number of claims in the same paper (Holm 1979). With the recipe, this
  is the number of comparisons in the protocol, even if some have not been tested yet. A claim *holds* or is
  *contradicted* only if the corrected p-value is below {level}; otherwise the claim is *undecided*.
- **Published sizes.** *published size excluded* means that the gain reported in the paper lies above the interval
  measured here: at this scale, there is no effect of the published size.

The models have two million parameters and are trained for 0.8 to 2.5 epochs on these corpora. The verdicts do not apply
to models of the papers' sizes that are trained for 200,000 steps on CNN/Daily Mail.
"""

FOREST = (
    "Difference in mean ROUGE for each claim on each corpus, with its 95 % interval: filled points represent three "
    "training runs per system, diamonds are published sizes"
)

SINGLE = """
## Single trainings: no verdicts

In each of these comparisons, at least one system was trained only once, and the intervals reflect only the variation
between documents. With such intervals, two seeds of the same system differ "significantly" in a quarter to a third of
all cases, so this table supports no verdicts.
"""


ALL_CLAIMS = """
## All claims of the four papers

*where* names the table or section of the paper. If the paper reports figures, the published size is the difference in
the mean of ROUGE-1, 2 and L. The cells for each corpus contain the verdict, an answer from the records, or the cost of
a verdict. This cost is the number of seeds per system needed to detect a difference of the published size with a
probability of 80 % at a significance level of 0.05 (`fairseq_etads/evaluation/power.py`). The number in brackets
applies to a level of 0.05 divided by the number of the paper's claims in the table. The standard deviation between
seeds of a system, pooled over the systems with three training runs, is
{deviations}.
"""


STRATA = """
## Where mechanisms should matter

This table shows differences in the mean of ROUGE-1, 2 and L for subsets of the test documents: thirds by the length of
the reference, and halves by the number of reference words that are not among the 8,000 known words. Because the table
has many rows and no correction for multiple tests, it can only suggest what to test. The records do not show the
influence of document length, aggregation depth or coverage. All models read 60 words of a package description or 200
words of an article, so the document length has no visible effect. No system has more than four layers, which is too few
to study the depth of aggregation. The effect of coverage cannot be isolated, because every other system also differs
from `pg_coverage` in something else.
"""
SYNTHETIC = """
## Tasks that a mechanism is made for

A mechanism that cannot solve the task for which it is designed is broken or useless. `scripts/synthetic_tasks.py`
trains models with 2+2 layers of width 64 on documents of random words. The task `marked`, to copy the sentence after a
marker, is designed for the pointer. The task `position`, to write the words at two positions that the document names,
is designed for focus-attention. The task `salient`, to write the words that belong to a salient quarter of the
vocabulary, is designed for saliency-selection. *basic* uses none of these mechanisms. *relative* and *open* are this
project's forms of focus-attention and saliency-selection. The figures are the percentages of summary words that greedy
search writes at the correct position, averaged over seeds. A task is solved if the accuracy is at least {solved} % with
every seed.

{readings}.
"""
SOLVED = 95
BY_LENGTH = (
    ("etads_focus", "etads_basic"),
    ("etads_saliency", "etads_basic"),
    ("etads", "etads_basic"),
    ("words_lvt2k_temp_att", "words_lvt2k"),
)
BY_UNKNOWN = (
    ("etads_basic", "transformer_bpe"),
    ("pg_coverage", "words_lvt2k"),
    ("etads_basic", "words_lvt2k_temp_att"),
)
"""Systems with a pointer, and systems without a pointer."""


def format_markdown_table(rows: Sequence[Sequence[Any]], heads: Sequence[str]) -> str:
    """Format a Markdown table."""
    return tabulate(rows, heads, tablefmt="pipe", disable_numparse=True)


def format_records_folder_line(records: Iterable[str]) -> str:
    """Return the line below a table that names the folders with the records."""
    return f"\nSource: {join_with_and(f'`results/{corpus}/`' for corpus in records)}.\n"


def join_with_and(parts: Iterable[str]) -> str:
    """Format a list as "a, b and c", or an empty list as "not known"."""
    *before, last = [*parts] or ["not known"]
    return f"{', '.join(before)} and {last}" if before else last


def describe_type_i_error(results: Path) -> str:
    """Describe the simulated type-I error: "p < 0.05 in 4 to 6 % of comparisons between equal systems"."""
    path = results / "comparisons.json"
    if not path.is_file():
        return "not run"
    found = json.loads(path.read_text(encoding="utf-8"))
    tests = [
        test for corpus in found["corpora"].values() for test in corpus["tests"] if min(test["trainings"]) >= SEEDS
    ]
    errors = [100 * test["rates"][0]["below_level"] for test in tests]
    return f"p < {found['level']} in {min(errors):.0f} to {max(errors):.0f} % of comparisons between two equal systems"


def make_claims_section(results: Path, records: Dict[str, Records]) -> Iterator[str]:
    """Create the section with the claims that have enough runs for a verdict, followed by claims with single runs."""
    found = compare_systems(results, records)
    seen = int((~read_documents(results, "debian", 1).unseen).sum())
    yield HOW.format(level=LEVEL, resamples=RESAMPLES, simulated=describe_type_i_error(results), seen=seen)
    heads = ["paper", "claim", "corpus", "systems", "seeds", "ROUGE-1", "ROUGE-2", "ROUGE-L", "mean", "log-likelihood"]
    yield f"![{FOREST}](pictures/results/claims.svg)\n"
    decidable = [comparison for comparison in found if comparison.is_decidable]
    rows = [
        [
            *comparison.make_cells(),
            format_p_value(comparison.scores[3].p),
            format_p_value(p),
            comparison.make_verdict(p),
        ]
        for comparison, p in zip(decidable, correct_p_values_by_paper(decidable))
    ]
    yield format_markdown_table(rows, [*heads, "p", "p (Holm)", "reading"])
    yield format_records_folder_line(records)
    single = [comparison.make_cells() for comparison in found if not comparison.is_decidable]
    if single:
        yield SINGLE
        yield format_markdown_table(single, heads)
        yield format_records_folder_line(records)
    yield from make_all_claims_section(results, records, found, correct_p_values_by_paper(decidable))


def make_all_claims_section(
    results: Path, records: Dict[str, Records], found: Sequence[Comparison], corrected_p: Sequence[float]
) -> Iterator[str]:
    """Create the section with all claims in the papers.

    Each claim is shown with its verdict, with an answer from the records, or with the number of training runs that a
    verdict requires.
    """
    readings: Dict[str, Dict[str, str]] = {corpus: {} for corpus in records}
    p_values = iter(corrected_p)
    for comparison in found:
        mean = comparison.scores[3]
        reading = "no verdict"
        if comparison.is_decidable:
            reading = comparison.make_verdict(next(p_values))
        pair = f"{comparison.claim.first} minus {comparison.claim.second}"
        seeds = f"{len(comparison.first)} and {len(comparison.second)} trainings"
        readings[comparison.corpus][pair] = f"{mean} ({seeds}), {reading}"
    answers = {
        corpus: ClaimEvidence(
            systems, readings[corpus], compute_seed_deviation_of_corpus(results, corpus, systems), BENCHMARKS
        )
        for corpus, systems in records.items()
    }
    yield ALL_CLAIMS.format(
        deviations=join_with_and(
            f"{one.deviation:.2f} on {CORPORA[corpus]}" for corpus, one in answers.items() if one.deviation > 0
        )
    )
    heads = ["paper", "claim", "where", "published", *(CORPORA[corpus] for corpus in records)]
    yield format_markdown_table(list(make_claim_rows(answers)), heads)
    speed = "`benchmarks/results/presets.json`, `benchmarks/results/recurrent.json`"
    yield f"{format_records_folder_line(records).rstrip()} Speed: {speed}.\n"


def compute_seed_deviation_of_corpus(results: Path, corpus: str, systems: Records) -> float:
    """Compute the standard deviation of mean ROUGE between seeds on the unseen documents in a corpus."""
    documents = len(next(iter(systems.values()))[0]["f1"]["rouge1"])
    unseen = read_documents(results, corpus, documents).unseen
    return compute_seed_deviation(systems, lambda records: get_rouge_scores(records)[:, unseen, 3].mean(axis=1), SEEDS)


def make_strata_section(results: Path, records: Dict[str, Records]) -> Iterator[str]:
    """Create the section with differences between systems for subsets of the documents.

    The subsets are defined by the length of the reference and by its number of unknown words.
    """
    rows = []
    for corpus, systems in records.items():
        for pairs, parts in (
            (BY_LENGTH, split_documents_by_length(systems)),
            (BY_UNKNOWN, split_documents_by_unknown_words(systems)),
        ):
            for first, second in pairs:
                if first in systems and second in systems:
                    for name, chosen in parts.items():
                        rows.append(make_stratum_row(results, corpus, systems, (first, second), name, chosen))
    if rows:
        yield STRATA
        yield format_markdown_table(rows, ["corpus", "systems", "seeds", "references", "documents", "mean"])
        yield format_records_folder_line(records)
        gains = [row[-1].value for row in rows if row[3].startswith(UNKNOWN)]
        larger = sum(more > fewer for fewer, more in zip(gains[::2], gains[1::2]))
        yield (
            f"In {larger} of {len(gains) // 2} comparisons, a pointer improves the scores more on pairs with more "
            "unknown words.\n"
        )


def make_stratum_row(
    results: Path, corpus: str, systems: Records, pair: Tuple[str, str], name: str, chosen: np.ndarray
) -> List[Any]:
    """Return the row for a comparison on the chosen documents that are unseen. ``chosen`` is a mask (documents,)."""
    first, second = (systems[system] for system in pair)
    families, part = select_unseen_documents(results, corpus, chosen)
    several = min(len(first), len(second)) >= SEEDS
    *_, mean = compute_system_differences(
        get_rouge_scores(first)[:, part], get_rouge_scores(second)[:, part], families, several
    )
    seeds = f"{len(first)}, {len(second)}"
    return [CORPORA[corpus], f"`{pair[0]}` minus `{pair[1]}`", seeds, name, int(part.sum()), mean]


def make_synthetic_section(results: Path) -> Iterator[str]:
    """Create the section with the accuracy of tiny models on synthetic tasks, each designed for one mechanism."""
    path = results / "synthetic_tasks.json"
    if not path.is_file():
        return
    trainings: Dict[Tuple[str, str], List[Record]] = {}
    for record in json.loads(path.read_text(encoding="utf-8"))["trainings"]:
        trainings.setdefault((record["task"], record["system"]), []).append(record)
    steps = list(next(iter(trainings.values()))[0]["accuracy"])
    rows, readings = [], []
    for (task, system), records in trainings.items():
        curves = np.array([[record["accuracy"][step] for step in steps] for record in records])
        end = f"{curves[:, -1].min():.1f} to {curves[:, -1].max():.1f}"
        weights = f"{records[0]['parameters'] / 1000:.0f}"
        rows.append([f"`{task}`", system, weights, len(records), *(f"{v:.1f}" for v in curves.mean(axis=0)), end])
        solved = curves[:, -1].min() >= SOLVED
        readings.append(f"*{system}* {'solves' if solved else 'does not solve'} `{task}`")
    yield SYNTHETIC.format(solved=SOLVED, readings="; ".join(readings))
    heads = ["task", "system", "weights, thousands", "seeds", *(f"step {step}" for step in steps), "end, by seed"]
    yield format_markdown_table(rows, heads)
    yield "\nSource: `results/synthetic_tasks.json`.\n"


def format_p_value(p: float) -> str:
    """Format a p-value with three digits, but not below 0.001."""
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


ANALYSED = {"words": "words", "copied": "copy rate", "new 2": "novel 2-grams", "rep. 2": "repeated 2-grams"}
"""Mapping from column headings to figures of ``etads-analyse``."""


OF_A_CORPUS = """\

## {corpus}

The models were trained for {steps} steps and tested on {documents:,} documents. *ppl* is the perplexity of the
validation pairs, and *log p* is the mean log-likelihood per reference word. *copied* is the percentage of summary words
that occur in the document, *new 2* is the percentage of summary bigrams that do not, and *rep. 2* is the percentage of
bigrams that occurred earlier in the summary.
"""
OTHER_WORDS = """
Perplexities are comparable only between systems that predict the same words. No perplexities are listed for
`transformer_bpe` (subwords), `transformer_pointer` (positions of unknown words count as words) and the `*_lvt2k`
systems (the softmax of a batch covers 2,000 words). For the same reason, comparisons omit the likelihood of
`transformer_bpe`.
"""
NO_PERPLEXITY = re.compile(r"transformer_.*|.*_lvt2k.*")
"""Pattern for systems with perplexities that cannot be compared, because they refer to different words."""


def make_systems_section(corpus: str, systems: Records) -> Iterator[str]:
    """Create the section with the results of each training run on a corpus, starting with the best system."""
    records = sort_records(systems)
    steps = " and ".join(f"{number:,}" for number in sorted({r["steps"] for r in records if "steps" in r}))
    yield OF_A_CORPUS.format(corpus=CORPORA[corpus], steps=steps, documents=len(records[0]["f1"]["rouge1"]))
    yield format_systems_table(records)
    yield format_records_folder_line([corpus])
    if "transformer_bpe" in systems:
        yield OTHER_WORDS
    yield f"`{records[0]['rouge']['signature']}`"


def sort_records(systems: Records) -> List[Record]:
    """Return all records of a corpus, starting with the system that has the best ROUGE."""
    by_score = sorted(systems.values(), key=lambda records: -np.mean(get_rouge_scores(records)[..., 3]))
    return [record for records in by_score for record in records]


def format_systems_table(records: Sequence[Record]) -> str:
    """Format a table with a row for each training run."""
    heads = ["system", "seed", "weights", "ppl", "ROUGE-1", "ROUGE-2", "ROUGE-L", "log p", *ANALYSED]
    return format_markdown_table([make_system_row(record) for record in records], heads)


def make_system_row(record: Record) -> List[Any]:
    """Return the row for a training run, or for a system without training."""
    of_training, likelihood = ["", "", ""], ""
    if "steps" in record:
        perplexity = "" if NO_PERPLEXITY.fullmatch(record["system"]) else f"{record['valid_perplexity']:.1f}"
        of_training = [record["seed"], f"{record['parameters'] / 1e6:.2f} M", perplexity]
        likelihood = f"{get_mean_log_likelihoods([record]).mean():.3f}" if "tokens" in record else ""
    scores = [(score["f1"], *score["f1_interval"]) for score in record["rouge"]["scores"].values()]
    rouge = [f"{value:.2f} [{low:.2f}, {high:.2f}]" for value, low, high in scores]
    analysed = [f"{record['analysis'][name] or 0:.1f}" for name in ANALYSED.values()]
    return [f"`{record['system']}`", *of_training, *rouge, likelihood, *analysed]


LOGGED = {
    "gate": "saliency gate, mean",
    "focus_distance": "focus: distance of the centre from the query, words",
    "focus_scope": "focus: scope, words",
    "p_gen": "p_gen",
}
"""Mapping from figures in a training log to their descriptions."""


IN_TRAINING = """\

## What the mechanisms do in training

For the first seed, the table shows means over the layers, heads and words of ten steps, at the start and after each
fifth of training. [Experiments](experiments.md#focus-and-gate-in-training) explains why the paper's gate closes and its
focus stops following the words; [etads.md](etads.md#other-forms) describes alternatives.
"""


def make_mechanisms_section(records: Dict[str, Records]) -> Iterator[str]:
    """Create the section on how the figures of the mechanisms develop during training."""
    yield IN_TRAINING
    rows = []
    for corpus, systems in records.items():
        for system, (record, *_) in systems.items():
            for name, what in LOGGED.items():
                values: Optional[List[float]] = record.get("mechanisms", {}).get(name)
                if values and (name != "p_gen" or system == "etads"):
                    rows.append([CORPORA[corpus], f"`{system}`", what, *(f"{value:.2f}" for value in values[::2])])
    yield format_markdown_table(rows, ["corpus", "system", "figure", "begin", "20 %", "40 %", "60 %", "80 %", "end"])
    yield format_records_folder_line(records)
    yield from make_attention_section(records)


BY_LAYER = """\

This table shows the focus and gate in each layer, measured on 200 validation pairs before and after training. *centre
moves* is the difference in mu between the words in the last and the first tenth of a document: 0.9 if the centre
follows the words, 0 if the centre is fixed. *scope* is sigma. *centre moves* and *scope* are fractions of the
document's length. *gate* is the fraction of attention that the gate lets through, averaged over heads (with minimum and
maximum).
"""


def get_attention_statistics(systems: Records, system: str) -> Optional[Dict[str, Dict[str, Dict[str, Any]]]]:
    """Return the figures of each module "before" and "after" the first run of a system, or None without figures."""
    return next((record["attention"] for record in systems.get(system, []) if "attention" in record), None)


def make_attention_section(records: Dict[str, Records]) -> Iterator[str]:
    """Create the section with the figures of the focus and the gate in each layer, with pictures."""
    rows = []
    for corpus, systems in records.items():
        for system in systems:
            attention = get_attention_statistics(systems, system)
            for module in attention["after"] if attention else ():
                before, after = (attention[when][module] for when in ("before", "after"))
                rows.append(
                    [
                        CORPORA[corpus],
                        f"`{system}`",
                        format_layer_name(module),
                        *format_layer_cells(before),
                        *format_layer_cells(after),
                    ]
                )
    if rows:
        yield BY_LAYER
        heads = ["centre moves", "scope", "gate"]
        yield format_markdown_table(rows, ["corpus", "system", "layer", *heads, *(f"{head}, after" for head in heads)])
        yield format_records_folder_line(records)
    for corpus, systems in records.items():
        if get_attention_statistics(systems, "etads"):
            what = f"{CORPORA[corpus]}: centre and scope of each head by the place of the query, and gates, of etads"
            yield f"\n![{what}.](pictures/results/attention_{corpus}.svg)"


def format_layer_name(module: str) -> str:
    """Return the short name of a layer, such as "encoder 1" for "encoder.layers.0.self_attn"."""
    side, _, number, *_ = module.split(".")
    return f"{side} {int(number) + 1}"


def format_layer_cells(figures: Dict[str, Any]) -> List[str]:
    """Format the movement of the centre over a text, the scope and the gate. Cells without figures are empty."""
    cells = ["", "", ""]
    if "center" in figures:
        cells[0] = f"{np.mean([head[-1] - head[0] for head in figures['center']]):+.2f}"
        cells[1] = f"{np.mean(figures['scope']):.2f}"
    if "gate" in figures:
        cells[2] = f"{np.mean(figures['gate']):.3f} ({min(figures['gate']):.3f} to {max(figures['gate']):.3f})"
    return cells


def make_page(results: Path) -> str:
    """Return the text of the whole page."""
    records = {corpus: read_records(results / corpus) for corpus in CORPORA if (results / corpus).is_dir()}
    parts = [HEAD, *make_claims_section(results, records), *make_strata_section(results, records)]
    parts += make_synthetic_section(results)
    for corpus, systems in records.items():
        parts += make_systems_section(corpus, systems)
    return "\n".join([*parts, *make_mechanisms_section(records)]) + "\n"


def main() -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--check", action="store_true", help="do not write the page, and fail if it does not match the records"
    )
    parser.add_argument(
        "--results", type=Path, default=ROOT / "results", help="folder containing the records (default: %(default)s)"
    )
    parser.add_argument("--page", type=Path, default=PAGE, help="output file for the page (default: %(default)s)")
    parser.add_argument(
        "--table", choices=list(CORPORA), help="print the results table of this corpus without writing the page"
    )
    args = parser.parse_args()
    if args.table:
        print(format_systems_table(sort_records(read_records(args.results / args.table))))
        return 0
    text = make_page(args.results)
    if not args.check:
        args.page.write_text(text, encoding="utf-8")
    elif args.page.read_text(encoding="utf-8") != text:
        print(f"{args.page} does not match the records; run: python scripts/results_page.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
