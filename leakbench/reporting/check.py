"""What `leakbench check` said, in words: what a terminal, a page and a pull request show."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from leakbench.base.printable_text import one_line
from leakbench.gate.change import Change
from leakbench.gate.outcome import CheckResult, Comparison, LimitOutcome
from leakbench.gate.row import UTILITY, GateRow
from leakbench.reporting.check_commands import Settling
from leakbench.reporting.check_data import Check, CheckLimit, CheckRow
from leakbench.reporting.check_lines import ALLOWED, UNDECIDED, WORST_FIRST, heading, urgent
from leakbench.results.names import Method, SettingName, setting_names
from leakbench.results.number import ANY, CASCADE, END
from leakbench.results.settings import Setting
from leakbench.words.outcomes import kind_of_reason, short_reason

ATTACKS = {CASCADE: "best real attacker", ANY: "worst case", UTILITY: "utility"}
CHANGES = 3  # so many are told, the others counted
# These are of seeds.
_SEEDS = frozenset(("corrected", "settled_by", "never_settled", "not_all_compared"))


def check_of(
    result: CheckResult,
    settings: Sequence[Setting],
    baseline: Path | None = None,
    spec: Path | None = None,
) -> Check:
    """The outcome of a check in words.

    Args:
        result: what the gate said.
        settings: of the runs that were checked.
        baseline: the file compared with.
        spec: the SPEC.toml whose runs these are, where `leakbench ci` asks.
    """
    words = _Words(result, settings, Settling(settings, baseline, spec))
    ordered = sorted(result.rows, key=lambda c: WORST_FIRST.index(c.state))
    held = sorted(result.limits, key=lambda x: WORST_FIRST.index(x.state))
    softer = tuple(map(one_line, result.softer))
    rows, limits = tuple(map(words.row, ordered)), tuple(map(words.limit, held))
    said = Check(
        exit=result.exit_code,
        lines=(),
        against=_against(baseline, result.rows),
        heading=heading(result.exit_code, rows, len(result.unfinished), limits, softer=softer),
        rows=rows,
        limits=limits,
        unfinished=tuple(map(one_line, result.unfinished)),
        undone=tuple(one_line(why.facts["run"]) for why in result.undone),
        notes=tuple(map(one_line, result.notes)),
        softer=softer,
        baseline="" if baseline is None else str(baseline),
    )
    return said.model_copy(update={"lines": tuple(line.text for line in urgent(said))})


def attack_words(row: GateRow) -> str:
    """As in "the paper's own attack (nearest_prototype), on probes"."""
    name = one_line(row.attacker.name).replace("_", " ")
    plain = f"paper's own attack ({name})" if row.attacker.rung == "paper" else name
    name = ATTACKS.get(row.attacker.name, plain)
    when = "" if row.stage in END or row.is_utility else f", {row.stage}"
    return name + when + (", on probes" if row.probe else "")


class _Words:
    """What is said of each row, in the names of the settings that are there."""

    def __init__(
        self, result: CheckResult, settings: Sequence[Setting], settling: Settling
    ) -> None:
        shown = [c.now or c.then for c in result.rows] + [x.row for x in result.limits]
        known = {row.configuration.key: row.configuration for row in shown if row}
        methods = {s.family: s.method for s in settings}
        tasks = {key: c.task for key, c in known.items()}
        self.names = _unmarked(setting_names(list(known.values()), methods), tasks)
        self.methods: Mapping[str, Method] = methods
        self.settling = settling

    def row(self, c: Comparison) -> CheckRow:
        """One of them."""
        one = c.now or c.then
        assert one  # noqa: S101 (a row is of one side at least)
        setting = self._setting(c.now, c.then)
        changes = tuple(self._change(change, one) for change in c.changes)
        where = f"{setting} ({_several(changes)})" if changes else setting
        kind = _kind(c)
        answer = None if kind in ("fine", ALLOWED) else self.settling.row(c)
        return CheckRow(
            verdict=c.state,
            row=f"{where}: {attack_words(one)}",
            ref=c.name,
            meaning=one.meaning,
            old=c.then.value.value if c.then else None,
            new=c.now.value.value if c.now else None,
            difference=_finite(c.d),
            low=_finite(c.low),
            high=_finite(c.high),
            margin=c.then.allowed if c.then else None,
            why=one_line(short_reason(c.why)),
            reasons=c.why,
            command=answer.text if answer else "",
            accepting=answer.begin if answer and answer.accepts else "",
            updates=answer is not None and answer.updates,
            setting=setting,
            changes=changes,
            kind=kind,
            attack=one.attacker.name,
            rung=one.attacker.rung,
            stage=one.stage,
            probe=one.probe,
            end=c.end,
            look=c.look,
            seeds=c.seeds,
            more=c.more,
        )

    def limit(self, limit: LimitOutcome) -> CheckLimit:
        """One limit on one setting."""
        row = limit.row
        return CheckLimit(
            verdict=limit.state,
            limit=one_line(limit.limit),
            setting=self._setting(row) if row else one_line(limit.setting),
            attack=attack_words(row) if row else "",
            ref=limit.name,
            meaning=row.meaning if row else None,
            value=_finite(limit.value),
            low=_finite(limit.low),
            high=_finite(limit.high),
            rows=limit.rows,
            why=one_line(short_reason(limit.why)),
            reasons=limit.why,
            more=limit.more,
            command=self.settling.limit(limit),
        )

    def _setting(self, *rows: GateRow | None) -> str:
        """What its user calls it; else task, method and parameters."""
        known = [row for row in rows if row]
        called = [row.training.called for row in known if row.training.called]
        plain = f"{one_line(known[0].configuration.task)}: {self.names[known[0].configuration.key]}"
        return one_line(called[0]) if called else plain

    def _change(self, change: Change, row: GateRow) -> str:
        """With the parameter as the paper writes it: "sigma 0.3 -> 0.1" as "σ 0.3 -> 0.1"."""
        if change.name not in row.configuration.params:
            return one_line(str(change))
        method = self.methods.get(row.configuration.defense) or Method(row.configuration.defense)
        return one_line(str(replace(change, name=method.letter(change.name))))


def _kind(c: Comparison) -> str:
    """Of a setting, rows of one verdict and one kind are one thing that happened."""
    if c.state == "new":
        return ALLOWED if any(why.facts.get("allowed") for why in c.why) else c.state
    if c.state == "fine" or (c.d is not None and c.state != "cannot tell"):
        return c.state
    told = [why for why in c.why if why.code != "compared"]
    if c.d is not None and (c.more or c.seeds or not told or _SEEDS & {w.code for w in told}):
        return UNDECIDED
    return "; ".join(map(kind_of_reason, told))


def _several(changes: Sequence[str]) -> str:
    more = len(changes) - CHANGES
    return ", ".join([*changes[:CHANGES], *[f"{more} more"] * (more > 0)])


def _unmarked(names: Mapping[str, SettingName], tasks: Mapping[str, str]) -> dict[str, str]:
    """Settings that look alike are counted and not told apart by a fingerprint."""
    plain = {key: str(replace(name, mark="")) for key, name in names.items()}
    alike = Counter((tasks[key], name) for key, name in plain.items())
    seen, out = Counter[tuple[str, str]](), {}
    for key, name in sorted(plain.items()):
        which = (tasks[key], name)
        seen[which] += 1
        out[key] = f"{name} ({seen[which]})" if alike[which] > 1 else name
    return out


def _finite(value: float | None) -> float | None:
    """None for a limit that is not there."""
    return value if value is not None and math.isfinite(value) else None


def _against(baseline: Path | None, rows: Iterable[Comparison]) -> str:
    """The file, and the commit at which its rows were made where they agree on one."""
    commits = {c for j in rows if j.then for c in j.then.training.provenance.get("commit", ()) if c}
    at = f" made at {commits.pop()[:7]}" if len(commits) == 1 else ""
    return "" if baseline is None else f"{baseline.name}{at}"
