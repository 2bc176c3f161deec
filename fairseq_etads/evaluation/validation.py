"""``--eval-rouge``: ROUGE of summaries that are generated during validation, as a figure to choose checkpoints by."""

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

from ..vocabulary.dictionary import known_words

logger = logging.getLogger(__name__)

ROUGE = ("rouge1", "rouge2", "rougeL")
POST_PROCESS = ("auto", "none", "subword_nmt", "sentencepiece", "wordpiece", "letter", "_EOW")
SUBWORDS = 0.02
"""Share of the known words that look like subwords, from which on they are taken for such."""

_BRACKETS = {"-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}"}
_BRACKET = re.compile(r"(?<!\S)-[lr][rsc]b-(?!\S)", re.IGNORECASE)
_UNKNOWN = {"hypothesis": "unknownwordofhypothesis", "reference": "unknownwordofreference"}


def check_best_metric(eval_rouge: bool, metric: str, maximize: bool) -> None:
    """Refuse a ``--best-checkpoint-metric`` that would fail, or choose the worst checkpoint, hours later."""
    if metric not in ROUGE:
        return
    if not eval_rouge:
        raise ValueError(f"--best-checkpoint-metric {metric}: add --eval-rouge, which computes it")
    if not maximize:
        raise ValueError(f"--best-checkpoint-metric {metric}: add --maximize-best-checkpoint-metric; more is better")


def parse_json(option: str, text: Optional[str]) -> Dict[str, Any]:
    """A JSON object from the command line; ValueError if it is none."""
    try:
        values = json.loads(text or "{}")
    except json.JSONDecodeError as error:
        raise ValueError(f"{option} '{text}': not JSON ({error})") from None
    if not isinstance(values, dict):
        raise ValueError(f"{option} '{text}': must be a JSON object, such as {{\"beam\": 4}}")
    return values


def generation_options(text: Optional[str], longest: int) -> Any:
    """fairseq's options of generation from a JSON object; ``max_len_b`` is ``longest`` unless it says otherwise.

    Raises:
        ValueError: not JSON, an unknown option, or a value of the wrong type.
    """
    option = "--eval-rouge-args"
    values: Any = {name.replace("-", "_"): value for name, value in parse_json(option, text).items()}
    known = sorted({field.name for field in fields(GenerationConfig)} - {"_name", "score_reference"})
    for name in values:
        if name not in known:
            raise ValueError(
                f'{option}: there is no "{name}"; choose of {", ".join(known)}. The options of the task, such as '
                "--coverage-penalty, are given to fairseq-train itself"
            )
    try:
        return OmegaConf.merge(OmegaConf.structured(GenerationConfig), {"max_len_b": longest, **values})
    except OmegaConfBaseException as error:
        raise ValueError(f"{option} '{text}': {str(error).splitlines()[0]}") from None


def find_subwords(dictionary: Dictionary) -> str:
    """How the words of a dictionary were cut, as ``--post-process`` calls it: by the marks that they carry."""
    words = dictionary.symbols[dictionary.nspecial : known_words(dictionary)]
    for name, marked in (
        ("subword_nmt", sum(word.endswith("@@") for word in words)),
        ("sentencepiece", sum(word.startswith("▁") for word in words)),
    ):
        if marked > SUBWORDS * len(words):
            return name
    return "none"


class ValidationRouge:
    """Generates summaries of a validation set's first documents and adds their scores to what validation logs.

    What is logged are sums over documents and the number of documents, so that the result does not depend on batches or
    workers. The generator lives from the first batch of a validation to the next training step: it holds copies of the
    model, which would be out of date after that and take memory while training.

    Args:
        task: builds the generator. cfg: the task's options.

    Raises:
        ValueError: an option has an impossible value.
    """

    def __init__(self, task: Any, cfg: Any):
        self.task = task
        if cfg.eval_rouge_samples < 1:
            raise ValueError(f"--eval-rouge-samples {cfg.eval_rouge_samples}: choose 1 or more")
        self.samples = cfg.eval_rouge_samples
        self.print_samples = cfg.eval_rouge_print_samples
        self.options = generation_options(cfg.eval_rouge_args, task.truncate_target)
        self.post_process = str(cfg.eval_rouge_post_process)
        if self.post_process == "auto":
            self.post_process = find_subwords(task.target_dictionary)
        self.detokenizer = None
        if cfg.eval_rouge_detok:
            options = parse_json("--eval-rouge-detok-args", cfg.eval_rouge_detok_args)
            names = encoders.TOKENIZER_REGISTRY
            if cfg.eval_rouge_detok not in names:
                raise ValueError(f"--eval-rouge-detok {cfg.eval_rouge_detok}: choose of {', '.join(sorted(names))}")
            self.detokenizer = encoders.build_tokenizer(Namespace(tokenizer=cfg.eval_rouge_detok, **options))
        self._generator: Optional[Any] = None
        logger.info(
            f"--eval-rouge: the first {self.samples:,} documents of a validation set, at most {self.options.max_len_b} "
            f"tokens, beam {self.options.beam}; subwords: {self.post_process}"
        )

    def forget(self) -> None:
        """The model is about to change."""
        self._generator = None

    def decode(self, tokens: Tensor, what: str) -> str:
        """Ids (T,) of the dictionary -> text; unknown words of a "hypothesis" and a "reference" are never the same.

        The Penn Treebank's names of brackets become brackets, since to ROUGE ``-lrb-`` would be the word "lrb".
        """
        symbol = None if self.post_process == "none" else self.post_process
        words = utils.strip_pad(tokens.int().cpu(), self.task.target_dictionary.pad())
        text = self.task.target_dictionary.string(words, symbol, unk_string=_UNKNOWN[what])
        text = _BRACKET.sub(lambda name: _BRACKETS[name.group().lower()], text)
        return text if self.detokenizer is None else self.detokenizer.decode(text)

    def score(self, sample: Dict[str, Any], model: Any) -> Dict[str, float]:
        """The sums for one batch; all 0 if it has none of the documents.

        Args:
            sample: a batch with "references", whole summaries (ids, (T,)) of the documents that take part, else None.
        """
        rows = [row for row, reference in enumerate(sample.get("references", [])) if reference is not None]
        sums = {"_rouge_documents": float(len(rows)), **{f"_{name}": 0.0 for name in ROUGE}}
        if not rows:
            return sums
        from .rouge import Settings, score_pair  # only here: it loads libraries that training has no use for

        settings = Settings(metrics=ROUGE)
        for number, (tokens, row) in enumerate(zip(self._generate(sample, model, rows), rows)):
            hypothesis = self.decode(tokens, "hypothesis")
            reference = self.decode(sample["references"][row], "reference")
            scores = score_pair([settings.prepare(hypothesis), settings.prepare(reference)], settings)
            for name, value in zip(ROUGE, scores[:, 0].tolist()):
                sums[f"_{name}"] += 100 * value
            document = int(sample["id"][row]) if "id" in sample else number
            if document < self.print_samples:
                logger.info(f"example {document} summary:   {hypothesis}")
                logger.info(f"example {document} reference: {reference}")
        return sums

    def _generate(self, sample: Dict[str, Any], model: Any, rows: Sequence[int]) -> List[Tensor]:
        """The best summaries (ids, (T,)) of some documents of a batch."""
        while hasattr(model, "module"):  # wrapped for several workers
            model = model.module
        if self._generator is None:
            self._generator = self.task.build_generator([model], self.options)
        chosen = torch.tensor(rows, device=sample["net_input"]["src_tokens"].device)
        part = {
            "id": sample["id"][chosen],
            "net_input": utils.apply_to_sample(lambda tensor: tensor[chosen], sample["net_input"]),
        }
        cuda = chosen.is_cuda
        # sampling (--eval-rouge-args) draws random numbers, which training must not miss
        with torch.random.fork_rng(devices=[chosen.device] if cuda else []):
            hypotheses = self.task.inference_step(self._generator, [model], part)
        return [found[0]["tokens"] for found in hypotheses]

    @staticmethod
    def reduce_metrics(logging_outputs: Sequence[Dict[str, Any]]) -> None:
        """Log the sums of all workers, and the means that they give at the end of a validation."""
        if not any("_rouge_documents" in output for output in logging_outputs):
            return
        for name in ("_rouge_documents", *(f"_{name}" for name in ROUGE)):
            metrics.log_scalar_sum(name, sum(float(output.get(name, 0)) for output in logging_outputs))
        for name in ROUGE:
            metrics.log_derived(
                name,
                lambda meters, name=name: round(
                    meters[f"_{name}"].smoothed_value / max(meters["_rouge_documents"].smoothed_value, 1), 4
                ),
            )
