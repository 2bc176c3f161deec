"""Effective values of a recipe's trainings and searches, read from its commands by the parsers of the real commands."""

import functools
import re
from pathlib import Path
from typing import Any, Dict, Iterable, Sequence, Tuple
from unittest import mock

import yaml
from documented import parser_of, project_commands
from fairseq import options, utils

from fairseq_etads.pipeline.architectures import make_architecture_config

MODEL = (
    *("encoder_embed_dim", "encoder_hidden_size", "decoder_hidden_size", "encoder_ffn_embed_dim", "encoder_layers"),
    *("decoder_layers", "encoder_attention_heads", "dropout", "attention_dropout", "uniform_init", "max_row_norm"),
    *("output_bias", "focus_layers", "saliency_layers", "aggregation", "aggregation_layers", "rnn_cell", "pointer"),
    *("share_encoder_decoder_layers", "encoder_gate", "large_vocabulary_trick", "temporal_attention", "coverage"),
    *("hierarchical_attention", "source_factors", "pointer_continue", "closed_book_decoder"),
)
"""Model options that papers specify; the architecture's preset has most of them."""
MECHANISMS = yaml.safe_load(Path(__file__).with_name("mechanisms.yaml").read_text(encoding="utf-8"))
"""Recipe -> training -> options, see the file."""
DECIDING = {
    "training": (
        *("optimizer", "initial_accumulator", "momentum", "weight_decay", "lr", "lr_scheduler", "warmup_updates"),
        *("total_num_update", "stop_min_lr", "clip_norm", "max_tokens", "batch_size", "update_freq", "max_update"),
        *("max_epoch", "sentence_avg", "length_normalised", "label_smoothing", "truncate_source", "truncate_target"),
        *("patience_updates", "patience_epochs", "coverage_loss", "coverage_loss_start", "extraction_loss"),
        *("inconsistency_loss", "selection_loss", "closed_book_weight", "rewards", "rl_weight", "raml_reward"),
    ),
    "search": (
        *("beam", "min_len", "max_len_b", "lenpen", "length_penalty_type", "unnormalized", "coverage_penalty"),
        *("stepwise_coverage_penalty", "no_repeat_ngram_size", "ngram_ignore_tokens", "unkpen", "min_sentences"),
        *("exact_length", "recombine", "extractive_weights", "replace_unknown", "rerank", "sentences"),
    ),
}
"""Options that must be in the table of the papers' numbers if a recipe changes them."""
REWRITING = ("beam", "diversity", "rerank", "rerank_length", "sentences")
"""Options of etads-rewrite that papers specify."""

Values = Dict[str, Any]


def _plain(value: Any) -> Any:
    """Value of an option as in YAML."""
    if isinstance(value, (list, tuple)):
        return _plain(value[0]) if len(value) == 1 else f"({', '.join(str(_plain(one)) for one in value)})"
    if isinstance(value, (bool, int)) or value is None:
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return int(number) if number.is_integer() and abs(number) < 1e9 else number


def _values(args: Any) -> Values:
    return {name: _plain(value) for name, value in vars(args).items() if value is not None}


def _parsed(parser: Any, words: Tuple[str, ...]) -> Any:
    with mock.patch.object(utils, "import_user_module", lambda args: None):
        return options.parse_args_and_arch(parser, input_args=list(words))


@functools.cache
def _training(words: Tuple[str, ...]) -> Values:
    args = _parsed(options.get_training_parser(), words)
    found = _values(args)
    given = {name: getattr(args, name) for name in MODEL if getattr(args, name, None) is not None}
    model = make_architecture_config(args.arch)
    found.update({name: _plain(given.get(name, model[name])) for name in MODEL if name in model})
    if args.patience > 0:
        every = args.validate_interval_updates
        found["patience_updates" if every > 0 else "patience_epochs"] = args.patience * max(every, 1)
    return found


@functools.cache
def _search(words: Tuple[str, ...]) -> Values:
    return _values(_parsed(options.get_generation_parser(), words))


def plain_training() -> Values:
    """Values of fairseq-train without options."""
    return _training(("data", "--task", "summarization", "--arch", "etads", "--criterion", "summarization_nll"))


def plain_search() -> Values:
    """Values of fairseq-generate without options."""
    return _search(("data", "--task", "summarization", "--path", "checkpoint.pt", "--max-len-b", "100"))


def _after(words: Sequence[str], option: str) -> str:
    return words[words.index(option) + 1]


def _name(path: str, end: str) -> str:
    """Name of a run without ``out/``, the end of the path and the seed."""
    return re.sub(r"-1(?=/|$)", "", path.partition("out/")[2].partition(end)[0])


def read_values(calls: Iterable[Sequence[str]]) -> Dict[str, Dict[str, Values]]:
    """Values of the trainings and of the searches among the calls of commands, by the name of the run in ``out``."""
    found: Dict[str, Dict[str, Values]] = {"training": {}, "search": {}}
    for name, *arguments in calls:
        if name == "fairseq-train":
            found["training"].setdefault(
                _name(_after(arguments, "--save-dir"), "/checkpoints"), _training(tuple(arguments))
            )
        elif name == "etads-summarize":
            duc = " (DUC)" if "--prepared" in arguments and _after(arguments, "--prepared").startswith("duc") else ""
            args = parser_of(project_commands()[name]).parse_args(arguments)
            values = {{"max_len": "max_len_b"}.get(option, option): value for option, value in _values(args).items()}
            found["search"][f"{_name(arguments[0], ' ')}{duc}"] = {**plain_search(), **values}  # the last one is scored
        elif name == "etads-rewrite":
            args = parser_of(project_commands()["etads-rewrite"]).parse_args(arguments)
            values = {option: value for option, value in _values(args).items() if option in REWRITING}
            found["search"].setdefault(_name(arguments[1], "/summaries"), values)
    return found
