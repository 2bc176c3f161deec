"""The model of Entail-s2s (Li, Zhu, Zhang and Zong 2018): equations against loops, the gate, dropout, sizes."""

import pytest
import reference
import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from helpers import EOS, PAD, RECURRENT, make_batch, make_task, model_config
from recurrent import DOCUMENTS, encode, inputs, log_probs, recurrent


def weights_of(model):
    """A model's weights by the names of the equations, see tests/reference."""
    encoder, decoder, names = model.encoder, model.decoder, ("weight_ih", "weight_hh", "bias_ih")
    return {
        **{"E_x": encoder.embed_tokens.weight, "E_y": decoder.embed_tokens.weight},
        **{"forward": [getattr(encoder.lstm.rnn, f"{name}_l0") for name in names]},
        **{"backward": [getattr(encoder.lstm.rnn, f"{name}_l0_reverse") for name in names]},
        **{"decoder": [getattr(decoder.cell, name) for name in names]},
        **{"W_g": encoder.gate.state_proj.weight, "U_g": encoder.gate.document_proj.weight},
        **{"b_g": encoder.gate.document_proj.bias, "W": encoder.keys.weight},
        **{"B_s": encoder.first_state.weight, "b_s": encoder.first_state.bias},
        **{"B_c": encoder.first_cell.weight, "b_c": encoder.first_cell.bias},
        **{"W_a": decoder.readout.weight, "W_o": decoder.output_projection.weight},
    }


@pytest.mark.parametrize("document", [[5, 6, 7, 30, 9, 10, 5], [8]], ids=["long", "short"])
def test_it_is_the_equations(document):
    model, previous = recurrent("entail_s2s").double(), [EOS, 5, 6, 7]
    with torch.no_grad():
        model.encoder.keys.weight.mul_(150)  # clear preferences of attention and gates
        model.encoder.gate.state_proj.weight.mul_(12)
        model.encoder.gate.document_proj.weight.mul_(6)
        want, attention = reference.entail_s2s(weights_of(model), [*document, EOS], previous)
        found, extra = log_probs(model, make_batch([document]), torch.tensor([previous]))
    torch.testing.assert_close(found[0], torch.stack(want))
    torch.testing.assert_close(extra["attn"][0][0], torch.stack(attention))
    assert len(document) == 1 or extra["attn"][0].max() > 3 * extra["attn"][0].min(), "attention that hides"


def test_dropout_is_of_state_and_readout_and_both_go_on_dropped():
    model = recurrent("entail_s2s", dropout=0.5, decoder_hidden_size=400).train()
    tokens, previous = make_batch(DOCUMENTS), torch.full((len(DOCUMENTS), 1), EOS)
    with torch.no_grad():
        encoded, state = model.encoder(**inputs(model, tokens)), {}
        model.decoder(previous, encoder_out=encoded, incremental_state=state)
        saved = model.decoder.get_incremental_state(state, "state")
        torch.testing.assert_close(encoded["encoder_out"][0], encode(model.eval(), tokens)["encoder_out"][0])
    assert 0.4 < saved["hidden"].eq(0).float().mean() < 0.6
    assert saved["cell"].ne(0).all() and saved["fed"].eq(0).any()


def test_it_begins_with_uniform_weights():
    config = model_config("entail_s2s", **RECURRENT, readout_dim=9)
    small = ARCH_MODEL_REGISTRY["entail_s2s"].build_model(config, make_task())
    for name, parameter in small.named_parameters():
        assert 0.05 < parameter.abs().max() <= 0.1, name
    assert not small.encoder.embed_tokens.weight[PAD].any()
