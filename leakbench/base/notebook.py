"""How a thing of ours shows itself in a notebook: small tables of HTML, everything escaped."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup, escape


def facts(title: str, told: Mapping[str, object]) -> str:
    """A title, and a line for each thing that is told of it."""
    line = Markup("<tr><th style='text-align:left'>{}</th><td style='text-align:left'>{}</td></tr>")
    lines = Markup("").join(line.format(name, value) for name, value in told.items())
    return str(Markup("<b>{}</b><table>{}</table>").format(escape(title), lines))
