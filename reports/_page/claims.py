"""What runs claim of (ε, δ), beside what attacks prove of them."""

from __future__ import annotations

from dataclasses import dataclass

from leakbench.base import reason_text
from leakbench.reporting import ReportData
from leakbench.results import Privacy


@dataclass(frozen=True)
class ClaimLine:
    """One run's line; ``broken``: more is proven than is claimed, in these words."""

    setting: str  # its id
    name: str
    seed: int
    claimed: str
    proven: str
    how: str
    broken: str


def claims(data: ReportData) -> list[ClaimLine]:
    """A line for each run that claims something, or of which something is proven."""
    return [_line(s.id, s.name, p) for s in data.settings for p in s.privacy]


def _line(setting: str, name: str, p: Privacy) -> ClaimLine:
    claimed = reason_text(p.why) if p.why else f"{p.epsilon:.3g}"
    if p.epsilon is not None:
        claimed += f" at δ = {p.delta:.1g}, {p.messages} messages"
    proven = reason_text(p.unproven) if p.unproven else f"{p.proven:.3g}"
    how = ""
    if p.proven is not None:
        how = (
            f"{p.right} of {p.guesses} guesses about {p.pairs} pairs are right ({p.attack}), the"
            f" best of {p.tried} bounds"
        )
    breach = p.breach.model_copy(update={"seeds": ()})  # the line has it already
    broken = reason_text(breach) if p.broken else ""
    return ClaimLine(setting, name, p.seed, claimed, proven, how, broken)
