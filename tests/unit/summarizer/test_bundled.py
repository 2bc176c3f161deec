"""The models that come with the package: found by name, complete, small, and useful."""

import re
from pathlib import Path

import pytest

from fairseq_etads import Summarizer
from fairseq_etads.platform.errors import InputError
from fairseq_etads.search.content_model import ContentModel
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


@pytest.mark.parametrize(
    "name, most, words",
    [
        ("debian", 12e6, ("bundled_debian", "--pointer-continue")),
        ("paper", 25e6, ("bundled_paper", "SumPubMed", "not medical advice")),
        ("news", 16e6, ("bundled_news", "CNN", "no licence")),
    ],
)
def test_it_is_small_and_its_card_says_where_it_comes_from_and_what_it_cannot_do(name, most, words):
    folder = config.BUNDLED / name
    assert sum(path.stat().st_size for path in folder.rglob("*.*")) <= most
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert all(word in card for word in words)


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


def test_the_model_of_news_contains_no_text():
    """Its content model has single words and pairs of words, without any sequence of three."""
    content = ContentModel.load(config.BUNDLED / "news" / "extractor" / "content.npz", "")
    assert {len(gram) for gram, _ in content.priors.counts} == {1, 2} and content.of_extractor
