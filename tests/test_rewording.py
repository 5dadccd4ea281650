"""No verdict, exit code or number rests on a sentence: with all of them replaced, each stands."""

from __future__ import annotations

import ast
import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.rewording import ROOT, Reworded
from helpers.run_folders import add_attack, edited, make_run, measure

PLAIN, OTHER = ["-m", "leakbench"], ["-m", "helpers.rewording"]
NONE, ALL = [0.0] * 60, [1.0] * 60
# Columns and fields that are texts; a meaning's are data of the baseline.
TEXTS = {"reason", "claimed_source", "interval", "unit", "about", "verb", "title", "why", "name"}


def leakbench(how, *args, at):
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    env = {**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "0"}
    words = [sys.executable, *how, *map(str, args)]
    return subprocess.run(words, cwd=at, env=env, capture_output=True, text=True, check=False)


def add(run, name, found, control=ALL, **more):
    add_attack(run, name, [measure("p_leak", found, 0.01, control)], rung="method", **more)


def settings(out: Path, share: float, undone=()) -> Path:
    """One setting for each thing that a verdict may rest on; the first leaks this share.

    ``undone``: what became of further runs.
    """
    some = [1.0] * round(60 * share) + [0.0] * (60 - round(60 * share))
    for seed in range(5):
        add(make_run(out, seed=seed, params={"sigma": 0.1}), "unmix", some)
    for seed in range(2):
        held = make_run(out, seed=seed, params={"sigma": 0.2})
        add(held, "unmix", NONE)
        for i, status in enumerate(("failed: MethodError: no memory", "running", "guessed")):
            run = make_run(out, seed=seed, params={"sigma": 0.3 + i})
            add(run, "unmix", NONE)
            add_attack(run, "other", [], status=status, rung="method")
    weak = make_run(out, params={"sigma": 0.6})
    add(weak, "unmix", NONE, NONE)
    paper = make_run(out, params={"sigma": 0.7})
    add_attack(paper, "nearest", [measure("p_leak", NONE, 0.01, ALL)], rung="paper")
    add(make_run(out, params={"sigma": 0.8}, cosine=0.999), "unmix", ALL)
    make_run(out, params={"sigma": 0.9})
    for i, status in enumerate(undone):
        run = make_run(out, params={"sigma": 2.0 + i})
        edited(run / "run.json", lambda meta, status=status: meta.update(status=status))
    return out


def decided(how, at: Path, now: Path, then: Path) -> dict[str, object]:
    """All that a program may rest on of what the commands say of two folders of runs."""
    update = leakbench(how, "check", then, "--update", at=at)
    base = json.loads((at / "leakage.json").read_text(encoding="utf-8"))
    limits = ("--limit", "p_leak<=0.5", "--limit", "accuracy>=0.7")
    check = leakbench(how, "check", now, "--json", *limits, at=at)
    told = json.loads(check.stdout)
    report = leakbench(how, "report", now, "--format", "json", "--against", then, at=at)
    data = json.loads((at / "report" / "report.json").read_text(encoding="utf-8"))
    judged = [(q["fronts"], [j["verdict"] for j in q["judged"]]) for q in data["questions"]]
    return {
        "exits": (update.returncode, check.returncode, report.returncode),
        "baseline": _plain(base),
        "rows": [(r["name"], r["state"], r["seeds"], r["command"]) for r in told["rows"]],
        "limits": [(x["name"], x["limit"], x["state"], x["value"]) for x in told["limits"]],
        "judged": judged,
        "moved": _plain(data["against"]["rows"]),
        "states": [(s["id"], s["state"]) for s in data["settings"]],
        "tables": [_table(path) for path in sorted((at / "report").glob("*.csv"))],
    }


def _plain(value):
    """Without texts and the seal."""
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if not isinstance(value, dict):
        return value
    return {k: _plain(v) for k, v in value.items() if k not in {*TEXTS, "digest"}}


def _table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return _plain(list(csv.DictReader(file)))


def test_reports_and_checks_stand_whatever_is_said(tmp_path):
    now = settings(tmp_path / "now", 0.9, ("failed: MethodError: x", "running"))
    then = settings(tmp_path / "then", 0.1)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    plain = decided(PLAIN, tmp_path / "a", now, then)
    words = {v["word"] for _, verdicts in plain["judged"] for v in verdicts}
    assert words >= {"leaks", "held", "cannot tell", "dead run", "attack too weak"}
    assert words >= {"failed", "not finished", "nothing to attack"}
    assert {state for _, state, *_ in plain["rows"]} >= {"leaks more", "cannot tell", "fine"}
    assert {state for _, _, state, _ in plain["limits"]} >= {"breached", "cannot tell"}
    assert decided(OTHER, tmp_path / "b", now, then) == plain


def test_what_is_said_is_replaced(tmp_path):
    made = make_run(tmp_path / "runs")
    told = leakbench(OTHER, "check", made, at=tmp_path)
    assert told.returncode == leakbench(PLAIN, "check", made, at=tmp_path).returncode
    assert "[leakbench.gate" in told.stdout + told.stderr


@pytest.mark.parametrize(
    "reads",
    [
        "why.startswith('not finished')",
        "why.endswith(' run it again')",
        "'not finished: run' in why",
        "why in ('not finished: run it again', 'gone')",
        "re.match('not fin.*', why) is not None",
        "why == TEXT",
        "TEXTS.get(why, False)",
    ],
)
def test_who_reads_a_sentence_decides_otherwise(reads):
    source = "TEXT = 'not finished: run it again'\nTEXTS = {'not finished: run it again': True}\n"
    source += f"why = 'not finished: run it again'\nfound = {reads}"

    def found(tree):
        at = {"re": __import__("re")}
        exec(compile(tree, "x", "exec"), at)
        return at["found"]

    assert found(ast.parse(source))
    assert not found(ast.fix_missing_locations(Reworded("x").visit(ast.parse(source))))
