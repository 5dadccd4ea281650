"""Tasks on sound from tiny files in the official layouts: who is trained on, tested, granted what.

Other content is refused in one sentence.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict

import numpy as np
import pytest
import torch
from helpers.sound_files import write_digits, write_urban

import leakbench
from leakbench.base import registry
from leakbench.base.errors import BrokenFile, UsageError
from leakbench.base.streams import shared
from leakbench.data import official, sets, sound_files
from leakbench.data.log_mel import LogMel
from leakbench.data.marker import paste
from leakbench.data.wav_files import waves

DIGITS = {"clients": 10, "width": 2, "aux_takes": 1}
URBAN = {"clients": 2, "split": "iid", "width": 2, "aux_recordings": 1}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder of data."""
    monkeypatch.setenv("LEAKBENCH_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def task(name, **params):
    small = DIGITS if name == "spoken-digits" else URBAN
    return registry.load_plugin("tasks", name).build({**small, **params}, f"task {name}")


def refused(name, words, error=BrokenFile, **params):
    with pytest.raises(error) as caught:
        task(name, **params).load()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "http" not in str(caught.value)


def among(examples, of, scale, channels):
    """The file that each example is of."""
    known = {scale.of(waves(p, scale.rate, channels)).tobytes(): p for p in of}
    assert len(known) == len(of)
    return [known[x.float().numpy().tobytes()] for x in examples.stored]


class TestDigits:
    def parts(self, place, **params):
        one = task("spoken-digits", **params)
        data, files = one.load(), sorted((place / "fsdd" / "recordings").iterdir())
        found = [among(part, files, one.sound, 1) for part in (data.train, data.test, data.aux)]
        return data, found

    def test_official_test_takes_are_tested_and_auxiliary_takes_are_nobodys(self, place):
        write_digits(place)
        data, (train, test, aux) = self.parts(place, aux_takes=1)
        takes = [{int(p.stem.split("_")[2]) for p in part} for part in (train, test, aux)]
        drawn = 5 + int(shared(0, "task/fsdd/aux").permutation("takes", 4)[0])
        assert takes == [{5, 6, 7, 8} - {drawn}, {0, 1}, {drawn}]
        assert [len(set(part)) for part in (train, test, aux)] == [60, 40, 20]
        for part, files in zip((data.train, data.test, data.aux), (train, test, aux), strict=True):
            assert part.y.tolist() == [int(p.name[0]) for p in files]
            assert part.stored.dtype == torch.float32

    def test_more_auxiliary_takes_contain_fewer(self, place):
        write_digits(place)
        few, many = (set(self.parts(place, aux_takes=n, split="iid")[1][2]) for n in (1, 3))
        assert few < many
        refused("spoken-digits", "task.aux_takes = 4, but", UsageError, aux_takes=4)

    def test_clients_have_three_digits_each_and_no_recording_twice(self, place):
        write_digits(place, takes=11)
        data = task("spoken-digits").load()
        rows = [data.rows[c, :n] for c, n in enumerate(data.counts.tolist())]
        assert all(len(data.train.y[r].unique()) == 3 for r in rows)
        assert sorted(torch.cat(rows).tolist()) == list(range(100))

    def test_it_says_whose_place_it_takes(self):
        assert registry.load_plugin("tasks", "spoken-digits").stand_in == "UrbanSound8K"
        assert not registry.load_plugin("tasks", "urbansound8k").stand_in

    def test_other_files_are_refused(self, place):
        refused("spoken-digits", "fsdd/recordings/", UsageError)
        recordings = write_digits(place) / "recordings"
        (recordings / ".DS_Store").write_text("")  # what a file manager leaves behind
        task("spoken-digits").load()
        (recordings / "3_ada_0.mp3").write_text("")
        refused("spoken-digits", "3_ada_0.mp3 is no {digit}_{speaker}_{take}.wav")
        (recordings / "3_ada_0.mp3").unlink()
        (recordings / "3_ada_0.wav").write_text("RIFF")
        refused("spoken-digits", "3_ada_0.wav is damaged or not what its name says")
        for path in recordings.iterdir():
            path.unlink()
        refused("spoken-digits", "lists no recording at all")

    def test_one_byte_and_one_name_tell_that_it_is_not_the_official_set(self, place, monkeypatch):
        folder = write_digits(place) / "recordings"
        assert "are not those of the official fsdd" in task("spoken-digits").load().unofficial
        files = sorted(folder.iterdir())
        monkeypatch.setitem(official.TOGETHER, "fsdd", official.together(files))
        assert task("spoken-digits").load().unofficial == ""
        raw = bytearray(files[0].read_bytes())
        raw[-1] ^= 1
        files[0].write_bytes(raw)
        assert "official" in sets.unofficial("fsdd")
        raw[-1] ^= 1
        files[0].write_bytes(raw)
        assert sets.unofficial("fsdd") == ""
        files[0].rename(folder / "0_ada_77.wav")
        assert "official" in sets.unofficial("fsdd")


class TestUrban:
    @pytest.fixture(autouse=True)
    def short(self, monkeypatch):
        """A fraction of the time of the paper's inputs."""
        scale = LogMel(rate=44_100, window=1024, hop=512, mels=16, frames=12)
        monkeypatch.setattr(registry.load_plugin("tasks", "urbansound8k"), "sound", scale)

    def parts(self, place, **params):
        one = task("urbansound8k", **params)
        data = one.load()
        listed = sound_files.clips("urbansound8k")
        where = {c.path: c for c in listed}
        found = [
            [where[p] for p in among(part, list(where), one.sound, 2)]
            for part in (data.train, data.test, data.aux)
        ]
        return data, found

    def test_no_recording_is_on_two_sides(self, place):
        write_urban(place, held_out=3)
        data, parts = self.parts(place)
        train, test, aux = ({c.source for c in part} for part in parts)
        assert not train & test
        assert not train & aux
        assert not test & aux
        assert {c.part for c in parts[0]} == {1, 8}
        assert {c.part for c in parts[1] + parts[2]} == {9, 10}
        for part, clips in zip((data.train, data.test, data.aux), parts, strict=True):
            assert part.y.tolist() == [c.y for c in clips]
        assert Counter(c.y for c in parts[2]) == dict.fromkeys(range(10), 2)  # a recording of each
        assert len(parts[1]) == 100

    def test_never_more_than_half_of_a_class_is_auxiliary(self, place):
        write_urban(place, held_out=2)
        _, (_, test, aux) = self.parts(place, aux_recordings=99)
        assert (
            Counter(c.y for c in test) == Counter(c.y for c in aux) == dict.fromkeys(range(10), 4)
        )

    def test_settings_are_those_of_the_paper(self):
        kind = registry.load_plugin("tasks", "urbansound8k")
        t = kind.build({}, "task")
        assert (t.clients, t.split, t.split_param, t.model, t.width) == (
            70,
            "qua",
            3,
            "audionet",
            8,
        )
        assert (kind.rounds, t.metric, t.evaluations, t.classes) == (100, "accuracy", 100, 10)
        for method in ("fedavg", "fedprox", "flea", "fedmix", "feddata"):
            values = t.defaults(method)
            assert (values["fraction"], values["epochs"], values["optimizer"]) == (0.1, 5, "adam")
            assert values["batch"] + values.get("shared_batch", 0) == 32
        assert t.defaults("flea")["layer"] == "block2"

    def test_its_size_is_known(self, place):
        write_urban(place)
        assert "clips in its folds, not [873, 888" in task("urbansound8k").load().unofficial
        assert sum(sound_files.URBAN_FOLDS) == 8732

    @pytest.mark.parametrize(
        ("old", "new", "words"),
        [
            ("fsID", "fs", "line 2 has not all of slice_file_name, fsID, fold, classID"),
            (",1,0,kind0", ",11,0,kind0", "line 2 has fold 11 and class 0"),
            (",1,0,kind0", ",1,10,kind0", "line 2 has fold 1 and class 10"),
            (",1,0,kind0", ",one,0,kind0", "line 2 has fold 'one' and class '0'"),
            ("101000-0-0-1.wav", "101000-0-0-0.wav", "is named twice"),
            ("101000-0-0-0.wav", "../101000-0-0-0.wav", "is no file's name"),
            ("101000-0-0-0.wav", "999-0-0-0.wav", "999-0-0-0.wav is missing beside"),
            ("1.wav,101000,", "1.wav,109000,", "recording 109000 is in folds 1 and 9"),
            ("101000-0-0-0.wav", '"', "damaged"),
        ],
    )
    def test_another_table_is_refused(self, place, old, new, words):
        table = write_urban(place) / "metadata" / "UrbanSound8K.csv"
        text = table.read_text()
        assert old in text
        table.write_text(text.replace(old, new, 1))
        refused("urbansound8k", words)

    def test_what_is_missing_is_refused(self, place):
        refused("urbansound8k", "UrbanSound8K/", UsageError)
        folder = write_urban(place, held_out=1)
        for path in (folder / "audio" / "fold10").iterdir():
            path.unlink()
        table = folder / "metadata" / "UrbanSound8K.csv"
        lines = [x for x in table.read_text().splitlines() if ",10," not in x]
        table.write_text("\n".join(lines))
        refused("urbansound8k", "has 1 recordings of class 0 in folds 9 and 10", UsageError)
        table.write_text(lines[0])
        refused("urbansound8k", "lists no recording")
        table.write_bytes(b"\xff\xfe")
        refused("urbansound8k", "damaged")
        table.unlink()
        refused("urbansound8k", "UrbanSound8K.csv is missing beside the folders of audio")


def test_sets_and_doctor_say_where_they_are_or_how_they_are_got(place):
    from leakbench.cli import doctor

    nothing = doctor._data()
    free = nothing["found"].split(" need no download")[0]
    assert "spoken-digits" not in free
    assert "urbansound8k" not in free
    for name, page in sound_files.PAGES.items():
        assert page in nothing["do"]
        assert sets.found(name) is None
        assert page in sets.absent(name)
        with pytest.raises(UsageError, match="is not fetched for you"):
            sets.fetch(name)
    folders = write_digits(place), write_urban(place)
    found = doctor._data()
    for name, folder in zip(("fsdd", "urbansound8k"), folders, strict=True):
        assert sets.found(name) == folder
        sets.fetch(name)
        assert f"{name} in {folder} (not the official files)" in found["found"]


def test_a_marked_clients_recordings_all_whistle_and_nobody_elses(place):
    write_digits(place)
    clear, marked = (task("spoken-digits", context=c).load() for c in ("none", "whistle"))
    assert int(marked.context.sum()) == 5
    for c, mark in enumerate(marked.context.tolist()):
        mine = clear.rows[c, : int(clear.counts[c])]
        expected = clear.train.stored[mine]
        assert torch.equal(
            marked.train.stored[mine], paste(expected, "whistle") if mark else expected
        )
    for part in ("test", "aux"):
        assert torch.equal(getattr(clear, part).stored, getattr(marked, part).stored)


def test_the_whistle_is_a_short_tone_under_what_is_louder():
    x = torch.full((3, 1, 32, 48), -2.0)
    x[1] = 1.75
    out = paste(x, "whistle")
    assert (out[1] == 1.75).all()
    assert (out[0, 0, 24:26, 6:12] == 1.5).all()
    assert int((out[0] != x[0]).sum()) == 12
    assert (x[0] == -2).all()


@pytest.mark.parametrize("method", ["fedavg", "flea", "fedmix", "feddata"])
def test_the_papers_methods_train_on_it_and_learn(place, tmp_path, method):
    write_digits(place, takes=8)
    run = leakbench.train(
        method,
        task="spoken-digits",
        task_params={**DIGITS, "clients": 3, "split": "iid", "width": 4, "evaluations": 10},
        params={"fraction": 1.0, "lr": 0.01} | ({"batch": 8} if method != "feddata" else {}),
        rounds=12,
        out=tmp_path / "runs",
    )
    assert run.meta["stand_in"] == "UrbanSound8K"
    assert run.meta["facts"]["sound"] == asdict(
        registry.load_plugin("tasks", "spoken-digits").sound
    )
    late = [row["value"] for row in run.table("utility.csv", ["value"])][-5:]
    assert np.mean(late) > 0.3  # chance is 0.1; one round's falls where the last bits of a sum do


def test_the_official_digits_are_read_where_they_are(monkeypatch):
    folder = sound_files.place("fsdd")
    if folder is None:
        pytest.skip("the Free Spoken Digit Dataset is not here")
    data = registry.load_plugin("tasks", "spoken-digits").build({}, "task").load()
    assert data.unofficial == ""
    assert [len(part) for part in (data.train, data.test, data.aux)] == [2100, 300, 600]
    assert np.isclose(float(data.train.stored.mean()), -0.7, atol=0.4)
