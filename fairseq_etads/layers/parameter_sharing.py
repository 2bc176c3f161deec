"""Share parameters between encoder and decoder layers (encoder-sharing Transformer, section 3.4).

Decoder layer l has the same sublayers as encoder layer l. In addition, it has a causal mask and its own bridge
attention between the two sublayers. Each sublayer is shared together with its layer norm. Encoder and decoder refer to
the same tensor objects, so the optimiser, the parameter count and ``half()`` process each shared tensor only once.
Checkpoints store each shared tensor only once, under its name in the encoder.
"""

from typing import Any, Dict

import torch
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from torch import Tensor, nn

from .encoder_attention import SELF_ATTENTION_INPUTS

PROJECTIONS = (*SELF_ATTENTION_INPUTS, "out_proj")
SUBLAYERS = ("self_attn_layer_norm", "fc1", "fc2", "final_layer_norm")


def share_sublayers(encoder_layer: Any, decoder_layer: Any) -> None:
    """Share an encoder layer's self-attention and feed-forward sublayers with a decoder layer.

    With focus-attention, only the projections are shared. The network that predicts centres and scopes belongs only to
    the encoder.

    Raises:
        ValueError: the encoder layer is wrapped for fully_sharded, which splits the parameters of each layer.
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


def map_shared_names(model: nn.Module) -> Dict[str, str]:
    """Return a dictionary that maps the decoder's names of shared parameters to the encoder's names."""
    originals: Dict[int, str] = {}
    shared = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if name.startswith("encoder.layers."):
            originals[id(parameter)] = name
        elif name.startswith("decoder.layers.") and id(parameter) in originals:
            shared[name] = originals[id(parameter)]
    return shared


def remove_shared_entries(model: nn.Module, state_dict: Dict[str, Any], prefix: str, _: Any) -> None:
    """Remove the decoder's entries for shared tensors from a state dictionary (a hook for ``state_dict``).

    Shared tensors are then stored only once, even in checkpoints that were saved on a GPU.
    """
    for name in map_shared_names(model):
        state_dict.pop(prefix + name, None)


def restore_shared_entries(model: nn.Module, state_dict: Dict[str, Tensor], prefix: str, *_: Any) -> None:
    """Add the decoder's entries for shared tensors to a state dictionary (a hook for ``load_state_dict``).

    Raises:
        ValueError: the checkpoint was trained with shared layers, but the model was built without them, or vice versa.
    """
    shared = map_shared_names(model)
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
            f"the checkpoint has no {sublayer}: it was trained with --share-encoder-decoder-layers, but this model "
            "does not have this option"
        )
