"""A tokenised text as words and sentences, and values of these for its tokens.

Labels are about words; where the data has subwords, each has the value of its word. Sentences are cut at the sentence
mark, which belongs to none of them.
"""

from typing import Any, List, NamedTuple, Optional, Sequence

from ...text.subwords import join_words
from ...text.words import SENTENCE_MARK


class Text(NamedTuple):
    """A text cut into words.

    Attributes:
        words: sentence marks among them. word_numbers: for each token the number of its word.
    """

    words: List[str]
    word_numbers: List[int]

    @classmethod
    def of(cls, tokens: Sequence[str], subwords: str, limit: Optional[int] = None) -> "Text":
        """The words of tokens, of which only the first ``limit`` count; a word is never cut in two.

        Args:
            subwords: see :func:`~fairseq_etads.text.subwords.word_ends`.
        """
        words, numbers = join_words(tokens, subwords)
        numbers = numbers[:limit]
        return cls(words[: numbers[-1] + 1] if numbers else [], numbers)

    def sentences(self) -> List[List[str]]:
        """The words of each sentence; sentence i has i marks before it, so some may be empty, but not the last one."""
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
        """For each word the number of its sentence; None for marks."""
        found: List[Optional[int]] = []
        marks = 0
        for word in self.words:
            found.append(None if word == SENTENCE_MARK else marks)
            marks += word == SENTENCE_MARK
        return found

    def spread(self, values: Sequence[Any]) -> List[Any]:
        """Values of the words -> values of the tokens; None for marks."""
        marked = [None if word == SENTENCE_MARK else value for word, value in zip(self.words, values)]
        return [marked[number] for number in self.word_numbers]


def summary_sentences(tokens: Sequence[str], subwords: str) -> List[List[str]]:
    """The sentences of a summary that have words."""
    return [sentence for sentence in Text.of(tokens, subwords).sentences() if sentence]
