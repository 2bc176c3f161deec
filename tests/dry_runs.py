"""Run whole scripts with stand-ins for the commands they call, which only record their arguments."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Iterable, Iterator, List, Sequence, Tuple

from documented import ROOT

from fairseq_etads.commands import reproduce, train
from fairseq_etads.pipeline.training import make_training_command

WITH_FILES = {
    **dict.fromkeys(
        ("--data", "--duc", "--tune", "--pg-data"), ("{}/text/test.source", "{}/text/test.target", "{}/prepared/")
    ),
    **dict.fromkeys(("--prepared", "--like"), ("{}/",)),
    "--bart": ("{}/model.pt", "{}/dict.txt"),
    "--entail-model": ("{}/config.json",),
    "--text": ("{}/train.source", "{}/valid.source", "{}/test.source", "{}/test.target", "{}/test.package"),
    "--content": ("{}/content.npz", "{}/probabilities.sentences.train", "{}/probabilities.sentences.test"),
    "--run": ("{}/prepared/", "{}/checkpoints/checkpoint_best.pt"),
    **{f"--{name}": ("{}",) for name in ("input", "summaries", "references", "documents", "checkpoint", "shortlist")},
}
"""Option -> files that a script expects where its value points; a folder stands for prepared data."""
PREPARED = ("prepare.json", "bin/complete", "tokens/test.source", "tokens/valid.source")
_STUB = r"""#!/bin/bash
name=${0##*/} touched=()
printf '%s\037' "$name" "$@" >> LOG
printf '\036' >> LOG
case $name in
    etads-prepare) touched=(PREPARED) ;;
    etads-corpus)
        while [ "$1" != --out ] && [ "$1" != --prepare ]; do shift; done
        touched=("$2"/{train,valid,test}.{source,target}) ;;
    etads-debian) touched=("${!#}/test.package") ;;
    etads-export) touched=("$2/README.md") ;;
    fairseq-generate) printf 'D-0\t0\ta summary\n' ;;
    etads-train)
        while [ $# -gt 0 ]; do
            case $1 in --out) out=$2 ;; --prepared) prepared=$2 ;; --long) long=1 ;; esac
            shift
        done
        set -- "" "${prepared:-$out/prepared}"
        touched=("$out"/checkpoints/checkpoint_{best,last}.pt PREPARED)
        extractor=$out/shortened/extractor
        [ -z "$long" ] || touched+=("$extractor"/{content.npz,probabilities.sentences.{train,valid,test}}) ;;
    etads-content) touched=("$1/content.npz") ;;
    etads-select) touched=("$1"/probabilities.sentences.{train,valid,test}) ;;
    python)
        case $* in
            *pipeline.steps*)
                while [ "$1" != -- ]; do shift; done
                exec "${@:2}" ;;
        esac ;;
    fairseq-train)
        while [ "$1" != --save-dir ]; do shift; done
        touched=("$2/checkpoint_best.pt" "$2/checkpoint_last.pt") ;;
esac
[ ${#touched[@]} = 0 ] || { mkdir -p "${touched[@]%/*}" && touch "${touched[@]}"; }
"""
"""A command that records its arguments, and makes empty files where scripts expect its results.

As ``python`` it runs the command of a step, which records its own arguments.
"""

_UNSUPERVISED = r"""#!/bin/bash
case $2 in
    */pipeline/children.py) exec "${@:4}" ;;
    *) exec /usr/bin/python3 "$@" ;;
esac
"""
"""``python3``, which runs a command without supervision: starting Python takes longer than a stand-in."""


def make_stubs(folder: Path, names: Iterable[str]) -> Path:
    """Copy the scripts, with commands of these names that only record their calls."""
    shutil.copytree(ROOT / "scripts", folder / "scripts")
    (folder / "fairseq_etads").symlink_to(ROOT / "fairseq_etads")
    (folder / "bin").mkdir()
    stub = _STUB.replace("LOG", f"'{folder / 'log'}'").replace("PREPARED", " ".join(f'"$2/{f}"' for f in PREPARED))
    for name in [*names, "python"]:
        (folder / "bin" / name).write_text(stub)
    (folder / "bin" / "python3").write_text(_UNSUPERVISED)
    for program in (folder / "bin").iterdir():
        program.chmod(0o755)
    return folder


def provide(folder: Path, words: Sequence[str]) -> None:
    """Make the files and folders in ``folder`` that the options of a script name."""
    for option, value in zip(words, words[1:]):
        for template in WITH_FILES.get(option, ()):
            path = template.format(value)
            for file in [path + name for name in PREPARED] if path.endswith("/") else [path]:
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / file).touch()


def dry_run(stubs: Path, words: Sequence[str]) -> Tuple[subprocess.CompletedProcess, List[List[str]]]:
    """Run a script in a folder with all its inputs; returns the process and the calls of commands.

    A training with the options of a recipe that does not depend on the data is followed by its call of fairseq-train.
    """
    (stubs / "log").write_text("")
    provide(stubs, words)
    inherited = {name: value for name, value in os.environ.items() if name != "ETADS_VENV"}  # it comes before PATH
    environment = {**inherited, "PATH": f"{stubs / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin"}
    result = subprocess.run(
        words, cwd=stubs, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    calls = [call.split("\037")[:-1] for call in (stubs / "log").read_text().split("\036")[:-1]]
    return result, [call for called in calls for call in _with_training(called)]


def _with_training(call: List[str]) -> Iterator[List[str]]:
    """A call, and the calls of fairseq-train and other commands in it."""
    yield call
    if call[0] == "etads-reproduce":
        plan = reproduce.make_plan(reproduce.main.make_parser().parse_args(call[1:])).make()
        yield from (list(action.words) for action in plan.actions if action.words[0] not in ("mkdir", "ln"))
    elif call[0] == "etads-train":
        args = train.main.make_parser().parse_args(call[1:])
        if args.recipe == "paper":
            yield make_training_command(
                args.out, args.prepared or args.out / "prepared", train.make_paper_options(args)
            )
