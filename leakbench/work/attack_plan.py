"""An attack on a run before it is made: does it fit, what of it is there, how long will it take?"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from leakbench.attacking.attack_state import Standing, standing
from leakbench.attacking.choices import ReadyAttack, planned
from leakbench.attacking.guessing import folder_of
from leakbench.base import provenance, terminal
from leakbench.base.errors import BrokenFile, LeakbenchError, UsageError
from leakbench.base.jobs import Job, Progress
from leakbench.record import folders
from leakbench.record.recording import Recording
from leakbench.work import pipeline

LEAST, STEP = 64, 1.2  # a setting is sought from this part of the time on, in such steps
LONGEST = 600.0  # seconds; an attack that nobody named gets no more


@dataclass(frozen=True)
class AttackPlan:
    """``choice`` on the run of ``recording``; ``force``, ``isolated``: as `leakbench attack`."""

    recording: Recording
    choice: ReadyAttack
    force: bool = False
    isolated: bool = False

    @cached_property
    def obstacle(self) -> str:
        """Why it does not fit; empty where it fits."""
        return self.choice.obstacle(self.recording)

    @cached_property
    def there(self) -> Standing:
        """What of it is there: nothing, too, by force, and where it is damaged: its job says so."""
        nothing = Standing(complete=False, guesses=None)
        if self.force:
            return nothing
        name, attack = self.choice.name, self.choice.attack
        try:
            return standing(self.recording, name, attack, isolated=self.isolated)
        except BrokenFile:
            return nothing

    @cached_property
    def seconds(self) -> float:
        """How long it is predicted to take; nothing where it does not fit, or is there."""
        done = self.obstacle or self.there.complete
        return 0.0 if done else float(self.choice.seconds(self.recording))

    def within(self, seconds: float) -> AttackPlan:
        """The same in so many seconds, where the attack has such a setting; else as it is."""
        if self.seconds <= seconds:
            return self
        return replace(self, choice=self.choice.within(self.recording, seconds))

    @property
    def unnamed(self) -> tuple[AttackPlan, str]:
        """What of it is made where nobody named it, and what is said of the rest."""
        less, minutes = self.within(LONGEST), f"about {self.seconds / 60:.0f} minutes"
        if less.long:
            return less, f"it would take {minutes}; name it to run it"
        if less is self:
            return less, ""
        return less, f"it would take {minutes}: made is {less.choice.title}; name it to run it all"

    @property
    def long(self) -> bool:
        """Does it take so long that it is made only where somebody named it?"""
        return self.seconds > LONGEST

    @cached_property
    def least(self) -> AttackPlan:
        """The same in the least time for which the attack has a setting, by its own word."""
        seconds = self.seconds / LEAST
        while 0 < seconds < self.seconds:
            less = self.within(seconds)
            if less is not self and less.choice != self.choice:
                return less
            seconds *= STEP
        return self

    @property
    def folder(self) -> Path:
        """Where its results lie."""
        return folder_of(self.recording, self.choice.name, self.choice.attack)

    def job(self, name: str, device: str, seconds: float = 0.0) -> Job:
        """What makes and scores it, called ``name``."""
        run, choice = str(self.recording.run.path), self.choice
        asked = (run, choice.name, choice.attack.parameters(), device, self.force, self.isolated)
        return Job(name, pipeline.attack, asked, seconds, run)


def made_within(run: Path, seconds: float, device: str, progress: Progress) -> list[str]:
    """The folders of all attacks that fit ``run``, the cheap ones first, made within ``seconds``.

    What does not fit into the time, and what fails, is said on stderr and left out.

    Raises:
        UsageError: the run is not complete, or there is no time.
    """
    if not seconds > 0:
        raise UsageError(f"minutes = {seconds / 60:g}: expected a number above 0.")
    recording = Recording(folders.load(run), provenance.device(device))
    plans = [AttackPlan(recording, choice) for choice in planned(recording)]
    plans.sort(key=lambda p: p.seconds)
    ends, made = time.monotonic() + seconds, []
    for whole in plans:
        left = ends - time.monotonic()
        plan = whole.within(left)
        title = plan.choice.title
        if plan.seconds > left:
            least = whole.least
            enough = math.ceil(least.seconds / 6) / 10  # a tenth of a minute
            terminal.say(
                f"leakbench: {title} would take about {plan.seconds / 60:.1f} minutes, and"
                f" {max(left, 0) / 60:.1f} are left: it was not run. What was made stays:"
                f" called again, minutes={enough:g} is enough for {least.choice.title}."
            )
            continue
        job = plan.job(title, device)
        try:
            made.append(pipeline.attack(*job.args, progress=progress))
        except LeakbenchError as error:
            terminal.say(f"leakbench: {error}")
    return made
