"""Rows of the table that lay here before, where their runs are gone and were not asked for now."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from leakbench.attacking.metric import Metric
from leakbench.base import provenance, registry
from leakbench.base.meaning import Meaning
from leakbench.federation.utility import METRICS
from leakbench.reproduce import row
from leakbench.reproduce.plan import Planned
from leakbench.reproduce.recipe import Recipe
from leakbench.reproduce.row import Row
from leakbench.results import claims
from leakbench.scoring import flags

_SAME = (
    *("recipe", "scale", "dataset", "task", "label", "method", "params", "rounds"),
    *("measure", "metric", "attack", "attack_params"),
)
# What was measured. All else is said anew, as of every row: of a file it would be taken on trust.
_MEASURED = (
    *("ours", "std", "floor", "control", "chance", "seeds", "engine", "device", "dtype"),
    *("commit", "runs", "rise", "twin", "seconds"),
)
_OF_SEEDS = frozenset(("one_seed", "few_seeds"))

Place = tuple[str, str, str]  # in a table


def earlier(path: Path, planned: Sequence[Planned]) -> Sequence[Row]:
    """The rows of the table at ``path`` that come of runs.

    There are none where there is no table, or nothing was left out.

    Raises:
        BrokenFile: the table is damaged.
    """
    if not path.is_file() or all(p.wanted for p in planned):
        return ()
    return [r for r in row.read_rows(path) if r.ours and _sound(r)]


def joined(
    rows: Sequence[Row], before: Sequence[Row], planned: Sequence[Planned], runs: Path
) -> list[Row]:
    """``rows``, with the earlier ones in the place of those that ``--only`` left out.

    An earlier row stays where it is of the same runs, but for their seeds: their names say every
    parameter. Where one of them still lies below ``runs``, what it says now counts, and be it
    nothing. Of a column of which nothing was asked for a row stays as it is where its recipe or its
    data are others by now: all of it was made alike. What no run was needed for is not kept,
    because it is soon made again.
    """
    cases = {p.key: p for p in planned}
    there = {path.name for path in runs.glob("*")}
    asked = {p.setup.column for p in planned if p.wanted}
    found = {_place(r): r for r in before}
    out = []
    for r in rows:
        then, case = found.get(_place(r)), cases[r.label, r.dataset]
        if case.wanted or r.ours or then is None:
            out.append(r)
        elif _key(r) == _key(then) and _settings(then.runs) <= _settings(case.folders):
            out.append(_standing(r, then, case) if there.isdisjoint(then.runs) else r)
        else:
            out.append(r if r.dataset in asked else _standing(r, then, case, alike=False))
    return out


def timed(rows: Sequence[Row], path: Path) -> list[Row]:
    """``rows``, with the time that their runs took as the table at ``path`` has it of the same.

    Of what was there already nobody sees it a second time.

    Raises:
        BrokenFile: the table is damaged.
    """
    before = {_key(r): r for r in row.read_rows(path)} if path.is_file() else {}
    return [_timed(r, before.get(_key(r))) for r in rows]


def _timed(now: Row, before: Row | None) -> Row:
    if before is None or now.seconds is not None or _settings(now.runs) != _settings(before.runs):
        return now
    return now.model_copy(update={"seconds": before.seconds})


def kept_sentence(rows: Sequence[Row], recipe: Recipe) -> str:
    """Of kept ``rows``: how many there are, and that no figure has their curves."""
    named = "; ".join(dict.fromkeys(r.dataset for r in rows))
    text = f"leakbench: {len(rows)} rows ({named}) stand as in the table that was here."
    return text + " The figure shows no curves of theirs." * bool(recipe.figure)


def _standing(now: Row, before: Row, case: Planned, *, alike: bool = True) -> Row:
    """``now``, with what was measured ``before``, and where not ``alike``, what that was of."""
    # Of attacks the table names no code.
    stale = set() if _by_this_code(before, case) else {"stale_run"}
    stale |= {"stale_attack"} if before.attack else set()
    marks = (before.flags - _OF_SEEDS) | flags.of_seeds(len(before.seeds)) | stale
    marks |= {"stand_in_data"} if now.task == before.task and case.setup.stand_in else set()
    measured = {k: getattr(before, k) for k in _MEASURED}
    if len(before.seeds) != len(case.seeds):  # which is among what differs
        measured |= {"differs": before.differs, "differs_as": before.differs_as}
    claim = claims.claim_beside(now.claim, unofficial="unofficial_data" in marks)
    said = {"flags": frozenset(marks), "claim": claim, "note": before.note, "kept": True}
    return (now if alike else before).model_copy(update={**measured, **said})


def _by_this_code(before: Row, case: Planned) -> bool:
    """Is it of the installed commit, or does its twin say that the installed code trains alike?

    The twin is of its first run, and speaks of the others where all are of one commit.
    """
    commit, dirty = provenance.source()
    if not dirty and {*before.commit} == {commit}:
        return True
    one = len(before.commit) == 1 and not before.commit[0].endswith(provenance.DIRTY)
    gained = before.metric in METRICS and not before.attack  # of what is found it says nothing
    return one and gained and case.trains_as(before.twin, before.seeds[0])


def _sound(r: Row) -> bool:
    """Does it not contradict itself, and name its runs?"""
    m = r.ours
    if m is None or not agrees(r) or not r.runs:
        return False
    if r.metric in METRICS and not r.attack and None in (m.low, m.high):
        return False
    once = len({*r.seeds}) == len(r.seeds)
    return once and sorted(_seed(run) for run in r.runs) == sorted(map(str, r.seeds))


def agrees(r: Row) -> bool:
    """Do its numbers agree with each other, and with the range of what they measure?"""
    m = r.ours
    if m is None:
        return True
    meaning = m.meaning or meaning_of(r.attack, r.metric)
    if meaning is None and r.attack in registry.names("attacks"):
        return False  # none of its metrics
    told = [v for v in (m.lowest, m.highest, r.floor, r.control) if v is not None]
    within = meaning is None or all(_inside(v, meaning.low, meaning.high) for v in told)
    return within and m.n >= 1 and m.lowest <= m.value <= m.highest


def meaning_of(attack: str, metric: str) -> Meaning | None:
    """How an attack's metric is read; None of what no attack measures, and of one that is gone."""
    if attack not in registry.names("attacks"):
        return None
    metrics: Sequence[Metric] = registry.load_plugin("attacks", attack).metrics
    return next((m.meaning for m in metrics if m.name == metric), None)


def _inside(value: float, low: float | None, high: float | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)


def _place(r: Row) -> Place:
    return r.dataset, r.label, r.measure


def _key(r: Row) -> str:
    return r.model_dump_json(include={*_SAME})


def _settings(runs: Sequence[str]) -> set[str]:
    """Names of runs without their seeds."""
    return {run.rpartition("-s")[0] for run in runs}


def _seed(run: str) -> str:
    return run.rpartition("-s")[2]
