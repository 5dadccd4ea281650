"""What a run computes in: one precision, or with bfloat16 two.

Then the products of local training are of bfloat16, which processors with matrix units and GPUs
multiply faster; weights, messages, losses and sums are of float32, and so is all evaluation.
"""

from __future__ import annotations

from typing import Literal, get_args

from leakbench.base.lazy import torch

Dtype = Literal["float32", "float64", "bfloat16"]
DTYPES: tuple[str, ...] = get_args(Dtype)


def kept_dtype(name: str) -> torch.dtype:
    """The precision of what is kept and sent in a run of the dtype called ``name``."""
    return split_dtype(getattr(torch, name))[0]


def products(name: str) -> torch.dtype:
    """The precision of the products of local training, and so of its gradients."""
    full, low = split_dtype(getattr(torch, name))
    return low or full


def split_dtype(dtype: torch.dtype) -> tuple[torch.dtype, torch.dtype | None]:
    """Of what is kept and sent; and of the products of local training, where it is another one."""
    return (torch.float32, dtype) if dtype == torch.bfloat16 else (dtype, None)
