"""`leakbench train --data`: data of one's own from the command line, without a line of code."""

import shlex
import subprocess
import sys

import numpy as np
import pytest
from helpers.own_loops import net
from PIL import Image

import leakbench as lb
from leakbench.base import registry
from leakbench.base.errors import UsageError
from leakbench.base.files import read_sealed
from leakbench.own.data_task import write_data_task

HOW = {"clients": None, "label": "", "client": ""}


def pictures(folder, many=20):
    dice = np.random.default_rng(0)
    for kind in ("cat", "dog"):
        (folder / kind).mkdir(parents=True)
        for i in range(many):
            noise = dice.integers(0, 255, (32, 32, 3), dtype=np.uint8)
            Image.fromarray(noise).save(folder / kind / f"{i}.png")
    return folder


def arrays(file):
    dice = np.random.default_rng(0)
    np.savez(file, x=dice.random((60, 1, 8, 8), dtype=np.float32), y=np.arange(60) % 3)
    return file


def table(file):
    dice = np.random.default_rng(0)
    lines = [f"{a:.4f},{b:.4f},{i % 2},h{i % 4}" for i, (a, b) in enumerate(dice.random((80, 2)))]
    file.write_text("\n".join(["age,dose,ill,hospital", *lines]) + "\n")
    return file


def test_it_trains_and_is_attacked(tmp_path):
    def run(*words):
        line = [sys.executable, "-m", "leakbench", *words]
        return subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)

    arrays(tmp_path / "waves.npz")
    trained = run("train", "--data", "waves.npz", "--clients", "4", "-d", "fedavg", "--rounds", "2")
    assert trained.returncode == 0, trained.stderr
    assert "waves-fedavg" in trained.stdout
    assert "attack its runs with --plugin runs/waves-task.py" in trained.stderr
    plugin = ("--plugin", "runs/waves-task.py")
    attacked = run("attack", "runs", *plugin, "-a", "label_inference", "-s", "source=update")
    assert attacked.returncode == 0, attacked.stderr
    assert "label_overlap" in attacked.stdout
    for words in (("-t", "digits", "--data", "waves.npz"), ("--label", "ill")):
        refused = run("train", "-d", "fedavg", *words)
        assert refused.returncode == 2
        assert "--data" in refused.stderr


def data_of(file):
    made = registry.load_plugin("tasks", registry.task_in(str(file)))
    return made.held


@pytest.mark.parametrize(
    ("make", "name", "how", "clients", "shape", "classes"),
    [
        (pictures, "My Faces", {"clients": 3}, 3, (3, 32, 32), 2),
        (arrays, "waves.npz", {}, 10, (1, 8, 8), 3),
        (table, "ill.csv", {"label": "ill", "client": "hospital"}, 4, (2,), 2),
        (table, "other.csv", {"label": "ill", "clients": 5}, 5, None, 2),
        (arrays, "digits.npz", {}, 10, (1, 8, 8), 3),  # which is a task's name already
    ],
)
def test_the_file_reads_the_data(tmp_path, make, name, how, clients, shape, classes):
    where = make(tmp_path / name)
    file = write_data_task(where, tmp_path / "runs", **{**HOW, **how})
    held = data_of(file)
    assert len(held) == clients
    assert held.classes == classes
    assert shape is None or held.shape == shape
    again = write_data_task(where, tmp_path / "runs", **{**HOW, **how})
    assert again == file
    with pytest.raises(UsageError, match="is there and says otherwise"):
        write_data_task(where, tmp_path / "runs", **{**HOW, **how, "clients": 7, "client": ""})


def test_a_name_that_is_code_stays_a_name(tmp_path):
    """Whatever a folder is called, it is read and not run."""
    where = arrays(tmp_path / '"""+NAME;READ;x=1#.npz')
    file = write_data_task(where, tmp_path / "runs", **HOW)
    assert len(data_of(file)) == 10
    assert str(where) in ast_texts(file)


def test_commands_name_the_file_or_there_is_none(tmp_path):
    def commands(task):
        run = lb.train("fedavg", task=task, rounds=1, out=tmp_path / "runs")
        told = lb.attack(run, "label_inference", source="update").path
        return [shlex.split(read_sealed(p / f)["command"]) for p, f in files(run, told)]

    def files(run, told):
        return (run.path, "run.json"), (told, "attack.json")

    file = write_data_task(arrays(tmp_path / "tides.npz"), tmp_path / "runs", **HOW)
    for words in commands(registry.task_in(str(file))):
        assert words[-2:] == ["--plugin", str(file.absolute())]
    x, y = np.random.default_rng(0).random((40, 5), dtype=np.float32), np.arange(40) % 2
    made = lb.task("by-hand", lb.clients(x, y, clients=4), model=net)
    assert commands(made) == [[], []]


def ast_texts(file):
    import ast

    tree = ast.walk(ast.parse(file.read_text()))
    return [n.value for n in tree if isinstance(n, ast.Constant) and isinstance(n.value, str)]


@pytest.mark.parametrize(
    ("make", "name", "how", "said"),
    [
        (None, "gone", {}, "is not there: expected a folder"),
        (lambda p: p.write_text("x") and p, "a.txt", {}, "is no such data"),
        (table, "a.csv", {}, "say --label COLUMN"),
        (table, "a.csv", {"label": "ill", "client": "hospital", "clients": 3}, "one of the two"),
        (arrays, "a.npz", {"label": "ill"}, "are of a table"),
        (arrays, "---.npz", {}, "no letter or digit"),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path, make, name, how, said):
    where = make(tmp_path / name) if make else tmp_path / name
    with pytest.raises(UsageError, match=said):
        write_data_task(where, tmp_path / "runs", **{**HOW, **how})
    assert not (tmp_path / "runs").exists()


def test_what_cannot_be_read_leaves_nothing_in_the_way(tmp_path):
    where = table(tmp_path / "misread.csv")
    with pytest.raises(UsageError, match="Did you mean 'ill'"):
        write_data_task(where, tmp_path / "runs", **{**HOW, "label": "il"})
    assert not list(tmp_path.glob("runs/*"))
