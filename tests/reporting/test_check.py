"""What `check` said, as a report shows it: one line per row that needs a look, with what changed
and what would settle it.
"""

import shlex
from functools import partial
from pathlib import Path

from helpers.run_folders import add_attack, edited, make_run, measure

from leakbench import api
from leakbench.cli import run as cli
from leakbench.gate import gate
from leakbench.gate.baseline import Baseline
from leakbench.gate.rows import gate_rows
from leakbench.record import folders
from leakbench.reporting import write
from leakbench.reporting.check import check_of


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
    settings = write.tables(now).settings
    before = Baseline.of(gate_rows(write.tables(then).settings))
    return check_of(gate.check(gate_rows(settings), before), settings, baseline)


def test_what_leaks_more_comes_first_with_numbers_and_margin(tmp_path):
    check = said(made(tmp_path / "b", 7), made(tmp_path / "a", 2))
    assert check.exit == 1
    assert check.heading == "Check failed (exit 1): 2 rows leak more, 1 fine."
    assert check.against == "leakage.json made at abc"
    assert len(check.lines) == 2
    assert check.lines[0].startswith("leaks more: digits: FedGN σ 0.1, ")
    assert "P_leak 0.25 → 0.75, +0.50 (+0." in check.lines[0]
    assert check.lines[0].endswith("allowed 0.05.")
    assert {r.row for r in check.rows} == {
        f"digits: FedGN σ 0.1, {a}" for a in ("worst case", "best real attacker", "utility")
    }


def test_passed_names_the_closest(tmp_path):
    then = made(tmp_path / "a", 5)
    assert said(then, then).heading == "Check passed: all 3 rows fine."
    assert said(then, then).lines == ()


def test_a_setting_that_was_changed_is_recognised(tmp_path):
    check = said(made(tmp_path / "b", 7, sigma=0.2), made(tmp_path / "a", 2, sigma=0.3))
    assert check.exit == 1
    (line,) = [x for x in check.lines if "worst case" in x]
    assert "P_leak 0.25 → 0.75, +0.50" in line
    assert [r.verdict for r in check.rows].count("new") == 0


def test_what_cannot_be_told_says_what_settles_it(tmp_path):
    then = made(tmp_path / "a", 2)
    few = said(made(tmp_path / "b", 7, seeds=[5]), then)
    told = [r.command for r in few.rows if r.verdict == "cannot tell"]
    train, attack = told[0].split(" && ")
    assert shlex.split(train)[:5] == ["leakbench", "train", "-t", "digits", "-d"]
    assert shlex.split(train)[-2:] == ["--seeds", "0,1,2,3,4,5,6,7"]
    assert attack == f"leakbench attack {tmp_path / 'b'}"
    assert len(few.lines) == 2
    assert few.lines[0].count("leakbench train") == 1
    assert few.lines[1].endswith("The command above settles it, too.")
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
    assert f"If that is meant: {row.command}" in other.lines[0]


def test_of_runs_that_are_gone_the_baseline_tells_how_to_train_them(tmp_path):
    then = made(tmp_path / "a", 2) + made(tmp_path / "a3", 2, sigma=0.3)
    check = said(made(tmp_path / "b", 2), then)
    (line,) = {r.command for r in check.rows if r.verdict == "cannot tell"}
    words = shlex.split(line.split(" && ")[0])
    assert "sigma=0.3" in words
    assert words[words.index("--rounds") + 1] == "100"
    assert words[words.index("--seeds") + 1] == "0,1,2,3,4,5,6,7"


def test_nothing_gated(tmp_path):
    now = made(tmp_path / "a", 2, seeds=[0])
    settings = write.tables(now).settings
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
