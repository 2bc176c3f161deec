"""README.md and docs/ name only files, links, options and commands that exist."""

import argparse
import importlib.util
import re
import shutil

import pytest
from documented import PAGES, ROOT, blocks, commands_of, parser_of, project_commands, spans
from fairseq import options, registry
from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks.language_modeling import LanguageModelingConfig

from fairseq_etads.training.options import SummarizationConfig

spec = importlib.util.spec_from_file_location("wording", ROOT / "scripts" / "wording.py")
wording = importlib.util.module_from_spec(spec)
spec.loader.exec_module(wording)
FOLDERS = ("", "fairseq_etads", "preprocess", "scripts", "scripts/reproduce", "tests")
"""Folders in which paths in the pages may begin, besides the folders that the same line names."""
OF_OTHERS = {"--no-build-isolation", "--simulate-tf32", "--config-dir", "--config-name", "--rm"}
OF_OTHERS |= {"--nproc_per_node", "--no-python", "--nnodes", "--rdzv_endpoint"}  # torchrun's
OF_OTHERS |= {"--ddp-backend", "--heartbeat-timeout", "--num-shards", "--shard-id", "--results-path"}  # fairseq's
OF_OTHERS |= {f"--distributed-{n}" for n in ("backend", "init-method", "num-procs", "rank", "world-size")}
OF_OTHERS |= {"--copy-bonus", "--topics"}  # of the examples in docs/extending.md
"""Options of pip, a benchmark, Hydra, Docker and torchrun, and options of fairseq that its parsers add elsewhere."""

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FILE = re.compile(
    r"(?:[\w.-]+/)*[\w-]+\.(?:py|sh)|(?:scripts|tests|docs|benchmarks|preprocess|fairseq_etads)/[\w./-]*"
)
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*[a-z0-9]\b(?!-?…)")


def options_of(parser):
    """The options of a parser and of its subcommands."""
    found = {name for action in parser._actions for name in action.option_strings}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found.update(*map(options_of, action.choices.values()))
    return found


@pytest.fixture(scope="module")
def commands():
    """Options of each command that setup.py installs."""
    return {name: options_of(parser_of(main)) for name, main in project_commands().items()}


@pytest.fixture(scope="module")
def scripts():
    """Options that each script names."""
    paths = {
        str(path.relative_to(ROOT)): path for path in (ROOT / "scripts").rglob("*.*") if path.suffix in (".sh", ".py")
    }
    return {name: set(_OPTION.findall(path.read_text(encoding="utf-8"))) for name, path in paths.items()}


@pytest.fixture(scope="module")
def fairseq_options():
    """Options of fairseq's commands, and of this project's registered classes."""
    parsers = [
        options.get_preprocessing_parser(),
        options.get_training_parser(),
        options.get_interactive_generation_parser(),
    ]
    parts = [cls for r in registry.REGISTRIES.values() for cls in r["dataclass_registry"].values() if cls is not None]
    for part in [SummarizationConfig, LanguageModelingConfig, *parts]:
        parsers.append(argparse.ArgumentParser())
        gen_parser_from_dataclass(parsers[-1], part())
    for arch in (
        "etads",
        "pg_coverage",
        "convs2s",
        "abs",
        "pooled_extractor",
        "transformer_lm",
        "pooled_extractor",
    ):  # these are one of each family, a language model, and an extractor
        parsers.append(argparse.ArgumentParser())
        ARCH_MODEL_REGISTRY[arch].add_args(parsers[-1])
    return set().union(*map(options_of, parsers))


@pytest.fixture(params=PAGES, ids=lambda page: page.name)
def page(request):
    return request.param


@pytest.fixture
def text(page):
    return page.read_text(encoding="utf-8")


def test_files_exist(text):
    # Files that the reader writes, with the contents on the page.
    written = set(re.findall(r"^# (\w+\.py): ", text, re.MULTILINE))
    for line in text.splitlines():
        words = {word.rstrip(".,") for word in re.findall(r"[\w./{,}-]+", line)}
        rooms = ["", *(word for word in words if word.endswith("/"))]
        for name in set(filter(_FILE.fullmatch, words)) - written:
            assert any((ROOT / folder / room / name).exists() for folder in FOLDERS for room in rooms), name


def test_manuals_can_be_read_in_minutes(page, text):
    if page.name not in ("results.md", "experiments.md"):
        assert len(text.split()) <= 1800, "move measurements to docs/experiments.md"


def test_wording(page, text):
    """The patterns of scripts/wording.py, outside code and tables."""
    prose = re.sub(r"^```.*?^```$|^ {4}.*?$|^\|.*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert not list(wording.find_wording_patterns(wording.Passage(1, " ".join(prose.split()))))


def test_relative_links_resolve(page, text):
    for link in _LINK.findall(text):
        path, _, heading = link.partition("#")
        if "://" in link:
            continue
        target = page.parent / path if path else page
        assert target.exists(), link
        titles = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), re.MULTILINE) if heading else []
        assert heading in ["", *(re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles)], link


def test_options_exist(text, commands, scripts, fairseq_options):
    known = OF_OTHERS.union(fairseq_options, *commands.values(), *scripts.values())
    assert not {name for code in [*spans(text), *blocks(text)] for name in _OPTION.findall(code)} - known


def test_commands_exist_and_have_the_options(text, commands, scripts):
    for command in commands_of(text):
        name, given = command.split()[0], set(_OPTION.findall(command.split(" -- ")[0]))
        if name in scripts:  # scripts that prepare data pass on options that they do not know
            assert given <= scripts[name].union(commands["etads-corpus"] if "/prepare_" in name else ()), command
        elif name in commands:
            assert given <= commands[name], command
        else:
            assert name in ("cd", "echo", "source") or shutil.which(name), command
