"""The slow tests in four parts: a commit runs one, so that four commits in a row see about all."""

from __future__ import annotations

import zlib

PARTS = 4


def part_of(name: str) -> int:
    """Which quarter a test is in, by its name alone: 0 to 3."""
    return zlib.crc32(name.encode()) % PARTS
