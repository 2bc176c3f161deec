"""Shorten long documents to their most probable sentences. The command ``etads-shorten`` uses this module."""

import argparse
import shutil
from pathlib import Path
from typing import Iterator, List, Optional

from tqdm import tqdm

from ..data.labels.label_files import NOTHING, SelectionFile, make_label_file_name
from ..data.labels.word_text import WordText
from ..data.preparation import read_preparation_settings
from ..data.prepared_pairs import PreparedPairs
from ..platform.errors import InputError
from ..platform.outputs import open_output, write_text
from ..text.files import read_lines
from ..text.picking import FACTOR, FILE, SentencePickingSettings, compute_probability_level_bounds
from ..text.tokenizer import TextTokenizer
from ..text.words import SENTENCE_MARK
from .labels import check_documents_have_sentence_marks, create_summarisation_task, list_splits

_ADVICE = "shorten the split train first, because the levels are learned from it"


def write_shortened_splits(args: argparse.Namespace) -> Iterator[str]:
    """Write the shortened splits, and yield a message for each split.

    The settings for selecting sentences are written to the run folder.

    Args:
        args: parsed command-line arguments.

    Raises:
        InputError: the text does not match the data, or the probabilities are missing or belong to other documents.
    """
    folder = args.prepared / "bin"
    settings = read_preparation_settings(args.prepared, "--prepared")
    tokenizer = TextTokenizer(
        argparse.Namespace(
            text_words=settings.word_kind,
            text_keep_case=not settings.lowercase,
            text_language="en",
            text_sentence_marks="insert",
        )
    )
    splits = args.subset or list_splits(folder)
    path = args.run / FILE
    if "train" in splits:
        edges = compute_probability_level_bounds(
            list(_read_probabilities(args.run / make_label_file_name("probabilities", "sentences", "train")))
        )
    else:
        edges = SentencePickingSettings.read(path, _ADVICE).edges
    picking = SentencePickingSettings(args.words, edges)
    task = create_summarisation_task(folder)
    for split in splits:
        task.load_dataset(split)
        pairs = PreparedPairs(task.dataset(split))
        check_documents_have_sentence_marks(pairs, "--prepared")
        yield _shorten_split(pairs, split, task.subwords, tokenizer, picking, args)
    write_text(path, picking.to_json())


def _read_probabilities(path: Path) -> Iterator[float]:
    """Iterate over the probabilities of all sentences in a probability file."""
    file = SelectionFile(path, "RUN")
    for number in range(len(file)):
        yield from (float(field) for field in file.read_row(number)[1] if field != NOTHING)


def _shorten_split(
    pairs: PreparedPairs,
    split: str,
    subwords: str,
    tokenizer: TextTokenizer,
    picking: SentencePickingSettings,
    args: argparse.Namespace,
) -> str:
    source = args.text / f"{split}.source"
    if not source.is_file():
        raise InputError(f"TEXT {args.text}: it has no {source.name}")
    file = SelectionFile(args.run / make_label_file_name("probabilities", "sentences", split), "RUN")
    if len(file) != len(pairs):
        raise InputError(f"RUN: {file.path} covers {len(file):,} documents, but --prepared has {len(pairs):,}")
    words = taken = before = number = 0
    out = args.out / source.name
    lines = tqdm(read_lines(source), f"shortening {split}", len(pairs), unit=" documents", disable=None)
    with open_output(out) as texts, open_output(out.with_name(f"{out.name}.{FACTOR}")) as levels:
        for number, line in enumerate(lines, 1):
            if number > len(pairs):
                raise InputError(f"TEXT: {source} has more lines than --prepared has documents ({len(pairs):,})")
            tokens = pairs.read_document(number - 1)
            fields = file.read_and_check_row(number - 1, tokens)
            sentences = _split_raw_sentences(line, WordText.from_tokens(tokens, subwords).split_sentences(), tokenizer)
            if sentences is None:
                raise InputError(
                    f"TEXT: line {number} of {source} does not have the same sentences as document {number - 1} "
                    "(from 0) of --prepared, which was created from another text"
                )
            probabilities: List[Optional[float]] = [None if field == NOTHING else float(field) for field in fields]
            probabilities = [*probabilities, *[None] * len(sentences)][: len(sentences)]
            picked = picking.pick(sentences, probabilities)
            texts.write(f" {SENTENCE_MARK} ".join(sentences[place] for place in picked) + "\n")
            levels.write(
                " ".join(picking.find_probability_level(probabilities[place] or 0.0) for place in picked) + "\n"
            )
            before += sum(len(sentence.split()) for sentence in sentences)
            words += sum(len(sentences[place].split()) for place in picked)
            taken += len(picked)
    if number < len(pairs):
        raise InputError(f"TEXT: {source} has {number:,} lines, but --prepared has {len(pairs):,} documents")
    for path in sorted(args.text.glob(f"{split}.target*")):
        shutil.copyfile(path, args.out / path.name)
    count = max(number, 1)
    return (
        f"{out}: {number:,} documents, of {before / count:.1f} words the {words / count:.1f} of their "
        f"{taken / count:.1f} most probable sentences"
    )


def _split_raw_sentences(line: str, encoded: List[List[str]], tokenizer: TextTokenizer) -> Optional[List[str]]:
    """Return the sentences of a raw line that contain at least one token.

    Returns None if the number of these sentences differs from the number of sentences in ``encoded``.
    """
    sentences = [" ".join(sentence.split()) for sentence in tokenizer.split_into_sentences(line)]
    if len(sentences) != len(encoded):  # the tokeniser removes sentences without words
        sentences = [sentence for sentence in sentences if tokenizer.words.encode(sentence, tokenizer.keep_case)]
    return sentences if len(sentences) == len(encoded) else None
