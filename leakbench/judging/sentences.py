"""The sentence of a verdict: numbers read aloud, counts of a whole, no percentages."""

from __future__ import annotations

from leakbench.judging.caveats import copied, doubted, exact_units, settle, too_few
from leakbench.judging.evidence import Evidence
from leakbench.judging.verdict import Verdict
from leakbench.judging.wording import amount, between, by, lacking, plural
from leakbench.results.number import Number

ATTACKERS = {
    "paper": "An attacker with the paper's own attack",
    "transcript": "An attacker who reads the record",
    "method": "An attacker who knows the method",
    "public": "An attacker with public data",
}


ORACLES = {"oracle_prototypes": "the true prototypes", "oracle_labels": "the true labels"}


def sentence(evidence: Evidence, verdict: Verdict) -> str:
    """The sentence of the rule that matched, and everything that has to be added to it."""
    word, told = clauses(evidence, verdict)
    return " ".join([f"{word[0].upper()}{word[1:]}: {told}", *additions(evidence, verdict)])


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
            f"{evidence.dead_because}. Its leakage says nothing about the method, and it is kept"
            " off the front."
        )
        if verdict.beyond_floor and got:
            text += (
                f" It is not private either: {by(got)} {verb}"
                f" {amount(evidence, got, got.value.value, full=True)}."
            )
        return verdict.word, text
    if verdict.rule == 4:
        row = verdict.binding or worst
        assert row  # noqa: S101 (judge gives one with rule 4)
        best = row.control if evidence.hides else row.value  # what hides nothing is its own control
        return (
            f"{verdict.word} to judge",
            f"even with nothing defended it {verb} {amount(evidence, row, best.value, full=True)};"
            f" a blind guess {verb} {amount(evidence, row, row.floor.value)}. This is not a sign of"
            " privacy.",
        )
    if verdict.copied and verdict.rule in (5, 8) and not (got and got.low >= got.half):
        assert worst  # noqa: S101 (it was attacked)
        return verdict.word, copied(evidence, verdict.copied, worst)
    if verdict.few:
        return verdict.word, too_few(evidence, verdict.few)
    assert got  # noqa: S101
    assert worst  # noqa: S101
    blind = f"{verb} {amount(evidence, got, got.floor.value)}"
    if verdict.rule == 5:
        return (
            verdict.word,
            f"{by(got)} {verb} {amount(evidence, got, got.value.value, full=True)},"
            f" at worst {amount(evidence, worst, worst.value.value)}. A blind guess {blind}.",
        )
    if verdict.rule == 6:
        only = "was tried" if all(a.attacker.paper for a in evidence.attacks) else "counts"
        return (
            verdict.word,
            f"only the paper's own attack {only}; it {verb}"
            f" {amount(evidence, got, got.value.value, full=True)}.",
        )
    if verdict.rule == 7:
        tried = plural(len(verdict.counting) or 1, "attack")
        return (
            f"{verdict.word} on this question against the {tried} tried",
            f"at worst {amount(evidence, worst, worst.value.value, full=True)}"
            f" ({between(evidence, worst, 'to')}); a blind guess {verb}"
            f" {amount(evidence, worst, worst.floor.value)}. Other attacks may do better.",
        )
    if verdict.rule == 8:
        return (
            verdict.word,
            f"{by(got)} {verb} {amount(evidence, got, got.value.value, full=True)}, at worst"
            f" {amount(evidence, worst, worst.value.value)}. A blind guess {blind}, with"
            f" nothing defended it is {amount(evidence, got, got.control.value)}.",
        )
    row = verdict.binding or worst
    if verdict.doubts:
        told = "; ".join(doubted(evidence, d) for d in verdict.doubts)
        most = amount(evidence, worst, worst.value.value, full=True)
        return (
            verdict.word,
            f"attack too weak to acquit: {told}. At worst it {verb} {most}"
            f" ({between(evidence, worst, 'to')}); a blind guess {verb}"
            f" {amount(evidence, worst, worst.floor.value)}.",
        )
    told = f"between {between(evidence, row, 'and')}, n = {row.value.n}"
    return verdict.word, f"{told}. {settle(evidence, row)}"


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
        out.append(f"Its paper's own attack {verb} {amount(evidence, paper, paper.value.value)}.")
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
    counted = {"clients": "not named", "images": "not found"}.get(noun, "a blind guess")
    if row.failed == 1:
        return [f"The attack failed on 1 {noun.removesuffix('s')}; it is counted as {counted}."]
    return [
        f"The attack failed on {row.failed} of {max(row.tried, row.failed)} {noun}; they are"
        f" counted as {counted}."
    ]


def _oracle(evidence: Evidence, row: Number) -> list[str]:
    given = [words for flag, words in ORACLES.items() if flag in row.flags]
    if not given:
        return []
    public = "not measured"
    if evidence.public:
        public = amount(evidence, evidence.public, evidence.public.value.value, full=True)
    return [f"This attack is given {_and(given)}; without it: {public}."]


def _and(parts: tuple[str, ...] | list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
