"""What an attacker may know beside the messages: a row for each kind.

A threat model grants a kind by its name (``ThreatModel.knows``). All else follows from the row:
whether a run holds it, what of it is told to whom, how it comes into a process of its own, what an
export or an excerpt of a run lacks of it, and which flag the numbers carry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

# What a source holds, by which a kind of knowledge is read:
# "updates": {(sender, round, phase, probe): {"y": labels (B,)}}, of the batches behind the updates
# that were kept. They are private: no export has them, and of them an observer is told what is
# behind updates of clients that it receives from, of the rounds that its threat model grants.
# "aux_data", "gallery": examples; the same for everybody. "": nothing; ``View`` itself has it, or
# nobody.
Held = Literal["", "updates", "aux_data", "gallery"]
# Where in a run folder that lies: how the names of its files begin.
FILES = {"updates": "known/round-", "aux_data": "known/aux_data.safetensors"}


@dataclass(frozen=True)
class Knowledge:
    """One kind of it.

    Args:
        name: as threat models and ``View.know`` have it.
        about: what the attacker has.
        held: what of a source it is read from.
        read: what it is, of that: of "updates" {place: a tensor, or a number}, else examples.
        given: how messages in memory (``Transcript``) are given it.
        examples: how many examples are behind an update, by what of the kind is known of it.
        flag: of every number of an attack that is granted it.
    """

    name: str
    about: str
    held: Held = ""
    read: Callable[[Any], Any] = lambda held: held
    given: str = ""
    examples: Callable[[Any], int] | None = None
    flag: str = ""


ROWS = (
    Knowledge("method", "the method with its public parameters, the architecture, and so the loss"),
    Knowledge("facts", "numbers of clients and classes, shapes, where an input's numbers lie"),
    Knowledge(
        "sizes",
        "how many examples are behind each update",
        held="updates",
        read=lambda held: {place: len(batch["y"]) for place, batch in held.items()},
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
)
KNOWLEDGE = {row.name: row for row in ROWS}


def chosen(knows: Sequence[str]) -> list[Knowledge]:
    """The rows of what is granted, each once, in the table's order."""
    return [row for row in KNOWLEDGE.values() if row.name in knows]
