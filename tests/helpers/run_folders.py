"""Small run folders with known scores, written the way leakbench writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from leakbench.base.errors import UsageError
from leakbench.base.files import digests, read_sealed, write_csv, write_sealed, write_tree
from leakbench.base.spec import canonical, fingerprint
from leakbench.metrics import IDENTIFICATION, MSE, P_LEAK, PSNR
from leakbench.record import attack_code
from leakbench.record.columns import RESULTS, RUN_DIAGNOSTICS, RUN_UTILITY, UNITS
from leakbench.record.folders import load
from leakbench.record.policy import Policy
from leakbench.record.runspec import RunSpec, parts
from leakbench.scoring import flags
from leakbench.statistics.intervals import Estimate, estimate, exact

TASK = {"clients": 10, "model": "mlp", "width": 8, "dim": 4, "evaluations": 10}
TASK |= {"utility": "accuracy"}
METRICS = (P_LEAK, IDENTIFICATION, PSNR, MSE)
SCALES = {m.name: {**m.meaning.parameters(), "leaks": m.leaks} for m in METRICS}
ACCEPTED = {"attack": "accepted", "control": "accepted_control"}
# As if psnr had no least value.
SCALES["psnr"]["low"] = None


def edited(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a sealed JSON and seal it again: what somebody does who knows of the seal."""
    meta = read_sealed(path)
    change(meta)
    write_sealed(path, meta)


def called(spec: Mapping[str, Any]) -> str:
    """The name of the folder of a run."""
    who = fingerprint({k: v for k, v in spec.items() if k not in ("seed", "name", "attacks")})
    return f"{spec['task']['name']}-{spec['defense']['name']}-{who}-s{spec['seed']}"


def make_run(
    out: Path,
    *,
    defense: str = "fedgn",
    params: Mapping[str, Any] | None = None,
    wrappers: Sequence[Mapping[str, Any]] = (),
    seed: int = 0,
    right: Sequence[int] = (6, 7, 8),
    test: int = 10,
    chance: float = 0.1,
    cosine: float = 0.5,
    task: str = "digits",
    engine: str = "fused",
    rounds: int = 100,
    audited: int | None = None,
    chosen: Sequence[int] = (),
    name: str = "",
    **more: Any,
) -> Path:
    """A complete run; ``right``: at each evaluation, how many of ``test`` units score 1 (unit i if
    i < right + seed, wrapping).
    """
    spec = {
        "task": {"name": task, "params": dict(TASK)},
        "defense": {
            "name": defense,
            "params": dict({"sigma": 0.1, "fraction": 1.0} if params is None else params),
        },
        "wrappers": [dict(w) for w in wrappers],
        "rounds": rounds,
        "seed": seed,
        "engine": engine,
        "dtype": "float32",
        "record": {"name": "standard"}
        | ({} if audited is None else {"audited": audited})
        | ({"clients": list(chosen)} if chosen else {}),
        **({"name": name} if name else {}),
        "attacks": [],
    }
    installed = _as_installed(spec)
    told = {
        "hides": True,
        "distance": "cosine",
        "stand_in": "",
        "facts": {"clients": TASK["clients"], "classes": 10, "dim": 4, "shape": [8, 8]},
        **installed,
        "utility": {"metric": "accuracy", "better": "up", "chance": chance},
    }
    told |= {k: v for k, v in more.items() if k in told}
    if installed and told != installed:
        spec["task"]["params"]["somebody_elses"] = True
    path = out / called(spec)
    scores, rows = {}, []
    for i, k in enumerate(right):
        at = rounds * (i + 1) // len(right)
        hits = {(j + seed) % test for j in range(k)}
        scores[f"{at:06d}"] = torch.tensor([float(j in hits) for j in range(test)])
        e = estimate(
            scores[f"{at:06d}"].tolist(),
            [str(j) for j in range(test)],
            share=True,
            low=0,
            high=1,
            unit="test unit",
        )
        rows.append(
            {
                "round": at,
                "metric": "accuracy",
                "value": e.value,
                "low": e.low,
                "high": e.high,
                "n": e.n,
                "unit": e.unit,
            }
        )
    write_csv(path / "utility.csv", RUN_UTILITY, rows)
    write_tree(path / "utility.safetensors", scores, {"metric": "accuracy"})
    write_csv(
        path / "diagnostics.csv",
        RUN_DIAGNOSTICS,
        [{"round": rounds, "name": "prototype_mean_cosine", "value": cosine}],
    )
    write_tree(
        path / "truth" / "data.safetensors",
        {"x": torch.full((2,), float(seed)), "counts": torch.full((2,), 50)},
        {"task": "digits", "images": "official"},
    )
    write_tree(
        path / "checkpoint" / "model.safetensors",
        {"w": torch.full((2,), float(seed))},
        {"round": rounds},
    )
    meta = {
        "schema": 2,
        "status": "done",
        "id": path.name,
        "spec": spec,
        **told,
        "engine": engine,
        "phases": {"local": engine},
        "device": "cpu",
        "dtype": "float32",
        "versions": {"leakbench": "0.1.0"},
        "commit": "abc",
        "dirty": False,
        "fallbacks": {},
        "stages": Policy().stages(rounds),
        "sent": [],
        "missing": [],
        "test_data": "t" * 64,
        "files": digests(path, without=("attacks/", "run.json")),
    }
    write_sealed(path / "run.json", meta | more)
    return path


def _as_installed(spec: Mapping[str, Any]) -> dict[str, Any]:
    """What run.json says of task and method where they are installed; a test may say otherwise."""
    try:
        made = parts(RunSpec.build(spec, "a run of a test"))
    except UsageError:
        return {}
    facts = made.task.facts(made.method)
    seen = {"clients": facts.clients, "classes": facts.classes, "dim": facts.dim}
    return {
        "hides": made.method.hides() or bool(made.wrappers),
        "distance": made.method.distance,
        "stand_in": made.task.stand_in,
        "facts": {**seen, "shape": list(facts.shape)},
        "utility": {k: getattr(made.task, k) for k in ("metric", "better", "chance")},
    }


def measure(
    metric: str,
    attack: Sequence[float],
    floor: Sequence[float] | float,
    control: Sequence[float],
    *,
    stage: str = "final",
    round: int = 100,
    probe: bool = False,
    accepted: Sequence[int] = (),
    failed: Sequence[int] = (),
    unsettled: Sequence[int] = (),
    accepted_control: Sequence[int] = (),
    units: Sequence[str] | None = None,
    clusters: Sequence[str] | None = None,
    flag: str = "",
) -> dict[str, Any]:
    """One row of an attack; a floor that is a single number is exact. ``accepted``, ``failed``
    and ``unsettled``: places of units; ``accepted_control``: of the control's.
    """
    names = list(units or [f"client/{i}" for i in range(len(attack))])
    fixed = not isinstance(floor, Sequence)
    return {
        "metric": metric,
        "stage": stage,
        "round": round,
        "probe": probe,
        "scores": {
            "attack": list(attack),
            "floor": [float(floor)] * len(names) if fixed else list(floor),
            "control": list(control),
        },
        "exact": fixed,
        "accepted": set(accepted),
        "accepted_control": set(accepted_control),
        "failed": set(failed),
        "unsettled": set(unsettled),
        "units": names,
        "clusters": list(clusters or names),
        "flag": flag,
    }


def add_attack(
    run: Path,
    name: str,
    rows: Sequence[Mapping[str, Any]],
    *,
    rung: str = "transcript",
    order: int = 0,
    params: Mapping[str, Any] | None = None,
    status: str = "done",
    missing: Sequence[Mapping[str, str]] = (),
    folder: str = "",
    sources: Mapping[str, str] | None = None,
    reads: Sequence[str] = (),
    observer: str = "server",
) -> Path:
    """An attack folder on ``run`` with these rows; ``sources``: without them those of today.

    ``reads``: without them `prototype` alone.
    """
    meta, params = read_sealed(run / "run.json"), dict(params or {"seed": 0})
    path = run / "attacks" / (folder or f"{name}-{fingerprint(params)}")
    units, results = [], []
    for row in rows:
        scale = SCALES[row["metric"]]
        found: dict[str, Estimate] = {}
        for role, scores in row["scores"].items():
            found[role] = _estimate(
                scores, row["clusters"], scale, exactly=row["exact"] and role == "floor"
            )
            for i, (unit, cluster, score) in enumerate(
                zip(row["units"], row["clusters"], scores, strict=True)
            ):
                mine = role == "attack"
                cells = {
                    "unit": unit,
                    "cluster": cluster,
                    "score": score,
                    "failed": mine and i in row["failed"],
                    "accepted": i in row[ACCEPTED[role]] if role in ACCEPTED else False,
                    "settled": not (mine and i in row["unsettled"]),
                }
                units.append(
                    {"role": role, **{c: row[c] for c in ("metric", "round", "probe")}} | cells
                )
        told = _result(meta, name, params, rung, row, scale, found)
        results.append(told | {"observer": observer})
    write_csv(path / "units.csv", UNITS, units)
    write_csv(path / "results.csv", RESULTS, results)
    write_tree(
        path / "guess.safetensors",
        {"0": {"x": torch.tensor([float(sum(map(sum, (r["scores"]["attack"] for r in rows))))])}},
        {"guesses": [], "transcript": load(run).transcript},
    )
    about = {
        "schema": 2,
        "status": status,
        "of": load(run).named,
        "sources": dict(attack_code.installed_sources(name) if sources is None else sources),
        "attack": name,
        "params": params,
        "threat": {
            "observer": observer,
            "kinds": ["prototype"],
            "rounds": "last",
            "knows": ["true_prototypes"] if rung == "paper" else [],
            "rung": rung,
        },
        "reads": list(reads),
        "pools": rung != "paper",
        "order": order,
        "metrics": {r["metric"]: SCALES[r["metric"]] for r in rows},
        "missing": list(missing),
        "files": digests(path, without=("attack.json",)),
    }
    write_sealed(path / "attack.json", about)
    return path


def _estimate(
    scores: Sequence[float], clusters: Sequence[str], scale: Mapping[str, Any], *, exactly: bool
) -> Estimate:
    if exactly:
        return exact(sum(scores) / len(scores), len(scores), scale["unit"])
    low = float("-inf") if scale["low"] is None else scale["low"]
    high = float("inf") if scale["high"] is None else scale["high"]
    return estimate(scores, clusters, share=scale["share"], low=low, high=high, unit=scale["unit"])


def _result(
    meta: Mapping[str, Any],
    name: str,
    params: Any,
    rung: str,
    row: Mapping[str, Any],
    scale: Mapping[str, Any],
    found: Mapping[str, Estimate],
) -> dict[str, Any]:
    value, spec = found["attack"], meta["spec"]
    out = {
        "run": meta["id"],
        "task": spec["task"]["name"],
        "defense": spec["defense"]["name"],
        "defense_params": canonical(spec["defense"]["params"]),
        "wrappers": canonical(spec["wrappers"]),
        "seed": spec["seed"],
        "attack": name,
        "attack_params": canonical(params),
        "rung": rung,
        "observer": "server",
        "knowledge": "true_prototypes" if rung == "paper" else "",
        **{c: row[c] for c in ("stage", "round", "probe", "metric")},
        "leaks": scale["leaks"],
        "value": value.value,
        "low": value.low,
        "high": value.high,
        "interval": value.interval,
        "n": value.n,
        "unit": scale["unit"],
        "failed": len(row["failed"]),
        **{c: meta[c] for c in ("engine", "device", "dtype", "commit")},
        "version": "0.1.0",
    }
    for role in ("floor", "control"):
        out |= {
            role: found[role].value,
            f"{role}_low": found[role].low,
            f"{role}_high": found[role].high,
        }
    marks = {row["flag"]} | flags.of_units(row["clusters"], [bool(row["failed"])])
    marks |= {"probe"} if row["probe"] else set()
    weak = flags.control_failed(scale["leaks"], found["floor"], found["control"])
    return out | {"flags": flags.join(marks | ({"control_failed"} if weak else set()))}
