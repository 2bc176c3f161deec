"""The commands under test, on a small corpus: the inputs and outputs of each, and the comparison of two results."""

import csv
import random
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List

from .workplace import ROOT, Run, Workplace, digests

MODEL = [
    *("--encoder-layers", "1", "--decoder-layers", "1", "--encoder-embed-dim", "16", "--encoder-ffn-embed-dim", "16"),
    *("--encoder-attention-heads", "2", "--decoder-attention-heads", "2", "--num-workers", "0", "--batch-size", "16"),
    *("--lr", "1e-2", "--save-interval-updates", "4"),
]
PAIRS = {"train": 160, "valid": 12, "test": 10}
STEPS = 22
"""Two epochs of 10 steps and a part of the third; there is a checkpoint of step 16, in the middle of the second."""


TRAINED_THEN_READ = "train.sh; generate.sh --checkpoint"
"""train.sh does not read the checkpoint of a finished training, so the command that reads it next counts."""


@dataclass
class Stage:
    """A command, run in a folder with its inputs.

    Attributes:
        command: its words; paths are relative to the folder.
        inputs: files made by earlier stages that it reads.
        makes: files and folders with its result.
        digest: checkpoints, which are compared by parameters and state because their bytes contain times.
        compares_shown: its output belongs to the result.
        only_damaged: it is tested only with damaged files, not with kills and other faults, because it consists of
            other stages' commands.
    """

    name: str
    command: List[str]
    inputs: List[str]
    makes: List[str]
    digest: List[str] = field(default_factory=list)
    compares_shown: bool = False
    only_damaged: bool = False

    def result(self, place: Workplace, trial: Path, run: Run) -> Any:
        """The command's result, for comparisons."""
        result: Dict[str, Any] = digests(trial, self.makes)
        if self.digest:
            # the last line, so that parallel trials do not differ in the output of --user-dir
            shown = place.run(["torture-digest", *self.digest], trial).shown
            result["checkpoints"] = [line for line in shown.splitlines() if not line.startswith("20")]
        if self.compares_shown:
            result["shown"] = run.shown
        return result


def write_raw(folder: Path, seed: int) -> None:
    """Write a table for etads-corpus and an index for etads-debian: documents about things, with summaries that name
    the thing.
    """
    draw = random.Random(seed)
    things = [
        "audio",
        "video",
        "network",
        "font",
        "kernel",
        "mail",
        "game",
        "music",
        "disk",
        "printer",
        "window",
        "editor",
        "shell",
        "cloud",
        "camera",
        "clock",
    ]
    raw = folder / "raw"
    raw.mkdir()
    stanzas = []
    for split, count in PAIRS.items():
        with open(raw / f"{split}.csv", "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["article", "highlights"])
            for number in range(count):
                first, second = draw.sample(things, 2)
                text = (
                    f"The {first} library no. {draw.randrange(99)} doesn't play {second}-files. It's for the {second}."
                )
                writer.writerow([text, f"{first} library for {second}"])
                name = f"{split}{number}-{first}"
                stanzas.append(f"Package: {name}\nDescription-md5: 0\nDescription-en: {first} for {second}\n {text}\n")
    (raw / "Translation-en").write_text("\n".join(stanzas), encoding="utf-8")
    (raw / "documents.txt").write_text("The mail library plays no disk-files.\nA clock for the cloud.\n")


def script(name: str) -> str:
    return str(ROOT / "scripts" / f"{name}.sh")


def train_command(run: str, steps: int) -> List[str]:
    sizes = ["--max-update", str(steps), "--truncate-source", "20", "--truncate-target", "8"]
    return [script("train"), "--prepared", "prepared", "--out", run, "--cpu", *sizes, "--", *MODEL]


def checkpoints(run: str) -> List[str]:
    return [f"{run}/checkpoints/checkpoint_{name}.pt" for name in ("last", "best")]


def make_stages() -> Dict[str, Stage]:
    """Name -> stage, in the order in which they run."""
    tables = [word for split in PAIRS for word in (f"--{split}", f"raw/{split}.csv")]
    index = ["--translation", "raw/Translation-en", "--valid-size", "12", "--test-size", "12", "--train-size", "100"]
    prepare = ["etads-prepare", "text", "prepared", "--size", "60", "--factors", "tf", "idf", "--jobs", "1"]
    pieces = ["etads-prepare", "text", "pieces", "--tokens", "sentencepiece", "--size", "60", "--jobs", "1"]
    generate = [script("generate"), "--run", "run", "--prepared", "prepared", "--cpu", "--beam", "2", "--max-len", "8"]
    generate += ["--output"]
    corpus = ["etads-corpus", "table", *tables, "--out", "text", "--jobs", "1"]
    test, new = [*generate, "summaries/test.txt"], [*generate, "new/new.txt", "--input", "raw/documents.txt", "--lines"]
    last = [*generate, "last/test.txt", "--checkpoint", checkpoints("run")[0]]
    trained = ["prepared", "run"]
    then_read = " && ".join(map(shlex.join, [train_command("run", STEPS), last]))
    stages = [
        Stage("etads-corpus", corpus, ["raw"], ["text"], compares_shown=True),
        Stage("etads-debian", ["etads-debian", *index, "--out", "debian"], ["raw"], ["debian"]),
        Stage("etads-prepare", prepare, ["text"], ["prepared"], compares_shown=True),
        Stage("etads-prepare (sentencepiece)", pieces, ["text"], ["pieces"], compares_shown=True),
        Stage("train.sh", train_command("run", STEPS), ["prepared"], ["run/finished.txt"], checkpoints("run")),
        Stage("generate.sh", test, trained, ["summaries"]),
        Stage("generate.sh --input", new, trained, ["new"]),
        Stage(TRAINED_THEN_READ, ["bash", "-c", then_read], trained, ["last"], only_damaged=True),
    ]
    return {stage.name: stage for stage in stages}
