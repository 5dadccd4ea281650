"""torchvision's networks as encoders of captioners, and their weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from leakbench.base.errors import UsageError
from leakbench.models.pretrained import read_weights

if TYPE_CHECKING:
    from torchvision.models import ResNet

MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's channels
BODY = "encoder.body."  # where torchvision's tensors stand in a captioner
# Of theirs: the classifier, and counters that nobody reads.
DROPPED = ("fc.", "num_batches_tracked")


def _standard(x: Tensor) -> Tensor:
    """Images x in [0, 1] as torchvision's weights expect them."""
    mean, spread = (x.new_tensor(v).view(3, 1, 1) for v in (MEAN, SPREAD))
    return (x - mean) / spread


class ResNet50(nn.Module):
    """torchvision's ResNet-50 without pool and classifier: x (B, 3, 128, 128) -> (B, 2048, 4, 4).

    Images in [0, 1] are standardised as torchvision's weights expect it. ``frozen``: normalisation
    by the running statistics alone, which then stay as they are.
    """

    def __init__(self, *, frozen: bool = False) -> None:
        super().__init__()
        from torchvision.models import resnet50
        from torchvision.ops import FrozenBatchNorm2d

        body: ResNet = resnet50(norm_layer=FrozenBatchNorm2d if frozen else None)
        del body.avgpool, body.fc
        for layer in body.modules():
            if isinstance(layer, nn.ReLU):
                layer.inplace = False  # attackers differentiate twice
        self.body = body

    def forward(self, x: Tensor) -> Tensor:
        """The features of images x, with nothing done in place."""
        b = self.body
        x = b.maxpool(b.relu(b.bn1(b.conv1(_standard(x)))))
        return b.layer4(b.layer3(b.layer2(b.layer1(x))))


class AlexNet(nn.Module):
    """torchvision's AlexNet up to its last ReLU: x (B, 3, 96, 96) -> (B, 256, 5, 5).

    Images in [0, 1] are standardised as torchvision's weights expect it.
    """

    def __init__(self) -> None:
        super().__init__()
        from torchvision.models import alexnet

        layers = [*alexnet().features.children()][:-1]
        for layer in layers:
            if isinstance(layer, nn.ReLU):
                layer.inplace = False
        self.features = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """The features of images x."""
        return self.features(_standard(x))


def encoder_weights(model: str, path: Path) -> Mapping[str, Tensor]:
    """The encoder of the captioner ``model`` from torchvision's weights, as safetensors.

    Raises:
        UsageError: there is no such file, it is pickled, or not that network's; or the model has no
            pretrained encoder.
        BrokenFile: it is damaged.
    """
    if model == "captioner_resnet50":
        return _resnet50(path, read_weights(path))
    if model == "captioner_alexnet":
        return _alexnet(path, read_weights(path))
    raise UsageError(f"weights: {model} has no pretrained encoder; leave them empty.")


def _alexnet(path: Path, found: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    kept = {k: v for k, v in found.items() if k.startswith("features.")}
    if len(kept) != 10 or kept.get("features.0.weight", torch.zeros(0)).shape != (64, 3, 11, 11):
        raise UsageError(
            f"weights: {path.name} is no AlexNet as torchvision names its tensors; convert"
            " torchvision's own file."
        )
    return {BODY + k: v for k, v in kept.items()}


def _resnet50(path: Path, found: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    if found.get("conv1.weight", torch.zeros(0)).shape != (64, 3, 7, 7) or not any(
        k.startswith("layer4.2.") for k in found
    ):
        raise UsageError(
            f"weights: {path.name} is no ResNet-50 as torchvision names its tensors; convert"
            " torchvision's own file."
        )
    kept = {k: v for k, v in found.items() if not k.startswith(DROPPED[0])}
    return {BODY + k: v for k, v in kept.items() if not k.endswith(DROPPED[1])}
