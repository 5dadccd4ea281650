"""`cifar10`: photographs of 32x32 pixels (Krizhevsky 2009), of one class a client or split."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from leakbench.tasks._image_task import ImageTask
from leakbench.tasks._split_task import FLEA, IMAGE_MARKER, OF_FLEA, SPLIT_PARAM, SplitTask


class Cifar10(SplitTask, ImageTask):
    """Ten clients, client c has the 5,000 training images of class c.

    1,000 auxiliary and 9,000 test images. As FedMetric, Section 4.1: all clients in every round,
    ResNet-32 with GroupNorm, embeddings of 64 numbers, mean AUROC.

    FLea's setting (Section 4.1, Appendix C): ``split`` qua with ``split_param`` 3, ``clients`` 500,
    ``model`` mobilenetv2 with ``width`` 32, ``utility`` accuracy and 100 rounds; all methods then
    train as in that paper (on the command line -s task.split=qua and so on). Not as there: its code
    draws crops and flips once, for training *and* test images; here there are none, and the 1,000
    auxiliary images are out of the official test set.
    """

    about = "CIFAR-10 (32x32, colour), 10 clients with one class each, or another split"
    source: ClassVar[str] = "cifar10"
    shape: ClassVar[tuple[int, ...]] = (3, 32, 32)
    classes: ClassVar[int] = 10
    rounds: ClassVar[int] = 100_000
    tables: ClassVar[dict[str, dict[str, Any]]] = {
        # Ten clients have no ten neighbours.
        **{m: {"k": 5} for m in ("fedhide", "fedhide_random", "fedhide_own_layer")},
        # As on digits: at any norm the spheres blow each other up.
        "fedmetric": {"normalised": True, "lam": 1.0, "lr": 0.03},
        "feduv": {"lr": 3.0},
        **dict.fromkeys(OF_FLEA, FLEA),
    }

    clients: int = Field(10, ge=2, description="clients; with split class 10, one per class")
    split_param: float = Field(3.0, gt=0, description=SPLIT_PARAM)
    model: str = Field("resnet32", description="network, one of `leakbench list models`")
    width: int = Field(16, ge=1, le=4096, description="channels of the first convolution")
    dim: int = Field(64, ge=2, le=4096, description="width of the embedding")
    context: Literal["none", "square"] = Field("none", description=IMAGE_MARKER)
    utility: Literal["accuracy", "auroc"] = Field("auroc", description="metric on the test set")
