"""The composable Transformer: invariances, equivalence with fairseq's, gradients, cached decoding, options."""

import copy
from dataclasses import fields

import pytest
import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from helpers import EOS, PAD, SMALL, make_batch, make_model, make_task

from fairseq_etads.layers.encoder_attention import FocusAttention
from fairseq_etads.models.transformer import BridgeAttention
from fairseq_etads.models.transformer_options import PRESETS, make_preset_config, parse_layer_numbers

ARCHS = sorted(PRESETS)
SUMMARIES = [[5, 6, 7], [8], [9, 10, 11, 12], [13, 14], [15]]


def encode(model, tokens):
    with torch.no_grad():
        return model.encoder(tokens, src_lengths=tokens.ne(PAD).sum(1))


def decode(model, tokens, previous):
    with torch.no_grad():
        return model(tokens, tokens.ne(PAD).sum(1), previous)[0]


def real_rows(output, tokens):
    """Split a batch (B, S, …) into one tensor (m, …) per document, without padding."""
    return [row[ids.ne(PAD)] for row, ids in zip(output, tokens)]


@pytest.mark.parametrize("arch", ARCHS)
def test_padding_side_and_batch_composition_change_nothing(arch, documents):
    model = make_model(arch)
    alone = [encode(model, make_batch([d]))["encoder_out"][0][:, 0] for d in documents]
    for left in (False, True):
        for width in (None, 30):
            tokens = make_batch(documents, left=left, width=width)
            together = encode(model, tokens)["encoder_out"][0].transpose(0, 1)
            for one, row in zip(alone, real_rows(together, tokens)):
                torch.testing.assert_close(row, one, rtol=0, atol=2e-6)


@pytest.mark.parametrize("arch", ARCHS)
def test_summary_distributions_do_not_depend_on_padding(arch, documents):
    model = make_model(arch)
    for document, summary in zip(documents, SUMMARIES):
        previous = torch.tensor([[EOS, *summary]])
        alone = decode(model, make_batch([document]), previous)
        for left in (False, True):
            tokens = make_batch([document, documents[0]], left=left, width=25)
            padded = decode(model, tokens, previous.expand(2, -1))[:1]
            torch.testing.assert_close(padded, alone, rtol=0, atol=5e-6)


def test_with_both_mechanisms_off_it_is_fairseqs_transformer(documents):
    ours = make_model("etads_basic", dropout=0.0)
    task = make_task()
    options = {
        "encoder_learned_pos": True,
        "decoder_learned_pos": True,
        "share_all_embeddings": True,
        "max_source_positions": 401,
        "max_target_positions": 101,
    }
    fairseqs = make_model("transformer", task, **options)
    fairseqs.load_state_dict(ours.state_dict(), strict=True)
    tokens = make_batch(documents)
    previous = make_batch(SUMMARIES)
    for model in (ours, fairseqs):
        model.zero_grad()
    got = ours(tokens, tokens.ne(PAD).sum(1), previous)
    want = fairseqs(tokens, tokens.ne(PAD).sum(1), previous)
    torch.testing.assert_close(got[0], want[0], rtol=0, atol=2e-6)
    torch.testing.assert_close(got[1]["attn"][0], want[1]["attn"][0], rtol=0, atol=2e-6)
    real = previous.ne(PAD)
    for out in (got[0], want[0]):
        out[real].logsumexp(-1).sum().backward()
    other = dict(fairseqs.named_parameters())
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(parameter.grad, other[name].grad, rtol=1e-4, atol=1e-5)


def test_training_mode_matches_fairseqs_transformer_too(documents):
    """If no weights are requested, the bridge uses fused attention; it must still be the same function."""
    ours, fairseqs = (
        make_model("etads_basic"),
        make_model(
            "transformer",
            encoder_learned_pos=True,
            decoder_learned_pos=True,
            share_all_embeddings=True,
            max_source_positions=401,
            max_target_positions=101,
        ),
    )
    fairseqs.load_state_dict(ours.state_dict())
    tokens, previous = make_batch(documents), make_batch(SUMMARIES)
    with torch.no_grad():
        outputs = [m.train()(tokens, tokens.ne(PAD).sum(1), previous)[0] for m in (ours, fairseqs)]
    torch.testing.assert_close(*outputs, rtol=0, atol=2e-6)


@pytest.mark.parametrize("arch,count", [("etads", 4), ("etads_focus", 2), ("etads_saliency", 2), ("etads_basic", 0)])
def test_presets_have_their_mechanisms_in_every_layer(arch, count):
    model = make_model(arch)
    focus = [m for m in model.modules() if isinstance(m, FocusAttention)]
    gated = [m for m in model.modules() if isinstance(m, BridgeAttention) and m.gate_q_proj is not None]
    assert len(focus) == (2 if arch in ("etads", "etads_focus") else 0)
    assert len(gated) == (2 if arch in ("etads", "etads_saliency") else 0)
    assert len(focus) + len(gated) == count


@pytest.mark.parametrize("layer", [1, 2])
@pytest.mark.parametrize("mechanism", ["focus", "saliency"])
def test_each_mechanism_changes_the_output_in_each_layer(mechanism, layer, documents):
    """A model that differs only in the mechanism of one layer computes something else."""
    with_it = make_model("etads_basic", **{f"{mechanism}_layers": str(layer)})
    without = make_model("etads_basic")
    without.load_state_dict({k: v for k, v in with_it.state_dict().items() if k in without.state_dict()}, strict=True)
    tokens, previous = make_batch(documents), make_batch(SUMMARIES)
    assert not torch.allclose(decode(with_it, tokens, previous), decode(without, tokens, previous), atol=1e-3)


def test_every_parameter_receives_gradient(documents):
    model = make_model("etads").train()
    tokens, previous = make_batch(documents), make_batch(SUMMARIES)
    out, _ = model(tokens, tokens.ne(PAD).sum(1), previous)
    out.log_softmax(-1)[..., 7].sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, f"{name} receives no gradient"


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("left", [False, True])
def test_cached_decoding_equals_uncached_decoding(arch, left, documents):
    model = make_model(arch)
    tokens = make_batch(documents, left=left)
    previous = torch.tensor([[EOS, 5, 6, 7, 8, 9]]).expand(len(documents), -1)
    encoded = encode(model, tokens)
    with torch.no_grad():
        full, extra = model.decoder(previous, encoder_out=encoded)
        state = {}
        for step in range(previous.shape[1]):
            out, step_extra = model.decoder(previous[:, : step + 1], encoder_out=encoded, incremental_state=state)
            torch.testing.assert_close(out[:, 0], full[:, step], rtol=0, atol=5e-6)
            attention, expected = step_extra["attn"][0][:, 0], extra["attn"][0][:, step]
            torch.testing.assert_close(attention, expected, rtol=0, atol=2e-6)
            torch.testing.assert_close(attention.sum(-1), torch.ones(len(documents)))


def test_the_document_is_projected_once_for_all_steps(documents):
    model = make_model("etads")
    calls = []
    for name, module in model.named_modules():
        if name.endswith(("encoder_attn.k_proj", "encoder_attn.v_proj", "encoder_attn.gate_k_proj")):
            module.register_forward_hook(lambda *_, name=name: calls.append(name))
    encoded = encode(model, make_batch(documents))
    previous = torch.tensor([[EOS, 5, 6, 7]]).expand(len(documents), -1)
    state = {}
    with torch.no_grad():
        for step in range(4):
            model.decoder(previous[:, : step + 1], encoder_out=encoded, incremental_state=state)
    assert sorted(calls) == sorted(set(calls)) and len(calls) == 6


@pytest.mark.parametrize("arch", ARCHS)
def test_reordering_the_cache_reorders_every_state(arch, documents):
    """This also holds if the number of rows stays the same, when fairseq's cross-attention keeps the old order."""
    model = make_model(arch)
    tokens = make_batch(documents)
    previous = make_batch(SUMMARIES)[:, :1] * 0 + EOS
    following = torch.arange(5, 5 + len(documents))[:, None]
    order = torch.tensor([3, 0, 0, 4, 1])
    encoded = encode(model, tokens)
    state = {}
    with torch.no_grad():
        model.decoder(previous, encoder_out=encoded, incremental_state=state)
        model.decoder.reorder_incremental_state_scripting(state, order)
        both = torch.cat([previous, following], dim=1)
        cached, _ = model.decoder(both, encoder_out=encode(model, tokens[order]), incremental_state=state)
    expected = decode(model, tokens[order], both)[:, -1]
    torch.testing.assert_close(cached[:, 0], expected, rtol=0, atol=5e-6)


def test_setting_a_beam_size_as_fairseqs_generator_does_changes_nothing(documents):
    model = make_model("etads")
    tokens, previous = make_batch(documents[:4]), make_batch(SUMMARIES[:4])
    before = decode(model, tokens, previous)
    model.decoder.set_beam_size(2)
    torch.testing.assert_close(decode(model, tokens, previous), before, rtol=0, atol=0)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_models_stay_finite_with_saturated_center_and_scope(arch, dtype, documents):
    model = make_model(arch)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("center_weight", "scope_weight")):
                parameter.mul_(1000.0)  # sigmoid saturates: centres at the ends, scopes of 0 and m
    out = decode(model.to(dtype), make_batch(documents), make_batch(SUMMARIES))
    assert torch.isfinite(out).all()


def test_activation_checkpointing_changes_nothing(documents):
    plain, checkpointed = make_model("etads"), make_model("etads", checkpoint_activations=True)
    checkpointed.load_state_dict(plain.state_dict())
    tokens, previous = make_batch(documents), make_batch(SUMMARIES)
    gradients = []
    for model in (plain, checkpointed):
        out, _ = model.train()(tokens, tokens.ne(PAD).sum(1), previous)
        out[previous.ne(PAD)].logsumexp(-1).sum().backward()
        gradients.append({name: parameter.grad for name, parameter in model.named_parameters()})
    for name, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], gradient, rtol=1e-5, atol=1e-6)


def test_layer_drop_skips_layers_in_training_and_keeps_their_mechanisms(documents):
    """In evaluation, no layer is dropped; in training, each layer takes part in half of all passes."""
    sizes = {"encoder_layers": 3, "decoder_layers": 3}
    whole, model = (
        make_model("etads", **sizes),
        make_model("etads", **sizes, encoder_layerdrop=0.5, decoder_layerdrop=0.5),
    )
    model.load_state_dict(whole.state_dict(), strict=True)
    tokens, previous = make_batch(documents), make_batch(SUMMARIES)
    torch.testing.assert_close(decode(model, tokens, previous), decode(whole, tokens, previous), rtol=0, atol=0)
    counts = {}
    for name, module in model.named_modules():
        if isinstance(module, (FocusAttention, BridgeAttention)):
            counts[name] = 0
            module.register_forward_hook(lambda *_, name=name: counts.update({name: counts[name] + 1}))
    model.train()
    torch.manual_seed(0)
    for _ in range(100):
        decode(model, tokens[:1], previous[:1])
    assert len(counts) == 6 and all(25 <= count <= 75 for count in counts.values()), counts
    assert all(layer.encoder_attn.gate_q_proj is not None for layer in model.decoder.layers.eval())


def test_a_document_of_the_maximum_length_and_one_of_a_single_token():
    model = make_model("etads", make_task(truncate_source=12))
    longest, single = list(range(4, 16)), [7]
    out = decode(model, make_batch([longest, single]), torch.tensor([[EOS, 5]] * 2))
    assert torch.isfinite(out).all()
    assert model.max_positions()[0] == 13
    alone = decode(model, make_batch([single]), torch.tensor([[EOS, 5]]))
    torch.testing.assert_close(out[1:], alone, rtol=0, atol=5e-6)


def test_parse_layers():
    assert parse_layer_numbers("all", 4, "--x") == {0, 1, 2, 3}
    assert parse_layer_numbers("none", 4, "--x") == frozenset()
    assert parse_layer_numbers("1-2", 4, "--x") == {0, 1}
    assert parse_layer_numbers(" 1, 3-4 ", 4, "--x") == {0, 2, 3}


@pytest.mark.parametrize("value", ["5-9", "0", "2-1", "a", "1,,2", "", "-1", "1-", "1.5", "²"])
def test_bad_layer_lists_are_refused_in_words(value):
    with pytest.raises(ValueError) as error:
        make_model("etads", focus_layers=value, encoder_layers=4)
    for part in ("--focus-layers", f'"{value}"', '"all"', '"none"'):
        assert part in str(error.value)


def test_saliency_layers_are_checked_against_the_decoder():
    with pytest.raises(ValueError, match=r'--saliency-layers "3".*layers 1-2'):
        make_model("etads", saliency_layers="3", encoder_layers=4)


def test_presets_have_the_papers_sizes():
    config = make_preset_config("etads")()
    assert (config.encoder_layers, config.decoder_layers, config.encoder_embed_dim) == (4, 4, 512)
    assert (config.encoder_ffn_embed_dim, config.encoder_attention_heads, config.dropout) == (2048, 8, 0.2)
    assert config.share_all_embeddings and config.encoder_learned_pos and not config.encoder_normalize_before
    assert config.focus_layers == config.saliency_layers == "all"


def test_every_preset_describes_every_option():
    for name, changes in PRESETS.items():
        for option in fields(make_preset_config(name, **changes)):
            assert option.name == "_name" or option.metadata["help"], option.name


def test_a_preset_with_an_unknown_option_is_refused():
    with pytest.raises(ValueError, match=r"unknown options.*focus_layer"):
        make_preset_config("typo", focus_layer="all")


def test_the_decoder_is_as_wide_as_the_encoder_unless_told_otherwise():
    model = make_model("etads", encoder_embed_dim=16)
    assert model.decoder.embed_tokens.embedding_dim == 16


@pytest.mark.parametrize(
    "arch,flags,shared",
    [
        ("etads", [], True),
        ("etads", ["--share-all-embeddings"], True),
        ("etads", ["--no-share-all-embeddings"], False),
        ("es_transformer", [], False),
        ("es_transformer", ["--share-all-embeddings"], True),
        ("es_transformer", ["--no-share-all-embeddings"], False),
    ],
)
def test_switches_can_be_given_either_way_whatever_the_preset_has(arch, flags, shared):
    command = ["data", "--task", "summarization", "--arch", arch, "--max-tokens", "9", *flags]
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), command))
    assert cfg.model.share_all_embeddings is shared
    assert cfg.model.encoder_learned_pos is (arch == "etads")


def test_unsupported_attention_arguments_are_refused_in_words():
    attention = FocusAttention(8, 2)
    with pytest.raises(NotImplementedError, match="FocusAttention does not support need_weights=True"):
        attention(torch.randn(3, 1, 8), need_weights=True)


def test_learned_positions_that_do_not_reach_are_refused_in_words():
    task = make_task(truncate_source=50)
    with pytest.raises(ValueError, match=r"--truncate-source 50 needs 51 positions.*--max-source-positions 51"):
        make_model("etads", task, max_source_positions=40)


@pytest.mark.parametrize("side", ["source", "target"])
def test_weights_of_other_lengths_name_the_option(side):
    """Training may resume without its original --truncate-source."""
    trained = make_model("etads", make_task(**{f"truncate_{side}": 30}))
    with pytest.raises(ValueError, match=rf"has 31 learned positions.*--truncate-{side} 30"):
        make_model("etads").load_state_dict(trained.state_dict())


def test_weights_of_another_dictionary_are_refused_in_words():
    model = make_model("etads")
    state = copy.deepcopy(model.state_dict())
    state["encoder.embed_tokens.weight"] = torch.zeros(10, SMALL["encoder_embed_dim"])
    with pytest.raises(ValueError, match=r"the source dictionary has 44 known words.*10.*DATA"):
        model.load_state_dict(state)


def test_the_gate_begins_with_small_weights():
    """Standard deviation: Xavier's over the root of 2, like fairseq's own projections; logits of unit states then have
    4.
    """
    torch.manual_seed(0)
    attention = BridgeAttention(512, 8, saliency=True, kdim=512, vdim=512)
    logits = []
    for layer in (attention.gate_q_proj, attention.gate_k_proj):
        weight = layer.weight.detach()
        assert weight.std().item() == pytest.approx((2 / (512 + 512)) ** 0.5 / 2**0.5, rel=0.01)
        assert weight.abs().max().item() <= (6 / (512 + 512)) ** 0.5 / 2**0.5
        logits.append((torch.randn(2000, 512) @ weight.T).view(2000, 8, 64))
    deviation = (logits[0] * logits[1]).sum(-1).std().item()
    assert deviation == pytest.approx(4, rel=0.1)
