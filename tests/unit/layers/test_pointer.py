"""Pointer heads: distributions against loops, gradients, saturation, copied words."""

import math

import pytest
import reference
import torch
from helpers import EOS, PAD, make_batch, make_model, make_task

from fairseq_etads.layers.pointer import AttentionPointer, Pointer

KNOWN, TAIL = 44, 30

DOCUMENTS = [[5, 50, 6, 50, 5, 61, 7], [9, 9, 9], [3, 8, 45, 3], [70, 71, 43, 70], []]
SUMMARIES = [[50, 5, 12], [9], [45, 3, 8], [71, 43], [6, 7]]
"""Known and rare words, one word only, unknown words, rare words and the last known one, and nothing."""


def pointer_model(kind="soft"):
    return make_model("etads", make_task(tail=TAIL), pointer=kind)


def run(model, tokens, summaries):
    previous = torch.full((len(summaries), max(map(len, summaries)) + 1), PAD)
    for row, summary in enumerate(summaries):
        previous[row, : len(summary) + 1] = torch.tensor([EOS, *summary])
    return model(tokens, tokens.ne(PAD).sum(1), previous)


def test_the_mixture_equals_a_loop():
    model = pointer_model()
    tokens = make_batch(DOCUMENTS)
    net_output = run(model, tokens, SUMMARIES)
    logits, pointer = net_output[0].double(), net_output[1]["output"].pointer
    found = model.get_normalized_probs(net_output, log_probs=False)
    for row, document in enumerate(DOCUMENTS):
        extended, own = reference.extended_ids(document, KNOWN)
        for step in range(len(SUMMARIES[row]) + 1):
            expected = reference.pointer_mixture(
                logits[row, step].softmax(-1),
                pointer.log_copy[row, step].exp(),
                pointer.gate[row, step].double().sigmoid().item(),
                extended,
                KNOWN + len(own),
            )
            torch.testing.assert_close(found[row, step, : len(expected)], torch.tensor(expected), rtol=1e-4, atol=1e-7)
            assert not found[row, step, len(expected) :].any(), "a slot that the document does not have"


@pytest.mark.parametrize("kind", ["soft", "switch"])
def test_shortcuts_equal_the_whole_distribution(kind):
    model = pointer_model(kind)
    tokens = make_batch(DOCUMENTS)
    logits, extra = run(model, tokens, SUMMARIES)
    pointer = extra["output"].pointer
    pointer.hard = False
    whole = pointer.compute_log_probs(logits)
    log_vocab = logits.log_softmax(-1)
    targets = pointer.vocab.encode(make_batch(SUMMARIES))
    found, share = pointer.compute_target_log_probs(log_vocab, targets)
    torch.testing.assert_close(found, whole.gather(2, targets[:, :, None])[:, :, 0])
    assert share[0, 0] == 1 and share[4].max() == 0, "only copying gives a rare word, and an empty document none"

    specials = [0, PAD]
    total, count = log_vocab.sum(-1) - log_vocab[:, :, specials].sum(-1), KNOWN - len(specials)
    sums, counts = pointer.sum_log_probs(log_vocab, total, count)
    for row, document in enumerate(DOCUMENTS):
        own = len(reference.extended_ids(document, KNOWN)[1])
        words = [word for word in range(KNOWN + own) if word not in specials]
        torch.testing.assert_close(sums[row], whole[row][:, words].sum(-1), rtol=1e-5, atol=1e-3)
        assert counts[row] == len(words)


def test_the_supervised_switch_equals_a_loop():
    model = pointer_model("switch")
    logits, extra = run(model, make_batch(DOCUMENTS[:4]), SUMMARIES[:4])
    pointer = extra["output"].pointer
    targets = pointer.vocab.encode(make_batch(SUMMARIES[:4]))
    word, decision, point = pointer.compute_supervised_log_probs(logits.log_softmax(-1), targets)
    for row, document in enumerate(DOCUMENTS[:4]):
        extended = reference.extended_ids(document, KNOWN)[0]
        for step, target in enumerate(targets[row, : len(SUMMARIES[row]) + 1].tolist()):
            expected = reference.switch_loss(
                logits[row, step].double().softmax(-1),
                pointer.log_copy[row, step].exp(),
                pointer.gate[row, step].sigmoid().item(),
                extended,
                target,
            )
            assert -(word + decision)[row, step].item() == pytest.approx(expected, rel=1e-4)
            assert point[row, step] == (target >= KNOWN)


def test_copied_positions_are_those_of_a_loop():
    """A word is copied if that gives more than half of its probability, from the position with most attention."""
    logits, extra = run(pointer_model(), make_batch(DOCUMENTS), SUMMARIES)
    pointer, log_vocab, seen = extra["output"].pointer, logits.log_softmax(-1), set()
    pointer.log_copy = (torch.randn(pointer.log_copy.shape) + pointer.log_copy).log_softmax(-1)
    extended = [reference.extended_ids(document, KNOWN)[0] for document in DOCUMENTS]
    for target in (3, 5, 8, 9, 43, 44, 45):
        targets = torch.full(logits.shape[:2], target)
        pointer.gate = torch.randn(pointer.gate.shape) * 4
        found = pointer.find_copied_positions(logits, targets)
        for row, ids in enumerate(extended):
            for step in range(logits.shape[1]):
                places = [place for place, word in enumerate(ids) if word == target]
                attention = pointer.log_copy[row, step].exp()
                p_gen = pointer.gate[row, step].sigmoid()
                generated = p_gen * log_vocab[row, step, target].exp() if target < KNOWN else 0.0
                is_copied = bool(places) and (1 - p_gen) * attention[places].sum() > generated
                expected = max(places, key=lambda place: attention[place]) if is_copied else -1
                assert found[row, step] == expected
                seen.add((bool(places), expected >= 0))
    assert seen == {(True, True), (True, False), (False, False)}


def test_a_word_that_is_as_well_generated_as_copied_is_generated():
    logits, extra = run(pointer_model(), make_batch([[5, 50]]), [[5]])
    pointer = extra["output"].pointer
    pointer.gate = torch.zeros_like(pointer.gate)
    pointer.log_copy = torch.full_like(pointer.log_copy, -math.inf)
    pointer.log_copy[:, :, 0] = logits.log_softmax(-1)[:, :, 5]
    assert pointer.find_copied_positions(logits, torch.tensor([[5, 5]])).tolist() == [[-1, -1]]


@pytest.mark.parametrize("left", [False, True])
def test_copy_attention_is_the_query_on_the_encoders_words(left):
    """softmax of (W h + b)·u over the root of the width, over the words of the document; none in an empty one."""
    head = Pointer(6, 4, "soft")
    torch.nn.init.normal_(head.query.bias)
    tokens = make_batch(DOCUMENTS, left=left)
    vocab = pointer_model().decoder.make_output_vocabulary(tokens).slots
    states, memory = torch.randn(len(tokens), 3, 6), torch.randn(tokens.shape[1], len(tokens), 4)
    output = head(states, memory, vocab)
    assert output.kind == "soft" and not output.hard
    assert output.log_copy[4].eq(-math.inf).all()
    for row in range(4):
        words = [place for place, token in enumerate(tokens[row].tolist()) if token not in (EOS, PAD)]
        for step in range(3):
            query = head.query.weight @ states[row, step] + head.query.bias
            scores = torch.stack([query @ memory[place, row] / 2 for place in words])
            torch.testing.assert_close(output.log_copy[row, step, words], scores.log_softmax(0))
            logit = head.gate.weight[0] @ states[row, step] + head.gate.bias[0]
            torch.testing.assert_close(output.gate[row, step], logit)


def test_the_decoders_own_attention_is_renormalised_over_the_words():
    tokens = make_batch([[5, 50, 6]])
    vocab = pointer_model().decoder.make_output_vocabulary(tokens).slots
    head = AttentionPointer(6, "switch")
    states = torch.randn(1, 1, 6)
    output = head(states, torch.tensor([[[0.1, 0.2, 0.1, 0.6]]]).log(), vocab)  # the last is the end symbol
    torch.testing.assert_close(output.log_copy.exp(), torch.tensor([[[0.25, 0.5, 0.25, 0.0]]]))
    assert output.kind == "switch" and not output.hard, "it decides in evaluation only"
    assert head.eval()(states, torch.zeros(1, 1, 4), vocab).hard
    torch.testing.assert_close(output.gate[0], head.gate.weight @ states[0, 0] + head.gate.bias)


def test_generation_can_begin_with_one_probability_for_all_states():
    head = Pointer(6, 4, "soft")
    head.initialise_generation_probability(0.9)
    torch.testing.assert_close(head.gate(torch.randn(5, 6) * 100).sigmoid(), torch.full((5, 1), 0.9))


@pytest.mark.parametrize("gate,is_copied", [(1e-3, False), (0.0, False), (-1e-3, True), (-30.0, True)])
def test_a_hard_switch_decides_alone_where_a_word_comes_from(gate, is_copied):
    """However small the attention is, a word is copied if the switch says so, and generated otherwise."""
    logits, extra = run(pointer_model("switch"), make_batch([[5, 50]]), [[5]])
    pointer = extra["output"].pointer
    assert pointer.hard
    pointer.gate = torch.full_like(pointer.gate, gate)
    pointer.log_copy = torch.full_like(pointer.log_copy, -math.inf)
    pointer.log_copy[:, :, 0], pointer.log_copy[:, :, 1] = math.log(1e-5), math.log(1 - 1e-5)
    target, log_vocab = torch.tensor([[5, 5]]), logits.log_softmax(-1)
    log_prob, share = pointer.compute_target_log_probs(log_vocab, target)
    expected = torch.full((1, 2), math.log(1e-5)) if is_copied else log_vocab[:, :, 5]
    torch.testing.assert_close(log_prob, expected)
    assert share.tolist() == [[float(is_copied)] * 2] and not pointer.to_mixture().hard
    assert pointer.find_copied_positions(logits, target).tolist() == [[0 if is_copied else -1] * 2]
