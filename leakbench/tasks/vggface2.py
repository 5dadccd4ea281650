"""`vggface2`: photographs of 9,131 faces (Cao et al. 2018), 8,631 of them clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from leakbench.base import UsageError, shared, torch
from leakbench.data import face_files
from leakbench.federation import TaskData
from leakbench.tasks._identity_task import METHODS, OURS, IdentityTask, same_for_each

if TYPE_CHECKING:
    from torch import Tensor

AUX = "people of the official test set who are the auxiliary data, and are not tested"
PER_CLIENT = "images kept of each client; 0: all, 39 GB"
TEST_IMAGES = "images kept of each tested or auxiliary person; 0: all"
BOXES = "cut out the face by the set's own boxes; else the whole image"


class VggFace2(IdentityTask):
    """8,631 clients, one person each; 500 other people are verified.

    As FedHide, Section 4.1 and Table 1: a thousandth of the clients in a round, MobileFaceNet with
    GroupNorm, embeddings of 512 numbers, faces of 64 pixels, 400,000 rounds, EER over pairs of
    people who are no clients.

    Not as there: of the 500 test people ``aux_people`` (a named draw) are the auxiliary data, so an
    attacker knows people who are neither clients nor tested. Faces are cut out by the set's own
    boxes, there by a detector (and images without a detected face left out). ``per_client`` images
    of each client, there all (362 on average). The paper generated 338,430 pairs and does not say
    how; that is about two for each of its 169,396 test images, so here every tested image is paired
    (named draws) with another one of the same person and with one of another person.
    """

    about = "VGGFace2 (64x64), 8,631 clients with one person each, 500 other people verified"
    source: ClassVar[str] = face_files.VGGFACE2
    shape: ClassVar[tuple[int, ...]] = (3, 64, 64)
    rounds: ClassVar[int] = 400_000
    _setting: ClassVar[dict[str, Any]] = {"fraction": 0.001}
    tables: ClassVar[dict[str, dict[str, Any]]] = {
        **same_for_each((*METHODS, *OURS, "fedavg", "fedprox"), **_setting),
        # Its Table 4 has 10, 20 and 50 neighbours here, twice those of the other sets and more.
        **same_for_each(("fedhide", "fedhide_random", "fedhide_own_layer"), **_setting, k=20),
    }

    clients: int = Field(8631, ge=2, le=8631, description="clients, one person each")
    per_client: int = Field(100, ge=0, description=PER_CLIENT)
    test_images: int = Field(0, ge=0, description=TEST_IMAGES)
    aux_people: int = Field(50, ge=1, description=AUX)
    boxes: bool = Field(True, description=BOXES)
    model: str = Field("mobilefacenet", description="network, one of `leakbench list models`")
    width: int = Field(64, ge=1, le=4096, description="channels of the first convolution")
    dim: int = Field(512, ge=2, le=4096, description="width of the embedding")
    evaluations: int = Field(
        50,
        ge=10,
        le=1000,
        description="evaluations over the run, evenly spaced, the last round among them",
    )

    def load(self) -> TaskData:
        """Images as uint8.

        Raises:
            UsageError: the set is nowhere, or has too few people.
            BrokenFile: a file is missing, or not what its name says.
        """
        faces = face_files.people(self.source)
        train, test = [*faces.train], [*faces.test]
        if len(train) < self.clients or len(test) < self.aux_people + 3:
            raise UsageError(
                f"task.clients = {self.clients} and task.aux_people = {self.aux_people}, but the"
                f" set has {len(train)} people to train on and {len(test)} others, of whom three at"
                " least are tested; use fewer."
            )
        chosen = [train[i] for i in sorted(self.order("clients", len(train))[: self.clients])]
        granted = {test[i] for i in self.order("aux", len(test))[: self.aux_people]}
        held = self._seen("train", {who: faces.train[who] for who in chosen}, self.per_client)
        strangers = self._seen("test", faces.test, self.test_images)
        tested = [x for who, x in strangers.items() if who not in granted]
        aux = [x for who, x in strangers.items() if who in granted]
        if min(map(len, tested)) < 2:
            raise UsageError(
                f"{self.source}: a tested person has one image only, so there is no pair of it."
                " Use a larger task.test_images, or get the set anew."
            )
        pairs = self._pairs([len(x) for x in tested])
        unofficial = face_files.unofficial(self.source)
        return self.verified([*held.values()], tested, aux, pairs, unofficial)

    def _seen(self, part: str, files: dict[str, Any], most: int) -> dict[str, Tensor]:
        """Each person's images, at most so many of them."""
        boxes = face_files.boxes(part) if self.boxes else None
        out = {}
        for who, paths in files.items():
            order = self.order(f"images/{who}", len(paths))
            kept = [paths[i] for i in sorted(order[: most or None])]
            out[who] = face_files.images(kept, self.shape[1], grey=False, boxes=boxes)
        return out

    def _pairs(self, sizes: Sequence[int]) -> Tensor:
        """(2 n, 3): every row with another one of its person, then with one of another person."""
        rng = shared(0, f"task/{self.source}/pairs")
        many = torch.tensor(sizes)
        size = many.repeat_interleave(many)
        first = (many.cumsum(0) - many).repeat_interleave(many)
        row = torch.arange(len(size))
        step = 1 + (rng.uniform("same", len(size)) * (size - 1)).long()
        same = first + (row - first + step) % size
        other = (rng.uniform("other", len(size)) * (len(size) - size)).long()
        other = torch.where(other >= first, other + size, other)  # the person's own are skipped
        kinds = [torch.ones_like(row), torch.zeros_like(row)]
        return torch.cat(
            [torch.stack([row, b, k], 1) for b, k in zip((same, other), kinds, strict=True)]
        )
