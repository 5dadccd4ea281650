"""The trade-off on a terminal.

What each setting gains, and what the paper's own and the best attacks reach.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from leakbench.base.meaning import Meaning
from leakbench.base.reason_words import reason_text
from leakbench.cli.console import emit, show_table
from leakbench.results.number import ANY, CASCADE, Configuration, Number, when
from leakbench.results.settings import Setting
from leakbench.results.tables import Tables

HEADS = {
    "task": "task",
    "setting": "setting",
    "utility": "utility",
    "metric": "metric",
    "paper": "paper's own attack",
    "cascade": "best real attacker",
    "any_attack": "worst case",
    "floor": "blind guess",
    "control": "nothing defended",
    "n": "n",
    "note": "note",
}
NOTES = {
    "control_failed": "control near the blind guess",
    "no_control": "no control",
    "weaker_observer": "a weaker observer was declared",
    "dead_run": "dead run",
    "undertrained": "undertrained",
    "stale_run": "trained by other code than is installed",
    "stale_attack": "attacked by other code than is installed",
    "mixed_code": "made by more than one code",
    "unofficial_data": "unofficial data",
    "outside": "trained elsewhere",
    "failed_units": "failed units",
    "probe": "probes",
}


def tradeoff(tables: Tables) -> None:
    """A line per setting and metric at the end of training, and of each task the report's headline.

    Of the metrics that a reader looks at first; the others say the same in other units.
    """
    from leakbench.judging.judging import find_questions
    from leakbench.judging.question import Question
    from leakbench.words.headlines import with_words

    settings = tables.settings
    named = setting_labels(s.configuration for s in settings)
    for s in settings:
        named[s.key] = f"{s.called}: {named[s.key]}" if s.called else named[s.key]
    lines = []
    for setting in sorted(settings, key=lambda s: s.task):
        shown = first_metrics([s for s in settings if s.task == setting.task])
        groups: dict[tuple[int, bool], list[Number]] = defaultdict(list)
        for n in setting.numbers:
            if when(n.stage) == "final" and n.metric in shown:
                groups[shown.index(n.metric), n.probe].append(n)
        lines += [_line(groups[at], setting.task, named[setting.key]) for at in sorted(groups)]
        if not groups:
            lines.append(_unknown(setting, named[setting.key]))
    show_table(lines, HEADS)
    if lines:
        emit("Values with 95 % intervals; every metric, stage and attack is in tradeoff.csv.")
    first_of_task: dict[str, Question] = {}
    for question in with_words(find_questions(settings, tables.missing)):
        first_of_task.setdefault(question.task, question)
    for task, question in first_of_task.items():
        emit(f"{task}, {question.label}: {''.join(part.text for part in question.headline)}")


def first_metrics(settings: Iterable[Setting]) -> list[str]:
    """The metrics that a reader looks at first, by topic.

    Of each topic the one that judges it, what that is without what the truth gives, and the first
    one that says from which value on a guess is as good as the original.
    """
    known = {n.metric: n.meaning for s in settings for n in s.numbers}
    topics: dict[str, list[Meaning]] = defaultdict(list)
    for m in sorted(known.values(), key=lambda m: (m.question.order, m.rank)):
        topics[m.question.name].append(m)
    out = []
    for judge, *others in topics.values():
        good = [m for m in (judge, *others) if m.as_good is not None]
        wanted = {judge.name, judge.public, *(m.name for m in good[:1])}
        out += [m.name for m in (judge, *others) if m.name in wanted]
    return out


def _line(numbers: Sequence[Number], task: str, setting: str) -> dict[str, Any]:
    by_name = {n.attacker.name: n for n in numbers}
    worst = by_name.get(ANY, numbers[0])
    paper = [n for n in numbers if n.attacker.paper]
    # The cascade or the best of its attacks alone, where that is stronger: as the page has it.
    alone = [n for n in numbers if not n.attacker.made and not n.attacker.paper and not n.weak]
    real = [*alone, *(n for n in numbers if n.attacker.name == CASCADE)]
    flags = {flag for n in numbers for flag in n.flags}
    return {
        "task": task,
        "setting": setting,
        "utility": worst.utility.value.value,
        "metric": worst.metric,
        "paper": _value(max(paper, key=lambda n: n.leak, default=None)),
        "cascade": _value(max(real, key=lambda n: n.leak, default=None)),
        "any_attack": _value(by_name.get(ANY)),
        "floor": worst.floor.value,
        "control": worst.control.value,
        "n": worst.value.n,
        "note": ", ".join(text for flag, text in NOTES.items() if flag in flags),
    }


def _unknown(setting: Setting, called: str) -> dict[str, Any]:
    """Without a number at the end of training: left out, a setting would be taken for harmless."""
    stages = sorted({n.stage for n in setting.numbers} - {"curve"})
    note = "not attacked"
    if not setting.runs:
        note = reason_text(setting.reason) if setting.reason else ""
    elif any(when(stage) == "final" for stage in stages):
        note = "measured otherwise than the rest: tradeoff.csv"
    elif stages:
        note = f"attacked {' and '.join(stages)} alone, not at the end"
    final = setting.final.value.value if setting.final else "none"
    told = {"task": setting.task, "setting": called, "utility": final, "note": note}
    return {key: told.get(key, "none") for key in HEADS}


def _value(n: Number | None) -> str:
    if n is None:
        return "none"
    value, low, high = (n.meaning.text(x) for x in (n.value.value, n.value.low, n.value.high))
    return f"{value} ({low} to {high})"


def setting_labels(configurations: Iterable[Configuration]) -> dict[str, str]:
    """{``Configuration.key``: what the setting is called in the command line's words}.

    As in "fedhide(alpha=0.1, k=5) + clip_noise".

    Told are the fields that a method adds to the base's, and what differs between settings that
    would else look alike.
    """
    found = {c.key: c for c in configurations}
    # Of one task, with the same names.
    families: dict[tuple[str, ...], list[Configuration]] = defaultdict(list)
    for c in found.values():
        families[c.task, *(name for name, _ in _parts(c))].append(c)
    told = {}
    for family in families.values():
        for c in family:
            texts = []
            for place, (name, params) in enumerate(_parts(c)):
                others = [_parts(other)[place][1] for other in family]
                kept = _own(name, params) if place == 0 else set()
                for k, v in params.items():
                    if any(other.get(k) != v for other in others):
                        kept.add(k)
                texts.append(_called(name, {k: v for k, v in params.items() if k in kept}))
            told[c.key] = " + ".join(texts)
    return told


def _parts(c: Configuration) -> list[tuple[str, dict[str, Any]]]:
    """The method and its wrappers, each with its parameters."""
    return [(c.defense, c.params), *((w["name"], w["params"]) for w in c.wrappers)]


def _called(name: str, params: Mapping[str, Any]) -> str:
    return f"{name}({', '.join(f'{k}={v}' for k, v in params.items())})" if params else name


def _own(name: str, params: Mapping[str, Any]) -> set[str]:
    """The fields that the method adds to the base's.

    A switch, a word or a 0 only where it is not the method's own.
    """
    from leakbench.base import registry
    from leakbench.federation.defense import Defense

    known = name in registry.names("defenses")
    fields = registry.load_plugin("defenses", name).model_fields if known else {}
    plain = {
        k
        for k, f in fields.items()
        if params.get(k) == f.get_default() and (isinstance(params[k], str) or not params[k])
    }
    return {*(fields or params)} - {*Defense.model_fields, "lam", "margin", "server_lr"} - plain
