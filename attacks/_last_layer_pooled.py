"""The last layer's step of each client, from covered messages of many rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from attacks import _last_layer
from attacks._disaggregation import apart, heard, rounds_read, sent, weights_of
from attacks._last_layer import LayerStep
from leakbench.attacking import Outline, View
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class MeanStep:
    """What a client's step of the last layer is on average."""

    step: LayerStep  # as if it had been one update, that started where on average they all did
    along: Tensor  # (dim,), on the processor: of all steps along the layer's usual inputs

    @property
    def moved(self) -> Tensor:
        """(dim, n), on the processor."""
        return self.step.moved.cpu()


def seconds(run: Outline) -> float:
    """Predicted time to find all means, the control's too."""
    size = sum(p.numel() for p in run.module().parameters())
    return 2 * rounds_read(run) * 0.015 * max(size / 50_000, 1)


def covered(view: View) -> list[tuple[LayerStep, Mapping[int, float]]]:
    """The step in each update and sum of which the model was kept, and each client's weight in it.

    Oldest first.
    """
    known = sorted(sent(view), key=lambda one: one[0].round)
    out: list[tuple[LayerStep, Mapping[int, float]]] = []
    place: tuple[int, str] | None = None
    at = None
    models = view.messages("model", sender="server", last_layer=True)
    unlike = {m.round for m in models if m.receiver != "client/*"}  # an active server's rounds
    for done, (m, parts) in enumerate(known):
        view.progress(done / len(known))
        here = m.round, m.sender if m.round in unlike else ""
        if here != place:  # all of a round started at one model, unless the server saw to it
            place, at = here, _last_layer.start(view, m)
        step = None if at is None else _last_layer.step_from(view, at, m)
        if step is not None and bool(step.moved.isfinite().all()):
            out.append((step, parts))
    return out


def means(view: View) -> dict[str, MeanStep]:
    """{"client/3": its mean step}, of every client that any message is of."""
    known, who = covered(view), heard(view)
    if not known:
        return {}
    steps = [step for step, _ in known]
    weights = weights_of([parts for _, parts in known], who)
    whole = torch.stack([s.moved.flatten() for s in steps]).cpu()
    along = torch.stack([s.moved @ (s.usual / s.usual.norm()) for s in steps]).cpu()
    taken, towards = apart(weights, whole), apart(weights, along) @ along
    out = {}
    for i, client in enumerate(who):
        rows = weights[:, i].nonzero().flatten().tolist()
        if rows:
            own = (taken[i] * weights[:, i]).clamp(min=0)
            mean = _mean(steps, own / own.sum().clamp(min=1e-300), taken[i] @ whole)
            told = replace(steps[rows[-1]].message, sender=f"client/{client}")
            out[told.sender] = MeanStep(replace(mean, message=told), towards[i])
    return out


def _mean(steps: list[LayerStep], own: Tensor, moved: Tensor) -> LayerStep:
    """``own`` (T,), of sum 1: how much of each step is a client's, who ``moved`` the layer so."""
    first, rate = steps[0], 0.0
    start, usual = torch.zeros_like(first.start), torch.zeros_like(first.usual)
    for share, one in zip(own.tolist(), steps, strict=True):
        if share:
            start, usual = start + share * one.start, usual + share * one.usual
            rate += share * one.rate
    clipped = any(one.clipped for one in steps)
    moved = moved.view_as(start).to(start)
    return replace(first, start=start, moved=moved, rate=rate, usual=usual, clipped=clipped)
