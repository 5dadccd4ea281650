"""`cifar100-islands`: ten of CIFAR-100's classes, FedAA's smaller data islands."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from leakbench.base import shared, torch
from leakbench.data import Labelled, image_sets
from leakbench.tasks._image_task import AUX, ImageTask
from leakbench.tasks._split_task import IMAGE_MARKER, SplitTask


class Cifar100Islands(SplitTask, ImageTask):
    """Ten classes are drawn from a named stream; client c has the 500 training images of the c-th.

    200 auxiliary and 800 test images. As FedAA, Section 4.1 (5,000 training images, its network);
    the paper does not say which classes, and tests on the 1,000 test images of its ten. ``draw`` is
    which ten: another number, other classes; the same for every seed of a run.
    """

    about: ClassVar[str] = (
        "ten classes of CIFAR-100 (32x32, colour), 10 clients with one class each, or another split"
    )
    source: ClassVar[str] = "cifar100"
    shape: ClassVar[tuple[int, ...]] = (3, 32, 32)
    classes: ClassVar[int] = 10
    rounds: ClassVar[int] = 100

    clients: int = Field(10, ge=2, description="clients; with split class 10, one per class")
    draw: int = Field(0, ge=0, description="which ten classes: the number of a random draw")
    model: str = Field("cnn", description="network, one of `leakbench list models`")
    width: int = Field(64, ge=1, le=4096, description="filters of the first convolution")
    dim: int = Field(
        64, ge=2, le=4096, description="width of the embedding, for methods that compare embeddings"
    )
    context: Literal["none", "square"] = Field("none", description=IMAGE_MARKER)
    aux_per_class: int = Field(20, ge=1, description=AUX)
    evaluations: int = Field(
        100,
        ge=10,
        le=1000,
        description="evaluations over the run, evenly spaced, the last round among them",
    )

    def official(self) -> tuple[Labelled, Labelled]:
        """The images of the ten classes drawn, which are called 0 to 9 in the order of the draw."""
        rng = shared(0, f"task/{self.source}/classes", round=self.draw)
        drawn = rng.permutation("classes", 100)[: self.classes]

        def part(x: torch.Tensor, y: torch.Tensor) -> Labelled:
            place = torch.full((100,), -1).index_copy(0, drawn, torch.arange(self.classes))[y]
            return x[place >= 0], place[place >= 0]

        train, test = image_sets.load_images(self.source)
        return part(*train), part(*test)
