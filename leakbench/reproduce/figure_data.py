"""What the figures show of guesses and the truth: a told context, and images that were rebuilt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from leakbench.attacking import choices
from leakbench.attacking.guessing import saved
from leakbench.base.errors import NotMeasured
from leakbench.base.spec import canonical
from leakbench.metrics.context import CONTEXT_ACCURACY, shares
from leakbench.record.folders import AttackFolder, Run
from leakbench.reproduce.recipe import Measure
from leakbench.scoring.truth import Truth
from leakbench.statistics import intervals

Images = dict[int, tuple[Tensor, Tensor | None]]  # client -> its image, and what was rebuilt


@dataclass(frozen=True)
class CurvePoint:
    """Balanced accuracy over clients with 95 % interval, with this many samples."""

    samples: int
    value: float
    low: float
    high: float
    n: int  # unit scores


def context_curve(run: Run, attack: AttackFolder) -> list[CurvePoint]:
    """How well a context is told against the samples made, of an attack ``context`` on ``run``.

    At the last audited round; the last point is its row in results.csv.

    Args:
        run: for the truth.
        attack: with its saved guesses.

    Raises:
        NotMeasured: no draw was made there, or the clients' contexts are not known or all alike.
        BrokenFile: guesses or truth are damaged.
    """
    truth = Truth(run)
    at = {(g.role, g.guess.unit): g.guess for g in saved(attack.path) if g.stage == "final"}
    draws = {unit: g for (role, unit), g in at.items() if role == "attack"}
    made = [g for g in draws.values() if not g.failed]
    if not made:
        raise NotMeasured(f"{attack.path} holds no guess at the last round.")
    coin = CONTEXT_ACCURACY.floor or CONTEXT_ACCURACY.score
    points = []
    for i, samples in enumerate(made[0].tensors["sizes"].tolist()):
        scores = []
        for unit, guess in draws.items():
            answer = truth.answer(guess)
            if guess.failed:  # scores what the blind guess scores, as in results.csv
                scores += coin(at["floor", unit], answer)
            else:
                scores += shares(guess, answer, guess.tensors["score"][i])
        values, clusters = [s.value for s in scores], [s.cluster for s in scores]
        limits = {"low": CONTEXT_ACCURACY.low, "high": CONTEXT_ACCURACY.high}
        found = intervals.estimate(values, clusters, share=False, unit="client", **limits)
        points.append(CurvePoint(int(samples), found.value, found.low, found.high, found.n))
    return points


def rebuilt(run: Run, m: Measure, asked: dict[str, Any]) -> Images:
    """What the attack behind ``m`` made of each client's first image, at the measure's stage.

    ``asked``: the attack's parameters.
    """
    wanted = canonical(choices.build(m.attack, asked).attack.parameters())
    made = [a for a in run.attacks if a.done and (a.name, a.params) == (m.attack, wanted)]
    truth, t = Truth(run), run.meta["stages"].get(m.stage or "final")
    out: Images = {}
    for attack in made:
        attack.check("guess.safetensors")
        for guess in (g.guess for g in saved(attack.path) if g.role == "attack"):
            if guess.round != t:
                continue
            answer = truth.answer(guess)
            original = answer.originals(guess)
            image = None if guess.failed else original.beside(guess.tensors["x"], clip=True)[0]
            out.setdefault(answer.client, (original.x[0], image))
    return out
