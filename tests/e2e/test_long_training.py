"""etads-train --long: from JSON lines of long documents to a model folder that reads them whole."""

import json
import random
import shutil
from pathlib import Path

import pytest
from helpers import run_command

TOPICS = ["copper", "river", "glass", "market", "engine", "garden", "theatre", "harbour", "violin", "orchard"]
FILL = ["the", "of", "old", "new", "many", "with", "people", "from", "town", "said", "later", "about", "there", "some"]
FILL += ["long", "day", "year", "small", "had", "was"]
SENTENCES = 30
TINY = [f"--{side}-{what}-dim=16" for side in ("encoder", "decoder") for what in ("embed", "ffn-embed")]


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
    command += ["--cpu", "--recipe", "small", "--max-update", "12", "--", "--seed", "5", *TINY]
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
