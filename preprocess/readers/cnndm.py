"""Read CNN/Daily Mail (Hermann et al. 2015) from ``.story`` files and lists of URLs, or See et al.'s (2017) chunks."""

import argparse
import hashlib
import itertools
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Dict, Iterator, List, Optional, Tuple

from fairseq_etads.files.inputs import open_binary
from fairseq_etads.platform.command_options import option
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.documents import BadDocumentError, Document, ExcludedDocumentError

from .base import Reader, check_path_exists, find_first_existing

LISTS = {
    "train": ["all_train.txt", "wayback_training_urls.txt", "cnn_wayback_training_urls.txt"],
    "valid": ["all_val.txt", "wayback_validation_urls.txt", "cnn_wayback_validation_urls.txt"],
    "test": ["all_test.txt", "wayback_test_urls.txt", "cnn_wayback_test_urls.txt"],
}
PUBLISHED: Dict[str, Tuple[int, ...]] = {"train": (287_113, 287_226), "valid": (13_368,), "test": (11_490,)}
"""Accepted numbers of documents: 287,227 training URLs, of which papers since See et al. report 287,226; the data that
they released lacks the 114 stories without an article.
"""
CHUNKS = {"train": "train", "valid": "val", "test": "test"}
"""How the names of See et al.'s files begin: ``train.bin``, ``train_000.bin``."""
_SENTENCE = re.compile(r"<s>(.*?)</s>", re.DOTALL)
_ENTITY = re.compile(r"(@entity\d+):(.*)")
_PLACEHOLDER = re.compile(r"@entity\d+")
_LARGEST = 1 << 26
"""Maximum size of a record in bytes. Larger numbers are not lengths."""
_FIXED = {1: 8, 5: 4}
"""Wire types of Protocol Buffers of fixed size, with their sizes in bytes."""


class CnnDailyMailReader(Reader):
    name = "cnndm"
    summary = "CNN/Daily Mail: .story files and lists of URLs, or See et al.'s chunks"
    description = """\
Each story file contains the text, one paragraph per line, followed by the summary. A line "@highlight" precedes each
summary sentence. The file name is the SHA-1 hash of the URL of the story, and the lists of URLs (all_train.txt,
all_val.txt, all_test.txt) determine its split.

In the anonymised variant, names are replaced with @entity0, @entity1, and so on. Lines such as "@entity0:Name" after
the text contain the names.

--chunks reads the files of See et al. (2017), finished_files/chunked/train_000.bin or finished_files/train.bin, which
contain lower-case tokens. Tokens of such files and of tokenised stories are joined unless --no-join-tokens is given."""

    @dataclass
    class Options:
        stories: List[Path] = option([], "one or more folders containing the .story files", metavar="DIR", nargs="+")
        urls: Optional[Path] = option(None, "folder containing the lists of URLs", metavar="DIR")
        others: ClassVar = dict.fromkeys(("--stories", "--urls", "--keep-origin"), "")
        chunks: Optional[Path] = option(None, "folder of See et al.'s *.bin files", metavar="DIR", excludes=others)
        expect: str = option(
            "published",
            "expected numbers of documents in the splits. published: 287,226 (287,113 if stories without text are "
            "excluded), 13,368 and 11,490; any: do not check the numbers; TRAIN,VALID,TEST: expect these numbers",
            metavar="published|any|TRAIN,VALID,TEST",
        )
        allow_missing: bool = option(False, "count missing story files instead of stopping")
        keep_origin: bool = option(False, "also write cnn or dailymail to SPLIT.source.origin, for etads-control")
        entity_names: bool = option(False, "replace the placeholders in anonymised stories with the original names")

    defaults: ClassVar = {"full_stops": True, "join_tokens": True}

    def __init__(self, args: argparse.Namespace):
        super().__init__(args)
        if args.chunks is None:
            for name, value in (("--stories", args.stories), ("--urls", args.urls)):
                if not value:
                    raise InputError(f"{name} is needed, or --chunks DIR")
            self.large_folders = [check_path_exists("--stories", path, directory=True) for path in args.stories]
            check_path_exists("--urls", args.urls, directory=True)
            for split, names in LISTS.items():
                self.files[split] = [*filter(None, [find_first_existing([args.urls], names)])]
            if not self.list_splits():
                wanted = ", ".join(name for names in LISTS.values() for name in names)
                raise InputError(f"--urls {args.urls}: no list of URLs; looked for {wanted}")
            self.sizes = {split: sum(1 for _ in self.iterate_raw_documents(split)) for split in self.list_splits()}
        else:
            check_path_exists("--chunks", args.chunks, directory=True)
            for split, stem in CHUNKS.items():
                paths = (path for end in (".bin", "_*.bin") for path in args.chunks.glob(f"{stem}{end}"))
                self.files[split] = sorted(paths)
            if not self.list_splits():
                raise InputError(f"--chunks {args.chunks}: no train_*.bin, val_*.bin or test_*.bin in it")
        self.expected = _parse_expected_counts(args.expect)

    def iterate_raw_documents(self, key: str) -> Iterator[Tuple[str, Any]]:
        if self.args.chunks:
            for path in self.files[key]:
                yield from ((f"{path}, record {n}", content) for n, content in enumerate(read_records(path), 1))
            return
        for url in map(str.strip, self.iterate_lines(self.files[key][0])):
            if url:
                # With --skip-bad, invalid UTF-8 bytes in the URL have been escaped. Here, the bytes are restored.
                yield f"{hashlib.sha1(url.encode('utf-8', 'surrogateescape')).hexdigest()}.story ({url})", url

    def parse(self, item: Tuple[str, Any]) -> Document:
        where, content = item
        if self.args.chunks:
            texts = parse_example(content)
            if not {"article", "abstract"} <= set(texts):
                raise BadDocumentError("no article and abstract")
            highlights = [part.strip() for text in texts["abstract"] for part in _SENTENCE.findall(text) or [text]]
            return Document(texts["article"], [highlights], targets_in_sentences=True)
        name = where.split(" ", 1)[0]
        for folder in self.args.stories:
            path = folder / name
            if path.is_file():
                document = parse_story(self.read_text(path), self.args.entity_names)
                if self.args.keep_origin:
                    document.origin = _find_newspaper(content, folder)
                return document
        if not self.args.allow_missing:
            folders = ", ".join(map(str, self.args.stories))
            raise InputError(f"--stories: no {name} in {folders} (for {content}); --allow-missing counts them")
        raise ExcludedDocumentError("story not found")

    def check_split_sizes(self, kept: Dict[str, int]) -> None:
        chunks = self.args.chunks
        for split, expected in self.expected.items():
            reason = ""
            if split not in kept:
                names = f"{CHUNKS[split]}_*.bin" if chunks else " or ".join(LISTS[split])
                where = f"--chunks {chunks}" if chunks else f"--urls {self.args.urls}"
                reason = f"there is no {split}, because {where} has no {names}; the other files are written"
            elif kept[split] not in expected:
                wanted = " or ".join(f"{count:,}" for count in expected)
                reason = f"{split} has {kept[split]:,} documents, not {wanted}; the files are written, and report.json "
                reason += "says what was dropped"
            if reason:
                raise InputError(f"--expect: {reason}. --expect any accepts them")


def _parse_expected_counts(text: str) -> Dict[str, Tuple[int, ...]]:
    """Parse the value of --expect, and return a dictionary that maps splits to accepted numbers of documents."""
    if text in ("published", "any"):
        return PUBLISHED if text == "published" else {}
    parts = text.split(",")
    if len(parts) != len(LISTS) or not all(part.strip().isdecimal() for part in parts):
        raise InputError(f"--expect {text}: choose published, any, or three numbers such as 1000,50,50")
    return {split: (int(part),) for split, part in zip(LISTS, parts)}


def parse_story(text: str, names: bool = False) -> Document:
    """Parse the content of a .story file. ``names`` restores the names of entities in an anonymised story.

    As in the code of See et al., the summary consists of everything after the first "@highlight".
    """
    paragraphs: List[str] = []
    highlights: List[str] = []
    entities: Dict[str, str] = {}
    current = paragraphs
    for line in map(str.strip, text.split("\n")):
        entity = _ENTITY.fullmatch(line)
        if entity:
            entities[entity.group(1)] = entity.group(2).strip()
            continue
        if line.startswith("@highlight"):
            current, line = highlights, line[len("@highlight") :].strip()
        current += [line] if line else []
    for lines in (paragraphs, highlights) if names else ():
        lines[:] = [_PLACEHOLDER.sub(lambda found: entities.get(found.group(), found.group()), line) for line in lines]
    return Document(paragraphs, [highlights], targets_in_sentences=True)


def _find_newspaper(url: str, folder: Path) -> str:
    """Return the newspaper of a story, which its URL names or, if this is not the case, its folder."""
    for place in (url.lower(), "/".join(folder.absolute().parts[-2:]).lower()):
        for name in ("dailymail", "cnn"):
            if name in place:
                return name
    names = f"neither {url} nor the folder {folder}"
    raise InputError(f'--keep-origin: {names} has "cnn" or "dailymail" in its name; rename the folders')


def read_records(path: Path) -> Iterator[bytes]:
    """Yield the serialised tf.train.Example records of a file. Raises InputError if it has others or ends in one.

    A record is its length in bytes, an int64, and a message of Protocol Buffers: Example {Features features = 1},
    Features {map<string, Feature> feature = 1}, Feature {BytesList bytes_list = 1}, BytesList {bytes value = 1}.
    """
    with open_binary(path) as file:
        for number in itertools.count(1):
            head = file.read(8)
            if not head:
                return
            size = struct.unpack("<q", head)[0] if len(head) == 8 else -1
            content = file.read(size) if 0 < size <= _LARGEST else b""
            if not content or len(content) != size:
                raise InputError(f"{path}: no record {number} of length-prefixed tf.train.Example, or not all of it")
            yield content


def parse_example(content: bytes) -> Dict[str, List[str]]:
    """Return the texts of each feature of a serialised Example. Raises BadDocumentError if it is damaged."""
    try:
        found = {}
        for features in _list_values(content, 1):
            for entry in _list_values(features, 1):
                name = b"".join(_list_values(entry, 1)).decode()
                values = (values for feature in _list_values(entry, 2) for values in _list_values(feature, 1))
                found[name] = [text.decode() for value in values for text in _list_values(value, 1)]
        return found
    except UnicodeDecodeError:
        raise BadDocumentError("not UTF-8") from None
    except IndexError:
        raise BadDocumentError("not a tf.train.Example") from None


def _list_values(message: bytes, wanted: int) -> Iterator[bytes]:
    """Yield the values of a message's field with the number ``wanted``. Raises IndexError if the message is damaged."""
    place = 0
    while place < len(message):
        key, place = _read_number(message, place)
        kind = key & 7
        size = _FIXED.get(kind, 0)
        if kind == 2:
            size, place = _read_number(message, place)
            if key >> 3 == wanted:
                yield message[place : place + size]
        elif kind == 0:
            _, place = _read_number(message, place)
        elif not size:
            raise IndexError
        place += size
    if place > len(message):
        raise IndexError


def _read_number(message: bytes, place: int) -> Tuple[int, int]:
    """Return the number that is encoded at a place in a message, and the place after it."""
    number = shift = 0
    while True:
        byte = message[place]
        number |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128 or shift > 63:
            return number, place
