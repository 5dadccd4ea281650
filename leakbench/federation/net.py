"""The public architecture with somebody's weights, called whole or cut."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeAlias

from leakbench.base.errors import MethodError
from leakbench.base.lazy import torch

if TYPE_CHECKING:
    from torch import Tensor, nn


_Place: TypeAlias = tuple[str, bool, dict[str, Any], str]


@contextmanager
def training_mode(module: nn.Module, on: bool | Mapping[str, bool]) -> Iterator[None]:
    """Training or evaluation mode for a while; by the names of its layers, where they differ.

    Every layer is told, whatever it makes of it: one that is to stay in evaluation overrides
    ``train``, as in anybody's loop.
    """
    before = [(m, m.training) for m in module.modules()]
    if isinstance(on, bool):
        module.train(on)
    else:
        for name, m in module.named_modules():
            m.training = on[name]
    try:
        yield
    finally:
        for m, was in before:
            if m.training != was:
                m.training = was


def still(module: nn.Module) -> set[str]:
    """The buffers of layers that stay in evaluation mode: training moves none of them."""
    with training_mode(module, True):
        layers = [(name, m) for name, m in module.named_modules() if not m.training]
        return {f"{name}.{k}" for name, m in layers for k, _ in m.named_buffers(recurse=False)}


def copied(module: nn.Module) -> nn.Module:
    """A copy of a network that may have been called before.

    What a layer made then and keeps in a plain attribute (a weight that old-style ``weight_norm``
    computed, say) is copied as a number, which torch refuses of what gradients pass through.
    """
    kept = torch.utils._pytree.tree_leaves([vars(m) for m in module.modules()])
    made = [v for v in kept if isinstance(v, torch.Tensor) and not v.is_leaf]
    return copy.deepcopy(module, {id(v): v.detach().clone() for v in made})


def called(
    module: nn.Module,
    weights: Mapping[str, Tensor],
    x: Tensor,
    how: dict[str, Any],
    low: torch.dtype | None = None,
) -> Tensor:
    """What the module makes of x with these weights, cut or asked as ``how`` says.

    A buffer that a layer sets anew is written into ``weights``, like one that it writes in place.
    ``low``: the precision of its products; what comes out is of float32, as weights then are.

    Raises:
        MethodError: a tensor on the way of x is not among the weights. Torch would take the
            module's own, random, and nobody would notice.
    """
    places = _places(module)
    missing = _missing(places, weights)
    if missing:
        way = _way(module, how)
        missing = [k for k in missing if k.startswith(way)]
    if missing:
        raise MethodError(
            f"the network was called without {len(missing)} of its tensors ({missing[0]}, say):"
            " give it weights for every stage that x passes through."
        )
    # As torch.func.functional_call, which for small networks takes as long as the network.
    own = [(held, key, held[key]) for *_, held, key in places]
    lent = [weights.get(name, held[key]) for name, _, held, key in places]
    try:
        for (*_, held, key), tensor in zip(places, lent, strict=True):
            held[key] = tensor
        if low is None:
            out: Tensor = module(x, **how)
        else:
            with torch.autocast(x.device.type, low, cache_enabled=False):
                out = module(x, **how)
            out = out.float() if out.is_floating_point() else out
        for (name, _, held, key), tensor in zip(places, lent, strict=True):
            if held[key] is not tensor and name in weights and not tensor.requires_grad:
                tensor.copy_(held[key].detach())
        return out
    except ValueError:
        if not _alone(module, x):
            raise
        raise MethodError(
            "a batch of one example has no statistics for the network's BatchNorm in training: give"
            " every batch two examples or more, or take a network with GroupNorm."
        ) from None
    finally:
        for held, key, tensor in own:
            held[key] = tensor


def _alone(module: nn.Module, x: Tensor) -> bool:
    """Is one example alone to be normalised by a batch's statistics?"""
    norm = torch.nn.modules.batchnorm._BatchNorm
    return len(x) == 1 and any(isinstance(m, norm) and m.training for m in module.modules())


def _missing(places: list[_Place], weights: Mapping[str, Tensor]) -> list[str]:
    return [name for name, needed, *_ in places if needed and name not in weights]


def _places(module: nn.Module, at: str = "", known: dict[int, str] | None = None) -> list[_Place]:
    """Where the module keeps its tensors: (full name, is it part of a state, the dict, the key).

    One that stands in several places has the name of the first, as ``named_parameters`` has it.
    """
    out: list[_Place] = []
    known = {} if known is None else known
    for held in (module._parameters, module._buffers):
        for key, tensor in held.items():
            if tensor is not None:
                needed = key not in module._non_persistent_buffers_set
                out.append((known.setdefault(id(tensor), at + key), needed, held, key))
    for name, part in module._modules.items():
        if part is not None:
            out += _places(part, f"{at}{name}.", known)
    return out


@lru_cache
def _cut(forward: Callable[..., Any]) -> bool:
    """Can such a network be called in part?"""
    return "stop" in signature(forward).parameters


def _way(module: nn.Module, how: dict[str, Any]) -> tuple[str, ...]:
    """What the names of the tensors begin with that x meets."""
    from leakbench.models.stages import SIDE, Stages

    if not isinstance(module, Stages):
        return ("",)
    if "side" in how:
        return (f"{SIDE}.{how['side']}.",)
    return module.met(how.get("start"), how.get("stop"))


class Net:
    """The public architecture with some weights.

    ``net(x, stop="conv1")`` and ``net(f, start="conv1")`` cut it after a stage. ``low``: the
    precision of its products, where that is not the weights'.
    """

    def __init__(
        self, module: nn.Module, weights: Mapping[str, Tensor], low: torch.dtype | None = None
    ) -> None:
        self.module, self.weights, self.low = module, weights, low

    def __call__(
        self,
        x: Tensor,
        *,
        start: str | None = None,
        stop: str | None = None,
        weights: Mapping[str, Tensor] | None = None,
        given: Tensor | None = None,
    ) -> Tensor:
        """(B, dim) of x (B, ...); ``weights``: another model's, in evaluation mode (a teacher).

        ``given`` (B, T): the tokens said so far, of a network that says one after another; then
        (B, T, tokens).
        """
        # A network that is not made of stages takes x alone.
        cut = {k: v for k, v in (("start", start), ("stop", stop)) if v is not None}
        if cut and not _cut(type(self.module).forward):
            raise MethodError(
                "the network is not made of stages, so it cannot be cut: make it of"
                " leakbench.models.Stages."
            )
        asked: dict[str, Any] = cut if given is None else {**cut, "given": given}
        return self._called(x, asked, weights)

    def _called(
        self, x: Tensor, how: dict[str, Any], weights: Mapping[str, Tensor] | None
    ) -> Tensor:
        if weights is None:
            return called(self.module, self.weights, x, how, self.low)
        # Else BatchNorm would write into the other model's buffers.
        with training_mode(self.module, False):
            return called(self.module, {**self.weights, **weights}, x, how, self.low)

    def side(self, name: str, z: Tensor, *, weights: Mapping[str, Tensor] | None = None) -> Tensor:
        """What the head ``name`` beside the stages makes of z (B, ...).

        ``weights``: laid over the net's own, in the mode it is in (a head whose tensors are
        changed on the way).

        Raises:
            MethodError: the network has no such head.
        """
        if not any(k.startswith(f"side.{name}.") for k in self.weights):
            raise MethodError(
                f"the network has no head {name!r} beside its stages: the method's module() puts"
                " it there with Stages.put_aside."
            )
        laid = {**self.weights, **(weights or {})}
        return called(self.module, laid, z, {"side": name}, self.low)

    def decode(self, x: Tensor) -> Tensor:
        """(B, T) int64, the tokens that the network says of x (B, ...), greedily, padded with 0."""
        return called(self.module, self.weights, x, {"decode": True})

    @property
    def aside(self) -> Net:
        """The same network, of which no call moves the buffers (a BatchNorm's running statistics).

        For examples that are nobody's data: a batch of them has statistics of its own, which are
        not to stand for those that are averaged and evaluated.
        """
        buffers = {k for k, _ in self.module.named_buffers()}
        weights = {k: v.clone() if k in buffers else v for k, v in self.weights.items()}
        return Net(self.module, weights, self.low)

    @property
    def lacking(self) -> list[str]:
        """The names of the network's tensors that are not among its weights, sorted."""
        return sorted({*_missing(_places(self.module), self.weights)})

    @property
    def extractor(self) -> str:
        """The stage after which F(x), the features, end and T, the last stage, begins.

        Raises:
            MethodError: the network is not made of stages, or of one only.
        """
        from leakbench.models.stages import Stages

        names = self.module.names if isinstance(self.module, Stages) else []
        if len(names) < 2:
            raise MethodError(
                "this method cuts the network before its last stage: take a task.model of two"
                " stages at least."
            )
        return names[-2]

    def features(self, x: Tensor, *, weights: Mapping[str, Tensor] | None = None) -> Tensor:
        """F(x), flat, (B, d): what goes into the last stage."""
        return self(x, stop=self.extractor, weights=weights).flatten(1)

    @property
    def representation(self) -> str:
        """The place after which z, what goes into the last layer, is to be had.

        Not ``extractor`` where the last stage does more than one layer does (it pools, say).

        Raises:
            MethodError: the network is not made of stages, or its last layer not one of theirs.
        """
        from leakbench.models.stages import Stages, last_layer

        name, _ = last_layer(self.module)
        try:
            if not isinstance(self.module, Stages):
                raise ValueError("it is not made of stages")
            return self.module.before(name)
        except ValueError as error:
            raise MethodError(
                f"this method cuts the network before its last layer, but {error}: make it of"
                " leakbench.models.Stages that end in a layer or an nn.Sequential."
            ) from None
