"""VoxCeleb1, VGGFace2 and the ORL faces from tiny files in the official layouts: read right,
refused in one sentence.
"""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
from helpers import people_files as tiny
from PIL import Image

from leakbench.base.errors import BrokenFile, UsageError
from leakbench.data import LogMel, face_files, sets, voxceleb_files, waves

SCALE = LogMel(rate=16_000, window=400, hop=160, mels=40, frames=51)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder of data."""
    monkeypatch.setenv("LEAKBENCH_DATA", str(tmp_path))
    return tmp_path


def refused(words, call, *args, error=BrokenFile):
    with pytest.raises(error) as caught:
        call(*args)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


class TestVoxCeleb:
    def test_speakers_files_and_pairs_are_those_listed(self, place):
        folder = tiny.voxceleb(place)
        voices = voxceleb_files.people()
        assert [*voices.dev] == [f"id1{i:04d}" for i in range(5)]
        assert [*voices.test] == [f"id1{i:04d}" for i in range(5, 9)]
        assert all(len(files) == 3 for files in (voices.dev | voices.test).values())
        assert voices.dev["id10000"][2] == folder / "wav" / "id10000" / "video1" / "00003.wav"
        assert len(voices.pairs) == 4 * 3 + 6 * 9
        for pair in voices.pairs:
            assert pair.same == (pair.one.parts[-3] == pair.other.parts[-3])
        assert sets.found("voxceleb1") == folder
        assert "(5, 15) speakers and utterances of part dev" in sets.unofficial("voxceleb1")

    def test_crops_begin_where_they_are_told(self, place):
        tiny.voxceleb(place, dev=1, test=2, files=1)
        [path] = voxceleb_files.people().dev["id10000"]
        found = voxceleb_files.crops([path], SCALE, torch.tensor([[0.0, 0.5, 1.0]]))
        assert found.shape == (1, 3, 1, 40, 51)
        wave = waves(path, 16_000, 1)
        for cut, start in zip(found[0], (0, 4000, 8000), strict=True):
            assert np.array_equal(cut.numpy(), SCALE.of(wave[:, start : start + 8000]))

    def test_the_cleaned_list_goes_before_the_first_one(self, place):
        folder = tiny.voxceleb(place)
        text = (folder / "veri_test2.txt").read_text().splitlines()
        (folder / "veri_test.txt").write_text("\n".join(text[:5]) + "\n")
        assert voxceleb_files.people().listed == "veri_test2.txt"
        (folder / "veri_test2.txt").unlink()
        assert len(voxceleb_files.people().pairs) == 5
        assert voxceleb_files.people().listed == "veri_test.txt"

    def test_nowhere(self, place):
        refused("LEAKBENCH_DATA", voxceleb_files.people, error=UsageError)
        assert sets.found("voxceleb1") is None
        assert "http" not in sets.absent("voxceleb1")

    @pytest.mark.parametrize(
        ("file", "text", "words"),
        [
            ("vox1_meta.csv", None, "vox1_meta.csv is missing beside wav/"),
            ("vox1_meta.csv", "a,b\nc,d\n", "line 2 has speaker None in part None"),
            ("vox1_meta.csv", "VoxCeleb1 ID\tSet\nid1\tdev\n", "line 2 has speaker 'id1'"),
            ("vox1_meta.csv", "VoxCeleb1 ID\tSet\n", "does not have speakers of both parts"),
            ("vox1_meta.csv", b"\xff\xfe\x00", "vox1_meta.csv is damaged"),
            (
                "vox1_meta.csv",
                "VoxCeleb1 ID\tSet\nid10000\tdev\nid19999\ttest\n",
                "id19999 is missing, though vox1_meta.csv names it (1 are missing)",
            ),
            (
                "vox1_meta.csv",
                "VoxCeleb1 ID\tSet\nid10000\tdev\nid10001\ttest\n",
                "id10002 is no speaker of vox1_meta.csv",
            ),
            ("veri_test2.txt", None, "veri_test2.txt is missing"),
            ("veri_test2.txt", "", "it has no pairs"),
            ("veri_test2.txt", "\n1 a\n", "line 1 is no 0 or 1 and two files: ''"),
            ("veri_test2.txt", "2 a b\n", "line 1 is no 0 or 1 and two files"),
            ("veri_test2.txt", "1 id10000/video0/00001.wav x\n", "is no file of a test speaker"),
            (
                "veri_test2.txt",
                "1 id10005/video0/00001.wav id10006/video0/00001.wav\n",
                "line 1 says 1 of",
            ),
            ("wav/id10003/video0/cover.jpg", b"x", "is no {video}/NNNNN.wav"),
        ],
    )
    def test_damaged_and_foreign_files(self, place, file, text, words):
        path = tiny.voxceleb(place) / file
        if text is None:
            path.unlink()
        else:
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        refused(words, voxceleb_files.people)

    def test_a_speaker_without_a_file_and_a_cut_wave(self, place):
        folder = tiny.voxceleb(place)
        path = folder / "wav" / "id10001" / "video0" / "00001.wav"
        path.write_bytes(path.read_bytes()[:200])
        refused("bytes of sound where", voxceleb_files.crops, [path], SCALE, torch.zeros(1, 1))
        shutil.rmtree(folder / "wav" / "id10001")
        (folder / "wav" / "id10001").mkdir()
        refused("id10001 has no utterance", voxceleb_files.people)


class TestVggFace2:
    def test_people_and_images_are_those_listed(self, place):
        folder = tiny.vggface2(place)
        faces = face_files.people("vggface2")
        assert [*faces.train] == [f"n{i:06d}" for i in range(5)]
        assert [*faces.test] == [f"n{i:06d}" for i in range(5, 9)]
        assert all(len(files) == 4 for files in (faces.train | faces.test).values())
        assert sets.found("vggface2") == folder
        assert "{'train': 5, 'test': 4} people" in sets.unofficial("vggface2")

    def test_tables_lie_beside_the_parts_or_where_the_archives_have_them(self, place):
        folder = tiny.vggface2(place)
        (folder / "data").mkdir()
        (folder / "meta").mkdir()
        (folder / "bb_landmark").mkdir()
        for name, home in (
            ("train", "data"),
            ("test", "data"),
            ("identity_meta.csv", "meta"),
            ("loose_bb_train.csv", "bb_landmark"),
        ):
            (folder / name).rename(folder / home / name)
        assert face_files.place("vggface2") == folder / "data"
        assert len(face_files.people("vggface2").train) == 5
        assert len(face_files.boxes("train")) == 20

    def test_a_face_is_the_square_about_its_box(self, place):
        tiny.vggface2(place)
        paths = face_files.people("vggface2").train["n000002"]
        x = face_files.images(paths, 6, grey=False, boxes=face_files.boxes("train"))
        assert x.shape == (4, 3, 6, 6)
        assert x.dtype == torch.uint8
        # The box is 60 wide and 50 high: 5 rows of noise above and below it.
        colour = torch.tensor([74, 209, 22])
        assert int((x[0, :, 1:5].int() - colour[:, None, None]).abs().max()) < 12
        whole = face_files.images(paths, 9, grey=False)
        middle = whole[0, :, 3:6, 3:6].int()
        assert int((middle - colour[:, None, None]).abs().max()) < 12
        assert face_files.images(paths, 9, grey=True).shape == (4, 1, 9, 9)

    def test_nowhere(self, place):
        refused("LEAKBENCH_DATA", face_files.people, "vggface2", error=UsageError)
        assert sets.found("vggface2") is None

    @pytest.mark.parametrize(
        ("file", "text", "words"),
        [
            ("identity_meta.csv", None, "identity_meta.csv is missing beside"),
            ("identity_meta.csv", "a,b\nc,d\n", "line 2 has person 'None' with flag 'None'"),
            ("identity_meta.csv", "Class_ID, Flag\nn1, 1\n", "line 2 has person 'n1'"),
            ("identity_meta.csv", "Class_ID, Flag\nn000000, 2\n", "with flag '2'"),
            ("identity_meta.csv", b"\xff\xfe", "identity_meta.csv is damaged"),
            (
                "identity_meta.csv",
                "Class_ID, Flag\nn000077, 1\n",
                "n000077 is missing, though identity_meta.csv names it",
            ),
            (
                "identity_meta.csv",
                "Class_ID, Flag\nn000001, 1\n",
                "n000000 is no person whom identity_meta.csv has in train",
            ),
            ("train/n000003/note.txt", "x", "note.txt is no .jpg"),
        ],
    )
    def test_damaged_and_foreign_files(self, place, file, text, words):
        path = tiny.vggface2(place) / file
        if text is None:
            path.unlink()
        else:
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
        refused(words, face_files.people, "vggface2")

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            (None, "by task.boxes=false"),
            ("a\nb\n", "line 2 is no NAME_ID, X, Y, W, H"),
            ('NAME_ID,X,Y,W,H\n"n000001/0001_01",1,2,x,4\n', "line 2 is no NAME_ID"),
            ('NAME_ID,X,Y,W,H\n"n000001/0001_01",1,2,0,4\n', "a box of 0 x 4 pixels"),
        ],
    )
    def test_damaged_boxes(self, place, text, words):
        path = tiny.vggface2(place) / "loose_bb_train.csv"
        if text is None:
            path.unlink()
        else:
            path.write_text(text)
        refused(words, face_files.boxes, "train")

    def test_a_cut_image_an_empty_person_and_one_without_a_box(self, place):
        folder = tiny.vggface2(place)
        path = folder / "train" / "n000001" / "0002_01.jpg"
        content = path.read_bytes()
        for damaged in (content[:300], b"GIF89a", b""):
            path.write_bytes(damaged)
            with pytest.raises(BrokenFile, match=r"0002_01\.jpg is damaged") as caught:
                face_files.images([path], 8, grey=False)
            assert "\n" not in str(caught.value)
        path.write_bytes(content)
        with pytest.raises(BrokenFile, match="has no box"):
            face_files.images([path], 8, grey=False, boxes={"n000001/0001_01": (0, 0, 3, 3)})
        shutil.rmtree(folder / "test" / "n000006")
        (folder / "test" / "n000006").mkdir()
        refused("n000006 has no image", face_files.people, "vggface2")


class TestOrl:
    def test_people_and_pixels(self, place):
        folder = tiny.orl(place)
        faces = face_files.people("orl-faces")
        assert [*faces.train] == [f"s{i}" for i in range(1, 41)]
        assert faces.train["s3"][9] == folder / "s3" / "10.pgm"
        assert not faces.test
        assert "are not those of the official orl-faces" in sets.unofficial("orl-faces")
        x = face_files.images(faces.train["s3"], 92, grey=True)
        assert np.array_equal(x[0, 0].numpy(), np.asarray(Image.open(faces.train["s3"][0]))[10:102])

    def test_a_missing_a_cut_and_a_foreign_file(self, place):
        folder = tiny.orl(place)
        path = folder / "s7" / "4.pgm"
        content = path.read_bytes()
        path.write_bytes(content[:999])
        refused("4.pgm is damaged", face_files.unofficial, "orl-faces")
        Image.new("L", (112, 92)).save(path)
        refused("expected 92 x 112 grey pixels", face_files.unofficial, "orl-faces")
        path.unlink()
        refused("4.pgm is missing beside", face_files.people, "orl-faces")
        shutil.rmtree(folder)
        refused("LEAKBENCH_DATA", face_files.people, "orl-faces", error=UsageError)
