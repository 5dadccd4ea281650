"""A value of a report or a table: frozen, nothing unknown in it, no NaN; its dump is its file."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """Compared by its fields; a field marked ``exclude`` stays out of the file."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, arbitrary_types_allowed=True
    )

    def __copy__(self) -> Self:
        """Without what was worked out of the fields and kept: ``model_copy`` may change them."""
        copied = super().__copy__()
        for name in vars(copied).keys() - type(self).model_fields.keys():
            del vars(copied)[name]
        return copied
