"""Options for a single call through fairseq's hub interface, and wrong values in all places."""

import pytest
from decoding import sharpened
from fairseq.dataclass.configs import FairseqConfig
from fairseq.hub_utils import GeneratorHubInterface
from helpers import make_task
from omegaconf import OmegaConf

TEXTS = ["w1 w2 w3 rare7", "w9 w8", "w5 w6 w7 w20 w21 w22 w23"]


@pytest.fixture
def hub():
    """A small model's hub interface; what each call decoded with is in ``hub.options``."""
    task = make_task(tail=30)
    cfg = OmegaConf.structured(FairseqConfig)
    cfg.task, cfg.tokenizer, cfg.bpe = None, None, None
    cfg.dataset.batch_size = 2
    hub = GeneratorHubInterface(cfg, task, [sharpened(task=task, pointer="soft")])
    build = task.build_generator

    def recorded(*args, **kwargs):
        generator = build(*args, **kwargs)
        hub.options = getattr(generator, "options", None)
        return generator

    task.build_generator = recorded
    return hub


PER_CALL = {
    **{"length_penalty_type": "wu", "ngram_ignore_tokens": "w1 w2", "early_stopping": "admissible", "nbest": 2},
    **{"extractive_weights": [1.0, 0.5, 2.0, 0.0, -0.5], "tokens_to_suppress": ["w5"], "temperature": 1.5},
}


def test_every_option_is_taken_from_the_call(hub):
    for name, value in PER_CALL.items():
        assert all(hub.translate(TEXTS, beam=2, max_len_b=6, **{name: value}))
        assert getattr(hub.options, name) == value, name
    hub.translate(TEXTS, beam=3, lenpen=0.7, unkpen=0.1, allow_unk=True, replace_unknown=True, max_len=9, max_len_b=8)
    found = hub.options
    assert (found.beam, found.lenpen, found.unkpen, found.unnormalized) == (3, 0.7, 0.1, False)
    assert (found.replace_unknown, found.max_len, found.positions) == (True, 8, 9)
    hub.translate(TEXTS, unnormalized=True, replace_unk=True, max_len_b=8)
    assert hub.options.unnormalized and hub.options.replace_unknown


def test_a_call_overrides_the_task_and_leaves_it_as_it_is(hub):
    def lengths(**options):  # in tokens: a random model may write special symbols, which are no words of the text
        return [len(row[0]["tokens"]) - 1 for row in hub.generate([hub.encode(text) for text in TEXTS], **options)]

    hub.task.cfg.exact_length = 3
    assert lengths(exact_length=6) == [6, 6, 6]
    assert lengths() == [3, 3, 3]
    assert lengths(exact_length=0, max_len_b=2, min_len=2) == [2, 2, 2]
