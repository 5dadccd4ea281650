"""What every client keeps for itself, as columns over the clients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from leakbench.base.errors import MethodError
from leakbench.base.tree import Tree, tmap
from leakbench.federation.defense import Defense

if TYPE_CHECKING:
    from torch import Tensor, nn


class ClientTensors(Mapping[str, Tree]):
    """{"own" (private parameters), "state", "kept" (parts of the model): {name: (C, ...)}}.

    A round writes the rows of its clients in place: to copy ten thousand clients' tensors for ten
    of them takes longer than their training. Whoever is given a column keeps it as it is, though:
    the next round then writes into a copy.
    """

    def __init__(self, method: Defense, clients: int, groups: Tree) -> None:
        self.method, self.clients = method, clients
        self._groups: dict[str, Tree] = dict(groups)
        self._unseen: set[tuple[str, str]] = set()  # columns that nobody else holds

    def __getitem__(self, group: str) -> Tree:
        self._unseen = {(g, name) for g, name in self._unseen if g != group}
        return tmap(lambda v: v, self._groups[group])

    def __setitem__(self, group: str, values: Tree) -> None:
        self._groups[group] = values
        self._unseen = {(g, name) for g, name in self._unseen if g != group}

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)

    def of(self, who: Tensor) -> Tree:
        """Those of the clients ``who`` (M,), (M, ...) each."""
        if len(who) == self.clients:
            return dict(self)
        return {group: tmap(lambda v: v[who], values) for group, values in self._groups.items()}

    def write(self, who: Tensor, new: Tree) -> None:
        """Replace the tensors ``new``, (M, ...) each, of the clients ``who``.

        Raises:
            MethodError: a name is new.
        """
        for group, values in new.items():
            column = self._groups[group]
            for name, value in values.items():
                if name not in column:
                    what = f"{type(self.method).__name__}: {group}[{name!r}]"
                    raise MethodError(
                        f"{what} is not named in start(); a client keeps what start() made."
                    )
                if len(who) == self.clients:
                    column[name] = value
                    self._unseen.discard((group, name))
                elif (group, name) in self._unseen:
                    tmap(lambda c, v: c.index_copy_(0, who, v), column[name], value)
                else:
                    column[name] = tmap(lambda c, v: c.index_copy(0, who, v), column[name], value)
                    self._unseen.add((group, name))


def kept_names(method: Defense, module: nn.Module) -> set[str]:
    """The names of the model's tensors that never leave a client.

    One that stands in several places has its first name, and stays if any of its places does.
    """
    first: dict[int, str] = {}
    out = set()
    for path, part in module.named_modules(remove_duplicate=False):
        for k, tensor in (*part._parameters.items(), *part._buffers.items()):
            name = f"{path}.{k}".lstrip(".")
            known = first.setdefault(id(tensor), name) if tensor is not None else name
            if method.keeps(name, part):
                out.add(known)
    return out
