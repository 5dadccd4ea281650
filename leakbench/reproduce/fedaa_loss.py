"""FedAA's Figure 4: the loss of the global model on the clients' data."""

from __future__ import annotations

from leakbench.base.errors import NotMeasured
from leakbench.record.columns import RUN_DIAGNOSTICS
from leakbench.record.folders import Run
from leakbench.reproduce.fedaa import CHOICES, DRAWN, FINAL, islands
from leakbench.reproduce.fedaa_setups import COMPARED, at, cases
from leakbench.reproduce.orders import Less
from leakbench.reproduce.recipe import Measure, Recipe

FRACTION, LAST = 0.8, 10
LOSS = "global_loss"  # one quantity for all methods, whatever each minimises


def losses(run: Run) -> dict[int, float]:
    """{round: the global model's mean loss over clients}, at the evaluations of a run."""
    found = run.table("diagnostics.csv", RUN_DIAGNOSTICS)
    return {r["round"]: r["value"] for r in found if r["name"] == LOSS}


def late(run: Run) -> list[float]:
    """The mean of the last ten evaluations.

    Raises:
        NotMeasured: the run has no such diagnostic.
    """
    found = losses(run)
    if not found:
        raise NotMeasured(f"{run.id}: its diagnostics have no {LOSS}.")
    last = [found[t] for t in sorted(found)[-LAST:]]
    return [sum(last) / len(last)]


RECIPE = Recipe(
    name="fedaa-figure4",
    paper="fedaa",
    about=(
        "FedAA, Figure 4: mean loss of ten clients with one class each, C = 0.8. The paper prints"
        " no numbers."
    ),
    cases=tuple(cases(COMPARED, (FRACTION,))),
    measures=(
        FINAL,  # the best of a sweep is chosen by it
        Measure(LOSS, "loss, mean of the last ten", LOSS, view=late, unit="run", printed=False),
    ),
    scales=islands(
        "5 minutes on two cores",
        "two to five minutes a run and core, 5 runs of Table 1",
        "some hours on one GPU, never tried",
    ),
    orders=(
        Less(
            "FedAA comes down to a lower loss",
            LOSS,
            pairs=tuple((at("FedAA", FRACTION), at(m, FRACTION)) for m in COMPARED[:4]),
        ),
    ),
    figure="loss",
    choices=(
        *CHOICES[2:],
        DRAWN,
        (
            "The paper says neither on which data nor of which model the loss is. Ours: the"
            " cross-entropy of the global model, averaged over all clients, on their own training"
            " examples; where layers stay with the clients, of each client's own. What a client"
            " minimises is no common measure: it is that of eleven local epochs or of one, and has"
            " the terms of MOON, FedProx or FedAA's identifier in it."
        ),
    ),
)
