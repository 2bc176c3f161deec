"""scripts/bundled_model.sh: from descriptions of packages to a model folder, on a small scale, and again."""

import json

import pytest
from recipes import Workshop, debian

from fairseq_etads import Summarizer


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    return Workshop(tmp_path_factory.mktemp("bundled"))


def test_it_trains_scores_and_exports_and_does_so_once(shop):
    text = debian(shop, "", "")
    narrow = [f"--{side}-{what}-dim=16" for side in ("encoder", "decoder") for what in ("embed", "ffn-embed")]
    command = [
        "scripts/bundled_model.sh",
        "--text",
        text,
        "--out",
        "out",
        "--size",
        "12",
        "--steps",
        "6",
        "--",
        *narrow,
    ]
    assert "ROUGE-1" in shop.run(command).stdout
    folder = shop.folder / "out" / "model"
    config = json.loads((folder / "config.json").read_text())
    bundled = json.loads((Summarizer.load("debian", "cpu").folder / "config.json").read_text())
    newer = set(config["model"]) - set(bundled["model"])  # options that the project got since
    on = {
        name: config["model"][name]
        for name in newer
        if config["model"][name] not in (0, False, "", None, "zeros", "none")
    }
    assert not on, "a new option is on by default"
    different = {name for name in bundled["model"] if config["model"][name] != bundled["model"][name]}
    sizes = {f"{side}_{what}" for side in ("encoder", "decoder") for what in ("embed_dim", "ffn_embed_dim")}
    assert different == sizes | {"decoder_input_dim", "decoder_output_dim"}
    for part in ("text", "decoding", "architecture"):
        assert config[part] == bundled[part], "the bundled model is not what the script makes"
    assert config["weights"]["dtype"] == bundled["weights"]["dtype"] == "fp16"
    assert "ROUGE|backend" in (folder / "README.md").read_text()
    made = (folder / "model.safetensors").stat().st_mtime_ns
    assert "already trained" in shop.run(command).stdout
    assert (folder / "model.safetensors").stat().st_mtime_ns == made


def test_wrong_options_are_named(shop):
    refused = shop.run(["scripts/bundled_model.sh", "--steps", "x"], check=False)
    assert refused.returncode == 2 and "--steps x" in refused.stdout
