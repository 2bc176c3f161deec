"""An extractor that selects the sentences of a document one by one, in any order (Chen and Bansal 2018).

``--criterion extractor_nll`` trains it on labels, and then ``--learn-to-stop --criterion extractor_rl`` with rewards.
"""

import math
from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from fairseq.dataclass import FairseqDataclass
from torch import Tensor, nn

from ...attention import compute_log_attention_weights
from ...kernels.linear import widen_to_float32
from ...layers.additive import SharedKeys, SharedStates
from ...layers.decoder_output import TrainingCriterion
from ...layers.recurrent import BidirectionalLSTM, run_lstm
from ...layers.sentence_selector import group_words_by_sentence
from ...models.common import (
    SENTENCE_MARKS,
    check_data_suits_architecture,
    convert_options_to_namespace,
    register_presets,
)
from ...models.selector import ContentSelectionModel, make_encoder_embedding
from ...platform.command_options import SIZE, check_options, option
from ...text.words import SENTENCE_MARK

WIDTHS = (3, 4, 5)
"""Widths of the filters in :class:`SentenceConvolution`, in words."""


@dataclass
class PointerExtractorConfig(FairseqDataclass):
    """Options of pointer extractors. The defaults are from Chen and Bansal (2018)."""

    encoder_embed_dim: int = option(128, "dimension of the word embeddings", bounds=SIZE)
    encoder_embed_path: Optional[str] = option(None, "path to pretrained word embeddings in word2vec's text format")
    sentence_filters: int = option(
        100, "number of convolution filters of each width (3, 4 and 5 words) in the sentence encoder", bounds=SIZE
    )
    encoder_hidden_size: int = option(256, "hidden size of the sentence-level LSTM in each direction", bounds=SIZE)
    decoder_hidden_size: int = option(256, "hidden size of the pointer network", bounds=SIZE)
    learnt_start: bool = option(
        False,
        "learn the initial states of the sentence-level LSTM, as in Chen and Bansal's code "
        "(default: initial states of 0)",
    )
    max_sentences: int = option(60, "maximum number of sentences to read per document", bounds=SIZE)
    max_sentence_words: int = option(100, "maximum number of words to read per sentence", bounds=SIZE)
    learn_to_stop: bool = option(
        False, "add a candidate that ends the summary when it is selected, for training with --criterion extractor_rl"
    )


class SentenceConvolution(nn.Module):
    """Convolutions, ReLU and max pooling over the words of a sentence (Kim 2014), with ``filters`` of each of WIDTHS.

    Sentences that are shorter than the widest filter are padded with zero vectors.
    """

    def __init__(self, word: int, filters: int):
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv1d(word, filters, width) for width in WIDTHS)

    def forward(self, words: Tensor, there: Tensor) -> Tensor:
        """Encode R sentences, word embeddings (R, W, E), as vectors (R, 3 * filters).

        ``there`` (R, W) is True at words and False at padding, which is on the right and does not affect the result.
        """
        widest = max(WIDTHS)
        words = words.masked_fill(~there[:, :, None], 0).transpose(1, 2)  # (R, E, W)
        words = nn.functional.pad(words, (0, max(0, widest - words.shape[2])))
        lengths = there.sum(dim=1, keepdim=True).clamp(min=widest)  # (R, 1)
        found = []
        for convolution, width in zip(self.convolutions, WIDTHS):
            windows = convolution(words).relu()  # (R, filters, windows)
            # The mask is True for windows beyond the end of the sentence.
            behind = torch.arange(windows.shape[2], device=words.device) > lengths - width
            found.append(windows.masked_fill(behind[:, None], 0).amax(dim=2))  # 0 is the minimum of ReLU
        return torch.cat(found, dim=1)


class SentenceCandidates(NamedTuple):
    """Sentences of B documents and, with --learn-to-stop, a stop candidate."""

    states: Tensor  # h (B, C, D)
    missing: Tensor  # (B, C), True at candidates that do not exist in the document


class PointerMemory(NamedTuple):
    """Tensors that all steps of a :class:`PointerNetwork` read.

    The glimpse's attention keys and values are both k = W_1 h. ``keys`` W_3 h score the candidates.
    """

    glimpsed: SharedKeys
    values: SharedStates
    keys: SharedKeys
    missing: Tensor


State = Tuple[Tensor, Tensor]
"""The state h and memory cell c of an LSTM, each (1, B, H)."""


class _AdditiveAttentionScorer(nn.Module):
    """Additive attention scores v · tanh(W_k h_j + W_q q_t), with the weights v, W_k and W_q."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.key = nn.Linear(width, hidden, bias=False)
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.weight = nn.Parameter(torch.empty(hidden).uniform_(-(hidden**-0.5), hidden**-0.5))

    def compute_scores(self, query: Tensor, keys: SharedKeys) -> Tensor:
        """Compute the scores (B, T, C) of C candidates from queries q (B, T, H) and the candidates' keys."""
        return keys.compute_scores(self.query(query), self.weight)


class PointerNetwork(nn.Module):
    """A pointer network (Vinyals et al. 2015) with a glimpse, as in Chen and Bansal 2018, section 2.1.2.

    At step t, the score u_tj of candidate j is::

        g_t = LSTM(x_t),  where x_1 is learned, and x_t is the state h of the candidate selected at step t - 1
        k_j = W_1 h_j,  z_t = Σ_j softmax_j(v_1 · tanh(k_j + W_2 g_t)) k_j
        u_tj = v_2 · tanh(W_3 h_j + W_4 z_t)

    As in the authors' code, the glimpse z_t is a sum of k rather than of h. ``width`` is that of h, and ``hidden`` that
    of the LSTM and of the attention layers.
    """

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.lstm = nn.LSTM(width, hidden, batch_first=True)
        self.first_input = nn.Parameter(torch.empty(width).uniform_(-0.1, 0.1))
        self.first_states = nn.Parameter(torch.empty(2, hidden).uniform_(-0.01, 0.01))  # h and c
        self.glimpse = _AdditiveAttentionScorer(width, hidden)
        self.choice = _AdditiveAttentionScorer(width, hidden)

    def precompute_attention_keys(self, candidates: SentenceCandidates) -> PointerMemory:
        """Compute the tensors that all steps read. This is done once per batch."""
        glimpsed = self.glimpse.key(candidates.states)
        keys = SharedKeys(self.choice.key(candidates.states))
        return PointerMemory(SharedKeys(glimpsed), SharedStates(glimpsed), keys, candidates.missing)

    def make_initial_state(self, documents: int) -> Tuple[Tensor, State]:
        """Return the input of the first step (B, 1, D) and the initial state of the LSTM."""
        h, c = self.first_states[:, None, None].expand(-1, 1, documents, -1).contiguous()
        return self.first_input.expand(documents, 1, -1), (h, c)

    def forward(self, inputs: Tensor, state: State, memory: PointerMemory) -> Tuple[Tensor, State]:
        """Run T steps with the inputs x (B, T, D) from an LSTM state; return the scores u (B, T, C) and the new state.

        The scores have float32 or higher precision. Those of missing candidates are not masked.
        """
        steps, state = run_lstm(self.lstm, inputs, state)  # (B, T, H)
        weights = compute_log_attention_weights(
            self.glimpse.compute_scores(steps, memory.glimpsed), memory.missing
        ).exp()
        return self.choice.compute_scores(memory.values.compute_weighted_sum(weights), memory.keys), state

    def score_selection(self, candidates: SentenceCandidates, chosen: Tensor) -> Tensor:
        """Return the scores u (B, T, C), float32 or more, at each step of a selection (B, T), padded with negatives."""
        first, state = self.make_initial_state(len(chosen))
        before = chosen[:, :-1].clamp(min=0)[:, :, None].expand(-1, -1, candidates.states.shape[2])
        taken = candidates.states.gather(1, before)  # (B, T - 1, D)
        inputs = torch.cat([first.to(taken), taken], dim=1)[:, : chosen.shape[1]]
        scores, _ = self(inputs, state, self.precompute_attention_keys(candidates))
        return scores


class Critic(nn.Module):
    """A critic that estimates the expected return b_t at each step of a selection (Chen and Bansal 2018, section 3.1).

    It is a pointer network with separate weights. At each step, it estimates the return from the states of the
    sentences, averaged with the weights softmax(u_t). The average is also the input of the next step. Therefore, the
    critic does not know which sentences were selected.
    """

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.network = PointerNetwork(width, hidden)
        self.value = nn.Linear(width, 1)

    def forward(self, sentences: SentenceCandidates, steps: int) -> Tensor:
        """Estimate the returns b (B, steps) from the sentences, without the stop candidate."""
        memory = self.network.precompute_attention_keys(sentences)
        inputs, state = self.network.make_initial_state(len(sentences.states))
        values: List[Tensor] = []
        for _ in range(steps):
            scores, state = self.network(inputs, state, memory)
            weights = compute_log_attention_weights(scores, sentences.missing).exp()  # (B, 1, C)
            inputs = weights.to(sentences.states) @ sentences.states  # (B, 1, D)
            values.append(widen_to_float32(self.value(inputs)[:, :, 0]))
        return torch.cat(values, dim=1)


def mask_earlier_selections(chosen: Tensor, count: int) -> Tensor:
    """Return a mask (B, T, C), True at candidates selected in an earlier step (B, T). Negative values are padding."""
    taken = nn.functional.one_hot(chosen.clamp(min=0), count).bool() & (chosen >= 0)[:, :, None]
    before = taken.long().cumsum(dim=1) - taken.long()
    return (before > 0) & (chosen >= 0)[:, :, None]


class CandidateScores(NamedTuple):
    """Logits (B, T, C) of the candidates at each step, float32 or more precise, minus infinity for missing ones.

    ``values`` are the returns b (B, T) that the critic predicts, or None without --learn-to-stop.
    """

    logits: Tensor
    values: Optional[Tensor]


class PointerExtractor(ContentSelectionModel):
    """A model that encodes the sentences of a document and selects some of them with a pointer network.

    Convolutional filters encode the words of each sentence, and a bidirectional LSTM encodes the sequence of sentences.
    Each of the N sentences is a candidate, where N is the number of sentences in the longest document of the batch.
    With ``--learn-to-stop``, there is an additional candidate with the index N and a learned vector. Selecting this
    candidate ends the summary.

    Without --learn-to-stop, ``stop``, the vector (D,) of that candidate, and the ``critic`` are None.
    """

    unit = "sentences"
    labels_in_order = True

    def __init__(self, cfg: Any, task: Any):
        super().__init__()
        words = task.source_dictionary
        self.mark, self.max_sentences = words.index(SENTENCE_MARK), cfg.max_sentences
        self.max_words = cfg.max_sentence_words
        self.special = sorted({words.pad(), words.eos(), words.bos(), self.mark})
        self.embed_tokens = make_encoder_embedding(task, cfg.encoder_embed_dim, cfg.encoder_embed_path)
        self.convolution = SentenceConvolution(cfg.encoder_embed_dim, cfg.sentence_filters)
        self.sentences = BidirectionalLSTM(
            len(WIDTHS) * cfg.sentence_filters, cfg.encoder_hidden_size, learnt_start=cfg.learnt_start
        )
        width = 2 * cfg.encoder_hidden_size
        self.pointer_network = PointerNetwork(width, cfg.decoder_hidden_size)
        self.stop: Optional[nn.Parameter] = None
        self.critic: Optional[Critic] = None
        if cfg.learn_to_stop:
            self.stop = nn.Parameter(torch.empty(width).uniform_(-0.01, 0.01))
            self.critic = Critic(width, cfg.decoder_hidden_size)
            self.critic.network.load_state_dict(self.pointer_network.state_dict())

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "PointerExtractor":
        """Build the model. Raises ValueError if an option is invalid or the documents contain no sentence marks."""
        options = convert_options_to_namespace(cfg)
        check_options(options, PointerExtractorConfig)
        check_data_suits_architecture(getattr(options, "_name", "pointer_extractor"), SENTENCE_MARKS, task)
        return cls(options, task)

    @property
    def trained_by(self) -> TrainingCriterion:  # type: ignore[override]
        """Return the criterion that trains this extractor. The criterion depends on --learn-to-stop."""
        if self.stop is None:
            return TrainingCriterion("extractor_nll", "an extractor without --learn-to-stop")
        return TrainingCriterion("extractor_rl", "an extractor with --learn-to-stop")

    def upgrade_state_dict(self, state_dict: Dict[str, Tensor]) -> None:
        """If the checkpoint contains no critic, initialise the critic with the weights of the pointer network."""
        super().upgrade_state_dict(state_dict)
        own, copied = "pointer_network.", "critic.network."
        if self.critic is not None and not any(name.startswith(copied) for name in state_dict):
            learnt = {name[len(own) :]: value for name, value in state_dict.items() if name.startswith(own)}
            state_dict.update({f"{copied}{name}": value.clone() for name, value in learnt.items()})

    def encode_sentences(self, src_tokens: Tensor) -> SentenceCandidates:
        """Encode the sentences of the documents (B, S)."""
        tokens, there, _ = group_words_by_sentence(
            src_tokens, self.find_real_words(src_tokens), self.mark, self.max_sentences, self.max_words
        )  # (B, N, W)
        batch, count, width = tokens.shape
        there = there.reshape(batch * count, width)
        vectors = self.convolution(self.embed_tokens(tokens.reshape(batch * count, width)), there)
        missing = ~there.any(dim=1).view(batch, count)
        states = self.sentences(vectors.view(batch, count, -1), missing)[0]  # (B, N, D)
        return SentenceCandidates(states, missing)

    def append_stop_candidate(self, sentences: SentenceCandidates) -> SentenceCandidates:
        """Append the stop vector to the candidates, if the extractor has one."""
        if self.stop is None:
            return sentences
        states, missing = sentences
        stop = self.stop.to(states).expand(len(states), 1, -1)
        return SentenceCandidates(torch.cat([states, stop], dim=1), nn.functional.pad(missing, (0, 1), value=False))

    def forward(
        self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None, chosen: Optional[Tensor] = None, **_: Any
    ) -> CandidateScores:
        """Score the candidates at each step of a given selection.

        ``src_tokens`` (B, S) are the documents, and ``chosen`` (B, T) are indices of candidates, padded with negative
        values. ``src_lengths`` is ignored.
        """
        assert chosen is not None, "an extractor needs a choice of sentences to score"
        sentences = self.encode_sentences(src_tokens)
        candidates = self.append_stop_candidate(sentences)
        logits = self.pointer_network.score_selection(candidates, chosen)
        logits = logits.masked_fill(candidates.missing[:, None], -math.inf)
        return CandidateScores(logits, None if self.critic is None else self.critic(sentences, chosen.shape[1]))

    @torch.no_grad()
    def extract(self, src_tokens: Tensor, most: Optional[int] = None, sample: bool = False) -> Tensor:
        """Select sentences of documents (B, S), each at most once, until the extractor stops or there are ``most``.

        With ``sample``, candidates are sampled from their probabilities instead of selecting the most probable one.
        Returns the indices of the selected candidates (B, T) in order, including the stop candidate, padded with -1.
        """
        candidates = self.append_stop_candidate(self.encode_sentences(src_tokens))
        count = candidates.states.shape[1]
        memory = self.pointer_network.precompute_attention_keys(candidates)
        inputs, state = self.pointer_network.make_initial_state(len(src_tokens))
        blocked = candidates.missing.clone()  # (B, C)
        ended = blocked.all(dim=1)
        steps: List[Tensor] = []
        while not ended.all() and (most is None or len(steps) < most):
            scores, state = self.pointer_network(inputs.to(candidates.states), state, memory)
            # Candidates are also selected for finished documents, but they are not used.
            scores = scores[:, 0].masked_fill(blocked & ~ended[:, None], -math.inf)
            taken = scores.softmax(dim=1).multinomial(1) if sample else scores.argmax(dim=1, keepdim=True)  # (B, 1)
            steps.append(taken[:, 0].masked_fill(ended, -1))
            inputs = candidates.states.gather(1, taken[:, :, None].expand(-1, -1, candidates.states.shape[2]))
            blocked = blocked.scatter(1, taken, True)
            ended = ended | blocked.all(dim=1)
            if self.stop is not None:
                ended = ended | (taken[:, 0] == count - 1)
        return torch.stack(steps, dim=1) if steps else src_tokens.new_zeros(len(src_tokens), 0)

    def get_selected_sentences(self, src_tokens: Tensor, chosen: Tensor) -> List[List[Tensor]]:
        """Return the sentences selected from each document (B, S), in order, as tensors of dictionary ids (n,).

        ``chosen`` (B, T) is the result of :meth:`extract`. If there is a stop candidate, each selection must end with
        it.
        """
        found = []
        for document, steps in zip(src_tokens, chosen.tolist()):
            numbers = [number for number in steps if number >= 0]
            sentences = self.split_document(document)
            found.append([sentences[number] for number in (numbers if self.stop is None else numbers[:-1])])
        return found

    def split_document(self, document: Tensor) -> List[Tensor]:
        """Split a document (S,) into sentences in candidate order. Each sentence is a tensor of word ids (n,)."""
        found: List[List[int]] = [[]]
        for token in document.tolist():
            if token == self.mark:
                found.append([])
            elif token not in self.special:
                found[-1].append(token)
        return [document.new_tensor(words) for words in found]


PRESETS: Dict[str, Dict[str, Any]] = {"pointer_extractor": {}}
"""Mapping from the name of each architecture to the defaults that it changes."""


register_presets(PointerExtractor, PRESETS, PointerExtractorConfig)
