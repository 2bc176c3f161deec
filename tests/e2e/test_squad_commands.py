"""A tagger of salient words learns SQuAD's answers by the commands of docs/rewards.md, and weights words."""

import corpora
import torch
from helpers import run_command

import fairseq_etads  # noqa: F401  # so that checkpoints load
from fairseq_etads.systems.rewards.trained_rewards import TaggerSaliency
from fairseq_etads.training.task import SummarizationTask

SMALL = ["--encoder-embed-dim", "16", "--encoder-hidden-size", "16", "--optimizer", "adam", "--lr", "0.02"]
SMALL += ["--clip-norm", "2", "--batch-size", "4", "--max-update", "40", "--num-workers", "0", "--cpu", "--seed", "1"]


def test_a_tagger_learns_the_answers(tmp_path):
    corpora.squad(tmp_path / "squad")
    run_command(["etads-corpus", "squad", "--data", "squad", "--out", "squad/text", "--jobs", "1"], cwd=tmp_path)
    # These are the summariser's data. The tagger shares the dictionary.
    for split in ("train", "valid", "test"):
        for side in ("source", "target"):
            text = "Dr. Ada Zeno made the audio in 1800 . It weighs 2 tons , was by No question .\n"
            corpora.write(tmp_path / f"text/{split}.{side}", text * 3)
    run_command(["etads-prepare", "text", "prepared", "--tokens", "word", "--size", "100"], cwd=tmp_path)
    run_command(["etads-prepare", "squad/text", "squad/prepared", "--like", "prepared"], cwd=tmp_path)
    labelled = run_command(["etads-labels", "squad/prepared", "--kind", "words", "--jobs", "1"], cwd=tmp_path)
    assert "30 of 96 tokens of 12 documents are copied" in labelled.stdout, labelled.stdout
    command = ["fairseq-train", "squad/prepared/bin", "--user-dir", "fairseq_etads", "--task", "summarization"]
    command += ["--arch", "word_tagger", "--criterion", "selection_nll", "--labels", "squad/prepared/bin", *SMALL]
    run_command([*command, "--save-dir", "runs/saliency"], cwd=tmp_path)
    tagger = TaggerSaliency(
        str(tmp_path / "runs/saliency/checkpoint_best.pt"), SummarizationTask.of_folder(tmp_path / "prepared/bin")
    )
    words = ["it", "weighs", "2", "tons"]
    (weights,) = tagger([words])
    salient = dict(zip(words, torch.tensor(weights) > 0.5))
    assert salient == {"it": False, "weighs": False, "2": True, "tons": True}, weights
