"""ROUGE scores (``--eval-rouge``) and logged samples (``--validation-samples``) during validation."""

import json
import logging
import math
import re
from argparse import Namespace
from dataclasses import fields
from typing import Any, Dict, List, Optional, Sequence

import torch
from fairseq import utils
from fairseq.data import Dictionary, encoders
from fairseq.dataclass.configs import GenerationConfig
from fairseq.logging import metrics
from fairseq.registry import REGISTRIES
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from torch import Tensor

from ..evaluation.rouge import METRICS, RougeSettings, score_pair
from ..layers.decoder_output import unwrap_model
from ..platform.errors import InputError
from ..search.options import check_values
from ..text import tokenizer  # noqa: F401  # registers --tokenizer etads
from ..text.subwords import OPAQUE, SUBWORDS
from ..text.words import LATIN, has_uncounted_letters
from ..vocabulary.dictionary import detect_subword_type, detect_word_type, make_fairseq_subword_encoder

logger = logging.getLogger(__name__)
sample_logger = logging.getLogger(f"{__name__}.samples")
"""Logger for the samples in a validation set.

fairseq silences the root logger of all workers except the first, but each worker may have to log a sample. A worker
with fewer batches than the others evaluates the first batch of the set again, so a sample can be logged twice.
"""
sample_logger.setLevel(logging.INFO)

POST_PROCESS = ("auto", "none", "subword_nmt", "sentencepiece", "wordpiece", "letter", "_EOW", *OPAQUE)
"""Values of ``--eval-rouge-post-process``: "auto", the kinds in OPAQUE, and fairseq's ``--post-process`` values."""

_NOT_IN_VALIDATION = (
    *("constraints", "eos_token", "lm_path", "no_seed_provided", "prefix_size", "print_alignment", "retain_dropout"),
    *("retain_dropout_modules", "sacrebleu"),
)
"""Generation options that fairseq-generate reads but validation does not."""

SHOWN_DOCUMENT = 200
"""Maximum number of characters of a document to log in a sample."""

_QUALITY = re.compile(r"accuracy|auc|f1|rewritten_rouge1|(reward|greedy|raml_reward)(_.+(?<!_loss))?")
"""Pattern for the names of criterion metrics that should be maximised. ROUGE scores are not included."""

_BRACKETS = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}
_BRACKET = re.compile(r"(?<!\S)-[lr][rsc]b-(?!\S)", re.IGNORECASE)
UNKNOWN_WORD = "<unk>"
_UNKNOWN = {"hypothesis": "unknownwordofhypothesis", "reference": "unknownwordofreference"}


def check_best_metric(eval_rouge: bool, metric: str, maximize: bool) -> None:
    """Raise ValueError if the metric for selecting the best checkpoint is not computed or is minimised by mistake.

    Without this check, training could fail at the first validation, or select the worst checkpoint as the best.
    """
    if metric in METRICS and not eval_rouge:
        raise ValueError(f"--best-checkpoint-metric {metric}: add --eval-rouge, which computes it")
    if not maximize and (metric in METRICS or _QUALITY.fullmatch(metric)):
        raise ValueError(
            f"--best-checkpoint-metric {metric}: add --maximize-best-checkpoint-metric, because higher is better"
        )


def parse_json_option(option: str, text: Optional[str]) -> Dict[str, Any]:
    """Parse the value of an option as a JSON object, in which "max-len" is the same as "max_len".

    Raises ValueError if the value is not a JSON object.
    """
    try:
        values = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        raise ValueError(f"{option} '{text}': not JSON ({error})") from None
    if not isinstance(values, dict):
        raise ValueError(f"{option} '{text}': must be a JSON object, such as {{\"beam\": 4}}")
    return {name.replace("-", "_"): value for name, value in values.items()}


def parse_generation_options(text: Optional[str], longest: int) -> Any:
    """Parse fairseq's generation options from a JSON object, in which ``max_len_b`` is ``longest`` by default.

    Raises:
        ValueError: ``text`` is not a JSON object, an option does not exist or has no effect in validation, or a value
            has the wrong type or is out of bounds.
    """
    option = "--eval-rouge-args"
    values = parse_json_option(option, text)
    known = sorted({field.name for field in fields(GenerationConfig)} - {"_name", "score_reference"})
    for name in values:
        if name not in known:
            choices = ", ".join(name for name in known if name not in _NOT_IN_VALIDATION)
            raise ValueError(
                f'{option}: there is no "{name}"; choose from {choices}. The options of the task, such as '
                "--coverage-penalty, must be given to fairseq-train itself"
            )
        if name in _NOT_IN_VALIDATION and values[name]:
            raise ValueError(f"{option}: {name} has no effect in validation; leave it out")
    found = _override_dataclass_defaults(option, GenerationConfig, {"max_len_b": longest, **values})
    try:
        check_values({name: found[name] for name in values})
    except InputError as error:
        raise ValueError(f"{option}: {error}") from None
    for name in ("sampling_topk", "sampling_topp"):
        if found[name] > 0 and not found.sampling:
            raise ValueError(f"{option}: {name} has no effect without sampling")
    return found


def _override_dataclass_defaults(option: str, config: Any, values: Dict[str, Any]) -> Any:
    """Return the options of a dataclass with the given values. Raises ValueError if a value has the wrong type."""
    try:
        return OmegaConf.merge(OmegaConf.structured(config), values)
    except OmegaConfBaseException as error:
        raise ValueError(f"{option} '{json.dumps(values)}': {str(error).splitlines()[0]}") from None


def build_detokenizer(name: str, text: Optional[str]) -> Any:
    """Build one of fairseq's tokenisers, such as "etads" or "moses", with options in a JSON object.

    Raises:
        ValueError: the tokeniser or an option does not exist, or a value has the wrong type.
    """
    option = "--eval-rouge-detok-args"
    values = parse_json_option(option, text)
    if name not in encoders.TOKENIZER_REGISTRY:
        choices = ", ".join(sorted(encoders.TOKENIZER_REGISTRY))
        raise ValueError(f"--eval-rouge-detok {name}: choose from {choices}")
    config = REGISTRIES["tokenizer"]["dataclass_registry"].get(name)
    if config is not None:  # a tokeniser of another package need not declare its options
        known = sorted({field.name for field in fields(config)} - {"_name"})
        for given in values:
            if given not in known:
                raise ValueError(f'{option}: {name} has no "{given}"; choose from {", ".join(known) or "no options"}')
        found = _override_dataclass_defaults(option, config, values)
        values = {given: found[given] for given in values}
    return encoders.build_tokenizer(Namespace(tokenizer=name, **values))


class ValidationSummarizer:
    """Summarise the first documents of a validation set to compute ROUGE scores and log samples.

    Samples are logged as detokenised text. Without ``--eval-rouge-detok``, the tokenisation of the data is detected
    from the dictionary (see :func:`detect_word_type`), and ROUGE is computed on the tokenised text.

    Each worker logs sums over its documents, together with the number of documents. The mean scores therefore do not
    depend on the batches or the number of workers. The generator is created for the first batch of a validation and
    deleted before the next training step, because its copies of the model use memory.

    Raises:
        ValueError: an option has an invalid value.
    """

    def __init__(self, task: Any, cfg: Any):
        self.task = task
        self.scored = cfg.eval_rouge_samples if cfg.eval_rouge else 0
        self.shown = max(cfg.validation_samples, cfg.eval_rouge_print_samples)
        self.documents = max(self.scored, self.shown)
        self.options = parse_generation_options(cfg.eval_rouge_args, task.truncate_target)
        self.post_process = str(cfg.eval_rouge_post_process)
        if self.post_process == "auto":
            self.post_process = detect_subword_type(task.target_dictionary, cfg.data)
        self.pieces = make_fairseq_subword_encoder(self.post_process, cfg.data) if self.post_process in OPAQUE else None
        if self.post_process in OPAQUE and self.pieces is None:
            missing = (
                f"{' and '.join(SUBWORDS[self.post_process].values())} are not in DATA's folder, where etads-prepare "
                f"--tokens {self.post_process} puts them"
            )
            if str(cfg.eval_rouge_post_process) in OPAQUE:
                raise ValueError(f"--eval-rouge-post-process {self.post_process}: {missing}")
            logger.warning(f"--eval-rouge: ROUGE is computed on the ids of pieces, because {missing}")
        self.detokenizer = None
        if cfg.eval_rouge_detok:
            self.detokenizer = build_detokenizer(cfg.eval_rouge_detok, cfg.eval_rouge_detok_args)
        self._sample_detokenizer: Any = self.detokenizer
        if self.shown and self.detokenizer is None:
            kind = detect_word_type(task.target_dictionary, self.post_process)
            self._sample_detokenizer = encoders.build_tokenizer(Namespace(tokenizer="etads", text_words=kind))
        self._generator: Optional[Any] = None
        self._is_checked = False
        self._settings = RougeSettings(metrics=METRICS, tokens=self._choose_tokens() if cfg.eval_rouge else LATIN)
        uses = [f"ROUGE of {self.scored:,}"] * bool(self.scored) + [f"{self.shown:,} in the log"] * bool(self.shown)
        logger.info(
            f"summaries of the first documents of a validation set ({', '.join(uses)}): at most "
            f"{self.options.max_len_b} tokens, beam {self.options.beam}; subwords: {self.post_process}"
        )

    def _choose_tokens(self) -> str:
        """Choose the words that ROUGE counts from the words of the dictionary, so that all workers choose the same."""
        dictionary = self.task.target_dictionary
        words = [self.pieces.decode(word) if self.pieces else word for word in dictionary.symbols]
        counts = dictionary.count[dictionary.nspecial :]
        # GPT-2's pieces of other scripts can be incomplete characters, which are decoded to U+FFFD.
        found = (has_uncounted_letters(word) or "\ufffd" in word for word in words[dictionary.nspecial :])
        uncounted, total = sum(number for number, is_other in zip(counts, found) if is_other), sum(counts)
        tokens = "words" if 50 * uncounted >= total > 0 else LATIN
        if uncounted:
            logger.warning(
                f"--eval-rouge: {uncounted:,} of {total:,} tokens have letters that ROUGE does not count; "
                + ("words of all letters are counted, as with" if tokens != LATIN else "etads-rouge counts them with")
                + " --tokens words"
            )
        return tokens

    def check_generator(self, model: Any) -> None:
        """Create a generator once and discard it, so that unsuitable options cause an error before validation.

        Raises ValueError if the options are incompatible with each other, the model or the data, and InputError if a
        file is missing or damaged.
        """
        if not self._is_checked:
            self.task.build_generator([unwrap_model(model)], self.options)
            self._is_checked = True

    def delete_generator(self) -> None:
        """Delete the generator and its copies of the model, which would use memory. The task calls this in training."""
        self._generator = None

    def _join_words(self, tokens: Tensor, dictionary: Dictionary, unknown: str) -> str:
        """Join subwords (T,) into words, and write the brackets of Penn Treebank tokens."""
        symbol = None if self.post_process == "none" else self.post_process
        words = utils.strip_pad(tokens.int().cpu(), dictionary.pad())
        if self.pieces is None:
            text = dictionary.string(words, symbol, unk_string=unknown)
        else:  # the decoder recognises the unknown word only in this form
            text = self.pieces.decode(dictionary.string(words, unk_string=UNKNOWN_WORD)).replace(UNKNOWN_WORD, unknown)
        return _BRACKET.sub(lambda name: _BRACKETS[name.group().lower()], text)

    def decode(self, tokens: Tensor, role: str) -> str:
        """Convert the tokens of a summary, dictionary ids (T,), to the text that is passed to ROUGE.

        The unknown word is replaced with different words in a "hypothesis" and a "reference" (``role``), so that it
        never matches. Tokens such as ``-lrb-`` are replaced with brackets, because ROUGE would treat them as words.
        """
        text = self._join_words(tokens, self.task.target_dictionary, _UNKNOWN[role])
        return text if self.detokenizer is None else self.detokenizer.decode(text)

    def score(self, sample: Dict[str, Any], model: Any) -> Dict[str, float]:
        """Generate summaries for a batch, score them with ROUGE, and log samples.

        For each document of the batch, "references" contains the dictionary ids of the untruncated reference summary
        (T,), or None if the document is not to be summarised.

        Returns the number of scored documents ("_rouge_documents") and the sums of their F1 scores in [0, 100]
        ("_rouge1", "_rouge2" and "_rougeL"), or an empty dictionary without ``--eval-rouge``.
        """
        rows = [row for row, reference in enumerate(sample.get("references", [])) if reference is not None]
        sums = dict.fromkeys(("_rouge_documents", *(f"_{name}" for name in METRICS)), 0.0) if self.scored else {}
        if not rows:
            return sums
        for row, tokens in zip(rows, self._generate_summaries(sample, model, rows)):
            document, target = int(sample["id"][row]), sample["references"][row]
            if document < self.shown:
                self._log_sample(document, sample["net_input"]["src_tokens"][row], tokens, target)
            if document < self.scored:
                texts = self.decode(tokens, "hypothesis"), self.decode(target, "reference")
                scores = score_pair([self._settings.prepare(text) for text in texts], self._settings)
                sums["_rouge_documents"] += 1
                for name, value in zip(METRICS, scores[:, 0].tolist()):
                    sums[f"_{name}"] += 100 * value
        return sums

    def _log_sample(self, number: int, document: Tensor, summary: Tensor, reference: Tensor) -> None:
        """Log the texts of a document (S,), its summary (T,) and its reference (T',) by their dictionary ids."""
        source, target = self.task.source_dictionary, self.task.target_dictionary
        for what, tokens, dictionary in (
            ("document: ", document, source), ("summary:  ", summary, target), ("reference:", reference, target),
        ):  # fmt: skip
            text = self._sample_detokenizer.decode(self._join_words(tokens, dictionary, UNKNOWN_WORD))
            if what == "document: " and len(text) > SHOWN_DOCUMENT:
                text = f"{text[:SHOWN_DOCUMENT]}…"
            sample_logger.info(f"validation sample {number} {what} {text}")

    def _generate_summaries(self, sample: Dict[str, Any], model: Any, rows: Sequence[int]) -> List[Tensor]:
        """Generate a summary of each document in ``rows`` of a batch. Returns the summaries' dictionary ids (T,)."""
        model = unwrap_model(model)
        if self._generator is None:
            self._generator = self.task.build_generator([model], self.options)
        chosen = torch.tensor(rows, device=sample["net_input"]["src_tokens"].device)
        part = {
            "id": sample["id"][chosen],
            "net_input": utils.apply_to_sample(lambda tensor: tensor[chosen], sample["net_input"]),
        }
        if "selection" in sample:
            part["selection"] = sample["selection"][chosen]
        cuda = chosen.is_cuda
        # Sampling (--eval-rouge-args) uses random numbers, but must not affect the random numbers in training.
        with torch.random.fork_rng(devices=[chosen.device] if cuda else []):
            hypotheses = self.task.inference_step(self._generator, [model], part)
        return [found[0]["tokens"] for found in hypotheses]

    @staticmethod
    def reduce_metrics(logging_outputs: Sequence[Dict[str, Any]]) -> None:
        """Log the sums over all workers. At the end of a validation, fairseq computes the means from these sums."""
        if not any("_rouge_documents" in output for output in logging_outputs):
            return
        for name in ("_rouge_documents", *(f"_{name}" for name in METRICS)):
            metrics.log_scalar_sum(name, sum(float(output.get(name, 0)) for output in logging_outputs))
        for name in METRICS:
            metrics.log_derived(
                name,
                lambda meters, name=name: round(
                    meters[f"_{name}"].smoothed_value / max(meters["_rouge_documents"].smoothed_value, 1), 4
                ),
            )


def describe_training_plan(cfg: Any, epoch_itr: Any) -> List[str]:
    """Return lines about updates, validation, patience, learning rate and the batches of the first epoch."""
    freq, patience = cfg.optimization.update_freq[0], cfg.checkpoint.patience
    per_epoch = max(math.ceil(len(epoch_itr) / freq), 1)
    interval = cfg.dataset.validate_interval_updates or cfg.checkpoint.save_interval_updates
    every = interval if interval > 0 else cfg.dataset.validate_interval * per_epoch
    lines = [f"{per_epoch:,} updates in an epoch", "no validation"]
    if not cfg.dataset.disable_validation:
        at_end = " and at the end of each epoch" if interval > 0 and cfg.dataset.validate_interval == 1 else ""
        lines[1] = f"validation every {every:,} updates (epochs: {every / per_epoch:.3g}){at_end}"
        if patience > 0:  # training may end earlier, because validations at the end of an epoch also count
            lines.append(
                f"patience: training ends after {patience} validations without a better "
                f"{cfg.checkpoint.best_checkpoint_metric}, at most {patience * every:,} updates"
            )
    scheduler = getattr(cfg.lr_scheduler, "_name", None) or "fixed"
    warmup = getattr(cfg.lr_scheduler, "warmup_updates", 0) or 0
    lines.append(f"peak rate {max(cfg.optimization.lr):.3g}, {warmup:,} updates of warm-up ({scheduler})")
    sizes, batches = getattr(epoch_itr.dataset, "src_sizes", None), getattr(epoch_itr, "frozen_batches", None)
    if sizes is not None and batches:
        tokens = sum(float(sizes[list(batch)].sum()) for batch in batches) / len(batches)
        update = tokens * getattr(epoch_itr, "num_shards", 1) * freq
        lines.append(f"{tokens:,.0f} source tokens in a batch on average, {update:,.0f} in an update")
    return lines
