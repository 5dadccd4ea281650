"""Two ways to match a gradient: SciPy's L-BFGS for small smooth nets, and `breaching`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from attacks._lbfgs import Solution, minimise
from leakbench.attacking import Replay
from leakbench.base import MethodError
from leakbench.federation import Batch

MEMORY = 100  # pairs; as many as there are unknowns, or joint recovery stalls
EXACT = 1e-11  # float32 updates hold no more
MATCHED = 1e-4  # 1 - cosine of the gradients; below, the attacker believes its image


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
    mismatch: float = math.inf


def lbfgs(
    replay: Replay,
    labels: Tensor,
    private: Mapping[str, Tensor],
    free: Sequence[str],
    how: MatchingSettings,
    rng: torch.Generator,
) -> Found:
    """Minimise 1 - cos(g*, g(x)) over images and ``free`` inputs.

    As half the squared distance of the unit vectors. Matching the direction alone gives away one
    equation of thousands, makes clipping harmless to the attacker, and on nets with a prototype
    loss converges where matching values stalls (8 of 8 probes of a trained net against 6). Starts
    are tried until one matches; if none does, the nearest is kept.
    """
    target = {k: v for k, v in replay.observed().items() if bool(v.any())}
    size = _norm(target)
    target = {k: v / size for k, v in target.items()}
    shape = (len(labels), *replay.facts.shape)
    pixels = math.prod(shape)

    def unpack(v: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        x, *rest = torch.split(v, [pixels, *(private[k].numel() for k in free)])
        solved = {k: r.view_as(private[k]) for k, r in zip(free, rest, strict=True)}
        return x.view(shape), {**private, **solved}

    def mismatch(v: Tensor) -> Tensor:
        x, inputs = unpack(v)
        g = replay.compared(replay.gradient(Batch(x, labels), inputs))
        norm = _norm({k: g[k] for k in target}).clamp(min=1e-150)
        squares = [(t - g[k] / norm).square().sum() for k, t in target.items()]
        return 0.5 * torch.stack(squares).sum()

    tried: list[Solution] = []
    limits: dict[str, Any] = {"steps": how.steps, "memory": MEMORY, "enough": EXACT}
    for _ in range(how.restarts):
        x = torch.rand(pixels, generator=rng, dtype=torch.float64)
        sizes = [private[k].numel() for k in free]
        guesses = [torch.randn(n, generator=rng, dtype=torch.float64) for n in sizes]
        start = torch.cat([x, *guesses]).to(replay.device)
        tried.append(minimise(mismatch, start, **limits))
        if tried[-1].value < MATCHED:
            break
    best = min(tried, key=lambda s: s.value)
    x, inputs = unpack(best.x)
    flags = ["loss_did_not_fall"] if best.value > 0.5 else []
    rivals = [unpack(s.x)[0] for s in tried if s is not best and s.value < 1.1 * best.value + 1e-12]
    if any(float((r.clamp(0, 1) - x.clamp(0, 1)).square().mean()) > 0.01 for r in rivals):
        flags.append("restarts_disagree")
    solved = {k: inputs[k].detach() for k in free}
    return Found(x.detach(), solved, best.value < MATCHED, tuple(flags), best.value)


def _norm(tensors: Mapping[str, Tensor]) -> Tensor:
    """Euclidean norm of all of them together, ()."""
    return torch.stack([t.square().sum() for t in tensors.values()]).sum().sqrt()


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
