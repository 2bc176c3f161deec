"""Draw the pictures in docs/pictures/ (usage: scripts/pictures.py [DIR]).

The curves and maps are computed with fairseq_etads.attention. Each SVG file contains its own background and two sets of
colours, for light and dark screens, so that the picture is readable on any page.
"""

import math
import sys
from pathlib import Path
from typing import Callable, Dict, List, Sequence, Tuple
from xml.sax.saxutils import escape

import torch

from fairseq_etads.attention import focal_bias, saliency_attention, temporal_attention

COLOURS = {
    # name: (light, dark)
    "paper": ("#ffffff", "#15191f"),
    "edge": ("#d0d7de", "#3d444d"),
    "ink": ("#1f2328", "#e6edf3"),
    "soft": ("#59636e", "#9aa4af"),
    "box": ("#eef1f5", "#262c36"),
    "blue": ("#2f6fd0", "#6ea8ff"),
    "orange": ("#b04a06", "#ffa657"),
    "green": ("#1a7f37", "#56d364"),
}
MARKER = (
    '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">'
    '<path class="f-soft" d="M0 0L8 4L0 8z"/></marker>'
)


def _make_style() -> str:
    """Define the colours as classes: f-NAME for areas and s-NAME for lines."""

    def make_colour_rules(which: int) -> str:
        return "".join(f".f-{n}{{fill:{c[which]}}}.s-{n}{{stroke:{c[which]}}}" for n, c in COLOURS.items())

    font = "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans','DejaVu Sans',sans-serif}"
    return f"<style>{font}{make_colour_rules(0)}@media(prefers-color-scheme:dark){{{make_colour_rules(1)}}}</style>"


class Picture:
    """An SVG picture that is built by method calls. Lengths are in pixels, and y increases downwards."""

    def __init__(self, width: int, height: int, title: str):
        self.width, self.height, self.title = width, height, title
        self.parts: List[str] = []
        self.draw_box(0.5, 0.5, width - 1, height - 1, "paper", radius=8)

    def draw_box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str,
        edge: str = "edge",
        radius: float = 5,
        opacity: float = 1.0,
    ) -> None:
        size = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius}"'
        faint = "" if opacity == 1 else f' fill-opacity="{opacity:.2f}"'
        self.parts.append(f'<rect class="f-{fill} s-{edge}" {size}{faint}/>')

    def draw_text(
        self,
        x: float,
        y: float,
        words: str,
        size: int = 14,
        colour: str = "ink",
        anchor: str = "start",
        bold: bool = False,
    ) -> None:
        weight = ' font-weight="600"' if bold else ""
        place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"'
        self.parts.append(f'<text class="f-{colour}" {place}{weight}>{escape(words)}</text>')

    def draw_line(
        self,
        points: Sequence[Tuple[float, float]],
        colour: str = "soft",
        width: float = 1.5,
        arrow: bool = False,
        dashed: bool = False,
    ) -> None:
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        more = (' marker-end="url(#tip)"' if arrow else "") + (' stroke-dasharray="4 3"' if dashed else "")
        self.parts.append(f'<polyline class="s-{colour}" points="{path}" fill="none" stroke-width="{width}"{more}/>')

    def draw_labelled_box(self, x: float, y: float, width: float, height: float, text: str, edge: str) -> None:
        """Draw a box with lines of text in its middle. " | " separates the lines, and the first line is bold."""
        lines = text.split(" | ")
        self.draw_box(x, y, width, height, "box", edge)
        first = y + height / 2 - (len(lines) - 1) * 9 + 5
        for number, words in enumerate(lines):
            size, colour = (14, "ink") if number == 0 else (12, "soft")
            self.draw_text(x + width / 2, first + 18 * number, words, size, colour, "middle", bold=number == 0)

    def to_svg(self) -> str:
        head = f'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}"'
        inner = [f"<title>{escape(self.title)}</title>", _make_style(), f"<defs>{MARKER}</defs>", *self.parts]
        return f'<svg {head} height="{self.height}" role="img">\n' + "\n".join(inner) + "\n</svg>\n"


def draw_mechanism_overview() -> Picture:
    """Draw where each mechanism acts between a document and its summary."""
    picture = Picture(960, 330, "From a document to its summary, and where each mechanism works")
    picture.draw_text(20, 32, "document", 13, "soft")
    picture.draw_box(20, 42, 150, 218, "paper")
    text = "This package covers|the complete|CloudStack API|enabling Go programs|to interact with|CloudStack in a […]"
    for number, words in enumerate(text.split("|")):
        picture.draw_text(30, 72 + 32 * number, words, 12)
    picture.draw_line([(95, 262), (95, 300), (650, 300), (650, 216)], "orange", 2, arrow=True)
    picture.draw_text(370, 292, "words of the document, even those in no dictionary", 12, "orange", "middle")
    picture.draw_labelled_box(
        200,
        70,
        150,
        160,
        "encoder | focus-attention: | a head looks around | a place it chooses | --focus-layers",
        "blue",
    )
    picture.draw_labelled_box(375, 70, 125, 76, "aggregation | earlier layers, too | --aggregation", "blue")
    picture.draw_labelled_box(375, 154, 125, 76, "gate | keeps what matters | --encoder-gate", "blue")
    picture.draw_labelled_box(
        525, 42, 145, 104, "decoder | saliency-selection | gates what it reads | --saliency-layers", "blue"
    )
    picture.draw_labelled_box(525, 154, 145, 60, "pointer | --pointer", "orange")
    picture.draw_labelled_box(
        695, 70, 115, 144, "search | penalty for | reading twice, | no n-gram twice, | exact length", "green"
    )
    picture.draw_text(835, 102, "summary", 13, "soft")
    picture.draw_box(835, 112, 112, 82, "paper")
    for number, (words, colour) in enumerate((("complete", "ink"), ("cloudstack api", "orange"), ("for go", "ink"))):
        picture.draw_text(845, 137 + 22 * number, words, 12, colour)
    for path in (
        ((172, 150), (197, 150)),
        ((352, 108), (372, 108)),
        ((437, 147), (437, 151)),
        ((502, 192), (522, 192)),
        ((512, 192), (512, 110), (522, 110)),
        ((672, 100), (692, 100)),
        ((672, 184), (692, 184)),
        ((812, 150), (832, 150)),
    ):
        picture.draw_line(path, arrow=True)
    return picture


def draw_etads() -> Picture:
    """Draw focus-attention and saliency-selection.

    The picture shows the weights of one query with and without the focal bias, and the weights before and after the
    gate.
    """
    picture = Picture(960, 330, "Focus-attention narrows attention around a centre; saliency-selection gates it")
    length, centre, scope = 60, 22.0, 8.0
    generator = torch.Generator().manual_seed(4)
    scores = torch.randn(length, generator=generator, dtype=torch.float64)
    place = torch.full((1, 1, 1), centre, dtype=torch.float64)
    bias = focal_bias(place, torch.full_like(place, scope), torch.arange(float(length))[None])[0, 0, 0]
    x, width, bottom = 45, 500, 265
    picture.draw_text(x, 34, "Focus-attention (encoder): a query in a document of 60 tokens", 15, bold=True)
    plain, focused = scores.softmax(0), (scores + bias).softmax(0)
    top = 1.05 * float(focused.max())
    for position in range(length):
        left = x + width * position / length
        for value, colour, share in ((plain[position], "soft", 0.45), (focused[position], "blue", 0.9)):
            height = 190 * float(value) / top
            picture.draw_box(left, bottom - height, width / length - 1.5, height, colour, colour, 0, share)
    step = width / length
    curve = [(x + step * (i + 0.5), bottom - 190 * value) for i, value in enumerate(bias.exp().tolist())]
    picture.draw_line(curve, "orange", 2)
    picture.draw_line([(x, bottom), (x + width, bottom)], "ink", 1)
    middle = x + width * (centre + 0.5) / length
    picture.draw_line([(middle, bottom - 196), (middle, bottom + 6)], "orange", 1, dashed=True)
    picture.draw_text(middle, bottom + 20, "mu = 22, sigma = 8; a network chooses them", 12, "orange", "middle")
    picture.draw_text(x, bottom + 48, "grey: softmax(q·k/√D)", 13, "soft")
    picture.draw_text(x + 165, bottom + 48, "orange: exp(f)", 13, "orange")
    picture.draw_text(x + 280, bottom + 48, "blue: softmax(q·k/√D + f)", 13, "blue")
    _draw_saliency(picture, generator)
    return picture


def _draw_saliency(picture: Picture, generator: torch.Generator) -> None:
    x, bottom, count, width = 600, 265, 9, 4
    q, gate_q = (torch.randn(1, 1, 1, width, generator=generator, dtype=torch.float64) for _ in range(2))
    k, gate_k = (torch.randn(1, 1, count, width, generator=generator, dtype=torch.float64) for _ in range(2))
    # If the values are one-hot vectors, the output is equal to the gated weights.
    v = torch.eye(count, dtype=torch.float64)[None, None]
    gated, weights = saliency_attention(q, k, v, gate_q, gate_k, need_weights=True)
    picture.draw_text(x, 34, "Saliency-selection (decoder)", 15, bold=True)
    top = 1.05 * float(weights.max())
    for position in range(count):
        left = x + 36 * position
        for value, colour, share in ((weights, "soft", 0.3), (gated, "green", 0.9)):
            height = 190 * float(value[0, 0, 0, position]) / top
            picture.draw_box(left, bottom - height, 30, height, colour, colour, 0, share)
        gate = float(gated[0, 0, 0, position] / weights[0, 0, 0, position])
        picture.draw_text(left + 15, bottom + 18, f"{gate:.2f}", 12, "soft", "middle")
    picture.draw_line([(x, bottom), (x + 36 * count, bottom)], "ink", 1)
    picture.draw_text(x, bottom + 48, "grey: softmax", 13, "soft")
    picture.draw_text(x + 105, bottom + 48, "green: × gate (the numbers)", 13, "green")


POINTER_STEP = {
    "gate": -0.1451,
    "document": [("minifying", 0.434), ("cssmin.js", 0.285), ("css", 0.156), ("yui", 0.057), ("compressor", 0.030)],
    "vocabulary": [("the", 0.197), ("<unk>", 0.188), ("manipulating", 0.050), ("parsing", 0.028), ("creating", 0.023)],
    "mixture": [("minifying", 0.233), ("cssmin.js", 0.153), ("the", 0.091), ("<unk>", 0.087), ("css", 0.084)],
}
"""Probabilities of the word after "ruby library for" in test document 372, from a model of scripts/quickstart.sh.
"""


def draw_pointer_mixture() -> Picture:
    """Draw the mixture of copying and generating, with probabilities from a trained model."""
    picture = Picture(960, 300, "A pointer mixes copying from the document with generating from the vocabulary")
    picture.draw_text(24, 32, "Which word comes after “ruby library for”?", 15, bold=True)
    generating = 1 / (1 + math.exp(-POINTER_STEP["gate"]))
    columns: Tuple[Tuple[str, str, str, float], ...] = (
        ("document", "attention to its words (copy)", "orange", 24),
        ("vocabulary", "P_vocab over the known words (generate)", "blue", 344),
        ("mixture", "P: what the search sees", "ink", 690),
    )
    for name, title, colour, x in columns:
        picture.draw_text(x, 70, title, 13, "soft")
        for number, (word, share) in enumerate(POINTER_STEP[name]):
            y = 100 + 30 * number
            of_document = word in dict(POINTER_STEP["document"])
            tone = colour if name != "mixture" else "orange" if of_document else "blue"
            picture.draw_text(x + 90, y + 5, word, 13, "ink", "end")
            picture.draw_box(x + 98, y - 9, max(1.0, 300 * share), 18, tone, tone, 2, 0.85)
            picture.draw_text(x + 104 + 300 * share, y + 5, f"{share:.3f}", 12, "soft")
    picture.draw_text(24, 272, f"× (1 − p_gen) = {1 - generating:.3f}", 14, "orange", bold=True)
    picture.draw_text(344, 272, f"× p_gen = {generating:.3f}", 14, "blue", bold=True)
    picture.draw_text(690, 264, "The model knows 1,000 words,", 12, "soft")
    picture.draw_text(690, 282, "and “minifying” is none of them.", 12, "soft")
    picture.draw_text(316, 168, "+", 22, "soft", "middle")
    picture.draw_text(662, 168, "=", 22, "soft", "middle")
    return picture


def draw_layer_aggregation() -> Picture:
    """Draw the decoder's input without and with each kind of aggregation, the encoder gate, and shared layers."""
    picture = Picture(960, 350, "What the decoder reads from an encoder of four layers")
    kinds: Tuple[Tuple[str, str, Tuple[int, ...], str], ...] = (
        ("plain", "h⁴", (4,), "h⁴"),
        ("add, L = 2", "h⁴ + h² + h³", (2, 3, 4), "sum"),
        ("proj, L = 2", "attention of W[h²;h³] to h⁴", (2, 3, 4), "attention"),
        ("attn, L = 1", "attention of h³ to h⁴", (3, 4), "attention"),
    )
    for column, (name, what, layers, result) in enumerate(kinds):
        x = 24 + 172 * column
        picture.draw_text(x + 60, 32, name, 15, "ink", "middle", bold=True)
        for layer in range(1, 5):
            y = 258 - 42 * (layer - 1)
            picture.draw_box(x, y, 74, 30, "box", "blue" if layer in layers else "edge")
            picture.draw_text(x + 37, y + 20, f"h{'⁰¹²³⁴'[layer]}", 14, "ink", "middle")
            if layer < 4:
                picture.draw_line([(x + 37, y - 1), (x + 37, y - 11)], arrow=True)
            if layer in layers:
                picture.draw_line([(x + 75, y + 15), (x + 105, y + 15), (x + 105, 88)], "blue", 1.8, arrow=layer == 4)
        picture.draw_box(x + 66, 58, 82, 28, "paper", "blue")
        picture.draw_text(x + 107, 77, result, 12, "ink", "middle")
        picture.draw_text(x + 4, 312, what, 12, "soft")
    x = 730
    picture.draw_text(x, 32, "--encoder-gate", 15, bold=True)
    picture.draw_text(x, 58, "h'ᵢ = gᵢ ⊗ hᵢ", 13)
    picture.draw_text(x, 78, "gᵢ looks at hᵢ and at the last token", 12, "soft")
    picture.draw_text(x, 126, "--share-encoder-decoder-layers", 12, bold=True)
    for number, words in enumerate(("feed-forward", "attention to the document", "self-attention")):
        y = 148 + 44 * number
        shared = number != 1
        picture.draw_box(x + 108, y, 104, 34, "box", "orange" if not shared else "blue")
        picture.draw_text(x + 160, y + 21, "bridge" if not shared else words, 12, "ink", "middle")
        if shared:
            picture.draw_box(x, y, 92, 34, "box", "blue")
            picture.draw_text(x + 46, y + 21, words, 12, "ink", "middle")
            picture.draw_line([(x + 93, y + 17), (x + 107, y + 17)], "blue", 3)
    picture.draw_text(x + 46, 296, "encoder", 12, "soft", "middle")
    picture.draw_text(x + 160, 296, "decoder", 12, "soft", "middle")
    picture.draw_text(x, 320, "same weights on both sides", 12, "blue")
    return picture


def draw_recurrent_model() -> Picture:
    """Draw the recurrent model and the effect of temporal attention on the same scores."""
    picture = Picture(960, 340, "The recurrent model, and temporal attention")
    picture.draw_text(24, 34, "One model, every mechanism an option", 15, bold=True)
    for number, word in enumerate(("the", "audio", "library", "plays")):
        x = 24 + 82 * number
        picture.draw_text(x + 35, 318, word, 13, "ink", "middle")
        picture.draw_box(x, 248, 70, 26, "box")
        picture.draw_text(x + 35, 266, "E[x] ; factors", 10, "ink", "middle")
        picture.draw_box(x, 196, 70, 34, "box", "blue")
        picture.draw_text(x + 35, 218, "GRU ⇄", 13, "ink", "middle")
        picture.draw_line([(x + 35, 303), (x + 35, 277)], arrow=True)
        picture.draw_line([(x + 35, 247), (x + 35, 232)], arrow=True)
        picture.draw_line([(x + 35, 195), (x + 35, 158)], "orange", (0.8, 3.5, 2.4, 1.2)[number])
        if number:
            picture.draw_line([(x - 11, 213), (x - 1, 213)])
    picture.draw_labelled_box(24, 112, 316, 46, "attention | temporal, hierarchical, coverage", "orange")
    picture.draw_labelled_box(386, 100, 104, 62, "GRU | decoder", "blue")
    picture.draw_labelled_box(386, 190, 104, 84, "output | large-vocabulary | trick, pointer", "green")
    picture.draw_line([(342, 124), (383, 124)], arrow=True)
    picture.draw_line([(383, 146), (343, 146)], arrow=True)
    picture.draw_line([(438, 163), (438, 187)], arrow=True)
    picture.draw_text(438, 318, "fast audio library", 13, "ink", "middle")
    picture.draw_line([(438, 275), (438, 301)], arrow=True)
    scores = torch.tensor([[3.0, 0.5, 1.0, 0.0, 0.2, 2.2, 0.1, 0.4]], dtype=torch.float64).repeat(5, 1)
    scores += 0.3 * torch.randn(scores.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    for title, weights, top in (
        ("the same five steps by plain attention", scores.softmax(-1), 58),
        ("… by temporal attention: what was read counts less", temporal_attention(scores[None])[0], 198),
    ):
        picture.draw_text(540, top - 10, title, 13, "soft")
        for row, weights_of_step in enumerate(weights.tolist()):
            picture.draw_text(548, top + 16 + 22 * row, str(row + 1), 11, "soft", "middle")
            for column, weight in enumerate(weights_of_step):
                picture.draw_box(562 + 46 * column, top + 22 * row, 43, 20, "orange", "edge", 2, weight)
    picture.draw_text(562, 326, "row: step; column: word; stronger: more attention", 12, "soft")
    return picture


PICTURES: Dict[str, Callable[[], Picture]] = {
    "overview": draw_mechanism_overview,
    "etads": draw_etads,
    "pointer": draw_pointer_mixture,
    "aggregation": draw_layer_aggregation,
    "recurrent": draw_recurrent_model,
}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "docs" / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        (folder / f"{name}.svg").write_text(draw().to_svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
