"""How large a run folder will be, and what is lowered when that is too much."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from leakbench.errors import UsageError
from leakbench.policy import Policy
from leakbench.transcript import LARGE
from leakbench.tree import nbytes

if TYPE_CHECKING:
    from leakbench.federation import Federation

LIMIT = 2 * 1024**3  # bytes


def predicted(policy: Policy, fed: Federation, rounds: int) -> int:
    """Bytes of transcript, control and truth, from one round already run by ``fed`` without a recorder."""
    totals = fed.traffic.totals
    model = nbytes(fed.model)
    audits = sum(policy.audits(t, rounds) for t in range(rounds + 2)) if policy.name == "standard" else rounds
    chosen = max(1, round(fed.method.fraction * fed.facts.clients))
    audited = chosen if policy.name == "all" else min(policy.audited, chosen)
    doubled = 2 if any("update" in w.kinds for w in fed.wrappers) else 1
    phases = max((n[1] // (n[0] * chosen) for (kind, _, _), n in totals.items() if kind == "update" and n[0]), default=1)
    own = sum(nbytes(v) for k in ("own", "state", "kept") for v in fed.columns[k].values()) // len(fed.everyone)
    size = audits * phases * (model + audited * (own + doubled * model * (1 + min(policy.probes, fed.method.batch))))
    for (kind, sender, _), (times, messages, total, _) in totals.items():
        if kind in LARGE or kind == "sum":
            continue
        uplink, one = sender == "client", total // messages
        kept = sum(policy.keeps(kind, one, t, rounds, uplink=uplink, fraction=fed.method.fraction) for t in range(1, rounds + 1))
        per_round = total // max(times, 1)
        size += kept * per_round * (4 if uplink else 1)  # control, draws and secrets stand beside an uplink
    return size


def fitted(policy: Policy, make: Callable[[], Federation], rounds: int, say: Callable[[str], None]) -> Policy:
    """``policy``, lowered until the folder is predicted to stay within 2 GiB.

    Raises:
        UsageError: it does not fit even then; says what to change.
    """
    fed = make()
    fed.begin()
    fed.step()
    lower = (
        [{"probes": p} for p in (8, 4, 1, 0)]
        + [{"probes": 0, "audited": a} for a in (3, 1)]
        + [{"probes": 0, "audited": 1, "spaced": s} for s in (4, 1, 0)]
    )
    size = predicted(policy, fed, rounds)
    for change in lower:
        if size <= LIMIT or policy.name == "all":
            break
        policy = policy.model_copy(update={k: min(v, getattr(policy, k)) for k, v in change.items()})
        size = predicted(policy, fed, rounds)
        say(f"The record would exceed 2 GiB: now {policy.probes} probes, {policy.audited} audited clients, {policy.spaced} spaced rounds.")
    if size > LIMIT:
        hint = "use --record standard" if policy.name == "all" else "use fewer rounds or a smaller model"
        raise UsageError(f"the record of this run would take {size / 1024**3:.1f} GiB, 2 GiB are allowed: {hint}.")
    return policy
