"""Two rows of one key, now and then: are they the same, are they alike, how far apart are they?

The same is also what differs by rounding: another machine's guesses of the same code and seeds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from leakbench.base.reason import Reason, reason
from leakbench.gate.row import GateRow
from leakbench.gate.sketch import SAME_SCORE, Sketch, sketch
from leakbench.record.attack_code import STALE
from leakbench.scoring import flags
from leakbench.statistics.differences import FEWEST_SEEDS, Difference, compare

# Flags of a row that cannot be judged, the first that it has being told.
BLOCKING = ("control_failed", "dead_run", "mixed_code", "stale_run")

FEWER = 0.1  # of the units may be missing before a row that leaks less is no news
TINY = 1e-9


def difference(now: GateRow, then: GateRow) -> Difference | None:
    """How far apart, with limits, or None where a side has fewer than two seeds."""
    how = {**then.scoring, "clusters": {**then.units.clusters, **now.units.clusters}}
    return compare(now.units.scores, then.units.scores, **how, log=_logarithms(now, then))


def _logarithms(now: GateRow, then: GateRow) -> bool:
    """Are differences taken of logarithms? An older baseline does not say so."""
    return (then if then.stated else now).meaning.scale == "log"


def flagged(now: GateRow, then: GateRow, flags: Collection[str] = BLOCKING) -> Reason | None:
    """The first of these flags that a row has on either side."""
    for flag in flags:
        if flag in now.flags or flag in then.flags:
            return reason("flagged", flag=flag, then=flag not in now.flags)
    return None


def blocked(now: GateRow, then: GateRow) -> Reason | None:
    """Why this row cannot be judged."""
    if why := flagged(now, then):
        return why
    for what, (old, new) in changed(now, then).items():
        return reason("unlike", what=what, old=old, new=new)
    common = common_seeds(now, then)
    failed, units = _failures(now, common or now.units.scores)
    before, had = _failures(then, common or then.units.scores)
    # Without a seed in common the numbers of units differ, so shares are compared.
    if failed > before if common else failed * had > before * units:
        return reason("failed_more", failed=failed, units=units, before=before, had=had)
    return None


def other_code(now: GateRow, then: GateRow) -> Reason | None:
    """Which attacks ran with other code on the two sides, so that the numbers are not of one.

    One that finds more would make the method look worse, and one that finds less better.
    """
    both = sorted(now.units.code.keys() & then.units.code.keys())
    other = tuple(name for name in both if now.units.code[name] != then.units.code[name])
    return reason("other_code", attacks=other) if other else None


def outdated(now: GateRow) -> Reason | None:
    """Why a row that is not worse is no news: an attack that is not the installed one.

    One that was mended since may accuse, so that the gate does not refuse its row.
    """
    return flagged(now, now, [STALE])


def weaker(now: GateRow, then: GateRow, *, tables: bool = False) -> Reason | None:
    """Why a row that leaks no more is no news.

    It was attacked worse than in the baseline, or of fewer units, or nobody knows whether it was.
    It may still accuse. ``tables``: one side was read from a report's tables, which tell neither
    what was recorded nor by which code, and on how many units the search was open only by flags.
    """
    if then.is_utility:
        return None
    if tables:
        return fewer_units(now, then) or _open_in_tables(now, then) or _control(now, then)
    return fewer_units(now, then) or _open(now, then) or _control(now, then) or _unknown(now, then)


def fewer_units(now: GateRow, then: GateRow) -> Reason | None:
    """That more than a tenth of the units are missing, if they are.

    Of the seeds that both have; else by the mean of a seed.
    """
    units, had = _counts(now, then)
    return None if units >= (1 - FEWER) * had else reason("fewer_units", units=units, had=had)


def common_seeds(now: GateRow, then: GateRow) -> set[int]:
    """The seeds of both, where there are enough of them to be compared alone; else none."""
    common = now.units.scores.keys() & then.units.scores.keys()
    whole = common == now.units.scores.keys() or common == then.units.scores.keys()
    return set(common) if len(common) >= FEWEST_SEEDS or whole else set()


def _counts(now: GateRow, then: GateRow) -> tuple[float, float]:
    """Units of the seeds that both have, where they are known; else of a seed, in the mean."""
    common = common_seeds(now, then)
    if common and now.units.known and then.units.known:
        return _sized(now, common), _sized(then, common)
    units, had = (r.estimate.n / max(len(r.units.scores), 1) for r in (now, then))
    return units, had


def _sized(row: GateRow, seeds: Collection[int]) -> int:
    return sum(len(row.units.scores[seed]) for seed in seeds)


def _open(now: GateRow, then: GateRow) -> Reason | None:
    """More units than in the baseline on which the attack itself says that it found nothing."""
    common = common_seeds(now, then)
    left = now.units.lost(common or now.units.scores)
    before = then.units.lost(common or then.units.scores)
    if left <= before if common else left * then.estimate.n <= before * now.estimate.n:
        return None
    return reason("open", left=left, before=before)


def _open_in_tables(now: GateRow, then: GateRow) -> Reason | None:
    """Tables tell by their flags alone whether the search was open."""
    left = 0 if flags.OPEN & set(then.flags) else now.units.lost(now.units.scores)
    return reason("open_in_tables", left=left) if left else None


def _control(now: GateRow, then: GateRow) -> Reason | None:
    """The attack finds less where nothing is defended, so that finding less here says nothing."""
    if "weaker_observer" in now.flags and "weaker_observer" not in then.flags:
        return reason("observer_weaker")
    if "no_control" in now.flags and "no_control" not in then.flags:
        return reason("no_control_now")
    if now.control is None or then.control is None:
        return None
    if further(then.control, now.control, now, then) <= (then.allowed or 0) + TINY:
        return None
    return reason("control_fell", old=then.control, new=now.control)


def _unknown(now: GateRow, then: GateRow) -> Reason | None:
    """An older baseline does not say how well its attack worked, or by which code."""
    ours, theirs = now.units.code, then.units.code
    behind = {*(theirs or ours)}
    if then.units.entered is not None:
        behind = {a for attacks in then.units.entered.values() for a in attacks}
    codeless = tuple(sorted(a for a in behind if bool(ours.get(a)) != bool(theirs.get(a))))
    lacks = {"control": then.control is None, "record": not then.training.record}
    told = tuple(what for what, lacking in lacks.items() if lacking)
    if not told and not codeless:
        return None
    return reason("unknown_on_a_side", what=told, attacks=codeless)


def _failures(row: GateRow, seeds: Collection[int]) -> tuple[int, int]:
    """On how many units of these seeds the attack failed, and of how many."""
    failed = sum(row.units.failed.get(seed, 0) for seed in seeds)
    return failed, sum(len(row.units.scores[seed]) for seed in seeds)


def changed(now: GateRow, then: GateRow) -> dict[str, tuple[Any, Any]]:
    """{what: (then, now)} of all that makes two rows no longer like with like."""
    old, new = then.training, now.training
    both = {
        "task": (then.configuration.plain_task, now.configuration.plain_task),
        "engine": (old.engine, new.engine),
        "dtype": (old.dtype, new.dtype),
        "schema": (old.run_schema, new.run_schema),
        "version of the metric": (then.meaning.version, now.meaning.version),
        "direction": (then.worse, now.worse),
        "set of data": (_data(then), _data(now)),
        "range of scores": (_range(then), _range(now)),
        "kind of score": (_scores(then), _scores(now)),
    }
    if new.record and old.record and not then.is_utility:
        both["recording policy"] = policies(old.record, new.record)
    if now.stated and then.stated:
        both["scale"] = then.meaning.scale, now.meaning.scale
    # Trained less or on an easier task, the same method may seem to leak less.
    if new.setting and old.setting:
        for k in sorted(new.setting.keys() | old.setting.keys()):
            name = "number of rounds" if k == "rounds" else f"value of {k}"
            both[name] = (old.setting.get(k), new.setting.get(k))
    return {what: (a, b) for what, (a, b) in both.items() if a != b}


def policies(then: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[str, str]:
    """In what two recording policies differ, as ("last 200", "last 1")."""
    keys = [k for k in sorted({**then, **now}) if then.get(k) != now.get(k)]

    def told(policy: Mapping[str, Any]) -> str:
        return ", ".join(f"{k} {policy.get(k)}" for k in keys)

    return told(then), told(now)


def _data(row: GateRow) -> str:
    return "unofficial" if "unofficial_data" in row.flags else "official"


def _range(row: GateRow) -> tuple[float | None, float | None]:
    return row.meaning.low, row.meaning.high


def _scores(row: GateRow) -> str:
    return "hit or miss" if row.meaning.share else "measured"


def unchanged(now: GateRow, then: GateRow) -> bool:
    """The seeds of one side are all among the other's, with the same guesses, truth and scores."""
    return _same_files(now, then) and same_scores(now, then, whole_seeds(now, then))


def contradiction(now: GateRow, then: GateRow) -> Reason | None:
    """Why the baseline's own row cannot be believed.

    The same guesses and the same truth give the same scores.
    """
    if not _same_files(now, then) or same_scores(now, then, whole_seeds(now, then)):
        return None
    return reason("contradicted")


def _same_files(now: GateRow, then: GateRow) -> bool:
    told = list(hashes(now, then))
    return bool(told) and all(a and b and sorted(a) == sorted(b) for a, b in told)


def whole_seeds(now: GateRow, then: GateRow) -> set[int]:
    """The seeds of both, where they are all of one side's; else none."""
    common = now.units.scores.keys() & then.units.scores.keys()
    return set(common) if common in (now.units.scores.keys(), then.units.scores.keys()) else set()


def hashes(now: GateRow, then: GateRow) -> Iterator[tuple[Collection[str], Collection[str]]]:
    """(now, then) of every seed of `whole`: of what the guesses are, then of the truths."""
    for what in ("guesses", "truths"):
        mine, theirs = getattr(now.units, what), getattr(then.units, what)
        for seed in sorted(whole_seeds(now, then)):
            yield mine.get(seed, ()), theirs.get(seed, ())


def same_scores(now: GateRow, then: GateRow, seeds: Collection[int]) -> bool:
    """Of these seeds, but for the last digits."""
    for seed in seeds:
        mine, theirs = now.units.scores[seed], then.units.scores[seed]
        if mine.keys() != theirs.keys():
            return False
        pairs = ((mine[unit], theirs[unit]) for unit in mine)
        if not all(math.isclose(a, b, rel_tol=SAME_SCORE, abs_tol=SAME_SCORE) for a, b in pairs):
            return False
    return True


def further(a: float, b: float, now: GateRow, then: GateRow) -> float:
    """How much more ``a`` leaks than ``b``, on the scale of the rows' differences."""
    if _logarithms(now, then):
        a, b = math.log(max(a, 1.0)), math.log(max(b, 1.0))
    return a - b if then.worse == "up" else b - a


def room(row: GateRow) -> float:
    """How much worse the row's number can get at all, on the scale of its differences."""
    low, high = _range(row)
    end = high if row.worse == "up" else low
    return math.inf if end is None else further(end, row.value.value, row, row)


def end_of(row: GateRow) -> Literal["", "ceiling", "floor"]:
    """Does it stand where it cannot get worse by half the margin, or where blind guesses stand?"""
    allowed = row.allowed
    if allowed is None:
        return ""
    if row.usual is not None:  # a wide margin in the file makes no end
        allowed = min(allowed, row.usual)
    if room(row) <= allowed / 2 + TINY:
        return "ceiling"
    if row.floor is not None and further(row.value.value, row.floor, row, row) <= allowed + TINY:
        return "floor"
    return ""


def nearly(now: GateRow, then: GateRow) -> bool:
    """As `unchanged`, but for rounding: the same scores, of guesses and truths that are near.

    Equal scores alone are not enough: hits and misses may agree by chance.
    """
    told = list(hashes(now, then))
    if not told or not same_scores(now, then, whole_seeds(now, then)):
        return False
    return all(a and b and _all_near(a, b, now, then) for a, b in told)


def _all_near(mine: Collection[str], theirs: Collection[str], now: GateRow, then: GateRow) -> bool:
    """Has every file of one side one of the other that holds the same but for rounding?"""
    left = [sha for sha in theirs if sha not in mine]
    fresh = [sha for sha in mine if sha not in theirs]
    if len(left) != len(fresh):
        return False
    for sha in fresh:
        own = sketched(now, sha)
        near = [old for old in left if own and (o := sketched(then, old)) and own.near(o)]
        if not near:
            return False
        left.remove(near[0])
    return True


def sketched(row: GateRow, sha: str) -> Sketch | None:
    """What is known of a file by its hash; None where nothing is."""
    if sha in row.sketches:
        return row.sketches[sha]
    return _sketch(sha, row.files[sha]) if sha in row.files else None


@lru_cache(maxsize=4096)
def _sketch(sha: str, files: tuple[Path, ...]) -> Sketch:
    """Once for all rows that rest on these files; ``sha``: another one when they changed."""
    return sketch(files)
