"""Un-mixing: the neighbours in a proxy are public, and chosen by the prototype that they hide."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from attacks import _unmixing_banks as banks
from attacks import _unmixing_settings as settings
from attacks._proxies import FromProxies
from attacks._unmixing import Mixed
from attacks._unmixing_curious import Turns
from attacks._unmixing_rounds import Unmixed, unmixed
from leakbench import Guess, Metric, View
from leakbench.attacking import Outline
from leakbench.base import torch
from leakbench.metrics import P_LEAK, PROTOTYPE_COSINE, RECOVERED, RECOVERY_PRECISION

if TYPE_CHECKING:
    from torch import Tensor

TURNS = 5  # rounds of its own from which a client learns in what order the others send
LENGTH = 1e-4  # a message's length differs from 1 by no more, unless it was changed on its way


class PrototypeUnmixing(FromProxies):
    """Solves each client's newest message for the true prototype w that was mixed into it.

    A method says of what a message is made (``Defense.mixture``): w and the k rows of the bank of
    that round that are nearest to w. A set of rows gives w; the right one consists of w's nearest,
    and that is how an answer is known to be one (``accepted``). The search starts from ridge
    regressions of the message on the bank, takes again the nearest rows of what it finds, and
    exchanges single rows. Where the newest message defies it, older ones begin it anew.

    Only the bank is used that the client had, never an older one, with which wrong answers look
    right. A guess that is not accepted is the best that was found, flagged ``loss_did_not_fall``,
    or ``restarts_disagree`` where two prototypes explain the message: where all proxies are nearly
    one, w and its mirror image do, and ``twin`` takes the other one. Messages that a wrapper
    changed are solved as if they were none, and nothing is accepted where their lengths betray it;
    nor where clients draw the weight, of which only the largest is known.

    A client that attacks receives only the banks of its own rounds. Where rounds go through one
    unchanging order it learns that from which bank fits whose messages, and with it the others'
    banks; accepted is what that leaves no doubt about. Of several who tell each other only the
    first one's rounds are used.

    ``told`` = "alpha", "k" or "nothing": the attacker does not know the rest, and finds it: k by
    how many messages have a solution, alpha as the smallest weight under which nearly all have.
    """

    about: ClassVar[str] = "solves a mixture of prototypes, whose neighbours are public"
    paper: ClassVar[str] = "adaptive; named, not tried, in FedHide, Section 4.3"
    order: ClassVar[int] = 2
    searches: ClassVar[bool] = True
    metrics: ClassVar[tuple[Metric, ...]] = (
        P_LEAK,
        PROTOTYPE_COSINE,
        RECOVERED,
        RECOVERY_PRECISION,
    )
    over: ClassVar[Literal["stages", "all"]] = "all"
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"twin": True})
    left_out: ClassVar[str] = "no bank that it mixed with is known whole"

    window: int = Field(10, ge=1, description="newest messages of each client that are used")
    told: Literal["all", "alpha", "k", "nothing"] = Field(
        "all", description="what the attacker is told of the mixture; the rest it estimates"
    )

    twin: bool = Field(
        False, description="of two prototypes that explain a message the less likely one"
    )

    def obstacle(self, run: Outline) -> str:
        if why := super().obstacle(run):
            return why
        made = run.method.mixture()
        if made is None:
            return "clients mix nothing of others into what they send"
        return "" if made.own > 0 else "clients mix nothing of their own into what they send"

    def seconds(self, run: Outline) -> float:
        facts = run.facts
        many = 1 if self.told == "all" and self.observer == "server" else 20
        return many * facts.clients * (0.02 + 1e-7 * facts.clients * facts.dim)

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        made = view.method.mixture()
        if made is None:
            return []
        newest = {who: held[-1].vector for who, held in self.sent(view).items()}
        # Under another weight than the true one wrong answers look right.
        exact = not made.drawn and all(
            abs(float(v.double().norm()) - 1) < LENGTH for v in newest.values()
        )
        if made.own == 1:  # nothing is mixed in
            return [Guess(who, view.round, {"prototype": v}, exact) for who, v in newest.items()]
        if not view.observers:
            messages = self._messages(view, made.own, made.neighbours)
            sure = set(newest)
        else:
            messages, sure = self._seen(view, made.own, made.neighbours)
        found = unmixed(self._estimated(messages))
        sure = sure if exact else set()
        out = []
        for who, vector in newest.items():
            last = who in found and torch.equal(messages[who][-1].message, vector.double())
            one = found.get(who)
            if one and self.twin and one.twin is not None:
                one = one._replace(prototype=one.twin)
            out.append(_guess(who, view.round, one, last, who in sure))
        return out

    def _seen(self, view: View, alpha: float, k: int) -> tuple[dict[str, list[Mixed]], set[str]]:
        """What a client sees: the others' messages with the banks of their turns, and who is sure.

        Where clients are drawn at random, as if they were sent in its own rounds.
        """
        method, observer = view.method, view.observers[0]
        seen = banks.own_rounds(view, observer)[-TURNS - 1 :]
        size = max(1, round(method.fraction * view.facts.clients))
        if method.select == "round_robin" or size == view.facts.clients:
            messages, sure = Turns(seen, observer, alpha, k).ordered(size)
        else:
            messages, sure = Turns(seen, observer, alpha, k).first(), set()
        named = {f"client/{c}": of for c, of in sorted(messages.items())}
        return named, {f"client/{c}" for c in sure}

    def _messages(self, view: View, alpha: float, k: int) -> dict[str, list[Mixed]]:
        """{client: its newest messages of which the bank is known, oldest first}."""
        proxies = banks.sent(view)
        known = banks.exact(view, proxies, self.window)
        out: dict[str, list[Mixed]] = {}
        for t, came in proxies.items():
            for client, message in came.items():
                if t in known:
                    mixed = Mixed(known[t], client, message, alpha, k)
                    out.setdefault(f"client/{client}", []).append(mixed)
        return {who: of[-self.window :] for who, of in out.items()}

    def _estimated(self, messages: dict[str, list[Mixed]]) -> dict[str, list[Mixed]]:
        """With the settings of the mixture that the attacker is not told."""
        sample = [of[-1] for of in messages.values()][: settings.SAMPLE]
        if self.told == "all" or not sample:
            return messages
        alpha, k = sample[0].alpha, sample[0].k
        if self.told == "alpha":
            k = settings.neighbours(sample)
        else:
            alpha, k = settings.both(sample, (k,) if self.told == "k" else ())

        def under(of: list[Mixed]) -> list[Mixed]:
            return [replace(m, alpha=alpha, k=k) for m in of]

        return {who: under(of) for who, of in messages.items()}


def _guess(who: str, t: int, found: Unmixed | None, last: bool, sure: bool) -> Guess:
    """``last``: is it of the client's newest message? ``sure``: with this bank?"""
    if found is None:
        return Guess(who, t, failed="the bank that it mixed with was not kept")
    flags: tuple[str, ...] = () if found.newest and last else ("loss_did_not_fall",)
    if not flags and not found.agree:
        flags = ("restarts_disagree",)
    tensors: dict[str, Tensor] = {"prototype": found.prototype}
    return Guess(who, t, tensors, accepted=sure and not flags, flags=flags)
