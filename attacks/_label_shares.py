"""The labels behind an update, from how its output bias moved and what the loss does to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from attacks._output_moves import of_classes
from leakbench.attacking import Replay, View
from leakbench.base import MethodError, Tree, torch
from leakbench.federation import Batch, Examples, reach, trainings
from leakbench.record import Message

if TYPE_CHECKING:
    from torch import Tensor

CHUNK = 256  # images of one forward pass
HEAVY = 100.0  # weight of "the shares sum to 1" beside the equations
THROWS = 8  # of the victim's dice, where its loss throws any
TURNS = 10  # of private inputs and shares
FEW = 20  # examples of each class, in these turns
SETS = 10  # of the classes whose bias moved most: 1 to 10 of them, then twice as many, ...
FITS = 0.02  # of the rise's norm: shares that explain all but that explain it
MANY = 64  # examples of each class, where they are shown in batches of the victim's size
MIXTURES = 8  # batches of all classes, to see whether
RARER = 4  # one of so many examples of every second class is among them
MIXED = 0.25  # of its norm: a mixed batch may be so far from the mean over its classes


def solved(rise: Tensor, predicted: Tensor, sent: Tensor | None = None) -> Tensor:
    """Shares s (K,) float64, 0 or more, of sum 1, whose s - predictedᵀ s is nearest to ``rise``.

    Args:
        rise: (K,), the mean over the steps of minus the gradient of the output bias: the share of
            each class minus its mean predicted probability.
        predicted: (K, K), row y: the mean predicted probabilities of examples of class y.
        sent: (K,) bool, the outputs whose rise was sent; all of them if None.
    """
    return fitted(rise, torch.eye(len(rise)).double() - predicted.double().cpu(), sent)[0]


def fitted(rise: Tensor, slopes: Tensor, sent: Tensor | None = None) -> tuple[Tensor, float]:
    """Shares s (K,) as above, whose slopesᵀ s is nearest to ``rise``, and how far it is from it.

    ``slopes`` (K, P), row y: what ``rise`` (P,) is of examples of class y alone. ``sent`` (P,)
    bool: which of ``rise`` were sent; all of them if None.
    """
    from scipy.optimize import nnls

    k = len(slopes)
    if sent is not None:
        rise, slopes = rise[sent], slopes[:, sent]
    left = np.vstack([slopes.double().numpy().T, np.full(k, HEAVY)])
    found, far = nnls(left, np.append(rise.double().numpy(), HEAVY), maxiter=30 * k)
    return torch.from_numpy(found / found.sum()), float(far)


@dataclass(frozen=True)
class Biases:
    """The gradient of an output bias under a method's own loss, on the attacker's examples.

    Of cross-entropy minus that gradient is the share of each class minus its mean predicted
    probability, whatever else the loss may do to logits, labels or batches. The network is in the
    mode of evaluation: a batch of one class normalises otherwise than the victim's.
    """

    replays: tuple[Replay, ...]  # as many as there are throws of the victim's dice
    weights: Tree  # where the steps were taken
    bias: str  # its name
    aux: Examples
    batch: int  # examples in a step of the victim
    classes: int
    # {name: bool}: of which numbers of the output layer the gradient is taken; none: its bias.
    sent: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def alone(self) -> bool:
        """Does the loss read its batch and the model, and no more, so that batches may be large?"""
        first = self.replays[0]
        drawn = any(k.startswith("draw/") for k in first.unknown)
        return not drawn and set(first.inbox) <= {"model"}

    def slopes(self, private: Mapping[str, Tensor], *, most: int = 0) -> Tensor:
        """(K, P) float64, on the CPU: row y, minus the gradient for examples of class y alone.

        Of a class without auxiliary examples it is that of all of them, labelled so. ``most``:
        examples of each class that are shown; 0: all.
        """
        y, rows = self.aux.y.cpu(), []
        most = most or (0 if self.alone else MANY)
        for c in range(self.classes):
            of = (y == c).nonzero().flatten()
            of = of if len(of) else torch.arange(len(y))
            rows.append(self._minus(self.aux.x[of[: most or None]], None, c, private))
        return torch.stack(rows)

    def mixes(self, slopes: Tensor, private: Mapping[str, Tensor]) -> bool:
        """Is the gradient of a mixed batch the mean over the classes that are in it?

        Where it is not, slopes say nothing of the victim's batches.
        """
        y = self.aux.y.cpu()
        # Of an even mixture both are near 0 whatever the loss is: half of the classes are rarer.
        some = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
        turn = torch.arange(len(y)) % RARER == 0
        some = some[(y[some] % 2 == 0) | turn]
        some = some[: len(some) if self.alone else MIXTURES * self.batch]
        whole = self._minus(self.aux.x[some], self.aux.y[some], 0, private)
        mean = y[some].bincount(minlength=self.classes).double() / len(some) @ slopes
        size = torch.maximum(mean.norm(), whole.norm()).clamp(min=1e-30)
        return bool((mean - whole).norm() <= MIXED * size)

    def reads(self, private: Mapping[str, Tensor], rng: torch.Generator) -> bool:
        """Do the slopes depend on the private inputs?"""
        moved = {
            k: v + torch.randn(v.shape, generator=rng).to(v) if v.is_floating_point() else v
            for k, v in private.items()
        }
        a, b = (self.slopes(inputs, most=2) for inputs in (private, moved))
        return not torch.allclose(a, b, rtol=1e-3, atol=1e-6)

    def _minus(
        self, x: Tensor, y: Tensor | None, label: int, private: Mapping[str, Tensor]
    ) -> Tensor:
        """(P,) float64: minus the mean gradient over batches of x, all of class ``label`` or y."""
        labels = torch.full((len(x),), label, device=x.device) if y is None else y
        total, n = torch.zeros((), dtype=torch.float64), 0
        for rows in self._batches(len(x)):
            part = Batch(x[rows], labels[rows])
            for replay in self.replays:
                slope = self._gradient(replay, part, private)
                total = total + len(rows) * slope / len(self.replays)
            n += len(rows)
        return -total / n

    def _batches(self, n: int) -> Iterator[Tensor]:
        """Rows of n, each once; or where the size matters in full batches, some of them twice."""
        if self.alone:
            yield from torch.split(torch.arange(n), CHUNK)
        else:
            full = -(-n // self.batch) * self.batch
            yield from torch.split(torch.arange(full) % n, self.batch)

    def _gradient(self, replay: Replay, batch: Batch, private: Mapping[str, Tensor]) -> Tensor:
        names = [*self.sent] or [self.bias]
        leaves = {n: self.weights[n].detach().to(replay.dtype).requires_grad_() for n in names}
        x = batch.x.to(replay.dtype)
        weights = {**self.weights, **leaves}
        loss = replay.loss(Batch(x, batch.y), private, weights=weights, mode=False)
        slopes = torch.autograd.grad(loss, [*leaves.values()])
        if not self.sent:
            return of_classes(slopes[0].double().cpu())
        told = zip(slopes, self.sent.values(), strict=True)
        return torch.cat([g.double()[there] for g, there in told]).cpu()


def taken(view: View, m: Message) -> tuple[int, int]:
    """(local steps, examples in a pass) behind ``m``; 0 steps where it cannot be told."""
    method = view.loss_method()
    training = next(t for t in trainings(method, m.round, last=view.last) if t.phase == m.phase)
    if training.steps:
        return training.steps, method.batch
    said = _counted(view, m)
    if not said:
        return 0, 0
    return len(training.sizes(said * training.epochs, method.batch)), said


def _counted(view: View, m: Message) -> int:
    """The count that the client sent with ``m``; 0 where it sent none."""
    counts = view.messages("count", sender=m.sender, round=m.round)
    said = [int(c.payload) for c in counts if c.phase == m.phase]
    return said[-1] if said else 0


def calibrated(
    view: View, m: Message, bias: str, move: Tensor, rng: torch.Generator
) -> Tensor | str:
    """The shares (K,) of the classes behind ``m``, or why they cannot be told.

    ``bias``: the name of the output bias; ``move`` (K,): how it moved, by class. Of an update of
    which a part was sent the equations are all numbers of its layer that were. A single step was
    taken at the weights received, so predictions are theirs; of several most are near the weights
    that they led to. A share of less than half an example is none. What the loss reads of the
    client's own is what the method makes
    of a client that has such shares (``_settled``).
    """
    steps, examples = taken(view, m)
    sent = view.messages("model", sender="server", to=m.sender, round=m.round)
    models = [e.payload for e in sent if e.phase < m.phase]
    if not steps:
        return "how many local steps it took cannot be told"
    if not models:
        return "the model it received was not kept"
    start: Tree = models[-1]
    weights = {k: v + m.payload[k] if k in m.payload and steps > 1 else v for k, v in start.items()}
    method = view.loss_method()
    rise = move / reach(method, m.round, steps)
    # Weights that are not finite, or so large that nothing else is.
    if not bool(rise.isfinite().all()):
        return "the update is not finite"
    try:
        shares = _shares(view, m, weights, bias, rise, examples, rng)
    except MethodError as error:  # of what it received something was not kept
        return str(error)
    if isinstance(shares, str):
        return shares
    clear = torch.where(shares < 0.5 / examples, 0.0, shares)
    return clear / clear.sum() if bool(clear.any()) else shares


def _shares(
    view: View,
    m: Message,
    weights: Tree,
    bias: str,
    rise: Tensor,
    examples: int,
    rng: torch.Generator,
) -> Tensor | str:
    method, aux, k = view.loss_method(), view.know("aux_data"), view.facts.classes
    made = trainings(method, m.round, last=view.last)
    name = m.loss or next(t.name for t in made if t.phase == m.phase)

    def replay() -> Replay:
        return Replay(view, m, rng, sizes=(2,), phase=name)

    one = replay()
    thrown = any(u.startswith("draw/") for u in one.unknown)
    others = [replay() for _ in range(THROWS - 1 if thrown else 0)]
    sent = _sent(m, bias)
    biases = Biases((one, *others), weights, bias, aux, method.batch, k, sent)
    by_class = rise
    if sent:
        own = [m.payload[n][there].double().cpu() for n, there in sent.items()]
        rise = torch.cat(own) / reach(method, m.round, taken(view, m)[0])
    alike = torch.full((k,), 1 / k, dtype=torch.float64)
    count = _counted(view, m) or examples
    private = _private(one, _pretended(alike, count, aux))
    told = biases.slopes(private)
    if not bool(told.isfinite().all()):
        return "the update is not finite"
    if not biases.mixes(told, private):
        return "its output bias does not move by the mean over the examples of a batch"
    if not _depends(one, _pretended(torch.eye(k).double()[0], count, aux), private):
        if m.round > 1 and biases.reads(private, rng):
            return "its loss reads what the client keeps, which may be another thing since it began"
        return fitted(rise, told)[0]
    found = [_settled(biases, rise, s, count) for s in (alike, *_moved(by_class))]
    return _simplest(found, rise, examples)


def _sent(m: Message, bias: str) -> dict[str, Tensor]:
    """{name: bool} of the numbers of the output layer that were sent, of a ``sparse`` update."""
    if not m.sparse:
        return {}
    own = (bias, f"{bias.removesuffix('bias')}weight")
    return {k: v for k, v in m.told().items() if k in own}


def _moved(rise: Tensor) -> list[Tensor]:
    """Shares (K,) to begin at: alike for the classes whose bias moved most, so many or so many.

    Of a class that a client lacks some losses hardly move it, be it up or down.
    """
    order, k, out = rise.abs().argsort(descending=True), len(rise), []
    larger = [SETS * 2**i for i in range(1, 20)]
    for n in [n for n in (*range(1, SETS + 1), *larger) if n < k]:
        out.append(torch.zeros(k, dtype=torch.float64).index_fill(0, order[:n], 1 / n))
    return out


def _simplest(found: list[tuple[Tensor, float]], rise: Tensor, examples: int) -> Tensor:
    """Of the shares that explain the rise those of the fewest classes; of these the nearest.

    Where what the loss reads depends on the client's classes, many sets of classes explain what a
    few do. Where none does, the nearest of all.
    """
    enough = [(s, far) for s, far in found if far <= FITS * float(rise.norm())]
    if not enough:
        return min(found, key=lambda one: one[1])[0]
    return min(enough, key=lambda one: (int((one[0] >= 0.5 / examples).sum()), one[1]))[0]


def _settled(biases: Biases, rise: Tensor, shares: Tensor, count: int) -> tuple[Tensor, float]:
    """Shares and the private inputs that a client of such shares has, from first ``shares`` on.

    And how far the rise is that they explain; of all turns the nearest.
    """
    tried = []
    for _ in range(TURNS):
        held = _pretended(shares, count, biases.aux)
        private = _private(biases.replays[0], held)
        found, far = fitted(rise, biases.slopes(private, most=FEW))
        tried.append((found, far))
        if torch.allclose(found, shares, atol=1e-6):
            break
        shares = found
    return min(tried, key=lambda one: one[1])


def _private(replay: Replay, held: Batch) -> dict[str, Tensor]:
    """What the method's start makes of a client that has ``held``; no draws."""
    return {k: v for k, v in replay.started(held).items() if not k.startswith("draw/")}


def _depends(replay: Replay, other: Batch, private: Mapping[str, Tensor]) -> bool:
    """Is what the loss reads of a client's own another thing for another client's data?"""
    there = _private(replay, other)
    return any(not torch.equal(v, there[k]) for k, v in private.items())


def _pretended(shares: Tensor, count: int, aux: Examples) -> Batch:
    """``count`` examples, about, in the ``shares`` (K,) of the classes, made of the attacker's."""
    y, rows = aux.y.cpu(), []
    for c, n in enumerate((shares * count).round().long().tolist()):
        of = (y == c).nonzero().flatten()
        of = of if len(of) else torch.arange(len(y))
        rows.append(of[torch.arange(n) % len(of)])
    labels = torch.cat([torch.full((len(r),), c) for c, r in enumerate(rows)])
    return Batch(aux.x[torch.cat(rows)], labels.to(aux.y.device))
