"""The encoders of the recurrent family: a bidirectional network or a convolution over the words of a document.

The module also creates the optional sentence extractor of a summariser.
"""

from argparse import Namespace
from typing import Any, Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F
from fairseq.models import FairseqEncoder
from fairseq.modules import FairseqDropout
from torch import Tensor, nn

from ..kernels.linear import widen_to_float32
from ..layers.encoder import EncoderGate
from ..layers.recurrent import (
    BidirectionalGRU,
    BidirectionalLSTM,
    SentenceEncoder,
    compute_sentence_ids,
    encode_by_sentence,
)
from ..layers.sentence_selector import UNREAD
from .common import check_factor_count, select_encoder_output
from .selector import ExtractorConfig, SentenceExtractor

MAX_POSITIONS = 100_000
"""Maximum length reported to fairseq. Recurrent networks have no limit, but fairseq requires a number."""
SOURCE_POSITIONS = 200
"""Number of learned position embeddings. All later words share the last embedding."""


def compute_input_width(words: int, factors: Dict[str, nn.Embedding]) -> int:
    """Return the width of the encoder's input. The input concatenates the embeddings of a word and its factors."""
    return words + sum(table.embedding_dim for table in factors.values())


def compute_key_width(cfg: Any) -> int:
    """Return the width of the attention keys, which are compared with the decoder's queries."""
    return int(cfg.decoder_hidden_size if str(cfg.attention_score) == "dot" else cfg.attention_dim)


def get_dropout_rates(cfg: Any) -> Tuple[float, float]:
    """Return one dropout probability for word embeddings and encoder states, and one for the decoder's state.

    --dropout-at determines which of the two equals --dropout. The other one is 0.
    """
    return (0.0, cfg.dropout) if str(cfg.dropout_at) == "state" else (cfg.dropout, 0.0)


def compute_encoder_state_width(cfg: Any) -> int:
    """Return the width of the encoder states with --encoder rnn, after the optional projection."""
    return int(cfg.encoder_projection or 2 * cfg.encoder_hidden_size)


class WordEncoder(FairseqEncoder):
    """Base class of the recurrent family's encoders. It embeds words and their source factors.

    Args:
        cfg: the model options.
        dictionary: the dictionary of known words.
        embed_tokens: the embeddings of the known words.
        factors: a dictionary from factor names to embeddings. The encoder reads the factors in alphabetical order.

    Attributes:
        extractor: the model that predicts sentence probabilities with ``--sentence-attention extractor``, or None.
    """

    def __init__(self, cfg: Any, dictionary: Any, embed_tokens: nn.Embedding, factors: Dict[str, nn.Embedding]):
        super().__init__(dictionary)
        self.padding_idx = dictionary.pad()
        self.embed_tokens = embed_tokens
        self.factors = nn.ModuleDict({name: factors[name] for name in sorted(factors)})
        self.dropout = FairseqDropout(get_dropout_rates(cfg)[0], module_name=type(self).__name__)
        self.extractor: Optional[SentenceExtractor] = None

    def _add_extractor_output(self, out: Dict[str, List[Tensor]]) -> Dict[str, List[Tensor]]:
        """Add the extractor's output to the encoder's output ``out``, if the encoder has an extractor."""
        return out if self.extractor is None else {**out, **run_extractor(self.extractor, out["src_tokens"][0])}

    def _embed(self, src_tokens: Tensor, factors: Optional[Tensor]) -> Tensor:
        """Return the concatenated embeddings (B, S, D) of words and their factors."""
        parts = [self.embed_tokens(src_tokens)]
        check_factor_count(self.factors, factors)
        if factors is not None:
            parts += [table(column) for table, column in zip(self.factors.values(), factors.unbind(dim=2))]
        return torch.cat(parts, dim=2)

    def reorder_encoder_out(self, encoder_out: Dict[str, Any], new_order: Tensor) -> Dict[str, Any]:
        """Select the encoder's output for the documents ``new_order`` (N,). An index can occur more than once."""
        return select_encoder_output(encoder_out, new_order)

    def max_positions(self) -> int:
        return MAX_POSITIONS


class RecurrentEncoder(WordEncoder):
    """A bidirectional GRU or LSTM over the words of a document, optionally with source factors and sentence states.

    With ``--encoder-gate selective``, the states h_i are replaced with h'_i = h_i * σ(W h_i + U s + b), where s =
    [last forward state; first backward state] represents the whole document (Zhou et al. 2017). Only the bridge reads
    the original states.

    The bridge computes the decoder's initial state a(W [last forward state; last backward state] + b), where
    ``--bridge`` selects the function a. An LSTM has a second bridge for its memory cells (See et al. 2017). With a
    sentence selector, the encoder has no bridge.

    ``sentence_mark`` is the id of the token that ends a sentence, or None if the model does not use sentence indices.
    """

    def __init__(
        self,
        cfg: Any,
        dictionary: Any,
        embed_tokens: nn.Embedding,
        factors: Dict[str, nn.Embedding],
        sentence_mark: Optional[int],
    ):
        super().__init__(cfg, dictionary, embed_tokens, factors)
        width = compute_input_width(embed_tokens.embedding_dim, factors)
        states = 2 * cfg.encoder_hidden_size
        self.rnn_cell = str(cfg.rnn_cell)
        network = {"gru": BidirectionalGRU, "lstm": BidirectionalLSTM}[self.rnn_cell]
        # The attribute is called "gru" or "lstm", because the weight names in checkpoints contain this word.
        sizes = (width, cfg.encoder_hidden_size, cfg.encoder_layers, cfg.dropout)
        self.add_module(self.rnn_cell, network(*sizes, learnt_start=cfg.learnt_start))
        self.gate = EncoderGate(states) if str(cfg.encoder_gate) == "selective" else None
        self.projection: Optional[nn.Linear] = None
        if cfg.encoder_projection:
            self.projection = nn.Linear(states, cfg.encoder_projection, bias=False)
        # The keys are computed once and used in all decoding steps.
        self.keys = nn.Linear(compute_encoder_state_width(cfg), compute_key_width(cfg), bias=False)
        self.by_sentence = bool(cfg.encoder_by_sentence)
        # With a sentence selector, the selected sentences determine the decoder's initial state instead.
        bridge = "zero" if cfg.sentence_selector else str(cfg.bridge)
        self.bridge = {"tanh": torch.tanh, "relu": torch.relu, "linear": torch.positive, "zero": None}[bridge]
        self.first_state = self.first_cell = None
        if self.bridge is not None:
            self.first_state = nn.Linear(states, cfg.decoder_hidden_size)
            self.first_cell = nn.Linear(states, cfg.decoder_hidden_size) if self.rnn_cell == "lstm" else None
        self.sentence_mark = sentence_mark
        self.sentences: Optional[SentenceEncoder] = None
        if sentence_mark is not None:
            self.sentences = SentenceEncoder(
                states,
                cfg.encoder_hidden_size,
                compute_key_width(cfg),
                positions=not cfg.sentence_selector,
                gate=cfg.sentence_gate,
            )

    def forward(
        self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None, factors: Optional[Tensor] = None, **_: Any
    ) -> Dict[str, Any]:
        """Encode source documents (B, S), int64, with the ids of their factor values (B, S, F). Lengths are ignored.

        Returns a dictionary of lists. Each list contains one tensor with one row per document: "encoder_out" (B, S, M),
        "keys" (B, S, A), "encoder_padding_mask" (B, S) and "src_tokens". With a bridge, the dictionary also contains
        "first_state" (B, H_dec) and, for an LSTM, "first_cell" (B, H_dec). With sentences, it contains "sentence_ids"
        (B, S), "sentence_keys" (B, N, A), "sentence_padding_mask" (B, N), "sentence_states" (B, N, 2H) and "documents"
        (B, 2H). With an extractor, it contains the results of :func:`run_extractor`.
        """
        padding = src_tokens.eq(self.padding_idx)
        ids = None
        if self.sentence_mark is not None:
            ids = compute_sentence_ids(src_tokens, self.sentence_mark).masked_fill(padding, 0)
        states, last, last_cells = self._encode_words(src_tokens, factors, padding, ids)
        if self.gate is not None:
            states = self.gate.apply_gate(states, last[:, None])  # (B, S, 2H)
        states = self.dropout(states)
        if self.projection is not None:
            states = self.projection(states)  # (B, S, M)
        out: Dict[str, List[Tensor]] = {
            "encoder_out": [states],
            "keys": [self.keys(states)],
            "encoder_padding_mask": [padding],
            "src_tokens": [src_tokens],
        }
        if self.bridge is not None and self.first_state is not None:
            out["first_state"] = [self.bridge(self.first_state(last))]
        if self.bridge is not None and self.first_cell is not None:
            out["first_cell"] = [self.bridge(self.first_cell(last_cells))]
        if self.sentences is not None and ids is not None:
            found = self.sentences(states, ids, padding)
            out |= {"sentence_ids": [ids], "sentence_keys": [found.keys], "sentence_padding_mask": [found.missing]}
            out |= {"sentence_states": [found.states], "documents": [found.documents]}
        return self._add_extractor_output(out)

    def compute_document_vectors(self, src_tokens: Tensor) -> Tensor:
        """Compute the vectors s (B, 2H) of documents (B, S) without source factors.

        Each vector concatenates the last forward state and the first backward state.
        """
        return self._encode_words(src_tokens, None, src_tokens.eq(self.padding_idx), None)[1]

    def _encode_words(
        self, src_tokens: Tensor, factors: Optional[Tensor], padding: Tensor, ids: Optional[Tensor]
    ) -> Tuple[Tensor, Tensor, Optional[Tensor]]:
        """Run the network over the words (B, S), and return what :meth:`.BidirectionalRNN.forward` returns."""
        network, words = getattr(self, self.rnn_cell), self.dropout(self._embed(src_tokens, factors))
        if self.by_sentence and ids is not None:
            return encode_by_sentence(network, words, padding, ids)
        found: Tuple[Tensor, Tensor, Optional[Tensor]] = network(words, padding)
        return found


class ConvolutionalEncoder(WordEncoder):
    """An encoder that uses the output of a convolution as attention keys and word embeddings as attention values.

    The keys are z_i = Σ_k W_k (x_(i+k) + l_(i+k)) + b, where x are word embeddings and l are position embeddings. The
    sum runs over a window around word i, and the vectors outside the document are zero (Chopra et al. 2016). Attention
    compares its query with the keys z and returns a weighted sum of the word embeddings x.
    """

    def __init__(self, cfg: Any, dictionary: Any, embed_tokens: nn.Embedding, factors: Dict[str, nn.Embedding]):
        super().__init__(cfg, dictionary, embed_tokens, factors)
        width, window = compute_input_width(embed_tokens.embedding_dim, factors), cfg.encoder_window
        self.positions = nn.Embedding(SOURCE_POSITIONS, width)
        nn.init.normal_(self.positions.weight, std=0.1)
        self.convolution = nn.Conv1d(width, compute_key_width(cfg), window, padding=window // 2)

    def forward(
        self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None, factors: Optional[Tensor] = None, **_: Any
    ) -> Dict[str, Any]:
        """Encode source documents; see :class:`RecurrentEncoder`, here without a bridge or sentences."""
        padding = src_tokens.eq(self.padding_idx)
        words = self.dropout(self._embed(src_tokens, factors)).masked_fill(padding[:, :, None], 0.0)  # (B, S, D)
        numbers = (~padding).long().cumsum(dim=1).sub(1).clamp(min=0, max=SOURCE_POSITIONS - 1)
        placed = (words + self.positions(numbers)).masked_fill(padding[:, :, None], 0.0)
        keys = self.convolution(placed.transpose(1, 2)).transpose(1, 2)  # (B, S, A)
        out: Dict[str, List[Tensor]] = {
            "encoder_out": [words],
            "keys": [keys.contiguous()],
            "encoder_padding_mask": [padding],
            "src_tokens": [src_tokens],
        }
        return self._add_extractor_output(out)


def make_extractor(config: Any, task: Any) -> SentenceExtractor:
    """Create a summariser's sentence extractor from the summariser's options.

    Raises:
        ValueError: an option has an invalid value, or the documents contain no sentence marks.
    """
    options = ExtractorConfig(
        encoder_embed_dim=config.extractor_embed_dim,
        encoder_hidden_size=config.extractor_hidden_size,
        dropout=config.dropout,
        max_sentences=config.max_sentences,
        max_sentence_words=config.max_sentence_words,
    )
    return SentenceExtractor.build_model(Namespace(**vars(options)), task)


def run_extractor(extractor: SentenceExtractor, src_tokens: Tensor) -> Dict[str, List[Tensor]]:
    """Run the extractor on documents (B, S), and return its results in the format of an encoder's output.

    "extraction" contains the extractor's logits (B, U) and a mask that is True at sentences that the extractor reads.
    "log_selected" contains log β (B, S) in float32 or higher precision, where β is the probability of the sentence that
    contains the token. β is 0 in sentences that the extractor does not read. If the extractor reads no sentence of a
    document, β is 1 at all tokens.
    """
    logits, real = extractor(src_tokens)
    log_beta = F.logsigmoid(widen_to_float32(logits).masked_fill(~real, 0.0)).masked_fill(~real, UNREAD)
    log_beta = log_beta.masked_fill(~real.any(dim=1, keepdim=True), 0.0)
    return {"extraction": [logits, real], "log_selected": [extractor.convert_to_tokens(log_beta, src_tokens)]}
