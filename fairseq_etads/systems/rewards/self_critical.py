"""The criterion ``summarization_rl``: self-critical training with the rewards of sampled summaries.

Trained models supply saliencies and entailment probabilities for the rewards ``rougesal`` and ``entail`` (Pasunuru and
Bansal 2018), whose formulas :mod:`fairseq_etads.evaluation.rewards` defines.
"""

import logging
import math
from dataclasses import dataclass, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from fairseq import checkpoint_utils
from fairseq import search as fairseq_search
from fairseq.criterions import register_criterion
from fairseq.data import data_utils
from fairseq.dataclass import ChoiceEnum
from fairseq.logging import metrics
from torch import Tensor

from ...data.labels import compute_idf
from ...evaluation.rewards import EntailmentReward, Reward, RougeSalReward, Weights, create_reward
from ...layers.decoder_output import Capabilities, WordRequest, get_decoder_capabilities, unwrap_model
from ...layers.sentence_selector import to_device
from ...models.selector import WordTagger
from ...platform.command_options import SIZE, Bounds, check_options, format_option, get_given_options, option
from ...platform.optional_parts import explain_missing_system, is_system_installed
from ...search.ensemble import EncodedBatch
from ...search.generator import SummaryGenerator, keep_evaluation_mode
from ...search.inference import InferenceModel
from ...search.strategies import SamplingWithGreedyHypothesis
from ...text.subsequences import Text, split_sentences
from ...text.subwords import OPAQUE, join_words
from ...text.words import SENTENCE_MARK
from ...training.losses import SummarizationNLL, SummarizationNLLConfig
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


BASELINES = ("greedy", "others", "none")
_OF_LIKELIHOOD = tuple(option.name for option in fields(SummarizationNLLConfig) if option.name != "sentence_avg")


@dataclass
class SummarizationRLConfig(SummarizationNLLConfig):
    """Options of ``--criterion summarization_rl``."""

    rewards: str = option(
        "rougeL",
        "reward of a summary: rouge1, rouge2 or rougeL (F1 on the tokens of the data), rougesal, entail, "
        "or module:Class (your own class); several rewards, separated by commas, alternate between updates",
    )
    rougesal_saliency: str = option(
        IDF,
        "word weights in the rougesal reward: idf (inverse document frequency, at most 1), or the "
        "checkpoint of a tagger (--arch word_tagger) that predicts a probability for each word in its sentence",
        needs=("--rewards rougesal",),
    )
    entail_model: Optional[str] = option(
        None,
        "folder containing the model for the entail reward, created by etads-nli train",
        needs=("--rewards entail",),
    )
    entail_length_cap: str = option(
        "1",
        "upper bound of the length ratio (summary length / reference length) by which the entail reward is "
        "multiplied (none: no bound)",
        needs=("--rewards entail",),
    )
    rl_weight: float = option(
        0.998,
        "weight (gamma) of the reward loss; the weight of the likelihood loss, including terms such as "
        "--coverage-loss, is 1 - gamma",
        bounds=Bounds(0, most=1),
    )
    rl_max_len: int = option(100, "maximum number of tokens in a sampled summary", bounds=Bounds(1, what="tokens"))
    rl_samples: int = option(1, "number of summaries to sample for each document", bounds=SIZE)
    rl_baseline: ChoiceEnum(list(BASELINES)) = option(  # type: ignore[valid-type]
        "greedy",
        "baseline that is subtracted from the reward of a sample. greedy: the reward of the greedy "
        "summary; others: the mean reward of the document's other samples, for --rl-samples 2 or more; none: 0",
        of_values={"others": {"excludes": {"--rl-samples 1": "choose 2 samples or more"}}},
    )


class SampledSummaries:
    """The sampled summaries of a batch, dictionary ids with the end symbol, converted to decoder inputs and targets.

    A summary of more than ``longest`` tokens before the end symbol was truncated: its end symbol was not generated and
    must not be scored.

    Attributes:
        target, previous: ids (B, T) of the scored tokens and of the tokens before them, padded on the right.
        words: number of scored tokens in each summary (B,).
        unfinished: number of truncated summaries.
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
    """Self-critical policy gradient with maximum likelihood (Rennie et al. 2017; Paulus et al. 2018, section 3.2).

    In training, a summary y^s is sampled from the model and a summary y^g is decoded greedily, both without dropout.
    The loss is:

        L_RL = -(r(y^s) - r(y^g)) (1 / n) sum_t log p(y^s_t | y^s_<t, x)
        L = gamma L_RL + (1 - gamma) L_NLL

    With several samples per document, L_RL is averaged over the samples, and r(y^g) can be replaced with the mean
    reward of the document's other samples (Kool et al. 2019). L_NLL is the loss of ``summarization_nll
    --length-normalised``. log p is computed in a single forward pass; the end symbol is treated like a word.

    n is the mean length of the references in the batch. If it were the length of the sample, long samples would be
    penalised least, because samples have lower rewards than greedy summaries on average, and summaries would become
    longer during training.

    Raises:
        ValueError: an option has an invalid value, or summaries cannot be sampled from the model.
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
        check_options(SimpleNamespace(**locals()), SummarizationRLConfig)
        self.rewards = RewardFunctions(rewards, rougesal_saliency, entail_model, entail_length_cap, task)
        self.rl_weight, self.longest = rl_weight, rl_max_len
        self.samples, self.baseline = rl_samples, str(rl_baseline)
        self.dictionary, self.documents = task.target_dictionary, task.source_dictionary
        # PyTorch does not register modules inside a tuple. If the model were an attribute, it would become a submodule
        # of the criterion and be stored in checkpoints.
        self._drawing: Tuple[Any, ...] = ()  # the model, its inference copy, and the generator

    @classmethod
    def check_options(cls, cfg: Any, capabilities: Capabilities) -> None:
        """Raise ValueError if an option has no effect, or if the model's ``capabilities`` do not suit the options."""
        given = get_given_options(cfg, SummarizationRLConfig)
        refused = {}
        if cfg.rl_weight == 1:
            refused = dict.fromkeys(_OF_LIKELIHOOD, "--rl-weight 1, which excludes the likelihood")
        elif cfg.rl_weight == 0:
            others = (*_OF_LIKELIHOOD, "sentence_avg", "rl_weight")
            of_rewards = (option.name for option in fields(SummarizationRLConfig) if option.name not in others)
            refused = dict.fromkeys(of_rewards, "--rl-weight 0, which excludes rewards")
        for name in ("sentence_avg", "length_normalised"):
            if getattr(cfg, name, False):
                given[name] = True
                refused[name] = (
                    "--criterion summarization_rl, whose loss is always the mean over summaries: leave it out"
                )
        for name, reason in refused.items():
            if name in given:
                raise ValueError(f"{format_option(name, given[name])} has no effect with {reason}")

    def __getstate__(self) -> Dict[str, Any]:
        return {**vars(self), "_drawing": ()}

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, int, Dict[str, Any]]:
        """Compute the loss of ``summarization_rl`` in training, and the likelihood loss in validation."""
        total, size, logs = super().forward(model, sample, reduce)
        if not model.training or self.rl_weight == 0:
            return total, size, logs
        # The update number selects the reward, so that all batches of an update use the same reward.
        number = self._updates % len(self.rewards)
        encoder_out = self.encode(model, sample)
        sampled, greedy = self.sample_summaries(model, sample, encoder_out)
        advantages, figures = self.compute_advantages(sample, sampled, greedy, number)
        # Divide the loss by the mean length of the references.
        advantages = advantages / self.samples * len(sample["target"]) / sample["ntokens"]
        longest = self._compute_maximum_summary_length(unwrap_model(model))
        drawn = SampledSummaries(sampled, longest, self.dictionary)
        taught = advantages.nonzero().flatten()  # a sample has no gradient if its reward equals its baseline
        policy = total.new_zeros(())
        if len(taught):
            some = SampledSummaries([sampled[row] for row in taught.tolist()], longest, self.dictionary)
            with keep_evaluation_mode([model]):  # without dropout
                policy = self.compute_policy_loss(model, encoder_out, some, advantages[taught], taught // self.samples)
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
        """Encode the documents for sampling and for the loss. Dropout is disabled, but gradients are computed."""
        with keep_evaluation_mode([model]):
            return unwrap_model(model).encoder.forward_torchscript(sample["net_input"])

    def sample_summaries(
        self, model: Any, sample: Dict[str, Any], encoder_out: Optional[Any] = None
    ) -> Tuple[List[Tensor], List[Tensor]]:
        """Generate sampled and, if they are the baseline, greedy summaries of the documents in a batch.

        Each summary consists of dictionary ids (T,) with the end symbol. Samples of the same document are adjacent. If
        ``encoder_out``, from :meth:`encode`, is None or on a GPU, the documents are encoded again.
        """
        model = unwrap_model(model)
        if not self._drawing or self._drawing[0] is not model:
            inference = InferenceModel(model)
            self._drawing = (model, inference, self._make_summary_generator(model, inference))
        _, inference, generator = self._drawing
        encoded = None
        # EncodedBatch stores its contents on the CPU. Therefore, use it only if the model is on the CPU.
        if encoder_out is not None and sample["net_input"]["src_tokens"].is_cpu:
            encoded = EncodedBatch()
            encoded.store(0, inference.get_current_copy(), "encoder_out", encoder_out)
        sampled: List[Tensor] = []
        greedy: List[Tensor] = []
        for hypotheses in generator.generate(None, sample, encoded=encoded):
            summaries = [hypothesis["tokens"] for hypothesis in hypotheses]
            if self.baseline == "greedy":
                greedy.append(summaries.pop(0))
            sampled.extend(summaries)
        return sampled, greedy

    def _compute_maximum_summary_length(self, model: Any) -> int:
        """Return the maximum number of tokens before the end symbol: --rl-max-len, or the model's limit if lower."""
        return int(min(self.longest, model.max_decoder_positions() - 1))

    def _make_summary_generator(self, model: Any, inference: InferenceModel) -> SummaryGenerator:
        if not get_decoder_capabilities(model).shares_documents:
            raise ValueError("--criterion summarization_rl: works only with models of this project")
        beam, strategy = self.samples, fairseq_search.Sampling(self.dictionary)  # each beam is sampled independently
        if self.baseline == "greedy":
            beam, strategy = self.samples + 1, SamplingWithGreedyHypothesis(self.dictionary)
        return SummaryGenerator(
            [model],
            self.dictionary,
            beam,
            max_len_b=self._compute_maximum_summary_length(model),
            min_len=0,
            normalize_scores=False,
            search_strategy=strategy,
            inference_models=[inference],
            keep_attention=False,
        )

    def compute_advantages(
        self, sample: Dict[str, Any], sampled: List[Tensor], greedy: List[Tensor], number: int
    ) -> Tuple[Tensor, Dict[str, float]]:
        """Compute each sample's reward minus its baseline, (B * samples,), float32, and the metrics to log.

        ``sampled`` and ``greedy`` are dictionary ids of the summaries, and ``number`` is the index of the reward.

        Raises:
            ValueError: the reward does not return a finite number for each summary.
        """
        name, device = self.rewards.names[number], sample["target"].device
        references = self._convert_to_sentences(sample["target"], self.dictionary)
        documents = self._convert_to_sentences(sample["net_input"]["src_tokens"], self.documents)

        def compute_rewards(summaries: List[Tensor], each: int) -> Tensor:
            """Compute the rewards (B, each) of ``each`` summaries per document."""
            wanted, read = ([text for text in texts for _ in range(each)] for texts in (references, documents))
            values = torch.as_tensor(
                self.rewards(number, self._convert_to_sentences(summaries, self.dictionary), wanted, read, device)
            )
            if values.shape != (len(summaries),) or not bool(values.isfinite().all()):
                raise ValueError(f"--rewards {name}: it must return a finite number for each summary, not {values}")
            return values.float().view(-1, each)

        rewards = compute_rewards(sampled, self.samples)
        baseline = torch.zeros(1)
        figures = {f"reward_{name}": float(rewards.mean(1).sum()), f"reward_{name}_count": len(references)}
        if self.baseline == "greedy":
            baseline = compute_rewards(greedy, 1)
            figures[f"greedy_{name}"] = float(baseline.sum())
        elif self.baseline == "others":
            baseline = (rewards.sum(1, keepdim=True) - rewards) / (self.samples - 1)
        return (rewards - baseline).flatten(), figures

    @staticmethod
    def _convert_to_sentences(rows: Sequence[Tensor], dictionary: Any) -> List[Text]:
        """Convert the dictionary ids of summaries or documents to tokenised sentences. The ids may contain padding."""
        skipped = {dictionary.pad(), dictionary.bos(), dictionary.eos()}
        words = ([dictionary[index] for index in row.tolist() if index not in skipped] for row in rows)
        return [split_sentences(text, SENTENCE_MARK) for text in words]

    def compute_policy_loss(
        self, model: Any, encoder_out: Any, drawn: SampledSummaries, advantages: Tensor, of: Tensor
    ) -> Tensor:
        """Compute the policy loss, the sum of -advantage times log-probability over all samples.

        The ``advantages`` (N,), without gradients, are each sample's reward minus its baseline, and ``of`` (N,) is the
        index of its document.
        """
        model = unwrap_model(model)
        device = next(model.parameters()).device
        encoder_out = model.encoder.reorder_encoder_out(encoder_out, to_device(of, device))
        target = to_device(drawn.target, device)
        log_p = self._compute_sampling_log_probs(model, encoder_out, to_device(drawn.previous, device), target)
        return -(log_p.masked_fill(target == self.padding_idx, 0).sum(dim=1) * to_device(advantages, device)).sum()

    def _compute_sampling_log_probs(self, model: Any, encoder_out: Any, previous: Tensor, target: Tensor) -> Tensor:
        """Compute the log-probabilities (N, T) of the tokens under the distribution from which they were sampled."""
        request = WordRequest(target, whole=True)
        output = model.decoder(previous, encoder_out=encoder_out, request=request)
        scores = model.get_normalized_probs(output, log_probs=True)  # (N, T, extended ids)
        # If these were included here, samples with a reward below their baseline would increase the probabilities of
        # tokens that are excluded when summaries are sampled, and no sample could decrease them.
        never = [self.padding_idx]
        if get_decoder_capabilities(model).pointer is not None:
            never.append(self.unk)
        scores = scores.index_fill(2, to_device(torch.tensor(never), scores.device), -math.inf)
        words = model.get_targets({"target": target}, output)
        return scores.gather(2, words[:, :, None])[:, :, 0] - scores.logsumexp(dim=2)

    @classmethod
    def reduce_metrics(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Aggregate the metrics of ``summarization_nll``, and log the mean reward and length of the samples."""
        super().reduce_metrics(logging_outputs)

        def sum_logged_values(name: str) -> float:
            return sum(float(output.get(name, 0)) for output in logging_outputs)

        drawn = sum(float(output["nsentences"]) for output in logging_outputs if "sampled_words" in output)
        if not drawn:
            return
        metrics.log_scalar("policy_loss", sum_logged_values("policy_loss") / drawn / math.log(2), drawn, round=3)
        metrics.log_scalar("sampled_words", sum_logged_values("sampled_words") / drawn, drawn, round=1)
        metrics.log_scalar("unfinished", sum_logged_values("unfinished") / drawn, drawn, round=3)
        names = {key for output in logging_outputs for key in output if key.startswith(("reward_", "greedy_"))}
        for name in sorted(name for name in names if not name.endswith("_count")):
            count = sum_logged_values(f"reward_{name.partition('_')[2]}_count")
            metrics.log_scalar(name, sum_logged_values(name) / count, count, round=4)
