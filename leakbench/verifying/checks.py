"""verify: derive again what a run folder claims, and say what was checked and what cannot be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from leakbench.base.errors import BrokenFile, LeakbenchError, UsageError
from leakbench.base.jobs import Progress
from leakbench.base.reason_words import reason_text
from leakbench.federation.utility import METRICS
from leakbench.record.columns import RUN_UTILITY
from leakbench.record.folders import Run, typed_rows
from leakbench.record.training import utility_rows
from leakbench.results import recomputed, utility
from leakbench.verifying import same
from leakbench.verifying.attacks import of_attacks
from leakbench.verifying.data import of_task
from leakbench.verifying.final import SCORES, WHAT, evaluated_again, federation
from leakbench.verifying.finding import Finding, differs, holds, unchecked
from leakbench.verifying.replay import beyond, replayed
from leakbench.verifying.run_keys import of_run_json

FACTS = "fingerprint, facts, stages and traffic"
# What no reader of a folder can know.
BEYOND = (
    (
        "run.json",
        "who made it",
        "a digest is no signature: who edits a folder can write its digests, too; compare it with a"
        " digest that was published, or train it again with --replay",
    ),
    (
        "attacks",
        "that each guess was made by its attack",
        "leakbench attack --force makes the guesses again",
    ),
)


def verify(
    run: Run, *, replay: int = 0, progress: Progress = lambda *_: None
) -> tuple[Finding, ...]:
    """Everything that can be derived again from the folder of a complete ``run``.

    Digests, the fingerprint and facts, utility from its scores, the data from the task, results
    from unit scores, and these from guesses and truth.

    Args:
        run: of a folder; nothing is written to it.
        replay: so many of the first rounds are trained again and compared byte for byte; from all
            of them on, the final model and utility, too.
        progress: called with (rounds done, rounds, what).

    Raises:
        UsageError: the run is not complete, or ``replay`` is negative.
    """
    if not run.done:
        raise UsageError(f"{run.path} is not complete (status: {run.status}). Train it first.")
    if replay < 0:
        raise UsageError(f"--replay {replay}: expected the number of rounds to train again.")
    again = cache(lambda: federation(run))
    found = [*_guarded("files", "SHA-256 of every file", lambda: _files(run))]
    found += _guarded("run.json", FACTS, lambda: _facts(run))
    found += _guarded("run.json", "its keys", lambda: of_run_json(run, again))
    found += _guarded("utility.csv", "utility from its scores", lambda: _utility(run))
    found += _guarded(SCORES, WHAT, lambda: evaluated_again(run, again))
    found += _guarded("data", "the task's data, loaded again", lambda: of_task(run))
    found += _guarded("attacks", "their numbers", lambda: of_attacks(run))
    if replay:
        what = f"the first {replay} rounds, trained again"
        found += _guarded("rounds", what, lambda: replayed(run, replay, progress))
    found += beyond(run, replay)
    return (*found, *(unchecked(*text) for text in BEYOND))


def _guarded(part: str, what: str, check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    """What a check finds; what it stumbles over is a finding, and the other checks go on."""
    found: list[Finding] = []
    try:
        found.extend(check())
    except BrokenFile as error:
        found.append(differs(part, what, str(error)))
    except LeakbenchError as error:
        found.append(unchecked(part, what, str(error)))
    return found


def _files(run: Run) -> Iterator[Finding]:
    run.check()
    yield holds("files", "SHA-256 of every file", f"{len(run.meta['files'])} files, and no other")


def _facts(run: Run) -> Iterator[Finding]:
    recomputed.check_run(run)
    yield holds("run.json", FACTS, "as its spec, its files and the installed code have it")


def _utility(run: Run) -> Iterator[Finding]:
    tree, head = run.tree(SCORES)
    metric, scores = run.meta["utility"]["metric"], {int(t): v for t, v in tree.items()}
    if head != {"metric": metric}:
        yield differs(SCORES, "the metric", f"its header says {head}, run.json {metric}")
    if metric not in METRICS:
        why = f"the utility metric {metric} is not installed here"
        yield unchecked("utility.csv", "utility from its scores", why)
        return
    made = typed_rows(utility_rows(metric, scores), RUN_UTILITY)
    why = same.differing_tables(run.table("utility.csv", RUN_UTILITY), made)
    told = differs if why else holds
    yield told("utility.csv", "utility from its scores", why or f"{len(made)} evaluations")
    dead = utility.utility_of_run(run).dead
    yield holds(
        "utility.csv",
        "whether the run is alive",
        f"a dead run: {reason_text(dead)}" if dead else "alive",
    )
