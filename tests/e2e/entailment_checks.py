"""Checks of the rows of entail_gigaword.sh, see recipe_checks.py."""


def entailment(rewards):
    """Check the gate, the optimiser and the search, and the pairs of titles for the auxiliary task or for rewards."""

    def check(run):
        assert str(run.option("encoder_gate")) == "selective" and "encoder.gate.state_proj.weight" in run.parameters
        assert (run.option("clip_norm", "optimization"), run.option("sentence_avg", "criterion")) == (5, True)
        log = (run.folder / "train.log").read_text(encoding="utf-8")
        assert any(key.startswith("pair_classifier.") for key in run.parameters) != rewards
        first = run.folder.parent / "mtl-1/train.log"
        assert "auxiliary_accuracy" in first.read_text(encoding="utf-8")
        assert ("auxiliary_accuracy" in log) != rewards and ("raml_reward" in log) == rewards
        if rewards:
            assert str(run.option("finetune_from_model", "checkpoint")).endswith("mtl-1/checkpoints/checkpoint_best.pt")
            assert all(0 < reward <= 1 for reward in run.figures("raml_reward"))
        assert run.decoding("beam", "unnormalized") == ("10", "on")
        assert "bytes:75" in (run.folder / "duc.json").read_text(encoding="utf-8")

    return check
