"""``etads-export``: its output for a run, the model card, and refusals."""

import json

import pytest
import torch
from folders import make_run

from fairseq_etads.commands.export import main
from fairseq_etads.data.run_record import RunRecord, compute_data_fingerprint
from fairseq_etads.summarizer.folder.config import read_config
from fairseq_etads.summarizer.folder.loading import load_folder

ROUGE = {"f1": 34.61, "precision": 40.4, "recall": 31.67, "f1_interval": [32.84, 36.59]}
SCORES = {"scores": {"rouge1": ROUGE}, "signature": "ROUGE|backend:x|v:1"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "mine"
    make_run(path, pointer="soft", settings={"source_marks": True, "lowercase": False})
    (path / "finished.txt").write_text("fairseq-train data --arch etads\nmore\n")
    (path / "rouge.json").write_text(json.dumps(SCORES))
    (path / "text").mkdir()
    (path / "text" / "report.json").write_text('{"corpus": "cnndm"}')
    lengths = {"train.source": {"lines": 12000, "mean tokens": 68.04, "max tokens": 401}}
    (path / "prepared" / "report.json").write_text(json.dumps({"lengths": lengths}))
    return path


@pytest.mark.parametrize("longest,given,max_len", [(12, [], 12), (300, [], 20), (12, ["--min-len", "15"], 15)])
def test_summaries_are_as_long_as_in_the_training_data_which_runs_may_share(tmp_path, longest, given, max_len):
    make_run(tmp_path / "run", pointer="soft")
    shared = (tmp_path / "run" / "prepared").rename(tmp_path / "shared")
    RunRecord(["fairseq-train", "x"], str(shared), compute_data_fingerprint(shared)).write(tmp_path / "run")
    (shared / "report.json").write_text(json.dumps({"lengths": {"train.target": {"max tokens": longest}}}))
    assert main([str(tmp_path / "run"), str(tmp_path / "folder"), *given]) == 0
    assert read_config(tmp_path / "folder").decoding["max_len"] == max_len
    assert "fairseq-train x\n" in (tmp_path / "folder" / "README.md").read_text()


def test_an_empty_folder_is_filled_and_the_current_one_refused(run, tmp_path, monkeypatch, capsys):
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    assert main([str(run), str(tmp_path / "link")]) == 0 and read_config(tmp_path / "empty")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for given, message in (
        ([str(run), "."], "FOLDER .: is the current folder"),
        ([str(tmp_path / "empty"), "new"], "no checkpoints/checkpoint_best.pt or checkpoint_last.pt"),
    ):
        assert main(given) == 2
        assert message in capsys.readouterr().err


def test_a_run_becomes_a_folder_with_a_card(run, tmp_path):
    folder = tmp_path / "folder"
    options = "--beam 4 --min-len 2 --no-allow-unk --license mit --language en --title Short --dtype fp16"
    assert main([str(run), str(folder), *options.split()]) == 0
    config = read_config(folder)
    assert config.decoding == {"beam": 4, "min_len": 2, "max_len": 20, "lenpen": 1.0, "allow_unk": False}
    assert config.text["words"] == "spaces" and config.text["keep_case"]
    assert config.text["sentence_marks"] == "insert"
    assert load_folder(folder).tokenizer.encode("A bee. C dog.") == "A bee. <q> C dog."
    card = (folder / "README.md").read_text()
    for part in ("license: mit\nlanguage: en\n", "# Short\n", "fairseq-train data --arch etads\n", "Corpus: cnndm."):
        assert part in card, part
    for part in ("32.84 to 36.59 |", "| train.source | 12,000 | 68.04 | 401 |", "--beam 4", "stored as fp16"):
        assert part in card, part


@pytest.mark.parametrize(
    "options,words",
    [
        ("--checkpoint nowhere.pt", "--checkpoint nowhere.pt: no such file"),
        ("--prepared nowhere", "--prepared nowhere"),
        ("--extractor .", "no checkpoints/checkpoint_best.pt"),
        ("--license MIT:yes", "--license 'MIT:yes'"),
        ("--scores nowhere", "nowhere: No such file"),
        ("--scores nested", "not a report of scores"),
        ("--unkpen 2", "--unkpen 2.0 has no effect on models with --pointer"),
    ],
)
def test_wrong_options_are_refused(run, tmp_path, monkeypatch, options, words, capsys):
    (tmp_path / "nested").write_text("[" * 9999)
    monkeypatch.chdir(tmp_path)
    assert main([str(run), "folder", *options.split()]) == 2
    assert words in capsys.readouterr().err and not (tmp_path / "folder").exists()


def test_an_option_that_only_another_version_has_is_refused(tmp_path, capsys):
    """fairseq drops options that it does not know, and would export another model than that which was trained."""
    make_run(tmp_path / "run", arch="etads_basic")
    path = tmp_path / "run" / "checkpoints" / "checkpoint_best.pt"
    state = torch.load(path)
    state["cfg"]["model"]["attention_decay"] = 0.5
    torch.save(state, path)
    assert main([str(tmp_path / "run"), str(tmp_path / "folder")]) == 2
    assert "--attention-decay 0.5: --arch etads_basic has no such option here" in capsys.readouterr().err
