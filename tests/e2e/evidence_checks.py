"""The systems of scripts/reproduce/evidence.sh, and the check of each."""

import json

from recipe_checks import continuation, debian_transformer, recurrent

PLAIN = {"pointer": True}


def recorded(check):
    """Check that the record has the scores of every document, and run ``check``."""

    def both(run):
        system = run.folder.name[: -len("-1")]
        record = json.loads((run.folder.parent / f"results/debian/{system}-1.json").read_text(encoding="utf-8"))
        assert {metric: len(scores) for metric, scores in record["f1"].items()} == dict.fromkeys(record["f1"], 3)
        report = json.loads((run.folder / "rouge.json").read_text(encoding="utf-8"))["scores"]
        for metric, scores in record["f1"].items():
            assert abs(sum(scores) / 3 - report[metric]["f1"]) < 0.01
        assert "scripts/reproduce/evidence.sh --corpus debian" in record["command"]
        if check is not None:
            assert record["steps"] == 12 and len(record.get("log_likelihood", "   ")) == 3
            assert ("log_likelihood" in record) == (system != "transformer_pointer")
            assert str(run.folder) not in json.dumps(record), "a path of this machine"
            check(run)

    return both


def focus_in(layers):
    """Find which of four encoder layers have focus-attention."""

    def check(run):
        assert (run.layers("encoder.layers"), run.layers("focal.")) == ({1, 2, 3, 4}, set(layers))
        assert run.layers("gate_q_proj") == {1, 2}

    return check


def three_layers(kind="none", **mechanisms):
    """Check that there are three layers on both sides, and the modules between encoder and decoder."""

    def check(run):
        debian_transformer(**PLAIN, **mechanisms)(run)
        assert run.layers("encoder.layers") == {1, 2, 3} and str(run.option("aggregation")) == kind

    return check


def tied(**mechanisms):
    """Check that layers are shared as in the paper, but with one table of word vectors, like the compared system."""

    def check(run):
        three_layers(shared=True, **mechanisms)(run)
        assert bool(run.option("share_all_embeddings"))

    return check


def of_fairseq(on_pieces):
    """fairseq's own model, on pieces of words or on the words of this project's systems."""

    def check(run):
        command = (run.folder / "finished.txt").read_text(encoding="utf-8")
        assert " --arch transformer " in command and ("/pieces/prepared/bin " in command) == on_pieces
        assert ("/pieces/" in command) == on_pieces
        assert not any("pointer" in key or "focal" in key for key in run.parameters)

    return check


def of_fairseqs_example(run):
    """fairseq's own pointer and task: unknown words come from their positions in the document.

    No summary repeats a bigram; fairseq's own search would not ensure that on a CPU.
    """
    assert "decoder.project_p_gens.weight" in run.parameters or "decoder.project_p_gens" in str(list(run.parameters))
    tokens = (run.folder / "tokens.txt").read_text(encoding="utf-8")
    for line in tokens.splitlines():
        words = line.split()
        assert len(set(zip(words, words[1:]))) == max(len(words) - 1, 0), line
    assert "<unk-" in tokens and "<unk" not in (run.folder / "summaries.txt").read_text(encoding="utf-8")


EVIDENCE = {
    "lead-8-words": None,
    "etads_basic": debian_transformer(**PLAIN),
    "etads_focus": debian_transformer(**PLAIN, focus=True),
    "etads_saliency": debian_transformer(**PLAIN, saliency=True),
    "etads": continuation(False),
    "etads_options": continuation(True),
    "transformer_bpe": of_fairseq(on_pieces=True),
    "transformer_words": of_fairseq(on_pieces=False),
    "transformer_pointer": of_fairseqs_example,
    "plain": three_layers(),
    **{f"{kind}_1": three_layers(kind, aggregation=kind != "add") for kind in ("add", "proj", "attn")},
    "es": three_layers(shared=True),
    "gated_es": three_layers(shared=True, gate=True),
    "es_tied": tied(),
    "gated_es_tied": tied(gate=True),
    "layers_none": focus_in(()),
    "layers_1-2": focus_in((1, 2)),
    "layers_3-4": focus_in((3, 4)),
    "layers_1-4": focus_in((1, 2, 3, 4)),
    "words_lvt2k": recurrent(2000),
    "words_lvt2k_hieratt": recurrent(2000, sentences=True),
    "words_lvt2k_temp_att": recurrent(2000, temporal=True),
    "feats_lvt2k": recurrent(2000, factors=("tf", "idf")),
    "pg_coverage": recurrent(pointer="soft", coverage=True),
}
EVIDENCE = {system: recorded(check) for system, check in EVIDENCE.items()}
