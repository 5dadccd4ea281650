"""A made-up report on digit-pairs: eight settings, real digits as pictures, every state a page has
to show. And its parts, for reports of a test's own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from leakbench.base import registry
from leakbench.base.errors import UnknownName
from leakbench.base.meaning import Meaning
from leakbench.base.reason import reason
from leakbench.federation import utility as gains
from leakbench.judging.judging import find_questions
from leakbench.metrics.images import LPIPS, PSNR
from leakbench.metrics.prototypes import P_LEAK
from leakbench.record.folders import Run
from leakbench.reporting.check_data import Check, CheckRow
from leakbench.reporting.check_lines import heading, row_line
from leakbench.reporting.data import (
    About,
    Clients,
    Curve,
    Embedding,
    Naming,
    Origin,
    Picture,
    ReportData,
    ReportTask,
    ShownMissing,
    ShownSetting,
    Split,
)
from leakbench.reporting.png import Images
from leakbench.results import cascade, front, number
from leakbench.results.names import Method, setting_names
from leakbench.results.number import (
    Attacker,
    Claim,
    Configuration,
    Evaluated,
    Measured,
    Missing,
    Number,
    Unit,
    Utility,
)
from leakbench.results.settings import Setting
from leakbench.results.tables import Tables
from leakbench.statistics.intervals import Estimate
from leakbench.words.headlines import first_sentences, with_words

CLIENTS = 20
SEEDS = (0, 1, 2)
IDENTIFICATION = "identification"
METRICS = {m.name: m for m in (P_LEAK.meaning, PSNR.meaning, LPIPS.meaning)}
UTILITIES = {
    **{name: m.meaning for name, m in gains.METRICS.items()},
    "eer": Meaning(
        name="eer",
        direction="down",
        low=0.0,
        high=1.0,
        unit="test unit",
        title="equal error rate",
        verb="has equal error rate",
        decimals=3,
    ),
}
# SHA-256 of what each attack's numbers were scored from.
GUESSES = {"nearest_prototype": "a" * 64, "unmix": "b" * 64, "average_rounds": "c" * 64}
HOW = ("fused", "cpu", "float32", "0.1.0", "e284c761f00d")


class Told(Run):
    """A run that no folder holds: nothing is there but what its run.json would say."""

    attacks = ()

    def table(self, name, columns):
        return []


def meaning(metric: str, leaks: str = "up") -> Meaning:
    """Of one of ours, or of a plugin's that says little of itself."""
    known = {**METRICS, **_identification()}
    if metric in known:
        return known[metric]
    return Meaning(name=metric, direction=leaks, low=0.0, high=1.0, unit="client")


def _identification() -> dict[str, Meaning]:
    from leakbench.metrics.images import IDENTIFICATION

    return {IDENTIFICATION.name: IDENTIFICATION.meaning}


def setting(
    defense: str, params: dict[str, Any], wrappers: Iterable[str] = (), task: str = "digit-pairs"
) -> Configuration:
    wrapped = [{"name": w, "params": {"clip": 1.0, "sigma": 0.5}} for w in wrappers]
    params = dict(sorted(params.items()))  # as run.json has them
    return Configuration(task=task, defense=defense, params=params, wrappers=wrapped)


def gained(
    base: Configuration, value: float, metric: str = "accuracy", chance: float = 0.1, **more: Any
) -> Utility:
    known = UTILITIES.get(metric)
    if known is None:
        known = Meaning(name=metric, direction="up", low=0.0, high=1.0, unit="test unit")
    low, high = max(value - 0.02, 0.0), min(value + 0.02, 1.0)
    given = {
        "statistic": "final",
        "seeds": SEEDS,
        "rounds": 300,
        "value": Estimate(value, low, high, 360, "test unit", "student"),
        "chance": chance,
        "flags": frozenset(),
    }
    return Utility(configuration=base, meaning=known, **given | more)


def row(
    base: Configuration,
    utility: float,
    attack: str,
    rung: str,
    metric: str,
    value: float,
    **more: Any,
) -> Number:
    """A number with what usually stands beside it; ``more``: as for ``again``, and
    ``utility_metric``, ``chance``, ``leaks``, ``width``.
    """
    means = meaning(metric, more.pop("leaks", "up"))
    floor, control, unit, interval, top = 1 / CLIENTS, 1.0, "client", "clopper-pearson", 1.0
    if metric == PSNR.name:
        floor, control, unit, interval, top = 13.0, 78.0, "image", "student", 100.0
    elif metric == IDENTIFICATION:
        floor, control, unit = 0.01, 1.0, "image"
    n, width = more.pop("n", 3 * CLIENTS), more.pop("width", 0.04)
    floor, control = more.pop("floor", floor), more.pop("control", control)
    gain = gained(base, utility, more.pop("utility_metric", "accuracy"), more.pop("chance", 0.1))
    given = Number(
        configuration=base,
        attacker=Attacker(
            name=attack,
            rung=rung,
            observer=("server",),
            knowledge=("method",) if rung == "method" else (),
            reads=("prototype", "update"),
            pools=True,
        ),
        meaning=means,
        stage="all" if metric == P_LEAK.name else "final",
        round=300,
        probe=metric in (IDENTIFICATION, PSNR.name),
        seeds=SEEDS,
        value=Estimate(value, max(value - width, 0.0), min(value + width, top), n, unit, interval),
        floor=Estimate(floor, floor, floor, n, unit, "exact"),
        control=Estimate(control, control - 0.05, min(control + 0.02, top), n, unit, interval),
        failed=0,
        tried=n,
        flags=frozenset(),
        utility=gain,
    )
    return again(given, **more)


def again(n: Number, **more: Any) -> Number:
    """The same number with other facts: ``value``, ``low``, ``high`` and ``unit`` of the estimate,
    ``floor`` and ``control`` as values without width, ``flags`` joined by `|`, ``claimed`` and
    ``claimed_source``, ``attack`` and ``params`` of the attacker; any field as it is.
    """
    parts = {k: more.pop(k) for k in ("value", "low", "high", "unit") if k in more}
    update: dict[str, Any] = {"value": replace(n.value, **parts)}
    for beside in ("floor", "control"):
        if beside in more:
            at = more.pop(beside)
            update[beside] = replace(getattr(n, beside), value=at, low=at, high=at)
    if "flags" in more:
        update["flags"] = frozenset(more.pop("flags").split("|")) - {""}
    if "claimed" in more:
        at, source = more.pop("claimed"), more.pop("claimed_source")
        spread = (more.pop("claimed_low", None), more.pop("claimed_high", None))
        differs = DIFFERS if source == SOURCE else ""
        update["claim"] = Claim(
            value=at, low=spread[0], high=spread[1], source=source, differs=differs
        )
    who = {k: more.pop(k) for k in ("rung", "params") if k in more}
    who |= {"name": more.pop("attack")} if "attack" in more else {}
    update["attacker"] = n.attacker.model_copy(update=who)
    assert more.keys() <= Number.model_fields.keys(), more
    return n.model_copy(update=update | more)


SETTINGS: list[tuple[Configuration, float, float | None, float | None, float]] = [
    # setting, utility, P_leak by the paper's attack, by the cascade, PSNR
    (setting("fedaws", {}), 0.93, 1.0, 1.0, 74.0),
    (setting("fedgn", {"sigma": 0.1}), 0.92, 0.62, 1.0, 71.0),
    (setting("fedgn", {"sigma": 0.3}), 0.88, 0.15, 0.93, 46.0),
    (setting("fedcs", {"cos_theta": 0.5}), 0.90, 0.35, 0.97, 52.0),
    (setting("fedhide", {"alpha": 0.1, "k": 3}), 0.91, 0.30, 0.95, 66.0),
    (setting("fedhide", {"alpha": 0.01, "k": 3}), 0.905, 0.10, 0.48, 64.0),
    (setting("fedgn", {"sigma": 3.0}), 0.11, 0.06, 0.07, 12.0),
    (setting("fedaws", {}, ("clip_noise",)), 0.71, 0.05, 0.05, 68.0),
    (setting("feduv", {}), 0.86, None, None, 70.0),
]
DIFFERS = "clients 100 there, 20 here"
SOURCE = f"FedHide, Table 4; ± is a standard deviation; {DIFFERS}"


def named(base: Configuration, seed: int) -> str:
    return f"{base.task}-{base.defense}-s{seed}"


def run_json(base: Configuration, seed: int) -> dict[str, Any]:
    kinds = ["update"] if base.defense == "feduv" else ["update", "prototype"]
    sent = [
        {
            "kind": kind,
            "sender": "client",
            "receiver": "server",
            "rounds": 300,
            "messages": 6000,
            "bytes": 4_200_000,
            "covered": bool(base.wrappers and kind == "prototype"),
        }
        for kind in kinds
    ]
    model = {"kind": "model", "sender": "server", "receiver": "client/*", "rounds": 300}
    sent.append({**model, "messages": 300, "bytes": 9_000_000, "covered": False})
    return {
        "schema": 1,
        "status": "done",
        "id": named(base, seed),
        "spec": {
            "task": {"name": base.task, "params": {"clients": CLIENTS}},
            "defense": {"name": base.defense, "params": base.params},
            "wrappers": base.wrappers,
            "rounds": 300,
            "seed": seed,
        },
        "method": _method(base.defense),
        "hides": base.defense != "fedaws",
        "engine": "fused",
        "device": "cpu",
        "dtype": "float32",
        "versions": {"leakbench": "0.1.0", "torch": "2.15.0"},
        "commit": "e284c761f00d",
        "dirty": True,
        "facts": {"clients": CLIENTS, "classes": 10, "dim": 16, "shape": [8, 8]},
        "sent": sent,
        "command": f"leakbench train -d {base.defense} -t {base.task} --seeds {seed}",
    }


def bare_json(base: Configuration, seed: int) -> dict[str, Any]:
    """Of a run of which little is recorded."""
    known = run_json(base, seed)
    return {k: known[k] for k in ("schema", "status", "id", "spec", "method")}


@lru_cache
def _method(defense: str) -> dict[str, Any]:
    try:
        return registry.load_plugin("defenses", defense).display()
    except UnknownName:
        return {}


def runs_of(metas: Iterable[Mapping[str, Any]]) -> tuple[Run, ...]:
    return tuple(Told(Path("runs") / str(meta["id"]), dict(meta)) for meta in metas)


def built(
    numbers: Iterable[Number] = (),
    *,
    utility: Iterable[Utility] = (),
    runs: Any = bare_json,
    also: Iterable[Configuration] = (),
    more: Mapping[str, Mapping[str, Any]] | None = None,
    **changes: Any,
) -> ReportData:
    """A report of these numbers, as the tables would make one of them.

    Args:
        numbers: of all settings.
        utility: of all settings; one is made of their numbers where there is none.
        runs: (configuration, seed) -> run.json; None: no run is recorded.
        also: settings without a number.
        more: ``Configuration.key`` -> further fields of the setting.
        changes: fields of the report.
    """
    of, useful = defaultdict(list), defaultdict(list)
    bases: dict[str, Configuration] = {}
    for n in numbers:
        bases[n.configuration.key] = n.configuration
        of[n.configuration.key].append(n)
    bases |= {c.key: c for c in also}
    for u in utility:
        bases[u.configuration.key] = u.configuration
        useful[u.configuration.key].append(u)
    methods = {c.defense: Method(c.defense, _method(c.defense)) for c in bases.values()}
    named = setting_names(list(bases.values()), methods)
    names = {key: str(name) for key, name in named.items()}
    settings = []
    for key, base in sorted(bases.items(), key=lambda item: (item[1].task, names[item[0]])):
        made = () if runs is None else runs_of(runs(base, seed) for seed in SEEDS)
        done = tuple(r for r in made if r.done)
        gain = tuple(useful[key]) or tuple(n.utility for n in of[key][:1])
        if not useful[key] and of[key] and "dead_run" in of[key][0].flags:
            gain = (gain[0].model_copy(update={"flags": frozenset({"dead_run"})}),)
        others = tuple(r for r in made if not r.done)
        read = _read(of[key], done)
        settings.append(
            Setting(
                configuration=base,
                runs=done,
                others=others,
                name=names[key],
                index=len(settings),
                evaluated=tuple(_evaluated(gain[0], done)) if gain else (),
                measured=tuple(m for n in read for m in n.parts if not n.attacker.made),
                results=tuple(m for n in read for m in n.parts),
                numbers=tuple(read),
                utility=tuple(u for u in gain if u.meaning.name),
            )
        )
    return report(settings, more or {}, **changes)


def report(
    settings: Sequence[Setting],
    more: Mapping[str, Mapping[str, Any]],
    missing: Sequence[Missing] = (),
    **changes: Any,
) -> ReportData:
    """A report of settings: fronts marked, questions found, verdicts given."""
    every = [n for s in settings for n in s.numbers]
    marked = iter(front.mark(every, {s.key: s.about for s in settings}))
    shown = []
    for s in settings:
        own = {"numbers": tuple(next(marked) for _ in s.numbers)}
        known = {name: getattr(s, name) for name in Setting.model_fields}
        shown.append(ShownSetting(**known | own | dict(more.get(s.key, {}))))
    questions = with_words(find_questions(shown, missing))
    metrics = {n.metric: n.meaning for s in shown for n in s.numbers}
    metrics |= {u.meaning.name: u.meaning for s in shown for u in s.utility}
    tables, ids = Tables(tuple(shown), tuple(missing)), {s.key: s.id for s in shown}
    given = {
        "title": "leakbench report",
        "made": Origin(version="0.1.0", commit="abc", dirty=False, at="2026-11-21T00:00:00+00:00"),
        "headline": first_sentences(questions, shown),
        "metrics": dict(sorted(metrics.items())),
        "tasks": tuple(_task(name, shown) for name in dict.fromkeys(s.task for s in shown)),
        "questions": questions,
        "settings": tuple(shown),
        "missing": tuple(
            ShownMissing(**dict(m), setting=ids[m.configuration.key]) for m in missing
        ),
        "tables": tables,
    }
    return ReportData(**given | changes)


def _task(name: str, settings: Sequence[Setting]) -> ReportTask:
    facts = [r.meta.get("facts", {}) for s in settings if s.task == name for r in s.every]
    clients = {f["clients"] for f in facts if "clients" in f}
    useful = [s.final for s in settings if s.task == name and s.final]
    return ReportTask(
        id=name,
        about="20 clients",
        clients=clients.pop() if len(clients) == 1 else None,
        chance=useful[0].chance if useful else None,
        utility=useful[0].meaning.name if useful else None,
        split={},
    )


def _evaluated(final: Utility, runs: Sequence[Run]) -> Iterable[Evaluated]:
    """Dead as the flag says: all of them where the utility is not beyond chance, else one."""
    value, chance = (final.meaning.text(v) for v in (final.value.value, final.chance))
    why = reason("marked_dead")
    if not final.alive:
        low, high = (final.meaning.text(v) for v in (final.value.low, final.value.high))
        about = {"metric": final.meaning.heading, "value": value, "low": low, "high": high}
        why = reason("not_beyond", **about, n=str(final.value.n), what="chance", level=chance)
    for i, run in enumerate(runs):
        dead = "dead_run" in final.flags and (i == 0 or not final.alive)
        yield Evaluated(run, final.meaning, (), why if dead else None, 0.0)


def _read(numbers: Sequence[Number], runs: Sequence[Run]) -> list[Number]:
    """With the seeds' own; what is made of several attacks has the guesses of all that enter."""
    parts = {n.key: [_measured(n, run) for run in runs] for n in numbers}
    out = []
    for n in numbers:
        mine = parts[n.key]
        if n.attacker.made:
            real = [o for o in numbers if not o.attacker.made and o.asked == n.asked]
            joined = []
            for i, m in enumerate(mine):
                enter = cascade.entering(
                    n.attacker.name, [parts[o.key][i] for o in real], lambda _: False
                )
                guesses = {name: sha for e in enter for name, sha in e.guesses.items()}
                joined.append(replace(m, guesses=guesses))
            mine = joined
        out.append(n.model_copy(update={"parts": tuple(mine)}))
    return out


def _measured(n: Number, run: Run) -> Measured:
    own = n.value.n // 3
    failed = n.failed > 0 and run.seed == 0
    unit = Unit("client/0", "client/0", n.value.value, failed, False)
    name = n.attacker.name
    return Measured(
        run=run,
        attacker=n.attacker,
        meaning=n.meaning,
        stage=n.stage,
        round=n.round,
        probe=n.probe,
        value=replace(n.value, n=own),
        floor=replace(n.floor, n=own),
        control=replace(n.control, n=own),
        flags=n.flags,
        order=0,
        units={"attack": (unit,), "floor": (unit,), "control": (unit,)},
        exact=frozenset(),
        guesses={f"{name}-1": GUESSES.get(name, "ab" * 32)},
        code={f"{name}-1": {}},
        made=number.Environment(*HOW),
    )


def numbers_of(
    base: Configuration, acc: float, paper: float | None, real: float | None, psnr: float
) -> list[Number]:
    """What the attacks of one of ``SETTINGS`` reached."""
    dead, rows = "dead_run" if acc < 0.15 else "", []
    if paper is not None and real is not None:
        best = min(1.0, max(paper, real) + (0.02 if real < 0.9 else 0.0))
        said = {"claimed": 0.043, "claimed_low": 0.03, "claimed_high": 0.056}
        claim = {**said, "claimed_source": SOURCE} if base.defense == "fedhide" else {}
        own = f"{dead}|oracle_prototypes"
        fails = int(acc == 0.9)
        made = {"flags": dead}
        rows = [
            row(base, acc, "nearest_prototype", "paper", "p_leak", paper, flags=own, **claim),
            row(base, acc, "average_rounds", "transcript", "p_leak", (paper + real) / 2, **made),
            row(base, acc, "unmix", "method", "p_leak", real, failed=fails, **made),
            row(base, acc, "cascade", "method", "p_leak", real, failed=fails, **made),
            row(base, acc, "any_attack", "method", "p_leak", best, **made),
        ]
        if real <= 0.05:
            rows = [again(r, low=0.01, high=0.09) for r in rows]
    found, probe = float(psnr > 30) or 0.02, f"probe|few_units|{dead}"
    for attack in ("gradient_inversion", "cascade", "any_attack"):
        about = {"n": 12, "flags": probe}
        rows.append(row(base, acc, attack, "method", "psnr", psnr, width=3.0, **about))
        rows.append(row(base, acc, attack, "method", IDENTIFICATION, found, width=0.2, **about))
    return rows


def report_data(**changes: Any) -> ReportData:
    """The made-up report; ``changes``: as for ``built``, ``settings``: which of ``SETTINGS``."""
    numbers, utility, more = [], [], defaultdict(dict)
    images = Images()
    pictures, drawn, hit = pictures_of(images), curves(), clients()
    for base, acc, *reached in SETTINGS:
        rows = numbers_of(base, acc, *reached)
        flags = rows[0].flags & {"dead_run"}
        utility += [
            gained(base, acc, statistic=s, flags=flags) for s in ("final", "best", "last10")
        ]
        key = base.key
        for r in rows:
            known = f"leakbench attack runs/{base.task}-{base.defense}-* -a {r.attacker.name}"
            numbers.append(r if r.attacker.made else again(r, command=known))
        more[key]["command"] = f"leakbench train -d {base.defense} -t digit-pairs --seeds 0-2"
        more[key] |= {"pictures": pictures.get(key, ()), "curves": drawn[key]}
        more[key] |= {"clients": hit.get(key, ())}
    lacks = {"attack": "gradient_inversion", "metric": "lpips", "meaning": LPIPS.meaning}
    lacks |= {"reason": "images are under 32 px: LPIPS does not apply"}
    given: dict[str, Any] = {
        "numbers": numbers,
        "utility": utility,
        "runs": run_json,
        "more": more,
        "made": Origin(
            version="0.1.0", commit="e284c761f00d", dirty=True, at="2026-11-21T06:30:00+00:00"
        ),
        "missing": [Missing(configuration=b, **lacks) for b, *_ in SETTINGS[:3]],
        "images": images.found,
        "maps": None,
        "about": {
            "defenses/fedgn": About(
                text="FedGN: Gaussian noise on the prototype, drawn afresh each round.",
                paper="Park and Yun, ECCV 2024",
            ),
            "attacks/unmix": About(text="Unmix: what is mixed by a public rule can be solved for."),
        },
        "check": checked(),
    }
    given |= changes
    found = built(**{k: v for k, v in given.items() if k != "maps"})
    drawn_maps = maps(found) if given["maps"] is None else given["maps"]
    return found.model_copy(update={"maps": tuple(drawn_maps)})


def checked() -> Check:
    """One row leaks more, of another nothing can be told."""
    about = {"meaning": P_LEAK.meaning, "margin": 0.05, "why": ""}
    one = {"row": "digit-pairs: FedGN σ 0.3, best real attacker", "ref": "a", "old": 0.6}
    other = {"row": "digit-pairs: FedCS cos 0.5, worst case", "ref": "b", "old": 0.95, "new": 0.97}
    more = {"new": 0.93, "difference": 0.33, "low": 0.2, "high": 0.41}
    open_ = {"difference": 0.02, "low": -0.02, "high": 0.06}
    rows = (
        CheckRow(verdict="leaks more", **about, **one, **more),
        CheckRow(verdict="cannot tell", **about, **other, **open_),
    )
    lines = tuple(row_line(r).text for r in rows)
    against = "leakage.json at a1b2c3d"
    return Check(exit=1, lines=lines, against=against, heading=heading(1, rows), rows=rows)


def pictures_of(images: Images) -> dict[str, tuple[Picture, ...]]:
    """Of four settings: six digits, their class means, and the digits with noise."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = digits.images / 16.0
    noise = np.random.Generator(np.random.PCG64(0))
    out = {}
    for base, _, _, _, psnr in SETTINGS[:1] + SETTINGS[2:3] + SETTINGS[7:8] + SETTINGS[6:7]:
        mine = []
        for i in range(6):
            truth = pixels[i]
            mean = pixels[digits.target == digits.target[i]].mean(0)
            guess = np.clip(truth + 10 ** (-psnr / 20) * noise.standard_normal(truth.shape), 0, 1)
            drawn = {"original": truth, "floor": mean, "control": truth, "attack": guess}
            for role, image in drawn.items():
                error = max(float(np.mean((image - truth) ** 2)), 1e-8)
                near = None if role == "original" else float(min(100.0, -10 * np.log10(error)))
                mine.append(
                    Picture(
                        attack="gradient_inversion",
                        params={},
                        unit=f"client/{i}",
                        probe=0,
                        round=300,
                        role=role,
                        sha256=images.add(image),
                        psnr=near,
                        found=None if near is None else float(near > 20),
                    )
                )
        out[base.key] = tuple(mine)
    return out


ROUNDS = (1, 10, 100, 300)


def curve(name: str, value: Sequence[float], **more: Any) -> Curve:
    """Without an interval, unless it is given."""
    own = tuple(value)
    return Curve(**{"name": name, "rounds": ROUNDS, "value": own, "low": own, "high": own} | more)


def curves() -> dict[str, tuple[Curve, ...]]:
    """Utility, leakage by both attackers and the mean cosine; FedUV has utility alone, and the best
    real attack one round.
    """
    out = {}
    for base, acc, paper, real, _ in SETTINGS:
        rising = tuple(acc * k / 4 for k in (1, 2, 3, 4))
        ends = {
            "low": tuple(v * 0.9 for v in rising),
            "high": tuple(min(v * 1.1, 1.0) for v in rising),
        }
        mine = [curve("accuracy", rising, **ends)]
        if paper is not None and real is not None:
            own = (1.0, (1 + paper) / 2, paper, paper)
            ends = {
                "low": tuple(max(v - 0.1, 0.0) for v in own),
                "high": tuple(min(v + 0.1, 1.0) for v in own),
            }
            floor, by = 1 / CLIENTS, {"by": "nearest prototype", "rung": "paper"}
            mine.append(curve("p_leak", own, floor=(floor,) * 4, **by, **ends))
            by = {"by": "unmix", "rung": "method", "rounds": (300,), "floor": (floor,)}
            mine.append(curve("p_leak", (real,), **by))
            mine.append(curve("prototype_mean_cosine", (0.1, 0.2, 0.3, 0.4)))
        out[base.key] = tuple(mine)
    return out


def clients() -> dict[str, tuple[Clients, ...]]:
    """By the worst case: the first clients always, the next half of the time, the last never; the
    very last was not attacked.
    """
    out = {}
    for base, _, _, real, _ in SETTINGS:
        if real is not None:
            hit = round(real * CLIENTS)
            shares = [1.0] * hit + [0.5] * min(2, CLIENTS - hit) + [0.0] * max(CLIENTS - hit - 2, 0)
            found = Clients(metric="p_leak", probe=False, shares=(*shares[:-1], None))
            out[base.key] = (found,)
    return out


def maps(data: ReportData) -> list[Any]:
    """Of the third setting: places on a circle, the first client's guess missing, and everybody
    named client 0 by its own paper.
    """
    at = [s.id for s in data.settings if s.key == SETTINGS[2][0].key]
    own = {"setting": at[0], "why": "the widest gap"} if at else {}
    around = tuple((float(np.cos(i)), float(np.sin(i))) for i in range(CLIENTS))
    moved = tuple((x + 0.1, y) for x, y in around)
    near = {"by": "nearest prototype", "rung": "paper"}
    unmix = {"by": "unmix", "rung": "method", "failed": 1}
    everybody = tuple((i, 0, 1.0) for i in range(CLIENTS))
    right = tuple((i, i, 1.0) for i in range(1, CLIENTS))
    found: list[Any] = []
    if own:
        found = [
            Naming(**own, **near, clients=CLIENTS, named=everybody),
            Naming(**own, **unmix, clients=CLIENTS, named=right),
            Embedding(
                **own,
                by="unmix",
                seed=0,
                clients=tuple(range(CLIENTS)),
                true=around,
                shared=moved,
                recovered=(None, *around[1:]),
                right=17.0,
                tried=CLIENTS,
            ),
        ]
    held = tuple(tuple(int(k == c // 2) * 9 for k in range(10)) for c in range(CLIENTS))
    return [*found, Split(task="digit-pairs", counts=held)]
