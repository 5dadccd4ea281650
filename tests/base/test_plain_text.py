"""Text that somebody edited: a byte-order mark, other line ends and blank last lines change
nothing, and what is no UTF-8 is one sentence.
"""

from __future__ import annotations

import os

import pytest
from helpers import caption_files as write_captions
from helpers import har_files, people_files, sound_files
from helpers.gate_rows import row

from leakbench import cli
from leakbench.base import files, plugins
from leakbench.base.errors import UsageError
from leakbench.base.plain_text import plain_text
from leakbench.cli import options
from leakbench.data import caption_files, face_files, voxceleb_files
from leakbench.data import har_files as har
from leakbench.data import sound_files as sounds
from leakbench.gate import baseline

SPEC = 'rounds = 3\n\n[[defense]]\nname = "fedavg"\n\n[ci]\nlimits = ["p_leak<=0.2"]\n'


def spec(folder):
    path = folder / "ci.toml"
    path.write_text(SPEC)
    return path, lambda: vars(options.read_spec(path))


def table(folder):
    path = folder / "rows.csv"
    files.write_csv(path, ("name", "note"), [{"name": "a", "note": ""}, {"name": "b", "note": "="}])
    return path, lambda: files.read_csv(path, ("name", "note"))


def gate(folder):
    path = folder / "leakage.json"
    baseline.save_baseline(path, baseline.Baseline.of([row()], (), (3,)))
    return path, lambda: baseline.load_baseline(path)


def flickr8k(folder):
    return write_captions.write_flickr8k(folder) / "captions.txt", caption_files.flickr8k


def coco(folder):
    path = write_captions.write_coco(folder) / "annotations" / "captions_train2014.json"
    return path, lambda: caption_files.coco("train2014")


def urbansound8k(folder):
    place = sound_files.write_urban(folder)
    return place / "metadata" / "UrbanSound8K.csv", lambda: sounds._urban(place)


def voxceleb1(folder):
    path = people_files.voxceleb(folder) / "vox1_meta.csv"
    return path, lambda: voxceleb_files._parts(path)


def vggface2(folder):
    path = people_files.vggface2(folder) / "identity_meta.csv"
    return path, lambda: face_files._rows(path)


def uci_har(folder):
    path = har_files.write(folder) / "train" / "y_train.txt"
    return path, lambda: har._numbers(path, 1).tolist()


EVERY = (spec, table, gate, flickr8k, coco, urbansound8k, voxceleb1, vggface2, uci_har)


@pytest.fixture(params=EVERY, ids=lambda make: make.__name__)
def written(request, tmp_path, monkeypatch):
    """A file and what reads it."""
    monkeypatch.setenv("LEAKBENCH_DATA", str(tmp_path))
    return request.param(tmp_path)


def test_what_an_editor_adds_changes_nothing(written):
    path, read = written
    text, expected = path.read_bytes().replace(b"\r\n", b"\n"), read()
    for made in (
        b"\xef\xbb\xbf" + text,
        text.replace(b"\n", b"\r\n"),
        text + b"\n",
        b"\xef\xbb\xbf" + text.replace(b"\n", b"\r\n") + b"\r\n  \t\r\n",
    ):
        path.write_bytes(made)
        assert read() == expected


def test_utf_16_is_one_sentence(written):
    path, read = written
    text = path.read_text(encoding="utf-8")
    for code in ("utf-16", "utf-16-le", "utf-32"):
        path.write_bytes(text.encode(code))
        with pytest.raises(UsageError) as caught:
            read()
        said = str(caught.value)
        assert path.name in said
        assert "\n" not in said
        assert "UTF-16" in said or path.name == "y_train.txt"


def test_blank_lines_inside_stay(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfa\n\n b \n\n\n")
    assert plain_text(path) == "a\n\n b \n"
    path.write_bytes(b"")
    assert plain_text(path) == ""
    path.write_bytes("é".encode("latin-1"))
    with pytest.raises(UnicodeDecodeError, match="utf-8"):
        plain_text(path)


def test_a_plugin_saved_with_a_mark_is_read(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(plugins.VARIABLE, "")
    path = tmp_path / "marked.py"
    code = (
        '"""Marked."""\n\nfrom leakbench import Wrapper\n\n\nclass Marked(Wrapper):\n    """M."""\n'
    )
    path.write_bytes(b"\xef\xbb\xbf" + code.replace("\n", "\r\n").encode() + b"\r\n")
    assert cli.run(["list", "wrappers", "--plugin", str(path)]) == 0
    assert "Marked." in capsys.readouterr().out
    path.write_bytes(code.encode("utf-16"))
    os.environ[plugins.VARIABLE] = ""
    assert cli.run(["list", "wrappers", "--plugin", str(path.rename(tmp_path / "wide.py"))]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
