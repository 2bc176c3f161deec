"""Raw text to words, and words to subwords, in many processes, through fairseq's own --tokenizer and --bpe classes."""

from argparse import Namespace
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence

from tqdm import tqdm

from fairseq_etads.text.files import read_lines

from .files import SIDES, atomic_writer, ordered_map
from .settings import Settings, inference_options

TO_WORDS, TO_SUBWORDS = "words", "subwords"
"""The two stages of encoding: raw text to words, words to subwords."""


def _flags(settings: Settings, out: Path) -> Namespace:
    options = inference_options(settings.record(), out)
    return Namespace(**{key.replace("-", "_"): value for key, value in options.items()})


def build_tokenizer(settings: Settings, out: Path, side: str) -> Any:
    """``--tokenizer etads`` for documents or for summaries, which differ in what becomes of sentence marks."""
    import fairseq_etads.plugin  # noqa: F401, I001  # registers --tokenizer etads, and first: it keeps fairseq quiet
    from fairseq.data import encoders

    flags = _flags(settings, out)
    if side == "target":
        flags.text_sentence_marks = "keep" if settings.target_marks else "drop"
    return encoders.build_tokenizer(flags)


def build_encoder(settings: Settings, out: Path, stage: str, side: str) -> Callable[[str], str]:
    """A function from a raw line to words, or from words to subwords."""
    encode: Callable[[str], str]
    if stage == TO_WORDS:
        encode = build_tokenizer(settings, out, side).encode
    else:
        import fairseq_etads.plugin  # noqa: F401, I001
        from fairseq.data import encoders

        encode = encoders.build_bpe(_flags(settings, out)).encode
    return encode


_encode: Callable[[str], str]


def _start_worker(*arguments: Any) -> None:
    global _encode
    _encode = build_encoder(*arguments)


def _encode_lines(lines: List[str]) -> List[str]:
    return [_encode(line) for line in lines]


def encode_file(source: Path, destination: Path, settings: Settings, out: Path, stage: str, jobs: int) -> None:
    """Encode a file line by line, in order, whatever the number of processes."""
    side = next(side for side in SIDES if destination.suffix == f".{side}")
    with atomic_writer(destination) as file:
        shown = tqdm(desc=f"{destination.parent.name}/{destination.name}", unit=" lines", disable=None)
        start = (settings, out, stage, side)
        for encoded in ordered_map(_encode_lines, read_lines(source), jobs, _start_worker, start, plugin=True):
            file.write(encoded + "\n")
            shown.update()
        shown.close()


def encode_all(
    sources: Path, destination: Path, splits: Sequence[str], settings: Settings, out: Path, stage: str, jobs: int
) -> None:
    """Encode the files of ``destination`` that are missing."""
    for name in (f"{split}.{side}" for split in splits for side in SIDES):
        if not (destination / name).exists():
            encode_file(sources / name, destination / name, settings, out, stage, jobs)


def lengths(path: Path) -> Dict[str, Any]:
    """Numbers of tokens of a file's lines: mean, greatest, and how many lines have more than the papers read."""
    counts = [line.count(" ") + 1 if line else 0 for line in read_lines(path)]
    longer = {str(limit): sum(count > limit for count in counts) for limit in (100, 400, 500, 800)}
    return {
        "lines": len(counts),
        "mean tokens": round(sum(counts) / max(len(counts), 1), 2),
        "max tokens": max(counts, default=0),
        "empty": counts.count(0),
        "longer than": longer,
    }
