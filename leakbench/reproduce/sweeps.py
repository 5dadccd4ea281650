"""The best of the values that a paper tried: the row that it prints, and how that was found."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from leakbench.reproduce.plan import Planned
from leakbench.reproduce.recipe import SCALES, Recipe
from leakbench.reproduce.row import UNTUNED, Row
from leakbench.reproduce.rows import Cells, claimed
from leakbench.results import claims


def with_best(
    recipe: Recipe, scale: str, planned: Sequence[Planned], rows: Sequence[Row]
) -> list[Row]:
    """``rows``, and before the values of each sweep the row that stands for the best of them.

    Chosen by the first measure, on the test set, as the paper chose: that flatters it, so it speaks
    against whoever is said to beat it. Where not all its values have a number it is ``untuned``.
    """
    swept = {v.label: c for c in recipe.of(scale) if c.sweep for v in c.at(scale)}
    of = {p.key: p for p in planned}
    out, done = list[Row](), set[tuple[str, str]]()
    for r in rows:
        case = swept.get(r.label)
        if case is None:
            out.append(r)
        elif case.label == r.label:  # its own value alone
            out.append(r.model_copy(update={"flags": r.flags | {UNTUNED} if r.ours else r.flags}))
        else:
            if (case.label, r.dataset) not in done:
                mine = [x for x in rows if x.dataset == r.dataset and swept.get(x.label) is case]
                values = {v.label for v in case.at(scale)}
                out += _best(recipe, mine, values, replace(of[r.label, r.dataset], case=case))
            done.add((case.label, r.dataset))
            out.append(r)
    return out


def marked_best(recipe: Recipe, rows: Sequence[Row]) -> list[Row]:
    """``rows`` of a table of whenever: those that are ``untuned`` by what the recipe has today."""
    there = {(r.label, r.dataset) for r in rows if r.ours}
    swept = {c.label: c.at(SCALES[-1]) for c in recipe.cases if c.sweep}
    out = []
    for r in rows:
        tried = all((v.label, r.dataset) in there for v in swept.get(r.label, ()))
        marks = r.flags if tried or not r.ours else r.flags | {UNTUNED}
        out.append(r.model_copy(update={"flags": marks}))
    return out


def rows_taken(
    recipe: Recipe, scale: str, rows: Sequence[Row]
) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """The (label, column) of each row that is the best of some, and that of the value taken."""
    out = []
    for case in (c for c in recipe.of(scale) if c.sweep and len(c.at(scale)) > 1):
        values = {v.label for v in case.at(scale)}
        for column in dict.fromkeys(r.dataset for r in rows if r.label in values):
            mine = [r for r in rows if r.dataset == column and r.label in values]
            out.append(((case.label, column), (best_label(recipe, mine), column)))
    return out


def best_label(recipe: Recipe, rows: Sequence[Row]) -> str:
    """The label of the value whose first measure is the best; of dead runs only where all are.

    "" where none has a number.
    """
    first = recipe.measures[0].key
    found = [r for r in rows if r.measure == first and r.ours]
    alive = [r for r in found if not r.dead] or found
    return max(alive, key=_worth).label if alive else ""


def _best(recipe: Recipe, rows: Sequence[Row], tried: Set[str], planned: Planned) -> list[Row]:
    """The row of ``planned``'s case for each measure; ``rows``: of its values on one data set.

    ``tried``: the labels of all its values, of which a table of before may lack some.
    """
    case, first = planned.case, recipe.measures[0].key
    name, values = case.sweep or ("", ())
    taken = best_label(recipe, rows)
    lacking = tried - {r.label for r in rows if r.measure == first and r.ours}
    said = f"best of {name} = {', '.join(f'{v:g}' for v in values)}, chosen on the test set"
    out = []
    for r in (r for r in rows if r.label == (taken or rows[0].label)):
        claim = claims.claim_beside(
            claimed(next(m for m in recipe.measures if m.key == r.measure), planned, r.metric),
            unofficial="unofficial_data" in r.flags,
        )
        marks, notes = r.flags, [r.note] if r.note else []
        if taken:
            marks |= {UNTUNED} if lacking else set()
            notes[:0] = [f"not tried: {'; '.join(sorted(lacking))}"] if lacking else []
            notes[:0] = [f"{said}: {r.params[name]:g}"]
        about: Cells = {"label": case.label, "claim": claim, "flags": marks}
        # Another seed of it is one of each value.
        took = [x.seconds for x in rows if x.measure == r.measure]
        about["seconds"] = None if None in took else sum(x for x in took if x is not None)
        about["note"] = "; ".join(notes)
        # That the paper has no such row is said of the value, not of the best of them.
        told = [d for d in r.differences if d.kind != "row"]
        about["differs"] = tuple(d.text for d in told)
        about["differs_as"] = tuple(d.kind for d in told if d.kind)
        out.append(r.model_copy(update=about))
    return out


def _worth(r: Row) -> float:
    m = r.ours
    if m is None:
        return float("-inf")
    return -m.value if m.meaning is not None and m.meaning.direction == "down" else m.value
