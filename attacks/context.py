"""Context: do this client's data carry a marker that the attacker knows?

(FLea, KDD 2024, Section 4.4, Appendix D, Figure 9)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from attacks import _classifiers
from attacks._classifiers import Classifier
from attacks._shared_layer import layer
from leakbench.attacking import Attack, Guess, Metric, Outline, ThreatModel, View
from leakbench.base import MethodError, torch
from leakbench.data import paste
from leakbench.federation import InputRange, Net
from leakbench.metrics import CONTEXT_ACCURACY, SAMPLES_TO_90
from leakbench.record import Message

if TYPE_CHECKING:
    from torch import Tensor

SENT = ("data", "mean_data", "features")
GRID = (10, 30, 100, 300, 1000, 3000, 10_000, 30_000, 100_000)  # of the attacker's samples
SURE = 0.75  # share of its own samples kept back that a classifier must get right to believe itself
CHUNK = 500


class Context(Attack):
    """Trains a classifier on auxiliary data, clear and marked; then reads what clients share.

    The auxiliary data go the way of what is shared.
    ``features`` (FLea): through the last global model of the attacked round up to the method's
    ``layer``, in evaluation mode; only clients that sent in that round are attacked. ``mean_data``
    (FedMix): means of the method's ``size`` examples, all marked or all clear. ``data`` (FedData):
    as they are. What is sent once before training is attacked at the end alone.

    A sample is one example (or mean) that the attacker made; half of the samples are the marked
    copies of the other half. Tried are 10, 30, 100, 300, ... samples up to ``samples`` or twice the
    auxiliary examples, and that number itself; smaller sets are parts of the larger ones. For means
    the same numbers are tried, although random groups of auxiliary examples would allow for more: a
    mean is one sample, and its examples are used in others, too. With all auxiliary examples used,
    draws of the largest number differ in the order, the pairs kept back and the network's start
    alone. A guess is one draw: what each number of samples says about every row that each client
    sent.

    From the paper: the attacker knows the marker, and the accuracy against the number of samples.
    Differently: the marker is the clients', not the images' (see
    ``leakbench.data.marker.with_marker``), so accuracy is counted by client; samples are pairs of
    one example, which is stronger; beside four linear layers (``network`` = "linear", which
    together are one linear map) there is a stronger attacker ("relu": a matched filter, a ReLU
    network or the linear layers, whichever is best on samples that it kept back). A wrapper's noise
    or clipping is not imitated on the attacker's own samples.
    """

    about: ClassVar[str] = "whether a client's data carry a marker that the attacker knows"
    paper: ClassVar[str] = "FLea, KDD 2024, Section 4.4, Appendix D, Figure 9"
    metrics: ClassVar[tuple[Metric, ...]] = (CONTEXT_ACCURACY, SAMPLES_TO_90)
    handed: ClassVar[Literal["", "rows", "banks"]] = "rows"
    left_out: ClassVar[str] = "what they sent was made by another round's model, or is empty"
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({"network": "relu"}, {"network": "linear"})

    network: Literal["linear", "relu"] = Field(
        "relu", description="four linear layers, as the paper; or the best of a few"
    )
    samples: int = Field(
        3000, ge=10, description="most samples that the attacker makes, half of them marked"
    )
    draws: int = Field(10, ge=2, description="draws of the attacker's samples")
    at: tuple[Literal["untrained", "early", "middle", "final"], ...] = Field(
        ("untrained", "final"),
        min_length=1,
        description="stages attacked, where features are sent anew in every round",
    )

    @property
    def threat(self) -> ThreatModel:
        return ThreatModel(
            kinds=(*SENT, "model"),
            rounds="audited",
            knows=("aux_data", "method", "facts"),
            rung="public",
        )

    def obstacle(self, run: Outline) -> str:
        kinds = self._sent(run)
        if not kinds:
            return f"clients send the server no {', '.join(SENT[:-1])} or {SENT[-1]}"
        if not run.facts.context:
            return (
                "its task plants no context marker to look for: train with -s"
                " task.context=square (of sensors: bump, of sound: whistle)"
            )
        if run.observers and (why := super().obstacle(run)):
            return why
        field = {"features": "layer", "mean_data": "size"}.get(kinds[0], "")
        if field and not hasattr(run.method, field):
            return f"the method has no field `{field}`, so how its {kinds[0]} are made is not known"
        return ""

    def attacks(self, run: Outline) -> tuple[str, ...]:
        return self._sent(run)[:1]

    def stages_of(self, run: Outline) -> tuple[str, ...]:
        """Features change with the model; what was sent once stays the same."""
        once = all(s["rounds"] == 1 for s in self._told(run))
        return ("final",) if once else self.at

    def covers(self, guess: Guess) -> set[str]:
        if guess.failed:
            return set()
        return {f"client/{i}" for i in guess.tensors["client"].tolist()}

    def seconds(self, run: Outline) -> float:
        size = max((s["bytes"] // s["messages"] for s in self._told(run)), default=0)
        once = 2.0 + size / 1e5 * self.samples / 2000
        return len(self.stages_of(run)) * self.draws * once

    def _told(self, run: Outline) -> list[Mapping[str, Any]]:
        """What is told of the messages that are attacked."""
        kinds = self.attacks(run)
        return [s for s in run.sent if s["kind"] in kinds and s["sender"] == "client"]

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        victims = self._victims(view)
        if not victims:
            return []
        seeds = torch.randint(2**62, (self.draws,), generator=rng).tolist()
        way = Way.of(view, victims[0])
        return [
            self._draw(view, way, victims, k, torch.Generator().manual_seed(s))
            for k, s in enumerate(seeds)
        ]

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        """Coin flips on the same rows."""
        victims, sizes = self._victims(view), self._sizes(view)
        if not victims:
            return []
        rows = sum(len(m.payload) for m in victims)

        def flips(*shape: int) -> Tensor:
            return 2.0 * torch.randint(2, shape, generator=rng) - 1

        return [
            self._guess(view, k, victims, sizes, flips(len(sizes), rows), flips(rows))
            for k in range(self.draws)
        ]

    def _sent(self, run: Outline) -> tuple[str, ...]:
        """What clients send the server that can be attacked, the barest first."""
        passed = {(s["kind"], s["sender"], s["receiver"]) for s in run.sent}
        return tuple(k for k in SENT if (k, "client", "server") in passed)

    def _victims(self, view: View) -> list[Message]:
        """Each client's newest message with rows in it; features of the attacked round alone."""
        for kind in SENT:
            only = view.round if kind == "features" else None
            passed = view.messages(kind, round=only)
            newest = {m.sender: m for m in view.of_others(passed)}
            if newest:
                return [m for m in newest.values() if len(m.payload)]
        return []

    def _sizes(self, view: View) -> list[int]:
        most = max(GRID[0], min(self.samples, 2 * len(view.know("aux_data"))) // 2 * 2)
        return [*(n for n in GRID if n < most), most]

    def _draw(
        self, view: View, way: Way, victims: list[Message], k: int, rng: torch.Generator
    ) -> Guess:
        sizes = self._sizes(view)
        if why := way.obstacle(len(view.know("aux_data"))):
            return Guess(f"draw/{k}", view.round, failed=why)
        x = torch.cat([m.payload for m in victims]).flatten(1).float()
        aux = view.know("aux_data").x
        facts = view.facts
        clear, marked = way.samples(aux, sizes[-1] // 2, facts.context, rng, facts.input_range)
        if not all(bool(t.isfinite().all()) for t in (x, clear, marked)):
            why = "what was sent, or what the attacker made like it, is not finite"
            return Guess(f"draw/{k}", view.round, failed=why)

        def trained(n: int, *, shuffled: bool = False) -> Classifier:
            return _classifiers.fit(
                clear[: n // 2], marked[: n // 2], self.network, rng, shuffled=shuffled
            )

        found = [trained(n) for n in sizes]
        scores = torch.stack([c.score(x) for c in found])
        shuffled = trained(sizes[-1], shuffled=True).score(x)
        sure = found[-1].right >= SURE
        return self._guess(view, k, victims, sizes, scores, shuffled, accepted=sure)

    def _guess(
        self,
        view: View,
        k: int,
        victims: list[Message],
        sizes: list[int],
        score: Tensor,
        shuffled: Tensor,
        *,
        accepted: bool = False,
    ) -> Guess:
        """A guess of one draw; a score above 0 says marked.

        Tensors: sizes (G,) numbers of samples, client (rows,), score (G, rows), shuffled (rows,).
        """
        client: list[int] = []
        for m in victims:
            client += [int(m.sender.split("/")[1])] * len(m.payload)
        tensors = {
            "sizes": torch.tensor(sizes),
            "client": torch.tensor(client),
            "score": score.cpu(),
            "shuffled": shuffled.cpu(),
        }
        return Guess(f"draw/{k}", view.round, tensors, accepted)


@dataclass(frozen=True)
class Way:
    """What became of a client's examples before they were sent, done to the attacker's."""

    size: int  # examples in a mean, 1 where there are none
    # From examples to what is sent; None: no model to pass them through.
    net: Callable[[Tensor], Tensor] | None

    @classmethod
    def of(cls, view: View, message: Message) -> Way:
        """As the method's public parameters say (in the control: those of its undefended self)."""
        if message.kind == "mean_data":
            return cls(int(view.method.size), lambda x: x)  # type: ignore[attr-defined]
        if message.kind != "features":
            return cls(1, lambda x: x)
        stage = layer(view.method, view.module)
        if stage == "input":
            return cls(1, lambda x: x)
        broadcast = view.messages("model", sender="server", to=message.sender, round=message.round)
        models = [m for m in broadcast if m.phase < message.phase]
        if not models:
            return cls(1, None)
        return cls(1, partial(Net(view.module, models[-1].payload), stop=stage))

    def obstacle(self, available: int) -> str:
        """Why the attacker cannot make samples of ``available`` auxiliary examples.

        Empty where it can.
        """
        if self.net is None:
            return "the model that made the features was not recorded in their round"
        if available < max(5, self.size):
            return (
                f"{available} auxiliary examples are too few: 5 are needed, and {self.size} for a"
                " mean"
            )
        return ""

    def samples(
        self, x: Tensor, count: int, kind: str, rng: torch.Generator, lies: InputRange
    ) -> tuple[Tensor, Tensor]:
        """Clear and marked, (count, d) float32 each.

        Row by row of the same examples of ``x`` (n, ...), inputs that lie in ``lies``.
        """

        def order() -> Tensor:
            return torch.randperm(len(x), generator=rng)

        if self.size == 1:
            groups = order()[:count, None]
        else:
            groups = torch.stack([order()[: self.size] for _ in range(count)])
        parts = [x[g] for g in torch.split(groups.to(x.device), max(1, CHUNK // self.size))]
        clear = torch.cat([self._passed(p) for p in parts])
        marked = [self._passed(lies.native(paste(lies.unit(p), kind))) for p in parts]
        return clear, torch.cat(marked)

    def _passed(self, x: Tensor) -> Tensor:
        """(groups, size, ...) -> (groups, d)."""
        if self.net is None:
            raise MethodError("no model to pass samples through.")
        with torch.no_grad():
            return self.net(x.mean(1)).flatten(1).float()
