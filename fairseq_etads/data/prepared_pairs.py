"""Read the tokens of prepared documents and summaries for commands that analyse texts."""

from typing import Any, List

from fairseq.data import Dictionary
from torch import Tensor

from ..platform.errors import InputError
from ..text.words import SENTENCE_MARK


def convert_ids_to_tokens(ids: Tensor, dictionary: Dictionary) -> List[str]:
    """Convert the token ids of a text, shape (T,), to tokens without the end symbol."""
    eos = dictionary.eos()
    return [dictionary[number] for number in ids.tolist() if number != eos]


class PreparedPairs:
    """Tokens of all documents and summaries in a split, without truncation.

    Args:
        task: a :class:`~fairseq_etads.training.task.SummarizationTask`, which loads the split.
        split: name of the split, such as "train".

    Attributes:
        dataset: dataset of document-summary pairs, a :class:`~fairseq_etads.data.pairs.SummarizationDataset`.
        dictionary: the source dictionary.
        subwords: type of subwords in the data; see :func:`~fairseq_etads.text.subwords.find_word_ends`.
        unk: token that represents all unknown words.

    Raises:
        FileNotFoundError: the data does not contain the split.
    """

    def __init__(self, task: Any, split: str):
        task.load_dataset(split)
        self.dataset = task.dataset(split)
        self.dictionary: Dictionary = task.src_dict
        self.subwords: str = task.subwords
        self.unk: str = self.dictionary.unk_word

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
