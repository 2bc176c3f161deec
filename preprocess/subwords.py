"""Learn subword models with subword-nmt (BPE) or SentencePiece, or check and copy models that the user provides.

The models never split sentence marks.
"""

import contextlib
import io
import itertools
import json
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping

from fairseq_etads.data.preparation import PreparationSettings
from fairseq_etads.files.inputs import read_lines
from fairseq_etads.files.outputs import copy_file, open_binary_output, open_output
from fairseq_etads.platform.errors import InputError
from fairseq_etads.platform.option_checks import join_choices
from fairseq_etads.text.subwords import HuggingFaceSubwordEncoder
from fairseq_etads.text.words import SENTENCE_MARK

WHOLE = (SENTENCE_MARK, "<unk>")
"""Words that BPE never splits."""
SENTENCEPIECE_BYTES = 1 << 28
"""Maximum size in bytes of the text from which SentencePiece learns, which requires about twenty times this memory."""
ENCODER, MERGES = "--gpt2-encoder-json", "--gpt2-vocab-bpe"
GIVEN = {"encoder.json": ENCODER, "vocab.bpe": MERGES, "dict.txt": "--dictionary", "model": "--model"}
"""Files that the user can provide, named as in fairseq's archives, and the options for their paths.

encoder.json maps GPT-2's pieces to ids, which are the entries of dict.txt, and vocab.bpe has the merges of GPT-2's BPE.
The model consists of subword-nmt's merges, or is a SentencePiece model or Hugging Face's tokenizer.json.
"""
_NEEDED = {
    "gpt2": (["encoder.json", "vocab.bpe"], f"{ENCODER} and {MERGES} (etads docs bart)"),
    "huggingface": (["model"], "a tokenizer.json"),
}


def learn_subwords(text: List[Path], tokens: str, size: int, model: Path) -> None:
    """Learn a subword model of the kind that --tokens names. Raises InputError if the text is too short for it."""
    if tokens == "bpe":
        learn_bpe(text, size, model)
    else:
        learn_sentencepiece(text, size, model, "bpe" if tokens == "sentencepiece-bpe" else "unigram")


def learn_bpe(text: List[Path], size: int, codes: Path) -> None:
    """Learn ``size`` merges with subword-nmt (Sennrich et al. 2016). Raises InputError if there is nothing to merge."""
    from subword_nmt.learn_bpe import learn_bpe as learn

    def read_words() -> Iterator[List[str]]:
        for path in text:
            yield from ([word for word in line.split() if word not in WHOLE] for line in read_lines(path))

    if not any(len(word) > 1 for words in read_words() for word in words):
        reason = "the training text contains no word of two or more characters to merge"
        raise InputError(f"--tokens bpe: {reason}; use --tokens word")
    learnt = io.StringIO()
    # subword-nmt would show its progress bar even if standard error is not a terminal.
    with contextlib.nullcontext() if sys.stderr.isatty() else contextlib.redirect_stderr(io.StringIO()):
        learn((" ".join(words) + "\n" for words in read_words()), learnt, size)
    write_merges(learnt.getvalue().splitlines(), codes)


def read_merges(path: Path, option: str = "--model") -> List[str]:
    """Read the lines of subword-nmt's or GPT-2's merges. Raises InputError if there are none, or a line is no merge."""
    merges = [line for line in read_lines(path) if line.strip()]
    for number, merge in enumerate(merges, 1):
        if len(merge.split(" ")) != 2:
            raise InputError(f"{option} {path}: line {number} is not a merge (two pieces with a space between them)")
    if not merges:
        raise InputError(f"{option} {path}: no merges in it")
    return merges


def write_merges(lines: List[str], codes: Path) -> None:
    """Write the lines of a merges file to ``codes``, preceded by merges that assemble the words in WHOLE.

    They come first, affect only words with a "<", and replace subword-nmt's glossaries, which fairseq does not support.
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

    The ``kind`` is "unigram" (Kudo 2018) or "bpe" (Sennrich et al. 2016). Of a text larger than SENTENCEPIECE_BYTES,
    only every n-th line is used. Raises InputError if the text is too short to learn this number of pieces.
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


def check_given_files(given: Mapping[str, Path], settings: PreparationSettings) -> None:
    """Raise InputError if a file of GIVEN is missing, damaged, or incompatible with other options."""
    names, needed = _NEEDED.get(settings.tokens, ([], ""))
    for name in names:
        if name not in given:
            raise InputError(f"{GIVEN[name]} is missing: --tokens {settings.tokens} needs {needed}")
    for name, path in given.items():
        tokens = ["bpe", "sentencepiece", "huggingface"] if name == "model" else ["gpt2"]
        if settings.tokens not in tokens:
            raise InputError(f"{GIVEN[name]} {path}: has no effect without --tokens {join_choices(tokens)}")
        if not path.is_file():
            raise InputError(f"{GIVEN[name]} {path}: no such file")
    if "dict.txt" in given and (settings.separate or settings.target_size):
        other = "--separate-dictionaries" if settings.separate else f"--target-size {settings.target_size}"
        raise InputError(f"--dictionary {given['dict.txt']}: is for both sides, and cannot be combined with {other}")
    if "encoder.json" in given:
        check_gpt2_files(given["encoder.json"], given["vocab.bpe"])
    if "model" not in given:
        return
    model = given["model"]
    if settings.size != PreparationSettings.size:
        reason = f"has no effect with --model {model}, because the model has its own size: leave it out"
        raise InputError(f"--size {settings.size} {reason}")
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
            reason = (
                "has no piece for unknown characters, which disappear from the text without being counted as unknown "
            )
            print(f"--model {model}: {reason}words (for example {' '.join(lost)})", file=sys.stderr)


def check_sentencepiece_model(model: Path, settings: PreparationSettings, text: Path) -> None:
    """Check that the pieces of a provided SentencePiece model can be joined into the words and marks of a text.

    Raises InputError if some pieces represent bytes, the pieces contain the space after a word rather than before it,
    or sentence marks that the text will contain are not single pieces.
    """
    # Documents need not be searched for sentence marks, because missing marks are inserted in them.
    summaries = read_lines(text / "train.target") if settings.target_marks else ()
    marks = settings.source_marks or any(SENTENCE_MARK in line for line in summaries)
    pieces = load_sentencepiece_model(model)
    # A mark that SentencePiece has learned like a word may be one piece after some characters, but not others.
    found = [pieces.encode(f"{end}{SENTENCE_MARK} b", out_type=str) for end in "a.!?'\"”)"]
    reason = ""
    if any(map(pieces.is_byte, range(len(pieces)))):  # summaries would contain "<0xE5>"
        reason = "spells rare characters in bytes, which fairseq cannot join; train it without --byte_fallback"
    elif found[0][-1].endswith("▁"):
        reason = "its pieces end with spaces, so it is unknown where words begin; train it without "
        reason += "--treat_whitespace_as_suffix"
    elif marks and not all(SENTENCE_MARK in line for line in found):
        reason = f"splits the sentence mark {SENTENCE_MARK}; train it with --user_defined_symbols='{SENTENCE_MARK}', "
        reason += "or leave out sentence marks (--no-target-sentence-marks)"
    if reason:
        raise InputError(f"--model {model}: {reason}")


def copy_subword_model(given: Mapping[str, Path], out: Path, settings: PreparationSettings) -> None:
    """Copy the files of a provided subword model to the folder of prepared data."""
    for name, path in given.items():
        model = out / (settings.subword_files[0] if name == "model" else name)
        if name == "model" and settings.tokens == "bpe":
            write_merges(read_merges(path), model)
        elif name == "model" and settings.tokens == "sentencepiece":
            write_sentencepiece_model(path.read_bytes(), model)
        elif name != "dict.txt":
            copy_file(path, model)


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
        reason = f"the first has no id for {len(missing):,} pieces of the second, for example {missing[0]!r}"
        raise InputError(f"{ENCODER} {encoder_json} and {MERGES} {vocab_bpe} do not belong together: {reason}")
