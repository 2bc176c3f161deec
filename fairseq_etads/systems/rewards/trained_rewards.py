"""Saliencies and entailment probabilities for the rewards ``rougesal`` and ``entail`` (Pasunuru and Bansal 2018).

:mod:`fairseq_etads.evaluation.rewards` defines their formulas.
"""

import logging
import math
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import torch
from fairseq import checkpoint_utils
from fairseq.data import data_utils

from ...data.labels import compute_idf
from ...evaluation.rewards import EntailmentReward, Reward, RougeSalReward, Text, Weights, create_reward
from ...models.selector import WordTagger
from ...platform.optional_parts import explain_missing_system, is_system_installed
from ...text.subwords import OPAQUE, join_words
from ...vocabulary.dictionary import detect_subword_type, detect_word_type

logger = logging.getLogger(__name__)

IDF = "idf"
"""Value of ``--rougesal-saliency`` that selects inverse document frequencies instead of a tagger."""


class FrequencySaliency:
    """Computes the saliency of words: their inverse document frequency, divided by the value for an unseen word.

    The training documents of ``task``, truncated like the model's input, are read when the first weight is needed.
    """

    def __init__(self, task: Any):
        self._task = task
        self._weights: Dict[str, float] = {}

    def __call__(self, sentences: Text) -> Weights:
        """Compute the saliency of each word in the sentences. Values are above 0 and at most 1."""
        if not self._weights:
            self._weights = self._compute_word_saliencies()
        return [[self._weights.get(word, 1.0) for word in sentence] for sentence in sentences]

    def _compute_word_saliencies(self) -> Dict[str, float]:
        documents, words = self._task.dataset(self._task.cfg.train_subset).src, self._task.source_dictionary
        logger.info(f"--rougesal-saliency {IDF}: reading {len(documents):,} training documents")
        texts = ([words[i] for i in set(documents[number].tolist())] for number in range(len(documents)))
        idf, unseen = compute_idf(texts)
        return {word: value / unseen for word, value in idf.items()}


class TaggerSaliency:
    """Computes the saliency of words as the probabilities that a tagger (``--arch word_tagger``) predicts.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is not a checkpoint of a tagger, or the tagger was trained with a different dictionary.
    """

    def __init__(self, path: str, task: Any):
        option = f"--rougesal-saliency {path}"
        if not Path(path).is_file():
            raise FileNotFoundError(f"{option}: no such file; choose {IDF}, or a checkpoint of --arch word_tagger")
        overrides = {"init_from": None, "data": task.cfg.data}
        models, _, _ = checkpoint_utils.load_model_ensemble_and_task([path], overrides)
        if not isinstance(models[0], WordTagger):
            raise ValueError(f"{option}: its model is not a word tagger (--arch word_tagger)")
        self._model = models[0].eval().requires_grad_(False)
        self._dictionary = task.source_dictionary

    @torch.no_grad()
    def __call__(self, sentences: Text) -> Weights:
        """Predict the saliency of each word in the sentences, as a probability."""
        if not sentences:
            return []
        device = self._model.logit.weight.device
        ids = [torch.tensor([self._dictionary.index(word) for word in sentence]) for sentence in sentences]
        tokens = data_utils.collate_tokens(ids, self._dictionary.pad()).to(device)  # (N, T)
        rows: List[List[float]] = self._model(tokens).compute_probabilities().tolist()
        return [row[: len(sentence)] for row, sentence in zip(rows, sentences)]

    def to(self, device: torch.device) -> None:
        """Move the tagger to a device."""
        self._model.to(device)


class TokenEntailmentModel:
    """An entailment model of ``etads-nli train`` that accepts the tokens of the training data and joins them to words.

    Raises:
        ValueError: the tokens of the data cannot be joined into words, or the system ``entailment`` is missing.
        InputError: the folder cannot be read. The message names ``option``.
    """

    def __init__(self, path: str, task: Any, option: str):
        if not is_system_installed("entailment"):
            raise ValueError(explain_missing_system("--rewards entail", "entailment"))
        from ..entailment.model import EntailmentScorer  # the other rewards do not need this system

        self._scorer = EntailmentScorer.load(path)
        dictionary, config = task.target_dictionary, self._scorer.config
        self._subwords = detect_subword_type(dictionary, task.cfg.data)
        if self._subwords in OPAQUE:
            kind = OPAQUE[self._subwords]
            raise ValueError(f"{option} {path}: the data consists of {kind}, but entailment models need words")
        kind = detect_word_type(dictionary, self._subwords)
        self._tokenizer = config.make_tokenizer() if kind == "raw" else None
        if kind not in (config.words, "raw"):
            logger.warning(
                f"{option} {path}: the model was trained on text with --words {config.words}, but the data seems to be "
                f"tokenised with --words {kind}; train a matching model with etads-nli train --words {kind}"
            )

    def __call__(self, premises: Text, hypotheses: Text) -> List[float]:
        """Compute the probability that each premise entails its hypothesis. Sentence marks must have been removed."""
        words = ([self._join_words(tokens) for tokens in texts] for texts in (premises, hypotheses))
        found: List[float] = self._scorer.score(*words).tolist()
        return found

    def _join_words(self, tokens: Sequence[str]) -> List[str]:
        words = join_words(tokens, self._subwords)[0]
        return words if self._tokenizer is None else self._tokenizer.encode(" ".join(words)).split()

    def to(self, device: torch.device) -> None:
        """Move the model to a device."""
        self._scorer.to(device)


class RewardFunctions:
    """The rewards in ``--rewards``, in the given order, and the models that they require.

    Raises:
        ValueError: a reward does not exist, or an option that a reward requires is missing or has an invalid value.
    """

    def __init__(self, names: str, saliency: str, entail_model: Optional[str], length_cap: str, task: Any):
        self.names = [name.strip() for name in names.split(",")]
        self._models: List[Any] = []
        self._task, self._saliency, self._entail_model = task, saliency, entail_model
        self._length_cap = _parse_length_cap(length_cap)
        makers = {"rougesal": self._make_rouge_saliency_reward, "entail": self._make_entailment_reward}
        self._rewards: List[Reward] = []
        if not task.is_loading:  # fairseq-validate uses no rewards, and their models may be missing
            self._rewards = [create_reward(name, makers) for name in self.names]

    def __len__(self) -> int:
        return len(self.names)

    def __call__(
        self, number: int, summaries: Sequence[Text], references: Sequence[Text], documents: Sequence[Text], device: Any
    ) -> Sequence[float]:
        """Compute the reward with index ``number`` for each summary. Models are run on ``device``."""
        for model in self._models:
            model.to(device)
        return self._rewards[number](summaries, references, documents)

    def _make_rouge_saliency_reward(self) -> Reward:
        if self._saliency == IDF:
            return RougeSalReward(FrequencySaliency(self._task))
        self._models.append(TaggerSaliency(self._saliency, self._task))
        return RougeSalReward(self._models[-1])

    def _make_entailment_reward(self) -> Reward:
        if self._entail_model is None:
            raise ValueError("--rewards entail: --entail-model is missing; etads-nli train creates one")
        self._models.append(TokenEntailmentModel(self._entail_model, self._task, "--entail-model"))
        return EntailmentReward(self._models[-1], self._length_cap)


def _parse_length_cap(value: str) -> Optional[float]:
    """Parse ``--entail-length-cap``: None for "none", or a number above 0, or else raise ValueError."""
    if value == "none":
        return None
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ValueError(f"--entail-length-cap {value}: choose a number above 0, or none")
    return number
