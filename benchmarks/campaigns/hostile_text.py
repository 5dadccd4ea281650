"""Hostile text in every field, to a real terminal and to a browser.

    python -m benchmarks.campaigns.hostile_text

Escape sequences, markup of rich, HTML, formulas, text that turns its direction, half characters and
lines that pretend to be ours: as values of a method of somebody's own, as reasons why it failed, as
names on the command line, in run.json, attack.json and tables (their seals recomputed), in a
baseline and as title. The terminal is a pty, the browser a headless one, if there is one here.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import re
import select
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.campaigns import forked
from benchmarks.campaigns.forked import TINY, Command, Ended
from benchmarks.campaigns.mutants import plugged
from benchmarks.campaigns.mutations import places, reseal, written

ROOT = Path(__file__).resolve().parents[2]
FORGED = "leakbench: all is well"
TEXTS = {
    "title": "\x1b]0;owned\x07t",
    "clear": "\x1b[2J\x1b[13;7mc",
    "link": "\x1b]8;;http://evil\x1b\\l\x1b]8;;\x1b\\",
    "c1": "\x9b2J\x9d0;owned\x9c",
    "rich": "a[/foo]b [link=http://evil]c[/link] [bold red]d",
    "html": "<script>window.owned=1</script><img src=x onerror=window.owned=1>\"'>",
    "template": "{{7*7}}{% include 'x' %}${7*7}</script><!--",
    "formula": "=cmd|' /C calc'!A0",
    "turned": "\u202egnp.exe\u2066\u200b",
    "line": f"x\n{FORGED}\r\n{FORGED}",
    "half": "\ud800x",
    "long": "W" * 20_000,
}
# What rich needs for its bars: colours, the cursor, lines erased.
OURS = re.compile(r"\x1b\[(?:\d{1,2}(?:;\d{1,3}){0,4})?m|\x1b\[\?25[lh]|\x1b\[\d*[AKG]")
PLUGIN = '''
"""A method of somebody's own."""

from pydantic import Field

from defenses.fedgn import FedGN


class FedEvil(FedGN):
    """FedGN, with a note."""

    note: str = Field("", description={text!r})
    fails: bool = Field(False, description="or not")

    def proxy(self, w, me):
        if self.fails:
            raise ValueError({text!r})
        return super().proxy(w, me)
'''


def screen(words: Sequence[object], where: Path) -> tuple[Ended, str]:
    """How a command ends whose three streams are a terminal, and what reached it."""
    keyboard, line = pty.openpty()

    def attached() -> None:
        for number in range(3):
            os.dup2(line, number)
        sys.stdout, sys.stderr = (os.fdopen(n, "w", closefd=False) for n in (1, 2))
        os.environ.update(TERM="xterm-256color", COLUMNS="200")
        plugged(where)()

    one = Command(words, where, attached)
    os.close(line)
    found, until = b"", time.monotonic() + 120
    while time.monotonic() < until:
        if not select.select([keyboard], [], [], 1)[0]:
            continue
        try:
            more = os.read(keyboard, 65536)
        except OSError:  # the other end is closed
            break
        if not more:
            break
        found += more
    os.close(keyboard)
    return one.wait(), found.decode("utf-8", "replace")


def judged(done: Ended, shown: str) -> list[str]:
    """What is wrong with what reached the terminal."""
    wrong = []
    left = OURS.sub("", shown)
    if re.search("[\x1b\x07\x80-\x9f\u202a-\u202e\u2066-\u2069]", left):
        at = re.search("[\x1b\x07\x80-\x9f\u202a-\u202e\u2066-\u2069]", left)
        begin = at.start() if at else 0
        wrong.append(f"it steers the terminal: {left[max(0, begin - 40) : begin + 40]!r}")
    if re.search(rf"(?m)^\s*{FORGED}", left):
        wrong.append("a line is forged")
    if "Traceback" in shown or done.code not in (0, 1, 2, 3, 4):
        wrong.append(f"exit {done.code}: {shown[-300:]!r}")
    return wrong


def commands(text: str) -> list[tuple[object, ...]]:
    """Command lines with the text wherever a name or a value goes."""
    plain = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    note = f"note={json.dumps(plain)}"
    evil = ("train", "-d", "fedevil", *TINY, "--rounds", 2)
    return [
        (*evil, "-s", note, "--seeds", "0,1"),
        (*evil, "-s", "fails=true"),
        ("attack", "runs", "-a", "prototype_leakage"),
        ("report", "runs", "--title", plain, "--format", "html,csv,json,markdown,latex"),
        ("check", "runs", "--update"),
        ("check", "runs"),
        ("report", "runs", "-o", "again", "--against", "report", "--check", "leakage.json"),
        ("show", "fedevil"),
        ("list",),
        *(("train", *more) for more in (("-d", plain), ("-d", "fedgn", "-t", plain))),
        *(("train", "-d", "fedgn", *more) for more in (("-s", plain), ("-s", f"{plain}=1"))),
        *((verb, plain) for verb in ("attack", "score", "report", "check", "show", plain)),
        ("attack", "runs", "-a", plain),
        ("check", "runs", "--update", "--accept", plain),
    ]


def fields(where: Path) -> list[tuple[Path, str]]:
    """(file, name) of everything in every run.json and attack.json but for digests."""
    out = []
    for path in sorted(where.glob("runs/*/**/*.json")):
        names = [name for _, _, name in places(json.loads(path.read_bytes()))]
        out += [(path, n) for n in names if n.count(".") <= 4 and not re.match(".files|.digest", n)]
    return out


def changed(where: Path, path: Path, name: str, text: str) -> None:
    """One value, if it is a text, or its key."""
    whole = json.loads(path.read_bytes())
    for holder, key, its in places(whole):
        if its == name:
            if isinstance(holder[key], str):
                holder[key] = text
            elif isinstance(holder, dict):
                holder[text] = holder.pop(key)
            break
    written(path, json.dumps(whole, sort_keys=True, indent=1).encode(), "")
    reseal(where / "runs")


def terminal(place: Path, chosen: Sequence[str]) -> tuple[int, list[str]]:
    """How many commands were tried on a terminal, and what was wrong."""
    tried, wrong = 0, list[str]()
    for name, text in ((n, TEXTS[n]) for n in chosen):
        where = place / name / "desk"
        (where / "plugin").mkdir(parents=True)
        source = PLUGIN.format(text=text)
        (where / "plugin" / "fedevil.py").write_bytes(source.encode("utf-8", "surrogatepass"))
        for words in commands(text):
            done, shown = screen(words, where)
            tried += 1
            wrong += [f"{name}, {words[0]!r:.20}: {w}" for w in judged(done, shown)]
    return tried, wrong


def edited(place: Path, every: int) -> tuple[int, list[str]]:
    """The same with texts in the files of a run, one field in ``every``."""
    tried, wrong = 0, list[str]()
    sound = next(place.glob("*/desk"))
    if not any(sound.glob("runs/*/attacks/*/attack.json")):
        return 0, ["there is no attacked run to change"]
    for i, (path, name) in enumerate(fields(sound)):
        if i % every:
            continue
        text = list(TEXTS.values())[i % (len(TEXTS) - 1)]
        where = place / "edited" / "desk"
        shutil.rmtree(where.parent, ignore_errors=True)
        shutil.copytree(sound, where)
        changed(where, where / path.relative_to(sound), name, text)
        for words in (("report", "runs", "-o", "new", "--format", "csv"), ("score", "runs")):
            done, shown = screen(words, where)
            tried += 1
            what = f"{path.relative_to(sound)}{name}, {words[0]}"
            wrong += [f"{what}: {w}" for w in judged(done, shown)]
    return tried, wrong


def browser(place: Path) -> tuple[int, list[str]]:
    """Every page, opened: nothing runs, nothing is asked for, nothing is reported."""
    sys.path.insert(0, str(ROOT / "tests"))
    from helpers import browser as real

    if real.WHY_NOT:
        return 0, [f"not tried: {real.WHY_NOT}"]
    pages, wrong = sorted(place.glob("*/desk/*/index.html")), list[str]()
    with real.started() as chromium:
        for path in pages:
            try:
                with real.opened(chromium, path) as page:
                    if page.evaluate("window.owned"):
                        wrong.append(f"{path}: a script of theirs ran")
                    if page.locator("script:not([type='application/json'])").count() != 1:
                        wrong.append(f"{path}: another script is on the page")
            except AssertionError as error:
                wrong.append(f"{path}: {str(error)[:300]}")
    return len(pages), wrong


def main() -> int:
    forked.ready()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", default="", help="a comma list; all unless given")
    parser.add_argument("--every", type=int, default=5, help="of a run's fields, one in so many")
    given = parser.parse_args()
    chosen = given.texts.split(",") if given.texts else list(TEXTS)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for what, tried, wrong in (
            ("commands on a terminal", *terminal(place, chosen)),
            ("fields of a run, commands on a terminal", *edited(place, given.every)),
            ("pages in a browser", *browser(place)),
        ):
            print(f"{tried:5d}  {what}: {len(wrong)} failures")
            for line in wrong:
                print(f"    {line}", flush=True)
            failed += len(wrong)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
