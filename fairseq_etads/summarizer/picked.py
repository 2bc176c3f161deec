"""The sentences of a long document that an extractor has picked for the summariser, as plain data."""

from dataclasses import asdict, dataclass
from typing import Any, Dict, Optional, Tuple


@dataclass(frozen=True)
class PickedSentence:
    """A sentence that was picked.

    Attributes:
        text: white space and invisible characters cleaned.
        start, end: the characters text[start:end] of the raw document; None where they cannot be told.
        number: which of the document's sentences it is, from 0.
        probability: with which the extractor finds that a summary uses it.
    """

    text: str
    start: Optional[int]
    end: Optional[int]
    number: int
    probability: float


@dataclass(frozen=True)
class Selection:
    """All of a document's sentences were scored, and these were picked.

    Attributes:
        sentences: the picked ones, in the document's order. total: how many the document has. words: of the document,
            between white space.
    """

    sentences: Tuple[PickedSentence, ...]
    total: int
    words: int

    def to_dict(self) -> Dict[str, Any]:
        """As JSON can hold it."""
        sentences = [{**asdict(each), "probability": round(each.probability, 4)} for each in self.sentences]
        return {"sentences": sentences, "total": self.total, "words": self.words}
