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

SHORT = TextLengths([3] * 8 + [7] * 80 + [11] * 12).get_percentiles()


@pytest.mark.parametrize("cut,longest", [(None, 8), (4, 4)])
def test_a_checkpoint_has_the_lengths_of_the_training_summaries_as_they_are_cut(cut, longest, tmp_path):
    pairs = [("a b c", " ".join(["a"] * length)) for length in (1, 2, 3, 4, 8)]
    write_data(tmp_path, {"train": pairs, "valid": [("a b", "a b c a b c")]})
    task = make_task(data=str(tmp_path), truncate_target=cut, source_lang="source", target_lang="target")
    task.load_dataset("valid")
    assert "summary_lengths" not in task.state_dict(), "of training, and of nothing else"
    task.load_dataset("train")
    lengths = task.state_dict()["summary_lengths"]
    assert (lengths["1"], lengths["50"], lengths["99"]) == (1, 3, longest)
    other = make_task()
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


@pytest.mark.parametrize(
    "options,bounds",
    [
        ([], (7, 12)),
        (["--min-len", "2"], (2, 12)),
        (["--max-len", "5"], (1, 5)),
        (["--min-len", "15"], (15, 20)),
        (["--exact-length", "6"], (1, 20)),
        (["--max-len-a", "0.5"], (1, 20)),
    ],
)
def test_summaries_of_a_folder_are_as_long_unless_options_decide(options, bounds, run):
    assert export(["run", "model", *options]) == 0
    config = read_config(Path("model"))
    assert config.task["summary_lengths"] == SHORT
    assert (config.decoding["min_len"], config.decoding["max_len"]) == bounds


def test_the_options_in_a_recipe_decide_and_other_lengths_are_refused(run):
    record = {"recipe": "small", "decoding": {"min_len": 3, "max_len": 4, "no_repeat_ngram_size": 2}}
    (run / "recipe.json").write_text(json.dumps(record))
    assert export(["run", "model"]) == 0
    decoding = read_config(Path("model")).decoding
    assert {name: decoding[name] for name in record["decoding"]} == record["decoding"]
    content = json.loads(Path("model/config.json").read_text())
    content["task"]["summary_lengths"] = {**SHORT, "99": 1}
    Path("model/config.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match='"summary_lengths" is '):
        read_config(Path("model"))
