"""The criterion ``summarization_rl``: learning from the rewards of sampled summaries (self-critical training)."""

import logging
import math
from dataclasses import dataclass, field, fields
from types import SimpleNamespace
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from fairseq import search as fairseq_search
from fairseq.criterions import register_criterion
from fairseq.data import data_utils
from fairseq.dataclass import ChoiceEnum
from fairseq.logging import metrics
from torch import Tensor

from ...evaluation.rewards import Text, split_sentences
from ...kernels.upload import to_device
from ...layers.decoder_output import Capabilities, WordRequest, decoder_capabilities, unwrapped
from ...platform.option_checks import SIZE, Bounds, check_values, given_options, shown
from ...search.encoded import EncodedBatch
from ...search.generator import SummaryGenerator, evaluating
from ...search.inference import InferenceModel
from ...search.strategies import SamplingWithGreedy
from ...text.words import SENTENCE_MARK
from ...training.losses import SummarizationNLL, SummarizationNLLConfig, options_of
from .trained import IDF, Rewards

logger = logging.getLogger(__name__)

BASELINES = ("greedy", "others", "none")
_OF_LIKELIHOOD = tuple(option.name for option in fields(SummarizationNLLConfig) if option.name != "sentence_avg")
_OF_REWARDS = (
    *("rewards", "rougesal_saliency", "entail_model", "entail_length_cap", "rl_max_len", "rl_samples", "rl_baseline"),
)


@dataclass
class SummarizationRLConfig(SummarizationNLLConfig):
    """Options of ``--criterion summarization_rl``."""

    rewards: str = field(
        default="rougeL",
        metadata={
            "help": "reward of a summary: rouge1, rouge2, rougeL (F1 on the tokens of the data), rougesal, entail, or "
            "module:Class; several, separated by commas, alternate from update to update"
        },
    )
    rougesal_saliency: str = field(
        default=IDF,
        metadata={
            "help": "weights of words in the reward rougesal: idf (the inverse document frequency, at most 1), or the "
            "checkpoint of a tagger (--arch word_tagger), which gives the probability of each word in its sentence"
        },
    )
    entail_model: Optional[str] = field(
        default=None, metadata={"help": "the model of the reward entail: a folder made by etads-nli train"}
    )
    entail_length_cap: str = field(
        default="1",
        metadata={
            "help": "the reward entail grows with the summary's length up to this multiple of the reference's length "
            "(none: without limit)"
        },
    )
    rl_weight: float = field(
        default=0.998,
        metadata={
            "bounds": Bounds(0, most=1),
            "help": "weight (gamma) of the reward; the likelihood of the references, with additions such as "
            "--coverage-loss, has the weight 1 - gamma",
        },
    )
    rl_max_len: int = field(
        default=100,
        metadata={"bounds": Bounds(1, what="tokens"), "help": "maximum number of tokens of a sampled summary"},
    )
    rl_samples: int = field(
        default=1, metadata={"bounds": SIZE, "help": "number of summaries sampled for each document"}
    )
    rl_baseline: ChoiceEnum(list(BASELINES)) = field(  # type: ignore[valid-type]
        default="greedy",
        metadata={
            "help": "baseline of a sample's reward: the reward of the greedy summary (greedy), the mean of the "
            "document's other samples (others, with --rl-samples 2 or more), or 0 (none)"
        },
    )


class Samples:
    """Sampled summaries of a batch, as a decoder reads them.

    Args:
        summaries: ids of the dictionary, with the end symbol, of each document.
        longest: maximum number of tokens. A summary of this length has its end symbol from the limit, not from the
            model.
        dictionary: the dictionary of the summaries.

    Attributes:
        target: (B, T), right-padded. A summary that was cut has no end symbol in it, and fewer words to score.
        previous: (B, T), the same after the end symbol with which summaries begin.
        words: (B,), number of scored tokens of each summary.
        unfinished: number of summaries that were cut.
    """

    def __init__(self, summaries: Sequence[Tensor], longest: int, dictionary: Any):
        pad, eos = dictionary.pad(), dictionary.eos()
        cut = torch.tensor([len(summary) > longest for summary in summaries])
        values = [summary.cpu() for summary in summaries]
        self.target = data_utils.collate_tokens(values, pad, eos)
        self.previous = data_utils.collate_tokens(values, pad, eos, move_eos_to_beginning=True)
        self.words = self.target.ne(pad).sum(dim=1) - cut.long()
        columns = torch.arange(self.target.shape[1])
        self.target = self.target.masked_fill(columns[None] >= self.words[:, None], pad)
        self.unfinished = int(cut.sum())


@register_criterion("summarization_rl", dataclass=SummarizationRLConfig)
class SummarizationRL(SummarizationNLL):
    """Self-critical policy gradient, mixed with likelihood (Rennie et al. 2017; Paulus et al. 2018, section 3.2).

    In training, a summary y^s is drawn from the model and a summary y^g is decoded greedily, both without dropout:

        L_RL = -(r(y^s) - r(y^g)) (1 / n) sum_t log p(y^s_t | y^s_<t, x)
        L = gamma L_RL + (1 - gamma) L_NLL

    A sample that is better than the greedy summary becomes more probable. With several samples of a document, L_RL is
    their mean, and the mean reward of the document's other samples can replace r(y^g) (Kool et al. 2019). L_NLL is the
    loss of ``summarization_nll --length-normalised``; n is the mean length of the batch's references, so that gamma
    means the same for any length. n must not be the sample's own length: samples are worse than greedy summaries on
    average, and a mean over their words would penalise the longest samples least, so that summaries would grow without
    limit. log p comes from one pass over the finished sample. The end symbol is drawn, counted and rewarded like a
    word.

    Raises:
        ValueError: an option has an impossible value, or the model cannot be sampled from.
    """

    def __init__(
        self,
        task: Any,
        rewards: str,
        rougesal_saliency: str,
        entail_model: Optional[str],
        entail_length_cap: str,
        rl_weight: float,
        rl_max_len: int,
        rl_samples: int,
        rl_baseline: str,
        **options: Any,
    ):
        super().__init__(task, **{**options, "length_normalised": True})
        check_values(SimpleNamespace(**locals()), SummarizationRLConfig)
        if str(rl_baseline) == "others" and rl_samples < 2:
            raise ValueError(f"--rl-baseline others: needs --rl-samples 2 or more, not {rl_samples}")
        self.rewards = Rewards(rewards, rougesal_saliency, entail_model, entail_length_cap, task)
        self.rl_weight, self.longest = rl_weight, rl_max_len
        self.samples, self.baseline = rl_samples, str(rl_baseline)
        self.dictionary, self.documents = task.target_dictionary, task.source_dictionary
        # The tuple hides the model from torch. As an attribute, it would become part of the criterion and be stored in
        # checkpoints.
        self._drawing: Tuple[Any, ...] = ()  # the model, its copy for inference, and the generator

    @classmethod
    def build_criterion(cls, cfg: Any, task: Any) -> "SummarizationRL":
        """Build the criterion from its options."""
        return cls(task, **options_of(cfg, SummarizationRLConfig))

    @classmethod
    def check_options(cls, cfg: Any, capabilities: Capabilities) -> None:
        """Check the options of a training with a model of these capabilities.

        Raises:
            ValueError: an option has no effect.
        """
        given = given_options(cfg, SummarizationRLConfig)
        for option in ("sentence_avg", "length_normalised"):
            if getattr(cfg, option, False):
                raise ValueError(
                    f"{shown(option, True)} has no effect with --criterion summarization_rl, because its loss is "
                    "always the mean over summaries: leave it out"
                )
        for weight, options, reason in (
            (1, _OF_LIKELIHOOD, "which gives the likelihood no weight"),
            (0, _OF_REWARDS, "which gives rewards no weight"),
        ):
            for option in options:
                if option in given and cfg.rl_weight == weight:
                    raise ValueError(
                        f"{shown(option, given[option])} has no effect with --rl-weight {weight}, {reason}"
                    )
        super().check_options(cfg, capabilities)

    def __getstate__(self) -> Dict[str, Any]:
        return {**vars(self), "_drawing": ()}

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, int, Dict[str, Any]]:
        """Compute the loss of ``summarization_rl``; in validation, the loss of the likelihood alone."""
        total, size, logs = super().forward(model, sample, reduce)
        if not model.training or self.rl_weight == 0:
            return total, size, logs
        # Updates are counted rather than batches, so that accumulated batches share a reward.
        number = self._updates % len(self.rewards)
        encoder_out = self.encode(model, sample)
        sampled, greedy = self.draw(model, sample, encoder_out)
        gains, figures = self.gains(sample, sampled, greedy, number)
        # The loss is divided by the references' mean length.
        gains = gains / self.samples * len(sample["target"]) / sample["ntokens"]
        drawn = Samples(sampled, self.longest, self.dictionary)
        taught = gains.nonzero().flatten()  # a sample with the reward of its baseline teaches nothing
        policy = total.new_zeros(())
        if len(taught):
            some = Samples([sampled[row] for row in taught.tolist()], self.longest, self.dictionary)
            with evaluating([model]):  # without dropout
                policy = self.policy_loss(model, encoder_out, some, gains[taught], taught // self.samples)
        total = self.rl_weight * policy + (1 - self.rl_weight) * total
        logs.update(
            loss=total.detach(),
            policy_loss=policy.detach(),
            sampled_words=int(drawn.words.sum()) / self.samples,
            unfinished=drawn.unfinished / self.samples,
            **figures,
        )
        return total, size, logs

    @staticmethod
    def encode(model: Any, sample: Dict[str, Any]) -> Any:
        """Compute the encoder's output for a batch, without dropout but with its graph, for sampling and the loss."""
        with evaluating([model]):
            return unwrapped(model).encoder.forward_torchscript(sample["net_input"])

    def draw(
        self, model: Any, sample: Dict[str, Any], encoder_out: Optional[Any] = None
    ) -> Tuple[List[Tensor], List[Tensor]]:
        """Draw sampled summaries and a greedy one of each document: ids (T,) of the dictionary, with the end symbol.

        A document's samples are adjacent. Greedy summaries are computed only as a baseline.

        Args:
            encoder_out: result of :meth:`encode`; without it, and on a GPU, the documents are encoded again.
        """
        model = unwrapped(model)
        if not self._drawing or self._drawing[0] is not model:
            inference = InferenceModel(model)
            self._drawing = (model, inference, self._make_generator(model, inference))
        _, inference, generator = self._drawing
        encoded = None
        # EncodedBatch stores its contents on the CPU, so it is used only there.
        if encoder_out is not None and sample["net_input"]["src_tokens"].device.type == "cpu":
            encoded = EncodedBatch()
            encoded.of(0).keep_encoder_out(inference.current(), encoder_out)
        sampled: List[Tensor] = []
        greedy: List[Tensor] = []
        for hypotheses in generator.generate(None, sample, encoded=encoded):
            summaries = [hypothesis["tokens"] for hypothesis in hypotheses]
            if self.baseline == "greedy":
                greedy.append(summaries.pop(0))
            sampled.extend(summaries)
        return sampled, greedy

    def _make_generator(self, model: Any, inference: InferenceModel) -> SummaryGenerator:
        if not decoder_capabilities(model).shares_documents:
            raise ValueError("--criterion summarization_rl: works only with models of this project")
        beam, strategy = self.samples, fairseq_search.Sampling(self.dictionary)  # every beam draws independently
        if self.baseline == "greedy":
            beam, strategy = self.samples + 1, SamplingWithGreedy(self.dictionary)
        return SummaryGenerator(
            [model],
            self.dictionary,
            beam,
            max_len_b=self.longest,
            min_len=0,
            normalize_scores=False,
            search_strategy=strategy,
            inference_models=[inference],
            keep_attention=False,
        )

    def gains(
        self, sample: Dict[str, Any], sampled: List[Tensor], greedy: List[Tensor], number: int
    ) -> Tuple[Tensor, Dict[str, float]]:
        """Reward of each sample minus its baseline, by reward ``number``: float32 (B * samples,); and the values to
        log.

        Raises:
            ValueError: the reward returns something other than a finite number for each summary.
        """
        name, device = self.rewards.names[number], sample["target"].device
        references = self._texts(sample["target"], self.dictionary)
        documents = self._texts(sample["net_input"]["src_tokens"], self.documents)

        def reward_of(summaries: List[Tensor], each: int) -> Tensor:
            """Rewards (B, each) of ``each`` summaries of every document."""
            wanted, read = ([text for text in texts for _ in range(each)] for texts in (references, documents))
            values = torch.as_tensor(
                self.rewards(number, self._texts(summaries, self.dictionary), wanted, read, device)
            )
            if values.shape != (len(summaries),) or not bool(values.isfinite().all()):
                raise ValueError(f"--rewards {name}: it must return a finite number for each summary, not {values}")
            return values.float().view(-1, each)

        rewards = reward_of(sampled, self.samples)
        baseline = torch.zeros(1)
        figures = {f"reward_{name}": float(rewards.mean(1).sum()), f"reward_{name}_count": len(references)}
        if self.baseline == "greedy":
            baseline = reward_of(greedy, 1)
            figures[f"greedy_{name}"] = float(baseline.sum())
        elif self.baseline == "others":
            baseline = (rewards.sum(1, keepdim=True) - rewards) / (self.samples - 1)
        return (rewards - baseline).flatten(), figures

    @staticmethod
    def _texts(rows: Sequence[Tensor], dictionary: Any) -> List[Text]:
        """Sentences of summaries or documents (ids of the dictionary, padded or not)."""
        skipped = {dictionary.pad(), dictionary.bos(), dictionary.eos()}
        texts: List[Text] = []
        for row in rows:
            words = [dictionary[index] for index in row.tolist() if index not in skipped]
            texts.append(split_sentences(words, SENTENCE_MARK))
        return texts

    def policy_loss(self, model: Any, encoder_out: Any, drawn: Samples, gains: Tensor, of: Tensor) -> Tensor:
        """Sum over samples of -gain times the log-probability.

        Args:
            encoder_out: result of :meth:`encode`.
            gains: reward minus baseline of each sample (N,), without gradient.
            of: index of each sample's document (N,), int64.
        """
        model = unwrapped(model)
        device = next(model.parameters()).device
        encoder_out = model.encoder.reorder_encoder_out(encoder_out, to_device(of, device))
        target = to_device(drawn.target, device)
        log_p = self._log_p_drawn(model, encoder_out, to_device(drawn.previous, device), target)
        return -(log_p.masked_fill(target == self.padding_idx, 0).sum(dim=1) * to_device(gains, device)).sum()

    def _log_p_drawn(self, model: Any, encoder_out: Any, previous: Tensor, target: Tensor) -> Tensor:
        """Log-probabilities of sampled tokens (N, T), ids of the dictionary, under the distribution they were drawn
        from.

        This is the model's distribution without tokens that are never drawn: padding and, with a pointer, the unknown
        word. Under the model's own log p, samples that are worse than the baseline would make these tokens more
        probable, because no sample ever penalises them.
        """
        request = WordRequest(target, whole=True)
        output = model.decoder(previous, encoder_out=encoder_out, request=request)
        scores = model.get_normalized_probs(output, log_probs=True)  # (N, T, extended ids)
        never = [self.padding_idx]
        if decoder_capabilities(model).pointer is not None:
            never.append(self.unk)
        scores = scores.index_fill(2, to_device(torch.tensor(never), scores.device), -math.inf)
        words = model.get_targets({"target": target}, output)
        return scores.gather(2, words[:, :, None])[:, :, 0] - scores.logsumexp(dim=2)

    @classmethod
    def reduce_metrics(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Reduce the metrics of ``summarization_nll``, and mean rewards and lengths of the samples."""
        super().reduce_metrics(logging_outputs)

        def total(name: str) -> float:
            return sum(float(output.get(name, 0)) for output in logging_outputs)

        drawn = sum(float(output["nsentences"]) for output in logging_outputs if "sampled_words" in output)
        if not drawn:
            return
        metrics.log_scalar("policy_loss", total("policy_loss") / drawn / math.log(2), drawn, round=3)
        metrics.log_scalar("sampled_words", total("sampled_words") / drawn, drawn, round=1)
        metrics.log_scalar("unfinished", total("unfinished") / drawn, drawn, round=3)
        names = {key for output in logging_outputs for key in output if key.startswith(("reward_", "greedy_"))}
        for name in sorted(name for name in names if not name.endswith("_count")):
            count = total(f"reward_{name.partition('_')[2]}_count")
            metrics.log_scalar(name, total(name) / count, count, round=4)
