"""Sharing of parameters between encoder and decoder layers (encoder-sharing Transformer, section 3.4).

Decoder layer l is encoder layer l with a causal mask, and its own bridge attention between the two sublayers. A
sublayer is shared with its layer norm. The shared tensors are the same objects, so the optimiser, the parameter count
and ``half()`` see them once, and checkpoints store them once, under the encoder's name.
"""

from typing import Any, Dict

import torch
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from torch import Tensor, nn

from .encoder_attention import SELF_ATTENTION_INPUTS

PROJECTIONS = (*SELF_ATTENTION_INPUTS, "out_proj")
SUBLAYERS = ("self_attn_layer_norm", "fc1", "fc2", "final_layer_norm")


def share_sublayers(encoder_layer: Any, decoder_layer: Any) -> None:
    """Make the decoder layer use the encoder layer's self-attention and feed-forward sublayers.

    With focus-attention, the projections are shared; the network that predicts centre and scope belongs only to the
    encoder.

    Raises:
        ValueError: the layers are wrapped by fully_sharded, which stores parameters in another form.
    """
    if not isinstance(encoder_layer, TransformerEncoderLayerBase):
        raise ValueError(
            "--share-encoder-decoder-layers does not work with --ddp-backend fully_sharded, because it splits the "
            "parameters of each layer separately: choose another backend"
        )
    for name in PROJECTIONS:
        setattr(decoder_layer.self_attn, name, getattr(encoder_layer.self_attn, name))
    for name in SUBLAYERS:
        setattr(decoder_layer, name, getattr(encoder_layer, name))


def shared_names(model: nn.Module) -> Dict[str, str]:
    """Map the shared parameters' names in the decoder to their names in the encoder."""
    originals: Dict[int, str] = {}
    shared = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if name.startswith("encoder.layers."):
            originals[id(parameter)] = name
        elif name.startswith("decoder.layers.") and id(parameter) in originals:
            shared[name] = originals[id(parameter)]
    return shared


def leave_out_shared(model: nn.Module, state_dict: Dict[str, Any], prefix: str, _: Any) -> None:
    """Store shared tensors once (hook of ``state_dict``); otherwise a checkpoint from a GPU would hold two copies."""
    for name in shared_names(model):
        state_dict.pop(prefix + name, None)


def put_in_shared(model: nn.Module, state_dict: Dict[str, Tensor], prefix: str, *_: Any) -> None:
    """Give shared weights both of their names (hook of ``load_state_dict``).

    Raises:
        ValueError: the checkpoint was trained with sharing and the model is built without, or vice versa.
    """
    shared = shared_names(model)
    for name, original in shared.items():
        if prefix + original not in state_dict:
            continue
        own, theirs = state_dict.get(prefix + name), state_dict[prefix + original]
        if own is not None and not torch.allclose(own, theirs, rtol=0, atol=0, equal_nan=True):
            raise ValueError(
                f"--share-encoder-decoder-layers: the checkpoint has different weights in {name} and {original}, so it "
                "was trained without sharing"
            )
        state_dict[prefix + name] = theirs
    sublayer = "decoder.layers.0.fc1.weight"
    if not shared and f"{prefix}encoder.layers.0.fc1.weight" in state_dict and prefix + sublayer not in state_dict:
        raise ValueError(
            f"the checkpoint has no {sublayer}: it was trained with --share-encoder-decoder-layers, but "
            "this model does "
            "not have this option"
        )
