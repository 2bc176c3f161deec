"""ROUGE-1, ROUGE-2 and summary-level ROUGE-L with confidence intervals and a signature.

``rouge(hypotheses, references)`` for programs, ``etads-rouge HYP REF [REF ...]`` on a command line. The
measures are those of Lin, "ROUGE: a package for automatic evaluation of summaries" (2004), sections 2 and
3.2. Each pair is scored by the package rouge-score, which follows ROUGE-1.5.5.pl. As there, words are runs
of a-z and 0-9 after lower-casing; all other characters (Gigaword's ``#``, other scripts) separate words.

Sentences matter to ROUGE-L alone: each sentence of the reference is matched with each of the hypothesis, and
the matches are united. A summary is one line, and what is a sentence depends on that line alone:

* a line that holds the sentence mark is cut at the mark, and only there (a mark is never scored as a word);
* a line without it is cut by the rules of nltk's Punkt, untrained: after ``.``, ``!`` or ``?`` and closing
  quotes where white space follows. So is tokenised text: "a b . c d ." has two sentences. Untrained rules
  know no abbreviations but initials: "dr. smith came." becomes two. Write the mark where you can.
"""

import argparse
import functools
import json
import multiprocessing
import sys
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np
from nltk.stem.porter import PorterStemmer
from nltk.tokenize.punkt import PunktSentenceTokenizer
from rouge_score import rouge_scorer, tokenize, tokenizers
from tqdm import tqdm

SENTENCE_MARK = "<q>"
RESAMPLES = 1000
SEED = 12345
# Our name of a metric -> its name in rouge-score, whose own "rougeL" joins all sentences into one.
METRICS = {"rouge1": "rouge1", "rouge2": "rouge2", "rougeL": "rougeLsum"}
PUNKT = PunktSentenceTokenizer()  # untrained: its rules only


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

    def format_table(self) -> str:
        """An aligned table, the count of empty hypotheses and the signature; no newline at the end."""
        rows = [f"{'metric':<7} {'F1':>7} {'P':>7} {'R':>7}   95 % interval of F1"]
        for name, score in self.scores.items():
            means = f"{score.f1:7.2f} {score.precision:7.2f} {score.recall:7.2f}"
            rows.append(f"ROUGE-{name[5:]} {means}   [{score.low:.2f}, {score.high:.2f}]")
        return "\n".join([*rows, f"{self.empty} of {self.n} hypotheses are empty", self.signature])


class _Tokenizer(tokenizers.Tokenizer):
    """rouge-score's tokeniser with the stems remembered, because stemming each word anew takes long."""

    def __init__(self, stem: bool):
        self.stemmer = None
        if stem:
            self.stemmer = SimpleNamespace(stem=functools.lru_cache(maxsize=200_000)(PorterStemmer().stem))

    def tokenize(self, text: str) -> List[str]:
        return tokenize.tokenize(text, self.stemmer)


@functools.lru_cache(maxsize=None)
def _scorer(stem: bool) -> rouge_scorer.RougeScorer:
    """One scorer per process, so that worker processes need no set-up and stems are shared by all pairs."""
    return rouge_scorer.RougeScorer(list(METRICS.values()), tokenizer=_Tokenizer(stem))


def split_summary(text: str, sentence_mark: str = SENTENCE_MARK, split_sentences: bool = True) -> List[str]:
    """Sentences of one summary by the module's rules, without marks, blank sentences or extra white space.

    With an empty ``sentence_mark`` only Punkt cuts. Without ``split_sentences`` the text is one sentence.
    """
    if not split_sentences:
        parts = [text.replace(sentence_mark, " ") if sentence_mark else text]
    elif sentence_mark and sentence_mark in text:
        parts = text.split(sentence_mark)
    else:
        parts = PUNKT.tokenize(text)
    # A line break inside a sentence must not reach rouge-score, which cuts there.
    return [" ".join(part.split()) for part in parts if part.strip()]


def score_pair(texts: Sequence[str], stem: bool, cut: Dict[str, Any]) -> List[List[float]]:
    """Score one hypothesis, ``texts[0]``, against its references, ``texts[1:]``; ``cut`` is for split_summary.

    Returns a row (F1, precision, recall), each in [0, 1], for each of METRICS. Of several references the one
    with the highest F1 counts, for each metric by itself; this is rouge-score's ``score_multi``.
    """
    hypothesis, *references = ("\n".join(split_summary(text, **cut)) for text in texts)
    scores = _scorer(stem).score_multi(references, hypothesis)
    return [[scores[m].fmeasure, scores[m].precision, scores[m].recall] for m in METRICS.values()]


def _map(function: Any, items: Sequence[Any], jobs: int) -> Iterator[Any]:
    """Like ``map``, in ``jobs`` processes if more than one; the order, so the result, is the same."""
    if jobs == 1:
        yield from map(function, items)
        return
    with multiprocessing.Pool(jobs) as pool:
        yield from pool.imap(function, items, chunksize=64)


def bootstrap_intervals(scores: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """95 % confidence intervals of the means of ``scores`` (n, ...) over axis 0, as (2, ...): low and high.

    Percentile bootstrap: the 2.5th and 97.5th percentile of the means of ``resamples`` draws of n rows with
    replacement. All columns share the draws. One draw at a time keeps memory at the size of ``scores``.
    """
    rng = np.random.default_rng(seed)
    n = len(scores)
    means = np.empty((resamples, *scores.shape[1:]))
    for draw in range(resamples):
        times_drawn = np.bincount(rng.integers(n, size=n), minlength=n)
        means[draw] = np.tensordot(times_drawn, scores, axes=1) / n
    return np.percentile(means, [2.5, 97.5], axis=0)


def _signature(
    stem: bool, sentence_mark: str, split_sentences: bool, refs: int, n: int, bootstrap: int, seed: int
) -> str:
    """One line that names all that a score depends on beside the texts."""
    from . import __version__  # here, since the package may import this module before it sets the name

    mark = sentence_mark.encode("unicode_escape").decode("ascii")
    if split_sentences:
        split = f"mark {mark}, else punkt" if mark else "punkt"
    else:
        split = f"none, mark {mark} dropped" if mark else "none"
    fields = [
        f"backend:rouge-score-{metadata.version('rouge-score')}",
        f"nltk:{metadata.version('nltk')}",  # the stemmer and Punkt's rules are nltk's
        f"stem:{'yes' if stem else 'no'}",
        f"split:{split}",
        f"refs:{refs}|n:{n}|bootstrap:{bootstrap}|seed:{seed}|v:{__version__}",
    ]
    return "|".join(["ROUGE", *fields])


def _check_counts(names: Sequence[str], texts: Sequence[Sequence[str]]) -> None:
    """Raise ValueError unless all ``texts``, of which ``names`` tells, are equally long and not empty."""
    for name, lines in zip(names, texts):
        if not lines:
            raise ValueError(f"{name}: empty, nothing to score")
        if len(lines) != len(texts[0]):
            raise ValueError(f"counts differ: {names[0]} has {len(texts[0])} summaries, {name} has {len(lines)}")


def rouge(
    hypotheses: Sequence[str],
    references: Union[Sequence[str], Sequence[Sequence[str]]],
    *,
    stem: bool = True,
    sentence_mark: str = SENTENCE_MARK,
    split_sentences: bool = True,
    bootstrap: int = RESAMPLES,
    seed: int = SEED,
    jobs: int = 1,
    progress: bool = False,
) -> RougeReport:
    """Score ``hypotheses`` (n texts, one summary each) against ``references``.

    ``references`` is n texts, or several sets of n texts each, as files hold them; of several the one with
    the highest F1 counts, for each pair and metric. An empty reference scores 0, so it can stand where a set
    has none. An empty hypothesis scores 0 and takes part in the means. ``jobs`` processes share the work and
    do not change the result. ``progress`` shows a bar on stderr if that is a terminal.

    Raises ValueError if there is nothing to score, if counts differ, if a text stands where a sequence of
    texts belongs, if ``bootstrap`` or ``jobs`` is below 1 or ``seed`` below 0.
    """
    for option, value, least in (("bootstrap", bootstrap, 1), ("jobs", jobs, 1), ("seed", seed, 0)):
        if value < least:
            raise ValueError(f"{option} is {value}, must be {least} or more")
    one_set = all(isinstance(text, str) for text in references)
    sets: List[Any] = [references] if one_set else list(references)
    if any(isinstance(texts, str) for texts in [hypotheses, references, *sets]):
        raise ValueError("hypotheses, and each set of references, must be a sequence of texts, not one text")
    _check_counts(["hypotheses", *(f"references {i}" for i in range(1, len(sets) + 1))], [hypotheses, *sets])

    cut = {"sentence_mark": sentence_mark, "split_sentences": split_sentences}
    score = functools.partial(score_pair, stem=stem, cut=cut)
    results: Iterable[Any] = _map(score, list(zip(hypotheses, *sets)), jobs)
    if progress:
        results = tqdm(results, total=len(hypotheses), desc="ROUGE", unit=" pairs", disable=None)
    scores = 100 * np.array(list(results), dtype=float)  # (n, metric, F1 | precision | recall)
    means = scores.mean(axis=0).tolist()
    low, high = bootstrap_intervals(scores, bootstrap, seed).tolist()
    return RougeReport(
        scores={name: Score(*means[m], *zip(low[m], high[m])) for m, name in enumerate(METRICS)},
        signature=_signature(stem, sentence_mark, split_sentences, len(sets), len(scores), bootstrap, seed),
        n=len(scores),
        empty=sum(not split_summary(text, sentence_mark, split_sentences=False) for text in hypotheses),
    )


def read_lines(path: str) -> List[str]:
    """Lines of a UTF-8 file; OSError if it cannot be read, ValueError with the line's number if not UTF-8.

    Only a line feed ends a line: Python's ``splitlines`` would also cut at U+2028 or a form feed inside a
    summary, and all later lines would be scored against the wrong reference.
    """
    lines = Path(path).read_bytes().split(b"\n")
    if not lines[-1]:  # what follows the last line feed
        lines.pop()
    texts = []
    for number, line in enumerate(lines, start=1):
        try:
            texts.append(line.decode("utf-8"))
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}, line {number}: not valid UTF-8 ({error.reason})") from error
    return texts


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="etads-rouge",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description="ROUGE-1, ROUGE-2 and summary-level ROUGE-L, with 95 % confidence intervals.",
        epilog="""\
example:
  etads-rouge output.txt test.target
  etads-rouge output.txt reference1.txt reference2.txt --json scores.json

  The first file is the system's output. Each line is one summary; line i of one file belongs to line i
  of the others. With several reference files, the reference with the highest F1 counts, for each line and
  metric. "First sentence . <q> second one ." has two sentences; they matter to ROUGE-L only. A line without
  a mark is cut after . ! ? before white space, as in "a b . c d ."; as that also cuts after abbreviations,
  prefer the mark. Publish the signature with the scores: it names all that they depend on.""",
    )
    add = parser.add_argument
    add("hypothesis", metavar="HYP", help="the system's summaries, one per line")
    add("references", metavar="REF", nargs="+", help="reference summaries, one per line")
    add("--no-stem", action="store_true", help="compare words as they are, not their Porter stems")
    add("--sentence-mark", metavar="MARK", default=SENTENCE_MARK,
        help="separates sentences inside a line; '' for none (default: %(default)s)")  # fmt: skip
    add("--no-sentence-split", action="store_true", help="each line is one sentence; marks are dropped")
    add("--bootstrap", metavar="N", type=int, default=RESAMPLES, help="resamples (default: %(default)s)")
    add("--seed", metavar="N", type=int, default=SEED, help="of the resamples (default: %(default)s)")
    add("--jobs", metavar="N", type=int, default=1, help="processes; scores do not depend on it")
    add("--format", choices=["table", "json"], default="table", help="of stdout (default: %(default)s)")
    add("--json", metavar="FILE", help="write everything to FILE too, with the intervals of P and R")
    return parser


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run ``etads-rouge``; returns its exit code, 2 after an error, which is one line on stderr."""
    args = _parser().parse_args(argv)
    try:
        names = [args.hypothesis, *args.references]
        texts = [read_lines(name) for name in names]
        _check_counts(names, texts)
        report = rouge(
            texts[0], texts[1:], stem=not args.no_stem, sentence_mark=args.sentence_mark,
            split_sentences=not args.no_sentence_split, bootstrap=args.bootstrap, seed=args.seed,
            jobs=args.jobs, progress=True,
        )  # fmt: skip
        files = {"hypothesis_file": names[0], "reference_files": names[1:]}
        as_json = json.dumps({**files, **report.to_dict()}, indent=2)
        heading = "\n".join([f"hypothesis: {names[0]}", *(f"reference:  {name}" for name in names[1:])])
        print(as_json if args.format == "json" else f"{heading}\n\n{report.format_table()}")
        if args.json:
            Path(args.json).write_text(as_json + "\n", encoding="utf-8")
    except (OSError, ValueError) as error:
        print(f"etads-rouge: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
