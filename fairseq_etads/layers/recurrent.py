"""Layers of the recurrent model family: GRUs and LSTMs for words and sentences, and an output layer."""

import functools
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Tuple, Type, TypeVar

import torch
import torch.nn.functional as F
from fairseq.modules import FairseqDropout
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from .embedding import wants_sparse_gradient
from .encoder import EncoderGate

SENTENCE_POSITIONS = 100
"""Number of position embeddings for sentences. All later sentences share the last embedding."""
SENTENCE_POSITION_DIM = 32
"""Width of the position embeddings of sentences. The paper does not specify it."""


class BidirectionalRNN(nn.Module):
    """A bidirectional recurrent network that ignores padding on either side of a sequence.

    On a GPU, PyTorch's network uses cuDNN, and packed sequences skip the padding. On a CPU, the backward pass of a
    packed sequence takes quadratic time, because it fills a gradient for the whole batch at each step. Therefore, on a
    CPU, documents are shifted to the first column, each direction is run separately, and states after the end of a
    document are discarded.

    Args:
        input_dim: the width of the inputs.
        hidden: the width of the states in each direction.
        layers: the number of layers.
        dropout: the dropout probability between layers.
        learnt_start: whether to learn the initial states (Chen and Bansal 2018) instead of setting them to 0.
    """

    network: Type[nn.RNNBase]
    states: int
    """Number of tensors in the network's state: 1 (h) for a GRU, or 2 (h and c) for an LSTM."""

    def __init__(self, input_dim: int, hidden: int, layers: int = 1, dropout: float = 0.0, learnt_start: bool = False):
        super().__init__()
        between = dropout if layers > 1 else 0.0
        options = {"batch_first": True, "bidirectional": True, "dropout": between}
        self.rnn: Any = self.network(input_dim, hidden, layers, **options)  # type: ignore[arg-type]
        self.dropout = FairseqDropout(between, module_name=type(self).__name__)
        self.start: Optional[nn.Parameter] = None
        if learnt_start:  # each tensor in a state has one row for each layer and direction
            self.start = nn.Parameter(torch.empty(self.states, 2 * layers, hidden).uniform_(-0.01, 0.01))

    def _expand_initial_state(self, x: Tensor, rows: slice) -> List[Tensor]:
        """Return the tensors (L, B, hidden) of the initial state for the L layers and directions in ``rows``."""
        if self.start is None:
            count = len(range(2 * self.rnn.num_layers)[rows])
            return [x.new_zeros(count, len(x), self.rnn.hidden_size)] * self.states
        return [part[rows, None].expand(-1, len(x), -1).contiguous().to(x.dtype) for part in self.start]

    def forward(self, x: Tensor, padding: Tensor) -> Tuple[Tensor, Tensor, Optional[Tensor]]:
        """Run the network on inputs (B, S, input_dim). The padding mask (B, S) is True at padding.

        Returns three values: the states (B, S, 2 * hidden), which are 0 at padding; the final states (B, 2 * hidden),
        which consist of the forward state at the last real token and the backward state at the first real token; and
        the memory cells (B, 2 * hidden) at the same positions, or None if the network has no memory cells.
        """
        order = padding.int().argsort(dim=1, stable=True)  # (B, S): the positions of real tokens in order, then padding
        lengths = (~padding).sum(dim=1).clamp(min=1)
        run = self._run_packed if x.is_cuda else self._run_directions
        states, last, cells = run(reorder_positions(x, order), lengths)
        return reorder_positions(states, order.argsort(dim=1)).masked_fill(padding[:, :, None], 0.0), last, cells

    def _run_packed(self, x: Tensor, lengths: Tensor) -> Tuple[Tensor, Tensor, Optional[Tensor]]:
        """Run the network on right-padded inputs (B, S, input_dim); return states, final states and memory cells."""
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        drops = self.training or self.dropout.apply_during_inference
        # In training mode, PyTorch's module applies dropout between its layers. cuDNN supports the backward pass only
        # in this mode. Training with rewards needs a backward pass without dropout, so the probability is set to 0.
        self.rnn.dropout = self.dropout.p if drops else 0.0
        self.rnn.training = drops or torch.is_grad_enabled()
        first = self._expand_initial_state(x, slice(None))
        packed, final = self.rnn(packed, first[0] if self.states == 1 else tuple(first))
        self.rnn.training = self.training
        # If the packed sequence contained the order of the texts, PyTorch would also reorder their lengths, which would
        # synchronise the CPU with the GPU.
        in_order = PackedSequence(packed.data, packed.batch_sizes)
        states, _ = pad_packed_sequence(in_order, batch_first=True, total_length=x.shape[1])
        states = states.index_select(0, packed.unsorted_indices)
        hidden, cells = final if isinstance(final, tuple) else (final, None)
        last_cells = None if cells is None else torch.cat([cells[-2], cells[-1]], dim=1)
        return states, torch.cat([hidden[-2], hidden[-1]], dim=1), last_cells

    def _run_directions(self, x: Tensor, lengths: Tensor) -> Tuple[Tensor, Tensor, Optional[Tensor]]:
        """Run each direction separately. As :meth:`_run_packed`, but states at padding may differ from 0."""
        positions = torch.arange(x.shape[1], device=x.device).expand(x.shape[:2])  # (B, S)
        ended = positions >= lengths[:, None]
        reversed_positions = torch.where(ended, positions, lengths[:, None] - 1 - positions)
        forward = backward = x
        cells: List[Optional[Tensor]] = [None, None]
        weights = self.rnn.all_weights  # one list for each layer and direction: forward, backward, forward, …

        def run(x: Tensor, number: int) -> Tuple[Tensor, Optional[Tensor]]:
            first = self._expand_initial_state(x, slice(number, number + 1))
            return self._run_direction(x, weights[number], ended, first)

        for layer in range(self.rnn.num_layers):
            if layer:
                x = self.dropout(torch.cat([forward, backward], dim=2))
            forward, cells[0] = run(x, 2 * layer)
            backward, cells[1] = run(reorder_positions(x, reversed_positions), 2 * layer + 1)
            backward = reorder_positions(backward, reversed_positions)
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
        """Run one direction of a layer: states (B, S, hidden), and the last memory cells (B, hidden) of an LSTM."""
        raise NotImplementedError


class BidirectionalGRU(BidirectionalRNN):
    """A bidirectional GRU; see :class:`BidirectionalRNN`."""

    network, states = nn.GRU, 1

    def _run_direction(
        self, x: Tensor, weights: Sequence[Tensor], ended: Tensor, first: List[Tensor]
    ) -> Tuple[Tensor, Optional[Tensor]]:
        (h,) = first
        states, _ = torch.gru(x, h, [*weights], True, 1, 0.0, self.training, bidirectional=False, batch_first=True)
        return states, None


class BidirectionalLSTM(BidirectionalRNN):
    """A bidirectional LSTM with only one bias per gate, unlike PyTorch's LSTM; see :class:`BidirectionalRNN`."""

    network, states = nn.LSTM, 2
    hold: Tensor

    def __init__(self, input_dim: int, hidden: int, *options: Any, **named: Any):
        super().__init__(input_dim, hidden, *options, **named)
        remove_redundant_gate_biases(self.rnn)
        # torch.lstm returns the memory cells only for the last column. After the end of a document, an extra input
        # opens the forget gate and closes the input gate. The cells then stay unchanged, because sigmoid(±1e4) is
        # exactly 1 or 0.
        hold = torch.zeros(4 * hidden, 1)  # PyTorch's order of gates: input, forget, new, output
        hold[:hidden], hold[hidden : 2 * hidden] = -1e4, 1e4
        self.register_buffer("hold", hold, persistent=False)

    def _run_direction(
        self, x: Tensor, weights: Sequence[Tensor], ended: Tensor, first: List[Tensor]
    ) -> Tuple[Tensor, Optional[Tensor]]:
        from_input, *rest = weights
        # Under autocast, the inputs may have a different dtype from the weights.
        x, first = x.to(from_input.dtype), [part.to(from_input.dtype) for part in first]
        x = torch.cat([x, ended[:, :, None].to(x.dtype)], dim=2)  # (B, S, D + 1)
        weights = [torch.cat([from_input, self.hold.to(from_input.dtype)], dim=1), *rest]
        with torch.autocast(x.device.type, enabled=False):  # oneDNN cannot train an LSTM in float16
            states, _, cells = torch.lstm(
                x, first, weights, True, 1, 0.0, self.training, bidirectional=False, batch_first=True
            )
        return states, cells[0]


class ElmanCell(nn.Module):
    """A cell of an Elman network (1990), h_t = σ(W x_t + U h_(t-1)), as in Chopra et al. 2016."""

    def __init__(self, input_dim: int, hidden: int):
        super().__init__()
        self.from_input = nn.Linear(input_dim, hidden, bias=False)
        self.from_hidden = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        """Compute the new state (N, hidden) from the input x (N, input_dim) and the previous state h (N, hidden)."""
        return torch.sigmoid(self.from_input(x) + self.from_hidden(hidden))


def run_lstm(network: nn.Module, x: Tensor, state: Optional[Tuple[Tensor, Tensor]] = None) -> Any:
    """Run PyTorch's LSTM on inputs x (B, T, D), and return its states and its last state.

    On a CPU, autocast is disabled, because oneDNN on some processors can run but not train an LSTM in half precision.
    """
    if not x.is_cpu:
        return network(x, state)
    dtype = next(network.parameters()).dtype
    with torch.autocast("cpu", enabled=False):
        return network(x.to(dtype), None if state is None else (state[0].to(dtype), state[1].to(dtype)))


Network = TypeVar("Network", nn.LSTM, nn.LSTMCell)


def remove_redundant_gate_biases(network: Network) -> Network:
    """Replace the second bias of each gate with 0. One bias is sufficient, because PyTorch adds both biases."""
    for name, bias in [*network.named_parameters()]:
        if name.startswith("bias_hh"):
            delattr(network, name)
            network.register_buffer(name, torch.zeros_like(bias.detach()), persistent=False)
    if isinstance(network, nn.LSTM):  # PyTorch's LSTM also stores its weights in a list
        network._flat_weights = [getattr(network, name) for name in network._flat_weights_names]
    return network


def reorder_positions(x: Tensor, order: Tensor) -> Tensor:
    """Reorder x (B, S', D) to (B, S, D), so that position ``order[b, s]`` moves to position s."""
    return x.gather(1, order[:, :, None].expand(-1, -1, x.shape[2]))


def compute_sentence_ids(src_tokens: Tensor, mark: int) -> Tensor:
    """Return the sentence index (B, S) of each token, which is the number of preceding sentence marks ``mark``."""
    marks = src_tokens.eq(mark).long()
    return marks.cumsum(dim=1) - marks


def find_sentence_ends(ids: Tensor, padding: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """Find the positions of the first and last token of each sentence, from :func:`compute_sentence_ids` (B, S).

    The padding mask (B, S) is True at padding. Returns three tensors (B, N): the first position of each sentence in the
    document, its last position, and a boolean mask that is True where a document has fewer than N sentences.
    """
    count = int(ids.masked_fill(padding, 0).max()) + 1
    positions = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    ids = ids.masked_fill(padding, count)  # treat padding as an additional sentence, which is removed below
    table = ids.new_zeros(len(ids), count + 1)  # (B, N + 1)
    first = table.scatter_reduce(1, ids, positions, "amin", include_self=False)
    last = table.scatter_reduce(1, ids, positions, "amax", include_self=False)
    missing = table.scatter(1, ids, 1) == 0
    return first[:, :count], last[:, :count], missing[:, :count]


def encode_by_sentence(
    network: BidirectionalRNN, x: Tensor, padding: Tensor, ids: Tensor
) -> Tuple[Tensor, Tensor, Optional[Tensor]]:
    """Run a network on each sentence separately, so that the states do not depend on other sentences.

    The inputs are x (B, S, D), a padding mask (B, S), True at padding, and the sentence index (B, S) of each token, 0
    at padding. The results equal :meth:`BidirectionalRNN.forward`'s. The final states and memory cells are taken
    from the end of the last sentence in the forward direction, and from the start of the first sentence in the backward
    direction.
    """
    first, last, missing = find_sentence_ends(ids, padding)
    batch, count = first.shape
    lengths = (last - first + 1).masked_fill(missing, 0)
    width = max(1, int(lengths.max()))
    rank = torch.arange(x.shape[1], device=x.device) - first.gather(1, ids)  # position of a token in its sentence
    # W positions for each of the N sentences, and one position for all padding
    place = (ids * width + rank).masked_fill(padding, count * width)  # (B, S)
    table = x.new_zeros(batch, count * width + 1, x.shape[2]).scatter(1, place[:, :, None].expand_as(x), x)
    empty = torch.ones_like(table[:, :, 0], dtype=torch.bool).scatter(1, place, padding)
    states, ends, cells = network(table[:, :-1].reshape(batch * count, width, -1), empty[:, :-1].reshape(-1, width))
    states = F.pad(states.view(batch, count * width, -1), (0, 0, 0, 1))  # 0 at padding
    states = reorder_positions(states, place)

    def to_document_layout(of_sentences: Tensor) -> Tensor:  # (B * N, 2H) -> (B, 2H)
        forward, backward = of_sentences.view(batch, count, -1).chunk(2, dim=2)
        final = (~missing).sum(1, keepdim=True).clamp(min=1) - 1  # (B, 1)
        return torch.cat([reorder_positions(forward, final)[:, 0], backward[:, 0]], dim=1)

    return states, to_document_layout(ends), None if cells is None else to_document_layout(cells)


class EncodedSentences(NamedTuple):
    """The sentences of B documents.

    Attributes:
        states: the sentence states h (B, N, 2H), or g * h with a gate, which are 0 where a document has fewer than N
            sentences.
        keys: the keys (B, N, A) of the sentence-level attention.
        missing: the boolean mask (B, N), True where a document has fewer than N sentences.
        documents: the document vectors d (B, 2H), which consist of the forward state of the last sentence and the
            backward state of the first sentence in each document.
    """

    states: Tensor
    keys: Tensor
    missing: Tensor
    documents: Tensor


class SentenceEncoder(nn.Module):
    """A sentence-level GRU, which also computes keys for sentence-level attention (Nallapati et al., section 2.4).

    The input for each sentence consists of the forward state at its last word and the backward state at its first word.

    With ``positions``, the keys also depend on position embeddings of the sentences, as in the paper. With ``gate``,
    each sentence state is multiplied by sigmoid(W_g [h_i; d] + b_g), the global filter of Li et al. 2018.
    """

    def __init__(self, word_dim: int, hidden: int, attention_dim: int, positions: bool = True, gate: bool = False):
        super().__init__()
        self.gru = BidirectionalGRU(word_dim, hidden)
        self.gate = EncoderGate(2 * hidden) if gate else None
        self.positions = nn.Embedding(SENTENCE_POSITIONS, SENTENCE_POSITION_DIM) if positions else None
        key_input = 2 * hidden + (SENTENCE_POSITION_DIM if positions else 0)
        self.keys = nn.Linear(key_input, attention_dim, bias=False)

    def forward(self, states: Tensor, ids: Tensor, padding: Tensor) -> EncodedSentences:
        """Encode sentences from word-level states (B, S, word_dim) and the sentence index (B, S) of each token.

        The padding mask (B, S) is True at padding.
        """
        first, last, missing = find_sentence_ends(ids, padding)
        forward, backward = states.chunk(2, dim=2)
        ends = [reorder_positions(half, place) for half, place in ((forward, last), (backward, first))]
        sentences, documents, _ = self.gru(torch.cat(ends, dim=2), missing)  # (B, N, 2H), (B, 2H)
        if self.gate is not None:
            sentences = self.gate.apply_gate(sentences, documents[:, None])
        key_input = sentences
        if self.positions is not None:
            number = torch.arange(sentences.shape[1], device=ids.device).clamp(max=SENTENCE_POSITIONS - 1)
            key_input = torch.cat([sentences, self.positions(number).expand(len(ids), -1, -1)], dim=2)
        return EncodedSentences(sentences, self.keys(key_input), missing, documents)


def make_readout_layer(kind: str, hidden: int, word: int, context: int, width: int) -> Optional[nn.Module]:
    """Create the layer that :func:`compute_readout` needs, with ``width`` outputs. Returns None for the kind "none"."""
    if kind == "none":
        return None
    if kind == "mlp":
        return nn.Sequential(nn.Linear(hidden + context, hidden), nn.Tanh(), nn.Linear(hidden, width, bias=False))
    return nn.Linear(hidden + context + (word if kind == "tanh" else 0), width, bias=kind != "luong")


def compute_readout(kind: str, layer: Optional[nn.Module], hidden: Tensor, word: Tensor, context: Tensor) -> Tensor:
    """Compute the readout (…, R), which is the input of the output layer, with :func:`make_readout_layer`.

    From decoder states h (…, H), embeddings of the previous words E (…, E) and context vectors c (…, M), ``kind``
    "tanh" computes tanh(W [h; E; c] + b), "linear" W [h; c] + b, "luong" tanh(W [h; c]), "mlp" W_2 tanh(W_1 [h; c] +
    b), and "none" [h; c].
    """
    parts = torch.cat([hidden, word, context] if kind == "tanh" else [hidden, context], dim=-1)
    result = parts if layer is None else layer(parts)
    return torch.tanh(result) if kind in ("tanh", "luong") else result


class OutputLayer(nn.Module):
    """The output layer of a recurrent decoder, which computes the logits of all words or only of some words.

    The weight (V, E) may be a shared embedding table with this weight in its first V = ``words`` rows.
    """

    bias: Tensor

    def __init__(self, weight: nn.Parameter, words: int, bias: bool = True):
        super().__init__()
        self.weight = weight
        column = torch.zeros(words, 1)  # a column, so that the bias can be looked up by row
        if bias:
            self.bias = nn.Parameter(column)
        else:
            self.register_buffer("bias", column, persistent=False)

    def restrict_to_words(self, words: Tensor) -> Callable[[Tensor], Tensor]:
        """Return a function that computes the logits (N, T, C) of only the given words (C,).

        Only their rows of the weight and of the bias receive a gradient.
        """
        sparse = wants_sparse_gradient(self.weight)
        weight, bias = (F.embedding(words, table, sparse=sparse) for table in (self.weight, self.bias))
        return functools.partial(F.linear, weight=weight, bias=bias[:, 0])

    def forward(self, x: Tensor) -> Tensor:
        """Compute the logits (N, T, V) from readouts (N, T, E)."""
        return F.linear(x, self.weight[: len(self.bias)], self.bias[:, 0])
