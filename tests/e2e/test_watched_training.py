"""A training by fairseq-hydra-train from a configuration in configs/, with samples and curves."""

import re
from pathlib import Path

import pytest
from helpers import run_command
from test_commands import generate
from toy import summaries

CONFIGS = str(Path(__file__).parents[2] / "configs")
SMALL = {"encoder_layers": 1, "decoder_layers": 1, "encoder_embed_dim": 32, "encoder_ffn_embed_dim": 32}


def test_the_log_has_samples_and_curves_and_the_model_decodes(corpus, tmp_path):
    """An epoch has two updates, and there are two more of the next."""
    sizes = {**SMALL, "encoder_attention_heads": 2, "pointer": "soft"}
    options = [f"task.data={corpus / 'bin'}", *(f"model.{name}={value}" for name, value in sizes.items())]
    options += ["optimization.max_update=4", "dataset.max_tokens=2700", "common.log_interval=1"]
    options += ["task.truncate_source=8", "++task.validation_samples=2", "++model.decoder_attention_heads=2"]
    options += [
        "++model.focus_layers=none",
        "++dataset.num_workers=0",
        "++common.cpu=true",
        f"hydra.run.dir={tmp_path / 'run'}",
    ]
    command = ["fairseq-hydra-train", "--config-dir", CONFIGS, "--config-name", "etads"]
    run_command([*command, *options], cwd=tmp_path, anew=True)
    (log,) = (tmp_path / "run").glob("*train.log")
    text = log.read_text()
    validations = text.count("valid on 'valid' subset")
    assert validations >= 2, "only one epoch: nothing was set up again"
    assert len(re.findall(r"validation sample [01] summary: +\S", text)) == 2 * validations
    assert "gate_q_proj" in text and "FocusEncoderLayer(" not in text
    (checkpoint,) = (tmp_path / "run").rglob("checkpoint_last.pt")
    assert len(summaries(generate(corpus / "bin", checkpoint).stdout)) == 37
    pytest.importorskip("matplotlib")
    said = run_command(["etads-plot", str(tmp_path / "run")], cwd=tmp_path).stdout
    assert f"run: 4 updates; {validations} validations on valid, lowest loss" in said
    assert (tmp_path / "run" / "curves.png").stat().st_size > 20_000
