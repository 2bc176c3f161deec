"""The page of an explanation: its file, which is only text, and what it shows in a browser; lists of pages."""

import base64
import hashlib
import html
import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from explanations import HOSTILE, made_up

from fairseq_etads.summarizer import ChosenSentence, Explanation, PickedSentence, Selection, Summarizer
from fairseq_etads.summarizer.explanation import make_index_page, make_page
from fairseq_etads.summarizer.folder.config import BUNDLED
from fairseq_etads.summarizer.surprisal import Surprisal

WORDS = [f"{word}{n}" for n in range(4) for word in ("Zebra", "saw", "a", "yak", ",")]
SUMMARY = ["yak1", "saw2", "new"]


class Page(HTMLParser):
    """The elements of a page, and its text by element."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.open, self.text = [], [], {}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.elements.append((tag, attributes))
        if tag not in ("meta", "link", "input", "br"):
            self.open.append((tag, attributes))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1][0] == tag, f"</{tag}> does not end {self.open[-1]}"
        self.open.pop()

    def handle_data(self, text):
        for tag, attributes in self.open:
            key = attributes.get("id") or f"<{tag}>"
            self.text[key] = self.text.get(key, "") + text


def test_without_a_script_the_texts_can_be_read():
    explanation = made_up(WORDS, SUMMARY, left_out=3)
    found = Page(explanation.to_html("a.txt"))
    assert not found.open, "every element is closed"
    assert found.text["document"] == explanation.document and found.text["summary"] == explanation.summary
    assert "a.txt" in found.text["<title>"]
    assert make_page(json.loads(explanation.to_json()), "a.txt") == explanation.to_html("a.txt"), "kept as JSON"


def test_nothing_of_a_document_is_more_than_text():
    words = HOSTILE.split(" ")
    explanation = made_up(words, ["<b>!", "</script>!", "\u202ex!", "\ud800!", "${x}!"])
    text = explanation.to_html(HOSTILE)
    text.encode("utf-8")
    found, plain = Page(text), Page(made_up(["w"] * len(words), ["a"] * 5).to_html("a"))
    assert [tag for tag, _ in found.elements] == [tag for tag, _ in plain.elements]
    assert not [a for _, a in found.elements for name in a if name.startswith("on") or name in ("style", "src", "href")]
    for shown in ("[U+202E]esrever", "nul[U+0000]nul", "[U+D800]", "😀 👩\u200d👩\u200d👧 e\u0301"):
        assert shown in found.text["document"]
    assert not re.search("[\0\u202a-\u202e\u2066-\u2069\u2028\ud800-\udfff]", text.split("<script>")[0])
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert not re.search(r"[<>&\u2028]", data) and json.loads(data)["document"] == explanation.document


def test_the_page_can_load_nothing_and_its_frame_in_a_notebook_cannot_reach_out():
    explanation = made_up(HOSTILE.split(" "), ["yak"])
    text = explanation.to_html()
    hashes = []
    for part in ("style", "script"):
        (content,) = re.findall(f"<{part}>(.*?)</{part}>", text, re.DOTALL)
        hashes.append(f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'")
    (policy,) = [attributes["content"] for _, attributes in Page(text).elements if "http-equiv" in attributes]
    style, script = hashes
    assert policy == f"default-src 'none'; style-src {style}; script-src {script}; base-uri 'none'; form-action 'none'"
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), "an address that something could be loaded from"
    ((tag, attributes),) = Page(explanation._repr_html_()).elements
    assert (tag, attributes["sandbox"], attributes["srcdoc"]) == ("iframe", "allow-scripts", text)


def test_the_index_links_to_pages():
    text = make_index_page([("0001.html", '<a> "b"', "</td>x"), ("a b.html", "n", "s")])
    assert [a["href"] for tag, a in Page(text).elements if tag == "a"] == ["0001.html", "a%20b.html"]
    assert html.escape('<a> "b"') in text and "</td>x" not in text


@pytest.fixture(scope="module")
def explanation():
    return made_up(WORDS, SUMMARY, heads=3, left_out=4)


@pytest.fixture
def shown(browser, explanation, tmp_path):
    """Open an explanation's page. After the test, nothing may have been logged or requested from the network."""

    def show(found=explanation):
        path = tmp_path / "page.html"
        path.write_text(found.to_html("made up"), encoding="utf-8")
        browser.open(path)
        return browser

    yield show
    assert browser.console() == []
    assert [url for url in browser.requests() if not url.startswith("file:")] == []


def shades(browser, selector=".t"):
    """Read the strength of each word's shading, from 0 to 1, as painted."""
    colors = browser.run(
        "return [...document.querySelectorAll(arguments[0])].map(e => getComputedStyle(e).backgroundColor)", selector
    )
    alphas = [re.findall(r"[\d.]+", color) for color in colors]
    return [float(numbers[3]) if len(numbers) > 3 else 1.0 for numbers in alphas]


def underlines(browser):
    """The thickness of each document word's underline, in pixels."""
    return browser.run(
        "return [...document.querySelectorAll('.t')].map(e => parseFloat(getComputedStyle(e).getPropertyValue('--c')))"
    )


def matches(found, row, low=0.0):
    """Tell whether shades are proportional to a row of numbers."""
    expected = [(x - low) / (max(row) - low) for x in row]
    return all(abs(a / max(found) - b) < 0.02 for a, b in zip(found, expected))


def detail(browser):
    return browser.find("#detail").text


def test_a_word_of_the_summary_shows_where_it_looked_and_what_it_copied(shown, explanation):
    browser = shown()
    saliency, copied = explanation.saliency_of_source, explanation.copy_coverage
    assert matches(shades(browser), saliency, min(saliency)), "at first"
    assert max(underlines(browser)) == pytest.approx(1 + 3 * min(1, max(copied)), abs=0.06)
    for number, word in enumerate(browser.find_all(".w")):
        browser.hover(word)
        assert matches(shades(browser), explanation.attention[number])
        token = explanation.tokens[number]
        shares = [(1 - token.p_gen) * weight for weight in explanation.copying[number]]
        lines = [1 + 3 * share if share >= 0.02 else 0 for share in shares]
        assert underlines(browser) == pytest.approx(lines, abs=0.06)
        source = browser.run("return [...document.querySelectorAll('.t')].findIndex(e => e.matches('.source'))")
        assert source == (-1 if token.copied_from is None else token.copied_from)
        assert f"{token.probability:.2f}" in detail(browser) and f"{token.p_gen:.2f}:" in detail(browser)
    browser.hover(browser.find("h1"))
    assert "of 4 tokens" in detail(browser), "nothing is chosen any more"


def test_a_word_of_the_document_shows_who_looked_at_it(shown, explanation):
    browser = shown()
    place = max(range(len(WORDS)), key=lambda j: explanation.coverage[j])
    browser.hover(browser.find_all(".t")[place])
    assert matches(shades(browser, ".w"), [row[place] for row in explanation.attention])
    said = detail(browser)
    covered = float(re.search(r"([\d.]+) of attention", said).group(1))
    assert WORDS[place] in said and covered == pytest.approx(explanation.coverage[place], abs=0.006)
    gates = {int(layer): float(gate) for layer, gate in re.findall(r"layer (\d+): ([\d.]+)", said)}
    assert gates == {one.layer: pytest.approx(one.gate[place], abs=0.011) for one in explanation.saliency_layers}


def test_a_head_shades_the_document_by_its_focus(shown, explanation):
    browser = shown()
    heads = browser.find_all(".head")
    assert len(heads) == 6
    heads[4].click()
    browser.hover(browser.find_all(".t")[5])
    layer = explanation.focus_layers[1]
    center, scope = layer.centers[1][5], layer.scopes[1][5]
    expected = [math.exp(-2 * ((j - center) / scope) ** 2) for j in range(len(WORDS) + 1)]
    found = shades(browser)
    assert all(abs(a / b - max(found) / max(expected)) < 0.1 for a, b in zip(found, expected) if b > 0.2)
    assert f"centre at token {center + 1:.1f}" in detail(browser)
    heads[4].click()
    assert heads[4].get_attribute("aria-pressed") == "false"


def test_a_click_keeps_a_word_until_escape(shown):
    browser = shown()
    browser.find_all(".w")[1].click()
    browser.hover(browser.find_all(".t")[3])
    assert "document, 4 of 21" in detail(browser)
    browser.hover(browser.find("h1"))
    assert "summary, 2 of 4" in detail(browser)
    pressed = [word.get_attribute("aria-pressed") for word in browser.find_all(".w")]
    assert pressed == ["false", "true", "false", "false"]
    browser.press("Esc")
    assert "of 4 tokens" in detail(browser)


def test_a_hostile_document_is_text_and_an_empty_one_has_a_page(shown):
    browser = shown(made_up(HOSTILE.split(" "), ["<b>bold</b>", "</script>", "\u202eesrever"]))
    assert browser.driver.title.startswith("Why this summary") and "caught" not in browser.driver.title
    assert "<script>document.title='caught'</script>" in browser.find("#document").text
    browser.find_all(".w")[0].click()
    assert browser.find("#detail h3").text == "<b>bold</b>" and not browser.find_all("b:not(.head b)")
    browser.find_all(".t")[0].click()
    assert "<script>" in browser.find("#detail h3").text
    shown(Explanation(" \n", (), 0, "", (), 0.0, "etads", "none", None, None, None, None, None))
    assert "has read nothing" in browser.find("main").text


@pytest.mark.parametrize(
    "options, says, says_not",
    [
        ({}, ["saliency", "underlined", "Focus", "p_gen"], "This model has no"),
        ({"gate": None, "focus": False}, ["attention, sum over", "no focus-attention"], "Shade by"),
        ({"gate": None, "pointer": "none"}, ["no saliency-selection", "no pointer: it cannot copy"], "p_gen"),
    ],
)
def test_the_page_shows_what_the_model_has_and_says_what_it_has_not(shown, options, says, says_not):
    browser = shown(made_up(WORDS, SUMMARY, **options))
    body = browser.find("main").text
    assert all(text in body for text in says) and says_not not in body
    browser.hover(browser.find_all(".t")[2])
    assert "Coverage" in detail(browser) and ("Copied" in detail(browser)) == ("pointer" not in options)
    assert len(browser.find_all(".head")) == (0 if "focus" in options else 4)


def test_a_sentence_that_an_extractor_chose_is_marked_where_it_stands(shown):
    text = "Rain fell all day on Monday in Oakham. Then the bridge was closed, the mayor said. It opened again today."
    browser = shown(Summarizer.load(BUNDLED / "news", "cpu").explain(text, sentences=1, choose="extract"))
    assert not browser.find_all("#document .unread"), "all of it was read"
    browser.find("#evidence .sentence").click()
    assert browser.find("#document .origin").text == browser.find("#evidence bdi").text
    assert browser.find("#document").text == text


def test_all_texts_are_there_and_a_table_has_the_figures(shown):
    picked = Selection((PickedSentence("Zebra0 saw0", 0, 11, 4, 0.75),), 9, 40)
    chosen = (ChosenSentence("yak1", "document", 2), ChosenSentence("saw2 new", "model"))
    parts = {"picked": picked, "chosen": chosen, "surprisal": Surprisal(9.5, 0.25, 99.5)}
    browser = shown(replace(made_up(WORDS, SUMMARY, left_out=3), **parts))
    assert [part.text.strip() for part in browser.find_all(".unread")] == ["and the rest"]
    assert browser.find("#document").text == " ".join(WORDS) + " end and the rest"
    assert [word.text for word in browser.find_all(".word")] == [*SUMMARY, "end"]
    assert browser.find("#picked").text == "5 0.75 Zebra0 saw0"
    assert browser.find("#chosen").text == "sentence 3 of the document: yak1\nwritten by the model: saw2 new"
    assert "unlike the training documents: 9.5 bits" in browser.find("#about strong").text
    browser.find("details summary").click()
    rows = [row.text.split() for row in browser.find_all("#figures tr")]
    assert [row[1] for row in rows] == [*SUMMARY, "end"] and rows[0][6] == "yak1", "copied from"


def test_tokens_without_a_place_and_overlapping_ones_are_shown_once(shown, monkeypatch):
    explanation = made_up(["½", "bcd"], ["bcd"], focus=False)
    data = explanation.to_dict()
    data["document"] += " \u202e"
    places = [("1", 0, 1), ("2", 0, 1), ("<q>", None, None), ("bc", 2, 4), ("cd", 3, 5), ("\u202e", None, None)]
    tokens = [{"text": text, "start": start, "end": end, "known": True} for text, start, end in places]
    data["source"][:-1] = tokens
    for name in ("coverage", "copy_coverage", "saliency_of_source"):
        data[name] += [0.0, 0.0, 0.0, 0.0]
    monkeypatch.setattr(Explanation, "to_html", lambda self, title: make_page(data, title))
    browser = shown(explanation)
    assert [word.text for word in browser.find_all(".t")] == ["½", "2", "<q>", "bc", "d", "[U+202E]", "end"]
    assert browser.find("#document").text == "½2<q> bcd [U+202E] end", "once, though its characters could not be told"
