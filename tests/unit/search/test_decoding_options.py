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
from fairseq_etads.training.options import SummarizationConfig, check_decoding

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


VALUES = [
    ({"beam": 0}, "--beam 0: choose 1 or more"),
    ({"nbest": 0}, "--nbest 0: choose 1 or more"),
    ({"nbest": 4, "beam": 3}, "--nbest 4: choose at most --beam, which is 3"),
    ({"min_len": -1}, "--min-len -1: choose 0 or more"),
    ({"max_len_a": -1.0}, "--max-len-a -1.0: choose 0 or more"),
    ({"exact_length": -1}, "--exact-length -1: choose 0 or more (0: off)"),
    ({"min_sentences": -1}, "--min-sentences -1: choose 0 or more (0: off)"),
    ({"lenpen": 101.0}, "--lenpen 101.0: choose a number from -100 to 100"),
    ({"lenpen": math.nan}, "--lenpen nan: choose a number"),
    ({"length_penalty_type": "log"}, '--length-penalty-type "log": choose avg or wu'),
    ({"length_penalty_beta": -1.0}, "--length-penalty-beta -1.0: choose more than -1"),
    ({"coverage_penalty": -0.5}, "--coverage-penalty -0.5: choose 0 or more (0: off)"),
    ({"coverage_penalty_type": "sum"}, '--coverage-penalty-type "sum": choose summary or wu'),
    ({"no_repeat_ngram_size": -1}, "--no-repeat-ngram-size -1: choose 0 or more (0: off)"),
    ({"recombine": -1}, "--recombine -1: choose 0 or more (0: off)"),
    ({"early_stopping": "soon"}, '--early-stopping "soon": choose admissible, heuristic or fairseq'),
    ({"temperature": 0.0}, "--temperature 0.0: choose more than 0"),
    ({"temperature": math.inf}, "--temperature inf: choose more than 0"),
    ({"unkpen": -math.inf}, "--unkpen -inf: choose a number from -1e+06 to inf"),
    ({"infer_dtype": "fp8"}, '--infer-dtype "fp8": choose fp32, bf16, fp16, int8 or auto'),
    ({"choose": "best"}, '--choose "best": choose content, extract, hypothesis or none'),
    ({"choose_words": -1}, "--choose-words -1: choose 0 or more (0: by the training summaries)"),
    ({"content_weight": 0.0}, "--content-weight 0.0: choose more than 0"),
    ({"selection_threshold": 1.0}, "--selection-threshold 1.0: choose a number below 1"),
    ({"selection_factor": 0.0}, "--selection-factor 0.0: choose more than 0"),
    ({"exact_length": 5, "min_sentences": 2}, "--exact-length 5 does not go with --min-sentences 2: choose one"),
    ({"exact_length": 5, "match_source_len": True}, "--exact-length 5 does not go with --match-source-len: choose one"),
    ({"print_alignment": "hard", "replace_unknown": True}, "--print-alignment hard does not go with --replace-unknown"),
]
TYPES = [  # a command line converts these
    ({"beam": 2.5}, "--beam 2.5: choose a whole number"),
    ({"beam": True}, "--beam True: choose a whole number"),
    ({"coverage_penalty": "much"}, '--coverage-penalty "much": choose a number'),
    ({"allow_unk": "no"}, '--allow-unk "no": choose True or False'),
    ({"ngram_ignore_tokens": 3}, "--ngram-ignore-tokens 3: choose a text"),
    ({"max_len": "x" * 99}, f'--max-len "{"x" * 56}...: choose a whole number'),
]
OF_CALLS = [  # the commands of fairseq accept these
    ({"max_len": 0}, "--max-len 0: choose 1 or more"),
    ({"min_len": 9, "max_len": 4}, "--min-len 9: choose at most --max-len, which is 4"),
    ({"min_len": 10**7, "max_len": 10**8}, "--min-len 10000000: choose a number of at most 1,000,000"),
    ({"coverage_penalty": math.inf}, "--coverage-penalty inf: choose a number of at most 1,000,000"),
    ({"shortlist": "file"}, '--shortlist "file": choose True or False'),
    ({"bema": 3}, "there is no decoding option bema; did you mean beam? Choose from beam, min_len"),
    ({"max_len_b": 3}, "there is no decoding option max_len_b; did you mean max_len"),
]
NO_EFFECT = [  # an option, the message, and an option that gives it an effect
    ({"min_len": 5, "exact_length": 9}, "--min-len 5 has no effect with --exact-length 9: choose one", None),
    ({"lenpen": 0.5, "unnormalized": True}, "--lenpen 0.5 has no effect with --unnormalized: choose one", None),
    ({"length_penalty_type": "wu", "unnormalized": True}, "has no effect with --unnormalized: choose one", None),
    ({"length_penalty_beta": 3.0}, "has no effect without --length-penalty-type wu", {"length_penalty_type": "wu"}),
    ({"coverage_penalty_type": "wu"}, "has no effect without --coverage-penalty", {"coverage_penalty": 1.0}),
    ({"stepwise_coverage_penalty": True}, "has no effect without --coverage-penalty", {"coverage_penalty": 1.0}),
    ({"ngram_ignore_tokens": "w1"}, "without --no-repeat-ngram-size", {"no_repeat_ngram_size": 3}),
    ({"allow_unk": True}, "--allow-unk has no effect without a model with --pointer", {"has_pointer": True}),
    ({"unkpen": math.inf, "has_pointer": True}, "--unkpen inf has no effect on models with --p", {"allow_unk": True}),
    ({"choose_words": 30}, "--choose-words 30 has no effect without --choose content", {"choose": "content"}),
    ({"content_weight": 3.0}, "without --content-model (of a model folder: without --choose hypothesis)", None),
    ({"content_weight": 3.0}, "--content-weight 3.0 has no effect without", {"content_model": "file"}),
    ({"selection_threshold": 0.5}, "has no effect without --selection", {"selection": "folder"}),
    ({"selection_factor": 3.0}, "has no effect without --selection", {"selection": "folder"}),
    ({"lm_weight": 0.3}, "--lm-weight 0.3 has no effect without --lm-path", {"lm_path": "lm.pt"}),
    ({"diverse_beam_strength": 0.7}, "without --diverse-beam-groups", {"diverse_beam_groups": 2}),
    ({"retain_dropout_modules": ["X"]}, "without --retain-dropout", {"retain_dropout": True}),
    ({"iter_decode_max_iter": 3}, "it is for models that do not write from left to right", None),
    ({"print_step": True}, "it is for models that do not write from left to right", None),
    ({"beam_mt": 2}, "--beam-mt 2 has no effect on this project's models: it is for models that translate", None),
    *(
        ({name: value, "score_reference": True}, "has no effect with --score-reference: choose one", None)
        for name, value in (("extractive_weights", "release"), ("recombine", 2), ("content_model", "file"))
    ),
    ({"shortlist": "file", "score_reference": True}, "--shortlist file has no effect with --score-reference", None),
    ({"selection": "folder", "score_reference": True}, "--selection folder has no effect with --score-reference", None),
    ({"content_model": "file", "sampling": True}, "--content-model file has no effect with --sampling", None),
]
NO_EFFECT_IN_CALLS = [
    ({"max_len": 9, "exact_length": 5}, "--max-len 9 has no effect with --exact-length 5: choose one"),
    ({"max_len_a": 0.5, "exact_length": 5}, "--max-len-a 0.5 has no effect with --exact-length 5: choose one"),
]


def doors(given, *among):
    """The doors at which options can be given."""
    in_calls = all(name in CALL or name == "has_pointer" for name in given)
    of_fairseq = all(name not in DECLARED or DECLARED[name].metadata["of"] for name in given)
    return [door for door in among if (in_calls if door in (call, folder) else of_fairseq or door is python)]


REFUSALS = [
    *((door, given, words) for given, words in VALUES for door in doors(given, command, call, folder, python)),
    *((door, given, words) for given, words in TYPES for door in (call, folder, python)),
    *((door, given, words) for given, words in OF_CALLS for door in (call, folder)),
    *((door, given, words) for given, words, _ in NO_EFFECT for door in doors(given, command, call)),
    *((call, given, words) for given, words in NO_EFFECT_IN_CALLS),
    (python, {"print_alignment": "firm"}, '--print-alignment "firm": choose hard or soft'),
]


@pytest.mark.parametrize("door, given, words", REFUSALS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_what_is_refused(door, given, words):
    with pytest.raises(ValueError) as error:
        door(**given)
    assert words in str(error.value)


@pytest.mark.parametrize("given, other", [(given, other) for given, _, other in NO_EFFECT if other], ids=str)
def test_what_is_accepted_with_the_option_that_it_needs(given, other):
    for door in doors({**given, **other}, command, call):
        door(**{**given, **other})


def test_another_choice_than_the_folders_has_its_own_defaults():
    folder = {"choose": "extract", "beam": 5, "choose_words": 90, "readability": 0.08, "lenpen": 2.0}
    same, other = combine_options(folder, {"choose": "extract"}), combine_options(folder, {"choose": "content"})
    assert (same.beam, same.choose_words, same.readability) == (5, 90, 0.08)
    assert (other.beam, other.choose_words, other.readability, other.lenpen) == (12, 0, 0.0, 2.0)
    given = combine_options(folder, {"choose": "content", "choose_words": 50, "beam": 8})
    assert (given.beam, given.choose_words) == (8, 50)


def test_what_the_commands_of_fairseq_and_folders_accept():
    command(max_len=300, exact_length=5)
    command(max_len=0, max_len_a=1.5)
    command(unkpen=math.inf)
    call(unkpen=math.inf)
    for given, *_ in NO_EFFECT:
        if folder in doors(given, folder):
            folder(**given)
    command()
    command(has_pointer=True)


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
    for name, option in DECLARED.items():
        if option.metadata["of"] == "task":
            action = actions[name]
            assert (action.default, action.help) == (option.default, option.metadata["help"])
            assert tuple(action.choices or ()) == option.metadata.get("choices", ())
        else:
            assert name not in actions
    with pytest.raises(SystemExit):
        parser = fairseq_options.get_generation_parser(default_task="summarization")
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
