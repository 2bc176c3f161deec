"""etads-corpus hf: data sets that save_to_disk wrote or that the local cache has, without the network."""

import os
import sys

import pytest
from test_readers import lines, refused, run

ROWS = {"article": ["First. Second.", "Third.\nFourth.", ""], "highlights": ["a\nb", "c", "d"], "id": ["x", "y", "z"]}


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HOME", str(tmp_path_factory.mktemp("hub")))
        for name in ("HF_DATASETS_OFFLINE", "HF_HUB_OFFLINE"):
            patch.setenv(name, "1")
        module = pytest.importorskip("datasets", reason="needs the extra datasets")
        module.disable_progress_bars()
        yield module


def test_a_folder_with_splits(datasets, tmp_path):
    table = datasets.Dataset.from_dict(ROWS)
    tables = {"train": table, "validation": table.select([1]), "unsupervised": table}
    datasets.DatasetDict(tables).save_to_disk(tmp_path / "saved")
    text, report = run(tmp_path, "hf", "--data", tmp_path / "saved")
    assert {split: about["documents"] for split, about in report["splits"].items()} == {"train": 2, "valid": 1}
    assert lines(text / "train.source") == ["First. <q> Second.", "Third. <q> Fourth."]
    assert lines(text / "train.target") == ["a <q> b", "c"]
    assert lines(text / "valid.target") == ["c"], "the rows that select chose, and not all"
    assert report["splits"]["train"]["dropped"] == {"empty source": 1}
    assert any("unsupervised is left out" in note for note in report["notes"]) and report["inputs"]
    assert run(tmp_path, "hf", "--data", tmp_path / "saved")[1] == report, "a second call finds it done"


def test_a_data_set_of_one_piece_is_split(datasets, tmp_path):
    documents = [f"Document {number}." for number in range(60)]
    table = datasets.Dataset.from_dict({"body": documents, "heads": [["a", "b"]] * 60})
    table.save_to_disk(tmp_path / "one")
    datasets.DatasetDict(train=table).save_to_disk(tmp_path / "train-only")
    columns = ["--source-column", "body", "--target-column", "heads", "--target-list", "references"]
    for name in ("one", "train-only"):
        command = ["hf", "--data", tmp_path / name, *columns, "--split", "60/20/20"]
        splits = run(tmp_path / f"{name}-text", *command)[1]["splits"]
        assert sum(about["documents"] for about in splits.values()) == 60 and len(splits) == 3
        assert splits["test"]["references"] == 2


def test_a_name_in_the_cache(datasets, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", cache)
    (tmp_path / "tiny_news").mkdir()
    datasets.Dataset.from_dict(ROWS).to_json(tmp_path / "tiny_news" / "train.jsonl")
    datasets.load_dataset(str(tmp_path / "tiny_news"), cache_dir=str(cache))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert run(tmp_path, "hf", "--data", "tiny_news")[1]["splits"]["train"]["documents"] == 2


def test_what_is_wrong_is_said_in_words(datasets, tmp_path, capsys):
    table = datasets.Dataset.from_dict(ROWS)
    datasets.DatasetDict(train=table, test=table).save_to_disk(tmp_path / "saved")
    datasets.DatasetDict(other=table).save_to_disk(tmp_path / "other")
    (tmp_path / "empty").mkdir()
    saved = ["--data", tmp_path / "saved"]
    for options, words in (
        (["--data", "nobody/nothing", "--config", "c"], "nothing', 'c').save_to_disk(FOLDER)"),
        (["--data", tmp_path / "empty"], "not a folder of save_to_disk"),
        (["--data", tmp_path / "other"], "it has other"),
        ([*saved, "--split", "9/1/0"], "--split 9/1/0"),
        ([*saved, "--source-column", "text"], "--source-column text"),
        ([*saved, "--config", "x"], "--config x"),
    ):
        assert words in refused(tmp_path, capsys, "hf", *options)
    arrow = next((tmp_path / "saved" / "train").glob("*.arrow"))
    arrow.write_bytes(arrow.read_bytes()[:400])
    assert str(tmp_path / "saved") in refused(tmp_path, capsys, "hf", *saved)


def test_without_the_library_it_is_named_and_the_network_is_switched_off_before(tmp_path, capsys, monkeypatch):
    for name in ("HF_DATASETS_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert "datasets is missing: pip install datasets" in refused(tmp_path, capsys, "hf", "--data", tmp_path)
    assert os.environ["HF_DATASETS_OFFLINE"] == os.environ["HF_HUB_OFFLINE"] == "1"
