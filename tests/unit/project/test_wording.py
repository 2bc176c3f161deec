"""scripts/wording.py finds wording that slows a reader down, and nothing in code; the project has no hit."""

import ast
import importlib.util
import re
import subprocess
import sys

import pytest
from documented import ROOT

spec = importlib.util.spec_from_file_location("wording", ROOT / "scripts" / "wording.py")
wording = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = wording
spec.loader.exec_module(wording)

MODULE = '''\
"""How words are read."""


def function():
    # those of the encoder
    raise ValueError(f"{1}: built anew, not read")
'''


SCRIPT = """\
#!/usr/bin/env bash
# Goes on after an interruption.
# shellcheck disable=SC2086  # words, beside others
other_learnt=beside
die "--run $1: its weights were learnt elsewhere"
"""


def found(text, docstring=False):
    return [words for words, _ in wording.find_wording_patterns(wording.Passage(1, text, docstring))]


def test_the_project_has_no_hit():
    run = subprocess.run([sys.executable, ROOT / "scripts" / "wording.py"], capture_output=True, text=True)
    assert run.returncode == 0 and run.stdout == "", run.stdout + run.stderr


def test_no_string_is_left_outside_its_expression():
    """A statement that is a string is a docstring, in three quotes; another one is a part of a text that was lost."""
    folders = ("fairseq_etads", "preprocess", "scripts")
    for path in (path for folder in folders for path in ROOT.glob(f"{folder}/**/*.py")):
        code = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.Expr) and isinstance(node.value, (ast.Constant, ast.JoinedStr)):
                assert re.match('r?"""|[.]{3}', ast.get_source_segment(code, node)), f"{path}, line {node.lineno}"


@pytest.mark.parametrize(
    "text, words",
    [
        ("the weights are those of the encoder", "those of"),
        ("a file beside the data", "beside"),
        ("training goes on", "goes on"),
        ("built anew", "anew"),
        ("at most so many words", "so many"),
        ("a model whose words are known", "whose"),
        ("two files, of which one is empty", "of which"),
        ("it hands them to the model", "hands them to"),
        ("padding is as fairseq's", "as fairseq's"),
        ("learnt weights", "learnt"),
        ("the center of the window", "center"),
        ("labels are normalized", "normalized"),
        ("the tokenizer", "tokenizer"),
    ],
)
def test_phrases_and_spellings_are_found(text, words):
    assert found(text) == [words]


@pytest.mark.parametrize("opening", ["What", "How", "Which", "Those", "As", "Where", "Why"])
def test_openings_are_found_in_docstrings_only(opening):
    assert found(f"{opening} is read.", docstring=True) == [opening]
    assert found(f"{opening} is read.") == []


@pytest.mark.parametrize(
    "text",
    [
        "Assign the weights.",
        "the option --tokenizer moses",
        "see ``build_tokenizer`` and `center`",
        "the function summarize_all()",
        "https://example.org/tokenizers",
        "such as fairseq's classes",
        "learned weights of the centre, normalised",
    ],
)
def test_code_and_plain_words_are_not(text):
    assert found(text, docstring=True) == []


def test_files_are_checked_with_places(tmp_path):
    file = tmp_path / "module.py"
    file.write_text(MODULE)
    run = subprocess.run([sys.executable, ROOT / "scripts" / "wording.py", file], capture_output=True, text=True)
    assert run.returncode == 1
    places = [line.split(f"{file}:")[1].split(":")[0] for line in run.stdout.splitlines()]
    assert places == ["1", "5", "6"]


def test_comments_and_messages_of_shell_scripts_are_read(tmp_path):
    path = tmp_path / "script.sh"
    path.write_text(SCRIPT.replace("Goes on", "It goes on"))
    lines = [line.partition(" (")[0] for line in wording.iterate_wording_hits([path])]
    assert lines == [f'{path}:2: "goes on"', f'{path}:5: "learnt"']
