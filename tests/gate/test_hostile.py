"""Ways to make the gate say something too kind, each of which did so once."""

import json

import pytest
from helpers.gate_rows import check, row, scores, update, utility

from leakbench.base.errors import BrokenFile
from leakbench.gate.baseline import Baseline, load_baseline, save_baseline

LOOKS = (5, 8, 12, 20)


def other(p, own, **kept):
    """Of other guesses than the baseline's."""
    hashes = {s: [f"other {s}"] for s in own}
    flat = [x for units in own.values() for x in units.values()]
    return row(p, scores=own, guesses=hashes, value=sum(flat) / len(flat), **kept)


def state(now, then, looks=()):
    (one,) = check([now], Baseline.of([then], looks=looks)).rows
    return one.state, one.reason


@pytest.mark.parametrize(
    ("then", "now"),
    [
        (range(5), {**scores(0.2, range(3, 5)), **scores(0.95, range(30, 48))}),
        (range(20), {**scores(0.2, range(8)), **scores(1.0, range(8, 11))}),
        (range(20), {**scores(0.2, range(20)), **scores(1.0, range(20, 40))}),
    ],
    ids=["foreign seeds", "short of a look", "beyond the baseline"],
)
def test_seeds_that_are_not_compared_count(then, now):
    said, why = state(other(0.2, now), row(scores=scores(0.2, then)), LOOKS)
    assert said in ("cannot tell", "leaks more")
    assert said == "leaks more" or "more than the margin: not all of them were compared" in why


def test_the_same_guesses_beside_others_that_leak_are_not_unchanged():
    then = row(scores=scores(0.2, range(5)))
    both = {**scores(0.2, range(5)), **scores(1.0, range(5, 20))}
    hashes = {**then.units.guesses, **{s: ["new"] for s in range(5, 20)}}
    now = row(scores=both, guesses=hashes, value=0.8, truths={s: ["truth"] for s in both})
    assert state(now, then)[0] == "cannot tell"


def test_new_units_that_leak_count():
    then = row(scores=scores(0.2, range(5), 400))
    more = {s: {**u, **{f"new/{i}": 1.0 for i in range(43)}} for s, u in then.units.scores.items()}
    assert state(other(0.2, more), then)[0] != "fine"


def test_failures_count_on_the_seeds_that_are_compared():
    then = row(scores=scores(0.5, range(10)))
    own = scores(0.1, range(9, 19))
    lost = dict.fromkeys(range(10, 19), 90)
    assert "failed on 810 of 1000 units" in state(other(0.1, own, failed=lost), then)[1]
    assert state(other(0.1, own, unsettled=lost), then)[0] == "cannot tell"


def test_a_name_on_another_task_is_not_the_same_row():
    then, now = row(0.9, called="release"), row(0.2, called="release", task="fashion")
    assert "another task (fashion) than in the baseline (digits)" in state(now, then)[1]


def test_another_generation_beside_it_does_not_hide_the_first():
    old = {"setting": {"rounds": 30}}
    then = row(**old)
    now = [row(task="digits (rounds=30)", **old)]
    now += [row(0.9, task="digits (rounds=40)", setting={"rounds": 40})]
    got = check(now, Baseline.of([then]))
    assert sorted(r.state for r in got.rows) == ["fine", "new"]


def held(now, limit="p_leak<=0.2"):
    return check(now, Baseline(()), limits=[limit])


def test_a_limit_is_not_kept_by_a_part_of_the_seeds():
    many = {**scores(0.05, range(20)), **scores(1.0, range(20, 40))}
    assert held([other(0.2, many)]).limits[0].state != "kept"
    late = {**scores(0.05, range(12)), **scores(0.5, range(12, 20))}
    then = Baseline.of([row(0.05)], looks=LOOKS)
    got = check([other(0.2, late)], then, limits=["p_leak<=0.2"])
    assert got.limits[0].state != "kept"


@pytest.mark.parametrize(
    "weak",
    [
        {"flags": ["no_control"], "control": None},
        {"flags": ["weaker_observer"]},
        {"failed": dict.fromkeys(range(20), 100)},
        {"unsettled": dict.fromkeys(range(20), 100)},
    ],
    ids=["no control", "weaker observer", "failed", "open"],
)
def test_a_limit_is_not_kept_by_an_attack_that_finds_nothing_anywhere(weak):
    assert held([row(0.01, **weak)]).exit_code == 3


def test_a_limit_is_not_kept_by_what_nobody_attacked():
    got = held([row(0.01), utility(), utility(defense="fedaws")])
    assert got.exit_code == 3
    assert [(o.setting, o.reason) for o in got.limits if o.state != "kept"] == [
        ("digits/fedaws", "nobody attacked it")
    ]
    part = held([row(0.01, scores=scores(0.01, range(2))), utility()])
    assert part.exit_code == 3
    assert "was trained, but not attacked" in part.limits[0].reason


def test_a_pattern_knows_the_star_alone():
    odd = [row(0.9, called="rel[1]"), row(0.1, called="rel1", defense="fedaws")]
    got = held(odd, "rel[1]/*/p_leak/*<=0.2")
    assert [(o.setting, o.state) for o in got.limits] == [("rel[1]", "breached")]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"flags": ["control_failed"]}, "too weak to judge"),
        ({"flags": ["dead_run"]}, "did not learn"),
        ({"control": 0.2}, "the control fell"),
        ({"unsettled": {0: 50}}, "the search is open"),
        ({"flags": ["stale_attack"]}, "attack it again"),
    ],
)
def test_update_takes_no_weaker_standard_unasked(change, words):
    then, _ = update([row(0.5)], None)
    now = row(0.1, **change)
    refused, said = update([now], then)
    assert refused is None
    assert words in said.lines[0]
    assert update([now], then, accept=["*"])[0] is not None


def test_update_by_update_nothing_creeps_away():
    file, _ = update([row(0.2, scores=scores(0.2, range(5), 1000))], None)
    reached = []
    for p in (0.22, 0.24, 0.26):
        fresh, _ = update([row(p, scores=scores(p, range(5), 1000))], file)
        if fresh is None:
            break
        reached.append(p)
        file = fresh
    assert reached == [0.22]
    accepted, _ = update([row(0.3)], file, accept=["*"])
    assert accepted.rows[0].accepted is None


def test_update_says_that_a_limit_is_not_surely_kept():
    _, said = update([row(0.3)], None, limits=["p_leak<=0.3"])
    assert any(line.startswith("cannot tell") and "p_leak<=0.3" in line for line in said.lines)


def edited(tmp_path, change):
    path = tmp_path / "leakage.json"
    save_baseline(path, Baseline.of([row(0.2)]))
    value = json.loads(path.read_text())
    change(value["settings"]["digits/fedgn"])
    path.write_text(json.dumps(value))
    return path


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: s["rows"]["cascade/transcript/p_leak/final"].update(margin=1e9), "as wide as"),
        (lambda s: s["about"].update(wrappers=[{}]), "has no name"),
        (lambda s: s["about"].update(wrappers=[{"name": "a", "params": 3}]), "are no object"),
    ],
)
def test_an_edited_file_is_damaged(tmp_path, change, words):
    with pytest.raises(BrokenFile, match=words):
        load_baseline(edited(tmp_path, change))


def test_a_wide_margin_makes_no_ceiling():
    got = check([row(0.9)], Baseline.of([row(0.2, margin=0.9)])).rows[0]
    assert got.end == ""
    assert "ceiling" not in got.reason


def test_the_same_hashes_with_other_scores_are_a_contradiction():
    then = row(0.2)
    now = row(0.24, guesses=then.units.guesses)
    said, why = state(now, row(0.2, margin=0.2))
    assert said == "cannot tell"
    assert "byte for byte, and its scores are not" in why
    assert state(row(0.9, guesses=then.units.guesses), then)[0] == "leaks more"
    assert state(row(0.2), then) == ("fine", "unchanged: the same guesses, byte for byte")


def test_what_matters_is_what_the_runs_metric_says():
    """A margin written into the metrics of the baseline moves no verdict and no ceiling."""
    then = row(0.6)
    wide = then.meaning.model_copy(update={"margin": 0.9})
    got = check([row(0.9)], Baseline.of([then.model_copy(update={"meaning": wide})]))
    assert (got.rows[0].state, got.rows[0].end, got.softer) == ("leaks more", "", ())
