"""`mnist`: handwritten digits of 28x28 pixels (LeCun et al. 2010), 10 clients, one class each."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from leakbench.tasks._image_task import ImageTask


class Mnist(ImageTask):
    """Ten clients, client c has the 5,421 to 6,742 training images of digit c.

    1,000 auxiliary and 9,000 test images. As FedMetric, Section 4.1: all clients in every round,
    DeepSVDD's LeNet, embeddings of 32 numbers, mean AUROC.
    """

    about: ClassVar[str] = "MNIST (28x28, grey), 10 clients with one class each"
    source: ClassVar[str] = "mnist"
    shape: ClassVar[tuple[int, ...]] = (1, 28, 28)
    classes: ClassVar[int] = 10
    rounds: ClassVar[int] = 10_000
    tables: ClassVar[dict[str, dict[str, Any]]] = {
        # Ten clients have no ten neighbours.
        **{m: {"k": 5} for m in ("fedhide", "fedhide_random", "fedhide_own_layer")},
        # As on digits: at any norm the spheres blow each other up.
        "fedmetric": {"normalised": True, "lam": 1.0, "lr": 0.03},
        "feduv": {"lr": 3.0},
    }

    clients: int = Field(10, ge=10, le=10, description="clients, one per class")
    model: str = Field("svdd_lenet", description="network, one of `leakbench list models`")
    width: int = Field(8, ge=1, le=4096, description="channels of the first convolution")
    dim: int = Field(32, ge=2, le=4096, description="width of the embedding")
    utility: Literal["accuracy", "auroc"] = Field("auroc", description="metric on the test set")
