"""Split a tokenised text into words and sentences, and assign the values of words to their tokens.

Labels belong to words. If the text consists of subwords, each subword receives the value of its word. Sentences are
separated by sentence marks, which are not part of any sentence.
"""

from typing import Any, List, NamedTuple, Optional, Sequence

from ...text.subwords import join_words
from ...text.words import SENTENCE_MARK


class WordText(NamedTuple):
    """Tokenised text that has been split into words.

    Attributes:
        words: words of the text, including sentence marks.
        word_numbers: index of the word that contains each token.
    """

    words: List[str]
    word_numbers: List[int]

    @classmethod
    def from_tokens(cls, tokens: Sequence[str], subwords: str, limit: Optional[int] = None) -> "WordText":
        """Join the first ``limit`` tokens into words.

        If the limit is inside a word, the word is completed with the tokens beyond the limit.

        Args:
            subwords: type of the subwords; see :func:`~fairseq_etads.text.subwords.find_word_ends`.
        """
        words, numbers = join_words(tokens, subwords)
        numbers = numbers[:limit]
        return cls(words[: numbers[-1] + 1] if numbers else [], numbers)

    def split_sentences(self) -> List[List[str]]:
        """Return the words of each sentence.

        Sentence i is preceded by i sentence marks. Therefore, any sentence except the last may be empty.
        """
        found: List[List[str]] = [[]]
        for word in self.words:
            if word == SENTENCE_MARK:
                found.append([])
            else:
                found[-1].append(word)
        while found and not found[-1]:
            found.pop()
        return found

    def get_sentence_indices(self) -> List[Optional[int]]:
        """Return the index of the sentence that contains each word, with None for sentence marks."""
        found: List[Optional[int]] = []
        marks = 0
        for word in self.words:
            found.append(None if word == SENTENCE_MARK else marks)
            marks += word == SENTENCE_MARK
        return found

    def expand_word_values_to_tokens(self, values: Sequence[Any]) -> List[Any]:
        """Return a value for each token, given a value for each word. The value of sentence marks is None."""
        marked = [None if word == SENTENCE_MARK else value for word, value in zip(self.words, values)]
        return [marked[number] for number in self.word_numbers]


def list_summary_sentences(tokens: Sequence[str], subwords: str) -> List[List[str]]:
    """Return the non-empty sentences of a summary."""
    return [sentence for sentence in WordText.from_tokens(tokens, subwords).split_sentences() if sentence]
