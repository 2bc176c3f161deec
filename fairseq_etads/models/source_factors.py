"""Source factors in models: parsing of --source-factors, embeddings, and checks of checkpoints."""

from typing import Any, Dict, Optional

from fairseq.data import Dictionary
from torch import Tensor, nn

FACTOR_DIM = 16
"""Default width of factor embeddings in recurrent models. --source-factors can specify other widths."""
HELP = (
    "source factors (word-level features) of the documents: none, all, or a list of names from DATA/factors.json "
    'with optional dimensions, such as "pos:20,tf" (default dimension: {})'
)
_TABLES = "encoder.factors."


def parse_factors(value: str, available: Dict[str, Dictionary], default: int = FACTOR_DIM) -> Dict[str, int]:
    """Parse --source-factors, such as "none", "all" or "pos:20,tf", to a dictionary from factor names to widths.

    The width of a factor without one is ``default``. ``available`` has the dictionary of each factor in the data.

    Raises:
        ValueError: the list is malformed, or the data does not contain a factor.
    """
    text = str(value).strip()
    if text == "none":
        return {}
    taken = [factor for factor in available if hasattr(nn.ModuleDict(), factor)]
    if taken:
        raise ValueError(f'--source-factors "{value}": torch reserves the name "{taken[0]}"; rename the factor')
    has = ", ".join(available) if available else "no factors.json, and so no factors"
    if text == "all":
        if not available:
            raise ValueError(f"--source-factors all: DATA has {has}; prepare the data with etads-prepare --factors")
        return dict.fromkeys(available, default)
    widths: Dict[str, int] = {}
    for part in text.split(","):
        name, colon, width = (piece.strip() for piece in part.partition(":"))
        if not name or name in widths or (colon and not (width.isdecimal() and int(width) > 0)):
            raise ValueError(
                f'--source-factors "{value}": "{part}" must be a new name, or name:width with a width above 0'
            )
        if name not in available:
            raise ValueError(
                f'--source-factors "{value}": there is no factor "{name}"; DATA has {has}. '
                "Prepare the data with etads-prepare --factors, or choose another architecture"
            )
        widths[name] = int(width) if colon else default
    return widths


def check_factor_count(names: Any, factors: Optional[Tensor]) -> None:
    """Raise ValueError unless a batch has as many factors (B, S, F), or None, as the model reads (``names``)."""
    given = 0 if factors is None else factors.shape[2]
    if given != len(names):
        raise ValueError(
            f"the model reads {len(names)} source factors ({', '.join(names) or 'none'}) but the batch has {given}"
        )


def check_trained_factors(state_dict: Any, tables: Any) -> None:
    """Raise ValueError if the weights come from a model with other factors or numbers of values than ``tables``."""
    trained = {name.split(".")[2]: len(table) for name, table in state_dict.items() if name.startswith(_TABLES)}
    present = {name: table.num_embeddings for name, table in tables.items()}
    if trained != present:
        raise ValueError(
            f"the checkpoint was trained with the source factors {_format_sizes(trained)} but DATA has "
            f"{_format_sizes(present)}: use the data folder with which it was trained"
        )


def _format_sizes(factors: Dict[str, int]) -> str:
    return ", ".join(f"{name} ({size} values)" for name, size in sorted(factors.items())) or "(none)"


def make_factor_tables(widths: Dict[str, int], dictionaries: Dict[str, Dictionary]) -> nn.ModuleDict:
    """Create an embedding table for each factor, in alphabetical order of names. The padding vector is 0."""
    tables = nn.ModuleDict()
    for name in sorted(widths):
        values = dictionaries[name]
        table = nn.Embedding(len(values), widths[name], values.pad())
        nn.init.normal_(table.weight, std=widths[name] ** -0.5)
        nn.init.zeros_(table.weight[values.pad()])
        tables[name] = table
    return tables
