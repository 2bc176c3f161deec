"""The arguments of SummaryGenerator: options from Python and the task, and what depends on models or the batch."""

import inspect
import math
from dataclasses import fields, replace

import pytest
import torch
from decoding import DICTIONARY, generate, make_sample, sharpened
from decoding import options as command_options
from fairseq import search
from fairseq.sequence_generator import SequenceGenerator
from helpers import make_task
from scripted import scripted_model

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.search.generator import OWN_OPTIONS
from fairseq_etads.search.options import DECLARED, DecodingOptions
from fairseq_etads.training.options import SummarizationConfig


def test_fairseqs_arguments_are_where_fairseq_has_them():
    theirs = inspect.signature(SequenceGenerator).parameters
    ours = inspect.signature(SummaryGenerator).parameters
    positional = [parameter for parameter in ours.values() if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    assert [(p.name, p.default) for p in positional] == [(p.name, p.default) for p in theirs.values()]


def test_an_argument_that_does_not_exist_is_refused():
    with pytest.raises(TypeError, match="SummaryGenerator has no argument converage_penalty, lenpen; choose from"):
        SummaryGenerator([scripted_model(DICTIONARY)], DICTIONARY, converage_penalty=1.0, lenpen=2.0)


OWN = {"ngram_ignore_tokens": ("w2",), "exact_length": 4, "early_stopping": "fairseq", "nbest": 2, "recombine": 4}
OWN.update(infer_dtype="bf16", keep_attention=False, print_alignment="hard", allow_unk=True, copied_positions=True)
OWN.update(length_penalty_type="wu", length_penalty_beta=3.0, coverage_penalty=0.5, coverage_penalty_type="wu")
OWN.update(stepwise_coverage_penalty=True, min_sentences=2, selection_threshold=0.3, selection_factor=1.5)
OWN.update(extractive_weights=(1.0, 2.0, 3.0, 4.0, 5.0), max_len_per_document=True)
"""Arguments beyond those of fairseq's generator, with values that are not their defaults."""


def test_every_argument_reaches_its_option():
    names = {"beam_size": "beam", "max_len_b": "max_len", "max_len": "positions", "len_penalty": "lenpen"}
    names.update(unk_penalty="unkpen", replace_unk="replace_unknown")
    given = {"beam_size": 3, "max_len_b": 9, "max_len": 30, "len_penalty": 0.9, "unk_penalty": 0.3, "replace_unk": True}
    given.update(max_len_a=0.5, min_len=2, temperature=1.5, match_source_len=True, no_repeat_ngram_size=3)
    given.update(lm_weight=0.2, tokens_to_suppress=("w1",))
    assert set(OWN) == set(OWN_OPTIONS)
    models = [sharpened(pointer="soft")]
    for name, value in {**given, **OWN}.items():
        needed = {"unk_penalty": {"allow_unk": True}, "nbest": {"beam_size": 2}}
        words = make_task(mark=True).target_dictionary if name == "min_sentences" else DICTIONARY
        options = SummaryGenerator(models, words, **{**needed.get(name, {}), name: value}).options
        assert getattr(options, names.get(name, name)) == value, name
    assert SummaryGenerator(models, DICTIONARY, normalize_scores=False).options.unnormalized


def test_options_of_the_task_reach_the_search():
    """Everything that the command line has, except files, which the task reads itself."""
    selecting = {name: OWN[name] for name in ("selection_threshold", "selection_factor", "min_sentences")}
    declared = {field.name for field in fields(SummarizationConfig)} & set(DECLARED)
    changed = {name: OWN[name] for name in declared & OWN.keys() - selecting.keys()}
    changed.update(ngram_ignore_tokens="w1 w2", extractive_weights="1,0,0,0,-1", replace_unknown=True)
    assert {*changed, *selecting, "selection", "shortlist", "content_model", "content_weight"} == declared
    for given, task in (
        (selecting, make_task(mark=True, selection="folder", **selecting)),
        (changed, make_task(**changed)),  # these do not go with all the others
    ):
        asked = command_options(nbest=2, no_repeat_ngram_size=3)
        options = task.build_generator([sharpened(pointer="soft")], asked).options
        assert {name: getattr(options, name) for name in given} == given
    default = make_task().build_generator([sharpened()], command_options()).options
    plain = DecodingOptions(beam=3, max_len=6, keep_attention=False, max_len_per_document=True, lm_weight=1.0)
    assert default == replace(plain, early_stopping="fairseq", positions=default.positions)


def test_what_is_left_to_the_models():
    """A pointer need not write unknown words; attention is kept where it is used."""
    copying, plain = sharpened(pointer="soft"), sharpened()

    def filled(*models, **options):
        return SummaryGenerator(list(models), DICTIONARY, **options).options

    for model, options in ((plain, {}), (copying, {"allow_unk": True})):
        assert filled(model, unk_penalty=0.5, **options).unkpen == 0.5
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
        ("--min-len 101", {"min_len": 101, "max_len_b": 200}),
        ("--min-len 0", {"max_len_b": -1, "min_len": 0}),
        ("--exact-length 101", {"exact_length": 101}),
        ('tokens_to_suppress "</s>"', {"tokens_to_suppress": ["</s>"]}),
        ('tokens_to_suppress "nowhere"', {"tokens_to_suppress": ["nowhere"]}),
        ('--ngram-ignore-tokens "nowhere"', {"no_repeat_ngram_size": 2, "ngram_ignore_tokens": ["nowhere"]}),
        ("--sampling-topk 45", {"search_strategy": search.Sampling(DICTIONARY, 45)}),
        ("--sampling-topp 1.5", {"search_strategy": search.Sampling(DICTIONARY, -1, 1.5)}),
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
