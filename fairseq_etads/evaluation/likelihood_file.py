"""Read and write the files of ``etads-likelihood`` with the log-likelihoods of reference summaries."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import List

import numpy as np

from ..files.inputs import read_json, report_damage
from ..files.outputs import write_text
from ..platform.errors import InputError

_FORMAT = "fairseq-etads likelihoods 1"


def make_likelihood_file_path(run: Path, subset: str, checkpoint: str) -> Path:
    """Return the path of the likelihood file in a run folder. ``checkpoint`` is "best" or "last"."""
    return run / f"likelihood-{subset}-{checkpoint}.json"


@dataclass(frozen=True)
class Likelihoods:
    """Log-likelihoods of the reference summaries in a split, in the order of the split.

    Attributes:
        checkpoint, data: SHA-256 checksums of the checkpoint and of the binarised files of the split.
        subset: name of the split, such as "test".
        log_likelihood: natural logarithm of the probability of each summary.
        tokens: number of tokens in each summary, including the end symbol.
        unknown: number of unknown tokens in each summary. The probability of the unknown word is used for these tokens.
    """

    checkpoint: str
    data: str
    subset: str
    log_likelihood: List[float]
    tokens: List[int]
    unknown: List[int]

    def compute_per_token_means(self) -> np.ndarray:
        """Return the mean log-likelihood per token for each summary, shape (n,)."""
        return np.array(self.log_likelihood) / np.array(self.tokens)

    def format_mean_and_perplexity(self) -> str:
        """Format the mean log-likelihood over all summaries and the perplexity over all tokens as one line of text."""
        perplexity = np.exp(-sum(self.log_likelihood) / sum(self.tokens))
        return (
            f"{len(self.tokens):,} summaries, {self.compute_per_token_means().mean():.4f} per token on average; "
            f"perplexity {perplexity:.2f}; {sum(self.unknown) / sum(self.tokens):.1%} of the tokens are unknown words"
        )

    def save(self, path: Path) -> None:
        """Write the likelihoods to a file. An existing file is replaced atomically."""
        write_text(path, json.dumps({"format": _FORMAT, **asdict(self)}) + "\n")


def read_likelihoods(path: Path) -> Likelihoods:
    """Read a file of :meth:`Likelihoods.save`. Raises InputError if it is damaged or another kind of file."""
    advice = "delete it to compute it again"
    with report_damage(path, advice):
        content = read_json(path, advice)
        if content.pop("format", None) != _FORMAT:
            raise ValueError("another format")
        found = Likelihoods(**content)
        if len({len(values) for values in (found.log_likelihood, found.tokens, found.unknown)}) > 1 or not found.tokens:
            raise ValueError("empty lists, or lists of different lengths")
        if not np.isfinite(np.array(found.log_likelihood, dtype=float)).all() or min(found.tokens) < 1:
            raise ValueError("impossible figures")
    return found


def check_comparable(first: Likelihoods, second: Likelihoods, names: List[str]) -> None:
    """Raise InputError if the likelihoods of two models, with these ``names``, cannot be compared.

    This is the case if the summaries consist of different tokens or contain different numbers of unknown tokens.
    """
    what = "their likelihoods belong to different words, so a difference between them is meaningless"
    if first.tokens != second.tokens:
        raise InputError(f"{names[0]} and {names[1]} split the summaries into different tokens: {what}")
    if first.unknown != second.unknown:
        counts = [f"{name} {sum(found.unknown):,}" for name, found in zip(names, (first, second))]
        raise InputError(f"of {sum(first.tokens):,} tokens, {' and '.join(counts)} are unknown words: {what}")
