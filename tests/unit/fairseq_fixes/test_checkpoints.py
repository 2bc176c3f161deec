"""Checkpoints: plain ones load with weights_only, hostile and broken ones are refused, copies are complete."""

import os
import pickle
from argparse import Namespace
from unittest import mock

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager
from omegaconf import OmegaConf

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


def check_refusal(path):
    """The advice must not be to switch the protection off."""
    with pytest.raises(checkpoints.UnsafeCheckpointError) as error:
        checkpoint_utils.load_checkpoint_to_cpu(str(path))
    assert str(error.value).startswith(f"{path}: ") and "weights_only" not in str(error.value)


def test_a_checkpoint_that_runs_code_is_refused_and_does_not_run(tmp_path, monkeypatch):
    path, victim = tmp_path / "hostile.pt", tmp_path / "made-by-the-checkpoint"
    path.write_bytes(pickle.dumps(RunsCode(victim)))
    check_refusal(path)
    torch.save({**MINIMAL, "model": RunsCode(victim)}, path)
    check_refusal(path)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    check_refusal(path)
    assert not victim.exists()


def test_what_fairseq_checkpoints_hold_is_allowed(tmp_path):
    """Also in the format of old torch."""
    path = tmp_path / "a.pt"
    cfg = OmegaConf.create({"model": {"_name": "etads", "lr": [0.1], "path": None, "on": True, "share": 0.5}})
    for zipped in (True, False):
        extra = {"extra": Namespace(arch="etads", betas=(0.9, 0.98)), "model": {"x": torch.ones(3)}}
        torch.save({**MINIMAL, "cfg": cfg, **extra}, path, _use_new_zipfile_serialization=zipped)
        state = checkpoint_utils.load_checkpoint_to_cpu(str(path))
        assert state["cfg"].model.lr == [0.1] and state["extra"].arch == "etads" and state["model"]["x"].sum() == 3


@pytest.mark.parametrize("kind", ["text", "half a checkpoint", "TorchScript"])
def test_other_files_are_refused(kind, tmp_path):
    path = tmp_path / "other.pt"
    if kind == "TorchScript":
        torch.jit.script(torch.nn.Linear(2, 2)).save(str(path))
    else:
        torch.save({**MINIMAL, "model": {"weight": torch.zeros(1000)}}, path)
        path.write_bytes(b"a text" if kind == "text" else path.read_bytes()[:500])
    check_refusal(path)


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

    monkeypatch.setattr(os, "replace", mock.Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        PathManager.copy(str(source), str(copy), overwrite=True)
    assert copy.read_bytes() == b"old"
    monkeypatch.undo()
    assert PathManager.copy(str(source), str(copy), overwrite=True)
    assert copy.read_bytes() == b"new"
