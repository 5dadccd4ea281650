"""What is there is made again where other code, another run or another version made it."""

from __future__ import annotations

import shutil

import pytest
from helpers.run_folders import edited
from helpers.small_runs import PLAIN, again, build, copied, plugged, source, trained

from leakbench import api
from leakbench.attacking import guessing
from leakbench.attacking.attack_state import standing
from leakbench.base.errors import BrokenFile, MethodError
from leakbench.base.files import file_digest, read_sealed
from leakbench.base.reason import reason
from leakbench.record import attack_code
from leakbench.record.folders import load
from leakbench.results import units
from leakbench.scoring import score
from leakbench.work import pipeline

WEAK = PLAIN.replace("m.payload", "-m.payload")
NAME = "prototype_leakage"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("runs"), rounds=3, params={"sigma": 0.5}, seed=3)


@pytest.fixture
def forget():
    """As if another process asked which code is installed."""

    def clear():
        attack_code.installed_sources.cache_clear()
        attack_code._digest.cache_clear()

    clear()
    yield clear
    clear()


def p_leak(results):
    return next(r["value"] for r in results.rows if r["stage"] == "final")


def flags(run):
    return {flag for m in units.measured_of_run(load(run.path)) for flag in m.flags}


def test_an_attack_that_was_mended_is_run_again_and_flagged_until_then(run, tmp_path, forget):
    run = copied(run, tmp_path)
    with plugged("attacks", tmp_path, mine=source(WEAK)):
        weak = p_leak(api.attack(run, "mine"))
        assert standing(again(run), "mine", build("mine")).complete
        assert "stale_attack" not in flags(run)
    forget()
    with plugged("attacks", tmp_path, mine=source(PLAIN)):
        there = standing(again(run), "mine", build("mine"))
        assert (there.complete, there.guesses) == (False, None)
        assert there.why == reason("other_guesser", attack="mine")
        assert "stale_attack" in flags(run)
        # Scored again, they are still guesses of other code.
        scored = api.score(run, "mine")
        assert p_leak(scored) == weak
        assert all("stale_attack" in r["flags"] for r in scored.rows)
        assert "stale_attack" in flags(run)
        assert p_leak(api.attack(run, "mine")) > weak
        assert "stale_attack" not in flags(run)
    forget()
    assert "stale_attack" not in flags(run)  # not installed any more: nobody knows


def test_what_is_up_to_date_is_run_again_only_by_force(run, tmp_path, monkeypatch):
    run, ran = copied(run, tmp_path), []
    real = guessing.guessed
    monkeypatch.setattr(guessing, "guessed", lambda *a, **k: (ran.append(a[1]), real(*a, **k))[1])
    first = api.attack(run, NAME).rows
    assert api.attack(run, NAME).rows == first
    assert ran == [NAME]
    assert api.attack(run, NAME, force=True).rows == first
    assert ran == [NAME, NAME]


def test_what_was_damaged_is_made_again_by_force(run, tmp_path):
    run = copied(run, tmp_path)
    folder = api.attack(run, NAME).path
    (folder / "units.csv").write_text("role\n")
    with pytest.raises(BrokenFile, match=r"units.csv was changed"):
        api.attack(run, NAME)
    api.attack(run, NAME, force=True)
    assert units.measured_of_run(load(run.path))


def test_scored_by_other_code_it_is_scored_again_and_not_guessed_again(run, tmp_path, monkeypatch):
    run = copied(run, tmp_path)
    folder = api.attack(run, NAME).path
    edited(folder / "attack.json", lambda m: m["sources"].update(scoring="0" * 64))
    assert "stale_attack" in flags(run)
    before = standing(again(run), NAME, build(NAME))
    assert before.why == reason("other_scorer", attack=NAME)
    monkeypatch.setattr(guessing, "guessed", lambda *a, **k: pytest.fail("guessed again"))
    api.attack(run, NAME)
    assert "stale_attack" not in flags(run)
    assert standing(again(run), NAME, build(NAME)).complete


@pytest.mark.parametrize("lacks", ["scoring", "attack"])
def test_where_the_code_is_not_told_it_is_made_again(run, tmp_path, lacks):
    """Else its rows, flagged stale_attack, could not be brought up to date."""
    run = copied(run, tmp_path)
    folder = api.attack(run, NAME).path
    edited(folder / "attack.json", lambda m: m["sources"].pop(lacks))
    assert "stale_attack" in flags(run)
    assert not standing(again(run), NAME, build(NAME)).complete
    api.attack(run, NAME)
    assert "stale_attack" not in flags(run)


def test_guesses_that_a_killed_process_left_are_scored(run, tmp_path, monkeypatch):
    run = copied(run, tmp_path)
    left = guessing.guessed(again(run), NAME, build(NAME))
    assert load(run.path).attacks == ()
    guess = file_digest(left / "guess.safetensors")
    monkeypatch.setattr(guessing, "guessed", lambda *a, **k: pytest.fail("guessed again"))
    folder = api.attack(run, NAME).path
    assert file_digest(folder / "guess.safetensors") == guess
    assert not left.exists()


def test_guesses_that_were_left_are_not_taken_for_isolated_or_for_ours(run, tmp_path):
    run = copied(run, tmp_path)
    left = guessing.guessed(again(run), NAME, build(NAME))

    def found(**asked):
        return standing(again(run), NAME, build(NAME), **asked).guesses

    assert found() == left
    assert found(isolated=True) is None
    edited(left / "attack.json", lambda m: m.update(isolated=True))
    assert found(isolated=True) == left
    edited(left / "attack.json", lambda m: m.update(submitted=True))
    assert found() is None


def test_a_report_sees_the_old_numbers_until_the_new_ones_are_scored(run, tmp_path, monkeypatch):
    run, seen = copied(run, tmp_path), []
    before = [m.value for m in (api.attack(run, NAME), units.measured_of_run(load(run.path)))[1]]
    real = score.score

    def scored(*args, **kept):
        seen.append([m.value for m in units.measured_of_run(load(run.path))])
        return real(*args, **kept)

    monkeypatch.setattr(pipeline.scoring, "score", scored)
    api.attack(run, NAME, force=True)
    assert seen == [before]


def test_an_attack_that_fails_leaves_no_guess_of_an_earlier_one(run, tmp_path, forget):
    run = copied(run, tmp_path)
    with plugged("attacks", tmp_path, mine=source(PLAIN)):
        folder = api.attack(run, "mine").path
    forget()
    failing = source('raise RuntimeError("out of memory")')
    with (
        plugged("attacks", tmp_path, mine=failing),
        pytest.raises(MethodError, match="out of memory"),
    ):
        api.attack(run, "mine")
    assert [p.name for p in folder.iterdir()] == ["attack.json"]
    meta = read_sealed(folder / "attack.json")
    assert meta["status"] == "failed: RuntimeError: out of memory (mine.py, line 21)"
    assert meta["files"] == {}


def test_made_from_a_run_that_was_trained_again_since_it_is_run_again(run, tmp_path):
    """`of` says what the run held."""
    run = copied(run, tmp_path)
    first = api.attack(run, NAME).rows
    edited(run.path / "run.json", lambda m: m["files"].update({"diagnostics.csv": "0" * 64}))
    told = rf"was made from {run.id} \(content \w{{8}}\), and this run is {run.id} \(content"
    with pytest.raises(BrokenFile, match=told):
        units.measured_of_run(load(run.path))
    assert standing(again(run), NAME, build(NAME)).why.code == "other_messages"
    assert api.attack(run, NAME).rows == first
    assert units.measured_of_run(load(run.path))


def test_an_attack_of_another_run_is_refused_by_name(run, tmp_path):
    other = trained(tmp_path, rounds=3, params={"sigma": 0.5}, seed=4)
    folder = api.attack(other, NAME).path
    run = copied(run, tmp_path)
    shutil.copytree(folder, run.path / "attacks" / folder.name)
    told = rf"was made from {other.id} .*, and this run is {run.id} .*leakbench attack makes it"
    for read in (lambda: load(run.path).attacks, lambda: api.score(run, NAME)):
        with pytest.raises(BrokenFile, match=told):
            read()
    # With the names changed and sealed again its rows and guesses still say whose they are.
    here = run.path / "attacks" / folder.name
    edited(here / "attack.json", lambda m: m.update(of=load(run.path).named))
    told = rf"guess.safetensors was made from other messages than {run.id} holds"
    for read in (lambda: units.measured_of_run(load(run.path)), lambda: api.score(run, NAME)):
        with pytest.raises(BrokenFile, match=told):
            read()
    api.attack(run, NAME, force=True)
    for name in ("results.csv", "units.csv"):
        shutil.copy(folder / name, here / name)
    listed = {n: file_digest(here / n) for n in ("guess.safetensors", "results.csv", "units.csv")}
    edited(here / "attack.json", lambda m: m.update(files=listed))
    with pytest.raises(BrokenFile, match=rf"run is '{other.id}', of this run and attack"):
        units.measured_of_run(load(run.path))
