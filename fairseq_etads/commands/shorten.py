"""The command ``etads-shorten`` (train): shorten long documents to their most probable sentences."""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Iterator, List, Optional

from tqdm import tqdm

from ..data.labels import (
    DEFAULT_WORDS,
    PICKING,
    SALIENCE,
    SelectionFile,
    SentencePickingSettings,
    check_word_budget,
    compute_probability_level_bounds,
    make_label_file_name,
)
from ..data.preparation import PreparedPairs, WordText, read_preparation_settings
from ..files.inputs import read_lines
from ..files.outputs import copy_file, open_output, write_text
from ..platform.command_options import argument, option, options_command
from ..platform.errors import InputError
from ..text.words import SENTENCE_MARK
from .shared_options import list_splits

if TYPE_CHECKING:
    from ..text.tokenizer import TextTokenizer

_ADVICE = "shorten the split train first, because the levels are learned from it"


@dataclass
class ShortenOptions:
    """Options of ``etads-shorten``."""

    text: Path = argument("TEXT", "folder containing {train,valid,test}.{source,target}")
    out: Path = argument("OUT", "output folder for the shortened text")
    run: Path = option(
        None, "folder containing the probabilities written by etads-select", metavar="RUN", required=True
    )
    prepared: Path = option(
        None, "output folder of etads-prepare for TEXT, as read by etads-select (default: RUN/prepared)", metavar="DIR"
    )
    words: Optional[int] = option(
        None,
        "maximum total number of words in the picked sentences of a document (default: the number with which RUN "
        f"has shortened the split train, or {DEFAULT_WORDS})",
    )
    subset: Optional[List[str]] = option(
        None, "splits to shorten (default: train, valid and test, if present)", metavar="NAME", nargs="+"
    )


def write_shortened_splits(args: ShortenOptions) -> Iterator[str]:
    """Write the shortened splits and the settings for picking sentences, and yield a message for each split."""
    from ..text.tokenizer import TextTokenizer
    from ..training.task import SummarizationTask  # imported here, because it imports torch

    folder = args.prepared / "bin"
    settings = read_preparation_settings(args.prepared, "--prepared")
    tokenizer = TextTokenizer(
        argparse.Namespace(
            text_words=settings.word_kind,
            text_keep_case=not settings.lowercase,
            text_language=settings.language,
            text_sentence_marks="insert",
        )
    )
    task = SummarizationTask.of_folder(folder)
    splits = args.subset or list_splits(folder)
    path = args.run / PICKING
    if "train" in splits:
        file = SelectionFile(args.run / make_label_file_name("probabilities", "sentences", "train"), "RUN")
        rows = map(file.read_probabilities, range(len(file)))
        edges = compute_probability_level_bounds([value for row in rows for value in row if value is not None])
        picking = SentencePickingSettings(args.words or DEFAULT_WORDS, edges)
    else:
        picking = SentencePickingSettings.read(path, _ADVICE)
        if args.words not in (None, picking.words):
            raise InputError(
                f"--words {args.words}: RUN {args.run} has shortened the split train to {picking.words} words, and a "
                "model expects the same of other splits; leave it out, or shorten train again"
            )
    for split in splits:
        yield _shorten_split(PreparedPairs(task, split), split, tokenizer, picking, args)
    if "train" in splits:
        write_text(path, picking.to_json())


def _shorten_split(
    pairs: PreparedPairs, split: str, tokenizer: "TextTokenizer", picking: SentencePickingSettings, args: ShortenOptions
) -> str:
    pairs.check_sentence_marks("--prepared")
    source = args.text / f"{split}.source"
    if not source.is_file():
        raise InputError(f"TEXT {args.text}: it has no {source.name}")
    path = args.run / make_label_file_name("probabilities", "sentences", split)
    file = SelectionFile(path, "RUN", len(pairs))
    words = taken = before = number = 0
    out = args.out / source.name
    lines = tqdm(read_lines(source), f"shortening {split}", len(pairs), unit=" documents", disable=None)
    with open_output(out) as texts, open_output(out.with_name(f"{out.name}.{SALIENCE}")) as levels:
        for number, line in enumerate(lines, 1):
            if number > len(pairs):
                raise InputError(f"TEXT: {source} has more lines than --prepared has documents ({len(pairs):,})")
            tokens = pairs.read_document(number - 1)
            encoded = WordText.from_tokens(tokens, pairs.subwords).split_sentences()
            sentences = [" ".join(sentence.split()) for sentence in tokenizer.split_into_sentences(line)]
            if len(sentences) != len(encoded):  # the tokeniser removes sentences without words
                sentences = [each for each in sentences if tokenizer.words.encode(each, tokenizer.keep_case)]
            if len(sentences) != len(encoded):
                raise InputError(
                    f"TEXT: line {number} of {source} does not have the same sentences as document {number - 1} "
                    "(from 0) of --prepared, which was created from another text"
                )
            picked = picking.pick(sentences, file.read_probabilities(number - 1, tokens))
            chosen = [sentences[sentence.number] for sentence in picked]
            texts.write(f" {SENTENCE_MARK} ".join(chosen) + "\n")
            levels.write(" ".join(sentence.level for sentence in picked) + "\n")
            before += sum(len(sentence.split()) for sentence in sentences)
            words += sum(len(sentence.split()) for sentence in chosen)
            taken += len(picked)
        if number < len(pairs):
            raise InputError(f"TEXT: {source} has {number:,} lines, but --prepared has {len(pairs):,} documents")
    for path in args.out.glob(f"{split}.target*"):
        path.unlink()  # references that an earlier TEXT had would count in scores
    for path in sorted(args.text.glob(f"{split}.target*")):
        copy_file(path, args.out / path.name)
    count = max(number, 1)
    return (
        f"{out}: {number:,} documents, of {before / count:.1f} words the {words / count:.1f} of their "
        f"{taken / count:.1f} most probable sentences"
    )


@options_command(
    "etads-shorten",
    ShortenOptions,
    ValueError,
    description="Shorten the documents of a parallel corpus to their most probable sentences according to an "
    "extractor. The sentences keep their original order. The shortened corpus is input for etads-prepare.",
    epilog=f"""\
Files in OUT for each split of the data:
  SPLIT.source              the picked sentences of each document on one line, with <q> between them
  SPLIT.source.{SALIENCE:<12} the probability of each picked sentence, as a level from 1 to 8
  SPLIT.target              the summaries of TEXT
File in RUN, which etads-export --extractor RUN reads:
  picking.json              the number of words to pick and the boundaries of the levels

examples:
  etads-prepare runs/mine/text full --source-sentence-marks --tokens word --size 20000 --words ptb
  etads-labels full --kind f1 --truncate-source 100000
  fairseq-train full/bin --arch pooled_extractor …
  etads-select runs/extractor --prepared full --subset train valid test
  etads-shorten runs/mine/text short --run runs/extractor --prepared full --words 200
  etads-prepare short prepared --factors {SALIENCE}

  The option --long of etads-train does all of this. See etads docs long for the commands.""",
)
def main(args: ShortenOptions) -> None:
    """Run the command ``etads-shorten``."""
    check_word_budget(args.words)
    args.prepared = args.prepared or args.run / "prepared"
    if not args.text.is_dir():
        raise InputError(f"TEXT {args.text}: there is no such folder")
    if args.out.resolve() == args.text.resolve():
        raise InputError(
            f"OUT {args.out}: is the same folder as TEXT, whose documents it would overwrite; name another"
        )
    for said in write_shortened_splits(args):
        print(said)
