"""Bundled models: what a newcomer does with one, and how recipes make them; and a model for long documents."""

import json
import random
import shutil
from pathlib import Path

import corpora
import pytest
from helpers import run_command
from test_recipes import Workshop, debian

from fairseq_etads import Summarizer


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    return Workshop(tmp_path_factory.mktemp("bundled"))


NARROW = [f"--{side}-{what}-dim=16" for side in ("encoder", "decoder") for what in ("embed", "ffn-embed")]


def test_it_trains_scores_and_exports_and_does_so_once(shop):
    text = debian(shop, "", "")
    command = ["etads-reproduce", "bundled_debian", "--text", text, "--out", "out", "--size", "12", "--steps", "6"]
    command += ["--", *NARROW]
    assert "ROUGE-1" in shop.run(command).stdout
    folder = shop.folder / "out" / "debian-1" / "model"
    check_like_bundled("debian", folder)
    made = (folder / "model.safetensors").read_bytes()
    assert "already trained" in shop.run(command).stdout
    assert (folder / "model.safetensors").read_bytes() == made


def test_the_model_of_papers_is_made_from_articles_with_its_extractor(shop):
    corpora.sumpubmed(shop.folder / "articles", 130)
    shop.run(["etads-corpus", "sumpubmed", "--data", "articles", "--out", "text"])
    command = ["etads-reproduce", "bundled_paper", "--text", "text", "--out", "paper", "--size", "24", "--steps", "4"]
    # The summaries of this corpus are shorter than the model's --min-len.
    assert "ROUGE-1" in shop.run([*command, "--", *NARROW, "--truncate-target", "128"]).stdout
    folder = shop.folder / "paper" / "paper-1" / "model"
    check_like_bundled("paper", folder)
    extractors = [json.loads((path / "extractor" / "config.json").read_text()) for path in (folder, bundled("paper"))]
    for part in ("text", "architecture", "model"):
        assert extractors[0][part] == extractors[1][part]


def bundled(name):
    return Summarizer.load(name, "cpu").folder


ARTICLE = """\
The council of Oakham voted on Monday to close the old bridge over the river Wye. Engineers had found cracks in two of
its seven arches. The bridge carries 4,000 cars a day. Repairs will take eighteen months. A ferry will start next week.
"""


def test_texts_of_ones_own_are_summarised_and_explained_without_a_models_name(tmp_path):
    records = [json.dumps({"id": name, "text": ARTICLE.replace("Oakham", name)}) for name in ("Ulm", "Olm")]
    (tmp_path / "article.txt").write_text(ARTICLE)
    (tmp_path / "articles.jsonl").write_text("\n".join(records))

    def etads(*words):
        return run_command(["etads", *words], tmp_path).stdout

    short = etads("summarize", "article.txt", "--words", "30", "--must-include", "ferry", "--quiet").strip()
    assert short.endswith("A ferry will start next week.") and len(short.split()) <= 30
    etads("summarize", "articles.jsonl", "--sentences", "2", "--output", "out.txt")
    rows = etads("evidence", "--source", "articles.jsonl", "--system", "news=out.txt").splitlines()
    found = [json.loads(row)["systems"]["news"] for row in rows]
    assert [len(sentences) for sentences in found] == [2, 2] and "Olm" in found[1][0]["sentence"]
    assert {one["support"] for sentences in found for one in sentences} == {1.0}, "whole sentences of the documents"
    etads("explain", "article.txt", "--sentences", "2", "--output", "why.html")
    assert "eighteen" in (tmp_path / "why.html").read_text()


def check_like_bundled(name, folder):
    """Compare a folder of a tiny model with the folder that comes with the package."""
    assert "ROUGE|backend" in (folder / "README.md").read_text()
    config, bundled_config = (json.loads((path / "config.json").read_text()) for path in (folder, bundled(name)))
    found, kept = config["model"], bundled_config["model"]
    off = (0, False, "", None, "zeros", "none", "auto")
    assert all(found[name] in off for name in found.keys() - kept.keys()), "a new option is on by default"
    different = {name for name in kept if found[name] != kept[name]}
    sizes = {f"{side}_{what}" for side in ("encoder", "decoder") for what in ("embed_dim", "ffn_embed_dim")}
    # the recipe chooses dropout by the number of epochs, which is large for a tiny corpus
    assert different - {"dropout"} == sizes | {"decoder_input_dim", "decoder_output_dim"}
    for one in (config, bundled_config):  # a recipe derives the bounds of lengths from the training summaries
        del one["decoding"]["min_len"], one["decoding"]["max_len"]
    for part in ("text", "decoding", "architecture"):
        assert config[part] == bundled_config[part], "the bundled model is not what the recipe makes"
    assert config["weights"]["dtype"] == bundled_config["weights"]["dtype"] == "fp16"


TOPICS = ["copper", "river", "glass", "market", "engine", "garden", "theatre", "harbour", "violin", "orchard"]
FILL = ["the", "of", "old", "new", "many", "with", "people", "from", "town", "said", "later", "about", "there", "some"]
FILL += ["long", "day", "year", "small", "had", "was"]
SENTENCES = 30


def document(number):
    """A long document, and its summary: the content of one sentence far from its beginning."""
    draw = random.Random(number)
    topic, other = draw.sample(TOPICS, 2)
    sentences = [" ".join(draw.choices(FILL, k=draw.randint(6, 10))).capitalize() + "." for _ in range(SENTENCES)]
    conclusion = draw.randint(SENTENCES // 2, SENTENCES - 2)
    sentences[conclusion] = f"Researchers conclude that {topic} replaces {other} in region {number}."
    return " ".join(sentences), f"{topic} replaces {other} in region {number}."


def train(folder):
    command = ["etads-train", "--text", "mine.jsonl", "--out", "run", "--long", "--words", "60"]
    command += ["--cpu", "--recipe", "small", "--max-update", "12", "--", "--seed", "5", *NARROW]
    return run_command(command, cwd=folder).stdout


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with mine.jsonl and the run trained on it, and the output of etads-train."""
    folder = tmp_path_factory.mktemp("long")
    pairs = (dict(zip(("document", "summary"), document(number))) for number in range(130))
    (folder / "mine.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    return folder, train(folder)


def test_two_commands_make_a_model_that_reads_long_documents_whole(trained):
    folder, said = trained
    assert "up to 60 words (--words)" in said
    for run in (folder / "run", folder / "run" / "shortened" / "extractor"):
        assert "--seed 5" in " ".join(json.loads((run / "training.json").read_text())["command"])
    exported = run_command(["etads-export", "run", "model"], cwd=folder).stdout
    assert "including the extractor of this run, run/shortened/extractor" in exported
    texts = {f"{number}.txt": document(number) for number in range(1000, 1010)}
    (folder / "new").mkdir()
    for name, (text, _) in texts.items():
        (folder / "new" / name).write_text(text)
    run_command(["etads-summarize", "model", "new", "--output", "new.jsonl", "--device", "cpu"], cwd=folder)
    found = 0
    for line in (folder / "new.jsonl").read_text().splitlines():
        record = json.loads(line)
        picked = record["picked"]
        assert picked["total"] == SENTENCES and record["left_out"] == 0
        assert sum(len(sentence["text"].split()) for sentence in picked["sentences"]) <= 60
        best = max(picked["sentences"], key=lambda sentence: sentence["probability"])
        found += best["text"].endswith(f"that {texts[Path(record['document']).name][1]}")
        assert record["chosen"] and {one["source"] for one in record["chosen"]} <= {"document", "model"}
    assert found >= 9, "the extractor has learned which sentence is in the summary, wherever it stands"


def test_an_interrupted_run_continues_without_repeating_what_is_complete(trained):
    folder, _ = trained
    shortened = folder / "run" / "shortened"
    made = {path: path.stat().st_mtime_ns for path in (*shortened.rglob("*.pt"), *(shortened / "text").iterdir())}
    assert len(made) > 4
    (folder / "run" / "finished.txt").unlink()
    shutil.rmtree(folder / "run" / "checkpoints")
    train(folder)
    assert (folder / "run" / "checkpoints" / "checkpoint_best.pt").is_file()
    assert made == {path: path.stat().st_mtime_ns for path in made}, "it was made again"
    assert train(folder).count("already trained with these options") == 2
