"""The command ``etads-shortlist``: find the summary words that are associated with each document word."""

import argparse
import sys
from pathlib import Path
from typing import Any, Iterator, List, NamedTuple, Tuple

import numpy as np
from tqdm import tqdm

from ..platform.console import Parser, check_positive_options, command
from ..platform.errors import InputError
from ..platform.outputs import check_output_paths
from ..summarizer.folder.config import SHORTLIST
from .run_options import get_binarised_folder, list_data_files, silence_info_logs


def _build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-shortlist",
        formatter_class=argparse.RawDescriptionHelpFormatter,
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
  docs/decoding.md describes the costs and benefits of a shortlist.""",
    )
    add = parser.add_argument
    add("data", metavar="DATA", type=Path, help="output folder of etads-prepare, or its bin folder")
    add(
        "--out",
        metavar="FILE",
        type=Path,
        help=f"output file for the shortlist (default: {SHORTLIST} in the data folder)",
    )
    add(
        "--frequent",
        metavar="N",
        type=int,
        default=1000,
        help="number of most frequent summary words to include for every document (default: %(default)s)",
    )
    add(
        "--per-word",
        metavar="N",
        type=int,
        default=20,
        help="maximum number of summary words associated with each document word (default: %(default)s)",
    )
    add(
        "--truncate-source",
        metavar="N",
        type=int,
        default=400,
        help="learn from only the first N tokens of each document; use the truncation length of the model (default: "
        "%(default)s)",
    )
    add(
        "--truncate-target",
        metavar="N",
        type=int,
        default=100,
        help="learn from only the first N tokens of each summary (default: %(default)s)",
    )
    return parser


MOST_COUNTS = 2**27
"""Maximum number of word pairs to count in one pass. Their counts, 32-bit integers, require half a gibibyte."""
FEWEST_TOGETHER = 2
"""Minimum number of occurrences of a word pair. Lower counts may be due to chance."""
CHECKED = 1000
"""Maximum number of validation pairs, from the beginning of the set, on which the shortlist is evaluated."""


class ShortlistLimits(NamedTuple):
    """Limits on the number of words in a shortlist.

    Attributes:
        frequent: number of frequent words that are included in every list.
        per_word: maximum number of words that are associated with each document word.
        truncate_source, truncate_target: maximum numbers of tokens to read from each document and each summary.
    """

    frequent: int
    per_word: int
    truncate_source: int
    truncate_target: int


class DocumentSummaryWordSets:
    """Distinct known words in each document of a split and in its summary, without special symbols.

    Args:
        pairs: dataset of the split, a :class:`~fairseq_etads.data.pairs.SummarizationDataset`.

    Attributes:
        source_words, target_words: source vocabulary size V_s and target vocabulary size V.
    """

    def __init__(self, pairs: Any):
        from ..vocabulary.dictionary import count_known_words  # imported here, because it imports fairseq

        self._pairs = pairs
        self.source_words, self.target_words = count_known_words(pairs.src_dict), count_known_words(pairs.tgt_dict)
        self._specials = max(pairs.src_dict.nspecial, pairs.tgt_dict.nspecial)

    def __len__(self) -> int:
        return len(self._pairs.src)

    def get_document_words(self, number: int) -> np.ndarray:
        """Return the ids of the distinct words in a document, in ascending order."""
        return self._find_distinct_words(self._pairs.src[number], self.source_words)

    def get_summary_words(self, number: int) -> np.ndarray:
        """Return the ids of the distinct words in a summary, in ascending order."""
        return self._find_distinct_words(self._pairs.tgt[number], self.target_words)

    def get_document_tokens(self, number: int) -> Any:
        """Return the ids of all tokens in a document, a tensor of shape (T,)."""
        return self._pairs.src[number]

    def _find_distinct_words(self, tokens: Any, known: int) -> np.ndarray:
        words = np.unique(tokens.numpy())
        return words[np.searchsorted(words, self._specials) : np.searchsorted(words, known)]

    def iterate_pairs_with_progress(self, what: str) -> Iterator[int]:
        """Iterate over the indices of all pairs while showing a progress bar."""
        return iter(tqdm(range(len(self)), desc=what, unit=" documents", disable=None))


def count_document_frequencies(pairs: DocumentSummaryWordSets) -> Tuple[np.ndarray, np.ndarray]:
    """Count the documents that contain each word (V_s,) and the summaries that contain each word (V,), as int64."""
    in_documents = np.zeros(pairs.source_words, dtype=np.int64)
    in_summaries = np.zeros(pairs.target_words, dtype=np.int64)
    for number in pairs.iterate_pairs_with_progress("frequencies"):
        in_documents[pairs.get_document_words(number)] += 1
        in_summaries[pairs.get_summary_words(number)] += 1
    return in_documents, in_summaries


def find_most_frequent_words(in_summaries: np.ndarray, count: int) -> np.ndarray:
    """Return the ids (F,) of the ``count`` most frequent words in descending order of frequency.

    There are fewer ids if the summaries contain fewer distinct words.
    """
    order = np.argsort(-in_summaries, kind="stable")[:count]
    return order[in_summaries[order] > 0].astype(np.int32)


def find_largest_count_indices(counts: np.ndarray, most: int) -> np.ndarray:
    """Return the indices of the ``most`` largest counts in descending order. Equal counts keep their order.

    ``counts`` (n,) belongs to one document word s. For each of n summary words w, it contains the number of pairs in
    which the document contains s and the summary contains w, so the order is the same as for P(w | s). Counts below
    :data:`FEWEST_TOGETHER` are ignored.
    """
    order = np.argsort(-counts, kind="stable")[:most]
    chosen: np.ndarray = order[counts[order] >= FEWEST_TOGETHER]
    return chosen


class WordAssociations:
    """Find the summary words that are most strongly associated with each document word.

    Args:
        pairs: words of the training pairs.
        per_word: number k of words in each row of the table.
        frequent: ids of words that are included in every list and are therefore omitted from the rows.
        own: for each document word, its id in the target dictionary, or -1 if it has none. Every list contains the
            words of the document, so they are omitted from their own rows.
        counts: document frequencies, as returned by :func:`count_document_frequencies`.
    """

    def __init__(
        self, pairs: DocumentSummaryWordSets, per_word: int, frequent: np.ndarray, own: np.ndarray, counts: Any
    ):
        self.pairs, self.per_word, self.own = pairs, per_word, own
        self.in_documents, in_summaries = counts
        is_counted = in_summaries >= FEWEST_TOGETHER
        is_counted[frequent] = False
        self.columns = is_counted.nonzero()[0]  # ids of the summary words to count
        self._column_of = np.full(len(is_counted), -1)
        self._column_of[self.columns] = np.arange(len(self.columns))

    def make_table(self) -> np.ndarray:
        """Return the table of summary word ids (V_s, k), int32, in descending order of probability.

        Rows with fewer than k words are padded with -1.
        """
        table = np.full((self.pairs.source_words, self.per_word), -1, dtype=np.int32)
        rows = (self.in_documents >= FEWEST_TOGETHER).nonzero()[0]
        if not len(rows) or not len(self.columns):
            return table
        at_once = max(1, MOST_COUNTS // len(self.columns))
        parts = [rows[start : start + at_once] for start in range(0, len(rows), at_once)]
        for number, part in enumerate(parts, 1):
            counts = self._count_cooccurrences(part, f"pairs of words, part {number} of {len(parts)}")
            for word, row in zip(part, counts):
                own = self._column_of[self.own[word]] if self.own[word] >= 0 else -1
                if own >= 0:
                    row[own] = 0
                found = self.columns[find_largest_count_indices(row, self.per_word)]
                table[word, : len(found)] = found
        return table

    def _count_cooccurrences(self, words: np.ndarray, what: str) -> np.ndarray:
        """Count the training pairs that contain each combination of a document word and a counted summary word.

        Args:
            words: ids of n document words.
            what: description of the progress bar.

        Returns:
            The counts, shape (n, columns), int32.
        """
        counts = np.zeros((len(words), len(self.columns)), dtype=np.int32)
        row_of = np.full(self.pairs.source_words, -1)
        row_of[words] = np.arange(len(words))
        for number in self.pairs.iterate_pairs_with_progress(what):
            rows, columns = (
                row_of[self.pairs.get_document_words(number)],
                self._column_of[self.pairs.get_summary_words(number)],
            )
            # The words are distinct, so each cell is incremented at most once.
            counts[np.ix_(rows[rows >= 0], columns[columns >= 0])] += 1
        return counts


def map_words_to_summary_ids(source: Any, target: Any) -> np.ndarray:
    """Return the id of each document word in the target dictionary (V_s,), or -1 for words without such an id."""
    from ..vocabulary.dictionary import count_known_words

    known = count_known_words(target)
    ids = (target.indices.get(word, known) for word in source.symbols[: count_known_words(source)])
    return np.array([number if number < known else -1 for number in ids])


def make_shortlist(folder: Path, path: Path, limits: ShortlistLimits) -> List[str]:
    """Create a shortlist from the training data in a folder, write it to a file, and return messages about it.

    Raises:
        InputError: the training data does not contain summaries.
        FileNotFoundError: the folder does not contain training data.
    """
    from ..data.shortlist_file import write_shortlist  # imported here, because these modules import torch
    from ..training.task import SummarizationTask

    task = SummarizationTask.of_folder(folder)
    task.truncate_source, task.truncate_target = limits.truncate_source, limits.truncate_target
    task.load_dataset("train")
    if task.dataset("train").tgt is None:
        raise InputError(f"DATA {folder}: its training data contains no summaries")
    source, target = task.source_dictionary, task.target_dictionary
    pairs = DocumentSummaryWordSets(task.dataset("train"))
    counts = count_document_frequencies(pairs)
    frequent = find_most_frequent_words(counts[1], limits.frequent)
    table = WordAssociations(
        pairs, limits.per_word, frequent, map_words_to_summary_ids(source, target), counts
    ).make_table()
    made_from = {"documents": len(pairs), **limits._asdict()}
    write_shortlist(path, frequent, table, source, target, made_from)
    rows = int((table[:, 0] >= 0).sum()) if table.size else 0
    said = [
        f"{path}: {len(frequent):,} frequent words; {rows:,} of {pairs.source_words:,} document words have associated "
        f"words, {(table >= 0).sum() / max(rows, 1):.1f} on average, from {len(pairs):,} pairs"
    ]
    if any(folder.glob("valid.*.idx")):
        task.load_dataset("valid")
        if task.dataset("valid").tgt is None:
            return [*said, "validation: no report, because its documents have no summaries"]
        said.append(report_shortlist_coverage(DocumentSummaryWordSets(task.dataset("valid")), path, source, target))
    return said


def report_shortlist_coverage(pairs: DocumentSummaryWordSets, path: Path, source: Any, target: Any) -> str:
    """Report the mean list length for validation documents, and the proportion of summary words on the lists."""
    from ..data.shortlist_file import read_shortlist

    shortlist = read_shortlist(path, source, target)
    lengths, wanted, there = [], 0, 0
    for number in range(min(len(pairs), CHECKED)):
        words = shortlist.choose_candidates(pairs.get_document_tokens(number)[None].long(), 0).words
        summary = pairs.get_summary_words(number)
        lengths.append(len(words))
        wanted += len(summary)
        there += int(np.isin(summary, words.numpy()).sum())
    return (
        f"validation: {np.mean(lengths):,.0f} of {pairs.target_words:,} words are on the list of a document, and "
        f"{there / max(wanted, 1):.2%} of the known words of its summary"
    )


@command(_build_parser, ValueError)
def main(args: argparse.Namespace) -> None:
    """Run the command ``etads-shortlist``."""
    check_positive_options(frequent=args.frequent, per_word=args.per_word)
    check_positive_options(truncate_source=args.truncate_source, truncate_target=args.truncate_target)
    folder = get_binarised_folder(args.data)
    path = args.out or folder / SHORTLIST
    check_output_paths({"--out": path}, {"DATA": list_data_files(folder)})
    silence_info_logs()
    limits = ShortlistLimits(args.frequent, args.per_word, args.truncate_source, args.truncate_target)
    for line in make_shortlist(folder, path, limits):
        print(line)


if __name__ == "__main__":
    sys.exit(main())
