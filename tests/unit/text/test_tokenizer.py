"""--tokenizer etads: from raw text to tokens and back, in all languages; marks of other tools; characters of tokens."""

import json
from argparse import Namespace
from pathlib import Path

import pytest
from etads_preprocess.corpus import main as corpus
from etads_preprocess.prepare import main as prepare
from fairseq.data import encoders
from hypothesis import given
from hypothesis import strategies as st

from fairseq_etads.commands.rouge import main as rouge
from fairseq_etads.data.preparation import read_inference_preprocessing_options
from fairseq_etads.evaluation import split_summary_into_sentences
from fairseq_etads.summarizer import summary
from fairseq_etads.summarizer.summary import WINDOW, align_tokens, fold_for_alignment, guess_token_spelling
from fairseq_etads.text.documents import (
    SENTENCE_MARKS,
    SPECIAL_SYMBOLS,
    SUBWORD_MARKS,
    UNKNOWN_WORDS,
    add_full_stop,
    count_marks,
    join_to_one_line,
)
from fairseq_etads.text.tokenizer import TextTokenizer, TextTokenizerConfig
from fairseq_etads.text.words import LANGUAGES, SENTENCE_MARK, WORD_KINDS, MosesWordTokenizer, split_sentences


def build(**options):
    return encoders.build_tokenizer(Namespace(tokenizer="etads", **options))


@pytest.mark.parametrize("words", ["moses", "ptb"])
@pytest.mark.parametrize(
    "line", ["The cat sat. The dog ran. It was fine.", "The cat sat. the dog ran. Mr. Hu of the U.S. came! It did."]
)
def test_full_stops_are_split_whether_a_document_is_cut_by_marks_or_raw(words, line):
    marked = f" {SENTENCE_MARK} ".join(split_sentences(line))
    for keep_case in (False, True):
        raw, cut = (build(text_words=words, text_keep_case=keep_case).encode(text) for text in (line, marked))
        assert raw == cut and raw.lower().startswith("the cat sat . the dog ran . ")
    assert MosesWordTokenizer().encode("He sat. He ran.") == ["he sat . he ran ."], "the rules need the capital"


@pytest.mark.parametrize("words", [kind for kind in WORD_KINDS if kind != "spaces"])
def test_chinese_has_the_same_words_with_dropped_marks_and_without_marks(words):
    line = "今天下雨。「真的？」他问。Mr. Hu said no. 明天好！是"
    marked = f" {SENTENCE_MARK} ".join(split_sentences(line))
    assert build(text_words=words).encode(line) == build(text_words=words).encode(marked)


@pytest.mark.parametrize("words", WORD_KINDS)
@pytest.mark.parametrize("keep_case", [False, True])
def test_no_sentence_mark_is_forged(words, keep_case):
    tokenizer = build(text_words=words, text_keep_case=keep_case, text_sentence_marks="keep")
    encoded = tokenizer.encode("a <Q> b <PAD> c")
    assert SENTENCE_MARK not in encoded and encoded.lower() == "a < q > b < pad > c"
    assert SENTENCE_MARK not in tokenizer.decode(encoded.lower())
    decoded = tokenizer.decode("a < q > b < s > c < pad > d <q> e")
    assert decoded == "a < q > b < s > c < pad > d <q> e"


@pytest.mark.parametrize("words", WORD_KINDS)
def test_sentence_marks_are_one_token_and_survive_detokenisation(words):
    line = "One is here. <q> Two isn't!"
    kept = build(text_words=words, text_sentence_marks="keep")
    encoded = kept.encode(line)
    assert encoded.replace(SENTENCE_MARK, f" {SENTENCE_MARK} ").split().count(SENTENCE_MARK) == 1
    if words != "raw":  # raw text has no space before the mark, because SentencePiece would make a piece of it
        assert SENTENCE_MARK in encoded.split()
    assert f" {SENTENCE_MARK} " in kept.decode(encoded)
    dropped = build(text_words=words).encode(line)
    assert SENTENCE_MARK not in dropped
    assert dropped.split() == encoded.replace(SENTENCE_MARK, " ").split()
    assert build(text_words=words).encode("One is here.") == kept.encode("One is here.")
    for nothing in ("", "\t\0", " <q>  <q> "):
        assert build(text_words=words, text_sentence_marks="insert").encode(nothing) == ""
    assert build(text_words=words).decode("") == ""


def test_marks_are_inserted_only_where_a_text_has_none():
    tokenizer = build(text_words="ptb", text_sentence_marks="insert")
    assert tokenizer.encode("Mr. A came. He left.") == "mr. a came . <q> he left ."
    assert tokenizer.encode("Mr. A came. He left. <q> End.") == "mr. a came. he left . <q> end ."


def test_words_of_moses_of_the_treebank_of_tokenised_and_of_raw_text():
    encoded = build().encode("It doesn't <play> MP3-files & co.")
    assert encoded == "it doesn 't < play > mp3 @-@ files & co ."
    assert build().decode(encoded.replace("< play > ", "")) == "it doesn't mp3-files & co."
    assert build(text_words="ptb").decode("he came . <q> she -lrb- 5 -rrb- left .") == "he came. <q> she (5) left."
    assert build(text_words="spaces").encode("u.s. <unk> don't ( #.# )") == "u.s. <unk> don't ( #.# )"
    tokenizer = build(text_words="raw", text_keep_case=True)
    assert tokenizer.encode("  A\tB\u00a0 C\0d. \n") == "A B C d." and tokenizer.decode("A B.") == "A B."


SENTENCES = [
    ("en", "वर्षा होगी।| ठंड बढ़ेगी।| क्या हम जाएँ?| नहीं॥"),
    ("en", "هل جاء؟|لا."),
    ("en", "Սա է։| ሰላም ነው።|ደህና፧| ကောင်းပါတယ်။|ខ្មែរ។|今日｡|「明日。」|で"),
    ("de", "Am 3. Mai kam er.| Sie rief: »Komm!«| „Ja.“| Er blieb bzw. schlief."),
    ("fr", "M. Dupont dit : « Oui. »| Il part."),
    ("cs", "Přišel 3. května.| Např. Ing. Novák.| Konec."),
    ("el", "Πού είναι;| Ο κ. Παπάς ήρθε;| Ναι."),
    ("hi", '"ठीक है।"| (हाँ।)| वह "गया।"'),
]


@pytest.mark.parametrize("language, text", SENTENCES)
def test_sentences_of_each_language_and_no_full_stop_is_added(language, text):
    sentences = [sentence.strip() for sentence in text.split("|")]
    assert split_sentences(text.replace("|", ""), language) == sentences
    stopped = [sentence for sentence in sentences if add_full_stop(sentence, language) != sentence]
    assert stopped == ["で"] * ("で" in sentences)
    assert language in LANGUAGES and build(text_language=language).split_into_sentences(text.replace("|", ""))


@pytest.mark.parametrize(
    "language, text",
    [
        ("en", "It’s “best day”, and/or TCP/IP at a_b@example.org, 10:30."),
        ("en", "O’Brien said ‘yes’ to rock’n’roll of the ’90s; ask @user about #MeToo and https://www.x.org/a_b"),
        ("en", "C++ library for Go, C# and F# code in g++. (C++) libstdc++ a + b"),
        ("en", "👩‍💻 works ❤️ 👍🏽 in ที่นี่ดีมาก"),
        ("en", "他说“好”。 צה״ל בא"),
        ("zh", "地图，在这里：好；（是）、吧……真的？！《书》——他"),
        ("hi", 'क्या? हाँ। "ठीक है।" फिर… गया।'),
        ("fa", "آیا آمد؟ بله، رفت؛ شب. Ո՞ւր է։ ሰላም፣ ነው።"),
        ("de", "Er sagte: „Ja.“ Dann »Komm!« und ging."),
        ("fr", "L’amour d’un ami : « Oui » dit-il."),
    ],
)
def test_text_comes_back_from_the_words_of_moses(language, text):
    tokenizer = build(text_language=language, text_keep_case=True)
    assert tokenizer.decode(tokenizer.encode(text)) == " ".join(text.split())


def test_the_language_is_stored_and_lines_that_do_not_come_back_are_counted(tmp_path, capsys):
    for name, line in (("doc", "Er kam am 3. Mai . Er blieb bzw. schlief."), ("sum", "Er kam am 3. Mai.")):
        (tmp_path / name).write_text(f"{line}\n" * 40, encoding="utf-8")
    text, out, pair = str(tmp_path / "text"), tmp_path / "out", [str(tmp_path / "doc"), str(tmp_path / "sum")]
    splits = ["--train", *pair, "--valid", *pair, "--test", *pair]
    corpus(["parallel", *splits, "--out", text, "--language", "de", "--sentences", "--jobs", "1"])
    prepare([text, str(out), "--tokens", "word", "--jobs", "1"])
    assert read_inference_preprocessing_options(out)["text-language"] == "de"
    said = capsys.readouterr().out
    assert "120 of 240 lines (50.0%) do not come back from their tokens as they were; the first: " in said
    assert "3. mai . er blieb" in said and "3. mai. er blieb" in said


LINES = {
    SENTENCE_MARKS: [
        *("<t> maps </t>", "late <n> drawn", "<S_SEP> [sep]", "<s> a </s> <S>", "<sent> ##SENT##", "a ||||| b"),
        *("a <|sep|> b <eot>", r"a.\nThe [EOP]"),
    ],
    SUBWORD_MARKS: ["ma@@ ps are dr@@", "▁maps are", "map ##ping are"],
    SPECIAL_SYMBOLS: ["[CLS] maps [PAD] [unused0]", "maps <|endoftext|>", "<mask> maps"],
    UNKNOWN_WORDS: ["UNK wins", "the <unk> wins, unk .", "[UNK] wins"],
}
CLEAN = (
    r"\nu = 1 [n]ever [t]he <end a> " "a trunk, Unkempt; a<b c>d <cit> ## Title ##th ###s # 5 a || b x@@y 3 < 5 [1] <q>"
)


def test_each_mark_is_counted():
    for kind, lines in LINES.items():
        for line in lines:
            assert [name for name, number in count_marks(line).items() if number] == [kind], line
    assert not +count_marks(CLEAN)


@pytest.mark.parametrize("kind", LINES)
def test_marks_are_warned_of_in_a_corpus_and_in_scores(tmp_path, capsys, kind):
    line = LINES[kind][0]
    files = [tmp_path / "out.txt", tmp_path / "test.target"]
    for path, first in zip(files, ("maps", line)):
        path.write_text(f"{first}\n{line}\n", encoding="utf-8")
    rouge([*map(str, files), "--bootstrap", "0"])
    said = capsys.readouterr().err
    assert f"1 of 2 lines contain {kind}, the first is line 2" in said and f"2 of 2 lines contain {kind}" in said
    assert "swapped" not in said
    corpus(["parallel", "--train", *map(str, files), "--out", str(tmp_path / "text"), "--jobs", "1"])
    found = json.loads((tmp_path / "text" / "report.json").read_text())["splits"]["train"]["warnings"]
    assert list(found) == [kind] and found[kind]["first"].endswith("line 1")


def test_special_symbols_of_references_are_a_sign_of_swapped_files(tmp_path, capsys):
    for name, line in (("a.txt", "maps"), ("b.txt", "maps <pad>"), ("c.txt", "<unk> <t>")):
        (tmp_path / name).write_text(line + "\n")
        rouge([str(tmp_path / "a.txt"), str(tmp_path / name), "--bootstrap", "0"])
        assert ("must come first" in capsys.readouterr().err) == (name == "b.txt")


def test_sentence_marks_are_ends_of_sentences_on_request(tmp_path, capsys):
    """Each file may have its own. ROUGE-L depends on the order of words, but not on the order of sentences."""
    files = [str(tmp_path / name) for name in "012"]
    Path(files[0]).write_text("late trains NEWLINE_CHAR maps drawn\n")
    Path(files[1]).write_text("<t> maps drawn </t> <t> late trains </t>\n")
    Path(files[2]).write_text("maps drawn <q> late trains\n")
    marks = ["--sentence-mark", "<t>", "--sentence-mark", "NEWLINE_CHAR"]
    rouge([*files, *marks, "--metrics", "1,L", "--multi", "average"])
    out, err = capsys.readouterr()
    assert out.count("100.00  100.00  100.00") == 2 and "mark <t>,NEWLINE_CHAR,<q>, else punkt" in out and not err
    corpus(["parallel", "--train", *files[:2], "--out", str(tmp_path / "text"), "--jobs", "1", *marks])
    made = [(tmp_path / "text" / f"train.{side}").read_text() for side in ("source", "target")]
    assert made == ["late trains <q> maps drawn\n", "maps drawn <q> late trains\n"]
    assert split_summary_into_sentences("a <q> b . c", sentence_mark="") == ["a <q> b .", "c"]


def test_sentences_glued_to_the_next_are_warned_of_if_most_lines_have_them(tmp_path, capsys):
    glued, fine = ["maps are drawn .Trains are late .", "they wait.The end"], ["a . b", "see www.b.org 3.5 ..."]
    (tmp_path / "out.txt").write_text("\n".join([*glued, "fine ."]) + "\n")
    (tmp_path / "test.target").write_text("\n".join([glued[0], *fine]) + "\n")
    rouge([str(tmp_path / "out.txt"), str(tmp_path / "test.target"), "--bootstrap", "0"])
    err = capsys.readouterr().err
    assert "out.txt: in 2 of 3 lines, no space follows the end of a sentence" in err and "test.target" not in err


TOKENIZERS = {kind: TextTokenizer(TextTokenizerConfig(text_words=kind)) for kind in WORD_KINDS}


def aligned(text, kind="moses"):
    """The tokens of a text, their spellings, and the characters that they are said to come from."""
    tokens = TOKENIZERS[kind].encode(join_to_one_line(text)).split()
    spellings = [guess_token_spelling(token, kind, None) for token in tokens]
    return tokens, spellings, align_tokens(text, spellings)


def found_in(text, kind="moses"):
    return [text[slice(*span)] for span in aligned(text, kind)[2]]


@pytest.mark.parametrize(
    "text,pairs",
    [
        ("A well-known Game.", ["A", "well", "-", "known", "Game", "."]),
        ("don't “quote” it … now", ["don", "'t", "“", "quote", "”", "it", "…", "now"]),
        ("cafe\u0301 CAFE\u0301 café", ["cafe\u0301", "CAFE\u0301", "café"]),
        ("\u0130stanbul STRASSE Straße", ["\u0130stanbul", "STRASSE", "Straße"]),
        ("soft\u00adhyphen zero\u200bwidth", ["soft\u00adhyphen", "zero\u200bwidth"]),
        ("😀 two😀😀 end", ["😀", "two", "😀", "😀", "end"]),
        ("ﬁne ① ½ tab\tand\0end", ["ﬁne", "①", "½", "tab", "and", "end"]),
        ("half \ud83d surrogate", ["half", "\ud83d", "surrogate"]),
        ("one <q> two", ["one", "two"]),
    ],
)
def test_words_are_found_where_they_stand(text, pairs):
    assert found_in(text) == pairs


def test_changed_signs_and_single_characters_are_found():
    text = 'He said "yes" (twice) – don\'t.'
    assert " ".join(aligned(text, "ptb")[0]) == "he said `` yes '' -lrb- twice -rrb- -- do n't ."
    assert " ".join(found_in(text, "ptb")) == 'He said " yes " ( twice ) – do n\'t .'
    assert found_in("中文 abc文", "characters") == ["中", "文", "abc", "文"]


def test_subwords_have_parts_of_words():
    text = "Unknown Words"
    for kind, tokens in (
        ("subword_nmt", ["un@@", "know@@", "n", "words"]),
        ("sentencepiece", ["▁un", "know", "n", "▁", "words"]),
    ):
        spans = align_tokens(text, [guess_token_spelling(token, "raw", kind) for token in tokens])
        assert [text[slice(*span)] for span in spans if span] == ["Un", "know", "n", "Words"], kind


def test_what_is_not_in_the_text_is_left_out_and_what_follows_is_found():
    assert align_tokens("one two three four five", ["one", "zwei", "three", "four", "five"])[1:3] == [None, (8, 13)]
    # The token is not in its place, and occurs in two other places.
    assert align_tokens("a b c b d", ["x", "b"]) == [None, None]
    assert align_tokens("a b c d", ["x", "b"]) == [None, (2, 3)]
    # The tokens after it tell which of two places is its own.
    assert align_tokens("a b c b delta epsilon", ["x", "b", "delta", "epsilon"])[:2] == [None, (6, 7)]
    assert align_tokens("", ["a"]) == [None]
    far = "x " * (2 * WINDOW) + "the very last words"
    assert align_tokens(far, ["the", "very", "last", "words"]) == [None] * 4
    # A mark between sentences has no spelling.
    assert align_tokens("One bee. Two dogs.", ["one", "bee", ".", "", "two"]) == [(0, 3), (4, 7), (7, 8), None, (9, 12)]


@pytest.mark.parametrize("kind", WORD_KINDS)
@given(text=st.text(max_size=60))
def test_any_text_is_aligned_in_order_and_inside(kind, text):
    tokens, spellings, spans = aligned(text, kind)
    assert len(spans) == len(tokens)
    found = [span for span in spans if span is not None]
    assert all(0 <= start < end <= len(text) for start, end in found) and found == sorted(found)
    for spelling, span in zip(spellings, spans):
        assert span is None or fold_for_alignment(spelling) in fold_for_alignment(text[slice(*span)])


def test_a_long_text_is_only_folded_as_far_as_its_tokens_go(monkeypatch):
    folded = []
    plain = summary.fold_for_alignment
    monkeypatch.setattr(summary, "fold_for_alignment", lambda text: folded.append(text) or plain(text))
    assert align_tokens("word " * 100_000, ["word"] * 10)[-1] == (45, 49)
    assert sum(map(len, folded)) < 50_000
