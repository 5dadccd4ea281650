"""AudioNet: FLea's four convolutions on spectrograms."""

from __future__ import annotations

from torch import nn

from leakbench.models.harnet import GAIN
from leakbench.models.stages import Stages

KERNELS = (5, 3, 3, 3)


def audionet(shape: tuple[int, ...], out: int, width: int) -> Stages:
    """AudioNet as in FLea's Table 4: x (B, C, mels, frames) -> (B, out).

    Stages block1 to block4: convolution with ``KERNELS``, stride 2, padding half a kernel, to
    ``width`` (there 8), 2, 4 and 8 ``width`` channels; ReLU; BatchNorm, in the order that Section
    C.2 says. Then head: average pool, linear, of which the table says nothing (as released). A
    spectrogram (2, 64, 344) becomes (8, 32, 172), (16, 16, 86), which FLea shares, (32, 8, 43),
    (64, 4, 22) and 64 numbers.
    """
    channels = shape[0]
    stages: dict[str, nn.Module] = {}
    for i, kernel in enumerate(KERNELS):
        outputs = width * 2**i
        convolution = nn.Conv2d(channels, outputs, kernel, 2, kernel // 2)
        stages[f"block{i + 1}"] = nn.Sequential(convolution, nn.ReLU(), nn.BatchNorm2d(outputs))
        channels = outputs
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, out))
    return Stages({**stages, "head": head}, gain=GAIN)
