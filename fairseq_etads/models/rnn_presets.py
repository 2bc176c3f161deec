"""The architectures of the recurrent family: what each changes in the options' defaults."""

from typing import Any, Dict

_LVT2K: Dict[str, Any] = {"large_vocabulary_trick": 2000}
_CNN: Dict[str, Any] = {"encoder_embed_dim": 100, "encoder_hidden_size": 200, **_LVT2K}  # section 4.3
_FEATURES: Dict[str, Any] = {**_LVT2K, "source_factors": "pos:20,ner:15,tf:10,idf:10"}  # 55 in all, as in the paper

# See et al. 2017, section 5: width 256, vectors of 128; the rest as in their code
_SEE: Dict[str, Any] = {
    "encoder_embed_dim": 128,
    "encoder_hidden_size": 256,
    "attention_dim": 512,
    "readout_dim": 256,
    "rnn_cell": "lstm",
    "bridge": "relu",
    "merge_input": True,
    "attention_query": "after",
    "readout": "linear",
    "share_input_embeddings": True,
    "paper_init": True,
    "pointer": "soft",
}

# Chopra et al. 2016: RAS-Elman and RAS-LSTM
_RAS: Dict[str, Any] = {
    "encoder": "conv",
    "encoder_embed_dim": 512,
    "encoder_hidden_size": 512,  # the decoder's width follows
    "bridge": "zero",
    "attention_score": "dot",
    "readout": "none",
    "uniform_init": 0.05,
}

# Li, Zhu, Zhang and Zong 2018, on which they train with entailment; docs/entail.md
_ENTAIL: Dict[str, Any] = {
    "encoder_embed_dim": 300,
    "encoder_hidden_size": 512,  # the decoder's width follows
    "readout_dim": 512,
    "encoder_gate": "selective",
    "rnn_cell": "lstm",
    "attention_query": "after",
    "attention_score": "dot",
    "input_feed": "readout",
    "readout": "luong",
    "output_bias": False,
    "dropout": 0.5,
    "dropout_at": "state",
    "uniform_init": 0.1,
}

# Chen and Bansal 2018, the abstractor; docs/rewrite.md says what differs
_REWRITER: Dict[str, Any] = {
    "encoder_embed_dim": 128,
    "encoder_hidden_size": 256,  # the decoder's width follows
    "encoder_projection": 256,
    "learnt_start": True,
    "rnn_cell": "lstm",
    "bridge": "linear",
    "attention_query": "after",
    "attention_score": "dot",
    "input_feed": "readout",
    "readout": "mlp",
    "output_bias": False,
    "share_all_embeddings": True,
    "pointer": "soft",
}

# Li et al. 2018 on the decoder of See et al. 2017, with GRUs; docs/selection.md says what is settled here
_SELECTION: Dict[str, Any] = {
    **_SEE,
    "rnn_cell": "gru",
    "bridge": "tanh",
    "hierarchical_attention": True,
    "encoder_by_sentence": True,
    "sentence_gate": True,
    "sentence_selector": True,
}

PRESETS: Dict[str, Dict[str, Any]] = {
    "gru_seq2seq": {},
    "words_lvt2k": _LVT2K,
    "words_lvt5k": {"large_vocabulary_trick": 5000},
    "words_lvt2k_hieratt": {**_LVT2K, "hierarchical_attention": True},
    "feats_lvt2k": _FEATURES,
    "feats_lvt2k_ptr": {**_FEATURES, "pointer": "switch"},
    "words_lvt2k_temp_att": {**_CNN, "temporal_attention": True},
    "pointer_generator": _SEE,
    "pointer_generator_coverage": {**_SEE, "coverage": True},
    "unified_summarizer": {**_SEE, "coverage": True, "sentence_attention": "extractor"},  # Hsu et al. 2018
    "explicit_selection": _SELECTION,
    "entail_s2s": _ENTAIL,
    "sentence_rewriter": _REWRITER,
    "ras_elman": {**_RAS, "rnn_cell": "elman"},
    "ras_lstm": {**_RAS, "rnn_cell": "lstm"},
    # See et al.'s sizes on Nallapati et al.'s decoder, with one table for both sides and the output layer
    "pg_coverage": {
        "encoder_embed_dim": 128,
        "encoder_hidden_size": 256,
        "attention_dim": 512,
        "share_all_embeddings": True,
        "pointer": "soft",
        "coverage": True,
    },
}
"""Named architectures: what each changes in the defaults (Nallapati et al. 2016, tables 1 to 3; See et al. 2017)."""
