"""How sure is this: what a reader has to know before believing the numbers, each line marked fine, mind or wrong."""

from __future__ import annotations

from collections.abc import Sequence

from leakbench.judging import MADE
from leakbench.report_data import ReportData
from leakbench.settings import Question, Setting
from leakbench.verdict_words import plural
from reports._words import FLAGS

FINE, MIND, WRONG = ("ok", "✓"), ("mind", "!"), ("bad", "✕")
Line = tuple[tuple[str, str], str]


def how_sure(data: ReportData, settings: Sequence[Setting], questions: Sequence[Question]) -> list[Line]:
    """The lines, in a fixed order."""
    rows = [r for r in data.tradeoff if r["attack"] not in MADE]
    flags = {f: sum(f in str(r["flags"]).split("|") for r in rows) for f in FLAGS}
    total = plural(len(rows), "row")
    out: list[Line] = []
    if not rows:
        return [(WRONG, "No attack has been run: nothing here speaks of leakage.")]
    weak = flags["control_failed"]
    if weak:
        out.append(
            (WRONG, f"Controls: in {weak} of {total} the attack fails even with nothing defended. Those say nothing about a method.")
        )
    else:
        out.append((FINE, f"Controls: in all {total} the attack beats a blind guess where nothing is defended."))
    few = {s.seeds for s in settings}
    text = f"Seeds: {min(few)} a setting." if len(few) == 1 else f"Seeds: {min(few)} to {max(few)} a setting."
    if min(few) < 3:
        text += " With fewer than three, intervals speak of these runs, not of the method."
    out.append((MIND if min(few) < 3 else FINE, text))
    if flags["few_units"]:
        out.append((MIND, f"Units: {flags['few_units']} of {total} rest on under 50 units or 10 clusters; rare leaks can be missed there."))
    else:
        out.append((FINE, f"Units: every row rests on at least {min(int(r['n']) for r in rows)} of them."))
    failed = sum(int(r["failed"]) for r in data.results if r["attack"] not in MADE)
    tried = sum(int(r["n"]) for r in data.results if r["attack"] not in MADE)
    if failed:
        out.append((MIND, f"Failures: attacks failed on {failed} of {tried} unit scores; each counts as a blind guess, none was dropped."))
    else:
        out.append((FINE, "Failures: no attack failed on any unit."))
    oracle = flags["oracle_prototypes"] + flags["oracle_labels"]
    if oracle:
        out.append((MIND, f"Oracle knowledge: in {oracle} of {total} the attack is given something that a real attacker would not have."))
    dead = [s.name for s in settings if s.dead]
    if dead:
        out.append(
            (MIND, f"Dead runs: {', '.join(dead[:6])}{' and more' if len(dead) > 6 else ''}. Kept off the front and out of every count.")
        )
    for name in ("loss_did_not_fall", "gradient_vanished", "restarts_disagree", "other_engine", "stand_in_data"):
        if flags[name]:
            out.append((MIND, f"{FLAGS[name][0].upper()}{FLAGS[name][1:]}: in {flags[name]} of {total}."))
    if any(q.probe for q in questions):
        out.append((MIND, "Probes: some images were rebuilt from messages that nobody sends. They are judged apart from real messages."))
    if data.dirty:
        out.append((MIND, "The code had changes that are not in the commit named below."))
    if data.missing:
        out.append((MIND, f"Not tried or not there: {plural(len(data.missing), 'number')}, each with its reason, above."))
    out.append((MIND, "Other attacks may do better: nothing here proves that a method does not leak."))
    return out
