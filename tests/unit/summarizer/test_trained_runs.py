"""A training run summarises as the model folder that is exported from it, and its splits as raw documents."""

import itertools
import json
import pickle
import shutil

import pytest
import torch
from convolutional import SIZES as CONVOLUTIONAL
from folders import make_run
from helpers import make_task
from selection_data import write_subset
from test_run_commands import DOCUMENTS, SUMMARIES

from fairseq_etads import Summarizer
from fairseq_etads.commands.export import main as export
from fairseq_etads.commands.summarize import main as summarize
from fairseq_etads.data.labels import compute_source_hash, write_label_rows
from fairseq_etads.files.outputs import write_text
from fairseq_etads.files.shards import find_launched_shard
from fairseq_etads.platform.errors import InputError

MODELS = {"etads": {"pointer": "soft"}, "pg_coverage": {}, "convs2s": {"pointer": "soft", **CONVOLUTIONAL}, "abs": {}}
TRAINING = [" ".join(f"w{number % 9}" for number in range(n, n + 12)) for n in range(5)] + ["w1 unseen " * 8]


def make_trained(path, arch, **options):
    """A run with the split test; returns its folder and the documents as raw text."""
    torch.manual_seed(1)
    task = make_task(60, 20, tail=12)
    make_run(path / "run", arch, task=task, **options)
    data = path / "run" / "prepared" / "bin"
    write_subset(data, "test", DOCUMENTS, SUMMARIES)
    write_text(data.parent / "tokens" / "train.source", "".join(f"{line}\n" for line in TRAINING))
    (path / "run" / "recipe.json").write_text(json.dumps({"decoding": {"min_len": 2, "max_len": 9}}))
    return path / "run", [" ".join(task.source_dictionary[word] for word in document) for document in DOCUMENTS]


@pytest.fixture
def run(tmp_path):
    return make_trained(tmp_path, "etads", pointer="soft")


@pytest.mark.parametrize("arch", MODELS)
def test_a_run_its_model_folder_and_its_split_agree(arch, tmp_path):
    run, texts = make_trained(tmp_path, arch, **MODELS[arch])
    assert export([str(run), str(tmp_path / "model")]) == 0
    before = sorted(run.rglob("*"))
    trained, exported = (Summarizer.load(folder, "cpu") for folder in (run, tmp_path / "model"))
    assert sorted(run.rglob("*")) == before, "loading writes nothing"
    assert trained.config.decoding == exported.config.decoding
    assert (trained.config.decoding["min_len"], trained.config.decoding["max_len"]) == (2, 9)
    wanted = exported.summarize(texts)
    assert len({summary.text for summary in wanted}) > 1
    assert trained.summarize(texts) == wanted
    of_split = list(trained.stream(trained.read_split("test")))
    for summary, found in zip(wanted, of_split):
        assert (found.text, found.tokens, found.truncation) == (summary.text, summary.tokens, summary.truncation)
        assert found.score == pytest.approx(summary.score, rel=1e-4)
        assert [(one.word, one.first) for one in found.copied] == [(one.word, one.first) for one in summary.copied]
    found = [model.summarize(TRAINING[-1]).surprisal for model in (trained, exported)]
    assert found[0] == found[1] and found[0].percentile > 50
    again = pickle.loads(pickle.dumps(trained))
    assert [one.text for one in again.stream(again.read_split("test"))] == [one.text for one in of_split]
    with pytest.raises(ValueError, match="has no reference to its summariser"):
        of_split[0].explain()


def test_checkpoints_and_data_can_be_chosen(run, tmp_path):
    folder, texts = run
    shutil.copyfile(folder / "checkpoints" / "checkpoint_best.pt", folder / "checkpoints" / "checkpoint_last.pt")
    shutil.copytree(folder / "prepared", tmp_path / "data")
    wanted = Summarizer.load(folder, "cpu").summarize(texts)
    for checkpoint in ("last", folder / "checkpoints" / "checkpoint_last.pt"):
        found = Summarizer.load(folder, "cpu", prepared=tmp_path / "data", checkpoint=checkpoint)
        assert found.summarize(texts) == wanted
    with pytest.raises(InputError, match=r"--split test: .* is a model folder"):
        Summarizer.load("debian", "cpu").read_split("test")
    with pytest.raises(InputError, match='no split "valid"'):
        Summarizer.load(folder, "cpu").read_split("valid")


def test_shards_of_a_split_are_joined(run, tmp_path, capsys, monkeypatch):
    """A shard that exists is not made again, and one that was made with other options is not used."""
    folder, _ = run
    out, whole = tmp_path / "out", tmp_path / "whole"
    command = [str(folder), "--split", "test", "--device", "cpu", "--max-tokens", "9", "--output"]
    assert summarize([*command, str(whole)]) == 0
    read = next((folder / "prepared" / "bin").glob("test*.bin"))
    shared = [*command, str(out), "--shard"]
    assert summarize([*command, str(read)]) == 2 and "is also read" in capsys.readouterr().err
    assert summarize([str(folder), "--output", str(out), "--shard", "1/2"]) == 2
    assert "every shard would read all of standard input" in capsys.readouterr().err
    assert summarize([*shared, "3/3"]) == 0
    assert "shards of 3 still missing: 1, 2" in capsys.readouterr().err and not out.exists()
    assert summarize([*shared, "1/3", "--beam", "2"]) == summarize([*shared, "2/3"]) == 0
    assert "made with other options, data or another model: 1" in capsys.readouterr().err and not out.exists()
    shares = [tmp_path / "out.shards" / f"{number}-of-3.jsonl" for number in (1, 2, 3)]
    before = [share.stat().st_mtime_ns for share in shares]
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert summarize([*command, str(out)]) == 0
    assert [share.stat().st_mtime_ns == time for share, time in zip(shares, before)] == [False, True, True]
    assert out.read_bytes() == whole.read_bytes()
    out.unlink()
    shutil.copyfile(shares[0], shares[1])
    assert summarize([*shared, "3/3"]) == 2
    assert "has no summary or two" in capsys.readouterr().err and not out.exists()


@pytest.mark.parametrize("count, shard", [("SLURM_STEP_NUM_TASKS", "4/4"), ("SLURM_NTASKS", "None")])
def test_slurm_numbers_the_shards_of_a_step_but_not_of_a_script_outside_srun(count, shard, monkeypatch):
    monkeypatch.setenv("SLURM_PROCID", "3")
    monkeypatch.setenv(count, "4")
    assert str(find_launched_shard()) == shard


def test_an_interrupted_split_is_continued(run, tmp_path, monkeypatch, capsys):
    folder, _ = run
    command = [str(folder), "--split", "test", "--device", "cpu", "--read-ahead", "1", "--output"]
    assert summarize([*command, str(tmp_path / "whole")]) == 0
    stream = Summarizer.stream

    def interrupted(self, *args, **options):
        yield from itertools.islice(stream(self, *args, **options), 2)
        raise OSError("no power")

    with monkeypatch.context() as patch:
        patch.setattr(Summarizer, "stream", interrupted)
        assert summarize([*command, str(tmp_path / "out")]) == 2
    assert summarize([*command, str(tmp_path / "out")]) == 0
    assert "2 documents are finished" in capsys.readouterr().err
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()


def test_probabilities_of_words_restrict_copying(run, tmp_path):
    folder, texts = run
    rows = []
    for text in texts:
        words = text.split()
        rows.append((compute_source_hash(words), [str(number % 2) for number in range(len(words))]))
    write_label_rows(tmp_path / "probabilities.words.test", {"documents": len(rows), "truncate_source": 60}, rows)
    selection = ["--selection", str(tmp_path), "--selection-threshold", "0.5", "--selection-factor", "3"]
    scores = []
    for options in ([], selection):
        output = tmp_path / f"{len(scores)}.jsonl"
        assert summarize([str(folder), "--split", "test", "--output", str(output), "--device", "cpu", *options]) == 0
        scores.append([json.loads(line)["score"] for line in output.open()])
    assert scores[0] != scores[1]
