"""A run is gone on with by the code and on the data that began it, or says so in every row."""

import pytest
import torch
from helpers.image_files import write
from helpers.run_folders import edited, make_run
from helpers.small_runs import TASK, plugged

from leakbench import api
from leakbench.base import sources
from leakbench.base.errors import BrokenFile, UsageError
from leakbench.base.files import read_sealed, read_tree, write_tree
from leakbench.cli import run as cli
from leakbench.federation import choosing
from leakbench.gate.comparison import BLOCKING
from leakbench.record import checkpoint, origin, training
from leakbench.record.runspec import make_spec
from leakbench.record.training import train_run
from leakbench.results.tables import collect

METHOD = '''
"""FedAvg with noise on a prototype."""

from typing import Any, Self

import torch

from leakbench import Client, Defense


class Noisy(Defense):
    """Noisy."""

    sigma: float = 1.0

    def uplink(self, me: Client) -> Any:
        return {{"features": me.data.x[:2].flatten(1) + {noise}}}

    def undefended(self) -> Self:
        return self.model_copy(update={{"sigma": 0.0}})
'''
BARE = METHOD.format(noise="0")
NOISED = METHOD.format(noise='self.sigma * me.rng.normal("n", 2, 64)')
ROUNDS = 8


def spec_of(**more):
    return make_spec("noisy", task_params=TASK, rounds=ROUNDS, **more)


def stopped(runs, monkeypatch, after=4, spec=None):
    """Begun, and interrupted with a checkpoint after every round."""

    def progress(t, *_):
        if t == after:
            raise KeyboardInterrupt

    spec = spec or spec_of()
    with monkeypatch.context() as m:
        m.setattr(training, "CHECKPOINT_SECONDS", 0.0)
        m.setattr(training, "CHECKPOINT_SHARE", 0)
        with pytest.raises(KeyboardInterrupt):
            train_run(spec, runs, device="cpu", progress=progress)
    return runs / spec.folder()


def content(folder):
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


@pytest.fixture
def other_code(tmp_path, monkeypatch):
    """A run begun by a method that adds no noise; from then on the method adds some."""
    with plugged("defenses", tmp_path, noisy=BARE):
        folder = stopped(tmp_path / "runs", monkeypatch)
    with plugged("defenses", tmp_path, noisy=NOISED):
        yield folder


def test_a_run_that_other_code_began_is_refused_with_both_ways_on(other_code):
    before = content(other_code)
    with pytest.raises(UsageError) as said:
        train_run(spec_of(), other_code.parent, device="cpu")
    text = str(said.value)
    assert "the source of the method (" in text
    assert "--restart" in text
    assert "--mixed" in text
    assert "\n" not in text
    assert content(other_code) == before


def test_restart_leaves_nothing_of_it(other_code, tmp_path):
    (other_code / "attacks" / "old").mkdir(parents=True)
    (other_code / "attacks" / "old" / "attack.json").write_text("{}")
    whole = train_run(spec_of(), tmp_path / "whole", device="cpu").path
    again = train_run(spec_of(), other_code.parent, device="cpu", restart=True)
    assert not again.skipped
    assert content(again.path) == content(whole)
    anew = train_run(spec_of(), other_code.parent, device="cpu", restart=True)  # complete as it is
    assert not anew.skipped


def test_mixed_says_whose_rounds_are_whose_and_flags_every_row(other_code):
    path = train_run(spec_of(), other_code.parent, device="cpu", mixed=True).path
    meta = read_sealed(path / "run.json")
    (begun,) = meta["begun_by"]
    assert begun["until"] == 3  # the checkpoint of round 4 was never written
    assert begun["method"] != meta["sources"]["method"]
    assert begun["core"] == meta["sources"]["core"]
    assert {"commit", "dirty", "leakbench", "torch", "data", "device"} <= begun.keys()
    assert "run" not in begun  # its seed would be in an export
    api.attack(path, "distance_correlation")
    tables = collect([api.load(path)])
    assert all("mixed_code" in n.flags for n in tables.numbers)
    assert all("mixed_code" in u.flags for u in tables.utility)
    assert all(
        "mixed_code" in r["flags"] for r in api.Results(next(path.glob("attacks/distance*"))).rows
    )


def test_what_was_mixed_once_stays_so_when_it_is_killed_again(other_code, monkeypatch):
    def progress(t, *_):
        if t == 7:
            raise KeyboardInterrupt

    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(training, "CHECKPOINT_SHARE", 0)
    with pytest.raises(KeyboardInterrupt):
        train_run(spec_of(), other_code.parent, device="cpu", mixed=True, progress=progress)
    path = train_run(spec_of(), other_code.parent, device="cpu").path
    assert [b["until"] for b in read_sealed(path / "run.json")["begun_by"]] == [3]


def test_both_at_once_are_refused(other_code, capsys):
    with pytest.raises(UsageError, match="exclude each other"):
        train_run(spec_of(), other_code.parent, restart=True, mixed=True)
    assert cli(["train", "-d", "fedavg", "--restart", "--mixed", "-q"]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_the_command_line_and_python_have_both_ways(other_code, capsys):
    words = ["train", "-d", "noisy", "--rounds", str(ROUNDS), "-o", str(other_code.parent), "-q"]
    for name, value in TASK.items():
        words += ["-s", f"task.{name}={value}"]
    assert cli(words) == 2
    assert "--mixed" in capsys.readouterr().err
    assert cli([*words, "--mixed"]) == 0
    assert read_sealed(other_code / "run.json")["begun_by"]
    how = {"task_params": TASK, "rounds": ROUNDS, "out": other_code.parent}
    assert "begun_by" not in api.train("noisy", restart=True, **how).meta


def test_other_data_are_refused_and_cannot_be_mixed(tmp_path, monkeypatch):
    for name in ("one", "two"):
        write("cifar10", tmp_path / name, train=6 if name == "one" else 7)
    task = {"model": "cnn", "width": 4, "dim": 8, "evaluations": 10, "per_client": 5}
    spec = make_spec("fedavg", task="cifar10", task_params=task, rounds=4)
    monkeypatch.setenv("LEAKBENCH_DATA", str(tmp_path / "one"))
    folder = stopped(tmp_path / "runs", monkeypatch, after=3, spec=spec)
    monkeypatch.setenv("LEAKBENCH_DATA", str(tmp_path / "two"))
    before = content(folder)
    for mixed in (False, True):
        with pytest.raises(UsageError, match=r"the data \(.*--restart") as said:
            train_run(spec, folder.parent, mixed=mixed)
        assert "--mixed" not in str(said.value)
    assert content(folder) == before
    done = train_run(spec, folder.parent, restart=True)
    heard = []
    monkeypatch.setenv("LEAKBENCH_DATA", str(tmp_path / "one"))
    assert train_run(spec, folder.parent, say=heard.append).skipped
    assert len(heard) == 1
    assert "the data" in heard[0]
    assert "--restart" in heard[0]
    assert done.path.is_dir()


@pytest.mark.parametrize("what", ["torch", "cpu", "leakbench", "core", "deterministic", "run"])
def test_what_else_makes_it_another_origin(tmp_path, monkeypatch, what):
    spec = make_spec("fedavg", task_params=TASK, rounds=ROUNDS)
    folder = stopped(tmp_path, monkeypatch, spec=spec)
    path = folder / checkpoint.STATE
    tree, meta = read_tree(path)
    meta["origin"][what] = "another"
    meta["digest"] = checkpoint._digest(tree, meta)
    write_tree(path, tree, meta)
    with pytest.raises(UsageError, match=r"\(another"):
        train_run(spec, tmp_path)


def test_a_checkpoint_with_other_numbers_is_damaged(tmp_path, monkeypatch):
    spec = make_spec("fedavg", task_params=TASK, rounds=ROUNDS)
    folder = stopped(tmp_path, monkeypatch, spec=spec)
    path = folder / checkpoint.STATE
    tree, meta = read_tree(path)
    name = next(k for k in tree["federation"]["model"])
    tree["federation"]["model"][name] = tree["federation"]["model"][name] + 1
    write_tree(path, tree, meta)
    with pytest.raises(BrokenFile, match="one was changed"):
        train_run(spec, tmp_path)


def test_it_goes_on_with_as_many_threads_as_it_began(tmp_path, monkeypatch):
    monkeypatch.setattr(choosing, "INPUTS", 1)  # else one thread would do
    spec = make_spec("fedgn", task_params=TASK, rounds=ROUNDS)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        whole = train_run(spec, tmp_path / "whole").path
        cut = stopped(tmp_path / "cut", monkeypatch, spec=spec)
        torch.set_num_threads(1)
        train_run(spec, tmp_path / "cut")
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)
    assert content(cut) == content(whole)
    assert read_sealed(cut / "run.json")["machine"]["threads"] == 2


def test_rounds_that_are_trained_again_leave_no_file_of_the_first_time(tmp_path, monkeypatch):
    """Other code may have written a control where today's hides nothing."""
    spec = make_spec("fedavg", task_params=TASK, rounds=ROUNDS)
    whole = train_run(spec, tmp_path / "whole").path
    for after in (3, 0):
        runs = tmp_path / f"cut{after}"
        folder = stopped(runs, monkeypatch, after=4, spec=spec)
        if not after:
            (folder / checkpoint.STATE).unlink()
        for room in ("control", "known", "truth", "transcript"):
            write_tree(folder / room / "round-000004.safetensors", {"x": torch.zeros(1)}, {})
        train_run(spec, runs)
        assert content(folder) == content(whole)


def test_a_complete_run_of_other_code_is_told_and_flagged(tmp_path):
    heard = []
    with plugged("defenses", tmp_path, noisy=BARE):
        path = train_run(spec_of(), tmp_path / "runs", say=heard.append).path
        api.attack(path, "distance_correlation")
        assert train_run(spec_of(), tmp_path / "runs", say=heard.append).skipped
        assert heard == []
        assert not origin.stale_sources(read_sealed(path / "run.json"))
    with plugged("defenses", tmp_path, noisy=NOISED):
        assert train_run(spec_of(), tmp_path / "runs", say=heard.append).skipped
        (line,) = heard
        assert "the source of the method differed" in line
        assert "--restart" in line
        assert origin.stale_sources(read_sealed(path / "run.json")) == ["method"]
        tables = collect([api.load(path)])
        assert all("stale_run" in n.flags for n in (*tables.numbers, *tables.utility))
        assert all("stale_run" in m.flags for _, m in tables.results)
    # Nobody can tell where the method is not installed, or the run does not say.
    assert not origin.stale_sources(read_sealed(path / "run.json"))
    assert not origin.flags({"spec": read_sealed(path / "run.json")["spec"]})


def test_seeds_of_different_code_are_no_one_codes_numbers(tmp_path):
    made = {"data": {"digest": "d" * 64, "official": None}}
    runs = [
        make_run(tmp_path, seed=seed, sources={"method": str(seed) * 64, "core": "c" * 64}, **made)
        for seed in (1, 2)
    ]
    same = make_run(tmp_path, seed=3, sources={"method": "1" * 64, "core": "c" * 64}, **made)
    assert all("mixed_code" in u.flags for u in collect(list(map(api.load, runs))).utility)
    alike = collect([api.load(runs[0]), api.load(same)])
    assert not any("mixed_code" in u.flags for u in alike.utility)
    edited(same / "run.json", lambda meta: meta.pop("sources"))  # it does not say
    unknown = collect([api.load(runs[0]), api.load(same)])
    assert not any("mixed_code" in u.flags for u in unknown.utility)


def test_the_core_is_what_decides_a_runs_bytes():
    reached = sources._reached(origin.CORE)
    for name in ("federation.federation", "federation.evaluate", "models.networks", "base.streams"):
        assert f"leakbench.{name}" in reached
    for name in ("record.recorder", "record.policy", "record.rounds", "data.splits"):
        assert f"leakbench.{name}" in reached
    rooms = {name.split(".")[1] for name in reached}
    assert not rooms & {"reporting", "results", "judging", "gate", "scoring", "cli", "attacking"}


def test_the_gate_judges_no_row_of_mixed_or_stale_code():
    assert {"mixed_code", "stale_run"} <= set(BLOCKING)
