"""What each candidate, and each auxiliary example, would have done to a client's update alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from attacks._candidates import clients_of
from attacks._shadow_federations import named
from leakbench.attacking import Replay, View
from leakbench.base import MethodError, kept, torch
from leakbench.federation import Batch, Examples, party, trainings
from leakbench.record import Message

if TYPE_CHECKING:
    from torch import Tensor

NUMBERS = 2**26  # of the gradients of one update's examples, at most: of larger nets some weights
AUXILIARY = 300  # examples, at most
CHUNK = 64  # gradients side by side
LOSSES = 256  # losses side by side
FEW_EACH, SURE = 3, 3.0  # updates of a client; errors of their mean
SUM = "aggregator"  # who sends sums


@dataclass(frozen=True)
class Heard:
    """An update, and what the examples that may be behind it would do to the same model.

    Rows of the candidates of its sender come first, in their order, then auxiliary ones. Of a sum
    they are those of all clients: whose a candidate is said to be tells nothing there.
    """

    message: Message
    replay: Replay
    asked: Batch  # the candidates that are said to be of its senders
    clients: Tensor  # (n,) int64: of which client each is said to be
    others: Batch  # auxiliary examples
    private: Mapping[str, Tensor]
    run: str  # its name (``named``)

    @property
    def both(self) -> Batch:
        """The candidates, then the auxiliary examples."""
        parts = {k: (v, getattr(self.others, k)) for k, v in vars(self.asked).items()}
        told = {k: torch.cat(pair) for k, pair in parts.items() if pair[0] is not None}
        return Batch(**told)

    def products(self) -> tuple[Tensor, Tensor, float]:
        """Of the gradients of all examples with each other (n, n), with minus the update (n,).

        And how long the update is; float64. It is scaled, its largest number 1: how long it is says
        nothing here. Over all numbers that were sent, or where these are too many, over some drawn
        at random.
        """
        places = self._places()
        payload = dict(self.message.payload)
        key = kept.digest(self._before, *self._rows_of, payload, places)
        make = partial(self._products, places)
        pairs, sides, length = kept.once(self.run and key, make)
        return pairs, sides, float(length)

    def _products(self, places: dict[str, Tensor]) -> tuple[Tensor, ...]:
        model = self.replay.inbox["model"]
        weights = {k: model[k].detach() for k in places}
        payload = self.message.payload
        update = torch.cat([payload[k].flatten()[at] for k, at in places.items()]).double()
        update = -(update / update.abs().max().clamp(min=1e-300)).float()

        def alone() -> tuple[Tensor, ...]:
            rows = self._rows(self.others, weights, places)
            return rows, rows @ rows.T

        mine = self._rows(self.asked, weights, places)
        # Of auxiliary examples once for all who began alike and keep nothing private.
        key = kept.digest("rows", self._before, self._rows_of[1], places)
        others, corner = kept.once("" if self.private else self.run and key, alone)
        across = mine @ others.T
        above, below = torch.cat([mine @ mine.T, across], 1), torch.cat([across.T, corner], 1)
        sides = torch.cat([mine @ update, others @ update])
        told = (torch.cat([above, below]), sides, update.norm())
        return tuple(t.double().cpu() for t in told)

    def descent(self) -> float:
        """The cosine of the update and what takes down the loss of its candidates, all together."""
        model, payload = self.replay.inbox["model"], self.message.payload
        names = self.replay.trained & model.keys() & payload.keys()
        batch = self.asked

        def whole(moved: dict[str, Tensor]) -> Tensor:
            return self.replay.loss(batch, self.private, weights=moved, mode=False)

        slope = torch.func.grad(whole)({k: model[k].detach() for k in names})
        down = torch.cat([-slope[k].flatten().double().nan_to_num() for k in sorted(names)])
        went = torch.cat([payload[k].flatten().double() for k in sorted(names)])
        unit = torch.nn.functional.normalize
        return float(unit(down, dim=0) @ unit(went, dim=0))

    def back(self) -> Heard:
        """The same with its update the other way round."""
        payload = {k: -v for k, v in self.message.payload.items()}
        return replace(self, message=replace(self.message, payload=payload))

    @cached_property
    def _before(self) -> str:
        """Names what the loss reads besides examples and weights."""
        numbered = self.replay.numbered  # else all who began alike have the same loss
        place = {k: v for k, v in self.replay.place().items() if k != "index" or numbered}
        of = f"{self.run} {self.replay.phase} {self.message.round}"
        return kept.digest(of, place, self.private)

    @cached_property
    def _rows_of(self) -> tuple[str, str]:
        """Names the candidates, and the auxiliary examples."""
        return _name_of(self.asked), _name_of(self.others)

    def _places(self) -> dict[str, Tensor]:
        """{name: (k,) int64}: which numbers of each tensor are compared."""
        told = {k: v for k, v in self.replay.sent().items() if k in self.replay.inbox["model"]}
        places = {k: v.flatten().nonzero().flatten() for k, v in told.items()}
        share = NUMBERS / len(self.both.y) / max(sum(map(len, places.values())), 1)
        if share >= 1:
            return places
        rng = torch.Generator().manual_seed(self.message.round)
        drawn = {k: torch.rand(len(at), generator=rng) < share for k, at in places.items()}
        return {k: at[drawn[k].to(at.device)] for k, at in places.items()}

    def _rows(self, batch: Batch, weights: dict[str, Tensor], places: dict[str, Tensor]) -> Tensor:
        def slope(*one: Tensor) -> dict[str, Tensor]:
            def loss(moved: dict[str, Tensor]) -> Tensor:
                return self.replay.loss(_alone(*one), self.private, weights=moved, mode=False)

            found: dict[str, Tensor] = torch.func.grad(loss)(weights)
            return found

        wide = sum(map(len, places.values()))
        rows = torch.empty(len(batch.y), wide, dtype=torch.float, device=self.replay.device)
        start = 0  # written where they stay: they are large
        for some in _of_each(self.replay, batch, slope, CHUNK):
            each = [_columns(some[k].flatten(1), at) for k, at in places.items()]
            end = start + len(each[0])
            torch.cat(each, 1, out=rows[start:end])
            start = end
        return rows.nan_to_num_(0.0, 0.0, 0.0)

    def losses(self, after: Message | None = None) -> Tensor:
        """(n,) of each example at the model received, or moved by an update; no gradient."""
        there = kept.digest(dict(after.payload)) if after else ""

        def part(batch: Batch) -> tuple[Tensor, ...]:
            weights = moved_by(self.replay, after) if after else None
            return (losses_of(self.replay, batch, self.private, weights),)

        # Of auxiliary examples once for all who began alike and keep nothing private.
        parts = [self.both] if self.private else [self.asked, self.others]
        names = ["".join(self._rows_of)] if self.private else self._rows_of
        told: list[Tensor] = []
        for batch, name in zip(parts, names, strict=True):
            key = self.run and kept.digest("losses", self._before, there, name)
            told += kept.once(key, partial(part, batch))
        return torch.cat(told)


def _columns(rows: Tensor, at: Tensor) -> Tensor:
    """Those at ``at``, which are in order; all of them without a copy."""
    return rows if len(at) == rows.shape[1] else rows[:, at]


def _name_of(batch: Batch) -> str:
    return kept.digest({k: v for k, v in vars(batch).items() if v is not None})


def losses_of(
    replay: Replay,
    batch: Batch,
    private: Mapping[str, Tensor],
    weights: Mapping[str, Tensor] | None = None,
) -> Tensor:
    """(n,) of each example at the model received, or at these ``weights``; no gradient."""
    told = dict(weights or {})

    def loss(*one: Tensor) -> Tensor:
        return replay.loss(_alone(*one), private, weights=told, mode=False)

    with torch.no_grad():
        return torch.cat(list(_of_each(replay, batch, loss, LOSSES)))


def moved_by(replay: Replay, message: Message) -> dict[str, Tensor]:
    """The model received, moved by an update."""
    model, payload = replay.inbox["model"], message.payload
    return {k: model[k] + payload[k].to(model[k]) for k in replay.trained & payload.keys()}


def _of_each(replay: Replay, batch: Batch, what: Callable[..., Any], many: int) -> Iterator[Any]:
    """``what`` of each example alone, stacked, so many examples at a time."""
    for rows in torch.split(torch.arange(len(batch.y)), many):
        some = batch.some(rows)
        given = [t for t in (some.x, some.y, some.targets) if t is not None]
        if replay.vectorises_fixed:
            yield torch.func.vmap(what)(*given)
        else:
            found = [what(*one) for one in zip(*given, strict=True)]
            yield torch.utils._pytree.tree_map(lambda *parts: torch.stack(parts), *found)


def _alone(x: Tensor, y: Tensor, targets: Tensor | None = None) -> Batch:
    """A batch of one example."""
    return Batch(x[None], y[None], None if targets is None else targets[None])


def turned(view: View) -> bool:
    """Did somebody turn what clients send, so that it goes up where training went down?

    A wrapper may, and the server turns it back; of updates as training leaves them it is not asked.
    """
    if not view.covers("update"):
        return False
    each = [h.descent() for h in heard(view, torch.Generator().manual_seed(0), FEW_EACH)]
    along = torch.tensor(each, dtype=torch.float64)
    return len(along) > 2 and bool(along.mean() < -SURE * along.std() / len(along) ** 0.5)


def heard(view: View, rng: torch.Generator, most: int) -> Iterator[Heard]:
    """The kept updates of clients of whom candidates are known, where they say anything.

    Of each client ``most`` at most, evenly over its rounds, the newest among them; round by round.
    """
    candidates, aux = view.know("candidates"), view.know("aux_data")
    others = _batch(aux, torch.randperm(len(aux), generator=rng)[:AUXILIARY])
    run, of = named(view), clients_of(candidates)
    for m in _chosen(view, candidates, most):
        one = replace(m, sender=f"client/{min(view.others)}") if m.sender == SUM else m
        replay = replayed(view, one, rng)
        if replay is None:
            continue
        mine = (
            torch.isin(of.cpu(), torch.tensor(view.others))
            if m.sender == SUM
            else of == party(m.sender)
        )
        asked = _batch(candidates, mine.nonzero().flatten())
        asked = replace(asked, x=asked.x.to(replay.dtype))
        behind = replace(others, x=others.x.to(replay.dtype))
        held = {k: v for k, v in replay.started(asked).items() if k in replay.unknown}
        yield Heard(one, replay, asked, of[mine].cpu(), behind, held, run)


def _chosen(view: View, candidates: Examples, most: int) -> list[Message]:
    """Of each client, and of sums, so many."""
    asked = {f"client/{c}" for c in clients_of(candidates).tolist()}
    sent: dict[str, list[Message]] = {}
    for m in [*view.messages("update", probe=False), *_sums(view)]:
        if m.sender in {*asked, SUM}:
            sent.setdefault(m.sender, []).append(m)
    some: list[Message] = []
    for mine in sent.values():
        step = max(1.0, len(mine) / most)
        some += [mine[-1 - int(i * step)] for i in range(min(most, len(mine)))]
    return sorted(some, key=lambda m: (m.round, m.phase, party(m.sender)))


def _sums(view: View) -> list[Message]:
    """The mean updates of several clients, as an aggregator sends them or two models tell them."""
    told = [m for m in view.messages("sum") if "update" in m.payload]
    return [replace(m, kind="update", payload=m.payload["update"]) for m in told]


def _batch(some: Examples, rows: Tensor) -> Batch:
    one = some.batch(rows.to(some.y.device))
    return Batch(one.x, one.y, one.targets)


def replayed(view: View, m: Message, rng: torch.Generator) -> Replay | None:
    """The loss behind an update; None where the model was not kept, or it says nothing."""
    made = {t.phase: t for t in trainings(view.loss_method(), m.round, last=view.last)}
    if m.phase not in made:
        return None
    try:
        replay = Replay(view, m, rng, phase=m.loss or made[m.phase].name)
    except (MethodError, KeyError):  # what it received was not kept, or nobody else has it
        return None
    return replay if "model" in replay.inbox and replay.finite else None
