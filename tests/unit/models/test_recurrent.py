"""The recurrent family against loops: its encoders, RAS, the pointer-generator, Explicit-Selection, the closed-book
decoder (Chopra et al. 2016, See et al. 2017, Li et al. 2018, Jiang and Bansal 2018).
"""

import re
from unittest import mock

import pytest
import reference
import torch
from fairseq.models import ARCH_MODEL_REGISTRY
from helpers import EOS, PAD, RECURRENT, make_batch, make_dictionary, make_task, model_config
from recurrent import DOCUMENTS, MARK, V, encode, inputs, log_probs, recurrent, recurrent_task, sharpened
from steps import make_sample

from fairseq_etads.layers.additive import DotAttention, SharedStates
from fairseq_etads.layers.recurrent import BidirectionalLSTM
from fairseq_etads.models.rnn_encoder import SOURCE_POSITIONS
from fairseq_etads.pipeline.architectures import count_parameters
from fairseq_etads.training.losses import SummarizationNLL
from fairseq_etads.vocabulary.dictionary import limit_known_words

TASK = recurrent_task()
SUMMARIES = [[5, 45, 7], [8, 44], [9, 10, 11, 43], [13], [50, 14]]
"""43 is the last word that can be generated."""
GAMMA = 0.25
"""The weight of the closed-book decoder's loss."""


def test_the_encoder_is_its_gru_in_both_directions():
    model = recurrent("gru_seq2seq")
    document = make_batch([DOCUMENTS[2]])
    encoded = encode(model, document)
    rnn, x = model.encoder.gru.rnn, model.encoder.embed_tokens(document)[0].detach()
    hidden = RECURRENT["encoder_hidden_size"]
    for suffix, steps, half in (("", range(len(x)), 0), ("_reverse", reversed(range(len(x))), hidden)):
        names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        gates = [getattr(rnn, name + suffix).detach() for name in names]
        state = torch.zeros(hidden)
        for place in steps:
            state = reference.gru_step(x[place], state, *gates)
            got = encoded["encoder_out"][0][0, place, half : half + hidden]
            torch.testing.assert_close(got, state, rtol=0, atol=1e-5)


def convolved(vectors, weight, bias):
    """z of each of the vectors: sums of products over the window around it, zeros outside. weight (D, D, q)."""
    reach = weight.shape[2] // 2
    outside = [torch.zeros_like(vectors[0])] * reach
    padded = [*outside, *vectors, *outside]
    return [bias + sum(weight[:, :, k] @ padded[i + k] for k in range(2 * reach + 1)) for i in range(len(vectors))]


@pytest.mark.parametrize("arch", ["ras_elman", "ras_lstm"])
def test_ras_is_the_papers_equations(arch):
    model = recurrent(arch).double()
    encoder, decoder, document, previous = model.encoder, model.decoder, DOCUMENTS[0], [EOS, 5, 6, 7]
    with torch.no_grad():
        encoder.convolution.weight.mul_(30)  # attention's preferences should show
        got, extra = model(make_batch([document]), None, torch.tensor([previous]))
        known = [word if word < 44 else 3 for word in [*document, EOS]]
        words = [encoder.embed_tokens.weight[word] for word in known]
        placed = [word + encoder.positions.weight[place] for place, word in enumerate(words)]
        keys = convolved(placed, encoder.convolution.weight, encoder.convolution.bias)
        h = c = torch.zeros(12).double()
        for t, token in enumerate(previous):
            scores = torch.stack([key @ h for key in keys])
            weights = torch.stack(reference.softmax_row(list(scores)))
            context = sum(weight * word for weight, word in zip(weights, words))
            x = torch.cat([decoder.embed_tokens.weight[token], context])
            if arch == "ras_elman":
                h = torch.sigmoid(decoder.cell.from_input.weight @ x + decoder.cell.from_hidden.weight @ h)
            else:
                names = ("weight_ih", "weight_hh", "bias_ih")
                h, c = reference.lstm_step(x, h, c, *(getattr(decoder.cell, name) for name in names))
            output = decoder.output_projection
            w_h, w_c = output.weight.split([12, 16], dim=1)
            torch.testing.assert_close(extra["attn"][0][0, t], weights)
            torch.testing.assert_close(got[0, t], w_h @ h + w_c @ context + output.bias[:, 0])
            assert t == 0 or weights.max() - weights.min() > 0.05


def test_words_behind_the_last_position_share_its_vector():
    model = recurrent("ras_elman")
    keys = encode(model, make_batch([[5, 6] * SOURCE_POSITIONS]))["keys"][0][0]
    torch.testing.assert_close(keys[SOURCE_POSITIONS + 3], keys[SOURCE_POSITIONS + 5], rtol=0, atol=1e-5)
    assert not torch.allclose(keys[7], keys[9], atol=1e-2)


def test_dot_attention_has_the_gradient_of_the_plain_product():
    """The projection is computed once for all steps, and works in two backward passes."""
    plain = torch.randn(2, 5, 3, requires_grad=True)
    hidden = torch.randn(4, 2, 3, requires_grad=True)  # steps, documents
    for _ in range(2):
        shared = SharedStates(plain)
        steps = [DotAttention()(step, None, shared).softmax(1) for step in hidden]
        found = torch.autograd.grad(torch.stack(steps).pow(2).sum(), [plain, hidden])
        expected = torch.einsum("tbd,bsd->tbs", hidden, plain).softmax(2)
        want = torch.autograd.grad(expected.pow(2).sum(), [plain, hidden])
        torch.testing.assert_close(torch.stack(steps), expected)
        torch.testing.assert_close(found, want)


def test_ras_begins_with_uniform_weights():
    model = ARCH_MODEL_REGISTRY["ras_elman"].build_model(model_config("ras_elman"), make_task())
    assert all(0.04 < parameter.abs().max() <= 0.05 for parameter in model.parameters())
    assert not model.encoder.embed_tokens.weight[PAD].any()


def test_it_has_exactly_the_papers_parameters():
    """Section 5, at 50,000 words: 21,499,600 without a pointer, which has 1,153 more, and coverage 512."""
    assert count_parameters("pointer_generator", 50_000) == 21_499_600 + 1_153
    assert count_parameters("pointer_generator_coverage", 50_000) == 21_499_600 + 1_153 + 512


def weights_of_decoder(model):
    """Weights by the names that both papers give them, see tests/reference."""
    decoder = model.decoder
    found = {
        **{"E": model.encoder.embed_tokens.weight, "W_x": decoder.merge.weight, "b_x": decoder.merge.bias},
        **{"W_s": decoder.attention.from_hidden.weight, "b_attn": decoder.attention.from_hidden.bias},
        **{"v": decoder.attention.weight, "W_a": decoder.readout.weight, "b_a": decoder.readout.bias},
        **{"W_o": decoder.output_projection.weight, "b_o": decoder.output_projection.bias[:, 0]},
    }
    return found if decoder.coverage_weight is None else {**found, "w_c": decoder.coverage_weight}


def weights_of(model):
    """The weights of a pointer-generator by the names of its paper."""
    encoder, decoder = model.encoder, model.decoder
    names = ("weight_ih", "weight_hh", "bias_ih")
    gate, h = decoder.pointer.gate, decoder.cell.hidden_size  # of [s; c; x; h*], and the paper's order is [h*; c; s; x]
    of_s, of_c, of_x, of_context = gate.weight[0].split(
        [h, h, decoder.merge.out_features, model.encoder.keys.in_features]
    )
    return {
        **weights_of_decoder(model),
        "forward": [getattr(encoder.lstm.rnn, f"{name}_l0") for name in names],
        "backward": [getattr(encoder.lstm.rnn, f"{name}_l0_reverse") for name in names],
        "decoder": [getattr(decoder.cell, name) for name in names],
        **{"B_s": encoder.first_state.weight, "b_s": encoder.first_state.bias, "W_h": encoder.keys.weight},
        **{"B_c": encoder.first_cell.weight, "b_c": encoder.first_cell.bias},
        **{"w": torch.cat([of_context, of_c, of_s, of_x]), "b": gate.bias[0]},
    }


@pytest.mark.parametrize("arch", ["pointer_generator", "pointer_generator_coverage"])
@pytest.mark.parametrize("document", [DOCUMENTS[0], DOCUMENTS[2]], ids=["long", "short"])
def test_it_is_the_papers_equations(arch, document):
    model = sharpened(recurrent(arch).double())
    with torch.no_grad():
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
    model = sharpened(recurrent("gru_seq2seq", **options).double())
    with torch.no_grad():
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


def gru(cell, suffix=""):
    return [getattr(cell, f"{name}{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]


def weights_of_selection(model):
    encoder, decoder = model.encoder, model.decoder
    gate, selector = encoder.sentences.gate, decoder.selector
    words, sentences = encoder.gru.rnn, encoder.sentences.gru.rnn
    return {
        **weights_of_decoder(model),
        **{"words_forward": gru(words, "_l0"), "words_backward": gru(words, "_l0_reverse")},
        **{"sentences_forward": gru(sentences, "_l0"), "sentences_backward": gru(sentences, "_l0_reverse")},
        **{"W_g": torch.cat([gate.state_proj.weight, gate.document_proj.weight], 1), "b_g": gate.document_proj.bias},
        **{"W": selector.first_plan.weight, "W_h": encoder.sentences.keys.weight, "v_s": selector.attention.weight},
        **{"W_q": selector.attention.from_hidden.weight, "b": selector.attention.from_hidden.bias},
        **{"W_r": selector.sentence_start.weight, "b_r": selector.sentence_start.bias, "plan": gru(selector.cell)},
        **{"w": decoder.pointer.gate.weight[0], "b_gen": decoder.pointer.gate.bias[0], "W_c": encoder.keys.weight},
        "decoder": gru(decoder.cell),
    }


@pytest.mark.parametrize("coverage", [False, True])
@pytest.mark.parametrize("document", [DOCUMENTS[0], DOCUMENTS[2], [5, MARK]], ids=["long", "short", "ends-with-a-mark"])
def test_it_is_the_equations(coverage, document):
    """Two sentences of a summary, with an unknown word, and the beginning of a third one."""
    model = sharpened(recurrent("explicit_selection", coverage=coverage).double())
    previous = [EOS, 5, 47, MARK, 6, 7, MARK]
    with torch.no_grad():
        extended, _ = reference.extended_ids([*document, EOS], V)
        want, attention, selections = reference.explicit_selection(
            weights_of_selection(model), [*document, EOS], extended, previous, MARK, unk=3
        )
        found, extra = log_probs(model, make_batch([document]), torch.tensor([previous]))
    selection, p = extra["output"].selection, torch.tensor(selections, dtype=torch.float64)
    torch.testing.assert_close(found[0].exp(), torch.tensor(want, dtype=torch.float64))
    torch.testing.assert_close(extra["attn"][0][0], torch.tensor(attention, dtype=torch.float64))
    torch.testing.assert_close(selection.log_probs[0].exp(), p)
    assert selection.starts[0].nonzero().flatten().tolist() == [0, 3, 6]
    assert (p[0] - 1 / p.shape[1]).abs().max() > 0.005 and (p[0] - p[3]).abs().max() > 1e-3, "a selection that hides"


@pytest.mark.parametrize("known", [43, None], ids=["in the copy tail", "not at all"])
def test_summaries_must_mark_their_sentences(known):
    task = recurrent_task()
    task.tgt_dict = make_dictionary(words=20) if known is None else limit_known_words(task.src_dict, known)
    options = ("hierarchical_attention", "encoder_by_sentence", "sentence_gate", "sentence_selector")
    with pytest.raises(ValueError, match='--sentence-selector needs "<q>" at the ends of sentences in summaries'):
        recurrent("gru_seq2seq", task, **dict.fromkeys(options, True))


def model_of(arch="pointer_generator_coverage", **options):
    torch.manual_seed(1)
    return recurrent(arch, TASK, closed_book_decoder=True, **options).train()


def loss_of(weight=GAMMA):
    return SummarizationNLL(TASK, closed_book_weight=weight)


def gradients(model, criterion, sample):
    model.zero_grad()
    criterion(model, sample)[0].backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def test_the_distribution_and_the_loss_equal_loops():
    """Unknown words count as the unknown word; the loss mixes the two decoders' likelihoods."""
    model, unk = model_of(), TASK.target_dictionary.unk()
    sample = make_sample(None, DOCUMENTS, SUMMARIES)
    encoded = model.encoder(**inputs(model, sample["net_input"]["src_tokens"]))
    decoder = model.decoder.closed_book
    lstm = (*(getattr(decoder.network, f"weight_{name}_l0") for name in ("ih", "hh")),)
    lstm += (decoder.network.bias_ih_l0 + decoder.network.bias_hh_l0,)
    vectors = model.decoder.embed_tokens(sample["net_input"]["prev_output_tokens"])
    known, expected = decoder.output_projection.out_features, 0.0
    for row, summary in enumerate(SUMMARIES):
        first = encoded["first_state"][0][row], encoded["first_cell"][0][row]
        layer = decoder.output_projection.weight, decoder.output_projection.bias
        found = reference.closed_book(lstm, *layer, first, vectors[row])
        for step, word in enumerate([*summary, EOS]):
            expected -= found[step][word if word < known else unk].item()
    loss, _, logs = loss_of()(model, sample)
    assert logs["closed_book_loss"].item() == pytest.approx(expected, rel=1e-5)
    assert loss.item() == pytest.approx((1 - GAMMA) * logs["nll_loss"].item() + GAMMA * expected, rel=1e-5)


@pytest.mark.parametrize("arch", ["pg_coverage", "pointer_generator_coverage"])
def test_the_encoder_gets_another_gradient_unless_it_is_cut_or_the_weight_is_0(arch):
    sample, model = make_sample(None, DOCUMENTS, SUMMARIES), model_of(arch)
    unweighted = gradients(model, loss_of(0.0), sample)
    model.decoder.closed_book = None
    plain = gradients(model, loss_of(0.0), sample)
    assert plain.keys() == unweighted.keys()
    assert all(torch.equal(unweighted[name], plain[name]) for name in plain)
    names = [name for name in plain if name.startswith(("encoder.gru", "encoder.lstm", "encoder.first"))]
    assert names
    for cut in (False, True):
        found = gradients(model_of(arch, closed_book_cut=cut), loss_of(), sample)
        for name in names:
            assert torch.allclose(found[name], (1 - GAMMA) * plain[name], rtol=1e-4, atol=1e-6) == cut, name


@pytest.mark.parametrize("arch", ["pg_coverage", "pointer_generator_coverage"])
def test_validation_and_generation_are_those_without_it(arch):
    """A model loaded for generation does not have it; checkpoints without it, including old ones, load, too."""
    trained = model_of(arch)
    sample = make_sample(None, DOCUMENTS, SUMMARIES)
    with mock.patch.object(type(TASK), "is_loading", True):
        loaded = recurrent(arch, TASK, closed_book_decoder=True)
    assert loaded.decoder.closed_book is None
    loaded.load_state_dict(trained.state_dict())
    tokens, previous = sample["net_input"]["src_tokens"], sample["net_input"]["prev_output_tokens"]
    expected = log_probs(trained.eval(), tokens, previous)[0]
    assert torch.equal(log_probs(loaded.eval(), tokens, previous)[0], expected)
    logs = loss_of()(trained, sample)[2]
    assert "closed_book_loss" not in logs and torch.equal(logs["loss"], loss_of(0.0)(loaded, sample)[2]["loss"])


DEVIATIONS = {
    r"embed_tokens.weight|output_projection..*|first_(state|cell)..*": 0.88e-4,
    r"(rnn|cell|network).weight_.*": 0.02 / 3**0.5,
    r"(rnn|cell|network).bias_.*": None,
    r"(from_hidden|readout|merge|gate).bias": 0.0,
    r"(keys|from_hidden|attention|readout).weight": (2 / 1024) ** 0.5,  # of the sum of widths
    r"coverage_weight": (2 / 513) ** 0.5,
    r"merge.weight": (2 / 768) ** 0.5,
    r"pointer.gate.weight": (2 / 1153) ** 0.5,
}
"""Standard deviations of first weights in See et al.'s code, by patterns of names. A normal distribution cut off at two
deviations has 0.88 of its deviation, a uniform one 1/sqrt(3) of its bound; None: 0, but forget gates 1.
"""


def test_every_parameter_begins_as_in_the_papers_code():
    """Jiang and Bansal train on See et al.'s code, so the second decoder is initialised like the first one."""
    torch.manual_seed(1)
    config = model_config("pointer_generator_coverage", closed_book_decoder=True)  # of the paper's sizes
    model = ARCH_MODEL_REGISTRY["pointer_generator_coverage"].build_model(config, make_task())
    for name, parameter in model.named_parameters():
        (expected,) = (value for end, value in DEVIATIONS.items() if re.search(rf"\b({end})$", name))
        values = parameter.detach().flatten()
        if expected is None:
            values = values.view(4, -1)
            assert values[1].eq(1).all() and not values[[0, 2, 3]].any(), name
        elif expected == 0:
            assert not values.any(), name
        else:
            assert values.std().item() == pytest.approx(expected, rel=0.02 + 3 / len(values) ** 0.5), name
            assert abs(values.mean()) < 4 * expected / len(values) ** 0.5, name


def test_a_checkpoint_with_two_biases_loads():
    weights, name = model_of().state_dict(), "decoder.closed_book.network.bias_ih_l0"
    second = torch.randn_like(weights[name])
    old = {**weights, name: weights[name] - second, name.replace("_ih_", "_hh_"): second}
    other = model_of(paper_init=False)
    other.load_state_dict(old)
    torch.testing.assert_close(other.state_dict(), weights)
