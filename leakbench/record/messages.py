"""Messages: what crossed a trust boundary, and the files that hold them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leakbench.base.files import inside, read_tree, write_tree
from leakbench.base.tree import Tree

LARGE = ("model", "update", "sum", "generator")
SMALL = (
    "prototype",
    "features",
    "labels",
    "mean_data",
    "data",
    "statistics",
    "count",
    "identifier",
)
KINDS = LARGE + SMALL


@dataclass(frozen=True)
class Message:
    """One transmission. ``probe``: the number of the single image that the client would have sent
    this update for.

    ``phase``: the step's number in the round. A receiver "client/*" is a broadcast to the round's
    clients.
    """

    round: int
    phase: int
    sender: str
    receiver: str
    kind: str
    payload: Tree
    probe: int | None = None

    @property
    def name(self) -> tuple[int, int, str, str, str, int | None]:
        """What makes it the same message, in the control overlay too."""
        return (self.round, self.phase, self.sender, self.receiver, self.kind, self.probe)


def round_file(t: int) -> str:
    """The file name of round t in transcript/, control/, known/ and truth/."""
    return f"round-{t:06d}.safetensors"


def write_messages(path: Path, messages: list[Message]) -> None:
    """The messages of one round; their table is the header, tensors are `<i>/payload[/<name>]`."""
    table = [
        {
            "round": m.round,
            "phase": m.phase,
            "sender": m.sender,
            "receiver": m.receiver,
            "kind": m.kind,
            "probe": m.probe,
        }
        for m in messages
    ]
    write_tree(
        path,
        {str(i): {"payload": m.payload} for i, m in enumerate(messages)},
        {"messages": table},
        sync=False,
    )


def read_messages(folder: Path) -> list[Message]:
    """All messages of a transcript or control folder, in order."""
    out = []
    for path in sorted(folder.glob("round-*.safetensors")):
        tree, meta = read_tree(inside(folder, path.name))
        out += [
            Message(payload=tree.get(str(i), {}).get("payload", {}), **m)
            for i, m in enumerate(meta["messages"])
        ]
    return out


def overlaid(transcript: list[Message], control: list[Message]) -> list[Message]:
    """The control transcript: every message replaced by what would have been sent undefended, where
    that differs.

    Messages that only exist undefended are added: past an aggregator, single updates go straight to
    the server, and the sum that stands for them is left out.
    """
    bare = {m.name: m for m in control}
    shown = [bare.pop(m.name, m) for m in transcript]
    single = {(m.round, m.phase, m.kind) for m in bare.values()}
    shown = [
        m
        for m in shown
        if m.kind != "sum" or not any((m.round, m.phase, k) in single for k in m.payload)
    ]
    return sorted([*shown, *bare.values()], key=lambda m: (m.round, m.phase))
