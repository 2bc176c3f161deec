"""The convolutional family: fairseq's fconv without its pointer, attention, layers, search, copies for inference."""

import copy
import re
from argparse import Namespace

import pytest
import torch
from convolutional import DOCUMENTS, KINDS, SIZES, SUMMARIES, conv, conv_task
from decoding import options
from fairseq.models.fconv import FConvModel
from fairseq.modules import BeamableMM, LinearizedConvolution
from helpers import model_config
from omegaconf import OmegaConf
from steps import make_sample

from fairseq_etads.kernels.linear import BlockedOutputProjection
from fairseq_etads.kernels.operators import can_pack_weights
from fairseq_etads.models.external_models import parse_convolutions
from fairseq_etads.platform.errors import InputError
from fairseq_etads.search.inference import InferenceModel
from fairseq_etads.summarizer.folder.loading import check_model_options
from fairseq_etads.systems.convs2s import parse_attention_layers

NET_INPUT = make_sample(None, DOCUMENTS, SUMMARIES)["net_input"]


def fconv(task, **options):
    """fairseq's own model of the same sizes, built by the task."""
    torch.manual_seed(1)
    positions = {"max_source_positions": 401 + 2, "max_target_positions": 101 + 2}
    return task.build_model(model_config("fconv", **{**SIZES, **positions, **options}))


@pytest.mark.parametrize("options", [{}, KINDS["tied"], {"decoder_attention": "[False, True, False]"}], ids=str)
def test_without_pointer_it_is_fairseqs_fconv_bit_for_bit(options):
    """With one seed, initial weights, results and gradients are equal with dropout, and attention in evaluation."""
    task = conv_task()
    ours, fairseqs = conv(task=task, sharp=False, dropout=0.2, **options).train(), fconv(task, dropout=0.2, **options)
    assert type(fairseqs) is FConvModel
    outputs = []
    for model in (ours, fairseqs):
        torch.manual_seed(3)
        outputs.append(model(**NET_INPUT)[0])
        outputs[-1].logsumexp(2).sum().backward()
    assert torch.equal(*outputs)
    pairs = list(zip(ours.named_parameters(), fairseqs.named_parameters()))
    assert len(pairs) == len(list(fairseqs.parameters()))
    for (name, mine), (theirs, other) in pairs:
        assert name.replace("output_projection", "fc3") == theirs
        assert torch.equal(mine, other) and torch.equal(mine.grad, other.grad), name
    loaded = conv(task=task, **options)
    loaded.load_state_dict(fairseqs.state_dict())
    with torch.no_grad():
        found, expected = ours.eval()(**NET_INPUT), fairseqs.eval()(**NET_INPUT)
        assert torch.equal(loaded(**NET_INPUT)[0], expected[0]), "a checkpoint of fairseq's"
    assert torch.equal(found[0], expected[0]) and torch.equal(found[1]["attn"][0], expected[1])
    with pytest.raises(ValueError, match="has 500 learned positions"):
        ours.load_state_dict(fconv(task, max_source_positions=502).state_dict())


@pytest.mark.parametrize("arch", ["convs2s", "fconv", "fconv_self_att"])
def test_summaries_padded_on_the_left_are_refused(arch):
    """The decoder's convolutions would read the padding, and results would depend on the batch."""
    task = conv_task()
    task.cfg.left_pad_target = True
    with pytest.raises(ValueError, match="padded on the right"):
        task.build_model(model_config(arch))


def test_the_encoder_divides_its_gradient_by_the_pointers_attention_too():
    assert [conv(kind).encoder.num_attention_layers for kind in ("plain", "soft", "few")] == [3, 4, 2]


def test_the_attention_in_training_is_that_in_evaluation():
    model = conv("few")
    expected = model(**NET_INPUT)[1]["attn"][0]
    attention = model.train()(**NET_INPUT)[1]["attn"][0]
    torch.testing.assert_close(attention, expected * 3, rtol=0, atol=1e-6)  # fairseq divides by all layers
    assert not any(layer._forward_hooks for layer in model.decoder.attention if layer is not None)


def test_convolutions_are_what_fairseq_understands():
    for text in ("[(512, 3)] * 1000", "[(8, 3), (16, 5, 0)] + [(4, 1, 2)] * 3", "2 * ([(8, 3)] + [(4, 3)])"):
        assert parse_convolutions(text, "--x") == eval(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "3", "[(8,)]", "[(8.0, 3)]", "[(True, 3)]", "[(8, 3)] * 2.0", "[(8, 3)] * n", "[(8, 3)] - [(8, 3)]"),
        *("__import__('os')", "[x for x in [(8, 3)]]", "[(8, 3)] * 9" + "0" * 5000, "[" * 3000, "[(8, 3)] * 10 ** 9"),
        *("[(8, 3)] * 1001", "[(8, 3)] * 600 * 600", "[]", "[(0, 3)]", "[(8, 0)]", "[(8, 3), (8, 3, 3)]"),
    ],
)
def test_what_stands_for_no_convolutions_is_refused(text):
    with pytest.raises(ValueError, match="--encoder-layers"):
        parse_convolutions(text, "--encoder-layers")


def test_attention_of_the_layers():
    assert parse_attention_layers("True", 3) is True
    assert parse_attention_layers("[True, False]", 2) == [True, False]
    for wrong in ("yes", "[True]", "[1, 0]", "True if 1 else 0", "[", "[False, False]"):
        with pytest.raises(ValueError, match="--decoder-attention"):
            parse_attention_layers(wrong, 2)


@pytest.mark.parametrize(
    "arch,name",
    [
        *(("fconv", "encoder_layers"), ("fconv", "decoder_attention"), ("fconv_self_att", "downsample")),
        *(("convs2s", "decoder_layers"), ("lstm", "decoder_attention"), ("etads", "adaptive_softmax_cutoff")),
    ],
)
def test_no_option_of_a_checkpoint_is_evaluated(arch, name, tmp_path):
    """fairseq evaluates these options as Python, and somebody else's checkpoint contains their values."""
    config = copy.deepcopy(model_config(arch))
    options = vars(config) if isinstance(config, Namespace) else OmegaConf.to_container(config)
    for text in (f"__import__('os').mkdir('{tmp_path / 'trapped'}')", "[(8, 3)] * 9 ** 9 ** 9"):
        cfg = OmegaConf.create({**options, name: text})
        with pytest.raises(ValueError, match=re.escape(f'--{name.replace("_", "-")} "{text[:30]}')):
            conv_task().build_model(cfg)
    assert not (tmp_path / "trapped").exists()


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_a_prepared_model_searches_with_any_beam(beam):
    """fairseq's own model would multiply as if every document had the beam size for which it was prepared."""
    task, sample = conv_task(), make_sample(None, DOCUMENTS[:3], SUMMARIES[:3])
    plain, prepared = conv("soft", task), conv("soft", task)
    generation = {"beam": 4, "no_beamable_mm": False, "print_alignment": None}
    prepared.prepare_for_inference_(OmegaConf.create({"generation": generation}))
    assert not any(isinstance(module, BeamableMM) for module in prepared.modules())
    found = [task.inference_step(task.build_generator([m], options(beam=beam)), [m], sample) for m in (plain, prepared)]
    for row, expected in zip(*found):
        assert [h["tokens"].tolist() for h in row] == [h["tokens"].tolist() for h in expected]
    assert all(row[0]["attention"].isfinite().all() for row in found[1])


def test_copies_have_no_normalised_weights_left_to_compute():
    model = conv("soft")
    copied = InferenceModel(model).get_current_copy()
    assert not any(name.endswith(("weight_g", "weight_v")) for name, _ in copied.named_parameters())
    assert isinstance(copied.decoder.output_projection, BlockedOutputProjection) == can_pack_weights(torch.float32)
    layers = [module for module in copied.modules() if isinstance(module, LinearizedConvolution)]
    assert len(layers) == 3 and all(layer._linearized_weight is not None for layer in layers)
    assert all(layer._linearized_weight is None for layer in model.decoder.convolutions)


@pytest.mark.parametrize(
    "option,value",
    [("encoder_layers", "[(99999, 3)]"), ("decoder_layers", "__import__('os')"), ("decoder_attention", "[1, 0]")],
)
def test_hostile_layers_in_a_folder_are_refused(option, value):
    given = {**SIZES, "decoder_attention": "[True, False, True]"}
    check_model_options("convs2s", given, 64)
    with pytest.raises(InputError, match=f"the option {option} of convs2s cannot be"):
        check_model_options("convs2s", {**given, option: value}, 64)
