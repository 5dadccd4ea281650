"""A network that runs as its author wrote it, and is cut at layers of it by their names.

Up to a place it runs until that layer has given its output. From there on it runs as well, but what
came before the place is not computed: those layers give zeros of the shapes that they gave, and the
layer itself gives the features. That this is the same is tried when the places are found.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from leakbench.base import dice
from leakbench.models.stages import FAULTS, Stages

EXAMPLES = 4  # that are thrown to try a network
# What a network that is cut is asked for, and so must not have for itself.
ASKED = (
    *("names", "between", "before", "met", "put_aside"),
    *("in_a_row", "uncut", "gain", "rates", "_places"),
)


class _Reached(Exception):
    """The layer at which the network is cut has given ``output``."""

    def __init__(self, output: Tensor) -> None:
        super().__init__()
        self.output = output


@dataclass(frozen=True)
class _Call:
    """A layer was called: from when to when, and what it gave."""

    name: str
    begun: int
    ended: int
    output: object

    @property
    def plain(self) -> bool:
        """Did it give one tensor, a row for each example?"""
        return isinstance(self.output, Tensor) and self.output.shape[:1] == (EXAMPLES,)


@dataclass(frozen=True)
class Places:
    """Where a network may be cut.

    Args:
        shape: of an input.
        before: for each place, in the order in which they are reached, the layers that are done
            before, and the shapes (...) of what each of their calls gives for an example.
        last: the layer that is called last.
    """

    shape: tuple[int, ...]
    before: Mapping[str, Mapping[str, tuple[tuple[int, ...], ...]]]
    last: str

    def up_to(self, place: str) -> Places:
        """Those that are reached before ``place``, and ``place``."""
        names = [*self.before]
        kept = names[: names.index(place) + 1]
        return Places(self.shape, {k: self.before[k] for k in kept}, self.last)


class CutNetwork(Stages):
    """What ``cut`` makes of a network: its class, called as ``Stages`` are."""

    in_a_row: ClassVar[bool] = False
    uncut: ClassVar[type[nn.Module]]
    _places: Places

    @property
    def names(self) -> list[str]:
        """The places where it may be cut, in order, and its last layer."""
        return [*self._places.before, self._places.last]

    def between(self, start: str | None = None, stop: str | None = None) -> list[str]:
        """The places from one cut to the other, in order.

        Raises:
            ValueError: there is no such place to cut.
        """
        order = ["input", *self.names]
        for place in (start, stop):
            if place and place not in order:
                raise ValueError(f"the network is not cut at {place!r}: it has {', '.join(order)}")
        first, last = order.index(start or "input"), order.index(stop or order[-1])
        return order[first + 1 : last + 1]

    def met(self, start: str | None = None, stop: str | None = None) -> tuple[str, ...]:
        """All: which tensors stand between two cuts nobody knows."""
        return ("",)

    def before(self, layer: str) -> str:
        """No place stands for what goes into a layer.

        Raises:
            ValueError: always.
        """
        raise ValueError(f"the network cannot be cut before {layer!r}")

    def forward(
        self, x: Tensor, start: str | None = None, stop: str | None = None, side: str | None = None
    ) -> Tensor:
        """The outputs (B, out) for inputs x (B, ...), or from one cut to the other."""
        if side is not None:
            return super().forward(x, side=side)
        if not self.between(start, stop):
            return x
        with ExitStack() as changed:
            given = x
            if start and start != "input":
                changed.enter_context(self._begun_at(start, x))
                given = x.new_zeros(len(x), *self._places.shape)
            if stop and stop != self.names[-1]:
                changed.enter_context(self._ended_at(stop))
            try:
                out: Tensor = self.uncut.forward(self, given)
            except _Reached as reached:
                return reached.output
        return out

    @contextmanager
    def _begun_at(self, place: str, features: Tensor) -> Iterator[None]:
        """For a while layers before ``place`` give zeros, and ``place`` gives ``features``."""
        passed = [False]

        def zeros(inner: Callable[..., Any], shapes: Sequence[tuple[int, ...]]) -> Any:
            left = list(shapes)

            def stands_in(*given: Any, **how: Any) -> Any:
                if passed[0] or not left:
                    return inner(*given, **how)
                return features.new_zeros(len(features), *left.pop(0))

            return stands_in

        def reached(inner: Callable[..., Any]) -> Any:
            def gives(*given: Any, **how: Any) -> Any:
                if passed[0]:
                    return inner(*given, **how)
                passed[0] = True
                return features

            return gives

        with ExitStack() as changed:
            for name, shapes in self._places.before[place].items():
                layer = self.get_submodule(name)
                changed.enter_context(_called_as(layer, zeros(layer.forward, shapes)))
            layer = self.get_submodule(place)
            changed.enter_context(_called_as(layer, reached(layer.forward)))
            yield

    @contextmanager
    def _ended_at(self, place: str) -> Iterator[None]:
        layer = self.get_submodule(place)
        inner = layer.forward

        def ends(*given: Any, **how: Any) -> Any:
            raise _Reached(inner(*given, **how))

        with _called_as(layer, ends):
            yield


@contextmanager
def _called_as(layer: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Calling ``layer`` calls ``forward`` for a while."""
    before = vars(layer).get("forward")
    vars(layer)["forward"] = forward
    try:
        yield
    finally:
        if before is None:
            del vars(layer)["forward"]
        else:
            vars(layer)["forward"] = before


def cut(module: nn.Module, places: Places) -> nn.Module:
    """The same object, of a class that can be called in part, too."""
    kind = module.uncut if isinstance(module, CutNetwork) else type(module)
    named = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "uncut": kind}
    module.__class__ = type(kind.__name__, (CutNetwork, kind), named)
    module._places = places  # type: ignore[assignment]
    module.rates = {}  # type: ignore[assignment]
    module.gain = 1.0  # type: ignore[assignment]
    return module


def places(module: nn.Module, shape: tuple[int, ...], wanted: str = "") -> Places:
    """Where the network may be cut: at layers beside which nothing passes.

    Those of its own children that have layers with parameters after them, up to ``wanted`` where
    one is: any layer, by its full name.

    Raises:
        LookupError: the network takes no such inputs, or it cannot be cut at ``wanted``; its text
            says why.
    """
    taken = next((name for name in ASKED if hasattr(module, name)), "")
    if taken:
        raise LookupError(f"it has a {taken!r} of its own")
    calls = _calls(module, shape)
    if not calls:
        raise LookupError(f"it takes no inputs of shape {tuple(shape)}, or has no layers")
    trained = {name for name, m in module.named_modules() if [*m.parameters(recurse=False)]}
    ended = max(c.begun for c in calls if c.name in trained or not trained)
    every = {name for name, _ in module.named_children()}
    last = [c.name for c in calls if c.name in every][-1]
    found = {}
    for call in sorted(calls, key=lambda c: c.ended):
        asked, followed = call.name == wanted, call.ended < ended
        if asked and not followed:
            raise LookupError(f"no layer with parameters follows {wanted!r}")
        if not asked and not (followed and call.name in every):
            continue
        before = _before(calls, call)
        why = _obstacle(module, calls, call, Places(shape, {call.name: before}, last))
        if asked and why:
            raise LookupError(why)
        if not why:
            found[call.name] = before
        if asked:
            break
    if wanted and wanted not in found:
        raise LookupError(f"{wanted!r} is not called")
    return Places(shape, found, last)


def _thrown(shape: Sequence[int]) -> Tensor:
    return torch.rand(EXAMPLES, *shape, generator=torch.Generator().manual_seed(0))


def _calls(module: nn.Module, shape: Sequence[int]) -> list[_Call]:
    """Every call of a layer, in the order in which they begin; none if it fails."""
    module, begun, found, time = copy.deepcopy(module), [], [], [0]

    def begin() -> None:
        begun.append(time[0])
        time[0] += 1

    def end(name: str, output: object) -> None:
        found.append(_Call(name, begun.pop(), time[0], output))
        time[0] += 1

    for name, layer in module.named_modules():
        if name:
            layer.register_forward_pre_hook(lambda _m, _x: begin(), prepend=True)
            layer.register_forward_hook(lambda _m, _x, out, name=name: end(name, out))
    try:
        with torch.no_grad(), dice.lent(0):
            module.eval()(_thrown(shape))
    except FAULTS:
        return []
    return sorted(found, key=lambda c: c.begun)


def _before(calls: Sequence[_Call], place: _Call) -> dict[str, tuple[tuple[int, ...], ...]]:
    """What is done when ``place`` begins: of layers within layers the outermost, and shapes."""
    done = [c for c in calls if c.ended < place.begun and c.plain]
    out: dict[str, tuple[tuple[int, ...], ...]] = {}
    for c in done:
        if not any(o.begun < c.begun and c.ended < o.ended for o in done):
            assert isinstance(c.output, Tensor)  # noqa: S101 - ``plain`` says so
            out[c.name] = (*out.get(c.name, ()), tuple(c.output.shape[1:]))
    return out


def _obstacle(module: nn.Module, calls: Sequence[_Call], place: _Call, there: Places) -> str:
    """Why the network cannot be cut there; empty where it can."""
    if not place.plain:
        kind = type(place.output).__name__
        shown = tuple(place.output.shape) if isinstance(place.output, Tensor) else kind
        return f"{place.name!r} gives {shown} for {EXAMPLES} inputs, and one tensor (n, ...) is cut"
    if sum(c.name == place.name for c in calls) > 1:
        return f"{place.name!r} is called several times"
    for on in (False, True):
        whole, parts = (copy.deepcopy(module).train(on) for _ in range(2))
        parts = cut(parts, there)
        x = _thrown(there.shape)
        try:
            with torch.no_grad(), dice.lent(0):
                one = whole(x)
            with torch.no_grad(), dice.lent(0):
                other = parts(parts(x, stop=place.name), start=place.name)
        except FAULTS as error:
            return f"at {place.name!r} it fails ({str(error).splitlines()[0]})"
        same = isinstance(one, Tensor) and isinstance(other, Tensor) and torch.equal(one, other)
        kept = parts.state_dict()
        if not same or any(not torch.equal(v, kept[k]) for k, v in whole.state_dict().items()):
            return f"something passes beside {place.name!r} on its way to the outputs"
    return ""
