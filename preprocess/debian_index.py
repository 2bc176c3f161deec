"""Read APT's package indexes: Translation-en (package descriptions) and Packages (names of source packages)."""

import re
import shutil
import subprocess
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Dict, Iterator, List, Sequence, Tuple

from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.cleaning import neutralise_sentence_separators
from fairseq_etads.text.documents import count_suspicious_content
from fairseq_etads.text.files import open_binary

Stanza = Dict[str, str]
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")
_INVISIBLE = re.compile("[\ufeff\u200b\u00ad]")
BULLET = re.compile(r"\s*[-*+•·‣o]\s+(?=\S)")
NAME_PREFIX = re.compile(r"^(lib)?((rust|golang|python\d?|node|ruby|r|php|ghc)-)?((github|cran|bioc)-)?")
NAME_SUFFIX = re.compile(r"-(bin|common|core|data|dbg|dev|doc|java|perl|prof|ruby|tests?|tools|utils)$")


def read_index(path: Path) -> bytes:
    """Read an index file, and decompress it if its name ends in .gz, .xz, .bz2 or .lz4.

    Raises:
        InputError: the index file cannot be read or is damaged.
    """
    with open_binary(path) as file:
        data = file.read()
    if path.suffix != ".lz4":
        return data
    # The standard library does not support lz4. APT stores its lists as .lz4 files only on systems where apt-helper is
    # installed, which can read them.
    for command in (["/usr/lib/apt/apt-helper", "cat-file"], ["lz4", "-dc"]):
        if shutil.which(command[0]):
            done = subprocess.run([*command, str(path.resolve())], capture_output=True, check=False)
            if done.returncode == 0 and done.stdout:
                return done.stdout
    raise InputError(f"{path}: cannot be read (.lz4 needs /usr/lib/apt/apt-helper or lz4, and neither could read it)")


def decode_text(data: bytes) -> Tuple[str, int]:
    """Decode UTF-8 text, and convert all line endings to ``\\n``.

    Returns:
        The decoded text, and the number of invalid byte sequences that were replaced with U+FFFD.
    """
    text = data.decode("utf-8-sig", errors="replace")
    replaced = text.count("\ufffd") - data.count(b"\xef\xbf\xbd")
    return text.replace("\r\n", "\n").replace("\r", "\n"), replaced


def parse_stanzas(text: str) -> Iterator[Stanza]:
    """Yield the deb822 stanzas of an index as dictionaries that map field names to values.

    Continuation lines are not joined, and their indentation is preserved.
    """
    for block in re.split(r"\n(?:[ \t]*\n)+", text):
        fields: Stanza = {}
        name = ""
        for line in block.strip("\n").split("\n"):
            if line[:1] in (" ", "\t") and name:
                fields[name] += "\n" + line
            elif ":" in line:
                name, _, value = line.partition(":")
                fields[name] = value.strip()
        if fields:
            yield fields


def map_source_names(text: str) -> Dict[str, str]:
    """Return a dictionary that maps binary package names to source package names.

    The version is removed from values such as ``Source: name (1.0)``.
    """
    stanzas = (s for s in parse_stanzas(text) if "Package" in s)
    return {s["Package"]: s.get("Source", "").split(" ")[0] or s["Package"] for s in stanzas}


def stem_package_name(package: str) -> str:
    """Remove prefixes, version numbers and suffixes such as -dev from the name of a package.

    For example, the stem of libfoo2-dev, foo-doc and python3-foo is foo.
    """
    name, previous = package, ""
    while name != previous:
        previous, name = name, re.sub(r"(?<=[a-z])[\d.-]+$", "", NAME_SUFFIX.sub("", name))
    return NAME_PREFIX.sub("", name) or package


def clean_description(text: str) -> Tuple[str, int]:
    """Convert a text to a single line, and neutralise sentence marks that it contains.

    The text is normalised to Unicode NFC, each sequence of white space is replaced with one space, and control
    characters and invisible characters are removed.

    Returns:
        The cleaned text, and the number of sentence marks that were neutralised by inserting spaces.
    """
    return neutralise_sentence_separators(
        " ".join(_remove_invisible_characters(unicodedata.normalize("NFC", text)).split())
    )


def _remove_invisible_characters(text: str) -> str:
    """Remove control characters and invisible characters."""
    return _INVISIBLE.sub("", _CONTROL.sub("", text))


def count_cleaning_changes(text: str) -> Counter:
    """Count the changes that :func:`clean_description` makes to a text, and possible errors that remain in the text."""
    counts = count_suspicious_content(text)
    counts["control characters removed"] = len(_CONTROL.findall(text))
    counts["literal <q> neutralised"] = (
        neutralise_sentence_separators(_remove_invisible_characters(text))[1] if "<" in text else 0
    )
    if not text.isascii():
        counts["invisible characters removed"] = len(_INVISIBLE.findall(text))
        counts["descriptions put into Unicode's form NFC"] = int(unicodedata.normalize("NFC", text) != text)
    return counts


def split_description(value: str) -> Tuple[str, Tuple[str, ...]]:
    """Split a Description field into the synopsis and the paragraphs of the long description.

    The synopsis and each paragraph are cleaned and converted to a single line. The synopsis may be empty, and there may
    be no paragraphs.
    """
    first, *rest = value.split("\n")
    blocks: List[List[str]] = [[]]
    for line in rest:
        if line.strip() == ".":
            blocks.append([])
        else:
            blocks[-1].append(line[1:])
    paragraphs = (clean_description(join_lines(block))[0] for block in blocks)
    return clean_description(first)[0], tuple(paragraph for paragraph in paragraphs if paragraph)


def join_lines(lines: Sequence[str]) -> str:
    """Join the wrapped lines of a paragraph into a single line.

    List markers are removed. A ``;`` is added to list items that end neither with punctuation nor with "and" or "or".
    If the last item then ends with ``,`` or ``;``, this character is replaced with ``.``.

    A dash at the start of a line is treated as a list marker only where a list item can begin. Otherwise, it may be
    part of a wrapped sentence.
    """
    out: List[str] = []
    text = ""  # running text that precedes the list items
    items: List[str] = []

    def join_list_items() -> str:
        ended = [i if re.search(r"([.,;:!?]|\b(and|or))$", i) else i + ";" for i in items]
        return " ".join([text, *ended[:-1], *(re.sub(r"[,;]$", ".", i) for i in ended[-1:])])

    for line in lines:
        indented, marker, rest = line[:1].isspace(), BULLET.match(line), line.strip()
        if marker and (indented or items or text[-1:] in ("", ".", ":", ";")):
            items.append(line[marker.end() :].strip())
        elif items and (indented or rest[:1].islower()):
            items[-1] += " " + rest
        elif items:  # running text resumes after a list
            out.append(join_list_items())
            text, items = rest, []
        else:
            text = f"{text} {rest}".strip()
    return " ".join([*out, join_list_items()])
