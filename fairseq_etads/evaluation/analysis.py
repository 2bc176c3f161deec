"""Analyse the length, n-grams, copied bigrams and evidence of summaries, create simple extracts, and draw plots.

N-grams can cross sentence boundaries. Each value for a system is a mean over all summaries for which the value is
defined. For example, trigram statistics are undefined for a summary that contains only two words. Plots need matplotlib
(extra ``plots``), which is imported when a plot is drawn.
"""

import contextlib
import functools
import logging
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

import numpy as np

from ..files.outputs import make_temporary_output
from ..text.subsequences import iterate_ngrams
from ..text.words import find_words
from .evidence import EvidenceFinder
from .rouge import RougeSettings
from .summaries import SENTENCE_MARK, SentenceMark, split_summary_into_sentences

NGRAM_ORDERS = (1, 2, 3, 4)
TENTHS = 10
WORD_SPLITTERS: Dict[str, Callable[[str], List[str]]] = {
    "words": find_words,
    "space": str.split,
    "characters": functools.partial(find_words, tokens="characters"),
}
"""Functions that split a text into words, by values of ``--words``; :data:`.TOKENS` describes two of them."""


class AnalysedDocument:
    """N-grams, numbers and words of a document, collected once and compared with the summaries of all systems.

    Args:
        words: list of words in the document.
        text: the document as a string, in which :attr:`evidence` is searched.
        sentence_mark: mark or marks between the sentences of ``text``.
    """

    def __init__(self, words: Sequence[str], text: str = "", sentence_mark: SentenceMark = SENTENCE_MARK):
        self.evidence = EvidenceFinder(text, sentence_mark)
        self._bigram_positions: Dict[Tuple[str, ...], List[int]] = {}
        for position, bigram in enumerate(iterate_ngrams(words, 2)):
            self._bigram_positions.setdefault(bigram, []).append(position)
        self._bigrams = len(words) - 1
        self._grams = {order: set(iterate_ngrams(words, order)) for order in NGRAM_ORDERS}
        self._joined = " ".join(["", *words, ""])

    def compute_novel_ngram_share(self, words: Sequence[str], order: int) -> Optional[float]:
        """Compute the fraction of the summary's n-grams that do not occur in the document (See et al. 2017, figure 6).

        For unigrams, the source copy rate of Nallapati et al. (2016), section 4, is 1 minus this fraction. The result
        is None if the summary contains no n-grams.
        """
        grams = list(iterate_ngrams(words, order))
        return sum(gram not in self._grams[order] for gram in grams) / len(grams) if grams else None

    def compute_novel_sentence_share(self, sentences: Sequence[Sequence[str]]) -> Optional[float]:
        """Compute the fraction of the summary's sentences, lists of words, that do not occur verbatim in the document.

        Empty sentences are ignored. The result is None if there are no other sentences.
        """
        real = [sentence for sentence in sentences if sentence]
        return sum(" ".join(["", *s, ""]) not in self._joined for s in real) / len(real) if real else None

    def count_copied_bigrams(self, words: Sequence[str]) -> np.ndarray:
        """Count the bigrams that each tenth of the document shares with the summary, shape (10,).

        If a bigram occurs several times in the document, its count is divided equally among these occurrences.
        """
        tenths = np.zeros(TENTHS)
        for bigram in iterate_ngrams(words, 2):
            positions = self._bigram_positions.get(bigram, ())
            for position in positions:
                tenths[position * TENTHS // self._bigrams] += 1 / len(positions)
        return tenths


def compute_repeated_ngram_share(words: Sequence[str], order: int) -> Optional[float]:
    """Compute the fraction of a summary's n-grams that repeat an earlier one, or None without n-grams."""
    grams = list(iterate_ngrams(words, order))
    return 1 - len(set(grams)) / len(grams) if grams else None


@dataclass(frozen=True)
class Analysis:
    """Statistics about the summaries that a system has generated.

    Args:
        figures: mapping from the names of statistics to their means over the summaries for which they are defined. The
            mean is None if the statistic is undefined for all summaries. Fractions are given as percentages.
        counted: mapping from the names of statistics to the number of summaries for which they are defined.
        positions: percentage of the copied bigrams that comes from each tenth of the documents.
    """

    figures: Dict[str, Optional[float]]
    counted: Dict[str, int]
    positions: List[float]


def analyse_summary(
    source: AnalysedDocument, sentences: Sequence[Sequence[str]], texts: Sequence[str] = ()
) -> Dict[str, Optional[float]]:
    """Compute the statistics of a summary, in per cent except for its lengths; None if a statistic is undefined.

    ``sentences`` are lists of words, and ``texts`` the same sentences as strings, for which evidence is searched.
    """
    words = [word for sentence in sentences for word in sentence]
    novel_words = source.compute_novel_ngram_share(words, 1)
    found = [source.evidence.find(text) for text in texts if text.strip()]
    shares: Dict[str, Optional[float]] = {"copy rate": None if novel_words is None else 1 - novel_words}
    for order in NGRAM_ORDERS:
        shares[f"novel {order}-grams"] = source.compute_novel_ngram_share(words, order)
    shares["novel sentences"] = source.compute_novel_sentence_share(sentences)
    for order in NGRAM_ORDERS:
        shares[f"repeated {order}-grams"] = compute_repeated_ngram_share(words, order)
    for name, kind in (("new numbers", "number"), ("new names", "name")):
        with_new = sum(any(word.kind == kind for word in one.new) for one in found)
        shares[name] = with_new / len(found) if found else None
    shares["joined"] = sum(one.joined for one in found) / len(found) if found else None
    return {
        "words": len(words),
        "sentences": sum(map(bool, sentences)),
        **{name: None if share is None else 100 * share for name, share in shares.items()},
    }


def analyse_systems(
    documents: Iterable[str],
    systems: Mapping[str, Sequence[Sequence[str]]],
    split_words: Callable[[str], List[str]] = WORD_SPLITTERS["words"],
    sentence_mark: SentenceMark = SENTENCE_MARK,
) -> Dict[str, Analysis]:
    """Compute the statistics of several systems' summaries of the same documents, by the names of systems.

    Args:
        documents: the documents as strings.
        systems: the summaries of each system, by its name; a summary is a list of sentences.
        split_words: a function that splits a text into words, such as a value of :data:`WORD_SPLITTERS`.
        sentence_mark: mark or marks between the sentences of a document, which are not words.
    """
    rows: Dict[str, List[Dict[str, Optional[float]]]] = {name: [] for name in systems}
    tenths = {name: np.zeros(TENTHS) for name in systems}
    for number, document in enumerate(documents):
        sentences = split_summary_into_sentences(document, sentence_mark, split_sentences=False)
        source = AnalysedDocument([w for sentence in sentences for w in split_words(sentence)], document, sentence_mark)
        for name, summaries in systems.items():
            words = [split_words(sentence) for sentence in summaries[number]]
            rows[name].append(analyse_summary(source, words, summaries[number]))
            tenths[name] += source.count_copied_bigrams([word for sentence in words for word in sentence])
    analyses = {}
    for name, found in rows.items():
        defined = {figure: [value for row in found if (value := row[figure]) is not None] for figure in found[0]}
        analyses[name] = Analysis(
            figures={figure: float(np.mean(values)) if values else None for figure, values in defined.items()},
            counted={figure: len(values) for figure, values in defined.items()},
            positions=(100 * tenths[name] / (tenths[name].sum() or 1)).tolist(),
        )
    return analyses


def take_lead_words(sentences: Sequence[str], count: int) -> List[str]:
    """Return the first ``count`` words, between white space, of a document, as a list of sentences."""
    kept: List[str] = []
    for sentence in sentences:
        words = sentence.split()[:count]
        count -= len(words)
        if words:
            kept.append(" ".join(words))
    return kept


def find_greedy_oracle(
    sentences: Sequence[Sequence[str]], references: Sequence[Sequence[str]], limit: int
) -> List[int]:
    """Search greedily for the document sentences that form the best summary (Nallapati et al. 2017, section 3).

    The score of a selection is the sum of its ROUGE-1 and ROUGE-2 F1 scores against the reference for which this sum is
    largest. Each step adds the sentence that increases the score most, of equally good ones the first. The search ends
    when no sentence increases the score or when ``limit`` sentences have been chosen.

    Args:
        sentences, references: list of words in each sentence of the document, and in each reference summary.

    Returns:
        Indices of the chosen sentences, in the order of the document.
    """
    targets = [[Counter(iterate_ngrams(reference, order)) for order in (1, 2)] for reference in references]

    def compute_f1(hypothesis: "Counter[Any]", reference: "Counter[Any]") -> float:
        size = sum(hypothesis.values()) + sum(reference.values())
        return 2 * sum((hypothesis & reference).values()) / size if size else 0.0

    def score_sentences(numbers: Sequence[int]) -> float:
        words = [word for number in sorted(numbers) for word in sentences[number]]
        counts = [Counter(iterate_ngrams(words, order)) for order in (1, 2)]
        return max(sum(map(compute_f1, counts, target)) for target in targets)

    chosen: List[int] = []
    best = 0.0
    while len(chosen) < limit:
        rest = [number for number in range(len(sentences)) if number not in chosen]
        scores = [score_sentences([*chosen, number]) for number in rest]
        if not scores or max(scores) <= best:
            break
        best = max(scores)
        chosen.append(rest[scores.index(best)])
    return sorted(chosen)


def make_baseline_extract(
    kind: str, limit: int, document: str, references: Sequence[str], settings: RougeSettings
) -> List[str]:
    """Return an extract of a document as a list of sentences.

    ``kind`` is "lead" (the first ``limit`` sentences), "lead-words" (the first ``limit`` words) or "oracle" (at most
    ``limit`` sentences, which overlap most with the ``references``). Of the ROUGE settings, only the sentence mark and
    the tokeniser are used.
    """
    # Documents are split into sentences even with --no-sentence-split, because an extract consists of sentences.
    sentences = split_summary_into_sentences(document, settings.sentence_mark)
    if kind == "lead":
        return sentences[:limit]
    if kind == "lead-words":
        return take_lead_words(sentences, limit)
    texts = [" ".join(split_summary_into_sentences(reference, settings.sentence_mark)) for reference in references]
    words, wanted = (list(map(settings.tokenizer.tokenize, each)) for each in (sentences, texts))
    return [sentences[number] for number in find_greedy_oracle(words, wanted, limit)]


# The log level is set here, because another library may have lowered the level of the root logger.
logging.getLogger("matplotlib").setLevel(logging.WARNING)
PLOT_SUFFIXES = (".png", ".svg", ".pdf")


def check_matplotlib(what: str) -> None:
    """Raise ValueError if matplotlib is missing. ``what`` is the name of the option that requires it."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise ValueError(f"{what}: matplotlib is missing: pip install matplotlib") from None


@contextlib.contextmanager
def make_plots_reproducible() -> Iterator[None]:
    """Context manager that makes plots reproducible and prevents matplotlib from interpreting names as formulas."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "etads", "text.parse_math": False}):
        yield


def save_figure(figure: Any, path: str) -> None:
    """Write a figure to a file, whose suffix determines the format, without a timestamp and only when complete."""
    metadata = {"Date": None} if path.endswith(".svg") else {"CreationDate": None} if path.endswith(".pdf") else {}
    with make_temporary_output(path) as partial:
        figure.savefig(partial, format=Path(path).suffix[1:], metadata=metadata, dpi=150)


def add_legend(figure: Any, labelled: Dict[str, Any], **style: Any) -> None:
    """Add a legend below the panels of a figure, with labels and their lines. ``style`` is for matplotlib."""
    # Some versions of matplotlib omit labels that begin with an underscore, so the labels are inserted afterwards.
    legend = figure.legend(list(labelled.values()), ["label"] * len(labelled), loc="outside lower center", **style)
    for text, label in zip(legend.get_texts(), labelled):
        text.set_text(label)


def _draw_bars(axes: Any, systems: Dict[str, Any], names: Dict[str, str], title: str) -> None:
    """Draw a group of bars for each metric in ``names``, with one bar per system."""
    width = 0.8 / len(systems)
    for number, (system, values) in enumerate(systems.items()):
        places = [place + width * (number - (len(systems) - 1) / 2) for place in range(len(names))]
        axes.bar(places, [values["figures"][name] or 0 for name in names], width, label=system)
    axes.set_xticks(range(len(names)), list(names.values()))
    axes.set_title(title)
    axes.set_ylabel("per cent")


def draw_summary_analysis(systems: Dict[str, Any], path: str) -> None:
    """Plot novel n-grams and sentences (Aggregation Transformer, figure 5), repetition, and origins of copied bigrams.

    Identical values produce identical files. ``systems`` maps names to dictionaries with "figures" and "positions", as
    in :class:`.analysis.Analysis`. The suffix of ``path`` determines the file format.
    """
    # pyplot is not used, because it has global state and may open windows.
    from matplotlib.figure import Figure

    novel = {**{f"novel {n}-grams": f"{n}-grams" for n in NGRAM_ORDERS}, "novel sentences": "sentences"}
    repeated = {f"repeated {n}-grams": f"{n}-grams" for n in NGRAM_ORDERS}
    with make_plots_reproducible():
        figure = Figure(figsize=(15, 4.2), layout="constrained")
        left, middle, right = figure.subplots(1, 3)
        _draw_bars(left, systems, novel, "not in the document")
        _draw_bars(middle, systems, repeated, "repeated in the summary")
        labelled = {}
        for name, values in systems.items():
            (labelled[name],) = right.plot(
                range(1, TENTHS + 1), values["positions"], marker="o", markersize=3, label=name
            )
        right.set_title("origin of copied bigrams")
        right.set_xlabel("tenth of the document")
        right.set_ylim(bottom=0)
        add_legend(figure, labelled, ncols=min(len(labelled), 6))
        save_figure(figure, path)
