"""The content model of the probability that a summary has a word or bigram of its document. Without torch."""

from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

import numpy as np

from ...platform.errors import InputError
from ...platform.outputs import writing_bytes
from .features import MOST_COUNTED, WIDTHS, Item, Priors, Sentences, tables

FILE = "content.npz"
"""Name of the model's file in the run of an extractor."""
LEAST_DOCUMENTS = 5
"""Items of fewer training documents are not stored."""


class Network(NamedTuple):
    """A perceptron with two hidden layers of tanh, over standardised features.

    Attributes:
        mean, deviation: of each feature in training.
        layers: weights (out, in) and biases (out,) of each layer.
    """

    mean: np.ndarray
    deviation: np.ndarray
    layers: Tuple[Tuple[np.ndarray, np.ndarray], ...]

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        """Probability of each row of features."""
        x = (features - self.mean) / self.deviation
        for number, (weight, bias) in enumerate(self.layers):
            x = x @ weight.T + bias
            if number < len(self.layers) - 1:
                x = np.tanh(x)
        probabilities: np.ndarray = 1 / (1 + np.exp(-x[:, 0]))
        return probabilities


class ContentModel(NamedTuple):
    """The content model.

    Attributes:
        priors: proportions of each item in the training pairs.
        networks: number of words of a gram -> its network.
        length: mean number of words of a training summary.
    """

    priors: Priors
    networks: Mapping[int, Network]
    length: float

    def items(self, document: Sentences, probabilities: Sequence[float]) -> Dict[Item, float]:
        """Predict for each item of a document the probability that its summary has it.

        Args:
            document: stems of each sentence.
            probabilities: probability of each sentence from an extractor.
        """
        found: Dict[Item, float] = {}
        if any(document):
            for order, table in tables(document, probabilities, self.priors).items():
                if table.items:
                    found.update(zip(table.items, self.networks[order].probabilities(table.features).tolist()))
        return found

    def save(self, path: Path) -> None:
        """Write the model to a file."""
        stored: Dict[str, Any] = {"length": np.float64(self.length)}
        for order, network in self.networks.items():
            stored[f"mean.{order}"], stored[f"deviation.{order}"] = network.mean, network.deviation
            for number, (weight, bias) in enumerate(network.layers):
                stored[f"weight.{order}.{number}"], stored[f"bias.{order}.{number}"] = weight, bias
        kept = sorted(self.priors.frequent(LEAST_DOCUMENTS).counts.items())
        text = "\n".join(" ".join(gram) for (gram, _), _ in kept).encode()
        stored["grams"] = np.frombuffer(text, dtype=np.uint8)
        stored["counts"] = np.array([(count, *row) for (_, count), row in kept], dtype=np.uint32).reshape(-1, 3)
        base = sorted(self.priors.base.items())
        stored["base"] = np.array([(*key, value) for key, value in base])
        with writing_bytes(path) as file:
            np.savez_compressed(file, **stored)

    @classmethod
    def load(cls, path: Path, advice: str) -> "ContentModel":
        """Read a model.

        Args:
            advice: advice to the user if the file is missing or damaged.

        Raises:
            InputError: the file is missing or damaged.
        """
        try:
            with np.load(path, allow_pickle=False) as stored:
                return cls._of({name: stored[name] for name in stored.files})
        except FileNotFoundError:
            raise InputError(f"there is no {path}; {advice}") from None
        except Exception as error:  # zipfile, zlib and numpy raise different exceptions
            raise InputError(f"{path} is damaged ({type(error).__name__}: {error}); {advice}") from None

    @classmethod
    def _of(cls, stored: Dict[str, np.ndarray]) -> "ContentModel":
        networks = {}
        for order in MOST_COUNTED:
            layers: List[Tuple[np.ndarray, np.ndarray]] = []
            while f"weight.{order}.{len(layers)}" in stored:
                number = len(layers)
                layers.append((stored[f"weight.{order}.{number}"], stored[f"bias.{order}.{number}"]))
            networks[order] = Network(stored[f"mean.{order}"], stored[f"deviation.{order}"], tuple(layers))
            if len(networks[order].mean) != WIDTHS[order] or not layers:
                raise ValueError("the features differ")
        text = stored["grams"].tobytes().decode()
        grams = [tuple(gram.split(" ")) for gram in text.split("\n")] if text else []
        rows = stored["counts"].tolist()
        if len(grams) != len(rows):
            raise ValueError("lists of different lengths")
        counts = {(gram, count): (documents, summaries) for gram, (count, documents, summaries) in zip(grams, rows)}
        base = {(int(order), int(count)): value for order, count, value in stored["base"].tolist()}
        return cls(Priors(counts, base), networks, float(stored["length"]))
