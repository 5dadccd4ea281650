"""Who was asked what: each kind of listener and question, whether it was attacked, or could be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from leakbench.attacking import choices
from leakbench.base import registry
from leakbench.base.errors import UsageError
from leakbench.record.recording import Recording
from leakbench.reporting.data import Inquiry, InquiryState
from leakbench.results.cascade import listeners
from leakbench.results.listener import LISTENERS, Listener
from leakbench.results.number import Missing
from leakbench.results.settings import Setting

# Who an attack can be told to be, where a client listens: as many of the first as there are.
CLIENTS: dict[Listener, int] = {"coalition": 3, "client": 1}
# Attack, how it stands, command or refusal, and the setting's key.
Found = Iterator[tuple[str, InquiryState, str, str]]
Asked = set[tuple[Listener, str, str]]  # who, after what, and the setting's key


def inquiries_of(settings: Sequence[Setting], missing: Sequence[Missing]) -> tuple[Inquiry, ...]:
    """A line for each listener and question: attacked, could be with a command, or refused.

    What every attack on a question refuses, whoever listens, is no question of these settings, and
    is left out. Of the server it is what stands in ``missing``; clients are asked here. What was
    asked of one setting, and could be of another, is open.
    """
    rows = [n for s in settings for n in s.numbers if not n.attacker.made]
    asked: Asked = set()
    for s in settings:
        own = [n for n in s.numbers if not n.attacker.made]
        asked |= {(n.attacker.listener, n.meaning.question.name, s.key) for n in own}
    topics = _topics()
    there: dict[tuple[Listener, str], tuple[InquiryState, str]] = {}
    lacking: list[tuple[Listener, Callable[[], Found]]] = [
        ("server+", lambda: _of_server(settings, missing, active=True)),
        ("server", lambda: _of_server(settings, missing, active=False)),
        *((who, lambda who=who: _of_clients(settings, missing, who, asked)) for who in CLIENTS),
    ]
    for who, find in lacking:
        for attack, state, text, key in find():
            for topic in (t for t in topics.get(attack, ()) if (who, t, key) not in asked):
                if there.get((who, topic), ("refused", ""))[0] == "refused":
                    at = who, topic
                    there[at] = (state, text) if state == "open" else there.get(at, (state, text))
    for who, topic, _ in asked:
        if there.get((who, topic), ("refused", ""))[0] == "refused":
            there[who, topic] = ("asked", "")
    open_ = {topic for (_, topic), (state, _) in there.items() if state != "refused"}
    out = []
    for who in LISTENERS:
        for topic in sorted(open_):
            if found := there.get((who, topic)):
                out.append(Inquiry(listener=who, topic=topic, state=found[0], text=found[1]))
    if rows and "server+" not in listeners(rows) and not any(s.active for s in settings):
        out.insert(0, Inquiry(listener="server+", topic="", state="open", text="-w active_server"))
    return tuple(out)


def _topics() -> dict[str, set[str]]:
    """Attack -> what it asks after."""
    out = {}
    for name, metrics in registry.attributes("attacks", "metrics").items():
        out[name] = {m.meaning.question.name for m in metrics if m.meaning.judges}
    return out


def _of_server(settings: Sequence[Setting], missing: Sequence[Missing], *, active: bool) -> Found:
    keys = {s.key for s in settings if s.active == active}
    for m in missing:
        if m.configuration.key not in keys or m.metric:
            continue
        if m.reason.code == "unfit":
            yield m.attack, "refused", m.reason.facts["text"], m.configuration.key
        elif m.reason.code == "not_run":
            with suppress(UsageError):
                options = choices.build(m.attack, m.reason.facts["params"]).options
                yield m.attack, "open", options, m.configuration.key


def _of_clients(
    settings: Sequence[Setting], missing: Iterable[Missing], who: Listener, asked: Asked
) -> Found:
    """Of each method under each wrapper one run is asked; parameters change nothing of who hears.

    What not even the server could be asked there is no refusal of a client's.
    """
    unfit = {(m.configuration.key, m.attack) for m in missing if not m.fits}
    for setting in _one_of_each(settings, who, asked):
        run = setting.runs[0]
        name = _observer(who, int(run.meta.get("facts", {}).get("clients", 0)))
        recording = Recording(run)
        for known in choices.variants():
            with suppress(UsageError):
                attack = choices.build(known.name, {**known.apart(), "observer": name})
                why = attack.obstacle(recording)
                if not why:
                    yield known.name, "open", attack.options, setting.key
                elif (setting.key, known.name) not in unfit:
                    yield known.name, "refused", why, setting.key


def _observer(who: Listener, clients: int) -> str:
    """Of so many ``clients`` the first ones, and one is left of whom they could find out."""
    least, most = min(CLIENTS[who], 2), CLIENTS[who]
    first = ",".join(map(str, range(min(max(least, min(most, clients - 1)), clients))))
    return f"clients/{first}" if most > 1 else f"client/{first}"


def _one_of_each(settings: Iterable[Setting], who: Listener, asked: Asked) -> list[Setting]:
    found: dict[tuple[object, ...], Setting] = {}
    for s in settings:
        c = s.configuration
        if s.runs:
            already = sorted(topic for one, topic, key in asked if (one, key) == (who, s.key))
            found.setdefault((c.task, c.defense, c.wrapped, *sorted(s.kinds), *already), s)
    return list(found.values())
