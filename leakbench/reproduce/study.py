"""The table of a recipe whose numbers are of the data themselves: no run is made, and a seed is a
draw of rows and dice.
"""

from __future__ import annotations

from collections.abc import Sequence

from leakbench.base import provenance
from leakbench.base.spec import canonical
from leakbench.record.columns import Row
from leakbench.reproduce.plan import Planned
from leakbench.reproduce.pooling import pooled
from leakbench.reproduce.recipe import Recipe
from leakbench.scoring import flags


def table(
    recipe: Recipe, scale: str, planned: Sequence[Planned], columns: Sequence[str]
) -> list[Row]:
    """A row per case, data set and measure with ``columns``; ``note`` says why a number is not
    there.
    """
    commit, dirty = provenance.source()
    where = {
        "device": "cpu",
        "dtype": "float64",
        "commit": f"{commit or 'unknown'}{'-dirty' * dirty}",
    }
    out = []
    for p in planned:
        about: Row = {
            **dict.fromkeys(columns, ""),
            **{
                "recipe": recipe.name,
                "scale": scale,
                "dataset": p.setting.dataset,
                "task": p.setting.task,
                "label": p.case.label,
            },
            **{"params": canonical(dict(p.case.params)), "differs": "; ".join(_differs(p))},
        }
        why = p.lacking or ("" if p.wanted else "not run: left out by --only")
        cells = {m.key: {"note": why} for m in recipe.measures} if why else _cells(recipe, p)
        made = {} if why else {**where, "seeds": "|".join(map(str, p.seeds))}
        out += [
            about | {"measure": m.key, "metric": m.metric} | made | cells[m.key]
            for m in recipe.measures
        ]
    return out


def _cells(recipe: Recipe, p: Planned) -> dict[str, Row]:
    """One case's numbers, pooled over its draws."""
    assert recipe.study  # noqa: S101 (a recipe without one has runs)
    found = {seed: recipe.study(p.setting, p.case.params, seed) for seed in p.seeds}
    marks = flags.join(
        flags.of_seeds(len(found)) | ({"stand_in_data"} if p.setting.stand_in else set())
    )
    return {
        m.key: (
            pooled({s: [numbers[m.key]] for s, numbers in found.items()}, "draw") | {"flags": marks}
        )
        for m in recipe.measures
    }


def _differs(p: Planned) -> list[str]:
    out = [f"no row of the paper: {p.case.ours}"] if p.case.ours else []
    out += [f"stand-in data: {p.setting.stand_in}"] if p.setting.stand_in else []
    return [*out, *p.setting.differs]
