"""A task of a folder or a file of data, written as a file that anybody can read and change."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from leakbench.base import registry
from leakbench.base.errors import UsageError
from leakbench.own.own_task import NAME

CLIENTS = 10
SIZE = 32  # pixels of a picture's sides
NEEDED = "expected a folder with a folder of pictures for each class, a .npz or a .csv"


def write_data_task(data: Path, out: Path, *, clients: int | None, label: str, client: str) -> Path:
    """Write out/<name>-task.py, a task of ``data``; returns it. What is there already stays.

    Args:
        data: a folder with a folder of pictures for each class, a .npz or a .csv.
        out: the folder of the file; it takes its name from ``data``, with own- before it where
            that is a task's already.
        clients: among how many the examples are dealt; 10 unless given.
        label: of a table, the column of the classes.
        client: of a table, the column that says whose a row is, in place of ``clients``.

    Raises:
        UsageError: there are no such data, they cannot be read, something is missing or too much,
            or another file lies there.
    """
    read = _read(data, clients, label, client)
    name = re.sub(r"[^a-z0-9]+", "-", data.resolve().stem.lower()).strip("-")
    if not NAME.fullmatch(name):
        raise UsageError(
            f"{data} has no letter or digit in its name, by which the task would be called: give it"
            " another."
        )
    if name in registry.names("tasks") and registry.given("tasks", name) is None:
        name = f"own-{name}"
    whole = (files("leakbench.own") / "project" / "data_task.py.in").read_text(encoding="utf-8")
    # In one pass: what is put in may itself hold one of these words.
    words = {"DATA": re.sub(r'[\\"]', "_", ascii(data.name)), "READ": read, "NAME": name}
    text = re.sub("DATA|READ|NAME", lambda found: words[found.group()], whole)
    file = out / f"{name}-task.py"
    fresh = not file.exists()
    try:
        there = file.read_text(encoding="utf-8") if file.exists() else text
        if there != text:
            raise UsageError(
                f"{file} is there and says otherwise: train with -t {file} as it is, or take it"
                " away."
            )
        out.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be written: {error}.") from None
    try:
        registry.task_in(file)
    except UsageError:
        if fresh:  # what cannot be read leaves nothing in the way of what can
            file.unlink()
        raise
    return file


def _read(data: Path, clients: int | None, label: str, client: str) -> str:
    """The call that reads it."""
    kind = "folder" if data.is_dir() else data.suffix.lower()
    if not data.exists() or kind not in ("folder", ".npz", ".csv"):
        raise UsageError(f"{data} is {'no such data' if data.exists() else 'not there'}: {NEEDED}.")
    if client and clients is not None:
        raise UsageError("--client and --clients both say who holds what: give one of the two.")
    place, dealt = ascii(str(data.resolve())), f"clients={clients or CLIENTS}"
    if kind == ".csv":
        if not label:
            raise UsageError(f"{data} is a table: say --label COLUMN, which holds the classes.")
        whose = f"client={client!a}" if client else dealt
        return f"lb.clients.from_csv({place}, label={label!a}, {whose})"
    if label or client:
        raise UsageError(f"--label and --client are of a table, and {data} is none.")
    if kind == ".npz":
        return f"lb.clients.from_npz({place}, {dealt})"
    return f"lb.clients.from_folder({place}, size={SIZE}, {dealt})"
