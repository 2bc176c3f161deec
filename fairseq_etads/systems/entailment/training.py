"""Train and evaluate entailment models, for the command ``etads-nli``.

After each epoch, the weights, the optimiser state and the progress are stored in ``training.safetensors``. An
interrupted run can be continued from this file and produces the same weights as an uninterrupted run.
"""

import math
import random
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import torch
import torch.nn.functional as F
from fairseq.data import Dictionary, data_utils
from torch import Tensor
from tqdm import tqdm

from ...data.initial_values import load_word_vectors
from ...data.nli_pairs import LABELS, SKIPPED, find_tokenisation_problem, read_pairs
from ...data.weights_file import WeightsFile
from ...files.checksums import compute_sha256
from ...files.inputs import read_lines
from ...files.outputs import write_text
from ...platform.errors import InputError
from ...text.tokenizer import TextTokenizer
from ...version import get_version
from ...vocabulary.dictionary import compute_fingerprint
from .model import (
    CONFIG,
    WEIGHTS,
    DecomposableAttention,
    EntailmentScorer,
    NliConfig,
    convert_words_to_ids,
    read_config,
    write_config,
    write_model,
)

STATE = "training.safetensors"
LARGEST_NORM = 5.0
"""Maximum norm of the gradient. Gradients with a larger norm are scaled down."""
SORTED_TOGETHER = 50
"""Number of batches in each group of pairs that is sorted by length, so that batches contain little padding."""


@dataclass(frozen=True)
class EntailmentSettings:
    """Settings that affect the trained model. The options of ``etads-nli train`` declare their defaults."""

    train: Sequence[Path]
    valid: Sequence[Path]
    vectors: Optional[str]
    more_words: Sequence[Path]
    size: int
    embed_dim: int
    width: int
    dropout: float
    lr: float
    batch_size: int
    seed: int
    words: str
    keep_case: bool
    hide_digits: bool

    @property
    def config(self) -> NliConfig:
        """Return the configuration to store in the model folder."""
        return NliConfig(self.embed_dim, self.width, self.words, self.keep_case, self.hide_digits)

    def to_dict(self) -> Dict[str, Any]:
        texts = {name: [str(path) for path in getattr(self, name)] for name in ("train", "valid", "more_words")}
        return {**asdict(self), **texts}


@dataclass
class TokenisedPairs:
    """Tokenised pairs: the words of each premise and hypothesis, and the index of each label in ``LABELS``."""

    premises: List[List[str]] = field(default_factory=list)
    hypotheses: List[List[str]] = field(default_factory=list)
    labels: List[int] = field(default_factory=list)

    @classmethod
    def read(cls, paths: Sequence[Path], tokenizer: TextTokenizer, counts: Counter) -> "TokenisedPairs":
        """Read all pairs in the files with :func:`read_pairs`. Raises InputError if there are none."""
        pairs = cls()
        for path in paths:
            for pair in tqdm(read_pairs(path, counts), desc=f"reading {path.name}", unit=" pairs", disable=None):
                pairs.premises.append(_split_words(pair.premise, tokenizer))
                pairs.hypotheses.append(_split_words(pair.hypothesis, tokenizer))
                pairs.labels.append(LABELS.index(pair.label))
        if not pairs.labels:
            raise InputError(f"{', '.join(map(str, paths))}: no pair with a label")
        return pairs


def _split_words(text: str, tokenizer: TextTokenizer) -> List[str]:
    # The strings are interned, so that each distinct word is stored in memory only once.
    return [sys.intern(word) for word in tokenizer.encode(text).split()]


def make_dictionary(pairs: TokenisedPairs, settings: EntailmentSettings, tokenizer: TextTokenizer) -> Dictionary:
    """Create a dictionary of the most frequent words in the pairs and of all words in the ``--more-words`` files."""
    dictionary = Dictionary()
    for texts in (pairs.premises, pairs.hypotheses):
        for words in texts:
            for word in words:
                dictionary.add_symbol(word)
    dictionary.finalize(nwords=settings.size + dictionary.nspecial, padding_factor=1)
    for path in settings.more_words:
        for line in read_lines(path):
            for word in _split_words(line, tokenizer):
                dictionary.add_symbol(word)
    return dictionary


class Progress(NamedTuple):
    """The last epoch, the best epoch, and how many validation pairs were classified correctly in the best epoch."""

    epoch: int = 0
    best_epoch: int = 0
    best_right: int = -1


class Trainer:
    """Trains a model with Adam. Word embeddings that do not require a gradient remain unchanged."""

    def __init__(
        self, model: DecomposableAttention, dictionary: Dictionary, pairs: TokenisedPairs, settings: EntailmentSettings
    ):
        self.model, self.dictionary, self.settings = model, dictionary, settings
        self.premises, self.hypotheses = (
            [convert_words_to_ids(words, dictionary, settings.keep_case) for words in texts]
            for texts in (pairs.premises, pairs.hypotheses)
        )
        self.labels = torch.tensor(pairs.labels)
        self.trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        self.optimizer = torch.optim.Adam(self.trained.values(), lr=settings.lr)

    def train_epoch(self, number: int) -> float:
        """Train on all pairs once, in an order and with dropout masks of the seed and epoch, and return the mean loss.

        Raises:
            InputError: the training loss is not finite.
        """
        torch.manual_seed(self.settings.seed * 10_007 + number)
        device, total = self.model.classify.weight.device, 0.0
        self.model.train()
        batches = self._draw_batches(random.Random(f"{self.settings.seed} {number}"))
        for numbers in tqdm(batches, desc=f"epoch {number}", unit=" batches", disable=None, leave=False):
            texts = ([side[n] for n in numbers] for side in (self.premises, self.hypotheses))
            batch = [data_utils.collate_tokens(side, self.dictionary.pad()).to(device) for side in texts]
            loss = F.cross_entropy(self.model(*batch), self.labels[numbers].to(device))
            self.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(list(self.trained.values()), LARGEST_NORM)
            self.optimizer.step()
            total += loss.item() * len(numbers)
        if not math.isfinite(total):
            raise InputError(f"--lr {self.settings.lr}: the loss of epoch {number} is not finite; choose a lower one")
        return total / len(self.labels)

    def _draw_batches(self, generator: random.Random) -> List[List[int]]:
        numbers = list(range(len(self.labels)))
        generator.shuffle(numbers)
        size = self.settings.batch_size
        batches: List[List[int]] = []
        for start in range(0, len(numbers), SORTED_TOGETHER * size):
            group = numbers[start : start + SORTED_TOGETHER * size]
            group.sort(key=lambda n: (len(self.premises[n]), len(self.hypotheses[n])))
            batches += [group[first : first + size] for first in range(0, len(group), size)]
        generator.shuffle(batches)
        return batches

    def make_training_state(self, progress: Progress) -> Dict[str, Tensor]:
        """Return the training state from which a later run can continue."""
        found = {f"model.{name}": weight for name, weight in self.model.state_dict().items()}
        for name, parameter in self.trained.items():
            for key, value in self.optimizer.state[parameter].items():
                found[f"adam.{name}.{key}"] = value
        return {**found, "progress": torch.tensor(progress)}

    def load(self, path: Path) -> Progress:
        """Load a file of :meth:`make_training_state`. Raises InputError if the state belongs to a different model."""
        expected = {f"model.{name}": weight for name, weight in self.model.state_dict().items()}
        for name, parameter in self.trained.items():
            moments = {"exp_avg": parameter, "exp_avg_sq": parameter, "step": torch.zeros(())}
            expected.update({f"adam.{name}.{key}": value for key, value in moments.items()})
        expected["progress"] = torch.tensor(Progress())
        stored = WeightsFile(path, {}, f"Delete it, or choose a folder other than {path.parent}").read_weights(expected)
        self.model.load_state_dict({n[len("model.") :]: w for n, w in stored.items() if n.startswith("model.")})
        for name, parameter in self.trained.items():
            values = {key: stored[f"adam.{name}.{key}"] for key in ("exp_avg", "exp_avg_sq")}
            state: Dict[str, Tensor] = {key: value.to(parameter.device) for key, value in values.items()}
            self.optimizer.state[parameter] = {"step": stored[f"adam.{name}.step"], **state}
        return Progress(*stored["progress"].tolist())


def train_entailment_model(
    out: Path, settings: EntailmentSettings, epochs: int, patience: int, device: torch.device
) -> str:
    """Train a model or continue an interrupted run, and return a message about the result.

    The folder ``out`` receives the model with the highest validation accuracy, and the training state. Training stops
    after ``patience`` epochs without a higher validation accuracy.

    Raises:
        InputError: a file cannot be read, or the folder contains a run with other options or pairs.
    """
    _check_same_settings(out, settings)
    counts: Counter = Counter()
    tokenizer = settings.config.make_tokenizer()
    pairs, valid = (TokenisedPairs.read(paths, tokenizer, counts) for paths in (settings.train, settings.valid))
    warning = find_tokenisation_problem(chain.from_iterable(pairs.premises), "--words")
    if warning:
        print(f"WARNING: {warning}", file=sys.stderr)
    dictionary = make_dictionary(pairs, settings, tokenizer)
    torch.manual_seed(settings.seed)
    model = settings.config.make_model(dictionary, settings.dropout)
    if settings.vectors is not None:
        load_word_vectors(settings.vectors, dictionary, model.table, "--vectors")
        model.table.requires_grad_(False)
    trainer = Trainer(model.to(device), dictionary, pairs, settings)
    about = {"options": settings.to_dict(), "pairs": len(pairs.labels), "fairseq_etads": get_version()}
    about["files"] = _compute_file_checksums(settings)
    # Continue only if all three files exist. Otherwise, the best model might be lost.
    is_resumed = all((out / name).is_file() for name in (CONFIG, WEIGHTS, STATE))
    if is_resumed and read_config(out)["dictionary"] != compute_fingerprint(dictionary):
        raise InputError(f"MODEL {out}: it was trained with another vocabulary; choose another folder")
    progress = trainer.load(out / STATE) if is_resumed else Progress()
    known = len(dictionary) - dictionary.nspecial
    print(f"{len(pairs.labels):,} training pairs, {counts[SKIPPED]:,} {SKIPPED}; {known:,} known words")
    total = len(valid.labels)
    while progress.epoch < epochs and progress.epoch - progress.best_epoch < patience:
        number = progress.epoch + 1
        loss = trainer.train_epoch(number)
        right = _count_correct_predictions(EntailmentScorer(trainer.model, dictionary, settings.config), valid)
        print(f"epoch {number}: loss {loss:.4f}, accuracy {right / total:.4f} of {total:,} pairs", flush=True)
        if right > progress.best_right:
            progress = Progress(number, number, right)
            write_config(out, settings.config, dictionary, {**about, "epoch": number, "accuracy": right / total})
            write_model(out, trainer.model.state_dict())
        progress = progress._replace(epoch=number)
        write_model(out, trainer.make_training_state(progress), STATE)
    accuracy = f"accuracy {progress.best_right / total:.4f} of {total:,} pairs"
    return f"{out}: {accuracy}, epoch {progress.best_epoch} of {progress.epoch}"


def _check_same_settings(out: Path, settings: EntailmentSettings) -> None:
    """Raise InputError if the folder contains a run that used other options or files with other contents."""
    if not (out / CONFIG).is_file():
        return
    before = {"hide_digits": False, **read_config(out)["training"].get("options", {})}
    for name, value in settings.to_dict().items():
        if before.get(name) != value:
            raise InputError(
                f"MODEL {out}: it was trained with a different --{name.replace('_', '-')} ({before.get(name)}, now "
                f"{value}); choose another folder"
            )

    digests = read_config(out)["training"].get("files")
    if digests is None:
        return  # earlier versions did not record these hashes
    now, pairs = _compute_file_checksums(settings), len(settings.train) + len(settings.valid)
    if digests[:pairs] != now[:pairs]:
        raise InputError(f"MODEL {out}: it was trained on other pairs; choose another folder")
    # Earlier versions recorded only the hashes of the files with pairs.
    if len(digests) > pairs and digests != now:
        raise InputError(
            f"MODEL {out}: --vectors {settings.vectors} had other contents when it was trained; choose another folder"
        )


def _compute_file_checksums(settings: EntailmentSettings) -> List[str]:
    """Compute the SHA-256 hashes of the files with pairs, in the order of the options, and of the word vectors."""
    vectors = [] if settings.vectors is None else [Path(settings.vectors)]
    return [compute_sha256(path) for path in (*settings.train, *settings.valid, *vectors)]


def _count_correct_predictions(scorer: EntailmentScorer, pairs: TokenisedPairs) -> int:
    found = scorer.predict_probabilities(pairs.premises, pairs.hypotheses).argmax(dim=1)
    return int((found == torch.tensor(pairs.labels)).sum())


def load_entailment_predictor(
    folder: str, device: torch.device
) -> Callable[[Sequence[str], Sequence[str]], List[float]]:
    """Return a function that tokenises texts and predicts P(entailment) for each pair of a premise and a hypothesis."""
    scorer = EntailmentScorer.load(folder).to(device)
    tokenizer = scorer.config.make_tokenizer()

    def predict(premises: Sequence[str], hypotheses: Sequence[str]) -> List[float]:
        first, second = ([_split_words(text, tokenizer) for text in texts] for texts in (premises, hypotheses))
        found: List[float] = scorer.score(first, second).tolist()
        return found

    return predict


def evaluate_entailment_model(folder: Path, paths: Sequence[Path], out: Optional[Path], device: torch.device) -> str:
    """Evaluate a model on the pairs in the given files, and write P(entailment) of each pair to a line of ``out``."""
    scorer = EntailmentScorer.load(folder).to(device)
    counts: Counter = Counter()
    pairs = TokenisedPairs.read(paths, scorer.config.make_tokenizer(), counts)
    found = scorer.predict_probabilities(pairs.premises, pairs.hypotheses)
    labels = torch.tensor(pairs.labels)
    if out is not None:
        write_text(out, "".join(f"{value:.6f}\n" for value in found[:, 0].tolist()))
    right = (found.argmax(dim=1) == labels).float().mean().item()
    entailed = ((found[:, 0] > 0.5) == (labels == 0)).float().mean().item()
    return (
        f"{len(labels):,} pairs ({counts[SKIPPED]:,} {SKIPPED}): accuracy {right:.4f}; {entailed:.4f} for the binary "
        "decision between entailment and the rest"
    )
