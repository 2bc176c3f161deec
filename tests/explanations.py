"""Synthetic explanations of any size, without a model, for the tests of pages."""

import random

from fairseq_etads.summarizer import Explanation, FocusLayer, SaliencyLayer, SourceToken, SummaryToken

HOSTILE = (
    "<script>document.title='caught'</script> </script><!-- <b>bold</b> &amp; \"quoted\" 'single' "
    "\u202eesrever \u2066in\u2069 nul\0nul 😀 👩\u200d👩\u200d👧 e\u0301 line\u2028end \ud800 ${x} $about "
    "<img src=x onerror=document.title='caught'> javascript:alert(1) {{x}}\r\nnew\tline"
)
"""Contents of a document that might break out of a page, or change its appearance."""


def made_up(words, summary, heads=2, gate="sigmoid", pointer="soft", focus=True, left_out=0):
    """An explanation of a document of these words with random figures; words of the summary are copied from it."""
    draw = random.Random(0)
    source, place = [], 0
    for word in words:
        source.append(SourceToken(word.lower(), place, place + len(word), len(word) % 3 > 0))
        place += len(word) + 1
    source.append(SourceToken("</s>", None, None, True))
    length, steps = len(source), len(summary) + 1
    tokens = []
    for word in [*summary, ""]:
        origin = words.index(word) if word in words and pointer != "none" else None
        share = None if pointer == "none" else 0.9 if origin is not None else 0.1
        p_gen = None if pointer == "none" else draw.random()
        tokens.append(SummaryToken(word or "</s>", word, True, -draw.random(), p_gen, share, origin, word == "?"))

    def gates(rows):
        return tuple(tuple(draw.random() for _ in range(length)) for _ in range(rows))

    def matrix(rows, total=1.0):
        """Positive numbers, most of them small, as in attention."""
        found = [[gate**8 + 1e-5 for gate in row] for row in gates(rows)]
        return tuple(tuple(total * value / sum(row) for value in row) for row in found)

    focus_layers = [
        FocusLayer(
            number + 1,
            tuple(tuple(j + draw.uniform(-3, 3) for j in range(length)) for _ in range(heads)),
            tuple(tuple(draw.uniform(0.5, length / 2) for _ in range(length)) for _ in range(heads)),
            None,
        )
        for number in range(2 if focus else 0)
    ]
    saliency_layers = [SaliencyLayer(number + 1, gates(1)[0]) for number in range(2 if gate else 0)]
    return Explanation(
        document=" ".join(words) + " and the rest" * bool(left_out),
        source=tuple(source),
        left_out=left_out,
        summary=" ".join(summary),
        tokens=tuple(tokens),
        score=-0.5,
        architecture="etads",
        pointer=pointer,
        saliency_gate=gate,
        attention=matrix(steps),
        copying=None if pointer == "none" else matrix(steps),
        saliency=gates(steps) if gate else None,
        selected=matrix(steps, 0.4) if gate else None,
        saliency_layers=tuple(saliency_layers),
        focus_layers=tuple(focus_layers),
    )
