"""run.json and attack.json say nothing that was written into them by hand."""

import json

import pytest
from helpers.run_folders import add_attack, edited, make_run, measure

from leakbench.base.errors import BrokenFile
from leakbench.base.files import file_digest, read_sealed
from leakbench.record import folders


@pytest.fixture
def run(tmp_path):
    path = make_run(tmp_path)
    add_attack(path, "nearest", [measure("p_leak", [1] * 10, 0.1, [1] * 10)])
    return path


def by_hand(path, old, new):
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"sigma": 0.1', '"sigma": 0.001'),
        ('"chance": 0.1', '"chance": 0.5'),
        ('"hides": true', '"hides": false'),
        ('"status": "done"', '"status": "running"'),
        ('"seed": 0', '"seed": 1'),
    ],
)
def test_a_run_json_edited_by_hand_is_refused(run, old, new):
    by_hand(run / "run.json", old, new)
    with pytest.raises(BrokenFile, match=r"run\.json was changed or damaged"):
        folders.load(run)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"order": 0', '"order": 9'),
        ('"share": true', '"share": false'),
        ('"low": 0.0', '"low": -1.0'),
        ('"rung": "transcript"', '"rung": "public"'),
    ],
)
def test_an_attack_json_edited_by_hand_is_refused(run, old, new):
    (path,) = run.glob("attacks/*/attack.json")
    by_hand(path, old, new)
    with pytest.raises(BrokenFile, match=r"attack\.json was changed or damaged"):
        _ = folders.load(run).attacks


def test_a_run_json_of_before_is_refused_in_one_sentence(run):
    meta = json.loads((run / "run.json").read_text())
    del meta["digest"]
    (run / "run.json").write_text(json.dumps(meta | {"schema": 1}))
    with pytest.raises(BrokenFile, match="has no digest of itself"):
        folders.load(run)


def test_the_final_model_is_one_of_the_listed_files(run):
    listed = folders.load(run).meta["files"]
    assert listed["checkpoint/model.safetensors"] == file_digest(
        run / "checkpoint/model.safetensors"
    )
    assert "checkpoint/state.safetensors" not in listed


def test_the_content_of_a_run_is_that_of_its_files(run):
    before = folders.load(run).content
    edited(run / "run.json", lambda meta: meta.update(command="leakbench train"))
    assert folders.load(run).content == before
    edited(run / "run.json", lambda meta: meta["files"].update({"utility.csv": "0" * 64}))
    assert folders.load(run).content != before
    assert len(before) == 64
    assert "digest" in read_sealed(run / "run.json")
