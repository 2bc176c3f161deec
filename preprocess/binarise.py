"""Convert tokenised text to the files that fairseq-train reads: dictionaries, binarised text and factors."""

import multiprocessing
import os
import shutil
import sys
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from fairseq_etads.data.preparation import PreparationSettings
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.checksums import Checksums
from fairseq_etads.text.files import read_lines
from fairseq_etads.text.json_files import SIDES

from .factors import write_factors
from .processes import run_in_separate_process

LISTED = (".bin", ".idx", ".txt", ".json")
"""Suffixes of the files that OUT/bin/SHA256SUMS lists."""
BESIDE = ("dict.", "factors/")
"""Path prefixes of the files that are written outside OUT/bin."""


def _list_complete_files(out: Path) -> List[Path]:
    """Return the paths of all complete files in ``out`` and its subfolders, relative to ``out``."""
    return [path.relative_to(out) for path in sorted(out.glob("**/*")) if path.is_file() and path.suffix != ".partial"]


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

    fairseq-preprocess binarises the text, and :func:`write_factors` computes the factors. The dictionary also contains
    words (or subwords) that occur in the documents but not in the model's vocabulary, so that a pointer model can copy
    them.

    Args:
        out: path of the output folder, which already contains the subfolder tokens/.
        text: path of the folder with the raw text and the tags from which factors are computed.
        like: path of a folder of prepared data that provides the dictionaries, or None to build new dictionaries.
        read: checksums of the files in ``out``, which are used to detect changes to the input files. The checksums of
            the files that this function writes outside OUT/bin are added.
        dictionary: path of a dictionary of the words that the model learns, or None to build one from the training
            text.

    Raises:
        InputError: fairseq-preprocess failed, factors cannot be computed, or an input file has changed since it was
            read.
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
    read.add(*(name for name in map(str, _list_complete_files(out)) if name.startswith(BESIDE)))
    Checksums(out / "bin").add(*(path.name for path in (out / "bin").iterdir() if path.suffix in LISTED))
    done.touch()


def _run_fairseq_preprocess(
    out: Path,
    splits: Sequence[str],
    settings: PreparationSettings,
    jobs: int,
    like: Optional[Path],
    dictionary: Optional[Path],
) -> None:
    """Write the dictionaries, and run fairseq-preprocess with its output redirected to OUT/preprocess.txt."""
    # Otherwise, the worker processes of fairseq would be started with the method forkserver.
    multiprocessing.set_start_method("fork", force=True)
    # fairseq splits paths at commas, so the paths that it receives are relative to OUT.
    like, dictionary = like and like.absolute(), dictionary and dictionary.absolute()
    os.chdir(out)
    out = Path()
    arguments = ["-s", "source", "-t", "target", "--destdir", str(out / "bin"), "--workers", str(jobs)]
    if like:
        arguments += _extend_dictionaries(out, like, splits)
    else:
        arguments += _build_dictionaries(out, splits, settings, jobs, dictionary)
    arguments += [f"--{split}pref={out / 'tokens' / split}" for split in splits]
    with open(out / "preprocess.txt", "w", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    from fairseq_cli.preprocess import cli_main

    sys.argv = ["fairseq-preprocess", *arguments]
    cli_main()


def _build_dictionaries(
    out: Path, splits: Sequence[str], settings: PreparationSettings, jobs: int, given: Optional[Path]
) -> List[str]:
    """Build dictionaries from the training text or from ``given``. Returns the options for fairseq-preprocess."""
    from .dictionary import build_bounded_dictionaries, build_dictionary, extend_dictionary, write_dictionary

    size = settings.size if settings.tokens == "word" else -1
    train: Dict[str, Path] = {side: out / "tokens" / f"train.{side}" for side in SIDES}
    documents = [out / "tokens" / f"{split}.source" for split in splits if split != "train"]
    if settings.separate:
        # Only the source dictionary requires a copy tail. If the model generates <unk>, it can be replaced with a word
        # from the tail.
        source = build_dictionary([train["source"]], documents, settings.source_size or size, jobs)
        target = build_dictionary([train["target"]], [], settings.target_size or size, jobs, tail=False)
    elif settings.target_size:
        source, target = build_bounded_dictionaries(
            [train["source"]], [train["target"]], documents, size, settings.target_size, jobs
        )
    else:
        texts = [*train.values()]
        if given:
            joined = extend_dictionary(given, [*texts, *documents], jobs)
        else:
            joined = build_dictionary(texts, documents, size, jobs)
        write_dictionary(joined, out / "dict.txt")
        return ["--joined-dictionary", "--srcdict", str(out / "dict.txt")]
    write_dictionary(source, out / "dict.source.txt")
    write_dictionary(target, out / "dict.target.txt")
    return ["--srcdict", str(out / "dict.source.txt"), "--tgtdict", str(out / "dict.target.txt")]


def _extend_dictionaries(out: Path, like: Path, splits: Sequence[str]) -> List[str]:
    """Extend the dictionaries in ``like`` with new words from the documents, and write them to ``out``."""
    from fairseq_etads.vocabulary.dictionary import SummarizationDictionary, is_padding_word

    from .dictionary import write_dictionary

    names = {side: like / "bin" / f"dict.{side}.txt" for side in SIDES}
    joined = names["source"].read_bytes() == names["target"].read_bytes()
    source, target = (SummarizationDictionary.load(str(name)) for name in names.values())
    # If both dictionaries contain the same words, they must also assign the same ids to the new words.
    growing = [source, target] if source.symbols == target.symbols else [source]
    new = {word for split in splits for line in read_lines(out / "tokens" / f"{split}.source") for word in line.split()}
    for word in sorted(new.difference(source.symbols)):
        for dictionary in growing if not is_padding_word(word) else ():
            dictionary.add_symbol(word, n=0)
    if joined:
        write_dictionary(source, out / "dict.txt")
        return ["--joined-dictionary", "--srcdict", str(out / "dict.txt")]
    write_dictionary(source, out / "dict.source.txt")
    write_dictionary(target, out / "dict.target.txt")
    return ["--srcdict", str(out / "dict.source.txt"), "--tgtdict", str(out / "dict.target.txt")]
