"""Weights that were trained elsewhere, as a file of tensors by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from leakbench.base.errors import BrokenFile, UsageError


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file by name.

    Raises:
        UsageError: there is no such file, or it is of another kind (pickled weights may run code).
        BrokenFile: it is damaged.
    """
    if not path.is_file():
        raise UsageError(f"weights: there is no file {path}; name a safetensors file.")
    if path.suffix != ".safetensors":
        raise UsageError(
            f"weights: expected a .safetensors file, got {path.name}: pickled weights may run code"
            " when they are read. Convert them where you trust them:"
            " safetensors.torch.save_file(torch.load(FILE, weights_only=True), OUT)."
        )
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise BrokenFile(
            f"{path} is damaged or no safetensors file ({error}). Get it anew."
        ) from None


def laid_over(drawn: Mapping[str, Tensor], trained: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``drawn`` with the tensors of ``trained`` in their places, in ``drawn``'s precision.

    Raises:
        UsageError: a name or a shape does not fit the network.
    """
    for name, tensor in trained.items():
        if name not in drawn:
            raise UsageError(
                f"weights: they have a tensor {name!r}, the network has none of that name; take the"
                " weights of this network, or leave it out."
            )
        if tensor.shape != drawn[name].shape:
            raise UsageError(
                f"weights: {name!r} is {list(tensor.shape)}, the network's is"
                f" {list(drawn[name].shape)}; take the weights of this network."
            )
    return {k: trained[k].to(v) if k in trained else v for k, v in drawn.items()}
