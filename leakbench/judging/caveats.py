"""What is said where a setting cannot be judged, or where a mean hides what leaks."""

from __future__ import annotations

import math

from leakbench.judging.acquittal import MOST_FAILED, SEEDS, Doubt, open_units
from leakbench.judging.evidence import Evidence
from leakbench.judging.sample_size import more_units, seeds_needed
from leakbench.judging.verdict import Verdict
from leakbench.judging.wording import amount, lacking, of_clusters, plural
from leakbench.results.number import Number
from leakbench.results.reason_words import reason_text


def too_few(evidence: Evidence, row: Number) -> str:
    """Not even a perfect attack could be told from luck; that is no weakness of the attack."""
    verb, power = evidence.meaning.does, row.power
    assert power  # noqa: S101 (few is known of no other)
    return (
        f"too few {of_clusters(row)} ({power.clusters} of {power.needed} needed) to"
        f" show that the attack works at all: it {verb}"
        f" {amount(evidence, row, row.value.value, full=True)}, with nothing defended"
        f" {amount(evidence, row, row.control.value)}; a blind guess {verb}"
        f" {amount(evidence, row, row.floor.value)}. This is not a sign of privacy."
        f" {more_units(evidence, row) or _more(power.needed - power.clusters, row)}"
    )


def _more(lacking: int, row: Number) -> str:
    each = max(row.power.clusters // max(len(row.seeds), 1), 1) if row.power else 1
    seeds = -(-lacking // each)
    return f"About {plural(seeds, 'more seed')} would bring them."


def copied(evidence: Evidence, row: Number, worst: Number) -> str:
    """Some units are as good as the original, whatever the mean, and by whatever metric."""
    verb, meaning, power = row.meaning.does, row.meaning, row.power
    assert power  # noqa: S101 (it counts them)
    assert meaning.as_good is not None  # noqa: S101
    better = "better" if meaning.direction == "up" else "less"
    first = (
        f"{power.as_good} of {max(row.tried, row.value.n)}"
        f" {meaning.unit}s come out as good as the original"
        f" ({meaning.text(meaning.as_good)} or {better})."
    )
    if meaning.name != evidence.meaning.name:
        seen = amount(evidence, worst, worst.value.value, full=True)
        return f"{first} At worst an attacker {evidence.meaning.does} {seen}."
    return (
        f"{first} On average an"
        f" attacker {verb} {amount(evidence, row, row.value.value)}, at worst"
        f" {amount(evidence, worst, worst.value.value)}. A blind guess {verb}"
        f" {amount(evidence, row, row.floor.value)}, with nothing defended it is"
        f" {amount(evidence, row, row.control.value)}."
    )


def exact_units(evidence: Evidence, verdict: Verdict) -> list[str]:
    """Units as good as the original that only the paper's own attack, or the truth, picked out."""
    rows = (*verdict.counting, *evidence.joined, *evidence.beside)
    if verdict.rule not in (6, 9):
        return []
    count, whole = 0, 0
    for n in rows:
        if n.power and n.power.as_good > count:
            count, whole = n.power.as_good, max(n.tried, n.value.n)
    if not count:
        return []
    units = f"{count} of {whole} {evidence.meaning.unit}s"
    return [f"But {units} come out as good as the original: that is no sign of privacy."]


def doubted(evidence: Evidence, doubt: Doubt) -> str:
    """What an acquittal lacks, and what it would take."""
    row, verb, attack = doubt.row, evidence.meaning.does, doubt.row.attacker.name.replace("_", " ")
    if doubt.lack == "control":
        assert row.success is not None  # noqa: S101 (else it lacks that)
        at = row.unturned(row.blind + (row.success - row.blind) / 2)
        half = amount(evidence, row, at)
        found = amount(evidence, row, row.control.value, full=True)
        return (
            f"with nothing defended it {verb} {found}, and half way to all there is would be {half}"
            " (another attack or more search is needed, not more units)"
        )
    if doubt.lack == "success":
        return f"{evidence.meaning.heading} does not say what counts as success (`as_good`)"
    if doubt.lack == "seeds":
        have = min(len(row.seeds), max(evidence.live, 0))
        seeds = plural(have, "live seed" if evidence.dead_seeds else "seed")
        return f"{seeds} only, {plural(SEEDS - have, 'more is', 'more are')} needed"
    if doubt.why:
        why = reason_text(doubt.why)
        return why if doubt.lack == "gaps" else f"{attack}: {why}"
    tried = max(row.tried, row.failed)
    return (
        f"{attack} failed or did not settle on {open_units(row)} of {tried} {row.meaning.unit}s,"
        f" and {math.floor(MOST_FAILED * tried)} may"
    )


def short(evidence: Evidence, verdict: Verdict) -> str:
    """The verdict's word, and in a few more why a setting cannot be judged."""
    if verdict.rule == 1:
        return f"nothing to attack: sends no {evidence.kind}"
    if verdict.rule == 2:
        return f"{verdict.word}: {lacking(evidence)}"
    if verdict.rule == 3:
        return f"dead run: {evidence.dead_because}"
    if verdict.rule == 4:
        return "attack too weak, even with nothing defended"
    if verdict.rule == 6:
        return "cannot tell: only the paper's own attack counts"
    if verdict.few and verdict.few.power:
        power = verdict.few.power
        told = f"too few {of_clusters(verdict.few)} ({power.clusters} of {power.needed} needed)"
        hint = more_units(evidence, verdict.few)
        return f"cannot tell: {told}{f': {hint[0].lower()}{hint[1:]}'.rstrip('.') if hint else ''}"
    if verdict.doubts:
        return f"cannot tell: attack too weak to acquit: {doubted(evidence, verdict.doubts[0])}"
    if verdict.rule == 9:
        hint = more_units(evidence, verdict.binding) if verdict.binding else ""
        return f"cannot tell: {hint.rstrip('.') or 'too few units for a verdict'}"
    return verdict.word


def settle(evidence: Evidence, row: Number) -> str:
    """What would settle what cannot be told, a sentence."""
    seeds = seeds_needed(row, evidence.seeds)
    hint = more_units(evidence, row)
    if hint:
        return hint
    if seeds is None:
        return "More units would have to be attacked to settle it."
    if seeds > 50:
        return "More than 50 more seeds would be needed to settle it."
    return f"About {plural(seeds, 'more seed')} would settle it."
