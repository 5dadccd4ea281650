"""Contract: killed at a random moment and resumed, a run folder ends in the same bytes, all of
them.
"""

import random
import time

import pytest
import torch
from helpers.federations import each_defense, federation, run, short
from helpers.image_files import write
from helpers.killing import Training, started

from leakbench import Defense
from leakbench.base.errors import BrokenFile, LeakbenchError, MethodError, UsageError
from leakbench.base.files import read_sealed, write_json, write_sealed
from leakbench.record import training
from leakbench.record.runspec import RunSpec, make_spec
from leakbench.record.training import train_run

ROUNDS = 24
SMALL = {"model": "mlp", "width": 8, "dim": 8, "evaluations": 12}


def spec_of(name, *, rounds=ROUNDS, wrappers=(), **params):
    return make_spec(
        name,
        params={"batch": 4} | params,
        task_params=SMALL,
        rounds=rounds,
        seed=3,
        wrappers=wrappers,
        dtype="float64",
    )


def content(folder):
    """{name: bytes} of every file, hidden ones too."""
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


@pytest.fixture(scope="module")
def trainings():
    """Whoever begins trainings in processes of their own."""
    with started() as process:
        yield process
        process.kill()


def killed(trainings, spec, runs, dice):
    """Start or resume the run in another process and kill it somewhere in the next rounds; returns
    the first round that it told of, and the one it had reached.
    """
    one = Training(trainings, spec.model_dump(mode="json"), runs)
    told = [one.round() for _ in range(dice.randint(1, ROUNDS // 3))]
    time.sleep(dice.random() * 0.05)
    one.kill()
    return told[0], told[-1]


def check_killed_twice(trainings, spec, tmp_path, dice):
    whole = train_run(spec, tmp_path / "whole").path
    first, second = [killed(trainings, spec, tmp_path / "cut", dice) for _ in range(2)]
    folder = tmp_path / "cut" / spec.folder()
    assert read_sealed(folder / "run.json")["status"] == "running"
    # The second process went on where the first had stopped; a round that was told of but not yet
    # saved when the first was killed is the first that the second tells of.
    assert first[0] == 1
    assert first[1] <= second[0] <= second[1] < ROUNDS
    again = train_run(spec, tmp_path / "cut")
    assert not again.skipped
    assert read_sealed(folder / "run.json")["status"] == "done"
    one, two = content(whole), content(folder)
    assert one.keys() == two.keys()
    assert [k for k in one if one[k] != two[k]] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", each_defense())
def test_killed_twice_and_resumed_is_the_same_bytes(trainings, tmp_path, name):
    spec = spec_of(name, **{**short(name), "fraction": 0.5})
    check_killed_twice(trainings, spec, tmp_path, random.Random(name))


@pytest.mark.slow
def test_a_residual_network_on_turned_photographs_too(trainings, tmp_path, monkeypatch):
    write("cifar100", tmp_path / "data")
    monkeypatch.setenv("LEAKBENCH_DATA", str(tmp_path / "data"))
    task = {"model": "resnet8", "width": 8, "dim": 16, "evaluations": 12}
    spec = make_spec(
        "fedhide",
        task="cifar100",
        params={"batch": 4, "k": 5},
        task_params=task,
        rounds=ROUNDS,
        seed=3,
    )
    assert (spec.dtype, spec.engine, spec.task.params["rotation"]) == ("float32", "fused", 15.0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        check_killed_twice(trainings, spec, tmp_path, random.Random("photographs"))
    finally:
        torch.set_num_threads(threads)


def stopped(spec, runs, monkeypatch, after=7, every=0.0):
    """The same in this process: interrupted after some rounds, with a checkpoint each."""

    def progress(t, *_):
        if t == after:
            raise KeyboardInterrupt

    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", every)
    monkeypatch.setattr(training, "CHECKPOINT_SHARE", 0)
    with pytest.raises(KeyboardInterrupt):
        train_run(spec, runs, progress=progress)
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 1e9)
    return runs / spec.folder()


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("fedprox", {}),
        ("fedprox", {"average": "weighted", "fraction": 0.3}),
        ("fedaws", {"wrappers": [("clip_noise", {"kinds": ["update", "prototype"]})]}),
        ("fedavg", {"wrappers": [("secure_sum", {})]}),
        ("fedlc", {"epochs": 1, "fraction": 0.3}),
        ("fedbr", {"epochs": 1, "fraction": 0.3}),
        ("fedhide", {"steps": 2, "wrappers": [("clip_noise", {})], "fraction": 0.4}),
    ],
)
def test_interrupted_and_resumed_is_the_same_bytes(tmp_path, monkeypatch, name, more):
    """Sums over a model's tensors depend on their order: a checkpoint must bring that back, too."""
    spec = spec_of(name, rounds=12, **more)
    whole = train_run(spec, tmp_path / "whole").path
    cut = stopped(spec, tmp_path / "cut", monkeypatch)
    train_run(spec, tmp_path / "cut")
    one, two = content(whole), content(cut)
    assert one.keys() == two.keys()
    assert [k for k in one if one[k] != two[k]] == []


def test_what_a_killed_process_left_half_written_is_gone(tmp_path, monkeypatch):
    spec = spec_of("fedavg", rounds=6)
    whole = train_run(spec, tmp_path / "whole").path
    cut = stopped(spec, tmp_path / "cut", monkeypatch, after=3)
    for name in (
        "checkpoint/.state.safetensors.part",
        "transcript/.round-000004.safetensors.part",
        ".utility.csv.part",
    ):
        (cut / name).write_bytes(b"half a fi")
    train_run(spec, tmp_path / "cut")
    assert content(whole) == content(cut)


def test_without_a_checkpoint_it_begins_anew(tmp_path, monkeypatch):
    spec = spec_of("fedhide", rounds=6)
    whole = train_run(spec, tmp_path / "whole").path
    cut = stopped(spec, tmp_path / "cut", monkeypatch, after=4, every=1e9)
    assert not (cut / "checkpoint").exists()
    train_run(spec, tmp_path / "cut")
    assert content(whole) == content(cut)


class KeepsAll(Defense):
    """Its global model is empty, and so is what it says of it."""

    def keeps(self, name, module):
        return True

    def start(self, me):
        me.state["n"] = {"deep": {"er": torch.zeros((), dtype=torch.float64)}}

    def uplink(self, me):
        me.state["n"] = {"deep": {"er": me.state["n"]["deep"]["er"] + 1}}

    def aggregate(self, server):
        server.state["rounds"] = server.state.get("rounds", torch.zeros(())) + 1


def test_a_federation_goes_on_from_a_snapshot_through_a_file(tmp_path):
    from leakbench.base.files import read_tree, write_tree

    first, second = federation(KeepsAll()), federation(KeepsAll())
    first.begin()
    for _ in range(3):
        first.step()
    write_tree(tmp_path / "state", first.snapshot(), {})
    second.restore(read_tree(tmp_path / "state")[0])
    first.step()
    second.step()
    assert second.t == 4
    assert float(second.state["rounds"]) == 4
    assert torch.equal(first.columns["kept"]["head.bias"], second.columns["kept"]["head.bias"])
    assert second.columns["state"]["n"]["deep"]["er"].tolist() == [4.0] * 10


def test_a_complete_run_is_not_trained_again(tmp_path):
    spec = spec_of("fedavg", rounds=3)
    path = train_run(spec, tmp_path).path
    before, times = content(path), {p: p.stat().st_mtime_ns for p in path.rglob("*")}
    again = train_run(spec, tmp_path, progress=lambda *_: pytest.fail("it trained"))
    assert again.skipped
    assert content(path) == before
    assert {p: p.stat().st_mtime_ns for p in path.rglob("*")} == times


def test_another_spec_is_another_folder(tmp_path):
    base = spec_of("fedhide", rounds=3)
    others = [
        spec_of("fedhide", rounds=4),
        spec_of("fedhide", rounds=3, alpha=0.5),
        spec_of("fedhide", rounds=3, wrappers=[("secure_sum", {})]),
        base.model_copy(update={"engine": "loop"}),
        base.model_copy(update={"dtype": "float32"}),
        base.model_copy(update={"seed": 4}),
        base.model_copy(update={"record": base.record.model_copy(update={"name": "all"})}),
    ]
    assert len({s.folder() for s in (base, *others)}) == 8
    assert base.folder().endswith("-s3")
    attacked = RunSpec.build(
        {**base.model_dump(mode="json"), "attacks": [{"name": "prototype_leakage", "params": {}}]},
        "run",
    )
    assert attacked.folder() == base.folder()
    paths = {train_run(s, tmp_path).path.name for s in (base, others[1])}
    assert paths == {base.folder(), others[1].folder()} == {p.name for p in tmp_path.iterdir()}


def test_a_folder_that_holds_another_run_is_left_alone(tmp_path):
    one, two = spec_of("fedavg", rounds=2), spec_of("fedavg", rounds=3)
    train_run(one, tmp_path).path.rename(tmp_path / two.folder())
    before = content(tmp_path / two.folder())
    with pytest.raises(UsageError, match="holds another run"):
        train_run(two, tmp_path)
    assert content(tmp_path / two.folder()) == before


def cut_short(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def lose_a_part(path):
    from leakbench.base.files import read_tree, write_tree

    write_tree(path, {"traffic": read_tree(path)[0]["traffic"]}, {})


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("run.json", cut_short),
        ("run.json", lambda p: p.write_bytes(b"\xff\xfe")),
        ("run.json", lambda p: p.write_text("[]")),
        ("run.json", lambda p: write_sealed(p, {"schema": 2})),
        ("run.json", lambda p: p.write_text(p.read_text().replace('"schema": 2', '"schema": 99'))),
        ("run.json", lambda p: p.write_text(p.read_text().replace('"seed": 3', '"seed": NaN'))),
        ("run.json", lambda p: p.unlink()),
        ("checkpoint/state.safetensors", cut_short),
        ("checkpoint/state.safetensors", lambda p: p.write_bytes(b"")),
        ("checkpoint/state.safetensors", lose_a_part),
    ],
    ids=[
        "cut",
        "not text",
        "a list",
        "no spec",
        "newer",
        "NaN",
        "missing",
        "checkpoint cut",
        "checkpoint empty",
        "checkpoint lacks a part",
    ],
)
def test_a_damaged_file_is_one_sentence_and_nothing_is_overwritten(
    tmp_path, monkeypatch, name, damage
):
    spec = spec_of("fedavg", rounds=4)
    folder = stopped(spec, tmp_path, monkeypatch, after=2)
    damage(folder / name)
    before = content(folder)
    with pytest.raises(BrokenFile) as said:
        train_run(spec, tmp_path)
    assert name in str(said.value)
    assert "\n" not in str(said.value)
    assert str(said.value).endswith(".")
    assert content(folder) == before


@pytest.mark.parametrize(
    "change",
    [
        {"phases": {"0": "nothing"}},
        {"fallbacks": {"loss": "none"}},
        {"totals": {}},
        {"diagnostics": [[1, "client_drift", 0.0]]},
        {"begun_by": [{"commit": "another", "until": 1}]},
        {"origin": {"commit": "another"}},
    ],
    ids=lambda change: "".join(change),
)
def test_a_header_that_was_edited_is_not_gone_on_with(tmp_path, monkeypatch, change):
    """What was sent and what was measured before the interruption stand in the header alone."""
    from leakbench.base.files import read_tree, write_tree

    spec = spec_of("fedavg", rounds=4)
    path = stopped(spec, tmp_path, monkeypatch, after=2) / "checkpoint/state.safetensors"
    tree, head = read_tree(path)
    (key,) = change
    both = {**head[key], **change[key]} if change[key] and isinstance(change[key], dict) else {}
    edited = both or change[key]
    assert edited != head[key]
    write_tree(path, tree, {**head, key: edited})
    with pytest.raises(BrokenFile, match="or one was changed"):
        train_run(spec, tmp_path)


def test_a_method_that_fails_leaves_its_reason_and_can_be_run_again(tmp_path, monkeypatch):
    from leakbench.federation.federation import Federation

    spec = spec_of("fedavg", rounds=4)
    step = Federation.step

    def trips(self):
        if self.t == 2:
            raise ValueError("the cable was pulled")
        step(self)

    monkeypatch.setattr(Federation, "step", trips)
    with pytest.raises(MethodError, match="the cable was pulled"):
        train_run(spec, tmp_path)
    status = read_sealed(tmp_path / spec.folder() / "run.json")["status"]
    assert status.startswith("failed: ValueError: the cable was pulled (test_resume.py, line ")
    monkeypatch.undo()
    path = train_run(spec, tmp_path).path
    assert content(path) == content(train_run(spec, tmp_path / "whole").path)


def test_a_method_that_fails_in_its_very_first_round_is_one_sentence(tmp_path, monkeypatch):
    """It is run once before, to see how much it sends."""
    from leakbench.federation.federation import Federation

    def trips(self):
        raise ValueError("the cable was pulled")

    monkeypatch.setattr(Federation, "step", trips)
    with pytest.raises(MethodError, match="failed: ValueError: the cable was pulled"):
        train_run(spec_of("fedavg", rounds=4), tmp_path)


def test_divergence_is_said(tmp_path):
    spec = spec_of("fedprox", rounds=30, lr=1e200, mu=1e200)
    with pytest.raises(LeakbenchError, match="diverged by round"):
        train_run(spec, tmp_path)
    assert read_sealed(tmp_path / spec.folder() / "run.json")["status"].startswith(
        "failed: training diverged"
    )


def test_the_seed_changes_the_run_and_the_attacks_do_not(tmp_path):
    spec = spec_of("fedgn", rounds=2)
    first = train_run(spec, tmp_path).path
    other = train_run(spec.model_copy(update={"seed": 4}), tmp_path).path
    model = "checkpoint/model.safetensors"
    assert (first / model).read_bytes() != (other / model).read_bytes()
    files = {k: v for k, v in content(first).items() if k != "run.json"}
    named = RunSpec.build(
        {**spec.model_dump(mode="json"), "attacks": [{"name": "prototype_leakage", "params": {}}]},
        "run",
    )
    assert train_run(named, tmp_path).skipped
    assert {k: v for k, v in content(first).items() if k != "run.json"} == files
    assert read_sealed(first / "run.json")["spec"]["attacks"] == [
        {"name": "prototype_leakage", "params": {}}
    ]


def test_two_seeds_share_the_data_not_the_numbers():
    one, two = (run(federation("fedhide", seed=s), 1) for s in (1, 2))
    assert torch.equal(one.data.train.x, two.data.train.x)
    assert not torch.equal(one.columns["own"]["prototype"], two.columns["own"]["prototype"])


def test_where_nothing_can_be_written_that_is_said(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError, match=r"cannot write .*Make it writable"):
        train_run(spec_of("fedavg", rounds=2), tmp_path / "file")
    assert (tmp_path / "file").read_text() == "in the way"
    write_json(tmp_path / "sound.json", {})
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
