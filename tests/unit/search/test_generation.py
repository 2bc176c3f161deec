"""SummaryGenerator: the results of fairseq without its options, the same in any batch; the declarations of options."""

import copy
import inspect
import itertools
import math
from dataclasses import fields, replace

import pytest
import torch
from decoding import DICTIONARY, assert_same, generate, make_sample, sharpened
from decoding import options as command_options
from fairseq import search
from fairseq.dataclass.configs import GenerationConfig
from fairseq.sequence_generator import SequenceGenerator, SequenceGeneratorWithAlignment
from fairseq.token_generation_constraints import pack_constraints
from folders import make_folder
from helpers import EOS, PAD, make_task
from omegaconf import OmegaConf
from scripted import scripted_model

from fairseq_etads import Summarizer
from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.platform.errors import InputError
from fairseq_etads.search.options import (
    CALL,
    DECLARED,
    FOLDER_DEFAULTS,
    NO_POINTER,
    POINTER,
    DecodingOptions,
    check_decoding_options,
    combine_options,
    format_option_name,
)
from fairseq_etads.search.strategies import SamplingWithGreedyHypothesis
from fairseq_etads.summarizer.folder.model_card import set_decoding_defaults
from fairseq_etads.training.options import SummarizationConfig, check_decoding

SETTINGS = [
    {"beam_size": 4, "max_len_b": 14},
    {"beam_size": 1, "max_len_b": 6},
    {"beam_size": 3, "max_len_a": 0.5, "max_len_b": 4, "min_len": 3, "len_penalty": 2.0},
    {"beam_size": 5, "max_len_b": 9, "unk_penalty": 0.5, "temperature": 1.4, "normalize_scores": False},
    {"beam_size": 2, "max_len_b": 9, "tokens_to_suppress": ("w3", "w4"), "unk_penalty": -1.0},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_without_options_it_returns_what_fairseq_returns(settings, documents):
    scripted = [scripted_model(DICTIONARY, seed, end=end) for seed, end in enumerate((-2.0, 0.0, 3.0))]
    for model in (sharpened(), *scripted):
        for left in (False, True):
            sample = make_sample(documents, left=left)
            want = generate(SequenceGenerator, [model], sample, settings)
            assert_same(generate(SummaryGenerator, [model], sample, settings), want)


def test_a_program_may_have_another_default_dtype(documents):
    """A model that was made under float64 and converted ended in "expected scalar type Float but found Double"."""
    model, sample = sharpened(pointer="soft"), make_sample(documents)
    want = generate(SummaryGenerator, [model], sample, SETTINGS[0])
    torch.set_default_dtype(torch.float64)
    try:
        other = sharpened(pointer="soft")
        other.load_state_dict(model.state_dict())
        got = generate(SummaryGenerator, [other.float()], sample, SETTINGS[0])
    finally:
        torch.set_default_dtype(torch.float32)
    for mine, known in zip(itertools.chain(*got), itertools.chain(*want)):
        assert mine["tokens"].tolist() == known["tokens"].tolist()
        assert float(mine["score"]) == pytest.approx(float(known["score"]), abs=1e-4)


class _EndsEnd:
    """fairseq's search class, but finished hypotheses have no continuation, which fairseq allows."""

    def step(self, step, lprobs, scores, prev_output_tokens=None, original_batch_idxs=None):
        if step:
            ended = prev_output_tokens[:, 1:].eq(EOS).any(1).view(*lprobs.shape[:2], 1)
            lprobs = lprobs.masked_fill(ended, -math.inf)
        return super().step(step, lprobs, scores, prev_output_tokens, original_batch_idxs)


class _DiverseBeams(_EndsEnd, search.DiverseBeamSearch):
    pass


class _AllowedWords(_EndsEnd, search.PrefixConstrainedBeamSearch):
    pass


STRATEGIES = {
    "sampling": lambda: search.Sampling(DICTIONARY),
    "top-k sampling": lambda: search.Sampling(DICTIONARY, sampling_topk=5),
    "top-p sampling": lambda: search.Sampling(DICTIONARY, sampling_topp=0.8),
    "diverse beams": lambda: search.DiverseBeamSearch(DICTIONARY, 2, 0.5),
    "diverse siblings": lambda: search.DiverseSiblingsSearch(DICTIONARY, 0.5),
    "allowed words": lambda: search.PrefixConstrainedBeamSearch(DICTIONARY, lambda _, sent: [EOS, 5, 6, 7, 8, 9]),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_fairseqs_search_classes_work(name, documents):
    settings, sample = {"beam_size": 4, "max_len_b": 8, "search_strategy": STRATEGIES[name]}, make_sample(documents)
    fairseqs = {
        "diverse beams": lambda: _DiverseBeams(DICTIONARY, 2, 0.5),
        "allowed words": lambda: _AllowedWords(DICTIONARY, lambda _, sent: [EOS, 5, 6, 7, 8, 9]),
    }
    theirs = {**settings, "search_strategy": fairseqs.get(name, STRATEGIES[name])}
    for model in (sharpened("etads"), scripted_model(DICTIONARY)):
        want = generate(SequenceGenerator, [model], sample, theirs)
        assert_same(generate(SummaryGenerator, [model], sample, settings), want)


@pytest.mark.parametrize("early_stopping", ["fairseq", "heuristic"])
def test_the_greatest_length_is_the_documents_own_or_of_the_batch(early_stopping):
    sample, model = make_sample([[5, 6, 7], list(range(4, 18)), [9], [8, 4] * 3]), scripted_model(DICTIONARY, end=-30.0)
    for per_document, lengths in ((True, [3, 10, 1, 5]), (False, [10] * 4)):  # no summary is longer than its document
        settings = {"max_len_a": 0.6, "max_len_b": 1, "max_len_per_document": per_document}
        found = generate(SummaryGenerator, [model], sample, {**settings, "early_stopping": early_stopping})
        assert [len(row[0]["tokens"]) - 1 for row in found] == lengths


def with_constraints(order):
    return {"search_strategy": lambda: search.LexicallyConstrainedBeamSearch(DICTIONARY, order), "max_len_b": 8}


def test_words_to_include(documents):
    constraints = pack_constraints([[torch.tensor([6, 7])], [], [torch.tensor([9])], [torch.tensor([5])], []])
    model, sample, settings = scripted_model(DICTIONARY), make_sample(documents), with_constraints("ordered")
    got, want = (
        generate(cls, [model], sample, {"beam_size": 4, **settings}, constraints=constraints)
        for cls in (SummaryGenerator, SequenceGenerator)
    )
    # fairseq loses a hypothesis, because impossible extensions with more of the required words take its place
    assert [len(row) >= len(other) for row, other in zip(got, want)] == [True] * 5 and len(got[0]) > len(want[0])
    assert_same([mine[: len(other)] for mine, other in zip(got, want)], want)
    with pytest.raises(NotImplementedError, match="BeamSearch does not support constraints"):
        generate(SummaryGenerator, [model], sample, {}, constraints=constraints)


@pytest.mark.parametrize("order", ["ordered", "unordered"])
@pytest.mark.parametrize("beam", [1, 2, 5])
def test_words_to_include_come_after_a_prefix(beam, order, documents):
    """Within the prefix, the required words have probability 0."""
    prefix, required = [[5, 8, 6], [7, PAD, PAD]], [[torch.tensor([9, 12]), torch.tensor([11])], []]
    sample, settings = make_sample(documents[:2]), {"beam_size": beam, **with_constraints(order)}
    given = {"prefix_tokens": torch.tensor(prefix), "constraints": pack_constraints(required)}
    found, free = generate(SummaryGenerator, [sharpened()], sample, settings, **given)
    words = found[0]["tokens"].tolist()
    assert words[:3] == prefix[0] and "9, 12" in str(words) and 11 in words
    assert free[0]["tokens"][0] == 7 and all(row[0]["score"].isfinite() for row in (found, free))


def test_a_narrower_member_gives_the_rest_no_probability(documents):
    narrow = scripted_model(DICTIONARY)
    narrow.decoder.table = narrow.decoder.table[:, :30]
    wide = scripted_model(DICTIONARY, seed=1)
    sample, settings = make_sample(documents), {"beam_size": 3, "max_len_b": 6}
    both = generate(SummaryGenerator, [narrow, wide], sample, settings)
    filled = copy.deepcopy(narrow)
    filled.decoder.table = torch.nn.functional.pad(narrow.decoder.table, (0, 14), value=-1e9)
    assert_same(both, generate(SummaryGenerator, [filled, wide], sample, settings))
    alone = generate(SummaryGenerator, [narrow], sample, {"beam_size": 43, "max_len_b": 3})
    assert max(max(h["tokens"].tolist()) for row in alone for h in row) < 30
    assert len(alone[0]) == 29, "the distribution is narrower than the dictionary, and with it the beam"


@pytest.mark.parametrize("kind", ["hard", "soft"])
def test_alignments(kind, documents):
    settings = {"beam_size": 2, "max_len_b": 7}
    model, sample = sharpened(), make_sample(documents)
    got, want = (
        generate(cls, [model], sample, {"print_alignment": kind, **settings})
        for cls in (SummaryGenerator, SequenceGeneratorWithAlignment)
    )
    for mine, other in zip(itertools.chain(*got), itertools.chain(*want)):
        pairs = [[[float(x) for x in pair] for pair in h["alignment"]] for h in (mine, other)]
        torch.testing.assert_close(torch.tensor(pairs[0]), torch.tensor(pairs[1]), rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", ["sampling", "top-k sampling", "top-p sampling", "greedy"])
def test_a_word_of_a_tiny_probability_is_drawn_if_nothing_else_is_allowed(name):
    """At the maximum length only the end is allowed, and here its probability is 0 in float32."""
    strategy = {**STRATEGIES, "greedy": lambda: SamplingWithGreedyHypothesis(DICTIONARY)}[name]
    options = {"beam_size": 2, "max_len_b": 4, "temperature": 0.02, "search_strategy": strategy}
    found = generate(SummaryGenerator, [sharpened()], make_sample([[5, 6, 7], [8]]), options)
    scores = torch.stack([hypothesis["positional_scores"][-1] for row in found for hypothesis in row[1:]])
    assert all(row[0]["tokens"][-1] == EOS for row in found)
    assert scores.min() < -110 and scores.isfinite().all()


def test_a_model_without_an_answer_still_gives_one(documents):
    model = scripted_model(DICTIONARY)
    model.decoder.table[:] = float("nan")
    for options in ({"max_len_b": 4}, {"max_len_b": 4, "beam_size": 3, "coverage_penalty": 1.0}):
        results = generate(SummaryGenerator, [model], make_sample(documents), options)
        assert all(len(row) == 1 and row[0]["score"] == -math.inf for row in results)


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


VALUES = {  # values that each door refuses
    **dict.fromkeys(("beam", "nbest"), (0,)),
    **dict.fromkeys(("min_len", "exact_length", "min_sentences", "no_repeat_ngram_size", "recombine"), (-1,)),
    **{"max_len_a": (-1.0,), "coverage_penalty": (-0.5,), "choose_words": (-1,), "temperature": (0.0, math.inf)},
    **{"content_weight": (0.0,), "selection_threshold": (1.0,), "selection_factor": (0.0,)},
    **{"lenpen": (101.0, math.nan), "length_penalty_beta": (-1.0,), "unkpen": (-math.inf,)},
    **dict.fromkeys(("early_stopping", "choose"), ("x",)),
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
    ({"length_penalty_beta": 3.0}, {"length_penalty_type": "wu"}),
    ({"ngram_ignore_tokens": "w1"}, {"no_repeat_ngram_size": 3}),
    ({"allow_unk": True}, {"has_pointer": True}),
    ({"unkpen": math.inf, "has_pointer": True}, {"allow_unk": True}),
    ({"lm_weight": 0.3}, {"lm_path": "lm.pt"}),
    ({"beam_mt": 2}, None),  # for models that translate
    ({"shortlist": "file", "score_reference": True}, None),
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
    assert format_option_name(next(iter(given))) in str(error.value) and words in str(error.value)


def test_what_is_accepted_with_the_option_that_it_needs_or_by_some_doors():
    for given, other in NO_EFFECT:
        together = {**given, **(other or {})}
        for door in [*doors(given, folder), *(doors(together, command, call) if other else [])]:
            door(**(given if door is folder else together))
    command(max_len=300, exact_length=5)
    command(max_len=0, max_len_a=1.5)
    for door in (command, call):
        for given in ({"unkpen": math.inf}, {"beam": 1}, {"min_len": 0}, {"lenpen": -100.0}, {"lenpen": 100.0}):
            door(**given)
    call(max_len=1)
    for has_pointer in (False, True):
        command(has_pointer=has_pointer)


def test_another_choice_than_the_folders_has_its_own_defaults():
    folder = {"choose": "extract", "beam": 5, "choose_words": 90, "readability": 0.08, "lenpen": 2.0}
    same, other = combine_options(folder, {"choose": "extract"}), combine_options(folder, {"choose": "content"})
    assert (same.beam, same.choose_words, same.readability) == (5, 90, 0.08)
    assert (other.beam, other.choose_words, other.readability, other.lenpen) == (12, 0, 0.0, 2.0)
    given = combine_options(folder, {"choose": "content", "choose_words": 50, "beam": 8})
    assert (given.beam, given.choose_words) == (8, 50)


def test_declarations_name_what_exists_and_their_values_are_valid():
    known = {POINTER, NO_POINTER}
    for name in (*DECLARED, "lm_path", "diverse_beam_groups", "retain_dropout", "score_reference", "sampling"):
        choices = DECLARED[name].metadata.get("choices", ()) if name in DECLARED else ()
        known |= {f"{format_option_name(name)} {value}".strip() for value in ("", *choices)}
    for name, option in DECLARED.items():
        metadata = option.metadata
        assert {*metadata.get("needs", ()), *metadata.get("excludes", ())} <= known
        python(**{name: option.default})
        for value in metadata.get("tuned", ()):
            check_decoding_options({name: value}, in_call=True)
        declared = OF_FAIRSEQ.get(metadata.get("fairseq", name))
        assert metadata["of"] != "fairseq" or option.default == declared or name == "print_alignment", name


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


def test_fairseqs_arguments_are_where_fairseq_has_them_and_others_are_refused():
    theirs = inspect.signature(SequenceGenerator).parameters
    ours = inspect.signature(SummaryGenerator).parameters
    positional = [parameter for parameter in ours.values() if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    assert [(p.name, p.default) for p in positional] == [(p.name, p.default) for p in theirs.values()]
    with pytest.raises(TypeError, match="SummaryGenerator has no argument converage_penalty, lenpen; choose from"):
        SummaryGenerator([scripted_model(DICTIONARY)], DICTIONARY, converage_penalty=1.0, lenpen=2.0)


def test_every_argument_of_fairseqs_generator_reaches_its_option():
    given = {"max_len_a": 0.5, "min_len": 2, "temperature": 1.5, "no_repeat_ngram_size": 3, "lm_weight": 0.2}
    given.update(
        match_source_len=True, tokens_to_suppress=("w1",), allow_unk=True, recombine=4, early_stopping="heuristic"
    )
    renamed = {"beam_size": 3, "max_len_b": 9, "max_len": 30, "len_penalty": 0.9, "unk_penalty": 0.3}
    renamed.update(normalize_scores=False, replace_unk=True)
    found = SummaryGenerator([sharpened(pointer="soft")], DICTIONARY, **renamed, **given).options
    wanted = {"beam": 3, "max_len": 9, "positions": 30, "lenpen": 0.9, "unkpen": 0.3, "unnormalized": True}
    assert found == DecodingOptions(**wanted, replace_unknown=True, **given)


def test_options_of_the_task_reach_the_search():
    """Everything that the command line has, except files, which the task reads itself."""
    selecting = {"selection_threshold": 0.3, "selection_factor": 1.5, "min_sentences": 2}
    changed = {"exact_length": 4, "length_penalty_type": "wu", "length_penalty_beta": 3.0, "coverage_penalty": 0.5}
    changed.update(coverage_penalty_type="wu", stepwise_coverage_penalty=True, ngram_ignore_tokens="w1 w2", recombine=4)
    changed.update(extractive_weights="1,0,0,0,-1", early_stopping="heuristic", allow_unk=True, replace_unknown=True)
    changed.update(infer_dtype="bf16")
    assert {*changed, *selecting, "selection", "shortlist", "content_model", "content_weight"} == TASK & set(DECLARED)
    for given, task in (
        (selecting, make_task(mark=True, selection="folder", **selecting)),
        (changed, make_task(**changed)),  # these do not go with all the others
    ):
        asked = command_options(nbest=2, no_repeat_ngram_size=3)
        found = task.build_generator([sharpened(pointer="soft")], asked).options
        assert {name: getattr(found, name) for name in given} == given
    default = make_task().build_generator([sharpened()], command_options()).options
    plain = DecodingOptions(beam=3, max_len=6, keep_attention=False, max_len_per_document=True, lm_weight=1.0)
    assert default == replace(plain, early_stopping="fairseq", positions=default.positions)


def test_what_is_left_to_the_models():
    """A pointer need not write unknown words; attention is kept where it is used."""
    copying, plain = sharpened(pointer="soft"), sharpened()

    def filled(*models, **options):
        return SummaryGenerator(list(models), DICTIONARY, **options).options

    assert filled(plain, unk_penalty=0.5).unkpen == filled(copying, unk_penalty=0.5, allow_unk=True).unkpen == 0.5
    assert filled(plain, copying, unk_penalty=0.5).unkpen == math.inf
    assert filled(plain, beam_size=1000).beam == len(DICTIONARY) - 1
    assert filled(plain, scripted_model(DICTIONARY)).positions == 60
    assert filled(plain, max_len=7).positions == 7
    for needs_attention in ({"replace_unk": True}, {"print_alignment": "hard"}):
        assert filled(plain, keep_attention=False, **needs_attention).keep_attention
    assert not filled(plain, keep_attention=False).keep_attention


SAMPLING = {"search_strategy": search.Sampling(DICTIONARY)}


@pytest.mark.parametrize(
    "refused, options",
    [
        ("--min-len 9", {"min_len": 9, "max_len_b": 4}),
        ("--exact-length 101", {"exact_length": 101}),
        ('tokens_to_suppress "</s>"', {"tokens_to_suppress": ["</s>"]}),
        ('--ngram-ignore-tokens "nowhere"', {"no_repeat_ngram_size": 2, "ngram_ignore_tokens": ["nowhere"]}),
        ("--sampling-topk 45", {"search_strategy": search.Sampling(DICTIONARY, 45)}),
        ("--diverse-beam-groups 3", {"search_strategy": search.DiverseBeamSearch(DICTIONARY, 3, 0.5), "beam_size": 4}),
        ('--constraints "any"', {"search_strategy": search.LexicallyConstrainedBeamSearch(DICTIONARY, "any")}),
        ("copied_positions", {"copied_positions": True}),
        ("--early-stopping admissible", {"early_stopping": "admissible", **SAMPLING}),
        ("--stepwise-cov", {"coverage_penalty": 1.0, "stepwise_coverage_penalty": True, **SAMPLING}),
    ],
)
def test_options_that_do_not_fit_model_or_search_are_refused(refused, options):
    with pytest.raises(ValueError, match=refused):
        SummaryGenerator([sharpened()], DICTIONARY, **options)


def test_options_that_do_not_fit_the_batch_are_refused(documents):
    def refuse(option, model, documents, prefix=None, **options):
        with pytest.raises(ValueError, match=option):
            generate(SummaryGenerator, [model], make_sample(documents), options, prefix_tokens=prefix)

    refuse("--min-len 9", sharpened(), [[5, 6, 7]], min_len=9, max_len_a=1.0, max_len_b=0)
    refuse("--match-source-len: a document has 120 tokens", sharpened(), [[5] * 119], match_source_len=True)
    refuse("--prefix-size", sharpened(), [[5]], torch.tensor([[5, 6, 7]]), max_len_b=2)
    scripted = scripted_model(DICTIONARY)
    refuse("--infer-dtype bf16", scripted, documents, infer_dtype="bf16")
    forward = scripted.decoder.forward
    scripted.decoder.forward = lambda *a, **k: (forward(*a, **k)[0], {"attn": [None]})
    refuse("--coverage-penalty", scripted, documents, coverage_penalty=1.0)
