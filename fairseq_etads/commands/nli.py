"""The command ``etads-nli``: train and use entailment models, which are required by the reward ``entail``.

``etads-nli synthesise`` generates training pairs from reference summaries ("synthetic NLI"), which replace SNLI and
MultiNLI if these corpora are not available.
"""

import argparse
import math
import re
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence

from tqdm import tqdm

from ..data.labels.labels import STOP_WORDS
from ..data.nli_pairs import NliPair, format_tab_separated_pair
from ..files.inputs import read_lines
from ..files.outputs import check_output_paths, open_output
from ..platform.console import Parser, add_device_option, check_positive_options, command
from ..platform.errors import InputError
from ..text.words import SENTENCE_MARK, WORD_KINDS, make_word_tokenizer, split_sentences
from .run_options import silence_info_logs

SHORTEST = 3
"""Minimum number of words in a hypothesis, which is a sentence or part of a sentence."""
BREAKS = frozenset([",", ";", ":", "--", "-lrb-", "-rrb-", "and", "but", "or", "that", "which", "who"])
BREAKS |= {"because", "while", "when", "after", "before", "as"}
"""Words and punctuation marks at which sentences are split into clauses."""
_NUMBER = re.compile(r"[$£€]?\d[\d,.:]*%?")
Words = List[str]


def _build_parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="etads-nli",
        formatter_class=argparse.RawDescriptionHelpFormatter,
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
  with --rewards entail --entail-model (see docs/rewards.md).""",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="synthesise|train|score")
    _add_synthesise_parser(commands)
    _add_train_parser(commands)
    add = commands.add_parser("score", help="evaluate a trained model on labelled pairs").add_argument
    add("model", metavar="MODEL", type=Path, help="model folder written by etads-nli train")
    add("pairs", metavar="PAIRS", type=Path, nargs="+", help="files containing labelled pairs")
    add(
        "--out",
        metavar="FILE",
        type=Path,
        help="also write the entailment probability of each labelled pair to FILE, one per line",
    )
    add_device_option(add)
    return parser


def _add_synthesise_parser(commands: Any) -> None:
    add = commands.add_parser("synthesise", help="generate training pairs from reference summaries").add_argument
    add(
        "text",
        metavar="TEXT",
        type=Path,
        help="folder containing one or more of train.target, valid.target and test.target",
    )
    add("out", metavar="OUT", type=Path, help="output folder for train.tsv, valid.tsv and test.tsv")
    add(
        "--documents",
        metavar="N",
        type=int,
        default=100_000,
        help="maximum number of summaries to use from each split, selected at even intervals (default: %(default)s)",
    )
    add("--seed", metavar="N", type=int, default=1, help="random seed (default: %(default)s)")


def _add_train_parser(commands: Any) -> None:
    train = commands.add_parser(
        "train", help="train a model; to continue after an interruption, run the same command again"
    )
    add = train.add_argument
    add("out", metavar="MODEL", type=Path, help="output folder for the model")
    add("--train", metavar="FILE", type=Path, nargs="+", required=True, help="files containing the training pairs")
    add(
        "--valid",
        metavar="FILE",
        type=Path,
        nargs="+",
        required=True,
        help="files containing the validation pairs, which determine the best epoch",
    )
    add(
        "--vectors",
        metavar="FILE",
        help="pretrained word vectors in word2vec text format, such as GloVe; the vectors are frozen (default: learn "
        "word embeddings during training)",
    )
    add(
        "--more-words",
        metavar="FILE",
        type=Path,
        nargs="+",
        default=[],
        help="text files with words to add to the vocabulary, such as the summaries to score; only with --vectors",
    )
    add(
        "--size",
        metavar="N",
        type=int,
        default=50_000,
        help="vocabulary size; the N most frequent words in the pairs are kept (default: %(default)s)",
    )
    add(
        "--embed-dim",
        metavar="N",
        type=int,
        default=300,
        help="dimension of the word embeddings (default: %(default)s)",
    )
    add("--width", metavar="N", type=int, default=300, help="hidden size of the network (default: %(default)s)")
    add(
        "--dropout",
        metavar="P",
        type=float,
        default=0.2,
        help="dropout probability before each layer (default: %(default)s)",
    )
    add("--lr", metavar="R", type=float, default=0.001, help="learning rate for Adam (default: %(default)s)")
    add("--batch-size", metavar="N", type=int, default=64, help="number of pairs per batch (default: %(default)s)")
    add("--epochs", metavar="N", type=int, default=50, help="maximum number of epochs (default: %(default)s)")
    add(
        "--patience",
        metavar="N",
        type=int,
        default=5,
        help="stop training if the accuracy on --valid does not improve for N epochs (default: %(default)s)",
    )
    add(
        "--seed",
        metavar="N",
        type=int,
        default=1,
        help="random seed for the initial weights, the order of the pairs and dropout (default: %(default)s)",
    )
    add(
        "--words",
        choices=WORD_KINDS,
        default="ptb",
        help="tokenisation of raw text; use the value given to etads-prepare --words for the summaries to score "
        "(default: %(default)s)",
    )
    add("--keep-case", action="store_true", help="do not convert words to lower case")
    add("--hide-digits", action="store_true", help="replace each digit with #, as in the Gigaword headlines")
    add_device_option(add)


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


def _synthesise_entailment_pairs(args: argparse.Namespace) -> None:
    check_positive_options(documents=args.documents)
    for line in write_synthetic_pairs(args.text, args.out, args.documents, args.seed):
        print(line)


def _train_model(args: argparse.Namespace) -> None:
    check_positive_options(size=args.size, embed_dim=args.embed_dim, width=args.width, batch_size=args.batch_size)
    check_positive_options(epochs=args.epochs, patience=args.patience)
    if not 0 <= args.dropout < 1:
        raise InputError(f"--dropout {args.dropout}: choose a probability, at least 0 and below 1")
    if not 0 < args.lr < math.inf:
        raise InputError(f"--lr {args.lr}: choose a number above 0")
    if args.more_words and not args.vectors:
        raise InputError("--more-words has no effect without --vectors, which provide the additional words")
    from ..summarizer.summarizer import choose_device
    from ..systems.entailment.training import EntailmentSettings, train_entailment_model

    silence_info_logs()
    names = EntailmentSettings.__dataclass_fields__
    given = {name: value for name, value in vars(args).items() if name in names}
    settings, device = EntailmentSettings(**given), choose_device(args.device)
    print(train_entailment_model(args.out, settings, args.epochs, args.patience, device))


def _evaluate_entailment_model(args: argparse.Namespace) -> None:
    in_model = list(args.model.iterdir()) if args.model.is_dir() else [args.model]
    check_output_paths({"--out": args.out}, {"MODEL": in_model, "PAIRS": args.pairs})
    from ..summarizer.summarizer import choose_device
    from ..systems.entailment.training import evaluate_entailment_model

    silence_info_logs()
    print(evaluate_entailment_model(args.model, args.pairs, args.out, choose_device(args.device)))


@command(_build_parser, ValueError, RuntimeError)
def main(args: argparse.Namespace) -> None:
    """Run the command ``etads-nli``."""
    {"synthesise": _synthesise_entailment_pairs, "train": _train_model, "score": _evaluate_entailment_model}[
        args.command
    ](args)


if __name__ == "__main__":
    sys.exit(main())
