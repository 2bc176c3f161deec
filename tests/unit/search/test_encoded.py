"""Documents that are encoded once for many searches: the same hypotheses, and each encoder and projection run once."""

import convolutional
import language_models
import pytest
from folders import make_folder

from fairseq_etads import Summarizer
from fairseq_etads.summarizer.encoded_documents import EncodedDocuments

TEXTS = ["w1 w2 New w3 new other w9", "", "W5 w6 w7 Zebra yak w20 w21 w22 w23 w5 w6 w7", "only unknown words here"]
TEXTS += ["w9", " ".join(f"w{number % 40} x{number}" for number in range(50)), "w3 w1 w2 w8"]
CALLS = [
    {},
    {"beam": 1, "no_repeat_ngram_size": 0},
    {"coverage_penalty": 1.0, "stepwise_coverage_penalty": True},
    {"beam": 5, "max_len": 4, "temperature": 0.7, "replace_unknown": True},
]
RUNS = [
    {"pointer": "soft", "pointer_continue": True},
    {"pointer": "switch", "target_words": 30, "aggregation": "attn"},
    {"arch": "words_lvt2k_hieratt", "mark": True, "large_vocabulary_trick": 25},
    {"arch": "unified_summarizer", "paper_init": False, "mark": True},
    {"arch": "convs2s", "pointer": "soft", **convolutional.SIZES},
    {"arch": "abs", "pointer": "soft", **language_models.SIZES},
]


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
    """In a small memory some documents are kept, and the others are encoded again."""
    summarizer = Summarizer.load(make_folder(tmp_path, **run)[0], "cpu")
    wanted = [summarizer.summarize(TEXTS, max_tokens=30, **call) for call in CALLS]
    copy, projected = summarizer._copies[None].get_current_copy(), []
    projections = [part for name, part in copy.decoder.named_modules() if name.endswith("encoder_attn.k_proj")]
    for projection in projections:
        projection.register_forward_hook(lambda *_: projected.append(1))
    encoded = count_encoded(copy)

    def summarize(**room):
        encoded.clear()
        repeated = EncodedDocuments(summarizer, TEXTS, max_tokens=30, **room)
        for call, summaries in zip(CALLS, wanted):
            found = repeated.summarize(**call)
            assert [(s.tokens, s.score, s.text) for s in found] == [(s.tokens, s.score, s.text) for s in summaries]
        again = repeated.documents - repeated.encoded_once
        assert sum(encoded) == repeated.documents + again * (len(CALLS) - 1)
        return repeated, again

    everything, again = summarize()
    assert everything.documents == 6 and again == 0
    assert len(encoded) > 2, "one batch would not show that batches are kept apart"
    assert len(projected) == len(projections) * len(encoded)
    for room in (0, everything.state_bytes // 2, everything.state_bytes):
        repeated, again = summarize(state_bytes=room)
        assert repeated.state_bytes <= room
        assert (again == 0) == (room == everything.state_bytes) and (again == 6) == (room == 0)
