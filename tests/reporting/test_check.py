"""What `check` said, as a report shows it: one line per row that needs a look, with what changed
and what would settle it.
"""

import math
import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from helpers.check_results import (
    EVIL,
    NUMBERS,
    ODD,
    against_limit,
    compared,
    fine,
    found,
    limited,
    row,
    undecided,
)
from helpers.run_folders import add_attack, edited, make_run, measure

from leakbench import api
from leakbench.base.reason import in_words, reason
from leakbench.cli import run as cli
from leakbench.gate import gate
from leakbench.gate.baseline import Baseline
from leakbench.gate.change import Change
from leakbench.gate.rows import gate_rows
from leakbench.record import folders
from leakbench.reporting import write
from leakbench.reporting.check import check_of
from leakbench.reporting.check_lines import every_line, how_to_settle, not_fine, text_lines, urgent
from leakbench.reporting.commands import trains


def made(folder, hits, *, seeds=range(8), sigma=0.1, **more):
    for seed in seeds:
        run = make_run(folder, params={"sigma": sigma}, seed=seed, **more)
        words = [
            "leakbench",
            "train",
            "-t",
            "digits",
            "-d",
            "fedgn",
            "-s",
            f"sigma={sigma}",
            "--seeds",
            str(seed),
        ]
        edited(run / "run.json", partial(dict.update, command=shlex.join(words)))
        count = hits + seed % 2
        add_attack(
            run, "averaging", [measure("p_leak", [1] * count + [0] * (10 - count), 0.1, [1] * 10)]
        )
    return folders.find([folder])


def said(now, then, baseline=Path("leakage.json")):
    settings = write.read_tables(now).settings
    before = Baseline.of(gate_rows(write.read_tables(then).settings))
    return check_of(gate.check(gate_rows(settings), before), settings, baseline)


def test_what_leaks_more_comes_first_with_numbers_and_margin(tmp_path):
    check = said(made(tmp_path / "b", 7), made(tmp_path / "a", 2))
    assert check.exit == 1
    assert check.heading == "Check failed (exit 1): 2 rows leak more, 1 fine."
    assert check.against == "leakage.json made at abc"
    (line,) = check.lines
    assert line.startswith("leaks more: digits: FedGN σ 0.1: best real attacker: P_leak 0.25 → 0.7")
    assert "+0.50 (+0." in line
    assert line.endswith("allowed 0.05; and 1 more row")
    assert {r.row for r in check.rows} == {
        f"digits: FedGN σ 0.1: {a}" for a in ("worst case", "best real attacker", "utility")
    }


def test_passed_names_the_closest(tmp_path):
    then = made(tmp_path / "a", 5)
    assert said(then, then).heading == "Check passed: all 3 gated rows fine."
    assert said(then, then).lines == ()


def test_what_cannot_be_told_says_what_settles_it(tmp_path):
    then = made(tmp_path / "a", 2)
    few = said(made(tmp_path / "b", 7, seeds=[5]), then)
    told = [r.command for r in few.rows if r.verdict == "cannot tell"]
    checking = ["leakbench", "check", str(tmp_path / "b")]
    assert shlex.split(told[0])[:3] == checking
    assert shlex.split(told[0])[-2:] == ["--spend", "7"]
    (line,) = few.lines
    assert line.endswith("; and 1 more row")  # one training settles both
    assert "leakbench" not in line
    other = said(made(tmp_path / "c", 7, engine="loop"), then, tmp_path / "other.json")
    row = next(r for r in other.rows if r.verdict == "cannot tell")
    assert shlex.split(row.command) == [
        *(
            "leakbench",
            "check",
            str(tmp_path / "c"),
            "--baseline",
            str(tmp_path / "other.json"),
            "--update",
            "--accept",
            row.ref,
        )
    ]
    assert how_to_settle(urgent(other)[0])[0] == "If that is meant"


def test_of_runs_that_are_gone_the_baseline_tells_how_to_train_them(tmp_path):
    then = made(tmp_path / "a", 2) + made(tmp_path / "a3", 2, sigma=0.3)
    check = said(made(tmp_path / "b", 2), then)
    (line,) = {r.command for r in check.rows if r.verdict == "cannot tell"}
    words = shlex.split(line.split(" && ")[0])
    assert "sigma=0.3" in words
    assert words[words.index("--rounds") + 1] == "100"
    assert words[words.index("--seeds") + 1] == "0,1,2,3,4,5,6,7"
    assert words[words.index("-o") + 1] == str(tmp_path / "b")
    assert line.split(" && ")[1] == f"leakbench attack {tmp_path / 'b'}"


def test_a_row_of_an_attack_is_settled_by_that_attack_in_its_setting(tmp_path):
    then = made(tmp_path / "a", 2)
    for run in then:
        scores = [measure("p_leak", [1] * 2 + [0] * 8, 0.1, [1] * 10)]
        add_attack(run.path, "prototype_averaging", scores, params={"seed": 3, "message": "update"})
        add_attack(run.path, "prototype_averaging", scores, params={"seed": 4})
    before = Baseline.of(gate_rows(write.read_tables(folders.find([tmp_path / "a"])).settings))
    named = tuple(row.model_copy(update={"named": True}) for row in before.rows)
    before = replace(before, rows=named)
    settings = write.read_tables(made(tmp_path / "b", 2)).settings
    check = check_of(gate.check(gate_rows(settings), before), settings, None)
    told = {r.command for r in check.rows if r.attack == "prototype_averaging"}
    attack = f"leakbench attack {tmp_path / 'b'} -a averaging -a prototype_averaging"
    assert told == {
        f"{attack} -s averaging.seed=0 -s prototype_averaging.{given}"
        for given in ("seed=4", "message=update -s prototype_averaging.seed=3")
    }


def test_the_command_trains_as_many_seeds_as_the_line_says():
    """The line tells the numbers of the worst row, and what settles the one that is worst off."""
    many = (NUMBERS, reason("settled_by", seeds=42))
    rows = [undecided(d=0.2, seeds=3), undecided("any_attack", why=many, seeds=42)]
    (line,) = not_fine(check_of(found(*rows), ()))
    assert "about 42 seeds on each side" in line.said
    words = shlex.split(line.command.split(" && ")[0])
    assert len(words[words.index("--seeds") + 1].split(",")) == 42


def test_nothing_gated(tmp_path):
    now = made(tmp_path / "a", 2, seeds=[0])
    settings = write.read_tables(now).settings
    check = check_of(gate.check(gate_rows(settings), Baseline(())), settings)
    assert check.heading == "Nothing is gated yet: `leakbench check --update`."


def test_a_report_shows_what_check_says(tmp_path, capsys):
    then, now = made(tmp_path / "a", 2), made(tmp_path / "b", 7)
    api.update(then, baseline=tmp_path / "leakage.json")
    out = tmp_path / "out"
    words = [
        "report",
        str(tmp_path / "b"),
        "-o",
        str(out),
        "--check",
        str(tmp_path / "leakage.json"),
        "--format",
        "html,markdown",
    ]
    assert cli(words) == 0  # the gate is `leakbench check`: this only shows it
    assert "Check failed (exit 1): 2 rows leak more, 1 fine." in (out / "index.html").read_text(
        encoding="utf-8"
    )
    assert (
        (out / "report.md")
        .read_text(encoding="utf-8")
        .startswith("## ❌ Check failed (exit 1): 2 rows leak more, 1 fine.")
    )
    assert cli([*words[:-4], "--check", str(tmp_path / "no.json")]) == 2
    assert "no baseline" in capsys.readouterr().err
    assert len(now) == 8


# rows made by hand


def one(result, **more):
    """The only line of a check."""
    (line,) = check_of(result, (), **more).lines
    return line


def test_rows_of_a_setting_that_moved_are_one_line_and_the_worst_speaks():
    moved = {"changes": (Change("parameter", "0.3", "0.1", "sigma"),)}
    rows = [compared(d=0.1 + i / 100, attack=f"attack_{i}", **moved) for i in range(5)]
    check = check_of(found(*rows, compared(**moved), fine()), ())
    assert check.lines == (
        "leaks more: release (σ 0.3 -> 0.1): best real attacker: P_leak 0.32 → 0.60, +0.28 (+0.20"
        " to +0.35), allowed 0.05; and 5 more rows",
    )
    assert check.heading == "Check failed (exit 1): 6 rows leak more, 1 fine."
    (line,) = not_fine(check)
    assert set(line.refs) == {r.name for r in rows} | {compared().name}
    assert shlex.split(line.command).count("--accept") == 6


def test_the_worst_is_far_beyond_its_own_margin():
    wide, narrow = row(0.9, "wide", margin=0.5, called="release"), row(0.4, called="release")
    rows = [compared(d=0.4, attack="wide", then=wide, now=wide), compared(d=0.1, then=narrow)]
    assert "best real attacker" in one(found(*rows))


def test_what_happened_for_other_reasons_or_elsewhere_has_its_own_line():
    gone = {"now": None, "why": (reason("no_row"),)}

    def failed(units):
        return (reason("failed_more", failed=units, units=10, before=2, had=10),)

    never = (NUMBERS, reason("never_settled"))
    check = check_of(
        found(
            compared("cannot tell", None, "a", **gone),
            compared("cannot tell", None, "b", **gone),
            compared("cannot tell", None, "c", why=failed(3)),
            compared("cannot tell", None, "d", why=failed(9)),
            undecided("e"),
            undecided("f", d=0.03, why=never, seeds=None, more=(9,)),
            undecided("g", setting="other", called="other"),
        ),
        (),
    )
    assert [(x.split(": ")[1], x.endswith("; and 1 more row")) for x in check.lines] == [
        ("release", True),
        ("release", True),
        ("release", True),
        ("other", False),
    ]
    assert "failed on 3 of 10" in check.lines[1]
    assert "P_leak 0.32 → 0.36, +0.04 (-0.04 to +0.11), allowed 0.05; more th" in check.lines[2]


def test_fine_but_attacked_worse_says_why():
    why = (NUMBERS, reason("control_fell", old=0.9, new=0.4))
    line = one(found(compared("cannot tell", 0.0, why=why)))
    assert "allowed 0.05; the control fell from 0.9 to 0.4" in line


def test_limits_say_the_bound_that_decided():
    down = {"limit": "accuracy>=0.8", "value": 0.7, "low": 0.6, "high": 0.75}
    poor = limited(row=row(0.7, "utility", called="release"))
    few, gone = against_limit(in_words("about 8 seeds")), (in_words("no such row"),)
    outcomes = [
        limited(),
        limited("cannot tell", value=0.21, low=0.15, high=0.28, why=few),
        limited("kept", value=0.1, low=0.05, high=0.14),
        replace(poor, **down),
        replace(poor, state="kept", **down | {"value": 0.9, "low": 0.85}),
        limited("cannot tell", row=None, value=None, low=None, high=None, why=gone),
    ]
    check = check_of(found(limits=outcomes), ())
    assert [line.text for line in every_line(check)] == [
        "breached: release: p_leak<=0.2: prototype averaging: 0.53 (at least 0.41)",
        "breached: release: accuracy>=0.8: utility: 0.700 (at most 0.750)",
        "cannot tell: release: p_leak<=0.2: prototype averaging: 0.21 (0.15 to 0.28); about 8"
        " seeds",
        "cannot tell: release: p_leak<=0.2: no such row",
        "kept: release: p_leak<=0.2: prototype averaging: 0.10 (at most 0.14)",
        "kept: release: accuracy>=0.8: utility: 0.900 (at least 0.850)",
    ]
    assert check.lines == tuple(line.text for line in every_line(check)[:4])
    assert check.heading == (
        "Check failed (exit 1): 2 limits breached, 2 limits cannot be told, 2 limits kept."
    )
    kept = check_of(found(limits=[limited("kept")]), ())
    assert kept.heading == "Check passed: 1 limit kept."


def test_rows_at_their_ceiling_are_fine_and_counted_apart():
    top = [fine(a, end="ceiling") for a in ("any_attack", "cascade")]
    ended = "3 gated rows fine, 2 of them at their ceiling: they cannot get worse"
    assert check_of(found(*top, fine("x")), ()).heading == f"Check passed: all {ended}."
    check = check_of(found(*top[:1], fine("x", end="floor"), compared()), ())
    assert check.heading == (
        "Check failed (exit 1): 1 row leaks more, 2 fine, 1 of them at its ceiling: it cannot get"
        " worse."
    )
    told = [line.text for line in every_line(check)]
    assert ", unchanged; the same guesses, byte for byte; at its ceiling" in told[1]
    assert told[1].endswith("; at its ceiling in the baseline, so it cannot get worse")
    assert told[2].endswith("; no further than the margin from a blind guess in the baseline")


def test_new_rows_are_one_line_for_each_setting_and_come_last():
    def said(allowed):
        return reason("worth", value=0.6), reason("new_row", what="setting", allowed=allowed)

    new = [
        compared("new", None, a, then=None, why=said(False))
        for a in ("cascade", "any_attack", "utility")
    ]
    check = check_of(found(*new, undecided()), ())
    assert check.lines[1] == (
        "new: release: best real attacker: P_leak 0.32 now; a new setting, not in the baseline:"
        " --update adds it; and 2 more rows"
    )
    assert len(check.lines) == 2
    passed = [replace(r, why=said(True)) for r in new]
    check = check_of(found(*passed, fine(), code=0), ())
    assert check.lines == ()
    assert [line.verdict for line in not_fine(check)] == ["new"]


def test_a_changed_parameter_is_told_as_the_paper_writes_it(tmp_path):
    check = said(made(tmp_path / "b", 7, sigma=0.2), made(tmp_path / "a", 2, sigma=0.3))
    assert check.exit == 1
    (line,) = check.lines
    assert line.startswith(
        "leaks more: digits: FedGN σ 0.2 (σ 0.3 -> 0.2): best real attacker: P_leak 0.25 → 0.75"
    )


def test_numbers_are_told_once():
    other = reason("other_code", attacks=("unmix-0a1b2c3d",))
    why = (reason("moved", old=0.32, new=0.6, of=other),)
    assert one(found(compared("cannot tell", None, why=why))).startswith(
        "cannot tell: release: best real attacker: P_leak 0.32 → 0.32; unmix ran with other code"
        " than in the baseline"
    )


def test_nobody_reads_a_fingerprint():
    names = ({"sigma": 0.1, "x": "y" * 50 + str(i)} for i in range(2))
    rows = [
        compared(
            called="",
            setting=f"digits/fedgn-{i}1a2b3c4",
            now=row(0.6, defense_params=p),
            then=row(0.3, defense_params=p),
        )
        for i, p in enumerate(names)
    ]
    why = (reason("unknown_on_a_side", what=(), attacks=("unmix-0a1b2c3d",)),)
    rows.append(compared("cannot tell", None, why=why))
    text = "\n".join(check_of(found(*rows), ()).lines)
    assert "#" not in text
    assert "0a1b2c3d" not in text
    assert "1a2b3c4" not in text
    assert "the code of unmix is not" in text
    assert "(1): best" in text
    assert "(2): best" in text


def test_what_is_unfinished_comes_first_and_is_counted():
    check = check_of(found(fine(), undecided(), unfinished=["runs/x: not finished"]), ())
    assert check.lines[0] == "cannot tell: runs/x: not finished"
    assert check.heading == (
        "Check undecided (exit 3): 1 run failed or not finished, 1 cannot tell, 1 fine."
    )


def test_the_next_look_is_what_is_trained():
    runs = undecided(more=(3, 4, 7))
    check = check_of(found(runs, limits=[limited("cannot tell", more=(3, 5))]), ())
    (limit,), (checked,) = check.limits, check.rows
    for command, seeds in ((checked.command, "3"), (limit.command, "2")):
        words = shlex.split(command)
        assert words[words.index("--spend") + 1] == seeds
    assert checked.look == 3
    assert checked.more == (3, 4, 7)


def test_a_limit_that_is_not_finite_is_none():
    check = check_of(found(compared(low=-math.inf, high=math.inf)), ())
    assert check.rows[0].low is None
    assert check.lines[0].endswith("P_leak 0.32 → 0.60")


@pytest.mark.parametrize("quiet", [False, True])
def test_a_terminal_shows_what_settles_each_thing_once(quiet):
    other = undecided(
        "any_attack", changes=(Change("parameter", "1", "2", "x"),)
    )  # another line, and the same command
    rows = [undecided(), other, compared(attack="z")]
    check = check_of(found(*rows, fine(), notes=["no baseline here"]), ())
    text = text_lines(check, quiet=quiet)
    hints = [line for line in text if line.startswith("  ")]
    assert [line for line in text if line not in hints] == [
        *(["note: no baseline here"] * (not quiet)),
        *check.lines,
    ]
    assert [line.split(": ")[0] for line in hints] == (
        [] if quiet else ["  If that is meant", "  To settle it"]
    )
    every = text_lines(check, verbose=True, quiet=quiet)
    assert [line for line in every if line in hints] == hints
    assert len(every) == len(text) + 1


def test_names_of_strangers_stand_on_one_line():
    bad = compared(
        called=EVIL, changes=(Change("parameter", EVIL, EVIL, EVIL),), why=ODD, attack=EVIL
    )
    check = check_of(found(bad, undecided(called=EVIL, why=ODD), unfinished=[EVIL]), ())
    for text in (*check.lines, check.heading, *text_lines(check)):
        assert "\n" not in text
        assert "\x1b" not in text
    assert len(check.lines) == 3


def test_a_setting_is_trained_again_into_the_folder_of_its_runs(tmp_path, monkeypatch):
    (setting,) = write.read_tables(made(tmp_path / "runs", 2, seeds=[0, 1])).settings
    words = shlex.split(trains(setting))
    assert words[-4:] == ["--seeds", "0,1", "-o", str(tmp_path / "runs")]
    monkeypatch.chdir(tmp_path)
    (setting,) = write.read_tables(folders.find([Path("runs")])).settings
    assert "-o" not in trains(setting)  # it goes there anyway
