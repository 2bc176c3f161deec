"""Checks of the rows of ABS and ABS+: short word vectors, summaries of one length, tuned weights."""

import json


def has_weights(run, features):
    """Check whether summaries were found with tuned weights of the extractive features, or without any."""
    weights = ""
    if features:
        report = json.loads((run.folder.parent / "tuning-1" / "mert.json").read_text(encoding="utf-8"))
        weights = report["extractive_weights"]
        assert report["metric"] == "rouge1-recall75" and weights.count(",") == 4
    log = (run.folder / "summaries.txt.log").read_text(encoding="utf-8")
    assert f"'extractive_weights': '{weights}'" in log


def attention_based(features):
    """Check scaled word vectors, exact lengths, and the absence of unknown words; ``features``: weights were tuned."""

    def check(run):
        for table in ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.embed_context"):
            lengths = run.parameters[f"{table}.weight"].norm(dim=1)
            assert lengths.max() < 1.1 and (abs(lengths - 1) < 0.1).any(), f"{table}: {lengths}"
        for file, length in (("summaries.txt", 8), ("duc.txt", 14)):
            tokens = run.tokens(file)
            assert all(len(words) == length for words in tokens) and run.unprinted(file) == 0, tokens
            assert not any("<unk>" in words for words in tokens)
        decoding = {"recombine": "5", "no_repeat_ngram_size": "1", "unkpen": "inf", "exact_length": "8"}
        assert {name: run.decoding(name) for name in decoding} == decoding
        assert "bytes:75" in (run.folder / "duc.json").read_text(encoding="utf-8")
        has_weights(run, features)

    return check
