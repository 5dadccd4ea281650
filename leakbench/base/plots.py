"""Figures as files: SVG whose text stays text, and PNG; the same input gives the same bytes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from leakbench.base.files import write_bytes

# No date and no random ids in the file; no state shared between figures.
STYLE = {
    "svg.hashsalt": "leakbench",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def style() -> Any:
    """A context manager: figures made and saved in it look alike."""
    import matplotlib

    return matplotlib.rc_context(STYLE)


def save(figure: Any, folder: Path, stem: str) -> list[Path]:
    """Write ``folder``/``stem``.svg and .png; returns both paths.

    Raises:
        UsageError: the place cannot be written.
    """
    paths = []
    for kind, metadata in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
        data = io.BytesIO()
        figure.savefig(data, format=kind, dpi=200, metadata=metadata)
        paths.append(folder / f"{stem}.{kind}")
        write_bytes(paths[-1], data.getvalue())
    return paths
