"""`coco-captions`: MS COCO's photographs with captions (Lin et al. 2014), by the object in them."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from leakbench.base import UsageError
from leakbench.data import Captioned, caption_files
from leakbench.tasks._caption_task import LOCAL, CaptionPart, CaptionTask


class CocoCaptions(CaptionTask):
    """Twenty clients with four object groups each, as FedAA, Section 4.3.

    Training images are those with objects of one category alone, 80 groups; ``tested`` images are
    tested and as many drawn for validation, here the auxiliary data (those of one category of
    them). ResNet-50 on 128x128 pixels, which gives 2048x4x4, an LSTM of 512 units with attention,
    Adam at 0.0001 (encoder) and 0.0004 (decoder), batches of 32, one epoch, 50 rounds.

    Left open by the paper, decided here: 2014's official files, of which val2014 gives the test and
    validation images (named draws) and the rest joins train2014; "two or more objects" are
    categories (it counts 25,211 images, of 123,603; COCO has 123,287); the middle square; the
    words that occur five times in training captions, 10,000 at most (Xu et al. 2015); greedy
    decoding; the encoder's weights, torchvision's of ImageNet, as ``resnet50.safetensors`` in the
    data folder:

        safetensors.torch.save_file(torch.load("resnet50-0676ba61.pth", weights_only=True), OUT)

    Each of about 126,000 pairs of image and caption holds its image: 6 GB of memory.
    """

    about: ClassVar[str] = "MS COCO's photographs (128x128) with captions, 20 clients by object"
    source: ClassVar[str] = caption_files.COCO
    shape: ClassVar[tuple[int, ...]] = (3, 128, 128)
    classes: ClassVar[int] = 80
    rounds: ClassVar[int] = 50
    _local: ClassVar[dict[str, Any]] = {**LOCAL, "lr": 0.0001, "fraction": 0.5}
    tables: ClassVar[dict[str, dict[str, Any]]] = {
        **dict.fromkeys(("fedavg", "fedprox", "fedbn", "moon"), _local),
        "fedaa": {**_local, "examples": 1},
    }

    clients: int = Field(20, ge=2, description="clients, each with a group at least")
    model: str = Field("captioner_resnet50", description="captioner, or captioner_resnet50")
    width: int = Field(512, ge=4, le=4096, description="units of the LSTM")
    vocabulary: int = Field(10_000, ge=5, le=100_000, description="words of the network")
    least: int = Field(5, ge=1, description="how often a word occurs in training captions")
    weights: str = Field(
        "resnet50.safetensors",
        description=(
            "torchvision's resnet50 weights as a safetensors file in the data folder; nothing:"
            " drawn like the rest"
        ),
    )
    tested: int = Field(5000, ge=1, description="test images, and as many of validation")

    def parts(self) -> tuple[CaptionPart, CaptionPart, CaptionPart]:
        """Training, test and auxiliary images, with the group of each.

        Raises:
            BrokenFile: a file is not what its name says.
            UsageError: the set is nowhere, or too small.
        """
        held = [*caption_files.coco("train2014")]
        others = caption_files.coco("val2014")
        order = self._rng("images").permutation("val2014", len(others)).tolist()
        if len(others) < 2 * self.tested:
            raise UsageError(
                f"task.tested = {self.tested}, but val2014 has {len(others)} images, and as many"
                " are drawn for validation; use fewer."
            )
        drawn = [others[i] for i in order]
        test, aux = drawn[: self.tested], drawn[self.tested : 2 * self.tested]
        held += drawn[2 * self.tested :]
        train = [image for image in held if len(image.objects) == 1]
        groups = sorted({image.objects[0] for image in train})
        if len(groups) > self.classes:
            raise UsageError(
                f"coco-captions: {len(groups)} categories of objects; COCO has {self.classes}."
            )
        number = {name: k for k, name in enumerate(groups)}
        alone = [i for i in aux if len(i.objects) == 1 and i.objects[0] in number]
        if not train or not alone:
            raise UsageError("coco-captions: no image shows objects of one category alone.")
        return self._part(train, number), self._part(test, number), self._part(alone, number)

    def _part(self, images: list[Captioned], number: dict[str, int]) -> CaptionPart:
        """With the group of each; of a test image with several or none, which nobody reads, 0."""
        return CaptionPart(images, [_group(image, number) for image in images])


def _group(image: Captioned, number: dict[str, int]) -> int:
    return next((number[o] for o in image.objects if o in number), 0)
