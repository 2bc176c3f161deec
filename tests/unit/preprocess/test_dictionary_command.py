"""etads-dictionary: known words by frequency, then the copy tail."""

import pytest
from etads_preprocess.dictionary_command import main
from programs import as_program

from fairseq_etads.vocabulary.dictionary import SummarizationDictionary

main = as_program(main)

BOUND = ["--target-size", "3", "--summaries", "good", "--target-dictionary", "t.txt"]


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.fixture
def texts(tmp_path):
    return [
        write(tmp_path / "train.source", "a b b c c c c rare ünï\n\na b <unk> madeupword0007\n"),
        write(tmp_path / "train.target", "b b zebra\n"),
        write(tmp_path / "test.source", "a new 新しい b madeupwords\n"),
    ]


def test_frequent_words_are_known_and_every_other_word_of_a_document_follows_with_count_0(texts, tmp_path, capsys):
    out = tmp_path / "dict.txt"
    main([str(out), "--train", *texts[:2], "--documents", texts[2], "--size", "3", "--jobs", "1"])
    assert "8 known words, 6 that can only be copied" in capsys.readouterr().out
    dictionary = SummarizationDictionary.load(str(out))
    assert dictionary.symbols[4:8] == ["b", "c", "a", "madeupword0000"] and dictionary.known_words == 8
    assert dictionary.symbols[8:] == ["madeupwords", "new", "rare", "zebra", "ünï", "新しい"]
    assert set(dictionary.count[8:]) == {0}
    assert not out.with_name("dict.txt.partial").exists()


def test_summaries_may_know_fewer_words_than_documents(texts, tmp_path, capsys):
    """Summaries' most frequent words come first, then the documents' other words, then the tail."""
    out, of_summaries = tmp_path / "dict.txt", tmp_path / "target.txt"
    (tmp_path / "train.target").write_text("zebra b b yak zebra zebra a madeupword0003\n")
    main(
        [str(out), "--train", texts[0], "--summaries", texts[1], "--documents", texts[2], "--size", "5", "--jobs", "1"]
        + ["--target-size", "2", "--target-dictionary", str(of_summaries)]
    )
    said = capsys.readouterr().out
    assert "dict.txt: 16 known words, 5 that can only be copied" in said
    assert "target.txt: 8 known words, 13 that can only be copied" in said
    source, target = (SummarizationDictionary.load(str(path)) for path in (out, of_summaries))
    assert source.symbols == target.symbols, "one id for a word"
    assert source.symbols[4:6] == ["zebra", "b"] and source.count[4:6] == [3, 2 + 3] and target.count[4:6] == [3, 2]
    assert all(word.startswith("madeupword") for word in source.symbols[6:8])
    assert source.symbols[8:11] == ["c", "a", "rare"] and source.count[8:11] == [4, 2, 1]
    assert all(word.startswith("madeupword") for word in source.symbols[11:16]) and source.known_words == 16
    assert source.symbols[16:] == ["madeupwords", "new", "yak", "ünï", "新しい"]
    assert target.known_words == 8 and set(target.count[8:]) == {0}


def test_more_words_of_summaries_than_there_are_leave_room_for_those_of_documents(texts, tmp_path):
    out, of_summaries = tmp_path / "dict.txt", tmp_path / "target.txt"
    options = ["--size", "5", "--target-size", "4", "--target-dictionary", str(of_summaries), "--jobs", "1"]
    main([str(out), "--train", texts[0], "--summaries", texts[1], *options])
    source, target = (SummarizationDictionary.load(str(path)) for path in (out, of_summaries))
    assert target.known_words == 8 and target.symbols[4:6] == ["b", "zebra"]
    assert source.symbols[8:11] == ["c", "a", "rare"] and source.known_words == 16


def test_all_words_can_be_known(texts, tmp_path, capsys):
    out = tmp_path / "dict.txt"
    main([str(out), "--train", *texts, "--size", "-1", "--jobs", "1"])
    dictionary = SummarizationDictionary.load(str(out))
    assert dictionary.known_words == len(dictionary) == 16


@pytest.mark.parametrize(
    "arguments,words",
    [
        (["dict.txt", "--train", "nowhere"], "nowhere: no such file"),
        (["dict.txt", "--train", "good", "--size", "0"], "--size 0: choose 1 or more, or -1"),
        (["dict.txt", "--train", "bad"], "bad, line 2: not UTF-8"),
        (["dict.txt", "--train", "good", "--target-size", "3"], "--summaries is missing; give all of --target-size"),
        (["dict.txt", "--train", "good", *BOUND, "--size", "3"], "--target-size 3: choose 1 or more, and fewer than"),
        (["t.txt", "--train", "good", *BOUND], "--target-dictionary t.txt and OUT name the same file"),
        (["good/dict.txt", "--train", "good"], "good"),
    ],
)
def test_bad_input_is_refused_in_words(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good").write_text("fine\n")
    (tmp_path / "bad").write_bytes(b"fine\nnot \xff fine\n")
    with pytest.raises(SystemExit) as stopped:
        main([*arguments, "--jobs", "1"])
    error = capsys.readouterr().err.splitlines()
    assert stopped.value.code == 2
    assert len(error) == 1 and error[0].startswith("etads-dictionary: ") and words in error[0]
    assert not (tmp_path / "dict.txt").exists()
