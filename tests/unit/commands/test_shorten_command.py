"""etads-shorten: picked sentences of raw text, their levels, and refusal of text or probabilities that do not fit."""

import json
import random
import shutil

import pytest
from preparation import lines, prepare

from fairseq_etads.commands.shorten import main
from fairseq_etads.data.labels import SentencePickingSettings, compute_source_hash, write_label_rows

SPLITS = {"train": 24, "valid": 5, "test": 3}
MOST = 20


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Text with and without sentence marks, prepared, and a run with probabilities of its sentences."""
    path = tmp_path_factory.mktemp("shorten")
    r = random.Random(1)
    text = path / "text"
    text.mkdir()
    for split, count in SPLITS.items():
        documents = []
        for number in range(count):
            words = [[f"Word{r.randint(0, 30)}," for _ in range(r.randint(3, 9))] for _ in range(r.randint(4, 9))]
            sentences = [f"{' '.join(sentence)} end {place}." for place, sentence in enumerate(words)]
            documents.append((" <q> " if number % 2 else "  ").join(sentences))
        (text / f"{split}.source").write_text("".join(document + "\n" for document in documents))
        (text / f"{split}.target").write_text("a summary\n" * count)
    (text / "test.target.1").write_text("another\n" * SPLITS["test"])
    prepared = path / "run" / "prepared"
    prepare(text, prepared, "word", 60, True, 1, words="ptb", source_marks=True)
    for split in SPLITS:
        documents = lines(prepared / "tokens" / f"{split}.source")
        values = [[f"{r.random():.4g}" for _ in line.split(" <q> ")] for line in documents]
        rows = list(zip((compute_source_hash(line.split()) for line in documents), values))
        header = {"documents": len(rows), "truncate_source": 100_000}
        write_label_rows(path / "run" / f"probabilities.sentences.{split}", header, rows)
    return path


def shorten(made, out, *options, status=0):
    arguments = [str(made / "text"), str(out), "--run", str(made / "run"), "--words", str(MOST), *options]
    assert main(arguments) == status


def test_likely_sentences_are_picked_as_they_are_written(made, tmp_path, capsys):
    shorten(made, tmp_path / "out")
    assert "train.source: 24 documents, of" in capsys.readouterr().out
    record = json.loads((made / "run" / "picking.json").read_text())
    assert record["words"] == MOST and len(record["edges"]) == 7
    picking = SentencePickingSettings(MOST, tuple(record["edges"]))
    seen = set()
    for split in SPLITS:
        texts, levels = (lines(tmp_path / "out" / f"{split}.source{end}") for end in ("", ".salience"))
        rows = lines(made / "run" / f"probabilities.sentences.{split}")[1:]
        for line, short, of_line, row in zip(lines(made / "text" / f"{split}.source"), texts, levels, rows):
            sentences = [part.strip() for part in line.split("<q>")]
            if len(sentences) == 1:
                sentences = [f"{part}." for part in line.rstrip(".").split(".  ")]
            values = [float(value) for value in row.split("\t")[1].split()]
            places = [pick.number for pick in picking.pick(sentences, values)]
            assert 0 < len(places) < len(sentences)
            assert short.split(" <q> ") == [sentences[place] for place in places], "in their case, with their commas"
            assert of_line.split() == [picking.find_probability_level(values[place]) for place in places]
            assert len(short.replace("<q>", "").split()) <= MOST
            seen.update(of_line.split())
        assert len(texts) == len(levels) == SPLITS[split]
    assert len(seen) > 4, "levels differ"
    assert lines(tmp_path / "out" / "test.target.1") == ["another"] * SPLITS["test"]
    prepare(tmp_path / "out", tmp_path / "short", "bpe", 60, True, 1, factors=["salience"])
    assert (tmp_path / "short" / "bin" / "complete").exists()


def test_a_test_set_has_the_levels_of_the_training(made, tmp_path, capsys):
    shorten(made, tmp_path / "all")
    before = (made / "run" / "picking.json").read_text()
    stale = tmp_path / "test" / "test.target.2"  # of a text with more references
    stale.parent.mkdir()
    stale.touch()
    shorten(made, stale.parent, "--subset", "test", "--words", "200", status=2)
    assert "--words 200: RUN" in capsys.readouterr().err and stale.exists()
    shorten(made, stale.parent, "--subset", "test")
    assert (made / "run" / "picking.json").read_text() == before and not stale.exists()
    assert lines(tmp_path / "test" / "test.source.salience") == lines(tmp_path / "all" / "test.source.salience")
    (made / "run" / "picking.json").unlink()
    shorten(made, tmp_path / "again", "--subset", "test", status=2)
    assert "shorten the split train first" in capsys.readouterr().err


@pytest.mark.parametrize(
    "change, options, message",
    [
        (None, "{text} {text} --run {run}", "is the same folder as TEXT"),
        (lambda lines: [*lines, "One more."], "text out --run {run}", "has more lines than --prepared has documents"),
        (lambda lines: lines[:9], "text out --run {run}", "has 9 lines, but --prepared has 24 documents"),
        (lambda lines: ["One sentence."] * 24, "text out --run {run}", "line 1 of"),
        (None, "{text} out --run . --prepared {run}/prepared", "etads-select creates it"),
    ],
)
def test_what_does_not_fit_is_refused(made, tmp_path, monkeypatch, capsys, change, options, message):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(made / "text", "text")
    if change:
        changed = change(lines(made / "text" / "train.source"))
        (tmp_path / "text" / "train.source").write_text("".join(f"{line}\n" for line in changed))
    assert main(options.format(text=made / "text", run=made / "run").split()) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out" / "train.source").exists()
