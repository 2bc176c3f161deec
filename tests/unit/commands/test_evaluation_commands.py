"""etads-rouge, etads-compare and etads-results: their output, options, verdicts, and refusals."""

import csv
import io
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from documented import ROOT
from test_rouge import HYPOTHESES, REFERENCES

from fairseq_etads.commands import analyse as analysis_command
from fairseq_etads.commands.compare import main as compare_main
from fairseq_etads.commands.results import main as results_main
from fairseq_etads.commands.rouge import main as rouge_main
from fairseq_etads.evaluation import rouge
from fairseq_etads.summarizer.folder.model_card import _format_score_rows


def write(path, lines):
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.fixture
def files(tmp_path):
    return write(tmp_path / "hyp.txt", HYPOTHESES), write(tmp_path / "ref.txt", REFERENCES)


def test_command_prints_and_writes_the_report(files, tmp_path, capsys):
    assert rouge_main(list(files)) == 0
    out, err = capsys.readouterr()
    assert rouge(HYPOTHESES, REFERENCES).format_table() in out and err == ""
    saved = tmp_path / "scores.json"
    assert rouge_main([*files, files[1], "--format", "json", "--json", str(saved)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(saved.read_text())
    assert found.pop("hypothesis_file") == files[0] and found.pop("reference_files") == [files[1], files[1]]
    assert found == json.loads(json.dumps(rouge(HYPOTHESES, [REFERENCES, REFERENCES]).to_dict()))
    assert rouge_main([*files, files[0], "--duc75"]) == 0
    expected = rouge(HYPOTHESES, [REFERENCES, HYPOTHESES], byte_limit=75, multi="average")
    assert capsys.readouterr().out.endswith(expected.format_table("recall") + "\n")


def test_files_with_a_summary_each_are_paired_by_their_ids(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    summaries, references = {"b": "a b .\nc d .\n", "a": "e f .\n"}, {"a": "e g .\n", "b": "c d .\na x .\n"}
    for suffix, texts in (("dec", summaries), ("ref", references)):
        Path(suffix).mkdir()
        for name, text in texts.items():
            Path(suffix, f"{name}.{suffix}").write_text(text)
    write(Path("h"), ["e f .", "a b . <q> c d ."])
    write(Path("r"), ["e g .", "c d . <q> a x ."])
    tables = []
    for given in (["dec/*.dec", "ref/*.ref"], ["h", "r"]):
        assert rouge_main(given) == 0
        tables.append(capsys.readouterr().out.partition("\n\n")[2])
    assert tables[0] == tables[1]
    assert rouge_main(["dec", "ref"]) == 2, "as they are, the names differ"
    assert "only one of them has a.dec" in capsys.readouterr().err


def test_scores_of_every_line_are_written(tmp_path):
    files = [write(tmp_path / "h", ["a b", "", "c d e"]), write(tmp_path / "r", ["a b", "x", "c d f"])]
    for suffix in ("jsonl", "tsv"):
        assert rouge_main([*files, "--per-example", str(tmp_path / f"lines.{suffix}")]) == 0
    found = [json.loads(line)["rouge2"]["f1"] for line in (tmp_path / "lines.jsonl").open()]
    rows = csv.DictReader((tmp_path / "lines.tsv").open(), delimiter="\t")
    assert found == [float(row["rouge2_f1"]) for row in rows] == pytest.approx([100, 0, 50])


def test_without_resamples_there_are_no_intervals(files, tmp_path, capsys, monkeypatch):
    """For many lines, resampling takes most of the time."""
    drawn = "bootstrap_intervals"
    monkeypatch.setattr(sys.modules[rouge.__module__], drawn, lambda *_: pytest.fail("drawn nevertheless"))
    assert rouge_main([*files, "--bootstrap", "0", "--json", str(tmp_path / "scores.json")]) == 0
    table = capsys.readouterr().out
    assert "interval" not in table and "[" not in table
    report = json.loads((tmp_path / "scores.json").read_text())
    assert {score["f1_interval"] for score in report["scores"].values()} == {None}
    assert "not computed" in "\n".join(_format_score_rows(report))


def test_irregular_forms_are_read_from_the_folder_that_is_named(tmp_path, capsys):
    lists = tmp_path / "data" / "WordNet-2.0-Exceptions"
    lists.mkdir(parents=True)
    (tmp_path / "ROUGE-1.5.5.pl").touch()
    for name in ("adj", "adv", "noun", "verb"):
        write(lists / f"{name}.exc", ["zebras yak"])
    files = write(tmp_path / "hyp", ["zebras"]), write(tmp_path / "ref", ["yak"])
    assert rouge_main([*files, "--irregular", "yes", "--rouge-home", str(tmp_path), "--metrics", "1"]) == 0
    assert "100.00" in capsys.readouterr().out


def test_a_dash_is_standard_input_which_can_be_read_once(tmp_path, capsys, monkeypatch):
    reference = write(tmp_path / "r", ["a b", "c"])
    system = ["--reference", reference, "--system", "ours=-"]
    for program, arguments, status in (
        (rouge_main, ["-", reference], 0),
        (rouge_main, [reference, "-"], 0),
        (compare_main, [reference, "-", reference, "--bootstrap", "10"], 0),
        (analysis_command.main, ["--source", reference, *system, "--bootstrap", "10"], 0),
        (rouge_main, ["-", "-"], 2),
        (compare_main, ["-", reference, "-"], 2),
    ):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a b\nc\n")))
        assert program(arguments) == status
        out, err = capsys.readouterr()
        assert "standard input (-) is given twice" in err if status else "100.00" in out


def test_a_missing_perl_is_named(files, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert rouge_main([*files, "--backend", "perl"]) == 2
    assert "there is no perl on PATH" in capsys.readouterr().err


# --- etads-compare ---


def compare(tmp_path, *arguments):
    """Compare systems; returns the report."""
    saved = tmp_path / "report.json"
    assert compare_main([*arguments, "--json", str(saved)]) == 0
    return json.loads(saved.read_text())


def test_command_compares(tmp_path, capsys):
    texts = [["the cat sat", "dogs bark", "it rains"], ["the cat", "dogs", "it snows"]]
    first, second = (write(tmp_path / name, lines) for name, lines in zip("ab", texts))
    report = compare(tmp_path, first, second, first, "--metrics", "1,L", "--bootstrap", "100")
    assert list(report["scores"]) == ["rouge1", "rougeL"]
    row, lower = report["scores"]["rouge1"], rouge(*texts[::-1]).scores["rouge1"].f1
    assert [row["first"], row["second"], row["difference"]] == pytest.approx([100, lower, 100 - lower])
    assert capsys.readouterr().out.strip().endswith(report["signature"])
    assert compare_main([first, second, first, write(tmp_path / "test.target", texts[0])]) == 0
    assert "etads-rouge REF --system NAME=FILE compares several systems" in capsys.readouterr().err


def test_families_of_documents_are_drawn_together(tmp_path, capsys):
    """Six copies of a document count as one document, so their gain proves nothing."""
    better = write(tmp_path / "a", ["the cat sat"] * 6 + ["it snows"])
    worse = write(tmp_path / "b", ["the cat"] * 6 + ["it snows"])
    references = write(tmp_path / "ref", ["the cat sat"] * 6 + ["it rains"])
    families = write(tmp_path / "families", ["cat\ttest"] * 6 + ["rain\t-"])
    systems = [better, worse, references, "--bootstrap", "999"]
    assert compare(tmp_path, *systems)["scores"]["rouge1"]["p_randomisation"] < 0.05
    report = compare(tmp_path, *systems, "--families", families)
    assert report["scores"]["rouge1"]["p_randomisation"] > 0.5 and "|families:2|" in report["signature"]
    assert f"warning: fewer than 10 families in {families}" in capsys.readouterr().err
    assert compare_main([better, worse, references, "--families", write(tmp_path / "short", ["cat"])]) == 2
    assert "has 1 lines, but there are 7 documents" in capsys.readouterr().err


CLAIM = {"paper": "A", "text": "it helps", "where": "T2", "first": "new", "second": "old", "published": 1.3}
METRICS = ("rouge1", "rouge2", "rougeL")


def write_records(folder, system, seeds, gain=0.0, corpus="news", first_half=0.0):
    """Write records of 40 documents, which are easy and difficult for all systems."""
    (folder / corpus).mkdir(parents=True, exist_ok=True)
    for seed in range(1, seeds + 1):
        scores = np.linspace(30, 60, 40) + gain + np.random.default_rng([seed, len(system)]).normal(scale=0.3, size=40)
        scores[:20] += first_half
        record = {"f1": {metric: (scores - n).round(2).tolist() for n, metric in enumerate(METRICS)}}
        (folder / corpus / f"{system}-{seed}.json").write_text(json.dumps(record), encoding="utf-8")


def write_claims(folder, *more, first=CLAIM, **about):
    (folder / "claims.json").write_text(json.dumps({"claims": [first, *more], **about}), encoding="utf-8")


def said(capsys, *words):
    assert results_main([*map(str, words), "--bootstrap", "300"]) == 0
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
    write_records(tmp_path, "new", seeds, gain, first_half=30)
    write_records(tmp_path, "old", 3)
    write_claims(tmp_path)
    marks = ["seen", "test"] * 10 + ["-"] * 20
    lines = "".join(f"family-{n // 2}\t{mark}\n" for n, mark in enumerate(marks))
    (tmp_path / "news-families.tsv").write_text(lines, encoding="utf-8")
    text = said(capsys, tmp_path)
    assert "40 test documents in 20 families; 20 in 10 families count in tests" in text
    (row,) = [line for line in text.splitlines() if line.startswith("A: it helps")]
    assert row.rpartition("  ")[2].startswith(verdict) and f"  {seeds}, 3  " in row
    assert float(row.split(" [")[0].split()[-1]) == pytest.approx(gain, abs=0.2)


def test_scores_are_means_over_seeds_with_intervals(tmp_path, capsys):
    write_records(tmp_path, "old", 2)
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
        write_records(tmp_path, "new", 3, 0.1, corpus)
        write_records(tmp_path, "old", 3, 0, corpus)

    def ratio(corpus):
        (row,) = [line for line in said(capsys, tmp_path, "--corpus", corpus).splitlines() if line.startswith("A: it")]
        plain, corrected = (float(cell) for cell in row.split("] ")[1].split()[:2])
        return corrected / plain

    write_claims(tmp_path)
    assert ratio("news") == pytest.approx(2, abs=0.05), "the comparisons on both corpora"
    planned = [{**CLAIM, "second": second, "corpora": ["plan"]} for second in ("missing", "other")]
    write_claims(tmp_path, *planned, planned=["plan"])
    assert ratio("news") == 1, "the only comparison without a plan"
    write_claims(tmp_path, *planned, first={**CLAIM, "corpora": ["plan"]}, planned=["plan"])
    assert ratio("plan") == pytest.approx(3, abs=0.05), "planned comparisons without records, too"


def test_a_page_keeps_its_text_and_is_checked(tmp_path, capsys):
    for corpus in ("news", "more"):
        write_records(tmp_path, "new", 3, 3, corpus)
        write_records(tmp_path, "old", 3, 0, corpus)
    write_claims(tmp_path, corpora={"more": "More news", "news": "News"})
    page = tmp_path / "page.md"
    assert "3 tables" in said(capsys, tmp_path, "--page", page)
    text = page.read_text(encoding="utf-8").replace("# Results", "# Mine\n\nMy words.")
    assert text.index("| More news") < text.index("| News") and text.count("**holds**") == 2
    page.write_text(text, encoding="utf-8")
    for option in ("--page", "--check"):
        said(capsys, tmp_path, option, page)
        assert page.read_text(encoding="utf-8") == text
    page.write_text(text.replace("**holds**", "fails"), encoding="utf-8")
    assert results_main([str(tmp_path), "--check", str(page), "--bootstrap", "300"]) == 1
    assert "the records give another line 9" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name, content, words, message",
    [
        ("news/new-1.json", "{", "", "news/new-1.json is damaged"),
        ("news/new-1.json", '{"f1": {"rouge1": [1], "rouge2": [1], "rougeL": [1]}}', "", "old-1.json has scores of 40"),
        ("news-families.tsv", "a\nb\n", "", "has 2 lines, but there are 40"),
        ("claims.json", '{"claims": [{"paper": "A"}]}', "", "claims.json is damaged or not a list of claims"),
        ("page", "words", "--page page", "page: mark the place of each table"),
        ("page", "<!-- etads results: systems x -->\n<!-- end -->", "--check page", "no records for the table"),
    ],
)
def test_errors_name_the_file(name, content, words, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_records(tmp_path, "old", 1)
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert results_main([".", *words.split()]) == 2
    out, error = capsys.readouterr()
    assert not out and error.startswith("etads-results: ") and error.count("\n") == 1 and message in error


def test_the_page_of_this_project_is_what_its_records_give(tmp_path, capsys):
    """The whole page except intervals and p-values of tests, which take longer: the workflow checks them."""
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    (tmp_path / "page.md").write_text(page, encoding="utf-8")
    assert results_main([str(ROOT / "results"), "--page", str(tmp_path / "page.md"), "--bootstrap", "2"]) == 0
    made = (tmp_path / "page.md").read_text(encoding="utf-8")
    one, other = (re.sub(r"(?<=\.\d\d) \[[-+][^|]*|[ -]+", " ", text) for text in (made, page))
    assert one == other
    simulated = json.loads((ROOT / "results" / "comparisons.json").read_text(encoding="utf-8"))["corpora"].values()
    tests = [test for corpus in simulated for test in corpus["tests"] if min(test["trainings"]) >= 3]
    errors = [100 * test["rates"][0]["below_level"] for test in tests]
    assert f"p < 0.05 in {min(errors):.0f} to {max(errors):.0f} %" in page
