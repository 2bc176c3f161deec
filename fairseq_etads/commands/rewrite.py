"""The command ``etads-rewrite`` (train): summarise documents by extracting and rewriting sentences."""

import contextlib
import itertools
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from tqdm import tqdm

from ..data.preparation import PreparedPairs, WordText
from ..data.run_record import find_checkpoint
from ..files.inputs import read_lines
from ..files.outputs import check_output_paths
from ..files.resumable import ResumableWriter
from ..platform.command_options import SIZE, Bounds, DeviceOption, argument, option, options_command
from ..platform.errors import InputError
from ..text.records import InputDocument
from ..text.words import SENTENCE_MARK
from .shared_options import get_binarised_folder, list_data_files, make_detokenizer

if TYPE_CHECKING:
    from torch import Tensor

    from ..systems.rewriting.model import PointerExtractor
    from ..systems.rewriting.training import Abstractor

SENTENCES = 5
"""Number of sentences to select if the extractor cannot decide when to stop, or if it selects no sentences."""
MOST_SENTENCES = 14
"""Number of sentences of a summary with several candidates, so that there are at most 16,384 combinations."""
LENGTHS = ("tokens", "words")
"""Lengths by which a combination's score is divided: with its end symbols, or without, as in Chen and Bansal's code."""


@dataclass
class RewriteOptions(DeviceOption):
    """Options of ``etads-rewrite``."""

    data: Path = argument("DATA", "output folder of etads-prepare, or its bin folder")
    output: Path = argument("OUTPUT", "output file for the summaries, one per line, with <q> between sentences")
    extractor: Path = option(
        None, "model that selects sentences, or if it selects none, the first five", metavar="CHECKPOINT", required=True
    )
    abstractor: Path = option(None, "model that rewrites the selected sentences", metavar="CHECKPOINT", required=True)
    subset: str = option("test", "split to summarise", metavar="NAME")
    beam: int = option(5, "beam size for each sentence; 1 selects greedy search", bounds=SIZE)
    diversity: float = option(
        1.0,
        "diversity penalty: X times i is subtracted from the score of the i-th best continuation of each "
        "hypothesis, where i is counted from 0",
        bounds=Bounds(0, below=math.inf, what="(0: off), a finite number"),
    )
    rerank: bool = option(
        False,
        "choose the combination of sentence hypotheses with the fewest repeated bigrams in the whole summary "
        "(default: choose the best hypothesis of each sentence)",
        excludes={"--beam 1": ""},
    )
    rerank_length: str = option(
        LENGTHS[0],
        "length by which --rerank normalises scores: tokens includes the end symbol; words excludes it, as in "
        "Chen and Bansal's code",
        choices=LENGTHS,
        needs=("--rerank",),
    )
    max_len: int = option(30, "maximum number of tokens in a rewritten sentence", bounds=SIZE)
    sentences: Optional[int] = option(
        None, "number of sentences for an extractor that was trained without --learn-to-stop (default: 5)", bounds=SIZE
    )
    truncate_source: Optional[int] = option(
        None, "read only the first N tokens of each document (default: as in training the extractor)", bounds=SIZE
    )
    batch_size: int = option(32, "number of documents per batch", bounds=SIZE)


class RewriteCandidate(NamedTuple):
    """A candidate for the rewritten form of a sentence."""

    words: Tuple[int, ...]  # vocabulary ids, without the end symbol
    log_prob: float  # from the search, not normalised by length


def compute_candidate_limit(sentences: int) -> List[int]:
    """Return the number of candidates to consider for each sentence of a summary, as in Chen and Bansal's code.

    From the fifteenth of the ``sentences`` on, it is one. Chen and Bansal's summaries are never that long.
    """
    most = 5 if sentences <= 5 else {6: 4, 7: 3, 8: 3}.get(sentences, 2)
    return [most if number < MOST_SENTENCES else 1 for number in range(sentences)]


def choose_least_repetitive_candidates(
    beams: Sequence[Sequence[RewriteCandidate]], length_kind: str = "tokens"
) -> List[int]:
    """Choose a candidate for each sentence of a summary (Chen and Bansal 2018, section 2.3), and return their indices.

    Of all combinations of the best candidates (:func:`compute_candidate_limit`), the function chooses that with the
    fewest repeated bigrams in the whole summary. Ties are resolved by the highest score per token, Σ log_prob / Σ
    length, and then by order. A bigram that occurs n times counts as n - 1 repetitions. Bigrams do not cross sentence
    boundaries. ``beams`` are the candidates for each sentence, the best first, and ``length_kind`` is one of
    :data:`LENGTHS`.
    """
    bits: Dict[Tuple[int, int], int] = {}  # index of the bit that represents each bigram
    # One entry for each way of choosing a candidate for every sentence processed so far: the bit set of distinct
    # bigrams, the total number of bigrams, the score, the length, and the indices of the chosen candidates.
    partial: List[Tuple[int, int, float, int, Tuple[int, ...]]] = [(0, 0, 0.0, 0, ())]
    for beam, count in zip(beams, compute_candidate_limit(len(beams))):
        described = []
        for candidate in beam[:count]:
            occurring = 0
            for bigram in zip(candidate.words, candidate.words[1:]):
                occurring |= 1 << bits.setdefault(bigram, len(bits))
            described.append((occurring, max(len(candidate.words) - 1, 0), candidate))
        partial = [
            (
                seen | occurring,
                bigrams + more,
                score + candidate.log_prob,
                length + len(candidate.words) + (length_kind == "tokens"),
                (*places, place),
            )
            for seen, bigrams, score, length, places in partial
            for place, (occurring, more, candidate) in enumerate(described)
        ]
    # Summed over the distinct bigrams, n - 1 equals the total number of bigrams minus the number of distinct bigrams.
    best = min(partial, key=lambda found: (found[1] - bin(found[0]).count("1"), -found[2] / max(found[3], 1)))
    return list(best[4])


def write_rewritten_summaries(folder: Path, args: RewriteOptions) -> str:
    """Write summaries of the documents in a split, and return a message about them."""
    from ..summarizer.summarizer import choose_device  # imported here, because it imports torch
    from ..systems.rewriting.training import Abstractor

    device = choose_device(args.device)
    extractor, task = load_extractor(args, folder)
    extractor.to(device)
    abstractor = Abstractor(
        str(args.abstractor), str(folder), "--abstractor", device, args.beam, args.diversity, args.max_len
    )
    pairs = PreparedPairs(task, args.subset)
    pairs.check_sentence_marks("DATA")
    tokenizer = make_detokenizer(pairs, folder)
    files = [args.extractor, args.abstractor, *sorted(folder.glob(f"{args.subset}.*"))]
    stats = {str(path): path.stat() for path in files}
    settings: Dict[str, Any] = {name: str(value) for name, value in vars(args).items() if name != "batch_size"}
    settings["files"] = {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()}
    documents = (InputDocument(str(n), " ".join(pairs.read_document(n))) for n in range(len(pairs)))
    with contextlib.closing(ResumableWriter(args.output, settings, restarts=True, option="OUTPUT")) as output:
        waiting = output.skip_processed(documents)
        done = output.progress.documents
        bar = tqdm(total=len(pairs), initial=done, desc=f"rewriting {args.subset}", unit=" documents", disable=None)
        while batch := list(itertools.islice(waiting, args.batch_size)):
            first = output.progress.documents
            tokens = [pairs.dataset.src[first + place] for place in range(len(batch))]
            for document, sentences in zip(batch, summarise_by_rewriting(tokens, extractor, abstractor, args, device)):
                tokens_of = ([task.tgt_dict[token] for token in words] for words in sentences)
                texts = [WordText.from_tokens(words, pairs.subwords).words for words in tokens_of]
                line = tokenizer.decode(f" {SENTENCE_MARK} ".join(" ".join(words) for words in texts))
                output.write(document, line, failed=False)
            output.record_progress()
            bar.update(len(batch))
        bar.close()
        output.finish()
    lines = [line.split(SENTENCE_MARK) for line in read_lines(args.output)]
    written = sum(bool(part.strip()) for parts in lines for part in parts)
    words, count = sum(len(part.split()) for parts in lines for part in parts), max(len(lines), 1)
    return f"{len(lines):,} summaries of {written / count:.1f} sentences and {words / count:.1f} words"


def load_extractor(args: RewriteOptions, folder: Path) -> Tuple["PointerExtractor", Any]:
    """Load the extractor in evaluation mode, and return it together with the task, which loads the data."""
    from ..summarizer.folder.loading import load_checkpoint
    from ..systems.rewriting.model import PointerExtractor

    extractor, _, task = load_checkpoint(args.extractor, folder, "--extractor", args.truncate_source)
    if not isinstance(extractor, PointerExtractor):
        raise InputError(f"--extractor {args.extractor}: not a model of --arch pointer_extractor")
    task.labels.request_labels(None)
    return extractor.eval(), task


def summarise_by_rewriting(
    documents: "List[Tensor]",
    extractor: "PointerExtractor",
    abstractor: "Abstractor",
    args: RewriteOptions,
    device: Any,
) -> List[List[Tuple[int, ...]]]:
    """Return the summary of each document: one tuple of token ids, with the end symbol, per sentence."""
    from fairseq.data import data_utils

    tokens = data_utils.collate_tokens(documents, abstractor.dictionary.pad(), abstractor.dictionary.eos()).to(device)
    most = (args.sentences or SENTENCES) if extractor.stop is None else None
    taken = extractor.get_selected_sentences(tokens, extractor.extract(tokens, most))
    for row, sentences in enumerate(taken):
        if not sentences:
            taken[row] = [words for words in extractor.split_document(tokens[row]) if len(words)][:SENTENCES]
    found = iter(abstractor.rewrite([sentence for sentences in taken for sentence in sentences]))
    summaries = []
    for sentences in taken:
        beams = [
            [
                RewriteCandidate(abstractor.get_word_ids(hypothesis), float(hypothesis["positional_scores"].sum()))
                for hypothesis in next(found)
            ]
            for _ in sentences
        ]
        places = choose_least_repetitive_candidates(beams, args.rerank_length) if args.rerank else [0] * len(beams)
        summaries.append([beam[place].words for beam, place in zip(beams, places)])
    return summaries


@options_command(
    "etads-rewrite",
    RewriteOptions,
    ValueError,
    RuntimeError,
    description="Summarise prepared documents with two models. An extractor (--arch pointer_extractor) selects "
    "sentences one by one, and an abstractor, such as --arch sentence_rewriter, rewrites each selected sentence.",
    epilog="""\
examples:
  etads-rewrite runs/mine/prepared summaries.txt --extractor runs/rl --abstractor runs/abstractor --rerank
  etads-rewrite runs/mine/prepared greedy.txt --extractor runs/rl --abstractor runs/abstractor --beam 1
  etads-rouge summaries.txt runs/mine/text/test.target

  --extractor and --abstractor accept fairseq-train checkpoints, or folders that contain checkpoints/checkpoint_best.pt.
  After an interruption, run the same command again to continue. etads docs rewrite tells how to train both models.""",
)
def main(args: RewriteOptions) -> None:
    """Run the command ``etads-rewrite``."""
    folder = get_binarised_folder(args.data)
    args.extractor = find_checkpoint(args.extractor, option="--extractor")
    args.abstractor = find_checkpoint(args.abstractor, option="--abstractor")
    read = {"DATA": list_data_files(folder), "--extractor": args.extractor, "--abstractor": args.abstractor}
    check_output_paths({"OUTPUT": ResumableWriter.list_files(args.output)}, read)
    args.output.parent.mkdir(parents=True, exist_ok=True)
    print(f"{args.output}: {write_rewritten_summaries(folder, args)}")
