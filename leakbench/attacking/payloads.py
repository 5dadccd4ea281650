"""What a user hands in from a training loop: copied, and refused where no attack could use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from leakbench.base.errors import UsageError, suggestion
from leakbench.base.raised import first_line
from leakbench.base.tree import Tree, tmap
from leakbench.federation.net import copied
from leakbench.federation.network import thrower

FAULTS = (RuntimeError, ValueError, TypeError, IndexError)  # of torch, on tensors that do not fit


def network(model: Any) -> nn.Module:
    """A copy of ``model`` in evaluation mode.

    Raises:
        UsageError: it is no module, has no parameters, or cannot be copied.
    """
    if not isinstance(model, nn.Module):
        raise UsageError(f"model: expected a torch.nn.Module, got {type(model).__name__}.")
    if not list(model.parameters()):
        raise UsageError("model: it has no parameters, so nothing in it can be trained.")
    try:
        return copied(model).eval()
    except FAULTS as error:
        raise UsageError(
            f"model: it cannot be copied ({first_line(error)}); give one that has not been"
            " called since its weights were loaded."
        ) from None


def modes(model: nn.Module | None) -> dict[str, bool]:
    """Is it in training mode now, layer by layer? By their names; "" is the model itself."""
    return {} if model is None else {name: m.training for name, m in model.named_modules()}


def refuse_dice(model: nn.Module, shape: tuple[int, ...], on: Mapping[str, bool]) -> None:
    """No layer throws dice while the model trains, in the modes ``on``.

    Raises:
        UsageError: one does.
    """
    at = next(model.parameters())
    x = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0)).to(at)
    name = thrower(model, x, on)
    if name is not None:
        raise UsageError(
            f"model: its layer {name!r} throws dice in training (drops out units, say), which no"
            " attacker knows; call model.eval() if it was trained without, or set p = 0."
        )


def outputs(model: nn.Module, shape: tuple[int, ...]) -> int:
    """How many outputs ``model`` has of one input of ``shape``.

    Raises:
        UsageError: it takes no such input, or gives no tensor (B, outputs).
    """
    if not shape:
        raise UsageError("a model goes with the shape of one input: write shape=(1, 28, 28).")
    first = next(model.parameters())
    try:
        with torch.no_grad():
            out = model(torch.zeros(1, *shape, device=first.device, dtype=first.dtype))
    except FAULTS as error:
        raise UsageError(
            f"the model takes no inputs of shape {shape}: {first_line(error)}"
        ) from None
    if not isinstance(out, Tensor) or out.shape[:1] != (1,):
        raise UsageError("model: expected one that gives a tensor (B, outputs).")
    return out.numel()


def tensors(payload: Any, what: str, device: str = "cpu", dtype: torch.dtype | None = None) -> Tree:
    """A copy of a tensor, or of a dict of tensors; ``dtype``: of the floats in it.

    Raises:
        UsageError: it is something else, or not finite.
    """

    def one(leaf: Any) -> Tensor:
        try:
            value = torch.as_tensor(leaf)
        except FAULTS:
            raise UsageError(
                f"{what}: expected a tensor or a dict of tensors, got {type(leaf).__name__}."
            ) from None
        if not bool(value.isfinite().all()):
            raise UsageError(f"{what} holds NaN or infinity; expected finite numbers.")
        kind = dtype if dtype and value.is_floating_point() else value.dtype
        return value.detach().to(device, kind, copy=True)

    return tmap(one, payload)


def parameters(payload: Any, what: str, model: nn.Module) -> dict[str, Any]:
    """A model, or an update of one: its tensors by the names of ``model``'s ``state_dict``.

    Of several names of one tensor one is kept.

    Raises:
        UsageError: it is something else, or does not fit the model.
    """
    names = [k for k, _ in model.named_parameters()]
    if isinstance(payload, Sequence) and not isinstance(payload, str):
        if len(payload) != len(names):
            raise UsageError(
                f"{what} has {len(payload)} tensors; the model has {len(names)} parameters."
            )
        payload = dict(zip(names, payload, strict=True))
    if not isinstance(payload, Mapping):
        raise UsageError(
            f"{what}: expected a dict by the names of the model's state_dict, or a sequence in the"
            f" order of its parameters(), got {type(payload).__name__}."
        )
    have = model.state_dict()
    for name, value in payload.items():
        if name not in have:
            raise UsageError(
                f"{what} holds {name!r}, which the model has not.{suggestion(str(name), have)}"
            )
        shape = tuple(getattr(value, "shape", ()))
        if shape != tuple(have[name].shape):
            raise UsageError(
                f"{what}: {name!r} has the shape {shape}; the model's is {tuple(have[name].shape)}."
            )
    if not set(names) & set(payload):
        raise UsageError(f"{what} holds none of the model's parameters.")
    once = {*names, *(k for k, _ in model.named_buffers())}
    return {k: v for k, v in payload.items() if k in once}


def labels_payload(
    y: Any, what: str, classes: int, device: str = "cpu", *, epochs: int = 1
) -> Tensor:
    """(epochs n,) int64, from 0 to ``classes`` - 1 (0 ``classes``: to any), in the order of steps.

    Args:
        y: of n examples (n,) or (n, 1), as whole numbers of any type, or one-hot (n, classes); of
            several epochs these, which then are the same in each, or (epochs, n).
        what: they are called.
        classes: how many there are.
        device: where they go.
        epochs: in which each example stands once.

    Raises:
        UsageError: they are none of these, or may be two of them.
    """
    found = tensors(y, what, device)
    whole = isinstance(found, Tensor) and not found.is_complex() and found.ndim in (1, 2)
    # Torch rounds no bool, and no unsigned number of more than a byte.
    if not whole or (found.is_floating_point() and bool((found != found.round()).any())):
        raise UsageError(f"{what}: expected whole numbers (B,), one for each example.")
    found = found.long()
    if not found.numel() or int(found.min()) < 0:
        raise UsageError(f"{what}: expected one at least, from 0 to {classes - 1}.")
    readings = [r for r in _readings(found, classes, epochs) if not classes or r.max() < classes]
    if not readings and found.ndim == 1:
        raise UsageError(f"{what}: expected one at least, from 0 to {classes - 1}.")
    if not readings:
        passes = f", or ({epochs}, n), a row for each epoch" if epochs > 1 else ""
        raise UsageError(
            f"{what} have the shape {tuple(found.shape)}; expected (n,), one for each example, or"
            f" one-hot (n, {classes}){passes}."
        )
    first = readings[0]
    if any(not torch.equal(first, other) for other in readings[1:]):
        sizes = sorted({len(r) // epochs for r in readings})
        raise UsageError(
            f"{what}, {tuple(found.shape)}, may be of {' or '.join(map(str, sizes))} examples in"
            f" each of {epochs} epochs: write them as ({epochs}, n), a row for each epoch, as"
            f" y.expand({epochs}, -1) does where the order is the same in each."
        )
    return first


def _readings(y: Tensor, classes: int, epochs: int) -> list[Tensor]:
    """What whole numbers (B,) or (B, C) may mean, (epochs n,) each, the order of steps."""
    out = []
    if y.ndim == 2 and epochs > 1 and len(y) == epochs and _same_in_each(y):
        out.append(y.flatten())
    if y.ndim == 2 and y.shape[1] == 1 < max(len(y), 2):
        out.append(y[:, 0].repeat(epochs))
    elif y.ndim == 2 and y.shape[1] == classes and _is_one_hot(y):
        out.append(y.argmax(1).repeat(epochs))
    if y.ndim == 1:
        out.append(y.repeat(epochs))
        if epochs > 1 and not len(y) % epochs and _same_in_each(y.view(epochs, -1)):
            out.append(y)
    return out


def _same_in_each(y: Tensor) -> bool:
    """Are the rows of y (epochs, n) the same labels, in whichever order?"""
    inside = y.sort(1).values
    return bool((inside == inside[:1]).all())


def _is_one_hot(y: Tensor) -> bool:
    return bool(((y == 0) | (y == 1)).all() and (y.sum(1) == 1).all())
