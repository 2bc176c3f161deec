"""Models that predict whether a premise entails a hypothesis, and the folders in which etads-nli stores them.

A folder contains ``config.json``, ``dict.txt`` and ``model.safetensors``, but no executable code.
"""

import json
import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Dict, Sequence, Union

import torch
from fairseq.data import Dictionary, data_utils
from torch import Tensor, nn

from ...data.nli_pairs import LABELS, hide_digits
from ...data.weights_file import WeightsFile, write_weights
from ...files.inputs import read_json
from ...files.outputs import make_temporary_output, write_text
from ...platform.errors import InputError
from ...text.tokenizer import TextTokenizer, TextTokenizerConfig
from ...text.words import WORD_KINDS
from ...vocabulary.dictionary import compute_fingerprint, load_checked_dictionary

CONFIG, WORDS, WEIGHTS = "config.json", "dict.txt", "model.safetensors"
FORMAT = "fairseq-etads entailment model"
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
    content = {"format": FORMAT, "schema_version": SCHEMA_VERSION, "model": model}
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
    if content.get("format") != FORMAT:
        raise InputError(f'{path}: not an entailment model (no "format": "{FORMAT}"); etads-nli train creates one')
    if content.get("schema_version") != SCHEMA_VERSION:
        raise InputError(
            f"{path}: has schema {content.get('schema_version')}, but this version of fairseq-etads reads schema "
            f"{SCHEMA_VERSION}: update with pip install --upgrade fairseq-etads"
        )
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
