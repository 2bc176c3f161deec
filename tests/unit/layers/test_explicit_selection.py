"""Explicit-Selection (Li et al. 2018): equations against loops, and the state at sentence marks."""

import pytest
import reference
import torch
from helpers import EOS, make_batch, make_dictionary
from recurrent import DOCUMENTS, MARK, V, log_probs, recurrent, recurrent_task, sharpened

from fairseq_etads.vocabulary.dictionary import limit_known_words

SELECTOR = dict.fromkeys(("hierarchical_attention", "encoder_by_sentence", "sentence_gate", "sentence_selector"), True)


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
        **{"sentences_backward": gru(sentences, "_l0_reverse"), "plan": gru(selector.cell)},
        **{"decoder": gru(decoder.cell)},
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
    with pytest.raises(ValueError, match='--sentence-selector needs "<q>" at the ends of sentences in summaries'):
        recurrent("gru_seq2seq", task, **SELECTOR)
