"""A record without a folder of its own is a run like any other, as long as somebody holds it."""

import gc

from helpers.own_loops import loop, observe

import leakbench as lb


def recorded(out):
    with observe(out) as seen:
        loop(seen, 1, 2)
    return seen


def test_it_is_attacked_and_reported_as_a_run(tmp_path):
    numbers = []
    for out in (None, tmp_path / "runs"):
        seen = recorded(out)
        rows = lb.attack(seen, "label_inference", source="update").rows
        numbers.append([{k: v for k, v in row.items() if k != "commit"} for row in rows])
        place = lb.report([seen], tmp_path / f"report-{out is None}", formats=("csv",))
        assert "label_inference" in (place / "tradeoff.csv").read_text()
    assert numbers[0] == numbers[1] != []


def test_it_is_gone_with_its_object():
    seen = recorded(None)
    folder = seen.run.path
    assert (folder / "run.json").exists()
    del seen
    gc.collect()
    assert not folder.parent.exists()


def test_two_do_not_meet():
    one, other = recorded(None), recorded(None)
    assert one.run.path != other.run.path
    assert one.run.meta["files"] == other.run.meta["files"]
