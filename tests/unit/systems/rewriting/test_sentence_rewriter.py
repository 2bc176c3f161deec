"""sentence_rewriter: the equations of Chen and Bansal's abstractor."""

import pytest
import torch
from helpers import EOS, make_batch
from recurrent import DOCUMENTS, V, log_probs, recurrent
from reference import extended_ids, sentence_rewriter


def weights_of(model):
    encoder, decoder = model.encoder, model.decoder
    names = ("weight_ih", "weight_hh", "bias_ih")
    rnn, start = encoder.lstm.rnn, encoder.lstm.start
    return {
        "E": encoder.embed_tokens.weight,
        "forward": [getattr(rnn, f"{name}_l0") for name in names],
        "backward": [getattr(rnn, f"{name}_l0_reverse") for name in names],
        "decoder": [getattr(decoder.cell, name) for name in names],
        **{"first_forward": tuple(start[:, 0]), "first_backward": tuple(start[:, 1])},
        **{"W_m": encoder.projection.weight, "W_q": encoder.keys.weight},
        **{"B_s": encoder.first_state.weight, "b_s": encoder.first_state.bias},
        **{"B_c": encoder.first_cell.weight, "b_c": encoder.first_cell.bias},
        **{"W_1": decoder.readout[0].weight, "b": decoder.readout[0].bias, "W_2": decoder.readout[2].weight},
        **{"v": decoder.pointer.gate.weight[0], "b_v": decoder.pointer.gate.bias[0]},
    }


@pytest.mark.parametrize("document", [DOCUMENTS[0], DOCUMENTS[2]], ids=["long", "short"])
def test_it_is_the_equations(document):
    model = recurrent("sentence_rewriter").double()
    with torch.no_grad():
        model.encoder.keys.weight.mul_(400)  # larger weights make attention's preferences visible
        model.encoder.lstm.start.mul_(50)
        previous = [EOS, 5, 47, 6, 7]
        extended, _ = extended_ids([*document, EOS], V)
        weights = weights_of(model)
        want = sentence_rewriter(weights, [*document, EOS], extended, previous, unk=3)
        found, extra = log_probs(model, make_batch([document]), torch.tensor([previous]))
    torch.testing.assert_close(found[0].exp(), torch.tensor(want, dtype=torch.float64))
    assert extra["attn"][0].max() > 3 * extra["attn"][0].min(), "attention that hides"
