"""Extracts without a model: their sentences, lengths and the command."""

import io
import math
import sys
from types import SimpleNamespace

import networkx

from fairseq_etads.commands.summarize import main
from fairseq_etads.summarizer import baselines
from fairseq_etads.summarizer.baselines import BaselineSummarizer, rank_sentences

TEXT = "The cat sat on the mat. A dog saw the cat on a mat. It rained! The dog and the cat ran off the mat. They slept."


def test_the_lead_ends_at_the_first_sentence_that_does_not_fit():
    (found,) = BaselineSummarizer("lead").stream([TEXT])
    assert found.sentences == ("The cat sat on the mat.", "A dog saw the cat on a mat.", "It rained!")
    (found,) = BaselineSummarizer("lead").stream([TEXT], words=8)
    assert found.sentences == ("The cat sat on the mat.",)
    (found,) = BaselineSummarizer("lead").stream([TEXT], words=3)
    assert not found.text and "the shortest has 6 words" in found.problem


def test_ranks_are_those_of_a_random_walk(monkeypatch):
    """networkx computes them in another way."""

    sentences = [part + "." for part in TEXT.rstrip(".").replace("!", ".").split(". ")]
    words = [set(one.lower().rstrip(".").split()) for one in sentences]
    graph = networkx.Graph()
    graph.add_nodes_from(range(len(words)))
    for i in range(len(words)):
        for j in range(i):
            common = len(words[i] & words[j])
            if common:
                graph.add_edge(i, j, weight=common / (math.log(len(words[i])) + math.log(len(words[j]))))
    ranks = networkx.pagerank(graph, weight="weight", tol=1e-12)
    assert rank_sentences(sentences)[:3] == sorted(graph, key=lambda one: -ranks[one])[:3]
    plain = rank_sentences([*sentences, "..."])
    monkeypatch.setattr(baselines, "_DENSE", 0)  # as for a book
    assert rank_sentences([*sentences, "..."]) == plain
    assert rank_sentences(["."]) == [0] and rank_sentences([]) == []
    (found,) = BaselineSummarizer("textrank").stream([TEXT], sentences=1, must_include="slept")
    assert found.sentences == ("They slept.",)


def test_without_a_model_the_bundled_one_for_news_is_taken_or_the_models_are_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("fairseq_etads.summarizer.folder.config.BUNDLED", tmp_path)
    (tmp_path / "in.txt").write_text(TEXT)
    assert main([str(tmp_path / "in.txt")]) == 2
    assert "name a model folder or one of lead, textrank" in capsys.readouterr().err
    (tmp_path / "news").mkdir()
    (tmp_path / "news" / "config.json").write_text("{}")
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b""), isatty=lambda: False))
    for arguments in ([str(tmp_path / "in.txt")], ["-"], []):
        assert main(arguments) == 2 and str(tmp_path / "news") in capsys.readouterr().err
