"""Text from a run folder, made harmless to show.

Without control characters and without what turns the reading direction or cannot be seen.
"""

from __future__ import annotations

import re
from typing import Any

# C0 but tab and newline, DEL and C1; zero-width, direction marks and overrides; line separators;
# half of a surrogate pair.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_ENDS = re.compile(r" *[\n\t][\n\t ]*")
SHOWN = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    """``text`` with the replacement character for every such one: what is there is seen."""
    return _HIDDEN.sub(SHOWN, text)


def on_one_line(text: str) -> str:
    """The same as one line: a blank for every line end or tab with the blanks around it."""
    return _ENDS.sub(" ", printable(text))


def one_line(text: str) -> str:
    """The same on one line, without blanks side by side."""
    return " ".join(printable(text).split())


def printable_json(value: Any) -> Any:
    """The same of every text in a JSON value, names of fields among them."""
    if isinstance(value, dict):
        return {printable(k): printable_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [printable_json(v) for v in value]
    return printable(value) if isinstance(value, str) else value
