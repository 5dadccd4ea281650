"""Of a method's attacks in a table: the strongest, the paper's own, and those not tried.

Rivals are the attacks on one metric about one case of one table that have a number. What the
strongest gets is a lower bound.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from leakbench.attacking import Attack, ThreatModel
from leakbench.base import registry
from leakbench.base.meaning import Meaning
from leakbench.base.spec import canonical
from leakbench.reproduce.fitting import Fits, way
from leakbench.reproduce.recipe import Measure
from leakbench.reproduce.row import Row
from leakbench.reproduce.statements import LACKING
from leakbench.scoring import flags

PAPER = "paper"
SHOWN = 2  # settings of an attack
HALF = 0.5  # of what there is
TOO_WEAK = "too weak or too few to judge"
LEAKS = "more than a blind guess"


@dataclass(frozen=True)
class Rivals:
    """The attacks with a number on one metric about one case."""

    rows: tuple[Row, ...]  # at least one, each with a number
    case: tuple[Row, ...]  # all rows of the same case in the same table

    @cached_property
    def best(self) -> Row:
        """The attack that gets most, by the direction in which its metric leaks.

        Of equals one whose control worked, then one that is more than the paper's own measure.
        """
        return max(self.rows, key=self._rank)

    @cached_property
    def paper(self) -> Row | None:
        """What stands for the paper's own measure: where its number is, or the best of its kind."""
        of_kind = [r for r in self.rows if rung(r) == PAPER]
        claimed = [r for r in self.rows if r.claim]
        return max(claimed or of_kind, key=self._got, default=None)

    @property
    def only_paper(self) -> bool:
        """Was nothing tried beyond what the paper does?"""
        return all(rung(r) == PAPER for r in self.rows)

    @property
    def dead(self) -> bool:
        """Did any row of the case find that the model learnt nothing?"""
        return any(r.dead for r in self.case)

    @property
    def utility(self) -> Row | None:
        """What the same runs were good for."""
        found = (r for r in self.case if not r.attack and r.ours and r.measure == "utility")
        return next(found, None)

    @cached_property
    def telling(self) -> Row:
        """The row that says most: of the largest share; ``best`` if none has one.

        Attacks at another stage have another control, which may work where that of ``best`` failed.
        """
        judged = [r for r in self.rows if share(r) is not None]
        return max(judged, key=lambda r: (share(r) or 0.0, self._rank(r)), default=self.best)

    def verdict(self) -> str:
        """The share in words; short of all it is a lower bound."""
        if self.dead:
            return "dead run"
        found = share(self.telling)
        if found is not None and not (found == 0 and self.beyond):
            return f"{found:.2f}" if found >= 1 else f"at least {found:.2f}"
        if found is None and self._works(self.telling):
            of = f"({number_of_row(self.telling):.3g}, undefended {self.telling.control:.3g})"
            return f"{LEAKS if self.beyond else TOO_WEAK} {of}"
        return LEAKS if self.beyond else TOO_WEAK

    def _works(self, r: Row) -> bool:
        """Does it get more than a blind guess with nothing defended, if of few?"""
        if r.floor is None or r.control is None:
            return False
        return self._sign * (r.control - r.floor) > 0

    @property
    def beyond(self) -> bool:
        """Does an attack's interval leave the blind guess behind?"""
        return any(_beyond(r, up=self._sign > 0) for r in self.rows)

    @property
    def leaks(self) -> bool:
        """Does an attack surely get half of what there is?"""
        return any((surely(r) or 0.0) >= HALF for r in self.rows)

    def untried(self, rows: Sequence[Row], known: Fits) -> list[str]:
        """Attacks with no number here that measure this and fit what the method sends.

        They fit by ``known``, or as they have a number in ``rows`` on the method, gone about in
        the same way. Of an attack that has a number here its other settings in ``rows``.
        """
        first = self.rows[0]
        mine = [r for r in rows if r.method == first.method and r.attack and r.ours]
        same = [r for r in mine if way(r) == way(first)]
        here, tried = {r.attack for r in self.rows}, [_set(r) for r in self.rows]
        able = [r for r in same if _measures(r, first.metric) and _set(r) not in tried]
        fit = known.get(way(first), {}).items()
        more = {name for name, metrics in fit if first.metric in metrics} - here
        return sorted(more | {spelled(r) if r.attack in here else r.attack for r in able})

    def beaten_by(self, others: Iterable[Rivals]) -> Rivals | None:
        """Where the same method on the same task gave most away, if that is more than here.

        Of ``others`` those on the same metric count whose run learnt something and whose attack has
        power; a difference in the fourth digit is none.
        """
        same = [q for q in others if q.subject == self.subject or q.setting == self.setting]
        known = [q for q in same if not q.dead]
        most = max(
            (q for q in known if not failed_control(q.best)),
            key=lambda q: q._rank(q.best),
            default=self,
        )
        more = float(f"{self._got(most.best):.3g}") > float(f"{self._got(self.best):.3g}")
        return most if more else None

    @cached_property
    def setting(self) -> tuple[str, str, str, str]:
        """The same, whatever a table calls it: the method's parameters, with its own where none."""
        first = self.rows[0]
        method = registry.load_plugin("defenses", first.method)
        usual = {k: f.default for k, f in method.model_fields.items()}
        given = canonical({**usual, **first.params})
        return first.method, given, first.task, first.metric

    @property
    def subject(self) -> tuple[str, str, str]:
        """What its number is of, in whichever table: the method as it is set, task and metric."""
        first = self.rows[0]
        return first.label, first.task, first.metric

    @property
    def _sign(self) -> float:
        return -1.0 if leaks_towards(self.rows[0]) == "down" else 1.0

    def _rank(self, r: Row) -> tuple[float, bool, bool]:
        return self._got(r), not failed_control(r), rung(r) != PAPER

    def _got(self, r: Row) -> float:
        return self._sign * number_of_row(r)


def rivals(rows: Sequence[Row]) -> Iterator[Rivals]:
    """All of them, in the order of the rows."""
    cases: dict[tuple[str, ...], list[Row]] = {}
    asked: dict[tuple[str, ...], list[Row]] = {}
    for r in rows:
        cases.setdefault(case(r), []).append(r)
        if r.attack and r.ours and r.ours.n:
            asked.setdefault((*case(r), r.metric), []).append(r)
    for key, mine in asked.items():
        yield Rivals(tuple(mine), tuple(cases[key[:-1]]))


def by_strongest(measures: Sequence[Measure], rows: Sequence[Row]) -> list[Row]:
    """``rows``, with the strongest attacker's number in the place of every other's.

    Rivals are here those on one metric at one stage, on probes or on what was sent. A row is marked
    ``LACKING`` where a rival that is to be asked of its method has no number here, or one of an
    attack that was too weak, or whose search found no end: who tried that has tried nothing.
    """
    of = {m.key: (m.metric, m.stage, m.probe) for m in measures if m.attack}
    asked: dict[tuple[object, ...], list[Row]] = {}
    for r in rows:
        if r.attack and r.ours and r.ours.n and r.measure in of:
            asked.setdefault((*case(r), of[r.measure]), []).append(r)
    out = []
    for r in rows:
        mine = asked.get((*case(r), of.get(r.measure)), []) if r.attack else []
        best = Rivals(tuple(mine), ()).best if mine else r
        wanted = {m.key for m in measures if m.key in of and m.asks(r.method)} if mine else set()
        rivals_of = {key for key in wanted if of[key] == of[r.measure]}
        heard = {one.measure for one in mine if one is best or not one.flags & flags.WEAK}
        lacks = rivals_of - heard
        marks = best.flags | {LACKING} if lacks else best.flags
        out.append(best.model_copy(update={"measure": r.measure, "flags": marks}))
    return out


def case(r: Row) -> tuple[str, ...]:
    """What all rows of one case of one table share."""
    return r.recipe, r.scale, r.dataset, r.label


def worst(asked: Sequence[Rivals]) -> list[Rivals]:
    """Of each case's metric on a task the table that speaks worst of it.

    Live runs before dead ones; then one that surely leaks half of what there is, then one that
    leaves the blind guess behind, however large the share of others may look; then the largest
    share as it is printed; of equals one whose attack works, then where more was tried.
    """
    found: dict[tuple[str, str, str], Rivals] = {}
    for q in asked:
        if q.subject not in found or _weight(q) > _weight(found[q.subject]):
            found[q.subject] = q
    return list(found.values())


def _weight(q: Rivals) -> tuple[bool, bool, bool, float, bool, int]:
    got = share(q.telling)
    least = round(got or 0.0, 2)
    return not q.dead, q.leaks, q.beyond, least, got is not None, len(q.rows)


def number_of_row(r: Row) -> float:
    """Its value.

    Raises:
        ValueError: nothing was measured.
    """
    if r.ours is None:
        raise ValueError(f"{r.recipe}: {r.label} has no {r.metric}")
    return r.ours.value


def share(r: Row) -> float | None:
    """How far it comes from the blind guess (0) to nothing defended (1), which chance may exceed.

    On the scale on which the metric's differences are taken; what is as good as the original counts
    as all there is. None where nothing defended leaks no more than a blind guess, or one of the two
    is not there.
    """
    return None if r.ours is None else _share_at(r, r.ours.value)


def surely(r: Row, *, at_most: bool = False) -> float | None:
    """The same of the end of its interval on the side of the blind guess, or of the other."""
    if r.ours is None:
        return None
    ends = [_share_at(r, end) for end in (r.ours.lowest, r.ours.highest)]
    told = [end for end in ends if end is not None]
    return (max if at_most else min)(told, default=None)


def _share_at(r: Row, value: float) -> float | None:
    if failed_control(r) or r.floor is None or r.control is None:
        return None
    meaning = meaning_of(r)
    sign = -1.0 if meaning.direction == "down" else 1.0
    good = math.inf if meaning.as_good is None else sign * meaning.scaled(meaning.as_good)
    told = (sign * meaning.scaled(v) for v in (value, r.floor, r.control))
    got, blind, best = (min(t, good) for t in told)
    return max(0.0, (got - blind) / (best - blind)) if best > blind else None


def _beyond(r: Row, *, up: bool) -> bool:
    if r.ours is None or r.floor is None:
        return False
    return r.ours.lowest > r.floor if up else r.ours.highest < r.floor


def failed_control(r: Row) -> bool:
    """Is the attack too weak to judge: with nothing defended it gets no more than a blind guess?"""
    return "control_failed" in r.flags or (r.floor is not None and r.floor == r.control)


def rung(r: Row) -> str:
    """How much the attack of a row uses."""
    return str(threat_of(r).rung)


def threat_of(r: Row) -> ThreatModel:
    """Who its attacker is, and what it is told."""
    return _built(r).threat


def leaks_towards(r: Row) -> str:
    """Where more leaks: `up` or `down`."""
    return str(meaning_of(r).direction)


def meaning_of(r: Row) -> Meaning:
    """How its attack's metric is read."""
    (found,) = [m.meaning for m in _built(r).metrics if m.name == r.metric]
    return found


def spelled(r: Row) -> str:
    """The attack with what differs from its defaults: ``prototype_averaging(window=5)``."""
    given, usual = _built(r).model_dump(), _default(r).model_dump()
    said = [f"{k}={v}" for k, v in given.items() if k != "seed" and v != usual[k]]
    shown = said if len(said) <= SHOWN else [*said[:SHOWN], "..."]
    return r.attack + (f"({', '.join(shown)})" if said else "")


def _set(r: Row) -> tuple[str, dict[str, object]]:
    """The attack and all of its settings but the seed."""
    return r.attack, {k: v for k, v in _built(r).model_dump().items() if k != "seed"}


def _measures(r: Row, metric: str) -> bool:
    return metric in {m.name for m in _built(r).metrics}


def _built(r: Row) -> Attack:
    return _attack(r.attack, canonical(r.attack_params or {}))


def _default(r: Row) -> Attack:
    return _attack(r.attack, canonical({}))


@cache
def _attack(name: str, params: str) -> Attack:
    found: type[Attack] = registry.load_plugin("attacks", name)
    return found.build(json.loads(params), name)
