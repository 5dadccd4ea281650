"""Figures as files: SVG whose text stays text, and PNG; the same input gives the same bytes."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
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


@contextmanager
def style() -> Iterator[None]:
    """Figures made and saved in it look alike, whatever this machine's matplotlibrc and fonts are.

    What matplotlib brings along counts, and then ``STYLE``: a matplotlibrc may be a stranger's, and
    asks for LaTeX, say; two machines have two versions of one font.
    """
    import matplotlib
    from matplotlib.font_manager import fontManager

    theirs = fontManager.ttflist
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        *known, last = _fonts()
        fontManager.ttflist = list(known)
        fontManager.addfont(last.fname)  # what was looked up before is forgotten
        try:
            yield
        finally:
            fontManager.ttflist = theirs


@cache
def _fonts() -> tuple[Any, ...]:
    """Those that matplotlib brings along; as it lists them."""
    import matplotlib
    from matplotlib.font_manager import fontManager

    theirs, fontManager.ttflist = fontManager.ttflist, []
    try:
        for path in sorted(Path(matplotlib.get_data_path(), "fonts", "ttf").glob("*.ttf")):
            fontManager.addfont(path)
        return tuple(fontManager.ttflist)
    finally:
        fontManager.ttflist = theirs


def save(figure: Any, folder: Path, stem: str) -> list[Path]:
    """Write ``folder``/``stem``.svg and .png; returns both paths.

    Raises:
        UsageError: the place cannot be written.
    """
    paths = []
    for kind, metadata in (("svg", {"Date": None, "Creator": None}), ("png", {"Software": None})):
        data = io.BytesIO()
        with warnings.catch_warnings():
            # A name in a script that the font lacks: a box is drawn.
            warnings.filterwarnings("ignore", r"Glyph .* missing from font")
            figure.savefig(data, format=kind, dpi=200, metadata=metadata)
        paths.append(folder / f"{stem}.{kind}")
        write_bytes(paths[-1], data.getvalue())
    return paths
