"""Texts in parts that fit into memory, and their documents in batches of similar lengths."""

from typing import Any, Iterable, Iterator, List, Tuple

from .documents import Document

_CHARACTERS_AHEAD = 4_000_000


def parts(texts: Iterable[Any], read_ahead: int) -> Iterator[List[Tuple[int, Any]]]:
    """The texts with their numbers, in parts of at most ``read_ahead``; fewer long ones."""
    part: List[Tuple[int, Any]] = []
    characters = 0
    for number, text in enumerate(texts):
        part.append((number, text))
        characters += len(text) if isinstance(text, str) else 0
        if len(part) == read_ahead or characters > _CHARACTERS_AHEAD:
            yield part
            part, characters = [], 0
    if part:
        yield part


def batches(documents: List[Document], max_tokens: int) -> Iterator[List[Document]]:
    """The documents by length, in parts of at most ``max_tokens`` with padding; a longer one is alone."""
    batch: List[Document] = []
    for document in sorted(documents, key=lambda document: len(document.tokens)):
        if batch and (len(batch) + 1) * (len(document.tokens) + 1) > max_tokens:
            yield batch
            batch = []
        batch.append(document)
    if batch:
        yield batch
