"""Models that come with the package, extracts without a model, and the examples in Python of the documentation."""

import io
import json
import math
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import networkx
import pytest
from documented import ROOT
from folders import make_folder

from fairseq_etads import Summarizer
from fairseq_etads.commands.summarize import main
from fairseq_etads.platform.errors import InputError
from fairseq_etads.search.content_model import ContentModel
from fairseq_etads.summarizer import baselines
from fairseq_etads.summarizer.baselines import BaselineSummarizer, rank_sentences
from fairseq_etads.summarizer.documents import find_fitting_model
from fairseq_etads.summarizer.folder import config
from fairseq_etads.summarizer.folder.config import find_folder

DEBIAN, PAPER = config.BUNDLED / "debian", config.BUNDLED / "paper"
INTRODUCTION = """\
Asthma is a chronic inflammatory disease of the airways that affects more than 300 million people. Its prevalence has
increased in many countries over the last three decades. Patients suffer from wheezing, breathlessness and cough, and
severe attacks may be fatal. Inhaled corticosteroids are the most effective treatment, but a considerable proportion of
patients does not respond to them. The reasons for this are poorly understood.
Vitamin D is best known for its role in the metabolism of calcium and bone. In the last years, receptors of vitamin D
were found in many cells of the immune system, including macrophages, dendritic cells and T cells. In these cells,
vitamin D inhibits the production of inflammatory cytokines such as interleukin 6 and tumor necrosis factor. Deficiency
of vitamin D is common: about half of the adult population has serum concentrations below the recommended level.
Experiments in mice suggest a possible mechanism. In a model of allergic airway inflammation, treatment with vitamin D
reduced the number of eosinophils in the lung and the expression of interleukin 13. Whether the same genes are regulated
in human airway cells is not known.
In this study, we measured the expression of all genes in airway epithelial cells of patients with asthma and of healthy
controls, before and after treatment with vitamin D. Our aim was to identify the genes that respond to vitamin D, and
to find out whether their response differs between patients and controls.
"""


def test_a_name_finds_the_bundled_model_and_a_path_or_a_model_folder_does_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert config.list_bundled_models() == ["debian", "news", "paper"]
    assert find_folder("debian") == find_folder(Path("debian")) == DEBIAN
    for path in ("./debian", "other", str(tmp_path / "debian"), "debian/"):
        assert find_folder(path) == Path(path)
    (tmp_path / "debian").mkdir()
    assert find_folder("debian") == DEBIAN, "a folder that is no model does not hide it"
    (tmp_path / "debian" / "config.json").write_text("{}")
    assert find_folder("debian") == Path("debian")
    with pytest.raises(InputError, match=r"debain: no such folder; .* comes with the package \(debian, news, paper\)"):
        Summarizer.load("debain")


@pytest.fixture(scope="module")
def paper():
    return Summarizer.load("paper", device="cpu")


def test_it_writes_the_background_of_an_article_from_its_whole_introduction(paper):
    summary = paper.summarize(INTRODUCTION)
    assert summary.problem == "" and summary.truncation.left_out == 0
    assert summary.picked.words == len(INTRODUCTION.split()) > 200
    assert sum(len(sentence.text.split()) for sentence in summary.picked.sentences) <= 200
    assert 50 <= sum(len(re.findall("[a-z0-9]+", one.text)) for one in summary.chosen) <= 91
    for one in summary.chosen:
        if one.source == "document":
            assert one.text == " ".join(INTRODUCTION[one.start : one.end].lower().split())
    words = set(re.findall(r"[a-z]+", summary.text.lower()))
    assert len({"vitamin", "asthma", "airway", "airways", "expression", "patients"} & words) >= 3
    assert sum(word in INTRODUCTION.lower() for word in words) > 0.8 * len(words), "it says what stands there"


def test_it_knows_an_article_from_the_description_of_a_package(paper):
    assert not paper.summarize(INTRODUCTION).surprisal.is_unusual
    package = (
        "Nginx is a small, powerful and scalable web and proxy server. This package contains binaries, modules and "
        "configuration files for debhelper builds, with plugins for Perl and Lua scripting, and daemon scripts."
    )
    assert paper.summarize(package).surprisal.is_unusual
    assert find_fitting_model(package, PAPER) == "debian" and find_fitting_model(INTRODUCTION, DEBIAN) == "paper"
    assert find_fitting_model("zyxomat " * 20, PAPER) == ""


def test_they_are_small_and_the_model_of_news_contains_no_text():
    """Its content model has single words and pairs of words, without any sequence of three."""
    for name, most in (("debian", 12e6), ("paper", 25e6), ("news", 16e6)):
        assert sum(path.stat().st_size for path in (config.BUNDLED / name).rglob("*.*")) <= most
    content = ContentModel.load(config.BUNDLED / "news" / "extractor" / "content.npz", "")
    assert {len(gram) for gram, _ in content.priors.counts} == {1, 2} and content.of_extractor


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


def blocks(page, language="python"):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the examples of a page where there is a folder of an untrained model; returns their names."""
    make_folder(tmp_path, pointer="soft", text={"tokenizer": "etads"})
    (tmp_path / "documents.txt").write_text("w1 w2\n\nw3\n")
    monkeypatch.chdir(tmp_path)

    def run_page(page):
        names = {}
        for block in blocks(page):
            exec(compile(block, page, "exec"), names)
        return names

    return run_page


def test_the_examples_in_python_run(run, capsys):
    assert len(blocks("using.md")) == 2
    run("using.md")
    copied = [line for line in capsys.readouterr().out.splitlines() if " from " in line]
    assert copied and all(line.split()[0] == line.split()[-1].lower() for line in copied)


def test_the_example_of_an_explanation_runs(run, capsys, tmp_path):
    names = run("explain.md")
    *words, last = capsys.readouterr().out.splitlines()
    assert len(words) == len(names["explanation"].tokens) and "for the reference" in last
    assert any(" copied from " in line for line in words) and any(" generated" in line for line in words)
    data = names["explanation"].to_dict()
    cells = re.findall(r"^\| (.*?) \|", (ROOT / "docs" / "explain.md").read_text(encoding="utf-8"), re.MULTILINE)
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    depending = {"picked", "surprisal", "chosen"}  # on parts that this folder lacks
    assert depending <= named and not depending & set(data)
    more = "schema document summary architecture pointer saliency_gate score log_probability left_out least"
    assert named - depending <= set(data) and set(data) - named <= set(more.split())
    assert (tmp_path / "why.html").read_text().startswith("<!doctype html>")


def test_the_example_of_partial_summaries_runs(run, capsys):
    names = run("demo.md")
    *steps, last = capsys.readouterr().out.splitlines()
    assert len(steps) >= 2 and last.split()[1:] == names["summary"].text.split()
    assert steps[0].split()[-1].strip(".") in names["text"]


@pytest.mark.usefixtures("run")
def test_the_json_line_has_the_fields_there_are():
    (block,) = blocks("using.md", "json")
    found = Summarizer.load("model").summarize("Zebra w1", min_len=2).to_dict()
    shown = json.loads(block)
    assert {"document", *found} == set(shown)
    assert set(found["copied"][0]) == set(shown["copied"][0])
