"""Beam search for summaries: fairseq's, with the papers' penalties, blocking that works, and documents kept once.

Without options of its own :class:`SummaryGenerator` returns what fairseq's ``SequenceGenerator`` returns. What the
options compute is written down in ``docs/decoding.md``.
"""

import contextlib
import math
import sys
from typing import Any, Dict, Iterator, List, Optional, Sequence

import torch
from fairseq import search as fairseq_search
from fairseq import utils
from fairseq.data import data_utils
from torch import Tensor, nn

from .layers.capabilities import decoder_capabilities, pointer_of
from .search.beam_search import BeamSearch
from .search.blocking import NGramBlocker
from .search.inference import InferenceModel
from .search.penalties import Scoring, check_choice, coverage_penalty, length_penalty
from .vocabulary.dictionary import known_words

__all__ = ["SummaryGenerator", "coverage_penalty", "length_penalty", "truncate_bytes"]

EARLY_STOPPING = ("admissible", "fairseq")
ALIGNMENTS = ("hard", "soft")


def truncate_bytes(text: str, limit: int) -> str:
    """The first ``limit`` bytes of a text in UTF-8, without a character cut in two (DUC-2004 scores 75 bytes)."""
    if limit < 0:
        raise ValueError(f"a limit of {limit} bytes: choose 0 or more")
    return text.encode("utf-8")[:limit].decode("utf-8", "ignore")


class SummaryGenerator:
    """Searches for summaries.

    Up to ``tokens_to_suppress`` the arguments are those of fairseq's ``SequenceGenerator``. Tokens inside the search
    are those of the models' distributions: their width, and not the dictionary's, decides.

    Args:
        coverage_penalty, coverage_penalty_type, stepwise_coverage_penalty, length_penalty_type, length_penalty_beta:
            see :class:`fairseq_etads.search.penalties.Scoring`.
        ngram_ignore_tokens: words that may repeat; an n-gram with one of them is never blocked.
        exact_length: produce exactly this many tokens before the end symbol, which then costs nothing; 0: off.
        early_stopping: "fairseq" ends a document when beam_size hypotheses have ended, "admissible" when no unfinished
            one can still become one of the ``nbest`` best. None: "admissible" if the score is not fairseq's.
        nbest: how many of the returned hypotheses will be looked at.
        infer_dtype: "fp32", "bf16" or "int8" copies of this project's models; None: the format they have.
        keep_attention: return the attention of each hypothesis, as fairseq does; it takes memory beam x S x T.
        print_alignment: "hard" or "soft": also return alignments to the source, taken from the attention.
        allow_unk: let models with a pointer write the unknown word; by default they copy some word instead.
        replace_unk: put the source word with the most attention in the place of an unknown word, and say in "alignment"
            which word of the source that is for each token.
        source_dictionary: with ``replace_unk``, the source's dictionary; without it words stay and are only aligned.
        copied_positions: also return "copied_from": for each token the position in ``src_tokens`` it was copied from,
            or -1 if it was generated. Costs another pass over the summaries; needs a model with a pointer.

    Raises:
        ValueError: an option has an impossible value or does not go with another.
    """

    def __init__(
        self,
        models: Any,
        tgt_dict: Any,
        beam_size: int = 1,
        max_len_a: float = 0,
        max_len_b: int = 200,
        max_len: int = 0,
        min_len: int = 1,
        normalize_scores: bool = True,
        len_penalty: float = 1.0,
        unk_penalty: float = 0.0,
        temperature: float = 1.0,
        match_source_len: bool = False,
        no_repeat_ngram_size: int = 0,
        search_strategy: Optional[Any] = None,
        eos: Optional[int] = None,
        symbols_to_strip_from_output: Optional[Any] = None,
        lm_model: Optional[nn.Module] = None,
        lm_weight: float = 1.0,
        tokens_to_suppress: Sequence[str] = (),
        *,
        coverage_penalty: float = 0.0,
        coverage_penalty_type: str = "summary",
        stepwise_coverage_penalty: bool = False,
        length_penalty_type: str = "avg",
        length_penalty_beta: float = 5.0,
        ngram_ignore_tokens: Sequence[str] = (),
        exact_length: int = 0,
        early_stopping: Optional[str] = None,
        nbest: int = 1,
        infer_dtype: Optional[str] = None,
        keep_attention: bool = True,
        print_alignment: Optional[str] = None,
        allow_unk: bool = False,
        replace_unk: bool = False,
        source_dictionary: Optional[Any] = None,
        copied_positions: bool = False,
    ):
        self.models: List[Any] = list(getattr(models, "models", models))  # fairseq's EnsembleModel or a list
        self.tgt_dict = tgt_dict
        self.pad, self.unk = tgt_dict.pad(), tgt_dict.unk()
        self.eos = tgt_dict.eos() if eos is None else eos
        self.symbols_to_strip_from_output = {*(symbols_to_strip_from_output or ()), self.eos}
        self.suppressed = _words(tgt_dict, tokens_to_suppress, "tokens_to_suppress")
        self.vocab_size = len(tgt_dict)
        self.beam_size = min(beam_size, self.vocab_size - 1)
        self.max_len_a, self.max_len_b, self.min_len = max_len_a, max_len_b, min_len
        self.max_len = max_len or _positions(self.models)
        self.temperature = temperature
        self.copies = any(pointer_of(model) is not None for model in self.models)
        self.unk_penalty = math.inf if self.copies and not allow_unk else unk_penalty
        self.replace_unk, self.source_dictionary = replace_unk, source_dictionary
        self.copied_positions = copied_positions
        self.match_source_len = match_source_len
        self.scoring = Scoring(
            len_penalty=len_penalty,
            normalize_scores=normalize_scores,
            length_penalty_type=length_penalty_type,
            length_penalty_beta=length_penalty_beta,
            coverage_penalty=coverage_penalty,
            coverage_penalty_type=coverage_penalty_type,
            stepwise_coverage_penalty=stepwise_coverage_penalty,
        )
        self.blocker: Optional[NGramBlocker] = None
        if no_repeat_ngram_size:
            ignored = _words(tgt_dict, ngram_ignore_tokens, "--ngram-ignore-tokens")
            self.blocker = NGramBlocker(no_repeat_ngram_size, ignored)
        self.exact_length = exact_length
        self.nbest = nbest
        self.keep_attention = keep_attention or replace_unk or print_alignment is not None
        self.print_alignment = print_alignment
        self.search = fairseq_search.BeamSearch(tgt_dict) if search_strategy is None else search_strategy
        # the bound of penalties.py speaks of sums of log-probabilities, which other searches do not rank by
        plain = type(self.search) is fairseq_search.BeamSearch
        self.early_stopping = early_stopping or ("admissible" if self.scoring.penalised and plain else "fairseq")
        self.lm_model, self.lm_weight = lm_model, lm_weight
        self._check(plain)
        self._copies = [
            InferenceModel(model, infer_dtype) if decoder_capabilities(model).shares_documents else None
            for model in self.models
        ]
        if infer_dtype is not None and None in self._copies:
            raise ValueError(f"--infer-dtype {infer_dtype}: only models of this project have copies in other formats")

    def _check(self, plain: bool) -> None:
        check_choice("--early-stopping", self.early_stopping, EARLY_STOPPING)
        if self.print_alignment is not None:
            check_choice("--print-alignment", self.print_alignment, ALIGNMENTS)
            if self.replace_unk:
                raise ValueError(
                    "--replace-unk (or --replace-unknown) and --print-alignment exclude one another: choose one"
                )
        if self.copied_positions and not self.copies:
            raise ValueError("copied_positions: none of the models has a pointer (--pointer)")
        if not self.temperature > 0:
            raise ValueError(f"--temperature {self.temperature}: choose more than 0")
        if self.beam_size < 1:
            raise ValueError(f"--beam {self.beam_size}: choose 1 or more")
        if not 0 <= self.exact_length < self.max_len:
            raise ValueError(
                f"--exact-length {self.exact_length}: choose 0 (off) to {self.max_len - 1}, the positions there are"
            )
        for option, wanted in (
            ("--stepwise-coverage-penalty", self.scoring.stepwise_coverage_penalty),
            ("--early-stopping admissible", self.early_stopping == "admissible"),
        ):
            if wanted and not plain:
                raise ValueError(f"{option} goes with beam search only, not with {type(self.search).__name__}")

    def cuda(self) -> "SummaryGenerator":
        """Move the models to the GPU."""
        for model in self.models:
            model.cuda()
        return self

    def __call__(
        self, sample: Dict[str, Any], prefix_tokens: Optional[Tensor] = None, bos_token: Optional[int] = None
    ) -> List[List[Dict[str, Tensor]]]:
        """As ``generate``, without the first argument."""
        return self.generate(None, sample, prefix_tokens=prefix_tokens, bos_token=bos_token)

    forward = __call__

    @torch.no_grad()
    def generate(
        self,
        models: Any,
        sample: Dict[str, Any],
        prefix_tokens: Optional[Tensor] = None,
        constraints: Optional[Tensor] = None,
        bos_token: Optional[int] = None,
    ) -> List[List[Dict[str, Tensor]]]:
        """Summaries of a batch.

        Args:
            models: not looked at, as in fairseq; the constructor's are used.
            sample: what the dataset made; "net_input" is what the models get.
            prefix_tokens: (B, T) words to begin with, padded.
            constraints: words to include, packed as fairseq's search classes want them.
            bos_token: start symbol, if not the end symbol.

        Returns:
            For each document its hypotheses, best first: "tokens" (T,) with the end symbol, "score",
            "positional_scores" (T,), "attention" (S, T) or empty, "alignment"; with ``copied_positions`` "copied_from".
        """
        copies = [model if own is None else own.current() for model, own in zip(self.models, self._copies)]
        with _evaluating([*copies, self.lm_model]):
            results = BeamSearch(self, copies, sample, prefix_tokens, constraints, bos_token).run()
            if self.copied_positions:
                self._find_copied(copies, sample["net_input"], results)
        if self.replace_unk:
            self._replace_unknown(sample["net_input"]["src_tokens"], results)
        if self.print_alignment is not None:
            self._align(sample["net_input"]["src_tokens"], results)
        return results

    def _replace_unknown(self, src_tokens: Tensor, results: List[List[Dict[str, Tensor]]]) -> None:
        """Unknown words become the source's most attended known ones."""
        for source, row in zip(src_tokens, results):
            special = (source == self.pad) | (source == self.eos)
            padding = int((source == self.pad).cumprod(0).sum())  # on the left
            unlike = special | (source == self.unk)
            for hypothesis in row:
                attention = hypothesis["attention"].masked_fill(special[:, None], -1)  # (S, T)
                place = attention.masked_fill(unlike[:, None], -0.5).argmax(dim=0)
                unknown = (hypothesis["tokens"] == self.unk) & ~unlike[place]
                if self.source_dictionary is not None:
                    words = self._in_target(source[place[unknown]])
                    hypothesis["tokens"] = hypothesis["tokens"].masked_scatter(unknown, words)
                hypothesis["alignment"] = (place - padding).clamp(min=0)

    def _in_target(self, words: Tensor) -> Tensor:
        """Ids (n,) of the source's dictionary -> of the target's, which grows by words that it lacks."""
        if self.source_dictionary is self.tgt_dict:
            return words
        spelt = [self.source_dictionary[word] for word in words.tolist()]  # type: ignore[index]
        return words.new_tensor([self.tgt_dict.add_symbol(word, n=0) for word in spelt])

    def _find_copied(
        self, models: Sequence[Any], net_input: Dict[str, Tensor], results: List[List[Dict[str, Tensor]]]
    ) -> None:
        """Read the finished summaries once more and ask the first pointer where each word came from."""
        model = next(model for model in models if pointer_of(model) is not None)
        hypotheses = [(row, hypothesis) for row, found in enumerate(results) for hypothesis in found]
        documents = torch.tensor([row for row, _ in hypotheses], device=net_input["src_tokens"].device)
        tokens = data_utils.collate_tokens([h["tokens"] for _, h in hypotheses], self.pad, self.eos)
        before = tokens.roll(1, dims=1)
        before[:, 0] = self.eos
        inputs = {name: value[documents] for name, value in net_input.items() if isinstance(value, Tensor)}
        logits, extra = model(**{**inputs, "prev_output_tokens": before})
        positions = extra["pointer"].copied_from(logits, extra["vocabulary"].target_columns(tokens))
        for (_, hypothesis), places in zip(hypotheses, positions):
            hypothesis["copied_from"] = places[: len(hypothesis["tokens"])]

    def _align(self, src_tokens: Tensor, results: List[List[Dict[str, Tensor]]]) -> None:
        extract = utils.extract_hard_alignment if self.print_alignment == "hard" else utils.extract_soft_alignment
        hypotheses = [(source, hypothesis) for source, row in zip(src_tokens, results) for hypothesis in row]
        texts = data_utils.collate_tokens([h["tokens"] for _, h in hypotheses], self.pad, self.eos)
        for (source, hypothesis), text in zip(hypotheses, texts):
            attention = hypothesis["attention"].transpose(0, 1)
            attention = nn.functional.pad(attention, (0, 0, 0, len(text) - len(attention)))
            hypothesis["alignment"] = extract(attention.cpu(), source.cpu(), text.cpu(), self.pad, self.eos)


def _words(dictionary: Any, words: Sequence[str], option: str) -> List[int]:
    """Indices of words that must be in the dictionary."""
    indices = [dictionary.index(word) for word in words]
    for word, index in zip(words, indices):
        if (index == dictionary.unk() and word != dictionary.unk_word) or index >= known_words(dictionary):
            raise ValueError(f'{option} "{word}": the dictionary has no such token among the known words')
    return indices


def _positions(models: Sequence[Any]) -> int:
    limits = [model.max_decoder_positions() for model in models if hasattr(model, "max_decoder_positions")]
    return min([sys.maxsize, *limits])


@contextlib.contextmanager
def _evaluating(models: Sequence[Optional[nn.Module]]) -> Iterator[None]:
    """Models in evaluation mode inside; afterwards each module is in the mode it was in."""
    training = [module for model in models if model is not None for module in model.modules() if module.training]
    for model in models:
        if model is not None:
            model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
