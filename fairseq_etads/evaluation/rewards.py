"""Rewards of summaries by name, for ``--criterion summarization_rl``; ROUGE as fast as a training step needs it.

A text is a list of sentences, and a sentence a list of words as they are in the training data: nothing is stemmed,
lower-cased or left out.
"""

import importlib
from collections import Counter
from typing import Any, Callable, Dict, Iterator, List, Sequence, Set, Tuple

Text = Sequence[Sequence[str]]
Reward = Callable[[Sequence[Text], Sequence[Text], Sequence[Text]], Sequence[float]]
"""(hypotheses, references, documents) -> a number for each hypothesis, the higher the better."""


def split_sentences(words: Sequence[str], mark: str) -> List[List[str]]:
    """The sentences of a text, which ``mark`` separates; none without words."""
    sentences: List[List[str]] = [[]]
    for word in words:
        if word == mark:
            sentences.append([])
        else:
            sentences[-1].append(word)
    return [sentence for sentence in sentences if sentence]


def f1(hits: int, hypothesis: int, reference: int) -> float:
    """The F1 score of ``hits`` among the n-grams or words of a hypothesis and of a reference; 0 if one has none."""
    return 2 * hits / (hypothesis + reference) if hits else 0.0


def rouge_n(hypothesis: Text, reference: Text, n: int) -> float:
    """ROUGE-N F1 in [0, 1] (Lin 2004, section 2); n-grams reach across sentences, as in ``etads-rouge``."""
    grams = [Counter(_ngrams([word for sentence in text for word in sentence], n)) for text in (hypothesis, reference)]
    return f1(sum((grams[0] & grams[1]).values()), sum(grams[0].values()), sum(grams[1].values()))


def _ngrams(words: Sequence[str], n: int) -> Iterator[Tuple[str, ...]]:
    return zip(*(words[first:] for first in range(n)))


def rouge_l(hypothesis: Text, reference: Text) -> float:
    """Summary-level ROUGE-L F1 in [0, 1] (Lin 2004, section 3.2), the same as that of the package rouge-score.

    For each sentence of the reference, the words that are in a longest common subsequence with any sentence of the
    hypothesis are hits; a word counts at most as often as the other text has it.
    """
    left = [Counter(word for sentence in text for word in sentence) for text in (hypothesis, reference)]
    sizes = [sum(counts.values()) for counts in left]
    positions = [_positions(sentence) for sentence in hypothesis]
    hits = 0
    for sentence in reference:
        union: Set[int] = set()
        for words, other in zip(positions, hypothesis):
            union.update(_common_subsequence(sentence, other, words))
        for index in sorted(union):
            word = sentence[index]
            if left[0][word] and left[1][word]:
                hits += 1
                left[0][word] -= 1
                left[1][word] -= 1
    return f1(hits, *sizes)


def _positions(sentence: Sequence[str]) -> Dict[str, int]:
    """Word -> the set of its positions, as the bits of an integer."""
    found: Dict[str, int] = {}
    for position, word in enumerate(sentence):
        found[word] = found.get(word, 0) | 1 << position
    return found


def _common_subsequence(reference: Sequence[str], other: Sequence[str], positions: Dict[str, int]) -> Iterator[int]:
    """Positions in ``reference`` of a longest common subsequence: of several that which rouge-score finds.

    A row of the usual table, the lengths for a prefix of the reference and every prefix of the other sentence, is one
    integer: bit j is 0 where the length grows at word j (Hyyrö 2004). So a row costs a few operations.

    Args:
        positions: of the words of ``other``, as :func:`_positions` gives them.
    """
    full = (1 << len(other)) - 1
    rows = [full]
    for word in reference:
        row = rows[-1]
        common = row & positions.get(word, 0)
        rows.append(((row + common) | (row - common)) & full)

    def length(i: int, j: int) -> int:
        return j - bin(rows[i] & ((1 << j) - 1)).count("1")

    i, j = len(reference), len(other)
    while i and j:
        if reference[i - 1] == other[j - 1]:
            i, j = i - 1, j - 1
            yield i
        elif length(i, j - 1) > length(i - 1, j):
            j -= 1
        else:
            i -= 1


def _each(score: Callable[[Text, Text], float]) -> Reward:
    return lambda hypotheses, references, documents: [score(*pair) for pair in zip(hypotheses, references)]


REWARDS: Dict[str, Reward] = {
    "rouge1": _each(lambda hypothesis, reference: rouge_n(hypothesis, reference, 1)),
    "rouge2": _each(lambda hypothesis, reference: rouge_n(hypothesis, reference, 2)),
    "rougeL": _each(rouge_l),
}
"""F1 in [0, 1] against the reference."""


def reward_by_name(name: str) -> Reward:
    """A reward of :data:`REWARDS`, or an object of the class that ``module:Class`` names.

    Raises:
        ValueError: there is none of this name.
    """
    if name in REWARDS:
        return REWARDS[name]
    module, colon, member = name.partition(":")
    if not colon:
        raise ValueError(
            f"--rewards {name}: choose of {', '.join(REWARDS)}, or name a class of your own as module:Class"
        )
    try:
        made: Any = getattr(importlib.import_module(module), member)()
    except (ImportError, AttributeError) as error:
        raise ValueError(f"--rewards {name}: {error}") from None
    reward: Reward = made
    return reward
