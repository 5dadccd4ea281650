"""Residual networks with GroupNorm for BatchNorm (Wu and He 2018), as federated papers use.

BatchNorm fails where a client has one class (Hsieh et al. 2020), and its statistics would tell of
the client's data.
"""

from __future__ import annotations

from torch import Tensor, nn

from leakbench.models.stages import Stages


def group_norm(channels: int, *, affine: bool = True) -> nn.GroupNorm:
    """GroupNorm in groups of 16 channels where they divide evenly (Wu and He 2018, Table 3).

    At most 32 groups; fewer than 16 channels are one. The papers give no groups. With two channels
    a group the average pool at the end sees little but what the norm has just taken away, and on
    CIFAR-100 the embeddings of all images stay one direction for longer. ``affine``: with a learnt
    scale and shift per channel.
    """
    most = min(32, max(channels // 16, 1))
    groups = max(g for g in range(1, most + 1) if channels % g == 0)
    return nn.GroupNorm(groups, channels, affine=affine)


class Block(nn.Module):
    """A residual block: x (B, inputs, H, W) -> (B, outputs, H/stride, W/stride).

    Two 3x3 convolutions beside a shortcut (He et al. 2016, Fig. 2): the identity, or where the
    shape changes a 1x1 convolution with normalisation (their option B).
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = group_norm(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = group_norm(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            projection = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, group_norm(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Nothing is done in place: engines and attackers differentiate twice and vectorise."""
        inner = self.norm1(self.conv1(x)).relu()
        return (self.norm2(self.conv2(inner)) + self.shortcut(x)).relu()


class Head(nn.Linear):
    """A linear layer that starts as PyTorch's own, standard deviation 1/sqrt(3 fan in).

    Not as the layers before a ReLU: with sqrt(2) in its place embeddings are 2.4 times as long, and
    what is learnt through their direction 6 times as slow.
    """

    gain = 3**-0.5


def _resnet(shape: tuple[int, ...], out: int, width: int, *, groups: int, blocks: int) -> Stages:
    """A 3x3 stem, groups that double the channels and halve the sides, pool, linear head."""
    convolution = nn.Conv2d(shape[0], width, 3, 1, 1, bias=False)
    stem = nn.Sequential(convolution, group_norm(width), nn.ReLU())
    stages: dict[str, nn.Module] = {"stem": stem}
    inputs = width
    for g in range(groups):
        outputs = width * 2**g
        first = Block(inputs, outputs, 1 if g == 0 else 2)
        others = [Block(outputs, outputs, 1) for _ in range(blocks - 1)]
        stages[f"group{g + 1}"] = nn.Sequential(first, *others)
        inputs = outputs
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), Head(inputs, out))
    return Stages({**stages, "head": head}, gain=2**0.5)


def resnet8(shape: tuple[int, ...], out: int, width: int) -> Stages:
    """The CIFAR ResNet of 6n + 2 layers with n = 1 (He et al. 2016, Section 4.2).

    x (B, *shape) -> (B, out). Three groups of ``width``, 2 ``width`` and 4 ``width`` channels
    (there 16, 32, 64). Stages stem, group1 to group3, head. Not as there: GroupNorm; projections in
    the shortcuts that change the shape, where the paper pads with zeros (option A).
    """
    return _resnet(shape, out, width, groups=3, blocks=1)


def resnet32(shape: tuple[int, ...], out: int, width: int) -> Stages:
    """As ``resnet8``, with n = 5; FedMetric's network on CIFAR-10 (Section 4.1)."""
    return _resnet(shape, out, width, groups=3, blocks=5)


def resnet18(shape: tuple[int, ...], out: int, width: int) -> Stages:
    """ResNet-18 (He et al. 2016, Table 1) for images of 32 pixels: x (B, *shape) -> (B, out).

    FedHide's network on CIFAR-100. Four groups of two blocks of ``width`` to 8 ``width`` channels
    (there 64 to 512), as torchvision's ``resnet18`` has them. Stages stem, group1 to group4, head.
    Not as there: GroupNorm (FedHide's; the number of groups is ours), and for small images a
    3x3 stem of stride 1 without max pooling (ours; FedHide names none).
    """
    return _resnet(shape, out, width, groups=4, blocks=2)
