"""Prepared data: the settings of etads-prepare, stored in prepare.json, and the words and sentences of the texts.

New text is preprocessed with the same settings. Labels belong to words. If a text consists of subwords, each subword
receives the value of its word. Sentences are separated by sentence marks, which are not part of any sentence. Importing
this module imports neither torch nor fairseq.
"""

import itertools
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence

from ..files.checksums import Checksums
from ..platform.errors import InputError
from ..text.subwords import OPAQUE, SUBWORDS, join_words
from ..text.words import LANGUAGES, SENTENCE_MARK, WORD_KINDS
from .labels import SALIENCE

TOKENS = ("bpe", "sentencepiece", "sentencepiece-bpe", "word", "gpt2", "huggingface")
FACTORS = ("pos", "ner", "tf", "idf", SALIENCE)


@dataclass(frozen=True)
class PreparationSettings:
    """Options of etads-prepare that affect the prepared data. prepare.json stores them under the same names.

    If the dictionaries are separate, a ``source_size`` or ``target_size`` of 0 means ``size`` words, or all subwords.
    If they share one dictionary, ``target_size`` is the number of words that the model can generate, and 0 means all
    words in the source vocabulary.
    """

    tokens: str = "bpe"  # type of tokens, one of TOKENS
    size: int = 8000  # number of BPE merges, SentencePiece pieces or words; without effect on subwords in OPAQUE
    lowercase: bool = True  # whether to convert the text to lower case
    words: str = ""  # type of word tokenisation, one of WORD_KINDS, or the default for ``tokens``
    source_marks: bool = False  # whether to keep sentence marks in documents
    target_marks: bool = True  # whether to keep sentence marks in summaries
    separate: bool = False  # whether documents and summaries have separate dictionaries
    source_size: int = 0
    target_size: int = 0
    factors: List[str] = field(default_factory=list)  # names of the source factors, all of them in FACTORS
    tf_bins: int = 10  # number of bins for the factor tf
    idf_bins: int = 10  # number of bins for the factor idf
    spacy_model: str = ""  # spaCy model that predicts the factors pos and ner, or "" to read them from files
    language: str = "en"  # one of LANGUAGES

    @property
    def is_sentencepiece(self) -> bool:
        return self.tokens.startswith("sentencepiece")

    @property
    def reads_raw_text(self) -> bool:
        """Whether raw text is split directly into subwords, rather than into words first."""
        return self.is_sentencepiece or self.tokens in OPAQUE

    @property
    def word_kind(self) -> str:
        """Type of word tokenisation, one of WORD_KINDS: ``words`` if set, otherwise the default for ``tokens``."""
        return self.words or ("raw" if self.reads_raw_text else "moses")

    @property
    def subwords(self) -> str:
        """Type of subwords in fairseq (--bpe), one of SUBWORDS, or an empty string for whole words."""
        return {"word": "", "bpe": "subword_nmt", "sentencepiece-bpe": "sentencepiece"}.get(self.tokens, self.tokens)

    @property
    def subword_files(self) -> List[str]:
        """File names of the subword model. The first of these files is used to encode text."""
        return [*SUBWORDS.get(self.subwords, {}).values(), *["sentencepiece.vocab"] * self.is_sentencepiece]

    def check(self) -> None:
        """Raise InputError if a setting is invalid or settings are incompatible. The message names the option."""
        is_opaque, marks = self.tokens in OPAQUE, self.source_marks or self.target_marks
        tagged, factors = {"pos", "ner"}.intersection(self.factors), f"--factors {' '.join(self.factors)}"
        kinds = "raw" if self.reads_raw_text else "moses, ptb, spaces or characters"
        for is_wrong, message in (
            (self.size < 1, f"--size {self.size}: choose 1 or more"),
            (self.source_size < 0, f"--source-size {self.source_size}: choose 1 or more"),
            (self.target_size < 0, f"--target-size {self.target_size}: choose 1 or more"),
            (
                self.source_size and not self.separate,
                f"--source-size {self.source_size}: needs --separate-dictionaries; the size of a shared dictionary is "
                "--size",
            ),
            (
                self.tokens == "word" and not self.separate and self.target_size >= self.size,
                f"--target-size {self.target_size}: choose fewer than the --size {self.size} words of the shared "
                "dictionary, or leave it out",
            ),
            (
                self.reads_raw_text != (self.word_kind == "raw"),
                f"--words {self.word_kind}: --tokens {self.tokens} needs {kinds}",
            ),
            (
                is_opaque and self.size != PreparationSettings.size,
                f"--size {self.size} has no effect with --tokens {self.tokens}, because its pieces are fixed: leave it "
                "out",
            ),
            (
                is_opaque and marks,
                f"sentence marks ({'source' if self.source_marks else 'target'}): --tokens {self.tokens} has no piece "
                f"for {SENTENCE_MARK}; leave out the sentence marks",
            ),
            (
                is_opaque and self.factors,
                f"{factors}: {OPAQUE.get(self.tokens)} cannot be mapped back to their words",
            ),
            (len(set(self.factors)) != len(self.factors), f"{factors}: name each factor once"),
            (self.tf_bins < 2, f"--tf-bins {self.tf_bins}: choose 2 or more"),
            (self.idf_bins < 2, f"--idf-bins {self.idf_bins}: choose 2 or more"),
            (self.spacy_model and not tagged, f"--spacy-model {self.spacy_model}: needs --factors pos or ner"),
            (
                tagged and not self.spacy_model and self.word_kind == "moses",
                "--words moses: tags cannot be assigned to Moses's words, because its rules look across spaces; "
                "choose ptb or spaces, or --spacy-model",
            ),
        ):
            if is_wrong:
                raise InputError(message)

    @classmethod
    def from_record(cls, record: Any) -> "PreparationSettings":
        """Create the settings from a dictionary that was returned by :meth:`to_record`.

        Raises ValueError if the record contains an invalid name or value, which is included in the message.
        """
        if not isinstance(record, dict):
            raise ValueError("settings is not a JSON object")
        defaults = asdict(cls())
        for name, value in record.items():
            if name not in defaults:
                raise ValueError(f"unknown setting {name[:40]!r}")
            if type(value) is not type(defaults[name]):
                raise ValueError(f"{name} is of type {type(value).__name__}, not {type(defaults[name]).__name__}")
        for name, choices in (("tokens", TOKENS), ("words", ("", *WORD_KINDS)), ("language", LANGUAGES)):
            if record.get(name, choices[0]) not in choices:
                raise ValueError(f"{name} is {record[name][:40]!r}, not one of {', '.join(filter(None, choices))}")
        unknown = [value for value in record.get("factors", []) if value not in FACTORS]
        if unknown:
            raise ValueError(f"factors contains {str(unknown[0])[:40]!r}, not one of {', '.join(FACTORS)}")
        return cls(**record)

    def to_record(self) -> Dict[str, Any]:
        """Return the first three settings, and those that differ from their defaults, to store in prepare.json."""
        defaults = asdict(PreparationSettings())
        always = ("tokens", "size", "lowercase")
        return {name: value for name, value in asdict(self).items() if name in always or value != defaults[name]}


def make_inference_options(settings: PreparationSettings, out: Path) -> Dict[str, Any]:
    """Return the fairseq options for preprocessing new text as the text in ``out``, which has the subword model."""
    text = {
        "text-words": settings.word_kind if settings.word_kind != "moses" else "",
        "text-keep-case": not settings.lowercase,
        "text-language": settings.language if settings.language != "en" else "",
        "text-sentence-marks": "insert" if settings.source_marks else "",
        "bpe": settings.subwords,
    }
    files = {key.replace("_", "-"): str(out / name) for key, name in SUBWORDS.get(settings.subwords, {}).items()}
    return {"tokenizer": "etads", **{option: value for option, value in text.items() if value}, **files}


def format_command_line(options: Dict[str, Any]) -> List[str]:
    """Format options as a list of command-line arguments. Options with the value True become flags without a value."""
    return [word for key, value in options.items() for word in ([f"--{key}"] if value is True else [f"--{key}", value])]


def read_inference_preprocessing_options(prepared: Path) -> Dict[str, Any]:
    """Return the options of :func:`make_inference_options` for prepared data. Raises InputError if it is damaged."""
    settings = read_preparation_settings(prepared, "--prepared")
    Checksums(prepared, "Prepare the text again").verify(["prepare.json", *settings.subword_files])
    return make_inference_options(settings, prepared)


def read_preparation_settings(prepared: Path, option: str) -> PreparationSettings:
    """Read the settings of a folder of prepared data, which ``option`` names.

    Raises InputError if the folder is incomplete, or its prepare.json is damaged.
    """
    path = prepared / "prepare.json"
    if not path.is_file() or not (prepared / "bin" / "complete").is_file():
        raise InputError(f"{option} {prepared}: not a completed output folder of etads-prepare")
    try:
        settings = PreparationSettings.from_record(json.loads(path.read_text(encoding="utf-8"))["settings"])
        settings.check()
    except (ValueError, KeyError, TypeError, RecursionError) as error:  # InputError is a ValueError
        raise InputError(f"{option} {prepared}: prepare.json is damaged ({error})") from None
    return settings


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
