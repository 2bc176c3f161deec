"""Rating sheets, agreement against hand-computed values, and ratings' correlations with scores against scipy."""

import collections
import csv
import errno
import io
import itertools
import json
import os
import re
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fairseq_etads.commands import human as human_command
from fairseq_etads.commands.correlate import compute_kendall, compute_pearson, compute_spearman, correlate
from fairseq_etads.commands.correlate import main as correlate_main
from fairseq_etads.commands.human import (
    Rating,
    aggregate_ratings,
    escape_formula,
    format_csv_sheet,
    format_html_sheet,
    krippendorff_alpha,
    main,
    make_blinding_key,
    read_sheet,
)

SYSTEMS = ["basic", "etads", "lead"]

# Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), section D: 12 units, 4 observers, missing data
PAPER = """1 2 3 3 2 1 4 1 2 . . .
1 2 3 3 2 2 4 1 2 5 . 3
. 3 3 3 2 3 4 2 2 5 1 .
1 2 3 3 2 4 4 1 2 5 1 ."""


def rows_of(text):
    return list(csv.reader(io.StringIO(text, newline="")))


def test_agreement_is_that_of_the_paper():
    rows = [line.split() for line in PAPER.splitlines()]
    units = [{f"o{o}": int(row[u]) for o, row in enumerate(rows) if row[u] != "."} for u in range(12)]
    assert krippendorff_alpha(units, "ordinal") == pytest.approx(0.815, abs=5e-4)
    assert krippendorff_alpha(units, "interval") == pytest.approx(0.849, abs=5e-4)
    for undefined in ([{"a": 1}, {"b": 2}], [{"a": 2, "b": 2}]):  # without two ratings, or without variation
        assert krippendorff_alpha(undefined, "interval") is None


def test_assignment_is_balanced_seeded_and_shuffled_or_refused():
    key = make_blinding_key(50, SYSTEMS, 12, 6, 4, seed=3)
    assert key == make_blinding_key(50, SYSTEMS, 12, 6, 4, seed=3) != make_blinding_key(50, SYSTEMS, 12, 6, 4, seed=4)
    items = collections.Counter(item for sheet in key["sheets"].values() for item in sheet)
    assert len(items) == 12 and set(items.values()) == {2}
    assert all(1 <= int(item) <= 50 for item in items)
    orders = [tuple(order.values()) for sheet in key["sheets"].values() for order in sheet.values()]
    assert all(sorted(order) == SYSTEMS for order in orders) and len(set(orders)) > 3
    with pytest.raises(ValueError, match="--each 3"):
        make_blinding_key(50, SYSTEMS, 2, 1, 3, seed=1)


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
    rows = rows_of(content)
    assert len(rows) == 2 and rows[1][4].startswith("'=")


def filled(tmp_path, change=lambda rows: rows, delimiter=",", encoding="utf-8", form="{}"):
    """A key and a sheet read back after ``change``, in which each summary of system k (in SYSTEMS) is rated k + 2."""
    key = make_blinding_key(4, SYSTEMS, 2, 2, 2, seed=1)
    outputs = {name: [f"{name} says {i}" for i in range(4)] for name in SYSTEMS}
    paths = []
    for annotator, sheet in key["sheets"].items():
        rows = rows_of(format_csv_sheet(annotator, sheet, [f"document {i}" for i in range(4)], outputs))
        for row in rows[1:]:
            row[5:] = [form.format(SYSTEMS.index(sheet[row[1]][row[2]]) + 2)] * 3
        paths.append(tmp_path / f"{annotator}.csv")
        with open(paths[-1], "w", newline="", encoding=encoding) as file:
            csv.writer(file, delimiter=delimiter).writerows(change(rows))
    return key, paths


def read_all(key, paths):
    seen = {}
    found = [read_sheet(str(path), key, seen) for path in paths]
    return tuple(list(itertools.chain(*each)) for each in zip(*found))


@pytest.mark.parametrize(
    "saved", [{}, {"delimiter": ";", "encoding": "utf-8-sig", "form": "{}.0"}, {"delimiter": "\t"}]
)
def test_sheets_are_read_back_and_names_come_from_the_key(tmp_path, saved):
    ratings, problems = read_all(*filled(tmp_path, **saved))
    assert not problems and len(ratings) == 2 * 2 * 3
    report = aggregate_ratings(ratings, SYSTEMS, 50, 1)
    for number, system in enumerate(SYSTEMS):
        row = report["fluency"]["systems"][system]
        assert row == {"mean": number + 2, "interval": [number + 2] * 2, "summaries": 2, "ratings": 4}
    assert report["salience"]["alpha"] == {"ordinal": 1, "interval": 1}


def test_wrong_and_repeated_lines_are_named_and_not_counted_and_empty_cells_are_missing(tmp_path):
    wrong = [(1, 5, "6"), (2, 6, "4.5"), (2, 6, "nan"), (3, 1, "999"), (3, 2, "Z"), (1, 0, "nobody")]

    def change(rows):
        changed = [[*rows[line][:column], value, *rows[line][column + 1 :]] for line, column, value in wrong]
        rows[1][5] = ""
        rows[2][5:] = ["", "", ""]
        return [*rows, rows[3], [], *changed]

    key, paths = filled(tmp_path, change)
    ratings, (repeated, *problems) = read_all(key, paths[:1])
    assert "line 8: annotator-1" in repeated and "already in" in repeated
    assert len(problems) == len(wrong)
    for line, (problem, (_, _, value)) in enumerate(zip(problems, wrong), 10):
        assert f"{paths[0]}, line {line}: " in problem and f'"{value}"' in problem
    assert sorted(len(rating.values) for rating in ratings) == [2, 3, 3, 3, 3]


def test_an_empty_sheet_leaves_the_place_to_the_returned_ratings(tmp_path):
    key, (given_out, *_) = filled(tmp_path, lambda rows: [rows[0], *([*row[:5], "", "", ""] for row in rows[1:])])
    given_out = given_out.rename(tmp_path / "empty.csv")
    _, (returned, *_) = filled(tmp_path)
    ratings, problems = read_all(key, [given_out, returned, given_out])
    assert not problems and len(ratings) == 6


def test_means_are_of_summaries_not_of_ratings_in_any_order():
    """One summary has the ratings 1 and 3, the others 5 and 3: the mean is (2 + 5 + 3) / 3, not (1 + 3 + 5 + 3) / 4."""
    given = (("a", 1, 1), ("b", 1, 3), ("a", 2, 5), ("a", 3, 3))
    ratings = [Rating(who, item, "s", {"fluency": value}) for who, item, value in given]
    report = aggregate_ratings(ratings, ["s", "t"], 5, 1)
    row = report["fluency"]["systems"]["s"]
    assert row["mean"] == pytest.approx(10 / 3) and row["ratings"] == 4
    assert row["interval"][0] < row["mean"] < row["interval"][1]
    assert report["fluency"]["systems"]["t"] == {"mean": None, "interval": None, "summaries": 0, "ratings": 0}
    assert aggregate_ratings(ratings[::-1], ["s", "t"], 5, 1) == report


@pytest.fixture
def make(tmp_path):
    """Words of the command that makes sheets of four of nine documents in ``sheets``, with the key in ``secret``."""
    for name in ("src", *SYSTEMS):
        marked = " <q>" if name in ("src", "etads") else ""
        (tmp_path / name).write_text("".join(f"=cmd('{name}') {i} .{marked} a <b>\n" for i in range(9)))
    files = [f"--source={tmp_path / 'src'}", *(f"--system={name}={tmp_path / name}" for name in SYSTEMS)]
    outputs = [f"--out={tmp_path / 'sheets'}", f"--key={tmp_path / 'secret' / 'key.json'}"]
    return ["make", *files, "--items=6", "--annotators=3", "--each=4", *outputs]


def test_command_makes_blind_sheets_and_scores_them(make, tmp_path, capsys):
    out, key, saved = tmp_path / "sheets", tmp_path / "secret" / "key.json", tmp_path / "report.json"
    assert main(make) == 0
    page = (out / "annotator-1.html").read_text(encoding="utf-8")
    assert page.count(" . a &lt;b&gt;</p>") == 4 * len(SYSTEMS) and "&lt;q&gt;" not in page
    orders = json.loads(key.read_text())["sheets"]
    sheets = [out / f"annotator-{number}.csv" for number in (1, 2, 3)]
    for path in sheets:
        rows = rows_of(path.read_text(encoding="utf-8-sig"))
        assert rows[1][3] == f"'=cmd('src') {int(rows[1][1]) - 1} . a <b>"
        for row in rows[1:]:
            system = orders[row[0].partition(" ")[0]][row[1]][row[2]]
            # The summary under the letter belongs to that system, is no formula, and shows no sentence marks.
            assert row[4] == f"'=cmd('{system}') {int(row[1]) - 1} . a <b>"
            row[5:] = [str(1 + SYSTEMS.index(system)), "3", "4"]
        with open(path, "w", newline="") as file:
            csv.writer(file).writerows(rows)
    assert main(["score", "--key", str(key), "--json", str(saved), *map(str, sheets)]) == 0
    report = json.loads(saved.read_text())["criteria"]["salience"]["systems"]
    assert [report[name]["mean"] for name in SYSTEMS] == [1, 2, 3]
    assert "108 of 108 ratings" in capsys.readouterr().out
    # The key of another run with the same number of sheets would swap the means.
    other = tmp_path / "other.json"
    assert main([*make, f"--out={tmp_path / 'others'}", f"--key={other}", "--seed=2"]) == 0
    assert main(["score", "--key", str(other), *map(str, sheets)]) != 0
    assert "the sheet belongs to another key" in capsys.readouterr().err
    assert main(make) == 2, "sheets that have been given out are not overwritten"


def test_sheets_that_could_not_be_written_leave_nothing(make, tmp_path, monkeypatch):
    (tmp_path / "secret").mkdir()
    before = sorted(tmp_path.rglob("*"))
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(human_command, "format_html_sheet", Mock(side_effect=full))
    assert main(make) != 0
    assert sorted(tmp_path.rglob("*")) == before


def test_command_refuses_what_is_no_key_or_sheet_and_a_key_among_the_sheets(make, tmp_path, capsys):
    key, sheet = tmp_path / "key", tmp_path / "a.csv"
    key.write_text(json.dumps(filled(tmp_path)[0]))
    sheet.write_text("a,b\n1,2\n")
    score = ["score", "--key", str(key), str(sheet)]
    assert main(score) == 2 and f"{sheet}, line 1: no column annotator" in capsys.readouterr().err
    key.write_text('{"format": 1, "systems": [], "sheets": {"a": {"1": {"A": "x"}}}}')
    assert main(score) == 2 and f"{key}: not a key" in capsys.readouterr().err
    assert main([*make, f"--key={tmp_path / 'sheets' / 'deeper/still/k.json'}"]) == 2
    assert "choose a path outside" in capsys.readouterr().err and not (tmp_path / "sheets").exists()


SUMMEVAL = Path(os.environ.get("ETADS_CORPORA", "no folder")) / "summeval" / "summeval.jsonl.xz"


@settings(max_examples=100)
@given(st.integers(3, 8).flatmap(lambda n: st.tuples(*[st.lists(st.integers(0, 4), min_size=n, max_size=n)] * 2)))
def test_correlations_equal_those_of_scipy(rows):
    x, y = np.array(rows, dtype=float)
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert all(np.isnan(compute(x, y)) for compute in (compute_pearson, compute_spearman, compute_kendall))
        return
    assert compute_pearson(x, y) == pytest.approx(stats.pearsonr(x, y)[0])
    assert compute_spearman(x, y) == pytest.approx(stats.spearmanr(x, y)[0])
    assert compute_kendall(x, y) == pytest.approx(stats.kendalltau(x, y)[0])


def test_summaries_are_correlated_within_documents_and_systems_by_their_means():
    ratings = np.array([[1.0, 2, 3], [3, 2, 1], [5, 5, 5]])
    found = correlate(np.array([[10.0, 20, 30], [10, 20, 30], [10, 20, 60]]), ratings, 50, 1)["pearson"]
    assert found["summary"][0] == 0, "1 and -1; the document with equal ratings has no correlation"
    assert np.isnan(correlate(ratings, np.array([[9.0, 9, 9], [1, 2, 3], [3, 2, 1]]), 5, 1)["kendall"]["system"][0])


def test_the_command_reads_ratings(tmp_path, capsys):
    systems = {"a": "the cat sat", "b": "the dog", "c": "rain"}
    human = {"a": {"good": 5}, "b": {"good": 3}, "c": {"good": 1}}
    row = {"references": ["the cat sat", "a cat sat"], "systems": systems, "human": human}
    path = tmp_path / "rated.jsonl"
    path.write_text(f"{json.dumps(row)}\n" * 2)
    assert correlate_main([str(path), "--bootstrap", "5", "--metrics", "1", "--json", str(tmp_path / "out.json")]) == 0
    assert "mean-of:2" in capsys.readouterr().out
    found = json.loads((tmp_path / "out.json").read_text())["correlations"]["rouge1"]["good"]
    assert found["kendall"] == {"summary": [1.0] * 3, "system": [1.0] * 3}
    path.write_text(json.dumps(row) + "\n" + json.dumps({**row, "systems": {"a": "x"}}) + "\n")
    assert correlate_main([str(path)]) != 0 and "line 2" in capsys.readouterr().err


@pytest.mark.skipif(not SUMMEVAL.is_file(), reason="ETADS_CORPORA names no folder with SummEval (Fabbri et al. 2021)")
def test_published_correlations_with_consistency_come_out(tmp_path):
    correlate_main([str(SUMMEVAL), "--bootstrap", "5", "--json", str(tmp_path / "out.json"), "--quiet"])
    found = json.loads((tmp_path / "out.json").read_text())["correlations"]
    values = [found[metric]["consistency"]["spearman"]["summary"][0] for metric in ("rouge1", "rouge2", "rougeL")]
    assert values == pytest.approx([0.160, 0.187, 0.115], abs=0.001)  # as in Liu et al. 2023 (G-Eval), table 1
