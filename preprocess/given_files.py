"""Check and copy the files that users can provide for etads-prepare.

The files are a subword model, the files of GPT-2's BPE (``--tokens gpt2``), and BART's dictionary.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional

from fairseq_etads.data.preparation import PreparationSettings
from fairseq_etads.platform.errors import InputError
from fairseq_etads.platform.outputs import copy_file
from fairseq_etads.text.checksums import compute_sha256
from fairseq_etads.text.files import read_lines
from fairseq_etads.text.hugging_face import HuggingFaceSubwordEncoder
from fairseq_etads.text.words import SENTENCE_MARK

from .subwords import (
    check_sentencepiece_model,
    load_sentencepiece_model,
    read_merges,
    write_merges,
    write_sentencepiece_model,
)

ENCODER, MERGES = "--gpt2-encoder-json", "--gpt2-vocab-bpe"


@dataclass(frozen=True)
class UserProvidedFiles:
    """Paths of the files that the user has provided. A path is None if the corresponding file was not provided.

    Attributes:
        encoder_json: path of the file that maps GPT-2's subword pieces to ids.
        vocab_bpe: path of the file with the merges of GPT-2's BPE.
        dictionary: path of the fairseq dictionary of a pretrained model. The entries in the dictionary are the ids of
            pieces.
        model: path of a file with subword-nmt merges, a SentencePiece model, or Hugging Face's ``tokenizer.json``.
    """

    encoder_json: Optional[Path] = None
    vocab_bpe: Optional[Path] = None
    dictionary: Optional[Path] = None
    model: Optional[Path] = None

    @property
    def paths(self) -> List[Path]:
        files = (self.encoder_json, self.vocab_bpe, self.dictionary, self.model)
        return [path for path in files if path is not None]

    @property
    def has_subwords(self) -> bool:
        """Whether the user has provided a subword model. Otherwise, a subword model is learned."""
        return self.encoder_json is not None or self.model is not None

    def check(self, settings: PreparationSettings) -> None:
        """Raise InputError if a file is missing, damaged, or incompatible with other options."""
        options = {ENCODER: self.encoder_json, MERGES: self.vocab_bpe, "--dictionary": self.dictionary}
        for option, path in options.items():
            if path is not None and settings.tokens != "gpt2":
                raise InputError(f"{option} {path}: has no effect without --tokens gpt2")
            if path is None and settings.tokens == "gpt2" and option != "--dictionary":
                raise InputError(f"{option} is missing: --tokens gpt2 needs {ENCODER} and {MERGES} (see docs/bart.md)")
            if path is not None and not path.is_file():
                raise InputError(f"{option} {path}: no such file")
        if self.dictionary is not None and (settings.separate or settings.target_size):
            other = "--separate-dictionaries" if settings.separate else f"--target-size {settings.target_size}"
            raise InputError(f"--dictionary {self.dictionary}: is for both sides, and cannot be combined with {other}")
        if self.encoder_json is not None and self.vocab_bpe is not None:
            check_gpt2_files(self.encoder_json, self.vocab_bpe)
        if self.model is not None:
            self._check_subword_model(settings)
        elif settings.tokens == "huggingface":
            raise InputError("--model is missing: --tokens huggingface needs a tokenizer.json")

    def _check_subword_model(self, settings: PreparationSettings) -> None:
        if settings.tokens not in ("bpe", "sentencepiece", "huggingface"):
            raise InputError(f"--model {self.model}: has no effect without --tokens bpe, sentencepiece or huggingface")
        assert self.model is not None
        if not self.model.is_file():
            raise InputError(f"--model {self.model}: no such file")
        if settings.size != PreparationSettings.size:
            raise InputError(
                f"--size {settings.size} has no effect with --model {self.model}, because the model has its "
                "own size: leave it out"
            )
        if settings.tokens == "bpe":
            read_merges(self.model)
        elif settings.tokens == "sentencepiece":
            load_sentencepiece_model(self.model)
        else:
            try:
                lost = HuggingFaceSubwordEncoder(self.model).lost
            except ValueError as error:
                raise InputError(f"--model {error}") from None
            if lost:
                print(
                    f"--model {self.model}: has no piece for unknown characters, which disappear from the text without "
                    f"being counted as unknown words (for example {' '.join(lost)})",
                    file=sys.stderr,
                )

    def check_model_suits_text(self, settings: PreparationSettings, text: Path) -> None:
        """Check that the provided subword model suits a text, before the text is split into pieces.

        Raises:
            InputError: a SentencePiece model is unsuitable, or splits sentence marks that the text will contain.
        """
        if self.model is None or settings.tokens != "sentencepiece":
            return
        # Documents need not be searched for sentence marks, because missing marks are inserted in them.
        summaries = read_lines(text / "train.target") if settings.target_marks else ()
        check_sentencepiece_model(self.model, settings.source_marks or any(SENTENCE_MARK in line for line in summaries))

    def compute_checksums(self) -> Dict[str, str]:
        """Return the checksums of the provided files, keyed by the file names in fairseq's archives."""
        names = {
            "encoder.json": self.encoder_json,
            "vocab.bpe": self.vocab_bpe,
            "dict.txt": self.dictionary,
            "model": self.model,
        }
        return {name: compute_sha256(path) for name, path in names.items() if path is not None}

    def copy_subword_model(self, out: Path, settings: PreparationSettings) -> None:
        """Copy the files of the subword model to the folder of prepared data."""
        if self.model is not None and settings.tokens == "bpe":
            write_merges(read_merges(self.model), out / settings.subword_files[0])
        elif self.model is not None and settings.tokens == "sentencepiece":
            write_sentencepiece_model(self.model.read_bytes(), out / settings.subword_files[0])
        elif self.model is not None:
            copy_file(self.model, out / settings.subword_files[0])
        for name, path in (("encoder.json", self.encoder_json), ("vocab.bpe", self.vocab_bpe)):
            if path is not None:
                copy_file(path, out / name)


def check_gpt2_files(encoder_json: Path, vocab_bpe: Path) -> None:
    """Raise InputError unless the files describe a byte-level BPE in which every possible piece has an id."""
    numbers = _read_piece_ids(encoder_json)
    pieces = _list_byte_symbols()
    for number, line in enumerate(read_lines(vocab_bpe), 1):
        pair = line.split()
        if number > 1 and line and len(pair) != 2:  # the first line contains the version
            raise InputError(
                f"{MERGES} {vocab_bpe}: line {number} is not a merge (two pieces with a space between them)"
            )
        if number > 1 and line:
            pieces.append("".join(pair))
    missing = [piece for piece in pieces if piece not in numbers]
    if missing:
        raise InputError(
            f"{ENCODER} {encoder_json} and {MERGES} {vocab_bpe} do not belong together: the first has no id for "
            f"{len(missing):,} pieces of the second, for example {missing[0]!r}"
        )


def _read_piece_ids(path: Path) -> Dict[str, int]:
    """Read the ids of all pieces. Raises InputError if the file has any other content."""
    try:
        numbers: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{ENCODER} {path}: not JSON ({error})") from None
    if not isinstance(numbers, dict) or not all(type(number) is int for number in numbers.values()):
        raise InputError(f"{ENCODER} {path}: not an object with an id for each piece")
    if len(set(numbers.values())) < len(numbers):
        raise InputError(f"{ENCODER} {path}: two pieces have the same id")
    return numbers


def _list_byte_symbols() -> List[str]:
    """Return the characters with which GPT-2 represents the 256 byte values."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return [chr(code) for code in [*printable, *range(0x100, 0x200 - len(printable))]]
