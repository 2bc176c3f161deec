"""The criterion ``extractor_rl``, which trains an extractor with rewards for the sentences it selects.

The abstractor, a frozen model that summarises single sentences, rewrites the selected sentences.
"""

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from fairseq import checkpoint_utils, utils
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.data import data_utils
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from torch import Tensor

from ...layers.decoder_output import get_decoder_capabilities, unwrap_model
from ...platform.command_options import Bounds, check_option_values, option
from ...platform.errors import InputError
from ...search.generator import SummaryGenerator
from ...search.strategies import DiverseSiblingsSearch
from ...text.subsequences import Text, rouge_l, rouge_n, split_sentences
from ...text.words import SENTENCE_MARK
from ...vocabulary.dictionary import count_known_words
from .model import mask_earlier_selections

TOKENS = 8000
"""Maximum number of tokens in a batch of sentences, including padding."""


class Abstractor:
    """A sentence rewriter that uses a frozen model loaded from a checkpoint.

    The checkpoint is of an architecture of this project that generates summaries. ``data`` contains its dictionary, and
    ``option`` names it in messages. ``longest`` is the maximum number of tokens in a rewritten sentence. The score of a
    hypothesis's i-th best continuation, counted from 0, is reduced by i times ``diversity``.

    Raises:
        InputError: the checkpoint does not contain a suitable model, or was trained with a different dictionary.
    """

    def __init__(
        self,
        checkpoint: str,
        data: str,
        option: str,
        device: torch.device,
        beam: int = 1,
        diversity: float = 0.0,
        longest: int = 30,
    ):
        overrides = {"data": data, "init_from": None, "extractor": None}
        try:
            models, _, task = checkpoint_utils.load_model_ensemble_and_task([checkpoint], overrides)
        except (OSError, ValueError) as error:
            raise InputError(f"{option} {checkpoint}: {error}") from None
        model: Any = models[0]
        if not get_decoder_capabilities(model).shares_documents:
            raise InputError(f"{option} {checkpoint}: not a summarisation model of this project")
        task.factors.check_no_factors_needed()
        self.dictionary, self.limit = task.source_dictionary, task.truncate_source
        self.model = model.to(device).eval().requires_grad_(False)
        self.device = device
        words = task.target_dictionary
        has_mark = words.unk() < words.index(SENTENCE_MARK) < count_known_words(words)
        strategy = DiverseSiblingsSearch(words, diversity) if diversity and beam > 1 else None
        self.generator = SummaryGenerator(
            [self.model],
            words,
            beam_size=beam,
            nbest=beam,
            max_len_b=longest,
            search_strategy=strategy,
            no_repeat_ngram_size=3 if beam > 1 else 0,
            tokens_to_suppress=(SENTENCE_MARK,) if has_mark else (),
            keep_attention=False,
        )

    def rewrite(self, sentences: Sequence[Tensor]) -> List[List[Dict[str, Tensor]]]:
        """Rewrite sentences, dictionary ids (n,) without the end symbol, truncated to the length used in training.

        Returns a list of hypotheses for each sentence, from best to worst, with the keys of
        :meth:`~fairseq_etads.generation.SummaryGenerator.generate`. Identical sentences are rewritten only once.
        """
        texts = [tuple(sentence.tolist()[: self.limit]) for sentence in sentences]
        found: Dict[Tuple[int, ...], List[Dict[str, Tensor]]] = {}
        batch: List[Tuple[int, ...]] = []
        for text in [*sorted(set(texts), key=lambda text: (len(text), text)), None]:
            if batch and (text is None or (len(batch) + 1) * (len(text) + 1) > TOKENS):
                found.update(zip(batch, self._rewrite_batch(batch)))
                batch = []
            if text is not None:
                batch.append(text)
        return [found[text] for text in texts]

    def get_word_ids(self, hypothesis: Dict[str, Tensor]) -> Tuple[int, ...]:
        """Return the dictionary ids of the words in a hypothesis, without the end symbol."""
        end = self.dictionary.eos()
        return tuple(token for token in hypothesis["tokens"].tolist() if token != end)

    def _rewrite_batch(self, texts: Sequence[Tuple[int, ...]]) -> List[List[Dict[str, Tensor]]]:
        pad, end = self.dictionary.pad(), self.dictionary.eos()
        rows = [torch.tensor([*text, end]) for text in texts]
        tokens = data_utils.collate_tokens(rows, pad, end).to(self.device)
        lengths = torch.tensor([len(row) for row in rows], device=self.device)
        net_input: Dict[str, Optional[Tensor]] = {"src_tokens": tokens, "src_lengths": lengths}
        return self.generator.generate(None, {"net_input": net_input})


DISCOUNT = 0.95
_SMALLEST = 1e-7
"""Constant that is added to the standard deviation before dividing by it, so that equal returns become 0."""


def compute_step_rewards(rewritten: Text, reference: Text) -> List[float]:
    """Compute the reward of each step in an episode that ends with the stop action (Chen and Bansal 2018, section 3.1).

    The reward of rewritten sentence t is its ROUGE-L F1 against sentence t of the reference, or 0 if there is none. The
    reward of the stop action, the last, is the ROUGE-1 F1 of all rewritten sentences against the whole reference.
    """
    rewards = [rouge_l([words], [reference[t]]) if t < len(reference) else 0.0 for t, words in enumerate(rewritten)]
    return [*rewards, rouge_n(rewritten, reference, 1)]


def compute_discounted_returns(rewards: Sequence[float], discount: float) -> List[float]:
    """Compute the return R_t = r_t + discount R_{t+1} for each step of an episode."""
    returns: List[float] = []
    for reward in reversed(rewards):
        returns.append(reward + discount * (returns[-1] if returns else 0.0))
    return returns[::-1]


def standardise_returns(episodes: Sequence[Sequence[float]]) -> List[List[float]]:
    """Standardise the returns of all steps to mean 0 and sample standard deviation 1, and a single return to 0."""
    values = [value for episode in episodes for value in episode]
    mean = sum(values) / max(len(values), 1)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / max(len(values) - 1, 1))
    return [[(value - mean) / (deviation + _SMALLEST) for value in episode] for episode in episodes]


@dataclass
class ExtractorRLConfig(FairseqDataclass):
    """Options of ``--criterion extractor_rl``."""

    abstractor: Optional[str] = option(
        None,
        "checkpoint of a model that rewrites sentences, such as one trained with --arch "
        "sentence_rewriter; its weights remain frozen",
    )
    rl_discount: float = option(DISCOUNT, "discount factor per step for future rewards", bounds=Bounds(0, most=1))
    rl_max_len: int = option(30, "maximum number of tokens in a rewritten sentence", bounds=Bounds(1, what="tokens"))


@register_criterion("extractor_rl", dataclass=ExtractorRLConfig)
class ExtractorRL(FairseqCriterion):
    """Advantage actor-critic training for ``--arch pointer_extractor --learn-to-stop`` (Chen and Bansal 2018, 3.1).

    In training, sentences are sampled one by one until the extractor stops, and each sentence is selected at most once.
    The abstractor rewrites each sentence with greedy search, for :func:`compute_step_rewards`. Let R_t be the
    discounted returns, standardised over the N steps of the batch, and b_t the critic's estimates. The loss is::

        L = -(1/N) Σ_t log P(a_t) (R_t - b_t) + (1/N) Σ_t (b_t - R_t)^2

    No gradient flows through R_t - b_t in the first term. The critic's error also trains the encoder, but not the
    pointer network. In validation, sentences are selected greedily, and the loss is 1 minus the ROUGE-1 F1 of the whole
    summary.

    Raises:
        ValueError: an option is missing or has an invalid value, or the abstractor cannot be loaded.
    """

    trains_selectors = True
    reads_labels = False

    def __init__(self, task: Any, abstractor: Optional[str], rl_discount: float, rl_max_len: int):
        super().__init__(task)
        if not abstractor:
            raise ValueError("--abstractor is missing: --criterion extractor_rl needs the checkpoint of an abstractor")
        check_option_values(SimpleNamespace(**locals()), ExtractorRLConfig)
        self.discount = rl_discount
        self.dictionary = task.target_dictionary
        self._load = {"checkpoint": abstractor, "data": utils.split_paths(task.cfg.data)[0], "longest": rl_max_len}
        # PyTorch does not register modules inside a tuple, so the abstractor's weights are neither trained nor stored.
        self._abstractor: Tuple[Abstractor, ...] = ()
        self._load_abstractor(torch.device("cpu"))  # report a wrong path before training starts

    def __getstate__(self) -> Dict[str, Any]:
        """Return the state for pickling, without the abstractor. It is loaded again when needed."""
        return {**vars(self), "_abstractor": ()}

    def _load_abstractor(self, device: torch.device) -> Abstractor:
        """Return the abstractor on the given device. Load it if necessary."""
        if not self._abstractor or self._abstractor[0].device != device:
            self._abstractor = (Abstractor(option="--abstractor", device=device, **self._load),)
        return self._abstractor[0]

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, int, Dict[str, Any]]:
        """Return the loss, the number of steps (documents in validation) that divides it, and the metrics to log."""
        extractor = unwrap_model(model)
        tokens = sample["net_input"]["src_tokens"]
        chosen = extractor.extract(tokens, sample=model.training)  # (B, T)
        rewards = self.compute_rewards(extractor, tokens, chosen, sample["target"])
        quality = sum(episode[-1] for episode in rewards)
        logs: Dict[str, Any] = {
            "ntokens": sample["ntokens"],
            "nsentences": len(rewards),
            "rouge1": quality,
            "extracted": sum(len(episode) - 1 for episode in rewards),
        }
        if not model.training:
            loss = torch.tensor(len(rewards) - quality)
            return loss, len(rewards), {**logs, "loss": loss, "sample_size": len(rewards)}
        policy, critic = self.compute_losses(model, sample, chosen, rewards)
        steps = sum(map(len, rewards))
        logs.update(policy_loss=policy.detach(), critic_loss=critic.detach(), steps=steps)
        return policy + critic, steps, {**logs, "loss": (policy + critic).detach(), "sample_size": steps}

    def compute_rewards(self, extractor: Any, tokens: Tensor, chosen: Tensor, summaries: Tensor) -> List[List[float]]:
        """Compute each document's rewards: one per selected sentence, and one for the stop action.

        ``tokens`` (B, S) are the documents, ``chosen`` (B, T) is the result of :meth:`.model.PointerExtractor.extract`,
        and ``summaries`` (B, T') are the references.
        """
        abstractor = self._load_abstractor(tokens.device)
        taken = extractor.get_selected_sentences(tokens, chosen)
        found = abstractor.rewrite([sentence for sentences in taken for sentence in sentences])
        rewritten = iter([self._convert_ids_to_words(abstractor.get_word_ids(hypotheses[0])) for hypotheses in found])
        rewards = []
        for sentences, summary in zip(taken, summaries.tolist()):
            reference = split_sentences(self._convert_ids_to_words(summary), SENTENCE_MARK)
            rewards.append(compute_step_rewards([next(rewritten) for _ in sentences], reference))
        return rewards

    def _convert_ids_to_words(self, tokens: Any) -> List[str]:
        """Convert dictionary ids to words. Special symbols are omitted."""
        skipped = {self.dictionary.pad(), self.dictionary.bos(), self.dictionary.eos()}
        return [self.dictionary[token] for token in tokens if token not in skipped]

    def compute_losses(
        self, model: Any, sample: Dict[str, Any], chosen: Tensor, rewards: List[List[float]]
    ) -> Tuple[Tensor, Tensor]:
        """Compute the policy loss and the critic loss, each summed over all steps.

        ``chosen`` (B, T) are the selected candidates, ending with the stop action and padded with -1, and ``rewards``
        has a number for each step of each document.
        """
        logits, values = model(**sample["net_input"], chosen=chosen)  # (B, T, C), (B, T)
        episodes = standardise_returns([compute_discounted_returns(episode, self.discount) for episode in rewards])
        returns = torch.zeros(values.shape)
        for row, episode in zip(returns, episodes):
            row[: len(episode)] = torch.tensor(episode)
        returns = returns.to(values)
        real = chosen >= 0
        log_p = logits.masked_fill(mask_earlier_selections(chosen, logits.shape[2]), -math.inf).log_softmax(dim=2)
        log_p = log_p.gather(2, chosen.clamp(min=0)[:, :, None])[:, :, 0].masked_fill(~real, 0)
        advantage = (returns - values).detach().masked_fill(~real, 0)
        return -(log_p * advantage).sum(), (values - returns).masked_fill(~real, 0).pow(2).sum()

    @classmethod
    def reduce_metrics(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Aggregate metrics. In training, losses are averaged over steps; other metrics are averaged over documents."""

        def sum_logged_values(name: str) -> float:
            return sum(float(output.get(name, 0)) for output in logging_outputs)

        size, documents, steps = map(sum_logged_values, ("sample_size", "nsentences", "steps"))
        metrics.log_scalar("loss", sum_logged_values("loss") / size, size, round=4)
        metrics.log_scalar("rewritten_rouge1", sum_logged_values("rouge1") / documents, documents, round=4)
        metrics.log_scalar("extracted", sum_logged_values("extracted") / documents, documents, round=2)
        if steps:
            metrics.log_scalar("policy_loss", sum_logged_values("policy_loss") / steps, steps, round=4)
            metrics.log_scalar("critic_loss", sum_logged_values("critic_loss") / steps, steps, round=4)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True
