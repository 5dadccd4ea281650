"""A made-up task for as many clients as one asks for: ``growth.py`` measures rounds of it."""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field

from leakbench.base import shared
from leakbench.federation import Examples, Task, TaskData

EACH = 16  # images of a client
CLASSES = 10


class Growing(Task):
    """Each client has 16 images of 8x8 pixels: a pattern of its class, and noise.

    With ``identities`` each client is a class of its own, as the methods with prototypes ask.
    """

    about: ClassVar[str] = "made-up images for any number of clients"
    shape: ClassVar[tuple[int, ...]] = (1, 8, 8)
    classes: ClassVar[int] = CLASSES
    rounds: ClassVar[int] = 100

    clients: int = Field(ge=2, description="clients")
    model: str = Field("mlp", description="network")
    width: int = Field(32, ge=1, description="hidden units")
    dim: int = Field(32, ge=2, description="width of the embedding")

    @property
    def one_class_each(self) -> bool:
        return self.classes == self.clients

    def load(self) -> TaskData:
        rows = torch.arange(EACH * self.clients).view(self.clients, EACH)
        own = torch.arange(self.clients)
        y = (own if self.one_class_each else own % CLASSES).repeat_interleave(EACH)
        test, aux = (_images(part, torch.arange(100) % self.classes) for part in ("test", "aux"))
        counts = torch.full((self.clients,), EACH)
        stands_for = own if self.one_class_each else torch.full((self.clients,), -1)
        return TaskData(_images("train", y), test, aux, rows, counts, stands_for)


def growing(clients: int, *, identities: bool) -> Growing:
    """The task."""
    facts = {"classes": clients if identities else CLASSES, "__module__": __name__}
    made: Growing = type("Growing", (Growing,), facts)(clients=clients)
    return made


def _images(part: str, y: torch.Tensor) -> Examples:
    """Made a few at a time, as bytes: the task is to be small beside what is measured."""
    pattern = shared(0, "task/growing").uniform("pattern", int(y.max()) + 1, 1, 8, 8)
    made = []
    for i, some in enumerate(y.split(1000)):
        noise = shared(0, f"task/growing/{part}/{i}").uniform("noise", len(some), 1, 8, 8)
        made.append(((pattern[some] + noise) * 127).to(torch.uint8))
    return Examples(torch.cat(made), y)
