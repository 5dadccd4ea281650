"""Official data are known by every file's size and digest; what is not is said where it shows."""

import json
from types import SimpleNamespace

import pytest
import torch
from helpers.image_files import write
from helpers.run_folders import make_run
from helpers.small_runs import TASK

from leakbench import api
from leakbench.base import registry
from leakbench.base.errors import BrokenFile
from leakbench.cli import run as cli
from leakbench.data import har_files, image_sets, official, sets, sklearn_digits
from leakbench.gate.comparison import changed
from leakbench.gate.rows import gate_rows
from leakbench.reproduce import write as tables_of
from leakbench.reproduce.row import Measurement, Row
from leakbench.results.claims import claim_beside
from leakbench.results.number import Claim
from leakbench.results.tables import collect

TINY = {"model": "mlp", "width": 4, "dim": 8, "evaluations": 10, "utility": "accuracy"}


def digest(path):
    import gzip
    import hashlib

    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return {"size": len(content), "md5": hashlib.md5(content).hexdigest()}


@pytest.fixture
def cifar(tmp_path, monkeypatch):
    """A tiny CIFAR-10 in the binary layout that is the official one for a while."""
    place = write("cifar10", tmp_path, layout="binary", train=50, test=10)
    known = {"cifar10": {p.name: digest(p) for p in place.iterdir()}}
    monkeypatch.setattr(official, "_known", lambda: known)
    monkeypatch.setenv("LEAKBENCH_DATA", str(tmp_path))
    assert image_sets.unofficial("cifar10") == ""
    return place


def one_byte(place):
    path = place / "data_batch_3.bin"
    raw = bytearray(path.read_bytes())
    raw[100] ^= 1
    path.write_bytes(bytes(raw))


def another_batch(place):
    (place / "data_batch_3.bin").write_bytes((place / "data_batch_4.bin").read_bytes())


def cut_at_a_row(place):
    path = place / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[: -5 * 3073])


@pytest.mark.parametrize("damage", [one_byte, another_batch, cut_at_a_row])
def test_what_is_not_official_is_flagged_and_said_once(cifar, tmp_path, capsys, damage):
    damage(cifar)
    run = api.train("fedavg", task="cifar10", task_params=TINY, rounds=3, out=tmp_path / "runs")
    (line,) = [x for x in capsys.readouterr().err.splitlines() if "unofficial_data" in x]
    assert "data_batch_3.bin" in line
    assert run.meta["data"]["official"] is False
    tables = collect([run])
    assert all("unofficial_data" in u.flags for u in tables.utility)
    assert all("unofficial_data" in row["flags"] for row in tables.rows("utility"))
    assert all(u.claim is None or "unofficial data" in u.claim.source for u in tables.utility)


def test_the_official_files_are_flagged_nowhere(cifar, tmp_path, capsys):
    run = api.train("fedavg", task="cifar10", task_params=TINY, rounds=3, out=tmp_path / "runs")
    assert run.meta["data"]["official"] is True
    assert len(run.meta["data"]["digest"]) == 64
    assert "unofficial" not in capsys.readouterr().err
    assert not any("unofficial_data" in u.flags for u in collect([run]).utility)


def test_a_cut_record_is_still_refused(cifar):
    path = cifar / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(BrokenFile, match="no whole number of rows"):
        image_sets.load_images("cifar10")


def test_other_data_are_another_digest(cifar, tmp_path):
    one = api.train("fedavg", task="cifar10", task_params=TINY, rounds=2, out=tmp_path / "a")
    one_byte(cifar)
    two = api.train("fedavg", task="cifar10", task_params=TINY, rounds=2, out=tmp_path / "b")
    assert one.meta["data"]["digest"] != two.meta["data"]["digest"]


def test_packed_files_are_known_by_what_they_hold(tmp_path, monkeypatch):
    place = write("mnist", tmp_path, layout="binary")
    known = {p.name.removesuffix(".gz"): digest(p) for p in place.iterdir()}
    monkeypatch.setattr(official, "_known", lambda: {"mnist": known})
    monkeypatch.setenv("LEAKBENCH_DATA", str(tmp_path))
    assert image_sets.unofficial("mnist") == ""
    known["t10k-labels-idx1-ubyte"]["md5"] = "0" * 32
    assert "t10k-labels-idx1-ubyte.gz is not" in image_sets.unofficial("mnist")


def test_a_file_is_read_once_until_it_changes(cifar, monkeypatch):
    official._digest.cache_clear()
    image_sets.unofficial("cifar10")
    before = official._digest.cache_info().misses
    image_sets.unofficial("cifar10")
    assert official._digest.cache_info().misses == before == 6
    one_byte(cifar)
    assert "data_batch_3.bin" in image_sets.unofficial("cifar10")


def test_the_digests_are_torchvisions_where_it_has_them():
    from torchvision import datasets

    for name, kind in (("cifar10", datasets.CIFAR10), ("cifar100", datasets.CIFAR100)):
        for file, md5 in (*kind.train_list, *kind.test_list):
            assert official._known()[name][file]["md5"] == md5


@pytest.mark.parametrize("name", sorted(image_sets.LAYOUTS))
def test_every_file_of_every_layout_is_known(name):
    for layout in image_sets.LAYOUTS[name]:
        for file in (*layout.train, *layout.test):
            assert set(official._known()[name][file]) == {"size", "md5"}


def test_every_file_of_uci_har_is_known():
    for part in har_files.PARTS:
        for path in har_files._files(har_files.data_folder(), part):
            assert "size" in official._known()["uci-har"][path.name]


def test_numbers_of_a_text_are_known_whatever_their_last_digit(tmp_path):
    import hashlib

    import numpy as np

    one, two = tmp_path / "body_acc_x_train.txt", tmp_path / "two.txt"
    one.write_text("  1.8085150e-004  1.0138560e-002\n")
    two.write_text("  1.8085149e-004  1.0138560e-002\n")  # the same to float32
    digests = {official._digest(p, "float32", 0, 0) for p in (one, two)}
    values = np.array([[1.8085150e-004, 1.0138560e-002]], np.float32)
    assert digests == {hashlib.sha256(values.tobytes()).hexdigest()}
    two.write_text("  1.8085149e-004  1.0138570e-002\n")
    assert official._digest(two, "float32", 0, 1) not in digests


def test_the_digits_are_those_that_are_known():
    from sklearn.datasets import load_digits

    assert sklearn_digits.unofficial() == ""
    for name in ("digits", "digit-pairs"):
        assert registry.load_plugin("tasks", name)().load().unofficial == ""
    data = load_digits()
    images, classes = torch.tensor(data.images), torch.tensor(data.target)
    images[3, 2, 2] += 1
    assert official.unlike_digits(images, classes)
    assert official.unlike_digits(torch.tensor(data.images) + 0.25, classes)


def test_doctor_says_whether_what_is_found_is_official(cifar, capsys):
    def said():
        cli(["doctor", "--json"])
        return next(x for x in json.loads(capsys.readouterr().out) if x["what"] == "data")

    assert "(the official files)" in said()["found"]
    one_byte(cifar)
    assert "(not the official files)" in said()["found"]
    assert "data_batch_3.bin" in said()["do"]
    assert sets.unofficial("cifar10")


def test_a_claim_beside_it_has_the_word_in_every_table():
    claim = Claim(value=0.9, low=None, high=None, source="Table 1")
    assert claim_beside(claim, unofficial=False) is claim
    told = claim_beside(claim, unofficial=True)
    assert told is not None
    assert told.source == "ours on unofficial data; Table 1"
    assert claim_beside(None, unofficial=True) is None
    row = Row(
        **{"recipe": "r", "scale": "full", "dataset": "cifar10", "task": "cifar10", "label": "a"},
        **{"measure": "m", "metric": "accuracy", "flags": frozenset({"unofficial_data"})},
        ours=Measurement(value=0.5, n=3, unit="seed"),
    )
    assert tables_of.ours(row, SimpleNamespace(over="")) == "0.500, unofficial data"


def test_the_gate_compares_official_with_official_data_only(tmp_path):
    data = {"digest": "d" * 64, "official": True}
    then, now = (
        gate_rows(
            collect([api.load(make_run(tmp_path / o, data={**data, "official": ok}))]).settings
        )
        for o, ok in (("then", True), ("now", False))
    )
    assert changed(now[0], then[0])["set of data"] == ("official", "unofficial")
    assert "set of data" not in changed(then[0], then[0])


def test_a_task_of_somebody_elses_is_neither(tmp_path):
    run = api.train("fedavg", task_params=TASK, rounds=2, out=tmp_path)
    assert run.meta["data"]["official"] is True  # the digits' own are known
    from leakbench.federation import Examples, one_class_each

    e = Examples(torch.zeros(2, 1, 2, 2), torch.arange(2))
    assert one_class_each(e, e, e, 2).unofficial is None
