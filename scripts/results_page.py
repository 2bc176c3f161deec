#!/usr/bin/env python3
"""Write docs/results.md from the records in results/.

    python scripts/results_page.py [--check | --table CORPUS]

With --check, the script writes nothing and fails if the page does not match the records. scripts/reproduce/evidence.sh
creates the records.
"""

import argparse
import functools
import json
import re
import sys
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from claims_table import ClaimEvidence, compute_seed_deviation, make_claim_rows
from tabulate import tabulate

from fairseq_etads.evaluation.resampling import (
    assign_family_indices,
    compare_pairs,
    compare_systems_over_runs,
    correct_p_values,
)
from fairseq_etads.evaluation.rouge import METRICS, SEED

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "results.md"
BENCHMARKS = ROOT / "benchmarks" / "results"
CORPORA = {
    "debian": "Debian synopses",
    "sumpubmed": "SumPubMed",
    "debian_recipe": "Debian synopses, recipe",
    "sumpubmed_recipe": "SumPubMed, recipe",
}
RESAMPLES = 10_000
LEVEL = 0.05
SEEDS = 3
"""Number of training runs per system that a verdict requires."""

Record = Dict[str, Any]
Records = Dict[str, List[Record]]
"""The records of the training runs of each system, ordered by seed."""


class Claim(NamedTuple):
    """A claim in a paper that one system is better than another."""

    paper: str
    text: str
    first: str
    second: str
    published: Optional[float] = None
    """Published difference in the mean of ROUGE-1, 2 and L, if the paper reports one."""

    def has_records_of_both(self, systems: Records) -> bool:
        """Return whether there are records of both systems."""
        return self.first in systems and self.second in systems


CLAIMS = (
    Claim("ETADS", "focus-attention helps", "etads_focus", "etads_basic", 1.30),
    Claim("ETADS", "saliency-selection helps", "etads_saliency", "etads_basic", 1.23),
    Claim("ETADS", "both help", "etads", "etads_basic", 2.17),
    Claim("ETADS", "both are better than focus-attention alone", "etads", "etads_focus", 0.87),
    Claim("ETADS", "both are better than saliency-selection alone", "etads", "etads_saliency", 0.94),
    Claim("ETADS", "focus in all layers is better than in none", "layers_1-4", "layers_none"),
    Claim("ETADS", "focus in all layers is better than in the lower half", "layers_1-4", "layers_1-2"),
    Claim("ETADS", "focus in all layers is better than in the upper half", "layers_1-4", "layers_3-4"),
    Claim("ETADS", "focus in the lower half is better than in none", "layers_1-2", "layers_none"),
    Claim("ETADS", "focus in the upper half is better than in none", "layers_3-4", "layers_none"),
    Claim("ETADS", "a Transformer without the mechanisms equals a pointer-generator", "etads_basic", "pg_coverage"),
    Claim("Aggregation", "aggregation by attention helps", "attn_1", "plain", 0.86),
    Claim("Aggregation", "aggregation by projection helps", "proj_1", "plain", 0.14),
    Claim("Aggregation", "aggregation by addition hurts", "plain", "add_1", 0.30),
    Claim("Aggregation", "attention is better than a pointer-generator", "attn_1", "pg_coverage", 1.31),
    Claim("Aggregation", "aggregation by attention is better than by projection", "attn_1", "proj_1", 0.72),
    Claim("Gated ES", "sharing the encoder's layers helps", "es", "plain", 2.53),
    Claim("Gated ES", "a gate helps on top of shared layers", "gated_es", "es", 0.20),
    Claim("Gated ES", "sharing the encoder's layers helps, with one table of word vectors", "es_tied", "plain", 2.53),
    Claim("Gated ES", "a gate helps on top, with one table of word vectors", "gated_es_tied", "es_tied", 0.20),
    Claim("Nallapati", "hierarchical attention helps", "words_lvt2k_hieratt", "words_lvt2k", 0.06),
    Claim("Nallapati", "features (here TF and IDF) help", "feats_lvt2k", "words_lvt2k", 0.16),
    Claim("Nallapati", "temporal attention helps", "words_lvt2k_temp_att", "words_lvt2k", 2.54),
    Claim("this project", "the options beyond the paper help ETADS", "etads_options", "etads"),
    Claim("this project", "ETADS with a pointer is better than fairseq's transformer", "etads", "transformer_bpe"),
    Claim("this project", "ETADS is better than fairseq's pointer-generator", "etads", "transformer_pointer"),
    Claim("this project", "ETADS is better than a recurrent pointer-generator", "etads", "pg_coverage"),
)

OTHERS = {
    "transformer_words": "fairseq's transformer on words",
    "transformer_bpe": "fairseq's transformer on subwords",
    "transformer_pointer": "fairseq's pointer-generator",
    "pg_coverage": "a recurrent pointer-generator",
    "lead-8-words": "the first 8 words",
    "lead-120-words": "the first 120 words",
}
"""The systems of others in docs/protocol.md."""


def list_comparative_claims(*others: str, systems: Sequence[str]) -> List[Claim]:
    """Return the claims that each of the project's systems is better than each system of others."""
    return [
        Claim("this project", f"better than {OTHERS[other]}", system, other) for system in systems for other in others
    ]


TRAINED = ("transformer_words", "transformer_pointer", "pg_coverage")
PLANNED = {
    "debian_recipe": [
        *CLAIMS[:5],
        *list_comparative_claims(*TRAINED, "transformer_bpe", "lead-8-words", systems=("etads_basic", "etads")),
    ],
    "sumpubmed_recipe": list_comparative_claims(*TRAINED, "lead-120-words", systems=("etads", "etads_content")),
}
"""The comparisons planned in docs/protocol.md. On other corpora, all CLAIMS are tested."""

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
  (`results/comparisons.json`) shows how often the test
  errs: {simulated}.
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
UNKNOWN = "unknown words"


def read_records(folder: Path) -> Records:
    """Read the records of a corpus."""
    found: Records = {}
    for path in sorted(folder.glob("*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        found.setdefault(record["system"], []).append(record)
    return {system: sorted(records, key=lambda record: record["seed"]) for system, records in found.items()}


def get_rouge_scores(records: Sequence[Record]) -> np.ndarray:
    """Return ROUGE-1, 2 and L and their mean, as an array (runs, documents, 4)."""
    scores = np.array([[record["f1"][metric] for metric in METRICS] for record in records]).transpose(0, 2, 1)
    return np.concatenate([scores, scores.mean(axis=2, keepdims=True)], axis=2)


def get_mean_log_likelihoods(records: Sequence[Record]) -> np.ndarray:
    """Return the mean log-likelihood per word, as an array (runs, documents, 1)."""
    return np.array([np.array(r["log_likelihood"]) / np.array(r["tokens"]) for r in records])[..., None]


def have_comparable_likelihoods(first: Record, second: Record) -> bool:
    """Return whether the likelihoods of two systems refer to the same words."""
    return "tokens" in first and all(first[name] == second.get(name) for name in ("tokens", "unknown"))


class Difference(NamedTuple):
    """The difference between two systems in one figure."""

    value: float
    low: float
    high: float
    p: float

    def __str__(self) -> str:
        return f"{self.value:+.2f} [{self.low:+.2f}, {self.high:+.2f}]"


def compute_system_differences(
    first: np.ndarray, second: np.ndarray, families: np.ndarray, with_trainings: bool
) -> List[Difference]:
    """Compare the columns of two arrays (runs, documents, columns).

    The variance between training runs is included if ``with_trainings`` is set.
    """
    if with_trainings:
        found = compare_systems_over_runs(first, second, RESAMPLES, SEED, families)
    else:
        found = compare_pairs(first.mean(axis=0), second.mean(axis=0), RESAMPLES, SEED, families)
    return [Difference(*values) for values in zip(found["difference"], *found["interval"], found["p_bootstrap"])]


class TestDocuments(NamedTuple):
    """The test documents of a corpus, in the order of the scores in the records.

    Attributes:
        families: family number (documents,) of each document.
        unseen: mask (documents,), True for documents on which no choice was made: neither validation nor test pairs of
            the sample corpus, nor marked as seen.
    """

    families: np.ndarray
    unseen: np.ndarray


@functools.cache
def read_documents(results: Path, corpus: str, documents: int) -> TestDocuments:
    """Read CORPUS-families.tsv. Without this file, each document is a family, and all documents are unseen."""
    path = results / f"{corpus}-families.tsv"
    if not path.is_file():
        return TestDocuments(np.arange(documents), np.ones(documents, dtype=bool))
    names, splits = zip(*(line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()))
    return TestDocuments(assign_family_indices(names), ~np.isin(splits, ("valid", "test", "seen")))


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


def count_training_runs(records: Sequence[Record]) -> float:
    """Return the number of training runs, or infinity for an extract, which has the same scores with every seed."""
    return np.inf if records[0]["system"].startswith(("lead-", "oracle-", "textrank-", "lexrank-")) else len(records)


class Comparison(NamedTuple):
    """A claim on one corpus, with the records of both systems and the differences between them."""

    claim: Claim
    corpus: str
    first: List[Record]
    second: List[Record]
    scores: List[Difference]
    """Differences in ROUGE-1, 2 and L and in their mean."""
    likelihood: Optional[Difference]
    """Difference in the likelihood, or None if the systems predict different words."""

    @property
    def is_decidable(self) -> bool:
        """Return whether there are enough training runs for a verdict."""
        return min(count_training_runs(self.first), count_training_runs(self.second)) >= SEEDS

    def make_cells(self) -> List[Any]:
        """Return the cells in the row of this comparison, without a verdict."""
        seeds = f"{len(self.first)}, {len(self.second)}"
        likelihood = ""
        if self.likelihood:
            value, low, high, _ = self.likelihood
            likelihood = f"{value:+.3f} [{low:+.3f}, {high:+.3f}]"
        about = [self.claim.paper, self.claim.text, CORPORA[self.corpus]]
        return [*about, f"`{self.claim.first}` minus `{self.claim.second}`", seeds, *self.scores, likelihood]

    def make_verdict(self, corrected: float) -> str:
        """Return the verdict for the corrected p-value, and what it implies about the published difference."""
        mean = self.scores[3]
        verdict = "undecided"
        if corrected < LEVEL:
            verdict = "**holds**" if mean.value > 0 else "**contradicted**"
        if self.claim.published is not None and mean.high < self.claim.published:
            verdict += f", published size (+{self.claim.published:.2f}) excluded"
        return verdict


def compare_systems(results: Path, records: Dict[str, Records]) -> List[Comparison]:
    """Compare the systems of each claim on every corpus for which there are records and the claim is planned."""
    claims = dict.fromkeys([*CLAIMS, *(claim for planned in PLANNED.values() for claim in planned)])
    return [
        _test_claim(results, claim, corpus, systems[claim.first], systems[claim.second])
        for claim in claims
        for corpus, systems in records.items()
        if claim in PLANNED.get(corpus, CLAIMS) and claim.has_records_of_both(systems)
    ]


def _test_claim(results: Path, claim: Claim, corpus: str, first: List[Record], second: List[Record]) -> Comparison:
    """Test a claim with all training runs of both systems on the unseen documents in a corpus."""
    families, unseen = read_documents(results, corpus, len(first[0]["f1"]["rouge1"]))
    families = np.unique(families[unseen], return_inverse=True)[1]
    several = min(count_training_runs(first), count_training_runs(second)) >= SEEDS
    extract = (
        count_training_runs(second) == np.inf
    )  # it is compared as if each run of the first system had been compared with it
    of_second = get_rouge_scores(second * len(first) if extract else second)
    scores = compute_system_differences(get_rouge_scores(first)[:, unseen], of_second[:, unseen], families, several)
    likelihood = None
    if have_comparable_likelihoods(first[0], second[0]):
        figures = get_mean_log_likelihoods(first)[:, unseen], get_mean_log_likelihoods(second)[:, unseen]
        (likelihood,) = compute_system_differences(*figures, families, several)
    return Comparison(claim, corpus, first, second, scores, likelihood)


def correct_p_values_by_paper(found: Sequence[Comparison]) -> List[float]:
    """Compute the p-values with Holm's correction for the number of comparisons from the same paper.

    Each corpus with planned comparisons is corrected separately, for the number of planned comparisons, which includes
    those that cannot be decided yet.
    """
    values = [0.0] * len(found)
    kinds = [
        (comparison.claim.paper, comparison.corpus if comparison.corpus in PLANNED else None) for comparison in found
    ]
    for paper, corpus in set(kinds):
        places = [place for place, other in enumerate(kinds) if other == (paper, corpus)]
        p_values = [found[place].scores[3].p for place in places]
        planned = [claim for claim in PLANNED.get(corpus, ()) if claim.paper == paper]
        open_yet = max(len(planned) - len(places), 0)
        for place, value in zip(places, correct_p_values([*p_values, *[1.0] * open_yet])):
            values[place] = float(value)
    return values


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
    families, unseen = read_documents(results, corpus, len(chosen))
    part = unseen & chosen
    families = np.unique(families[part], return_inverse=True)[1]
    several = min(len(first), len(second)) >= SEEDS
    *_, mean = compute_system_differences(
        get_rouge_scores(first)[:, part], get_rouge_scores(second)[:, part], families, several
    )
    seeds = f"{len(first)}, {len(second)}"
    return [CORPORA[corpus], f"`{pair[0]}` minus `{pair[1]}`", seeds, name, int(part.sum()), mean]


def split_documents_by_length(systems: Records) -> Dict[str, np.ndarray]:
    """Divide the documents into thirds by the number of words in the reference, not counting the end symbol.

    The result is empty if no record contains token counts.
    """
    if "etads_basic" not in systems:
        return {}
    words = np.array(systems["etads_basic"][0]["tokens"]) - 1
    low, high = np.percentile(words, [100 / 3, 200 / 3]).astype(int)
    parts = {
        f"up to {low} words": words <= low,
        f"{low + 1} to {high} words": (words > low) & (words <= high),
        f"more than {high} words": words > high,
    }
    return {
        name: part for name, part in parts.items() if part.any()
    }  # long references are truncated, so a part can be empty


def split_documents_by_unknown_words(systems: Records) -> Dict[str, np.ndarray]:
    """Divide the documents into halves by the number of reference words that a model without copying does not know."""
    for system in ("words_lvt2k", "words_lvt2k_temp_att"):
        if system in systems:
            unknown = np.array(systems[system][0]["unknown"])
            middle = int(np.median(unknown))
            return {f"{UNKNOWN}: {middle} or fewer": unknown <= middle, f"{UNKNOWN}: more": unknown > middle}
    return {}


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
