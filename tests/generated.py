"""Generated inputs for readers, their expected outputs by simple parsers, and calls of a reader."""

import bz2
import contextlib
import csv
import gzip
import io
import json
import lzma
import os
import re
from collections import Counter

import hypothesis.strategies as st
from etads_preprocess.corpus import main
from hypothesis import HealthCheck, Phase, settings
from programs import as_program

from fairseq_etads.text.cleaning import clean_text

EXAMPLES = int(os.environ.get("ETADS_EXAMPLES", "50"))
many = settings(
    max_examples=EXAMPLES,
    deadline=None,
    phases=[Phase.generate],  # shrinking takes minutes, because every step runs a command
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)

AWKWARD = st.sampled_from(
    [
        "\0",
        "\r",
        "\n",
        "\r\n",
        "\t",
        ",",
        ";",
        "|",
        '"',
        '""',
        "'",
        "\\",
        "\ufeff",
        "\u2028",
        "\x85",
        "\x0b",
        "\x1c",
        "<q>",
    ]
    + [
        "<Q>",
        "<b>",
        "&amp;",
        "\u200b",
        "\u200d",
        "\u202e",
        "e\u0301",
        "\U0001f600",
        "@highlight",
        "@entity1",
        " ",
        "  ",
    ]
)
WORDS = st.sampled_from(["a", "Library", "no.", "7", "don't", "Übung", "。", "x" * 300])
PIECES = st.lists(st.one_of(WORDS, AWKWARD, st.characters(codec="utf-8")), max_size=8)
CELL = PIECES.map("".join)
"""Text that a file can hold, possibly with several lines."""
SURROGATES = st.lists(st.one_of(WORDS, AWKWARD, st.characters(codec=None)), max_size=8).map("".join)
LINE = CELL.map(lambda text: re.sub("[\r\n]", " ", text))
PAIRS = st.lists(st.tuples(CELL, CELL), min_size=1, max_size=5)
LINES = st.lists(st.tuples(LINE, LINE), min_size=1, max_size=5)
COMPRESSORS = st.sampled_from([("", bytes), (".gz", gzip.compress), (".xz", lzma.compress), (".bz2", bz2.compress)])
JUNK = st.one_of(
    st.binary(max_size=6), st.sampled_from([b"\xff", b"\xed\xa0\x80", b"\xc3", b"\xef\xbb\xbf", b"\r", b'"', b"\0"])
)


@st.composite
def damaged(draw, content):
    """The content with bytes deleted, inserted, or missing at the end."""
    start = draw(st.integers(0, len(content)))
    kind = draw(st.sampled_from(["cut", "put in", "end"]))
    if kind == "end":
        return content[:start]
    end = min(len(content), start + draw(st.integers(0, 9))) if kind == "cut" else start
    return content[:start] + draw(JUNK) + content[end:]


def lines_of(text):
    """Lines of a text, cleaned."""
    return [line for line in (clean_text(line, Counter()) for line in text.replace("\r\n", "\n").split("\n")) if line]


def pairs_of(records):
    """Expected output for (document, summary): sentences with marks, no pair without either side."""
    made = [tuple(" <q> ".join(lines_of(text)) for text in record) for record in records]
    return [pair for pair in made if all(pair)]


def error_of(prefix, main, *arguments):
    """The one-line message of a command that refuses something; None if it succeeds."""
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
            as_program(main)([*map(str, arguments)])
    except SystemExit as stopped:
        assert stopped.code == 2
        error = errors.getvalue().splitlines()[-1]
        assert error.startswith(prefix) and error.isprintable()
        return error
    return None


def corpus(folder, *arguments):
    """The pairs of the training split (or the only one), and the report; or a one-line error, and None."""
    out = folder / "text"
    error = error_of("etads-corpus: ", main, *arguments, "--out", out, "--jobs", "1", "--force")
    if error:
        return error, None
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    (split,) = report["splits"]
    sides = [(out / f"{split}.{side}").read_text(encoding="utf-8").split("\n") for side in ("source", "target")]
    assert sides[0].pop() == sides[1].pop() == ""
    return list(zip(*sides)), report["splits"][split]


def check(found, expected, *places):
    """Check that the pairs are as expected or, if none are expected, that an error names a place."""
    found, report = found
    if report is None:
        assert not expected, f"{found}; expected {expected}"
        assert any(place in found for place in places) or "no document is left" in found, found
    else:
        assert found == expected


def utf8(data):
    """Decode bytes, without a byte order mark; None if they are not UTF-8."""
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        return None


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), SURROGATES),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(SURROGATES, inner, max_size=3)),
    max_leaves=5,
)
VALUE = st.one_of(SURROGATES, st.lists(SURROGATES, max_size=4), JSON)


def without_lone_cr(text):
    return re.sub("\r(?!\n)", " ", text)


def simple_csv(content, delimiter):
    """Pairs that Python's csv module reads from a CSV file of document and summary; None if it refuses the file."""
    text = utf8(content)
    if text is None:
        return None
    first = text.split("\n")[0]
    if "\r" in first.rstrip("\r"):
        return None
    try:
        rows = [*csv.reader(io.StringIO(without_lone_cr(text).replace("\0", " ")), delimiter=delimiter, strict=True)]
    except csv.Error:
        return None
    rows = [row for row in rows if row]
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        return None
    places = [
        [i for i, name in enumerate(rows[0]) if name.strip().lower() == wanted] for wanted in ("source", "target")
    ]
    if [len(found) for found in places] != [1, 1]:
        return None
    return [tuple(row[found[0]] for found in places) for row in rows[1:] if row != rows[0]]


def simple_json(lines):
    """Pairs (document, summary) of JSON lines, with one piece per line of text; None if one is broken or of another
    type.
    """
    records = []
    for line in lines:
        if not line.strip():
            continue
        repeated = []

        def unique(pairs, repeated=repeated):
            repeated.append(len(dict(pairs)) < len(pairs))
            return dict(pairs)

        try:
            record = json.loads(line, object_pairs_hook=unique)
        except (ValueError, RecursionError):
            return None
        if not isinstance(record, dict) or any(repeated) or not {"source", "target"} <= set(record):
            return None
        pair = []
        for value in (record["source"], record["target"]):
            if isinstance(value, list) and all(isinstance(piece, str) for piece in value):
                value = "\n".join(" ".join(piece.split()) for piece in value)
            if not isinstance(value, (str, type(None))):
                return None
            pair.append(value or "")
        records.append(tuple(pair))
    return records
