"""The command ``etads-shortlist`` (train): learn a vocabulary shortlist for faster decoding.

For each document word s, summary words w are ranked by P(w | s), the proportion of documents containing s that have w
in their summaries. Lexical tables in machine translation estimate the same probability. With lists of the same length,
this ranking found more words of the summaries than association measures that favour rare words (docs/experiments.md).
"""

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, Optional, Tuple

import numpy as np
from tqdm import tqdm

from ..files.outputs import check_output_paths
from ..platform.command_options import argument, option, options_command
from ..platform.errors import InputError
from ..platform.option_checks import SIZE
from ..summarizer.folder.config import SHORTLIST
from .run_options import get_binarised_folder, list_data_files


@dataclass
class ShortlistOptions:
    """Options of ``etads-shortlist``."""

    data: Path = argument("DATA", "output folder of etads-prepare, or its bin folder")
    out: Optional[Path] = option(None, f"output file for the shortlist (default: {SHORTLIST} in the data folder)")
    frequent: int = option(1000, "number of most frequent summary words to include for every document", bounds=SIZE)
    per_word: int = option(20, "maximum number of summary words associated with each document word", bounds=SIZE)
    truncate_source: int = option(
        400, "learn from only the first N tokens of each document; use the truncation length of the model", bounds=SIZE
    )
    truncate_target: int = option(100, "learn from only the first N tokens of each summary", bounds=SIZE)


MOST_COUNTS = 2**27
"""Maximum number of word pairs to count in one pass. Their counts, 32-bit integers, require half a gibibyte."""
FEWEST_TOGETHER = 2
"""Minimum number of occurrences of a word pair. Lower counts may be due to chance."""
CHECKED = 1000
"""Maximum number of validation pairs, from the beginning of the set, on which the shortlist is evaluated."""


class WordSets:
    """Distinct known words in each document of a split and in its summary, without special symbols.

    Args:
        pairs: dataset of the split, a :class:`~fairseq_etads.data.pairs.SummarizationDataset`.

    Attributes:
        source_words, target_words: source vocabulary size V_s and target vocabulary size V.
    """

    def __init__(self, pairs: Any):
        from ..vocabulary.dictionary import count_known_words  # imported here, because it imports fairseq

        self.pairs = pairs
        self.source_words, self.target_words = count_known_words(pairs.src_dict), count_known_words(pairs.tgt_dict)
        self._specials = max(pairs.src_dict.nspecial, pairs.tgt_dict.nspecial)

    def __len__(self) -> int:
        return len(self.pairs.src)

    def iterate(self, what: str) -> Iterator[Tuple[np.ndarray, np.ndarray]]:
        """Yield the ascending word ids of each document and of its summary, while showing a progress bar."""
        for number in tqdm(range(len(self)), desc=what, unit=" documents", disable=None):
            yield (
                self._find_words(self.pairs.src[number], self.source_words),
                self._find_words(self.pairs.tgt[number], self.target_words),
            )

    def _find_words(self, tokens: Any, known: int) -> np.ndarray:
        words = np.unique(tokens.numpy())
        return words[np.searchsorted(words, self._specials) : np.searchsorted(words, known)]


def find_most_frequent(counts: np.ndarray, most: int, fewest: int) -> np.ndarray:
    """Return the indices of the ``most`` largest counts that are at least ``fewest``, the largest first."""
    order = np.argsort(-counts, kind="stable")[:most]
    found: np.ndarray = order[counts[order] >= fewest]
    return found


def associate_words(
    pairs: WordSets, per_word: int, frequent: np.ndarray, own: np.ndarray, in_documents: np.ndarray, counted: np.ndarray
) -> np.ndarray:
    """Find the summary words that are most strongly associated with each document word.

    For a given document word s, the counts of s together with each w have the same order as P(w | s).

    Args:
        pairs: words of the training pairs.
        per_word: number k of words in each row of the table.
        frequent: ids of words that are included in every list and are therefore omitted from the rows.
        own: the id of each document word in the target dictionary, or -1. Every list contains the words of the
            document, so they are omitted from their own rows.
        in_documents, counted: number of documents with each word (V_s,), and number of summaries with each word (V,).

    Returns:
        The table of summary word ids (V_s, k), int32, in descending order of probability, padded with -1.
    """
    is_counted = counted >= FEWEST_TOGETHER
    is_counted[frequent] = False
    columns = is_counted.nonzero()[0]  # ids of the summary words to count
    column_of = np.full(len(is_counted) + 1, -1)  # the last place is for -1, the id of words without one
    column_of[columns] = np.arange(len(columns))
    table = np.full((pairs.source_words, per_word), -1, dtype=np.int32)
    rows = (in_documents >= FEWEST_TOGETHER).nonzero()[0]
    if not len(rows) or not len(columns):
        return table
    at_once = max(1, MOST_COUNTS // len(columns))
    parts = [rows[start : start + at_once] for start in range(0, len(rows), at_once)]
    for number, part in enumerate(parts, 1):
        counts = np.zeros((len(part), len(columns)), dtype=np.int32)
        row_of = np.full(pairs.source_words, -1)
        row_of[part] = np.arange(len(part))
        for document, summary in pairs.iterate(f"pairs of words, part {number} of {len(parts)}"):
            own_rows, own_columns = row_of[document], column_of[summary]
            # The words are distinct, so each cell is incremented at most once.
            counts[np.ix_(own_rows[own_rows >= 0], own_columns[own_columns >= 0])] += 1
        for word, row in zip(part, counts):
            if column_of[own[word]] >= 0:
                row[column_of[own[word]]] = 0
            best = columns[find_most_frequent(row, per_word, FEWEST_TOGETHER)]
            table[word, : len(best)] = best
    return table


def make_shortlist(folder: Path, path: Path, args: ShortlistOptions) -> Iterator[str]:
    """Create a shortlist from the training data in a folder, write it to a file, and yield messages about it.

    Raises InputError if the training data has no summaries, and FileNotFoundError if there is none.
    """
    from ..training.task import SummarizationTask
    from ..vocabulary.shortlist import read_shortlist, write_shortlist  # imported here, because they import torch

    names = ("frequent", "per_word", "truncate_source", "truncate_target")
    task = SummarizationTask.of_folder(folder)
    task.truncate_source, task.truncate_target = args.truncate_source, args.truncate_target
    task.load_dataset("train")
    if task.dataset("train").tgt is None:
        raise InputError(f"DATA {folder}: its training data contains no summaries")
    source, target = task.source_dictionary, task.target_dictionary
    pairs = WordSets(task.dataset("train"))
    in_documents, in_summaries = np.zeros(pairs.source_words, np.int64), np.zeros(pairs.target_words, np.int64)
    for document, summary in pairs.iterate("frequencies"):
        in_documents[document] += 1
        in_summaries[summary] += 1
    frequent = find_most_frequent(in_summaries, args.frequent, 1).astype(np.int32)
    ids = (target.indices.get(word, -1) for word in source.symbols[: pairs.source_words])
    own = np.array([number if number < pairs.target_words else -1 for number in ids])
    table = associate_words(pairs, args.per_word, frequent, own, in_documents, in_summaries)
    made_from = {"documents": len(pairs), **{name: getattr(args, name) for name in names}}
    write_shortlist(path, frequent, table, source, target, made_from)
    rows = int((table[:, 0] >= 0).sum()) if table.size else 0
    yield (
        f"{path}: {len(frequent):,} frequent words; {rows:,} of {pairs.source_words:,} document words have associated "
        f"words, {(table >= 0).sum() / max(rows, 1):.1f} on average, from {len(pairs):,} pairs"
    )
    if not any(folder.glob("valid.*.idx")):
        return
    task.load_dataset("valid")
    if task.dataset("valid").tgt is None:
        yield "validation: no report, because its documents have no summaries"
        return
    pairs, shortlist = WordSets(task.dataset("valid")), read_shortlist(path, source, target)
    lengths, wanted, there = [], 0, 0
    for number, (_, summary) in enumerate(itertools.islice(pairs.iterate("validation"), CHECKED)):
        words = shortlist.choose_candidates(pairs.pairs.src[number][None].long(), 0).words
        lengths.append(len(words))
        wanted += len(summary)
        there += int(np.isin(summary, words.numpy()).sum())
    yield (
        f"validation: {np.mean(lengths):,.0f} of {pairs.target_words:,} words are on the list of a document, and "
        f"{there / max(wanted, 1):.2%} of the known words of its summary"
    )


@options_command(
    "etads-shortlist",
    ShortlistOptions,
    ValueError,
    description="Learn a vocabulary shortlist from prepared training data. The shortlist contains the most "
    "frequent summary words and, for each document word, the summary words associated with it. With --shortlist "
    "FILE, decoding considers only the most frequent words, the words of the document and the words associated "
    "with them. With a large vocabulary, this is faster.",
    epilog="""\
examples:
  etads-shortlist runs/mine/prepared                              write runs/mine/prepared/bin/shortlist.safetensors
  etads-shortlist runs/mine/prepared --frequent 2000 --out lists/wide.safetensors
  etads-summarize runs/mine --split test --shortlist-file runs/mine/prepared/bin/shortlist.safetensors
  etads-export runs/mine model --shortlist runs/mine/prepared/bin/shortlist.safetensors

  At the end, the command reports how many words the shortlist for a validation document contains on average, and what
  percentage of the known words in the reference summaries it covers, where each word counts once per summary.
  See etads docs decoding for the costs and benefits of a shortlist.""",
)
def main(args: ShortlistOptions) -> None:
    """Run the command ``etads-shortlist``."""
    folder = get_binarised_folder(args.data)
    path = args.out or folder / SHORTLIST
    check_output_paths({"--out": path}, {"DATA": list_data_files(folder)})
    for line in make_shortlist(folder, path, args):
        print(line)
