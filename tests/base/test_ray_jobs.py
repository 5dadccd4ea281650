"""Jobs on a Ray cluster: two nodes on this machine, which see its disk, or are refused."""

from __future__ import annotations

import importlib
import os
import threading
import time
from contextlib import chdir
from importlib.util import find_spec
from pathlib import Path

import pytest
from helpers import ray_cluster as clusters
from helpers.jobs import double, fault, jobs, lasts, many, pid, speaks, waits, wrong

from leakbench.attacking import choices
from leakbench.base import nodes, ray_cluster
from leakbench.base.errors import UsageError
from leakbench.base.executors import Executor, executor
from leakbench.base.files import digests, read_sealed
from leakbench.base.jobs import Job, Outcome
from leakbench.record import folders
from leakbench.record.runspec import make_spec
from leakbench.record.training import threads
from leakbench.work import pipeline

# Not imported: Ray reads at its first import what leakbench tells it, as of `uv run`.
if find_spec("ray") is None:
    pytest.skip("ray is not installed", allow_module_level=True)
slow = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster():
    """(address, the second node's process)."""
    try:
        with clusters.two_nodes() as found:
            yield found
    except clusters.NoCluster as error:
        pytest.skip(str(error))


@pytest.fixture
def ray(cluster):
    """An executor on it."""
    return executor(f"ray:{cluster[0]}")


def spec_of(seed):
    return make_spec(defense="fedgn", task="digits", rounds=3, seed=seed, called="")


def trainings(out):
    specs = [spec_of(seed) for seed in (0, 1)]
    return [
        Job(s.folder(), pipeline.train, (s, str(out), "cpu"), folder=str(out / s.folder()))
        for s in specs
    ]


def attacks(out):
    chosen = choices.build("prototype_leakage", {})
    made = []
    for run in folders.find([out]):
        args = (str(run.path), chosen.name, chosen.attack.parameters(), "cpu")
        made.append(Job(run.id, pipeline.attack, args, folder=str(run.path)))
    return made


def contents(out):
    """Of runs and attacks: every byte, but for how long an attack took."""
    found = digests(out)
    for name in [n for n in found if n.endswith("attack.json")]:
        meta = read_sealed(out / name)
        found[name] = {k: v for k, v in meta.items() if k not in ("seconds", "digest")}
    return found


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """What the same jobs make here, with one thread, in the folder `runs` that commands name."""
    at = tmp_path_factory.mktemp("local")
    with threads(1), chdir(at):
        for make in (trainings, attacks):
            assert not [o.error for o in Executor().run(make(Path("runs"))) if o.error]
    return contents(at / "runs")


@slow
def test_outcomes_come_in_order_with_their_news_and_what_was_said(ray, capsys):
    told = []
    asked = [
        *jobs(double, 1),
        *jobs(wrong, "usage", "broken", "method"),
        *jobs(many, 5),
        *jobs(pid, 3),
        *jobs(speaks, 7),
    ]
    done = ray.run(asked, tell=lambda *news: told.append(news))
    where = f" (on node {nodes.name()})."
    assert [o.name for o in done] == [j.name for j in asked]
    assert done[:5] == [
        Outcome("job 1", 2),
        Outcome("job usage", error=f"usage is wrong{where}", wrong=True),
        Outcome("job broken", error=f"broken is wrong{where}", wrong=True, damaged=True),
        Outcome("job method", error="method is wrong."),
        Outcome("job 5", 5),
    ]
    assert done[5].value[0] != os.getpid()
    assert done[5].value[1] == 1  # thread
    steps = [n[1] for n in told if n[0] == "job 5"]
    assert 1 <= len(steps) < 100
    assert steps == sorted(steps)
    assert "7 was said\n" in capsys.readouterr().err
    (failed,) = ray.run(jobs(fault, 1))
    assert "a fault of leakbench itself: KeyError: 'a fault of ours'" in failed.error
    assert "KeyError: 'a fault of ours'" in failed.fault
    long = Job("long", double, (1,), seconds=600)
    assert [o.left_out for o in ray.run([long, *jobs(double, 1)], budget=300)] == [True, False]


@slow
def test_runs_and_attacks_are_the_same_bytes_as_here(ray, local, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    out = Path("runs")
    for make in (trainings, attacks):
        done = ray.run(make(out))
        assert [o.error for o in done] == ["", ""]
    assert {str(o.value).rpartition("/attacks/")[0] for o in done} == {
        str(out / spec_of(s).folder()) for s in (0, 1)
    }
    assert contents(tmp_path / "runs") == local
    assert sorted(p.name for p in (tmp_path / "runs").iterdir()) == sorted(
        spec_of(s).folder() for s in (0, 1)
    )
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "runs").rglob("*") if p.is_file()}
    again = ray.run(trainings(out))
    assert [o.value.skipped for o in again] == [True, True]
    assert {p: p.stat().st_mtime_ns for p in before} == before
    folders.load(out / spec_of(0).folder()).check()


@slow
def test_a_folder_that_the_nodes_do_not_see_is_refused_before_anything_is_made(
    ray, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    # Of another process this path leads elsewhere: so it is on a machine with another disk.
    unseen = "Ray's nodes write into one folder, and node .+ does not see what .+ has at {}: choose"
    with pytest.raises(UsageError, match=unseen.format("/proc/self/cwd/runs")):
        ray.run(trainings(Path("/proc/self/cwd/runs")))
    assert [*tmp_path.rglob("*")] == [tmp_path / "runs"]


@slow
def test_an_interruption_ends_the_jobs_in_order(ray, tmp_path):
    def tell(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ray.run(jobs(lasts, str(tmp_path)), tell=tell)
    assert (tmp_path / "interrupted").exists()


@slow
def test_a_plugin_that_a_node_lacks_and_a_share_that_none_has_are_refused(
    ray, cluster, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("x = 1\n")
    with pytest.raises(UsageError, match=r"no node of the cluster has 1 CPUs and 0.5 GPUs"):
        executor(f"ray:{cluster[0]}", gpus=0.5).run(jobs(double, 1))
    monkeypatch.setenv("LEAKBENCH_PLUGINS", "/proc/self/cwd/mine.py")
    with pytest.raises(UsageError, match=r"has plugin /proc/self/cwd/mine.py: none, and"):
        ray.run(jobs(double, 1))


@slow
def test_a_node_that_dies_loses_its_job_alone_and_another_does_it(cluster, tmp_path, capsys):
    address, node = cluster
    here = [Job(f"job {n}", waits, (str(tmp_path), n)) for n in "ab"]

    def cut():
        end = time.monotonic() + 120
        while time.monotonic() < end:
            found = {n: tmp_path / n for n in "ab" if (tmp_path / n).exists()}
            if len(found) == 2:
                clusters.kill_machine(node)
                break
            time.sleep(0.1)
        time.sleep(1)
        (tmp_path / "go").touch()

    thread = threading.Thread(target=cut)
    thread.start()
    try:
        done = executor(f"ray:{address}").run([*here, *jobs(double, 1)])
    finally:
        thread.join()
    assert [(o.value, o.error) for o in done] == [("a", ""), ("b", ""), (2, "")]
    begun = {n: (tmp_path / n).read_text().split() for n in "ab"}
    lost = [n for n, parents in begun.items() if parents[0] == str(node)]
    assert len(lost) == 1
    assert len(begun[lost[0]]) == 2
    assert f"job {lost[0]}: its process or its node was lost; it is given out again" in (
        capsys.readouterr().err
    )


def test_without_ray_it_is_said_how_to_install_it(monkeypatch):
    def missing(name):
        raise ImportError("No module named 'ray'")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(UsageError, match=r"pip install 'leakbench\[ray\]', here and on every node"):
        ray_cluster.imported()


@pytest.mark.parametrize(
    ("has", "cpus", "gpus", "room"),
    [
        ({"CPU": 8.0}, 1, 0.0, 8),
        ({"CPU": 8.0}, 3, 0.0, 2),
        ({"CPU": 8.0}, 1, 0.25, 0),
        ({"CPU": 8.0, "GPU": 2.0}, 1, 0.3, 6),  # three on each: no job has parts of two
        ({"CPU": 8.0, "GPU": 2.0}, 1, 2.0, 1),
        ({}, 1, 0.0, 0),
    ],
)
def test_room_is_counted_by_cores_and_shares_of_one_gpu(has, cpus, gpus, room):
    assert ray_cluster.slots({"Resources": has}, cpus, gpus) == room


class Started:
    """Ray as far as it is asked here: what it was told, and what the environment said then."""

    def __init__(self, error=None):
        self.error, self.told, self.environment = error, [], []

    def is_initialized(self):
        return False

    def init(self, address, **how):
        self.told.append((address, how.get("_node_ip_address")))
        self.environment.append(dict(os.environ))
        if self.error:
            raise self.error

    def cluster_resources(self):
        return {"CPU": 1.0}

    def shutdown(self):
        pass


@pytest.fixture
def environment(monkeypatch):
    """Of a machine on which somebody else began a cluster."""
    for name in ray_cluster._JOINING:
        monkeypatch.setenv(name, "10.9.9.9:6379")


@pytest.mark.parametrize("on", ["ray", "ray:local"])
def test_no_cluster_is_joined_that_the_command_does_not_name(monkeypatch, environment, on):
    made = Started()
    monkeypatch.setattr(ray_cluster, "imported", lambda: made)
    with ray_cluster.connected(executor(on).address):
        pass
    assert made.told == [("local", "127.0.0.1")]
    assert not set(ray_cluster._JOINING) & set(made.environment[0])
    assert set(ray_cluster._JOINING) <= set(os.environ)


def test_the_cluster_that_is_there_is_joined_where_the_command_says_so(monkeypatch):
    made = Started()
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray_cluster, "imported", lambda: made)
    with ray_cluster.connected(executor("ray:auto").address):
        pass
    assert made.told == [("auto", None)]


@pytest.mark.parametrize("on", ["ray", "ray:auto", "ray:nowhere"])
@pytest.mark.parametrize(
    "error",
    [
        AssertionError(),
        KeyError("raylet"),
        SystemExit(1),
        TimeoutError("no answer\nafter 30 s"),
        type("RaySystemError", (Exception,), {})("its own\n  traceback"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_ray_raises_at_its_start_is_one_sentence(monkeypatch, error, on):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray_cluster, "imported", lambda: Started(error))
    with pytest.raises(UsageError) as said, ray_cluster.connected(executor(on).address):
        pass
    assert "\n" not in str(said.value)
    assert str(said.value).endswith(".")


def test_a_ray_that_cannot_be_imported_is_one_sentence(monkeypatch):
    def fails(name):
        raise TypeError("Descriptors cannot be created directly.\nof protobuf")

    monkeypatch.setattr(ray_cluster.importlib, "import_module", fails)
    with pytest.raises(UsageError, match=r"needs the package ray \(Descriptors"):
        ray_cluster.imported()
