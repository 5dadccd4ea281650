"""Which searches an update gets, and how many victims are searched side by side."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from attacks._inversion import first_layer, lbfgs, priors, signed_adam
from attacks._inversion.check import apart, judge
from attacks._inversion.ends import measured
from attacks._inversion.stack import Stack, stackable, stacked
from attacks._inversion.variation import weight
from attacks._inversion.victims import FEW, Candidate, Settings, Victim
from leakbench.base import torch
from leakbench.federation import Examples

if TYPE_CHECKING:
    from torch import Tensor

LONGER = 3  # times the steps of signed Adam of signs, and of batches before they are polished
MATCHED = 1e-4  # mismatch below which a search has settled
UNMATCHED = 0.05  # from which on a replay of two steps says nothing (ends of CNNs are .06 to .3)
EXACT = 1e-8  # mismatch that single precision's rounding explains

Tell = Callable[[float], None]


def search(
    victims: Sequence[Victim],
    how: Settings,
    engine: str,
    rng: torch.Generator,
    tell: Tell = lambda _: None,
    aux: Examples | None = None,
) -> list[list[Candidate]]:
    """Each victim's candidates, one for every search of it.

    Of a step of Adam the numbers that it tells are matched first; where these lead to no images,
    their ends are given up for those of signed Adam on the signs of all numbers (``Signs``). Beside
    what a replay of two steps leads to stands what the directions lead to that they tell
    (``Directions``); the replay, which is exact, tells which of the two matches (``_nearer``).

    The other arguments are those of ``by_numbers``.
    """
    for v in victims:
        v.by_signs = False
    may = any(v.tells_signs for v in victims)
    found = by_numbers(victims, how, engine, rng, _part(tell, 0.0, 0.5 if may else 1.0), aux)
    matched = set()  # updates: of one all label vectors are held against the same
    for v, candidates in zip(victims, found, strict=True):
        if _settled(v, candidates, how):
            matched.add(id(v.behind.message))
    left = []
    for i, v in enumerate(victims):
        v.by_signs = v.tells_signs and id(v.behind.message) not in matched
        left += [i] if v.by_signs else []
    some = [victims[i] for i in left]
    ended = by_numbers(some, how, "signed_adam", rng, _part(tell, 0.5, 1.0), aux) if some else []
    for i, v, candidates in zip(left, some, ended, strict=True):
        found[i] = _nearer(v, found[i], candidates) if v.paired else candidates
    tell(1.0)
    return found


def _nearer(
    victim: Victim, replayed: Sequence[Candidate], directed: Sequence[Candidate]
) -> list[Candidate]:
    """What a replay of two steps led to and what their directions led to, as the replay has them.

    Where neither matches, those that are nearer to the directions.
    """
    closest = min(_as_it_is(victim, c).mismatch for c in replayed)
    nearer = min(c.mismatch for c in directed) < closest
    victim.by_signs = False
    again = [_as_it_is(victim, c) for c in directed]
    if min(c.mismatch for c in (*replayed, *again)) < UNMATCHED:
        return [*replayed, *again]
    return again if nearer else [*replayed]


def _as_it_is(victim: Victim, c: Candidate) -> Candidate:
    """The candidate as its victim compares now, by directions or by the replay."""
    return measured(victim, c.x, c.private, c.engine, c.restart)


def _settled(victim: Victim, found: Sequence[Candidate], how: Settings) -> bool:
    """Do the numbers that an update tells lead to its images?

    Of large ones many match them, and they have to have been found twice.
    """
    if min((c.mismatch for c in found), default=1.0) > MATCHED:
        return False
    return math.prod(victim.shape) <= FEW or judge(victim, found, how).accepted


def _part(tell: Tell, low: float, high: float) -> Tell:
    return lambda share: tell(low + share * (high - low))


def by_numbers(
    victims: Sequence[Victim],
    how: Settings,
    engine: str,
    rng: torch.Generator,
    tell: Tell,
    aux: Examples | None,
) -> list[list[Candidate]]:
    """Each victim's candidates, held against the numbers of its update, or by their signs.

    ``signed_adam``: ``restarts`` searches. ``lbfgs``: as many, from random images and without
    any prior. ``auto``: where the net is smooth, of a single image (and of tiny ones)
    ``restarts`` of L-BFGS from random ones, and of whatever these do not agree on, signed Adam, its
    ends polished by L-BFGS; where it has kinks, signed Adam alone (a polish moved CNNs with ReLUs
    by 0.2 dB). With ``aux`` what the decoder makes of the gradient is a candidate ("decoder"), and
    each victim's first search starts there and not at random. Before all that ``auto`` reads off
    what a first layer that is linear tells of a single image ("divided"), from half of its units
    and from the others; where these agree a search for private inputs starts there.

    Args:
        victims: any; those of one kind are searched side by side.
        how: steps, restarts, weight of the total variation.
        engine: "auto", "signed_adam" or "lbfgs".
        rng: the attack's dice. A victim's starts do not depend on who is beside it.
        tell: called with the share of the work that is done.
        aux: the attacker's own examples, where they are a prior.
    """
    seeds = torch.randint(2**62, (len(victims), 2), generator=rng).tolist()
    found: list[list[Candidate]] = [[] for _ in victims]
    read: dict[int, Tensor] = {}
    for i, victim in enumerate(victims) if engine == "auto" else ():
        halves = first_layer.images(victim, 2)
        found[i] += [_alone(victim, x, "divided", r) for r, x in enumerate(halves)]
        if len(halves) == 2 and apart(*halves, signal=victim.view.facts.signal) < 1e-4:
            read[i] = halves[0]
    direct = []
    for i, v in enumerate(victims):
        if engine == "lbfgs" or (engine == "auto" and v.smooth and not _certain(v, found[i])):
            direct.append(i)
    # Of a victim that is first tried directly and then by signed Adam, the ends are polished, too.
    done = _Share(tell, len(direct) if engine == "lbfgs" else len(victims) + 2 * len(direct))
    for i in direct:
        if engine == "lbfgs" or victims[i].few:
            found[i] += _from_random(victims[i], how, _dice(seeds[i][0]), exact=engine == "auto")
        done.more(1)
    if engine == "lbfgs":
        return found
    left = [i for i in range(len(victims)) if not _certain(victims[i], found[i])]
    done.more(2 * (len(victims) - len(left)))
    for group in _groups(victims, left, how):
        guesses = {}
        if aux is not None:
            guesses = {i: priors.guess(victims[i], aux, _dice(sum(seeds[i]))) for i in group}
        for i, x in guesses.items():
            found[i].append(_alone(victims[i], x, "decoder", 0))
        guesses |= {i: read[i] for i in group if i in read}
        first = victims[group[0]]
        longer = first.by_signs or (group[0] in direct and not first.few)
        steps = how.steps * (LONGER if longer else 1)
        ended = _adam(victims, group, how, seeds, done, guesses, steps)
        for i in group:
            found[i] += ended[i]
            if i in direct:
                found[i] += [_polished(victims[i], c, how) for c in ended[i]]
                done.more(1)
    tell(1.0)
    return found


def _alone(victim: Victim, x: Tensor, engine: str, restart: int) -> Candidate:
    """An image that no search of the loss found, with private inputs as they are guessed."""
    free = {k: victim.private[k].double() for k in victim.free}
    return measured(victim, x.double(), free, engine, restart)


class _Share:
    """How much of the work is done."""

    def __init__(self, tell: Tell, of: float) -> None:
        self.tell, self.of, self.done = tell, of, 0.0

    def more(self, amount: float) -> None:
        self.done += amount
        self.tell(min(self.done / max(self.of, 1.0), 1.0))


def _certain(victim: Victim, found: Sequence[Candidate]) -> bool:
    """Do two searches from different starts match exactly, and at one place?"""
    exact = [c for c in found if c.mismatch < EXACT]
    if len(exact) < 2:
        return False
    return apart(exact[0].x, exact[1].x, signal=victim.view.facts.signal) < 1e-4


def _groups(victims: Sequence[Victim], which: Sequence[int], how: Settings) -> Iterator[list[int]]:
    """Victims of one kind, as many as go side by side with all their restarts."""
    kinds: dict[object, list[int]] = {}
    for i in which:
        kinds.setdefault(victims[i].kind, []).append(i)
    for same in kinds.values():
        most = max(_most(victims[same[0]], how) // how.restarts, 1)
        for k in range(0, len(same), most):
            yield same[k : k + most]


def _most(victim: Victim, how: Settings) -> int:
    if how.side_by_side and victim.replay(torch.float32).vectorises:
        return how.side_by_side
    return stackable(victim)


def _dice(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _adam(
    victims: Sequence[Victim],
    group: Sequence[int],
    how: Settings,
    seeds: Sequence[Sequence[int]],
    done: _Share,
    guesses: Mapping[int, Tensor],
    steps: int,
) -> dict[int, list[Candidate]]:
    """Where signed Adam's restarts of each victim of ``group`` end."""
    slots = [(i, r) for i in group for r in range(how.restarts)]
    starts = []
    for i in group:
        dice = _dice(seeds[i][1])
        starts += [_start(victims[i], dice, patterned=True) for _ in range(how.restarts)]
        if i in guesses:
            first = starts[-how.restarts]
            first["x"] = guesses[i].to(first["x"])
    together = max(_most(victims[group[0]], how), 1)
    out: dict[int, list[Candidate]] = {i: [] for i in group}
    for k in range(0, len(slots), together):
        part, begun = slots[k : k + together], starts[k : k + together]
        stack = Stack([victims[i] for i, _ in part], torch.float32)
        before = done.done
        share = len(group) * len(part) / len(slots)

        def tell(of: float, before: float = before, share: float = share) -> None:
            done.more(before + share * of - done.done)

        at = {k: v.to(stack.first.device) for k, v in stacked(begun).items()}
        x, free, _ = signed_adam.descend(
            stack,
            at["x"],
            {k: v for k, v in at.items() if k != "x"},
            steps=steps,
            weight=weight(how.total_variation, stack.facts.shape),
            fall=victims[group[0]].fading.descent,
            box=not stack.facts.signal,
            tell=tell,
            rates=[_rate(guesses, i, r) for i, r in part],
        )
        for j, (i, r) in enumerate(part):
            inputs = {name: v[j].double() for name, v in free.items()}
            out[i].append(measured(victims[i], x[j].double(), inputs, "signed_adam", r))
    return out


def _rate(guesses: Mapping[int, Tensor], i: int, restart: int) -> float:
    """The first search of a victim with a guess starts near its end, and is not to leave it."""
    return signed_adam.NEAR_RATE if i in guesses and restart == 0 else signed_adam.RATE


def _start(victim: Victim, dice: torch.Generator, *, patterned: bool) -> dict[str, Tensor]:
    if patterned:
        x = signed_adam.patterned(victim.shape, dice)
        if not victim.view.facts.signal:
            x = x.clamp(0, 1)
    else:
        x = torch.rand(*victim.shape, generator=dice, dtype=torch.float64)
    start = {"x": x}
    for k in victim.free:
        start[k] = torch.randn(victim.private[k].shape, generator=dice, dtype=x.dtype)
    return start


def _from_random(
    victim: Victim, how: Settings, dice: torch.Generator, *, exact: bool
) -> list[Candidate]:
    """L-BFGS from random images, ``restarts`` times; ``exact``: until one does not match exactly.

    What matches from several starts is the only one if these agree.
    """
    stack, out = Stack([victim], torch.float64), []
    for r in range(how.restarts):
        start = _start(victim, dice, patterned=False)
        begun = {k: v[None].to(stack.first.device) for k, v in start.items()}
        x, free, end = lbfgs.descend(
            stack, begun["x"], {k: begun[k] for k in victim.free}, steps=how.steps
        )
        inputs = {k: v[0] for k, v in free.items()}
        made = measured(victim, x[0], inputs, "lbfgs", r)
        out.append(replace(made, settled=end.converged or made.mismatch < MATCHED))
        if exact and made.mismatch > EXACT:
            break
    return out


def _polished(victim: Victim, best: Candidate, how: Settings) -> Candidate:
    """L-BFGS from where signed Adam ended, in its box, with what ``fading`` leaves of the prior.

    Where one image matches, it is found to the last digit; where many batches do, the likeliest.
    """
    stack = Stack([victim], torch.float64)
    x, free = best.x[None], {k: best.private[k][None] for k in victim.free}
    whole = weight(how.total_variation, stack.facts.shape)
    box = not stack.facts.signal
    for share, lasts in victim.fading.polish if whole else ((0.0, 1.0),):
        steps = max(round(how.steps * lasts * (1.0 if victim.few else 0.5)), 1)
        x, free, end = lbfgs.descend(stack, x, free, steps=steps, weight=share * whole, box=box)
    inputs = {k: v[0] for k, v in free.items()}
    made = measured(victim, x[0], inputs, "polished", best.restart)
    return replace(made, settled=end.converged or made.mismatch < MATCHED)
