"""The command ``etads-select`` (train): compute selection probabilities of words or sentences."""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from ..data import labels as selection
from ..data.labels import NOTHING, compute_source_hash, make_label_file_name, write_label_rows
from ..data.preparation import PreparedPairs, WordText
from ..files.outputs import check_output_paths, write_json
from ..platform.command_options import SIZE, option, options_command
from ..platform.errors import InputError
from ..text.subsequences import compute_f1
from .shared_options import RunOptions, find_checkpoint_and_data, list_data_files


@dataclass
class SelectOptions(RunOptions):
    """Options of ``etads-select``."""

    subset: List[str] = option(
        ["valid", "test"], "splits for which to compute probabilities (default: valid test)", metavar="NAME", nargs="+"
    )
    out: Optional[Path] = option(None, "output folder for the probabilities (default: RUN)", metavar="DIR")
    truncate_source: Optional[int] = option(
        None, "read only the first N tokens, and select no others (default: as in training)", bounds=SIZE
    )
    labels: Optional[Path] = option(None, "folder containing the labels (default: the data folder)", metavar="DIR")
    threshold: float = option(
        0.15, "probability above which a word or sentence counts as selected in the reported F1", metavar="P"
    )
    report: Optional[Path] = option(None, "also write the evaluation results to FILE as JSON")


def write_probabilities(checkpoint: Path, data: Optional[Path], args: SelectOptions) -> None:
    """Write the probabilities for the splits in ``args``, and report their quality.

    ``data`` is the folder with the binarised data, or None to use the data with which the model was trained.
    """
    from ..models.selector import Selector  # imported here, because it imports torch
    from ..summarizer.folder.loading import load_checkpoint
    from ..summarizer.prepared_split import predict
    from ..summarizer.summarizer import choose_device

    model, cfg, task = load_checkpoint(checkpoint, data, "RUN", args.truncate_source)
    model = model if isinstance(model, Selector) else getattr(model, "extractor", None)
    if model is None:
        raise InputError(
            f"{checkpoint} does not select words or sentences (--arch word_tagger, sentence_extractor, or a model with "
            "--sentence-attention extractor); use etads-rewrite for an extractor that chooses the order of sentences"
        )
    folder = args.labels or Path(cfg.task.data.split(":")[0])
    device = choose_device(args.device)
    report: Dict[str, Any] = {}
    labels = {split: folder / make_label_file_name("labels", model.unit, split) for split in args.subset}
    if args.report and not any(path.is_file() for path in labels.values()):
        raise InputError(f"--report {args.report}: there are no labels for comparison; create them with etads-labels")

    def compute_probabilities(options: Dict[str, bool], sample: Dict[str, Any]) -> List[Sequence[float]]:
        """Return the probabilities of the words that the model reads, or of all sentences up to the last."""
        output = model(sample["net_input"]["src_tokens"], **options)
        rows = zip(output.compute_probabilities().cpu(), output.real.cpu())
        # Tokens may be padded on either side. Sentences without words are kept, so that indices do not change.
        return [(row[real] if model.unit == "words" else row).numpy() for row, real in rows]

    for split in args.subset:
        pairs = PreparedPairs(task, split)
        held_out = split == task.cfg.train_subset and getattr(model, "other", None) is not None
        work = functools.partial(compute_probabilities, {"held_out": True} if held_out else {})
        path = (args.out or checkpoint.parent.parent) / make_label_file_name("probabilities", model.unit, split)
        limit = task.truncate_source
        found = predict(model, pairs.dataset, work, args.max_tokens, device, f"selecting {split}")
        rows = zip(found, map(pairs.read_document, range(len(pairs))))
        lines = ((compute_source_hash(d), _format_row(row, d, model.unit, pairs.subwords, limit)) for row, d in rows)
        write_label_rows(path, {"made_by": "etads-select", "documents": len(pairs), "truncate_source": limit}, lines)
        line = f"{path}: {model.unit} of {len(pairs):,} documents"
        if held_out:
            line += ", each scored by the model trained on the other half"
        if labels[split].is_file() or args.labels:
            report[split] = _evaluate_probabilities(path, labels[split], model.unit, task, split, args.threshold)
            line += (
                "; AUC {auc:.4f}, F1 {f1:.4f} above {threshold:g} (best: {best_f1:.4f} above {best_threshold:.3g}), "
                "labelled {positive:.1%}"
            ).format(**report[split])
        print(line)
    if args.report:
        write_json(args.report, report)


def _format_row(row: Sequence[float], tokens: List[str], unit: str, subwords: str, limit: int) -> List[str]:
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
    path: Path, labels: Path, unit: str, task: Any, split: str, threshold: float
) -> Dict[str, float]:
    """Measure how well the probabilities in ``path`` predict the labels of all tokens or sentences in the split."""
    from ..data.pairs import TokenValues

    source = task.dataset(split).src
    documents = source.dataset, source.full_sizes, task.src_dict, task.truncate_source
    predicted, right = (TokenValues(file, unit, *documents, option="--labels") for file in (path, labels))
    counts, true, chosen, positive = selection.make_empty_histogram(), 0, 0, 0
    for number in range(len(predicted)):
        if unit == "words":
            pairs = zip(predicted[number].tolist(), right[number].tolist())  # -1: no value
            found = [(probability, int(label)) for probability, label in pairs if label >= 0 and probability >= 0]
        else:
            right_places = {int(field) for field in right.file.read_row(number) if field != NOTHING}
            fields = enumerate(predicted.file.read_row(number))
            found = [(float(field), int(place in right_places)) for place, field in fields if field != NOTHING]
        for probability, label in found:
            counts[int(label)][selection.find_histogram_bin(probability)] += 1
            chosen += probability > threshold
            positive += label
            true += probability > threshold and label
    best, where = selection.find_best_f1_threshold(counts)
    total = sum(map(sum, counts))
    return {
        "auc": selection.compute_roc_auc(counts),
        "f1": compute_f1(true, chosen, positive),
        "threshold": threshold,
        "best_f1": best,
        "best_threshold": where,
        "positive": positive / max(total, 1),
    }


@options_command(
    "etads-select",
    SelectOptions,
    ValueError,
    RuntimeError,
    description="Compute the selection probability of each word or sentence in prepared documents with a trained "
    "content selector (--arch word_tagger or sentence_extractor). The probabilities are written to "
    "probabilities.words.SPLIT or probabilities.sentences.SPLIT.",
    epilog="""\
examples:
  etads-select runs/tagger          # score valid and test with checkpoint_best.pt; write to runs/tagger
  etads-select runs/tagger --subset train --report report.json

  fairseq-generate and etads-extract read these files with --selection. If labels of the same split exist
  (etads-labels), the command reports how well the selector predicts them (see etads docs selection).""",
)
def main(args: SelectOptions) -> None:
    """Run the command ``etads-select``."""
    checkpoint, data = find_checkpoint_and_data(args)
    read = {"RUN": checkpoint.parent.glob("*.pt"), "DATA": [] if data is None else list_data_files(data)}
    folders = [folder for folder in (args.labels or data, args.out or args.run) if folder is not None]
    written = [path for folder in folders for path in (*folder.glob("labels.*"), *folder.glob("probabilities.*"))]
    check_output_paths({"--report": args.report}, {**read, "--labels or --out": written})
    write_probabilities(checkpoint, data, args)
