"""Sound as pictures: log-mel spectrograms, whose scale is public."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
else:  # every task knows of the scale, and what there is is listed without numpy
    import lazy_loader

    np = lazy_loader.load("numpy")

SPAN = 80.0  # dB below the loudest cell, below which nothing is told apart
UNIT = SPAN / 4  # dB of a unit of the scale
STEPS = 4096  # of one unit: sums' last bits differ between machines, the data must not


@dataclass(frozen=True)
class LogMel:
    """A scale of log-mel spectrograms, and how a wave is put on it.

    Power of a Hann window's Fourier transform, centred on multiples of ``hop`` (the wave mirrored
    at its ends), summed by triangles even in mel = 2595 log10(1 + f / 700) from 0 to rate / 2 with
    peak 1, in dB below the loudest cell of the clip and not below -80, brought from [-80, 0] to
    [-2, 2]: nothing of it is learnt from data, so clients have nothing to agree on, and how loud a
    clip is as a whole is not told.
    """

    rate: int  # samples a second
    window: int  # samples, even
    hop: int  # samples
    mels: int
    frames: int

    @property
    def samples(self) -> int:
        """Of a wave: (frames - 1) hop."""
        return (self.frames - 1) * self.hop

    def of(self, wave: Floats) -> NDArray[np.float32]:
        """The spectrogram (C, mels, frames) of a wave (C, n).

        The end is cut off, or filled up by silence, to ``samples``. Silence is -2 everywhere.
        """
        kept = wave[:, : self.samples]
        kept = np.pad(kept, ((0, 0), (0, self.samples - kept.shape[1])))
        power = self.filters() @ np.abs(self.transform(kept)) ** 2
        loudest = power.max()
        if not loudest:
            return np.full(power.shape, -2, np.float32)
        with np.errstate(divide="ignore"):
            decibels = np.maximum(10 * np.log10(power / loudest), -SPAN)
        return (np.rint((decibels / UNIT + 2) * STEPS) / STEPS).astype(np.float32)

    def power(self, spectrogram: Floats) -> Floats:
        """Mel power (..., mels, frames), 1 the loudest possible, of what ``of`` gives."""
        return 10 ** ((np.clip(spectrogram, -2, 2) - 2) * UNIT / 10)

    def filters(self) -> Floats:
        """(mels, window / 2 + 1): the weight of each frequency in each band."""
        return _filters(self)

    def transform(self, wave: Floats) -> NDArray[np.complex128]:
        """(..., samples) -> (..., window / 2 + 1, frames)."""
        from scipy.signal import stft

        found: Any = stft(wave, boundary="even", padded=False, **self._how)[2]
        return found

    def back(self, transformed: NDArray[np.complex128]) -> Floats:
        """The wave (..., samples) whose transform is the nearest one."""
        from scipy.signal import istft

        found: Any = istft(transformed, boundary=True, **self._how)[1]
        return found

    @property
    def _how(self) -> dict[str, Any]:
        overlap = self.window - self.hop
        return {"fs": self.rate, "window": "hann", "nperseg": self.window, "noverlap": overlap}


@lru_cache(maxsize=8)
def _filters(scale: LogMel) -> Floats:
    top = 2595 * np.log10(1 + scale.rate / 2 / 700)
    corners = 700 * (10 ** (np.linspace(0, top, scale.mels + 2) / 2595) - 1)
    low, middle, high = (corners[i : i + scale.mels, None] for i in range(3))
    hertz = np.linspace(0, scale.rate / 2, scale.window // 2 + 1)
    sides = (hertz - low) / (middle - low), (high - hertz) / (high - middle)
    return np.maximum(np.minimum(*sides), 0)
