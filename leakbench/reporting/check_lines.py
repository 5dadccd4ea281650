"""What a check said, a line for each thing that happened, the most urgent first, and its heading.

Rows of one setting that moved together, or that cannot be told for the same kind of reason, are
one thing: the worst of them gives the numbers, the others are counted. The heading is the last line
in a terminal and the first on a page.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from leakbench.base.printable_text import on_one_line
from leakbench.gate.outcome import CANNOT_TELL
from leakbench.reporting.check_commands import accepted
from leakbench.reporting.check_data import Check, CheckLimit, CheckRow
from leakbench.results.number import ANY, CASCADE
from leakbench.words.amounts import plural

WORST_FIRST = ("breached", "leaks more", "loses utility", "cannot tell", "new", "fine", "kept")
FAILING = WORST_FIRST[:3]
ALLOWED = "allowed"  # the kind of a new row that nobody minds
UNDECIDED = "undecided"  # the kind of those that more seeds would settle
ENDS = {
    "ceiling": "at its ceiling in the baseline, so it cannot get worse",
    "floor": "no further than the margin from a blind guess in the baseline",
}
SETTLES = "To settle it"
ACCEPTS = "If that is meant"


@dataclass(frozen=True)
class CheckLine:
    """One thing that happened.

    ``where``: setting and attack; ``value``: from what to what; ``moved``: by how much; ``why``: a
    reason beside the numbers; ``more``: how many further rows it is true of; ``refs``: the names of
    all of them; ``command``: what answers it; ``limit``: the limit that it speaks of; ``kind``: as
    of its rows; ``updates``: the command writes the baseline.
    """

    verdict: str
    where: str
    value: str = ""
    moved: str = ""
    why: str = ""
    command: str = ""
    more: int = 0
    refs: tuple[str, ...] = ()
    limit: str = ""
    kind: str = ""
    updates: bool = False

    @property
    def text(self) -> str:
        """Without the command.

        As in "leaks more: release (σ 0.3 -> 0.1): best real attacker: P_leak 0.32 → 0.60, +0.28
        (+0.20 to +0.35), allowed 0.05; and 5 more rows".
        """
        return ": ".join(t for t in (self.verdict, self.where, self.said) if t)

    @property
    def said(self) -> str:
        """What is said of it: numbers, reason, and how many more."""
        numbers = ", ".join(t for t in (self.value, self.moved) if t)
        parts = [numbers, self.why.removesuffix("."), self.others]
        return "; ".join(p for p in parts if p)

    @property
    def others(self) -> str:
        """As in "and 5 more rows"; nothing where it is alone."""
        return f"and {plural(self.more, 'more row')}" if self.more else ""


def not_fine(check: Check) -> list[CheckLine]:
    """All that is not fine, the most urgent first; new rows come last."""
    undone = [CheckLine("cannot tell", u) for u in check.unfinished]
    limits = [limit_line(x) for x in check.limits if x.verdict != "kept"]
    groups: dict[tuple[str, ...], list[CheckRow]] = {}
    for i, row in enumerate(r for r in check.rows if r.verdict != "fine"):
        alone = "" if row.setting else str(i)
        key = (row.verdict, row.setting, *row.changes, row.kind, alone)
        groups.setdefault(key, []).append(row)
    lines = [*undone, *limits, *(_together(rows) for rows in groups.values())]
    return sorted(lines, key=lambda line: WORST_FIRST.index(line.verdict))


def urgent(check: Check) -> list[CheckLine]:
    """The same without new rows that are let pass."""
    return [line for line in not_fine(check) if line.kind != ALLOWED]


def every_line(check: Check) -> list[CheckLine]:
    """A line for every row, every limit and every run that has none."""
    lines = [CheckLine("cannot tell", u) for u in check.unfinished]
    lines += [limit_line(x) for x in check.limits]
    lines += [row_line(r) for r in check.rows]
    return sorted(lines, key=lambda line: WORST_FIRST.index(line.verdict))


def text_lines(check: Check, *, quiet: bool = False, verbose: bool = False) -> list[str]:
    """What a terminal shows before the heading: all that is not fine, and what settles it."""
    out = [f"note: {note}" for note in check.notes if not quiet]
    out += [line.text for line in every_line(check) if verbose]
    for line, said in first_said(not_fine(check)):
        settle = () if quiet or said else how_to_settle(line)
        out += [line.text] * (not verbose)
        out += ["  " + ": ".join(settle)] * bool(settle)
    return [on_one_line(text) for text in out]


def row_line(row: CheckRow) -> CheckLine:
    """One row alone.

    As in "leaks more: cifar100: FedGN σ 0.3: worst case: P_leak 0.32 → 0.60, +0.28 (+0.20 to
    +0.35), allowed 0.05".
    """
    said = any(why.code == "ceiling" for why in row.reasons)
    end = "" if said else ENDS.get(row.end, "")
    why = "; ".join(t for t in (row.why.removesuffix("."), end) if t)
    numbers = (value_text(row), moved_text(row))
    told = (row.verdict, row.row, *numbers, why, row.command)
    return CheckLine(*told, refs=(row.ref,), kind=row.kind, updates=row.updates)


def limit_line(limit: CheckLimit) -> CheckLine:
    """One limit: as in "breached: release: p_leak<=0.2: unmix: 0.53 (at least 0.41)"."""
    where = ": ".join(t for t in (limit.setting, limit.limit, limit.attack) if t)
    value, refs = limit_text(limit), (limit.ref,) * bool(limit.ref)
    known = (limit.verdict, where, value, "", limit.why, limit.command)
    return CheckLine(*known, refs=refs, limit=limit.limit)


def first_said(lines: Sequence[CheckLine]) -> list[tuple[CheckLine, bool]]:
    """Each line, and whether a line before it carries the same command.

    One training may settle many rows.
    """
    commands = [line.command for line in lines]
    return [(line, line.command in commands[:i]) for i, line in enumerate(lines)]


def how_to_settle(line: CheckLine, said: bool = False) -> tuple[str, ...]:
    """(words, command) of what settles it, if anything does.

    Taking a change into the baseline settles it only if the change is meant. ``said``: an earlier
    line has the command.
    """
    if not line.command:
        return ()
    if said:
        return ("The command above settles it, too.",)
    return ACCEPTS if line.updates else SETTLES, line.command


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


def limit_text(limit: CheckLimit) -> str:
    """As in "0.53 (at least 0.41)": the bound that decided, or both where none did."""
    meaning = limit.meaning
    if meaning is None or limit.value is None:
        return ""
    low, high = (None if v is None else meaning.text(v) for v in (limit.low, limit.high))
    # A breach is sure by the bound on the limit's own side, a kept limit by the other one.
    beyond = (limit.verdict == "breached") == ("<" in limit.limit)
    bound = f" (at least {low})" * (low is not None) if beyond else ""
    if not beyond and high is not None:
        bound = f" (at most {high})"
    if limit.verdict == "cannot tell":
        bound = f" ({low} to {high})" if low and high else ""
    return meaning.text(limit.value) + bound


def _together(rows: Sequence[CheckRow]) -> CheckLine:
    """Rows of one thing that happened: the worst speaks."""
    worst = max(rows, key=_badness)
    line, others, asks = row_line(worst), [r for r in rows if r is not worst], worst
    if worst.kind == UNDECIDED:
        # As many seeds as settle all of them: said and trained.
        asks = max(rows, key=lambda r: r.seeds or math.inf)
        line = replace(line, why=asks.why)
    return replace(
        line,
        command=_one_command(asks, rows),
        more=len(others),
        refs=(worst.ref, *(r.ref for r in others)),
    )


def _badness(row: CheckRow) -> tuple[bool, float, bool, bool, bool]:
    """How far beyond what is allowed; where nothing was compared, the strongest attacker's row."""
    known = row.difference is not None
    far = (row.difference or 0.0) / (row.margin or 1.0)
    return known, far, not row.probe, row.attack == CASCADE, row.attack == ANY


def _one_command(first: CheckRow, others: Iterable[CheckRow]) -> str:
    """The first row's; where it accepts a row, one that accepts all that are accepted so."""
    if not first.accepting:
        return first.command
    alike = [r.ref for r in others if r.accepting == first.accepting]
    return accepted(first.accepting, dict.fromkeys([first.ref, *alike]))


FAILED = {
    1: "Check failed (exit 1)",
    CANNOT_TELL: "Check undecided (exit 3)",
    4: "Check incomplete, for a run or an attack failed (exit 4)",
}
WARNED = "Check undecided, which is a warning here (exit 0)"


def heading(
    code: int,
    rows: Sequence[CheckRow],
    undone: int = 0,
    limits: Sequence[CheckLimit] = (),
    *,
    warn: bool = False,
    softer: Sequence[str] = (),
) -> str:
    """As in "Check failed (exit 1): 1 row leaks more, 2 cannot tell, 17 fine.".

    Args:
        code: the exit code of the check.
        rows: every row.
        undone: runs that failed or are not finished.
        limits: every limit on every setting.
        warn: what cannot be told is no more than a warning.
        softer: in what the build is held to less than when the baseline was written; said first.
    """
    if softer:
        plain = heading(code, rows, undone, limits, warn=warn)
        return f"Held to less than the baseline was written for ({'; '.join(softer)}). {plain}"
    gated = [r for r in rows if r.verdict != "new"]
    if not gated and not limits and not undone:
        return "Nothing is gated yet: `leakbench check --update`."
    if code == 0:
        return _passed(gated, rows, limits)
    count = Counter(r.verdict for r in rows)
    held = Counter(x.verdict for x in limits)
    leak, lose = count["leaks more"], count["loses utility"]
    told = {
        f"{plural(undone, 'run')} failed or not finished": undone,
        f"{plural(held['breached'], 'limit')} breached": held["breached"],
        f"{plural(leak, 'row')} leak{'s' * (leak == 1)} more": leak,
        f"{plural(lose, 'row')} lose{'s' * (lose == 1)} utility": lose,
        f"{plural(held['cannot tell'], 'limit')} cannot be told": held["cannot tell"],
        f"{count['cannot tell']} cannot tell": count["cannot tell"],
        f"{count['new']} new": count["new"],
        f"{plural(held['kept'], 'limit')} kept": held["kept"],
        f"{count['fine']} fine{_ended(gated)}": count["fine"],
    }
    ended = FAILED.get(code, f"Check ended with exit {code}")
    if warn and code == CANNOT_TELL:
        ended = WARNED
    return f"{ended}: {', '.join(text for text, there in told.items() if there)}."


def _passed(gated: Sequence[CheckRow], rows: Sequence[CheckRow], limits: Sequence[object]) -> str:
    fine = "the one gated row is fine" if len(gated) == 1 else f"all {len(gated)} gated rows fine"
    new = len(rows) - len(gated)
    parts = [f"{fine}{_ended(gated)}"] * bool(gated)
    parts += [f"{plural(len(limits), 'limit')} kept"] * bool(limits)
    parts += [f"{new} new, let pass by allow_new and compared with nothing"] * bool(new)
    known = [r for r in gated if r.difference is not None and r.margin]
    close = max(known, key=lambda r: r.difference or 0.0, default=None)
    nearest = ""
    if close and close.difference and close.difference > 0:
        nearest = f" Closest: {close.row}, {moved_text(close)}."
    return f"Check passed: {'; '.join(parts)}.{nearest}"


def _ended(gated: Sequence[CheckRow]) -> str:
    """How many of the fine rows say nothing, because they were as bad as can be before."""
    ends = sum(r.verdict == "fine" and r.end == "ceiling" for r in gated)
    if not ends:
        return ""
    one = ends == 1
    its, they = ("its ceiling", "it cannot") if one else ("their ceiling", "they cannot")
    return f", {ends} of them at {its}: {they} get worse"
