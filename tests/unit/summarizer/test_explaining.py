"""Explanations: exact for what was written, by loops over the equations; their page in a browser is only text."""

import base64
import copy
import gc
import hashlib
import html
import json
import math
import pickle
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import reference
import torch
from explanations import HOSTILE, made_up
from folders import make_folder

from fairseq_etads.layers.attention_probe import AttentionRecord
from fairseq_etads.platform.errors import InputError
from fairseq_etads.summarizer import ChosenSentence, Explanation, PickedSentence, Selection, Summarizer, SummaryToken
from fairseq_etads.summarizer.explanation import make_index_page, make_page
from fairseq_etads.summarizer.folder.config import BUNDLED
from fairseq_etads.summarizer.surprisal import Surprisal

TEXT = "W5 w6 w7 Zebra yak w20 w21 w22 w23 w5 w6 w7"
RUNS = [
    ({"pointer": "soft"}, ("soft", "sigmoid", [1, 2], [(1, False), (2, False)])),
    ({"pointer": "switch", "target_words": 30, "pointer_continue": True}, None),
    ({"arch": "etads_focus", "focus_strength": "learned", "focus_layers": "2"}, ("none", None, [], [(2, True)])),
    ({"arch": "etads_saliency", "saliency_gate": "open", "saliency_layers": "2"}, ("none", "open", [2], [])),
    ({"arch": "gated_es_transformer", "pointer": "soft"}, None),
    ({"arch": "aggregation_transformer"}, None),
    ({"arch": "etads_bart_base"}, None),
    ({"arch": "pg_coverage"}, ("soft", None, [], [])),
    ({"arch": "gru_seq2seq", "large_vocabulary_trick": 25, "pointer": "soft", "share_all_embeddings": True}, None),
    ({"arch": "words_lvt2k_hieratt", "mark": True}, None),
    ({"arch": "unified_summarizer", "paper_init": False, "mark": True}, None),
]
"""Options of a run, and what its explanations have: pointer, gate, layers with saliency, layers with focus and whether
these have learned strengths.
"""


@pytest.fixture(scope="module")
def summarizer(tmp_path_factory):
    return Summarizer.load(make_folder(tmp_path_factory.mktemp("made"), pointer="soft")[0], device="cpu")


def copied_word(explanation, token):
    """The characters of the document from which a token was copied."""
    found = explanation.source[token.copied_from]
    return explanation.document[found.start : found.end]


@pytest.mark.parametrize("run, has", RUNS, ids=["-".join(map(str, run.values())) for run, _ in RUNS])
def test_the_pass_gives_the_search_s_own_scores(run, has, tmp_path):
    """The sum of the tokens' log-probabilities is the hypothesis's score before it is divided by its length."""
    summarizer = Summarizer.load(make_folder(tmp_path, **run)[0], "cpu")
    for text in (TEXT, "w9", " ".join(f"w{n % 40} x{n}" for n in range(50))):
        summary = summarizer.summarize(text, min_len=3)
        found = summary.explain()
        assert found.tokens[-1].text == "</s>"
        # Untrained models write begin symbols again.
        written = [token for token in found.tokens if token.text not in ("<s>", "</s>")]
        assert found.log_probability == pytest.approx(summary.score * len(found.tokens), rel=1e-4, abs=1e-3)
        assert tuple(token.text for token in written) == summary.tokens
        assert found.summary == " ".join(summary.sentences) and found.score == summary.score
        assert found.left_out == summary.truncation.left_out
        assert len(found.source) == summary.truncation.read + 1
        copies = {place: word for word in summary.copied for place in range(word.first, word.last + 1)}
        assert [place for place, token in enumerate(written) if token.copied_from is not None] == sorted(copies)
        for place, word in copies.items():
            assert copied_word(found, written[place]) == text[word.start : word.end]
        check_sums(found)
    if has:
        saliency = [layer.layer for layer in found.saliency_layers]
        focus = [(layer.layer, layer.strengths is not None) for layer in found.focus_layers]
        assert (found.pointer, found.saliency_gate, saliency, focus) == has


def check_sums(found):
    """Properties of any explanation."""
    steps, length = len(found.tokens), len(found.source)
    for matrix in filter(None, (found.attention, found.copying)):
        assert (len(matrix), {*map(len, matrix)}) == (steps, {length})
        assert [sum(row) for row in matrix] == pytest.approx([1.0] * steps, abs=1e-5)
    assert found.coverage == pytest.approx([sum(column) for column in zip(*found.attention)], abs=1e-6)
    assert (found.copying is None) == (found.pointer == "none") == (found.tokens[0].p_gen is None)
    if found.copying is not None:
        shares = [[(1 - token.p_gen) * x for x in row] for token, row in zip(found.tokens, found.copying)]
        assert found.copy_coverage == pytest.approx([sum(column) for column in zip(*shares)], abs=1e-6)
        assert found.copying[0][-1] == 0, "the end symbol is never copied"
    assert (found.saliency is None) == (found.selected is None) == (not found.saliency_layers)
    assert (found.saliency_gate is None) == (found.saliency is None) == (found.saliency_of_source is None)
    for layer in found.focus_layers:
        assert {*map(len, [*layer.centers, *layer.scopes])} == {length} and len(layer.centers) == 4


def reports(monkeypatch, name):
    """A list of what attention modules report, layer by layer, to a method of their records."""
    found = []
    receive = getattr(AttentionRecord, name)
    monkeypatch.setattr(AttentionRecord, name, lambda self, *given: found.append(given) or receive(self, *given))
    return found


@pytest.mark.parametrize("form, most", [("sigmoid", 1), ("open", 2), ("normalised", 2)])
def test_saliency_is_the_gate_of_the_equations(form, most, tmp_path, monkeypatch):
    summarizer = Summarizer.load(make_folder(tmp_path, saliency_gate=form)[0], "cpu")
    if form != "sigmoid":
        for layer in summarizer._get_explainer()._model.decoder.layers:
            layer.encoder_attn.gate_slope.data.copy_(torch.tensor([0.5, -1.0, 2.0, 0.0]))
            layer.encoder_attn.gate_level.data.copy_(torch.tensor([0.1, -0.2, 0.0, 1.0]))
    layers = reports(monkeypatch, "receive_gate_inputs")
    found = summarizer.explain("w1 zebra w3", summary="w4 zebra")
    gates, selected = [], []  # of each head, (T, S)
    for (inputs,) in layers:
        levels = torch.zeros(4) if inputs.gate_level is None else inputs.gate_level.flatten()
        for q, k, gate_q, gate_k, level in zip(inputs.q[0], inputs.k[0], inputs.gate_q[0], inputs.gate_k[0], levels):
            gates.append(most * (gate_q @ gate_k.T + level).sigmoid())
            selected.append(reference.saliency_attention(q, k, torch.eye(len(k)), gate_q, gate_k, form, level)[0])
    gates = torch.stack(gates).unflatten(0, (2, 4))  # (layers, heads, T, S)
    for given, expected in (
        (found.saliency, gates.mean((0, 1))),
        (found.selected, torch.stack(selected).mean(0)),
        ([layer.gate for layer in found.saliency_layers], gates.mean((1, 2))),
        (found.saliency_of_source, gates.mean((0, 1, 2))),
    ):
        torch.testing.assert_close(torch.tensor(given), expected, atol=1e-4, rtol=0)
    assert max(found.saliency_of_source) - min(found.saliency_of_source) > 1e-3, "this model's gate tells words apart"


def test_focus_is_what_the_focal_network_predicts(summarizer, monkeypatch):
    model = summarizer._get_explainer()._model
    assert not {*summarizer._model.modules()} & {*model.modules()}, "observers are not in the search's model"
    layers = reports(monkeypatch, "receive_focus_parameters")
    found = summarizer.explain(TEXT)
    assert len(found.focus_layers) == len(layers)
    for layer, (center, scope, *_) in zip(found.focus_layers, layers):
        assert torch.tensor(layer.centers).equal(center[0]) and torch.tensor(layer.scopes).equal(scope[0])


def test_a_given_summary_is_explained_word_for_word(summarizer):
    found = summarizer.explain("Zebra w1 Yak", summary="Yak w1 nowhere")
    assert [token.text for token in found.tokens] == ["yak", "w1", "nowhere", "</s>"]
    assert found.score is None and found.summary == "Yak w1 nowhere"
    yak, w1, nowhere, end = found.tokens
    assert copied_word(found, yak) == "Yak" and yak.copied_share == 1.0, "the model does not know the word"
    assert 0 < w1.copied_share < 1 and nowhere.copied_from is None
    assert [token.replaces_unknown for token in found.tokens] == [False, False, True, False]
    assert [token.known for token in found.source] == [False, True, False, True]
    assert end.shown == "" and end.copied_from is None and found.source[-1].start is None
    elsewhere = summarizer.explain("Zebra w1 Yak", summary="yak w1 elsewhere").tokens[2]
    assert elsewhere.log_probability == nowhere.log_probability, "both are unknown"
    again = summarizer.summarize(TEXT)
    assert summarizer.explain(TEXT, summary=again.text).tokens == again.explain().tokens
    twice = summarizer.explain("yak w1 w2 yak w3 yak", summary="yak yak w1 yak")
    for step in (0, 1, 3):  # the place with most copy attention
        assert twice.tokens[step].copied_from == max((0, 3, 5), key=twice.copying[step].__getitem__)


def test_documents_without_words_impossible_tokens_and_strange_characters_are_json_too(summarizer):
    for text in ("", " \t\n\0 ", "<q>"):
        found = summarizer.explain(text)
        assert found.document == text and not found.source and not found.tokens and found.attention is None
        assert json.loads(found.to_json())["tokens"] == [] and found.pointer == "soft"
    token = SummaryToken("\ud800</script>\u2028", "x", True, -math.inf, 1.0, 0.0, None)
    found = Explanation("\0\u202e", (), 0, "", (token,), None, "a", "none", None, None, None, None, None)
    data = json.loads(found.to_json())
    assert data["tokens"][0]["probability"] == 0 and data["tokens"][0]["log_probability"] is None
    assert data["log_probability"] is None and found.to_json().isascii()


def test_wrong_arguments_are_refused(summarizer):
    for arguments, words in (
        ({"text": " \t", "summary": "w1"}, "the document has no words"),
        ({"summary": "w1 " * 21}, "--summary"),
        ({"summary": "w1", "beam": 2}, "--beam"),
    ):
        with pytest.raises(InputError, match=words):
            summarizer.explain(**{"text": TEXT, **arguments})


def test_a_summary_explains_itself_and_neither_a_copy_nor_a_failed_one(summarizer, tmp_path):
    (failed,) = summarizer.stream([3], errors="keep")
    with pytest.raises(ValueError, match="there is no summary to explain"):
        failed.explain()
    summary = Summarizer.load(make_folder(tmp_path, pointer="soft")[0], "cpu").summarize(TEXT)
    gc.collect()
    assert isinstance(summary.explain(), Explanation), "although nobody else keeps the summarizer"
    for other in (pickle.loads(pickle.dumps(summary)), copy.copy(summary), copy.deepcopy(summary)):
        assert other == summary and "_make_explanation" not in vars(other)
        with pytest.raises(ValueError, match=r"summarizer\.explain\(document, summary=summary\.text\)"):
            other.explain()


def test_json_is_rounded_and_says_what_it_left_out(summarizer):
    found = summarizer.explain(TEXT)
    data = json.loads(found.to_json())
    assert data == json.loads(json.dumps(found.to_dict())) and data["schema"] == 1
    assert data["least"] == 0.001 and (data["document"], data["summary"]) == (TEXT, found.summary)
    for name in ("attention", "copying", "selected"):
        for row, exact in zip(data[name], getattr(found, name)):
            assert dict(row) == {j: pytest.approx(x, abs=0.00005) for j, x in enumerate(exact) if x >= 0.001}
    assert data["coverage"] == pytest.approx(list(found.coverage), abs=0.0005), "of all weights"
    assert [token["copied_from"] for token in data["tokens"]] == [token.copied_from for token in found.tokens]
    assert all(len(row) == len(found.source) for row in json.loads(found.to_json(least=0))["attention"])


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
        assert (
            f"{token.probability:.2f}" in browser.find("#detail").text
            and f"{token.p_gen:.2f}:" in browser.find("#detail").text
        )
    browser.hover(browser.find("h1"))
    assert "of 4 tokens" in browser.find("#detail").text, "nothing is chosen any more"


def test_a_word_of_the_document_shows_who_looked_at_it(shown, explanation):
    browser = shown()
    place = max(range(len(WORDS)), key=lambda j: explanation.coverage[j])
    browser.hover(browser.find_all(".t")[place])
    assert matches(shades(browser, ".w"), [row[place] for row in explanation.attention])
    said = browser.find("#detail").text
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
    assert f"centre at token {center + 1:.1f}" in browser.find("#detail").text


def test_a_click_keeps_a_word_until_escape(shown):
    browser = shown()
    browser.find_all(".w")[1].click()
    browser.hover(browser.find_all(".t")[3])
    assert "document, 4 of 21" in browser.find("#detail").text
    browser.hover(browser.find("h1"))
    assert "summary, 2 of 4" in browser.find("#detail").text
    pressed = [word.get_attribute("aria-pressed") for word in browser.find_all(".w")]
    assert pressed == ["false", "true", "false", "false"]
    browser.press("Esc")
    assert "of 4 tokens" in browser.find("#detail").text


def test_a_hostile_document_is_text_and_an_empty_one_has_a_page(shown):
    empty = shown(Explanation(" \n", (), 0, "", (), 0.0, "etads", "none", None, None, None, None, None))
    assert "has read nothing" in empty.find("main").text
    browser = shown(made_up(HOSTILE.split(" "), ["<b>bold</b>", "</script>", "\u202eesrever"]))
    assert browser.driver.title.startswith("Why this summary") and "caught" not in browser.driver.title
    assert "<script>document.title='caught'</script>" in browser.find("#document").text
    browser.find_all(".w")[0].click()
    assert browser.find("#detail h3").text == "<b>bold</b>" and not browser.find_all("b:not(.head b)")
    browser.find_all(".t")[0].click()
    assert "<script>" in browser.find("#detail h3").text


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
    assert "Coverage" in browser.find("#detail").text and ("Copied" in browser.find("#detail").text) == (
        "pointer" not in options
    )
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
