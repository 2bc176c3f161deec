"""Checks of recipes that select the content of summaries: labels, selectors, and models that read them."""

import json

from recipe_checks import debian_transformer, finished, recurrent, see


def selects(folder):
    """Check that a selector's report has its figures for both splits."""
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert set(report) == {"valid", "test"} and all(0 <= scores["auc"] <= 1 for scores in report.values())


def extraction(by, selector=False):
    """Check that summaries are sentences of their documents, three for ``lead``, and that a selector was scored."""

    def check(run):
        documents = (run.prepared / "tokens/test.source").read_text(encoding="utf-8").splitlines()
        summaries = (run.folder / run.summaries).read_text(encoding="utf-8").splitlines()
        for document, summary in zip(documents, summaries):
            sentences = ["".join(sentence.split()) for sentence in document.split("<q>")]
            taken = ["".join(sentence.split()) for sentence in summary.split("<q>")]
            # The last sentence that is read may be truncated.
            assert all(any(sentence.startswith(part) for sentence in sentences) for part in taken)
            assert by != "lead" or taken == sentences[:3]
        if selector:
            selects(run.folder)

    return check


def abstraction(selects):
    """Check ETADS with a pointer, with or without the tagger's mask."""

    def check(run):
        debian_transformer(focus=True, saliency=True, pointer=True)(run)
        assert (run.decoding("selection") != ("",)) == selects
        if selects:
            copies_what_the_tagger_chose(run)

    return check


def bottom_up(selects):
    """Check the summariser without coverage, the paper's search, and copied words that the tagger selected."""

    def check(run):
        recurrent(pointer="soft", words=(36, 36))(run)
        assert run.decoding("beam", "lenpen", "coverage-penalty", "length-penalty-type") == ("10", "0.9", "5", "wu")
        assert run.decoding("min-sentences", "stepwise-coverage-penalty") == ("3", "on")
        assert (run.decoding("selection") != ("",)) == selects
        if selects:
            copies_what_the_tagger_chose(run)

    return check


def copies_what_the_tagger_chose(run):
    """Check that words of the copy tail, which can only be copied, are above the threshold, and that the tagger was
    scored.
    """
    selects(run.folder.parent / "tagger-1")
    _, *lines = (run.folder.parent / "tagger-1/probabilities.words.test").read_text(encoding="utf-8").splitlines()
    documents = (run.prepared / "tokens/test.source").read_text(encoding="utf-8").splitlines()
    tail = set(run.dictionary("target").symbols[run.dictionary("target").known_words :])
    for line, document, summary in zip(lines, documents, run.tokens()):
        values = [0 if value == "-" else float(value) for value in line.split("\t")[1].split()]  # "-": a mark
        chosen = {word for word, value in zip(document.split(), values) if value > 0.15 or max(values) <= 0.15}
        assert tail.intersection(summary) <= chosen


def unified(together):
    """Check an abstractor trained on labelled sentences that decodes the extractor's selection, or one joint model."""

    def check(run):
        out = run.folder.parent
        log = (run.folder / "train.log").read_text(encoding="utf-8")
        documents = (run.prepared / "tokens/test.source").read_text(encoding="utf-8").splitlines()
        assert run.decoding("min-len", "max-len") == ("35", "120")
        report = json.loads((out / "extractor-1/report.json").read_text(encoding="utf-8"))
        assert set(report) == {"valid", "test"} and all(0 <= scores["auc"] <= 1 for scores in report.values())
        labels = (out / "labels/labels.sentences.train").read_text(encoding="utf-8")
        assert '"kind": "extract"' in labels and '"truncate_source": 2500' in labels
        whole = (run.prepared / "tokens/train.source").read_text(encoding="utf-8").splitlines()
        kept = (out / "labelled/prepared/tokens/train.source").read_text(encoding="utf-8").splitlines()
        counts = [len(line.split("\t")[1].split()) for line in labels.splitlines()[1:]]
        assert [document.count("<q>") + 1 for document in kept] == counts
        for document, part in zip(whole, kept):
            sentences = [sentence.strip() for sentence in document.split("<q>")]
            assert all(sentence.strip() in sentences for sentence in part.split("<q>")), "words have changed"
        assert any(len(part) < len(document) for document, part in zip(whole, kept))
        assert any(key.startswith("encoder.extractor.") for key in run.parameters) == together
        if not together:
            see(True)(run)
            read = (run.folder / "prepared/tokens/test.source").read_text(encoding="utf-8").splitlines()
            _, *rows = (out / "extractor-1/probabilities.sentences.test").read_text(encoding="utf-8").splitlines()
            for line, document, part in zip(rows, documents, read):
                values = [float(value) for value in line.split("\t")[1].split()]
                wanted = min(max(sum(value > 0.5 for value in values), 5), 30, len(values))
                assert part.count("<q>") + 1 == wanted <= document.count("<q>") + 1
            return
        assert str(run.option("sentence_attention")) == "extractor" and run.option("coverage") is True
        criterion = {"extraction_loss": 5, "coverage_loss": 1, "inconsistency_loss": 1, "length_normalised": True}
        assert {name: run.option(name, "criterion") for name in criterion} == criterion
        assert min(run.figures("extraction_loss")) > 0 and min(run.figures("inconsistency_loss")) > 0
        assert run.option("lr", "optimization") == [0.01] and "valid on" in log and "rougeL" in log
        loaded = [line for line in log.splitlines() if ": loaded" in line]
        assert "--extractor" in loaded[1] and "(100.0%)" in loaded[1] and "in the checkpoint, but" not in log
        new = loaded[0].split("does not have them: ")[1].split(", ")
        assert all(name.startswith("encoder.extractor.") for name in new) and "another shape" not in log

    return check


def explicit_selection(coverage):
    """Check selection for each sentence of the summary, its loss, consecutive stages, and coverage added last."""

    def check(run):
        recurrent(sentences=True, pointer="soft", coverage=coverage, words=(36, 36))(run)
        assert all(run.option(name) for name in ("encoder_by_sentence", "sentence_gate", "sentence_selector"))
        assert str(run.option("rnn_cell")) == "gru" and run.option("selection_loss", "criterion") == 0.2
        losses = run.figures("selection_loss")
        assert all(0 < loss < 20 for loss in losses), losses
        labels = (run.folder.parent / "labels" / "labels.sentences.train").read_text(encoding="utf-8").splitlines()
        assert sum(":" in line.split("\t")[1] for line in labels[1:]) > len(labels) / 2, "hardly a target"
        assert run.decoding("beam") == ("5",)
        report = json.loads((run.folder / "rouge.json").read_text(encoding="utf-8"))
        assert {"rougeL", "rougeLjoined"} <= report["scores"].keys()
        log = (run.folder / "train.log").read_text(encoding="utf-8")
        if coverage:
            assert "new, because the checkpoint does not have them: decoder.coverage_weight" in log
            assert "in the checkpoint, but" not in log and "another shape" not in log
        else:
            assert "--truncate-source 50 --truncate-target 8" in finished(run.folder / "stages" / "1")
            assert "checkpoint_last.pt (epoch" in log and "@ 5 updates" in log, "it did not go on from the first stage"

    return check


def selecting_sentences(selector=False, coverage=False, extractor=False):
    """Check a GRU with See et al.'s wiring, and with a selector, coverage, or the extractor inside."""

    def check(run):
        recurrent(sentences=selector or extractor, pointer="soft", coverage=coverage)(run)
        assert str(run.option("rnn_cell")) == "gru" and run.option("share_input_embeddings") is True
        assert run.option("sentence_selector") is selector
        assert any(key.startswith("encoder.extractor.") for key in run.parameters) == extractor
        assert not selector or all(0 < loss < 20 for loss in run.figures("selection_loss"))
        assert ("plain-1/checkpoints/checkpoint_best.pt" in finished(run.folder)) == coverage
        if coverage:
            log = (run.folder / "train.log").read_text(encoding="utf-8")
            assert "decoder.coverage_weight" in log.split("does not have them: ")[1].split("\n")[0]
            assert "in the checkpoint, but" not in log and "another shape" not in log
        if extractor:
            assert min(run.figures("extraction_loss")) > 0 and min(run.figures("inconsistency_loss")) > 0
            selects(run.folder.parent / "extractor-1")
        assert run.decoding("min-len", "max-len", "no-repeat-ngram-size") == ("35", "100", "3")

    return check
