"""What tasks share whose examples have an attribute beside their class, as the person they are of.

It is told of nobody but where the task is asked for it: then scoring has it of every client's
examples, and an attacker may be granted examples of the same people that no client has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from leakbench.base import UsageError
from leakbench.federation import Defense, Examples, Facts, TaskData
from leakbench.tasks._split_task import SplitTask

if TYPE_CHECKING:
    from torch import Tensor

BY = (
    "what split deals by: the class; or the attribute, so that a client holds some people's, or"
    " whatever else it is"
)


class AttributedTask(SplitTask):
    """Examples carry an attribute, which attacks may try to infer."""

    attribute: str = Field("none", description="attribute that is told, for attacks that infer it")
    deal_by: Literal["class", "attribute"] = Field("class", description=BY)

    @property
    def idle(self) -> set[str]:
        """Without an attribute nothing here changes anything."""
        usual = type(self).model_fields["attribute"].default
        own = {"attribute", "deal_by"} if self.attribute == "none" == usual else set()
        return super().idle | own

    @model_validator(mode="after")
    def _dealt_by_what_is_there(self) -> Self:
        if self.deal_by == "class":
            return self
        if self.attribute == "none":
            raise UsageError(
                "task.deal_by = attribute, but the task tells none: say which with task.attribute."
            )
        if self.split == "class":
            raise UsageError(
                "task.deal_by = attribute with split class: expected another split, as qua, dir or"
                " iid."
            )
        return self

    def facts(self, method: Defense) -> Facts:
        """Public facts, what the attribute is called among them."""
        told = "" if self.attribute == "none" else self.attribute
        return replace(super().facts(method), attribute=told)

    def dealt_by(self, train: Examples) -> tuple[Tensor, int]:
        """The class, or the attribute, and how many values it has."""
        if self.deal_by == "class" or train.attribute is None:
            return super().dealt_by(train)
        return train.attribute, int(train.attribute.max()) + 1

    def dealt(
        self, train: Examples, test: Examples, aux: Examples, known: Examples | None = None
    ) -> TaskData:
        """The data dealt; the attribute stays where it is asked for, else nobody has it.

        ``known``: examples whose attribute an attacker may be told, or else ``aux``.

        Raises:
            UsageError: ``train`` cannot be dealt as the fields ask.
        """
        bare = [replace(some, attribute=None) for some in (train, test, aux)]
        if self.attribute == "none":
            return super().dealt(*bare)
        return replace(super().dealt(train, *bare[1:]), attributed=known or aux)
