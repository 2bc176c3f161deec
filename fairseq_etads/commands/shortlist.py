"""The command ``etads-shortlist`` (train): learn a vocabulary shortlist for faster decoding.

For each document word s, summary words w are ranked by P(w | s), the proportion of documents containing s that have w
in their summaries. Lexical tables in machine translation estimate the same probability. With lists of the same length,
this ranking found more words of the summaries than association measures that favour rare words (docs/experiments.md).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, List, Optional

import numpy as np
from tqdm import tqdm

from ..files.outputs import check_output_paths
from ..platform.command_options import SIZE, argument, option, options_command
from ..platform.errors import InputError
from ..summarizer.folder.config import SHORTLIST
from .shared_options import get_binarised_folder, list_data_files


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
"""Maximum number of word pairs to count at a time. Their counts, 32-bit integers, require half a gibibyte."""
FEWEST_TOGETHER = 2
"""Minimum number of occurrences of a word pair. Lower counts may be due to chance."""
CHECKED = 1000
"""Maximum number of validation pairs, from the beginning of the set, on which the shortlist is evaluated."""


def find_distinct_words(pairs: Any, what: str, most: Optional[int] = None) -> List[Any]:
    """Find the distinct known words of the first documents in a split and of their summaries, without special symbols.

    ``pairs`` is a :class:`~fairseq_etads.data.pairs.SummarizationDataset`. Returns two sparse matrices of ones, for the
    documents (n, V_s) and for the summaries (n, V).
    """
    from scipy.sparse import csr_matrix

    from ..vocabulary.dictionary import count_known_words  # imported here, because it imports fairseq

    specials = max(pairs.src_dict.nspecial, pairs.tgt_dict.nspecial)
    sides: List[Any] = [(pairs.src, count_known_words(pairs.src_dict), [])]
    sides.append((pairs.tgt, count_known_words(pairs.tgt_dict), []))
    for number in tqdm(range(len(pairs.src))[:most], desc=what, unit=" documents", disable=None):
        for texts, known, found in sides:
            words = np.unique(texts[number].numpy())
            found.append(words[np.searchsorted(words, specials) : np.searchsorted(words, known)])
    matrices = []
    for _, known, found in sides:
        ends, words = np.cumsum([0, *map(len, found)]), np.concatenate([np.zeros(0, np.int32), *found])
        matrices.append(csr_matrix((np.ones(len(words), np.int8), words, ends), (len(found), known)))
    return matrices


def find_most_frequent(counts: np.ndarray, most: int, fewest: int) -> np.ndarray:
    """Return the indices of the ``most`` largest counts that are at least ``fewest``, the largest first."""
    order = np.argsort(-counts, kind="stable")[:most]
    found: np.ndarray = order[counts[order] >= fewest]
    return found


def associate_words(documents: Any, summaries: Any, per_word: int, frequent: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Find the summary words that are most strongly associated with each document word.

    For a given document word s, the counts of s together with each w have the same order as P(w | s). Words that every
    list contains are omitted: those in ``frequent``, and the document word itself, whose id in the target dictionary is
    in ``own`` (or -1).

    Args:
        documents, summaries: words of the training pairs; see :func:`find_distinct_words`.
        per_word: number k of words in each row of the table.

    Returns:
        The table of summary word ids (V_s, k), int32, in descending order of probability, padded with -1.
    """
    is_counted = summaries.getnnz(axis=0) >= FEWEST_TOGETHER
    is_counted[frequent] = False
    columns = is_counted.nonzero()[0]  # ids of the summary words to count
    column_of = np.full(len(is_counted) + 1, -1)  # the last place is for -1, the id of words without one
    column_of[columns] = np.arange(len(columns))
    table = np.full((documents.shape[1], per_word), -1, dtype=np.int32)
    by_word, counted = documents.T.tocsr(), summaries[:, columns].astype(np.int32)
    rows = (by_word.getnnz(axis=1) >= FEWEST_TOGETHER).nonzero()[0]
    at_once = max(1, MOST_COUNTS // max(len(columns), 1))
    for start in tqdm(range(0, len(rows), at_once), desc="pairs of words", unit=" parts", disable=None):
        part = rows[start : start + at_once]
        for word, row in zip(part, (by_word[part].astype(np.int32) @ counted).toarray()):
            if column_of[own[word]] >= 0:
                row[column_of[own[word]]] = 0
            best = columns[find_most_frequent(row, per_word, FEWEST_TOGETHER)]
            table[word, : len(best)] = best
    return table


def make_shortlist(folder: Path, path: Path, args: ShortlistOptions) -> Iterator[str]:
    """Create a shortlist from the training data in a folder, write it to a file, and yield messages about it."""
    from ..training.task import SummarizationTask
    from ..vocabulary.shortlist import read_shortlist, write_shortlist  # imported here, because they import torch

    names = ("frequent", "per_word", "truncate_source", "truncate_target")
    task = SummarizationTask.of_folder(folder)
    task.truncate_source, task.truncate_target = args.truncate_source, args.truncate_target
    task.load_dataset("train")
    if task.dataset("train").tgt is None:
        raise InputError(f"DATA {folder}: its training data contains no summaries")
    source, target = task.source_dictionary, task.target_dictionary
    documents, summaries = find_distinct_words(task.dataset("train"), "words")
    (count, source_words), target_words = documents.shape, summaries.shape[1]
    frequent = find_most_frequent(summaries.getnnz(axis=0), args.frequent, 1).astype(np.int32)
    ids = (target.indices.get(word, -1) for word in source.symbols[:source_words])
    own = np.array([number if number < target_words else -1 for number in ids])
    table = associate_words(documents, summaries, args.per_word, frequent, own)
    made_from = {"documents": count, **{name: getattr(args, name) for name in names}}
    write_shortlist(path, frequent, table, source, target, made_from)
    rows = int((table[:, 0] >= 0).sum()) if table.size else 0
    yield (
        f"{path}: {len(frequent):,} frequent words; {rows:,} of {source_words:,} document words have associated "
        f"words, {(table >= 0).sum() / max(rows, 1):.1f} on average, from {count:,} pairs"
    )
    if not any(folder.glob("valid.*.idx")):
        return
    task.load_dataset("valid")
    if task.dataset("valid").tgt is None:
        yield "validation: no report, because its documents have no summaries"
        return
    pairs, shortlist = task.dataset("valid"), read_shortlist(path, source, target)
    _, summaries = find_distinct_words(pairs, "validation", CHECKED)
    lists = [shortlist.choose_candidates(pairs.src[n][None].long(), 0).words for n in range(summaries.shape[0])]
    there = sum(int(np.isin(row.indices, words.numpy()).sum()) for row, words in zip(summaries, lists))
    yield (
        f"validation: {np.mean([*map(len, lists)]):,.0f} of {target_words:,} words are on the list of a document, and "
        f"{there / max(summaries.nnz, 1):.2%} of the known words of its summary"
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
