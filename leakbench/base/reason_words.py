"""What a ``Reason`` says: the one place where a sentence is made of it, for files and people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from leakbench.base.reason import Reason

Facts = Mapping[str, Any]
_UNREAD = {
    "nobody": "not attacked for this",
    "clients": "attacked by clients alone, who see less than the server",
    "one": "attacked by one of them alone, who sees less",
    "paper": "attacked by the paper's own attack alone",
    "weak": "attacked by none that works where nothing is defended",
}


# What a run has to be beyond, as run.json names it.
_UNTAUGHT = {
    "constant": "the best answer that is the same for all inputs",
    "raw": "comparing the inputs themselves",
    "untrained": "the untrained network",
}


def reason_text(why: Reason, stages: Mapping[str, str] | None = None) -> str:
    """The whole of it; ``stages``: what they are called, if not by their names."""
    head, rest = _HEADS.get(why.code, ""), reason_clause(why, stages)
    return f"{head}: {rest}" if head else rest


def reason_clause(why: Reason, stages: Mapping[str, str] | None = None) -> str:
    """The same without the word that a verdict has for it already."""
    said = _at(why.facts, stages) if why.code == "at" else _SAID[why.code](why.facts)
    return f"{said} (seed {numbered(why.seeds)})" if why.seeds else said


def numbered(seeds: Iterable[int]) -> str:
    """As in "0, 2"."""
    return ", ".join(map(str, sorted(seeds)))


def kinds_of(kind: str) -> str:
    """Messages of a kind, as a sentence names them: "updates", "mean data"."""
    return (kind if kind.endswith(("s", "data")) else f"{kind}s").replace("_", " ")


def _text(facts: Facts) -> str:
    return str(facts["text"])


def _plain(said: str) -> Callable[[Facts], str]:
    return lambda facts: said


def _form(said: str) -> Callable[[Facts], str]:
    return lambda facts: said.format(**facts)


def _at(facts: Facts, stages: Mapping[str, str] | None) -> str:
    several = facts["probe"] is not None  # of what is made of several attacks
    called = {s: (stages or {}).get(s, s) for s in facts["stages"]}
    named = ", ".join(f"{n} or all" if s == "final" and several else n for s, n in called.items())
    where = named if stages else f"stage {named}"
    if several:
        where += ", probes" if facts["probe"] else ", real messages"
    return f"{where}: {reason_text(facts['of'], stages)}"


def parameters_text(params: Facts) -> str:
    """As in "source=pooled, twin=True"."""
    return ", ".join(f"{k}={v}" for k, v in params.items())


def _not_run(facts: Facts) -> str:
    given = parameters_text(facts["params"])
    return f"{f'with {given} ' * bool(given)}it would fit but was not run: leakbench attack"


def _no_end(facts: Facts) -> str:
    # The attack's seed tells no two of its readings apart.
    given = parameters_text({k: v for k, v in facts["params"].items() if k != "seed"})
    whose = f" with {given}" if given else ""
    seeds = f" (seed {numbered(facts['seeds'])})" if facts["seeds"] else ""
    return (
        f"no number of the end of training{whose}{seeds}, only {' and '.join(facts['stages'])}:"
        " there nothing was sent that it can read, or the record does not hold it (train with"
        " --record all)"
    )


def _unread(facts: Facts) -> str:
    names = " and ".join(f"its {kinds_of(kind)}" for kind in facts["kinds"])
    return f"{names} were {_UNREAD[facts['by']]}"


def _all_kinds(kinds: Iterable[str]) -> str:
    return " and ".join(map(kinds_of, kinds))


def _gone(facts: Facts) -> str:
    return f"{facts['attack']} gave no number ({reason_text(facts['of']).splitlines()[0]})"


def _not_beyond(facts: Facts) -> str:
    what = _UNTAUGHT.get(facts["what"], facts["what"])
    said = "{metric} {value} ({low} to {high}, of {n} test units) is not beyond {what} ({level})"
    return said.format(**{**facts, "what": what})


_HEADS: dict[str, str] = {"failed": "failed", "to_finish": "not finished"}
_SAID: dict[str, Callable[[Facts], str]] = {
    "failed": _text,
    "unfinished": _form("not finished (status {status}): run the same command again"),
    "to_finish": _plain("run the same command again"),
    "unscored": _plain("guessed but not scored: leakbench score, where the run has its truth"),
    "no_end": _no_end,
    "not_run": _not_run,
    "none_run": _plain("no attack was run: leakbench attack"),
    "not_heard": _form("nobody asked it of {to}"),
    "none_fits": _plain("no attack that fits was run"),
    "unfit": _text,
    "unknown_fit": _form("which attacks would fit cannot be told here: {text}"),
    "no_record": _plain("no run.json is here"),
    "no_weights": _text,
    "only_paper": _plain(
        "only the paper's own attack ran (rung paper), which never enters the cascade"
    ),
    "all_weak": _plain("the control of every attack that could enter failed: too weak to judge"),
    "few_evaluations": _form(
        "no last10: only {some} evaluations, it is the mean of the last {all}"
    ),
    "changed_after": _plain(
        "no last10: what follows the last round changes the model, so that its last evaluation is"
        " of another than the nine before"
    ),
    "told": _text,
    "not_beyond": _not_beyond,
    "one_direction": _form("its prototypes have become one direction (mean cosine {cosine:.3f})"),
    "one_point": _form(
        "its prototypes have become one point (their distance is {ratio:.4f} of the embeddings')"
    ),
    "loss_ran_away": _form(
        "its training loss was {began:.3g} in round {first} and is {ended:.3g} in round {last}"
    ),
    "loss_of_model": _form(
        "its model's loss is {loss:.3g}, where {alike:.3g} is that of no preference"
    ),
    "marked_dead": _plain("its run is marked as dead"),
    "not_there_yet": _plain("not there yet"),
    "had_failed": _plain("it had failed"),
    "not_finished": _plain("not finished"),
    "parts_changed": lambda f: f"{' and '.join(f['parts'])} changed",
    "several_codes": _plain("several codes made its rounds"),
    "was_submitted": _form("{attack} was submitted, and is now made here"),
    "other_messages": _form("made from other messages than {run} holds now"),
    "other_guesser": _form("made by other code of {attack}"),
    "file_changed": _form("made when {file} was another"),
    "other_method": _plain("made by replaying other code of the method"),
    "other_version": _form("made by leakbench {version}"),
    "other_scorer": _form("scored by other code of {attack}"),
    "seed_lacks": lambda f: f"{f['attack']} has no number in seed {numbered(f['seeds'])}",
    "incomplete": _form("{some} of {all} runs are complete"),
    "few_attacked": _form("attacked in {some} of {all} seeds"),
    "unread": _unread,
    "found_beside": _form("by another measure, {metric}, {attack} is beyond its blind guess"),
    "chosen": _form("{count} of the clients were chosen (record.clients), not drawn"),
    "few_rounds": _form(
        "of the updates, which a wrapper covers, {kept} of {all} rounds were kept, and whoever adds"
        " up all of them hears more"
    ),
    "few_updates": _form(
        "of the updates, each of which says more of it, {kept} of {all} rounds were kept whole"
    ),
    "not_listened": _plain(
        "no attack strong enough to acquit read the updates of all rounds that were kept"
    ),
    "not_added_up": _form(
        "each {kind} is covered by itself, and no attack strong enough to acquit added up those of"
        " all rounds"
    ),
    "gone": _gone,
    "dead_seeds": _plain("where a run is dead nothing is to be found"),
    "mixed_code": _plain("the run was resumed by other code"),
    "stale_run": _plain("the run was made by another version of the method"),
    "stale_attack": _plain("it was made by another version of the attack"),
    "no_control": _plain("nobody ran it where nothing is defended"),
    "weaker_observer": _plain(
        "its owner declared a weaker observer than the server, so it says nothing of a stronger one"
    ),
    "no_mechanism": _plain("no wrapper claims anything: none clips and noises what clients send"),
    "not_covered": lambda f: (
        f"no ε bounds what clients send: nothing noises their {_all_kinds(f['kinds'])}, which"
        " depend on their data"
    ),
    "reads_more": lambda f: (
        f"no ε bounds what clients send: {' and '.join(f['wrappers'])} comes after the noise and"
        " may read their data"
    ),
    "senders_unknown": _plain("the record does not say who sent how many messages"),
    "no_noise": _plain("no noise is added, so ε is infinite"),
    "not_guessed": _plain(
        "no attack guessed who was a member: leakbench attack RUN -a membership, where the task"
        " has held_out"
    ),
    "claim_broken": _form(
        "its wrapper claims ε = {claimed:.3g} at δ = {delta:.1g}, and {attack} proves, with 95 %,"
        " that it is {proven:.3g} at least"
    ),
}
