"""Which runs a recipe needs: every case on every data set, with every seed, as specs; and what keeps one from being run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from leakbench.errors import LeakbenchError, UnknownName, UsageError, suggestion
from leakbench.reproduce.recipe import SCALES, Case, Recipe, Scale, Setting
from leakbench.runspec import RunSpec, make_spec


@dataclass(frozen=True)
class Planned:
    """One case on one data set. ``specs``: one per seed. ``lacking``: why it cannot be run, or "". ``wanted``: is it to be trained?"""

    case: Case
    setting: Setting
    specs: tuple[RunSpec, ...]
    attacks: tuple[tuple[str, dict[str, Any]], ...]
    lacking: str = ""
    wanted: bool = True

    @property
    def key(self) -> tuple[str, str]:
        """(label, data set)."""
        return self.case.label, self.setting.dataset


def scale_of(recipe: Recipe, name: str) -> Scale:
    """The recipe's scale ``name``.

    Raises:
        UsageError: there is none.
    """
    if name not in recipe.scales:
        raise UsageError(f"there is no scale {name!r}.{suggestion(name, recipe.scales)}")
    return recipe.scales[name]


def plan(recipe: Recipe, scale: str, *, only: Sequence[str] = (), seeds: Sequence[int] | None = None, data: bool = True) -> list[Planned]:
    """Every case of ``recipe`` at ``scale`` on every data set.

    Args:
        recipe: whose.
        scale: smoke, small or full.
        only: labels of the cases that are wanted, spaces and case apart; all if empty.
        seeds: instead of the scale's.
        data: look for the data sets (and fetch them at the larger scales); without, every set counts as there.

    Raises:
        UnknownName: no case has a label of ``only``.
        UsageError: the scale does not exist, or no data set of the recipe is there.
    """
    chosen = scale_of(recipe, scale)
    cases = recipe.of(scale)
    wanted = _wanted(cases, only)
    out = []
    for setting in chosen.settings:
        where, lacking = _resolved(setting, fetch=scale != SCALES[0]) if data else (setting, "")
        for case in cases:
            specs = tuple(_spec(case, where, chosen, seed) for seed in (chosen.seeds if seeds is None else seeds))
            out.append(Planned(case, where, specs, tuple(recipe.attacks(case.defense)), lacking, case.label in wanted))
    if all(p.lacking for p in out):
        raise UsageError(out[0].lacking)
    return out


def done(planned: Planned, runs: Path) -> list[Path]:
    """The folders of its complete runs below ``runs``."""
    from leakbench import runs as _runs

    folders = [runs / s.folder() for s in planned.specs]
    return [f for f in folders if (f / "run.json").is_file() and _runs.load(f).done]


def _wanted(cases: Sequence[Case], only: Sequence[str]) -> set[str]:
    bare = {_bare(c.label): c.label for c in cases}
    for label in only:
        if _bare(label) not in bare:
            raise UnknownName("case", label, bare.values())
    return {bare[_bare(label)] for label in only} or {c.label for c in cases}


def _bare(label: str) -> str:
    return "".join(label.lower().split())


def _resolved(setting: Setting, *, fetch: bool) -> tuple[Setting, str]:
    """The setting that can be run, and why none can."""
    from leakbench import places
    from leakbench.tasks import _images

    if not setting.needs or _images.found(setting.needs):
        return setting, ""
    if setting.otherwise is not None and not fetch:
        return setting.otherwise, ""
    try:
        if fetch:
            _images.load(setting.needs)
            return setting, ""
    except LeakbenchError as error:
        return setting, str(error)
    fetch_it = f"leakbench train -t {setting.needs} -d fedavg --rounds 1 lets torchvision fetch them"
    return setting, (
        f"{setting.needs} is not in {places.data()} (looked for {_images.layouts(setting.needs)}): put the files there, or set "
        f"LEAKBENCH_DATA to the folder that has them; {fetch_it}."
    )


def _spec(case: Case, setting: Setting, scale: Scale, seed: int) -> RunSpec:
    return make_spec(
        case.defense,
        task=setting.task,
        params={**setting.params.get(case.defense, {}), **case.params},
        task_params=setting.task_params,
        rounds=setting.rounds,
        seed=seed,
        engine=scale.engine,
        dtype=scale.dtype,
        record=scale.record,
    )
