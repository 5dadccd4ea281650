"""The kinds of order that a paper's statement may claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import pairwise

from leakbench.reproduce.needs import Needed
from leakbench.reproduce.power import relation, seeds_beside, seeds_needed
from leakbench.reproduce.row import Measurement, Row
from leakbench.reproduce.statements import FAILS, HOLDS, OPEN, WITHIN, Order, Statement, Verdict


@dataclass(frozen=True)
class Falls(Order):
    """The values fall along ``along``.

    No step rises, and the ends are apart (their intervals do not touch).
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
        if "out of order" in steps:
            return WITHIN, "a step rises, but its intervals overlap"
        apart = f"{steps.count('below')} of {len(steps)} steps beyond their intervals"
        return (HOLDS, apart) if ends == "below" else (WITHIN, "even the ends' intervals overlap")

    def needed(self, live: Mapping[str, Measurement], seeds: Mapping[str, int]) -> list[Needed]:
        """The steps that rise, and the ends where they are not apart."""
        steps = [(b, a) for a, b in pairwise(live)]
        rising = [p for p in steps if relation(live[p[0]], live[p[1]], len(live)) == "out of order"]
        ends = [*live][-1], next(iter(live))
        return _pairs_needed([*rising, ends], live, seeds, len(live))


@dataclass(frozen=True)
class Less(Order):
    """In each pair the first value is below the second, and all of them apart."""

    pairs: tuple[tuple[str, str], ...] = ()

    def labels(self) -> tuple[str, ...]:
        """The cases it speaks of."""
        return tuple(label for pair in self.pairs for label in pair)

    def within(self, labels: Set[str]) -> Less | None:
        """The pairs of which both are run; None if there is none."""
        pairs = tuple(p for p in self.pairs if labels >= set(p))
        return replace(self, pairs=pairs) if pairs else None

    def verdict(self, live: Mapping[str, Measurement]) -> tuple[Verdict, str]:
        """Of the live numbers by label: the verdict, and what has to be added to them."""
        there = [(a, b) for a, b in self.pairs if a in live and b in live]
        found = [relation(live[a], live[b], len(there)) for a, b in there]
        if not found:
            return OPEN, "no pair of live runs"
        if "above" in found:
            return FAILS, "a pair is the other way round by more than its intervals"
        below, count, every = found.count("below"), len(found), len(self.pairs)
        said = f"{below} of {count} pairs beyond their intervals"
        if "out of order" in found:
            said += f", {found.count('out of order')} the other way round within them"
        if count < every:
            said += f"; {every - count} of {every} pairs cannot be judged"
        return (HOLDS if below == count else WITHIN), said

    def needed(self, live: Mapping[str, Measurement], seeds: Mapping[str, int]) -> list[Needed]:
        """The pairs that are not apart."""
        there = [(a, b) for a, b in self.pairs if a in live and b in live]
        return _pairs_needed(there, live, seeds, len(there))


@dataclass(frozen=True)
class Equals(Order):
    """Each value of ``values`` (label, number) is met to ``tolerance``."""

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
        if all(abs(m.value - v) <= near + 1e-9 for m, v in asked):
            return HOLDS, f"to {near:g}" if near else "exactly"
        if all(m.lowest - near <= v <= m.highest + near for m, v in asked):
            return WITHIN, "the interval holds it"
        return FAILS, "outside the interval"

    def needed(self, live: Mapping[str, Measurement], seeds: Mapping[str, int]) -> list[Needed]:
        """Each that is not met, and not known to be missed."""
        return [
            ((label,), seeds_beside(live[label], v, seeds[label]))
            for label, v in self.values
            if label in live and abs(live[label].value - v) > self.tolerance + 1e-9
        ]


@dataclass(frozen=True)
class Keeps(Order):
    """Each of ``those`` loses at most the metric's margin against ``reference``.

    The margin is that of ``leakbench check``. It holds if even the worse end of the interval loses
    no more than that against the reference's value.
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
        worst = [ref.value - m.lowest if up else m.highest - ref.value for m in asked]
        lost = [ref.value - m.value if up else m.value - ref.value for m in asked]
        apart = [m.highest < ref.lowest if up else m.lowest > ref.highest for m in asked]
        if max(worst) <= margin:
            return HOLDS, f"a loss of more than {margin:g} is excluded"
        if not any(loss > margin and far for loss, far in zip(lost, apart, strict=True)):
            return WITHIN, f"a loss of more than {margin:g} is not excluded"
        return FAILS, f"one loses more than {margin:g} beyond the intervals"

    def needed(self, live: Mapping[str, Measurement], seeds: Mapping[str, int]) -> list[Needed]:
        """Each of which a loss beyond the margin is neither seen nor excluded."""
        ref = live[self.reference]
        if ref.meaning is None:
            return []
        sign = 1 if ref.meaning.direction == "up" else -1
        limit = ref.value - sign * ref.meaning.matters
        out: list[Needed] = []
        for label in self.those:
            m = live.get(label)
            if m and sign * ((m.lowest if sign > 0 else m.highest) - limit) < 0:
                out.append(((self.reference, label), seeds_beside(m, limit, seeds[label])))
        return out


@dataclass(frozen=True)
class Best(Order):
    """The best of ``those`` is above ``reference``, apart from it."""

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
        found = relation(live[self.reference], asked[best])
        if found == "below":
            return HOLDS, said
        return FAILS if found == "above" else WITHIN, said

    def needed(self, live: Mapping[str, Measurement], seeds: Mapping[str, int]) -> list[Needed]:
        """The best, beside the reference."""
        best = _highest({label: live[label] for label in self.those if label in live})
        return _pairs_needed([(self.reference, best)], live, seeds, 1)


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
    pairs: Sequence[tuple[str, str]],
    live: Mapping[str, Measurement],
    seeds: Mapping[str, int],
    among: int,
) -> list[Needed]:
    """Each of ``pairs`` that is not apart."""
    out: list[Needed] = []
    for a, b in dict.fromkeys(pairs):
        if relation(live[a], live[b], among) in ("in order", "out of order"):
            few = min(seeds[a], seeds[b])
            out.append(((a, b), seeds_needed(live[a], live[b], few, among)))
    return out
