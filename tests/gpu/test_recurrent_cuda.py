"""Recurrent models on a GPU: gradients in evaluation mode equal the CPU's."""

import pytest
import torch
from helpers import PAD, RECURRENT, make_batch, make_model, make_task

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]
DOCUMENTS = [[5, 50, 6, 43, 5, 61, 7], [9, 9, 9], [70, 43, 70], []]
SUMMARIES = make_batch([[50, 5, 12], [9, 47], [71, 4], [6, 7]])
MECHANISMS = {
    **{"pointer": "soft", "coverage": True, "temporal_attention": True, "hierarchical_attention": True},
    **{"large_vocabulary_trick": 25, **RECURRENT},
}
SEE = {
    **{"rnn_cell": "lstm", "bridge": "relu", "merge_input": True, "attention_query": "after", "readout": "linear"},
    **{"share_input_embeddings": True, "encoder_layers": 2},
}
"""Options for the decoder of See et al. 2017; the encoder's LSTMs are cuDNN's, with one of the two biases."""


def log_probs(model, device):
    tokens = make_batch(DOCUMENTS).to(device)
    net_output = model(tokens, tokens.ne(PAD).sum(1), SUMMARIES.roll(1, 1).to(device))
    return model.get_normalized_probs(net_output, log_probs=True)


@pytest.mark.parametrize("more", [{}, SEE], ids=["nallapati", "see"])
def test_gradients_without_dropout_are_there(more):
    """cuDNN's networks have a backward pass only in training mode; learning from rewards needs one in evaluation
    mode.
    """
    model = make_model("gru_seq2seq", make_task(tail=30, mark=True), dropout=0.5, **{**MECHANISMS, **more}).eval()
    gradients = []
    for device in ("cpu", "cuda"):
        model.to(device).zero_grad()
        scores = log_probs(model, device)
        scores.gather(2, SUMMARIES.clamp(max=43).to(device)[:, :, None]).sum().backward()
        gradients.append(model.encoder.keys.weight.grad.cpu().clone())
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-4)
