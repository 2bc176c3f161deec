"""Declarations of the decoding options: complete, the same everywhere, and checked by one function."""

import subprocess
import sys
from argparse import ArgumentParser
from dataclasses import fields

import pytest
from fairseq.dataclass.configs import GenerationConfig
from fairseq.dataclass.utils import gen_parser_from_dataclass
from folders import make_folder

from fairseq_etads import Summarizer
from fairseq_etads.platform.errors import InputError
from fairseq_etads.platform.option_checks import Bounds
from fairseq_etads.search import call_options, options
from fairseq_etads.search.hypotheses import HypothesisScorer
from fairseq_etads.search.options import DECLARED, DecodingOptions, FairseqOptions, FolderOptions
from fairseq_etads.search.settings import SearchSettings
from fairseq_etads.summarizer.folder.decoding_defaults import set_decoding_defaults
from fairseq_etads.training.options import SummarizationConfig

OF_FOLDERS = {*(option.name for option in fields(FolderOptions)), "content_weight"}
KINDS = {"help", "bounds", "least_in_call", "choices", "needs", "without", "excludes", "setting"}


def test_declarations_name_what_exists():
    names = {*DECLARED, "lm_path", "diverse_beam_groups", "retain_dropout", "score_reference", "sampling"}
    known = {options.POINTER, options.NO_POINTER, *map(options.format_option_name, names)}
    with_values = {option.name: option.metadata.get("choices", ()) for option in DECLARED.values()}
    known |= {
        f"{options.format_option_name(name)} {value}" for name, choices in with_values.items() for value in choices
    }
    for option in DECLARED.values():
        metadata = option.metadata
        assert set(metadata) <= {*KINDS, "tuned", "tunable"}, option.name
        assert {*metadata.get("needs", ()), *metadata.get("excludes", ())} <= known
        assert (
            not options.describe_expected_value(option.name, option.default) or option.name == "retain_dropout_modules"
        )
        for value in metadata.get("tuned", ()):
            assert not options.describe_expected_value(option.name, value)


def test_fairseqs_options_have_fairseqs_defaults():
    theirs = {option.name: option.default for option in fields(GenerationConfig)}
    for option in fields(FairseqOptions):
        assert theirs[option.name] == option.default or option.name == "print_alignment", option.name


def test_settings_have_the_declared_defaults():
    defaults = {option.name: option.default for kind in (SearchSettings, HypothesisScorer) for option in fields(kind)}
    declared = {name: option.default for name, option in DECLARED.items()}
    differing = {
        name for name in DECLARED if defaults.get(options.get_setting_name(name), declared[name]) != declared[name]
    }
    as_fairseqs_generator, parsed = {"beam", "lm_weight"}, {"ngram_ignore_tokens", "extractive_weights"}
    assert differing == as_fairseqs_generator | parsed
    assert defaults["normalize_scores"] is not DECLARED["unnormalized"].default


def test_fairseqs_command_line_has_them_with_their_choices():
    parser = ArgumentParser()
    gen_parser_from_dataclass(parser, SummarizationConfig())
    actions = {action.dest: action for action in parser._actions}
    for option in fields(DecodingOptions):
        action = actions[option.name]
        assert (action.default, action.help) == (option.default, option.metadata["help"])
        assert tuple(action.choices or ()) == option.metadata.get("choices", ())


@pytest.mark.parametrize("name", [name for name in DECLARED if name in call_options.OPTIONS and name != "shortlist"])
def test_every_bound_holds_in_a_call_and_in_the_settings(name):
    metadata, setting = DECLARED[name].metadata, options.get_setting_name(name)
    bounds = metadata.get("bounds", Bounds())
    outside = [bound + step for bound, step in ((bounds.at_least, -1), (bounds.most, 1)) if bound is not None]
    outside += [bound for bound in (bounds.above, bounds.below) if bound is not None]
    outside += ["nothing like it"] if "choices" in metadata else []
    for value in outside:
        with pytest.raises(InputError, match=f"^{options.format_option_name(name)} .*: choose "):
            call_options.check_options({name: value})
        if name in OF_FOLDERS:
            continue  # not a setting of the search
        with pytest.raises(ValueError, match=f"^{options.format_option_name(name)} .*: choose "):
            SearchSettings.from_options(**{setting: value})


def test_a_call_is_refused_an_option_that_only_its_folder_may_have(tmp_path):
    """A folder that was made with an option without effect can still be read; a call with such an option is refused."""
    decoding = {**call_options.DEFAULTS, "max_len": 9, "coverage_penalty_type": "wu", "unkpen": 2.0}
    folder, _ = make_folder(tmp_path, pointer="soft")
    set_decoding_defaults(folder, decoding, "")
    summarizer = Summarizer.load(folder)
    assert summarizer.summarize("w1 w2 w3").text == summarizer.summarize("w1 w2 w3", coverage_penalty_type="wu").text
    with pytest.raises(InputError, match=r"--unkpen 3\.0 has no effect on models with --pointer"):
        summarizer.summarize("w1", unkpen=3.0)
    summarizer.summarize("w1", unkpen=3.0, allow_unk=True)
    summarizer.summarize("w1", coverage_penalty=1.0)


def test_they_are_read_without_torch_and_fairseq():
    code = (
        "import sys; sys.argv = ['etads-summarize']; import fairseq_etads.search.call_options\n"
        "assert not {'torch', 'fairseq'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
