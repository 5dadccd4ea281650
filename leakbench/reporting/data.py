"""What a report is, and the one value object that every report format is handed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from leakbench.base.spec import Spec
from leakbench.results.numbers import Numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from leakbench.reporting.moved import Against

Place = tuple[str, int | None, int, int]
Place2 = tuple[float, float]
Role = Literal["original", "floor", "control", "attack"]


@dataclass(frozen=True, eq=False)
class Picture:
    """One image for the page: a private original, or what somebody made of the messages.

    ``setting`` is a ``setting_key``. ``image``: (H, W) or (H, W, 3), values in [0, 1]; a pixel that
    is not finite means that the attack gave no image, and the page says so. ``psnr`` in dB against
    the original (None for the original itself). ``found``: 1.0 where the guess is nearer to its
    original than to every look-alike, None where that was not measured. ``seed``: the run's.
    """

    task: str
    setting: str
    attack: str
    attack_params: str
    unit: str
    probe: int | None
    round: int
    role: Role
    image: NDArray[Any]
    psnr: float | None = None
    found: float | None = None
    seed: int = 0

    @property
    def place(self) -> Place:
        """What was attacked, the same in every role and setting: (unit, probe, round, seed)."""
        return self.unit, self.probe, self.round, self.seed


@dataclass(frozen=True)
class Curve:
    """One number of a setting over the rounds, its seeds' mean.

    ``setting`` is a ``setting_key``. ``name``: a metric ("p_leak", "accuracy", "dcor2_corrected")
    or a diagnostic's name. ``by``: the attack and what sets it apart, in words, and ``rung`` its
    strength; empty for utility and diagnostics. All others: one number per round (an attack over
    all rounds has the last one alone); ``low`` and ``high`` are the 95 % interval (the value itself
    where there is none), ``floor`` the blind guess, empty where there is none.
    """

    setting: str
    name: str
    by: str
    rounds: tuple[int, ...]
    value: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    floor: tuple[float, ...] = ()
    rung: str = ""
    probe: bool = False


@dataclass(frozen=True)
class Clients:
    """How often each client of a setting was hit by the worst case of one metric.

    ``shares``: (clients,) by number, the mean over the client's units and the seeds of what
    `any_attack` scored there (0 or 1, ties between; a unit on which every attack failed is no hit):
    where nothing failed, the number of tradeoff.csv is the mean over all units. None: no unit of
    that client was attacked.
    """

    setting: str
    metric: str
    probe: bool
    shares: tuple[float | None, ...]


@dataclass(frozen=True)
class CheckRow:
    """One row of `leakbench check` in words and numbers.

    ``verdict``: "leaks more", "loses utility", "cannot tell", "new" or "fine". ``row``: task,
    setting and attack, as people read them; ``ref``: the name that `--accept` takes. ``difference``
    counts against the method, on the scale on which it was compared, with the one-sided 95 % limits
    ``low`` and ``high``; None where nothing could be compared. ``command``: what settles a "cannot
    tell".
    """

    verdict: str
    row: str
    ref: str
    metric: str
    old: float | None
    new: float | None
    difference: float | None
    low: float | None
    high: float | None
    margin: float | None
    why: str
    command: str = ""


@dataclass(frozen=True)
class Embedding:
    """Prototypes of one run in the plane (t-SNE of all of them together, by cosine).

    ``setting`` is a ``setting_key``. ``why``: why this setting is shown. ``by``: the attack, in
    words. ``clients``: (n,) numbers; ``true``, ``shared``, ``recovered``: (n, 2) places; None where
    the attack gave no prototype. ``left_out``: clients not shown.
    """

    setting: str
    why: str
    by: str
    seed: int
    clients: tuple[int, ...]
    true: tuple[Place2, ...]
    shared: tuple[Place2, ...]
    recovered: tuple[Place2 | None, ...]
    left_out: int = 0


@dataclass(frozen=True)
class Naming:
    """Who was named for whom by one attack, over all seeds, after the last round.

    ``named``: (owner, whom the attack's guess is nearest to, how often: ties share), by client
    number; ``failed``: units without a guess. ``clients``: how many there are.
    """

    setting: str
    why: str
    by: str
    rung: str
    clients: int
    named: tuple[tuple[int, int, float], ...]
    failed: int = 0


@dataclass(frozen=True)
class Split:
    """Who holds what: ``counts`` (clients, classes) training examples of a task's first run."""

    task: str
    counts: tuple[tuple[int, ...], ...]


Map = Embedding | Naming | Split


@dataclass(frozen=True)
class About:
    """What a method says of itself: the first paragraph of its own documentation, and its paper."""

    text: str
    paper: str = ""


@dataclass(frozen=True)
class Check:
    """What `leakbench check` said about these runs: its exit code and what has to be looked at, the
    most urgent first.

    ``lines``: one sentence each, "verdict: row: what moved", without the rows that are fine.
    ``rows``: every gated row. ``heading``: the first line, as in "Check failed (exit 1): 1 row
    leaks more, 17 fine."
    """

    exit: int
    lines: tuple[str, ...]
    against: str = ""
    heading: str = ""
    rows: tuple[CheckRow, ...] = ()


@dataclass(frozen=True, eq=False)
class ReportData(Numbers):
    """Everything a report may show: the tables, and what stands beside them.

    ``commands``: ``row_key`` or ``setting_key`` -> the shell command that makes the number again.
    ``about``: "defenses/fedhide", "wrappers/clip_noise" or "attacks/gradient_inversion" -> what it
    says of itself. ``guesses``: ``setting_key`` -> {"<run>/<attack folder>": SHA-256 of what was
    scored there}. ``made``: when, ISO 8601. ``redacted``: no private data of a client is in here.
    ``against``: what moved since another report.
    """

    title: str
    version: str
    commit: str
    dirty: bool
    made: str
    pictures: Sequence[Picture] = ()
    curves: Sequence[Curve] = ()
    clients: Sequence[Clients] = ()
    maps: Sequence[Map] = ()
    about: Mapping[str, About] = field(default_factory=dict)
    guesses: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    check: Check | None = None
    against: Against | None = None
    redacted: bool = False
    commands: Mapping[str, str] = field(default_factory=dict)


class Report(Spec, ABC):
    """A report format: the same data in, files out. A plugin's module in a reports package defines
    one.
    """

    @abstractmethod
    def write(self, data: ReportData, out: Path) -> list[Path]:
        """Write below the folder ``out`` and return the paths written.

        Raises:
            UsageError: the folder cannot be written.
        """
