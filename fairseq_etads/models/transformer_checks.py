"""Checks of fairseq's options of the Transformer that this project's models inherit."""

from typing import Any

PROBABILITIES = (
    *("dropout", "attention_dropout", "activation_dropout", "adaptive_softmax_dropout"),
    *("encoder_layerdrop", "decoder_layerdrop", "quant_noise_pq"),
)


def check_inherited(config: Any, is_new: bool) -> None:
    """Check fairseq's own options.

    Args:
        config: a TransformerConfig. is_new: whether the model is built to be trained; the checkpoint of a model that
            exists is loaded even if it was trained with options that had no effect.

    Raises:
        ValueError: an option's value is impossible, does not fit another's, or has no effect.
    """
    for side in ("encoder", "decoder"):
        for name in ("layers", "embed_dim", "ffn_embed_dim", "attention_heads"):
            _check_at_least_one(config, f"{side}_{name}")
        width, heads = getattr(config, f"{side}_embed_dim"), getattr(config, f"{side}_attention_heads")
        if width % heads:
            raise ValueError(
                f"--{side}-attention-heads {heads} does not divide --{side}-embed-dim {width}: each head has an equal "
                "share of the width"
            )
    for name in PROBABILITIES:
        if not 0 <= getattr(config, name) < 1:
            raise ValueError(f"--{_flag(name)} {getattr(config, name)}: choose a probability, at least 0 and below 1")
    if config.quant_noise_scalar:
        raise ValueError(
            f"--quant-noise-scalar {config.quant_noise_scalar} works with fairseq's own embeddings only: choose "
            "--quant-noise-pq"
        )
    block = config.quant_noise_pq_block_size
    for option in (f"{side}_{name}" for side in ("encoder", "decoder") for name in ("embed_dim", "ffn_embed_dim")):
        if config.quant_noise_pq and (block < 1 or getattr(config, option) % block):
            raise ValueError(
                f"--quant-noise-pq-block-size {block} does not divide --{_flag(option)} {getattr(config, option)}"
            )
    for option in ("tie_adaptive_weights", "tie_adaptive_proj"):
        if is_new and getattr(config, option):
            raise ValueError(f"--{_flag(option)} needs fairseq's --adaptive-input, which these models do not have")
    _check_output_width(config)
    if is_new:
        _check_effects(config)


def _check_output_width(config: Any) -> None:
    """Raise ValueError if an embedding is to be an output layer of another width."""
    width, wanted = config.decoder_embed_dim, config.decoder_output_dim
    for option in ("share_all_embeddings", "share_decoder_input_output_embed"):
        if width != wanted and getattr(config, option):
            raise ValueError(
                f"--{_flag(option)} needs an output layer as wide as the embeddings, but --decoder-output-dim is "
                f"{wanted} and --decoder-embed-dim {width}"
            )
    _check_at_least_one(config, "decoder_output_dim")


def _check_effects(config: Any) -> None:
    """Raise ValueError if an option was changed that has no effect without another one."""
    if config.decoder_input_dim != config.decoder_embed_dim:
        raise ValueError(
            f"--decoder-input-dim {config.decoder_input_dim} has no effect: summaries' word vectors have "
            f"--decoder-embed-dim {config.decoder_embed_dim}"
        )
    for option, default, active, needed in (
        ("adaptive_softmax_dropout", 0, config.adaptive_softmax_cutoff, "--adaptive-softmax-cutoff"),
        ("adaptive_softmax_factor", 4, config.adaptive_softmax_cutoff, "--adaptive-softmax-cutoff"),
        ("quant_noise_pq_block_size", 8, config.quant_noise_pq, "--quant-noise-pq"),
        ("no_decoder_final_norm", False, config.decoder_normalize_before, "--decoder-normalize-before"),
    ):
        value = getattr(config, option)
        if value != default and not active:
            shown = "" if value is True else f" {value}"
            raise ValueError(f"--{_flag(option)}{shown} has no effect without {needed}")


def _check_at_least_one(config: Any, option: str) -> None:
    if getattr(config, option) < 1:
        raise ValueError(f"--{_flag(option)} {getattr(config, option)}: choose 1 or more")


def _flag(option: str) -> str:
    return option.replace("_", "-")
