"""The decoder of the recurrent family: a GRU with additive attention and the papers' mechanisms as options."""

import math
from typing import Any, Dict, NamedTuple, Optional, Sequence, Tuple

import torch
from fairseq.models import FairseqIncrementalDecoder
from torch import Tensor, nn

from ..attention import at_least_float32, hierarchical_log_attention, log_attention, temporal_step
from ..layers.additive import AdditiveAttention, SharedKeys, SharedStates
from ..layers.pointer import AttentionPointer, PointerOutput
from ..layers.recurrent import OutputLayer
from ..vocabulary.candidates import Candidates
from ..vocabulary.output import OutputVocabulary
from .rnn_encoder import MAX_POSITIONS


class DecoderState(NamedTuple):
    """What a step hands to the next one; a row for each hypothesis.

    Attributes:
        hidden: h (N, H).
        spent: log of the sum of exp(scores) so far (N, S), minus infinity before the first step; None without temporal
            attention.
        covered: the sum of attention so far (N, S); None without coverage.
    """

    hidden: Tensor
    spent: Optional[Tensor] = None
    covered: Optional[Tensor] = None


class EncodedDocuments(NamedTuple):
    """The encoder's output, as every step reads it: a row for each of B documents or, where it says N, each hypothesis.

    Attributes:
        states: the encoder's states (B, S, M). keys: W_c h (B, S, A). padding: (N, S) bool, True at padding.
        sentence_keys: (B, L, A) for L sentences. sentence_ids: (N, S). sentence_padding: (N, L) bool. None without
            hierarchical attention.
    """

    states: SharedStates
    keys: SharedKeys
    padding: Tensor
    sentence_keys: Optional[SharedKeys] = None
    sentence_ids: Optional[Tensor] = None
    sentence_padding: Optional[Tensor] = None

    @classmethod
    def of(cls, encoder_out: Dict[str, Any], rows: int) -> "EncodedDocuments":
        """From the encoder's output, for N = ``rows`` hypotheses."""
        beams = rows // _documents(encoder_out)
        documents = cls(
            SharedStates(encoder_out["encoder_out"][0]),
            SharedKeys(encoder_out["keys"][0]),
            encoder_out["encoder_padding_mask"][0].repeat_interleave(beams, dim=0),
        )
        if "sentence_keys" not in encoder_out:
            return documents
        return documents._replace(
            sentence_keys=SharedKeys(encoder_out["sentence_keys"][0]),
            sentence_ids=encoder_out["sentence_ids"][0].repeat_interleave(beams, dim=0),
            sentence_padding=encoder_out["sentence_padding_mask"][0].repeat_interleave(beams, dim=0),
        )


class RecurrentDecoder(FairseqIncrementalDecoder):
    """A GRU that attends to the document before each step.

    With E the vector of the word before, c_t comes from attention by h_{t-1} and E, h_t = GRU([E; c_t], h_{t-1}), and
    tanh(W [h_t; E; c_t]), the readout, goes into the output layer.

    Args:
        cfg: the model's options. dictionary: the known words. embed_tokens: their vectors.
        output: weight (V, E) of the output layer, or a shared table that begins with these rows.
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
        word, hidden, context = embed_tokens.embedding_dim, cfg.decoder_hidden_size, 2 * cfg.encoder_hidden_size
        self.large_vocabulary_trick = int(cfg.large_vocabulary_trick)
        self.register_buffer("source_words", source_words, persistent=False)
        self.embed_tokens = embed_tokens
        self.dropout = nn.Dropout(cfg.dropout)
        self.attention = AdditiveAttention(hidden, word, cfg.attention_dim)
        self.sentence_attention: Optional[AdditiveAttention] = None
        if cfg.hierarchical_attention:
            self.sentence_attention = AdditiveAttention(hidden, word, cfg.attention_dim)
        self.temporal = bool(cfg.temporal_attention)
        self.coverage_weight: Optional[nn.Parameter] = None
        if cfg.coverage:
            self.coverage_weight = nn.Parameter(torch.empty(cfg.attention_dim).uniform_(-0.1, 0.1))
        self.cell = nn.GRUCell(word + context, hidden)
        features = hidden + word + context
        self.readout = nn.Linear(features, output.shape[1])
        self.output_projection = OutputLayer(output, len(dictionary))
        self.pointer: Optional[AttentionPointer] = None
        if str(cfg.pointer) != "none":
            self.pointer = AttentionPointer(features, str(cfg.pointer))

    def output_vocabulary(self, src_tokens: Tensor) -> OutputVocabulary:
        """The words that the distributions for documents (B, S) range over."""
        candidates = self.candidates(src_tokens) if self.large_vocabulary_trick else None
        return OutputVocabulary.of(src_tokens, self.dictionary, self.pointer is not None, candidates)

    def candidates(self, src_tokens: Tensor) -> Candidates:
        """The words of the softmax for documents (B, S).

        In training the batch shares one list of candidates. Otherwise each document has its own, so that its summary
        does not depend on the batch.
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
            encoder_out: of the encoder.
            incremental_state: if given, only the last word is read, and the steps before it are taken from here.

        Returns:
            logits (N, T, C), with C = V or, with the large-vocabulary trick, the number of candidates.
            Extras: "attn", a list of the attention (N, T, S); "vocabulary", the batch's :class:`OutputVocabulary`; with
            a pointer "pointer", its :class:`PointerOutput`.
        """
        assert encoder_out is not None, "the decoder needs the encoder's output"
        if incremental_state is not None:
            prev_output_tokens = prev_output_tokens[:, -1:]
        words = self.dropout(self.embed_tokens(prev_output_tokens))  # (N, T, E)
        real = prev_output_tokens.ne(self.dictionary.pad())
        features, log_weights = self._run_steps(words, real, encoder_out, incremental_state)
        extra: Dict[str, Any] = {"attn": [log_weights.exp()]}
        readouts = self.dropout(torch.tanh(self.readout(features)))  # (N, T, E)
        if features_only:
            return readouts, extra
        return self._logits(readouts, features, log_weights, extra, encoder_out, incremental_state)

    def _run_steps(
        self, words: Tensor, real: Tensor, encoder_out: Dict[str, Any], incremental_state: Optional[Any]
    ) -> Tuple[Tensor, Tensor]:
        """Run the GRU over the words before (N, T, E), of which ``real`` (N, T) are not padding.

        Returns:
            features [h; E; c] (N, T, H + E + M), and the logarithm of the attention (N, T, S).
        """
        rows = len(words)
        state = self._first_state(encoder_out, incremental_state, rows)
        left_padded = not bool(
            real[:, 0].all()
        )  # behind a summary's end nothing is used, so the right side needs no care
        documents = EncodedDocuments.of(encoder_out, rows)
        # unbound once: the gradient of indexing would be a tensor of all steps for each of them
        steps, queries = words.unbind(1), self.attention.from_word(words).unbind(1)
        sentence_queries: Sequence[Optional[Tensor]] = [None] * len(steps)
        if self.sentence_attention is not None:
            sentence_queries = self.sentence_attention.from_word(words).unbind(1)
        hiddens, contexts, log_weights = [], [], []
        for t, word in enumerate(steps):
            before = state
            log_weight, state = self._attend(state, queries[t], sentence_queries[t], documents)
            count, length, _ = documents.states.states.shape
            context = documents.states.read(log_weight.exp().view(count, -1, length)).view(rows, -1)  # (N, M)
            state = state._replace(hidden=self.cell(torch.cat([word, context], dim=1), state.hidden))
            if left_padded:  # padding leaves the state as it was
                kept = (_select_rows(real[:, t], *pair) for pair in zip(state, before))
                state = DecoderState(*kept)  # type: ignore[arg-type]
            hiddens.append(state.hidden)
            contexts.append(context)
            log_weights.append(log_weight)
        if incremental_state is not None:
            saved = {name: value for name, value in state._asdict().items() if value is not None}
            self.set_incremental_state(incremental_state, "state", saved)
        features = torch.cat([torch.stack(hiddens, 1), words, torch.stack(contexts, 1)], dim=2)
        return features, torch.stack(log_weights, 1)

    def _first_state(self, encoder_out: Dict[str, Any], incremental_state: Optional[Any], rows: int) -> DecoderState:
        """The state that the steps go on from: the cached one, or the encoder's for N = ``rows`` hypotheses."""
        saved = None if incremental_state is None else self.get_incremental_state(incremental_state, "state")
        if saved:
            return DecoderState(**saved)
        hidden = encoder_out["first_state"][0].repeat_interleave(rows // _documents(encoder_out), dim=0)
        length = encoder_out["encoder_out"][0].shape[1]
        zeros = at_least_float32(hidden).new_zeros(rows, length)
        spent = torch.full_like(zeros, -math.inf) if self.temporal else None
        return DecoderState(hidden, spent, None if self.coverage_weight is None else zeros)

    def _attend(
        self, state: DecoderState, word_query: Tensor, sentence_query: Optional[Tensor], documents: EncodedDocuments
    ) -> Tuple[Tensor, DecoderState]:
        """Attend to the documents once.

        Args:
            word_query, sentence_query: what the word before contributes to the queries (N, A).

        Returns:
            log of the attention (N, S), and the state with this step's attention in ``spent`` and ``covered``.
        """
        scores = self.attention(state.hidden, word_query, documents.keys, state.covered, self.coverage_weight)  # (N, S)
        if state.spent is not None:
            scores, spent = temporal_step(scores, state.spent)
            state = state._replace(spent=spent)
        log_weight = log_attention(scores[:, None], documents.padding)  # (N, 1, S)
        if self.sentence_attention is not None and documents.sentence_ids is not None:
            of_sentences = self.sentence_attention(state.hidden, sentence_query, documents.sentence_keys)  # (N, L)
            log_sentence = log_attention(of_sentences[:, None], documents.sentence_padding)
            log_weight = hierarchical_log_attention(log_weight, log_sentence, documents.sentence_ids)
        log_weight = log_weight[:, 0]
        if state.covered is not None:
            state = state._replace(covered=state.covered + log_weight.exp())
        return log_weight, state

    def _logits(
        self,
        readouts: Tensor,
        features: Tensor,
        log_weights: Tensor,
        extra: Dict[str, Any],
        encoder_out: Dict[str, Any],
        incremental_state: Optional[Any],
    ) -> Tuple[Tensor, Dict[str, Any]]:
        """Logits (N, T, C) of readouts (N, T, E); adds "vocabulary" and "pointer" to the extras."""
        # in search the vocabulary and its rows are kept from step to step; in training each call's rows have a gradient
        cache = encoder_out if incremental_state is not None else {}
        if "vocabulary" not in cache:
            cache["vocabulary"] = self.output_vocabulary(encoder_out["src_tokens"][0])
            if cache["vocabulary"].candidates is not None:
                cache["output_rows"] = self.output_projection.rows(cache["vocabulary"].candidates.words)
        vocabulary: OutputVocabulary = cache["vocabulary"]
        extra["vocabulary"] = vocabulary
        logits = self.output_projection(readouts, cache.get("output_rows"))
        if vocabulary.candidates is not None:
            logits = vocabulary.candidates.restrict(logits)
        if self.pointer is not None:
            assert vocabulary.slots is not None
            extra["pointer"] = self.pointer(features, log_weights, vocabulary.slots)
        return logits, extra

    def get_normalized_probs(
        self, net_output: Tuple[Tensor, Any], log_probs: bool, sample: Optional[Dict[str, Any]] = None
    ) -> Tensor:
        """(Log-)probabilities by extended id: (N, T, V), with a pointer (N, T, V + K); 0 for what has no column."""
        logits, extra = net_output
        pointer: Optional[PointerOutput] = extra.get("pointer")
        scores = at_least_float32(logits).log_softmax(dim=-1) if pointer is None else pointer.log_probs(logits)
        candidates: Optional[Candidates] = extra["vocabulary"].candidates
        if candidates is not None:
            scores = candidates.spread(scores)
        return scores if log_probs else scores.exp()

    def reorder_incremental_state(self, incremental_state: Any, new_order: Tensor) -> None:
        """Row i of the cached state becomes the old row ``new_order[i]``."""
        saved = self.get_incremental_state(incremental_state, "state")
        if saved is not None:
            reordered = {name: value.index_select(0, new_order) for name, value in saved.items() if value is not None}
            self.set_incremental_state(incremental_state, "state", reordered)

    def max_positions(self) -> int:
        return MAX_POSITIONS


def _documents(encoder_out: Dict[str, Any]) -> int:
    """B, the number of documents."""
    return len(encoder_out["encoder_out"][0])


def _select_rows(rows: Tensor, new: Optional[Tensor], old: Optional[Tensor]) -> Optional[Tensor]:
    """``new`` in the rows (N,) that are True, ``old`` in the others; None if there is none."""
    return None if new is None or old is None else torch.where(rows[:, None], new, old)
