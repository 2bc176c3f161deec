"""Declarations of the decoding options, and the one table of refused values and combinations."""

import math
from argparse import ArgumentParser
from dataclasses import fields

import pytest
from fairseq import options as fairseq_options
from fairseq.dataclass.configs import GenerationConfig
from fairseq.dataclass.utils import gen_parser_from_dataclass
from folders import make_folder
from helpers import make_task
from omegaconf import OmegaConf

from fairseq_etads import Summarizer
from fairseq_etads.platform.errors import InputError
from fairseq_etads.search import options
from fairseq_etads.search.options import CALL, DECLARED, FOLDER_DEFAULTS, check_decoding_options, combine_options
from fairseq_etads.summarizer.folder.model_card import set_decoding_defaults
from fairseq_etads.training.checks import check_decoding
from fairseq_etads.training.options import SummarizationConfig

TASK = {field.name for field in fields(SummarizationConfig)}
OF_FAIRSEQ = {field.name: field.default for field in fields(GenerationConfig)}


def command(has_pointer=False, **given):
    """The door of fairseq's commands."""
    task = {name: given.pop(name) for name in list(given) if name in TASK}
    given = {DECLARED[name].metadata.get("fairseq", name) if name in DECLARED else name: given[name] for name in given}
    check_decoding(make_task(**task).cfg, OmegaConf.structured(GenerationConfig(**given)), has_pointer)


def call(has_pointer=False, **given):
    """The door of ``Summarizer`` and our commands."""
    combine_options(FOLDER_DEFAULTS, given, has_pointer)


def folder(has_pointer=False, **given):
    """The door of model folders."""
    combine_options(given, {})


def python(has_pointer=False, **given):
    """The door of SummaryGenerator."""
    check_decoding_options(given)


KINDS = ("length_penalty_type", "coverage_penalty_type", "early_stopping", "infer_dtype", "choose")
VALUES = {  # values that each door refuses
    **dict.fromkeys(("beam", "nbest"), (0,)),
    **dict.fromkeys(("min_len", "exact_length", "min_sentences", "no_repeat_ngram_size", "recombine"), (-1,)),
    **{"max_len_a": (-1.0,), "coverage_penalty": (-0.5,), "choose_words": (-1,), "temperature": (0.0, math.inf)},
    **{"content_weight": (0.0,), "selection_threshold": (1.0,), "selection_factor": (0.0,)},
    **{"lenpen": (101.0, math.nan), "length_penalty_beta": (-1.0,), "unkpen": (-math.inf,)},
    **dict.fromkeys(KINDS, ("x",)),
}
TYPES = {"beam": (2.5, True), "coverage_penalty": ("much",), "allow_unk": ("no",), "ngram_ignore_tokens": (3,)}
"""A command line converts these."""
OF_CALLS = {"max_len": (0,), "min_len": (10**7,), "coverage_penalty": (math.inf,), "shortlist": ("file",)}
"""The commands of fairseq accept these."""
CONTRADICTING = [
    {"nbest": 4, "beam": 3},
    {"exact_length": 5, "min_sentences": 2},
    {"exact_length": 5, "match_source_len": True},
    {"print_alignment": "hard", "replace_unknown": True},
]
NO_EFFECT = [  # an option without effect beside others, and an option that gives it one
    ({"min_len": 5, "exact_length": 9}, None),
    ({"lenpen": 0.5, "unnormalized": True}, None),
    ({"length_penalty_beta": 3.0}, {"length_penalty_type": "wu"}),
    ({"stepwise_coverage_penalty": True}, {"coverage_penalty": 1.0}),
    ({"ngram_ignore_tokens": "w1"}, {"no_repeat_ngram_size": 3}),
    ({"allow_unk": True}, {"has_pointer": True}),
    ({"unkpen": math.inf, "has_pointer": True}, {"allow_unk": True}),
    ({"choose_words": 30}, {"choose": "content"}),
    ({"content_weight": 3.0}, {"content_model": "file"}),
    ({"selection_threshold": 0.5}, {"selection": "folder"}),
    ({"lm_weight": 0.3}, {"lm_path": "lm.pt"}),
    ({"diverse_beam_strength": 0.7}, {"diverse_beam_groups": 2}),
    ({"iter_decode_max_iter": 3}, None),  # for models that do not write from left to right
    ({"beam_mt": 2}, None),  # for models that translate
    ({"shortlist": "file", "score_reference": True}, None),
    ({"content_model": "file", "sampling": True}, None),
]
NO_EFFECT_IN_CALLS = [{"max_len": 9, "exact_length": 5}, {"max_len_a": 0.5, "exact_length": 5}]


def doors(given, *among):
    """The doors at which options can be given."""
    in_calls = all(name in CALL or name == "has_pointer" for name in given)
    of_fairseq = all(name not in DECLARED or DECLARED[name].metadata["of"] for name in given)
    return [door for door in among if (in_calls if door in (call, folder) else of_fairseq or door is python)]


def each(table):
    return [{name: value} for name, values in table.items() for value in values]


REFUSALS = [
    *((door, given, "choose") for given in each(VALUES) for door in doors(given, command, call, folder, python)),
    *((door, given, "choose") for given in each(TYPES) for door in (call, folder, python)),
    *((door, given, "choose") for given in [*each(OF_CALLS), {"min_len": 9, "max_len": 4}] for door in (call, folder)),
    *((door, given, "choose") for given in CONTRADICTING for door in doors(given, command, call, folder, python)),
    *((door, given, "has no effect") for given, _ in NO_EFFECT for door in doors(given, command, call)),
    *((call, given, "has no effect") for given in NO_EFFECT_IN_CALLS),
    (python, {"print_alignment": "firm"}, "choose"),
]


@pytest.mark.parametrize("door, given, words", REFUSALS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_what_is_refused(door, given, words):
    with pytest.raises(ValueError) as error:
        door(**given)
    assert options.format_option_name(next(iter(given))) in str(error.value) and words in str(error.value)


def test_the_name_that_was_meant_and_the_beginning_of_a_long_value_are_told():
    for name, meant in (("bema", "beam"), ("max_len_b", "max_len")):
        with pytest.raises(ValueError, match=f"no decoding option {name}; did you mean {meant}"):
            call(**{name: 3})
    with pytest.raises(ValueError, match=f'--max-len "{"x" * 56}...: choose a whole number'):
        call(max_len="x" * 99)


def test_what_is_accepted_with_the_option_that_it_needs_or_by_some_doors():
    for given, other in NO_EFFECT:
        together = {**given, **(other or {})}
        for door in [*doors(given, folder), *(doors(together, command, call) if other else [])]:
            door(**(given if door is folder else together))
    command(max_len=300, exact_length=5)
    command(max_len=0, max_len_a=1.5)
    for door in (command, call):
        door(unkpen=math.inf)
    for has_pointer in (False, True):
        command(has_pointer=has_pointer)


def test_another_choice_than_the_folders_has_its_own_defaults():
    folder = {"choose": "extract", "beam": 5, "choose_words": 90, "readability": 0.08, "lenpen": 2.0}
    same, other = combine_options(folder, {"choose": "extract"}), combine_options(folder, {"choose": "content"})
    assert (same.beam, same.choose_words, same.readability) == (5, 90, 0.08)
    assert (other.beam, other.choose_words, other.readability, other.lenpen) == (12, 0, 0.0, 2.0)
    given = combine_options(folder, {"choose": "content", "choose_words": 50, "beam": 8})
    assert (given.beam, given.choose_words) == (8, 50)


def test_declarations_name_what_exists():
    names = {*DECLARED, "lm_path", "diverse_beam_groups", "retain_dropout", "score_reference", "sampling"}
    known = {options.POINTER, options.NO_POINTER, *map(options.format_option_name, names)}
    with_values = {name: option.metadata.get("choices", ()) for name, option in DECLARED.items()}
    known |= {
        f"{options.format_option_name(name)} {value}" for name, choices in with_values.items() for value in choices
    }
    for name, option in DECLARED.items():
        metadata = option.metadata
        assert {*metadata.get("needs", ()), *metadata.get("excludes", ())} <= known
        check_decoding_options({name: option.default})
        for value in metadata.get("tuned", ()):
            check_decoding_options({name: value}, in_call=True)
        declared = OF_FAIRSEQ.get(metadata.get("fairseq", name))
        assert metadata["of"] != "fairseq" or option.default == declared or name == "print_alignment", name


def test_fairseqs_command_line_has_them_with_their_choices(capsys):
    parser = ArgumentParser()
    gen_parser_from_dataclass(parser, SummarizationConfig())
    actions = {action.dest: action for action in parser._actions}
    of_task = {name: option for name, option in DECLARED.items() if option.metadata["of"] == "task"}
    assert actions.keys() & DECLARED.keys() == of_task.keys()
    for name, option in of_task.items():
        assert actions[name].default == option.default
        assert tuple(actions[name].choices or ()) == option.metadata.get("choices", ())
    parser = fairseq_options.get_generation_parser(default_task="summarization")
    with pytest.raises(SystemExit):
        fairseq_options.parse_args_and_arch(parser, ["DATA", "--path", "model.pt", "--early-stopping", "soon"])
    assert "'admissible', 'heuristic', 'fairseq'" in capsys.readouterr().err


def test_a_call_is_refused_an_option_that_only_its_folder_may_have(tmp_path):
    """A folder that was made with an option without effect can still be read; a call with such an option is refused."""
    decoding = {**FOLDER_DEFAULTS, "max_len": 9, "coverage_penalty_type": "wu", "unkpen": 2.0}
    made, _ = make_folder(tmp_path, pointer="soft")
    set_decoding_defaults(made, decoding, "")
    summarizer = Summarizer.load(made)
    assert summarizer.summarize("w1 w2 w3").text == summarizer.summarize("w1 w2 w3", coverage_penalty_type="wu").text
    with pytest.raises(InputError, match=r"--unkpen 3\.0 has no effect on models with --pointer"):
        summarizer.summarize("w1", unkpen=3.0)
    summarizer.summarize("w1", unkpen=math.inf, allow_unk=True)
    summarizer.summarize("w1", coverage_penalty=1.0)
