"""Summaries in validation: their ROUGE scores (``--eval-rouge``), and samples to read (``--validation-samples``)."""

import json
import logging
import re
from argparse import Namespace
from dataclasses import fields
from typing import Any, Dict, List, Optional, Sequence

import torch
from fairseq import utils
from fairseq.data import Dictionary, encoders
from fairseq.dataclass.configs import GenerationConfig
from fairseq.logging import metrics
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from torch import Tensor

from ..evaluation.rouge import METRICS, Settings, score_pair
from ..layers.decoder_output import unwrapped
from ..text import tokenizer  # noqa: F401  # registers --tokenizer etads
from ..text.subwords import OPAQUE, SUBWORDS
from ..vocabulary.kinds import detect_subwords, detect_words, opaque_pieces

logger = logging.getLogger(__name__)
sample_logger = logging.getLogger(f"{__name__}.samples")
"""Logger of samples from every worker. fairseq silences the root logger of all workers but the first, and any worker
may have a sample. (A worker without a last batch repeats its first batch, so a sample can be logged twice.)
"""
sample_logger.setLevel(logging.INFO)

POST_PROCESS = ("auto", "none", "subword_nmt", "sentencepiece", "wordpiece", "letter", "_EOW", *OPAQUE)
"""Values of ``--eval-rouge-post-process``: "auto", the values of fairseq's ``--post-process``, and OPAQUE's kinds."""

SHOWN_DOCUMENT = 200
"""Maximum number of characters of a sample's document in the log."""

_BRACKETS = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}
_BRACKET = re.compile(r"(?<!\S)-[lr][rsc]b-(?!\S)", re.IGNORECASE)
UNKNOWN_WORD = "<unk>"
_UNKNOWN = {"hypothesis": "unknownwordofhypothesis", "reference": "unknownwordofreference"}


def check_best_metric(eval_rouge: bool, metric: str, maximize: bool) -> None:
    """Reject a ``--best-checkpoint-metric`` that would fail hours later or select the worst checkpoint.

    Raises:
        ValueError: the metric is a ROUGE score, but ROUGE is not computed or would be minimised.
    """
    if metric not in METRICS:
        return
    if not eval_rouge:
        raise ValueError(f"--best-checkpoint-metric {metric}: add --eval-rouge, which computes it")
    if not maximize:
        raise ValueError(
            f"--best-checkpoint-metric {metric}: add --maximize-best-checkpoint-metric, because higher is better"
        )


def parse_json(option: str, text: Optional[str]) -> Dict[str, Any]:
    """Parse the JSON object in the value of ``option``; ValueError if the value is not a JSON object."""
    try:
        values = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        raise ValueError(f"{option} '{text}': not JSON ({error})") from None
    if not isinstance(values, dict):
        raise ValueError(f"{option} '{text}': must be a JSON object, such as {{\"beam\": 4}}")
    return values


def generation_options(text: Optional[str], longest: int) -> Any:
    """Read fairseq's options of generation from a JSON object.

    Args:
        text: the JSON object as text.
        longest: the value of ``max_len_b`` if the JSON object does not set it.

    Raises:
        ValueError: the text is not JSON, an option is unknown, or a value has the wrong type.
    """
    option = "--eval-rouge-args"
    values: Any = {name.replace("-", "_"): value for name, value in parse_json(option, text).items()}
    known = sorted({field.name for field in fields(GenerationConfig)} - {"_name", "score_reference"})
    for name in values:
        if name not in known:
            raise ValueError(
                f'{option}: there is no "{name}"; choose from {", ".join(known)}. The options of the task, such as '
                "--coverage-penalty, must be given to fairseq-train itself"
            )
    try:
        return OmegaConf.merge(OmegaConf.structured(GenerationConfig), {"max_len_b": longest, **values})
    except OmegaConfBaseException as error:
        raise ValueError(f"{option} '{text}': {str(error).splitlines()[0]}") from None


class ValidationSummaries:
    """Summaries of the first documents of a validation set, for ROUGE and for samples in the log.

    Samples are logged as text. Without ``--eval-rouge-detok``, the kind of tokenisation is detected from the dictionary
    (:func:`detect_words`), and ROUGE is computed on the words in the data.

    Workers log sums over documents and the number of documents, so that the means depend neither on batches nor on the
    number of workers. The generator is built for the first batch of a validation and dropped before the next training
    step. Otherwise, its copies of the model would become outdated and use memory during training.

    Args:
        task: the summarisation task, which provides the generator and the dictionary.
        cfg: the task's options.

    Raises:
        ValueError: an option has an impossible value.
    """

    def __init__(self, task: Any, cfg: Any):
        self.task = task
        self.scored = cfg.eval_rouge_samples if cfg.eval_rouge else 0
        self.shown = max(cfg.validation_samples, cfg.eval_rouge_print_samples)
        self.documents = max(self.scored, self.shown)
        self.options = generation_options(cfg.eval_rouge_args, task.truncate_target)
        self.post_process = str(cfg.eval_rouge_post_process)
        if self.post_process == "auto":
            self.post_process = detect_subwords(task.target_dictionary, cfg.data)
        self.pieces = opaque_pieces(self.post_process, cfg.data) if self.post_process in OPAQUE else None
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
            options = parse_json("--eval-rouge-detok-args", cfg.eval_rouge_detok_args)
            names = encoders.TOKENIZER_REGISTRY
            if cfg.eval_rouge_detok not in names:
                raise ValueError(f"--eval-rouge-detok {cfg.eval_rouge_detok}: choose from {', '.join(sorted(names))}")
            self.detokenizer = encoders.build_tokenizer(Namespace(tokenizer=cfg.eval_rouge_detok, **options))
        self._sample_detokenizer: Any = self.detokenizer
        if self.shown and self.detokenizer is None:
            kind = detect_words(task.target_dictionary, self.post_process)
            self._sample_detokenizer = encoders.build_tokenizer(Namespace(tokenizer="etads", text_words=kind))
        self._generator: Optional[Any] = None
        uses = [f"ROUGE of {self.scored:,}"] * bool(self.scored) + [f"{self.shown:,} in the log"] * bool(self.shown)
        logger.info(
            f"summaries of the first documents of a validation set ({', '.join(uses)}): at most "
            f"{self.options.max_len_b} tokens, beam {self.options.beam}; subwords: {self.post_process}"
        )

    @staticmethod
    def wanted(cfg: Any) -> bool:
        """Return whether the options request summaries in validation."""
        return bool(cfg.eval_rouge or cfg.validation_samples)

    def forget(self) -> None:
        """Drop the generator with its copies of the model; called before every training step.

        A cached generator might not notice that the model has changed, because fairseq's own optimisers change
        parameters through ``.data``, which does not increase their version counters.
        """
        self._generator = None

    def _words(self, tokens: Tensor, dictionary: Dictionary, unknown: str) -> str:
        """Join the subwords of a text into words, and replace the Penn Treebank's bracket names with brackets.

        Args:
            tokens: ids (T,) of the dictionary.
            unknown: replacement of the unknown word.
        """
        symbol = None if self.post_process == "none" else self.post_process
        words = utils.strip_pad(tokens.int().cpu(), dictionary.pad())
        if self.pieces is None:
            text = dictionary.string(words, symbol, unk_string=unknown)
        else:  # the decoder recognises only this name of the unknown word
            text = self.pieces.decode(dictionary.string(words, unk_string=UNKNOWN_WORD)).replace(UNKNOWN_WORD, unknown)
        return _BRACKET.sub(lambda name: _BRACKETS[name.group().lower()], text)

    def decode(self, tokens: Tensor, role: str) -> str:
        """Return the text of a summary in the form in which it is scored.

        The unknown word is replaced by different words in hypotheses and references, so that it never matches. The
        token ``-lrb-`` is replaced by a bracket, because ROUGE would treat it as the word "lrb".

        Args:
            tokens: ids (T,) of the dictionary.
            role: "hypothesis" or "reference".
        """
        text = self._words(tokens, self.task.target_dictionary, _UNKNOWN[role])
        return text if self.detokenizer is None else self.detokenizer.decode(text)

    def score(self, sample: Dict[str, Any], model: Any) -> Dict[str, float]:
        """Generate the summaries of a batch, score them, and log samples of them.

        Args:
            sample: a batch; "references" contains the ids (T,) of the whole summary for each document to summarise, and
                None for other documents.

        Returns:
            "_rouge_documents", the number of scored documents, and "_rouge1", "_rouge2" and "_rougeL", the sums of
            their scores (F1 in [0, 100]); nothing without ``--eval-rouge``.
        """
        rows = [row for row, reference in enumerate(sample.get("references", [])) if reference is not None]
        sums = dict.fromkeys(("_rouge_documents", *(f"_{name}" for name in METRICS)), 0.0) if self.scored else {}
        if not rows:
            return sums
        settings = Settings(metrics=METRICS)
        for row, tokens in zip(rows, self._generate(sample, model, rows)):
            document, target = int(sample["id"][row]), sample["references"][row]
            if document < self.shown:
                self._log_sample(document, sample["net_input"]["src_tokens"][row], tokens, target)
            if document < self.scored:
                texts = self.decode(tokens, "hypothesis"), self.decode(target, "reference")
                scores = score_pair([settings.prepare(text) for text in texts], settings)
                sums["_rouge_documents"] += 1
                for name, value in zip(METRICS, scores[:, 0].tolist()):
                    sums[f"_{name}"] += 100 * value
        return sums

    def _log_sample(self, number: int, document: Tensor, summary: Tensor, reference: Tensor) -> None:
        """Log a document (S,), its summary (T,) and the reference (T',), all ids, as text."""
        source, target = self.task.source_dictionary, self.task.target_dictionary
        for what, tokens, dictionary in (
            ("document: ", document, source), ("summary:  ", summary, target), ("reference:", reference, target),
        ):  # fmt: skip
            text = self._sample_detokenizer.decode(self._words(tokens, dictionary, UNKNOWN_WORD))
            if what == "document: " and len(text) > SHOWN_DOCUMENT:
                text = f"{text[:SHOWN_DOCUMENT]}…"
            sample_logger.info(f"validation sample {number} {what} {text}")

    def _generate(self, sample: Dict[str, Any], model: Any, rows: Sequence[int]) -> List[Tensor]:
        """Generate the best summary (ids, (T,)) of each document in ``rows`` of a batch."""
        model = unwrapped(model)
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
        # Sampling (--eval-rouge-args) draws random numbers, but must not change the random numbers that training draws.
        with torch.random.fork_rng(devices=[chosen.device] if cuda else []):
            hypotheses = self.task.inference_step(self._generator, [model], part)
        return [found[0]["tokens"] for found in hypotheses]

    @staticmethod
    def reduce_metrics(logging_outputs: Sequence[Dict[str, Any]]) -> None:
        """Log the sums over all workers. At the end of a validation, fairseq derives the means from these sums."""
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
