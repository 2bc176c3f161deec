"""Create a self-contained HTML page for an explanation. The page requires no other files and no network access.

:func:`make_page` puts the result of :meth:`Explanation.to_dict` into ``page/explanation.html`` as JSON, which
``page/explanation.js`` renders. Without JavaScript, the summary and the document are readable. The
Content-Security-Policy allows only the page's own style and script.
"""

import base64
import hashlib
import html
import json
import unicodedata
import urllib.parse
from pathlib import Path
from string import Template
from typing import Any, Dict, Sequence, Tuple

from .surprisal import Surprisal

PAGE = Path(__file__).with_name("page")
GENERATOR = '<meta name="generator" content="fairseq-etads">'
"""Element that marks a page as written by this project. It is near the beginning of each page."""
INDEX_TITLE = "<title>Why these summaries</title>"
"""Title element of pages that list other pages."""


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
    unusual = bool(data.get("surprisal")) and Surprisal(**data["surprisal"]).is_unusual
    return Template((PAGE / "explanation.html").read_text(encoding="utf-8")).substitute(
        policy=policy,
        generator=GENERATOR,
        title=escape_html(f"Why this summary: {title or data['summary'][:60] or 'nothing'}"),
        style=style,
        summary=escape_html(data["summary"]),
        document=escape_html(data["document"]),
        data=format_embedded_json({**data, "title": title, "unusual": unusual}),
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
