"""docs/findings.md is what its command makes of the committed tables, and says what lacks."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import pytest

from leakbench.reproduce import catalogue, plan, row
from leakbench.reproduce.row import Measurement, Row
from leakbench.results.number import Claim

ROOT = Path(__file__).parents[2]
NAMES = ["findings-fedhide", "findings-digits", "findings-fedmetric"]


@pytest.fixture(scope="module")
def script():
    """benchmarks/findings.py."""
    spec = importlib.util.spec_from_file_location("findings_page", ROOT / "benchmarks/findings.py")
    module = importlib.util.module_from_spec(spec)
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(ROOT / "benchmarks")
    spec.loader.exec_module(module)
    yield module
    patch.undo()


def number(value, **more):
    about = {"recipe": "findings-fedhide", "scale": "smoke", "dataset": "cifar100"}
    about |= {
        "task": "digit-pairs",
        "label": "FedHide(0.1, 5)",
        "metric": "p_leak",
        "seeds": (0, 1),
    }
    ours = None if value is None else Measurement(value=value, low=0.0, high=1.0, n=200, unit="c")
    return Row(**{**about, "ours": ours, "rounds": 600, "device": ("cpu",), **more})


def written(folder, rows):
    row.write_rows(folder / "findings-fedhide" / "smoke.csv", rows)
    return folder


def test_the_committed_page_is_made_of_the_committed_tables(script):
    text = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    assert text == script.page(ROOT / "results"), "run: python benchmarks/findings.py"


def test_a_method_has_its_claim_the_same_measure_and_the_strongest_attacker(script, tmp_path):
    claim = Claim(value=0.712, low=0.704, high=0.72, source="FedHide Table 4")
    rows = [
        number(0.3, measure="p_leak", attack="prototype_leakage", claim=claim, floor=0.01),
        number(0.5, measure="a", attack="prototype_averaging", attack_params={"window": 7}),
        number(0.98, measure="b", attack="prototype_unmixing", control=1.0),
        number(
            None,
            measure="p_leak codeword_from_update",  # asked of FedUV alone
            method="fedhide",
            attack="codeword_from_update",
            note="not asked of this method",
        ),
        number(None, measure="d", attack="prototype_centring", note="prototype_centring: no proxy"),
    ]
    text = script.page(written(tmp_path, rows))
    assert "The paper's P_leak is 0.712. By the same measure, here: 0.30 [0.00, 1.00]." in text
    assert "(un-mixing) names a share of at least 0.98 [0.00, 1.00] of the clients." in text
    assert "| the paper's | clients named | 0.30 [0.00, 1.00] | 200 | 0.01 | - |" in text
    assert "| `prototype_averaging`, window=7 |" in text
    assert "* prototype_centring: no proxy" in text
    assert "not asked of" not in text
    assert "    leakbench reproduce findings-fedhide --scale smoke" in text
    assert "2 seeds, 600 rounds, cpu." in text
    one = "| FedHide(0.1, 5) (undertrained) | `findings-fedhide`, smoke, digit-pairs | 0.712 |"
    assert f"{one} 0.30 [0.00, 1.00] | at least 0.98 [0.00, 1.00] | `prototype_unmixing` |" in text


def test_attackers_without_a_number_are_named(script, tmp_path):
    text = script.page(
        written(tmp_path, [number(0.3, measure="p_leak", attack="prototype_leakage")])
    )
    said = {a for a in script.ATTACKERS if f"* `{a}` (" in text}
    assert said == set(script.ATTACKERS) - {"prototype_leakage"}
    assert "* `findings-fedhide`, smoke, has no number of `prototype_averaging`, " in text


def test_no_attacker_of_the_excerpts_is_said_to_have_no_number(script):
    text = script.page(ROOT / "results")
    assert "| un-mixing | 1.00 [0.96, 1.00]" in text
    assert "* `prototype_unmixing` (" not in text


def test_a_method_that_nobody_attacked_is_left_out(script, tmp_path):
    text = script.page(
        written(tmp_path, [number(None, measure="p_leak", attack="prototype_leakage", note="no")])
    )
    assert "FedHide(0.1, 5)" not in text


@pytest.mark.parametrize("name", NAMES)
def test_every_run_can_be_planned_and_every_attacker_is_asked(script, name):
    recipe = catalogue.find_recipe(name)
    planned = plan.plan(recipe, "smoke", data=False)
    assert {p.setup.task for p in planned} <= {"digits", "digit-pairs"}
    assert all(len(p.specs) == 5 for p in planned)
    asked = {m.attack for m in recipe.measures if m.attack}
    assert asked == set(script.ATTACKERS)
    assert {m.metric for m in recipe.measures if m.attack} == set(script.METRICS)
    for m in (m for m in recipe.measures if m.attack):
        assert m.title == f"{script.METRICS[m.metric]}, {script.ATTACKERS[m.attack]}"


def test_every_method_of_the_two_papers_is_there():
    methods = {c.defense for name in NAMES for c in catalogue.RECIPES[name].cases}
    assert methods == {"fedaws", "fedgn", "fedcs", "fedhide", "fedmetric", "feduv", "deepsvdd"}
    variants = {
        c.params["variant"]
        for name in NAMES
        for c in catalogue.RECIPES[name].cases
        if c.defense == "fedmetric"
    }
    assert variants == {"pos", "proxy", "true"}


MEMBERS = """method,clients_hold,seeds,attack,metric,value,low,high,n,floor
fedavg,all classes,3,,utility,0.9,0.8,0.95,100,
fedavg,all classes,3,cosine,membership_auc,0.6,0.4,0.8,30,0.5
fedavg,all classes,3,likelihood,membership_auc,0.8,0.7,0.9,30,0.5
fedavg,all classes,3,cosine,membership_tpr,0.3,0.2,0.4,30,0.01
fedavg,all classes,3,likelihood,membership_tpr,0.1,0.0,0.2,30,0.01
feduv,one class,3,,utility,0.7,0.6,0.8,100,
feduv,one class,3,rmia,membership_auc,0.55,0.45,0.65,30,0.5
feduv,one class,3,rmia,membership_tpr,0.01,0.0,0.02,30,0.01
"""


def test_of_members_each_method_has_its_strongest_attack(script, tmp_path):
    (tmp_path / "membership").mkdir()
    (tmp_path / "membership" / "digits.csv").write_text(MEMBERS, encoding="utf-8")
    page = script.page(tmp_path)
    line = (
        "| fedavg | all classes | 0.90 | 0.80 [0.70, 0.90] | `likelihood` | updates of all rounds"
    )
    assert f"{line} | 0.30 [0.20, 0.40] (`cosine`) |" in page
    assert "Of 2 cases 1 tell members beyond a blind guess: 1 by updates of all rounds." in page
    assert "Not shown to: feduv (one class)." in page


def test_who_tells_members_by_another_number_than_the_largest_is_not_silent(script, tmp_path):
    """The largest AUC may be the least sure one, and few may be named surely."""
    (tmp_path / "membership").mkdir()
    told = MEMBERS.replace("rmia,membership_tpr,0.01,0.0,0.02", "rmia,membership_tpr,0.2,0.1,0.3")
    (tmp_path / "membership" / "digits.csv").write_text(told, encoding="utf-8")
    page = script.page(tmp_path)
    assert "Of 2 cases 2 tell members beyond a blind guess" in page
    assert "Not shown to" not in page


def test_an_attacker_who_does_not_fit_is_not_missed(script, tmp_path):
    """FedHide mixes neighbours' proxies, and shows nobody a sphere or a codeword."""
    of = {"method": "fedhide", "params": {"stored": "unit"}}
    rows = [number(0.3, measure="p_leak", attack="prototype_leakage", **of)]
    folder = written(tmp_path, rows)
    shutil.copy(ROOT / "results" / "fitting.csv", folder)
    text = script.page(folder)
    (line,) = [x for x in text.splitlines() if x.startswith("* `findings-fedhide`, smoke, has no")]
    assert "`prototype_unmixing`" in line
    assert "`prototype_spheres`" not in line
    assert "`codeword_from_update`" not in line
