"""Planted faults of GPU code must make other tests here fail."""

import pytest
import torch
from device_steps import PRETENDED, make_trainer, run_steps, waits_of_a_step
from test_search_cuda import search

from fairseq_etads.layers.embedding import VocabularyEmbedding
from fairseq_etads.layers.pointer import PointerHead
from fairseq_etads.models.rnn_encoder import RecurrentEncoder
from fairseq_etads.models.transformer import SummarizationTransformerEncoder
from fairseq_etads.search.search_rules import NGramBlocker

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


def test_a_tensor_left_on_the_cpu(monkeypatch):
    plain = PointerHead.point

    def forgetful(self, states, scores, vocab, history=None):
        bias = torch.zeros(scores.shape[2])  # on the CPU
        return plain(self, states, scores + bias, vocab, history)

    monkeypatch.setattr(PointerHead, "point", forgetful)
    with pytest.raises(RuntimeError, match=r"cuda:0"):
        run_steps(*make_trainer("etads", "cuda", pointer="soft"))
    with pytest.raises(RuntimeError, match=r"cuda:0"):
        search("pointer", "cuda")


def test_an_item_in_the_search(monkeypatch):
    plain = NGramBlocker.block_repeats

    def asking(self, tokens, lprobs, exempt=None):
        if lprobs.max().item() > 1:
            raise AssertionError
        return plain(self, tokens, lprobs, exempt)

    options = {"no_repeat_ngram_size": 2, "max_len_b": 30, "min_len": 25}
    _, steps, before = search("pointer", "cuda", **options)
    monkeypatch.setattr(NGramBlocker, "block_repeats", asking)
    _, _, after = search("pointer", "cuda", **options)
    before, after = (sum(waits.syncs.values()) / steps for waits in (before, after))
    assert before <= 1 < after, "the budget of test_waits_cuda.py is exceeded"


def test_an_item_in_a_training_step(monkeypatch):
    plain = VocabularyEmbedding.forward

    def asking(self, input):
        assert input.max().item() >= 0
        return plain(self, input)

    monkeypatch.setattr(VocabularyEmbedding, "forward", asking)
    waits = waits_of_a_step(*make_trainer("etads_basic", "cuda", optimizer="adam"))
    assert sum(waits.syncs.values()) > 5
    assert any("embedding.py" in where or "test_planted" in where or "transformer" in where for _, where in waits.syncs)


def test_a_mask_that_half_precision_does_not_hold(monkeypatch):
    plain = PointerHead.point

    def masked(self, states, scores, vocab, history=None):
        narrow = scores.to(states.dtype)
        narrow = narrow.masked_fill(~vocab.expand_rows(vocab.copyable, states)[:, None], -1e9)
        return plain(self, states, narrow, vocab, history)

    monkeypatch.setattr(PointerHead, "point", masked)
    run_steps(*make_trainer("etads", "cuda", "fp32", pointer="soft"))
    with pytest.raises(RuntimeError, match="overflow"):
        run_steps(*make_trainer("etads", "cuda", "fp16", pointer="soft"))


@pytest.mark.parametrize(
    "arch, encoder, options",
    [("feats_lvt2k", RecurrentEncoder, {}), ("etads", SummarizationTransformerEncoder, {"source_factors": "all"})],
)
def test_a_factor_that_is_not_moved(arch, encoder, options, monkeypatch):
    plain = encoder.forward

    def forgetful(self, src_tokens, *args, factors=None, **kwargs):
        return plain(self, src_tokens, *args, factors=None if factors is None else factors.cpu(), **kwargs)

    monkeypatch.setattr(encoder, "forward", forgetful)
    with pytest.raises(RuntimeError, match=r"cuda:0|same device"):
        run_steps(*make_trainer(arch, "cuda", **options))


@pytest.mark.skipif(not PRETENDED, reason="of the simulated device")
def test_the_pretended_device_refuses_both_devices_in_one_operator():
    with pytest.raises(RuntimeError, match="with the CPU's"):
        torch.ones(2, device="cuda") @ torch.ones(2)
