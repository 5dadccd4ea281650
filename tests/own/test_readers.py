"""Data of somebody's own from folders, files and other libraries: shapes, kinds, who holds what."""

import multiprocessing

import numpy as np
import pytest
import torch
from PIL import Image

import leakbench as lb

DICE = np.random.default_rng(1)
N = 30
BYTES = DICE.integers(0, 256, size=(N, 8, 6, 3), dtype="uint8")
GREY = DICE.integers(0, 256, size=(N, 8, 6), dtype="uint8")
Y = np.arange(N) % 3


def every(data):
    """All that is held, tested and granted, {the bytes of an input: its class}."""
    sets = (data.data.train, data.data.test, data.data.aux)
    return {
        row.numpy().tobytes(): int(k) for s in sets for row, k in zip(s.stored, s.y, strict=True)
    }


def expected(pictures, labels=Y):
    """The same of pictures (n, H, W, channels)."""
    first = np.moveaxis(pictures, -1, 1)
    return {
        np.ascontiguousarray(row).tobytes(): int(k) for row, k in zip(first, labels, strict=True)
    }


def pictures(place, some=BYTES, names=("cat", "dog", "emu"), labels=Y):
    for i, (one, k) in enumerate(zip(some, labels, strict=True)):
        (place / names[k]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(one).save(place / names[k] / f"{i:03d}.png")
    return place


# folders


def test_a_folder_of_classes(tmp_path):
    pictures(tmp_path)
    (tmp_path / "cat" / "notes.txt").write_text("no picture")
    (tmp_path / ".cache").mkdir()
    data = lb.clients.from_folder(tmp_path, size=(8, 6), clients=3)
    assert data.shape == (3, 8, 6)
    assert data.names == ("cat", "dog", "emu")
    assert data.classes == 3
    assert len(data) == 3
    assert data.data.train.stored.dtype == torch.uint8
    assert every(data) == expected(BYTES)
    x, y = data.client(1)
    assert x.dtype == torch.float32
    assert 0 <= float(x.min()) < 0.1
    assert 0.9 < float(x.max()) <= 1
    assert y.dtype == torch.int64
    assert data.lies_in == lb.InputRange()


def test_of_grey_pictures_in_three_channels_it_is_said(tmp_path, capsys):
    grey = np.repeat(BYTES[..., :1], 3, axis=3)
    for folder, said in (
        (pictures(tmp_path / "grey", grey), True),
        (pictures(tmp_path / "c"), False),
    ):
        lb.clients.from_folder(folder, size=8, clients=3)
        assert ("all pictures are grey" in capsys.readouterr().err) == said
        lb.clients.from_folder(folder, size=8, grey=True, clients=3)
        assert "all pictures are grey" not in capsys.readouterr().err


def test_a_folder_is_resized_and_grey(tmp_path):
    data = lb.clients.from_folder(pictures(tmp_path), size=4, grey=True, clients=3)
    assert data.shape == (1, 4, 4)
    grey = [np.asarray(Image.fromarray(p).convert("L").resize((4, 4)))[..., None] for p in BYTES]
    assert every(data) == expected(np.stack(grey))


@pytest.mark.parametrize("test", ["test", "val", "Validation"])
def test_a_folder_with_what_is_tested_on(tmp_path, test):
    pictures(tmp_path / "train", BYTES[:20], labels=Y[:20])
    pictures(tmp_path / test, BYTES[20:], labels=Y[20:])
    data = lb.clients.from_folder(tmp_path, size=(8, 6), clients=3)
    assert len(data.test[0]) == 10
    tested = {row.numpy().tobytes() for row in data.data.test.stored}
    assert tested == {*expected(BYTES[20:], Y[20:])}
    assert len(data.aux[0]) == 2
    assert sum(data.data.sizes) == 18


# what is said of it


def test_a_line_says_what_nobody_chose(tmp_path, capsys):
    lines = [f"{i},{'abc'[i % 3]},h{i % 2},{i % 2}" for i in range(N)]
    (tmp_path / "t.csv").write_text("\n".join(["age,city,hospital,ill", *lines]))
    lb.clients.from_csv(tmp_path / "t.csv", label="ill", client="hospital")
    assert capsys.readouterr().err == (
        f"leakbench: {tmp_path}/t.csv: 4 columns (of city one for each text) are standardised over"
        " all rows; 24 examples are those of 2 clients, 3 are tested and 3 auxiliary.\n"
    )
    np.savez(tmp_path / "f.npz", x=BYTES, y=Y)
    for more, said in (({}, "iid"), ({"split": "dir"}, "dir, param=0.5")):
        lb.clients.from_npz(tmp_path / "f.npz", clients=2, **more)
        told = f"f.npz: 24 examples are dealt to 2 clients by split={said}, 3 are tested and 3"
        assert told in capsys.readouterr().err
    lb.clients.from_folder(pictures(tmp_path / "p"), clients=3)
    assert "p: pictures are brought to 32 x 32 pixels; 24 examples" in capsys.readouterr().err


@pytest.mark.slow
def test_a_process_that_works_for_another_says_nothing(tmp_path, capfd):
    np.savez(tmp_path / "f.npz", x=BYTES, y=Y)
    worker = multiprocessing.get_context("spawn").Process(
        target=lb.clients.from_npz, args=(tmp_path / "f.npz",), kwargs={"clients": 2}
    )
    worker.start()
    worker.join()
    assert worker.exitcode == 0
    assert "examples" not in capfd.readouterr().err


# arrays


def test_an_npz_of_x_and_y(tmp_path):
    x = DICE.normal(size=(N, 5))
    np.savez(tmp_path / "f.npz", x=x, y=Y)
    data = lb.clients.from_npz(tmp_path / "f.npz", clients=2, split="dir", param=5.0)
    assert data.shape == (5,)
    assert not data.lies_in.bounded
    assert every(data) == {r.astype("float32").tobytes(): int(k) for r, k in zip(x, Y, strict=True)}


def test_an_npz_as_medmnist_has_it(tmp_path):
    parts = {"train": slice(0, 18), "val": slice(18, 24), "test": slice(24, 30)}
    arrays = {f"{name}_images": GREY[part] for name, part in parts.items()}
    arrays |= {f"{name}_labels": Y[part, None].astype("uint8") for name, part in parts.items()}
    np.savez_compressed(tmp_path / "f.npz", **arrays)
    data = lb.clients.from_npz(str(tmp_path / "f.npz"), clients=3, split="qua", param=2)
    assert data.shape == (1, 8, 6)
    assert sum(data.data.sizes) == 18
    assert np.array_equal(data.data.test.stored[:, 0].numpy(), GREY[24:])
    assert np.array_equal(data.data.aux.stored[:, 0].numpy(), GREY[18:24])
    assert data.test[1].tolist() == Y[24:].tolist()
    assert all(len(data.client(c)[1].unique()) == 2 for c in range(3))


# tables


def table(place, *, who=True):
    lines = ["age,city,income,hospital" if who else "age,city,income"]
    for i in range(N):
        row = [str(20 + i), ["Bern", "Ulm"][i % 2], ["high", "low"][i % 3 == 0]]
        lines.append(",".join(row + ["north", "south", "west"][i % 3 : i % 3 + 1] * who))
    (place / "t.csv").write_text("\n".join(lines))
    return place / "t.csv"


def test_a_table_is_standardised(tmp_path):
    data = lb.clients.from_csv(table(tmp_path, who=False), label="income", clients=3)
    assert data.names == ("high", "low")
    assert data.shape == (3,)  # age, and a column for each city
    x = torch.cat([data.data.train.x, data.data.test.x, data.data.aux.x])
    assert x.dtype == torch.float32
    assert torch.allclose(x.mean(0), torch.zeros(3), atol=1e-6)
    assert torch.allclose(x.std(0, correction=0), torch.ones(3), atol=1e-5)
    assert torch.allclose(x[:, 1], -x[:, 2])
    assert not data.lies_in.bounded


def test_a_column_says_whose_a_row_is(tmp_path):
    data = lb.clients.from_csv(table(tmp_path), label="income", client="hospital")
    assert len(data) == 3
    assert data.data.sizes == (8, 8, 8)  # of ten each, every fifth is tested or granted
    assert (len(data.data.test), len(data.data.aux)) == (3, 3)
    age = np.arange(20, 20 + N)
    told = (age - age.mean()) / age.std()
    for c in range(3):
        mine = [told[i] for i in range(N) if i % 3 == c]
        kept = [v for i, v in enumerate(mine) if i % 5 != 4]
        assert np.allclose(data.client(c)[0][:, 0].numpy(), kept, atol=1e-5)


def test_a_column_may_be_left_for_a_split(tmp_path):
    found = lb.clients.from_csv(table(tmp_path), label="income", client="hospital", clients=4)
    assert len(found) == 4


@pytest.mark.parametrize(("labels", "names"), [("01", ()), (("no", "yes"), ("no", "yes"))])
def test_labels_of_a_table(tmp_path, labels, names):
    said = "".join(f"{i},{labels[i % 2]}\n" for i in range(N))
    (tmp_path / "t.csv").write_text("a,k\n" + said)
    data = lb.clients.from_csv(tmp_path / "t.csv", label="k", clients=2)
    assert data.names == names
    assert data.classes == 2


def test_truths_are_two_classes(tmp_path):
    (tmp_path / "t.csv").write_text("a,k\n" + "".join(f"{i},{i % 2 == 0}\n" for i in range(N)))
    data = lb.clients.from_csv(tmp_path / "t.csv", label="k", clients=2)
    assert data.names == ("False", "True")


# torchvision


class Pairs:
    def __init__(self, pairs):
        self.pairs = pairs

    def __len__(self):
        return len(self.pairs)

    def __getitem__(self, row):
        return self.pairs[row]


LABELS = {"number": int, "numpy": np.int64, "tensor": torch.tensor, "text": lambda k: f"class {k}"}


@pytest.mark.parametrize("kind", LABELS)
def test_tensors_of_torchvision(kind):
    x = torch.rand(N, 3, 8, 6, generator=torch.Generator().manual_seed(0))
    data = lb.clients.from_torchvision(
        Pairs([(v, LABELS[kind](int(k))) for v, k in zip(x, Y, strict=True)]), clients=3
    )
    assert data.shape == (3, 8, 6)
    assert data.lies_in.plain
    assert every(data) == {v.numpy().tobytes(): int(k) for v, k in zip(x, Y, strict=True)}


def test_pictures_of_torchvision_with_a_test_set():
    pairs = [(Image.fromarray(p), int(k)) for p, k in zip(BYTES, Y, strict=True)]
    data = lb.clients.from_torchvision(Pairs(pairs[:20]), Pairs(pairs[20:]), clients=2)
    assert data.shape == (3, 8, 6)
    assert data.data.train.stored.dtype == torch.uint8
    assert len(data.test[0]) == 10
    assert every(data) == expected(BYTES)


@pytest.mark.parametrize("transformed", [False, True])
def test_a_data_set_of_torchvision_itself(transformed):
    datasets = pytest.importorskip("torchvision.datasets")
    transforms = pytest.importorskip("torchvision.transforms")
    how = transforms.Compose([transforms.ToTensor(), transforms.Normalize(0.5, 0.25)])
    fake = datasets.FakeData(
        size=N, image_size=(3, 8, 6), num_classes=3, transform=how if transformed else None
    )
    more = {"mean": [0.5] * 3, "std": [0.25] * 3} if transformed else {}
    data = lb.clients.from_torchvision(fake, clients=2, **more)
    assert data.shape == (3, 8, 6)
    assert len(every(data)) == N
    kind = torch.float32 if transformed else torch.uint8
    assert data.data.train.stored.dtype == kind
    assert data.lies_in.plain is not transformed
    if transformed:
        assert data.lies_in.low == (-2.0,) * 3
        assert data.lies_in.high == (2.0,) * 3


# Hugging Face


class Columns:
    """As `datasets.Dataset` shows itself."""

    def __init__(self, **columns):
        self.columns, self.column_names = columns, list(columns)

    def __getitem__(self, name):
        return self.columns[name]

    def __len__(self):
        return len(next(iter(self.columns.values())))


def some(part=slice(None), labels="label", inputs="img"):
    shown = [Image.fromarray(p) for p in BYTES[part]]
    return Columns(**{inputs: shown, labels: Y[part].tolist()})


@pytest.mark.parametrize("inputs", ["img", "image"])
def test_a_data_set_of_columns(inputs):
    data = lb.clients.from_hf(some(inputs=inputs), clients=3)
    assert data.shape == (3, 8, 6)
    assert data.data.train.stored.dtype == torch.uint8
    assert every(data) == expected(BYTES)


def test_columns_are_named_and_pictures_resized():
    data = lb.clients.from_hf(
        some(labels="fine", inputs="photo"), x="photo", y="fine", size=4, clients=2
    )
    assert data.shape == (3, 4, 4)


def test_one_grey_picture_among_others_is_coloured():
    shown = [Image.fromarray(p) for p in BYTES]
    shown[4] = shown[4].convert("L")
    data = lb.clients.from_hf(Columns(img=shown, label=Y.tolist()), clients=2)
    assert data.shape == (3, 8, 6)
    grey = [Image.fromarray(p) for p in GREY]
    assert lb.clients.from_hf(Columns(img=grey, label=Y.tolist()), clients=2).shape == (1, 8, 6)


def test_sets_by_name():
    sets = {"train": some(slice(0, 20)), "test": some(slice(20, 30))}
    data = lb.clients.from_hf(sets, clients=2)
    assert len(data.test[0]) == 10
    assert sum(data.data.sizes) == 18


def test_each_partition_is_a_client():
    class Partitioner:
        num_partitions = 3

        def load_partition(self, i):
            return some(slice(10 * i, 10 * i + 10))

    data = lb.clients.from_hf(Partitioner())
    assert len(data) == 3
    for c in range(3):
        first = np.moveaxis(BYTES[10 * c : 10 * c + 10], -1, 1)
        kept = [i for i in range(10) if i % 5 != 4]
        assert np.array_equal((data.client(c)[0] * 255).round().byte().numpy(), first[kept])
        assert data.client(c)[1].tolist() == Y[10 * c : 10 * c + 10][kept].tolist()
    assert (len(data.data.test), len(data.data.aux)) == (3, 3)


def test_the_library_itself():
    datasets = pytest.importorskip("datasets")
    x = DICE.normal(size=(N, 5)).astype("float32")
    held = datasets.Dataset.from_dict({"x": x.tolist(), "label": Y.tolist()})
    for given in (held, datasets.DatasetDict({"train": held})):
        data = lb.clients.from_hf(given, clients=2)
        assert every(data) == {row.tobytes(): int(k) for row, k in zip(x, Y, strict=True)}
    with pytest.raises(lb.UsageError, match="no column 'img'"):
        lb.clients.from_hf(held, x="img", clients=2)
