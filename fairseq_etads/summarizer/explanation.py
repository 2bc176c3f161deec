"""Data classes that represent the explanation of a summary.

In shapes, T is the number of summary tokens, S is the number of document tokens, and H is the number of heads. Both T
and S include the end symbol. Matrices are tuples of rows.
"""

import json
import math
from dataclasses import asdict, dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .explanation_page import make_frame, make_page
from .picked import ChosenSentence, Selection
from .surprisal import Surprisal

Row = Tuple[float, ...]
Matrix = Tuple[Row, ...]

SCHEMA = 1
"""Format version of the dictionary that :meth:`Explanation.to_dict` returns."""
LEAST = 0.001
"""Threshold below which :meth:`Explanation.to_dict` omits attention weights and copy probabilities."""


@dataclass(frozen=True)
class SourceToken:
    """A document token that the model reads.

    Attributes:
        text: token with its subword marks.
        start, end: position text[start:end] of the token in the raw document. Both are None for the end symbol, or if
            tokenisation changed the text too much to determine the position.
        known: whether the model can generate the token without copying it.
    """

    text: str
    start: Optional[int]
    end: Optional[int]
    known: bool


@dataclass(frozen=True)
class SummaryToken:
    """A token of the summary with its probability.

    Attributes:
        text: token with its subword marks.
        shown: token without its subword marks.
        starts_word: whether the token is the first subword of its word.
        log_probability: log-probability of the token given the previous tokens, or -inf if the model cannot generate
            it.
        p_gen: probability of generating the token instead of copying it, or None without a pointer.
        copied_share: proportion of the token's probability that is due to copying, or None without a pointer.
        copied_from: index of the document token from which the token was copied, or None if it was generated.
        replaces_unknown: whether ``text`` takes the place of the unknown word. In this case, it is the document word
            with the highest attention weight (``--replace-unknown``), or a word of a user-provided summary that the
            model cannot generate.
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
    """Saliency gate values of a decoder layer.

    Attributes:
        layer: index of the layer, starting at 1.
        gate: gate g_ij of each document token, shape (S,), averaged over heads and summary tokens.
    """

    layer: int
    gate: Row


@dataclass(frozen=True)
class FocusLayer:
    """The centres and scopes of focus-attention in an encoder layer.

    Attributes:
        layer: index of the layer, starting at 1.
        centers: centres mu as 0-based token positions, shape (H, S).
        scopes: scopes sigma in tokens, shape (H, S).
        strengths: factor by which each head multiplies the bias, shape (H,), or None if the model does not learn these
            factors.
    """

    layer: int
    centers: Matrix
    scopes: Matrix
    strengths: Optional[Row]


@dataclass(frozen=True)
class Explanation:
    """Probabilities and attention weights with which a model generates a summary.

    They are computed in float32 in one forward pass over the document and the summary. Decoding options such as
    temperature or penalties are not applied.

    Attributes:
        document: raw text of the document.
        source: document tokens that the model read, ending with the end symbol. Empty if the document contains no
            words.
        left_out: number of document tokens that the model did not read. With an extractor, only the tokens of
            selected sentences are counted.
        summary: text of the summary.
        tokens: summary tokens as the model generated them, ending with the end symbol.
        score: score of the summary in the search, or None if the summary was provided by the user or chosen by a
            content model.
        architecture: name of the model's architecture.
        pointer: type of the pointer, which is "none", "soft" or "switch".
        saliency_gate: variant of the saliency gate, or None without saliency-selection.
        attention: attention weights, shape (T, S). Each row sums to 1. For Transformers, these are the weights in the
            last decoder layer before any gate is applied, averaged over heads.
        copying: copy distributions, shape (T, S). Each row sums to 1. None without a pointer.
        saliency: values of the gate g_ij, shape (T, S), averaged over layers and heads. They are between 0 and 1 if
            ``saliency_gate`` is "sigmoid". Otherwise, they are between 0 and 2, where 1 leaves the attention weight
            unchanged. None without saliency-selection.
        selected: gated attention weights g_ij a_ij, shape (T, S), averaged over layers and heads. The decoder uses
            these weights to read the document. None without saliency-selection.
        saliency_layers, focus_layers: gates of the layers with saliency-selection, and centres and scopes of the layers
            with focus-attention.
        picked: sentences that an extractor selected from the whole document. The model read no other sentences. None
            without an extractor.
        surprisal: surprisal of the document compared with the training documents, or None if it is unknown.
        chosen: sentences of the summary if a content model chose them from the document and all hypotheses, or None
            otherwise. Chosen sentences may form a text that is not a hypothesis of the model. All other values describe
            this text.
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
        """Return the log-probability of the summary including its end symbol, or 0 if there are no tokens."""
        return math.fsum(token.log_probability for token in self.tokens)

    @property
    def coverage(self) -> Optional[Row]:
        """Return the attention weight of each document token, summed over the summary tokens, shape (S,)."""
        return None if self.attention is None else _sum_rows(self.attention)

    @property
    def copy_coverage(self) -> Optional[Row]:
        """Return the sum of (1 - p_gen) a_j over the summary tokens for each document token, shape (S,).

        The result measures how much each document token contributes to copying.
        """
        if self.copying is None:
            return None
        shares = (1.0 - (token.p_gen if token.p_gen is not None else 1.0) for token in self.tokens)
        return _sum_rows(tuple(tuple(share * a for a in row) for share, row in zip(shares, self.copying)))

    @property
    def saliency_of_source(self) -> Optional[Row]:
        """Return the gate g_ij of each document token, averaged over summary tokens, layers and heads, shape (S,)."""
        if not self.saliency:
            return None
        return tuple(total / len(self.saliency) for total in _sum_rows(self.saliency))

    def to_dict(self, least: float = LEAST) -> Dict[str, Any]:
        """Convert the explanation to a dictionary of JSON types. Numbers are rounded to two to four decimal places.

        Each row of "attention", "copying" and "selected" is a list of pairs [j, weight].

        Args:
            least: threshold below which weights are omitted from these rows. Sums such as "coverage" include all
                weights.
        """
        return {
            "schema": SCHEMA,
            "document": self.document,
            "summary": self.summary,
            "architecture": self.architecture,
            "pointer": self.pointer,
            "saliency_gate": self.saliency_gate,
            "score": _round_json_number(self.score),
            "log_probability": _round_json_number(self.log_probability),
            "left_out": self.left_out,
            "source": [asdict(token) for token in self.source],
            "tokens": [_token_to_dict(token) for token in self.tokens],
            "least": least,
            "attention": _to_sparse_rows(self.attention, least),
            "copying": _to_sparse_rows(self.copying, least),
            "coverage": _round_row(self.coverage),
            "copy_coverage": _round_row(self.copy_coverage),
            "saliency": _convert_optional_matrix(_round_rows, self.saliency),
            "selected": _to_sparse_rows(self.selected, least),
            "saliency_of_source": _round_row(self.saliency_of_source),
            "saliency_layers": [{"layer": x.layer, "gate": _round_row(x.gate)} for x in self.saliency_layers],
            "focus_layers": [
                {
                    "layer": x.layer,
                    "centers": _round_rows(x.centers, 2),
                    "scopes": _round_rows(x.scopes, 2),
                    "strengths": _round_row(x.strengths),
                }
                for x in self.focus_layers
            ],
            **({} if self.picked is None else {"picked": self.picked.to_dict()}),
            **({} if self.surprisal is None else {"surprisal": self.surprisal.to_dict()}),
            **({} if self.chosen is None else {"chosen": [asdict(sentence) for sentence in self.chosen]}),
        }

    def to_json(self, least: float = LEAST) -> str:
        """Convert the explanation to a single line of JSON that contains only ASCII characters."""
        return json.dumps(self.to_dict(least), separators=(",", ":"), allow_nan=False)

    def to_html(self, title: str = "") -> str:
        """Convert the explanation to a self-contained HTML page that works offline (see docs/explain.md).

        Args:
            title: title of the page, such as the name of the document.
        """
        return make_page(self.to_dict(), title)

    def _repr_html_(self) -> str:
        """Return the HTML page inside a frame, which notebooks can display."""
        return make_frame(self.to_dict())


def _sum_rows(rows: Matrix) -> Row:
    return tuple(math.fsum(column) for column in zip(*rows))


def _round_json_number(value: Optional[float], digits: int = 4) -> Optional[float]:
    """Round a number. Returns None if the value is None or cannot be represented in JSON."""
    return None if value is None or not math.isfinite(value) else round(value, digits)


def _round_row(row: Optional[Row], digits: int = 3) -> Optional[List[Optional[float]]]:
    return None if row is None else [_round_json_number(value, digits) for value in row]


def _round_rows(rows: Matrix, digits: int = 3) -> List[Optional[List[Optional[float]]]]:
    return [_round_row(row, digits) for row in rows]


def _convert_optional_matrix(change: Callable[[Matrix], Any], rows: Optional[Matrix]) -> Any:
    return None if rows is None else change(rows)


def _to_sparse_rows(rows: Optional[Matrix], least: float) -> Optional[List[List[Tuple[int, float]]]]:
    return None if rows is None else [to_sparse_row(row, least) for row in rows]


def to_sparse_row(row: Sequence[float], least: float, digits: int = 4) -> List[Tuple[int, float]]:
    """Return a pair (index, rounded weight) for each weight that is at least ``least`` and does not round to 0."""
    return [(j, round(x, digits)) for j, x in enumerate(row) if x >= least and round(x, digits) > 0]


def _token_to_dict(token: SummaryToken) -> Dict[str, Any]:
    numbers = {"probability": token.probability, "p_gen": token.p_gen, "copied_share": token.copied_share}
    return {
        "text": token.text,
        "shown": token.shown,
        "starts_word": token.starts_word,
        "log_probability": _round_json_number(token.log_probability),
        **{name: _round_json_number(value) for name, value in numbers.items()},
        "copied_from": token.copied_from,
        "replaces_unknown": token.replaces_unknown,
    }
