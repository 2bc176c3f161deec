"""Learn subword models with subword-nmt (BPE) or SentencePiece (unigram or BPE).

The models never split sentence marks.
"""

import contextlib
import io
import itertools
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List

from fairseq_etads.platform.errors import InputError
from fairseq_etads.platform.outputs import open_binary_output, open_output
from fairseq_etads.text.files import read_lines
from fairseq_etads.text.words import SENTENCE_MARK

WHOLE = (SENTENCE_MARK, "<unk>")
"""Words that BPE never splits."""


SENTENCEPIECE_BYTES = 1 << 28
"""Maximum size in bytes of the text from which SentencePiece learns a model.

Learning requires about twenty times this amount of memory.
"""


def learn_bpe(text: List[Path], size: int, codes: Path) -> None:
    """Learn ``size`` merges from all files with subword-nmt (Sennrich et al. 2016), and write them to ``codes``.

    fairseq's ``--bpe subword_nmt`` does not support subword-nmt's glossaries, which list words that must not be split.
    Instead, the file starts with merges that assemble the words in WHOLE. These merges have the highest priority. They
    do not affect other words, unless the words contain a "<".

    Raises:
        InputError: no word has two characters that could be merged.
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


def read_merges(path: Path) -> List[str]:
    """Read the lines of a merges file that was created by subword-nmt. The first line may contain the version.

    Raises:
        InputError: the file contains no merges, or one of its lines is not a merge.
    """
    merges = [line for line in read_lines(path) if line.strip()]
    for number, merge in enumerate(merges, 1):
        if len(merge.split(" ")) != 2:
            raise InputError(f"--model {path}: line {number} is not a merge (two pieces with a space between them)")
    if not merges:
        raise InputError(f"--model {path}: no merges in it")
    return merges


def write_merges(lines: List[str], codes: Path) -> None:
    """Write merges to ``codes``, preceded by the merges for the words in WHOLE.

    Args:
        lines: lines of a merges file. The first line may contain the version. Files without a version were created by
            subword-nmt 0.1.
    """
    version = lines[:1] if lines[0].startswith("#version:") else []
    whole = _iterate_whole_merges(end_is_apart=not version or version[0].split() == ["#version:", "0.1"])
    merges = dict.fromkeys([*whole, *lines[len(version) :]])
    with open_output(codes) as file:
        file.write("".join(f"{line}\n" for line in (*version, *merges)))


def _iterate_whole_merges(end_is_apart: bool) -> Iterator[str]:
    """Yield the merges that assemble each word in WHOLE from left to right."""
    for word in WHOLE:
        letters = [*word, "</w>"] if end_is_apart else [*word[:-1], word[-1] + "</w>"]
        for place in range(1, len(letters)):
            yield "".join(letters[:place]) + " " + letters[place]


def learn_sentencepiece(text: List[Path], size: int, model: Path, kind: str = "unigram") -> None:
    """Learn ``size`` pieces from all files with SentencePiece, and write the model and a readable ``.vocab`` file.

    If the text is larger than SENTENCEPIECE_BYTES, only every n-th line is used, to limit the required memory.

    Args:
        kind: algorithm of SentencePiece, either "unigram" (Kudo 2018) or "bpe" (Sennrich et al. 2016).

    Raises:
        InputError: the text is too short to learn this number of pieces.
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


def check_sentencepiece_model(path: Path, marks: bool) -> None:
    """Check that the pieces of a SentencePiece model can be joined into words and text.

    Args:
        marks: whether documents or summaries contain sentence marks.

    Raises:
        InputError: the file does not contain a SentencePiece model, some of its pieces represent bytes, its pieces
            contain the space after a word rather than before it, or sentence marks are not single pieces.
    """
    pieces = load_sentencepiece_model(path)
    if any(map(pieces.is_byte, range(len(pieces)))):
        # fairseq joins pieces as strings, so summaries would contain "<0xE5>".
        raise InputError(
            f"--model {path}: spells rare characters in bytes, which fairseq cannot join; train it without "
            "--byte_fallback"
        )
    # A mark that SentencePiece has learned like a word may be one piece after some characters, but not after others.
    found = [pieces.encode(f"{end}{SENTENCE_MARK} b", out_type=str) for end in "a.!?'\"”)"]
    if found[0][-1].endswith("▁"):
        raise InputError(
            f"--model {path}: its pieces end with spaces, so it is unknown where words begin; train it without "
            "--treat_whitespace_as_suffix"
        )
    if marks and not all(SENTENCE_MARK in line for line in found):
        raise InputError(
            f"--model {path}: splits the sentence mark {SENTENCE_MARK}; train it with "
            f"--user_defined_symbols='{SENTENCE_MARK}', or leave out the sentence marks (--no-target-sentence-marks)"
        )


def write_sentencepiece_model(content: bytes, model: Path) -> None:
    """Write a SentencePiece model, and a readable ``.vocab`` file with the same stem."""
    import sentencepiece

    pieces = sentencepiece.SentencePieceProcessor(model_proto=content)
    with open_output(model.with_suffix(".vocab")) as file:
        file.write("".join(f"{pieces.id_to_piece(n)}\t{pieces.get_score(n):g}\n" for n in range(len(pieces))))
    with open_binary_output(model) as file:
        file.write(content)
