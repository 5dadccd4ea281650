"""Settings and questions: what a report is about, read from its tables and its runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from leakbench.base.spec import canonical
from leakbench.judging.names import setting_names
from leakbench.judging.questions import Topic, better, words
from leakbench.judging.sentences import plain
from leakbench.judging.verdict import Case, Verdict
from leakbench.results.keys import Row, params, run_setting_key, setting_key
from leakbench.results.numbers import Numbers

WHEN = {
    "untrained": "before training",
    "early": "early in training",
    "middle": "half way through training",
}


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
    """A configuration of a method on a task. ``index`` names it in the page; ``runs`` are its
    run.json dicts.
    """

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
    """One task, one topic, judged by one metric; probes and stages of training before the end are
    questions of their own.
    """

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
        early = f", {WHEN.get(self.stage, self.stage)}" if self.stage != "final" else ""
        return self.topic.name + (", on probes" if self.probe else "") + early


def find_settings(data: Numbers) -> list[Setting]:
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
        if "dead_run" in flags_of(row):
            dead[setting_key(row)].add(str(row["run"]))
    names = setting_names(rows)
    found = [
        _setting(data, k, r, names[k], final.get(k), tuple(runs[k]), len(dead[k]))
        for k, r in rows.items()
    ]
    found.sort(key=lambda s: (s.task, not s.reference, s.family, s.name))
    return [replace(s, index=i) for i, s in enumerate(found)]


def _setting(
    data: Numbers,
    key: str,
    row: Row,
    name: str,
    final: Row | None,
    runs: tuple[Row, ...],
    dead: int,
) -> Setting:
    utility = None
    if final is not None:
        utility = Utility(
            final["metric"], *(float(final[k]) for k in ("value", "low", "high", "chance"))
        )
    elif row.get("utility_metric"):
        utility = Utility(
            row["utility_metric"],
            *(float(row[k]) for k in ("utility", "utility_low", "utility_high", "chance")),
        )
    seeds = (
        len(str(row["seeds"]).split("|"))
        if "seeds" in row
        else len({r["spec"].get("seed") for r in runs})
    )
    if not dead and "dead_run" in flags_of(final or row):
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
        kinds=frozenset(
            str(m["kind"]) for r in runs for m in r.get("sent", ()) if m.get("sender") == "client"
        ),
    )


def _why_dead(data: Numbers, utility: Utility | None, runs: Iterable[Row]) -> str:
    if utility is not None and not utility.alive:
        value, chance = plain(utility.metric, utility.value), plain(utility.metric, utility.chance)
        return f"{words(utility.metric).title} {value} is not beyond chance ({chance})"
    ids = {r.get("id") for r in runs}
    last: dict[tuple[str, str], tuple[int, float]] = {}
    for row in data.diagnostics:
        if row["run"] in ids:
            last[row["run"], row["name"]] = max(
                last.get((row["run"], row["name"]), (-1, 0.0)),
                (int(row["round"]), float(row["value"])),
            )
    cosine = max(
        (v for (_, n), (_, v) in last.items() if n == "prototype_mean_cosine"), default=0.0
    )
    ratio = min(
        (v for (_, n), (_, v) in last.items() if n == "prototype_distance_ratio"), default=1.0
    )
    if cosine > 0.99:
        return f"its prototypes have become one direction (mean cosine {cosine:.3f})"
    if ratio < 0.01:
        return (
            f"its prototypes have become one point (their distance is {ratio:.4f} of the"
            " embeddings')"
        )
    return "its run is marked as dead"


def _row_of(spec: Row) -> dict[str, Any]:
    return {
        "task": spec["task"]["name"],
        "defense": spec["defense"]["name"],
        "defense_params": canonical(spec["defense"].get("params", {})),
        "wrappers": canonical(list(spec.get("wrappers", []))),
    }


def flags_of(row: Row) -> frozenset[str]:
    """A row's flags, joined by `|` in the tables."""
    return frozenset(f for f in str(row.get("flags") or "").split("|") if f)
