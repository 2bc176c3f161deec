"""Parse an option that describes convolutional layers, such as "[(512, 3)] * 20"."""

import ast
from typing import List, Tuple

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
