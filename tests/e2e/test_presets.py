"""The architectures of all papers on real text by the real commands: they train, resume, average and summarise."""

import pytest
import torch
from fairseq import checkpoint_utils
from helpers import run_command
from toy import PLUGIN, SMALL_MODEL, by_two_workers, summaries

SIZES = {"train": 200, "valid": 20, "test": 20}
TRAIN = ["--criterion", "summarization_nll", "--lr", "1e-3", "--truncate-source", "60", "--no-epoch-checkpoints"]
LAYERS = ["--encoder-layers", "2", "--decoder-layers", "2"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The first pairs of the sample corpus: joined/ with one dictionary and a copy tail, separate/ with two."""
    directory = tmp_path_factory.mktemp("sample")
    run_command(["etads-debian", "--sample", "--out", str(directory / "all")], cwd=directory)
    text = directory / "text"
    text.mkdir()
    for split, size in SIZES.items():
        for side in ("source", "target"):
            lines = (directory / "all" / f"{split}.{side}").read_text(encoding="utf-8").split("\n")[:size]
            (text / f"{split}.{side}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    prepare = ["etads-prepare", str(text), str(directory / "run"), "--tokens", "word", "--size", "400", "--jobs", "1"]
    run_command(prepare, cwd=directory)
    (directory / "run" / "bin").rename(directory / "joined")
    tokens = directory / "run" / "tokens"
    texts = ["--train", str(tokens / "train.source"), "--documents", str(tokens / "test.source")]
    run_command(["etads-dictionary", str(directory / "dict.txt"), *texts, "--size", "400"], cwd=directory)
    pairs = [f"--{split}pref={tokens / split}" for split in SIZES]
    command = ["fairseq-preprocess", "-s", "source", "-t", "target", "--srcdict", str(directory / "dict.txt")]
    run_command([*command, "--nwordstgt", "300", "--destdir", str(directory / "separate"), *pairs], cwd=directory)
    return directory


def train(data, save, arch, *options):
    command = ["fairseq-train", str(data), *PLUGIN, "--arch", arch, *SMALL_MODEL, *LAYERS, *TRAIN, *options]
    return run_command([*command, "--save-dir", str(save)], cwd=save).stdout


def summarise(data, checkpoint, *options):
    command = ["fairseq-generate", str(data), *PLUGIN, "--path", str(checkpoint), "--beam", "2", "--max-len-b", "6"]
    return summaries(run_command([*command, "--cpu", "--max-tokens", "2000", *options], cwd=checkpoint.parent).stdout)


def test_a_model_with_two_dictionaries_replaces_unknown_words(data, tmp_path):
    train(data / "separate", tmp_path, "es_transformer", "--max-update", "4")
    plain, found = (
        summarise(data / "separate", tmp_path / "checkpoint_last.pt", *o) for o in ([], ["--replace-unknown"])
    )
    assert sorted(found) == list(range(SIZES["test"])), "documents were skipped"
    assert any("<unk>" in summary for summary in plain.values()), "nothing to replace: nothing is shown"
    assert not any("<unk>" in summary for summary in found.values())


def test_shared_layers_survive_half_precision_resuming_and_averaging(data, tmp_path):
    """Half precision as on a GPU, by the optimiser that also works without one."""
    options = ["--memory-efficient-fp16", "--fp16-init-scale", "4", "--save-interval-updates", "2"]
    train(data / "separate", tmp_path, "gated_es_transformer", *options, "--max-update", "2")
    log = train(data / "separate", tmp_path, "gated_es_transformer", *options, "--max-update", "6")
    assert "Loaded checkpoint" in log and "@ 2 updates" in log
    saved = sorted(str(path) for path in tmp_path.glob("checkpoint_*_*.pt"))
    assert len(saved) >= 2
    run_command(["etads-average", str(tmp_path / "mean.pt"), *saved], cwd=tmp_path)
    found = summarise(data / "separate", tmp_path / "mean.pt", "--replace-unknown")
    assert sorted(found) == list(range(SIZES["test"]))


def test_two_workers_go_on_with_shared_layers(data, tmp_path):
    """A worker that had not loaded the checkpoint would wait for the other; new checkpoints store shared weights
    once.
    """
    arguments = (train, data / "separate", tmp_path, "gated_es_transformer", "--disable-validation", "--max-update")
    by_two_workers(*arguments, "2")
    first = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)["model"]
    logs = by_two_workers(*arguments, "4")
    assert "as rank 1" in logs[1] and "Loaded checkpoint" in logs[0] and "@ 2 updates" in logs[0]
    saved = torch.load(tmp_path / "checkpoint_last.pt", weights_only=True)
    assert saved["optimizer_history"][-1]["num_updates"] == 4
    second, name = saved["model"], "layers.1.fc1.weight"
    assert not torch.equal(first[f"encoder.{name}"], second[f"encoder.{name}"])
    assert f"decoder.{name}" not in second and "decoder.layers.1.encoder_attn.q_proj.weight" in second
    model = checkpoint_utils.load_model_ensemble([str(tmp_path / "checkpoint_last.pt")])[0][0]
    assert model.decoder.layers[1].fc1.weight is model.encoder.layers[1].fc1.weight
