"""Correlations against scipy, and the command on made and on published ratings."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fairseq_etads.commands.correlate import compute_kendall, compute_pearson, compute_spearman, correlate, main

SUMMEVAL = Path(os.environ.get("ETADS_CORPORA", "no folder")) / "summeval" / "summeval.jsonl.xz"


@settings(max_examples=100)
@given(st.integers(3, 8).flatmap(lambda n: st.tuples(*[st.lists(st.integers(0, 4), min_size=n, max_size=n)] * 2)))
def test_correlations_equal_those_of_scipy(rows):
    x, y = np.array(rows, dtype=float)
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert all(np.isnan(compute(x, y)) for compute in (compute_pearson, compute_spearman, compute_kendall))
        return
    assert compute_pearson(x, y) == pytest.approx(stats.pearsonr(x, y)[0])
    assert compute_spearman(x, y) == pytest.approx(stats.spearmanr(x, y)[0])
    assert compute_kendall(x, y) == pytest.approx(stats.kendalltau(x, y)[0])


def test_summaries_are_correlated_within_documents_and_systems_by_their_means():
    ratings = np.array([[1.0, 2, 3], [3, 2, 1], [5, 5, 5]])
    found = correlate(np.array([[10.0, 20, 30], [10, 20, 30], [10, 20, 60]]), ratings, 50, 1)["pearson"]
    assert found["summary"][0] == 0, "1 and -1; the document with equal ratings has no correlation"
    assert np.isnan(correlate(ratings, np.array([[9.0, 9, 9], [1, 2, 3], [3, 2, 1]]), 5, 1)["kendall"]["system"][0])
    assert found["summary"][1] <= 0 <= found["summary"][2]


def test_the_command_reads_ratings(tmp_path, capsys):
    systems = {"a": "the cat sat", "b": "the dog", "c": "rain"}
    human = {"a": {"good": 5}, "b": {"good": 3}, "c": {"good": 1}}
    row = {"references": ["the cat sat", "a cat sat"], "systems": systems, "human": human}
    path = tmp_path / "rated.jsonl"
    path.write_text(f"{json.dumps(row)}\n" * 2)
    assert main([str(path), "--bootstrap", "5", "--metrics", "1", "--json", str(tmp_path / "out.json")]) == 0
    assert "mean-of:2" in capsys.readouterr().out
    found = json.loads((tmp_path / "out.json").read_text())["correlations"]["rouge1"]["good"]
    assert found["kendall"] == {"summary": [1.0] * 3, "system": [1.0] * 3}
    path.write_text(json.dumps(row) + "\n" + json.dumps({**row, "systems": {"a": "x"}}) + "\n")
    assert main([str(path)]) != 0 and "line 2" in capsys.readouterr().err


@pytest.mark.skipif(not SUMMEVAL.is_file(), reason="ETADS_CORPORA names no folder with SummEval (Fabbri et al. 2021)")
def test_published_correlations_with_consistency_come_out(tmp_path):
    main([str(SUMMEVAL), "--bootstrap", "5", "--json", str(tmp_path / "out.json"), "--quiet"])
    found = json.loads((tmp_path / "out.json").read_text())["correlations"]
    values = [found[metric]["consistency"]["spearman"]["summary"][0] for metric in ("rouge1", "rouge2", "rougeL")]
    assert values == pytest.approx([0.160, 0.187, 0.115], abs=0.001)  # as in Liu et al. 2023 (G-Eval), table 1
