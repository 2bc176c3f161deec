"""etads-results: tables and verdicts from records, pages, and errors at the entrance."""

import json
import re

import numpy as np
import pytest
from documented import ROOT

from fairseq_etads.commands.results import main

CLAIM = {"paper": "A", "text": "it helps", "where": "T2", "first": "new", "second": "old", "published": 1.3}
METRICS = ("rouge1", "rouge2", "rougeL")


def write(folder, system, seeds, gain=0.0, corpus="news", first_half=0.0):
    """Write records of 40 documents, which are easy and difficult for all systems."""
    (folder / corpus).mkdir(parents=True, exist_ok=True)
    for seed in range(1, seeds + 1):
        scores = np.linspace(30, 60, 40) + gain + np.random.default_rng([seed, len(system)]).normal(scale=0.3, size=40)
        scores[:20] += first_half
        record = {"f1": {metric: (scores - n).round(2).tolist() for n, metric in enumerate(METRICS)}}
        (folder / corpus / f"{system}-{seed}.json").write_text(json.dumps(record), encoding="utf-8")


def claims(folder, *more, first=CLAIM, **about):
    (folder / "claims.json").write_text(json.dumps({"claims": [first, *more], **about}), encoding="utf-8")


def said(capsys, *words):
    assert main([*map(str, words), "--bootstrap", "300"]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    "gain, seeds, verdict",
    [
        (3, 3, "holds"),
        (-3, 3, "contradicted, +1.30 excluded"),
        (0, 3, "undecided, +1.30 excluded"),
        (9, 2, "no verdict"),
    ],
)
def test_verdicts_follow_from_the_scores(gain, seeds, verdict, tmp_path, capsys):
    """A gain on documents on which choices were made does not count."""
    write(tmp_path, "new", seeds, gain, first_half=30)
    write(tmp_path, "old", 3)
    claims(tmp_path)
    marks = ["seen", "test"] * 10 + ["-"] * 20
    lines = "".join(f"family-{n // 2}\t{mark}\n" for n, mark in enumerate(marks))
    (tmp_path / "news-families.tsv").write_text(lines, encoding="utf-8")
    text = said(capsys, tmp_path)
    assert "40 test documents in 20 families; 20 in 10 families count in tests" in text
    (row,) = [line for line in text.splitlines() if line.startswith("A: it helps")]
    assert row.rpartition("  ")[2].startswith(verdict) and f"  {seeds}, 3  " in row
    assert float(row.split(" [")[0].split()[-1]) == pytest.approx(gain, abs=0.2)


def test_scores_are_means_over_seeds_with_intervals(tmp_path, capsys):
    write(tmp_path, "old", 2)
    exact = {metric: {"f1": 41.234, "f1_interval": [40.001, 42.349]} for metric in METRICS}
    record = {"f1": {metric: [41.2, 41.27] * 20 for metric in METRICS}, "rouge": {"scores": exact, "signature": "R|x"}}
    (tmp_path / "news/new-1.json").write_text(json.dumps(record))
    line = json.dumps({"line": 1, **{metric: {"f1": 75.0, "recall": 70.0} for metric in METRICS}})
    (tmp_path / "news/lead-3-1.jsonl").write_text(f"{line}\n" * 40)
    text = said(capsys, tmp_path)
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if "[" in line}
    assert [*rows] == ["lead-3", "old", "new"] and rows["new"] == ["1", *["41.23", "[40.00,", "42.35]"] * 3]
    assert rows["lead-3"] == ["1", *["75.00", "[75.00,", "75.00]"] * 3]
    mean, low, high = (float(cell.strip("[,]")) for cell in rows["old"][1:4])
    assert mean == pytest.approx(45, abs=0.1) and 41 < low < 43 < 47 < high < 49


def test_p_values_are_corrected_for_the_claims_of_a_paper(tmp_path, capsys):
    for corpus in ("news", "plan"):
        write(tmp_path, "new", 3, 0.1, corpus)
        write(tmp_path, "old", 3, 0, corpus)

    def ratio(corpus):
        (row,) = [line for line in said(capsys, tmp_path, "--corpus", corpus).splitlines() if line.startswith("A: it")]
        plain, corrected = (float(cell) for cell in row.split("] ")[1].split()[:2])
        return corrected / plain

    claims(tmp_path)
    assert ratio("news") == pytest.approx(2, abs=0.05), "the comparisons on both corpora"
    planned = [{**CLAIM, "second": second, "corpora": ["plan"]} for second in ("missing", "other")]
    claims(tmp_path, *planned, planned=["plan"])
    assert ratio("news") == 1, "the only comparison without a plan"
    claims(tmp_path, *planned, first={**CLAIM, "corpora": ["plan"]}, planned=["plan"])
    assert ratio("plan") == pytest.approx(3, abs=0.05), "planned comparisons without records, too"


def test_a_page_keeps_its_text_and_is_checked(tmp_path, capsys):
    for corpus in ("news", "more"):
        write(tmp_path, "new", 3, 3, corpus)
        write(tmp_path, "old", 3, 0, corpus)
    claims(tmp_path, corpora={"more": "More news", "news": "News"})
    page = tmp_path / "page.md"
    assert "3 tables" in said(capsys, tmp_path, "--page", page)
    text = page.read_text(encoding="utf-8").replace("# Results", "# Mine\n\nMy words.")
    assert text.index("| More news") < text.index("| News") and text.count("**holds**") == 2
    page.write_text(text, encoding="utf-8")
    for option in ("--page", "--check"):
        said(capsys, tmp_path, option, page)
        assert page.read_text(encoding="utf-8") == text
    page.write_text(text.replace("**holds**", "fails"), encoding="utf-8")
    assert main([str(tmp_path), "--check", str(page), "--bootstrap", "300"]) == 1
    assert "the records give another line 9" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name, content, words, message",
    [
        ("news/new-1.json", "{", "", "news/new-1.json is damaged"),
        ("news/new-1.json", '{"f1": {"rouge1": [1], "rouge2": [1], "rougeL": [1]}}', "", "old-1.json has scores of 40"),
        ("news-families.tsv", "a\nb\n", "", "has 2 lines, but there are 40"),
        ("claims.json", '{"claims": [{"paper": "A"}]}', "", "claims.json is damaged or not a list of claims"),
        ("other", "", "--corpus nws", "--corpus nws: choose one of news"),
        ("page", "words", "--page page", "page: mark the place of each table"),
        ("page", "<!-- etads results: systems x -->\n<!-- end -->", "--check page", "no records for the table"),
        ("page", "", "--check page --page page", "choose one"),
    ],
)
def test_errors_name_the_file(name, content, words, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "old", 1)
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert main([".", *words.split()]) == 2
    out, error = capsys.readouterr()
    assert not out and error.startswith("etads-results: ") and error.count("\n") == 1 and message in error


def test_the_page_of_this_project_is_what_its_records_give(tmp_path, capsys):
    """The whole page except intervals and p-values of tests, which take longer: the workflow checks them."""
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    (tmp_path / "page.md").write_text(page, encoding="utf-8")
    assert main([str(ROOT / "results"), "--page", str(tmp_path / "page.md"), "--bootstrap", "2"]) == 0
    made = (tmp_path / "page.md").read_text(encoding="utf-8")
    one, other = (re.sub(r"(?<=\.\d\d) \[[-+][^|]*|[ -]+", " ", text) for text in (made, page))
    assert one == other
    simulated = json.loads((ROOT / "results" / "comparisons.json").read_text(encoding="utf-8"))["corpora"].values()
    tests = [test for corpus in simulated for test in corpus["tests"] if min(test["trainings"]) >= 3]
    errors = [100 * test["rates"][0]["below_level"] for test in tests]
    assert f"p < 0.05 in {min(errors):.0f} to {max(errors):.0f} %" in page
