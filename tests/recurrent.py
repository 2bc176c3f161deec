"""Small models of the recurrent family; inputs and outputs of all families."""

import torch
from helpers import PAD, RECURRENT, make_dictionary, make_model, make_task

from fairseq_etads.models.rnn import PRESETS

ALL = {
    "pointer": "soft",
    "pointer_continue": True,
    "coverage": True,
    "temporal_attention": True,
    "hierarchical_attention": True,
    "sentence_attention": "extractor",
    "source_factors": "all",
    "large_vocabulary_trick": 25,
    "encoder_layers": 2,
    "decoder_hidden_size": 14,
    "share_all_embeddings": True,
}
"""Every mechanism at once; tests call this architecture "all"."""
SEE = {
    "rnn_cell": "lstm",
    "bridge": "relu",
    "merge_input": True,
    "attention_query": "after",
    "readout": "linear",
    "readout_dim": 9,
    "share_input_embeddings": True,
    "share_all_embeddings": False,
}
"""Options for the decoder of See et al. 2017; with every other mechanism it is the architecture "all_of_see"."""
EXTRACTOR = {"extractor_embed_dim": 6, "extractor_hidden_size": 4, "max_sentences": 3, "max_sentence_words": 3}
"""A small extractor, of --sentence-attention."""
SELECTED = {"encoder_by_sentence": True, "sentence_gate": True, "sentence_selector": True}
"""Options added by Li et al. 2018; with every other mechanism it is the architecture "all_selected"."""
FACTORS = ("idf", "ner", "pos", "tf")
MARK = 43
V = 44
TAIL = 9
SUMMARIES = [[5, 6, 7], [8], [9, 10, 11, 12], [13, 14], [15]]
DOCUMENTS = [[5, 6, MARK, 7, 45, 9, 10, MARK, 46, 5, 45], [30], [4, 47, 5, MARK, 8, 8, MARK], [], [21, 22, 50, 23]]


def recurrent_task(**options):
    task = make_task(tail=TAIL, mark=True, **options)
    task.factor_dictionaries = {name: make_dictionary(words=6) for name in reversed(FACTORS)}
    return task


def recurrent(arch, task=None, **options):
    """A small model; with the large-vocabulary trick over 25 of 44 words if the preset has it."""
    if arch == "all":
        return recurrent("gru_seq2seq", task, **{**ALL, **options})
    if arch == "all_selected":
        return recurrent("all_of_see", task, **{**SELECTED, **options})
    if arch == "all_of_see":
        return recurrent("all", task, **{**SEE, **options})
    sizes = dict(RECURRENT)
    if PRESETS[arch].get("large_vocabulary_trick"):
        sizes["large_vocabulary_trick"] = 25
    if PRESETS[arch].get("paper_init"):  # otherwise its word vectors would be too small for any test to detect
        sizes.update(readout_dim=12, paper_init=False)
    if PRESETS[arch].get("encoder_projection"):
        sizes["encoder_projection"] = 11
    if PRESETS[arch].get("dropout"):
        sizes.update(readout_dim=9, dropout=0.0)
    if {**PRESETS[arch], **options}.get("sentence_attention") == "extractor":
        sizes.update(EXTRACTOR)
    if "uniform_init" in PRESETS[arch]:  # likewise
        sizes["uniform_init"] = 0.0
    return make_model(arch, task or recurrent_task(), **{**sizes, **options})


def inputs(model, tokens):
    """A batch's net_input without the summaries; the factors' values are derived from the words."""
    net_input = {"src_tokens": tokens, "src_lengths": tokens.ne(PAD).sum(1)}
    if getattr(model, "factors", ()):
        values = torch.stack([(tokens * (5 + k)) % 6 + 4 for k in range(len(model.factors))], dim=2)
        net_input["factors"] = values.masked_fill(tokens.eq(PAD)[:, :, None], PAD)
    return net_input


def encode(model, tokens):
    with torch.no_grad():
        return model.encoder(**inputs(model, tokens))


def log_probs(model, tokens, previous):
    """Log-probabilities by extended id, and the extras."""
    with torch.no_grad():
        output = model(**inputs(model, tokens), prev_output_tokens=previous)
        return model.get_normalized_probs(output, log_probs=True), output[1]


def sharpened(model):
    """A model with strong preferences: attention, selection and gate far from uniform, different plans."""
    wide = ("sentences.gate.state_proj.weight", "sentences.keys.weight", "from_hidden.weight", "first_plan.weight")
    wide += ("selector.cell.weight_ih", "selector.cell.weight_hh", "sentences.gru.rnn.weight_ih_l0")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(("attention.weight", "coverage_weight")):
                parameter.mul_(20)
            elif name.endswith(wide):
                parameter.mul_(6)
    return model
