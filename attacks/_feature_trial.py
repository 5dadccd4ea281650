"""What a search for inputs is worth: tried on the attacker's own examples, never on the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from attacks._decoders import TrainedDecoder, beats
from attacks._feature_messages import Extractor
from attacks._feature_search import Reached, search
from leakbench.base import torch
from leakbench.federation import Examples

if TYPE_CHECKING:
    from torch import Tensor

TRIED = 32  # held-out examples on which the search is tried, at most
CHUNK = 64  # searches side by side


@dataclass(frozen=True)
class Noise:
    """Gaussian noise on features."""

    share: float  # its square, of the variance of features; 0: none
    rng: torch.Generator


@dataclass(frozen=True)
class Trial:
    """The search on held-out auxiliary examples."""

    steps: int  # after which these are told best; 0: the decoder's guess is not improved
    curve: Tensor  # (steps + 1, 2) error, and median unexplained share, after every step
    errors: Tensor  # (2,) error after ``steps``, and of the class mean
    accepted: bool  # it beats the class mean by a twentieth, and not by chance
    spread: float  # squared distance of an example's features from the mean features

    @property
    def unexplained(self) -> float:
        """Share of the features' variance that the search leaves of an example, the median."""
        return float(self.curve[-1, 1])


def tried(
    extract: Extractor, decoder: TrainedDecoder, aux: Examples, y: Tensor, steps: int, noise: Noise
) -> Trial:
    """The whole procedure on examples that the decoder was not trained on.

    Args:
        extract: the model that makes features.
        decoder: whose guess is the start.
        aux: the attacker's examples, on [0, 1] where inputs have bounds.
        y: (n,) int64, their classes as the decoder has them.
        steps: most steps of the search.
        noise: what is added to the features, as if on the way.
    """
    rows = decoder.held[:TRIED]
    x, y = aux.x[rows], y[rows]
    features = extract.of(x)
    spread = float((features - features.mean(0)).square().flatten(1).sum(1).mean())
    spread = max(spread, 1e-30)
    if noise.share > 0:
        size = (noise.share * spread / features[0].numel()) ** 0.5
        features = features + size * torch.randn(features.shape, generator=noise.rng).to(features)
    error, left = [], []
    for reached in searched(extract, decoder, features, y, steps):
        error.append((reached.x - x).square().flatten(1).mean(1))
        left.append((reached.off / spread).median())
    means = torch.stack([e.mean() for e in error])
    best = int(means.argmin())
    blind = (decoder.means[y].to(x) - x).square().flatten(1).mean(1)
    return Trial(
        steps=best,
        curve=torch.stack([means, torch.stack(left)], 1).float().cpu(),
        errors=torch.stack([means[best], blind.mean()]).float().cpu(),
        accepted=beats(error[best], blind),
        spread=spread,
    )


def searched(
    extract: Extractor, decoder: TrainedDecoder, features: Tensor, y: Tensor, steps: int
) -> list[Reached]:
    """The search from the decoder's guess, after 0, 1, ... ``steps`` steps, of all examples.

    On [0, 1] where inputs have bounds.
    """
    start = decoder(features.float(), y).to(features)
    bounds = (decoder.low, decoder.high)
    parts = []
    for begin, target in zip(torch.split(start, CHUNK), torch.split(features, CHUNK), strict=True):
        path = list(search(extract, target, begin, bounds, steps))
        parts.append(path + [path[-1]] * (steps + 1 - len(path)))
    joined = []
    for at in range(steps + 1):
        xs, offs = [p[at].x for p in parts], [p[at].off for p in parts]
        joined.append(Reached(torch.cat(xs), torch.cat(offs)))
    return joined
