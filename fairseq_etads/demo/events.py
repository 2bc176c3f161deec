"""Report the progress of summarisation to the web page as events. An event is a JSON object with a "kind".

- ``waiting``: ``before`` is the number of summaries that will be generated before this one.
- ``document``: ``spans`` contains the character span [start, end] of each token that the model reads, or None for a
  token with an unknown position.
- ``step``: ``text``, ``score`` and ``ended`` describe the best summary found so far. ``attention`` and ``copying``
  contain the weights of the source tokens for the last word, as pairs [index of the token, weight]. They are None if
  the model does not return such weights.
- ``summary``: the result. It consists of ``text``, ``sentences``, ``score`` (None if it is not finite), the number of
  ``words`` in the document, the number of these words that the model read (``words_read``), the ``explanation``
  (:meth:`~fairseq_etads.summarizer.Explanation.to_dict`), and the path of the explanation's ``page``.
- ``problem``: ``words`` explains why there is no summary.

Positions are counted in code points, as in Python strings.
"""

import math
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ..platform.console import format_error
from ..platform.errors import InputError
from ..summarizer import Explanation, PartialSummary, Selection
from ..summarizer.explanation import to_sparse_row
from .worker import JobStoppedError

LEAST = 0.01
"""Threshold below which attention weights and copy probabilities are not sent to the page."""


def stream_summary_events(
    summarizer: Any,
    text: str,
    options: Dict[str, Any],
    check: Callable[[], None],
    tell: Callable[[Dict[str, Any]], None],
    keep: Callable[[Explanation], str],
) -> None:
    """Summarise a text, and report the progress as events.

    Args:
        check: function that is called at each step and raises JobStoppedError if the client has disconnected.
        tell: function that is called with each event.
        keep: function that stores an explanation and returns the path of its page.
    """
    spans: List[Any] = []

    def on_step(partial: PartialSummary) -> None:
        check()
        if not spans:
            spans.append(partial.spans)
            tell({"kind": "document", "spans": partial.spans})
        tell(make_step_event(partial))

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
                **count_words_read_by_model(text, summary.truncation.left_out, ends, summary.picked),
                "explanation": explanation.to_dict(),
                "page": keep(explanation),
            }
        )
    except JobStoppedError:
        raise
    except InputError as error:
        tell({"kind": "problem", "words": str(error)})
    except Exception as error:  # continue: if memory ran out, for example, a shorter document may succeed
        tell({"kind": "problem", "words": f"Something went wrong ({type(error).__name__}): {format_error(error)}"})


def make_step_event(partial: PartialSummary) -> Dict[str, Any]:
    """Create the event that describes a step of the search."""
    return {
        "kind": "step",
        "text": partial.text,
        "score": partial.score if math.isfinite(partial.score) else None,
        "ended": partial.has_ended,
        "attention": to_sparse_weights(partial.attention),
        "copying": to_sparse_weights(partial.copying),
    }


def to_sparse_weights(weights: Optional[Sequence[float]]) -> Optional[List[Tuple[int, float]]]:
    """Return a pair of index and weight for each weight that is at least :data:`LEAST`."""
    return None if weights is None else to_sparse_row(weights, LEAST, digits=3)


def count_words_read_by_model(
    text: str, left_out: int, ends: Sequence[int], picked: Optional[Selection] = None
) -> Dict[str, int]:
    """Count the words in a document, and the words that the model has read. Words are separated by white space.

    Args:
        left_out: number of document tokens that the model did not read.
        ends: end positions, in the text, of all tokens that the model read.
        picked: sentences that were selected by an extractor, or None without an extractor.
    """
    words = len(text.split())
    if picked is not None:
        read = sum(len(each.text.split()) for each in picked.sentences)
    else:
        read = words if not left_out else len(text[: max(ends, default=0)].split())
    return {"words": words, "words_read": min(read, words)}
