"""Split raw text into words, and words into subwords, in several processes or shards. Learn the model of subwords.

Both steps use fairseq's classes for the options --tokenizer and --bpe. ``etads-prepare --shard I/N`` splits one shard
of the text into words, and ``etads-prepare`` without ``--shard`` joins all shards, with the same result. Worker
processes work in order, and import modules that are slow to import only once.

Models of subwords are learned with subword-nmt (BPE) or SentencePiece, or the user's own are checked and copied. They
never split sentence marks.
"""

import contextlib
import io
import itertools
import json
import multiprocessing
import re
import shutil
import sys
from argparse import Namespace
from collections import Counter, deque
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from tqdm import tqdm

from fairseq_etads.data.preparation import PreparationSettings, make_inference_options
from fairseq_etads.files import SIDES, SPLITS
from fairseq_etads.files.checksums import Checksums
from fairseq_etads.files.inputs import read_json, read_lines
from fairseq_etads.files.outputs import copy_file, open_binary_output, open_output
from fairseq_etads.files.shards import Shard
from fairseq_etads.platform.command_options import join_choices
from fairseq_etads.platform.console import escape_unprintable
from fairseq_etads.platform.errors import InputError
from fairseq_etads.platform.processes import make_process_pool
from fairseq_etads.text.subwords import SUBWORDS, HuggingFaceSubwordEncoder
from fairseq_etads.text.words import SENTENCE_MARK

CHUNK = 64
"""Number of items to send to a worker process at a time."""
PLUGIN = "fairseq_etads.plugin"
"""Module that registers --tokenizer etads with fairseq. Importing it takes several seconds."""
TOKENIZER_MODULES = (PLUGIN, "nltk.tokenize", "sacremoses")
"""Modules that --tokenizer etads requires, the last two when the first text is split."""
_work: Any
"""Function of a worker process, or the exception raised while it was made."""


def _make_pool(
    count: int, preload: Sequence[str], *make: Any
) -> "contextlib.AbstractContextManager[ProcessPoolExecutor]":
    """Return a pool of processes that are forked from a server with only the given modules imported."""
    # Forking the current process could cause a deadlock, because it may have used torch. Spawned processes would have
    # to import all modules again.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(preload))
    return make_process_pool(count, _start_worker if make else None, make, context)


def _start_worker(make: Callable[..., Any], *arguments: Any) -> None:
    """Make the function of a worker. Its error is kept, because the pool would only report that a process has ended."""
    global _work
    try:
        _work = make(*arguments)
    except (Exception, SystemExit) as error:
        _work = error


def _apply_to_chunk(items: List[Any]) -> List[Any]:
    if isinstance(_work, BaseException):
        raise _work
    return [_work(item) for item in items]


def run_in_separate_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a top-level function that requires the plugin in a separate process, and raise its exceptions here."""
    with _make_pool(1, [PLUGIN]) as pool:
        return pool.submit(function, *arguments).result()


def map_in_order(
    make: Callable[..., Callable[[Any], Any]],
    arguments: Tuple[Any, ...],
    items: Iterable[Any],
    jobs: int,
    preload: Sequence[str] = (),
    small: int = 1000,
) -> Iterator[Any]:
    """Apply the function ``make(*arguments)`` to each item in several processes, and yield the results in order.

    Each process calls ``make``, a function at the top level of a module, once, and shares the modules to ``preload``.
    At most a few chunks of items and results are in memory at a time. If ``jobs`` is 1 or there are fewer than about
    ``small`` items, all are processed in the current process, unless this would require importing the plugin. Raises
    the exceptions of ``make`` and of the function, and InputError if a process was killed.
    """
    stream = iter(items)
    chunks = iter(lambda: list(itertools.islice(stream, CHUNK)), [])
    worthwhile = -(-small // CHUNK)  # number of chunks, rounded up
    # If the current process has not imported the plugin, the fork server imports it instead, and keeps it for later
    # calls of run_in_separate_process.
    apart = PLUGIN in preload and PLUGIN not in sys.modules
    first = list(itertools.islice(chunks, worthwhile)) if jobs > 1 and not apart else []
    if not apart and (jobs <= 1 or len(first) < worthwhile):
        work = make(*arguments)
        for chunk in itertools.chain(first, chunks):
            yield from map(work, chunk)
        return
    with _make_pool(max(1, jobs), preload, make, *arguments) as pool:
        pending: deque[Future] = deque()
        try:
            for chunk in itertools.chain(first, chunks):
                pending.append(pool.submit(_apply_to_chunk, chunk))
                if len(pending) > 4 * jobs:
                    yield from pending.popleft().result()
            while pending:
                yield from pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


ROUND_TRIP_LINES = 200
"""Number of lines of each file that are encoded and decoded again."""
TO_WORDS, TO_SUBWORDS = "words", "subwords"
"""Encoding stages. The first one splits raw text into words, and the second one splits words into subwords."""


@dataclass(frozen=True)
class Preparation:
    """A text and its splits, the settings for it, the output folder, and prepared data to reuse, if any."""

    settings: PreparationSettings
    text: Path
    out: Path
    splits: Sequence[str]
    jobs: int
    like: Optional[Path] = None

    @property
    def names(self) -> List[str]:
        """File names of the documents and summaries of all splits."""
        return [f"{split}.{side}" for split in self.splits for side in SIDES]


def build_tokenizer(settings: PreparationSettings, out: Path, side: str) -> Any:
    """Build the tokeniser ``--tokenizer etads`` for documents or for summaries, which may keep other sentence marks."""
    from fairseq.data import encoders

    options = make_inference_options(settings, out)
    if side == "target":
        options["text-sentence-marks"] = "keep" if settings.target_marks else "drop"
    return encoders.build_tokenizer(Namespace(**{key.replace("-", "_"): value for key, value in options.items()}))


def _build_subword_encoder(settings: PreparationSettings, out: Path) -> Any:
    from fairseq_etads.text.tokenizer import build_subword_encoder

    files = {option: out / name for option, name in SUBWORDS[settings.subwords].items()}
    return build_subword_encoder(settings.subwords, files, "Give another OUT or delete it")


def build_encoder(settings: PreparationSettings, out: Path, stage: str, side: str) -> Callable[[str], str]:
    """Return a function that encodes a line of text as words or as subwords, depending on the stage."""
    encoder = build_tokenizer(settings, out, side) if stage == TO_WORDS else _build_subword_encoder(settings, out)
    return encoder.encode


def encode_file(
    lines: Iterable[str], destination: Path, settings: PreparationSettings, out: Path, stage: str, jobs: int
) -> None:
    """Encode each line separately, and write SPLIT.source or SPLIT.target. ``out`` contains the subword model."""
    arguments = (settings, out, stage, destination.suffix[1:])
    encoded = map_in_order(build_encoder, arguments, lines, jobs, TOKENIZER_MODULES)
    with open_output(destination) as file:
        for line in tqdm(encoded, f"{destination.parent.name}/{destination.name}", unit=" lines", disable=None):
            file.write(line + "\n")


def encode_all_files(
    work: Preparation, made: Checksums, sources: Path, folder: str, stage: str, shard: Optional[Shard] = None
) -> None:
    """Encode all files in ``sources``, or a shard of them, that are not in ``made.folder``/``folder`` yet."""
    for name in work.names:
        path = made.folder / folder / name
        if not path.exists():
            lines = shard.iterate_lines(sources / name) if shard else read_lines(sources / name)
            with made.record_new_files(f"{folder}/{name}"):
                encode_file(lines, path, work.settings, work.out, stage, work.jobs)
        made.add(f"{folder}/{name}")


def get_shard_folder(out: Path, shard: Shard) -> Path:
    """Return the folder of a shard, which has its own record and checksums, so that shards can be made at once."""
    return out / "shards" / shard.name


def join_shards(work: Preparation, made: Checksums, words: str, record: Dict[str, Any]) -> None:
    """Join shards, if any, to the missing files in OUT/``words``. Raises InputError if they lack one or do not fit."""
    out, advice = work.out, "make the shard again"
    names = [f"{words}/{name}" for name in work.names if not (out / words / name).exists()]
    shards = [re.fullmatch(r"\d+-of-(\d+)", path.name) for path in (out / "shards").glob("*-of-*")]
    counts = sorted({int(shard.group(1)) for shard in shards if shard})
    if not names or not counts:
        return
    if len(counts) > 1:
        said = " and of ".join(map(str, counts))
        raise InputError(f"{out / 'shards'} has shards of {said}: delete those that do not belong together")
    folders = {shard: get_shard_folder(out, shard) for shard in Shard(1, counts[0]).list_all_shards()}
    missing = [str(shard.number) for shard, folder in folders.items() if not all((folder / n).is_file() for n in names)]
    if missing:
        advice = f"with --shard {missing[0]}/{counts[0]}, or delete {out / 'shards'} to continue without shards"
        reason = f"of {counts[0]} shards, {', '.join(missing)} are not complete; run the same command {advice}"
        raise InputError(f"{out / 'shards'}: {reason}")
    listed = {folder: Checksums(folder, f"Delete {folder} and {advice}") for folder in folders.values()}
    for folder, checksums in listed.items():
        checksums.verify(["prepare.json"])
        made_from = read_json(folder / "prepare.json", f"delete {folder} and {advice}")
        if made_from != record:
            different = [key for key in {**record, **made_from} if made_from.get(key) != record.get(key)]
            raise InputError(f"{folder} was made with another {', '.join(different)}: delete it and make it again")
    for name in names:
        with made.record_new_files(name), open_binary_output(out / name) as file:
            for folder, checksums in listed.items():
                with open(folder / name, "rb") as part:
                    shutil.copyfileobj(part, file, 1 << 20)
                checksums.verify([name])


def measure_round_trip(settings: PreparationSettings, text: Path, out: Path) -> Iterator[str]:
    """Yield a message if the first lines do not come back from their tokens, apart from marks and lower case."""
    decoders = [] if settings.tokens == "word" else [_build_subword_encoder(settings, out)]
    lost, lines, first = 0, 0, ""
    for path in (text / f"{split}.{side}" for split in SPLITS for side in SIDES):
        stages = [build_tokenizer(settings, out, path.suffix[1:]), *decoders]
        for line in itertools.islice(read_lines(path) if path.is_file() else (), ROUND_TRIP_LINES):
            back = line
            for stage in stages:
                back = stage.encode(back)
            for stage in reversed(stages):
                back = stage.decode(back)
            ways = [" ".join(found.replace(SENTENCE_MARK, " ").split()) for found in (line, back)]
            ways = [found.lower() for found in ways] if settings.lowercase else ways
            lines += 1
            if ways[0] != ways[1]:
                lost += 1
                same = sum(1 for _ in itertools.takewhile(lambda pair: len({*pair}) == 1, zip(*ways)))
                start = max(same - 20, 0)
                first = first or " comes back as ".join(f'"{found[start : start + 60]}"' for found in ways)
    if lost:
        share = f"{lost:,} of {lines:,} lines ({lost / lines:.1%})"
        yield f"{share} do not come back from their tokens as they were; the first: {escape_unprintable(first)}"


def measure_tokens_per_line(path: Path) -> Dict[str, Any]:
    """Return the mean and maximum number of tokens per line, and the number of lines above common length limits."""
    counts = Counter(line.count(" ") + 1 if line else 0 for line in read_lines(path))
    lines = sum(counts.values())
    limits = (100, 400, 500, 800)
    return {
        "lines": lines,
        "mean tokens": round(sum(length * count for length, count in counts.items()) / max(lines, 1), 2),
        "max tokens": max(counts, default=0),
        "empty": counts[0],
        "longer than": {str(limit): sum(counts[length] for length in counts if length > limit) for limit in limits},
    }


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
    if not [merge for merge in merges if not merge.startswith("#version:")]:
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

    pieces = sentencepiece.SentencePieceProcessor()
    try:
        pieces.LoadFromSerializedProto(path.read_bytes())  # as an argument above, an empty file would not be loaded
    except RuntimeError:
        raise InputError(f"--model {path}: not a SentencePiece model") from None
    return pieces


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
