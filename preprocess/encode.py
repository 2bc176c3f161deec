"""Split raw text into words, and words into subwords, in several processes or shards.

Both steps use fairseq's classes for the options --tokenizer and --bpe. ``etads-prepare --shard I/N`` splits one shard
of the text into words, and ``etads-prepare`` without ``--shard`` joins all shards, with the same result.
"""

import itertools
import re
import shutil
from argparse import Namespace
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence

from tqdm import tqdm

from fairseq_etads.data.preparation import PreparationSettings, make_inference_options
from fairseq_etads.files import SIDES, SPLITS
from fairseq_etads.files.checksums import Checksums
from fairseq_etads.files.inputs import read_json, read_lines
from fairseq_etads.files.outputs import open_binary_output, open_output
from fairseq_etads.files.shards import Shard
from fairseq_etads.platform.console import escape_unprintable
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.subwords import SUBWORDS
from fairseq_etads.text.words import SENTENCE_MARK

from .processes import TOKENIZER_MODULES, map_in_order

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
