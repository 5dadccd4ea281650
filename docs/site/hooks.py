"""What the site shows beside docs/: results/, the leaderboard, CONTRIBUTING and the changelog.

The Markdown is written for the repository: its links lead to files there. On the site, a link to a
file that is a page or a picture of it leads there, any other to the file where the source lives.
"""

from __future__ import annotations

import posixpath
import re
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from leakbench.reproduce.leaderboard.page import leaderboard_files

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "https://github.com/leakbench/leakbench/blob/main/"
BESIDE = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
BOARD = "leaderboard"
SHOWN = (".md", ".png", ".svg", ".csv")
WIDE = "cards/"  # pages whose tables take all of a screen, with what must be known of a number last
LINK = re.compile(r"(\]\(|(?:src|srcset|href)=\")(?!#|[a-z]+:)([^)#\"\s]+)")


def on_files(files: Files, config: Any) -> Files:
    """Adds what lies outside docs/."""
    for path, name in _outside().items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    for name, content in leaderboard_files(ROOT / "results", config.site_url + BOARD).items():
        files.append(File.generated(config, f"{BOARD}/{name}", content=content))
    return files


def on_page_markdown(markdown: str, page: Any, files: Files, **_: Any) -> str:
    """The text with its links turned to the site, outside of code."""
    if page.file.src_uri.startswith(WIDE):
        listed = page.file.src_uri == f"{WIDE}index.md"  # long: its own contents stay
        page.meta["hide"] = ["navigation"] if listed else ["navigation", "toc"]
    here = _places(page.file.src_uri)
    shown = {_places(f.src_uri): f.src_uri for f in files}

    def turned(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(here), match[2]))
        if target not in shown:
            return f"{match[1]}{SOURCE}{target}"
        folder = posixpath.dirname(page.file.src_uri) or "."
        return match[1] + posixpath.relpath(shown[target], folder)

    parts = re.split(r"(^```.*?^```$|`[^`\n]+`)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(p if p.startswith("`") else LINK.sub(turned, p) for p in parts)


@cache
def _outside() -> dict[str, str]:
    """Path in the repository -> path in the site's sources."""
    found = dict(BESIDE)
    for path in sorted((ROOT / "results").rglob("*")):
        if path.suffix in SHOWN and "runs" not in path.relative_to(ROOT).parts:
            name = path.relative_to(ROOT).as_posix()
            found[name] = name
    return found


@cache
def _places(uri: str) -> str:
    """Where a source of the site lies in the repository."""
    outside = {name: path for path, name in _outside().items()}
    return outside.get(uri, f"docs/{uri}")
