"""`cifar10`: photographs of 32x32 pixels, 10 clients with one class each (Krizhevsky 2009); FedMetric's larger set."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from leakbench.tasks._image_task import ImageTask


class Cifar10(ImageTask):
    """Ten clients, client c has the 5,000 training images of class c. 1,000 auxiliary and 9,000 test images.

    As FedMetric, Section 4.1: all clients in every round, ResNet-32 with GroupNorm, embeddings of 64 numbers, mean AUROC.
    """

    about: ClassVar[str] = "CIFAR-10 (32x32, colour), 10 clients with one class each"
    source: ClassVar[str] = "cifar10"
    shape: ClassVar[tuple[int, ...]] = (3, 32, 32)
    classes: ClassVar[int] = 10
    rounds: ClassVar[int] = 100_000
    tables: ClassVar[dict[str, dict[str, Any]]] = {
        "fedhide": {"k": 5},  # ten clients have no ten neighbours
        "fedmetric": {"normalised": True, "lam": 1.0, "lr": 0.03},  # as on digits: at any norm the spheres blow each other up
        "feduv": {"lr": 3.0},
    }

    clients: int = Field(10, ge=10, le=10, description="clients, one per class")
    model: str = Field("resnet32", description="network, one of `leakbench list models`")
    width: int = Field(16, ge=1, le=4096, description="channels of the first convolution")
    dim: int = Field(64, ge=2, le=4096, description="width of the embedding")
    utility: Literal["accuracy", "auroc"] = Field("auroc", description="metric on the test set")
