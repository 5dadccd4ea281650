"""leakage.json and the file of units beside it: small, sorted, and bound to each other."""

import hashlib
import json

import pytest
from helpers.gate_rows import changed as changed_row
from helpers.gate_rows import check, row, scores, update, utility

from leakbench.base.errors import BrokenFile
from leakbench.base.reason import reason
from leakbench.gate.baseline import Baseline, load_baseline, save_baseline
from leakbench.gate.row_fields import fields_of
from leakbench.gate.terms import Terms, softer
from leakbench.words.outcomes import whole_reason

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


def softened(now, then):
    return tuple(whole_reason([why]) for why in softer(now, then))


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "leakage.json"
    save_baseline(path, Baseline.of(ROWS, ["p_leak<=0.9"], [5, 8]))
    return path


def changed(path, change):
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def test_it_comes_back_the_same(path):
    again = load_baseline(path)
    assert again == Baseline.of(ROWS, ["p_leak<=0.9"], [5, 8])
    save_baseline(path.with_name("other.json"), again)
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
        *("value", "low", "high", "margin", "unit", "units", "control", "share")
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
        load_baseline(path)
    assert "\n" not in str(caught.value)


def test_units_that_are_missing_cut_or_another_file_are_refused(path):
    units = path.with_name("leakage.units.json")
    kept = units.read_bytes()
    units.write_bytes(kept[:-3])
    with pytest.raises(BrokenFile, match="is not the file that"):
        load_baseline(path)
    save_baseline(path.with_name("other.json"), Baseline.of([row(0.9)]))
    units.write_bytes(path.with_name("other.units.json").read_bytes())
    with pytest.raises(BrokenFile, match="Take both from version control"):
        load_baseline(path)
    units.unlink()
    with pytest.raises(BrokenFile, match=r"units\.json is missing\. It belongs beside"):
        load_baseline(path)


def test_margins_and_names_may_be_edited_and_numbers_may_not(path):
    name = "cascade/transcript/p_leak/final"
    changed(path, lambda v: v["settings"]["release"]["rows"][name].update(margin=0.4))
    assert load_baseline(path).by_name()[f"release/{name}"].margin == 0.4
    changed(path, lambda v: v["settings"]["release"]["rows"][name].update(value=0.9))
    with pytest.raises(BrokenFile, match=r"the value of release/cascade.* is 0\.9, its scores"):
        load_baseline(path)


def test_units_of_many_seeds_are_named_once(tmp_path):
    few, many = tmp_path / "few.json", tmp_path / "many.json"
    save_baseline(few, Baseline.of([row(scores=scores(0.2, range(2), 50))]))
    save_baseline(many, Baseline.of([row(scores=scores(0.2, range(20), 50))]))
    text = many.with_name("many.units.json").read_text()
    assert text.count('"client/17"') == 1
    assert few.stat().st_size == pytest.approx(many.stat().st_size, abs=100)


def units_of(path):
    return json.loads(path.with_name("leakage.units.json").read_text())


def forged(path, change):
    """The units edited, and the reviewed file so that it names them."""
    units = path.with_name("leakage.units.json")
    value = json.loads(units.read_text())
    change(value)
    units.write_text(json.dumps(value))
    sha = hashlib.sha256(units.read_bytes()).hexdigest()
    changed(path, lambda v: v.update(units=sha))


RELEASE = "release/cascade/transcript/p_leak/final"


def scored(value, seed, unit, score):
    value["rows"][RELEASE]["scores"][seed][1][unit] = score


@pytest.mark.parametrize(
    "change",
    [
        lambda v: (scored(v, "0", 0, 0.25), scored(v, "1", 0, 0.75)),
        lambda v: v["rows"][RELEASE].update(failed={"0": 3}),
        lambda v: v["rows"][RELEASE].update(unsettled={"0": 3}),
        lambda v: v["rows"][RELEASE].update(code={"attack": "other"}),
        lambda v: v["rows"][RELEASE].update(clusters={}),
    ],
    ids=["scores", "failed", "unsettled", "code", "clusters"],
)
def test_units_do_not_change_unless_their_row_does(path, change):
    """Nobody reviews the second file: what it says is under a digest in the first, row by row."""
    forged(path, lambda v: None)
    load_baseline(path)
    forged(path, change)
    with pytest.raises(BrokenFile, match=f"the units of {RELEASE} are not those of its row|scores"):
        load_baseline(path)


def unbound(path):
    """As an earlier leakbench wrote it: no row has a digest of its units."""
    for setting in ("release", "digits/fedaws"):
        changed(
            path, lambda v, s=setting: [r.pop("units") for r in v["settings"][s]["rows"].values()]
        )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda v: (scored(v, "0", 0, -0.5), scored(v, "0", 1, 2.5)), "its range 0 to 1"),
        (lambda v: v["rows"][RELEASE].update(failed={"0": 101}), "100 units of seed 0, 101 of"),
        (lambda v: v["rows"][RELEASE].update(failed={"0": -1}), "-1 of them failed"),
        (
            lambda v: v["rows"][RELEASE].update(failed={"0": 60}, unsettled={"0": 60}),
            "60 of them failed and 60 open",
        ),
        (lambda v: v["rows"][RELEASE].update(unsettled={"99": 1}), "unsettled of .* seed 99"),
        (lambda v: v["rows"][RELEASE].update(guesses={"99": ["a"]}), "guesses of .* seed 99"),
        (lambda v: v["rows"][RELEASE].update(margin=0.4, flags=[]), "says 'flags', which stands"),
        (lambda v: v["rows"][RELEASE].update(value=0.9), "says 'value', which stands in leakage"),
        (lambda v: v["rows"][RELEASE].update(clusters={"nobody": "a"}), "nobody, which is no unit"),
    ],
)
def test_units_are_within_what_can_be(path, change, words):
    unbound(path)
    kept = units_of(path)["rows"][RELEASE]["scores"]["0"][1]
    assert sorted(kept)[0] == 0.0
    load_baseline(path)
    forged(path, change)
    with pytest.raises(BrokenFile, match=words):
        load_baseline(path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"low": 0.9}, "low of .* above its value"),
        ({"high": 0.1}, "value of .* above its high"),
        ({"high": 1.5}, "high of .* is 1.5, and its range 0 to 1"),
        ({"control": 3.0}, "control of .* its range"),
        ({"floor": -1.0}, "floor of .* its range"),
        ({"accepted": 2.0}, "accepted of .* its range"),
    ],
)
def test_numbers_of_a_row_are_within_its_range(path, change, words):
    name = "cascade/transcript/p_leak/final"
    changed(path, lambda v: v["settings"]["release"]["rows"][name].update(change))
    with pytest.raises(BrokenFile, match=words):
        load_baseline(path)


TERMS = Terms(
    spec="ci.toml",
    seeds=(0, 1, 2),
    baseline="leakage.json",
    limits=("p_leak<=0.2", "accuracy>=0.6"),
    gate=("release/inversion/*",),
    spend=3,
)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({}, []),
        ({"seeds": (0, 1, 2, 3), "limits": ("p_leak<=0.1", "accuracy>=0.7")}, []),
        ({"limits": ("p_leak<=0.2", "accuracy>=0.6", "mse>=0.1"), "spend": 5}, []),
        ({"undecided": "warn"}, ["undecided 'fail' -> 'warn'"]),
        ({"allow_new": True}, ["allow_new false -> true"]),
        ({"spend": 0}, ["spend 3 -> 0"]),
        ({"seeds": (0, 1)}, ["seeds 0, 1, 2 -> 0, 1"]),
        ({"seeds": (7, 8, 9)}, ["seeds 0, 1, 2 -> 7, 8, 9"]),
        ({"gate": ()}, ["gate 'release/inversion/*' dropped"]),
        ({"baseline": "other.json"}, ["baseline 'leakage.json' -> 'other.json'"]),
        ({"baseline": "none"}, ["baseline 'leakage.json' -> 'none'"]),
        (
            {"limits": ("p_leak<=0.9",)},
            ["limit p_leak<=0.2 -> p_leak<=0.9", "limit accuracy>=0.6 dropped"],
        ),
        ({"limits": ("p_leak <= 0.20", "accuracy>=0.5")}, ["limit accuracy>=0.6 -> accuracy>=0.5"]),
    ],
)
def test_a_spec_that_asks_for_less_than_the_baseline_noted_is_said(tmp_path, change, told):
    path = tmp_path / "leakage.json"
    save_baseline(path, Baseline.of(ROWS, terms=TERMS))
    then = load_baseline(path)
    assert then.terms == TERMS
    now = TERMS.model_copy(update=change)
    assert list(softened(now, then.terms)) == told
    assert check(ROWS, then, terms=now).softer == tuple(told)


def test_without_a_note_what_a_spec_softens_is_said_all_the_same():
    assert softened(Terms(undecided="warn", allow_new=True), None) == (
        "undecided 'fail' -> 'warn'",
        "allow_new false -> true",
    )
    assert softened(TERMS, None) == ()


def test_a_margin_that_was_widened_by_hand_is_said(path):
    name = "cascade/transcript/p_leak/final"
    changed(path, lambda v: v["settings"]["release"]["rows"][name].update(margin=0.4))
    assert check(ROWS, load_baseline(path), terms=Terms()).softer == (
        f"margin of release/{name} 0.05 -> 0.4",
    )
    changed(path, lambda v: v["settings"]["release"]["rows"][name].update(margin=0.01))
    assert check(ROWS, load_baseline(path), terms=Terms()).softer == ()


@pytest.mark.parametrize("terms", [None, Terms()], ids=["check", "ci"])
def test_a_margin_that_is_wide_in_both_files_is_said(tmp_path, terms):
    """As somebody writes who edits both files, and the hash of the one in the other."""
    path = tmp_path / "leakage.json"
    save_baseline(path, Baseline.of([changed_row(r, margin=0.4) for r in ROWS]))
    told = check(ROWS, load_baseline(path), terms=terms).softer
    assert "margin of release/cascade/transcript/p_leak/final 0.05 -> 0.4" in told
    assert len(told) == len(ROWS)


def test_a_narrow_margin_that_was_taken_away_is_said(tmp_path):
    path = tmp_path / "leakage.json"
    save_baseline(path, Baseline.of([changed_row(r, margin=0.01) for r in ROWS]))
    assert check(ROWS, load_baseline(path)).softer == ()
    name = "cascade/transcript/p_leak/final"
    changed(path, lambda v: v["settings"]["release"]["rows"][name].pop("margin"))
    assert check(ROWS, load_baseline(path)).softer == (f"margin of release/{name} 0.01 -> 0.05",)


@pytest.mark.parametrize("text", ["\n", '{"rows": []}', '{"rows": [], "limits": ["p_leak<=0.9"]}'])
def test_an_emptied_baseline_is_not_saved_by_a_limit_that_is_kept(tmp_path, text):
    path = tmp_path / "leakage.json"
    path.write_text(text)
    got = check(ROWS, load_baseline(path), limits=["p_leak<=0.9"])
    assert (got.exit_code, {o.state for o in got.limits}) == (3, {"kept"})
    assert got.notes[0].startswith("the baseline has no rows")
    assert check(ROWS, load_baseline(path), limits=["p_leak<=0.01"]).exit_code == 1
    assert check(ROWS, Baseline(()), limits=["p_leak<=0.9"]).exit_code == 0  # none was named


def test_a_baseline_of_schema_1_says_so_first(tmp_path):
    path = tmp_path / "leakage.json"
    flat = [fields_of(r) for r in ROWS]
    path.write_text(json.dumps({"schema": 1, "rows": flat, "metrics": {}}))
    then = load_baseline(path)
    assert check(ROWS, then).softer == (whole_reason([reason("older_baseline")]),)
    fresh, _ = update(ROWS, then)
    save_baseline(path, fresh)
    assert check(ROWS, load_baseline(path)).softer == ()
