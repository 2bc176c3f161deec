"""Model folders with a content model: which sentences summaries have, where they are from, and damaged files."""

import json
import pickle
import random
import re
import shutil
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from folders import DECODING, TEXT
from selection_data import content_model, made_text
from test_long_documents import LONG, make_long_folder, source_of, source_of_extractor

from fairseq_etads import Summarizer
from fairseq_etads.commands.export import main as export_command
from fairseq_etads.platform.errors import InputError
from fairseq_etads.search import content_model as content_module
from fairseq_etads.search.content_model import FILE, ContentModel, NgramPriorProbabilities
from fairseq_etads.summarizer.encoded_documents import EncodedDocuments
from fairseq_etads.summarizer.folder.export import export_folder

TEXTS = [LONG, "W5 w6. W7 new w9.", "", LONG[:500], "W1 W2 W3 w4 W5. W6 w7 w8 w9 w10. W11 W12 w3."]


def make_folders(path):
    """Runs of a summariser and an extractor, and the folder of both, with a content model."""
    make_long_folder(path)
    content_model(path / "extractor" / FILE)
    extractor = source_of_extractor(path / "extractor", "picking.json", FILE)
    decoding = {name: value for name, value in DECODING.items() if name != "beam"}
    export_folder(source_of(path / "run", TEXT, None, extractor), path / "chosen", decoding)
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_folders(tmp_path_factory.mktemp("chosen"))


@pytest.fixture(scope="module")
def summarizer(made):
    return Summarizer.load(made / "chosen", device="cpu")


def test_a_folder_with_a_content_model_uses_it(summarizer):
    assert (summarizer.config.decoding["choose"], summarizer.config.decoding["beam"]) == ("content", 12)
    summary = summarizer.summarize(LONG)
    assert [one.text for one in summary.chosen] == [one.lower() for one in summary.sentences]
    assert all(one in LONG for one in summary.sentences if LONG.lower().count(one.lower()))  # spelled as there
    assert summary.text == " ".join(summary.sentences).lower() and summary.tokens == tuple(summary.text.split())
    assert summary == summarizer.summarize(LONG, choose="content")
    assert summary.explain().chosen == summary.chosen
    record = json.loads(json.dumps(summary.to_dict()))["chosen"]
    assert [one["text"] for one in record] == [one.lower() for one in summary.sentences]
    assert len(summary.text.split()) <= 1.15 * 12 + 4 * len(summary.sentences)
    short = summarizer.summarize(LONG, choose_words=6)
    assert sum(len(re.findall("[a-z0-9]+", one)) for one in short.sentences) <= 6 < len(summary.tokens)


def test_sentences_of_the_document_are_found_there_and_their_words_count_as_copied(summarizer):
    origins = set()
    for text in filter(None, TEXTS):
        summary = summarizer.summarize(text)
        first = 0
        for sentence in summary.chosen:
            origins.add(sentence.source)
            count = len(sentence.text.split())
            copied = [word for word in summary.copied if first <= word.first < first + count]
            if sentence.source == "document":
                assert text[sentence.start : sentence.end].lower() == sentence.text
                assert [word.word for word in copied] == sentence.text.split()
                assert sentence.start <= copied[0].start and copied[-1].end <= sentence.end
            else:
                assert (sentence.number, sentence.start, sentence.end) == (None, None, None)
            for word in copied:
                assert summary.tokens[word.first : word.last + 1] == (word.word,)
                assert text[word.start : word.end].lower() == word.word
            first += count
    assert origins == {"document", "model"}


def test_turned_off_it_is_a_plain_search_and_options_without_effect_are_refused(made, summarizer):
    plain = Summarizer.load(made / "model", device="cpu")
    assert plain.supported_choose_values == ["none"] and "choose" not in plain.config.decoding
    for text in TEXTS:
        summary = summarizer.summarize(text, choose="none")
        assert summary == plain.summarize(text, beam=5) and summary.chosen is None
    assert summarizer.summarize(LONG, choose="none", beam=3) == plain.summarize(LONG)
    with pytest.raises(InputError, match=r"--choose content: .* has no content model"):
        plain.summarize(LONG, choose="content")
    for options in ({"max_len": 3}, {"choose": "none", "choose_words": 9}, {"readability": 1.0}):
        with pytest.raises(InputError, match="has no effect"):
            summarizer.summarize(LONG, **options)


def test_the_batch_changes_nothing(summarizer):
    together = summarizer.summarize(TEXTS)
    assert together == [summarizer.summarize(text) for text in TEXTS]
    assert together == list(summarizer.stream(TEXTS, read_ahead=2)) == summarizer.summarize(TEXTS, max_tokens=1)
    assert together[2].text == "" and together[2].chosen is None
    assert pickle.loads(pickle.dumps(summarizer)).summarize(TEXTS[4]) == together[4]
    encoded = EncodedDocuments(summarizer, TEXTS)
    assert [one.chosen for one in encoded.summarize()] == [one.chosen for one in together]
    steps = []
    assert summarizer.summarize(TEXTS[4], on_step=steps.append) == together[4] and steps
    assert all(summarizer.summarize(TEXTS[4], beam=beam).chosen for beam in (1, 5, 9)), "in groups of any size"


def test_a_document_without_words_to_compare_has_the_best_hypothesis(summarizer, monkeypatch):
    """Stems are letters and digits, so a document of other characters has none."""
    summary = summarizer.summarize("… — … . – ! …")
    assert summary.problem == "" and summary.truncation.read > 0
    assert all(sentence.source == "model" for sentence in summary.chosen or ())
    monkeypatch.setattr("fairseq_etads.search.content_model.stem_words", lambda words, tokens: [])
    summary = summarizer.summarize(LONG)
    assert summary.chosen is None and summary.tokens


@pytest.mark.parametrize("choose", ["content", "extract", "none"])
def test_limits_hold_or_the_problem_says_why_not(summarizer, choose):
    found = summarizer.summarize(LONG, choose=choose, sentences=2, words=9)
    assert 0 < len(found.sentences) <= 2 and len(" ".join(found.sentences).split()) <= 9
    for text in ("w5", "nowhere"):
        found = summarizer.summarize(LONG, choose=choose, must_include=text)
        assert text in (found.text or found.problem) and (text == "w5" or found.problem)


@pytest.fixture(scope="module")
def extractor_alone(made, tmp_path_factory):
    """A model folder of an extractor with its content model."""
    path, run = tmp_path_factory.mktemp("alone") / "folder", made / "extractor"
    extractor = source_of_extractor(run, "picking.json", FILE)
    export_folder(extractor._replace(extra_files={}, extractor=extractor), path, {})
    return path


def test_extracts_are_sentences_of_the_document_as_it_spells_them(summarizer, extractor_alone):
    """A summariser's folder and the folder of an extractor alone choose them, for each document in the same way."""
    alone = Summarizer.load(extractor_alone, "cpu")
    assert alone.config.decoding["choose"] == "extract" and not (extractor_alone / "extractor").exists()
    together = alone.summarize(TEXTS)
    each = [alone.summarize(text) for text in TEXTS]
    assert [replace(one, score=0.0) for one in each] == [replace(one, score=0.0) for one in together]
    assert [one.score for one in each] == pytest.approx([one.score for one in together])
    for text, summary in zip(TEXTS, together):
        assert [text[one.start : one.end] for one in summary.chosen or ()] == list(summary.sentences)
        assert [word.word for word in summary.copied] == [token for token in summary.tokens if token != "<q>"]
        assert bool(summary.chosen) == bool(text)
    of_both = summarizer.summarize(TEXTS, choose="extract")
    assert [one.chosen for one in of_both] == [one.chosen for one in together]
    assert next(iter(alone.stream(TEXTS, copied=False))).copied == ()
    explanation = alone.explain(LONG)
    assert explanation.chosen == together[0].chosen and not explanation.tokens and "<html" in explanation.to_html()
    with pytest.raises(InputError, match=r"--choose none: .*choose extract"):
        alone.summarize(LONG, choose="none")
    with pytest.raises(InputError, match="whole sentences"):
        alone.explain(LONG, summary="w1 w2")
    text = "W1 w2 w3 w4 w5 w6. W7 w8 w9 w10 w11 w12. But w1 w2 w3 w7 w8 w9."
    assert "But" in " ".join(alone.summarize(text, choose_words=7).sentences)
    assert "But" not in " ".join(alone.summarize(text, choose_words=7, readability=9.0).sentences)


def test_export_takes_the_content_model_of_the_extractor(tmp_path, capsys):
    make_folders(tmp_path)
    run, extractor, elsewhere = (tmp_path / name for name in ("run", "extractor", "elsewhere"))

    def export(name, *options):
        assert export_command([str(run), str(tmp_path / name), "--extractor", str(extractor), *options]) == 0
        return Summarizer.load(tmp_path / name, "cpu")

    def refuse(words, *options):
        assert export_command([str(run), str(tmp_path / "refused"), "--extractor", str(extractor), *options]) == 2
        assert words in capsys.readouterr().err

    summarizer = export("a", "--choose-words", "20")
    assert summarizer.config.decoding["choose_words"] == 20 and summarizer.summarize(LONG).chosen
    summarizer = export("b", "--choose", "none")
    assert (summarizer.config.decoding["choose"], summarizer.config.decoding["beam"]) == ("none", 5)
    assert summarizer.summarize(LONG).chosen is None and summarizer.summarize(LONG, choose="content").chosen
    assert export("c", "--content", "none").supported_choose_values == ["none"]
    refuse("--choose content: needs a content model", "--content", "none", "--choose", "content")
    refuse(f"--content {run}: it has no content.npz", "--content", str(run))
    refuse("this content model needs", "--extractor", "none", "--content", str(extractor))
    elsewhere.mkdir()
    (extractor / FILE).rename(elsewhere / FILE)
    assert export("d", "--content", str(elsewhere)).supported_choose_values != ["none"]


def store_again(path, name, array=None):
    """Write a content model again with another array, or without it."""
    with np.load(path) as stored:
        arrays = {**stored, name: array}
    np.savez_compressed(path, **{name: array for name, array in arrays.items() if array is not None})


def add_member(path, content, method=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "a", method) as archive:
        archive.writestr("odd.npy", content)


def header(shape, dtype="'<f4'"):
    text = f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


DAMAGE = {
    "pickle": lambda path: store_again(path, "grams", np.array([{}], dtype=object)),
    "missing": lambda path: store_again(path, "counts"),
    "widths": lambda path: store_again(path, "weight.1.1", np.zeros((3, 9), dtype="float32")),
    "infinite": lambda path: store_again(path, "bias.1.0", np.full(4, np.inf, dtype="float32")),
    "shape": lambda path: add_member(path, header((1 << 40,))),
    "objects": lambda path: add_member(path, header((1,), "'|O'") + b"\0" * 8),
    "other method": lambda path: add_member(path, header((0,)), zipfile.ZIP_BZIP2),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_content_model_is_refused(made, tmp_path, damage):
    shutil.copy(made / "extractor" / FILE, tmp_path)
    DAMAGE[damage](tmp_path / FILE)
    with pytest.raises(InputError, match=r"content\.npz is damaged"):
        ContentModel.load(tmp_path / FILE, "")


def test_a_small_file_that_becomes_large_is_refused_before_it_is_read(made, tmp_path, monkeypatch):
    path = tmp_path / FILE
    shutil.copy(made / "extractor" / FILE, path)
    monkeypatch.setattr(content_module, "_MOST_BYTES", 1 << 16)
    ContentModel.load(path, "")
    add_member(path, header((1 << 16,)) + b"\0" * (1 << 18))
    assert path.stat().st_size < 1 << 14
    with pytest.raises(InputError, match=r"its arrays are larger than 65,536 bytes"):
        ContentModel.load(path, "")
    # A header that declares fewer bytes than follow: no more than these are decompressed.
    path.write_bytes(path.read_bytes().replace((1 << 18).to_bytes(4, "little"), (1 << 10).to_bytes(4, "little")))
    with pytest.raises(InputError, match=r"content\.npz is damaged"):
        ContentModel.load(path, "")


def test_the_rarest_items_are_left_out_of_a_large_model(made, tmp_path, monkeypatch):
    r = random.Random(1)
    pairs = [(made_text(r, 6), made_text(r, 2)) for _ in range(40)]
    priors = NgramPriorProbabilities.from_pairs(iter(pairs))
    large = ContentModel.load(made / "extractor" / FILE, "")._replace(priors=priors)
    everything = priors.keep_frequent_ngrams(content_module.LEAST_DOCUMENTS).counts
    assert large.get_stored_counts() == everything and len(everything) > 20
    monkeypatch.setattr(content_module, "MOST_STORED", 7)
    large.save(tmp_path / FILE)
    kept = ContentModel.load(tmp_path / FILE, "").priors.counts
    assert len(kept) == 7 and set(kept) <= set(everything)
    assert min(row[0] for row in kept.values()) >= sorted(row[0] for row in everything.values())[-7]
    monkeypatch.setattr(content_module, "MOST_TEXT", 9)
    assert 1 <= len(large.get_stored_counts()) < 7
