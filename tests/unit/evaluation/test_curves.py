"""etads-plot: values read from fairseq's logs in all their forms, and the drawing."""

import errno
import gzip
import json

import pytest

from fairseq_etads.commands.plot import main, make_legend_labels
from fairseq_etads.evaluation import curves
from fairseq_etads.evaluation.training_log import TrainingLog, find_log, read_log
from fairseq_etads.platform.errors import InputError

STAMP = "2026-11-22 07:32:39 | INFO | {} | "
HYDRA = "[2026-11-22 07:32:39,123][{}][INFO] - "


def inner(updates, prefix=STAMP, **figures):
    values = ", ".join(f"{name}={value}" for name, value in {**figures, "num_updates": updates}.items())
    return f"{prefix.format('train_inner')}epoch 001:  {updates:5d} / 160 {values}, lr=0.5, wps=10"


def validated(updates, name="valid", prefix=STAMP, **figures):
    values = " | ".join(f"{name} {value}" for name, value in {**figures, "num_updates": updates}.items())
    return f"{prefix.format(name)}epoch 001 | valid on '{name}' subset | {values} | best_loss 1"


def epoch(updates, prefix=STAMP, **figures):
    return f"{prefix.format('train')}epoch 001 | " + " | ".join(
        f"{name} {value}" for name, value in {**figures, "num_updates": updates}.items()
    )


def parse(*lines):
    log = TrainingLog()
    for line in lines:
        log.read_line(line)
    return log.sort_values().figures


def write(path, *lines, end="\n"):
    path.write_text("\n".join(lines) + end, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("prefix", [STAMP, HYDRA, ""])
def test_lines_of_every_origin_hold_the_same(prefix):
    """Lines come from the terminal, through Hydra, and from a --log-file; some have no time."""
    found = parse(
        "2026-11-22 07:32:32 | INFO | fairseq.trainer | begin training epoch 1",
        inner(10, prefix, loss=8.5, p_gen=0.5, coverage_loss="1.5e-05"),
        inner(20, prefix, loss="7", p_gen="nan"),
        validated(20, prefix=prefix, loss=6, ppl=64),
        validated(20, "valid1", prefix=prefix, loss=5),
        epoch(20, prefix, loss=7.75),
    )
    assert found["loss"] == {"train": {10: 8.5, 20: 7.0}, "valid": {20: 6.0}, "valid1": {20: 5.0}}
    assert found["p_gen"] == {"train": {10: 0.5}}, "what is not a number cannot be drawn"
    assert found["coverage_loss"] == {"train": {10: 1.5e-05}}
    assert found["ppl"] == {"valid": {20: 64.0}} and found["lr"] == {"train": {10: 0.5, 20: 0.5}}


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


def test_means_over_epochs_stand_for_figures_that_have_no_others():
    assert parse(inner(10, loss=3), epoch(16, loss=2, gnorm=1)) == {
        **{"loss": {"train": {10: 3.0}}, "lr": {"train": {10: 0.5}}, "wps": {"train": {10: 10.0}}},
        "gnorm": {"train": {16: 1.0}},
    }


LOADED = STAMP.format("fairseq.trainer") + "Loaded checkpoint a/checkpoint_last.pt (epoch 2 @ 20 updates)"
ANEW = STAMP.format("fairseq.trainer") + "No existing checkpoint found a/checkpoint_last.pt"


@pytest.mark.parametrize(
    "again, expected",
    [
        # The training had reached 40, continues from 20, and is now at 30. So 35 and 40 belong to abandoned updates.
        ([LOADED, inner(30, loss=1)], {10: 9, 20: 8, 30: 1}),
        ([LOADED], {10: 9, 20: 8}),
        ([inner(30, loss=1)], {10: 9, 20: 8, 30: 1}),  # a --log-file does not record the loaded checkpoint
        ([LOADED, inner(45, loss=1)], {10: 9, 20: 8, 45: 1}),  # with another --log-interval
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
    log = read_log(
        find_log(write(tmp_path / "a", inner(10, loss=9), cut + inner(30, loss=7), inner(40, loss=6), end=""))
    )
    assert log.figures["loss"]["train"] == {10: 9.0, 30: 7.0}, "the last line may still be being written"
    assert log.updates == 30


def test_a_compressed_log_and_one_that_is_not_utf8(tmp_path):
    data = (inner(10, loss=9) + "\n").encode()
    (tmp_path / "a.gz").write_bytes(gzip.compress(data))
    (tmp_path / "b").write_bytes(b"caf\xe9\n" + data)
    for name in ("a.gz", "b"):
        assert read_log(tmp_path / name).figures["loss"] == {"train": {10: 9.0}}


@pytest.mark.parametrize(
    "runs, names",
    [(["a"], ["a"]), (["x/a", "y/a/"], ["x/a", "y/a"]), (["x/a", "x/b.log"], ["a", "b.log"]), (["/"], ["/"])],
)
def test_runs_have_short_names(runs, names):
    assert make_legend_labels(runs) == names


@pytest.fixture
def drawn(monkeypatch):
    """Figures captured just before they are written."""
    pytest.importorskip("matplotlib")
    found = []
    monkeypatch.setattr(curves, "save_figure", lambda figure, path: found.append(figure))
    return found


def panels_of(figure):
    """Collect the points of each line by the title of the panel and the label of the line."""
    return {
        axes.get_title(): {line.get_label(): list(zip(*line.get_data())) for line in axes.get_lines()}
        for axes in figure.axes
        if axes.get_visible()
    }


def test_panels_hold_every_figure_of_every_run(tmp_path, drawn, capsys):
    for name, loss in (("first", 8), ("second", 6)):
        (tmp_path / name).mkdir()
        lines = [inner(10, loss=loss, sigma=0.5), inner(20, loss=loss - 1, sigma=0.25)]
        write(tmp_path / name / "train.log", *lines, *[validated(20, loss=loss - 2)] * (name == "first"))
    assert main([str(tmp_path / "first"), str(tmp_path / "second")]) == 0
    found = panels_of(drawn[0])
    assert list(found) == ["loss", "learning rate", "sigma"], "no panel for clocks and sizes"
    assert found["loss"] == {
        "first: training": [(10, 8), (20, 7)],
        "first: valid": [(20, 6)],
        "second: training": [(10, 6), (20, 5)],
    }
    assert [text.get_text() for text in drawn[0].legends[0].get_texts()] == list(found["loss"])
    assert {
        line.get_color() for axes in drawn[0].axes for line in axes.get_lines() if "second" in line.get_label()
    } == {drawn[0].axes[0].get_lines()[2].get_color()}
    said = capsys.readouterr().out
    assert "first: 20 updates; 1 validation on valid, lowest loss 6 after update 20" in said
    assert "second: 20 updates; no validation in the log" in said
    assert f"curves: {tmp_path / 'first' / 'curves.png'}" in said
    assert main([str(tmp_path / "first"), "--figures", "wps,loss"]) == 0
    assert list(panels_of(drawn[1])) == ["wps", "loss"]


def test_names_that_begin_with_an_underscore_are_in_the_legend(tmp_path, drawn):
    for name in ("_new", "old"):
        write(tmp_path / name, inner(10, loss=5), validated(10, loss=6))
    assert main([str(tmp_path / name) for name in ("_new", "old")]) == 0
    (legend,) = drawn[0].legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == ["_new: training", "_new: valid", "old: training", "old: valid"]
    assert len({line.get_color() for line in legend.get_lines()}) == 2


def test_long_curves_show_means_of_neighbours(drawn):
    log = TrainingLog()
    for updates in range(1, 1001):
        log.read_line(inner(updates, loss=updates % 2, ppl=updates))
    curves.draw_curves({"a": log.sort_values()}, "a.png")
    points = panels_of(drawn[0])["loss"]["a: training"]
    assert len(points) == 250 and points[0] == (2.5, 0.5) and points[-1] == (998.5, 0.5)
    perplexity = next(axes for axes in drawn[0].axes if axes.get_title() == "perplexity")
    assert perplexity.get_yscale() == "log"
    assert perplexity.yaxis.get_major_formatter()(20.0) == "20", "no formula, which would be shown as it is spelt"


def test_the_same_log_gives_the_same_file(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    log = write(tmp_path / "train.log", inner(10, loss=9, ppl=4), inner(20, loss=8, ppl=60), validated(20, loss=5))
    for name in ("a.svg", "b.svg"):
        assert main([log, "--out", str(tmp_path / name)]) == 0
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert main([str(tmp_path)]) == 0
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_a_plot_that_cannot_be_written_leaves_the_one_before(tmp_path, capsys, monkeypatch):
    figure = pytest.importorskip("matplotlib.figure").Figure
    log, out = write(tmp_path / "train.log", inner(10, loss=9)), tmp_path / "a.svg"
    assert main([log, "--out", str(out)]) == 0
    before = out.read_bytes()

    def fail(self, path, **options):
        with open(path, "w") as file:
            file.write("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(figure, "savefig", fail)
    assert main([log, "--out", str(out)]) != 0
    assert out.read_bytes() == before and sorted(tmp_path.iterdir()) == [out, tmp_path / "train.log"]


@pytest.mark.parametrize(
    "options, words",
    [
        (["{}/missing"], "missing: no such file or folder"),
        (["{}"], "no train.log or hydra_train.log in this folder"),
        (["{}/empty"], "empty: empty"),
        (["{}/other"], "no training figures in it: is it a log of fairseq-train"),
        (["{}/empty", "{}/other"], "none of the 2 logs contains training figures"),
        (["{}/good", "{}/good"], "good is given twice"),
        (["{}/good", "{}/./good/"], "good is given twice"),
        (["{}/good", "--figures", "loss,lss"], '--figures "lss": not in the log; choose from loss, lr, wps'),
        (["{}/good", "--figures", ","], "--figures: choose from loss"),
        (["{}/good", "--out", "{}/a.gif"], "the name must end in .png"),
    ],
)
def test_what_cannot_be_drawn_is_said_in_words(tmp_path, capsys, options, words):
    pytest.importorskip("matplotlib")
    write(tmp_path / "good", inner(10, loss=9))
    write(tmp_path / "empty", "", end="")
    write(tmp_path / "other", "a", "epoch 1", '{"epoch": 1}')
    assert main([option.format(tmp_path) for option in options]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("etads-plot: ") and words in error


def test_a_run_that_has_only_begun_is_left_out(tmp_path, drawn, capsys):
    files = [write(tmp_path / "good", inner(10, loss=9)), write(tmp_path / "new", "2026-11-22 | begin")]
    assert main(files) == 0
    assert "warning" in capsys.readouterr().err and list(panels_of(drawn[0])["loss"]) == ["good: training"]


def test_no_log_beside_other_files(tmp_path):
    with pytest.raises(InputError, match="name the log file itself"):
        find_log(str(tmp_path))
    write(tmp_path / "hydra_train.log", inner(10, loss=9))
    assert find_log(str(tmp_path)).name == "hydra_train.log"
