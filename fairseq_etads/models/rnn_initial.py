"""What the weights of the recurrent family begin with: this project's values, or those of See et al.'s code."""

from fairseq.data import Dictionary
from torch import Tensor, nn

INITIAL_STD = 0.25
"""Standard deviation of new word vectors and output weights. With the uniform ±0.1 of fairseq's recurrent models, a
model of width 100 learns no more than the frequencies of words in its first hundreds of steps (docs/recurrent.md)."""
SEES_STD, SEES_RANGE = 1e-4, 0.02
"""See et al.'s code: word vectors, bridge and output layer are normal, cut off at two deviations; networks uniform."""


def new_table(dictionary: Dictionary, width: int, tiny: bool = False, bound: float = 0.0) -> nn.Embedding:
    """New word vectors; that of padding is 0. ``tiny``: with See et al.'s deviation. ``bound``: uniform within it."""
    table = nn.Embedding(len(dictionary), width, dictionary.pad())
    if tiny:
        _tiny(table.weight)
    elif bound:
        nn.init.uniform_(table.weight, -bound, bound)
    else:
        nn.init.normal_(table.weight, std=INITIAL_STD)
    nn.init.zeros_(table.weight[dictionary.pad()])
    return table


def _tiny(weight: Tensor) -> None:
    nn.init.trunc_normal_(weight, std=SEES_STD, a=-2 * SEES_STD, b=2 * SEES_STD)


def begin_as_see_et_al(model: nn.Module) -> None:
    """Begin with the values of See et al.'s code in all but the tables of vectors, which :func:`new_table` makes.

    Networks: weights uniform within ±0.02, biases 0, but 1 of an LSTM's forget gate. The bridge and the output layer's
    bias: normal with deviation 0.0001. Other matrices, v and w_c: Glorot's uniform values; other biases 0. Networks and
    biases are TensorFlow's defaults of that time. What makes a pointer continue keeps its own values.
    """
    for path, module in model.named_modules():
        if isinstance(module, nn.Embedding) or "continuation" in path:
            continue
        for name, parameter in module.named_parameters(recurse=False):
            if isinstance(module, (nn.RNNBase, nn.RNNCellBase)):
                _begin_network(module, name, parameter)
            elif path.endswith(("first_state", "first_cell")):
                _tiny(parameter)
            elif path.endswith("output_projection"):  # its weight is a table
                if name == "bias":
                    _tiny(parameter)
            elif name == "bias":
                nn.init.zeros_(parameter)
            elif name == "coverage_weight":  # a convolution over one channel: fan in 1
                _glorot(parameter, 1, len(parameter))
            elif parameter.dim() == 1:
                _glorot(parameter, len(parameter), len(parameter))
            else:
                nn.init.xavier_uniform_(parameter)


def begin_uniform(model: nn.Module, bound: float) -> None:
    """Begin uniformly within ± ``bound`` in all but the tables of vectors, which :func:`new_table` makes."""
    tables = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    for name, parameter in model.named_parameters():
        if name.endswith("encoder.positions.weight") or (
            id(parameter) not in tables and "continuation" not in name and not name.endswith("output_projection.weight")
        ):
            nn.init.uniform_(parameter, -bound, bound)


def _begin_network(module: nn.Module, name: str, parameter: Tensor) -> None:
    if name.startswith("weight"):
        nn.init.uniform_(parameter, -SEES_RANGE, SEES_RANGE)
        return
    nn.init.zeros_(parameter)
    if isinstance(module, (nn.LSTM, nn.LSTMCell)):
        nn.init.ones_(
            parameter[module.hidden_size : 2 * module.hidden_size]
        )  # torch's order: input, forget, new, output


def _glorot(parameter: Tensor, fan_in: int, fan_out: int) -> None:
    bound = (6 / (fan_in + fan_out)) ** 0.5
    nn.init.uniform_(parameter, -bound, bound)
