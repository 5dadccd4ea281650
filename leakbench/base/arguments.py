"""The arguments of a public function, held to its signature in one sentence."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from leakbench.base.errors import UsageError, suggestion

P = ParamSpec("P")
R = TypeVar("R")


def arguments_of(called: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """The function, which refuses arguments that it does not have; users know it as ``called``.

    Raises:
        UsageError: when it is called with an argument too many or too few.
    """

    def held(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        known = [name for name in signature.parameters if name not in ("self", "cls")]
        any_name = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())

        @wraps(function)
        def asked(*args: P.args, **kwargs: P.kwargs) -> R:
            if not any_name:
                refuse_other_arguments(called, kwargs, known)
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise UsageError(f"{called}: {error}; expected {', '.join(known)}.") from None
            return function(*args, **kwargs)

        return asked

    return held


def refuse_other_arguments(called: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    """Raise UsageError where ``given`` names an argument that ``called`` does not have."""
    for name, value in given.items():
        if name not in known:
            raise UsageError(
                f"{called} has no argument {name} (= {str(value)[:40]}).{suggestion(name, known)}"
            )
