"""The command ``etads-nli`` (train): train and evaluate entailment models.

``etads-nli synthesise`` generates training pairs from reference summaries ("synthetic NLI"), which replace SNLI and
MultiNLI if these corpora are not available.
"""

import itertools
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Dict, Iterator, List, Optional, Sequence

from tqdm import tqdm

from ..data.labels import STOP_WORDS
from ..data.nli_pairs import NliPair, format_tab_separated_pair
from ..files.inputs import read_lines
from ..files.outputs import check_output_paths, open_output
from ..platform.command_options import PROBABILITY, SIZE, Bounds, DeviceOption, argument, option, options_command
from ..platform.errors import InputError
from ..text.words import WORD_KINDS, make_word_tokenizer, split_marked_sentences

SHORTEST = 3
"""Minimum number of words in a hypothesis, which is a sentence or part of a sentence."""
BREAKS = frozenset([",", ";", ":", "--", "-lrb-", "-rrb-", "and", "but", "or", "that", "which", "who"])
BREAKS |= {"because", "while", "when", "after", "before", "as"}
"""Words and punctuation marks at which sentences are split into clauses."""
_NUMBER = re.compile(r"[$£€]?\d[\d,.:]*%?")
Words = List[str]
Reference = List[Words]
"""Sentences of a reference summary, whose words have their original case."""


@dataclass
class SynthesiseOptions:
    """Options of ``etads-nli synthesise``."""

    text: Path = argument("TEXT", "folder containing one or more of train.target, valid.target and test.target")
    out: Path = argument("OUT", "output folder for train.tsv, valid.tsv and test.tsv")
    documents: int = option(
        100_000, "maximum number of summaries to use from each split, selected at even intervals", bounds=SIZE
    )
    seed: int = option(1, "random seed")


@dataclass
class TrainOptions(DeviceOption):
    """Options of ``etads-nli train``."""

    out: Path = argument("MODEL", "output folder for the model")
    train: List[Path] = option(None, "files containing the training pairs", nargs="+", required=True)
    valid: List[Path] = option(
        None, "files containing the validation pairs, which determine the best epoch", nargs="+", required=True
    )
    vectors: Optional[str] = option(
        None,
        "pretrained word vectors in word2vec text format, such as GloVe; the vectors are frozen (default: learn "
        "word embeddings during training)",
        metavar="FILE",
    )
    more_words: List[Path] = option(
        [],
        "text files with words to add to the vocabulary, such as the summaries to score; only with --vectors",
        nargs="+",
        needs=("--vectors",),
    )
    size: int = option(50_000, "vocabulary size; the N most frequent words in the pairs are kept", bounds=SIZE)
    embed_dim: int = option(300, "dimension of the word embeddings", bounds=SIZE)
    width: int = option(300, "hidden size of the network", bounds=SIZE)
    dropout: float = option(0.2, "dropout probability before each layer", metavar="P", bounds=PROBABILITY)
    lr: float = option(0.001, "learning rate for Adam", metavar="R", bounds=Bounds(above=0))
    batch_size: int = option(64, "number of pairs per batch", bounds=SIZE)
    epochs: int = option(50, "maximum number of epochs", bounds=SIZE)
    patience: int = option(5, "stop training if the accuracy on --valid does not improve for N epochs", bounds=SIZE)
    seed: int = option(1, "random seed for the initial weights, the order of the pairs and dropout")
    words: str = option(
        "ptb", "tokenisation of raw text, as in etads-prepare --words for the summaries to score", choices=WORD_KINDS
    )
    keep_case: bool = option(False, "do not convert words to lower case")
    hide_digits: bool = option(False, "replace each digit with #, as in the Gigaword headlines")


@dataclass
class ScoreOptions(DeviceOption):
    """Options of ``etads-nli score``."""

    model: Path = argument("MODEL", "model folder written by etads-nli train")
    pairs: List[Path] = argument("PAIRS", "files containing labelled pairs", nargs="+")
    out: Optional[Path] = option(
        None, "also write the entailment probability of each labelled pair to FILE, one per line"
    )


def read_references(path: Path) -> List[Reference]:
    """Read a file with one reference summary per line, without sentences of fewer than :data:`SHORTEST` words."""
    cut = make_word_tokenizer("ptb")
    found = []
    for line in read_lines(path):
        sentences = (" ".join(cut.encode(part, keep_case=True)).split() for part in split_marked_sentences(line))
        found.append([words for words in sentences if len(words) >= SHORTEST])
    return found


def choose_random_sentence_fragment(words: Words, generator: Random) -> Words:
    """Return a random part of a sentence: with a probability of one half a clause, if any, or else half or more."""
    cuts = [-1, *(place for place, word in enumerate(words) if word.lower() in BREAKS), len(words)]
    clauses = [words[start + 1 : end] for start, end in zip(cuts, cuts[1:])]
    clauses = [clause for clause in clauses if SHORTEST <= len(clause) < len(words)]
    if clauses and generator.random() < 0.5:
        return generator.choice(clauses)
    length = generator.randint(max(SHORTEST, (len(words) + 1) // 2), len(words))
    start = generator.randint(0, len(words) - length)
    return words[start : start + length]


def find_replaceable_kind(word: str, is_first: bool) -> Optional[str]:
    """Return "number", "name" (a capitalised word inside a sentence), or None if the word cannot be replaced."""
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
    """

    def __init__(self, references: Sequence[Reference], seed: str):
        self._references = [reference for reference in references if reference]
        self._generator = Random(seed)
        self._others: Dict[str, List[str]] = {"number": [], "name": []}
        for sentence in itertools.chain.from_iterable(self._references):
            for place, word in enumerate(sentence):
                kind = find_replaceable_kind(word, place == 0)
                if kind:
                    self._others[kind].append(word)

    def __len__(self) -> int:
        return len(self._references)

    def make_pairs(self, number: int) -> Iterator[NliPair]:
        """Yield the pairs for the reference ``number``, at most three for each of its sentences."""
        reference = self._references[number]
        for sentence in reference:
            premise = self._generator.choice([sentence, [word for words in reference for word in words]])
            found = {
                "entailment": choose_random_sentence_fragment(sentence, self._generator),
                "neutral": self._choose_part_of_another_reference(premise, number),
                "contradiction": self._exchange_name_or_number(premise, sentence),
            }
            for label, hypothesis in found.items():
                if hypothesis:
                    yield NliPair(" ".join(premise), " ".join(hypothesis), label)

    def _choose_part_of_another_reference(self, premise: Words, number: int) -> Optional[Words]:
        """Return part of a sentence of another reference, or None if the premise has all its words."""
        if len(self) < 2:
            return None
        other = self._generator.randrange(len(self) - 1)
        sentence = self._generator.choice(self._references[other + (other >= number)])
        words = choose_random_sentence_fragment(sentence, self._generator)
        return words if set(map(str.lower, words)).difference(map(str.lower, premise)) else None

    def _exchange_name_or_number(self, premise: Words, sentence: Words) -> Optional[Words]:
        """Return part of the sentence with another number or name, or None if there is none or the premise has it."""
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

    From each split, at most ``documents`` references are used, chosen at even intervals.
    """
    splits = [split for split in ("train", "valid", "test") if (text / f"{split}.target").is_file()]
    if not splits:
        raise InputError(f"TEXT {text}: it has no train.target, valid.target or test.target; etads-corpus makes them")
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
                raise InputError(f"{text / split}.target: no sentence has {SHORTEST} or more words to make pairs of")
        what = ", ".join(f"{count:,} {label}" for label, count in counts.items())
        yield f"{path}: {sum(counts.values()):,} pairs from {len(synthesis):,} summaries ({what})"


@options_command(
    "etads-nli",
    {
        "synthesise": ("generate training pairs from reference summaries", SynthesiseOptions),
        "train": ("train a model; to continue after an interruption, run the same command again", TrainOptions),
        "score": ("evaluate a trained model on labelled pairs", ScoreOptions),
    },
    ValueError,
    RuntimeError,
    description="Train and evaluate a model that predicts the probability that a premise entails a hypothesis "
    "(decomposable attention, Parikh et al. 2016). Suitable training data are SNLI and MultiNLI, or pairs "
    "generated from the reference summaries of a corpus.",
    epilog="""\
examples:
  etads-nli synthesise runs/mine/text runs/nli/pairs
  etads-nli train runs/nli/model --train runs/nli/pairs/train.tsv --valid runs/nli/pairs/valid.tsv
  etads-nli train nli --train snli_1.0_train.jsonl multinli_1.0_train.jsonl --valid snli_1.0_dev.jsonl \\
      --vectors glove.840B.300d.txt --more-words runs/mine/text/train.target
  etads-nli score nli snli_1.0_test.jsonl

  A file of pairs is either in the JSON Lines format of SNLI and MultiNLI, or contains one line
  per pair, in the form PREMISE<tab>HYPOTHESIS<tab>LABEL. To use a model as a reward, pass its folder to fairseq-train
  with --rewards entail --entail-model (see etads docs rewards).""",
)
def main(args: Any) -> None:
    """Run the command ``etads-nli``."""
    if isinstance(args, SynthesiseOptions):
        for line in write_synthetic_pairs(args.text, args.out, args.documents, args.seed):
            print(line)
        return
    if isinstance(args, ScoreOptions):
        in_model = list(args.model.iterdir()) if args.model.is_dir() else [args.model]
        check_output_paths({"--out": args.out}, {"MODEL": in_model, "PAIRS": args.pairs})
    from ..summarizer.summarizer import choose_device
    from ..systems.entailment import model

    device = choose_device(args.device)
    if isinstance(args, ScoreOptions):
        print(model.evaluate_entailment_model(args.model, args.pairs, args.out, device))
        return
    names = model.EntailmentSettings.__dataclass_fields__
    settings = model.EntailmentSettings(**{name: getattr(args, name) for name in names if hasattr(args, name)})
    print(model.train_entailment_model(args.out, settings, args.epochs, args.patience, device))
