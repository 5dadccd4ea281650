"""Reconstructions of sound: drawn as spectrograms, heard as WAV, neither where it is redacted."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
import wave

import numpy as np
import pytest
from helpers.sound_files import tone, write_digits

import leakbench
from leakbench import api
from leakbench.base import registry
from leakbench.base.errors import BrokenFile
from leakbench.base.files import read_sealed, write_sealed
from leakbench.data.log_mel import LogMel
from leakbench.reporting import pictures, redaction, sounds
from leakbench.reporting.sounds import PEAK, Sounds, shade, sound_scale, wav, wave_of
from reports._page.pictures import Store

FORMATS = ("html", "json", "markdown")
SCALE = LogMel(rate=8000, window=256, hop=128, mels=32, frames=48)


def spectrogram(sound):
    return SCALE.of(sound[None]).astype(np.float64)


@pytest.mark.parametrize("hertz", [300, 1200, 3100])
def test_a_tone_sounds_like_itself(hertz):
    found = wave_of(spectrogram(tone(hertz, 0.8, 8000)), SCALE)
    assert found.shape == (SCALE.samples,)
    assert np.abs(found).max() == pytest.approx(PEAK)
    peak = np.abs(np.fft.rfft(found)).argmax() * 8000 / len(found)
    assert abs(peak - hertz) < 120  # a band at 3.1 kHz is 230 Hz wide


def test_the_sound_of_a_spectrogram_has_that_spectrogram_again():
    rng = np.random.default_rng(0)
    true = tone(500, 0.75, 8000) * np.repeat(rng.random(12), 500) + 0.05 * rng.normal(size=6000)
    shown = spectrogram(true)
    again, loud = spectrogram(wave_of(shown, SCALE)), shown > -1  # 60 dB
    assert np.sqrt(np.mean((again - shown)[loud] ** 2)) * 20 < 6  # dB
    blank = spectrogram(wave_of(np.zeros_like(shown), SCALE))
    assert np.sqrt(np.mean((blank - shown)[loud] ** 2)) * 20 > 20


def test_a_sound_is_the_same_whenever_it_is_made_and_a_wav_that_others_read():
    shown = spectrogram(tone(700, 0.3, 8000))
    sounds = Sounds()
    name = sounds.add(shown, SCALE)
    assert sounds.add(shown.copy(), SCALE) == name
    with wave.open(io.BytesIO(base64.b64decode(sounds.found[name]))) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (8000, 1, 2)
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768
    assert np.allclose(samples, wave_of(shown, SCALE), atol=1e-4)


def test_what_is_no_number_has_no_sound_and_silence_is_silent():
    assert Sounds().add(np.full((1, 32, 48), np.nan), SCALE) is None
    assert not wave_of(np.full((2, 32, 48), -2.0), SCALE).any()
    assert np.abs(wave_of(np.full((1, 32, 48), 99.0), SCALE)).max() == pytest.approx(PEAK)


def test_low_tones_are_drawn_at_the_bottom():
    drawn = shade(spectrogram(tone(200, 0.8, 8000)))
    assert drawn.shape == (32, 48)
    assert drawn[:, 10].argmax() > 25
    assert (shade(np.full((2, 32, 48), -2.0)) == 0).all()
    assert (shade(np.full((2, 32, 48), 3.0)) == 1).all()


def test_a_player_counts_into_the_pages_size_as_often_as_it_stands_there():
    data = {"b" * 64: base64.b64encode(wav(np.zeros(100), 8000)).decode()}
    store = Store({}, data)
    shown = {"params": {}, "unit": "client/3/17", "probe": None, "round": 1, "sha256": None}
    picture = pictures.Picture(attack="a b", role="attack", sound="b" * 64, **shown)
    for _ in range(2):
        assert store.sound(picture).startswith("data:audio/wav;base64,UklGR")
    assert store.size > 2 * len(data["b" * 64])
    assert store.heard == {"b" * 64: f"a-b-client-3-17-attack-{'b' * 8}.wav"}
    assert store.sound(picture.model_copy(update={"sound": None})) == ""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run on tiny recordings on a coarse scale whose shared features were decoded."""
    place = tmp_path_factory.mktemp("sound")
    write_digits(place / "data", takes=8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEAKBENCH_DATA", str(place / "data"))
        kind = registry.load_plugin("tasks", "spoken-digits")
        patch.setattr(kind, "sound", LogMel(rate=8000, window=64, hop=32, mels=8, frames=16))
        patch.setattr(kind, "shape", (1, 8, 16))
        params = {"clients": 3, "split": "iid", "width": 2, "aux_takes": 1, "evaluations": 10}
        one = leakbench.train(
            "flea",
            task="spoken-digits",
            task_params={**params, "context": "whistle"},
            params={"fraction": 1.0},
            rounds=3,
            out=place / "runs",
        )
        api.attack(one.path, "decoder", network="linear", steps=5, epochs=1)
        yield leakbench.load(one.path)


def test_train_attack_and_report_let_it_be_heard(run, tmp_path):
    out = tmp_path / "report"
    api.report([run], out, formats=FORMATS)
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "What an attacker sees and hears" in page
    assert "no sound is a recording" in page
    players = re.findall(r'<audio controls [^>]*src="data:audio/wav;base64,([^"]+)"', page)
    files = {p.read_bytes() for p in (out / "sounds").iterdir()}
    assert {base64.b64decode(p) for p in players} == files
    found = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert {base64.b64decode(s) for s in found["sounds"].values()} >= files
    shown = [p for s in found["settings"] for p in s["pictures"]]
    roles = {p["role"] for p in shown if p["sound"] and p["sha256"]}
    assert {"original", "attack", "floor"} <= roles
    assert all(p["psnr"] is None for p in shown)
    assert all(p["off"] is None or 0 <= p["off"] < 80 for p in shown)
    assert any(f"{p['off']:.0f} dB off" in page for p in shown if p["off"])


def test_what_is_drawn_and_heard_is_the_clients_own(run):
    media = pictures.Media()
    originals = [p for p in pictures.run_pictures(run, media) if p.role == "original"]
    assert originals
    held = run.tree("truth/data.safetensors")[0]["x"].double().numpy()
    for p in originals:
        sounds = Sounds()
        sounds.add(held[int(p.unit.split("/")[2])], sound_scale(run))
        assert set(sounds.found) == {p.sound}


def test_a_redacted_report_has_no_sound_in_any_file(run, tmp_path):
    out = tmp_path / "report"
    api.report([run], out, formats=FORMATS)
    sounds = [p.read_bytes() for p in (out / "sounds").iterdir()]
    assert sounds
    traces = [form for s in sounds for form in (s, s[44:200], base64.b64encode(s)[60:200])]
    api.report([run], out, redact=True, formats=FORMATS)
    for path in out.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert not any(t in content for t in (*traces, b"<audio", b"RIFF")), path
    assert not list(out.rglob("*.wav"))


def test_an_emptied_report_forgets_its_sounds(tmp_path):
    (tmp_path / "sounds").mkdir()
    (tmp_path / "sounds" / "a.wav").write_bytes(b"RIFF")
    redaction.clear(tmp_path)
    assert not (tmp_path / "sounds" / "a.wav").exists()


@pytest.mark.parametrize(
    "change", [{"mels": 31}, {"hop": 0}, {"hop": 250}, {"rate": "fast"}, {"window": 10**6}]
)
def test_a_scale_that_is_none_of_the_inputs_is_one_sentence(run, tmp_path, change):
    folder = tmp_path / "run"
    shutil.copytree(run.path, folder)
    meta = read_sealed(folder / "run.json")
    meta["facts"]["sound"].update(change)
    write_sealed(folder / "run.json", meta)
    with pytest.raises(BrokenFile) as caught:
        list(pictures.run_pictures(leakbench.load(folder), pictures.Media()))
    assert "run.json" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_phases_that_are_found_belong_to_the_spectrogram(monkeypatch):
    """Griffin and Lim's iteration: the wave's own magnitudes come nearer to those asked for."""

    def apart():
        shown = spectrogram(tone(300, 0.8, 8000) * np.linspace(0.2, 1, len(tone(300, 0.8, 8000))))
        power = SCALE.power(shown).mean(0)
        size = np.sqrt(np.maximum(sounds._spread(SCALE) @ power, 0)).ravel()
        found = np.abs(SCALE.transform(wave_of(shown, SCALE))).ravel()
        return 1 - size @ found / (np.linalg.norm(size) * np.linalg.norm(found))

    searched = apart()
    monkeypatch.setattr(sounds, "STEPS", 0)
    assert searched < 0.5 * apart()
