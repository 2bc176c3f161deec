"""Checks of the rows of ABS and ABS+: short word vectors, summaries of one length, tuned weights."""

import json


def has_weights(run, features):
    """Check whether summaries were found with tuned weights of the extractive features, or without any."""
    weights = ""
    if features:
        report = json.loads((run.folder.parent / "tuning-1" / "mert.json").read_text(encoding="utf-8"))
        weights = report["extractive_weights"]
        assert report["metric"] == "rouge1-recall75" and weights.count(",") == 4
    assert run.decoding("extractive-weights") == (weights,)


def attention_based(features):
    """Check scaled word vectors, exact lengths, and a penalty of unknown words; ``features``: weights were tuned."""

    def check(run):
        for table in ("encoder.embed_tokens", "decoder.embed_tokens", "decoder.embed_context"):
            lengths = run.parameters[f"{table}.weight"].norm(dim=1)
            assert lengths.max() < 1.1 and (abs(lengths - 1) < 0.1).any(), f"{table}: {lengths}"
        for file, length in (("summaries.txt", "8"), ("duc.txt", "14")):
            assert run.decoding("exact-length", file=file) == (length,)
        assert run.decoding("recombine", "no-repeat-ngram-size", "unkpen") == ("5", "1", "1000000")
        assert "bytes:75" in (run.folder / "duc.json").read_text(encoding="utf-8")
        has_weights(run, features)

    return check
