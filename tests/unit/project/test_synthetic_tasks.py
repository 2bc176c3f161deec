"""The synthetic tasks have the rules that they claim, and a very small training is recorded once."""

import json
import sys
from collections import Counter
from types import SimpleNamespace

import pytest
import torch
from documented import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
tasks = __import__("synthetic_tasks")


def drawn(name, number=400):
    generator = torch.Generator().manual_seed(3)
    return [tasks.TASKS[name](generator) for _ in range(number)]


def test_the_summary_is_the_marked_sentence():
    for document, summary in drawn("marked"):
        place = document.index(tasks.MARKER)
        assert summary == document[place + 1 : place + 5] and place % 4 == 0 and len(document) == 21


def test_the_summary_has_the_words_at_the_positions():
    for document, summary in drawn("position"):
        numbers, words = [number - tasks.FIRST - tasks.WORDS for number in document[:2]], document[2:]
        assert summary == [words[number] for number in numbers] and len(words) == tasks.PLACES


def test_the_summary_has_the_salient_words_which_are_no_more_frequent_than_others():
    counts = Counter()
    for document, summary in drawn("salient", 3000):
        salient = [word for word in document if word - tasks.FIRST < tasks.WORDS // 4]
        assert summary == salient and len(summary) == 4 and len(document) == 16
        counts.update(document)
    assert set(counts) == set(range(tasks.FIRST, tasks.FIRST + tasks.WORDS))
    first = sum(counts[word] for word in range(tasks.FIRST, tasks.FIRST + tasks.WORDS // 4)) / (tasks.WORDS // 4)
    assert first == pytest.approx(3000 * 16 / tasks.WORDS, rel=0.001)


def test_a_small_training_is_recorded_once(tmp_path, monkeypatch, capsys):
    output = tmp_path / "tasks.json"
    options = ["--tasks", "marked", "--seeds", "1", "--steps", "4", "--every", "2", "--batch", "4", "--width", "16"]
    command = ["synthetic_tasks.py", *options, "--documents", "3", "--output", str(output)]
    monkeypatch.setattr(sys, "argv", command)
    tasks.main()
    records = json.loads(output.read_text(encoding="utf-8"))["trainings"]
    assert [record["system"] for record in records] == tasks.SYSTEMS_OF["marked"]
    for record in records:
        assert list(record["accuracy"]) == ["2", "4"] and record["options"] == " ".join(tasks.SYSTEMS[record["system"]])
        assert all(0 <= value <= 100 for value in record["accuracy"].values())
        assert record["commit"] and record["processor seconds"] > 0
    written = output.read_text(encoding="utf-8")
    capsys.readouterr()
    tasks.main()
    assert output.read_text(encoding="utf-8") == written and not capsys.readouterr().out


def test_accuracy_counts_words_at_their_places(monkeypatch):
    class Given:
        def __init__(self, *_, **__):
            pass

        def generate(self, *_):
            return [[{"tokens": torch.tensor(row)}] for row in ([5, 6, 2], [6, 5, 2])]

    trainer = SimpleNamespace(model=torch.nn.Identity(), task=SimpleNamespace(target_dictionary=None))
    monkeypatch.setattr(tasks, "SummaryGenerator", Given)
    assert tasks.compute_accuracy(trainer, [([7, 8], [5, 6]), ([7, 8], [6, 6])]) == 0.75
