"""What every format says in the same words.

Numbers with their intervals, attacks, notes, a setting in one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from leakbench.base import Meaning
from leakbench.judging import Judged, real
from leakbench.reporting import Picture
from leakbench.results import ANY, CASCADE, Claim, Number, Setting, Utility, when
from leakbench.statistics import Estimate
from leakbench.words import ORACLES, short

# In the order in which the files list them.
FLAGS = {
    "control_failed": "with nothing defended its interval does not leave the blind guess's",
    "dead_run": "dead run",
    "undertrained": "undertrained: still learning fast when its training ended",
    "curve_unknown": "trained to its end or not: its utility was measured too seldom to tell",
    "one_seed": "one seed: how training runs differ is not covered",
    "few_seeds": "two seeds",
    "few_units": "few units: rare leaks can be missed",
    "failed_units": "the attack failed on some units; they count as blind guesses",
    **{flag: f"the attack was given the {what}" for flag, what in ORACLES.items()},
    "probe": "probe: a message nobody sends",
    "loss_did_not_fall": "the attack's loss did not fall",
    "gradient_vanished": "the update is almost zero, or little of it was sent",
    "below_class_mean": "no better than the class mean",
    "restarts_disagree": "restarts disagree",
    "other_engine": "seeds ran on different engines",
    "stand_in_data": "stand-in data",
    "unofficial_data": "unofficial data: not the files of the official set",
    "outside": "trained elsewhere: recorded as its owner told it",
    "mixed_code": "begun by other code or on other data, and resumed on request",
    "stale_run": "trained by other code than what is installed",
    "stale_attack": "attacked or scored by other code than what is installed: attack it again",
    "isolated": "guessed by a process that had nothing but what the attack may read",
    "submitted": "guessed elsewhere and handed in",
    "weaker_observer": (
        "its owner declared a weaker observer than the server: it may accuse, not acquit"
    ),
    "no_control": "never tried with nothing defended: it may accuse, not acquit",
}
RUNGS = {
    "paper": "the paper's own",
    "transcript": "reads the record",
    "method": "knows the method",
    "public": "has public data",
}
ATTACKS = {CASCADE: "best real attacker (cascade)", ANY: "worst case (any attack)"}
STAGES = {
    "before": "before the first round",
    "after": "after the last round",
    "untrained": "before training",
    "early": "early",
    "middle": "half way",
    "final": "at the end",
    "all": "all rounds",
}
PROBE = (
    "A probe is an update from a single example, made for this audit: nobody sends it. It says what"
    " one example would give away, and gives no verdict on the messages that are really sent."
)
NOT_RECORDED = "no command recorded: made in Python, or elsewhere"


def flag_notes(flags: Iterable[str]) -> list[str]:
    """Each flag in words."""
    given = set(flags)
    known = [text for flag, text in FLAGS.items() if flag in given]
    return [*known, *sorted(given - FLAGS.keys())]


def notes(flags: Iterable[str]) -> str:
    """Flags in words, on one line."""
    return "; ".join(flag_notes(flags)) or "nothing to note"


def attack(name: str) -> str:
    """An attack's name in words."""
    return ATTACKS.get(name, name.replace("_", " "))


def command(number: Number) -> str:
    """What makes a number again."""
    if number.attacker.made:
        return "made from the attacks' units: leakbench report"
    return number.command or NOT_RECORDED


def about(meaning: Meaning) -> str:
    """A metric in a sentence."""
    return meaning.about or f"{meaning.heading}: defined by the plugin that measures it."


def bare(meaning: Meaning, value: float) -> str:
    """Without its unit."""
    return meaning.text(value).removesuffix(meaning.suffix)


def interval(meaning: Meaning, e: Estimate) -> str:
    """As in "0.94 (0.90 to 0.97)", the unit once."""
    value, low, high = (bare(meaning, v) for v in (e.value, e.low, e.high))
    return f"{value} ({low} to {high}){meaning.suffix}"


def span(meaning: Meaning, e: Estimate) -> str:
    """As in "0.90 to 0.97"; an interval without width was not sampled."""
    return "exact" if e.low == e.high else f"{bare(meaning, e.low)} to {meaning.text(e.high)}"


def reach(meaning: Meaning, values: Iterable[float]) -> str:
    """From the lowest to the highest, as in "0.88 to 0.93"."""
    found = list(values)
    low, high = meaning.text(min(found)), meaning.text(max(found))
    return low if low == high else f"{low.removesuffix(meaning.suffix)} to {high}"


def number(n: Number | None) -> str:
    """With its interval, or that there is none."""
    return "not run" if n is None else interval(n.meaning, n.value)


def utility(u: Utility | None) -> str:
    """As in "0.905 (0.885 to 0.925)"."""
    return "not measured" if u is None else interval(u.meaning, u.value)


def claim(meaning: Meaning, found: Claim) -> str:
    """A paper's number with its source."""
    return f"{meaning.text(found.value)} ({found.source})"


def claimed(setting: Setting, metric: str, stage: str = "final") -> Number | None:
    """The setting's number in a metric that has its paper's beside it, the strongest attacker's."""
    found = [n for n in setting.numbers if n.metric == metric and when(n.stage) == stage]
    return next((n for n in reversed(found) if n.claim), None)


def lacking(judged: Judged) -> str:
    """Why there is no number, in a few words; "" where there is one."""
    told = {1: f"sends no {judged.evidence.kind}", 2: judged.verdict.word}
    return told.get(judged.verdict.rule, "")


@dataclass(frozen=True)
class Summary:
    """A setting on one question, a line in a table: never empty, a dash or a bare zero."""

    name: str
    utility: str
    paper: str
    real: str
    worst: str
    verdict: str


def summary(judged: Judged) -> Summary:
    """The numbers of a verdict with their intervals, or the reason why there are none."""
    setting, verdict, none = judged.setting, judged.verdict, lacking(judged)
    marks = " (reference)" * setting.reference + " (dead)" * setting.dead
    return Summary(
        name=setting.name + marks,
        utility=utility(setting.final),
        paper=none or number(verdict.paper),
        real=none or number(real(judged)),
        worst=none or number(verdict.worst),
        verdict=short(judged.evidence, judged.verdict),
    )


def under(picture: Picture | None) -> str:
    """What stands under a picture."""
    if picture is None:
        return "not kept"
    if picture.sha256 is None:
        return "attack failed"
    if picture.role == "original":  # the example's row in the task's data stays in longer texts
        return " ".join(picture.unit.split("/")[:2])
    if picture.sound is not None:
        return "not measured" if picture.off is None else f"{picture.off:.0f} dB off"
    return "PSNR not measured" if picture.psnr is None else f"{picture.psnr:.0f} dB"


def several(names: Sequence[str], most: int) -> str:
    """As in "a, b and 3 more"."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def megabytes(count: float) -> str:
    """Bytes for people."""
    if count < 1000:
        return f"{count:.0f} bytes"
    for unit in ("KB", "MB"):
        count /= 1000
        if count < 1000:
            return f"{count:.1f} {unit}"
    return f"{count / 1000:.1f} GB"
