"""Documents that are encoded once for many searches: the same hypotheses, and each encoder and projection run once."""

import convolutional
import language_models
import pytest
from folders import make_folder

from fairseq_etads import Summarizer
from fairseq_etads.summarizer.encoded_documents import EncodedDocuments

TEXTS = [
    "w1 w2 New w3 new other w9",
    "",
    "W5 w6 w7 Zebra yak w20 w21 w22 w23 w5 w6 w7",
    "only unknown words here",
    "w9",
    " ".join(f"w{number % 40} x{number}" for number in range(50)),
    "w3 w1 w2 w8",
]
CALLS = [
    {},
    {"beam": 1, "no_repeat_ngram_size": 0},
    {"coverage_penalty": 1.0, "stepwise_coverage_penalty": True},
    {"lenpen": 0.0, "min_len": 6},
    {"beam": 5, "max_len": 4, "temperature": 0.7, "replace_unknown": True},
    {},
]
RUNS = [
    {"pointer": "soft", "pointer_continue": True},
    {"pointer": "switch", "target_words": 30, "aggregation": "attn"},
    {"arch": "words_lvt2k_hieratt", "mark": True, "large_vocabulary_trick": 25},
    {"arch": "unified_summarizer", "paper_init": False, "mark": True},
    {"arch": "convs2s", "pointer": "soft", **convolutional.SIZES},
    {"arch": "abs", "pointer": "soft", **language_models.SIZES},
]


def counted(model, is_counted):
    """A list that collects the rows of the first input whenever one of the model's modules is called."""
    rows = []
    for name, module in model.named_modules():
        if is_counted(name):
            module.register_forward_hook(lambda m, args, kwargs, out: rows.append(1), with_kwargs=True)
    return rows


def count_encoded(model):
    """A list that collects the number of documents whenever the encoder runs."""
    documents, forward = [], model.encoder.forward_torchscript

    def counting(net_input):
        documents.append(len(net_input["src_tokens"]))
        return forward(net_input)

    model.encoder.forward_torchscript = counting
    return documents


@pytest.mark.parametrize("run", RUNS, ids=lambda run: "-".join(map(str, run.values())))
def test_each_document_is_encoded_once_and_summaries_are_the_same(run, tmp_path):
    summarizer = Summarizer.load(make_folder(tmp_path, **run)[0], "cpu")
    wanted = [summarizer.summarize(TEXTS, max_tokens=30, **call) for call in CALLS]
    copy = summarizer._copies[None].get_current_copy()
    projected = counted(copy, lambda name: name.startswith("decoder") and name.endswith("encoder_attn.k_proj"))
    encoded = count_encoded(copy)
    repeated = EncodedDocuments(summarizer, TEXTS, max_tokens=30)
    for call, summaries in zip(CALLS, wanted):
        found = repeated.summarize(**call)
        assert [(s.tokens, s.score, s.text) for s in found] == [(s.tokens, s.score, s.text) for s in summaries]
    assert sum(encoded) == repeated.documents == repeated.encoded_once == 6
    assert len(encoded) > 2, "one batch would not show that batches are kept apart"
    layers = sum(name.endswith("encoder_attn.k_proj") for name, _ in copy.decoder.named_modules())
    assert len(projected) == layers * len(encoded)


def test_memory_is_bounded_and_the_others_are_encoded_again(tmp_path):
    summarizer = Summarizer.load(make_folder(tmp_path, pointer="soft")[0], "cpu")
    summarizer.summarize(TEXTS)
    encoded = count_encoded(summarizer._copies[None].get_current_copy())
    everything = EncodedDocuments(summarizer, TEXTS, max_tokens=30)
    calls = CALLS[:3]
    tokens = [[s.tokens for s in everything.summarize(**call)] for call in calls]
    for room in (0, 1, everything.state_bytes // 2, everything.state_bytes):
        encoded.clear()
        repeated = EncodedDocuments(summarizer, TEXTS, max_tokens=30, state_bytes=room)
        assert [[s.tokens for s in repeated.summarize(**call)] for call in calls] == tokens
        again = repeated.documents - repeated.encoded_once
        assert sum(encoded) == repeated.documents + again * (len(calls) - 1)
        assert repeated.state_bytes <= room
        assert (again == 0) == (room == everything.state_bytes) and (again == 6) == (room < 2)
