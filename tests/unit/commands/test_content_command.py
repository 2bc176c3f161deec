"""etads-content and etads-extract --by content, in process, on data in which one kind of word makes summaries."""

import random
import shutil

import numpy as np
import pytest
import torch
from selection_data import write_data

from fairseq_etads.commands.content import fit_feature_network, main
from fairseq_etads.commands.extract import main as extract
from fairseq_etads.data.labels import compute_source_hash, write_label_rows

SPLITS = {"train": 120, "valid": 12, "test": 8}


def pair(r):
    """A document with two sentences of key words, and the summary that has the same words in another order."""
    words = [f"key{number}" for number in r.sample(range(26), 10)]
    keys = [words[:5], words[5:]]
    sentences = [*([f"plain{r.randint(0, 25)}" for _ in range(5)] for _ in range(4)), *keys]
    r.shuffle(sentences)
    return " <q> ".join(map(" ".join, sentences)), " <q> ".join(map(" ".join, reversed(keys)))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("content")
    r = random.Random(5)
    pairs = {split: [pair(r) for _ in range(count)] for split, count in SPLITS.items()}
    write_data(path / "prepared" / "bin", pairs)
    for split, rows in pairs.items():
        documents = [document for document, _ in rows]
        values = [[f"{r.random():.4g}" for _ in document.split("<q>")] for document in documents]
        hashes = [compute_source_hash(document.split()) for document in documents]
        header = {"documents": len(rows), "truncate_source": 100_000}
        write_label_rows(path / f"probabilities.sentences.{split}", header, zip(hashes, values))
    assert main([str(path), "--documents", "100"]) == 0
    return path, pairs


def chosen(made, *options):
    path, _ = made
    arguments = [str(path / "prepared"), str(path / "out.txt"), "--by", "content", "--selection", str(path), *options]
    assert extract(arguments) == 0
    return [[sentence.split() for sentence in line.split("<q>")] for line in (path / "out.txt").open()]


def test_training_can_be_repeated_and_another_seed_makes_another_model(made, tmp_path, capsys):
    models = []
    for seed in ("1", "1", "7"):
        path = shutil.copytree(made[0], tmp_path / str(len(models)))
        assert main([str(path), "--documents", "100", "--seed", seed]) == 0
        with np.load(path / "content.npz") as file:
            models.append({name: file[name].tobytes() for name in file.files})
    assert models[0] == models[1] != models[2]
    said = capsys.readouterr().out
    assert "from 120 pairs, networks trained on 100" in said


def test_sentences_with_the_words_of_summaries_are_chosen(made):
    for summary, (document, reference) in zip(chosen(made), made[1]["test"]):
        wanted = [sentence.split() for sentence in document.split("<q>") if "key" in sentence]
        words = [word for sentence in summary for word in sentence]
        assert summary == wanted and sorted(words) == sorted(reference.replace("<q>", "").split())
    assert all(len(summary) == 1 for summary in chosen(made, "--words", "5"))


def test_long_documents_are_read_to_their_end(made, tmp_path):
    """Two sentences of 300 words are too long to be chosen, and the key words follow them."""
    r = random.Random(9)
    plain = [[f"plain{r.randint(0, 25)}" for _ in range(300)] for _ in range(2)]
    keys = [[f"key{number}" for number in range(first, first + 5)] for first in (0, 5)]
    document = " <q> ".join(map(" ".join, [*plain, *keys]))
    write_data(tmp_path / "prepared" / "bin", {"test": [(document, "key0")]})
    row = (compute_source_hash(document.split()), ["0.5"] * 4)
    write_label_rows(tmp_path / "probabilities.sentences.test", {"documents": 1, "truncate_source": 100_000}, [row])
    shutil.copy(made[0] / "content.npz", tmp_path)
    assert chosen((tmp_path, None)) == [keys]
    assert chosen((tmp_path, None), "--truncate-source", "400") != [keys]


def test_a_network_learns_what_no_line_separates():
    features = np.random.RandomState(0).randn(200_000, 3).astype("float32") * [5, 1, 1] + [7, 0, 0]
    labels = (abs(features[:, 0] - 7) < 3).tolist()
    state = torch.random.get_rng_state()
    network = fit_feature_network(features, labels, 1)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert ((network.predict_probabilities(features) > 0.5) == labels).mean() > 0.9
