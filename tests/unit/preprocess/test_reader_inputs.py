"""Generated inputs for every reader: the right pairs, or an error message that names the place.

ETADS_EXAMPLES is the number of inputs for each reader: 50 by default.
"""

import contextlib
import csv
import hashlib
import io
import json
import os
import re
from collections import Counter

import corpora
import hypothesis.strategies as st
import pytest
from etads_preprocess.corpus import main
from etads_preprocess.debian import decode_text, parse_stanzas, split_description
from hypothesis import HealthCheck, Phase, given, settings

from fairseq_etads.data.preparation import TOKENS, read_preparation_settings
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.documents import clean_text
from fairseq_etads.vocabulary.dictionary import SummarizationDictionary

many = settings(
    max_examples=int(os.environ.get("ETADS_EXAMPLES", "50")),
    deadline=None,
    phases=[Phase.generate],  # shrinking takes minutes, because every step runs a command
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)

AWKWARD = st.sampled_from(
    [
        *"\0\r\n\t,;|\"'\\\ufeff\u2028\x85\x0b\x1c\u200b\u200d\u202e\U0001f600 ",
        *("\r\n", '""', "<q>", "<Q>", "<b>", "&amp;", "e\u0301", "@highlight", "@entity1", "  "),
    ]
)
WORDS = st.sampled_from(["a", "Library", "no.", "7", "don't", "Übung", "。", "x" * 300])
PIECES = st.lists(st.one_of(WORDS, AWKWARD, st.characters(codec="utf-8")), max_size=8)
CELL = PIECES.map("".join)
"""Text that a file can hold, possibly with several lines."""
SURROGATES = st.lists(st.one_of(WORDS, AWKWARD, st.characters(codec=None)), max_size=8).map("".join)
LINE = CELL.map(lambda text: re.sub("(?s)^.?\0+|[\r\n]", " ", text))  # a file with an early NUL is taken for UTF-16
PAIRS = st.lists(st.tuples(CELL, CELL), min_size=1, max_size=5)
LINES = st.lists(st.tuples(LINE, LINE), min_size=1, max_size=5)
JUNK = st.one_of(
    st.binary(max_size=6), st.sampled_from([b"\xff", b"\xed\xa0\x80", b"\xc3", b"\xef\xbb\xbf", b"\r", b'"', b"\0"])
)


@st.composite
def damaged(draw, content):
    """The content with bytes replaced or inserted, or missing at the end."""
    start = draw(st.integers(0, len(content)))
    if draw(st.booleans()):
        return content[:start]
    return content[:start] + draw(JUNK) + content[start + draw(st.integers(0, 9)) :]


def has_no_early_nul(content):
    return b"\0" not in content[:2]  # with one, it is taken for UTF-16


def lines_of(text):
    """Lines of a text, cleaned."""
    return [line for line in (clean_text(line, Counter()) for line in text.replace("\r\n", "\n").split("\n")) if line]


def pairs_of(records):
    """Expected output for (document, summary): sentences with marks, no pair without either side."""
    made = [tuple(" <q> ".join(lines_of(text)) for text in record) for record in records]
    return [pair for pair in made if all(pair)]


def error_of(*arguments):
    """The one-line message of etads-corpus if it refuses something; None if it succeeds."""
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        status = main([*map(str, arguments), "--jobs", "1"])
    if not status:
        return None
    error = errors.getvalue().splitlines()[-1]
    assert status == 2 and error.startswith("etads-corpus: ") and error.isprintable()
    return error


def corpus(folder, *arguments):
    """The pairs of the training split (or the only one), and the report; or a one-line error, and None."""
    out = folder / "text"
    error = error_of(*arguments, "--out", out, "--force")
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
        assert not expected and any(place in found for place in (*places, "no document is left")), found
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


def simple_csv(content, delimiter, columns):
    """Pairs that Python's csv module reads from the two columns of a CSV file; None if it refuses the file."""
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
    header, *rows = [row for row in rows if row] or [[]]
    names = [name.strip().lower() for name in header]
    if any(len(row) != len(header) for row in rows) or [names.count(name) for name in columns] != [1, 1]:
        return None
    return [tuple(row[names.index(name)] for name in columns) for row in rows if row != header]


def unique(pairs):
    """A JSON object, whose names must differ."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError
    return dict(pairs)


def simple_json(lines):
    """Pairs of JSON lines, with one piece per line of text; None if one is broken or of another type."""
    records = []
    for line in filter(str.strip, lines):
        try:
            record = json.loads(line, object_pairs_hook=unique)
            values = [record["source"], record["target"]]
        except (ValueError, RecursionError, KeyError, TypeError):
            return None
        lists = [isinstance(value, list) and all(isinstance(piece, str) for piece in value) for value in values]
        values = ["\n".join(" ".join(p.split()) for p in v) if is_list else v for v, is_list in zip(values, lists)]
        if not all(isinstance(value, (str, type(None))) for value in values):
            return None
        records.append(tuple(value or "" for value in values))
    return records


# --- tables ---


def write_csv(rows, delimiter, end, quotes):
    """Write rows as the csv module does, which refuses to write a NUL in Python 3.10."""

    def write_cell(cell):
        doubled = cell.replace('"', '""')
        return f'"{doubled}"' if quotes or {*cell} & {*'"\r\n', delimiter} else cell

    return "".join(delimiter.join(map(write_cell, row)) + end for row in rows)


@many
@given(records=PAIRS, data=st.data())
def test_csv_is_read_as_the_csv_module_reads_it_or_refused(tmp_path, records, data):
    delimiter = data.draw(st.sampled_from([",", ";", "\t", "|"]))
    names = data.draw(st.sampled_from([["Article", "HIGHLIGHTS"], ["document", " Summary "], ["source", "target"]]))
    form = delimiter, data.draw(st.sampled_from(["\n", "\r\n"])), data.draw(st.booleans())
    text = write_csv([["id", *names]], *form)
    for number, record in enumerate(records):
        text += form[1] * data.draw(st.booleans()) + write_csv([[f"{number},{number}", *record]], *form)
    content, is_damaged = text.encode(), data.draw(st.booleans())
    if is_damaged:
        content = data.draw(damaged(content).filter(has_no_early_nul))
        expected = simple_csv(content, delimiter, [name.strip().lower() for name in names])
    else:
        content = data.draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + content
        expected = [tuple(map(without_lone_cr, record)) for record in records]
    path = tmp_path / data.draw(st.sampled_from(["a.csv", "a.tsv"]))
    path.write_bytes(content)
    more = ["--delimiter", {"\t": "tab"}.get(delimiter, delimiter)] if is_damaged or data.draw(st.booleans()) else []
    found = corpus(tmp_path, "table", "--train", path, "--no-sentences", *more)
    check(found, pairs_of(expected or []), str(path))
    if expected is None:
        assert found[1] is None, "the csv module refuses it"
    elif found[1] and not is_damaged:
        controls = found[1]["changed"].get("control characters replaced by spaces", 0)
        assert controls >= text.count("\0"), "NULs were changed and not counted"


@many
@given(values=st.lists(st.tuples(VALUE, VALUE), min_size=1, max_size=4), data=st.data())
def test_json_lines_are_read_as_the_json_module_reads_them_or_refused(tmp_path, values, data):
    ascii_only = data.draw(st.booleans())
    records = [{"id": [1, {"x": None}], "source": source, "target": target} for source, target in values]
    content = "\n".join(json.dumps(record, ensure_ascii=ascii_only) for record in records)
    content = content.encode("utf-8", "replace") + data.draw(st.sampled_from([b"", b"\n", b"\r\n\r\n"]))
    deep = b"[" * 100_000 + b"]" * 100_000
    long = b'{"source": ' + b"9" * 5000 + b', "target": "x"}'
    twice = b'{"source": "a", "target": "b", "source": "c"}'
    content += data.draw(st.sampled_from([b"", b"", b"", b"\n" + deep, b"\n" + long, b"\n" + twice, b"\n[]\n", b"NaN"]))
    if data.draw(st.booleans()):
        content = data.draw(damaged(content))
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    text = utf8(content)
    expected = None if text is None else simple_json(text.split("\n"))
    found = corpus(tmp_path, "table", "--train", path, "--no-sentences")
    check(found, pairs_of(expected or []), str(path))
    if expected is None:
        assert found[1] is None or not {"source", "target"} <= set(re.findall(r'"(\w+)"\s*:', text)), found


@many
@given(data=st.data(), values=st.lists(st.tuples(VALUE, VALUE), min_size=2, max_size=5))
def test_broken_records_are_dropped_and_counted_and_the_others_kept(tmp_path, data, values):
    """With --skip-bad, this also holds for lines that are not UTF-8."""
    lines = [b'{"source": "first", "target": "pair"}']
    for source, target in values:
        line = json.dumps({"source": source, "target": target}).encode()
        damaged_lines = [line, line, b"\xff" + line, line + b"\xc3", line[:-1], b'{"source": 1}']
        lines.append(data.draw(st.sampled_from(damaged_lines)))
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n".join(lines))
    texts = [utf8(line) for line in lines]
    good = [simple_json([text]) if text is not None else None for text in texts]
    found, report = corpus(tmp_path, "table", "--train", path, "--no-sentences", "--skip-bad")
    assert found == pairs_of([pair for pairs in good if pairs for pair in pairs])
    assert sum(report["dropped"].values()) + len(found) == len(lines)
    assert report["dropped"].get("not UTF-8", 0) == texts.count(None)


@many
@given(data=st.data(), values=st.lists(st.tuples(st.one_of(st.none(), CELL), CELL), min_size=1, max_size=5))
def test_parquet(tmp_path, data, values):
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    kind = data.draw(st.sampled_from([pyarrow.string(), pyarrow.large_string()]))
    sources, targets = ([value[side] for value in values] for side in (0, 1))
    lists = data.draw(st.booleans())
    summaries = pyarrow.array([[target, "x"] for target in targets]) if lists else pyarrow.array(targets, kind)
    table = pyarrow.table({"id": [1] * len(values), "Document": pyarrow.array(sources, kind), "summary": summaries})
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(table, path)
    expected = [(source or "", " ".join(target.split()) + "\nx" if lists else target) for source, target in values]
    check(corpus(tmp_path, "table", "--train", path, "--no-sentences"), pairs_of(expected))
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    found, report = corpus(tmp_path, "table", "--train", path, "--no-sentences")
    assert report is not None or str(path) in found or "no document is left" in found


# --- text in lines ---


@many
@given(records=LINES, data=st.data())
def test_parallel_text_is_paired_line_by_line_or_refused(tmp_path, records, data):
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    paths = [tmp_path / name for name in ("documents", "summaries")]
    contents = ["".join(record[side] + end for record in records).encode() for side in (0, 1)]
    contents[0] = data.draw(st.sampled_from([b"", b"\xef\xbb\xbf"])) + contents[0]
    if data.draw(st.booleans()):
        contents[0] = data.draw(damaged(contents[0]).filter(has_no_early_nul))
    for path, content in zip(paths, contents):
        path.write_bytes(content)
    texts = [utf8(content) for content in contents]
    split = [text.removesuffix("\n").replace("\r", " ").split("\n") if text else [] for text in texts]
    fits = None not in texts and len(split[0]) == len(split[1])
    found = corpus(tmp_path, "parallel", "--test", *paths)
    check(found, pairs_of([*zip(*split)]) if fits else [], *map(str, paths))
    assert fits or found[1] is None


@many
@given(documents=st.lists(LINE, min_size=1, max_size=4), summary=LINE)
def test_lines_of_published_formats_are_read_whole(tmp_path, documents, summary):
    for name, content in (("article", " ".join(documents)), ("title", summary)):
        corpora.write(tmp_path / f"gigaword/train.{name}.txt", f"{content}\n")
    masked = [re.sub("[0-9]", "#", text.lower()) for text in (" ".join(documents), summary)]
    masked = [" ".join("<unk>" if word == "unk" else word for word in text.split()) for text in masked]
    check(corpus(tmp_path, "gigaword", "--data", tmp_path / "gigaword", "--rare", "0"), pairs_of([masked]))

    *documents, summary = [re.sub("@[a-z]+|[<>&]|[A-Z]{2,}", "x", text) for text in (*documents, summary)]
    expected = pairs_of([("\n".join(documents), summary)])
    url = "http://ü/\u2028x"
    corpora.write(tmp_path / "lists/all_test.txt", url + "\r\n\n")
    story = "".join(f"{line}\n\n" for line in documents) + f"@highlight\n\n{summary}\n\n"
    path = corpora.write(tmp_path / f"stories/{hashlib.sha1(url.encode()).hexdigest()}.story", story)
    options = ["--expect", "any", "--no-sentences", "--no-full-stops"]
    check(corpus(tmp_path, "cnndm", "--stories", path.parent, "--urls", tmp_path / "lists", *options), expected)

    body = "\n".join(f"<P>\n{line}\n</P>" for line in documents)
    corpora.write(tmp_path / "docs/d30001t/APW1.1", f"<DOC>\n<TEXT>\n{body}\n</TEXT>\n</DOC>\n")
    corpora.write(tmp_path / "models/D30001.P.10.T.A.APW1.1", summary)
    options = ["--references", "1", "--no-sentences", "--keep-datelines"]
    check(corpus(tmp_path, "duc", "--docs", tmp_path / "docs", "--models", tmp_path / "models", *options), expected)


STORIES = ["--stories", "{}/cnn/stories", "{}/dailymail/stories", "--urls", "{}/url_lists", "--expect", "any"]
CORPORA = {
    "cnndm": (corpora.cnndm, "**/*.story", STORIES),
    "gigaword": (corpora.gigaword, "**/*.txt*", ["--data", "{}"]),
    "duc": (corpora.duc, "**/*[AN]?T1998*", ["--docs", "{}/docs", "--models", "{}/models", "--as-gigaword"]),
    "sumpubmed": (corpora.sumpubmed, "**/*.txt", ["--data", "{}"]),
    "scitldr": (corpora.scitldr, "*.jsonl", ["--data", "{}"]),
    "squad": (corpora.squad, "*.json", ["--data", "{}"]),
}


@pytest.mark.parametrize("kind", CORPORA)
@many
@given(data=st.data())
def test_damaged_files_of_corpora_are_named(kind, tmp_path_factory, data):
    make, pattern, options = CORPORA[kind]
    folder = make(tmp_path_factory.mktemp(kind) / "raw")
    path = data.draw(st.sampled_from(sorted(folder.glob(pattern))))
    content = data.draw(damaged(path.read_bytes()))
    path.write_bytes(content)
    error = error_of(kind, *(word.format(folder) for word in options), "--out", folder.parent / "text")
    if error is None:
        assert path.suffix == ".gz" or utf8(content) is not None, "bytes that are no text were taken for text"
    else:
        assert str(folder) in error or "no document is left" in error  # of a pair, either file may be named


@many
@given(descriptions=st.lists(st.tuples(LINE, st.lists(LINE, max_size=3)), min_size=1, max_size=3), data=st.data())
def test_indexes_of_debian(tmp_path, descriptions, data):
    stanzas = []
    for number, (synopsis, lines) in enumerate(descriptions):
        body = "".join(f" {line.strip() or '.'}\n" for line in lines)
        stanzas.append(f"Package: p{number}\nDescription-en: x{synopsis}\n{body}")
    content = data.draw(damaged("\n".join(stanzas).encode()))
    text, replaced = decode_text(content)
    assert (replaced == 0) == (utf8(content) is not None)
    for stanza in parse_stanzas(text):
        target, paragraphs = split_description(stanza.get("Description-en", ""), Counter())
        for line in (target, *paragraphs):
            assert line == " ".join(line.split()) and "<q>" not in line.lower() and "\0" not in line


WORD = st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"], exclude_characters="<"), min_size=1)


@many
@given(words=st.lists(WORD, unique=True), data=st.data())
def test_dictionaries_are_read_as_they_were_written_or_the_line_is_named(tmp_path, words, data):
    entries = list(zip(words, sorted((data.draw(st.integers(0, 9)) for _ in words), reverse=True)))
    path = corpora.write(tmp_path / "dict.source.txt", "".join(f"{word} {count}\n" for word, count in entries))
    found = SummarizationDictionary.load(str(path))
    assert list(zip(found.symbols, found.count))[found.nspecial :] == entries
    path.write_bytes(data.draw(damaged(path.read_bytes())))
    try:
        SummarizationDictionary.load(str(path))
    except ValueError as error:
        assert str(tmp_path) in str(error) and "line " in str(error)


@many
@given(
    record=st.one_of(JSON, st.fixed_dictionaries({"tokens": st.sampled_from(TOKENS), "size": st.integers(-1, 9)})),
    data=st.data(),
)
def test_prepare_json_is_read_as_it_is_or_named(tmp_path, record, data):
    corpora.write(tmp_path / "bin" / "complete", "")
    content = json.dumps({"settings": record}).encode()
    (tmp_path / "prepare.json").write_bytes(data.draw(st.one_of(st.just(content), damaged(content))))
    try:
        found = read_preparation_settings(tmp_path, "--like")
    except InputError as error:
        assert str(tmp_path) in str(error)
    else:
        known = json.loads((tmp_path / "prepare.json").read_bytes())["settings"]
        assert all(getattr(found, name) == value for name, value in known.items())
