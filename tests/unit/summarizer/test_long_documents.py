"""Model folders with an extractor: parts of long documents that are read, and how much a document surprises."""

import json
import math
import shutil

import pytest
import torch
from folders import DECODING, TEXT, make_folder, make_run, save_checkpoint, save_data
from helpers import make_dictionary, make_task, model_config
from selection_data import content_model

from fairseq_etads import Summarizer
from fairseq_etads.commands.export import main as export_command
from fairseq_etads.data.labels import SentencePickingSettings, pick_sentences
from fairseq_etads.files.checksums import Checksums
from fairseq_etads.platform.errors import InputError
from fairseq_etads.search.content_model import FILE
from fairseq_etads.search.lengths import are_percentiles
from fairseq_etads.summarizer.folder.export import export_folder
from fairseq_etads.summarizer.folder.model_card import set_decoding_defaults
from fairseq_etads.summarizer.folder.run_files import RunFiles
from fairseq_etads.summarizer.surprisal import (
    FEWEST,
    PERCENTS,
    SAMPLE,
    TrainingSurprisals,
    WordFrequencies,
    compute_surprisal_percentiles,
)
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


COUNTS = {"the": 60, "model": 30, "rare": 5}
TOTAL = 60 + 30 + 5 + 3 + 1
USUAL = " ".join(f"w{n % 7}" for n in range(20))
STRANGE = " ".join(f"strange{n}" for n in range(20))


def test_surprisal_is_the_mean_over_tokens_and_unknown_words_are_one():
    tokens = [*["the"] * 6, *["rare"] * 3, "<q>", "new"]
    bits, unknown = WordFrequencies(COUNTS).measure_surprisal(tokens)
    by_hand = (6 * math.log2(TOTAL / 61) + 3 * math.log2(TOTAL / 6) + math.log2(TOTAL)) / 10
    assert bits == pytest.approx(by_hand) and unknown == pytest.approx(0.1)
    total = sum(2 ** -WordFrequencies(COUNTS).measure_surprisal([word] * FEWEST)[0] for word in (*COUNTS, "unknown"))
    assert total == pytest.approx(1), "the probabilities of all words and the unknown one"
    assert WordFrequencies(COUNTS).measure_surprisal(["the"] * (FEWEST - 1) + ["<q>"]) is None, "too few words"


def test_percentiles_are_of_the_part_that_is_read_and_of_a_sample(tmp_path):
    frequencies = WordFrequencies(COUNTS)
    path = tmp_path / "train.source"
    lines = [" ".join(["the"] * (100 - share) + ["rare"] * share + ["unknown"] * 900) for share in range(101)]
    path.write_text("\n".join(lines) + "\n")
    found = compute_surprisal_percentiles(path, frequencies, 100)
    assert are_percentiles(json.loads(json.dumps(found)), PERCENTS, (int, float))
    for percent in PERCENTS:
        by_hand = ((100 - percent) * math.log2(TOTAL / 61) + percent * math.log2(TOTAL / 6)) / 100
        assert found[str(percent)] == pytest.approx(by_hand, abs=1e-4)
    path.write_text("the\n" * 50)
    assert compute_surprisal_percentiles(path, frequencies, 100) is None
    path.write_text((" ".join(["the"] * 20) + "\n" + " ".join(["rare"] * 20) + "\n") * SAMPLE)
    assert len(set(compute_surprisal_percentiles(path, frequencies, 100).values())) == 1, "every second line"


def test_a_document_is_placed_among_those_of_training():
    bits = dict(zip(map(str, PERCENTS), (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12)))
    surprisals = TrainingSurprisals(WordFrequencies({}), bits)
    percentiles = [surprisals.find_percentile(value) for value in (0.5, 1, 1.5, 5.5, 11, 12, 13)]
    assert percentiles == [0, 0, 0.5, 37.5, 99.5, 100, 100]
    level = TrainingSurprisals(WordFrequencies({}), dict.fromkeys(bits, 5))
    assert [level.find_percentile(value) for value in (4, 5, 6)] == [0, 0, 100]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model folder made from training documents with words of the dictionary."""
    path = tmp_path_factory.mktemp("usual")
    make_folder(path, pointer="soft")
    tokens = path / "train.source"
    tokens.write_text("".join(" ".join(f"w{(n * k) % 20}" for k in range(30)) + "\n" for n in range(1, 200)))
    export_folder(source_of(path / "run", TEXT)._replace(documents=tokens), path / "usual", {})
    return path


def test_summaries_and_explanations_have_it(made):
    summarizer = Summarizer.load(made / "usual", "cpu")
    usual, strange, short, empty = summarizer.summarize([USUAL, STRANGE, "w1 w2", ""])
    assert usual.surprisal.unknown == 0 and not usual.surprisal.is_unusual
    assert strange.surprisal.unknown == 1 and strange.surprisal.percentile == 100 and strange.surprisal.is_unusual
    assert short.surprisal is None and empty.surprisal is None
    assert strange.to_dict()["surprisal"]["percentile"] == 100 and "surprisal" not in short.to_dict()
    explanation = strange.explain()
    assert explanation.surprisal == strange.surprisal
    assert '"unusual":true' in explanation.to_html() and '"unusual":false' in usual.explain().to_html()
    without = Summarizer.load(made / "model", "cpu").summarize(STRANGE)
    assert without.surprisal is None and "surprisal" not in without.explain().to_dict()


def test_documents_of_which_sentences_are_chosen_are_compared_with_those_that_the_extractor_read(made, tmp_path):
    make_long_folder(tmp_path)
    content_model(tmp_path / "extractor" / FILE)
    (tmp_path / "strange.source").write_text(f"{STRANGE}\n")
    extractor = source_of_extractor(tmp_path / "extractor", "picking.json", FILE)
    extractor = extractor._replace(documents=tmp_path / "strange.source")
    source = source_of(tmp_path / "run", TEXT, None, extractor)._replace(documents=made / "train.source")
    export_folder(source, tmp_path / "both", {})
    summarizer = Summarizer.load(tmp_path / "both", "cpu")
    assert summarizer.summarize(STRANGE, choose="none").surprisal.is_unusual
    assert not summarizer.summarize(STRANGE, choose="extract").surprisal.is_unusual
