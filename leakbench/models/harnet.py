"""HARNet: FLea's convolutions along time on sensor windows."""

from __future__ import annotations

from torch import nn

from leakbench.base.errors import UsageError
from leakbench.models.stages import Stages

LAYERS = ((3, 3), (6, 2), (6, 2), (6, 2))  # kernel and stride along time
# As PyTorch starts its own layers, standard deviation 1/sqrt(3 fan in). Before a BatchNorm the
# scale of a weight changes nothing but how far a step of Adam turns it, and the FLea paper's rates
# belong to this start.
GAIN = 3**-0.5


def harnet(shape: tuple[int, ...], out: int, width: int) -> Stages:
    """HARNet as in FLea's Table 6: x (B, C, time, axes) -> (B, out).

    Axes are not mixed before the head. Stages layer1 to layer4: convolution with kernel (k, 1) and
    stride (s, 1), ``LAYERS``, padding 1 along time, to ``width`` (there 64), 2, 4 and 4 ``width``
    channels; BatchNorm; ReLU. Then head, linear. A window (1, 128, 3) becomes (64, 43, 3),
    (128, 20, 3), (256, 9, 3), (256, 3, 3) = 2,304 numbers. Not as there: no padding across axes,
    whose extra columns are constants (see ``harnet_padded``), and no bias before a norm, which
    would take it away again.

    Raises:
        UsageError: the inputs are too short in time (under 64 steps).
    """
    return _harnet(shape, out, width, pad=0)


def harnet_padded(shape: tuple[int, ...], out: int, width: int) -> Stages:
    """``harnet`` with padding 1 on both axes, as released.

    (64, 43, 5), (128, 20, 7), (256, 9, 9), (256, 3, 11) = 8,448 numbers. Every layer adds a column
    on both sides. In evaluation mode the columns within are those of ``harnet`` with the same
    numbers, the others the same for every input; in training mode they enter the statistics of
    BatchNorm.
    """
    return _harnet(shape, out, width, pad=1)


def _harnet(shape: tuple[int, ...], out: int, width: int, *, pad: int) -> Stages:
    channels, time, axes = shape
    stages: dict[str, nn.Module] = {}
    widths = (width, 2 * width, 4 * width, 4 * width)
    for i, (outputs, (kernel, stride)) in enumerate(zip(widths, LAYERS, strict=True), 1):
        convolution = nn.Conv2d(channels, outputs, (kernel, 1), (stride, 1), (1, pad), bias=False)
        stages[f"layer{i}"] = nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU())
        channels, time, axes = outputs, (time + 2 - kernel) // stride + 1, axes + 2 * pad
        if time < 1:
            raise UsageError(
                "task.model = 'harnet' needs inputs of at least 64 steps in time, these have shape"
                f" {shape}; take another model."
            )
    head = nn.Sequential(nn.Flatten(), nn.Linear(channels * time * axes, out))
    return Stages({**stages, "head": head}, gain=GAIN)
