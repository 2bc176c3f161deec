"""Attention functions against the loop-written oracles: focus, saliency and their forms; recurrent models; figures."""

import copy
import math

import pytest
import reference
import torch
from fairseq.logging import metrics
from fairseq.models import ARCH_MODEL_REGISTRY
from helpers import SMALL, make_batch, make_model, make_task, model_config
from omegaconf import open_dict
from recurrent import DOCUMENTS, SUMMARIES
from steps import make_sample
from test_transformer import decode
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_etads import attention
from fairseq_etads.attention import FOCUS_FORMS, GATES, focal_bias, focus_attention, saliency_attention
from fairseq_etads.layers.attention_probe import FIGURES, AttentionStatistics, GateInputs
from fairseq_etads.layers.encoder import FocalNetwork
from fairseq_etads.training.losses import SummarizationNLL

LENGTHS = (9, 1, 6, 12)
HEADS, WIDTH = 3, 8


def padding_mask(lengths, left, size=None):
    size = size or max(lengths)
    columns = torch.arange(size)
    return torch.stack([columns < size - length if left else columns >= length for length in lengths])


def random_inputs(left=False):
    """q, k, v, ``center``, ``scope`` (fractions of the document) for a ragged batch, as float64 leaves."""
    generator = torch.Generator().manual_seed(0)
    batch, size = len(LENGTHS), max(LENGTHS)
    q, k, v = (torch.randn(batch, HEADS, size, WIDTH, generator=generator, dtype=torch.float64) for _ in range(3))
    m = torch.tensor(LENGTHS, dtype=torch.float64)[:, None, None]
    center = m * torch.rand(batch, HEADS, size, generator=generator, dtype=torch.float64)
    scope = m * (0.15 + torch.rand(batch, HEADS, size, generator=generator, dtype=torch.float64))
    return [x.requires_grad_() for x in (q, k, v, center, scope)], padding_mask(LENGTHS, left)


def oracle(inputs, mask, strengths=()):
    """The loop-written focus-attention of each document and head; 0 at padding."""
    q = inputs[0]
    out = torch.zeros_like(q)
    for b in range(q.shape[0]):
        real = ~mask[b]
        for h in range(q.shape[1]):
            out[b, h, real] = reference.focus_attention(*(x[b, h, real] for x in inputs), *(x[h] for x in strengths))
    return out


def test_focal_bias_is_equation_7():
    (_, _, _, center, scope), mask = random_inputs()
    positions, _ = attention.compute_token_positions(mask, *mask.shape, mask.device)
    bias = focal_bias(center, scope, positions)
    for b in range(len(LENGTHS)):
        expected = [reference.focal_bias(center[b, h], scope[b, h], positions[b]) for h in range(HEADS)]
        torch.testing.assert_close(bias[b], torch.stack(expected), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("form", FOCUS_FORMS)
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("strengths", [[], [0.0, 1.7, -0.2]], ids=["whole", "with strengths"])
def test_focus_attention_and_gradients_match_the_oracle(strengths, left, form, monkeypatch):
    """A head with a strength of 0 begins to focus, also if nothing else learns."""
    monkeypatch.setattr(attention, "LONGEST_BIAS", 6)
    monkeypatch.setattr(attention, "BIAS_ELEMENTS", 5 * HEADS * 4 * 12)  # blocks of 5, 5 and 2 queries
    inputs, mask = random_inputs(left=left)
    strengths = [torch.tensor(strengths, dtype=torch.float64, requires_grad=True)] if strengths else []
    real = (~mask)[:, None, :, None]
    weight = torch.randn(inputs[0].shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64) * real
    expected = oracle(inputs, mask, strengths)
    wanted = torch.autograd.grad((expected * weight).sum(), [*inputs, *strengths])

    singles = [x.detach().float().requires_grad_() for x in (*inputs, *strengths)]
    out = focus_attention(*singles[:5], mask, 0.0, form, *singles[5:])
    gradients = torch.autograd.grad((out * weight.float()).sum(), singles)
    torch.testing.assert_close((out * real).double(), expected, rtol=0, atol=1e-5)
    # at scopes below a token, gradients are differences of large numbers; without vector units the error is 1.6e-5
    for name, got, want in zip(("q", "k", "v", "center", "scope", "strength"), gradients, wanted):
        torch.testing.assert_close(got.double(), want, rtol=2e-4, atol=2e-4, msg=lambda m, name=name: f"{name}: {m}")
    if strengths:
        assert wanted[5][0].abs() > 1e-3
        out = focus_attention(*(x.detach() for x in singles[:5]), mask, 0.0, form, singles[5])
        (gradient,) = torch.autograd.grad((out * weight.float()).sum(), singles[5])
        torch.testing.assert_close(gradient.double(), wanted[5], rtol=2e-4, atol=2e-4)


def in_float64(*inputs):
    """Focus-attention by a whole bias."""
    q, k, v, center, scope = (x.detach().double() for x in inputs)
    bias = focal_bias(center, scope, torch.arange(k.shape[2], dtype=torch.float64)[None])
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[3]) + bias, -1) @ v


class LargestTensor(TorchDispatchMode):
    """Records the size of the largest tensor that any operation makes."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(tensor, torch.Tensor) and tensor.untyped_storage().nbytes():
                self.elements = max(self.elements, tensor.untyped_storage().nbytes() // tensor.element_size())
        return out


@pytest.mark.parametrize("padded", [False, True])
def test_focus_attention_never_holds_a_square_tensor(padded):
    length = 600
    inputs = [torch.randn(2, 2, length, 16, requires_grad=True) for _ in range(3)]
    inputs += [torch.full((2, 2, length), 30.0, requires_grad=True) for _ in range(2)]
    mask = padding_mask((length, 50), False) if padded else None
    with LargestTensor() as seen:
        focus_attention(*inputs, key_padding_mask=mask).sum().backward()
    assert 0 < seen.elements < 2 * length * length


@pytest.mark.parametrize("form", FOCUS_FORMS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("extreme_center", [0.0, 1e-4, 399.99, 400.0])
@pytest.mark.parametrize("extreme_scope", [0.0, 1e-6, 400.0])
def test_half_precision_stays_finite_and_close_for_extreme_center_and_scope(dtype, extreme_center, extreme_scope, form):
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 2, 400, 16, generator=generator).to(dtype).requires_grad_() for _ in range(3))
    center = torch.full((1, 2, 400), extreme_center, requires_grad=True)
    scope = torch.full((1, 2, 400), extreme_scope, requires_grad=True)
    out = focus_attention(q, k, v, center, scope, padding_mask((380,), False, 400), form=form)
    out.sum().backward()
    assert out.dtype == dtype
    for tensor in (out, q.grad, k.grad, v.grad, center.grad, scope.grad):
        assert torch.isfinite(tensor).all()
    # as good as rounding the exact result to this dtype, twice
    exact = in_float64(q, k[:, :, :380], v[:, :, :380], center, scope)
    assert (out.double() - exact)[:, :, :380].abs().max() <= 2 * torch.finfo(dtype).eps * exact.abs().max()


@pytest.mark.parametrize("form", FOCUS_FORMS)
def test_focus_attention_ignores_autocast(form):
    inputs, mask = random_inputs()
    singles = [x.detach().float().requires_grad_() for x in inputs]
    results = []
    for enabled in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            out = focus_attention(*singles, key_padding_mask=mask, form=form)
        results.append((out, *torch.autograd.grad(out.sum(), singles)))
    assert all(map(torch.equal, *results))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_saliency_stays_finite_in_a_row_without_real_tokens(dtype):
    given = [torch.randn(2, HEADS, 3, WIDTH, dtype=dtype, requires_grad=True) for _ in range(5)]
    out = saliency_attention(*given, key_padding_mask=torch.tensor([[False] * 3, [True] * 3]))
    assert all(x.isfinite().all() for x in (out, *torch.autograd.grad(out.sum(), given)))


@pytest.mark.parametrize("left", [False, True])
def test_focal_network_is_equations_5_and_6(left):
    torch.manual_seed(0)
    network = FocalNetwork(HEADS * WIDTH, HEADS).double()
    mask = padding_mask(LENGTHS, left)
    queries = torch.randn(len(LENGTHS), max(LENGTHS), HEADS * WIDTH, dtype=torch.float64)
    found = network(queries, mask)
    weights = (network.query_proj.weight, network.document_proj.weight, network.center_weight, network.scope_weight)
    for b in range(len(LENGTHS)):
        real = ~mask[b]
        expected = reference.focal_network(queries[b, real], *weights)
        for got, want in zip(found, expected):
            torch.testing.assert_close(got[b][:, real].double(), want, rtol=1e-5, atol=1e-5)


def test_scores_are_products_of_float32_unless_the_inputs_own_format_is_asked_for():
    q, k = (3 * torch.randn(2, 3, 5, 12).bfloat16() for _ in range(2))
    exact, own = q.float() @ k.float().mT, (q @ k.mT).float()
    assert torch.equal(attention.gate_logits(q, k), exact)
    assert torch.equal(attention.gate_logits(q, k, own_format=True), own)
    weights = ((q.float() * 12**-0.5) @ k.float().mT).softmax(-1)
    torch.testing.assert_close(attention.attention_weights(q, k), weights, rtol=0, atol=0)
    out = saliency_attention(q, k, k, q, k)
    torch.testing.assert_close(out, (exact.sigmoid() * weights).bfloat16() @ k, rtol=0, atol=0)


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


@pytest.mark.parametrize("steps", [1, 2, 6])
@pytest.mark.parametrize("left", [False, True])
def test_temporal_attention(steps, left):
    scores, mask = 3 * torch.randn(3, steps, 7, dtype=torch.float64), padding_mask([7, 4, 1], left)
    got = attention.temporal_attention(scores, mask)
    assert (got[mask[:, None].expand_as(got)] == 0).all()
    for b in range(3):
        want = reference.temporal_attention(scores[b][:, ~mask[b]])
        torch.testing.assert_close(got[b][:, ~mask[b]], want)


def test_temporal_attention_neither_overflows_nor_vanishes():
    scores = (torch.randn(2, 9, 5) * 1e4).requires_grad_()
    got = attention.temporal_attention(scores)
    torch.testing.assert_close(got.sum(-1), torch.ones(2, 9))
    got.pow(2).sum().backward()
    assert scores.grad.isfinite().all()


def test_hierarchical_attention():
    word, sentence = (torch.randn(2, 3, count, dtype=torch.float64).softmax(-1) for count in (6, 4))
    word[1, :, 4:] = 0  # padding
    ids = torch.tensor([[0, 0, 1, 2, 2, 3], [0, 1, 1, 1, 0, 3]])
    got = attention.hierarchical_attention(word, sentence, ids)
    for b in range(2):
        want = reference.hierarchical_attention(word[b], sentence[b], ids[b].tolist())
        torch.testing.assert_close(got[b], want)


def test_hierarchical_attention_at_its_edges():
    """A single word has probability 1; words in a sentence of probability 0 get none, however tiny the others are."""
    one, ids = torch.tensor([[[1.0, 0.0]]]), torch.tensor([[0, 1]])
    assert attention.hierarchical_attention(one, torch.tensor([[[0.5, 0.5]]]), ids).tolist() == [[[1, 0]]]
    even = torch.tensor([[[0.5, 0.5]]])
    assert attention.hierarchical_attention(even, torch.tensor([[[0.0, 1e-30]]]), ids).tolist() == [[[0, 1]]]


FOCUS = ("focus_distance", "focus_scope", "focus_share")


def figures_of(model, task, parts=((DOCUMENTS, SUMMARIES),), left=False):
    samples = [make_sample(None, *part, left) for part in parts]
    with torch.no_grad(), metrics.aggregate(new_root=True) as values:
        SummarizationNLL.reduce_metrics([SummarizationNLL(task)(model, sample)[2] for sample in samples])
    return {name: value for name, value in values.get_smoothed_values().items() if name in FIGURES}


def test_figures_of_focus_are_means_over_real_tokens():
    center, scope = (10 * torch.rand(2, 3, 5) for _ in range(2))
    mask = padding_mask((5, 2), True)
    figures = AttentionStatistics(torch.ones(2, 1, dtype=torch.bool))
    figures.receive_focus_parameters(center, scope, torch.tensor([1.0, 2.0, -0.5]), mask)
    logs = figures.to_logging_output()
    tokens = [(0, place, place, 5) for place in range(5)] + [(1, 3 + place, place, 2) for place in range(2)]
    expected = {
        "focus_distance": sum((center[b, :, i] - place).abs().sum() for b, i, place, _ in tokens),
        "focus_scope": sum(scope[b, :, i].sum() for b, i, _, _ in tokens),
        "focus_share": sum(scope[b, :, i].sum() / m for b, i, _, m in tokens),
        "focus_strength": torch.tensor(2.5 * 7),
    }
    for name, total in expected.items():
        torch.testing.assert_close(logs[name], total)
        assert logs[f"{name}_count"] == 3 * 7


@pytest.mark.parametrize("form,factor", [("sigmoid", 1), ("open", 2), ("normalised", 2)])
@pytest.mark.parametrize("left", [False, True])
def test_the_figure_of_the_gate_is_what_it_lets_through_at_the_middle_word(left, form, factor):
    q, k, gate_q, gate_k = (torch.randn(2, 3, n, 4) for n in (5, 6, 5, 6))
    real, mask = ~padding_mask((5, 2), left), padding_mask((6, 4), False)
    figures = AttentionStatistics(real)
    level = torch.tensor([0.3, -0.4, 2.0])
    figures.receive_gate_inputs(GateInputs(q, k, gate_q, gate_k, mask, form, level))
    total = 0.0
    for b, step in ((0, 2), (1, 4 if left else 1)):
        for h in range(3):
            given = (x[b, h, step : step + 1].double() for x in (q, gate_q))
            query, gate = next(given), next(given)
            keys, gates = k[b, h, ~mask[b]].double(), gate_k[b, h, ~mask[b]].double()
            # with values of 1, the context is the share itself
            given = query, keys, torch.ones_like(keys), gate, gates
            total += factor * reference.saliency_attention(*given, level=float(level[h]))[0][0, 0]
    torch.testing.assert_close(figures.to_logging_output()["gate"].double(), total, rtol=1e-6, atol=1e-6)
    assert figures.to_logging_output()["gate_count"] == 6


@pytest.mark.parametrize(
    "arch,names",
    [("etads", {"gate", *FOCUS}), ("etads_focus", {*FOCUS}), ("etads_basic", set())],
)
def test_a_model_logs_what_it_has_whatever_the_batches_and_padding(arch, names):
    task = make_task(tail=30)
    model = make_model(arch, task)
    whole = figures_of(model, task)
    assert whole.keys() == names
    parts = [([document], [summary]) for document, summary in zip(DOCUMENTS, SUMMARIES)]
    assert figures_of(model, task, parts) == pytest.approx(whole, abs=2e-3)
    assert figures_of(model, task, left=True) == pytest.approx(whole, abs=2e-3)


def test_they_do_not_change_the_loss_and_its_gradient():
    task, found = make_task(tail=30), []
    for checkpointed in (False, True):  # recomputes the layers in the backward pass, where no observer is active
        model = make_model("etads", task, checkpoint_activations=checkpointed).train()
        loss, _, logs = SummarizationNLL(task)(model, make_sample(None, DOCUMENTS, SUMMARIES))
        assert "gate" in logs and not any(value.requires_grad for value in logs.values() if torch.is_tensor(value))
        loss.backward()
        found.append((loss.detach(), model.encoder.layers[0].self_attn.focal.center_weight.grad))
    torch.testing.assert_close(*found)
