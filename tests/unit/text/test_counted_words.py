"""Words of every script: one definition for ROUGE, analyses, content models and the tuner."""

import logging
import random
from pathlib import Path

import pytest
from helpers import make_task
from rouge_score import tokenize
from selection_data import random_networks

from fairseq_etads.commands.analyse import main as analyse
from fairseq_etads.commands.compare import main as compare
from fairseq_etads.commands.rouge import main as rouge_command
from fairseq_etads.evaluation import rouge
from fairseq_etads.evaluation.analysis import WORD_SPLITTERS
from fairseq_etads.search.content_model import ContentModel, NgramPriorProbabilities
from fairseq_etads.search.sentence_choosing import choose_sentences
from fairseq_etads.text.words import choose_tokens, find_words, has_uncounted_letters
from fairseq_etads.training.validation import ValidationSummarizer

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
    out, same, ref = (str(tmp_path / name) for name in ("out", "same", "ref"))
    for name in (out, same, ref):
        Path(name).write_text("город строит\nplain text\n", encoding="utf-8")
    for run, files in (
        (rouge_command, [out, ref, "--bootstrap", "0"]),
        (compare, [out, same, ref, "--bootstrap", "5"]),
        (analyse, ["--source", ref, "--reference", ref, "--system", f"a={out}", "--oracle", "1", "--bootstrap", "5"]),
    ):
        run(files)
        assert "out: 1 of 2 lines have letters that ROUGE does not count" in capsys.readouterr().err
        run([*files, "--tokens", "words"])
        out_err = capsys.readouterr()
        assert "letters" not in out_err.err and "tok:words" in out_err.out


def test_words_that_a_backend_cannot_count_are_refused():
    for options, words in (({"tokens": "letters"}, "choose"), ({"tokens": "words", "backend": "perl"}, "counts only")):
        with pytest.raises(ValueError, match=f"tokens .*{words}"):
            rouge(["a"], ["a"], **options)
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
