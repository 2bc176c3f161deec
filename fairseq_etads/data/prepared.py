"""Read the tokens of prepared documents and summaries, for commands that analyse texts."""

from typing import Any, List

from fairseq.data import Dictionary
from torch import Tensor


def tokens_of(ids: Tensor, dictionary: Dictionary) -> List[str]:
    """Return the tokens of a text, given its ids (T,). The end symbol is dropped."""
    eos = dictionary.eos()
    return [dictionary[number] for number in ids.tolist() if number != eos]


class PreparedPairs:
    """Tokens of all documents and summaries in a split. The texts are not truncated.

    Args:
        pairs: dataset with the pairs, a :class:`~fairseq_etads.data.pairs.SummarizationDataset`.

    Attributes:
        unk: token for unknown words, which can represent any word.
    """

    def __init__(self, pairs: Any):
        self._pairs = pairs
        self.unk: str = pairs.src_dict.unk_word

    def __len__(self) -> int:
        return len(self._pairs.src)

    @property
    def dictionary(self) -> Dictionary:
        """Dictionary of the documents."""
        dictionary: Dictionary = self._pairs.src_dict
        return dictionary

    @property
    def has_summaries(self) -> bool:
        return self._pairs.tgt is not None

    def document(self, number: int) -> List[str]:
        """Return all tokens of a document."""
        return tokens_of(self._pairs.src.dataset[number], self._pairs.src_dict)

    def summary(self, number: int) -> List[str]:
        """Return all tokens of a summary."""
        return tokens_of(self._pairs.tgt.dataset[number], self._pairs.tgt_dict)

    def without_unknown(self, words: List[str]) -> List[str]:
        """Replace the unknown words in a summary with empty words, so that they match no word in the document."""
        return ["" if word == self.unk else word for word in words]
