"""Model folders with an extractor: picked, read and displayed parts of long documents; damaged folders."""

import json
import shutil

import pytest
import torch
from folders import DECODING, TEXT, make_run, save_checkpoint, save_data
from helpers import make_dictionary, make_task, model_config

from fairseq_etads import Summarizer
from fairseq_etads.commands.export import main as export_command
from fairseq_etads.data.labels import SentencePickingSettings, pick_sentences
from fairseq_etads.files.checksums import Checksums
from fairseq_etads.platform.errors import InputError
from fairseq_etads.summarizer.folder.export import export_folder
from fairseq_etads.summarizer.folder.model_card import set_decoding_defaults
from fairseq_etads.summarizer.folder.run_files import RunFiles
from fairseq_etads.text.documents import join_to_one_line
from fairseq_etads.text.words import split_sentences

SIZES = {"encoder_embed_dim": 6, "encoder_hidden_size": 4, "sentence_place_dim": 2}
LONG = "\n".join(
    " ".join(f"W{(7 * p + 3 * s + k) % 40} w{k} New{p} x{s}." for s in range(8) for k in range(p % 3 + 1))
    for p in range(60)
)
LEVELS = 4


def extractor_run(path):
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
    (path / "picking.json").write_text(SentencePickingSettings(30, (0.1, 0.5, 0.9)).to_json())
    return model


def source_of(run, text, extra=None, extractor=None):
    checkpoint = run / "checkpoints" / "checkpoint_best.pt"
    return RunFiles(checkpoint, run / "prepared" / "bin", text, extra or {}, extractor)


def source_of_extractor(run, *names):
    """An extractor's run with further files of these names."""
    return source_of(run, {**TEXT, "text-sentence-marks": "insert"}, {name: run / name for name in names})


def make_long_folder(path):
    task = make_task(60, 20, tail=3)
    data = path / "run" / "prepared" / "bin"
    data.mkdir(parents=True)
    values = make_dictionary(words=0)
    for level in range(1, LEVELS + 1):
        values.add_symbol(str(level), n=9 - level)
    task.factor_dictionaries = {"salience": values}
    (data / "factors.json").write_text('{"factors": ["salience"]}')
    values.save(str(data / "dict.factor-salience.txt"))
    make_run(path / "run", task=task, pointer="soft", source_factors="salience")
    extractor_run(path / "extractor")
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
    explanation = summary.explain()
    assert explanation.picked == summary.picked and explanation.document == LONG
    assert all(LONG[token.start : token.end].lower() == token.text for token in explanation.source[:-1])
    record = json.loads(json.dumps(summary.to_dict()))["picked"]
    assert record == json.loads(explanation.to_json())["picked"]
    assert [s["number"] for s in record["sentences"]] == [s.number for s in summary.picked.sentences]
    short = summarizer.summarize("W5 w6. W7 new w9.").picked
    assert len(short.sentences) == short.total == 2 and summarizer.summarize("").picked is None
    text = LONG.replace("\n", " ")
    assert summarizer.token_count(f"{text} {text}") == 2 * summarizer.token_count(text) > 2000


def test_new_defaults_list_the_extractor_although_the_list_was_lost(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    listed = Checksums(tmp_path / "copy").listed
    (tmp_path / "copy" / "SHA256SUMS").unlink()
    set_decoding_defaults(tmp_path / "copy", Summarizer.load(folder, "cpu").config.decoding, "a note")
    assert Checksums(tmp_path / "copy").listed.keys() == listed.keys()
    Summarizer.load(tmp_path / "copy", "cpu")


@pytest.mark.parametrize(
    "name, content",
    [
        ("SHA256SUMS", ""),
        ("SHA256SUMS", "0" * 64 + "  config.json\n"),
        ("picking.json", '{"words": 40, "edges": [0.1, 0.5, 0.9]}'),
        ("model.safetensors", ""),
    ],
)
def test_a_folder_that_is_not_whole_is_refused(folder, tmp_path, name, content):
    shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "copy" / "extractor" / name).write_text(content)
    with pytest.raises(InputError, match=rf"{name} (is damaged|does not list)"):
        Summarizer.load(tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "extractor")
    with pytest.raises(InputError, match="is incomplete: it has no extractor/SHA256SUMS"):
        Summarizer.load(tmp_path / "copy")


def test_the_command_takes_the_extractor_that_is_with_the_run_and_nothing_else(tmp_path, capsys):
    folder = make_long_folder(tmp_path)
    run, shared, other = (tmp_path / name for name in ("run", "shared", "other"))

    def refuse(words, *arguments):
        assert export_command([*map(str, arguments), str(tmp_path / "exported")]) == 2
        assert words in capsys.readouterr().err

    def export(*arguments):
        assert export_command([*map(str, arguments), str(tmp_path / "exported")]) == 0
        assert Summarizer.load(tmp_path / "exported", "cpu").picks_sentences
        shutil.rmtree(tmp_path / "exported")

    refuse("name its run with --extractor", run)  # it is elsewhere
    own = source_of(run, TEXT)
    with pytest.raises(InputError, match=r"--extractor .*checkpoint_best.pt: not a sentence extractor"):
        export_folder(own._replace(extractor=own), tmp_path / "exported", DECODING)
    (run / "shortened").mkdir()
    (tmp_path / "extractor").rename(run / "shortened" / "extractor")
    export(run)
    refuse("name its run with --extractor", "--extractor", "none", run)
    run.rename(shared)
    (other / "checkpoints").mkdir(parents=True)
    shutil.copy(shared / "checkpoints" / "checkpoint_best.pt", other / "checkpoints")
    export("--prepared", shared / "prepared", other)
    for name in ("SHA256SUMS", "extractor/SHA256SUMS"):
        (folder / name).unlink()
    config = folder / "extractor" / "config.json"
    config.write_text(config.read_text().replace('"pooled_extractor"', '"etads"'))
    with pytest.raises(InputError, match='"etads" is not an extractor architecture'):
        Summarizer.load(folder)
