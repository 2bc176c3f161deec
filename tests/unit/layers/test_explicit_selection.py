"""Explicit-Selection (Li et al. 2018): equations against loops, and the state at sentence marks."""

import pytest
import reference
import torch
from helpers import EOS, PAD, make_batch, make_dictionary
from recurrent import DOCUMENTS, MARK, V, log_probs, recurrent, recurrent_task, sharpened
from torch.nn.functional import one_hot

from fairseq_etads.layers.recurrent import BidirectionalGRU, BidirectionalLSTM, compute_sentence_ids, encode_by_sentence
from fairseq_etads.vocabulary.dictionary import limit_known_words

HIERARCHICAL = {"hierarchical_attention": True, "encoder_by_sentence": True}
SELECTOR = {**HIERARCHICAL, "sentence_gate": True, "sentence_selector": True}


def gru(cell, suffix=""):
    return [getattr(cell, f"{name}{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]


def weights_of(model):
    """A model's weights by the names of the equations, see tests/reference."""
    encoder, decoder = model.encoder, model.decoder
    gate, selector = encoder.sentences.gate, decoder.selector
    words, sentences = encoder.gru.rnn, encoder.sentences.gru.rnn
    found = {
        **{"E": encoder.embed_tokens.weight, "words_forward": gru(words, "_l0")},
        **{"words_backward": gru(words, "_l0_reverse"), "sentences_forward": gru(sentences, "_l0")},
        **{
            "sentences_backward": gru(sentences, "_l0_reverse"),
            "plan": gru(selector.cell),
            "decoder": gru(decoder.cell),
        },
        **{"W_g": torch.cat([gate.state_proj.weight, gate.document_proj.weight], 1), "b_g": gate.document_proj.bias},
        **{"W": selector.first_plan.weight, "W_h": encoder.sentences.keys.weight, "v_s": selector.attention.weight},
        **{"W_q": selector.attention.from_hidden.weight, "b": selector.attention.from_hidden.bias},
        **{"W_r": selector.sentence_start.weight, "b_r": selector.sentence_start.bias},
        **{"W_x": decoder.merge.weight, "b_x": decoder.merge.bias, "W_c": encoder.keys.weight},
        **{"W_s": decoder.attention.from_hidden.weight, "b_attn": decoder.attention.from_hidden.bias},
        **{"v": decoder.attention.weight, "W_a": decoder.readout.weight, "b_a": decoder.readout.bias},
        **{"W_o": decoder.output_projection.weight, "b_o": decoder.output_projection.bias[:, 0]},
        **{"w": decoder.pointer.gate.weight[0], "b_gen": decoder.pointer.gate.bias[0]},
    }
    if decoder.coverage_weight is not None:
        found["w_c"] = decoder.coverage_weight
    return found


@pytest.mark.parametrize("coverage", [False, True])
@pytest.mark.parametrize("document", [DOCUMENTS[0], DOCUMENTS[2], [5, MARK]], ids=["long", "short", "ends-with-a-mark"])
def test_it_is_the_equations(coverage, document):
    """Two sentences of a summary, with an unknown word, and the beginning of a third one."""
    model = sharpened(recurrent("explicit_selection", coverage=coverage).double())
    previous = [EOS, 5, 47, MARK, 6, 7, MARK]
    with torch.no_grad():
        extended, _ = reference.extended_ids([*document, EOS], V)
        want, attention, selections = reference.explicit_selection(
            weights_of(model), [*document, EOS], extended, previous, MARK, unk=3
        )
        found, extra = log_probs(model, make_batch([document]), torch.tensor([previous]))
    torch.testing.assert_close(found[0].exp(), torch.tensor(want, dtype=torch.float64))
    torch.testing.assert_close(extra["attn"][0][0], torch.tensor(attention, dtype=torch.float64))
    torch.testing.assert_close(
        extra["output"].selection.log_probs[0].exp(), torch.tensor(selections, dtype=torch.float64)
    )
    assert extra["output"].selection.starts[0].nonzero().flatten().tolist() == [0, 3, 6]
    p = torch.tensor(selections)
    assert (p[0] - 1 / p.shape[1]).abs().max() > 0.005 and (p[0] - p[3]).abs().max() > 1e-3, "a selection that hides"


@pytest.mark.parametrize("arch", ["explicit_selection", "all_selected"])
def test_selections_last_until_the_next_mark(arch):
    model = sharpened(recurrent(arch))
    previous = torch.tensor([[EOS, 5, 6, MARK, 7, 8, MARK, 9], [EOS, MARK, MARK, 5, 6, 7, 8, 9]])
    _, extra = log_probs(model, make_batch([DOCUMENTS[0]] * 2), previous)
    p = extra["output"].selection.log_probs.exp()
    torch.testing.assert_close(p.sum(2), torch.ones(2, 8))
    for row, starts in enumerate(([0, 3, 6], [0, 1, 2])):
        assert extra["output"].selection.starts[row].nonzero().flatten().tolist() == starts
        for step in range(1, 8):
            changed = not torch.equal(p[row, step], p[row, step - 1])
            assert changed == (step in starts), (row, step)


def test_without_preferences_it_is_the_hierarchical_model_with_uniform_attention_to_sentences():
    """With an open gate, each sentence of the summary is separate: the selector starts each one again."""
    selecting, plain = recurrent("gru_seq2seq", **SELECTOR).double(), recurrent("gru_seq2seq", **HIERARCHICAL).double()
    with torch.no_grad():
        gate = selecting.encoder.sentences.gate
        for weight in (gate.state_proj.weight, gate.document_proj.weight, selecting.decoder.selector.attention.weight):
            weight.zero_()
        gate.document_proj.bias.fill_(50)
        shared = {name: value for name, value in selecting.state_dict().items() if name in plain.state_dict()}
        shared.pop("encoder.sentences.keys.weight")  # the plain model's keys also read positions
        plain.load_state_dict({**plain.state_dict(), **shared})
        plain.decoder.sentence_attention.weight.zero_()
        selecting.decoder.selector.sentence_start.weight.zero_()
        plain.encoder.first_state.weight.zero_()
        plain.encoder.first_state.bias.copy_(selecting.decoder.selector.sentence_start.bias)
    tokens = make_batch(DOCUMENTS)
    whole = [EOS, 5, 6, MARK, 7, 8, MARK, 9]
    found, extra = log_probs(selecting, tokens, torch.tensor([whole] * 5))
    for first, last in ((0, 3), (3, 6), (6, 8)):
        want, other = log_probs(plain, tokens, torch.tensor([whole[first:last]] * 5))
        torch.testing.assert_close(found[:, first:last], want)
        torch.testing.assert_close(extra["attn"][0][:, first:last], other["attn"][0])
    sharpened(selecting)
    with torch.no_grad():
        selecting.decoder.selector.attention.weight.normal_()
    assert (log_probs(selecting, tokens, torch.tensor([whole] * 5))[0] - found).abs().max() > 1e-3


def test_other_order_of_sentences_other_order_of_their_weights():
    """Without information on positions: GRUs over sentences without memory, and no vector of the document."""
    model = sharpened(recurrent("explicit_selection").double())
    hidden = model.encoder.sentences.gru.rnn.hidden_size
    with torch.no_grad():
        for name, weight in model.encoder.sentences.gru.rnn.named_parameters():
            if name.startswith("weight_hh"):
                weight.zero_()
            elif name.startswith("bias_ih"):
                weight[hidden : 2 * hidden] = -60  # the update gate: all of a state is new
        for name, weight in model.encoder.sentences.gru.rnn.named_parameters():
            if name.startswith("weight_ih"):
                weight[hidden : 2 * hidden] = 0
        model.encoder.sentences.gate.document_proj.weight.zero_()
        model.decoder.selector.first_plan.weight.zero_()
    sentences, order = [[5, 6, 45, MARK], [7, MARK], [46, 9, 8, MARK]], [2, 0, 1]
    previous = torch.tensor([[EOS, 5, MARK, 6, MARK, 7]])
    (a, first), (b, second) = (
        log_probs(model, make_batch([[word for sentence in texts for word in sentence]]), previous)
        for texts in (sentences, [sentences[number] for number in order])
    )
    p, permuted = (extra["output"].selection.log_probs[0].exp() for extra in (first, second))
    torch.testing.assert_close(permuted, p[:, [*order, 3]])  # the end symbol counts as a sentence
    assert (p[:, :3] - p[:, order]).abs().max() > 0.01
    torch.testing.assert_close(b[:, :, :V], a[:, :, :V])


@pytest.mark.parametrize("kind", [BidirectionalGRU, BidirectionalLSTM])
@pytest.mark.parametrize("left", [False, True])
def test_each_sentence_is_read_as_if_it_stood_alone(kind, left):
    torch.manual_seed(1)
    network = kind(3, 4, layers=2).double()
    tokens = make_batch(DOCUMENTS, left=left, width=14)
    padding = tokens.eq(PAD)
    x = torch.randn(*tokens.shape, 3).double().requires_grad_()
    for run in (kind._run_packed, kind._run_directions):
        network._run_directions = run.__get__(network)  # the path on a CPU
        ids = compute_sentence_ids(tokens, MARK).masked_fill(padding, 0)
        states, last, cells = encode_by_sentence(network, x, padding, ids)
        assert (states[padding] == 0).all()
        for row in range(len(tokens)):
            ends, parts = [], []
            for number in range(int(ids[row].max()) + 1):
                own = (ids[row] == number) & ~padding[row]
                part, end, cell = network(x[row, own][None], torch.zeros(1, int(own.sum()), dtype=torch.bool))
                parts.append(part[0])
                ends.append((end[0], cell if cell is None else cell[0]))
            torch.testing.assert_close(states[row, ~padding[row]], torch.cat(parts))
            torch.testing.assert_close(last[row], torch.cat([ends[-1][0][:4], ends[0][0][4:]]))
            if cells is not None:
                torch.testing.assert_close(cells[row], torch.cat([ends[-1][1][:4], ends[0][1][4:]]))
        (gradient,) = torch.autograd.grad(states.pow(2).sum(), x)
        assert gradient[~padding].abs().sum(1).min() > 0 and not gradient[padding].any()


@pytest.mark.parametrize("known", [43, None], ids=["in the copy tail", "not at all"])
def test_summaries_must_mark_their_sentences(known):
    task = recurrent_task()
    task.tgt_dict = make_dictionary(words=20) if known is None else limit_known_words(task.src_dict, known)
    with pytest.raises(ValueError, match='--sentence-selector needs "<q>" at the ends of sentences in summaries'):
        recurrent("gru_seq2seq", task, **SELECTOR)


def test_unknown_words_are_copied_from_the_selected_sentence(monkeypatch):
    """The first sentence is selected first, then the second; the model generates nothing."""
    model = recurrent("explicit_selection")
    numbers = iter((0, 1))
    monkeypatch.setattr(
        model.decoder.selector.attention, "forward", lambda *_: 50.0 * one_hot(torch.tensor([next(numbers)]), 2)
    )
    with torch.no_grad():
        model.decoder.pointer.gate.weight.zero_()
        model.decoder.pointer.gate.bias.fill_(-1e4)
    scores, _ = log_probs(model, make_batch([[45, 46, MARK, 47, 48]]), torch.tensor([[EOS, 45, MARK, 47]]))
    copied = scores.exp()[0, :, [V, V + 1, MARK, V + 2, V + 3]]  # of 45, 46, <q>, 47, 48
    torch.testing.assert_close(copied[:2, :3].sum(1), torch.ones(2))
    torch.testing.assert_close(copied[2:, 3:].sum(1), torch.ones(2))
    assert copied[:2, :3].min() > 0 and copied[2:, 3:].min() > 0
