"""What our runs do otherwise than the paper.

It is read off the paper's published setup where that is printed, and said by the recipe where not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leakbench.record.runspec import Parts, RunSpec, parts
from leakbench.reproduce.recipe import Params, Setup
from leakbench.reproduce.row import Departure
from leakbench.results import claims

# Metric of a record about a paper's setup -> where the same stands in a spec.
_SETUP = {
    "rounds": ("rounds",),
    "clients": ("task.clients",),
    "client_fraction": ("defense.fraction",),
    "embedding_dim": ("task.dim",),
    "learning_rate": ("defense.lr", "defense.own_lr"),
    "batch_size": ("defense.batch",),
    "local_iterations": ("defense.steps",),
    "local_epochs": ("defense.epochs",),
    "negative_weight_lambda": ("defense.lam",),
}
# Papers that train all methods as their own, whose values they print under its name, which is the
# paper's.
_ALIKE = ("fedaa", "flea")
_ALSO = {"encoder_learning_rate": "learning_rate"}  # what a paper calls otherwise on one data set
_NAMES = {
    "task.clients": "clients",
    "task.dim": "embedding of width",
    "defense.batch": "batch",
    "defense.steps": "local steps",
    "defense.epochs": "local epochs",
}


def differences(
    paper: str, setup: Setup, specs: Sequence[RunSpec], own: Params | None = None
) -> list[Departure]:
    """What differs between ``specs`` and the paper on its data set, one phrase each.

    ``specs``: one case with its seeds; none of a study.

    ``own``: the case's parameters. Others that a task or a recipe sets otherwise than the method
    does are told, too.
    """
    data = f"stand-in data: {setup.stand_in}"
    out = [Departure(data, "data")] if setup.stand_in else []
    stated = [Departure(text, "setup") for text in setup.differs]
    if not specs:
        return [*out, *stated]
    spec, made = specs[0], parts(specs[0])
    reasons = setup.why.get(spec.defense.name, {})

    def reason(name: str) -> str:
        return f": {reasons[name]}" if name in reasons else ""

    for metric, value in printed(paper, setup.dataset).items():
        for place in _SETUP[metric]:
            ours = _of(spec, made, place)
            if ours is not None and abs(float(ours) - float(value)) > 1e-12:
                name = place.rpartition(".")[2]
                said = f"{_NAMES.get(place, name)} {_number(ours)}, not {_number(value)}"
                out.append(Departure(said + reason(name), "setup"))
    seeds = {
        r["seeds"]
        for r in claims.published()
        if r["paper"] == paper and claims.dataset(r) == setup.dataset and r["seeds"]
    }
    if seeds and len(specs) != max(seeds):
        said = f"{len(specs)} seed{'s' * (len(specs) > 1)}, not {max(seeds)}"
        out.append(Departure(said, "setup"))
    told = {
        place.partition(".")[2]
        for metric in printed(paper, setup.dataset)
        for place in _SETUP[metric]
    } | {*(own or {})}
    for name, field in type(made.method).model_fields.items():
        value = spec.defense.params[name]
        if name not in told and value != field.get_default():
            usual = f"{field.get_default()}: {str(field.description).replace(';', ',')}"
            said = f"{name} = {value} (by default {usual})" + reason(name)
            out.append(Departure(said, "default"))
    if spec.dtype != "float32":
        out.append(Departure(spec.dtype, "setup"))
    return [*out, *stated]


def printed(paper: str, dataset: str) -> dict[str, Any]:
    """{metric of the setup: its value} as the paper prints it.

    For ``dataset``, or for all of its data sets.
    """
    out: dict[str, Any] = {}
    # What is said of a data set counts before what is said of all.
    for record in sorted(claims.published(), key=lambda r: r["dataset"] is None):
        whose = (None, paper) if paper in _ALIKE else (None,)
        mine = (
            record["paper"] == paper
            and claims.dataset(record) in (dataset, None)
            and record["method"] in whose
        )
        metric = _ALSO.get(record["metric"], record["metric"])
        if mine and metric in _SETUP and not record["setting"]:
            value = record["value"] / 100 if record["unit"] == "percent" else record["value"]
            out.setdefault(metric, value)
    return out


def _of(spec: RunSpec, made: Parts, place: str) -> Any:
    """A value of the spec, or None.

    It is None where the method has no such field, or nothing of its own to train at ``own_lr``.
    """
    group, _, name = place.rpartition(".")
    if name == "own_lr" and made.method.outputs != "embedding":
        return None
    if not group:
        return getattr(spec, name)
    value: Any = getattr(made.task if group == "task" else made.method, name, None)
    # Where own and shared examples are dealt into one step, the paper's batch is of both.
    return value + getattr(made.method, "shared_batch", 0) if name == "batch" else value


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
