"""MNIST, CIFAR-10 and CIFAR-100 from tiny files in their official layouts: read right, split right,
refused in one sentence.
"""

from __future__ import annotations

import gzip
import pickle  # noqa: TID251 - CIFAR's own format
import resource
import socket
import struct
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import har_files
from helpers.image_files import CLASSES, SHAPES, rows, write

import leakbench
from leakbench.base import registry
from leakbench.base.errors import BrokenFile, UsageError
from leakbench.data import array_pickles, image_sets
from leakbench.federation.utility import METRICS

NAMES = sorted(SHAPES)
DOWNLOAD = image_sets._download
LAYOUTS = [("python", 2), ("python", 5), ("binary", 2)]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder of data, and nothing to fetch them from."""

    def refuse(name, folder):
        raise OSError("no network")

    monkeypatch.setenv("LEAKBENCH_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(image_sets, "_download", refuse)
    return tmp_path / "data"


def load(name, **params):
    return registry.load_plugin("tasks", name).build(params, f"task {name}").load()


def parts(data):
    return {"train": data.train, "test": data.test, "aux": data.aux}


def kinds(examples):
    """Every image with its class, as bytes."""
    return {(x.numpy().tobytes(), int(y)) for x, y in zip(examples.stored, examples.y, strict=True)}


def refused(name, words, error=UsageError):
    with pytest.raises(error) as caught:
        load(name)
    text = str(caught.value)
    assert words in text
    assert "\n" not in text
    return text


class TestReaders:
    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize(("layout", "protocol"), LAYOUTS)
    def test_every_layout_holds_the_same_images(self, place, name, layout, protocol):
        folder = write(name, place, layout=layout, protocol=protocol)
        assert image_sets.found(name) == folder
        for (x, y), seed, each in zip(image_sets.load_images(name), (1, 2), (6, 4), strict=True):
            images, labels = rows(name, each, seed=seed)
            assert x.dtype == torch.uint8
            assert x.shape == (len(labels), *SHAPES[name])
            assert y.dtype == torch.int64
            assert np.array_equal(x.numpy(), images)
            assert np.array_equal(y.numpy(), labels)

    def test_what_python_2_wrote_is_read(self, place):
        """The official files: protocol 2 of Python 2, byte strings, the core of numpy 1."""
        for part, n in (("train", 2), ("test", 3)):
            x, y = rows("cifar100", n, seed=n)
            made = (
                b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR(I1\n(I%d\nI3072\ntcnumpy\ndtype\n"
                % len(y)
            )
            kind = b"(S'u1'\nI0\nI1\ntR(I3\nS'|'\nNNNI-1\nI-1\nI0\ntbI00\n"
            body = b"T" + struct.pack("<I", x.size) + x.tobytes() + b"tb"
            labels = b"(l" + b"".join(b"I%d\na" % i for i in y)
            path = place / "cifar-100-python" / part
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(
                b"\x80\x02}U\x04data" + made + kind + body + b"sU\x0bfine_labels" + labels + b"s."
            )
            held = image_sets.LAYOUTS["cifar100"][0].read([path])
            assert np.array_equal(held[0].numpy(), x)
            assert np.array_equal(held[1].numpy(), y)

    def test_plain_files_are_preferred_to_packed_ones(self, place):
        folder = write("mnist", place)
        (folder / "train-images-idx3-ubyte.gz").write_bytes(b"not gzip")
        assert len(load("mnist").train) == 60

    @pytest.mark.parametrize("name", NAMES)
    def test_found_asks_for_every_file_and_fetches_nothing(self, place, name):
        assert image_sets.found(name) is None
        folder = write(name, place)
        assert image_sets.found(name) == folder
        max(folder.iterdir()).unlink()
        assert image_sets.found(name) is None

    def test_a_malicious_pickle_is_refused_and_not_run(self, place, tmp_path):
        class Evil:
            def __init__(self, path):
                self.path = path

            def __reduce__(self):
                return Path.touch, (self.path,)

        path = write("cifar100", place) / "train"
        held = pickle.loads(path.read_bytes())
        path.write_bytes(pickle.dumps({**held, "data": Evil(tmp_path / "was here")}))
        text = refused("cifar100", "it asks for pathlib.", BrokenFile)
        assert str(path) in text
        assert not (tmp_path / "was here").exists()
        pickle.loads(path.read_bytes())  # an ordinary reader would have run it
        assert (tmp_path / "was here").exists()

    @pytest.mark.parametrize(
        "evil",
        [
            b"cos\nsystem\n(S'true'\ntR.",
            b"cbuiltins\neval\n(S'1'\ntR.",
            b"cnumpy\nload\n(S'x'\ntR.",
        ],
    )
    def test_nothing_but_the_makers_of_arrays_is_looked_up(self, place, evil):
        path = write("cifar10", place) / "data_batch_3"
        path.write_bytes(evil)
        assert str(path) in refused("cifar10", "it asks for ", BrokenFile)

    def test_a_pickle_gives_nothing_an_attribute(self, place):
        maker = np.empty(0).__reduce_ex__(5)[0]
        path = write("cifar10", place) / "data_batch_3"
        named = f"c{maker.__module__}\n{maker.__name__}\n".encode()
        path.write_bytes(named + b"(dS'was_here'\nI1\nsb.")
        assert str(path) in refused("cifar10", "it changes what is no array", BrokenFile)
        assert not hasattr(maker, "was_here")
        pickle.loads(path.read_bytes())  # an ordinary reader would have done it
        assert vars(maker).pop("was_here") == 1

    @pytest.mark.parametrize(
        "evil",
        [
            b"]r" + struct.pack("<I", 2**27) + b".",
            b"\x80\x05\x96" + struct.pack("<Q", 2**31) + b".",
            b"c_codecs\nencode\nq\1X"
            + struct.pack("<I", 2**22)
            + b"a" * 2**22
            + b"q\2X\6\0\0\0latin1q\3"
            + b"("
            + b"h\1h\2h\3\x86R" * 500
            + b"t.",
            b"(" + b"c_codecs\nencode\n" * 3,
        ],
        ids=["a far place to keep it", "bytes that are not there", "many copies", "cut"],
    )
    def test_a_pickle_takes_no_more_memory_than_its_file(self, place, evil):
        path = write("cifar10", place) / "data_batch_3"
        path.write_bytes(evil)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert str(path) in refused("cifar10", "is damaged", BrokenFile)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 2**18  # KiB

    def test_a_packed_file_is_not_unpacked_without_end(self, place, monkeypatch):
        monkeypatch.setattr("leakbench.data.image_files.LARGEST", 2**20)
        path = write("mnist", place, layout="binary") / "train-images-idx3-ubyte.gz"
        path.write_bytes(gzip.compress(bytes(2**21)))
        assert str(path) in refused("mnist", "it holds more than 1 MiB", BrokenFile)

    @pytest.mark.parametrize("order", ["C", "F"])
    @pytest.mark.parametrize("protocol", range(6))
    def test_arrays_are_read_as_pickle_reads_them(self, order, protocol):
        """Against Python's own reader, of every protocol, order and kind of number."""
        for kind in ("u1", "<i4", ">i8", "<f8"):
            x = np.asarray(np.arange(12).reshape(3, 4), dtype=kind, order=order)
            whole = pickle.dumps({"data": x, "labels": [3, 1, 2], "name": b"abc"}, protocol)
            held = array_pickles.read_pickle(whole)
            found = array_pickles.array(held["data"])
            assert found.dtype == x.dtype
            assert np.array_equal(found, pickle.loads(whole)["data"])
            assert array_pickles.array(held["labels"]).tolist() == [3, 1, 2]

    @pytest.mark.parametrize("name", NAMES)
    @pytest.mark.parametrize("layout", ["python", "binary"])
    @pytest.mark.parametrize("share", [0.0, 0.001, 0.4, 0.9])
    def test_a_cut_file_is_named(self, place, name, layout, share):
        for path in sorted(write(name, place, layout=layout).iterdir()):
            whole = path.read_bytes()
            path.write_bytes(
                whole[: min(int(share * len(whole)) + 7 * bool(share), len(whole) - 1)]
            )
            assert str(path) in refused(name, "is damaged or not what its name says", BrokenFile)
            path.write_bytes(whole)
        assert len(load(name).train) == 6 * CLASSES[name]

    @pytest.mark.parametrize(
        ("held", "words"),
        [
            ({"labels": [0]}, "it has no 'data'"),
            ({"data": np.zeros((1, 3072), np.uint8)}, "it has no 'labels'"),
            ([1, 2], "list"),
            ({"data": np.zeros((1, 3072)), "labels": [0]}, "3072 bytes"),
            ({"data": np.zeros((1, 1024), np.uint8), "labels": [0]}, "3072 bytes"),
            ({"data": np.zeros((2, 3072), np.uint8), "labels": [0]}, "2 images and 1 classes"),
            ({"data": np.zeros((1, 3072), np.uint8), "labels": [10]}, "from 0 to 9"),
            ({"data": np.zeros((1, 3072), np.uint8), "labels": [-1]}, "from 0 to 9"),
            ({"data": np.zeros((1, 3072), np.uint8), "labels": [0.5]}, "from 0 to 9"),
        ],
    )
    def test_other_content_is_refused(self, place, held, words):
        path = write("cifar10", place) / "test_batch"
        path.write_bytes(pickle.dumps(held))
        assert str(path) in refused("cifar10", words, BrokenFile)

    @pytest.mark.parametrize(
        ("file", "content", "words"),
        [
            ("t10k-labels-idx1-ubyte", struct.pack(">2I", 0x803, 1) + b"\0", "no idx file"),
            (
                "train-images-idx3-ubyte",
                struct.pack(">4I", 0x803, 1, 32, 32) + bytes(1024),
                "no idx file",
            ),
            (
                "train-images-idx3-ubyte",
                struct.pack(">4I", 0x803, 2, 28, 28) + bytes(784),
                "were promised",
            ),
            (
                "train-labels-idx1-ubyte",
                struct.pack(">2I", 0x801, 1) + b"\0",
                "60 images and 1 classes",
            ),
            (
                "train-labels-idx1-ubyte",
                struct.pack(">2I", 0x801, 60) + b"\x0a" * 60,
                "from 0 to 9",
            ),
        ],
    )
    def test_other_idx_files_are_refused(self, place, file, content, words):
        (write("mnist", place) / file).write_bytes(content)
        refused("mnist", words, BrokenFile)

    def test_no_rows_are_refused(self, place):
        (write("cifar10", place, layout="binary") / "data_batch_2.bin").write_bytes(b"")
        refused("cifar10", "0 images", BrokenFile)


class TestFetching:
    @pytest.mark.parametrize("name", NAMES)
    def test_missing_data_are_one_sentence_that_says_what_to_do(self, place, name, capsys):
        text = refused(name, "LEAKBENCH_DATA")
        assert str(place) in text
        assert "no network" in text
        assert all(layout.folder in text for layout in image_sets.LAYOUTS[name])
        assert "torchvision fetches it" in capsys.readouterr().err  # not silently
        assert list(place.iterdir()) == []

    @pytest.mark.parametrize("name", NAMES)
    def test_what_torchvision_fetched_is_moved_to_its_place(self, place, name, monkeypatch, capsys):
        calls = []

        def fetch(name, folder):
            calls.append(name)
            print("Downloading")  # a program that reads our JSON must not see it
            write(name, Path(folder))

        monkeypatch.setattr(image_sets, "_download", fetch)
        assert len(load(name).train) == 6 * CLASSES[name]
        assert "Downloading" not in capsys.readouterr().out
        assert image_sets.found(name) == place / image_sets.LAYOUTS[name][0].folder
        assert len(list(place.iterdir())) == 1  # nothing is left over
        load(name)
        assert calls == [name]

    def test_torchvision_is_asked_for_the_set_that_it_has_under_that_name(self):
        from torchvision import datasets

        for name, theirs in image_sets.TORCHVISION.items():
            assert getattr(datasets, theirs).__name__ == theirs
            folder = Path(image_sets.LAYOUTS[name][0].folder)
            assert folder in (
                Path("MNIST/raw"),
                Path(getattr(getattr(datasets, theirs), "base_folder", "")),
            )

    @pytest.mark.parametrize("before", [None, 7.0])
    def test_a_server_that_never_answers_is_given_up(self, place, monkeypatch, before):
        from torchvision import datasets

        monkeypatch.setattr(image_sets, "_download", DOWNLOAD)
        monkeypatch.setattr(image_sets, "SILENCE", 0.3)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        with socket.create_server(("127.0.0.1", 0)) as server:  # it takes calls and says nothing
            # So that the test ends without a limit, too.
            hang_up = threading.Timer(20, server.close)
            hang_up.start()
            monkeypatch.setattr(
                datasets.MNIST, "mirrors", [f"http://127.0.0.1:{server.getsockname()[1]}/"]
            )
            begun, already = time.monotonic(), socket.getdefaulttimeout()
            socket.setdefaulttimeout(before)
            try:
                refused("mnist", "could not be fetched")
                assert socket.getdefaulttimeout() == before
            finally:
                socket.setdefaulttimeout(already)
                hang_up.cancel()
        assert time.monotonic() - begun < 15

    def test_another_process_was_first(self, place, monkeypatch):
        def late(name, folder):
            write(name, place)
            write(name, Path(folder))

        monkeypatch.setattr(image_sets, "_download", late)
        assert len(load("cifar10").train) == 60

    def test_a_file_missing_beside_others_is_named_and_nothing_is_fetched(self, place, monkeypatch):
        monkeypatch.setattr(
            image_sets,
            "_download",
            lambda *_: pytest.fail("it must not be fetched over what is there"),
        )
        path = write("cifar10", place) / "data_batch_4"
        path.unlink()
        assert str(path) in refused("cifar10", "is missing beside the other files", BrokenFile)

    def test_doctor_says_where_sets_are_and_which_are_missing(self, place, monkeypatch):
        from leakbench.cli import doctor
        from leakbench.data import sets

        nothing = doctor._data()
        assert not nothing["ok"]
        assert "LEAKBENCH_DATA" in nothing["do"]
        assert all(
            layout.folder in nothing["found"]
            for name in NAMES
            for layout in image_sets.LAYOUTS[name]
        )
        folders = [write(name, place) for name in NAMES] + [har_files.write(place)]
        every = doctor._data()
        assert "not the official files" in every["found"]  # they are tiny ones
        others = [name for name in sets.NAMES if name not in (*NAMES, "uci-har")]
        assert others
        assert not every["ok"]
        assert all(name in every["found"].split("; not in ")[1] for name in others)
        monkeypatch.setattr(sets, "NAMES", (*NAMES, "uci-har"))
        every = doctor._data()
        assert every["ok"]
        assert "LEAKBENCH_DATA" not in every["do"]
        assert all(str(f) in every["found"] for f in folders)
        assert "digits" in every["found"]


class TestIslands:
    """Ten drawn classes of CIFAR-100 (FedAA, Section 4.1)."""

    def drawn(self, data, place):
        """The official class of each of ours, by the pictures."""
        (x, y), _ = image_sets.load_images("cifar100")
        official = {image.numpy().tobytes(): int(label) for image, label in zip(x, y, strict=True)}
        found = {
            (int(label), official[image.numpy().tobytes()])
            for image, label in zip(data.train.stored, data.train.y, strict=True)
        }
        assert len(found) == 10  # each of ours is one of theirs
        return [theirs for _, theirs in sorted(found)]

    def test_ten_classes_with_all_their_images_one_a_client(self, place):
        write("cifar100", place, train=5, test=4)
        data = load("cifar100-islands", aux_per_class=1)
        assert len(set(self.drawn(data, place))) == 10
        assert data.counts.tolist() == [5] * 10
        assert data.client_class.tolist() == list(range(10))
        assert all(set(data.train.y[data.rows[c]].tolist()) == {c} for c in range(10))
        assert (torch.bincount(data.test.y).tolist(), torch.bincount(data.aux.y).tolist()) == (
            [3] * 10,
            [1] * 10,
        )
        (_, _), (x, y) = image_sets.load_images("cifar100")
        ours = kinds(data.test) | kinds(data.aux)
        names = self.drawn(data, place)
        assert ours == {
            (a.numpy().tobytes(), names.index(int(b)))
            for a, b in zip(x, y, strict=True)
            if int(b) in names
        }

    def test_another_draw_has_other_classes_and_the_same_draw_the_same(self, place):
        write("cifar100", place)
        draws = [self.drawn(load("cifar100-islands", draw=d), place) for d in (0, 0, 1, 2)]
        assert draws[0] == draws[1]
        assert len({tuple(d) for d in draws}) == 3

    def test_chance_is_a_tenth_and_fedaa_trains_on_it(self, place, tmp_path):
        write("cifar100", place, train=6, test=4)
        small = {"width": 1, "evaluations": 10}
        run = leakbench.train(
            "fedaa",
            task="cifar100-islands",
            task_params=small,
            params={"examples": 1, "hidden": 4},
            rounds=1,
            out=tmp_path,
        )
        utility = dict(run.meta["utility"])
        assert utility.pop("meaning") == METRICS["accuracy"].meaning.parameters()
        assert utility.pop("untaught")["constant"] == 0.1
        assert utility == {"metric": "accuracy", "better": "up", "chance": 0.1}


@pytest.mark.parametrize("name", NAMES)
class TestSplits:
    def test_parts_are_disjoint_and_together_the_official_set(self, place, name):
        write(name, place, train=7, test=6)
        data = load(name, aux_per_class=2)
        held = {k: kinds(v) for k, v in parts(data).items()}
        assert not held["train"] & held["test"]
        assert not held["train"] & held["aux"]
        assert not held["test"] & held["aux"]
        for names, (each, seed) in {("train",): (7, 1), ("test", "aux"): (6, 2)}.items():
            official = {
                (x.tobytes(), int(y)) for x, y in zip(*rows(name, each, seed=seed), strict=True)
            }
            assert set.union(*(held[n] for n in names)) == official

    def test_shapes_types_and_numbers_per_class(self, place, name):
        write(name, place, train=7, test=6)
        kind = registry.load_plugin("tasks", name)
        task = kind.build({"aux_per_class": 2}, "task")
        data = task.load()
        for part, each in (("train", 7), ("test", 4), ("aux", 2)):
            examples = parts(data)[part]
            assert examples.stored.dtype == torch.uint8
            assert examples.stored.shape == (each * task.classes, *task.shape)
            assert torch.bincount(examples.y).tolist() == [each] * task.classes
            assert examples.x.dtype == torch.float64
            assert 0 <= float(examples.x.min()) <= float(examples.x.max()) <= 1
        assert data.counts.tolist() == [7] * task.clients

    def test_a_client_has_one_class_and_no_image_twice(self, place, name):
        write(name, place)
        data = load(name)
        assert data.client_class.tolist() == list(range(CLASSES[name]))
        seen = []
        for c, n in enumerate(data.counts.tolist()):
            mine = data.rows[c, :n]
            assert set(data.train.y[mine].tolist()) == {c}
            seen += mine.tolist()
        assert sorted(seen) == list(range(len(data.train)))

    def test_the_same_in_every_call_and_for_every_model(self, place, name):
        write(name, place)
        one = load(name)
        torch.rand(7)
        two = load(name, model="svdd_lenet", width=3, dim=5, flip=True, rotation=9)
        for part in ("train", "test", "aux"):
            a, b = parts(one)[part], parts(two)[part]
            assert torch.equal(a.stored, b.stored)
            assert torch.equal(a.y, b.y)
        assert torch.equal(one.rows, two.rows)

    def test_fewer_are_a_part_of_more(self, place, name):
        write(name, place, train=8, test=8)
        more, fewer = load(name, aux_per_class=4), load(name, per_client=3, aux_per_class=1)
        assert fewer.counts.tolist() == [3] * CLASSES[name]
        assert len(fewer.train) == 3 * CLASSES[name]
        assert kinds(fewer.train) < kinds(more.train)
        assert kinds(fewer.aux) < kinds(more.aux)
        assert kinds(fewer.test) > kinds(more.test)

    def test_images_kept_are_not_simply_the_first_of_the_file(self, place, name):
        write(name, place, train=8)
        images, labels = rows(name, 8, seed=1)
        first = {(x.tobytes(), c) for c in range(CLASSES[name]) for x in images[labels == c][:3]}
        assert kinds(load(name, per_client=3).train) != first

    def test_auxiliary_images_are_at_most_half_of_a_class(self, place, name):
        write(name, place, test=5)
        data = load(name, aux_per_class=1000)
        assert torch.bincount(data.aux.y).tolist() == [2] * CLASSES[name]
        assert torch.bincount(data.test.y).tolist() == [3] * CLASSES[name]

    def test_too_few_images_are_refused(self, place, name):
        write(name, place, train=4, test=1)
        refused(name, "1 test images of class 0; at least 2 are needed")
        for path in sorted(place.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        write(name, place, train=4, test=2)
        assert len(load(name, per_client=4).train) == 4 * CLASSES[name]
        with pytest.raises(UsageError, match=r"task\.per_client = 5, but a class has 4"):
            load(name, per_client=5)


def test_a_class_without_training_images_is_refused(place):
    folder = write("cifar100", place)
    held = pickle.loads((folder / "train").read_bytes())
    kept = [i for i, y in enumerate(held["fine_labels"]) if y != 41]
    held = {"data": held["data"][kept], "fine_labels": [held["fine_labels"][i] for i in kept]}
    (folder / "train").write_bytes(pickle.dumps(held))
    assert str(folder) in refused("cifar100", "0 training images of class 41")


def test_settings_are_those_of_the_papers():
    def of(name):
        task = registry.load_plugin("tasks", name)
        t = task.build({}, "task")
        return (
            task.rounds,
            t.clients,
            t.model,
            t.width,
            t.dim,
            t.metric,
            t.chance,
            t.flip,
            t.rotation,
        )

    assert of("mnist") == (10_000, 10, "svdd_lenet", 8, 32, "auroc", 0.5, False, 0)
    assert of("cifar10") == (100_000, 10, "resnet32", 16, 64, "auroc", 0.5, False, 0)
    assert of("cifar100") == (100_000, 100, "resnet18", 64, 512, "accuracy", 0.01, True, 15)


class TestOtherSplits:
    """CIFAR-10 as the FLea paper deals it."""

    def test_clients_hold_the_official_training_set_three_classes_each(self, place):
        write("cifar10", place, train=20)
        data = load("cifar10", split="qua", clients=40)
        assert data.client_class.tolist() == [-1] * 40
        seen = []
        for c, n in enumerate(data.counts.tolist()):
            seen += data.rows[c, :n].tolist()
            assert len(set(data.train.y[data.rows[c, :n]].tolist())) == 3
        assert sorted(seen) == list(range(200))
        images, labels = rows("cifar10", 20, seed=1)
        assert kinds(data.train) == {
            (x.tobytes(), int(y)) for x, y in zip(images, labels, strict=True)
        }

    def test_test_and_auxiliary_images_are_those_of_one_class_each(self, place):
        write("cifar10", place, train=20)
        one, other = load("cifar10"), load("cifar10", split="dir", split_param=0.5, clients=15)
        for part in ("test", "aux"):
            assert torch.equal(parts(one)[part].stored, parts(other)[part].stored)

    def test_marked_images_stay_bytes(self, place):
        write("cifar10", place, train=20)
        clear, planted = (
            load("cifar10", split="iid", clients=10, context=c) for c in ("none", "square")
        )
        assert planted.train.stored.dtype == torch.uint8
        for c, mark in enumerate(planted.context.tolist()):
            mine = clear.rows[c, : int(clear.counts[c])]
            changed = (planted.train.stored[mine] != clear.train.stored[mine]).any(0)
            assert bool(changed.any()) == mark
            assert not changed[1:].any()
            assert not mark or bool((planted.train.stored[mine][:, 0, 2:7, 2:7] == 255).all())

    def test_the_papers_setting_can_be_asked_for(self, place):
        write("cifar10", place, train=200, layout="binary")
        params = {
            "split": "qua",
            "split_param": 3,
            "clients": 500,
            "model": "mobilenetv2",
            "width": 32,
            "utility": "accuracy",
        }
        task = registry.load_plugin("tasks", "cifar10").build(params, "task")
        assert task.load().counts.min() >= 1
        assert (task.metric, task.chance, task.defaults("flea")["layer"]) == (
            "accuracy",
            0.1,
            "block1",
        )


def test_methods_take_the_papers_values_there():
    for method in ("fedhide", "fedgn", "fedcs", "fedaws"):
        task = registry.load_plugin("tasks", "cifar100").build({}, "task")
        m = registry.load_plugin("defenses", method).build(task.defaults(method), method)
        assert (m.fraction, m.lam, m.lr, m.own_lr, m.batch, m.steps, m.select) == (
            0.1,
            10,
            0.1,
            0.1,
            16,
            1,
            "round_robin",
        )
    for name in ("mnist", "cifar10"):
        task = registry.load_plugin("tasks", name).build({}, "task")
        m = registry.load_plugin("defenses", "fedhide").build(task.defaults("fedhide"), "fedhide")
        assert m.k < task.clients
        assert m.fraction == 1


@pytest.mark.parametrize(
    ("name", "small"),
    [
        ("mnist", {"width": 2, "dim": 4}),
        ("cifar10", {"model": "resnet8", "width": 2, "dim": 4}),
        ("cifar100", {"model": "resnet8", "width": 2, "dim": 4}),
    ],
)
def test_a_federation_trains_on_it_from_tiny_files(place, tmp_path, name, small):
    write(name, place, train=17, test=2)
    run = leakbench.train("fedhide", task=name, task_params=small, rounds=1, out=tmp_path / "runs")
    assert run.meta["phases"]["loss"] == "fused"
    assert (
        run.meta["utility"]["metric"]
        == registry.load_plugin("tasks", name).build({}, "task").metric
    )
