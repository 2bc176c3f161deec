"""docs/results.md matches the records in results/, and its verdicts follow from the scores."""

import importlib.util
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[3]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


sys.path.insert(0, str(ROOT / "scripts"))
results_page, evidence = load("results_page"), load("evidence")
claims_table, comparisons = sys.modules["claims_table"], sys.modules["results_comparisons"]


def made_up(system, seed, gain=0.0, likely=0.0, documents=40):
    """Make a record of a system with scores higher by ``gain`` and log p per word higher by ``likely``."""
    rng = np.random.default_rng(0)
    noise = np.random.default_rng([seed, len(system)]).normal(scale=0.5, size=documents)
    base = rng.uniform(20, 60, size=documents) + noise + gain
    tokens = rng.integers(4, 9, size=documents)
    scores = {metric: [round(float(value), 2) for value in base - 10 * n] for n, metric in enumerate(evidence.METRICS)}
    score = {"f1": 40.0, "f1_interval": [38.0, 42.0], "precision": 50.0, "recall": 30.0}
    return {
        "system": system,
        "seed": seed,
        "steps": 100,
        "parameters": 2_000_000,
        "valid_perplexity": 20.0,
        "f1": scores,
        "rouge": {"signature": "ROUGE|made up", "scores": dict.fromkeys(scores, score)},
        "analysis": dict.fromkeys(
            ["words", "copy rate", *(f"{what} {n}-grams" for what in ("novel", "repeated") for n in (1, 2, 3, 4))], 1.0
        ),
        "tokens": tokens.tolist(),
        "unknown": [0] * documents,
        "log_likelihood": ((rng.normal(-4, 1, size=documents) + likely + noise / 100) * tokens).tolist(),
        "mechanisms": {"gate": [0.5] * 11},
    }


def write(folder, *records):
    for record in records:
        path = folder / "debian" / f"{record['system']}-{record['seed']}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(record), encoding="utf-8")


def rows(text, first, second):
    claims = text.partition("## All claims")[0]
    return [line for line in claims.splitlines() if f"`{first}` minus `{second}`" in line]


def row_of_claim(text, claim):
    """Cells of a row of the table of all claims."""
    (row,) = [line for line in text.partition("## All claims")[2].splitlines() if f"| {claim} " in line]
    return cells_of(row)


def cells_of(row):
    return [cell.strip() for cell in row.strip("|").split("|")]


@pytest.mark.parametrize(
    "gain,verdict", [(3, "**holds**"), (-3, "**contradicted**, published size (+1.30) excluded"), (0, "undecided")]
)
def test_verdicts_follow_from_the_scores(gain, verdict, tmp_path, monkeypatch):
    monkeypatch.setattr(comparisons, "RESAMPLES", 400)
    for seed in (1, 2, 3):
        write(tmp_path, made_up("etads_focus", seed, gain), made_up("etads_basic", seed))
    (row,) = rows(results_page.make_page(tmp_path), "etads_focus", "etads_basic")
    cells = cells_of(row)
    assert cells[-1].startswith(verdict) and cells[4] == "3, 3"
    assert float(cells[8].split(" ")[0]) == pytest.approx(gain, abs=0.5)


@pytest.mark.parametrize("seeds", [((1,), (1,)), ((1, 2, 3), (1, 2))])
def test_fewer_than_three_trainings_decide_nothing(seeds, tmp_path, monkeypatch):
    monkeypatch.setattr(comparisons, "RESAMPLES", 100)
    write(tmp_path, *(made_up("etads_focus", seed, 9.0) for seed in seeds[0]))
    write(tmp_path, *(made_up("etads_basic", seed) for seed in seeds[1]))
    text = results_page.make_page(tmp_path)
    (row,) = rows(text, "etads_focus", "etads_basic")
    assert text.index("no verdicts") < text.index(row)
    assert "holds" not in row and cells_of(row)[4] == f"{len(seeds[0])}, {len(seeds[1])}"
    assert not re.search(r"\bnan\b", text), "no deviation between seeds is known"


def test_p_values_are_corrected_within_a_paper(tmp_path, monkeypatch):
    monkeypatch.setattr(comparisons, "RESAMPLES", 300)
    for seed in (1, 2, 3):
        for system in ("etads", "etads_focus", "etads_saliency", "etads_basic"):
            write(tmp_path, made_up(system, seed, 3.0 * (system == "etads")))
    text = results_page.make_page(tmp_path)
    (row,) = rows(text, "etads", "etads_basic")
    plain, corrected = (float(cell.strip("< ")) for cell in cells_of(row)[10:12])
    assert corrected >= 3 * plain  # three of the five claims have a difference


def test_p_values_with_the_recipe_are_corrected_for_all_planned_claims():
    claim = next(claim for claim in comparisons.CLAIMS if (claim.first, claim.second) == ("etads", "etads_basic"))
    scores = [comparisons.Difference(1.0, 0.1, 1.9, 0.01)] * 4
    of_recipe = comparisons.Comparison(claim, "debian_recipe", [], [], scores, None)
    assert comparisons.correct_p_values_by_paper([of_recipe]) == [pytest.approx(0.05)]
    assert comparisons.correct_p_values_by_paper([of_recipe._replace(corpus="debian")]) == [pytest.approx(0.01)]


def test_all_claims_have_a_verdict_an_answer_or_a_cost(tmp_path, monkeypatch):
    monkeypatch.setattr(comparisons, "RESAMPLES", 400)
    for seed in (1, 2, 3):
        write(
            tmp_path, made_up("etads_focus", seed, 3.0), made_up("etads_basic", seed), made_up("etads_saliency", seed)
        )
    novel, plain = made_up("attn_1", 1), made_up("plain", 1)
    for n in (1, 2, 3, 4):
        novel["analysis"][f"novel {n}-grams"] += n
    write(tmp_path, novel, plain)
    text = results_page.make_page(tmp_path)
    assert row_of_claim(text, "focus-attention helps")[-1].endswith("(3 and 3 trainings), **holds**")
    assert row_of_claim(text, "saliency-selection helps")[-1].partition("), ")[2].startswith("undecided")
    *_, novelty = row_of_claim(text, "more novel n-grams (+0.5 / 4.6 / 7.8 / 10.1)")
    assert novelty.endswith("+1.0 / +2.0 / +3.0 / +4.0 (1 and 1 trainings)")
    assert row_of_claim(text, "DUC-2004")[-1] == "DUC-2004 cannot be redistributed"
    for claim in ("two layers of the encoder are worse than four", "aggregation by attention helps"):
        assert re.search(r"would need (\d+|more than 200) seeds a side", row_of_claim(text, claim)[-1]), claim
    empty = [row for row in text.partition("## All claims")[2].split("Source")[0].splitlines() if row.endswith("| |")]
    assert not empty


def figures(text, row):
    """The mean of the three figures behind a row's name in a recipe's header."""
    found = re.search(rf"(?<![\w-]){row}[^/\n]*?(\d+\.\d+) ?/ ?(\d+\.\d+) ?/ ?(\d+\.\d+)", text)
    return sum(map(float, found.groups())) / 3


@pytest.mark.parametrize(
    "recipe,first,second,claim",
    [
        ("etads_cnndm", "focus", "basic", "focus-attention helps"),
        ("etads_cnndm", "saliency", "basic", "saliency-selection helps"),
        ("etads_cnndm", "etads", "basic", "both help"),
        ("etads_cnndm", "etads", "focus", "both beat focus-attention alone"),
        ("etads_cnndm", "etads", "saliency", "both beat saliency-selection alone"),
        ("etads_cnndm", "encoder-2", "basic", "two layers of the encoder are worse than four"),
        ("etads_cnndm", "decoder-2", "basic", "two layers of the decoder are worse than four"),
        ("aggregation_cnndm", "m6", "m1 ", "aggregation by attention helps"),
        ("aggregation_cnndm", "m4", "m1 ", "aggregation by projection helps"),
        ("aggregation_cnndm", "m6", "m4", "attention beats projection"),
        ("aggregation_cnndm", "m1 ", "m2", "addition hurts"),
        ("gated_gigaword", "es_transformer", "transformer", "sharing the encoder's layers helps"),
        ("gated_gigaword", "gated_es_transformer", "es_transformer", "the gate helps on top"),
        ("nallapati_cnndm", "words_lvt2k_temp_att", "words_lvt2k", "temporal attention helps"),
        ("nallapati_cnndm", "words_lvt2k_hieratt", "words_lvt2k", "hierarchical attention helps"),
    ],
)
def test_published_sizes_are_those_of_the_recipes(recipe, first, second, claim):
    text = (ROOT / "scripts" / "reproduce" / f"{recipe}.sh").read_text(encoding="utf-8")
    text = text.partition("published R-1" if "etads" in recipe or "gated" in recipe else "Published")[2]
    published = figures(text, first) - figures(text, second)
    (row,) = [row for row in claims_table.ROWS if row.claim == claim]
    assert row.published == pytest.approx(published, abs=0.0051)
    same = [one for one in comparisons.CLAIMS if f"{one.first} minus {one.second}" in pairs_of(row)]
    assert all(one.published == row.published for one in same)


def pairs_of(row):
    """Return the pairs that the answer of a row compares."""
    asked = []

    class Verdicts(dict):
        def get(self, key, default=None):
            asked.append(key)

    row.answer(claims_table.ClaimEvidence({}, Verdicts(), 1.0, ROOT))
    return asked


def test_pairs_of_the_sample_and_families_count(tmp_path, monkeypatch):
    """A gain on pairs that were used to choose settings does not count."""
    monkeypatch.setattr(comparisons, "RESAMPLES", 300)
    for seed in (1, 2, 3):
        better = made_up("etads_focus", seed)
        for scores in better["f1"].values():
            scores[:20] = [score + 30 for score in scores[:20]]
        write(tmp_path, better, made_up("etads_basic", seed))
    kinds = ["test"] * 20 + ["-"] * 20
    lines = [f"family-{n // 2}\t{kind}\n" for n, kind in enumerate(kinds)]
    (tmp_path / "debian-families.tsv").write_text("".join(lines), encoding="utf-8")
    text = results_page.make_page(tmp_path)
    (row,) = rows(text, "etads_focus", "etads_basic")
    assert cells_of(row)[-1].startswith("undecided") and abs(float(cells_of(row)[8].split(" ")[0])) < 1
    assert "The 20 pairs" in text
    assert comparisons.read_documents(tmp_path, "debian", 40).families.max() == 19


def test_likelihoods_of_other_words_are_not_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(comparisons, "RESAMPLES", 100)
    pieces = made_up("etads_basic", 1)
    pieces["tokens"] = [count + 1 for count in pieces["tokens"]]
    write(tmp_path, made_up("etads_focus", 1), pieces)
    (row,) = rows(results_page.make_page(tmp_path), "etads_focus", "etads_basic")
    assert cells_of(row)[9] == ""


def test_tenths_are_the_nearest_steps():
    assert evidence.choose_steps_at_tenths(list(range(10, 101, 10))) == [10, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
    assert evidence.choose_steps_at_tenths([7]) == [7] * 11


def test_folders_of_a_machine_are_left_out_of_commands(tmp_path):
    command = "fairseq-train /home/me/data/bin --seed 1 --user-dir /x/fairseq/examples/pointer_generator/src"
    command += " --save-dir /home/me/run/checkpoints"
    (tmp_path / "finished.txt").write_text(command + "\n", encoding="utf-8")
    assert evidence.read_training_command(tmp_path) == (
        "fairseq-train DATA/bin --seed 1 --user-dir FAIRSEQ/examples/pointer_generator/src --save-dir RUN/checkpoints"
    )


RECORDS = {corpus: results_page.read_records(ROOT / "results" / corpus) for corpus in results_page.CORPORA}
PAGE = (ROOT / "docs/results.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("corpus", [corpus for corpus in RECORDS if RECORDS[corpus]])
def test_the_page_has_the_table_of_every_record(corpus):
    assert results_page.format_systems_table(results_page.sort_records(RECORDS[corpus])) in PAGE


def prose_of(page):
    """Lines outside of tables, with a 0 for every number."""
    return [re.sub(r"[\d.,]*\d", "0", line) for line in page.splitlines() if not line.startswith("|")]


def test_the_page_has_the_difference_of_every_claim(monkeypatch):
    """The whole page except intervals and p-values, which take a minute: ``results_page.py --check``."""
    monkeypatch.setattr(comparisons, "RESAMPLES", 2)
    made = results_page.make_page(ROOT / "results")
    assert prose_of(made) == prose_of(PAGE)
    found = results_page.compare_systems(ROOT / "results", RECORDS)
    assert found
    for comparison in found:
        claim, corpus = comparison.claim, results_page.CORPORA[comparison.corpus]
        found_rows = rows(PAGE, claim.first, claim.second)
        (shown,) = [row for row in found_rows if cells_of(row)[1:3] == [claim.text, corpus]]
        values = [float(cell.split(" ")[0]) for cell in cells_of(shown)[5:9]]
        assert values == pytest.approx([score.value for score in comparison.scores], abs=0.006)


@pytest.mark.parametrize(
    "path",
    sorted(path for corpus in results_page.CORPORA for path in (ROOT / "results" / corpus).glob("*.json")),
    ids=lambda path: "/".join(path.parts[-2:]),
)
def test_records_are_of_clean_commits_and_scores_agree(path):
    record = json.loads(path.read_text(encoding="utf-8"))
    assert path.name == f"{record['system']}-{record['seed']}.json" and path.parent.name == record["corpus"]
    assert re.fullmatch(r"[0-9a-f]{40}", record["commit"]), "the sources had changes that no commit has"
    assert not re.search(r"/(home|root|work|tmp)/", json.dumps(record))
    for metric, scores in record["f1"].items():
        assert np.mean(scores) == pytest.approx(record["rouge"]["scores"][metric]["f1"], abs=0.005)
