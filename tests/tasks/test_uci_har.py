"""UCI-HAR from tiny files in the official layout: read right, split by people, standardised, dealt,
marked; refused in one sentence.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.har_files import NAMES, SUBJECTS, signals, write

import leakbench
from leakbench.base import registry
from leakbench.base.errors import BrokenFile, UsageError
from leakbench.base.streams import shared
from leakbench.data import har_files
from leakbench.data.marker import paste

SMALL = {"clients": 12, "width": 4}
BASELINES = ("fedmix", "feddecorr", "fedlc", "fedntd", "fedbr")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder of data."""
    monkeypatch.setenv("LEAKBENCH_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def task(**params):
    return registry.load_plugin("tasks", "uci-har").build({**SMALL, **params}, "task uci-har")


def refused(words, error=UsageError, **params):
    with pytest.raises(error) as caught:
        task(**params).load()
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def raw(part, each, sensor):
    held = signals(part, each)
    x = np.stack([held[f"{sensor}_{axis}"] for axis in "xyz"], -1)
    return x, held["y"] - 1, held["subject"]


def standardised(part, each):
    """What the accelerometer's windows of ``part`` should be, (n, 128, 3) float64, with activities
    and subjects.
    """
    train = raw("train", 4, "body_acc")[0].reshape(-1, 3)
    x, y, subject = raw(part, each, "body_acc")
    return (x - train.mean(0)) / train.std(0), y, subject


def which(examples, among):
    """The row of ``among`` (n, 128, 3) that each example is, up to the files' last digit."""
    far = torch.cdist(examples.x.flatten(1), torch.from_numpy(among).flatten(1))
    assert float(far.min(1).values.max()) < 1e-4
    return far.argmin(1).tolist()


class TestReading:
    @pytest.mark.parametrize(
        ("sensor", "name"), list(zip(("body", "total", "gyro"), NAMES, strict=True))
    )
    def test_every_sensor_is_its_own_three_files(self, place, sensor, name):
        write(place)
        for windows, part, each in zip(
            har_files.load_sensor(sensor), ("train", "test"), (4, 2), strict=True
        ):
            x, y, subject = raw(part, each, name)
            assert windows.x.shape == (len(y), 128, 3)
            assert np.allclose(windows.x.numpy(), x, rtol=0, atol=1e-6)
            assert windows.y.tolist() == y.tolist()
            assert windows.subject.tolist() == subject.tolist()

    def test_a_missing_folder_is_one_sentence_that_says_where_from(self, place):
        text = refused("LEAKBENCH_DATA")
        for words in (
            str(place),
            "UCI HAR Dataset/",
            "Human Activity Recognition Using Smartphones",
        ):
            assert words in text
        assert "http" not in text

    def test_found_asks_for_every_file(self, place):
        assert har_files.found() is None
        folder = write(place)
        assert har_files.found() == folder
        (folder / "test" / "Inertial Signals" / "body_gyro_z_test.txt").unlink()
        assert har_files.found() is None
        assert len(task().load().train) == 96  # of the accelerometer all is there
        assert "body_gyro_z_test.txt is missing" in refused(
            "missing beside the other files", BrokenFile, sensor="gyro"
        )

    def test_doctor_says_where_it_is_or_how_it_is_got(self, place):
        from leakbench.cli import doctor

        nothing = doctor._data()
        assert "uci-har (UCI HAR Dataset/)" in nothing["found"]
        assert "Human Activity Recognition Using Smartphones" in nothing["do"]
        assert "uci-har" not in nothing["found"].split(" need no download")[0]
        folder = write(place)
        assert f"uci-har in {folder}" in doctor._data()["found"]
        assert "Smartphones" not in doctor._data()["do"]

    @pytest.mark.parametrize(
        ("file", "text", "words"),
        [
            ("y_train.txt", "7\n" * 96, "activities go from 1 to 6, it has 7 to 7"),
            ("y_train.txt", "0\n" * 96, "activities go from 1 to 6, it has 0 to 0"),
            ("y_train.txt", "1.5\n" * 96, "not whole"),
            ("y_train.txt", "1\n" * 95, "[96, 96, 96] windows, 95 activities and 96 subjects"),
            ("subject_train.txt", "1\n" * 97, "96 activities and 97 subjects"),
            ("subject_train.txt", "", "it is empty"),
            (
                "Inertial Signals/body_acc_y_train.txt",
                "1 2 3\n" * 96,
                "expected lines of 128 numbers, came 96 of 3",
            ),
            ("Inertial Signals/body_acc_y_train.txt", "1 2 3\n1 2\n", "damaged"),
            ("Inertial Signals/body_acc_y_train.txt", ("1 " * 127 + "nan\n") * 96, "not finite"),
            ("Inertial Signals/body_acc_y_train.txt", ("1 " * 127 + "x\n") * 96, "damaged"),
            ("Inertial Signals/body_acc_y_train.txt", ("1 " * 127 + "\xe9\n") * 96, "damaged"),
        ],
    )
    def test_other_content_is_refused(self, place, file, text, words):
        (write(place) / "train" / file).write_text(text, encoding="latin1")
        refused(words, BrokenFile)

    def test_an_axis_that_never_changes_cannot_be_standardised(self, place):
        (write(place) / "train" / "Inertial Signals" / "body_acc_y_train.txt").write_text(
            ("2 " * 128 + "\n") * 96
        )
        refused("never changes")


class TestData:
    def test_axes_are_standardised_by_the_training_windows_alone(self, place):
        write(place)
        data = task().load()
        x, y, _ = standardised("train", 4)
        assert which(data.train, x) == list(range(96))
        assert data.train.y.tolist() == y.tolist()
        assert data.train.stored.dtype == torch.float32
        assert data.train.x.shape == (96, 1, 128, 3)
        x, y, _ = standardised("test", 2)
        rows = [which(part, x) for part in (data.test, data.aux)]
        assert sorted(rows[0] + rows[1]) == list(range(60))
        assert [y[r].tolist() for r in rows] == [data.test.y.tolist(), data.aux.y.tolist()]

    def test_a_thinned_training_set_is_standardised_as_the_whole(self, place):
        write(place)
        some, every = task(mean_local_size=6).load(), task().load()
        assert len(some.train) == 72
        assert {x.numpy().tobytes() for x in some.train.stored} < {
            x.numpy().tobytes() for x in every.train.stored
        }
        assert torch.equal(some.test.stored, every.test.stored)

    @pytest.mark.parametrize("kept", [1, 2, 4])
    def test_auxiliary_people_are_nobody_elses(self, place, kept):
        write(place)
        data = task(aux_subjects=kept).load()
        x, _, subject = standardised("test", 2)
        people = [set(subject[which(part, x)].tolist()) for part in (data.aux, data.test)]
        order = shared(0, "task/uci-har/aux").permutation("subjects", 5)[:kept]
        assert people[0] == {SUBJECTS["test"][i] for i in order}  # drawn, not the first
        assert not people[0] & people[1]
        assert people[0] | people[1] == set(SUBJECTS["test"])
        for part, each in ((data.aux, kept), (data.test, 5 - kept)):
            assert torch.bincount(part.y, minlength=6).tolist() == [2 * each] * 6

    def test_more_auxiliary_people_contain_fewer(self, place):
        write(place)
        few, many = (
            {x.numpy().tobytes() for x in task(aux_subjects=n).load().aux.stored} for n in (1, 3)
        )
        assert few < many
        refused("task.aux_subjects = 5, but the set has 5 test subjects", aux_subjects=5)

    def test_clients_have_two_activities_each_by_default(self, place):
        write(place)
        data = task().load()
        assert data.client_class.tolist() == [-1] * 12
        seen = []
        for c, n in enumerate(data.counts.tolist()):
            mine = data.rows[c, :n]
            assert len(set(data.train.y[mine].tolist())) == 2
            assert c % 6 in data.train.y[mine]
            seen += mine.tolist()
        assert sorted(seen) == list(range(96))
        assert data.context is None

    def test_settings_are_those_of_the_paper(self):
        kind = registry.load_plugin("tasks", "uci-har")
        t = kind.build({}, "task")
        assert (kind.rounds, t.clients, t.split, t.split_param, t.model, t.width, t.metric) == (
            100,
            75,
            "qua",
            2,
            "harnet",
            64,
            "accuracy",
        )
        assert t.evaluations == 100
        assert t.signal
        for method in ("fedavg", "fedprox", "flea", "feddata", *BASELINES):
            values = t.defaults(method)
            values["batch"] += values.get("shared_batch", 0)  # feddata's own examples and others'
            assert {
                k: values[k]
                for k in (
                    "fraction",
                    "batch",
                    "steps",
                    "epochs",
                    "optimizer",
                    "lr",
                    "decay",
                    "average",
                )
            } == {
                **{"fraction": 0.1, "batch": 32, "steps": 0, "epochs": 5},
                **{"optimizer": "adam", "lr": 0.001, "decay": 0.98, "average": "weighted"},
            }
        assert t.defaults("flea")["layer"] == "layer2"
        # Of the n + S examples that FLea's epoch of FedData goes through, n own and S = C n / 10
        # shared ones: 2 in 17.
        assert (t.defaults("feddata")["batch"], t.defaults("feddata")["shared_batch"]) == (4, 28)


def test_a_marked_clients_windows_all_carry_the_bump_and_nobody_elses(place):
    write(place)
    clear, marked = task().load(), task(context="bump").load()
    assert int(marked.context.sum()) == 6
    assert torch.equal(clear.rows, marked.rows)
    for c, mark in enumerate(marked.context.tolist()):
        mine = clear.rows[c, : int(clear.counts[c])]
        expected = paste(clear.train.stored[mine], "bump") if mark else clear.train.stored[mine]
        assert torch.equal(marked.train.stored[mine], expected)
    for part in ("test", "aux"):
        assert torch.equal(getattr(clear, part).stored, getattr(marked, part).stored)


def test_a_ragged_federation_trains_on_it_from_tiny_files(place, tmp_path):
    write(place)
    params = {"split": "dir", "split_param": 0.3, "context": "bump", "evaluations": 10, **SMALL}
    run = leakbench.train(
        "fedavg",
        task="uci-har",
        task_params=params,
        params={"fraction": 0.5},
        rounds=10,
        out=tmp_path / "runs",
    )
    tree, _ = run.tree("truth/data.safetensors")
    held = task(**{k: params[k] for k in ("split", "split_param", "context")}).load()
    assert len(set(tree["counts"].tolist())) > 3
    assert torch.equal(tree["context"], held.context)
    assert torch.equal(tree["x"], held.train.stored)
    assert run.meta["phases"]["loss"] == "threads"
    assert run.table("utility.csv", ["value"])[-1]["value"] > 0.4  # chance is 0.17


def test_a_method_with_one_class_per_client_is_refused_before_anything_is_trained(place, tmp_path):
    write(place)
    with pytest.raises(
        UsageError,
        match=r"FedHide needs clients with one class each.*task\.split=class and task\.clients=6",
    ):
        leakbench.train("fedhide", task="uci-har", rounds=3, out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
    run = leakbench.train(
        "fedgn",
        task="uci-har",
        task_params={"split": "class", "clients": 6, "width": 4},
        rounds=3,
        out=tmp_path / "runs",
    )
    assert run.done


def test_known_windows_share_no_sample_with_the_others():
    """Of recordings of five windows each, that overlap by half."""
    rng, x = torch.Generator().manual_seed(0), []
    for _ in range(6):
        samples = torch.randn(64 * 6, 3, generator=rng, dtype=torch.float64)
        x += [samples[64 * i : 64 * i + 128] for i in range(5)]
    y, subject = torch.arange(30) // 5 % 2, torch.arange(30) // 10
    rest, known = har_files.last_of_each(har_files.Windows(torch.stack(x), y, subject), 0.3)
    assert known.tolist() == [False, False, False, True, True] * 6
    assert rest.tolist() == [True, True, False, False, False] * 6
    halves = [
        {h.numpy().tobytes() for w in torch.stack(x)[some] for h in w.chunk(2)}
        for some in (rest, known)
    ]
    assert not halves[0] & halves[1]


def test_people_are_told_where_that_is_asked_for_and_nothing_changes_where_not(place):
    write(place)
    plain, told = task().load(), task(attribute="person", known_share=0.5).load()
    assert plain.train.attribute is None is plain.attributed
    assert "attribute" not in task().model_dump()
    assert task(attribute="person").model_dump()["attribute"] == "person"
    assert told.attributed is not None
    assert told.train.attribute is not None
    assert not torch.isin(told.attributed.marks, told.train.marks).any()
    assert {*told.attributed.attribute.tolist()} <= set(range(len(SUBJECTS["train"])))
    assert told.aux.attribute is None is told.test.attribute


def test_people_that_are_not_told_cannot_be_dealt():
    refused("tells none", deal_by="attribute")
    refused("split class", deal_by="attribute", attribute="person", split="class", clients=6)
