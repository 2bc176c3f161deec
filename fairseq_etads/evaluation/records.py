"""Read records of the scores of training runs, and test claims that one system is better than another.

docs/evaluation.md describes the files. The statistics are in :mod:`.resampling`.
"""

import json
import re
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from tqdm import tqdm

from ..files.inputs import read_lines
from ..platform.errors import InputError
from .resampling import assign_family_indices, bootstrap_intervals, compare_systems_over_runs, correct_p_values
from .rouge import METRICS, RESAMPLES, SEED

LEVEL = 0.05
LEAST_RUNS = 3
"""Number of training runs per system that a verdict requires."""
_RECORD = re.compile(r"(.+)-(\d+)\.jsonl?")
_UNTRAINED = re.compile(r"(lead|oracle|textrank|lexrank)-.*")  # a single record of these systems is enough
_DAMAGES = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


class Record(NamedTuple):
    """A run of a system.

    Attributes:
        scores: ROUGE-1, 2 and L (F1) and their mean for each document, shape (documents, 4).
        rouge: ROUGE-1, 2 and L of the run with their 95 % intervals over documents, shape (3, 3).
        signature: signature of the scores, if the record has one.
    """

    scores: np.ndarray
    rouge: np.ndarray
    signature: str


class Corpus(NamedTuple):
    """Records of a corpus by system, in the order of the seeds, and its test documents.

    ``families`` are the families of the documents, and ``counts`` marks those that count in tests, shape (documents,).
    """

    name: str
    systems: Dict[str, List[Record]]
    families: np.ndarray
    counts: np.ndarray

    def estimate_seed_deviation(self) -> float:
        """Estimate the standard deviation of mean ROUGE between seeds from the systems with enough runs, or NaN."""
        several = [records for records in self.systems.values() if len(records) >= LEAST_RUNS]
        variances = [np.var([run.scores[self.counts, 3].mean() for run in records], ddof=1) for records in several]
        return float(np.sqrt(np.mean(variances))) if variances else float("nan")


class Claim(NamedTuple):
    """A claim of a paper, in a table or section, that the system ``first`` is better than ``second``.

    ``published`` is the published difference in the mean of ROUGE-1, 2 and L. The systems are compared on ``corpora``
    (default: those without planned comparisons).
    """

    paper: str
    text: str
    first: str
    second: str
    where: str = ""
    published: Optional[float] = None
    corpora: Sequence[str] = ()


class Claims(NamedTuple):
    """Claims, titles of corpora in their order, and corpora on which all comparisons were planned."""

    claims: Sequence[Claim]
    corpora: Dict[str, str]
    planned: Sequence[str]


class Comparison(NamedTuple):
    """A claim tested on a corpus.

    Attributes:
        runs: number of runs of each system.
        has_enough_runs: whether these are enough for a verdict.
        difference, interval: differences in ROUGE-1, 2 and L and in their mean, first minus second, shape (4,), with
            95 % intervals, shape (2, 4).
        p, corrected: p-value of the mean, without and with Holm's correction.
    """

    claim: Claim
    corpus: str
    runs: Tuple[int, int]
    has_enough_runs: bool
    difference: np.ndarray
    interval: np.ndarray
    p: float
    corrected: float = 1.0

    @property
    def verdict(self) -> str:
        if not self.has_enough_runs:
            return "no verdict"
        found = "undecided" if self.corrected >= LEVEL else "holds" if self.difference[3] > 0 else "contradicted"
        published = self.claim.published
        return found if published is None or self.interval[1, 3] >= published else f"{found}, {published:+.2f} excluded"


def _read_record(path: Path) -> Record:
    """Read a record, or the scores of a run that ``etads-rouge --per-example`` wrote."""
    try:
        text = path.read_text(encoding="utf-8")
        lines = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else []
        f1 = {metric: [line[metric]["f1"] for line in lines] for metric in METRICS}
        content: Any = {"f1": f1} if lines else json.loads(text)
        scores = np.array([content["f1"][metric] for metric in METRICS], dtype=float).T  # (documents, 3)
        if scores.ndim != 2 or not len(scores) or not np.isfinite(scores).all():
            raise ValueError("no scores of documents")
        if "rouge" in content:  # the exact scores; the scores of documents may be rounded
            runs = [content["rouge"]["scores"][metric] for metric in METRICS]
            rouge = np.array([[run["f1"], *run["f1_interval"]] for run in runs], dtype=float).reshape(3, 3)
            signature = str(content["rouge"].get("signature", ""))
        else:
            rouge = np.stack([scores.mean(axis=0), *bootstrap_intervals(scores, RESAMPLES, SEED)], axis=1)
            signature = ""
    except _DAMAGES as error:
        reason = f"no {error}" if isinstance(error, KeyError) else error
        raise InputError(f"{path} is damaged or not a record ({reason})") from None
    return Record(np.concatenate([scores, scores.mean(axis=1, keepdims=True)], axis=1), rouge, signature)


def read_corpora(results: Path, names: Sequence[str]) -> Dict[str, Corpus]:
    """Read the records of the corpora with these names, or of all corpora. Corpora without records are left out.

    Raises InputError if there are no records, or if a file is damaged or does not match the others.
    """
    corpora = {}
    for name in names or sorted(path.name for path in results.iterdir() if path.is_dir()):
        systems: Dict[str, Dict[int, Record]] = {}
        documents = 0
        files = sorted((results / name).glob("*.json*"))
        for path, parts in [(path, parts) for path in files if (parts := _RECORD.fullmatch(path.name))]:
            record = _read_record(path)
            documents = documents or len(record.scores)
            if len(record.scores) != documents:
                raise InputError(f"{path} has scores of {len(record.scores)} documents, other records {documents}")
            if systems.setdefault(parts[1], {}).setdefault(int(parts[2]), record) is not record:
                raise InputError(f"{path}: another record has the same system and seed")
        families, counts = np.arange(documents), np.ones(documents, dtype=bool)
        path = results / f"{name}-families.tsv"
        if systems and path.is_file():
            lines = [line.split("\t") for line in read_lines(path)]
            if len(lines) != documents:
                raise InputError(f"{path} has {len(lines)} lines, but there are {documents} documents")
            families = assign_family_indices([line[0] for line in lines])
            counts = ~np.isin([line[-1] for line in lines], ("valid", "test", "seen"))
        if systems:
            runs = {system: [found[seed] for seed in sorted(found)] for system, found in systems.items()}
            corpora[name] = Corpus(name, runs, families, counts)
    if not corpora:
        raise InputError(f"{results}: no records in it ({names[0] if names else 'CORPUS'}/SYSTEM-SEED.json)")
    return corpora


def read_claims(path: Path) -> Claims:
    """Read a file of claims. Raises InputError if it is damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        claims = [Claim(**claim) for claim in content["claims"]]
        return Claims(claims, dict(content.get("corpora", {})), list(content.get("planned", [])))
    except _DAMAGES as error:
        raise InputError(f"{path} is damaged or not a list of claims ({error})") from None


def _compare(claim: Claim, corpus: Corpus, resamples: int) -> Comparison:
    """Compare the systems of a claim. Without enough runs, the interval reflects only the choice of documents."""
    names = claim.first, claim.second
    first, second = (np.stack([record.scores[corpus.counts] for record in corpus.systems[name]]) for name in names)
    runs = len(first), len(second)
    enough = all(number >= LEAST_RUNS or bool(_UNTRAINED.fullmatch(name)) for number, name in zip(runs, names))
    if not enough:
        first, second = first.mean(axis=0, keepdims=True), second.mean(axis=0, keepdims=True)
    elif 1 in runs:  # an untrained system: as if each run of the other system had been compared with it
        first, second = (np.repeat(scores, max(runs) // len(scores), axis=0) for scores in (first, second))
    families = np.unique(corpus.families[corpus.counts], return_inverse=True)[1]
    found = compare_systems_over_runs(first, second, resamples, SEED, families)
    unbounded = np.array([[-np.inf] * 4, [np.inf] * 4])  # for a single document or family
    interval = unbounded if found["interval"] is None else found["interval"]
    return Comparison(claim, corpus.name, runs, enough, found["difference"], interval, float(found["p_bootstrap"][3]))


def compare_claimed_systems(
    about: Claims, corpora: Dict[str, Corpus], resamples: int, only: Optional[str] = None
) -> List[Comparison]:
    """Compare the systems of all claims, or of the claims that are corrected together with those on corpus ``only``.

    p-values are corrected for the number of comparisons of the same paper with enough runs, on all corpora together.
    Corpora with planned comparisons are corrected separately, for all comparisons, with and without records.
    """
    tests = [
        (claim, corpus)
        for claim in about.claims
        for name, corpus in corpora.items()
        if (name in claim.corpora if claim.corpora else name not in about.planned)
        if only in (None, name) or not {only, name} & {*about.planned}
        if {claim.first, claim.second} <= corpus.systems.keys()
    ]
    progress = tqdm(tests, "comparisons", leave=False, disable=None)
    found = [_compare(claim, corpus, resamples) for claim, corpus in progress]
    groups: Dict[Tuple[str, str], List[int]] = {}
    for place, one in enumerate(found):
        if one.has_enough_runs:
            groups.setdefault((one.claim.paper, one.corpus * (one.corpus in about.planned)), []).append(place)
    for (paper, planned_on), places in groups.items():
        planned = sum(claim.paper == paper and planned_on in claim.corpora for claim in about.claims)
        values = [found[place].p for place in places] + [1.0] * (planned - len(places))
        for place, value in zip(places, correct_p_values(values)):
            found[place] = found[place]._replace(corrected=float(value))
    return found
