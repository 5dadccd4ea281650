"""FedAA's Figure 5: how far the local models are apart before they are averaged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leakbench.base.errors import NotMeasured
from leakbench.record.columns import RUN_DIAGNOSTICS
from leakbench.record.folders import Run
from leakbench.reproduce.fedaa import CHOICES, DRAWN, FINAL, HELP, islands
from leakbench.reproduce.fedaa_setups import ABLATED, COMPARED, TWICE, at, cases
from leakbench.reproduce.orders import Less
from leakbench.reproduce.recipe import Measure, Recipe

FIRST, SECOND, LAST = "local_variance", "local_variance_second", 10


def variances(run: Run, name: str) -> dict[int, float]:
    """{round: mean over the trained parameters of the variance over the round's clients}.

    ``name``: of which upload.
    """
    return {
        r["round"]: r["value"]
        for r in run.table("diagnostics.csv", RUN_DIAGNOSTICS)
        if r["name"] == name
    }


def first(run: Run) -> list[float]:
    """The mean of the last ten evaluations, of the models of a round's first upload.

    Raises:
        NotMeasured: the run has no such diagnostic.
    """
    return [_late(run, variances(run, FIRST))]


def last(run: Run) -> list[float]:
    """The same of a round's last upload: FedAA's second, the only one of the others.

    Raises:
        NotMeasured: as for ``first``.
    """
    return [_late(run, variances(run, SECOND) or variances(run, FIRST))]


def _late(run: Run, found: Mapping[int, float]) -> float:
    if not found:
        raise NotMeasured(
            f"{run.id}: its diagnostics do not say how far apart the local models were."
        )
    late = [found[t] for t in sorted(found)[-LAST:]]
    return sum(late) / len(late)


def _variance(key: str, title: str, view: Any) -> Measure:
    return Measure(key, title, metric=key, view=view, unit="run", printed=False)


def nearer(near: str, far: Sequence[str], measure: str, said: str) -> Less:
    """At C = 1 the local models of ``near`` are closer together than those of each of ``far``."""
    return Less(said, measure, pairs=tuple((at(near, 1.0), at(m, 1.0)) for m in far))


RECIPE = Recipe(
    name="fedaa-figure5",
    paper="fedaa",
    about=(
        "FedAA, Figure 5: how far the local models are apart before they are averaged, 10 clients"
        " with one class each."
    ),
    cases=(
        *cases(COMPARED, (1.0,)),
        *cases(ABLATED, (1.0,), HELP),
        *cases(("Neither",), (1.0,), TWICE),
    ),
    measures=(
        FINAL,  # the best of a sweep is chosen by it
        _variance("local_variance", "variance at the first upload", first),
        _variance("local_variance_last", "variance at the last upload", last),
    ),
    scales=islands(
        "7 minutes on two cores",
        "five to ten minutes a run and core, 8 runs",
        "some hours on one GPU, never tried",
    ),
    orders=(
        nearer(
            "FedAA",
            COMPARED[:4],
            "local_variance_last",
            "FedAA's models are nearer to each other (last upload, which its one epoch brings)",
        ),
        nearer(
            "FedAA",
            COMPARED[:4],
            "local_variance",
            "FedAA's models are nearer to each other (first upload, after as many epochs less one)",
        ),
        nearer(
            "FedAA",
            ("Non-I",),
            "local_variance_last",
            "the identifier brings them nearer (last upload, against the same epoch without it)",
        ),
    ),
    figure="variance",
    choices=(
        *CHOICES[2:],
        DRAWN,
        (
            "The paper says neither on which data and C its Figure 5 is, nor which of FedAA's two"
            " uploads it shows; ours: Table 1's at C = 1 and both. A number of the table is the"
            " mean of the last ten evaluations of a run: the mean over the trained parameters of"
            " the variance over the round's clients."
        ),
        (
            "FedAA's second upload comes one epoch after an average, the others' only upload eleven"
            " epochs after it: that curve lies lower whatever the identifier does. Non-I and"
            " Neither, whose one epoch has no identifier, say how much of it is the identifier's."
        ),
    ),
)
