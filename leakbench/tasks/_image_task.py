"""What the image tasks share: a class per client, auxiliary images out of the official test set."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from leakbench.base import Rng, UsageError, shared, torch
from leakbench.data import Labelled, flip, image_sets, rotate
from leakbench.federation import Examples, Task, TaskData, one_class_each

if TYPE_CHECKING:
    from torch import Tensor

AUX = (
    "auxiliary images of each class, out of the official test set; never more than half of a class"
)
FLIP = "mirror half of the training images, drawn afresh in every step"
ROTATION = "turn training images by up to so many degrees, drawn afresh in every step"


class ImageTask(Task):
    """Client c has the official training images of class c.

    The official test set is split, by class, into auxiliary and test images. So clients keep every
    image that the papers give them, and utility is measured on a part of the papers' test set. Both
    splits are by named permutations: a smaller ``per_client`` or ``aux_per_class`` is a part of a
    larger one.
    """

    source: ClassVar[str]  # the set's name in leakbench.data.image_sets; also of the streams

    per_client: int = Field(0, ge=0, description="training images kept of each class; 0: all")
    aux_per_class: int = Field(100, ge=1, description=AUX)
    flip: bool = Field(False, description=FLIP)
    rotation: float = Field(0.0, ge=0, le=180, description=ROTATION)

    def load(self) -> TaskData:
        """Images as uint8.

        Raises:
            BrokenFile: a file is not what its name says.
            UsageError: the set is nowhere, or a class has too few images.
        """
        (x, y), (x_test, y_test) = self.official()
        kept = torch.cat([self._kept(rows) for rows in self._shuffled("train", y, least=1)])
        aux, test = [], []
        for rows in self._shuffled("aux", y_test, least=2):
            n = min(self.aux_per_class, len(rows) // 2)
            aux.append(rows[:n])
            test.append(rows[n:])
        train = Examples(x[kept], y[kept])
        tested, granted = torch.cat(test), torch.cat(aux)
        test_set, aux_set = (Examples(x_test[r], y_test[r]) for r in (tested, granted))
        unofficial = image_sets.unofficial(self.source)
        return replace(self.dealt(train, test_set, aux_set), unofficial=unofficial)

    def official(self) -> tuple[Labelled, Labelled]:
        """The official training and test set, or a part of them.

        Images (n, C, H, W) uint8 and classes (n,) int64 from 0 on, of each.
        """
        return image_sets.load_images(self.source)

    def dealt(self, train: Examples, test: Examples, aux: Examples) -> TaskData:
        """The data, ``train`` spread over the clients."""
        return one_class_each(train, test, aux, self.clients)

    def augment(self, x: Tensor, rng: Rng) -> Tensor:
        """Mirrored and turned as ``flip`` and ``rotation`` say."""
        x = flip(x, rng) if self.flip else x
        return rotate(x, rng, self.rotation) if self.rotation else x

    @property
    def augments(self) -> bool:
        """Is anything mirrored or turned?"""
        return self.flip or self.rotation > 0

    def _shuffled(self, part: str, y: Tensor, *, least: int) -> list[Tensor]:
        """The rows of each class in a named order."""
        rng = shared(0, f"task/{self.source}/{part}")
        found = [(y == c).nonzero().flatten() for c in range(self.classes)]
        for c, rows in enumerate(found):
            if len(rows) < least:
                of = "training" if part == "train" else "test"
                raise UsageError(
                    f"{self.source} in {image_sets.found(self.source)} has {len(rows)} {of} images"
                    f" of class {c}; at least {least} are needed."
                )
        return [rows[rng.permutation(str(c), len(rows))] for c, rows in enumerate(found)]

    def _kept(self, rows: Tensor) -> Tensor:
        if len(rows) < self.per_client:
            raise UsageError(
                f"task.per_client = {self.per_client}, but a class has {len(rows)} training images;"
                " use at most so many."
            )
        return rows[: self.per_client or None]
