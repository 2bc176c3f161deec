"""etads-rouge and etads-compare: their output, options, and refusals."""

import io
import json
import sys
from pathlib import Path

import pytest
from test_rouge import HYPOTHESES, REFERENCES

from fairseq_etads.commands import analyse as analysis_command
from fairseq_etads.commands.compare import main as compare_main
from fairseq_etads.commands.rouge import main
from fairseq_etads.evaluation import rouge
from fairseq_etads.summarizer.folder.model_card import _format_score_rows


def write(path, lines):
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.fixture
def files(tmp_path):
    return write(tmp_path / "hyp.txt", HYPOTHESES), write(tmp_path / "ref.txt", REFERENCES)


def test_command_prints_and_writes_the_report(files, tmp_path, capsys):
    assert main(list(files)) == 0
    out, err = capsys.readouterr()
    assert rouge(HYPOTHESES, REFERENCES).format_table() in out and err == ""
    saved = tmp_path / "scores.json"
    assert main([*files, files[1], "--format", "json", "--json", str(saved)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(saved.read_text())
    assert found.pop("hypothesis_file") == files[0] and found.pop("reference_files") == [files[1], files[1]]
    assert found == json.loads(json.dumps(rouge(HYPOTHESES, [REFERENCES, REFERENCES]).to_dict()))


def test_duc75_is_recall_of_all_references_at_75_bytes(tmp_path, capsys):
    hypothesis = ["word " * 20 + "end"]
    references = [["word " * 3 + "a b c"], ["end of it"]]
    files = [write(tmp_path / f"{i}", lines) for i, lines in enumerate([hypothesis, *references])]
    assert main([*files, "--duc75"]) == 0
    out = capsys.readouterr().out
    expected = rouge(hypothesis, references, byte_limit=75, multi="average")
    assert out.endswith(expected.format_table("recall") + "\n") and "95 % interval of R" in out
    assert expected.scores["rouge1"].recall == pytest.approx(100 * 3 / 9)  # "end" is not among the 15 words in 75 bytes


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
        assert main(given) == 0
        tables.append(capsys.readouterr().out.partition("\n\n")[2])
    assert tables[0] == tables[1]
    assert main(["dec", "ref"]) == 2, "as they are, the names differ"
    assert "only one of them has a.dec" in capsys.readouterr().err


def test_scores_of_every_line_are_written(tmp_path):
    files = [write(tmp_path / "h", ["a b", "", "c d e"]), write(tmp_path / "r", ["a b", "x", "c d f"])]
    rows = {}
    for suffix in ("jsonl", "tsv"):
        assert main([*files, "--per-example", str(tmp_path / f"lines.{suffix}")]) == 0
        rows[suffix] = (tmp_path / f"lines.{suffix}").read_text().splitlines()
    assert [json.loads(line)["rouge2"]["f1"] for line in rows["jsonl"]] == pytest.approx([100, 0, 50])
    column = rows["tsv"][0].split("\t").index("rouge2_f1")
    assert [float(line.split("\t")[column]) for line in rows["tsv"][1:]] == pytest.approx([100, 0, 50])


def test_without_resamples_there_are_no_intervals(files, tmp_path, capsys, monkeypatch):
    """For many lines, resampling takes most of the time."""
    drawn = "bootstrap_intervals"
    monkeypatch.setattr(sys.modules[rouge.__module__], drawn, lambda *_: pytest.fail("drawn nevertheless"))
    assert main([*files, "--bootstrap", "0", "--json", str(tmp_path / "scores.json")]) == 0
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
    assert main([*files, "--irregular", "yes", "--rouge-home", str(tmp_path), "--metrics", "1"]) == 0
    assert "100.00" in capsys.readouterr().out


def test_a_dash_is_standard_input_which_can_be_read_once(tmp_path, capsys, monkeypatch):
    reference = write(tmp_path / "r", ["a b", "c"])
    system = ["--reference", reference, "--system", "ours=-"]
    for program, arguments, status in (
        (main, ["-", reference], 0),
        (main, [reference, "-"], 0),
        (compare_main, [reference, "-", reference, "--bootstrap", "10"], 0),
        (analysis_command.main, ["--source", reference, *system, "--bootstrap", "10"], 0),
        (main, ["-", "-"], 2),
        (compare_main, ["-", reference, "-"], 2),
    ):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a b\nc\n")))
        assert program(arguments) == status
        out, err = capsys.readouterr()
        assert "standard input (-) is given twice" in err if status else "100.00" in out


def test_a_missing_perl_is_named(files, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main([*files, "--backend", "perl"]) == 2
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
    again = write(tmp_path / "again", ["the cat sat"] * 7)
    runs = [references, "--a", better, again, "--b", worse, "--families", write(tmp_path / "one", ["x"] * 7)]
    row = compare(tmp_path, *runs, "--bootstrap", "50")["scores"]["rouge1"]
    assert row["interval"] is None and row["p_bootstrap"] == 1 and row["difference"] > 10
    assert compare_main([better, worse, references, "--families", write(tmp_path / "short", ["cat"])]) == 2
    assert "has 1 lines, but there are 7 documents" in capsys.readouterr().err
