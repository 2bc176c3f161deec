"""Text of other languages: ends of sentences, abbreviations, and words that become the text that they were."""

import pytest
from etads_preprocess.corpus import main as corpus
from etads_preprocess.prepare import main as prepare
from test_text import build

from fairseq_etads.data.preparation import read_inference_preprocessing_options
from fairseq_etads.text.documents import add_full_stop
from fairseq_etads.text.words import LANGUAGES, split_sentences

SENTENCES = [
    ("en", "वर्षा होगी।| ठंड बढ़ेगी।| क्या हम जाएँ?| नहीं॥"),
    ("en", "کھیل ہوگا۔| شام ہوگی۔"),
    ("en", "هل جاء؟|لا."),
    ("en", "Սա է։| ሰላም ነው።|ደህና፧| ကောင်းပါတယ်။|ខ្មែរ។|今日｡|「明日。」|で"),
    ("de", "Am 3. Mai kam er.| Sie rief: »Komm!«| „Ja.“| Er blieb bzw. schlief."),
    ("es", "El Sr. Ruiz llegó.| «¡Hola!»| Se fue."),
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
        ("en", "the players’ first win, and John’s: “Yes,” he said, “no.”"),
        ("en", "O’Brien said ‘yes’ to rock’n’roll of the ’90s; ask @user about #MeToo and https://www.x.org/a_b"),
        ("en", "C++ library for Go, C# and F# code in g++. (C++) libstdc++ a + b"),
        ("en", "새 지하철 노선이 내년에 개통된다."),
        ("en", "👩‍💻 works ❤️ 👍🏽 in ที่นี่ดีมาก"),
        ("en", "他说“好”。 צה״ל בא"),
        ("zh", "地图，在这里：好；（是）、吧……真的？！《书》——他"),
        ("hi", 'क्या? हाँ। "ठीक है।" फिर… गया।'),
        ("fa", "آیا آمد؟ بله، رفت؛ شب. Ո՞ւր է։ ሰላም፣ ነው።"),
        ("de", "Er sagte: „Ja.“ Dann »Komm!« und ging."),
        ("fr", "L’amour d’un ami : « Oui » dit-il."),
        ("es", "Dijo «hola» y “adiós”."),
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
