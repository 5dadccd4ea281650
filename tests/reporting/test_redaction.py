"""`report --redact`: no byte of what a client holds, nor of what an attack made of it, in any file
that is written.
"""

import base64
import hashlib
import json
import struct
import zlib

import numpy as np
import pytest
from helpers.pixels import pixels as pixels_of
from helpers.report_data import report_data
from helpers.small_runs import trained

from leakbench import api
from leakbench.base import registry
from leakbench.base.errors import UsageError
from leakbench.cli import run as cli
from leakbench.record.folders import load
from leakbench.reporting import maps, pictures, redaction
from leakbench.reporting.data import ReportData, ShownSetting
from leakbench.reporting.png import png
from leakbench.reporting.redaction import KEPT, LEFT_OUT, OF_A_SETTING, clear, redact

EVERY = ("html", "csv", "json", "figures", "markdown", "latex")


def traces(image):
    """Every form in which a picture could stand in a file: PNG, its compressed pixels, base64, raw
    pixels and floats, hashes.
    """
    pixels = np.clip(np.rint(np.asarray(image, dtype=np.float64) * 255), 0, 255).astype(np.uint8)
    whole = png(pixels)
    size = struct.unpack(">I", whole[whole.index(b"IDAT") - 4 : whole.index(b"IDAT")])[0]
    at = whole.index(b"IDAT") + 4
    floats = [np.ascontiguousarray(image, dtype=t).tobytes() for t in ("<f8", "<f4")]
    forms = [
        whole,
        whole[at : at + size],
        pixels.tobytes(),
        zlib.compress(pixels.tobytes(), 9),
        *floats,
    ]
    out = [
        f
        for form in forms
        for f in (form, base64.b64encode(form), base64.b64encode(form)[4:-4], form.hex().encode())
    ]
    out += [hashlib.sha256(form).hexdigest().encode() for form in (whole, pixels.tobytes())]
    return [
        *out,
        json.dumps(np.asarray(image).tolist())[1:-1].encode(),
        json.dumps(pixels.tolist())[1:-1].encode(),
    ]


def holding(folder, images):
    """The files in which a trace of a picture is found."""
    wanted = {t for image in images for t in traces(image)}
    return {
        p.name
        for p in folder.rglob("*")
        if p.is_file() and any(t in p.read_bytes() for t in wanted)
    }


def embedded(folder):
    """Files with a picture of any kind: PNGs, data URIs, SVG images."""
    marks = (b"\x89PNG", b"data:image", b"<image", b"iVBORw0KGgo")
    return {
        p.name for p in folder.rglob("*") if p.is_file() and any(m in p.read_bytes() for m in marks)
    }


def write(data, out):
    for name in EVERY:
        registry.load_plugin("reports", name).build({}, name).write(data, out)
    return out


@pytest.fixture
def data():
    return report_data()


def shown_in(data):
    """Every picture's pixels."""
    shown = [p for s in data.settings for p in s.pictures]
    return [x for x in (pixels_of(data.images, p) for p in shown) if x is not None]


def drawn_of(run):
    """The pixels of every picture that a report of this run shows."""
    media = pictures.Media()
    shown = list(pictures.run_pictures(run, media))
    return [x for x in (pixels_of(media.images.found, p) for p in shown) if x is not None]


def test_the_search_finds_what_is_there(data, tmp_path):
    """Without --redact every picture is found: the search does not pass because it looks for the
    wrong thing.
    """
    out = write(data, tmp_path)
    assert len(shown_in(data)) > 20
    for image in shown_in(data):
        assert holding(out, [image]) >= {"index.html", "report.json"}


def test_no_byte_of_original_or_reconstruction_is_written(data, tmp_path):
    out = write(redact(data), tmp_path)
    assert shown_in(data)
    assert holding(out, shown_in(data)) == set()
    # Charts, no photographs.
    assert embedded(out) == {p.name for p in (out / "figures").glob("tradeoff-*.png")}
    assert not list((out / "figures").glob("pictures-*"))


def test_the_place_of_the_pictures_says_so_and_every_number_stays(data, tmp_path):
    out = write(redact(data), tmp_path / "a")
    full = write(data, tmp_path / "b")
    page = (out / "index.html").read_text(encoding="utf-8")
    assert (
        "Left out: this report holds no private image and nothing that was rebuilt from one."
        in page
    )
    assert "Left out: maps show true prototypes, and who holds which classes." in page
    assert "Left out: " not in (full / "index.html").read_text(encoding="utf-8")
    assert "Private images were left out" in (out / "report.md").read_text(encoding="utf-8")
    found, whole = (
        json.loads((p / "report.json").read_text(encoding="utf-8")) for p in (out, full)
    )
    assert (found["redacted"], found["images"], whole["redacted"]) == (True, {}, False)
    assert not [p for s in found["settings"] for p in s["pictures"]]
    for one, other in zip(found["settings"], whole["settings"], strict=True):
        assert {k: v for k, v in one.items() if k != "pictures"} == {
            k: v for k, v in other.items() if k != "pictures"
        }
    for name in ("results", "tradeoff", "utility", "missing"):
        assert (out / f"{name}.csv").read_bytes() == (full / f"{name}.csv").read_bytes()


def test_a_field_of_a_report_is_kept_or_left_out_by_decision():
    """Whoever adds a field has to say here whether it may show private data; until then it is left
    out.
    """
    why = "decide in leakbench/reporting/redaction.py if the new field may show a client's data"
    assert set(ReportData.model_fields) == KEPT | LEFT_OUT, why
    assert set(ShownSetting.model_fields) == OF_A_SETTING | {"pictures"}, why
    assert not KEPT & LEFT_OUT


def test_what_nobody_decided_on_is_emptied(data, monkeypatch):
    monkeypatch.setattr(redaction, "KEPT", KEPT - {"title", "metrics"})
    monkeypatch.setattr(redaction, "OF_A_SETTING", OF_A_SETTING - {"curves"})
    assert data.metrics
    assert any(s.curves for s in data.settings)
    out = redact(data)
    assert (out.metrics, out.images) == ({}, {})
    assert not any(s.curves or s.pictures for s in out.settings)
    assert out.tables.rows("tradeoff") == data.tables.rows("tradeoff")
    assert out.redacted


# from the run folder on


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with reconstructed images: rough ones, but originals, floors and controls are what they
    are.
    """
    made = trained(tmp_path_factory.mktemp("runs"), "fedaws", rounds=2)
    api.attack(made, "gradient_inversion", targets=2, at=["final"], steps=4, restarts=1)
    return load(made.path)


def test_from_a_run_folder_with_every_format(run, tmp_path, capsys):
    images = drawn_of(run)
    assert len(images) >= 8
    plain, hidden = tmp_path / "plain", tmp_path / "hidden"
    formats = ",".join(EVERY)
    assert cli(["report", str(run.path), "-o", str(plain), "--format", formats]) == 0
    assert cli(["report", str(run.path), "-o", str(hidden), "--format", formats, "--redact"]) == 0
    assert holding(plain, images) >= {"index.html", "report.json"}
    assert holding(hidden, images) == set()
    assert embedded(hidden) == {p.name for p in (hidden / "figures").glob("tradeoff-*.png")}
    capsys.readouterr()


def test_the_truth_is_not_even_opened_for_pictures(run, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "pictures_of", lambda *_: pytest.fail("pictures were gathered"))
    monkeypatch.setattr(maps, "maps_of", lambda *_: pytest.fail("maps were gathered"))
    api.report([run], tmp_path / "out", formats=["html"], redact=True)


def test_an_earlier_report_in_the_folder_is_deleted_with_its_pictures(run, tmp_path):
    images = drawn_of(run)
    out = tmp_path / "out"
    api.report([run], out, formats=["html", "json", "figures"])
    assert holding(out, images)
    api.report([run], out, formats=["json"], redact=True)
    assert holding(out, images) == set()
    assert not (out / "index.html").exists()


def test_a_folder_with_other_files_is_refused_and_left_alone(run, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "index.html").write_text("earlier")
    (tmp_path / "out" / "holiday.png").write_bytes(b"mine")
    with pytest.raises(UsageError, match=r"holiday\.png is no file of a report"):
        api.report([run], tmp_path / "out", redact=True)
    assert (tmp_path / "out" / "index.html").read_text() == "earlier"
    clear(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
