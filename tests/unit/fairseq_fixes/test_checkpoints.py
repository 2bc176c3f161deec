"""Checkpoints: plain ones load with weights_only, hostile and broken ones are refused with a message, copies are
complete.
"""

import io
import os
import pickle
import tarfile

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from fairseq_etads.fairseq_fixes import checkpoints

HISTORY = {"criterion_name": "x", "lr_scheduler_state": {}, "num_updates": 0, "optimizer_name": "y"}
EXTRA = {"train_iterator": {"epoch": 1}}
MINIMAL = {"optimizer_history": [HISTORY], "model": {}, "extra_state": EXTRA, "args": None, "cfg": None}


class RunsCode:
    """Object that would create a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.mkdir, (str(self.path),))


@pytest.mark.parametrize("place", ["model", "extra_state", "harmless", "bare pickle", "unsafe environment"])
def test_a_checkpoint_that_runs_code_is_refused_and_does_not_run(tmp_path, monkeypatch, place):
    path, victim = tmp_path / "hostile.pt", tmp_path / "made-by-the-checkpoint"
    if place == "bare pickle":
        path.write_bytes(pickle.dumps(RunsCode(victim)))
    else:
        torch.save({**MINIMAL, "model" if place == "unsafe environment" else place: RunsCode(victim)}, path)
    if place == "unsafe environment":
        monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(checkpoints.UnsafeCheckpointError) as error:
        checkpoint_utils.load_checkpoint_to_cpu(str(path))
    assert not victim.exists() and str(path) in str(error.value)
    assert "weights_only" not in str(error.value), "the advice must not be to switch the protection off"


def test_what_fairseq_checkpoints_hold_is_allowed(tmp_path):
    from argparse import Namespace

    from omegaconf import OmegaConf

    cfg = OmegaConf.create({"model": {"_name": "etads", "lr": [0.1], "path": None, "on": True, "share": 0.5}})
    path = tmp_path / "checkpoint.pt"
    torch.save({**MINIMAL, "cfg": cfg, "args": None, "extra": Namespace(arch="etads", betas=(0.9, 0.98))}, path)
    state = checkpoint_utils.load_checkpoint_to_cpu(str(path))
    assert state["cfg"].model.lr == [0.1] and state["extra"].arch == "etads"


def write_tar(path):
    with tarfile.open(path, "w") as archive:
        archive.addfile(tarfile.TarInfo("storages"), io.BytesIO())


def write_half(path):
    torch.save({**MINIMAL, "model": {"weight": torch.zeros(1000)}}, path)
    path.write_bytes(path.read_bytes()[:500])


@pytest.mark.parametrize(
    "write",
    [
        lambda path: path.touch(),
        lambda path: path.write_text("a text\n"),
        lambda path: path.write_bytes(bytes(5000)),
        lambda path: torch.jit.script(torch.nn.Linear(2, 2)).save(str(path)),
        write_tar,
        write_half,
    ],
    ids=["empty", "text", "zeros", "torchscript", "tar", "half"],
)
def test_other_files_are_named_without_advice_to_load_them_unsafely(write, tmp_path):
    write(tmp_path / "other.pt")
    with pytest.raises(checkpoints.UnsafeCheckpointError) as error:
        checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "other.pt"))
    message = str(error.value)
    assert message.startswith(f"{tmp_path / 'other.pt'}: ")
    assert "weights_only" not in message


def test_checkpoints_of_old_torch_still_load(tmp_path):
    torch.save({**MINIMAL, "model": {"x": torch.ones(3)}}, tmp_path / "a.pt", _use_new_zipfile_serialization=False)
    assert checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "a.pt"))["model"]["x"].sum() == 3


def test_a_checkpoint_is_saved_anew_after_a_full_disk(tmp_path, monkeypatch):
    """fairseq's second attempt would be written after the remains of the first."""
    plain_save, attempts = torch.save, []

    def save(state, file):
        attempts.append(state)
        if len(attempts) == 1:
            file.write(b"PK half a checkpoint")
            raise OSError("No space left on device")
        plain_save(state, file)

    monkeypatch.setattr(torch, "save", save)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    checkpoint_utils.torch_persistent_save(MINIMAL, str(tmp_path / "a.pt"))
    assert len(attempts) == 2
    assert (tmp_path / "a.pt").read_bytes().startswith(b"PK\x03\x04")
    assert checkpoint_utils.load_checkpoint_to_cpu(str(tmp_path / "a.pt"))["extra_state"] == EXTRA


def test_copies_appear_whole_or_not_at_all(tmp_path, monkeypatch):
    source, copy = tmp_path / "a.pt", tmp_path / "b.pt"
    source.write_bytes(b"new")
    copy.write_bytes(b"old")

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        PathManager.copy(str(source), str(copy), overwrite=True)
    assert copy.read_bytes() == b"old"
    monkeypatch.undo()
    assert PathManager.copy(str(source), str(copy), overwrite=True)
    assert copy.read_bytes() == b"new"
