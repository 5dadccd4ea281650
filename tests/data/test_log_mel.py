"""Log-mel spectrograms against a few lines of their definition, and waves read as they are."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile

from leakbench.base.errors import BrokenFile
from leakbench.data.log_mel import LogMel
from leakbench.data.wav_files import spectrograms, waves

SMALL = LogMel(rate=8000, window=64, hop=32, mels=10, frames=12)


def triangles(scale):
    """The mel filterbank, band by band and bin by bin."""

    def mel(hertz):
        return 2595 * np.log10(1 + hertz / 700)

    edges = np.interp(
        np.linspace(0, mel(scale.rate / 2), scale.mels + 2),
        mel(np.arange(scale.rate // 2 + 1)),
        np.arange(scale.rate // 2 + 1),
    )
    out = np.zeros((scale.mels, scale.window // 2 + 1))
    for m in range(scale.mels):
        for k in range(scale.window // 2 + 1):
            out[m, k] = np.interp(k * scale.rate / scale.window, edges[m : m + 3], [0, 1, 0])
    return out


def by_definition(scale, wave):
    """One channel: frames by hand, a Fourier sum, triangles, dB below the loudest cell."""
    n, half = scale.window, scale.window // 2
    wave = np.concatenate([wave, np.zeros(scale.samples)])[: scale.samples]
    long = np.concatenate([wave[1 : half + 1][::-1], wave, wave[-half - 1 : -1][::-1]])
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(n) / n)
    fourier = np.exp(-2j * np.pi * np.outer(np.arange(half + 1), np.arange(n)) / n)
    columns = [long[t * scale.hop : t * scale.hop + n] * hann for t in range(scale.frames)]
    power = triangles(scale) @ np.abs(fourier @ np.stack(columns, 1)) ** 2
    decibels = 10 * np.log10(power / power.max() + 1e-300)
    return np.maximum(decibels, -80) / 20 + 2


def noise(n, seed=0):
    return np.random.default_rng(seed).normal(size=n)


@pytest.mark.parametrize("n", [200, 352, 900])
def test_a_spectrogram_is_its_definition(n):
    """Shorter than the window of time, as long, and cut."""
    wave = noise(n)
    found = SMALL.of(wave[None])
    assert found.shape == (1, 10, 12)
    assert found.dtype == np.float32
    assert np.abs(found[0] - by_definition(SMALL, wave)).max() < 2e-3


def test_loudness_as_a_whole_is_not_told_and_silence_is_the_lowest():
    wave = noise(352)[None]
    assert np.array_equal(SMALL.of(wave), SMALL.of(wave / 1024))
    assert (SMALL.of(np.zeros((2, 100))) == -2).all()
    assert SMALL.of(wave).max() == 2


def test_channels_share_their_loudest_cell():
    found = SMALL.of(np.stack([noise(352), noise(352) / 10]))
    assert found[0].max() == 2
    assert found[1].max() == pytest.approx(1.0, abs=1e-3)  # 20 dB below, 20 dB a unit


def test_values_lie_on_a_grid_that_other_machines_sums_share():
    found = SMALL.of(noise(352)[None]).astype(np.float64) * 4096
    assert (found == np.rint(found)).all()


def test_power_undoes_the_scale_and_the_transform_has_its_inverse():
    wave = noise(SMALL.samples)
    assert np.allclose(SMALL.back(SMALL.transform(wave)), wave)
    found = SMALL.of(wave[None]).astype(np.float64)[0]
    true = triangles(SMALL) @ np.abs(SMALL.transform(wave)) ** 2
    heard = true / true.max() > 1e-7
    assert np.allclose(SMALL.power(found)[heard], (true / true.max())[heard], rtol=5e-3)


def test_the_papers_inputs_have_its_size():
    from leakbench.base import registry

    kind = registry.load_plugin("tasks", "urbansound8k")
    found = kind.sound.of(np.stack([noise(176_400)] * 2))
    assert found.shape == kind.shape == (2, 64, 344)
    assert (kind.sound.filters().max(1) > 0).all()  # no band is empty
    kind = registry.load_plugin("tasks", "spoken-digits")
    assert kind.sound.of(noise(9000)[None]).shape == kind.shape
    assert (kind.sound.filters().max(1) > 0).all()


@pytest.mark.parametrize("kind", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT"])
@pytest.mark.parametrize("channels", [1, 2])
def test_every_kind_of_wav_is_read_in_one_or_two_channels(tmp_path, kind, channels):
    sound = np.stack([noise(500, c) / 8 for c in range(channels)], 1).clip(-1, 1)
    soundfile.write(tmp_path / "a.wav", sound, 8000, kind)
    exact = 0.01 if kind == "PCM_U8" else 1e-4
    one, two = (waves(tmp_path / "a.wav", 8000, n) for n in (1, 2))
    assert np.allclose(one[0], sound.mean(1), atol=exact)
    assert np.allclose(two, sound.T, atol=exact)  # the only one twice


@pytest.mark.parametrize("came", [8000, 11_025, 44_100, 48_000])
def test_a_tone_keeps_its_pitch_whatever_the_rate(tmp_path, came):
    time = np.arange(came) / came
    soundfile.write(tmp_path / "a.wav", np.sin(2 * np.pi * 1000 * time), came)
    wave = waves(tmp_path / "a.wav", 16_000, 1)[0]
    assert abs(len(wave) - 16_000) <= 2
    assert np.abs(np.fft.rfft(wave[:16_000])).argmax() == 1000


def test_spectrograms_stand_in_the_order_of_the_files(tmp_path):
    paths = [tmp_path / f"{i}.wav" for i in range(5)]
    for i, path in enumerate(paths):
        soundfile.write(path, noise(400, i) / 8, 8000, "FLOAT")
    found = spectrograms(paths, SMALL, 2)
    assert found.shape == (5, 2, 10, 12)
    for i, path in enumerate(paths):
        assert np.array_equal(found[i].numpy(), SMALL.of(waves(path, 8000, 2)))


def refused(path, words):
    with pytest.raises(BrokenFile) as caught:
        waves(path, 8000, 1)
    assert words in str(caught.value)
    assert path.name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_damaged_and_foreign_files_are_one_sentence_each(tmp_path):
    path = tmp_path / "a.wav"
    refused(path, "is missing")
    for content in (b"", b"RIFF", b"no sound at all", b"RIFF\0\0\0\0WAVE"):
        path.write_bytes(content)
        refused(path, "it is no WAV file" if content[8:] != b"WAVE" else "it has no sound")
    soundfile.write(path, noise(300) / 8, 8000)
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    refused(path, "500 bytes of sound where 600 were promised")
    path.write_bytes(whole[:20] + b"\xff\xff" + whole[22:])  # a format that nobody knows
    refused(path, "damaged")
    soundfile.write(path, np.zeros(0), 8000)
    refused(path, "came 0 samples of 1 channels")
    soundfile.write(path, np.zeros((9, 3)), 8000)
    refused(path, "came 9 samples of 3 channels")
    soundfile.write(path, np.array([0.0, np.nan]), 8000, "FLOAT")
    refused(path, "not finite")


def test_a_size_that_its_writer_did_not_know_is_no_damage(tmp_path):
    path = tmp_path / "a.wav"
    soundfile.write(path, noise(300) / 8, 8000)
    whole = path.read_bytes()
    at = whole.index(b"data") + 4
    path.write_bytes(whole[:at] + b"\xff\xff\xff\xff" + whole[at + 4 :])
    assert waves(path, 8000, 1).shape == (1, 300)
