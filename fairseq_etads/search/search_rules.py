"""Rules that forbid or force words at a search step.

A rule changes the log-probabilities of the next words in place. :func:`make_search_rules` returns the rules that the
options require, in fairseq's order, because the results depend on the order.
"""

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from ..text.words import SENTENCE_MARK
from ..vocabulary.dictionary import count_known_words
from .hypotheses import ActiveHypotheses, gather_beams
from .options import DecodingOptions


@dataclass(frozen=True)
class SpecialTokens:
    """The ids of dictionary entries that have a special meaning in the search."""

    pad: int
    unk: int
    eos: int  # also the start symbol unless another one is specified
    suppressed: Tuple[int, ...] = ()  # words that are never produced unless a prefix contains them
    may_repeat: Tuple[int, ...] = ()  # words whose n-grams are never blocked
    sentence_mark: int = -1  # or -1 if no minimum number of sentences is set

    @classmethod
    def from_dictionary(cls, dictionary: Any, options: DecodingOptions, eos: Optional[int] = None) -> "SpecialTokens":
        """Look up the special tokens that the options require. ``eos`` can replace the end symbol of the dictionary."""
        eos = dictionary.eos() if eos is None else eos
        suppressed = _look_up_known_ids(dictionary, options.tokens_to_suppress, "tokens_to_suppress")
        if options.exact_length:  # also suppress the start symbol, which is not a word and is never printed
            suppressed = (*suppressed, dictionary.bos())
        if options.min_sentences and not _is_known_word(dictionary, SENTENCE_MARK):
            raise ValueError(
                f"--min-sentences {options.min_sentences}: this model does not write sentence marks ({SENTENCE_MARK})"
            )
        if eos in suppressed:
            raise ValueError(f'tokens_to_suppress "{dictionary[eos]}": summaries could not end')
        return cls(
            pad=dictionary.pad(),
            unk=dictionary.unk(),
            eos=eos,
            suppressed=suppressed,
            may_repeat=_look_up_known_ids(dictionary, options.ngram_ignore_tokens, "--ngram-ignore-tokens"),
            sentence_mark=dictionary.index(SENTENCE_MARK) if options.min_sentences else -1,
        )


def _look_up_known_ids(dictionary: Any, words: Union[str, Sequence[str]], option: str) -> Tuple[int, ...]:
    """Return the ids of words. Raises ValueError if a word is not a known word of the dictionary."""
    words = words.split() if isinstance(words, str) else words
    for word in words:
        if not _is_known_word(dictionary, word):
            raise ValueError(f'{option} "{word}": this is not a known word of the dictionary')
    return tuple(dictionary.index(word) for word in words)


def _is_known_word(dictionary: Any, word: str) -> bool:
    """Return whether a word is a known word of the dictionary."""
    index = dictionary.index(word)
    return (index != dictionary.unk() or word == dictionary.unk_word) and index < count_known_words(dictionary)


class SourceLengths(NamedTuple):
    """The padding mask and the lengths of the documents in a search."""

    padding: Optional[Tensor]  # padding mask (B, S), True at padding; None if the source does not consist of tokens
    lengths: Tensor  # the numbers of tokens (B,), counted as in fairseq
    width: int  # S, the number of columns in the batch

    @classmethod
    def from_net_input(cls, net_input: Dict[str, Tensor], eos: int, pad: int) -> "SourceLengths":
        """Read the padding mask and the lengths from a batch. As in fairseq, the batch may also contain speech."""
        if "src_tokens" in net_input:
            tokens = net_input["src_tokens"]
            padding = tokens.eq(pad) if tokens.dim() == 2 else None
            lengths = net_input.get("src_lengths")
            if lengths is None:
                lengths = (tokens.ne(eos) & tokens.ne(pad)).long().sum(dim=1)
            return cls(padding, lengths, tokens.size(1))
        for name in ("source", "features"):
            if name in net_input:
                frames, padding = net_input[name], net_input["padding_mask"]
                count = frames.new_full((len(frames),), frames.size(-1), dtype=torch.long)
                return cls(None, count if padding is None else padding.size(-1) - padding.sum(-1), frames.size(1))
        raise ValueError(f"expected src_tokens, source or features in net_input, which has {', '.join(net_input)}")

    def count_tokens(self) -> Tensor:
        """Return the number of tokens (B,) in each document, including the end symbol but not padding."""
        return self.lengths if self.padding is None else (~self.padding).sum(1)

    def select(self, documents: Tensor) -> "SourceLengths":
        """Select the documents with the given indices (n,)."""
        padding = None if self.padding is None else self.padding[documents]
        return self._replace(padding=padding, lengths=self.lengths[documents])


@dataclass
class SearchStep:
    """The data of a search step, which the rules read and modify, for B documents and W words."""

    number: int  # step index from 0, which is also the number of words generated so far
    lprobs: Tensor  # log-probabilities of the next words (B, beam, W); in the first step, the beam dimension is 1
    live: ActiveHypotheses  # with all beams even in the first step
    source: SourceLengths
    longest: Tensor  # maximum number of tokens in each summary before the end symbol (B,)
    special: SpecialTokens  # search ids
    dictated: Optional[Tensor] = None  # next word (B,) of each prefix, padding after it; None: all have ended
    decided_against: Optional[Tensor] = None  # mask (B, beam, W) of words that switches exclude (``Ensemble``)
    constraints: Optional[Tensor] = None  # packed (B, n)
    forced: Optional[Tensor] = None  # mask (B,) of documents with a word in ``dictated``
    unknown: Tensor = field(init=False)  # scores (B, beam) of the unknown word before any rule is applied
    end: Tensor = field(init=False)  # those of the end symbol

    def __post_init__(self) -> None:
        self.unknown = self.lprobs[..., self.special.unk].clone()
        self.end = self.lprobs[..., self.special.eos].clone()
        if self.dictated is not None:
            self.forced = self.dictated.ne(self.special.pad) & self.longest.gt(self.number)

    def forbid_end_symbol(self, where: Tensor) -> None:
        """Forbid the end symbol where the mask (B, beam) or (B, 1) is True, unless the next word is forced."""
        if self.forced is not None:
            where = where & ~self.forced[:, None]
        self.lprobs[..., self.special.eos].masked_fill_(where, -math.inf)


Rule = Callable[[SearchStep], None]


def make_search_rules(
    options: DecodingOptions, special: SpecialTokens, shortest_limit: int, end_always_counts: bool = False
) -> List[Rule]:
    """Return the rules to apply at every step, in order. ``shortest_limit`` is the least :attr:`SearchStep.longest`.

    If ``end_always_counts``, a term requires that the score of the end symbol is always included.
    """
    rules: List[Rule] = [forbid_padding]
    if options.unkpen:
        rules.append(partial(penalise_unknown_word, penalty=options.unkpen))
    ending_is_free = bool(options.exact_length) and not end_always_counts
    rules.append(partial(end_at_maximum_length, shortest_limit=shortest_limit, ending_is_free=ending_is_free))
    rules.append(force_prefix)
    is_bounded = options.max_len_per_document and not options.exact_length
    shortest = options.exact_length or options.min_len
    rules.append(partial(enforce_minimum_length, tokens=shortest, is_bounded=is_bounded))
    if options.min_sentences:
        rules.append(partial(enforce_minimum_sentences, sentences=options.min_sentences))
    if special.suppressed:
        rules.append(suppress_words)
    if options.match_source_len:
        rules.append(limit_to_source_length)
    if options.no_repeat_ngram_size:
        rules.append(NGramBlocker(options.no_repeat_ngram_size, special.may_repeat))
    rules.append(enforce_pointer_switch)
    return rules


def forbid_padding(step: SearchStep) -> None:
    """Forbid the padding symbol."""
    step.lprobs[..., step.special.pad] = -math.inf


def penalise_unknown_word(step: SearchStep, penalty: float) -> None:
    """Penalise the unknown word (``--unkpen``). With an infinite penalty, the word is forbidden."""
    step.lprobs[..., step.special.unk] -= penalty


def end_at_maximum_length(step: SearchStep, shortest_limit: int, ending_is_free: bool) -> None:
    """Force summaries to end at their maximum length, which none has before the step ``shortest_limit``.

    If ``ending_is_free``, the score ignores the end symbol, as with ``--exact-length``, because the model then does not
    choose where a summary ends.
    """
    if step.number < shortest_limit:
        return
    over = step.longest.le(step.number)[:, None]  # (B, 1)
    step.lprobs.masked_fill_(over[:, :, None], -math.inf)
    end = step.lprobs[..., step.special.eos]
    end.copy_(torch.where(over, torch.zeros_like(step.end) if ending_is_free else step.end, end))


def force_prefix(step: SearchStep) -> None:
    """Allow only the next word of the prefix until the prefix ends (``--prefix-size``).

    If this word has probability 0, it receives the score that the unknown word had before any rule was applied. This
    applies to words outside the document's candidate list (``--large-vocabulary-trick``) and a forbidden unknown word.
    """
    if step.dictated is None or step.forced is None:
        return
    word, lprobs, live = step.dictated, step.lprobs, step.live
    index = word[:, None, None].expand(-1, lprobs.size(1), -1)  # (B, beam, 1)
    before = lprobs.gather(2, index)
    scores = torch.where(before.isneginf(), step.unknown[:, :, None], before)
    # If the prefix ends with the end symbol, all hypotheses end with the scores of the first hypothesis, because only
    # the first hypothesis has followed the prefix.
    ended = word.eq(step.special.eos) & step.forced
    scores = torch.where(ended[:, None, None], scores[:, :1], scores)
    forced = step.forced[:, None, None]
    lprobs.masked_fill_(forced, -math.inf).scatter_(2, index, torch.where(forced, scores, before))
    beams = torch.arange(live.beam, device=word.device).masked_fill(ended[:, None], 0)  # (B, beam)
    live.tokens, live.log_probs = gather_beams(live.tokens, beams), gather_beams(live.log_probs, beams)


def check_minimum_length(min_len: int, longest: int) -> None:
    """Raise ValueError if the minimum length ``min_len`` exceeds the maximum length ``longest``."""
    if max(min_len, 0) > longest:
        raise ValueError(
            f"--min-len {min_len} is more than the longest summary allowed here, {longest} tokens "
            "(--max-len or --max-len-b, --max-len-a and the model's positions)"
        )


def enforce_minimum_length(step: SearchStep, tokens: int, is_bounded: bool = False) -> None:
    """Forbid the end symbol until a summary has the minimum number of tokens (``--min-len``).

    A summary that has reached its maximum length may always end, and so may one that is as long as its document if
    ``is_bounded``.
    """
    if step.number < tokens:
        where = step.longest.gt(step.number)
        if is_bounded:
            where &= step.source.count_tokens().gt(step.number + 1)  # the document has an end symbol
        step.forbid_end_symbol(where[:, None])


def enforce_minimum_sentences(step: SearchStep, sentences: int) -> None:
    """Forbid the end symbol until a summary has the minimum number of sentences (``--min-sentences``).

    A summary that has reached its maximum length may always end.
    """
    mark = step.special.sentence_mark
    tokens = step.live.tokens[:, : step.lprobs.size(1), : step.number + 1].clone()  # including the start symbol
    tokens[:, :, 0] = mark
    is_mark = tokens.eq(mark)
    begun = (is_mark[:, :, :-1] & ~is_mark[:, :, 1:]).sum(2)  # words (B, beam) that follow a mark or the start symbol
    step.forbid_end_symbol(begun.lt(sentences) & step.longest.gt(step.number)[:, None])


def suppress_words(step: SearchStep) -> None:
    """Forbid the words in ``tokens_to_suppress``, unless the prefix contains them."""
    # loop over these few words, because a list of indices would be copied to the GPU at every step
    for word in step.special.suppressed:
        scores = step.lprobs[..., word]
        if step.forced is None:
            scores.fill_(-math.inf)
        else:
            scores.masked_fill_(~step.forced[:, None], -math.inf)


def limit_to_source_length(step: SearchStep) -> None:
    """End a summary that is as long as its source, unless its prefix continues (``--match-source-len``)."""
    over = step.source.lengths.le(step.number)
    over = over if step.forced is None else over & ~step.forced
    step.lprobs.masked_fill_(over[:, None, None], -math.inf)
    end = step.lprobs[..., step.special.eos]
    step.lprobs[..., step.special.eos] = torch.where(over.unsqueeze(1), step.end, end)


class NGramBlocker:
    """Forbid words that would repeat an n-gram of the hypothesis (``--no-repeat-ngram-size``).

    Unlike fairseq's blocker, which needs a CUDA extension, this class uses tensor operations that run on any device.
    An n-gram that contains one of the tokens ``ignored`` is never blocked.
    """

    def __init__(self, size: int, ignored: Iterable[int] = ()):
        self.size = size
        self.ignored = sorted(set(ignored))
        self._ignored: Optional[Tensor] = None  # the same ids as a tensor on the device of the search

    def __call__(self, step: SearchStep) -> None:
        if step.number == 0:
            return
        exempt = step.longest.le(step.number)  # True for summaries that must end
        exempt = exempt if step.forced is None else exempt | step.forced
        exempt = exempt.repeat_interleave(step.lprobs.size(1))
        self.block_repeats(step.live.tokens[:, :, 1 : step.number + 1].flatten(0, 1), step.lprobs.flatten(0, 1), exempt)

    def block_repeats(self, tokens: Tensor, lprobs: Tensor, exempt: Optional[Tensor] = None) -> None:
        """Set the log-probabilities (rows, V) of forbidden words to -inf, in place, given the words so far (rows, t).

        In rows where the mask ``exempt`` (rows,) is True, no word is forbidden, because the next word is forced. If all
        words in a row would be forbidden, they remain allowed, so that the search can continue. The end symbol never
        completes a repeated n-gram, so this happens only if another rule forbids the end symbol.
        """
        n, length = self.size, tokens.size(1)
        if length < n:
            return
        ngrams = tokens.unfold(1, n, 1)  # (rows, t - n + 1, n)
        context = tokens[:, length - n + 1 :]  # (rows, n - 1), the start of the n-gram that the next word completes
        repeats = (ngrams[:, :, : n - 1] == context.unsqueeze(1)).all(-1)  # (rows, t - n + 1); all True for n = 1
        if self.ignored:
            if self._ignored is None or self._ignored.device != tokens.device:
                self._ignored = torch.tensor(self.ignored, device=tokens.device)
            repeats &= ~torch.isin(ngrams, self._ignored).any(-1)
        if exempt is not None:
            repeats &= ~exempt.unsqueeze(1)
        words = ngrams[:, :, -1]
        before = lprobs.gather(1, words)
        # several n-grams may end with the same word, so add instead of assigning: x + -inf = -inf, x + 0 = x
        lprobs.scatter_add_(1, words, torch.zeros_like(before).masked_fill_(repeats, -math.inf))
        wordless = lprobs.amax(1) == -math.inf
        if not lprobs.is_cpu or wordless.any():  # unconditional on a GPU, where any() would synchronise
            lprobs.scatter_(1, words, torch.where(wordless[:, None], before, lprobs.gather(1, words)))


def enforce_pointer_switch(step: SearchStep) -> None:
    """Forbid words that the models' switches exclude (``--pointer switch``).

    A word remains allowed if a constraint requires it or if a hypothesis has no other word left. A hypothesis has no
    other word left if its end is forced or if every word of the document would repeat an n-gram.
    """
    against, lprobs = step.decided_against, step.lprobs
    if against is None:
        return
    if step.constraints is not None:
        required = torch.zeros_like(against[:, 0]).scatter(1, step.constraints[:, 1:], True)  # (B, W)
        required[:, 0] = False  # in packed constraints, 0 is used only to separate and to pad
        against = against & ~required[:, None]
    none_left = lprobs.masked_fill(against, -math.inf).amax(dim=2, keepdim=True).eq(-math.inf)
    lprobs.masked_fill_(against & ~none_left, -math.inf)
