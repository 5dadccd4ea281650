"""Gradient inversion: the images whose gradient is the one that a client's update is.

Zhu et al. 2019; Geiping et al. 2020.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from attacks import _updates
from attacks._input_prior import InputPrior
from attacks._inversion import blindly, breaching, check, cost, engines, likelihood, priors
from attacks._inversion import labels as class_labels
from attacks._inversion.conditions import conditions
from attacks._inversion.victims import Candidate, Victim, prototype, replayed, stand_in, started
from leakbench.attacking import Attack, Guess, Metric, Outline, ThreatModel, View, covered
from leakbench.base import MethodError, UsageError, torch
from leakbench.federation import Defense
from leakbench.metrics import (
    INVERSION_PRECISION,
    LABEL_ACCURACY,
    P_LEAK,
    PROTOTYPE_COSINE,
    RECONSTRUCTION,
)
from leakbench.record import Message

if TYPE_CHECKING:
    from torch import Tensor

# Updates of the same examples that are matched at once, at most: of exact ones a few say all.
EXACT, COVERED = 12, 64
FEWEST = 50  # steps of a search that is shortened
VANISHED = 1e-8  # norm of an update that holds nothing


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

    ``source`` = pooled: a client that takes all its examples in every step makes each round's
    update of the same images, and these are sought that match all kept ones at once, each at the
    model of its round; of steps of Adam by their signs. For losses that read nothing private that
    is solved for.
    """

    about: ClassVar[str] = "images from the gradient that an update is"
    paper: ClassVar[str] = "Zhu et al. 2019; Geiping et al. 2020; FedHide Table 2"
    searches: ClassVar[bool] = True
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
        {"attacker": "joint", "prior": "principal"},
        {"attacker": "joint", "source": "pooled"},
        {"attacker": "joint", "prior": "principal", "source": "pooled"},
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
        "probe",
        description=(
            "single-image updates, or the real ones; where no probe was kept and neither is asked"
            " for, the real ones"
        ),
    )
    source: Literal["single", "pooled"] = Field(
        "single",
        description=(
            "what is matched: an update alone, or with it those that its sender made of the same"
            " examples in earlier rounds"
        ),
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
            " (of batches on smooth nets to a tenth; breaching: two thirds of it, or modern one"
            " third, which is the package's own, stay)"
        ),
    )
    prior: Literal["none", "decoder", "principal"] = Field(
        "none",
        description=(
            "what auxiliary images teach: nothing; where to start; or, of updates that a wrapper"
            " covers, which images are likely, so that its noise is not matched"
        ),
    )
    side_by_side: int = Field(
        0, ge=0, description="searches at once; 0: as many as were measured to pay"
    )

    @property
    def together(self) -> int:
        """How many updates of the same examples are matched at once, at most."""
        return COVERED if self.prior == "principal" else EXACT

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

    def falls_to(self, run: Outline) -> dict[str, Any]:
        """The real updates, where no probe was kept: BatchNorm has none, nor has a transcript.

        And where those of several rounds are matched, whose probes are of other images.
        """
        chosen = "message" in self.model_fields_set
        real = self.source == "pooled" or not run.probes
        return {"message": "update"} if real and not chosen else {}

    def nothing_kept(self, run: Outline) -> str:
        if self.message == "update" or run.probes:
            return super().nothing_kept(run)
        return (
            "no probe was kept (what a client with one image would have sent; with BatchNorm there"
            f" is no such update){self._use(run, message='update')}"
        )

    def obstacle(self, run: Outline) -> str:
        m, probe = run.method, self.message == "probe"
        why = super().obstacle(run)
        if why:
            return why
        if run.facts.targets == "tokens":
            return "the network says captions, and this solves for inputs whose class is asked for"
        if self.labels != "given" and (why := class_labels.obstacle(run)):
            return why
        if (layer := run.thrower()) is not None:
            what = f"its layer {layer!r}" if layer else "the network"
            return (
                f"{what} throws dice in training (dropout, say), and how they fell at a client no"
                " message tells: a search with other dice finds nothing, which acquits nobody"
            )
        if why := run.unreached():
            return why
        if probe and m.tells and covered(run.sent, "update"):
            return (
                f"a probe is covered like an update, and the {m.tells} that would be sent beside it"
                f" in clear is not recorded{self._use(run, message='update')}"
            )
        fewest = _updates.fewest(run, probe=probe)
        if not fewest and probe:
            return "the update is not a single step, so it is no gradient"
        if m.optimizer == "adam_each_step" and fewest != 1:
            return "of several steps that are signs an update does not tell the gradients"
        if not 0 < fewest <= self._most(m):
            took = "how many examples a local step had cannot be told"
            if fewest:
                took = f"every update is of {fewest} local steps or more"
            return f"{took}, and {self._most(m)} at most are replayed"
        if self.engine == "breaching" and self.attacker == "joint":
            return f"breaching solves for images only{self._use(run, attacker='naive')}"
        why = breaching.refusal(run, self, probe=probe) if self.engine == "breaching" else ""
        why = why or (self._unpooled(run) if self.source == "pooled" else "")
        return why or ("" if self.prior == "none" else self._untaught(run))

    def _unpooled(self, run: Outline) -> str:
        """Why no other update is of the same images; empty where some may be."""
        if self.message == "probe":
            return f"each round's probe is of another image{self._use(run, message='update')}"
        if self.engine == "breaching":
            return f"breaching reads one update alone{self._use(run, source='single')}"
        if len(_updates.repeated(run, self.local_steps)) < 2:
            return (
                "no two kept updates are known to be of the same images: they are, of a client that"
                " has less than a batch, or trains by epochs of one step"
            )
        return ""

    def _untaught(self, run: Outline) -> str:
        """Why there can be no decoder; empty where there can."""
        if self.prior == "principal" and not covered(run.sent, "update"):
            return "no wrapper covers updates: what is sent exactly prior=none finds exactly"
        if self.engine in ("breaching", "lbfgs"):
            return f"{self.engine} starts at random{self._use(run, prior='none')}"
        if not run.holds("aux_data"):
            return "the run holds no auxiliary data to train a decoder on"
        if run.auxiliary < priors.LEAST:
            return f"{run.auxiliary} auxiliary examples are too few: a decoder needs {priors.LEAST}"
        return ""

    def _use(self, run: Outline, **other: str) -> str:
        """As in ": use prior=none", where this would fit with it; else empty."""
        how = type(self).build({**self.parameters(), **other}, "attack gradient_inversion")
        told = ", ".join(f"{k}={v}" for k, v in other.items())
        with suppress(UsageError):  # it asks for what was not given
            return "" if how.obstacle(run) else f": use {told}"
        return ""

    def _most(self, method: Defense) -> int:
        """The most local steps that are replayed."""
        signs = method.optimizer == "adam_each_step"
        return 1 if self.engine == "breaching" or signs else self.local_steps

    def stages(self) -> tuple[str, ...]:
        return self.at

    def conditions(self, run: Outline) -> dict[str, str]:
        labels = self.parameters().get("labels", "given")
        return conditions(run, self.threat, probe=self.message == "probe", labels=labels)

    def seconds(self, run: Outline) -> float:
        return len(self.at) * self.targets * cost.seconds(run, self)

    def within(self, run: Outline, seconds: float) -> dict[str, Any]:
        """Fewer updates, two at least, then at the last stage alone, then from one start.

        And of that no more steps than fit, ``FEWEST`` at least.
        """
        few = self.model_copy(update={"targets": 2})
        fit = int(seconds / cost.seconds(run, few))
        if fit >= 2 * len(self.at):
            return {"targets": min(fit // len(self.at), self.targets)}
        if fit >= 2:
            return {"targets": fit, "at": [self.at[-1]]}
        once = few.model_copy(update={"restarts": 1})
        steps = min(int(self.steps * seconds / (2 * cost.seconds(run, once))), self.steps)
        if steps < FEWEST:
            return {}
        return {"targets": 2, "at": [self.at[-1]], "restarts": 1, "steps": steps}

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
            elif not replayed(view, b, 0, torch.float32).finite:
                made[i] = self._none(b.message, "what its sender had received is not finite", ())
            elif own := self._victims(view, b, rng):
                victims += [(i, victim) for victim in own]
            else:
                made[i] = self._none(b.message, "nothing was sent that tells its labels", ())
        whole = [victim for _, victim in victims]
        found = self._searched(view, whole, rng)
        nearest: dict[int, float] = {}
        for (i, victim), candidates in zip(victims, found, strict=True):
            near = min(check.objective(victim, c, self) for c in candidates)
            if near <= nearest.get(i, math.inf):
                nearest[i] = near
                if self._likely(victim):
                    kept = likelihood.judge(victim, candidates)
                else:
                    kept = check.judge(victim, candidates, self)
                made[i] = self._kept(view, victim, kept)
        return [made[i] for i in range(len(sent))]

    def _likely(self, victim: Victim) -> bool:
        """Is the likeliest image sought? A step of Adam that nothing blurred is exact: no noise."""
        return self.prior == "principal" and not victim.tells_signs

    def _searched(
        self, view: View, victims: Sequence[Victim], rng: torch.Generator
    ) -> list[list[Candidate]]:
        """Each victim's candidates."""
        if self.engine == "breaching":
            return breaching.search(victims, self, rng, view.progress)
        aux = None if self.prior == "none" else view.know("aux_data")
        found: dict[int, list[Candidate]] = {}
        some = [i for i, v in enumerate(victims) if self._likely(v)]
        if aux is not None and some:
            prior = InputPrior(aux, view.facts.input_range)
            which = [victims[i] for i in some]
            searched = likelihood.searched(which, prior, self, rng, view.progress)
            found |= dict(zip(some, searched, strict=True))
        left = [i for i in range(len(victims)) if i not in found]
        which, aux = [victims[i] for i in left], aux if self.prior == "decoder" else None
        if left:
            matched = engines.search(which, self, self.engine, rng, view.progress, aux=aux)
            found |= dict(zip(left, matched, strict=True))
        return [found[i] for i in range(len(victims))]

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        """The mean of the auxiliary images of each label; of all of them where none are given.

        That is the nearest a guesser comes who is told as much as the attacker and reads no update.
        Beside it, for what is matched, as many auxiliary images (``sample``), and for inferred
        labels the likeliest ones.
        """
        joint = self.attacker == "joint"
        return [
            self._guess(b.message, blindly.guess(view, b, rng, joint=joint))
            for b in self._sent(view)
        ]

    def _sent(self, view: View) -> list[_updates.Behind]:
        """The updates of this round's shortest training.

        One of each client, then a second of each, up to ``targets``.
        """
        most = self._most(view.loss_method())
        found = _updates.shortest(view, probe=self.message == "probe", most=most)
        return _updates.in_turns(found, self.targets)

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
        """One for each label vector that is tried.

        Raises:
            MethodError: the loss throws dice that no message tells.
        """
        seed = int(torch.randint(2**62, (), generator=rng))
        replay, out = replayed(view, b, seed, torch.float32), []
        if replay.throws:
            raise MethodError(
                "the method's loss throws torch's own dice, and how they fell no message tells:"
                " draw from me.rng."
            )
        for y in class_labels.behind(view, b, self, rng):
            unknown = started(replay, y)
            private = {k: stand_in(view, b.message, k, v) for k, v in unknown.items()}
            joint = self.attacker == "joint"
            free = [k for k, v in private.items() if joint and v.is_floating_point()]
            alike = [] if free or self.source == "single" else self._alike(view, b, y, seed)
            out.append(Victim(view, b, y, private, free, seed, alike))
        return out

    def _alike(self, view: View, b: _updates.Behind, y: Tensor, seed: int) -> list[Victim]:
        """The same client in earlier rounds, with the same examples."""
        out = []
        for o in _updates.before(view, b, self._most(view.loss_method()), self.together):
            replay = replayed(view, o, seed, torch.float32)
            if not replay.finite:
                continue
            unknown = started(replay, y)
            private = {k: stand_in(view, o.message, k, v) for k, v in unknown.items()}
            out.append(Victim(view, o, y, private, (), seed))
        return out

    def _kept(self, view: View, victim: Victim, verdict: check.Kept) -> Guess:
        m, best = victim.behind.message, verdict.best
        if not bool(best.x.isfinite().all()):
            return self._none(m, "the search diverged", verdict.flags)
        solved = {k.replace("/", "."): v.to(view.dtype) for k, v in best.private.items()}
        named = prototype({k: v.to(view.dtype) for k, v in best.private.items()})
        x = view.facts.input_range.native(best.x)
        tensors = {"x": x.to(view.dtype), **solved, **named}
        tensors |= self._named(view, victim.labels)
        return self._guess(m, tensors, accepted=verdict.accepted, flags=verdict.flags)

    def _named(self, view: View, labels: Tensor) -> dict[str, Tensor]:
        """The labels that were used, if the attack found them itself, to be scored."""
        asked = self.labels != "given" and view.loss_method().outputs == "logits"
        return {"labels": labels} if asked else {}

    def _none(self, m: Message, why: str, flags: tuple[str, ...]) -> Guess:
        return Guess(m.sender, m.round, probe=m.probe, failed=why, flags=flags)
