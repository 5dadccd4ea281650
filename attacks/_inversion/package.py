"""The package `breaching` (Geiping et al. 2020) at work on one loss and its gradient.

What of breaching 0.1.2 is stepped round here, and why:

* its helpers for configurations print, and use hydra without a version, which warns: hydra is asked
  directly;
* total variation and patterned starts are written for three channels: the kernel is repeated for as
  many as there are, differences of colours ("double opponents") are left out where there are not
  three, and starts are handed over;
* `modern` raises its rate for 50 steps, however few there are: for a fifth of them at most;
* `features` takes the last two gradients for a classifier's, follows the inputs of a layer that it
  finds by itself, hooks it anew at each restart, and wants features of zero for a label that the
  gradient is silent on: another is put in its place (`Features`);
* without buffers it puts a module into training mode and resets layers, with them into evaluation
  mode: it is given a module that has no layers of its own and whose output is the loss, computed
  in whatever mode the victim had;
* it draws from torch's global generator: that is forked, and started from the generator passed in;
* it swallows Ctrl-C and goes on with half a result, saying so on stdout only: what it prints is
  caught, and the interrupt raised again.

Left as they are: the image that it keeps is the one a step after the least objective, and its total
variation takes the right and the lower border for a step to black.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor

    from attacks._inversion.packaged import Features

WARM = 5  # the share of the steps, one in so many, in which a rate may rise


def solve(
    module: torch.nn.Module,
    gradient: Sequence[Tensor],
    start: Tensor,
    config: Any,
    *,
    generator: torch.Generator,
    features: Features | None = None,
    progress: Callable[[], None] = lambda: None,
) -> Tensor:
    """Where the package's search ends; zeros if nothing on its way was finite.

    Args:
        module: images (B, C, H, W) to the loss (); its parameters are what the gradient is of.
        gradient: of the parameters, in their order.
        start: (B, C, H, W) images, on [0, 1].
        config: see ``configured``.
        generator: a CPU generator; the only dice. Torch's global ones are left as they were.
        features: in place of the package's, where the configuration asks for it; None: left out.
        progress: called at every evaluation of the objective, one a step (up to 25 with L-BFGS);
            may raise to stop.

    Raises:
        KeyboardInterrupt: Ctrl-C.
    """
    said = io.StringIO()
    with _quiet(said), _dice(generator, start.device):
        attacker = prepared(module, config, start, features)
        attacker.objective.register_forward_hook(lambda *_: progress())
        payload, data = _exchanged(module, list(gradient), start)
        found, _ = attacker.reconstruct([payload], [data], {}, initial_data=start)
    if "interru" in said.getvalue():
        raise KeyboardInterrupt
    image: Tensor = found["data"].detach()
    return image


def configured(attack: str, *, steps: int, variation: float, channels: int) -> Any:
    """The package's own configuration of ``attack``, with this many steps and this prior.

    Labels are given: an attack that solves for them, too, solves for images alone.
    """
    import hydra
    from omegaconf import OmegaConf

    at = "breaching.config.attack"
    with _quiet(io.StringIO()), hydra.initialize_config_module(at, version_base="1.1"):
        config = hydra.compose(config_name=attack)
    values = {
        "attack_type": "optimization",
        "restarts.num_trials": 1,
        "optim.callback": 10**9,
        "optim.max_iterations": steps,
        "optim.warmup": min(config.optim.warmup, steps // WARM),
        "init": "zeros",  # a start is handed over
    }
    # Its attacks without a total variation do without. Zero leaves it out.
    if "total_variation" in (config.regularization or {}):
        values["regularization.total_variation.scale"] = variation
        if channels != 3:
            values["regularization.total_variation.double_opponents"] = False
    for name, value in values.items():
        OmegaConf.update(config, name, value, merge=False, force_add=True)
    return config


def prepared(module: torch.nn.Module, config: Any, like: Tensor, features: Features | None) -> Any:
    """The package's attacker, its regularisers mended for images as ``like`` (B, C, H, W)."""
    from breaching.attacks import prepare_attack
    from breaching.attacks.auxiliaries.regularizers import FeatureRegularization, TotalVariation

    config.impl.dtype = str(like.dtype).removeprefix("torch.")
    place = {"dtype": like.dtype, "device": like.device}
    attacker = prepare_attack(module, _output, config, place)
    kept: list[torch.nn.Module] = []
    for regularizer in attacker.regularizers:
        if isinstance(regularizer, TotalVariation):
            many = like.shape[1] * (2 if regularizer.double_opponents else 1)
            regularizer.groups = many
            regularizer.weight = regularizer.weight[:2].repeat(many, 1, 1, 1)
        if not isinstance(regularizer, FeatureRegularization):
            kept.append(regularizer)
        elif features is not None:
            features.scale = regularizer.scale
            kept.append(features)
    attacker.regularizers = kept
    return attacker


def divided(rows: Tensor, biases: Tensor) -> Tensor:
    """The one input (n,) of a linear layer, of its slopes by weights (k, n) and by biases (k,)."""
    with _quiet(io.StringIO()):
        from breaching.attacks import AnalyticAttacker

        # It reads of itself nothing, and of the labels how many they are.
        image: Tensor = AnalyticAttacker.invert_fc_layer(None, rows, biases, [0])
    return image


def _output(output: Tensor, labels: Tensor) -> Tensor:
    """The loss, which is what the module's output is."""
    return output


def _exchanged(module: torch.nn.Module, gradient: list[Tensor], start: Tensor) -> tuple[Any, Any]:
    """What the server sent and what the user shared, in the package's forms."""
    from omegaconf import OmegaConf

    count, *shape = start.shape
    scale = {"mean": [0.0] * shape[0], "std": [1.0] * shape[0]}  # images stay on [0, 1]
    meta = OmegaConf.create({"shape": list(shape), **scale, "modality": "vision"})
    held: Mapping[str, Any] = {"parameters": list(module.parameters()), "buffers": []}
    labels = torch.zeros(count, dtype=torch.int64, device=start.device)  # the module has its own
    about = {"num_data_points": count, "labels": labels, "local_hyperparams": None}
    shared = {"gradients": gradient, "buffers": None, "metadata": about}
    return {**held, "metadata": meta}, shared


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
