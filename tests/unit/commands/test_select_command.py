"""etads-select, in process, with untrained models: each document's probabilities, in order, in any batches."""

import json

import pytest
import torch
from folders import make_run, save_checkpoint
from helpers import make_task, model_config
from test_likelihood import write_subset
from test_selector import DOCUMENTS, MARK, SIZES, units

from fairseq_etads.commands.select import main
from fairseq_etads.data.labels import compute_source_hash, write_label_rows


@pytest.fixture(params=SIZES)
def run(request, tmp_path):
    """A run with an untrained selector and the split test; also returns the model."""
    make_run(tmp_path / "run", mark=True, tail=9)
    write_subset(tmp_path / "run" / "prepared" / "bin", "test", DOCUMENTS, [[5]] * len(DOCUMENTS))
    task = make_task(60, 20, mark=True, tail=9)
    torch.manual_seed(1)
    cfg = model_config(request.param, **SIZES[request.param])
    model = task.build_model(cfg).eval()
    save_checkpoint(tmp_path / "run" / "checkpoints" / "checkpoint_best.pt", model, cfg, task)
    return tmp_path / "run", model


def test_probabilities_are_those_of_each_document_alone_and_in_its_place(run, capsys):
    folder, model = run
    expected = [units(model, [document])[0] for document in DOCUMENTS]
    for most in ("1", "30", "1000"):
        assert main([str(folder), "--subset", "test", "--max-tokens", most, "--device", "cpu"]) == 0
        (path,) = folder.glob("probabilities.*.test")
        rows = [line.partition("\t")[2].split() for line in path.read_text().splitlines()[1:]]
        found = [[float(field) for field in row if field != "-"] for row in rows]
        for document, values, wanted in zip(DOCUMENTS, found, expected):
            if model.unit == "words":  # a mark has a probability, but nothing asks for it
                wanted = [value for value, word in zip(wanted, document) if word != MARK]
            assert values[: len(wanted)] == pytest.approx(wanted, rel=2e-3)
            assert not any(values[len(wanted) :]), "sentences that are not read have probability 0"
    assert f"{path}: {model.unit} of 5 documents" in capsys.readouterr().out


def test_labels_judge_what_is_read(run, tmp_path, capsys):
    folder, model = run
    words = make_task(60, 20, mark=True, tail=9).source_dictionary
    texts = [[words[number] for number in document] for document in DOCUMENTS]
    fields = [[str(int(n == 0)) for n in range(len(text))] if model.unit == "words" else ["0"] for text in texts]
    rows = zip(map(compute_source_hash, texts), fields)
    write_label_rows(tmp_path / f"labels.{model.unit}.test", {"documents": 5}, rows)
    (folder / "checkpoints/checkpoint_best.pt").rename(folder / "checkpoints/checkpoint_last.pt")
    report, given = tmp_path / "report.json", [str(folder), "--subset", "test", "--labels", str(tmp_path)]
    given += ["--out", str(tmp_path / "out"), "--checkpoint", "last", "--report", str(report)]
    assert main([*given, "--truncate-source", "3"]) == 0
    assert f"AUC {json.loads(report.read_text())['test']['auc']:.4f}" in capsys.readouterr().out
    header, first, *_ = (tmp_path / "out" / f"probabilities.{model.unit}.test").read_text().splitlines()
    assert '"truncate_source": 3' in header and len(first.split()) == (4 if model.unit == "words" else 2)
    found = []
    for threshold in ("0", "1"):  # above which there is everything, and nothing
        assert main([*given, "--threshold", threshold]) == 0
        found.append(json.loads(report.read_text())["test"]["f1"])
    assert found[0] > found[1] == 0
