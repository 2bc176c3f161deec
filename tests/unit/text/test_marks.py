"""Marks of other tools: counted when a corpus is made, warned of when it is scored, and sentence ends on request."""

import json
from pathlib import Path

import pytest
from etads_preprocess.corpus import main as corpus

from fairseq_etads.commands.rouge import main as rouge
from fairseq_etads.evaluation import split_summary_into_sentences
from fairseq_etads.text.documents import SENTENCE_MARKS, SPECIAL_SYMBOLS, SUBWORD_MARKS, UNKNOWN_WORDS, count_marks

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
