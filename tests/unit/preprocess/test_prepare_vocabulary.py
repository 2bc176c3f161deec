"""etads-prepare: a bound for each side of a shared dictionary, and numbers of unknown words."""

import json
from collections import Counter

import corpora
from etads_preprocess.prepare import main, make_vocabulary_report, prepare_data
from fairseq.data.indexed_dataset import make_dataset
from preparation import lines, make_text  # noqa: F401  # a fixture

from fairseq_etads.data.preparation import PreparationSettings
from fairseq_etads.vocabulary.dictionary import SummarizationDictionary, compute_fingerprint


def bounded(text, out):
    """Prepare with a shared dictionary and fewer known words for summaries; returns the sides' dictionaries."""
    prepare_data(PreparationSettings("word", 30, True, target_size=9), text, out, 1)
    return [SummarizationDictionary.load(str(out / "bin" / f"dict.{side}.txt")) for side in ("source", "target")]


def test_summaries_may_know_fewer_words_of_the_one_dictionary(text, tmp_path):
    out = tmp_path / "out"
    source, target = bounded(text, out)
    assert source.symbols == target.symbols and (source.known_words, target.known_words) == (40, 16)
    counts = Counter(word for line in lines(out / "tokens" / "train.target") for word in line.split())
    least = min(counts[word] for word in target.symbols[4:13])
    assert all(counts[word] <= least for word in target.symbols[16:]), "the most frequent of summaries"
    targets = make_dataset(str(out / "bin" / "test.source-target.target"), "mmap")
    for ids, line in zip(targets, lines(out / "tokens" / "test.target")):
        assert [source[number] for number in ids[:-1].tolist()] == [
            word if word in source else "<unk>" for word in line.split()
        ]


def test_a_test_set_like_that_of_a_bounded_dictionary_keeps_both_bounds(text, tmp_path):
    trained = bounded(text, tmp_path / "model")
    new = tmp_path / "new"
    new.mkdir()
    (new / "test.source").write_text("The audio library plays übung.\n")
    (new / "test.target").write_text("audio\n")
    out = tmp_path / "out"
    main([str(new), str(out), "--like", str(tmp_path / "model"), "--jobs", "1"])
    found = [SummarizationDictionary.load(str(out / "bin" / f"dict.{side}.txt")) for side in ("source", "target")]
    assert found[0].symbols == found[1].symbols and "übung" in found[0] and "übung" not in trained[0]
    assert [d.known_words for d in found] == [d.known_words for d in trained]
    assert [compute_fingerprint(d) for d in found] == [compute_fingerprint(d) for d in trained], (
        "a checkpoint would refuse it"
    )


def test_the_report_says_how_many_words_are_unknown_and_can_be_copied(text, tmp_path):
    out, path = tmp_path / "out", text / "test.target"
    path.write_text(path.read_text().replace("\n", " unheard\n"))
    target = bounded(text, out)[1]
    report = json.loads((out / "report.json").read_text())["vocabulary"]
    assert report["known"] == {"source": 30, "target": 9} and report["asked"] == {"source": 30, "target": 9}
    known = set(target.symbols[4:13])
    for split in ("train", "valid", "test"):
        words = unknown = copyable = 0
        for document, summary in zip(*(lines(out / "tokens" / f"{split}.{side}") for side in ("source", "target"))):
            for word in summary.split():
                words += 1
                unknown += word not in known
                copyable += word not in known and word in document.split()
        assert report["summaries"][split] == {"words": words, "unknown": unknown, "copyable": copyable}
    assert 0 < copyable < unknown < words


def test_the_unknown_word_itself_cannot_be_copied(tmp_path):
    for name, content in (
        *(("tokens/test.source", "a <unk> b\n"), ("tokens/test.target", "<unk> b a\n")),
        *(("bin/dict.source.txt", "a 3\nb 2\n"), ("bin/dict.target.txt", "a 3\nb 0\n")),
    ):
        corpora.write(tmp_path / name, content)
    report = make_vocabulary_report(tmp_path, ["test"], {"source": 2})
    assert report["known"] == {"source": 2, "target": 1} and report["asked"] == {"source": 2}
    assert report["summaries"]["test"] == {"words": 3, "unknown": 2, "copyable": 1}
