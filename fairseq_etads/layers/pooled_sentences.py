"""Compute sentence vectors from pooled word embeddings, simple features and position embeddings.

No network over the sequence of words is needed.
"""

import math
import re
from typing import Any

import torch
from torch import Tensor, nn

from ..kernels.precision import widen_to_float32

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
