"""LeakPro's gradient inversion on one update of one step, by its own loop and its own defaults.

The package is not among the dependencies: clone it, install what it imports, and have it on
PYTHONPATH. Its attacks make the gradient themselves, of the true images; these serve for nothing
else here: kept is the image of the least loss, as who does not know the truth would (LeakPro itself
keeps the one that is most alike to the truth).
"""

from __future__ import annotations

import copy
import importlib.util
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from leakbench.base import dice

LEAKPRO = ("leakpro-inverting", "leakpro-huang")


def has_leakpro() -> bool:
    """Is it there?"""
    return importlib.util.find_spec("leakpro") is not None


def leakpro_images(name: str, net: nn.Module, x: Tensor, y: Tensor, steps: int) -> Tensor:
    """The images (B, C, H, W), on [0, 1], that attack ``name`` finds of the gradient of (x, y).

    Args:
        name: one of ``LEAKPRO``.
        net: as the client received it; on a processor.
        x: the true images (B, C, H, W), on [0, 1].
        y: their classes (B,).
        steps: of its optimizer.
    """
    from leakpro.attacks.gia_attacks.huang import Huang, HuangConfig
    from leakpro.attacks.gia_attacks.invertinggradients import InvertingConfig, InvertingGradients
    from leakpro.fl_utils.gia_train import train_nostep

    kinds: dict[str, tuple[Any, Any]] = {
        "leakpro-inverting": (InvertingGradients, InvertingConfig),
        "leakpro-huang": (Huang, HuangConfig),
    }
    attack, config = kinds[name]
    client = DataLoader(TensorDataset(x, y), batch_size=len(x))
    mean, std = torch.zeros(x.shape[1], 1, 1), torch.ones(x.shape[1], 1, 1)
    how = config(at_iterations=steps)
    with dice.lent(0):  # it starts from torch's own
        one = attack(copy.deepcopy(net), client, mean, std, train_fn=train_nostep, configs=how)
        one.prepare_attack()
        one.final_best = one.reconstruction_loader  # else it stops where no image is like the truth
        for _ in one.run_attack():
            pass
    found: Tensor = one.best_reconstruction.dataset.reconstruction
    return found.detach()
