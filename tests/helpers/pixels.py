"""The pixels of a picture that a report keeps as PNG."""

from __future__ import annotations

import base64
import io

import numpy as np


def pixels(found, picture):
    """(H, W) or (H, W, 3) float64 on [0, 1], as ``found`` (SHA-256 -> base64) has it; None where
    there is no image.
    """
    from PIL import Image

    if picture.sha256 is None:
        return None
    data = base64.b64decode(found[picture.sha256])
    return np.asarray(Image.open(io.BytesIO(data)), dtype=np.float64) / 255
