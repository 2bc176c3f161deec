"""Compare the systems of the papers' claims by the records in results/.

scripts/results_page.py writes the results to docs/results.md.
"""

import functools
import json
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from fairseq_etads.evaluation.resampling import (
    assign_family_indices,
    compare_pairs,
    compare_systems_over_runs,
    correct_p_values,
)
from fairseq_etads.evaluation.rouge import METRICS, SEED

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


def select_unseen_documents(results: Path, corpus: str, chosen: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Select the documents in ``chosen``, a mask (documents,), that are unseen.

    Returns their families (n,), numbered from 0, and their mask (documents,).
    """
    families, unseen = read_documents(results, corpus, len(chosen))
    selected = unseen & chosen
    return np.unique(families[selected], return_inverse=True)[1], selected


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
    every = np.ones(len(first[0]["f1"]["rouge1"]), dtype=bool)
    families, unseen = select_unseen_documents(results, corpus, every)
    several = min(count_training_runs(first), count_training_runs(second)) >= SEEDS
    # An extract is compared as if each run of the first system had been compared with it.
    extract = count_training_runs(second) == np.inf
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
    # Long references are truncated, so a part can be empty.
    return {name: part for name, part in parts.items() if part.any()}


def split_documents_by_unknown_words(systems: Records) -> Dict[str, np.ndarray]:
    """Divide the documents into halves by the number of reference words that a model without copying does not know."""
    for system in ("words_lvt2k", "words_lvt2k_temp_att"):
        if system in systems:
            unknown = np.array(systems[system][0]["unknown"])
            middle = int(np.median(unknown))
            return {f"{UNKNOWN}: {middle} or fewer": unknown <= middle, f"{UNKNOWN}: more": unknown > middle}
    return {}
