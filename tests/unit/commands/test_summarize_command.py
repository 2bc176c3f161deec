"""``etads-summarize``: kinds of input and output, continuing, documents that fail, options."""

import codecs
import io
import itertools
import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from folders import make_folder

from fairseq_etads import Summarizer
from fairseq_etads.commands import summarize as summarize_command
from fairseq_etads.commands.summarize import PROBLEMS_SHOWN, main
from fairseq_etads.summarizer.documents import DocumentTokenizer
from fairseq_etads.summarizer.surprisal import Surprisal
from fairseq_etads.text import files
from fairseq_etads.text import input_records as new_documents

TEXTS = ["w1 w2 Zebra w3", "", "yak W5 w6 w7 w8", "w9 only unknown words", "w20 w21"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("made"), pointer="soft")[0]


@pytest.fixture(scope="module")
def wanted(folder):
    """The summaries of TEXTS, and their text by text."""
    found = Summarizer.load(folder, "cpu").summarize(TEXTS)
    return [summary.text for summary in found]


@pytest.fixture
def summarize(folder, capsysbinary):
    """Run the command; returns its status, the lines on standard output, and messages."""

    def run(*arguments, stdin=b"", model=folder):
        before, sys.stdin = (
            sys.stdin,
            SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(stdin)), isatty=lambda: False),
        )
        files._read_input = None
        try:
            status = main([str(model), *map(str, arguments), "--device", "cpu"])
        finally:
            sys.stdin = before
        said = capsysbinary.readouterr()
        return status, said.out.decode().split("\n")[:-1], said.err.decode()

    return run


def test_lines_of_standard_input(summarize, wanted):
    status, lines, said = summarize(stdin="\n".join(TEXTS).encode())
    assert (status, lines) == (0, wanted)
    assert "every line is a document; --input-format file reads" in said
    assert "5 documents in " in said and "per second; 1 are empty" in said
    assert summarize("-", "--quiet", stdin=b"w1\r\n")[1:] == (summarize("-", stdin=b"w1")[1], "")
    assert summarize(stdin=b"")[:2] == (0, [])


def test_every_kind_of_input_has_the_same_summaries(summarize, wanted, tmp_path):
    records = [{"id": f"no. {n}", "article": text} for n, text in enumerate(TEXTS)]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, records)))
    (tmp_path / "a.csv").write_text("Id;Text\n" + "".join(f'{n};"{text}"\n' for n, text in enumerate(TEXTS)))
    (tmp_path / "a.tsv").write_text("body\n" + "".join(f'"{text}"\n' for text in TEXTS))
    (tmp_path / "a.txt").write_text("\n".join(TEXTS))
    (tmp_path / "folder").mkdir()
    for number, text in enumerate(TEXTS):
        (tmp_path / "folder" / f"{number}.txt").write_text(text)
    separate = sorted((tmp_path / "folder").iterdir())
    for arguments in (
        ["a.jsonl"],
        ["a.csv"],
        ["a.tsv", "--source-column", "Body"],
        ["a.txt", "--lines"],
        ["folder"],
        separate,
    ):
        assert (
            summarize(*(a if str(a).startswith("-") or a == "Body" else tmp_path / a for a in arguments))[1] == wanted
        )
    assert summarize(stdin=(tmp_path / "a.jsonl").read_bytes())[1] == wanted, "told by its first character"
    marked = codecs.BOM_UTF8 + (tmp_path / "a.jsonl").read_bytes()
    assert summarize(stdin=marked)[1] == wanted, "also after a byte order mark"


def test_a_text_file_is_a_document_however_many_there_are(summarize, folder, tmp_path):
    for number in (1, 2):
        (tmp_path / f"{number}.txt").write_text(f"w{number} w2 Zebra.\n\nyak w5 w6\n")
    one, two = Summarizer.load(folder, "cpu").summarize(["w1 w2 Zebra.\n\nyak w5 w6", "w2 w2 Zebra.\n\nyak w5 w6"])
    status, lines, said = summarize(tmp_path / "1.txt")
    assert (status, lines) == (0, [one.text])
    assert f"{tmp_path}/1.txt is one document with all its lines" in said and "--lines reads every line" in said
    status, lines, said = summarize(tmp_path / "1.txt", tmp_path / "2.txt")
    assert (status, lines) == (0, [one.text, two.text]) and "every file is a document; --lines" in said
    assert len(summarize(tmp_path / "1.txt", "--lines")[1]) == 3
    (tmp_path / "1.txt").write_text("w1 w2\n")
    assert "all its lines" not in summarize(tmp_path / "1.txt")[2]


def test_options_may_stand_before_files(summarize, wanted, tmp_path):
    for number, text in enumerate(TEXTS[:2]):
        (tmp_path / f"{number}.txt").write_text(text)
    first, second = tmp_path / "0.txt", tmp_path / "1.txt"
    assert summarize("--quiet", first, "--read-ahead", "2", second)[:2] == (0, wanted[:2])


def test_standard_input_may_follow_files(summarize, wanted, tmp_path):
    (tmp_path / "0.txt").write_text(TEXTS[0])
    assert summarize(tmp_path / "0.txt", "-", stdin=TEXTS[1].encode())[:2] == (0, wanted[:2])
    records = [json.dumps({"text": text}) + "\n" for text in TEXTS[:2]]
    (tmp_path / "0.jsonl").write_text(records[0])
    assert summarize(tmp_path / "0.jsonl", "-", stdin=records[1].encode())[:2] == (0, wanted[:2])


def test_escaped_lone_surrogates_of_json_are_no_bad_bytes(summarize, tmp_path):
    text = "w1 w2 \udc80 Zebra"
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": text}) + "\n")
    status, lines, _ = summarize(tmp_path / "in.jsonl")
    assert (status, lines) == (0, summarize(stdin=text.replace("\udc80", "\ufffd").encode())[1])


def test_summaries_are_written_to_a_pipe(summarize, wanted):
    ends = os.pipe()
    assert summarize("--output", f"/dev/fd/{ends[1]}", stdin="\n".join(TEXTS).encode())[:2] == (0, [])
    assert os.read(ends[0], 10_000).decode().split("\n")[:-1] == wanted
    for end in ends:
        os.close(end)


def test_json_lines_say_where_words_come_from(summarize, tmp_path):
    text = "Zebra yak.\n\nW5 emu 😀 CAFE\u0301"
    (tmp_path / "in.jsonl").write_text(json.dumps({"id": 7, "document": text}) + "\n")
    status, lines, _ = summarize(tmp_path / "in.jsonl", "--output-format", "jsonl", "--min-len", "6")
    (record,) = map(json.loads, lines)
    assert status == 0 and record["document"] == "7" and record["summary"] and record["score"] < 0
    assert record["copied"] and (record["read"], record["left_out"]) == (6, 0)
    for copied in record["copied"]:
        assert text[copied["start"] : copied["end"]].lower().replace("e\u0301", "é") == copied["word"]


def test_documents_of_several_inputs_have_names_of_their_own(summarize, tmp_path):
    def found(*arguments, stdin=b""):
        lines = summarize(*arguments, "--output-format", "jsonl", stdin=stdin)[1]
        return [json.loads(line)["document"] for line in lines]

    paths = [tmp_path / name for name in ("a", "b")]
    for path in paths:
        path.write_text("w1\nw2\n")
        Path(f"{path}.jsonl").write_text('{"text": "w1"}\n{"id": "x", "text": "w2"}\n')
        Path(f"{path}.csv").write_text("text\nw1\n")
        Path(f"{path}.d").mkdir()
        (Path(f"{path}.d") / "1.txt").write_text("w1")
    a, b = paths
    assert found(*paths, "--lines") == [f"{a}:1", f"{a}:2", f"{b}:1", f"{b}:2"]
    assert found(a, "-", "--lines", stdin=b"w3") == [f"{a}:1", f"{a}:2", "standard input:1"]
    assert found(f"{a}.jsonl", f"{b}.jsonl") == [f"{a}.jsonl:1", "x", f"{b}.jsonl:1", "x"]
    assert found(f"{a}.csv", f"{b}.csv") == [f"{a}.csv:1", f"{b}.csv:1"]
    assert found(f"{a}.d", f"{b}.d") == [f"{a}.d/1.txt", f"{b}.d/1.txt"]
    assert found(a, "--lines") == found("--lines", stdin=b"w1\nw2\n") == ["1", "2"]
    assert found(f"{a}.jsonl") == ["1", "x"] and found(f"{a}.csv") == ["1"] and found(f"{a}.d") == ["1.txt"]


def test_documents_that_cannot_be_read_do_not_stop_the_rest(summarize, wanted, tmp_path):
    status, lines, said = summarize(stdin=b"w1 w2 Zebra w3\nnot \xff utf-8\nw20 w21\n")
    assert (status, lines) == (1, [wanted[0], "", wanted[4]])
    assert "document 2: standard input, line 2: not UTF-8" in said
    assert "1 documents have no summary, for the reasons above" in said
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'{"text": "w1 w2 Zebra w3"}\n{"text": 3}\nno json\n\n{"text": "w20 w21"}\n["a"]\n')
    status, _, said = summarize(path, "--output", tmp_path / "out.jsonl")
    found = list(map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines()))
    assert status == 1 and [record["summary"] for record in found] == [wanted[0], "", "", wanted[4], ""]
    assert "neither a text nor a list" in found[1]["problem"] and "not JSON" in found[2]["problem"]
    assert "problem" not in found[0] and "3 documents have no summary" in said
    (tmp_path / "folder").mkdir()
    for name, content in (("a", b"w20 w21"), ("b.gz", b"no gzip"), ("c", b"\xff")):
        (tmp_path / "folder" / name).write_bytes(content)
    status, lines, said = summarize(tmp_path / "folder")
    assert (status, lines) == (1, [wanted[4], "", ""]) and "b.gz: cannot be read" in said
    (tmp_path / "a.csv").write_text("text,more\nw20 w21,x\nw1\n")
    status, lines, said = summarize(tmp_path / "a.csv")
    assert (status, lines) == (1, [wanted[4], ""]) and "row 2: 1 cells; 2 expected" in said


def test_an_error_in_the_search_does_not_stop_the_rest(summarize, wanted, monkeypatch):
    plain = DocumentTokenizer.tokenize_document

    def read(self, number, text):
        if "yak" in text:
            raise MemoryError
        return plain(self, number, text)

    monkeypatch.setattr(DocumentTokenizer, "tokenize_document", read)
    status, lines, said = summarize(stdin="\n".join(TEXTS).encode())
    assert status == 1 and lines == [*wanted[:2], "", *wanted[3:]] and "document 3: MemoryError" in said


def test_an_input_that_ends_in_an_error_is_summarised_up_to_there(summarize, wanted, tmp_path):
    (tmp_path / "a.csv").write_text('text\nw20 w21\n"w1 w2')
    status, lines, said = summarize(tmp_path / "a.csv")
    assert (status, lines) == (2, [wanted[4]]) and "a.csv, line 3: not CSV" in said


class EndedError(BaseException):
    """The process was terminated."""


@pytest.mark.parametrize("at", [1, 3, 4])
def test_an_interrupted_run_goes_on(summarize, wanted, tmp_path, monkeypatch, at):
    (tmp_path / "in").write_text("\n".join(TEXTS))
    arguments = [tmp_path / "in", "--lines", "--output", tmp_path / "out", "--read-ahead", "2"]
    plain, asked = summarize_command._format_summary_line, []

    def ends(document, summary, output_format):
        asked.append(document.name)
        if len(asked) > at:
            raise EndedError
        return plain(document, summary, output_format)

    monkeypatch.setattr(summarize_command, "_format_summary_line", ends)
    with pytest.raises(EndedError):
        summarize(*arguments)
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr(summarize_command, "_format_summary_line", lambda *a: asked.append(a[0].name) or plain(*a))
    status, _, said = summarize(*arguments)
    assert status == 0 and f"{at:,} documents are finished; continuing with the next" in said
    assert (tmp_path / "out").read_text().split("\n")[:-1] == wanted
    assert asked == ["1", "2", "3", "4", "5"][: at + 1] + ["1", "2", "3", "4", "5"][at:]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in", "out"]


def test_going_on_with_another_beam_is_refused(summarize, tmp_path, monkeypatch):
    (tmp_path / "in").write_text("\n".join(TEXTS))

    def ends(*_):
        raise EndedError

    monkeypatch.setattr(summarize_command, "_format_summary_line", ends)
    with pytest.raises(EndedError):
        summarize(tmp_path / "in", "--lines", "--output", tmp_path / "out")
    status, _, said = summarize(tmp_path / "in", "--lines", "--output", tmp_path / "out", "--beam", "2")
    assert status == 2 and "was started with another --beam; choose another --output, or delete" in said


def test_an_output_among_the_documents_is_refused(summarize, wanted, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text(TEXTS[0])
    (tmp_path / "link").symlink_to("docs")
    for output in (tmp_path / "docs" / "out.jsonl", tmp_path / "link" / "out.txt"):
        status, lines, said = summarize(tmp_path / "docs", "--output", output)
        assert (status, lines) == (2, []) and f"--output {output}: FILE {tmp_path}/docs is this folder" in said
    assert [path.name for path in (tmp_path / "docs").iterdir()] == ["a.txt"]
    (tmp_path / "docs" / "inner").mkdir()
    output = tmp_path / "docs" / "inner" / "out.txt"
    assert summarize(tmp_path / "docs", "--output", output)[0] == 0 and output.read_text() == wanted[0] + "\n"


def test_an_endless_input_is_not_read_ahead(summarize, monkeypatch):
    """If the whole input was read first, memory would grow with the number of documents."""
    taken = itertools.count()

    def endless(*_):
        for number in itertools.count():
            next(taken)
            yield new_documents.InputDocument(str(number), f"w1 new{number}")

    shown = []
    plain = summarize_command._format_summary_line

    def line(document, summary, output_format):
        shown.append(document.name)
        if len(shown) == 40:
            raise EndedError
        return plain(document, summary, output_format)

    monkeypatch.setattr(summarize_command, "_format_summary_line", line)
    monkeypatch.setattr(summarize_command, "read_documents", endless)
    with pytest.raises(EndedError):
        summarize("--beam", "1", "--max-len", "2", "--read-ahead", "8")
    assert next(taken) <= 49 and shown == [str(number) for number in range(40)]


@pytest.mark.parametrize(
    "arguments,words",
    [
        (["nowhere.txt"], "FILE nowhere.txt: no such file or folder"),
        ([".", "--input-format", "lines"], "FILE .: is a folder, but --input-format is lines"),
        (["--beam", "0"], "--beam 0: choose 1 or more"),
        (["--min-len", "10"], "--min-len 10: choose at most --max-len, which is 9"),
        (["--max-tokens", "0"], "--max-tokens 0: choose 1 or more"),
        (["--output", "nowhere/out"], "--output nowhere/out: no such folder"),
        (["--output", "."], "--output .: is a folder; name a file"),
        (["--output", "a.jsonl.gz"], "--output a.jsonl.gz: is written uncompressed; choose a name without .gz"),
    ],
)
def test_wrong_options_are_refused_before_the_model_is_loaded(summarize, arguments, words, monkeypatch):
    monkeypatch.setattr(summarize_command, "_load_summarizer", lambda args: pytest.fail("loaded"))
    status, lines, said = summarize(*arguments)
    assert (status, lines) == (2, []) and words in said
    assert [line for line in said.splitlines() if not line.startswith("==")] == [said.splitlines()[-1]]


def test_a_folder_that_is_none_is_refused(summarize, tmp_path):
    status, _, said = summarize(model=tmp_path)
    assert status == 2 and "not a model folder, because it has no config.json" in said


def test_a_column_that_is_missing_is_named_with_those_there_are(summarize, tmp_path):
    (tmp_path / "a.csv").write_text("title,body\na,b\n")
    status, _, said = summarize(tmp_path / "a.csv")
    assert status == 2 and "no field is known to contain documents; choose --source-column from title, body" in said
    status, _, said = summarize(tmp_path / "a.csv", "--source-column", "text")
    assert status == 2 and "--source-column text:" in said and "a.csv has the columns title, body" in said


def test_documents_that_are_not_read_to_their_end_are_counted(summarize):
    long = b" ".join(b"w%d" % (n % 40) for n in range(75))
    said = summarize(stdin=b"w1 w2\n" + long + b"\n")[2]
    assert "1 documents were truncated to their first 60 tokens; a model trained by scripts/train.sh --long" in said
    assert "were truncated" not in summarize(stdin=b"w1 w2\n")[2]
    assert summarize("--quiet", stdin=long)[2] == ""


def test_a_document_unlike_the_training_is_named_once(summarize, monkeypatch):
    def strange(texts, document):
        return Surprisal(14.2, 0.5, 99.5) if "zebra" in document.tokens else Surprisal(9.0, 0.1, 99.0)

    monkeypatch.setattr(DocumentTokenizer, "measure_surprisal", strange)
    status, lines, said = summarize(stdin="\n".join(TEXTS).encode())
    assert status == 0 and len(lines) == len(TEXTS)
    assert said.count("unlike the documents used to train the model") == 1
    assert "document 1: unlike the documents used to train the model (50% of its tokens are unknown, 14.2 bits" in said
    assert "unlike" not in summarize("--quiet", stdin=TEXTS[0].encode())[2]
    many = b"Zebra w1\n" * (PROBLEMS_SHOWN + 3)
    said = summarize(stdin=many)[2]
    assert said.count("etads-summarize: document") == PROBLEMS_SHOWN
    assert f"{PROBLEMS_SHOWN + 3} documents in total are unlike" in said
