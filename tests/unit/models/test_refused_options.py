"""Options of models: each value out of bounds or without effect is refused, and so is what does not go together."""

import math
from dataclasses import fields

import pytest
from fairseq.models import ARCH_MODEL_REGISTRY
from helpers import make_dictionary, make_task
from recurrent import recurrent
from small_models import model_options
from steps import steps_task, train_and_decode

from fairseq_etads.models import rnn
from fairseq_etads.platform.command_options import format_option_name, get_default
from fairseq_etads.platform.errors import InputError

ARCHS = ("etads", "gru_seq2seq", "convs2s", "abs", "word_tagger", "sentence_extractor", "pointer_extractor")
APART, SHARED = {"share_all_embeddings": False}, {"share_all_embeddings": True}
TIED, CLUSTERS = {"share_decoder_input_output_embed": True}, {"adaptive_softmax_cutoff": [10, 20]}
TWICE = {"share_encoder_decoder_layers": True}
OF_SENTENCES, CONV = {"hierarchical_attention": True}, {"encoder": "conv", "bridge": "zero"}
REFUSED = [
    ("etads", {"decoder_embed_path": "/nowhere"}, "--share-all-embeddings not compatible with --decoder-embed-path"),
    ("etads", {"encoder_embed_dim": 32}, "--encoder-embed-dim to match --decoder-embed-dim"),
    ("etads", {"encoder_attention_heads": 3}, "--encoder-attention-heads 3 does not divide --encoder-embed-dim 16"),
    ("etads", {"max_source_positions": 3}, "--truncate-source 400 needs 401 positions"),
    ("etads", {"max_source_positions": 3, "encoder_learned_pos": False}, "--max-source-positions 3 is less than"),
    ("etads", {"decoder_input_dim": 24}, "--decoder-input-dim 24 needs the width of"),
    ("etads", {"decoder_output_dim": 24}, "--share-all-embeddings needs an output layer as wide as the embeddings"),
    ("etads", {**CLUSTERS, "pointer": "soft"}, "does not go with --adaptive-softmax"),
    ("etads", {**CLUSTERS, "tie_adaptive_weights": True}, "weights has no effect without fai"),
    ("etads", {"focus_center": "relative", "focus_layers": "none"}, "--focus-center relative has no effect with --foc"),
    ("etads", {"focus_initial_scope": "2,0"}, '--focus-initial-scope "2,0": "0" is not a scope; choose a number of to'),
    ("etads", {"pointer": "soft", "pointer_initial_generate": 1.0}, "--pointer-initial-generate 1.0: choose a probabi"),
    ("etads", {"encoder_neighbours": 1, "no_token_positional_embeddings": True}, "does not go with --no-token-positio"),
    ("etads", {"output_bias": True, **CLUSTERS, **APART}, "--output-bias does not go with --adaptive-softmax-cutoff"),
    ("etads", {"aggregation": "add", "encoder_layers": 4, "aggregation_layers": 4}, "with 4 layers"),
    ("etads", {"aggregation": "add", "encoder_layerdrop": 0.1}, "--aggregation add does not go with --encoder-layerd"),
    ("etads", {"embed_from_text": True, "encoder_embed_path": "/nowhere"}, "--embed-from-text does not go with --enco"),
    ("etads", {**TWICE, "decoder_layers": 3}, "layers is"),
    ("gru_seq2seq", {"decoder_embed_path": "/nowhere"}, '--decoder-embed-path "/nowhere": no such file'),
    ("gru_seq2seq", {"encoder": "conv"}, "--encoder conv needs --bridge zero, not --bridge tanh"),
    ("gru_seq2seq", {"learnt_start": True, **CONV}, "--learnt-start does not go with --e"),
    ("gru_seq2seq", {"share_input_embeddings": True, **SHARED}, "has no effect with --share-all-e"),
    ("gru_seq2seq", {"sentence_selector": True, **OF_SENTENCES, "bridge": "zero"}, "--sentence-selector does not g"),
    ("gru_seq2seq", {"closed_book_decoder": True, "large_vocabulary_trick": 20}, "--large-vocabulary-trick 20: this d"),
    ("convs2s", {"encoder_embed_dim": 9}, "--decoder-embed-dim 12 needs equal widths"),
    ("convs2s", {"encoder_layers": "3"}, '--encoder-layers "3": choose convo'),
    ("convs2s", {"decoder_attention": "[True]"}, "a list of True and False for each of the 3 layers of the decoder"),
    ("convs2s", {"share_input_output_embed": True}, "--decoder-out-embed-dim is 10 and --decoder-embed-dim is 12"),
    ("etads", {"focus_layers": "²", "encoder_layers": 4}, '--focus-layers "²"'),
    ("pointer_generator", TIED, "equivalent to --share-all-embeddings; use that"),
    ("pointer_generator", {"decoder_embed_path": "x"}, "--share-input-embeddings shares one table: give only --encode"),
    ("ras_elman", {"uniform_init": 0.1, "paper_init": True}, "--uniform-init 0.1 does not go with --paper-init: both"),
]
"""Architecture, options, and a part of the message."""


def declared():
    """Values just out of the declared bounds, and options of models without any that they need."""
    for name in ARCHS:
        for option in fields(getattr(ARCH_MODEL_REGISTRY[name], "__dataclass")):
            default, bounds = get_default(option), option.metadata.get("bounds")
            if bounds:
                low = bounds.above if bounds.at_least is None else math.ceil(bounds.at_least) - 1
                for value in (low, *([bounds.below] if bounds.below else []), *([4] if bounds.odd else [])):
                    yield name, {option.name: type(default or 0)(value)}, f"{format_option_name(option.name)} {value:g}"
            if option.metadata.get("needs"):
                changed = {"bool": True, "str": "frequencies", "int": 3}.get(type(default).__name__, 0.5)
                yield name, {option.name: changed}, "has no effect without"


@pytest.mark.parametrize("name,options,message", [*REFUSED, *declared()], ids=str)
def test_what_is_refused(name, options, message):
    with pytest.raises((ValueError, InputError, FileNotFoundError)) as error:
        if name in rnn.PRESETS:
            recurrent(name, **options)
        else:
            steps_task().build_model(model_options(name, options))
    assert message in str(error.value)


@pytest.mark.parametrize(
    "arch, options, trained, of_task, message",
    [
        ("etads", {}, {}, {"truncate_source": 30}, r"has 31 learned positions.*--truncate-source 30"),
        ("gru_seq2seq", {}, {}, {"words": 6}, r"the source dictionary has 44 known words.* 10: .*DATA"),
        ("abs", {}, {}, {"target_words": 9}, r"the target dictionary has 44 known words.* 9: "),
        ("gru_seq2seq", {}, {"source_factors": "tf"}, {}, r"source factors tf \(10 values\) but DATA has \(none\)"),
        ("etads", TWICE, {}, {}, r"--share-encoder-decoder-layers: .*decoder\.layers\.0.*without sharing"),
        ("etads", {}, TWICE, {}, "trained with --share-encoder-decoder-layers, but this model does not"),
    ],
    ids=str,
)
def test_weights_of_a_model_of_other_sizes_or_data_are_refused_in_words(arch, options, trained, of_task, message):
    def build(options, **of_task):
        task = make_task(**of_task)
        task.factor_dictionaries = {"tf": make_dictionary(words=6)}
        return task.build_model(model_options(arch, options))

    with pytest.raises(ValueError, match=message):
        build(options).load_state_dict(build(trained, **of_task).state_dict())


def test_what_the_data_lacks_is_refused():
    task = make_task()
    task.factor_dictionaries = {}
    for arch, options, message in (
        ("gru_seq2seq", {"source_factors": "all"}, r"--source-factors all: DATA has no factors\.json"),
        ("words_lvt2k_hieratt", {}, '--hierarchical-attention needs "<q>" at the ends of sentences'),
    ):
        with pytest.raises(ValueError, match=message):
            recurrent(arch, task, **options)
    task.factor_dictionaries = {"keys": make_dictionary(words=3)}
    with pytest.raises(ValueError, match='torch reserves the name "keys"'):
        recurrent("gru_seq2seq", task, source_factors="all")
    task.tgt_dict = make_dictionary(words=20)
    with pytest.raises(ValueError, match="needs one dictionary"):
        recurrent("gru_seq2seq", task, pointer="soft")


def test_all_noise_and_what_only_saves_memory_go_together():
    """Also with --coverage-loss, with which only --decoder-layerdrop without a pointer is refused."""
    at_once = {
        **{"decoder_layerdrop": 0.5, "encoder_layerdrop": 0.5, "pointer": "soft", "encoder_gate": True},
        **{"layernorm_embedding": True, "no_scale_embedding": True, "checkpoint_activations": True},
        **{"offload_activations": True, "quant_noise_pq": 0.1, "encoder_normalize_before": True},
        **{"decoder_normalize_before": True, "no_decoder_final_norm": True, "no_token_positional_embeddings": True},
        **{"attention_dropout": 0.1, "activation_dropout": 0.1, "dropout": 0.3, **TWICE},
        **{"min_params_to_wrap": 5, "quant_noise_pq_block_size": 4},
    }
    train_and_decode(steps_task(), model_options("etads", at_once), steps=4, coverage_loss=1.0)
