"""The report as one JSON file: all that the page shows, and no more. Its schema is in
docs/formats.md.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from leakbench.base import canonical, write_json
from leakbench.judging import Setting, all_judged, headline
from leakbench.reporting import Report, ReportData, form
from leakbench.results import params
from reports._json_parts import SettingParts, ident, tasks, text


class Json(Report):
    """report.json: tasks with their questions, settings with verdicts and numbers, pictures, what
    is missing, check.
    """

    def write(self, data: ReportData, out: Path) -> list[Path]:
        """One file.

        Raises:
            UsageError: the folder cannot be written.
        """
        write_json(out / "report.json", content(data).model_dump(mode="json", by_alias=True))
        return [out / "report.json"]


def content(data: ReportData) -> form.ReportFile:
    """What the file says."""
    settings, questions = all_judged(data)
    parts = SettingParts(data, settings, questions)
    made = [parts.setting(s) for s in settings]
    check = data.check
    return form.ReportFile(
        format=form.SCHEMA,
        title=data.title,
        made=form.Made(version=data.version, commit=data.commit, dirty=data.dirty, at=data.made),
        redacted=data.redacted,
        headline=text(headline(questions[0] if questions else None)),
        tasks=tasks(data, settings, questions),
        settings=made,
        pictures=parts.images,
        missing=_missing(data, settings),
        check=check
        and form.Check(
            exit=check.exit,
            heading=check.heading,
            against=check.against,
            lines=list(check.lines),
            rows=[form.CheckRow(**asdict(r)) for r in check.rows],
        ),
        against=_against(data, settings),
    )


def _missing(data: ReportData, settings: list[Setting]) -> list[form.Missing]:
    """The table knows no wrappers, so a line may concern several settings; its reason names the
    wrappers.
    """
    of: dict[tuple[str, str, str], list[str]] = {}
    for s in settings:
        of.setdefault((s.task, s.family, canonical(s.params)), []).append(ident(s))
    return [
        form.Missing(
            task=m["task"],
            settings=of.get((m["task"], m["defense"], canonical(params(m["defense_params"]))), []),
            defense=m["defense"],
            attack=m["attack"],
            metric=m["metric"],
            reason=m["reason"],
        )
        for m in data.missing
    ]


def _against(data: ReportData, settings: list[Setting]) -> form.Against | None:
    found = data.against
    if found is None:
        return None
    ids = {s.key: ident(s) for s in settings}
    rows = [
        form.Moved(
            setting=ids.get(r.setting, ""),
            **{
                k: getattr(r, k)
                for k in (
                    "task",
                    "name",
                    "attack",
                    "metric",
                    "stage",
                    "probe",
                    "leaks",
                    "difference",
                    "low",
                    "high",
                )
            },
            **{k: getattr(r, k) for k in ("scale", "word", "why")},
            old=form.Estimate(**asdict(r.old)),
            new=form.Estimate(**asdict(r.new)),
        )
        for r in found.rows
    ]
    return form.Against(
        name=found.name,
        rows=rows,
        differs=list(found.differs),
        only_now=list(found.only_now),
        only_then=list(found.only_then),
    )
