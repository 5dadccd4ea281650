"""Who may import whom, and who may open the truth: read from the source, not believed."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

import attacks
import defenses
import leakbench
import reports

ROOT = Path(leakbench.__path__[0]).parent
OURS = {p.__name__: Path(p.__path__[0]) for p in (leakbench, attacks, defenses, reports)}
# The rooms of leakbench, bottom up, and what each may import; ``tasks`` and ``utilities`` are
# plugins, like ``defenses``. Nothing is excepted.
BELOW = {
    "base": (),
    "statistics": ("base",),
    "models": ("base",),
    "data": ("base",),
    "federation": ("base", "statistics", "models", "data"),
    "tasks": ("base", "models", "data", "federation"),
    "utilities": ("base", "federation"),
    "record": ("base", "data", "federation"),
    "own": ("base", "models", "data", "federation", "record"),
    "attacking": ("base", "data", "federation", "record"),
    "scoring": ("base", "data", "federation", "record", "statistics", "attacking"),
    "metrics": ("base", "data", "federation", "record", "statistics", "attacking", "scoring"),
    "results": ("base", "statistics", "federation", "record", "scoring"),
    "gate": ("base", "statistics", "record", "scoring", "results"),
    "judging": ("base", "statistics", "results"),
    "words": ("base", "results", "gate", "judging"),
    "verifying": ("base", "federation", "record", "attacking", "scoring", "results"),
}
SCORED = tuple(room for room in BELOW if room not in ("tasks", "utilities"))
BELOW["reporting"] = SCORED
ROOMS = (*SCORED, "reporting")
BELOW["work"] = SCORED
BELOW["reproduce"] = BELOW["api"] = (*ROOMS, "work")
# A Flower app's rounds are told as those of a loop of one's own.
BELOW["flower"] = ("base", "own")
# A project's tests use the commands as functions, and read what they say.
BELOW["pytest_plugin"] = ("base", "record", "results", "gate", "reporting", "api")
BELOW["cli"] = (*BELOW["api"], "api", "reproduce")
# Those who read it (the papers' tables show it), and those who write it.
MAY_OPEN = {
    "scoring.truth",
    "scoring.score",
    "scoring.audit",
    "scoring.candidate_scores",
    "metrics.prototype_pairs",
    "reporting.pictures",
    "reporting.maps",
    "verifying.data",
} | {
    *(
        "reproduce.prototype_views",
        "reproduce.figure_data",
        "record.training",
        "record.recorder",
        "own.outside_record",
        "record.excerpts",
    )
}
MAY_NAME = {
    "gate.rows",
    "results.copies",
}  # compare the hashes of its files, as run.json lists them


@cache
def modules(package):
    """{dotted name: its syntax tree} of a package of ours."""
    root = OURS[package]
    out = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join([package, *(p for p in parts if p != "__init__")])
        out[name] = ast.parse(path.read_text(encoding="utf-8"))
    return out


def imported(tree):
    """Dotted names that a module imports, wherever it does."""
    out = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            out.update(a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            out.update({node.module, *(f"{node.module}.{a.name}" for a in node.names)})
    return out


def roots(names):
    return {n.split(".")[0] for n in names}


@pytest.mark.parametrize("package", OURS)
def test_imports_point_down(package):
    """Methods, attacks and reports know the core and themselves; the core knows none of them."""
    assert modules(package)
    wrong = {
        name: roots(imported(tree)) & (set(OURS) - {"leakbench", package})
        for name, tree in modules(package).items()
    }
    assert {n: w for n, w in wrong.items() if w} == {}


def room_of(name):
    """The room of a dotted name below leakbench; "" for the package itself, which only names its
    rooms.
    """
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] not in ("__main__",) else ""


def test_every_room_imports_only_what_lies_below_it():
    """Every import counts: inside a function and for types alone, too."""
    trees = modules("leakbench")
    assert {room_of(n) for n in trees} - {""} == set(BELOW)
    wrong = set()
    for name, tree in trees.items():
        to = {room_of(i) for i in imported(tree) if i in trees} - {"", room_of(name)}
        wrong |= {(name, room) for room in to if room_of(name) and room not in BELOW[room_of(name)]}
    assert wrong == set()


def test_nothing_below_the_top_imports_the_package_itself():
    """``leakbench`` leads everywhere, so an import of it would hide an arrow."""
    trees = {n: t for n, t in modules("leakbench").items() if room_of(n) not in ("", "cli")}
    assert [
        n for n, tree in trees.items() if "leakbench" in targets(tree, set(modules("leakbench")))
    ] == []


def faces():
    """{package: its stub} of every package of ours that shows names."""
    found = [p for root in OURS.values() for p in root.rglob("__init__.pyi")]
    return {".".join(p.parent.relative_to(ROOT).parts): p for p in found}


def shown(stub):
    """(module, name) pairs that a stub takes from where."""
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    froms = [n for n in tree.body if isinstance(n, ast.ImportFrom)]
    return [(n.level, n.module, a.name, a.asname) for n in froms for a in n.names]


def test_every_room_has_a_face():
    assert {f"leakbench.{room}" for room in ROOMS} | {"leakbench", "defenses"} == set(faces())


@pytest.mark.parametrize("package", faces())
def test_a_face_shows_names_of_its_own_that_are_there(package):
    module, names = importlib.import_module(package), shown(faces()[package])
    assert all(level == 1 and name == again for level, _, name, again in names)
    listed = {name for _, _, name, _ in names} - {"__version__"}
    assert list(module.__all__) == sorted(listed)
    inside = {m.name for m in pkgutil.iter_modules(module.__path__)}
    for _, home, name, _ in names:
        found = getattr(module, name)
        if home is None:
            assert found.__name__ == f"{package}.{name}"
        else:
            assert found is getattr(importlib.import_module(f"{package}.{home}"), name)
            assert name not in inside, "a module of this name would hide it"


def is_deep(name):
    """Does a dotted name lead past the face of a room?"""
    parts = name.split(".")
    return parts[0] == "leakbench" and len(parts) > 2


@pytest.mark.parametrize(
    "package", ["attacks", "defenses", "reports", "leakbench.tasks", "leakbench.utilities"]
)
def test_plugins_import_faces_only(package):
    """What an author of a plugin may rely on is what ours rely on."""
    root = package.split(".")[0]
    for name, tree in modules(root).items():
        if name.startswith(package):
            froms = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
            deep = {m for m in froms if is_deep(m) and not m.startswith(f"{package}.")}
            assert deep == set(), name


def test_only_the_command_line_imports_the_command_line_and_the_papers_tables():
    for package in ("attacks", "defenses", "reports"):
        found = {n: {room_of(i) for i in imported(tree)} for n, tree in modules(package).items()}
        assert [
            n for n, rooms in found.items() if rooms & {"cli", "reproduce", "api", "work"}
        ] == []


def opens_truth(tree):
    """Does it import leakbench.scoring.truth, or spell a path that goes there? Docstrings and
    messages may say the word.
    """
    bare = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    words = [
        n.value
        for n in ast.walk(tree)
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in bare
    ]
    joined = [
        n.right for n in ast.walk(tree) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)
    ]
    spelt = any(isinstance(n, ast.Constant) and n.value == "truth" for n in joined) or any(
        w.startswith("truth/") or "/truth" in w for w in words
    )
    return spelt or any(
        i == "leakbench.scoring.truth" or i.startswith("leakbench.scoring.truth.")
        for i in imported(tree)
    )


def test_only_scoring_and_the_writers_open_the_truth():
    found = {
        n.removeprefix("leakbench.")
        for n, tree in modules("leakbench").items()
        if opens_truth(tree)
    }
    assert {n for n in found - MAY_OPEN - MAY_NAME if not n.startswith("metrics.")} == set()
    # The test does find those who do.
    assert {"scoring.truth", "scoring.score", "record.training", "record.recorder"} <= found


@pytest.mark.parametrize("package", ["attacks", "defenses", "reports"])
def test_no_attack_and_no_method_opens_the_truth(package):
    assert [n for n, tree in modules(package).items() if opens_truth(tree)] == []


def test_what_an_attack_is_given_leads_to_no_truth_and_no_seed():
    trees = modules("leakbench")
    read = ["leakbench.record.recording", "leakbench.record.knowledge"]
    for name in [n for n in trees if room_of(n) == "attacking"] + read:
        assert not opens_truth(trees[name]), name


def reachable(graph, start):
    seen, todo = set(), [start]
    while todo:
        for n in graph.get(todo.pop(), ()):
            if n not in seen:
                seen.add(n)
                todo.append(n)
    return seen


def targets(tree, every):
    """Modules of ``every`` that a module takes a name from: ``from p import m`` leads to p.m where
    that is one, else to p.
    """
    out = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            out |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            deep = {f"{node.module}.{a.name}" for a in node.names}
            out |= {name if name in every else node.module for name in deep}
    return out & every


def graph_of(package):
    """Every import counts: at the top, inside a function, and for types alone."""
    trees = modules(package)
    return {n: targets(tree, set(trees)) - {n} for n, tree in trees.items()}


@pytest.mark.parametrize("package", OURS)
def test_no_import_cycles(package):
    graph = graph_of(package)
    assert {n for n in graph if n in reachable(graph, n)} == set()


def test_the_search_for_cycles_finds_one():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}
    assert {n for n in graph if n in reachable(graph, n)} == {"a", "b", "c"}
    tree = ast.parse(
        "import a\nif TYPE_CHECKING:\n    import b\ndef f():\n    import c\nclass K:\n    from d"
        " import e, g\n"
    )
    assert imported(tree) == {"a", "b", "c", "d", "d.e", "d.g"}
    assert targets(tree, {"a", "b", "c", "d", "d.e"}) == {"a", "b", "c", "d", "d.e"}
    assert targets(tree, {"a", "b", "c", "d", "d.e", "d.g"}) == {"a", "b", "c", "d.e", "d.g"}


HEAVY = (
    "torch",
    "torchvision",
    "lpips",
    "breaching",
    "sklearn",
    "scipy",
    "pandas",
    "matplotlib",
    "dcor",
    "jinja2",
    "numba",
)
ASK = f"""
import sys
from leakbench.cli import run
code = run(sys.argv[1:])
print("LOADED", *[m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize(
    "words",
    [["--help"], ["--version"], ["train", "--help"], ["attack", "-h"], ["trian"]],
    ids=" ".join,
)
def test_help_and_mistakes_import_nothing_heavy(words):
    done = subprocess.run(
        [sys.executable, "-c", ASK, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == (2 if words == ["trian"] else 0), done.stderr
    assert done.stderr.strip().splitlines()[-1] == "LOADED"


def test_importing_leakbench_and_its_functions_is_light():
    code = f"import sys, leakbench.api; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


FORBIDDEN = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib"}
CALLS = (
    "torch.load",
    "torch.save",
    "torch.manual_seed",
    "np.random.seed",
    "numpy.random.seed",
    "random.seed",
    "eval",
    "exec",
)


@pytest.mark.parametrize("package", OURS)
def test_no_pickle_and_no_global_dice_anywhere(package):
    for name, tree in modules(package).items():
        # CIFAR's own format, by an allow-list.
        allowed = {"pickle"} if name == "leakbench.data.image_files" else set()
        assert not roots(imported(tree)) & FORBIDDEN - allowed, name
        if name == "leakbench.base.dice":  # lends them to who throws them all the same
            continue
        called = {ast.unparse(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
        assert not called & set(CALLS), name
        assert not [
            c
            for c in called
            if c.startswith(("np.random.", "numpy.random."))
            and not c.endswith(("default_rng", "SeedSequence"))
        ], name


@pytest.mark.parametrize("package", ["attacks", "defenses"])
def test_methods_touch_no_files(package):
    """What crosses is what a party function returns; what an attack finds is what it returns."""
    for name, tree in modules(package).items():
        assert not roots(imported(tree)) & {
            "os",
            "pathlib",
            "shutil",
            "subprocess",
            "socket",
            "tempfile",
            "safetensors",
        }, name
        assert "open" not in {
            ast.unparse(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)
        }, name


def test_no_two_classes_of_the_product_have_one_name():
    """A reader who meets the name knows which is meant. Private ones are their module's own."""
    homes = defaultdict(list)
    for package in OURS:
        for name, tree in modules(package).items():
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    homes[node.name].append(name)
    assert {n: where for n, where in homes.items() if len(where) > 1} == {}
