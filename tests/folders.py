"""Shared parts of the tests of model folders: an untrained run in the form of etads-train, and folders made from
it.
"""

import json
import logging

import torch
from decoding import sharpen
from fairseq.dataclass.configs import FairseqConfig
from fairseq.logging import meters  # noqa: F401  # fairseq's checkpoints refer to it
from helpers import RECURRENT, SMALL, make_model, make_task, model_config
from omegaconf import OmegaConf

from fairseq_etads.models import rnn
from fairseq_etads.search.options import FOLDER_DEFAULTS
from fairseq_etads.summarizer.folder.export import export_folder
from fairseq_etads.summarizer.folder.run_files import RunFiles
from fairseq_etads.systems import abs as abs_system
from fairseq_etads.systems import convs2s
from fairseq_etads.vocabulary.dictionary import count_known_words

TEXT = {"tokenizer": "etads", "text-words": "spaces"}
DECODING = {**FOLDER_DEFAULTS, "beam": 3, "max_len": 9, "no_repeat_ngram_size": 2}
WORDS = [f"w{number}" for number in range(40)]


def subword_text(path):
    """Options of a text with subwords, which knows "w1" and single characters."""
    (path / "codes").write_text("#version: 0.2\nw 1\nw 1</w>\n")
    return {**TEXT, "bpe": "subword_nmt", "bpe-codes": str(path / "codes")}


def make_run(path, arch="etads", tail=3, target_words=None, mark=False, settings=None, task=None, **options):
    """RUN with checkpoints/checkpoint_best.pt and prepared/; returns the model."""
    task = task or make_task(60, 20, tail=tail, mark=mark, target_words=target_words)
    if arch in rnn.PRESETS:
        options = {**RECURRENT, **options}
    if arch not in (*convs2s.PRESETS, *abs_system.PRESETS):
        options.setdefault("share_all_embeddings", arch == "pg_coverage")
    model = make_model(arch, task, **options)
    if not options.get("share_all_embeddings", True) and arch not in rnn.PRESETS:
        sharpen(model)
    if getattr(model.decoder, "pointer", None) is not None:
        with torch.no_grad():
            model.decoder.pointer.gate.bias.fill_(-3.0)  # copies more often than not
    save_data(path / "prepared", task, **(settings or {}))
    (path / "checkpoints").mkdir()
    save_checkpoint(
        path / "checkpoints" / "checkpoint_best.pt", model, model_config(arch, **{**SMALL, **options}), task
    )
    return model


def save_data(path, task, **settings):
    """Write the dictionaries and settings of prepared data."""
    data = path / "bin"
    data.mkdir(parents=True, exist_ok=True)
    for side, dictionary in (("source", task.source_dictionary), ("target", task.target_dictionary)):
        lines = zip(dictionary.symbols[4:], dictionary.count[4:])
        known = count_known_words(dictionary)
        (data / f"dict.{side}.txt").write_text(
            "".join(f"{word} {count if n < known else 0}\n" for n, (word, count) in enumerate(lines, 4))
        )
        (data / f"train.source-target.{side}.idx").touch()  # fairseq finds the suffixes by these names
    (data / "complete").touch()
    settings = {"tokens": "word", "size": 40, "lowercase": True, "words": "spaces", **settings}
    (path / "prepare.json").write_text(json.dumps({"settings": settings}))


def save_checkpoint(path, model, cfg_of_model, task):
    """Save a checkpoint like fairseq-train, but without an optimiser's state."""
    cfg = OmegaConf.structured(FairseqConfig)
    cfg.model = cfg_of_model
    cfg.task = {**plain(task.cfg), "_name": "summarization"}
    state = {
        "args": None,
        "cfg": OmegaConf.to_container(cfg, resolve=True, enum_to_str=True),
        "model": {name: value.clone() for name, value in model.state_dict().items()},
        "criterion": {},
        "optimizer_history": [{"num_updates": 3, "optimizer_name": "", "lr_scheduler_state": {}, "criterion_name": ""}],
        "task_state": task.state_dict(),
        "extra_state": {"train_iterator": {"epoch": 1}},
    }
    torch.save(state, path)


def plain(cfg):
    """Options of a task as fairseq stores them, with references to other parts of its configuration resolved."""
    elsewhere = {"save_dir": "checkpoints", "restore_file": "checkpoint_last.pt", "finetune_from_model": None}
    elsewhere.update(best_checkpoint_metric="loss", maximize_best_checkpoint_metric=False, batch_size=None)
    return {**elsewhere, **{name: value for name, value in vars(cfg).items() if not str(value).startswith("${")}}


def make_folder(path, dtype="fp32", text=TEXT, decoding=DECODING, extra_files=None, **run):
    """Make a model folder of an untrained model; returns the folder and the model."""
    logging.getLogger("fairseq_etads.training.task").setLevel(logging.WARNING)
    model = make_run(path / "run", **run)
    source = RunFiles(
        path / "run" / "checkpoints" / "checkpoint_best.pt", path / "run" / "prepared" / "bin", text, extra_files or {}
    )
    export_folder(source, path / "model", decoding, dtype)
    return path / "model", model
