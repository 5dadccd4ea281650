"""The table of docs/reproduce.md: what of the papers was run, how it differs and what holds.

All of it is read off the tables that recipes left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from leakbench.base.errors import UsageError
from leakbench.reproduce import kept, marks, write
from leakbench.reproduce.catalogue import RECIPES
from leakbench.reproduce.printed import COMING, EVERYTHING
from leakbench.reproduce.recipe import Recipe
from leakbench.reproduce.row import Row
from leakbench.reproduce.statements import FAILS, HOLDS, OPEN, WITHIN, Statement
from leakbench.reproduce.strongest import by_strongest
from leakbench.statistics.looks import InterimLook

BEGIN, END = "<!-- made by benchmarks/reproduced.py: -->", "<!-- until here -->"
HEADS = (
    *("paper, table", "run as", "rows", "seeds", "rounds", "what differs"),
    "what the paper says of the order",
)
ASIDES = ("paper, place", "what it is", "kind", "why there is no recipe, or where it stands")
_SHORT = {HOLDS: "hold", WITHIN: "not shown", FAILS: "**do not hold**", OPEN: "cannot be judged"}


def inserted(page: str, results: Path) -> str:
    """``page`` with the tables of ``results`` and of what is left out between its two marks.

    Raises:
        UsageError: a mark is missing.
        BrokenFile: a table is damaged.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise UsageError(f"expected the lines {BEGIN} and {END} in the page. Put them back.")
    made = [*overview_table(results), "", "## Left out, and why", "", *left_out()]
    return "\n".join([before + BEGIN, "", *made, "", END + after])


def overview_table(results: Path) -> list[str]:
    """The lines of a Markdown table: every result that the papers print, where it was run."""
    out = _head(HEADS)
    results_of = (p for p in EVERYTHING if p.recipes)
    for recipes, group in groupby(results_of, lambda p: (p.paper, p.recipes)):
        shown = list(group)
        where = ", ".join([shown[0].name, *(p.where for p in shown[1:])])
        lines = [line for name in recipes[1] for line in _lines(where, name, results)]
        why = "; ".join(COMING[name] for name in recipes[1] if name in COMING) or "never run"
        out += lines or [_cells(where, f"`{shown[0].answer}`: {why}", *[""] * (len(HEADS) - 2))]
    return out


def left_out() -> list[str]:
    """The lines of a Markdown table: what no recipe makes, and why, or where it stands."""
    mine = [p for p in EVERYTHING if not p.recipes]
    return [*_head(ASIDES), *(_cells(p.name, p.about, p.kind, p.answer) for p in mine)]


def _head(names: Sequence[str]) -> list[str]:
    return ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]


def _lines(where: str, name: str, results: Path) -> Iterator[str]:
    recipe = RECIPES.get(name)
    if recipe is None:
        return
    printed = marks.paper_rounds(recipe)
    for scale in recipe.scales:
        path = results / name / f"{scale}.csv"
        rows = marks.marked_rows(recipe, path) if path.is_file() else []
        for column in dict.fromkeys(r.dataset for r in rows if r.ours):
            mine = [r for r in rows if r.dataset == column]
            made = [r for r in mine if r.ours]
            run = f"[`{name}`](../results/{name}/{scale}.md), {scale}: {write.title(mine)}"
            extent = _extent(recipe.labels(scale, column), made, printed.get((scale, column)))
            yield _cells(where, run, *extent, _differs(made), _holds(recipe, scale, mine))


def _cells(*cells: str) -> str:
    return "| " + " | ".join(c.replace("|", "/") for c in cells) + " |"


def _extent(labels: set[str], made: Sequence[Row], printed: int | None) -> tuple[str, str, str]:
    """How many rows of all have a number, over how many seeds, after how many rounds of how many.

    ``labels``: all rows; ``printed``: the paper's rounds, if it prints them.
    """
    ran, dead = labels & {r.label for r in made}, labels & {r.label for r in made if r.dead}
    count = f"{len(ran)} of {len(labels)}" + f", {len(dead)} dead" * bool(dead)
    rounds = span(r.rounds for r in made if r.rounds is not None)
    of = "" if printed is None or not rounds else f" of {printed:,}"
    return count, span(len(r.seeds) for r in made), (rounds or "none") + of


def span(numbers: Iterable[int]) -> str:
    """Of some numbers the only one, or the least and the largest; "" of none."""
    found = sorted({*numbers})
    return " to ".join(f"{n:,}" for n in dict.fromkeys((*found[:1], *found[-1:])))


def _differs(rows: Sequence[Row]) -> str:
    """What all rows share, but for what a parameter is by default."""
    each = [set(r.differs) for r in rows]
    shared = set.intersection(*each)
    told = [d.text for d in rows[0].differences if d.kind != "default"]
    return "; ".join(text for text in told if text in shared)


def overview_pages(results: Path) -> Iterator[tuple[Path, str]]:
    """The page of every table below ``results``, as the recipe writes it today, and where it lies.

    Raises:
        BrokenFile: a table is damaged.
    """
    for recipe, path in tables_below(results):
        rows, scale = marks.marked_rows(recipe, path), path.stem
        columns = dict.fromkeys(r.dataset for r in rows)
        said = [s for c in columns for s in judged(recipe, scale, rows, c)]
        figure = path.with_suffix(".svg")
        drawn = [figure.name] if figure.is_file() else []
        yield path.with_suffix(".md"), write.page(recipe, scale, rows, said, drawn)


def tables_below(results: Path) -> Iterator[tuple[Recipe, Path]]:
    """Every table below ``results``, with its recipe."""
    for name, recipe in RECIPES.items():
        for scale in recipe.scales:
            path = results / name / f"{scale}.csv"
            if path.is_file():
                yield recipe, path


def judged(recipe: Recipe, scale: str, rows: Sequence[Row], column: str) -> list[Statement]:
    """The paper's statements on the rows of one column, as they were read from a file.

    Each also by the strongest attack that was tried, where its numbers are others.
    """
    asked = [o for o in recipe.orders_of(scale) if not o.datasets or column in o.datasets]
    printed = marks.paper_rounds(recipe).get((scale, column))
    first = recipe.planned_seeds(scale, column)
    rows = [_as_judged(r, first) for r in rows]
    strong = by_strongest(recipe.measures, rows)
    found = [(o.judge(rows, column, printed), o.judge(strong, column, printed)) for o in asked]
    return [s if _same(s, t) else replace(s, strongest=t) for s, t in found]


def _same(a: Statement, b: Statement) -> bool:
    """Is it judged by the same numbers, and alike?"""
    return (a.live, a.verdict) == (b.live, b.verdict)


def _as_judged(r: Row, first: int) -> Row:
    """With what is no cell of a measurement.

    That is the look that it is, the paper's number, and what of an attack's number matters.
    """
    if r.ours is None:
        return r
    told: dict[str, object] = {"look": InterimLook(first, len(r.seeds))}
    told["claimed"] = r.claim.value if r.claim else None
    if r.attack and r.ours.meaning is None:
        told["meaning"] = kept.meaning_of(r.attack, r.metric)
    return r.model_copy(update={"ours": r.ours.model_copy(update=told)})


def _holds(recipe: Recipe, scale: str, rows: Sequence[Row]) -> str:
    """How many of the paper's statements hold on these rows, and which do not."""
    found = judged(recipe, scale, rows, rows[0].dataset)
    counts = Counter(s.verdict for s in found)
    said = [f"{counts[v]} {words}" for v, words in _SHORT.items() if counts[v]]
    weak = sum(s.of_weak_attack for s in found)
    said += [f"{weak} of these not by the strongest attack"] if weak else []
    against = "; ".join(f"“{s.text}”" for s in found if s.verdict == FAILS)
    return ", ".join(said) + (f": {against}" if against else "")
