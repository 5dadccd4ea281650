"""What a clone and an installed wheel hold: one version, pins without addresses, every file that is
needed, and none that is not.
"""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import leakbench
from leakbench.base import registry

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# Put together here, so that this file does not hold what it looks for.
HOSTS = [
    "pypi" + ".org",
    "files.python" + "hosted",
    "registry.npm" + "js",
    "conda.ana" + "conda",
    "download.py" + "torch",
    "deb.deb" + "ian",
]


def tracked() -> list[Path]:
    """Files that a commit of the tree would hold."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")  # e.g. run from an unpacked archive
    done = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def test_one_version():
    citation = re.search(
        r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE
    )
    changes = re.search(
        r"^## \[(\d[^\]]*)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert PROJECT["project"]["version"] == leakbench.__version__ == citation[1] == changes[1]


def test_every_python_that_is_claimed_is_tried():
    """Those of the classifiers are README's, and the jobs of the workflow."""
    claimed = [
        c.rpartition(" ")[2]
        for c in PROJECT["project"]["classifiers"]
        if re.fullmatch(r"Programming Language :: Python :: 3\.\d+", c)
    ]
    assert PROJECT["project"]["requires-python"] == f">={claimed[0]}"
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    (matrix,) = re.findall(r"python-version: (\[.*?\])", workflow)
    assert ast.literal_eval(matrix) == claimed
    said = f"Python {', '.join(claimed[:-1])} or {claimed[-1]} (tested on Linux)"
    assert said in (ROOT / "README.md").read_text(encoding="utf-8")


def test_no_lock_file_is_committed():
    assert "uv.lock" in (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    assert not [
        p for p in tracked() if p.name in ("uv.lock", "poetry.lock", "Pipfile.lock", "pdm.lock")
    ]


def test_no_registry_is_named():
    found = [
        (p.relative_to(ROOT).as_posix(), h) for p in tracked() for h in HOSTS if h in text_of(p)
    ]
    assert found == []


def test_only_ci_knows_what_lies_beside_the_clone():
    beside = "../" + "shared"
    assert [p.relative_to(ROOT).as_posix() for p in tracked() if beside in text_of(p)] == [
        ".ci/run"
    ]


def test_pins_are_names_and_versions():
    pins = PROJECT["tool"]["uv"]["constraint-dependencies"]
    assert [p for p in pins if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*==[0-9][0-9a-z.+]*", p)] == []
    assert len({p.split("==")[0] for p in pins}) == len(pins)
    assert not {"sources", "index", "find-links", "index-url", "extra-index-url"} & set(
        PROJECT["tool"]["uv"]
    )


def _name(requirement: str) -> str:
    return re.match(r"[A-Za-z0-9_.-]+", requirement)[0].lower().replace("_", "-")


def test_direct_dependencies_have_a_range_and_a_pin():
    pinned = {
        p.split("==")[0]: p.split("==")[1] for p in PROJECT["tool"]["uv"]["constraint-dependencies"]
    }
    project, groups = PROJECT["project"], PROJECT["dependency-groups"]
    lists = [project["dependencies"], *project["optional-dependencies"].values(), *groups.values()]
    direct = [d for one in lists for d in one if not d.startswith("leakbench[")]
    assert [d for d in direct if ">=" not in d or "@" in d] == []
    assert [d for d in direct if _name(d) not in pinned] == []
    for d in direct:
        low = re.search(r">=([0-9.]+)", d)[1]
        assert _numbers(low) <= _numbers(pinned[_name(d)]), d
        high = re.search(r"<([0-9.]+)", d)
        assert high is None or _numbers(pinned[_name(d)]) < _numbers(high[1]), d


def _numbers(version: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", version)]


def roots(tree):
    """Top-level packages that a module imports."""
    nodes = list(ast.walk(tree))
    whole = {a.name for n in nodes if isinstance(n, ast.Import) for a in n.names}
    parts = {n.module for n in nodes if isinstance(n, ast.ImportFrom)}
    return {name.split(".")[0] for name in whole | parts}


def test_every_import_is_a_declared_dependency():
    ours = {"leakbench", "attacks", "defenses", "reports"}
    # Beside a renamed one: breaching's own configuration, jinja2's own strings, pydantic's errors.
    modules = {
        "sklearn": "scikit-learn",
        "PIL": "pillow",
        "hydra": "breaching",
        "omegaconf": "breaching",
        "markupsafe": "jinja2",
        "pydantic_core": "pydantic",
    }
    declared = {_name(d) for d in PROJECT["project"]["dependencies"]}
    # pytest itself imports our plugin, and nothing else does.
    lent = {
        ROOT / "leakbench" / "pytest_plugin.py": {"pytest"},
        ROOT / "defenses" / "_codes.py": {"galois"},  # says which extra has it
        ROOT / "leakbench" / "flower.py": {"flwr"},  # says what to install
    }
    for path in (p for folder in ours for p in (ROOT / folder).rglob("*.py")):
        for module in roots(ast.parse(path.read_text(encoding="utf-8"))):
            known = (
                module in sys.stdlib_module_names
                or module in ours
                or modules.get(module, _name(module)) in declared
                or module in lent.get(path, ())
            )
            assert known, f"{path.relative_to(ROOT)} imports {module}"


def test_entry_points_name_packages_with_the_mark():
    groups = dict(PROJECT["project"]["entry-points"])
    assert groups.pop("pytest11") == {"leakbench": "leakbench.pytest_plugin"}
    assert set(groups) == {f"leakbench.{kind}" for kind in registry.KINDS}
    for group in groups.values():
        for package in group.values():
            assert importlib.import_module(package).LEAKBENCH_API == registry.API
    for kind in registry.KINDS:
        assert registry.names(kind)


@pytest.mark.parametrize(
    ("package", "extra", "use"),
    [
        ("galois", "codes", "from defenses import _codes; _codes.generator(31, 6)"),
        (
            "tensorboard",
            "boards",
            "from reports.tensorboard import Tensorboard; Tensorboard().write(None, None)",
        ),
    ],
)
def test_what_an_extra_has_is_asked_for_in_a_sentence(package, extra, use):
    """The main job does without: nothing else imports it."""
    assert [_name(d) for d in PROJECT["project"]["optional-dependencies"][extra]] == [package]
    lines = [
        f"import sys; sys.modules[{package!r}] = None",
        "from leakbench import UsageError",
        "try:",
        f"    {use}",
        "except UsageError as error:",
        "    print(error)",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True)
    said = f" the package {package}: pip install 'leakbench[{extra}]'."
    assert said in " ".join(done.stdout.split()), done.stderr


def test_types_are_told():
    for package in ("leakbench", "attacks", "defenses", "reports"):
        assert (ROOT / package / "py.typed").is_file()


def test_the_command_is_there():
    module, function = PROJECT["project"]["scripts"]["leakbench"].split(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_public_names():
    assert leakbench.__all__ == sorted(leakbench.__all__)
    for name in leakbench.__all__:
        assert getattr(leakbench, name) is not None
    commands = ("train", "attack", "score", "report", "check", "load")
    assert set(commands) <= set(leakbench.__all__)
    # Modules of some of these names exist; importing them must not put them in the functions'
    # place.
    importlib.import_module("leakbench.attacking.attack")
    importlib.import_module("leakbench.reporting.data")
    for name in commands:
        assert callable(getattr(leakbench, name)), name


def test_the_wheel_holds_every_file_that_is_read():
    packages = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert set(packages) == {"leakbench", "attacks", "defenses", "reports"}
    needed = [f"leakbench/data_files/{n}.json" for n in ("published", "aliases", "official")]
    needed += [
        "reports/_page/templates/index.html.jinja",
        "leakbench/reporting/page_parts/base.css",
    ]
    committed = {p.relative_to(ROOT).as_posix() for p in tracked()}
    for name in needed:
        assert name.split("/")[0] in packages
        assert name in committed, name
    assert "exclude" not in PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]


def test_licence():
    assert PROJECT["project"]["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "license: Apache-2.0" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_built_wheel_holds_them_too(tmp_path):
    import shutil
    import zipfile

    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("uv is not installed")
    subprocess.run(
        [uv, "build", "--wheel", "--out-dir", str(tmp_path), str(ROOT)],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder in ("leakbench", "attacks", "defenses", "reports"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert path.relative_to(ROOT).as_posix() in names


def test_ci_runs_what_the_readme_names():
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    for command in (
        "run --no-sync",
        'pytest -m "slow or not slow"',  # on the line -m 'not slow' stands before it
        "leakbench demo",
        "ruff check",
        "ruff format --check",
        "mypy",
    ):
        assert command in ci
    assert subprocess.run(["bash", "-n", str(ROOT / ".ci" / "run")], check=False).returncode == 0


def test_actions_of_others_are_pinned_by_commit():
    """A tag can be moved to other code, a commit cannot; its version stands beside it."""
    named = []
    for path in tracked():
        if path.suffix in (".yml", ".yaml"):
            named += re.findall(r"^\s*(?:- )?uses: *(.+)$", text_of(path), re.MULTILINE)
    theirs = [use for use in named if not use.startswith("./")]
    assert len(theirs) > 10
    for use in theirs:
        assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", use), use
