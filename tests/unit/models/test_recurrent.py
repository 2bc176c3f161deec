"""The recurrent family: its encoder, the large-vocabulary trick, and word vectors from a file."""

import pytest
import reference
import torch
from helpers import PAD, RECURRENT, make_batch
from recurrent import DOCUMENTS, MARK, SUMMARIES, V, encode, inputs, log_probs, recurrent, recurrent_task

from fairseq_etads.layers.recurrent import compute_sentence_ids, find_sentence_ends
from fairseq_etads.training.losses import SummarizationNLL


@pytest.mark.parametrize("pointer", ["none", "soft", "switch"])
def test_the_trick_over_all_words_is_the_full_softmax(pointer):
    task = recurrent_task()
    full, tricked = (recurrent("gru_seq2seq", task, pointer=pointer, large_vocabulary_trick=n) for n in (0, V))
    tricked.load_state_dict(full.state_dict())
    tokens, previous = make_batch(DOCUMENTS), make_batch(SUMMARIES)
    torch.testing.assert_close(log_probs(tricked, tokens, previous)[0], log_probs(full, tokens, previous)[0])
    losses, gradients = [], []
    for model in (full, tricked):
        model.train()
        net_input = {**inputs(model, tokens), "prev_output_tokens": previous}
        sample = {"net_input": net_input, "target": previous, "ntokens": 9}
        losses.append(SummarizationNLL(task, label_smoothing=0.1)(model, sample)[0])
        losses[-1].backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    torch.testing.assert_close(losses[1], losses[0])
    for a, b in zip(*gradients):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("arch", ["words_lvt2k", "feats_lvt2k_ptr"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_words_that_only_other_documents_have_are_unknown_in_validation(arch, smoothing):
    """In evaluation, each document has its own list; other words have no probability."""
    task = recurrent_task()
    model = recurrent(arch, task, large_vocabulary_trick=6)
    tokens, target = make_batch([[40, 30], [41, 31]]), make_batch([[41, 30], [40, 31]])
    unknown = torch.where(target == torch.tensor([[41], [40]]), task.target_dictionary.unk(), target)
    net_input, losses = {**inputs(model, tokens), "prev_output_tokens": target}, []
    for summaries in (target, unknown):
        sample = {"net_input": net_input, "target": summaries, "ntokens": 6}
        losses.append(SummarizationNLL(task, label_smoothing=smoothing)(model, sample)[0])
    assert losses[0].isfinite()
    torch.testing.assert_close(losses[0], losses[1])


def test_sentences_are_counted_by_their_marks():
    tokens = make_batch(DOCUMENTS, left=True)
    padding = tokens.eq(PAD)
    ids = compute_sentence_ids(tokens, MARK)
    assert ids[0][~padding[0]].tolist() == [0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2]
    first, last, missing = find_sentence_ends(ids, padding)
    assert missing.sum(1).tolist() == [0, 2, 0, 2, 2]
    width = tokens.shape[1]
    assert first[0].tolist() == [width - 12, width - 9, width - 4]
    assert last[0].tolist() == [width - 10, width - 5, width - 1]
    assert first[3, 0] == last[3, 0] == width - 1


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


def test_word_vectors_of_a_file_are_those_of_the_side_that_asks_for_them(tmp_path):
    path, vector = tmp_path / "vectors.txt", torch.arange(16) / 7
    path.write_text("w1 " + " ".join(str(number) for number in vector.tolist()) + "\n")
    for side, other in (("encoder", "decoder"), ("decoder", "encoder")):
        model = recurrent("gru_seq2seq", **{f"{side}_embed_path": str(path)})
        torch.testing.assert_close(getattr(model, side).embed_tokens.weight[5], vector)
        assert not torch.isclose(getattr(model, other).embed_tokens.weight[5], vector).all()
