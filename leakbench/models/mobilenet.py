"""MobileNetV2 (Sandler et al. 2018) for images of 32 pixels, as FLea uses it."""

from __future__ import annotations

from torch import Tensor, nn

from leakbench.models.harnet import GAIN
from leakbench.models.stages import Stages

# Expansion, channels, blocks, stride of the first of them: the original's Table 2, with stride 1
# where a small image has no side to give.
GROUPS = (
    (1, 16, 1, 1),
    (6, 24, 2, 1),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
STEM, LAST = 32, 1280


class Inverted(nn.Module):
    """An inverted residual: x (B, inputs, H, W) -> (B, outputs, H/stride, W/stride).

    1x1 to ``expand`` times the inputs, 3x3 on each channel alone (the stride), 1x1 to ``outputs``,
    all normed, ReLU after the first two. With stride 1 a shortcut is added: the identity, or a 1x1
    convolution with a norm where the width changes. torchvision's block has ReLU6, no first
    convolution where ``expand`` is 1, and no shortcut where the width changes.
    """

    def __init__(self, inputs: int, outputs: int, expand: int, stride: int) -> None:
        super().__init__()
        inner = expand * inputs
        self.expand = _normed(inputs, inner)
        self.depthwise = _normed(inner, inner, kernel=3, stride=stride, groups=inner)
        self.project = _normed(inner, outputs)
        self.stride = stride
        self.shortcut: nn.Module = nn.Identity()
        if stride == 1 and inputs != outputs:
            self.shortcut = _normed(inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Nothing is done in place."""
        inner = self.project(self.depthwise(self.expand(x).relu()).relu())
        return inner + self.shortcut(x) if self.stride == 1 else inner


def mobilenetv2(shape: tuple[int, ...], out: int, width: int) -> Stages:
    """MobileNetV2 as in FLea's Table 3: x (B, *shape) -> (B, out).

    Stages stem, block1 to block17, last, head. A 3x3 stem of stride 1 to ``width`` channels (there
    32; all other widths grow with it), 17 inverted residuals, a 1x1 convolution to 40 ``width``
    channels, all with BatchNorm and without biases, average pool, linear head. From (3, 32, 32):
    stem (32, 32, 32), block1 (16, 32, 32), what FLea shares; block2 and 3 (24, 32, 32), 4 to 6
    (32, 16, 16), 7 to 10 (64, 8, 8), 11 to 13 (96, 8, 8), 14 to 16 (160, 4, 4), 17 (320, 4, 4),
    last (1280, 4, 4). Table 3 misprints the outputs of blocks 2 and 11, counts two convolutions in
    block 4, and has no shortcut in block 17, whose width changes at stride 1 as in blocks 1, 2 and
    11, where it has.
    """

    def wide(channels: int) -> int:
        return max(1, round(channels * width / STEM))

    stem = nn.Sequential(_normed(shape[0], width, kernel=3), nn.ReLU())
    stages: dict[str, nn.Module] = {"stem": stem}
    inputs = width
    for expand, channels, blocks, stride in GROUPS:
        outputs = wide(channels)
        for b in range(blocks):
            block = Inverted(inputs, outputs, expand, stride if b == 0 else 1)
            stages[f"block{len(stages)}"] = block
            inputs = outputs
    last = nn.Sequential(_normed(inputs, wide(LAST)), nn.ReLU())
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(wide(LAST), out))
    return Stages({**stages, "last": last, "head": head}, gain=GAIN)


def _normed(
    inputs: int, outputs: int, *, kernel: int = 1, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs))
