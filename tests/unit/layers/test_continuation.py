"""Continuation features of the copy attention, against a loop."""

import pytest
import reference
import torch
from helpers import EOS, PAD, RECURRENT, make_batch, make_model, make_task

from fairseq_etads.layers.pointer import CopyHistory

TAIL, UNK = 30, 3
# known and rare words, repetitions, an unknown word, one word alone, and nothing
DOCUMENTS = [[5, 50, 6, 50, 5, 61, 7], [9, 9, 9], [3, 8, 45, 3], [70, 71, 70, 71, 72], [52], []]
SUMMARIES = [[50, 6, 50, 12], [9, 9], [45, 3, 8], [70, 71, 72], [52, 52], [6, 7]]
FAMILIES = {"etads": {}, "gru_seq2seq": RECURRENT}


def model_of(arch, continues):
    return make_model(arch, make_task(tail=TAIL), pointer="soft", pointer_continue=continues, **FAMILIES[arch])


def previous_of(summaries, left=False):
    width = max(map(len, summaries)) + 1
    rows = [[EOS, *summary] for summary in summaries]
    return torch.tensor([[PAD] * (width - len(r)) + r if left else r + [PAD] * (width - len(r)) for r in rows])


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("steps", [1, 3, 5])
def test_the_features_are_those_of_the_loop(steps, left):
    tokens, previous = make_batch(DOCUMENTS, left=left, width=9), previous_of(SUMMARIES, left)
    history = CopyHistory.from_summary(previous, tokens, steps, UNK)
    shown = 0
    for row, document in enumerate(DOCUMENTS):
        offset = tokens.shape[1] - len(document) - 1 if left else 0
        start = previous.shape[1] - len(SUMMARIES[row]) - 1 if left else 0
        for step in range(previous.shape[1] - steps, previous.shape[1]):
            count = step - start
            if not 0 <= count <= len(SUMMARIES[row]):
                continue  # padding
            expected = reference.copy_history(document, SUMMARIES[row][:count], UNK)
            place = step - (previous.shape[1] - steps)
            found = torch.stack([feature[row, place] for feature in history], dim=1)
            assert found[offset : offset + len(document)].tolist() == [list(features) for features in expected]
            shown += sum(map(sum, expected))
    assert shown >= 3, "nothing was shown"


@pytest.mark.parametrize("arch", FAMILIES)
def test_the_pointer_adds_what_the_features_are_worth(arch):
    """The logits of the copy attention and of p_gen, against a loop over positions."""
    model, plain = model_of(arch, continues=True), model_of(arch, continues=False)
    plain.load_state_dict({k: v for k, v in model.state_dict().items() if ".continuation." not in k})
    head, inputs, tokens = model.decoder.pointer.continuation, {}, make_batch(DOCUMENTS)
    head.register_forward_hook(lambda _, given, __: inputs.update(states=given[0]))
    with torch.no_grad():
        for parameter in head.parameters():  # as after training: every feature matters
            parameter.normal_()
        with_features, without = (
            m(tokens, tokens.ne(PAD).sum(1), previous_of(SUMMARIES))[1]["output"].pointer for m in (model, plain)
        )
    for row, document in enumerate(DOCUMENTS[:-1]):
        for step in range(len(SUMMARIES[row]) + 1):
            features = reference.copy_history(document, SUMMARIES[row][:step], UNK)
            values = head.values.weight @ inputs["states"][row, step] + head.values.bias
            added = sum(head.gate[k] for k in (0, 1) if any(feature[k] for feature in features))
            gate = without.gate[row, step] + added
            torch.testing.assert_close(with_features.gate[row, step], gate, rtol=1e-4, atol=1e-4)
            logits = without.log_copy[row, step, : len(document)].clone()
            for position, feature in enumerate(features):
                logits[position] += sum(values[k] for k in range(3) if feature[k])
            found = with_features.log_copy[row, step, : len(document)]
            torch.testing.assert_close(found, logits.log_softmax(0), rtol=1e-4, atol=1e-4)
