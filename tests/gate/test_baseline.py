"""leakage.json and the file of units beside it: small, sorted, and bound to each other."""

import json

import pytest
from helpers.gate_rows import row, scores, utility

from leakbench.base.errors import BrokenFile
from leakbench.gate.baseline import Baseline, load, save

ROWS = [
    row(called="release", flags=["few_units"], floor=0.1, clusters={"client/1": "a"}),
    utility(called="release", range=(0.0, 1.0)),
    row(
        0.3,
        defense="fedaws",
        attack="inversion",
        attack_params={"steps": 5},
        rung="method",
        probe=True,
    ),
]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "leakage.json"
    save(path, Baseline.of(ROWS, ["p_leak<=0.9"], [5, 8]))
    return path


def changed(path, change):
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def test_it_comes_back_the_same(path):
    again = load(path)
    assert again == Baseline.of(ROWS, ["p_leak<=0.9"], [5, 8])
    save(path.with_name("other.json"), again)
    assert path.with_name("other.json").read_bytes() == path.read_bytes()


def test_what_people_review_is_small_and_holds_no_units(path):
    units = path.with_name("leakage.units.json")
    assert path.stat().st_size < 4000 < units.stat().st_size
    value = json.loads(path.read_text())
    release = value["settings"]["release"]
    assert release["seeds"] == list(range(20))
    assert set(release["rows"]) == {"cascade/transcript/p_leak/final", "utility/accuracy"}
    # What the metric says, its rows need not; what is the setting's, neither.
    assert set(release["rows"]["utility/accuracy"]) <= {
        *("value", "low", "high", "margin", "unit", "control", "share")
    }


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda v: v.update(units="0" * 64), r"leakage\.units\.json is not the file that"),
        (lambda v: v["settings"]["release"].update(seeds=[0]), "its seeds are not those"),
        (lambda v: v["settings"].pop("release"), "stands only in the file of units"),
        (
            lambda v: v["settings"].update(trial=v["settings"].pop("release")),
            "trial/cascade/transcript/p_leak/final has no units",
        ),
        (lambda v: v["settings"]["release"]["rows"].update(odd={}), "release/odd has no units"),
        (lambda v: v["settings"]["release"].pop("about"), "about"),
        (lambda v: v["settings"]["release"]["about"].pop("engine"), "engine"),
        (lambda v: v.update(limits=[1]), "limits"),
        (lambda v: v.update(settings=[]), "is damaged"),
        (lambda v: v.update(schema=3), "schema 3"),
    ],
)
def test_what_was_edited_so_that_it_does_not_fit_is_one_sentence(path, change, words):
    changed(path, change)
    with pytest.raises(BrokenFile, match=words) as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_units_that_are_missing_cut_or_another_file_are_refused(path):
    units = path.with_name("leakage.units.json")
    kept = units.read_bytes()
    units.write_bytes(kept[:-3])
    with pytest.raises(BrokenFile, match="is not the file that"):
        load(path)
    save(path.with_name("other.json"), Baseline.of([row(0.9)]))
    units.write_bytes(path.with_name("other.units.json").read_bytes())
    with pytest.raises(BrokenFile, match="Take both from version control"):
        load(path)
    units.unlink()
    with pytest.raises(BrokenFile, match=r"units\.json is missing\. It belongs beside"):
        load(path)


def test_margins_and_names_may_be_edited_and_numbers_may_not(path):
    name = "cascade/transcript/p_leak/final"
    changed(path, lambda v: v["settings"]["release"]["rows"][name].update(margin=0.4))
    assert load(path).by_name()[f"release/{name}"].margin == 0.4
    changed(path, lambda v: v["settings"]["release"]["rows"][name].update(value=0.9))
    with pytest.raises(BrokenFile, match=r"the value of release/cascade.* is 0\.9, its scores"):
        load(path)


def test_units_of_many_seeds_are_named_once(tmp_path):
    few, many = tmp_path / "few.json", tmp_path / "many.json"
    save(few, Baseline.of([row(scores=scores(0.2, range(2), 50))]))
    save(many, Baseline.of([row(scores=scores(0.2, range(20), 50))]))
    text = many.with_name("many.units.json").read_text()
    assert text.count('"client/17"') == 1
    assert few.stat().st_size == pytest.approx(many.stat().st_size, abs=100)
