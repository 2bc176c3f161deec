"""A training observed in every way: from a configuration in configs/, with samples, curves and other loggers."""

import importlib.util
import re
from pathlib import Path

import pytest
from helpers import run_command

ROOT = Path(__file__).parents[2]
SMALL = {"encoder_layers": 1, "decoder_layers": 1, "encoder_embed_dim": 32, "encoder_ffn_embed_dim": 32}


def needs(package):
    """Skip a test without a package that an extra brings."""
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(missing, reason=f"{package} is not installed: pip install {package} (extra of setup.py)")


@pytest.fixture(scope="module")
def folder(corpus, tmp_path_factory):
    """The folder of a training by fairseq-hydra-train: an epoch of two updates, and two more of the next."""
    folder = tmp_path_factory.mktemp("watched")
    sizes = {**SMALL, "encoder_attention_heads": 2, "pointer": "soft"}
    options = [f"task.data={corpus / 'bin'}", *(f"model.{name}={value}" for name, value in sizes.items())]
    options += [
        "optimization.max_update=4",
        "dataset.max_tokens=2700",
        "common.log_interval=1",
        "task.truncate_source=8",
    ]
    options += ["++task.validation_samples=2", "++model.decoder_attention_heads=2", "++dataset.num_workers=0"]
    options += ["++common.cpu=true", "++common.tensorboard_logdir=curves", "++common.wandb_project=etads"]
    command = ["fairseq-hydra-train", "--config-dir", str(ROOT / "configs"), "--config-name", "etads"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_MODE", "offline")
        run_command([*command, *options, f"hydra.run.dir={folder / 'run'}"], cwd=folder)
    return folder / "run"


def test_the_log_has_samples_and_curves(folder):
    (log,) = folder.glob("*train.log")
    text = log.read_text()
    validations = text.count("valid on 'valid' subset")
    assert validations >= 2, "only one epoch: nothing was set up again"
    assert len(re.findall(r"validation sample [01] summary: +\S", text)) == 2 * validations
    pytest.importorskip("matplotlib")
    said = run_command(["etads-plot", str(folder)], cwd=folder).stdout
    assert f"run: 4 updates; {validations} validations on valid, lowest loss" in said
    assert (folder / "curves.png").stat().st_size > 20_000


@needs("tensorboard")
def test_tensorboard_has_the_figures_of_the_criterion(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for kind, figures in (("train_inner", {"loss", "p_gen", "lr", "gnorm"}), ("valid", {"loss", "p_gen", "ppl"})):
        events = EventAccumulator(str(folder / "curves" / kind)).Reload()
        assert figures <= set(events.Tags()["scalars"])
        steps = [event.step for event in events.Scalars("loss")]
        assert steps == [1, 2, 3, 4] if kind == "train_inner" else steps[-1] == 4


@needs("wandb")
def test_weights_and_biases_have_them_without_a_network(folder):
    (history,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    data = history.read_bytes()
    assert all(name in data for name in (b"train_inner/p_gen", b"train/loss", b"valid/ppl"))
