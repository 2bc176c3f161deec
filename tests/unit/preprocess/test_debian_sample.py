"""The sample of the Debian corpus that comes with the project."""

import lzma

import pytest
from debian_corpus import read, run
from etads_preprocess import debian
from etads_preprocess.debian_splits import find_split_overlaps


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    out = tmp_path_factory.mktemp("sample")
    assert run(out, "--sample") == 0
    return out


def test_sample_has_aligned_lines_and_no_text_in_two_splits(sample):
    splits = read(sample)
    assert {split: len(pairs) for split, pairs in splits.items()} == {"train": 12000, "valid": 500, "test": 500}
    assert find_split_overlaps(splits) == []
    for pair in (p for pairs in splits.values() for p in pairs):
        assert 20 <= len(pair.source.split()) <= 150
        assert 3 <= len(pair.target.split()) <= 15


def test_sample_unpacks_once(sample, capsys):
    assert run(sample, "--sample") == 0
    assert "up to date" in capsys.readouterr().err


def test_a_damaged_sample_is_noticed(tmp_path, monkeypatch, capsys):
    for path in debian.SAMPLE.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "test.target.xz").write_bytes(lzma.compress(b"other\n"))
    monkeypatch.setattr(debian, "SAMPLE", tmp_path)
    assert run(tmp_path / "out", "--sample") == 2
    assert "test.target.xz is damaged" in capsys.readouterr().err
