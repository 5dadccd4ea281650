"""The kinds of order that a paper's statement may claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise

from leakbench.reproduce.needs import Needed
from leakbench.reproduce.power import (
    least_above,
    most_above,
    no_more_than,
    relation,
    seeds_beside,
    seeds_needed,
    seeds_of_margin,
    seeds_within,
    surely_outside,
    surely_within,
)
from leakbench.reproduce.row import Measurement, Row
from leakbench.reproduce.statements import FAILS, HOLDS, OPEN, WITHIN, Order, Statement, Verdict

SHARE = 0.05  # what matters of a share, as `leakbench check` has it


@dataclass(frozen=True)
class Falls(Order):
    """The values fall along ``along``.

    No step rises, and the ends, which must be there, are apart (their intervals do not touch). It
    does not hold if a step rises, or if the ends surely differ by nothing that matters.
    """

    along: tuple[str, ...] = ()

    def labels(self) -> tuple[str, ...]:
        """The cases it speaks of."""
        return self.along

    def verdict(self, live: Mapping[str, Measurement]) -> tuple[Verdict, str]:
        """Of the live numbers by label: the verdict, and what has to be added to them."""
        numbers = list(live.values())
        if len(numbers) < 2:
            return OPEN, "fewer than two live runs"
        steps = [relation(b, a, len(numbers)) for a, b in pairwise(numbers)]
        ends = relation(numbers[-1], numbers[0], len(numbers))
        if "above" in (*steps, ends):
            return FAILS, "a step rises by more than its intervals"
        if not {self.along[0], self.along[-1]} <= live.keys():
            return WITHIN, "an end of it has no live run"
        margin = no_more_than(numbers[0], numbers[-1])
        if margin is not None and ends != "below":
            return FAILS, f"a change of more than {margin:.3g} is excluded"
        if "out of order" in steps:
            return WITHIN, "a step rises, but its intervals overlap"
        apart = f"{steps.count('below')} of {len(steps)} steps beyond their intervals"
        return (HOLDS, apart) if ends == "below" else (WITHIN, "even the ends' intervals overlap")

    def needed(self, live: Mapping[str, Measurement]) -> list[Needed]:
        """The steps that rise, and the ends where they are not apart."""
        steps = [(b, a) for a, b in pairwise(live)]
        rising = [p for p in steps if relation(live[p[0]], live[p[1]], len(live)) == "out of order"]
        ends = [(self.along[-1], self.along[0])] if {*self.along} <= live.keys() else []
        return _pairs_needed([*rising, *ends], live, len(live))


@dataclass(frozen=True)
class Less(Order):
    """In each pair the first value is below the second, and all of them apart.

    It does not hold if a pair is the other way round, or if in none the second is above the first
    by anything that matters.
    """

    pairs: tuple[tuple[str, str], ...] = ()
    others: int = 0  # pairs of the paper's that are not run at this scale

    def labels(self) -> tuple[str, ...]:
        """The cases it speaks of."""
        return tuple(label for pair in self.pairs for label in pair)

    def within(self, labels: Set[str]) -> Less | None:
        """The pairs of which both are run; None if there is none."""
        pairs = tuple(p for p in self.pairs if labels >= set(p))
        return replace(self, pairs=pairs, others=len(self.pairs) - len(pairs)) if pairs else None

    def ahead(self, *, upwards: bool) -> Set[str]:
        """The second of each pair, or where less is better the first."""
        return {pair[upwards] for pair in self.pairs}

    def verdict(self, live: Mapping[str, Measurement]) -> tuple[Verdict, str]:
        """Of the live numbers by label: the verdict, and what has to be added to them."""
        there = [(a, b) for a, b in self.pairs if a in live and b in live]
        found = [relation(live[a], live[b], len(there)) for a, b in there]
        if not found:
            return OPEN, "no pair of live runs"
        if "above" in found:
            one = "the pair is" if len(self.pairs) == 1 else "a pair is"
            return FAILS, f"{one} the other way round by more than its intervals"
        below, count, every = found.count("below"), len(found), len(self.pairs)
        told = [no_more_than(live[b], live[a], count) for a, b in there]
        margins = [m for m in told if m is not None]
        if not below and len(margins) == every:
            return FAILS, f"a gap of more than {max(margins):.3g} is excluded"
        said = f"{below} of {count} pairs beyond their intervals"
        if every == 1:
            said = "beyond their intervals" if below else "within their intervals"
        if "out of order" in found:
            turned = f"{found.count('out of order')} the other way round within them"
            said += f", {turned if every > 1 else 'the other way round'}"
        if count < every:
            said += f"; {every - count} of {every} pairs cannot be judged"
        if self.others:
            said += f"; {self.others} more of the paper's are not run at this scale"
        return (HOLDS if below == every else WITHIN), said

    def needed(self, live: Mapping[str, Measurement]) -> list[Needed]:
        """The pairs that are not apart."""
        there = [(a, b) for a, b in self.pairs if a in live and b in live]
        return _pairs_needed(there, live, len(there))


@dataclass(frozen=True)
class Equals(Order):
    """Each value of ``values`` (label, number) is met to ``tolerance``.

    It holds if the whole interval is as near; of a share that is to be met exactly, which no number
    of units proves, within ``SHARE``.
    """

    values: tuple[tuple[str, float], ...] = ()
    tolerance: float = 0.0

    def labels(self) -> tuple[str, ...]:
        """The cases it speaks of."""
        return tuple(label for label, _ in self.values)

    def within(self, labels: Set[str]) -> Equals | None:
        """The values of those that are run; None if there is none."""
        values = tuple(v for v in self.values if v[0] in labels)
        return replace(self, values=values) if values else None

    def verdict(self, live: Mapping[str, Measurement]) -> tuple[Verdict, str]:
        """Of the live numbers by label: the verdict, and what has to be added to them."""
        asked = [(live[label], v) for label, v in self.values if label in live]
        if not asked:
            return OPEN, "no live run"
        near = self.tolerance
        met = all(abs(m.value - v) <= near + 1e-9 for m, v in asked)
        if met and all(surely_within(m, v, self._reach) for m, v in asked):
            return HOLDS, f"to {near:g}" if near else "exactly"
        if met:
            return WITHIN, "met, and its interval holds much else"
        if any(surely_outside(m, v, near, len(asked)) for m, v in asked):
            return FAILS, "outside the interval"
        return WITHIN, "not surely outside the interval"

    @property
    def _reach(self) -> float:
        """How far the interval may reach."""
        return (self.tolerance or SHARE) + 1e-9

    def needed(self, live: Mapping[str, Measurement]) -> list[Needed]:
        """Each that is not met, and not known to be missed, or not surely met."""
        out: list[Needed] = []
        for label, v in self.values:
            m = live.get(label)
            if m is None:
                continue
            if abs(m.value - v) > self.tolerance + 1e-9:
                out.append(((label,), seeds_beside(m, v, self.tolerance, len(live))))
            elif not surely_within(m, v, self._reach):
                out.append(((label,), seeds_within(m, v, self._reach)))
        return out


@dataclass(frozen=True)
class Keeps(Order):
    """Each of ``those`` loses at most the metric's margin against ``reference``.

    The margin is that of ``leakbench check``. It holds if the loss and the error of its estimate,
    of both rows or seed by seed, come to no more than that.
    """

    those: tuple[str, ...] = ()
    reference: str = ""
    # Why they lose more, where they do; and the case that shows it, if one does.
    because: str = ""
    shown_by: tuple[str, ...] = ()

    def labels(self) -> tuple[str, ...]:
        """The cases it speaks of."""
        return (self.reference, *self.those, *self.shown_by)

    def why(self, live: Mapping[str, Measurement]) -> Sequence[str]:
        """``because``, where all it speaks of is alive and loses more than the margin."""
        if not self.because or not live.keys() >= {*self.labels()}:
            return ()
        ref = live[self.reference]
        if ref.meaning is None:
            return ()
        sign = 1 if ref.meaning.direction == "up" else -1
        lost = [sign * (ref.value - live[label].value) for label in self.those]
        return (self.because,) if min(lost) > ref.meaning.matters else ()

    def verdict(self, live: Mapping[str, Measurement]) -> tuple[Verdict, str]:
        """Of the live numbers by label: the verdict, and what has to be added to them."""
        asked = [live[label] for label in self.those if label in live]
        if self.reference not in live or not asked:
            return OPEN, "no live run to compare with"
        ref = live[self.reference]
        if ref.meaning is None:
            return OPEN, "nothing says which loss matters"
        margin, up = ref.meaning.matters, ref.meaning.direction == "up"
        worst = [most_above(*((ref, m) if up else (m, ref)), len(asked)) for m in asked]
        lost = [least_above(*((ref, m) if up else (m, ref)), len(asked)) for m in asked]
        if max(worst) <= margin:
            return HOLDS, f"a loss of more than {margin:g} is excluded"
        if max(lost) <= margin:
            return WITHIN, f"a loss of more than {margin:g} is not excluded"
        return FAILS, f"one surely loses more than {margin:g}"

    def needed(self, live: Mapping[str, Measurement]) -> list[Needed]:
        """Each of which a loss beyond the margin is neither seen nor excluded."""
        ref = live[self.reference]
        if ref.meaning is None:
            return []
        up = ref.meaning.direction == "up"
        there = [x for x in self.those if x in live]
        out: list[Needed] = []
        for label in there:
            pair = (ref, live[label]) if up else (live[label], ref)
            if most_above(*pair, len(there)) > ref.meaning.matters:
                told = seeds_of_margin(*pair, len(there))
                out.append(((self.reference, label), told))
        return out

    def ahead(self, *, upwards: bool) -> Set[str]:
        """Who keeps it."""
        return {*self.those}

    def whole(self, verdict: Verdict) -> Sequence[str]:
        """All but the case that shows why."""
        return (self.reference, *self.those) if verdict == HOLDS else ()


@dataclass(frozen=True)
class Best(Order):
    """The best of ``those`` is above ``reference``, apart from it, though it was picked."""

    those: tuple[str, ...] = ()
    reference: str = ""

    def labels(self) -> tuple[str, ...]:
        """The cases it speaks of."""
        return (self.reference, *self.those)

    def verdict(self, live: Mapping[str, Measurement]) -> tuple[Verdict, str]:
        """Of the live numbers by label: the verdict, and what has to be added to them."""
        asked = {label: live[label] for label in self.those if label in live}
        if self.reference not in live or not asked:
            return OPEN, "no live run to compare with"
        best = _highest(asked)
        said = f"{best} is the best of {len(asked)}; it was picked by its value, which flatters it"
        found = relation(live[self.reference], asked[best], len(asked))
        if found == "below":
            return HOLDS, said
        told = [no_more_than(m, live[self.reference], len(asked)) for m in asked.values()]
        margins = [m for m in told if m is not None]
        if len(margins) == len(asked):
            return FAILS, f"{said}; a gain of more than {max(margins):.3g} is excluded"
        return FAILS if found == "above" else WITHIN, said

    def needed(self, live: Mapping[str, Measurement]) -> list[Needed]:
        """The best, beside the reference."""
        there = {label: live[label] for label in self.those if label in live}
        return _pairs_needed([(self.reference, _highest(there))], live, len(there))

    def ahead(self, *, upwards: bool) -> Set[str]:
        """Of whom one is above."""
        return {*self.those}

    def whole(self, verdict: Verdict) -> Sequence[str]:
        """One that was not tried might be above."""
        return self.labels() if verdict == FAILS else ()


@dataclass(frozen=True)
class Collapses(Order):
    """Ours: this case must come out as a dead run. It is the check that dead runs are seen."""

    label: str = ""

    def labels(self) -> tuple[str, ...]:
        """The cases it speaks of."""
        return (self.label,)

    def verdict(self, live: Mapping[str, Measurement]) -> tuple[Verdict, str]:
        """Of the live numbers by label: the verdict, and what has to be added to them."""
        return (FAILS, "it lives") if live else (OPEN, "")

    def judge(self, rows: Sequence[Row], dataset: str, printed: int | None = None) -> Statement:
        """Holds if every number of the case is flagged as a dead run's."""
        mine = [r for r in rows if (r.dataset, r.label) == (dataset, self.label) and r.ours]
        if mine and all(r.dead for r in mine):
            numbers = ", ".join(f"{r.metric} {r.ours.text()}" for r in mine if r.ours)
            told = f"{self.label} is a dead run; flagged beside each of its numbers ({numbers})"
            return Statement(dataset, self.text, HOLDS, f". {told}, which are no privacy.")
        return super().judge(rows, dataset, printed)


def _highest(numbers: Mapping[str, Measurement]) -> str:
    return max(numbers, key=lambda label: numbers[label].value)


def _pairs_needed(
    pairs: Sequence[tuple[str, str]], live: Mapping[str, Measurement], among: int
) -> list[Needed]:
    """Each of ``pairs`` that is not apart."""
    out: list[Needed] = []
    for a, b in dict.fromkeys(pairs):
        if relation(live[a], live[b], among) in ("in order", "out of order"):
            told = seeds_needed(live[a], live[b], among)
            less = seeds_of_margin(live[b], live[a], among)  # or for no gap that matters
            told = min(filter(None, (told, less)), default=None)
            out.append(((a, b), told))
    return out
