"""Attention figures in the training log: means over real words, for any batch; nothing outside the criterion."""

import pytest
import reference
import torch
from fairseq.logging import metrics
from helpers import make_model, make_task
from test_attention import padding_mask
from test_criterions import DOCUMENTS, SUMMARIES, criterion, make_sample

from fairseq_etads.layers.attention_probe import FIGURES, AttentionStatistics, GateInputs
from fairseq_etads.training.losses import SummarizationNLL

FOCUS = ("focus_distance", "focus_scope", "focus_share")


def figures_of(model, task, parts=((DOCUMENTS, SUMMARIES),), left=False):
    with torch.no_grad(), metrics.aggregate(new_root=True) as values:
        SummarizationNLL.reduce_metrics([criterion(task)(model, make_sample(*part, left=left))[2] for part in parts])
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
        loss, _, logs = criterion(task)(model, make_sample())
        assert "gate" in logs and not any(value.requires_grad for value in logs.values() if torch.is_tensor(value))
        loss.backward()
        found.append((loss.detach(), model.encoder.layers[0].self_attn.focal.center_weight.grad))
    torch.testing.assert_close(*found)
