"""A value of a report or a table: frozen, nothing unknown in it, no NaN; its dump is its file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """Compared by its fields; a field marked ``exclude`` stays out of the file."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, arbitrary_types_allowed=True
    )
