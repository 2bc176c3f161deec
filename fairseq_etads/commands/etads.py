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


OWN = "fairseq_etads.commands."
COMMANDS: Dict[str, Dict[str, Command]] = {
    "Summarise": {
        "summarize": Command(OWN + "summarize", "summarise new documents"),
        "explain": Command(OWN + "explain", "explain a summary on a web page"),
        "demo": Command(OWN + "demo", "try out a model on a local web page"),
    },
    "Prepare data": {
        "corpus": Command("etads_preprocess.corpus", "convert a corpus to parallel text of documents and summaries"),
        "debian": Command("etads_preprocess.debian", "build a corpus from descriptions of Debian packages"),
        "prepare": Command("etads_preprocess.prepare", "tokenise and binarise text, and build the dictionary"),
        "dictionary": Command("etads_preprocess.dictionary_command", "build only a dictionary"),
        "control": Command("etads_preprocess.control", "insert control words before documents"),
        "labels": Command(OWN + "labels", "create word and sentence labels for content selection"),
    },
    "Train": {
        "train": Command(OWN + "train", "train a model from text or a table of pairs"),
        "reproduce": Command(OWN + "reproduce", "train and score the systems of a paper by a recipe"),
        "models": Command(OWN + "models", "list architectures and their options"),
        "plot": Command(OWN + "plot", "plot training curves"),
        "average": Command(OWN + "average", "average checkpoints"),
        "select": Command(OWN + "select", "compute selection probabilities of words or sentences"),
        "extract": Command(OWN + "extract", "create extractive summaries with a model, the lead or an oracle"),
        "shorten": Command(OWN + "shorten", "shorten long documents to their most probable sentences"),
        "content": Command(OWN + "content", "train a model that predicts the words and bigrams in summaries"),
        "rewrite": Command(OWN + "rewrite", "summarise documents by extracting and rewriting sentences"),
        "nli": Command(OWN + "nli", "train and evaluate entailment models"),
        "shortlist": Command(OWN + "shortlist", "learn a vocabulary shortlist for faster decoding"),
    },
    "Use a trained model": {
        "export": Command(OWN + "export", "write a model folder from a training run"),
        "tune": Command(OWN + "tune", "find good decoding options for a model folder"),
    },
    "Evaluate": {
        "rouge": Command(OWN + "rouge", "compute ROUGE with confidence intervals"),
        "compare": Command(OWN + "compare", "test whether one system is better than another"),
        "results": Command(OWN + "results", "compare systems by records of the scores of their training runs"),
        "analyse": Command(OWN + "analyse", "analyse the novelty, repetition and lengths of summaries"),
        "evidence": Command(OWN + "evidence", "show from where in its document each sentence was copied"),
        "likelihood": Command(OWN + "likelihood", "compute the likelihood of references under a trained model"),
        "human": Command(OWN + "human", "create rating sheets for human evaluation, and evaluate ratings"),
    },
    "Help": {
        "doctor": Command(OWN + "doctor", "show versions and devices, and run a self-test"),
        "completion": Command(OWN + "completion", "print a completion script for bash or zsh"),
    },
}
"""Dictionary that maps the name of each group to its commands, which are keyed by short name.

All commands except those in the last group are also installed as ``etads-NAME``.
"""

LAST_GROUP = "Help"

OTHER_NAMES = {
    **dict.fromkeys(("generate", "predict", "infer", "translate", "interactive", "decode"), "summarize"),
    **dict.fromkeys(("evaluate", "eval", "score", "test"), "rouge, compare or analyse"),
    **dict.fromkeys(("serve", "server", "web"), "demo"),
    **dict.fromkeys(("preprocess", "binarise", "binarize", "tokenise", "tokenize"), "prepare"),
    **dict.fromkeys(("finetune", "fine-tune", "fit", "resume"), "train"),
    "validate": "likelihood",
}
"""Maps names that other tools give to commands to the commands meant."""


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
        near = OTHER_NAMES.get(name) or find_closest_word(name, get_commands_by_name())
        advice = f"; did you mean {near}?" if near else ""
        print(f"etads: no command {escape_unprintable(name)}{advice} (etads lists all commands)", file=sys.stderr)
        return USER_ERROR
    return load_main(name)(words[1:])
