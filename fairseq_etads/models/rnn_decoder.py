"""The decoder of the recurrent family, a recurrent cell with attention. Options enable the papers' mechanisms."""

import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Type, Union

import torch
from fairseq.models import FairseqIncrementalDecoder
from fairseq.modules import FairseqDropout
from torch import Tensor, nn

from ..attention import (
    combined_attention_log_weights,
    compute_log_attention_weights,
    hierarchical_log_attention,
    temporal_attention_step,
)
from ..kernels.linear import widen_to_float32
from ..layers.additive import AdditiveAttention, DotAttention, SharedKeys, SharedStates
from ..layers.decoder_output import DecoderOutput, NetOutput, PointingDecoder, WordRequest
from ..layers.pointer import AttentionPointer
from ..layers.recurrent import (
    ElmanCell,
    OutputLayer,
    compute_readout,
    make_readout_layer,
    remove_redundant_gate_biases,
    reorder_positions,
    run_lstm,
)
from ..layers.sentence_selector import SentenceAttention, SentenceSelection, SentenceSelector
from ..text.words import SENTENCE_MARK
from ..vocabulary.output import CandidateWords
from .rnn_encoder import MAX_POSITIONS, get_dropout_rates

CLOSED_BOOK = "decoder.closed_book."
"""Prefix of the names of the closed-book decoder's weights, which exist only during training."""


class DecoderState(NamedTuple):
    """The decoder's state, which is passed from one step to the next. Tensors have one row per hypothesis.

    Attributes:
        hidden: the state h (N, H).
        cell: the memory cell c (N, H) of an LSTM, or None for other cells.
        fed: the input that the cell reads in addition to the word embedding, or None if attention precedes the cell. It
            is the context (N, M) or, with --input-feed readout, the readout (N, R) of the previous step.
        spent: the logarithm of the sum of exp(scores) over the previous steps (N, S), or None without temporal
            attention. Before the first step, the value is minus infinity.
        covered: the sum of the attention weights over the previous steps (N, S), or None without coverage.
        plan, log_selection, selected: the plan q (N, H), the log-probabilities log p (N, L) and the selection vector r
            (N, M) for the current summary sentence, or None without a sentence selector. For the equations, see
            :class:`~fairseq_etads.layers.sentence_selector.SentenceSelector`.
    """

    hidden: Tensor
    cell: Optional[Tensor] = None
    fed: Optional[Tensor] = None
    spent: Optional[Tensor] = None
    covered: Optional[Tensor] = None
    plan: Optional[Tensor] = None
    log_selection: Optional[Tensor] = None
    selected: Optional[Tensor] = None

    @property
    def query(self) -> Tensor:
        """Return the attention query, which is h (N, H) or, for an LSTM, [c; h] (N, 2H)."""
        return self.hidden if self.cell is None else torch.cat([self.cell, self.hidden], dim=1)


class StepOutputs(NamedTuple):
    """The outputs of all decoding steps.

    Attributes:
        hidden: the states h (N, T, H).
        cells: the memory cells c (N, T, H) of an LSTM, or None.
        inputs: the embeddings of the previous words or, with --merge-input, the inputs of the cell (N, T, E).
        contexts: the context vectors (N, T, M).
        log_weights: the logarithms of the attention weights (N, T, S).
        log_word: the logarithms of the word-level attention weights (N, T, S) before they are combined with the
            extractor's probabilities, or None without --sentence-attention.
        log_selection: the log-probabilities of selecting the source sentences (N, T, L), or None without a sentence
            selector.
        readouts: the inputs of the output layer (N, T, R), or None if no step depends on the previous readout. In this
            case, the readouts can be computed for all steps at once.
    """

    hidden: Tensor
    cells: Optional[Tensor]
    inputs: Tensor
    contexts: Tensor
    log_weights: Tensor
    log_word: Optional[Tensor] = None
    log_selection: Optional[Tensor] = None
    readouts: Optional[Tensor] = None

    @classmethod
    def stack(cls, steps: Sequence["StepOutputs"]) -> "StepOutputs":
        """Stack the outputs of T steps along a new dimension T."""
        columns: Any = zip(*steps)
        return cls(*(None if column[0] is None else torch.stack(column, 1) for column in columns))  # type: ignore[arg-type]


Keys = Union[SharedKeys, SharedStates]
Attention = Union[AdditiveAttention, DotAttention]


def compute_word_queries(attention: Optional[Attention], words: Tensor) -> Sequence[Optional[Tensor]]:
    """Compute the part of each step's query that depends on the previous word, from word embeddings (N, T, E).

    Returns a sequence of T tensors (N, A), or of T None values if the queries do not depend on the previous word.
    """
    if attention is None or attention.from_word is None:
        return [None] * words.shape[1]
    return attention.from_word(words).unbind(1)


class DecoderInputs(NamedTuple):
    """The encoder output, converted for use in all decoding steps. Rows belong to documents (B) or hypotheses (N).

    Attributes that describe sentences are None if the encoder does not return sentences.

    Attributes:
        states: the encoder states (B, S, M).
        keys: the attention keys W_c h (B, S, A).
        padding: the padding mask (N, S), bool, True at padding.
        sentence_keys: the attention keys (B, L, A) of L sentences.
        sentence_ids: the index of the sentence that contains each token (N, S).
        sentence_padding: a mask (N, L), bool, True where a document has fewer than L sentences.
        sentence_states: the states of the sentences (B, L, M).
        log_selected: the log-probability of the sentence that contains each token (N, S), or None without
            --sentence-attention.
    """

    states: SharedStates
    keys: Keys
    padding: Tensor
    sentence_keys: Optional[Keys] = None
    sentence_ids: Optional[Tensor] = None
    sentence_padding: Optional[Tensor] = None
    log_selected: Optional[Tensor] = None
    sentence_states: Optional[SharedStates] = None

    @classmethod
    def from_encoder_out(cls, encoder_out: Dict[str, Any], rows: int, keys: Type[Keys]) -> "DecoderInputs":
        """Convert the encoder's output for N = ``rows`` hypotheses. The class ``keys`` wraps the attention keys."""
        beams = rows // len(encoder_out["encoder_out"][0])
        documents = cls(
            SharedStates(encoder_out["encoder_out"][0]),
            keys(encoder_out["keys"][0]),
            encoder_out["encoder_padding_mask"][0].repeat_interleave(beams, dim=0),
        )
        if "log_selected" in encoder_out:
            log_selected = encoder_out["log_selected"][0].repeat_interleave(beams, dim=0)
            documents = documents._replace(log_selected=log_selected)
        if "sentence_keys" not in encoder_out:
            return documents
        return documents._replace(
            sentence_keys=keys(encoder_out["sentence_keys"][0]),
            sentence_ids=encoder_out["sentence_ids"][0].repeat_interleave(beams, dim=0),
            sentence_padding=encoder_out["sentence_padding_mask"][0].repeat_interleave(beams, dim=0),
            sentence_states=SharedStates(encoder_out["sentence_states"][0]),
        )


def select_rows(rows: Tensor, new: Optional[Tensor], old: Optional[Tensor]) -> Optional[Tensor]:
    """Return the rows of ``new`` where ``rows`` (N,) is True, and the rows of ``old`` elsewhere.

    If either is None, return None.
    """
    return None if new is None or old is None else torch.where(rows[:, None], new, old)


class ClosedBookDecoder(nn.Module):
    """A decoder that has neither attention nor a pointer and is used only in training.

    The decoder computes s_t = cell(E y_{t-1}, s_{t-1}) and P_cb = softmax(W s_t + b) over the known words (Jiang and
    Bansal 2018, section 3). It shares the initial state s_0 (the output of the bridge) and the word embedding table E
    with the main decoder. With ``cut``, no gradient flows to the encoder, as in a control experiment of the paper.
    """

    def __init__(self, is_lstm: bool, word: int, hidden: int, words: int, dropout: float, cut: bool):
        super().__init__()
        self.is_lstm, self.cut = is_lstm, cut
        self.network: nn.Module
        if is_lstm:
            self.network = remove_redundant_gate_biases(nn.LSTM(word, hidden, batch_first=True))
        else:
            self.network = nn.GRU(word, hidden, batch_first=True)
        self.dropout = FairseqDropout(dropout, module_name=type(self).__name__)
        self.output_projection = nn.Linear(hidden, words)

    def forward(self, words: Tensor, real: Tensor, encoder_out: Dict[str, Any]) -> Tensor:
        """Compute the logits (N, T, V) of the next words from embeddings (N, T, E). ``real`` is False at padding."""
        hidden: Tensor = encoder_out["first_state"][0]
        cell: Optional[Tensor] = encoder_out["first_cell"][0] if self.is_lstm else None
        if self.cut:
            hidden, cell = hidden.detach(), None if cell is None else cell.detach()
        # Move padding to the end of each summary, so that the network does not read padding before the first word.
        order = (~real).int().argsort(dim=1, stable=True)  # (N, T)
        first: Any = hidden[None] if cell is None else (hidden[None], cell[None])
        words = reorder_positions(words, order)
        states, _ = run_lstm(self.network, words, first) if self.is_lstm else self.network(words, first)
        logits: Tensor = self.output_projection(self.dropout(reorder_positions(states, order.argsort(dim=1))))
        return logits

    def upgrade_state_dict_named(self, state_dict: Dict[str, Any], name: str) -> Dict[str, Any]:
        """Replace the two biases of an LSTM with their sum, because earlier versions stored both biases."""
        second = state_dict.pop(f"{name}.network.bias_hh_l0", None) if self.is_lstm else None
        if second is not None:
            state_dict[f"{name}.network.bias_ih_l0"] = state_dict[f"{name}.network.bias_ih_l0"] + second
        return state_dict


class RecurrentDecoder(PointingDecoder, FairseqIncrementalDecoder):
    """A GRU or LSTM that attends to the document in each step.

    Let E be the embedding of the previous word. By default, the attention query consists of h_{t-1} and E, and
    attention returns the context c_t. The new state is h_t = GRU([E; c_t], h_{t-1}), and the output layer reads the
    readout tanh(W [h_t; E; c_t]) (Nallapati et al. 2016).

    The following options select the decoder of See et al. 2017:

    - ``--rnn-cell lstm``
    - ``--attention-query after``: the query is the state after the step, so the cell reads [E; c_{t-1}] with c_0 = 0.
    - ``--merge-input``: a vector x_t = W [E; c_{t-1}] + b replaces E.
    - ``--readout linear``: the readout is W [h_t; c_t] + b.

    The following options select the decoder of Luong et al. 2015:

    - ``--readout luong``: the readout is tanh(W [h_t; c_t]).
    - ``--input-feed readout``: the cell reads the readout instead of c_{t-1}.

    With ``--sentence-selector``, the output of :class:`SentenceSelector` replaces h before the first word of each
    sentence in the summary. The attention weight of each document word is multiplied by the selection probability of
    its sentence, and the products are renormalised (Li et al. 2018). The context c and the coverage are not reset
    between sentences.

    Args:
        cfg: the model options.
        dictionary, embed_tokens: the known words and their embeddings.
        output: the weight of the output layer (V, R), or a shared embedding table with this weight in its first V rows.
        source_words: the id in ``dictionary`` of each known source word, with 0 for missing words, or None if documents
            and summaries share a dictionary.
        context: M, the width of the context vectors.
    """

    def __init__(
        self,
        cfg: Any,
        dictionary: Any,
        embed_tokens: nn.Embedding,
        output: nn.Parameter,
        source_words: Optional[Tensor],
        context: int,
    ):
        super().__init__(dictionary)
        word, hidden = embed_tokens.embedding_dim, cfg.decoder_hidden_size
        self.large_vocabulary_trick = int(cfg.large_vocabulary_trick)
        self.register_buffer("source_words", source_words, persistent=False)
        self.embed_tokens = embed_tokens
        of_words, of_state = get_dropout_rates(cfg)
        self.dropout = FairseqDropout(cfg.dropout, module_name=type(self).__name__)  # applied to readouts
        self.word_dropout = FairseqDropout(of_words, module_name=type(self).__name__)
        self.state_dropout = FairseqDropout(of_state, module_name=type(self).__name__)
        is_lstm = str(cfg.rnn_cell) == "lstm"
        self.attends_after = str(cfg.attention_query) == "after"
        state = 2 * hidden if is_lstm else hidden
        asking = (state, 0 if self.attends_after else word, cfg.attention_dim)
        self.is_dot = str(cfg.attention_score) == "dot"
        self.attention: Attention = DotAttention() if self.is_dot else AdditiveAttention(*asking)
        self.sentence_attention: Optional[Attention] = None
        if cfg.hierarchical_attention and not cfg.sentence_selector:
            self.sentence_attention = DotAttention() if self.is_dot else AdditiveAttention(*asking)
        self.selector: Optional[SentenceSelector] = None
        if cfg.sentence_selector:
            self.sentence_mark = dictionary.index(SENTENCE_MARK)
            sizes = (hidden, 2 * cfg.encoder_hidden_size, cfg.attention_dim)
            self.selector = SentenceSelector(*sizes, str(cfg.bridge), is_lstm, self.is_dot)
        self.temporal = bool(cfg.temporal_attention)
        self.coverage_weight: Optional[nn.Parameter] = None
        if cfg.coverage:
            self.coverage_weight = nn.Parameter(torch.empty(cfg.attention_dim).uniform_(-0.1, 0.1))
        self.feeds_readout = str(cfg.input_feed) == "readout"
        self.fed_width = output.shape[1] if self.feeds_readout else context
        self.merge = nn.Linear(word + self.fed_width, word) if cfg.merge_input else None
        read = word if cfg.merge_input else word + self.fed_width
        if is_lstm:
            self.cell: nn.Module = remove_redundant_gate_biases(nn.LSTMCell(read, hidden))
        else:
            self.cell = (ElmanCell if str(cfg.rnn_cell) == "elman" else nn.GRUCell)(read, hidden)
        self.has_cell_state, self.hidden_size = is_lstm, hidden
        self.readout_kind = str(cfg.readout)
        self.readout = make_readout_layer(self.readout_kind, hidden, word, context, output.shape[1])
        self.output_projection = OutputLayer(output, len(dictionary), bool(cfg.output_bias))
        self.pointer: Optional[AttentionPointer] = None
        if str(cfg.pointer) != "none":
            features = state + word + context
            self.pointer = AttentionPointer(features, str(cfg.pointer), continues=cfg.pointer_continue)
        self.closed_book: Optional[ClosedBookDecoder] = None
        """The closed-book decoder for --closed-book-decoder. The model sets this attribute only in training."""

    def choose_candidates(self, src_tokens: Tensor) -> Optional[CandidateWords]:
        """Choose the candidate words of the large-vocabulary trick for the documents (B, S).

        In training, all documents in a batch share one list of candidates. In evaluation, each document has its own
        list, so that its summary does not depend on the other documents.
        """
        if not self.large_vocabulary_trick:
            return None
        texts = src_tokens
        if self.source_words is not None:
            known = src_tokens < len(self.source_words)
            texts = self.source_words[src_tokens.masked_fill(~known, 0)]
        words, limit = self.dictionary, self.large_vocabulary_trick
        return CandidateWords(texts, limit, len(words), words.nspecial, words.unk(), shared=self.training)

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Optional[Dict[str, Any]] = None,
        incremental_state: Optional[Dict[str, Dict[str, Optional[Tensor]]]] = None,
        features_only: bool = False,
        request: Optional[WordRequest] = None,
        **_: Any,
    ) -> NetOutput:
        """Compute the logits (N, T, C) of the next words; see :class:`DecoderOutput`.

        C is V or, with the large-vocabulary trick, the number of candidates. The output has ``sentence_attention`` if
        there is an extractor and no cached state, and ``closed_book_logits`` in training with a closed-book decoder.

        Args:
            prev_output_tokens: the dictionary ids of the previous words (N, T). N is a multiple of the number of
                documents B, and the rows that belong to the same document are adjacent.
            encoder_out: the encoder output.
            incremental_state: the cached state of the previous step. If it is not None, only the last step is computed.
            features_only: whether to return the readouts (N, T, R) instead of logits.
            request: the request of a loss function, or None. The decoder always computes logits for all words.
        """
        assert encoder_out is not None, "the decoder needs the encoder's output"
        steps = prev_output_tokens if incremental_state is None else prev_output_tokens[:, -1:]
        words = self.word_dropout(self.embed_tokens(steps))  # (N, T, E)
        real = steps.ne(self.dictionary.pad())
        starts = self._find_sentence_starts(steps, real, incremental_state)
        outputs = self._run_decoding_steps(words, real, starts, encoder_out, incremental_state)
        output = DecoderOutput(words, outputs.log_weights.exp())
        if outputs.log_word is not None and incremental_state is None:
            output.sentence_attention = SentenceAttention.from_encoder_out(outputs.log_word, encoder_out)
        if outputs.log_selection is not None and starts is not None:
            output.selection = SentenceSelection(outputs.log_selection, starts)
        if self.closed_book is not None and self.training and incremental_state is None:
            output.closed_book_logits = self.closed_book(words, real, encoder_out)
        readouts = outputs.readouts
        if readouts is None:
            readouts = self._compute_readout(outputs.hidden, outputs.inputs, outputs.contexts)  # (N, T, R)
        output.logits = readouts
        if features_only:
            return output.to_fairseq_output()
        features = None
        if self.pointer is not None:
            # [h; c (LSTM only); the word embedding, or x with --merge-input; the context]
            parts = (outputs.hidden, outputs.cells, outputs.inputs, outputs.contexts)
            features = torch.cat([part for part in parts if part is not None], dim=2)
        output = self.score_words(output, outputs.log_weights, prev_output_tokens, encoder_out, request, features)
        return output.to_fairseq_output()

    def _compute_readout(self, *parts: Tensor) -> Tensor:
        """Compute readouts (…, R) from states h (…, H), embeddings of the previous words (…, E) and contexts (…, M)."""
        result: Tensor = self.dropout(compute_readout(self.readout_kind, self.readout, *parts))
        return result

    def _find_sentence_starts(self, steps: Tensor, real: Tensor, incremental_state: Optional[Any]) -> Optional[Tensor]:
        """Return a mask (N, T), True at the first step and after sentence marks, or None without a selector."""
        if self.selector is None:
            return None
        starts = steps.eq(self.sentence_mark)
        if incremental_state is None or not self.get_incremental_state(incremental_state, "state"):
            starts |= real & (real.cumsum(1) == 1)
        return starts

    def _run_decoding_steps(
        self,
        words: Tensor,
        real: Tensor,
        starts: Optional[Tensor],
        encoder_out: Dict[str, Any],
        incremental_state: Optional[Any],
    ) -> StepOutputs:
        """Run attention and the cell for all steps of ``words`` (N, T, E). ``real`` and ``starts`` are masks (N, T)."""
        rows = len(words)
        state = self._get_or_create_state(encoder_out, incremental_state, rows)
        # In a search on a GPU, compute everything that may be needed. Checking what is needed would synchronise the CPU
        # with the GPU in every step, which takes longer.
        unasked = words.is_cuda and incremental_state is not None
        # Padding on the right needs no special handling, because outputs after the end of a summary are not used.
        left_padded = unasked or not bool(real[:, 0].all())
        documents = DecoderInputs.from_encoder_out(encoder_out, rows, SharedStates if self.is_dot else SharedKeys)
        # Split ``words`` into steps in one operation. If each step indexed ``words``, its backward pass would allocate
        # a gradient as large as ``words``.
        steps = words.unbind(1)
        queries = compute_word_queries(self.attention, words)
        sentence_queries = compute_word_queries(self.sentence_attention, words)
        some_start = [unasked] * len(steps)
        if starts is not None and not unasked:
            some_start = starts.any(0).tolist()
        computed: List[StepOutputs] = []
        for t, word in enumerate(steps):
            before = state
            if starts is not None and some_start[t]:
                state = self._start_sentences(state, starts[:, t], documents)
            if state.fed is not None:
                state, step_input = self._run_step(state, word, state.fed)
            log_weight, log_word, state = self._compute_attention_weights(
                state, queries[t], sentence_queries[t], documents
            )
            count, length, _ = documents.states.states.shape
            context = documents.states.compute_weighted_sum(log_weight.exp().view(count, -1, length)).view(
                rows, -1
            )  # (N, M)
            readout = None
            if state.fed is None:
                state, step_input = self._run_step(state, word, context)
            elif self.feeds_readout:
                readout = self._compute_readout(state.hidden, step_input, context)
                state = state._replace(fed=readout)
            else:
                state = state._replace(fed=context)
            if left_padded:  # padding does not change the state
                kept = (select_rows(real[:, t], *pair) for pair in zip(state, before))
                state = DecoderState(*kept)  # type: ignore[arg-type]
            done = (state.hidden, state.cell, step_input, context, log_weight, log_word, state.log_selection, readout)
            computed.append(StepOutputs(*done))
        if incremental_state is not None:
            saved = {name: value for name, value in state._asdict().items() if value is not None}
            self.set_incremental_state(incremental_state, "state", saved)
        outputs = StepOutputs.stack(computed)
        return outputs if self.merge is not None else outputs._replace(inputs=words)

    def _run_step(self, state: DecoderState, word: Tensor, fed: Tensor) -> Tuple[DecoderState, Tensor]:
        """Run the cell on ``word`` (N, E) and a context or readout; return the state and the word or merged vector."""
        read = torch.cat([word, fed], dim=1)
        if self.merge is not None:
            read = word = self.merge(read)
        if state.cell is None:
            return state._replace(hidden=self.state_dropout(self.cell(read, state.hidden))), word
        hidden, cell = self.cell(read, (state.hidden, state.cell))
        return state._replace(hidden=self.state_dropout(hidden), cell=cell), word

    def _get_or_create_state(
        self, encoder_out: Dict[str, Any], incremental_state: Optional[Any], rows: int
    ) -> DecoderState:
        """Return the cached state. If there is none, create the initial state for N = ``rows`` hypotheses."""
        saved = None if incremental_state is None else self.get_incremental_state(incremental_state, "state")
        if saved:
            return DecoderState(**saved)
        states = encoder_out["encoder_out"][0]
        beams, length = rows // len(states), states.shape[1]
        nothing = [states.new_zeros(len(states), self.hidden_size)]  # --bridge zero
        hidden = encoder_out.get("first_state", nothing)[0].repeat_interleave(beams, dim=0)
        cell = None
        if self.has_cell_state:
            cell = encoder_out.get("first_cell", nothing)[0].repeat_interleave(beams, dim=0)
        fed = states.new_zeros(rows, self.fed_width) if self.attends_after else None
        zeros = widen_to_float32(hidden).new_zeros(rows, length)
        spent = torch.full_like(zeros, -math.inf) if self.temporal else None
        state = DecoderState(hidden, cell, fed, spent, None if self.coverage_weight is None else zeros)
        if self.selector is None:
            return state
        sentences = encoder_out["sentence_states"][0]
        return state._replace(
            plan=self.selector.compute_initial_plan(encoder_out["documents"][0]).repeat_interleave(beams, dim=0),
            log_selection=zeros.new_zeros(rows, sentences.shape[1]),  # replaced in the first step
            selected=sentences.new_zeros(rows, sentences.shape[2]),
        )

    def _start_sentences(self, state: DecoderState, starts: Tensor, documents: DecoderInputs) -> DecoderState:
        """Start a new sentence in the rows where ``starts`` (N,) is True. The states of other rows do not change."""
        assert self.selector is not None
        plan, log_selection, selected = self.selector(
            state.hidden,
            state.selected,
            state.plan,
            documents.sentence_keys,
            documents.sentence_states,
            documents.sentence_padding,
        )
        hidden, cell = self.selector.compute_start_state(selected, plan)
        begun = state._replace(hidden=hidden, cell=cell, plan=plan, log_selection=log_selection, selected=selected)
        return DecoderState(*(select_rows(starts, *pair) for pair in zip(begun, state)))  # type: ignore[arg-type]

    def _compute_attention_weights(
        self,
        state: DecoderState,
        word_query: Optional[Tensor],
        sentence_query: Optional[Tensor],
        documents: DecoderInputs,
    ) -> Tuple[Tensor, Optional[Tensor], DecoderState]:
        """Return log attention (N, S) with and without the extractor's probabilities, and the new state."""
        query = state.hidden if self.is_dot else state.query
        scores = self.attention(query, word_query, documents.keys, state.covered, self.coverage_weight)  # (N, S)
        if state.spent is not None:
            scores, spent = temporal_attention_step(scores, state.spent)
            state = state._replace(spent=spent)
        log_weight = compute_log_attention_weights(scores[:, None], documents.padding)  # (N, 1, S)
        if self.sentence_attention is not None and documents.sentence_ids is not None:
            of_sentences = self.sentence_attention(query, sentence_query, documents.sentence_keys)  # (N, L)
            log_sentence = compute_log_attention_weights(of_sentences[:, None], documents.sentence_padding)
            log_weight = hierarchical_log_attention(log_weight, log_sentence, documents.sentence_ids)
        if state.log_selection is not None and documents.sentence_ids is not None:
            log_weight = hierarchical_log_attention(log_weight, state.log_selection[:, None], documents.sentence_ids)
        log_word = None
        if documents.log_selected is not None:
            log_word = log_weight[:, 0]
            log_weight = combined_attention_log_weights(log_weight, documents.log_selected, documents.padding)
        log_weight = log_weight[:, 0]
        if state.covered is not None:
            state = state._replace(covered=state.covered + log_weight.exp())
        return log_weight, log_word, state

    def reorder_incremental_state(self, incremental_state: Any, new_order: Tensor) -> None:
        """Reorder the cached state. The new row i is the old row ``new_order[i]``."""
        saved = self.get_incremental_state(incremental_state, "state")
        if saved is not None:
            reordered = {name: value.index_select(0, new_order) for name, value in saved.items() if value is not None}
            self.set_incremental_state(incremental_state, "state", reordered)

    def max_positions(self) -> int:
        return MAX_POSITIONS
