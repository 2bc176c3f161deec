"""Checks of the rows of rewrite_cnndm.sh and sumpubmed_rewrite.sh, in addition to recipe_checks.py."""

import json

import torch


def rewritten(rewards, sentences=0, reranked=False):
    """Check labels in order, pairs of sentences, an abstractor of its preset, and an extractor trained on labels or by
    rewards.

    Args:
        sentences: number of sentences that the extractor trained by labels selects.
    """

    def check(run):
        out = run.folder.parent
        head, *rows = (out / "labels/labels.sentences.train").read_text(encoding="utf-8").splitlines()
        assert json.loads(head[2:])["kind"] == "match"
        sources, targets = (
            (out / f"sentences/text/train.{side}").read_text("utf-8").splitlines() for side in ("source", "target")
        )
        assert len(sources) == len(targets) == sum(len(row.split("\t")[1].split()) for row in rows) > 0
        whole = (run.prepared / "tokens/train.source").read_text(encoding="utf-8").replace("\n", " <q> ")
        read = (out / "sentences/prepared/tokens/train.source").read_text(encoding="utf-8").splitlines()
        assert sum(f" {line} <q> " in f" {whole} <q> " for line in read) > 0.9 * len(read), "words have changed"
        abstractor = torch.load(out / "abstractor-1/checkpoints/checkpoint_last.pt", weights_only=True)
        assert abstractor["cfg"]["model"]["_name"] == "sentence_rewriter"
        assert (abstractor["cfg"]["task"]["truncate_source"], abstractor["cfg"]["task"]["truncate_target"]) == (100, 30)
        assert run.option("_name") == "pointer_extractor" and run.option("learn_to_stop") is rewards
        log = (run.folder / "train.log").read_text(encoding="utf-8")
        if rewards:
            assert min(run.figures("critic_loss")) > 0 and "rewritten_rouge1" in log
            new = log.split("does not have them: ")[1].splitlines()[0].split("; ")[0].split(", ")
            assert new == ["stop", "critic.value.weight", "critic.value.bias"]
        else:
            assert "accuracy" in log and not any(name.startswith(("stop", "critic")) for name in run.parameters)
        documents = (run.prepared / "tokens/test.source").read_text(encoding="utf-8").splitlines()
        summaries = (run.folder / run.summaries).read_text(encoding="utf-8").splitlines()
        for document, summary in zip(documents, summaries):
            there = len([part for part in document.split("<q>") if part.strip()])
            count = len(summary.split("<q>"))
            assert count == min(sentences, there) if not rewards else 1 <= count <= there
            assert all(len(part.split()) <= 30 for part in summary.split("<q>"))
            if reranked:
                for part in summary.split("<q>"):
                    words = part.split()
                    trigrams = list(zip(words, words[1:], words[2:]))
                    assert len(set(trigrams)) == len(trigrams)

    return check
