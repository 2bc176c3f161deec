"""Summarise documents by selecting and rewriting sentences. The command ``etads-rewrite`` uses this module."""

import argparse
import json
import os
from pathlib import Path
from typing import Any, Dict, List, Tuple

from fairseq import checkpoint_utils
from fairseq.data import data_utils
from torch import Tensor
from tqdm import tqdm

from ..data.labels.word_text import WordText
from ..data.prepared_pairs import PreparedPairs
from ..evaluation.reranking import RewriteCandidate, choose_least_repetitive_candidates
from ..platform.errors import InputError
from ..platform.outputs import lock_output
from ..systems.rewriting.abstractor import Abstractor
from ..systems.rewriting.model import PointerExtractor
from ..text.words import SENTENCE_MARK
from .labels import check_documents_have_sentence_marks
from .runs import choose_device, make_detokenizer

SENTENCES = 5
"""Number of sentences to select if the extractor cannot decide when to stop, or if it selects no sentences."""


def write_rewritten_summaries(folder: Path, args: argparse.Namespace) -> str:
    """Write summaries of the documents in a split, and return a message about them.

    Args:
        folder: path of the folder with the binarised data.
        args: parsed command-line arguments, which include the paths of the checkpoints.

    Raises:
        InputError: a checkpoint contains another kind of model or belongs to other data, or the documents contain no
            sentence marks.
        FileNotFoundError: the data does not contain the split.
        InputError: another process is writing to the output file.
    """
    args.output.parent.mkdir(parents=True, exist_ok=True)
    with lock_output(args.output, "OUTPUT"):
        return _rewrite_documents(folder, args)


def _rewrite_documents(folder: Path, args: argparse.Namespace) -> str:
    device = choose_device(args.device)
    extractor, task = load_extractor(args, folder)
    extractor.to(device)
    abstractor = Abstractor(
        str(args.abstractor), str(folder), "--abstractor", device, args.beam, args.diversity, args.max_len
    )
    task.load_dataset(args.subset)
    documents = task.dataset(args.subset).src
    check_documents_have_sentence_marks(PreparedPairs(task.dataset(args.subset)), "DATA")
    subwords = task.subwords
    tokenizer = make_detokenizer(task.tgt_dict, subwords, folder)
    output = _SummaryFile(args.output, _collect_summary_provenance(args, folder))
    with tqdm(
        total=len(documents), initial=output.done, desc=f"rewriting {args.subset}", unit=" documents", disable=None
    ) as bar:
        for start in range(output.done, len(documents), args.batch_size):
            batch = [documents[number] for number in range(start, min(start + args.batch_size, len(documents)))]
            for sentences in summarise_by_rewriting(batch, extractor, abstractor, args, device):
                texts = [
                    WordText.from_tokens([task.tgt_dict[token] for token in words], subwords).words
                    for words in sentences
                ]
                output.append(tokenizer.decode(f" {SENTENCE_MARK} ".join(" ".join(words) for words in texts)))
            output.flush()
            bar.update(len(batch))
    return output.move_to_final_path()


def load_extractor(args: argparse.Namespace, folder: Path) -> Tuple[PointerExtractor, Any]:
    """Load the extractor in evaluation mode, and return it together with the task, which loads the data."""
    overrides: Dict[str, Any] = {"data": str(folder), "init_from": None}
    if args.truncate_source:
        overrides["truncate_source"] = args.truncate_source
    try:
        models, _, task = checkpoint_utils.load_model_ensemble_and_task([str(args.extractor)], overrides)
    except ValueError as error:
        raise InputError(f"--extractor {args.extractor}: {error}") from None
    extractor = models[0]
    if not isinstance(extractor, PointerExtractor):
        raise InputError(f"--extractor {args.extractor}: not a model of --arch pointer_extractor")
    if args.sentences and extractor.stop is not None:
        raise InputError(
            f"--sentences {args.sentences}: has no effect on this extractor, which decides itself when to stop"
        )
    task.labels.request_labels(None)
    return extractor.eval(), task


def summarise_by_rewriting(
    documents: List[Tensor], extractor: PointerExtractor, abstractor: Abstractor, args: argparse.Namespace, device: Any
) -> List[List[Tuple[int, ...]]]:
    """Return the summary of each document as a list of sentences. A sentence is a tuple of vocabulary ids.

    ``documents`` contains token ids of shape (S,), including the end symbol.
    """
    tokens = data_utils.collate_tokens(documents, abstractor.dictionary.pad(), abstractor.dictionary.eos()).to(device)
    most = (args.sentences or SENTENCES) if extractor.stop is None else None
    taken = extractor.get_selected_sentences(tokens, extractor.extract(tokens, most))
    for row, sentences in enumerate(taken):
        if not sentences:
            taken[row] = [words for words in extractor.split_document(tokens[row]) if len(words)][:SENTENCES]
    found = iter(abstractor.rewrite([sentence for sentences in taken for sentence in sentences]))
    summaries = []
    for sentences in taken:
        beams = [[_make_candidate(abstractor, hypothesis) for hypothesis in next(found)] for _ in sentences]
        places = choose_least_repetitive_candidates(beams, args.rerank_length) if args.rerank else [0] * len(beams)
        summaries.append([beam[place].words for beam, place in zip(beams, places)])
    return summaries


def _make_candidate(abstractor: Abstractor, hypothesis: Dict[str, Tensor]) -> RewriteCandidate:
    return RewriteCandidate(abstractor.get_word_ids(hypothesis), float(hypothesis["positional_scores"].sum()))


def _collect_summary_provenance(args: argparse.Namespace, folder: Path) -> Dict[str, Any]:
    """Return everything that affects the summaries.

    This includes the options, and the sizes and modification times of the checkpoints and of the binarised files.
    """
    made_by: Dict[str, Any] = {name: str(value) for name, value in vars(args).items() if name != "batch_size"}
    files = [args.extractor, args.abstractor, *sorted(folder.glob(f"{args.subset}.*"))]
    stats = {str(path): path.stat() for path in files}
    made_by["files"] = {name: [stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()}
    return made_by


class _SummaryFile:
    """Summary file that receives its final name when it is complete.

    If writing is interrupted, a later call can complete the file.

    Args:
        path: path of the summary file.
        made_by: settings that affect the summaries. A partial file that was created with other settings is deleted.

    Attributes:
        done: number of summaries that the file already contains.
    """

    def __init__(self, path: Path, made_by: Dict[str, Any]):
        self.path = path
        self.partial, self.record = (path.with_name(f"{path.name}.partial{end}") for end in ("", ".json"))
        text = json.dumps(made_by)
        found = b""
        if self.record.is_file() and self.partial.is_file() and self.record.read_text(encoding="utf-8") == text:
            found = self.partial.read_bytes()
            # The last line of the file may be incomplete.
            found = found[: found.rfind(b"\n") + 1]
        self.lines: List[str] = found.decode("utf-8").split("\n")[:-1]
        self.done = len(self.lines)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.partial.write_bytes(found)
        self.record.write_text(text, encoding="utf-8")

    def append(self, line: str) -> None:
        """Append a summary to the file."""
        self.lines.append(line)

    def flush(self) -> None:
        """Save the summaries that have been appended since the last call."""
        with open(self.partial, "a", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line}\n" for line in self.lines[self.done :])
        self.done = len(self.lines)

    def move_to_final_path(self) -> str:
        """Rename the complete file to its final name, and return a message about the summaries."""
        os.replace(self.partial, self.path)
        self.record.unlink()
        count = max(len(self.lines), 1)
        texts = [[part for part in line.split(SENTENCE_MARK) if part.strip()] for line in self.lines]
        words = sum(len(part.split()) for parts in texts for part in parts)
        return f"{len(texts):,} summaries of {sum(map(len, texts)) / count:.1f} sentences and {words / count:.1f} words"
