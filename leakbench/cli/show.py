"""list and show: what there is, and what one method shares with whom."""

from __future__ import annotations

import inspect
import json
import math
import shlex
from functools import partial
from typing import Any

from leakbench.base import module_text, registry
from leakbench.base.errors import UnknownName, UsageError, among, suggestion
from leakbench.base.meaning import Meaning
from leakbench.cli.console import emit, emit_json

_LISTS = (
    *("paper", "shares", "threat", "metrics", "covers", "begins", "tables"),
    *("measures", "question", "spoken", "margin"),
)
MODELS = "leakbench.models.networks"
KINDS = (
    *("defenses", "attacks", "tasks", "metrics", "utilities", "models", "reports", "wrappers"),
)
_ONE = {kind: kind.removesuffix("s") for kind in KINDS} | {"utilities": "utility metric"}


def listing(kind: str | None, *, as_json: bool) -> int:
    """One line each."""
    if kind is not None and kind not in KINDS:
        raise UsageError(f"there is no list of {kind!r}.{suggestion(kind, KINDS)}")
    found = {k: _lines(k) for k in ([kind] if kind else KINDS)}
    if as_json:
        emit_json(found)
        return 0
    width = max(len(n) for lines in found.values() for n in lines)
    for k, lines in found.items():
        if kind is None:
            emit(f"{k}:")
        for name, text in lines.items():
            emit(f"{'  ' if kind is None else ''}{name.ljust(width)}  {text}")
    return 0


def _lines(kind: str) -> dict[str, str]:
    if kind == "models":
        functions = sorted(module_text.entries(MODELS, "MODELS").items())
        return {name: _first(module_text.doc_of(MODELS, own)) for name, own in functions}
    if kind == "metrics":
        return {name: _read(m) for name, m in _metrics().items()}
    return {name: _first(doc) for name, doc in registry.docs(kind).items()}


def _metrics() -> dict[str, Meaning]:
    """What every metric of every attack means, sorted by name."""
    every = registry.attributes("attacks", "metrics").values()
    found = {m.name: m.meaning for metrics in every for m in metrics}
    return dict(sorted(found.items()))


def _read(m: Meaning) -> str:
    low, high = m.ends
    return f"{m.heading}: per {m.unit}, {low:g} to {high:g}, leaks {m.direction}"


def _first(doc: str) -> str:
    """The first paragraph of a docstring, on one line."""
    return _plain(" ".join(doc.split("\n\n")[0].split()))


def _plain(text: str) -> str:
    """A docstring's text without its markup."""
    return text.replace("``", "`")


def one(name: str, *, as_json: bool) -> int:
    """All about one method or metric; of a model its line."""
    known = {kind: _lines(kind) for kind in KINDS}
    every = [n for lines in known.values() for n in lines]
    name = among(name, every)
    if name not in every:
        raise UnknownName("name", name, every, " A file of your own is named with --plugin.")
    kinds = {kind: among(name, lines) for kind, lines in known.items()}
    facts = [_about(k, n, known[k][n]) for k, n in kinds.items() if n in known[k]]
    if as_json:
        emit_json(facts)
        return 0
    for about in facts:
        emit(f"{name} ({about['kind']})")
        emit(f"  {about['about']}")
        for key in _LISTS:
            for line in about.get(key, []):
                emit(f"  {key}: {line}")
        for p in about["parameters"]:
            # As -s takes it.
            default = p["default"] if isinstance(p["default"], str) else json.dumps(p["default"])
            words = shlex.quote(f"{p['name']}={default}")
            emit("  ".join(w for w in (f"  -s {words}", p["range"], p["description"]) if w))
    return 0


def _about(kind: str, name: str, line: str) -> dict[str, Any]:
    if kind in registry.KINDS:
        return _facts(kind, name, registry.load_plugin(kind, name))
    more = _meaning(_metrics()[name]) if kind == "metrics" else {}
    return {"kind": _ONE[kind], "about": line, **more, "parameters": []}


def _meaning(m: Meaning) -> dict[str, Any]:
    """The facts of a metric, in words and as JSON has them."""
    margin = f"a factor of {math.exp(m.matters):g}" if m.scale == "log" else f"{m.matters:g}"
    good = [] if m.as_good is None else [f"from {m.text(m.as_good)} on as good as the original"]
    return {
        "measures": [m.about] if m.about else [],
        "question": [f"clients {m.question.ask} ({m.question.name}, rank {m.rank})"],
        "spoken": [f"an attacker {m.does} ... {m.noun or m.suffix.strip()}".strip()],
        "margin": [f"{margin}{m.suffix}", *good],
        "meaning": m.parameters(),
    }


def _facts(kind: str, name: str, cls: type[Any]) -> dict[str, Any]:
    words = (inspect.getdoc(cls) or "").split()
    about: dict[str, Any] = {"kind": _ONE[kind], "about": _plain(" ".join(words))}
    about["paper"] = [cls.paper] if getattr(cls, "paper", "") else []
    if kind == "defenses":
        about["shares"] = _shares(name)
    if kind == "attacks":
        about["threat"] = [_threat(cls.build(v, "attack")) for v in cls.variants]
        about["metrics"] = [", ".join(m.name for m in cls.metrics)]
    if kind == "tasks":
        task = cls.build({}, "task")
        about["begins"] = [_begins(task)]
        about["tables"] = []
        for m, method in registry.every("defenses").items():
            fits = task.one_class_each or method.outputs != "embedding"
            values = [f"{k}={v}" for k, v in task.defaults(m).items()] if fits else []
            if values:
                about["tables"].append(f"{m}: {', '.join(values)}")
    about["parameters"] = [_parameter(n, field) for n, field in cls.model_fields.items()]
    return about


def _threat(attack: Any) -> str:
    t = attack.threat
    knows = f", knows {', '.join(t.knows)}" if t.knows else ""
    return f"{t.observer} reads {', '.join(t.kinds)} ({t.rounds} rounds){knows}; rung {t.rung}"


def _shares(name: str) -> list[str]:
    """What the method sends in two rounds on the smallest task, measured by running it.

    In the first one there may be nothing yet for the server to send back.
    """
    from leakbench.federation.federation import Federation
    from leakbench.record.runspec import make_spec, parts

    made = parts(make_spec(name, rounds=2))
    fed = Federation(made.method, made.task, made.task.load())
    fed.begin()
    fed.step()
    fed.step()
    fed.end()
    return [
        f"{s['sender']} -> {s['receiver']}: {s['kind']}, {s['bytes'] // s['messages']} bytes a"
        " message (two rounds of task digits)"
        for s in fed.traffic.table()
    ]


def _begins(task: Any) -> str:
    """How the task's network begins, found by making it."""
    from leakbench.federation.defense import Defense
    from leakbench.federation.network import begun, begun_text, built, own_numbers

    facts = next(filter(None, map(partial(_facts_for, task), registry.every("defenses").values())))
    one, other = (built(task, Defense(), facts, again=again) for again in (0, 1))
    return begun_text(begun(one, own_numbers(one, other)))


def _facts_for(task: Any, method: type[Any]) -> Any:
    try:
        return task.facts(method())
    except UsageError:  # it does not suit the task
        return None


def _parameter(name: str, field: Any) -> dict[str, Any]:
    limits = {type(m).__name__: m for m in field.metadata}
    words = [
        f"{sign} {getattr(limits[k], k.lower())}"
        for k, sign in (("Ge", ">="), ("Gt", ">"), ("Le", "<="), ("Lt", "<"))
        if k in limits
    ]
    choices = getattr(field.annotation, "__args__", ())
    if not words and choices and all(isinstance(c, str) for c in choices):
        words = [" | ".join(choices)]
    default = "" if field.is_required() else field.default
    return {
        "name": name,
        "default": default,
        "range": ", ".join(words),
        "description": field.description or "",
    }
