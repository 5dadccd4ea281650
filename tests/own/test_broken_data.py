"""Broken data of somebody's own: one sentence each, which says what came and what to do."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import leakbench as lb
from leakbench.base.errors import UsageError

N = 40
DICE = np.random.default_rng(0)
X = DICE.normal(size=(N, 5)).astype("float32")
Y = np.arange(N) % 4
BYTES = DICE.integers(0, 256, size=(N, 8, 8, 3), dtype="uint8")
TEXTS = [f"c{k}" for k in Y]
HALVES = [list(range(15)), list(range(15, 30))]
TABLE = "a,b,k\n" + "".join(f"{i},{i * i % 7},{'uv'[i % 2]}\n" for i in range(N))


def own(x=X, y=Y, **how):
    if "rows" not in how:
        how = {"clients": 4, **how}
    return lb.clients(x, y, **how)


def put(a, at, value):
    a = np.array(a)
    a[at] = value
    return a


class Columns:
    """As a data set of the library `datasets`."""

    def __init__(self, **columns):
        self.columns, self.column_names = columns, list(columns)

    def __getitem__(self, name):
        return self.columns[name]


class Partitioner:
    def __init__(self, *parts):
        self.parts, self.num_partitions = parts, len(parts)

    def load_partition(self, i):
        return self.parts[i]


class Failing:
    def __len__(self):
        return 3

    def __getitem__(self, row):
        raise KeyError("gone")


def kinds(place, broken=None):
    for kind in "ab":
        (place / kind).mkdir()
        for i in range(6):
            Image.fromarray(BYTES[i]).save(place / kind / f"{i}.png")
    if broken:
        whole = (place / "a" / "3.png").read_bytes()
        (place / "a" / "3.png").write_bytes(broken(whole))
    return place


def npz(place, **arrays):
    np.savez(place / "f.npz", **arrays)
    return place / "f.npz"


def text(place, said):
    (place / "f.csv").write_text(said)
    return place / "f.csv"


def from_csv(said, label="k", **how):
    how = {"clients": 2, **how} if "client" not in how else how
    return lambda p: lb.clients.from_csv(text(p, said), label=label, **how)


def from_hf(data, **how):
    return lambda _: lb.clients.from_hf(data, clients=2, **how)


def from_torchvision(*sets):
    return lambda _: lb.clients.from_torchvision(*sets, clients=2)


def given(*data, **how):
    return lambda _: own(*data, **how)


# what is broken, how it is made (of a folder for files), parts of the sentence
BROKEN = {
    # inputs
    "texts": (given([["a", "b"]] * N), "the inputs are list: expected numbers"),
    "a text": (given("faces"), "the inputs are str: expected numbers"),
    "nothing": (given(None), "the inputs are NoneType"),
    "a dict": (given({"x": X}), "the inputs are dict"),
    "objects": (given(X.astype(object)), "the inputs are object: expected numbers"),
    "ragged": (given([[1.0, 2.0], [1.0]]), "a list of rows alike"),
    "complex": (given(X.astype(complex)), "the inputs are complex128"),
    "no memory": (given(torch.empty(N, 5, device="meta")), "the inputs are torch.float32"),
    "nan": (
        given(put(X, (7, 2), np.nan)),
        "the inputs hold nan in row 7 (counted from 0): expected finite",
    ),
    "nan of somebody": (
        given(put(X, (17, 2), np.nan), rows=HALVES),
        "client 1: the inputs hold nan in row 17",
    ),
    "nan of nobody": (given(put(X, (37, 2), np.nan), rows=HALVES), "the inputs hold nan in row 37"),
    "inf": (given(put(X, (9, 0), -np.inf)), "the inputs hold -inf in row 9"),
    "too large": (given(put(X.astype(float), (3, 0), 1e300)), "the inputs hold 1e+300 in row 3"),
    "a column": (given(X[:, 0]), "the inputs are (40,): expected (n, ...)"),
    "no numbers": (given(X[:, :0]), "the inputs are (40, 0): expected (n, ...)"),
    "empty": (given(X[:0], Y[:0]), "the inputs are (0, 5): expected (n, ...)"),
    "empty lists": (given([], []), "the inputs are (0,): expected (n, ...)"),
    "below 0": (
        given(put(np.ones((N, 3), int), (5, 1), -3)),
        "hold -3 in row 5 (counted from 0): whole numbers",
    ),
    "whole pictures": (given(BYTES.astype(int)), "give bytes, as x.astype('uint8')"),
    # labels
    "too few": (given(X, Y[:-1]), "the labels are (39,), and there are 40 inputs"),
    "one-hot": (given(X, np.eye(4)[Y]), "of one-hot rows take y.argmax(1)"),
    "measured": (
        given(X, Y + 0.5),
        "the labels hold 0.5 in row 0 (counted from 0): expected the whole number",
    ),
    "nan label": (given(X, put(Y.astype(float), 3, np.nan)), "the labels hold nan in row 3"),
    "huge label": (given(X, put(Y.astype(float), 3, 1e30)), "the labels hold 1e+30 in row 3"),
    "negative": (
        given(X, Y - 1),
        "the labels hold -1 in row 0 (counted from 0): expected the number of a class",
    ),
    "a gap": (given(X, put(Y, Y == 2, 5)), "no input is of class 2, and labels go up to 5"),
    "a far one": (given(X, put(Y, 3, 10**15)), "no input is of class 4"),
    "from 1 on": (given(X, Y + 1), "no input is of class 0, and labels go up to 4"),
    "truths": (given(X, Y > 1), "the labels are bool: expected a class for each input"),
    "one class": (given(X, Y * 0), "all 40 labels are 0: expected two classes or more"),
    "no labels": (given(X, None), "the labels are NoneType"),
    "one label": (given(X, 3), "the labels are (), and there are 40 inputs"),
    "texts and numbers": (given(X, ["a", 1] * 20), "the labels hold texts, and 1 in row 1"),
    "a text missing": (given(X, ["a", "b", None, "a"] * 10), "and None in row 2"),
    # who holds what
    "nobody": (given(clients=0), "clients = 0: expected a whole number from 2 on"),
    "one client": (given(clients=1), "clients = 1: expected a whole number from 2 on"),
    "true clients": (given(clients=True), "clients = True: expected a whole number"),
    "unsaid": (given(clients=None), "clients = None: expected a whole number"),
    "half a client": (given(clients=2.5), "clients = 2.5: expected a whole number"),
    "too many": (given(clients=33), "clients = 33, but there are 32 training examples"),
    "one each": (given(clients=3, split="class"), "clients = 3 with split class: expected 4"),
    "split": (given(split="idd"), "split = 'idd': expected one of", "Did you mean 'iid'?"),
    "split of a number": (given(split=3), "split = 3: expected one of class, qua, dir"),
    "param": (given(split="dir", param=-1), "param = -1.0 with split dir: expected a conc"),
    "param text": (given(split="dir", param="a"), "param = 'a': expected a number, as 0.5"),
    "param nan": (given(split="qua", param=np.nan), "param = nan: expected a number, as 2"),
    "param inf": (given(split="shards", param=np.inf), "param = inf: expected a number"),
    "param of iid": (given(param=2), "param = 2: split iid has none; leave it out"),
    "no holders": (
        given(clients=30, split="qua", param=4),
        "class 0 has 7 training examples for 30 holders",
        "a smaller param or more inputs.",
    ),
    "never enough": (given(clients=20, split="dir", param=0.01), "fewer clients or more inputs."),
    "twice within": (given(rows=[[0, 1, 1], [2]]), "row 1 is held by client 0 and again by cl"),
    "twice across": (
        given(rows=[[0, 2], [2, 3]]),
        "row 2 is held by client 0 and again by client 1",
    ),
    "beyond": (given(rows=[[0], [40]]), "client 1 holds row 40, and there are 40 inputs"),
    "row below 0": (given(rows=[[0], [-1]]), "client 1 holds row -1"),
    "row of floats": (given(rows=[[0], [2.0]]), "the rows of client 1 hold 2.0: expected whole"),
    "row of truths": (given(rows=[[True], [3]]), "the rows of client 0 hold True"),
    "no list": (given(rows=[[0], None]), "the rows of client 1 are None: expected a list"),
    "rows a dict": (given(rows={0: [1], 1: [2]}), "rows is dict", "list(rows.values())"),
    "rows a number": (given(rows=3), "rows is int: expected a list of rows for each client"),
    "rows of none": (given(rows=[]), "rows are of 0 clients: expected two clients or more"),
    "rows of one": (given(rows=HALVES[:1]), "there is one client: expected two clients"),
    "nobody's rows": (given(rows=[HALVES[0], []]), "client 1 has no examples"),
    "owners": (given(rows=[0, 1, 0]), "an owner for 3 inputs, and there are 40"),
    "owner gap": (given(rows=(Y % 2) * 2), "client 1 owns no input, and rows names client 2"),
    "far owner": (given(rows=put(Y, 3, 10**12)), "client 4 owns no input"),
    "owner below": (given(rows=put(Y, 3, -2)), "rows says -2 of input 3", "-1 for nobody"),
    "owners of floats": (given(rows=Y / 2), "the owners in rows hold 0.0: expected whole numbers"),
    "owners' names": (given(rows=["ann", "bob"] * 20), "the rows of client 0 are 'ann'"),
    "two counts": (given(rows=HALVES, clients=3), "clients = 3, and rows are of 2 clients"),
    "two splits": (given(rows=HALVES, split="dir"), "leave split and param out, or rows"),
    # beside
    **{
        f"{what} {share}": (given(**{what: share}), f"{what} = {share}: expected a share")
        for what in ("test", "aux")
        for share in (0, 1, 2, -0.5)
    },
    "test all": (given(test=0.99), "are 40, and 40 are left", "or a smaller share"),
    "test true": (given(test=True), "test is bool: expected (inputs, classes)"),
    "test an array": (given(test=X), "test is ndarray: expected (inputs, classes)"),
    "test of three": (given(test=(X, Y, Y)), "test is tuple: expected (inputs, classes)"),
    "test shape": (
        given(test=(X[:, :3], Y)),
        "the test inputs are (3,) each, and the clients' are",
    ),
    "test kind": (given(BYTES, test=(BYTES / 255, Y)), "the test inputs are torch.float32, and"),
    "aux nan": (given(aux=(put(X, (3, 1), np.nan), Y)), "the aux inputs hold nan in row 3"),
    "test class": (
        given(test=(X + 7, Y + 1)),
        "the test labels hold 4 in row 3 (counted from 0), and no input of x",
    ),
    "test length": (given(test=(X + 7, Y[:9])), "the test labels are (9,), and there are 40"),
    "test text": (
        given(X, TEXTS, test=(X + 7, ["c00"] * N)),
        "the test labels hold 'c00', and no client's input is of that class",
        "Did you mean 'c0'?",
    ),
    "test numbers": (given(X, TEXTS, test=(X + 7, Y)), "the test labels are numbers, and the cl"),
    "test names": (given(X, Y, test=(X + 7, TEXTS)), "the test labels are texts, and the clients'"),
    "test known": (given(test=(X, Y)), "of 40 test inputs are training inputs", "is client"),
    "aux known": (
        given(aux=(X, Y)),
        "of 40 aux inputs are training inputs",
        "row 0 of aux, counted from 0, is cl",
    ),
    "aux tested": (given(test=(X + 7, Y), aux=(X + 7, Y)), "40 of 40 aux inputs are test inputs"),
    "none left": (
        given(rows=[list(range(20)), list(range(20, 40))]),
        "test = 0.1 of 40 inputs are 4, and 0 are left",
        "or leave more out of rows",
    ),
    "none left for aux": (
        given(rows=[list(range(20)), list(range(20, 40))], test=(X + 9, Y)),
        "aux = 0.1 of 40 inputs are 4, and 0 are left: give aux=(inputs, classes)",
    ),
    # where they lie
    "mean alone": (given(BYTES / 255, mean=0.5), "mean and std go together"),
    "mean text": (given(BYTES / 255, mean="a", std=1), "mean = 'a': expected a finite number"),
    "no std": (given(BYTES / 255, mean=0.5, std=0), "every std above 0"),
    "channels": (given(BYTES / 255, mean=[0.5] * 4, std=[1.0] * 4), "input_range has 4 channels"),
    "not normalised": (given(BYTES / 1.0, mean=0.5, std=1), "outside [-0.5, 0.5]", "as they are"),
    "bytes normalised": (given(BYTES, mean=0.5, std=1), "the inputs are bytes, 0 to 255 for 0 to"),
    "other range": (
        given(BYTES / 1.0, input_range=(0, 1)),
        "lie between 0 and 255, outside [0, 1]",
    ),
    "no range": (given(BYTES / 255, input_range=(1, 0)), "expected every low below its high"),
    "two ranges": (
        given(BYTES / 255, input_range=(0, 1), mean=0, std=1),
        "leave input_range and s",
    ),
    "signal": (given(signal="no"), "signal = 'no': expected True or False"),
    # folders
    "no folder": (lambda p: lb.clients.from_folder(p / "no", clients=2), "no is no folder: expect"),
    "no path": (lambda _: lb.clients.from_folder(None, clients=2), "is NoneType: expected a path"),
    "no pictures": (lambda p: lb.clients.from_folder(p, clients=2), "holds no pictures in folders"),
    "no picture": (
        lambda p: lb.clients.from_folder(kinds(p, lambda _: b"no"), clients=2),
        "3.png cannot be read as a picture (",
    ),
    "half a picture": (
        lambda p: lb.clients.from_folder(kinds(p, lambda b: b[:70]), clients=2),
        "3.png cannot be read as a picture (",
        "mend it, or take it out",
    ),
    **{
        f"size {size}": (
            lambda p, s=size: lb.clients.from_folder(kinds(p), size=s, clients=2),
            f"size = {size!r}: expected a number of pixels, or (height, width)",
        )
        for size in (0, None, True, 2.5, (1, 2, 3), (4, "a"))
    },
    "argument": (
        lambda p: lb.clients.from_folder(kinds(p), client=3),
        "leakbench.clients has no argument client (= 3).",
        "Did you mean 'clients'?",
    ),
    # arrays
    "no npz": (lambda p: lb.clients.from_npz(p / "no.npz"), "no.npz cannot be read as .npz"),
    "an array lacks": (
        lambda p: lb.clients.from_npz(npz(p, x=X)),
        "f.npz holds x: expected arrays",
    ),
    "MedMNIST lacks": (
        lambda p: lb.clients.from_npz(npz(p, train_images=BYTES, train_labels=Y)),
        "f.npz holds train_images, train_labels: expected arrays x and y, or train_images",
    ),
    "pickled": (
        lambda p: lb.clients.from_npz(npz(p, x=X.astype(object), y=Y)),
        "f.npz cannot be read as .npz (Object arrays cannot be loaded",
    ),
    "cut": (
        lambda p: lb.clients.from_npz(cut(npz(p, x=X, y=Y))),
        "f.npz is no .npz: expected what numpy.savez writes",
    ),
    "spoilt": (
        lambda p: lb.clients.from_npz(spoilt(npz(p, x=X, y=Y))),
        "f.npz cannot be read as .npz (",
    ),
    # tables
    "no column": (from_csv(TABLE, "kk"), "f.csv has no column 'kk'", "Did you mean 'k'?"),
    "no label": (from_csv(TABLE, None), "f.csv has no column None"),
    "no client column": (from_csv(TABLE, client="who"), "f.csv has no column 'who'"),
    "one for both": (from_csv(TABLE, client="k"), "label and client are both 'k'"),
    "empty cell": (
        from_csv(TABLE.replace("\n3,", "\n,")),
        "an empty cell in row 3 (counted from 0, below the names), column 'a'",
    ),
    "infinite": (
        from_csv(TABLE.replace("\n3,", "\ninf,")),
        "no finite number in row 3 (counted from 0, below the names), column 'a'",
    ),
    "no table": (lambda p: lb.clients.from_csv(p / "no.csv", label="k"), "cannot be read as CSV"),
    "empty table": (from_csv(""), "f.csv cannot be read as CSV (No columns to parse from file)"),
    "names alone": (from_csv("a,k\n"), "f.csv holds names and no row"),
    "labels alone": (from_csv("k\n" + "u\nv\n" * 9), "f.csv has no column beside 'k'"),
    "long row": (
        from_csv("a,k\n1,2\n1,2,3\n"),
        "Expected 2 fields in line 3, saw 3): expected a l",
    ),
    "names of all": (
        from_csv("a,k\n" + "".join(f"t{i},{i % 2}\n" for i in range(1100))),
        "f.csv has 1100 texts in column 'a'",
        "leave it out",
    ),
    "one client's table": (
        from_csv("a,k,c\n" + "1,1,a\n2,0,a\n" * 20, client="c"),
        "there is one client",
    ),
    # data sets of other libraries
    "column": (
        from_hf(Columns(img=list(BYTES), labels=Y)),
        "the data set has no column 'label': it has img, labels",
        "Did you mean 'labels'?",
    ),
    "a list": (from_hf([1, 2]), "list has no columns: expected a data set of the library datasets"),
    "no train": (
        from_hf({"tset": Columns(x=[1])}),
        "the data set has tset: expected one called tr",
    ),
    "shapes": (
        from_hf(Columns(img=[np.ones(3), np.ones(4)], label=[0, 1])),
        "the column 'img' of the data set holds inputs of 2 shapes, as (3,) and (4,)",
    ),
    "a text in a column": (
        from_hf(Columns(x=["a"] * 9, label=[0] * 9)),
        "row 0 (counted from 0), holds str",
    ),
    "a gap in a column": (
        from_hf(Columns(img=[X[0], None], label=[0, 1])),
        "the data set has no 'img' in row 1",
    ),
    "no rows": (from_hf(Columns(img=[], label=[])), "the data set has no rows"),
    "no partitions": (from_hf(Partitioner()), "the partitioner has 0 partitions"),
    "an empty partition": (
        from_hf(Partitioner(Columns(x=X, label=Y), Columns(x=[], label=[]))),
        "partition 1 has no rows",
    ),
    "partition shapes": (
        from_hf(Partitioner(Columns(x=X, label=Y), Columns(x=X[:, :3], label=Y))),
        "inputs of partition 1 are (3,) each, and of partition 0 (5,)",
    ),
    "several shapes": (
        from_torchvision([(torch.ones(3), 0), (torch.ones(4), 1)]),
        "the training inputs are of 2 shapes, as (3,) and (4,): give the data set a transform",
    ),
    "test shapes": (
        from_torchvision([(torch.rand(3), i % 2) for i in range(9)], [(torch.ones(2), 0)]),
        "the test inputs are (2,) each, and the clients' are (3,)",
    ),
    "an empty set": (from_torchvision([]), "the training data are empty"),
    "no length": (from_torchvision(iter([])), "the training data are list_iterator: expected"),
    "triples": (
        from_torchvision([(1, 2, 3)]),
        "row 0 (counted from 0) of the training data is tuple: expected",
    ),
    "its text": (
        from_torchvision([("a", 0)] * 9),
        "the training data, row 0 (counted from 0), holds str",
    ),
    "fails": (
        from_torchvision(Failing()),
        "row 0 (counted from 0) of the training data cannot be read (KeyError",
    ),
    "its labels": (
        from_torchvision([(torch.ones(3), torch.ones(3))] * 9),
        "row 0 (counted from 0) of the training data has Tensor for a class",
    ),
}


def cut(path):
    path.write_bytes(path.read_bytes()[:-200])
    return path


def spoilt(path):
    held = bytearray(path.read_bytes())
    held[200:210] = bytes(10)
    path.write_bytes(held)
    return path


@pytest.mark.parametrize("what", BROKEN)
def test_a_sentence_says_what_is_wrong(what, tmp_path, monkeypatch):
    make, *parts = BROKEN[what]
    work, files = tmp_path / "work", tmp_path / "files"
    work.mkdir()
    files.mkdir()
    monkeypatch.chdir(work)
    with pytest.raises(lb.UsageError) as caught:
        make(files)
    said = str(caught.value)
    for part in parts:
        assert part in said
    assert said.endswith((".", "?"))
    assert "\n" not in said
    assert len(said) < 500
    assert "mean_local_size" not in said  # of a task's field, which nobody here has
    assert "task." not in said
    assert not list(work.iterdir())


def test_there_are_many():
    assert len(BROKEN) > 100


# what is unusual and right


@pytest.mark.parametrize(
    "x",
    [
        X.astype(">f4"),
        X.astype("float16"),
        X.tolist(),
        [torch.tensor(row) for row in X],
        torch.tensor(X).to_sparse(),
        torch.tensor(X, requires_grad=True),
        np.broadcast_to(X, (N, 5)),
    ],
    ids=["swapped", "half", "list", "tensors", "sparse", "graph", "read-only"],
)
def test_numbers_of_any_kind_are_taken(x):
    held = own(x).data
    assert held.train.stored.dtype == torch.float32
    every = torch.cat([held.train.stored, held.test.stored, held.aux.stored])
    close = 0.002 if getattr(x, "dtype", None) == np.float16 else 0
    for row in every:  # each is one of those that were given
        assert float((torch.tensor(X) - row).abs().amax(1).min()) <= close


def test_numbers_of_numpy_are_numbers():
    held = own(clients=np.int64(4), test=np.float32(0.2))
    assert len(held) == 4
    assert len(held.data.test) == 8
    assert len(held.client(np.int64(1))[0])
    with pytest.raises(lb.UsageError, match="client True"):
        held.client(True)


def test_what_is_given_may_change_afterwards():
    x, y = np.array(X + 9), np.array(Y)
    held = own(test=(x, y))
    x[:], y[:] = 0, 0
    assert float(held.test[0].min()) > 1
    assert int(held.test[1].max()) == 3


def test_rows_alike_by_nature_may_be_tested(tmp_path):
    table = np.repeat(np.eye(5, dtype="float32"), 8, axis=0)
    assert len(lb.clients(table, Y, clients=2, test=(table, Y), aux=(table, Y))) == 2


def test_a_folder_of_text_and_path_is_one(tmp_path):
    place = kinds(tmp_path)
    one, other = (lb.clients.from_folder(p, clients=2, size=8) for p in (str(place), Path(place)))
    assert torch.equal(one.data.train.stored, other.data.train.stored)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"run": ["runs/a"]}, "run is a list of 1: expected one run; call it for each."),
        ({"run": "runs/a", "minutes": "3"}, "minutes = '3': expected a number, for example"),
    ],
)
def test_all_attacks_are_of_one_run_and_of_so_many_minutes(given, said):
    with pytest.raises(UsageError) as error:
        lb.attack_all(**given)
    assert str(error.value).startswith(said)
