"""What a run's diagnostics say of its training: the loss, and how far local models are apart.

FedAA's Figures 4 and 5.
"""

from __future__ import annotations

from collections.abc import Mapping

from leakbench.base.errors import NotMeasured
from leakbench.record.columns import RUN_DIAGNOSTICS
from leakbench.record.folders import Run

LAST = 10  # evaluations
LOSS = "global_loss"  # one quantity for all methods, whatever each minimises
FIRST, SECOND = "local_variance", "local_variance_second"


def diagnostic(run: Run, name: str) -> dict[int, float]:
    """{round: value} at the evaluations of a run.

    ``LOSS`` is the global model's mean loss over clients, ``FIRST`` and ``SECOND`` the mean over
    the trained parameters of their variance over the round's clients, of a round's first upload
    and of its second.
    """
    found = run.table("diagnostics.csv", RUN_DIAGNOSTICS)
    return {r["round"]: r["value"] for r in found if r["name"] == name}


def late_loss(run: Run) -> list[float]:
    """The mean loss of the last ten evaluations.

    Raises:
        NotMeasured: the run has no such diagnostic.
    """
    return _late(diagnostic(run, LOSS), f"{run.id}: its diagnostics have no {LOSS}.")


def first_variance(run: Run) -> list[float]:
    """The mean of the last ten evaluations, of the models of a round's first upload.

    Raises:
        NotMeasured: the run has no such diagnostic.
    """
    return _late(diagnostic(run, FIRST), _apart(run))


def last_variance(run: Run) -> list[float]:
    """The same of a round's last upload: FedAA's second, the only one of the others.

    Raises:
        NotMeasured: as for ``first_variance``.
    """
    return _late(diagnostic(run, SECOND) or diagnostic(run, FIRST), _apart(run))


def _apart(run: Run) -> str:
    return f"{run.id}: its diagnostics do not say how far apart the local models were."


def _late(found: Mapping[int, float], why: str) -> list[float]:
    if not found:
        raise NotMeasured(why)
    late = [found[t] for t in sorted(found)[-LAST:]]
    return [sum(late) / len(late)]
