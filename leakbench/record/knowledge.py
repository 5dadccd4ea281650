"""What an attacker may know of a run: a row for each kind, and what all of it is read from.

A threat model grants a kind by its name (``ThreatModel.knows``). All else follows from the row:
whether a run holds it, what of it is told to whom, how it comes into a process of its own, what an
export or an excerpt of a run lacks of it, and which flag the numbers carry.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from leakbench.base.errors import UsageError
from leakbench.base.lazy import torch
from leakbench.federation.defense import Defense
from leakbench.federation.parties import Facts
from leakbench.federation.traffic import members, party
from leakbench.record.messages import Message

if TYPE_CHECKING:
    from torch import Tensor, nn

    from leakbench.federation.federation import Federation
    from leakbench.federation.observer import Observer
    from leakbench.federation.task_data import TaskData
    from leakbench.record.runspec import Parts

# What a source holds, by which a kind of knowledge is read:
# "updates": {(sender, round, phase, probe): {"y": labels (B,)}}, of the batches behind the updates
# that were kept. They are private: no export has them, and of them an observer is told what is
# behind updates of clients that it receives from, of the rounds that its threat model grants.
# "counts": the same, or {place: {"n": (), int64}} where somebody told no more than how many.
# ``EXAMPLES`` and "gallery": examples; the same for everybody. Of these an export has "aux_data"
# alone: the others are private data. "": nothing; ``View`` itself has it, or nobody.
Held = Literal["", "updates", "counts", "aux_data", "gallery", "candidates", "attributes", "users"]
EXAMPLES: tuple[Held, ...] = ("aux_data", "candidates", "attributes", "users")
# Where in a run folder that lies: how the names of its files begin.
FILES: dict[str, str] = {
    "updates": "known/round-",
    "counts": "known/round-",
    **{held: f"known/{held}.safetensors" for held in EXAMPLES},
}


CHANCE = 0.01


@dataclass(frozen=True)
class Knowledge:
    """One kind of it.

    Args:
        name: as threat models and ``View.know`` have it.
        about: what the attacker has.
        held: what of a source it is read from.
        read: what it is, of that: of updates {place: a tensor, or a number}, else examples.
        given: how messages in memory (``Transcript``) are given it.
        examples: how many examples are behind an update, by what of the kind is known of it.
        flag: of every number of an attack that is granted it, where it is read off an answer.
    """

    name: str
    about: str
    held: Held = ""
    read: Callable[[Any], Any] = lambda held: held
    given: str = ""
    examples: Callable[[Any], int] | None = None
    flag: str = ""


def _count(batch: Mapping[str, Tensor]) -> int:
    """How many examples a batch has, of which the labels are known or their number alone."""
    return len(batch["y"]) if "y" in batch else int(batch["n"])


ROWS = (
    Knowledge("method", "the method with its public parameters, the architecture, and so the loss"),
    Knowledge("facts", "numbers of clients and classes, shapes, where an input's numbers lie"),
    Knowledge(
        "sizes",
        "how many examples are behind each update",
        held="counts",
        read=lambda held: {place: _count(batch) for place, batch in held.items()},
        given="write add('update', ..., labels=y), of which it is told the number",
        examples=int,
    ),
    Knowledge(
        "labels",
        "the labels behind updates",
        held="updates",
        read=lambda held: {place: batch["y"] for place, batch in held.items()},
        given="write add('update', ..., labels=y)",
        examples=len,
        flag="oracle_labels",
    ),
    Knowledge(
        "aux_data",
        "data of the same kind that no client and no test set has",
        held="aux_data",
        given="write Transcript(..., aux_data=(x, y))",
    ),
    Knowledge("true_prototypes", "every client's true prototype", flag="oracle_prototypes"),
    Knowledge("norm_statistics", "batch statistics of normalisation layers"),
    Knowledge("gallery", "all training images, each once, in no order", held="gallery"),
    Knowledge(
        "candidates",
        "examples of which it is asked whether a client was trained on them; half were",
        held="candidates",
    ),
    Knowledge(
        "attributes",
        "examples of people who may be clients, or of other values of an attribute, told whose each"
        " is; no client has them",
        held="attributes",
    ),
    Knowledge(
        "users",
        "examples of people of whom it is asked whether they are clients; half of them are",
        held="users",
    ),
)
KNOWLEDGE = {row.name: row for row in ROWS}


def chosen(knows: Sequence[str]) -> list[Knowledge]:
    """The rows of what is granted, each once, in the table's order."""
    return [row for row in KNOWLEDGE.values() if row.name in knows]


def recurring(labels: Mapping[tuple[str, int, int, int | None], Tensor]) -> set[tuple[str, int]]:
    """(sender, phase) of those all of whose updates are known to be of the very same examples.

    Each is of as many of each class; that this were so by chance, of examples drawn anew for each,
    is less likely than ``CHANCE``. ``labels``: {(sender, round, phase, probe): (B,)}; probes, which
    are of one example, say nothing.
    """
    behind: dict[tuple[str, int], list[Tensor]] = {}
    for (sender, _, phase, probe), y in labels.items():
        if probe is None and len(y):
            behind.setdefault((sender, phase), []).append(y.bincount())
    out = set()
    for place, counts in behind.items():
        again = all(torch.equal(c, counts[0]) for c in counts)
        if again and _log_chance(counts[0].tolist()) * (len(counts) - 1) < math.log(CHANCE):
            out.add(place)
    return out


def _log_chance(counts: Sequence[int]) -> float:
    """Of as many examples drawn from classes of these shares to be as many of each again."""
    n = sum(counts)
    return math.lgamma(n + 1) + sum(c * math.log(c / n) - math.lgamma(c + 1) for c in counts if c)


@dataclass(frozen=True)
class DeclaredObserver:
    """Who is said to observe, where that is less than a server that knows all of this table.

    What is not found by attacks that are held to it says nothing of anybody else.

    Args:
        observer: "server", "client/3", "clients/1,4", or "outsider".
        kinds: of messages that it receives.
        rounds: of all of them, or of the attacked one alone.
        knows: by the names of this table.
    """

    observer: str
    kinds: tuple[str, ...]
    rounds: Literal["all", "one"]
    knows: tuple[str, ...]

    @classmethod
    def of(cls, told: Mapping[str, Any]) -> DeclaredObserver:
        """As run.json has it."""
        kinds, knows = tuple(told["kinds"]), tuple(told["knows"])
        return cls(told["observer"], kinds, told["rounds"], knows)

    @property
    def told(self) -> dict[str, Any]:
        """For run.json."""
        lists = {"kinds": [*self.kinds], "knows": [*self.knows]}
        return {"observer": self.observer, "rounds": self.rounds, **lists}

    @property
    def words(self) -> str:
        """Who it is, what it receives and what it knows."""
        kinds, knows = ", ".join(self.kinds) or "nothing", ", ".join(self.knows) or "nothing"
        when = "of one round" if self.rounds == "one" else "of all rounds"
        return f"{self.observer}, who receives {kinds} {when} and knows {knows}"

    def lacks(self, observer: str, kinds: Sequence[str], knows: Sequence[str]) -> str:
        """Why an attack with this threat model is none of this observer's; empty where it is.

        Args:
            observer: who attacks.
            kinds: those that it reads and that somebody sent.
            knows: what it is granted.
        """
        said = f"the declared observer is {self.words}"
        if observer != self.observer:
            return f"{said}, and the attack is that of {observer}"
        unseen = [kind for kind in kinds if kind not in self.kinds]
        unknown = [name for name in knows if name not in self.knows]
        if unseen or unknown:
            return f"{said}, and the attack takes {', '.join([*unseen, *unknown])}, too"
        return ""


class Source:
    """What attacks are made from: a run folder that is read again, or messages in memory.

    Everything that a view can be asked for, whoever declared what of it; never the truth, never the
    seed. What a kind of source says nothing of is not asked of it.
    """

    device: str  # where its tensors lie
    # Is the network in training mode while a client trains? By its layers, where they differ, as
    # ``leakbench.federation.net.training_mode`` takes it.
    modes: bool | Mapping[str, bool] = True

    @property
    def declared(self) -> DeclaredObserver | None:
        """Who is said to observe; None: a server that may be granted all that is known."""
        return None

    @property
    def dtype(self) -> torch.dtype:
        """Of its floating-point tensors."""
        raise NotImplementedError

    @property
    def products(self) -> torch.dtype:
        """Of what local training multiplied in, where that is less precise."""
        return self.dtype

    @property
    def partial(self) -> bool:
        """Is less there than was sent, even of the traffic?"""
        return False

    @property
    def rounds(self) -> int:
        """The last round."""
        raise NotImplementedError

    @property
    def stages(self) -> Mapping[str, int]:
        """{stage: round} of the audited rounds; unless a source says otherwise, the last one."""
        return {"final": self.rounds}

    @property
    def audited(self) -> int:
        """Clients of an audited round whose updates were kept, at most."""
        return self.facts.clients

    @property
    def pooled(self) -> int:
        """Of how many rounds covered updates were kept for who adds them up."""
        return 0

    @property
    def method(self) -> Defense:
        """The defense with its parameters."""
        raise NotImplementedError

    @property
    def facts(self) -> Facts:
        """Public facts of the task."""
        raise NotImplementedError

    @property
    def sent(self) -> Sequence[Mapping[str, Any]]:
        """Who sent what to whom: kind, sender, receiver, rounds, messages, bytes."""
        raise NotImplementedError

    @property
    def transcript(self) -> list[Message]:
        """What crossed, in order."""
        raise NotImplementedError

    @property
    def control(self) -> list[Message]:
        """What would have crossed with nothing defended.

        Raises:
            UsageError: that is not there.
        """
        raise NotImplementedError

    @property
    def traffic(self) -> Mapping[str, Tensor]:
        """{kind: (messages, 3) round, sender, receiver} of all that was sent, kept or not."""
        raise NotImplementedError

    def module(self) -> nn.Module:
        """The public architecture, one's own to change; its numbers say nothing."""
        raise NotImplementedError

    @property
    def trainable(self) -> bool:
        """Is it known how the whole federation trained, so that others like it can be?"""
        return False

    @property
    def parts(self) -> Parts | None:
        """Task, method and wrappers; None where nobody said how the whole federation trained."""
        return None

    @property
    def recipe(self) -> str:
        """A digest of how it trained, but for its data and its dice; "" where nobody said."""
        parts = self.parts
        return "" if parts is None else parts.spec.public().identity()

    def federation(
        self,
        data: TaskData,
        seed: int,
        recorder: Observer[Federation] | None = None,
        engine: str = "",
    ) -> Federation:
        """One like it, before round 0, of other data.

        Raises:
            UsageError: how it trained is not known, or the data are none of the task.
        """
        parts = self.parts
        if parts is None:
            raise UsageError(
                "nobody said how the whole federation trained, so no other one can be."
            )
        return parts.federation(
            data, device=self.device, seed=seed, engine=engine, recorder=recorder
        )

    def holds(self, name: str) -> bool:
        """Is there knowledge of that name (``leakbench.record.knowledge``)?"""
        return name in KNOWLEDGE and self._has(KNOWLEDGE[name].held)

    def known(self, name: str) -> Any:
        """Knowledge that may be granted, of that name.

        Raises:
            UsageError: that is not there.
        """
        held = self._held(KNOWLEDGE[name].held) if name in KNOWLEDGE else None
        if held is None:
            raise UsageError(self._without(name))
        return KNOWLEDGE[name].read(held)

    def lacks(self, kinds: Sequence[str], knows: Sequence[str]) -> str:
        """Why what an attack reads is not all there, though it was sent; empty where it is."""
        return ""

    def _has(self, held: str) -> bool:
        """Is there what knowledge is read from, one of ``leakbench.record.knowledge.Held``?"""
        raise NotImplementedError

    def _held(self, held: str) -> Any:
        """That; None where it is not there."""
        raise NotImplementedError

    def _without(self, name: str) -> str:
        """The sentence that knowledge of that name is not there."""
        raise NotImplementedError


def passed(traffic: Mapping[str, Tensor], kind: str, observer: str) -> Tensor:
    """(messages, 3) int32: the rows of ``kind`` that ``observer`` sends or receives; a copy."""
    rows = traffic.get(kind, torch.zeros((0, 3), dtype=torch.int32))
    if observer == "outsider":
        return rows[:0].clone()
    mine = torch.tensor(members(observer) or (party(observer),), dtype=rows.dtype)
    mine = mine.to(rows.device)
    return rows[torch.isin(rows[:, 1], mine) | torch.isin(rows[:, 2], mine)]


def covered(sent: Sequence[Mapping[str, Any]], kind: str) -> bool:
    """Does a wrapper change what clients send of this kind? ``sent``: as a source says it."""
    mine = [s for s in sent if (s["kind"], s["sender"]) == (kind, "client")]
    return any(bool(s.get("covered")) for s in mine)
