"""Messages: what crossed a trust boundary, and the files that hold them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal

from leakbench.base.errors import BrokenFile
from leakbench.base.files import inside, read_tree, write_tree
from leakbench.base.shapes import check_shape
from leakbench.base.tree import Tree
from leakbench.record.shapes import MessagesHeader

LARGE = ("model", "update", "sum", "generator", "variate")
SMALL: tuple[str, ...] = ("prototype", "features", "labels", "mean_data", "data", "statistics")
SMALL += ("label_counts", "count", "identifier")
KINDS = LARGE + SMALL
COLUMNS = ("round", "phase", "sender", "receiver", "kind", "probe")


@dataclass(frozen=True)
class Message:
    """One transmission."""

    round: int
    phase: int  # number of the step in the round
    sender: str  # "client/3", "server", "aggregator"
    receiver: str  # "client/*": a broadcast to the round's clients
    kind: str
    payload: Tree
    probe: int | None = None  # the single image for which the client would have sent this update
    # "": all of it. "last_layer": of this update only the last layer's part was kept.
    part: Literal["", "last_layer"] = ""
    # Of an update that was read off another message (``Defense.tells``): the name of the loss that
    # makes it. "": it is what was sent, and its training's loss made it.
    loss: str = ""
    sparse: bool = False  # of an update: its zeros were not sent, and are no data

    @property
    def name(self) -> tuple[int, int, str, str, str, int | None]:
        """What makes it the same message, in the control overlay too."""
        return (self.round, self.phase, self.sender, self.receiver, self.kind, self.probe)


def round_file(t: int) -> str:
    """The file name of round t in transcript/, control/, known/ and truth/."""
    return f"round-{t:06d}.safetensors"


def write_messages(path: Path, messages: list[Message]) -> None:
    """The messages of one round; their table is the header, tensors are `<i>/payload[/<name>]`."""
    table = [_line(m) for m in messages]
    payloads = {str(i): {"payload": m.payload} for i, m in enumerate(messages)}
    write_tree(path, payloads, {"messages": table}, sync=False)


def _line(m: Message) -> dict[str, Any]:
    """What the header of a file says of a message; part and the like where they say something."""
    more = {k: v for k, v in (("part", m.part), ("loss", m.loss), ("sparse", m.sparse)) if v}
    return {**dict(zip(COLUMNS, m.name, strict=True)), **more}


def read_messages(folder: Path, names: Iterable[str]) -> list[Message]:
    """All messages of the files ``names`` of a run folder, in order."""
    out = []
    for name in names:
        path = inside(folder, name)
        tree, meta = read_tree(path)
        for i, m in enumerate(table_of(path, meta)):
            entry = tree.get(str(i), {}) if isinstance(tree, dict) else None
            if not isinstance(entry, dict):
                raise _damaged(path, f"message {i} is no group of tensors")
            out.append(Message(payload=entry.get("payload", {}), **m))
    return out


def table_of(path: Path, meta: Any) -> list[dict[str, Any]]:
    """What the header ``meta`` of a file of messages says of each.

    Raises:
        BrokenFile: it is no such table, a message is of another round than the file, or one is
            there twice.
    """
    check_shape(MessagesHeader, meta, path)
    table: list[dict[str, Any]] = meta["messages"]
    for m in table:
        if path.name.startswith("round-") and round_file(m["round"]) != path.name:
            raise _damaged(path, f"a message is of round {m['round']}")
    if len({itemgetter(*COLUMNS)(m) for m in table}) < len(table):
        raise _damaged(path, "a message is there twice")
    return table


def _damaged(path: Path, why: str) -> BrokenFile:
    return BrokenFile(f"{path} is damaged ({why}). Make it again.")


def overlaid(transcript: list[Message], control: list[Message]) -> list[Message]:
    """The control transcript: every message as it would have been sent undefended.

    Messages that only exist undefended are added: past an aggregator, single updates go straight to
    the server, and the sum that stands for them is left out, also one of which a part was kept: of
    the single updates of its round nothing was.
    """
    bare = {m.name: m for m in control}
    shown = [bare.pop(m.name, m) for m in transcript]
    single = {(m.round, m.phase, m.kind) for m in bare.values()}

    def stands_for_single(m: Message) -> bool:
        if m.kind != "sum":
            return False
        return bool(m.part) or any((m.round, m.phase, k) in single for k in m.payload)

    shown = [m for m in shown if not stands_for_single(m)]
    return sorted([*shown, *bare.values()], key=lambda m: (m.round, m.phase))
