"""What `leakbench check` said, for people: the strip of a page and the table of a pull request."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from leakbench.gate.outcome import CheckResult, Comparison
from leakbench.gate.row import UTILITY, GateRow
from leakbench.judging.wording import plural
from leakbench.reporting.commands import more_seeds, training, trains
from leakbench.reporting.data import Check, CheckRow
from leakbench.results.names import Method, setting_names
from leakbench.results.number import ANY, CASCADE, END
from leakbench.results.settings import Setting

WORST_FIRST = ("leaks more", "loses utility", "cannot tell", "new", "fine")
URGENT = WORST_FIRST[:3]
ATTACKS = {CASCADE: "best real attacker", ANY: "worst case", UTILITY: "utility"}
FAILED = {1: "Check failed (exit 1)", 3: "Check undecided (exit 3)"}


def check_of(
    result: CheckResult, settings: Sequence[Setting], baseline: Path | None = None
) -> Check:
    """The outcome of a check in words.

    Args:
        result: what the gate said.
        settings: of the runs that were checked.
        baseline: the file compared with.
    """
    methods = {s.family: s.method for s in settings}
    known = [r.configuration for c in result.rows for r in (c.now, c.then) if r]
    every = {c.key: c for c in known}
    names = setting_names(list(every.values()), methods)
    helper = _Settling(settings, baseline)
    words = _Words(result.rows, names, methods, helper)
    ordered = sorted(result.rows, key=lambda c: WORST_FIRST.index(c.state))
    rows = tuple(words.row(c) for c in ordered)
    urgent = first_said([r for r in rows if r.verdict in URGENT])
    lines = [told(r, said) for r, said in urgent]
    undone = len(result.unfinished)
    return Check(
        exit=result.exit_code,
        lines=(*(f"cannot tell: {u}" for u in result.unfinished), *lines),
        against=_against(baseline, result.rows),
        heading=heading(result.exit_code, rows, undone),
        rows=rows,
    )


def heading(code: int, rows: Sequence[CheckRow], undone: int = 0) -> str:
    """As in "Check failed (exit 1): 1 row leaks more, 2 cannot tell, 17 fine.".

    ``undone``: runs that failed or are not finished.
    """
    gated = [r for r in rows if r.verdict != "new"]
    if not gated:
        return "Nothing is gated yet: `leakbench check --update`."
    if code == 0:
        fine = "the one row is fine" if len(gated) == 1 else f"all {len(gated)} rows fine"
        known = [r for r in gated if r.difference is not None and r.margin]
        close = max(known, key=lambda r: r.difference or 0.0, default=None)
        nearest = ""
        if close and close.difference and close.difference > 0:
            nearest = f" Closest: {close.row}, {moved_text(close)}."
        return f"Check passed: {fine}.{nearest}"
    count = Counter(r.verdict for r in rows)
    said = {v: f"{count[v]} {v}" for v in WORST_FIRST}
    leak, lose = count["leaks more"], count["loses utility"]
    said["leaks more"] = f"{plural(leak, 'row')} leak{'s' if leak == 1 else ''} more"
    said["loses utility"] = f"{plural(lose, 'row')} lose{'s' if lose == 1 else ''} utility"
    ended = FAILED.get(code, f"Check ended with exit {code}")
    parts = [f"{plural(undone, 'run')} failed or not finished"] * bool(undone)
    parts += [said[v] for v in WORST_FIRST if count[v]]
    return f"{ended}: {', '.join(parts)}."


def first_said(rows: Sequence[CheckRow]) -> list[tuple[CheckRow, bool]]:
    """Each row, and whether a row before it carries the same command.

    One training may settle many rows.
    """
    commands = [r.command for r in rows]
    return [(r, r.command in commands[:i]) for i, r in enumerate(rows)]


def told(row: CheckRow, said: bool = False) -> str:
    """One line about a row.

    As in "leaks more: cifar100: FedGN σ 0.3, worst case: P_leak 0.32 → 0.60, +0.28 (+0.20 to
    +0.35), allowed 0.05.".
    """
    numbers = ", ".join(t for t in (value_text(row), moved_text(row)) if t)
    settle = ": ".join(how_to_settle(row, said)).removesuffix(".")
    parts = [p for p in (numbers, row.why.removesuffix("."), settle) if p]
    return f"{row.verdict}: {row.row}: {'. '.join(parts)}."


def how_to_settle(row: CheckRow, said: bool = False) -> tuple[str, ...]:
    """(words, command) of what settles it, if anything does.

    Taking a change into the baseline settles it only if the change is meant. ``said``: an earlier
    row has the command.
    """
    if not row.command:
        return ()
    if said:
        return ("The command above settles it, too.",)
    meant = row.command.startswith("leakbench check ")
    return "If that is meant" if meant else "To settle it", row.command


def value_text(row: CheckRow) -> str:
    """As in "P_leak 0.32 → 0.60"; one side alone where the other is not there."""
    name, meaning = row.meaning.label, row.meaning
    if row.old is None and row.new is None:
        return name
    if row.new is None:
        return f"{name} {meaning.text(row.old or 0.0)} then"
    if row.old is None:
        return f"{name} {meaning.text(row.new)} now"
    return f"{name} {meaning.text(row.old)} → {meaning.text(row.new)}"


def moved_text(row: CheckRow) -> str:
    """As in "+0.28 (0.20 to 0.35), allowed 0.05.".

    For counts of samples it is the difference of their logarithms.
    """
    if row.difference is None or row.low is None or row.high is None:
        return ""
    if row.difference == row.low == row.high == 0:
        return "unchanged"
    digits = max(row.meaning.decimals, 2)
    signed = [f"{v:+.{digits}f}" for v in (row.difference, row.low, row.high)]
    scale = " on logarithms" if row.meaning.scale == "log" else ""
    allowed = "" if row.margin is None else f", allowed {row.margin:.{digits}f}"
    return f"{signed[0]} ({signed[1]} to {signed[2]}){scale}{allowed}"


def attack_words(row: GateRow) -> str:
    """As in "the paper's own attack (nearest_prototype), on probes"."""
    name = row.attack.replace("_", " ")
    name = ATTACKS.get(row.attack, f"paper's own attack ({name})" if row.rung == "paper" else name)
    when = "" if row.stage in END or row.is_utility else f", {row.stage}"
    return name + when + (", on probes" if row.probe else "")


class _Words:
    """What is said of each row, in the names of the settings that are there."""

    def __init__(
        self,
        every: Sequence[Comparison],
        names: Mapping[str, str],
        methods: Mapping[str, Method],
        helper: _Settling,
    ) -> None:
        self.every, self.names, self.methods, self.helper = every, names, methods, helper

    def row(self, c: Comparison) -> CheckRow:
        """One of them."""
        one = c.now or c.then
        assert one  # noqa: S101 (a row is of one side at least)
        changed = self._renamed(c)
        why = "" if c.d is not None and c.state != "fine" else c.reason
        if changed:
            why = f"Its setting changed: {', '.join(changed)}. {why}"
        return CheckRow(
            verdict=c.state,
            row=f"{one.task}: {self.names[one.configuration.key]}, {attack_words(one)}",
            ref=c.name,
            meaning=(c.now or one).means,
            old=c.then.value if c.then else None,
            new=c.now.value if c.now else None,
            difference=c.d,
            low=c.low,
            high=c.high,
            margin=c.then.allowed if c.then else None,
            why=why.strip(),
            command=self.helper.command(c) if c.state == "cannot tell" else "",
        )

    def _renamed(self, c: Comparison) -> list[str]:
        """The parameters that changed, where one new row of the method replaces a gone one."""
        then = c.then
        if then is None or c.now is not None:
            return []
        fresh = [o.now for o in self.every if o.then is None and o.now]
        fresh = [row for row in fresh if _question(row) == _question(then)]
        if len(fresh) != 1:
            return []
        method = self.methods.get(then.defense) or Method(then.defense)
        old, new = then.defense_params, fresh[0].defense_params
        out = []
        for k in sorted(old.keys() | new.keys()):
            if old.get(k) != new.get(k):
                values = f"{old.get(k, 'not set')} → {new.get(k, 'not set')}"
                out.append(f"{method.letter(k)} {values}")
        value = fresh[0].means.text(fresh[0].value)
        return [*out, f"and there it is {value}"] if out else []


def _question(row: GateRow) -> tuple[Any, ...]:
    wrappers = [w.get("name") for w in row.wrappers]
    attack = (row.attack, row.attack_params, row.metric, row.stage, row.probe)
    return (row.task, row.defense, wrappers, *attack)


def _against(baseline: Path | None, rows: Sequence[Comparison]) -> str:
    """The file, and the commit at which its rows were made where they agree on one."""
    commits = {c for j in rows if j.then for c in j.then.provenance.get("commit", ()) if c}
    at = f" made at {commits.pop()[:7]}" if len(commits) == 1 else ""
    return "" if baseline is None else f"{baseline.name}{at}"


class _Settling:
    """Which command answers what a check cannot tell."""

    def __init__(self, settings: Sequence[Setting], baseline: Path | None) -> None:
        runs = [run for s in settings for run in s.every]
        self.folders = shlex.join(dict.fromkeys(str(r.path.parent) for r in runs))
        self.commands = {s.key: trains(s) for s in settings}
        named = baseline is not None and baseline != Path("leakage.json")
        self.baseline = ["--baseline", str(baseline)] if named else []

    def command(self, c: Comparison) -> str:
        """Train what is missing or too little, attack it, or take it into the baseline.

        The last settles it only if the change is meant.
        """
        now, then = c.now, c.then
        again = f"leakbench attack {self.folders}".rstrip()
        if now is None and then is not None:
            trained = then.configuration.key in self.commands and not then.is_utility
            return again if trained else f"{training(then, len(then.scores))} && {again}"
        if now is not None and c.seeds:
            return f"{self._more(now, c.seeds)} && {again}"
        line = ["leakbench", "check", *shlex.split(self.folders), *self.baseline]
        return shlex.join([*line, "--update", "--accept", c.name])

    def _more(self, row: GateRow, seeds: int) -> str:
        """The command that trained the setting, with more seeds."""
        words = shlex.split(self.commands.get(row.configuration.key, ""))
        if "--seeds" not in words[:-1]:
            return training(row, seeds)
        words[words.index("--seeds") + 1] = ",".join(map(str, more_seeds(row.scores, seeds)))
        return shlex.join(words)
