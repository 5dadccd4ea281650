"""What stands after -s and --seeds: keys, whose they are, values, sweeps, seeds."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from leakbench.base.errors import UsageError, among

Values = dict[str, list[Any]]  # key -> the values it sweeps over


def settings(given: Sequence[str]) -> Values:
    """{"sigma": [0.1, 0.3]} of `-s sigma=0.1,0.3`.

    A value is JSON, or else text; a comma list sweeps.

    Raises:
        UsageError: something has no `=`, or a key comes twice.
    """
    out: Values = {}
    for text in given:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise UsageError(f"-s {text!r}: expected KEY=VALUE, for example -s sigma=0.1.")
        if key in out:
            raise UsageError(
                f"-s {key} was given twice; sweep with a comma list, for example -s {key}=1,2."
            )
        out[key] = [_value(v) for v in _listed(value)]
    return out


def split_names(given: Sequence[str]) -> list[str]:
    """["flea", "fedmix"] of `-d flea,fedmix`, in their order.

    Raises:
        UsageError: there is nothing before or after a comma.
    """
    out: list[str] = []
    for text in given:
        parts = [part.strip() for part in text.split(",")]
        if not all(parts):
            raise UsageError(f"{text!r}: expected a name, or names with a comma between two.")
        out += parts
    return out


def _listed(text: str) -> list[str]:
    """Split at commas outside of brackets and quotes."""
    parts, depth, quoted, begin = [], 0, False, 0
    for i, c in enumerate(text):
        quoted ^= c == '"'
        depth += 0 if quoted else (c in "[{") - (c in "]}")
        if c == "," and not depth and not quoted:
            parts.append(text[begin:i])
            begin = i + 1
    return [*parts, text[begin:]]


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def seeds(text: str) -> list[int]:
    """`7` -> [7], `0-2` -> [0, 1, 2], `0,4,7` -> those.

    Raises:
        UsageError: it is neither.
    """
    out: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if not found or (found[2] and int(found[2]) < int(found[1])):
            raise UsageError(
                f"--seeds {text!r}: expected a seed, a range or a list, for example 7, 0-2 or"
                " 0,4,7."
            )
        out += range(int(found[1]), int(found[2] or found[1]) + 1)
    return list(dict.fromkeys(out))


def route(values: Values, names: Sequence[str], what: str) -> dict[str, Values]:
    """Whose key is it?

    A bare key belongs to the one method in ``names``, a dotted key to what it names; hyphens and
    underscores are alike.

    Raises:
        UsageError: a bare key with several methods named, or a dotted key that names none of them.
    """
    out: dict[str, Values] = {}
    for key, value in values.items():
        owner, dot, field_name = key.partition(".")
        if not dot:
            if len(names) != 1:
                several = f"with {len(names)} {what}s" if names else f"without a named {what}"
                example = f"{names[0]}.{key}" if names else f"NAME.{key}"
                raise UsageError(
                    f"-s {key}: {several} only a dotted key says whose parameter it is; write -s"
                    f" {example}=VALUE."
                )
            owner, field_name = names[0], key
        out.setdefault(among(owner, names), {})[field_name] = value
    return out


def product(values: Values) -> Iterator[dict[str, Any]]:
    """Every combination of a sweep."""
    for combination in itertools.product(*values.values()):
        yield dict(zip(values, combination, strict=True))
