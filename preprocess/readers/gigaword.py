"""Read headlines: Gigaword in the same way as NAMAS (Rush et al. 2015), and task 1 of DUC (Over et al. 2007)."""

import argparse
import html
import itertools
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Dict, FrozenSet, Iterator, List, Optional, Tuple

from fairseq_etads.platform.command_options import NOT_NEGATIVE, option
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.documents import BadDocumentError, Document, ExcludedDocumentError, make_treebank_tokenizer
from fairseq_etads.text.words import split_sentences

from .base import KeepOriginalOption, check_path_exists, find_first_existing
from .folders import Item, LineReader

FILE_NAMES = {
    "train": [("train.article.txt", "train.title.txt"), ("train.src.txt", "train.tgt.txt")],
    "valid": [
        ("valid.article.filter.txt", "valid.title.filter.txt"),
        ("valid.article.txt", "valid.title.txt"),
        ("valid.src.txt", "valid.tgt.txt"),
        ("dev.src.txt", "dev.tgt.txt"),
    ],
    "test": [("input.txt", "task1_ref0.txt"), ("test.article.txt", "test.title.txt"), ("test.src.txt", "test.tgt.txt")],
}
UNKNOWN = "<unk>"
_MOST_REFERENCES = 20
_DIGIT = re.compile(r"[0-9]")
# A title that contains one of these strings is not considered a headline. The list is from NAMAS, which also searches
# the whole lower-cased title for these strings.
_NOT_TITLES = re.compile(
    r"update|recasts|undated|grafs|corrects|retransmitting|dateline|writethru|recaps|inserts|incorporates|adv##|djlfx|"
    r"edits|byline|repetition|background|thruout|quotes|attention|ny###|overline|embargoed|ap|gmt|adds|embargo|urgent|"
    r"\?|-lrb-|-rrb-| i | : | - | by "
)
_MODEL = re.compile(r"(D\d+)\.P\.0*10\.\w\.(\w+)\.(.+?)(?:\.html?)?", re.IGNORECASE)
_TEXT = re.compile(r"<TEXT>(.*?)</TEXT>", re.DOTALL | re.IGNORECASE)
_PARAGRAPH = re.compile(r"</?P>|\n[ \t]*\n|\n(?=[ \t]{2,}\S)", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_DATELINE = re.compile(r"(?:[A-Z][^a-z]{2,60}|.{0,80}?\([A-Z][^()]{0,30}\))\s+(?:--|-|_)\s+")


class GigawordReader(LineReader):
    name = "gigaword"
    summary = "Gigaword headlines: train.article.txt and train.title.txt, raw or ready-made"
    description = f"""\
DIR (or its folders train/ and Giga/) contains train.article.txt and train.title.txt, valid.article.filter.txt and
valid.title.filter.txt, input.txt and task1_ref0.txt, plain or compressed; names like dev.src.txt are also recognised.
The text is already tokenised. Digits are replaced with #. Words that occur fewer than --rare times in the training text
are replaced with {UNKNOWN}, and so is UNK in the ready-made test set. Ready-made text is otherwise left unchanged."""

    @dataclass
    class Options(KeepOriginalOption):
        data: Path = option(None, "folder containing the files listed above", metavar="DIR", required=True)
        rare: int = option(
            5,
            f"replace words with {UNKNOWN} if they occur fewer than N times, counting articles and titles separately "
            "(default: %(default)s, as in NAMAS; 0 replaces no words). Training text that already contains "
            f"{UNKNOWN} is left unchanged",
            bounds=NOT_NEGATIVE,
        )
        filter: bool = option(False, "filter the training and validation pairs as in NAMAS")

    defaults: ClassVar = {"split": False}

    def __init__(self, args: argparse.Namespace):
        super().__init__(args)
        data = check_path_exists("--data", args.data, directory=True)
        self.files = find_split_files([data, data / "train", data / "Giga"])
        if not self.files:
            raise InputError(f"--data {data}: no train.article.txt and train.title.txt, nor any other known pair")
        # The frequent words in the articles and in the titles, or None if rare words are not replaced.
        self.common: Optional[List[FrozenSet[str]]] = self._find_frequent_words(args.rare) if args.rare > 1 else None

    def _find_frequent_words(self, rare: int) -> Optional[List[FrozenSet[str]]]:
        if "train" not in self.files:
            return None
        common = []
        for path in self.files["train"][:2]:
            words: Counter = Counter()
            for line in self.iterate_lines(path):
                words.update(_normalise_line(line).split())
            if UNKNOWN in words:
                self.notes.append(f"{path.name} has {UNKNOWN} already: rare words are left as they are")
                return None
            common.append(frozenset(word for word, count in words.items() if count >= rare))
        self.counts.clear()  # the lines will be read and counted again later
        return common

    def parse(self, item: Item) -> Document:
        where, *lines = item[0], item[1], *item[2]
        self.check_utf8(*lines)
        source, *targets = map(_normalise_line, lines)
        if self.args.filter and Path(where).name.startswith(("train", "valid", "dev")):
            reason = find_filter_reason(source.split(), targets[0].split())
            if reason:
                raise ExcludedDocumentError(reason)
        if self.common:
            source, *targets = (
                " ".join(word if word in self.common[side > 0] else UNKNOWN for word in line.split())
                for side, line in enumerate((source, *targets))
            )
        original = [item[1]] if self.args.keep_original else []
        return Document([source], [[target] for target in targets], True, True, original)


def find_split_files(folders: List[Path]) -> Dict[str, List[Path]]:
    """Return the files of each split: articles, titles, further references. Raises InputError if half a pair exists."""
    found: Dict[str, List[Path]] = {}
    for split, known in FILE_NAMES.items():
        pairs = [[find_first_existing(folders, [name]) for name in names] for names in known]
        whole = next(([path for path in pair if path] for pair in pairs if all(pair)), [])
        if whole:
            more = find_further_references([whole[1].parent]) if whole[0].name.startswith("input.txt") else []
            found[split] = [*whole, *more]
            continue
        for names, pair in zip(known, pairs):
            for path, other in zip(pair, reversed(names)):
                if path:
                    advice = "rename that file, or remove the first"
                    raise InputError(f"--data: {path} exists, but {other} does not: {advice}")
    return found


def find_further_references(folders: List[Path]) -> List[Path]:
    """Return the existing files task1_ref1.txt and so on. Raises InputError if one between them is missing."""
    numbered = [find_first_existing(folders, [f"task1_ref{number}.txt"]) for number in range(1, _MOST_REFERENCES)]
    found = [path for path in itertools.takewhile(bool, numbered) if path]
    for later in filter(None, numbered[len(found) :]):
        raise InputError(f"--data: {later} exists, but task1_ref{len(found) + 1}.txt does not")
    return found


def _normalise_line(line: str) -> str:
    """Lower-case a line, replace each digit with ``#``, and replace the word "unk" with <unk>."""
    words = _DIGIT.sub("#", line.lower()).split()
    return " ".join(UNKNOWN if word == "unk" else word for word in words)


def find_filter_reason(article: List[str], title: List[str]) -> str:
    """Return the reason why the NAMAS filter drops a pair of lower-cased words, or an empty string if it keeps it."""
    if "." not in article:
        return "filter: article without a full stop"
    if _NOT_TITLES.search(" ".join(title)):
        return "filter: not a headline"
    if not (10 < len(article) < 100 and 3 < len(title) < 50):
        return "filter: length"
    if not {word for word in title if len(word) > 3} & {word for word in article if len(word) > 3}:
        return "filter: no word in common"
    return ""


class DucReader(LineReader):
    name = "duc"
    summary = "DUC-2003 and DUC-2004, task 1: SGML articles and reference headlines, or input.txt and task1_ref*.txt"
    description = """\
--docs and --models are the folders distributed by NIST, with files such as docs/d30001t/APW19981016.0240 and
models/D30001.P.10.T.A.APW... (one headline per file; the letter identifies the assessor). --data is a folder containing
input.txt and task1_ref0.txt to task1_ref3.txt, as created by NAMAS. In both cases, the output is a test set."""

    @dataclass
    class Options(KeepOriginalOption):
        docs: Optional[Path] = option(None, "folder containing the folders of SGML articles", metavar="DIR")
        models: Optional[Path] = option(None, "folder containing the reference headlines", metavar="DIR")
        data: Optional[Path] = option(None, "folder containing input.txt and task1_ref*.txt", metavar="DIR")
        like: Optional[Path] = option(
            None,
            "prepared data of a Gigaword headline model, whose dictionaries and subwords --prepare reuses. Articles "
            "are then processed as for Gigaword: --as-gigaword (with --docs), --source-sentences 1, --short-lead 130",
            metavar="PREPARED",
        )
        references: int = option(4, "required number of references per article; 0 accepts any number")
        as_gigaword: bool = option(
            False,
            "convert SGML articles to lower-case Treebank words and replace digits with #, for models trained on "
            "Gigaword headlines",
            excludes={"--data": "give --docs and --models; the text of --data is never changed"},
        )
        keep_datelines: bool = option(False, 'keep datelines at the beginning of articles, such as "JERUSALEM (AP) _"')

    def __init__(self, args: argparse.Namespace):
        super().__init__(args)
        if args.like is not None:
            args.as_gigaword = args.as_gigaword or not args.data
            args.source_sentences, args.short_lead = args.source_sentences or 1, args.short_lead or 130
        if args.keep_original and not args.as_gigaword:
            raise InputError("--keep-original: has no effect without --as-gigaword")
        if args.data and not (args.docs or args.models):
            folders = [check_path_exists("--data", args.data, directory=True)]
            paths = [find_first_existing(folders, [name]) for name in ("input.txt", "task1_ref0.txt")]
            if not (paths[0] and paths[1]):
                raise InputError(f"--data {args.data}: no input.txt and task1_ref0.txt")
            self.files["test"] = [paths[0], paths[1], *find_further_references(folders)]
            self._check_references(len(self.files["test"]) - 1, str(args.data))
        elif args.docs and args.models and not args.data:
            check_path_exists("--docs", args.docs, directory=True)
            self.models = _find_reference_files(check_path_exists("--models", args.models, directory=True))
            self.articles = sorted(path for path in args.docs.glob("*/*") if path.is_file())
            self.sizes["test"] = len(self.articles)
            if not self.articles:
                raise InputError(f"--docs {args.docs}: no articles found; they should be in folders such as d30001t")
            self.files["test"] = [*self.articles, *(path for _, paths in sorted(self.models.items()) for path in paths)]
        else:
            raise InputError("give --docs and --models, or --data")

    def _check_references(self, found: int, where: str) -> None:
        if self.args.references and found != self.args.references:
            raise InputError(f"--references {self.args.references}: {where} has {found}; 0 takes any number")

    def iterate_raw_documents(self, key: str) -> Iterator[Any]:
        if self.args.data:
            return super().iterate_raw_documents(key)
        return ((str(path), path) for path in self.articles)

    def parse(self, item: Any) -> Document:
        if self.args.data:
            return super().parse(item)
        where, path = item
        # The name of a folder consists of the name of the document set and a letter that identifies the assessor who
        # selected the set.
        folder, name = path.parent.name.upper(), path.name.upper()
        models = self.models.get((folder[:-1], name)) or self.models.get((folder, name))
        if not models:
            raise BadDocumentError("no reference in --models")
        self._check_references(len(models), where)
        paragraphs = parse_article(self.read_text(path))
        if paragraphs and not self.args.keep_datelines:
            match = _DATELINE.match(paragraphs[0])
            paragraphs[0] = paragraphs[0][match.end() :] if match else paragraphs[0]
        original: List[str] = []
        if self.args.as_gigaword:
            sentences = [sentence for paragraph in paragraphs for sentence in split_sentences(paragraph)]
            original = [" ".join(make_treebank_tokenizer().encode(line, keep_case=True)) for line in sentences]
            paragraphs = [re.sub("[0-9]", "#", line.lower()) for line in original]
        references = [[_TAG.sub(" ", self.read_text(model)).replace("\n", " ")] for model in models]
        return Document(paragraphs, references, self.args.as_gigaword, True, original * self.args.keep_original)


def _find_reference_files(folder: Path) -> Dict[Tuple[str, str], List[Path]]:
    """Return the reference files of each article, i.e. of each pair of document set and name."""
    found: Dict[Tuple[str, str], List[Tuple[str, Path]]] = defaultdict(list)
    for path in folder.iterdir():
        match = _MODEL.fullmatch(path.name)
        if match:
            found[match.group(1).upper(), match.group(3).upper()].append((match.group(2), path))
    if not found:
        raise InputError(f"--models {folder}: no file named like D30001.P.10.T.A.APW19981016.0240")
    return {key: [path for _, path in sorted(paths)] for key, paths in found.items()}


def parse_article(text: str) -> List[str]:
    """Return the paragraphs of an SGML article's TEXT, without tags and wire services' entities, such as &LR;."""
    bodies = _TEXT.findall(text)
    if not bodies:
        raise BadDocumentError("no <TEXT>")
    paragraphs = []
    for paragraph in _PARAGRAPH.split("\n".join(bodies)):
        words = html.unescape(_TAG.sub(" ", paragraph)).split()
        paragraphs.append(" ".join(word for word in words if not re.fullmatch("&[A-Z]+;?", word)))
    return [paragraph for paragraph in paragraphs if paragraph]
