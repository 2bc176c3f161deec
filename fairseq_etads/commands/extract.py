"""The command ``etads-extract`` (train): create extractive summaries with a model, the lead or an oracle."""

from dataclasses import dataclass
from pathlib import Path
from typing import Callable, List, Optional, Sequence

from tqdm import tqdm

from ..data.labels.label_files import NOTHING, SelectionFile, make_label_file_name
from ..data.labels.labels import select_by_greedy_recall
from ..data.prepared_pairs import PreparedPairs, WordText, list_summary_sentences
from ..files.outputs import check_output_paths, open_output
from ..platform.command_options import argument, option, options_command
from ..platform.errors import InputError
from ..platform.option_checks import SIZE, Bounds
from ..text.picking import pick_sentences
from ..text.words import SENTENCE_MARK
from .run_options import get_binarised_folder, list_data_files, make_detokenizer, silence_info_logs

WAYS = ("lead", "oracle", "labels", "selector", "content", "tagger", "phrases")
"""Valid values of the option ``--by``."""
BY_PROBABILITIES = {"selector": "sentences", "content": "sentences", "tagger": "words", "phrases": "words"}
"""Methods (values of ``--by``) that require probabilities, mapped to the unit to which the probabilities belong."""
SENTENCES, THRESHOLD = 3, 0.15
Extract = Callable[[int, WordText, List[str]], List[List[str]]]
"""Function that returns the words of each selected sentence.

The arguments are the index of a document, its words and its tokens.
"""


@dataclass
class ExtractOptions:
    """Options of ``etads-extract``."""

    data: Path = argument("DATA", "output folder of etads-prepare, or its bin folder")
    output: Path = argument("OUTPUT", "output file for the summaries, with <q> between sentences")
    by: str = option(
        None,
        "method for choosing the sentences; the methods are described below",
        choices=WAYS,
        required=True,
        of_values={way: {"requires": {"--selection": "the output folder of etads-select"}} for way in BY_PROBABILITIES},
    )
    subset: str = option("test", "split to summarise", metavar="NAME")
    selection: Path = option(
        None,
        "output folder of etads-select; required if --by is selector, content, tagger or phrases",
        metavar="DIR",
        needs=tuple(f"--by {way}" for way in BY_PROBABILITIES),
    )
    labels: Optional[Path] = option(
        None, "folder containing the labels (default: the data folder)", metavar="DIR", needs=("--by labels",)
    )
    sentences: Optional[int] = option(
        None,
        "number of sentences per summary with --by lead, selector or tagger (default: 3); with --by selector and "
        "--threshold, maximum number of sentences (default: no limit)",
        bounds=SIZE,
        needs=("--by lead", "--by selector", "--by tagger"),
    )
    words: Optional[int] = option(
        None,
        "maximum number of words per summary. With --by selector or tagger, this limit replaces --sentences; "
        "with --by content, the default is 1.7 times the mean length of the training summaries",
        bounds=SIZE,
        needs=("--by selector", "--by tagger", "--by content"),
        excludes={"--sentences": "choose one", "--threshold": "choose one"},
    )
    threshold: Optional[float] = option(
        None,
        "probability above which a word is selected with --by phrases (default: 0.15), or a sentence with --by "
        "selector (default: no threshold)",
        metavar="P",
        bounds=Bounds(0, most=1, what="a probability"),
        needs=("--by phrases", "--by selector"),
    )
    at_least: Optional[int] = option(
        None,
        "minimum number of sentences per summary with --by selector and --threshold; the N most probable "
        "sentences are always chosen (default: 1)",
        bounds=SIZE,
        needs=("--by selector",),
        requires={"--threshold": "without it, --sentences sets the number"},
    )
    truncate_source: Optional[int] = option(
        None,
        "read only the first N tokens of each document (default: 400; with --by content, the whole document)",
        bounds=SIZE,
    )


def write_extracts(folder: Path, args: ExtractOptions) -> str:
    """Write extractive summaries of the documents in a split, and return a message about them.

    Args:
        folder: path of the folder with the binarised data.
        args: parsed command-line arguments.

    Raises:
        InputError: the documents are not split into sentences, or the probabilities belong to other documents.
        FileNotFoundError: the data does not contain the split.
    """
    from ..training.task import SummarizationTask

    # imported here, because it imports torch
    pairs = PreparedPairs(SummarizationTask.of_folder(folder), args.subset)
    tokenizer = make_detokenizer(pairs.dictionary, pairs.subwords, folder)
    if args.by == "oracle" and not pairs.has_summaries:
        raise InputError(f"--by oracle: split {args.subset} has no summaries")
    if args.by != "phrases":
        pairs.check_sentence_marks(f"--by {args.by}")
    if args.by == "labels":
        path = (args.labels or folder) / make_label_file_name("labels", "sentences", args.subset)
        extract = _make_label_selector(SelectionFile(path, "--labels", len(pairs)))
    elif args.by in BY_PROBABILITIES:
        name = make_label_file_name("probabilities", BY_PROBABILITIES[args.by], args.subset)
        extract = _make_probability_selector(args, SelectionFile(args.selection / name, "--selection", len(pairs)))
    else:
        extract = _make_text_selector(args, pairs)
    words = sentences = 0
    with open_output(args.output, lines=lambda: len(pairs)) as file:
        for number in tqdm(range(len(pairs)), desc=f"extracting {args.subset}", unit=" documents", disable=None):
            tokens = pairs.read_document(number)
            taken = extract(number, WordText.from_tokens(tokens, pairs.subwords, args.truncate_source), tokens)
            words, sentences = words + sum(map(len, taken)), sentences + len(taken)
            file.write(tokenizer.decode(f" {SENTENCE_MARK} ".join(" ".join(sentence) for sentence in taken)) + "\n")
    count = max(len(pairs), 1)
    return f"{len(pairs):,} summaries of {sentences / count:.1f} sentences and {words / count:.1f} words"


def _make_text_selector(args: ExtractOptions, pairs: PreparedPairs) -> Extract:
    """Return a function that selects the first sentences, or the sentences that are closest to the reference."""

    def select_lead(number: int, text: WordText, tokens: List[str]) -> List[List[str]]:
        return [sentence for sentence in text.split_sentences() if sentence][: args.sentences or SENTENCES]

    def select_oracle(number: int, text: WordText, tokens: List[str]) -> List[List[str]]:
        sentences = text.split_sentences()
        reference = list_summary_sentences(pairs.read_summary(number), pairs.subwords)
        known = [pairs.blank_unknown_words(sentence) for sentence in reference]
        return [sentences[place] for place in select_by_greedy_recall(sentences, known)]

    return select_lead if args.by == "lead" else select_oracle


def _make_label_selector(file: SelectionFile) -> Extract:
    """Return a function that selects the sentences listed in a label file."""
    file.check_kind("--labels")

    def select_labelled(number: int, text: WordText, tokens: List[str]) -> List[List[str]]:
        sentences = text.split_sentences()
        places = sorted(int(field) for field in file.read_and_check_row(number, tokens) if field != NOTHING)
        return [sentences[place] for place in places if place < len(sentences)]

    return select_labelled


def _make_probability_selector(args: ExtractOptions, file: SelectionFile) -> Extract:
    """Return a function that selects sentences or words by the probabilities in a file."""
    threshold = THRESHOLD if args.threshold is None else args.threshold

    def select_probable_sentences(number: int, text: WordText, tokens: List[str]) -> List[List[str]]:
        scores = file.read_probabilities(number, tokens)
        if args.by == "tagger":
            scores = _compute_sentence_means(text, scores)
        sentences = text.split_sentences()
        scores = [*scores, *[None] * len(sentences)][: len(sentences)]
        if args.words is not None:
            places = pick_sentences(list(map(len, sentences)), scores, args.words)
        else:
            count = args.sentences or SENTENCES
            if args.threshold is not None:
                above = sum(score is not None and score > threshold for score in scores)
                count = min(max(above, args.at_least or 1), args.sentences or len(scores))
            scored = [(-score, place) for place, score in enumerate(scores) if score is not None]
            places = sorted(place for _, place in sorted(scored)[:count])
        return [sentences[place] for place in places if sentences[place]]

    def select_phrases(number: int, text: WordText, tokens: List[str]) -> List[List[str]]:
        probabilities = _convert_token_to_word_values(text, file.read_probabilities(number, tokens))
        found: List[List[str]] = [[] for _ in text.split_sentences()]
        for word, place, probability in zip(text.words, text.get_sentence_indices(), probabilities):
            if place is not None and probability is not None and probability > threshold:
                found[place].append(word)
        return [words for words in found if words]

    if args.by != "content":
        return select_phrases if args.by == "phrases" else select_probable_sentences
    from ..search.content import FILE
    from ..search.content.model import ContentModel
    from ..search.content.sentence_choosing import choose_sentences

    model = ContentModel.load(args.selection / FILE, f"create it with etads-content {args.selection}")

    def choose_by_content_model(number: int, text: WordText, tokens: List[str]) -> List[List[str]]:
        probabilities = [value or 0.0 for value in file.read_probabilities(number, tokens)]
        chosen = choose_sentences(model, text.split_sentences(), probabilities, most_words=args.words)
        return [candidate.words for candidate in chosen.sentences]

    return choose_by_content_model


def _convert_token_to_word_values(text: WordText, values: Sequence[Optional[float]]) -> List[Optional[float]]:
    """Return each word's value, which all its tokens share, or None after the last token with a value."""
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


@options_command(
    "etads-extract",
    ExtractOptions,
    ValueError,
    description="Create extractive summaries of prepared documents, and write them one per line as input for "
    "etads-rouge.",
    epilog="""\
methods:
  lead       the first sentences
  oracle     sentences that together have a high ROUGE-L recall of the reference, chosen greedily; an estimate of the
             best result that extraction can achieve
  labels     the sentences labelled by etads-labels --kind extract, f1 or match
  selector   the most probable sentences according to etads-select (--arch sentence_extractor); with --threshold, all
             sentences above the threshold, but at least --at-least and at most --sentences
  content    the sentences with the highest expected ROUGE according to a content model trained by etads-content;
             etads-summarize also lets it choose sentences that a summariser has written
  tagger     the sentences with the highest mean word probability according to etads-select (--arch word_tagger)
  phrases    all words with a probability above --threshold

examples:
  etads-extract runs/mine/prepared lead.txt --by lead
  etads-extract runs/mine/prepared tagger.txt --by tagger --selection runs/tagger --sentences 3
  etads-rouge tagger.txt runs/mine/text/test.target
  etads-extract runs/mine/prepared hard.txt --by selector --selection runs/extractor --threshold 0.5 --at-least 5 \
      --sentences 30

  Sentence marks (etads-prepare --source-sentence-marks) separate the sentences of a document. The sentences of a
  summary keep their order in the document.""",
)
def main(args: ExtractOptions) -> None:
    """Run the command ``etads-extract``."""
    if args.at_least is not None and args.sentences is not None and args.at_least > args.sentences:
        raise InputError(f"--at-least {args.at_least}: is more than --sentences {args.sentences}")
    if args.truncate_source is None and args.by != "content":
        args.truncate_source = 400
    folder = get_binarised_folder(args.data)
    read = {"DATA": list_data_files(folder), "--labels": [*(args.labels or folder).glob("labels.*")]}
    if args.selection is not None:
        read["--selection"] = [*args.selection.glob("probabilities.*"), args.selection / "content.npz"]
    check_output_paths({"OUTPUT": args.output}, read)
    silence_info_logs()
    print(f"{args.output}: {write_extracts(folder, args)}")
