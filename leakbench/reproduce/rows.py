"""The table of a recipe: the paper's numbers beside ours, one row per case, data set
and measure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from leakbench.attacking import choices
from leakbench.base.errors import NotMeasured
from leakbench.base.spec import canonical
from leakbench.record.columns import Row
from leakbench.record.folders import Run
from leakbench.record.runspec import parts
from leakbench.reproduce import prototype_views, study
from leakbench.reproduce.differs import sentences
from leakbench.reproduce.plan import Planned
from leakbench.reproduce.pooling import pooled
from leakbench.reproduce.recipe import Measure, Recipe
from leakbench.results import claims, tradeoff, units
from leakbench.results import utility as utility_table
from leakbench.results.configurations import group
from leakbench.results.tradeoff import Pooled
from leakbench.scoring import flags

COLUMNS = (
    *(
        "recipe",
        "scale",
        "dataset",
        "task",
        "label",
        "method",
        "params",
        "measure",
        "metric",
        "attack",
        "attack_params",
    ),
    *(
        "claimed",
        "claimed_low",
        "claimed_high",
        "claimed_source",
        "value",
        "low",
        "high",
        "n",
        "unit",
        "std",
        "floor",
        "control",
        "chance",
    ),
    *("flags", "seeds", "rounds", "engine", "device", "dtype", "commit", "runs", "differs", "note"),
)

NOT_ASKED = "not asked of this method"


@dataclass(frozen=True)
class Found:
    """What there is of one case: its complete runs, and what was said of the others."""

    runs: tuple[Run, ...]
    said: tuple[str, ...] = ()


def table(
    recipe: Recipe, scale: str, planned: Sequence[Planned], found: Mapping[tuple[str, str], Found]
) -> list[Row]:
    """Every row, numbers as floats, "" where there is none; ``note`` then says why.

    Raises:
        BrokenFile: an artifact of a run is missing, changed or damaged.
    """
    if recipe.study:
        return study.table(recipe, scale, planned, COLUMNS)
    out = []
    attacks = {
        m.key: (
            canonical(choices.build(m.attack, dict(m.params)).attack.parameters())
            if m.attack
            else ""
        )
        for m in recipe.measures
    }
    utility = {
        d: parts(p.specs[0]).task.metric for d, p in {p.setting.dataset: p for p in planned}.items()
    }
    for p in planned:
        mine = found.get(p.key, Found(()))
        about: Row = {
            "recipe": recipe.name,
            "scale": scale,
            "dataset": p.setting.dataset,
            "task": p.setting.task,
            "label": p.case.label,
            "method": p.case.defense,
        }
        about |= {"params": canonical(dict(p.case.params)), "rounds": p.setting.rounds}
        own = [f"no row of the paper: {p.case.ours}"] if p.case.ours else []
        about["differs"] = "; ".join(
            own + sentences(recipe.paper, p.setting, p.specs, p.case.params)
        )
        numbers = _Numbers(p, mine, attacks) if mine.runs else None
        for m in recipe.measures:
            metric = m.metric or utility[p.setting.dataset]
            row = (
                dict.fromkeys(COLUMNS, "")
                | about
                | {
                    "measure": m.key,
                    "metric": metric,
                    "attack": m.attack,
                    "attack_params": attacks[m.key],
                }
            )
            row |= _claimed(m, p, metric)
            row |= (
                numbers.of(m)
                if numbers
                else {"note": p.lacking or "; ".join(mine.said) or "not run"}
            )
            out.append(row)
    return out


class _Numbers:
    """One case's numbers, pooled over its seeds as every table of leakbench pools them."""

    def __init__(self, planned: Planned, found: Found, attacks: Mapping[str, str]) -> None:
        self.planned, self.found, self.attacks = planned, found, attacks
        (self.config,) = group(found.runs)
        utilities = [utility_table.of_run(r) for r in self.config.runs]
        self.dead = "; ".join(dict.fromkeys(f"dead run: {u.dead}" for u in utilities if u.dead))
        lines, lacking = utility_table.rows(self.config, utilities)
        self.utility: dict[str, Row] = {r["statistic"]: r for r in lines}
        self.lacking = dict(lacking)
        self.final = self.utility["final"]
        rows = [
            m
            for u in utilities
            for m in units.of_run(u.run)
            if m.row["attack_params"] in attacks.values()
        ]
        pooled, self.lacks = tradeoff.rows(self.config, rows, utilities, self.final)
        self.pooled = {
            (p.row["attack"], p.row["attack_params"], p.row["metric"], p.row["stage"]): p
            for p in pooled
            if not p.row["probe"]
        }

    def of(self, m: Measure) -> Row:
        """The cells of one measure."""
        metas = [r.meta for r in self.config.runs]
        out: Row = {
            k: "|".join(dict.fromkeys(str(x[k]) for x in metas))
            for k in ("engine", "device", "dtype")
        }
        out["commit"] = "|".join(
            dict.fromkeys(f"{x['commit'] or 'unknown'}{'-dirty' * x['dirty']}" for x in metas)
        )
        out |= {
            "seeds": self.final["seeds"],
            "runs": "|".join(r.id for r in self.config.runs),
            "note": self.dead,
        }
        stand_in = {"stand_in_data"} if self.planned.setting.stand_in else set()
        if m.view:
            return out | self._viewed(m, m.view, stand_in)
        if not m.attack:
            if m.statistic not in self.utility:
                return out | {"note": self.lacking.get(self.final["metric"], f"no {m.statistic}")}
            line = self.utility[m.statistic]
            marks = flags.split(line["flags"]) | stand_in
            return (
                out
                | {k: line[k] for k in ("value", "low", "high", "n", "chance")}
                | {"unit": "test unit", "flags": flags.join(marks)}
            )
        got = self._row(m)
        if got is None:
            return out | {"note": self._why(m)}
        out |= {k: got.row[k] for k in ("value", "low", "high", "n", "unit", "floor", "control")}
        out["flags"] = flags.join(flags.split(got.row["flags"]) | stand_in)
        return out | ({"std": _std(got)} if m.over else {})

    def _viewed(self, m: Measure, view: Callable[[Run], Sequence[float]], marks: set[str]) -> Row:
        """The mean over the units of all seeds, and Student's interval; a single
        number has none.
        """
        if m.defenses and self.planned.case.defense not in m.defenses:
            return {"note": NOT_ASKED}
        try:
            parts = {r.seed: [float(v) for v in view(r)] for r in self.config.runs}
            marks |= flags.split(self.final["flags"]) & {
                "dead_run",
                "one_seed",
                "few_seeds",
                "other_engine",
            }
            return pooled(parts, m.unit) | {"flags": flags.join(marks)}
        except (NotMeasured, ValueError) as error:
            return {"note": str(error)}

    def _row(self, m: Measure) -> Pooled | None:
        keys = [
            (m.attack, self.attacks[m.key], m.metric, stage)
            for stage in ([m.stage] if m.stage else ("final", "all"))
        ]
        return next((self.pooled[k] for k in keys if k in self.pooled), None)

    def _why(self, m: Measure) -> str:
        if m.defenses and self.planned.case.defense not in m.defenses:
            return NOT_ASKED
        said = [s for s in self.found.said if s.startswith(m.attack)]
        said += [
            reason
            for attack, metric, reason in self.lacks
            if attack == m.attack and metric in (m.metric, "")
        ]
        when = f"stage {m.stage}" if m.stage else "the end of training"
        return "; ".join(said) or f"the attack gave no number at {when}"


def _std(got: Pooled) -> float:
    """Standard deviation over a run's units, the mean of the seeds'."""
    each = [prototype_views.spread([u.score for u in m.units["attack"]]).std for m in got.seeds]
    return math.fsum(each) / len(each)


def _claimed(m: Measure, p: Planned, metric: str) -> Row:
    """The paper's number for the case on its data set, whatever we ran it on; none for what the
    paper has not.
    """
    if not m.printed or p.case.ours:
        return claims.cells(None)
    spec = p.specs[0]
    fields = (
        dict(spec.task.params)
        | {k: v for k, v in spec.defense.params.items() if k == "fraction"}
        | {"rounds": spec.rounds}
    )
    return claims.cells(
        claims.find(spec.defense.name, spec.defense.params, p.setting.dataset, metric, fields)
    )
