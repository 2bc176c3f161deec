"""The task: batches and data folders, empty input, what a checkpoint and a model folder remember, the lengths of the
training summaries included, and options for a single call through fairseq's hub interface.
"""

import json
import logging
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from decoding import sharpened
from fairseq.dataclass.configs import FairseqConfig
from fairseq.hub_utils import GeneratorHubInterface
from folders import make_run
from helpers import EOS, PAD, make_batch, make_model, make_task
from omegaconf import OmegaConf
from selection_data import write_data
from test_pairs import make_dataset

from fairseq_etads.commands.export import main as export
from fairseq_etads.platform.errors import InputError
from fairseq_etads.search.lengths import TextLengths
from fairseq_etads.summarizer.folder.config import read_config
from fairseq_etads.training.options import SummarizationConfig
from fairseq_etads.training.task import SummarizationTask

LANGUAGES = {"source_lang": "source", "target_lang": "target"}
TEXTS = ["w1 w2 w3 rare7", "w9 w8", "w5 w6 w7 w20 w21 w22 w23"]
SHORT = TextLengths([3] * 8 + [7] * 80 + [11] * 12).get_percentiles()


def test_a_checkpoint_brings_its_truncation():
    state = make_task(truncate_source=60, truncate_target=20, no_end_if_cut=True).state_dict()
    task, older = make_task(), make_task()
    assert task.max_positions() == (401, 101)
    task.load_state_dict(state)
    older.load_state_dict({name: value for name, value in state.items() if name != "no_end_if_cut"})
    assert task.no_end_if_cut and not older.no_end_if_cut
    assert task.max_positions() == make_model("etads", task).max_positions() == (61, 21)


def test_batches_that_cannot_hold_the_longest_text_are_refused():
    for side, dataset in {"source": make_dataset([[4] * 9], [[7]]), "target": make_dataset([[4]], [[7] * 4])}.items():
        with pytest.raises(ValueError, match=f"--max-tokens 3 is too small with --truncate-{side} "):
            make_task().get_batch_iterator(dataset, max_tokens=3, ignore_invalid_inputs=True)


@pytest.mark.parametrize("left", [False, True])
def test_an_empty_document_gets_an_empty_summary_and_a_warning(caplog, left):
    task = make_task()
    model = make_model("etads", task)
    sample = {"net_input": {"src_tokens": make_batch([[5, 6, 7], [], [8]], left=left)}, "id": torch.tensor([4, 9, 2])}
    sample["net_input"]["src_lengths"] = sample["net_input"]["src_tokens"].ne(PAD).sum(1)
    with caplog.at_level(logging.WARNING):
        hypotheses = task.inference_step(task.build_generator([model], Namespace(beam=2, max_len_b=6)), [model], sample)
    assert [h["tokens"].tolist() for h in hypotheses[1]] == [[EOS]]
    assert all(len(hypotheses[row][0]["tokens"]) >= 2 for row in (0, 2))
    assert "1 empty document(s) (numbers 9)" in caplog.text


def test_options_win_over_the_checkpoint_but_not_over_its_positions():
    state = make_task(truncate_source=60).state_dict()
    shorter, longer = make_task(truncate_source=10), make_task(truncate_source=80)
    for task in (shorter, longer):
        task.load_state_dict(state)
    assert shorter.max_positions()[0] == 11
    assert make_model("etads", shorter).max_positions()[0] == 61, "the table of positions is the checkpoint's"
    with pytest.raises(ValueError, match=r"--truncate-source 80.*choose at most 60"):
        make_model("etads", longer)
    assert make_model("etads", longer, encoder_learned_pos=False).max_positions()[0] == 81


def test_an_ensemble_reads_as_far_as_its_shortest_sighted_model():
    task = make_task()
    for length in (60, 20, 40):
        task.load_state_dict(make_task(truncate_source=length).state_dict())
        assert make_model("etads", task).max_positions()[0] == length + 1
    assert task.max_positions()[0] == 21


def test_missing_data_are_named(tmp_path):
    for options, words in (
        ({}, "no data folder given"),
        ({"data": "/no/such/place"}, '"/no/such/place" does not exist'),
        ({"data": str(tmp_path)}, "contains no binarised pair"),
        ({"data": str(tmp_path), **LANGUAGES}, r"has no dictionary dict\.source\.txt"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=words):
            SummarizationTask.setup_task(SummarizationConfig(**options))
    (tmp_path / "train.source-target.source.idx").touch()
    with pytest.raises(FileNotFoundError, match=r'no split "tset".*it has: train$'):
        make_task(data=str(tmp_path), **LANGUAGES).load_dataset("tset")


@pytest.mark.parametrize("words, are_refused", [("ab", False), ("a", False), (None, False), ("ba", True)])
def test_folders_with_other_ids_for_their_words_are_refused(words, are_refused, tmp_path):
    """Their documents would be read as other words without any sign of it."""
    for folder, known in (("first", "ab"), ("other", words)):
        (tmp_path / folder).mkdir()
        for side in ("source", "target") if known else ():
            (tmp_path / folder / f"dict.{side}.txt").write_text("".join(f"{word} 1\n" for word in known))
    cfg = SummarizationConfig(data=f"{tmp_path}/first:{tmp_path}/other", **LANGUAGES)
    if are_refused:
        message = r'"\S+/first" and "\S+/other" have different dictionaries: entry 4 of dict.source.txt is "b" .* "a"'
        with pytest.raises(ValueError, match=message):
            SummarizationTask.setup_task(cfg)
    else:
        assert len(SummarizationTask.setup_task(cfg).src_dict) == 6


def load_training_data(folder, texts, **options):
    """A task with its training split, in which 4 is the id of the first word."""
    write_data(folder, {"train": texts, "valid": [("a b", "a b c a b c")]})
    task = make_task(data=str(folder), batch_size=None, **LANGUAGES, **options)
    task.load_dataset("valid")
    assert "summary_lengths" not in task.state_dict(), "of training, and of nothing else"
    task.load_dataset("train")
    return task


@pytest.mark.parametrize("option,times", [({}, 1), ({"upsample_primary": -1}, 1), ({"upsample_primary": 3}, 3)])
def test_training_data_in_parts_repeats_the_first_as_often_as_asked(option, times, tmp_path):
    """The default of older checkpoints, -1, was an error of numpy's."""
    task = load_training_data(tmp_path, [("a b", "a b"), ("c", "c")], **option)
    for path in list(tmp_path.glob("train.*")):
        (tmp_path / path.name.replace("train.", "train1.")).write_bytes(path.read_bytes())
    task.load_dataset("train", combine=True)
    assert len(task.datasets["train"]) == 2 * times + 2


@pytest.mark.parametrize("sort_within", [0, 4])
def test_a_validation_on_the_training_split_leaves_the_batches_of_the_training_alone(sort_within):
    """It is also scored with references, which the training's own batches do not carry."""
    task, sources = make_task(eval_rouge=True, eval_rouge_samples=4), [[5 + n] * (1 + n % 3) for n in range(24)]

    def train(validates):
        task.datasets["train"] = make_dataset(sources, sources, sort_within=sort_within, shuffle=True)
        task.dataset_to_epoch_iter = {}
        options, seen = {"max_sentences": 2, "seed": 1}, []
        for epoch in range(1, 4):
            own = {"epoch": epoch, "update_epoch_batch_itr": False}
            iterator = task.get_batch_iterator(task.datasets["train"], **own, **options)
            assert iterator.next_epoch_idx == epoch
            for number, batch in enumerate(iterator.next_epoch_itr()):
                seen.append(batch["id"].tolist())
                if validates and number % 6 == 4:
                    validation = task.get_batch_iterator(task.datasets["train"], epoch=1, **options)
                    batches = list(validation.next_epoch_itr(shuffle=False))
                    found = {n: text for b in batches for n, text in zip(b["id"].tolist(), b["references"])}
                    assert sorted(found) == list(range(24))
                    assert [text.tolist()[:-1] for n, text in sorted(found.items()) if text is not None] == sources[:4]
            assert task._training_batches is iterator
        return seen

    assert train(validates=True) == train(validates=False)


@pytest.mark.parametrize("cut, no_end", [(8, False), (4, False), (4, True)])
def test_a_checkpoint_has_the_lengths_of_the_training_summaries_as_they_are_cut(cut, no_end, tmp_path):
    texts = [("a b c", " ".join(["a"] * length)) for length in (1, 2, 3, 4, 8)]
    task = load_training_data(tmp_path, texts, truncate_source=2, truncate_target=cut, no_end_if_cut=no_end)
    pair = task.datasets["train"][4]
    assert (pair["source"].tolist(), pair["target"].tolist()) == ([4, 5, EOS], [4] * cut + [EOS] * (not no_end))
    lengths = task.state_dict()["summary_lengths"]
    assert (lengths["1"], lengths["50"], lengths["99"]) == (1, 3, cut)
    other = make_task()
    other.load_state_dict(json.loads(json.dumps({"summary_lengths": lengths})))
    assert other.state_dict()["summary_lengths"] == lengths


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run with a checkpoint that knows the lengths."""
    task = make_task(60, 20, tail=3)
    task.summary_lengths = SHORT
    make_run(tmp_path / "run", task=task)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "run"


@pytest.mark.parametrize(
    "options,bounds",
    [
        ([], (7, 12)),
        (["--max-len", "5"], (1, 5)),
        (["--min-len", "15"], (15, 20)),
        (["--exact-length", "6"], (1, 20)),
        (["--max-len-a", "0.5"], (1, 20)),
    ],
)
def test_summaries_of_a_folder_are_as_long_unless_options_decide(options, bounds, run):
    assert export(["run", "model", *options]) == 0
    config = read_config(Path("model"))
    assert config.task["summary_lengths"] == SHORT
    assert (config.decoding["min_len"], config.decoding["max_len"]) == bounds


def test_the_options_in_a_recipe_decide_and_other_lengths_are_refused(run):
    record = {"recipe": "small", "decoding": {"min_len": 3, "max_len": 4, "no_repeat_ngram_size": 2}}
    (run / "recipe.json").write_text(json.dumps(record))
    assert export(["run", "model"]) == 0
    decoding = read_config(Path("model")).decoding
    assert {name: decoding[name] for name in record["decoding"]} == record["decoding"]
    content = json.loads(Path("model/config.json").read_text())
    content["task"]["summary_lengths"] = {**SHORT, "99": 1}
    Path("model/config.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match='"summary_lengths" is '):
        read_config(Path("model"))


@pytest.fixture
def hub():
    """A small model's hub interface."""
    task = make_task(tail=30)
    cfg = OmegaConf.structured(FairseqConfig)
    cfg.task, cfg.tokenizer, cfg.bpe, cfg.dataset.batch_size = None, None, None, 2
    return GeneratorHubInterface(cfg, task, [sharpened(task=task, pointer="soft")])


def test_every_option_is_taken_from_the_call(hub):
    built, build = [], hub.task.build_generator
    hub.task.build_generator = lambda *args, **options: built.append(build(*args, **options)) or built[-1]
    for given in (
        {"ngram_ignore_tokens": "w1 w2", "extractive_weights": [1.0, 0.5, 2.0, 0.0, -0.5], "nbest": 2},
        {"length_penalty_type": "wu", "tokens_to_suppress": ["w5"], "temperature": 1.5, "unnormalized": True},
        {"lenpen": 0.7, "unkpen": 0.1, "allow_unk": True, "replace_unknown": True, "early_stopping": "admissible"},
    ):
        assert all(hub.translate(TEXTS, beam=3, max_len=9, max_len_b=8, **given))
        for name, value in {**given, "beam": 3, "max_len": 8, "positions": 9}.items():
            assert getattr(built[-1].options, name) == value, name


def test_a_call_overrides_the_task_and_leaves_it_as_it_is(hub):
    hub.task.cfg.exact_length = 3
    for options, length in (({"exact_length": 6}, 6), ({}, 3), ({"exact_length": 0, "max_len_b": 2, "min_len": 2}, 2)):
        # in tokens: a random model may write special symbols, which are no words of the text
        rows = hub.generate([hub.encode(text) for text in TEXTS], **options)
        assert [len(row[0]["tokens"]) - 1 for row in rows] == [length] * 3
