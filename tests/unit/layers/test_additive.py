"""Attention step by step: values against loops, gradients against autograd's of the plain formula."""

import gc
import weakref

import pytest
import reference
import torch

from fairseq_etads.layers import additive
from fairseq_etads.layers.additive import SharedKeys, SharedStates

DOCUMENTS, STEPS, LENGTH, WIDTH = 2, 3, 4, 5


def random(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def inputs(covered, dtype=torch.float64):
    shapes = {"query": (DOCUMENTS, STEPS, WIDTH), "keys": (DOCUMENTS, LENGTH, WIDTH), "weight": (WIDTH,)}
    if covered:
        shapes |= {"coverage": (DOCUMENTS, STEPS, LENGTH), "coverage_weight": (WIDTH,)}
    return {name: random(*shape).to(dtype).requires_grad_() for name, shape in shapes.items()}


def plain_scores(query, keys, weight, coverage=None, coverage_weight=None):
    inner = query[:, :, None] + keys[:, None]
    if coverage is not None:
        inner = inner + coverage[..., None] * coverage_weight
    return inner.tanh() @ weight


def ours(query, keys, **others):
    return SharedKeys(keys).compute_scores(query, **others)


def one_by_one(query, keys, weight, coverage=None, coverage_weight=None):
    """Attend step by step with the same keys, like a decoder."""
    steps, found = SharedKeys(keys), []
    for t in range(STEPS):
        seen = [] if coverage is None else [coverage[:, t : t + 1], coverage_weight]
        found.append(steps.compute_scores(query[:, t : t + 1], weight, *seen))
    return torch.cat(found, dim=1)


def gradients(scores, given):
    """Gradients of a function in which each score has a different weight."""
    weights = torch.linspace(-2, 2, scores.numel(), dtype=torch.float64).view(scores.shape)
    return torch.autograd.grad((scores * weights).sin().sum(), list(given.values()))


@pytest.mark.parametrize("covered", [False, True])
def test_scores_are_those_of_the_loops(covered):
    given = inputs(covered)
    got = ours(**given)
    for b in range(DOCUMENTS):
        rows = {name: value if value.dim() == 1 else value[b] for name, value in given.items()}
        torch.testing.assert_close(got[b], reference.additive_scores(*rows.values()))


@pytest.mark.parametrize("cached", [1, 2**19])  # a document at a time, and both
@pytest.mark.parametrize("covered", [False, True])
@pytest.mark.parametrize("scores", [ours, one_by_one])
def test_gradients_of_scores_are_those_of_the_plain_formula(monkeypatch, scores, covered, cached):
    monkeypatch.setattr(additive, "_CACHED", cached)
    given = inputs(covered)
    torch.testing.assert_close(gradients(scores(**given), given), gradients(plain_scores(**given), given))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_scores_are_computed_in_at_least_float32(dtype):
    given = inputs(True, dtype)
    got = ours(**given)
    assert got.dtype == torch.float32
    want = plain_scores(**{name: value.double() for name, value in given.items()})
    torch.testing.assert_close(got.double(), want, atol=2e-6, rtol=0)
    for gradient, value in zip(gradients(got, given), given.values()):
        assert gradient.dtype == dtype and gradient.isfinite().all() and gradient.shape == value.shape


def test_steps_that_ask_what_the_last_one_answered():
    """The gradient of a step's query passes through all earlier results."""
    shapes = {"states": (1, LENGTH, WIDTH), "keys": (1, LENGTH, WIDTH), "weight": (WIDTH,)}
    given = {name: random(*shape).requires_grad_() for name, shape in shapes.items()}
    states, keys, weight = given.values()

    def run(scores, read):
        question = torch.ones(1, 1, WIDTH, dtype=torch.float64)
        for _ in range(STEPS):
            question = question + read(scores(question).softmax(-1))
        return question

    steps, memory = SharedKeys(keys), SharedStates(states)
    got = run(lambda question: steps.compute_scores(question, weight), memory.compute_weighted_sum)
    want = run(lambda question: plain_scores(question, keys, weight), lambda weights: torch.bmm(weights, states))
    torch.testing.assert_close(gradients(got, given), gradients(want, given))


class Interruption:
    """A hook of a graph, with the same lifetime, that can interrupt the backward pass."""

    breaks_off = False

    def __call__(self, gradient):
        if self.breaks_off:
            raise RuntimeError("interrupted")


@pytest.mark.parametrize("interrupted", [False, True])
def test_what_an_unfinished_backward_pass_has_recorded_is_discarded(interrupted):
    """The backward pass is interrupted, or needs only the queries' gradient and never reaches the shared tensors."""
    given, hook = {**inputs(False), "states": random(DOCUMENTS, LENGTH, 6).requires_grad_()}, Interruption()
    steps, memory, query = SharedKeys(given["keys"]), SharedStates(given["states"]), given["query"] * 1
    query.register_hook(hook)
    scores = steps.compute_scores(query, given["weight"])
    total = memory.compute_weighted_sum(scores.softmax(-1)).sin().sum()
    expected = torch.autograd.grad(total, list(given.values()), retain_graph=True)
    if interrupted:
        hook.breaks_off = True
        with pytest.raises(RuntimeError, match="interrupted"):
            torch.autograd.grad(total, list(given.values()), retain_graph=True)
        hook.breaks_off = False
    else:
        torch.autograd.grad(total, given["query"], retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(total, list(given.values())), expected)


@pytest.mark.parametrize("interrupted", [False, True])
def test_nothing_is_left_in_memory(interrupted):
    """No reference cycle: without a backward pass, and when one is interrupted, all memory is freed at once."""
    gc.disable()
    try:
        states, hook = random(DOCUMENTS, LENGTH, WIDTH).requires_grad_(), Interruption()
        memory, steps, read = SharedStates(states * 2), SharedKeys(states * 3), states[:, :1] * 1
        read.register_hook(hook)
        for _ in range(3):
            read = memory.compute_weighted_sum(steps.compute_scores(read, random(WIDTH)).softmax(-1))
        if interrupted:
            hook.breaks_off = True
            with pytest.raises(RuntimeError, match="interrupted"):
                read.sum().backward()
        alive = weakref.ref(hook)
        del memory, steps, read, hook
        assert alive() is None
    finally:
        gc.enable()
