"""The outcome of a check in one sentence: the last line in a terminal, the first on a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from leakbench.gate.outcome import CANNOT_TELL
from leakbench.judging.wording import plural
from leakbench.reporting.check_data import CheckLimit, CheckRow
from leakbench.reporting.check_lines import moved_text

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
