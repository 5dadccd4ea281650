"""Why a row or a limit of the gate came out so, in words: the one place that makes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from leakbench.base.reason import Reason
from leakbench.base.reason_words import numbered, reason_text

Facts = Mapping[str, Any]
Said = str | Callable[[Facts], str]  # a text with facts in it, or what makes one of them
_FLAGS = {
    "control_failed": "the control failed: the attack is too weak to judge",
    "dead_run": "dead run: it did not learn, so its leakage says nothing",
    "mixed_code": "resumed by other code than began it, so no one code made it",
    "stale_run": "trained by other code than what is installed; train it again with --restart",
    "stale_attack": "attacked by other code than what is installed; attack it again",
}
_NUMBER = re.compile(r"[-+]?\d[\w.+-]*")
_LACKS = {"control": "its control", "record": "what was recorded"}
_MAYBE_ATTACK = (
    "the attack may have changed, and not the method. Make the baseline's runs again with it, or if"
    " it is meant, --update"
)


def whole_reason(why: Iterable[Reason]) -> str:
    """All of it, numbers too: one sentence."""
    return _sentence(why, {})


def short_reason(why: Iterable[Reason]) -> str:
    """What is left to say where the numbers are told apart."""
    return _sentence(why, _SHORT)


def since_reason(why: Iterable[Reason]) -> str:
    """The same of two reports, of which none is a baseline."""
    return _sentence(why, _SINCE)


def kind_of_reason(why: Reason) -> str:
    """What two reasons have in common that differ in numbers alone: code and facts without these.

    Attacks count by their names.
    """
    return " ".join([why.code, *(_NUMBER.sub("#", fact) for fact in _facts(why))])


def _facts(why: Reason) -> Iterator[str]:
    for name, fact in why.facts.items():
        if isinstance(fact, Reason):
            yield kind_of_reason(fact)
        elif name == "attacks":
            yield _named(fact)
        else:
            yield ", ".join(map(str, fact)) if isinstance(fact, tuple) else str(fact)


def _named(folders: Iterable[str]) -> str:
    """Attacks by their folders, without the fingerprints."""
    return ", ".join(folder.rpartition("-")[0] or folder for folder in folders)


def _sentence(why: Iterable[Reason], other: Mapping[str, Said]) -> str:
    return "; ".join(filter(None, (_said(one, other) for one in why)))


def _said(why: Reason, other: Mapping[str, Said]) -> str:
    if why.code == "moved":
        told = _said(why.facts["of"], other)
        return told if other else f"{_from_to(why.facts)}, but {told}"
    words = other.get(why.code, _SAID.get(why.code))
    if isinstance(words, str):
        return words.format(**why.facts)
    return words(why.facts) if words else reason_text(why)


def _from_to(facts: Facts) -> str:
    return f"{facts['old']:.4g} -> {facts['new']:.4g}"


def _compared(facts: Facts) -> str:
    now, then = facts["seeds"]
    seeds = f"{now} paired seeds" if facts["paired"] else f"{now} against {then} seeds"
    moved = "worse by {d:+.3g} [{low:+.3g}, {high:+.3g}], margin {margin:.3g}".format(**facts)
    return f"{_from_to(facts)}, {moved}, {seeds}"


def _held(facts: Facts) -> str:
    low, high = facts["low"], facts["high"]
    ends = "" if low is None or high is None else f" [{low:.3g}, {high:.3g}]"
    return f"{facts['row']}: {facts['value']:.4g}{ends}"


def _flagged(facts: Facts) -> str:
    return f"in the baseline {_FLAGS[facts['flag']]}" if facts["then"] else _FLAGS[facts["flag"]]


def _new_row(facts: Facts) -> str:
    said = "it is let pass by --allow-new" if facts["allowed"] else "--update adds it"
    return f"a new {facts['what']}, not in the baseline: {said}"


def _other_code(facts: Facts) -> str:
    return f"{_named(facts['attacks'])} ran with other code than in the baseline: {_MAYBE_ATTACK}"


def _unknown(facts: Facts, named: Callable[[Iterable[str]], str] = ", ".join) -> str:
    told = [_LACKS[what] for what in facts["what"]]
    told += [f"the code of {named(facts['attacks'])}"] * bool(facts["attacks"])
    return (
        f"{' and '.join(told)} is not known on both sides, so the attack may be weaker; make the"
        " baseline again with --update"
    )


def _no_rows(facts: Facts) -> str:
    return f"no such row now: {facts['row']}" + f" and {facts['more']} more" * bool(facts["more"])


_SAID: dict[str, Said] = {
    "worth": "{value:.4g}",
    "compared": _compared,
    "held": _held,
    "same": "unchanged: the same guesses, byte for byte",
    "nearly": "unchanged up to rounding: the same guesses and scores but for their last digits",
    "ceiling": lambda f: f"{_from_to(f)}, at its ceiling in the baseline: it cannot get worse",
    "no_row": "no such row now: run the same defenses and attacks",
    "new_row": _new_row,
    "flagged": _flagged,
    "unlike": "another {what} ({new}) than in the baseline ({old}); if that is meant, --update",
    "failed_more": (
        "the attack failed on {failed} of {units} units, in the baseline on {before} of {had}"
    ),
    "not_run_now": (
        "{row} entered it in the baseline and was not run now: run it, or drop it with --update"
        " --accept {row}"
    ),
    "entered_less": (
        "{row} entered it in the baseline, and now not in every seed: its control failed or it did"
        " not run, so it is of fewer attacks"
    ),
    "failed_control": (
        "{row} entered it in the baseline; now its control failed, so it is of fewer attacks"
    ),
    "seeds_not_attacked": lambda f: (
        f"seed {numbered(f['seeds'])} is in the baseline and was trained now, but not attacked:"
        " attack it"
    ),
    "other_parameters": lambda f: f"{f['attack']} ran with {f['changes']}: {_MAYBE_ATTACK}",
    "other_code": _other_code,
    "no_margin": "{metric} has no margin: write one into the baseline",
    "few_seeds": (
        "seeds now: {now}, in the baseline: {then}; it takes at least {least} on each side,"
        " {enough} or more settle most rows"
    ),
    "settled_by": "about {seeds} seeds on each side would settle it",
    "never_settled": "more than 200 seeds would be needed to settle it",
    "attacked_by_more": lambda f: (
        f"but {', '.join(f['attacks'])} attacked it, too, and did not in the baseline. Run only"
        " the same attacks, or if it is meant, --update"
    ),
    "contradicted": (
        "its guesses and its truth are those of the baseline, byte for byte, and its scores are"
        " not: what the baseline says of one of them is wrong; make it again with --update"
    ),
    "not_all_compared": (
        "but over all {seeds} seeds it moved from {old:.4g} to {new:.4g}, more than the margin:"
        " not all of them were compared"
    ),
    "fewer_units": (
        "of {units:.4g} units, in the baseline of {had:.4g}: those that leaked may be missing"
    ),
    "open": "the search is open on {left} units, in the baseline on {before}: it may find more",
    "open_in_tables": "the search is open on {left} units, and then on none: it may find more",
    "no_control_now": "nobody ran the attack where nothing is defended, as in the baseline",
    "control_fell": (
        "the control fell from {old:.4g} to {new:.4g}, more than the margin: the attack is weaker"
        " than in the baseline"
    ),
    "unknown_on_a_side": _unknown,
    "no_rows": _no_rows,
    "nobody_attacked": "nobody attacked it",
    "seeds_unattacked": lambda f: (
        f"{f['row']}: seed {numbered(f['seeds'])} was trained, but not attacked"
    ),
    "not_shown_to_work": (
        "nobody ran the attack where nothing is defended, so it was not shown to work"
    ),
    "units_lost": "the attack failed, or its search is open, on {lost} of {units} units",
    "few_to_keep": "of {seeds} seed; it takes {least} to say that it is kept",
    "reaches_beyond": "the interval reaches beyond it",
    "one_seed": "one seed: how training runs differ is not covered",
    "tables_alone": "limits from the two intervals: the other report's tables hold no units",
}
_SHORT: dict[str, Said] = {
    "worth": "",
    "compared": "",
    "held": "",
    "same": "the same guesses, byte for byte",
    "nearly": "up to rounding: the same guesses and scores but for their last digits",
    "ceiling": "at its ceiling in the baseline: it cannot get worse",
    "unknown_on_a_side": lambda f: _unknown(f, _named),
}
_SINCE: dict[str, Said] = {
    "same": _SHORT["same"],
    "flagged": lambda f: "then, " * f["then"] + _FLAGS[f["flag"]],
    "unlike": "another {what} now ({new}) than then ({old})",
    "other_code": lambda f: f"{', '.join(f['attacks'])} ran with other code than then",
}
