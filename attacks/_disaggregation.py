"""Whose each covered message is, and how clients are told apart in sums over changing cohorts.

Who took part in a sum is public, so that each message is an equation: of a client or, of a sum, of
all that took part in it. Noise and changing company cancel over the rounds. After Lam et al. (ICML
2021, "gradient disaggregation"), who sought updates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from leakbench.attacking import Outline, View
from leakbench.base import torch
from leakbench.federation import party
from leakbench.record import Message

if TYPE_CHECKING:
    from torch import Tensor

TURNS = 5  # of weighing the messages by what is left of them
RIDGE = 0.01  # pull to what all clients together are, of the equations' own weight
NOTHING = "of no round both the model and an update, or a sum, was kept that says anything"
KINDS = ("model", "count", "sum")  # that tell who took part, and with what weight


def heard(view: View) -> list[int]:
    """The clients of whom an update was seen, or who received the model in a round.

    To clients who attack: all others, where two models told anything of them.
    """
    if view.observers:
        updates = view.messages("update", last_layer=True)
        told = [*view.messages("sum", last_layer=True), *view.of_others(updates)]
        return view.others if told else []
    rows = view.traffic("model")
    found = {*_receivers(rows[rows[:, 0] > 0])}
    for m in view.messages("update", last_layer=True):
        found.add(party(m.sender))
    return sorted(found)


def sent(view: View) -> list[tuple[Message, dict[int, float]]]:
    """Updates of each round's first training, and whose they are: {client: its weight in it}."""
    out = []
    for m in view.of_others(view.messages("update", last_layer=True)):
        out.append((m, {party(m.sender): 1.0}))
    for m in view.messages("sum", last_layer=True):
        parts = _company(view, m.round)
        if "update" in m.payload and parts:
            one = replace(m, sender=f"client/{min(parts)}", payload=m.payload["update"])
            out.append((one, parts))
    first: dict[int, int] = {}
    for m, _ in out:
        first[m.round] = min(m.phase, first.get(m.round, m.phase))
    return [(m, parts) for m, parts in out if m.phase == first[m.round]]


def _receivers(rows: Tensor) -> list[int]:
    return sorted({c for c in rows[:, 2].tolist() if c >= 0})


def _company(view: View, round: int) -> dict[int, float]:
    """Who took part in a round's sum, which the server knows that sent them the model.

    Clients are not told who else does: to them it is of all others alike.
    """
    if view.observers:
        return dict.fromkeys(view.others, 1 / len(view.others))
    rows = view.traffic("model")
    who = _receivers(rows[rows[:, 0] == round])
    counts = {}
    if view.loss_method().average == "weighted":
        for m in view.messages("count", round=round):
            counts[party(m.sender)] = float(m.payload)
    if not counts.keys() >= set(who):
        counts = dict.fromkeys(who, 1.0)
    whole = sum(counts[c] for c in who)
    return {c: counts[c] / whole for c in who} if whole else {}


def uncovered(run: Outline) -> str:
    """Why nothing is gained by adding up a run's updates, or nobody can be told apart in sums.

    Of others a client has nothing but sums, and reads what they are together.
    """
    if run.observers:
        return ""
    lines = [s for s in run.sent if (s["kind"], s["sender"]) == ("update", "client")]
    if lines and all(s["covered"] is False for s in lines):
        return "no wrapper covers updates, so that there is nothing to add up: see source=update"
    return inseparable(run)


def inseparable(run: Outline) -> str:
    """Why nobody can be told apart in sums; empty where somebody can, or nothing is summed."""
    if run.observers:
        return ""
    to = {s["receiver"] for s in run.sent if (s["kind"], s["sender"]) == ("update", "client")}
    if to and "server" not in to and _doubled(run.traffic("model")):
        return (
            "updates are summed, and every client always takes part together with the same other"
            " one, so that no sum tells the two apart; where less than all take part and they are"
            " drawn (fraction, select=random), company changes"
        )
    return ""


def rounds_read(run: Outline) -> float:
    """Of how many rounds covered updates are read, about, by all stages together."""
    stages = run.stages.values()
    return sum(1 + run.pooled * t / max(run.rounds, 1) for t in stages)


def _doubled(rows: Tensor) -> bool:
    """Has every client a double, in whose company it always is? ``rows``: (n, 3), the traffic."""
    taken: dict[int, set[int]] = {}
    for t, _, c in rows[rows[:, 0] > 0].tolist():
        if c >= 0:
            taken.setdefault(c, set()).add(t)
    alike: dict[frozenset[int], int] = {}
    for rounds in taken.values():
        alike[frozenset(rounds)] = alike.get(frozenset(rounds), 0) + 1
    return bool(alike) and min(alike.values()) > 1


def weights_of(parts: Sequence[Mapping[int, float]], who: Sequence[int]) -> Tensor:
    """(T, N) float64: the weight of each client of ``who`` in each message."""
    weights = torch.zeros(len(parts), len(who), dtype=torch.float64)
    place = {client: i for i, client in enumerate(who)}
    for row, one in zip(weights, parts, strict=True):
        for client, weight in one.items():
            row[place[client]] = weight
    return weights


def trusted(left: Tensor, sizes: Tensor) -> Tensor:
    """How much each message counts, (T,), the less the more of it is ``left`` unexplained (T,).

    What is left is a wrapper's noise, or what the equations are not true of. None counts for all,
    however well it is explained. Before anything is explained all of it is left, so that one
    message of a client that went astray does not drown the others. ``sizes`` (T,): the mean
    squares of the messages, of which a 1e-12th is rounding.
    """
    usual = left.median().clamp(min=1e-12 * float(sizes.median())).clamp(min=1e-300)
    return usual / (left + usual)


def pull(own: Tensor) -> Tensor:
    """(N,): how strongly each client is held to all together, of its equations' weight ``own``.

    Who was never apart from others so is as they are.
    """
    return RIDGE * own.clamp(min=float(own.max()) * 1e-6)


def apart(weights: Tensor, messages: Tensor) -> Tensor:
    """(N, T): by what each of T ``messages`` (T, P) is taken to have the part of each client.

    That is least squares, of messages that count as they are ``trusted``; ``weights`` (T, N).
    """
    sizes = messages.square().mean(1)
    counts = trusted(sizes, sizes)
    for turn in range(TURNS):
        found = _apart(weights, counts)
        if turn == TURNS - 1:
            break
        left = (messages - weights @ (found @ messages)).square().mean(1)
        counts = trusted(left, sizes)
    return found


def _apart(weights: Tensor, counts: Tensor) -> Tensor:
    whole, counted = weights.sum(1), counts[:, None] * weights
    centre = counts * whole / (counts * whole.square()).sum()  # the part that all have, were it one
    held = pull((counted * weights).sum(0))
    found: Tensor = torch.linalg.solve(
        counted.T @ weights + held.diag(), counted.T + held[:, None] * centre
    )
    return found
