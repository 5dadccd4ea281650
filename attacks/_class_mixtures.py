"""Which classes a client holds, from what its updates of many rounds add up to, or sums of them.

To first order an update is a mixture of what each class alone would have made of the model,
u = Σ_c s_c g_c, and the shares s of a client's classes are the same in every round. Each message so
is an equation (``_disaggregation``) for numbers that are few and stay the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from attacks._class_presence import named_shares
from attacks._disaggregation import TURNS, heard, pull, rounds_read, sent, trusted, weights_of
from leakbench import models
from leakbench.attacking import Outline, Replay, View
from leakbench.base import MethodError, torch
from leakbench.federation import Batch, Examples, party, trainings
from leakbench.record import Message

if TYPE_CHECKING:
    from torch import Tensor

WHOLE = 1_000_000  # weights up to which all of an update are read, of more its last layer
SHOWN = 50  # auxiliary examples of each class
STEPS = 3000  # of a descent, at most
STILL = 1e-9  # of the shares' length: a step below is none
POWERS = 50  # turns by which the largest curvature is found
STEEPER = 1.1  # times what they find, which is a little less
NEAR = 1e-6  # of a class's own product, that two classes differ by at least
SPEED = 4e10  # operations in a second
MANY = 100  # examples of a client that does not say how many it has


@dataclass(frozen=True)
class Equation:
    """What one message says of the shares of whoever it is of.

    ``gram`` (K, K) and ``seen`` (K,), float64, are the products of what each class alone would have
    made with each other, and with what was sent, of ``numbers`` numbers and squared length
    ``length``.
    """

    parts: Mapping[int, float]  # client -> its weight in the message
    gram: Tensor
    seen: Tensor
    length: float
    numbers: int


class _Classes(NamedTuple):
    names: list[str]  # of the tensors that are read
    alone: Tensor  # (K, P) float64, of P numbers
    rate: float  # of the local steps


def pooled(view: View, rng: torch.Generator) -> dict[int, Tensor]:
    """Shares (K,) of each client's classes, float64, from all updates and sums that are seen.

    Of a client of whom nothing is told those of all together; {} where nothing is told of anybody.
    """
    known, who = list(equations(view, rng)), heard(view)
    counts = [m for m in view.messages("count") if bool(m.payload.isfinite().all())]
    sizes = {party(m.sender): round(float(m.payload)) for m in counts}
    return pooled_of(known, who, sizes) if known else {}


def seconds(run: Outline) -> float:
    """Predicted time, the control's too: in each round a step for each class, and what it needs."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        run.module()(run.blank())
    step = 0.002 + 3 * SHOWN * counter.get_total_flops() / SPEED
    return 2 * rounds_read(run) * (0.015 + run.facts.classes * step)


def pooled_of(
    known: Sequence[Equation], who: Sequence[int], sizes: Mapping[int, int] | None = None
) -> dict[int, Tensor]:
    """The same of the clients ``who``, among whom are all that an equation is about.

    ``sizes``: how many examples they have, of those of whom that is known.
    """
    weights = weights_of([e.parts for e in known], who)
    found, error = solved(weights, known)
    if not bool(found.any()):
        return {}
    found = torch.where(found.any(1, keepdim=True), found, found.sum(0))
    whole = found.sum(1, keepdim=True)
    many = [(sizes or {}).get(client, MANY) for client in who]
    return dict(zip(who, named_shares(found / whole, error / whole, many), strict=True))


def equations(view: View, rng: torch.Generator) -> Iterator[Equation]:
    """One for each update, and each sum of updates, of a round of which the model is known."""
    models = view.messages("model", sender="server")
    told = {m.round for m in models}
    apart = {m.round for m in models if m.receiver != "client/*"}  # an active server's rounds
    known = [(m, parts) for m, parts in sent(view) if m.round in told]
    made: dict[tuple[Any, ...], _Classes] = {}  # the same for all who train alike in a round
    for done, (m, parts) in enumerate(known):
        view.progress(done / len(known))
        place = (m.round, m.phase, m.loss, *m.payload)
        place += (m.sender,) if m.round in apart else ()
        try:
            if place not in made:
                made = {place: _of_classes(view, m, rng)}
        except MethodError:  # of what the clients had received something else was not kept
            continue
        names, alone, rate = made[place]
        update = torch.cat([m.payload[n].double().cpu().flatten() for n in names]) / rate
        if m.sparse:
            there = _told(m, names)
            alone, update = alone[:, there], update[there]
        if not len(update):
            continue
        if bool(alone.isfinite().all()) and bool(update.isfinite().all()):
            length = float(update.square().sum())
            yield Equation(parts, alone @ alone.T, alone @ update, length, len(update))


def _told(m: Message, names: Sequence[str]) -> Tensor:
    """(P,) bool: which of the numbers that are read were sent."""
    told = m.told()
    return torch.cat([told[n].cpu().flatten() for n in names])


def _of_classes(view: View, m: Message, rng: torch.Generator) -> _Classes:
    """What each class alone would have made of the model that ``m`` was made from.

    Of several steps at weights halfway to the next round's model, where that is known.
    """
    method, aux, k = view.loss_method(), view.know("aux_data"), view.facts.classes
    training = next(t for t in trainings(method, m.round, last=view.last) if t.phase == m.phase)
    replay = Replay(view, m, rng, sizes=(2,), phase=m.loss or training.name)
    received = replay.inbox["model"]
    names = [n for n in m.payload if n in replay.trained and n in received]
    if sum(received[n].numel() for n in replay.trained & received.keys()) > WHOLE:
        layer = models.last_layer(view.module, view.facts.shape)[0]
        names = [*models.of_layer(layer, {n: received[n] for n in names})]
    weights = dict(received)
    if training.steps != 1:
        weights = _halfway(view, m.round, weights)
    private = {k: v for k, v in replay.started(_alike(aux, k)).items() if not k.startswith("draw/")}
    alone = []
    for c in range(k):
        leaves = {n: weights[n].detach().to(replay.dtype).requires_grad_() for n in names}
        at = (aux.y == c).nonzero().flatten()[:SHOWN]
        x = aux.x[at if len(at) else torch.arange(min(len(aux.y), SHOWN))]
        shown = Batch(x.to(replay.dtype), torch.full((len(x),), c, device=aux.y.device))
        loss = replay.loss(shown, private, weights={**weights, **leaves}, mode=False)
        slopes = torch.autograd.grad(loss, [*leaves.values()], materialize_grads=True)
        alone.append(torch.cat([-g.double().cpu().flatten() for g in slopes]))
    made = torch.stack(alone)
    if method.optimizer != "sgd":  # Adam takes each number by its usual size
        made = made / made.square().mean(0).sqrt().clamp(min=1e-12)
    return _Classes(names, made, replay.rate)


def _halfway(view: View, round: int, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    after = view.messages("model", sender="server", to="client/*", round=round + 1)
    if not after:
        return weights
    ended = after[0].payload
    out = {}
    for name, w in weights.items():
        moves = name in ended and w.is_floating_point()
        out[name] = w + (ended[name].to(w) - w) / 2 if moves else w
    return out


def _alike(aux: Examples, classes: int) -> Batch:
    """A client that holds auxiliary examples of all classes."""
    rows = torch.arange(min(len(aux.y), SHOWN * classes))
    return Batch(aux.x[rows], aux.y[rows])


def solved(weights: Tensor, known: Sequence[Equation]) -> tuple[Tensor, Tensor]:
    """Shares (N, K), 0 or more and of any sum, of N clients, and their standard errors (N, K).

    Least squares, in which messages count as they are ``trusted``. ``weights`` (T, N) are those of
    each client in each message.
    """
    grams, seen = torch.stack([e.gram for e in known]), torch.stack([e.seen for e in known])
    length = torch.tensor([e.length for e in known], dtype=torch.float64)
    numbers = torch.tensor([e.numbers for e in known], dtype=torch.float64)
    sizes = length / numbers
    counts = trusted(sizes, sizes)
    for turn in range(TURNS):
        counted = counts[:, None, None] * grams
        found = explained(weights, counted, seen * counts[:, None])
        mixed = weights @ found
        if turn == TURNS - 1:
            break
        matched = 2 * (seen * mixed).sum(1) - torch.einsum("tk,tkl,tl->t", mixed, grams, mixed)
        left = ((length - matched) / numbers).clamp(min=0)
        counts = trusted(left, sizes)
    left = seen * counts[:, None] - torch.einsum("tkl,tl->tk", counted, mixed)
    return found, errors(weights, counted, left)


def errors(weights: Tensor, grams: Tensor, left: Tensor) -> Tensor:
    """Standard errors (N, K) of shares, by what is ``left`` (T, K) of what each message shows.

    A sandwich (White 1980): it counts what the messages do not agree on, be it noise or that an
    update is no exact mixture. The equations' matrix is taken for the product of one of clients
    and one of classes, as if the rounds' ``grams`` (T, K, K) were alike but in size.
    """
    sizes = grams.diagonal(dim1=1, dim2=2).mean(1)
    gram = grams.sum(0) / sizes.sum().clamp(min=1e-300)
    of_clients = (sizes[:, None] * weights).T @ weights
    of_clients = of_clients + pull(of_clients.diagonal()).clamp(min=1e-300).diag()
    by_client = torch.linalg.solve(of_clients, weights.T)
    by_class = torch.linalg.solve(gram + NEAR * torch.eye(len(gram), dtype=gram.dtype), left.T)
    return (by_client.square() @ by_class.square().T).sqrt()


def explained(weights: Tensor, grams: Tensor, seen: Tensor) -> Tensor:
    """The same, where all messages count alike, with ``grams`` (T, K, K) and ``seen`` (T, K)."""
    whole = weights.sum(1)
    all_of_them = torch.einsum("t,tkl->kl", whole.square(), grams)
    centre = nonnegative(lambda s: all_of_them @ s, whole @ seen, torch.ones_like(seen[0]))
    own = weights.square().T @ grams.diagonal(dim1=1, dim2=2).mean(1)
    held = pull(own)[:, None]

    def product(s: Tensor) -> Tensor:
        return weights.T @ torch.einsum("tkl,tl->tk", grams, weights @ s) + held * s

    return nonnegative(product, weights.T @ seen + held * centre, centre.expand(len(own), -1))


def nonnegative(product: Callable[[Tensor], Tensor], right: Tensor, start: Tensor) -> Tensor:
    """The x, 0 or more, of the least x·Ax / 2 - right·x, of a positive semidefinite A.

    By projected steps with momentum, begun anew where it overshoots (O'Donoghue and Candès 2015).
    ``product``: x to Ax, of the shape of ``right``.
    """
    probe, steep = torch.ones_like(right), 0.0
    for _ in range(POWERS):
        turned = product(probe)
        steep = float(turned.norm() / probe.norm().clamp(min=1e-300))
        probe = turned / turned.norm().clamp(min=1e-300)
    now = ahead = start.clone()
    speed = 1.0
    for _ in range(STEPS):
        new = (ahead - (product(ahead) - right) / max(STEEPER * steep, 1e-300)).clamp(min=0)
        over = float(((ahead - new) * (new - now)).sum()) > 0
        faster = 1.0 if over else (1 + (1 + 4 * speed**2) ** 0.5) / 2
        moved = new - now
        ahead = new if over else new + (speed - 1) / faster * moved
        now, speed = new, faster
        if float(moved.norm()) <= STILL * float(new.norm()):
            break
    return now
