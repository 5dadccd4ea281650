"""WAV files as waves of one rate, and as log-mel spectrograms."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from math import gcd
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from leakbench.base.errors import BrokenFile
from leakbench.base.lazy import torch
from leakbench.base.raised import first_line
from leakbench.data.log_mel import LogMel

if TYPE_CHECKING:
    from torch import Tensor

FASTEST = 768_000  # samples a second of any recording
UNKNOWN = 0xFFFFFFFF  # in place of a size, of who wrote without knowing it


def spectrograms(paths: Sequence[Path], scale: LogMel, channels: int) -> Tensor:
    """The files' log-mel spectrograms, (n, channels, mels, frames) float32.

    Raises:
        BrokenFile: as ``waves``.
    """

    def one(path: Path) -> NDArray[np.float32]:
        return scale.of(waves(path, scale.rate, channels))

    out = np.empty((len(paths), channels, scale.mels, scale.frames), np.float32)
    with ThreadPoolExecutor() as pool:
        for i, found in enumerate(pool.map(one, paths)):
            out[i] = found
    return torch.from_numpy(out)


def waves(path: Path, rate: int, channels: int) -> NDArray[np.float64]:
    """A WAV file at ``rate`` samples a second, (channels, n) in [-1, 1], n at least 1.

    One channel is the mean of what the file has; two are its own, or its only one twice.

    Raises:
        BrokenFile: no WAV, cut, empty, or not of one or two channels.
    """
    import soundfile
    from scipy.signal import resample_poly

    _whole(path)
    try:
        sound, came = soundfile.read(path, dtype="float64", always_2d=True)
    except (OSError, RuntimeError) as error:  # libsndfile's are RuntimeErrors
        raise broken(path, first_line(error)) from None
    if not len(sound) or sound.shape[1] > 2 or not 0 < came <= FASTEST:
        size = f"{len(sound)} samples of {sound.shape[1]} channels at {came} Hz"
        raise broken(path, f"expected sound in one or two channels, came {size}")
    if not np.isfinite(sound).all():
        raise broken(path, "it has samples that are not finite")
    wave = sound.T
    if channels == 1:
        wave = wave.mean(0, keepdims=True)
    elif len(wave) < channels:
        wave = np.repeat(wave, channels, axis=0)
    shared = gcd(rate, came)
    if came != rate:
        wave = resample_poly(wave, rate // shared, came // shared, axis=1)
    return np.asarray(wave, np.float64)


def _whole(path: Path) -> None:
    """Raise BrokenFile where a WAV ends before its samples do: libsndfile reads what there is."""
    if not path.is_file():
        raise BrokenFile(f"{path} is missing beside the other files of its set. Put it there too.")
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(12)
        if head[:4] != b"RIFF" or head[8:] != b"WAVE":
            raise broken(path, "it is no WAV file")
        while len(chunk := file.read(8)) == 8:
            long = int.from_bytes(chunk[4:], "little")
            if chunk[:4] == b"data":
                if long != UNKNOWN and file.tell() + long > size:
                    why = f"{size - file.tell()} bytes of sound where {long} were promised"
                    raise broken(path, why)
                return
            file.seek(long + long % 2, 1)
    raise broken(path, "it has no sound")


def broken(path: Path, why: str) -> BrokenFile:
    """That a file of a set is damaged."""
    return BrokenFile(f"{path} is damaged or not what its name says ({why}). Get the set anew.")
