"""What was not looked at: runs that are not complete, seeds that an attack has no number in."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from leakbench.base.meaning import Topic
from leakbench.base.reason import Reason, reason
from leakbench.results.listener import Listener, weaker
from leakbench.results.number import Number
from leakbench.results.settings import Setting
from leakbench.statistics.multiplicity import bonferroni

DRAWN = ("prototype", "label_counts")  # kinds that methods noise themselves, before a wrapper does
ENOUGH = 0.5  # of the rounds: over fewer, noise and company cancel much less than over all


def gaps(setting: Setting, attacks: Sequence[Number]) -> tuple[Reason, ...]:
    """All that an acquittal would pass over; none where all was looked at.

    Args:
        setting: with all its runs, complete or not.
        attacks: its numbers on one question, none of them made of several.
    """
    if not attacks:
        return ()
    out, complete = [], set(setting.seeds)
    every = {r.seed for r in setting.every} | complete
    if complete < every:
        out.append(reason("incomplete", some=len(complete), all=len(every)))
    own: dict[tuple[str, str], set[int]] = defaultdict(set)
    for n in attacks:
        own[n.attacker.key].update(n.seeds)
    attacked = set[int]().union(*own.values())
    if attacked < complete:
        out.append(reason("few_attacked", some=len(attacked), all=len(complete)))
    for (name, _), seeds in own.items():
        if attacked - seeds:
            out.append(reason("seed_lacks", attack=name, seeds=sorted(attacked - seeds)))
    return tuple(dict.fromkeys(out))


def unread(
    topic: Topic, setting: Setting, attacks: Sequence[Number], listener: Listener | None = None
) -> tuple[Reason, ...]:
    """What a listener receives that may tell the same, and that nobody looked into well.

    Of anyone (None) the server is asked, to whom all goes.

    A prototype is in a proxy, and in the update that was made with it: who reads one of the two in
    vain says nothing of the other, and neither does an attack that would not acquit by itself.
    """
    if not attacks or not topic.contents:
        return ()
    there = sorted(_reaching(setting, listener) & {*topic.kinds})
    able = {kind for n in attacks if _acquits(n, listener) for kind in n.attacker.reads}
    out: dict[str, list[str]] = defaultdict(list)
    for kind in there:
        on = [n for n in attacks if kind in n.attacker.reads]
        if why := "" if kind in able else _why(on, listener, alone=not able):
            out[why].append(kind)
    return tuple(reason("unread", kinds=kinds, by=why) for why, kinds in out.items())


def found_beside(others: Sequence[Number]) -> tuple[Reason, ...]:
    """Said where the question's own metric cannot acquit: by another one something was found.

    As members whom somebody is sure of, which an area under a curve does not show. More than the
    margin, and no luck of the best of so many.

    Args:
        others: single attacks' numbers in the question's other metrics.
    """
    real = [n for n in others if not n.weak]
    out = []
    for n in real:
        low = n.model_copy(update={"value": bonferroni(n.value, len(real))}).low
        if low > n.blind_high and n.leak > n.blind + n.meaning.matters:
            told = {"metric": n.meaning.heading, "attack": n.attacker.name}
            out.append(reason("found_beside", **told))
    return tuple(dict.fromkeys(out))


def picked(topic: Topic, setting: Setting) -> tuple[Reason, ...]:
    """Said where somebody chose the clients whose updates were recorded whole.

    They are no sample of the others, and may be those that leak least.
    """
    if topic.kind != "update":
        return ()
    named = {i for r in setting.runs for i in r.spec.get("record", {}).get("clients", ())}
    everybody = {int(r.meta.get("facts", {}).get("clients", 0)) for r in setting.runs}
    if not named or everybody == {len(named)}:
        return ()
    return (reason("chosen", count=len(named)),)


def unheard(
    topic: Topic, setting: Setting, attacks: Sequence[Number], listener: Listener | None = None
) -> tuple[Reason, ...]:
    """Said where nobody heard out what the messages of all rounds come to.

    They are noised or summed, and too few rounds of updates were kept, or no attack that may acquit
    added the messages up: what covers one does not cover their sum. Or each says more of what is
    asked, and too few were kept.
    """
    if not topic.contents:
        return ()
    kinds = {*topic.kinds} | ({"update"} if "sum" in topic.kinds else set())
    able = [n.attacker for n in attacks if n.attacker.pools and _acquits(n, listener)]
    added = {kind for a in able for kind in a.reads}
    out: list[Reason] = []
    for run in setting.runs:
        rounds, kept = int(run.spec["rounds"]), int(run.meta.get("pooled", 0))
        if topic.listens and (whole := _whole(run)) < ENOUGH * rounds:
            out.append(reason("few_updates", kept=whole, all=rounds))
        elif topic.listens and topic.kind not in added:
            out.append(reason("not_listened"))
        for kind in sorted(kinds & _covered(run.meta)):
            if kind == "update" and kept < ENOUGH * rounds:
                out.append(reason("few_rounds", kept=kept, all=rounds))
            elif kind not in added:
                out.append(reason("not_added_up", kind=kind))
    return tuple(dict.fromkeys(out))


def broken(setting: Setting) -> tuple[Reason, ...]:
    """Said where attacks prove more than a wrapper claims: it does not do what it says."""
    return tuple(p.breach for p in setting.privacy if p.broken)


def _whole(run: Any) -> int:
    """Of how many rounds whole updates were kept."""
    everything = run.spec["record"]["name"] == "all"
    return int(run.spec["rounds"]) if everything else len(run.meta["stages"])


def _covered(run: Mapping[str, Any]) -> set[str]:
    """What clients send again and again, changed by a wrapper, or drawn anew by a hiding method.

    Once sent, a message has no other round that could be added to it.
    """
    out = set()
    for line in run.get("sent", ()):
        own = run.get("hides", False) and line["kind"] in DRAWN
        if (line["covered"] or own) and (line["kind"] == "update" or line["rounds"] > 1):
            out.add(line["kind"])
    return out


def _reaching(setting: Setting, listener: Listener | None) -> set[str]:
    """The kinds that may tell this listener something of what clients hold."""
    if listener in (None, "server", "server+"):
        return {*setting.received}
    sent = [m for r in setting.every for m in r.meta.get("sent", ())]
    if listener == "aggregator":
        return {str(m["kind"]) for m in sent if m["receiver"] == "aggregator"}
    if listener == "outsider":
        return set()
    handed = {str(m["kind"]) for m in sent if m["sender"] == "server"}
    # Two models tell what was added to the first.
    return handed | ({"update"} if "model" in handed else set())


def _acquits(n: Number, listener: Listener | None) -> bool:
    """May it acquit of what it reads, if it finds nothing?"""
    return not (n.attacker.paper or _less(n, listener) or n.weak) and n.able


def _less(n: Number, listener: Listener | None) -> bool:
    """Was it somebody who does not see what the listener does, or, of anyone, the server?"""
    return weaker(n.attacker.listener, listener or "server")


def _why(on: Sequence[Number], listener: Listener | None, *, alone: bool) -> str:
    """By whom alone a kind was looked into, in ``on``, where that says little of it.

    ``alone``: no other kind was looked into. Then the verdict says by itself that the paper's own
    attack, or a weak one, does not acquit.
    """
    if not on:
        return "nobody"
    real = [n for n in on if not n.attacker.paper]
    if real and all(_less(n, listener) for n in real):
        return "clients" if listener is None else "one"
    if alone:
        return ""
    if not real:
        return "paper"
    return "weak"
