"""Gradient inversion: find the images whose gradient is the one that a client's update is (Zhu et al. 2019; Geiping et al. 2020)."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from attacks import _matching, _updates
from leakbench.attacker import Attack
from leakbench.guess import Guess
from leakbench.image_metrics import RECONSTRUCTION
from leakbench.metrics import Metric
from leakbench.recording import Recording
from leakbench.replay import Replay
from leakbench.traffic import party
from leakbench.transcript import Message
from leakbench.view import ThreatModel, View

VANISHED = 1e-8  # norm of an update that holds nothing


class GradientInversion(Attack):
    """Solves for the images behind one SGD step, through the method's own loss at the weights the victim had received.

    The loss may read private inputs (a prototype). ``naive`` puts the victim's newest earlier message of the same name in
    their place, as FedHide's Table 2 does with the proxy; ``joint`` solves for them together with the images. The updates are
    the recorded probes (one image each) or the real ones (a batch). Of a round with several trainings (FedAA) the first one's are
    attacked, whose loss is the method's ``loss``; the later ones' are left alone.

    ``lbfgs``: matches the gradient's direction (a clipped update keeps it), for small smooth nets.
    ``breaching``: signed Adam on the cosine with total variation, by the package of Geiping et al.; naive only.
    """

    about: ClassVar[str] = "images from the gradient that an update is"
    paper: ClassVar[str] = "Zhu et al. 2019; Geiping et al. 2020; FedHide Table 2"
    metrics: ClassVar[tuple[Metric, ...]] = RECONSTRUCTION
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({"attacker": "naive"}, {"attacker": "joint"})

    attacker: Literal["naive", "joint"] = Field("joint", description="private inputs of the loss: replaced by messages, or solved for")
    engine: Literal["lbfgs", "breaching"] = Field("lbfgs", description="the optimiser")
    message: Literal["probe", "update"] = Field("probe", description="single-image updates, or the real ones")
    at: tuple[Literal["untrained", "early", "middle", "final"], ...] = Field(
        ("untrained", "final"), min_length=1, description="stages attacked"
    )
    targets: int = Field(8, ge=1, description="updates attacked in a stage, of as many clients as there are")
    steps: int = Field(200, ge=1, description="iterations of each restart")
    restarts: int = Field(2, ge=1, description="starts; the one that matches best is kept")
    total_variation: float = Field(
        0.1, ge=0, description="weight of the total variation, breaching only (the paper on photographs: 0.1; tiny digits want 0.001)"
    )

    @property
    def threat(self) -> ThreatModel:
        kinds = ("update", "model", "prototype", "statistics", "features", "labels", "mean_data", "data", "generator", "identifier")
        rung: Literal["paper", "method"] = "paper" if self.attacker == "naive" else "method"
        return ThreatModel(kinds=kinds, knows=("method", "facts", "labels"), rung=rung)

    @property
    def floor_threat(self) -> ThreatModel:
        return self.threat.model_copy(update={"knows": (*self.threat.knows, "aux_data")})

    def obstacle(self, recording: Recording) -> str:
        m = recording.method
        why = super().obstacle(recording)
        if why:
            return why
        if m.steps != 1 or m.optimizer != "sgd":
            return "the update is not a single SGD step, so it is no gradient"
        return "breaching solves for images only: use attacker=naive" if self.engine == "breaching" and self.attacker == "joint" else ""

    def stages(self) -> tuple[str, ...]:
        return self.at

    def seconds(self, recording: Recording) -> float:
        size = sum(p.numel() for p in recording.module().parameters())
        once = 0.004 if self.engine == "lbfgs" else 0.01
        return 2 * len(self.at) * self.targets * self.restarts * self.steps * once * max(size / 5000, 1)

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        return [self._invert(view, m, rng) for m in self._sent(view)]

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        """The mean of the auxiliary images of each label."""
        aux, out = view.know("aux_data"), []
        for m in self._sent(view):
            means = [aux.x[aux.y == y].mean(0) if bool((aux.y == y).any()) else aux.x.mean(0) for y in self._labels(view, m)]
            out.append(Guess(m.sender, m.round, {"x": torch.stack(means)}, probe=m.probe))
        return out

    def _sent(self, view: View) -> list[Message]:
        """The updates of this round's first training: one of each client, then a second of each, up to ``targets``."""
        found = _updates.first(view, probe=self.message == "probe")
        count: dict[str, int] = {}
        turns = []
        for m in found:
            count[m.sender] = count.get(m.sender, 0) + 1
            turns.append(count[m.sender])
        order = sorted(range(len(found)), key=lambda i: (turns[i], i))
        return [found[i] for i in sorted(order[: self.targets])]

    def _labels(self, view: View, m: Message) -> Tensor:
        labels: Tensor = view.know("labels")[m.sender, m.round, m.phase, m.probe]
        return labels

    def _invert(self, view: View, m: Message, rng: torch.Generator) -> Guess:
        labels = self._labels(view, m)
        replay = Replay(view, m, rng, size=len(labels), dtype=torch.float64)
        norm = math.sqrt(sum(float(t.double().square().sum()) for t in m.payload.values()))
        if norm < VANISHED:
            return Guess(m.sender, m.round, probe=m.probe, failed="the update is zero", flags=("gradient_vanished",))
        private = {k: self._stand_in(view, m, k, v) for k, v in replay.unknown.items()}
        free = [k for k, v in private.items() if self.attacker == "joint" and v.is_floating_point()]
        found = (
            _matching.lbfgs(replay, labels, private, free, self, rng)
            if self.engine == "lbfgs"
            else _matching.breached(replay, labels, private, self, rng)
        )
        if not bool(found.x.isfinite().all()):
            return Guess(m.sender, m.round, probe=m.probe, failed="the search diverged", flags=found.flags)
        tensors = {"x": found.x.to(view.dtype), **{k.replace("/", "."): v.to(view.dtype) for k, v in found.private.items()}}
        return Guess(m.sender, m.round, tensors, accepted=found.accepted, probe=m.probe, flags=found.flags)

    def _stand_in(self, view: View, m: Message, name: str, guess: Tensor) -> Tensor:
        """The newest message of that name that the victim had sent *before* this loss; where none was kept, the one of this
        round (one step later); else the guess.
        """
        kind = name.rpartition("/")[2]
        said = [e for e in view.messages(kind, sender=m.sender) if e.round <= m.round] if kind in view.threat.kinds else []
        earlier = [t for t, sender, _ in view.traffic(kind).tolist() if sender == party(m.sender) and t < m.round] if said else []
        said.sort(key=lambda e: (e.round in earlier[-1:], e.round))  # one that is older still stands in for nothing newer
        return said[-1].payload.to(guess) if said and said[-1].payload.shape == guess.shape else guess
