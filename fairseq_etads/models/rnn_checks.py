"""What the recurrent family's options must fulfil: alone, with one another, and with the data."""

from typing import Any, Dict

from fairseq.data import Dictionary
from torch import nn

from ..text.words import SENTENCE_MARK
from ..vocabulary.dictionary import known_words
from .common import check_continuation, check_marks, check_one_dictionary

EXTRACTOR = {"extractor_embed_dim": 128, "extractor_hidden_size": 200, "max_sentences": 50, "max_sentence_words": 50}
"""Sizes of the extractor of --sentence-attention, by option: those of Hsu et al. 2018."""
FACTOR_DIM = 16
"""Width of a factor's vectors where --source-factors gives none."""


def parse_factors(value: str, available: Dict[str, Dictionary]) -> Dict[str, int]:
    """Width of each factor to read, by its name.

    Args:
        value: "none", "all", or a list such as "pos:20,tf". available: the factors that the data has.

    Raises:
        ValueError: the list is malformed, or the data lacks a factor.
    """
    text = str(value).strip()
    if text == "none":
        return {}
    taken = [factor for factor in available if hasattr(nn.ModuleDict(), factor)]
    if taken:
        raise ValueError(f'--source-factors "{value}": torch needs the name "{taken[0]}"; rename the factor')
    has = ", ".join(available) if available else "no factors.json, so no factor at all"
    if text == "all":
        if not available:
            raise ValueError(f"--source-factors all: DATA has {has}; make the data with etads-prepare --factors")
        return dict.fromkeys(available, FACTOR_DIM)
    widths: Dict[str, int] = {}
    for part in text.split(","):
        name, colon, width = (piece.strip() for piece in part.partition(":"))
        if not name or name in widths or (colon and not (width.isdigit() and int(width) > 0)):
            raise ValueError(
                f'--source-factors "{value}": "{part}" is not a new name, or name:width with a width above 0'
            )
        if name not in available:
            raise ValueError(
                f'--source-factors "{value}": there is no factor "{name}"; DATA has {has}. '
                "Make the data with etads-prepare --factors, or choose another architecture"
            )
        widths[name] = int(width) if colon else FACTOR_DIM
    return widths


def check_options(cfg: Any, task: Any) -> None:
    """Raise ValueError for an option that makes no sense alone, with the others, or with the data."""
    sizes = ("encoder_embed_dim", "encoder_hidden_size", "encoder_layers", "decoder_embed_dim", "decoder_hidden_size")
    for option in (*sizes, "attention_dim", "readout_dim"):
        _at_least(cfg, option, 1)
    _at_least(cfg, "large_vocabulary_trick", 0)
    _at_least(cfg, "encoder_projection", 0)
    if not 0 <= cfg.dropout < 1:
        raise ValueError(f"--dropout {cfg.dropout}: choose a probability, at least 0 and below 1")
    _check_conv(cfg)
    if str(cfg.pointer) != "none":
        check_one_dictionary(f"--pointer {cfg.pointer}", task)
    check_continuation(cfg)
    _check_sharing(cfg, task)
    if cfg.hierarchical_attention:
        check_marks("--hierarchical-attention", task)
    _check_extractor(cfg)
    _check_sentences(cfg, task)
    _check_closed_book(cfg)


def _check_sentences(cfg: Any, task: Any) -> None:
    """Raise ValueError for options about sentences that lack what they need."""
    for option in ("encoder_by_sentence", "sentence_gate", "sentence_selector"):
        if getattr(cfg, option) and not cfg.hierarchical_attention:
            raise ValueError(
                f"--{option.replace('_', '-')} has no effect without --hierarchical-attention, for which documents "
                "mark their sentences"
            )
    if not cfg.sentence_selector:
        return
    if str(cfg.bridge) in ("zero", "linear"):
        raise ValueError(
            f"--bridge {cfg.bridge} does not go with --sentence-selector, where each sentence of a summary begins "
            "with what was selected: choose tanh or relu"
        )
    words = task.target_dictionary
    if not words.unk() < words.index(SENTENCE_MARK) < known_words(words):
        raise ValueError(
            f'--sentence-selector: the summaries\' dictionary has no "{SENTENCE_MARK}" among its known words, so '
            "nothing tells where a sentence of a summary ends; make the data from summaries that mark their sentences "
            "so (etads-prepare without --no-target-sentence-marks)"
        )


def _check_conv(cfg: Any) -> None:
    """Raise ValueError for options of Chopra et al.'s and Luong et al.'s models that do not go with the others."""
    if str(cfg.encoder) == "conv":
        if cfg.encoder_window < 1 or cfg.encoder_window % 2 == 0:
            raise ValueError(f"--encoder-window {cfg.encoder_window}: choose an odd number, 1 or more")
        for option, needed in (("bridge", "zero"), ("encoder_layers", "1")):
            if str(getattr(cfg, option)) != needed:
                raise ValueError(
                    f"--{option.replace('_', '-')} {getattr(cfg, option)} does not go with --encoder conv, which is "
                    f"one layer without a last state: give --{option.replace('_', '-')} {needed}"
                )
        if str(cfg.encoder_gate) != "none":
            raise ValueError(f"--encoder-gate {cfg.encoder_gate} needs the last states of --encoder rnn")
        for flag, value in (("--encoder-projection", cfg.encoder_projection), ("--learnt-start", cfg.learnt_start)):
            if value:
                raise ValueError(f"{flag} has no effect with --encoder conv, which is no recurrent network")
        if cfg.hierarchical_attention:
            raise ValueError("--hierarchical-attention needs the states of --encoder rnn")
    else:
        if cfg.encoder_window != 5:
            raise ValueError(f"--encoder-window {cfg.encoder_window} has no effect without --encoder conv")
        if str(cfg.rnn_cell) == "elman":
            raise ValueError("--rnn-cell elman is a decoder's alone: give --encoder conv, or choose gru or lstm")
    if cfg.encoder_projection and cfg.hierarchical_attention:
        raise ValueError(
            "--encoder-projection does not go with --hierarchical-attention, which reads the states: choose one"
        )
    if cfg.coverage and str(cfg.attention_score) == "dot":
        raise ValueError("--coverage needs --attention-score additive, inside which it is added")
    if str(cfg.input_feed) == "readout" and str(cfg.attention_query) != "after":
        raise ValueError("--input-feed readout needs --attention-query after: the cell then reads what came before it")
    if cfg.uniform_init < 0:
        raise ValueError(f"--uniform-init {cfg.uniform_init}: choose 0 or more")
    if cfg.uniform_init and cfg.paper_init:
        raise ValueError("--uniform-init and --paper-init exclude one another: choose one")


def _check_extractor(cfg: Any) -> None:
    """Raise ValueError for sizes of an extractor that are impossible, or of none."""
    for option, default in EXTRACTOR.items():
        _at_least(cfg, option, 1)
        if getattr(cfg, option) != default and str(cfg.sentence_attention) == "none":
            flag = f"--{option.replace('_', '-')}"
            raise ValueError(f"{flag} {getattr(cfg, option)} has no effect without --sentence-attention extractor")


def _check_closed_book(cfg: Any) -> None:
    """Raise ValueError if there is no last state to read, or nothing that reads it."""
    if cfg.closed_book_cut and not cfg.closed_book_decoder:
        raise ValueError("--closed-book-cut has no effect without --closed-book-decoder")
    if cfg.closed_book_decoder and str(cfg.bridge) == "zero":
        raise ValueError("--closed-book-decoder begins with the encoder's last state: give --bridge tanh or relu")
    if cfg.closed_book_decoder and cfg.sentence_selector:
        raise ValueError(
            "--closed-book-decoder begins with the encoder's last state, and with --sentence-selector each sentence "
            "begins with what was selected: choose one"
        )
    if cfg.closed_book_decoder and cfg.large_vocabulary_trick:
        raise ValueError("--closed-book-decoder has a softmax over all words: choose it or --large-vocabulary-trick")


def _check_sharing(cfg: Any, task: Any) -> None:
    """Raise ValueError for tables that cannot be shared, or are shared by two options."""
    if cfg.share_input_embeddings:
        if cfg.share_all_embeddings:
            raise ValueError("--share-input-embeddings has no effect with --share-all-embeddings: choose one")
        if cfg.share_decoder_input_output_embed:
            raise ValueError(
                "--share-input-embeddings and --share-decoder-input-output-embed together are --share-all-embeddings: "
                "give that instead"
            )
    for option in ("share_all_embeddings", "share_input_embeddings"):
        if not getattr(cfg, option):
            continue
        flag = f"--{option.replace('_', '-')}"
        check_one_dictionary(flag, task)
        if cfg.decoder_embed_dim != cfg.encoder_embed_dim:
            raise ValueError(
                f"{flag} needs one width; --encoder-embed-dim is {cfg.encoder_embed_dim} and "
                f"--decoder-embed-dim {cfg.decoder_embed_dim}"
            )
        if cfg.decoder_embed_path not in (None, cfg.encoder_embed_path):
            raise ValueError(f"{flag} has one table: give --encoder-embed-path alone")
    for option in ("share_all_embeddings", "share_decoder_input_output_embed"):
        if getattr(cfg, option) and str(cfg.readout) == "none":
            raise ValueError(
                f"--{option.replace('_', '-')} needs --readout tanh, linear, luong or mlp, as wide as word vectors"
            )
        if getattr(cfg, option) and cfg.readout_dim != cfg.decoder_embed_dim:
            raise ValueError(
                f"--{option.replace('_', '-')} needs an output layer as wide as word vectors; --readout-dim is "
                f"{cfg.readout_dim} and --decoder-embed-dim {cfg.decoder_embed_dim}"
            )


def _at_least(cfg: Any, option: str, least: int) -> None:
    if getattr(cfg, option) < least:
        raise ValueError(f"--{option.replace('_', '-')} {getattr(cfg, option)}: choose {least} or more")
