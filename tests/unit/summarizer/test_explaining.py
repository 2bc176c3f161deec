"""Explanations: exact for what was written, aligned, equal to loops over the equations, for every family of models."""

import copy
import gc
import json
import math
import pickle

import pytest
import reference
import torch
from folders import make_folder

from fairseq_etads import Explanation, Summarizer
from fairseq_etads.layers.attention_probe import AttentionRecord
from fairseq_etads.platform.errors import InputError
from fairseq_etads.summarizer import SummaryToken

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
