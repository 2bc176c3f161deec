"""The settings of etads-prepare, which prepare.json records, and the options that treat new text in the same way."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Dict, List

from fairseq_etads.text.files import InputError

TOKENS = ("bpe", "sentencepiece", "sentencepiece-bpe", "word")
FACTORS = ("pos", "ner", "tf", "idf")


@dataclass(frozen=True)
class Settings:
    """The options of etads-prepare that decide the result; prepare.json has them under these names.

    Attributes:
        tokens: one of TOKENS. words: one of WORD_KINDS, or empty for the default that goes with ``tokens``.
        size: BPE merges, SentencePiece pieces or words kept.
        source_marks, target_marks: keep sentence marks in documents, in summaries.
        separate: a dictionary for documents and one for summaries, of ``source_size`` and ``target_size`` words; 0 is
            ``size`` words, or all subwords. Otherwise there is one for both sides, of which the summaries know
            ``target_size`` words; 0 is all that the documents know.
        factors: some of FACTORS. tf_bins, idf_bins: how many bins those two have.
        spacy_model: what makes the factors pos and ner; empty: they are read from files.
    """

    tokens: str = "bpe"
    size: int = 8000
    lowercase: bool = True
    words: str = ""
    source_marks: bool = False
    target_marks: bool = True
    separate: bool = False
    source_size: int = 0
    target_size: int = 0
    factors: List[str] = field(default_factory=list)
    tf_bins: int = 10
    idf_bins: int = 10
    spacy_model: str = ""

    @property
    def is_sentencepiece(self) -> bool:
        return self.tokens.startswith("sentencepiece")

    @property
    def word_kind(self) -> str:
        """One of WORD_KINDS: ``words``, or the default."""
        return self.words or ("raw" if self.is_sentencepiece else "moses")

    @property
    def subword_files(self) -> List[str]:
        """Names of the files of the subword model, the one that encodes text first."""
        if self.tokens == "word":
            return []
        return ["codes.bpe"] if self.tokens == "bpe" else ["sentencepiece.model", "sentencepiece.vocab"]

    def check(self) -> None:
        """Raise InputError, which names the option, for values that are impossible or do not fit together."""
        if self.size < 1:
            raise InputError(f"--size {self.size}: choose 1 or more")
        for name in ("source_size", "target_size"):
            value = getattr(self, name)
            option = f"--{name.replace('_', '-')} {value}"
            if value < 0:
                raise InputError(f"{option}: choose 1 or more")
            if value and not self.separate and name == "source_size":
                raise InputError(f"{option}: goes with --separate-dictionaries; one dictionary has --size words")
        if self.tokens == "word" and not self.separate and self.target_size >= self.size:
            raise InputError(
                f"--target-size {self.target_size}: choose fewer than the --size {self.size} words of the one "
                "dictionary, or leave it out"
            )
        if self.is_sentencepiece != (self.word_kind == "raw"):
            wanted = "raw" if self.is_sentencepiece else "moses, ptb, spaces or characters"
            raise InputError(f"--words {self.word_kind}: --tokens {self.tokens} needs {wanted}")
        if len(set(self.factors)) != len(self.factors):
            raise InputError(f"--factors {' '.join(self.factors)}: name each once")
        for name in ("tf", "idf"):
            bins = getattr(self, f"{name}_bins")
            if bins < 2:
                raise InputError(f"--{name}-bins {bins}: choose 2 or more")
        tagged = {"pos", "ner"}.intersection(self.factors)
        if self.spacy_model and not tagged:
            raise InputError(f"--spacy-model {self.spacy_model}: goes with --factors pos or ner")
        if tagged and not self.spacy_model and self.word_kind == "moses":
            raise InputError(
                "--words moses: tags of words cannot be followed through Moses's rules, which look across spaces; "
                "choose ptb or spaces, or --spacy-model"
            )

    def wanted_words(self) -> Dict[str, int]:
        """How many words each side ("source", "target") is to know at least; sides without a wish are left out."""
        size = self.size if self.tokens == "word" else 0
        source = self.source_size or size
        return {side: words for side, words in (("source", source), ("target", self.target_size or size)) if words}

    def record(self) -> Dict[str, Any]:
        """What prepare.json says: the first three settings, and all others that are not at their defaults."""
        defaults = asdict(Settings())
        always = ("tokens", "size", "lowercase")
        return {name: value for name, value in asdict(self).items() if name in always or value != defaults[name]}


def inference_options(record: Dict[str, Any], out: Path) -> Dict[str, Any]:
    """Options with which fairseq-interactive and fairseq-generate treat text as ``out`` was treated; without dashes.

    Args:
        record: settings as in prepare.json. out: the prepared directory, which holds the subword model.
    """
    settings = Settings(**record)
    options: Dict[str, Any] = {"tokenizer": "etads"}
    if settings.word_kind != "moses":
        options["text-words"] = settings.word_kind
    if not settings.lowercase:
        options["text-keep-case"] = True
    if settings.source_marks:
        options["text-sentence-marks"] = "insert"
    if settings.tokens == "bpe":
        options.update({"bpe": "subword_nmt", "bpe-codes": str(out / settings.subword_files[0])})
    if settings.is_sentencepiece:
        options.update({"bpe": "sentencepiece", "sentencepiece-model": str(out / settings.subword_files[0])})
    return options


def command_line(options: Dict[str, Any]) -> List[str]:
    """Options as the words of a command line; the value True stands for a flag."""
    return [word for key, value in options.items() for word in ([f"--{key}"] if value is True else [f"--{key}", value])]
