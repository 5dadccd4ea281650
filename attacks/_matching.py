"""A gradient matched by the package `breaching`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from leakbench.attacking import Replay
from leakbench.base import MethodError
from leakbench.federation import Batch


class MatchingSettings(Protocol):
    """What of the attack's fields is read here."""

    @property
    def steps(self) -> int: ...
    @property
    def restarts(self) -> int: ...
    @property
    def total_variation(self) -> float: ...


@dataclass(frozen=True)
class Found:
    """What a gradient was matched by."""

    x: Tensor  # (B, ...)
    private: dict[str, Tensor] = field(default_factory=dict)  # the private inputs solved for
    accepted: bool = False  # does the attacker believe it?
    flags: tuple[str, ...] = ()
    mismatch: float = math.inf  # the package's own objective


class _Given:
    """A net whose output is there already: breaching runs the network itself."""

    def __init__(self, output: Tensor) -> None:
        self.output = output

    def __call__(self, x: Tensor, **_: Any) -> Tensor:
        return self.output

    def __getattr__(self, name: str) -> Any:
        raise MethodError(
            f"the method's loss reads net.{name}, and breaching sees the network's output alone;"
            " use engine=lbfgs."
        )


class _Loss:
    """The method's loss of an output and labels, as breaching wants it."""

    def __init__(self, replay: Replay, private: Mapping[str, Tensor]) -> None:
        self.replay, self.private = replay, dict(private)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Loss:
        return self

    def __call__(self, output: Tensor, labels: Tensor) -> Tensor:
        return self.replay.loss_of(_Given(output), Batch(self.replay.blank.x, labels), self.private)


def breached(
    replay: Replay,
    labels: Tensor,
    private: Mapping[str, Tensor],
    how: MatchingSettings,
    rng: torch.Generator,
) -> Found:
    """The package's attack of Geiping et al. on the gradient; ``private`` is taken as it is."""
    from attacks._breaching import invert

    module = replay.module
    module.load_state_dict(replay.inbox["model"], strict=False)
    shape, loss = (len(labels), *replay.facts.shape), _Loss(replay, private)
    limits: dict[str, Any] = {"steps": how.steps, "restarts": how.restarts}
    limits["total_variation"] = how.total_variation
    out = invert(module, replay.observed(), loss, shape, labels, generator=rng, **limits)
    finite = math.isfinite(out.loss)
    flags = () if finite else ("loss_did_not_fall",)
    return Found(out.image.double(), {}, finite and out.loss < 0.05, flags, out.loss)
