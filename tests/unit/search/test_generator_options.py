"""The arguments of SummaryGenerator: options from Python and the task, and what depends on models or the batch."""

import inspect
import math
from dataclasses import fields, replace

import pytest
import torch
from decoding import DICTIONARY, generate, make_sample, sharpened
from fairseq import search
from fairseq.sequence_generator import SequenceGenerator
from helpers import make_task
from scripted import scripted_model

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.search.generator import OWN_OPTIONS
from fairseq_etads.search.options import DECLARED, DecodingOptions
from fairseq_etads.training.options import SummarizationConfig


class Options:
    """Options that fairseq's commands pass to build_generator, in part."""

    beam, score_reference, print_alignment = 3, False, None

    def __init__(self, nbest=2):
        self.nbest = nbest


def test_fairseqs_arguments_are_where_fairseq_has_them():
    theirs = inspect.signature(SequenceGenerator).parameters
    ours = inspect.signature(SummaryGenerator).parameters
    positional = [parameter for parameter in ours.values() if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    assert [(p.name, p.default) for p in positional] == [(p.name, p.default) for p in theirs.values()]


def test_an_argument_that_does_not_exist_is_refused_and_those_that_do_are_listed():
    with pytest.raises(TypeError, match="SummaryGenerator has no argument converage_penalty, lenpen; choose") as error:
        SummaryGenerator([scripted_model(DICTIONARY)], DICTIONARY, converage_penalty=1.0, lenpen=2.0)
    listed = str(error.value).partition("choose from ")[2].split(", ")
    assert set(listed) == {*inspect.signature(SummaryGenerator).parameters, *OWN_OPTIONS} - {"options", "own"}


OWN = {
    "ngram_ignore_tokens": ("w2",),
    "exact_length": 4,
    "early_stopping": "fairseq",
    "nbest": 2,
    "infer_dtype": "bf16",
    "keep_attention": False,
    "print_alignment": "hard",
    "allow_unk": True,
    "copied_positions": True,
    "length_penalty_type": "wu",
    "length_penalty_beta": 3.0,
    "coverage_penalty": 0.5,
    "coverage_penalty_type": "wu",
    "stepwise_coverage_penalty": True,
    "min_sentences": 2,
    "selection_threshold": 0.3,
    "selection_factor": 1.5,
    "extractive_weights": (1.0, 2.0, 3.0, 4.0, 5.0),
    "recombine": 4,
    "max_len_per_document": True,
}
"""Arguments beyond those of fairseq's generator, with values that are not their defaults."""


def test_every_argument_reaches_its_option():
    theirs = {"beam_size": 3, "max_len_b": 9, "max_len": 30, "len_penalty": 0.9, "unk_penalty": 0.3}
    theirs.update(normalize_scores=False, replace_unk=True)
    names = {"beam_size": "beam", "max_len_b": "max_len", "max_len": "positions", "len_penalty": "lenpen"}
    names.update(unk_penalty="unkpen", normalize_scores="unnormalized", replace_unk="replace_unknown")
    same = {"max_len_a": 0.5, "min_len": 2, "temperature": 1.5, "match_source_len": True, "no_repeat_ngram_size": 3}
    same.update(lm_weight=0.2, tokens_to_suppress=("w1",))
    assert set(OWN) == set(OWN_OPTIONS)
    models = [sharpened(pointer="soft")]
    for name, value in {**theirs, **same, **OWN}.items():
        needed = {"unk_penalty": {"allow_unk": True}, "nbest": {"beam_size": 2}}
        words = make_task(mark=True).target_dictionary if name == "min_sentences" else DICTIONARY
        options = SummaryGenerator(models, words, **{**needed.get(name, {}), name: value}).options
        assert getattr(options, names.get(name, name)) == (not value if name == "normalize_scores" else value), name


def test_options_of_the_task_reach_the_search():
    """Everything that the command line has, except files, which the task reads itself."""
    selecting = {name: OWN[name] for name in ("selection_threshold", "selection_factor", "min_sentences")}
    names = {field.name for field in fields(SummarizationConfig)} & OWN.keys()
    changed = {name: OWN[name] for name in names - selecting.keys()}  # these do not go with all the others
    changed.update(ngram_ignore_tokens="w1 w2", extractive_weights="1,0,0,0,-1", replace_unknown=True)
    files = {"selection", "shortlist", "content_model", "content_weight"}
    assert {*changed, *selecting, *files} == {field.name for field in fields(SummarizationConfig)} & set(DECLARED)
    task = make_task(mark=True, selection="folder", **selecting)
    options = task.build_generator([sharpened(pointer="soft")], Options()).options
    assert {name: getattr(options, name) for name in selecting} == selecting
    task, args = make_task(**changed), Options()
    args.no_repeat_ngram_size = 3
    options = task.build_generator([sharpened(pointer="soft")], args).options
    assert {name: getattr(options, name) for name in changed} == changed
    default = make_task().build_generator([sharpened()], Options(nbest=1)).options
    plain = DecodingOptions(beam=3, keep_attention=False, max_len_per_document=True, lm_weight=1.0)
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


SAMPLING = search.Sampling(DICTIONARY)
STEPWISE = {"coverage_penalty": 1.0, "stepwise_coverage_penalty": True}


@pytest.mark.parametrize(
    "options,message",
    [
        ({"min_len": 9, "max_len_b": 4}, "--min-len 9 is more than the longest summary allowed here, 4"),
        ({"min_len": 101, "max_len_b": 200}, "--min-len 101 is more than the longest summary allowed here, 100"),
        ({"allow_unk": "no"}, '--allow-unk "no": choose True or False'),
        ({"max_len_b": -1, "min_len": 0}, "--min-len 0 is more than the longest summary allowed here, -1"),
        ({"tokens_to_suppress": ["</s>"]}, 'tokens_to_suppress "</s>": summaries could not end'),
        ({"search_strategy": search.Sampling(DICTIONARY, 45)}, "--sampling-topk 45: choose 1 to 44"),
        ({"search_strategy": search.Sampling(DICTIONARY, -1, 1.5)}, "--sampling-topp 1.5: choose a probability"),
        ({"search_strategy": search.DiverseBeamSearch(DICTIONARY, 3, 0.5), "beam_size": 4}, "--diverse-beam-groups 3"),
        ({"search_strategy": search.LexicallyConstrainedBeamSearch(DICTIONARY, "any")}, '--constraints "any": choose'),
        ({"tokens_to_suppress": ["nowhere"]}, r'tokens_to_suppress "nowhere"'),
        ({"copied_positions": True}, "copied_positions requires a model with a pointer"),
        ({"early_stopping": "admissible", "search_strategy": SAMPLING}, "--early-stopping admissible works only with"),
        ({"no_repeat_ngram_size": 2, "ngram_ignore_tokens": ["nowhere"]}, r'--ngram-ignore-tokens "nowhere"'),
        ({"exact_length": 101}, r"--exact-length 101: choose 0 \(off\) to 100"),
        ({**STEPWISE, "search_strategy": SAMPLING}, "--stepwise-coverage-penalty works only with beam search"),
    ],
)
def test_options_that_do_not_fit_model_or_search_are_refused_in_words(options, message):
    with pytest.raises(ValueError, match=message):
        SummaryGenerator([sharpened()], DICTIONARY, **options)


def test_options_that_do_not_fit_the_batch_are_refused_in_words(documents):
    with pytest.raises(ValueError, match="--min-len 9 is more than the longest summary allowed here, 4"):
        generate(
            SummaryGenerator, [sharpened()], make_sample([[5, 6, 7]]), {"min_len": 9, "max_len_a": 1.0, "max_len_b": 0}
        )
    with pytest.raises(
        ValueError, match="--match-source-len: a document has 120 tokens, but the models have positions"
    ):
        generate(SummaryGenerator, [sharpened()], make_sample([[5] * 119]), {"match_source_len": True})
    with pytest.raises(ValueError, match="--prefix-size: a summary must begin with 3 tokens but has at most 2"):
        prefix = torch.tensor([[5, 6, 7]])
        generate(SummaryGenerator, [sharpened()], make_sample([[5]]), {"max_len_b": 2}, prefix_tokens=prefix)
    with pytest.raises(ValueError, match="--infer-dtype bf16: only models of this project"):
        SummaryGenerator([scripted_model(DICTIONARY)], DICTIONARY, infer_dtype="bf16")
    with pytest.raises(ValueError, match="--coverage-penalty: the model returns no attention"):
        model = scripted_model(DICTIONARY)
        forward = model.decoder.forward
        model.decoder.forward = lambda *a, **k: (forward(*a, **k)[0], {"attn": [None]})
        generate(SummaryGenerator, [model], make_sample(documents), {"coverage_penalty": 1.0})
