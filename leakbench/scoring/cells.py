"""All guesses of one attack at one round: its units, and floor and control beside them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from leakbench.attacking.guess import Guess
from leakbench.attacking.guessing import ROLES, Guessed
from leakbench.attacking.metric import Metric
from leakbench.base.errors import MethodError

Key = tuple[str, int, int | None]  # unit, round, probe


@dataclass(frozen=True)
class Cell:
    """All guesses of one attack at one round, real or probe: a line of results.csv a metric."""

    stage: str
    round: int
    probe: bool
    guesses: dict[str, dict[Key, Guess]]  # role -> key -> guess
    left_out: tuple[Guess, ...] = ()  # failed, and no blind guess can be scored in their place

    def lacking(self, metric: Metric) -> str | None:
        """Why the metric cannot be taken of these guesses; "" where it is not meant for them."""
        made = [g for role in ROLES for g in self.guesses[role].values() if not g.failed]
        lacking = [g for g in made if not set(metric.needs) <= set(g.tensors)]
        if not lacking:
            return None
        if len(lacking) == len(made) and any(g.tensors for g in made):
            return ""
        failed = [g.failed for g in self.guesses["attack"].values()]
        if all(failed):
            return f"no guess about anybody ({failed[0]})"
        return f"no {', '.join(metric.needs)} guessed for {lacking[0].unit}, nor called failed"

    @property
    def any_guess(self) -> Guess:
        """One of the attack's."""
        return next(iter(self.guesses["attack"].values()))

    def scorable(self, metric: Metric) -> Cell:
        """Without the units that have no score in any role; all of them stay if none has one."""
        attack, floor = self.guesses["attack"], self.guesses["floor"]
        gone = [
            k for k in attack if attack[k].failed and not set(metric.needs) <= set(floor[k].tensors)
        ]
        if not gone or len(gone) == len(attack):
            return self
        stay = attack.keys() - gone
        kept = {}
        for role, of in self.guesses.items():
            kept[role] = {k: g for k, g in of.items() if k in stay}
        return replace(self, guesses=kept, left_out=tuple(attack[k] for k in gone))

    @property
    def remark(self) -> str:
        """Who was left out, and why."""
        if not self.left_out:
            return ""
        first, many = self.left_out[0], len(self.left_out) + len(self.guesses["attack"])
        return (
            f"round {self.round}: {len(self.left_out)} of {many} left out of the number"
            f" ({first.unit}: {first.failed})"
        )


def cells_of(guesses: list[Guessed]) -> list[Cell]:
    """The guesses by (stage, round, probe): the attack's units, floor and control beside them."""
    found: dict[tuple[int, str, bool], dict[str, dict[Key, Guess]]] = {}
    for g in guesses:
        finite = all(bool(t.isfinite().all()) for t in g.guess.tensors.values())
        if not finite and not g.guess.failed:
            raise MethodError(
                f"the saved guess for {g.guess.unit} at round {g.guess.round} is not finite, and"
                " does not say it failed."
            )
        cell = (g.guess.round, g.stage, g.guess.probe is not None)
        roles = found.setdefault(cell, {r: {} for r in ROLES})
        roles[g.role][g.guess.unit, g.guess.round, g.guess.probe] = g.guess
    cells = []
    for (t, stage, probe), roles in sorted(found.items(), key=lambda c: c[0]):
        units = roles["attack"]
        for role in ("floor", "control"):
            lacking = [k for k in units if k not in roles[role]]
            if lacking:
                raise MethodError(
                    f"the attack's {role} has no guess for {lacking[0][0]} at round {t}; it must"
                    " cover the same units."
                )
        if units:  # what was attacked and left out counts as failed: it is never dropped
            units = {**units, **_left_out(units, roles["floor"], roles["control"])}
            of_units = {"attack": units}
            for role in ("floor", "control"):
                of_units[role] = {k: roles[role][k] for k in units}
            cells.append(Cell(stage, t, probe, of_units))
    return cells


def _left_out(
    units: dict[Key, Guess], floor: dict[Key, Guess], control: dict[Key, Guess]
) -> dict[Key, Guess]:
    """Of the units that the floor and the control have, those about which the attack is silent."""
    silent = [k for k in floor if k in control and k not in units]
    why = "the attack made no guess about it"
    return {k: Guess(k[0], k[1], probe=k[2], failed=why) for k in silent}
