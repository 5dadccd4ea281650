"""Spectrograms as sounds: WAV files made of what a log-mel spectrogram still knows."""

from __future__ import annotations

import base64
import hashlib
import io
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from leakbench.base.errors import BrokenFile
from leakbench.base.streams import shared
from leakbench.data.log_mel import LogMel
from leakbench.record.folders import Run

Floats = NDArray[np.float64]

STEPS = 60  # of the phase reconstruction: later ones change nothing that is heard
PEAK = 0.9  # of every sound: how loud the recording was is not in a spectrogram


class Sounds:
    """Sounds by the SHA-256 of their WAV, each kept once; ``found``: its bytes in base64."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def add(self, spectrogram: Floats, scale: LogMel) -> str | None:
        """Keep the sound of (C, mels, frames) and return its name.

        None where a number is not finite: there is no sound.
        """
        if not np.isfinite(spectrogram).all():
            return None
        data = wav(wave_of(spectrogram, scale), scale.rate)
        name = hashlib.sha256(data).hexdigest()
        self.found.setdefault(name, base64.b64encode(data).decode())
        return name


def sound_scale(run: Run) -> LogMel | None:
    """The scale of a run's inputs that are spectrograms, as run.json has it, or None.

    Raises:
        BrokenFile: it is not one of inputs of that shape.
    """
    facts = run.meta["facts"]
    if not facts.get("sound"):
        return None
    scale = LogMel(**facts["sound"])
    if list(facts["shape"][1:]) != [scale.mels, scale.frames]:
        raise BrokenFile(
            f"{run.path / 'run.json'} is damaged (inputs of shape {facts['shape']} are no"
            f" spectrograms of {scale.mels} bands and {scale.frames} frames). Train the run again."
        )
    return scale


def shade(spectrogram: Floats) -> Floats:
    """(C, mels, frames) as a picture (mels, frames) in [0, 1]: low tones at the bottom.

    The mean of the channels; 0, black, is 80 dB below the loudest and lower.
    """
    return (np.clip(spectrogram.mean(0)[::-1], -2, 2) + 2) / 4


def wave_of(spectrogram: Floats, scale: LogMel) -> Floats:
    """A wave (samples,) with peak ``PEAK`` whose spectrogram is near (C, mels, frames).

    Power is averaged over channels, spread from bands to frequencies by the filters'
    pseudo-inverse, and what is below the range is silent. A spectrogram has no phase: it is found
    by Griffin and Lim's iteration (IEEE TASSP 32, 1984) from phases drawn by a named stream, so
    even the sound of a true spectrogram is not the recording. Equal to the ear, not bit by bit,
    on other machines.
    """
    shown = np.clip(spectrogram, -2, 2)
    power = np.where(shown > -2, scale.power(shown), 0).mean(0)
    size = np.sqrt(np.maximum(_spread(scale) @ power, 0))
    turns = shared(0, "sounds").uniform("phase", *size.shape).double().numpy()
    wave: Floats = scale.back(size * np.exp(2j * np.pi * turns))
    for _ in range(STEPS):
        nearest = scale.transform(wave)
        wave = scale.back(size * nearest / np.maximum(np.abs(nearest), 1e-12))
    peak = float(np.abs(wave).max())
    return np.asarray(wave * (PEAK / peak) if peak else wave, np.float64)


def wav(wave: Floats, rate: int) -> bytes:
    """A wave (n,) in [-1, 1] as a WAV file of one channel, 16 bits."""
    import soundfile

    file = io.BytesIO()
    soundfile.write(file, wave, rate, "PCM_16", format="WAV")
    return file.getvalue()


@lru_cache(maxsize=8)
def _spread(scale: LogMel) -> Floats:
    return np.asarray(np.linalg.pinv(scale.filters()), np.float64)
