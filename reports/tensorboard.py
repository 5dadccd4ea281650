"""Utility and leakage over the rounds for TensorBoard, and what else reads its event files.

One folder a setting below `tensorboard`, so that its curves lie over those of the others:

    tensorboard --logdir report/tensorboard

The same folders go to Weights & Biases by `wandb sync`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from leakbench.base import UsageError
from leakbench.reporting import Curve, Report, ReportData, ShownSetting
from leakbench.results import ANY, END
from leakbench.words import short

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

EVENTS = "events.out.tfevents.0.leakbench"  # in place of the time, the machine and the process


class Tensorboard(Report):
    """A value with its interval and blind guess by round, the worst case, verdicts as text."""

    def write(self, data: ReportData, out: Path) -> list[Path]:
        """One file a setting.

        Raises:
            UsageError: the package tensorboard is not installed, or the folder cannot be written.
        """
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise UsageError(
                "the format tensorboard needs the package tensorboard:"
                " pip install 'leakbench[boards]'."
            ) from error
        told = [_file_name(f"{setting.task} {setting.name}") for setting in data.settings]
        for old in (out / "tensorboard").glob(f"*/{EVENTS}"):
            old.unlink()  # of settings that an earlier report had and this one has not
        written = []
        for name, setting in zip(told, data.settings, strict=True):
            own = name if told.count(name) == 1 else f"{name}_{setting.id}"
            folder = out / "tensorboard" / own
            for old in folder.glob("events.out.tfevents.*"):
                old.unlink()  # an earlier report's: its lines would be drawn as well
            with closing(SummaryWriter(str(folder))) as board:
                _tell(board, data, setting)
            (made,) = folder.glob("events.out.tfevents.*")
            written.append(made.rename(folder / EVENTS))
        return written


def _tell(board: SummaryWriter, data: ReportData, setting: ShownSetting) -> None:
    for tag, step, value in _scalars(setting):
        if math.isfinite(value):
            board.add_scalar(tag, value, step, walltime=step)
    for question in data.questions:
        for judged in question.judged:
            if judged.setting.id == setting.id:
                text = f"**{short(judged.evidence, judged.verdict)}.** {judged.sentence}"
                board.add_text(f"verdict: {question.label}", text, walltime=0)


def _scalars(setting: ShownSetting) -> Iterator[tuple[str, int, float]]:
    """Tag, round and value of every point."""
    for curve in setting.curves:
        columns = {"": curve.value, " low": curve.low, " high": curve.high, " floor": curve.floor}
        for what, values in columns.items():
            for step, value in zip(curve.rounds, values, strict=False):
                yield f"{_tag(curve)}{what}", step, value
    for n in setting.numbers:
        if n.attacker.name == ANY and n.stage in END:
            tag = f"{n.metric}{', on probes' * n.probe}/worst case"
            for what, value in (
                ("", n.value.value),
                (" low", n.value.low),
                (" high", n.value.high),
            ):
                yield f"{tag}{what}", n.round, value


def _tag(curve: Curve) -> str:
    return f"{curve.name}{', on probes' * curve.probe}/{curve.by or 'of the run'}"


def _file_name(text: str) -> str:
    return re.sub(r"[^\w.=,+-]+", "_", text).strip("_")[:120]
