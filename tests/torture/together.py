"""Trials on outputs: two processes at once, other options on the same output, and outputs that are inputs."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List

from .workplace import Run, digests

OTHER_OPTIONS: Dict[str, List[str]] = {
    "etads-corpus": ["--source-words", "3"],
    "etads-debian": ["--seed", "9"],
    "etads-prepare": ["--keep-case"],
    "etads-prepare (sentencepiece)": ["--keep-case"],
    "generate.sh": ["--max-len", "3"],
    "generate.sh --input": ["--max-len", "3"],
}
"""Stage -> options that change its result."""

SUMMARIES, REFERENCES = "summaries/test.txt", "text/test.target"
OVER_INPUTS: List[List[str]] = [
    ["etads-rouge", SUMMARIES, REFERENCES, "--json", SUMMARIES],
    ["etads-rouge", SUMMARIES, REFERENCES, "--per-example", "link.tsv"],
    ["etads-compare", SUMMARIES, SUMMARIES, REFERENCES, "--json", REFERENCES],
    ["etads-analyse", "--source", "text/test.source", "--reference", REFERENCES, "--json", REFERENCES],
    ["etads-summarize", "debian", "raw/documents.txt", "--output", "raw/documents.txt"],
    ["etads-explain", "debian", "raw/documents.txt", "--output", "raw/documents.txt"],
    ["etads-dictionary", "text/train.source", "--train", "text/train.source"],
    ["etads-prepare", "text", "text"],
    ["etads-corpus", "parallel", "--train", "text/train.source", "text/train.target", "--out", "text", "--force"],
]
"""Commands with an output that is also an input, in the state after all stages; link.tsv links to the summaries."""
SAID = ("is also read", "is the same folder as TEXT", "which is also an input")
"""Parts of the refusals of such commands."""


def two_at_once(torture: Any) -> Iterator[Callable[[Path], None]]:
    """A command is started twice at the same time: one process makes the result, and the other is refused or finds
    it.
    """
    for stage in torture.chosen():
        for number in range(max(1, torture.options.moments // 4)):
            yield _two_at_once_trial(torture, stage, number)


def _two_at_once_trial(torture: Any, stage: Any, number: int) -> Callable[[Path], None]:
    def trial(folder: Path) -> None:
        torture.place.restore(folder, torture.states[stage.name])
        with ThreadPoolExecutor(2) as pool:
            runs: List[Run] = list(pool.map(lambda _: torture.place.run(stage.command, folder), range(2)))
        made = stage.result(torture.place, folder, min(runs, key=lambda run: run.status or 0))
        expected = torture.expected[stage.name]
        same = _files_of(made) == _files_of(expected)
        for run in runs:
            torture.count("started twice at once", stage, f"number {number}", run, same, words=("being written",))
        again = torture.place.run(stage.command, folder)
        torture.check("... and run again", stage, f"number {number}", folder, again, again=True)

    return trial


def _files_of(result: Dict[str, Any]) -> Dict[str, Any]:
    """A result without the printed text, because each of two processes prints a part."""
    return {name: value for name, value in result.items() if name != "shown"}


def other_options(torture: Any) -> Iterator[Callable[[Path], None]]:
    """A command is run on its own output with other options: it is refused, or makes the result of these options."""
    for stage in torture.chosen():
        if stage.name in OTHER_OPTIONS:
            yield _other_options_trial(torture, stage)


def _other_options_trial(torture: Any, stage: Any) -> Callable[[Path], None]:
    def trial(folder: Path) -> None:
        command = [*stage.command, *OTHER_OPTIONS[stage.name]]
        torture.place.restore(folder, torture.states[stage.name])
        alone = torture.place.run(command, folder)
        wanted = _files_of(stage.result(torture.place, folder, alone))
        assert wanted != _files_of(torture.expected[stage.name]), f"{stage.name}: these options change nothing"
        torture.place.restore(folder, torture.states[stage.name])
        torture.place.run(stage.command, folder)
        run = torture.place.run(command, folder)
        same = _files_of(stage.result(torture.place, folder, run)) == wanted
        torture.count("other options on its output", stage, " ".join(command[-2:]), run, same)

    return trial


def over_inputs(torture: Any) -> Iterator[Callable[[Path], None]]:
    """An output that is also an input is refused, and the input does not change."""
    if not torture.options.commands:
        for command in OVER_INPUTS:
            yield _over_inputs_trial(torture, command)


def _over_inputs_trial(torture: Any, command: List[str]) -> Callable[[Path], None]:
    def trial(folder: Path) -> None:
        torture.place.restore(folder, torture.states[""])
        shutil.copyfile(folder / "raw" / "documents.txt", folder / "raw" / "copy.txt")
        (folder / "link.tsv").symlink_to(folder / SUMMARIES)
        parts = ["raw", "text", "summaries"]
        before = digests(folder, parts)
        run = torture.place.run(command, folder)
        stage = torture.stages["etads-corpus"]
        after = digests(folder, parts)
        if run.status == 0 or after != before:
            run = Run(0, run.shown, run.seconds)  # counted as silently different
        torture.count(f"an output is an input ({command[0]})", stage, " ".join(command), run, same=False, words=SAID)

    return trial
