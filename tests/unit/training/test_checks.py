"""Options that training refuses, in one table, and those that it only warns of or accepts."""

import logging
import re
from argparse import Namespace

import pytest
from fairseq.dataclass.configs import GenerationConfig
from helpers import RECURRENT, SMALL, make_model, make_task, model_config
from omegaconf import OmegaConf
from small_models import options_of_criterion
from steps import steps_task

from fairseq_etads.platform.command_options import get_given_options
from fairseq_etads.platform.errors import InputError
from fairseq_etads.training.options import SummarizationConfig, check_criterion_and_model
from fairseq_etads.training.validation import check_best_metric

NLL, RL = "summarization_nll", "summarization_rl"
SOFT, SWITCH, DROPS_LAYERS = {"pointer": "soft"}, {"pointer": "switch"}, {"decoder_layerdrop": 0.2}
TRICK = {"arch": "gru_seq2seq", "large_vocabulary_trick": 25}
CLUSTERS = {"adaptive_softmax_cutoff": (10, 20), "share_all_embeddings": False}
CLOSED_BOOK = {"arch": "pointer_generator", "closed_book_decoder": True}
ROUGE = {"eval_rouge": True}
ACCURACY = {"best_checkpoint_metric": "accuracy", "maximize_best_checkpoint_metric": False}

OPTIONS = [
    # model, criterion, its options, words of the message (None: accepted)
    ({}, NLL, {"coverage_loss_start": 5}, "--coverage-loss-start 5 has no effect without --coverage-loss"),
    (SOFT, NLL, {"switch_loss": 0.5}, "--switch-loss 0.5 has no effect without --pointer switch"),
    (DROPS_LAYERS, NLL, {"coverage_loss": 1.0}, "--coverage-loss 1.0 does not go with --decoder-layerdrop"),
    ({}, NLL, {"length_normalised": True, "sentence_avg": True}, "--length-normalised does not go with --sentence-avg"),
    ({**DROPS_LAYERS, **SOFT}, NLL, {"coverage_loss": 1.0}, None),
    (CLOSED_BOOK, "cross_entropy", {}, "--closed-book-decoder has no effect without --closed-book-weight"),
    (CLOSED_BOOK, NLL, {"closed_book_weight": 0.5}, None),
    ({}, RL, {"sentence_avg": True}, "--sentence-avg has no effect with --criterion summarization_rl"),
    ({}, RL, {"rl_weight": 1.0, "label_smoothing": 0.1}, "--label-smoothing 0.1 has no effect with --rl-weight 1"),
    ({}, RL, {"rl_baseline": "others"}, "--rl-baseline others does not go with --rl-samples 1: choose 2 samples"),
    ({}, RL, {"coverage_loss": 1.0, "label_smoothing": 0.1, "rl_samples": 3, "rewards": "rouge1"}, None),
]
CRITERIONS = [
    # model, criterion, words of the message (None: accepted); refused even for a checkpoint that is loaded
    ({}, "adaptive_loss", "needs a model with --adaptive-softmax-cutoff: choose --criterion summarization_nll"),
    ({}, "label_smoothed_cross_entropy", None),
    (SOFT, "cross_entropy", None),
    (SOFT, "label_smoothed_cross_entropy", "would require --pointer soft to copy words of other documents"),
    (SWITCH, "cross_entropy", "does not train the switch of --pointer switch: choose --criterion summarization_nll"),
    (TRICK, "cross_entropy", "would need words that --large-vocabulary-trick leaves out: choose --criterion"),
    (TRICK, NLL, None),
    (CLUSTERS, NLL, "would treat the states of a model with --adaptive-softmax-cutoff as logits: choose --criterion"),
    (CLUSTERS, "adaptive_loss", None),
]
VALIDATION = [
    # options of the task, words of the message
    ({**ROUGE, "eval_rouge_samples": 0}, "--eval-rouge-samples 0: choose 1"),
    ({**ROUGE, "eval_rouge_args": "{"}, "--eval-rouge-args '{': not JSON"),
    ({**ROUGE, "eval_rouge_args": '{"baem": 4}'}, 'no "baem"; choose from beam, '),
    ({**ROUGE, "eval_rouge_args": '{"constraints": "ordered"}'}, "constraints has no effect in validation"),
    ({**ROUGE, "eval_rouge_args": '{"beam": 0}'}, "--eval-rouge-args: --beam 0: choose 1 or more"),
    ({**ROUGE, "eval_rouge_args": '{"beam": "x"}'}, '--eval-rouge-args \'{"max_len_b": '),
    ({**ROUGE, "eval_rouge_args": '{"unkpen": 1}'}, "--unkpen 1.0 has no effect on models with --pointer"),
    ({**ROUGE, "eval_rouge_detok": "mose"}, "--eval-rouge-detok mose: choose from "),
    ({**ROUGE, "eval_rouge_detok": "etads", "eval_rouge_detok_args": '{"a": 1}'}, 'has no "a"; choose from '),
    ({"eval_rouge_samples": 5}, "--eval-rouge-samples 5 has no effect without --eval-rouge"),
    ({**ROUGE, "shortlist": "missing.npz"}, "missing.npz"),
    (ACCURACY, "accuracy: add --maximize"),
    ({"auxiliary_task": "topics", "clip_norm": 1.0}, "--auxiliary-task topics: choose from none, entailment, or load"),
]


def begin(model=(), criterion=NLL, losses=(), loading=False, **options):
    """Build task, model and criterion, and begin the first epoch, as fairseq-train does."""
    model = dict(model)
    arch = model.pop("arch", "etads")
    sizes = SMALL if arch == "etads" else {**RECURRENT, "decoder_embed_dim": 16, "readout_dim": 12}
    task = steps_task(truncate_target=6, **options)
    if loading:
        task.load_state_dict(task.state_dict())
    built = task.build_model(model_config(arch, **{**sizes, **model}))
    loss = task.build_criterion(options_of_criterion(criterion, **dict(losses)))
    task.begin_epoch(1, built)
    return loss


def check_refusal(words, *args, **options):
    with pytest.raises((ValueError, InputError), match=re.escape(words)):
        begin(*args, **options)


@pytest.mark.parametrize("model, criterion, options, words", OPTIONS)
def test_options_of_the_criterion(model, criterion, options, words):
    if criterion == RL:
        options = {"rl_weight": 0.998, **options}
    if words is None:
        begin(model, criterion, options)
    else:
        check_refusal(words, model, criterion, options)
    if model is not CLOSED_BOOK and criterion == NLL:
        begin(model, criterion, options, loading=True)  # a checkpoint that was trained so is still loaded


@pytest.mark.parametrize("model, criterion, words", CRITERIONS)
def test_criterions_that_cannot_train_a_model(model, criterion, words):
    for loading in (False, True):
        if words is None:
            begin(model, criterion, loading=loading)
        else:
            check_refusal(f"--criterion {criterion} {words}", model, criterion, loading=loading)


def test_a_users_criterion_without_a_dataclass_is_checked_too():
    cfg = Namespace(criterion="without_options")
    check_criterion_and_model(cfg, frozenset({"--pointer soft"}), None)
    with pytest.raises(ValueError, match="--criterion without_options does not train the switch"):
        check_criterion_and_model(cfg, frozenset({"--pointer switch"}), None)


@pytest.mark.parametrize("options, words", VALIDATION)
def test_options_of_the_task(options, words):
    check_refusal(words, SOFT, **options)


def test_a_best_metric_that_is_not_computed_or_minimised_is_refused():
    with pytest.raises(ValueError, match="rouge2: add --eval-rouge"):
        check_best_metric(False, "rouge2", True)
    for metric in ("rougeL", "f1", "reward_rouge", "raml_reward"):
        check_best_metric(True, metric, True)
        with pytest.raises(ValueError, match=f"{metric}: add --maximize"):
            check_best_metric(True, metric, False)
    for metric in ("loss", "f1_threshold", "reward_loss"):
        check_best_metric(False, metric, False)
    begin(SOFT, loading=True, **ACCURACY)  # of a checkpoint


def test_the_generator_is_checked():
    task = make_task(coverage_penalty_type="wu")
    with pytest.raises(ValueError, match="--coverage-penalty-type wu has no effect"):
        task.build_generator([make_model("etads", task)], OmegaConf.structured(GenerationConfig()))


def test_defaults_are_never_complained_of_and_what_has_no_effect_yet_is_warned_of(caplog):
    assert not get_given_options(make_task().cfg, SummarizationConfig)
    assert not get_given_options(OmegaConf.structured(GenerationConfig()), GenerationConfig)
    begin()
    begin(SOFT, **ROUGE, coverage_penalty=1.0, eval_rouge_samples=5)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    begin(SOFT, coverage_penalty=1.0, allow_unk=True)
    assert "--coverage-penalty 1.0, --allow-unk: a decoding option has no effect" in caplog.records[-1].message
