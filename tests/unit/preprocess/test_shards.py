"""Work that several processes divide: lines of a file, words of a corpus."""

import shutil

import hypothesis.strategies as st
import pytest
from etads_preprocess import subwords
from etads_preprocess.prepare import prepare_data
from hypothesis import HealthCheck, given, settings
from preparation import make_text  # noqa: F401  # a fixture

from fairseq_etads.data.preparation import PreparationSettings
from fairseq_etads.files.inputs import read_lines
from fairseq_etads.files.shards import Shard
from fairseq_etads.platform.errors import InputError

WORDS = PreparationSettings("word", 20)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.text(alphabet="aé\n\r \ufeff", max_size=40), shares=st.integers(1, 9))
def test_shares_of_a_file_are_its_lines(content, shares, tmp_path):
    """There are more shares than lines, long lines, a missing last line end, and multi-byte characters."""
    path = tmp_path / "file"
    path.write_bytes(content.encode())
    found = [line for shard in Shard(1, shares).list_all_shards() for line in shard.iterate_lines(path)]
    assert found == list(read_lines(path))


def test_a_share_names_the_place_of_bad_bytes(tmp_path):
    (tmp_path / "file").write_bytes(b"good\n" * 4 + b"not \xff good\n")
    with pytest.raises(InputError, match="file, byte 24: not UTF-8"):
        list(Shard(2, 2).iterate_lines(tmp_path / "file"))


@pytest.mark.parametrize("value", ["0/2", "3/2", "2", "1/0", "a/b"])
def test_impossible_shares_are_refused(value):
    with pytest.raises(InputError, match=f"--shard {value}: choose I/N"):
        Shard.parse(value)


def files(folder):
    """Collect all files of a preparation, except shares and messages."""
    names = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    said = ("preprocess.txt", "preprocess.log")
    return {str(n): (folder / n).read_bytes() for n in names if n.parts[0] != "shards" and n.name not in said}


def share(text, out, value, how=WORDS):
    prepare_data(how, text, out, 1, shard=Shard.parse(value))


def test_joined_shares_are_what_one_process_makes(text, tmp_path):
    prepare_data(WORDS, text, tmp_path / "whole", 1)
    out = tmp_path / "out"
    for value in ("2/3", "3/3"):
        share(text, out, value)
        assert [path.name for path in out.iterdir()] == ["shards"], "shares keep out of one another's way"
    with pytest.raises(InputError, match="of 3 shards, 1 are not complete; run the same command with --shard 1/3"):
        prepare_data(WORDS, text, out, 1)
    share(text, out, "1/3")
    parts = [list(read_lines(path)) for path in sorted(out.glob("shards/*/tokens/train.source"))]
    assert len(parts) == 3 and sum(map(bool, parts)) > 1, "one share has all lines: the test shows little"
    before = {path: path.stat().st_mtime_ns for path in out.rglob("tokens/*")}
    share(text, out, "2/3")
    assert before == {path: path.stat().st_mtime_ns for path in out.rglob("tokens/*")}, "a share was made again"
    prepare_data(WORDS, text, out, 1)
    assert files(out) == files(tmp_path / "whole")
    shutil.rmtree(out / "shards")
    prepare_data(WORDS, text, out, 1)  # the shards are not needed any more


def test_shares_that_do_not_fit_are_refused(text, tmp_path):
    out = tmp_path / "out"
    share(text, out, "1/2")
    share(text, out, "2/2", PreparationSettings("word", 21))
    with pytest.raises(InputError, match="2-of-2 was made with another settings: delete it and make it again"):
        prepare_data(WORDS, text, out, 1)
    with pytest.raises(InputError, match="was prepared with other settings"):
        share(text, out, "2/2")
    shutil.rmtree(out / "shards" / "2-of-2")
    share(text, out, "2/2")
    damaged = out / "shards" / "2-of-2" / "tokens" / "train.source"
    damaged.write_bytes(damaged.read_bytes().swapcase() + b"x")
    with pytest.raises(InputError, match=r"2-of-2.tokens.train.source is damaged"):
        prepare_data(WORDS, text, out, 1)
    assert not (out / "tokens" / "train.source").exists()
    shutil.rmtree(out / "shards" / "2-of-2")
    share(text, out, "1/3")
    with pytest.raises(InputError, match="has shards of 2 and of 3"):
        prepare_data(WORDS, text, out, 1)


def test_sentencepiece_learns_from_a_part_of_a_large_text(tmp_path, monkeypatch, capsys):
    """SentencePiece would keep all of it in memory, at twenty times its size."""
    texts = [tmp_path / name for name in ("a", "b")]
    for path, word in zip(texts, ("walking", "jumper")):
        path.write_text("".join(f"{word}{n % 7} ends number {n}\n" for n in range(101)))
    whole = "".join(path.read_text() for path in texts).splitlines(keepends=True)
    (tmp_path / "third").write_text("".join(whole[::3]))
    subwords.learn_sentencepiece([tmp_path / "third"], 40, tmp_path / "expected.model")
    assert not capsys.readouterr().err
    monkeypatch.setattr(subwords, "SENTENCEPIECE_BYTES", len("".join(whole)) // 3 + 1)
    subwords.learn_sentencepiece(texts, 40, tmp_path / "found.model")
    assert "one in 3 lines" in capsys.readouterr().err
    found, expected = ((tmp_path / f"{name}.vocab").read_text() for name in ("found", "expected"))
    assert found == expected and "walking" in found
