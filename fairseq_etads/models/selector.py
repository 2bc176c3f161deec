"""Content selectors, which predict which words or sentences of a document will appear in its summary.

Train a selector with ``fairseq-train --task summarization --criterion selection_nll`` on labels from etads-labels. Then
run etads-select to write the predicted probabilities. A sentence encoder without a network over the sequence of words
pools word embeddings, simple features and position embeddings.
"""

import math
import re
from argparse import Namespace
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

import torch
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.models import BaseFairseqModel
from fairseq.modules import FairseqDropout
from torch import Tensor, nn

from ..data.initial_values import load_word_vectors
from ..data.pairs import MISSING
from ..fairseq_fixes.distributed import has_several_workers
from ..kernels.linear import widen_to_float32
from ..layers.decoder_output import TrainingCriterion
from ..layers.embedding import VocabularyEmbedding
from ..layers.recurrent import BidirectionalGRU, compute_sentence_ids
from ..layers.sentence_selector import (
    NoveltyScorer,
    SelectorOutput,
    SpellingEncoder,
    TaggerLSTM,
    group_words_by_sentence,
)
from ..platform.command_options import NOT_NEGATIVE, PROBABILITY, SIZE, check_options, option
from ..text.words import SENTENCE_MARK
from ..vocabulary.dictionary import remove_copy_tail
from .common import (
    SENTENCE_MARKS,
    SummarizationModel,
    check_data_suits_architecture,
    convert_options_to_namespace,
    register_presets,
)

REFERENCE_LENGTH = 500
"""Number of words in the reference text for which expected word counts are computed.

Words with an expected count of 1 or more have the weight 0.
"""
CONTENT_WEIGHT = 1.4
"""Minimum weight of a content word.

A word with this weight is expected about once in four reference texts.
"""
FREQUENT = 4
"""Minimum number of occurrences in a document for a content word to be considered frequent."""
PLACES = 40
"""Number of sentence positions, counted from each end of a document, that have separate embeddings.

Sentences further away from that end share the last embedding.
"""
FEATURES = 10
_NUMBER = re.compile(r"[^\W\d_]*\d.*|<\w+>")


class SentenceFeatures(nn.Module):
    """Computes simple features of each sentence in a document. Most values are between 0 and 1.

    0. cosine similarity between the sentence and the whole document, represented as weighted word counts
    1. ln(1 + number of words) / 4
    2. share of the document's sentences that precede this sentence
    3. share of the document's sentences that follow this sentence
    4. whether this sentence is the last one
    5. share of content words that also occur in other sentences
    6. share of content words that occur in no earlier sentence
    7. share of content words that occur frequently in the document
    8. share of content words among all words
    9. number of words with a digit or placeholders such as ``<dig>``, at most five, divided by five

    Features 5 to 7 count each distinct word once. The weight of a word is the negative logarithm of its expected count
    in 500 words, but not less than 0. The expected count is estimated from the dictionary's word counts. Different
    unknown words remain distinct and have the weight of the rarest known word.

    Args:
        dictionary: the dictionary, which contains V known words and their counts.
    """

    weights: Tensor
    numbers: Tensor

    def __init__(self, dictionary: Any):
        super().__init__()
        counts = torch.tensor([max(1, count) for count in dictionary.count], dtype=torch.double)
        counts[: dictionary.nspecial] = 1
        weights = (counts.sum() / counts / REFERENCE_LENGTH).log().clamp(min=0).float()
        numbers = [_NUMBER.fullmatch(word) is not None for word in dictionary.symbols]
        numbers[: dictionary.nspecial] = [False] * dictionary.nspecial
        # (V,). The weights are saved in checkpoints, because a dictionary file may lack word counts.
        self.register_buffer("weights", weights)
        self.register_buffer("numbers", torch.tensor(numbers))  # (V,)

    def forward(self, tokens: Tensor, there: Tensor) -> Tensor:
        """Compute the features (B, N, 10) of all sentences. The features of sentences without words are 0.

        Args:
            tokens: the word ids (B, N, W), grouped by sentence.
            there: the boolean mask (B, N, W), True at words and False at padding.
        """
        weights = widen_to_float32(self.weights)  # the squares of sums exceed the range of fp16
        batch, count, _ = tokens.shape
        words = there.sum(2)  # (B, N)
        real = words > 0
        documents, sentences, _ = there.nonzero(as_tuple=True)  # each (K,) for K words in total
        ids = tokens[there]
        span = int(ids.max()) + 1 if len(ids) else 1
        different, of_document = (documents * span + ids).unique(return_inverse=True)  # D pairs of document and word
        pairs, of_pair, in_sentence = ((documents * count + sentences) * span + ids).unique(
            return_inverse=True, return_counts=True
        )  # P (sentence, word) pairs
        place = pairs // span  # combined index of a document and one of its sentences
        # index of the word among the D pairs of document and word
        word = of_document.new_zeros(len(pairs)).scatter(0, of_pair, of_document)
        in_document = torch.bincount(of_document, minlength=len(different))
        known = (different % span).clamp(max=len(weights) - 1)
        rarest = weights.max()
        weight = torch.where(different % span < len(weights), weights[known], rarest)
        first = torch.full_like(different, count).scatter_reduce(0, word, place % count, "amin")

        def sum_per_sentence(values: Tensor) -> Tensor:
            return values.new_zeros(batch * count).scatter_add(0, place, values).view(batch, count)

        mass = weight * in_document  # (D,), the document vectors
        here = weight[word] * in_sentence  # (P,), the sentence vectors
        of_row = mass.new_zeros(batch).scatter_add(0, different // span, mass**2)  # (B,)
        length = (sum_per_sentence(here**2) * of_row[:, None]).sqrt()
        cosine = sum_per_sentence(here * mass[word]) / length.clamp(min=1e-6)
        content = (weight[word] > CONTENT_WEIGHT).float()
        contents = sum_per_sentence(content).clamp(min=1)
        shares = [
            sum_per_sentence(content * condition) / contents
            for condition in (
                in_document[word] > in_sentence,
                first[word] == place % count,
                in_document[word] >= FREQUENT,
            )
        ]
        is_number = self.numbers[ids.clamp(max=len(self.numbers) - 1)] & (ids < len(self.numbers))
        digits = torch.zeros_like(words).index_put((documents, sentences), is_number.long(), accumulate=True)
        number = torch.arange(count, device=tokens.device).expand(batch, count)
        total = count_sentences(real)[:, None]
        found = [
            cosine,
            words.float().log1p() / 4,
            number / total,
            (total - 1 - number) / total,
            (number == total - 1).float(),
            *shares,
            sum_per_sentence(content * in_sentence) / words.clamp(min=1),
            digits.clamp(max=5) / 5,
        ]
        return torch.stack([value.float() for value in found], dim=2) * real[:, :, None]


def count_sentences(real: Tensor) -> Tensor:
    """Return the number of sentences (B,) in each document, up to the last one that contains words, but at least 1.

    The boolean mask ``real`` (B, N) is True for sentences that contain words.
    """
    numbers = torch.arange(1, real.shape[1] + 1, device=real.device)
    return (real * numbers).amax(dim=1).clamp(min=1)


class PooledSentenceEncoder(nn.Module):
    """Computes a vector for each sentence from pooled word embeddings, features and sentence positions.

    x_n = tanh(W [mean of word embeddings; their maximum; features; position from start; position from end] + b)

    ``width`` and ``place_dim`` are the widths of the sentence vectors x and of position embeddings (0: none). With
    ``has_features``, it uses :class:`SentenceFeatures`.
    """

    def __init__(self, dictionary: Any, embed_dim: int, width: int, place_dim: int, has_features: bool):
        super().__init__()
        self.features = SentenceFeatures(dictionary) if has_features else None
        tables = [nn.Embedding(PLACES, place_dim) for _ in range(2 if place_dim else 0)]
        self.places = nn.ModuleList(tables)
        for table in tables:
            nn.init.zeros_(table.weight)  # positions that do not occur in training must have no influence
        inputs = 2 * embed_dim + 2 * place_dim + (FEATURES if has_features else 0)
        self.linear = nn.Linear(inputs, width)

    def forward(self, vectors: Tensor, tokens: Tensor, there: Tensor) -> Tensor:
        """Compute the sentence vectors (B, N, width), which are 0 for sentences without words.

        Args:
            vectors: the word embeddings (M, W, E) of the M sentences that contain words, in the order of ``there``.
            tokens: the word ids (B, N, W), grouped by sentence.
            there: the boolean mask (B, N, W), True at words and False at padding.
        """
        real = there.any(2)  # (B, N)
        mask = there[real][:, :, None]  # (M, W, 1)
        mean = (vectors * mask).sum(1) / mask.sum(1).clamp(min=1)
        largest = vectors.masked_fill(~mask, -math.inf).amax(1)
        parts = [mean, largest]
        if self.features is not None:
            parts.append(self.features(tokens, there)[real].to(mean))
        if len(self.places):
            number = torch.arange(real.shape[1], device=real.device).expand_as(real)
            for table, place in zip(self.places, (number, count_sentences(real)[:, None] - 1 - number)):
                parts.append(table(place[real].clamp(min=0, max=PLACES - 1)))
        x = self.linear(torch.cat(parts, dim=1)).tanh()
        return x.new_zeros(*real.shape, x.shape[1]).masked_scatter(real[:, :, None], x)


class SentenceScorer(nn.Module):
    """Computes a logit for each sentence from its state, its vector and a document vector.

    d = tanh(W_d mean h + b), logit_n = w·relu(W [h_n; x_n; d] + b) + b

    ``states`` and ``vectors`` are the widths of h and x, and ``width`` the width of d and the hidden layer. The module
    ``dropout`` is applied to the input of the hidden layer.
    """

    def __init__(self, states: int, vectors: int, width: int, dropout: nn.Module):
        super().__init__()
        self.document = nn.Linear(states, width)
        self.hidden = nn.Linear(states + vectors + width, width)
        self.logit = nn.Linear(width, 1)
        self.dropout = dropout

    def forward(self, states: Tensor, vectors: Tensor, missing: Tensor) -> Tensor:
        """Compute the logits (B, N) from sentence states h (B, N, D) and sentence vectors x (B, N, E).

        The boolean mask ``missing`` (B, N) is True for sentences that do not exist.
        """
        there = (~missing).to(states)[:, :, None]
        document = self.document((states * there).sum(1) / there.sum(1).clamp(min=1)).tanh()
        read = torch.cat([states, vectors, document[:, None].expand(-1, states.shape[1], -1)], dim=2)
        logits: Tensor = self.logit(self.hidden(self.dropout(read)).relu())
        return logits[:, :, 0]


SENTENCE_ENCODERS = ("gru", "pool")
"""Values of ``--sentence-encoder``."""
FOLD_WORDS = 50
"""Number of words at the start of a document that determine its fold; see :meth:`SentenceExtractor.assign_folds`."""


class ContentSelectionModel(SummarizationModel, BaseFairseqModel):
    """A model that selects words or sentences from documents.

    Attributes:
        unit: the unit that the model selects, "words" or "sentences".
        special: the ids of tokens that are not words, such as padding.
        trained_by: the criterion that trains the model.
        labels_in_order: whether the labels list sentences in the order of the summary (see
            :class:`~fairseq_etads.data.pairs.SentenceOrderDataset`) instead of containing a value for each token.
    """

    unit: str
    special: List[int]
    trained_by: TrainingCriterion
    labels_in_order = False

    @property
    def training_label_type(self) -> str:
        """Return the type of labels that the task must load to train the model."""
        return self.unit

    def find_real_words(self, src_tokens: Tensor) -> Tensor:
        """Return a boolean mask (B, S) that is True at the words of the documents and False at other tokens."""
        real = torch.ones_like(src_tokens, dtype=torch.bool)
        for number in self.special:
            real &= src_tokens != number
        return real


class Selector(ContentSelectionModel):
    """A model that predicts the probability of selecting each word or sentence."""

    trained_by = TrainingCriterion("selection_nll", "an architecture that selects words or sentences")

    def convert_token_to_unit_values(self, values: Tensor, src_tokens: Tensor) -> Tensor:
        """Convert values of tokens (B, S) to values of units (B, U). Values may be MISSING."""
        raise NotImplementedError


def make_encoder_embedding(task: Any, width: int, path: Optional[str]) -> VocabularyEmbedding:
    """Create the word embedding table of the encoder. In training, load vectors from the file ``path``, if any."""
    words = remove_copy_tail(task.source_dictionary)
    table = nn.Embedding(len(words), width, words.pad())
    nn.init.normal_(table.weight, std=0.1)
    nn.init.zeros_(table.weight[words.pad()])
    if not task.is_loading:  # a checkpoint already contains the word embeddings
        load_word_vectors(path, words, table, "--encoder-embed-path")
    return VocabularyEmbedding(table, words.unk())


@dataclass
class TaggerConfig(FairseqDataclass):
    """Options of word taggers. The defaults describe the tagger that Gehrmann et al. (2018) released, without ELMo."""

    encoder_embed_dim: int = option(50, "dimension of the word embeddings", bounds=SIZE)
    encoder_embed_path: Optional[str] = option(
        None, "path to pretrained word embeddings in word2vec's text format, such as 100-dimensional GloVe vectors"
    )
    letter_dim: int = option(8, "dimension of the letter embeddings; letters are UTF-8 bytes", bounds=SIZE)
    letter_filters: int = option(
        50,
        "number of convolution filters, each over five letters, that compute spelling features of each word (0: none)",
        bounds=NOT_NEGATIVE,
    )
    letter_dropout: float = option(0.2, "dropout probability of the spelling features", bounds=PROBABILITY)
    encoder_hidden_size: int = option(100, "hidden size of the LSTM in each direction", bounds=SIZE)
    encoder_layers: int = option(2, "number of LSTM layers", bounds=SIZE)
    dropout: float = option(
        0.5, "dropout probability between LSTM layers and before the output layer", bounds=PROBABILITY
    )


class WordTagger(Selector):
    """A bidirectional LSTM over words and their spelling that predicts a logit for each word (Gehrmann et al. 2018)."""

    unit = "words"

    def __init__(self, cfg: Any, task: Any):
        super().__init__()
        words = task.source_dictionary
        self.special = sorted({words.pad(), words.eos(), words.bos()})
        self.embed_tokens = make_encoder_embedding(task, cfg.encoder_embed_dim, cfg.encoder_embed_path)
        self.spelling = SpellingEncoder(words, cfg.letter_dim, cfg.letter_filters) if cfg.letter_filters else None
        self.letter_dropout = FairseqDropout(cfg.letter_dropout, module_name=type(self).__name__)
        width = cfg.encoder_embed_dim + cfg.letter_filters
        self.lstm = TaggerLSTM(width, cfg.encoder_hidden_size, cfg.encoder_layers, cfg.dropout)
        self.dropout = FairseqDropout(cfg.dropout, module_name=type(self).__name__)
        self.logit = nn.Linear(2 * cfg.encoder_hidden_size, 1)

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "WordTagger":
        """Build the model. Raises ValueError if an option has an invalid value."""
        options = convert_options_to_namespace(cfg)
        check_options(options, TaggerConfig)
        return cls(options, task)

    def forward(self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None, **_: Any) -> SelectorOutput:
        """Compute a logit (B, S) for each token of the documents (B, S), int64."""
        real = self.find_real_words(src_tokens)
        x = self.embed_tokens(src_tokens)  # (B, S, E)
        if self.spelling is not None:
            x = torch.cat([x, self.letter_dropout(self.spelling(src_tokens))], dim=2)
        states = self.lstm(x, ~real)
        return SelectorOutput(self.logit(self.dropout(states))[:, :, 0], real)

    def convert_token_to_unit_values(self, values: Tensor, src_tokens: Tensor) -> Tensor:
        """Return the values unchanged, because each token is a unit."""
        return values


@dataclass
class ExtractorConfig(FairseqDataclass):
    """Options of sentence extractors. The defaults are from Hsu et al. (2018)."""

    encoder_embed_dim: int = option(128, "dimension of the word embeddings", bounds=SIZE)
    encoder_embed_path: Optional[str] = option(None, "path to pretrained word embeddings in word2vec's text format")
    encoder_hidden_size: int = option(
        200, "hidden size of both GRUs in each direction, and dimension of the sentence vectors u", bounds=SIZE
    )
    dropout: float = option(0.0, "dropout probability for word embeddings and hidden states", bounds=PROBABILITY)
    max_sentences: int = option(
        50, "maximum number of sentences to read per document; later sentences receive probability 0", bounds=SIZE
    )
    max_sentence_words: int = option(50, "maximum number of words to read per sentence", bounds=SIZE)
    sentence_encoder: ChoiceEnum(SENTENCE_ENCODERS) = option(  # type: ignore[valid-type]
        "gru",
        "type of sentence encoder. gru: the mean of the states of a GRU over the words; pool: the mean "
        "and the maximum of the word embeddings, which is many times faster",
    )
    sentence_features: bool = option(
        False,
        "also use simple features of each sentence, such as its position, its length, its similarity to "
        "the whole document, and its proportion of new or repeated words; requires --sentence-encoder pool",
        needs=("--sentence-encoder pool",),
    )
    sentence_place_dim: int = option(
        0,
        "dimension of the position embeddings: one for a sentence's position from the start of the "
        "document, and one for its position from the end (0: none); requires --sentence-encoder pool",
        bounds=NOT_NEGATIVE,
        needs=("--sentence-encoder pool",),
    )
    cross_fit: bool = option(
        False,
        "train two extractors, each on half of the documents. Each training document is scored by the "
        "extractor that was not trained on it, as if the document were new. New documents receive the mean score "
        "of both extractors",
    )


class SentenceExtractor(Selector):
    """A GRU over sentence vectors that predicts a logit for each sentence. The defaults follow Hsu et al. (2018).

    With ``cross_fit``, the attribute ``other`` contains a second extractor. The second extractor is trained on the
    documents in fold 0, and the first extractor on the documents in fold 1; see :meth:`assign_folds`.
    """

    unit = "sentences"

    def __init__(self, cfg: Any, task: Any):
        super().__init__()
        words = task.source_dictionary
        self.mark, self.limits = words.index(SENTENCE_MARK), (cfg.max_sentences, cfg.max_sentence_words)
        self.special = sorted({words.pad(), words.eos(), words.bos(), self.mark})
        width = cfg.encoder_hidden_size
        self.embed_tokens = make_encoder_embedding(task, cfg.encoder_embed_dim, cfg.encoder_embed_path)
        self.dropout = FairseqDropout(cfg.dropout, module_name=type(self).__name__)
        self.pools = str(cfg.sentence_encoder) == "pool"
        if self.pools:
            self.words: Any = PooledSentenceEncoder(
                remove_copy_tail(words), cfg.encoder_embed_dim, width, cfg.sentence_place_dim, cfg.sentence_features
            )
            self.sentences = BidirectionalGRU(width, width)
            self.scores: Any = SentenceScorer(2 * width, width, width, self.dropout)
        else:
            self.words = BidirectionalGRU(cfg.encoder_embed_dim, width)
            self.sentences = BidirectionalGRU(2 * width, width)
            self.scores = NoveltyScorer(2 * width, width)
        self.other: Optional[SentenceExtractor] = None
        if cfg.cross_fit:
            self.other = SentenceExtractor(Namespace(**{**vars(cfg), "cross_fit": False}), task)

    @classmethod
    def build_model(cls, cfg: Any, task: Any) -> "SentenceExtractor":
        """Build the model. Raises ValueError if an option is invalid or the documents contain no sentence marks."""
        options = convert_options_to_namespace(cfg)
        check_options(options, ExtractorConfig)
        check_data_suits_architecture(getattr(options, "_name", "sentence_extractor"), SENTENCE_MARKS, task)
        return cls(options, task)

    def forward(
        self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None, held_out: bool = False, **_: Any
    ) -> SelectorOutput:
        """Compute a logit (B, U) for each sentence of the documents (B, S). Sentences beyond the limits are not read.

        With ``cross_fit`` and ``held_out``, training documents are scored as if they were unseen, each by the extractor
        that was not trained on it. Without ``held_out``, the logits are averaged over both extractors or, in training
        mode, computed with the extractor that is trained on the document.
        """
        real = self.find_real_words(src_tokens)
        tokens, there, numbers = group_words_by_sentence(src_tokens, real, self.mark, *self.limits)  # (B, N, W)
        missing = ~there.any(2)
        if self.other is None:
            logits = self._compute_logits(tokens, there)
        elif self.training or held_out:
            fold = self.assign_folds(src_tokens)
            logits = tokens.new_zeros(missing.shape, dtype=self.embed_tokens.weight.dtype)
            for member, trained_on in ((self, 1), (self.other, 0)):
                rows = (fold == (1 - trained_on if held_out else trained_on)).nonzero()[:, 0]
                if len(rows):
                    found = member._compute_logits(tokens[rows], there[rows])
                    logits = logits.to(found.dtype).index_copy(0, rows, found)
                elif self.training and has_several_workers():
                    # Each worker must compute a gradient of every parameter. An empty sum is 0, even in fp16.
                    logits = logits + sum(parameter.flatten()[:0].sum() for parameter in member.parameters())
        else:
            logits = (self._compute_logits(tokens, there) + self.other._compute_logits(tokens, there)) / 2
        # number of sentences that are not read because they exceed the limit
        more = int(numbers.max()) + 1 - missing.shape[1] if numbers.numel() else 0
        return SelectorOutput(
            nn.functional.pad(logits.masked_fill(missing, -math.inf), (0, more), value=-math.inf),
            nn.functional.pad(~missing, (0, more), value=False),
        )

    def _compute_logits(self, tokens: Tensor, there: Tensor) -> Tensor:
        """Compute this extractor's logits (B, N) of sentences with ids and a mask of real words, both (B, N, W)."""
        batch, count, width = tokens.shape
        missing = ~there.any(2)
        if self.pools:
            vectors = self.words(self.dropout(self.embed_tokens(tokens[~missing])), tokens, there)
            vectors = self.dropout(vectors)
            states = self.sentences(vectors, missing)[0]
            found: Tensor = self.scores(states, vectors, missing)
            return found
        there = there.reshape(batch * count, width)
        x = self.dropout(self.embed_tokens(tokens.reshape(batch * count, width)))
        states = self.words(x, ~there)[0]  # 0 at padding
        means = states.sum(1) / there.sum(1, keepdim=True).clamp(min=1)
        states = self.sentences(self.dropout(means).reshape(batch, count, -1), missing)[0]  # (B, N, 2H)
        found = self.scores(self.dropout(states), missing)
        return found

    def assign_folds(self, src_tokens: Tensor) -> Tensor:
        """Assign each document (B, S) to one of two folds, and return its fold index (B,), 0 or 1.

        The fold index is the sum of the ids of the document's first words, modulo 2. Therefore, the fold index is the
        same in training and inference, and does not depend on the document's position in the data.
        """
        real = self.find_real_words(src_tokens)
        first = real & (real.long().cumsum(1) <= FOLD_WORDS)
        return (src_tokens * first).sum(1) % 2

    def convert_token_to_unit_values(self, values: Tensor, src_tokens: Tensor) -> Tensor:
        """Return one value per sentence: the value that all its words share, or MISSING if it has no words."""
        real = self.find_real_words(src_tokens)
        _, _, numbers = group_words_by_sentence(src_tokens, real, self.mark, 1, 1)
        table = values.new_full((len(values), int(numbers.max()) + 1), MISSING)
        return table.scatter_reduce(1, numbers, values.masked_fill(~real, MISSING), "amax")

    def convert_to_tokens(self, values: Tensor, src_tokens: Tensor) -> Tensor:
        """Return, for each token (B, S), the value of its sentence in ``values`` (B, U).

        Sentence marks and the end symbol receive the value of the preceding word.
        """
        numbers = compute_sentence_ids(src_tokens, self.mark).masked_fill(~self.find_real_words(src_tokens), 0)
        return values.gather(1, numbers.cummax(dim=1).values)


PRESETS: Dict[str, Dict[str, Any]] = {
    "word_tagger": {},
    "sentence_extractor": {},
    "pooled_extractor": {
        "encoder_embed_dim": 48,
        "encoder_hidden_size": 64,
        "dropout": 0.2,
        "max_sentences": 100_000,  # the whole document
        "max_sentence_words": 60,
        "sentence_encoder": "pool",
        "sentence_features": True,
        "sentence_place_dim": 8,
        "cross_fit": True,
    },
}
"""A dictionary from the name of each architecture to the class defaults that it changes."""
for _name, _changes in PRESETS.items():
    _kind: Any = (WordTagger, TaggerConfig) if _name == "word_tagger" else (SentenceExtractor, ExtractorConfig)
    register_presets(_kind[0], {_name: _changes}, _kind[1])
