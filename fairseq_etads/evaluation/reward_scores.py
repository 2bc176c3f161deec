"""Compute the rewards ``rougesal`` and ``entail`` as scores of generated summaries, for the option ``--also``.

During training, the rewards are computed from tokens. This module computes them from text, so the values may differ
slightly.
"""

import functools
import hashlib
from pathlib import Path
from typing import Callable, List, Sequence, Tuple

import numpy as np

from ..data.labels.labels import compute_idf
from ..text import files
from ..text.checksums import compute_sha256
from ..text.counted_words import LATIN, find_words
from ..text.words import SENTENCE_MARK
from .rewards import EntailmentReward, Reward, RougeSalReward, Text

Sentences = Sequence[str]
"""Sentences of a summary or reference, as strings."""
Scored = Tuple[np.ndarray, str]
"""Scores of all pairs in [0, 100], shape (n, values), and the part of the signature that describes the scores."""
Scorer = Callable[[Sequence[Sentences], Sequence[List[Sentences]]], Scored]
"""Function that computes scores, given n summaries and a list of references for each summary."""

Predictor = Callable[[Sequence[str], Sequence[str]], List[float]]
"""Function that returns the probability of entailment for each of n pairs, given n premises and n hypotheses."""


def make_rougesal_scorer(documents: str, tokens: str = LATIN) -> Scorer:
    """Return a scorer for ROUGESal in which the saliency of a word is its inverse document frequency (idf).

    Args:
        documents: path of a file with one document per line, from which the inverse document frequencies are computed.
        tokens: kind of words, a key of :data:`~fairseq_etads.text.counted_words.TOKENS`.

    Raises:
        ValueError: the file cannot be read or contains no words.
    """
    lines = [line.replace(SENTENCE_MARK, " ") for line in files.read_lines(Path(documents))]
    split_words = functools.partial(find_words, tokens=tokens)
    idf, unseen = compute_idf(map(split_words, lines))
    if not idf:
        raise ValueError(f"--saliency-documents {documents}: there are no words in it")

    def compute_saliency(sentences: Text) -> List[List[float]]:
        return [[idf.get(word, unseen) / unseen for word in sentence] for sentence in sentences]

    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]
    signature = f"ROUGESAL|saliency:idf,sha256 {digest}|stem:no|tok:{tokens}"
    return functools.partial(_score_best_reference, RougeSalReward(compute_saliency), split_words, signature)


def make_entailment_scorer(folder: str, load: Callable[[str], Predictor]) -> Scorer:
    """Return a scorer for the reward ``entail`` (:class:`.rewards.EntailmentReward`) with a length ratio of at most 1.

    Args:
        folder: path of the folder that contains the entailment model.
        load: function that loads the model in a folder. It is called when there are summaries to score.
    """
    weights = compute_sha256(Path(folder) / "model.safetensors")[:12]

    def predict_entailment(premises: Text, hypotheses: Text) -> List[float]:
        return load(folder)([" ".join(words) for words in premises], [" ".join(words) for words in hypotheses])

    return functools.partial(
        _score_best_reference,
        EntailmentReward(predict_entailment),
        str.split,
        f"ENTAIL|model:sha256 {weights}|length-cap:1",
    )


def _score_best_reference(
    reward: Reward,
    split: Callable[[str], List[str]],
    signature: str,
    hypotheses: Sequence[Sentences],
    references: Sequence[List[Sentences]],
) -> Scored:
    """Compute a reward for each summary against the reference for which the reward is highest."""
    numbers = [number for number, several in enumerate(references) for _ in several]
    texts = [[split(sentence) for sentence in hypothesis] for hypothesis in hypotheses]
    wanted = [[split(sentence) for sentence in reference] for several in references for reference in several]
    found = np.zeros(len(hypotheses))
    np.maximum.at(found, numbers, reward([texts[number] for number in numbers], wanted, []))
    return 100 * found[:, None], signature
