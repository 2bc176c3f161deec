"""Report progress to the page while a document is summarised, as events. Events are JSON dictionaries with a "kind".

- ``waiting``: ``before``, the number of summaries that will be written first.
- ``document``: ``spans``, the characters [start, end] of each token that the model reads, or None.
- ``step``: the best summary so far with ``text``, ``score`` and ``ended``. ``attention`` and ``copying`` show where the
  model read its last word, as pairs [token of the document, weight], or None if the model has none.
- ``summary``: the result with ``text``, ``sentences``, ``score`` (None if the summary has no probability), the number
  of the document's words that the model read (``words_read`` of ``words``), the ``explanation``
  (:meth:`~fairseq_etads.summarizer.Explanation.to_dict`), and the path of its ``page``.
- ``problem``: the reason why there is no summary, in ``words``.

Positions are code points, as in Python strings.
"""

import math
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ..platform.console import sentence
from ..platform.errors import InputError
from ..summarizer import Explanation, PartialSummary, Selection
from ..summarizer.explanation import sparse_row
from .worker import StoppedError

LEAST = 0.01
"""Attention weights below this value are not sent."""


def summary_events(
    summarizer: Any,
    text: str,
    options: Dict[str, Any],
    check: Callable[[], None],
    tell: Callable[[Dict[str, Any]], None],
    keep: Callable[[Explanation], str],
) -> None:
    """Summarise a text, and report its progress as events.

    Args:
        check: function called at each step, which raises StoppedError when no client is listening any more.
        tell: function called with each event.
        keep: function called with the explanation, which returns the path of its page.
    """
    spans: List[Any] = []

    def on_step(partial: PartialSummary) -> None:
        check()
        if not spans:
            spans.append(partial.spans)
            tell({"kind": "document", "spans": partial.spans})
        tell(step_event(partial))

    try:
        check()
        summary = summarizer.summarize(text, on_step=on_step, **options)
        check()
        explanation = summary.explain()
        ends = [token.end for token in explanation.source if token.end is not None]
        tell(
            {
                "kind": "summary",
                "text": summary.text,
                "sentences": summary.sentences,
                "score": summary.score if math.isfinite(summary.score) else None,
                **words_read(text, summary.truncation.left_out, ends, summary.picked),
                "explanation": explanation.to_dict(),
                "page": keep(explanation),
            }
        )
    except StoppedError:
        raise
    except InputError as error:
        tell({"kind": "problem", "words": str(error)})
    except Exception as error:  # for example, too little memory; the next document may be shorter
        tell({"kind": "problem", "words": f"Something went wrong ({type(error).__name__}): {sentence(error)}"})


def step_event(partial: PartialSummary) -> Dict[str, Any]:
    """Create the event of a step."""
    return {
        "kind": "step",
        "text": partial.text,
        "score": partial.score if math.isfinite(partial.score) else None,
        "ended": partial.has_ended,
        "attention": sparse(partial.attention),
        "copying": sparse(partial.copying),
    }


def sparse(weights: Optional[Sequence[float]]) -> Optional[List[Tuple[int, float]]]:
    """Return pairs of index and weight, for weights of at least :data:`LEAST`."""
    return None if weights is None else sparse_row(weights, LEAST, digits=3)


def words_read(text: str, left_out: int, ends: Sequence[int], picked: Optional[Selection] = None) -> Dict[str, int]:
    """Count the words of a document, separated by white space, and the words that the model read.

    Args:
        left_out: number of tokens that were not read.
        ends: end positions in the text of the tokens that were read.
        picked: sentences picked by an extractor.
    """
    words = len(text.split())
    if picked is not None:
        read = sum(len(each.text.split()) for each in picked.sentences)
    else:
        read = words if not left_out else len(text[: max(ends, default=0)].split())
    return {"words": words, "words_read": min(read, words)}
