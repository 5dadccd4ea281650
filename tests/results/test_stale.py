"""Numbers by other code of an attack than is installed, or than made the other seeds."""

from __future__ import annotations

from typing import Any

import pytest
from helpers.run_folders import add_attack, edited, make_run, measure

from leakbench.base.errors import BrokenFile, UsageError
from leakbench.gate.rows import gate_rows
from leakbench.record import attack_code
from leakbench.record.folders import load
from leakbench.results import tables

NAME = "prototype_leakage"
ONE, TWO = ("1" * 64, "2" * 64)


def collected(tmp_path, *sources, name=NAME, **more):
    """A setting with a seed for each of ``sources``, attacked."""
    runs = []
    for seed, made in enumerate(sources):
        run = make_run(tmp_path, seed=seed)
        row = measure("p_leak", [1.0] * 10, 0.1, [1.0] * 10)
        add_attack(run, name, [row], sources=made, **more)
        runs.append(load(run))
    return tables.collect(runs)


def flagged(found):
    return {n.attacker.name for n in found.numbers if "stale_attack" in n.flags}


def here(**changed: str) -> dict[str, str]:
    return {**attack_code.installed_sources(NAME), **changed}


@pytest.mark.parametrize("part", ["attack", "core", "scoring"])
def test_a_number_by_other_code_and_what_is_made_of_it_are_flagged(tmp_path, part):
    old = here(**{part: ONE})
    found = collected(tmp_path, old, old)
    assert flagged(found) == {NAME, "cascade", "any_attack"}
    assert all("stale_attack" in m.flags for _, m in found.results)
    rows = [r for r in gate_rows(found.settings) if not r.is_utility]
    assert all("stale_attack" in r.flags for r in rows)


def test_the_same_code_is_not(tmp_path):
    assert flagged(collected(tmp_path, here())) == set()


@pytest.mark.parametrize("lacks", ["attack", "core", "scoring"])
def test_code_that_nobody_knows_is_not_the_installed_one(tmp_path, lacks):
    some = {part: sha for part, sha in here().items() if part != lacks}
    assert flagged(collected(tmp_path / "some", some)) == {NAME, "cascade", "any_attack"}
    assert flagged(collected(tmp_path / "none", {})) == {NAME, "cascade", "any_attack"}


def test_an_attack_without_a_source_file_has_none_on_both_sides(tmp_path, monkeypatch):
    """As in a notebook: then its code is known of neither side, and is not stale."""
    notebook = {part: sha for part, sha in here().items() if part != "attack"}
    monkeypatch.setattr(attack_code, "installed_sources", lambda name: notebook)
    assert flagged(collected(tmp_path / "same", notebook)) == set()
    known = {**notebook, "attack": ONE}
    assert flagged(collected(tmp_path / "then", known)) == {NAME, "cascade", "any_attack"}


def test_of_an_attack_that_is_not_installed_nobody_knows(tmp_path):
    made: dict[str, Any] = {"attack": ONE, "core": ONE}
    assert flagged(collected(tmp_path, made, name="somebodys")) == set()


def test_the_method_that_was_replayed_must_be_the_one_that_was_trained(tmp_path):
    run = make_run(tmp_path, sources={"method": ONE, "core": TWO})
    row = measure("p_leak", [1.0] * 10, 0.1, [1.0] * 10)
    path = add_attack(run, NAME, [row], sources=here(method=ONE))
    assert flagged(tables.collect([load(run)])) == set()
    edited(path / "attack.json", lambda m: m["sources"].update(method=TWO))
    assert NAME in flagged(tables.collect([load(run)]))


@pytest.mark.parametrize(
    ("changed", "what"), [({"attack": TWO}, "made"), ({"core": TWO}, "made"), ({}, "scored")]
)
def test_seeds_by_different_code_are_not_pooled(tmp_path, changed, what):
    one = {"attack": ONE, "core": ONE, "scoring": ONE}
    two = {**one, **changed, "scoring": TWO}
    told = (
        rf"s0/attacks/{NAME}-\w+ and \S+s1/attacks/{NAME}-\w+ were {what} by different code of"
        rf" {NAME}, so they are not seeds of one number: leakbench attack brings both up to date"
    )
    with pytest.raises(UsageError, match=told):
        collected(tmp_path, one, one | two)


def test_the_gate_is_told_which_code_without_the_method_that_it_is_about(tmp_path):
    def code(name, made):
        rows = gate_rows(collected(tmp_path / name, made).settings)
        return [r.units.code for r in rows if r.attacker.name == NAME]

    first = code("a", here(method=ONE))
    assert list(first[0]) == [f"{NAME}-{next(iter(first[0])).rsplit('-', 1)[1]}"]
    assert code("b", here(method=TWO)) == first
    assert code("c", here(attack=TWO)) != first


def test_an_attack_without_its_run_is_refused(tmp_path):
    run = make_run(tmp_path)
    path = add_attack(run, NAME, [measure("p_leak", [1.0] * 10, 0.1, [1.0] * 10)])
    edited(path / "attack.json", lambda m: m.pop("of"))
    with pytest.raises(BrokenFile, match=r"attack.json is damaged .no 'of.run'"):
        tables.collect([load(run)])
