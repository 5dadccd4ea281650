"""tune: the fastest way to train several local steps on this machine."""

from __future__ import annotations

from functools import partial
from typing import Any

from leakbench.cli.commands import show_rows
from leakbench.cli.options import TrainPlan


def run_tune(plan: TrainPlan, rounds: int, *, device: str, as_json: bool) -> int:
    """Measure every setting of ``plan``, show what a round took, and keep the fastest."""
    from leakbench.base import provenance, terminal
    from leakbench.federation.engines import resolve
    from leakbench.record.runspec import make_spec, parts

    provenance.known_device(device)
    specs = [make_spec(**given) for given in plan.specs()]
    import torch  # when every name is known

    from leakbench.federation import tuned
    from leakbench.federation.federation import Federation
    from leakbench.federation.tuning import tune

    where, rows = provenance.device(device), list[dict[str, Any]]()
    for spec in specs:
        made = parts(spec)
        what = {"task": spec.task.name, "defense": spec.defense.name}
        if resolve("auto", made.method, made.wrappers) == "fused":
            terminal.say(
                f"{spec.defense.name}: its rounds are fused, so there is nothing to choose"
            )
            continue
        how: dict[str, Any] = {"seed": spec.seed, "wrappers": made.wrappers, "device": where}
        how["dtype"] = getattr(torch, spec.dtype)
        make = partial(Federation, made.method, made.task, made.task.load(), **how)
        found = tune(lambda way, make=make: make(engine=way), rounds)  # type: ignore[misc]
        for way, why in found.without.items():
            terminal.say(f"{spec.defense.name}: {way} does not work here: {why}")
        loop = found.seconds["loop"]
        for way, seconds in found.seconds.items():
            ratio = {"seconds a round": f"{seconds:.4g}", "loop / it": f"{loop / seconds:.2f}"}
            rows.append({**what, "way": way, **ratio, "used": "*" if way == found.way else ""})
    show_rows(rows, list(rows[0]) if rows else [], as_json)
    if rows:
        terminal.say(f"kept in {tuned.ways_table()}; a run that was begun goes on as it began")
    return 0
