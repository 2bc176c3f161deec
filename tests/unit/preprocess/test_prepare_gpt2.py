"""etads-prepare --tokens gpt2: raw text to GPT-2's pieces with BART's dictionary, and back."""

import json
from argparse import Namespace

import pytest
from bart import bart_dictionary, gpt2_files, save_dictionary
from etads_preprocess.prepare import main
from etads_preprocess.subwords import check_gpt2_files
from fairseq.data import encoders
from preparation import lines, make_refused, make_text  # noqa: F401  # fixtures among them
from programs import as_program

import fairseq_etads.plugin  # noqa: F401
from fairseq_etads.data.preparation import read_inference_preprocessing_options
from fairseq_etads.platform.errors import InputError
from fairseq_etads.vocabulary.dictionary import SummarizationDictionary, compute_fingerprint

main = as_program(main)

LINE = "The  “naïve” Cat &\tDOG didn't do it — twice,\u00a0😀 100%; <unk> i.e. (sic) …"
SUMMARY = "The Cat sat. <q> It didn't ask, did it?"


@pytest.fixture
def given(text, tmp_path):
    """The options of the text with special characters, the output, and the files as a user downloads them."""
    for split in ("train", "test"):
        for side, line in (("source", LINE), ("target", SUMMARY)):
            path = text / f"{split}.{side}"
            path.write_text("".join(f"{old}\n" for old in [line, *lines(path)[1:]]), encoding="utf-8")
    encoder, merges = gpt2_files(tmp_path)
    dictionary = save_dictionary(bart_dictionary(), tmp_path / "dict.txt")
    files = ["--gpt2-encoder-json", str(encoder), "--gpt2-vocab-bpe", str(merges), "--dictionary", str(dictionary)]
    return [str(text), str(tmp_path / "out"), "--tokens", "gpt2", *files, "--jobs", "1"]


def options_as_fairseq_reads_them(prepared):
    options = read_inference_preprocessing_options(prepared)
    return Namespace(**{name.replace("-", "_"): value for name, value in options.items()}, text_sentence_marks="drop")


def test_text_becomes_pieces_and_the_same_text_again(given, text, tmp_path):
    main(given)
    out = tmp_path / "out"
    (tmp_path / "encoder.json").unlink()  # the folder of prepared data has all files that new text needs
    (tmp_path / "vocab.bpe").unlink()
    moved = out.rename(tmp_path / "moved")
    options = options_as_fairseq_reads_them(moved)
    assert options.bpe == "gpt2" and options.gpt2_encoder_json == str(moved / "encoder.json")
    tokenizer, pieces = encoders.build_tokenizer(options), encoders.build_bpe(options)
    for side, expected in (("source", " ".join(LINE.split())), ("target", SUMMARY.replace(" <q>", ""))):
        tokens = lines(moved / "tokens" / f"test.{side}")[0]
        assert tokens == pieces.encode(expected) and all(token.isdigit() for token in tokens.split())
        assert tokenizer.decode(pieces.decode(tokens)) == expected
        assert tokenizer.encode(lines(text / f"test.{side}")[0]) == expected
    numbers = json.loads((moved / "encoder.json").read_text())
    assert tokens.split()[:2] == [str(numbers[piece]) for piece in ("T", "he")], "the merges were not applied"


def test_the_dictionary_is_barts_in_its_order_and_all_of_it_is_known(given, text, tmp_path):
    """Words that did not occur in BART's own text are known, too. Pieces that are not in the dictionary can be
    copied.
    """
    theirs = (tmp_path / "dict.txt").read_text().splitlines()
    assert theirs[-8].endswith(" 0") and not theirs[-8].startswith("madeup")
    cat = lines(tmp_path / "encoder.json")[0]
    removed = str(json.loads(cat)["C"])
    (tmp_path / "dict.txt").write_text("".join(f"{line}\n" for line in theirs if line.split()[0] != removed))
    main(given)
    bart = bart_dictionary(mask=False)
    dictionary = SummarizationDictionary.load(str(tmp_path / "out" / "bin" / "dict.source.txt"))
    known = dictionary.symbols[: dictionary.known_words]
    assert known == [word for word in bart.symbols if word != removed]
    assert dictionary.symbols[len(known) :] == [removed]
    source, target = (tmp_path / "out" / "bin" / f"dict.{side}.txt" for side in ("source", "target"))
    assert source.read_bytes() == target.read_bytes()


def test_without_a_dictionary_the_texts_own_pieces_are_known(given, tmp_path):
    place = given.index("--dictionary")
    main([*given[:place], *given[place + 2 :]])
    dictionary = SummarizationDictionary.load(str(tmp_path / "out" / "bin" / "dict.source.txt"))
    assert 20 < dictionary.known_words < 200 and all(word.isdigit() for word in dictionary.symbols[4:20])


def test_another_test_set_has_the_same_files(given, text, tmp_path, refused):
    main(given)
    main([str(text), str(tmp_path / "again"), "--like", str(tmp_path / "out"), "--jobs", "1"])
    for name in ("encoder.json", "vocab.bpe", "tokens/test.source"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()
    first, second = (
        SummarizationDictionary.load(str(tmp_path / out / "bin/dict.source.txt")) for out in ("out", "again")
    )
    assert compute_fingerprint(first) == compute_fingerprint(second)
    (tmp_path / "dict.txt").write_text("".join((tmp_path / "dict.txt").open().readlines()[:-1]))
    assert "was prepared with other given" in refused(*given)
    (tmp_path / "out" / "vocab.bpe").write_text("#version: 0.2\n")
    with pytest.raises(InputError, match=r"vocab\.bpe"):
        read_inference_preprocessing_options(tmp_path / "out")


def test_options_that_do_not_fit_are_refused(given, tmp_path, refused):
    place = given.index("--gpt2-vocab-bpe")
    for arguments, words in (
        ([*given, "--size", "500"], "--size 500 has no effect with --tokens gpt2"),
        ([*given, "--words", "ptb"], "--words ptb"),
        ([*given, "--source-sentence-marks"], "--tokens gpt2 has no piece for <q>"),
        ([*given, "--factors", "tf"], "--factors tf"),
        ([*given, "--separate-dictionaries"], "cannot be combined with --separate-dictionaries"),
        ([*given, "--target-size", "9"], "cannot be combined with --target-size 9"),
        ([*given[:place], *given[place + 2 :]], "--gpt2-vocab-bpe is missing"),
        (["word" if word == "gpt2" else word for word in given], "encoder.json: has no effect without --tokens gpt2"),
    ):
        assert words in refused(*arguments)
    assert not (tmp_path / "out").exists()
    (tmp_path / "dict.txt").write_text("a 3\nb\n")
    assert "dict.txt, line 2: not a dictionary" in refused(*given)


@pytest.mark.parametrize(
    "name,change,words",
    [
        ("encoder.json", lambda text: text[:-5], "--gpt2-encoder-json .*: not JSON"),
        ("encoder.json", lambda text: "[1]", "not an object with an id for each piece"),
        ("encoder.json", lambda text: text.replace(": 7,", ": 8,"), "two pieces have the same id"),
        ("encoder.json", lambda text: text.replace('"A"', '"AAA"'), "no id for 1 pieces of the second, .*'A'"),
        ("vocab.bpe", lambda text: text + "q u\n", "do not belong together: .*'qu'"),
        ("vocab.bpe", lambda text: text + "three in line\n", "vocab.bpe: line 10 is not a merge"),
    ],
)
def test_damaged_files_are_refused(tmp_path, name, change, words):
    encoder, merges = gpt2_files(tmp_path)
    check_gpt2_files(encoder, merges)
    path = tmp_path / name
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(InputError, match=words):
        check_gpt2_files(encoder, merges)


def test_words_that_are_no_pieces_do_not_stop_decoding(tmp_path):
    """fairseq's decode fails on "<<unk>>" in references, and on the words with which BART's dictionary is padded."""
    encoder, merges = gpt2_files(tmp_path)
    pieces = encoders.build_bpe(Namespace(bpe="gpt2", gpt2_encoder_json=str(encoder), gpt2_vocab_bpe=str(merges)))
    tokens = pieces.encode("a cat").split()
    assert pieces.decode(" ".join([tokens[0], "<<unk>>", "madeupword0001", *tokens[1:]])) == "a<unk> cat"
