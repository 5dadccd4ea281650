"""Every file that a number rests on moves a digest; compiled code stands in for no source."""

from __future__ import annotations

import importlib
import os
import py_compile
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.small_runs import TASK

import leakbench
from leakbench.base import hashed_source, opened, plugins, registry, sources
from leakbench.base.errors import UsageError
from leakbench.base.files import read_sealed
from leakbench.record import attack_code, existing_run, origin
from leakbench.record.runspec import make_spec
from leakbench.reporting import write

ROOT = Path(leakbench.__path__[0]).parent
# On these no number rests, and why.
QUIET = {
    "leakbench/cli": "words, options and exit codes; numbers come from below",
    "leakbench/reproduce": "tables of papers, written anew by who runs them",
    "leakbench/verifying": "compares, and writes nothing",
    "leakbench/gate": "compares with a baseline, anew each time it is asked",
    "leakbench/work": "calls train, attack and score; decides what is made again, by these digests",
    "leakbench/api.py": "the commands as functions",
    "leakbench/base/arguments.py": "holds those functions to their arguments",
    "leakbench/own": "of an own task they move the method's digest (tests/own/test_identity)",
    "leakbench/flower.py": "tells what a Flower app sends",
    "leakbench/__main__.py": "starts the command line",
    "leakbench/pytest_plugin.py": "the gate as a test",
    "leakbench/scoring/known_answer.py": "a tool for attackers, of whom each brings its own data",
    "leakbench/statistics/looks.py": "the gate's plan of looks",
    "leakbench/statistics/power.py": "how many seeds the gate would need",
    "leakbench/statistics/amounts.py": "words",
    "leakbench/data_files/reproduced.json": "what the papers' tables said before",
    "leakbench/reporting/page_parts": "colours, and how a table sorts",
    "reports/_page/templates/script": "moves what Python drew",
    "reports/_page/templates/style": "colours",
    **dict.fromkeys(
        [f"leakbench/record/{name}.py" for name in ("damage", "excerpts", "naming", "twin")],
        "copies and names what is there",
    ),
    **dict.fromkeys(
        [
            f"leakbench/base/{name}.py"
            for name in (
                *("executors", "fault_log", "nodes", "plots"),
                *("ray_cluster", "ray_jobs", "ray_task"),
            )
        ],
        "starts jobs, here and on a cluster",
    ),
    "leakbench/base/address_space.py": "asks whether torch fits before it is loaded",
    "leakbench/base/surroundings.py": "forgets what of the environment could decide a number",
}


def files_of(modules: set[str]) -> set[Path]:
    found = sources._reached(tuple(sorted(modules)))
    return {p.resolve() for p in found.values() if isinstance(p, Path)}


def of_kinds(*kinds: str) -> set[str]:
    return {m for kind in kinds for m in registry.names(kind).values() if m.count(".") < 3}


@pytest.fixture(scope="module")
def digests() -> dict[str, set[Path]]:
    """{digest: the files that move it}, over all methods of ours."""
    metrics = [m for a in registry.every("attacks").values() for m in a.metrics]
    reports = {write.REPORT, *of_kinds("reports")}
    return {
        "run": files_of({*origin.CORE, *of_kinds("defenses", "wrappers", "tasks")}),
        "utility": files_of(of_kinds("utilities")),
        "attack": files_of({*attack_code.CORE, *of_kinds("attacks")}),
        "score": files_of({attack_code.SCORING, *attack_code._of_metrics(metrics)}),
        "report": files_of(reports),
    }


def ours() -> list[Path]:
    found = [p for top in sources.OURS for p in (ROOT / top).rglob("*") if p.is_file()]
    return [p for p in found if p.suffix != ".pyc" and p.name != "py.typed"]


def quiet(path: Path) -> bool:
    name = path.relative_to(ROOT).as_posix()
    # A stub is counted by the names that are taken from it; an __init__ may do nothing.
    empty = path.name == "__init__.py" and len(path.read_text().splitlines()) <= 6
    return path.suffix == ".pyi" or empty or any(f"{name}/".startswith(f"{q}/") for q in QUIET)


def test_every_file_moves_a_digest_or_no_number_rests_on_it(digests: dict[str, set[Path]]) -> None:
    every = set.union(*digests.values())
    assert sorted(str(p) for p in ours() if p.resolve() not in every and not quiet(p)) == []


def test_a_quiet_room_that_is_no_longer_there_is_noticed() -> None:
    assert [name for name in QUIET if not (ROOT / name).exists()] == []


@pytest.mark.parametrize(
    ("name", "moved"),
    [
        ("leakbench/utilities/accuracy.py", {"utility"}),
        ("leakbench/utilities/_of_classes.py", {"utility"}),
        ("leakbench/tasks/_split_task.py", {"run"}),
        ("leakbench/federation/evaluate.py", {"run", "attack"}),
        ("leakbench/data_files/official.json", {"run"}),
        ("leakbench/metrics/lpips.py", {"attack", "score"}),
        ("leakbench/judging/verdict.py", {"report"}),
        ("defenses/_prototypes.py", {"run"}),
        ("attacks/_inversion/engines.py", {"attack"}),
        ("reports/_page/templates/first.jinja", {"report"}),
    ],
)
def test_which_digests_a_file_moves(
    digests: dict[str, set[Path]], name: str, moved: set[str]
) -> None:
    found = {digest for digest, files in digests.items() if (ROOT / name).resolve() in files}
    assert moved <= found
    if len(moved) == 1:
        assert moved == found


def test_a_name_that_a_face_takes_from_elsewhere_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    face = tmp_path / "faced"
    face.mkdir()
    (face / "__init__.py").write_text("")
    (face / "a.py").write_text("def one(): return 1\ndef two(): return 2\n")
    (face / "__init__.pyi").write_text("from .a import one as one\n")
    (tmp_path / "user.py").write_text("from faced import one\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = sources.sources_digest(["user"])
    (face / "__init__.pyi").write_text("from .a import two as one\n")
    assert sources.sources_digest(["user"]) != before


# Somebody's own folder ---------------------------------------------------------------------------
METHOD = '''
"""Mine."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np

from leakbench import Client, Defense

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
import beside

TABLE = np.load(HERE / "table.npz")["a"]
DEEP = json.loads((HERE / "inner" / "deep.json").read_text())
MANY = [p.read_text() for p in sorted(HERE.glob("*.txt"))]
OWN = json.loads(Path(__file__).with_suffix(".cfg").read_text())
COMPUTED = importlib.import_module("com" + "puted")


class Mine(Defense):
    """Mine."""

    def uplink(self, me: Client):
        import lazily

        called = importlib.import_module("called")
        noise = float(TABLE[0]) + beside.K + lazily.K + called.K + COMPUTED.K
        return {"features": me.data.x[:2].flatten(1) + noise}
'''
HITS = '''
"""Hits."""

import json
from pathlib import Path
from typing import ClassVar

from leakbench.base import Meaning
from leakbench.utilities._of_classes import OfClasses

SCALE = json.loads((Path(__file__).parent / "scale.json").read_text())


class Hits(OfClasses):
    """Hits."""

    meaning: ClassVar[Meaning] = Meaning(
        name="hits", direction="up", low=0.0, high=1.0, unit="test image", share=True,
        verb="has hits", about="Share of hits.",
    )

    def score(self, fits, right):
        return (fits.argmax(1) == right.long().argmax(1)).double() * SCALE

    def chance(self, classes):
        return 1 / classes
'''
LAST = '''
"""Last."""

from pathlib import Path

import numpy as np

from leakbench import Attack, Guess, ThreatModel

from ._metric import MINE

PRIOR = np.load(Path(__file__).parent / "prior.npz")["a"]


class Last(Attack):
    """The last one."""

    about = "the last message"
    metrics = (MINE,)

    @property
    def threat(self):
        return ThreatModel(observer="server", kinds=("features",), rounds="all", rung="transcript")

    def run(self, view, rng):
        last = {m.sender: m.payload for m in view.messages("features") if m.sender != "server"}
        return [Guess(c, view.round, {"x": w}) for c, w in sorted(last.items())]

    def blind(self, view, rng):
        return [Guess(g.unit, g.round, {"x": -g.tensors["x"]}) for g in self.run(view, rng)]
'''
METRIC = """
from pathlib import Path

from leakbench import Meaning, Metric, Score

WEIGHT = float((Path(__file__).parent / "weight.csv").read_text())


def score(guess, answer):
    return [Score(guess.unit, guess.unit, WEIGHT)]


MINE = Metric(
    Meaning(name="mine", direction="up", low=0.0, high=1.0, unit="client", verb="has", about="x"),
    needs=("x",),
    score=score,
)
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a method, a utility metric and an attack, and what lies beside each."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    place = tmp_path / "mine"
    for kind, text in {"defenses": METHOD, "utilities": HITS, "attacks": LAST}.items():
        (place / kind).mkdir(parents=True)
        name = {"defenses": "mine", "utilities": "hits", "attacks": "last"}[kind]
        (place / kind / f"{name}.py").write_text(text)
    own = place / "defenses"
    for name in ("beside", "lazily", "called", "computed", "unused"):
        (own / f"{name}.py").write_text("K = 0.0\n")
    np.savez(own / "table.npz", a=np.zeros(1))
    np.savez(place / "attacks" / "prior.npz", a=np.zeros(1))
    (own / "inner").mkdir()
    (own / "inner" / "deep.json").write_text("1")
    (own / "inner" / "other.json").write_text("1")
    (own / "words.txt").write_text("a")
    (own / "mine.cfg").write_text("1")
    (own / "unused.npz").write_text("1")
    (place / "utilities" / "scale.json").write_text("1")
    (place / "attacks" / "_metric.py").write_text(METRIC)
    (place / "attacks" / "weight.csv").write_text("1")
    monkeypatch.setenv(plugins.VARIABLE, str(place))
    yield place
    anew()


def anew() -> None:
    """As in a new process: nothing of somebody's own is imported, and no digest known."""
    for name in [*opened.by]:
        sys.modules.pop(name, None)
    for name in [m for m in sys.modules if m.startswith((plugins.ONE, plugins.SEVERAL))]:
        del sys.modules[name]
    opened.by.update({name: {} for name in opened.by})
    hashed_source.ran.clear()
    importlib.invalidate_caches()
    for cache in (origin._digest, attack_code._digest, attack_code.installed_sources):
        cache.cache_clear()


def changed(path: Path) -> None:
    path.write_bytes(path.read_bytes() + (b"# more\n" if path.suffix == ".py" else b" "))


def test_what_lies_beside_a_method_counts(mine: Path, tmp_path: Path) -> None:
    spec = make_spec("mine", task_params={**TASK, "utility": "hits"}, rounds=2)
    run = leakbench.train(
        "mine", task_params={**TASK, "utility": "hits"}, rounds=2, out=tmp_path / "runs"
    )
    leakbench.attack(run.path, "last")
    (attack,) = leakbench.load(run.path).attacks
    anew()
    meta = read_sealed(run.path / "run.json")
    assert origin.stale_sources(meta) == []
    assert not attack_code.stale(attack.meta["sources"], "last", meta)
    own, kept = mine / "defenses", {p: p.read_bytes() for p in mine.rglob("*") if p.is_file()}
    expected: dict[Path, Callable[[list[str]], bool]] = {
        **dict.fromkeys(
            [
                *(own / n for n in ("mine.py", "beside.py", "lazily.py", "called.py")),
                *(own / n for n in ("table.npz", "words.txt", "inner/deep.json")),
            ],
            lambda parts: parts == ["method"],
        ),
        own / "mine.cfg": lambda parts: len(parts) == 1 and parts[0].endswith(":mine.cfg"),
        own / "computed.py": lambda parts: len(parts) == 1 and parts[0].endswith(":computed.py"),
        mine / "utilities" / "hits.py": lambda parts: parts == ["utility"],
        mine / "utilities" / "scale.json": lambda parts: parts == ["utility"],
        **dict.fromkeys(
            [own / "unused.py", own / "unused.npz", own / "inner" / "other.json"],
            lambda parts: parts == [],
        ),
    }
    for path, right in expected.items():
        changed(path)
        anew()
        found = origin.stale_sources(meta)
        assert right(found), (path.name, found)
        assert bool(existing_run.found_run(run.path, spec, "cpu").changed) is bool(found), path.name
        path.write_bytes(kept[path])
        anew()
    (own / "further.txt").write_text("it is read, too, for it fits *.txt")
    anew()
    assert origin.stale_sources(meta) == ["method"]
    (own / "further.txt").unlink()
    for name in ("last.py", "prior.npz", "_metric.py", "weight.csv"):
        path = mine / "attacks" / name
        changed(path)
        anew()
        assert attack_code.stale(attack.meta["sources"], "last", meta), name
        path.write_bytes(kept[path])
        anew()
    assert not attack_code.stale(attack.meta["sources"], "last", meta)


def test_the_metrics_code_is_told_where_a_run_is_kept(mine: Path, tmp_path: Path) -> None:
    """All score 1 from now on: the run is neither reused nor pooled with one of the new code."""
    how: dict[str, Any] = {"task_params": {**TASK, "utility": "hits"}, "rounds": 2}
    old = leakbench.train("fedavg", out=tmp_path / "runs", seed=0, **how)
    hits = mine / "utilities" / "hits.py"
    hits.write_text(hits.read_text().replace("* SCALE", "* 0 + 1"))
    anew()
    said = existing_run.found_run(old.path, make_spec("fedavg", **how), "cpu")
    assert said.changed == ("the source of the utility metric",)
    new = leakbench.train("fedavg", out=tmp_path / "more", seed=1, **how)
    assert origin.made_apart([old.meta, new.meta])


def test_what_an_attack_opens_in_a_process_of_its_own_counts(mine: Path, tmp_path: Path) -> None:
    """Under a name that no source says, when it guesses."""
    far = tmp_path / "far" / "prior.bin"
    far.parent.mkdir()
    far.write_bytes(b"1")
    last = mine / "attacks" / "last.py"
    path = f"os.sep + os.sep.join({far.parts[1:]!r})"
    opens = f"        import os; open({path}, 'rb').read()\n"
    begins = "    def run(self, view, rng):\n"
    last.write_text(last.read_text().replace(begins, begins + opens))
    run = leakbench.train("mine", task_params=TASK, rounds=2, out=tmp_path / "runs")
    leakbench.attack(run.path, "last", isolated=True)
    (attack,) = leakbench.load(run.path).attacks
    assert any(name.endswith(str(far)) for name in attack.meta["sources"])
    anew()
    assert not attack_code.stale(attack.meta["sources"], "last", run.meta)
    changed(far)
    assert attack_code.stale(attack.meta["sources"], "last", run.meta)


STILL = b"from leakbench.base import Spec\n\nVALUE = 1\n"


@pytest.mark.parametrize("where", ["file", "folder", "beside"])
def test_a_source_of_the_same_size_and_time_runs_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    place = tmp_path / "mine" / "defenses"
    place.mkdir(parents=True)
    path, name = place / "still.py", f"{plugins.ONE}still"
    monkeypatch.setenv(plugins.VARIABLE, str(path))
    if where == "folder":
        monkeypatch.setenv(plugins.VARIABLE, str(place.parent))
        name = f"{plugins.SEVERAL}defenses.still"
    if where == "beside":
        name = "still"
        monkeypatch.syspath_prepend(place)
    path.write_bytes(STILL)
    py_compile.compile(str(path), doraise=True)
    stamp = path.stat()
    path.write_bytes(STILL.replace(b"1", b"2"))
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    plugins.plugin_files()
    plugins.package("defenses")
    try:
        assert importlib.import_module(name).VALUE == 2
        assert hashed_source.ran[str(path)]
        path.write_bytes(STILL.replace(b"1", b"3"))
        with pytest.raises(UsageError, match="was changed since it was imported"):
            sources.sources_digest([name])
    finally:
        sys.modules.pop(name, None)
        anew()


def test_compiled_code_without_its_source_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    place = tmp_path / "mine" / "defenses"
    place.mkdir(parents=True)
    (place / "hidden.py").write_text(
        "from defenses.fedavg import FedAvg\n\n\nclass H(FedAvg): ''\n"
    )
    py_compile.compile(str(place / "hidden.py"), cfile=str(place / "hidden.pyc"), doraise=True)
    (place / "hidden.py").unlink()
    monkeypatch.setenv(plugins.VARIABLE, str(place.parent))
    with pytest.raises(UsageError, match="compiled code without its source"):
        registry.load_plugin("defenses", "hidden")
    anew()


def test_an_extension_beside_a_plugin_is_in_its_digest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "quick.py"
    path.write_text("import swift\n")
    built = tmp_path / "swift.abi3.so"
    built.write_bytes(b"one")
    monkeypatch.setenv(plugins.VARIABLE, str(path))
    before = sources.sources_digest([f"{plugins.ONE}quick"])
    built.write_bytes(b"two")
    assert sources.sources_digest([f"{plugins.ONE}quick"]) != before
