"""Rating sheets: random choices, writing, reading, and agreement against hand-computed values."""

import collections
import csv
import errno
import io
import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_etads.commands import human as human_command
from fairseq_etads.commands.human import main
from fairseq_etads.evaluation.human import (
    CRITERIA,
    Rating,
    aggregate_ratings,
    escape_formula,
    format_csv_sheet,
    format_html_sheet,
    krippendorff_alpha,
    make_blinding_key,
    read_sheet,
)

SYSTEMS = ["basic", "etads", "lead"]

# Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), section D: 12 units, 4 observers, missing data
PAPER = """1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 ."""


def loop_alpha(units, level):
    """1 - D_o / D_e over all pairs of ratings: within a unit, weighted by its ratings minus 1, and among all."""
    units = [list(unit.values()) for unit in units if len(unit) > 1]
    values = [value for unit in units for value in unit]

    def distance(a, b):
        if level == "interval":
            return (a - b) ** 2
        low, high = min(a, b), max(a, b)
        return (sum(low <= v <= high for v in values) - (values.count(low) + values.count(high)) / 2) ** 2

    observed = sum(
        distance(a, b) / (len(unit) - 1)
        for unit in units
        for i, a in enumerate(unit)
        for j, b in enumerate(unit)
        if i != j
    )
    expected = sum(distance(a, b) for i, a in enumerate(values) for j, b in enumerate(values) if i != j)
    return 1 - (len(values) - 1) * observed / expected if expected else None


def paper_units():
    rows = [line.split() for line in PAPER.splitlines()]
    return [{f"o{o}": int(row[u]) for o, row in enumerate(rows) if row[u] != "."} for u in range(12)]


def test_agreement_is_that_of_the_paper():
    assert krippendorff_alpha(paper_units(), "ordinal") == pytest.approx(0.815, abs=5e-4)
    assert krippendorff_alpha(paper_units(), "interval") == pytest.approx(0.849, abs=5e-4)


def test_agreement_by_hand():
    # units (1, 1), (1, 3), (3, 3): observed 2·4/1 = 8 over 6 ratings; expected 2·9·4 = 72 over 30 pairs
    units = [{"a": 1, "b": 1}, {"a": 1, "b": 3}, {"a": 3, "b": 3}]
    assert krippendorff_alpha(units, "interval") == pytest.approx(1 - (8 / 6) / (72 / 30))
    assert krippendorff_alpha([{"a": 1, "b": 1}, {"a": 5, "b": 5}], "ordinal") == 1
    assert krippendorff_alpha([{"a": 2, "b": 2}], "ordinal") is None  # without variation, agreement is not defined
    assert krippendorff_alpha([{"a": 1}, {"b": 2}], "interval") is None and krippendorff_alpha([], "interval") is None


@settings(max_examples=60)
@given(st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers(1, 5)), max_size=7))
def test_agreement_equals_a_loop(units):
    for level in ("ordinal", "interval"):
        found, expected = krippendorff_alpha(units, level), loop_alpha(units, level)
        assert found is None if expected is None else found == pytest.approx(expected)


def test_assignment_is_balanced_seeded_and_shuffled():
    key = make_blinding_key(50, SYSTEMS, 12, 6, 4, seed=3)
    assert key == make_blinding_key(50, SYSTEMS, 12, 6, 4, seed=3) != make_blinding_key(50, SYSTEMS, 12, 6, 4, seed=4)
    items = collections.Counter(item for sheet in key["sheets"].values() for item in sheet)
    assert len(items) == 12 and set(items.values()) == {2}
    assert all(1 <= int(item) <= 50 for item in items)
    orders = [tuple(order.values()) for sheet in key["sheets"].values() for order in sheet.values()]
    assert all(sorted(order) == SYSTEMS for order in orders) and len(set(orders)) > 3
    assert json.loads(json.dumps(key)) == key


@pytest.mark.parametrize(
    "arguments, words",
    [
        ((5, SYSTEMS, 6, 1, 1), "--items 6: choose 1 to 5"),
        ((5, SYSTEMS, 5, 0, 1), "--annotators 0"),
        ((5, SYSTEMS, 2, 1, 3), "--each 3: choose 1 to 2"),
        ((5, [], 2, 1, 1), "0 systems"),
        ((5, [str(i) for i in range(27)], 2, 1, 1), "27 systems"),
    ],
)
def test_impossible_sheets_are_refused_in_words(arguments, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        make_blinding_key(*arguments, seed=1)


@settings(max_examples=80)
@given(st.text(max_size=20))
def test_no_cell_is_a_formula_and_no_text_is_markup(text):
    cell = escape_formula(text)
    assert cell.lstrip(" ")[:1] not in ("=", "+", "-", "@", "\t", "\r")
    assert text in cell and len(cell) <= len(text) + 1
    key = make_blinding_key(1, ["s"], 1, 1, 1, 1)
    sheet = key["sheets"]["annotator-1"]
    hostile = text + '<script>alert(1)</script>"&'
    page = format_html_sheet("annotator-1", sheet, [hostile], {"s": [hostile]})
    assert page.count("<script>") == 1 and "&lt;script&gt;alert(1)" in page
    assert not re.search(r'(?:src|href)\s*=\s*"|https?://', page.replace("&quot;", ""))
    content = format_csv_sheet("annotator-1", sheet, [hostile], {"s": ["=" + hostile]})
    assert "\0" not in content
    rows = list(csv.reader(io.StringIO(content, newline="")))
    assert len(rows) == 2 and rows[1][4].startswith("'=")


def filled(tmp_path, change=lambda rows: rows, delimiter=",", encoding="utf-8"):
    """A key and a sheet read back after ``change``, in which each summary of system k (in SYSTEMS) is rated k + 2."""
    key = make_blinding_key(4, SYSTEMS, 2, 2, 2, seed=1)
    outputs = {name: [f"{name} says {i}" for i in range(4)] for name in SYSTEMS}
    paths = []
    for annotator, sheet in key["sheets"].items():
        text = format_csv_sheet(annotator, sheet, [f"document {i}" for i in range(4)], outputs)
        rows = list(csv.reader(io.StringIO(text, newline="")))
        for row in rows[1:]:
            row[5:] = [str(SYSTEMS.index(sheet[row[1]][row[2]]) + 2)] * 3
        paths.append(tmp_path / f"{annotator}.csv")
        with open(paths[-1], "w", newline="", encoding=encoding) as file:
            csv.writer(file, delimiter=delimiter).writerows(change(rows))
    return key, paths


def read_all(key, paths):
    seen, ratings, problems = {}, [], []
    for path in paths:
        found, wrong = read_sheet(str(path), key, seen)
        ratings, problems = ratings + found, problems + wrong
    return ratings, problems


@pytest.mark.parametrize("delimiter, encoding", [(",", "utf-8"), (";", "utf-8-sig"), ("\t", "utf-8")])
def test_sheets_are_read_back_and_names_come_from_the_key(tmp_path, delimiter, encoding):
    ratings, problems = read_all(*filled(tmp_path, delimiter=delimiter, encoding=encoding))
    assert not problems and len(ratings) == 2 * 2 * 3
    report = aggregate_ratings(ratings, SYSTEMS, 50, 1)
    for number, system in enumerate(SYSTEMS):
        row = report["fluency"]["systems"][system]
        assert row == {"mean": number + 2, "interval": [number + 2] * 2, "summaries": 2, "ratings": 4}
    assert report["salience"]["alpha"] == {"ordinal": 1, "interval": 1}


@pytest.mark.parametrize(
    "row, column, value, words",
    [
        (1, 5, "6", 'line 2: salience is "6", must be a whole number from 1 to 5'),
        (2, 6, "4.5", 'line 3: fluency is "4.5"'),
        (2, 6, "nan", 'line 3: fluency is "nan"'),
        (2, 6, "=1+1", 'line 3: fluency is "=1+1"'),
        (3, 1, "999", 'line 4: annotator-1 did not receive item "999", summary "C"'),
        (3, 2, "Z", 'summary "Z"'),
        (1, 0, "nobody", 'line 2: the key has no annotator "nobody"'),
    ],
)
def test_wrong_lines_are_named(tmp_path, row, column, value, words):
    def change(rows):
        rows[row][column] = value
        return rows

    key, paths = filled(tmp_path, change)
    ratings, problems = read_all(key, paths[:1])
    assert len(problems) == 1 and words in problems[0] and str(paths[0]) in problems[0]
    assert len(ratings) == 5


def test_repeated_lines_are_named_and_empty_cells_are_missing(tmp_path):
    def change(rows):
        rows[1][5] = ""
        rows[2][5:] = ["", "", ""]
        return [*rows, rows[3], []]

    key, paths = filled(tmp_path, change)
    ratings, problems = read_all(key, paths[:1])
    assert len(problems) == 1 and "line 8: annotator-1" in problems[0] and "already in" in problems[0]
    assert sorted(len(rating.values) for rating in ratings) == [2, 3, 3, 3, 3]


def test_an_empty_sheet_leaves_the_place_to_the_returned_ratings(tmp_path):
    key, (given_out, *_) = filled(tmp_path, lambda rows: [rows[0], *([*row[:5], "", "", ""] for row in rows[1:])])
    given_out = given_out.rename(tmp_path / "empty.csv")
    _, (returned, *_) = filled(tmp_path)
    for order in ([given_out, returned], [returned, given_out], [given_out, given_out, returned]):
        ratings, problems = read_all(key, order)
        assert not problems and len(ratings) == 6


def test_spreadsheet_numbers_are_whole_numbers(tmp_path):
    ratings, problems = read_all(
        *filled(tmp_path, lambda r: [r[0]] + [[*x[:5], *(f"{v}.0" for v in x[5:])] for x in r[1:]])
    )
    assert not problems and ratings[0].values["salience"] in (2, 3, 4)


@settings(max_examples=60)
@given(st.binary(max_size=200))
def test_any_file_is_read_or_refused_in_words(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("any") / "sheet.csv"
    header = b"annotator,item,label,document,summary,salience,fluency,non-repetition\n"
    key = make_blinding_key(1, ["s"], 1, 1, 1, 1)
    for content in (data, header + data):
        path.write_bytes(content)
        try:
            ratings, problems = read_sheet(str(path), key, {})
        except ValueError as error:
            assert str(path) in str(error) and "line " in str(error)
        else:
            assert not ratings and all(str(path) in problem for problem in problems)
            lines = [row for row in csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")) if any(row)]
            assert problems or len(lines) <= 1 or not any(cell.strip() for row in lines[1:] for cell in row)


def test_means_are_of_summaries_not_of_ratings():
    # One summary has the ratings 1 and 3, another has 5. The mean is (2 + 5) / 2, and not (1 + 3 + 5) / 3.
    ratings = [Rating(who, item, "s", {"fluency": v}) for who, item, v in (("a", 1, 1), ("b", 1, 3), ("a", 2, 5))]
    report = aggregate_ratings(ratings, ["s", "t"], 200, 1)
    row = report["fluency"]["systems"]["s"]
    assert row["mean"] == 3.5 and row["interval"] == pytest.approx([2, 5]) and row["ratings"] == 3
    assert report["fluency"]["systems"]["t"] == {"mean": None, "interval": None, "summaries": 0, "ratings": 0}
    assert report["salience"]["systems"]["s"]["mean"] is None


# --- the command ---


@pytest.fixture
def texts(tmp_path):
    for name in ("src", *SYSTEMS):
        (tmp_path / name).write_text("".join(f"=cmd('{name}') {i}\n" for i in range(9)))
    return [f"--source={tmp_path / 'src'}", *(f"--system={name}={tmp_path / name}" for name in SYSTEMS)]


def test_command_makes_blind_sheets_and_scores_them(texts, tmp_path, capsys):
    out, key = tmp_path / "sheets", tmp_path / "secret" / "key.json"
    options = ["--items=6", "--annotators=3", "--each=4", f"--out={out}", f"--key={key}"]
    assert main(["make", *texts, *options]) == 0
    assert sorted(path.name for path in out.iterdir()) == [
        f"annotator-{n}.{kind}" for n in (1, 2, 3) for kind in ("csv", "html")
    ]
    orders = json.loads(key.read_text())["sheets"]
    sheets = sorted(out.glob("*.csv"))
    for path in sheets:
        text = path.read_text(encoding="utf-8-sig")
        assert ",=cmd" not in text and ",'=cmd" in text
        rows = list(csv.reader(io.StringIO(text, newline="")))
        for row in rows[1:]:
            system = orders[row[0].partition(" ")[0]][row[1]][row[2]]
            # The summary under the letter belongs to that system.
            assert row[4] == f"'=cmd('{system}') {int(row[1]) - 1}"
            row[5:] = [str(1 + SYSTEMS.index(system)), "3", "4"]
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows(rows)
    capsys.readouterr()
    saved = tmp_path / "report.json"
    assert main(["score", "--key", str(key), "--json", str(saved), *map(str, sheets)]) == 0
    printed = capsys.readouterr().out
    report = json.loads(saved.read_text())
    means = [report["criteria"]["salience"]["systems"][name]["mean"] for name in SYSTEMS]
    assert means == [1, 2, 3] and "2.00 [2.00, 2.00]" in printed and "108 of 108 ratings" in printed
    assert report["signature"] in printed and "annotators:3/3" in report["signature"]
    # The key of another run with the same number of sheets would swap the means.
    other = tmp_path / "other.json"
    assert main(["make", *texts, *options[:3], f"--out={tmp_path / 'others'}", f"--key={other}", "--seed=2"]) == 0
    assert main(["score", "--key", str(other), *map(str, sheets)]) != 0
    said = capsys.readouterr()
    assert "the sheet belongs to another key" in said.out + said.err
    # Sheets that have been given out are not overwritten.
    assert main(["make", *texts, *options]) == 2
    assert "exists; its sheets may already have been distributed" in capsys.readouterr().err


@pytest.mark.parametrize("failing", ["format_html_sheet", "make_output_folder"])
def test_sheets_that_could_not_be_written_leave_nothing(texts, tmp_path, capsys, monkeypatch, failing):
    def fail(*given):
        raise OSError(errno.ENOSPC, "No space left on device")

    given = {path.name for path in tmp_path.iterdir()}
    options = ["--items=2", f"--out={tmp_path / 'sheets'}", f"--key={tmp_path / 'key.json'}"]
    with monkeypatch.context() as patched:
        patched.setattr(human_command, failing, fail)
        assert main(["make", *texts, *options]) != 0
    assert "No space left" in capsys.readouterr().err and {path.name for path in tmp_path.iterdir()} == given
    assert main(["make", *texts, *options]) == 0
    assert len(list((tmp_path / "sheets").iterdir())) == 6 and json.loads((tmp_path / "key.json").read_text())


def test_sheets_show_sentences_as_people_read_them(tmp_path, capsys):
    """Marks would be read as part of the text, and would distinguish a system that writes them from one that does
    not.
    """
    texts = {"src": "One. <q> Two <b>.\n", "marked": "a b . <q>c d .\n", "plain": "a b . c d .\n", "raw": "a@@ b\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    systems = [f"--system={name}={tmp_path / name}" for name in list(texts)[1:]]
    common = ["make", f"--source={tmp_path / 'src'}", *systems, "--items=1", "--annotators=1"]
    assert main([*common, f"--out={tmp_path / 'out'}", f"--key={tmp_path / 'key'}"]) == 0
    warning = capsys.readouterr().err
    assert 'raw: 1 of 1 lines contain BPE marks ("@@")' in warning and warning.count("warning") == 1
    table = (tmp_path / "out" / "annotator-1.csv").read_text(encoding="utf-8-sig")
    rows = list(csv.reader(io.StringIO(table, newline="")))
    assert rows[1][3] == "One. Two <b>." and sorted(row[4] for row in rows[1:]) == ["a b . c d ."] * 2 + ["a@@ b"]
    page = (tmp_path / "out" / "annotator-1.html").read_text(encoding="utf-8")
    assert page.count("<p>a b . c d .</p>") == 2 and "&lt;q&gt;" not in page and "One. Two &lt;b&gt;." in page
    kept = [f"--out={tmp_path / 'o'}", f"--key={tmp_path / 'k'}", "--sentence-mark", "", "--quiet"]
    assert main([*common, *kept]) == 0
    assert "a b . &lt;q&gt;c d ." in (tmp_path / "o" / "annotator-1.html").read_text()
    assert capsys.readouterr().err == ""


def test_command_names_wrong_lines_and_goes_on_only_if_told(tmp_path, capsys):
    def change(rows):
        rows[1][5] = "9"
        return rows

    key, paths = filled(tmp_path, change)
    (tmp_path / "key.json").write_text(json.dumps(key))
    command = ["score", "--key", str(tmp_path / "key.json"), *map(str, paths)]
    assert main(command) == 2
    error = capsys.readouterr().err
    assert error.count("line 2: salience") == 2 and "2 invalid lines; correct them" in error
    assert main([*command, "--skip-malformed"]) == 0
    assert "left-out:2" in capsys.readouterr().out


def test_command_refuses_what_is_no_key_or_sheet(texts, tmp_path, capsys):
    for content in ("{", "[]", '{"format": 1}', '{"format": 1, "systems": [], "sheets": {"a": {"1": {"A": "x"}}}}'):
        (tmp_path / "key").write_text(content)
        assert main(["score", "--key", str(tmp_path / "key"), "x.csv"]) == 2
        assert "not a key" in capsys.readouterr().err
    for inside in ("", "k.json", "deeper/still/k.json"):
        out, key = tmp_path / "s", tmp_path / "s" / inside
        assert main(["make", *texts, "--items=2", f"--out={out}", f"--key={key}"]) == 2
        assert "choose a path outside" in capsys.readouterr().err and not out.exists()
    key, paths = filled(tmp_path)
    (tmp_path / "key").write_text(json.dumps(key))
    paths[0].write_text("a,b\n1,2\n")
    assert main(["score", "--key", str(tmp_path / "key"), str(paths[0])]) == 2
    assert f"line 1: no column annotator, item, label, {', '.join(CRITERIA)}" in capsys.readouterr().err


def test_means_do_not_depend_on_the_order_of_sheets():
    rng = np.random.default_rng(0)
    ratings = [
        Rating(f"a{n % 3}", int(rng.integers(1, 5)), SYSTEMS[n % 2], {"fluency": int(rng.integers(1, 6))})
        for n in range(30)
    ]
    unique = list({(r.annotator, r.item, r.system): r for r in ratings}.values())
    assert aggregate_ratings(unique, SYSTEMS, 20, 1) == aggregate_ratings(unique[::-1], SYSTEMS, 20, 1)
