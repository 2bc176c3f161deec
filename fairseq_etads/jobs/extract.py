"""Extract sentences from documents as summaries. The command ``etads-extract`` uses this module."""

import argparse
from pathlib import Path
from typing import Callable, List, Optional, Sequence

from tqdm import tqdm

from ..data.labels.label_files import NOTHING, SelectionFile, make_label_file_name
from ..data.labels.labels import select_by_greedy_recall
from ..data.labels.word_text import WordText, list_summary_sentences
from ..data.prepared_pairs import PreparedPairs
from ..platform.errors import InputError
from ..platform.outputs import open_output
from ..search.content.candidates import choose_sentences
from ..search.content.model import FILE, ContentModel
from ..text.picking import pick_sentences
from ..text.words import SENTENCE_MARK
from .labels import check_documents_have_sentence_marks, create_summarisation_task
from .runs import make_detokenizer

SENTENCES, THRESHOLD = 3, 0.15

Extract = Callable[[int, WordText, List[str]], List[List[str]]]
"""Function that returns the words of each selected sentence.

The arguments are the index of a document, its words and its tokens.
"""


def write_extracts(folder: Path, args: argparse.Namespace, unit: Optional[str]) -> str:
    """Write extractive summaries of the documents in a split, and return a message about them.

    Args:
        folder: path of the folder with the binarised data.
        args: parsed command-line arguments.
        unit: unit of the required probabilities, "words" or "sentences", or None if no probabilities are required.

    Raises:
        InputError: the documents are not split into sentences, or the probabilities belong to other documents.
        FileNotFoundError: the data does not contain the split.
    """
    task = create_summarisation_task(folder)
    task.load_dataset(args.subset)
    pairs = PreparedPairs(task.dataset(args.subset))
    subwords = task.subwords
    tokenizer = make_detokenizer(task.src_dict, subwords, folder)
    if args.by == "oracle" and not pairs.has_summaries:
        raise InputError(f"--by oracle: split {args.subset} has no summaries")
    if args.by != "phrases":
        check_documents_have_sentence_marks(pairs, f"--by {args.by}")
    extract = _make_sentence_selector(args, pairs, subwords, unit, args.labels or folder)
    words = sentences = 0
    with open_output(args.output, lines=lambda: len(pairs)) as file:
        for number in tqdm(range(len(pairs)), desc=f"extracting {args.subset}", unit=" documents", disable=None):
            tokens = pairs.read_document(number)
            taken = extract(number, WordText.from_tokens(tokens, subwords, args.truncate_source), tokens)
            words, sentences = words + sum(map(len, taken)), sentences + len(taken)
            file.write(tokenizer.decode(f" {SENTENCE_MARK} ".join(" ".join(sentence) for sentence in taken)) + "\n")
    count = max(len(pairs), 1)
    return f"{len(pairs):,} summaries of {sentences / count:.1f} sentences and {words / count:.1f} words"


def _make_sentence_selector(
    args: argparse.Namespace,
    pairs: PreparedPairs,
    subwords: str,
    unit: Optional[str],
    labels: Path,
) -> Extract:
    """Return the function that selects sentences as specified by ``args``.

    Args:
        labels: path of the folder that contains the labels.
    """
    if args.by == "labels":
        return _make_label_selector(labels / make_label_file_name("labels", "sentences", args.subset), pairs)
    count, threshold = args.sentences or SENTENCES, THRESHOLD if args.threshold is None else args.threshold

    def select_lead(number: int, text: WordText, tokens: List[str]) -> List[List[str]]:
        return [sentence for sentence in text.split_sentences() if sentence][:count]

    def select_oracle(number: int, text: WordText, tokens: List[str]) -> List[List[str]]:
        sentences = text.split_sentences()
        reference = list_summary_sentences(pairs.read_summary(number), subwords)
        known = [pairs.blank_unknown_words(sentence) for sentence in reference]
        return [sentences[place] for place in select_by_greedy_recall(sentences, known)]

    if unit is None:
        return select_lead if args.by == "lead" else select_oracle
    file = SelectionFile(args.selection / make_label_file_name("probabilities", unit, args.subset), "--selection")
    if len(file) != len(pairs):
        raise InputError(f"--selection: {file.path} covers {len(file):,} documents, but DATA has {len(pairs):,}")

    def read_probabilities(number: int, tokens: List[str]) -> List[Optional[float]]:
        return [None if field == NOTHING else float(field) for field in file.read_and_check_row(number, tokens)]

    def select_probable_sentences(number: int, text: WordText, tokens: List[str]) -> List[List[str]]:
        scores = read_probabilities(number, tokens)
        if args.words is not None:
            return _select_sentences_within_word_budget(text.split_sentences(), scores, args.words)
        if args.threshold is None:
            return _select_best_sentences(text.split_sentences(), scores, count)
        above = sum(score is not None and score > threshold for score in scores)
        return _select_best_sentences(
            text.split_sentences(), scores, min(max(above, args.at_least or 1), args.sentences or len(scores))
        )

    def select_by_word_probabilities(number: int, text: WordText, tokens: List[str]) -> List[List[str]]:
        scores = _compute_sentence_means(text, read_probabilities(number, tokens))
        if args.words is not None:
            return _select_sentences_within_word_budget(text.split_sentences(), scores, args.words)
        return _select_best_sentences(text.split_sentences(), scores, count)

    def select_phrases(number: int, text: WordText, tokens: List[str]) -> List[List[str]]:
        probabilities = _convert_token_to_word_values(text, read_probabilities(number, tokens))
        found: List[List[str]] = [[] for _ in text.split_sentences()]
        for word, place, probability in zip(text.words, text.get_sentence_indices(), probabilities):
            if place is not None and probability is not None and probability > threshold:
                found[place].append(word)
        return [words for words in found if words]

    if args.by == "content":
        return _make_content_selector(args, read_probabilities)
    return {"selector": select_probable_sentences, "tagger": select_by_word_probabilities, "phrases": select_phrases}[
        args.by
    ]


def _make_content_selector(
    args: argparse.Namespace, values: Callable[[int, List[str]], List[Optional[float]]]
) -> Extract:
    """Return a function that selects sentences with a content model.

    Args:
        values: function that takes the index and the tokens of a document, and returns the probability of each
            sentence.
    """
    model = ContentModel.load(args.selection / FILE, f"create it with etads-content {args.selection}")

    def choose_sentences_by_content_model(number: int, text: WordText, tokens: List[str]) -> List[List[str]]:
        probabilities = [value or 0.0 for value in values(number, tokens)]
        chosen = choose_sentences(model, text.split_sentences(), probabilities, most_words=args.words)
        return [candidate.words for candidate in chosen.sentences]

    return choose_sentences_by_content_model


def _make_label_selector(path: Path, pairs: PreparedPairs) -> Extract:
    """Return a function that selects the sentences listed in a label file.

    Raises InputError if the labels belong to other documents.
    """
    file = SelectionFile(path, "--labels")
    if len(file) != len(pairs):
        raise InputError(f"--labels: {path} covers {len(file):,} documents, but DATA has {len(pairs):,}")
    if file.header.get("kind") == "distribution":
        raise InputError(
            f"--labels: {path} contains distributions; create labels with etads-labels --kind extract or match"
        )

    def select_labelled(number: int, text: WordText, tokens: List[str]) -> List[List[str]]:
        sentences = text.split_sentences()
        places = sorted(int(field) for field in file.read_and_check_row(number, tokens) if field != NOTHING)
        return [sentences[place] for place in places if place < len(sentences)]

    return select_labelled


def _convert_token_to_word_values(text: WordText, values: Sequence[Optional[float]]) -> List[Optional[float]]:
    """Return the value of each word, given the values of the first tokens. All tokens of a word have the same value.

    The value is None for words that follow the last token with a value.
    """
    found: List[Optional[float]] = [None] * len(text.words)
    for number, value in zip(text.word_numbers, values):
        found[number] = value
    return found


def _compute_sentence_means(text: WordText, values: Sequence[Optional[float]]) -> List[Optional[float]]:
    """Compute the mean value of the words in each sentence, or None for sentences in which no word has a value."""
    sums = [0.0] * len(text.split_sentences())
    counts = [0] * len(sums)
    for place, value in zip(text.get_sentence_indices(), _convert_token_to_word_values(text, values)):
        if place is not None and value is not None:
            sums[place] += value
            counts[place] += 1
    return [total / count if count else None for total, count in zip(sums, counts)]


def _select_sentences_within_word_budget(
    sentences: List[List[str]], scores: Sequence[Optional[float]], words: int
) -> List[List[str]]:
    """Select the highest-scoring sentences up to a total of ``words`` words, and return them in document order."""
    padded = [*scores, *[None] * len(sentences)][: len(sentences)]
    return [sentences[place] for place in pick_sentences(list(map(len, sentences)), padded, words)]


def _select_best_sentences(
    sentences: List[List[str]], scores: Sequence[Optional[float]], count: int
) -> List[List[str]]:
    """Select the ``count`` sentences with the highest scores, and return them in document order.

    Between sentences with equal scores, the earlier one is preferred.
    """
    scored = [(-score, place) for place, score in enumerate(scores[: len(sentences)]) if score is not None]
    return [sentences[place] for place in sorted(place for _, place in sorted(scored)[:count]) if sentences[place]]
