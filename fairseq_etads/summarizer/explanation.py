"""Explanation of a summary as plain data.

In shapes, T is the number of tokens in the summary, S in the document, and H the number of heads. The end symbol is a
token of both texts. Matrices are tuples of rows.
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
"""Version of the format of :meth:`Explanation.to_dict`."""
LEAST = 0.001
"""Attention and copy probabilities below this value are left out of :meth:`Explanation.to_dict`."""


@dataclass(frozen=True)
class SourceToken:
    """A token of the document as the model reads it.

    Attributes:
        text: spelling of the token, with subword marks.
        start, end: characters text[start:end] of the raw document; None for the end symbol, and if tokenisation has
            changed the text too much to find the characters.
        known: whether the model can write the token without copying.
    """

    text: str
    start: Optional[int]
    end: Optional[int]
    known: bool


@dataclass(frozen=True)
class SummaryToken:
    """A token of the summary.

    Attributes:
        text: spelling of the token, with subword marks.
        shown: spelling without these marks.
        starts_word: False for the second and later subwords of a word.
        log_probability: log P of the token given the previous tokens; -inf if the model cannot write it here.
        p_gen: probability of generating the token instead of copying it; None without a pointer.
        copied_share: share of the token's probability that is due to copying; None without a pointer.
        copied_from: index of the document token from which it was copied; None if it was generated.
        replaces_unknown: whether the model wrote the unknown word here. The text is then the most attended word of the
            document (``--replace-unknown``), or a word of a given summary that the model cannot write.
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
    """Saliency gates of a decoder layer.

    Attributes:
        layer: number of the layer, from 1.
        gate: mean of g_ij over heads and summary tokens, for each document token (S,).
    """

    layer: int
    gate: Row


@dataclass(frozen=True)
class FocusLayer:
    """Centres and scopes of focus-attention in an encoder layer.

    Attributes:
        layer: number of the layer, from 1.
        centers: mu (H, S), in tokens from 0.
        scopes: sigma (H, S), in tokens.
        strengths: factors of the bias (H,), if the model learns them.
    """

    layer: int
    centers: Matrix
    scopes: Matrix
    strengths: Optional[Row]


@dataclass(frozen=True)
class Explanation:
    """A model's probabilities, attention and mechanisms for a summary, computed in one pass over document and summary.

    The pass uses float32 and no decoding options such as temperature and penalties, so the probabilities are the
    model's own.

    Attributes:
        document: raw text.
        source: tokens of the document that the model read, the end symbol last; empty if there was nothing to read.
        left_out: number of further tokens in the document.
        summary: text of the summary.
        tokens: tokens of the summary as the model wrote them, the end symbol last.
        score: score of the search; None if the summary was given or chosen.
        architecture: name of the model's architecture.
        pointer: "none", "soft" or "switch".
        saliency_gate: form of the gate; None without saliency-selection.
        attention: attention to the document (T, S); rows sum to 1. In Transformers, it is the attention in the last
            decoder layer, averaged over heads, before any gate is applied.
        copying: copy distribution (T, S); rows sum to 1. None without a pointer.
        saliency: gate g_ij (T, S), averaged over layers and heads: between 0 and 1 if ``saliency_gate`` is "sigmoid",
            otherwise between 0 and 2, where 1 leaves attention unchanged. None without saliency-selection.
        selected: gated attention, g_ij a_ij (T, S), averaged over layers and heads: the weights with which the decoder
            reads the document. None without saliency-selection.
        saliency_layers, focus_layers: layers with the mechanism.
        picked: sentences that an extractor selected from the whole document; the model read only these sentences. None
            without an extractor.
        surprisal: surprisal of the document compared with the training documents; None if it is not known.
        chosen: sentences of the summary, if a content model has chosen them from all hypotheses and the document. The
            figures are then the model's figures for this text, which may differ from all hypotheses of the model.
            Otherwise None.
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
        """log P of the summary, including its end symbol; 0 without tokens."""
        return math.fsum(token.log_probability for token in self.tokens)

    @property
    def coverage(self) -> Optional[Row]:
        """Attention to each document token (S,), summed over the summary tokens."""
        return None if self.attention is None else _sum_of_rows(self.attention)

    @property
    def copy_coverage(self) -> Optional[Row]:
        """Amount copied from each document token (S,): the sum of (1 - p_gen) a_j over the summary tokens."""
        if self.copying is None:
            return None
        shares = (1.0 - (token.p_gen if token.p_gen is not None else 1.0) for token in self.tokens)
        return _sum_of_rows(tuple(tuple(share * a for a in row) for share, row in zip(shares, self.copying)))

    @property
    def saliency_of_source(self) -> Optional[Row]:
        """Saliency of each document token (S,): the mean of g_ij over summary tokens, layers and heads."""
        if not self.saliency:
            return None
        return tuple(total / len(self.saliency) for total in _sum_of_rows(self.saliency))

    def to_dict(self, least: float = LEAST) -> Dict[str, Any]:
        """Return the explanation as JSON types, rounded to three or four digits.

        Args:
            least: minimum weight in the rows of attention, copying and selected, which are lists of pairs [j, weight];
                smaller weights are left out. The sums ("coverage") include all weights.
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
        """Return the result of :meth:`to_dict` as a line of JSON in ASCII."""
        return json.dumps(self.to_dict(least), separators=(",", ":"), allow_nan=False)

    def to_html(self, title: str = "") -> str:
        """Return the explanation as a page that needs no other file and no network; see docs/explain.md.

        Args:
            title: title of the page, such as the name of the document.
        """
        return page(self.to_dict(), title)

    def _repr_html_(self) -> str:
        """Return the page in a frame, for a notebook."""
        return frame(self.to_dict())


def _sum_of_rows(rows: Matrix) -> Row:
    return tuple(math.fsum(column) for column in zip(*rows))


def _rounded(value: Optional[float], digits: int = 4) -> Optional[float]:
    """Round a value; return None for None and for values that JSON cannot represent."""
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
    """Return pairs of index and rounded weight, without 0 and values below ``least``."""
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
