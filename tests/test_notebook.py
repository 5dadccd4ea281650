"""The notebook runs as it stands, comes out as its text says, and was kept with what it printed."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).resolve().parents[1] / "examples" / "first_look.ipynb"


def outputs(notebook, kind):
    """What the cells printed, as ``kind``."""
    cells = [c for c in notebook.cells if c.cell_type == "code"]
    found = [out["data"] for c in cells for out in c.outputs if "data" in out]
    return [data[kind] for data in found if kind in data]


def value(tables, *words):
    """The number after ``words`` in the first printed table that has such a line."""
    for table in tables:
        for line in table.splitlines():
            cells = line.split()[1:]
            if tuple(cells[: len(words)]) == words:
                return [float(cell) for cell in cells[len(words) :]]
    raise AssertionError(words)


def is_what_its_text_says(notebook):
    tables = outputs(notebook, "text/plain")
    newest, *_ = value(tables, "prototype_leakage", "final")
    average, _, _, floor, control = value(tables, "prototype_averaging", "all")
    assert floor < newest < average <= control
    assert value(tables, "cascade", "all")[0] <= value(tables, "any_attack", "all")[0]
    assert {name: value(tables, name)[1] for name in ("fedaws", "fedgn", "fedtop")}
    assert len(outputs(notebook, "image/png")) == 1


def test_it_was_kept_as_it_came_out_and_names_no_place():
    notebook = nbformat.read(NOTEBOOK, 4)
    is_what_its_text_says(notebook)
    assert str(NOTEBOOK.parents[2]) not in NOTEBOOK.read_text(encoding="utf-8")
    assert "/tmp/" not in NOTEBOOK.read_text(encoding="utf-8")
    kinds = {out.output_type for c in notebook.cells for out in c.get("outputs", ())}
    assert "error" not in kinds
    counts = [c.execution_count for c in notebook.cells if c.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))  # from top to bottom, in one go


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the kernel's own packages
def test_it_runs_as_it_stands(tmp_path):
    notebook = nbformat.reads(json.dumps(json.loads(NOTEBOOK.read_text(encoding="utf-8"))), 4)
    for cell in notebook.cells:
        cell.pop("outputs", None) if cell.cell_type == "markdown" else cell.update(outputs=[])
    where = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=400, resources=where).execute()
    is_what_its_text_says(notebook)
    assert (tmp_path / "first-look" / "report" / "index.html").is_file()
