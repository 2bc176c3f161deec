"""Compute a content selector's probabilities for the documents in a split. Used by ``etads-select``."""

import argparse
import json
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from fairseq import checkpoint_utils, utils
from fairseq.logging import progress_bar

from ..data.labels.label_files import NOTHING, compute_source_hash, make_label_file_name, write_label_rows
from ..data.labels.selector_scores import (
    compute_f1,
    compute_roc_auc,
    find_best_f1_threshold,
    find_histogram_bin,
    make_empty_histogram,
)
from ..data.labels.word_text import WordText
from ..data.prepared_pairs import PreparedPairs
from ..data.selection import TokenValues
from ..models.selector import Selector
from ..platform.errors import InputError
from ..platform.outputs import write_text
from ..summarizer.summarizer import choose_device
from ..training.task import SummarizationTask


def write_probabilities(checkpoint: Path, data: Optional[Path], args: argparse.Namespace) -> None:
    """Write the probabilities for the splits in ``args``, and report their quality.

    Args:
        checkpoint: path of a checkpoint that was saved by fairseq-train.
        data: path of the folder with the binarised data, or None to use the data with which the model was trained.

    Raises:
        InputError: the checkpoint does not contain a content selector, or the data or the labels cannot be read.
    """
    overrides: Dict[str, Any] = {"init_from": None, **({} if data is None else {"data": str(data)})}
    if args.truncate_source:
        overrides["truncate_source"] = args.truncate_source
    models, cfg, task = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], overrides)
    model = models[0] if isinstance(models[0], Selector) else getattr(models[0], "extractor", None)
    if not isinstance(task, SummarizationTask) or model is None:
        raise InputError(
            f"{checkpoint} does not select words or sentences (--arch word_tagger, sentence_extractor, or a model with "
            "--sentence-attention extractor); use etads-rewrite for an extractor that chooses the order of sentences"
        )
    folder = Path(cfg.task.data.split(":")[0])
    device = choose_device(args.device)
    report: Dict[str, Any] = {}
    model = model.to(device).eval()
    for split in args.subset:
        task.load_dataset(split)
        held_out = split == task.cfg.train_subset and getattr(model, "other", None) is not None
        rows = _predict_probabilities(model, task, split, args.max_tokens, device, held_out)
        path = (args.out or checkpoint.parent.parent) / make_label_file_name("probabilities", model.unit, split)
        limit = task.truncate_source
        header = {"made_by": "etads-select", "documents": len(rows), "truncate_source": limit}
        pairs = PreparedPairs(task, split)
        subwords = pairs.subwords
        documents = map(pairs.read_document, range(len(pairs)))
        lines = (
            (compute_source_hash(d), _format_probability_line(row, d, model.unit, subwords, limit))
            for row, d in zip(rows, documents)
        )
        write_label_rows(path, header, lines)
        line = f"{path}: {model.unit} of {len(rows):,} documents"
        if held_out:
            line += ", each scored by the model trained on the other half"
        labels = (args.labels or folder) / make_label_file_name("labels", model.unit, split)
        if labels.is_file() or args.labels:
            report[split] = _evaluate_probabilities(path, labels, model.unit, task, split, args.threshold)
            line += f"; {format_split_scores(report[split])}"
        print(line)
    if args.report:
        if not report:
            raise InputError(
                f"--report {args.report}: there are no labels for comparison; create them with etads-labels"
            )
        write_text(args.report, json.dumps(report, indent=2) + "\n")


def format_split_scores(scores: Dict[str, float]) -> str:
    """Format the evaluation scores of a split."""
    return (
        f"AUC {scores['auc']:.4f}, F1 {scores['f1']:.4f} above {scores['threshold']:g} "
        f"(best: {scores['best_f1']:.4f} above {scores['best_threshold']:.3g}), labelled {scores['positive']:.1%}"
    )


@torch.no_grad()
def _predict_probabilities(
    model: Selector, task: SummarizationTask, split: str, max_tokens: int, device: torch.device, held_out: bool = False
) -> List[Sequence[float]]:
    """Compute the probabilities of all words or sentences in each document, and return one sequence per document.

    For words, there is one probability for each token that the model reads.

    Args:
        held_out: whether to score each training document with the model that was not trained on it; see
            :meth:`~fairseq_etads.models.selector.SentenceExtractor.forward`.
    """
    dataset = task.dataset(split)
    longest = max(map(dataset.num_tokens, range(len(dataset))), default=0)
    batches = task.get_batch_iterator(
        dataset, max_tokens=max(max_tokens, longest), max_positions=None, ignore_invalid_inputs=False
    ).next_epoch_itr(shuffle=False)
    found: List[Any] = [()] * len(dataset)
    for sample in progress_bar.progress_bar(batches, log_format="tqdm", prefix=f"selecting {split}"):
        if device.type == "cuda":
            sample = utils.move_to_cuda(sample, device)
        tokens = sample["net_input"]["src_tokens"]
        logits, real = model(tokens, **({"held_out": True} if held_out else {}))
        rows = torch.sigmoid(logits.float()).masked_fill(~real, 0).cpu()
        for number, row, there in zip(sample["id"].tolist(), rows, real.cpu()):
            # Tokens may be padded on either side. Sentences without words are kept, so that indices do not change.
            found[number] = (row[there] if model.unit == "words" else row).numpy()
    return found


def _format_probability_line(
    row: Sequence[float], tokens: List[str], unit: str, subwords: str, limit: int
) -> List[str]:
    """Return the fields of a document's line in the file. The probability of a word is the mean over its subwords."""
    text = WordText.from_tokens(tokens, subwords, limit)
    if unit == "sentences":
        sentences = text.split_sentences()
        padded = [*row, *[0.0] * (len(sentences) - len(row))]
        return [f"{value:.4g}" if words else NOTHING for value, words in zip(padded, sentences)]
    sums, counts = [0.0] * len(text.words), [0] * len(text.words)
    for value, number in zip(row, text.word_numbers):
        sums[number] += float(value)
        counts[number] += 1
    values = text.expand_word_values_to_tokens([total / max(count, 1) for total, count in zip(sums, counts)])
    return [NOTHING if value is None else f"{value:.4g}" for value in values]


def _evaluate_probabilities(
    path: Path, labels: Path, unit: str, task: SummarizationTask, split: str, threshold: float
) -> Dict[str, float]:
    """Measure how well the probabilities in ``path`` predict the labels of all tokens or sentences in the split."""
    source = task.dataset(split).src
    documents = source.dataset, source.full_sizes, task.src_dict, task.truncate_source
    predicted, right = (TokenValues(file, unit, *documents, option="--labels") for file in (path, labels))
    counts, true, chosen, positive = make_empty_histogram(), 0, 0, 0
    for number in range(len(predicted)):
        for probability, label in _pair_probabilities_with_labels(predicted, right, number):
            counts[int(label)][find_histogram_bin(probability)] += 1
            chosen += probability > threshold
            positive += label
            true += probability > threshold and label
    best, where = find_best_f1_threshold(counts)
    total = sum(map(sum, counts))
    return {
        "auc": compute_roc_auc(counts),
        "f1": compute_f1(true, chosen, positive),
        "threshold": threshold,
        "best_f1": best,
        "best_threshold": where,
        "positive": positive / max(total, 1),
    }


def _pair_probabilities_with_labels(
    predicted: TokenValues, labels: TokenValues, number: int
) -> List[Tuple[float, int]]:
    """Return the probability and the label of each word or sentence in a document."""
    if predicted.unit == "words":
        pairs = zip(predicted[number].tolist(), labels[number].tolist())
        return [(probability, int(label)) for probability, label in pairs if label >= 0 and probability >= 0]
    chosen = {int(field) for field in labels.file.read_row(number)[1] if field != NOTHING}
    fields = predicted.file.read_row(number)[1]
    return [(float(field), int(i in chosen)) for i, field in enumerate(fields) if field != NOTHING]
