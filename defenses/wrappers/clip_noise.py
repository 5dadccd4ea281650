"""Clip and add Gaussian noise on the client (McMahan et al. 2018, Algorithm 1, but locally)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from leakbench import Client, Gaussian, Tree, Wrapper
from leakbench.base import flat, unflat


class ClipNoise(Wrapper):
    """L2 norm of the whole message at most ``clip``, then N(0, (noise clip)^2) on every entry."""

    masks: ClassVar[bool | None] = False
    paper: ClassVar[str] = "McMahan et al., ICLR 2018, Algorithm 1"

    clip: float = Field(1.0, gt=0, description="bound on the L2 norm of a message")
    noise: float = Field(0.1, ge=0, description="standard deviation of the noise over clip")

    def uplink(self, payload: Tree, me: Client) -> Tree:
        leaves = flat(payload)
        norm = sum(t.square().sum() for t in leaves.values()) ** 0.5
        scale = (self.clip / norm.clamp(min=1e-12)).clamp(max=1.0)
        sigma = self.noise * self.clip
        noisy = {k: t * scale + sigma * me.rng.normal(k, *t.shape) for k, t in leaves.items()}
        return unflat(noisy)

    def mechanism(self) -> Gaussian:
        return Gaussian(self.clip, self.noise * self.clip)
