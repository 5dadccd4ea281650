"""A run's network as its task and its method make it, and which of its numbers are its author's."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Protocol

from leakbench.base import dice
from leakbench.base.lazy import torch
from leakbench.base.streams import shared
from leakbench.federation.net import training
from leakbench.models.networks import keeps_its_start

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
    """
    with shared(seed, "network", round=again).lent():
        return method.module(task.module(facts), facts)


def own_numbers(one: nn.Module, other: nn.Module) -> set[str]:
    """The parameters of ``one`` that begin with what they hold; the others begin fresh.

    Every one of a plain ``nn.Module``. Of stages those in no layer with ``reset_parameters``
    (tokens and position embeddings, say), and those that are set and not thrown: they are the same
    in ``other``, made by the same author with other dice (pretrained weights, say). A
    normalisation's ones and zeros are nobody's.
    """
    from leakbench.models.stages import Stages

    if not isinstance(one, Stages):
        return {name for name, _ in one.named_parameters()}
    others, found = dict(other.named_parameters()), set()
    for name, value in one.named_parameters():
        owner = one.get_submodule(name.rpartition(".")[0])
        usual = keeps_its_start(owner) and bool((value == value.flatten()[0]).all())
        set_by_hand = torch.equal(value, others[name]) and not usual
        if set_by_hand or not hasattr(owner, "reset_parameters"):
            found.add(name)
    return found


def thrower(module: nn.Module, x: Tensor, on: bool | Mapping[str, bool] = True) -> str | None:
    """The layer that throws the process's own dice (dropout) on x (B, ...), "" the network itself.

    In training mode, or in the modes ``on`` of its layers. None if no one does; or if it does not
    take such an x, which others will say.
    """
    module, found, before = copy.deepcopy(module), [], []

    def enter(*_: object) -> None:
        before.append(dice.state())

    def leave(name: str) -> Callable[..., None]:
        def told(*_: object) -> None:
            if before.pop() != dice.state():
                found.append(name)  # what is within it comes first

        return told

    for name, layer in module.named_modules():
        layer.register_forward_pre_hook(enter)
        layer.register_forward_hook(leave(name))
    with dice.lent(0), training(module, on), torch.no_grad(), contextlib.suppress(*FAULTS):
        module(x)
    return found[0] if found else None


def begun(module: nn.Module, own: Collection[str], read: Collection[str] = ()) -> dict[str, int]:
    """How many numbers of its parameters begin "fresh" in a run, as its "own", or "read" of a file.

    ``own`` and ``read``: names of parameters.
    """
    out = {"fresh": 0, "own": 0, "read": 0}
    for name, value in module.named_parameters():
        how = "own" if name in own else "fresh"
        out["read" if name in read else how] += value.numel()
    return out


def told(begins: Mapping[str, int]) -> str:
    """In words, what ``begun`` says of a network that no data are there for."""
    whole = sum(begins.values())
    if not begins["own"]:
        return "every number is drawn from the run's seed, but for weights that the task reads"
    kept = f"{begins['own']:,} of {whole:,} numbers are the network's own"
    return f"{kept}; what is thrown while it is made comes from the run's seed"
