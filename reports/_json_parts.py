"""The parts of report.json, from the same objects that the page is made of: settings, questions,
verdicts, sentences.
"""

from __future__ import annotations

import base64
import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leakbench.base import fingerprint
from leakbench.judging import (
    MADE,
    Judged,
    Number,
    Question,
    Setting,
    Side,
    Span,
    better,
    flags_of,
    headline,
    lede,
    margin,
    others,
    words,
)
from leakbench.reporting import Picture, ReportData, form
from leakbench.results import Row, params, row_key, setting_key
from reports._png import png

# rung of a front -> the attack whose rows lie on it; the papers' own attacks have none in common.
FRONTS = {"cascade": "cascade", "any_attack": "any_attack"}


def ident(setting: Setting) -> str:
    """The anchor of a setting's record in the page."""
    return f"r{setting.index}"


def text(spans: Sequence[Span]) -> str:
    """A sentence in one piece."""
    return "".join(s.text for s in spans).strip()


def tasks(
    data: ReportData, settings: Sequence[Setting], questions: Sequence[Question]
) -> list[form.Task]:
    """One per task, in the page's order of questions."""
    names = dict.fromkeys([*(q.task for q in questions), *(s.task for s in settings)])
    return [
        _task(data, n, [s for s in settings if s.task == n], [q for q in questions if q.task == n])
        for n in names
    ]


def _task(
    data: ReportData, name: str, settings: Sequence[Setting], questions: Sequence[Question]
) -> form.Task:
    facts = [r.get("facts", {}) for s in settings for r in s.runs]
    clients = {f["clients"] for f in facts if "clients" in f}
    useful = [s.utility for s in settings if s.utility]
    given = [dict(r["spec"]["task"].get("params", {})) for s in settings for r in s.runs]
    same = {
        k: v for k, v in (given[0] if given else {}).items() if all(g.get(k) == v for g in given)
    }
    return form.Task(
        id=name,
        about=_about(facts),
        clients=clients.pop() if len(clients) == 1 else None,
        chance=useful[0].chance if useful else None,
        utility=(
            form.Utility(metric=useful[0].metric, better=better(useful[0].metric))
            if useful
            else None
        ),
        split=same,
        questions=[_question(data, q) for q in questions],
    )


def _about(facts: Sequence[Mapping[str, Any]]) -> str:
    """As in "20 clients, 10 classes, inputs of shape 8 x 8", of what all runs agree on."""
    said = []
    for key, told in (
        ("clients", "{} clients"),
        ("classes", "{} classes"),
        ("shape", "inputs of shape {}"),
    ):
        found = {
            " x ".join(map(str, f[key])) if isinstance(f[key], list) else str(f[key])
            for f in facts
            if key in f
        }
        said += [told.format(found.pop())] if len(found) == 1 else []
    return ", ".join(said) or "not recorded"


def _question(data: ReportData, question: Question) -> form.Question:
    spoken = words(question.metric)
    worst = [j.verdict.worst for j in question.judged if j.verdict.worst]
    first, second = headline(question), lede(question)
    return form.Question(
        label=question.label,
        topic=question.topic.name,
        metric=question.metric,
        title=spoken.title,
        meaning=spoken.meaning,
        probe=question.probe,
        stage=question.stage,
        verb=spoken.verb,
        noun=spoken.noun,
        leaks=question.leaks,
        margin=margin(question.metric),
        floor=_range([w.floor for w in worst]),
        control=_range([w.control for w in worst]),
        headline=text(first),
        lede=text(second),
        headline_spans=[form.Span(text=s.text, tone=s.tone) for s in first],
        lede_spans=[form.Span(text=s.text, tone=s.tone) for s in second],
        fronts=fronts(question),
    )


def _range(values: Sequence[float]) -> form.Range | None:
    return form.Range(low=min(values), high=max(values)) if values else None


def fronts(question: Question) -> dict[str, list[str]]:
    """The best trade-offs: of the worst case as the table has it, of the best real attacker, of the
    papers' own attacks.
    """
    live = [j for j in question.judged if not j.setting.dead and j.verdict.rule != 4]
    return {
        "any_attack": [ident(j.setting) for j in live if j.on_front],
        "cascade": _undominated([(j, j.case.cascade) for j in live]),
        "paper": _undominated([(j, j.verdict.paper) for j in live]),
    }


def _undominated(found: Sequence[tuple[Judged, Number | None]]) -> list[str]:
    at = []
    for judged, row in found:
        gain = judged.setting.utility
        if row is not None and gain is not None:
            at.append(
                (
                    Side(judged.case).value(row),
                    -gain.value if better(gain.metric) == "up" else gain.value,
                    ident(judged.setting),
                )
            )
    return [
        name
        for x, y, name in at
        if not any((a, b) != (x, y) and a <= x and b <= y for a, b, _ in at)
    ]


class SettingParts:
    """What belongs to one setting, looked up once for all."""

    def __init__(
        self, data: ReportData, settings: Sequence[Setting], questions: Sequence[Question]
    ) -> None:
        self.data, self.questions = data, questions
        self.rows: dict[str, list[Row]] = defaultdict(list)
        for row in data.tradeoff:
            self.rows[setting_key(row)].append(row)
        self.ran: dict[str, list[Row]] = defaultdict(list)
        for row in data.results:
            self.ran[row_key(row)].append(row)
        self.final = {setting_key(r): r for r in data.utility if r["statistic"] == "final"}
        self.pictures: dict[str, list[Picture]] = defaultdict(list)
        for picture in data.pictures:
            self.pictures[picture.setting].append(picture)
        self.images: dict[str, str] = {}

    def setting(self, s: Setting) -> form.Setting:
        """A record of the page."""
        final = self.final.get(s.key)
        state, why = _state(s)
        return form.Setting(
            id=ident(s),
            task=s.task,
            family=s.family,
            name=s.name,
            params=s.params,
            wrappers=list(s.wrappers),
            reference=s.reference,
            state=state,
            why=why,
            seeds=s.seeds,
            dead_seeds=s.dead_seeds,
            utility=_utility(s, final),
            utility_metric=s.utility.metric if s.utility else "",
            claimed=claim(final) if final else None,
            flags=sorted(flags_of(final)) if final else [],
            verdict=self._verdicts(s),
            sends=_sends(s),
            numbers=[self._number(s, r) for r in self.rows[s.key]],
            clients=[
                form.Clients(metric=c.metric, probe=c.probe, shares=list(c.shares))
                for c in self.data.clients
                if c.setting == s.key
            ],
            curves=self._curves(s),
            pictures=[self._picture(p) for p in self.pictures[s.key]],
            command=self.data.commands.get(s.key, "command not recorded"),
        )

    def _verdicts(self, s: Setting) -> dict[str, form.Verdict]:
        out = {}
        for q in self.questions:
            for j in q.judged:
                if j.setting is s:
                    out[q.label] = form.Verdict(
                        metric=q.metric,
                        rule=j.verdict.rule,
                        word=j.verdict.word,
                        tone=j.verdict.tone,
                        sentence=j.sentence,
                        on_front=j.on_front,
                        also=others(q, self.questions, j),
                    )
        return out

    def _number(self, s: Setting, row: Row) -> form.Number:
        ran = self.ran[row_key(row)]
        return form.Number(
            attack=row["attack"],
            params=params(row["attack_params"]),
            rung=row["rung"],
            observer=row["observer"],
            metric=row["metric"],
            leaks=row["leaks"],
            stage=row["stage"],
            round=row["round"],
            probe=bool(row["probe"]),
            estimate=_estimate(row, ""),
            interval=row["interval"],
            floor=_estimate(row, "floor"),
            control=_estimate(row, "control"),
            failed=sum(int(r["failed"]) for r in ran) if ran else None,
            flags=sorted(flags_of(row)),
            knowledge=[k for k in str(row["knowledge"]).split("|") if k],
            on_front=bool(row["on_front"]) and not s.dead,
            claimed=claim(row),
            command=self.data.commands.get(row_key(row)) or _unrecorded(row),
            provenance=self._provenance(s, row, ran),
        )

    def _provenance(self, s: Setting, row: Row, ran: Sequence[Row]) -> form.Provenance:
        runs = sorted({str(r["run"]) for r in ran})
        metas = [r for r in s.runs if not runs or str(r.get("id")) in runs]

        def seen(column: str) -> list[str]:
            return sorted(
                {str(r[column]) for r in ran if r.get(column)}
                or {str(m[column]) for m in metas if m.get(column)}
            )

        return form.Provenance(
            runs=runs or sorted(str(m["id"]) for m in metas if "id" in m),
            engine=seen("engine"),
            device=seen("device"),
            dtype=seen("dtype"),
            guess_sha256=self._guesses(s, row),
        )

    def _guesses(self, s: Setting, row: Row) -> list[str]:
        """Hashes of the files of guesses behind a number; a row made of several attacks has those
        of all that could enter it.
        """
        wanted = [row]
        if row["attack"] in MADE:
            wanted = [
                r for r in self.rows[s.key] if _same_question(r, row) and _enters(r, row["attack"])
            ]
        folders = {f"{r['attack']}-{fingerprint(params(r['attack_params']))}" for r in wanted}
        return sorted(
            {
                sha
                for name, sha in self.data.guesses.get(s.key, {}).items()
                if name.split("/")[-1] in folders
            }
        )

    def _curves(self, s: Setting) -> list[form.Curve]:
        return [
            form.Curve(
                **{k: getattr(c, k) for k in ("name", "by", "rung", "probe")},
                **{k: list(getattr(c, k)) for k in ("rounds", "value", "low", "high", "floor")},
            )
            for c in self.data.curves
            if c.setting == s.key
        ]

    def _picture(self, p: Picture) -> form.Picture:
        return form.Picture(
            attack=p.attack,
            params=params(p.attack_params),
            unit=p.unit,
            probe=p.probe,
            round=p.round,
            seed=p.seed,
            role=p.role,
            sha256=self._stored(p.image),
            score=p.psnr,
            found=p.found,
        )

    def _stored(self, image: NDArray[Any]) -> str | None:
        """The hash under which the picture is kept, once; None where the attack gave no image."""
        if not np.isfinite(image).all():
            return None
        data = png(
            np.clip(np.rint(np.asarray(image, dtype=np.float64) * 255), 0, 255).astype(np.uint8)
        )
        digest = hashlib.sha256(data).hexdigest()
        self.images.setdefault(digest, base64.b64encode(data).decode())
        return digest


def _state(s: Setting) -> tuple[str, str]:
    """What became of a setting's runs, and why it is not simply done."""
    if s.dead:
        return "dead", s.dead_because
    status = {str(r.get("status", "done")) for r in s.runs}
    if not s.runs:
        return "not recorded", "no run.json is here"
    if "done" in status or s.utility:
        return "done", ""
    failed = sorted(x for x in status if x.startswith("failed"))
    return (
        ("failed", failed[0]) if failed else ("running", "not finished: run the same command again")
    )


def _utility(s: Setting, final: Row | None) -> form.Estimate | None:
    u = s.utility
    if u is None:
        return None
    return form.Estimate(
        value=u.value,
        low=u.low,
        high=u.high,
        n=int(final["n"]) if final else None,
        unit="test unit",
    )


def _estimate(row: Row, prefix: str) -> form.Estimate:
    value = row[prefix or "value"]
    low, high = (row[f"{prefix}_{end}" if prefix else end] for end in ("low", "high"))
    return form.Estimate(
        value=float(value), low=float(low), high=float(high), n=int(row["n"]), unit=row["unit"]
    )


def claim(row: Row) -> form.Claim | None:
    """The paper's number beside a row."""
    if row.get("claimed") in ("", None):
        return None
    low, high = (
        None if row[c] in ("", None) else float(row[c]) for c in ("claimed_low", "claimed_high")
    )
    return form.Claim(
        value=float(row["claimed"]), low=low, high=high, source=str(row["claimed_source"])
    )


def _sends(s: Setting) -> list[form.Sent]:
    sent = s.runs[0].get("sent", ()) if s.runs else ()
    return [
        form.Sent(
            what=(
                f"{m['kind']} from {m['sender']} to"
                f" {'all clients' if m['receiver'] == 'client/*' else m['receiver']}"
            ),
            kind=m["kind"],
            path=f"{m['sender']} -> {m['receiver']}",
            rounds=m["rounds"],
            bytes=m["bytes"],
            covered=m["covered"],
        )
        for m in sent
    ]


def _unrecorded(row: Row) -> str:
    return (
        "made from the attacks' units: leakbench report"
        if row["attack"] in MADE
        else "command not recorded"
    )


def _same_question(one: Row, other: Row) -> bool:
    stages = ["all" if r["stage"] == "final" else r["stage"] for r in (one, other)]
    return bool(
        one["metric"] == other["metric"]
        and bool(one["probe"]) == bool(other["probe"])
        and stages[0] == stages[1]
    )


def _enters(row: Row, made: str) -> bool:
    return (
        row["attack"] not in MADE
        and "control_failed" not in flags_of(row)
        and (made == "any_attack" or row["rung"] != "paper")
    )
