"""Factors: bins, tags, alignment with subwords, the files that models read."""

import itertools
import json
import math
from collections import Counter
from types import SimpleNamespace

import corpora
import pytest
from etads_preprocess.factors import compute_idf_bin
from fairseq.data import Dictionary, indexed_dataset
from preparation import lines, make_text, prepare  # noqa: F401  # a fixture among them
from test_readers import run

from fairseq_etads.data.preparation import PreparationSettings
from fairseq_etads.platform.errors import InputError
from fairseq_etads.text.subwords import join_words

SPLITS = ("train", "valid", "test")
CASES = [("word", "ptb", True), ("bpe", "spaces", False), ("sentencepiece", "", True)]


def tag(text, name="pos"):
    """A tag for each word between spaces: its first letter."""
    for split in SPLITS:
        tags = [" ".join(word[0].upper() for word in line.split()) for line in lines(text / f"{split}.source")]
        (text / f"{split}.source.{name}").write_text("".join(line + "\n" for line in tags))


@pytest.mark.parametrize(
    "tokens,words,expected",
    [
        ("word", "a b c", ["a", "b", "c"]),
        ("bpe", "a@@ b c <q> d@@ d@@ e", ["ab", "c", "<q>", "dde"]),
        ("sentencepiece", "▁a b ▁c . <q> ▁d <q> ▁ é", ["ab", "c.", "<q>", "d", "<q>", "é"]),
        ("sentencepiece", "", []),
        ("bpe", "a @@ b@@ c@@", ["a", "bc"]),
    ],
)
def test_subwords_join_to_words(tokens, words, expected):
    found, numbers = join_words(words.split(), PreparationSettings(tokens).subwords)
    assert found == expected and len(numbers) == len(words.split())
    assert numbers == sorted(numbers) and set(numbers) == set(range(len(expected)))


def test_bins_of_idf_are_of_equal_width():
    documents, bins = 1000, 10
    for df in range(documents + 1):
        share = math.log((1 + documents) / (1 + df)) / math.log(1 + documents)
        assert compute_idf_bin(df, documents, bins) == min(bins - 1, math.floor(bins * share))
    assert compute_idf_bin(0, documents, bins) == 9 and compute_idf_bin(documents, documents, bins) == 0
    assert compute_idf_bin(1, 1, 4) == 0 and compute_idf_bin(0, 1, 4) == 3


@pytest.mark.parametrize("tokens,words,marks", CASES)
def test_files_fit_the_documents(text, tmp_path, tokens, words, marks):
    """BPE marks a part of a word with a final "@@". SentencePiece makes a space and an accent of "´"."""
    odd = ["The mail@@ @@ don´t x@@@", "´ a´­   b@@"]
    path = text / "train.source"
    path.write_text("".join(f"{line}\n" for line in [*lines(path)[:-2], *odd]), encoding="utf-8")
    tag(text)
    factors = ["pos", "tf", "idf"]
    out = tmp_path / "out"
    prepare(text, out, tokens, 60, words=words, source_marks=marks, factors=factors, tf_bins=2, idf_bins=3)
    assert json.loads((out / "bin" / "factors.json").read_text()) == {"factors": factors}
    subwords = PreparationSettings(tokens).subwords
    train = [join_words(line.split(), subwords)[0] for line in lines(out / "tokens" / "train.source")]
    frequencies = Counter(word for document in train for word in set(document))
    for split in SPLITS:
        source = indexed_dataset.make_dataset(str(out / "bin" / f"{split}.source-target.source"), "mmap")
        for name in factors:
            dictionary = Dictionary.load(str(out / "bin" / f"dict.factor-{name}.txt"))
            made = indexed_dataset.make_dataset(str(out / "bin" / f"{split}.factor-{name}"), "mmap")
            assert list(made.sizes) == list(source.sizes) and made[0][-1] == dictionary.eos()
            for ids, line, raw in zip(made, lines(out / "tokens" / f"{split}.source"), lines(text / f"{split}.source")):
                found, numbers = join_words(line.split(), subwords)
                values = dictionary.string(ids).split()
                if name == "pos":
                    assert values[-1] == raw.split()[-1][0].upper()
                    assert {*values} - {"<q>"} == {word[0].upper() for word in raw.split()}
                for word, value in zip((found[number] for number in numbers), values):
                    idf = str(compute_idf_bin(frequencies[word], 60, 3))
                    expected = {"tf": str(min(2, found.count(word))), "idf": idf, "pos": value}
                    assert value == ("<q>" if word == "<q>" else expected[name])
    if tokens == "word":  # "The audio library no. 0 doesn't play audio-files."
        assert lines(out / "tokens" / "test.source")[0] == "the audio library no. 0 does n't play audio-files ."
        assert lines(out / "factors" / "test.pos")[0] == "T A L N 0 D D P A A"


@pytest.mark.parametrize(
    "factor,written,options,words",
    [
        ("pos", None, {}, r"--factors pos: no .*train\.source\.pos"),
        ("pos", "T " * 7, {"words": "moses"}, "--words moses"),
        ("pos", "T " * 7, {}, r"train\.source, line 1 \(pos\): 7 values for 8 words"),
        ("salience", None, {}, r"no .*train\.source\.salience, which etads-shorten writes"),
        ("ner", None, {"spacy_model": "none"}, "--spacy-model none"),
    ],
)
def test_tags_and_levels_that_do_not_fit_are_refused(text, tmp_path, factor, written, options, words):
    for split in SPLITS if written else ():
        count = len(lines(text / f"{split}.source"))
        (text / f"{split}.source.{factor}").write_text(f"{written}\n" * count)
    out = tmp_path / "out"
    with pytest.raises(InputError, match=words):
        prepare(text, out, "word", 30, **{"words": "ptb", "factors": [factor], **options})
    assert not (out / "bin" / "complete").exists()


@pytest.fixture
def seen(monkeypatch):
    """Words and sentence starts that a replacement for spaCy gets, which tags each word by its form."""
    seen = []

    def tag_words(words, starts):
        seen.append((words, starts))
        return {"pos": ["x" if word.islower() else "X" for word in words], "ner": [word.upper() for word in words]}

    tagger = SimpleNamespace(tag_words=tag_words)
    monkeypatch.setattr("etads_preprocess.factors.SpacyTagger", lambda model: tagger)
    return seen


@pytest.mark.parametrize("tokens,words,marks", [*CASES, ("bpe", "moses", False)])
def test_a_tagger_sees_every_document_once_in_its_case_with_its_digits(text, tmp_path, seen, tokens, words, marks):
    (text / "test.source").write_text("Mr. Smith's 120 Übungen… <q> It (5) mail@@ <S>\n\n<q>\n<unk> A\nİa 7\n")
    out = tmp_path / "out"
    more = {"words": words, "source_marks": marks, "factors": ["pos", "tf", "ner"], "spacy_model": "x"}
    prepare(text, out, tokens, 90, **more)
    subwords = PreparationSettings(tokens, words=words).subwords
    documents = [line for split in SPLITS for line in lines(out / "tokens" / f"{split}.source")]
    made = [join_words(line.split(), subwords) for line in documents]
    plain = [[word for word in found if word != "<q>"] for found, _ in made]
    assert [[word.lower() for word in words] for words, _ in seen] == [words for words in plain if words]
    spelt = [word for words, _ in seen for word in words]
    assert "120" in spelt and "Smith" in " ".join(spelt) and "The" in spelt
    assert sum(seen[-3][1]) == (2 if marks else 0), "sentences are known where marks are kept"
    expected = iter([word.upper() for word in spelt])
    for name in ("ner", "pos"):
        values = [line.split() for split in SPLITS for line in lines(out / "factors" / f"{split}.{name}")]
        assert [len(line) for line in values] == [len(line.split()) for line in documents]
        for line, (found, numbers) in zip(values, made):
            by_word = dict(zip(numbers, line))
            assert [by_word[number] for number in numbers] == line, "the parts of a word have its tag"
            if name == "ner":
                assert list(by_word.values()) == [word if word == "<q>" else next(expected) for word in found]


def test_masked_digits_are_tagged_as_they_were_before(tmp_path, seen):
    folder = corpora.gigaword(tmp_path / "raw")
    given = "Obama of the Network maker said 1,5 .\nThe UNK maker <q> \0 closes .\n"
    corpora.write(folder / "Giga" / "input.txt", given)
    text, _ = run(tmp_path, "gigaword", "--data", folder, "--keep-original", "--source-words", "8")
    second = "the <unk> maker <unk> <unk> <unk> ."
    assert lines(text / "test.source") == ["<unk> of the network maker said <unk> .", second]
    assert lines(text / "test.source.original") == ["Obama of the Network maker said 1,5 .", second]
    more = {"words": "spaces", "factors": ["pos"], "spacy_model": "x"}
    prepare(text, tmp_path / "out", "bpe", 30, **more)
    assert lines(text / "test.source.original")[0].split() == seen[-2][0]
    corpora.write(text / "test.source.original", "changed\n" * 2)
    with pytest.raises(InputError, match="prepared with other text"):
        prepare(text, tmp_path / "out", "bpe", 30, **more)


@pytest.mark.parametrize(
    "tokens,words,marks", [*CASES, ("word", "moses", False), ("bpe", "moses", True), ("sentencepiece", "", False)]
)
def test_every_token_has_the_level_of_its_sentence(text, tmp_path, tokens, words, marks):
    """This holds for all kinds of words. The words of each sentence have their own first letter."""
    sentences = ["Aren't audio-archives (absolutely) amazing?", "Bb.", "Cut c. 5 can't cost …"]
    for split in SPLITS:
        count = len(lines(text / f"{split}.source"))
        (text / f"{split}.source").write_text((" <q> ".join(sentences) + "\n") * count, encoding="utf-8")
        (text / f"{split}.source.salience").write_text("8 1 5\n" * count)
    out = tmp_path / "out"
    prepare(text, out, tokens, 50, words=words, source_marks=marks, factors=["salience", "tf"])
    made = lines(out / "tokens" / "test.source")[0].split()
    levels = lines(out / "factors" / "test.salience")[0].split()
    assert len(levels) == len(made)
    found, numbers = join_words(made, PreparationSettings(tokens).subwords)
    by_word = [(found[number], level) for number, level in zip(numbers, levels)]
    assert ("<q>" in dict(by_word)) == marks
    for letter, level in (("a", "8"), ("b", "1"), ("c", "5")):
        assert {value for word, value in by_word if word.startswith(letter)} == {level}
    assert [level for level, _ in itertools.groupby(levels) if level != "<q>"] == ["8", "1", "5"]
    assert levels.count("<q>") == (2 if marks else 0)
