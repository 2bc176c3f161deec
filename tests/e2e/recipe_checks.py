"""Checks of a recipe's rows: each function returns a check of a :class:`recipes.Run`."""

import json

import pytest
from recipes import STEPS, Run


def etads(focus=(), saliency=(), encoder=4, decoder=4):
    """Check the layers with the mechanisms, counted from 1, the output's bias, the steps of Noam, and the search."""

    def check(run):
        assert (run.layers("focal."), run.layers("gate_q_proj")) == (set(focus), set(saliency))
        assert run.layers("encoder.layers") == set(range(1, encoder + 1))
        assert run.layers("decoder.layers") == set(range(1, decoder + 1))
        words, bias = run.parameters["encoder.embed_tokens.weight"], run.parameters["decoder.output_projection.bias"]
        assert len(words) == len(bias) == run.dictionary("source").known_words == 40
        assert bias.abs().max() > 0, "it was not trained"
        rates = run.figures("lr")  # with Noam's schedule, a short training warms up for a tenth of its steps
        warmup = (STEPS + 9) // 10
        assert (max(rates), rates[-1]) == pytest.approx((4.94e-4, 4.94e-4 * (warmup / STEPS) ** 0.5), rel=1e-3)
        assert run.option("clip_norm", "optimization") == 2 and run.option("max_tokens", "dataset") == 4096
        assert run.decoding("beam", "min-len", "max-len", "lenpen") == ("10", "35", "100", "0.9")
        assert run.decoding("coverage-penalty", "length-penalty-type") == ("1", "wu")

    return check


def best_settings(run):
    """Check that the recipe of train.sh chose the settings, and that all references of a document count."""
    assert run.option("_name", "optimizer") == "muon" and run.option("pointer_continue")
    signature = json.loads((run.folder / "rouge.json").read_text(encoding="utf-8"))["signature"]
    assert "|refs:3,best|" in signature


def long_documents(words):
    """Check that the model read the sentences and levels of an extractor, and that a content model chose sentences."""

    def check(run):
        assert run.option("source_factors") == "salience" and run.option("_name", "optimizer") == "muon"
        made = json.loads((run.folder / "shortened/text/train.source.made.json").read_text(encoding="utf-8"))
        assert made["command"][-2:] == ["--words", str(words)]
        assert (run.folder / "shortened/extractor/content.npz").is_file()
        assert run.decoding("content")[0].endswith("shortened/extractor")

    return check


def aggregation(kind, history=0, encoder=4, decoder=4):
    """Check the kind of aggregation, the number of earlier layers, the pointer and the search."""

    def check(run):
        assert run.layers("encoder.layers") == set(range(1, encoder + 1))
        assert run.layers("decoder.layers") == set(range(1, decoder + 1))
        assert str(run.option("aggregation")) == kind
        assert kind == "none" or run.option("aggregation_layers") == history
        weights = {key: value for key, value in run.parameters.items() if "encoder.aggregation" in key}
        attentions = [value for key, value in weights.items() if key.endswith("q_proj.weight")]
        assert len(attentions) == {"none": 0, "add": 0, "proj": 1, "attn": history}[kind]
        widths = [value.shape[1] for value in weights.values() if value.dim() == 2]
        assert (max(widths) == 16 * history) if kind == "proj" else all(width == 16 for width in widths)
        assert min(run.figures("copied")) > 0 and run.copied_unknown_words() > 0
        assert run.decoding("no-repeat-ngram-size", "min-len", "max-len", "lenpen") == ("3", "50", "120", "2")
        assert " --lr 1e-4 --lr-scheduler reduce_lr_on_plateau " in (run.folder / "finished.txt").read_text()

    return check


def encoder_sharing(shared, gate):
    def check(run):
        assert ("decoder.layers.0.fc1.weight" not in run.parameters) == shared, "a checkpoint stores them once"
        assert any(key.startswith("encoder.gate.") for key in run.parameters) == gate
        assert run.parameters["decoder.output_projection.bias"].abs().max() > 0
        assert [len(run.parameters[f"{side}.embed_tokens.weight"]) for side in ("encoder", "decoder")] == [16, 8]
        assert not any("<unk>" in words for words in run.tokens()), "an unknown word was not replaced"
        assert run.decoding("replace-unknown") == ("on",)
        assert run.decoding("max-len", file="duc.txt") == ("30",)
        report = (run.folder / "duc.json").read_text(encoding="utf-8")
        assert "refs:4" in report and "bytes:75" in report

    return check


def debian_transformer(focus=False, saliency=False, pointer=False, aggregation=False, shared=False, gate=False):
    def check(run):
        assert bool(run.layers("focal.")) == focus and bool(run.layers("gate_q_proj")) == saliency
        has = {name: any(key.startswith(name) for key in run.parameters) for name in MEMORY}
        assert has == dict(zip(MEMORY, (pointer, aggregation, gate)))
        assert ("decoder.layers.0.fc1.weight" not in run.parameters) == shared
        for mechanism, figure in ((pointer, "p_gen"), (saliency, "gate"), (focus, "focus_scope")):
            assert not mechanism or min(run.figures(figure)) > 0

    return check


def continuation(has_it):
    """Check whether the copy attention has features of continuation."""

    def check(run):
        debian_transformer(focus=True, saliency=True, pointer=True)(run)
        assert any("pointer.continuation" in key for key in run.parameters) == has_it

    return check


MEMORY = ("decoder.pointer.", "encoder.aggregation.", "encoder.gate.")


def recurrent(trick=0, sentences=False, temporal=False, factors=(), pointer="none", coverage=False, words=None):
    """Check a recurrent model's mechanisms; ``words`` are the numbers of known words in documents and summaries."""

    def check(run):
        assert run.option("large_vocabulary_trick") == trick
        assert run.option("temporal_attention") is temporal
        assert any("sentence" in key for key in run.parameters) == sentences
        found = {key.split(".")[2] for key in run.parameters if key.startswith("encoder.factors.")}
        assert found == set(factors)
        assert any("coverage" in key for key in run.parameters) == coverage
        assert str(run.option("pointer")) == pointer
        if sentences:
            documents = (run.prepared / "tokens/train.source").read_text(encoding="utf-8").splitlines()
            assert any("<q>" in document.split() for document in documents), "documents of one sentence"
        if pointer != "none":
            assert max(run.figures("copied")) > 0, "no word of a summary could be copied"
        if coverage:
            losses = run.figures("coverage_loss")
            assert all(0 < loss < 100 for loss in losses)
            if run.option("coverage_loss_start", "criterion") == 0:
                assert losses[-1] <= losses[0]
        if words:
            tables = [len(run.parameters[f"{side}.embed_tokens.weight"]) for side in ("encoder", "decoder")]
            # The special symbols and the sentence mark are added. fairseq pads the total to a multiple of 8.
            assert all(asked + 4 <= rows <= asked + 12 for asked, rows in zip(words, tables)), tables

    return check


def ras(cell, rate):
    """Check the convolutional attention, the decoder's cell and rate, replaced words, and at least 14 words on DUC."""

    def check(run):
        recurrent(words=(12, 4))(run)
        assert str(run.option("encoder")) == "conv" and str(run.option("rnn_cell")) == cell
        assert str(run.option("attention_score")) == "dot" and run.option("uniform_init") == 0.05
        assert run.option("lr", "optimization") == [rate]
        assert not any("<unk>" in words for words in run.tokens()), "an unknown word was not replaced"
        assert run.decoding("min-len", "max-len", file="duc.txt") == ("14", "30")

    return check


def see(coverage):
    """Check See et al.'s decoder, growing lengths, and coverage added to a model trained without it."""

    def check(run):
        recurrent(pointer="soft", coverage=coverage, words=(36, 36))(run)
        assert str(run.option("rnn_cell")) == "lstm" and str(run.option("attention_query")) == "after"
        assert all(f"--truncate-{side} {n} " in finished(run.folder) for side, n in (("source", 60), ("target", 30)))
        assert run.decoding("min-len", "max-len") == ("35", "120")
        log, sums = (run.folder / "train.log").read_text(encoding="utf-8"), run.sums_of_squares()
        if coverage:
            assert "new, because the checkpoint does not have them: decoder.coverage_weight" in log
            return
        first = run.folder / "stages" / "1"
        assert "--truncate-source 50 --truncate-target 8" in finished(first)
        assert "checkpoint_last.pt (epoch" in log and "@ 5 updates" in log, "it did not go on from the first stage"
        before = Run(first, run.prepared, "", "").sums_of_squares()
        assert all((now >= then).all() for now, then in zip(sums, before)) and min(x.min() for x in sums) >= 0.1 - 1e-6

    return check


def finished(folder):
    return (folder / "finished.txt").read_text(encoding="utf-8")


def on_duc(check_row, shortest=30):
    """Check a row that is also scored on DUC-2004: ``shortest`` (30 or 0) to 30 words, four references at 75 bytes."""

    def check(run):
        check_row(run)
        assert run.decoding("exact-length" if shortest else "max-len", file="duc.txt") == ("30",)
        report = (run.folder / "duc.json").read_text(encoding="utf-8")
        assert "refs:4" in report and "bytes:75" in report

    return check


def bart(mechanisms, pointer=False):
    """Check the start from BART's weights and words, the mechanisms in all layers, the optimiser and the search."""

    def check(run):
        layers = {1, 2} if mechanisms else set()
        assert run.layers("focal.") == run.layers("gate_q_proj") == layers
        assert any("pointer" in key for key in run.parameters) == pointer
        assert not pointer or min(run.figures("p_gen")) > 0.9
        log = (run.folder / "train.log").read_text(encoding="utf-8")
        assert "embed_tokens.weight: the rows of the 272 known words of 273" in log
        assert ("(100.0%)" in log) == (not mechanisms)
        assert "another shape" not in log and "in the checkpoint, but" not in log
        if mechanisms:
            assert max(run.parameters[key].abs().max() for key in run.parameters if "strength" in key) > 0
        assert len(run.parameters["encoder.embed_positions.weight"]) == 1026
        assert run.option("update_freq", "optimization") == [4] and run.option("clip_norm", "optimization") == 0.1
        assert run.option("lr", "optimization") == [3e-5] and run.option("warmup_updates", "lr_scheduler") == 1
        assert run.decoding("beam", "lenpen", "no-repeat-ngram-size", "min-len", "max-len") == (
            "4",
            "2",
            "3",
            "55",
            "140",
        )

    return check


def convolutional(words, pointer="none", rate=0.1, duc=False):
    """Check layers and optimiser, replaced or copied unknown words, and at least 14 words on DUC."""

    def check(run):
        assert {int(key.split(".")[2]) for key in run.parameters if ".convolutions." in key} == {0, 1}
        tables = {len(run.parameters[f"{side}.embed_tokens.weight"]) for side in ("encoder", "decoder")}
        assert len(tables) == 1 and words + 4 <= tables.pop() <= words + 12
        assert str(run.option("pointer")) == pointer
        if pointer == "none":
            assert not any("<unk>" in tokens for tokens in run.tokens()), "an unknown word was not replaced"
        else:
            assert max(run.figures("copied")) > 0
        nesterovs_gradient(run, rate)
        if duc:
            assert run.decoding("min-len", "max-len", file="duc.txt") == ("14", "30")
            assert "bytes:75" in (run.folder / "duc.json").read_text(encoding="utf-8")

    return check


def nesterovs_gradient(run, rate):
    """Check the optimiser of Gehring et al."""
    assert max(run.figures("lr")) == pytest.approx(rate, rel=1e-3)
    assert run.option("clip_norm", "optimization") == 0.1
    options = finished(run.folder)
    assert " --optimizer nag --momentum 0.99 " in options and " --lr-scheduler reduce_lr_on_plateau " in options


def controlled(run):
    """Check that documents begin with control words (in training, the ones of their references), and that the best
    setting is decoded.
    """
    nesterovs_gradient(run, 0.2)
    control = run.folder.parent / "control"
    bins = json.loads((control / "text/control.json").read_text(encoding="utf-8"))["lengths"]
    assert sum(bins["counts"]) == 13
    lines = (control / "prepared/tokens/train.source").read_text(encoding="utf-8").splitlines()
    assert {line.split()[1] for line in lines} == {"origincnn", "origindailymail"}
    assert {line.split()[0] for line in lines} == {f"lengthbin{n}" for n in range(1, len(bins["counts"]) + 1)}
    scores = {
        path.parent.name: json.loads(path.read_text(encoding="utf-8"))["scores"]["rougeL"]["f1"]
        for path in (run.folder / "settings").glob("*/rouge.json")
    }
    setting = "-".join(json.loads((run.folder / "setting.json").read_text(encoding="utf-8")).values())
    assert set(scores) == {"1-cnn", "2-cnn"} and scores[setting] == max(scores.values())
    test = (run.folder / "chosen/prepared/tokens/test.source").read_text(encoding="utf-8").splitlines()
    assert all(line.startswith(f"lengthbin{setting[0]} origincnn ") for line in test)
    assert run.decoding("prepared")[0].endswith("chosen/prepared"), "it decoded other documents"
