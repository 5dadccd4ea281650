"""Text files that somebody may have edited, whatever the editor added.

They are read here: settings, baselines, tables and lists that come with data.
"""

from __future__ import annotations

import codecs
import re
from pathlib import Path

_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)  # those of UTF-32 begin or go on like these


def plain_text(path: Path) -> str:
    r"""The text of a UTF-8 file, without a byte-order mark and without blank lines at its end.

    Line ends are as they are, \n or \r\n.

    Raises:
        OSError: it cannot be read.
        UnicodeDecodeError: it is no UTF-8; of UTF-16 the message says so.
    """
    data = path.read_bytes()
    if data.startswith(_WIDE) or b"\0" in data[:2]:  # without a mark, too, it begins like this
        raise UnicodeDecodeError("utf-8", data, 0, 2, "it looks like UTF-16, save it as UTF-8")
    return re.sub(r"(?:\r?\n[ \t]*)+\Z", "\n", data.decode("utf-8-sig"))
