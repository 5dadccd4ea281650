"""Unlucky circumstances: a full disk, a read-only one, two writers, no HOME, other locales, strange
and long paths, a stdout that is closed or full, files called like modules.

    python -m benchmarks.campaigns.circumstances [--only WORD]

In each a command must do its work, or say in one sentence why it cannot and exit 2 or 4; once there
is room again the same command must end in the same bytes as if nothing had been.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.campaigns import forked
from benchmarks.campaigns.forked import TINY, Command, Ended, command
from benchmarks.campaigns.kills import content

TRAIN = ("train", "-d", "fedgn", "-s", "sigma=0.5", *TINY, "--rounds", 6)
ATTACK = ("attack", "runs", "-a", "prototype_leakage", "-a", "prototype_averaging")
REPORT = ("report", "runs", "--format", "html,csv,json,figures,markdown,latex")
CHECK = ("check", "runs", "--update")
CHAIN = (TRAIN, ATTACK, REPORT, CHECK)
PROGRAM = Path(sys.executable).with_name("leakbench")
MODULES = ("multiprocessing", "random", "signal", "torch", "json", "sitecustomize", "numpy", "rich")
NAMES = (
    "a b",
    "a:b",
    "a\nleakbench: all is well",
    "-a",
    "--help",
    "é中😀",
    "[/red]",
    "a*b?[c]",
    "%s{0}$HOME`id`",
    "\x1b]0;owned\x07\x1b[2J",
    "\u202egnp",
    b"\xff\xfe".decode("utf-8", "surrogateescape"),
    "a" * 200,
    "a" * 255,
)
Wrong = list[str]


def sentence(done: Ended, *codes: int) -> Wrong:
    """What is wrong with how a command said that it cannot."""
    out = []
    if done.code not in codes:
        out.append(f"exit {done.code}: {done.err[-300:]!r}")
    if "Traceback" in done.err or "Exception ignored" in done.err:
        out.append(f"a traceback: {done.err[-300:]!r}")
    if done.hung:
        out.append("hung")
    # 4 may also say which run is not complete, as a remark; check says it a line each, and 3.
    if done.code not in (0, 3, 4) and not any(s.startswith("leakbench: ") for s in done.said):
        out.append(f"no sentence: {done.err[-300:]!r}")
    if "\x1b" in done.err or "\x1b" in done.out:
        out.append("an escape sequence reached the terminal")
    return out


def fine(done: Ended) -> Wrong:
    """What is wrong with a command that can."""
    return sentence(done, 0)


@contextmanager
def mounted(place: Path, size: str) -> Iterator[Path]:
    """A disk of that size.

    Raises:
        PermissionError: only root may have one.
    """
    place.mkdir(parents=True)
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", place], capture_output=True
    )
    if made.returncode:
        raise PermissionError("no disk can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=False)


def full_disk(place: Path) -> Wrong:
    """Disks of several sizes, each command until there is no room; then they grow."""
    whole, wrong = place / "whole", Wrong()
    whole.mkdir()
    for words in CHAIN:
        wrong += fine(command(words, whole, before=forked.checkpoints))
    for size in ("8k", "64k", "200k", "500k", "1m", "1500k", "2m"):
        with mounted(place / f"disk{size}", size) as disk:
            where = disk / "work"
            where.mkdir()
            refused = 0
            for words in CHAIN:
                # Its stdout and stderr lie beside the folder, on the same disk: put them elsewhere.
                done = apart(words, where, place)
                refused += done.code != 0
                codes = (0, 2, 3, 4) if words[0] == "check" else (0, 2, 4)
                wrong += [f"{size}, {words[0]}: {w}" for w in sentence(done, *codes)]
            subprocess.run(["mount", "-o", "remount,size=64m", disk], check=True)
            for words in CHAIN:
                done = apart(words, where, place)
                wrong += [f"{size}, again, {words[0]}: {w}" for w in fine(done)]
            wrong += [f"{size}: {w}" for w in differing(where, whole)]
        print(f"    {size}: {refused} of {len(CHAIN)} commands refused", flush=True)
    return wrong


def apart(words: Sequence[object], where: Path, logs: Path) -> Ended:
    """A command whose stdout and stderr are kept in another place than beside its folder."""
    link = logs / "here"
    link.unlink(missing_ok=True)
    link.symlink_to(where)
    return command(words, link, before=forked.checkpoints)


def limited_files(place: Path) -> Wrong:
    """No file may grow beyond some bytes: what a quota does."""
    wrong = Wrong()
    for limit in (0, 100, 3000, 20_000):

        def limited(limit: int = limit) -> None:
            forked.checkpoints()
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

        where = place / str(limit) / "work"
        where.mkdir(parents=True)
        for words in CHAIN:
            done = piped(words, where, before=limited)
            codes = (0, 2, 3, 4) if words[0] == "check" else (0, 2, 4)
            wrong += [f"{limit}, {words[0]}: {w}" for w in sentence(done, *codes)]
            hidden = [p.name for p in where.rglob(".*.part")]
            wrong += [f"{limit}, {words[0]}: left behind {hidden}"] * bool(hidden)
        for words in CHAIN:
            wrong += [f"{limit}, again: {w}" for w in fine(command(words, where))]
    return wrong


def piped(words: Sequence[object], where: Path, before: Callable[[], None]) -> Ended:
    """A command whose stdout and stderr are no files, so that no limit on files meets them."""
    reader, writer = os.pipe()

    def pipes() -> None:
        os.dup2(writer, 1)
        os.dup2(writer, 2)
        sys.stdout, sys.stderr = (os.fdopen(n, "w", closefd=False) for n in (1, 2))
        before()

    done = command(words, where, before=pipes)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        done.err = file.read().decode(errors="replace")
    return done


def read_only(place: Path) -> Wrong:
    """A disk that can be read alone."""
    wrong = Wrong()
    with mounted(place / "disk", "64m") as disk:
        where = disk / "work"
        where.mkdir()
        for words in CHAIN:
            wrong += fine(apart(words, where, place))
        before = content(where)
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        again = (
            ("attack", "runs", "-a", "prototype_leakage", "-s", "seed=1"),
            ("score", "runs"),
            ("train", "-d", "fedaws", *TINY, "--rounds", 2),
            *(REPORT, CHECK, ("export", "runs", "--without-truth", "-o", "run.tar")),
        )
        for words in again:
            wrong += [f"{words[0]}: {w}" for w in sentence(apart(words, where, place), 2, 4)]
        for words in (TRAIN, ATTACK, ("check", "runs"), (*REPORT, "-o", place / "report")):
            done = apart(words, where, place)
            wrong += [f"reads, {words[0]}: {w}" for w in sentence(done, 0, 3)]
        if content(where) != before:
            wrong.append("something changed")
    return wrong


def two_writers(place: Path) -> Wrong:
    """The same command twice at once: both end, and what is left is what one makes."""
    whole, wrong = place / "whole", Wrong()
    whole.mkdir()
    for words in CHAIN:
        wrong += fine(command(words, whole, before=forked.checkpoints))
    for turn in range(5):
        where = place / f"turn{turn}"
        (where / "work").mkdir(parents=True)
        for words in CHAIN:
            links = [where / "one", where / "two"]
            for link in links:
                link.unlink(missing_ok=True)
                link.symlink_to(where / "work")
            first = Command(words, links[0], forked.checkpoints)
            time.sleep(0.05 * turn)
            second = Command(words, links[1], forked.checkpoints)
            for done in (first.wait(), second.wait()):
                codes = (0, 2, 3, 4) if words[0] == "check" else (0, 2, 4)
                wrong += [f"turn {turn}, {words[0]}: {w}" for w in sentence(done, *codes)]
            wrong += [f"after {words[0]}: {w}" for w in fine(command(words, where / "work"))]
        wrong += [f"turn {turn}: {w}" for w in differing(where / "work", whole)]
    return wrong


def differing(one: Path, two: Path) -> Wrong:
    """Files that are not the same in both."""
    a, b = content(one), content(two)
    names = sorted(n for n in {*a, *b} if a.get(n) != b.get(n))
    return [f"{len(names)} files differ, the first is {names[0]}"] if names else []


def no_home(place: Path) -> Wrong:
    """HOME is unset, or leads nowhere, or cannot be written."""
    wrong = Wrong()
    for name, home in {"unset": "", "nowhere": "/nonexistent", "proc": "/proc"}.items():
        where = place / name
        where.mkdir()
        for words in (*CHAIN, ("train", "-d", "fedavg", "-t", "mnist"), ("doctor",)):
            done = real(words, where, HOME=home or None, LEAKBENCH_DATA=None)
            codes = (2,) if "mnist" in words else (0,)
            wrong += [f"{name}, {words[0]}: {w}" for w in sentence(done, *codes)]
        made = {p.name for p in where.iterdir()}
        if made != {"runs", "report", "leakage.json"}:
            wrong.append(f"{name}: wrote {made}")
    return wrong


def real(
    words: Sequence[object], where: Path, program: Sequence[object] = (PROGRAM,), **env: str | None
) -> Ended:
    """A process of its own from the first instruction; variables that are None are unset."""
    around = {k: v for k, v in {**os.environ, **env}.items() if v is not None}
    begun = time.monotonic()
    done = subprocess.run(
        [*map(str, program), *map(str, words)],
        cwd=where,
        env=around,
        capture_output=True,
        timeout=300,
        check=False,
    )
    out, err = (b.decode("utf-8", "replace") for b in (done.stdout, done.stderr))
    code = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return Ended(code, out, err, time.monotonic() - begun, 0)


def locales(place: Path) -> Wrong:
    """Terminals that know few letters."""
    wrong, name = Wrong(), "é中😀"
    command(TRAIN, place)
    (place / "runs").rename(place / name)
    for env in (
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "latin-1"},
        {"PYTHONIOENCODING": "utf-16"},
        {"LC_ALL": "tr_TR.UTF-8"},
        {"LC_ALL": "nonsense"},
    ):
        for words in (
            ("list", "defenses"),
            ("report", name, "-o", f"r{name}", "--title", name),
            ("check", name, "--update", "--baseline", f"{name}.json"),
            ("attack", name, "-a", "prototype_leakage"),
        ):
            wrong += [f"{env}, {words[0]}: {w}" for w in fine(real(words, place, **env))]
        done = real(("report", f"no{name}"), place, **env)
        wrong += [f"{env}: {w}" for w in sentence(done, 2)]
    return wrong


def paths(place: Path) -> Wrong:
    """Folders with names that somebody might use, or that mean harm."""
    wrong = Wrong()
    for i, name in enumerate(NAMES):
        where = place / str(i) / "work"
        where.mkdir(parents=True)
        runs, other = f"./{name}", f"./{name}"[:200] + "2"
        for words in (
            (*TRAIN, "-o", runs),
            ("attack", runs, *ATTACK[2:]),
            ("report", runs, "-o", other, "--title", name, *REPORT[2:]),
            ("report", runs, "-o", other, "--against", other, "--format", "json"),
            ("check", runs, "--update", "--baseline", f"{other}.json"),
            ("check", runs, "--baseline", f"{other}.json"),
            ("attack", runs, *ATTACK[2:]),
            ("score", runs),
        ):
            done = command(words, where)
            # One seed each: check cannot tell, and need not.
            codes = (2,) if "\udcff" in name else (0, 3)
            wrong += [f"{name!r}, {words[0]}: {w}" for w in sentence(done, *codes)]
        if {p.name for p in where.parent.iterdir()} != {"work", "work.out", "work.err"}:
            wrong.append(f"{name!r}: something was written beside the folder")
    return wrong


def too_long(place: Path) -> Wrong:
    """Names and paths that no file system holds."""
    wrong = Wrong()
    command(TRAIN, place)
    before = content(place)
    for name in ("a" * 300, "a/" * 3000, "a\x01" * 2500, "é" * 200):
        for words in (
            (*TRAIN, "-o", name),
            ("train", f"{name}.toml"),
            *((verb, name) for verb in ("attack", "score", "report", "check")),
            ("report", "runs", "-o", name),
            ("report", "runs", "-o", "new", "--against", name),
            ("report", "runs", "-o", "new", "--check", name),
            ("check", "runs", "--baseline", name),
            ("check", "runs", "--update", "--baseline", name),
            ("export", "runs", "--without-truth", "-o", name),
            ("train", "-d", name),
            ("show", name),
            ("attack", "runs", "-a", name),
            ("reproduce", "fedhide-table2", "-o", name, "--only", "nothing of that name"),
        ):
            done = command(words, place)
            wrong += [f"{len(name)}, {words[0]}: {w}" for w in sentence(done, 2)]
    if content(place) != before:
        wrong.append("something was written")
    return wrong


def streams(place: Path) -> Wrong:
    """A stdout, stderr or stdin that is closed, full, or has no reader any more."""
    command(TRAIN, place)
    command(ATTACK, place)
    command(CHECK, place)
    wrong = Wrong()
    program = str(PROGRAM)
    for redirected, code in (
        (">/dev/full", 2),
        (">&-", 0),
        ("2>&-", 0),
        ("<&-", 0),
        ("<&- >&- 2>&-", 0),
        ("| true", 0),
        ("2>&1 | true", 0),
        ("2>/dev/full", 0),
    ):
        for words in ("list --json", "report runs", "check runs", "attack runs -a context"):
            line = f"set -o pipefail; {program} {words} {redirected}"
            done = real(("-c", line), place, ("bash",))
            # check cannot tell with one seed, and context fits no run of these: those codes stay.
            own = {"check": 3, "attack": 2}.get(words.split()[0], 0)
            expected = own or code
            if done.code not in (expected, code if code else expected):
                wrong.append(f"{words} {redirected}: exit {done.code} {done.err[-200:]!r}")
            if "Traceback" in done.err or "Exception ignored" in done.err:
                wrong.append(f"{words} {redirected}: {done.err[-200:]!r}")
    return wrong


def modules(place: Path) -> Wrong:
    """A working folder that holds files called like modules: none of them is run."""
    wrong = Wrong()
    command(TRAIN, place)
    for name in MODULES:
        (place / f"{name}.py").write_text("import os\nos.write(2, b'RAN A FILE OF THE FOLDER')\n")
    for name in ("attacks", "defenses", "reports", "leakbench"):
        (place / name).mkdir()
        shutil.copy(place / "random.py", place / name / "__init__.py")
    asked = (*ATTACK, "-s", "prototype_leakage.seed=0,1", "--jobs", "2")
    for program, words in (((PROGRAM,), asked), ((PROGRAM,), (*TRAIN, "--seeds", "1,2"))):
        done = real((*words, "--jobs", "2") if words[0] == "train" else words, place, program)
        wrong += fine(done)
        wrong += ["it ran a file of the folder"] * ("RAN A FILE" in done.err)
    shutil.rmtree(place / "leakbench")  # where `python -m` itself looks for it
    done = real(asked, place, (sys.executable, "-m", "leakbench"))
    wrong += [f"python -m: {w}" for w in fine(done)]
    wrong += ["python -m ran a file of the folder"] * ("RAN A FILE" in done.err)
    return wrong


CASES = (
    *(full_disk, limited_files, read_only, two_writers, no_home),
    *(locales, paths, too_long, streams, modules),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name holds this word")
    given = parser.parse_args()
    forked.ready()
    failed = 0
    for case in (c for c in CASES if given.only in c.__name__):
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "place"
            place.mkdir()
            try:
                wrong = case(place)
            except PermissionError as error:
                print(f"{case.__name__}: not tried: {error}")
                continue
        print(f"{case.__name__}: {len(wrong)} failures, {time.monotonic() - begun:.0f} s")
        for line in wrong:
            print(f"    {line}"[:600], flush=True)
        failed += len(wrong)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
