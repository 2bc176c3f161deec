"""Each table of measured figures names its source, and has the figures of the record that it names."""

import json
import re
import sys
from pathlib import Path
from typing import Any, Iterator, List, NamedTuple

import pytest
from documented import ROOT

PAGES = [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *sorted(ROOT.glob("docs/*.md"))]
FIGURE = re.compile(r"(?<![\w.\-–])[-+−]?\d+(?:\.\d+(?:e-?\d+)?|e-?\d+)(?![\w.])")
SETTINGS = ("Option", "`--arch`", "Assumption")
"""First headings of tables of settings, which are not measured."""
FORMS = (
    (r"`((?:results|benchmarks/results)/[\w./-]*)`", "a record"),
    (r"printed by `([\w./-]+)[^`]*`.*no record", "a command that prints it"),
    (r"checked by `([\w./-]+)`", "a test that checks it"),
    (r"by hand.*no record", "none"),
    (r"the papers?\.", "published figures"),
)


class Table(NamedTuple):
    """A table of a page.

    Attributes:
        page: path of the page.
        rows: lines of the table without the two of the heading.
        source: paragraph beginning with "Source: " directly below or above; empty without one.
        generated: the comment above says which benchmark writes the table.
    """

    page: Path
    heading: str
    rows: List[str]
    source: str
    generated: bool

    @property
    def is_measured(self) -> bool:
        return not self.heading.split("|")[1].strip().startswith(SETTINGS) and bool(self.figures())

    def figures(self) -> List[str]:
        """Decimal figures outside of code."""
        return [figure for row in self.rows for figure in figures_of(row)]

    def __str__(self) -> str:
        return f"{self.page.name}: {self.heading}"


def figures_of(text: str) -> List[str]:
    return FIGURE.findall(re.sub(r"`[^`]*`|,(?=\d{3})", "", text))


def tables_of(page: Path, text: str) -> Iterator[Table]:
    """All tables of a page, outside of code blocks."""
    text = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    paragraphs = [part.strip("\n") for part in re.split(r"\n\s*\n", text)]
    generated = [number for number, part in enumerate(paragraphs) if re.fullmatch(r"<!-- .* --table -->", part)]
    kept = [(number, part) for number, part in enumerate(paragraphs) if not part.startswith("<!--")]
    for place, (number, part) in enumerate(kept):
        if part.startswith("|"):
            around = [kept[other][1] for other in (place + 1, place - 1) if 0 <= other < len(kept)]
            source = next((" ".join(other.split()) for other in around if other.startswith("Source: ")), "")
            heading, _, *rows = part.split("\n")
            yield Table(page, heading, rows, source, number - 1 in generated)


def measured() -> List[Table]:
    tables = [table for page in PAGES for table in tables_of(page, page.read_text(encoding="utf-8"))]
    return [table for table in tables if table.is_measured]


def complaint(table: Table) -> str:
    """Problem with the source of a table; empty if there is none."""
    if not table.source:
        return "no line 'Source: …' directly below or above"
    matches = [match for form, _ in FORMS for match in re.finditer(form, table.source)]
    if not matches:
        return f"{table.source!r} is none of: {', '.join(name for _, name in FORMS)}"
    named = [match[1] for match in matches if match.re.groups]
    missing = [path for path in named if not any((ROOT / folder / path).exists() for folder in ("", "scripts"))]
    return f"{missing} not in the repository" if missing else ""


@pytest.mark.parametrize("table", measured(), ids=str)
def test_a_table_of_measured_figures_names_its_source(table):
    assert not complaint(table)


def test_tables_without_a_source_or_with_a_missing_one_are_found():
    text = "| system | F1 |\n|---|---|\n| `a` | 1.25 |\n\n{}\n\n| Option | Default |\n|---|---|\n| rate | 0.5 |\n"
    sources = {
        "Some words.": "no line",
        "Source: my memory.": "is none of",
        "Source: `results/nowhere.json`.": "not in the repository",
        "Source: printed by `scripts/nothing.sh`; no record.": "not in the repository",
        "Source: `results/comparisons.json`.": "",
        "Source: by hand; no record.": "",
    }
    for source, expected in sources.items():
        table, settings = tables_of(ROOT / "docs" / "x.md", text.format(source))
        assert table.is_measured and not settings.is_measured
        assert expected in complaint(table) and bool(complaint(table)) == bool(expected)


def numbers_in(record: Any) -> Iterator[float]:
    """All numbers of a record, including ones in its keys and in texts."""
    if isinstance(record, dict):
        for key, value in record.items():
            yield from numbers_in(key)
            yield from numbers_in(value)
    elif isinstance(record, list):
        for value in record:
            yield from numbers_in(value)
    elif isinstance(record, str):
        yield from (float(figure) for figure in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", record))
    elif isinstance(record, (int, float)) and not isinstance(record, bool):
        yield float(record)


def about(record: Any, label: str) -> Iterator[Any]:
    """Parts of a record that a label names: as the key of the part, or as a text in it."""
    if isinstance(record, dict):
        for key, value in record.items():
            if key == label:
                yield value
            else:
                yield from about(value, label)
        if label in [value for value in record.values() if isinstance(value, str)]:
            yield record
    elif isinstance(record, list):
        for value in record:
            yield from about(value, label)


def is_of(figure: str, numbers: List[float]) -> bool:
    """Whether a figure is one of the numbers, or a hundredth of one, to its last digit."""
    value = float(figure.replace("−", "-"))
    mantissa, _, exponent = figure.partition("e")
    digits = len(mantissa.partition(".")[2]) - int(exponent or 0)
    near = 0.501 * 10.0**-digits
    return any(abs(scale * number - value) <= near for number in numbers for scale in (1, 100))


def unrecorded(table: Table, records: List[Any]) -> List[str]:
    """Rows with figures that are missing in the row's part of the records."""
    found = []
    for row in table.rows:
        label = row.split("|")[1].strip().replace("`", "")
        parts = [part for record in records for part in about(record, label)] or records
        numbers = list(numbers_in(parts))
        if not all(is_of(figure, numbers) for figure in figures_of(row)):
            found.append(row)
    return found


def compared() -> List[Table]:
    """Tables that are copied by hand from JSON files. A script writes all of results.md."""
    written = ("results.md",)
    tables = [table for table in measured() if ".json`" in table.source and not table.generated]
    return [table for table in tables if table.page.name not in written]


def records_of(table: Table) -> List[Any]:
    paths = [ROOT / path for path in re.findall(FORMS[0][0], table.source) if path.endswith(".json")]
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


@pytest.mark.parametrize("table", compared(), ids=str)
def test_the_figures_of_a_table_are_those_of_its_record(table):
    found = unrecorded(table, records_of(table))
    if "no record" in table.source:  # then some rows have none, and the source says which
        assert len(found) < sum(bool(figures_of(row)) for row in table.rows)
    else:
        assert not found


def test_another_figure_than_the_records_is_noticed():
    """If a digit of a figure is changed, at least four in five no longer occur in the record."""
    changed = noticed = 0
    for table in compared():
        records = records_of(table)
        right = set(table.rows) - set(unrecorded(table, records))
        for row in right:
            for figure in figures_of(row):
                first = re.search(r"[0-8]", figure)
                if first:
                    other = figure[: first.start()] + str(int(first[0]) + 1) + figure[first.end() :]
                    wrong = table._replace(rows=[row.replace(figure, other)])
                    changed += 1
                    noticed += bool(unrecorded(wrong, records))
    assert changed > 100 and noticed >= 0.8 * changed, f"{noticed} of {changed}"


def test_generated_tables_are_what_their_benchmark_writes(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    page = ROOT / "docs" / "experiments.md"
    text = page.read_text(encoding="utf-8")
    scripts = re.findall(r"^<!-- benchmarks/(\w+)\.py --table -->$", text, re.MULTILINE)
    assert len(scripts) == sum(table.generated for table in measured())
    for script in scripts:
        copy = tmp_path / "page.md"
        copy.write_text(text, encoding="utf-8")
        monkeypatch.setattr(sys, "argv", [script, "--table", "--docs", str(copy)])
        __import__(script).main()
        assert copy.read_text(encoding="utf-8") == text, script
