"""The encoder of the recurrent family: words and their factors, a bidirectional GRU, and one over sentences."""

from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from fairseq.models import FairseqEncoder
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ..vocabulary.output import OutputVocabulary

SENTENCE_POSITIONS = 100
"""Sentences from here on share the last position vector."""
SENTENCE_POSITION_DIM = 32
"""Width of a sentence's position vector, which the paper does not give."""
MAX_POSITIONS = 100_000
"""There is no limit to what a recurrent network reads; fairseq wants one."""


class BidirectionalGRU(nn.Module):
    """A GRU of both directions (torch's, cuDNN's on a GPU) that never sees padding, on whichever side it is.

    On a GPU torch's packed sequences leave padding out. Elsewhere their backward pass takes time quadratic in the
    length (a gradient of the whole batch for each step), so each direction runs by itself there, over documents that
    all begin in the first column: what comes of padding, behind them, is not looked at.

    Args:
        input_dim: width of inputs. hidden: width of each direction. layers: how many; dropout: between them.
    """

    def __init__(self, input_dim: int, hidden: int, layers: int = 1, dropout: float = 0.0):
        super().__init__()
        between = dropout if layers > 1 else 0.0
        self.rnn = nn.GRU(input_dim, hidden, layers, batch_first=True, bidirectional=True, dropout=between)

    def forward(self, x: Tensor, padding: Tensor) -> Tuple[Tensor, Tensor]:
        """Inputs (B, S, input_dim), padding (B, S) bool -> states (B, S, 2 * hidden), 0 at padding, and last ones.

        The last states (B, 2 * hidden) are the forward direction's at the last real token and the backward one's at the
        first.
        """
        order = padding.int().argsort(dim=1, stable=True)  # real tokens to the front, in their order
        lengths = (~padding).sum(dim=1).clamp(min=1)
        run = self._packed if x.is_cuda else self._both_ways
        states, last = run(_rows(x, order), lengths)
        return _rows(states, order.argsort(dim=1)).masked_fill(padding[:, :, None], 0.0), last

    def _packed(self, x: Tensor, lengths: Tensor) -> Tuple[Tensor, Tensor]:
        """Inputs (B, S, input_dim) without padding on the left, lengths (B,) -> states and last states."""
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        packed, final = self.rnn(packed)
        states, _ = pad_packed_sequence(packed, batch_first=True, total_length=x.shape[1])
        return states, torch.cat([final[-2], final[-1]], dim=1)

    def _both_ways(self, x: Tensor, lengths: Tensor) -> Tuple[Tensor, Tensor]:
        """The same; the states at padding are not 0."""
        places = torch.arange(x.shape[1], device=x.device).expand(x.shape[:2])
        backwards = torch.where(places < lengths[:, None], lengths[:, None] - 1 - places, places)
        forward = backward = x
        weights = self.rnn.all_weights  # of each layer's two directions
        for layer in range(self.rnn.num_layers):
            if layer:
                x = F.dropout(torch.cat([forward, backward], dim=2), self.rnn.dropout, self.training)
            forward = self._one_way(x, weights[2 * layer])
            backward = _rows(self._one_way(_rows(x, backwards), weights[2 * layer + 1]), backwards)
        last = forward.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, forward.shape[2]))[:, 0]
        return torch.cat([forward, backward], dim=2), torch.cat([last, backward[:, 0]], dim=1)

    def _one_way(self, x: Tensor, weights: Sequence[Tensor]) -> Tensor:
        """One direction of one layer, (B, S, D) -> (B, S, hidden)."""
        first = x.new_zeros(1, len(x), self.rnn.hidden_size)
        states, _ = torch.gru(x, first, [*weights], True, 1, 0.0, self.training, bidirectional=False, batch_first=True)
        return states


def _rows(x: Tensor, order: Tensor) -> Tensor:
    """The places ``order`` (B, S) of x (B, S, D)."""
    return x.gather(1, order[:, :, None].expand_as(x))


def sentence_ids(src_tokens: Tensor, mark: int) -> Tensor:
    """For each token of (B, S) how many sentence marks stand before it: the number of its sentence, from 0."""
    marks = src_tokens.eq(mark).long()
    return marks.cumsum(dim=1) - marks


def sentence_ends(ids: Tensor, padding: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """First and last token of each sentence.

    Args:
        ids: (B, S), from :func:`sentence_ids`. padding: (B, S) bool.

    Returns:
        first (B, N) and last (B, N), places in the document; which sentences a document lacks (B, N) bool.
    """
    count = int(ids.masked_fill(padding, 0).max()) + 1
    places = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    ids = ids.masked_fill(padding, count)  # a sentence of its own, cut off below
    table = ids.new_zeros(len(ids), count + 1)
    first = table.scatter_reduce(1, ids, places, "amin", include_self=False)
    last = table.scatter_reduce(1, ids, places, "amax", include_self=False)
    missing = table.scatter(1, ids, 1) == 0
    return first[:, :count], last[:, :count], missing[:, :count]


class SentenceEncoder(nn.Module):
    """A GRU over sentences, and the vectors of their positions (Nallapati et al., section 2.4).

    A sentence enters as the word-level states at its two ends: forward at its last word, backward at its first.
    """

    def __init__(self, word_dim: int, hidden: int, attention_dim: int):
        super().__init__()
        self.gru = BidirectionalGRU(word_dim, hidden)
        self.positions = nn.Embedding(SENTENCE_POSITIONS, SENTENCE_POSITION_DIM)
        self.keys = nn.Linear(2 * hidden + SENTENCE_POSITION_DIM, attention_dim, bias=False)

    def forward(self, states: Tensor, ids: Tensor, padding: Tensor) -> Tuple[Tensor, Tensor]:
        """Word states (B, S, 2H), sentence numbers and padding (B, S) -> keys (B, N, A), which lack (B, N)."""
        first, last, missing = sentence_ends(ids, padding)
        forward, backward = states.chunk(2, dim=2)
        ends = [
            half.gather(1, place[:, :, None].expand(-1, -1, half.shape[2]))
            for half, place in ((forward, last), (backward, first))
        ]
        sentences, _ = self.gru(torch.cat(ends, dim=2), missing)
        number = torch.arange(sentences.shape[1], device=ids.device).clamp(max=SENTENCE_POSITIONS - 1)
        positions = self.positions(number).expand(len(ids), -1, -1)
        return self.keys(torch.cat([sentences, positions], dim=2)), missing


class RecurrentEncoder(FairseqEncoder):
    """A bidirectional GRU over words, with or without source factors and sentences.

    Args:
        cfg: the model's options. dictionary: the known words. embed_tokens: their vectors.
        factors: table of vectors of each source factor, by its name; read in alphabetical order.
        sentence_mark: id of the token that ends a sentence, or None for a model without sentences.
    """

    def __init__(
        self,
        cfg: Any,
        dictionary: Any,
        embed_tokens: nn.Embedding,
        factors: Dict[str, nn.Embedding],
        sentence_mark: Optional[int],
    ):
        super().__init__(dictionary)
        self.padding_idx = dictionary.pad()
        self.embed_tokens = embed_tokens
        self.factors = nn.ModuleDict({name: factors[name] for name in sorted(factors)})
        self.dropout = nn.Dropout(cfg.dropout)
        width = embed_tokens.embedding_dim + sum(table.embedding_dim for table in factors.values())
        states = 2 * cfg.encoder_hidden_size
        self.gru = BidirectionalGRU(width, cfg.encoder_hidden_size, cfg.encoder_layers, cfg.dropout)
        # the document's part of the attention, once for all steps
        self.keys = nn.Linear(states, cfg.attention_dim, bias=False)
        self.first_state = nn.Linear(states, cfg.decoder_hidden_size)
        self.sentence_mark = sentence_mark
        self.sentences: Optional[SentenceEncoder] = None
        if sentence_mark is not None:
            self.sentences = SentenceEncoder(states, cfg.encoder_hidden_size, cfg.attention_dim)

    def forward(
        self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None, factors: Optional[Tensor] = None, **_: Any
    ) -> Dict[str, Any]:
        """Read documents.

        Args:
            src_tokens: (B, S), int64. src_lengths: not looked at. factors: (B, S, F), int64, one column a factor.

        Returns:
            lists of one tensor with a row per document: "encoder_out" (B, S, 2H), "keys" (B, S, A),
            "encoder_padding_mask" (B, S), "first_state" (B, H_dec), "src_tokens"; with sentences also "sentence_ids"
            (B, S), "sentence_keys" (B, N, A) and "sentence_padding_mask" (B, N).
        """
        padding = src_tokens.eq(self.padding_idx)
        states, last = self.gru(self.dropout(self._embed(src_tokens, factors)), padding)
        states = self.dropout(states)
        out: Dict[str, List[Tensor]] = {
            "encoder_out": [states],
            "keys": [self.keys(states)],
            "encoder_padding_mask": [padding],
            "first_state": [torch.tanh(self.first_state(last))],
            "src_tokens": [src_tokens],
        }
        if self.sentences is not None and self.sentence_mark is not None:
            ids = sentence_ids(src_tokens, self.sentence_mark).masked_fill(padding, 0)
            keys, missing = self.sentences(states, ids, padding)
            out |= {"sentence_ids": [ids], "sentence_keys": [keys], "sentence_padding_mask": [missing]}
        return out

    def _embed(self, src_tokens: Tensor, factors: Optional[Tensor]) -> Tensor:
        """Word vectors and those of the factors side by side, (B, S, D)."""
        parts = [self.embed_tokens(src_tokens)]
        given = 0 if factors is None else factors.shape[2]
        if given != len(self.factors):
            raise ValueError(
                f"the model reads {len(self.factors)} source factors ({', '.join(self.factors) or 'none'}) and the "
                f"batch has {given}"
            )
        if factors is not None:
            parts += [table(column) for table, column in zip(self.factors.values(), factors.unbind(dim=2))]
        return torch.cat(parts, dim=2)

    def reorder_encoder_out(self, encoder_out: Dict[str, Any], new_order: Tensor) -> Dict[str, Any]:
        """The documents ``new_order`` (N,) of a batch, repeated or not."""
        reordered: Dict[str, Any] = {}
        for name, value in encoder_out.items():
            if isinstance(value, list):
                reordered[name] = [tensor.index_select(0, new_order) for tensor in value]
            elif isinstance(value, OutputVocabulary):
                reordered[name] = value.select(new_order)
            else:  # rows of the output layer, which belong to the whole batch
                reordered[name] = value
        return reordered

    def max_positions(self) -> int:
        return MAX_POSITIONS
