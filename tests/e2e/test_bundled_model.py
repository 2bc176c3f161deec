"""The recipes of the bundled models: from descriptions of packages to a model folder, on a small scale, and again."""

import json

import corpora
import pytest
from test_recipes import Workshop, debian

from fairseq_etads import Summarizer


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    return Workshop(tmp_path_factory.mktemp("bundled"))


NARROW = [f"--{side}-{what}-dim=16" for side in ("encoder", "decoder") for what in ("embed", "ffn-embed")]


def test_it_trains_scores_and_exports_and_does_so_once(shop):
    text = debian(shop, "", "")
    command = ["etads-reproduce", "bundled_debian", "--text", text, "--out", "out", "--size", "12", "--steps", "6"]
    command += ["--", *NARROW]
    assert "ROUGE-1" in shop.run(command).stdout
    folder = shop.folder / "out" / "debian-1" / "model"
    check_like_bundled("debian", folder)
    made = (folder / "model.safetensors").read_bytes()
    assert "already trained" in shop.run(command).stdout
    assert (folder / "model.safetensors").read_bytes() == made


def test_the_model_of_papers_is_made_from_articles_with_its_extractor(shop):
    corpora.sumpubmed(shop.folder / "articles", 130)
    shop.run(["etads-corpus", "sumpubmed", "--data", "articles", "--out", "text"])
    command = ["etads-reproduce", "bundled_paper", "--text", "text", "--out", "paper", "--size", "24", "--steps", "4"]
    # The summaries of this corpus are shorter than the model's --min-len.
    assert "ROUGE-1" in shop.run([*command, "--", *NARROW, "--truncate-target", "128"]).stdout
    folder = shop.folder / "paper" / "paper-1" / "model"
    check_like_bundled("paper", folder)
    extractors = [json.loads((path / "extractor" / "config.json").read_text()) for path in (folder, bundled("paper"))]
    for part in ("text", "architecture", "model"):
        assert extractors[0][part] == extractors[1][part]


def bundled(name):
    return Summarizer.load(name, "cpu").folder


def check_like_bundled(name, folder):
    """Compare a folder of a tiny model with the folder that comes with the package."""
    config = json.loads((folder / "config.json").read_text())
    bundled_config = json.loads((bundled(name) / "config.json").read_text())
    check_configs(config, bundled_config)
    assert "ROUGE|backend" in (folder / "README.md").read_text()


def without_lengths(decoding):
    return {name: value for name, value in decoding.items() if name not in ("min_len", "max_len")}


def check_configs(config, bundled):
    newer = set(config["model"]) - set(bundled["model"])  # options that the project got since
    on = {
        name: config["model"][name]
        for name in newer
        if config["model"][name] not in (0, False, "", None, "zeros", "none", "auto")
    }
    assert not on, "a new option is on by default"
    different = {name for name in bundled["model"] if config["model"][name] != bundled["model"][name]}
    sizes = {f"{side}_{what}" for side in ("encoder", "decoder") for what in ("embed_dim", "ffn_embed_dim")}
    # the recipe chooses dropout by the number of epochs, which is large for a tiny corpus
    assert different - {"dropout"} == sizes | {"decoder_input_dim", "decoder_output_dim"}
    for part in ("text", "decoding", "architecture"):
        # a recipe derives the bounds of lengths from the training summaries
        found, kept = (without_lengths(one[part]) if part == "decoding" else one[part] for one in (config, bundled))
        assert found == kept, "the bundled model is not what the recipe makes"
    assert config["weights"]["dtype"] == bundled["weights"]["dtype"] == "fp16"
