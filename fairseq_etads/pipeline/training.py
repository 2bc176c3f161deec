"""Train with fairseq-train, unless a run with these options and data has already finished and its checkpoints exist.

RUN/training.json records the command, the data and the checkpoints that the command names, for example with
--init-from. If a run was interrupted, the same command continues it. If options have changed, the changes
are listed. It is an error to continue a run with a different seed, with other data, or with checkpoints that have
changed. fairseq's output is written to RUN/train.log, and RUN/finished.txt contains the last command that finished. RUN
is locked, so that only one process uses it at a time.
"""

import difflib
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from ..data.run_record import RunRecord, compute_data_fingerprint, list_checkpoints
from ..files.checksums import compute_sha256
from ..files.outputs import lock_output, write_text
from ..platform.console import print_message
from ..platform.errors import InputError
from . import fairseq_log
from .training_settings import get_option, read_options

FINISHED = "finished.txt"
PLUGIN = "fairseq_etads"
CHECKPOINTS = (
    *("--init-from", "--finetune-from-model", "--continue-once", "--restore-file"),
    *("--extractor", "--abstractor", "--rougesal-saliency", "--entail-model", "--raml-entailment-model"),
)
"""Options that name a checkpoint, or the folder of an entailment model, on which the result of training depends."""


def list_options(command: Sequence[str]) -> List[str]:
    """Return the options of a command with their last values, sorted by name.

    Neither their order, nor a value that is replaced later, nor --log-interval affects the result of training. Commands
    that were recorded by earlier versions are split at spaces.
    """
    found = read_options(" ".join(command).split())
    return [" ".join([name, *found[name]]).strip() for name in sorted(found) if name != "--log-interval"]


def make_training_command(run: Path, prepared: Path, options: Sequence[str]) -> List[str]:
    """Return the fairseq-train command for a run, with ``fairseq_etads`` in place of the path of the plugin.

    Checkpoints are written every 1,000 steps and at the end of each epoch, and the last and the best one are kept.
    """
    return [
        *("fairseq-train", str(prepared / "bin"), "--user-dir", PLUGIN, "--task", "summarization"),
        *("--criterion", "summarization_nll", "--save-dir", str(run / "checkpoints"), "--no-epoch-checkpoints"),
        *("--save-interval-updates", "1000", "--keep-interval-updates", "1"),
        *("--no-progress-bar", "--log-format", "simple", "--log-interval", "10"),
        *options,
    ]


def train(run: Path, prepared: Path, options: Sequence[str], usual_minutes: Optional[float] = None) -> None:
    """Train with these options of fairseq-train unless this run has already finished.

    A message is shown if training takes longer than ``usual_minutes``. Raises InputError if the folder contains a run
    with another seed or other data, and SystemExit if fairseq-train fails or a signal ends it.
    """
    command = make_training_command(run, prepared, options)
    if "--cpu" in options:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # with --cpu alone, parts of fairseq still use GPUs
    record = RunRecord(
        command, str(prepared.resolve()), compute_data_fingerprint(prepared), compute_checkpoint_checksums(run, command)
    )
    with lock_output(run, "--out", folder=True) as held:
        before = RunRecord.read(run)
        if before is not None and before.data and before.data != record.data:
            raise InputError(
                f"--out {run}: it was trained with other data, at {before.prepared}; name another "
                "folder, or delete this one"
            )
        made, finished = next(iter(list_checkpoints(run)), None), run / FINISHED
        if before is not None and made is not None:
            check_checkpoints_unchanged(run, before.files, record.files)
            record = replace(record, files={**before.files, **record.files})  # some files may have been deleted since
        plain = list_options(command)
        ended = [finished.read_text(encoding="utf-8", errors="replace")] if finished.is_file() else []
        is_finished = before is not None and plain == list_options(before.command) == list_options(ended)
        if made is not None and is_finished:
            record.write(run)
            print_message(f"already trained with these options (delete {finished} to continue): {made}")
            return
        if before is not None and (run / "checkpoints" / "checkpoint_last.pt").is_file():
            check_seed_unchanged(run, before.command, command)
            print_differing_options(run, before.command, command)
        record.write(run)
        print_message(
            f"training {run}; Ctrl-C interrupts it, and the same command continues it; log: {run / 'train.log'}"
        )
        place = str(Path(__file__).resolve().parents[1])  # the plugin of this installation, wherever fairseq looks
        words = [place if word == PLUGIN else word for word in command]
        watcher = fairseq_log.LogWatcher(words, fairseq_log.ProgressTerminal().show_line, usual_minutes=usual_minutes)
        status = fairseq_log.run_logged_command(words, str(run / "train.log"), watcher, held)
        if status:
            sys.exit(2 if status < 128 else status)
        write_text(finished, " ".join(command) + "\n")
    (run / "started.txt").unlink(missing_ok=True)  # earlier versions wrote this file
    for path in list_checkpoints(run)[:1]:
        print_message(f"{path.stem.split('_')[1]} checkpoint: {path}")
        return
    print_message(f"fairseq-train wrote no checkpoint to {run / 'checkpoints'}")


def compute_checkpoint_checksums(run: Path, command: Sequence[str]) -> Dict[str, str]:
    """Compute the SHA-256 hash of each checkpoint that a command names, except the run's own checkpoints."""
    own = (run / "checkpoints").resolve()
    named = [Path(" ".join(values)) for option, values in read_options(command).items() if option in CHECKPOINTS]
    named = [path / "model.safetensors" if path.is_dir() else path for path in named]
    return {str(path): compute_sha256(path) for path in named if path.is_file() and own not in path.resolve().parents}


def check_checkpoints_unchanged(run: Path, before: Dict[str, str], now: Dict[str, str]) -> None:
    """Raise InputError if a checkpoint has changed since a run was started with it."""
    for path, digest in before.items():
        if now.get(path, digest) != digest:
            raise InputError(
                f"--out {run}: {path} has changed since this training was started with it; name another folder, or "
                "delete this one"
            )


def check_seed_unchanged(run: Path, before: Sequence[str], now: Sequence[str]) -> None:
    """Raise InputError if a run would be continued with a different seed: the result would match neither seed."""
    old, new = (get_option(command, "--seed") or "1" for command in (before, now))
    if old != new:
        raise InputError(
            f"--seed {new}: {run} contains a training with --seed {old}; name another --out, "
            f"or delete {run / 'checkpoints'} to begin again"
        )


def print_differing_options(run: Path, before: Sequence[str], now: Sequence[str]) -> None:
    """Print the options that differ from the options with which a run's checkpoints were trained."""
    lines = [line for line in difflib.ndiff(list_options(before), list_options(now)) if line[:2] in ("- ", "+ ")]
    if lines:
        advice = "it continues from its last checkpoint with these (another --out begins a new training)"
        print_message(f"{run} contains a training with other options; {advice}:")
        for line in lines:
            print(f"     {'<' if line[0] == '-' else '>'} {line[2:]}", file=sys.stderr)
