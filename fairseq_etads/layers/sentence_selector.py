"""Layers for content selection: a spelling encoder, a bidirectional LSTM, a sentence scorer, and a sentence selector.

The selector selects source sentences for each sentence of the summary (Explicit-Selection, Li et al. 2018).
"""

from typing import Any, Dict, List, NamedTuple, Optional, Tuple, Union

import torch
from fairseq.modules import FairseqDropout
from torch import Tensor, nn

from ..attention import PADDING_SCORE, compute_log_attention_weights, inconsistency_loss
from ..kernels.linear import widen_to_float32
from .additive import AdditiveAttention, DotAttention, SharedKeys, SharedStates
from .recurrent import compute_sentence_ids, reorder_positions, run_lstm


def to_device(x: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor to a device. For a GPU, pinned memory is used, so that the CPU does not wait for the GPU."""
    if device.type == "cuda" and x.device.type == "cpu":
        return x.pin_memory().to(device, non_blocking=True)
    return x.to(device)


_END, _BEGIN = 257, 258
"""Ids of the symbols for the end and the beginning of a word. The id of byte b is 1 + b, and 0 is padding."""
LONGEST_WORD = 40
"""Maximum number of bytes that are read for each word."""


class SelectorOutput(NamedTuple):
    """The output of a content selector for B documents. The selected units are words or sentences.

    Attributes:
        logits: the logits (B, U) of the selection probabilities of U units, which are minus infinity for sentences that
            the selector does not read.
        real: the boolean mask (B, U), False where a document has fewer than U units or the selector does not read a
            unit.
    """

    logits: Tensor
    real: Tensor

    def compute_probabilities(self) -> Tensor:
        """Return the selection probabilities (B, U), float32. They are 0 where ``real`` is False."""
        return torch.sigmoid(self.logits.float()).masked_fill(~self.real, 0)


class SpellingEncoder(nn.Module):
    """Computes word vectors from spellings, so that different unknown words have different vectors.

    A spelling consists of a begin symbol, the UTF-8 bytes of the word (here called letters), and an end symbol. A
    convolution over the letters is followed by a ReLU and max-pooling (Kim et al. 2016; the released tagger of Gehrmann
    et al. 2018).

    The ``dictionary`` includes the copy tail. ``letter`` and ``filters`` are the widths of the letter embeddings and
    the word vectors, and ``width`` is the kernel size in letters.
    """

    def __init__(self, dictionary: Any, letter: int, filters: int, width: int = 5):
        super().__init__()
        self.dictionary, self.width = dictionary, width
        self.letters = nn.Embedding(_BEGIN + 1, letter, padding_idx=0)
        self.convolution = nn.Conv1d(letter, filters, width)
        self._spelled: Dict[int, List[int]] = {}

    def forward(self, tokens: Tensor) -> Tensor:
        """Encode word ids (B, S) as vectors (B, S, filters)."""
        words, places = tokens.unique(return_inverse=True)
        spelled = [self._get_letter_ids(number) for number in words.tolist()]
        longest = max(map(len, spelled), default=self.width)
        letters = to_device(torch.tensor([word + [0] * (longest - len(word)) for word in spelled]), tokens.device)
        windows = self.convolution(self.letters(letters).transpose(1, 2)).relu()  # (U, filters, windows)
        lengths = to_device(torch.tensor([len(word) - self.width for word in spelled]), tokens.device)
        # True after the last window of a word
        behind = torch.arange(windows.shape[2], device=tokens.device) > lengths[:, None]
        vectors = windows.masked_fill(behind[:, None], 0).amax(dim=2)  # ReLU is at least 0
        return vectors[places]

    def _get_letter_ids(self, number: int) -> List[int]:
        """Return the letter ids of a word, padded to the kernel size if the word is shorter."""
        if number not in self._spelled:
            spelling = self.dictionary[number].encode("utf-8", "surrogateescape")[:LONGEST_WORD]
            letters = [_BEGIN, *(1 + byte for byte in spelling), _END]
            self._spelled[number] = letters + [0] * (self.width - len(letters))
        return self._spelled[number]

    def __getstate__(self) -> Dict[str, Any]:
        """Return the state for pickling, without cached spellings."""
        return {**vars(self), "_spelled": {}}


class TaggerLSTM(nn.Module):
    """A bidirectional LSTM that ignores padding on either side of a sequence.

    Sequences are shifted to the first column, and each direction is run separately. The reason is explained in
    :class:`~fairseq_etads.layers.recurrent.BidirectionalRNN`, which has other weights: one bias per gate.
    """

    def __init__(self, input_dim: int, hidden: int, layers: int, dropout: float):
        super().__init__()
        widths = [input_dim] + [2 * hidden] * (layers - 1)
        self.layers = nn.ModuleList(
            nn.ModuleList(nn.LSTM(width, hidden, batch_first=True) for _ in range(2)) for width in widths
        )
        self.dropout = FairseqDropout(dropout, module_name=type(self).__name__)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        """Run the LSTM on inputs (B, S, input_dim). The padding mask (B, S) is True at padding.

        Returns the states (B, S, 2 * hidden), which are 0 at padding.
        """
        order = padding.int().argsort(dim=1, stable=True)  # (B, S): the positions of real tokens in order, then padding
        lengths = (~padding).sum(dim=1, keepdim=True)
        positions = torch.arange(x.shape[1], device=x.device).expand(x.shape[:2])
        reverse = torch.where(positions < lengths, lengths - 1 - positions, positions)
        x = reorder_positions(x, order)
        layers: Any = self.layers
        for number, (forward, backward) in enumerate(layers):
            x = self.dropout(x) if number else x
            x = torch.cat(
                [
                    run_lstm(forward, x)[0],
                    reorder_positions(run_lstm(backward, reorder_positions(x, reverse))[0], reverse),
                ],
                dim=2,
            )
        return reorder_positions(x, order.argsort(dim=1)).masked_fill(padding[:, :, None], 0.0)


def group_words_by_sentence(
    src_tokens: Tensor, real: Tensor, mark: int, sentences: int, words: int
) -> Tuple[Tensor, Tensor, Tensor]:
    """Group the words of documents by sentence.

    Args:
        src_tokens: the source documents (B, S).
        real: the boolean mask (B, S), True at words and False at padding, end symbols and sentence marks.
        mark: the id of the sentence mark, the token that ends a sentence.
        sentences, words: the maximum number of sentences per document and the maximum number of words per sentence.

    Returns:
        Three tensors: the word ids (B, N, W), which are 0 where there is no word; a boolean mask (B, N, W), True at
        words; and the sentence index (B, S) of each token, which is 0 for tokens that are not words.
    """
    numbers = compute_sentence_ids(src_tokens, mark).masked_fill(~real, 0)
    lengths = torch.zeros_like(numbers).scatter_add(1, numbers, real.long())  # (B, S), 0 after the last sentence
    starts = lengths.cumsum(1) - lengths
    rank = real.long().cumsum(1) - 1 - starts.gather(1, numbers)  # position of a word in its sentence
    # copy both numbers at once, so that the CPU waits for the GPU only once
    last, longest = torch.stack([numbers.max(), lengths.max()]).tolist() if numbers.numel() else (0, 0)
    count, width = min(last + 1, sentences), max(1, min(longest, words))
    kept = real & (numbers < count) & (rank < width)
    place = torch.where(kept, numbers * width + rank, count * width)  # the last column collects the dropped words
    table = src_tokens.new_zeros(len(src_tokens), count * width + 1).scatter(1, place, src_tokens)
    there = torch.zeros_like(table, dtype=torch.bool).scatter(1, place, kept)
    shape = len(src_tokens), count, width
    return table[:, :-1].reshape(shape), there[:, :-1].reshape(shape), numbers


class NoveltyScorer(nn.Module):
    """Scores sentences from left to right, with lower scores for repeated content (Hsu et al. 2018, section 3.1).

    u_i = tanh(W_u h_i + b), d = tanh(W_d mean h + b), logit_i = w_c·u_i + u_i W_s d - u_i W_r tanh(o_i) + b, where o_i
    is the sum of sigmoid(logit_k) u_k over the sentences k before i.

    ``features`` is the width of the sentence vectors u and of the document vector d.
    """

    def __init__(self, input_dim: int, features: int):
        super().__init__()
        self.sentence = nn.Linear(input_dim, features)
        self.document = nn.Linear(input_dim, features)
        self.content = nn.Linear(features, 1)
        self.salience = nn.Linear(features, features, bias=False)
        self.novelty = nn.Linear(features, features, bias=False)

    def forward(self, states: Tensor, missing: Tensor) -> Tensor:
        """Compute the logits (B, N) from sentence states h (B, N, input_dim). Missing sentences have undefined logits.

        The boolean mask ``missing`` (B, N) is True where a document has fewer than N sentences.
        """
        there = (~missing).to(states)[:, :, None]
        mean = (states * there).sum(1) / there.sum(1).clamp(min=1)
        u, d = self.sentence(states).tanh(), self.document(mean).tanh()  # (B, N, F), (B, F)
        alone = self.content(u)[:, :, 0] + torch.einsum("bnf,bf->bn", u, self.salience(d))
        taken = torch.zeros_like(d)
        logits: List[Tensor] = []
        for i in range(states.shape[1]):
            logit = alone[:, i] - (u[:, i] * self.novelty(taken.tanh())).sum(1)
            taken = taken + torch.sigmoid(logit)[:, None] * u[:, i] * there[:, i]
            logits.append(logit)
        return torch.stack(logits, dim=1)


UNREAD = PADDING_SCORE / 2
"""Value of log β for sentences that the extractor does not read.

With this value, the attention weight is exactly 0. The value is larger than the value used at padding.
"""


class SentenceSelector(nn.Module):
    """Selects source sentences at the start of each summary sentence (local selection in the paper).

    Let t be the index of a summary sentence, h'_i the state of source sentence i, d the document vector, and e_(t-1)
    the last decoder state in the previous summary sentence (e_0 = r_0 = 0)::

        q_0 = tanh(W d),  q_t = GRU([e_(t-1); r_(t-1)], q_(t-1))
        p_t = softmax_i(v · tanh(W_q q_t + W_h h'_i + b)),  r_t = Σ_i p_ti h'_i
        state before the sentence's first word = a(W_r [r_t; q_t] + b_r)

    W_h belongs to the encoder, which computes the keys W_h h'_i only once. The last equation replaces the bridge
    between encoder and decoder and uses its nonlinearity a. An LSTM has a second equation of this form for the memory
    cell.

    The ``nonlinearity`` a is "tanh" or "relu". If ``is_dot``, the attention scores are dot products of q and the keys.
    """

    def __init__(self, hidden: int, sentence: int, attention_dim: int, nonlinearity: str, has_cell: bool, is_dot: bool):
        super().__init__()
        self.first_plan = nn.Linear(sentence, hidden, bias=False)
        self.cell = nn.GRUCell(hidden + sentence, hidden)
        self.attention: Union[AdditiveAttention, DotAttention] = (
            DotAttention() if is_dot else AdditiveAttention(hidden, 0, attention_dim)
        )
        self.nonlinearity = {"tanh": torch.tanh, "relu": torch.relu}[nonlinearity]
        self.sentence_start = nn.Linear(sentence + hidden, hidden)
        self.cell_start = nn.Linear(sentence + hidden, hidden) if has_cell else None

    def compute_initial_plan(self, documents: Tensor) -> Tensor:
        """Compute the initial plan q_0 (N, Q) from the document vectors d (N, M)."""
        return torch.tanh(self.first_plan(documents))

    def forward(
        self,
        written: Tensor,
        selected: Tensor,
        plan: Tensor,
        keys: Union[SharedKeys, SharedStates],
        states: SharedStates,
        missing: Tensor,
    ) -> Tuple[Tensor, Tensor, Tensor]:
        """Select source sentences for the next summary sentence.

        Args:
            written: the last decoder state in the previous summary sentence, e_(t-1) (N, Q).
            selected: the selection vector of the previous summary sentence, r_(t-1) (N, M).
            plan: the plan of the previous summary sentence, q_(t-1) (N, Q).
            keys: the attention keys (B, L, A) of the sentences in the B documents. N is a multiple of B.
            states: the sentence states h' (B, L, M).
            missing: the boolean mask (N, L), True where a document has fewer than L sentences.

        Returns:
            The new plan q_t (N, Q), the log-probabilities log p_t (N, L) in float32 or higher precision, and the
            selection vector r_t (N, M).
        """
        plan = self.cell(torch.cat([written, selected], dim=1), plan)
        scores = self.attention(plan, None, keys)  # (N, L)
        log_weights = compute_log_attention_weights(scores[:, None], missing)[:, 0]
        count, length, width = states.states.shape
        selected = states.compute_weighted_sum(log_weights.exp().view(count, -1, length)).view(-1, width)
        return plan, log_weights, selected

    def compute_start_state(self, selected: Tensor, plan: Tensor) -> Tuple[Tensor, Optional[Tensor]]:
        """Compute the decoder state (N, Q) before the first word of a sentence from r_t and q_t.

        The second returned value is the memory cell (N, Q) of an LSTM, or None.
        """
        both = torch.cat([selected, plan], dim=1)
        cell = None if self.cell_start is None else self.nonlinearity(self.cell_start(both))
        return self.nonlinearity(self.sentence_start(both)), cell


class SentenceSelection(NamedTuple):
    """The selection probabilities of the source sentences at each decoding step.

    Attributes:
        log_probs: the log-probabilities log p (N, T, L) of L sentences in T steps, in float32 or higher precision.
        starts: the boolean mask (N, T), True at steps that produce the first word of a sentence. p changes only at
            these steps.
    """

    log_probs: Tensor
    starts: Tensor

    def compute_divergence(self, targets: Tensor, is_word: Tensor) -> Tensor:
        """Compute KL(p̂_t ‖ p_t) for each summary, averaged over the sentences t that have a target.

        Args:
            targets: the target probabilities p̂ (N, n, L'), with a row for each summary sentence that contains words.
                Rows of zeros are ignored. Truncated summaries and documents may have fewer sentences than the targets.
            is_word: the boolean mask (N, T), False at steps where the target token is a sentence mark, the end symbol
                or padding.

        Returns:
            The mean divergence (N,) in float32 or higher precision, which is 0 for summaries without targets.
        """
        log_probs, sentences = widen_to_float32(self.log_probs), self.log_probs.shape[2]
        targets = widen_to_float32(targets)[:, :, :sentences]
        targets = nn.functional.pad(targets, (0, sentences - targets.shape[2], 0, 1))  # append a row of zeros
        begins = self.starts & is_word  # the targets have no row for a sentence without words
        row = (begins.cumsum(1) - 1).clamp(min=0, max=targets.shape[1] - 1)  # (N, T)
        wanted = targets.gather(1, row[:, :, None].expand(-1, -1, sentences))  # (N, T, L)
        mass = wanted.sum(dim=2) * begins
        counted = mass > 0
        wanted = (
            wanted / mass.masked_fill(~counted, 1)[:, :, None]
        )  # the targets may have been rounded to half precision
        each = (torch.xlogy(wanted, wanted) - wanted * log_probs).sum(dim=2)  # (N, T)
        return (each * counted).sum(dim=1) / counted.sum(dim=1).clamp(min=1)


class SentenceAttention(NamedTuple):
    """The values that loss functions need from a summariser with a sentence extractor.

    Attributes:
        log_word: the logarithms of the word-level attention α (N, T, S), before it is combined with β.
        log_selected: log β of the sentence that contains each word (B, S), where β is the probability of selecting
            the sentence.
        extraction: the output of the extractor for the B documents.
    """

    log_word: Tensor
    log_selected: Tensor
    extraction: SelectorOutput

    @classmethod
    def from_encoder_out(cls, log_word: Tensor, encoder_out: Dict[str, Any]) -> "SentenceAttention":
        """Create an instance from the decoder's word-level attention and the encoder output."""
        return cls(log_word, encoder_out["log_selected"][0], SelectorOutput(*encoder_out["extraction"]))

    def compute_inconsistency_loss(self, top: int) -> Tensor:
        """Compute the inconsistency loss of each summary word (N, T).

        Document words in sentences that the extractor does not read are never among the ``top`` most attended words.
        """
        log_word = self.log_word.masked_fill((self.log_selected <= UNREAD)[:, None], PADDING_SCORE)
        return inconsistency_loss(log_word, self.log_selected, top)
