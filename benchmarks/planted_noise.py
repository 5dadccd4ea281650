"""A wrapper that lies: it declares noise, and adds a part of it. For tests of the audit alone."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from leakbench import Client, Gaussian, Tree, Wrapper
from leakbench.base import flat, unflat


class PlantedNoise(Wrapper):
    """Clip and noise as ``clip_noise`` does, with ``added`` of the noise that it declares."""

    masks: ClassVar[bool | None] = False
    paper: ClassVar[str] = "ours"

    clip: float = Field(1.0, gt=0, description="bound on the L2 norm of a message")
    noise: float = Field(0.1, ge=0, description="declared standard deviation over clip")
    added: float = Field(0.5, ge=0, le=1, description="share of it that is added")

    def uplink(self, payload: Tree, me: Client) -> Tree:
        leaves = flat(payload)
        norm = sum(t.square().sum() for t in leaves.values()) ** 0.5
        scale = (self.clip / norm.clamp(min=1e-12)).clamp(max=1.0)
        sigma = self.added * self.noise * self.clip
        return unflat(
            {k: t * scale + sigma * me.rng.normal(k, *t.shape) for k, t in leaves.items()}
        )

    def mechanism(self) -> Gaussian:
        return Gaussian(self.clip, self.noise * self.clip)
