"""The page of an explanation: readable without a script, with the document only as text, and not large."""

import base64
import hashlib
import html
import json
import re
from html.parser import HTMLParser

import pytest
from explanations import HOSTILE, made_up

from fairseq_etads.summarizer import Explanation
from fairseq_etads.summarizer.explanation_page import format_embedded_json, make_frame, make_index_page, make_page

WORDS = ["The", "Zebra", "saw", "a", "yak", ",", "and", "the", "yak", "saw", "it", "."]


class Page(HTMLParser):
    """The elements of a page, its text by element, and the text of each word."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.open, self.text, self.policy = [], [], {}, ""
        self.words, self.tokens = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.elements.append((tag, attributes))
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]
        if tag not in ("meta", "link", "input", "br"):
            self.open.append((tag, attributes))

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1][0] == tag, f"</{tag}> does not end {self.open[-1]}"
        self.open.pop()

    def handle_data(self, text):
        for number, (tag, attributes) in enumerate(self.open):
            key = attributes.get("id") or tag
            self.text[key] = self.text.get(key, "") + text
            classes = attributes.get("class", "").split()
            if "t" in classes and number == len(self.open) - 1:
                self.tokens.append(text)
            if "word" in classes:
                self.words.append(text)


def parsed(explanation, title=""):
    return Page(explanation.to_html(title))


def test_without_a_script_it_can_be_read():
    found = parsed(made_up(WORDS, ["zebra", "yak"], left_out=3), "a.txt")
    assert not found.open, "every element is closed"
    assert "".join(found.text["document"]).replace(" end", "", 1) == " ".join(WORDS) + " and the rest"
    assert found.tokens == [*WORDS, "end"] and found.words == ["zebra", "yak", "end"]
    assert "a.txt" in found.text["title"] and "3 not read" in found.text["body"]
    rows = re.findall(r"<tr>(.*?)</tr>", made_up(WORDS, ["zebra", "yak"]).to_html())[1:]
    cells = [re.sub("<.*?>", " ", row).split() for row in rows]
    assert [row[1] for row in cells] == ["zebra", "yak", "end"]
    assert cells[1][6] == "yak", "copied from"


def test_the_document_is_shaded_by_saliency_and_underlined_by_copying():
    explanation = made_up(WORDS, ["yak"])
    spans = re.findall(r'<span class="t( end)? s(\d)(?: c(\d))?">', explanation.to_html())
    saliency, copied = explanation.saliency_of_source, explanation.copy_coverage
    for (_, shade, _), value in zip(spans, saliency):
        assert abs(int(shade) - 9 * (value - min(saliency)) / (max(saliency) - min(saliency))) < 0.52
    lines = [int(line or 0) for _, _, line in spans]
    assert [line > 0 for line in lines] == [share >= 0.02 for share in copied] and any(lines)
    assert lines[copied.index(max(copied))] == max(lines)


@pytest.mark.parametrize(
    "options,says,says_not",
    [
        ({}, ["saliency, mean over", "underlined", "Focus: centre", "p_gen"], ["This model has no"]),
        ({"gate": None}, ["attention, sum over"], ['value="saliency"', "k-selected"]),
        ({"pointer": "none"}, ["no pointer: it cannot copy"], ["underlined</span>", "p_gen</th>", "k-copy"]),
        ({"focus": False}, ["This model has no focus-attention"], ['id="heads"', "k-focus"]),
    ],
)
def test_it_shows_what_the_model_has_and_says_what_it_has_not(options, says, says_not):
    body = made_up(WORDS, ["yak"], **options).to_html().split("<main>")[1].split("</main>")[0]
    assert all(text in body for text in says) and not any(text in body for text in says_not)


def test_an_empty_document_has_a_page():
    empty = Explanation(" \n", (), 0, "", (), 0.0, "etads", "none", None, None, None, None, None)
    assert "has read nothing" in parsed(empty).text["body"]


def test_nothing_of_a_document_is_more_than_text():
    words = HOSTILE.split(" ")
    explanation = made_up(words, ["<b>!", "</script>!", "\u202ex!", "\ud800!", "${x}!"])
    text = explanation.to_html(HOSTILE)
    text.encode("utf-8")
    found, plain = Page(text), parsed(made_up(["w"] * len(words), ["a"] * 5), "a")
    kinds = [{tag: [t for t, _ in p.elements].count(tag) for tag, _ in p.elements} for p in (found, plain)]
    assert kinds[0] == kinds[1], "the same elements as of a harmless document"
    assert not [a for _, a in found.elements for name in a if name.startswith("on") or name in ("style", "src", "href")]
    assert "<script>document" in found.text["document"] and "&amp;" in found.text["document"]
    assert "[U+202E]esrever" in found.text["document"] and "nul[U+0000]nul" in found.text["document"]
    assert "[U+D800]" in found.text["document"] and "😀 👩\u200d👩\u200d👧 e\u0301" in found.text["document"]
    assert not re.search("[\0\u202a-\u202e\u2066-\u2069\u2028\ud800-\udfff]", text)
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert not re.search(r"[<>&\u2028]", data) and not any(word in data for word in ("esrever", "caught"))
    assert json.loads(data)["length"] == len(words) + 1
    value = {"</script><!--": "\u2028 & ]]>", "n": [1.5, None]}
    assert not set("<>&\u2028") & set(format_embedded_json(value)) and json.loads(format_embedded_json(value)) == value


def test_the_policy_allows_the_page_s_own_style_and_script_alone():
    text = made_up(WORDS, ["yak"]).to_html()
    found = Page(text)
    (style,) = re.findall("<style>(.*?)</style>", text, re.DOTALL)
    (script,) = re.findall("<script>(.*?)</script>", text, re.DOTALL)
    hashes = [
        "'sha256-" + base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() + "'" for part in (style, script)
    ]
    assert found.policy == (
        f"default-src 'none'; style-src {hashes[0]}; script-src {hashes[1]}; base-uri 'none'; form-action 'none'"
    )
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), "an address that something could be loaded from"
    assert text == made_up(WORDS, ["yak"]).to_html(), "the same every time"


def test_a_notebook_shows_it_in_a_frame_that_cannot_reach_out():
    explanation = made_up(HOSTILE.split(" "), ["yak"])
    text = explanation._repr_html_()
    found = Page(text)
    ((tag, attributes),) = found.elements
    assert tag == "iframe" and attributes["sandbox"] == "allow-scripts"
    assert attributes["srcdoc"] == explanation.to_html() and make_frame(explanation.to_dict()) == text


def test_the_index_links_to_pages():
    text = make_index_page([("0001.html", '<a> "b"', "</td>x"), ("a b.html", "n", "s")])
    assert [a["href"] for tag, a in Page(text).elements if tag == "a"] == ["0001.html", "a%20b.html"]
    assert html.escape('<a> "b"') in text and "</td>x" not in text


def test_data_kept_as_json_makes_the_same_page():
    explanation = made_up(WORDS, ["yak"])
    assert make_page(json.loads(explanation.to_json()), "t") == explanation.to_html("t")


def test_tokens_without_a_place_and_overlapping_ones_are_shown_once():
    explanation = made_up(["½", "bcd"], ["bcd"])
    data = explanation.to_dict()
    half = {"text": "1", "start": 0, "end": 1, "known": True}
    data["source"][:1] = [half, {**half, "text": "2"}, {"text": "<q>", "start": None, "end": None, "known": True}]
    data["source"][3:4] = [{**half, "start": 2, "end": 4}, {**half, "start": 3, "end": 5}]
    invisible = {"text": "\u202e", "start": None, "end": None, "known": False}
    data["source"][5:5] = [invisible]
    data["document"] += " \u202e"
    for name in ("coverage", "copy_coverage", "saliency_of_source"):
        data[name] += [0.0, 0.0, 0.0, 0.0]
    found = Page(make_page(data))
    assert found.tokens == ["½", "2", "<q>", "bc", "d", "[U+202E]", "end"]
    assert found.text["document"] == "½2<q> bcd [U+202E] end", "once, though its characters could not be told"
