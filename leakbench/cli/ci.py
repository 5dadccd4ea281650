"""ci: what a build runs. Makes the runs of a SPEC.toml where they are missing, and checks them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakbench.base.errors import PartFailed, UsageError, suggestion
from leakbench.base.executors import Executor
from leakbench.cli import check, commands, keys, options
from leakbench.cli.check import Asked
from leakbench.cli.console import Console

if TYPE_CHECKING:
    from leakbench.base.reason import Reason
    from leakbench.gate.terms import Terms

NONE = "none"  # baseline = "none": limits alone
USUAL = "leakage.json"
# The keys of the table [ci], and what each is.
KEYS: dict[str, tuple[type, str]] = {
    "baseline": (str, 'a file, or "none"'),
    "limits": (list, 'a list, as in ["METRIC<=0.2"]'),
    "gate": (list, "a list of rows"),
    "looks": (list, "a list of numbers of seeds, as in [5, 8, 12]"),
    "spend": (int, "a whole number from 0 on"),
    "undecided": (str, '"fail" or "warn"'),
    "allow_new": (bool, "true or false"),
}


def run_ci(
    path: Path,
    asked: Asked,
    *,
    seeds: str | None = None,
    device: str,
    executor: Executor,
    out: Path,
    console: Console,
) -> int:
    """Train, attack, check; or write the baseline.

    1 comes before 4: what leaks more does, whatever else failed. 4 comes before 3: a run that
    failed is what cannot be told.
    """
    from leakbench.base.provenance import committed
    from leakbench.base.reason import reason
    from leakbench.work.wanted_run import wanted_runs

    plan = options.read_spec(path)
    if not plan.defenses:
        raise UsageError(f"{path} names no method; add a [[defense]] table with a name.")
    asked = settled(asked, plan.ci, path, plan.seeds)
    if seeds is not None:
        plan.seeds = keys.seeds(seeds)
    wanted = wanted_runs(plan.specs())
    from leakbench.work import build  # with torch, when every name is known

    do = partial(check.do_jobs, executor=executor, console=console)
    made = build.make(wanted, out, executor.device(device), do=do, say=console.say)
    if not asked.update:
        # Whoever sends a pull request could have sent the runs that it is judged by.
        came = (reason("runs_committed", out=str(out)),) * committed(out)
        asked = replace(asked, less=(*asked.less, *came))
        return check.checked(made, asked, executor=executor, console=console)
    if made.failed:
        commands.jobs_exit_code(made.failed, console)
        console.warn("leakbench: the baseline was not written, for it would lack what failed.")
        return PartFailed.exit_code
    return check.update(made.runs, asked, console)


def settled(asked: Asked, table: Mapping[str, Any], path: Path, seeds: Sequence[int] = ()) -> Asked:
    """What is asked for by the options, and where they are silent by the table [ci] of ``path``.

    The limits and rows of both count. A baseline in the table, and leakage.json where none is
    named, lie below the SPEC's folder. With `--update` the table's limits are not written into the
    baseline's own: they stand in the SPEC. ``seeds``: the SPEC's.

    Raises:
        UsageError: a key is unknown or its value is not what it should be; options exclude each
            other; there is no baseline yet, or it lies elsewhere.
    """
    given = _checked(table, path)
    asked.refuse()
    baseline = asked.baseline
    if baseline is None and given.get("baseline") != NONE:
        baseline = _below(path, given.get("baseline", USUAL))
    asked = replace(
        asked, spec=path, baseline=baseline, named=(*given.get("gate", ()), *asked.named)
    )
    terms = _terms(given, path, seeds)
    asked = replace(asked, terms=terms, less=_left(terms, path))
    if asked.update:
        asked = replace(asked, looks=asked.looks or tuple(given.get("looks", ())))
        asked.refuse()
        return asked
    asked = replace(
        asked,
        limits=(*given.get("limits", ()), *asked.limits),
        allow_new=asked.allow_new or given.get("allow_new", False),
        undecided=given.get("undecided") if asked.undecided is None else asked.undecided,
        spend=given.get("spend") if asked.spend is None else asked.spend,
    )
    asked.refuse()
    if baseline is None and not asked.limits:
        raise UsageError(
            f'{path}: baseline = "none" leaves nothing to check. Add limits to [ci], for example'
            ' limits = ["METRIC<=0.2"].'
        )
    if baseline is not None and not baseline.exists():
        raise UsageError(
            f"{baseline} does not exist. Write it with leakbench ci {path} --update, review and"
            " commit it."
        )
    return asked


def _terms(given: Mapping[str, Any], path: Path, seeds: Sequence[int]) -> Terms:
    """What the table asks for, and the SPEC's seeds."""
    from leakbench.gate.terms import Terms

    known = {key: given[key] for key in Terms.model_fields if key in given}
    about = {"spec": path.name, "seeds": tuple(seeds), "baseline": given.get("baseline", USUAL)}
    return Terms.build({**known, **about}, f"{path}, ci")


def _left(terms: Terms, path: Path) -> tuple[Reason, ...]:
    """In what a SPEC that names another baseline is held to less than by the usual one beside it.

    Raises:
        BrokenFile: that is damaged.
    """
    from leakbench.gate import baseline
    from leakbench.gate.terms import Terms, softer

    usual = path.parent / USUAL
    if terms.baseline == USUAL or not usual.exists():
        return ()
    noted = baseline.load_baseline(usual).terms or Terms(spec=terms.spec, baseline=USUAL)
    return softer(terms, noted) if noted.spec == terms.spec else ()


def _below(path: Path, name: str) -> Path:
    """The baseline that a SPEC names: a stranger's may not have other files read, or written over.

    Raises:
        UsageError: it, or the units beside it, lies outside the SPEC's folder.
    """
    found, root = path.parent / name, path.parent.resolve()
    for one in (found, found.with_name(f"{found.stem}.units.json")):
        try:
            inside = one.resolve().is_relative_to(root)
        except (OSError, RuntimeError, ValueError):  # links in a circle, a name that is none
            inside = False
        if not inside:
            raise UsageError(
                f"{path}, ci: baseline = {name!r} leads out of the SPEC's folder. Name a file in"
                " it, or give one elsewhere with --baseline."
            )
    return found


def _checked(table: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    for key, value in table.items():
        if key not in KEYS:
            raise UsageError(f"{path}, ci: unknown key {key!r}.{suggestion(key, KEYS)}")
        kind, what = KEYS[key]
        right = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
        if right and kind is list:
            of = int if key == "looks" else str
            right = all(isinstance(v, of) and not isinstance(v, bool) for v in value)
        if not right or (kind is int and value < 0):
            raise UsageError(f"{path}, ci: {key} = {value!r}: expected {what}.")
    return table
