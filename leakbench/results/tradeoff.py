"""tradeoff.csv: leakage of each configuration over its seeds, beside its utility, and who is on the
front.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from leakbench.base.errors import UsageError
from leakbench.record.columns import STAGES, TRADEOFF, Row
from leakbench.results import cascade, claims
from leakbench.results.configurations import Configuration
from leakbench.results.units import Measured, numbers
from leakbench.results.utility import Utility, of_runs
from leakbench.scoring import flags
from leakbench.statistics.intervals import NoInterval

Lack = tuple[str, str, str]  # attack, metric, reason


@dataclass(frozen=True)
class Pooled:
    """A line of tradeoff.csv and what it was pooled from, one per seed."""

    row: Row
    seeds: tuple[Measured, ...]


def rows(
    config: Configuration, measured: Sequence[Measured], utilities: Sequence[Utility], final: Row
) -> tuple[list[Pooled], list[Lack]]:
    """Rows of one configuration, `on_front` still to be decided, and what is missing.

    Args:
        config: whose rows these are.
        measured: every row of every attack on its complete runs.
        utilities: of its complete runs.
        final: its line `final` of utility.csv.
    """
    out: list[Pooled] = []
    missing: list[Lack] = []
    weak: set[tuple[Any, ...]] = set()
    for key, seeds in _by_key(measured).items():
        try:
            out.append(_pooled(config, list(seeds.values()), utilities, final))
        except NoInterval as error:
            missing.append((key[0], key[2], f"stage {key[3]}: {error}"))
            continue
        if "control_failed" in flags.split(out[-1].row["flags"]):
            weak.add(key)
    # Kind, metric, probe, why -> stages.
    none: dict[tuple[str, str, bool, str], list[str]] = defaultdict(list)
    for question, asked in cascade.questions(measured).items():
        for kind in cascade.KINDS:
            parts = cascade.entering(kind, asked, lambda m: m.key in weak)
            lack, joined = _joined(kind, question, asked, parts)
            missing += lack
            if not parts:
                none[kind, question[0], question[1], cascade.why_none(kind, asked)].append(
                    question[2]
                )
            try:
                out += [_pooled(config, joined, utilities, final)] if joined else []
            except NoInterval as error:
                missing.append((kind, question[0], f"{_where(question[1], question[2])}: {error}"))
    return out, missing + [
        (kind, metric, f"{_where(probe, *stages)}: {why}")
        for (kind, metric, probe, why), stages in none.items()
    ]


def mark_front(rows: Sequence[Row], better: Mapping[str, str], about: Mapping[int, str]) -> None:
    """Set `on_front`: not dominated by another live configuration of the task whose control did not
    fail.

    A configuration attacked with several parameters of one attack is represented by the row that
    leaks most.

    Args:
        rows: of all configurations.
        better: utility metric -> "up" or "down".
        about: id of a row -> the data and split that it is about: only those are compared.
    """
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        row["on_front"] = False
        if not {"dead_run", "control_failed"} & flags.split(row["flags"]):
            # One question: else who was attacked less is alone there.
            stage = "all" if row["stage"] == "final" else row["stage"]
            groups[
                about[id(row)],
                stage,
                *(row[c] for c in ("attack", "metric", "probe", "utility_metric")),
            ].append(row)
    for group in groups.values():
        worst: dict[tuple[Any, ...], tuple[float, float, Row]] = {}
        for row in group:
            who = tuple(row[c] for c in ("task", "defense", "defense_params", "wrappers"))
            gain = row["utility"] if better[row["utility_metric"]] == "up" else -row["utility"]
            leak = row["value"] if row["leaks"] == "up" else -row["value"]
            if who not in worst or leak > worst[who][1]:
                worst[who] = (gain, leak, row)
        for gain, leak, row in worst.values():
            row["on_front"] = not any(
                g >= gain and k <= leak and (g > gain or k < leak) for g, k, _ in worst.values()
            )


def fields(config: Configuration) -> dict[str, Any]:
    """What a paper's setting is compared with."""
    spec, facts = config.one.spec, dict(config.one.meta.get("facts", {}))
    defense = {k: v for k, v in spec["defense"]["params"].items() if k == "fraction"}
    return facts | dict(spec["task"]["params"]) | defense | {"rounds": spec["rounds"]}


def claim(
    config: Configuration, metric: str, stage: str = "final", round: int | None = None
) -> Row:
    """The columns of the paper's number; none under a wrapper, of which no paper speaks."""
    spec = config.one.spec
    if config.wrapped:
        return claims.cells(None)
    name, params = spec["defense"]["name"], spec["defense"]["params"]
    return claims.cells(
        claims.find(
            name, params, spec["task"]["name"], metric, fields(config), stage=stage, round=round
        )
    )


def _by_key(measured: Sequence[Measured]) -> dict[tuple[Any, ...], dict[int, Measured]]:
    out: dict[tuple[Any, ...], dict[int, Measured]] = defaultdict(dict)
    for m in measured:
        if m.row["stage"] == "curve":
            continue
        seeds = out[m.key]
        if m.run.seed in seeds:
            raise UsageError(
                f"{m.run.path} holds {m.row['attack']} with the same parameters twice"
                f" ({m.row['metric']}): delete one of the two folders."
            )
        if any(o.scale.version != m.scale.version for o in seeds.values()):
            raise UsageError(
                f"{m.row['metric']} was scored by different versions in the seeds of {m.run.id}:"
                " score these runs again."
            )
        seeds[m.run.seed] = m
    return dict(sorted(out.items()))


def _joined(
    kind: str, question: cascade.Question, asked: Sequence[Measured], parts: Sequence[Measured]
) -> tuple[list[Lack], list[Measured]]:
    """One joined row per seed, from the same attacks in each: a seed that lacks one would look
    safer than it is.
    """
    if not parts:
        return [], []
    by_seed: dict[int, list[Measured]] = defaultdict(list)
    for m in parts:
        by_seed[m.run.seed].append(m)
    wanted = {m.key for m in parts}
    whole = {s: ms for s, ms in by_seed.items() if {m.key for m in ms} == wanted}
    lack: list[Lack] = []
    left = sorted({m.run.seed for m in asked} - set(whole))
    if left and whole:
        lack = [
            (
                kind,
                question[0],
                (
                    f"{_where(question[1], question[2])}: seed {', '.join(map(str, left))} left"
                    " out, not every attack ran there"
                ),
            )
        ]
    stages = {m.row["stage"] for m in parts}
    stage = stages.pop() if len(stages) == 1 else "all"
    seeds = whole or by_seed
    return lack, [cascade.combine(kind, seeds[s], stage) for s in sorted(seeds)]


def _pooled(
    config: Configuration, seeds: Sequence[Measured], utilities: Sequence[Utility], final: Row
) -> Pooled:
    first, own = seeds[0].row, {m.run.seed for m in seeds}
    units = [(m.run.seed, u) for m in seeds for u in m.units["attack"]]
    marks = {f for m in seeds for f in flags.split(m.row["flags"])} & flags.CARRIED
    marks |= flags.of_seeds(len(own)) | of_runs([u for u in utilities if u.run.seed in own])
    marks |= flags.of_units([u.cluster for _, u in units], [u.failed for _, u in units])
    # A configuration is dead if any of its seeds is, attacked or not.
    marks |= {f for f in ("dead_run",) if f in flags.split(final["flags"])} | (
        {"probe"} if first["probe"] else set()
    )
    row = {
        **config.columns,
        "seeds": "|".join(map(str, sorted(own))),
        "utility_metric": final["metric"],
        **{f"utility{s}": final[v] for s, v in (("", "value"), ("_low", "low"), ("_high", "high"))},
        "chance": final["chance"],
        **{
            c: first[c]
            for c in ("attack", "attack_params", "rung", "stage", "probe", "metric", "leaks")
        },
        **{
            c: "|".join(dict.fromkeys(p for m in seeds for p in m.row[c].split("|") if p))
            for c in ("observer", "knowledge")
        },
        "round": max(m.row["round"] for m in seeds),
        **numbers(seeds),
        "on_front": False,
        **claim(config, first["metric"], first["stage"], max(m.row["round"] for m in seeds)),
    }
    marks |= {"control_failed"} if flags.control_failed(row) else set()
    row["flags"] = flags.join(marks)
    return Pooled({c: row[c] for c in TRADEOFF}, tuple(seeds))


def _where(probe: bool, *stages: str) -> str:
    named = ", ".join("final or all" if s == "all" else s for s in sorted(stages, key=STAGES.index))
    return f"stage {named}, {'probes' if probe else 'real messages'}"
