"""ABS (Rush, Chopra, Weston 2015): a neural language model over the last words, with attention to the document.

    h   = tanh(U [E y_(i-C+1); …; E y_i] + b_U)          p(y_(i+1)) = softmax(V h + W enc + b)
    π   = softmax_j(F x_j · (P [G y_(i-C+1); …; G y_i] + b_P)),   enc = Σ_j π_j x̄_j

x are the words of the document. x̄_j is the mean of F x over a window around position j; positions outside the document
count as zero. y_(i-C+1), …, y_i are the last C words of the summary, padded on the left with begin symbols. Each
step depends only on the document and these C words.

``--extractive-weights`` adds features that make the search favour words and phrases from the document (section 5). Let
x be the document, and a and b the last two words of the summary. The score of the next word w is a sum of five
features, weighted by α:

    log p(w),  1 if w is in x,  1 if (b, w) is in x,  1 if (a, b, w) is in x,  1 if w occurs before b in x

Words are compared by their search ids, so words that can only be copied are treated like all other words. The unknown
word, the end symbol and padding never match.
"""

import copy
import math
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

import torch
import torch.nn.functional as F
from fairseq.models import FairseqEncoder, FairseqEncoderDecoderModel, FairseqIncrementalDecoder
from torch import Tensor, nn

from ..kernels.linear import widen_to_float32
from ..layers.decoder_output import (
    DecoderOutput,
    NetOutput,
    PointingDecoder,
    WordRequest,
    multiply_by_document_matrices,
)
from ..layers.embedding import VocabularyEmbedding, mark_lookup_table
from ..layers.pointer import Pointer
from ..models.common import (
    EncoderDecoderMixin,
    PointerOptions,
    SummarizationModel,
    convert_options_to_namespace,
    list_data_properties,
    register_presets,
    select_encoder_output,
)
from ..platform.command_options import NOT_NEGATIVE, SIZE, Bounds, check_options, option
from ..search.hypotheses import Results
from ..search.terms import ActiveTerm, SearchTerm, TermBatch, register_option_term
from ..vocabulary.dictionary import count_known_words, remove_copy_tail
from ..vocabulary.output import OutputVocabulary, number_by_first_occurrence

FEATURES = ("log p", "unigram", "bigram", "trigram", "reordering")
NO_WORD = -1


RELEASE = "release"
"""Value of ``--extractive-weights`` that selects the features and weights of the authors' code."""
RELEASED_WEIGHTS = (1.0, 4.849, 1.213, -13.383, -0.529)


class ExtractiveWeights(tuple):
    """The weights α and the variant of the features for which they are intended.

    ``of_release`` selects the features of the authors' code (NAMAS), where the document's bigrams are (x_(j-2), x_j)
    and its trigrams (x_(j-3), x_(j-2), x_j). They are compared with adjacent words in the summary, so a copied phrase
    does not match. A word counts as reordered if its first occurrence in the document is before the first of the
    preceding word. The log-probability of the end symbol is included even if the summary has a fixed length.
    """

    of_release: bool = False

    @classmethod
    def from_numbers(cls, weights: Sequence[float], of_release: bool) -> "ExtractiveWeights":
        made = cls(weights)
        made.of_release = of_release
        return made

    @property
    def distances(self) -> Tuple[int, int]:
        """Return the distance between the words of a document bigram, and between the outer words of a trigram."""
        return (2, 3) if self.of_release else (1, 2)


def parse_extractive_weights(given: Any) -> Tuple[float, ...]:
    """Parse the weights α from numbers or a string such as "1,4.8,1.2,-13.4,-0.5". Returns () for an empty value.

    "release" selects the weights and features of the authors' code, and "release:" other weights for these features.

    Raises:
        ValueError: the value does not consist of five numbers, or the weight of log p is not above 0.
    """
    if given is None or len(given) == 0:
        return ()
    if isinstance(given, ExtractiveWeights):
        return given
    text, of_release = given, False
    if isinstance(given, str):
        name, _, numbers = given.partition(":")
        of_release = name == RELEASE
        text = numbers if of_release else given
        if of_release and not numbers:
            return ExtractiveWeights.from_numbers(RELEASED_WEIGHTS, True)
    try:
        weights = ExtractiveWeights.from_numbers(
            [float(part) for part in (text.split(",") if isinstance(text, str) else text)], of_release
        )
    except (TypeError, ValueError):
        weights = ExtractiveWeights()
    if len(weights) != len(FEATURES) or not all(map(math.isfinite, weights)) or weights[0] <= 0:
        shown = given if isinstance(given, str) else ",".join(map(str, given))
        raise ValueError(
            f"--extractive-weights {shown}: choose five numbers separated by commas, the weights of {FEATURES[0]} "
            f"(above 0), {', '.join(FEATURES[1:-1])} and {FEATURES[-1]}; or {RELEASE}, or {RELEASE}: and numbers"
        )
    return weights


class ExtractiveSearchTerm(SearchTerm):
    """The scoring term that ``--extractive-weights`` adds to a search."""

    def __init__(self, weights: Sequence[float]):
        self.weights = weights

    def check(self, models: Sequence[Any], dictionary: Any) -> None:
        for model in models:
            own = getattr(getattr(model, "encoder", None), "dictionary", None)
            if own is not None and own.symbols != dictionary.symbols[: len(own.symbols)]:  # ids cannot be compared
                raise ValueError(
                    "--extractive-weights needs one dictionary for documents and summaries, but DATA has two: create "
                    "the data again with etads-prepare, or fairseq-preprocess --joined-dictionary"
                )

    def begin(self, batch: TermBatch) -> ActiveTerm:
        """Prepare the features for the documents. Raises ValueError if these do not consist of words."""
        tokens, dictionary = batch.net_input.get("src_tokens"), batch.dictionary
        if tokens is None or tokens.dim() != 2:
            raise ValueError("--extractive-weights: the documents do not consist of words")
        # without a vocabulary, search ids are the ids of the dictionary, which documents and summaries share
        vocabulary = batch.vocabulary or OutputVocabulary(count_known_words(dictionary), dictionary.unk())
        words = vocabulary.convert_to_search_ids(tokens)
        hidden = _hide_special_symbols(tokens, dictionary).eq(NO_WORD) | words.eq(vocabulary.unk)
        return ExtractiveFeatures(words.masked_fill(hidden, NO_WORD), self.weights)

    def finish(self, results: Results, batch: TermBatch) -> None:
        """Add "features" (5,) to each hypothesis: the sums of log p and of the other features over its words."""
        of_release = getattr(self.weights, "of_release", False)
        documents = _hide_special_symbols(batch.net_input["src_tokens"], batch.dictionary).tolist()
        for document, hypotheses in zip(documents, results):
            for hypothesis in hypotheses:
                words = _hide_special_symbols(hypothesis["tokens"], batch.dictionary).tolist()
                counts = count_extractive_features(document, words, of_release)
                total = float(hypothesis["positional_scores"].sum())
                weighted = sum(weight * count for weight, count in zip(self.weights[1:], counts))
                hypothesis["features"] = torch.tensor([(total - weighted) / self.weights[0], *counts])


register_option_term("extractive_weights", parse_extractive_weights, ExtractiveSearchTerm)


class ExtractiveFeatures(ActiveTerm):
    """The weighted features in a search over B documents of at most U distinct words.

    ``words`` (B, S) are search ids, or :data:`NO_WORD` for tokens that are not words, and ``weights`` are the five α.
    """

    def __init__(self, words: Tensor, weights: Sequence[float]):
        self.weights = weights if isinstance(weights, ExtractiveWeights) else ExtractiveWeights(weights)
        self.scale = weights[0]
        self.largest_gain = sum(max(0.0, weight) for weight in weights[1:])
        self.end_always_counts = self.weights.of_release
        self.words = words
        is_word = words.ne(NO_WORD)
        numbers, distinct = number_by_first_occurrence(words, is_word)
        self.width = max(1, int(distinct.max()))  # U
        # (B, S): index of each word among its document's distinct words, or U for a token that is not a word
        self.numbers = numbers.masked_fill(~is_word, self.width)
        columns = words.new_zeros(len(words), self.width + 1)
        # (B, U): search ids of the distinct words
        self.columns = columns.scatter(1, self.numbers, words)[:, : self.width]
        self.is_filler = torch.arange(self.width, device=words.device) >= distinct[:, None]  # (B, U)
        self.columns = self.columns.masked_fill(self.is_filler, 0)
        places = torch.arange(words.shape[1], device=words.device).expand_as(words)
        first = places.new_full((len(words), self.width + 1), words.shape[1])
        self.first = first.scatter_reduce(1, self.numbers, places, "amin")[:, : self.width]  # (B, U)

    def add_to(self, lprobs: Tensor, tokens: Tensor) -> None:
        """Multiply the next words' log-probabilities (B, beam, W) by their weight and add the other features, in place.

        ``tokens`` (B, beam, t) are the search ids of the previous words, including the start symbol.
        """
        unigram, bigram, trigram, reordering = self.weights[1:]
        near, far = self.weights.distances
        last = tokens[:, :, -1:]  # (B, beam, 1)
        follows = self._shift_words(near).eq(last)  # (B, beam, S): True at positions preceded by the last word
        added = unigram + bigram * self._convert_positions_to_words(follows)  # (B, beam, U)
        if tokens.size(2) > 1:
            added += trigram * self._convert_positions_to_words(
                follows & self._shift_words(far).eq(tokens[:, :, -2:-1])
            )
        added += reordering * (self.first[:, None] < self._find_last_position(last))
        lprobs.mul_(self.weights[0])
        columns = self.columns[:, None].expand_as(added)
        lprobs.scatter_add_(2, columns, added.masked_fill(self.is_filler[:, None], 0.0).to(lprobs.dtype))

    def _find_last_position(self, last: Tensor) -> Tensor:
        """Return the last position (NAMAS: the first) of each word (B, beam, 1) in its document, or else -1."""
        place = torch.arange(self.words.shape[1], device=last.device)
        is_there = self.words[:, None].eq(last)  # (B, beam, S)
        if not self.weights.of_release:
            return torch.where(is_there, place, -1).amax(dim=2, keepdim=True)
        first = torch.where(is_there, place, len(place)).amin(dim=2, keepdim=True)
        return first.masked_fill(first == len(place), -1)

    def _shift_words(self, places: int) -> Tensor:
        """Return, for each position in the documents, the word ``places`` positions earlier (B, 1, S)."""
        return F.pad(self.words, (places, 0), value=NO_WORD)[:, None, : self.words.shape[1]]

    def _convert_positions_to_words(self, flags: Tensor) -> Tensor:
        """Return 1.0 for distinct words (B, beam, U) if a mask (B, beam, S) is True at one of their positions."""
        numbers = self.numbers[:, None].expand_as(flags)
        found = torch.zeros(*flags.shape[:2], self.width + 1, device=flags.device)
        return found.scatter_reduce(2, numbers, flags.float(), "amax")[:, :, : self.width]

    def select(self, documents: Tensor) -> "ExtractiveFeatures":
        """Return the features for the documents with the given indices (n,)."""
        chosen = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                setattr(chosen, name, value.index_select(0, documents))
        return chosen


def _hide_special_symbols(tokens: Tensor, dictionary: Any) -> Tensor:
    """Replace padding, begin symbols, end symbols and the unknown word with :data:`NO_WORD`."""
    symbols = (dictionary.pad(), dictionary.bos(), dictionary.eos(), dictionary.unk())
    return tokens.masked_fill(torch.isin(tokens, torch.tensor(symbols, device=tokens.device)), NO_WORD)


def count_extractive_features(document: Sequence[int], summary: Sequence[int], of_release: bool = False) -> List[int]:
    """Sum each feature except log p over the words of a summary. :data:`NO_WORD` stands for what is not a word."""
    near, far = ExtractiveWeights.from_numbers((), of_release).distances
    ngrams: List[Set[Tuple[int, ...]]] = [set(zip(document)), set(zip(document, document[near:]))]
    ngrams.append(set(zip(document, document[far - near :], document[far:])))
    first = {word: place for place, word in reversed([*enumerate(document)])}
    last = first if of_release else {word: place for place, word in enumerate(document)}
    counts = [0, 0, 0, 0]
    for end in range(1, len(summary) + 1):
        for size, known in enumerate(ngrams, 1):
            ngram = tuple(summary[end - size : end]) if size <= end else ()
            counts[size - 1] += NO_WORD not in ngram and ngram in known
        word, before = summary[end - 1], summary[end - 2] if end > 1 else NO_WORD
        if NO_WORD not in (word, before) and word in first:
            counts[3] += first[word] < last.get(before, -1)
    return counts


@dataclass
class NeuralLanguageModelConfig(PointerOptions):
    """Options of ABS. The letters in the help texts refer to the equations above."""

    encoder_embed_dim: int = option(
        200, "dimension of the document word embeddings (F in Rush et al. 2015)", bounds=SIZE
    )
    encoder_window: int = option(
        5,
        "size, in words, of the window over which document word embeddings are averaged (must be odd)",
        bounds=Bounds(1, odd=True),
    )
    source_marks: int = option(
        3,
        "number of begin symbols before each document, and of end symbols after it, that can receive "
        "attention (0: only the usual end symbol)",
        bounds=NOT_NEGATIVE,
    )
    context_size: int = option(
        5,
        "number of preceding summary words (C in Rush et al. 2015) from which the next word is predicted",
        bounds=SIZE,
    )
    decoder_embed_dim: int = option(
        200, "dimension of the summary word embeddings (E in Rush et al. 2015)", bounds=SIZE
    )
    decoder_context_dim: int = option(
        200,
        "dimension of the embeddings of preceding summary words in the attention query (G in Rush et al. 2015)",
        bounds=SIZE,
    )
    decoder_hidden_size: int = option(
        400, "dimension of the language model's hidden layer (h in Rush et al. 2015)", bounds=SIZE
    )
    max_row_norm: float = option(
        1.0,
        "maximum norm of word embeddings; embeddings with a larger norm are scaled down before each epoch (0: off)",
        bounds=NOT_NEGATIVE,
    )


PRESETS: Dict[str, Dict[str, Any]] = {"abs": {}}
"""Mapping from the name of each architecture to the defaults that it changes."""


def make_word_embedding(dictionary: Any, width: int) -> VocabularyEmbedding:
    """Create random word embeddings with an expected norm of about 1. The padding vector is 0."""
    table: Any = nn.Embedding(len(dictionary), width, dictionary.pad())
    nn.init.normal_(table.weight, std=width**-0.5)
    nn.init.zeros_(table.weight[dictionary.pad()])
    mark_lookup_table(table.weight)
    return VocabularyEmbedding(table, dictionary.unk())


class ABSEncoder(FairseqEncoder):
    """An encoder that computes the attention keys F x and values x̄ of a document."""

    def __init__(self, cfg: Any, dictionary: Any):
        super().__init__(dictionary)
        self.padding_idx, self.bos, self.eos = dictionary.pad(), dictionary.bos(), dictionary.eos()
        self.marks, self.window = cfg.source_marks, cfg.encoder_window
        self.embed_tokens = make_word_embedding(dictionary, cfg.encoder_embed_dim)

    def forward(self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None) -> Dict[str, Any]:
        """Encode documents (B, S), padded on either side. ``src_lengths`` is ignored.

        Returns a dictionary of lists of one tensor with a row per document, where M is S plus twice ``--source-marks``:
        "keys" F x (B, M, D), "encoder_out" x̄ (B, M, D), "encoder_padding_mask" (B, M), True at padding, and
        "src_tokens".
        """
        tokens = self.add_boundary_symbols(src_tokens)  # (B, M)
        padding = tokens.eq(self.padding_idx)
        words = self.embed_tokens(tokens).masked_fill(padding[:, :, None], 0.0)  # (B, M, D)
        # The sum is always divided by the full width of the window, even at the ends of a document.
        means = F.avg_pool1d(words.transpose(1, 2), self.window, stride=1, padding=self.window // 2)
        return {
            "encoder_out": [means.transpose(1, 2)],
            "keys": [words],
            "encoder_padding_mask": [padding],
            "src_tokens": [src_tokens],
        }

    def add_boundary_symbols(self, src_tokens: Tensor) -> Tensor:
        """Add begin symbols before each document (B, S), and more end symbols after its end symbol: (B, M)."""
        tokens = F.pad(src_tokens, (self.marks, self.marks), value=self.padding_idx)
        real = tokens.ne(self.padding_idx)
        place = torch.arange(tokens.shape[1], device=tokens.device)
        first = real.int().argmax(dim=1, keepdim=True)  # (B, 1)
        last = first + real.sum(dim=1, keepdim=True) - 1
        begins = (place < first) & (place >= first - self.marks)
        ends = (place > last) & (place <= last + self.marks - 1)
        return tokens.masked_fill(begins, self.bos).masked_fill(ends, self.eos)

    def reorder_encoder_out(self, encoder_out: Dict[str, Any], new_order: Tensor) -> Dict[str, Any]:
        """Select the encoder's output for the document indices ``new_order`` (N,), which may contain repetitions."""
        return select_encoder_output(encoder_out, new_order)


class ABSDecoder(PointingDecoder, FairseqIncrementalDecoder):
    """The language model with attention. The output layer reads [h; enc], so its weight is V and W side by side.

    The copy attention of the optional pointer compares the queries [h; enc] with the keys x̄.
    """

    def __init__(self, cfg: Any, dictionary: Any):
        super().__init__(dictionary)
        self.padding_idx, self.bos = dictionary.pad(), dictionary.bos()
        self.context_size, self.marks = cfg.context_size, cfg.source_marks
        self.embed_tokens = make_word_embedding(dictionary, cfg.decoder_embed_dim)  # E
        self.embed_context = make_word_embedding(dictionary, cfg.decoder_context_dim)  # G
        self.hidden = nn.Linear(cfg.context_size * cfg.decoder_embed_dim, cfg.decoder_hidden_size)  # U
        self.query = nn.Linear(cfg.context_size * cfg.decoder_context_dim, cfg.encoder_embed_dim)  # P
        width = cfg.decoder_hidden_size + cfg.encoder_embed_dim
        self.output_projection: Any = nn.Linear(width, len(dictionary))
        self.pointer: Optional[Pointer] = None
        if str(cfg.pointer) != "none":
            self.pointer = Pointer(width, cfg.encoder_embed_dim, str(cfg.pointer), continues=cfg.pointer_continue)

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Optional[Dict[str, Any]] = None,
        incremental_state: Optional[Any] = None,
        features_only: bool = False,
        request: Optional[WordRequest] = None,
        **_: Any,
    ) -> NetOutput:
        """Compute the logits (N, T, V) of the next words; see :class:`DecoderOutput`.

        N is a multiple of the number of documents B, and the rows of a document are adjacent. With an
        ``incremental_state``, which is not read, only the last step is computed. ``features_only`` returns the input of
        the output layer (N, T, H + D). ``request`` names the words whose log-probabilities the loss needs (None: all).

        The attention weights (N, T, S) are the values of π for the document's words. Their sum is less than 1, because
        π also covers the added symbols.
        """
        assert encoder_out is not None, "the decoder needs the encoder's output"
        steps = 1 if incremental_state is not None else prev_output_tokens.shape[1]
        words = self.gather_last_words(prev_output_tokens, steps)  # (N, T, C)
        hidden = torch.tanh(self.hidden(self.embed_tokens(words).flatten(2)))  # (N, T, H)
        query = self.query(self.embed_context(words).flatten(2))  # (N, T, D)
        means = encoder_out["encoder_out"][0]  # (B, M, D)
        weights = self.compute_attention_weights(
            query, encoder_out["keys"][0], encoder_out["encoder_padding_mask"][0]
        )  # (N, T, M)
        states = torch.cat(
            [hidden, multiply_by_document_matrices(weights.to(means.dtype), means)], dim=2
        )  # (N, T, H + D)
        of_words = slice(self.marks, means.shape[1] - self.marks)
        # In shorter documents, the added end symbols replace padding. Set their attention weights to 0.
        marked = encoder_out["src_tokens"][0].eq(self.padding_idx)  # (B, S)
        marked = marked.repeat_interleave(len(weights) // len(means), dim=0)[:, None]  # (N, 1, S)
        output = DecoderOutput(states, weights[:, :, of_words].masked_fill(marked, 0))
        if not features_only:
            memory = means[:, of_words].transpose(0, 1)  # (S, B, D)
            output = self.score_words(output, memory, prev_output_tokens, encoder_out, request)
        return output.to_fairseq_output()

    def gather_last_words(self, prev_output_tokens: Tensor, steps: int) -> Tensor:
        """Return the C words (N, steps, C) before each of the last ``steps`` predictions."""
        # Padding on either side is replaced with begin symbols.
        tokens = prev_output_tokens.masked_fill(prev_output_tokens.eq(self.padding_idx), self.bos)
        tokens = F.pad(tokens, (self.context_size - 1, 0), value=self.bos)
        return tokens[:, -(steps + self.context_size - 1) :].unfold(1, self.context_size, 1)

    @staticmethod
    def compute_attention_weights(query: Tensor, keys: Tensor, padding: Tensor) -> Tensor:
        """Compute π (N, T, M), in float32 or more, from queries (N, T, D), keys (B, M, D) and a padding mask (B, M)."""
        scores = widen_to_float32(multiply_by_document_matrices(query, keys.transpose(1, 2)))
        hidden = padding.repeat_interleave(len(query) // len(keys), dim=0)[:, None]
        return scores.masked_fill(hidden, -math.inf).softmax(dim=2)


class ABSModel(SummarizationModel, EncoderDecoderMixin, FairseqEncoderDecoderModel):
    """The model of attention-based summarisation (ABS), one of :data:`PRESETS` with ``--arch``.

    ``max_row_norm`` is the maximum norm of word embeddings at the start of an epoch, or 0 for no limit.
    """

    def __init__(self, encoder: ABSEncoder, decoder: ABSDecoder, max_row_norm: float):
        super().__init__(encoder, decoder)
        self.max_row_norm = max_row_norm

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "ABSModel":
        """Build the model. Raises ValueError if an option is incompatible with another option or the dictionaries."""
        config = convert_options_to_namespace(cfg)
        check_options(config, NeuralLanguageModelConfig, list_data_properties(task))
        encoder = ABSEncoder(config, remove_copy_tail(task.source_dictionary))
        return cls(encoder, ABSDecoder(config, remove_copy_tail(task.target_dictionary)), config.max_row_norm)

    @torch.no_grad()
    def limit_embedding_norms(self) -> None:
        """Scale down each row of E, F and G that has a norm above ``max_row_norm``, before each epoch.

        Raises:
            ValueError: the weights have half precision, so the optimiser updates a separate copy.
        """
        if not self.max_row_norm:
            return
        for table in (self.encoder.embed_tokens, self.decoder.embed_tokens, self.decoder.embed_context):
            if table.weight.dtype in (torch.float16, torch.bfloat16):
                raise ValueError(
                    f"--max-row-norm {self.max_row_norm:g} does not work with --fp16 or --bf16, because the optimiser "
                    "then has its own copy of the weights: leave out --fp16 or --bf16, use --amp, or give "
                    "--max-row-norm 0"
                )
            length = table.weight.norm(dim=1, keepdim=True)
            table.weight.mul_(self.max_row_norm / length.clamp(min=self.max_row_norm))


register_presets(ABSModel, PRESETS, NeuralLanguageModelConfig)
