"""What is read off the sources is what the imported classes say; what is not there is imported."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest
from helpers.small_runs import plugged

from leakbench.base import module_text, registry, sources
from leakbench.base.errors import UsageError
from leakbench.metrics import MSE, P_LEAK, PSNR
from leakbench.models import networks

ATTACK = '''
"""Mine: what ``I`` guess,
on two lines.

More of it.
"""

from typing import NamedTuple, Protocol

{imports}
from leakbench import Attack


class Held(NamedTuple):
    one: int


class Holds(Protocol):
    one: int


class Bare:
    pass


class Mine({base}):
    """Guesses."""

    about = "nothing"
{body}
'''
OURS = "from leakbench.metrics import MSE, P_LEAK"


def source(imports: str = OURS, base: str = "Attack", body: str = "    metrics = (P_LEAK,)") -> str:
    return ATTACK.format(imports=imports, base=base, body=body)


@pytest.fixture
def never_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be imported."""

    def load(kind: str, name: str) -> None:
        raise AssertionError(f"{kind} {name} was imported")

    monkeypatch.setattr(registry, "load_plugin", load)


@pytest.mark.parametrize("kind", registry.KINDS)
def test_docstrings_are_those_of_the_modules(kind: str) -> None:
    read = registry.docs(kind)
    assert list(read) == list(registry.names(kind))
    for name, doc in read.items():
        assert doc == inspect.getdoc(inspect.getmodule(registry.load_plugin(kind, name)))


def test_metrics_are_those_of_the_attacks() -> None:
    for name in registry.names("attacks"):
        loaded = registry.load_plugin("attacks", name).metrics
        assert registry.attribute("attacks", name, "metrics") == loaded


def test_models_are_described_by_their_functions() -> None:
    read = module_text.entries("leakbench.models.networks", "MODELS")
    assert set(read) == set(networks.MODELS)
    for name, function in networks.MODELS.items():
        assert module_text.doc_of("leakbench.models.networks", read[name]) == inspect.getdoc(
            function
        )


@pytest.mark.usefixtures("never_loaded")
def test_none_of_ours_is_imported_for_that() -> None:
    assert all(registry.docs(kind) for kind in registry.KINDS)
    assert all(registry.attribute("attacks", n, "metrics") for n in registry.names("attacks"))


@pytest.mark.usefixtures("never_loaded")
@pytest.mark.parametrize(
    ("body", "metrics"),
    [
        ("    metrics = (P_LEAK,)", (P_LEAK,)),
        ("    metrics: tuple = P_LEAK, MSE", (P_LEAK, MSE)),
        ("    metrics = (MSE,)\n    metrics = (P_LEAK,)", (P_LEAK,)),
        ("    metrics = (*ALL, P_LEAK)", None),
    ],
    ids=["tuple", "annotated", "twice", "starred"],
)
def test_a_plugins_helpers_are_no_methods_and_its_metrics_are_read(
    tmp_path: Path, body: str, metrics: tuple[object, ...] | None
) -> None:
    imports = f"{OURS}\nfrom leakbench.metrics import EXAMPLES as ALL"
    with plugged("attacks", tmp_path, mine=source(imports, body=body)):
        assert registry.docs("attacks")["mine"].startswith("Mine: what ``I`` guess,\non two lines")
        found = registry.attribute("attacks", "mine", "metrics")
    assert metrics in (found, None)
    assert found[-1] in (P_LEAK, MSE)


@pytest.mark.parametrize(
    ("imports", "body", "metrics"),
    [
        (f"{OURS}\nP_LEAK = MSE", "    metrics = (P_LEAK,)", (MSE,)),
        (f"{OURS}\nif MSE:\n    P_LEAK = MSE", "    metrics = (P_LEAK,)", (MSE,)),
        (f"{OURS}\nMINE = (MSE, P_LEAK)", "    metrics = MINE", (MSE, P_LEAK)),
        ("from leakbench import metrics as m", "    metrics = (m.PSNR,)", (PSNR,)),
        (OURS, "    metrics = (MSE,) + (P_LEAK,)", (MSE, P_LEAK)),
    ],
    ids=["bound again", "under a condition", "its own", "dotted", "a sum"],
)
def test_what_the_source_does_not_say_plainly_is_imported(
    tmp_path: Path, imports: str, body: str, metrics: tuple[object, ...]
) -> None:
    with plugged("attacks", tmp_path, mine=source(imports, body=body)):
        assert registry.attribute("attacks", "mine", "metrics") == metrics


def test_what_a_base_states_is_its_own_too(tmp_path: Path) -> None:
    above = source(body="    metrics = (MSE, P_LEAK)").replace("class Mine", "class Above")
    mine = source("from attacks._above import Above", "Above", "    order = 3")
    with plugged("attacks", tmp_path, _above=above, mine=mine):
        assert module_text.attribute_in_text("attacks.mine", "Mine", "metrics") == (MSE, P_LEAK)
        with pytest.raises(module_text.Unsaid):
            module_text.attribute_in_text("attacks.mine", "Mine", "seed")
        assert registry.attribute("attacks", "mine", "order") == 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def broken(:\n", "'attacks.torn' cannot be imported"),
        ('"""No method."""\n', "must define exactly one public class"),
        (
            source() + "\n\nclass Second(Attack):\n    pass\n",
            "must define exactly one public class",
        ),
    ],
    ids=["syntax", "none", "two"],
)
def test_what_is_no_method_is_said_as_if_it_were_loaded(
    tmp_path: Path, text: str, words: str
) -> None:
    with plugged("attacks", tmp_path, torn=text), pytest.raises(UsageError, match=words):
        registry.docs("attacks")


def test_imports_are_found_among_statements_as_among_all_nodes() -> None:
    files = sorted(Path(sources.__file__).parents[1].rglob("*.py"))
    assert len(files) > 100
    for path in files:
        tree = ast.parse(path.read_bytes())
        found = {id(n) for n in sources._statements(tree)}
        every = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
        assert {id(n) for n in every} <= found
