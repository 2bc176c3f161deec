"""Other forms of focus-attention (--focus-center, --focus-initial-scope, --focus-strength) and of --saliency-gate."""

import copy

import pytest
import reference
import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from helpers import SMALL, make_batch, make_model, make_task, model_config
from omegaconf import open_dict
from test_attention import HEADS, LENGTHS, WIDTH, padding_mask
from test_transformer import SUMMARIES, decode

from fairseq_etads import attention
from fairseq_etads.attention import GATES, saliency_attention
from fairseq_etads.layers.encoder import FocalNetwork


@pytest.mark.parametrize("left", [False, True])
def test_relative_centers_and_initial_scopes_are_those_of_the_oracle(left):
    focal = FocalNetwork(HEADS * WIDTH, HEADS, center="relative", initial_scope="half,1,3").double()
    queries, mask = torch.randn(len(LENGTHS), max(LENGTHS), HEADS * WIDTH).double(), padding_mask(LENGTHS, left)
    with torch.no_grad():
        for weight in (focal.center_weight, focal.scope_weight, focal.center_offset):
            weight.normal_()
    found = focal(queries, mask)
    weights = (focal.query_proj.weight, focal.document_proj.weight, focal.center_weight, focal.scope_weight)
    for b in range(len(LENGTHS)):
        real = ~mask[b]
        expected = reference.relative_focal_network(queries[b, real], *weights, focal.center_offset, scopes=(0, 1, 3))
        for got, want in zip(found, expected):
            torch.testing.assert_close(got[b][:, real], want, rtol=1e-5, atol=1e-5)


def test_heads_begin_at_the_query_and_its_neighbours_with_scopes_of_so_many_tokens():
    length, heads = 50, 5
    focal = FocalNetwork(heads * WIDTH, heads, center="relative", initial_scope="2, 30, 7")
    queries = torch.randn(1, length, heads * WIDTH)
    center, scope = focal(queries)
    for head, (offset, tokens) in enumerate(zip((0, -1, 1, -2, 2), (2, 25, 7, 2, 25))):  # 25: half of the document
        torch.testing.assert_close(center[0, head], torch.arange(50.0) + offset, rtol=0, atol=1e-2)
        torch.testing.assert_close(scope[0, head], torch.full((length,), float(tokens)))
    scope = FocalNetwork(heads * WIDTH, heads, initial_scope="2,half")(queries)[1]
    assert scope[0, 0].eq(scope[0, 0, 0]).all() and scope[0, 1].std() > 0.1, "the paper's depends on the query"


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("form", GATES)
def test_every_gate_and_its_gradients_match_the_oracle(form, left):
    generator = torch.Generator().manual_seed(1)
    shapes = [(2, HEADS, n, WIDTH) for n in (5, 7, 7, 5, 7)]
    inputs = [torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_() for s in (*shapes, (HEADS,))]
    levels, mask = inputs[5], padding_mask((7, 4), left)
    expected, expected_weights = torch.zeros(shapes[0]).double(), torch.zeros(2, HEADS, 5, 7).double()
    for b in range(2):
        real = ~mask[b]
        for h in range(HEADS):
            q, k, v, gate_q, gate_k = (x[b, h] for x in inputs[:5])
            given = q, k[real], v[real], gate_q, gate_k[real], form, levels[h]
            expected[b, h], expected_weights[b, h][:, real] = reference.saliency_attention(*given)
    out, weights = saliency_attention(
        *inputs[:5], key_padding_mask=mask, need_weights=True, form=form, gate_level=levels
    )
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(weights, expected_weights, rtol=0, atol=1e-12)
    gradients = [torch.autograd.grad(x.sum(), inputs) for x in (out, expected)]
    for got, want in zip(*gradients):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("gate", ["open", "normalised"])
def test_the_gate_of_these_forms_is_a_cosines(gate, monkeypatch):
    """The gate does not depend on the size of queries and keys; their plain products are in the thousands."""
    caught, compute = [], attention.gate_logits
    monkeypatch.setattr(attention, "gate_logits", lambda *args: caught.append(compute(*args)) or caught[-1])
    bridge = make_model("etads", saliency_gate=gate).decoder.layers[0].encoder_attn
    x, memory = (100 * torch.randn(n, 1, bridge.embed_dim) for n in (3, 4))
    with torch.no_grad():
        bridge.gate_slope.normal_()
        bridge.gate_level.normal_()
        bridge(x, memory)
        projected = bridge.gate_q_proj(bridge.q_proj(x)), bridge.gate_k_proj(bridge.k_proj(memory))
    gate_q, gate_k = (vectors.view(-1, bridge.num_heads, bridge.head_dim).transpose(0, 1) for vectors in projected)
    cosines = torch.nn.functional.cosine_similarity(gate_q[:, :, None], gate_k[:, None], dim=3)
    slope, level = (weight[:, None, None] for weight in (bridge.gate_slope, bridge.gate_level))
    torch.testing.assert_close(caught[0][0], bridge.head_dim**0.5 * slope * cosines + level, rtol=1e-4, atol=1e-5)
    assert (gate_q @ gate_k.mT).abs().max() > 1000


@pytest.mark.parametrize("gate", ["open", "normalised"])
def test_a_gentle_start_is_the_plain_transformer_until_it_learns(gate, documents):
    plain, model = make_model("etads_basic"), make_model("etads", focus_strength="learned", saliency_gate=gate)
    model.load_state_dict({**model.state_dict(), **plain.state_dict()}, strict=True)
    tokens, previous = make_batch(documents), make_batch(SUMMARIES)
    expected = decode(plain, tokens, previous)
    torch.testing.assert_close(decode(model, tokens, previous), expected, rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("strength", "gate_slope")):
                parameter.add_(0.1)
    assert not torch.allclose(decode(model, tokens, previous), expected, atol=1e-3)


def test_checkpoints_from_before_these_options_are_the_papers_form(documents):
    """Old checkpoints lack the new options and have no additional weights."""
    config = copy.deepcopy(model_config("etads", **SMALL))
    with open_dict(config):
        for option in ("focus_center", "focus_initial_scope", "focus_strength", "saliency_gate"):
            del config[option]
    old, new = ARCH_MODEL_REGISTRY["etads"].build_model(config, make_task()).eval(), make_model("etads")
    old.load_state_dict(new.state_dict(), strict=True)
    names = {name.rpartition(".")[2] for name in new.state_dict() if ".focal." in name or "gate_s" in name}
    assert names == {"weight", "center_weight", "scope_weight"}
    tokens, previous = make_batch(documents), make_batch(SUMMARIES)
    assert torch.equal(decode(old, tokens, previous), decode(new, tokens, previous))
