"""How large a run folder will be, and what is lowered when that is too much."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from leakbench.base.errors import UsageError
from leakbench.base.tree import Tree, nbytes
from leakbench.federation.federation import Federation
from leakbench.federation.observer import Observer
from leakbench.federation.selection import round_size
from leakbench.record import last_layers
from leakbench.record.messages import LARGE
from leakbench.record.policy import Policy
from leakbench.record.recorder import LARGEST

LIMIT = 2 * 1024**3  # bytes


class _Controls(Observer[Federation]):
    """Notes how large a message is that only the control holds: of a kind that nobody sends."""

    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}

    def up(self, fed: Federation, name: str, each: Tree, sent: Tree, draws: Tree) -> None:
        """Asked of what is sent besides updates."""
        if name != "count":
            more = {k: v for k, v in fed.undefended(name, each, sent).items() if k not in sent}
            self.sizes |= {k: nbytes(v) // len(fed.chosen) for k, v in more.items()}


def tried(make: Callable[[], Federation]) -> Federation:
    """A federation after one round, of which nothing is written."""
    fed = make()
    fed.recorder = _Controls()
    fed.begin()
    fed.step()
    return fed


def predicted(policy: Policy, fed: Federation, rounds: int) -> int:
    """Bytes of transcript, control and truth, from the one round that ``fed`` has run."""
    chosen = round_size(fed.method, fed.facts.clients)

    def kept(kind: str, size: int, *, uplink: bool) -> int:
        how: dict[str, Any] = {"uplink": uplink, "fraction": fed.method.fraction}
        return sum(policy.keeps(kind, size, t, rounds, **how) for t in range(1, rounds + 1))

    size = _audited(policy, fed, rounds, chosen)
    for (kind, sender, _), (times, messages, total, _) in fed.traffic.totals.items():
        if kind in LARGE or kind == "sum":
            continue
        uplink = sender == "client"
        per_round = total // max(times, 1)
        # Control, draws and secrets stand beside an uplink.
        copies = 4 if uplink else 1
        size += kept(kind, total // messages, uplink=uplink) * per_round * copies
    for kind, one in fed.recorder.sizes.items() if isinstance(fed.recorder, _Controls) else ():
        # In the control, and in the truth as what the message stands for.
        size += kept(kind, one, uplink=True) * 2 * chosen * one
    return size


def _audited(policy: Policy, fed: Federation, rounds: int, chosen: int) -> int:
    """Bytes of models, single updates and probes of the audited rounds."""
    method, model = fed.method, nbytes(fed.model)
    audits = rounds
    if policy.name == "standard":
        audits = sum(policy.audits(t, rounds) for t in range(rounds + 2))
    audited = chosen if policy.name == "all" else min(policy.audited, chosen)
    doubled = 2 if any("update" in w.kinds for w in fed.wrappers) else 1
    sent = [n for (kind, _, _), n in fed.traffic.totals.items() if kind == "update" and n[0]]
    phases = max((messages // (times * chosen) for times, messages, *_ in sent), default=1)
    own = nbytes(dict(fed.columns)) // len(fed.everyone)
    numbers = fed.data.train.stored[0].numel()
    inputs = numbers * torch.finfo(fed.dtype).bits // 8
    mean_count = int(fed.data.counts.double().mean())
    seen = method.batch * method.steps or method.epochs * mean_count
    recorded = seen * numbers <= LARGEST or method.steps == 1
    batch = seen * inputs if recorded else 0
    probes = min(policy.probes, method.batch)
    update = doubled * model + own  # beside it in the truth: what the client held before
    parts = 0
    if policy.name == "standard" and policy.audited:
        layer = nbytes({k: fed.model[k] for k in fed.last_layer if k in fed.model})
        parts = doubled * layer * min(last_layers.affordable(fed, policy, rounds), chosen - audited)
    turns = last_layers.turns(fed)
    kept = [policy.keeps_last_layers(t, rounds, turns) for t in range(rounds + 2)]
    whole = audits * (model + audited * (update + batch + probes * (update + inputs)))
    pooled = 0
    if policy.name == "standard":
        many = last_layers.pooled_rounds(fed, policy, rounds)
        pooled = many * last_layers.pooled_bytes(fed, rounds)
    return phases * (whole + sum(kept) * parts) + pooled


def fitted(
    policy: Policy, make: Callable[[], Federation], rounds: int, say: Callable[[str], None]
) -> Policy:
    """``policy``, lowered until the folder is predicted to stay within 2 GiB.

    Raises:
        UsageError: it does not fit even then; says what to change.
    """
    fed = tried(make)
    lower = [{"probes": p} for p in (8, 4, 1, 0)]
    lower += [{"audited": a} for a in (3, 1)]
    lower += [{"spaced": s} for s in (4, 1, 0)]
    size, asked = predicted(policy, fed, rounds), policy
    for change in lower:
        if size <= LIMIT or policy.name == "all":
            break
        least = {"audited": len(policy.clients)}  # who was chosen stays
        less = {k: min(max(v, least.get(k, 0)), getattr(policy, k)) for k, v in change.items()}
        policy = policy.model_copy(update=less)
        size = predicted(policy, fed, rounds)
    if size > LIMIT:
        hint = "use fewer rounds or a smaller model"
        if policy.name == "all":
            hint = "use --record standard"
        raise UsageError(
            f"the record of this run would take {size / 1024**3:.1f} GiB, 2 GiB are allowed:"
            f" {hint}."
        )
    if policy != asked:
        say(
            f"The record would exceed 2 GiB: now {policy.probes} probes, {policy.audited} audited"
            f" clients, {policy.spaced} spaced rounds."
        )
    return policy
