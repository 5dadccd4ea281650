"""Networks that can be cut: a row of named stages, and heads beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from leakbench.base import dice
from leakbench.base.errors import MethodError
from leakbench.base.raised import first_line

SIDE = "side"  # the submodule that holds what stands beside the way of x
# Of torch, where an input does not fit a network.
FAULTS = (RuntimeError, ValueError, TypeError, IndexError)


class Stages(nn.Module):
    """Named stages in order.

    ``start`` and ``stop`` name the stage *after* which to cut; "input" is before the first. Within
    a stage that is an ``nn.Sequential`` a layer can be named, too ("head.1"). Besides there may be
    heads that x does not pass through (``put_aside``): they are drawn, trained and averaged like
    the rest, and are no stages.

    Args:
        gain: of the initial weights, uniform with standard deviation gain / sqrt(fan in).
        stages: name -> module, in order.
    """

    in_a_row: ClassVar[bool] = True  # are the stages all that it does?

    def __init__(self, stages: dict[str, nn.Module], *, gain: float = 1.0) -> None:
        super().__init__()
        self.gain = gain
        # Stage -> factor on a method's learning rate of its parameters; 1 where it is not named.
        self.rates: dict[str, float] = {}
        for name, stage in stages.items():
            self.add_module(name, stage)

    @property
    def names(self) -> list[str]:
        """The stages' names, in order, without what stands beside them."""
        return [name for name, _ in self.named_children() if name != SIDE]

    def put_aside(self, name: str, head: nn.Module) -> None:
        """A head beside the stages; its tensors are called "side.<name>...."."""
        if SIDE not in dict(self.named_children()):
            self.add_module(SIDE, nn.ModuleDict())
        self.get_submodule(SIDE).add_module(name, head)

    def forward(
        self, x: Tensor, start: str | None = None, stop: str | None = None, side: str | None = None
    ) -> Tensor:
        """The outputs (B, out) for inputs x (B, ...), or the features after ``stop``.

        With ``side`` what the head of that name makes of x.
        """
        if side is not None:
            return self._modules[SIDE].get_submodule(side)(x)  # type: ignore[union-attr]
        for name in self.between(start, stop):
            x = self.get_submodule(name)(x)
        return x

    def between(self, start: str | None = None, stop: str | None = None) -> list[str]:
        """The pieces that x passes through from one cut to the other, in order.

        Raises:
            ValueError: there is no such place to cut.
        """
        names = ["input", *self._pieces((start or "", stop or ""))]
        first, last = names.index(start or "input"), names.index(stop or names[-1])
        return names[first + 1 : last + 1]

    def _pieces(self, cuts: Iterable[str]) -> list[str]:
        """The stages in order; a stage that is cut within as its layers."""
        within, out = {cut.partition(".")[0] for cut in cuts if "." in cut}, []
        for name in self.names:
            layers = [f"{name}.{k}" for k, _ in self.get_submodule(name).named_children()]
            out += layers if name in within else [name]
        return out

    def met(self, start: str | None = None, stop: str | None = None) -> tuple[str, ...]:
        """What the names of the tensors begin with that x meets from one cut to the other."""
        return tuple(f"{name}." for name in self.between(start, stop))

    def before(self, layer: str) -> str:
        """The place to cut at for what goes into ``layer``, "head" or "head.2".

        Raises:
            ValueError: it is no stage, and no layer of a stage that is an ``nn.Sequential``.
        """
        stage, _, inner = layer.partition(".")
        whole = not inner or isinstance(self.get_submodule(stage), nn.Sequential)
        pieces = ["input", *self._pieces((layer,))]
        if not whole or layer not in pieces[1:]:
            raise ValueError(f"the network cannot be cut before {layer!r}")
        return pieces[pieces.index(layer) - 1]


def fix(stage: nn.Module) -> None:
    """Leave a stage as it is: nobody trains it, and its layers stay in evaluation mode.

    Else a BatchNorm would go on averaging what passes, and an update would tell of it.
    """
    stage.requires_grad_(False).eval()
    for layer in stage.modules():
        layer.train = partial(_as_it_is, layer)  # type: ignore[method-assign]


def _as_it_is(layer: nn.Module, mode: bool = True) -> nn.Module:
    return layer


def first_linear(module: nn.Module, shape: Sequence[int]) -> str:
    """The name of the linear layer with a bias that reads the image itself; empty if none does."""
    at = next(module.parameters())
    x = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0)).to(at)
    read: list[str] = []

    def follow(name: str) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        def see(layer: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            if torch.equal(inputs[0].flatten(), x.flatten()) and layer.bias is not None:
                read.append(name)

        return see

    layers = [(n, m) for n, m in module.named_modules() if isinstance(m, nn.Linear)]
    hooks = [m.register_forward_pre_hook(follow(n)) for n, m in layers]
    was = {m: m.training for m in module.modules()}
    try:
        with torch.no_grad():
            module.eval()(x)
    finally:
        for m, training in was.items():
            m.training = training
        for hook in hooks:
            hook.remove()
    return read[0] if read else ""


def last_layer(
    module: nn.Module, shape: Sequence[int] | None = None
) -> tuple[str, nn.Linear | None]:
    """The name of the last layer that has parameters of its own, and the layer if it is linear.

    The last that is called where one input has ``shape``, whichever was registered last; without a
    shape the last that is registered. It is no linear one where its weights serve another layer as
    well, it is called several times, or what it gives is not, number by number, what the network
    gives. What stands beside the stages is none.

    Raises:
        MethodError: the network takes no inputs of that shape.
    """
    aside = f"{SIDE}." if isinstance(module, Stages) else None
    layers = {
        name: m
        for name, m in module.named_modules()
        if [*m.parameters(recurse=False)] and not (aside and name.startswith(aside))
    }
    if shape is None:
        name, alone = [*layers, ""][len(layers) - 1], True
    else:
        name, alone = _called_last(module, layers, shape)
    last = layers.get(name)
    if not isinstance(last, nn.Linear) or not alone or _serves(module, last.weight) > 1:
        return name, None
    return name, last


def _called_last(
    module: nn.Module, layers: Mapping[str, nn.Module], shape: Sequence[int]
) -> tuple[str, bool]:
    """Which of ``layers`` begins last, and whether it is called once and gives what is given."""
    begun: list[str] = []
    made: dict[str, int] = {}

    def begin(name: str) -> None:
        begun.append(name)

    def end(name: str, out: object) -> None:
        made[name] = out.numel() if isinstance(out, Tensor) else 0

    hooks = []
    for name, layer in layers.items():
        hooks += [
            layer.register_forward_pre_hook(lambda _m, _x, name=name: begin(name)),
            layer.register_forward_hook(lambda _m, _x, out, name=name: end(name, out)),
        ]
    try:
        with _evaluated(module):
            out = module(_some(module, shape))
    except FAULTS as error:
        raise MethodError(
            f"the network takes no inputs of shape {tuple(shape)}: {first_line(error)}"
        ) from None
    finally:
        for hook in hooks:
            hook.remove()
    if not begun:
        return "", False
    last = begun[-1]
    same = isinstance(out, Tensor) and made.get(last) == out.numel()
    return last, begun.count(last) == 1 and same


def _some(module: nn.Module, shape: Sequence[int]) -> Tensor:
    """Four inputs, thrown. They are the same at every call."""
    like = next(module.parameters(), torch.zeros(0))
    thrown = torch.Generator().manual_seed(0)
    return torch.rand(4, *shape, generator=thrown, dtype=torch.float64).to(like.device, like.dtype)


def squashes(module: nn.Module, shape: Sequence[int]) -> bool:
    """Is what the network gives the sigmoid of what its linear last layer gives?"""
    given, last = _ends(module, shape)
    return last.numel() > 0 and torch.allclose(given, last.sigmoid(), atol=1e-6)


def gives_logits(module: nn.Module, shape: Sequence[int]) -> bool:
    """Are the outputs of its linear last layer, one by one, the logits of what it gives?

    They are where both are the same but for a positive factor and for what is added to all outputs
    of an example (a log-softmax), or where the network gives the softmax or, of a single output,
    the sigmoid of them.
    """
    given, last = _ends(module, shape)
    if not last.numel():
        return False
    if last.shape[1] == 1:
        return _rises_with(given, last) or torch.allclose(given, last.sigmoid(), atol=1e-6)
    last = last - last.mean(1, keepdim=True)
    found = [given, given.log()] if bool((given > 0).all()) else [given]
    return any(_rises_with(g - g.mean(1, keepdim=True), last) for g in found)


def _rises_with(given: Tensor, last: Tensor) -> bool:
    """Is ``given`` a positive multiple of ``last``?"""
    factor = (given * last).sum() / (last * last).sum()
    return bool(factor > 0) and torch.allclose(given, factor * last, rtol=1e-4, atol=1e-6)


def _ends(module: nn.Module, shape: Sequence[int]) -> tuple[Tensor, Tensor]:
    """What the network gives for four inputs, and what its linear last layer gives.

    Both (4, K) float64; without such a layer (0, 0).
    """
    _, last = last_layer(module, shape)
    if last is None:
        return torch.zeros(0, 0).double(), torch.zeros(0, 0).double()
    seen: list[Tensor] = []
    hook = last.register_forward_hook(lambda _m, _x, out: seen.append(out))
    try:
        with _evaluated(module):
            out = module(_some(module, shape))
    finally:
        hook.remove()
    return out.double().reshape(4, -1), seen[-1].double().reshape(4, -1)


@contextmanager
def _evaluated(module: nn.Module) -> Iterator[None]:
    """In evaluation mode for a while, without gradients; the process's dice are put back."""
    modes = {m: m.training for m in module.modules()}
    module.eval()
    try:
        with torch.no_grad(), dice.lent(0):
            yield
    finally:
        for m, training in modes.items():
            m.training = training


def _serves(module: nn.Module, weight: Tensor) -> int:
    """In how many places of the network a tensor stands."""
    every = module.named_parameters(remove_duplicate=False)
    return sum(p is weight for _, p in every)


def of_layer(name: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of one layer of a network, by their full names, in their order."""
    return {k: v for k, v in tensors.items() if k.rpartition(".")[0] == name}


def tensor_of(layer: str, key: str) -> str:
    """The full name of a layer's tensor ``key``; a network that is a single layer is called ""."""
    return f"{layer}.{key}" if layer else key
