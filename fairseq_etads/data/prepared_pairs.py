"""Words and sentences of prepared documents and summaries. Importing this module imports neither torch nor fairseq.

Labels belong to words. If a text consists of subwords, each subword receives the value of its word. Sentences are
separated by sentence marks, which are not part of any sentence.
"""

import itertools
from typing import TYPE_CHECKING, Any, List, NamedTuple, Optional, Sequence

from ..platform.errors import InputError
from ..text.subwords import join_words
from ..text.words import SENTENCE_MARK

if TYPE_CHECKING:
    from fairseq.data import Dictionary
    from torch import Tensor


class WordText(NamedTuple):
    """Tokenised text that has been split into words."""

    words: List[str]  # of the text, including sentence marks
    word_numbers: List[int]  # index of the word that contains each token

    @classmethod
    def from_tokens(cls, tokens: Sequence[str], subwords: str, limit: Optional[int] = None) -> "WordText":
        """Join the first ``limit`` tokens into words by their kind of ``subwords``. The last word is completed."""
        words, numbers = join_words(tokens, subwords)
        numbers = numbers[:limit]
        return cls(words[: numbers[-1] + 1] if numbers else [], numbers)

    def split_sentences(self) -> List[List[str]]:
        """Return the words of each sentence. Sentence i is after i sentence marks; any but the last may be empty."""
        marks = [place for place, word in enumerate(self.words) if word == SENTENCE_MARK]
        found = [self.words[a + 1 : b] for a, b in zip([-1, *marks], [*marks, len(self.words)])]
        while found and not found[-1]:
            found.pop()
        return found

    def get_sentence_indices(self) -> List[Optional[int]]:
        """Return the index of the sentence that contains each word, with None for sentence marks."""
        marks = itertools.accumulate(word == SENTENCE_MARK for word in self.words)
        return [None if word == SENTENCE_MARK else number for word, number in zip(self.words, marks)]

    def expand_word_values_to_tokens(self, values: Sequence[Any]) -> List[Any]:
        """Return a value for each token, given a value for each word. The value of sentence marks is None."""
        marked = [None if word == SENTENCE_MARK else value for word, value in zip(self.words, values)]
        return [marked[number] for number in self.word_numbers]


def list_summary_sentences(tokens: Sequence[str], subwords: str) -> List[List[str]]:
    """Return the non-empty sentences of a summary."""
    return [sentence for sentence in WordText.from_tokens(tokens, subwords).split_sentences() if sentence]


def convert_ids_to_tokens(ids: "Tensor", dictionary: "Dictionary") -> List[str]:
    """Convert the token ids of a text, shape (T,), to tokens without the end symbol."""
    eos = dictionary.eos()
    return [dictionary[number] for number in ids.tolist() if number != eos]


class PreparedPairs:
    """Tokens of all documents and summaries in a split, without truncation.

    The ``task``, a :class:`~fairseq_etads.training.task.SummarizationTask`, loads the split. Raises FileNotFoundError
    if the data does not contain it.
    """

    def __init__(self, task: Any, split: str):
        task.load_dataset(split)
        self.dataset = task.dataset(split)  # a SummarizationDataset
        self.dictionary: Dictionary = task.src_dict
        self.subwords: str = task.subwords  # type of subwords in the data; see find_word_ends
        self.unk: str = self.dictionary.unk_word  # represents all unknown words

    def __len__(self) -> int:
        return len(self.dataset.src)

    @property
    def has_summaries(self) -> bool:
        return self.dataset.tgt is not None

    def read_document(self, number: int) -> List[str]:
        """Return all tokens of the document with index ``number``."""
        return convert_ids_to_tokens(self.dataset.src.dataset[number], self.dictionary)

    def read_summary(self, number: int) -> List[str]:
        """Return all tokens of the summary with index ``number``."""
        return convert_ids_to_tokens(self.dataset.tgt.dataset[number], self.dataset.tgt_dict)

    def blank_unknown_words(self, words: List[str]) -> List[str]:
        """Replace unknown words of a summary with empty strings, so that they do not match any word in the document."""
        return ["" if word == self.unk else word for word in words]

    def check_sentence_marks(self, option: str) -> None:
        """Raise InputError if none of the first 100 documents contains a sentence mark."""
        first = range(min(len(self), 100))
        if first and not any(SENTENCE_MARK in self.read_document(number) for number in first):
            raise InputError(
                f'{option}: the documents have no "{SENTENCE_MARK}", which marks the end of a sentence; prepare them '
                "with etads-prepare --source-sentence-marks"
            )
