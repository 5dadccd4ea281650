"""Mutation testing of the rooms that make numbers and verdicts: which change do their tests notice?

Cosmic Ray's operators say what can be changed (a comparison, a sign, a number by one, `and` for
`or`, a loop that never runs, ...). Places are drawn by a seed, each room's share by its lines, and
one change for each place. Each is written into a copy of the project, where a process that is
forked from one with torch already imported runs the room's fast tests: those first that ran the
changed line, as coverage says, then the others of their files.

python benchmarks/mutants.py [file.md] [--count 300] [--seed 0] [--room NAME] [--minutes 60]
[--keep folder]

prints a line for each and the table; with a file it is written there, with command and commit.
What is known below --keep is not run again: what was noticed while its module stays as it is, what
was not until the room or its tests change.
`mutants.toml` says why a change that nothing noticed may stay. Needs `uv sync --group mutants`.
"""

from __future__ import annotations

import argparse
import ast
import gc
import hashlib
import importlib
import json
import math
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

ROOT = Path(__file__).parents[1]
REASONS = Path(__file__).with_suffix(".toml")
# Room -> its own tests, and a few others that are about it.
ROOMS: dict[str, tuple[str, ...]] = {
    "statistics": ("tests/statistics",),
    "gate": ("tests/gate", "tests/results/test_stale.py"),
    "judging": ("tests/judging",),
    "results": ("tests/results",),
    "scoring": ("tests/scoring", "tests/metrics/test_metrics.py"),
    "utilities": (
        *("tests/utilities", "tests/federation/test_bleu4.py"),
        "tests/federation/test_utility.py",
    ),
    "federation": ("tests/federation",),
}
OURS = ("leakbench", "attacks", "defenses", "reports")
COPIED = (
    *OURS,
    "tests",
    "docs",
    "examples",
    "benchmarks",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
)
# What tests import that is not ours: once, in the process that the others are forked from.
IMPORTED = (
    *("numpy", "pandas", "scipy.stats", "scipy.special", "torch", "torch.func", "torch.nn"),
    *("sklearn.datasets", "sklearn.metrics", "sklearn.manifold", "matplotlib.figure", "dcor"),
    *("torchvision", "torchmetrics", "lpips", "safetensors.torch", "sacrebleu", "pydantic"),
    *("hypothesis.strategies", "jinja2", "rich.progress", "typer", "PIL.Image", "soundfile"),
    *("filelock", "threadpoolctl", "platformdirs", "coverage", "hydra", "pytest", "breaching"),
)
CALM = 10.0  # seconds of processor time that a test may take beside three times what it takes
MOST = 60.0  # seconds of tests, as they were measured, that are tried on a change, twice
LONGEST = 1200.0  # seconds on the clock
SCHEME = 1  # counted up when what is run for a change differs


@dataclass(frozen=True)
class Mutant:
    """One change to one module."""

    room: str
    file: str  # below the project
    operator: str
    occurrence: int
    line: int
    old: str  # the changed lines as they are
    new: str
    source: str = field(repr=False)  # the whole module, changed

    @property
    def key(self) -> str:
        """Of the module as it is and as it would be."""
        before = (ROOT / self.file).read_text(encoding="utf-8")
        return hashlib.sha256(f"{before}\0{self.source}".encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Place:
    """Where operators can change something."""

    file: str
    start: tuple[int, int]
    changes: tuple[tuple[str, int], ...]  # (operator, occurrence)


def modules(room: str) -> list[Path]:
    return sorted((ROOT / "leakbench" / room).rglob("*.py"))


def places(path: Path) -> list[Place]:
    """Every place of a module that one operator or more can change."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.operators.operator import Operator

    seen, found = Counter[str](), defaultdict(list)
    named: dict[str, Operator] = {n: make() for n, make in operators().items()}
    for node in ast_nodes(get_ast(path.read_text(encoding="utf-8"))):
        if getattr(getattr(node, "parent", None), "type", "") == "parameters":
            continue  # the marks `*` and `/` of a signature are no arithmetic
        for name, operator in named.items():
            for start, _ in operator.mutation_positions(node):
                found[start].append((name, seen[name]))
                seen[name] += 1
    file = path.relative_to(ROOT).as_posix()
    return [Place(file, start, tuple(found[start])) for start in sorted(found)]


def operators() -> dict[str, Callable[[], Any]]:
    """Cosmic Ray's, but for those whose change is drawn by dice of their own."""
    from cosmic_ray.operators.provider import OperatorProvider

    provider = OperatorProvider()
    return {name: provider[name] for name in provider if not provider[name].arguments()}


def mutant(room: str, place: Place, operator: str, occurrence: int) -> Mutant | None:
    """The change, or None where it is none: it does not compile, or only types are changed."""
    from cosmic_ray.ast import ast_nodes, get_ast

    before = (ROOT / place.file).read_text(encoding="utf-8")
    tree, made = get_ast(before), operators()[operator]()
    counted = 0
    for node in list(ast_nodes(tree)):
        if getattr(getattr(node, "parent", None), "type", "") == "parameters":
            continue
        for index, _ in enumerate(list(made.mutation_positions(node))):
            if counted == occurrence:
                _swap(node, made.mutate(node, index))
            counted += 1
        if counted > occurrence:
            break
    after = tree.get_code()
    try:
        if meaning(after) == meaning(before):
            return None
    except (SyntaxError, ValueError):
        return None
    old, new = _differing(before, after)
    return Mutant(room, place.file, operator, occurrence, place.start[0], old, new, after)


def _swap(node: Any, changed: Any) -> None:
    """Put ``changed`` where ``node`` was; None takes it away."""
    if changed is node:
        return
    siblings = node.parent.children
    at = next(i for i, child in enumerate(siblings) if child is node)
    siblings[at : at + 1] = [] if changed is None else [changed]


def _differing(before: str, after: str) -> tuple[str, str]:
    """The lines that differ, each side in one."""
    old, new = before.split("\n"), after.split("\n")
    first = next(i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b)
    last = 1
    while old[-last] == new[-last] and last < min(len(old), len(new)) - first:
        last += 1
    parts = (lines[first : len(lines) - last + 1] for lines in (old, new))
    before, after = (" ".join(map(str.strip, part)) for part in parts)
    return before, after


class _Untyped(ast.NodeTransformer):
    """Leaves out what only a type checker reads."""

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | None:
        checked = [n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)]
        return None if checked == ["TYPE_CHECKING"] else self.generic_visit(node)


def meaning(source: str) -> str:
    """A module's syntax without types."""
    return ast.dump(_Untyped().visit(ast.parse(source)))


def allotted(count: int, rooms: Sequence[str]) -> dict[str, int]:
    """How many of ``count`` each room has, by its lines: largest remainders."""
    lines = {room: _lines(room) for room in rooms}
    whole = sum(lines.values())
    exact = {r: count * n / whole for r, n in lines.items()}
    out = {r: int(x) for r, x in exact.items()}
    for room in sorted(rooms, key=lambda r: out[r] - exact[r])[: count - sum(out.values())]:
        out[room] += 1
    return out


def _lines(room: str) -> int:
    return sum(path.read_text(encoding="utf-8").count("\n") for path in modules(room))


def drawn(count: int, seed: int, rooms: Sequence[str]) -> list[Mutant]:
    """Places without replacement, one change for each; in an order that mixes the rooms."""
    shares, out = allotted(count, tuple(ROOMS)), list[Mutant]()
    for room in rooms:
        dice = random.Random(f"{seed} {room}")  # another room's files do not move it
        every = [place for path in modules(room) for place in places(path)]
        dice.shuffle(every)
        left = shares[room]
        for place in every:
            if not left:
                break
            found = mutant(room, place, *dice.choice(place.changes))
            if found is not None:
                left -= 1
                out.append(found)
    random.Random(seed).shuffle(out)
    return out


# -- what runs which line ------------------------------------------------------------------------


class Watch:
    """A plugin of pytest: which test runs which line, how long it takes, which fails."""

    def __init__(self, cov: Any) -> None:
        self.cov = cov
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.cov.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed.append(report.nodeid)


class Chosen:
    """A plugin of pytest: only these tests, in this order."""

    def __init__(self, tests: Sequence[str], seconds: Mapping[str, float]) -> None:
        self.place = {name: i for i, name in enumerate(tests)}
        self.seconds = seconds
        self.by = ""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [i for i in items if i.nodeid in self.place]
        items.sort(key=lambda item: self.place[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test that does not end ends the process (SIGPROF)."""
        signal.setitimer(signal.ITIMER_PROF, CALM + 3 * self.seconds[nodeid])

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.by = self.by or report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.by = self.by or report.nodeid


def pytest_words(paths: Sequence[str]) -> list[str]:
    words = ["-x", "-q", "-n", "0", "-m", "not slow", "-p", "no:cacheprovider"]
    return [
        *words,
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
        "--hypothesis-seed=0",
        "--no-header",
        "--tb=no",
        *paths,
    ]


def watched(tests: str, where: Path) -> dict[str, Any]:
    """{lines: file -> line -> tests, seconds: test -> s, failed: tests} of a file of tests."""
    import coverage
    import pytest

    sources = [str(where / "leakbench" / r) for r in ROOMS]
    cov = coverage.Coverage(data_file=None, source=sources, config_file=False)
    watch = Watch(cov)
    cov.start()
    words = [w for w in pytest_words([tests]) if w != "-x"]
    pytest.main(words, plugins=[watch])
    cov.stop()
    data, lines = cov.get_data(), {}
    for file in data.measured_files():
        by_line = data.contexts_by_lineno(file)
        kept = {str(n): sorted({*tests} - {""}) for n, tests in by_line.items()}
        lines[Path(file).relative_to(where).as_posix()] = kept
    return {"lines": lines, "seconds": watch.seconds, "failed": watch.failed}


def covering(known: dict[str, Any], file: str, line: int) -> list[str]:
    """The tests that ran the statement of a line; of one that runs on import, any of the module."""
    by_line = known["lines"].get(file, {})
    span = statement((ROOT / file).read_text(encoding="utf-8"), line)
    wanted = [str(n) for n in span] if span else list(by_line)
    failed = set(known["failed"])
    return sorted({t for n in wanted for t in by_line.get(n, ()) if t not in failed})


def statement(source: str, line: int) -> range:
    """The lines of the innermost statement that has ``line``; empty where none is a function's."""
    found, inside = range(0), False
    stack: list[tuple[ast.AST, bool]] = [(ast.parse(source), False)]
    while stack:
        node, body = stack.pop()
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt | ast.ExceptHandler):
                if not child.lineno <= line <= (child.end_lineno or child.lineno):
                    continue
                first = getattr(child, "body", None)
                end = first[0].lineno if first else (child.end_lineno or child.lineno) + 1
                if line < max(end, child.lineno + 1):
                    found, inside = range(child.lineno, max(end, child.lineno + 1)), body
            function = isinstance(child, ast.FunctionDef)
            stack.append((child, function or (body and not isinstance(child, ast.ClassDef))))
    return found if inside else range(0)


def quickest(known: dict[str, Any], tests: Sequence[str]) -> list[str]:
    """Those that take the least time, ``MOST`` seconds together."""
    out, left = [], MOST
    for test in sorted(tests, key=known["seconds"].__getitem__):
        left -= known["seconds"][test]
        if left < 0 and out:
            break
        out.append(test)
    return out


def ordered(known: dict[str, Any], tests: Sequence[str]) -> list[str]:
    """File by file, the quickest files first."""
    cost: dict[str, float] = defaultdict(float)
    for test in tests:
        cost[test.split("::")[0]] += known["seconds"][test]
    place = {t: i for i, t in enumerate(known["seconds"])}
    return sorted(tests, key=lambda t: (cost[t.split("::")[0]], t.split("::")[0], place[t]))


def beside(known: dict[str, Any], tests: Sequence[str]) -> list[str]:
    """The other tests of their files, which share what a fixture or a cache made."""
    files, failed = {t.split("::")[0] for t in tests}, {*known["failed"], *tests}
    return [t for t in known["seconds"] if t.split("::")[0] in files and t not in failed]


# -- processes -----------------------------------------------------------------------------------


def forked(work: Callable[[], Any], where: Path, answer: Path, seconds: float) -> str:
    """Run ``work`` in a child within ``where``; how it ended: "done", "time" or "died"."""
    answer.unlink(missing_ok=True)
    pid = os.fork()
    if not pid:
        code = 70
        try:
            os.setpgid(0, 0)
            os.chdir(where)
            for number in (1, 2):
                os.dup2(
                    os.open(answer.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND),
                    number,
                )
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            limit = int(seconds) + 1
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
            sys.path.insert(0, str(where))
            os.environ["PYTHONPATH"] = str(where)
            answer.write_text(json.dumps(work()), encoding="utf-8")
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    begun = time.monotonic()
    while True:
        ended, status, _ = os.wait4(pid, os.WNOHANG)
        if ended:
            break
        if time.monotonic() - begun > LONGEST:
            os.killpg(pid, signal.SIGKILL)
        time.sleep(0.02)
    code = os.waitstatus_to_exitcode(status)
    if code in (-signal.SIGXCPU, -signal.SIGKILL, -signal.SIGPROF):
        return "time"
    return "done" if code == 0 else "died"


class Copy:
    """A copy of the project, in which one module at a time is changed."""

    def __init__(self, where: Path, keep: Path) -> None:
        self.where, self.keep = where, keep
        self.all = cache(self.known)
        for name in COPIED:
            if (ROOT / name).is_dir():
                skip = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / name, where / name, ignore=skip)
            else:
                shutil.copy(ROOT / name, where / name)

    def known(self, room: str) -> dict[str, Any]:
        """What the room's tests run, measured once for each file of them."""
        out: dict[str, Any] = {"lines": {}, "seconds": {}, "failed": []}
        for file in test_files(room):
            one = self._known(room, file)
            out["seconds"] |= one["seconds"]
            out["failed"] += one["failed"]
            for module, by_line in one["lines"].items():
                merged = out["lines"].setdefault(module, {})
                for line, tests in by_line.items():
                    merged[line] = [*merged.get(line, ()), *tests]
        return out

    def _known(self, room: str, file: str) -> dict[str, Any]:
        kept = self.keep / f"{room}-{Path(file).stem}-{digest(room, file)}.json"
        if not kept.exists():
            begun = time.monotonic()
            ended = forked(lambda: watched(file, self.where), self.where, kept, LONGEST)
            if ended != "done":
                print(f"left out, since its process {ended}: {file}", flush=True)
                return {"lines": {}, "seconds": {}, "failed": []}
            found = json.loads(kept.read_text())
            took = time.monotonic() - begun
            print(f"{file}: {len(found['seconds'])} tests, {took:.0f} s", flush=True)
            for name in found["failed"]:
                print(f"left out, since it fails unchanged: {name}", flush=True)
        return json.loads(kept.read_text())  # type: ignore[no-any-return]

    def tried(self, change: Mutant) -> str:
        """The test that noticed it, "no end", or "" where none did."""
        known = self.all(change.room)
        first = covering(known, change.file, change.line)
        for tests in (first, beside(known, first)):
            some = ordered(known, quickest(known, tests))
            by = self._run(change, known, some) if some else ""
            if by:
                return by
        return ""

    def _run(self, change: Mutant, known: dict[str, Any], tests: list[str]) -> str:
        import pytest

        target = self.where / change.file
        sound = target.read_text(encoding="utf-8")

        def work() -> str:
            chosen = Chosen(tests, known["seconds"])
            files = list(dict.fromkeys(t.split("::")[0] for t in tests))
            code = pytest.main(pytest_words(files), plugins=[chosen])
            if code in (0, 5):
                return ""
            return chosen.by or f"pytest ends with {int(code)}"

        seconds = 60 + 3 * sum(known["seconds"][t] for t in tests)
        answer = self.keep / "answer.json"
        try:
            _write(target, change.source)
            ended = forked(work, self.where, answer, seconds)
        finally:
            _write(target, sound)
        if ended == "time":
            return "no end"
        return json.loads(answer.read_text()) if ended == "done" else "the process died"


def _write(target: Path, source: str) -> None:
    """A module, and no compiled one that could stand in for it."""
    for compiled in target.parent.glob(f"__pycache__/{target.stem}.*"):
        compiled.unlink()
    target.write_text(source, encoding="utf-8")


def test_files(room: str) -> list[str]:
    """The files of its tests."""
    found: list[Path] = []
    for place in (ROOT / name for name in ROOMS[room]):
        found += sorted(place.rglob("test_*.py")) if place.is_dir() else [place]
    return [path.relative_to(ROOT).as_posix() for path in found]


def digest(room: str, *tests: str) -> str:
    """Of a room and of some of its tests."""
    sha = hashlib.sha256(str(SCHEME).encode())
    for path in (*modules(room), *(ROOT / t for t in tests)):
        sha.update(path.read_bytes())
    return sha.hexdigest()[:12]


def ready() -> None:
    """Import what tests need, once, and nothing of the project."""
    import torch

    torch.set_num_threads(1)
    plugins = [
        e.module for e in entry_points(group="pytest11") if e.module.split(".")[0] not in OURS
    ]
    for name in (*IMPORTED, *plugins):
        importlib.import_module(name)
    ours = [name for name in sys.modules if name.split(".")[0] in OURS]
    assert not ours, ours
    gc.collect()
    gc.freeze()  # else every test run looks through all of it, three times


# -- the answer ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Result:
    """A change, and what noticed it."""

    mutant: Mutant
    by: str

    @property
    def reason(self) -> str:
        """Why it may stay, where nobody noticed it."""
        listed = tomllib.loads(REASONS.read_text(encoding="utf-8")).get("spared", [])
        own = (self.mutant.file, self.mutant.old, self.mutant.new)
        said = [s["reason"] for s in listed if (s["file"], s["old"], s["new"]) == own]
        return said[0] if said else ""


def tried(changes: Sequence[Mutant], keep: Path, until: float) -> Iterator[Result]:
    """What is known of each, and what is not while the clock is before ``until``."""
    store = keep / "results.jsonl"
    known: dict[str, dict[str, Any]] = {}
    if store.exists():
        lines = [json.loads(line) for line in store.read_text().splitlines()]
        known = {line["id"]: line for line in lines}
    with tempfile.TemporaryDirectory(prefix="leakbench-mutants-") as name:
        copy = Copy(Path(name), keep)
        for change in changes:
            own, tests = change.key, digest(change.room, *test_files(change.room))
            old = known.get(own, {"by": "", "tests": ""})
            if not old["by"] and old["tests"] != tests:
                if time.monotonic() > until:
                    if own in known:  # by older tests
                        yield Result(change, "")
                    continue
                told = {k: v for k, v in asdict(change).items() if k != "source"}
                known[own] = {"id": own, "by": copy.tried(change), "tests": tests, **told}
                with store.open("a") as file:
                    file.write(json.dumps(known[own]) + "\n")
            yield Result(change, known[own]["by"])


def share(some: int, whole: int) -> str:
    return f"{100 * some / whole:.1f} %" if whole else "-"


def table(results: Sequence[Result]) -> list[str]:
    """A row for each room, and one for all."""
    head = ["room", "changes", "noticed", "share", "no change of meaning", "share of the others"]
    out = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    rooms = list(dict.fromkeys(r.mutant.room for r in results))
    for name in (*rooms, "all"):
        here = [r for r in results if name in (r.mutant.room, "all")]
        noticed = sum(bool(r.by) for r in here)
        same = sum(not r.by and r.reason.startswith("equivalent") for r in here)
        cells = [name, len(here), noticed, share(noticed, len(here)), same]
        cells.append(share(noticed, len(here) - same))
        out.append("| " + " | ".join(map(str, cells)) + " |")
    return out


def survivors(results: Sequence[Result]) -> list[str]:
    """What nobody noticed, and why it may stay."""
    out = ["| where | as it is | changed | why it may stay |", "|---|---|---|---|"]
    for r in (r for r in results if not r.by):
        m = r.mutant
        texts = [f"`` {text.replace('|', chr(92) + '|')} ``" for text in (m.old, m.new)]
        cells = [f"{m.file}:{m.line}", *texts, r.reason or "nobody has looked at it yet"]
        out.append(f"| {' | '.join(cells)} |")
    return out


def page(results: Sequence[Result], drawn_in_all: int) -> str:
    """Both tables, with what they mean and where they come from."""
    from leakbench.base import provenance

    commit, dirty = provenance.source()
    command = " ".join(["python benchmarks/mutants.py", *sys.argv[1:]])
    rooms = {room: " ".join(tests) for room, tests in ROOMS.items()}
    lines = [
        "# Changes that the tests notice",
        "",
        f"`{command}`, commit {commit}{' with changes' if dirty else ''}.",
        "",
        f"Of {drawn_in_all} changes that were drawn {len(results)} were tried, in an order that"
        " mixes the rooms. A change is noticed where a fast test of the room fails, does not end,"
        f" or cannot be collected. At most {MOST:.0f} s of the tests that ran the line are tried"
        " on a change, and as long of the others of their files, so that the share is rather too"
        " low. Not drawn: types, the marks of signatures, and what does not compile.",
        "",
        *table(results),
        "",
        "## Not noticed",
        "",
        *survivors(results),
        "",
        "## The tests of each room",
        "",
        *(f"* {room}: {tests}" for room, tests in rooms.items()),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Draw, try, and say."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("file", type=Path, nargs="?")
    asked.add_argument("--count", type=int, default=300)
    asked.add_argument("--seed", type=int, default=0)
    asked.add_argument("--room", choices=tuple(ROOMS), action="append")
    asked.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()) / "mutants-kept")
    asked.add_argument("--minutes", type=float, default=math.inf, help="then what is known is told")
    given = asked.parse_args()
    begun, keep = time.monotonic(), given.keep.resolve()
    keep.mkdir(parents=True, exist_ok=True)
    ready()
    changes, results = drawn(given.count, given.seed, given.room or tuple(ROOMS)), list[Result]()
    for result in tried(changes, keep, begun + 60 * given.minutes):
        m = result.mutant
        said = result.by or f"NOT NOTICED  {m.old}  ->  {m.new}  [{result.reason or '?'}]"
        print(f"{m.file}:{m.line} {m.operator}: {said}", flush=True)
        results.append(result)
    told = page(results, len(changes))
    print(told)
    if given.file:
        given.file.write_text(told, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
