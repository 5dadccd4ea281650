"""The papers' own numbers beside ours.

Which published record speaks of this method, task and metric.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

from leakbench.results.number import Claim

# In this order a contradiction counts among records that contradict equally often.
_FIELDS: tuple[tuple[str, ...], ...] = (
    ("split", "split_param"),
    ("clients",),
    ("fraction",),
    ("mean_local_size",),
    ("rounds",),
)
_FATAL = (0, 1)  # split, clients
_TRAINED = ("final", "all")


def find_claim(
    method: str,
    params: Mapping[str, Any],
    task: str,
    metric: str,
    fields: Mapping[str, Any],
    *,
    stage: str = "final",
    round: int | None = None,
) -> Claim | None:
    """The record of our method, task and metric that fits this run best, if exactly one does.

    A record's parameters must be a subset of ours. Of those, the one whose setting contradicts
    fewest of ``fields``; ties go to the earlier field (split, clients, fraction, size, rounds),
    then to tables before running text, then to the record with more parameters. None if two still
    tie with different numbers, or if the best contradicts split or clients.

    Args:
        method: the defense's name.
        params: all its parameters.
        task: the task's name.
        metric: a column value of ours ("p_leak", "accuracy").
        fields: what is known of the run: split, split_param, clients, fraction, mean_local_size,
            rounds, under these names or their aliases.
        stage: of the row. A paper speaks of the trained model (`final`, `all`) unless its record
            says untrained.
        round: of the row, for records about one round.
    """
    have = _known(fields)
    fitting = [r for r in _records() if _fits(r, method, params, task, metric, stage, round)]
    if not fitting:
        return None
    ranks = [_rank(r, have) for r in fitting]
    least = min(ranks)
    if any(least[1][i] for i in _FATAL):
        return None
    best = [r for r, rank in zip(fitting, ranks, strict=True) if rank == least]
    return _claim(best[0], have) if len({(r["value"], r["spread"]) for r in best}) == 1 else None


def claim_beside(claim: Claim | None, *, unofficial: bool) -> Claim | None:
    """A claim as it may stand beside our number; ``unofficial``: ours is on other data."""
    if claim is None or not unofficial:
        return claim
    return claim.model_copy(update={"source": f"ours on unofficial data; {claim.source}"})


@lru_cache(maxsize=1)
def published() -> tuple[dict[str, Any], ...]:
    """Every record of the four papers, as printed."""
    return tuple(_load("published.json")["records"])


def dataset(record: Mapping[str, Any]) -> str | None:
    """The data set that a record is of, under our name; None: of all of its paper's."""
    names: dict[str, str] = _aliases()["datasets"]
    return names.get(record["dataset"], record["dataset"])


@lru_cache(maxsize=1)
def _aliases() -> dict[str, Any]:
    return dict(_load("aliases.json"))


@lru_cache(maxsize=1)
def _records() -> tuple[dict[str, Any], ...]:
    """The records about a method, in our names."""
    names = _aliases()
    out = []
    for record in published():
        # A condition that no row of ours meets ("global model before the studied round") makes it
        # no claim about ours.
        unmet = set(record["setting"]) & set(names["conditions"])
        if record["method"] is None or record["dataset"] is None or unmet:
            continue
        method = names["methods"].get(record["method"], {"method": record["method"]})
        metric = names["metrics"].get(record["metric"], {"metric": record["metric"]})
        kept = {k: v for k, v in record["params"].items() if k not in method.get("drop", ())}
        params = {names["params"].get(k, k): v for k, v in kept.items()}
        mine = {
            "method": method["method"],
            "params": params | method.get("params", {}),
            "dataset": names["datasets"].get(record["dataset"], record["dataset"]),
            "metric": metric["metric"],
            "remark": metric.get("note"),
            "otherwise": method.get("otherwise", {}),
        }
        # "90 % needs 300 samples" is our other metric.
        for turned in names["turned"]:
            answer = record["setting"].get(turned["setting"])
            if answer is not None and record["value"] == turned["value"]:
                mine |= {"metric": turned["metric"], "unit": "count", "value": answer}
        out.append(record | mine)
    return tuple(out)


@lru_cache(maxsize=1)
def _setups() -> dict[tuple[str, str], dict[str, Any]]:
    """(paper, dataset) -> the setting that the paper states once for all its methods."""
    out: dict[tuple[str, str], dict[str, Any]] = {}
    for record in published():
        field = _aliases()["setups"].get(record["metric"])
        of_all = record["method"] is None and not record["setting"]
        if field and of_all and record["dataset"] is not None:
            dataset = _aliases()["datasets"].get(record["dataset"], record["dataset"])
            out.setdefault((record["paper"], dataset), {})[field] = _scaled(record["value"], record)
    return out


def _load(name: str) -> Any:
    return json.loads((files("leakbench") / "data_files" / name).read_text(encoding="utf-8"))


def _known(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The run's fields under the records' names."""
    names: dict[str, list[str]] = _aliases()["fields"]
    have = {}
    for field, ours in names.items():
        known = [fields[mine] for mine in ours if mine in fields]
        if known:
            have[field] = known[0]
    if "split" in have:
        have["split"] = _aliases()["splits"].get(have["split"], have["split"])
    return have


def _fits(
    record: Mapping[str, Any],
    method: str,
    params: Mapping[str, Any],
    task: str,
    metric: str,
    stage: str,
    round: int | None,
) -> bool:
    if (record["method"], record["dataset"], record["metric"]) != (method, task, metric):
        return False
    if any(k not in params or not _same(params[k], v) for k, v in record["params"].items()):
        return False
    # What the paper states once for all numbers of the method: another value is another method.
    once = {k: v for k, v in record["otherwise"].items() if k not in record["params"]}
    if any(k in params and not _same(params[k], v) for k, v in once.items()):
        return False
    if (record["setting"].get("model_stage") == "untrained") != (stage == "untrained"):
        return False
    at = record["setting"].get("round", "last")
    if isinstance(at, str):  # "last" or "any"
        return at == "any" or stage in (*_TRAINED, "untrained")
    return round is not None and _same(at, round)


def _rank(
    record: Mapping[str, Any], have: Mapping[str, Any]
) -> tuple[int, tuple[bool, ...], bool, int]:
    """Smaller fits better."""
    setting = record["setting"]

    def contradicts(field: str) -> bool:
        both = field in setting and field in have
        return both and not _same(setting[field], have[field])

    against = tuple(any(map(contradicts, group)) for group in _FIELDS)
    return sum(against), against, record["table"] is None, -len(record["params"])


def _claim(record: Mapping[str, Any], have: Mapping[str, Any]) -> Claim:
    value, spread = record["value"], record["spread"]
    kind = (record["spread_kind"] or "not explained").replace("; ", ", ")
    known = spread is not None
    low = _scaled(value - spread, record) if known else None
    high = _scaled(value + spread, record) if known else None
    said = [record["source"], f"± {kind}" if known else "no spread given"]
    said += [text for text in (record.get("note"), record["remark"]) if text]
    setting = _setups().get((record["paper"], record["dataset"]), {}) | record["setting"]
    against = {f: v for f, v in setting.items() if f in have and not _same(v, have[f])}
    differs = [f"{f} {v} there, {have[f]} here" for f, v in against.items()]
    said += differs
    unknown = [f"{f} {v}" for f, v in setting.items() if f not in have]
    said += [f"there: {', '.join(unknown)}"] if unknown else []
    source = "; ".join(said)
    first = differs[0] if differs else ""
    number = float(_scaled(value, record))
    return Claim(value=number, low=low, high=high, source=source, differs=first)


def _scaled(value: float, record: Mapping[str, Any]) -> float:
    return value / 100 if record["unit"] == "percent" else value


def _same(a: Any, b: Any) -> bool:
    """Equal, 1 and 1.0 alike, but not 1 and True."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, int | float) and isinstance(b, int | float):
        return abs(a - b) <= 1e-9 * max(abs(a), abs(b), 1.0)
    return bool(a == b)
