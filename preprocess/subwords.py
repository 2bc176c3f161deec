"""Learn subword models with subword-nmt (BPE) or SentencePiece, or check and copy models that the user provides.

The models never split sentence marks.
"""

import contextlib
import io
import itertools
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional

from fairseq_etads.data.preparation import PreparationSettings
from fairseq_etads.files.inputs import read_lines
from fairseq_etads.files.outputs import copy_file, open_binary_output, open_output
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.subwords import HuggingFaceSubwordEncoder
from fairseq_etads.text.words import SENTENCE_MARK

WHOLE = (SENTENCE_MARK, "<unk>")
"""Words that BPE never splits."""
SENTENCEPIECE_BYTES = 1 << 28
"""Maximum size in bytes of the text from which SentencePiece learns, which requires about twenty times this memory."""
ENCODER, MERGES = "--gpt2-encoder-json", "--gpt2-vocab-bpe"


def learn_bpe(text: List[Path], size: int, codes: Path) -> None:
    """Learn ``size`` merges from all files with subword-nmt (Sennrich et al. 2016), and write them to ``codes``.

    Raises InputError if no word has two characters that could be merged.
    """
    from subword_nmt.learn_bpe import learn_bpe as learn

    # subword-nmt would show its progress bar even if standard error is not a terminal.
    quiet = contextlib.nullcontext() if sys.stderr.isatty() else contextlib.redirect_stderr(io.StringIO())
    learnt = io.StringIO()
    lines = itertools.chain.from_iterable(read_lines(path) for path in text)
    if not any(len(word) > 1 and word not in WHOLE for line in lines for word in line.split()):
        raise InputError(
            "--tokens bpe: the training text contains no word of two or more characters to merge; use --tokens word"
        )
    with quiet:
        lines = itertools.chain.from_iterable(read_lines(path) for path in text)
        learn((" ".join(word for word in line.split() if word not in WHOLE) + "\n" for line in lines), learnt, size)
    write_merges(learnt.getvalue().splitlines(), codes)


def learn_subwords(text: List[Path], tokens: str, size: int, model: Path) -> None:
    """Learn a subword model of the kind that --tokens names. Raises InputError if the text is too short for it."""
    if tokens == "bpe":
        learn_bpe(text, size, model)
    else:
        learn_sentencepiece(text, size, model, "bpe" if tokens == "sentencepiece-bpe" else "unigram")


def read_merges(path: Path, option: str = "--model") -> List[str]:
    """Read the lines of a merges file of subword-nmt or GPT-2. The first line may contain the version.

    Raises InputError if the file contains no merges, or one of its lines is not a merge.
    """
    merges = [line for line in read_lines(path) if line.strip()]
    for number, merge in enumerate(merges, 1):
        if len(merge.split(" ")) != 2:
            raise InputError(f"{option} {path}: line {number} is not a merge (two pieces with a space between them)")
    if not merges:
        raise InputError(f"{option} {path}: no merges in it")
    return merges


def write_merges(lines: List[str], codes: Path) -> None:
    """Write the lines of a merges file to ``codes``, preceded by merges that assemble the words in WHOLE.

    These merges have the highest priority. They do not affect other words, unless the words contain a "<". They replace
    subword-nmt's glossaries, which fairseq's ``--bpe subword_nmt`` does not support.
    """
    version = lines[:1] if lines[0].startswith("#version:") else []  # subword-nmt 0.1 wrote none
    end_is_apart = not version or version[0].split() == ["#version:", "0.1"]
    spelled = ([*w, "</w>"] if end_is_apart else [*w[:-1], f"{w[-1]}</w>"] for w in WHOLE)
    whole = [f"{''.join(w[:n])} {w[n]}" for w in spelled for n in range(1, len(w))]  # assembled from left to right
    merges = dict.fromkeys([*whole, *lines[len(version) :]])
    with open_output(codes) as file:
        file.write("".join(f"{line}\n" for line in (*version, *merges)))


def learn_sentencepiece(text: List[Path], size: int, model: Path, kind: str = "unigram") -> None:
    """Learn ``size`` pieces from all files with SentencePiece, and write the model and a readable ``.vocab`` file.

    The ``kind`` is "unigram" (Kudo 2018) or "bpe" (Sennrich et al. 2016). If the text is larger than
    SENTENCEPIECE_BYTES, only every n-th line is used, to limit the required memory. Raises InputError if the text is
    too short to learn this number of pieces.
    """
    import sentencepiece

    every = -(-sum(path.stat().st_size for path in text) // SENTENCEPIECE_BYTES)  # rounded up
    read: Dict[str, Any] = {"input": [str(path) for path in text]}
    if every > 1:
        lines = itertools.chain.from_iterable(read_lines(path) for path in text)
        read = {"sentence_iterator": itertools.islice(lines, 0, None, every)}
        print(f"SentencePiece learns from one in {every} lines of the training text", file=sys.stderr)
    learnt = io.BytesIO()  # if SentencePiece writes the file itself, it does not detect a full disk
    try:
        sentencepiece.SentencePieceTrainer.train(
            **read,
            model_writer=learnt,
            vocab_size=size,
            model_type=kind,
            character_coverage=0.9995,
            user_defined_symbols=[SENTENCE_MARK],
            max_sentence_length=10_000_000,  # with the default of 4,192 bytes, long documents would be skipped
            minloglevel=1,
        )
    except RuntimeError as error:
        reason = f"SentencePiece cannot learn this number of pieces from this text ({error})"
        raise InputError(f"--size {size}: {reason}") from None
    write_sentencepiece_model(learnt.getvalue(), model)


def load_sentencepiece_model(path: Path) -> Any:
    """Load a SentencePiece model. Raises InputError if the file does not contain a SentencePiece model."""
    import sentencepiece

    try:
        return sentencepiece.SentencePieceProcessor(model_proto=path.read_bytes())
    except RuntimeError:
        raise InputError(f"--model {path}: not a SentencePiece model") from None


def write_sentencepiece_model(content: bytes, model: Path) -> None:
    """Write a SentencePiece model, and a readable ``.vocab`` file with the same stem."""
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_proto=content)
    with open_output(model.with_suffix(".vocab")) as file:
        file.write("".join(f"{pieces.id_to_piece(n)}\t{pieces.get_score(n):g}\n" for n in range(len(pieces))))
    with open_binary_output(model) as file:
        file.write(content)


@dataclass(frozen=True)
class UserProvidedFiles:
    """Paths of the files that the user has provided, or None."""

    encoder_json: Optional[Path] = None  # maps GPT-2's subword pieces to ids
    vocab_bpe: Optional[Path] = None  # the merges of GPT-2's BPE
    dictionary: Optional[Path] = None  # fairseq dictionary of a pretrained model, whose entries are the ids of pieces
    model: Optional[Path] = None  # subword-nmt merges, a SentencePiece model, or Hugging Face's ``tokenizer.json``

    @property
    def named(self) -> Dict[str, Path]:
        """The provided files, keyed by their names in fairseq's archives."""
        names = ("encoder.json", "vocab.bpe", "dict.txt", "model")
        paths = (self.encoder_json, self.vocab_bpe, self.dictionary, self.model)
        return {name: path for name, path in zip(names, paths) if path is not None}

    def check(self, settings: PreparationSettings) -> None:
        """Raise InputError if a file is missing, damaged, or incompatible with other options."""
        options = {ENCODER: self.encoder_json, MERGES: self.vocab_bpe, "--dictionary": self.dictionary}
        for option, path in options.items():
            if path is not None and settings.tokens != "gpt2":
                raise InputError(f"{option} {path}: has no effect without --tokens gpt2")
            if path is None and settings.tokens == "gpt2" and option != "--dictionary":
                raise InputError(f"{option} is missing: --tokens gpt2 needs {ENCODER} and {MERGES} (etads docs bart)")
            if path is not None and not path.is_file():
                raise InputError(f"{option} {path}: no such file")
        if self.dictionary is not None and (settings.separate or settings.target_size):
            other = "--separate-dictionaries" if settings.separate else f"--target-size {settings.target_size}"
            raise InputError(f"--dictionary {self.dictionary}: is for both sides, and cannot be combined with {other}")
        if self.encoder_json is not None and self.vocab_bpe is not None:
            check_gpt2_files(self.encoder_json, self.vocab_bpe)
        if self.model is not None:
            self._check_subword_model(self.model, settings)
        elif settings.tokens == "huggingface":
            raise InputError("--model is missing: --tokens huggingface needs a tokenizer.json")

    def _check_subword_model(self, model: Path, settings: PreparationSettings) -> None:
        if settings.tokens not in ("bpe", "sentencepiece", "huggingface"):
            raise InputError(f"--model {model}: has no effect without --tokens bpe, sentencepiece or huggingface")
        if not model.is_file():
            raise InputError(f"--model {model}: no such file")
        if settings.size != PreparationSettings.size:
            raise InputError(
                f"--size {settings.size} has no effect with --model {model}, because the model has its own size: leave "
                "it out"
            )
        if settings.tokens == "bpe":
            read_merges(model)
        elif settings.tokens == "sentencepiece":
            load_sentencepiece_model(model)
        else:
            try:
                lost = HuggingFaceSubwordEncoder(model).lost
            except ValueError as error:
                raise InputError(f"--model {error}") from None
            if lost:
                print(
                    f"--model {model}: has no piece for unknown characters, which disappear from the text without "
                    f"being counted as unknown words (for example {' '.join(lost)})",
                    file=sys.stderr,
                )

    def check_model_suits_text(self, settings: PreparationSettings, text: Path) -> None:
        """Check that the pieces of a provided SentencePiece model can be joined into the words and marks of a text.

        Raises InputError if some pieces represent bytes, the pieces contain the space after a word rather than before
        it, or sentence marks that the text will contain are not single pieces.
        """
        if self.model is None or settings.tokens != "sentencepiece":
            return
        # Documents need not be searched for sentence marks, because missing marks are inserted in them.
        summaries = read_lines(text / "train.target") if settings.target_marks else ()
        marks = settings.source_marks or any(SENTENCE_MARK in line for line in summaries)
        pieces = load_sentencepiece_model(self.model)
        if any(map(pieces.is_byte, range(len(pieces)))):
            # fairseq joins pieces as strings, so summaries would contain "<0xE5>".
            raise InputError(
                f"--model {self.model}: spells rare characters in bytes, which fairseq cannot join; train it without "
                "--byte_fallback"
            )
        # A mark that SentencePiece has learned like a word may be one piece after some characters, but not others.
        found = [pieces.encode(f"{end}{SENTENCE_MARK} b", out_type=str) for end in "a.!?'\"”)"]
        if found[0][-1].endswith("▁"):
            raise InputError(
                f"--model {self.model}: its pieces end with spaces, so it is unknown where words begin; train it "
                "without --treat_whitespace_as_suffix"
            )
        if marks and not all(SENTENCE_MARK in line for line in found):
            raise InputError(
                f"--model {self.model}: splits the sentence mark {SENTENCE_MARK}; train it with "
                f"--user_defined_symbols='{SENTENCE_MARK}', or leave out sentence marks (--no-target-sentence-marks)"
            )

    def copy_subword_model(self, out: Path, settings: PreparationSettings) -> None:
        """Copy the files of the subword model to the folder of prepared data."""
        for name, path in self.named.items():
            if name == "model" and settings.tokens == "bpe":
                write_merges(read_merges(path), out / settings.subword_files[0])
            elif name == "model" and settings.tokens == "sentencepiece":
                write_sentencepiece_model(path.read_bytes(), out / settings.subword_files[0])
            elif name != "dict.txt":
                copy_file(path, out / (settings.subword_files[0] if name == "model" else name))


def check_gpt2_files(encoder_json: Path, vocab_bpe: Path) -> None:
    """Raise InputError unless the files describe a byte-level BPE in which every possible piece has an id."""
    from fairseq.data.encoders.gpt2_bpe_utils import bytes_to_unicode

    try:
        numbers: Any = json.loads(encoder_json.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{ENCODER} {encoder_json}: not JSON ({error})") from None
    if not isinstance(numbers, dict) or not all(type(number) is int for number in numbers.values()):
        raise InputError(f"{ENCODER} {encoder_json}: not an object with an id for each piece")
    if len(set(numbers.values())) < len(numbers):
        raise InputError(f"{ENCODER} {encoder_json}: two pieces have the same id")
    merges = read_merges(vocab_bpe, MERGES)[1:]  # after the version
    pieces = [*bytes_to_unicode().values(), *(merge.replace(" ", "") for merge in merges)]
    missing = [piece for piece in pieces if piece not in numbers]
    if missing:
        raise InputError(
            f"{ENCODER} {encoder_json} and {MERGES} {vocab_bpe} do not belong together: the first has no id for "
            f"{len(missing):,} pieces of the second, for example {missing[0]!r}"
        )
