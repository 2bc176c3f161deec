"""Search with a shortlist: the softmax is computed over only the words that a batch may need.

Each document has a list of words. The softmax of a document is computed over its own list, so that its summary does not
depend on other documents in the batch. The words of a batch are the union of these lists. During the search, a word is
represented by its column in the union.
"""

import functools
from dataclasses import replace
from typing import Any, Callable, Dict, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from fairseq import search as fairseq_search
from torch import Tensor

from ..kernels.linear import BlockedOutputProjection, is_plain_linear
from ..layers.decoder_output import get_decoder_capabilities
from ..layers.embedding import SharedTableOutput
from ..layers.recurrent import OutputLayer
from ..vocabulary.output import CandidateWords, OutputVocabulary
from ..vocabulary.shortlist import Shortlist
from .search_rules import SpecialTokens


def check_shortlist_support(models: Sequence[Any], strategy: Any) -> None:
    """Raise ValueError if the models of the ensemble or fairseq's search object do not support shortlists."""
    for model in models:
        capabilities = get_decoder_capabilities(model)
        output = getattr(getattr(model, "decoder", None), "output_projection", None)
        if not capabilities.has_output_vocabulary:
            raise ValueError(f"--shortlist works only with models of this project, not with {type(model).__name__}")
        if capabilities.large_vocabulary_trick:
            raise ValueError(
                f"--shortlist does not go with --large-vocabulary-trick {capabilities.large_vocabulary_trick}, which "
                "already restricts the softmax to its own list: leave it out"
            )
        if capabilities.has_adaptive_softmax or not (
            is_plain_linear(output) or isinstance(output, (SharedTableOutput, OutputLayer))
        ):
            raise ValueError(
                "--shortlist needs a model with one output layer over all words, without --adaptive-softmax-cutoff"
            )
    if isinstance(strategy, fairseq_search.PrefixConstrainedBeamSearch):
        raise ValueError("--shortlist does not go with prefix_allowed_tokens_fn, which may need other words")


def find_batch_candidates(
    shortlist: Shortlist,
    net_input: Dict[str, Tensor],
    prefix: Optional[Tensor],
    constraints: Optional[Tensor],
    special: SpecialTokens,
    start: int,
    beam: int,
) -> CandidateWords:
    """Return the words over which the softmax is computed for a batch.

    Each document's list includes the words of its prefix (B, T) and packed constraints (B, n), if there are any. All
    lists include the special tokens and the start symbol.
    """
    extra = [] if prefix is None else [prefix]
    if constraints is not None:
        extra.append(constraints[:, 1:])  # the first number is the number of constraints, and zeros separate them
    marks = () if special.sentence_mark < 0 else (special.sentence_mark,)
    always = (start, special.eos, *special.suppressed, *special.may_repeat, *marks)
    least = 2 * beam + 1  # enough words, so that the beam size does not depend on other documents
    words = torch.cat(extra, dim=1).long() if extra else None
    return shortlist.choose_candidates(net_input["src_tokens"], least, words, always)


def convert_to_search_ids(special: SpecialTokens, start: int, candidates: CandidateWords) -> Tuple[SpecialTokens, int]:
    """Convert the special tokens and the start symbol, which all lists contain, to search ids."""
    column = {word: number for number, word in enumerate(candidates.words.tolist())}.__getitem__
    columns = replace(
        special,
        eos=column(special.eos),
        suppressed=tuple(map(column, special.suppressed)),
        may_repeat=tuple(map(column, special.may_repeat)),
        sentence_mark=column(special.sentence_mark) if special.sentence_mark >= 0 else -1,
    )
    return columns, column(start)


def restrict_softmax(model: Any, src_tokens: Tensor, candidates: CandidateWords) -> Dict[str, Any]:
    """Create the additional encoder outputs that restrict the softmax of a model of this project to the candidates."""
    decoder = model.decoder
    has_pointer = get_decoder_capabilities(model).pointer is not None
    vocabulary = OutputVocabulary.from_source(src_tokens, decoder.dictionary, has_pointer, candidates)
    output = _make_output_layer(decoder.output_projection, candidates)
    return {"vocabulary": vocabulary._replace(by_column=True), "candidate_output": output}


def _make_output_layer(output: Any, candidates: CandidateWords) -> Callable[[Tensor], Tensor]:
    """Create an output layer that computes the logits (…, C) of only the candidates from states (…, in)."""
    words = candidates.words
    if len(words) == candidates.known_words:
        layer: Callable[[Tensor], Tensor] = output
        return layer
    if isinstance(output, (BlockedOutputProjection, OutputLayer)):
        return output.restrict_to_words(words)
    bias = None if output.bias is None else output.bias[words]
    return functools.partial(F.linear, weight=output.weight[words], bias=bias)
