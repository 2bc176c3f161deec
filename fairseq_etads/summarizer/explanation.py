"""Data classes that represent the explanation of a summary, and the HTML page that shows it.

In shapes, T is the number of summary tokens, S is the number of document tokens, and H is the number of heads. Both T
and S include the end symbol. Matrices are tuples of rows.
"""

import base64
import hashlib
import html
import json
import math
import re
import urllib.parse
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

from .surprisal import Surprisal

if TYPE_CHECKING:
    from ..evaluation.evidence import Evidence

Row = Tuple[float, ...]
Matrix = Tuple[Row, ...]

SCHEMA = 1
"""Format version of the dictionary that :meth:`Explanation.to_dict` returns."""
LEAST = 0.001
"""Threshold below which :meth:`Explanation.to_dict` omits attention weights and copy probabilities."""
PAGE = Path(__file__).with_name("page")
GENERATOR = '<meta name="generator" content="fairseq-etads">'
"""Element that marks a page as written by this project. It is near the beginning of each page."""
INDEX_TITLE = "<title>Why these summaries</title>"
"""Title element of pages that list other pages."""
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
"""Control characters, surrogates, and characters that reorder text."""


@dataclass(frozen=True)
class PickedSentence:
    """A sentence that an extractor selected for the summariser.

    Attributes:
        text: text of the sentence, with normalised white space and without invisible characters.
        start, end: position text[start:end] of the sentence in the raw document, or None if it cannot be determined.
        number: index of the sentence in the document, starting at 0.
        probability: predicted probability that a summary uses the sentence.
    """

    text: str
    start: Optional[int]
    end: Optional[int]
    number: int
    probability: float


@dataclass(frozen=True)
class Selection:
    """Sentences that an extractor selected, in the order of the document, which has ``total`` sentences.

    ``words`` is the number of the document's words, which are counted by splitting at white space.
    """

    sentences: Tuple[PickedSentence, ...]
    total: int
    words: int


@dataclass(frozen=True)
class ChosenSentence:
    """A sentence that a content model chose for a summary.

    Attributes:
        text: text of the sentence in the summary.
        source: "document" if the sentence is from the document, or "model" if the model generated it.
        number: index of the sentence in the document, starting at 0. None if the model generated the sentence.
        start, end: position text[start:end] of the sentence in the raw document. Both are None if the model generated
            the sentence, or if the position cannot be determined.
    """

    text: str
    source: str
    number: Optional[int] = None
    start: Optional[int] = None
    end: Optional[int] = None


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
    pointer: str = "none"
    saliency_gate: Optional[str] = None
    attention: Optional[Matrix] = None
    copying: Optional[Matrix] = None
    saliency: Optional[Matrix] = None
    selected: Optional[Matrix] = None
    saliency_layers: Tuple[SaliencyLayer, ...] = ()
    focus_layers: Tuple[FocusLayer, ...] = ()
    picked: Optional[Selection] = None
    surprisal: Optional[Surprisal] = None
    chosen: Optional[Tuple[ChosenSentence, ...]] = None

    @property
    def evidence(self) -> "List[Evidence]":
        """Return the evidence in the document for each sentence of the summary."""
        # imported here because the help of commands does not need numpy
        from ..evaluation.evidence import find_evidence
        from ..text.words import split_marked_sentences

        if self.chosen is not None:
            return find_evidence(self.document, [sentence.text for sentence in self.chosen])
        return find_evidence(self.document, split_marked_sentences(self.summary))

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
        """Return how much each document token is copied: (1 - p_gen) a_j, summed over summary tokens, shape (S,)."""
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

        Each row of "attention", "copying" and "selected" is a list of pairs [j, weight], without weights below
        ``least``. Sums such as "coverage" include all weights.
        """
        weights = {"attention": self.attention, "copying": self.copying, "selected": self.selected}
        plain = ("document", "summary", "architecture", "pointer", "saliency_gate", "left_out", "source")
        means = ("coverage", "copy_coverage", "saliency", "saliency_of_source", "saliency_layers")
        return {
            "schema": SCHEMA,
            "least": least,
            **{name: to_json_types(getattr(self, name)) for name in (*plain, *means)},
            **{name: to_json_types(getattr(self, name), 4) for name in ("score", "log_probability")},
            **{name: rows and [to_sparse_row(row, least) for row in rows] for name, rows in weights.items()},
            "tokens": [to_json_types({**vars(token), "probability": token.probability}, 4) for token in self.tokens],
            "focus_layers": [
                {**to_json_types(layer, 2), "strengths": to_json_types(layer.strengths)} for layer in self.focus_layers
            ],
            "evidence": [one.to_dict() for one in self.evidence],
            **describe_choice(self),
        }

    def to_json(self, least: float = LEAST) -> str:
        """Convert the explanation to a single line of JSON that contains only ASCII characters."""
        return json.dumps(self.to_dict(least), separators=(",", ":"), allow_nan=False)

    def to_html(self, title: str = "") -> str:
        """Convert the explanation to a self-contained HTML page with this title (see docs/explain.md)."""
        return make_page(self.to_dict(), title)

    def _repr_html_(self) -> str:
        """Return the HTML page inside a frame, which notebooks can display."""
        page = html.escape(self.to_html())
        return (
            f'<iframe sandbox="allow-scripts" title="Why this summary" srcdoc="{page}" '
            'style="width: 100%; height: 720px; border: 0; resize: vertical"></iframe>'
        )


def _sum_rows(rows: Matrix) -> Row:
    return tuple(math.fsum(column) for column in zip(*rows))


def to_json_types(value: Any, digits: int = 3) -> Any:
    """Convert data classes and rows to dictionaries and lists. Numbers are rounded; what JSON lacks becomes None."""
    if is_dataclass(value):
        value = vars(value)
    if isinstance(value, dict):
        return {name: to_json_types(each, digits) for name, each in value.items()}
    if isinstance(value, tuple):
        return [to_json_types(each, digits) for each in value]
    if isinstance(value, float):
        return round(value, digits) if math.isfinite(value) else None
    return value


def describe_choice(of: Any) -> Dict[str, Any]:
    """Return what is known of the attributes that a summary and its explanation share, as JSON types."""
    given = {name: getattr(of, name) for name in ("picked", "surprisal", "chosen")}
    return {name: to_json_types(value, 4) for name, value in given.items() if value is not None}


def to_sparse_row(row: Sequence[float], least: float, digits: int = 4) -> List[Tuple[int, float]]:
    """Return a pair (index, rounded weight) for each weight that is at least ``least`` and does not round to 0."""
    return [(j, round(x, digits)) for j, x in enumerate(row) if x >= least and round(x, digits) > 0]


def make_page(data: Dict[str, Any], title: str = "") -> str:
    """Create the self-contained HTML page with this title for an explanation, given as a dictionary.

    The page contains ``data`` as JSON, which its script renders. Without JavaScript, the summary and the document are
    readable. The Content-Security-Policy allows only the page's own style and script.
    """
    unusual = bool(data.get("surprisal")) and Surprisal(**data["surprisal"]).is_unusual
    return _fill_page(
        "explanation",
        {**data, "title": title, "unusual": unusual},
        title=f"Why this summary: {title or data['summary'][:60] or 'nothing'}",
        summary=data["summary"],
        document=data["document"],
    )


def make_evidence_page(rows: Sequence[Dict[str, Any]]) -> str:
    """Create the self-contained HTML page that shows the sources of each sentence of summaries.

    Each of ``rows`` has "line", "document" and "systems": a list of :meth:`Evidence.to_dict` by the names of systems.
    """
    return _fill_page("evidence", {"rows": list(rows)}, title="Where these summaries come from")


def _fill_page(name: str, data: Dict[str, Any], **texts: str) -> str:
    """Fill the page NAME.html, which begins with head.html and runs evidence.js and, if there is one, NAME.js."""
    from ..evaluation.evidence import NOTICE

    style = (PAGE / "explanation.css").read_text(encoding="utf-8")
    scripts = [PAGE / each for each in dict.fromkeys(["evidence.js", f"{name}.js"])]
    script = "\n".join(path.read_text(encoding="utf-8") for path in scripts)
    policy = (
        f"default-src 'none'; style-src '{_compute_csp_hash(style)}'; script-src '{_compute_csp_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    escaped = {key: escape_html(text) for key, text in {**texts, "notice": NOTICE}.items()}
    head, page = (Template((PAGE / each).read_text(encoding="utf-8")) for each in ("head.html", f"{name}.html"))
    return page.substitute(
        head=head.substitute(policy=policy, generator=GENERATOR, style=style, **escaped),
        data=format_embedded_json(data),
        script=script,
        **escaped,
    )


def make_index_page(pages: Sequence[Tuple[str, str, str]]) -> str:
    """Create an index page with links. ``pages`` lists the file, the document name and the summary of each page."""
    style = (PAGE / "explanation.css").read_text(encoding="utf-8")
    rows = "".join(
        f'<tr><td><a href="{html.escape(urllib.parse.quote(file))}"><bdi>{escape_html(name)}</bdi></a></td>'
        f"<td><bdi>{escape_html(summary)}</bdi></td></tr>"
        for file, name, summary in pages
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" '
        f"content=\"default-src 'none'; style-src '{_compute_csp_hash(style)}'; base-uri 'none'; form-action 'none'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" '
        f'content="light dark">{GENERATOR}{INDEX_TITLE}<style>{style}</style></head><body>'
        f'<h1>Why these summaries</h1><table class="card"><thead><tr><th scope="col">document</th>'
        f'<th scope="col">summary</th></tr></thead><tbody>{rows}</tbody></table></body></html>\n'
    )


def format_embedded_json(value: Any) -> str:
    """Format a value as ASCII JSON for a <script> element, and escape characters that could end the element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def escape_html(text: str) -> str:
    """Escape text for HTML. Invisible characters that affect the display are replaced with their code points."""
    text = re.sub("[\r\u2028\u2029]", "\n", text).replace("\t", " ")
    return html.escape(_INVISIBLE.sub(lambda found: f"[U+{ord(found[0]):04X}]", text))


def _compute_csp_hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
