"""docs/notebook.ipynb: its code runs from top to bottom, prints what the page shows, and learns what the text says.

The cells are executed in this process, one after the other in one namespace, as a kernel would; no Jupyter is needed.
"""

import contextlib
import io
import json
from pathlib import Path

NOTEBOOK = json.loads((Path(__file__).parents[3] / "docs" / "notebook.ipynb").read_text(encoding="utf-8"))
CELLS = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_prints_what_it_shows_and_learns_to_copy():
    names, trained = {"__name__": "notebook"}, False
    for number, cell in enumerate(CELLS, 1):
        code, stored = "".join(cell["source"]), "".join(line for output in cell["outputs"] for line in output["text"])
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(code, f"cell {number}", "exec"), names)
        printed = output.getvalue()
        trained = trained or "optimizer.step()" in code  # from here on, numbers differ between processors
        assert bool(printed) == bool(stored) if trained else printed == stored
    assert len(names["test"]) == 50
    assert not {summary.split()[0] for _, summary in names["training"]} & set(names["NAMES"][150:])
    right = 0
    for number, (document, summary) in enumerate(names["test"]):
        word, position = names["summaries"][number][0]
        right += word == summary.split()[0] and document.split()[position] == word
    assert right >= 45, "names that the model has never seen"
