"""Auxiliary data whose classes are not the clients': of people whom no client stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor


def strangers(y: Tensor, classes: int) -> bool:
    """Are some labels ``y`` (n,) none of the task's ``classes``, which go from 0 on?"""
    return bool((y >= classes).any())


def frequencies(y: Tensor, classes: int) -> Tensor:
    """(classes,) float64 of sum 1: how frequent each class is among the labels ``y`` (n,).

    Of those that are of the task's classes; where none is, all are equally likely.
    """
    counts = y[y < classes].bincount(minlength=classes).double()
    return counts / counts.sum() if bool(counts.any()) else torch.ones_like(counts) / classes
