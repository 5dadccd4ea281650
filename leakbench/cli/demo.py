"""demo: the whole of leakbench on data that comes with scikit-learn.

It takes about three minutes on two cores.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from leakbench.base.executors import Executor
from leakbench.cli import commands, summary
from leakbench.cli.check import do_jobs
from leakbench.cli.console import Console, emit
from leakbench.record.policy import Policy
from leakbench.record.runspec import RunSpec, make_spec
from leakbench.work.wanted_run import WantedRun

JOBS = 2
# The same noise as FedGN's, put on another method's messages.
HIDDEN = {"kinds": ["prototype"], "clip": 1.0, "noise": 0.3}
NOISY = {"kinds": ["update"], "clip": 0.05, "noise": 0.1}

# Prototypes: what is gained, and what the paper's own measure says is given away.
PAIRS: tuple[dict[str, Any], ...] = (
    {"defense": "fedaws"},
    {"defense": "fedgn", "params": {"sigma": 0.1}},
    {"defense": "fedgn", "params": {"sigma": 0.3}},
    {"defense": "fedcs", "params": {"cos_theta": 0.5}},
    {"defense": "fedcs", "params": {"cos_theta": 0.2}},
    {"defense": "fedhide", "params": {"alpha": 0.1, "k": 5}},
    {"defense": "fedhide", "params": {"alpha": 0.1, "k": 5}, "wrappers": [("clip_noise", HIDDEN)]},
)
# Updates: what can be read out of a single image's gradient.
DIGITS: tuple[dict[str, Any], ...] = (
    {"defense": "fedaws"},
    {"defense": "fedgn", "params": {"sigma": 1.0}},
    {"defense": "fedaws", "wrappers": [("clip_noise", NOISY)]},
)
# Of single tiny images through a smooth net: there L-BFGS is exact, and takes a third of the time.
INVERSION = {"targets": 8, "at": ["final"], "engine": "lbfgs", "restarts": 2, "steps": 120}
# And of noised ones by who reckons with the noise.
LIKELIEST = {**INVERSION, "engine": "auto", "prior": "principal"}


def specs() -> list[RunSpec]:
    """Ten runs, one seed each: modest on purpose, and the report says so."""
    leakage = [
        ("prototype_leakage", {}),
        ("prototype_leakage", {"candidates": "public"}),
        ("prototype_averaging", {}),
        ("prototype_from_update", {}),
    ]
    inversion = [("gradient_inversion", {**INVERSION, "attacker": a}) for a in ("naive", "joint")]
    # What is not attacked need not fill the disk.
    few, none = (Policy(probes=1, audited=8), Policy(probes=0, audited=1))
    unmixing: tuple[str, dict[str, Any]] = ("prototype_unmixing", {})
    pairs = []
    for s in PAIRS:
        attacks = [*leakage, unmixing] if s["defense"] == "fedhide" else leakage
        pairs.append(make_spec(task="digit-pairs", attacks=attacks, record=none, **s))
    digits = []
    for s in DIGITS:
        noised = [("gradient_inversion", LIKELIEST)] if "wrappers" in s else []
        attacks = [*inversion, *noised]
        digits.append(make_spec(task="digits", rounds=150, attacks=attacks, record=few, **s))
    return pairs + digits


def run_demo(out: Path, console: Console) -> int:
    """Train, attack, report; prints the table and where the page is."""
    from leakbench import api
    from leakbench.record import folders
    from leakbench.work import build

    console.say(
        f"training and attacking {len(PAIRS) + len(DIGITS)} federations on handwritten digits,"
        f" {JOBS} at a time"
    )
    do = partial(do_jobs, executor=Executor(workers=JOBS), console=console)
    wanted = [WantedRun(spec) for spec in specs()]
    made = build.make(wanted, out / "runs", "cpu", do=do, say=console.detail)
    code = commands.jobs_exit_code(made.failed, console)
    # With all attacks that are there, whoever made them.
    found = [folders.load(run.path) for run in made.runs]
    if not found:
        return code
    console.say("writing the report")
    tables = api.tables(found)
    page = api.report(tables, out / "report", title="leakbench demo") / "index.html"
    summary.tradeoff(tables)
    emit("")
    emit("One seed and few units each: a first look, not a verdict on the methods.")
    emit(f"The report: {page}")
    return code
