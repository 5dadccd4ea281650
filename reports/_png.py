"""Small pictures as PNG: the same bytes on every machine, each stored once in a page."""

from __future__ import annotations

import base64
import hashlib
import struct
import zlib
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Stored:
    """A picture as the page holds it: used by ``ident`` wherever it stands."""

    ident: str
    uri: str
    wide: int
    high: int


@dataclass(frozen=True)
class Store:
    """Pictures by the SHA-256 of their pixels."""

    found: dict[str, Stored] = field(default_factory=dict)

    def add(self, image: NDArray[np.generic]) -> Stored:
        """(H, W) or (H, W, 3) in [0, 1]."""
        pixels = np.clip(np.rint(np.asarray(image, dtype=np.float64) * 255), 0, 255).astype(
            np.uint8
        )
        sha = hashlib.sha256(
            str(pixels.shape).encode() + np.ascontiguousarray(pixels).tobytes()
        ).hexdigest()
        if sha not in self.found:
            uri = "data:image/png;base64," + base64.b64encode(png(pixels)).decode()
            self.found[sha] = Stored(f"p{len(self.found)}", uri, pixels.shape[1], pixels.shape[0])
        return self.found[sha]

    @property
    def size(self) -> int:
        """Characters that they take in the page."""
        return sum(len(s.uri) for s in self.found.values())


def png(pixels: NDArray[np.uint8]) -> bytes:
    """8-bit grey or RGB pixels as a PNG file."""
    high, wide = pixels.shape[:2]
    lines = b"".join(b"\0" + pixels[y].tobytes() for y in range(high))
    head = struct.pack(">IIBBBBB", wide, high, 8, 2 if pixels.ndim == 3 else 0, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in parts
    )
