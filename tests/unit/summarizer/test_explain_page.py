"""The file of an explanation's page: one text that is only text, a policy, and frames and lists of pages."""

import base64
import hashlib
import html
import json
import re
from html.parser import HTMLParser

from explanations import HOSTILE, made_up

from fairseq_etads.summarizer.explanation import format_embedded_json, make_index_page, make_page

WORDS = ["The", "Zebra", "saw", "a", "yak", ",", "and", "the", "yak", "saw", "it", "."]


class Page(HTMLParser):
    """The elements of a page, and its text by element."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.open, self.text, self.policy = [], [], {}, ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.elements.append((tag, attributes))
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]
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
    explanation = made_up(WORDS, ["zebra", "yak"], left_out=3)
    found = Page(explanation.to_html("a.txt"))
    assert not found.open, "every element is closed"
    assert found.text["document"] == explanation.document and found.text["summary"] == "zebra yak"
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
    value = {"</script><!--": "\u2028 & ]]>", "n": [1.5, None]}
    assert not set("<>&\u2028") & set(format_embedded_json(value)) and json.loads(format_embedded_json(value)) == value


def test_the_policy_allows_the_page_s_own_style_and_script_alone():
    text = made_up(WORDS, ["yak"]).to_html()
    hashes = []
    for part in ("style", "script"):
        (content,) = re.findall(f"<{part}>(.*?)</{part}>", text, re.DOTALL)
        hashes.append(f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'")
    assert Page(text).policy == (
        f"default-src 'none'; style-src {hashes[0]}; script-src {hashes[1]}; base-uri 'none'; form-action 'none'"
    )
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text), "an address that something could be loaded from"


def test_a_notebook_shows_it_in_a_frame_that_cannot_reach_out():
    explanation = made_up(HOSTILE.split(" "), ["yak"])
    text = explanation._repr_html_()
    ((tag, attributes),) = Page(text).elements
    assert tag == "iframe" and attributes["sandbox"] == "allow-scripts"
    assert attributes["srcdoc"] == explanation.to_html()


def test_the_index_links_to_pages():
    text = make_index_page([("0001.html", '<a> "b"', "</td>x"), ("a b.html", "n", "s")])
    assert [a["href"] for tag, a in Page(text).elements if tag == "a"] == ["0001.html", "a%20b.html"]
    assert html.escape('<a> "b"') in text and "</td>x" not in text
