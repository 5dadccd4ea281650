"""What every HTML page of ours has: its look, tables that sort, a policy that loads nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2

PAGE_PARTS = Path(__file__).parent / "page_parts"  # base.css, sort.js, theme.js


def page_environment(templates: Path) -> jinja2.Environment:
    """Of the templates in a folder: everything that they are given is escaped."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def joined_files(files: Sequence[Path]) -> str:
    """A page's own style or script, of these files."""
    return "".join(file.read_text(encoding="utf-8") for file in files)


def content_policy(style: str, script: str = "") -> str:
    """A content policy that lets in the page's own style and script, embedded pictures and sounds.

    Nothing else is let in.
    """
    own = {"style-src": style} | ({"script-src": script} if script else {})
    allowed = ""
    for name, text in own.items():
        digest = hashlib.sha256(text.encode()).digest()
        allowed += f"{name} 'sha256-{base64.b64encode(digest).decode()}'; "
    data = "img-src data:; media-src data:"
    return f"default-src 'none'; {data}; {allowed}base-uri 'none'; form-action 'none'"
