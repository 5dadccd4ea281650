"""The mark that stands for a setting beside text."""

from __future__ import annotations

from markupsafe import Markup

from leakbench.settings import Judged
from reports._points import glyph
from reports._svg import shape, tag


def icon(judged: Judged | None, mark: str) -> Markup:
    """A mark beside text, filled by its verdict; settings without a number are a grey hexagon, a family alone is plain."""
    if judged is None:
        inside = shape(mark, 8, 8, 5.5, class_="mk plain")
    elif judged.verdict.rule in (1, 2):
        inside = shape("hexagon", 8, 8, 5.0, class_="mk none")
    else:
        inside = glyph(judged, mark, 8, 8, 5.5)
    return tag("svg", inside, viewBox="0 0 16 16", class_="gl", aria_hidden="true")
