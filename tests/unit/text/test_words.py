"""Sentences, Treebank words, characters, and back; words of every script, counted alike by ROUGE and the tuner."""

import logging
import random
import re
from pathlib import Path

import hypothesis.strategies as st
import pytest
from helpers import make_task
from hypothesis import example, given, settings
from nltk.tokenize.destructive import NLTKWordTokenizer
from rouge_score import tokenize
from selection_data import random_networks

from fairseq_etads.commands.analyse import main as analyse
from fairseq_etads.commands.compare import main as compare
from fairseq_etads.evaluation import rouge
from fairseq_etads.evaluation.analysis import WORD_SPLITTERS
from fairseq_etads.search.content_model import ContentModel, NgramPriorProbabilities
from fairseq_etads.search.sentence_choosing import choose_sentences
from fairseq_etads.text import words as module
from fairseq_etads.text.documents import split_raw_document
from fairseq_etads.text.words import (
    CharacterTokenizer,
    PennTreebankTokenizer,
    RawWordTokenizer,
    choose_tokens,
    find_words,
    has_uncounted_letters,
    is_tokenised,
    split_sentences,
    split_tokenised_sentences,
)
from fairseq_etads.training.validation import ValidationSummarizer

SENTENCES = [
    "Mr. O'Neil (of the U.S.) didn't say: \"I can't, cannot and won't pay $3.88!\"",
    "It's a 50-50 chance; they'd've gone -- 'perhaps' -- to Ph.D. school, e.g. here, etc.",
    'He said "no." and left [1,2] at 5:30 p.m. ...',
    "\"Quoted\" ''twice'' `so`, gonna wanna #1 @home & AT&T's 100% of it? ( yes ) .",
    'end of a sentence ." )',
]


def check_words_of_nltk(tokenizer, sentence):
    found = " ".join(tokenizer.encode(sentence, keep_case=True)).split()
    assert found == NLTKWordTokenizer().tokenize(sentence, convert_parentheses=True)


def test_words_are_those_of_nltk_although_they_are_remembered():
    tokenizer = PennTreebankTokenizer()
    for sentence in [*SENTENCES, *SENTENCES]:
        check_words_of_nltk(tokenizer, sentence)


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("abnt'\".,:;!?-()[]$%&@*0 "), max_size=60))
def test_every_letter_of_a_line_is_in_its_words(line):
    found = "".join("".join(PennTreebankTokenizer().encode(line, keep_case=True)).split())
    for bracket, word in zip("()[]", ("-LRB-", "-RRB-", "-LSB-", "-RSB-")):
        found = found.replace(word, bracket)
    # Quotes become `` and '', even two straight ones next to each other.
    assert re.sub("[\"'`]", "", found) == re.sub("[\"'`\\s]", "", line)


PARTS = st.lists(st.sampled_from(["it", "n't", "'s", "'ll", "-", "(", ")", ",", ".", ";", ":", "?", "7", "cannot"]))


@settings(max_examples=500, deadline=None)
@given(st.lists(PARTS.map("".join), max_size=5).map(" ".join))
@example("cannotn't cannot's gonna-it")
def test_the_short_way_for_simple_words_is_nltks(sentence):
    check_words_of_nltk(PennTreebankTokenizer(), sentence)


def test_conventions_of_cnn_daily_mail_and_symbols():
    """Placeholders stay whole, and fairseq's own symbols do not."""
    encoded = " ".join(PennTreebankTokenizer().encode("“Don’t” – said Bob (aged 7) — stop…"))
    assert encoded == "`` do n't '' -- said bob -lrb- aged 7 -rrb- -- stop ..."
    assert PennTreebankTokenizer().decode(encoded.split()) == '"don\'t"--said bob (aged 7)--stop ...'
    encoded = " ".join(PennTreebankTokenizer().encode("see <cit>. <unk> <s> </s> <pad> x<dig>y"))
    assert encoded == "see <cit> . <unk> < s > < /s > < pad > x <dig> y"
    assert " ".join(RawWordTokenizer().encode("a <pad> </s> <unk> <S>")) == "a < pad > < /s > <unk> < s >"
    assert PennTreebankTokenizer().encode("They can't, (now).") == ["they", "ca n't ,", "-lrb- now -rrb- ."]


@pytest.mark.parametrize("chunk", ["”", "'", "''so"])
def test_words_do_not_depend_on_earlier_sentences_or_a_full_cache(chunk, monkeypatch):
    monkeypatch.setattr(module, "CACHED_CHUNKS", 3)
    tokenizer = PennTreebankTokenizer()
    fresh = tokenizer.encode(f"{chunk} said Hej .")
    tokenizer.encode(f"Hon sa {chunk} said Hej")
    assert tokenizer.encode(f"{chunk} said Hej .") == fresh and len(tokenizer._known) <= 3


def test_abbreviations_dates_and_times_do_not_end_sentences():
    text = 'Dr. Smith of the U.S. team met J. Doe et al. in Fig. 3. "It works!" he said. Is it so? Yes.'
    first = "Dr. Smith of the U.S. team met J. Doe et al. in Fig. 3."
    assert split_sentences(text) == [first, '"It works!" he said.', "Is it so?", "Yes."]
    assert split_sentences("a b . c d .") == ["a b .", "c d ."]
    assert split_sentences(" \t ") == split_sentences("") == []
    parts = ["It left at 10:15 p.m. Monday, on Sept. 3.", "At 9 a.m. ET it was back by 11 p.m.", "The crowd cheered"]
    assert split_sentences(" ".join(parts)) == parts
    assert split_raw_document("He left at 10 p.m. New day. <q> A b.") == ["He left at 10 p.m. New day.", "A b."]
    assert split_raw_document("He left. A day.\nIt ended. So did we.") == [
        "He left.",
        "A day.",
        "It ended.",
        "So did we.",
    ]


@pytest.mark.parametrize("end", ["by Kim & Co.", "(of S.A.)", "a Ph.D.", "« Non ! »", "'No!'"])
def test_a_small_letter_continues_a_sentence_in_text_with_capital_letters(end):
    text = f"They met {end} that day."
    assert split_sentences(text) == [text]
    assert split_sentences(text.replace("that", "That")) == [f"They met {end}", "That day."]
    assert len(split_sentences(text.lower())) == 2
    assert split_sentences("The B.B.C.'s plan. Fin.") == ["The B.B.C.'s plan.", "Fin."]


def test_chinese_sentences_and_characters():
    assert split_sentences("他说：“好。”我们走吧！你呢？") == ["他说：“好。”", "我们走吧！", "你呢？"]
    assert split_sentences("彼は「本当？」と言った。次へ。") == ["彼は「本当？」と言った。", "次へ。"]
    tokenizer = CharacterTokenizer()
    encoded = " ".join(tokenizer.encode("我们用 PyTorch 2.0 训练<unk>。"))
    assert encoded == "我 们 用 pytorch 2 . 0 训 练 <unk> 。"
    assert tokenizer.decode(encoded.split()) == "我们用pytorch 2.0训练<unk>。"


@pytest.mark.parametrize(
    "text",
    [
        *("增长12.5%，约3,000家，gdp为1,234,567.8万亿。", "在10:30见——我不知道……", "版本1.2.3"),
        *("cafe\u0301", "我👨‍👩‍👧‍👦你👍🏽", "か\u3099"),
        '한국은행은 2024년 3월 samsung 전자와 (서울) 만났다. "좋다"고',
        "می\u200cخواهم کتاب\u200cها",
    ],
)
def test_what_characters_split_within_numbers_and_signs_is_joined_again(text):
    tokenizer = CharacterTokenizer()
    assert tokenizer.decode(" ".join(tokenizer.encode(text)).split()) == text
    for apart in ("10 , 2 , 3000 a", "5 % 3", "3 : a . 5"):
        assert tokenizer.decode(apart.split()) == apart.replace("5 %", "5%")


def test_a_long_line_is_cut_in_blocks_at_the_same_places(monkeypatch):
    text = " ".join(f"Sentence {number} by Dr. No ends here." for number in range(60))
    whole = split_sentences(text)
    monkeypatch.setattr(module, "BLOCK", 50)
    assert split_sentences(text) == whole and len(whole) == 60


@pytest.mark.parametrize("piece", ["'", ".", "<a>"])
def test_one_very_long_word_is_only_slow(piece):
    line = piece * 20_000
    assert PennTreebankTokenizer().encode(line)
    assert "".join(split_sentences(line)) == line


TOKENISED = "mr . smith did n't say so , \" she added . \" it 's 5 p.m. at inc. . \" who ( if any ) said : ' no ! '"


def test_tokenised_text_is_split_at_full_stops_that_are_tokens():
    """Abbreviations keep their full stops, and a quote belongs to the sentence that it closes or opens."""
    assert split_sentences(TOKENISED) == [
        "mr . smith did n't say so , \" she added .",
        '" it \'s 5 p.m. at inc. . "',
        "who ( if any ) said : ' no ! '",
    ]
    assert split_tokenised_sentences(TOKENISED, PennTreebankTokenizer().decode) == [
        "mr. smith didn't say so,\" she added.",
        '"it\'s 5 p.m. at inc."',
        "who (if any) said: 'no!'",
    ]
    assert is_tokenised(TOKENISED) and not is_tokenised("It cost 5 . Mr. Smith paid. She left. He stayed.")
    assert not is_tokenised("Vectors of any dimension. V, always exported, has the operators + . - and x . += . ==")


WORDS = {
    "Größe, 3.5 Mäuse!": "größe 3 5 mäuse",
    "हिन्दी में, snake_case": "हिन्दी में snake case",
    "می\u200cخواهم ۱۲": "می\u200cخواهم ۱۲",
    "cafe\u0301 👩\u200d💻 ❤️": "café",
    "2024年新闻 ABC": "2024 年 新 闻 abc",
    "テレビー、です": "テ レ ビ ー で す",
    "ดีมาก ๑๒": "ดี ม า ก ๑ ๒",
    "មែរ។ မြန်": "មែ រ မြ န်",
    "한국어 문장": "한국어 문장",
    "Город СТРОИТ": "город строит",
}


@pytest.mark.parametrize("text", WORDS)
def test_words_of_every_script(text):
    assert find_words(text) == WORDS[text].split() == WORD_SPLITTERS["words"](text)
    assert "".join(find_words(text, "characters")) == "".join(WORDS[text].split())


def test_ascii_text_has_the_words_of_rouge_score():
    r = random.Random(5)
    for _ in range(300):
        text = "".join(r.choice("aB9 .'-_#<\t") for _ in range(r.randint(0, 30)))
        assert find_words(text) == find_words(text, "a-z0-9") == tokenize.tokenize(text, None)
    assert find_words("Été 5", "a-z0-9") == ["t", "5"]
    assert find_words("新闻 a1", "characters") == [*"新闻a1"] and WORD_SPLITTERS["space"]("A b.") == ["A", "b."]


@pytest.mark.parametrize("tokens", ["words", "characters"])
def test_the_same_text_scores_100_and_other_words_score_0(tokens):
    for text in WORDS:
        report = rouge([text, "été"], [text, "ôbô"], tokens=tokens, bootstrap=0, metrics=("rouge1", "rougeL"))
        assert report.scores["rouge1"].f1 == report.scores["rougeL"].f1 == 50, text


def test_commands_say_which_letters_are_not_counted(tmp_path, capsys):
    out, ref = (str(tmp_path / name) for name in ("out", "ref"))
    for name in (out, ref):
        Path(name).write_text("город строит\nplain text\n", encoding="utf-8")
    for run, files in (
        (compare, [out, ref, ref]),
        (analyse, ["--source", ref, "--reference", ref, "--system", f"a={out}", "--oracle", "1"]),
    ):
        run([*files, "--bootstrap", "5"])
        assert "out: 1 of 2 lines have letters that ROUGE does not count" in capsys.readouterr().err
        run([*files, "--bootstrap", "5", "--tokens", "words"])
        out_err = capsys.readouterr()
        assert "letters" not in out_err.err and "tok:words" in out_err.out


def test_words_that_a_backend_cannot_count_are_refused():
    with pytest.raises(ValueError, match=r"tokens .*counts only"):
        rouge(["a"], ["a"], tokens="words", backend="perl")
    assert choose_tokens(["plain"] * 60 + ["café"]) == "a-z0-9" and choose_tokens(["plain"] * 30 + ["新"]) == "words"
    assert has_uncounted_letters("cafe\u0301") and not has_uncounted_letters("café 👩\u200d💻 ❤️ …", "words")
    assert choose_tokens([]) == "a-z0-9"


DOCUMENT = [list(f"第{number}条新闻说城市{other}修桥") for number, other in enumerate("甲乙丙丁戊己庚辛")]


def make_content_model(tokens, *pair):
    stemmed = [[find_words(" ".join(one)) for one in text] for text in pair]
    return ContentModel(NgramPriorProbabilities.from_pairs([stemmed]), random_networks(4), 20.0, tokens=tokens)


def test_a_limit_of_words_holds_in_every_script(tmp_path):
    make_content_model("words", DOCUMENT, DOCUMENT[:2]).save(tmp_path / "content.npz")
    model = ContentModel.load(tmp_path / "content.npz", "")
    chosen = choose_sentences(model, DOCUMENT, [0.5] * 8, most_words=25).sentences
    assert 0 < sum(len(find_words(" ".join(one.words))) for one in chosen) <= 25


@pytest.mark.parametrize("tokens, words", [("a-z0-9", "counts only words of a-z0-9"), ("words", "knows no word")])
def test_a_content_model_of_another_script_says_so(tokens, words, caplog, monkeypatch):
    monkeypatch.setattr("fairseq_etads.search.content_model._warn", logging.getLogger("content").warning)
    model = make_content_model(tokens, [["some", "words"]], [["words"]])
    chosen = choose_sentences(model, DOCUMENT, [0.5] * 8, [DOCUMENT[0][2:]])
    assert words in caplog.text and bool(chosen.sentences) == (tokens == "words")


@pytest.mark.parametrize("share, tokens", [(0, "a-z0-9"), (1, "a-z0-9"), (3, "words")])
def test_validation_chooses_by_the_words_of_the_dictionary(share, tokens, caplog):
    task = make_task()
    task.tgt_dict.add_symbol("été", share * sum(task.tgt_dict.count[task.tgt_dict.nspecial :]) // 97)
    summaries = ValidationSummarizer(task, make_task(eval_rouge=True).cfg)
    assert summaries._settings.tokens == tokens
    assert ("letters that ROUGE does not count" in caplog.text) == (share > 0)
