"""The settings of a search: decoding options that have been adapted to the models and the dictionary."""

import math
from dataclasses import dataclass, fields, replace
from typing import Any, Optional, Sequence, Tuple

from fairseq import search as fairseq_search

from ..text.words import SENTENCE_MARK
from ..vocabulary.dictionary import count_known_words
from .hypotheses import HypothesisScorer
from .options import SYSTEMS, DecodingOptions, FairseqOptions, check_options
from .terms import parse_term_option

_SCORING_OPTIONS = tuple(field.name for field in fields(HypothesisScorer))


@dataclass(frozen=True)
class SearchSettings:
    """The settings of a search. The field ``scoring`` contains the settings that determine the score.

    The corresponding options, their defaults and their bounds are declared in :mod:`.options`.

    Attributes:
        beam_size: the number of hypotheses per document that are extended at every step (``--beam``).
        max_len_a, max_len_b: two numbers that limit the summary length. The summary of a document with S tokens has at
            most ``max_len_a`` * S + ``max_len_b`` tokens before the end symbol.
        max_len_per_document: whether S is the length of each document. Otherwise, as in fairseq, S is the length of the
            longest document in the batch, including padding.
        max_len: the maximum number of tokens in a summary, including the end symbol, or 0 to use the number of
            positions in the models.
        min_len: the minimum number of tokens before the end symbol. With ``max_len_per_document``, a summary need not
            be longer than its document.
        unk_penalty: the penalty that is subtracted from the log-probability of the unknown word (``--unkpen``).
        temperature: the softmax temperature, by which the logits are divided.
        match_source_len: whether to end a summary when it has as many tokens as its source, unless it ends earlier
            (``--match-source-len``).
        no_repeat_ngram_size: the length of the n-grams that a summary must not repeat, or 0 to allow all repetitions.
        lm_weight: the weight of the language model's log-probabilities, if a language model is used.
        extractive_weights: the weights of log p and of the features of ABS, or () to use only log p.
        recombine: the number of last words that are compared, or 0 to keep all hypotheses. Of the hypotheses that share
            these words, only the best is kept.
        tokens_to_suppress: the words that are never produced unless a prefix contains them.
        ngram_ignore_tokens: the words that may repeat. An n-gram that contains one of them is never blocked.
        exact_length: the exact number of tokens before the end symbol, or 0 if the length is not fixed. With an exact
            length, the end symbol does not change the score.
        min_sentences: the minimum number of sentences (separated by sentence marks) in a summary, or 0 for no minimum.
        selection_threshold, selection_factor: the threshold and the factor for batches that contain word probabilities
            ("selection"). A pointer copies only words with a probability above the threshold, and their copy
            probabilities are multiplied by the factor.
        early_stopping: the condition for ending the search for a document. "fairseq": ``beam_size`` hypotheses have
            ended. "admissible": no unfinished hypothesis can still become one of the ``nbest`` best hypotheses.
            "heuristic": no unfinished hypothesis would become one of them if it ended in the next step. None:
            "admissible" if scores are computed differently from fairseq, and otherwise "fairseq".
        nbest: the number of hypotheses per document that the caller needs, at most ``beam_size``.
        infer_dtype: the dtype of inference copies of this project's models: "fp32", "bf16", "fp16", "int8", "auto" for
            the fastest of these on this processor, or None for the models' own dtype.
        keep_attention: whether to return the attention weights of each hypothesis, as fairseq does. This requires
            storing beam x S x T weights per document.
        print_alignment: "hard" or "soft" to also return alignments to the source, which are derived from the attention
            weights, or None for no alignments.
        allow_unk: whether models with a pointer may produce the unknown word. By default, they copy a word instead.
        replace_unk: whether to replace unknown words with the most attended word of the source. The position of this
            word is returned for each token in "alignment".
        copied_positions: whether to also return "copied_from", the position in ``src_tokens`` from which each token was
            copied, or -1 if the token was generated. "copied_from" requires a model with a pointer and an additional
            pass over the summaries.
        scoring: the settings that determine the score of a hypothesis.

    Raises:
        ValueError: an option has an invalid value or is incompatible with another option.
    """

    beam_size: int = 1  # the default of fairseq's SequenceGenerator; its commands use 5
    max_len_a: float = FairseqOptions.max_len_a
    max_len_b: int = FairseqOptions.max_len_b
    max_len: int = 0
    min_len: int = FairseqOptions.min_len
    unk_penalty: float = FairseqOptions.unkpen
    temperature: float = FairseqOptions.temperature
    match_source_len: bool = FairseqOptions.match_source_len
    no_repeat_ngram_size: int = FairseqOptions.no_repeat_ngram_size
    lm_weight: float = 1.0  # the default of fairseq's SequenceGenerator; its commands use 0
    extractive_weights: Tuple[float, ...] = ()
    recombine: int = DecodingOptions.recombine
    tokens_to_suppress: Tuple[str, ...] = ()
    ngram_ignore_tokens: Tuple[str, ...] = ()
    exact_length: int = DecodingOptions.exact_length
    min_sentences: int = DecodingOptions.min_sentences
    selection_threshold: float = DecodingOptions.selection_threshold
    selection_factor: float = DecodingOptions.selection_factor
    early_stopping: Optional[str] = DecodingOptions.early_stopping
    nbest: int = FairseqOptions.nbest
    infer_dtype: Optional[str] = DecodingOptions.infer_dtype
    keep_attention: bool = True
    print_alignment: Optional[str] = FairseqOptions.print_alignment
    allow_unk: bool = DecodingOptions.allow_unk
    replace_unk: bool = DecodingOptions.replace_unknown
    copied_positions: bool = False
    max_len_per_document: bool = False
    scoring: HypothesisScorer = HypothesisScorer()

    @classmethod
    def list_option_names(cls) -> Tuple[str, ...]:
        """Return the names of all options, including the scoring options."""
        return (*(field.name for field in fields(cls) if field.name != "scoring"), *_SCORING_OPTIONS)

    @classmethod
    def from_options(cls, **options: Any) -> "SearchSettings":
        """Create settings from keyword arguments, which can include scoring options.

        Raises:
            TypeError: an option does not exist.
            ValueError: an option has an invalid value or is incompatible with another option.
        """
        for name in ("tokens_to_suppress", "ngram_ignore_tokens"):
            words = options.get(name, getattr(cls, name))
            options[name] = tuple(words.split() if isinstance(words, str) else words)
        for name in SYSTEMS:
            options[name] = parse_term_option(name, options.get(name, getattr(cls, name)))
        scoring = {name: options.pop(name) for name in _SCORING_OPTIONS if name in options}
        return cls(scoring=HypothesisScorer(**scoring), **options)

    def __post_init__(self) -> None:
        check_options(self)
        if self.max_len < 0:
            raise ValueError(f"max_len {self.max_len}: choose 0 or more (0: the models' number of positions)")
        if self.nbest > self.beam_size:
            raise ValueError(f"--nbest {self.nbest}: choose at most --beam, which is {self.beam_size}")
        if self.exact_length and self.min_sentences:
            raise ValueError("--exact-length and --min-sentences cannot be combined: choose one")
        if self.exact_length and self.match_source_len:
            raise ValueError("--exact-length and --match-source-len cannot be combined: choose one")
        if self.print_alignment is not None and self.replace_unk:
            raise ValueError(
                "--replace-unk (or --replace-unknown) and --print-alignment cannot be combined: choose one"
            )

    def resolve_defaults(
        self, strategy: Any, has_pointer: bool, vocabulary_size: int, positions: int
    ) -> "SearchSettings":
        """Return a copy in which default values that depend on the models are replaced with actual values.

        Args:
            strategy: fairseq's search object, which selects the extensions of hypotheses.
            has_pointer: whether one of the models can copy words.
            vocabulary_size: the number of entries in the target dictionary.
            positions: the maximum number of tokens in a summary, including the end symbol, that all models support.

        Raises:
            ValueError: an option is incompatible with these models or this strategy.
        """
        if self.copied_positions and not has_pointer:
            raise ValueError("copied_positions requires a model with a pointer (--pointer)")
        longest = self.max_len or int(positions)  # some models return 1e5, which is a float
        if self.exact_length >= longest:
            raise ValueError(
                f"--exact-length {self.exact_length}: choose 0 (off) to {longest - 1}, the number of positions"
            )
        # HypothesisScorer.compute_upper_bound assumes that hypotheses are ranked by sums of log-probabilities. Other
        # strategies use different rankings.
        is_beam_search = type(strategy) is fairseq_search.BeamSearch
        early_stopping = self.early_stopping
        if early_stopping is None:
            early_stopping = "admissible" if self.scoring.differs_from_fairseq and is_beam_search else "fairseq"
        for option, wanted in (
            ("--stepwise-coverage-penalty", self.scoring.stepwise_coverage_penalty),
            (f"--early-stopping {early_stopping}", early_stopping != "fairseq"),
            (f"--recombine {self.recombine}", self.recombine > 0),
        ):
            if wanted and not is_beam_search:
                raise ValueError(f"{option} works only with beam search, not with {type(strategy).__name__}")
        beam_size = min(self.beam_size, vocabulary_size - 1)  # the padding symbol is never chosen
        return replace(
            self,
            beam_size=beam_size,
            nbest=min(self.nbest, beam_size),
            max_len=longest,
            unk_penalty=math.inf if has_pointer and not self.allow_unk else self.unk_penalty,
            early_stopping=early_stopping,
            keep_attention=self.keep_attention or self.replace_unk or self.print_alignment is not None,
        )


@dataclass(frozen=True)
class SpecialTokens:
    """The ids of dictionary entries that have a special meaning in the search.

    Attributes:
        pad, unk: the ids of the padding symbol and the unknown word.
        eos: the id of the end symbol, which is also the start symbol unless another start symbol is specified.
        suppressed: the ids of words that are never produced unless a prefix contains them.
        may_repeat: the ids of words that may repeat. An n-gram that contains one of them is never blocked.
        sentence_mark: the id of the sentence mark, or -1 if no minimum number of sentences is set.
    """

    pad: int
    unk: int
    eos: int
    suppressed: Tuple[int, ...] = ()
    may_repeat: Tuple[int, ...] = ()
    sentence_mark: int = -1

    @classmethod
    def from_dictionary(cls, dictionary: Any, settings: SearchSettings, eos: Optional[int] = None) -> "SpecialTokens":
        """Look up the special tokens that the settings require.

        Args:
            dictionary: the target dictionary.
            settings: the search settings.
            eos: the id of the end symbol, or None to use the end symbol of the dictionary.

        Raises:
            ValueError: a word in the settings or a required sentence mark is not in the dictionary, or the end symbol
                is among the suppressed words.
        """
        eos = dictionary.eos() if eos is None else eos
        suppressed = _look_up_known_ids(dictionary, settings.tokens_to_suppress, "tokens_to_suppress")
        if settings.exact_length:  # also suppress the start symbol, which is not a word and is never printed
            suppressed = (*suppressed, dictionary.bos())
        if settings.min_sentences and not _is_known_word(dictionary, SENTENCE_MARK):
            raise ValueError(
                f"--min-sentences {settings.min_sentences}: this model does not write sentence marks ({SENTENCE_MARK})"
            )
        if eos in suppressed:
            raise ValueError(f'tokens_to_suppress "{dictionary[eos]}": summaries could not end')
        return cls(
            pad=dictionary.pad(),
            unk=dictionary.unk(),
            eos=eos,
            suppressed=suppressed,
            may_repeat=_look_up_known_ids(dictionary, settings.ngram_ignore_tokens, "--ngram-ignore-tokens"),
            sentence_mark=dictionary.index(SENTENCE_MARK) if settings.min_sentences else -1,
        )


def _look_up_known_ids(dictionary: Any, words: Sequence[str], option: str) -> Tuple[int, ...]:
    """Return the ids of words. Raises ValueError if a word is not a known word of the dictionary."""
    for word in words:
        if not _is_known_word(dictionary, word):
            raise ValueError(f'{option} "{word}": this is not a known word of the dictionary')
    return tuple(dictionary.index(word) for word in words)


def _is_known_word(dictionary: Any, word: str) -> bool:
    """Return whether a word is a known word of the dictionary."""
    index = dictionary.index(word)
    return (index != dictionary.unk() or word == dictionary.unk_word) and index < count_known_words(dictionary)
