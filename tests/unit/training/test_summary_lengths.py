"""The lengths of the training summaries: in a checkpoint, in a model folder, and as its defaults of decoding."""

import json
from pathlib import Path

import pytest
from folders import make_run
from helpers import make_task
from selection_data import write_data

from fairseq_etads.commands.export import main as export
from fairseq_etads.platform.errors import InputError
from fairseq_etads.search.lengths import TextLengths
from fairseq_etads.summarizer.folder.config import read_config
from fairseq_etads.training.options import SummarizationConfig
from fairseq_etads.training.task import SummarizationTask

SHORT = TextLengths([3] * 8 + [7] * 80 + [11] * 12).get_percentiles()


def task_of(folder, **options):
    cfg = SummarizationConfig(data=str(folder), **options)
    cfg.dataset_impl, cfg.train_subset, cfg.required_seq_len_multiple = None, "train", 1
    return SummarizationTask.setup_task(cfg)


@pytest.mark.parametrize("cut,longest", [(None, 8), (4, 4)])
def test_a_checkpoint_has_the_lengths_of_the_training_summaries_as_they_are_cut(cut, longest, tmp_path):
    pairs = [("a b c", " ".join(["a"] * length)) for length in (1, 2, 3, 4, 8)]
    write_data(tmp_path, {"train": pairs, "valid": [("a b", "a b c a b c")]})
    task = task_of(tmp_path, truncate_target=cut)
    assert "summary_lengths" not in task.state_dict()
    task.load_dataset("valid")
    assert "summary_lengths" not in task.state_dict(), "of training, and of nothing else"
    task.load_dataset("train")
    lengths = task.state_dict()["summary_lengths"]
    assert (lengths["1"], lengths["50"], lengths["99"]) == (1, 3, longest)
    other = task_of(tmp_path)
    other.load_state_dict(json.loads(json.dumps({"summary_lengths": lengths})))
    assert other.state_dict()["summary_lengths"] == lengths


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run with a checkpoint that knows the lengths."""
    task = make_task(60, 20, tail=3)
    task.summary_lengths = SHORT
    make_run(tmp_path / "run", task=task)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run"


def exported(*options):
    assert export(["run", "model", *options]) == 0
    return read_config(Path("model"))


def test_a_folder_has_them_and_its_summaries_are_as_long(run, capsys):
    config = exported()
    assert config.task["summary_lengths"] == SHORT
    assert (config.decoding["min_len"], config.decoding["max_len"]) == (7, 12)
    assert "default lengths, from the training summaries: --min-len 7 --max-len 12" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options,bounds",
    [
        (["--min-len", "2"], (2, 12)),
        (["--max-len", "9"], (7, 9)),
        (["--max-len", "5"], (1, 5)),
        (["--min-len", "15"], (15, 20)),
        (["--exact-length", "6"], (1, 20)),
        (["--max-len-a", "0.5"], (1, 20)),
    ],
)
def test_what_is_given_decides(options, bounds, run):
    config = exported(*options)
    assert (config.decoding["min_len"], config.decoding["max_len"]) == bounds


def test_the_options_in_a_recipe_decide(run):
    record = {"recipe": "small", "decoding": {"min_len": 3, "max_len": 4, "no_repeat_ngram_size": 2}}
    (run / "recipe.json").write_text(json.dumps(record))
    config = exported()
    assert {name: config.decoding[name] for name in record["decoding"]} == record["decoding"]


@pytest.mark.parametrize("value", [{"50": 7}, [7], {**SHORT, "99": 1}])
def test_a_folder_with_other_lengths_is_refused(value, run):
    exported()
    path = run.parent / "model" / "config.json"
    content = json.loads(path.read_text())
    content["task"]["summary_lengths"] = value
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r'"summary_lengths" is .*, not percentiles of lengths'):
        read_config(run.parent / "model")
