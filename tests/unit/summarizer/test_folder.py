"""Model folders and training runs: loading gives what was trained, and anything else is refused with a message."""

import itertools
import json
import math
import os
import pickle
import resource
import shutil
import struct

import pytest
import torch
from convolutional import SIZES as CONVOLUTIONAL
from folders import DECODING, make_folder, make_run, subword_text
from helpers import make_task
from safetensors.torch import load_file, save_file
from selection_data import write_subset
from test_run_commands import DOCUMENTS, SUMMARIES

from fairseq_etads import Summarizer
from fairseq_etads.commands.export import main as export
from fairseq_etads.commands.summarize import main as summarize
from fairseq_etads.data.labels import compute_source_hash, write_label_rows
from fairseq_etads.files.checksums import NAME as CHECKSUMS
from fairseq_etads.files.outputs import write_text
from fairseq_etads.files.shards import find_launched_shard
from fairseq_etads.platform.errors import InputError
from fairseq_etads.summarizer.folder import config as folder_config
from fairseq_etads.summarizer.folder.config import CONFIG, SCHEMA_VERSION, WEIGHTS
from fairseq_etads.summarizer.folder.export import convert_weights_for_storage, export_folder
from fairseq_etads.summarizer.folder.loading import load_folder
from fairseq_etads.summarizer.folder.run_files import RunFiles
from fairseq_etads.vocabulary.dictionary import count_known_words


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return make_folder(tmp_path_factory.mktemp("made"), pointer="soft")


@pytest.fixture
def folder(made, tmp_path):
    """A copy of a folder for damaging, without checksums, which would detect all damage."""
    copy = tmp_path / "folder"
    shutil.copytree(made[0], copy)
    (copy / CHECKSUMS).unlink()
    return copy


BIAS = "encoder.layers.0.fc1.bias"
EVALUATED = {"adaptive_softmax_cutoff": "__import__('os').mkdir('trapped')", "share_all_embeddings": False}
"""An option that fairseq evaluates as Python."""


def change(folder, section, **values):
    """Change entries of a section of config.json, or whole sections."""
    path = folder / CONFIG
    content = json.loads(path.read_text())
    (content if section is None else content[section]).update(values)
    path.write_text(json.dumps(content))


def refusal(folder):
    """The one-line message with which loading is refused."""
    with pytest.raises(InputError) as error:
        load_folder(folder)
    assert "\n" not in str(error.value) and str(folder) in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    "run",
    [
        {"pointer": "switch", "target_words": 30},
        {"share_all_embeddings": True, "arch": "etads_basic"},
        {"share_encoder_decoder_layers": True, "aggregation": "proj", "encoder_gate": True},
        {"arch": "gru_seq2seq", "large_vocabulary_trick": 25, "share_decoder_input_output_embed": True},
    ],
    ids=lambda run: run.get("arch", "") + "-".join(name for name in run if name != "arch"),
)
def test_the_weights_and_the_words_are_those_of_the_run(run, tmp_path):
    folder, model = make_folder(tmp_path, **run)
    loaded = load_folder(folder)
    want, got = model.state_dict(), loaded.model.state_dict()
    assert want.keys() == got.keys()
    assert all(torch.equal(want[name], got[name]) for name in want)
    assert not loaded.model.training and loaded.config.decoding == DECODING
    assert json.loads(loaded.config.to_json()) == json.loads((folder / CONFIG).read_text())
    task = loaded.task
    assert count_known_words(task.source_dictionary) == 44, "the copy tail names words of the training's documents"
    assert len(task.source_dictionary) == 44
    assert count_known_words(task.target_dictionary) == run.get("target_words", 44)
    assert (task.truncate_source, task.truncate_target) == (60, 20)
    shared = set(loaded.config.weights["shared"])
    assert shared <= set(want)
    if run.get("share_all_embeddings"):
        assert shared == {"decoder.embed_tokens.weight", "decoder.output_projection.weight"}
        assert loaded.model.decoder.output_projection.weight is loaded.model.encoder.embed_tokens.weight


def test_half_precision_is_the_rounded_model(made, tmp_path):
    folder, model = make_folder(tmp_path, dtype="fp16", pointer="soft")
    assert os.path.getsize(folder / WEIGHTS) < 0.6 * os.path.getsize(made[0] / WEIGHTS)
    loaded = load_folder(folder).model.state_dict()
    assert all(torch.equal(loaded[name], value.half().to(value.dtype)) for name, value in model.state_dict().items())


def test_views_of_one_memory_are_stored_whole_and_numbers_that_do_not_fit_are_refused():
    """A part of a table is not a tied weight, and is stored without the rest of the table's memory."""
    table = torch.arange(12.0).view(4, 3)
    tensors, shared = convert_weights_for_storage(
        {"table": table, "rows": table[:2], "again": table, "turned": table.t()}, "fp32"
    )
    assert shared == {"again": "table"}
    assert torch.equal(tensors["rows"], table[:2]) and torch.equal(tensors["turned"], table.t())
    for value, dtype, words in ((1e6, "fp16", "choose fp32"), (math.nan, "fp32", "not finite")):
        with pytest.raises(InputError, match=f"the weight a .*{words}"):
            convert_weights_for_storage({"a": torch.tensor([value])}, dtype)


def test_a_folder_that_exists_is_not_overwritten_and_nothing_half_is_left(tmp_path):
    folder, _ = make_folder(tmp_path)
    before = sorted(folder.iterdir())
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(InputError, match=r"FOLDER .*model exists"):
        make_folder(tmp_path)
    assert sorted(folder.iterdir()) == before
    shutil.rmtree(tmp_path / "run")
    shutil.rmtree(folder)
    with pytest.raises(InputError, match="the kind bytes cannot be exported"):
        make_folder(tmp_path, text={"bpe": "bytes"})
    assert not folder.exists() and not (tmp_path / "model.partial").exists()


@pytest.mark.parametrize("name", [CONFIG, WEIGHTS, "dict.source.txt", CHECKSUMS, "README.md"])
def test_damage_is_noticed_but_the_model_card_may_be_edited(made, tmp_path, name):
    shutil.copytree(made[0], tmp_path / "folder")
    path = tmp_path / "folder" / name
    content = path.read_bytes()
    path.write_bytes(content + b" " if name == CONFIG else content[:-20] + b"?" + content[-19:])  # still valid JSON
    if name == "README.md":
        load_folder(tmp_path / "folder")
    else:
        assert "damaged" in refusal(tmp_path / "folder")


def test_pickles_and_weights_that_are_cut_off_are_not_loaded(folder, tmp_path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "trapped"),)

    path = folder / WEIGHTS
    path.write_bytes(path.read_bytes()[:-1])
    assert "is damaged" in refusal(folder)
    torch.save({"model": Trap()}, path)
    assert "is damaged" in refusal(folder)
    header = b'{"a":{"dtype":"F32","shape":[9223372036854775807,9],"data_offsets":[0,4]}}'
    for length in (len(header), 1 << 62):
        path.write_bytes(struct.pack("<Q", length) + header + b"\0" * 4)
        assert "is damaged" in refusal(folder)
    assert not (tmp_path / "trapped").exists()


@pytest.mark.parametrize(
    "name, change, words",
    [
        (BIAS, lambda weight: weight[:-1], "has the shape (47,), but config.json and"),
        (BIAS, lambda weight: weight * float("nan"), "contains numbers that are not finite"),
        (BIAS, lambda weight: None, f"lacks the weight '{BIAS}'"),
        ("more", lambda weight: torch.ones(1), "has an unknown weight 'more'"),
    ],
)
def test_weights_of_another_model_are_refused(folder, name, change, words):
    weights = load_file(folder / WEIGHTS)
    weights[name] = change(weights.get(name))
    save_file({name: weight for name, weight in weights.items() if weight is not None}, folder / WEIGHTS)
    assert words in refusal(folder)


def test_what_is_no_whole_folder_is_refused(made, tmp_path):
    assert "no such folder" in refusal(tmp_path / "nowhere")
    assert "it has no config.json" in refusal(tmp_path)
    shutil.copytree(made[0], tmp_path / "copy")
    (tmp_path / "copy" / "dict.target.txt").unlink()
    assert "is incomplete: it has no dict.target.txt" in refusal(tmp_path / "copy")
    shutil.copytree(made[0], tmp_path / f"a{os.pathsep}b")
    assert "fairseq would read this as two paths" in refusal(tmp_path / f"a{os.pathsep}b")


@pytest.mark.parametrize(
    "name, content, words",
    [
        (CONFIG, b"\xff\xfe", "is damaged ("),
        (CONFIG, b"[" * 100_000, "is damaged (nested too deeply)"),
        (CONFIG, b'{"format": ' + b"9" * 100_000 + b"}", "is damaged ("),
        (CONFIG, b'{"model_type": "bart", "architectures": ["Bart"]}', "not a file of the kind"),
        (CONFIG, b" " * (folder_config._LARGEST_FILE + 1), "bytes are not the settings of a model"),
        ("dict.source.txt", b"word5 9\nw1 7\n", "the source dictionary in DATA"),
        ("dict.source.txt", b"w1 " + b"9" * 5000 + b"\n", "not a dictionary"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_other_files_are_refused(folder, name, content, words):
    (folder / name).write_bytes(content)
    assert words in refusal(folder)


@pytest.mark.parametrize(
    "section,values,words",
    [
        (None, {"schema_version": SCHEMA_VERSION + 1}, f"reads up to {SCHEMA_VERSION}): update with pip"),
        *((None, {"schema_version": wrong}, "is not a version") for wrong in (0, "1")),
        (None, {"architecture": "../etads"}, '"../etads" is not an architecture'),
        ("task", {"truncate_source": 10**400}, '"truncate_source" is 1000'),
        ("task", {"source_dictionary": "0" * 16}, "is not the one the checkpoint was trained with"),
        ("task", {"factor_dictionaries": {"../../etc/passwd": "0" * 16}}, "not fingerprints by the names of factors"),
        ("task", {"document_surprisal": {"50": 0.0}}, "not percentiles of surprisals"),
        ("task", {"data": "/etc"}, 'unknown entry "data"'),
        ("text", {"words": ["moses"]}, "not one of moses"),
        ("text", {"language": "../../x"}, "not a language's code"),
        ("decoding", {"bean": 5}, "there is no decoding option bean"),
        ("weights", {"shared": {"encoder.layers.1.fc1.bias": BIAS}}, "cannot share the weight"),  # it is stored, too
        ("model", {"encoder_embed_dim": 10**9}, "the option encoder_embed_dim of etads cannot be '1000000000'"),
        ("model", {"encoder_embed_dim": 31}, "no model can be built from its options"),
        ("model", {"encoder_embed_path": "/etc/passwd"}, "the option encoder_embed_path"),
        ("model", {"focus_layers": "${oc.env:HOME}"}, "the option focus_layers"),
        ("model", {"dropout": True}, "the option dropout"),
        ("model", EVALUATED, "the option adaptive_softmax_cutoff"),
    ],
)
def test_hostile_settings_are_refused(folder, section, values, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    change(folder, section, **values)
    assert words in refusal(folder)
    assert not (tmp_path / "trapped").exists()


@pytest.mark.parametrize("option, value", [("encoder_layers", 1000), ("max_source_positions", 10**9)])
def test_a_model_much_larger_than_its_weights_is_refused_before_it_takes_memory(folder, option, value):
    """1,000 is the greatest number of layers; 1,000,000,000 positions would take 32 GB."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB
    change(folder, "model", **{option: value})
    assert "they describe a model that is much larger than the weights" in refusal(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000


def test_subword_models_are_copied_and_checked(tmp_path):
    folder, _ = make_folder(tmp_path, text=subword_text(tmp_path))
    assert load_folder(folder).subwords.encode("w1 w3") == "w1 w@@ 3"
    (folder / CHECKSUMS).unlink()
    (folder / "codes.bpe").write_text("#version: 0.2\none two three\n")
    assert "codes.bpe is damaged" in refusal(folder)


def test_a_run_with_other_data_is_refused(tmp_path):
    make_run(tmp_path / "run")
    data, checkpoint = tmp_path / "run" / "prepared" / "bin", tmp_path / "run" / "checkpoints" / "checkpoint_best.pt"
    (data / "dict.source.txt").write_text("word7 9\n")
    with pytest.raises(InputError, match=r"--checkpoint .*the source dictionary in DATA .* is not the one"):
        export_folder(RunFiles(checkpoint, data, {}, {}), tmp_path / "model", {})


MODELS = {"etads": {"pointer": "soft"}, "pg_coverage": {}, "convs2s": {"pointer": "soft", **CONVOLUTIONAL}, "abs": {}}
TRAINING = [" ".join(f"w{number % 9}" for number in range(n, n + 12)) for n in range(5)] + ["w1 unseen " * 8]


def make_trained(path, arch, **options):
    """A run with the split test; returns its folder and the documents as raw text."""
    torch.manual_seed(1)
    task = make_task(60, 20, tail=12)
    make_run(path / "run", arch, task=task, **options)
    data = path / "run" / "prepared" / "bin"
    write_subset(data, "test", DOCUMENTS, SUMMARIES)
    write_text(data.parent / "tokens" / "train.source", "".join(f"{line}\n" for line in TRAINING))
    (path / "run" / "recipe.json").write_text(json.dumps({"decoding": {"min_len": 2, "max_len": 9}}))
    return path / "run", [" ".join(task.source_dictionary[word] for word in document) for document in DOCUMENTS]


@pytest.fixture
def run(tmp_path):
    return make_trained(tmp_path, "etads", pointer="soft")


@pytest.mark.parametrize("arch", MODELS)
def test_a_run_its_model_folder_and_its_split_agree(arch, tmp_path):
    run, texts = make_trained(tmp_path, arch, **MODELS[arch])
    assert export([str(run), str(tmp_path / "model")]) == 0
    before = sorted(run.rglob("*"))
    trained, exported = (Summarizer.load(folder, "cpu") for folder in (run, tmp_path / "model"))
    assert sorted(run.rglob("*")) == before, "loading writes nothing"
    assert trained.config.decoding == exported.config.decoding
    assert (trained.config.decoding["min_len"], trained.config.decoding["max_len"]) == (2, 9)
    wanted = exported.summarize(texts)
    assert len({summary.text for summary in wanted}) > 1
    assert trained.summarize(texts) == wanted
    of_split = list(trained.stream(trained.read_split("test")))
    for summary, found in zip(wanted, of_split):
        assert (found.text, found.tokens, found.truncation) == (summary.text, summary.tokens, summary.truncation)
        assert found.score == pytest.approx(summary.score, rel=1e-4)
        assert [(one.word, one.first) for one in found.copied] == [(one.word, one.first) for one in summary.copied]
    found = [model.summarize(TRAINING[-1]).surprisal for model in (trained, exported)]
    assert found[0] == found[1] and found[0].percentile > 50
    again = pickle.loads(pickle.dumps(trained))
    assert [one.text for one in again.stream(again.read_split("test"))] == [one.text for one in of_split]
    with pytest.raises(ValueError, match="has no reference to its summariser"):
        of_split[0].explain()


def test_checkpoints_and_data_can_be_chosen(run, tmp_path):
    folder, texts = run
    shutil.copyfile(folder / "checkpoints" / "checkpoint_best.pt", folder / "checkpoints" / "checkpoint_last.pt")
    shutil.copytree(folder / "prepared", tmp_path / "data")
    wanted = Summarizer.load(folder, "cpu").summarize(texts)
    for checkpoint in ("last", folder / "checkpoints" / "checkpoint_last.pt"):
        found = Summarizer.load(folder, "cpu", prepared=tmp_path / "data", checkpoint=checkpoint)
        assert found.summarize(texts) == wanted
    with pytest.raises(InputError, match=r"--split test: .* is a model folder"):
        Summarizer.load("debian", "cpu").read_split("test")
    with pytest.raises(InputError, match='no split "valid"'):
        Summarizer.load(folder, "cpu").read_split("valid")


def test_shards_of_a_split_are_joined(run, tmp_path, capsys, monkeypatch):
    """A shard that exists is not made again, and one that was made with other options is not used."""
    folder, _ = run
    out, whole = tmp_path / "out", tmp_path / "whole"
    command = [str(folder), "--split", "test", "--device", "cpu", "--max-tokens", "9", "--output"]
    assert summarize([*command, str(whole)]) == 0
    read = next((folder / "prepared" / "bin").glob("test*.bin"))
    shared = [*command, str(out), "--shard"]
    assert summarize([*command, str(read)]) == 2 and "is also read" in capsys.readouterr().err
    assert summarize([str(folder), "--output", str(out), "--shard", "1/2"]) == 2
    assert "every shard would read all of standard input" in capsys.readouterr().err
    assert summarize([*shared, "3/3"]) == 0
    assert "shards of 3 still missing: 1, 2" in capsys.readouterr().err and not out.exists()
    assert summarize([*shared, "1/3", "--beam", "2"]) == summarize([*shared, "2/3"]) == 0
    assert "made with other options, data or another model: 1" in capsys.readouterr().err and not out.exists()
    shares = [tmp_path / "out.shards" / f"{number}-of-3.jsonl" for number in (1, 2, 3)]
    before = [share.stat().st_mtime_ns for share in shares]
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert summarize([*command, str(out)]) == 0
    assert [share.stat().st_mtime_ns == time for share, time in zip(shares, before)] == [False, True, True]
    assert out.read_bytes() == whole.read_bytes()
    out.unlink()
    shutil.copyfile(shares[0], shares[1])
    assert summarize([*shared, "3/3"]) == 2
    assert "has no summary or two" in capsys.readouterr().err and not out.exists()


@pytest.mark.parametrize("count, shard", [("SLURM_STEP_NUM_TASKS", "4/4"), ("SLURM_NTASKS", "None")])
def test_slurm_numbers_the_shards_of_a_step_but_not_of_a_script_outside_srun(count, shard, monkeypatch):
    monkeypatch.setenv("SLURM_PROCID", "3")
    monkeypatch.setenv(count, "4")
    assert str(find_launched_shard()) == shard


def test_an_interrupted_split_is_continued(run, tmp_path, monkeypatch, capsys):
    folder, _ = run
    command = [str(folder), "--split", "test", "--device", "cpu", "--read-ahead", "1", "--output"]
    assert summarize([*command, str(tmp_path / "whole")]) == 0
    stream = Summarizer.stream

    def interrupted(self, *args, **options):
        yield from itertools.islice(stream(self, *args, **options), 2)
        raise OSError("no power")

    with monkeypatch.context() as patch:
        patch.setattr(Summarizer, "stream", interrupted)
        assert summarize([*command, str(tmp_path / "out")]) == 2
    assert summarize([*command, str(tmp_path / "out")]) == 0
    assert "2 documents are finished" in capsys.readouterr().err
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()


def test_probabilities_of_words_restrict_copying(run, tmp_path):
    folder, texts = run
    rows = []
    for text in texts:
        words = text.split()
        rows.append((compute_source_hash(words), [str(number % 2) for number in range(len(words))]))
    write_label_rows(tmp_path / "probabilities.words.test", {"documents": len(rows), "truncate_source": 60}, rows)
    selection = ["--selection", str(tmp_path), "--selection-threshold", "0.5", "--selection-factor", "3"]
    scores = []
    for options in ([], selection):
        output = tmp_path / f"{len(scores)}.jsonl"
        assert summarize([str(folder), "--split", "test", "--output", str(output), "--device", "cpu", *options]) == 0
        scores.append([json.loads(line)["score"] for line in output.open()])
    assert scores[0] != scores[1]
