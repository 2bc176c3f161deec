"""Recipes: trainings, searches and scores of a paper's systems as data, which this module turns into commands.

A recipe is a file in ``fairseq_etads/recipes/``, or a user's own YAML file. Its keys:

    title, notes    what it does, in one line; settings and deviations, for --help
    paper, where    authors and year; where in the paper the values stand that name no other place
    options         name -> {help, default, choices, whole, prepare, contains}: options of the command line. An option
                    whose default is a whole number (or with whole: true) accepts whole numbers above 0. prepare is a
                    command that makes the folder (by default, prepared data); contains lists files that must be in
                    it. An option called split names the split to summarise and score (without it: test)
    rows option     another name of --rows;  seeds: default of --seeds;  cpu: true never uses a GPU
    vocabulary      SOURCE/TARGET, the paper's sizes;  shared: anchors for other parts
    text, prepared  folders of the references and of the prepared data (default: text and prepared in {data} or, without
                    an option called data, in {out})
    needs           runs that all rows need
    rows, runs      name -> entry; a run is made only for the rows and runs that need it
    training, technical, search, duc, score     defaults of all rows, see below
    report          tables and tests after the last row (default: a table of ROUGE, and of DUC's recall)
    summaries       name of the files with summaries that the report reads (default: summaries.txt)

An entry describes a folder, OUT/NAME-SEED by default. It can be a list of alternatives. The first one applies whose
``when`` holds (``OPTION``: it has another value than its default; ``not OPTION``; ``OPTION=VALUE``; ``OPTION has
WORD``), or none. Its keys, in the order in which they take effect:

    about, published    for --help and --show; MEASURE: R-1/R-2/R-L, where MEASURE is f1, precision, recall or duc
    inherit             (rows) false: without the defaults of all rows
    only if named       the row is not run by default;  out: another folder;  data: another folder of prepared data
    needs               runs or rows to train first
    recipe, rows        rows of another recipe, made in the folder out, with the options of the same names
    do                  commands before training
    training            options of fairseq-train and their values in the paper; false: nothing is trained; with recipe,
                        further options of its trainings
    technical           further options of fairseq-train, which no paper mentions
    more                false: without the options that the user gives after --
    stages              true: train in the stages of the options stages, stage-steps and steps (See et al. 2017)
    of, link            the run whose model is shared; or a folder in OUT that becomes this one
    then                commands after training
    search              (rows) options of etads-summarize; false: a command in then writes {run}/summaries.txt
    summarise           (rows) another command that writes {run}/summaries.txt, with the options in search
    duc                 (rows) options that differ for DUC, which the option duc adds; false: not summarised
    score               (rows) further options of etads-rouge; false: not scored

A value of an option is plain (as in the paper), or a mapping: ``value``, or ``preset`` if the architecture or the
command has it without being told; ``paper`` (default: the same value, or unknown if there is a reason), ``where``
(section, "code", "memory" or "ours") and ``why`` it differs. With ``when``, it is given only if that condition holds.
An option without a value, or with an empty placeholder, is not given.

Words in braces are replaced: {out}, {seed}, {row}, {run} (the folder), {text}, {text_path} (absolute), {prepared}, the
recipe's options, {OPTION?} (only if the user gave it), {last_source} and {last_target} (lengths of the last stage), and
whole-number arithmetic such as {min(8000, steps // 10)}. In commands, [...] is left out if a placeholder in it is
empty, {cpu} and {device} become ``--cpu`` and ``--device cpu``, {more} the user's options, {seeds} the seeds,
{summaries} the files with the summaries of all rows, and {systems} etads-analyse's --system options for them; and
``$(jq -r .KEY FILE)`` is read from a JSON file when the command runs. A command is a line, or a mapping: ``run``;
``makes``, the files that it makes; ``for``, placeholders and their values, such as ``1..3``, with all of which it runs.
A command with ``makes`` is skipped while these and its inputs are unchanged.
"""

import ast
import difflib
import functools
import itertools
import json
import operator
import os
import re
import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import yaml

from ..platform.errors import InputError
from .steps import Step, run_command
from .training import make_training_command, train

FOLDER = Path(__file__).resolve().parents[1] / "recipes"
PREPARED_FILES = "prepared/bin/complete"
"""File in a folder of prepared data that shows that the data is complete."""
OUTPUT_FOLDERS = ("text", "pairs", "model")
"""Names of folders that a single command makes, in which there must be nothing else."""
_SHARED = ("checkpoints", "train.log", "training.json", "finished.txt")
_ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv}
_FUNCTIONS: Dict[str, Callable[..., int]] = {"min": min, "max": max}
_PLACEHOLDER = re.compile(r"\{([a-z_-][^{}\"']*|\d[^{}\"']*)\}")
_FROM_JSON = re.compile(r"\$\(jq -r \.(\w+) ([^)]+)\)")

Names = Dict[str, Any]
SECTIONS = ("training", "technical", "search", "duc")
"""Keys with options and their values."""
KEYS = {
    "recipe": (
        *("name", "title", "notes", "paper", "where", "options", "rows option", "cpu", "seeds", "vocabulary", "text"),
        *("prepared", "needs", "rows", "runs", *SECTIONS, "score", "report", "summaries", "shared"),
    ),
    "option": ("help", "default", "metavar", "choices", "whole", "prepare", "contains"),
    "entry": (
        *("about", "published", "only if named", "inherit", "when", "where", "vocabulary", "out", "data", "needs"),
        *("recipe", "rows", "do", "more", "stages", "of", "link", "then", "summarise", *SECTIONS, "score"),
    ),
    "value": ("value", "preset", "paper", "where", "why", "when"),
}
"""Keys that each part of a recipe can have."""


class _Loader(yaml.SafeLoader):
    """YAML in which numbers stay as they are written, so that commands contain ``4.94e-4``."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] in ("merge", "null", "bool")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def list_recipes() -> List[str]:
    """List the names of the recipes in the package."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


@functools.cache
def load_recipe(name: str) -> Dict[str, Any]:
    """Load a recipe by its name, or by the path of a YAML file.

    Raises InputError if there is no such recipe, or it cannot be read.
    """
    path = Path(name) if name.endswith((".yaml", ".yml")) else FOLDER / f"{name}.yaml"
    if not path.is_file():
        near = difflib.get_close_matches(name, list_recipes(), 1)
        advice = f"; did you mean {near[0]}?" if near else "."
        raise InputError(f"{name}: no such recipe{advice} Choose one of: {', '.join(list_recipes())}")
    try:
        recipe = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except yaml.YAMLError as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}") from None
    if not isinstance(recipe, dict) or not recipe.get("rows"):
        raise InputError(f"{path}: a recipe needs rows")
    recipe = {"runs": {}, "options": {}, "title": path.stem, **recipe, "name": path.stem}
    _check_keys(path, "recipe", recipe)
    for name, option in recipe["options"].items():
        _check_keys(path, "option", option, f"option {name}")
    for name, entry in {**recipe["rows"], **recipe["runs"]}.items():
        for alternative in _as_list(entry or {}):
            _check_keys(path, "entry", alternative, name)
            for section in SECTIONS:
                for key, value in (alternative.get(section) or {}).items():
                    if isinstance(value, dict):
                        _check_keys(path, "value", value, f"{name}: {key}")
    return recipe


def _check_keys(path: Path, kind: str, found: Mapping[str, Any], where: str = "") -> None:
    """Refuse keys that would have no effect; in ``{a: b, c}``, for example, "c" is a key."""
    for key in found:
        if key not in KEYS[kind]:
            raise InputError(f"{path}: {where}: unknown key {key}; choose from: {', '.join(KEYS[kind])}")


def get_value(entry: Any) -> Any:
    """Return the value that the recipe gives to an option. It is None if the option is not given to a command."""
    return entry.get("value") if isinstance(entry, dict) else entry


@dataclass(frozen=True)
class Command:
    """A command of a recipe, which is skipped while the files that it makes are up to date.

    Without ``makes``, the command decides by itself what is left to do. Its inputs are the files and folders among its
    words, and the checkpoints in these folders.
    """

    words: Tuple[str, ...]
    makes: Tuple[Path, ...] = ()
    keeps: Optional[Path] = None

    def run(self) -> None:
        """Run the command if necessary."""
        words = [_FROM_JSON.sub(lambda m: str(json.loads(Path(m[2]).read_text("utf-8"))[m[1]]), w) for w in self.words]
        if not self.makes:
            run_command(words)
            return
        makes = [*self.makes, *([self.keeps] if self.keeps else [])]
        Step(
            words, self.makes, list(self._list_inputs(words[1:], makes)), self.keeps, _name_record(self.makes[0])
        ).run()

    @staticmethod
    def _list_inputs(words: Sequence[str], makes: Sequence[Path]) -> Iterator[Path]:
        """List the inputs among the words. Folders of outputs are represented by their checkpoints alone."""
        above = {parent for path in makes for parent in path.parents}
        whole = {path.parent for path in makes if path.parent.name in OUTPUT_FOLDERS}
        for path in [path for path in dict.fromkeys(map(Path, words)) if path not in whole]:
            if path.is_dir():
                names = (
                    *(f"checkpoints/checkpoint_{name}.pt" for name in ("best", "last")),
                    "content.npz",
                    "recipe.json",
                )
                yield from (path / name for name in names if (path / name).is_file())
            if path.exists() and path not in above and path not in makes:
                yield path


def _name_record(path: Path) -> Path:
    """Name the record of a step. It is outside the folder of the output if that folder must hold nothing else."""
    folder = path.parent
    return (
        folder.parent / f"{folder.name}.{path.stem}.made.json"
        if folder.name in OUTPUT_FOLDERS
        else path.with_name(f"{path.name}.made.json")
    )


@dataclass(frozen=True)
class Training:
    """A training of a recipe, which is continued or skipped as by ``etads train``."""

    run_folder: Path
    prepared: Path
    options: Tuple[str, ...]

    @property
    def words(self) -> Tuple[str, ...]:
        """Words of the command of fairseq-train."""
        return tuple(make_training_command(self.run_folder, self.prepared, self.options))

    def run(self) -> None:
        """Train unless this run has finished with these options."""
        self.run_folder.mkdir(parents=True, exist_ok=True)
        train(self.run_folder, self.prepared, self.options)


@dataclass
class Plan:
    """The commands of a recipe for some rows and seeds."""

    recipe: Dict[str, Any]  # as returned by :func:`load_recipe`
    given: Mapping[str, str]  # options of the recipe that the user has given
    rows: Sequence[str]  # names of rows
    seeds: Sequence[str]  # random seeds
    out: Path  # output folder
    cpu: bool = False  # whether GPUs are not used
    more: Sequence[str] = ()  # options of fairseq-train that the user has given
    actions: List[Any] = field(default_factory=list)  # the commands, each of which occurs once

    def __post_init__(self) -> None:
        self.cpu = self.cpu or bool(self.recipe.get("cpu"))
        defaults = {name: str(option.get("default") or "") for name, option in self.recipe["options"].items()}
        folder = "{data}" if "data" in self.recipe["options"] else "{out}"
        places = {place: self.recipe.get(place, f"{folder}/{place}") for place in ("text", "prepared")}
        self.names: Names = {"out": str(self.out), "split": "test", **places, **defaults, **self.given}
        self._check_values()
        if self.names.get("stages"):
            self._read_stages()

    def _check_values(self) -> None:
        """Check the values of all options. Raises InputError if a value is not allowed."""
        for name, option in self.recipe["options"].items():
            value, choices = self.names[name], (option.get("choices") or "").split()
            if value and choices and set(value.split()) - set(choices):
                raise InputError(f"--{name} {value}: choose from: {', '.join(choices)}")
            whole = option.get("whole", str(option.get("default") or "").isdigit())
            if value and whole and not re.fullmatch("[1-9][0-9]*", value):
                raise InputError(f"--{name} {value}: choose a whole number above 0")

    def check_files(self) -> None:
        """Check that the files and folders that the user has given exist. Raises InputError if a file is missing."""
        for name, option in self.recipe["options"].items():
            if name in self.given and ("prepare" in option or "contains" in option):
                folder = Path(self.given[name])
                for file in option.get("contains", PREPARED_FILES).split() or ["."]:
                    if not (folder if file == "." else folder / file).exists():
                        what = {".": "no such file", PREPARED_FILES: "no prepared data in it"}.get(
                            file, f"no {file} in it"
                        )
                        made = f"; {option['prepare']} makes it" if "prepare" in option else ""
                        raise InputError(f"--{name} {folder}: {what}{made}")

    def make(self) -> "Plan":
        """Collect the commands of all rows and seeds, and return this plan."""
        for seed in self.seeds:
            for row in self.rows:
                self._add(row, seed, scored=True)
        return self

    def run(self) -> None:
        """Run the commands that are not yet done."""
        for action in self.actions:
            action.run()

    def expand(self, text: Any, names: Names) -> str:
        """Replace the placeholders in a text."""
        return _PLACEHOLDER.sub(lambda match: self._look_up(match[1], names), str(text))

    def _look_up(self, name: str, names: Names) -> str:
        """Return the value of a placeholder."""
        key = name.replace("_", "-") if name.replace("_", "-") in self.recipe["options"] else name
        if key.endswith("?"):
            return self.given.get(key[:-1], "")
        if key not in names:
            return str(self._compute(ast.parse(name, mode="eval").body, names))
        value = names[key]
        if not value and "prepare" in self.recipe["options"].get(key, ()):
            raise InputError(f"--{key} is missing; this command makes it: {self.recipe['options'][key]['prepare']}")
        return self.expand(value, names)

    def _compute(self, node: Any, names: Names) -> int:
        """Compute an arithmetic expression of whole numbers and options."""
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            return _ARITHMETIC[type(node.op)](self._compute(node.left, names), self._compute(node.right, names))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self._compute(node.operand, names)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
            return _FUNCTIONS[node.func.id](*(self._compute(argument, names) for argument in node.args))
        if isinstance(node, ast.Name) and node.id.replace("_", "-") in names:
            return int(self._look_up(node.id, names))
        raise InputError(f"{self.recipe['name']}: unknown placeholder {{{ast.unparse(node)}}}")

    def make_options(self, options: Mapping[str, Any], names: Names) -> List[str]:
        """Return the words of options."""
        words: List[str] = []
        for name, entry in options.items():
            value = get_value(entry)
            if value is True:
                words.append(f"--{name}")
            elif value not in (None, False):
                expanded = self.expand(value, names)
                words += [f"--{name}", expanded] if expanded else []
        return words

    def make_command(self, entry: Any, names: Names) -> Command:
        """Return a command of the recipe."""
        entry = {"run": entry} if isinstance(entry, str) else entry
        line = re.sub(
            r"\[([^][]*)\]",
            lambda m: m[1] if all(self._fill(p, names) for p in _PLACEHOLDER.findall(m[1])) else "",
            entry["run"],
        )
        words: List[str] = []
        for word in _split_line(line):
            placeholder = _PLACEHOLDER.fullmatch(word)
            words += self._fill(placeholder[1], names) if placeholder else [self.expand(word, names)]
        makes = (Path(self.expand(path, names)) for path in _as_list(entry.get("makes")))
        return Command(tuple(words), tuple(makes))

    def _fill(self, name: str, names: Names) -> List[str]:
        """Return the words of a placeholder that can be several words, or none."""
        several = {"cpu": ["--cpu"] * self.cpu, "device": ["--device", "cpu"] * self.cpu, "more": list(self.more)}
        several["seeds"] = list(self.seeds)
        if name in ("systems", "summaries"):
            file = self.expand(self.recipe.get("summaries", "summaries.txt"), names)
            paths = {f"{row}-{seed}": f"{self.out}/{row}-{seed}/{file}" for seed in self.seeds for row in self.rows}
            several["summaries"] = [*paths.values()]
            several["systems"] = [word for run, path in paths.items() for word in ("--system", f"{run}={path}")]
        return several[name] if name in several else list(filter(None, [self._look_up(name, names)]))

    def holds(self, condition: str) -> bool:
        """Tell whether a condition on the recipe's options holds."""
        if condition.startswith("not "):
            return not self.holds(condition[4:])
        name, has, word = condition.partition(" has ")
        if has:
            return word in re.split("[, ]", self.names[name])
        name, equals, value = condition.partition("=")
        default = str(self.recipe["options"][name].get("default") or "")
        return self.names[name] == value if equals else self.names[name] != default

    def find_entry(self, name: str) -> Optional[Dict[str, Any]]:
        """Return the alternative that applies of a row, with the defaults of all rows, or of a run."""
        is_row = name in self.recipe["rows"]
        if not is_row and name not in self.recipe["runs"]:
            raise InputError(f"{self.recipe['name']}: no row or run {name}")
        alternatives = _as_list(self.recipe["rows" if is_row else "runs"][name] or {})
        found = next((one for one in alternatives if self.holds_all(one)), None)
        if found is None:
            return None
        merged = dict(found)
        for key in SECTIONS:
            inherited = self.recipe.get(key, {}) if is_row and found.get("inherit", True) else None
            if isinstance(found.get(key, inherited), dict):
                options = {**(inherited or {}), **found.get(key, {})}
                merged[key] = {k: v for k, v in options.items() if not isinstance(v, dict) or self.holds_all(v)}
        if is_row:
            merged["needs"] = f"{self.recipe.get('needs', '')} {found.get('needs', '')}"
        return {"score": self.recipe.get("score", ""), **merged}

    def holds_all(self, entry: Mapping[str, Any]) -> bool:
        """Tell whether the condition of an alternative holds, if it has one."""
        return "when" not in entry or self.holds(entry["when"])

    def _add(self, name: str, seed: str, scored: bool) -> None:
        """Add the commands of a row or run."""
        entry = self.find_entry(name)
        if entry is None:
            return
        names = {**self.names, "seed": seed, "row": name}
        run = names["run"] = self.expand(entry.get("out", f"{{out}}/{name}-{{seed}}"), names)
        names["prepared"] = entry.get("data", names["prepared"])
        names["text_path"] = os.path.abspath(self.expand(names["text"], names))
        for needed in entry.get("needs", "").split():
            if needed != name:
                self._add(needed, seed, scored=False)
        if "recipe" in entry:
            self._add_recipe(entry, names)
        self._add_commands(entry.get("do"), names)
        if "of" in entry:
            self._append(Command(("mkdir", "-p", run)))
            shared = self.expand(f"../{entry['of']}-{{seed}}", names)
            self._append(Command(("ln", "-sfn", *(f"{shared}/{file}" for file in _SHARED), run)))
        elif "link" in entry:
            self._append(Command(("ln", "-sfn", self.expand(entry["link"], names), run)))
        elif entry.get("training") and "recipe" not in entry:
            self._train(entry, names)
        self._add_commands(entry.get("then"), names)
        if scored and "link" not in entry:
            self._summarise_and_score(entry, names)

    def _add_commands(self, commands: Any, names: Names) -> None:
        """Add commands, each of which can be repeated for all combinations of some values."""
        for command in _as_list(commands):
            repeated = command.get("for", {}) if isinstance(command, dict) else {}
            values = [_list_values(self.expand(text, names)) for text in repeated.values()]
            for combination in itertools.product(*values):
                self._append(self.make_command(command, {**names, **dict(zip(repeated, combination))}))

    def _append(self, action: Any) -> None:
        if action not in self.actions:
            self.actions.append(action)

    def _add_recipe(self, entry: Mapping[str, Any], names: Names) -> None:
        """Add rows of another recipe in their own folder."""
        other = load_recipe(entry["recipe"])
        given = {name: value for name, value in self.given.items() if name in other["options"]}
        more = [*self.more, *self.make_options(entry.get("training") or {}, names)]
        out = Path(names["run"])
        plan = Plan(other, given, entry["rows"].split(), [names["seed"]], out, self.cpu, more)
        for action in plan.make().actions:
            self._append(action)

    def _train(self, entry: Mapping[str, Any], names: Names) -> None:
        """Add a training, in stages of increasing lengths if the entry has them."""
        options = {"seed": names["seed"], **entry["training"], **entry.get("technical", {})}
        prepared = Path(self.expand(names["prepared"], names))
        last = ["--cpu"] * self.cpu + (list(self.more) if entry.get("more", True) else [])
        run = Path(names["run"])
        before: List[str] = []
        lengths = names["stages"].split() if entry.get("stages") else []
        for number, length in enumerate(lengths[:-1], 1):
            stage = {
                **_make_lengths(length),
                "max-update": number * int(names["stage-steps"]),
                "disable-validation": True,
            }
            words = self.make_options({**options, **stage}, names)
            self._append(Training(run / "stages" / str(number), prepared, (*words, *before, *last)))
            before = ["--continue-once", str(run / "stages" / str(number) / "checkpoints" / "checkpoint_last.pt")]
        words = self.make_options({**options, **(_make_lengths(lengths[-1]) if lengths else {})}, names)
        self._append(Training(run, prepared, (*words, *before, *last)))

    def _summarise_and_score(self, entry: Mapping[str, Any], names: Names) -> None:
        """Add the summaries of a row and their scores, also on DUC if the option duc is given."""
        run = names["run"]
        text, prepared = (self.expand(names[key], names) for key in ("text", "prepared"))
        if "summarise" in entry:
            command = self.make_command({"run": entry["summarise"], "makes": "{run}/summaries.txt"}, names)
            self._append(replace(command, words=(*command.words, *self.make_options(entry["search"], names))))
        elif isinstance(entry.get("search"), dict):
            self._append(self._make_search(entry["search"], names, prepared, "summaries.txt"))
        if entry["score"] is not False:
            options = self.make_command(entry["score"], names).words
            target = f"{text}/{names['split']}.target"
            self._append(self._make_score(f"{run}/summaries.txt", target, f"{run}/rouge.json", options))
        if names.get("duc") and entry.get("duc") is not False:
            search = {**entry["search"], **entry["duc"]}
            of_duc = {**names, "split": "test"}
            self._append(self._make_search(search, of_duc, f"{names['duc']}/prepared", "duc.txt"))
            target = f"{names['duc']}/text/test.target"
            self._append(self._make_score(f"{run}/duc.txt", target, f"{run}/duc.json", ["--duc75"]))

    def _make_search(self, search: Mapping[str, Any], names: Names, prepared: str, output: str) -> Command:
        """Return the command that summarises a split of prepared data."""
        lengths = {} if "exact-length" in search else {"min-len": "1", "max-len": "100"}
        path = f"{names['run']}/{output}"
        places = {"split": names["split"], "prepared": prepared, "output": path, "restart": True}
        options = self.make_options({**places, **lengths, "content": "none", **search}, names)
        return Command(
            ("etads-summarize", names["run"], *options, *["--device", "cpu"] * self.cpu),
            (Path(path),),
        )

    def _make_score(self, summaries: str, target: str, report: str, options: Sequence[str]) -> Command:
        """Return the command that scores summaries against all references: TARGET, TARGET.1, …"""
        several = sorted(str(path) for path in Path(target).parent.glob(f"{Path(target).name}.[0-9]*"))
        return Command(("etads-rouge", summaries, target, *several, *options, "--json", report), (Path(report),))

    def _read_stages(self) -> None:
        """Check the stages of lengths, and provide the lengths of the last one."""
        lengths, steps, each = self.names["stages"].split(), self.names["steps"], self.names["stage-steps"]
        for length in lengths:
            if not re.fullmatch("[1-9][0-9]*/[1-9][0-9]*", length):
                raise InputError(
                    f'--stages {self.names["stages"]}: "{length}" is not DOCUMENT/SUMMARY, two numbers above 0'
                )
        if steps.isdigit() and each.isdigit() and (len(lengths) - 1) * int(each) >= int(steps):
            raise InputError(
                f"--steps {steps}: {len(lengths)} stages of {each} steps (--stage-steps) need more; choose more steps "
                "or fewer --stages"
            )
        self.names["last_source"], self.names["last_target"] = lengths[-1].split("/")


def _make_lengths(length: str) -> Dict[str, str]:
    source, target = length.split("/")
    return {"truncate-source": source, "truncate-target": target}


def _as_list(value: Any) -> List[Any]:
    """Return the value as a list, which is empty for None."""
    return [value] if isinstance(value, (str, dict)) else list(value or [])


def _list_values(text: str) -> List[str]:
    """Split a list of words; ``1..3`` stands for ``1 2 3``."""
    first, dots, last = text.partition("..")
    return list(map(str, range(int(first), int(last) + 1))) if dots else text.split()


def _split_line(line: str) -> List[str]:
    """Split a command line like a shell, but keep placeholders and ``$(...)`` in one word."""
    held: List[str] = []

    def hold(match: "re.Match[str]") -> str:
        held.append(match[0])
        return f"\0{len(held) - 1}\0"

    words = shlex.split(re.sub(r"\$\([^)]*\)|\{[^{}]*\}", hold, line))
    return [re.sub("\0(\\d+)\0", lambda match: held[int(match[1])], word) for word in words]
