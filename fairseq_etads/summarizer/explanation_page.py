"""Create a self-contained HTML page for an explanation. The page requires no other files and no network access.

:func:`make_page` receives the result of :meth:`Explanation.to_dict`. The page contains the probabilities and weights as
JSON, and all text from documents is escaped. The script ``page/explanation.js`` shades words and draws plots. Without
JavaScript, the words and the table of probabilities are still readable. The Content-Security-Policy allows only the
page's own style and script.
"""

import base64
import hashlib
import html
import json
import unicodedata
import urllib.parse
from pathlib import Path
from string import Template
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from .surprisal import UNUSUAL

PAGE = Path(__file__).with_name("page")
GENERATOR = '<meta name="generator" content="fairseq-etads">'
"""Element that marks a page as written by this project. It is near the beginning of each page."""
INDEX_TITLE = "<title>Why these summaries</title>"
"""Title element of pages that list other pages."""
_LEVELS = 9
"""Number of word shades in the HTML. The script replaces them with finer shades."""
_KINDS = {
    "saliency": "saliency",
    "attention": "attention",
    "selected": "attention let through",
}


def make_page(data: Dict[str, Any], title: str = "") -> str:
    """Create the HTML page for an explanation.

    Args:
        data: dictionary returned by :meth:`Explanation.to_dict`.
        title: title of the page, such as the name of the document.
    """
    style, script = ((PAGE / name).read_text(encoding="utf-8") for name in ("explanation.css", "explanation.js"))
    policy = (
        f"default-src 'none'; style-src '{_compute_csp_hash(style)}'; script-src '{_compute_csp_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    shown = f"Why this summary: {title or data['summary'][:60] or 'nothing'}"
    return Template((PAGE / "explanation.html").read_text(encoding="utf-8")).substitute(
        policy=policy,
        generator=GENERATOR,
        title=escape_html(shown),
        style=style,
        about=_format_title_section(data, title),
        body="\n".join(_iterate_sections(data)),
        data=format_embedded_json(_collect_script_data(data)),
        script=script,
    )


def make_frame(data: Dict[str, Any], height: int = 720) -> str:
    """Put the page into a frame, so that its styles and scripts do not affect the notebook that displays it."""
    return (
        f'<iframe sandbox="allow-scripts" title="Why this summary" srcdoc="{html.escape(make_page(data))}" '
        f'style="width: 100%; height: {height}px; border: 0; resize: vertical"></iframe>'
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
    return "".join(_escape_character(c) for c in text)


_REORDERING = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def _escape_character(c: str) -> str:
    if c.isalnum() or c in " \n":
        return c
    if c in "\t\r\u2028\u2029":
        return "\n" if c != "\t" else " "
    if unicodedata.category(c) in ("Cc", "Cs") or c in _REORDERING:
        return f"[U+{ord(c):04X}]"
    return html.escape(c)


def _compute_csp_hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _format_count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _format_number(value: Optional[float], digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}".replace("-", "−")


def _format_title_section(data: Dict[str, Any], title: str) -> str:
    parts = [f"<bdi>{escape_html(title)}</bdi>"] if title else []
    parts.append(f"architecture {escape_html(data['architecture'])}")
    if data["source"]:
        parts.append(f"{_format_count(len(data['source']) - 1, 'token')} of the document read")
        parts += [f"{data['left_out']:,} not read"] if data["left_out"] else []
        if data.get("picked"):
            picked = data["picked"]
            parts.append(f"{len(picked['sentences']):,} of {_format_count(picked['total'], 'sentence')} picked")
        parts += [_format_surprisal(data["surprisal"])] if data.get("surprisal") else []
        parts.append(f"log P of the summary {_format_number(data['log_probability'])}")
    if data.get("chosen"):
        parts.append("sentences chosen by expected ROUGE")
    else:
        parts.append("a summary that was given" if data["score"] is None else f"score {_format_number(data['score'])}")
    return " · ".join(parts)


def _format_surprisal(surprisal: Dict[str, Any]) -> str:
    """Describe how unusual the document is in comparison with the training documents."""
    than = f"{_format_percent(surprisal['percentile'])} % of the training documents"
    text = f"{surprisal['bits']:.1f} bits per token, more than {than}"
    if surprisal["percentile"] > UNUSUAL:
        return f"<strong>unlike the training documents: {text}</strong>"
    return text


def _format_percent(value: float) -> str:
    """Format a percentage. 0 and 100 are shown only if the value is exactly 0 or 100."""
    return f"{min(max(value, 1), 99):.0f}" if 0 < value < 100 else f"{value:.0f}"


def _iterate_sections(data: Dict[str, Any]) -> Iterator[str]:
    yield '<div class="left">'
    yield '<section class="card" aria-labelledby="of-summary"><h2 id="of-summary">Summary</h2>'
    yield f'<p id="summary" role="group" aria-label="Summary, word by word" dir="auto">{_format_summary(data)}</p>'
    yield from _format_sentence_origins(data)
    yield "</section>"
    yield '<section class="card" aria-labelledby="of-document"><h2 id="of-document">Document</h2>'
    yield from _format_shading_controls(data)
    hue, document = _get_initial_shading(data)[0], "".join(_format_document(data))
    yield f'<div id="document" dir="auto" data-hue="{hue}">{document}</div>'
    if data["left_out"]:
        yield '<p class="note">The grey text at the end was not read: the model was trained on shorter texts.</p>'
    yield "</section>"
    yield from _format_selected_sentences(data)
    yield "</div>"
    yield '<div class="right needs-script"><section class="card" aria-label="Figures of one word">'
    yield '<p class="note" id="hint">Point at a word in the summary or the document, or move there with <kbd>Tab</kbd> '
    yield "and the arrow keys. Click a word to select it, and press <kbd>Esc</kbd> to deselect it.</p>"
    yield '<div id="detail" aria-live="polite"></div></section></div>'
    if data["source"]:
        yield '<section class="card wide needs-script" aria-labelledby="of-strips">'
        yield '<h2 id="of-strips">Along the document</h2><div id="strips"></div>'
        yield '<p class="note">Pale: the whole summary. Strong: the word that you point at.</p></section>'
        yield from _format_focus(data)
    yield from _format_legend(data)
    yield from _format_token_table(data)


def _format_selected_sentences(data: Dict[str, Any]) -> Iterator[str]:
    """Format a table of the sentences that the extractor selected. Without an extractor, there is no table."""
    picked = data.get("picked")
    if picked is None:
        return
    count, total = len(picked["sentences"]), picked["total"]
    yield '<section class="card" aria-labelledby="of-picked"><h2 id="of-picked">Picked sentences</h2>'
    sentences = _format_count(total, "sentence")
    yield f'<p class="note">An extractor computed a probability for the {sentences} of the document, '
    yield f"and selected the {count:,} most probable, as many as the model can read. "
    yield "The model read only these sentences; the rest of the document is grey.</p>"
    yield '<div class="scroll"><table><thead><tr><th scope="col">number</th><th scope="col">probability</th>'
    yield '<th scope="col">sentence</th></tr></thead><tbody>'
    for sentence in picked["sentences"]:
        yield f"<tr><td class=number>{sentence['number'] + 1:,}</td>"
        yield f"<td class=number>{_format_number(sentence['probability'])}</td>"
        yield f"<td><bdi>{escape_html(sentence['text'])}</bdi></td></tr>"
    yield "</tbody></table></div></section>"


def _format_sentence_origins(data: Dict[str, Any]) -> Iterator[str]:
    """Format a list of the origins of the summary sentences, if a content model chose them."""
    if not data.get("chosen"):
        return
    yield '<p class="note">A content model chose these sentences from the document and from all hypotheses of the '
    yield "search. The figures show the model's view of this text, which need not be one of its hypotheses.</p><ol>"
    for sentence in data["chosen"]:
        number = sentence["number"]
        origin = "written by the model" if number is None else f"sentence {number + 1:,} of the document"
        yield f'<li class="note">{origin}: <bdi>{escape_html(sentence["text"])}</bdi></li>'
    yield "</ol>"


def _get_initial_shading(data: Dict[str, Any]) -> Tuple[str, Sequence[float]]:
    """Return the name and the values of the document's initial shading."""
    if data["saliency_of_source"]:
        return "saliency", data["saliency_of_source"]
    return "attention", data["coverage"] or []


def _format_shading_controls(data: Dict[str, Any]) -> Iterator[str]:
    kind, values = _get_initial_shading(data)
    if not values:
        yield '<p class="note">The model has read nothing: the document has no words.</p>'
        return
    low = min(values) if kind == "saliency" else 0.0
    high = max(values)
    kinds = [name for name in _KINDS if name == "attention" or data[name] is not None]
    if len(kinds) > 1:
        yield '<fieldset class="needs-script"><legend>Shade by</legend>'
        for name, label in (("automatic", "automatic"), *((name, _KINDS[name]) for name in kinds)):
            checked = " checked" if name == "automatic" else ""
            yield f'<label><input type="radio" name="shade" value="{name}"{checked}>{label}</label>'
        yield "</fieldset>"
    mean = "mean" if kind == "saliency" else "sum"
    high_text = _format_number(high) if high > low else f"{_format_number(high)} everywhere"
    yield f'<p class="scale" id="scale" data-hue="{kind}"><span><span id="scale-low">{_format_number(low)}</span>'
    yield f'<span class="ramp"></span><span id="scale-high">{high_text}</span></span>'
    yield f'<span class="of"><bdi id="scale-of">{_KINDS[kind]}, {mean} over the summary</bdi></span>'
    if data["copying"] is not None:
        yield '<span><span class="copy-sample">underlined</span>: copied from</span>'
    yield "</p>"


def _format_summary(data: Dict[str, Any]) -> str:
    words: List[str] = []
    for token in data["tokens"]:
        classes = ["w"]
        classes += ["joined"] if words and not token["starts_word"] else []
        classes += ["copied"] if token["copied_from"] is not None else []
        classes += ["unknown"] if token["replaces_unknown"] else []
        is_end = token is data["tokens"][-1]
        text = (
            '<span class="word end">end</span>'
            if is_end
            else f'<span class="word">{escape_html(token["shown"])}</span>'
        )
        separator = "" if words and not token["starts_word"] else " "
        label = _describe_token(token, data)
        words.append(
            f'{separator}<span class="{" ".join(classes)}" role="button" aria-pressed="false" '
            f'aria-label="{label}">{text}{_draw_probability_bar(token)}</span>'
        )
    return "".join(words).strip()


def _describe_token(token: Dict[str, Any], data: Dict[str, Any]) -> str:
    """Return the label of a summary word for screen readers."""
    text = escape_html(token["shown"]) if token is not data["tokens"][-1] else "end of the summary"
    origin = "copied" if token["copied_from"] is not None else "generated"
    said = f", {origin}" if data["pointer"] != "none" else ""
    return f"{text}, probability {_format_number(token['probability'])}{said}"


def _draw_probability_bar(token: Dict[str, Any]) -> str:
    """Draw a bar for the probability of a token. The part that is due to copying has a different colour."""
    whole = 100 * (token["probability"] or 0.0)
    copied = whole * (token["copied_share"] or 0.0)
    return (
        '<svg viewBox="0 0 100 5" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="bar-back" width="100" height="5"/><rect class="bar-made" width="{whole:.1f}" height="5"/>'
        f'<rect class="bar-copied" width="{copied:.1f}" height="5"/></svg>'
    )


def _format_document(data: Dict[str, Any]) -> Iterator[str]:
    """Format the raw text with a <span> element around each token.

    A token with an unknown position is inserted after the preceding token.
    """
    text, place = data["document"], 0
    _, values = _get_initial_shading(data)
    low, high = (min(values), max(values)) if data["saliency_of_source"] else (0.0, max(values, default=0.0))
    copied = data["copy_coverage"] or [0.0] * len(values)
    for token, value, share in zip(data["source"], values, copied):
        level = round(_LEVELS * (value - low) / (high - low)) if high > low else 0
        thickness = f" c{1 + min(3, round(3 * share))}" if share >= 0.02 else ""
        start, end = token["start"], token["end"]
        if start is None:
            start, end = _find_next_token(text, place, token["text"])
        if start is None or max(start, place) >= end:
            is_end = token is data["source"][-1]
            kind, shown = ("end", "end") if is_end else ("mark", escape_html(token["text"]))
            space = " " if is_end else ""
            yield f'{space}<span class="t {kind} s{level}{thickness}">{shown}</span>'
            continue
        start = max(start, place)
        yield _format_text_between_tokens(text[place:start], data)
        yield f'<span class="t s{level}{thickness}">{escape_html(text[start:end])}</span>'
        place = end
    rest = text[place:]
    if rest.strip() and (data["left_out"] or data.get("picked") or not data["source"]):
        yield f'<span class="unread">{escape_html(rest)}</span>'
    else:
        yield escape_html(rest)


def _format_text_between_tokens(text: str, data: Dict[str, Any]) -> str:
    """Format the text between two tokens. The text is marked as unread if the extractor did not select its words."""
    if data.get("picked") and any(character.isalnum() for character in text):
        return f'<span class="unread">{escape_html(text)}</span>'
    return escape_html(text)


def _find_next_token(text: str, place: int, token: str) -> Tuple[Optional[int], int]:
    """Return the start and end of a token that directly follows a position in the text, apart from white space.

    The start is None if the token is not found. Unlike :func:`~fairseq_etads.text.alignment.align_tokens`, this
    function also finds tokens that consist of invisible characters.
    """
    following = text[place : place + 100]
    start = place + len(following) - len(following.lstrip())
    return (start, start + len(token)) if token and text.startswith(token, start) else (None, place)


_HEADS = """\
<fieldset class="needs-script"><legend>Up</legend>
<label><input type="radio" name="view" value="place">where a token looks</label>
<label><input type="radio" name="view" value="distance">how far this is from the token, in tokens</label></fieldset>
<p class="note needs-script">Across: the tokens of the document. Line: centre; band: centre ± width; dashes: the token
itself. Below each head, the mean distance of the centre ± the mean width, in tokens.<span id="focus-every"></span></p>
<p class="note needs-script" id="focus-note" aria-live="polite">Choose a head, then point at a word in the document. The
document is shaded by where that word looks.</p> <div id="heads" class="needs-script" role="group"
aria-label="Heads"></div>"""


def _format_focus(data: Dict[str, Any]) -> Iterator[str]:
    yield '<section class="card wide" aria-labelledby="of-focus"><h2 id="of-focus">Focus-attention</h2>'
    if not data["focus_layers"]:
        yield '<p class="note">This model has no focus-attention: its encoder does not predict where words look.</p>'
        yield "</section>"
        return
    yield _HEADS
    yield '<p class="note without-script">The plot needs JavaScript.</p></section>'


_TEACHES = {
    "saliency": "How much of each document word the gate of saliency-selection lets through to the decoder: the mean "
    "of g<sub>ij</sub> over heads and layers{range}.",
    "attention": "Where the decoder looks when it writes a word: weights that sum to 1 over the document (in a "
    "Transformer, the attention in the last decoder layer, averaged over heads).",
    "selected": "Attention times gate, averaged over layers and heads: the weights with which the decoder reads the "
    "document.",
    "coverage": "Attention that a document word received, summed over the summary: what the summary has already "
    "covered and might repeat.",
    "copying": "The underline shows how much was copied from here: the copy attention times 1 − p_gen, summed over the "
    "summary.",
    "p_gen": "The probability with which the model generates a word from its vocabulary instead of copying a word of "
    "the document.",
    "focus": "The place in the document at which a head expects to find what matters for a word, predicted from the "
    "word (μ, equation 5 of ETADS).",
    "width": "How many tokens around the centre the head sees (σ, equation 6): at this distance, attention is 0.14 "
    "times the attention at the centre.",
    "probability": "The bar under a word shows its probability given the previous words; the coloured part is due to "
    "copying.",
}
"""Dictionary that maps each term to its explanation in HTML."""


def _format_legend(data: Dict[str, Any]) -> Iterator[str]:
    """Format explanations of the terms that apply to the model, and list the mechanisms that the model lacks."""
    forms = {"sigmoid": ", between 0 (shut) and 1 (open)", None: ""}
    gate = forms.get(data["saliency_gate"], ", between 0 (shut) and 2, where 1 leaves attention as it is")
    has_gate, has_pointer = data["saliency_gate"] is not None, data["pointer"] != "none"
    entries = [("Probability", "probability", "", True), ("Saliency", "saliency", "k-saliency", has_gate)]
    entries += [("Attention", "attention", "k-attention", True), ("Coverage", "coverage", "k-attention", True)]
    entries += [("Attention let through", "selected", "k-selected", has_gate)]
    entries += [("Copying", "copying", "k-copy", has_pointer), ("p_gen, the switch", "p_gen", "k-copy", has_pointer)]
    entries += [("Focus: centre", "focus", "k-focus", bool(data["focus_layers"]))]
    entries += [("Focus: width", "width", "k-focus", bool(data["focus_layers"]))]
    yield '<section class="card wide" aria-labelledby="of-legend"><h2 id="of-legend">What the figures mean</h2>'
    yield '<dl class="legend">'
    for term, name, key, there in entries:
        if there:
            yield f'<div><dt class="{key}">{term}</dt><dd>{_TEACHES[name].replace("{range}", gate)}</dd></div>'
    yield "</dl>"
    missing = {
        "no saliency-selection: no gate holds back words of the document": has_gate,
        "no pointer: it cannot copy, and every word is generated": has_pointer,
    }
    lacks = [text for text, there in missing.items() if not there]
    if lacks and data["source"]:
        yield f'<p class="note" id="lacks">This model has {"; ".join(lacks)}.</p>'
    yield f'<p class="note">Weights below {data["least"]:g} are left out for single words, but included in sums. '
    yield "Widths and centres are rounded to a tenth of a token, and gates to a hundredth. Attention and gates show "
    yield "what the model reads, but do not by themselves explain its decisions.</p></section>"


def _format_token_table(data: Dict[str, Any]) -> Iterator[str]:
    if not data["tokens"]:
        return
    has_pointer = data["pointer"] != "none"
    heads = [
        "",
        "word",
        "probability",
        *(["p_gen", "by copying", "copied from"] if has_pointer else []),
        "looked at most",
    ]
    yield '<details class="card wide"><summary>The figures of each word as a table</summary><div class="scroll"><table>'
    yield f"<thead><tr>{''.join(f'<th scope=col>{name}</th>' for name in heads)}</tr></thead><tbody>"
    for number, token in enumerate(data["tokens"]):
        is_end = number == len(data["tokens"]) - 1
        cells = [f"<td class=number>{number + 1}</td>"]
        cells.append("<td>end</td>" if is_end else f"<td><bdi>{escape_html(token['shown'])}</bdi></td>")
        cells.append(f"<td class=number>{_format_number(token['probability'])}</td>")
        if has_pointer:
            cells.append(f"<td class=number>{_format_number(token['p_gen'])}</td>")
            cells.append(f"<td class=number>{100 * (token['copied_share'] or 0):.0f} %</td>")
            origin = token["copied_from"]
            cells.append("<td>–</td>" if origin is None else f"<td>{_format_source_word(data, origin)}</td>")
        most = sorted(data["attention"][number], key=lambda pair: -pair[1])[:3] if data["attention"] else []
        cells.append(f"<td>{', '.join(f'{_format_source_word(data, j)} {x:.2f}' for j, x in most)}</td>")
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div></details>"


def _format_source_word(data: Dict[str, Any], number: int) -> str:
    token = data["source"][number]
    text = token["text"] if token["start"] is None else data["document"][token["start"] : token["end"]]
    return f"<bdi>{escape_html(text)}</bdi>"


def _collect_script_data(data: Dict[str, Any]) -> Dict[str, Any]:
    """Return the data that the script of the page reads.

    Weights are encoded as [position, weight, position, …], in units of one ten-thousandth. Centres and scopes are in
    units of one tenth of a token.
    """
    tokens = data["tokens"]
    rounded = [[round(100 * x) for x in row] for row in data["saliency"]] if data["saliency"] else None
    return {
        "steps": len(tokens),
        "length": len(data["source"]),
        "probability": [token["probability"] for token in tokens],
        "p_gen": [token["p_gen"] for token in tokens],
        "copied_share": [token["copied_share"] for token in tokens],
        "copied_from": [token["copied_from"] for token in tokens],
        "unknown": [int(token["replaces_unknown"]) for token in tokens],
        "known": [int(token["known"]) for token in data["source"]],
        "attention": _flatten_rows(data["attention"]),
        "copying": _flatten_rows(data["copying"]),
        "selected": _flatten_rows(data["selected"]),
        "saliency": rounded,
        "saliency_of_source": data["saliency_of_source"],
        "saliency_layers": data["saliency_layers"],
        "coverage": data["coverage"],
        "copy_coverage": data["copy_coverage"],
        "focus": [
            {**layer, **{name: [[round(10 * x) for x in row] for row in layer[name]] for name in ("centers", "scopes")}}
            for layer in data["focus_layers"]
        ],
    }


def _flatten_rows(rows: Optional[Sequence[Sequence[Tuple[int, float]]]]) -> Optional[List[List[int]]]:
    if rows is None:
        return None
    return [[number for place, weight in row for number in (place, round(1e4 * weight))] for row in rows]
