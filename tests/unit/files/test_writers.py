"""Every file is written through files/outputs.py; a file with a separate writer must say here why it needs one."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[3]
OWN_WRITERS = {
    "fairseq_etads/files/outputs.py": "is where files are written",
    "fairseq_etads/fairseq_fixes/checkpoints.py": "fairseq's checkpoints, which fairseq writes",
    "fairseq_etads/files/resumable.py": "adds each document to a locked file that a later run continues",
    "fairseq_etads/summarizer/folder/export.py": "fills a folder that writing_folder() made",
    "fairseq_etads/evaluation/perl_rouge.py": "files in a temporary folder, for ROUGE-1.5.5.pl",
    "fairseq_etads/commands/human.py": "fills a folder that make_output_folder() made",
    "fairseq_etads/pipeline/steps.py": "the standard output of a command, in a file of make_temporary_output()",
    "fairseq_etads/pipeline/training.py": "adds to the log of a training, which a later run continues",
    "preprocess/corpus.py": "standard input, copied into a temporary folder",
    "preprocess/prepare.py": "the log of fairseq-preprocess, in a folder that is locked",
}
"""Reason why each file opens files for writing itself."""
WRITING_METHODS = {"write_text", "write_bytes"}


def writes(tree):
    """Line numbers of calls that open or write a file."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in WRITING_METHODS and isinstance(node.func, ast.Attribute):
            yield node.lineno
        elif name == "open":
            words = [*node.args[:2], *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
            modes = [word.value for word in words if isinstance(word, ast.Constant) and isinstance(word.value, str)]
            if any(set(mode) <= set("rwaxbt+") and set(mode) & set("wax+") for mode in modes):
                yield node.lineno
        elif name == "replace" and isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == "os":
            yield node.lineno


def test_every_file_is_written_through_outputs():
    """A file that is written in place is left half-written when the process is killed or the disk is full."""
    found = {}
    for folder in ("fairseq_etads", "preprocess"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            lines = [*writes(ast.parse(path.read_text(encoding="utf-8")))]
            if lines:
                found[path.relative_to(ROOT).as_posix()] = lines
    others = {name: lines for name, lines in found.items() if name not in OWN_WRITERS}
    assert not others, f"write with files/outputs.py, or say in OWN_WRITERS why not: {others}"
    assert not OWN_WRITERS.keys() - found.keys(), "no longer writers of their own"
