"""A run's network as its task and its method make it, and which of its numbers are its author's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from leakbench.base import dice
from leakbench.base.errors import MethodError
from leakbench.base.lazy import torch
from leakbench.base.streams import shared
from leakbench.federation.net import copied, training_mode

if TYPE_CHECKING:
    from torch import Tensor, nn

    from leakbench.federation.defense import Defense
    from leakbench.federation.parties import Facts

# Of torch, on tensors that do not fit.
FAULTS = (RuntimeError, ValueError, TypeError, IndexError)


class Maker(Protocol):
    """A task, as far as it makes networks."""

    def module(self, facts: Facts) -> nn.Module:
        """The architecture."""


def built(task: Maker, method: Defense, facts: Facts, seed: int = 0, again: int = 0) -> nn.Module:
    """The task's network as the method has it.

    What it draws from torch's own dice while it is made comes from a named stream of ``seed``,
    ``again`` from another one; they are left as they were.

    Raises:
        MethodError: what the task or the method makes is no network.
    """
    with shared(seed, "network", round=again).lent():
        made = method.module(_network(task.module(facts), task), facts)
        return _network(made, method)


def _network(made: object, by: object) -> nn.Module:
    if not isinstance(made, torch.nn.Module):
        raise MethodError(
            f"module of {type(by).__name__} gives {type(made).__name__}: expected a"
            " torch.nn.Module; the function must return it."
        )
    return made


def own_numbers(one: nn.Module, other: nn.Module) -> set[str]:
    """The parameters of ``one`` that begin with what they hold; the others begin fresh.

    Every one of a plain ``nn.Module``, be it cut or not. Of stages those in no layer with
    ``reset_parameters`` (tokens and position embeddings, say), and those that are set and not
    thrown: they are the same in ``other``, made by the same author with other dice. A
    normalisation's ones and zeros are nobody's.
    """
    from leakbench.models.networks import keeps_its_start
    from leakbench.models.stages import Stages

    if not isinstance(one, Stages) or not one.in_a_row:
        return {name for name, _ in one.named_parameters()}
    others, found = dict(other.named_parameters()), set()
    for name, value in one.named_parameters():
        owner = one.get_submodule(name.rpartition(".")[0])
        usual = keeps_its_start(owner) and bool((value == value.flatten()[0]).all())
        set_by_hand = torch.equal(value, others[name]) and not usual
        if set_by_hand or not hasattr(owner, "reset_parameters"):
            found.add(name)
    return found


def reaches(module: nn.Module, x: Tensor) -> bool:
    """Does a gradient of what the network gives for x (B, ...) reach x?

    Not where x is looked up (``nn.Embedding`` of whole numbers), or features are detached. True if
    it does not take such an x, which others will say.
    """
    module, x = copied(module), x.detach().clone().requires_grad_()
    with (
        training_mode(module, False),
        torch.enable_grad(),
        contextlib.suppress(*FAULTS),
        dice.lent(0),
    ):
        out = [v for v in torch.utils._pytree.tree_leaves(module(x)) if v.requires_grad]
        if not out:
            return False
        (found,) = torch.autograd.grad(sum(v.sum() for v in out), [x], allow_unused=True)
        return found is not None
    return True


def thrower(module: nn.Module, x: Tensor, on: bool | Mapping[str, bool] = True) -> str | None:
    """The layer that throws dice (dropout) on x (B, ...), or is ``unsteady``; "" the whole network.

    In training mode, or in the modes ``on`` of its layers. None if no one does; or if it does not
    take such an x, which others will say.
    """
    found = _first(module, x, on, [0], lambda calls: calls[0].thrown)
    return unsteady(module, x, on) if found is None else found


def unsteady(module: nn.Module, x: Tensor, on: bool | Mapping[str, bool] = True) -> str | None:
    """The layer that gives something else for x (B, ...) when all is called again, as ``thrower``.

    With the same dice and the same buffers: it throws dice that nobody knows of, or remembers
    something in a plain attribute. Numbers that are nowhere (the meta device) are never apart.
    """
    if x.is_meta:
        return None

    def differs(calls: Sequence[_Left]) -> bool:
        one, other = calls
        return not _apart(one.taken, other.taken) and _apart(one.given, other.given)

    return _first(module, x, on, [0, 0], differs)


class _Left(NamedTuple):
    """How a call of a layer was left."""

    thrown: bool  # did it, or what is within it, throw the process's dice?
    taken: list[Tensor]
    given: list[Tensor]


def _first(
    module: nn.Module,
    x: Tensor,
    on: bool | Mapping[str, bool],
    numbers: Sequence[int],
    told: Callable[[Sequence[_Left]], bool],
) -> str | None:
    """The first layer that left a call, what is within it before itself, of which that is ``told``.

    It is called once with the dice begun at each of ``numbers``, and with the same buffers.
    """
    module = copied(module)
    buffers = [(m._buffers, k, v) for m in module.modules() for k, v in m._buffers.items()]
    kept = [None if v is None else v.clone() for *_, v in buffers]
    calls = []
    with training_mode(module, on), torch.no_grad(), contextlib.suppress(*FAULTS):
        for number in numbers:
            for (held, key, _), value in zip(buffers, kept, strict=True):
                held[key] = None if value is None else value.clone()
            with dice.lent(number), _watched(module) as left:
                module(x)
            calls.append(left)
    for each in zip(*calls, strict=False) if len(calls) == len(numbers) else ():
        if told([left for _, left in each]):
            return each[0][0]
    return None


@contextlib.contextmanager
def _watched(module: nn.Module) -> Iterator[list[tuple[str, _Left]]]:
    """Note how each layer leaves each of its calls, in their order."""
    found: list[tuple[str, _Left]] = []
    begun: list[tuple[tuple[Any, ...], list[Tensor]]] = []
    hooks = []

    def leave(name: str) -> Callable[..., None]:
        def told(_m: nn.Module, _x: object, out: object) -> None:
            state, taken = begun.pop()
            found.append((name, _Left(state != dice.state(), taken, _tensors(out))))

        return told

    for name, layer in module.named_modules():
        hooks += [
            layer.register_forward_pre_hook(
                lambda _m, taken: begun.append((dice.state(), _tensors(taken)))
            ),
            layer.register_forward_hook(leave(name)),
        ]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def _tensors(value: object) -> list[Tensor]:
    found = torch.utils._pytree.tree_leaves(value)
    return [v.clone() for v in found if isinstance(v, torch.Tensor)]


def _apart(one: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    pairs = zip(one, other, strict=False)
    alike = all(a.shape == b.shape and torch.allclose(a, b, equal_nan=True) for a, b in pairs)
    return len(one) != len(other) or not alike


def begun(module: nn.Module, own: Collection[str], read: Collection[str] = ()) -> dict[str, int]:
    """How many numbers of its parameters begin "fresh" in a run, as its "own", or "read" of a file.

    ``own`` and ``read``: names of parameters.
    """
    out = {"fresh": 0, "own": 0, "read": 0}
    for name, value in module.named_parameters():
        how = "own" if name in own else "fresh"
        out["read" if name in read else how] += value.numel()
    return out


def begun_text(begins: Mapping[str, int]) -> str:
    """In words, what ``begun`` says of a network that no data are there for."""
    whole = sum(begins.values())
    if not begins["own"]:
        return "every number is drawn from the run's seed, but for weights that the task reads"
    kept = f"{begins['own']:,} of {whole:,} numbers are the network's own"
    return f"{kept}; what is thrown while it is made comes from the run's seed"
