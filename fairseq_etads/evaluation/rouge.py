"""ROUGE with confidence intervals and a signature; scored in Python, or by ROUGE-1.5.5.pl itself.

The measures are those of Lin, "ROUGE: a package for automatic evaluation of summaries" (2004), sections 2 and 3.2. In
Python each pair is scored by the package rouge-score, which follows ROUGE-1.5.5.pl. As there, words are runs of a-z and
0-9 after lower-casing; all other characters (Gigaword's ``#``, other scripts) separate words.

Sentences matter to ROUGE-L alone: each sentence of the reference is matched with each of the hypothesis, and the
matches are united. A summary is one line, and what is a sentence depends on that line alone:

* a line that holds the sentence mark is cut at the mark, and only there (a mark is never scored as a word);
* a line without it is cut by the rules of nltk's Punkt, untrained: after ``.``, ``!`` or ``?`` and closing quotes where
  white space follows. So is tokenised text: "a b . c d ." has two sentences. Untrained rules know no abbreviations but
  initials: "dr. smith came." becomes two. Write the mark where you can.
"""

import functools
import multiprocessing
from dataclasses import asdict, dataclass
from importlib import metadata
from types import SimpleNamespace
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np
from nltk.stem.porter import PorterStemmer
from rouge_score import rouge_scorer, tokenize, tokenizers
from tqdm import tqdm

from .. import __version__
from .perl import PerlRouge, find_home, find_perl_rouge, irregular_forms, perl_scores
from .resampling import bootstrap_intervals
from .text import SENTENCE_MARK, check_counts, split_summary, truncate_sentences

RESAMPLES = 1000
SEED = 12345
BACKENDS = ("python", "perl")
MULTI = ("best", "average")
METRICS = ("rouge1", "rouge2", "rougeL")
# Our name of a metric -> its name in rouge-score, whose own "rougeL" joins all sentences into one.
_PYTHON_NAMES = {"rougeL": "rougeLsum", "rougeLjoined": "rougeL", **{f"rouge{n}": f"rouge{n}" for n in range(1, 10)}}
_PERL_NAMES = ("rougeL", "rougeSU4", *(f"rouge{n}" for n in range(1, 10)))


def check_numbers(**numbers: Tuple[int, int]) -> None:
    """Raise ValueError for the first number (value, least) that is below its least."""
    for option, (value, least) in numbers.items():
        if value < least:
            raise ValueError(f"{option} is {value}, must be {least} or more")


@dataclass(frozen=True)
class Score:
    """Means over all pairs, from 0 to 100, each with the (low, high) ends of its 95 % confidence interval."""

    f1: float
    precision: float
    recall: float
    f1_interval: Tuple[float, float]
    precision_interval: Tuple[float, float]
    recall_interval: Tuple[float, float]

    low = property(lambda self: self.f1_interval[0], doc="Lower end of the interval of F1.")
    high = property(lambda self: self.f1_interval[1], doc="Upper end of the interval of F1.")


@dataclass(frozen=True)
class RougeReport:
    """Scores by metric ("rouge1", "rouge2", "rougeL"), how they were made, pairs, empty hypotheses."""

    scores: Dict[str, Score]
    signature: str
    n: int
    empty: int

    def to_dict(self) -> Dict[str, Any]:
        """Everything, as types that JSON knows; the two ends of an interval are a pair."""
        return asdict(self)

    def format_table(self, interval: str = "f1") -> str:
        """An aligned table, the count of empty hypotheses and the signature; no newline at the end.

        Args:
            interval: the figure whose interval is shown: "f1", "precision" or "recall".
        """
        names = {"f1": "F1", "precision": "P", "recall": "R"}
        width = max(7, *(len(f"ROUGE-{name[5:]}") for name in self.scores))
        rows = [f"{'metric':<{width}} {'F1':>7} {'P':>7} {'R':>7}   95 % interval of {names[interval]}"]
        for name, score in self.scores.items():
            means = f"{score.f1:7.2f} {score.precision:7.2f} {score.recall:7.2f}"
            low, high = getattr(score, f"{interval}_interval")
            rows.append(f"{'ROUGE-' + name[5:]:<{width}} {means}   [{low:.2f}, {high:.2f}]")
        return "\n".join([*rows, f"{self.empty} of {self.n} hypotheses are empty", self.signature])


@dataclass(frozen=True)
class Settings:
    """All that the score of a pair depends on beside the texts.

    Args:
        metrics: of "rouge1" … "rouge9", "rougeL" (summary-level), "rougeLjoined" (of the summary as one sentence;
            Python only), "rougeSU4" (skip-bigrams with unigrams; Perl only).
        stem: compare Porter stems.
        irregular: bring irregular forms to their base by WordNet's lists before stemming, as ROUGE-1.5.5.pl does and
            rouge-score does not; None: as the backend does by itself. The lists are those of ROUGE-1.5.5.pl.
        sentence_mark, split_sentences: see :func:`.text.split_summary`.
        backend: "python" or "perl".
        multi: of several references the "best", by F1, for each pair and metric; or their "average": matches and
            n-grams summed over the references, as ``ROUGE-1.5.5.pl -f A``, its default.
        byte_limit: of hypothesis and references alike, only so many first bytes count (DUC-2004: 75).
        rouge_home: directory of ROUGE-1.5.5.pl and its data.

    Raises:
        ValueError: an unknown metric, backend or way; one that the backend lacks; a limit below 1; no Perl.
    """

    metrics: Tuple[str, ...] = METRICS
    stem: bool = True
    irregular: Optional[bool] = None
    sentence_mark: str = SENTENCE_MARK
    split_sentences: bool = True
    backend: str = "python"
    multi: str = "best"
    byte_limit: Optional[int] = None
    rouge_home: Optional[str] = None

    def __post_init__(self) -> None:
        for option, text, several in (("backend", self.backend, BACKENDS), ("multi", self.multi, MULTI)):
            if text not in several:
                raise ValueError(f'{option} "{text}": choose {" or ".join(several)}')
        known = _PYTHON_NAMES if self.backend == "python" else _PERL_NAMES
        if not self.metrics:
            raise ValueError("metrics: choose one or more")
        for name in self.metrics:
            if name not in known:
                choices = ", ".join(known_name[5:] for known_name in sorted(known))
                raise ValueError(f'metric "{name[5:] or name}": backend {self.backend} has {choices}')
        if self.byte_limit is not None and self.byte_limit < 1:
            raise ValueError(f"byte limit is {self.byte_limit}, must be 1 or more")
        if self.irregular is None or not self.stem:
            object.__setattr__(self, "irregular", self.stem and self.backend == "perl")

    @functools.cached_property
    def perl(self) -> PerlRouge:
        """The installation of ROUGE-1.5.5.pl."""
        return find_perl_rouge(self.rouge_home)

    @property
    def tokenizer(self) -> "_Tokenizer":
        """From text to words; one per process, so that worker processes need no set-up and stems are shared."""
        return _tokenizer(self.stem, bool(self.irregular), self.rouge_home)

    def prepare(self, text: str) -> List[str]:
        """The sentences of a summary that count."""
        return truncate_sentences(split_summary(text, self.sentence_mark, self.split_sentences), self.byte_limit)

    def signature(self, references: int) -> str:
        """One line that names these settings and the versions of what computes the scores."""
        mark = self.sentence_mark.encode("unicode_escape").decode("ascii")
        if self.split_sentences:
            split = f"mark {mark}, else punkt" if mark else "punkt"
        else:
            split = f"none, mark {mark} dropped" if mark else "none"
        if self.backend == "perl":
            fields = [self.perl.signature(), f"nltk:{metadata.version('nltk')}"]
        else:  # the stemmer and Punkt's rules are nltk's
            fields = [f"backend:rouge-score-{metadata.version('rouge-score')}", f"nltk:{metadata.version('nltk')}"]
        stem = ("irregular+porter" if self.irregular else "porter") if self.stem else "no"
        fields += [f"stem:{stem}", "tok:a-z0-9", f"split:{split}"]
        fields += [f"refs:{references}" + (f",{self.multi}" if references > 1 else "")]
        return "|".join(fields + ([f"bytes:{self.byte_limit}"] if self.byte_limit else []))


class _Tokenizer(tokenizers.Tokenizer):
    """rouge-score's tokeniser with the stems remembered, because stemming each word anew takes long."""

    def __init__(self, stem: bool, irregular: Dict[str, str]):
        self.stemmer = None
        if stem:
            porter = PorterStemmer()
            # rouge-score asks for words of more than three letters only, as ROUGE-1.5.5.pl does
            once = functools.lru_cache(maxsize=200_000)(lambda word: irregular.get(word) or porter.stem(word))
            self.stemmer = SimpleNamespace(stem=once)

    def tokenize(self, text: str) -> List[str]:
        return tokenize.tokenize(text, self.stemmer)


@functools.lru_cache(maxsize=None)
def _tokenizer(stem: bool, irregular: bool, rouge_home: Optional[str]) -> _Tokenizer:
    return _Tokenizer(stem, irregular_forms(find_home(rouge_home)[0]) if irregular else {})


@functools.lru_cache(maxsize=None)
def _scorer(settings: Settings) -> rouge_scorer.RougeScorer:
    names = [_PYTHON_NAMES[name] for name in settings.metrics]
    return rouge_scorer.RougeScorer(names, tokenizer=settings.tokenizer)


def _combine(scores: np.ndarray, sizes: np.ndarray, multi: str) -> np.ndarray:
    """Scores with each reference (K, metric, 3), and the references' n-grams (K, metric) -> (metric, 3)."""
    if multi == "best":
        return scores[scores[:, :, 0].argmax(axis=0), np.arange(scores.shape[1])]
    # matches = recall x the reference's n-grams; the hypothesis has the same n-grams every time
    recall = (scores[:, :, 2] * sizes).sum(axis=0) / np.maximum(sizes.sum(axis=0), 1)
    precision = scores[:, :, 1].mean(axis=0)
    f1 = 2 * precision * recall / np.maximum(precision + recall, np.finfo(float).tiny)
    return np.stack([f1, precision, recall], axis=1)


def score_pair(texts: Sequence[Sequence[str]], settings: Settings) -> np.ndarray:
    """Score one hypothesis, ``texts[0]``, against its references, ``texts[1:]``, in Python; each a list of sentences.

    Returns (metric, 3): F1, precision, recall, each in [0, 1].
    """
    hypothesis, *references = ("\n".join(sentences) for sentences in texts)
    scorer, names = _scorer(settings), [_PYTHON_NAMES[name] for name in settings.metrics]
    scores, sizes = [], []
    for reference in references:
        found = scorer.score(reference, hypothesis)
        scores.append([[found[name].fmeasure, found[name].precision, found[name].recall] for name in names])
        if settings.multi == "average":
            words = len(settings.tokenizer.tokenize(reference))
            orders = [int(name[5:]) if name[5:].isdigit() else 1 for name in names]
            sizes.append([max(words - order + 1, 0) for order in orders])
    return _combine(np.array(scores), np.array(sizes), settings.multi)


def _map(function: Any, items: Sequence[Any], jobs: int) -> Iterator[Any]:
    """Like ``map``, in ``jobs`` processes if more than one; the order, so the result, is the same."""
    if jobs == 1:
        yield from map(function, items)
        return
    with multiprocessing.Pool(jobs) as pool:
        yield from pool.imap(function, items, chunksize=64)


def _prepare(texts: Sequence[str], settings: Settings) -> List[List[str]]:
    """The sentences of a hypothesis and of its references, without empty references; of empty ones alone, with one."""
    hypothesis, *references = (settings.prepare(text) for text in texts)
    return [hypothesis, *([sentences for sentences in references if sentences] or references[:1])]


def _prepare_and_score(texts: Sequence[str], settings: Settings) -> np.ndarray:
    return score_pair(_prepare(texts, settings), settings)


def pair_scores(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    settings: Settings,
    jobs: int = 1,
    progress: bool = False,
) -> np.ndarray:
    """The score of every pair, (n, metric, 3), in [0, 100]: F1, precision, recall.

    Args:
        hypotheses: n texts. references: one or more sets of n texts; an empty one beside others does not count.
        jobs: processes; they do not change the result. progress: show a bar on stderr if that is a terminal.

    Raises:
        ValueError: nothing to score; counts differ; a text stands where a sequence of texts belongs.
    """
    check_numbers(jobs=(jobs, 1))
    if any(isinstance(texts, str) for texts in [hypotheses, references, *references]):
        raise ValueError("hypotheses, and each set of references, must be a sequence of texts, not one text")
    check_counts(["hypotheses", *(f"references {i}" for i in range(1, len(references) + 1))], [hypotheses, *references])
    pairs = list(zip(hypotheses, *references))
    if settings.backend == "perl":
        prepared = [_prepare(texts, settings) for texts in pairs]
        average, irregular = settings.multi == "average", bool(settings.irregular)
        by_reference = perl_scores(settings.perl, prepared, settings.metrics, settings.stem, irregular, average, jobs)
        return 100 * np.stack([_combine(scores, np.empty(0), "best") for scores in by_reference])
    score = functools.partial(_prepare_and_score, settings=settings)
    results: Iterable[Any] = _map(score, pairs, jobs)
    if progress:
        results = tqdm(results, total=len(pairs), desc="ROUGE", unit=" pairs", disable=None)
    return 100 * np.stack(list(results))


def make_report(
    scores: np.ndarray, hypotheses: Sequence[str], references: int, settings: Settings, bootstrap: int, seed: int
) -> RougeReport:
    """The report on scores that :func:`pair_scores` made of ``hypotheses`` and so many ``references`` each."""
    check_numbers(bootstrap=(bootstrap, 1), seed=(seed, 0))
    means = scores.mean(axis=0).tolist()
    low, high = bootstrap_intervals(scores, bootstrap, seed).tolist()
    made = f"n:{len(scores)}|bootstrap:{bootstrap}|seed:{seed}|v:{__version__}"
    mark = settings.sentence_mark
    return RougeReport(
        scores={name: Score(*means[m], *zip(low[m], high[m])) for m, name in enumerate(settings.metrics)},
        signature=f"ROUGE|{settings.signature(references)}|{made}",
        n=len(scores),
        empty=sum(not split_summary(text, mark, split_sentences=False) for text in hypotheses),
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
    """Score ``hypotheses`` (n texts, one summary each) against ``references``.

    ``references`` is n texts, or several sets of n texts each, as files hold them; what counts of several is the
    setting ``multi``. An empty reference stands where a set has none and is left out; a text that has no other scores
    0. An empty hypothesis scores 0 and takes part in the means. ``jobs`` processes share the work and do not change the
    result. ``progress`` shows a bar on stderr if that is a terminal. ``settings`` are the arguments of
    :class:`Settings`.

    Raises ValueError if there is nothing to score, if counts differ, if a text stands where a sequence of texts
    belongs, if a number is too small or a setting unknown.
    """
    chosen = Settings(**settings)
    check_numbers(bootstrap=(bootstrap, 1), seed=(seed, 0), jobs=(jobs, 1))
    sets: Any = [references] if all(isinstance(text, str) for text in references) else list(references)
    scores = pair_scores(hypotheses, sets, chosen, jobs, progress)
    return make_report(scores, hypotheses, len(sets), chosen, bootstrap, seed)
