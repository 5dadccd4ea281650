"""What every client keeps for itself, as columns over the clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakbench.base.errors import MethodError
from leakbench.base.tree import Tree, tmap
from leakbench.federation.defense import Defense

if TYPE_CHECKING:
    from torch import Tensor, nn


class ClientTensors(dict[str, Tree]):
    """{"own" (private parameters), "state", "kept" (parts of the model): {name: (C, ...)}}."""

    def __init__(self, method: Defense, clients: int, groups: Tree) -> None:
        super().__init__(groups)
        self.method, self.clients = method, clients

    def of(self, who: Tensor) -> Tree:
        """Those of the clients ``who`` (M,), (M, ...) each."""
        everyone = len(who) == self.clients
        return {k: tmap(lambda v: v if everyone else v[who], v) for k, v in self.items()}

    def write(self, who: Tensor, new: Tree) -> None:
        """Replace the tensors ``new``, (M, ...) each, of the clients ``who``.

        Raises:
            MethodError: a name is new.
        """
        for group, values in new.items():
            column = self[group]
            for name, value in values.items():
                if name not in column:
                    what = f"{type(self.method).__name__}: {group}[{name!r}]"
                    raise MethodError(
                        f"{what} is not named in start(); a client keeps what start() made."
                    )
                if len(who) == self.clients:
                    column[name] = value
                else:
                    column[name] = tmap(lambda c, v: c.index_copy(0, who, v), column[name], value)


def kept_names(method: Defense, module: nn.Module) -> set[str]:
    """The names of the model's tensors that never leave a client."""
    out = set()
    for path, part in module.named_modules():
        for k in (*part._parameters, *part._buffers):
            if method.keeps(f"{path}.{k}".lstrip("."), part):
                out.add(f"{path}.{k}".lstrip("."))
    return out
