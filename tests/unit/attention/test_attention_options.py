"""Other forms of focus-attention (--focus-center, --focus-initial-scope, --focus-strength) and of --saliency-gate."""

import copy

import pytest
import reference
import torch
from fairseq.dataclass.configs import GenerationConfig
from fairseq.models import ARCH_MODEL_REGISTRY
from helpers import PAD, SMALL, make_batch, make_model, make_task, model_config
from omegaconf import OmegaConf, open_dict
from test_attention import HEADS, LENGTHS, WIDTH, padding_mask, random_inputs
from test_transformer import SUMMARIES, decode

from fairseq_etads import attention
from fairseq_etads.attention import FOCUS_FORMS, GATES, attention_weights, focus_attention, saliency_attention
from fairseq_etads.layers.encoder_attention import FocalNetwork

GENTLE = {"focus_strength": "learned", "saliency_gate": "open"}


NEW = ("center_weight", "scope_weight", "strength", "center_offset", "gate_slope", "gate_level")


def trained(**options):
    """A model without zero weights."""
    model = make_model("etads", **options)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.rpartition(".")[2] in NEW:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


def network(initial_scope="half", **options):
    torch.manual_seed(0)
    return FocalNetwork(HEADS * WIDTH, HEADS, initial_scope=initial_scope, **options)


QUERIES = torch.randn(len(LENGTHS), max(LENGTHS), HEADS * WIDTH, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("left", [False, True])
def test_relative_centers_and_initial_scopes_are_those_of_the_oracle(left):
    focal, mask = network("half,1,3", center="relative").double(), padding_mask(LENGTHS, left)
    with torch.no_grad():
        for weight in (focal.center_weight, focal.scope_weight, focal.center_offset):
            weight.normal_()
    found = focal(QUERIES.double(), mask)
    for b in range(len(LENGTHS)):
        real = ~mask[b]
        weights = (focal.query_proj.weight, focal.document_proj.weight, focal.center_weight, focal.scope_weight)
        expected = reference.relative_focal_network(
            QUERIES[b, real].double(), *weights, focal.center_offset, scopes=(0, 1, 3)
        )
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


@pytest.mark.parametrize("form", FOCUS_FORMS)
@pytest.mark.parametrize("left", [False, True])
def test_focus_attention_with_a_strength_and_its_gradients_match_the_oracle(left, form, monkeypatch):
    monkeypatch.setattr(attention, "LONGEST_BIAS", 6)
    monkeypatch.setattr(attention, "BIAS_ELEMENTS", 5 * HEADS * 4 * 12)
    inputs, mask = random_inputs(left=left)
    strengths = torch.tensor([0.0, 1.7, -0.2], dtype=torch.float64, requires_grad=True)
    expected = torch.zeros_like(inputs[0])
    for b in range(len(LENGTHS)):
        real = ~mask[b]
        for h in range(HEADS):
            of_head = (x[b, h, real] for x in inputs)
            expected[b, h, real] = reference.focus_attention(*of_head, strength=strengths[h])
    real = (~mask)[:, None, :, None]
    weight = torch.randn(expected.shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64) * real
    wanted = torch.autograd.grad((expected * weight).sum(), [*inputs, strengths])

    singles = [x.detach().float().requires_grad_() for x in (*inputs, strengths)]
    out = focus_attention(*singles[:5], key_padding_mask=mask, form=form, strength=singles[5])
    torch.testing.assert_close((out * real).double(), expected, rtol=0, atol=1e-5)
    gradients = torch.autograd.grad((out * weight.float()).sum(), singles)
    for name, got, want in zip(("q", "k", "v", "center", "scope", "strength"), gradients, wanted):
        torch.testing.assert_close(got.double(), want, rtol=2e-4, atol=2e-4, msg=lambda m, name=name: f"{name}: {m}")
    assert wanted[5][0].abs() > 1e-3, "a head begins to focus"
    alone = [x.detach() for x in singles[:5]]
    out = focus_attention(*alone, key_padding_mask=mask, form=form, strength=singles[5])
    (gradient,) = torch.autograd.grad((out * weight.float()).sum(), singles[5])
    torch.testing.assert_close(gradient.double(), wanted[5], rtol=2e-4, atol=2e-4)


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


@pytest.mark.parametrize("form", ["open", "normalised"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_gate_is_neutral_at_zero_and_finite_anywhere(form, dtype):
    generator = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(2, HEADS, 7, WIDTH, generator=generator).to(dtype) for _ in range(3))
    mask = padding_mask((7, 4), True)
    out, weights = saliency_attention(q, k, v, q * 0, k, mask, need_weights=True, form=form)
    plain = attention_weights(q, k, mask)
    torch.testing.assert_close(out, torch.matmul(plain.to(dtype), v), rtol=0, atol=1e-6)
    torch.testing.assert_close(weights, plain, rtol=0, atol=1e-6)
    for size in (-300.0, 300.0):
        gates = (torch.full_like(q, size), torch.full_like(k, 300.0))
        out, weights = saliency_attention(q, k, v, *gates, mask, need_weights=True, form=form)
        assert torch.isfinite(out).all()
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, HEADS, 7))
        assert (weights.masked_select(mask[:, None, None, :]) == 0).all(), "padding got attention"


@pytest.mark.parametrize("gate", ["open", "normalised"])
def test_the_gate_of_these_forms_is_a_cosines(gate, monkeypatch):
    """The gate does not depend on the size of queries and keys; the paper's product of the same vectors is in the
    thousands.
    """
    caught = []
    original = attention.attention_scores
    monkeypatch.setattr(attention, "attention_scores", lambda *args: caught.append(original(*args)) or caught[-1])
    bridge = trained(saliency_gate=gate).decoder.layers[0].encoder_attn
    width, heads = bridge.embed_dim, bridge.num_heads
    x, memory = (100 * torch.randn(n, 1, width, generator=torch.Generator().manual_seed(n)) for n in (3, 4))
    with torch.no_grad():
        bridge(x, memory)
        gate_q, gate_k = bridge.gate_q_proj(bridge.q_proj(x)), bridge.gate_k_proj(bridge.k_proj(memory))
    gate_q, gate_k = (vectors.view(-1, heads, width // heads).double() for vectors in (gate_q, gate_k))
    (logits,) = [scores for scores in caught if scores.abs().max() < 10]
    for head in range(heads):
        for i in range(3):
            for j in range(4):
                a, b = gate_q[i, head], gate_k[j, head]
                cosine = float((a * b).sum() / a.norm() / b.norm())
                expected = (width // heads) ** 0.5 * float(bridge.gate_slope[head]) * cosine
                assert float(logits[0, head, i, j]) == pytest.approx(expected, abs=1e-5)
                assert float((a * b).sum().abs()) > 10


def summaries_of(model, task, documents):
    sample = {"id": torch.arange(len(documents)), "net_input": {"src_tokens": make_batch(documents)}}
    sample["net_input"]["src_lengths"] = sample["net_input"]["src_tokens"].ne(PAD).sum(1)
    generator = task.build_generator([model], OmegaConf.structured(GenerationConfig(beam=3, max_len_b=12)))
    return [[(h["tokens"].tolist(), float(h["score"])) for h in found] for found in generator.generate([model], sample)]


@pytest.mark.parametrize("gate", ["open", "normalised"])
@pytest.mark.parametrize("fairseqs", [False, True])
def test_a_gentle_start_writes_what_the_plain_transformer_writes(fairseqs, gate, documents):
    """Summaries are equal with the weights of this project's or fairseq's model, but not after an update."""
    task = make_task()
    learned = dict.fromkeys(("encoder_learned_pos", "decoder_learned_pos", "share_all_embeddings"), True)
    lengths = {"max_source_positions": 401, "max_target_positions": 101}
    plain = make_model("transformer", task, **learned, **lengths) if fairseqs else make_model("etads_basic", task)
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter.mul_(1.5)  # far from uniform, so that summaries differ
    model = make_model("etads", task, **{**GENTLE, "saliency_gate": gate})
    missing = model.load_state_dict({**model.state_dict(), **plain.state_dict()})
    assert not missing.missing_keys and not missing.unexpected_keys
    tokens, previous = make_batch(documents), make_batch(SUMMARIES)
    torch.testing.assert_close(decode(model, tokens, previous), decode(plain, tokens, previous), rtol=1e-5, atol=1e-5)
    found, expected = (summaries_of(m, task, documents) for m in (model, plain))
    assert [[t for t, _ in row] for row in found] == [[t for t, _ in row] for row in expected]
    assert len({str(row) for row in found}) == len(documents)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("strength", "gate_slope")):
                parameter.add_(0.1)
    assert not torch.allclose(decode(model, tokens, previous), decode(plain, tokens, previous), atol=1e-3)


def test_checkpoints_from_before_these_options_are_the_papers_form(documents):
    """Old checkpoints lack the new options and have no additional weights."""
    task, config = make_task(), copy.deepcopy(model_config("etads", **SMALL))
    with open_dict(config):
        for option in ("focus_center", "focus_initial_scope", "focus_strength", "saliency_gate"):
            del config[option]
    old = ARCH_MODEL_REGISTRY["etads"].build_model(config, task).eval()
    new = make_model("etads", task)
    old.load_state_dict(new.state_dict(), strict=True)
    names = {name.rpartition(".")[2] for name in new.state_dict() if ".focal." in name}
    assert names == {"weight", "center_weight", "scope_weight"} and not any("gate_slope" in n for n in new.state_dict())
    tokens, previous = make_batch(documents), make_batch(SUMMARIES)
    assert torch.equal(decode(old, tokens, previous), decode(new, tokens, previous))
