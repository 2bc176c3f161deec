"""Compute ROUGE with confidence intervals and a signature, in Python or with the original script ROUGE-1.5.5.pl.

The metrics are defined in Lin, "ROUGE: a package for automatic evaluation of summaries" (2004), sections 2 and 3.2. The
Python implementation uses the package rouge-score, which assigns the same scores to each pair as ROUGE-1.5.5.pl. In
both, text is lower-cased, and words are sequences of a-z and 0-9, unless the setting ``tokens`` is "words" or
"characters". Only rouge-score lower-cases "İ" (U+0130) and the Kelvin sign (U+212A) to i and k.

Only ROUGE-L depends on sentence boundaries: each sentence of the reference is matched with each sentence of the
hypothesis, and the union of the matches is counted. A line with sentence marks is split only at the marks, which are
never scored. Any other line is split with the rules of nltk's Punkt without a trained model, wherever white space
follows ``.``, ``!`` or ``?`` and closing quotes, even in "dr. smith came.", so marks are preferable.

rouge-score and nltk are imported inside the functions that use them, because this takes more than a second.
"""

import functools
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple, Union

import numpy as np
from tabulate import tabulate
from tqdm import tqdm

from ..platform.processes import map_in_processes
from ..text.words import LATIN, TOKENS, find_words
from ..version import get_version
from .perl_rouge import find_perl_rouge, find_rouge_home, make_signature, read_irregular_forms, score_with_perl
from .resampling import bootstrap_intervals
from .summaries import SENTENCE_MARK, check_line_counts, split_summary_into_sentences, truncate_sentences

RESAMPLES = 1000
SEED = 12345
BACKENDS = ("python", "perl")
MULTI_CHOICES = ("best", "average")
METRICS = ("rouge1", "rouge2", "rougeL")
"""Metrics that are computed by default."""
FIGURES = {"f1": "F1", "precision": "P", "recall": "R"}
"""Mapping from the values of each metric to their names in tables. Arrays of scores have the same order."""
# Mapping from this project's metric names to the names in rouge-score, where "rougeL" treats a summary as one sentence.
_PYTHON_NAMES = {"rougeL": "rougeLsum", "rougeLjoined": "rougeL", **{f"rouge{n}": f"rouge{n}" for n in range(1, 10)}}
_PERL_METRICS = ("rougeL", "rougeSU4", *(f"rouge{n}" for n in range(1, 10)))


@dataclass(frozen=True)
class Score:
    """Mean scores of a metric, from 0 to 100, with 95 % confidence intervals (low, high), or None without resamples."""

    f1: float
    precision: float
    recall: float
    f1_interval: Optional[Tuple[float, float]] = None
    precision_interval: Optional[Tuple[float, float]] = None
    recall_interval: Optional[Tuple[float, float]] = None


def align_columns(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a table for a terminal, without columns in which all cells are "-". Only the first is aligned left."""
    heads, *rows = zip(*(column for column in zip(heads, *rows) if {*column[1:]} != {"-"}))
    return tabulate(rows, heads, "plain", disable_numparse=True, colalign=["left", *["right"] * (len(heads) - 1)])


def format_interval(interval: Optional[Sequence[float]], form: str = ".2f") -> str:
    """Format an interval for a table. ``form`` is the format of its two numbers."""
    return "-" if interval is None else f"[{interval[0]:{form}}, {interval[1]:{form}}]"


@dataclass(frozen=True)
class RougeReport:
    """ROUGE scores of a system.

    Args:
        scores: mapping from metric names, such as "rouge1", to their mean scores.
        signature: line of text that describes everything that affects the scores.
        n: number of pairs of a hypothesis and its references.
        empty: number of empty hypotheses.
    """

    scores: Dict[str, Score]
    signature: str
    n: int
    empty: int

    def to_dict(self) -> Dict[str, Any]:
        """Return the report as a dictionary of JSON types. Intervals are pairs."""
        return asdict(self)

    def format_table(self, interval: str = "f1") -> str:
        """Format the scores as a table, followed by the number of empty hypotheses and the signature.

        ``interval`` is the value whose confidence interval is shown, one of the keys of ``FIGURES``.
        """
        heads, rows = ["metric", "F1", "P", "R", f"95 % interval of {FIGURES[interval]}"], []
        for name, score in self.scores.items():
            means = [f"{mean:.2f}" for mean in (score.f1, score.precision, score.recall)]
            rows.append([f"ROUGE-{name[5:]}", *means, format_interval(getattr(score, f"{interval}_interval"))])
        return "\n".join([align_columns(heads, rows), f"{self.empty} of {self.n} hypotheses are empty", self.signature])


@dataclass(frozen=True)
class RougeSettings:
    """Settings for computing ROUGE.

    Args:
        metrics: names of the metrics. Valid names are "rouge1" … "rouge9", "rougeL" (summary-level), "rougeLjoined"
            (treats the summary as one sentence; Python only) and "rougeSU4" (skip-bigrams and unigrams; Perl only).
        stem: whether to compare Porter stems instead of words.
        irregular: whether to replace irregular forms with their base forms (children: child) before stemming, according
            to the WordNet lists of ROUGE-1.5.5.pl. None selects the default of the backend: True for "perl", and False
            for "python". This setting has no effect without ``stem``.
        sentence_mark, split_sentences: how to split summaries into sentences (see
            :func:`.summaries.split_summary_into_sentences`).
        backend: implementation to use, either "python" or "perl".
        multi: method of combining several references. "best" uses the reference with the highest F1 for each pair and
            metric. "average" sums the matches and n-grams over all references, which is the default of ROUGE-1.5.5.pl
            (``-f A``).
        byte_limit: maximum number of bytes in each hypothesis and reference (75 in DUC-2004). Longer texts are
            truncated.
        tokens: kind of words that are counted, a key of :data:`~fairseq_etads.text.words.TOKENS`. Stems replace
            only words in ASCII.
        rouge_home: path of the folder with ROUGE-1.5.5.pl and its data. If None, :mod:`.perl_rouge` searches for the
            folder.

    Raises:
        ValueError: the backend or the value of ``multi`` is unknown, the backend does not support a metric, or the byte
            limit is less than 1. If ROUGE-1.5.5.pl is missing, the error is raised only when the script is needed.
    """

    metrics: Tuple[str, ...] = METRICS
    stem: bool = True
    irregular: Optional[bool] = None
    sentence_mark: Union[str, Tuple[str, ...]] = SENTENCE_MARK
    split_sentences: bool = True
    backend: str = "python"
    multi: str = "best"
    byte_limit: Optional[int] = None
    tokens: str = LATIN
    rouge_home: Optional[str] = None

    def __post_init__(self) -> None:
        for option, several in (("backend", BACKENDS), ("multi", MULTI_CHOICES), ("tokens", tuple(TOKENS))):
            text = getattr(self, option)
            if text not in several:
                raise ValueError(f'{option} "{text}": choose {" or ".join(several)}')
        known = _PYTHON_NAMES if self.backend == "python" else _PERL_METRICS
        if not self.metrics:
            raise ValueError("metrics: choose one or more")
        for name in self.metrics:
            if name not in known:
                choices = ", ".join(known_name[5:] for known_name in sorted(known))
                raise ValueError(f'metric "{name[5:] or name}": backend {self.backend} has {choices}')
        if self.byte_limit is not None and self.byte_limit < 1:
            raise ValueError(f"--bytes {self.byte_limit}: choose 1 or more")
        if self.tokens != LATIN and self.backend == "perl":
            raise ValueError(f"tokens {self.tokens}: ROUGE-1.5.5.pl counts only {LATIN}; choose backend python")
        if self.irregular is None or not self.stem:
            object.__setattr__(self, "irregular", self.stem and self.backend == "perl")

    @functools.cached_property
    def perl(self) -> Path:
        """The folder that contains ROUGE-1.5.5.pl."""
        return find_perl_rouge(self.rouge_home)

    @property
    def tokenizer(self) -> "_StemCachingTokenizer":
        """Tokeniser that splits text into words. Each process creates only one, because it caches stems."""
        return _get_cached_tokenizer(self.stem, bool(self.irregular), self.rouge_home, self.tokens)

    def prepare(self, text: str) -> List[str]:
        """Split a summary into sentences, and truncate the summary to ``byte_limit`` bytes."""
        return truncate_sentences(
            split_summary_into_sentences(text, self.sentence_mark, self.split_sentences), self.byte_limit
        )

    def signature(self, references: int) -> str:
        """Return a line that describes these settings and the software, for ``references`` per hypothesis."""
        marks = [self.sentence_mark] if isinstance(self.sentence_mark, str) else self.sentence_mark
        mark = ",".join(dict.fromkeys([*marks, SENTENCE_MARK])) if self.sentence_mark else ""
        mark = mark.encode("unicode_escape").decode("ascii")
        if self.split_sentences:
            split = f"mark {mark}, else punkt" if mark else "punkt"
        else:
            split = f"none, mark {mark} dropped" if mark else "none"
        if self.backend == "perl":
            fields = [make_signature(self.perl), f"nltk:{metadata.version('nltk')}"]
        else:  # the stemmer and the Punkt rules are part of nltk
            fields = [f"backend:rouge-score-{metadata.version('rouge-score')}", f"nltk:{metadata.version('nltk')}"]
        stem = ("irregular+porter" if self.irregular else "porter") if self.stem else "no"
        fields += [f"stem:{stem}", f"tok:{self.tokens}", f"split:{split}"]
        fields += [f"refs:{references}" + (f",{self.multi}" if references > 1 else "")]
        return "|".join(fields + ([f"bytes:{self.byte_limit}"] if self.byte_limit else []))


class _StemCachingTokenizer:
    """Tokeniser for rouge-score with a cache of stems. Base forms from ``irregular`` are used in place of stems."""

    def __init__(self, stem: bool, irregular: Dict[str, str], tokens: str):
        from nltk.stem.porter import PorterStemmer
        from rouge_score import tokenize

        self._tokenize, self._tokens = tokenize.tokenize, tokens
        self.stemmer = None
        if stem:
            porter = PorterStemmer()
            # Like ROUGE-1.5.5.pl, rouge-score stems only words with more than three letters.
            cached = functools.lru_cache(maxsize=200_000)(lambda word: irregular.get(word) or porter.stem(word))
            self.stemmer = SimpleNamespace(stem=cached)

    def tokenize(self, text: str) -> List[str]:
        """Return the words of a text, or their stems. rouge-score calls this method."""
        if self._tokens == LATIN:
            words: List[str] = self._tokenize(text, self.stemmer)
            return words
        words = find_words(text, self._tokens)
        return [self.stemmer.stem(w) if len(w) > 3 and w.isascii() else w for w in words] if self.stemmer else words


@functools.cache
def _get_cached_tokenizer(stem: bool, irregular: bool, home: Optional[str], tokens: str) -> _StemCachingTokenizer:
    return _StemCachingTokenizer(stem, read_irregular_forms(find_rouge_home(home)) if irregular else {}, tokens)


@functools.cache
def _get_cached_scorer(settings: RougeSettings) -> Any:
    """Return rouge-score's scorer for the metrics in ``settings``. Each process creates this scorer only once."""
    from rouge_score import rouge_scorer

    names = [_PYTHON_NAMES[name] for name in settings.metrics]
    return rouge_scorer.RougeScorer(names, tokenizer=settings.tokenizer)


def _combine_reference_scores(scores: np.ndarray, sizes: np.ndarray, multi: str) -> np.ndarray:
    """Combine scores (K, metrics, 3) against K references with ``sizes`` (K, metrics) n-grams, used by "average"."""
    if multi == "best":
        return scores[scores[:, :, 0].argmax(axis=0), np.arange(scores.shape[1])]
    # The number of matches is the product of the recall and the number of n-grams in the reference. The n-grams of the
    # hypothesis are counted once per reference.
    recall = (scores[:, :, 2] * sizes).sum(axis=0) / np.maximum(sizes.sum(axis=0), 1)
    precision = scores[:, :, 1].mean(axis=0)
    f1 = 2 * precision * recall / np.maximum(precision + recall, np.finfo(float).tiny)
    return np.stack([f1, precision, recall], axis=1)


def score_pair(texts: Sequence[Sequence[str]], settings: RougeSettings) -> np.ndarray:
    """Score a hypothesis against its references with the Python implementation.

    ``texts`` contains the hypothesis, followed by its references, each as a list of sentences. Returns F1, precision
    and recall of each metric, shape (metrics, 3), in [0, 1].
    """
    hypothesis, *references = ("\n".join(sentences) for sentences in texts)
    scorer, names = _get_cached_scorer(settings), [_PYTHON_NAMES[name] for name in settings.metrics]
    scores, sizes = [], []
    for reference in references:
        found = scorer.score(reference, hypothesis)
        scores.append([[found[name].fmeasure, found[name].precision, found[name].recall] for name in names])
        if settings.multi == "average":
            words = len(settings.tokenizer.tokenize(reference))
            orders = [int(name[5:]) if name[5:].isdigit() else 1 for name in names]
            sizes.append([max(words - order + 1, 0) for order in orders])
    return _combine_reference_scores(np.array(scores), np.array(sizes), settings.multi)


def _split_into_sentences(texts: Sequence[str], settings: RougeSettings) -> List[List[str]]:
    """Split a hypothesis and its references into sentences."""
    hypothesis, *references = (settings.prepare(text) for text in texts)
    return [hypothesis, *([sentences for sentences in references if sentences] or references[:1])]


def _split_and_score_pair(texts: Sequence[str], settings: RougeSettings) -> np.ndarray:
    return score_pair(_split_into_sentences(texts, settings), settings)


def score_pairs(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    settings: RougeSettings,
    jobs: int = 1,
    progress: bool = False,
) -> np.ndarray:
    """Score all pairs of a hypothesis and its references.

    Args:
        hypotheses: n summaries to score.
        references: one or more sets of n texts. An empty text is ignored if another set has a non-empty one at its
            place.
        jobs: number of processes, which does not affect the result.
        progress: whether to show a progress bar if stderr is a terminal.

    Returns:
        An array with F1, precision and recall, shape (n, metrics, 3), in [0, 100].

    Raises:
        ValueError: there are no texts, the numbers of texts differ, or a string is given instead of a sequence of
            texts.
    """
    if any(isinstance(texts, str) for texts in [hypotheses, references, *references]):
        raise ValueError("hypotheses, and each set of references, must be a sequence of texts, not one text")
    check_line_counts(
        ["hypotheses", *(f"references {i}" for i in range(1, len(references) + 1))], [hypotheses, *references]
    )
    pairs = list(zip(hypotheses, *references))
    if settings.backend == "perl":
        prepared = [_split_into_sentences(texts, settings) for texts in pairs]
        average, irregular = settings.multi == "average", bool(settings.irregular)
        by_reference = score_with_perl(
            settings.perl, prepared, settings.metrics, settings.stem, irregular, average, jobs
        )
        return 100 * np.stack([_combine_reference_scores(scores, np.empty(0), "best") for scores in by_reference])
    # Import the libraries before the worker processes are forked, so that they are not imported in each process.
    _get_cached_scorer(settings)
    score = functools.partial(_split_and_score_pair, settings=settings)
    results: Iterable[Any] = map_in_processes(score, pairs, jobs)
    if progress:
        results = tqdm(results, total=len(pairs), desc="ROUGE", unit=" pairs", disable=None)
    return 100 * np.stack(list(results))


def make_report(
    scores: np.ndarray, hypotheses: Sequence[str], references: int, settings: RougeSettings, bootstrap: int, seed: int
) -> RougeReport:
    """Create a report from the scores that :func:`score_pairs` has returned for ``hypotheses``, shape (n, metrics, 3).

    ``references`` is the number of references per hypothesis. With ``bootstrap`` 0, there are no confidence intervals.
    """
    means = scores.mean(axis=0).tolist()
    intervals: List[Any] = [[] for _ in means]
    if bootstrap:
        low, high = bootstrap_intervals(scores, bootstrap, seed).tolist()
        intervals = [list(zip(low[m], high[m])) for m in range(len(means))]
    made = f"n:{len(scores)}|bootstrap:{bootstrap}|seed:{seed}|v:{get_version()}"
    mark = settings.sentence_mark
    return RougeReport(
        scores={name: Score(*means[m], *intervals[m]) for m, name in enumerate(settings.metrics)},
        signature=f"ROUGE|{settings.signature(references)}|{made}",
        n=len(scores),
        empty=sum(not split_summary_into_sentences(text, mark, split_sentences=False) for text in hypotheses),
    )


def rouge(
    hypotheses: Sequence[str],
    references: Union[Sequence[str], Sequence[Sequence[str]]],
    *,
    bootstrap: int = RESAMPLES,
    seed: int = SEED,
    jobs: int = 1,
    progress: bool = False,
    **settings: Any,
) -> RougeReport:
    """Score summaries against their references with ROUGE.

    Args:
        hypotheses: n summaries. An empty summary receives a score of 0 and is included in the means.
        references: n texts, or several sets of n texts, which are combined as specified by the setting ``multi``. An
            empty text means that the reference is missing. A summary without any reference receives a score of 0.
        bootstrap: number of bootstrap resamples for the confidence intervals. 0 disables the intervals.
        jobs: number of processes, which does not affect the result.
        progress: whether to show a progress bar if stderr is a terminal.
        settings: keyword arguments of :class:`RougeSettings`.

    Raises:
        ValueError: there are no texts, their numbers differ, or a string is given instead of a sequence of texts.
        TypeError: one of the settings does not exist.
    """
    chosen = RougeSettings(**settings)
    sets: Any = [references] if all(isinstance(text, str) for text in references) else list(references)
    scores = score_pairs(hypotheses, sets, chosen, jobs, progress)
    return make_report(scores, hypotheses, len(sets), chosen, bootstrap, seed)
