"""What the gate says, in words: why a row or a limit came out so, and all else of a check.

The one place that makes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from leakbench.base.reason import Reason
from leakbench.base.reason_words import numbered, reason_text
from leakbench.gate.change import Change
from leakbench.gate.outcome import CheckResult, Comparison, LimitOutcome

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


def check_in_words(result: CheckResult) -> CheckResult:
    """With all that is said of it, and of its rows and limits."""
    rows = tuple(replace(r, reason=whole_reason(r.why)) for r in result.rows)
    limits = tuple(replace(x, reason=whole_reason(x.why)) for x in result.limits)
    head = "refused" if result.updates else "cannot tell"
    unfinished = tuple(whole_reason([why]) for why in result.undone)
    lines = [f"{head:13} {text}" for text in unfinished]
    if not result.updates:
        lines += [_limit_line(x) for x in limits if x.state != "kept"]
        lines += map(_row_line, rows)
        lines += [_limit_line(x) for x in limits if x.state == "kept"]
    return replace(
        result,
        rows=rows,
        limits=limits,
        lines=(*lines, *(whole_reason([why]) for why in result.said)),
        unfinished=unfinished,
        notes=tuple(whole_reason([why]) for why in result.noted),
        softer=tuple(whole_reason([why]) for why in result.less),
    )


def _row_line(row: Comparison) -> str:
    return f"{row.state:13} {row.name}{_in_brackets(row.changes)}: {row.reason}"


def _limit_line(limit: LimitOutcome) -> str:
    return f"{limit.state:13} {limit.setting}: {limit.limit}: {limit.reason}"


def _in_brackets(changes: Iterable[Change]) -> str:
    """What of a setting changed, as in " (sigma 0.3 -> 0.1)"."""
    told = _all(changes)
    return f" ({told})" if told else ""


def _all(changes: Iterable[Change]) -> str:
    return ", ".join(map(str, changes))


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

    Attacks count by their names, changes by what changed.
    """
    told = (_named(f) if name == "attacks" else _kind(f) for name, f in why.facts.items())
    return " ".join([why.code, *told])


def _kind(fact: Any) -> str:
    if isinstance(fact, Reason):
        return kind_of_reason(fact)
    if isinstance(fact, Change):
        return fact.name or fact.kind
    if isinstance(fact, tuple):
        return ", ".join(map(_kind, fact))
    return _NUMBER.sub("#", str(fact))  # of a row's name, too


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
    return (
        f"{_unknown_what(facts, named)}, so the attack may be weaker; make the baseline again with"
        " --update"
    )


def _unknown_what(facts: Facts, named: Callable[[Iterable[str]], str] = _named) -> str:
    told = [_LACKS[what] for what in facts["what"]]
    told += [f"the code of {named(facts['attacks'])}"] * bool(facts["attacks"])
    return f"{' and '.join(told)} is not known on both sides"


def _no_rows(facts: Facts) -> str:
    return f"no such row now: {facts['row']}" + f" and {facts['more']} more" * bool(facts["more"])


def _undone(facts: Facts) -> str:
    what = facts["failed"] or "not finished"
    return f"{facts['run']}: {what}; train it again, or leave it out of what is checked"


def _total(facts: Facts) -> str:
    counts = ", ".join(f"{n} {state}" for state, n in facts["rows"].items())
    total = f"{facts['gated']} rows gated: {counts or 'the baseline has no gated row'}"
    held_to = ", ".join(f"{n} {state}" for state, n in facts["limits"].items())
    return f"{total}; limits: {held_to}" if held_to else total


def _less_of(facts: Facts) -> str:
    key, old, new = facts["key"], facts["old"], facts["new"]
    if key == "allow_new":
        return "allow_new false -> true"
    if key == "seeds":
        old, new = (", ".join(map(str, seeds)) or "none" for seeds in (old, new))
        return f"seeds {old} -> {new}"
    return f"{key} {old!r} -> {new!r}"


def _loosened(facts: Facts) -> str:
    now = facts["now"]
    return f"limit {facts['limit']} -> {now}" if now else f"limit {facts['limit']} dropped"


def _open_limit(facts: Facts) -> str:
    about = f"{facts['setting']}: {facts['limit']}"
    return f"{facts['state']:13} {about}: {whole_reason(facts['why'])}"


def _refused_limit(facts: Facts) -> str:
    by = whole_reason(facts["why"])
    return (
        f"refused       {facts['setting']}: {facts['limit']} is breached by {by}. If that is meant,"
        " change the limit"
    )


def _refused(facts: Facts, what: str) -> str:
    name = facts["row"]
    return f"refused       {name}: {what}. If that is meant: --update --accept {name}"


def _refused_worse(facts: Facts) -> str:
    move = f"{_from_to(facts)}{_in_brackets(facts['changes'])}"
    return _refused(facts, f"{move} is worse than the baseline")


def _accept_all(facts: Facts) -> str:
    accepts = " ".join(f"--accept {name}" for name in facts["rows"])
    return f"{'':13} If all of that is meant: --update {accepts}"


def _row_moved(facts: Facts) -> str:
    accepted = " (accepted)" * facts["accepted"]
    why = _in_brackets(facts["changes"]) or f": {whole_reason([facts['of']])}"
    return f"moved         {facts['row']}: {_from_to(facts)}{accepted}{why}"


def _other_commits(facts: Facts) -> str:
    old, new = (_commits(facts[side]) for side in ("old", "new"))
    return f"other code made the runs ({old} -> {new})"


def _commits(commits: Iterable[object]) -> str:
    return ", ".join(str(commit)[:7] for commit in commits)


def _looked(facts: Facts) -> str:
    """When rows will be looked at; with one look seeds cannot be spent on what is undecided."""
    if len(facts["looks"]) > 1:
        return f"looks         after {', '.join(map(str, facts['looks']))} seeds"
    return (
        "looks         once: a baseline of eight seeds or more lets a build spend seeds on what it"
        " cannot tell"
    )


def _written(facts: Facts) -> str:
    names = ", ".join(facts["attacks"]) or "none is named"
    return (
        "{rows} rows written, {kept} kept: {gated} gate ({names}), {rest} stand there to be read,"
        " and gate where --gate names them"
    ).format(**facts, names=names)


def _sees_nothing(facts: Facts) -> str:
    count, named = len(facts["rows"]), ", ".join(facts["rows"])
    return (
        f"sees nothing  {facts['setting']}: {count} of {facts['of']} rows are at their ceiling,"
        f" where nothing can get worse, and gate nothing: {named}"
    )


def _value_seen(facts: Facts) -> str:
    end = ", no further than the margin from a blind guess" * facts["at_floor"]
    return f"{facts['value']:.4g}{end}"


def _sight(facts: Facts) -> str:
    told, shown, left, need = [_value_seen(facts)], facts["shown"], facts["left"], facts["need"]
    if left is not None:
        told.append(f"no worsening where all is drawn anew: only {left:.2g} is left to its ceiling")
    elif shown is not None:
        told.append(f"worse by {shown:.2g} or more is found when all is drawn anew")
    if not facts["enough"]:
        told.append(
            f"where nothing changes but the draws, {need or 'over 200'} seeds are needed to be fine"
        )
    return ", ".join(told) + f" (it has {facts['seeds']} seeds)"


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
    "other_parameters": lambda f: f"{f['attack']} ran with {_all(f['changes'])}: {_MAYBE_ATTACK}",
    "other_code": _other_code,
    "no_margin": "{metric} has no margin: write one into the baseline",
    "few_seeds": (
        "seeds now: {now}, in the baseline: {then}; it takes at least {least} on each side,"
        " {enough} or more settle most rows"
    ),
    "settled_by": "about {seeds} seeds on each side would settle it",
    "never_settled": "more than 200 seeds would be needed to settle it",
    "corrected": (
        "its interval alone would decide; of all rows tested together it has to hold at p"
        " {level:.2g}, and p is {p:.2g}: with that correction its lower limit is {low:+.2g}"
    ),
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
    "observer_weaker": "its owner declared a weaker observer than the server: it may accuse alone",
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
    "run_undone": _undone,
    "empty_baseline": "cannot tell: the baseline has no rows. Write them with --update.",
    "total": _total,
    "other_setting": lambda f: (
        f"{f['setting']} is another setting than in the baseline: {_all(f['changes'])}"
    ),
    "hollow_baseline": (
        "the baseline has no rows, so these runs are held to the limits alone; write them with"
        " --update"
    ),
    "no_baseline": "no baseline: these runs are held to the limits alone",
    "all_at_ceiling": (
        "{setting}: every gated leakage was at its ceiling in the baseline, so that no change can"
        " leak more by this gate; gate a row with room, with --gate"
    ),
    "less_of": _less_of,
    "row_ungated": "gate {row!r} dropped",
    "limit_loosened": _loosened,
    "margin_widened": "margin of {row} {old:g} -> {new:g}",
    "older_baseline": (
        "the baseline has the form of schema 1, which binds no scores and notes neither margins"
        " nor what a SPEC asked; write it again with --update"
    ),
    "runs_committed": "{out} is committed, so its runs may be anybody's",
    "refused_limit": _refused_limit,
    "limit_open": _open_limit,
    "refused_worse": _refused_worse,
    "refused_less": lambda f: _refused(f, whole_reason([f["of"]])),
    "accept_all": _accept_all,
    "seeds_left": "{seeds} of {had} seeds would be left of it",
    "row_kept": "kept          {row}: not among these runs; --accept drops it",
    "row_moved": _row_moved,
    "rows_unchanged": "{rows} rows unchanged",
    "more_or_fewer_seeds": "of {now} seeds, and before of {then}",
    "other_seeds": "other seeds than before",
    "other_commits": _other_commits,
    "same_commit": "the same commit: an uncommitted change, other data, or another machine",
    "looked_at": _looked,
    "written": _written,
    "sees": lambda f: f"sees          {f['row']}: {whole_reason([f['what']])}",
    "sees_nothing": _sees_nothing,
    "blind": lambda f: f"nothing: {whole_reason([f['of']])}",
    "blind_at_ceiling": "nothing: {value:.4g} cannot get worse",
    "sight_of_few": lambda f: (
        f"{_value_seen(f)}, of {f['seeds']} seed: only the same guesses are fine"
    ),
    "sight": _sight,
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
    "ceiling": "at its ceiling then: it cannot get worse",
    "failed_more": "the attack failed on {failed} of {units} units, then on {before} of {had}",
    "not_run_now": "{row} entered it then and was not run now",
    "entered_less": (
        "{row} entered it then, and now not in every seed: its control failed or it did not run, so"
        " it is of fewer attacks"
    ),
    "failed_control": "{row} entered it then; now its control failed, so it is of fewer attacks",
    "seeds_not_attacked": lambda f: (
        f"seed {numbered(f['seeds'])} was attacked then and was trained now, but not attacked"
    ),
    "other_parameters": lambda f: (
        f"{f['attack']} ran with {_all(f['changes'])}: the attack may have changed, and not the"
        " method"
    ),
    "no_margin": "{metric} has no margin",
    "few_seeds": "seeds now: {now}, then: {then}; it takes at least {least} on each side",
    "attacked_by_more": lambda f: (
        f"but {', '.join(f['attacks'])} attacked it, too, and did not then"
    ),
    "contradicted": (
        "its guesses and its truth are those of then, byte for byte, and its scores are not: what"
        " one side says of them is wrong"
    ),
    "fewer_units": "of {units:.4g} units, then of {had:.4g}: those that leaked may be missing",
    "open": "the search is open on {left} units, then on {before}: it may find more",
    "no_control_now": "nobody ran the attack where nothing is defended, as then",
    "control_fell": (
        "the control fell from {old:.4g} to {new:.4g}, more than the margin: the attack is weaker"
        " than then"
    ),
    "unknown_on_a_side": lambda f: f"{_unknown_what(f)}, so the attack may be weaker",
    "new_row": "a new {what}, not there then",
}
