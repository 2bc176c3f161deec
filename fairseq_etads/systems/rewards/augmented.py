"""The criterion ``summarization_raml`` (reward-augmented maximum likelihood), which trains on edited references."""

import functools
import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from fairseq import utils
from fairseq.criterions import register_criterion
from fairseq.dataclass import ChoiceEnum
from fairseq.logging import metrics
from torch import Tensor

from ...layers.decoder_output import Capabilities
from ...layers.sentence_selector import to_device
from ...platform.command_options import SIZE, Bounds, check_option_values, option
from ...text.subsequences import rouge_n
from ...text.words import SENTENCE_MARK
from ...training.losses import SummarizationNLL, SummarizationNLLConfig
from ...vocabulary.dictionary import count_known_words
from .self_critical import TokenEntailmentModel

REWARDS = ("none", "rouge2", "entail")


@dataclass
class SummarizationRAMLConfig(SummarizationNLLConfig):
    """Options of ``--criterion summarization_raml``."""

    raml_reward: ChoiceEnum(list(REWARDS)) = option(  # type: ignore[valid-type]
        "rouge2",
        "reward of an edited reference. rouge2: its ROUGE-2 F1; entail: the probability that the "
        "document entails the edited reference, computed with --raml-entailment-model (Li et al. 2018); none: "
        "minus the number of edits, so that all samples have the same weight (Norouzi et al. 2016)",
        of_values={"entail": {"requires": {"--raml-entailment-model": "a folder from etads-nli train"}}},
    )
    raml_temperature: float = option(
        0.85,
        "temperature (tau) of the edit distribution; larger values replace more words, and values near 0 replace none",
        bounds=Bounds(above=0),
    )
    raml_samples: int = option(
        5, "number of edited or unedited references to sample for each training pair", bounds=SIZE
    )
    raml_entailment_model: Optional[str] = option(
        None,
        "folder containing the entailment model for --raml-reward entail, created by etads-nli train",
        needs=("--raml-reward entail",),
    )


@functools.cache  # summaries have only a few distinct lengths, so most results are cached
def compute_edit_count_distribution(length: int, words: int, temperature: float) -> Tensor:
    """Compute q(e) ∝ C(L, e) (V-1)^e ((V-1) exp(1))^(-e/τ), (L + 1,), float64, the distribution of the number of edits.

    There are C(L, e) (V-1)^e texts at an edit distance of e from a reference of L = ``length`` words, if V = ``words``
    can be inserted. Each of them has the weight exp(-e (1 + log(V-1)) / τ), where τ is the ``temperature``.
    """
    e = torch.arange(length + 1, dtype=torch.float64)
    log_ways = math.lgamma(length + 1) - torch.lgamma(e + 1) - torch.lgamma(length - e + 1)
    log_words = math.log(words - 1)
    return (log_ways + e * log_words - e * (1 + log_words) / temperature).softmax(dim=0)


def compute_sample_weights(rewards: Tensor, distances: Tensor, temperature: float) -> Tensor:
    """Compute the sample weights (B, K), which are w = exp(r/τ) / exp(-e/τ), normalised for each pair."""
    return ((rewards + distances) / temperature).softmax(dim=1)


class EditedReferences(NamedTuple):
    """K copies of each of B references: numbers of replaced words (B, K), their mask (B, K, T), and ids (B, K, T)."""

    distances: Tensor
    changed: Tensor
    target: Tensor


@register_criterion("summarization_raml", dataclass=SummarizationRAMLConfig)
class SummarizationRAML(SummarizationNLL):
    """Maximum-likelihood training on randomly edited references, each weighted by its reward.

    K edited references are sampled for each pair. First, the number of edits e is sampled from q(e) (see
    :func:`compute_edit_count_distribution`), then e positions, and finally a different known word for each position.
    Let r(y) be the reward of a sample, y* the reference, and P(x → y) the probability that the document x entails the
    text y::

        r(y) = 1 if e = 0, else min(P(x → y), P(x → y*)) or ROUGE-2 or, with ``none``, -e
        w(y) = exp(r/τ) / exp(-e/τ), divided by the sum over the pair's samples;   L = -Σ w(y) log p(y | x)

    These equations are from Li, Zhu, Zhang and Zong 2018 or, with ``none``, from Norouzi et al. 2016. Sentence marks
    and the end symbol are neither replaced nor inserted. If a reference is drawn several times without edits, the batch
    contains only one row for these samples. Random numbers are drawn from PyTorch's generator, which fairseq seeds in
    every update. In validation, the loss is the negative log-likelihood of the unedited references.

    Raises:
        ValueError: an option has an invalid value, or the entailment model is missing.
        InputError: the entailment model cannot be read.
    """

    def __init__(
        self,
        task: Any,
        raml_reward: str,
        raml_temperature: float,
        raml_samples: int,
        raml_entailment_model: Optional[str],
        **options: Any,
    ):
        super().__init__(task, **options)
        check_option_values(SimpleNamespace(**locals()), SummarizationRAMLConfig)
        self.reward, self.temperature, self.samples = str(raml_reward), raml_temperature, raml_samples
        self.dictionary, self.documents = task.target_dictionary, task.source_dictionary
        known = count_known_words(self.dictionary)
        kept = {*self.no_words, *range(self.dictionary.nspecial)}
        self.words = torch.tensor([number for number in range(known) if number not in kept])
        """Ids (V,) of the words that an edit can insert."""
        if len(self.words) < 2:
            raise ValueError("--criterion summarization_raml: the summaries' dictionary has fewer than two known words")
        self._place = torch.full((known,), -1)
        self._place[self.words] = torch.arange(len(self.words))
        self._judge: Optional[TokenEntailmentModel] = None
        if self.reward == "entail" and not task.is_loading:
            self._judge = TokenEntailmentModel(str(raml_entailment_model), task, "--raml-entailment-model")

    @classmethod
    def check_options(cls, cfg: Any, capabilities: Capabilities) -> None:
        """Raise ValueError if an option is unsuitable for a model with the given capabilities."""
        if "--large-vocabulary-trick" in capabilities:
            raise ValueError(
                "--criterion summarization_raml draws random words, but --large-vocabulary-trick leaves out most "
                "words: choose one of them"
            )

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, int, Dict[str, Any]]:
        """Compute the loss of ``summarization_nll``. In training, the targets are edited references."""
        if not model.training:
            return super().forward(model, sample, reduce)
        edits = self.sample_edited_references(sample["target"].cpu())
        rewards = self.compute_rewards(sample, edits)
        weights = compute_sample_weights(rewards, edits.distances, self.temperature)
        total, size, logs = super().forward(model, make_augmented_batch(sample, edits, weights), reduce)
        logs.update(raml_reward=float(rewards.sum()), raml_edits=int(edits.distances.sum()), raml_drawn=rewards.numel())
        return total, size, logs

    def sample_edited_references(self, target: Tensor) -> EditedReferences:
        """Sample K edited references for each summary in ``target`` (B, T), dictionary ids on the CPU."""
        is_word = ~torch.isin(target, torch.tensor(self.no_words))  # (B, T)
        lengths = is_word.sum(dim=1)
        shares = torch.zeros(len(target), target.shape[1] + 1, dtype=torch.float64)  # (B, T + 1)
        for row, length in zip(shares, lengths.tolist()):
            row[: length + 1] = compute_edit_count_distribution(length, len(self.words), self.temperature)
        distances = torch.multinomial(shares, self.samples, replacement=True)  # (B, K)
        # Draw a random number for each position. The e positions with the smallest numbers are edited, where e is the
        # sampled distance.
        order = torch.rand(*distances.shape, target.shape[1]).masked_fill(~is_word[:, None], 2.0)  # (B, K, T)
        changed = order.argsort(dim=2).argsort(dim=2) < distances[:, :, None]
        known = target < len(self._place)
        # (B, T): index of the word among the V words, or -1 for other words
        place = self._place[target.masked_fill(~known, 0)].masked_fill(~known, -1)
        # Draw a replacement for each word: one of the V words, but never the word itself.
        count = len(self.words)
        other = (place[:, None] + 1 + torch.randint(count - 1, changed.shape)) % count
        other = torch.where(place[:, None] < 0, torch.randint(count, changed.shape), other)
        return EditedReferences(distances, changed, torch.where(changed, self.words[other], target[:, None]))

    def compute_rewards(self, sample: Dict[str, Any], edits: EditedReferences) -> Tensor:
        """Compute the reward r of each sample, (B, K), float32."""
        distances = edits.distances
        if self.reward == "none":
            return -distances.float()
        found = torch.ones(distances.shape)
        chosen = (distances > 0).nonzero()  # (n, 2): pair and sample
        if len(chosen):
            edited = self._convert_ids_to_words(edits.target[tuple(chosen.T)], self.dictionary)
            found[tuple(chosen.T)] = self._compute_edited_reference_rewards(sample, chosen[:, 0].tolist(), edited)
        return found

    def _compute_edited_reference_rewards(
        self, sample: Dict[str, Any], pairs: List[int], edited: List[List[str]]
    ) -> Tensor:
        """Compute the rewards (n,), float32, of edited references, given the index in the batch of the pair of each."""
        rows = sorted(set(pairs))
        references = dict(zip(rows, self._convert_ids_to_words(sample["target"][rows], self.dictionary)))
        if self.reward == "rouge2":
            scores = [rouge_n([words], [references[pair]], 2) for pair, words in zip(pairs, edited)]
            return torch.tensor(scores)
        assert self._judge is not None, "the criterion of a loaded model cannot train"
        documents = dict(zip(rows, self._convert_ids_to_words(sample["net_input"]["src_tokens"][rows], self.documents)))
        self._judge.to(sample["target"].device)
        of_references = dict(zip(rows, self._judge(list(documents.values()), list(references.values()))))
        found = self._judge([documents[pair] for pair in pairs], edited)
        return torch.tensor([min(score, of_references[pair]) for score, pair in zip(found, pairs)])

    @staticmethod
    def _convert_ids_to_words(rows: Tensor, dictionary: Any) -> List[List[str]]:
        """Convert the dictionary ids of texts (N, T) to words, without padding, end symbols and sentence marks."""
        skipped = {dictionary.pad(), dictionary.eos(), dictionary.index(SENTENCE_MARK)} - {dictionary.unk()}
        return [[dictionary[number] for number in row if number not in skipped] for row in rows.tolist()]

    @classmethod
    def reduce_metrics(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Aggregate the metrics of ``summarization_nll``, and log the mean reward and the mean number of edits."""
        super().reduce_metrics(logging_outputs)
        drawn = sum(output.get("raml_drawn", 0) for output in logging_outputs)
        for name in ("raml_reward", "raml_edits"):
            if drawn:
                total = sum(float(output.get(name, 0)) for output in logging_outputs)
                metrics.log_scalar(name, total / drawn, drawn, round=4)


def make_augmented_batch(sample: Dict[str, Any], edits: EditedReferences, weights: Tensor) -> Dict[str, Any]:
    """Create a batch with one row for each edited reference and each reference that was drawn without edits.

    ``sample`` is a batch of B pairs, and ``weights`` (B, K) are those of the samples. In the result, "weights" (N,) has
    the weight of each row, and "ntokens" and "nsentences" are those of ``sample``.
    """
    unchanged = edits.distances == 0
    of_reference = (weights * unchanged).sum(dim=1)  # (B,)
    plain, chosen = of_reference.nonzero()[:, 0], (~unchanged).nonzero()
    pairs, edited = torch.cat([plain, chosen[:, 0]]), tuple(chosen.T)
    device = sample["target"].device
    rows, count = to_device(pairs, device), len(sample["target"])
    batch: Dict[str, Any] = utils.apply_to_sample(lambda x: x[rows] if x.dim() and len(x) == count else x, sample)
    target, changed = (to_device(x[edited], device) for x in (edits.target, edits.changed))
    batch["target"][len(plain) :] = target
    # With left and with right padding, the previous word at position t + 1 is the target at position t.
    previous = batch["net_input"]["prev_output_tokens"][len(plain) :]
    previous[:, 1:] = torch.where(changed[:, :-1], target[:, :-1], previous[:, 1:])
    return {
        **batch,
        "weights": to_device(torch.cat([of_reference[plain], weights[edited]]), device),
        "nsentences": count,
    }
