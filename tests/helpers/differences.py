"""What a case does otherwise than its paper, as it is read."""

from __future__ import annotations

from leakbench.reproduce import differs


def texts(*asked):
    """The phrases of ``differs.differences``."""
    return [d.text for d in differs.differences(*asked)]
