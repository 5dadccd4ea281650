"""The contract of an attack.

``run`` is small and sees a view; the call around it is final and checks what comes out.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, final

from pydantic import AfterValidator, Field, SerializerFunctionWrapHandler, model_serializer

from leakbench.attacking.guess import Guess, checked_guesses
from leakbench.attacking.metric import Metric
from leakbench.base.float32 import whole_float32
from leakbench.base.spec import Spec
from leakbench.federation.traffic import attacker_name, members
from leakbench.record.knowledge import chosen, covered

if TYPE_CHECKING:
    import torch

    from leakbench.attacking.public_facts import Outline
    from leakbench.attacking.view import ThreatModel, View


class Attack(Spec):
    """What reads a view and guesses.

    Fields are hyperparameters. An attack never sees the truth; what it declares in ``threat`` is
    all it can read.
    """

    about: ClassVar[str]
    metrics: ClassVar[tuple[Metric, ...]]
    paper: ClassVar[str] = ""
    order: ClassVar[int] = 0  # place within its rung in the cascade
    # "stages": each audited round is attacked with what was sent until then; "all": one attack
    # over all rounds.
    over: ClassVar[Literal["stages", "all"]] = "stages"
    curve: ClassVar[bool] = False  # also at every surveyed round, for curves over rounds
    # Why a client that sent something may be no unit, of an attack over all rounds or on updates.
    # Such clients are counted in missing.csv.
    left_out: ClassVar[str] = ""
    # Does it search, and say by a guess's flags where its search did not settle?
    searches: ClassVar[bool] = False
    class_mean: ClassVar[bool] = True  # a reconstruction's blind guess: that of auxiliary data?
    # How a client that attacks can read what the server hands on to it of others: "rows", where
    # the attack takes the rows of a message one by one, whoever sent them; "banks", where it reads
    # for itself the rows, one for each client, that the server sends; "": it cannot. Updates are
    # apart: any attack may read what models tell of them.
    handed: ClassVar[Literal["", "rows", "banks"]] = ""
    # Do its parameters say who observes where that is the server? As they did before all had it.
    says_server: ClassVar[bool] = False
    # The settings that are run where no attack is named.
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({},)

    seed: int = Field(
        0, ge=0, description="the attack's own dice; the run's seed is never shown to it"
    )
    observer: Annotated[str, AfterValidator(attacker_name)] = Field(
        "server",
        description=(
            "who attacks: server (or whom the attack is of); client/9, by what it is sent; or"
            ' "clients/1,4,7", who tell each other'
        ),
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        # Whatever an attack declares that it reads, who reads it is said by its field.
        for name in ("threat", "floor_threat"):
            declared = vars(cls).get(name)
            if isinstance(declared, property) and declared.fget:
                setattr(cls, name, property(_observed(declared.fget), doc=declared.__doc__))

    @model_serializer(mode="wrap")
    def _plain(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without ``observer`` where it is the server: such rows are called as they always were."""
        told: dict[str, Any] = dump(self)
        plain = self.observer == "server" and not self.says_server
        return {k: v for k, v in told.items() if k != "observer" or not plain}

    @property
    def curious(self) -> bool:
        """Is it a client that attacks, or several?"""
        return bool(members(self.observer))

    @property
    @abstractmethod
    def threat(self) -> ThreatModel:
        """May depend on the fields: a stronger setting declares more."""

    @property
    def floor_threat(self) -> ThreatModel:
        """What the blind guess may read.

        More than the attack, where it takes a class mean of auxiliary data.
        """
        return self.threat

    @property
    def pools(self) -> bool:
        """Is a guess made of what a sender's messages, or their sums, of all rounds add up to?

        Then what a wrapper draws anew for each of them has been heard out.
        """
        return False

    def hears_out(self, run: Outline) -> bool:
        """Does it pool, and read so much of this run that nothing it left out would tell more?"""
        return self.pools

    def obstacle(self, run: Outline) -> str:
        """Why this attack does not fit what was shared, or what a part of the run kept of it.

        Empty where it fits.
        """
        if run.observers:
            return self._unseen(run)
        sent = {(s["kind"], s["receiver"]) for s in run.sent if s["sender"] == "client"}
        tells = run.method.tells
        if tells and "update" in self.threat.kinds:
            if covered(run.sent, tells):
                if covered(run.sent, "update") or run.partial:
                    return (
                        f"a wrapper covers {tells}, by which every client bends its own update, and"
                        " by how much cannot be told here, so nothing is said of what an update"
                        " gives away"
                    )
            elif (tells, "server") in sent:
                sent.add(("update", "server"))  # as good as
        if "sum" in self.threat.kinds:  # what an aggregator makes of it is read as well
            sent |= {(kind, "server") for kind, to in sent if to == "aggregator"}
        lacking = [k for k in self.attacks(run) if (k, "server") not in sent]
        if lacking:
            if (lacking[0], "aggregator") in sent:
                return f"the server receives only the sum of what clients send as {lacking[0]}"
            return f"clients send the {self.threat.observer} no {lacking[0]}"
        return run.lacks(self.threat.kinds, (*self.threat.knows, *self.floor_threat.knows))

    def _unseen(self, run: Outline) -> str:
        """Why a curious client gets nothing of the others to attack; empty where it does."""
        if run.observers[-1] >= run.facts.clients:
            return (
                f"there is no client/{run.observers[-1]}: the clients are 0 to"
                f" {run.facts.clients - 1}"
            )
        if len(run.observers) == run.facts.clients:
            return "all clients observe, so that there is nobody left to find out about"
        secret = [
            row.name for row in chosen(self.threat.knows) if row.held in ("updates", "counts")
        ]
        if secret:
            return f"nobody tells a client the {secret[0]} behind another client's update"
        for kind in self.attacks(run):
            if why := self._not_handed_on(run, kind):
                return why
        return run.lacks(self.threat.kinds, (*self.threat.knows, *self.floor_threat.knows))

    def _not_handed_on(self, run: Outline, kind: str) -> str:
        """Why clients get nothing of this kind of others that this attack could read."""
        if kind == "update":
            return self._no_update_told(run)
        given = {s["kind"] for s in run.sent if s["sender"] == "server"}
        to_all = {s["kind"] for s in run.sent if s["receiver"] == "client/*"}
        if kind not in given & to_all:
            return f"clients receive no {kind} of other clients"
        if not self.handed:
            return f"of the {kind} that clients receive nobody tells them whose they are"
        return ""

    def _no_update_told(self, run: Outline) -> str:
        """Why no two models tell what this attack could read of updates."""
        models = {
            s["receiver"] for s in run.sent if (s["kind"], s["sender"]) == ("model", "server")
        }
        none = "clients receive no update of other clients"
        if "client/*" not in models:
            return f"{none}, and no model"
        if not run.method.adds_mean:
            return f"{none}, and two models do not differ by the mean of what others sent"
        if len(run.observers) + 1 < run.facts.clients and "sum" not in self.threat.kinds:
            return (
                f"{none}: two models differ by what several others sent together, and this setting"
                " reads single updates"
            )
        return ""

    def falls_to(self, run: Outline) -> dict[str, Any]:
        """Settings that nobody chose and that are read in place of the defaults, for this run.

        Where of what the defaults read nothing was kept, and of something else there was.
        """
        return {}

    def nothing_kept(self, run: Outline) -> str:
        """Why it found nothing to attack though it fits."""
        kinds, who = list(self.threat.kinds), self.threat.observer
        if not members(who):
            return f"no message of the kinds {kinds} was kept"
        return (
            f"of the kinds {kinds} nothing was kept that tells {who} of others; of models that does"
            " what it received in two rounds in a row"
        )

    def attacks(self, run: Outline) -> tuple[str, ...]:
        """The kinds of message that a client must send for there to be something to attack."""
        return self.threat.kinds[:1]

    def stages(self) -> tuple[str, ...]:
        """The audited rounds that are attacked; all of them where this is empty."""
        return ()

    def stages_of(self, run: Outline) -> tuple[str, ...]:
        """The same where it depends on what the run shared."""
        return self.stages()

    def covers(self, guess: Guess) -> set[str]:
        """The clients that a guess is about; its unit, unless the units are no clients."""
        return {guess.unit}

    def conditions(self, run: Outline) -> dict[str, str]:
        """What a reader compares two attacks of this kind by: name -> a few words for the page."""
        return {}

    def seconds(self, run: Outline) -> float:
        """Predicted time on two cores; over ten minutes it is not run unless named."""
        return 1.0

    def within(self, run: Outline, seconds: float) -> dict[str, Any]:
        """Parameters with which it ends within so many seconds, as it says; {} for none."""
        return {}

    @abstractmethod
    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        """Guesses from the view, one per client (and probe) attacked."""

    @abstractmethod
    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        """The floor: the same units, guessed without any message of the victim."""

    @final
    def __call__(self, view: View, *, blind: bool = False) -> list[Guess]:
        """Run (or guess blindly), and check what came of it and what became of what it was given.

        Each call is of a copy of the attack: what one notes on itself no other one finds.

        Raises:
            MethodError: two guesses for one unit, one of a unit that does not exist or of another
                round, one that is not finite and does not say it failed; or the attack wrote into
                what it was given.
        """
        import hashlib

        import torch

        who = type(self).__name__
        key = hashlib.sha256(f"{who}/{self.seed}/{view.round}/{blind}".encode()).digest()
        rng = torch.Generator().manual_seed(int.from_bytes(key[:7], "big"))
        own = self.model_copy(deep=True)
        with whole_float32():
            guesses = own.blind(view, rng) if blind else own.run(view, rng)
        if view.observers and isinstance(guesses, list | tuple):
            # Of itself an observer knows, and is no unit.
            own_names = {f"client/{i}" for i in view.observers}
            guesses = [g for g in guesses if getattr(g, "unit", "") not in own_names]
        view._unwritten(who)
        return checked_guesses(guesses, who, view, self.covers)


def _observed(declared: Callable[[Any], ThreatModel]) -> Callable[[Any], ThreatModel]:
    """``declared``, with the attack's ``observer`` where that is another one than the server."""

    def threat(attack: Any) -> ThreatModel:
        found = declared(attack)
        if attack.observer in ("server", found.observer):
            return found
        return found.model_copy(update={"observer": attack.observer})

    return threat
