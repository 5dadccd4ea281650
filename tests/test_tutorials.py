"""The tutorials do what they say: their files are written, their commands run in their order, and
what they show of the output is in it.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from leakbench.record.folders import load
from leakbench.results import utility

PAGES = Path(__file__).resolve().parents[1] / "docs" / "tutorials"
NAMES = sorted(p.stem for p in PAGES.glob("*.md"))
FILE = re.compile(
    r"[Ss]ave this as `([\w.]+)`[^\n]*\n\n```\w+\n(.*?)^```", re.DOTALL | re.MULTILINE
)
COMMAND = re.compile(r"^    ((?:leakbench|sed|tar|RUN=|EXPORT=)\S* ?.*)$", re.MULTILINE)
MARK = "@@ "  # before what a command says: its number, and what is trained by then
# Commands that stand for anybody's: the run and the guesses are the reader's own.
TEMPLATE = re.compile(r"\b(?:runs/RUN|GUESSES)\b")
BEFORE = {"reviewing-a-claim": ["own-attack"]}  # files of another page that this one uses


def text(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def files(name: str) -> dict[str, str]:
    return dict(FILE.findall(text(name)))


def commands(name: str) -> list[str]:
    """The page's own, in order, without those that stand for anybody's."""
    return [line for line in COMMAND.findall(text(name)) if not TEMPLATE.search(line)]


def shown(name: str) -> list[tuple[list[str], str]]:
    """What of an output stands on the page, and the commands right above it."""
    out, above, held, fence = [], [], [], ""
    for line in text(name).splitlines():
        if line.startswith("```"):
            if fence == "```text":
                out.append((above, "\n".join(held)))
                above = []
            fence, held = "" if fence else line, []
        elif fence:
            held.append(line)
        else:
            above = [] if line.startswith("#") else [*above, *COMMAND.findall(line)]
    return out


def script(name: str) -> str:
    """The page's commands; one that is to fail says with which code."""
    lines = ["set -eu"]
    for i, line in enumerate(commands(name)):
        lines.append(f"echo '{MARK}'{i} $(find . -name run.json -printf '%p %T@ ' | md5sum)")
        code = re.search(r"# exit (\d+)$", line)
        fails = f"rc=0; {line.split(' #')[0]} || rc=$?; test $rc = {code[1]}" if code else ""
        lines.append(fails or line)
    return "\n".join(lines)


def outputs(name: str, said: str) -> list[str]:
    """What each of the page's commands said."""
    parts = re.split(rf"^{MARK}\d+ (.*)\n", said, flags=re.MULTILINE)
    assert len(parts) == 1 + 2 * len(commands(name))
    return parts[2::2]


def trained(said: str) -> list[str]:
    """What was trained before each command, as a sum."""
    return re.findall(rf"^{MARK}\d+ (.*)$", said, re.MULTILINE)


def test_all_four_are_here():
    assert NAMES == ["gate", "own-attack", "own-defense", "reviewing-a-claim"]
    for name in NAMES:
        assert len(COMMAND.findall(text(name))) >= 3, name
    assert {n for n in NAMES if files(n)} == {"gate", "own-attack", "own-defense"}


@pytest.mark.parametrize("name", NAMES)
def test_no_command_of_a_tutorial_is_left_out(name):
    """Whatever stands indented is run, as often as it stands there, or is a template."""
    prose = re.sub(r"^```.*?^```", "", text(name), flags=re.DOTALL | re.MULTILINE)
    shown = re.findall(r"^ {4,}(\S.*)$", prose, re.MULTILINE)
    assert shown
    assert [line for line in shown if not TEMPLATE.search(line)] == commands(name)
    ran = script(name).splitlines()
    for line in commands(name):
        bare, _, comment = line.partition(" #")
        assert not comment or re.fullmatch(r" exit \d+", comment), line
        assert (f"rc=0; {bare} || rc" in script(name)) if comment else line in ran


def test_what_a_command_shows_is_its_own():
    """The same words in the line of another setting, or of another command, do not count."""
    shown = "fedcs\n1.00 (0.98 to 1.00)\n"
    assert not stands(shown, "fedaws 1.00 (0.98 to 1.00)\nfedcs   0.10 (0.02 to 0.20)")
    assert stands(shown, "fedaws 0.10\n  fedcs   1.00 (0.98 to 1.00)  ")


def stands(shown: str, said: str) -> bool:
    """Are all lines of ``shown`` in one line of what was said?"""
    parts = [" ".join(line.split()) for line in shown.splitlines()]
    lines = [" ".join(line.split()) for line in said.splitlines()]
    return any(all(part in line for part in parts) for line in lines)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_tutorial_does_what_it_says(name, tmp_path):
    for page in [*BEFORE.get(name, []), name]:
        for path, code in files(page).items():
            (tmp_path / path).write_text(code, encoding="utf-8")
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "COLUMNS": "200",
    }
    done = subprocess.run(
        ["bash", "-c", script(name)],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, f"{script(name)}\n{done.stdout[-6000:]}"
    said = dict(zip(commands(name), outputs(name, done.stdout), strict=True))
    for above, told in shown(name):
        mine = [said[line] for line in above]
        assert stands(told, "\n".join(mine)), (told, mine)
    for report in re.findall(r"-o (report)\b", script(name)):
        assert (tmp_path / report / "index.html").is_file()
    alive(tmp_path, reported="-o report" in script(name))
    PROSE[name](tmp_path, dict(zip(commands(name), trained(done.stdout), strict=True)))


def numbers(folder: Path) -> dict[tuple[str, str, str], tuple[float, int]]:
    """(method, attack, metric) -> value at the end, and of how many."""
    with (folder / "report" / "tradeoff.csv").open(encoding="utf-8", newline="") as file:
        lines = [r for r in csv.DictReader(file) if r["stage"] in ("final", "all") and r["value"]]
    return {
        (r["defense"], r["attack"], r["metric"]): (float(r["value"]), int(r["n"])) for r in lines
    }


def verdicts(folder: Path) -> dict[str, str]:
    """{method: the verdict's word} on the first question of the report."""
    report = json.loads((folder / "report" / "report.json").read_text(encoding="utf-8"))
    names = {s["id"]: s["configuration"]["defense"] for s in report["settings"]}
    return {names[j["setting"]]: j["verdict"]["word"] for j in report["questions"][0]["judged"]}


def alive(folder: Path, *, reported: bool) -> None:
    """No run of the tutorial is dead, and its page judges every setting."""
    runs = [load(p) for p in sorted((folder / "runs").iterdir())]
    assert runs
    assert {
        run.id: utility.utility_of_run(run).dead for run in runs if utility.utility_of_run(run).dead
    } == {}
    if reported:
        assert set(verdicts(folder).values()) <= {"leaks", "leaks in part", "held"}


def prose_own_defense(folder: Path, _before: dict[str, str]) -> None:
    """*leaks*: of all clients."""
    assert "stands there for `fedtop` on the question of prototypes is *leaks*" in text(
        "own-defense"
    )
    assert verdicts(folder)["fedtop"] == "leaks"
    value, n = numbers(folder)["fedtop", "prototype_leakage", "p_leak"]
    assert value > 0.9
    assert n == 100


def prose_own_attack(folder: Path, _before: dict[str, str]) -> None:
    """A cosine of about 0.36, and of about 0.9."""
    assert "about 0.36 with" in text("own-attack")
    assert "of about 0.9" in text("own-attack")
    found = numbers(folder)
    newest, _ = found["fedgn", "prototype_leakage", "prototype_cosine"]
    median, _ = found["fedgn", "prototype_median", "prototype_cosine"]
    assert newest == pytest.approx(0.36, abs=0.03)
    assert median == pytest.approx(0.9, abs=0.05)


def prose_reviewing(folder: Path, _before: dict[str, str]) -> None:
    """A fifth, all, and all 200 of 200."""
    assert "names a fifth of the clients" in text("reviewing-a-claim")
    assert "The verdict on `fedcs` is *leaks*" in text("reviewing-a-claim")
    assert verdicts(folder)["fedcs"] == "leaks"
    assert "all 200 of 200" in text("reviewing-a-claim")
    found = numbers(folder)
    assert found["fedcs", "prototype_leakage", "p_leak"][0] == pytest.approx(0.2, abs=0.06)
    assert found["fedaws", "prototype_leakage", "p_leak"][0] == 1
    assert found["fedcs", "prototype_averaging", "p_leak"] == (1, 200)


def prose_gate(_folder: Path, before: dict[str, str]) -> None:
    """Nothing is trained where nothing changed, and it is where something did."""
    assert "Nothing changed, nothing is trained" in text("gate")
    first, green, change, red = before.values()
    assert first != green == change == red


PROSE = {
    "own-defense": prose_own_defense,
    "own-attack": prose_own_attack,
    "reviewing-a-claim": prose_reviewing,
    "gate": prose_gate,
}


def test_files_of_the_tutorials_are_whole():
    """What is saved is Python, or TOML, and is not so long that nobody would read it."""
    import tomllib

    for name in NAMES:
        for path, code in files(name).items():
            assert len(code.splitlines()) <= 30, path
            if path.endswith(".toml"):
                tomllib.loads(code)
            else:
                compile(code, path, "exec")
    assert shlex.split(script("gate"), comments=True)
