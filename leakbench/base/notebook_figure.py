"""A figure that a notebook shows, whether or not it draws those of pyplot."""

from __future__ import annotations

import io

from matplotlib.figure import Figure


class NotebookFigure(Figure):
    """As matplotlib's."""

    def _repr_png_(self) -> bytes:
        """What a notebook shows."""
        data = io.BytesIO()
        self.savefig(data, format="png", dpi=120)
        return data.getvalue()
