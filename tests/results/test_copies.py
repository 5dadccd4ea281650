"""A copy of a run is no second seed; two seeds of any method are no copies."""

import shutil

import pytest
from helpers.federations import short
from helpers.run_folders import called, edited
from helpers.small_runs import TASK, copied, trained

from leakbench import api
from leakbench.base import registry
from leakbench.base.errors import UsageError
from leakbench.base.files import digests
from leakbench.gate.rows import gate_rows
from leakbench.record.folders import load
from leakbench.results.copies import no_copies
from leakbench.results.tables import collect


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    return [trained(out, "fedgn", rounds=3, seed=s) for s in (0, 1)]


def as_seed(path, seed):
    """What somebody does who wants one more seed without training it."""

    def change(meta):
        meta["spec"]["seed"] = seed
        meta["id"] = called(meta["spec"])

    edited(path / "run.json", change)


def test_a_copy_with_another_seed_is_refused_by_name(seeds, tmp_path):
    one = copied(seeds[0], tmp_path)
    for seed in range(2, 9):
        shutil.copytree(one.path, tmp_path / f"copy{seed}")
        as_seed(tmp_path / f"copy{seed}", seed)
    runs = [one, *(load(tmp_path / f"copy{s}") for s in range(2, 9))]
    with pytest.raises(UsageError, match=r"copy2 are called seeds 0 and 2 .* is the same in both"):
        collect(runs)
    with pytest.raises(UsageError, match="one is a copy"):
        gate_rows(collect(runs[:2]).settings)


@pytest.mark.parametrize(
    "name", ["transcript/round-000002", "truth/round-000003", "checkpoint/model"]
)
def test_one_file_that_is_the_same_is_enough(seeds, tmp_path, name):
    first, second = (copied(run, tmp_path / str(run.seed)) for run in seeds)
    collect([first, second])
    shutil.copy(first.path / f"{name}.safetensors", second.path / f"{name}.safetensors")
    files = digests(second.path, without=("attacks/", "run.json"))
    edited(second.path / "run.json", lambda meta: meta.update(files=files))
    with pytest.raises(UsageError, match=f"{name}.safetensors is the same in both"):
        collect([first, load(second.path)])


@pytest.mark.parametrize("defense", sorted(registry.names("defenses")))
def test_two_seeds_of_a_method_are_never_taken_for_copies(defense, tmp_path):
    task = registry.load_plugin("tasks", "digits").build(TASK, "task digits")
    try:
        task.suits(registry.load_plugin("defenses", defense).build(task.defaults(defense), defense))
    except UsageError:
        pytest.skip("does not suit the task")
    given = {"task_params": TASK, "rounds": 4, "device": "cpu", "params": short(defense)}
    # Round 3 is not audited: little is kept of it, or nothing.
    made = [api.train(defense, out=tmp_path, seed=s, **given) for s in (0, 1)]
    no_copies(made)
    assert len({r.seed for r in made}) == 2


def test_rounds_in_which_nothing_is_drawn_are_no_sign_of_a_copy(tmp_path):
    """FedGen's clients send how many examples they have of each class, all in every round."""
    given = {"task_params": TASK, "rounds": 12, "device": "cpu", "params": {"fraction": 1.0}}
    made = [api.train("fedgen", out=tmp_path, seed=s, **given) for s in (0, 1)]
    same = [
        name
        for name, sha in made[0].meta["files"].items()
        if made[1].meta["files"].get(name) == sha and name.startswith(("transcript/", "truth/"))
    ]
    assert any("-000000" not in name for name in same)
    no_copies(made)
