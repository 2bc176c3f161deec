"""Every option of every family: a model with it trains, decodes and is loaded again, or it is refused with a
message.
"""

import copy
import logging
from dataclasses import fields

import convolutional
import language_models
import pytest
import torch
from helpers import RECURRENT, SMALL, model_config
from omegaconf import open_dict
from steps import make_sample, steps_task, train_and_decode

from fairseq_etads.models.rnn_options import RecurrentConfig
from fairseq_etads.models.transformer_options import FlatTransformerConfig
from fairseq_etads.platform.errors import InputError
from fairseq_etads.systems.abs.options import NeuralLanguageModelConfig
from fairseq_etads.systems.convs2s.options import ConvolutionalConfig

AS_WIDE = {"encoder_embed_dim": 16, "decoder_embed_dim": 16, "decoder_input_dim": 16, "decoder_output_dim": 16}
APART = {"share_all_embeddings": False}
EXTRACTS = {"sentence_attention": "extractor"}
CLUSTERS = {"adaptive_softmax_cutoff": [10, 20]}
TRANSFORMER = {
    "activation_fn": [{"activation_fn": name} for name in ("gelu", "gelu_fast", "gelu_accurate", "tanh", "linear")],
    "dropout": [{"dropout": 0.3}, ({"dropout": 1.0}, "--dropout 1.0: choose a probability")],
    "attention_dropout": [{"attention_dropout": 0.3}, ({"attention_dropout": -0.5}, "--attention-dropout -0.5: cho")],
    "activation_dropout": [{"activation_dropout": 0.3}],
    "encoder_embed_path": [({"encoder_embed_path": "/nowhere"}, '--encoder-embed-path "/nowhere": no such file')],
    "decoder_embed_path": [
        ({"decoder_embed_path": "/nowhere"}, "--share-all-embeddings not compatible with --decoder-embed-path"),
        ({"decoder_embed_path": "/nowhere", **APART}, '--decoder-embed-path "/nowhere": no such file'),
    ],
    "encoder_embed_dim": [AS_WIDE, ({"encoder_embed_dim": 16}, "--encoder-embed-dim to match --decoder-embed-dim")],
    "decoder_embed_dim": [{**AS_WIDE, "encoder_embed_dim": 64, **APART}],
    "encoder_ffn_embed_dim": [{"encoder_ffn_embed_dim": 8}, ({"encoder_ffn_embed_dim": 0}, "-dim 0: choose 1 or more")],
    "decoder_ffn_embed_dim": [{"decoder_ffn_embed_dim": 8}],
    "encoder_layers": [{"encoder_layers": 1}, ({"encoder_layers": 0}, "--encoder-layers 0: choose 1 or more")],
    "decoder_layers": [{"decoder_layers": 3}, ({"decoder_layers": 0}, "--decoder-layers 0: choose 1 or more")],
    "encoder_attention_heads": [
        {"encoder_attention_heads": 1},
        ({"encoder_attention_heads": 3}, "--encoder-attention-heads 3 does not divide --encoder-embed-dim 32"),
    ],
    "decoder_attention_heads": [
        {"decoder_attention_heads": 1},
        ({"decoder_attention_heads": 0}, "--decoder-attention-heads 0: choose 1 or more"),
    ],
    "encoder_layerdrop": [{"encoder_layerdrop": 0.5}, ({"encoder_layerdrop": 1.5}, "--encoder-layerdrop 1.5: choose")],
    "decoder_layerdrop": [{"decoder_layerdrop": 0.5}, {"decoder_layerdrop": 0.5, "pointer": "soft"}],
    "max_source_positions": [
        {"max_source_positions": 401},
        ({"max_source_positions": 3}, "--truncate-source 400 needs 401 positions"),
        ({"max_source_positions": 3, "encoder_learned_pos": False}, "--max-source-positions 3 is less than"),
    ],
    "max_target_positions": [
        {"max_target_positions": 400},
        ({"max_target_positions": 3}, "--truncate-target 100 needs 101 positions"),
    ],
    "decoder_input_dim": [({"decoder_input_dim": 24}, "--decoder-input-dim 24 needs the width of")],
    "decoder_output_dim": [
        ({"decoder_output_dim": 24}, "--share-all-embeddings needs an output layer as wide as the embeddings"),
        (
            {"decoder_output_dim": 24, **APART, "share_decoder_input_output_embed": True},
            "--share-decoder-input-output-embed needs an output layer",
        ),
        {"decoder_output_dim": 24, **APART},
        {"decoder_output_dim": 24, **APART, "pointer": "soft"},
    ],
    "adaptive_softmax_cutoff": [CLUSTERS, ({**CLUSTERS, "pointer": "soft"}, "does not go with --adaptive-softmax")],
    "adaptive_softmax_dropout": [
        {**CLUSTERS, "adaptive_softmax_dropout": 0.2},
        ({"adaptive_softmax_dropout": 0.2}, "has no effect without --adaptive-softmax-cutoff"),
    ],
    "adaptive_softmax_factor": [
        {**CLUSTERS, "adaptive_softmax_factor": 2},
        ({"adaptive_softmax_factor": 2}, "has no effect without --adaptive-softmax-cutoff"),
    ],
    "tie_adaptive_weights": [({**CLUSTERS, "tie_adaptive_weights": True}, "weights has no effect without fairseq's")],
    "tie_adaptive_proj": [({**CLUSTERS, "tie_adaptive_proj": True}, "-proj has no effect without fairseq's")],
    "quant_noise_pq": [{"quant_noise_pq": 0.2}, ({"quant_noise_pq": 2.0}, "--quant-noise-pq 2.0: choose")],
    "quant_noise_pq_block_size": [
        {"quant_noise_pq": 0.2, "quant_noise_pq_block_size": 4},
        ({"quant_noise_pq_block_size": 4}, "--quant-noise-pq-block-size 4 has no effect without --quant-noise-pq"),
        ({"quant_noise_pq": 0.2, "quant_noise_pq_block_size": 5}, "-size 5 does not divide --encoder-embed-dim"),
    ],
    "quant_noise_scalar": [
        ({"quant_noise_scalar": 0.3}, "--quant-noise-scalar 0.3 has no effect without fairseq's own")
    ],
    "min_params_to_wrap": [{"min_params_to_wrap": 5}],
    "no_decoder_final_norm": [
        {"no_decoder_final_norm": True, "decoder_normalize_before": True},
        ({"no_decoder_final_norm": True}, "--no-decoder-final-norm has no effect without --decoder-normalize-before"),
    ],
    "focus_layers": [{"focus_layers": "none"}, {"focus_layers": "2"}, ({"focus_layers": "3"}, "--focus-layers")],
    "saliency_layers": [{"saliency_layers": "none"}, ({"saliency_layers": "x"}, "--saliency-layers")],
    "focus_center": [
        {"focus_center": "relative"},
        ({"focus_center": "relative", "focus_layers": "none"}, "--focus-center relative has no effect with --focus-la"),
    ],
    "focus_initial_scope": [
        {"focus_initial_scope": "3"},
        {"focus_initial_scope": "2, half"},
        ({"focus_initial_scope": "2,0"}, '--focus-initial-scope "2,0": "0" is not a scope; choose a number of tokens'),
        ({"focus_initial_scope": "1,2,3,4,5"}, "5 scopes for 4 heads"),
        ({"focus_initial_scope": "3", "focus_layers": "none"}, "--focus-initial-scope 3 has no effect"),
    ],
    "focus_strength": [
        {"focus_strength": "learned"},
        ({"focus_strength": "learned", "focus_layers": "none"}, "--focus-strength learned has no effect"),
    ],
    "attention_kernel": [
        {"attention_kernel": "plain"},
        {"attention_kernel": "flex"},
        (
            {"attention_kernel": "fused", "focus_layers": "none"},
            "--attention-kernel fused has no effect with --focus-la",
        ),
    ],
    "saliency_gate": [
        {"saliency_gate": "open"},
        {"saliency_gate": "normalised"},
        ({"saliency_gate": "open", "saliency_layers": "none"}, "--saliency-gate open has no effect with --saliency-la"),
    ],
    "pointer": [{"pointer": "soft"}, {"pointer": "switch"}],
    "pointer_continue": [
        {"pointer": "soft", "pointer_continue": True},
        ({"pointer_continue": True}, "without --pointer soft or"),
    ],
    "pointer_initial_generate": [
        {"pointer": "soft", "pointer_initial_generate": 0.9},
        ({"pointer_initial_generate": 0.9}, "--pointer-initial-generate 0.9 has no effect without --pointer soft or"),
        ({"pointer": "soft", "pointer_initial_generate": 1.0}, "--pointer-initial-generate 1.0: choose a probability"),
    ],
    "aggregation": [{"aggregation": name} for name in ("add", "proj", "attn")],
    "aggregation_layers": [
        {"encoder_layers": 3, "aggregation": "proj", "aggregation_layers": 2},
        ({"aggregation_layers": 2}, "--aggregation-layers 2 has no effect without --aggregation"),
    ],
    "share_encoder_decoder_layers": [{"share_encoder_decoder_layers": True, "decoder_layerdrop": 0.5}],
    "encoder_neighbours": [
        {"encoder_neighbours": 2},
        {"encoder_neighbours": 1, "pointer": "soft"},
        ({"encoder_neighbours": -1}, "--encoder-neighbours -1: choose 0"),
        ({"encoder_neighbours": 1, "no_token_positional_embeddings": True}, "does not go with --no-token-positional"),
    ],
    "decoder_neighbours": [
        {"decoder_neighbours": 2},
        {"decoder_neighbours": 1, **APART, "decoder_learned_pos": False},
        ({"decoder_neighbours": -1}, "--decoder-neighbours -1: choose 0"),
        ({"decoder_neighbours": 1, "no_token_positional_embeddings": True}, "does not go with --no-token-positional"),
    ],
    "source_factors": [
        {"source_factors": "pos:3"},
        {"source_factors": "pos", "encoder_neighbours": 1},
        ({"source_factors": "x"}, 'there is no factor "x"'),
    ],
    "output_bias_init": [
        ({"output_bias_init": "frequencies"}, "--output-bias-init frequencies has no effect without --output-bias")
    ],
    "embed_from_text": [
        (
            {"embed_from_text": True, "encoder_embed_path": "/nowhere"},
            "--embed-from-text does not go with --encoder-embed-path /nowhere: choose one",
        )
    ],
}
"""Option -> cases; a case is working options, or options and a part of the message that refuses them."""
RECURRENTS = {
    "encoder_embed_dim": [{"encoder_embed_dim": 8, "decoder_embed_dim": 12}, ({"encoder_embed_dim": 0}, "choose 1 or")],
    "encoder_hidden_size": [{"encoder_hidden_size": 8}, ({"encoder_hidden_size": 0}, "choose 1 or more")],
    "encoder_layers": [{"encoder_layers": 2}, ({"encoder_layers": 0}, "--encoder-layers 0: choose 1 or more")],
    "decoder_embed_dim": [{"decoder_embed_dim": 8}, ({"decoder_embed_dim": 0}, "choose 1 or more")],
    "decoder_hidden_size": [{"decoder_hidden_size": 8}, ({"decoder_hidden_size": 0}, "choose 1 or more")],
    "attention_dim": [{"attention_dim": 8}, ({"attention_dim": 0}, "--attention-dim 0: choose 1 or more")],
    "dropout": [{"dropout": 0.3}, ({"dropout": 1.0}, "--dropout 1.0: choose a probability")],
    "encoder_embed_path": [({"encoder_embed_path": "/nowhere"}, '--encoder-embed-path "/nowhere": no such file')],
    "decoder_embed_path": [({"decoder_embed_path": "/nowhere"}, '--decoder-embed-path "/nowhere": no such file')],
    "readout_dim": [
        {"readout_dim": 8},
        ({"readout_dim": 0}, "--readout-dim 0: choose 1 or more"),
        ({"readout_dim": 8, "share_all_embeddings": True}, "--share-all-embeddings needs an output layer as wide as"),
    ],
    "rnn_cell": [{"rnn_cell": "lstm"}, {"rnn_cell": "lstm", "encoder_layers": 2, "dropout": 0.3}],
    "bridge": [{"bridge": "relu"}, {"bridge": "zero"}],
    "encoder": [
        {"encoder": "conv", "bridge": "zero"},
        ({"encoder": "conv"}, "--encoder conv needs --bridge zero, not --bridge tanh"),
    ],
    "encoder_window": [
        {"encoder": "conv", "bridge": "zero", "encoder_window": 3, "rnn_cell": "elman", "source_factors": "pos:3"},
        ({"encoder_window": 3}, "--encoder-window 3 has no effect without --encoder conv"),
    ],
    "attention_score": [
        {"attention_score": "dot"},
        {"attention_score": "dot", "encoder": "conv", "bridge": "zero", "pointer": "soft"},
    ],
    "uniform_init": [{"uniform_init": 0.1}, ({"uniform_init": -0.1}, "--uniform-init -0.1: choose 0 or more")],
    "attention_query": [{"attention_query": "after"}],
    "encoder_gate": [
        {"encoder_gate": "selective", "hierarchical_attention": True, "source_factors": "pos:3"},
        ({"encoder_gate": "selective", "encoder": "conv", "bridge": "zero"}, "the gate needs the last states"),
    ],
    "input_feed": [
        {"input_feed": "readout", "attention_query": "after", "pointer": "switch", "merge_input": True},
        ({"input_feed": "readout"}, "--input-feed readout needs --attention-query after"),
    ],
    "encoder_projection": [
        {
            "encoder_projection": 7,
            "attention_score": "dot",
            "pointer": "soft",
            "rnn_cell": "lstm",
            "learnt_start": True,
        },
        (
            {"encoder_projection": 7, "hierarchical_attention": True},
            "--encoder-projection 7 does not go with --hierarchical-attention",
        ),
        ({"encoder_projection": -1}, "--encoder-projection -1: choose 0 or more"),
    ],
    "learnt_start": [
        {"learnt_start": True, "encoder_layers": 2, "bridge": "linear"},
        ({"learnt_start": True, "encoder": "conv", "bridge": "zero"}, "--learnt-start does not go with --encoder conv"),
    ],
    "dropout_at": [{"dropout_at": "state", "dropout": 0.3, "large_vocabulary_trick": 20}],
    "readout": [{"readout": "linear"}, {"readout": "none"}, {"readout": "luong"}, {"readout": "mlp"}],
    "share_input_embeddings": [
        {"share_input_embeddings": True},
        ({"share_input_embeddings": True, "share_all_embeddings": True}, "has no effect with --share-all-embeddings"),
    ],
    "encoder_by_sentence": [
        {"encoder_by_sentence": True, "hierarchical_attention": True, "source_factors": "pos:3"},
        ({"encoder_by_sentence": True}, "--encoder-by-sentence has no effect without --hierarchical-attention"),
    ],
    "sentence_gate": [
        {"sentence_gate": True, "hierarchical_attention": True},
        ({"sentence_gate": True}, "--sentence-gate has no effect without --hierarchical-attention"),
    ],
    "sentence_selector": [
        {"sentence_selector": True, "hierarchical_attention": True, "large_vocabulary_trick": 20},
        {"sentence_selector": True, "hierarchical_attention": True, "attention_score": "dot", "bridge": "relu"},
        ({"sentence_selector": True}, "--sentence-selector has no effect without --hierarchical-attention"),
        (
            {"sentence_selector": True, "hierarchical_attention": True, "bridge": "zero"},
            "--sentence-selector does not go with --bridge zero: each sentence",
        ),
    ],
    "closed_book_decoder": [
        {"closed_book_decoder": True},
        {"closed_book_decoder": True, "rnn_cell": "lstm", "bridge": "relu", "pointer": "soft"},
        ({"closed_book_decoder": True, "large_vocabulary_trick": 20}, "--large-vocabulary-trick 20: this decoder"),
    ],
    "closed_book_cut": [
        {"closed_book_decoder": True, "closed_book_cut": True},
        ({"closed_book_cut": True}, "--closed-book-cut has no effect without --closed-book-decoder"),
    ],
    "large_vocabulary_trick": [{"large_vocabulary_trick": 20}, ({"large_vocabulary_trick": -1}, "choose 0 or more")],
    "pointer": [{"pointer": "soft"}, {"pointer": "switch", "large_vocabulary_trick": 20}],
    "pointer_continue": [{"pointer": "switch", "pointer_continue": True}],
    "sentence_attention": [
        EXTRACTS,
        {**EXTRACTS, "encoder": "conv", "bridge": "zero", "attention_score": "dot", "pointer": "switch"},
    ],
    "extractor_embed_dim": [
        {**EXTRACTS, "extractor_embed_dim": 8},
        ({"extractor_embed_dim": 8}, "--extractor-embed-dim 8 has no effect without --sentence-attention extractor"),
    ],
    "extractor_hidden_size": [
        {**EXTRACTS, "extractor_hidden_size": 8},
        ({**EXTRACTS, "extractor_hidden_size": 0}, "--extractor-hidden-size 0: choose 1 or more"),
    ],
    "max_sentences": [{**EXTRACTS, "max_sentences": 1}, ({"max_sentences": 9}, "--max-sentences 9 has no effect")],
    "max_sentence_words": [{**EXTRACTS, "max_sentence_words": 1}],
    "source_factors": [{"source_factors": "pos:3"}, ({"source_factors": "x"}, 'there is no factor "x"')],
}
CONVOLUTIONS = {
    "dropout": [{"dropout": 0.3}, ({"dropout": 1.0}, "--dropout 1.0: choose a probability")],
    "encoder_embed_dim": [
        {"encoder_embed_dim": 9, "decoder_embed_dim": 9},
        ({"encoder_embed_dim": 9}, "--decoder-embed-dim 12 needs equal widths"),
        ({"encoder_embed_dim": 0}, "--encoder-embed-dim 0: choose 1 or more"),
    ],
    "decoder_embed_dim": [({"decoder_embed_dim": 9}, "--decoder-embed-dim 9 needs equal widths")],
    "encoder_embed_path": [({"encoder_embed_path": "/nowhere"}, '--encoder-embed-path "/nowhere": no such file')],
    "decoder_embed_path": [({"decoder_embed_path": "/nowhere"}, '--decoder-embed-path "/nowhere": no such file')],
    "encoder_layers": [{"encoder_layers": "[(8, 5)]"}, ({"encoder_layers": "3"}, '--encoder-layers "3": choose convo')],
    "decoder_layers": [
        {"decoder_layers": "[(8, 1)] * 2 + [(9, 2)]"},
        ({"decoder_layers": "[]"}, '--decoder-layers "[]": choose one layer or more'),
    ],
    "decoder_out_embed_dim": [{"decoder_out_embed_dim": 7}, ({"decoder_out_embed_dim": 0}, "choose 1 or more")],
    "decoder_attention": [
        {"decoder_attention": "[False, True, False]"},
        ({"decoder_attention": "[True]"}, "a list of True and False for each of the 3 layers of the decoder"),
    ],
    "share_input_output_embed": [
        {"share_input_output_embed": True, "decoder_out_embed_dim": 12},
        ({"share_input_output_embed": True}, "--decoder-out-embed-dim is 10 and --decoder-embed-dim is 12"),
    ],
    "max_source_positions": [
        {"max_source_positions": 401},
        ({"max_source_positions": 3}, "--truncate-source 400 needs 401 positions"),
    ],
    "max_target_positions": [
        {"max_target_positions": 400},
        ({"max_target_positions": 3}, "--truncate-target 100 needs 101 positions"),
    ],
    "pointer": [{"pointer": "soft"}, {"pointer": "switch"}],
    "pointer_continue": [
        {"pointer": "soft", "pointer_continue": True},
        ({"pointer_continue": True}, "without --pointer soft or"),
    ],
}
LANGUAGE_MODELS = {
    **{
        name: [{name: 7}, ({name: 0}, f"--{name.replace('_', '-')} 0: choose 1 or more")]
        for name in ("encoder_embed_dim", "decoder_embed_dim", "decoder_context_dim", "decoder_hidden_size")
    },
    "encoder_window": [{"encoder_window": 1}, ({"encoder_window": 4}, "--encoder-window 4: choose an odd number")],
    "source_marks": [{"source_marks": 0}, {"source_marks": 1}, ({"source_marks": -1}, "--source-marks -1: choose 0")],
    "context_size": [{"context_size": 1}, ({"context_size": 0}, "--context-size 0: choose 1 or more")],
    "max_row_norm": [{"max_row_norm": 0.0}, ({"max_row_norm": -1.0}, "--max-row-norm -1.0: choose 0 or more")],
    "pointer": [{"pointer": "soft"}, {"pointer": "switch"}],
    "pointer_continue": [
        {"pointer": "soft", "pointer_continue": True},
        ({"pointer_continue": True}, "without --pointer soft or"),
    ],
}
FAMILIES = {
    "etads": (FlatTransformerConfig, SMALL, TRANSFORMER),
    "gru_seq2seq": (RecurrentConfig, {**RECURRENT, "decoder_embed_dim": 16}, RECURRENTS),
    "convs2s": (ConvolutionalConfig, convolutional.SIZES, CONVOLUTIONS),
    "abs": (NeuralLanguageModelConfig, language_models.SIZES, LANGUAGE_MODELS),
}


def cases():
    """All options of each family; switches are simply set, and need no entry in the tables."""
    for arch, (config, _, table) in FAMILIES.items():
        for option in fields(config):
            if option.name == "_name":
                continue
            switch = [{option.name: not option.default}] if option.type is bool else None
            found = table.get(option.name, switch)
            assert found, f"{option.name}: say in this file what is tried"
            for case in found:
                yield pytest.param(arch, *(case if isinstance(case, tuple) else (case, None)), id=f"{arch}-{case}")


def options_of(arch, **options):
    """The model's options; the configuration is composed once, because Hydra takes half a second."""
    config = copy.deepcopy(model_config(arch, **FAMILIES[arch][1]))
    with open_dict(config):
        for name, value in options.items():
            config[name] = value
    return config


def criterion_of(options):
    return "adaptive_loss" if "adaptive_softmax_cutoff" in options else "summarization_nll"


@pytest.mark.parametrize("arch,options,message", cases())
def test_each_option_works_or_is_refused_in_words(arch, options, message):
    task, criterion = steps_task(), criterion_of(options)
    extra = {"ddp_backend": "legacy_ddp"} if criterion == "adaptive_loss" else {}
    if "closed_book_decoder" in options:
        extra = {"closed_book_weight": 0.5}
    if message is not None:
        with pytest.raises((ValueError, InputError, FileNotFoundError)) as error:
            train_and_decode(task, options_of(arch, **options), criterion, **extra)
        assert message in str(error.value)
        return
    model = train_and_decode(task, options_of(arch, **options), criterion, **extra)
    again = steps_task().build_model(options_of(arch, **options))
    again.load_state_dict(model.state_dict())
    sample = make_sample(model)
    with torch.no_grad():
        outputs = [m.eval()(**sample["net_input"]) for m in (model, again)]
        first, second = (m.get_normalized_probs(o, True, sample) for m, o in zip((model, again), outputs))
    assert torch.equal(first, second)


@pytest.mark.parametrize("arch", FAMILIES)
def test_each_option_works_with_a_coverage_loss_and_half_of_them_at_once(arch, caplog):
    """With --coverage-loss, only --decoder-layerdrop without a pointer is refused (test_checks.py)."""
    caplog.set_level(logging.ERROR)
    at_once = {
        "etads": {
            **{"decoder_layerdrop": 0.5, "encoder_layerdrop": 0.5, "pointer": "soft", "encoder_gate": True},
            **{"layernorm_embedding": True, "no_scale_embedding": True, "checkpoint_activations": True},
            **{"offload_activations": True, "quant_noise_pq": 0.1, "encoder_normalize_before": True},
            **{"decoder_normalize_before": True, "no_decoder_final_norm": True, "no_token_positional_embeddings": True},
            **{"share_encoder_decoder_layers": True, "attention_dropout": 0.1},
        },
        "gru_seq2seq": {
            **{"coverage": True, "temporal_attention": True, "hierarchical_attention": True, "pointer": "soft"},
            **{"encoder_layers": 2, "dropout": 0.1, "share_all_embeddings": True, "large_vocabulary_trick": 20},
            **EXTRACTS,
        },
        "convs2s": {
            "pointer": "soft",
            "pointer_continue": True,
            "dropout": 0.1,
            "decoder_attention": "[False, True, True]",
        },
        "abs": {"pointer": "soft", "pointer_continue": True, "source_marks": 1, "context_size": 2},
    }[arch]
    train_and_decode(steps_task(), options_of(arch, **at_once), steps=4, coverage_loss=1.0)
    train_and_decode(steps_task(), options_of(arch), coverage_loss=1.0)
