"""Use external models, mainly fairseq's own, with ``--task summarization``.

External models do not support the copy tail of the dictionary: they can read and generate only known words. Every other
word in their input is replaced with the unknown word.
"""

import ast
import copy
import re
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY, BaseFairseqModel, FairseqEncoderDecoderModel
from fairseq.models.fconv import FConvModel
from fairseq.models.fconv_self_att import FConvModelSelfAtt
from fairseq.models.nat import FairseqNATModel
from fairseq.models.roberta.enc_dec import RobertaEncDecModel
from fairseq.modules import AdaptiveInput, BeamableMM
from omegaconf import OmegaConf
from torch import Tensor, nn

from ..platform.command_options import format_option, format_option_name
from ..vocabulary.dictionary import count_known_words, remove_copy_tail
from ..vocabulary.output import hide_unknown_words
from .common import RIGHT_PADDING, SummarizationModel, check_data_suits_architecture

_NOT_OF_TEXT = tuple(
    f"fairseq.models.{name}." for name in ("speech_to_text", "speech_to_speech", "text_to_speech", "wav2vec", "hubert")
)


_EVALUATED = re.compile(
    r"(en|de)coder_(layers|attention|kernel_size_list)|self_attention|project_input|gated_attention|downsample|pretrained|"
    r"adaptive_(softmax|input)_cutoff|character_filters"
)
"""Pattern for the names of options that fairseq evaluates as Python code.

The values of these options may come from an untrusted checkpoint.
"""
_LITERALS = re.compile(r"([\s\d.,()\[\]*+-]|True|False|None){0,2000}")

DEFAULT_POSITIONS = 1024
"""Default number of positions in fairseq's models."""


def get_model_class(cfg: Any) -> Optional[type]:
    """Return the class of the model that fairseq will build from these options, or None if the name is unknown."""
    name = getattr(cfg, "_name", None) or getattr(cfg, "arch", None)
    found: Optional[type] = ARCH_MODEL_REGISTRY.get(name) or MODEL_REGISTRY.get(name)
    return found


def check_options_before_building(cfg: Any, from_checkpoint: bool = False) -> None:
    """Raise ValueError unless fairseq will build the model that the options describe, and run no code in them.

    fairseq evaluates some options as Python, and drops options of a checkpoint that its architecture does not declare.
    """
    options: Any = OmegaConf.to_container(cfg) if OmegaConf.is_config(cfg) else vars(cfg)
    for name, value in options.items():
        if isinstance(value, str) and _EVALUATED.fullmatch(name):
            power = "**" in value or re.search(r"\d{7}", value)  # evaluation could take forever or exhaust the memory
            if power or not _LITERALS.fullmatch(value):
                raise ValueError(
                    f'{format_option_name(name)} "{value[:60]}": choose numbers, True or False, or a list of such '
                    'values, such as "[(512, 3)] * 4"'
                )
    found, arch = get_model_class(cfg), options.get("_name") or options.get("arch")
    if from_checkpoint and found is None:
        raise ValueError(f"--arch {arch}: unknown; name the package that registers it with --user-dir")
    declared = getattr(getattr(found, "__dataclass", None), "__dataclass_fields__", options)
    if from_checkpoint and found and issubclass(found, SummarizationModel) and OmegaConf.is_config(cfg):
        for name in sorted(options.keys() - declared.keys()):
            raise ValueError(f"{format_option(name, options[name])}: --arch {arch} has no such option here")


def check_external_model(cfg: Any) -> None:
    """Raise ValueError unless the model can be trained on text pairs and generates text from left to right."""
    found: Any = get_model_class(cfg)
    name = getattr(cfg, "arch", None) or getattr(cfg, "_name", None)
    if not issubclass(found, FairseqEncoderDecoderModel):
        reason = "is not an encoder and a decoder"
    elif issubclass(found, FairseqNATModel):
        reason = "does not write from left to right, and needs --task translation_lev"
    elif found.__module__.startswith(_NOT_OF_TEXT):
        reason = "reads or writes speech"
    else:
        return
    raise ValueError(
        f"--arch {name} {reason}: for --task summarization choose an architecture of this project (etads-models lists "
        "them), or fairseq's transformer, bart, lstm, fconv or lightconv"
    )


def is_external_model(cfg: Any) -> bool:
    """Return whether the model that fairseq will build from these options is external to this project."""
    found = get_model_class(cfg)
    return found is not None and issubclass(found, BaseFairseqModel) and not issubclass(found, SummarizationModel)


def build_external_model(cfg: Any, task: Any, build: Callable[[Any], Any]) -> Any:
    """Build an external model with a vocabulary that contains only the known words.

    The data still contains words from the copy tail, because they can later replace unknown words in summaries. A hook
    on each word embedding table replaces these words with the unknown word. :func:`replace_rare_words` replaces them in
    the targets.

    ``build`` receives a task, and builds the model from ``cfg`` for this task.

    Raises:
        ValueError: the model cannot be trained on text pairs or does not generate text from left to right.
    """
    check_external_model(cfg)
    if get_model_class(cfg) in (FConvModel, FConvModelSelfAtt):
        check_data_suits_architecture("fconv", RIGHT_PADDING, task)
    _set_maximum_positions(cfg, task)
    known = copy.copy(task)  # a copy of the task that receives dictionaries without a copy tail
    known.src_dict = remove_copy_tail(task.src_dict)
    known.tgt_dict = known.src_dict if task.tgt_dict is task.src_dict else remove_copy_tail(task.tgt_dict)
    model = build(known)
    for part, dictionary in ((model.encoder, known.src_dict), (model.decoder, known.tgt_dict)):
        for module in part.modules():
            is_word_embedding = type(module) is nn.Embedding and module.num_embeddings == len(dictionary)
            if isinstance(module, AdaptiveInput) or is_word_embedding:
                module.register_forward_pre_hook(_UnknownWordsHook(dictionary))
    if len(known.tgt_dict) < len(task.tgt_dict):
        model._register_load_state_dict_pre_hook(_CopyTailRemovalHook(model, len(known.tgt_dict), len(task.tgt_dict)))
    return model


def replace_rare_words(tokens: Optional[Tensor], dictionary: Dictionary) -> Optional[Tensor]:
    """Replace copy-tail words in summaries with the unknown word. Returns None if ``tokens`` is None."""
    return None if tokens is None else hide_unknown_words(tokens, count_known_words(dictionary), dictionary.unk())


def prepare_for_search(models: Iterable[nn.Module], args: Any) -> None:
    """Configure models for this project's search, after fairseq has prepared them for generation.

    fairseq's convolutional models return attention weights only with --print-alignment, but options such as
    --replace-unknown need these weights. When fairseq prepares these models, they also store the beam size. If the
    number of rows per document later differs from it, their matrix products are wrong or raise an error.
    """
    beam = None if getattr(args, "score_reference", False) else getattr(args, "beam", None)
    for model in models:
        for module in model.modules():
            if hasattr(module, "need_attn"):
                module.need_attn = True  # type: ignore[assignment]
            if isinstance(module, BeamableMM):
                module.set_beam_size(beam)


def _set_maximum_positions(cfg: Any, task: Any) -> None:
    """Set the number of positions in ``cfg`` for models that read it from the options of fairseq's own tasks."""
    source, target = (max(DEFAULT_POSITIONS, needed) for needed in task.max_positions())
    if get_model_class(cfg) in (FConvModel, FConvModelSelfAtt):
        padding = task.src_dict.pad() + 1  # number of rows at the start of the table that do not represent positions
        source, target = source + padding, target + padding
        cfg.max_source_positions = getattr(cfg, "max_source_positions", None) or source
        cfg.max_target_positions = getattr(cfg, "max_target_positions", None) or target
    elif get_model_class(cfg) is RobertaEncDecModel:
        cfg.max_positions = getattr(cfg, "max_positions", None) or max(source, target)


class _UnknownWordsHook:
    """A hook that replaces copy-tail words in the input of a word embedding table with the unknown word."""

    def __init__(self, dictionary: Dictionary):
        self.known_words, self.unk = len(dictionary), dictionary.unk()

    def __call__(self, _: nn.Module, inputs: Tuple[Any, ...]) -> Tuple[Any, ...]:
        return (hide_unknown_words(inputs[0], self.known_words, self.unk), *inputs[1:])


class _CopyTailRemovalHook:
    """A hook that drops the rows of the copy tail when a checkpoint from version 0.1.0 is loaded."""

    def __init__(self, model: nn.Module, known_words: int, words: int):
        self.rows = {
            name: known_words for name, value in model.state_dict().items() if _count_tensor_rows(value) == known_words
        }
        self.words = words

    def __call__(self, state_dict: Dict[str, Any], *_: Any) -> None:
        for name, rows in self.rows.items():
            if _count_tensor_rows(state_dict.get(name)) == self.words:
                state_dict[name] = state_dict[name][:rows]


def _count_tensor_rows(value: Any) -> int:
    """Return the length of a tensor's first dimension, or 0 if ``value`` is a scalar or not a tensor."""
    return len(value) if isinstance(value, Tensor) and value.dim() else 0


MOST_LAYERS = 1000
LAYERS_HELP = (
    'convolutions as a list of (width, kernel size) pairs, which can be repeated and concatenated, such as "[(512, '
    '3)] * 20" or "[(512, 3)] * 9 + [(1024, 3)] * 4". An optional third number is the number of layers that the '
    "residual connection spans (default 1; 0: no residual connection)"
)

Convolution = Tuple[int, ...]
"""Width, kernel size and, optionally, the number of layers that the residual connection spans."""


def parse_convolutions(text: str, option: str) -> List[Convolution]:
    """Parse an expression that lists convolutional layers, such as "[(512, 3)] * 20".

    fairseq evaluates such expressions as Python code. This function accepts only lists, tuples, numbers, * and +.

    Raises:
        ValueError: the text is not such an expression, or it describes no layers, too many layers or an invalid layer.
    """
    try:
        found = _parse_layers(ast.parse(str(text).strip(), mode="eval").body)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise ValueError(f'{option} "{str(text)[:200]}": choose {LAYERS_HELP}') from None
    if not found:
        raise ValueError(f'{option} "{text}": choose one layer or more')
    for number, layer in enumerate(found, 1):
        residual = layer[2] if len(layer) == 3 else 1
        if not (layer[0] >= 1 and layer[1] >= 1 and 0 <= residual <= number):
            raise ValueError(
                f'{option} "{text}": layer {number} is {layer}; width and kernel are 1 or more, and a residual '
                f"connection spans 0 to {number} layers there"
            )
    return found


def _parse_layers(node: ast.AST) -> List[Convolution]:
    """Return the layers that a subexpression describes. Raises ValueError if the subexpression is invalid."""
    if isinstance(node, ast.List):
        layers: List[Convolution] = [ast.literal_eval(element) for element in node.elts]
        if not all(type(x) is tuple and len(x) in (2, 3) and {*map(type, x)} == {int} for x in layers):
            raise ValueError
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        layers = _parse_layers(node.left) + _parse_layers(node.right)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        times, repeated = (node.left, node.right) if isinstance(node.left, ast.Constant) else (node.right, node.left)
        if type(ast.literal_eval(times)) is not int:
            raise ValueError
        layers = _parse_layers(repeated) * min(ast.literal_eval(times), MOST_LAYERS + 1)
    else:
        raise ValueError
    if len(layers) > MOST_LAYERS:
        raise ValueError
    return layers
