"""Options without effect are refused or cause a warning; the same options are accepted with their requirements."""

import logging
from dataclasses import fields

import pytest
from fairseq.dataclass.configs import GenerationConfig
from helpers import RECURRENT, SMALL, make_model, make_task, model_config
from omegaconf import OmegaConf
from steps import make_criterion, steps_task

from fairseq_etads.platform.option_checks import get_given_options
from fairseq_etads.systems.rewards.self_critical import SummarizationRLConfig
from fairseq_etads.training.checks import check_decoding
from fairseq_etads.training.options import SummarizationConfig

CRITERION_CASES = [
    ({}, {"coverage_loss_start": 5}, "--coverage-loss-start 5 has no effect without --coverage-loss"),
    ({}, {"coverage_loss_ramp": 5}, "--coverage-loss-ramp 5 has no effect without --coverage-loss"),
    ({}, {"switch_loss": 0.5}, "--switch-loss 0.5 has no effect without --pointer switch"),
    ({"pointer": "soft"}, {"switch_loss": 0.5}, "--switch-loss 0.5 has no effect without --pointer switch"),
    ({"decoder_layerdrop": 0.2}, {"coverage_loss": 1.0}, "--coverage-loss 1.0 does not go with --decoder-layerdrop"),
    ({"pointer": "switch"}, {"switch_loss": 0.5}, None),
    ({}, {"length_normalised": True}, None),
    ({}, {"length_normalised": True, "sentence_avg": True}, "--length-normalised does not go with --sentence-avg"),
    ({}, {"coverage_loss": 1.0, "coverage_loss_start": 5, "coverage_loss_ramp": 2}, None),
    ({"decoder_layerdrop": 0.2, "pointer": "soft"}, {"coverage_loss": 1.0}, None),
]
TASK = {field.name for field in fields(SummarizationConfig)}


def decoding(**options):
    """check_decoding's arguments: the task's options, fairseq's, and whether there is a pointer."""
    pointer = options.pop("pointer", None) is not None
    task = {name: options.pop(name) for name in list(options) if name in TASK}
    return make_task(**task).cfg, OmegaConf.structured(GenerationConfig(**options)), pointer


@pytest.mark.parametrize("model,options,message", CRITERION_CASES)
def test_options_of_the_criterion(model, options, message):
    task = steps_task()
    task.build_model(model_config("etads", **{**SMALL, **model}))
    if message is None:
        make_criterion(task, **options)
        return
    with pytest.raises(ValueError) as error:
        make_criterion(task, **options)
    assert message in str(error.value)
    loading = steps_task()
    loading.load_state_dict(loading.state_dict())
    loading.build_model(model_config("etads", **{**SMALL, **model}))
    make_criterion(loading, **options)  # a checkpoint that was trained so is still loaded


def test_defaults_are_never_complained_of(caplog):
    check_decoding(*decoding())
    check_decoding(*decoding(pointer="soft"))
    assert not get_given_options(make_task().cfg, SummarizationConfig)
    assert not get_given_options(OmegaConf.structured(GenerationConfig()), GenerationConfig)
    task = steps_task()
    task.build_model(model_config("etads", **SMALL))
    make_criterion(task)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_what_fairseq_keeps_for_old_scripts_is_warned_of(caplog):
    check_decoding(*decoding(no_early_stop=True, no_beamable_mm=True))
    assert [record.message.split()[0] for record in caplog.records] == ["--no-early-stop", "--no-beamable-mm"]


def test_the_generator_is_checked():
    task = make_task(coverage_penalty_type="wu")
    with pytest.raises(ValueError, match="--coverage-penalty-type wu has no effect"):
        task.build_generator([make_model("etads", task)], OmegaConf.structured(GenerationConfig()))


def test_options_of_validation_and_of_decoding_in_training(caplog):
    def begin(**options):
        task = steps_task(**options)
        task.build_model(model_config("etads", **{**SMALL, "pointer": "soft"}))
        make_criterion(task)

    with pytest.raises(ValueError, match="--eval-rouge-samples 5 has no effect without --eval-rouge"):
        begin(eval_rouge_samples=5)
    with pytest.raises(ValueError, match=r"--eval-rouge-detok-args .* has no effect without --eval-rouge-detok"):
        begin(eval_rouge=True, eval_rouge_detok_args='{"x": 1}')
    with pytest.raises(ValueError, match=r"--unkpen 1.0 has no effect on models with --pointer"):
        begin(eval_rouge=True, eval_rouge_args='{"unkpen": 1}')
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    begin(coverage_penalty=1.0, allow_unk=True)
    assert "--coverage-penalty 1.0, --allow-unk: a decoding option has no effect" in caplog.records[-1].message
    caplog.clear()
    begin(eval_rouge=True, coverage_penalty=1.0, eval_rouge_samples=5)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


RL = {"_name": "summarization_rl", "rl_weight": 0.998}


@pytest.mark.parametrize(
    "options,message",
    [
        ({"sentence_avg": True}, "--sentence-avg has no effect with --criterion summarization_rl"),
        ({"length_normalised": True}, "--length-normalised has no effect with --criterion summarization_rl"),
        ({"rl_weight": 1.0, "coverage_loss": 1.0}, "--coverage-loss 1.0 has no effect with --rl-weight 1"),
        ({"rl_weight": 1.0, "label_smoothing": 0.1}, "--label-smoothing 0.1 has no effect with --rl-weight 1"),
        ({"rl_weight": 0.0, "rewards": "rouge1"}, "--rewards rouge1 has no effect with --rl-weight 0"),
        ({"rl_weight": 0.0, "rl_samples": 3}, "--rl-samples 3 has no effect with --rl-weight 0"),
        ({"rl_baseline": "others"}, "--rl-baseline others does not go with --rl-samples 1: choose 2 samples or more"),
        ({"coverage_loss_start": 3}, "--coverage-loss-start 3 has no effect without --coverage-loss"),
        ({"coverage_loss": 1.0, "label_smoothing": 0.1, "rl_samples": 3, "rewards": "rouge1"}, None),
    ],
)
def test_options_without_effect_on_training_with_rewards(options, message):
    def begin():
        task = steps_task()
        task.build_model(model_config("etads", **SMALL))
        values = {**vars(SummarizationRLConfig()), "sentence_avg": False, **RL, **options}
        return task.build_criterion(OmegaConf.create(values))

    if message is None:
        assert begin().samples == 3
        return
    with pytest.raises(ValueError, match=f"^{message}"):
        begin()


def test_a_closed_book_decoder_needs_its_weight():
    def begin(criterion, **options):
        task = steps_task()
        sizes = {**RECURRENT, "decoder_embed_dim": 16}
        task.build_model(model_config("pointer_generator", **sizes, closed_book_decoder=True))
        make_criterion(task, criterion, **options)

    for criterion in ("summarization_nll", "cross_entropy"):
        with pytest.raises(ValueError, match="--closed-book-decoder has no effect without --closed-book-weight"):
            begin(criterion)
    begin("summarization_nll", closed_book_weight=0.5)
