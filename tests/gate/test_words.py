"""Why a row came out so is a value: every code has its words, and nothing rests on a word."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import get_args

import pytest
from helpers.check_results import NUMBERS, compared, found, limited
from helpers.gate_rows import check, row, scores, update, utility

from leakbench.base import reason_words
from leakbench.base.reason import CheckCode, GateCode, Reason, in_words, reason
from leakbench.cli.check_cases import cases_of
from leakbench.cli.check_junit import junit
from leakbench.cli.check_sarif import sarif
from leakbench.gate.baseline import Baseline
from leakbench.gate.change import Change
from leakbench.gate.sketch import Sketch
from leakbench.reporting.check import check_of
from leakbench.reporting.check_lines import every_line, not_fine
from leakbench.reporting.moved import against
from leakbench.words import outcomes as outcome_words
from leakbench.words.outcomes import kind_of_reason, short_reason, since_reason, whole_reason

OTHER = reason("other_code", attacks=("unmix-0a1b2c3d",))
# What the words of a code are made of.
FACTS = {
    "worth": {"value": 0.6},
    "compared": NUMBERS.facts,
    "held": {"row": "a/b", "value": 0.53, "low": 0.41, "high": 0.64},
    "ceiling": {"old": 0.99, "new": 1.0},
    "new_row": {"what": "row", "allowed": False},
    "flagged": {"flag": "dead_run", "then": True},
    "unlike": {"what": "engine", "old": "loop", "new": "fused"},
    "failed_more": {"failed": 3, "units": 10, "before": 2, "had": 10},
    "not_run_now": {"row": "a/b"},
    "entered_less": {"row": "a/b"},
    "failed_control": {"row": "a/b"},
    "seeds_not_attacked": {"seeds": (1, 3)},
    "moved": {"old": 0.3, "new": 0.6, "of": OTHER},
    "other_parameters": {"attack": "unmix", "changes": (Change("parameter", "1", "2", "steps"),)},
    "other_code": OTHER.facts,
    "no_margin": {"metric": "mine"},
    "few_seeds": {"now": 1, "then": 8, "least": 2, "enough": 8},
    "settled_by": {"seeds": 12},
    "corrected": {"p": 0.012, "level": 0.0031, "low": -0.02},
    "attacked_by_more": {"attacks": ("unmix",)},
    "not_all_compared": {"seeds": 9, "old": 0.2, "new": 0.4},
    "fewer_units": {"units": 80, "had": 100},
    "open": {"left": 5, "before": 1},
    "open_in_tables": {"left": 5},
    "control_fell": {"old": 0.9, "new": 0.4},
    "unknown_on_a_side": {"what": ("control", "record"), "attacks": ("unmix-0a1b2c3d",)},
    "no_rows": {"row": "a/b", "more": 2},
    "seeds_unattacked": {"row": "a/b", "seeds": (1, 3)},
    "units_lost": {"lost": 30, "units": 100},
    "few_to_keep": {"seeds": 1, "least": 2},
}
FEWER_K = Change("parameter", "2", "1", "k")
ABOUT = {"state": "breached", "setting": "s", "limit": "p_leak<=0.2", "why": (NUMBERS,)}
SEEN = {"value": 0.2, "at_floor": True, "seeds": 2}
WHOLE = {
    "run_undone": {"run": "runs/a", "failed": "failed: x"},
    "total": {"gated": 2, "rows": {"fine": 2}, "limits": {"kept": 1}},
    "other_setting": {"setting": "s", "changes": (Change("parameter", "0.3", "0.1", "sigma"),)},
    "all_at_ceiling": {"setting": "s"},
    "less_of": {"key": "seeds", "old": (0, 1), "new": ()},
    "row_ungated": {"row": "a/*"},
    "limit_loosened": {"limit": "p_leak<=0.2", "now": ""},
    "margin_widened": {"row": "a/b", "old": 0.05, "new": 0.1},
    "runs_committed": {"out": "runs"},
    "refused_limit": ABOUT,
    "limit_open": ABOUT,
    "refused_worse": {
        "row": "a/b",
        "old": 0.2,
        "new": 0.4,
        "changes": (Change("parameter", "1", "2", "k"),),
    },
    "refused_less": {"row": "a/b", "of": Reason(code="seeds_left", facts={"seeds": 1, "had": 2})},
    "accept_all": {"rows": ("a/b", "c/d")},
    "seeds_left": {"seeds": 1, "had": 2},
    "row_kept": {"row": "a/b"},
    "row_moved": {"row": "a/b", "old": 0.2, "new": 0.4, "accepted": True, "changes": ()}
    | {"of": Reason(code="other_seeds")},
    "rows_unchanged": {"rows": 3},
    "more_or_fewer_seeds": {"now": 2, "then": 3},
    "other_commits": {"old": ("abcdefgh",), "new": ("hgfedcba",)},
    "looked_at": {"looks": (5, 8)},
    "written": {"rows": 3, "kept": 0, "gated": 1, "rest": 2, "attacks": ("cascade",)},
    "sees": {"row": "a/b", "what": Reason(code="sight_of_few", facts=SEEN)},
    "sees_nothing": {"setting": "s", "of": 2, "rows": ("a/b",)},
    "blind": {"of": Reason(code="flagged", facts=FACTS["flagged"])},
    "blind_at_ceiling": {"value": 1.0},
    "sight_of_few": SEEN,
    "sight": SEEN | {"shown": 0.3, "left": None, "need": 80, "enough": False},
}
FACTS |= WHOLE
CODES = get_args(GateCode)
# Which numbers are told apart, so that nothing is left to say of them.
NUMBERS_ALONE = {"worth", "compared", "held"}


def of(code):
    return Reason(code=code, facts=FACTS.get(code, {}))


def test_every_code_has_words_of_its_own():
    said = {code: whole_reason([of(code)]) for code in CODES}
    assert all(said.values())
    assert len(set(said.values())) == len(said)
    assert {code for code in CODES if not short_reason([of(code)])} == NUMBERS_ALONE
    assert all(since_reason([of(code)]) for code in CODES)
    assert set(outcome_words._SAID) | {"moved"} == {*CODES, *get_args(CheckCode)}
    assert {*outcome_words._SHORT, *outcome_words._SINCE} <= set(CODES)
    assert said["compared"] == (
        "0.32 -> 0.6, worse by +0.28 [+0.2, +0.35], margin 0.05, 3 paired seeds"
    )
    assert said["unknown_on_a_side"].startswith(
        "its control and what was recorded and the code of unmix-0a1b2c3d is not known"
    )
    assert said["moved"].startswith("0.3 -> 0.6, but unmix ran with other code than in the base")
    assert said["flagged"].startswith("in the baseline dead run: ")
    assert said["no_rows"] == "no such row now: a/b and 2 more"


def test_what_is_said_of_a_whole_check():
    said = {code: whole_reason([of(code)]) for code in get_args(CheckCode)}
    assert all(said.values())
    assert len(set(said.values())) == len(said)
    assert {*WHOLE} <= said.keys()
    assert said["run_undone"].startswith("runs/a: failed: x; train it again")
    assert said["less_of"] == "seeds 0, 1 -> none"
    assert said["row_moved"] == "moved         a/b: 0.2 -> 0.4 (accepted): other seeds than before"
    assert said["refused_worse"] == (
        "refused       a/b: 0.2 -> 0.4 (k 1 -> 2) is worse than the baseline. If that is meant:"
        " --update --accept a/b"
    )
    assert said["other_commits"] == "other code made the runs (abcdefg -> hgfedcb)"
    assert said["sight"] == (
        "0.2, no further than the margin from a blind guess, worse by 0.3 or more is found when all"
        " is drawn anew, where nothing changes but the draws, 80 seeds are needed to be fine (it"
        " has 2 seeds)"
    )


def test_without_numbers_and_of_two_reports():
    assert short_reason([NUMBERS, of("settled_by")]) == (
        "about 12 seeds on each side would settle it"
    )
    assert short_reason([of("moved")]).startswith("unmix ran with other code than in the baseline")
    assert "0a1b2c3d" not in short_reason([of("unknown_on_a_side")])
    assert since_reason([of("flagged"), of("unlike")]) == (
        "then, dead run: it did not learn, so its leakage says nothing; another engine now (fused)"
        " than then (loop)"
    )
    assert whole_reason([NUMBERS, in_words("mine")]).endswith("3 paired seeds; mine")


def test_what_an_interval_alone_would_decide_is_said_with_its_level():
    assert short_reason([NUMBERS, of("corrected")]) == (
        "its interval alone would decide; of all rows tested together it has to hold at p 0.0031,"
        " and p is 0.012: with that correction its lower limit is -0.02"
    )


def test_of_two_reports_none_is_a_baseline_that_could_be_written():
    said = {code: since_reason([of(code)]) for code in CODES}
    assert not [t for t in said.values() if "baseline" in t or "--update" in t or "--accept" in t]
    assert said["control_fell"].endswith("the attack is weaker than then")


def test_reasons_that_differ_in_numbers_alone_are_of_one_kind():
    def kind(code, **facts):
        return kind_of_reason(reason(code, **FACTS.get(code, {}) | facts))

    assert kind("failed_more") == kind("failed_more", failed=9, units=12)
    assert kind("few_seeds") != kind("failed_more")
    assert kind("not_run_now", row="a:steps=1/b") == kind("not_run_now", row="a:steps=25/b")
    assert kind("not_run_now") != kind("not_run_now", row="c/d")
    assert kind("unlike") != kind("unlike", new="process")
    assert kind("moved") != kind("moved", of=of("unlike"))
    assert kind("moved") == kind("moved", new=0.9)
    assert kind("seeds_not_attacked") != kind("seeds_not_attacked", seeds=(1,))


@pytest.fixture
def reworded(monkeypatch):
    """Every sentence of a reason becomes another."""
    for table in (outcome_words._SAID, outcome_words._SHORT, outcome_words._SINCE):
        for code in table:
            monkeypatch.setitem(table, code, lambda facts: "xyzzy")
    for code in reason_words._SAID:
        monkeypatch.setitem(reason_words._SAID, code, lambda facts: "xyzzy")
    monkeypatch.setattr(outcome_words, "_from_to", lambda facts: "xyzzy")


# What the gate itself says of rows


def alike(p=0.2, **kept):
    return row(p, **{"code": {"a-1": "x"}, **kept})


def near(at):
    known = {f"guess {at} {s}": Sketch(exact="e", tensors=1, at=(0.5,)) for s in range(20)}
    return {"guesses": {s: [f"guess {at} {s}"] for s in range(20)}, "sketches": known}


def attack(name, **kept):
    return row(0.2, attack=name, **kept)


def of_attacks(*names, p=0.2, seeds=range(20), **kept):
    """A cascade of these attacks alone."""
    folders = [attack(name).attacked_by for name in names]
    return row(p, **{"entered": dict.fromkeys(seeds, folders), "code": {}, **kept})


ONE, FEW = scores(0.4, [0]), scores(0.25, range(50, 53), units=20)
DRAWN = {"guesses": {s: [f"new {s}"] for s in range(20)}, "scores": scores(0.2, start=3)}
FAILED = {"flags": ["control_failed"]}
UNMIX = [of_attacks("unmix"), attack("unmix")]
SIDES = {  # what happened: (rows now, rows then)
    "same": ([alike()], [alike()]),
    "same, of what is not known": ([alike()], [alike(control=None, record={})]),
    "rounded": ([alike(**near(2))], [alike(**near(1))]),
    "leaks more": ([alike(0.9)], [alike()]),
    "loses utility": ([utility(0.5), alike()], [utility(0.9), alike()]),
    "leaks less": ([alike(0.1)], [alike()]),
    "may be settled": ([alike(0.25, scores=FEW)], [alike()]),
    "too few seeds": ([row(0.4, scores=ONE)], [alike()]),
    "at its ceiling": ([alike(0.9)], [alike(1.0)]),
    "gone": ([utility()], [utility(), alike()]),
    "new": ([alike(), utility()], [alike()]),
    "dead": ([alike(flags=["dead_run"])], [alike()]),
    "dead then": ([alike()], [alike(flags=["dead_run"])]),
    "unlike": ([alike(engine="loop")], [alike()]),
    "failed": ([alike(failed={0: 9})], [alike()]),
    "other code": ([alike(0.3, code={"a-1": "y"})], [alike()]),
    "one seed": ([row(0.4, scores=ONE), utility()], [alike(), utility()]),
    "stale": ([alike(flags=["stale_attack"], **DRAWN)], [alike()]),
    "fewer units": ([alike(0.1, scores=scores(0.1, units=80))], [alike()]),
    "open search": ([alike(0.1, unsettled={0: 9})], [alike()]),
    "control fell": ([alike(0.1, control=0.5)], [alike()]),
    "no control": ([alike(0.1, flags=["no_control"])], [alike()]),
    "weaker observer": ([alike(0.1, flags=["weaker_observer"])], [alike()]),
    "unknown": ([alike(0.1)], [alike(control=None, record={})]),
    "contradicted": ([alike(**DRAWN)], [alike(guesses=DRAWN["guesses"])]),
    "no margin": ([alike(0.3, metric="mine")], [alike(metric="mine")]),
    "more attacks": ([of_attacks("unmix", "strong", p=0.9), attack("unmix")], UNMIX),
    "fewer attacks": ([row(0.2, entered={0: []})], UNMIX),
    "not in every seed": ([row(0.2, entered={0: []}), attack("unmix")], UNMIX),
    "its control failed": ([row(0.1), attack("unmix", **FAILED)], UNMIX),
    "other parameters": (
        [of_attacks("unmix", p=0.3), attack("unmix", attack_params={"steps": 2})],
        UNMIX,
    ),
    "a seed is not attacked": ([alike(scores=scores(0.2, range(9))), utility()], [alike()]),
}
LIMITS = ("p_leak<=0.15", "p_leak<=0.22", "p_leak<=0.5", "accuracy>=0.8")


def outcome(result, codes):
    """All that a program may rest on, and no text."""
    rows, limits = result.rows, result.limits
    codes |= {why.code for r in (*rows, *limits) for why in r.why}
    made = check_of(result, ())
    cases = cases_of(made, "fail")
    root = ET.fromstring(junit(cases))
    told = [(n.tag, n.get("type")) for n in root.iter()]
    (run,) = json.loads(sarif(cases, "", result.exit_code))["runs"]
    return [
        result.exit_code,
        [(r.name, r.state, r.d, r.seeds, r.more, r.end, r.look) for r in rows],
        [(x.limit, x.setting, x.state, x.more) for x in limits],
        [(r.kind, r.command) for r in made.rows],
        [(x.verdict, x.refs, x.more, x.kind, x.command) for x in not_fine(made)],
        [(c.name, c.group, c.came, c.verdict) for c in cases],
        [(x["ruleId"], x["level"], x["partialFingerprints"]) for x in run["results"]],
        told,
    ]


def everything():
    """(what all of these come to, the codes that were met)."""
    codes, out = set(), {}
    for name, (now, then) in SIDES.items():
        baseline = Baseline.of(then)
        held = [x for x in LIMITS if any(x.startswith(r.metric) for r in now)]
        for asked in ({}, {"allow_new": True}, {"limits": held}):
            out[name, *asked] = outcome(check(now, baseline, **asked), codes)
        fresh, result = update(now, baseline)
        out[name, "update"] = result.exit_code, fresh and [(r.name, r.accepted) for r in fresh.rows]
        moves = against("there", now, then, {}).rows
        out[name, "against"] = [(m.attack, m.word, m.low, m.high) for m in moves]
    return out, codes


def test_no_rewording_moves_what_the_gate_says(request):
    before, codes = everything()
    assert {before[name,][0] for name in SIDES} == {0, 1, 3}
    request.getfixturevalue("reworded")
    after, _ = everything()
    assert after == before
    # What is not met here is of limits on parts of runs, of reports, or stands within "moved".
    assert set(CODES) - codes <= {
        *("corrected", "never_settled", "not_all_compared", "units_lost", "nobody_attacked"),
        *("one_seed", "open_in_tables", "tables_alone", "other_code", "other_parameters"),
    }


def test_what_stood_at_its_ceiling_says_so_once(request):
    rows = [compared("fine", None, a, why=(of("ceiling"),), end="ceiling") for a in "ab"]
    told = [line.why for line in every_line(check_of(found(*rows), ()))]
    assert told == ["at its ceiling in the baseline: it cannot get worse"] * 2
    request.getfixturevalue("reworded")
    assert [line.why for line in every_line(check_of(found(*rows), ()))] == ["xyzzy"] * 2


# The same of each code by itself


def made_by_hand(code, d, state):
    why = (NUMBERS, of(code)) if d is not None else (of(code),)
    limit = limited("cannot tell", why=why)
    return found(compared(state, d, why=why), compared(state, d, "x", why=why), limits=[limit])


@pytest.mark.parametrize("d", [None, 0.04])
@pytest.mark.parametrize("state", ["cannot tell", "new", "fine", "leaks more"])
def test_no_rewording_moves_a_case(request, d, state):
    before = {code: outcome(made_by_hand(code, d, state), set()) for code in CODES}
    request.getfixturevalue("reworded")
    assert {code: outcome(made_by_hand(code, d, state), set()) for code in CODES} == before
