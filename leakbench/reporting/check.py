"""What `leakbench check` said, for people: the strip of a page and the table of a pull request."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leakbench.gate.baseline import UTILITY, GateRow
from leakbench.gate.comparing import LOGARITHMIC, margin_of
from leakbench.gate.gate import Judged, Verdict
from leakbench.judging.names import LETTERS, setting_names
from leakbench.judging.questions import SHORT, words
from leakbench.judging.sentences import plain, plural
from leakbench.record.folders import Run
from leakbench.reporting.commands import more_seeds, training
from leakbench.reporting.data import Check, CheckRow
from leakbench.results.keys import Row, setting_key

WORST_FIRST = ("leaks more", "loses utility", "cannot tell", "new", "fine")
URGENT = WORST_FIRST[:3]
ATTACKS = {"cascade": "best real attacker", "any_attack": "worst case", UTILITY: "utility"}
FAILED = {1: "Check failed (exit 1)", 3: "Check undecided (exit 3)"}


def check_of(
    verdict: Verdict, runs: Sequence[Run], commands: Mapping[str, str], baseline: Path | None = None
) -> Check:
    """The outcome of a check in words.

    Args:
        verdict: what the gate said.
        runs: the runs that were checked.
        commands: ``setting_key`` and ``row_key`` -> the command that makes it.
        baseline: the file compared with.
    """
    known = [r for j in verdict.rows for r in (j.now, j.then) if r]
    names = setting_names({setting_key(as_row(r)): as_row(r) for r in known})
    helper = _Settling(runs, commands, baseline)
    rows = tuple(
        _row(j, verdict.rows, names, helper)
        for j in sorted(verdict.rows, key=lambda j: WORST_FIRST.index(j.state))
    )
    lines = tuple(told(r, said) for r, said in first_said([r for r in rows if r.verdict in URGENT]))
    return Check(
        verdict.exit_code,
        lines,
        _against(baseline, verdict.rows),
        heading(verdict.exit_code, rows),
        rows,
    )


def heading(code: int, rows: Sequence[CheckRow]) -> str:
    """As in "Check failed (exit 1): 1 row leaks more, 2 cannot tell, 17 fine."."""
    gated = [r for r in rows if r.verdict != "new"]
    if not gated:
        return "Nothing is gated yet: `leakbench check --update`."
    if code == 0:
        close = max(
            (r for r in gated if r.difference is not None and r.margin),
            key=lambda r: r.difference or 0.0,
            default=None,
        )
        fine = "the one row is fine" if len(gated) == 1 else f"all {len(gated)} rows fine"
        nearest = (
            f" Closest: {close.row}, {moved_text(close)}."
            if close and close.difference and close.difference > 0
            else ""
        )
        return f"Check passed: {fine}.{nearest}"
    counts = {v: sum(r.verdict == v for r in rows) for v in WORST_FIRST}
    said = {
        "leaks more": (
            f"{plural(counts['leaks more'], 'row')} leak{'s' if counts['leaks more'] == 1 else ''}"
            " more"
        ),
        "loses utility": (
            f"{plural(counts['loses utility'], 'row')}"
            f" lose{'s' if counts['loses utility'] == 1 else ''} utility"
        ),
        "cannot tell": f"{counts['cannot tell']} cannot tell",
        "new": f"{counts['new']} new",
        "fine": f"{counts['fine']} fine",
    }
    return (
        f"{FAILED.get(code, f'Check ended with exit {code}')}:"
        f" {', '.join(said[v] for v in WORST_FIRST if counts[v])}."
    )


def first_said(rows: Sequence[CheckRow]) -> list[tuple[CheckRow, bool]]:
    """Each row, and whether a row before it carries the same command: one training may settle many
    rows.
    """
    return [
        (r, any(r.command == earlier.command for earlier in rows[:i])) for i, r in enumerate(rows)
    ]


def told(row: CheckRow, said: bool = False) -> str:
    """One line: "leaks more: cifar100: FedGN σ 0.3, worst case: P_leak 0.32 → 0.60, +0.28 (+0.20 to
    +0.35), allowed 0.05.".
    """
    numbers = ", ".join(t for t in (value_text(row), moved_text(row)) if t)
    parts = [
        numbers,
        row.why.removesuffix("."),
        ": ".join(how_to_settle(row, said)).removesuffix("."),
    ]
    return f"{row.verdict}: {row.row}: " + ". ".join(p for p in parts if p) + "."


def how_to_settle(row: CheckRow, said: bool = False) -> tuple[str, ...]:
    """(words, command): taking a change into the baseline settles it only if the change is meant.
    ``said``: an earlier row has it.
    """
    if not row.command:
        return ()
    if said:
        return ("The command above settles it, too.",)
    return (
        "If that is meant" if row.command.startswith("leakbench check ") else "To settle it",
        row.command,
    )


def value_text(row: CheckRow) -> str:
    """As in "P_leak 0.32 → 0.60"; one side alone where the other is not there."""
    name = SHORT.get(row.metric, words(row.metric).title)
    old, new = (None if v is None else plain(row.metric, v) for v in (row.old, row.new))
    if old is None or new is None:
        return f"{name} {old} then" if old else f"{name} {new} now" if new else name
    return f"{name} {old} → {new}"


def moved_text(row: CheckRow) -> str:
    """As in "+0.28 (0.20 to 0.35), allowed 0.05."; for counts of samples the difference of their
    logarithms.
    """
    if row.difference is None or row.low is None or row.high is None:
        return ""
    if row.difference == row.low == row.high == 0:
        return "unchanged"
    digits = max(words(row.metric).decimals, 2)
    signed = [f"{v:+.{digits}f}" for v in (row.difference, row.low, row.high)]
    scale = " on logarithms" if row.metric in LOGARITHMIC else ""
    allowed = "" if row.margin is None else f", allowed {row.margin:.{digits}f}"
    return f"{signed[0]} ({signed[1]} to {signed[2]}){scale}{allowed}"


def as_row(row: GateRow) -> Row:
    """The columns that name a row of the gate, as the tables have them."""
    return {
        "task": row.task,
        "defense": row.defense,
        "defense_params": row.defense_params,
        "wrappers": row.wrappers,
        "attack": row.attack,
        "attack_params": row.attack_params,
        "metric": row.metric,
        "stage": row.stage,
        "probe": row.probe,
    }


def attack_words(row: GateRow) -> str:
    """As in "the paper's own attack (nearest_prototype), on probes"."""
    name = row.attack.replace("_", " ")
    name = ATTACKS.get(row.attack, f"paper's own attack ({name})" if row.rung == "paper" else name)
    when = "" if row.stage in ("final", "all") or row.attack == UTILITY else f", {row.stage}"
    return name + when + (", on probes" if row.probe else "")


def _row(
    judged: Judged, every: Sequence[Judged], names: Mapping[str, str], helper: _Settling
) -> CheckRow:
    one = judged.now or judged.then
    assert one  # noqa: S101 (a row is of one side at least)
    twin = _renamed(judged, every)
    why = "" if judged.d is not None and judged.state != "fine" else judged.reason
    if twin:
        why = f"Its setting changed: {', '.join(twin)}. {why}"
    return CheckRow(
        verdict=judged.state,
        row=f"{one.task}: {names[setting_key(as_row(one))]}, {attack_words(one)}",
        ref=judged.name,
        metric=one.metric,
        old=judged.then.value if judged.then else None,
        new=judged.now.value if judged.now else None,
        difference=judged.d,
        low=judged.low,
        high=judged.high,
        margin=margin_of(judged.then) if judged.then else None,
        why=why.strip(),
        command=helper.command(judged) if judged.state == "cannot tell" else "",
    )


def _renamed(judged: Judged, every: Sequence[Judged]) -> list[str]:
    """Where a row of the baseline is gone and a new one of the same method took its place: the
    parameters that changed.
    """
    then = judged.then
    if then is None or judged.now is not None:
        return []
    fresh = [
        j.now for j in every if j.then is None and j.now and _question(j.now) == _question(then)
    ]
    if len(fresh) != 1:
        return []
    old, new = then.defense_params, fresh[0].defense_params
    changed = sorted(k for k in old.keys() | new.keys() if old.get(k) != new.get(k))
    value = plain(then.metric, fresh[0].value)
    out = [
        f"{LETTERS.get(k, k)} {old.get(k, 'not set')} → {new.get(k, 'not set')}" for k in changed
    ]
    return [*out, f"and there it is {value}"] if out else []


def _question(row: GateRow) -> tuple[Any, ...]:
    return (
        row.task,
        row.defense,
        [w.get("name") for w in row.wrappers],
        row.attack,
        row.attack_params,
        row.metric,
        row.stage,
        row.probe,
    )


def _against(baseline: Path | None, rows: Sequence[Judged]) -> str:
    """The file, and the commit at which its rows were made where they agree on one."""
    commits = {c for j in rows if j.then for c in j.then.provenance.get("commit", ()) if c}
    at = f" made at {commits.pop()[:7]}" if len(commits) == 1 else ""
    return "" if baseline is None else f"{baseline.name}{at}"


class _Settling:
    """Which command answers what a check cannot tell."""

    def __init__(
        self, runs: Sequence[Run], commands: Mapping[str, str], baseline: Path | None
    ) -> None:
        self.places = shlex.join(dict.fromkeys(str(r.path.parent) for r in runs))
        self.commands = commands
        self.baseline = (
            ["--baseline", str(baseline)] if baseline and baseline != Path("leakage.json") else []
        )

    def command(self, judged: Judged) -> str:
        """Train what is missing or too little, attack it, or take it into the baseline if the
        change is meant.
        """
        now, then = judged.now, judged.then
        again = f"leakbench attack {self.places}".rstrip()
        if now is None and then is not None:
            trained = setting_key(as_row(then)) in self.commands
            return (
                again
                if trained and then.attack != UTILITY
                else f"{training(then, len(then.scores))} && {again}"
            )
        if now is not None and judged.seeds:
            return f"{self._more(now, judged.seeds)} && {again}"
        return shlex.join(
            [
                "leakbench",
                "check",
                *shlex.split(self.places),
                *self.baseline,
                "--update",
                "--accept",
                judged.name,
            ]
        )

    def _more(self, row: GateRow, seeds: int) -> str:
        """The command that trained the setting, with more seeds."""
        words = shlex.split(self.commands.get(setting_key(as_row(row)), ""))
        if "--seeds" not in words[:-1]:
            return training(row, seeds)
        words[words.index("--seeds") + 1] = ",".join(map(str, more_seeds(row.scores, seeds)))
        return shlex.join(words)
