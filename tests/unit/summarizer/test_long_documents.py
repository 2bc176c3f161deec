"""Model folders with an extractor: picked, read and displayed parts of long documents; damaged folders."""

import json
import shutil

import pytest
import torch
from folders import DECODING, TEXT, make_run, save_checkpoint, save_data
from helpers import make_dictionary, make_task, model_config

from fairseq_etads import Summarizer
from fairseq_etads.commands.export import main as export_command
from fairseq_etads.commands.summarize import main as summarize_command
from fairseq_etads.files.checksums import Checksums
from fairseq_etads.platform.errors import InputError
from fairseq_etads.summarizer.folder.export import export_folder
from fairseq_etads.summarizer.folder.model_card import set_decoding_defaults
from fairseq_etads.summarizer.folder.run_files import RunFiles
from fairseq_etads.text.cleaning import join_to_one_line
from fairseq_etads.text.picking import SentencePickingSettings, pick_sentences
from fairseq_etads.text.words import split_sentences

SIZES = {"encoder_embed_dim": 6, "encoder_hidden_size": 4, "sentence_place_dim": 2}
LONG = "\n".join(
    " ".join(f"W{(7 * p + 3 * s + k) % 40} w{k} New{p} x{s}." for s in range(8) for k in range(p % 3 + 1))
    for p in range(60)
)
LEVELS = 4


def extractor_run(path, budget=30):
    """A run, with picking.json, of a pooled extractor with clear preferences."""
    task = make_task(100_000, 1, tail=2, mark=True)
    options = model_config("pooled_extractor", **SIZES)
    torch.manual_seed(2)
    model = task.build_model(options)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    save_data(path / "prepared", task, source_marks=True)
    (path / "checkpoints").mkdir()
    save_checkpoint(path / "checkpoints" / "checkpoint_best.pt", model, options, task)
    (path / "picking.json").write_text(SentencePickingSettings(budget, (0.1, 0.5, 0.9)).to_json())
    return model


def source_of(run, text, extra=None, extractor=None):
    checkpoint = run / "checkpoints" / "checkpoint_best.pt"
    return RunFiles(checkpoint, run / "prepared" / "bin", text, extra or {}, extractor)


def source_of_extractor(run, *names):
    """An extractor's run with further files of these names."""
    return source_of(run, {**TEXT, "text-sentence-marks": "insert"}, {name: run / name for name in names})


def make_long_folder(path, factors=True, budget=30):
    task = make_task(60, 20, tail=3)
    data = path / "run" / "prepared" / "bin"
    data.mkdir(parents=True)
    if factors:
        values = make_dictionary(words=0)
        for level in range(1, LEVELS + 1):
            values.add_symbol(str(level), n=9 - level)
        task.factor_dictionaries = {"salience": values}
        (data / "factors.json").write_text('{"factors": ["salience"]}')
        values.save(str(data / "dict.factor-salience.txt"))
    make_run(path / "run", task=task, pointer="soft", **({"source_factors": "salience"} if factors else {}))
    extractor_run(path / "extractor", budget)
    extractor = source_of_extractor(path / "extractor", "picking.json")
    export_folder(source_of(path / "run", TEXT, None, extractor), path / "model", DECODING)
    return path / "model"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_long_folder(tmp_path_factory.mktemp("long"))


@pytest.fixture(scope="module")
def summarizer(folder):
    return Summarizer.load(folder, device="cpu")


def test_a_long_document_is_read_whole(summarizer):
    summary = summarizer.summarize(LONG)
    sentences = split_sentences(" ".join(LONG.split()))
    assert summary.picked.words == len(LONG.split()) > 2000 and summary.picked.total == len(sentences) > 400
    numbers = [picked.number for picked in summary.picked.sentences]
    assert numbers == sorted(numbers) and max(numbers) > 100, "also what is far behind the first sixty tokens"
    assert summary.truncation.left_out == 0 and summary.truncation.read <= 30
    picker = summarizer._texts.picker
    (every,) = picker.rate([picker.split(LONG, join_to_one_line(LONG))])
    probabilities = [one.probability for one in every]
    assert [one.text for one in every] == sentences and len(set(probabilities)) > 100
    assert numbers == pick_sentences([len(text.split()) for text in sentences], probabilities, 30)
    for picked in summary.picked.sentences:
        assert picked.text == sentences[picked.number] == LONG[picked.start : picked.end]
        assert picked.probability == pytest.approx(probabilities[picked.number])
    copied = [LONG[word.start : word.end].lower() for word in summary.copied]
    assert copied == [word.word for word in summary.copied] != []
    for word in summary.copied:
        assert any(one.start <= word.start and word.end <= one.end for one in summary.picked.sentences)


def test_probabilities_are_those_of_the_checkpoint(tmp_path, summarizer):
    """Words are read by their ids in the dictionary, and unknown words differ from one another."""
    model = extractor_run(tmp_path / "again").eval()
    words = make_task(mark=True).source_dictionary
    line = "w1 w2 . <q> other w3 other <q> w4 thing ."
    ids = [words.index(word) if word in words else {".": 44, "other": 45, "thing": 46}[word] for word in line.split()]
    with torch.no_grad():
        expected = model(torch.tensor([[*ids, words.eos()]])).logits.sigmoid()[0]
    picker = summarizer._texts.picker
    (every,) = picker.rate([picker.split("", line)])
    assert [one.probability for one in every] == pytest.approx(expected.tolist(), rel=1e-5)


def test_tokens_carry_the_level_of_their_sentence(summarizer):
    texts = summarizer._texts
    document = texts.tokenize_document(0, LONG)
    picked = document.picked.sentences
    expected = [level for one, level in zip(picked, document.levels) for _ in one.text.split()]
    assert document.levels == tuple(str(1 + sum(one.probability >= e for e in (0.1, 0.5, 0.9))) for one in picked)
    assert len(set(document.levels)) > 1, "different levels were tried"
    short = texts.tokenize_document(1, "W5 new.")
    factors = texts.make_batch([short, document]).sample["net_input"]["factors"]
    values = texts._levels
    assert [values[number] for number in factors[1, :, 0].tolist()] == [*expected, values.eos_word]
    row = [values[number] for number in factors[0, :, 0].tolist() if number != values.pad()]
    assert row == [*[short.levels[0]] * 2, values.eos_word]


def test_records_and_explanations_show_what_was_picked(summarizer):
    summary = summarizer.summarize(LONG)
    record = json.loads(json.dumps(summary.to_dict()))
    assert [s["number"] for s in record["picked"]["sentences"]] == [s.number for s in summary.picked.sentences]
    explanation = summary.explain()
    assert explanation.picked == summary.picked and explanation.document == LONG
    assert all(LONG[token.start : token.end].lower() == token.text for token in explanation.source[:-1])
    assert explanation.to_dict()["picked"] == record["picked"]


def test_without_factors_picked_sentences_are_read_too_and_the_command_says_if_they_are_cut(tmp_path, capsys):
    folder = make_long_folder(tmp_path, factors=False, budget=100)
    (tmp_path / "long.txt").write_text(LONG)
    summarize_command([str(folder), str(tmp_path / "long.txt"), "--device", "cpu"])
    said = capsys.readouterr().err
    assert "selections of the extractor truncated to their first 60 tokens: 1" in said
    assert "documents truncated" not in said and "--long" not in said


def test_all_tokens_are_counted_and_short_documents_are_read_whole(summarizer):
    assert summarizer.summarize("").picked is None
    short = summarizer.summarize("W5 w6. W7 new w9.").picked
    assert len(short.sentences) == short.total == 2
    text = " ".join(f"w{number % 9} w1 w2 w3 w4 w5 w6." for number in range(40))
    assert summarizer.summarize(text).truncation.read < 100
    assert summarizer.token_count(text) == 2 * summarizer.token_count(text[: len(text) // 2]) > 200


def test_new_defaults_list_the_extractor_although_the_list_was_lost(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    listed = Checksums(tmp_path / "copy").listed
    (tmp_path / "copy" / "SHA256SUMS").unlink()
    set_decoding_defaults(tmp_path / "copy", Summarizer.load(folder, "cpu").config.decoding, "a note")
    assert Checksums(tmp_path / "copy").listed.keys() == listed.keys()
    Summarizer.load(tmp_path / "copy", "cpu")


@pytest.mark.parametrize(
    "name, content, words",
    [
        ("SHA256SUMS", None, "is incomplete: it has no extractor/SHA256SUMS"),
        ("SHA256SUMS", "0" * 64 + "  config.json\n", "SHA256SUMS is damaged or was changed"),
        ("picking.json", '{"words": 5, "edges": []}', "picking.json is damaged"),
        ("picking.json", '{"words": 40, "edges": [0.1, 0.5, 0.9]}', "picking.json is damaged or was changed"),
        ("model.safetensors", None, "model.safetensors"),
    ],
)
def test_a_folder_that_is_not_whole_is_refused(folder, tmp_path, name, content, words):
    shutil.copytree(folder, tmp_path / "copy")
    path = tmp_path / "copy" / "extractor" / name
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(InputError, match=words):
        Summarizer.load(tmp_path / "copy")


def test_a_summariser_is_no_extractor_and_needs_one(tmp_path):
    folder = make_long_folder(tmp_path)
    own = source_of(tmp_path / "run", TEXT)
    with pytest.raises(InputError, match="name its run with --extractor"):
        export_folder(own, tmp_path / "a", DECODING)
    with pytest.raises(InputError, match=r"--extractor .*checkpoint_best.pt: not a sentence extractor"):
        export_folder(own._replace(extractor=own), tmp_path / "b", DECODING)
    for name in ("SHA256SUMS", "extractor/SHA256SUMS"):
        (folder / name).unlink()
    config = folder / "extractor" / "config.json"
    config.write_text(config.read_text().replace('"pooled_extractor"', '"etads"'))
    with pytest.raises(InputError, match='"etads" is not an extractor architecture'):
        Summarizer.load(folder)


def test_the_command_takes_the_extractor_that_is_with_the_run(tmp_path, capsys):
    make_long_folder(tmp_path)
    run, shared, other = (tmp_path / name for name in ("run", "shared", "other"))

    def export(*arguments):
        return export_command([*map(str, arguments), str(tmp_path / "exported")])

    assert export(run) == 2 and "name its run with --extractor" in capsys.readouterr().err, "it is elsewhere"
    (run / "shortened").mkdir()
    (tmp_path / "extractor").rename(run / "shortened" / "extractor")
    assert export("--extractor", "none", run) == 2 and "name its run with --extractor" in capsys.readouterr().err
    assert export(run) == 0 and Summarizer.load(tmp_path / "exported", "cpu").picks_sentences
    shutil.rmtree(tmp_path / "exported")
    run.rename(shared)
    (other / "checkpoints").mkdir(parents=True)
    shutil.copy(shared / "checkpoints" / "checkpoint_best.pt", other / "checkpoints")
    assert export("--prepared", shared / "prepared", other) == 0
    assert Summarizer.load(tmp_path / "exported", "cpu").picks_sentences
