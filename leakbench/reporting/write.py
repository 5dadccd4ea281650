"""report: run folders become numbers, numbers one report, which every format is handed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from leakbench.attacking import choices, standard
from leakbench.base import provenance, registry, sources
from leakbench.base.errors import UsageError
from leakbench.base.meaning import Meaning
from leakbench.base.thread_count import threads
from leakbench.base.version import __version__
from leakbench.gate.outcome import CheckResult
from leakbench.gate.rows import gate_rows
from leakbench.judging.judging import find_questions
from leakbench.record.folders import Run
from leakbench.reporting import about, clients, curves, maps, moved, pictures, redaction
from leakbench.reporting.check import check_of
from leakbench.reporting.commands import attack_command, made_by, reports, trains
from leakbench.reporting.data import (
    Origin,
    Report,
    ReportData,
    ReportTask,
    ShownMissing,
    ShownSetting,
)
from leakbench.reporting.inquiries import inquiries_of
from leakbench.reporting.moved import Against
from leakbench.reporting.other import numbers_of_folder
from leakbench.results.number import Missing
from leakbench.results.settings import Setting
from leakbench.results.tables import Tables, collect
from leakbench.words.headlines import first_sentences, with_words

REPORT = "leakbench.reporting.write"  # what every number of a report passes
NO_RUN = "there is no run to report. Make one with leakbench train."


@threads(1)  # of small sums: on a busy machine they wait for each other
def read_tables(runs: Sequence[Run]) -> Tables:
    """Every number of ``runs``; each folder is read here, once.

    In `missing` stands a line for every attack that does not fit what a setting shared.

    Raises:
        UsageError: there is no run, or two are the same seed of one setting.
        BrokenFile: an artifact is damaged.
    """
    if not runs:
        raise UsageError(NO_RUN)
    fits, members = choices.Fits(), {c.key for c in standard.members()}

    def lacks(run: Run) -> list[tuple[str, dict[str, Any]]] | None:
        """What a run lacks of the standard ensemble; None where its method is not installed."""
        with suppress(UsageError):
            return fits.lacking(run, members)
        return None

    return collect(runs, fits.fitting, fits.unfit, lacks)


@threads(1)
def write_report(
    tables: Tables,
    out: Path,
    *,
    title: str,
    formats: Sequence[str],
    check: CheckResult | None = None,
    baseline: Path | None = None,
    redact: bool = False,
    against: Path | None = None,
) -> Path:
    """Write the CSV files and every format of ``formats`` below ``out``; returns it.

    Args:
        tables: of the runs, complete or not; what failed stands among what is missing.
        out: the folder. With ``redact`` what an earlier report left there is deleted.
        title: of the page.
        formats: names of `leakbench list reports`.
        check: what `check` said of these runs.
        baseline: the file that it compared with.
        redact: leave out everything that shows what a client holds.
        against: another report's folder, or a folder of runs, to say what moved.

    Raises:
        UsageError: a format does not exist, or the folder cannot be written.
        BrokenFile: an artifact is damaged.
    """
    wanted = dict.fromkeys(("csv", *formats))  # the tables are always written, and first
    makers: list[Report] = [
        registry.load_plugin("reports", n).build({}, f"report {n}") for n in wanted
    ]
    # Before `out` is written: it may be the same folder.
    differs = None if against is None else _moved(tables.settings, against)
    data = report(tables, title, redact=redact)
    said = None if check is None else check_of(check, tables.settings, baseline)
    code = {"report": sources.sources_digest([REPORT]), **_formats(makers)}
    made = data.made.model_copy(update={"code": code})
    found: dict[str, Any] = {"check": said, "against": differs, "made": made}
    found["command"] = reports(
        data.settings, out, title=title, redact=redact, against=against, baseline=baseline
    )
    data = data.model_copy(update=found)
    if redact:
        data = redaction.redact(data)
        redaction.clear(out)
    for maker in makers:
        maker.write(data, out)
    return out


def _formats(makers: Iterable[Report]) -> dict[str, str]:
    """{format: the digest of its code}; nothing of one without a source, as in a notebook."""
    out = {}
    for maker in makers:
        module = type(maker).__module__
        with suppress(UsageError):
            out[module.rpartition(".")[2]] = sources.sources_digest([module], [REPORT])
    return out


def report(tables: Tables, title: str, *, redact: bool = False) -> ReportData:
    """All that a report says of these runs; with ``redact`` no picture and no map is made."""
    settings = [_with_commands(s) for s in sorted(tables.settings, key=lambda s: s.index)]
    questions = with_words(find_questions(settings, tables.missing))
    media = pictures.Media()
    shown = tuple(_shown(s, None if redact else media) for s in settings)
    commit, dirty = provenance.source()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    names = dict.fromkeys([*(q.task for q in questions), *(s.task for s in settings)])
    return ReportData(
        title=title,
        made=Origin(version=__version__, commit=commit, dirty=dirty, at=now),
        headline=first_sentences(questions, settings),
        metrics=_metrics(settings),
        tasks=tuple(_task(n, settings) for n in names),
        questions=questions,
        settings=shown,
        maps=() if redact else tuple(maps.maps_of(settings, questions)),
        missing=_located(tables.missing, settings),
        inquiries=inquiries_of(settings, tables.missing),
        about=about.abouts_of(settings),
        images=media.images.found,
        sounds=media.sounds.found,
        tables=tables,
    )


def _located(missing: Iterable[Missing], settings: Iterable[Setting]) -> tuple[ShownMissing, ...]:
    """Each with its setting's id."""
    ids = {s.key: s.id for s in settings}
    return tuple(ShownMissing(**dict(m), setting=ids[m.configuration.key]) for m in missing)


def _with_commands(setting: Setting) -> Setting:
    folders, numbers = made_by(setting), []
    for n in setting.numbers:
        numbers.append(n.model_copy(update={"command": attack_command(setting, n, folders)}))
    return setting.model_copy(update={"numbers": tuple(numbers)})


def _shown(setting: Setting, media: pictures.Media | None) -> ShownSetting:
    known: dict[str, Any] = {name: getattr(setting, name) for name in Setting.model_fields}
    return ShownSetting(
        **known,
        clients=tuple(clients.clients_of(setting)),
        curves=tuple(curves.curves_of(setting)),
        pictures=() if media is None else tuple(pictures.pictures_of(setting, media)),
        command=trains(setting),
    )


def _moved(settings: Sequence[Setting], other: Path) -> Against:
    names, ids = {s.key: s.name for s in settings}, {s.key: s.id for s in settings}
    there = numbers_of_folder(other, _metrics(settings))
    found = moved.against(str(other), gate_rows(settings), there, names)
    rows = [r.model_copy(update={"setting": ids[r.setting]}) for r in found.rows]
    return found.model_copy(update={"rows": tuple(rows)})


def _metrics(settings: Iterable[Setting]) -> dict[str, Meaning]:
    found: dict[str, Meaning] = {}
    for s in settings:
        found |= {n.metric: n.meaning for n in s.numbers}
        found |= {u.meaning.name: u.meaning for u in s.utility}
    return dict(sorted(found.items()))


def _task(name: str, every: Sequence[Setting]) -> ReportTask:
    settings = [s for s in every if s.task == name]
    runs = [run for s in settings for run in s.every]
    facts = [run.meta.get("facts", {}) for run in runs]
    clients = {f["clients"] for f in facts if "clients" in f}
    useful = [s.final for s in settings if s.final]
    given = [dict(run.spec["task"].get("params", {})) for run in runs]
    split = given[0] if given else {}
    for other in given[1:]:
        split = {k: v for k, v in split.items() if other.get(k) == v}
    return ReportTask(
        id=name,
        about=_about(facts),
        clients=clients.pop() if len(clients) == 1 else None,
        chance=useful[0].chance if useful else None,
        utility=useful[0].meaning.name if useful else None,
        split=split,
    )


def _about(facts: Sequence[Mapping[str, Any]]) -> str:
    """As in "20 clients, 10 classes, inputs of shape 8 x 8", of what all runs agree on."""
    told = {"clients": "{} clients", "classes": "{} classes", "shape": "inputs of shape {}"}
    found: dict[str, set[str]] = defaultdict(set)
    for f in facts:
        for key in told.keys() & f.keys():
            value = f[key]
            found[key].add(" x ".join(map(str, value)) if isinstance(value, list) else str(value))
    said = [told[key].format(*found[key]) for key in told if len(found[key]) == 1]
    return ", ".join(said) or "not recorded"
