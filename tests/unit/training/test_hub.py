"""Options for a single call through fairseq's hub interface."""

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
    cfg.task, cfg.tokenizer, cfg.bpe, cfg.dataset.batch_size = None, None, None, 2
    hub = GeneratorHubInterface(cfg, task, [sharpened(task=task, pointer="soft")])
    build = task.build_generator

    def recorded(*args, **kwargs):
        generator = build(*args, **kwargs)
        hub.options = generator.options
        return generator

    task.build_generator = recorded
    return hub


def test_every_option_is_taken_from_the_call(hub):
    for given in (
        {"ngram_ignore_tokens": "w1 w2", "extractive_weights": [1.0, 0.5, 2.0, 0.0, -0.5], "nbest": 2},
        {"length_penalty_type": "wu", "tokens_to_suppress": ["w5"], "temperature": 1.5, "unnormalized": True},
        {"lenpen": 0.7, "unkpen": 0.1, "allow_unk": True, "replace_unknown": True, "early_stopping": "admissible"},
    ):
        assert all(hub.translate(TEXTS, beam=3, max_len=9, max_len_b=8, **given))
        for name, value in {**given, "beam": 3, "max_len": 8, "positions": 9}.items():
            assert getattr(hub.options, name) == value, name


def test_a_call_overrides_the_task_and_leaves_it_as_it_is(hub):
    def lengths(**options):  # in tokens: a random model may write special symbols, which are no words of the text
        return [len(row[0]["tokens"]) - 1 for row in hub.generate([hub.encode(text) for text in TEXTS], **options)]

    hub.task.cfg.exact_length = 3
    assert lengths(exact_length=6) == [6, 6, 6]
    assert lengths() == [3, 3, 3]
    assert lengths(exact_length=0, max_len_b=2, min_len=2) == [2, 2, 2]
