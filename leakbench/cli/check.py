"""check: compare runs with the baseline, spend seeds on what cannot be told, or write the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from leakbench.base.errors import UsageError
from leakbench.base.executors import Executor
from leakbench.base.jobs import Job, Outcome
from leakbench.cli import commands
from leakbench.cli.check_cases import Undecided
from leakbench.cli.check_output import CheckOutputs, show_check
from leakbench.cli.console import Console, emit, emit_json

if TYPE_CHECKING:
    from leakbench.base.reason import Reason
    from leakbench.gate.outcome import CheckResult
    from leakbench.gate.terms import Terms
    from leakbench.record.folders import Run
    from leakbench.results.settings import Setting
    from leakbench.work.wanted_run import Made

FAIL, WARN = UNDECIDED = ("fail", "warn")


@dataclass(frozen=True)
class Asked:
    """What `check` and `ci` are asked beside the runs.

    ``baseline``: its file; None: there is none, and limits alone are checked. ``undecided``,
    ``spend``: None where nothing was said. ``spec``: the SPEC.toml that made the runs, if any, and
    ``terms`` what it asks for; ``less``: in what that is less than it was, as far as the
    baseline cannot tell.
    """

    baseline: Path | None = Path("leakage.json")
    update: bool = False
    accept: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    looks: tuple[int, ...] = ()
    spec: Path | None = None
    terms: Terms | None = None
    less: tuple[Reason, ...] = ()
    allow_new: bool = False
    undecided: str | None = None
    spend: int | None = None
    outputs: CheckOutputs = field(default_factory=CheckOutputs)

    def refuse(self) -> None:
        """Options that exclude each other.

        Raises:
            UsageError: two of them were given.
        """
        if self.undecided not in (None, *UNDECIDED):
            raise UsageError(f"--undecided {self.undecided!r}: expected fail or warn.")
        if self.looks and not self.update:
            raise UsageError(
                "--looks goes with --update: the baseline says when rows are looked at."
            )
        rising = list(self.looks) == sorted(set(self.looks))
        if not rising or min(self.looks, default=2) < 2:
            raise UsageError(
                f"--looks {','.join(map(str, self.looks))}: expected rising numbers of seeds, from"
                " 2 on, for example 5,8,12,20."
            )
        if self.accept and not self.update:
            raise UsageError(
                "--accept goes with --update: it names rows that the new baseline may make worse."
            )
        if self.outputs.quiet and self.outputs.verbose:
            raise UsageError("-q and -v exclude each other: one shows less, the other more.")
        outputs = self.outputs
        checking = {
            "--spend": self.spend,
            "--allow-new": self.allow_new,
            "--undecided": self.undecided,
            "--junit": outputs.junit,
            "--summary": outputs.summary,
            "--sarif": outputs.sarif,
        }
        given = [name for name, value in checking.items() if value]
        if self.update and given:
            raise UsageError(
                f"{given[0]} and --update exclude each other: check first, then write the baseline."
            )


class Gate:
    """Checks runs as often as is asked; keeps what was read of them last, to be shown."""

    def __init__(self, asked: Asked, console: Console) -> None:
        self.asked, self.console = asked, console
        self.settings: Sequence[Setting] = ()

    def check(self, runs: Sequence[Run]) -> CheckResult:
        """Compare them with the baseline."""
        from leakbench import api
        from leakbench.results.tables import collect
        from leakbench.words.outcomes import check_in_words

        asked = self.asked
        with self.console.busy("reading runs and comparing"):
            tables = collect(runs)
            self.settings = tables.settings
            found = api.check(
                tables,
                baseline=asked.baseline,
                named=asked.named,
                limits=asked.limits,
                allow_new=asked.allow_new,
                terms=asked.terms,
            )
        less = tuple(dict.fromkeys([*asked.less, *found.less]))
        return check_in_words(replace(found, less=less))


def run_check(names: Sequence[str], asked: Asked, *, executor: Executor, console: Console) -> int:
    """`leakbench check RUN...`."""
    from leakbench.record import folders
    from leakbench.work.wanted_run import Made

    asked.refuse()
    found = folders.find(names)
    if asked.update:
        return update(found, asked, console)
    return checked(Made(tuple(found)), asked, executor=executor, console=console)


def checked(made: Made, asked: Asked, *, executor: Executor, console: Console) -> int:
    """Check, spend what may be spent, and show it."""
    from leakbench.gate.outcome import concluded
    from leakbench.reporting.check import check_of

    gate = Gate(asked, console)
    if asked.spend:
        from leakbench.work import further_seeds

        how = partial(do_jobs, executor=executor, console=console)
        result, made = further_seeds.spend(made, gate.check, asked.spend, do=how, say=console.say)
    else:
        result = concluded(gate.check(made.runs), made.failed)
    commands.jobs_exit_code(made.failed, console)  # says what failed
    undecided: Undecided = "warn" if asked.undecided == WARN else "fail"
    outputs = replace(asked.outputs, undecided=undecided)
    show_check(check_of(result, gate.settings, asked.baseline, asked.spec), outputs, console)
    return 0 if asked.undecided == WARN and result.exit_code == _cannot_tell() else result.exit_code


def update(runs: Sequence[Run], asked: Asked, console: Console) -> int:
    """Write the baseline, and say what moves in it."""
    from leakbench import api
    from leakbench.results.tables import collect

    if asked.baseline is None:
        raise UsageError("--update writes a baseline, and there is to be none: name its file.")
    with console.busy("reading runs and comparing"):
        result = api.update(
            collect(runs),
            baseline=asked.baseline,
            accept=asked.accept,
            named=asked.named,
            limits=asked.limits,
            looks=asked.looks,
            terms=asked.terms,
        )
    if asked.outputs.as_json:
        emit_json({"exit": result.exit_code, "lines": list(result.lines)})
        return result.exit_code
    for line in result.lines:
        emit(line)
    return result.exit_code


def do_jobs(todo: Sequence[Job], *, executor: Executor, console: Console) -> list[Outcome]:
    """Do the jobs, with a bar for each."""
    with console.progress(len(todo)) as tell:
        return executor.run(todo, tell=tell)


def _cannot_tell() -> int:
    from leakbench.gate.outcome import CANNOT_TELL

    return CANNOT_TELL
