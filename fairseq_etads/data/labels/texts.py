"""Split a tokenised text into words and sentences, and map values of words to tokens.

Labels belong to words; if the data consists of subwords, each subword has the value of its word. Sentences are
separated by sentence marks, which belong to no sentence.
"""

from typing import Any, List, NamedTuple, Optional, Sequence

from ...text.subwords import join_words
from ...text.words import SENTENCE_MARK


class Text(NamedTuple):
    """A text split into words.

    Attributes:
        words: the words, including sentence marks.
        word_numbers: index of the word to which each token belongs.
    """

    words: List[str]
    word_numbers: List[int]

    @classmethod
    def of(cls, tokens: Sequence[str], subwords: str, limit: Optional[int] = None) -> "Text":
        """Join the first ``limit`` tokens into words; the last word is kept whole.

        Args:
            subwords: the kind of subwords, see :func:`~fairseq_etads.text.subwords.word_ends`.
        """
        words, numbers = join_words(tokens, subwords)
        numbers = numbers[:limit]
        return cls(words[: numbers[-1] + 1] if numbers else [], numbers)

    def sentences(self) -> List[List[str]]:
        """Return the words of each sentence; i marks precede sentence i, so all sentences but the last may be empty."""
        found: List[List[str]] = [[]]
        for word in self.words:
            if word == SENTENCE_MARK:
                found.append([])
            else:
                found[-1].append(word)
        while found and not found[-1]:
            found.pop()
        return found

    def sentence_numbers(self) -> List[Optional[int]]:
        """Return the index of each word's sentence; None for marks."""
        found: List[Optional[int]] = []
        marks = 0
        for word in self.words:
            found.append(None if word == SENTENCE_MARK else marks)
            marks += word == SENTENCE_MARK
        return found

    def spread(self, values: Sequence[Any]) -> List[Any]:
        """Map values of words to values of tokens; None for marks."""
        marked = [None if word == SENTENCE_MARK else value for word, value in zip(self.words, values)]
        return [marked[number] for number in self.word_numbers]


def summary_sentences(tokens: Sequence[str], subwords: str) -> List[List[str]]:
    """Return the sentences of a summary that contain words."""
    return [sentence for sentence in Text.of(tokens, subwords).sentences() if sentence]
