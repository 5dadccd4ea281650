"""What all commands have in common: each takes `--plugin`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer

from leakbench.base import registry


def _use(paths: list[str]) -> list[str]:
    for path in paths:
        registry.plug(path)
    return paths


Plugins = Annotated[
    list[str],
    typer.Option(
        "--plugin",
        metavar="PATH",
        callback=_use,
        is_eager=True,
        help="A Python file with a method of your own, or a folder of them; may be repeated.",
    ),
]


class CommandLine(typer.Typer):
    """Commands that all find methods of one's own in files and folders that are named to them."""

    def command(self, name: str | None = None, **named: Any) -> Callable[[Any], Any]:
        """As typer's; the function itself knows nothing of `--plugin`."""
        register = super().command(name, **named)

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            register(_with_plugins(function))
            return function

        return decorate


def _with_plugins(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def run(*args: Any, plugin: list[str], **named: Any) -> Any:
        return function(*args, **named)

    shown = inspect.signature(function, eval_str=True)
    more = inspect.Parameter("plugin", inspect.Parameter.KEYWORD_ONLY, default=[])
    parameters = [*shown.parameters.values(), more.replace(annotation=Plugins)]
    run.__dict__["__signature__"] = shown.replace(parameters=parameters)
    run.__annotations__ = {**inspect.get_annotations(function, eval_str=True), "plugin": Plugins}
    return run
