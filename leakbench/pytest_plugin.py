"""A fixture for pytest: a project's own tests fail where its method leaks more.

    def test_leakage(leakage):
        leakage.check("runs", baseline="leakage.json", limits=["p_leak<=0.2"])

pytest imports this module in every session, so that it imports nothing heavy before it is used.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import pytest

if TYPE_CHECKING:
    from leakbench.gate.outcome import CheckResult
    from leakbench.record.folders import Run
    from leakbench.results.settings import Setting

Undecided = Literal["fail", "skip", "warn"]
KNOWN = ("fail", "skip", "warn")


class LeakageWarning(UserWarning):
    """Whether something leaks more cannot be told, and the test asked to be warned alone."""


class Leakage:
    """What the fixture ``leakage`` is: `leakbench check` as an assertion.

    A path that is not absolute begins at the root of the tests, where pytest has its configuration.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def check(
        self,
        runs: str | Path | Run | Iterable[str | Path | Run],
        *,
        baseline: str | Path | None = None,
        limits: Sequence[str] = (),
        named: Sequence[str] = (),
        allow_new: bool = False,
        undecided: Undecided = "fail",
    ) -> CheckResult:
        """Fail the test where these runs leak more than the baseline, or more than a limit.

        Args:
            runs: folders of runs, or runs.
            baseline: the committed file; None: leakage.json, which need not be there where limits
                are given.
            limits: such as "p_leak<=0.2", beside those in the baseline.
            named: names or patterns (`*`) of rows that are gated, too.
            allow_new: rows that the baseline does not have are fine.
            undecided: what a check that cannot tell does: "fail", "skip", or "warn" with a
                ``LeakageWarning``.

        Returns:
            What was found, where nothing leaks more.
        """
        __tracebackhide__ = True
        known = _choice(undecided)
        committed = self._committed(baseline, limits)
        asked = {"baseline": committed, "limits": limits, "named": named, "allow_new": allow_new}
        result, settings = _asked(self._runs(runs), asked)
        return _judged(result, settings, committed, known)

    def ci(
        self,
        specs: Iterable[Mapping[str, Any]],
        *,
        baseline: str | Path | None = None,
        limits: Sequence[str] = (),
        out: str | Path = "runs",
        undecided: Undecided = "fail",
        **asked: Any,
    ) -> CheckResult:
        """Make what is missing of these runs, and fail the test as `check` does.

        Args:
            specs: the runs, as ``leakbench.ci`` takes them.
            baseline: as for `check`.
            limits: as for `check`.
            out: the folder of run folders.
            undecided: as for `check`.
            asked: what else ``leakbench.ci`` takes: named, allow_new, spend, device, jobs.

        Returns:
            What was found, where nothing leaks more.
        """
        __tracebackhide__ = True
        from leakbench import api
        from leakbench.base.errors import LeakbenchError

        known, path = _choice(undecided), self._committed(baseline, limits)
        try:
            result = api.ci(specs, baseline=path, limits=limits, out=self._path(out), **asked)
        except LeakbenchError as error:
            said = str(error)
        else:
            return _judged(result, (), path, known)
        _fail(f"leakbench: {said}")

    def _runs(self, runs: str | Path | Run | Iterable[str | Path | Run]) -> list[Any]:
        alone = isinstance(runs, str | Path) or not isinstance(runs, Iterable)
        found: Any = [runs] if alone else runs
        return [self._path(r) if isinstance(r, str | Path) else r for r in found]

    def _committed(self, baseline: str | Path | None, limits: Sequence[str]) -> Path | None:
        """The baseline's file; None where nobody named one, none is there, and limits are given."""
        path = self._path("leakage.json" if baseline is None else baseline)
        alone = baseline is None and limits and not path.exists()
        return None if alone else path

    def _path(self, path: str | Path) -> Path:
        return self.root / path


@pytest.fixture
def leakage(request: pytest.FixtureRequest) -> Leakage:
    """`leakage.check(runs, baseline=..., limits=[...])` fails a test where runs leak more."""
    return Leakage(request.config.rootpath)


def _asked(runs: Sequence[Any], options: dict[str, Any]) -> tuple[CheckResult, tuple[Setting, ...]]:
    """What the gate says, and the settings of the runs; what the user gave wrong fails the test."""
    __tracebackhide__ = True
    from leakbench import api
    from leakbench.base.errors import LeakbenchError
    from leakbench.record import folders

    try:
        found: list[Run] = []
        for run in runs:
            found += folders.find([run]) if isinstance(run, Path) else [run]
        tables = api.tables(found)
        return api.check(tables, **options), tables.settings
    except LeakbenchError as error:
        said = str(error)
    _fail(f"leakbench: {said}")


def _judged(
    result: CheckResult, settings: Sequence[Setting], baseline: Path | None, undecided: Undecided
) -> CheckResult:
    """The result where it is fine; else the test ends with what is not."""
    __tracebackhide__ = True
    from leakbench.gate.outcome import CANNOT_TELL, FINE
    from leakbench.reporting.check import check_of
    from leakbench.reporting.check_lines import text_lines

    if result.exit_code == FINE:
        return result
    check = check_of(result, settings, baseline)
    text = "\n".join([*text_lines(check), check.heading])
    if result.exit_code != CANNOT_TELL or undecided == "fail":
        _fail(text)
    if undecided == "skip":
        pytest.skip(text)
    warnings.warn(text, LeakageWarning, stacklevel=3)
    return result


def _choice(undecided: Undecided) -> Undecided:
    __tracebackhide__ = True
    if undecided not in KNOWN:
        _fail(f"undecided: expected one of {', '.join(KNOWN)}, got {undecided!r}.")
    return undecided


def _fail(text: str) -> NoReturn:
    """Without a traceback: what is said is all there is to know."""
    __tracebackhide__ = True
    pytest.fail(text, pytrace=False)
