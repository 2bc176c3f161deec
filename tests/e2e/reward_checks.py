"""Checks of the rows of recipes that train with rewards or with a closed-book decoder; see recipe_checks."""

import json

import pytest
from recipe_checks import continuation, recurrent


def rewarded(has_rewards, again=False):
    """Check that summaries were drawn and rewarded, and whether training started from the row likelihood's model."""

    def check(run):
        continuation(True)(run)
        log = (run.folder / "train.log").read_text(encoding="utf-8")
        assert ("sampled_words" in log and "reward_rougeL" in log) == has_rewards
        first = str(run.option("finetune_from_model", "checkpoint"))
        assert first.endswith("likelihood-1/checkpoints/checkpoint_best.pt") == again

    return check


def closed_book(has_it=True, coverage=False, rewards=False):
    """Check See et al.'s model with rewards and a second decoder, which is only used in training."""

    def check(run):
        recurrent(pointer="soft", coverage=coverage, words=(36, 36))(run)
        assert any(key.startswith("decoder.closed_book.") for key in run.parameters) == has_it
        assert run.option("closed_book_weight", "criterion") == pytest.approx(0.667 if has_it else 0)
        log = (run.folder / "train.log").read_text(encoding="utf-8")
        assert ("closed_book_loss" in log) == has_it and ("reward_rougeL" in log) == rewards
        if rewards:
            assert "loaded" in log and "but not in this model" not in log
            assert run.option("best_checkpoint_metric", "checkpoint") == "rougeL"
        assert run.decoding("min-len", "max-len") == ("35", "120")

    return check


def going_on(rewards=(), closed_book=False, again=False):
    """Check pg_coverage with a second decoder, or continued from base by likelihood or with alternating rewards."""

    def check(run):
        recurrent(pointer="soft", coverage=True, words=(12, 12))(run)
        assert any(key.startswith("decoder.closed_book.") for key in run.parameters) == closed_book
        log = (run.folder / "train.log").read_text(encoding="utf-8")
        assert {name for name in ("rougeL", "rougesal", "entail") if f"reward_{name}" in log} == set(rewards)
        first = str(run.option("init_from", "task") or "")
        assert first.endswith("base-1/checkpoints/checkpoint_last.pt") == (bool(rewards) or again)
        assert run.option("lr", "optimization") == [1e-4 if rewards or again else 1e-3]
        also = json.loads((run.folder / "rouge.json").read_text(encoding="utf-8"))["also"]["scores"]
        assert set(also) == {"ROUGESal", "entailment"} and all(0 <= score["mean"] <= 100 for score in also.values())

    return check


def rougesal(run):
    """Check that See et al.'s model with coverage continues with both rewards; entailment was learned from the
    summaries.
    """
    assert str(run.option("pointer")) == "soft" and any("coverage_weight" in key for key in run.parameters)
    log = (run.folder / "train.log").read_text(encoding="utf-8")
    assert "loaded" in log and "but not in this model" not in log and "--rougesal-saliency idf: reading 13 " in log
    for reward in ("rougesal", "entail"):
        assert all(0 <= value <= 1 for name in ("reward", "greedy") for value in run.figures(f"{name}_{reward}"))
    nli = run.folder.parent / "nli"
    assert (nli / "pairs/train.tsv").read_text(encoding="utf-8").count("\tentailment\n") >= 13
    training = json.loads((nli / "model/config.json").read_text(encoding="utf-8"))["training"]
    assert training["options"]["train"][0].endswith("nli/pairs/train.tsv") and 0 <= training["accuracy"] <= 1
    assert run.option("entail_model", "criterion").endswith("nli/model")
    assert run.decoding("min-len", "max-len") == ("35", "120")
