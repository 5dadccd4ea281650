"""A recipe's file, ``recipes/<name>.toml``.

Its keys are the fields of ``Recipe`` and of what a recipe is made of (``Case``, ``Measure``,
``Scale``, ``Setup``, the orders). What would be said again and again is said once:

* ``"@name"`` is what stands under the name in the recipe's own ``parts``, in its paper's file,
  ``recipes/shared/<paper>.toml``, or in those that it ``uses``; dots lead further down. In a list
  the members of a list so named take its place.
* ``like = "@name"`` in a table: all that stands there, but for what the table itself says.
* ``of`` in a case, a measure or an order: the ones meant, each with all that stands beside ``of``.
* ``each.sigma = [0.1, 0.2]`` in a case: one case per value, which is that parameter's; of several
  keys every combination, the last one moving fastest. ``{sigma}`` in a label is the value of that
  parameter. In an order: each member of what it compares once per value.
* An order is told by its word: ``falls``, ``less``, ``equals``, ``keeps``, ``best``, ``collapses``
  or ``below``, whose value is what it compares.
* A setup's ``params`` and ``why`` may name several methods, ``"fedgn, fedcs"``; what stands under
  ``otherwise`` is like the setup itself but for what it says.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from leakbench.base import registry
from leakbench.base.errors import UsageError, suggestion
from leakbench.base.shapes import Shape
from leakbench.record.policy import Policy
from leakbench.reproduce.between import Below
from leakbench.reproduce.orders import Best, Collapses, Equals, Falls, Keeps, Less
from leakbench.reproduce.recipe import Case, Measure, Recipe, Scale, Setup
from leakbench.reproduce.statements import Order

Table = dict[str, Any]
# The word of an order -> what it is, and which of its fields the word gives.
ORDERS: Mapping[str, tuple[type[Order], str]] = {
    "falls": (Falls, "along"),
    "less": (Less, "pairs"),
    "equals": (Equals, "values"),
    "keeps": (Keeps, "those"),
    "best": (Best, "those"),
    "collapses": (Collapses, "label"),
    "below": (Below, "those"),
}
_SHAPES = (Recipe, Case, Measure, Scale, Setup, *(kind for kind, _ in ORDERS.values()))


# Which keys hold tables and lists; what else there is, is looked at when they are read.
class _Head(Shape):
    """Of a file as it stands."""

    paper: str = ""
    uses: list[str] = []
    parts: Table = {}


class _Group(Shape):
    """Of a case, a measure or an order."""

    each: dict[str, list[Any]] = {}
    of: list[_Group] = []
    params: Table = {}


class _Setup(Shape):
    params: Table = {}
    why: dict[str, Table] = {}
    otherwise: _Setup | None = None


class _Scale(Shape):
    setups: list[_Setup] = []
    record: Table = {}


class _Body(Shape):
    """Of a file in which names are filled in."""

    cases: list[_Group] = []
    measures: list[_Group] = []
    orders: list[_Group] = []
    scales: dict[str, _Scale] = {}


def read_recipe(path: Path) -> Recipe:
    """The recipe that a file says, called as the file is.

    Raises:
        UsageError: the file or one that it uses is no TOML; or a key, a name or a value in it is
            wrong: says in which file, and under which key.
    """
    said = dict(_toml(path))
    _made(path.name, "", _Head, said)
    parts: Table = {}
    for name in filter(None, (said.get("paper"), *said.pop("uses", ()))):
        parts |= _toml(_shared(path, name))
    parts |= said.pop("parts", {})
    try:
        said = _Parts(path.name, parts).filled(said)
    except RecursionError:
        raise UsageError(
            f"{path.name}: a name stands for itself. Take it out of its own."
        ) from None
    _made(path.name, "", _Body, said)
    said["name"] = path.stem
    cases = [case for one in said.get("cases", ()) for case in _cases(one)]
    said["cases"] = [{**case, "label": _told(case.get("label"), case["params"])} for case in cases]
    said["measures"] = _meant(said, "measures")
    orders = enumerate(_meant(said, "orders"))
    said["orders"] = [_order(path.name, f"orders.{i}", one) for i, one in orders]
    for name, scale in said.get("scales", {}).items():
        scale["setups"] = list(map(_setup, scale.get("setups", ())))
        if "record" in scale:
            scale["record"] = Policy.build(scale["record"], f"{path.name}: scales.{name}.record")
    recipe = cast(Recipe, _made(path.name, "", Recipe, said))
    known = {kind: registry.names(kind) for kind in ("defenses", "attacks", "tasks")}
    for key, kind, name in _plugins(recipe):
        if name not in known[kind]:
            why = f"there is no {kind.removesuffix('s')} {name!r}."
            raise UsageError(f"{path.name}: {key}: {why}{suggestion(name, known[kind])}")
    return recipe


@cache
def _toml(path: Path) -> Table:
    """What a file says.

    Raises:
        UsageError: it is no TOML.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path.name} is no TOML: {error}. Mend it there.") from None


def _shared(path: Path, name: str) -> Path:
    """The file of what several recipes share.

    Raises:
        UsageError: there is none.
    """
    found = path.parent / "shared" / f"{name}.toml"
    if not found.is_file():
        known = suggestion(name, (p.stem for p in found.parent.glob("*.toml")))
        raise UsageError(f"{path.name}: there is no shared/{name}.toml.{known}")
    return found


@dataclass(frozen=True)
class _Parts:
    """What a recipe's file may name, and how the file is called."""

    file: str
    parts: Table

    def filled(self, value: Any) -> Any:
        """``value`` with what its names stand for in their places.

        Raises:
            UsageError: nothing has the name, or another table cannot be like what has it.
        """
        if isinstance(value, str) and value.startswith("@"):
            return self.filled(self._named(value))
        if isinstance(value, list):
            out = []
            for one in value:
                made = self.filled(one)
                out += made if isinstance(one, str) and isinstance(made, list) else [made]
            return out
        if isinstance(value, dict):
            own = {key: self.filled(one) for key, one in value.items() if key != "like"}
            if "like" not in value:
                return own
            under = self.filled(value["like"])
            if not isinstance(under, dict):
                raise UsageError(f"{self.file}: like = {value['like']!r}: that is no table.")
            return _laid(under, own)
        return value

    def _named(self, name: str) -> Any:
        found: Any = self.parts
        for step in name[1:].split("."):
            known = found if isinstance(found, dict) else {}
            if step not in known:
                where = f"{self.file}: nothing is called {name!r}."
                raise UsageError(where + suggestion(step, known))
            found = known[step]
        return found


def _laid(under: Table, over: Table) -> Table:
    """``over`` on ``under``: tables in both are laid on one another in turn."""
    out = dict(under)
    for key, value in over.items():
        below = out.get(key)
        both = isinstance(value, dict) and isinstance(below, dict)
        out[key] = _laid(cast(Table, below), value) if both else value
    return out


def _cases(said: Table) -> Iterator[Table]:
    """The cases that a table means: for each of its values those ``of`` it, or one."""
    beside = {key: value for key, value in said.items() if key not in ("each", "of")}
    meant = [case for one in said.get("of", ()) for case in _cases(one)]
    for values in _each(said):
        for case in meant if "of" in said else ({},):
            yield _laid(_laid(case, beside), {"params": values})


def _meant(said: Table, key: str) -> list[Table]:
    """The tables of a list, and those ``of`` one in its place."""
    out: list[Table] = []
    for one in said.get(key, ()):
        beside = {name: value for name, value in one.items() if name != "of"}
        out += [_laid(each, beside) for each in _meant(one, "of")] if "of" in one else [one]
    return out


def _each(said: Table) -> list[Table]:
    """Every combination of the values under ``each``; one of nothing where there is none."""
    each = said.get("each", {})
    return [dict(zip(each, values, strict=True)) for values in product(*each.values())]


def _told(label: Any, values: Table) -> Any:
    """A label, or labels in lists, with values in the place of their names."""
    if isinstance(label, list):
        return [_told(one, values) for one in label]
    if isinstance(label, str):
        for name, value in values.items():
            label = label.replace(f"{{{name}}}", _shown(value))
    return label


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _order(file: str, key: str, said: Table) -> Order:
    """What a paper says of an order.

    Raises:
        UsageError: it has no word, or two; or a key or a value is wrong.
    """
    words = [word for word in ORDERS if word in said]
    if len(words) != 1:
        found = " and ".join(words) or "none"
        raise UsageError(f"{file}: {key}: expected one of {', '.join(ORDERS)}; got {found}.")
    kind, field = ORDERS[words[0]]
    compared = said[words[0]]
    if isinstance(compared, list):
        compared = [_told(one, values) for values in _each(said) for one in compared]
    rest = {name: value for name, value in said.items() if name not in (words[0], "each")}
    return cast(Order, _made(file, key, kind, {**rest, field: compared}))


def _setup(said: Table) -> Table:
    """A setup with a line for each method, and another one like it under ``otherwise``."""
    own = {key: value for key, value in said.items() if key != "otherwise"}
    out = dict(own)
    for key in {"params", "why"} & own.keys():
        out[key] = _alone(own[key])
    if "otherwise" in said:
        out["otherwise"] = _setup(_laid(own, said["otherwise"]))
    return out


def _alone(said: Table) -> Table:
    """What is said of several methods, of each of them."""
    out: Table = {}
    for names, value in said.items():
        for name in names.split(", "):
            out = _laid(out, {name: value})
    return out


def _made(file: str, key: str, kind: Any, said: Table) -> Any:
    """A value of ``kind``.

    Raises:
        UsageError: a key is unknown or lacks, or a value is none of its kind.
    """
    try:
        return _adapter(kind).validate_python(said)
    except ValidationError as error:
        # A key that lacks may be one that is misspelt.
        wrong = min(error.errors(), key=lambda e: e["type"] == "missing")
        where = ".".join(filter(None, (key, *map(str, wrong["loc"]))))
        raise UsageError(f"{file}: {where}: {_wrong(wrong)}") from None


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _wrong(wrong: Mapping[str, Any]) -> str:
    """What is wrong with a key, and what to do."""
    if wrong["type"] == "unexpected_keyword_argument":
        known = {field.name for shape in _SHAPES for field in fields(shape)} | {*ORDERS}
        return f"there is no such key.{suggestion(str(wrong['loc'][-1]), known)}"
    if wrong["type"] == "missing":
        return "this key lacks. Add it."
    return f"{wrong['msg']}; got {wrong['input']!r}."


def _plugins(recipe: Recipe) -> Iterator[tuple[str, str, str]]:
    """(key, kind, name) of every plugin that a recipe names; a study needs no method."""
    for i, case in enumerate(recipe.cases):
        if not recipe.study:
            yield f"cases.{i}.defense", "defenses", case.defense
    for i, m in enumerate(recipe.measures):
        if m.attack:
            yield f"measures.{i}.attack", "attacks", m.attack
        for name in m.defenses:
            yield f"measures.{i}.defenses", "defenses", name
    for name, scale in recipe.scales.items():
        for i, setup in enumerate(scale.setups):
            yield from _plugins_of(setup, f"scales.{name}.setups.{i}", study=bool(recipe.study))


def _plugins_of(setup: Setup, key: str, *, study: bool) -> Iterator[tuple[str, str, str]]:
    yield f"{key}.task", "tasks", setup.task
    for name in () if study else (*setup.params, *setup.why):
        yield f"{key}.params", "defenses", name
    if setup.otherwise:
        yield from _plugins_of(setup.otherwise, f"{key}.otherwise", study=study)
