"""Messages: what crossed a trust boundary, and the files that hold them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from leakbench.base.errors import BrokenFile
from leakbench.base.files import inside, read_tree, write_tree
from leakbench.base.lazy import torch
from leakbench.base.shapes import check_shape
from leakbench.base.tree import Tree, flat, nbytes, unflat
from leakbench.record.shapes import MessagesHeader

if TYPE_CHECKING:
    from torch import Tensor

LARGE = ("model", "update", "sum", "generator", "variate")
SMALL: tuple[str, ...] = ("prototype", "features", "labels", "mean_data", "data", "statistics")
SMALL += ("label_counts", "count", "identifier")
KINDS = LARGE + SMALL
REPEATED = 4096  # bytes of a tensor that is worth a line on where it stands already
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
    sparse: bool = False  # its zeros were not sent, and are no data
    changed: bool = False  # a server sent it that does not keep to its method

    def told(self) -> dict[str, Tensor]:
        """{name: bool}: which of the payload's numbers were sent; "": of one that has no names.

        All of them, but for the zeros of one that is ``sparse``.
        """
        leaves = flat(self.payload)
        if self.sparse:
            return {k: v != 0 for k, v in leaves.items()}
        return {k: torch.ones_like(v, dtype=torch.bool) for k, v in leaves.items()}

    @property
    def name(self) -> tuple[int, int, str, str, str, int | None]:
        """What makes it the same message, in the control overlay too."""
        return (self.round, self.phase, self.sender, self.receiver, self.kind, self.probe)


def round_file(t: int) -> str:
    """The file name of round t in transcript/, control/, known/ and truth/."""
    return f"round-{t:06d}.safetensors"


@dataclass(frozen=True)
class StoredTensors:
    """What stands in a folder's first file of messages: no later one holds the same bytes again.

    So a part of the network that nobody trains is there once, and so is a model that is sent again.
    """

    first: dict[str, dict[str, str]] = field(default_factory=dict)  # digest -> {file, name}

    @classmethod
    def of(cls, path: Path) -> StoredTensors:
        """As it is after the file ``path`` was written.

        Raises:
            BrokenFile: it is missing or damaged.
        """
        found = cls()
        for name, leaf in flat(read_tree(path)[0]).items():
            if nbytes(leaf) >= REPEATED:
                found.first.setdefault(_digest(leaf), {"file": path.name, "name": name})
        return found

    def parted(self, leaves: Mapping[str, Any], file: str) -> tuple[Tree, dict[str, Any]]:
        """The leaves that are to be stored in ``file``, and where each of the others stands."""
        known, here, same = dict(self.first), dict[str, Any](), dict[str, Any]()
        for name, leaf in leaves.items():
            place = {"file": file, "name": name}
            found = place
            if nbytes(leaf) >= REPEATED:
                found = known.setdefault(_digest(leaf), place)
            if found is place:
                here[name] = leaf
            else:
                same[name] = found
        return unflat(here), same


def _digest(leaf: Any) -> str:
    """Of a tensor's kind, shape and bytes."""
    sha = hashlib.sha256(f"{leaf.dtype} {tuple(leaf.shape)}".encode())
    sha.update(leaf.detach().cpu().contiguous().numpy())
    return sha.hexdigest()


def write_messages(
    path: Path, messages: list[Message], stored: StoredTensors | None = None
) -> None:
    """The messages of one round; their table is the header, tensors are `<i>/payload[/<name>]`.

    ``stored``: what stands in the folder's first file, and is not stored again; the header then
    says under `same` where it is.
    """
    head: dict[str, Any] = {"messages": [_line(m) for m in messages]}
    payloads: Tree = {str(i): {"payload": m.payload} for i, m in enumerate(messages)}
    if stored is not None:
        payloads, same = stored.parted(flat(payloads), path.name)
        head |= {"same": same} if same else {}
    write_tree(path, payloads, head, sync=False)


def _line(m: Message) -> dict[str, Any]:
    """What the header of a file says of a message; part and the like where they say something."""
    more = {k: getattr(m, k) for k in ("part", "loss", "sparse", "changed")}
    return {**dict(zip(COLUMNS, m.name, strict=True)), **{k: v for k, v in more.items() if v}}


def read_messages(folder: Path, names: Iterable[str]) -> list[Message]:
    """All messages of the files ``names`` of a run folder, in order."""
    out: list[Message] = []
    first: dict[str, Mapping[str, Any]] = {}
    for name in names:
        path = inside(folder, name)
        table, payloads = read_payloads(path, first)
        out += [Message(payload=p, **m) for m, p in zip(table, payloads, strict=True)]
    return out


def read_payloads(
    path: Path, opened: dict[str, Mapping[str, Any]] | None = None
) -> tuple[list[dict[str, Any]], list[Tree]]:
    """What a file of messages says of each, and what each holds, wherever it is stored.

    ``opened``: the tensors of other files that were read before, by name; those that are read are
    added.

    Raises:
        BrokenFile: it, or a file that it leads to, is missing or damaged.
    """
    tree, meta = read_tree(path)
    table = table_of(path, meta)
    if same := meta.get("same", {}):
        opened = {} if opened is None else opened
        leaves = flat(tree)
        here = dict(leaves)
        for name, at in same.items():
            if at["file"] != path.name and at["file"] not in opened:
                opened[at["file"]] = flat(read_tree(inside(path.parent, at["file"]))[0])
            held = here if at["file"] == path.name else opened[at["file"]]
            if at["name"] not in held or name in here:
                raise _damaged(path, f"{at['file']} holds no {at['name']}")
            leaves[name] = held[at["name"]]
        tree = unflat(leaves)
    payloads = []
    for i in range(len(table)):
        entry = tree.get(str(i), {}) if isinstance(tree, dict) else None
        if not isinstance(entry, dict):
            raise _damaged(path, f"message {i} is no group of tensors")
        payloads.append(entry.get("payload", {}))
    return table, payloads


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
