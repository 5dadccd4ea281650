"""`orl-faces`: 40 people, ten grey portraits each (Samaria and Harter 1994), 26 of them clients."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from leakbench.base import UsageError
from leakbench.data import face_files
from leakbench.federation import TaskData
from leakbench.tasks._identity_task import METHODS, TESTED, IdentityTask, all_pairs, same_for_each


class OrlFaces(IdentityTask):
    """26 clients with one person's ten portraits each, (1, 64, 64).

    It stands in for VGGFace2 where that is not found: faces of 64 pixels, MobileFaceNet (narrower),
    verification of people who are no clients; but grey, posed, before one background, and few. Of
    the 40 people (a named draw) 26 are clients, ten are tested, by all pairs of their portraits
    (450 genuine, 4,500 impostor), and the other four are the auxiliary data. Of 92x112 pixels the
    square in the middle is kept.
    """

    about = "ORL faces (64x64, grey), 26 clients with one person each, 10 other people verified"
    source: ClassVar[str] = face_files.ORL
    stand_in: ClassVar[str] = "VGGFace2"
    shape: ClassVar[tuple[int, ...]] = (1, 64, 64)
    rounds: ClassVar[int] = 300
    # One own_lr for all of the family: it turns their prototypes equally fast, FedAwS's too.
    _alone: ClassVar[dict[str, Any]] = {"own_lr": 1.0, "lr": 0.1, "fraction": 0.2, "batch": 8}
    _prototypes: ClassVar[dict[str, Any]] = {**_alone, "lam": 1.0}
    tables: ClassVar[dict[str, dict[str, Any]]] = {
        **same_for_each((*METHODS, "fedgn_once", "fedcs_once"), **_prototypes),
        **same_for_each(("fedhide", "fedhide_random", "fedhide_own_layer"), **_prototypes, k=3),
        **same_for_each(("own_prototypes", "fixed_prototypes"), **_alone),
        **same_for_each(("fedavg", "fedprox"), fraction=0.2, batch=8),
    }

    clients: int = Field(26, ge=2, description="clients, one person each")
    tested: int = Field(10, ge=3, description=TESTED)
    model: str = Field("mobilefacenet", description="network, one of `leakbench list models`")
    width: int = Field(16, ge=1, le=4096, description="channels of the first convolution")
    dim: int = Field(64, ge=2, le=4096, description="width of the embedding")

    def load(self) -> TaskData:
        """Images as uint8.

        Raises:
            BrokenFile: a file is missing, or not what its name says.
            UsageError: the set is nowhere, or has too few people.
        """
        people = [*face_files.people(self.source).train.values()]
        unofficial = face_files.unofficial(self.source)
        if self.clients + self.tested >= len(people):
            raise UsageError(
                f"task.clients = {self.clients} and task.tested = {self.tested}, but the set has"
                f" {len(people)} people, one of whom at least is auxiliary; use fewer."
            )
        faces = [
            face_files.images(people[i], self.shape[1], grey=True)
            for i in self.order("people", len(people))
        ]
        first, last = self.clients, self.clients + self.tested
        pairs = all_pairs([len(x) for x in faces[first:last]])
        return self.verified(faces[:first], faces[first:last], faces[last:], pairs, unofficial)
