"""Decoders: trained on auxiliary data, judged on a part of them that was held out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from attacks._decoder_nets import as_maps, deep, table5, unlike_edges
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

NETWORKS = ("linear", "relu", "conv")  # each is trained beside those before it
EDGES = 0.1  # weight of the differences of neighbours in the loss of "conv"
CHUNK = 256  # examples at once where nothing is learnt
LAYOUT = "channels_last"  # of torch: convolutions take a third less time than channel by channel
# A decoder believes itself if on held-out examples it beats the class mean by so many standard
# errors, and by this share of its error (mixing in a constant alone can save some).
SURE, LESS = 2.0, 0.95
STRANGE = 10.0  # mean square of scaled features that the decoder was not made for
SLAB = 2**16  # numbers of a channel at once
ENOUGH = 10  # numbers of a channel, for each channel, before covariances are believed
FLAT = 1e-10  # of the largest variance: directions below it are rounding


class DecoderSettings(Protocol):
    """What of the attack's fields is read here."""

    @property
    def network(self) -> str: ...
    @property
    def epochs(self) -> int: ...
    @property
    def steps(self) -> int: ...
    @property
    def lr(self) -> float: ...
    @property
    def batch(self) -> int: ...
    @property
    def held_out(self) -> float: ...


@dataclass(frozen=True)
class Known:
    """The attacker's own examples."""

    features: Tensor  # (n, ...)
    x: Tensor  # (n, *shape)
    y: Tensor  # (n,) int64, from 0 on

    def some(self, rows: Tensor) -> Known:
        """The examples in ``rows`` (k,)."""
        return Known(self.features[rows], self.x[rows], self.y[rows])


@dataclass(frozen=True)
class Scaling:
    """Of the features' channels: ``centre`` is taken off, then ``turn`` applied."""

    centre: Tensor  # (C, 1, 1)
    turn: Tensor  # (C', C)

    def __call__(self, features: Tensor) -> Tensor:
        """(n, C', H, W) of features (n, C, ...)."""
        parts = [some.to(self.centre) - self.centre for some in _chunks(as_maps(features))]
        scaled = torch.cat([torch.einsum("dc,nchw->ndhw", self.turn, part) for part in parts])
        return scaled.contiguous(memory_format=getattr(torch, LAYOUT))


@dataclass(frozen=True)
class TrainedDecoder:
    """A decoder with its examples' statistics, and what the held-out ones say of it."""

    scaling: Scaling
    net: torch.nn.Module
    level: Tensor  # (C, 1, 1) mean of the inputs' channels
    spread: Tensor  # (C, 1, 1) their standard deviation
    low: float  # where all inputs lie, or infinite
    high: float
    means: Tensor  # (classes, *shape) of the classes
    weight: float  # of the network beside the class mean
    curve: Tensor  # (epochs, 2) training and held-out error of the network after every epoch
    errors: Tensor  # (2,) held-out error of the decoder and of the class mean alone
    accepted: bool  # it is better by a twentieth, and not by chance
    held: Tensor  # (h,) rows of the attacker's examples that were held out

    def __call__(self, features: Tensor, y: Tensor) -> Tensor:
        """The inputs (n, *shape) behind ``features`` (n, ...) of the classes ``y`` (n,)."""
        return self.mixed(self.scaling(features), y)

    def strange(self, features: Tensor) -> bool:
        """Are these no features as the attacker's own examples, of mean square 1, have them?"""
        return not float(self.scaling(features).square().mean()) < STRANGE

    def mixed(self, scaled: Tensor, y: Tensor) -> Tensor:
        """The same of scaled features."""
        mean = self.means[y]
        return (mean + self.weight * (self.bare(scaled) - mean)).clamp(self.low, self.high)

    def bare(self, scaled: Tensor) -> Tensor:
        """The network's guess alone, unclipped."""
        with torch.no_grad():
            return torch.cat([self.guess(some) for some in _chunks(scaled)])

    def guess(self, scaled: Tensor) -> Tensor:
        """The network's guess, with gradients."""
        out: Tensor = self.net(scaled)
        return (out * self.spread + self.level).reshape(len(out), *self.means.shape[1:])


def class_means(x: Tensor, y: Tensor, classes: int) -> Tensor:
    """(classes, *shape): the mean of the examples ``x`` (n, *shape) of each class, else of all."""
    of_class = [x[y == c] for c in range(classes)]
    return torch.stack([some.mean(0) if len(some) else x.mean(0) for some in of_class])


def _chunks(t: Tensor) -> list[Tensor]:
    return [t[i : i + CHUNK] for i in range(0, len(t), CHUNK)]


def train(known: Known, classes: int, how: DecoderSettings, rng: torch.Generator) -> TrainedDecoder:
    """A decoder trained by Adam on the mean squared error, of its best epoch on held-out examples.

    The attacker's examples are split at random; what is held out decides on the epoch, on how far
    the class mean is mixed in (by least squares, between all and nothing), and on whether the
    decoder believes itself. Small sets are passed more than ``epochs`` times, until ``steps`` steps
    are made. Training that diverges ends there; in the first epoch, the curve has no line.

    "relu" trains the linear network, too, and is the one of both that errs less on the held-out
    examples: where features are easily inverted that is the linear one. "conv" trains a deeper one
    beside these two, whose loss has the differences of neighbours in it.
    """
    n = len(known.y)
    order = torch.randperm(n, generator=rng).to(known.y.device)
    back = min(max(round(how.held_out * n), 1), n - 1)
    held, seen = known.some(order[:back]), known.some(order[back:])
    networks = NETWORKS[: NETWORKS.index(how.network) + 1]
    made = [_fitted(held, seen, classes, how, network, rng) for network in networks]
    best = min(made, key=lambda d: float(d.errors[0]) if len(d.curve) else math.inf)
    return replace(best, held=order[:back])


def _fitted(
    held: Known, seen: Known, classes: int, how: DecoderSettings, network: str, rng: torch.Generator
) -> TrainedDecoder:
    """One network, trained on ``seen`` and judged on ``held``."""
    scaling = _scaling(seen.features, whiten=network != "linear")
    held, seen = (replace(k, features=scaling(k.features)) for k in (held, seen))
    decoder = _untrained(scaling, seen, classes, network, rng)
    parameters = list(decoder.net.parameters())
    optimizer = torch.optim.Adam(parameters, lr=how.lr)
    best, kept, curve = math.inf, [p.detach().clone() for p in parameters], []
    for _ in range(max(how.epochs, math.ceil(how.steps / math.ceil(len(seen.y) / how.batch)))):
        total, mixed = 0.0, torch.randperm(len(seen.y), generator=rng).to(seen.y.device)
        for i in range(0, len(mixed), how.batch):
            batch = seen.some(mixed[i : i + how.batch])
            optimizer.zero_grad()
            guess = decoder.guess(batch.features)
            loss = (guess - batch.x).square().mean()
            edges = EDGES * unlike_edges(guess, batch.x) if network == "conv" else 0.0
            torch.autograd.backward(loss + edges)
            optimizer.step()
            total += float(loss.detach()) * len(batch.y)
        now = float((decoder.bare(held.features) - held.x).square().mean())
        if not math.isfinite(total + now):
            break
        curve.append((total / len(seen.y), now))
        if now < best:
            best, kept = now, [p.detach().clone() for p in parameters]
    with torch.no_grad():
        for p, value in zip(parameters, kept, strict=True):
            p.copy_(value)
    decoder.net.requires_grad_(requires_grad=False)
    return _judged(replace(decoder, curve=torch.tensor(curve).reshape(-1, 2)), held)


def _scaling(features: Tensor, *, whiten: bool) -> Scaling:
    """Channels (of ``features`` (n, C, ...)) at variance 1; ``whiten``: their components.

    Where channels are much alike (FLea's loss makes them so) what tells inputs apart lies in the
    small components, and descent does not find it in the channels themselves. Components that never
    change are left out; with fewer than ten numbers of each channel to tell them by, channels stay
    themselves.
    """
    v = as_maps(features).transpose(0, 1).flatten(1)
    mean = v.mean(1, dtype=torch.float64)
    cov = torch.zeros(len(v), len(v)).to(mean)
    for i in range(0, v.shape[1], SLAB):
        part = v[:, i : i + SLAB].double() - mean[:, None]
        cov += part @ part.T / v.shape[1]
    sizes, axes = cov.diagonal(), torch.eye(len(cov)).to(cov)
    if whiten and v.shape[1] >= ENOUGH * len(v):
        sizes, axes = torch.linalg.eigh(cov)
    large = sizes > max(FLAT * float(sizes.max()), 1e-30)
    turn = torch.where(large, sizes.clamp(min=1e-30).rsqrt(), 0.0)[:, None] * axes.T
    return Scaling(mean[:, None, None].to(features), turn.to(features))


def _untrained(
    scaling: Scaling, seen: Known, classes: int, network: str, rng: torch.Generator
) -> TrainedDecoder:
    """The statistics of the inputs, and an untrained network."""
    x = as_maps(seen.x)
    sides = (seen.features.shape[1:], x.shape[1:])
    net = deep(*sides, rng) if network == "conv" else table5(*sides, rng, relu=network == "relu")
    image = bool(((x >= 0) & (x <= 1)).all())
    return TrainedDecoder(
        scaling=scaling,
        net=net.to(x).to(memory_format=getattr(torch, LAYOUT)),
        level=x.mean((0, 2, 3))[:, None, None],
        spread=x.std((0, 2, 3), correction=0)[:, None, None].clamp(min=1e-6),
        low=0.0 if image else -math.inf,
        high=1.0 if image else math.inf,
        means=class_means(seen.x, seen.y, classes),
        weight=1.0,
        curve=torch.zeros(0, 2),
        errors=torch.zeros(2),
        accepted=False,
        held=torch.zeros(0, dtype=torch.int64),
    )


def _judged(decoder: TrainedDecoder, held: Known) -> TrainedDecoder:
    """The decoder with what the held-out examples say of it."""
    mean = decoder.means[held.y]
    moved = decoder.bare(held.features) - mean
    weight = float((moved * (held.x - mean)).sum() / moved.square().sum().clamp(min=1e-30))
    decoder = replace(decoder, weight=min(max(weight, 0.0), 1.0))
    guesses = (decoder.mixed(held.features, held.y), mean)
    error, blind = ((x - held.x).square().flatten(1).mean(1) for x in guesses)
    errors = torch.stack([error.mean(), blind.mean()]).cpu()
    return replace(decoder, errors=errors, accepted=beats(error, blind))


def beats(error: Tensor, blind: Tensor) -> bool:
    """Is the error (n,) of examples below the blind guess's, by a twentieth and not by chance?"""
    gain = blind - error
    chance = float(gain.std()) / math.sqrt(len(gain)) if len(gain) > 1 else math.inf
    less = float(error.mean()) < LESS * float(blind.mean())
    return less and float(gain.mean()) > SURE * chance
