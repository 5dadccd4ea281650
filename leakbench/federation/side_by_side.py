"""What cannot be done for clients side by side, and is refused: then they train one by one.

To look at, or change, a gradient on its way: a hook sees the gradient of all of them at once, of
their mean, say, where it means to clip each one's. To leave something at the client for the next
step: side by side each step has clients of its own. To write into the weights that all share. To
count calls in a layer, which are fewer side by side.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from leakbench.base.lazy import torch
from leakbench.base.tree import Tree, flat
from leakbench.federation.parties import Client

if TYPE_CHECKING:
    from torch import Tensor, nn

ASKED = ("requires_grad", "is_leaf", "grad_fn")
_LOCK = threading.Lock()
_HERE = threading.local()  # how many losses are computed in this thread, one within another
_EVERYWHERE: list[None] = []  # one for each, in all threads
_PLAIN: dict[str, Any] = {}  # what torch.Tensor itself has of what is replaced meanwhile


@contextmanager
def no_hooks(module: nn.Module) -> Iterator[None]:
    """Losses computed meanwhile, in this thread, hang no hook on a gradient; nor does the module.

    Nor do they ask a tensor whether or where it has a gradient, which ``vmap`` denies of every one;
    change what is kept for a gradient; or have layers that remember their calls.

    Raises:
        RuntimeError: one does. Every other way to train takes the loss as it is.
    """
    for name, part in module.named_modules():
        if part._backward_hooks or part._backward_pre_hooks:
            raise RuntimeError(f"the layer {name!r} has a hook on its gradient")
    with _LOCK:
        if not _EVERYWHERE:
            _replace()
        _EVERYWHERE.append(None)
    depth = getattr(_HERE, "depth", 0)
    try:
        _HERE.depth = depth + 1
        said = "the loss changes what is kept for a gradient, which side by side is everybody's"
        with torch.autograd.graph.disable_saved_tensors_hooks(said), remembering_nothing(module):
            yield
    finally:
        _HERE.depth = depth
        with _LOCK:
            _EVERYWHERE.pop()
            if not _EVERYWHERE:
                _restore()


@contextmanager
def remembering_nothing(module: nn.Module) -> Iterator[None]:
    """No layer sets an attribute of its own meanwhile: the next client's would begin with it.

    Raises:
        RuntimeError: one did; then it is as it was.
    """
    before = [(part, _attributes(part)) for part in module.modules()]
    yield
    changed = ""
    for part, had in before:
        has = _attributes(part)
        for name in had.keys() | has.keys():
            if name in had and had[name] is has.get(name):
                continue
            changed = f"a layer sets {name!r} when it is called; what it is to remember is a buffer"
            vars(part).pop(name, None)
            vars(part).update({k: v for k, v in had.items() if k == name})
    if changed:
        _refuse(changed)


def _attributes(part: nn.Module) -> dict[str, Any]:
    return {k: v for k, v in vars(part).items() if not k.startswith("_")}


def _replace() -> None:
    kind, base = torch.Tensor, torch._C.TensorBase
    if kind.register_hook is not _hung:  # it is where an interrupt came between these lines
        _PLAIN["register_hook"] = kind.register_hook
    for name in ASKED:
        setattr(kind, name, property(_asked(name), getattr(base, name).__set__))
    kind.register_hook = _hung  # type: ignore[method-assign]


def _restore() -> None:
    kind = torch.Tensor
    kind.register_hook = _PLAIN["register_hook"]  # type: ignore[method-assign]
    for name in ASKED:
        delattr(kind, name)  # the one that it inherits is left


def _watched() -> bool:
    return getattr(_HERE, "depth", 0) > 0


def _hung(tensor: Tensor, hook: Callable[..., Any]) -> Any:
    if _watched():
        _refuse("the loss hangs a hook on a gradient, which side by side is everybody's")
    return _PLAIN["register_hook"](tensor, hook)


def _asked(name: str) -> Callable[[Tensor], Any]:
    """A property that is not told of a tensor of many clients; nor where a hook could be hung."""
    plain = getattr(torch._C.TensorBase, name).__get__

    def read(tensor: Tensor) -> Any:
        value = plain(tensor)
        node = name == "grad_fn" and value is not None
        if _watched() and (node or torch._C._functorch.is_batchedtensor(tensor)):
            _refuse(f"the loss reads `{name}`, which side by side is nobody's")
        return value

    return read


def _refuse(why: str) -> NoReturn:
    raise RuntimeError(why)


def no_derivative_of_its_own(losses: Tensor) -> None:
    """Every derivative on the way to ``losses`` is torch's own, so that of a sum it is the sum.

    Raises:
        RuntimeError: an ``autograd.Function`` of somebody's is among them.
    """
    todo, seen = [losses.grad_fn], set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            _refuse("the loss has a derivative of its own, and clients share weights")
        todo += [other for other, _ in node.next_functions]


@contextmanager
def leaving_nothing(me: Client) -> Iterator[None]:
    """Nobody sets anything at the client meanwhile: the next step has another one.

    Raises:
        RuntimeError: the loss did.
    """
    before = _held(me)
    yield
    after = _held(me)
    if before.keys() != after.keys() or any(after[k] is not v for k, v in before.items()):
        _refuse("the loss leaves something at the client, which side by side the next step lacks")


def _held(me: Client) -> Tree:
    out: Tree = {}
    for name, value in vars(me).items():
        out |= flat(dict(value) if isinstance(value, dict) else value, name)
    return out


def unwritten(shared: dict[str, Tensor], own: dict[str, Tensor]) -> None:
    """Nobody wrote into ``own``, the weights that were lent, a copy of ``shared``.

    Torch counts what is written in place, but not through ``.data``.

    Raises:
        RuntimeError: somebody did.
    """
    for name, value in own.items():
        both = value, shared[name]
        if not torch.equal(*both) and not torch.equal(*(v.nan_to_num() for v in both)):
            _refuse(f"the loss writes into {name!r}, which side by side is everybody's")
