"""What cannot be done for clients side by side, and is refused: then they train one by one.

To look at, or change, a gradient on its way: a hook sees the gradient of all of them at once, of
their mean, say, where it means to clip each one's. To leave something at the client for the next
step: side by side each step has clients of its own. To write into the weights that all share. To
count calls in a layer, which are fewer side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from leakbench.base.lazy import torch
from leakbench.base.tree import Tree, flat
from leakbench.federation.parties import Client

if TYPE_CHECKING:
    from torch import Tensor, nn


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
    from leakbench.federation.gradient_watch import GradientWatch

    said = "the loss changes what is kept for a gradient, which side by side is everybody's"
    kept = torch.autograd.graph.disable_saved_tensors_hooks(said)
    with kept, remembering_nothing(module), GradientWatch():
        yield


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


def own_unwritten(shared: dict[str, Tensor], own: dict[str, Tensor]) -> None:
    """Nobody wrote into ``own``, the weights that were lent, a copy of ``shared``.

    Torch counts what is written in place, but not through ``.data``.

    Raises:
        RuntimeError: somebody did.
    """
    for name, value in own.items():
        both = value, shared[name]
        if not torch.equal(*both) and not torch.equal(*(v.nan_to_num() for v in both)):
            _refuse(f"the loss writes into {name!r}, which side by side is everybody's")
