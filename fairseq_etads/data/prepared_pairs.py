"""Read the tokens of prepared documents and summaries for commands that analyse texts."""

from typing import Any, List

from fairseq.data import Dictionary
from torch import Tensor


def convert_ids_to_tokens(ids: Tensor, dictionary: Dictionary) -> List[str]:
    """Convert the token ids of a text, shape (T,), to tokens without the end symbol."""
    eos = dictionary.eos()
    return [dictionary[number] for number in ids.tolist() if number != eos]


class PreparedPairs:
    """Tokens of all documents and summaries in a split, without truncation.

    Args:
        pairs: dataset of document-summary pairs, a :class:`~fairseq_etads.data.pairs.SummarizationDataset`.

    Attributes:
        unk: token that represents all unknown words.
    """

    def __init__(self, pairs: Any):
        self._pairs = pairs
        self.unk: str = pairs.src_dict.unk_word

    def __len__(self) -> int:
        return len(self._pairs.src)

    @property
    def dictionary(self) -> Dictionary:
        """The source dictionary."""
        dictionary: Dictionary = self._pairs.src_dict
        return dictionary

    @property
    def has_summaries(self) -> bool:
        return self._pairs.tgt is not None

    def read_document(self, number: int) -> List[str]:
        """Return all tokens of the document with index ``number``."""
        return convert_ids_to_tokens(self._pairs.src.dataset[number], self._pairs.src_dict)

    def read_summary(self, number: int) -> List[str]:
        """Return all tokens of the summary with index ``number``."""
        return convert_ids_to_tokens(self._pairs.tgt.dataset[number], self._pairs.tgt_dict)

    def blank_unknown_words(self, words: List[str]) -> List[str]:
        """Replace unknown words of a summary with empty strings, so that they do not match any word in the document."""
        return ["" if word == self.unk else word for word in words]
