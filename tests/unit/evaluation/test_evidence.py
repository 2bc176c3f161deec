"""Evidence against a search of all paths, spellings of words, people's judgements, and the command with its page."""

import itertools
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_etads.commands.evidence import main
from fairseq_etads.evaluation.evidence import NOTICE, EvidenceFinder, find_evidence
from fairseq_etads.text.words import split_marked_sentences

QAGS = Path(os.environ.get("ETADS_CORPORA", "no folder")) / "qags"
CONTENT, FUNCTION, NUMBERS = ("red", "fox", "moon"), ("the", "of"), ("7", "9")
SENTENCE = st.lists(st.sampled_from(CONTENT + FUNCTION + NUMBERS), min_size=1, max_size=5)


def cost_of(sentence, path, words, sentence_of):
    """The cost of writing a sentence when each word is copied from the position in the path, or is None."""
    cost, last = 0.0, None
    for word, place in zip(sentence, path):
        if place is None:
            cost += 10 if word in NUMBERS else 1 if word in FUNCTION else 5
            continue
        if last is not None and place != last + 1:
            if sentence_of[place] != sentence_of[last]:
                cost += 1.5 if word in FUNCTION else 3
            else:
                cost += 1 + 0.1 * min(place - last - 1, 20) if place > last else 2
        last = place
    return cost


@settings(max_examples=60, deadline=None)
@given(st.lists(SENTENCE, min_size=1, max_size=3), SENTENCE)
def test_support_is_that_of_the_cheapest_of_all_paths(document, sentence):
    words = [word for each in document for word in each]
    sentence_of = [number for number, each in enumerate(document) for _ in each]
    ways = [[None, *(place for place, other in enumerate(words) if other == word)] for word in sentence]
    costs = [cost_of(sentence, path, words, sentence_of) for path in itertools.product(*ways)]
    content = sum(word not in FUNCTION for word in sentence)
    (found,) = find_evidence(" <q> ".join(map(" ".join, document)), [" ".join(sentence)])
    assert found.support == pytest.approx(math.exp(-min(costs) / max(1, content)))
    assert {new.word for new in found.new} == {w for w in sentence if w not in words and w not in FUNCTION}


def test_spellings_of_a_word_are_one():
    document = "It didn't cost 235,000 euros . <q> Five well-known poets' friends weren’t there , 31. 8 % came ."
    written = ["It did n't cost 235, 000 Euros .", "5 well known poets ' friends were n't there", "31.8 came"]
    for sentence in (*written, "poet's friend"):
        (found,) = find_evidence(document, [sentence])
        assert not found.new, sentence
    kinds = [(new.word, new.kind) for new in find_evidence(document, ["Then Mary paid 6.5 dollars"])[0].new]
    assert kinds == [("Mary", "name"), ("paid", "word"), ("6.5", "number"), ("dollars", "word")]


@pytest.mark.parametrize(
    "document", ["One fox ran. The moon rose. It was red.", "One fox ran.\n\n The  moon\trose. It was red."]
)
def test_sources_are_positions_in_the_document(document):
    found = EvidenceFinder(document).find("The red moon rose and the fox ran.")
    assert found.joined
    assert [source.number for source in found.sources] == [0, 1]
    texts = [" ".join(document[source.start : source.end].split()) for source in found.sources]
    assert texts == ["One fox ran.", "The moon rose."] and [source.words for source in found.sources] == [2, 2]
    assert [(new.word, new.start) for new in find_evidence(document, ["A blue fox"])[0].new] == [("blue", 2)]


def test_words_of_scripts_without_spaces_are_characters_and_no_text_has_no_sources():
    (found,) = find_evidence("北京大学很大。他们昨天去了上海。", ["他们去了上海。"])
    assert [source.number for source in found.sources] == [1] and not found.new and found.support > 0.8
    assert [new.word for new in find_evidence("Мир велик .", ["Мир мал ."])[0].new] == ["мал"]
    assert find_evidence("", ["a fox"])[0].sources == () and find_evidence("a fox", []) == []


def test_marks_and_stops_end_sentences():
    assert split_marked_sentences("Dr. Fox came. <q> ") == ["Dr. Fox came."]
    assert split_marked_sentences("Dr. Fox came. She left.") == ["Dr. Fox came.", "She left."]


@pytest.mark.skipif(not QAGS.is_dir(), reason="ETADS_CORPORA names no folder with qags/ (Wang et al. 2020)")
@pytest.mark.parametrize("name, least_auc, least_correlation", [("cnndm", 0.85, 0.68), ("xsum", 0.64, 0.2)])
def test_support_agrees_with_people(name, least_auc, least_correlation):
    rows = [json.loads(line) for line in (QAGS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
    support, votes = [], []
    for row in rows:
        found = find_evidence(row["article"], [sentence["text"] for sentence in row["sentences"]])
        support.append([evidence.support for evidence in found])
        votes.append([sentence["faithful"] for sentence in row["sentences"]])
    faithful = np.array([sum(vote) >= 2 for each in votes for vote in each])
    values = np.concatenate(support)
    pairs = values[faithful][:, None] - values[~faithful]
    assert np.mean((pairs > 0) + 0.5 * (pairs == 0)) >= least_auc
    assert np.corrcoef(list(map(np.mean, support)), list(map(np.mean, votes)))[0, 1] >= least_correlation


def test_the_command_writes_rows_and_a_page(tmp_path, capsys):
    for name, text in (("d", "A fox ran . <q> It rained .\nb </script><b>\n"), ("s", "A fox ran .\nMary 7\n")):
        (tmp_path / name).write_text(text)
    page, system = tmp_path / "page.html", f"mine={tmp_path / 's'}"
    command = ["--source", str(tmp_path / "d"), "--system", system, "--page"]
    assert main([*command, str(page), "--page-documents", "2"]) == 0
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["systems"]["mine"][0]["support"] == 1 and second["line"] == 2
    assert [new["kind"] for new in second["systems"]["mine"][0]["new"]] == ["word", "number"]
    text = page.read_text()
    assert NOTICE in text and "Mary 7" in text and "</script><b>" not in text
    with pytest.raises(SystemExit):
        main([*command, str(tmp_path / "s")])
    assert "the name must end in .html" in capsys.readouterr().err
