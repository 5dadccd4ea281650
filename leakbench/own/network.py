"""A network of somebody's own: made anew for each run, and in stages where it runs in a row."""

from __future__ import annotations

import copy
import hashlib
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from leakbench.base import dice
from leakbench.base.errors import UsageError, suggestion
from leakbench.base.lazy import torch
from leakbench.base.raised import first_line, own_place, raised_text
from leakbench.base.spec import fingerprint
from leakbench.federation.net import training_mode
from leakbench.federation.outputs import refuse_one_output, refuse_other_outputs
from leakbench.models import cut_network
from leakbench.models.cut_network import Places
from leakbench.models.stages import FAULTS, Stages

if TYPE_CHECKING:
    from torch import Tensor, nn

    from leakbench.own.clients import ClientData

FIRST = 16  # examples that a network is tried on
# A network, what makes one, or what makes one of so many outputs.
Model: TypeAlias = "nn.Module | Callable[..., nn.Module]"


def made(model: Model, out: int) -> nn.Module:
    """A network of ``out`` outputs: a copy of a module, or what a function or class makes.

    It is given the number of outputs if it takes an argument that it cannot do without, or one
    called out, outputs, classes or num_classes.

    Raises:
        UsageError: it makes no ``nn.Module``, or fails.
    """
    if isinstance(model, torch.nn.Module):
        return copy.deepcopy(model)
    if not callable(model):
        raise UsageError(
            f"model is {type(model).__name__}: expected a torch.nn.Module, or a function of the"
            " number of outputs that makes one."
        )
    how = _asked(model, out)
    try:
        found = model(*how[0], **how[1])
    except Exception as error:  # somebody's code may raise anything
        raise UsageError(
            f"model({out}) failed ({raised_text(error)}): expected a network of {out} outputs."
        ) from error
    if not isinstance(found, torch.nn.Module):
        raise UsageError(
            f"model({out}) made {type(found).__name__}: expected a torch.nn.Module; a function must"
            " return it."
        )
    return found


def _asked(model: Callable[..., Any], out: int) -> tuple[tuple[int, ...], dict[str, int]]:
    """The arguments to call it with."""
    try:
        asked = inspect.signature(model).parameters.values()
    except (TypeError, ValueError):
        return (out,), {}
    by_name = [p.name for p in asked if p.name in ("out", "outputs", "classes", "num_classes")]
    if by_name:
        return (), {by_name[0]: out}
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p for p in asked if p.default is p.empty and p.kind in places]
    return ((out,), {}) if needed else ((), {})


def prepared(
    module: nn.Module, shape: tuple[int, ...], *, tokens: bool, places: Places | None = None
) -> nn.Module:
    """The network as runs take it: whole numbers for tokens, stages, or cut at ``places``."""
    if tokens:
        module.register_forward_pre_hook(_whole_numbers)
        return module
    return _staged(module, shape) if places is None else cut_network.cut(module, places)


def places(
    module: nn.Module, shape: tuple[int, ...], *, tokens: bool, wanted: str | None
) -> Places | None:
    """Where a network is cut; None where it runs in a row, or cannot be cut and need not.

    ``wanted``: the name of a layer, the last of the places; or None.

    Raises:
        UsageError: it cannot be cut at ``wanted``.
    """
    if wanted is None and (tokens or isinstance(_staged(module, shape), Stages)):
        return None
    names = [name for name, _ in module.named_modules() if name]
    if wanted is not None and wanted not in names:
        raise UsageError(
            f"cut = {wanted!r}: expected the name of a layer of the network, as in"
            f" net.named_modules().{suggestion(str(wanted), names)}"
        )
    if tokens:
        raise UsageError(
            f"cut = {wanted!r}: expected none where inputs are tokens, which are looked up whole."
        )
    try:
        found = cut_network.places(module, shape, wanted or "")
    except LookupError as error:
        if wanted is None:
            return None
        raise UsageError(
            f"cut = {wanted!r}: the network cannot be cut there, for {error.args[0]}; name another"
            " layer, or none."
        ) from None
    return found if found.before else None


def _whole_numbers(_module: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a network that looks its inputs up is to be called with."""
    return (given[0].long(), *given[1:])


def _staged(module: nn.Module, shape: tuple[int, ...]) -> nn.Module:
    """The same layers as named stages, if one after the other they give what the network gives."""
    children = dict(module.named_children())
    apart = [*module._parameters, *module._buffers]
    if len(children) < 2 or apart or isinstance(module, Stages):
        return module
    row = Stages(children)
    for on in (True, False):
        one, other = (_called(m, shape, on=on) for m in (module, row))
        if one is None or other is None or not torch.equal(one, other):
            return module
    return row


def _called(module: nn.Module, shape: tuple[int, ...], *, on: bool) -> Tensor | None:
    """What it gives for four inputs, thrown; None where it takes no such inputs."""
    x = torch.rand(4, *shape, generator=torch.Generator().manual_seed(0))
    module = copy.deepcopy(module)
    try:
        with training_mode(module, on), torch.no_grad(), dice.lent(0):
            out = module(x)
    except FAULTS:
        return None
    return out if isinstance(out, torch.Tensor) else None


def refuse_outputs(module: nn.Module, data: ClientData, dim: int) -> None:
    """Raise UsageError where cross-entropy makes nothing of what a network gives.

    ``dim``: as many numbers will do, too, where every client stands for a class: an embedding.
    """
    train, shape = data.data.train, tuple(data.shape)
    some = torch.arange(min(FIRST, len(train)))
    if data.tokens:  # the largest is looked up, too
        some = torch.cat([some, train.stored.flatten(1).amax(1).argmax()[None]])
    x, module = train.images(some), module.to("cpu", torch.float32)
    try:
        with training_mode(module, False), torch.no_grad(), dice.lent(0):
            out = module(x.long() if data.tokens else x)
    except Exception as error:  # somebody's code may raise anything
        said = raised_text(error) if own_place(error) else first_line(error).rstrip(".")
        raise UsageError(
            f"the network does not take the clients' inputs, {tuple(x.shape)} ({said}): expected"
            " one that these data fit."
        ) from error
    apart = bool((data.data.client_class >= 0).all())
    embeds = apart and isinstance(out, torch.Tensor) and tuple(out.shape[1:]) == (dim,)
    logits = not embeds or dim == data.classes
    refuse_other_outputs(out, data.classes if logits else dim, logits=logits)
    if logits and out.shape[1] == 1:
        refuse_one_output(module, shape, data.classes)
    wrong = ~out.isfinite()
    if bool(wrong.any()):
        raise UsageError(
            f"the network gives {float(out[wrong][0])} for {int(wrong.any(1).sum())} of {len(out)}"
            " of the clients' inputs, before anything is trained: expected finite numbers; look at"
            " the size of the inputs, and for a division by 0."
        )
    shares = (out >= 0).all() and torch.allclose(out.sum(1), torch.ones(len(out)), atol=1e-4)
    if logits and shares:
        raise UsageError(
            "the network gives shares that sum to 1, as after a softmax, and the cross-entropy"
            " takes the softmax itself: let it end before that, in the logits."
        )


def identity(one: nn.Module, other: nn.Module) -> str:
    """Eight hex digits over all that makes a network what it is.

    Layers, shapes, what is trained, the code of layers that are not torch's, and the numbers that
    it begins with whatever the dice: those that are the same in ``other``, made again.
    """
    again = dict(other.state_dict())
    tensors = []
    for name, value in one.state_dict().items():
        same = torch.equal(value, again[name])
        tensors.append((name, list(value.shape), str(value.dtype), _digest(value) if same else ""))
    trained = [(name, v.requires_grad) for name, v in one.named_parameters()]
    own = {type(m) for m in one.modules() if not type(m).__module__.startswith("torch.")}
    return fingerprint([repr(one), tensors, trained, sorted(map(_code, own))])


def _digest(value: Tensor) -> str:
    plain = value.detach().cpu().contiguous()
    return hashlib.sha256(plain.numpy().tobytes()).hexdigest()


def _code(layer: type[nn.Module]) -> str:
    """What a class of layers runs: its functions, as they are compiled, and their numbers."""
    code = [vars(layer)[k].__code__ for k in sorted(vars(layer)) if _compiled(vars(layer)[k])]
    told = [(c.co_name, c.co_code.hex(), list(map(str, _plain(c.co_consts)))) for c in code]
    return fingerprint([layer.__qualname__, told, [list(c.co_names) for c in code]])


def _compiled(value: Any) -> bool:
    return hasattr(value, "__code__")


def _plain(constants: tuple[Any, ...]) -> list[Any]:
    """Those that are the same text in every process: a function within has an address."""
    return [v for v in constants if not hasattr(v, "co_code")]
