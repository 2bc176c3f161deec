"""The decoder of the recurrent family: a GRU with additive attention and the mechanisms around it."""

import math
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor, nn

from ..attention import at_least_float32, hierarchical_log_attention, log_attention, temporal_step
from ..layers.additive import StepKeys, StepMemory
from ..layers.pointer import AttentionPointer, PointerOutput
from ..vocabulary.candidates import Candidates
from ..vocabulary.embedding import wants_sparse_gradient
from ..vocabulary.output import OutputVocabulary
from .rnn_encoder import MAX_POSITIONS


class DecoderState(NamedTuple):
    """What one step leaves to the next; a row for each hypothesis.

    Attributes:
        hidden: h (N, H).
        spent: log of the sum of exp(scores) so far (N, S), minus infinity before the first step; None without temporal
            attention.
        covered: the sum of attention so far (N, S); None without coverage.
    """

    hidden: Tensor
    spent: Optional[Tensor] = None
    covered: Optional[Tensor] = None


class Source(NamedTuple):
    """The documents, as every step reads them; a row for each document or, where it says N, for each hypothesis.

    Attributes:
        memory: the encoder's states (B, S, M). keys: W_c h (B, S, A). padding: (N, S) bool.
        sentence_keys: (B, L, A) for L sentences. sentence_ids: (N, S). sentence_padding: (N, L) bool. None without
            hierarchical attention.
    """

    memory: StepMemory
    keys: StepKeys
    padding: Tensor
    sentence_keys: Optional[StepKeys] = None
    sentence_ids: Optional[Tensor] = None
    sentence_padding: Optional[Tensor] = None

    @classmethod
    def of(cls, encoder_out: Dict[str, Any], rows: int) -> "Source":
        """From the encoder's output, for N = ``rows`` hypotheses."""
        beams = rows // _documents(encoder_out)
        source = cls(
            StepMemory(encoder_out["encoder_out"][0]),
            StepKeys(encoder_out["keys"][0]),
            encoder_out["encoder_padding_mask"][0].repeat_interleave(beams, dim=0),
        )
        if "sentence_keys" not in encoder_out:
            return source
        return source._replace(
            sentence_keys=StepKeys(encoder_out["sentence_keys"][0]),
            sentence_ids=encoder_out["sentence_ids"][0].repeat_interleave(beams, dim=0),
            sentence_padding=encoder_out["sentence_padding_mask"][0].repeat_interleave(beams, dim=0),
        )


class QueryScores(nn.Module):
    """v · tanh(W_h h + W_e E[o] + b + keys): Nallapati et al., section 2.3, where the keys are W_c h^d."""

    def __init__(self, hidden: int, word: int, width: int):
        super().__init__()
        self.from_hidden = nn.Linear(hidden, width, bias=False)
        self.from_word = nn.Linear(word, width)
        self.weight = nn.Parameter(torch.empty(width).uniform_(-(width**-0.5), width**-0.5))

    def forward(
        self,
        hidden: Tensor,
        word: Tensor,
        keys: StepKeys,
        covered: Optional[Tensor] = None,
        coverage_weight: Optional[Tensor] = None,
    ) -> Tensor:
        """h (N, H), ``from_word`` of words before (N, A), coverage c (N, S) and w_c (A,) -> scores (N, S)."""
        documents, _, width = keys.doubled.shape
        query = (self.from_hidden(hidden) + word).view(documents, -1, width)
        if covered is not None:
            covered = covered.view(documents, query.shape[1], -1)
        return keys.scores(query, self.weight, covered, coverage_weight).view(len(hidden), -1)


class OutputTable(nn.Module):
    """The output layer, of all words or of some.

    Args:
        weight: (V, E).
    """

    def __init__(self, weight: nn.Parameter):
        super().__init__()
        self.weight = weight
        self.bias = nn.Parameter(torch.zeros(len(weight), 1))  # a column, so that it can be looked up by rows, too

    def rows(self, words: Tensor) -> Tuple[Tensor, Tensor]:
        """Weight (C, E) and bias (C,) of the words (C,); nothing else receives a gradient."""
        sparse = wants_sparse_gradient(self.weight)
        return F.embedding(words, self.weight, sparse=sparse), F.embedding(words, self.bias, sparse=sparse)[:, 0]

    def forward(self, x: Tensor, rows: Optional[Tuple[Tensor, Tensor]] = None) -> Tensor:
        """(N, T, E) -> logits (N, T, V), or of the ``rows`` (N, T, C)."""
        weight, bias = (self.weight, self.bias[:, 0]) if rows is None else rows
        return F.linear(x, weight, bias)


class RecurrentDecoder(FairseqIncrementalDecoder):
    """A GRU: c_t by attention from h_{t-1} and the word before; h_t = GRU([E; c_t], h_{t-1}); tanh(W [h_t; E; c_t]).

    Args:
        cfg: the model's options. dictionary: the known words. embed_tokens: their vectors.
        output: weight (V, E) of the output layer.
        source_words: for each known word of the documents its id among ``dictionary``, or 0; None: the same words.
    """

    shares_documents = True
    """Takes a BeamState: documents stay single rows while prev_output_tokens has a row for each of their beams."""

    def __init__(
        self,
        cfg: Any,
        dictionary: Any,
        embed_tokens: nn.Embedding,
        output: nn.Parameter,
        source_words: Optional[Tensor] = None,
    ):
        super().__init__(dictionary)
        word, hidden, memory = embed_tokens.embedding_dim, cfg.decoder_hidden_size, 2 * cfg.encoder_hidden_size
        self.large_vocabulary_trick = int(cfg.large_vocabulary_trick)
        self.register_buffer("source_words", source_words, persistent=False)
        self.embed_tokens = embed_tokens
        self.dropout = nn.Dropout(cfg.dropout)
        self.attention = QueryScores(hidden, word, cfg.attention_dim)
        self.sentence_attention: Optional[QueryScores] = None
        if cfg.hierarchical_attention:
            self.sentence_attention = QueryScores(hidden, word, cfg.attention_dim)
        self.temporal = bool(cfg.temporal_attention)
        self.coverage_weight: Optional[nn.Parameter] = None
        if cfg.coverage:
            self.coverage_weight = nn.Parameter(torch.empty(cfg.attention_dim).uniform_(-0.1, 0.1))
        self.cell = nn.GRUCell(word + memory, hidden)
        features = hidden + word + memory
        self.readout = nn.Linear(features, output.shape[1])
        self.output_projection = OutputTable(output)
        self.pointer: Optional[AttentionPointer] = None
        if str(cfg.pointer) != "none":
            self.pointer = AttentionPointer(features, str(cfg.pointer))

    def output_vocabulary(self, src_tokens: Tensor) -> OutputVocabulary:
        """The words that the distributions for documents (B, S) range over."""
        candidates = self.candidates(src_tokens) if self.large_vocabulary_trick else None
        return OutputVocabulary.of(src_tokens, self.dictionary, self.pointer is not None, candidates)

    def candidates(self, src_tokens: Tensor) -> Candidates:
        """The words of the softmax for documents (B, S).

        In training the batch shares its candidates; otherwise each document has its own, so that what is found does not
        depend on the batch.
        """
        texts = src_tokens
        if self.source_words is not None:
            known = src_tokens < len(self.source_words)
            texts = self.source_words[src_tokens.masked_fill(~known, 0)]
        words, limit = self.dictionary, self.large_vocabulary_trick
        return Candidates(texts, limit, len(words), words.nspecial, words.unk(), shared=self.training)

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Optional[Dict[str, Any]] = None,
        incremental_state: Optional[Dict[str, Dict[str, Optional[Tensor]]]] = None,
        features_only: bool = False,
        **_: Any,
    ) -> Tuple[Tensor, Dict[str, Any]]:
        """Logits of the next words.

        Args:
            prev_output_tokens: (N, T), N a multiple of the documents B; rows of a document follow one another.
            encoder_out: of the encoder. incremental_state: only the last word is read, and the past from here.

        Returns:
            logits (N, T, C), with C = V or, with the large-vocabulary trick, the number of candidates.
            Extras: "attn", a list of the attention (N, T, S); "vocabulary", the batch's :class:`OutputVocabulary`; with
            a pointer "pointer", its :class:`PointerOutput`.
        """
        assert encoder_out is not None, "the decoder needs the encoder's output"
        if incremental_state is not None:
            prev_output_tokens = prev_output_tokens[:, -1:]
        x = self.dropout(self.embed_tokens(prev_output_tokens))
        real = prev_output_tokens.ne(self.dictionary.pad())
        features, log_weights = self._run(x, real, encoder_out, incremental_state)
        extra: Dict[str, Any] = {"attn": [log_weights.exp()]}
        states = self.dropout(torch.tanh(self.readout(features)))
        if features_only:
            return states, extra
        return self._logits(states, features, log_weights, extra, encoder_out, incremental_state)

    def _run(
        self, x: Tensor, real: Tensor, encoder_out: Dict[str, Any], incremental_state: Optional[Any]
    ) -> Tuple[Tensor, Tensor]:
        """Words (N, T, E), which are real (N, T) -> features [h; E; c] (N, T, …), log of the attention (N, T, S)."""
        state = self._begin(encoder_out, incremental_state, len(x))
        padded = not bool(real[:, 0].all())  # on the left; on the right, what comes of it is not looked at
        source = Source.of(encoder_out, len(x))
        # unbound at once: the gradient of an index would be a tensor of all steps for each of them
        words, queries = x.unbind(1), self.attention.from_word(x).unbind(1)
        sentence_queries: Sequence[Optional[Tensor]] = [None] * len(words)
        if self.sentence_attention is not None:
            sentence_queries = self.sentence_attention.from_word(x).unbind(1)
        states, contexts, weights = [], [], []
        for t, word in enumerate(words):
            old = state
            log_weight, state = self._attend(state, queries[t], sentence_queries[t], source)
            documents, length, _ = source.memory.states.shape
            context = source.memory.read(log_weight.exp().view(documents, -1, length)).view(len(x), -1)
            state = state._replace(hidden=self.cell(torch.cat([word, context], dim=1), state.hidden))
            if padded:
                state = DecoderState(*(_where(real[:, t], *pair) for pair in zip(state, old)))  # type: ignore[arg-type]
            states.append(state.hidden)
            contexts.append(context)
            weights.append(log_weight)
        if incremental_state is not None:
            kept = {name: value for name, value in state._asdict().items() if value is not None}
            self.set_incremental_state(incremental_state, "state", kept)
        features = torch.cat([torch.stack(states, 1), x, torch.stack(contexts, 1)], dim=2)
        return features, torch.stack(weights, 1)

    def _begin(self, encoder_out: Dict[str, Any], incremental_state: Optional[Any], rows: int) -> DecoderState:
        saved = None if incremental_state is None else self.get_incremental_state(incremental_state, "state")
        if saved:
            return DecoderState(**saved)
        hidden = encoder_out["first_state"][0].repeat_interleave(rows // _documents(encoder_out), dim=0)
        length = encoder_out["encoder_out"][0].shape[1]
        nothing = at_least_float32(hidden).new_zeros(rows, length)
        spent = torch.full_like(nothing, -math.inf) if self.temporal else None
        return DecoderState(hidden, spent, None if self.coverage_weight is None else nothing)

    def _attend(
        self, state: DecoderState, word: Tensor, word_to_sentences: Optional[Tensor], source: Source
    ) -> Tuple[Tensor, DecoderState]:
        """Log of this step's attention (N, S), and the state with what it has spent."""
        scores = self.attention(state.hidden, word, source.keys, state.covered, self.coverage_weight)
        logits = scores
        if state.spent is not None:
            logits, spent = temporal_step(scores, state.spent)
            state = state._replace(spent=spent)
        log_weight = log_attention(logits[:, None], source.padding)
        if self.sentence_attention is not None and source.sentence_ids is not None:
            of_sentences = self.sentence_attention(state.hidden, word_to_sentences, source.sentence_keys)
            log_sentence = log_attention(of_sentences[:, None], source.sentence_padding)
            log_weight = hierarchical_log_attention(log_weight, log_sentence, source.sentence_ids)
        log_weight = log_weight[:, 0]
        if state.covered is not None:
            state = state._replace(covered=state.covered + log_weight.exp())
        return log_weight, state

    def _logits(
        self,
        states: Tensor,
        features: Tensor,
        log_weights: Tensor,
        extra: Dict[str, Any],
        encoder_out: Dict[str, Any],
        incremental_state: Optional[Any],
    ) -> Tuple[Tensor, Dict[str, Any]]:
        """Logits (N, T, C) of readouts (N, T, E); adds "vocabulary" and "pointer" to the extras."""
        # in search the candidates and their rows stay the same; in training each call's rows have a gradient
        kept = encoder_out if incremental_state is not None else {}
        if "vocabulary" not in kept:
            kept["vocabulary"] = self.output_vocabulary(encoder_out["src_tokens"][0])
            if kept["vocabulary"].candidates is not None:
                kept["output_rows"] = self.output_projection.rows(kept["vocabulary"].candidates.words)
        vocabulary: OutputVocabulary = kept["vocabulary"]
        extra["vocabulary"] = vocabulary
        logits = self.output_projection(states, kept.get("output_rows"))
        if vocabulary.candidates is not None:
            logits = vocabulary.candidates.restrict(logits)
        if self.pointer is not None:
            assert vocabulary.slots is not None
            extra["pointer"] = self.pointer(features, log_weights, vocabulary.slots)
        return logits, extra

    def get_normalized_probs(
        self, net_output: Tuple[Tensor, Any], log_probs: bool, sample: Optional[Dict[str, Any]] = None
    ) -> Tensor:
        """(Log-)probabilities by extended id: (N, T, V), with a pointer (N, T, V + K); 0 for words of no column."""
        logits, extra = net_output
        pointer: Optional[PointerOutput] = extra.get("pointer")
        scores = at_least_float32(logits).log_softmax(dim=-1) if pointer is None else pointer.log_probs(logits)
        candidates: Optional[Candidates] = extra["vocabulary"].candidates
        if candidates is not None:
            scores = candidates.spread(scores)
        return scores if log_probs else scores.exp()

    def reorder_incremental_state(self, incremental_state: Any, new_order: Tensor) -> None:
        """Let hypotheses (rows) take the places of others."""
        saved = self.get_incremental_state(incremental_state, "state")
        if saved is not None:
            kept = {name: value.index_select(0, new_order) for name, value in saved.items() if value is not None}
            self.set_incremental_state(incremental_state, "state", kept)

    def max_positions(self) -> int:
        return MAX_POSITIONS


def _documents(encoder_out: Dict[str, Any]) -> int:
    return len(encoder_out["encoder_out"][0])


def _where(rows: Tensor, new: Optional[Tensor], old: Optional[Tensor]) -> Optional[Tensor]:
    """``new`` in the rows (N,) that are True, else ``old``; None if there is none."""
    return None if new is None or old is None else torch.where(rows[:, None], new, old)
