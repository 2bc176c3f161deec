"""Models that predict whether a premise entails a hypothesis, and their training: the work of ``etads-nli``.

The folder of a model contains ``config.json``, ``dict.txt`` and ``model.safetensors``, but no executable code. After
each epoch of training, the weights, the optimiser state and the progress are stored in ``training.safetensors``. An
interrupted run can be continued from this file and produces the same weights as an uninterrupted run.
"""

import json
import math
import random
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field, fields
from itertools import chain
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Union

import torch
import torch.nn.functional as F
from fairseq.data import Dictionary, data_utils
from torch import Tensor, nn
from tqdm import tqdm

from ...data.initial_values import load_word_vectors
from ...data.nli_pairs import LABELS, SKIPPED, find_tokenisation_problem, hide_digits, read_pairs
from ...data.weights_file import WeightsFile, write_weights
from ...files.checksums import compute_sha256
from ...files.inputs import check_format, read_json, read_lines
from ...files.outputs import make_temporary_output, write_text
from ...platform.errors import InputError
from ...text.tokenizer import TextTokenizer, TextTokenizerConfig
from ...text.words import WORD_KINDS
from ...version import get_version
from ...vocabulary.dictionary import compute_fingerprint, load_checked_dictionary

CONFIG, WORDS, WEIGHTS = "config.json", "dict.txt", "model.safetensors"
KIND = "entailment model"
SCHEMA_VERSION = 1
"""Version of the folder format. It is increased when older versions of this package cannot read new folders."""
ADVICE = "Create it again with etads-nli train, in a new folder"
LARGEST = 1 << 20
"""Maximum width that is accepted in config.json."""
AT_ONCE = 256
"""Number of pairs in a batch."""


class DecomposableAttention(nn.Module):
    """A classifier for pairs of a premise a and a hypothesis b, based on aligned words (Parikh et al. 2016, section 3).

    F, G and H are networks with two linear layers of a ``width``. Each layer is preceded by dropout and followed by
    ReLU. a_i and b_j are word embeddings, from a ``table`` with a padding index, projected to this width:

        e_ij = F(a_i) · F(b_j)
        β_i = Σ_j softmax_j(e_ij) b_j,  α_j = Σ_i softmax_i(e_ij) a_i
        v_1 = Σ_i G([a_i; β_i]),  v_2 = Σ_j G([b_j; α_j])
        logits = W H([v_1; v_2]) + b
    """

    def __init__(self, table: nn.Embedding, width: int, classes: int, dropout: float):
        super().__init__()
        self.table = table
        self.pad: Any = table.padding_idx
        self.project = nn.Linear(table.embedding_dim, width, bias=False)
        self.attend = _make_two_layer_perceptron(width, width, dropout)  # F
        self.compare = _make_two_layer_perceptron(2 * width, width, dropout)  # G
        self.aggregate = _make_two_layer_perceptron(2 * width, width, dropout)  # H
        self.classify = nn.Linear(width, classes)

    def forward(self, premises: Tensor, hypotheses: Tensor) -> Tensor:
        """Compute the logits (N, classes) of texts (N, P) and (N, Q) of at least one word, padded on either side."""
        a, b = (self.project(self.table(tokens)) for tokens in (premises, hypotheses))  # (N, P, D), (N, Q, D)
        no_a, no_b = (tokens == self.pad for tokens in (premises, hypotheses))
        scores = self.attend(a) @ self.attend(b).transpose(1, 2)  # (N, P, Q)
        to_b = scores.masked_fill(no_b[:, None, :], -math.inf).softmax(dim=2)
        to_a = scores.masked_fill(no_a[:, :, None], -math.inf).softmax(dim=1)
        first = self.compare(torch.cat([a, to_b @ b], dim=2))  # (N, P, D)
        second = self.compare(torch.cat([b, to_a.transpose(1, 2) @ a], dim=2))  # (N, Q, D)
        sums = [x.masked_fill(no[:, :, None], 0).sum(dim=1) for x, no in ((first, no_a), (second, no_b))]
        logits: Tensor = self.classify(self.aggregate(torch.cat(sums, dim=1)))
        return logits


def _make_two_layer_perceptron(inputs: int, width: int, dropout: float) -> nn.Sequential:
    layers = [nn.Dropout(dropout), nn.Linear(inputs, width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Dropout(dropout), nn.Linear(width, width), nn.ReLU())


class DigitHidingTokenizer(TextTokenizer):
    """A tokeniser that then replaces each digit with ``#``, which it would treat as a separate word."""

    def encode(self, x: str) -> str:
        return hide_digits(super().encode(x))


@dataclass(frozen=True)
class NliConfig:
    """The model options in config.json: widths of embeddings and layers, one of ``WORD_KINDS``, treatment of words."""

    embed_dim: int = 300
    width: int = 300
    words: str = "ptb"
    keep_case: bool = False
    hide_digits: bool = False

    def make_tokenizer(self) -> TextTokenizer:
        """Create the tokeniser that was applied to raw text during training."""
        kind = DigitHidingTokenizer if self.hide_digits else TextTokenizer
        return kind(TextTokenizerConfig(text_words=self.words, text_keep_case=self.keep_case))

    def make_model(self, dictionary: Dictionary, dropout: float = 0.0) -> DecomposableAttention:
        """Create a model with random initial weights."""
        table = nn.Embedding(len(dictionary), self.embed_dim, dictionary.pad())
        return DecomposableAttention(table, self.width, len(LABELS), dropout)


def convert_words_to_ids(words: Sequence[str], dictionary: Dictionary, keep_case: bool) -> Tensor:
    """Return the ids (T,), int64, of ``<s>``, with which words without a counterpart align, and of all known words."""
    ids = (dictionary.index(word if keep_case else word.lower()) for word in words)
    return torch.tensor([dictionary.bos(), *(number for number in ids if number >= dictionary.nspecial)])


class EntailmentScorer:
    """An entailment model for inference, without dropout or gradients, with its configuration and dictionary.

    This class is not an ``nn.Module``. Therefore, a module with a scorer as an attribute neither trains nor stores the
    scorer's weights.
    """

    def __init__(self, model: DecomposableAttention, dictionary: Dictionary, config: NliConfig):
        self.model = model.eval()
        self.dictionary, self.config = dictionary, config

    @classmethod
    def load(cls, path: Union[str, Path]) -> "EntailmentScorer":
        """Load a frozen model on the CPU from a folder created by ``etads-nli train``. No code in the folder is run.

        Raises:
            InputError: the folder contains no entailment model, is damaged or incomplete, or is from a later version.
        """
        folder = Path(path)
        config, words = _read_checked_config(folder)
        try:
            dictionary = load_checked_dictionary(Dictionary.load, str(folder / WORDS))
        except ValueError as error:
            raise InputError(f"{error}. {ADVICE}") from None
        if compute_fingerprint(dictionary) != words:
            raise InputError(f"{folder / WORDS} does not match the fingerprint in {CONFIG}. {ADVICE}")
        file = WeightsFile(folder / WEIGHTS, {}, ADVICE)
        try:
            with file.limit_model():
                model = config.make_model(dictionary)
        except ValueError as error:
            raise InputError(f"{folder / CONFIG}: no model can be built from its values ({error}). {ADVICE}") from None
        model.load_state_dict(file.read_weights(model.state_dict()))
        return cls(model.requires_grad_(False), dictionary, config)

    def to(self, device: torch.device) -> "EntailmentScorer":
        """Move the model to a device. Returns this scorer."""
        self.model.to(device)
        return self

    def score(self, premises: Sequence[Sequence[str]], hypotheses: Sequence[Sequence[str]]) -> Tensor:
        """Predict the probability that each of N premises entails its hypothesis: (N,), float32, on the CPU.

        The words of the texts must be split as ``config.words`` specifies and contain no sentence marks. They are
        lower-cased if the model requires it.

        Raises:
            ValueError: the numbers of premises and hypotheses differ.
        """
        return self.predict_probabilities(premises, hypotheses)[:, LABELS.index("entailment")]

    @torch.no_grad()
    def predict_probabilities(self, premises: Sequence[Sequence[str]], hypotheses: Sequence[Sequence[str]]) -> Tensor:
        """Predict the probabilities (N, 3), float32, on the CPU, of all ``LABELS``; see :meth:`score`."""
        if len(premises) != len(hypotheses):
            raise ValueError(f"{len(premises)} premises and {len(hypotheses)} hypotheses")
        device = self.model.classify.weight.device
        pairs = [[self._convert_to_ids(text) for text in pair] for pair in zip(premises, hypotheses)]
        found = torch.zeros(len(pairs), len(LABELS))
        order = sorted(range(len(pairs)), key=lambda number: len(pairs[number][0]) * len(pairs[number][1]))
        for start in range(0, len(order), AT_ONCE):
            numbers = order[start : start + AT_ONCE]
            columns = zip(*(pairs[number] for number in numbers))
            batch = [data_utils.collate_tokens(texts, self.dictionary.pad()).to(device) for texts in columns]
            found[numbers] = self.model(*batch).float().softmax(dim=1).cpu()
        return found

    def _convert_to_ids(self, words: Sequence[str]) -> Tensor:
        words = [hide_digits(word) for word in words] if self.config.hide_digits else words
        return convert_words_to_ids(words, self.dictionary, self.config.keep_case)


def write_config(folder: Path, config: NliConfig, dictionary: Dictionary, about: Dict[str, Any]) -> None:
    """Write the dictionary and config.json to a folder. ``about`` describes the training run for users."""
    folder.mkdir(parents=True, exist_ok=True)
    dictionary.save(str(folder / WORDS))
    model = asdict(config)
    # Omit the option if it is off, so that earlier versions without this option can read the folder.
    if not config.hide_digits:
        del model["hide_digits"]
    content = {"format": f"fairseq-etads {KIND}", "schema_version": SCHEMA_VERSION, "model": model}
    content |= {"dictionary": compute_fingerprint(dictionary), "training": about}
    write_text(folder / CONFIG, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_model(folder: Path, weights: Dict[str, Tensor], name: str = WEIGHTS) -> None:
    """Write weights to a folder atomically. Existing weights are replaced only when the new file is complete."""
    with make_temporary_output(folder / name) as partial:
        write_weights(partial, weights)


def read_config(folder: Path) -> Dict[str, Any]:
    """Read config.json, which must contain "training" and "dictionary".

    Raises:
        InputError: the folder contains no entailment model, or its config.json is damaged or from a later version.
    """
    path = folder / CONFIG
    if not path.is_file():
        raise InputError(f"{folder}: not an entailment model, because it has no {CONFIG}; etads-nli train creates one")
    content = read_json(path, ADVICE)
    check_format(content, KIND, path, "etads-nli train creates one", SCHEMA_VERSION)
    if not isinstance(content.get("training"), dict) or not isinstance(content.get("dictionary"), str):
        raise InputError(f'{path} is damaged: it lacks "training" or "dictionary". {ADVICE}')
    return content


def _read_checked_config(folder: Path) -> Any:
    """Read the :class:`NliConfig` and the dictionary's fingerprint from config.json, or raise InputError."""
    content = read_config(folder)
    given: Any = content.get("model")
    kinds = {option.name: type(option.default) for option in fields(NliConfig)}
    if isinstance(given, dict):
        given = {"hide_digits": False, **given}
    right = isinstance(given, dict) and {name: type(value) for name, value in given.items()} == kinds
    right = right and all(1 <= given[name] <= LARGEST for name in ("embed_dim", "width"))
    if not (right and given["words"] in WORD_KINDS):
        raise InputError(f'{folder / CONFIG} is damaged: "model" differs from the format of etads-nli. {ADVICE}')
    return NliConfig(**given), content.get("dictionary")


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
