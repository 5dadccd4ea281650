"""A planted context: a marker in all inputs of some clients, so that inferring it can be scored.

One function makes both the clients' data and the attacker's marked copies of auxiliary data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leakbench.base.errors import UsageError
from leakbench.base.lazy import torch
from leakbench.base.streams import shared

if TYPE_CHECKING:
    from torch import Tensor

KINDS = ("square", "bump", "whistle")


def paste(x: Tensor, kind: str) -> Tensor:
    """A copy of the inputs ``x`` (..., C, H, W) with the marker ``kind``.

    "square", images in [0, 1] (or uint8): channel 0 is 1 (255) on a square near the upper left
    corner, of 32 pixels the rows and columns 2 to 6 as in FLea's demonstration; on other sides in
    proportion, at least 2 x 2 pixels (8x8: rows and columns 0, 1). "bump", sensors (..., 1, time,
    axes), standardised: half a sine of height 3 (standard deviations) added to the first axis, from
    an eighth of the window on and a sixteenth of it long (128 samples: 16 to 23, 0.16 s).
    "whistle", log-mel spectrograms (..., C, mels, frames) from -2 to 2: a short tone, in every
    channel at least 1.5 (10 dB below the loudest) three quarters up the bands, a sixteenth of them
    high (at least one), from an eighth of the frames on and an eighth of them long; powers add, so
    where the sound itself is louder it stays. FLea has no marker for sensors and sound.

    Raises:
        UsageError: there is no such marker.
    """
    if kind not in KINDS:
        known = f"{', '.join(KINDS[:-1])} or {KINDS[-1]}"
        raise UsageError(f"context {kind!r} is not known. Use {known}.")
    out = x.clone()
    if kind == "square":
        side = min(x.shape[-2:])
        from_, to = 2 * side // 32, 2 * side // 32 + max(5 * side // 32, 2)
        out[..., 0, from_:to, from_:to] = 255 if x.dtype == torch.uint8 else 1
        return out
    if kind == "whistle":
        mels, frames = x.shape[-2:]
        low, early = 3 * mels // 4, frames // 8
        band = slice(low, low + max(mels // 16, 1)), slice(early, early + max(frames // 8, 1))
        out[..., *band] = out[..., *band].clamp(min=1.5)
        return out
    time = x.shape[-2]
    long = max(time // 16, 1)
    half = ((torch.arange(long, dtype=torch.float64) + 0.5) * torch.pi / long).sin() * 3
    out[..., 0, time // 8 : time // 8 + long, 0] += half.to(x.device, x.dtype)
    return out


def with_marker(clients: int, stream: str) -> Tensor:
    """(C,) bool: half of the clients, rounded down, by a named stream of the task.

    FLea's Section 4.4 marks half of the *images*. Here a client's every input has the marker or
    none has: a property of the client (its camera, the paper's own motive in Section 2.4) is what a
    context attacker infers, and a mean of ten of a client's images, which FedMix sends, is all
    marked or all clear.
    """
    out = torch.zeros(clients, dtype=torch.bool)
    out[shared(0, f"{stream}/context").permutation("clients", clients)[: clients // 2]] = True
    return out
