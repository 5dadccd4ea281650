"""Fast ResNet-34 (Chung et al., Interspeech 2020) for voices, with GroupNorm for BatchNorm."""

from __future__ import annotations

from torch import Tensor, nn

from leakbench.models.resnets import Block, Head, group_norm
from leakbench.models.stages import Stages

BLOCKS = ((3, 1), (4, 2), (6, 2), (3, 1))  # of each group: how many, stride of the first


class Standardised(nn.Module):
    """Every band of a spectrogram (B, C, mels, frames) with mean 0 and deviation 1 over time."""

    def forward(self, x: Tensor) -> Tensor:
        """A band that never changes becomes 0."""
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()


class SelfAttentive(nn.Module):
    """Self-attentive pooling (Cai et al. 2018): x (B, C, mels, frames) -> (B, C).

    The mean over bands, then a mean over frames whose weights are the softmax over frames of
    v . tanh(W x + b).
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(channels, channels)
        self.weigh = nn.Linear(channels, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Nothing is done in place."""
        frames = x.mean(2).transpose(1, 2)
        weights = self.weigh(self.hidden(frames).tanh()).softmax(1)
        return (frames * weights).sum(1)


def fast_resnet34(shape: tuple[int, ...], out: int, width: int) -> Stages:
    """Fast ResNet-34: x (B, C, mels, frames), any number of frames -> (B, out).

    FedHide's network on VoxCeleb1. ResNet-34 with a quarter of its channels, ``width`` to 8
    ``width`` (there 16 to 128, 1.4 million parameters), on spectrograms of 40 bands. Stages stem,
    group1 to group4, pool, head. As released: each band standardised over time first, a 7x7 stem
    that halves the bands alone, groups 2 and 3 halve bands and frames, self-attentive pooling. Not
    as released: GroupNorm (FedHide's; the number of groups is ours) after every convolution and
    before the ReLU, as in He et al. 2016, and no squeeze-and-excitation, of which the paper does
    not speak. FedHide calls its own "modified" and does not say how.
    """
    convolution = nn.Conv2d(shape[0], width, 7, (2, 1), 3, bias=False)
    stem = nn.Sequential(Standardised(), convolution, group_norm(width), nn.ReLU())
    stages: dict[str, nn.Module] = {"stem": stem}
    inputs = width
    for g, (blocks, stride) in enumerate(BLOCKS):
        outputs = width * 2**g
        others = [Block(outputs, outputs, 1) for _ in range(blocks - 1)]
        stages[f"group{g + 1}"] = nn.Sequential(Block(inputs, outputs, stride), *others)
        inputs = outputs
    return Stages({**stages, "pool": SelfAttentive(inputs), "head": Head(inputs, out)}, gain=2**0.5)
