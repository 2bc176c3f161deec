"""Parallel text to a binarised directory that fairseq trains on: tokenise, learn subwords, apply them, binarise.

The tokeniser and the subword models are called through fairseq's own ``--tokenizer`` and ``--bpe`` classes, so that
``fairseq-interactive`` with the flags this command prints treats new text exactly as the training text was treated.
"""

import argparse
import contextlib
import hashlib
import io
import itertools
import json
import multiprocessing
import os
import shlex
import shutil
import subprocess
import sys
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

from tqdm import tqdm

from .files import PrepareError, add_jobs, atomic_writer, read_lines

SPLITS = ("train", "valid", "test")
SIDES = ("source", "target")
TOKENS = ("bpe", "sentencepiece", "word")
DESCRIPTION = """\
Turn TEXT/{train,valid,test}.{source,target} (one document or summary a line) into OUT/bin, which fairseq-train reads.

  etads-prepare text/ run/ --tokens bpe --size 3000
  fairseq-train run/bin --user-dir fairseq_etads --task summarization --arch etads ...

OUT also gets the subword model, the tokenised text and prepare.json, which says what it was made from. At the end the
options are printed with which fairseq-interactive treats new text in the same way. A second call with the same options
does only what is missing."""


def build_encoder(settings: Dict[str, Any], out: Path, subwords: bool = True) -> Callable[[str], str]:
    """A function from raw text to tokens, through the classes fairseq-interactive uses."""
    import fairseq_etads  # noqa: F401, I001  # registers --tokenizer etads, and first: it keeps fairseq quiet
    from fairseq.data import encoders

    flags = Namespace(**{key.replace("-", "_"): value for key, value in inference_options(settings, out).items()})
    tokenizer = encoders.build_tokenizer(flags)
    bpe = encoders.build_bpe(flags) if subwords and hasattr(flags, "bpe") else None

    def encode(line: str) -> str:
        line = tokenizer.encode(line)
        return bpe.encode(line) if bpe is not None else line

    return encode


def inference_options(settings: Dict[str, Any], out: Path) -> Dict[str, Any]:
    """Options for fairseq-interactive and fairseq-generate, without their dashes."""
    options: Dict[str, Any] = {"tokenizer": "etads"}
    if not settings["lowercase"]:
        options["text-keep-case"] = True
    if settings["tokens"] == "bpe":
        options.update({"bpe": "subword_nmt", "bpe-codes": str(out / "codes.bpe")})
    if settings["tokens"] == "sentencepiece":
        model = str(out / "sentencepiece.model")
        options.update({"text-words": "raw", "bpe": "sentencepiece", "sentencepiece-model": model})
    return options


def command_line(options: Dict[str, Any]) -> List[str]:
    """Options as words of a command line."""
    return [word for key, value in options.items() for word in ([f"--{key}"] if value is True else [f"--{key}", value])]


_encode: Callable[[str], str]


def _start_worker(settings: Dict[str, Any], out: Path, subwords: bool) -> None:
    global _encode
    _encode = build_encoder(settings, out, subwords)


def _encode_line(line: str) -> str:
    return _encode(line)


def encode_file(
    source: Path, destination: Path, settings: Dict[str, Any], out: Path, subwords: bool, pool: Any
) -> None:
    """Encode a file line by line, in order, whatever the number of processes."""
    lines = read_lines(source)
    with atomic_writer(destination) as file:
        shown = tqdm(desc=f"{destination.parent.name}/{destination.name}", unit=" lines", disable=None)
        for encoded in pool.imap(_encode_line, lines, chunksize=256) if pool else map(_encode_line, lines):
            file.write(encoded + "\n")
            shown.update()
        shown.close()


def _encode_all(
    sources: Path, destination: Path, settings: Dict[str, Any], out: Path, subwords: bool, jobs: int
) -> None:
    missing = [
        f"{split}.{side}" for split in SPLITS for side in SIDES if not (destination / f"{split}.{side}").exists()
    ]
    if not missing:
        return
    start = partial(_start_worker, settings, out, subwords)
    # spawn: forking a process that has loaded torch can deadlock
    with contextlib.ExitStack() as stack:
        pool = None
        if jobs > 1:
            pool = stack.enter_context(multiprocessing.get_context("spawn").Pool(jobs, initializer=start))
        else:
            start()
        for name in missing:
            encode_file(sources / name, destination / name, settings, out, subwords, pool)


def learn_bpe(text: List[Path], size: int, codes: Path) -> None:
    """Learn ``size`` merges on the files together (Sennrich et al. 2016; subword-nmt)."""
    from subword_nmt.learn_bpe import learn_bpe as learn

    # subword-nmt draws its progress bar wherever it runs
    quiet = contextlib.nullcontext() if sys.stderr.isatty() else contextlib.redirect_stderr(io.StringIO())
    with atomic_writer(codes) as file, quiet:
        lines = itertools.chain.from_iterable(read_lines(path) for path in text)
        learn((line + "\n" for line in lines), file, size)


def learn_sentencepiece(text: List[Path], size: int, model: Path) -> None:
    """Learn a unigram model of ``size`` pieces on the files together (Kudo 2018; SentencePiece)."""
    import sentencepiece

    prefix = model.with_suffix(".partial")
    try:
        sentencepiece.SentencePieceTrainer.train(
            input=[str(path) for path in text],
            model_prefix=str(prefix),
            vocab_size=size,
            model_type="unigram",
            character_coverage=0.9995,
            max_sentence_length=10_000_000,  # bytes; at its default of 4,192 long documents would be left out
            minloglevel=1,
        )
    except RuntimeError as error:
        reason = f"SentencePiece cannot learn so many pieces from this text ({error})"
        raise PrepareError(f"--size {size}: {reason}") from None
    for suffix in (".vocab", ".model"):
        os.replace(f"{prefix}{suffix}", model.with_suffix(suffix))


def binarise(out: Path, settings: Dict[str, Any], jobs: int) -> None:
    """Dictionary, and splits binarised by fairseq-preprocess.

    Words (or subwords) that are not learnt but occur in documents stand in the dictionary too, for pointers to copy.
    """
    from .dictionary import build_dictionary, write_dictionary

    done = out / "bin" / "complete"
    if done.exists():
        return
    shutil.rmtree(out / "bin", ignore_errors=True)  # fairseq-preprocess refuses what an interrupted one left
    size = settings["size"] if settings["tokens"] == "word" else -1
    train = [out / "tokens" / f"train.{side}" for side in SIDES]
    documents = [out / "tokens" / f"{split}.source" for split in SPLITS[1:]]
    write_dictionary(build_dictionary(train, documents, size, jobs), out / "dict.txt")
    command = [sys.executable, "-m", "fairseq_cli.preprocess", "-s", "source", "-t", "target", "--joined-dictionary"]
    command += ["--srcdict", str(out / "dict.txt")]
    command += ["--destdir", str(out / "bin"), "--workers", str(jobs)]
    command += [f"--{split}pref={out / 'tokens' / split}" for split in SPLITS]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    (out / "preprocess.txt").write_text(run.stdout, encoding="utf-8")
    if run.returncode != 0:
        last = run.stdout.strip().splitlines()[-1:] or ["no output"]
        raise PrepareError(f"fairseq-preprocess failed ({last[0]}); all it said is in {out / 'preprocess.txt'}")
    done.touch()


def check_text(text: Path) -> Dict[str, str]:
    """Checksums of the six files.

    Raises:
        PrepareError: a file is missing or empty, or a pair of files differs in its number of lines.
    """
    if not text.is_dir():
        raise PrepareError(f'TEXT "{text}" is not a directory; etads-debian --sample --out {text} makes one')
    checksums = {}
    for split in SPLITS:
        counts = {}
        for side in SIDES:
            path = text / f"{split}.{side}"
            if not path.is_file():
                expected = ", ".join(f"{s}.{e}" for s in SPLITS for e in SIDES)
                raise PrepareError(f'TEXT "{text}" has no file {path.name}; it must hold {expected}')
            data = path.read_bytes()
            checksums[path.name] = hashlib.sha256(data).hexdigest()
            counts[path] = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
        if len(set(counts.values())) != 1 or 0 in counts.values():
            said = " and ".join(f"{path} has {count:,}" for path, count in counts.items())
            raise PrepareError(f"line counts must be equal and above 0, but {said}")
    return checksums


def claim_output(out: Path, record: Dict[str, Any]) -> None:
    """Write prepare.json, or check that an existing one says the same.

    Raises:
        PrepareError: OUT was made with other options or from other text.
    """
    path = out / "prepare.json"
    if path.exists():
        known = json.loads(path.read_text(encoding="utf-8"))
        different = [key for key in record if known.get(key) != record[key]]
        if different:
            raise PrepareError(
                f'OUT "{out}" was prepared with another {", ".join(different)} (see {path}); '
                "give another OUT or delete it"
            )
    with atomic_writer(path) as file:
        json.dump(record, file, indent=2)
        file.write("\n")


def prepare(text: Path, out: Path, tokens: str, size: int, lowercase: bool, jobs: int) -> Dict[str, Any]:
    """Do what is missing in ``out``; returns the options for new text (see :func:`inference_options`).

    Raises:
        PrepareError: the text, the options or an earlier output do not fit.
    """
    if size < 1:
        raise PrepareError(f"--size {size}: choose 1 or more")
    settings = {"tokens": tokens, "size": size, "lowercase": lowercase}
    claim_output(out, {"settings": settings, "text": check_text(text)})
    words = out / ("tokens" if tokens == "word" else "words")
    _encode_all(text, words, settings, out, False, jobs)
    train = [words / f"train.{side}" for side in SIDES]
    if tokens == "bpe" and not (out / "codes.bpe").exists():
        learn_bpe(train, size, out / "codes.bpe")
    if tokens == "sentencepiece" and not (out / "sentencepiece.model").exists():
        learn_sentencepiece(train, size, out / "sentencepiece.model")
    if tokens != "word":
        _encode_all(text, out / "tokens", settings, out, True, jobs)
    binarise(out, settings, jobs)
    return inference_options(settings, out)


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="etads-prepare", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("text", metavar="TEXT", type=Path, help="directory with the six text files")
    parser.add_argument("out", metavar="OUT", type=Path, help="directory to make")
    parser.add_argument(
        "--tokens",
        choices=TOKENS,
        default="bpe",
        help="bpe: Moses words, then subword-nmt merges; sentencepiece: unigram pieces of raw text; word: Moses words",
    )
    parser.add_argument(
        "--size", type=int, default=8000, help="BPE merges, SentencePiece pieces, or words kept (default: %(default)s)"
    )
    parser.add_argument("--keep-case", action="store_true", help="do not lower-case (CNN/DM systems lower-case)")
    add_jobs(parser)
    return parser


def main(argv: Optional[List[str]] = None) -> None:
    """The command etads-prepare."""
    args = build_parser().parse_args(argv)
    try:
        options = prepare(args.text, args.out, args.tokens, args.size, not args.keep_case, max(1, args.jobs))
    except PrepareError as error:
        print(f"etads-prepare: {error}", file=sys.stderr)
        sys.exit(2)
    flags = shlex.join(command_line(options))
    print(f"binarised data: {args.out / 'bin'}\nfor new text, give fairseq-interactive: {flags}")


if __name__ == "__main__":
    main()
