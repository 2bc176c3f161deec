"""Pairs for natural language inference from the published files and from text with tabs."""

import gzip
import json
from collections import Counter

import pytest

from fairseq_etads.data.nli_pairs import (
    SKIPPED,
    NliPair,
    find_tokenisation_problem,
    format_tab_separated_pair,
    read_pairs,
)
from fairseq_etads.platform.errors import InputError
from fairseq_etads.systems.entailment.model import NliConfig
from fairseq_etads.text.tokenizer import TextTokenizer, TextTokenizerConfig


def published(label, premise="A man sleeps.", **more):
    """Make a line like SNLI's, with fields that nobody reads."""
    fields = {"annotator_labels": ["neutral"], "sentence1": premise, "sentence2": "Someone\u2028rests.", **more}
    return json.dumps({**fields, "gold_label": label}, ensure_ascii=False) + "\n"


def test_published_files_are_read_and_undecided_pairs_counted(tmp_path):
    text = published("entailment") + published("-") + published("contradiction") + published("-")
    (tmp_path / "snli_1.0_dev.jsonl").write_text(text, encoding="utf-8")
    (tmp_path / "mnli.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("snli_1.0_dev.jsonl", "mnli.jsonl.gz"):
        counts = Counter()
        pairs = list(read_pairs(tmp_path / name, counts))
        assert pairs == [("A man sleeps.", "Someone\u2028rests.", label) for label in ("entailment", "contradiction")]
        assert counts == {SKIPPED: 2}


def test_text_with_tabs_is_read_as_it_is_written(tmp_path):
    pairs = [NliPair("a b", "a", "entailment"), NliPair("a\tb\n c", "", "neutral")]
    (tmp_path / "pairs.tsv").write_text("".join(map(format_tab_separated_pair, pairs)))
    assert list(read_pairs(tmp_path / "pairs.tsv")) == [("a b", "a", "entailment"), ("a b c", "", "neutral")]


@pytest.mark.parametrize(
    "name, line, words",
    [
        ("x.tsv", "a\tb", "2 tab-separated fields"),
        ("x.tsv", "a\tb\tyes", 'the label is "yes"'),
        ("x.jsonl", "[" * 100000, "not JSON"),
        ("x.jsonl", "[1]", "not a JSON object"),
        ("x.jsonl", published("neutral", sentence2=None).strip(), "not an object with the texts"),
        ("x.jsonl", published("hidden").strip(), 'the label is "hidden"'),
    ],
)
def test_errors_name_file_and_line(name, line, words, tmp_path):
    good = published("neutral") if name == "x.jsonl" else "a\tb\tneutral\n"
    (tmp_path / name).write_text(good + line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=f"{name}, line 2: ") as error:
        list(read_pairs(tmp_path / name))
    assert words in str(error.value)


def test_raw_text_cut_at_spaces_is_warned_of():
    """SNLI is raw text. If it is cut at spaces, "airplane." and "diner," count as words."""
    raw = ["A person on a horse jumps over a broken down airplane.", "A person is at a diner, ordering an omelette."]
    cut = [word for text in raw for word in text.lower().split()]
    warning = find_tokenisation_problem(cut, "--words")
    assert '15.0% of the words end in punctuation ("airplane.", "diner,")' in warning and "--words ptb" in warning
    tokenizer = TextTokenizer(TextTokenizerConfig(text_words="ptb"))
    tokens = [word for text in raw for word in tokenizer.encode(text).split()]
    assert find_tokenisation_problem(tokens, "--words") == "" == find_tokenisation_problem([], "--words")
    assert find_tokenisation_problem(["mr.", *["word"] * 50], "--words") == "", "abbreviations may"


def test_digits_are_hidden_after_words_are_cut():
    """Treebank rules make "#" a word, so digits that were hidden first would be split."""
    tokenizer = NliConfig(words="ptb", hide_digits=True).make_tokenizer()
    assert tokenizer.encode("He isn't 42 or 1,000.") == "he is n't ## or #,### ."
