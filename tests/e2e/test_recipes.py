"""Each row of each recipe in scripts/reproduce/, from raw data to scores, on a tiny corpus in the real format.

The recipes run as they are, with few steps and narrow models by their own options; what a row adds to the plain model
must be seen to have done something. A new recipe or row is a line in RECIPES.
"""

import json
import re

import pytest
from recipes import (
    RECIPES,
    RECURRENT,
    STEPS,
    TRANSFORMER,
    Recipe,
    Run,
    Workshop,
    check_any_row,
    cnndm,
    cnndm_for_bart,
    debian,
    gigaword,
    gigaword_of_row,
    sumpubmed,
)


def etads(focus=(), saliency=(), encoder=4, decoder=4):
    """Which layers, counted from 1, have the mechanisms; and the output's bias, the steps of Noam, the search."""

    def check(run):
        assert (run.layers("focal."), run.layers("gate_q_proj")) == (set(focus), set(saliency))
        assert run.layers("encoder.layers") == set(range(1, encoder + 1))
        assert run.layers("decoder.layers") == set(range(1, decoder + 1))
        words, bias = run.parameters["encoder.embed_tokens.weight"], run.parameters["decoder.output_projection.bias"]
        assert len(words) == len(bias) == run.dictionary("source").known_words == 40
        assert bias.abs().max() > 0, "it was not trained"
        rates = run.figures("lr")  # Noam, where a short training warms up for a tenth of its steps
        warmup = (STEPS + 9) // 10
        assert (max(rates), rates[-1]) == pytest.approx((4.94e-4, 4.94e-4 * (warmup / STEPS) ** 0.5), rel=1e-3)
        assert run.option("clip_norm", "optimization") == 2 and run.option("max_tokens", "dataset") == 4096
        assert all(35 <= len(words) <= 100 for words in run.tokens())
        decoding = {"beam": "10", "lenpen": "0.9", "coverage_penalty": "1.0", "length_penalty_type": "'wu'"}
        assert {name: run.decoding(name) for name in decoding} == decoding

    return check


def aggregation(kind, history=0, encoder=4, decoder=4):
    """Kind, layers looked back at; and the pointer, the search."""

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
        assert run.repeated(3) == 0 and all(50 <= len(words) <= 120 for words in run.tokens())
        assert " --lr 1e-4 --lr-scheduler reduce_lr_on_plateau " in (run.folder / "finished.txt").read_text()

    return check


def encoder_sharing(shared, gate):
    def check(run):
        assert ("decoder.layers.0.fc1.weight" not in run.parameters) == shared, "a checkpoint stores them once"
        assert any(key.startswith("encoder.gate.") for key in run.parameters) == gate
        assert run.parameters["decoder.output_projection.bias"].abs().max() > 0
        assert [len(run.parameters[f"{side}.embed_tokens.weight"]) for side in ("encoder", "decoder")] == [16, 8]
        assert not any("<unk>" in words for words in run.tokens()), "an unknown word was not replaced"
        assert run.decoding("replace_unk") == "True" or run.decoding("replace_unknown") == "True"
        assert all(len(words) <= 30 for words in run.tokens("duc.txt"))
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
    """Whether the copy attention has features of continuation."""

    def check(run):
        debian_transformer(focus=True, saliency=True, pointer=True)(run)
        assert any("pointer.continuation" in key for key in run.parameters) == has_it

    return check


MEMORY = ("decoder.pointer.", "encoder.aggregation.", "encoder.gate.")


def recurrent(trick=0, sentences=False, temporal=False, factors=(), pointer="none", coverage=False, words=None):
    """The mechanisms of a model of the recurrent family; ``words`` known of documents and summaries."""

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
            # the specials and the mark of sentences come on top, and fairseq fills up to a multiple of 8
            assert all(asked + 4 <= rows <= asked + 12 for asked, rows in zip(words, tables)), tables

    return check


def see(coverage):
    """See et al.'s decoder, lengths that grow, and coverage that is added to a model trained without it."""

    def check(run):
        recurrent(pointer="soft", coverage=coverage, words=(36, 36))(run)
        assert str(run.option("rnn_cell")) == "lstm" and str(run.option("attention_query")) == "after"
        assert all(f"--truncate-{side} {n} " in finished(run.folder) for side, n in (("source", 60), ("target", 30)))
        assert min(map(len, run.tokens())) >= 35 and max(map(len, run.tokens())) <= 120
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


def on_duc(check_row):
    """A row that is scored on DUC-2004, too: exactly 30 words, four references at 75 bytes."""

    def check(run):
        check_row(run)
        assert all(len(words) == 30 for words in run.tokens("duc.txt"))
        report = (run.folder / "duc.json").read_text(encoding="utf-8")
        assert "refs:4" in report and "bytes:75" in report

    return check


def bart(mechanisms, pointer=False):
    """Begun with BART's weights, and its own words; the mechanisms in all layers; the optimiser, the search."""

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
        assert all(55 <= len(pieces) <= 140 for pieces in run.tokens())
        words = {piece for pieces in run.tokens() for piece in pieces if not piece.isdigit()}
        assert all(re.fullmatch("madeupword000.|<unk>", word) for word in words), (
            words
        )  # which a random model also writes
        assert run.repeated(3) == 0
        decoding = {"beam": "4", "lenpen": "2.0", "no_repeat_ngram_size": "3"}
        assert {name: run.decoding(name) for name in decoding} == decoding

    return check


def bottom_up(selects):
    """The summariser without coverage; the search of the paper, and words of the copy tail that the tagger chose."""

    def check(run):
        recurrent(pointer="soft", words=(36, 36))(run)
        decoding = {"beam": "10", "lenpen": "0.9", "coverage_penalty": "5.0", "length_penalty_type": "'wu'"}
        decoding |= {"min_sentences": "3", "stepwise_coverage_penalty": "True", "selection_factor": "2.0"}
        assert {name: run.decoding(name) for name in decoding} == decoding
        assert (run.decoding("selection") != "None") == selects
        if not selects:
            return
        report = json.loads((run.folder.parent / "tagger-1/report.json").read_text(encoding="utf-8"))
        assert set(report) == {"valid", "test"} and all(0 <= scores["auc"] <= 1 for scores in report.values())
        _, *lines = (run.folder.parent / "tagger-1/probabilities.words.test").read_text(encoding="utf-8").splitlines()
        documents = (run.prepared / "tokens/test.source").read_text(encoding="utf-8").splitlines()
        tail = set(run.dictionary("target").symbols[run.dictionary("target").known_words :])
        for line, document, summary in zip(lines, documents, run.tokens()):
            values = [float(value) for value in line.split("\t")[1].split()]
            chosen = {word for word, value in zip(document.split(), values) if value > 0.15 or max(values) <= 0.15}
            assert tail.intersection(summary) <= chosen

    return check


FACTORS = ("pos", "ner", "tf", "idf")
ETADS = {
    "basic": etads(),
    "focus": etads(focus=(1, 2, 3, 4)),
    "saliency": etads(saliency=(1, 2, 3, 4)),
    "etads": etads(focus=(1, 2, 3, 4), saliency=(1, 2, 3, 4)),
    "encoder-2": etads(encoder=2),
    "encoder-6": etads(encoder=6),
    "decoder-2": etads(decoder=2),
    "decoder-6": etads(decoder=6),
    "saliency-1-2": etads(saliency=(1, 2)),
    "saliency-3-4": etads(saliency=(3, 4)),
    "focus-1-2": etads(focus=(1, 2)),
    "focus-3-4": etads(focus=(3, 4)),
}
AGGREGATION = {
    **{"m1": aggregation("none"), "m2": aggregation("add", 1), "m3": aggregation("add", 2)},
    **{"m4": aggregation("proj", 1), "m5": aggregation("proj", 2)},
    **{"m6": aggregation("attn", 1), "m7": aggregation("attn", 2)},
    **{f"e{e}d{d}": aggregation("none", encoder=e, decoder=d) for e, d in ((4, 3), (4, 2), (2, 4), (3, 4))},
}
GATED = {
    "transformer": encoder_sharing(False, False),
    "es_transformer": encoder_sharing(True, False),
    "gated_es_transformer": encoder_sharing(True, True),
}
FASTER = ("--lr", "0.03")  # so that a few steps teach a model to copy
STEPPED, ON_DEBIAN = ("--steps", str(STEPS), "--cpu"), ("--steps", str(STEPS), "--seeds", "1")
RECIPES_AND_ROWS = [
    Recipe("etads_cnndm", cnndm, ETADS, given=STEPPED, more=tuple(TRANSFORMER)),
    Recipe(
        "bart_cnndm", cnndm_for_bart,
        {"bart": bart(False), "etads": bart(True), "etads-pointer": bart(True, pointer=True)},
        given=(*STEPPED, "--bart", "bart.large"),
        more=(*TRANSFORMER, "--encoder-layers", "2", "--decoder-layers", "2", "--encoder-ffn-embed-dim", "24"),
    ),
    Recipe(
        "bottomup_cnndm", cnndm, {"summariser": bottom_up(False), "bottom-up": bottom_up(True)},
        given=(*STEPPED, "--tagger-epochs", "2"), more=tuple(RECURRENT),
    ),
    Recipe("aggregation_cnndm", cnndm, AGGREGATION, given=STEPPED, more=(*TRANSFORMER, *FASTER)),
    Recipe(
        "gated_gigaword", gigaword, GATED, given=("--cpu", "--epochs", "99"), duc=lambda row: True,
        more=(*TRANSFORMER, "--max-update", str(STEPS)), scores=("rouge.json", "duc.json"),
    ),
    Recipe(
        "nallapati_gigaword", gigaword_of_row,
        {
            "words-lvt2k-1sent": on_duc(recurrent(2000, words=(12, 4))),
            "words-lvt5k-1sent": on_duc(recurrent(5000, words=(20, 12))),
            "words-lvt2k-2sent": recurrent(2000, words=(12, 4)),
            "words-lvt2k-2sent-hieratt": recurrent(2000, sentences=True, words=(12, 4)),
            "feats-lvt2k-2sent": recurrent(2000, factors=FACTORS, words=(12, 4)),
            "feats-lvt2k-2sent-ptr": recurrent(2000, factors=FACTORS, pointer="switch", words=(12, 4)),
        },
        option="--row", given=("--cpu",), more=tuple(RECURRENT), duc=lambda row: row.endswith("1sent"),
        scores=("analysis.json",),
    ),
    Recipe(
        "nallapati_cnndm", cnndm,
        {
            "words_lvt2k": recurrent(2000, words=(36, 20)),
            "words_lvt2k_hieratt": recurrent(2000, sentences=True, words=(36, 20)),
            "words_lvt2k_temp_att": recurrent(2000, temporal=True, words=(36, 20)),
            "pg_coverage": recurrent(pointer="soft", coverage=True, words=(36, 36)),
        },
        given=("--pg-data", "nallapati_cnndm/data/cnndm50k", "--cpu"), more=tuple(RECURRENT),
        more_of={"pg_coverage": ("--coverage-loss-start", "0")}, scores=("../analysis.json",),
    ),
    Recipe(
        "see2017_cnndm", cnndm, {"pointer_generator": see(False), "pointer_generator_coverage": see(True)},
        given=(
            *("--cpu", "--stages", "50/8 60/30", "--stage-steps", "5"),
            *("--steps", str(STEPS), "--coverage-steps", str(STEPS)),
        ),
        more=tuple(RECURRENT[:-2]),
    ),
    Recipe(
        "debian_etads", debian,
        {
            "etads_basic": debian_transformer(),
            "etads_focus": debian_transformer(focus=True),
            "etads_saliency": debian_transformer(saliency=True),
            "etads": debian_transformer(focus=True, saliency=True),
        },
        option="--archs", given=ON_DEBIAN, place="--text",
    ),
    Recipe(
        "debian_memory", debian,
        {
            "etads_basic": debian_transformer(pointer=True),
            "aggregation_transformer": debian_transformer(pointer=True, aggregation=True),
            "es_transformer": debian_transformer(pointer=True, shared=True),
            "gated_es_transformer": debian_transformer(pointer=True, shared=True, gate=True),
        },
        option="--archs", given=ON_DEBIAN, place="--text",
    ),
    Recipe(
        "debian_pointer", debian,
        {
            "none": debian_transformer(focus=True, saliency=True),
            "soft": debian_transformer(focus=True, saliency=True, pointer=True),
            "switch": debian_transformer(focus=True, saliency=True, pointer=True),
        },
        option="--pointers", given=(*ON_DEBIAN, "--size", "12"), place="--text",
    ),
    Recipe(
        "debian_recurrent", debian,
        {
            "gru_seq2seq": recurrent(),
            "words_lvt2k": recurrent(2000),
            "words_lvt5k": recurrent(5000),
            "words_lvt2k_hieratt": recurrent(2000, sentences=True),
            "feats_lvt2k": recurrent(2000, factors=("tf", "idf")),
            "feats_lvt2k_ptr": recurrent(2000, factors=("tf", "idf"), pointer="switch"),
            "words_lvt2k_temp_att": recurrent(2000, temporal=True),
            "pg_coverage": recurrent(pointer="soft", coverage=True),
        },
        option="--archs", given=(*ON_DEBIAN, "--size", "12"), place="--text", scores=("../analysis.json",),
    ),
    Recipe(
        "debian_equal_time", debian,
        {"etads": continuation(True), "pg_coverage": recurrent(pointer="soft", coverage=True)},
        option="--archs", given=(*ON_DEBIAN, "--size", "24"), place="--text", scores=("../analysis.json",),
        steps={"etads": STEPS * 5 // 8},
    ),
    Recipe(
        "sumpubmed_temporal", sumpubmed,
        {"plain": recurrent(2000), "temporal": recurrent(2000, temporal=True)},
        option="--systems", given=STEPPED, more=tuple(RECURRENT), summaries="test.txt", scores=("../test.json",),
    ),
    Recipe(
        "sumpubmed_continue", sumpubmed, {"without": continuation(False), "with": continuation(True)},
        option="--systems", given=STEPPED, more=(*TRANSFORMER, "--encoder-attention-heads", "4"),
        scores=("rouge.json", "../analysis.json"),
    ),
]  # fmt: skip
ROWS = [pytest.param(recipe, row, id=f"{recipe.name}-{row}") for recipe in RECIPES_AND_ROWS for row in recipe.rows]
NAMES = [recipe.name for recipe in RECIPES_AND_ROWS]


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    return Workshop(tmp_path_factory.mktemp("recipes"))


@pytest.mark.parametrize("recipe,row", ROWS)
def test_a_row_runs_and_its_mechanism_acts(recipe, row, shop):
    run = recipe.run(shop, row)
    check_any_row(run, recipe.scores, recipe.steps.get(row, STEPS))
    recipe.rows[row](run)


@pytest.mark.parametrize("recipe", RECIPES_AND_ROWS, ids=NAMES)
def test_all_rows_are_run_and_none_is_trained_twice(recipe, shop):
    """Called again without a choice of rows, a recipe only puts its table together, with all rows that it has."""
    for row in recipe.rows:
        recipe.run(shop, row)
    one_at_a_time = recipe.option == "--row" or recipe.more_of
    for row in recipe.rows if one_at_a_time else [""]:
        printed = shop.run(recipe.command(shop, row)).stdout
        assert "== training" not in printed and "already trained" in printed
        rows = set(re.findall(r"^\| `?([\w-]+?)`?(?:-1)? +\|", printed, re.MULTILINE))
        expected = {row} if one_at_a_time else set(recipe.rows)
        assert rows - {"system", "pointer", "reference", "lead-3"} == expected, printed


@pytest.mark.parametrize("recipe", RECIPES_AND_ROWS, ids=NAMES)
def test_what_does_not_exist_is_refused_in_words(recipe, shop):
    """And the rows that may be chosen are those tested here."""
    refused = shop.run([*recipe.command(shop, ""), recipe.option, "nonesuch"] if not recipe.more else
                       recipe.command(shop, "nonesuch"), check=False)  # fmt: skip
    assert refused.returncode == 2
    offered = re.search(rf"{recipe.option} nonesuch: choose one of: (.+)", refused.stdout)
    assert offered and set(offered[1].split()) - {"e4d4"} == set(recipe.rows), refused.stdout
    missing = [f"scripts/reproduce/{recipe.name}.sh", recipe.option, next(iter(recipe.rows)), recipe.place, "nowhere"]
    assert f"{recipe.name}.sh: {recipe.place} nowhere: no " in shop.run(missing, check=False).stdout


def test_every_recipe_is_tested():
    assert sorted(NAMES) == sorted(path.stem for path in RECIPES.glob("*.sh"))
