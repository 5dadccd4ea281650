"""The standard ensemble: all there is, by number; what lacks is said."""

from __future__ import annotations

import pytest
from helpers.run_folders import edited
from helpers.small_runs import trained

import leakbench
from leakbench import api
from leakbench.attacking import choices, standard
from leakbench.base.spec import canonical, fingerprint
from leakbench.cli import run as cli
from leakbench.record.recording import Recording
from leakbench.reporting.write import read_tables


def test_it_has_every_attack_in_every_setting_that_runs_unasked():
    """Who adds an attack or a setting makes another version of it."""
    assert sorted(c.key for c in standard.members()) == sorted(c.key for c in choices.variants())
    assert len({c.key for c in standard.members()}) == len(standard.MEMBERS)


def test_a_list_or_a_default_that_changes_is_another_version():
    """What was said of "standard v6" was said of these: raise VERSION, and write down the new."""
    told = fingerprint(canonical([c.key for c in standard.members()]))
    assert (standard.VERSION, told) == (6, "3b09a026")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run, and a standard ensemble of what is cheap there."""
    cheap = [("prototype_leakage", {}), ("codeword_from_update", {}), ("distance_correlation", {})]
    monkeypatch.setattr(standard, "MEMBERS", cheap)
    return trained(tmp_path, "feduv", 2)


def lacking(run):
    (setting,) = read_tables([leakbench.load(run.path)]).settings
    return [one.attack for one in setting.lacks]


def test_what_lacks_is_said_until_all_was_made_in_full(run, capsys):
    assert [c.name for c in standard.fitting(Recording(run))] == ["codeword_from_update"]
    assert lacking(run) == ["codeword_from_update"]
    api.attack(run, "codeword_from_update", seed=5)
    assert lacking(run) == ["codeword_from_update"]  # of another seed it is another attack
    assert cli(["attack", str(run.path), "-a", "standard"]) == 0
    assert "distance" not in capsys.readouterr().out
    assert lacking(run) == []


@pytest.mark.parametrize(
    "spoil",
    [
        lambda meta: meta.update(submitted=True, no_control=True),
        lambda meta: meta["sources"].update(attack="0" * 64),
        lambda meta: meta.update(status="failed: it broke"),
    ],
)
def test_what_would_be_made_anew_was_not_made(run, spoil):
    """By somebody else, by other code, or not to its end."""
    (made,) = standard.fitting(Recording(run))
    folder = api.attack(run, made.name).path
    assert lacking(run) == []
    edited(folder / "attack.json", spoil)
    fits, members = choices.Fits(), {c.key for c in standard.members()}
    assert fits.lacking(leakbench.load(run.path), members) == [(made.name, {"source": "update"})]


def test_the_page_says_whether_a_verdict_is_of_the_standard_ensemble(run, tmp_path):
    for name, said in (
        ("short", "was not made in full on 1 of 1 setting"),
        ("whole", "in full on all that the record"),
    ):
        api.attack(run, "codeword_from_update", seed=5 if name == "short" else 0)
        api.report(run, tmp_path / name, formats=["html"])
        assert said in (tmp_path / name / "index.html").read_text(encoding="utf-8")
