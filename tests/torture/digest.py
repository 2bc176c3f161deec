"""Result of a training as one line: SHA-256 of parameters and optimiser, number of updates, best loss."""

import hashlib
import sys

import torch
from fairseq import checkpoint_utils


def _feed(digest, value) -> None:
    """Add tensors, numbers and texts in nested dictionaries and lists to the digest, in order."""
    if isinstance(value, torch.Tensor):
        digest.update(str((value.dtype, tuple(value.shape))).encode() + value.contiguous().numpy().tobytes())
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            digest.update(str(key).encode())
            _feed(digest, value[key])
    elif isinstance(value, (list, tuple)):
        for part in value:
            _feed(digest, part)
    else:
        digest.update(repr(value).encode())


def main() -> None:
    """``torture-digest CHECKPOINT...``: print a line for each checkpoint."""
    for path in sys.argv[1:]:
        state = checkpoint_utils.load_checkpoint_to_cpu(path)
        digest = hashlib.sha256()
        _feed(digest, [state["model"], state["last_optimizer_state"], state["task_state"]])
        updates = state["optimizer_history"][-1]["num_updates"]
        print(digest.hexdigest(), updates, state["extra_state"].get("best"), state["extra_state"]["train_iterator"])
