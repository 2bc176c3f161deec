"""etads-prepare after damage, edits and interruptions: files are compared with the list of their checksums."""

import subprocess
import sys

import pytest
from etads_preprocess import encode
from preparation import lines, make_text, prepare  # noqa: F401  # a fixture

from fairseq_etads.files.checksums import Checksums
from fairseq_etads.platform.errors import InputError


@pytest.mark.parametrize(
    "tokens,name,content",
    [
        ("bpe", "codes.bpe", b"#version: 0.2\na b c\n"),
        ("bpe", "codes.bpe", b"#version: 0.2\na \xff\n"),
        ("sentencepiece", "sentencepiece.model", b"garbage"),
    ],
)
def test_a_damaged_subword_model_is_named(text, tmp_path, capsys, tokens, name, content):
    out = tmp_path / "out"
    for path in (out / name, out / "sentencepiece.vocab"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    with pytest.raises(InputError, match=rf"{name} is damaged \(.+\)\. Give another OUT or delete it"):
        prepare(text, out, tokens, 40, lowercase=True, jobs=1)
    assert capsys.readouterr().err == ""


def test_every_file_is_compared_when_it_is_used_again(text, tmp_path):
    out = tmp_path / "out"
    prepare(text, out, "bpe", 40, lowercase=True, jobs=1, factors=["tf", "idf"])
    listed = [folder / name for folder in (out, out / "bin") for name in Checksums(folder).listed]
    made = {path for path in out.rglob("*") if path.is_file() and path.stat().st_size}
    logs = {out / "preprocess.txt", out / "bin/preprocess.log", out / "SHA256SUMS", out / "bin/SHA256SUMS"}
    assert made - logs == set(listed)
    for path in listed:
        content = path.read_bytes()
        path.write_bytes(content[:-2] + b"#\n")
        with pytest.raises(InputError, match=rf"{path.name} is damaged or was changed: .* (delete|Delete) {out}"):
            prepare(text, out, "bpe", 40, lowercase=True, jobs=1, factors=["tf", "idf"])
        path.write_bytes(content)


def test_an_edited_dictionary_is_taken_once_the_list_is_deleted(text, tmp_path):
    out = tmp_path / "out"
    prepare(text, out, "word", 30, lowercase=True, jobs=1)
    dictionary = out / "bin" / "dict.source.txt"
    dictionary.write_text(dictionary.read_text().replace("the ", "teh "))
    with pytest.raises(InputError, match=rf"if you changed it on purpose, delete {out}/bin/SHA256SUMS"):
        prepare(text, out, "word", 30, lowercase=True, jobs=1)
    (out / "bin" / "SHA256SUMS").unlink()
    prepare(text, out, "word", 30, lowercase=True, jobs=1)
    assert "teh " in dictionary.read_text()


def test_text_that_changes_while_it_is_read_leaves_nothing_behind(text, tmp_path, monkeypatch):
    """If any output remained, the next run would use it for the original text."""
    whole, path = encode.encode_file, text / "valid.source"
    content = path.read_bytes()

    def encode_file(source, destination, *arguments):
        if destination.name == path.name:
            path.write_bytes(content.replace(b"audio", b"radio"))
        whole(source, destination, *arguments)

    monkeypatch.setattr(encode, "encode_file", encode_file)
    with pytest.raises(InputError, match=r"valid\.source changed while it was being read; run the command again"):
        prepare(text, tmp_path / "out", "word", 30, lowercase=True, jobs=1)
    monkeypatch.undo()
    path.write_bytes(content)
    prepare(text, tmp_path / "out", "word", 30, lowercase=True, jobs=1)
    assert "radio" not in (tmp_path / "out/tokens/valid.source").read_text()


def test_text_is_compared_with_its_list(text, tmp_path):
    Checksums(text).add("train.source")
    (text / "train.source").write_bytes((text / "train.source").read_bytes().replace(b"audio", b"radio"))
    with pytest.raises(InputError, match=r"train\.source is damaged .*delete .*text/SHA256SUMS"):
        prepare(text, tmp_path / "out", "word", 30, lowercase=True, jobs=1)


@pytest.mark.parametrize(
    "tokens,size,name", [("sentencepiece", 60, "sentencepiece.model"), ("bpe", 40, "prepare.json")]
)
def test_files_that_were_not_listed_when_the_command_ended_are_listed_by_the_next(text, tmp_path, tokens, size, name):
    out = tmp_path / "out"
    prepare(text, out, tokens, size, lowercase=True, jobs=1)
    whole = (out / "SHA256SUMS").read_bytes()
    Checksums(out).forget(name, "report.json")
    prepare(text, out, tokens, size, lowercase=True, jobs=1)
    assert (out / "SHA256SUMS").read_bytes() == whole


def test_a_sentencepiece_model_that_finds_no_room_is_not_left_behind(text, tmp_path):
    code = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (99, 99)); from pathlib import Path; "
    code += "from etads_preprocess.subwords import learn_sentencepiece as learn; "
    code += "learn([Path(sys.argv[1])], 50, Path(sys.argv[2]))"
    model = tmp_path / "sentencepiece.model"
    command = [sys.executable, "-c", code, str(text / "train.source"), str(model)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode and "File too large" in result.stderr and not model.exists()
