"""Rows of each recipe in scripts/reproduce/, from raw data to scores, on a tiny corpus in the real format.

The recipes run unchanged, with few steps and narrow models by their own options. The checks show that a row's additions
to the plain model had an effect. A new recipe or row is a line in RECIPES, or in MECHANISMS if it only changes options.
"""

import re

import pytest
from abs_checks import attention_based
from effective import MECHANISMS
from entailment_checks import entailment
from headline_checks import HEADLINES
from recipe_checks import (
    aggregation,
    bart,
    best_settings,
    continuation,
    controlled,
    convolutional,
    debian_transformer,
    encoder_sharing,
    etads,
    long_documents,
    nesterovs_gradient,
    on_duc,
    ras,
    recurrent,
    see,
)
from recipes import (
    CONVOLUTIONAL,
    LANGUAGE_MODEL,
    RECIPES,
    RECURRENT,
    STEPS,
    TRANSFORMER,
    Recipe,
    Workshop,
    check_any_row,
    cnndm,
    cnndm_for_bart,
    debian,
    gigaword,
    gigaword_of_row,
    scitldr,
    sumpubmed,
    xsum,
)
from reward_checks import closed_book, going_on, rewarded, rougesal
from rewriting_checks import rewritten
from selection_checks import abstraction, bottom_up, explicit_selection, extraction, selecting_sentences, unified

FACTORS = ("pos", "ner", "tf", "idf")
ETADS = {
    "etads": etads(focus=(1, 2, 3, 4), saliency=(1, 2, 3, 4)),
    "encoder-2": etads(encoder=2),
    "long": long_documents(words=400),
}
AGGREGATION = {
    **{"m3": aggregation("add", 2), "m5": aggregation("proj", 2), "m7": aggregation("attn", 2)},
    "e2d4": aggregation("none", encoder=2),
}
GATED = {
    "gru_seq2seq": on_duc(recurrent(words=(12, 4)), shortest=0),
    "gated_es_transformer": encoder_sharing(True, True),
}
SEE = ("--cpu", "--stages", "50/8 60/30", "--stage-steps", "5", "--steps", str(STEPS), "--coverage-steps", str(STEPS))
FASTER = ("--lr", "0.03")  # with this rate, a few steps teach a model to copy
STEPPED, ON_DEBIAN = ("--steps", str(STEPS), "--cpu"), ("--steps", str(STEPS), "--seeds", "1")
RECIPES_AND_ROWS = [
    Recipe("etads_cnndm", cnndm, ETADS, given=STEPPED, more=tuple(TRANSFORMER)),
    Recipe(
        "bart_cnndm",
        cnndm_for_bart,
        {"bart": bart(False), "etads-pointer": bart(True, pointer=True)},
        given=(*STEPPED, "--bart", "bart.large"),
        more=(*TRANSFORMER, "--encoder-layers", "2", "--decoder-layers", "2", "--encoder-ffn-embed-dim", "24"),
    ),
    Recipe(
        "bottomup_cnndm",
        cnndm,
        {"summariser": bottom_up(False), "bottom-up": bottom_up(True)},
        given=(*STEPPED, "--tagger-epochs", "2"),
        more=tuple(RECURRENT),
    ),
    Recipe("aggregation_cnndm", cnndm, AGGREGATION, given=STEPPED, more=(*TRANSFORMER, *FASTER)),
    Recipe(
        "gated_gigaword",
        gigaword,
        GATED,
        given=("--cpu", "--epochs", "99"),
        duc=lambda row: True,
        more=tuple(RECURRENT[6:]),
        more_of={row: TRANSFORMER[:8] if "trans" in row else RECURRENT[:6] for row in GATED},
        scores=("rouge.json", "duc.json"),
    ),
    Recipe(
        "abs_gigaword",
        gigaword,
        {"abs": attention_based(False), "abs-plus": attention_based(True)},
        given=("--cpu", "--tune", "data/abs_gigaword-duc", "--tune-beam", "4"),
        duc=lambda row: True,
        more=tuple(LANGUAGE_MODEL),
        scores=("rouge.json", "duc.json"),
    ),
    Recipe(
        "nallapati_gigaword",
        gigaword_of_row,
        {
            "words-lvt2k-1sent": on_duc(recurrent(2000, words=(12, 4))),
            "words-lvt2k-2sent-hieratt": recurrent(2000, sentences=True, words=(12, 4)),
            "feats-lvt2k-2sent-ptr": recurrent(2000, factors=FACTORS, pointer="switch", words=(12, 4)),
        },
        option="--row",
        given=("--cpu",),
        more=tuple(RECURRENT),
        duc=lambda row: row.endswith("1sent"),
        scores=("analysis.json",),
    ),
    Recipe(
        "nallapati_cnndm",
        cnndm,
        {
            "words_lvt2k_hieratt": recurrent(2000, sentences=True, words=(36, 20)),
            "pg_coverage": recurrent(pointer="soft", coverage=True, words=(36, 36)),
        },
        given=("--pg-data", "nallapati_cnndm/data/cnndm50k", "--cpu"),
        more=tuple(RECURRENT),
        more_of={"pg_coverage": ("--coverage-loss-start", "0")},
        scores=("../analysis.json",),
    ),
    Recipe(
        "see2017_cnndm",
        cnndm,
        {"pointer_generator": see(False), "pointer_generator_coverage": see(True)},
        given=SEE,
        more=tuple(RECURRENT[:-2]),
    ),
    Recipe(
        "rougesal_cnndm",
        lambda shop, recipe, row: cnndm(shop, "see2017_cnndm", row),
        {"rougesal-entail": rougesal},
        given=(*SEE, "--before", "runs/see2017_cnndm", "--rl-steps", "4"),
        more=tuple(RECURRENT[:-2]),
        steps={"rougesal-entail": 4},
    ),
    Recipe(
        "explicit_selection_cnndm",
        cnndm,
        {"explicit_selection": explicit_selection(False), "explicit_selection_coverage": explicit_selection(True)},
        given=SEE,
        more=tuple(RECURRENT[:-2]),
    ),
    Recipe(
        "inconsistency_cnndm",
        cnndm,
        {"two-stage": unified(False), "end-to-end": unified(True)},
        given=(
            *("--cpu", "--extractor-steps", "3", "--stages", "50/8 60/30", "--stage-steps", "5", "--steps", "8"),
            *("--coverage-steps", str(STEPS), "--joint-steps", str(STEPS)),
        ),
        more=tuple(RECURRENT[:-2]),
    ),
    Recipe(
        "rewrite_cnndm",
        cnndm,
        {"labels": rewritten(False, 5), "rewards": rewritten(True), "rerank": rewritten(True, reranked=True)},
        given=STEPPED,
        more=(
            *("--encoder-embed-dim", "8", "--encoder-hidden-size", "8", "--num-workers", "0", "--log-interval", "1"),
            *("--patience", "-1"),
        ),
    ),
    Recipe(
        "convs2s_xsum",
        xsum,
        {"convs2s-pointer": convolutional(36, "soft")},
        given=("--cpu",),
        more=tuple(CONVOLUTIONAL),
    ),
    Recipe(
        "convs2s_gigaword",
        gigaword,
        {
            "convs2s": convolutional(12, rate=0.25, duc=True),
        },
        given=("--cpu",),
        more=tuple(CONVOLUTIONAL),
        duc=lambda row: True,
        scores=("rouge.json", "duc.json"),
    ),
    Recipe(
        "ras_gigaword",
        gigaword,
        {"ras_lstm": ras("lstm", 0.1)},
        given=("--cpu",),
        more=(*RECURRENT[:4], *RECURRENT[6:]),
        duc=lambda row: True,
        scores=("rouge.json", "duc.json"),
    ),
    Recipe(
        "convs2s_cnndm",
        cnndm,
        {"plain": lambda run: nesterovs_gradient(run, 0.2), "controlled": controlled},
        given=("--cpu", "--size", "250", "--bins", "2", "--lengths", "1 2", "--origins", "cnn"),
        more=tuple(CONVOLUTIONAL),
    ),
    Recipe(
        "closedbook_cnndm",
        cnndm,
        {
            "cbdec": closed_book(),
            "cbdec-coverage": closed_book(coverage=True),
            "cbdec-rl": closed_book(coverage=True, rewards=True),
        },
        given=(
            *("--cpu", "--stages", "60/30", "--rl-steps", str(STEPS)),
            *("--steps", str(STEPS), "--coverage-steps", str(STEPS)),
        ),
        more=(*RECURRENT[:-2], "--validate-interval", "100"),
    ),
    Recipe(
        "entail_gigaword",
        gigaword,
        {"mtl": entailment(False), "entail": entailment(True)},
        given=("--cpu", "--every", "5:2"),
        duc=lambda row: True,
        more=(*RECURRENT, "--readout-dim", "8", "--lr", "0.01"),
        scores=("rouge.json", "duc.json"),
    ),
    Recipe(
        "debian_pointer",
        debian,
        {
            "soft": debian_transformer(focus=True, saliency=True, pointer=True),
        },
        option="--pointers",
        given=(*ON_DEBIAN, "--size", "12"),
        place="--text",
    ),
    Recipe(
        "debian_headlines",
        debian,
        {
            "feats_lvt2k_ptr": recurrent(2000, factors=("tf", "idf"), pointer="switch"),
            "pg_coverage": recurrent(pointer="soft", coverage=True),
            **HEADLINES,
        },
        option="--archs",
        given=(*ON_DEBIAN, "--size", "12"),
        place="--text",
        scores=("../analysis.json",),
        steps={"entail": STEPS - STEPS * 4 // 5},
    ),
    Recipe(
        "debian_equal_time",
        debian,
        {"etads": continuation(True), "pg_coverage": recurrent(pointer="soft", coverage=True)},
        option="--archs",
        given=(*ON_DEBIAN, "--size", "24"),
        place="--text",
        scores=("../analysis.json",),
        steps={"etads": STEPS * 7 // 12},
    ),
    Recipe(
        "debian_rewards",
        debian,
        {"likelihood": rewarded(False), "longer": rewarded(False, again=True), "rewards": rewarded(True, again=True)},
        given=(*ON_DEBIAN, "--size", "12"),
        place="--text",
        scores=("rouge.json", "../analysis.json"),
        steps={"likelihood": STEPS * 15 // 16},
    ),
    Recipe(
        "debian_recurrent_rewards",
        debian,
        {
            "base": going_on(),
            "closed-book": going_on(closed_book=True),
            "longer": going_on(again=True),
            "rl": going_on(("rougeL",)),
            "rougesal-entail": going_on(("rougesal", "entail")),
        },
        given=(*ON_DEBIAN, "--size", "12", "--rl-steps", "4"),
        place="--text",
        scores=("rouge.json", "../analysis.json"),
        steps=dict.fromkeys(("longer", "rl", "rougesal-entail"), 4),
    ),
    Recipe(
        "scitldr",
        scitldr,
        {"etads": best_settings, "long": long_documents(words=200)},
        given=STEPPED,
        place="--text",
        more=tuple(TRANSFORMER),
    ),
    Recipe(
        "sumpubmed_temporal",
        sumpubmed,
        {"temporal": recurrent(2000, temporal=True)},
        option="--systems",
        given=STEPPED,
        more=tuple(RECURRENT),
        summaries="test.txt",
        scores=("../test.json",),
    ),
    Recipe(
        "sumpubmed_continue",
        sumpubmed,
        {"with": continuation(True)},
        option="--systems",
        given=STEPPED,
        more=(*TRANSFORMER, "--encoder-attention-heads", "4"),
        scores=("rouge.json", "../analysis.json"),
    ),
    Recipe(
        "sumpubmed_selection",
        sumpubmed,
        {
            "lead": extraction("lead"),
            "oracle": extraction("oracle"),
            "tagger": extraction("tagger", selector=True),
            "summariser": abstraction(False),
            "bottom-up": abstraction(True),
        },
        given=STEPPED,
        more=(*TRANSFORMER, "--encoder-attention-heads", "4"),
        scores=("rouge.json", "../analysis.json"),
        steps={"lead": 0, "oracle": 0, "tagger": STEPS * 5 // 8},
    ),
    Recipe(
        "sumpubmed_sentences",
        sumpubmed,
        {
            "extractor": extraction("extractor", selector=True),
            "plain": selecting_sentences(),
            "explicit": selecting_sentences(selector=True),
            "coverage": selecting_sentences(coverage=True),
            "unified": selecting_sentences(coverage=True, extractor=True),
        },
        given=(*STEPPED, "--extractor-steps", "3"),
        more=(*RECURRENT[:-2], "--readout-dim", "8"),
        scores=("rouge.json", "../analysis.json"),
        steps={"extractor": 3, "coverage": STEPS * 5 // 16, "unified": STEPS * 5 // 16},
    ),
    Recipe(
        "sumpubmed_rewrite",
        sumpubmed,
        {"labels": rewritten(False, 4), "rewards": rewritten(True), "rerank": rewritten(True, reranked=True)},
        given=("--cpu", "--abstractor-steps", "3", "--extractor-steps", "3", "--rl-steps", "3"),
        more=("--encoder-embed-dim", "8", "--encoder-hidden-size", "8", "--log-interval", "1"),
        scores=("rouge.json", "../analysis.json"),
        steps=dict.fromkeys(("labels", "rewards", "rerank"), 3),
    ),
]
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
    """Called again, a recipe only prints its table with all its rows."""
    for row in recipe.rows:
        recipe.run(shop, row)
    one_at_a_time = recipe.option == "--row" or recipe.more_of
    for row in recipe.rows if one_at_a_time else [""]:
        printed = shop.run(recipe.command(shop, row)).stdout
        assert not re.search("^== training (?!will )", printed, re.MULTILINE) and "already trained" in printed
        rows = set(re.findall(r"^\| `?([\w-]+?)(?:-1)?`?(?:-1)? +\|", printed, re.MULTILINE))
        expected = {row} if one_at_a_time else {*recipe.rows}
        beside = {"system", "pointer", "reference", "lead-3", "lead-8-words"}
        assert rows - beside == expected - beside, printed


@pytest.mark.parametrize("recipe", RECIPES_AND_ROWS, ids=NAMES)
def test_what_does_not_exist_is_refused_in_words(recipe, shop):
    """The tests cover all rows that can be selected."""
    refused = shop.run(
        [*recipe.command(shop, ""), recipe.option, "nonesuch"] if not recipe.more else recipe.command(shop, "nonesuch"),
        check=False,
    )
    assert refused.returncode == 2
    offered = re.search(rf"{recipe.option}s? nonesuch: choose one of: (.+)", refused.stdout)
    assert offered and set(offered[1].replace(",", "").split()) - {"e4d4"} == {
        *recipe.rows,
        *MECHANISMS.get(recipe.name, ()),
    }, refused.stdout
    missing = [f"scripts/reproduce/{recipe.name}.sh", recipe.option, next(iter(recipe.rows)), recipe.place, "nowhere"]
    assert f": {recipe.place} nowhere: no " in shop.run(missing, check=False).stdout


def test_every_recipe_is_tested():
    assert sorted(NAMES) == sorted(path.stem for path in RECIPES.glob("*.sh"))
