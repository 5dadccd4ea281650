"""L-BFGS on M independent problems at once.

Every evaluation is one call for all of them, and each takes the steps it takes alone.
``defenses._adversarial.search``, one problem after another by ``torch.optim.LBFGS``, is the plain
reference. Here vectors (positions, gradients, histories) are stacked and handled together, while
each problem's line search decides by itself, in plain Python. Problems do not wait for each other's
line searches: every evaluation has the next trial of each, and a problem that has ended is left
out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from defenses._linesearch import STILL, LineSearch, Point, strong_wolfe
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

HISTORY = 10  # as in the reference; so is FLAT, of the gradient's largest number
FLAT = 1e-7

# Numbers in one problem's x and weights: beyond it a CPU gains nothing
# (docs/methods.md).
SMALL = 2**19

Fits: TypeAlias = "Callable[[Tensor], Tensor]"


def faster(starts: Sequence[Tensor], weights: int) -> bool:
    """Whether these ``x0`` are searched together.

    They are if all are of one shape, with a model of so few ``weights``, or on a GPU (not
    measured).
    """
    alike = len(starts) > 1 and all(x.shape == starts[0].shape for x in starts)
    return alike and (not starts[0].is_cpu or starts[0].numel() + weights <= SMALL)


def search(among: Callable[[Tensor], Fits], x0: Tensor, *, steps: int) -> Tensor:
    """For every problem the argmin over x of the mean of its losses, from ``x0`` on.

    It is what ``defenses._adversarial.search`` finds: in float64 equal up to rounding, which a long
    search amplifies; in float32 its line search is partly float32, here float64.

    Args:
        among: of problems (m,) int64 their losses: a function of x (m, n, ...), differentiable,
            with values (m, n). Called anew whenever some have ended.
        x0: (M, n, ...), where to start.
        steps: most iterations of a problem; twice as many evaluations at most.

    Returns:
        (M, n, ...), detached; no problem's is worse than its ``x0``.
    """
    everyone = torch.arange(len(x0), device=x0.device)
    run, shape = _Run(x0.detach().flatten(1).clone(), steps), x0.shape[1:]
    active, rows, fits = list(range(len(x0))), everyone, among(everyone)
    before, gradient = _evaluate(fits, x0)
    run.begin(before, gradient)
    while run.lines:
        if len(run.lines) < len(active):
            active = sorted(run.lines)
            rows = torch.tensor(active, device=x0.device)
            fits = among(rows)
        direction = run.direction[rows]
        ahead = run.x[rows] + run.lengths(active) * direction
        value, gradient = _evaluate(fits, ahead.view(-1, *shape))
        run.advance(active, value, gradient, _dot(gradient, direction))
    found = run.x.view_as(x0)
    with torch.no_grad():
        better = among(everyone)(found).mean(1) <= before
    return torch.where(better.view(-1, *[1] * len(shape)), found, x0.detach())


class _Run:
    """The state of all problems, ended or not: tensors have a row for each, lists a place."""

    def __init__(self, x: Tensor, steps: int) -> None:
        many, size = x.shape
        self.x, self.gradient, self.direction = x, torch.zeros_like(x), torch.zeros_like(x)
        # s and y, as rings.
        self.moves = x.new_zeros(many, HISTORY, size)
        self.bends = x.new_zeros(many, HISTORY, size)
        self.inverse = x.new_zeros(many, HISTORY)  # 1 / (s y)
        self.scale = x.new_ones(many)
        self.written = torch.zeros(many, dtype=torch.long, device=x.device)
        self.most, self.steps, self.evaluations = steps, [1] * many, [1] * many
        self.value, self.trial = [0.0] * many, [0.0] * many
        self.lines: dict[int, LineSearch] = {}  # of the problems still searched

    def lengths(self, active: list[int]) -> Tensor:
        """(m, 1), the step lengths to be tried."""
        tried = [[self.trial[i]] for i in active]
        return torch.tensor(tried, dtype=self.x.dtype, device=self.x.device)

    def begin(self, value: Tensor, gradient: Tensor) -> None:
        """The first line searches, from values (M,) down the gradients (M, N) that are not flat."""
        self.value, self.gradient = value.tolist(), gradient.clone()
        largest, total = torch.stack([gradient.abs().amax(1), gradient.abs().sum(1)]).tolist()
        go = [i for i, g in enumerate(largest) if self.most and not g <= FLAT]
        self._aim(go, [1 / total[i] if total[i] > 1 else 1.0 for i in go])

    def advance(self, active: list[int], value: Tensor, gradient: Tensor, slope: Tensor) -> None:
        """Tell the problems ``active`` what is where they asked: (m,), (m, N), (m,).

        Who has found where to go, goes there.
        """
        arrived: dict[int, Point] = {}
        for i, f, g, s in zip(active, value.tolist(), gradient, slope.tolist(), strict=True):
            try:
                self.trial[i] = self.lines[i].send(Point(self.trial[i], f, s, g))
            except StopIteration as end:
                arrived[i], asked = end.value
                self.evaluations[i] += asked
                del self.lines[i]
        if arrived:
            self._move(arrived)

    def _move(self, arrived: dict[int, Point]) -> None:
        """Go there; who has not ended begins another line search."""
        rows, points = torch.tensor(list(arrived), device=self.x.device), list(arrived.values())
        gradient = torch.stack([p.gradient for p in points])
        move = self.x.new_tensor([[p.t] for p in points]) * self.direction[rows]
        bend = gradient - self.gradient[rows]
        self.x[rows] += move
        self.gradient[rows] = gradient
        curved = _dot(bend, move)
        numbers = torch.stack([gradient.abs().amax(1), move.abs().amax(1), curved]).tolist()
        go, kept = [], []
        trials = zip(arrived, points, *numbers, strict=True)
        for j, (i, point, largest, moved, curvature) in enumerate(trials):
            change, self.value[i] = abs(point.value - self.value[i]), point.value
            spent = self.steps[i] == self.most or self.evaluations[i] >= 2 * self.most
            if spent or largest <= FLAT or moved <= STILL or change < STILL:
                continue
            self.steps[i] += 1
            go.append(i)
            if curvature > 1e-10:
                kept.append(j)
        self._remember(rows[kept], move[kept], bend[kept], curved[kept])
        self._aim(go, [1.0] * len(go))

    def _remember(self, rows: Tensor, move: Tensor, bend: Tensor, curved: Tensor) -> None:
        """Write s, y (m, N) and s y (m,) over the oldest of ``rows``."""
        place = rows, self.written[rows] % HISTORY
        self.moves[place], self.bends[place], self.inverse[place] = move, bend, 1 / curved
        self.scale[rows] = curved / _dot(bend, bend)
        self.written[rows] += 1

    def _aim(self, go: list[int], lengths: list[float]) -> None:
        """New directions for the problems ``go``.

        A line search along each that falls, from its length on.
        """
        if not go:
            return
        rows = torch.tensor(go, device=self.x.device)
        gradient = self.gradient[rows]
        self.direction[rows] = direction = self._towards(rows, -gradient)
        slopes, longest = torch.stack([_dot(gradient, direction), direction.abs().amax(1)]).tolist()
        for i, t, slope, most in zip(go, lengths, slopes, longest, strict=True):
            if not slope > -STILL:
                start = Point(0.0, self.value[i], slope, self.gradient[i])
                line = strong_wolfe(start, t, most, 2 * self.most - self.evaluations[i])
                self.lines[i], self.trial[i] = line, next(line)

    def _towards(self, rows: Tensor, q: Tensor) -> Tensor:
        """The approximate inverse Hessian of each of ``rows`` times q (m, N).

        Places not written yet are zero, and add nothing.
        """
        written = self.written[rows]
        ages = torch.arange(1, min(HISTORY, int(written.max())) + 1, device=q.device)
        # From the newest on: each (m, N) or (m,), gathered once for both loops.
        places = rows[:, None], (written[:, None] - ages) % HISTORY
        past = [kept[places].unbind(1) for kept in (self.moves, self.bends, self.inverse)]
        pairs, weights = [*zip(*past, strict=True)], []
        for move, bend, inverse in pairs:
            weights.append(_dot(move, q) * inverse)
            q = torch.addcmul(q, weights[-1][:, None], bend, value=-1)
        q = q * self.scale[rows][:, None]
        for (move, bend, inverse), weight in zip(reversed(pairs), reversed(weights), strict=True):
            back = _dot(bend, q) * inverse
            q = torch.addcmul(q, (weight - back)[:, None], move)
        return q


def _evaluate(fits: Fits, x: Tensor) -> tuple[Tensor, Tensor]:
    """The mean loss of each problem, (m,), and its gradient, (m, N), at x (m, n, ...)."""
    leaf = x.detach().requires_grad_()
    with torch.enable_grad():
        value = fits(leaf).mean(1)
    (gradient,) = torch.autograd.grad(value.sum(), [leaf])
    return value.detach(), gradient.flatten(1)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """Row by row: (m, N), (m, N) -> (m,)."""
    return torch.linalg.vecdot(a, b)
