"""The generator of summaries for fairseq's commands and for ``Summarizer``.

If none of this project's options are set, the results are the same as with fairseq's ``SequenceGenerator``.
``docs/decoding.md`` describes the options.
"""

import contextlib
import inspect
import logging
import math
import sys
import threading
import weakref
from dataclasses import replace
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence

import torch
import torch.nn.functional as F
from fairseq import search as fairseq_search
from fairseq import utils
from fairseq.data import data_utils
from torch import Tensor, nn

from ..layers.decoder_output import DecoderOutput, get_decoder_capabilities, get_pointer
from ..vocabulary.dictionary import count_known_words
from ..vocabulary.shortlist import Shortlist
from .beam_search import BeamSearch
from .ensemble import EncodedBatch
from .hypotheses import HypothesisScorer, OnStep, Results
from .inference import InferenceModel, check_shortlist_support, restrict_softmax
from .options import DECLARED, DecodingOptions, check_decoding_options
from .search_rules import SpecialTokens, check_minimum_length
from .strategies import check_strategy
from .terms import LanguageModelTerm, SearchTerm, make_option_terms

logger = logging.getLogger(__name__)

_OF_FAIRSEQ = ["beam", "max_len", "max_len_a", "positions", "min_len", "unnormalized", "lenpen", "unkpen", "lm_weight"]
_OF_FAIRSEQ += ["temperature", "match_source_len", "no_repeat_ngram_size", "tokens_to_suppress", "replace_unknown"]
_OF_CALLERS = ["shortlist", "selection", "choose", "choose_words", "readability", "content_model", "content_weight"]
_OF_CALLERS += ["sentences", "words", "percent", "must_include"]
OWN_OPTIONS = tuple(name for name in DECLARED if name not in (*_OF_FAIRSEQ, *_OF_CALLERS))
"""The options that are keyword arguments of :class:`SummaryGenerator` under their own names."""


class SummaryGenerator:
    """Generates summaries with beam search.

    The constructor accepts the arguments of fairseq's ``SequenceGenerator``, in the same order, and the following
    keyword arguments.

    Args:
        source_dictionary: the dictionary of the source documents, which ``replace_unk`` uses. If None, unknown words
            are aligned but not replaced.
        inference_models: a list with an :class:`InferenceModel` in the requested dtype for each model, or None to
            create them. Several generators can share inference models.
        shortlist: the shortlist that limits the words available for each document, or None to allow all words.
            Shortlists are loaded from files that ``etads-shortlist`` creates.
        terms: additional search terms, which are applied after the terms of the language model and the options. See
            docs/extending.md.
        options: all decoding options, instead of the arguments that this constructor shares with fairseq and of
            ``own``.
        own: the decoding options that fairseq's generator does not have, named like the fields of
            :class:`~fairseq_etads.search.options.DecodingOptions`.

    Attributes:
        options: the decoding options, in which defaults that depend on the models are filled in.
        scoring: the function that computes the scores of hypotheses.

    Raises:
        TypeError: a keyword argument is not the name of an option.
        ValueError: an option has an invalid value or is incompatible with another option or a model.
    """

    def __init__(
        self,
        models: Any,
        tgt_dict: Any,
        beam_size: int = 1,
        max_len_a: float = DecodingOptions.max_len_a,
        max_len_b: int = DecodingOptions.max_len,
        max_len: int = DecodingOptions.positions,
        min_len: int = DecodingOptions.min_len,
        normalize_scores: bool = not DecodingOptions.unnormalized,
        len_penalty: float = DecodingOptions.lenpen,
        unk_penalty: float = DecodingOptions.unkpen,
        temperature: float = DecodingOptions.temperature,
        match_source_len: bool = DecodingOptions.match_source_len,
        no_repeat_ngram_size: int = DecodingOptions.no_repeat_ngram_size,
        search_strategy: Optional[Any] = None,
        eos: Optional[int] = None,
        symbols_to_strip_from_output: Optional[Any] = None,
        lm_model: Optional[nn.Module] = None,
        lm_weight: float = 1.0,
        tokens_to_suppress: Sequence[str] = DecodingOptions.tokens_to_suppress,
        *,
        replace_unk: bool = DecodingOptions.replace_unknown,
        source_dictionary: Optional[Any] = None,
        inference_models: Optional[Sequence[Optional[InferenceModel]]] = None,
        shortlist: Optional[Shortlist] = None,
        terms: Sequence[SearchTerm] = (),
        options: Optional[DecodingOptions] = None,
        **own: Any,
    ):
        unknown = sorted(own.keys() - set(OWN_OPTIONS))
        if unknown:
            known = sorted({*inspect.signature(SummaryGenerator).parameters, *OWN_OPTIONS} - {"options", "own"})
            raise TypeError(f"SummaryGenerator has no argument {', '.join(unknown)}; choose from {', '.join(known)}")
        if options is None:
            options = DecodingOptions(
                beam=beam_size, max_len_a=max_len_a, max_len=max_len_b, positions=max_len, min_len=min_len,
                unnormalized=not normalize_scores, lenpen=len_penalty, unkpen=unk_penalty, temperature=temperature,
                match_source_len=match_source_len, no_repeat_ngram_size=no_repeat_ngram_size, lm_weight=lm_weight,
                tokens_to_suppress=tokens_to_suppress, replace_unknown=replace_unk, **own,
            )  # fmt: skip
        check_decoding_options(vars(options))
        self.models: List[Any] = list(getattr(models, "models", models))  # a list of models, or fairseq's EnsembleModel
        self.tgt_dict, self.source_dictionary = tgt_dict, source_dictionary
        self.search = fairseq_search.BeamSearch(tgt_dict) if search_strategy is None else search_strategy
        language_model = [] if lm_model is None else [LanguageModelTerm(lm_model, options.lm_weight)]
        self.terms: List[SearchTerm] = [*language_model, *make_option_terms(options), *terms]
        self._term_models = [model for term in self.terms for model in term.models]
        self.special = SpecialTokens.from_dictionary(tgt_dict, options, eos)
        self.options = options = self._fill_in_defaults(options)
        self.scoring = HypothesisScorer(options)
        if not (options.exact_length or options.match_source_len or options.max_len_a):
            check_minimum_length(options.min_len, min(options.max_len, options.positions - 1))
        has_tail = any(get_decoder_capabilities(model).has_output_vocabulary for model in self.models)
        check_strategy(self.search, options.beam, count_known_words(tgt_dict) if has_tail else len(tgt_dict))
        for term in self.terms:
            term.check(self.models, tgt_dict)
        if shortlist is not None:
            check_shortlist_support(self.models, self.search)
        self.shortlist = shortlist
        self.symbols_to_strip_from_output = {*(symbols_to_strip_from_output or ()), self.special.eos}
        if inference_models is None:
            inference_models = [_make_inference_model(model, options.infer_dtype) for model in self.models]
        self._inference_models = inference_models

    def _fill_in_defaults(self, options: DecodingOptions) -> DecodingOptions:
        """Return a copy of the options in which the defaults that depend on models or search are filled in.

        Raises ValueError if an option is incompatible with the models or the search.
        """
        has_pointer = any(get_pointer(model) is not None for model in self.models)
        if options.copied_positions and not has_pointer:
            raise ValueError("copied_positions requires a model with a pointer (--pointer)")
        models = [*self.models, *self._term_models]
        limits = [int(model.max_decoder_positions()) for model in models if hasattr(model, "max_decoder_positions")]
        positions = options.positions or min([sys.maxsize, *limits])
        if options.exact_length >= positions:
            raise ValueError(
                f"--exact-length {options.exact_length}: choose 0 (off) to {positions - 1}, the number of positions"
            )
        # HypothesisScorer.compute_upper_bound assumes that hypotheses are ranked by sums of log-probabilities. Other
        # strategies use different rankings.
        is_beam_search = type(self.search) is fairseq_search.BeamSearch
        differs = options.coverage_penalty > 0 or options.length_penalty_type != "avg"  # from fairseq's scores
        early_stopping = options.early_stopping or ("admissible" if differs and is_beam_search else "fairseq")
        for option, wanted in (
            ("--stepwise-coverage-penalty", options.stepwise_coverage_penalty),
            (f"--early-stopping {early_stopping}", early_stopping != "fairseq"),
            (f"--recombine {options.recombine}", options.recombine > 0),
        ):
            if wanted and not is_beam_search:
                raise ValueError(f"{option} works only with beam search, not with {type(self.search).__name__}")
        beam = min(options.beam, len(self.tgt_dict) - 1)  # the padding symbol is never chosen
        reranks = any(term.reranks for term in self.terms)
        if reranks and beam == 1:
            raise ValueError("--beam 1: --content-model needs more than one hypothesis to choose from")
        return replace(
            options,
            beam=beam,
            nbest=beam if reranks else min(options.nbest, beam),
            positions=positions,
            unkpen=math.inf if has_pointer and not options.allow_unk else options.unkpen,
            early_stopping=early_stopping,
            keep_attention=options.keep_attention or options.replace_unknown or options.print_alignment is not None,
        )

    def cuda(self) -> "SummaryGenerator":
        """Move the models to the GPU."""
        for model in self.models:
            model.cuda()
        return self

    def __call__(
        self, sample: Dict[str, Any], prefix_tokens: Optional[Tensor] = None, bos_token: Optional[int] = None
    ) -> Results:
        """Generate summaries for a batch; see :meth:`generate`."""
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
        encoded: Optional[EncodedBatch] = None,
        on_step: Optional[OnStep] = None,
        keep: Optional[Callable[[Results], Results]] = None,
    ) -> Results:
        """Generate summaries for a batch.

        Args:
            models: ignored, because the constructor has received the models. fairseq passes them.
            sample: a batch from the dataset, which contains the model inputs in "net_input".
            prefix_tokens: the padded words (B, T) with which the summaries must begin, or None.
            constraints: the words that the summaries must include, in the packed format of fairseq's search classes, or
                None.
            bos_token: the id of the start symbol, or None to use the end symbol.
            encoded: a cache for the models' outputs, which further calls with the same batch can reuse, or None.
            on_step: a function that is called after each step with the best hypotheses so far, or None. It can stop the
                search by raising an exception.
            keep: a function that returns the finished hypotheses that are needed, or None for all. Without
                ``replace_unk``, only these are read again for ``copied_positions``.

        Returns:
            A list of hypotheses for each document, sorted from best to worst. Each hypothesis is a dictionary that
            contains "tokens" (T,) including the end symbol, "score", "positional_scores" (T,), "attention" (S, T) or an
            empty tensor, and "alignment". With ``copied_positions``, it also contains "copied_from". With
            ``extractive_weights``, it also contains "features" (5,), the sums of log p and the other features over all
            words.
        """
        options, special, net_input = self.options, self.special, sample["net_input"]
        if "src_tokens" in net_input and not len(net_input["src_tokens"]):
            return []
        active_models = [
            model if inference_model is None else inference_model.get_current_copy()
            for model, inference_model in zip(self.models, self._inference_models)
        ]
        # When all words are processed at once, fairseq's attention reads the weights of its layers. 8-bit layers have
        # no such weights.
        needs_weights = options.copied_positions and options.infer_dtype in ("int8", "auto")
        # the inference copies are always in evaluation mode
        others = [m for m, copied in zip(self.models, self._inference_models) if copied is None or needs_weights]
        with keep_evaluation_mode([*others, *self._term_models]):
            given = prefix_tokens, constraints, bos_token, encoded, on_step
            search = BeamSearch(self, active_models, sample, *given)
            results = search.run()
            _warn_about_impossible_summaries(results, sample.get("id"))
            for term in self.terms:
                term.finish(results, search.batch)
            if keep is not None and not options.replace_unknown:
                results = keep(results)
            if options.copied_positions:
                models = self.models if needs_weights else active_models
                copying = next(model for model in models if get_pointer(model) is not None)
                add_copied_positions(results, copying, search, special, bos_token)
        if options.replace_unknown:
            replace_unknown_words(results, net_input["src_tokens"], special, self.source_dictionary, self.tgt_dict)
            results = results if keep is None else keep(results)
        if options.print_alignment is not None:
            add_alignments(results, net_input["src_tokens"], special, options.print_alignment)
        return results


def _warn_about_impossible_summaries(results: Results, ids: Optional[Tensor]) -> None:
    """Log a warning about documents for which the search found no summary with a positive probability."""
    scores = torch.stack([hypotheses[0]["score"] for hypotheses in results]).tolist()
    rows = [row for row, score in enumerate(scores) if score == -math.inf]
    if rows:
        numbers = ", ".join(str(row if ids is None else int(ids[row])) for row in rows)
        logger.warning(
            f"{len(rows)} document(s) (numbers {numbers}): every summary allowed by the options has probability 0, so "
            "the result has score -inf"
        )


def _make_inference_model(model: Any, infer_dtype: Optional[str]) -> Optional[InferenceModel]:
    """Create an :class:`InferenceModel` for a model of this project, or None for others, which need no copy."""
    if get_decoder_capabilities(model).shares_documents:
        return InferenceModel(model, infer_dtype)
    if infer_dtype not in (None, "auto"):  # "auto" selects an available dtype, which here is the model's own
        raise ValueError(f"--infer-dtype {infer_dtype}: only models of this project can be converted to other dtypes")
    return None


_mode_lock = threading.Lock()
_modes: "weakref.WeakKeyDictionary[nn.Module, _EvaluationMode]" = weakref.WeakKeyDictionary()


class _EvaluationMode(NamedTuple):
    """The number of searches that need a model in evaluation mode, and the modules that were in training mode."""

    searches: int
    training: List[nn.Module]


@contextlib.contextmanager
def keep_evaluation_mode(models: Iterable[nn.Module]) -> Iterator[None]:
    """Keep models in evaluation mode within a ``with`` block.

    If several searches run at the same time, the last one to finish restores the original mode of each module.
    """
    models = list(models)
    with _mode_lock:
        for model in models:
            mode = _modes.get(model) or _EvaluationMode(0, [module for module in model.modules() if module.training])
            _modes[model] = mode._replace(searches=mode.searches + 1)
            model.eval()
    try:
        yield
    finally:
        with _mode_lock:
            for model in models:
                mode = _modes.pop(model)
                if mode.searches > 1:
                    _modes[model] = mode._replace(searches=mode.searches - 1)
                    continue
                for module in mode.training:
                    module.training = True


def replace_unknown_words(
    results: Results, src_tokens: Tensor, special: SpecialTokens, source_dictionary: Any, target_dictionary: Any
) -> None:
    """Replace each unknown word in "tokens" with the most attended known word of the source (B, S).

    For each token, "alignment" (T,) is set to the position of its most attended known word, not counting padding on the
    left. Without a source dictionary, unknown words are aligned but not replaced. Replacements that the target
    dictionary lacks are added to it.
    """
    for source, hypotheses in zip(src_tokens, results):
        left_padding = int((source == special.pad).cumprod(0).sum())
        is_known = (source != special.pad) & (source != special.eos) & (source != special.unk)
        for hypothesis in hypotheses:
            position = hypothesis["attention"].masked_fill(~is_known[:, None], -1).argmax(dim=0)
            if source_dictionary is not None:
                replaced = (hypothesis["tokens"] == special.unk) & is_known[position]
                words = source[position[replaced]]
                if source_dictionary is not target_dictionary:
                    spelt = [source_dictionary[word] for word in words.tolist()]
                    words = words.new_tensor([target_dictionary.add_symbol(word, n=0) for word in spelt])
                hypothesis["tokens"] = hypothesis["tokens"].masked_scatter(replaced, words)
            hypothesis["alignment"] = (position - left_padding).clamp(min=0)


def add_copied_positions(
    results: Results, model: Any, search: BeamSearch, special: SpecialTokens, bos_token: Optional[int]
) -> None:
    """Set "copied_from" (T,) to the source position from which each token was copied, or -1 if it was generated.

    The decoder of the model, which has a pointer, is run once more on the finished summaries of the search.
    """
    net_input, selection, candidates = search.batch.net_input, search.selection, search.candidates
    hypotheses = [(row, hypothesis) for row, found in enumerate(results) for hypothesis in found]
    documents = torch.tensor([row for row, _ in hypotheses], device=net_input["src_tokens"].device)
    tokens = data_utils.collate_tokens([h["tokens"] for _, h in hypotheses], special.pad, special.eos)  # (n, T)
    before = tokens.roll(1, dims=1)
    before[:, 0] = special.eos if bos_token is None else bos_token
    # Each document is encoded once, not once for each of its hypotheses, which would take most of the time of a search.
    encoder_out = model.encoder.reorder_encoder_out(model.encoder.forward_torchscript(net_input), documents)
    if candidates is not None:
        restricted = restrict_softmax(model, net_input["src_tokens"][documents], candidates.select(documents))
        encoder_out = {**encoder_out, **restricted}
    output = DecoderOutput.from_fairseq_output(model.decoder(before, encoder_out=encoder_out))
    pointer = output.pointer
    assert pointer is not None and output.vocabulary is not None, "a model with a pointer"
    if selection is not None:
        pointer = pointer.restrict_to_selection(selection._replace(probabilities=selection.probabilities[documents]))
    columns = output.vocabulary.convert_to_target_columns(tokens)
    positions = pointer.find_copied_positions(output.logits, columns)  # (n, T)
    for (_, hypothesis), copied_from in zip(hypotheses, positions):
        hypothesis["copied_from"] = copied_from[: len(hypothesis["tokens"])]


def add_alignments(results: Results, src_tokens: Tensor, special: SpecialTokens, kind: str) -> None:
    """Set "alignment" in fairseq's format: pairs of positions for "hard", or rows of attention weights for "soft"."""
    extract = utils.extract_hard_alignment if kind == "hard" else utils.extract_soft_alignment
    hypotheses = [(source, hypothesis) for source, row in zip(src_tokens, results) for hypothesis in row]
    texts = data_utils.collate_tokens([h["tokens"] for _, h in hypotheses], special.pad, special.eos)
    for (source, hypothesis), text in zip(hypotheses, texts):
        attention = hypothesis["attention"].transpose(0, 1)  # (T, S)
        attention = F.pad(attention, (0, 0, 0, len(text) - len(attention)))
        hypothesis["alignment"] = extract(attention.cpu(), source.cpu(), text.cpu(), special.pad, special.eos)
