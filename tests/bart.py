"""Small BART models of fairseq's own classes with random weights, saved as fairseq publishes them; a tiny GPT-2 BPE."""

import json
from argparse import Namespace
from collections import OrderedDict

import torch
from fairseq.data import Dictionary
from fairseq.data.encoders.gpt2_bpe_utils import bytes_to_unicode
from fairseq.logging import meters
from fairseq.models import ARCH_CONFIG_REGISTRY
from fairseq.models.bart import BARTModel

SIZES = {
    **dict.fromkeys(("encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 2),
    **{"encoder_embed_dim": 16, "encoder_ffn_embed_dim": 24},
}
MERGES = ["Ġ t", "h e", "Ġt he", "Ġ a", "i n", "a n", "Ġa n", "in g"]
"""Merges of pieces; "Ġ" is the space."""


def gpt2_files(folder):
    """Write encoder.json and vocab.bpe, as GPT-2 has them; returns their paths."""
    pieces = [*bytes_to_unicode().values(), *(merge.replace(" ", "") for merge in MERGES), "<|endoftext|>"]
    paths = folder / "encoder.json", folder / "vocab.bpe"
    paths[0].write_text(json.dumps({piece: number for number, piece in enumerate(pieces)}), encoding="utf-8")
    paths[1].write_text("\n".join(["#version: 0.2", *MERGES, ""]), encoding="utf-8")
    return paths


def bart_dictionary(mask=True, words=265):
    """Number all pieces in another order, some of them never seen, as in BART's dict.txt; then the mask."""
    dictionary = Dictionary()
    for rank in range(words):
        dictionary.add_symbol(str(rank * 7 % words), n=max(words - 5 - rank, 0))
    dictionary.pad_to_multiple_(8)
    if mask:
        dictionary.add_symbol("<mask>")
    return dictionary


def bart_args(arch="bart_base", **options):
    args = Namespace(arch=arch, task="denoising", criterion="cross_entropy", data="nowhere", **options)
    ARCH_CONFIG_REGISTRY[arch](args)
    return args


def make_bart(dictionary, arch="bart_base", **options):
    """Make a fairseq BART with weights large enough for each of them to matter."""
    task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    torch.manual_seed(3)
    args = bart_args(arch, **{**SIZES, **options})
    model = BARTModel.build_model(args, task)
    model.given = args
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "layer_norm" not in name and "layernorm" not in name:
                parameter.normal_(std=0.3)
            elif name.endswith("bias"):
                parameter.normal_(std=0.1)
    return model.eval()


def save_bart(model, dictionary, folder, change=lambda weights: weights):
    """Save model.pt and dict.txt in fairseq's form of 2019: torch's old format, options in a Namespace, averages as
    objects.
    """
    folder.mkdir(exist_ok=True)
    average = type("AverageMeter", (meters.AverageMeter,), {"__module__": "fairseq.meters"})
    real, meters.AverageMeter = meters.AverageMeter, average  # pickle finds classes by their names
    try:
        state = {
            "args": model.given,
            "model": change(OrderedDict((name, value.clone()) for name, value in model.state_dict().items())),
            "optimizer_history": [
                {"criterion_name": "CrossEntropyCriterion", "optimizer_name": "FairseqAdam", "num_updates": 9}
                | {"lr_scheduler_state": {"best": 1.0}}
            ],
            "extra_state": {"train_iterator": {"epoch": 1}, "train_meters": OrderedDict(train_loss=average())},
            "last_optimizer_state": {},
        }
        torch.save(state, folder / "model.pt", _use_new_zipfile_serialization=False)
    finally:
        meters.AverageMeter = real
    save_dictionary(dictionary, folder / "dict.txt")
    return folder / "model.pt"


def save_dictionary(dictionary, path):
    """Save a dictionary as fairseq publishes it: all words except the special ones and the mask."""
    lines = zip(dictionary.symbols[dictionary.nspecial :], dictionary.count[dictionary.nspecial :])
    path.write_text("".join(f"{word} {count}\n" for word, count in lines if word != "<mask>"), encoding="utf-8")
    return path
