"""Layers of the recurrent model family: GRUs and LSTMs over words and sentences, and an output layer."""

from typing import List, NamedTuple, Optional, Sequence, Tuple, TypeVar

import torch
import torch.nn.functional as F
from fairseq.modules import FairseqDropout
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from .aggregation import EncoderGate
from .embedding import wants_sparse_gradient

SENTENCE_POSITIONS = 100
"""Number of sentence positions. All sentences after the last position share its vector."""
SENTENCE_POSITION_DIM = 32
"""Width of position vectors for sentences, which the paper does not specify."""


class Bidirectional(nn.Module):
    """A bidirectional recurrent network with states that do not depend on padding, which may be on either side.

    This class wraps one of torch's networks, which use cuDNN on a GPU. On a GPU, packed sequences are used to skip the
    padding. On a CPU, the backward pass of packed sequences takes time that is quadratic in the length, because it
    fills a gradient of the whole batch at each step. Therefore, on a CPU, documents are shifted to the first column,
    each direction runs separately, and states after the end of a document are discarded.

    Args:
        rnn: torch's network, created with ``batch_first=True`` and ``bidirectional=True``.
        dropout: dropout probability between the layers of the network.
        learnt_start: whether to learn the initial states (Chen and Bansal 2018) instead of using 0.
    """

    states = 1
    """Number of tensors in a state of the network: 1 (h), or 2 (h and c) for an LSTM."""

    def __init__(self, rnn: nn.RNNBase, dropout: float, learnt_start: bool = False):
        super().__init__()
        self.rnn = rnn
        self.dropout = FairseqDropout(dropout, module_name=type(self).__name__)
        self.start: Optional[nn.Parameter] = None
        if learnt_start:  # each tensor in a state has one row for each layer and direction
            rows = torch.empty(self.states, 2 * rnn.num_layers, rnn.hidden_size)
            self.start = nn.Parameter(rows.uniform_(-0.01, 0.01))

    def _first(self, x: Tensor, rows: slice) -> List[Tensor]:
        """Return the tensors (L, B, hidden) of the initial state.

        Args:
            x: inputs (B, S, D).
            rows: slice that selects L combinations of layer and direction.
        """
        if self.start is None:
            count = len(range(2 * self.rnn.num_layers)[rows])
            return [x.new_zeros(count, len(x), self.rnn.hidden_size)] * self.states
        return [part[rows, None].expand(-1, len(x), -1).contiguous().to(x.dtype) for part in self.start]

    def forward(self, x: Tensor, padding: Tensor) -> Tuple[Tensor, Tensor, Optional[Tensor]]:
        """Run the network on a batch of sequences.

        Args:
            x: inputs (B, S, input_dim).
            padding: (B, S), bool, True at padding.

        Returns:
            The states (B, S, 2 * hidden), 0 at padding; the final states (B, 2 * hidden), which are the forward state
            at the last real token and the backward state at the first real token; and the memory cells (B, 2 * hidden)
            at the same positions, or None if the network has none.
        """
        order = padding.int().argsort(dim=1, stable=True)  # (B, S): positions of real tokens first, in order
        lengths = (~padding).sum(dim=1).clamp(min=1)
        run = self._run_packed if x.is_cuda else self._run_directions
        states, last, cells = run(take_positions(x, order), lengths)
        return take_positions(states, order.argsort(dim=1)).masked_fill(padding[:, :, None], 0.0), last, cells

    def _run_packed(self, x: Tensor, lengths: Tensor) -> Tuple[Tensor, Tensor, Optional[Tensor]]:
        """Run the network on packed sequences. Returns states, final states and memory cells.

        The inputs (B, S, input_dim) have the given lengths (B,) and no padding on the left.
        """
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        drops = self.training or self.dropout.apply_during_inference
        # In training mode, torch's module applies dropout between its layers. cuDNN supports the backward pass only in
        # this mode, but training with rewards needs a backward pass without dropout.
        self.rnn.dropout = self.dropout.p if drops else 0.0
        self.rnn.training = drops or torch.is_grad_enabled()
        first = self._first(x, slice(None))
        packed, final = self.rnn(packed, first[0] if self.states == 1 else tuple(first))
        self.rnn.training = self.training
        # If the packed sequence included the order of the texts, torch would also reorder their lengths, which would
        # synchronise the CPU with a GPU.
        in_order = PackedSequence(packed.data, packed.batch_sizes)
        states, _ = pad_packed_sequence(in_order, batch_first=True, total_length=x.shape[1])
        states = states.index_select(0, packed.unsorted_indices)
        hidden, cells = final if isinstance(final, tuple) else (final, None)
        last_cells = None if cells is None else torch.cat([cells[-2], cells[-1]], dim=1)
        return states, torch.cat([hidden[-2], hidden[-1]], dim=1), last_cells

    def _run_directions(self, x: Tensor, lengths: Tensor) -> Tuple[Tensor, Tensor, Optional[Tensor]]:
        """Do the same as :meth:`_run_packed`, but run each direction separately.

        States at padding may differ from 0.
        """
        positions = torch.arange(x.shape[1], device=x.device).expand(x.shape[:2])  # (B, S)
        ended = positions >= lengths[:, None]
        reversed_positions = torch.where(ended, positions, lengths[:, None] - 1 - positions)
        forward = backward = x
        cells: List[Optional[Tensor]] = [None, None]
        weights = self.rnn.all_weights  # one list for each layer and direction: forward, backward, forward, …
        for layer in range(self.rnn.num_layers):
            if layer:
                x = self.dropout(torch.cat([forward, backward], dim=2))
            places = [slice(number, number + 1) for number in (2 * layer, 2 * layer + 1)]
            forward, cells[0] = self._run_direction(x, weights[2 * layer], ended, self._first(x, places[0]))
            backward, cells[1] = self._run_direction(
                take_positions(x, reversed_positions), weights[2 * layer + 1], ended, self._first(x, places[1])
            )
            backward = take_positions(backward, reversed_positions)
        last = forward.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, forward.shape[2]))[:, 0]
        both = [ends for ends in cells if ends is not None]
        return (
            torch.cat([forward, backward], dim=2),
            torch.cat([last, backward[:, 0]], dim=1),
            torch.cat(both, dim=1) if both else None,
        )

    def _run_direction(
        self, x: Tensor, weights: Sequence[Tensor], ended: Tensor, first: List[Tensor]
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Run one direction of one layer.

        Args:
            x: inputs (B, S, D).
            weights: the four weights W_ih, W_hh, b_ih and b_hh.
            ended: (B, S), bool, True after the end of a document.
            first: the tensors of the initial state, (1, B, hidden) each.

        Returns:
            The states (B, S, hidden), and the memory cells (B, hidden) at the end of each document, or None.
        """
        raise NotImplementedError


class BidirectionalGRU(Bidirectional):
    """A bidirectional GRU; see :class:`Bidirectional`.

    Args:
        input_dim: width of inputs.
        hidden: width of each direction.
        layers: number of layers.
        dropout: dropout probability between layers.
        learnt_start: whether to learn the initial states.
    """

    def __init__(self, input_dim: int, hidden: int, layers: int = 1, dropout: float = 0.0, learnt_start: bool = False):
        between = dropout if layers > 1 else 0.0
        rnn = nn.GRU(input_dim, hidden, layers, batch_first=True, bidirectional=True, dropout=between)
        super().__init__(rnn, between, learnt_start)

    def _run_direction(
        self, x: Tensor, weights: Sequence[Tensor], ended: Tensor, first: List[Tensor]
    ) -> Tuple[Tensor, Optional[Tensor]]:
        (h,) = first
        states, _ = torch.gru(x, h, [*weights], True, 1, 0.0, self.training, bidirectional=False, batch_first=True)
        return states, None


class BidirectionalLSTM(Bidirectional):
    """A bidirectional LSTM with one bias per gate, unlike torch's LSTM, which has two; see :class:`Bidirectional`.

    Args:
        input_dim: width of inputs.
        hidden: width of each direction.
        layers: number of layers.
        dropout: dropout probability between layers.
        learnt_start: whether to learn the initial states.
    """

    states = 2
    hold: Tensor

    def __init__(self, input_dim: int, hidden: int, layers: int = 1, dropout: float = 0.0, learnt_start: bool = False):
        between = dropout if layers > 1 else 0.0
        rnn = nn.LSTM(input_dim, hidden, layers, batch_first=True, bidirectional=True, dropout=between)
        super().__init__(with_one_bias(rnn), between, learnt_start)
        # torch.lstm returns only the memory cells of the last column. After the end of a document, an extra input opens
        # the forget gate and closes the input gate, so that the cells stay unchanged: sigmoid(±1e4) is exactly 1 or 0.
        hold = torch.zeros(4 * hidden, 1)  # the order of gates in torch is input, forget, new, output
        hold[:hidden], hold[hidden : 2 * hidden] = -1e4, 1e4
        self.register_buffer("hold", hold, persistent=False)

    def _run_direction(
        self, x: Tensor, weights: Sequence[Tensor], ended: Tensor, first: List[Tensor]
    ) -> Tuple[Tensor, Optional[Tensor]]:
        from_input, *rest = weights
        x = torch.cat([x, ended[:, :, None].to(x.dtype)], dim=2)  # (B, S, D + 1)
        weights = [torch.cat([from_input, self.hold.to(from_input.dtype)], dim=1), *rest]
        with torch.autocast(x.device.type, enabled=False):  # oneDNN cannot train an LSTM in float16
            states, _, cells = torch.lstm(
                x, first, weights, True, 1, 0.0, self.training, bidirectional=False, batch_first=True
            )
        return states, cells[0]


class ElmanCell(nn.Module):
    """A cell of Elman's network (1990), h_t = σ(W x_t + U h_(t-1)), as in Chopra et al. 2016.

    Args:
        input_dim: width of x.
        hidden: width of h.
    """

    def __init__(self, input_dim: int, hidden: int):
        super().__init__()
        self.from_input = nn.Linear(input_dim, hidden, bias=False)
        self.from_hidden = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        """Compute the new state from the input x (N, input_dim) and the state h (N, hidden)."""
        return torch.sigmoid(self.from_input(x) + self.from_hidden(hidden))


Network = TypeVar("Network", nn.LSTM, nn.LSTMCell)


def with_one_bias(network: Network) -> Network:
    """Replace the second of torch's two biases per gate with a constant 0, because torch only adds the two."""
    for name, bias in [*network.named_parameters()]:
        if name.startswith("bias_hh"):
            delattr(network, name)
            network.register_buffer(name, torch.zeros_like(bias.detach()), persistent=False)
    if isinstance(network, nn.LSTM):  # torch's LSTM also stores its weights in a list
        network._flat_weights = [getattr(network, name) for name in network._flat_weights_names]
    return network


def take_positions(x: Tensor, order: Tensor) -> Tensor:
    """Reorder x (B, S', D) so that position ``order[b, s]`` moves to position s. Returns (B, S, D)."""
    return x.gather(1, order[:, :, None].expand(-1, -1, x.shape[2]))


def sentence_ids(src_tokens: Tensor, mark: int) -> Tensor:
    """Return the sentence index (B, S) of each token, which is the number of sentence marks ``mark`` before it."""
    marks = src_tokens.eq(mark).long()
    return marks.cumsum(dim=1) - marks


def sentence_ends(ids: Tensor, padding: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """Find the positions of the first and last token of each sentence.

    Args:
        ids: result (B, S) of :func:`sentence_ids`.
        padding: (B, S), bool, True at padding.

    Returns:
        The first and the last positions in the document, (B, N) each; and a mask (B, N), bool, True where a document
        has fewer than N sentences.
    """
    count = int(ids.masked_fill(padding, 0).max()) + 1
    positions = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    ids = ids.masked_fill(padding, count)  # treat padding as another sentence, which is cut off below
    table = ids.new_zeros(len(ids), count + 1)  # (B, N + 1)
    first = table.scatter_reduce(1, ids, positions, "amin", include_self=False)
    last = table.scatter_reduce(1, ids, positions, "amax", include_self=False)
    missing = table.scatter(1, ids, 1) == 0
    return first[:, :count], last[:, :count], missing[:, :count]


def read_by_sentence(
    network: Bidirectional, x: Tensor, padding: Tensor, ids: Tensor
) -> Tuple[Tensor, Tensor, Optional[Tensor]]:
    """Run a network on each sentence separately, so that the states do not depend on other sentences.

    Args:
        network: the network.
        x: inputs (B, S, D).
        padding: (B, S), bool, True at padding.
        ids: sentence index (B, S) of each token, 0 at padding.

    Returns:
        The same results as :meth:`Bidirectional.forward`. The final states and memory cells are taken from the end of
        the last sentence in the forward direction, and from the beginning of the first sentence in the backward
        direction.
    """
    first, last, missing = sentence_ends(ids, padding)
    batch, count = first.shape
    lengths = (last - first + 1).masked_fill(missing, 0)
    width = max(1, int(lengths.max()))
    rank = torch.arange(x.shape[1], device=x.device) - first.gather(1, ids)  # position of a token in its sentence
    # W places for each of the N sentences, and one place for all padding
    place = (ids * width + rank).masked_fill(padding, count * width)  # (B, S)
    table = x.new_zeros(batch, count * width + 1, x.shape[2]).scatter(1, place[:, :, None].expand_as(x), x)
    empty = torch.ones_like(table[:, :, 0], dtype=torch.bool).scatter(1, place, padding)
    states, ends, cells = network(table[:, :-1].reshape(batch * count, width, -1), empty[:, :-1].reshape(-1, width))
    states = F.pad(states.view(batch, count * width, -1), (0, 0, 0, 1))  # 0 at padding
    states = take_positions(states, place)

    def of_document(of_sentences: Tensor) -> Tensor:  # (B * N, 2H) -> (B, 2H)
        forward, backward = of_sentences.view(batch, count, -1).chunk(2, dim=2)
        final = (~missing).sum(1, keepdim=True).clamp(min=1) - 1  # (B, 1)
        return torch.cat([take_positions(forward, final)[:, 0], backward[:, 0]], dim=1)

    return states, of_document(ends), None if cells is None else of_document(cells)


class Sentences(NamedTuple):
    """The sentences of B documents.

    Attributes:
        states: h (B, N, 2H), or g * h with a gate; 0 where a document has fewer than N sentences.
        keys: keys (B, N, A) for the attention to sentences.
        missing: (B, N), bool, True where there is no sentence.
        documents: d (B, 2H), the forward state of the last sentence and the backward state of the first sentence in
            each document.
    """

    states: Tensor
    keys: Tensor
    missing: Tensor
    documents: Tensor


class SentenceEncoder(nn.Module):
    """A GRU over sentences, which also computes keys for the attention to sentences (Nallapati et al., section 2.4).

    The input for a sentence consists of the forward state at its last word and the backward state at its first word.

    Args:
        word_dim: width of word-level states.
        hidden: H, the width of each direction.
        attention_dim: A, the width of the keys.
        positions: whether the keys also depend on vectors for sentence positions, as in the paper.
        gate: whether to multiply each state by a gate sigmoid(W_g [h_i; d] + b_g), which is the global filter of Li et
            al. 2018.
    """

    def __init__(self, word_dim: int, hidden: int, attention_dim: int, positions: bool = True, gate: bool = False):
        super().__init__()
        self.gru = BidirectionalGRU(word_dim, hidden)
        self.gate = EncoderGate(2 * hidden) if gate else None
        self.positions = nn.Embedding(SENTENCE_POSITIONS, SENTENCE_POSITION_DIM) if positions else None
        key_input = 2 * hidden + (SENTENCE_POSITION_DIM if positions else 0)
        self.keys = nn.Linear(key_input, attention_dim, bias=False)

    def forward(self, states: Tensor, ids: Tensor, padding: Tensor) -> Sentences:
        """Encode sentences.

        Args:
            states: word-level states (B, S, 2H).
            ids: sentence index (B, S) of each token.
            padding: (B, S), bool, True at padding.
        """
        first, last, missing = sentence_ends(ids, padding)
        forward, backward = states.chunk(2, dim=2)
        ends = [take_positions(half, place) for half, place in ((forward, last), (backward, first))]
        sentences, documents, _ = self.gru(torch.cat(ends, dim=2), missing)  # (B, N, 2H), (B, 2H)
        if self.gate is not None:
            sentences = self.gate.let_through(sentences, documents[:, None])
        key_input = sentences
        if self.positions is not None:
            number = torch.arange(sentences.shape[1], device=ids.device).clamp(max=SENTENCE_POSITIONS - 1)
            key_input = torch.cat([sentences, self.positions(number).expand(len(ids), -1, -1)], dim=2)
        return Sentences(sentences, self.keys(key_input), missing, documents)


def make_readout(kind: str, hidden: int, word: int, context: int, width: int) -> Optional[nn.Module]:
    """Create the layer of :func:`read_out` with ``width`` outputs. Returns None for the kind "none"."""
    if kind == "none":
        return None
    if kind == "mlp":
        return nn.Sequential(nn.Linear(hidden + context, hidden), nn.Tanh(), nn.Linear(hidden, width, bias=False))
    return nn.Linear(hidden + context + (word if kind == "tanh" else 0), width, bias=kind != "luong")


def read_out(kind: str, layer: Optional[nn.Module], hidden: Tensor, word: Tensor, context: Tensor) -> Tensor:
    """Compute the input (…, R) of the output layer.

    Args:
        kind: "tanh" for tanh(W [h; E; c] + b), "linear" for W [h; c] + b, "luong" for tanh(W [h; c]), "mlp" for
            W_2 tanh(W_1 [h; c] + b), "none" for [h; c].
        layer: layer with W and b, from :func:`make_readout`.
        hidden: decoder states h (…, H).
        word: vectors E of the previous words (…, E).
        context: context vectors c (…, M).
    """
    parts = torch.cat([hidden, word, context] if kind == "tanh" else [hidden, context], dim=-1)
    result = parts if layer is None else layer(parts)
    return torch.tanh(result) if kind in ("tanh", "luong") else result


class OutputLayer(nn.Module):
    """The output layer of a recurrent decoder, which can compute the logits of all words or only of some words.

    Args:
        weight: weight (V, E), or a shared table that begins with these rows.
        words: V, the number of words.
        bias: whether to learn a bias instead of using the constant 0.
    """

    bias: Tensor

    def __init__(self, weight: nn.Parameter, words: int, bias: bool = True):
        super().__init__()
        self.weight = weight
        column = torch.zeros(words, 1)  # a column, so that rows of the bias can be looked up
        if bias:
            self.bias = nn.Parameter(column)
        else:
            self.register_buffer("bias", column, persistent=False)

    def rows(self, words: Tensor) -> Tuple[Tensor, Tensor]:
        """Return the weight (C, E) and bias (C,) for words with the given ids (C,).

        Other rows do not receive a gradient.
        """
        sparse = wants_sparse_gradient(self.weight)
        return F.embedding(words, self.weight, sparse=sparse), F.embedding(words, self.bias, sparse=sparse)[:, 0]

    def forward(self, x: Tensor, rows: Optional[Tuple[Tensor, Tensor]] = None) -> Tensor:
        """Compute logits (N, T, V) from readouts (N, T, E).

        Args:
            x: readouts (N, T, E).
            rows: result of :meth:`rows`, to compute only the logits (N, T, C) of some words, or None for all words.
        """
        weight, bias = (self.weight[: len(self.bias)], self.bias[:, 0]) if rows is None else rows
        return F.linear(x, weight, bias)
