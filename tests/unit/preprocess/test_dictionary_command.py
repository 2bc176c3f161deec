"""etads-dictionary: known words by frequency, then the copy tail."""

import pytest
from etads_preprocess.dictionary_command import main
from preparation import refusal
from programs import as_program

from fairseq_etads.vocabulary.dictionary import SummarizationDictionary

main = as_program(main)

BOUND = "--target-size 3 --summaries train.target --target-dictionary t.txt"


@pytest.fixture(autouse=True)
def texts(tmp_path, monkeypatch):
    (tmp_path / "train.source").write_text("a b b c c c c rare ünï\n\na b <unk> madeupword0007\n", encoding="utf-8")
    (tmp_path / "train.target").write_text("b b zebra\n")
    (tmp_path / "test.source").write_text("a new 新しい b madeupwords\n", encoding="utf-8")
    (tmp_path / "bad").write_bytes(b"fine\nnot \xff fine\n")
    monkeypatch.chdir(tmp_path)


def build(options, *names):
    """Run the command; returns the dictionaries of the names."""
    main([*options.split(), "--jobs", "1"])
    return [SummarizationDictionary.load(name) for name in names]


def test_frequent_words_are_known_and_every_other_word_of_a_document_follows_with_count_0(tmp_path):
    options = "dict.txt --train train.source train.target --documents test.source --size 3"
    (dictionary,) = build(options, "dict.txt")
    assert dictionary.symbols[4:8] == ["b", "c", "a", "madeupword0000"] and dictionary.known_words == 8
    assert dictionary.symbols[8:] == ["madeupwords", "new", "rare", "zebra", "ünï", "新しい"]
    assert set(dictionary.count[8:]) == {0}
    assert not (tmp_path / "dict.txt.partial").exists()
    (dictionary,) = build("dict.txt --train train.source train.target test.source --size -1", "dict.txt")
    assert dictionary.known_words == len(dictionary) == 16


def test_summaries_may_know_fewer_words_than_documents(tmp_path):
    """Summaries' most frequent words come first, then the documents' other words, then the tail."""
    options = "dict.txt --train train.source --summaries train.target --size 5 --target-dictionary target.txt"
    source, target = build(f"{options} --target-size 4", "dict.txt", "target.txt")
    assert target.known_words == 8 and target.symbols[4:6] == ["b", "zebra"], "there are only two"
    assert source.symbols[8:11] == ["c", "a", "rare"] and source.known_words == 16

    (tmp_path / "train.target").write_text("zebra b b yak zebra zebra a madeupword0003\n")
    source, target = build(f"{options} --documents test.source --target-size 2", "dict.txt", "target.txt")
    assert source.symbols == target.symbols, "one id for a word"
    assert source.symbols[4:6] == ["zebra", "b"] and source.count[4:6] == [3, 2 + 3] and target.count[4:6] == [3, 2]
    assert all(word.startswith("madeupword") for word in source.symbols[6:8])
    assert source.symbols[8:11] == ["c", "a", "rare"] and source.count[8:11] == [4, 2, 1]
    assert all(word.startswith("madeupword") for word in source.symbols[11:16]) and source.known_words == 16
    assert source.symbols[16:] == ["madeupwords", "new", "yak", "ünï", "新しい"]
    assert target.known_words == 8 and set(target.count[8:]) == {0}


@pytest.mark.parametrize(
    "arguments,named",
    [
        ("dict.txt --train nowhere", "nowhere"),
        ("dict.txt --train train.target --size 0", "--size 0"),
        ("dict.txt --train bad", "bad, line 2"),
        ("dict.txt --train train.target --target-size 3", "--summaries is missing"),
        (f"dict.txt --train train.target {BOUND} --size 3", "--target-size 3"),
        (f"t.txt --train train.target {BOUND}", "--target-dictionary t.txt and OUT"),
        ("bad/dict.txt --train train.target", "bad"),
    ],
)
def test_bad_input_is_refused(arguments, named, tmp_path):
    assert named in refusal(main, *arguments.split())
    assert not (tmp_path / "dict.txt").exists()
