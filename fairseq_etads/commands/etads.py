"""The command ``etads``: list all commands, or run a command by its short name."""

import importlib
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ..platform.console import USER_ERROR, escape_unprintable, find_closest_word, run_command
from ..version import get_version


class Command(NamedTuple):
    """Module and description of a command of this project."""

    module: str
    summary: str


COMMANDS: Dict[str, Dict[str, Command]] = {
    "Summarise": {
        "summarize": Command("fairseq_etads.commands.summarize", "summarise new documents"),
        "explain": Command("fairseq_etads.commands.explain", "explain a summary on a web page"),
        "demo": Command("fairseq_etads.commands.demo", "try out a model on a local web page"),
    },
    "Prepare data": {
        "corpus": Command("etads_preprocess.corpus", "convert a corpus to parallel text of documents and summaries"),
        "debian": Command("etads_preprocess.debian", "build a corpus from descriptions of Debian packages"),
        "prepare": Command("etads_preprocess.prepare", "tokenise and binarise text, and build the dictionary"),
        "dictionary": Command("etads_preprocess.dictionary_command", "build only a dictionary"),
        "control": Command("etads_preprocess.control", "insert control words before documents"),
        "labels": Command("fairseq_etads.commands.labels", "create word and sentence labels for content selection"),
    },
    "Train": {
        "train": Command("fairseq_etads.commands.train", "train a model from text or a table of pairs"),
        "models": Command("fairseq_etads.commands.models", "list architectures and their options"),
        "plot": Command("fairseq_etads.commands.plot", "plot training curves"),
        "average": Command("fairseq_etads.commands.average", "average checkpoints"),
        "select": Command("fairseq_etads.commands.select", "compute selection probabilities of words or sentences"),
        "extract": Command(
            "fairseq_etads.commands.extract", "create extractive summaries with a model, the lead or an oracle"
        ),
        "shorten": Command("fairseq_etads.commands.shorten", "shorten long documents to their most probable sentences"),
        "content": Command(
            "fairseq_etads.commands.content", "train a model that predicts the words and bigrams in summaries"
        ),
        "rewrite": Command(
            "fairseq_etads.commands.rewrite", "summarise documents by extracting and rewriting sentences"
        ),
        "nli": Command("fairseq_etads.commands.nli", "train and evaluate entailment models"),
        "shortlist": Command("fairseq_etads.commands.shortlist", "learn a vocabulary shortlist for faster decoding"),
    },
    "Use a trained model": {
        "export": Command("fairseq_etads.commands.export", "write a model folder from a training run"),
        "tune": Command("fairseq_etads.commands.tune", "find good decoding options for a model folder"),
    },
    "Evaluate": {
        "rouge": Command("fairseq_etads.commands.rouge", "compute ROUGE with confidence intervals"),
        "compare": Command("fairseq_etads.commands.compare", "test whether one system is better than another"),
        "results": Command(
            "fairseq_etads.commands.results", "compare systems by records of the scores of their training runs"
        ),
        "analyse": Command(
            "fairseq_etads.commands.analyse", "analyse the novelty, repetition and lengths of summaries"
        ),
        "likelihood": Command(
            "fairseq_etads.commands.likelihood", "compute the likelihood of references under a trained model"
        ),
        "human": Command(
            "fairseq_etads.commands.human", "create rating sheets for human evaluation, and evaluate ratings"
        ),
    },
    "Help": {
        "doctor": Command("fairseq_etads.commands.doctor", "show versions and devices, and run a self-test"),
        "completion": Command("fairseq_etads.commands.completion", "print a completion script for bash or zsh"),
    },
}
"""Dictionary that maps the name of each group to its commands, which are keyed by short name.

All commands except those in the last group are also installed as ``etads-NAME``.
"""

LAST_GROUP = "Help"


def get_commands_by_name() -> Dict[str, Command]:
    """Return a dictionary that maps short names to commands."""
    return {name: command for group in COMMANDS.values() for name, command in group.items()}


def load_main(name: str) -> Any:
    """Import the module of a command, and return its ``main`` function."""
    return importlib.import_module(get_commands_by_name()[name].module).main


def format_overview() -> str:
    """Format a list of all commands by group, with one line per command."""
    width = max(map(len, get_commands_by_name())) + 2
    lines = ["usage: etads COMMAND [OPTION ...]", ""]
    for group, commands in COMMANDS.items():
        lines += [f"{group}:", *(f"  {name:<{width}}{command.summary}" for name, command in commands.items()), ""]
    lines += [
        "etads COMMAND --help explains a command. etads summarize … is the same as etads-summarize …, and likewise for "
        "all other commands.",
        'Try: echo "Vim is an almost compatible version of the UNIX editor Vi." | etads summarize debian',
    ]
    return "\n".join(lines)


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command ``etads``."""
    words: List[str] = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["help"]:
        words = [*words[1:2], "--help"]
    if not words or words[0] in ("-h", "--help"):
        return run_command("etads", lambda: print(format_overview()))
    name = words[0][len("etads-") :] if words[0].startswith("etads-") else words[0]
    if name == "--version":
        return run_command("etads", lambda: print(f"etads {get_version()}"))
    if name not in get_commands_by_name():
        near = find_closest_word(name, get_commands_by_name())
        advice = f"; did you mean {near}?" if near else ""
        print(f"etads: no command {escape_unprintable(name)}{advice} (etads lists all commands)", file=sys.stderr)
        return USER_ERROR
    return load_main(name)(words[1:])


if __name__ == "__main__":
    sys.exit(main())
