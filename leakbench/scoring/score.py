"""score: saved guesses and the truth, here alone both open, become units.csv and results.csv."""

from __future__ import annotations

import math
import shutil
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from leakbench.attacking.attack import Attack
from leakbench.attacking.guess import Guess
from leakbench.attacking.guessing import ROLES, Role, folder_of, saved
from leakbench.attacking.metric import Metric, Score
from leakbench.attacking.public_facts import Outline
from leakbench.base.errors import LeakbenchError, MethodError, NotMeasured, NoWeights, UsageError
from leakbench.base.files import digests, file_digest, read_sealed, write_csv, write_sealed
from leakbench.base.interrupts import heed
from leakbench.base.printable_text import one_line
from leakbench.base.raised import own_place, raised_text
from leakbench.base.spec import canonical
from leakbench.federation.parties import Facts
from leakbench.federation.traffic import members
from leakbench.record import attack_code, columns, origin
from leakbench.record.folders import AttackFolder, Run
from leakbench.record.knowledge import chosen
from leakbench.record.placing import GUESS, NAME, hidden, put
from leakbench.record.recording import Recording
from leakbench.scoring import flags
from leakbench.scoring.cells import Cell, cells_of
from leakbench.scoring.truth import Answer, Truth
from leakbench.statistics import intervals
from leakbench.statistics.intervals import Estimate

UNSCORED = (
    "was exported without the truth and the control, or recorded so: guesses on it cannot be scored"
    " here. Who holds the run makes the same guesses with the same command, and scores them."
)


@dataclass(frozen=True)
class Checked:
    """What an attack says of its own guess, without the truth."""

    accepted: bool  # by its self-check
    settled: bool  # False: its search did not converge

    @classmethod
    def of(cls, guess: Guess, *, failed: bool) -> Self:
        """``failed``: there is no guess; that is never accepted."""
        return cls(guess.accepted and not failed, not flags.UNFOUND & {*guess.flags})


NOT_CHECKED = Checked(accepted=False, settled=True)  # a blind guess


@dataclass(frozen=True)
class Line:
    """One metric of a cell: per role, the scores per unit."""

    cell: Cell
    metric: Metric
    scores: dict[str, list[Score]]
    beside: dict[str, list[Score]]
    failed: dict[str, bool]  # unit -> did the attack fail on it
    checked: dict[str, dict[str, Checked]]  # role -> unit -> what the attack says of its guess
    remark: str = ""  # what a reader would miss in the row


def score(
    recording: Recording,
    name: str,
    attack: Attack,
    *,
    truth: Truth | None = None,
    folder: Path | None = None,
) -> Path:
    """Score the saved guesses of ``attack`` on a run again.

    Writes units.csv, results.csv and attack.json. ``truth``: another run's, for the test that
    leakage then falls to the floor. ``folder``: where the guesses lie, if not in the attack's own.

    Raises:
        UsageError: the run was exported without the truth.
        BrokenFile: the guesses or the truth are missing or damaged, or another run's.
        MethodError: no metric could be measured, and one of them by a fault: a score left its
            metric's range, or the metric raised something. Of others it is a line in missing.csv.
    """
    if recording.exported:
        raise UsageError(f"{recording.run.path} {UNSCORED}")
    folder = folder or folder_of(recording, name, attack)
    meta = read_sealed(folder / NAME)
    # What is scored must be what was guessed then, from these messages.
    made = AttackFolder(folder, meta)
    recording.run.owns(made)
    made.check(GUESS)
    recording.run.owns_guesses(made)
    found = numbers(recording, name, attack, meta, truth=truth, folder=folder)
    fresh = hidden(folder, "scored")
    shutil.rmtree(fresh, ignore_errors=True)
    write_csv(fresh / "units.csv", columns.UNITS, found.units)
    write_csv(fresh / "results.csv", columns.RESULTS, found.rows)
    done = {
        "status": "done",
        **found.described(attack, recording.facts),
        "sources": {
            **meta["sources"],
            **attack_code.scored_by(attack.metrics),
            **attack_code.attack_opened(attack, recording.run.spec),
        },
        "files": {**digests(fresh), GUESS: file_digest(folder / GUESS)},
    }
    write_sealed(fresh / NAME, {**meta, **done})
    return put(fresh, folder, keep=(GUESS,))


@dataclass(frozen=True)
class Lack:
    """A metric without a number, and why, in words that no code reads."""

    metric: str
    why: str
    weights: bool = False  # is it that those of its network are not here?

    @property
    def line(self) -> dict[str, str]:
        """As it stands in attack.json."""
        code = {"code": "no_weights"} if self.weights else {}
        return {"metric": self.metric, "reason": self.why, **code}


@dataclass(frozen=True)
class Scored:
    """What guesses and truth give: the lines of units.csv and results.csv, and what is missing."""

    units: list[dict[str, Any]]
    rows: list[dict[str, Any]]
    missing: list[Lack]

    @property
    def named(self) -> set[str]:
        """The metrics that have a number, or a reason why they have none."""
        return {r["metric"] for r in self.rows} | {lack.metric for lack in self.missing}

    def described(self, attack: Attack, facts: Facts) -> dict[str, Any]:
        """What attack.json says of them: how its metrics are read, and what is missing."""
        named = [m for m in attack.metrics if m.name in self.named]
        return {
            "metrics": {m.name: _described(m, pictured=facts.pictured) for m in named},
            "missing": [lack.line for lack in self.missing],
        }


def numbers(
    recording: Recording,
    name: str,
    attack: Attack,
    meta: dict[str, Any],
    *,
    truth: Truth | None = None,
    folder: Path | None = None,
) -> Scored:
    """Score the saved guesses of ``attack``, and write nothing.

    ``meta``: of its attack.json. ``truth``, ``folder`` and what is raised: as for ``score``.
    """
    folder = folder or folder_of(recording, name, attack)
    truth = truth or Truth(recording.run)
    if own := members(attack.threat.observer):
        truth = replace(truth, observers=own)
    lines: list[Line] = []
    faults: list[MethodError] = []
    missing = [Lack("all", why) for why in _too_old(recording, attack, folder)]
    for cell in cells_of(saved(folder)):
        for metric in attack.metrics:
            try:
                found, lacks = _measured(cell, metric, truth)
            except MethodError as error:  # a fault of this metric, which costs no other its number
                faults.append(error)
                found, lacks = [], [Lack(metric.name, one_line(str(error)))]
            lines += found
            missing += lacks
    if faults and not lines:
        raise faults[0]
    rows = []
    for line in lines:
        try:
            rows.append(_row(recording, name, attack, line, meta))
        except intervals.NoInterval as error:
            missing.append(Lack(line.metric.name, f"round {line.cell.round}: {error}"))
    missing += [Lack(line.metric.name, line.remark) for line in lines if line.remark]
    shown = {(r["metric"], r["round"], r["probe"]) for r in rows}
    lines = [x for x in lines if (x.metric.name, x.cell.round, x.cell.probe) in shown]
    units = [u for line in lines for u in _units(line)]
    return Scored(units, rows, list(dict.fromkeys(missing)))


def _measured(cell: Cell, metric: Metric, truth: Truth) -> tuple[list[Line], list[Lack]]:
    """The metric's line of a cell, or why there is none.

    Raises:
        MethodError: the guess, the answer or the metric itself is not as it should be.
    """
    cell = cell.scorable(metric)
    lacking = cell.lacking(metric)
    if lacking is not None:
        return [], [Lack(metric.name, f"round {cell.round}: {lacking}")] if lacking else []
    try:
        if metric.meant_for and not metric.meant_for(truth.answer(cell.any_guess)):
            return [], []
        some = [Lack(metric.name, cell.remark)] if cell.left_out else []
        return [_line(cell, metric, truth)], some
    except NotMeasured as error:
        return [], [Lack(metric.name, str(error), isinstance(error, NoWeights))]
    except LeakbenchError:
        raise
    except (Exception, SystemExit) as error:
        # A guess or an answer that the metric cannot take: never silently a missing number.
        heed()
        said = isinstance(error, ValueError) and not own_place(error)  # a sentence, as it is
        what = str(error) if said else raised_text(error)
        raise MethodError(
            f"{metric.name} cannot be measured at round {cell.round}: {what}"
        ) from error


def _line(cell: Cell, metric: Metric, truth: Truth) -> Line:
    """Score one metric. A failed unit scores what the blind guess scores there."""
    scores: dict[str, list[Score]] = {r: [] for r in ROLES}
    beside: dict[str, list[Score]] = {}
    failed: dict[str, bool] = {}
    checked: dict[str, dict[str, Checked]] = {r: {} for r in ROLES}
    measures = {role: _measure(metric, cell, role, truth) for role in ROLES}
    for key, guess in cell.guesses["attack"].items():
        if metric.accepted_only and not guess.accepted:
            continue
        answer, control = truth.answer(guess), cell.guesses["control"][key]
        blind = cell.guesses["floor"][key]
        if metric.floor_of == "attack" and not guess.failed:
            blind = guess
        floor = _checked(metric, metric.floor or measures["floor"], blind, answer)
        mine = undefended = floor
        if not control.failed:
            measure = metric.control or measures["control"]
            undefended = _checked(metric, measure, control, answer)
        if not guess.failed:
            mine = _checked(metric, measures["attack"], guess, answer)
            for name, more in metric.beside:
                beside.setdefault(name, []).extend(more(guess, answer))
        for role, found in (("attack", mine), ("floor", floor), ("control", undefended)):
            scores[role] += found
        failed.update({s.unit: bool(guess.failed) or s.failed for s in mine})
        for s in mine:
            checked["attack"][s.unit] = Checked.of(guess, failed=failed[s.unit])
        for s in undefended:
            checked["control"][s.unit] = Checked.of(control, failed=bool(control.failed))
    if not scores["attack"]:
        tried = len(cell.guesses["attack"])
        raise NotMeasured(
            f"round {cell.round}: the attack's own check accepted none of its {tried} guesses, so"
            " there is nothing whose precision could be told."
        )
    alone = len({s.cluster for s in scores["attack"]}) == len(scores["attack"])
    if alone:  # one unit per client: units are independent
        for role, of_role in scores.items():
            scores[role] = [replace(s, cluster=s.unit) for s in of_role]
    remark = ""
    if metric.remark:
        remark = metric.remark([*cell.guesses["attack"].values()], answer, scores["attack"])
    return Line(cell, metric, scores, beside, failed, checked, remark)


def _measure(
    metric: Metric, cell: Cell, role: Role, truth: Truth
) -> Callable[[Guess, Any], list[Score]]:
    """What scores a guess of this role."""
    if metric.across is None:
        return metric.score
    there = [g for g in cell.guesses[role].values() if not g.failed]
    return metric.across([(g, truth.answer(g)) for g in there])


def _checked(
    metric: Metric, measure: Callable[[Guess, Any], list[Score]], guess: Guess, answer: Answer
) -> list[Score]:
    scores = measure(guess, answer)
    bad = [s for s in scores if not metric.low <= s.value <= metric.high]
    if bad:
        raise MethodError(
            f"{metric.name} of {bad[0].unit} is {bad[0].value}, outside [{metric.low},"
            f" {metric.high}]."
        )
    return scores


def _estimate(line: Line, role: str) -> Estimate:
    m, scores = line.metric, line.scores[role]
    values = [s.value for s in scores]
    formula = {"floor": m.floor, "control": m.control}.get(role) is not None
    if m.exact or (formula and max(values) - min(values) < 1e-12):
        return intervals.exact(math.fsum(values) / len(values), len(values), m.unit)
    clusters, how = [s.cluster for s in scores], {"low": m.low, "high": m.high}
    return intervals.estimate(values, clusters, share=m.share, unit=m.unit, **how)


def _row(
    recording: Recording, name: str, attack: Attack, line: Line, meta: dict[str, Any]
) -> dict[str, Any]:
    run, m, cell, threat = recording.run, line.metric, line.cell, attack.threat
    value, floor, control = (_estimate(line, r) for r in ROLES)
    spec = run.spec
    row: dict[str, Any] = {
        "run": run.id,
        "task": spec["task"]["name"],
        "seed": run.seed,
        "defense": spec["defense"]["name"],
        "defense_params": canonical(spec["defense"]["params"]),
        "wrappers": canonical(spec["wrappers"]),
        "attack": name,
        "attack_params": canonical(attack.parameters()),
        "rung": threat.rung,
        "observer": threat.observer,
        "knowledge": "|".join(threat.knows),
        "stage": cell.stage,
        "round": cell.round,
        "probe": cell.probe,
        "metric": m.name,
        "leaks": m.leaks,
        "unit": m.unit,
        "value": value.value,
        "low": value.low,
        "high": value.high,
        "interval": value.interval,
        "n": value.n,
        "failed": sum(line.failed.values()),
        "floor": floor.value,
        "floor_low": floor.low,
        "floor_high": floor.high,
        "control": control.value,
        "control_low": control.low,
        "control_high": control.high,
        "engine": run.meta["engine"],
        "device": meta["device"],
        "dtype": spec["dtype"],
        "version": meta["versions"]["leakbench"],
        "commit": meta["commit"],
    }
    weak = flags.control_failed(m.leaks, floor, control)
    marks = _flags(run, attack, line, row) | ({"control_failed"} if weak else set())
    marks |= {how for how in ("isolated", "submitted", "no_control") if meta.get(how)}
    # What a client is sent is made of the defended messages in the control, too, unless it is what
    # others sent, as it is.
    if members(threat.observer) and recording.defended and attack.handed != "rows":
        marks |= {"no_control"}
    return {**row, "flags": flags.join(marks)}


def _flags(run: Run, attack: Attack, line: Line, row: dict[str, Any]) -> set[str]:
    guesses = line.cell.guesses["attack"].values()
    found = {f for g in guesses for f in g.flags}
    found |= flags.of_units([s.cluster for s in line.scores["attack"]], list(line.failed.values()))
    found |= {"failed_units"} if line.cell.left_out else set()
    found |= {"probe"} if line.cell.probe else set()
    found |= {row.flag for row in chosen(attack.threat.knows) if row.flag}
    found |= {"stand_in_data"} if run.meta.get("stand_in") else set()
    found |= origin.lasting(run.meta)
    worse = row["value"] <= row["floor"] if row["leaks"] == "up" else row["value"] >= row["floor"]
    meant = attack.class_mean and line.metric.class_mean
    return found | ({"below_class_mean"} if meant and worse else set())


def _units(line: Line) -> list[dict[str, Any]]:
    blocks = [(role, line.metric.name, line.scores[role]) for role in ROLES]
    blocks += [("attack", name, scores) for name, scores in line.beside.items()]
    out = []
    for role, metric, scores in blocks:
        head = {"role": role, "metric": metric, "round": line.cell.round, "probe": line.cell.probe}
        for s in scores:
            failed = role == "attack" and line.failed[s.unit]
            said = line.checked[role].get(s.unit, NOT_CHECKED)
            unit = {"unit": s.unit, "cluster": s.cluster, "score": s.value, "failed": failed}
            out.append({**head, **unit, **asdict(said)})
    return out


def _described(m: Metric, *, pictured: bool) -> dict[str, Any]:
    """For attack.json: how to read the metric.

    ``leaks`` is its direction, as it was called first; an infinite bound is null.
    """
    meaning = m.meaning if pictured else m.meaning.model_copy(update=dict(m.of_examples))
    return {**meaning.parameters(), "leaks": m.leaks}


def _too_old(recording: Recording, attack: Attack, folder: Path) -> list[str]:
    """How many clients, no units, sent something of the attacked kind of which nothing was kept."""
    kinds = attack.attacks(Outline(recording, attack.threat))
    # Whole ones are kept of a few by design; who reads a part of everybody's says what it misses.
    large = bool(kinds) and kinds[0] in ("model", "update", "sum")
    if not kinds or (large and not attack.left_out):
        return []
    silent = f"their newest {kinds[0]} was not kept by the recording policy"
    if attack.over == "all":
        silent = "the attack made no guess about them"
    why, own = attack.left_out or silent, members(attack.threat.observer)
    if own:
        why = "nothing of theirs was handed on to who observes, or it was not kept"
    rows, out = recording.traffic.get(kinds[0]), []
    stages: dict[tuple[int, str], set[str]] = defaultdict(set)
    for g in saved(folder):
        if g.role == "attack" and g.stage != "curve":
            stages[g.guess.round, g.stage] |= attack.covers(g.guess)
    for (t, stage), units in sorted(stages.items()):
        senders = set()
        if rows is not None:
            senders = set(rows[(rows[:, 1] >= 0) & (rows[:, 0] <= t)][:, 1].tolist()) - {*own}
        if len(senders) > len(units):
            lost = f"{len(senders) - len(units)} of {len(senders)} clients"
            out.append(f"{lost}: {why} (stage {stage})")
    return out
