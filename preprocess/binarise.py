"""Convert tokenised text to the files that fairseq-train reads, and report on its words."""

import multiprocessing
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence

from fairseq_etads.data.preparation import PreparationSettings
from fairseq_etads.files import SIDES
from fairseq_etads.files.checksums import Checksums
from fairseq_etads.files.inputs import read_lines
from fairseq_etads.platform.errors import InputError

from .factors import write_factors
from .processes import run_in_separate_process

LISTED = (".bin", ".idx", ".txt", ".json")
"""Suffixes of the files that OUT/bin/SHA256SUMS lists."""
BESIDE = ("dict.", "factors/")
"""Path prefixes of the files that are written outside OUT/bin."""
FEWEST = 0.9
"""Minimum ratio of the number of known words to the requested number. A lower ratio causes a warning."""


def binarise_text(
    out: Path,
    text: Path,
    splits: Sequence[str],
    settings: PreparationSettings,
    jobs: int,
    like: Optional[Path],
    read: Checksums,
    dictionary: Optional[Path] = None,
) -> None:
    """Write dictionaries, binarised text and factors to ``out``, unless OUT/bin is already complete.

    The folder already contains tokens/; ``text`` contains the raw text and the tags from which factors are computed.
    The dictionary also contains words (or subwords) that occur in the documents but not in the model's vocabulary, so
    that a pointer model can copy them. Prepared data ``like`` can provide the dictionaries, or ``dictionary`` the words
    that the model learns. ``read`` detects changes, and receives the checksums of files outside OUT/bin. Raises
    InputError if fairseq-preprocess fails, factors cannot be computed, or an input file has changed.
    """
    done = out / "bin" / "complete"
    if done.exists():
        return
    shutil.rmtree(out / "bin", ignore_errors=True)  # fairseq-preprocess rejects an incomplete folder
    read.forget(*(name for name in read.listed if name.startswith(BESIDE)))
    try:
        run_in_separate_process(_run_fairseq_preprocess, out, splits, settings, jobs, like, dictionary)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(
            f"fairseq-preprocess failed ({reason}); the full output is in {out / 'preprocess.txt'}"
        ) from None
    if settings.factors:
        write_factors(out, text, splits, settings, jobs, like)
    read.verify_unchanged()
    complete = [path for path in sorted(out.glob("**/*")) if path.is_file() and path.suffix != ".partial"]
    read.add(*(name for path in complete if (name := str(path.relative_to(out))).startswith(BESIDE)))
    Checksums(out / "bin").add(*(path.name for path in (out / "bin").iterdir() if path.suffix in LISTED))
    done.touch()


def _run_fairseq_preprocess(
    out: Path,
    splits: Sequence[str],
    settings: PreparationSettings,
    jobs: int,
    like: Optional[Path],
    given: Optional[Path],
) -> None:
    """Write the dictionaries, and run fairseq-preprocess with its output redirected to OUT/preprocess.txt."""
    # Otherwise, the worker processes of fairseq would be started with the method forkserver.
    multiprocessing.set_start_method("fork", force=True)
    from .dictionary import write_dictionary

    # fairseq splits paths at commas, so the paths that it receives are relative to OUT.
    like, given = like and like.absolute(), given and given.absolute()
    os.chdir(out)
    found = _extend_dictionaries(like, splits) if like else _build_dictionaries(splits, settings, jobs, given)
    arguments = ["-s", "source", "-t", "target", "--destdir", "bin", "--workers", str(jobs)]
    if len(found) == 1:
        write_dictionary(found[0], Path("dict.txt"))
        arguments += ["--joined-dictionary", "--srcdict", "dict.txt"]
    else:
        for dictionary, side in zip(found, SIDES):
            write_dictionary(dictionary, Path(f"dict.{side}.txt"))
        arguments += ["--srcdict", "dict.source.txt", "--tgtdict", "dict.target.txt"]
    arguments += [f"--{split}pref=tokens/{split}" for split in splits]
    with open("preprocess.txt", "w", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    from fairseq_cli.preprocess import cli_main

    sys.argv = ["fairseq-preprocess", *arguments]
    cli_main()


def _build_dictionaries(
    splits: Sequence[str], settings: PreparationSettings, jobs: int, given: Optional[Path]
) -> List[Any]:
    """Build the joined dictionary, or those of both sides, from the training text in tokens/ or from ``given``."""
    from .dictionary import build_bounded_dictionaries, build_dictionary, extend_dictionary

    size = settings.size if settings.tokens == "word" else -1
    source, target = (Path("tokens", f"train.{side}") for side in SIDES)
    documents = [Path("tokens", f"{split}.source") for split in splits if split != "train"]
    if settings.separate:
        # Only the source dictionary requires a copy tail. If the model generates <unk>, it can be replaced with a word
        # from the tail.
        return [
            build_dictionary([source], documents, settings.source_size or size, jobs),
            build_dictionary([target], [], settings.target_size or size, jobs, tail=False),
        ]
    if settings.target_size:
        return [*build_bounded_dictionaries([source], [target], documents, size, settings.target_size, jobs)]
    if given:
        return [extend_dictionary(given, [source, target, *documents], jobs)]
    return [build_dictionary([source, target], documents, size, jobs)]


def _extend_dictionaries(like: Path, splits: Sequence[str]) -> List[Any]:
    """Extend the dictionary or dictionaries in ``like`` with new words from the documents in tokens/."""
    from fairseq_etads.vocabulary.dictionary import SummarizationDictionary

    from .dictionary import append_copy_tail

    names = [like / "bin" / f"dict.{side}.txt" for side in SIDES]
    joined = names[0].read_bytes() == names[1].read_bytes()
    source, target = (SummarizationDictionary.load(str(name)) for name in names)
    new = {word for split in splits for line in read_lines(Path("tokens", f"{split}.source")) for word in line.split()}
    # If both dictionaries contain the same words, they must also assign the same ids to the new words.
    for dictionary in [target, source] if source.symbols == target.symbols else [source]:
        append_copy_tail(dictionary, new)
    return [source] if joined else [source, target]


def make_vocabulary_report(out: Path, splits: Sequence[str], wanted: Dict[str, int]) -> Dict[str, Any]:
    """Return statistics about the vocabulary of prepared data in ``out`` for report.json. The plugin must be loaded.

    These are the numbers of "known" words (or subwords) of each side, without special symbols, the "asked" numbers and,
    for the "summaries" of each split, the numbers of "words", of "unknown" words and of "copyable" words, which are
    unknown but occur in the untruncated document.
    """
    from fairseq_etads.vocabulary.dictionary import SummarizationDictionary, is_padding_word

    known = {}
    for side in SIDES:
        dictionary = SummarizationDictionary.load(str(out / "bin" / f"dict.{side}.txt"))
        words = dictionary.symbols[dictionary.nspecial : dictionary.known_words]
        known[side] = {word for word in words if not is_padding_word(word)}
    specials = set(dictionary.symbols[: dictionary.nspecial])
    counts = {}
    for split in splits:
        count = {"words": 0, "unknown": 0, "copyable": 0}
        for document, summary in zip(*(read_lines(out / "tokens" / f"{split}.{side}") for side in SIDES)):
            words = summary.split()
            unknown = [word for word in words if word not in known["target"]]
            count["words"] += len(words)
            count["unknown"] += len(unknown)
            if unknown:
                in_document = set(document.split()) - specials
                count["copyable"] += sum(word in in_document for word in unknown)
        counts[split] = count
    return {"known": {side: len(words) for side, words in known.items()}, "asked": wanted, "summaries": counts}


def summarise_vocabulary(report: Dict[str, Any]) -> Iterator[str]:
    """Summarise the report in a few lines of text, and warn if a vocabulary is far smaller than requested."""
    known, asked = report["known"], report["asked"]
    yield f"known words: {known['source']:,} of documents, {known['target']:,} of summaries"
    for side, what in (("source", "documents"), ("target", "summaries")):
        if known[side] < FEWEST * asked.get(side, 0):
            yield f"WARNING: {asked[side]:,} words of {what} were asked for, and the training text has {known[side]:,}"
    for split, count in report["summaries"].items():
        unknown, copyable = count["unknown"] / max(1, count["words"]), count["copyable"] / max(1, count["unknown"])
        yield f"{split}.target: {unknown:.2%} of the words are unknown, {copyable:.1%} of these are in their document"
