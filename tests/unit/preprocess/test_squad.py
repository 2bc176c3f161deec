"""SQuAD's format: sentences that contain the answers."""

import json

import corpora
import pytest
from etads_preprocess.readers.questions import find_answer_sentences
from test_readers import lines, refused, run

CONTEXT = 'In 1066 the Normans, led by William of "Rouen", won. Rouen is in France! They\u00a0stayed.'


def paragraph(*answers, context=CONTEXT):
    spans = [{"text": text, "answer_start": context.index(text)} for text in answers]
    return {"context": context, "qas": [{"id": str(n), "question": "?", "answers": [s]} for n, s in enumerate(spans)]}


@pytest.mark.parametrize("version", ["1.1", "2.0"])
def test_sentences_with_answers_become_pairs(version, tmp_path):
    out, report = run(tmp_path, "squad", "--data", corpora.squad(tmp_path / "raw", version))
    assert lines(out / "train.source")[:2] == ["The audio was made by Dr. Ada Zeno in 1800.", "It weighs 2 tons."]
    assert lines(out / "train.target")[:2] == ["1800 <q> Ada Zeno", "2 tons"]
    assert {split: about["documents"] for split, about in report["splits"].items()} == {"train": 12, "valid": 4}


def found(*answers):
    """The sentences of the paragraph, and the answers in each."""
    items = list(find_answer_sentences(paragraph(*answers), "here"))
    assert {where for where, _ in items} == {"here"}
    return {document.source[0]: document.targets[0] for _, document in items}


def test_answers_go_to_their_own_sentence():
    first, second = found("Normans", "Rouen is", "the Normans", "William").items()
    assert first[1] == ["Normans", "William", "the Normans"] and second == ("Rouen is in France!", ["Rouen is"])


def test_an_answer_across_two_sentences_is_cut_where_they_meet():
    assert [*found("won. Rouen").values()] == [["won."], ["Rouen"]]


@pytest.mark.parametrize(
    "change,reason",
    [
        (lambda p: p["qas"][0]["answers"][0].update(answer_start=3), "not where answer_start says"),
        (lambda p: p["qas"][0]["answers"][0].update(answer_start=-1), "damaged answers"),
        (lambda p: p["qas"][0]["answers"][0].update(text=None), "damaged answers"),
        (lambda p: p["qas"][0].pop("answers"), "damaged answers"),
        (lambda p: p.pop("context"), "without context"),
        (lambda p: p.update(context=7), "without context"),
    ],
)
def test_a_damaged_paragraph_is_named_or_counted(change, reason, tmp_path, capsys):
    folder = corpora.squad(tmp_path / "raw")
    content = json.loads((folder / "train-v1.1.json").read_text(encoding="utf-8"))
    change(content["data"][1]["paragraphs"][0])
    corpora.write(folder / "train-v1.1.json", json.dumps(content))
    error = refused(tmp_path, capsys, "squad", "--data", folder)
    assert "train-v1.1.json, article 2, paragraph 1" in error and reason in error
    _, report = run(tmp_path, "squad", "--data", folder, "--skip-bad")
    assert report["splits"]["train"]["documents"] == 10 and sum(report["splits"]["train"]["dropped"].values()) == 1


@pytest.mark.parametrize("content", [None, "", "[]", '{"data": 1}', '{"data": [{"title": "x"}]}', "[" * 100_000])
def test_what_is_no_squad_is_refused(content, tmp_path, capsys):
    folder = corpora.squad(tmp_path / "raw", "1.1" if content is not None else "2.0")
    if content is not None:
        corpora.write(folder / "train-v1.1.json", content)
    error = refused(tmp_path, capsys, "squad", "--data", folder, "--squad-version", "1.1")
    assert ("no train-v1.1.json" if content is None else "train-v1.1.json: not SQuAD's JSON") in error
