"""What etads-prepare was asked for, as prepare.json remembers it, and what new text needs to be treated alike."""

from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Dict, List

from fairseq_etads.text.files import InputError

TOKENS = ("bpe", "sentencepiece", "sentencepiece-bpe", "word")
FACTORS = ("pos", "ner", "tf", "idf")


@dataclass(frozen=True)
class Settings:
    """The options that decide what comes out; ``words`` empty: Moses's, or raw text with SentencePiece."""

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
        return self.words or ("raw" if self.is_sentencepiece else "moses")

    def check(self) -> None:
        """Raise InputError for what does not fit together; names the option."""
        if self.size < 1:
            raise InputError(f"--size {self.size}: choose 1 or more")
        for name in ("source_size", "target_size"):
            value = getattr(self, name)
            option = f"--{name.replace('_', '-')} {value}"
            if value < 0:
                raise InputError(f"{option}: choose 1 or more")
            if value and not self.separate:
                raise InputError(f"{option}: goes with --separate-dictionaries; one dictionary has --size words")
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

    def record(self) -> Dict[str, Any]:
        """For prepare.json: the first three, and whatever is not the default."""
        usual = {f.name: f.default_factory() if f.default_factory is not MISSING else f.default for f in fields(self)}
        always = ("tokens", "size", "lowercase")
        return {name: value for name, value in asdict(self).items() if name in always or value != usual[name]}


def inference_options(record: Dict[str, Any], out: Path) -> Dict[str, Any]:
    """Options for fairseq-interactive and fairseq-generate, without their dashes."""
    settings = Settings(**record)
    options: Dict[str, Any] = {"tokenizer": "etads"}
    if settings.word_kind != "moses":
        options["text-words"] = settings.word_kind
    if not settings.lowercase:
        options["text-keep-case"] = True
    if settings.source_marks:
        options["text-sentence-marks"] = "insert"
    if settings.tokens == "bpe":
        options.update({"bpe": "subword_nmt", "bpe-codes": str(out / "codes.bpe")})
    if settings.is_sentencepiece:
        options.update({"bpe": "sentencepiece", "sentencepiece-model": str(out / "sentencepiece.model")})
    return options


def command_line(options: Dict[str, Any]) -> List[str]:
    """Options as words of a command line."""
    return [word for key, value in options.items() for word in ([f"--{key}"] if value is True else [f"--{key}", value])]
