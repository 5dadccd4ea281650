"""How large a run folder will be, and what is lowered when that is too much."""

from __future__ import annotations

from collections.abc import Callable

import torch

from leakbench.base.errors import UsageError
from leakbench.base.tree import Tree, nbytes
from leakbench.federation.federation import Federation
from leakbench.federation.observer import Observer
from leakbench.federation.selection import round_size
from leakbench.record.messages import LARGE
from leakbench.record.policy import Policy
from leakbench.record.recorder import LARGEST

LIMIT = 2 * 1024**3  # bytes


class _Controls(Observer[Federation]):
    """Notes how large a message is that only the control holds: of a kind that nobody sends."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}

    def up(self, fed: Federation, name: str, each: Tree, sent: Tree) -> None:
        """Asked of what is sent besides updates."""
        if name != "count":
            bare = fed.undefended(name, each)
            self.sizes |= {
                k: nbytes(v) // len(fed.chosen) for k, v in bare.items() if k not in sent
            }


def tried(make: Callable[[], Federation]) -> Federation:
    """A federation after one round, of which nothing is written."""
    fed = make()
    fed.recorder = _Controls()
    fed.begin()
    fed.step()
    return fed


def predicted(policy: Policy, fed: Federation, rounds: int) -> int:
    """Bytes of transcript, control and truth, from one round already run by ``fed``, which was
    ``tried``.
    """
    totals = fed.traffic.totals
    model = nbytes(fed.model)
    audits = (
        sum(policy.audits(t, rounds) for t in range(rounds + 2))
        if policy.name == "standard"
        else rounds
    )
    chosen = round_size(fed.method, fed.facts.clients)
    audited = chosen if policy.name == "all" else min(policy.audited, chosen)
    doubled = 2 if any("update" in w.kinds for w in fed.wrappers) else 1
    phases = max(
        (
            n[1] // (n[0] * chosen)
            for (kind, _, _), n in totals.items()
            if kind == "update" and n[0]
        ),
        default=1,
    )
    own = sum(nbytes(v) for k in ("own", "state", "kept") for v in fed.columns[k].values()) // len(
        fed.everyone
    )
    inputs = fed.data.train.stored[0].numel() * torch.finfo(fed.dtype).bits // 8
    seen = fed.method.batch * fed.method.steps or fed.method.epochs * int(
        fed.data.counts.double().mean()
    )
    batch = (
        seen * inputs
        if seen * fed.data.train.stored[0].numel() <= LARGEST or fed.method.steps == 1
        else 0
    )
    probes = min(policy.probes, fed.method.batch)
    update = doubled * model + own  # beside it in the truth: what the client held before
    size = audits * phases * (model + audited * (update + batch + probes * (update + inputs)))
    for (kind, sender, _), (times, messages, total, _) in totals.items():
        if kind in LARGE or kind == "sum":
            continue
        uplink, one = sender == "client", total // messages
        kept = sum(
            policy.keeps(kind, one, t, rounds, uplink=uplink, fraction=fed.method.fraction)
            for t in range(1, rounds + 1)
        )
        per_round = total // max(times, 1)
        # Control, draws and secrets stand beside an uplink.
        size += kept * per_round * (4 if uplink else 1)
    for kind, one in fed.recorder.sizes.items() if isinstance(fed.recorder, _Controls) else ():
        kept = sum(
            policy.keeps(kind, one, t, rounds, uplink=True, fraction=fed.method.fraction)
            for t in range(1, rounds + 1)
        )
        # In the control, and in the truth as what the message stands for.
        size += kept * 2 * chosen * one
    return size


def fitted(
    policy: Policy, make: Callable[[], Federation], rounds: int, say: Callable[[str], None]
) -> Policy:
    """``policy``, lowered until the folder is predicted to stay within 2 GiB.

    Raises:
        UsageError: it does not fit even then; says what to change.
    """
    fed = tried(make)
    lower = (
        [{"probes": p} for p in (8, 4, 1, 0)]
        + [{"probes": 0, "audited": a} for a in (3, 1)]
        + [{"probes": 0, "audited": 1, "spaced": s} for s in (4, 1, 0)]
    )
    size = predicted(policy, fed, rounds)
    for change in lower:
        if size <= LIMIT or policy.name == "all":
            break
        policy = policy.model_copy(
            update={k: min(v, getattr(policy, k)) for k, v in change.items()}
        )
        size = predicted(policy, fed, rounds)
        say(
            f"The record would exceed 2 GiB: now {policy.probes} probes, {policy.audited} audited"
            f" clients, {policy.spaced} spaced rounds."
        )
    if size > LIMIT:
        hint = (
            "use --record standard"
            if policy.name == "all"
            else "use fewer rounds or a smaller model"
        )
        raise UsageError(
            f"the record of this run would take {size / 1024**3:.1f} GiB, 2 GiB are allowed:"
            f" {hint}."
        )
    return policy
