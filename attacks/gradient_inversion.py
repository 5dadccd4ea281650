"""Gradient inversion: the images whose gradient is the one that a client's update is.

Zhu et al. 2019; Geiping et al. 2020.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import cycle
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from attacks import _updates
from attacks._inversion import breaching, check, engines, priors
from attacks._inversion import labels as class_labels
from attacks._inversion.conditions import conditions
from attacks._inversion.victims import Victim, replayed
from leakbench.attacking import Attack, Guess, Metric, Outline, Replay, ThreatModel, View
from leakbench.federation import Defense, party
from leakbench.metrics import (
    INVERSION_PRECISION,
    LABEL_ACCURACY,
    P_LEAK,
    PROTOTYPE_COSINE,
    RECONSTRUCTION,
)
from leakbench.record import Message

ANY_CLASS = -1  # of an image whose label is not known
VANISHED = 1e-8  # norm of an update that holds nothing
# For `seconds`: of a step besides its operations, how many times the net's operations it makes,
# and how many of these two cores make in a second.
OVERHEAD, GRADIENTS, SPEED = 0.004, 9, 4e10
PROTOTYPE = "prototype"  # what methods call it among their private tensors


class GradientInversion(Attack):
    """Solves for the images behind an update of SGD, through the method's own loss.

    At the weights that the victim had received.
    The loss may read private inputs (a prototype). ``naive`` puts the victim's newest earlier
    message of the same name in their place, as FedHide's Table 2 does with the proxy; ``joint``
    solves for them together with the images, and a prototype found so is scored as one.

    The updates are the recorded probes or the real ones. A probe is what a client with one image
    would have sent, so it is a gradient where training is one step or one epoch. A real update may
    be of several steps: these are replayed one after another on the images sought (the objective
    for FedAvg of Geiping et al. and of Dimitrov et al. 2022, each step with images of its own); one
    of more than ``local_steps`` is left alone. Of a round with several trainings (FedAA) that of
    the fewest steps is attacked.

    All engines match the gradient's direction (a clipped update keeps it). ``auto``: what fits the
    net, see ``attacks._inversion.engines``. ``signed_adam``: with total variation and a box, many
    victims side by side. ``lbfgs``: no prior, for small smooth nets and single images.
    ``breaching``: the package of Geiping et al., as a cross-check, by the ``package`` that is
    chosen; naive only.

    ``prior`` = decoder: the attacker has images of its own, and learns from them the way back from
    the gradients of this very model, victim by victim; the searches start from what that makes of
    the victim's gradient (see ``attacks._inversion.priors``).
    """

    about: ClassVar[str] = "images from the gradient that an update is"
    paper: ClassVar[str] = "Zhu et al. 2019; Geiping et al. 2020; FedHide Table 2"
    metrics: ClassVar[tuple[Metric, ...]] = (
        *RECONSTRUCTION,
        INVERSION_PRECISION,
        LABEL_ACCURACY,
        P_LEAK,
        PROTOTYPE_COSINE,
    )
    variants: ClassVar[tuple[dict[str, Any], ...]] = (
        {"attacker": "naive"},
        {"attacker": "joint"},
        {"attacker": "joint", "labels": "inferred"},
    )

    attacker: Literal["naive", "joint"] = Field(
        "joint", description="private inputs of the loss: replaced by messages, or solved for"
    )
    engine: Literal["auto", "signed_adam", "lbfgs", "breaching"] = Field(
        "auto", description="the optimiser; auto: what fits the net, the best match kept"
    )
    package: Literal["invertinggradients", "modern", "analytic"] = Field(
        "modern",
        description=(
            "engine=breaching: which of its attacks; analytic: one image of a net whose first"
            " layer is linear, exact"
        ),
    )
    labels: Literal["given", "inferred", "solved"] = Field(
        "given",
        description=(
            "the true ones; those that the last layer's update gives away; or of the likeliest of"
            " these the ones whose images match best"
        ),
    )
    message: Literal["probe", "update"] = Field(
        "probe", description="single-image updates, or the real ones"
    )
    at: tuple[Literal["untrained", "early", "middle", "final"], ...] = Field(
        ("untrained", "final"), min_length=1, description="stages attacked"
    )
    targets: int = Field(
        8, ge=1, description="updates attacked in a stage, of as many clients as there are"
    )
    local_steps: int = Field(
        8, ge=1, description="message=update: the most local steps that are replayed (breaching: 1)"
    )
    steps: int = Field(300, ge=1, description="iterations of each search")
    restarts: int = Field(2, ge=1, description="starts; the one that matches best is kept")
    total_variation: float = Field(
        0.3,
        ge=0,
        description=(
            "weight of the total variation at first, of images of 32 pixels; it falls on the way"
            " (breaching: two thirds of it, or modern one third, which is the package's own, stay)"
        ),
    )
    prior: Literal["none", "decoder"] = Field(
        "none", description="what auxiliary images teach: nothing, or where to start"
    )
    side_by_side: int = Field(
        0, ge=0, description="searches at once; 0: as many as were measured to pay"
    )

    @property
    def threat(self) -> ThreatModel:
        kinds = (
            "update",
            "model",
            "prototype",
            "statistics",
            "features",
            "labels",
            "mean_data",
            "data",
            "generator",
            "identifier",
        )
        told: Literal["labels", "sizes"] = "labels" if self.labels == "given" else "sizes"
        rung: Literal["paper", "method"] = "paper" if self.attacker == "naive" else "method"
        threat = ThreatModel(kinds=kinds, knows=("method", "facts", told), rung=rung)
        if self.prior == "none":
            return threat
        return threat.model_copy(update={"knows": (*threat.knows, "aux_data"), "rung": "public"})

    @property
    def floor_threat(self) -> ThreatModel:
        knows = (*self.threat.knows, "aux_data")
        return self.threat.model_copy(update={"knows": tuple(dict.fromkeys(knows))})

    def obstacle(self, run: Outline) -> str:
        m, probe = run.method, self.message == "probe"
        why = super().obstacle(run)
        if why:
            return why
        if self.labels != "given" and (why := class_labels.obstacle(run)):
            return why
        fewest = _updates.fewest(run, probe=probe)
        if not fewest and probe:
            return "the update is not a single step, so it is no gradient"
        if m.optimizer != "sgd" and fewest != 1:
            return "of several steps of Adam an update does not tell the gradients"
        if not 0 < fewest <= self._most(m):
            took = "how many examples a local step had cannot be told"
            if fewest:
                took = f"every update is of {fewest} local steps or more"
            return f"{took}, and {self._most(m)} at most are replayed"
        if self.engine == "breaching" and self.attacker == "joint":
            return "breaching solves for images only: use attacker=naive"
        why = breaching.refusal(run, self, probe=probe) if self.engine == "breaching" else ""
        return why or (self._untaught(run) if self.prior == "decoder" else "")

    def _untaught(self, run: Outline) -> str:
        """Why there can be no decoder; empty where there can."""
        if self.engine in ("breaching", "lbfgs"):
            return f"{self.engine} starts at random: use prior=none, or engine=auto or signed_adam"
        if not run.holds("aux_data"):
            return "the run holds no auxiliary data to train a decoder on"
        if run.auxiliary < priors.LEAST:
            return f"{run.auxiliary} auxiliary examples are too few: a decoder needs {priors.LEAST}"
        return ""

    def _most(self, method: Defense) -> int:
        """The most local steps that are replayed."""
        return 1 if self.engine == "breaching" or method.optimizer != "sgd" else self.local_steps

    def stages(self) -> tuple[str, ...]:
        return self.at

    def conditions(self, run: Outline) -> dict[str, str]:
        labels = self.parameters().get("labels", "given")
        return conditions(run, self.threat, probe=self.message == "probe", labels=labels)

    def seconds(self, run: Outline) -> float:
        taken = _updates.fewest(run, probe=False) if self.message == "update" else 1
        images = run.method.batch * taken if self.message == "update" else 1
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            run.module()(torch.zeros(1, *run.facts.shape))
        once = taken * OVERHEAD + GRADIENTS * images * counter.get_total_flops() / SPEED
        searches = 5 if self.engine == "auto" else 1
        searches *= class_labels.TRIED if self.labels == "solved" else 1
        taught = 0.0
        if self.prior == "decoder":  # of simple gradients, a third of the operations each
            count = min(priors.COUNT, run.auxiliary)
            taught = len(priors.NEAR) * (count * once / 3 + priors.SOLVED)
        searched = 2 * self.restarts * searches * self.steps * once
        return len(self.at) * self.targets * (searched + taught)

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        sent = self._sent(view)
        made: dict[int, Guess] = {}
        victims: list[tuple[int, Victim]] = []  # an update has one for each label vector tried
        for i, b in enumerate(sent):
            norm = math.sqrt(
                sum(float(t.double().square().sum()) for t in b.message.payload.values())
            )
            if not math.isfinite(norm):
                made[i] = self._none(b.message, "the update is not finite", ())
            elif norm < VANISHED:
                made[i] = self._none(b.message, "the update is zero", ("gradient_vanished",))
            else:
                victims += [(i, victim) for victim in self._victims(view, b, rng)]
        whole = [victim for _, victim in victims]
        aux = view.know("aux_data") if self.prior == "decoder" else None
        if self.engine == "breaching":
            found = breaching.search(whole, self, rng)
        else:
            found = engines.search(whole, self, self.engine, rng, view.progress, aux=aux)
        nearest: dict[int, float] = {}
        for (i, victim), candidates in zip(victims, found, strict=True):
            near = min(c.mismatch for c in candidates)
            if near <= nearest.get(i, math.inf):
                nearest[i] = near
                made[i] = self._kept(view, victim, check.judge(victim, candidates, self))
        return [made[i] for i in range(len(sent))]

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        """The mean of the auxiliary images of each label; of all of them where none are given.

        That is the nearest a guesser comes who is told as much as the attacker and reads no update.
        Beside it, for what is matched, as many auxiliary images (``sample``), and for inferred
        labels the likeliest ones.
        """
        aux, out = view.know("aux_data"), []

        def of(y: int) -> Tensor:
            own = aux.x[aux.y == y]
            return own if len(own) else aux.x

        for b in self._sent(view):
            unknown = torch.full((b.examples,), ANY_CLASS)
            y = unknown if b.labels is None else b.labels
            of_label = {c: of(c) for c in set(y.tolist())}
            means = torch.stack([of_label[c].mean(0) for c in y.tolist()])
            some = {"sample": _some(of_label, y, rng)} if len(means) > 1 else {}
            some |= self._blind_prototype(view, b, rng)
            guessed = class_labels.blind(view, b, rng) if b.labels is None else None
            some |= {} if guessed is None else {"labels": guessed}
            out.append(self._guess(b.message, {"x": means, **some}))
        return out

    def _blind_prototype(
        self, view: View, b: _updates.Behind, rng: torch.Generator
    ) -> dict[str, Tensor]:
        """A random direction where the attack solves for a prototype; else nothing."""
        if self.attacker == "naive":
            return {}
        replay = Replay(view, b.message, rng, rows=b.rows, phase=b.loss)
        found = _prototype(replay.unknown)
        return {k: torch.randn(v.shape, generator=rng).to(v) for k, v in found.items()}

    def _sent(self, view: View) -> list[_updates.Behind]:
        """The updates of this round's shortest training.

        One of each client, then a second of each, up to ``targets``.
        """
        most = self._most(view.loss_method())
        found = _updates.shortest(view, probe=self.message == "probe", most=most)
        count: dict[str, int] = {}
        turns = []
        for b in found:
            sender = b.message.sender
            count[sender] = count.get(sender, 0) + 1
            turns.append(count[sender])
        order = sorted(range(len(found)), key=lambda i: (turns[i], i))
        return [found[i] for i in sorted(order[: self.targets])]

    def _guess(
        self,
        m: Message,
        tensors: dict[str, Tensor],
        *,
        accepted: bool = False,
        flags: tuple[str, ...] = (),
    ) -> Guess:
        about = {**tensors, "phase": torch.tensor(m.phase)}
        return Guess(m.sender, m.round, about, accepted, m.probe, flags=flags)

    def _victims(self, view: View, b: _updates.Behind, rng: torch.Generator) -> list[Victim]:
        seed = int(torch.randint(2**62, (), generator=rng))
        unknown = replayed(view, b, seed, torch.float32).unknown
        private = {k: self._stand_in(view, b.message, k, v) for k, v in unknown.items()}
        free = [k for k, v in private.items() if self.attacker == "joint" and v.is_floating_point()]
        tried = class_labels.behind(view, b, self, rng)
        return [Victim(view, b, y, private, free, seed) for y in tried]

    def _kept(self, view: View, victim: Victim, verdict: check.Kept) -> Guess:
        m, best = victim.behind.message, verdict.best
        if not bool(best.x.isfinite().all()):
            return self._none(m, "the search diverged", verdict.flags)
        solved = {k.replace("/", "."): v.to(view.dtype) for k, v in best.private.items()}
        named = _prototype({k: v.to(view.dtype) for k, v in best.private.items()})
        tensors = {"x": best.x.to(view.dtype), **solved, **named}
        tensors |= self._named(view, victim.labels)
        return self._guess(m, tensors, accepted=verdict.accepted, flags=verdict.flags)

    def _named(self, view: View, labels: Tensor) -> dict[str, Tensor]:
        """The labels that were used, if the attack found them itself, to be scored."""
        asked = self.labels != "given" and view.loss_method().outputs == "logits"
        return {"labels": labels} if asked else {}

    def _none(self, m: Message, why: str, flags: tuple[str, ...]) -> Guess:
        return Guess(m.sender, m.round, probe=m.probe, failed=why, flags=flags)

    def _stand_in(self, view: View, m: Message, name: str, guess: Tensor) -> Tensor:
        """The newest message of that name that the victim had sent *before* this loss.

        Where none was kept, the one of this round (one step later); else the guess.
        """
        kind = name.rpartition("/")[2]
        if kind not in view.threat.kinds:
            return guess
        said = [e for e in view.messages(kind, sender=m.sender) if e.round <= m.round]
        me = party(m.sender)
        sent = [t for t, sender, _ in view.traffic(kind).tolist() if sender == me and t < m.round]
        # One that is older still stands in for nothing newer.
        said.sort(key=lambda e: (e.round in sent[-1:], e.round))
        if not said or said[-1].payload.shape != guess.shape:
            return guess
        return said[-1].payload.to(guess)


def _prototype(private: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A client's own prototype among private inputs, "own/prototype" or wherever it keeps it."""
    kept = [v for k, v in private.items() if k.rpartition("/")[2] == PROTOTYPE]
    return {PROTOTYPE: kept[0]} if kept else {}


def _some(of_label: dict[int, Tensor], labels: Tensor, rng: torch.Generator) -> Tensor:
    """An example of each of ``labels``, (B, ...).

    Of one label another each time, as long as there are others.
    """
    turns = {}
    for y, have in sorted(of_label.items()):
        order = torch.randperm(len(have), generator=rng).tolist()
        turns[y] = cycle(order)
    return torch.stack([of_label[y][next(turns[y])] for y in labels.tolist()])
