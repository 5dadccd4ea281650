"""Which bank did a client mix with: the one of the round in which it sent, never an older one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attacks._unmixing import Bank
from leakbench import View
from leakbench.base import torch
from leakbench.federation import SERVER, party

if TYPE_CHECKING:
    from torch import Tensor

    Proxies = Mapping[int, Mapping[int, Tensor]]  # round -> client -> what it sent


def sent(view: View) -> dict[int, dict[int, Tensor]]:
    """{round: {client: its prototype as sent}} of all that is kept, rounds ascending, float64."""
    out: dict[int, dict[int, Tensor]] = {}
    for m in view.messages("prototype"):
        if m.sender != "server":
            out.setdefault(m.round, {})[party(m.sender)] = m.payload.double()
    return dict(sorted(out.items()))


def received(view: View) -> dict[int, Tensor]:
    """{round: the bank (clients, dim) that the server sent to all of the round}, float64."""
    down = view.messages("prototype", sender="server")
    return {m.round: m.payload.double() for m in down if m.receiver == "client/*"}


def exact(view: View, proxies: Proxies, newest: int) -> dict[int, Bank]:
    """{round: its bank} where that is known to the last bit.

    Of the rounds in which somebody sent one of its ``newest`` messages. A bank was sent to the
    clients in that round and kept, or it is the last one kept with all the rows replaced that came
    since; where one of these was not kept, there is none. If a bank that was kept is not what that
    gives, the method changes its bank in other ways, and only those that were sent count.
    """
    down, wanted = received(view), _wanted(proxies, newest)
    senders: dict[int, set[int]] = {}
    for t, sender, _ in view.traffic("prototype").tolist():
        if sender != SERVER:
            senders.setdefault(t, set()).add(sender)
    out: dict[int, Bank] = {}
    bank: Tensor | None = None
    for t in range(view.round + 1):
        if t in down:
            if bank is not None and not torch.equal(bank, down[t]):
                return {u: Bank(rows) for u, rows in down.items() if u in wanted}
            bank = down[t]
        if bank is None:
            continue
        if t in wanted:
            out[t] = Bank(bank)
        # A round of which the traffic tells nothing may have had senders all the same.
        came = proxies.get(t, {})
        bank = _replaced(bank, came) if senders.get(t) and senders[t] <= came.keys() else None
    return out


def own_rounds(view: View, observer: int) -> list[Tensor]:
    """The banks that a client received, oldest first, with none between that was not kept."""
    down = received(view)
    rounds = {t for t, _, receiver in view.traffic("prototype").tolist() if receiver == observer}
    out: list[Tensor] = []
    for t in sorted(rounds, reverse=True):
        if t not in down:
            break
        out.append(down[t])
    return out[::-1]


def _wanted(proxies: Proxies, newest: int) -> set[int]:
    """The rounds of each client's ``newest`` messages."""
    rounds: dict[int, list[int]] = {}
    for t, came in proxies.items():
        for client in came:
            rounds.setdefault(client, []).append(t)
    return {t for of in rounds.values() for t in of[-newest:]}


def _replaced(bank: Tensor, came: Mapping[int, Tensor]) -> Tensor:
    """A bank with the rows that came."""
    rows = torch.tensor(list(came), device=bank.device)
    return bank.index_copy(0, rows, torch.stack(list(came.values())))
