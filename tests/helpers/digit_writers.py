"""A task for tests: digits by four writers, each in a way of their own, or all alike."""

WRITERS = '''
"""Digits, each by one of four writers, who all write every digit."""

from typing import ClassVar, Literal

from pydantic import Field

from leakbench.base import shared, torch
from leakbench.data import split
from leakbench.federation import Examples
from leakbench.tasks._attributed_task import AttributedTask

WRITERS = 4


class DigitWriters(AttributedTask):
    about = "digits by four writers"
    source: ClassVar[str] = "digit-writers"
    shape: ClassVar[tuple[int, ...]] = (1, 8, 8)
    classes: ClassVar[int] = 10
    rounds: ClassVar[int] = 3

    clients: int = Field(8, ge=2, description="clients")
    split: Literal["qua", "iid", "dir"] = Field("qua", description="who has what")
    split_param: float = Field(1.0, gt=0, description="writers of a client")
    model: str = Field("mlp", description="network")
    width: int = Field(16, ge=1, description="hidden units")
    dim: int = Field(8, ge=2, description="width of the embedding")
    attribute: Literal["none", "writer", "digit"] = Field("writer", description="what is told")
    deal_by: Literal["class", "attribute"] = Field("attribute", description="what is dealt")
    styles: bool = Field(True, description="does every writer write in a way of their own?")

    def load(self):
        train, test, aux = (self._signed(name) for name in ("train", "test", "aux"))
        return self.dealt(train, test, aux)

    def _signed(self, name):
        x, y = split()[name]
        order = shared(0, "digit-writers").permutation(name, len(y))
        writer = order % WRITERS
        if self.styles:
            ways = torch.stack([x, 1 - x, x.flip(-1).roll(4, -2), 1 - x.roll(4, -1)])
            x = ways[writer, torch.arange(len(y))]
        told = y if self.attribute == "digit" else writer
        return Examples(x, y, attribute=told)
'''
