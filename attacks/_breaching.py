"""Gradient inversion by the `breaching` package (Geiping et al. 2020), on one step's gradient.

What of breaching 0.1.2 is stepped round here, and why:

* its helpers for configurations print, and use hydra without a version, which warns: hydra is asked
  directly;
* total variation and patterned starts are written for three channels: the kernel is repeated for as
  many as there are, and a start that cannot be had is a normal one;
* it differentiates by *all* parameters of a module and fails on one that the loss does not touch:
  it is given a module whose parameters are the shared ones that the loss touches, the others being
  constants;
* without buffers it puts the module into training mode and resets layers: buffers are always handed
  over, so it runs in evaluation mode;
* it draws from torch's global generator: that is forked, and started from the generator passed in;
* it swallows Ctrl-C and goes on with half a result, saying so on stdout only: what it prints is
  caught, and the interrupt raised again.
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from leakbench.base import UnknownName, UsageError

# (the module's output, labels) -> (), differentiable; it is copied deeply.
Loss = Callable[[Tensor, Tensor], Tensor]

# Those of the package's attacks that take any loss and labels, with their own number of steps.
ATTACKS = {"invertinggradients": 24_000, "wei": 300, "beyondinfering": 400}


@dataclass(frozen=True)
class Inversion:
    """What came out."""

    image: Tensor  # (B, C, H, W), clipped to [0, 1] if the attack does so
    labels: Tensor  # those given, or those that the package inferred
    # The best restart's, without regularisers: 1 - cosine, or half the squared error of the
    # gradient; inf where no restart gave a finite one, and the image is all zeros.
    loss: float


def invert(
    module: nn.Module,
    gradient: Mapping[str, Tensor],
    loss: Loss,
    shape: Sequence[int],
    labels: Tensor | None,
    *,
    generator: torch.Generator,
    attack: str = "invertinggradients",
    steps: int | None = None,
    restarts: int = 1,
    total_variation: float | None = None,
    takes: Sequence[int] | None = None,
    progress: Callable[[], None] | None = None,
) -> Inversion:
    """Find images whose gradient is the one shared.

    Args:
        module: with the weights that the victim received; used in evaluation mode, not changed.
        gradient: name of a parameter -> its gradient; parameters that are not there count as
            constants.
        loss: of the module's output and the labels. One that needs no labels (a prototype's) gets
            whatever ``labels`` is.
        shape: (B, C, H, W) of the images, on [0, 1].
        labels: (B,) int64, or None: the package infers them from the last two gradients, a
            classifier's weight and bias.
        generator: a CPU generator; the only dice. Torch's global ones are left as they were.
        attack: "invertinggradients" (signed Adam, cosine, total variation), "wei" or
            "beyondinfering" (L-BFGS).
        steps: default: the attack's own, 24,000, 300 and 400.
        restarts: the one with the least loss counts.
        total_variation: weight; default: the attack's own, 0.2, none and 0.24.
        takes: the shape of one image that the module expects, where not (C, H, W): (64,) for a flat
            one.
        progress: called at every evaluation of the objective, one a step (up to 25 with L-BFGS);
            may raise to stop.

    Raises:
        UnknownName: no such attack.
        UsageError: the gradient does not belong to the module, or ``shape`` is no batch of images.
        KeyboardInterrupt: Ctrl-C.
    """
    if attack not in ATTACKS:
        raise UnknownName("attack of breaching", attack, ATTACKS)
    if len(shape) != 4:
        raise UsageError(
            f"breaching needs images (B, C, H, W), got {tuple(shape)}; say how the net takes them"
            " with `takes`."
        )
    shared = _Shared(module, _checked(module, gradient), tuple(takes or shape[1:]))
    used = _touched(shared, loss, shape, labels)
    shared = _Shared(module, used, shared.shape)
    at = next(iter(shared.parameters()))
    said = io.StringIO()
    with _quiet(said), _dice(generator, at.device):
        config = _config(attack, steps, restarts, total_variation, at.dtype, shape)
        attacker = _attacker(shared, loss, config, shape)
        if progress is not None:
            attacker.objective.register_forward_hook(lambda *_: progress())
        observed = [gradient[name].detach().to(at) for name in used]
        payload, data = _exchanged(shared, observed, shape, labels)
        found, stats = attacker.reconstruct([payload], [data], {})
    if "interru" in said.getvalue():
        raise KeyboardInterrupt
    return Inversion(found["data"].detach(), found["labels"].detach(), float(stats["opt_value"]))


class _Shared(nn.Module):
    """A module whose parameters are those named, the others constants."""

    def __init__(self, module: nn.Module, names: Sequence[str], shape: tuple[int, ...]) -> None:
        super().__init__()
        self.names, self.shape = list(names), shape
        parameters = dict(module.named_parameters())
        held = {**parameters, **dict(module.named_buffers())}
        self.constants = [name for name in held if name not in names]
        self.free = nn.ParameterList([parameters[name].detach().clone() for name in names])
        # Buffers, so that they move and change type along.
        for k, name in enumerate(self.constants):
            self.register_buffer(f"constant{k}", held[name].detach().clone())
        # In a tuple: not a submodule, or its parameters would count.
        self.inner = (copy.deepcopy(module).eval(),)

    def forward(self, x: Tensor) -> Tensor:
        """Images (B, C, H, W) to the module's output."""
        held = dict(zip(self.names, self.free, strict=True))
        held |= {name: getattr(self, f"constant{k}") for k, name in enumerate(self.constants)}
        return torch.func.functional_call(self.inner[0], held, (x.reshape(len(x), *self.shape),))


def _checked(module: nn.Module, gradient: Mapping[str, Tensor]) -> list[str]:
    known = dict(module.named_parameters())
    for name, value in gradient.items():
        if name not in known or known[name].shape != value.shape:
            have = f"of shape {tuple(known[name].shape)}" if name in known else "missing"
            raise UsageError(
                f"the gradient has {name!r} {tuple(value.shape)}, in the module it is {have}. Give"
                " the module it came from."
            )
        if not bool(value.isfinite().all()):
            raise UsageError(f"the gradient of {name!r} is not finite. Count this unit as failed.")
    if not gradient:
        raise UsageError("the gradient is empty. Give at least one parameter's.")
    # In the module's order: the last two are to be the classifier's.
    return [name for name in known if name in gradient]


def _touched(shared: _Shared, loss: Loss, shape: Sequence[int], labels: Tensor | None) -> list[str]:
    """The shared parameters that the loss depends on."""
    at = next(iter(shared.parameters()))
    blank = torch.full(tuple(shape), 0.5, dtype=at.dtype, device=at.device)
    if labels is None:
        labels = torch.zeros(shape[0], dtype=torch.int64, device=at.device)
    value = loss(shared(blank), labels)
    parts: Sequence[Tensor | None] = [None] * len(shared.names)
    if value.requires_grad:
        parts = torch.autograd.grad(value, list(shared.free), allow_unused=True)
    used = [name for name, part in zip(shared.names, parts, strict=True) if part is not None]
    if not used:
        raise UsageError(
            "the loss depends on none of the gradient's parameters. Give the loss that the gradient"
            " is of."
        )
    return used


def _config(
    attack: str,
    steps: int | None,
    restarts: int,
    variation: float | None,
    dtype: torch.dtype,
    shape: Sequence[int],
) -> Any:
    import hydra
    from omegaconf import OmegaConf

    with hydra.initialize_config_module("breaching.config.attack", version_base="1.1"):
        config = hydra.compose(config_name=attack)
    values = {
        "restarts.num_trials": restarts,
        "impl.dtype": str(dtype).removeprefix("torch."),
        "optim.callback": 10**9,
    }
    if steps is not None:
        values["optim.max_iterations"] = steps
    if shape[1] != 3 and "patterned" in config.init:
        values["init"] = "randn"
    if variation is not None:
        old = (config.regularization or {}).get("total_variation", {"inner_exp": 1, "outer_exp": 1})
        values["regularization"] = {"total_variation": {**old, "scale": variation}}
    for name, value in values.items():
        OmegaConf.update(config, name, value, merge=False, force_add=True)
    return config


def _attacker(shared: _Shared, loss: Loss, config: Any, shape: Sequence[int]) -> Any:
    from breaching.attacks import prepare_attack
    from breaching.attacks.auxiliaries.regularizers import TotalVariation

    at = next(iter(shared.parameters()))
    attacker = prepare_attack(shared, loss, config, {"dtype": at.dtype, "device": at.device})
    for regularizer in attacker.regularizers:
        if isinstance(regularizer, TotalVariation):
            regularizer.groups = shape[1]
            regularizer.weight = regularizer.weight[:2].repeat(shape[1], 1, 1, 1)
    return attacker


def _exchanged(
    shared: _Shared, gradient: list[Tensor], shape: Sequence[int], labels: Tensor | None
) -> tuple[Any, Any]:
    """What the server sent and what the user shared, in the package's forms."""
    from omegaconf import OmegaConf

    channels = shape[1]
    scale = {"mean": [0.0] * channels, "std": [1.0] * channels}  # images stay on [0, 1]
    meta = OmegaConf.create({"shape": list(shape[1:]), **scale, "modality": "vision"})
    held = {"parameters": list(shared.parameters()), "buffers": list(shared.buffers())}
    payload = {**held, "metadata": meta}
    about = {"num_data_points": shape[0], "labels": labels, "local_hyperparams": None}
    return payload, {"gradients": gradient, "buffers": None, "metadata": about}


@contextlib.contextmanager
def _dice(generator: torch.Generator, device: torch.device) -> Iterator[None]:
    """Torch's global generators started from ``generator``, and afterwards as they were."""
    seed = int(torch.randint(2**62, (), generator=generator))
    cuda = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        torch.random.set_rng_state(torch.Generator().manual_seed(seed).get_state())
        for where in cuda:
            torch.cuda.set_rng_state(torch.Generator(where).manual_seed(seed).get_state(), where)
        yield


@contextlib.contextmanager
def _quiet(said: io.StringIO) -> Iterator[None]:
    """No print, log line or warning of the package gets out; ``said`` holds what it printed."""
    log = logging.getLogger("breaching")
    level = log.level
    try:
        log.setLevel(logging.ERROR)
        with contextlib.redirect_stdout(said), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
