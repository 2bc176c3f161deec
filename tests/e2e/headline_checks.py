"""Checks of the rows of debian_headlines.sh without a check elsewhere; see recipe_checks.py."""

import json

from abs_checks import has_weights
from recipe_checks import debian_transformer


def with_replacement(check):
    """Run ``check``, and check that training and decoding match the other systems', with unknown words replaced."""

    def both(run):
        check(run)
        assert str(run.option("_name", "optimizer")) == "adam"
        assert run.option("batch_size", "dataset") == 50 and run.decoding("beam") == ("5",)
        assert not any("<unk>" in words for words in run.tokens()), "an unknown word was not replaced"

    return both


def ras(cell):
    """Check attention by a convolution over words and positions, and the decoder's cell."""

    def check(run):
        assert "encoder.positions.weight" in run.parameters
        assert str(run.option("rnn_cell")) == cell

    return with_replacement(check)


def attention_based(features):
    """Check that summaries have seven words, none unknown; ``features``: weights were tuned."""

    def check(run):
        assert run.decoding("exact-length") == ("7",)
        has_weights(run, features)

    return with_replacement(check)


def entailment(run):
    """Check the selective gate, the auxiliary task on pairs, and their reward; all texts are split in the same way."""
    assert "encoder.gate.state_proj.weight" in run.parameters
    log = (run.folder / "beside_entailment/train.log").read_text(encoding="utf-8")
    words = json.loads((run.prepared / "prepare.json").read_text(encoding="utf-8"))["settings"].get("words", "moses")
    judge = json.loads((run.folder.parent / "nli/model/config.json").read_text(encoding="utf-8"))
    assert "auxiliary_accuracy" in log and f"'auxiliary_words': {words}," in log
    assert judge["model"]["words"] == words
    assert all(0 < reward <= 1 for reward in run.figures("raml_reward"))


def convolutional(run):
    assert {int(key.split(".")[2]) for key in run.parameters if ".convolutions." in key} == {0, 1, 2}


HEADLINES = {
    "ras_lstm": ras("lstm"),
    "abs": attention_based(False),
    "abs-plus": attention_based(True),
    "entail": with_replacement(entailment),
    "convs2s": with_replacement(convolutional),
    "gated_es_transformer": with_replacement(debian_transformer(shared=True, gate=True)),
}
