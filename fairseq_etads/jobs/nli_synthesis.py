"""Generate training pairs for entailment models from reference summaries. Used by ``etads-nli synthesise``.

The pairs ("synthetic NLI") replace SNLI and MultiNLI if these corpora are not available. This module does not import
torch or fairseq.
"""

import re
from collections import Counter
from pathlib import Path
from random import Random
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence

from tqdm import tqdm

from ..data.labels.labels import STOP_WORDS
from ..data.nli_pairs import NliPair, format_tab_separated_pair
from ..platform.errors import InputError
from ..platform.outputs import open_output
from ..text.files import read_lines
from ..text.words import SENTENCE_MARK, make_word_tokenizer, split_sentences

SHORTEST = 3
"""Minimum number of words in a hypothesis, which is a sentence or part of a sentence."""
BREAKS = frozenset([",", ";", ":", "--", "-lrb-", "-rrb-", "and", "but", "or", "that", "which", "who"])
BREAKS |= {"because", "while", "when", "after", "before", "as"}
"""Words and punctuation marks at which sentences are split into clauses."""
_NUMBER = re.compile(r"[$£€]?\d[\d,.:]*%?")
Words = List[str]


class Reference(NamedTuple):
    """A reference summary. Each of its sentences is a list of words in their original case."""

    sentences: List[Words]

    @property
    def words(self) -> Words:
        """Return the words of all sentences in the summary."""
        return [word for sentence in self.sentences for word in sentence]


def read_references(path: Path) -> List[Reference]:
    """Read reference summaries from a text file with one summary per line.

    Sentences with fewer than :data:`SHORTEST` words are omitted.
    """
    cut = make_word_tokenizer("ptb")
    found = []
    for line in read_lines(path):
        parts = line.split(SENTENCE_MARK) if SENTENCE_MARK in line else split_sentences(line)
        sentences = (" ".join(cut.encode(part, keep_case=True)).split() for part in parts)
        found.append(Reference([words for words in sentences if len(words) >= SHORTEST]))
    return found


def choose_random_sentence_fragment(words: Words, generator: Random) -> Words:
    """Return a randomly chosen part of a sentence.

    If the sentence contains clauses, the part is one of them with a probability of one half. In all other cases, the
    part is a sequence of at least half of the words.
    """
    cuts = [-1, *(place for place, word in enumerate(words) if word.lower() in BREAKS), len(words)]
    clauses = [words[start + 1 : end] for start, end in zip(cuts, cuts[1:])]
    clauses = [clause for clause in clauses if SHORTEST <= len(clause) < len(words)]
    if clauses and generator.random() < 0.5:
        return generator.choice(clauses)
    length = generator.randint(max(SHORTEST, (len(words) + 1) // 2), len(words))
    start = generator.randint(0, len(words) - length)
    return words[start : start + length]


def find_replaceable_kind(word: str, is_first: bool) -> Optional[str]:
    """Find out whether a word can be replaced.

    Returns "number", "name" (for a capitalised word inside a sentence), or None for any other word.
    """
    if _NUMBER.fullmatch(word):
        return "number"
    is_name = word[0].isupper() and not is_first and len(word) > 1 and word.lower() not in STOP_WORDS
    return "name" if is_name else None


class PairSynthesizer:
    """Generator of training pairs from reference summaries.

    Pairs are generated from each sentence of a reference. The premise is either this sentence or, with the same
    probability, the whole reference, as in the reward ``entail``. The hypothesis depends on the label:

        entailment      a part of this sentence, or the whole sentence
        neutral         a part of a sentence from another reference, with a word that the premise does not contain
        contradiction   a part of this sentence in which a number or name is replaced with a random one from the
                        references; no pair is generated if the sentence contains no number or name, or if the
                        replacement occurs in the premise

    Args:
        references: the reference summaries in a split.
        seed: seed of the random number generator for all random choices.
    """

    def __init__(self, references: Sequence[Reference], seed: str):
        self._references = [reference for reference in references if reference.sentences]
        self._generator = Random(seed)
        self._others: Dict[str, List[str]] = {"number": [], "name": []}
        for reference in self._references:
            for sentence in reference.sentences:
                for place, word in enumerate(sentence):
                    kind = find_replaceable_kind(word, place == 0)
                    if kind:
                        self._others[kind].append(word)

    def __len__(self) -> int:
        return len(self._references)

    def make_pairs(self, number: int) -> Iterator[NliPair]:
        """Yield the pairs for the reference with the index ``number``.

        Each of its sentences yields at most three pairs.
        """
        reference = self._references[number]
        for sentence in reference.sentences:
            premise = self._generator.choice([sentence, reference.words])
            found = {
                "entailment": choose_random_sentence_fragment(sentence, self._generator),
                "neutral": self._choose_part_of_another_reference(premise, number),
                "contradiction": self._exchange_name_or_number(premise, sentence),
            }
            for label, hypothesis in found.items():
                if hypothesis:
                    yield NliPair(" ".join(premise), " ".join(hypothesis), label)

    def _choose_part_of_another_reference(self, premise: Words, number: int) -> Optional[Words]:
        """Return a part of a sentence from a reference other than ``number``.

        Returns None if all words of this part also occur in the premise.
        """
        if len(self) < 2:
            return None
        other = self._generator.randrange(len(self) - 1)
        reference = self._references[other + (other >= number)]
        words = choose_random_sentence_fragment(self._generator.choice(reference.sentences), self._generator)
        return words if set(map(str.lower, words)).difference(map(str.lower, premise)) else None

    def _exchange_name_or_number(self, premise: Words, sentence: Words) -> Optional[Words]:
        """Return a part of the sentence in which a number or name is replaced with another one.

        Returns None if the sentence contains no number or name, or if the replacement occurs in the premise.
        """
        kinds = {place: find_replaceable_kind(word, place == 0) for place, word in enumerate(sentence)}
        places = [place for place, kind in kinds.items() if kind]
        if not places:
            return None
        place = self._generator.choice(places)
        other = self._generator.choice(self._others[kinds[place] or ""])
        if other.lower() in map(str.lower, premise):
            return None
        marked = [*sentence[:place], other, *sentence[place + 1 :]]
        part = choose_random_sentence_fragment(marked, self._generator)
        return part if other in part else marked


def write_synthetic_pairs(text: Path, out: Path, documents: int, seed: int) -> Iterator[str]:
    """Write a file OUT/SPLIT.tsv for each file TEXT/SPLIT.target, and yield a message about each split.

    Args:
        documents: maximum number of references from each split. They are chosen at even intervals.

    Raises:
        InputError: there are no references, or no pairs can be generated from them.
    """
    splits = [split for split in ("train", "valid", "test") if (text / f"{split}.target").is_file()]
    if not splits:
        raise InputError(
            f"TEXT {text}: it has no train.target, valid.target or test.target; create them with etads-corpus"
        )
    for split in splits:
        references = read_references(text / f"{split}.target")
        kept = references[:: -(-len(references) // documents)] if references else []
        synthesis = PairSynthesizer(kept, f"{seed} {split}")
        counts: Counter = Counter()
        path = out / f"{split}.tsv"
        with open_output(path) as file:
            for number in tqdm(range(len(synthesis)), desc=f"pairs of {split}", unit=" summaries", disable=None):
                for pair in synthesis.make_pairs(number):
                    file.write(format_tab_separated_pair(pair))
                    counts[pair.label] += 1
            if not counts:
                raise InputError(
                    f"{text / split}.target: no sentence has {SHORTEST} or more words, so no pairs can be created"
                )
        what = ", ".join(f"{count:,} {label}" for label, count in counts.items())
        yield f"{path}: {sum(counts.values()):,} pairs from {len(synthesis):,} summaries ({what})"
