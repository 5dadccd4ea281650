"""Every number that a reader would look for and that is not there, with the reason."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from leakbench.base.errors import BrokenFile, UnknownName
from leakbench.base.meaning import Meaning
from leakbench.base.reason import Reason, reason
from leakbench.base.spec import canonical
from leakbench.record.folders import Folder, Run
from leakbench.results.number import END, Measured, Missing
from leakbench.results.settings import Setting

Lack = tuple[str, str, Reason]  # attack, metric, why


class Lacking:
    """Collects ``missing``, each line once.

    Args:
        fitting: run -> (name, parameters that tell its setting) of the attacks that fit what it
            shared.
        unfit: run -> {attack: why it does not fit}.
    """

    def __init__(
        self,
        fitting: Callable[[Run], Iterable[tuple[str, Mapping[str, Any]]]] | None,
        unfit: Callable[[Run], Mapping[str, str]] | None,
    ) -> None:
        self._fitting, self._unfit = fitting, unfit
        self.missing: list[Missing] = []
        # Those that could be the same line: of many settings each is compared with few.
        self._alike: dict[tuple[str, str, str, Reason], list[Missing]] = defaultdict(list)
        self._meanings: dict[tuple[str, str], Meaning] = {}

    def add(self, setting: Setting, attack: str, metric: str, why: Reason) -> None:
        """A line."""
        line = Missing(
            configuration=setting.configuration,
            attack=attack,
            metric=metric,
            reason=why,
            meaning=self._meanings.get((attack, metric)),
        )
        alike = self._alike[setting.key, attack, metric, why]
        if line not in alike:
            alike.append(line)
            self.missing.append(line)

    def not_there(self, setting: Setting) -> None:
        """Runs and attacks that failed, what they left out, and attacks that fit but did not run.

        The same reason in several seeds is one line, which names them unless they are all.
        """
        seeds: dict[Lack, set[int]] = defaultdict(set)
        for run in setting.others:
            seeds["", "", _why(run)].add(run.seed)
        for run in setting.runs:
            for lack in self._of_run(run):
                seeds[lack].add(run.seed)
        every = {r.seed for r in (*setting.runs, *setting.others)}
        for (attack, metric, why), own in seeds.items():
            some = () if own == every else tuple(sorted(own))
            self.add(setting, attack, metric, why.model_copy(update={"seeds": some}))

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
                own = lacking if len(lacking) < len(by_seed) else []
                facts = {"params": json.loads(params), "stages": found, "seeds": own}
                self.add(setting, attack, "", reason("no_end", **facts))

    def _of_run(self, run: Run) -> Iterable[Lack]:
        left_out = run.meta.get("missing", [])
        yield from ((m["attack"], m["metric"], _recorded(m)) for m in left_out)
        folders = run.attacks
        for folder in folders:
            if not folder.done:
                yield folder.name, "", _why(folder)
            for metric, about in folder.meta.get("metrics", {}).items():
                self._meanings[folder.name, metric] = _meaning(folder, metric, about)
            for m in folder.meta.get("missing", []):
                yield folder.name, m["metric"], _recorded(m)
        tried = {f.name for f in folders} | {m["attack"] for m in left_out if not m["metric"]}
        if self._fitting is not None:
            try:
                fit = tuple(self._fitting(run))
            except UnknownName as error:
                fit = ()
                yield "", "", reason("unknown_fit", text=str(error))
            for name in dict.fromkeys(name for name, _ in fit):
                if name not in tried:
                    yield name, "", reason("not_run", params={})
            ran = [(f.name, json.loads(f.params)) for f in folders]
            for name, given in fit:
                own = [params for n, params in ran if n == name]
                if own and not any(_same(given, params) for params in own):
                    yield name, "", reason("not_run", params=given)
        elif not folders:
            yield "", "", reason("none_run")
        unfit = self._unfit(run) if self._unfit else {}
        for name, why in unfit.items():
            if name not in tried:
                yield name, "", reason("unfit", text=why)


def _same(given: Mapping[str, Any], params: Mapping[str, Any]) -> bool:
    return all(canonical(params.get(k)) == canonical(v) for k, v in given.items())


def _meaning(folder: Folder, metric: str, about: object) -> Meaning:
    try:
        return Meaning.recorded(metric, about)
    except ValueError as error:
        where = folder.path / "attack.json"
        raise BrokenFile(f"{where} is damaged ({error}). Make it again.") from None


def _recorded(line: Mapping[str, str]) -> Reason:
    """What run.json or attack.json says of something that it lacks."""
    facts = {"text": line["reason"]}
    return Reason.model_validate({"code": line.get("code", "told"), "facts": facts})


def _why(folder: Folder) -> Reason:
    """Why a run or an attack gave no number."""
    if folder.status == "guessed":
        return reason("unscored")
    if folder.failure is not None:
        return reason("failed", text=folder.failure)
    return reason("unfinished", status=folder.status)
