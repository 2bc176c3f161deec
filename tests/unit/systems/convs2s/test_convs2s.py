"""The convolutional family: fairseq's fconv without its pointer, copies, losses, options."""

import copy
import re
from argparse import Namespace

import pytest
import torch
from convolutional import DOCUMENTS, KINDS, SIZES, SUMMARIES, conv, conv_task, inputs, log_probs
from fairseq.models.fconv import FConvModel
from helpers import EOS, PAD, make_batch, model_config
from omegaconf import OmegaConf

from fairseq_etads.models.external_models import parse_convolutions
from fairseq_etads.systems.convs2s import parse_attention_layers


def fconv(task, **options):
    """fairseq's own model of the same sizes, built by the task."""
    torch.manual_seed(1)
    positions = {"max_source_positions": 401 + 2, "max_target_positions": 101 + 2}
    return task.build_model(model_config("fconv", **{**SIZES, **positions, **options}))


def previous_words(summaries):
    """Inputs of the decoder: the end symbol, then the summary, padded on the right."""
    longest = max(map(len, summaries))
    return torch.tensor([[EOS, *summary] + [PAD] * (longest - len(summary)) for summary in summaries])


def batch(documents=DOCUMENTS, summaries=SUMMARIES):
    target = make_batch(summaries)
    net_input = {**inputs(make_batch(documents)), "prev_output_tokens": previous_words(summaries)}
    return {"net_input": net_input, "target": target, "ntokens": int(target.ne(PAD).sum())}


@pytest.mark.parametrize("options", [{}, KINDS["tied"], {"decoder_attention": "[False, True, False]"}], ids=str)
def test_without_pointer_it_is_fairseqs_fconv_bit_for_bit(options):
    """With one seed, initial weights, results and gradients are equal with dropout, and attention in evaluation."""
    task = conv_task()
    ours, fairseqs = conv(task=task, sharp=False, dropout=0.2, **options).train(), fconv(task, dropout=0.2, **options)
    assert type(fairseqs) is FConvModel
    tokens, previous = make_batch(DOCUMENTS), previous_words(SUMMARIES)
    outputs = []
    for model in (ours, fairseqs):
        torch.manual_seed(3)
        outputs.append(model(**inputs(tokens), prev_output_tokens=previous)[0])
        outputs[-1].logsumexp(2).sum().backward()
    assert torch.equal(*outputs)
    pairs = list(zip(ours.named_parameters(), fairseqs.named_parameters()))
    assert len(pairs) == len(list(fairseqs.parameters()))
    for (name, mine), (theirs, other) in pairs:
        assert name.replace("output_projection", "fc3") == theirs
        assert torch.equal(mine, other) and torch.equal(mine.grad, other.grad), name
    with torch.no_grad():
        found, expected = (m.eval()(**inputs(tokens), prev_output_tokens=previous) for m in (ours, fairseqs))
    assert torch.equal(found[0], expected[0]) and torch.equal(found[1]["attn"][0], expected[1])


def test_checkpoints_of_fairseqs_fconv_are_loaded():
    task = conv_task()
    ours, fairseqs = conv(task=task), fconv(task).eval()
    ours.load_state_dict(fairseqs.state_dict())
    tokens, previous = make_batch(DOCUMENTS), previous_words(SUMMARIES)
    assert torch.equal(log_probs(ours, tokens, previous)[0], _log_softmax(fairseqs, tokens, previous))
    with pytest.raises(ValueError, match=r"has 500 learned positions, .* use --truncate-source 499 or --max-source-p"):
        ours.load_state_dict(fconv(task, max_source_positions=502).state_dict())


def _log_softmax(model, tokens, previous):
    with torch.no_grad():
        return model(**inputs(tokens), prev_output_tokens=previous)[0].log_softmax(2)


@pytest.mark.parametrize("arch", ["convs2s", "fconv", "fconv_self_att"])
def test_summaries_padded_on_the_left_are_refused(arch):
    """The decoder's convolutions would read the padding, and results would depend on the batch."""
    task = conv_task()
    task.cfg.left_pad_target = True
    with pytest.raises(ValueError, match="needs summaries that are padded on the right"):
        task.build_model(model_config(arch))


def test_the_encoder_divides_its_gradient_by_the_pointers_attention_too():
    assert conv("plain").encoder.num_attention_layers == 3
    assert conv("soft").encoder.num_attention_layers == 4
    assert conv("few").encoder.num_attention_layers == 2


def test_the_attention_in_training_is_that_in_evaluation():
    model, tokens, previous = conv("few"), make_batch(DOCUMENTS), previous_words(SUMMARIES)
    expected = log_probs(model, tokens, previous)[1]["attn"][0]
    attention = model.train()(**inputs(tokens), prev_output_tokens=previous)[1]["attn"][0]
    # Fairseq divides by the number of all layers.
    torch.testing.assert_close(attention, expected * 3, rtol=0, atol=1e-6)
    assert not any(layer._forward_hooks for layer in model.decoder.attention if layer is not None)


@pytest.mark.parametrize(
    "text",
    [
        *("[(512, 3)] * 20", "2 * [(8, 3)]", "[(8, 3), (16, 5, 0)] + [(4, 1, 2)] * 3"),
        *("([(8, 3)] + [(4, 3)]) * 2", "[(8, 3)] * 1000"),
    ],
)
def test_convolutions_are_what_fairseq_understands(text):
    assert parse_convolutions(text, "--x") == eval(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "3", "(8, 3)", "[8, 3]", "[(8,)]", "[(8, 3, 1, 1)]", "[(8.0, 3)]", "[(True, 3)]", "[(8, 3)] * 2.0"),
        *("[(8, 3)] - [(8, 3)]", "[(8, 3)] * n", "[(8, 3)] * -1 ** 2", "__import__('os')", "[(8, 3)][0]"),
        *("[(8, 3)] * 9" + "0" * 5000, "[" * 3000, "[(8, 3)] * 10 ** 9", "[x for x in [(8, 3)]]"),
        *("[(8, 3)] * 1001", "[(8, 3)] * 600 * 600"),
    ],
)
def test_what_stands_for_no_convolutions_is_refused(text):
    with pytest.raises(
        ValueError, match=r'--encoder-layers ".*": choose convolutions as a list of \(width, kernel size\)'
    ):
        parse_convolutions(text, "--encoder-layers")


@pytest.mark.parametrize(
    "text,words",
    [
        ("[]", "choose one layer or more"),
        ("[(8, 3)] * 0", "choose one layer or more"),
        ("[(0, 3)]", r"layer 1 is \(0, 3\); width and kernel are 1 or more"),
        ("[(8, 0)]", "width and kernel are 1 or more"),
        ("[(8, 3), (8, 3, 3)]", r"layer 2 is \(8, 3, 3\); .* a residual connection spans 0 to 2 layers there"),
    ],
)
def test_layers_that_cannot_be_are_refused(text, words):
    with pytest.raises(ValueError, match=words):
        parse_convolutions(text, "--encoder-layers")


def test_attention_of_the_layers():
    assert parse_attention_layers("True", 3) is True
    assert parse_attention_layers("[True, False]", 2) == [True, False]
    for wrong in ("yes", "[True]", "[1, 0]", "3", "True if 1 else 0", "["):
        with pytest.raises(ValueError, match="choose True, or a list of True and False for each of the 2 layers"):
            parse_attention_layers(wrong, 2)
    for none in ("False", "[False, False]"):
        with pytest.raises(ValueError, match="one layer of the decoder must attend"):
            parse_attention_layers(none, 2)


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
    trap = f"__import__('os').mkdir('{tmp_path / 'trapped'}')"
    for text in (trap, "[(8, 3)] * 9 ** 9 ** 9", "[(8, 3)] * 99999999"):
        cfg = OmegaConf.create({**options, name: text})
        with pytest.raises(ValueError, match=re.escape(f'--{name.replace("_", "-")} "{text[:30]}')):
            conv_task().build_model(cfg)
    assert not (tmp_path / "trapped").exists()
