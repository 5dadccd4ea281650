"""Shapes: what a file of ours may say, checked before anything is made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from leakbench.base.errors import BrokenFile

SHOWN = 60  # characters of a wrong value that a sentence repeats

Name = Annotated[str, Field(max_length=10_000)]
Text = Annotated[str, Field(max_length=1_000_000)]
Count = Annotated[int, Field(ge=0, le=10**18)]
Place = Annotated[int, Field(ge=0, le=10**9)]  # of one among clients, images, messages
Round = Annotated[int, Field(ge=0, le=10**6 + 1)]  # R + 1 comes after the last
Sha = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Shape(BaseModel):
    """Types and bounds of an object's keys.

    A key with a default may be missing, but null is no value of it; keys that are not named here
    are passed over, unless a shape forbids them.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)


class Closed(Shape):
    """A shape without further keys."""

    model_config = ConfigDict(extra="forbid")


def check_shape(shape: type[Shape], value: Any, path: Path, mend: str = "Make it again.") -> None:
    """``value``, read from ``path``, has this shape.

    Args:
        shape: what is expected.
        value: parsed JSON.
        path: the file, for the sentence.
        mend: what to do where it has not.

    Raises:
        BrokenFile: one sentence naming the first wrong key, what was expected and what came.
    """
    try:
        shape.model_validate(value)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(map(str, problem["loc"]))[:200] or "the whole"
        said = problem["msg"][0].lower() + problem["msg"][1:]
        came = ""
        if problem["type"] != "missing":
            text = repr(problem["input"])
            came = f", got {text[:SHOWN]}{'...' * (len(text) > SHOWN)}"
        raise BrokenFile(f"{path} is damaged ({where}: {said}{came}). {mend}") from None
