"""docs/rules.md lists what the options declare, as scripts/rules_page.py writes it."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "rules.md"


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(ROOT / "scripts" / "rules_page.py"))


def test_the_page_is_what_the_declarations_say(script):
    text = PAGE.read_text(encoding="utf-8")
    assert script["insert_rule_lists"](text) == text, "run scripts/rules_page.py"


def test_a_rule_that_is_missing_comes_back_and_the_rest_stays(script):
    text = PAGE.read_text(encoding="utf-8")
    rule = "- `--uniform-init` with `--paper-init`: both determine the initial weights; choose one\n"
    assert rule in text
    assert script["insert_rule_lists"](text.replace(rule, "")) == text


def test_a_page_without_the_comments_is_refused(script):
    with pytest.raises(SystemExit, match="no comments for declared exclusions"):
        script["insert_rule_lists"]("# Rules\n")


def test_options_of_tasks_losses_models_and_decoding_are_all_read(script):
    excludes, needs = script["collect_option_rules"]()
    flags = {name for _, name in excludes} | {name for names in needs.values() for name in names}
    of_each = {"--auxiliary-data", "--coverage-loss-start", "--uniform-init", "--neighbours", "--lenpen", "--recombine"}
    assert of_each - flags == {"--neighbours"}  # the nested name: on the command line it is --encoder-neighbours
    assert {"--encoder-neighbours", "--raml-entailment-model"} <= flags
