"""Where a check's outcome goes: stdout, JSON, JUnit, SARIF, and what GitHub reads."""

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.check_results import EVIL, ODD, compared, fine, found, limited, row, undecided
from helpers.gate_rows import check as gate_check

from leakbench.base.errors import UsageError
from leakbench.base.reason import reason
from leakbench.cli.check_github import harmless, harmless_json
from leakbench.cli.check_output import CheckOutputs, show_check
from leakbench.cli.console import Console
from leakbench.gate.baseline import Baseline
from leakbench.gate.change import Change
from leakbench.reporting.check import check_of

MIXED = found(
    *(compared(), compared(attack="any_attack"), undecided("utility"), fine("x", end="ceiling")),
    limits=[limited()],
    unfinished=["runs/a: not finished; train it again"],
    notes=["the baseline is old"],
)
HOSTILE = found(
    compared(
        called=EVIL, setting=EVIL, attack=EVIL, changes=(Change("parameter", EVIL, EVIL, EVIL),)
    ),
    undecided(called=EVIL, setting=EVIL, why=ODD),
    fine(EVIL),
    limits=[limited(limit=EVIL, setting=EVIL, row=row(0.5, EVIL, called=EVIL))],
    unfinished=[EVIL],
    notes=[EVIL],
)


@pytest.fixture(autouse=True)
def _no_workflow(monkeypatch):
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def shown(capsys):
    """Show a result; (lines on stdout, stderr)."""

    def call(result, *, verbose=False, baseline=Path("leakage.json"), **outputs):
        capsys.readouterr()
        check = check_of(result, (), baseline)
        show_check(check, CheckOutputs(**outputs), Console(verbose=verbose))
        done = capsys.readouterr()
        return done.out.splitlines(), done.err

    return call


def test_only_what_is_not_fine_is_shown_and_the_heading_is_last(shown):
    out, err = shown(MIXED)
    assert [line.split(": ")[0] for line in out] == [
        "note",
        *("breached", "leaks more", "  If that is meant", "cannot tell", "cannot tell"),
        *("  To settle it", "Check failed (exit 1)"),
    ]
    assert "; and 1 more row" in out[2]
    assert out[-1].endswith("1 fine, 1 of them at its ceiling: it cannot get worse.")
    assert err == ""
    assert len(shown(MIXED, quiet=True)[0]) == 5


def test_verbose_shows_every_row(shown):
    for out, _ in (shown(MIXED, verbose=True), shown(replace(MIXED, notes=()), verbose=True)):
        rows = [line for line in out if not line.startswith(("  ", "note", "Check"))]
        assert len(rows) == 6
        assert rows[-1].startswith("fine: release: x: P_leak 0.32 → 0.32, unchanged")


def test_nothing_at_all_is_no_pass(shown, tmp_path):
    result = gate_check([], Baseline(()))
    out, _ = shown(result, junit=tmp_path / "j.xml", sarif=tmp_path / "s")
    assert out == ["Nothing is gated yet: `leakbench check --update`."]
    assert cases(tmp_path / "j.xml") == [("leakbench check", "error")]
    assert len(json.loads((tmp_path / "s").read_text())["runs"][0]["results"]) == 1


def test_limits_alone_are_a_check(shown, tmp_path):
    file, kept = tmp_path / "junit.xml", limited("kept", value=0.1, low=0.05, high=0.15)
    out, _ = shown(found(limits=[kept]), junit=file, baseline=None)
    assert out == ["Check passed: 1 limit kept."]
    assert cases(file) == [("p_leak<=0.2 on release", "")]
    out, _ = shown(found(limits=[kept, limited()]), as_json=True, sarif=file, baseline=None)
    assert [x["state"] for x in json.loads("\n".join(out))["limits"]] == ["breached", "kept"]
    (run,) = json.loads(file.read_text())["runs"]
    assert [r["ruleId"] for r in run["results"]] == ["limit-breached"]


@pytest.mark.parametrize(("how", "tag"), [("fail", "error"), ("warn", "error")])
def test_what_failed_elsewhere_is_no_pass(shown, tmp_path, how, tag):
    file = tmp_path / "junit.xml"
    out, _ = shown(found(fine(), code=4), undecided=how, junit=file)
    assert out[-1].startswith("Check incomplete, for a run or an attack failed (exit 4): 1 fine")
    assert [came for _, came in cases(file)] == ["", tag]


# JSON


def test_json_has_fields_of_every_row_and_limit(shown):
    out, _ = shown(MIXED, as_json=True)
    told = json.loads("\n".join(out))
    assert {k: told[k] for k in ("schema", "exit", "outcome", "unfinished", "notes")} == {
        **{"schema": 1, "exit": 1, "outcome": "failed", "notes": ["the baseline is old"]},
        "unfinished": ["runs/a: not finished; train it again"],
    }
    assert told["heading"].startswith("Check failed (exit 1): 1 run failed or not finished, 1 lim")
    first = told["rows"][0]
    assert first == {
        "name": "release/cascade/transcript/p_leak/final",
        "setting": "release",
        "state": "leaks more",
        "changes": [],
        "attack": "cascade",
        "rung": "transcript",
        "metric": "p_leak",
        "stage": "final",
        "probe": False,
        "old": 0.32,
        "new": pytest.approx(0.6),
        "difference": 0.28,
        "low": pytest.approx(0.2),
        "high": pytest.approx(0.35),
        "margin": 0.05,
        "end": "",
        "look": 3,
        "seeds": None,
        "more": [],
        "reason": "0.32 -> 0.6, worse by +0.28 [+0.2, +0.35], margin 0.05, 3 paired seeds",
        "command": f"leakbench check --update --accept {first['name']}",
    }
    assert [r["state"] for r in told["rows"]] == ["leaks more"] * 2 + ["cannot tell", "fine"]
    assert told["rows"][3]["end"] == "ceiling"
    assert told["limits"] == [
        {
            **{"limit": "p_leak<=0.2", "setting": "release", "state": "breached", "rows": 2},
            **{"name": "release/prototype_averaging/transcript/p_leak/final", "value": 0.53},
            **{"low": 0.41, "high": 0.64, "more": [], "command": ""},
            "reason": "prototype_averaging/transcript/p_leak/final: 0.53 [0.41, 0.64]",
        }
    ]


def test_the_table_in_the_documents_has_these_fields(shown):
    told = json.loads("\n".join(shown(MIXED, as_json=True)[0]))
    text = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
    table = text.split("### check --json")[1].split("\n#")[0]
    named = set(re.findall(r"`(\w+)`", table))
    for keys in (told, told["rows"][0], told["limits"][0]):
        assert set(keys) <= named


# what cannot be told


@pytest.mark.parametrize(("how", "code", "tag"), [("fail", 3, "error"), ("warn", 0, "skipped")])
def test_undecided_fails_or_warns(shown, tmp_path, how, code, tag):
    result, file = found(undecided(), fine()), tmp_path / "out" / "junit.xml"
    out, _ = shown(result, as_json=True, undecided=how, junit=file)
    told = json.loads("\n".join(out))
    assert (told["exit"], told["outcome"]) == (code, "undecided")
    assert f"(exit {code})" in told["heading"]
    name = "release/{}/transcript/p_leak/final".format
    assert cases(file) == [(name("cascade"), tag), (name("any_attack"), "")]
    # A warning excuses nothing that is sure.
    worse = found(compared(), undecided("x"))
    out, _ = shown(worse, undecided=how, junit=file)
    assert out[-1].startswith("Check failed (exit 1)")
    assert [came for _, came in cases(file)] == ["failure", tag]


def test_new_rows_are_green_only_where_they_are_allowed(shown, tmp_path):
    file = tmp_path / "junit.xml"

    def why(allowed):
        return (reason("new_row", what="setting", allowed=allowed),)

    new = compared("new", None, then=None, why=why(False))
    shown(found(new, fine()), junit=file)
    assert [came for _, came in cases(file)] == ["error", ""]
    new = replace(new, why=why(True))
    out, _ = shown(found(new, fine(), code=0), junit=file)
    assert [came for _, came in cases(file)] == ["skipped", ""]
    assert out[-1] == (
        "Check passed: the one gated row is fine; 1 new, let pass by allow_new and compared with"
        " nothing."
    )
    shown(found(new, compared(), code=1), junit=file)
    assert [came for _, came in cases(file)] == ["failure", "skipped"]


# JUnit

# As the schemas of Jenkins and GitLab have it: tag -> (attributes that must be, may be; children).
JUNIT = {
    "testsuites": ({"name"}, {"tests", "failures", "errors", "time"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"skipped", "time", "timestamp", "hostname"},
        {"testcase", "properties"},
    ),
    "testcase": ({"name", "classname"}, {"time"}, {"failure", "error", "skipped"}),
    "failure": (set(), {"message", "type"}, set()),
    "error": (set(), {"message", "type"}, set()),
    "skipped": (set(), {"message"}, set()),
}


def cases(file):
    """(name, what came of it) of every test case, the file having been held to the schema."""
    root = ET.fromstring(file.read_bytes())
    assert root.tag == "testsuites"
    for node in root.iter():
        must, may, children = JUNIT[node.tag]
        assert must <= set(node.attrib) <= must | may
        assert {c.tag for c in node} <= children
    every = list(root.iter("testcase"))
    for node in (root, root[0]):
        counted = {k: int(node.get(k)) for k in ("tests", "failures", "errors")}
        assert counted == {
            "tests": len(every),
            "failures": len(list(root.iter("failure"))),
            "errors": len(list(root.iter("error"))),
        }
    assert int(root[0].get("skipped")) == len(list(root.iter("skipped")))
    return [(c.get("name"), "".join(x.tag for x in c)) for c in every]


def test_junit_has_a_case_for_every_row_limit_and_unfinished_run(shown, tmp_path):
    file = tmp_path / "junit.xml"
    shown(MIXED, junit=file)
    assert cases(file) == [
        ("runs/a", "error"),
        ("p_leak<=0.2 on release", "failure"),
        ("release/cascade/transcript/p_leak/final", "failure"),
        ("release/any_attack/transcript/p_leak/final", "failure"),
        ("release/utility/transcript/accuracy/final", "error"),
        ("release/x/transcript/p_leak/final", ""),
    ]
    node = next(ET.fromstring(file.read_bytes()).iter("failure"))
    assert node.get("message") == (
        "breached: release: p_leak<=0.2: prototype averaging: 0.53 (at least 0.41)"
    )
    groups = {c.get("classname") for c in ET.fromstring(file.read_bytes()).iter("testcase")}
    assert groups == {"leakbench.runs", "leakbench.release"}


def test_names_of_strangers_break_no_xml(shown, tmp_path):
    file = tmp_path / "junit.xml"
    shown(HOSTILE, junit=file)
    assert len(cases(file)) == 5
    text = file.read_bytes()
    assert not re.search(b"[\x00-\x08\x0b-\x1f]", text)
    assert "\ufffe" not in text.decode()
    assert "]]> | `x` <script>&amp;" in next(ET.fromstring(text).iter("failure")).get("message")


# SARIF


def test_sarif_has_a_result_for_all_that_is_not_fine(shown, tmp_path):
    file = tmp_path / "leak.sarif"
    shown(MIXED, sarif=file, baseline=tmp_path / "golden set.json")
    log = json.loads(file.read_text(encoding="utf-8"))
    assert (log["version"], len(log["runs"])) == ("2.1.0", 1)
    (run,) = log["runs"]
    rules = [r["id"] for r in run["tool"]["driver"]["rules"]]
    assert rules == ["run-unfinished", "limit-breached", "leaks-more", "cannot-tell"]
    assert [r["ruleId"] for r in run["results"]] == [
        *("run-unfinished", "limit-breached", "leaks-more", "leaks-more", "cannot-tell")
    ]
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        assert result["level"] == "error"
        assert result["message"]["text"]
        (place,) = result["locations"]
        # A file elsewhere gives its name alone.
        assert place["physicalLocation"] == {
            "artifactLocation": {"uri": "golden%20set.json"},
            "region": {"startLine": 1},
        }
    marks = [r["partialFingerprints"]["leakbench/v1"] for r in run["results"]]
    assert len(set(marks)) == 5
    shown(found(undecided()), sarif=file, undecided="warn")
    (run,) = json.loads(file.read_text())["runs"]
    assert [r["level"] for r in run["results"]] == ["warning"]
    shown(found(fine()), sarif=file)
    (run,) = json.loads(file.read_text())["runs"]
    assert run["results"] == run["tool"]["driver"]["rules"] == []


def test_the_baselines_place_is_relative_to_the_checkout(shown, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown(HOSTILE, sarif=Path("s"), baseline=tmp_path / "ci" / "a#b.json")
    (run,) = json.loads(Path("s").read_text())["runs"]
    at = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert at == "ci/a%23b.json"
    for text in (r["message"]["text"] for r in run["results"]):
        assert "\x1b" not in text
        assert "](" not in text


# GitHub


@pytest.fixture
def workflow(monkeypatch, tmp_path):
    """A step of a job; the file of its summary."""
    file = tmp_path / "summary"
    file.write_text("of another step\n")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(file))
    return file


def test_a_workflow_gets_annotations_and_a_summary(shown, workflow):
    out, err = shown(MIXED)
    marks = [line for line in out if line.startswith("::")]
    assert marks[0] == (
        "::error title=leakbench%3A breached,file=leakage.json::breached: release: p_leak<=0.2:"
        " prototype averaging: 0.53 (at least 0.41)"
    )
    assert "%0AIf that is meant: leakbench check" in marks[1]
    assert [m.split(",")[0] for m in marks[1:]] == [
        "::error title=leakbench%3A leaks more",
        *["::error title=leakbench%3A cannot tell"] * 2,
    ]
    assert err == ""
    assert out[-1].startswith("Check failed")
    text = workflow.read_text(encoding="utf-8")
    assert text.startswith("of another step\n## ❌ Check failed (exit 1): 1 run failed")
    assert "| **breached** | release: p\\_leak&lt;=0.2: prototype averaging | 0.53 (at" in text
    assert text.count("<details>") == text.count("</details>") == 1
    assert "the baseline is old" in text
    assert "not compared" not in text  # every row was; a limit and a run are none


def test_json_stays_json_in_a_workflow(shown, workflow):
    out, err = shown(HOSTILE, as_json=True)
    told = json.loads("\n".join(out))
    assert "##[error]c" in told["rows"][0]["setting"]
    assert "##[" not in "\n".join(out)
    assert sum(line.startswith("::error ") for line in err.splitlines()) == 4


def test_only_our_own_commands_reach_a_workflow(shown, workflow):
    out, _ = shown(HOSTILE, verbose=True)
    began = [line for line in out if line.lstrip().startswith("::")]
    ours = re.compile(r"::error title=leakbench%3A [a-z ]+,file=leakage.json::")
    assert all(map(ours.match, began))
    assert len(began) == 4
    assert "%250A" in began[0]  # a per cent sign of theirs stays one
    assert not [line for line in out if "##[" in line and line not in began]
    text = workflow.read_text(encoding="utf-8")
    outside = re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    tags = set(re.findall(r"<(/?\w+)", outside))
    assert tags <= {"details", "/details", "summary", "/summary"}
    assert "\x1b" not in text
    assert harmless("  ::error::x") == "  : :error::x"
    assert harmless("a ::b") == "a ::b"
    assert json.loads(harmless_json('"##[x"')) == "##[x"


def test_no_more_annotations_than_are_shown(shown, workflow):
    rows = [compared(attack=f"a{i}", setting=f"s{i}", called=f"s{i}") for i in range(14)]
    out, _ = shown(found(*rows, undecided(setting="z", called="z")), undecided="warn")
    marks = [line for line in out if line.startswith("::")]
    assert [m.split(" ")[0] for m in marks] == ["::error"] * 10 + ["::warning"]
    assert marks[9].endswith("::and 5 more: see the summary")


def test_a_summary_that_is_named_takes_the_place_of_the_jobs(shown, workflow, tmp_path):
    shown(MIXED, summary=tmp_path / "mine.md")
    assert workflow.read_text() == "of another step\n"
    assert (tmp_path / "mine.md").read_text(encoding="utf-8").startswith("## ❌ Check failed")


def test_a_jobs_summary_that_cannot_be_written_is_a_warning(shown, monkeypatch, tmp_path):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "no" / "such"))
    out, err = shown(found(fine()))
    assert out[-1].startswith("Check passed")
    assert err.startswith("GITHUB_STEP_SUMMARY: cannot write")


def test_a_summary_of_thousands_of_rows_fits(shown, tmp_path):
    rows = [compared(attack=f"a{i}", setting=f"s{i}", called=f"s{i}") for i in range(2000)]
    shown(found(*rows), summary=tmp_path / "s.md", quiet=True)
    text = (tmp_path / "s.md").read_text(encoding="utf-8")
    assert len(text.encode()) < 60_000
    assert "left out to keep this short" in text


def test_elsewhere_nobody_gets_annotations(shown, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "false")
    out, _ = shown(MIXED)
    assert not [line for line in out if line.startswith("::")]


def test_a_file_that_cannot_be_written_is_one_sentence_after_the_others(shown, tmp_path, capsys):
    (tmp_path / "taken").write_text("")
    bad, good = tmp_path / "taken" / "x", tmp_path / "ok.sarif"
    with pytest.raises(UsageError, match=r"cannot write .* Give --junit another place, or make"):
        shown(MIXED, junit=bad, sarif=good)
    assert good.is_file()
    assert capsys.readouterr().out.splitlines()[-1].startswith("Check failed")
