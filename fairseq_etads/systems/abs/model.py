"""ABS (Rush, Chopra, Weston 2015): a neural language model over the last words, with attention to the document.

    h   = tanh(U [E y_(i-C+1); …; E y_i] + b_U)          p(y_(i+1)) = softmax(V h + W enc + b)
    π   = softmax_j(F x_j · (P [G y_(i-C+1); …; G y_i] + b_P)),   enc = Σ_j π_j x̄_j

x are the words of the document. x̄_j is the mean of F x over a window around position j; positions outside the document
count as zero. y_(i-C+1), …, y_i are the last C words of the summary, padded on the left with begin symbols. Each
step depends only on the document and these C words.
"""

import math
from dataclasses import dataclass
from typing import Any, Dict, Optional

import torch
import torch.nn.functional as F
from fairseq.models import FairseqEncoder, FairseqEncoderDecoderModel, FairseqIncrementalDecoder
from torch import Tensor, nn

from ...kernels.precision import widen_to_float32
from ...layers.decoder_output import (
    DecoderOutput,
    NetOutput,
    PointingDecoder,
    WordRequest,
    multiply_by_document_matrices,
)
from ...layers.embedding import VocabularyEmbedding, mark_lookup_table
from ...layers.pointer import Pointer
from ...models.common import (
    EncoderDecoderMixin,
    PointerOptions,
    SummarizationModel,
    convert_options_to_namespace,
    list_data_properties,
    register_presets,
    select_encoder_output,
)
from ...platform.option_checks import NOT_NEGATIVE, SIZE, Bounds, check_options, option
from ...vocabulary.dictionary import remove_copy_tail


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
            ValueError: the weights have half precision, of which the optimiser has a separate copy.
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
