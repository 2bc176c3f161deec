"""The command ``etads-extract`` (train): create extractive summaries with a model, the lead or an oracle."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, List, Optional, Tuple

from tqdm import tqdm

from ..data.labels import NOTHING, SelectionFile, make_label_file_name, pick_sentences, select_by_greedy_recall
from ..data.preparation import PreparedPairs, WordText, list_summary_sentences
from ..files.outputs import check_output_paths, open_output
from ..platform.command_options import SIZE, Bounds, argument, option, options_command
from ..platform.errors import InputError
from ..text.words import SENTENCE_MARK
from .shared_options import get_binarised_folder, list_data_files, make_detokenizer, open_split

if TYPE_CHECKING:
    from ..search.content_model import ContentModel

WAYS = ("lead", "oracle", "labels", "selector", "content", "tagger", "phrases")
"""Valid values of the option ``--by``."""
BY_PROBABILITIES = {"selector": "sentences", "content": "sentences", "tagger": "words", "phrases": "words"}
"""Methods (values of ``--by``) that require probabilities, mapped to the unit to which the probabilities belong."""
SENTENCES, THRESHOLD = 3, 0.15


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
        None, "read only the first N tokens of each document (default: 400; --by content: all tokens)", bounds=SIZE
    )


def write_extracts(folder: Path, args: ExtractOptions) -> str:
    """Write extractive summaries of the documents in a split, and return a message about them."""
    pairs = open_split(folder, args.subset)
    tokenizer = make_detokenizer(pairs, folder)
    if args.by == "oracle" and not pairs.has_summaries:
        raise InputError(f"--by oracle: split {args.subset} has no summaries")
    if args.by != "phrases":
        pairs.check_sentence_marks(f"--by {args.by}")
    extractor = _Extractor(args, pairs, folder)
    words = sentences = 0
    with open_output(args.output) as file:
        for number in tqdm(range(len(pairs)), desc=f"extracting {args.subset}", unit=" documents", disable=None):
            tokens = pairs.read_document(number)
            taken = extractor.extract(
                number, WordText.from_tokens(tokens, pairs.subwords, args.truncate_source), tokens
            )
            words, sentences = words + sum(map(len, taken)), sentences + len(taken)
            file.write(tokenizer.decode(f" {SENTENCE_MARK} ".join(" ".join(sentence) for sentence in taken)) + "\n")
    count = max(len(pairs), 1)
    return f"{len(pairs):,} summaries of {sentences / count:.1f} sentences and {words / count:.1f} words"


class _Extractor:
    """Selects the sentences or words of a document by the method of ``--by``."""

    file: SelectionFile  # labels or probabilities
    model: "ContentModel"

    def __init__(self, args: ExtractOptions, pairs: PreparedPairs, folder: Path):
        self.args, self.pairs = args, pairs
        if args.by == "labels":
            path = (args.labels or folder) / make_label_file_name("labels", "sentences", args.subset)
            self.file = SelectionFile(path, "--labels", len(pairs))
            self.file.check_kind("--labels")
        elif args.by in BY_PROBABILITIES:
            name = make_label_file_name("probabilities", BY_PROBABILITIES[args.by], args.subset)
            self.file = SelectionFile(args.selection / name, "--selection", len(pairs))
        if args.by == "content":
            from ..search.content_model import FILE, ContentModel

            self.model = ContentModel.load(args.selection / FILE, f"create it with etads-content {args.selection}")

    def extract(self, number: int, text: WordText, tokens: List[str]) -> List[List[str]]:
        """Return the words of each selected sentence of a document, given its index, words and tokens."""
        args, sentences = self.args, text.split_sentences()
        threshold = THRESHOLD if args.threshold is None else args.threshold
        if args.by == "lead":
            return [sentence for sentence in sentences if sentence][: args.sentences or SENTENCES]
        if args.by == "oracle":
            reference = list_summary_sentences(self.pairs.read_summary(number), self.pairs.subwords)
            known = [self.pairs.blank_unknown_words(sentence) for sentence in reference]
            return [sentences[place] for place in select_by_greedy_recall(sentences, known)]
        if args.by == "labels":
            labelled = (field for field in self.file.read_row(number, tokens) if field != NOTHING)
            return [sentences[place] for place in sorted(map(int, labelled)) if place < len(sentences)]
        scores = self.file.read_probabilities(number, tokens)
        if args.by == "content":
            from ..search.sentence_choosing import choose_sentences

            likely = [score or 0.0 for score in scores]
            chosen = choose_sentences(self.model, sentences, likely, most_words=args.words)
            return [candidate.words for candidate in chosen.sentences]
        if BY_PROBABILITIES[args.by] == "words":
            # All tokens of a word share its value. There is none after the last token with a value.
            of_words = dict(zip(text.word_numbers, scores))
            found: List[List[Tuple[str, float]]] = [[] for _ in sentences]
            for place, (word, sentence) in enumerate(zip(text.words, text.get_sentence_indices())):
                if sentence is not None and (value := of_words.get(place)) is not None:
                    found[sentence].append((word, value))
            if args.by == "phrases":
                phrases = ([word for word, value in words if value > threshold] for words in found)
                return [words for words in phrases if words]
            scores = [sum(value for _, value in words) / len(words) if words else None for words in found]
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
    if args.truncate_source is None and args.by != "content":
        args.truncate_source = 400
    folder = get_binarised_folder(args.data)
    read = {"DATA": list_data_files(folder), "--labels": [*(args.labels or folder).glob("labels.*")]}
    if args.selection is not None:
        read["--selection"] = [*args.selection.glob("probabilities.*"), args.selection / "content.npz"]
    check_output_paths({"OUTPUT": args.output}, read)
    print(f"{args.output}: {write_extracts(folder, args)}")
