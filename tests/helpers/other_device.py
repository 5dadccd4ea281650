"""A device with numbers of its own, where there is no GPU: what would fail on one fails here.

Its tensors say that they lie on torch's ``meta`` device, which autograd takes everywhere, and keep
their numbers on the processor. As on a GPU, an operation gets tensors of one device alone, but for
copies, rows that the host names, and single numbers beside tensors of the device; numpy looks into
none of them; the host's generators do not throw them; an index out of range ends all that follows.
What CUDA has no kernel for is refused, where torch was built to know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from helpers.one_device import DEVICE, MixedDevicesError

COPIES = {"copy_", "_to_copy", "_foreach_copy_"}
BY_ROWS = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}
# Beside those number by number: where a single number of the host may come.
SINGLE = {*BY_ROWS, "where", "masked_fill", "masked_fill_", "fill_", "lerp"}
PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot"}  # CUDA's are of no whole numbers
MAKERS = (torch.tensor, torch.as_tensor, torch.asarray)  # on ``meta`` they drop their numbers


INDEXED = (Tensor.__getitem__, Tensor.__setitem__)  # and so do the rows of a list


class RefusedError(AssertionError):
    """An operation that no GPU does, or that is the last one it does."""


class There(Tensor):
    """A tensor of the other device; ``held``: its numbers, on the processor."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> There:
        layout = {"strides": held.stride(), "storage_offset": held.storage_offset()}
        kind = {"dtype": held.dtype, "device": DEVICE}
        made: There = Tensor._make_wrapper_subclass(cls, held.shape, **layout, **kind)
        made.held = held
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl
    is_meta = False  # it has numbers

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _done(func, args, kwargs or {})

    def __repr__(self, **_: Any) -> str:
        return f"There({self.held!r})"

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def _give_data(self, other: There) -> None:
        Tensor.data.__set__(self, other)  # type: ignore[attr-defined]
        self.held = other.held

    data = property(Tensor.detach, _give_data)


class _Made(TorchFunctionMode):
    """Numbers of Python's reach the device."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        place = kwargs.get("device")
        if func in INDEXED:
            args = (args[0], _rows(args[1]), *args[2:])
        if func is Tensor.new_tensor and isinstance(args[0], There):
            return torch.tensor(args[1], dtype=kwargs.get("dtype", args[0].dtype)).to(DEVICE)
        if func in MAKERS and place is not None and torch.device(place).type == DEVICE:
            return func(*args, **{**kwargs, "device": None}).to(DEVICE)
        return func(*args, **kwargs)


class _OtherDevice(TorchDispatchMode):
    """All that happens on the device, and what went wrong there first."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: AssertionError | None = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            return _done(func, args, kwargs or {})
        except (MixedDevicesError, RefusedError) as error:
            self.wrong = self.wrong or error
            raise


@contextmanager
def other_device() -> Iterator[None]:
    """In here there is the device ``DEVICE``.

    Raises:
        MixedDevicesError: an operation got tensors of both, though who asked for it went on.
        RefusedError: no GPU does what was asked of it.
    """
    # Torch lets an optimizer be fused where it knows the device.
    there = import_module("torch.optim.optimizer")
    fused = [*there._get_fused_kernels_supported_devices(), DEVICE]
    with _OtherDevice() as mode, _Made(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(there, "_get_fused_kernels_supported_devices", lambda: fused)
        yield
    if mode.wrong is not None:
        raise mode.wrong


def _done(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What ``func`` gives, where its tensors lie."""
    given = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
    place = kwargs.get("device")
    there = any(isinstance(t, There) for t in given)
    if there:
        _same_device(func, args, kwargs, given)
    ends = there if place is None else torch.device(place).type == DEVICE
    if there or ends:
        _fits_cuda(func, args, kwargs)
    if place is not None and ends:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    if _name(func) == "linalg_lstsq" and there:
        kwargs = {**kwargs, "driver": "gels"}  # CUDA's only one
    own, named = tree_map(_held, (args, kwargs))
    try:
        out = func(*own, **named)
    except (IndexError, RuntimeError) as error:
        if there and ("out of range" in str(error) or "out of bounds" in str(error)):
            raise RefusedError(f"{func}: {error}") from error
        raise
    if func._schema.is_mutable:
        return _changed(func, args, kwargs, out)
    return tree_map(_there, out) if ends else out


def _changed(func: Any, args: Sequence[Any], kwargs: dict[str, Any], out: Any) -> Any:
    """What was written to, itself."""
    written = [a for a in func._schema.arguments if a.alias_info and a.alias_info.is_write]
    places = {a.name: i for i, a in enumerate(func._schema.arguments) if not a.kwarg_only}
    own = [kwargs[a.name] if a.name in kwargs else args[places[a.name]] for a in written]
    for t in own:
        if isinstance(t, There) and t.shape != t.held.shape:  # squeeze_, say
            t.data = There(t.held)
    if not func._schema.returns:
        return None
    returned = [r.alias_info is not None and r.alias_info.is_write for r in func._schema.returns]
    if all(returned):
        return own[0] if len(own) == 1 else tuple(own)
    there = any(isinstance(t, There) for t in tree_leaves((args, kwargs)))
    return tree_map(_there, out) if there else out


def _same_device(
    func: Any, args: Sequence[Any], kwargs: dict[str, Any], given: Sequence[Tensor]
) -> None:
    name, host = _name(func), [t for t in given if not isinstance(t, There)]
    if name in COPIES or not host:
        return
    first = args[0] if args else None
    of_host = isinstance(first, Tensor) and not isinstance(first, There)
    if name in BY_ROWS and not of_host:  # the host may name the rows
        rows = {id(t) for t in tree_leaves(args[1])}
        host = [t for t in host if id(t) not in rows]
    written = of_host and (func._schema.is_mutable or name in BY_ROWS)
    single = torch.Tag.pointwise in func.tags or name in SINGLE
    if written or any(t.dim() or not single for t in host):
        sizes = [(tuple(t.shape), "there" if isinstance(t, There) else "host") for t in given]
        raise MixedDevicesError(f"{func} got tensors of both devices: {sizes}")


def _fits_cuda(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    name = _name(func)
    if isinstance(kwargs.get("generator"), torch.Generator):
        raise RefusedError(f"{func}: a generator of the host cannot throw on the device")
    if name in PRODUCTS and not args[0].dtype.is_floating_point and not args[0].dtype.is_complex:
        raise RefusedError(f"{func} of {args[0].dtype}")
    if name == "linalg_lstsq" and kwargs.get("driver") not in (None, "gels"):
        raise RefusedError(f"{func} by {kwargs['driver']}")
    if torch.backends.cuda.is_built() and not _kernel(func._schema.name, func._overloadname):
        raise RefusedError(f"{func}: CUDA has no kernel for it")


@cache
def _kernel(name: str, overload: str) -> bool:
    full = name if overload == "default" else f"{name}.{overload}"
    found: bool = torch._C._dispatch_has_computed_kernel_for_dispatch_key(full, "CUDA")
    return found


def _name(func: Any) -> str:
    return str(func._schema.name.removeprefix("aten::"))


def _rows(index: Any) -> Any:
    """An index with tensors of the host for its lists."""
    if isinstance(index, tuple):
        return tuple(_rows(one) for one in index)
    return torch.tensor(index) if isinstance(index, list) and index else index


def _held(value: Any) -> Any:
    return value.held if isinstance(value, There) else value


def _there(value: Any) -> Any:
    plain = isinstance(value, Tensor) and not isinstance(value, There)
    return There(value) if plain else value
