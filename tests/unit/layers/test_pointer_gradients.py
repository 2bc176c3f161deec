"""Gradients of the distribution of a pointer head in batches."""

import pytest
import torch
from helpers import make_batch
from test_pointer import KINDS, pointer_model, run


@pytest.mark.parametrize("kind", KINDS)
def test_a_document_beside_one_with_more_words_gives_the_same_gradients(kind):
    """For all log P, including <s>, with a column that stands in for missing words of shorter documents."""
    gradients = []
    for documents in ([[9, 50, 9]], [[9, 50, 9], [8, 45, 6, 60, 5, 61, 7]]):
        model = pointer_model(kind)
        net_output = run(model, make_batch(documents), [[9, 50]] * len(documents))
        scores = model.get_normalized_probs(net_output, log_probs=True)[0]
        weight = torch.sin(torch.arange(1.0, 45.0))
        (scores[:, :44].masked_fill(scores[:, :44].isinf(), 0.0) * weight).sum().backward()
        gradients.append({name: x.grad for name, x in model.named_parameters() if x.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for name, wanted in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], wanted, rtol=1e-3, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")
