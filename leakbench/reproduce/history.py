"""Which scales of a recipe were run: read off the tables that they left.

They lie in a folder of results; leakbench ships what the tables of its own checkout say.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from leakbench.base.files import read_csv
from leakbench.base.part import Part
from leakbench.reproduce.recipe import Recipe, Setup
from leakbench.scoring import flags

SHIPPED = "reproduced.json"
NEVER = "never run"
_READ = ("dataset", "task", "label", "value", "seeds", "flags")


class Column(Part):
    """What a table has of one data set, or one split of it."""

    name: str
    task: str = ""  # that it was run on where that stands in for the paper's data
    cases: int  # rows that the recipe has there
    run: int  # of these, how many have a number
    seeds: int = 0  # the most that a row has

    @property
    def text(self) -> str:
        """What was run of it, and on what."""
        if not self.run:
            return f"{self.name} {NEVER}"
        place = f" on {self.task}" if self.task else ""
        rows = "" if self.run == self.cases else f"{self.run} of {self.cases} rows, "
        return f"{self.name}{place} ({rows}{self.seeds} seed{'s' * (self.seeds != 1)})"


History = Mapping[str, Mapping[str, Sequence[Column]]]  # by recipe, and by scale that was run


def scale_phrase(columns: Sequence[Column] | None) -> str:
    """One phrase about a scale; None where it left no table."""
    if not columns or not any(c.run for c in columns):
        return NEVER
    return "run: " + "; ".join(c.text for c in columns)


def history_of(recipes: Iterable[Recipe], results: Path) -> History:
    """What the tables below ``results`` say; what leakbench ships where there is no such folder.

    Raises:
        BrokenFile: a table is damaged.
    """
    return below(recipes, results) if results.is_dir() else shipped()


def below(recipes: Iterable[Recipe], results: Path) -> History:
    """What the tables below ``results`` say.

    Raises:
        BrokenFile: a table is damaged.
    """
    out: dict[str, dict[str, list[Column]]] = {}
    for recipe in recipes:
        for scale in recipe.scales:
            path = results / recipe.name / f"{scale}.csv"
            if path.is_file():
                found = _columns(recipe, scale, read_csv(path, _READ))
                out.setdefault(recipe.name, {})[scale] = found
    return out


def shipped() -> History:
    """What was run when leakbench was packed."""
    text = (files("leakbench") / "data_files" / SHIPPED).read_text(encoding="utf-8")
    out: dict[str, dict[str, list[Column]]] = {}
    for name, scales in json.loads(text).items():
        for scale, columns in scales.items():
            found = [Column.model_validate(c) for c in columns]
            out.setdefault(name, {})[scale] = found
    return out


def packed(history: History) -> str:
    """The text of the file that is shipped."""
    plain: dict[str, dict[str, list[dict[str, str | int]]]] = {}
    for name, scales in sorted(history.items()):
        for scale, columns in scales.items():
            found = [c.model_dump(exclude_defaults=True) for c in columns]
            plain.setdefault(name, {})[scale] = found
    return json.dumps(plain, indent=1, ensure_ascii=False) + "\n"


def _columns(recipe: Recipe, scale: str, rows: Sequence[Mapping[str, str]]) -> list[Column]:
    """Those that the recipe has now: what it had before counts as never run."""
    return [_column(recipe, scale, s, rows) for s in recipe.scales[scale].setups]


def _column(recipe: Recipe, scale: str, setup: Setup, rows: Sequence[Mapping[str, str]]) -> Column:
    labels = recipe.labels(scale, setup.column)
    made = [r for r in rows if r["dataset"] == setup.column and r["label"] in labels and r["value"]]
    return Column(
        name=setup.column,
        task=next((r["task"] for r in made if _stands_in(r)), ""),
        cases=len(labels),
        run=len({r["label"] for r in made}),
        seeds=max((len(r["seeds"].split("|")) for r in made), default=0),
    )


def _stands_in(row: Mapping[str, str]) -> bool:
    """Are the data of the row in the place of the paper's?"""
    return "stand_in_data" in flags.split_flags(row["flags"])
