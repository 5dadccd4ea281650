"""What a view hands to an attack: copies, held against what they are copies of when it is done.

An attack that writes in place (``g /= g.norm()``) so spoils nothing for its floor, its control and
its later stages, and is told. Versions of tensors would be cheaper to compare, but neither a write
through ``.data`` or numpy nor ``payload.pop(name)`` raises one. A copy is made when a payload is
first read, and lasts as long as the view: a transcript may be 2 GiB, of which an attack reads a
part at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from leakbench.base.errors import MethodError
from leakbench.base.lazy import torch
from leakbench.base.tree import Tree, tmap
from leakbench.federation.task_data import Examples
from leakbench.record.messages import Message

if TYPE_CHECKING:
    from torch import Tensor


class Lent:
    """The copies that one view has handed out."""

    def __init__(self) -> None:
        self._tensors: list[tuple[str, Tree, Tree]] = []  # what it is, the copy, what is kept
        self._messages: dict[int, Message] = {}
        self._known: dict[str, Any] = {}

    def tensors(self, what: str, kept: Tree) -> Tree:
        """A copy of a tensor, or of a dict of them, of the attack's own."""
        own = tmap(torch.Tensor.clone, kept)
        self._tensors.append((what, own, kept))
        return own

    def message(self, kept: Message) -> Message:
        """The message with a payload of its own, the same one each time."""
        if id(kept) not in self._messages:
            what = f"the {kept.kind} of {kept.sender} in round {kept.round}"
            self._messages[id(kept)] = LentMessage.of(kept, lambda p: self.tensors(what, p))
        return self._messages[id(kept)]

    def known(self, name: str, kept: Any) -> Any:
        """Knowledge of that name: of tensors the same copy each time.

        Of numbers a new one; facts, and a method that is the view's own, as they are.
        """
        if isinstance(kept, dict) and not all(map(torch.is_tensor, kept.values())):
            return dict(kept)
        if name not in self._known:
            self._known[name] = self._own(f"the {name}", kept)
        return self._known[name]

    def _own(self, what: str, kept: Any) -> Any:
        if isinstance(kept, Examples):
            return replace(Examples.of(self.tensors(what, kept.tree)), dtype=kept.dtype)
        return self.tensors(what, kept) if isinstance(kept, dict) else kept

    def check(self, who: str) -> None:
        """Nothing that was handed out has been written to.

        Raises:
            MethodError: naming the attack ``who`` and what it wrote into.
        """
        for what, own, kept in self._tensors:
            if not _same(own, kept):
                raise MethodError(
                    f"{who} wrote into {what}, which it was given; assign a new tensor instead"
                    " (g = g / g.norm(), not g /= g.norm())."
                )


class LentMessage(Message):
    """A message whose payload is copied when it is first read."""

    _copied: Callable[[], Tree]

    @classmethod
    def of(cls, kept: Message, copied: Callable[[Tree], Tree]) -> Message:
        """``kept`` with ``copied`` of its payload."""
        made = object.__new__(cls)
        about = {k: v for k, v in vars(kept).items() if k != "payload"}
        vars(made).update(about, _copied=lambda: copied(kept.payload))
        return made

    def __getattr__(self, name: str) -> Any:
        if name != "payload":
            raise AttributeError(name)
        vars(self)["payload"] = payload = self._copied()
        return payload


def _same(own: Any, kept: Tree) -> bool:
    """Byte for byte: what is not finite is equal to itself, too."""
    if isinstance(kept, dict):
        if not isinstance(own, dict) or own.keys() != kept.keys():
            return False
        return all(_same(own[k], kept[k]) for k in kept)
    if not isinstance(own, torch.Tensor) or (own.shape, own.dtype) != (kept.shape, kept.dtype):
        return False
    own = own.detach().to(kept.device)
    return torch.equal(own, kept) or torch.equal(_bytes(own), _bytes(kept))


def _bytes(t: Tensor) -> Tensor:
    return t.contiguous().reshape(-1).view(torch.uint8)
