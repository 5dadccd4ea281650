"""`cifar100`: photographs of 32x32 pixels, 100 clients with one class each (Krizhevsky 2009)."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from leakbench.tasks._image_task import AUX, FLIP, ROTATION, ImageTask


class Cifar100(ImageTask):
    """A hundred clients, client c has the 500 training images of class c.

    2,000 auxiliary and 8,000 test images. As FedHide, Section 4.1: a tenth of the clients in a
    round, ResNet-18 with GroupNorm, embeddings of 512 numbers, random flips and rotations,
    accuracy. The paper gives no angle (ours: up to 15 degrees) and tests on all 10,000 test images.
    """

    about: ClassVar[str] = "CIFAR-100 (32x32, colour), 100 clients with one class each"
    source: ClassVar[str] = "cifar100"
    shape: ClassVar[tuple[int, ...]] = (3, 32, 32)
    classes: ClassVar[int] = 100
    rounds: ClassVar[int] = 100_000
    _tenth: ClassVar[dict[str, Any]] = {"fraction": 0.1}
    _methods: ClassVar[tuple[str, ...]] = ("fedhide", "fedgn", "fedcs", "fedaws", "fedavg")
    _ours: ClassVar[tuple[str, ...]] = (
        *("fedgn_once", "fedcs_once", "fedhide_random", "fedhide_own_layer"),
        *("own_prototypes", "fixed_prototypes"),
    )
    tables: ClassVar[dict[str, dict[str, Any]]] = dict.fromkeys(
        (*_methods, "fedprox", *_ours), _tenth
    )

    clients: int = Field(100, ge=100, le=100, description="clients, one per class")
    model: str = Field("resnet18", description="network, one of `leakbench list models`")
    width: int = Field(64, ge=1, le=4096, description="channels of the first convolution")
    dim: int = Field(512, ge=2, le=4096, description="width of the embedding")
    evaluations: int = Field(
        50,
        ge=10,
        le=1000,
        description="evaluations over the run, evenly spaced, the last round among them",
    )
    aux_per_class: int = Field(20, ge=1, description=AUX)
    flip: bool = Field(True, description=FLIP)
    rotation: float = Field(15.0, ge=0, le=180, description=ROTATION)
