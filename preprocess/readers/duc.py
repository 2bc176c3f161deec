"""Read task 1 of DUC-2003 and DUC-2004: newswire articles with four reference headlines each (Over et al. 2007)."""

import argparse
import html
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

from fairseq_etads.platform.command_options import option
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.documents import BadDocumentError, Document, make_treebank_tokenizer
from fairseq_etads.text.words import split_sentences

from .base import KeepOriginalOption, check_path_exists, find_first_existing
from .gigaword import find_further_references
from .parallel import LineReader

_MODEL = re.compile(r"(D\d+)\.P\.0*10\.\w\.(\w+)\.(.+?)(?:\.html?)?", re.IGNORECASE)
_TEXT = re.compile(r"<TEXT>(.*?)</TEXT>", re.DOTALL | re.IGNORECASE)
_PARAGRAPH = re.compile(r"</?P>|\n[ \t]*\n|\n(?=[ \t]{2,}\S)", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_DATELINE = re.compile(r"(?:[A-Z][^a-z]{2,60}|.{0,80}?\([A-Z][^()]{0,30}\))\s+(?:--|-|_)\s+")


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
