"""docs/notebook.ipynb: its code runs from top to bottom and does what its text says.

The cells are executed in this process, one after the other in one namespace, as a kernel would; no Jupyter is needed.
"""

import contextlib
import io
import json
import re
from pathlib import Path

import pytest

NOTEBOOK = json.loads((Path(__file__).parents[3] / "docs" / "notebook.ipynb").read_text(encoding="utf-8"))
CELLS = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def stored(cell):
    """Output that the notebook stores for a cell."""
    return "".join(line for output in cell["outputs"] for line in output["text"])


@pytest.fixture(scope="module")
def executed():
    """The names that the notebook defines, and the output of each cell."""
    names, printed = {"__name__": "notebook"}, []
    for number, cell in enumerate(CELLS, 1):
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
        printed.append(output.getvalue())
    return names, printed


def test_what_is_shown_is_what_is_printed(executed):
    """Results of training differ between processors; everything else, and all numbers before it, must be equal."""
    trained = next(i for i, cell in enumerate(CELLS) if "optimizer.step()" in "".join(cell["source"]))
    for number, (cell, output) in enumerate(zip(CELLS, executed[1])):
        if number < trained:
            assert output == stored(cell)
        else:
            assert bool(output) == bool(stored(cell))
    signature = executed[1][-1].splitlines()[-1]
    settings = [re.sub(r"(backend|nltk|v):[^|]+", "", line) for line in (signature, stored(CELLS[-1]).splitlines()[-1])]
    assert settings[0] == settings[1]


def test_the_model_learns_to_copy_names_that_it_has_never_seen(executed):
    names = executed[0]
    assert len(names["test"]) == 50
    assert not {summary.split()[0] for _, summary in names["training"]} & set(names["NAMES"][150:])
    right = 0
    for number, (document, summary) in enumerate(names["test"]):
        word, position = names["summaries"][number][0]
        right += word == summary.split()[0] and document.split()[position] == word
    assert right >= 45
    assert names["report"].signature in executed[1][-1]


def test_it_is_a_notebook_without_traces_of_where_it_ran():
    assert NOTEBOOK["nbformat"] == 4 and len(CELLS) >= 6
    assert all(cell["execution_count"] is None and stored(cell) is not None for cell in CELLS)
    assert not re.search(r"/(?:home|root|tmp|work)/", json.dumps(NOTEBOOK))
