"""Training on a GPU: each preset, mechanism, number format, criterion and optimiser gives the losses of a CPU."""

import functools

import pytest
import torch
from device_steps import FORMATS, PRETENDED, distinct_presets, make_trainer, on_the_cpu, run_steps, tolerance
from fairseq.logging import metrics
from helpers import PAD, RECURRENT, make_batch, make_model, make_task
from recurrent import SEE

from fairseq_etads.training.losses import NonFiniteLossError

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]

OF_FAIRSEQ = ("label_smoothed_cross_entropy", {"label_smoothing": 0.1})
SMOOTHED = ("summarization_nll", {"label_smoothing": 0.1})
COVERED = ("summarization_nll", {"coverage_loss": 1.0})
RL = {"rewards": "rougeL", "rl_weight": 0.5, "rl_max_len": 6}
SELECTED = {"hierarchical_attention": True, "encoder_by_sentence": True, "sentence_selector": True, "rnn_cell": "lstm"}
MECHANISMS = {
    "pointer": ("etads", SMOOTHED, {"pointer": "soft"}),
    "source factors": ("etads", None, {"source_factors": "all"}),
    "switch": ("etads", SMOOTHED, {"pointer": "switch", "pointer_continue": True}),
    "saliency slope": ("etads", None, {"saliency_gate": "open"}),
    "coverage": ("es_transformer", COVERED, {"pointer": "soft"}),
    "output bias": ("etads_basic", SMOOTHED, {"output_bias": True, "share_encoder_decoder_layers": True}),
    "encoder gate": ("aggregation_transformer", None, {"aggregation": "proj", "encoder_gate": True}),
    "adaptive softmax": ("etads_basic", ("adaptive_loss", {}), {"adaptive_softmax_cutoff": (10, 20)}),
    "checkpointed": ("etads", None, {"checkpoint_activations": True}),
    "lstm": ("gru_seq2seq", SMOOTHED, {"rnn_cell": "lstm", "bridge": "relu", "pointer": "soft", "coverage": True}),
    "extractor": ("gru_seq2seq", None, {"sentence_attention": "extractor", "hierarchical_attention": True}),
    "selector": ("gru_seq2seq", None, SELECTED),
    "pointing convolutions": ("convs2s", SMOOTHED, {"pointer": "soft"}),
    "pointing language model": ("abs", SMOOTHED, {"pointer": "switch"}),
    "edited references": ("etads", ("summarization_raml", {"raml_reward": "none"}), {"pointer": "soft"}),
    "rewards": ("etads", ("summarization_rl", RL), {"pointer": "soft"}),
    "fairseq's Transformer": ("transformer", OF_FAIRSEQ, {}),
    "word tagger": ("word_tagger", ("selection_nll", {}), {}),
    "sentence extractor": ("sentence_extractor", ("selection_nll", {}), {}),
    "pointer extractor": ("pointer_extractor", ("extractor_nll", {}), {}),
}
"""Models beyond the presets, and criterions: name -> preset, criterion, options of the model."""
OPTIMISERS = ("adam", "adagrad", "adadelta", "nag", "lazy_adam", "lazy_adadelta", "lazy_adagrad", "muon")
ONE_OF_EACH = {"etads", "aggregation_transformer", "feats_lvt2k_ptr", "pg_coverage", "ras_lstm", "convs2s", "abs"}
"""Presets that are tested in all number formats. The others are tested in fp16, and on a real GPU in fp32, too."""
WITH_KERNELS = {"pointer", "switch", "coverage", "lstm", "word tagger", "sentence extractor", "pointer extractor"}
"""Mechanisms with other operators on a GPU than on a CPU, so that a simulated GPU tests them in fp32, too."""
SIMULATED = {"fp32": ("lazy_adam", "lazy_adadelta", "lazy_adagrad", "muon"), "amp": ("adam", "lazy_adam")}
"""Number formats in which a simulated GPU tests only some optimisers: the project's own, and one of each kind.

The others differ from fp16 there only in the scale of gradients.
"""
MEMORY_EFFICIENT = {"adam", "nag", "lazy_adam"}
"""Optimisers that fairseq supports with --memory-efficient-fp16; the plugin refuses the others by name."""
TESTED = [name for name in FORMATS if name != "bf16" or not PRETENDED]
"""Number formats. On a simulated GPU, bf16 finds what fp16 finds: an operator that is given tensors of two formats."""
DRAWN = {"edited references", "rewards"}
"""Trainings that draw random samples, which differ between a GPU and a CPU."""


def with_preset(arch, device, name):
    return run_steps(*make_trainer(arch, device, name))


def with_mechanism(mechanism, device, name, optimiser):
    arch, criterion, options = MECHANISMS[mechanism]
    return run_steps(*make_trainer(arch, device, name, optimiser, criterion, **options))


def with_optimiser(optimiser, device, name):
    options = {"momentum": 0.9} if optimiser == "nag" else {}
    return run_steps(*make_trainer("gru_seq2seq", device, name, optimiser, optimization=options), steps=2)


@functools.cache
@on_the_cpu()
def on_a_cpu(train, model, *more):
    """Losses of the training in float32."""
    return train(model, "cpu", "fp32", *more)


def compare(found, expected, name):
    assert found == pytest.approx(expected, rel=tolerance(name), abs=2e-3)


@pytest.mark.parametrize(
    "arch, name",
    [
        (arch, name)
        for arch in distinct_presets()
        for name in ("fp32", "amp", "fp16", "bf16")
        # A simulated GPU has the arithmetic of a CPU, and what fp32 would find, an operator on two devices, fp16 finds.
        if name == "fp16" or (arch in ONE_OF_EACH and name in TESTED) or (name == "fp32" and not PRETENDED)
    ],
)
def test_a_preset_learns_as_on_a_cpu(arch, name):
    compare(with_preset(arch, "cuda", name), on_a_cpu(with_preset, arch), name)


@pytest.mark.parametrize(
    "mechanism, name",
    [
        (mechanism, name)
        for mechanism in MECHANISMS
        for name in FORMATS
        if (mechanism in ("pointer", "lstm") or not name.startswith("memory"))
        and name in TESTED
        and (name != "fp32" or mechanism in WITH_KERNELS or not PRETENDED)
    ],
)
def test_a_mechanism_learns_as_on_a_cpu(mechanism, name):
    optimiser = "adam" if name.startswith("memory") else "sgd"  # fairseq refuses the others of its own
    found = with_mechanism(mechanism, "cuda", name, optimiser)
    if mechanism in DRAWN:
        assert all(0 < loss < 20 for loss in found)
    else:
        compare(found, on_a_cpu(with_mechanism, mechanism, optimiser), name)


@pytest.mark.parametrize(
    "optimiser, name",
    [
        (optimiser, name)
        for optimiser in OPTIMISERS
        for name in ("fp32", "amp", "fp16", "memory-efficient-fp16")
        if not PRETENDED or optimiser in SIMULATED.get(name, OPTIMISERS)
    ],
)
def test_an_optimiser_takes_the_steps_of_a_cpu(optimiser, name):
    if name.startswith("memory") and optimiser not in MEMORY_EFFICIENT:
        with pytest.raises(ValueError, match="Unsupported optimizer"):
            with_optimiser(optimiser, "cuda", name)
        return
    found, expected = with_optimiser(optimiser, "cuda", name), on_a_cpu(with_optimiser, optimiser)
    assert expected[0] - expected[-1] > (0.0005 if "adadelta" in optimiser else 0.01), "it learns"
    compare(found, expected, name)


@pytest.mark.parametrize("name", ["fp32", "bf16", "fp16", "amp"])
def test_a_loss_that_is_not_finite_is_refused_before_the_update(name, tmp_path):
    trainer, sample = make_trainer("etads_basic", "cuda", name)
    trainer.cfg.checkpoint.save_dir = str(tmp_path)
    with torch.no_grad():
        trainer.get_model().decoder.embed_tokens.weight[10] = float("nan")
    before = [p.detach().float().cpu().clone() for p in trainer.get_model().parameters()]
    if name in ("fp32", "bf16"):
        with metrics.aggregate("train"), pytest.raises(NonFiniteLossError, match="numbers in the data set, from 0: "):
            trainer.train_step([sample])
    else:
        scale = trainer.optimizer.scaler
        first = scale.loss_scale if name == "fp16" else scale.get_scale()
        with metrics.aggregate("train"):
            for _ in range(2):
                trainer.train_step([sample])
        assert (scale.loss_scale if name == "fp16" else scale.get_scale()) < first
    for old, new in zip(before, trainer.get_model().parameters()):
        torch.testing.assert_close(new.detach().float().cpu(), old, equal_nan=True)


@pytest.mark.skipif(not PRETENDED, reason="a GPU's state of random numbers differs")
@pytest.mark.parametrize("arch", ["etads", "pg_coverage"])
def test_a_checkpoint_continues_on_the_other_device(arch, tmp_path):
    """A checkpoint saved on either device and loaded on the other gives the same next loss."""
    for first, then in (("cuda", "cpu"), ("cpu", "cuda")):
        one, sample = make_trainer(arch, first, "fp32", "adam")
        run_steps(one, sample)
        path = str(tmp_path / f"{first}.pt")
        one.consolidate_optimizer()
        one.save_checkpoint(path, {"train_iterator": {"epoch": 1}, "val_loss": None})
        other, sample = make_trainer(arch, then, "fp32", "adam")
        other.load_checkpoint(path)
        assert run_steps(other, sample) == pytest.approx(run_steps(one, sample), rel=1e-4)


DOCUMENTS = make_batch([[5, 50, 6, 43, 5, 61, 7], [9, 9, 9], [70, 43, 70], []])
SUMMARIES = make_batch([[50, 5, 12], [9, 47], [71, 4], [6, 7]])
NALLAPATI = {
    **{"pointer": "soft", "coverage": True, "temporal_attention": True, "hierarchical_attention": True},
    **{"large_vocabulary_trick": 25, **RECURRENT},
}


def outputs(model, device):
    """Output of a model, and its log-probabilities."""
    tokens = DOCUMENTS.to(device)
    net_output = model(tokens, tokens.ne(PAD).sum(1), SUMMARIES.roll(1, 1).to(device))
    return net_output, model.get_normalized_probs(net_output, log_probs=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("logit", [-6e4, 0.0, 6e4])
def test_losses_and_gradients_of_pointers_are_finite_in_half_precision(dtype, logit):
    model = make_model("etads", make_task(tail=30), pointer="soft").train()
    with torch.no_grad():
        model.decoder.pointer.gate.bias.fill_(logit)
    model = model.to("cuda", dtype)
    (logits, extra), scores = outputs(model, "cuda")
    torch.testing.assert_close(scores.exp().sum(-1), torch.ones_like(scores[:, :, 0]))
    target = extra["output"].pointer.vocab.encode(SUMMARIES.cuda())
    chosen, _ = extra["output"].pointer.compute_target_log_probs(logits.float().log_softmax(-1), target)
    assert chosen.isfinite().all()
    chosen.sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("more", [{}, {**SEE, "encoder_layers": 2}], ids=["nallapati", "see"])
def test_recurrent_models_have_gradients_in_evaluation_mode(more):
    """cuDNN's networks, of which See et al. have two layers here, have a backward pass only in training mode."""
    model = make_model("gru_seq2seq", make_task(tail=30, mark=True), dropout=0.5, **{**NALLAPATI, **more}).eval()
    gradients = []
    for device in ("cpu", "cuda"):
        model.to(device).zero_grad()
        _, scores = outputs(model, device)
        scores.gather(2, SUMMARIES.clamp(max=43).to(device)[:, :, None]).sum().backward()
        gradients.append(model.encoder.keys.weight.grad.cpu().clone())
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-4)
