"""etads-corpus --near-duplicates against the similarity of every pair, computed from the runs of words themselves."""

import random
import sys

import pytest
from etads_preprocess import near_duplicates as module
from etads_preprocess.near_duplicates import FOUND_SHARE, choose_lsh_bands, find_near_duplicates, make_shingles
from test_readers import refused, run

WORDS = [f"word{number}" for number in range(400)]


def write(folder, **splits):
    for split, documents in splits.items():
        (folder / f"{split}.source").write_text("".join(line + "\n" for line in documents))
        (folder / f"{split}.target").write_text("a summary\n" * len(documents))
    return folder


def edited(document, places):
    return " ".join("other" if place in places else word for place, word in enumerate(document.split()))


def jaccard(first, second):
    first, second = make_shingles(first), make_shingles(second)
    return len(first & second) / len(first | second)


def documents(count, seed):
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=100)) for _ in range(count)]


def test_runs_of_words():
    assert make_shingles("One, two. <q> THREE four five six") == {"one two three four five", "two three four five six"}
    assert make_shingles("One two") == {"one two"} and make_shingles(" <q> .") == set()


def test_what_is_found_is_what_comparing_all_pairs_finds(tmp_path):
    """Edits of 1 or 2 places give a similarity of 0.9 or 0.81, above the threshold of 0.7; 20 edits are far below."""
    pytest.importorskip("datasketch")
    train = documents(30, seed=1)
    test = [edited(train[0], [50]), edited(train[1], [20, 70]), edited(train[2], range(0, 100, 5))]
    test += documents(9, seed=2)
    test += [edited(test[-1], [3]), train[4], f"{train[5].upper()} ."]
    write(tmp_path, train=[*train, train[7], "", edited(train[8], [1, 2])], test=[*test, ""])
    found = find_near_duplicates(tmp_path, ["train", "test"], 0.7, jobs=1)
    # Equal ones are no news.
    assert found["splits"] == {"train": {"within": 1}, "test": {"within": 1, "also in train": 3}}
    rows = [line.split("\t") for line in (tmp_path / module.LIST).read_text().splitlines()[1:]]
    assert {" ".join(row[:4]) for row in rows} == {
        *("train 33 train 9", "test 13 test 12", "test 1 train 1", "test 2 train 2", "test 15 train 6")
    }
    lines = {split: (tmp_path / f"{split}.source").read_text().split("\n") for split in ("train", "test")}
    for split, line, other, place, similarity in rows:
        exact = jaccard(lines[split][int(line) - 1], lines[other][int(place) - 1])
        assert exact >= 0.7 and abs(float(similarity) - exact) < 0.2


def test_one_stands_for_many(tmp_path, monkeypatch):
    """A template is filled in a hundred times, and not compared with all earlier ones, which takes quadratic time."""
    pytest.importorskip("datasketch")
    compared = []
    query = module._DuplicateIndex.add

    def add(self, *arguments):
        compared.append(len(self._documents))
        return query(self, *arguments)

    monkeypatch.setattr(module._DuplicateIndex, "add", add)
    (template,) = documents(1, seed=3)
    write(tmp_path, train=[f"{template} {number}" for number in range(100)])
    found = find_near_duplicates(tmp_path, ["train"], 0.8, jobs=1)
    assert found["splits"] == {"train": {"within": 99}} and max(compared) == 1


@pytest.mark.parametrize("similarity", [0.1, 0.5, 0.8, 0.95, 1.0])
def test_hardly_a_pair_is_missed(similarity):
    count, size = choose_lsh_bands(similarity)
    assert count * size <= module.PERMUTATIONS and count > 1
    assert 1 - (1 - similarity**size) ** count >= min(FOUND_SHARE, 1 - (1 - similarity**2) ** 64)


def test_the_command_reports_and_keeps_the_documents(tmp_path, capsys, monkeypatch):
    pytest.importorskip("datasketch")
    train = documents(3, seed=4)
    write(tmp_path, train=train, test=[edited(train[1], [50])])
    command = ["parallel"]
    for split in ("train", "test"):
        command += [f"--{split}", *(tmp_path / f"{split}.{side}" for side in ("source", "target"))]
    out, _ = run(tmp_path, *command)
    before = (out / "test.source").read_bytes()
    report = run(tmp_path, *command, "--near-duplicates")[1]  # the splits exist, so only the report is new
    assert "test.source, line 1 and train.source, line 2" in capsys.readouterr().out
    assert report["near-duplicates"]["splits"]["test"] == {"within": 0, "also in train": 1}
    assert (out / "test.source").read_bytes() == before and (out / module.LIST).exists()
    report = run(tmp_path, *command)[1]
    assert not (out / module.LIST).exists() and "near-duplicates" not in report
    monkeypatch.setitem(sys.modules, "datasketch", None)
    for value, words in (("0", "from 0.1 to 1"), ("nan", "from 0.1 to 1"), ("1", "missing: pip install datasketch")):
        assert words in refused(tmp_path / "refused", capsys, *command, "--near-duplicates", value)
    assert not (tmp_path / "refused" / "text").exists()
