"""MobileFaceNet (Chen et al., CCBR 2018) for faces, with GroupNorm for BatchNorm."""

from __future__ import annotations

from torch import Tensor, nn

from leakbench.models.resnets import Head, group_norm
from leakbench.models.stages import Stages

# Expansion, channels, blocks, stride of the first of them: the original's Table 1.
GROUPS = ((2, 64, 5, 2), (4, 128, 1, 2), (2, 128, 6, 1), (4, 128, 1, 2), (2, 128, 2, 1))
STEM, LAST = 64, 512
HALVED = 16  # an input's sides, once all strides have halved them


class Bottleneck(nn.Module):
    """x (B, inputs, H, W) -> (B, outputs, H/stride, W/stride), with a shortcut where they agree.

    1x1 to ``expand`` times the inputs, 3x3 on each channel alone (the stride), 1x1 to ``outputs``,
    all normed, PReLU after the first two.
    """

    def __init__(self, inputs: int, outputs: int, expand: int, stride: int) -> None:
        super().__init__()
        inner = expand * inputs
        self.expand = _normed(inputs, inner, active=True)
        self.depthwise = _normed(
            inner, inner, kernel=3, stride=stride, pad=1, groups=inner, active=True
        )
        self.project = _normed(inner, outputs)
        self.shortcut = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        """Nothing is done in place."""
        inner = self.project(self.depthwise(self.expand(x)))
        return inner + x if self.shortcut else inner


def mobilefacenet(shape: tuple[int, ...], out: int, width: int) -> Stages:
    """MobileFaceNet: x (B, *shape) -> (B, out).

    FedHide's network on VGGFace2, there from images of 64 pixels. Stages stem, depthwise, block1 to
    block15, last, pool, head; ``width`` channels in the stem (there 64; all others grow with it). A
    3x3 stem of stride 2, a 3x3 convolution of each channel, 15 bottlenecks, a 1x1 convolution, a
    convolution of each channel over the whole map (7x7 of 112 pixels, 4x4 of 64), a linear layer.
    Not as there: GroupNorm (FedHide's; the number of groups is ours), and none after the last
    layer, whose embedding it would bend: the methods make it of length 1.
    """

    def wide(channels: int) -> int:
        return max(1, round(channels * width / STEM))

    stages: dict[str, nn.Module] = {
        "stem": _normed(shape[0], width, kernel=3, stride=2, pad=1, active=True),
        "depthwise": _normed(width, width, kernel=3, pad=1, groups=width, active=True),
    }
    inputs = width
    for expand, channels, blocks, stride in GROUPS:
        outputs = wide(channels)
        for b in range(blocks):
            block = Bottleneck(inputs, outputs, expand, stride if b == 0 else 1)
            stages[f"block{len(stages) - 1}"] = block
            inputs = outputs
    last = wide(LAST)
    height, breadth = (-(-side // HALVED) for side in shape[1:])
    everywhere = nn.Conv2d(last, last, (height, breadth), groups=last, bias=False)
    stages["last"] = _normed(inputs, last, active=True)
    stages["pool"] = nn.Sequential(everywhere, group_norm(last), nn.Flatten())
    return Stages({**stages, "head": Head(last, out)}, gain=2**0.5)


def _normed(
    inputs: int,
    outputs: int,
    *,
    kernel: int = 1,
    stride: int = 1,
    pad: int = 0,
    groups: int = 1,
    active: bool = False,
) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, pad, groups=groups, bias=False)
    layers = [convolution, group_norm(outputs)]
    return nn.Sequential(*layers, nn.PReLU(outputs)) if active else nn.Sequential(*layers)
