"""etads-dictionary: known words by frequency, then the copy tail."""

import pytest
from etads_preprocess.dictionary_command import main

from fairseq_etads.vocabulary.dictionary import SummarizationDictionary


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
    assert "8 known words, 6 only to be copied" in capsys.readouterr().out
    dictionary = SummarizationDictionary.load(str(out))
    assert dictionary.symbols[4:8] == ["b", "c", "a", "madeupword0000"] and dictionary.known_words == 8
    assert dictionary.symbols[8:] == ["madeupwords", "new", "rare", "zebra", "ünï", "新しい"]
    assert set(dictionary.count[8:]) == {0}
    assert not out.with_name("dict.txt.partial").exists()


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
