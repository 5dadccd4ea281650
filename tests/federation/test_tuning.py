"""What was measured on this machine decides how rounds train, and never makes them slower."""

import json

import pytest
from helpers.federations import federation

from leakbench import Defense, UsageError, cli
from leakbench.federation import tuned, tuning

LOCAL = {"steps": 3, "batch": 8}
FAST_STACKED = {"loop": 1.0, "stacked": 0.5, "threads": 0.7}
FAST_THREADS = {"loop": 1.0, "stacked": 0.8, "threads": 0.7}
HARDLY = {"loop": 1.0, "stacked": 0.97, "threads": 0.96}


@pytest.fixture
def table(tmp_path, monkeypatch):
    path = tmp_path / "cache" / "ways.json"
    monkeypatch.setenv("LEAKBENCH_WAYS", str(path))
    tuned._read.cache_clear()
    yield path
    tuned._read.cache_clear()


def tune(monkeypatch, took, **how):
    monkeypatch.setattr(tuning, "_timed", lambda fed: fed.step() or took[fed.engine])
    return tuning.tune(lambda way: federation("fedprox", way, **LOCAL, **how), 3)


def way(name="fedprox", **how):
    fed = federation(name, **{**LOCAL, **how})
    fed.begin()
    fed.step()
    return fed.phases["loss"]


@pytest.mark.parametrize(
    ("took", "best"), [(FAST_STACKED, "stacked"), (FAST_THREADS, "threads"), (HARDLY, "loop")]
)
def test_rounds_go_by_what_was_the_fastest(table, monkeypatch, took, best):
    assert way() == "stacked"  # by size
    found = tune(monkeypatch, took)
    assert (found.way, found.seconds, found.without) == (best, took, {})
    assert way() == best


def test_what_was_measured_of_other_work_decides_nothing(table, monkeypatch):
    tune(monkeypatch, FAST_THREADS)
    assert way() == "threads"
    assert way("feddecorr") == way(batch=9) == way(steps=4) == way(fraction=0.5) == "stacked"
    monkeypatch.setattr(tuned.torch, "get_num_threads", lambda: 3)
    assert way() == "stacked"


def test_a_way_that_does_not_work_is_named_and_not_used(table, monkeypatch):
    def refused(*_):
        raise RuntimeError("vmap cannot do this\nand more")

    monkeypatch.setattr("leakbench.federation.execution.stacked", refused)
    found = tune(monkeypatch, FAST_STACKED)
    assert found.way == "threads"
    assert found.without == {"stacked": "vmap cannot do this"}


def test_a_damaged_table_is_said_and_passed_over(table, monkeypatch, capsys):
    tune(monkeypatch, FAST_THREADS)
    for text in ("{", "[1]", '{"a": 1}'):
        table.write_text(text)
        tuned._read.cache_clear()
        assert way() == "stacked"
        assert "run leakbench tune again" in capsys.readouterr().err
    table.write_text(json.dumps({k: {"way": "fast"} for k in ["x"]}))
    tuned._read.cache_clear()
    assert way() == "stacked"


def test_the_command_measures_and_keeps(table, capsys):
    small = ["task.width=8", "fedprox.epochs=0", "fedprox.steps=2", "fedgn.steps=2"]
    given = [word for value in small for word in ("-s", value)]
    assert cli.run(["tune", "-d", "fedprox,fedgn", *given, "--rounds", "1", "--json"]) == 0
    out, err = capsys.readouterr()
    rows = json.loads(out)
    assert [r["way"] for r in rows if r["defense"] == "fedprox"] == ["loop", "stacked", "threads"]
    assert [r["used"] for r in rows if r["defense"] == "fedprox"].count("*") == 1
    assert len(json.loads(table.read_text())) == 2
    assert "kept in" in err
    assert cli.run(["tune", "-d", "fedgn", "--json"]) == 0
    assert "its rounds are fused" in capsys.readouterr().err


class Idle(Defense):
    """Only the server speaks."""

    def round(self, fed):
        fed.server(self.downlink)


def test_nobody_trains():
    with pytest.raises(UsageError, match="nobody trains"):
        tuning.tune(lambda way: federation(Idle(), way), 1)
