"""Dropout in all its places: in training, not in evaluation, and in inference with --retain-dropout.

Attention weights become visible: with queries of 0 the weights are equal, and with the identity as values, the output
consists of the weights after dropout.
"""

import pytest
import torch
from helpers import PAD, make_batch, make_model, make_task
from recurrent import inputs, recurrent

from fairseq_etads.generation import SummaryGenerator
from fairseq_etads.kernels.beam_state import BeamState
from fairseq_etads.layers.encoder import FocusAttention, LayerAggregation
from fairseq_etads.models.rnn_encoder import BidirectionalGRU
from fairseq_etads.models.transformer import BridgeAttention, DecoderSelfAttention

P, WIDTH, ROWS = 0.3, 16, 40


def assert_dropped(after, before, p=P):
    """About a share p of the non-zero values became 0, and all others grew by 1 / (1 - p)."""
    before = before.expand_as(after)
    there = before != 0
    gone = (after == 0) & there
    share = gone.sum().item() / there.sum().item()
    deviations = abs(share - p) * (there.sum().item() / (p * (1 - p))) ** 0.5
    assert deviations < 5, f"{share:.3f} of {there.sum()} values are 0, and {p} should be"
    torch.testing.assert_close(after[there & ~gone], (before / (1 - p))[there & ~gone])


def identity(attention):
    """Equal weights, and unchanged values and output."""
    with torch.no_grad():
        for name, parameter in attention.named_parameters():
            parameter.zero_()
            if name in ("v_proj.weight", "out_proj.weight"):
                parameter.copy_(torch.eye(WIDTH))
    return attention


def one_hot(rows):
    """Values (S, rows, S) with a different unit vector at each place, so that they tell their origin."""
    return torch.eye(WIDTH)[:, None].expand(-1, rows, -1)


def bridge(saliency, stepwise=False, **arguments):
    attention, memory = BridgeAttention(WIDTH, 1, saliency, kdim=WIDTH, vdim=WIDTH, dropout=P), one_hot(ROWS)
    query = torch.zeros(1, 3 * ROWS, WIDTH) if stepwise else torch.zeros(3, ROWS, WIDTH)
    if stepwise:
        arguments = {"incremental_state": BeamState(ROWS, memory.device)}
    return identity(attention), lambda: attention(query, memory, **arguments)[0]


def summary(stepwise):
    attention = identity(DecoderSelfAttention(WIDTH, 1, dropout=P, self_attention=True))

    def attend():
        x = one_hot(ROWS)
        if not stepwise:
            return attention(x, x, x, need_weights=False)[0]
        state = BeamState(ROWS, x.device)
        for step in range(WIDTH):
            state.begin_step()
            out, _ = attention(x[step : step + 1], None, None, incremental_state=state)
        return out

    return attention, attend


def focus():
    attention = identity(FocusAttention(WIDTH, 1, dropout=P))
    return attention, lambda: attention(one_hot(ROWS))[0]


def aggregation():
    module = LayerAggregation(WIDTH, 1, "proj", 1, dropout=P)
    return identity(module.attentions[0]), lambda: module([one_hot(ROWS)], one_hot(ROWS))


ATTENTIONS = {
    "focus": focus,
    "aggregation": aggregation,
    "bridge, with weights": lambda: bridge(False),
    "bridge, fused": lambda: bridge(False, need_weights=False),
    "bridge, each head's weights": lambda: bridge(False, need_head_weights=True),
    "bridge, step by step": lambda: bridge(False, stepwise=True),
    "gated bridge": lambda: bridge(True),
    "gated bridge, without weights": lambda: bridge(True, need_weights=False),
    "gated bridge, step by step": lambda: bridge(True, stepwise=True),
    "summary": lambda: summary(False),
    "summary, step by step": lambda: summary(True),
}


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_drops_weights_in_training_and_where_dropout_is_retained(name):
    attention, attend = ATTENTIONS[name]()
    with torch.no_grad():
        attention.eval()
        plain = attend()
        torch.testing.assert_close(attend(), plain, rtol=0, atol=0)
        attention.train()
        assert_dropped(attend(), plain)
        attention.eval()
        attention.dropout_module.make_generation_fast_("", retain_dropout=True)
        assert_dropped(attend(), plain)


@pytest.mark.parametrize("saliency", [False, True])
def test_the_weights_that_an_attention_returns_are_not_dropped(saliency):
    """Coverage and pointers need a distribution."""
    attention, _ = bridge(saliency)
    weights = attention.train()(torch.zeros(3, ROWS, WIDTH), one_hot(ROWS))[1]
    torch.testing.assert_close(weights, torch.full((ROWS, 3, WIDTH), 1 / WIDTH))


@pytest.mark.parametrize(
    "arch, option, retained, modules, drops",
    [
        ("etads", "dropout", False, None, False),
        ("etads", "attention_dropout", True, None, True),
        ("gru_seq2seq", "dropout", True, None, True),
        ("gru_seq2seq", "dropout", True, ["BidirectionalGRU"], True),
        ("gru_seq2seq", "dropout", True, ["Other"], False),
    ],
)
def test_a_search_drops_where_dropout_is_retained(arch, option, retained, modules, drops):
    """In copies for inference, too, other seeds give other scores."""
    make, task = recurrent if arch == "gru_seq2seq" else make_model, make_task()
    model = make(arch, task, encoder_layers=2, **{option: 0.5})
    model.make_generation_fast_(retain_dropout=retained, retain_dropout_modules=modules)
    tokens = make_batch([list(range(4, 12))])
    sample = {"net_input": {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1)}}
    generator, scores = SummaryGenerator([model], task.target_dictionary, 2, exact_length=4), []
    for seed in (0, 1, 1):
        torch.manual_seed(seed)
        scores.append(generator.generate(None, sample)[0][0]["score"].item())
    assert scores[1] == scores[2] and (scores[0] != scores[1]) == drops


def watched(module, which):
    """Collect a module's inputs (``which`` "in") or outputs ("out") in a list from now on."""
    seen = []
    module.register_forward_hook(lambda _, given, out: seen.append((given[0] if which == "in" else out).clone()))
    return seen


def test_the_recurrent_decoder_drops_words_and_readouts():
    """Words are dropped before everything that reads them: the query of attention, the cell, the readout."""
    model = recurrent("pg_coverage", dropout=P, encoder_embed_dim=64).train()
    decoder = model.decoder
    words, queries = watched(decoder.embed_tokens, "out"), watched(decoder.attention.from_word, "in")
    cell, features = watched(decoder.cell, "in"), watched(decoder.readout, "in")
    readouts, logits = watched(decoder.readout, "out"), watched(decoder.output_projection, "in")
    tokens = make_batch([list(range(4, 12))] * 20)
    previous = torch.randint(4, 40, (20, 6), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        model(**inputs(model, tokens), prev_output_tokens=previous)
    assert_dropped(queries[0], words[-1])  # the encoder reads the same table
    assert torch.equal(torch.stack(cell, 1)[..., :64], queries[0]), "one mask for all that read a word"
    hidden = features[0].shape[2] - 64 - 2 * model.encoder.gru.rnn.hidden_size
    assert torch.equal(features[0][..., hidden : hidden + 64], queries[0])
    assert_dropped(logits[0], readouts[0].tanh())
    assert (features[0][..., :hidden] != 0).all(), "states themselves are not dropped"


@torch.no_grad()
@pytest.mark.parametrize("arch", ["pg_coverage", "feats_lvt2k"])
def test_the_recurrent_encoder_drops_words_factors_and_states(arch):
    model = recurrent(arch, dropout=P).train()
    encoder = model.encoder
    tables = [encoder.embed_tokens, *encoder.factors.values()]
    embedded, read, states = [watched(table, "out") for table in tables], watched(encoder.gru, "in"), []
    encoder.gru.register_forward_hook(lambda _, __, out: states.append(out[0]))
    tokens = make_batch([list(range(4, 12))] * 40)
    out = encoder(**inputs(model, tokens))
    assert_dropped(read[0], torch.cat([values[0] for values in embedded], dim=2))
    assert_dropped(out["encoder_out"][0], states[0])
    torch.testing.assert_close(out["keys"][0], encoder.keys(out["encoder_out"][0]))


@torch.no_grad()
@pytest.mark.parametrize("packed", [False, True])
def test_grus_drop_between_layers_in_training_alone(packed):
    x, padding = torch.randn(50, 3, 4), torch.zeros(50, 3, dtype=torch.bool)
    single, gru = (BidirectionalGRU(4, 16, layers=layers, dropout=P) for layers in (1, 2))
    if packed:
        gru._run_directions = gru._run_packed  # the path on a GPU
    torch.testing.assert_close(single(x, padding), single(x, padding), rtol=0, atol=0)
    first, second = gru(x, padding)[0], gru(x, padding)[0]
    assert not torch.allclose(first, second, atol=1e-3)
    plain = gru.eval()(x, padding)[0]
    with torch.enable_grad():  # as when learning from rewards, on a GPU in torch's training mode
        assert torch.equal(plain, gru(x, padding)[0]) and not gru.rnn.training
