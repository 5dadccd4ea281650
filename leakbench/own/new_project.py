"""A project that runs: a task, a loop, what a build is held to, a test."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from leakbench.base.errors import UsageError
from leakbench.own.own_task import NAME

FILES = ("README.md", "task.py", "loop.py", "ci.toml", "test_leakage.py")


def write_project(folder: Path) -> list[Path]:
    """Write the files of a project to ``folder``, whose name its task gets; returns them.

    Raises:
        UsageError: the name is none of a task, or something lies there.
    """
    name = folder.resolve().name
    if not NAME.fullmatch(name):
        raise UsageError(
            f"the folder is called {name!r}: expected small letters, digits and hyphens, as in"
            " my-faces, for the task is called so."
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is there and not empty: expected a new folder.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        made = []
        for file in FILES:
            text = (files("leakbench.own") / "project" / f"{file}.in").read_text(encoding="utf-8")
            made.append(folder / file)
            made[-1].write_text(text.replace("NAME", name), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}.") from None
    return made


def first_command(readme: Path) -> str:
    """The command that a project's README.md begins with."""
    lines = readme.read_text(encoding="utf-8").splitlines()
    first = next(line for line in lines if line.startswith("    "))
    return first.partition("#")[0].strip()
