"""Strict, frozen value objects: an object is its own configuration."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping
from typing import Any, Self, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from leakbench.base.errors import UsageError, suggestion


class Spec(BaseModel):
    """Fields are hyperparameters with ranges.

    Unknown keys, wrong types and values out of range are errors.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @classmethod
    def build(cls, values: Mapping[str, Any], what: str) -> Self:
        """The object, or one sentence naming every wrong field of ``what``.

        Values come from a command line or a JSON or TOML file, so a list may stand for a tuple and
        1 for 1.0.

        Raises:
            UsageError: a field is unknown, of the wrong type or out of range.
        """
        worded = {k: cls._worded(k, v) for k, v in values.items()}
        for name, value in worded.items():
            _in_json(value, f"{what}: {name}")
        try:
            return cls.model_validate_json(json.dumps(worded))
        except ValidationError as error:
            raise UsageError(_sentence(cls, what, error)) from None

    @classmethod
    def _worded(cls, name: str, value: Any) -> Any:
        """``value``; again the word that it was, where JSON read one of a field's choices."""
        words = get_args(cls.model_fields[name].annotation) if name in cls.model_fields else ()
        word = json.dumps(value) if value is None or isinstance(value, bool | int) else None
        return word if word in words and value not in words else value

    def parameters(self) -> dict[str, Any]:
        """Every field as JSON values."""
        return self.model_dump(mode="json")

    def fingerprint(self) -> str:
        """Eight hex digits over the canonical JSON."""
        return fingerprint(self.parameters())


def canonical(value: Any) -> str:
    """JSON with sorted keys and no NaN: the same text in every process."""
    return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"))


def option_text(value: Any) -> str:
    """``value`` as it stands after ``-s KEY=``: JSON, or a text that is taken as it is.

    A text that would be read as a number, or as several values, is quoted.
    """
    if not isinstance(value, str):
        return json.dumps(value)
    try:
        json.loads(value)
    except ValueError:
        return json.dumps(value) if set(value) & set('",[]{}') else value
    return json.dumps(value)


def command_words(text: Any) -> list[str]:
    """The words of a recorded command; one word, itself, where a quote is left open."""
    try:
        return shlex.split(str(text))
    except ValueError:
        return [str(text)]


def fingerprint(value: Any) -> str:
    """Eight hex digits of the SHA-256 of the canonical JSON of ``value``."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:8]


def _in_json(value: Any, what: str) -> None:
    """Raise UsageError where JSON cannot say ``value``."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        raise UsageError(f"{what} = {value!r}: expected finite numbers.") from None
    except TypeError:
        raise UsageError(
            f"{what} is {type(value).__name__}: expected numbers, texts, or lists of them."
        ) from None


def _sentence(cls: type[Spec], what: str, error: ValidationError) -> str:
    """All problems of one validation, joined: expected, came, what to do."""
    parts = []
    for problem in error.errors(include_url=False):
        name = ".".join(map(str, problem["loc"]))
        if not name:  # of the fields together
            parts.append(f"{problem['msg'].removeprefix('Value error, ')}.")
        elif problem["type"] == "extra_forbidden":
            parts.append(f"unknown parameter {name!r}.{suggestion(name, cls.model_fields)}")
        elif problem["type"] == "missing":
            parts.append(f"parameter {name!r} is missing.")
        elif problem["type"] == "tuple_type":
            # A shell takes the quotes off ["a"] unless it is told not to.
            came = problem["input"]
            items = [came]
            if isinstance(came, str):
                items = [t.strip() for t in came.strip("[]").split(",")]
            example = f"'{name}={json.dumps(items)}'"
            swept = f"{name} = {json.dumps([items])}"  # there a list alone is several values
            parts.append(
                f"{name} = {came!r}: expected a list, for example {example} (in a SPEC.toml"
                f" {swept})."
            )
        else:
            message = problem["msg"].removeprefix("Value error, ")
            message = message[0].lower() + message[1:]
            parts.append(f"{name} = {problem['input']!r}: {message}.")
    return f"{what}: " + " ".join(parts)
