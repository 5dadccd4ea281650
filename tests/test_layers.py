"""Who may import whom, and who may open the truth: read from the source, not believed."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import attacks
import defenses
import leakbench
import reports

OURS = {p.__name__: Path(p.__path__[0]) for p in (leakbench, attacks, defenses, reports)}
# Those who read it (the papers' tables show it), and those who write it.
MAY_OPEN = {"truth", "scoring", "pictures", "prototype_views", "context_figure", "split_figure", "report_maps"} | {
    *("training", "recorder", "excerpt_parts")
}
MAY_NAME = {"gate_rows"}  # compares the hashes of its files, as run.json lists them


def modules(package):
    """{dotted name: its syntax tree} of a package of ours."""
    root = OURS[package]
    out = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join([package, *(p for p in parts if p != "__init__")])
        out[name] = ast.parse(path.read_text(encoding="utf-8"))
    return out


def imported(tree, *, top_only=False):
    """Dotted names that a module imports: everywhere, or only when it is itself imported."""
    out = set()

    def visit(node):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                out.update(a.name for a in child.names)
            elif isinstance(child, ast.ImportFrom):
                assert child.level == 0, "relative import"
                out.update({child.module, *(f"{child.module}.{a.name}" for a in child.names)})
            elif top_only and (isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or typing_only(child)):
                continue
            visit(child)

    visit(tree)
    return out


def typing_only(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def roots(names):
    return {n.split(".")[0] for n in names}


@pytest.mark.parametrize("package", OURS)
def test_imports_point_down(package):
    """Methods, attacks and reports know the core and themselves; the core knows none of them."""
    assert modules(package)
    wrong = {name: roots(imported(tree)) & (set(OURS) - {"leakbench", package}) for name, tree in modules(package).items()}
    assert {n: w for n, w in wrong.items() if w} == {}


def test_only_the_command_line_imports_the_command_line():
    core = {n: t for n, t in modules("leakbench").items() if not n.startswith("leakbench.cli") and n != "leakbench.__main__"}
    assert [n for n, t in core.items() if any(i.startswith("leakbench.cli") for i in imported(t))] == []
    for package in ("attacks", "defenses", "reports"):
        assert [n for n, t in modules(package).items() if any(i.startswith("leakbench.cli") for i in imported(t))] == []


def opens_truth(tree):
    """Does it import leakbench.truth, or spell a path that goes there? Docstrings and messages may say the word."""
    bare = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    words = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in bare]
    joined = [n.right for n in ast.walk(tree) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]
    spelt = any(isinstance(n, ast.Constant) and n.value == "truth" for n in joined) or any(
        w.startswith("truth/") or "/truth" in w for w in words
    )
    return spelt or any(i == "leakbench.truth" or i.startswith("leakbench.truth.") for i in imported(tree))


def test_only_scoring_and_the_writers_open_the_truth():
    found = {n.removeprefix("leakbench.") for n, tree in modules("leakbench").items() if opens_truth(tree)}
    assert {n for n in found - MAY_OPEN - MAY_NAME if not n.endswith("_metrics") and n != "metrics"} == set()
    assert {"truth", "scoring", "training", "recorder"} <= found  # the test does find those who do


@pytest.mark.parametrize("package", ["attacks", "defenses", "reports"])
def test_no_attack_and_no_method_opens_the_truth(package):
    assert [n for n, tree in modules(package).items() if opens_truth(tree)] == []


def test_what_an_attack_is_given_leads_to_no_truth_and_no_seed():
    for name in ("view", "replay", "attacker", "attacking", "recording", "guess"):
        assert not opens_truth(modules("leakbench")[f"leakbench.{name}"]), name


def reachable(graph, start):
    seen, todo = set(), [start]
    while todo:
        for n in graph.get(todo.pop(), ()):
            if n not in seen:
                seen.add(n)
                todo.append(n)
    return seen


def graph_of(package):
    trees = modules(package)
    return {n: {i for i in imported(t, top_only=True) if i in trees and i not in (n, package)} for n, t in trees.items()}


@pytest.mark.parametrize("package", OURS)
def test_no_import_cycles(package):
    graph = graph_of(package)
    assert {n for n in graph if n in reachable(graph, n)} == set()


def test_the_search_for_cycles_finds_one():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}
    assert {n for n in graph if n in reachable(graph, n)} == {"a", "b", "c"}
    tree = ast.parse("import a\nif TYPE_CHECKING:\n    import b\ndef f():\n    import c\nclass K:\n    from d import e\n")
    assert imported(tree, top_only=True) == {"a", "d", "d.e"}
    assert imported(tree) == {"a", "b", "c", "d", "d.e"}


HEAVY = ("torch", "torchvision", "lpips", "breaching", "sklearn", "scipy", "pandas", "matplotlib", "dcor", "jinja2", "numba")
ASK = f"""
import sys
from leakbench.cli import run
code = run(sys.argv[1:])
print("LOADED", *[m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["train", "--help"], ["attack", "-h"], ["trian"]], ids=" ".join)
def test_help_and_mistakes_import_nothing_heavy(words):
    done = subprocess.run([sys.executable, "-c", ASK, *words], capture_output=True, text=True, check=False)
    assert done.returncode == (2 if words == ["trian"] else 0), done.stderr
    assert done.stderr.strip().splitlines()[-1] == "LOADED"


def test_importing_leakbench_and_its_functions_is_light():
    code = f"import sys, leakbench.api; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


FORBIDDEN = {"pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal", "joblib"}
CALLS = ("torch.load", "torch.save", "torch.manual_seed", "np.random.seed", "numpy.random.seed", "random.seed", "eval", "exec")


@pytest.mark.parametrize("package", OURS)
def test_no_pickle_and_no_global_dice_anywhere(package):
    for name, tree in modules(package).items():
        allowed = {"pickle"} if name == "leakbench.tasks._image_files" else set()  # CIFAR's own format, by an allow-list
        assert not roots(imported(tree)) & FORBIDDEN - allowed, name
        called = {ast.unparse(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
        assert not called & set(CALLS), name
        assert not [
            c for c in called if c.startswith(("np.random.", "numpy.random.")) and not c.endswith(("default_rng", "SeedSequence"))
        ], name


@pytest.mark.parametrize("package", ["attacks", "defenses"])
def test_methods_touch_no_files(package):
    """What crosses is what a party function returns; what an attack finds is what it returns."""
    for name, tree in modules(package).items():
        assert not roots(imported(tree)) & {"os", "pathlib", "shutil", "subprocess", "socket", "tempfile", "safetensors"}, name
        assert "open" not in {ast.unparse(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}, name
