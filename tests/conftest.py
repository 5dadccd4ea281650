"""What all test files share: one thread each, here and in every process that a test starts."""

import os
import sys

import pytest
from helpers.tiers import PARTS, drawn_as, named, part_of, slow

# Before torch is imported: two workers share two cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Compiled Python is kept: else each of some forty processes compiles torch and scipy anew, seconds.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


# They take longest, and one that begins last would leave the other workers idle.
FIRST = (
    "test_notebook.py::test_it_runs_as_it_stands",
    "test_tutorials.py::test_a_tutorial_does_what_it_says",
    "test_examples.py::test_the_pull_request_of_the_project_leaks_more",
    "test_separation.py::test_every_registered_method_in_processes_of_its_own",
    "test_report_size.py::test_the_page_of_many_runs_keeps_to_its_budget",
    "test_campaigns.py::test_a_few_kills",
)


def pytest_addoption(parser):
    """``--slow-part``: as `.ci/run` asks, which draws it from the commit."""
    about = f"of the slow tests only this part, 0 to {PARTS - 1}; else all that -m selects"
    parser.addoption("--slow-part", type=int, choices=range(PARTS), help=about)


@pytest.hookimpl(tryfirst=True)  # before -m asks
def pytest_collection_modifyitems(config, items):
    """The longest first; all others stay beside those with which they share a module's fixtures."""
    names = named()
    for item in items:
        if slow(item.nodeid, names):
            item.add_marker("slow")
    part = config.getoption("--slow-part")
    if part is not None:
        long = [item for item in items if item.get_closest_marker("slow")]
        left = {item for item in long if part_of(_drawn_as(item, names)) != part}
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]
    items.sort(key=lambda item: not any(name in item.nodeid for name in FIRST))


def _drawn_as(item, names):
    file = item.getparent(pytest.Module)
    return drawn_as(item.nodeid, names, whole=any(m.name == "slow" for m in file.own_markers))


@pytest.fixture(scope="session", autouse=True)
def _no_wait_for_the_disk():
    """What a test writes need not outlive a power cut."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(autouse=True)
def _threads_stay():
    """A test that leaves another number of threads makes all after it ten times slower, and lets
    their last bits differ.
    """
    import torch  # not above: the process that only hands out the tests needs none

    before = torch.get_num_threads()
    yield
    assert torch.get_num_threads() == before


@pytest.fixture(scope="module", autouse=True)
def _given_methods_go():
    """What a module's tests register by name, or find by a file, is no method of those after it,
    which would ask its file each time they ask for any method.
    """
    from leakbench.base import plugins, registry

    before = {kind: dict(given) for kind, given in registry._given.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(plugins.VARIABLE, os.environ.get(plugins.VARIABLE, ""))
        yield
    for kind, given in registry._given.items():
        given.clear()
        given.update(before.get(kind, {}))


@pytest.fixture(scope="session")
def task():
    """Digits with an MLP of eight hidden units and an embedding of eight."""
    from helpers.federations import digits

    return digits()


@pytest.fixture(scope="session")
def data(task):
    """Its data: ten clients with one digit each."""
    return task.load()


@pytest.fixture
def reproduce_cli(capsys, monkeypatch, tmp_path):
    """`leakbench reproduce ...` in a folder of its own: (exit code, stdout, stderr), never a
    traceback.
    """
    from leakbench.cli import run as run_cli

    monkeypatch.chdir(tmp_path)

    def call(*argv):
        capsys.readouterr()
        code = run_cli(["reproduce", *map(str, argv)])
        done = capsys.readouterr()
        assert "Traceback" not in done.err
        return code, done.out, done.err

    return call
