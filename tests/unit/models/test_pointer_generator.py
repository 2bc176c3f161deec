"""The pointer-generator as published (See et al. 2017): its size and equations, and those of each option."""

import pytest
import reference
import torch
from helpers import EOS, make_batch
from recurrent import DOCUMENTS, V, log_probs, recurrent

from fairseq_etads.layers.recurrent import BidirectionalLSTM
from fairseq_etads.pipeline.architectures import count_parameters


def test_it_has_exactly_the_papers_parameters():
    """Section 5, at 50,000 words: 21,499,600 without a pointer, which has 1,153 more, and coverage 512."""
    assert count_parameters("pointer_generator", 50_000) == 21_499_600 + 1_153
    assert count_parameters("pointer_generator_coverage", 50_000) == 21_499_600 + 1_153 + 512


def weights_of(model):
    """A model's weights by the names of the paper, see tests/reference."""
    encoder, decoder = model.encoder, model.decoder
    names = ("weight_ih", "weight_hh", "bias_ih")
    gate, h = decoder.pointer.gate, decoder.cell.hidden_size  # of [s; c; x; h*], and the paper's order is [h*; c; s; x]
    of_s, of_c, of_x, of_context = gate.weight[0].split(
        [h, h, decoder.merge.out_features, model.encoder.keys.in_features]
    )
    found = {
        "E": encoder.embed_tokens.weight,
        "forward": [getattr(encoder.lstm.rnn, f"{name}_l0") for name in names],
        "backward": [getattr(encoder.lstm.rnn, f"{name}_l0_reverse") for name in names],
        "decoder": [getattr(decoder.cell, name) for name in names],
        **{"B_s": encoder.first_state.weight, "b_s": encoder.first_state.bias},
        **{"B_c": encoder.first_cell.weight, "b_c": encoder.first_cell.bias},
        **{"W_x": decoder.merge.weight, "b_x": decoder.merge.bias, "W_h": encoder.keys.weight},
        **{"W_s": decoder.attention.from_hidden.weight, "b_attn": decoder.attention.from_hidden.bias},
        **{"v": decoder.attention.weight, "W_a": decoder.readout.weight, "b_a": decoder.readout.bias},
        **{"W_o": decoder.output_projection.weight, "b_o": decoder.output_projection.bias[:, 0]},
        **{"w": torch.cat([of_context, of_c, of_s, of_x]), "b": gate.bias[0]},
    }
    if decoder.coverage_weight is not None:
        found["w_c"] = decoder.coverage_weight
    return found


@pytest.mark.parametrize("arch", ["pointer_generator", "pointer_generator_coverage"])
@pytest.mark.parametrize("document", [DOCUMENTS[0], DOCUMENTS[2]], ids=["long", "short"])
def test_it_is_the_papers_equations(arch, document):
    model = recurrent(arch).double()
    with torch.no_grad():
        for parameter in (model.decoder.attention.weight, model.decoder.coverage_weight):
            if parameter is not None:
                parameter.mul_(20)  # attention's preferences should show
        weights, previous = weights_of(model), [EOS, 5, 47, 6, 7]
        extended, _ = reference.extended_ids([*document, EOS], V)
        want, attention, loss = reference.pointer_generator(weights, [*document, EOS], extended, previous, unk=3)
        found, extra = log_probs(model, make_batch([document]), torch.tensor([previous]))
    torch.testing.assert_close(found[0].exp(), torch.tensor(want, dtype=torch.float64))
    torch.testing.assert_close(extra["attn"][0][0], torch.tensor(attention, dtype=torch.float64))
    assert loss > 0.1, "a coverage that does not show"


def test_an_encoder_of_lstms_is_the_loop_in_both_ways_of_running_it():
    """Packed sequences and separate directions agree, with padding on either side, including the last memory cells."""
    torch.manual_seed(1)
    lstm = BidirectionalLSTM(3, 4, layers=2).double()
    x, lengths = torch.randn(3, 6, 3).double().requires_grad_(), [6, 1, 4]
    results = []
    for left in (False, True):
        places = torch.arange(6)
        padding = torch.stack([places < 6 - n if left else places >= n for n in lengths])
        shifted = torch.stack([row.roll(6 - n, 0) if left else row for row, n in zip(x, lengths)])
        for run in (BidirectionalLSTM._run_packed, BidirectionalLSTM._run_directions):
            lstm._run_directions = run.__get__(lstm)  # what a CPU takes
            states, last, cells = lstm(shifted, padding)
            assert (states[padding] == 0).all()
            loss = states.pow(2).sum() + last.pow(3).sum() + cells.pow(3).sum()
            results.append((states[~padding], last, cells, *torch.autograd.grad(loss, [x, *lstm.parameters()])))
    for other in results[1:]:
        torch.testing.assert_close(other, results[0])
    names = ("weight_ih", "weight_hh", "bias_ih")
    for row, (length, found) in enumerate(zip(lengths, results[0][0].split(lengths))):
        states = [*x[row, :length]]
        for layer in range(2):
            weights = [[getattr(lstm.rnn, f"{n}_l{layer}{d}") for n in names] for d in ("", "_reverse")]
            forward, c_forward = reference.lstm_states(states, weights[0])
            backward, c_backward = reference.lstm_states(states[::-1], weights[1])
            states = [torch.cat(pair) for pair in zip(forward, backward[::-1])]
        torch.testing.assert_close(found, torch.stack(states))
        torch.testing.assert_close(results[0][1][row], torch.cat([forward[-1], backward[-1]]))
        torch.testing.assert_close(results[0][2][row], torch.cat([c_forward, c_backward]))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temporal_attention": True, "hierarchical_attention": True, "coverage": True},
        {"readout": "linear", "readout_dim": 7},
        {"merge_input": True, "rnn_cell": "lstm"},
        {"rnn_cell": "lstm", "attention_query": "after", "hierarchical_attention": True, "temporal_attention": True},
        {"attention_query": "after", "merge_input": True, "coverage": True, "bridge": "relu"},
    ],
    ids=lambda options: "-".join(options) or "plain",
)
def test_each_option_alone_is_the_loop(options):
    """The decoder's steps by its own layers: the inputs of each, and their order."""
    model = recurrent("gru_seq2seq", **options).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("attention.weight", "coverage_weight")):
                parameter.mul_(20)
        document, previous = DOCUMENTS[0], [EOS, 5, 6, 7]
        encoded = model.encoder(make_batch([document]))
        got, extra = model.decoder(torch.tensor([previous]), encoder_out=encoded)
        decoder, memory, keys = model.decoder, encoded["encoder_out"][0][0], encoded["keys"][0][0]
        network = next(part for name, part in model.encoder.named_children() if name in ("gru", "lstm"))
        _, last, last_cells = network(model.encoder.embed_tokens(make_batch([document])), torch.zeros(1, 12).bool())
        bridge = torch.relu if options.get("bridge") == "relu" else torch.tanh
        h = bridge(model.encoder.first_state(last))[0]
        c = None if last_cells is None else bridge(model.encoder.first_cell(last_cells))[0]
        after, context = "attention_query" in options, torch.zeros_like(memory[0])
        past, covered = [], torch.zeros(len(memory)).double()
        numbers = [sum(word == V - 1 for word in document[:place]) for place in range(len(document) + 1)]

        def attend(word):
            state = h if c is None else torch.cat([c, h])

            def scores_of(part, keys, *more):
                query = part.from_hidden(state) + (0 if after else part.from_word(word))
                return reference.additive_scores(query[None], keys, part.weight, *more)[0]

            more = () if decoder.coverage_weight is None else (covered[None], decoder.coverage_weight)
            past.append(scores_of(decoder.attention, keys, *more))
            weights = past[-1].softmax(0)
            if decoder.temporal:
                weights = reference.temporal_attention(torch.stack(past))[-1]
            if decoder.sentence_attention is not None:
                by_sentence = scores_of(decoder.sentence_attention, encoded["sentence_keys"][0][0]).softmax(0)
                weights = reference.hierarchical_attention(weights[None], by_sentence[None], numbers)[0]
            return weights, sum(weight * state for weight, state in zip(weights, memory))

        for t, token in enumerate(previous):
            word = decoder.embed_tokens.weight[token]
            if not after:
                weights, context = attend(word)
            x = read = torch.cat([word, context])
            if decoder.merge is not None:
                x = word = decoder.merge.weight @ read + decoder.merge.bias
            gates = [getattr(decoder.cell, f"{name}h") for name in ("weight_i", "weight_h", "bias_i", "bias_h")]
            if c is None:
                h = reference.gru_step(x, h, *gates)
            else:
                h, c = reference.lstm_step(x, h, c, *gates[:3])
            if after:
                weights, context = attend(word)
            covered = covered + weights
            if "readout" in options:
                readout = decoder.readout(torch.cat([h, context]))
            else:
                readout = torch.tanh(decoder.readout(torch.cat([h, word, context])))
            logits = decoder.output_projection.weight @ readout + decoder.output_projection.bias[:, 0]
            torch.testing.assert_close(extra["attn"][0][0, t], weights)
            torch.testing.assert_close(got[0, t], logits)
        assert len(decoder.output_projection.weight[0]) == options.get("readout_dim", 16)
