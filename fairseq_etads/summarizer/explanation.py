"""The explanation of a summary as plain data.

In shapes, T is the number of summary tokens, S is the number of document tokens, and H is the number of heads. T and S
include the end symbols. Matrices are tuples of rows.
"""

import json
import math
from dataclasses import asdict, dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .explanation_page import frame, page
from .picked import ChosenSentence, Selection
from .surprisal import Surprisal

Row = Tuple[float, ...]
Matrix = Tuple[Row, ...]

SCHEMA = 1
"""Version of the format that :meth:`Explanation.to_dict` returns."""
LEAST = 0.001
"""Attention and copy probabilities below this value are omitted from :meth:`Explanation.to_dict`."""


@dataclass(frozen=True)
class SourceToken:
    """A token of the document as the model reads it.

    Attributes:
        text: the token, including subword marks.
        start, end: the position text[start:end] of the token in the raw document. None for the end symbol, or if the
            position cannot be determined because tokenisation changed the text too much.
        known: whether the model can generate the token without copying it.
    """

    text: str
    start: Optional[int]
    end: Optional[int]
    known: bool


@dataclass(frozen=True)
class SummaryToken:
    """A token of the summary.

    Attributes:
        text: the token, including subword marks.
        shown: the token without subword marks.
        starts_word: whether the token is the first subword of a word.
        log_probability: the log-probability of the token given the previous tokens, or -inf if the model cannot
            generate it.
        p_gen: the probability of generating the token instead of copying it, or None without a pointer.
        copied_share: the share of the token's probability that comes from copying, or None without a pointer.
        copied_from: the index of the document token that was copied, or None if the token was generated.
        replaces_unknown: whether the model generated the unknown word here. ``text`` is then the document word with the
            highest attention (``--replace-unknown``), or a word of a given summary that the model cannot generate.
    """

    text: str
    shown: str
    starts_word: bool
    log_probability: float
    p_gen: Optional[float]
    copied_share: Optional[float]
    copied_from: Optional[int]
    replaces_unknown: bool = False

    @property
    def probability(self) -> float:
        return math.exp(self.log_probability)


@dataclass(frozen=True)
class SaliencyLayer:
    """The saliency gate of a decoder layer.

    Attributes:
        layer: the 1-based index of the layer.
        gate: the gate g_ij of each document token (S,), averaged over heads and summary tokens.
    """

    layer: int
    gate: Row


@dataclass(frozen=True)
class FocusLayer:
    """The centres and scopes of focus-attention in an encoder layer.

    Attributes:
        layer: the 1-based index of the layer.
        centers: the centres mu (H, S), as 0-based token positions.
        scopes: the scopes sigma (H, S), in tokens.
        strengths: the factor by which each head multiplies the bias (H,), or None if the model does not learn these
            factors.
    """

    layer: int
    centers: Matrix
    scopes: Matrix
    strengths: Optional[Row]


@dataclass(frozen=True)
class Explanation:
    """The probabilities and attention weights with which a model generates a summary.

    They are computed in one forward pass over the document and the summary, in float32 and without decoding options
    such as temperature or penalties.

    Attributes:
        document: the raw text of the document.
        source: the tokens of the document that the model read. The last one is the end symbol. Empty if the document
            contains no words.
        left_out: the number of tokens in the document that the model did not read.
        summary: the text of the summary.
        tokens: the tokens of the summary as the model generated them. The last one is the end symbol.
        score: the score of the summary in the search, or None if the summary was given or chosen.
        architecture: the name of the model's architecture.
        pointer: the type of pointer: "none", "soft" or "switch".
        saliency_gate: the variant of the saliency gate, or None without saliency-selection.
        attention: the attention weights (T, S). Each row sums to 1. For Transformers, these are the weights in the last
            decoder layer before any gate is applied, averaged over heads.
        copying: the copy distributions (T, S). Each row sums to 1. None without a pointer.
        saliency: the gate g_ij (T, S), averaged over layers and heads. Values are between 0 and 1 if ``saliency_gate``
            is "sigmoid". Otherwise, they are between 0 and 2, and 1 leaves attention unchanged. None without
            saliency-selection.
        selected: the gated attention weights g_ij a_ij (T, S), averaged over layers and heads. The decoder reads the
            document with these weights. None without saliency-selection.
        saliency_layers, focus_layers: the layers with the respective mechanism.
        picked: the sentences that an extractor selected from the whole document, or None without an extractor. The
            model read only these sentences.
        surprisal: the document's surprisal compared with the training documents, or None if it is unknown.
        chosen: the sentences of the summary if a content model chose them from the document and all hypotheses, or
            None. If they were chosen, all other values describe this text, which may not be a hypothesis of the model.
    """

    document: str
    source: Tuple[SourceToken, ...]
    left_out: int
    summary: str
    tokens: Tuple[SummaryToken, ...]
    score: Optional[float]
    architecture: str
    pointer: str
    saliency_gate: Optional[str]
    attention: Optional[Matrix]
    copying: Optional[Matrix]
    saliency: Optional[Matrix]
    selected: Optional[Matrix]
    saliency_layers: Tuple[SaliencyLayer, ...] = ()
    focus_layers: Tuple[FocusLayer, ...] = ()
    picked: Optional[Selection] = None
    surprisal: Optional[Surprisal] = None
    chosen: Optional[Tuple[ChosenSentence, ...]] = None

    @property
    def log_probability(self) -> float:
        """Return the log-probability of the summary with its end symbol, or 0 if there are no tokens."""
        return math.fsum(token.log_probability for token in self.tokens)

    @property
    def coverage(self) -> Optional[Row]:
        """Return the total attention weight of each document token (S,), summed over summary tokens."""
        return None if self.attention is None else _sum_of_rows(self.attention)

    @property
    def copy_coverage(self) -> Optional[Row]:
        """Return the sum of (1 - p_gen) a_j over the summary tokens, for each document token (S,).

        This is the amount of copying from each document token.
        """
        if self.copying is None:
            return None
        shares = (1.0 - (token.p_gen if token.p_gen is not None else 1.0) for token in self.tokens)
        return _sum_of_rows(tuple(tuple(share * a for a in row) for share, row in zip(shares, self.copying)))

    @property
    def saliency_of_source(self) -> Optional[Row]:
        """Return the gate g_ij of each document token (S,), averaged over summary tokens, layers and heads."""
        if not self.saliency:
            return None
        return tuple(total / len(self.saliency) for total in _sum_of_rows(self.saliency))

    def to_dict(self, least: float = LEAST) -> Dict[str, Any]:
        """Convert the explanation to a dictionary of JSON types. Numbers are rounded to three or four digits.

        The rows of "attention", "copying" and "selected" are lists of pairs [j, weight].

        Args:
            least: weights below this value are omitted from these rows. The sums, such as "coverage", include all
                weights.
        """
        return {
            "schema": SCHEMA,
            "document": self.document,
            "summary": self.summary,
            "architecture": self.architecture,
            "pointer": self.pointer,
            "saliency_gate": self.saliency_gate,
            "score": _rounded(self.score),
            "log_probability": _rounded(self.log_probability),
            "left_out": self.left_out,
            "source": [asdict(token) for token in self.source],
            "tokens": [_token(token) for token in self.tokens],
            "least": least,
            "attention": _sparse(self.attention, least),
            "copying": _sparse(self.copying, least),
            "coverage": _rounded_row(self.coverage),
            "copy_coverage": _rounded_row(self.copy_coverage),
            "saliency": _optional(_rounded_rows, self.saliency),
            "selected": _sparse(self.selected, least),
            "saliency_of_source": _rounded_row(self.saliency_of_source),
            "saliency_layers": [{"layer": x.layer, "gate": _rounded_row(x.gate)} for x in self.saliency_layers],
            "focus_layers": [
                {
                    "layer": x.layer,
                    "centers": _rounded_rows(x.centers, 2),
                    "scopes": _rounded_rows(x.scopes, 2),
                    "strengths": _rounded_row(x.strengths),
                }
                for x in self.focus_layers
            ],
            **({} if self.picked is None else {"picked": self.picked.to_dict()}),
            **({} if self.surprisal is None else {"surprisal": self.surprisal.to_dict()}),
            **({} if self.chosen is None else {"chosen": [asdict(sentence) for sentence in self.chosen]}),
        }

    def to_json(self, least: float = LEAST) -> str:
        """Convert the explanation to one line of ASCII-only JSON."""
        return json.dumps(self.to_dict(least), separators=(",", ":"), allow_nan=False)

    def to_html(self, title: str = "") -> str:
        """Convert the explanation to a self-contained HTML page that works offline; see docs/explain.md.

        Args:
            title: the page title, such as the document name.
        """
        return page(self.to_dict(), title)

    def _repr_html_(self) -> str:
        """Return the page inside a frame, so that notebooks can display it."""
        return frame(self.to_dict())


def _sum_of_rows(rows: Matrix) -> Row:
    return tuple(math.fsum(column) for column in zip(*rows))


def _rounded(value: Optional[float], digits: int = 4) -> Optional[float]:
    """Round a value. Returns None if the value is None or cannot be represented in JSON."""
    return None if value is None or not math.isfinite(value) else round(value, digits)


def _rounded_row(row: Optional[Row], digits: int = 3) -> Optional[List[Optional[float]]]:
    return None if row is None else [_rounded(value, digits) for value in row]


def _rounded_rows(rows: Matrix, digits: int = 3) -> List[Optional[List[Optional[float]]]]:
    return [_rounded_row(row, digits) for row in rows]


def _optional(change: Callable[[Matrix], Any], rows: Optional[Matrix]) -> Any:
    return None if rows is None else change(rows)


def _sparse(rows: Optional[Matrix], least: float) -> Optional[List[List[Tuple[int, float]]]]:
    return None if rows is None else [sparse_row(row, least) for row in rows]


def sparse_row(row: Sequence[float], least: float, digits: int = 4) -> List[Tuple[int, float]]:
    """Return pairs of an index and a rounded weight. Weights that are 0 or below ``least`` are omitted."""
    return [(j, round(x, digits)) for j, x in enumerate(row) if x >= least and round(x, digits) > 0]


def _token(token: SummaryToken) -> Dict[str, Any]:
    numbers = {"probability": token.probability, "p_gen": token.p_gen, "copied_share": token.copied_share}
    return {
        "text": token.text,
        "shown": token.shown,
        "starts_word": token.starts_word,
        "log_probability": _rounded(token.log_probability),
        **{name: _rounded(value) for name, value in numbers.items()},
        "copied_from": token.copied_from,
        "replaces_unknown": token.replaces_unknown,
    }
