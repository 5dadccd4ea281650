"""A verdict in words: numbers read aloud, counts of a whole, no percentages."""

from __future__ import annotations

import math

from leakbench.base.reason_words import reason_text
from leakbench.judging.acquittal import MOST_FAILED, SEEDS, Doubt, open_units
from leakbench.judging.evidence import Evidence
from leakbench.judging.sample_size import clusters_needed, seeds_needed
from leakbench.judging.verdict import Verdict
from leakbench.results.number import Number
from leakbench.words.amounts import (
    between,
    beyond_blind,
    by,
    lacking,
    of_clusters,
    plural,
    value_text,
)

WHO = {
    "paper": "An attacker with the paper's own attack",
    "transcript": "An attacker who reads the record",
    "method": "An attacker who knows the method",
    "public": "An attacker with public data",
}


ORACLES = {"oracle_prototypes": "true prototypes", "oracle_labels": "true labels"}


def sentence(evidence: Evidence, verdict: Verdict) -> str:
    """The sentence of the rule that matched, and everything that has to be added to it."""
    word, told = clauses(evidence, verdict)
    return " ".join([f"{word[0].upper()}{word[1:]}: {told}", *additions(evidence, verdict)])


def short(evidence: Evidence, verdict: Verdict) -> str:
    """The verdict's word, and in a few more why a setting cannot be judged."""
    if verdict.rule == 1:
        return f"nothing to attack: sends no {evidence.kind}"
    if verdict.rule == 2:
        return f"{verdict.word}: {lacking(evidence)}"
    if verdict.rule == 3:
        return f"dead run: {_dead(evidence)}"
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


def clauses(evidence: Evidence, verdict: Verdict) -> tuple[str, str]:
    """The word that the sentence begins with, and what follows it."""
    verb = evidence.meaning.does
    got, worst = verdict.reached, verdict.worst
    if verdict.rule == 1:
        other = "Nothing else that it sends was recorded either."
        if evidence.sends:
            other = f"Judge it by its {_and(evidence.sends)}."
        return f"sends no {evidence.kind}", f"nothing for this attack to read. {other}"
    if evidence.state:
        return evidence.state, f"{lacking(evidence)}. Nothing is known about its leakage."
    if verdict.rule == 2:
        return verdict.word, f"{lacking(evidence)}. Nothing is known about its leakage."
    if verdict.rule == 3:
        text = (
            f"{_dead(evidence)}. Its leakage says nothing about the method, and it is kept"
            " off the front."
        )
        if verdict.beyond_floor and got:
            text += (
                f" It is not private either: {by(got)} {verb}"
                f" {value_text(evidence, got, got.value.value, full=True)}."
            )
        return verdict.word, text
    if verdict.rule == 4:
        row = verdict.binding or worst
        assert row  # noqa: S101 (judge gives one with rule 4)
        best = row.control if evidence.hides else row.value  # what hides nothing is its own control
        return (
            f"{verdict.word} to judge",
            f"even with nothing defended it {verb}"
            f" {value_text(evidence, row, best.value, full=True)}; a blind guess {verb}"
            f" {value_text(evidence, row, row.floor.value)}. This is not a sign of privacy.",
        )
    if verdict.copied and verdict.rule in (5, 8) and not (got and got.low >= got.half):
        assert worst  # noqa: S101 (it was attacked)
        return verdict.word, copied_text(evidence, verdict.copied, worst)
    if verdict.few:
        return verdict.word, too_few(evidence, verdict.few)
    assert got  # noqa: S101
    assert worst  # noqa: S101
    blind = f"{verb} {value_text(evidence, got, got.floor.value)}"
    if verdict.rule == 5:
        return (
            verdict.word,
            f"{by(got)} {verb} {value_text(evidence, got, got.value.value, full=True)},"
            f" at worst {value_text(evidence, worst, worst.value.value)}. A blind guess {blind}.",
        )
    if verdict.rule == 6:
        only = "was tried" if all(a.attacker.paper for a in evidence.attacks) else "counts"
        return (
            verdict.word,
            f"only the paper's own attack {only}; it {verb}"
            f" {value_text(evidence, got, got.value.value, full=True)}.",
        )
    if verdict.rule == 7:
        tried = plural(len(verdict.counting) or 1, "attack")
        return (
            f"{verdict.word} on this question against the {tried} tried",
            f"at worst {value_text(evidence, worst, worst.value.value, full=True)}"
            f" ({between(evidence, worst, 'to')}); a blind guess {verb}"
            f" {value_text(evidence, worst, worst.floor.value)}. Other attacks may do better.",
        )
    if verdict.rule == 8:
        return (
            verdict.word,
            f"{by(got)} {verb} {value_text(evidence, got, got.value.value, full=True)}, at worst"
            f" {value_text(evidence, worst, worst.value.value)}. A blind guess {blind}, with"
            f" nothing defended it is {value_text(evidence, got, got.control.value)}.",
        )
    row = verdict.binding or worst
    if verdict.doubts:
        told = "; ".join(doubted(evidence, d) for d in verdict.doubts)
        most = value_text(evidence, worst, worst.value.value, full=True)
        return (
            verdict.word,
            f"attack too weak to acquit: {told}. At worst it {verb} {most}"
            f" ({between(evidence, worst, 'to')}); a blind guess {verb}"
            f" {value_text(evidence, worst, worst.floor.value)}.",
        )
    told = f"between {between(evidence, row, 'and')}, n = {row.value.n}"
    return verdict.word, f"{told}. {settle(evidence, row)}"


def _dead(evidence: Evidence) -> str:
    return reason_text(evidence.dead_because) if evidence.dead_because else ""


def additions(evidence: Evidence, verdict: Verdict) -> list[str]:
    """What is added to the sentence of a setting that was attacked."""
    if verdict.rule in (1, 2):
        return []
    out = []
    verb = evidence.meaning.does
    paper, got = verdict.paper, verdict.reached
    # 0.10 for proportions: twice the margin, whatever the metric's scale.
    gap = 0.0
    if paper and got and not got.attacker.paper:
        gap = got.leak - paper.leak - 2 * evidence.meaning.matters
    if verdict.rule in (5, 8, 9) and paper and gap > 1e-12:
        out.append(f"Its paper's own attack {verb} {beyond_blind(evidence, paper)}.")
    out += exact_units(evidence, verdict)
    if evidence.seeds == 1:
        out.append("One seed only: the interval does not cover how training runs differ.")
    if 0 < evidence.dead_seeds < evidence.seeds:
        out.append(f"{evidence.dead_seeds} of {plural(evidence.seeds, 'seed')} died.")
    weak = len(evidence.attacks) - len(verdict.counting)
    if verdict.rule != 4 and weak:
        were, do = ("was", "does") if weak == 1 else ("were", "do")
        tried = plural(len(evidence.attacks), "attack")
        out.append(f"{weak} of {tried} {were} too weak and {do} not count.")
    out += failures(evidence)
    if got:
        out += _oracle(evidence, got)
    if got and "submitted" in got.flags and not got.attacker.made:
        name = got.attacker.name.replace("_", " ")
        out.append(f"The strongest guesses were made elsewhere and handed in, as of {name}.")
    if evidence.instead_of:
        title = evidence.meaning.heading
        out.append(f"Judged by {title}: {evidence.instead_of} was not measured.")
    for title in evidence.unmeasured:
        out.append(f"{title} was not measured: weights not found (`leakbench doctor`).")
    return out


def failures(evidence: Evidence) -> list[str]:
    """How often the attack failed and what that counts as, where it failed most."""
    rows = (*evidence.attacks, *(r for r in (evidence.cascade, evidence.any_attack) if r))
    row = max(rows, key=lambda r: r.failed, default=None)
    if not row or not row.failed:
        return []
    noun = evidence.meaning.noun or "units"
    counted = {"clients": "not named", "images": "not found", "examples": "not found"}.get(
        noun, "a blind guess"
    )
    if row.failed == 1:
        return [f"The attack failed on 1 {noun.removesuffix('s')}; it is counted as {counted}."]
    return [
        f"The attack failed on {row.failed} of {max(row.tried, row.failed)} {noun}; they are"
        f" counted as {counted}."
    ]


def _oracle(evidence: Evidence, row: Number) -> list[str]:
    given = [f"the {what}" for flag, what in ORACLES.items() if flag in row.flags]
    if not given:
        return []
    public = "not measured"
    if evidence.public:
        public = value_text(evidence, evidence.public, evidence.public.value.value, full=True)
    return [f"This attack is given {_and(given)}; without it: {public}."]


def too_few(evidence: Evidence, row: Number) -> str:
    """Not even a perfect attack could be told from luck; that is no weakness of the attack."""
    verb, power = evidence.meaning.does, row.power
    assert power  # noqa: S101 (few is known of no other)
    return (
        f"too few {of_clusters(row)} ({power.clusters} of {power.needed} needed) to"
        f" show that the attack works at all: it {verb}"
        f" {value_text(evidence, row, row.value.value, full=True)}, with nothing defended"
        f" {value_text(evidence, row, row.control.value)}; a blind guess {verb}"
        f" {value_text(evidence, row, row.floor.value)}. This is not a sign of privacy."
        f" {more_units(evidence, row) or _more(power.needed - power.clusters, row)}"
    )


def _more(lacking: int, row: Number) -> str:
    each = max(row.power.clusters // max(len(row.seeds), 1), 1) if row.power else 1
    seeds = -(-lacking // each)
    return f"About {plural(seeds, 'more seed')} would bring them."


def copied_text(evidence: Evidence, row: Number, worst: Number) -> str:
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
        seen = value_text(evidence, worst, worst.value.value, full=True)
        return f"{first} At worst an attacker {evidence.meaning.does} {seen}."
    return (
        f"{first} On average an"
        f" attacker {verb} {value_text(evidence, row, row.value.value)}, at worst"
        f" {value_text(evidence, worst, worst.value.value)}. A blind guess {verb}"
        f" {value_text(evidence, row, row.floor.value)}, with nothing defended it is"
        f" {value_text(evidence, row, row.control.value)}."
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
        half = value_text(evidence, row, at)
        found = value_text(evidence, row, row.control.value, full=True)
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


def more_units(evidence: Evidence, n: Number) -> str:
    """What would bring the units that a verdict needs, where the record or the attack lacks them.

    As in "5 clients a round were audited, 20 are needed: train with -s record.audited=20."; ""
    where neither limits them, or more would not settle it.
    """
    total, power = clusters_needed(n), n.power
    if total is None or power is None or total <= power.clusters:
        return ""
    seeds = max(len(n.seeds), 1)
    have, each = power.clusters / seeds, math.ceil(total / seeds)
    audited, names = evidence.audited, []
    recorded = audited is not None and have >= audited
    for a in evidence.attacks:
        most = a.attacker.params.get("targets")
        if isinstance(most, int) and most < each and (recorded or have >= most):
            names.append(a.attacker.name)
    if not (recorded or names):
        return ""
    some = each if evidence.present is None else min(each, evidence.present)
    told = f"{math.ceil(have)} clients a round were {'audited' if recorded else 'attacked'}"
    told += f", {each} are needed"
    more = f"train with -s record.audited={some}"
    if "outside" in n.flags:
        more = f"record with keep=dict(clients={some})"
    how = [more] if audited is not None and some > audited else []
    how += [f"attack with -s {name}.targets={some}" for name in dict.fromkeys(names) if some > have]
    if some < each:
        count = math.ceil(total / some)
        told += f", and no more than {some} take part"
        how.append(f"take {count} seeds" if how else f"train {count} seeds")
    return f"{told}: {' and '.join(how)}."


def _and(parts: tuple[str, ...] | list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
