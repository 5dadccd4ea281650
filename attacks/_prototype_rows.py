"""What each candidate would have added to a client's prototypes, beside what was really sent.

A prototype is either made of a client's examples, as FedMetric's centre, their mean embedding: then
an example adds its own. Or it is trained beside the network, on a loss that each example pulls at:
then what was sent moves from one round to the next by the sum of these pulls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from attacks import _unmixing_banks as banks
from attacks._candidates import clients_of
from attacks._changed_rows import ALIKE
from attacks._fading import faded, reach
from attacks._unmixing import Mixed, search
from leakbench import unit
from leakbench.attacking import Outline, Replay, View
from leakbench.base import MethodError, torch
from leakbench.federation import Batch, Examples, kept_names, party, trainings
from leakbench.record import Message

if TYPE_CHECKING:
    from torch import Tensor

TRAINED, MADE = "own/prototype", "state/prototype"
CHUNK = 64  # examples side by side
RIDGE = 0.1  # of the mean variance of a number: so much at least is noise
# As large may the noise on a prototype be, in mean variances of what single examples add to it.
NOISES = (0.0, *(10.0**k for k in range(-1, 7)))
LEAP = 5.0  # times the usual turn of a prototype: no prototype turns so far
UNKNOWN = "how its prototype is made of examples is not known"
UNFIT = "its prototypes are not finite, or some of their numbers were not sent"
UNSOLVED = "what others' proxies are mixed into its prototypes could not be told"


@dataclass(frozen=True)
class Added:
    """Of one message what each example would have added, and what all together did, float64."""

    each: Tensor  # (n + m, d): candidates, then auxiliary examples, less the mean of their class
    row: Tensor  # (d,): the same of what was sent


@dataclass(frozen=True)
class _Pulls:
    """What was sent, or how it moved, and what each example does to it, of a scale nobody told."""

    each: Tensor  # (n + m, d)
    row: Tensor  # (d,)
    rate: float = 1.0  # in this round, in any unit


def unmade(run: Outline) -> str:
    """Why nobody can know what an example adds to a prototype; empty where somebody can."""
    if run.observers:
        return (
            "a bank of prototypes does not say in which round a row was sent, and so not by which"
            " model it was made"
        )
    if kept := sorted(kept_names(run.method, run.module())):
        return (
            f"clients keep {kept[0]} of the network to themselves, so what an example adds to a"
            " prototype is not known"
        )
    return ""


def added(
    view: View, asked: Examples, aux: Examples, rng: torch.Generator
) -> dict[int, list[Added] | str]:
    """Of each client's prototypes, sent under a model that is known; or why of none.

    Clients that sent none are left out.

    Args:
        view: who attacks.
        asked: the candidates, with their clients.
        aux: auxiliary examples.
        rng: of the attacker's dice.
    """
    sent: dict[int, list[Message]] = {}
    for m in view.of_others(view.messages("prototype")):
        whole = bool(m.payload.isfinite().all()) and bool(m.told()[""].all())
        sent.setdefault(party(m.sender), []).extend([m] if whole else [])
    own = {c: _own(view, c, some) for c, some in sent.items()}
    each = [torch.stack([*some.values()]) for some in own.values() if some]
    half = 0.0 if _mixed(view) or not each else reach(each, cosine=True)
    heard: dict[int, _Heard] = {}
    for i, (client, some) in enumerate(sent.items()):
        mine = asked.some((clients_of(asked) == client).nonzero().flatten())
        if len(mine):
            theirs = aux.some(torch.isin(aux.y, mine.y).nonzero().flatten())
            heard[client] = _Heard(view, mine, theirs, own[client], half)
            heard[client].listen(some, rng)
        view.progress(i / len(sent))
    factors = [h.factor() for h in heard.values() if h.pulls]
    usual = float(torch.tensor(factors).median()) if factors else 0.0
    return {client: h.found(usual) for client, h in heard.items()}


@dataclass
class _Heard:
    """What the prototypes of one client tell."""

    view: View
    mine: Examples  # (n,): its candidates
    aux: Examples  # (m,): of their classes
    own: dict[int, Tensor]  # {round: (d,)}: what was sent, without what is others'
    half: float  # how far a mean of prototypes reaches back
    made: list[_Pulls] = field(default_factory=list)
    pulls: list[_Pulls] = field(default_factory=list)
    why: str = ""

    def listen(self, sent: Sequence[Message], rng: torch.Generator) -> None:
        """Take in all messages, the oldest first."""
        unread = UNSOLVED if sent else UNFIT
        self.why = "" if self.own else unread
        for m in sent:
            if m.round not in self.own:
                continue
            replay = _replay(self.view, m, rng)
            if isinstance(replay, str):
                self.why = self.why or replay
            elif TRAINED in replay.unknown:
                self._trained(replay, m.round)
            elif MADE in replay.unknown:
                made = partial(_made, replay)
                each = _of_each(replay, self.mine, self.aux, made, together=replay.vectorises)
                self.made.append(_Pulls(each, self.own[m.round]))
            else:
                self.why = UNKNOWN

    def _trained(self, replay: Replay, round: int) -> None:
        before = [v for t, v in self.own.items() if t < round]
        given = replay.inbox.get("prototype")
        if given is not None and given.dim() == 1:  # the server sends each client its own
            start = at = unit(given.double().cpu())
        elif before:
            start, at = before[-1], unit(faded(torch.stack(before), self.half))
        else:
            return  # the first says where it stands, and not how it came there
        pull, together = partial(_pull, replay, at), replay.vectorises_fixed
        each = _of_each(replay, self.mine, self.aux, pull, together=together)
        moved = self.own[round] - start
        rate = self.view.loss_method().schedule(round)
        self.pulls.append(_Pulls(each, moved - (moved @ at) * at, rate))

    def _middles(self, each: Tensor) -> tuple[Tensor, Tensor]:
        """(n + m, d) the mean of each example's class; (d,) the client's, by its candidates.

        Candidates count, too: of a class there may be few auxiliary examples.
        """
        y = torch.cat([self.mine.y, self.aux.y]).cpu()
        of = {c: each[y == c].mean(0) for c in sorted({*y.tolist()})}
        whole = torch.stack([of[c] for c in self.mine.y.tolist()]).mean(0)
        return torch.stack([of[c] for c in y.tolist()]), whole

    def _added(self, each: Tensor, row: Tensor) -> Added:
        middles, whole = self._middles(each)
        return Added(each - middles, row - whole)

    def _along_none(self, each: Tensor, row: Tensor) -> Added:
        way = unit(self._middles(each)[1])
        one = self._added(each, row)
        return Added(one.each - (one.each @ way)[:, None] * way, one.row - (one.row @ way) * way)

    def factor(self) -> float:
        """How far moves went, in the unit of what examples pull: of all rounds the usual factor.

        It is the client's own, as the longer a prototype is the less it turns.
        """
        return self._factor(self.pulls)

    def _factor(self, heard: Sequence[_Pulls]) -> float:
        each = []
        for p in heard:
            whole = self._middles(p.each)[1]
            each.append(float(p.row @ whole / (whole @ whole).clamp(min=1e-300)) / p.rate)
        return float(torch.tensor(each).median()) if each else 0.0

    def found(self, usual: float) -> list[Added] | str:
        """All of it, moves in the unit of pulls; ``usual``: the factor where noise hides its.

        A prototype that is made of examples is as they make it, unless somebody scaled it: then it
        is scaled back, and what lies along it, where the scale's error does, is left out.
        """
        own = self.factor()
        factor = own if own > 0 else usual
        moved = self.pulls if factor > 0 else ()
        scaled = [self._added(p.each, p.row / (factor * p.rate)) for p in moved]
        made, by = self.made, self._factor(self.made)
        alone = by != 0 and not 1 / ALIKE < by < ALIKE
        as_made = [self._along_none(p.each, p.row / by) for p in made if alone]
        as_made = as_made or [self._added(p.each, p.row) for p in made]
        return [*as_made, *scaled] or self.why or "how its prototype moves no example explains"


def _mixed(view: View) -> bool:
    made = view.method.mixture()
    return made is not None and made.own < 1


def _own(view: View, client: int, sent: Sequence[Message]) -> dict[int, Tensor]:
    """{round: (d,) float64}: what was sent, and of mixtures what is the client's own in them."""
    made = view.method.mixture()
    if made is None or made.own == 1:
        trained = view.method.distance == "cosine"
        whole = {m.round: m.payload.double().cpu() for m in sent}
        return {t: unit(v) if trained else v for t, v in whole.items()}
    if made.own == 0 or made.drawn:
        return {}
    known = banks.exact(view, banks.sent(view), len(sent))
    out: dict[int, Tensor] = {}
    for m in sent:
        if m.round in known:
            vector = m.payload.double()
            mixed = Mixed(known[m.round], client, vector, made.own, made.neighbours)
            found = search(mixed, [v.to(vector) for v in [*out.values()][-1:]])
            if found.consistent and found.agree:
                out[m.round] = found.prototype.cpu()
    return _steady(out)


def _steady(found: dict[int, Tensor]) -> dict[int, Tensor]:
    """Without those from which a prototype would have leapt: another set of rows explains them."""
    rounds = [*found]
    leaps = [float((found[b] - found[a]).norm()) for a, b in pairwise(rounds)]
    most = LEAP * float(torch.tensor(leaps).median()) if leaps else 0.0
    return {t: found[t] for t, leap in zip(rounds[1:], leaps, strict=True) if leap <= most}


def _replay(view: View, m: Message, rng: torch.Generator) -> Replay | str:
    """The loss that pulled at the prototype, at the model that its client had received."""
    made = [t for t in trainings(view.loss_method(), m.round, last=view.last) if t.phase < m.phase]
    if not made:
        return UNKNOWN
    try:
        replay = Replay(view, m, rng, phase=made[-1].name)
    except (MethodError, KeyError):
        return "the model that it had received was not kept"
    if "model" not in replay.inbox or not replay.finite:
        return "the model that it had received was not kept, or is not finite"
    return replay


def _pull(replay: Replay, at: Tensor, one: Batch) -> Tensor:
    """(d,): minus the gradient of an example's loss by a prototype of direction ``at`` (d,)."""
    start = replay.unknown[TRAINED]

    def loss(moved: Tensor) -> Tensor:
        return replay.loss(one, {TRAINED: moved}, mode=False)

    slope: Tensor = torch.func.grad(loss)(at.to(start) * start.norm())
    return -slope


def _made(replay: Replay, one: Batch) -> Tensor:
    """(d,): the prototype of a client that has the one example."""
    return replay.started(one)[MADE]


def _of_each(
    replay: Replay,
    mine: Examples,
    aux: Examples,
    what: Callable[[Batch], Tensor],
    *,
    together: bool,
) -> Tensor:
    """(n + m, d) float64: ``what`` of each example alone, of many ``together``."""

    def one(x: Tensor, y: Tensor) -> Tensor:
        return what(Batch(x[None], y[None]))

    x, y = torch.cat([mine.x, aux.x]).to(replay.blank.x), torch.cat([mine.y, aux.y])
    parts = []
    for rows in torch.split(torch.arange(len(y), device=y.device), CHUNK):
        if together:
            parts.append(torch.func.vmap(one)(x[rows], y[rows]))
        else:
            parts += [one(x[i], y[i])[None] for i in rows]
    return torch.cat(parts).detach().double().cpu()


def said(messages: Sequence[Added], *, nearest: bool) -> Tensor:
    """(n + m,): of all messages together how much they speak for each example.

    ``nearest``: minus the squared distance to what was sent, else the inner product with it. Both
    in a metric that is whitened as far as noise allows: the likeliest of ``NOISES`` for all.
    """
    spreads = [_spread(one) for one in messages]
    noise = max(NOISES, key=lambda k: _likelihood(messages, spreads, k))
    told = torch.zeros(len(messages[0].each), dtype=torch.float64)
    for one, (sizes, axes) in zip(messages, spreads, strict=True):
        scale = (sizes + (RIDGE + noise) * sizes.mean()).rsqrt()
        each, row = one.each @ axes * scale, one.row @ axes * scale
        told += -(each - row).square().sum(1) if nearest else each @ row
    return told


def _spread(one: Added) -> tuple[Tensor, Tensor]:
    """Variances (d,) and axes (d, d) of what auxiliary examples add, and candidates."""
    sizes, axes = torch.linalg.eigh(one.each.T @ one.each / len(one.each))
    return sizes.clamp(min=1e-300), axes


def _likelihood(
    messages: Sequence[Added], spreads: Sequence[tuple[Tensor, Tensor]], noise: float
) -> float:
    """Log likelihood of what was sent, of the likeliest number of examples behind each."""
    determinants, squares, count = 0.0, 0.0, 0
    for one, (sizes, axes) in zip(messages, spreads, strict=True):
        variances = sizes + (RIDGE + noise) * sizes.mean()
        determinants += float(variances.log().sum())
        squares += float(((one.row @ axes).square() / variances).sum())
        count += len(sizes)
    share = torch.tensor(max(squares, 1e-300) / count).double().log()
    return -determinants - count * float(share)
