"""From the tables of a report to settings, questions and cases: who is judged, on what, by which numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from leakbench.names import setting_names
from leakbench.questions import TOPICS, Topic, better, topic, words
from leakbench.report import ReportData, Row, params, run_setting_key, setting_key
from leakbench.spec import canonical
from leakbench.verdict import Case, Number, Verdict, judge
from leakbench.verdict_words import plain, sentence

END = ("final", "all")
# Rows made from the others' units.
MADE = ("cascade", "any_attack")


@dataclass(frozen=True)
class Utility:
    """What a setting is good for: the final value, pooled over its seeds."""

    metric: str
    value: float
    low: float
    high: float
    chance: float

    @property
    def alive(self) -> bool:
        """Whether it is beyond chance in its better direction."""
        return self.low > self.chance if better(self.metric) == "up" else self.high < self.chance


@dataclass(frozen=True, eq=False)
class Setting:
    """A configuration of a method on a task. ``index`` names it in the page; ``runs`` are its run.json dicts."""

    key: str
    index: int
    task: str
    family: str
    name: str
    params: dict[str, Any]
    wrappers: tuple[dict[str, Any], ...]
    reference: bool
    seeds: int
    dead_seeds: int
    dead_because: str
    utility: Utility | None
    runs: tuple[Row, ...]
    kinds: frozenset[str]

    @property
    def dead(self) -> bool:
        """Whether any seed is dead: never on the front."""
        return self.dead_seeds > 0


@dataclass(frozen=True, eq=False)
class Judged:
    """A setting with its verdict on one question."""

    setting: Setting
    case: Case
    verdict: Verdict
    sentence: str
    on_front: bool = False


@dataclass(frozen=True, eq=False)
class Question:
    """One task, one topic, judged by one metric; probes and stages of training before the end are questions of their own."""

    task: str
    topic: Topic
    metric: str
    probe: bool
    stage: str
    leaks: Literal["up", "down"] = "up"
    judged: tuple[Judged, ...] = field(default=())

    @property
    def label(self) -> str:
        """What sets it apart from the task's other questions: "images, on probes"."""
        early = "" if self.stage == "final" else f", {self.stage} in training" if self.stage != "untrained" else ", before training"
        return self.topic.name + (", on probes" if self.probe else "") + early


def find_settings(data: ReportData) -> list[Setting]:
    """Every configuration that a table or a run names, by task, family and utility."""
    final = {setting_key(r): r for r in data.utility if r["statistic"] == "final"}
    rows = {setting_key(r): r for r in (*data.tradeoff, *data.utility)}
    runs: dict[str, list[Row]] = defaultdict(list)
    for run in data.runs:
        key = run_setting_key(run)
        runs[key].append(run)
        spec = run["spec"]
        rows.setdefault(key, _row_of(spec))
    dead: dict[str, set[str]] = defaultdict(set)
    for row in data.results:
        if "dead_run" in _flags(row):
            dead[setting_key(row)].add(str(row["run"]))
    names = setting_names(rows)
    found = [_setting(data, k, r, names[k], final.get(k), tuple(runs[k]), len(dead[k])) for k, r in rows.items()]
    found.sort(key=lambda s: (s.task, not s.reference, s.family, s.name))
    return [replace(s, index=i) for i, s in enumerate(found)]


def find_questions(data: ReportData, settings: Sequence[Setting]) -> list[Question]:
    """Every question that some number of the trade-off table can answer; within a task the one for the headline first."""
    asked: dict[tuple[str, str, bool, str], set[str]] = defaultdict(set)
    for row in data.tradeoff:
        asked[row["task"], topic(row["metric"]).name, bool(row["probe"]), _stage(row)].add(row["metric"])
    questions, index = [], Index(data)
    leaks = {r["metric"]: r["leaks"] for r in data.tradeoff}
    for (task, name, probe, stage), metrics in asked.items():
        about = next((t for t in TOPICS if t.name == name), None) or topic(name)
        metric = next(m for m in about.metrics if m in metrics)
        empty = Question(task, about, metric, probe, stage, leaks[metric])
        questions.append(replace(empty, judged=tuple(_judged(index, empty, s) for s in settings if s.task == task)))
    order = [t.name for t in TOPICS]
    return sorted(
        questions,
        key=lambda q: (
            q.task,
            q.stage != "final",
            not any(j.verdict.judged for j in q.judged),
            q.probe,  # what nobody sends is never the headline while real messages were judged
            -sum(j.verdict.judged for j in q.judged),
            order.index(q.topic.name) if q.topic.name in order else len(order),
            q.stage,
        ),
    )


class Index:
    """The rows of the trade-off table by (setting, metric, probe, stage), and how many units failed in each."""

    def __init__(self, data: ReportData) -> None:
        self.rows: dict[tuple[str, str, bool, str], list[Row]] = defaultdict(list)
        for r in data.tradeoff:
            self.rows[_place(r)].append(r)
        self.failed: dict[tuple[Any, ...], tuple[int, int]] = {}
        for r in data.results:
            key = (*_place(r), r["attack"], canonical(params(r["attack_params"])))
            failed, tried = self.failed.get(key, (0, 0))
            self.failed[key] = (failed + int(r["failed"]), tried + int(r["n"]))
        self.reasons: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
        for m in data.missing:
            self.reasons[m["task"], m["defense"], canonical(params(m["defense_params"]))].append(m)

    def numbers(self, setting: Setting, metric: str, probe: bool, stage: str) -> list[Number]:
        """The numbers of one setting in one metric, rows over all rounds last."""
        place = (setting.key, metric, probe, stage)
        found = sorted(self.rows[place], key=lambda r: r["stage"] == "all")
        return [number(r, *self.failed.get((*place, r["attack"], canonical(params(r["attack_params"]))), (0, 0))) for r in found]

    def on_front(self, setting: Setting, metric: str, probe: bool, stage: str) -> bool:
        """Whether the table puts the setting's worst case on the front."""
        return any(r["attack"] == "any_attack" and r["on_front"] for r in self.rows[setting.key, metric, probe, stage])

    def why_missing(self, setting: Setting, about: Topic) -> dict[str, str]:
        """Metric -> why it is not there, of missing.csv (which does not know wrappers)."""
        found = self.reasons[setting.task, setting.family, canonical(setting.params)]
        return {str(m["metric"]): str(m["reason"]) for m in found if m["metric"] in about.metrics or not m["metric"]}


def number(row: Row, failed: int = 0, tried: int = 0) -> Number:
    """A row of the trade-off table as a verdict reads it."""
    names = ["value", "low", "high", "floor", "floor_low", "floor_high", "control", "control_low", "control_high"]
    return Number(
        attack=row["attack"],
        rung=row["rung"],
        n=int(row["n"]),
        interval=row["interval"],
        flags=_flags(row),
        failed=failed,
        tried=tried,
        attack_params=str(row["attack_params"]),
        **{n: float(row[n]) for n in names},
    )


def _judged(index: Index, question: Question, setting: Setting) -> Judged:
    at = (setting, question.metric, question.probe, question.stage)
    numbers = index.numbers(*at)
    special = {n.attack: n for n in numbers if n.attack in MADE}
    reasons = index.why_missing(setting, question.topic)
    public = index.numbers(setting, "p_leak_public", question.probe, question.stage) if question.metric == "p_leak" else []
    case = Case(
        metric=question.metric,
        leaks=question.leaks,
        attacks=tuple(n for n in numbers if n.attack not in MADE),
        cascade=special.get("cascade"),
        any_attack=special.get("any_attack"),
        seeds=setting.seeds,
        dead_seeds=setting.dead_seeds,
        dead_because=setting.dead_because,
        kind=question.topic.kind,
        sends=tuple(sorted(setting.kinds - {"model"})),
        sends_kind=not setting.runs or not question.topic.kinds or bool(setting.kinds & question.topic.kinds),
        reason=" ".join(list(dict.fromkeys(reasons.values()))[:2]) or "no attack that fits was run",
        public=max((n for n in public if n.attack not in MADE), key=lambda n: n.value, default=None),
        no_lpips="lpips" in reasons and "weight" in reasons["lpips"].lower(),
    )
    verdict = judge(case)
    live = not setting.dead and "control_failed" not in (verdict.worst.flags if verdict.worst else frozenset())
    return Judged(setting, case, verdict, sentence(case, verdict), live and index.on_front(*at))


def _setting(data: ReportData, key: str, row: Row, name: str, final: Row | None, runs: tuple[Row, ...], dead: int) -> Setting:
    utility = None
    if final is not None:
        utility = Utility(final["metric"], *(float(final[k]) for k in ("value", "low", "high", "chance")))
    elif row.get("utility_metric"):
        utility = Utility(row["utility_metric"], *(float(row[k]) for k in ("utility", "utility_low", "utility_high", "chance")))
    seeds = len(str(row["seeds"]).split("|")) if "seeds" in row else len({r["spec"].get("seed") for r in runs})
    if not dead and "dead_run" in _flags(final or row):
        dead = seeds if seeds == 1 or (utility is not None and not utility.alive) else 1
    wrappers = tuple(params(row.get("wrappers", "[]")) or [])
    return Setting(
        key=key,
        index=0,
        task=row["task"],
        family=row["defense"],
        name=name,
        params=dict(params(row["defense_params"])),
        wrappers=wrappers,
        reference=bool(runs) and not wrappers and all(r.get("hides") is False for r in runs),
        seeds=seeds,
        dead_seeds=dead,
        dead_because=_why_dead(data, utility, runs) if dead else "",
        utility=utility,
        runs=runs,
        kinds=frozenset(str(m["kind"]) for r in runs for m in r.get("sent", ()) if m.get("sender") == "client"),
    )


def _why_dead(data: ReportData, utility: Utility | None, runs: Iterable[Row]) -> str:
    if utility is not None and not utility.alive:
        value, chance = plain(utility.metric, utility.value), plain(utility.metric, utility.chance)
        return f"{words(utility.metric).title} {value} is not beyond chance ({chance})"
    ids = {r.get("id") for r in runs}
    last: dict[tuple[str, str], tuple[int, float]] = {}
    for row in data.diagnostics:
        if row["run"] in ids:
            last[row["run"], row["name"]] = max(last.get((row["run"], row["name"]), (-1, 0.0)), (int(row["round"]), float(row["value"])))
    cosine = max((v for (_, n), (_, v) in last.items() if n == "prototype_mean_cosine"), default=0.0)
    ratio = min((v for (_, n), (_, v) in last.items() if n == "prototype_distance_ratio"), default=1.0)
    if cosine > 0.99:
        return f"its prototypes have become one direction (mean cosine {cosine:.3f})"
    if ratio < 0.01:
        return f"its prototypes have become one point (their distance is {ratio:.4f} of the embeddings')"
    return "its run is marked as dead"


def _row_of(spec: Row) -> dict[str, Any]:
    return {
        "task": spec["task"]["name"],
        "defense": spec["defense"]["name"],
        "defense_params": canonical(spec["defense"].get("params", {})),
        "wrappers": canonical(list(spec.get("wrappers", []))),
    }


def _place(row: Row) -> tuple[str, str, bool, str]:
    return setting_key(row), row["metric"], bool(row["probe"]), _stage(row)


def _stage(row: Row) -> str:
    return "final" if row["stage"] in END else str(row["stage"])


def _flags(row: Row) -> frozenset[str]:
    return frozenset(f for f in str(row.get("flags") or "").split("|") if f)
