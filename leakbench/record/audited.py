"""Clients that a recording policy names: are there such, and in which audited rounds are they?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from leakbench.base.errors import UsageError
from leakbench.federation.defense import Defense
from leakbench.federation.selection import select
from leakbench.record.policy import Policy

Gone = dict[int, dict[str, int]]  # client -> {stage: round in which it takes no part}


def known_clients(policy: Policy, clients: int) -> None:
    """Does every client that is named exist among ``clients``?

    Raises:
        UsageError: one does not.
    """
    strange = [i for i in policy.clients if i >= clients]
    if strange:
        raise UsageError(
            f"record.clients: there is no client {_listed(strange)}; the {clients} clients are 0 to"
            f" {clients - 1}."
        )


def places(policy: Policy, chosen: Sequence[int]) -> list[int]:
    """Where in a round of the clients ``chosen`` those stand that are named and take part."""
    place = {client: j for j, client in enumerate(chosen)}
    return [place[i] for i in policy.clients if i in place]


def audited_lacking(policy: Policy, method: Defense, clients: int, rounds: int, seed: int) -> Gone:
    """The clients that are named, and of which audited rounds each is no part.

    Before the first and after the last round everybody is.

    Raises:
        UsageError: none of them is in any audited round; says how they would be.
    """
    if not policy.clients:
        return {}
    stages = policy.stages(rounds)
    out: Gone = {}
    for stage, t in stages.items():
        there = select(method, clients, seed=seed, t=t)
        for i in policy.clients:
            if i not in there:
                out.setdefault(i, {})[stage] = t
    if len(out) == len(policy.clients) and all(len(gone) == len(stages) for gone in out.values()):
        raise UsageError(
            f"record.clients: none of {_listed(policy.clients)} takes part in an audited round"
            f" ({_listed(stages.values())}); let all clients take part in every round with -s"
            " fraction=1, or name others."
        )
    return out


def outside_lacking(
    policy: Policy, rounds: int, sent: Iterable[Sequence[int]], observer: str = ""
) -> list[str]:
    """What the record of somebody's own loop lacks of what was sent, a sentence each.

    Args:
        policy: by which it was kept.
        rounds: how many there were.
        sent: (round, client, receiver) of every update.
        observer: who was declared to observe, where it is a weaker one than the server.
    """
    stages = policy.stages(rounds)
    who: dict[int, set[int]] = {}
    for t, client, _ in sent:
        who.setdefault(t, set()).add(client)
    kept = sorted(stages.values())
    out = [f"the observer is declared: {observer}; of others nothing is said"] if observer else []
    if policy.name == "standard" and len(kept) < rounds:
        out.append(
            f"of {rounds} rounds the messages of {_listed(kept)} were kept: what was sent in others"
            " is not attacked"
        )
    most = max((len(who.get(t, ())) for t in kept), default=0)
    if policy.name == "standard" and most > policy.audited:
        whose = f"clients {_listed(policy.clients)}, by name" if policy.clients else "drawn"
        out.append(
            f"of up to {most} clients a round the updates of {policy.audited} were kept ({whose}):"
            " what others sent is not attacked"
        )
    gone: Gone = {}
    for stage, t in stages.items():
        for client in policy.clients:
            if client not in who.get(t, ()):
                gone.setdefault(client, {})[stage] = t
    return [*out, *gone_sentences(gone)]


def missing_lines(sentences: Iterable[str]) -> list[dict[str, str]]:
    """What is missing of a whole run, as run.json has it."""
    return [{"attack": "", "metric": "", "reason": why} for why in sentences]


def gone_sentences(gone: Gone) -> list[str]:
    """A sentence for each client of which something is lacking."""
    out = []
    for i, stages in gone.items():
        when = ", ".join(f"{t} ({stage})" for stage, t in stages.items())
        out.append(
            f"client/{i} was chosen to be audited, but takes no part in round {when}: nothing of it"
            " is recorded there, and nobody is in its place"
        )
    return out


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))
