"""Pointers on a GPU: equal to the CPU's, and finite in half precision."""

import pytest
import torch
from helpers import make_batch, make_model, make_task

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
DOCUMENTS = [[5, 50, 6, 50, 5, 61, 7], [9, 9, 9], [70, 71, 70], []]
SUMMARIES = make_batch([[50, 5, 12], [9, 47], [71, 4], [6, 7]])


def log_probs(model, device):
    tokens = make_batch(DOCUMENTS).to(device)
    net_output = model(tokens, tokens.ne(1).sum(1), SUMMARIES.roll(1, 1).to(device))
    return net_output, model.get_normalized_probs(net_output, log_probs=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("logit", [-6e4, 0.0, 6e4])
def test_losses_and_gradients_are_finite_in_half_precision(dtype, logit):
    model = make_model("etads", make_task(tail=30), pointer="soft").train()
    with torch.no_grad():
        model.decoder.pointer.gate.bias.fill_(logit)
    model = model.to("cuda", dtype)
    (logits, extra), scores = log_probs(model, "cuda")
    torch.testing.assert_close(scores.exp().sum(-1), torch.ones_like(scores[:, :, 0]))
    target = extra["output"].pointer.vocab.encode(SUMMARIES.cuda())
    chosen, _ = extra["output"].pointer.compute_target_log_probs(logits.float().log_softmax(-1), target)
    assert chosen.isfinite().all()
    chosen.sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all(), name
