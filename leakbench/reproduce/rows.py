"""The table of a recipe: the paper's numbers beside ours.

One row per case, data set and measure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from leakbench.attacking import choices
from leakbench.base import provenance
from leakbench.base.errors import NotMeasured
from leakbench.base.reason_words import reason_text
from leakbench.base.spec import canonical
from leakbench.record import origin
from leakbench.record.folders import Run
from leakbench.record.runspec import parts
from leakbench.record.twin import twins_alike
from leakbench.reproduce import diagnostics, prototype_views
from leakbench.reproduce.client_sizes import client_sizes
from leakbench.reproduce.differs import differences
from leakbench.reproduce.feature_clusters import feature_clusters
from leakbench.reproduce.name_correlations import name_correlations
from leakbench.reproduce.plan import Planned
from leakbench.reproduce.pooling import pooled
from leakbench.reproduce.recipe import Measure, Params, Recipe, Setup, Study, View
from leakbench.reproduce.row import Departure, Measurement, Row
from leakbench.results import claims, rise
from leakbench.results.cells import missing_text
from leakbench.results.number import END, Claim, Number
from leakbench.results.settings import Setting
from leakbench.results.tables import Tables, collect
from leakbench.scoring import flags
from leakbench.words.amounts import of_clusters
from leakbench.work.whole_run import Told

Fill = Callable[[Measure, Row], Row]
Cells = dict[str, Any]  # of a row, by their names
# A run -> a number per unit.
VIEWS: Mapping[View, Callable[[Run], Sequence[float]]] = {
    "log10_sphere_ratios": lambda run: prototype_views.log10_sphere_ratios(run).tolist(),
    "late_loss": diagnostics.late_loss,
    "first_variance": diagnostics.first_variance,
    "last_variance": diagnostics.last_variance,
}
# A data set, what a case asks of it, and the seed of the draw -> measure's key: number.
STUDIES: Mapping[Study, Callable[[Setup, Params, int], Mapping[str, float]]] = {
    "name_correlations": name_correlations,
    "feature_clusters": feature_clusters,
    "client_sizes": client_sizes,
}
NOT_ASKED = "not asked of this method"
LEFT_OUT = "not run: left out by --only"
# What the runs say of a number that no attack gave.
_OF_RUNS = frozenset(("dead_run", "one_seed", "few_seeds", "other_engine"))
_OF_RUNS |= {"unofficial_data", "mixed_code", "stale_run"}
_OF_RUNS |= flags.OF_TRAINING


@dataclass(frozen=True)
class CaseRuns:
    """What there is of one case: its complete runs, and what was said of the others."""

    runs: tuple[Run, ...] = ()
    said: tuple[Told, ...] = ()
    seconds: float | None = None  # that one of them took, of those that were made now

    @cached_property
    def tables(self) -> Tables:
        """All numbers of its runs, read when they are first asked for."""
        return collect(self.runs)

    @property
    def setting(self) -> Setting | None:
        """The case as one setting; None without a run."""
        (setting,) = self.tables.settings or (None,)
        return setting


def table_rows(
    recipe: Recipe,
    scale: str,
    planned: Sequence[Planned],
    found: Mapping[tuple[str, str], CaseRuns],
) -> list[Row]:
    """Every row; where there is no number of ours, ``note`` says why.

    Raises:
        BrokenFile: an artifact of a run is missing, changed or damaged.
    """
    asked = [m for m in recipe.measures if m.attack]
    made = {m.key: choices.build(m.attack, recipe.asked(m, scale)) for m in asked}
    attacks = {key: choice.attack.parameters() for key, choice in made.items()}
    out = []
    for p in planned:
        filled = _filled(recipe, p, found.get(p.key, CaseRuns()), attacks)
        about = _about(recipe, scale, p)
        for m in recipe.measures:
            metric = m.metric or parts(p.specs[0]).task.metric
            asks: Cells = {"measure": m.key, "metric": metric, "attack": m.attack}
            asks |= {"attack_params": attacks.get(m.key), "claim": claimed(m, p, metric)}
            out.append(filled(m, about.model_copy(update=asks)))
    return out


def _filled(recipe: Recipe, p: Planned, found: CaseRuns, attacks: Mapping[str, Params]) -> Fill:
    """What puts the number of a measure into its row, or why there is none."""
    if recipe.study:
        why = p.lacking or LEFT_OUT * (not p.wanted)
        return _nothing(why) if why else _OfStudy(p, recipe.study).of
    if found.setting is None:
        return _nothing(p.lacking or "; ".join(text for _, text in found.said) or "not run")
    return _OfRuns(p, found, found.setting, attacks).of


def _nothing(why: str) -> Fill:
    return lambda m, row: row.model_copy(update={"note": why})


def _about(recipe: Recipe, scale: str, p: Planned) -> Row:
    """What all rows of one case say."""
    own = Departure(f"no row of the paper: {p.case.ours}", "row")
    found = differences(recipe.paper, p.setup, p.specs, p.case.params)
    told = [own, *found] if p.case.ours else found
    return Row(
        recipe=recipe.name,
        scale=scale,
        dataset=p.setup.column,
        task=p.setup.task,
        label=p.case.label,
        method=p.case.defense,
        params=dict(p.case.params),
        measure="",
        metric="",
        rounds=p.setup.rounds or None,
        differs=tuple(d.text for d in told),
        differs_as=tuple(d.kind for d in told if d.kind),
    )


def claimed(m: Measure, p: Planned, metric: str) -> Claim | None:
    """The paper's number for the case on its data set, whatever we ran it on, or None."""
    if not m.printed or p.case.ours or not p.specs:
        return None
    spec = p.specs[0]
    own = {k: v for k, v in spec.defense.params.items() if k == "fraction"}
    fields = dict(spec.task.params) | own | {"rounds": spec.rounds}
    asked = (spec.defense.name, spec.defense.params, p.setup.dataset, metric, fields)
    return claims.find_claim(*asked, stage=m.stage or END[0])


def _stand_in(p: Planned) -> set[str]:
    return {"stand_in_data"} if p.setup.stand_in else set()


class _OfStudy:
    """One case's numbers that no run is needed for: they are of the data themselves.

    A seed is a draw of rows and dice.
    """

    def __init__(self, planned: Planned, study: Study) -> None:
        seeds, (commit, dirty) = planned.seeds, provenance.source()
        asked = (planned.setup, planned.case.params)
        self.draws = {s: STUDIES[study](*asked, s) for s in seeds}
        self.made = {
            "flags": frozenset(flags.of_seeds(len(seeds)) | _stand_in(planned)),
            "seeds": seeds,
            "device": ("cpu",),
            "dtype": ("float64",),
            "commit": (_commit(commit, dirty),),
        }

    def of(self, m: Measure, row: Row) -> Row:
        """The row with the number of one measure."""
        ours = pooled({s: [numbers[m.key]] for s, numbers in self.draws.items()}, "draw")
        return row.model_copy(update={**self.made, "ours": ours})


class _OfRuns:
    """One case's numbers, pooled over its seeds as every table of leakbench pools them."""

    def __init__(
        self, planned: Planned, found: CaseRuns, setting: Setting, attacks: Mapping[str, Params]
    ) -> None:
        self.planned, self.found, self.attacks = planned, found, attacks
        self.setting, self.marks = setting, _stand_in(planned)
        metas = [r.meta for r in setting.runs]
        self.made: Cells = {
            "seeds": setting.seeds,
            "seconds": found.seconds,
            "rise": rise.most(e.rise for e in setting.evaluated),
            "engine": _each(str(m["engine"]) for m in metas),
            "device": _each(str(m["device"]) for m in metas),
            "dtype": _each(str(m["dtype"]) for m in metas),
            "commit": _each(_commit(m["commit"], m["dirty"]) for m in metas),
            "runs": tuple(r.id for r in setting.runs),
            "twin": told if twins_alike(told := metas[0].get("twin"), told) else None,
            "note": f"dead run: {reason_text(why)}" if (why := setting.dead_because) else "",
        }

    def of(self, m: Measure, row: Row) -> Row:
        """The row with the number of one measure, or with the reason why there is none."""
        if m.view:
            found = self._viewed(m)
        elif m.attack:
            found = self._attacked(m)
        else:
            found = self._gained(m)
        unofficial = "unofficial_data" in found.get("flags", ())
        claim = claims.claim_beside(row.claim, unofficial=unofficial)
        return row.model_copy(update={**self.made, **found, "claim": claim})

    @cached_property
    def _trained_alike(self) -> bool:
        """Does the installed code train as that of every run did, as their twins say?"""
        stale = [r for r in self.setting.runs if origin.stale_sources(r.meta)]
        return all(self.planned.trains_as(r.meta.get("twin"), r.seed) for r in stale)

    def _gained(self, m: Measure) -> Cells:
        for u in self.setting.utility:
            if u.statistic == m.statistic:
                ours, marks = Measurement.of(u.value, u.meaning, u.each), u.flags | self.marks
                # Of what an attack finds a twin says nothing.
                marks -= {"stale_run"} if "stale_run" in marks and self._trained_alike else set()
                return {"ours": ours, "chance": u.chance, "flags": marks}
        reasons = self._lacking("", self.setting.utility[0].meaning.name)
        return {"note": "; ".join(reasons) or f"no {m.statistic}"}

    def _viewed(self, m: Measure) -> Cells:
        """The mean over the units of all seeds, and Student's interval.

        A single number has none.
        """
        if not m.asks(self.planned.case.defense):
            return {"note": NOT_ASKED}
        try:
            view = VIEWS[m.view]
            each = {r.seed: list(map(float, view(r))) for r in self.setting.runs}
            ours = pooled(each, m.unit)
        except (NotMeasured, ValueError) as error:
            return {"note": str(error)}
        final = self.setting.final
        marks = final.flags & _OF_RUNS if final else frozenset()
        return {"ours": ours, "flags": marks | self.marks}

    def _attacked(self, m: Measure) -> Cells:
        n = self._number(m)
        if n is None:
            return {"note": self._why(m)}
        out = {"ours": Measurement.of(n.value, n.meaning), "flags": n.flags | self.marks}
        out |= {"floor": n.floor.value, "control": n.control.value}
        if n.few and n.power:
            told = f"too few {of_clusters(n)} ({n.power.clusters} of {n.power.needed} needed)"
            why = f"{m.attack}, {m.metric}: {told} to show that the attack works"
            out["note"] = "; ".join(part for part in (self.made["note"], why) if part)
        return out | ({"std": _std(n)} if m.over else {})

    def _number(self, m: Measure) -> Number | None:
        asked = (m.attack, canonical(self.attacks[m.key]), m.metric, m.probe)
        numbers = self.setting.numbers
        found = [n for n in numbers if (*n.attacker.key, n.metric, n.probe) == asked]
        of_stage = {n.stage: n for n in found}
        stages = (m.stage,) if m.stage else END
        return next((of_stage[s] for s in stages if s in of_stage), None)

    def _why(self, m: Measure) -> str:
        if not m.asks(self.planned.case.defense):
            return NOT_ASKED
        said = [text for attack, text in self.found.said if attack == m.attack]
        when = f"stage {m.stage}" if m.stage else "the end of training"
        reasons = said or self._lacking(m.attack, m.metric, "")
        return "; ".join(reasons) or f"the attack gave no number at {when}"

    def _lacking(self, attack: str, *metrics: str) -> list[str]:
        """Why a number is not among the setting's."""
        lines = self.found.tables.missing
        return [missing_text(x) for x in lines if x.attack == attack and x.metric in metrics]


def _each(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


def _commit(commit: str | None, dirty: bool) -> str:
    return f"{commit or 'unknown'}{provenance.DIRTY * dirty}"


def _std(n: Number) -> float:
    """Standard deviation over a run's units, the mean of the seeds'."""
    each = []
    for m in n.parts:
        scores = [u.score for u in m.units["attack"]]
        each.append(prototype_views.spread(scores).std)
    return math.fsum(each) / len(each)
