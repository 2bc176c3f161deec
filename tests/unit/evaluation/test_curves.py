"""etads-plot: values read from fairseq's logs in all their forms, and the drawing."""

import errno
import gzip
import json
from pathlib import Path

import pytest

from fairseq_etads.commands import plot
from fairseq_etads.commands.plot import TrainingLog, main, read_log

STAMP = "2026-11-22 07:32:39 | INFO | {} | "
HYDRA = "[2026-11-22 07:32:39,123][{}][INFO] - "


def with_updates(updates, figures, sign, between):
    return between.join(f"{name}{sign}{value}" for name, value in {**figures, "num_updates": updates}.items())


def inner(updates, prefix=STAMP, **figures):
    values = with_updates(updates, figures, "=", ", ")
    return f"{prefix.format('train_inner')}epoch 001:  {updates:5d} / 160 {values}, lr=0.5, wps=10"


def validated(updates, name="valid", prefix=STAMP, **figures):
    values = with_updates(updates, figures, " ", " | ")
    return f"{prefix.format(name)}epoch 001 | valid on '{name}' subset | {values} | best_loss 1"


def epoch(updates, prefix=STAMP, **figures):
    return f"{prefix.format('train')}epoch 001 | {with_updates(updates, figures, ' ', ' | ')}"


def parse(*lines):
    log = TrainingLog()
    for line in lines:
        log.read_line(line)
    return log.sort_values().figures


def write(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("prefix", [STAMP, HYDRA, ""])
def test_lines_of_every_origin_hold_the_same(prefix):
    found = parse(
        "2026-11-22 07:32:32 | INFO | fairseq.trainer | begin training epoch 1",
        inner(10, prefix, loss=8.5, p_gen=0.5, coverage_loss="1.5e-05"),
        inner(20, prefix, loss="7", p_gen="nan"),
        validated(20, prefix=prefix, loss=6, ppl=64),
        validated(20, "valid1", prefix=prefix, loss=5),
        epoch(20, prefix, loss=7.75, gnorm=1),
    )
    assert found["loss"] == {"train": {10: 8.5, 20: 7.0}, "valid": {20: 6.0}, "valid1": {20: 5.0}}
    assert found["p_gen"] == {"train": {10: 0.5}}, "what is not a number cannot be drawn"
    assert found["coverage_loss"] == {"train": {10: 1.5e-05}}
    assert found["ppl"] == {"valid": {20: 64.0}} and found["lr"] == {"train": {10: 0.5, 20: 0.5}}
    assert found["gnorm"] == {"train": {20: 1.0}}, "means over epochs stand for figures that have no others"


def test_json_lines():
    prefix = STAMP.format("train")
    found = parse(
        prefix + json.dumps({"epoch": 1, "update": 0.5, "loss": "8.5", "num_updates": "10", "lr": "0.5"}),
        prefix + json.dumps({"epoch": 1, "valid_loss": "6", "valid_num_updates": "10", "valid_best_loss": "6"}),
        prefix + json.dumps({"epoch": 1, "train_loss": "9", "train_gnorm": "2", "train_num_updates": "10"}),
        prefix + '{"epoch": 2, "loss": "8',
    )
    assert found["loss"] == {"train": {10: 8.5}, "valid": {10: 6.0}}
    assert found["gnorm"] == {"train": {10: 2.0}}


LOADED = STAMP.format("fairseq.trainer") + "Loaded checkpoint a/checkpoint_last.pt (epoch 2 @ 20 updates)"
ANEW = STAMP.format("fairseq.trainer") + "No existing checkpoint found a/checkpoint_last.pt"


@pytest.mark.parametrize(
    "again, expected",
    [
        # The training had reached 40, continues from 20, and is now at 30. So 35 and 40 belong to abandoned updates.
        ([LOADED, inner(30, loss=1)], {10: 9, 20: 8, 30: 1}),
        ([LOADED], {10: 9, 20: 8}),
        ([inner(30, loss=1)], {10: 9, 20: 8, 30: 1}),  # a --log-file does not record the loaded checkpoint
        ([ANEW, inner(15, loss=1)], {15: 1}),
        ([inner(40, loss=1)], {10: 9, 20: 8, 30: 7, 35: 7.5, 40: 1}),  # a line occurs twice, and the later one counts
    ],
)
def test_where_training_went_on_the_later_figures_count(again, expected):
    first = [inner(10, loss=9), inner(20, loss=8), inner(30, loss=7), inner(35, loss="7.5"), inner(40, loss=6)]
    validations = [validated(20, loss=5), validated(40, loss=4)]
    found = parse(*first[:2], validations[0], *first[2:], validations[1], *again)["loss"]
    assert found["train"] == expected
    assert 20 not in expected or found["valid"][20] == 5
    assert (40 in found.get("valid", {})) == (40 in expected), "validations are forgotten with their training"


def test_lines_that_an_interruption_cut_off(tmp_path):
    cut = inner(20, loss=8)
    cut = cut[: cut.index("num_updates=20") + len("num_updates=2")]
    text = "\n".join([inner(10, loss=9), cut + inner(30, loss=7), inner(40, loss=6)])
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"caf\xe9, which is not UTF-8\n" + text.encode()))
    found = read_log(tmp_path / "a.gz").figures["loss"]["train"]
    assert found == {10: 9.0, 30: 7.0}, "the last line may still be being written"


@pytest.fixture
def panels(monkeypatch):
    """Points of each drawn line by the title of the panel and the label of the line, one entry for each figure."""
    pytest.importorskip("matplotlib")
    found = []

    def collect(figure, path):
        drawn = [axes for axes in figure.axes if axes.get_visible()]
        lines = [{line.get_label(): list(zip(*line.get_data())) for line in axes.get_lines()} for axes in drawn]
        found.append(dict(zip((axes.get_title() for axes in drawn), lines)))

    monkeypatch.setattr(plot, "save_figure", collect)
    return found


def test_panels_hold_every_figure_of_every_run(tmp_path, panels, capsys):
    for name, loss in (("first", 8), ("second", 6)):
        (tmp_path / name).mkdir()
        lines = [inner(10, loss=loss, sigma=0.5), inner(20, loss=loss - 1, sigma=0.25)]
        write(tmp_path / name / "train.log", *lines, *[validated(20, loss=loss - 2)] * (name == "first"))
    runs = [str(tmp_path / name) for name in ("first", "second")]
    empty = [write(tmp_path / "new", "2026-11-22 | begin"), write(tmp_path / "other", "epoch 1", '{"epoch": 1}')]
    assert main([*runs, *empty]) == 0, "a run that has only begun is left out"
    assert list(panels[0]) == ["loss", "learning rate", "sigma"], "no panel for clocks and sizes"
    assert panels[0]["loss"] == {
        f"{runs[0]}: training": [(10, 8), (20, 7)],
        f"{runs[0]}: valid": [(20, 6)],
        f"{runs[1]}: training": [(10, 6), (20, 5)],
    }
    assert main([runs[0], "--figures", "wps,loss"]) == 0
    assert list(panels[1]) == ["wps", "loss"]
    for options, words in ((empty, "none of the 2 logs"), ([runs[0], "--figures", "loss,lss"], '--figures "lss"')):
        assert main(options) == 2 and words in capsys.readouterr().err


def test_a_plot_appears_when_it_is_complete_and_is_the_same_every_time(tmp_path, monkeypatch):
    figure = pytest.importorskip("matplotlib.figure").Figure
    log = write(tmp_path / "train.log", inner(10, loss=9, ppl=4), inner(20, loss=8, ppl=60), validated(20, loss=5))
    plots = [tmp_path / name for name in ("a.svg", "b.svg")]
    for path in plots:
        assert main([log, "--out", str(path)]) == 0
    assert plots[0].read_bytes() == plots[1].read_bytes()

    def fail(self, path, **options):
        Path(path).write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(figure, "savefig", fail)
    assert main([log, "--out", str(plots[0])]) != 0
    assert plots[0].read_bytes() == plots[1].read_bytes() and sorted(tmp_path.iterdir()) == before
