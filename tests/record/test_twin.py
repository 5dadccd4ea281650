"""The golden twin: whether two codes train alike, told by a run of three rounds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from defenses.ccvr import CCVR
from defenses.fedgen import FedGen
from defenses.fedprox import FedProx
from leakbench.federation.task import Task
from leakbench.record import twin
from leakbench.record.runspec import make_spec
from leakbench.reproduce.plan import plan
from leakbench.reproduce.recipe import UTILITY, Case, Measure, Recipe, Scale, Setup
from leakbench.reproduce.row import Row, read_rows, write_rows

TASK = {"model": "mlp", "width": 8, "dim": 8, "evaluations": 10}


def spec(defense="fedavg", *, rounds=9, seed=0, params=(), **more):
    given = {"fraction": 0.3, "epochs": 1} | dict(params)
    how = {"task": "digits", "task_params": TASK, "params": given} | more
    return make_spec(defense, rounds=rounds, seed=seed, **how)


@pytest.fixture(scope="module")
def plain():
    return twin.twin_of(spec())


def test_the_same_run_has_the_same_twin_however_long_it_is(plain):
    assert twin.twin_of(spec()) == plain
    assert twin.twin_of(spec(rounds=30)) == plain
    assert twin.twins_alike(plain, twin.twin_of(spec(engine="loop")))


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 1},
        {"rounds": 2},
        {"params": {"lr": 0.02}},
        {"params": {"average": "weighted"}},
        {"defense": "fedprox", "params": {"mu": 0.1}},
        {"wrappers": [("clip_noise", {"noise": 0.01})]},
        {"task_params": {**TASK, "split": "dir", "split_param": 0.5}},
        {"task_params": {**TASK, "width": 16}},
    ],
    ids=str,
)
def test_another_run_has_another(plain, other):
    assert not twin.twins_alike(plain, twin.twin_of(spec(**other)))


def test_the_smallest_weight_of_a_papers_sweep_shows():
    without, least = (twin.twin_of(spec("fedprox", params={"mu": mu})) for mu in (0.0, 0.01))
    assert not twin.twins_alike(without, least)


def test_what_is_not_known_is_not_alike(plain):
    assert twin.twins_alike(plain, plain)
    assert not twin.twins_alike(plain, None)
    assert not twin.twins_alike({}, {})
    assert not twin.twins_alike(plain, {k: v for k, v in plain.items() if k != "model"})
    assert not twin.twins_alike(plain, {k: [*v, 0.0] for k, v in plain.items()})


def test_a_last_bit_is_no_difference_and_a_thousandth_is(plain):
    def times(factor):
        own = {k: v for k, v in plain.items() if k != "data"}  # which is a digest
        return plain | {k: [factor * x for x in v] for k, v in own.items()}

    assert twin.twins_alike(plain, times(1 + 1e-6))
    assert not twin.twins_alike(plain, times(1.001))


@pytest.mark.parametrize(
    ("name", "owner", "rule"),
    [("fedprox", FedProx, "loss"), ("ccvr", CCVR, "after"), ("fedgen", FedGen, "loss")],
)
def test_another_rule_of_a_method_shows(monkeypatch, name, owner, rule):
    """Also one that comes after the last round (CCVR), or begins after the fifth (FedGen)."""
    asked = spec(name, rounds=20, params={"begin": 5} if name == "fedgen" else {})
    made = twin.twin_of(asked)
    assert twin.twins_alike(made, twin.twin_of(asked))
    monkeypatch.delattr(owner, rule)
    assert not twin.twins_alike(made, twin.twin_of(asked))


CASE = Case("FedAvg", "fedavg", {"fraction": 0.3, "epochs": 1})
SETUP = Setup("digits", "digits", 9, TASK)
SCALES = {"smoke": Scale("s", (SETUP,))}
RECIPE = Recipe("t", "flea", "T.", (CASE,), (Measure(UTILITY, "u"),), SCALES)


def test_the_installed_code_is_asked_by_seed(plain):
    case = plan(RECIPE, "smoke", seeds=(0, 1))[0]
    assert case.trains_as(plain, 0)
    assert not case.trains_as(plain, 1)
    assert not case.trains_as(plain, 2)
    assert not case.trains_as(None, 0)


def test_where_the_data_are_not_here_nothing_is_known(tmp_path, monkeypatch, plain):
    """And none are fetched for it."""
    monkeypatch.setenv("LEAKBENCH_DATA", str(tmp_path))
    monkeypatch.setattr(Task, "load", lambda self: pytest.fail("data were looked for"))
    case = plan(RECIPE, "smoke")[0]
    assert not replace(case, setup=replace(SETUP, needs="mnist")).trains_as(plain, 0)
    assert not replace(case, specs=()).trains_as(plain, 0)


def test_a_table_keeps_it(tmp_path, plain):
    row = Row(recipe="t", scale="s", dataset="d", task="digits", label="a", measure="u", metric="m")
    made = {"label": "b", "twin": plain, "runs": ("r-s0",), "commit": ("c",)}
    rows = [row.model_copy(update=made), row]
    write_rows(tmp_path / "s.csv", rows)
    assert [r.twin for r in read_rows(tmp_path / "s.csv")] == [plain, None]
