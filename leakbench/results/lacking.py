"""Every number that a reader would look for and that is not there, with the reason."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from leakbench.base.errors import BrokenFile, UnknownName
from leakbench.base.meaning import Meaning
from leakbench.base.spec import canonical
from leakbench.record.folders import Folder, Run
from leakbench.results.number import END, Measured, Missing
from leakbench.results.settings import Setting

NOT_RUN = "it would fit but was not run: leakbench attack"
NONE_RUN = "no attack was run: leakbench attack"
NO_END = "no number of the end of training"


class Lacking:
    """Collects ``missing``, each line once.

    Args:
        fitting: run -> names of the attacks that fit what it shared.
        unfit: run -> {attack: why it does not fit}.
    """

    def __init__(
        self,
        fitting: Callable[[Run], Iterable[str]] | None,
        unfit: Callable[[Run], Mapping[str, str]] | None,
    ) -> None:
        self._fitting, self._unfit = fitting, unfit
        self.missing: list[Missing] = []
        # Those that could be the same line: of many settings each is compared with few.
        self._alike: dict[tuple[str, str, str, str, bool], list[Missing]] = defaultdict(list)
        self._meanings: dict[tuple[str, str], Meaning] = {}

    def add(
        self, setting: Setting, attack: str, metric: str, reason: str, *, fits: bool = True
    ) -> None:
        """A line; the table has no column for wrappers, so the reason names them."""
        wrappers = setting.configuration.wrappers
        under = "" if not wrappers else f" [under the wrappers {canonical(wrappers)}]"
        line = Missing(
            configuration=setting.configuration,
            attack=attack,
            metric=metric,
            reason=reason + under,
            fits=fits,
            meaning=self._meanings.get((attack, metric)),
        )
        alike = self._alike[setting.key, attack, metric, line.reason, fits]
        if line not in alike:
            alike.append(line)
            self.missing.append(line)

    def not_there(self, setting: Setting) -> None:
        """Runs and attacks that failed, what they left out, and attacks that fit but did not run.

        The same reason in several seeds is one line, which names them unless they are all.
        """
        seeds: dict[tuple[str, str, str, bool], set[int]] = defaultdict(set)
        for run in setting.others:
            seeds["", "", _why(run), True].add(run.seed)
        for run in setting.runs:
            unfit = self._unfit(run) if self._unfit else {}
            for lack in self._of_run(run, unfit):
                seeds[*lack, lack[0] not in unfit or lack[2] != unfit[lack[0]]].add(run.seed)
        every = {r.seed for r in (*setting.runs, *setting.others)}
        for (attack, metric, reason, fits), own in seeds.items():
            some = "" if own == every else f" (seed {', '.join(map(str, sorted(own)))})"
            self.add(setting, attack, metric, reason + some, fits=fits)

    def not_at_the_end(self, setting: Setting, measured: Iterable[Measured]) -> None:
        """Attacks that gave numbers of earlier stages and none of the end.

        A reader would take what was found before for what is found at last.
        """
        stages: dict[tuple[str, str], dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for m in measured:
            stages[m.attacker.key][m.run.seed].add(m.stage)
        for (attack, params), by_seed in stages.items():
            earlier = {s: at - {"curve"} for s, at in by_seed.items() if not at & {*END}}
            lacking = sorted(s for s, at in earlier.items() if at)
            if lacking:
                found = sorted(set[str]().union(*earlier.values()))
                seeds = f" (seed {', '.join(map(str, lacking))})"
                reason = (
                    f"{NO_END}{_given(params)}{seeds * (len(lacking) < len(by_seed))}, only"
                    f" {' and '.join(found)}: there nothing was sent that it can read, or the"
                    " record does not hold it (train with --record all)"
                )
                self.add(setting, attack, "", reason)

    def _of_run(self, run: Run, unfit: Mapping[str, str]) -> Iterable[tuple[str, str, str]]:
        left_out = run.meta.get("missing", [])
        yield from ((m["attack"], m["metric"], m["reason"]) for m in left_out)
        folders = run.attacks
        for folder in folders:
            if not folder.done:
                yield folder.name, "", _why(folder)
            for metric, about in folder.meta.get("metrics", {}).items():
                self._meanings[folder.name, metric] = _meaning(folder, metric, about)
            for m in folder.meta.get("missing", []):
                yield folder.name, m["metric"], m["reason"]
        tried = {f.name for f in folders} | {m["attack"] for m in left_out if not m["metric"]}
        if self._fitting is not None:
            try:
                fit = tuple(self._fitting(run))
            except UnknownName as error:
                fit = ()
                yield "", "", f"which attacks would fit cannot be told here: {error}"
            for name in fit:
                if name not in tried:
                    yield name, "", NOT_RUN
        elif not folders:
            yield "", "", NONE_RUN
        for name, why in unfit.items():
            if name not in tried:
                yield name, "", why


def _meaning(folder: Folder, metric: str, about: object) -> Meaning:
    try:
        return Meaning.recorded(metric, about)
    except ValueError as error:
        where = folder.path / "attack.json"
        raise BrokenFile(f"{where} is damaged ({error}). Make it again.") from None


def _given(params: str) -> str:
    """As in " with source=update"; the attack's seed tells no two of its readings apart."""
    told = [f"{k}={v}" for k, v in json.loads(params).items() if k != "seed"]
    return f" with {', '.join(told)}" if told else ""


def _why(folder: Folder) -> str:
    """Why a run or an attack gave no number."""
    if folder.status == "guessed":
        return "guessed but not scored: leakbench score, where the run has its truth"
    if folder.status.startswith("failed"):
        return folder.status
    return f"not finished (status {folder.status}): run the same command again"
