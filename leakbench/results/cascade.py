"""Many attacks as one: what an attacker really reaches (cascade), and a bound on what any of them
could (any_attack).

Both are made from units.csv whenever they are shown, and never stored. Attacks whose control failed
do not enter.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from leakbench.record.columns import RUNGS, STAGES, Row
from leakbench.results.units import ROLES, Measured, Unit, numbers
from leakbench.scoring import flags
from leakbench.statistics.intervals import NoInterval

CASCADE, ANY = "cascade", "any_attack"
KINDS = (CASCADE, ANY)

# Metric, probe, stage; `final` and `all` are one question, called `all`.
Question = tuple[str, bool, str]
Guesses = Sequence[tuple[Measured, Unit]]


def question(m: Measured) -> Question | None:
    """What a row answers: rows of one question are joined, others stay apart. None for `curve`,
    which is no answer of its own.
    """
    stage = m.row["stage"]
    return (
        None
        if stage == "curve"
        else (m.row["metric"], m.row["probe"], "all" if stage == "final" else stage)
    )


def questions(rows: Sequence[Measured]) -> dict[Question, list[Measured]]:
    """Rows of one run, or of the seeds of one configuration, by question."""
    out: dict[Question, list[Measured]] = defaultdict(list)
    for m in rows:
        asked = question(m)
        if asked is not None:
            out[asked].append(m)
    return dict(sorted(out.items()))


def entering(
    kind: str, rows: Sequence[Measured], failed: Callable[[Measured], bool]
) -> list[Measured]:
    """The rows that enter, in the order in which they are tried. ``failed``: did the control of
    this row fail?
    """
    fit = [m for m in rows if not failed(m) and (kind == ANY or m.row["rung"] != "paper")]
    return sorted(fit, key=_turn)


def why_none(kind: str, rows: Sequence[Measured]) -> str:
    """Why no row of a question entered."""
    if kind == CASCADE and all(m.row["rung"] == "paper" for m in rows):
        return "only the paper's own attack ran (rung paper), which never enters the cascade"
    return "the control of every attack that could enter failed: too weak to judge"


def combine(kind: str, parts: Sequence[Measured], stage: str | None = None) -> Measured:
    """The row `cascade` or `any_attack` of one run and one question.

    Args: kind: "cascade" or "any_attack". parts: what ``entering`` returned for this run, not
        empty. stage: the row's stage where other seeds decide it; else that of the parts, `all`
        where they differ.

    Raises:
        NoInterval: there is one unit only, and the metric's range has no end.
    """
    first = parts[0]
    picks = [(first, u) for u in first.units["attack"]] if len(parts) == 1 else _pick(kind, parts)
    used = [m for m in parts if any(m is p for p, _ in picks)]
    units = (
        first.units
        if len(parts) == 1
        else {"attack": tuple(u for _, u in picks), **_beside(kind, parts, picks)}
    )
    exact = frozenset(ROLES).intersection(*(m.exact for m in (used if kind == CASCADE else parts)))
    stages = {m.row["stage"] for m in parts}
    row = first.row | {
        "attack": kind,
        "attack_params": "{}",
        "rung": max((m.row["rung"] for m in parts), key=RUNGS.index),
        **{
            c: _joined(m.row[c] for m in parts)
            for c in ("observer", "knowledge", "engine", "device", "dtype", "version", "commit")
        },
        "stage": stage or (stages.pop() if len(stages) == 1 else "all"),
        "round": max(m.row["round"] for m in parts),
        "failed": sum(u.failed for _, u in picks),
    }
    out = Measured(
        first.run,
        row,
        first.scale,
        0,
        units,
        exact,
        {name: sha for m in parts for name, sha in m.guesses.items()},
    )
    if len(parts) > 1:  # with one attack the row is that attack
        row |= numbers([out])
        row["flags"] = flags.join(row_flags(out, used))
    return out


def row_flags(m: Measured, used: Sequence[Measured]) -> set[str]:
    """Flags of a row made here: what the attacks ``used`` carry, and what its own units say."""
    carried = {f for p in used for f in flags.split(p.row["flags"])} & flags.CARRIED
    units = m.units["attack"]
    own = flags.of_units([u.cluster for u in units], [u.failed for u in units])
    return (
        carried
        | own
        | ({"probe"} if m.row["probe"] else set())
        | ({"control_failed"} if flags.control_failed(m.row) else set())
    )


def rows_of_run(rows: Sequence[Measured]) -> list[Row]:
    """`cascade` and `any_attack` of one run; what cannot be had is said per configuration, in
    missing.csv.
    """
    out = []
    for asked in questions(rows).values():
        for kind in KINDS:
            parts = entering(kind, asked, lambda m: flags.control_failed(m.row))
            try:
                out += [combine(kind, parts).row] if parts else []
            except NoInterval:
                continue
    return out


def _turn(m: Measured) -> tuple[int, int, str, str, int]:
    return (
        RUNGS.index(m.row["rung"]),
        m.order,
        m.row["attack"],
        m.row["attack_params"],
        STAGES.index(m.row["stage"]),
    )


def _pick(kind: str, parts: Sequence[Measured]) -> list[tuple[Measured, Unit]]:
    """One guess per unit, units in the order in which they first appear."""
    by_unit: dict[str, list[tuple[Measured, Unit]]] = defaultdict(list)
    for m in parts:
        for unit in m.units["attack"]:
            by_unit[unit.name].append((m, unit))
    return [
        (_last_accepted if kind == CASCADE else _most_leaking)(guesses)
        for guesses in by_unit.values()
    ]


def _last_accepted(guesses: Guesses) -> tuple[Measured, Unit]:
    """The last that its own self-check accepts, else the first. An attack knows that it failed:
    then it has no guess.
    """
    accepted = [g for g in guesses if g[1].accepted and not g[1].failed]
    made = [g for g in guesses if not g[1].failed]
    return accepted[-1] if accepted else (made or list(guesses))[0]


def _most_leaking(guesses: Guesses) -> tuple[Measured, Unit]:
    """The worst by the truth; of equal ones the first that did not fail."""
    best = guesses[0]
    for guess in guesses[1:]:
        better = best[0].scale.worse(guess[1].score, best[1].score)
        if better or (guess[1].score == best[1].score and best[1].failed and not guess[1].failed):
            best = guess
    return best


def _beside(kind: str, parts: Sequence[Measured], picks: Guesses) -> dict[str, tuple[Unit, ...]]:
    """Floor and control: of the attack picked for each unit (cascade), or the best of all attacks
    (any_attack).
    """
    out = {}
    for role in ("floor", "control"):
        if kind == CASCADE:
            out[role] = tuple(_same(role, m, u) for m, u in picks)
        else:
            out[role] = tuple(
                _best(parts[0], [_same(role, m, u) for m in parts if u.name in m.by_name["attack"]])
                for _, u in picks
            )
    return out


def _same(role: str, m: Measured, unit: Unit) -> Unit:
    """The blind or the control guess of ``m`` for the same unit; where it has none for that unit,
    the row's mean stands for it.
    """
    return m.by_name[role].get(unit.name) or Unit(
        unit.name, unit.cluster, float(m.row[role]), False, False
    )


def _best(m: Measured, units: Sequence[Unit]) -> Unit:
    out = units[0]
    for unit in units[1:]:
        out = unit if m.scale.worse(unit.score, out.score) else out
    return out


def _joined(values: Iterable[object]) -> str:
    """Distinct parts, in the order in which they appear."""
    return "|".join(dict.fromkeys(p for v in values for p in str(v).split("|") if p))
