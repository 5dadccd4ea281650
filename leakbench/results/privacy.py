"""What a run's wrappers claim of (ε, δ), beside what attacks on it prove.

Worked out of run.json, of who sent what, and of saved guesses, whenever a report is made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, computed_field

from leakbench.base import registry
from leakbench.base.errors import NotMeasured, UsageError
from leakbench.base.part import Part
from leakbench.base.reason import Reason, Why, reason
from leakbench.federation.defense import Wrapper
from leakbench.federation.mechanism import Gaussian, Mechanism, Processing
from leakbench.record.folders import Run
from leakbench.results.number import Configuration
from leakbench.scoring import audit
from leakbench.scoring.candidate_scores import asked_of_members
from leakbench.statistics.epsilon import gaussian_epsilon

DELTA = 1e-5  # and never more than 1 / examples: naming one of them at random is no privacy
ROUNDS = "transcript/rounds.safetensors"


class Privacy(Part):
    """(ε, δ) of one run, against whoever reads all that its clients send; and a lower bound.

    Two runs are neighbours (``adjacency``: "replace") if they differ in the data of one client, of
    which any part may be replaced, one example as well as all: what leaves the client is bounded as
    a whole. No example is counted as hidden among others, no client as absent.

    ``messages``: of the client that sent most of them; each adds to its ε. ``why``: why no ε can be
    stated, or that it has no bound. ``proven``: with 95 %, no mechanism with a smaller ε would have
    been found out so often (``leakbench.scoring.audit``): ``right`` of ``guesses`` about ``pairs``,
    the best of ``tried`` bounds. ``unproven``: why there is none.
    """

    configuration: Configuration = Field(exclude=True)
    run: str
    seed: int
    adjacency: Literal["replace"] = "replace"
    epsilon: float | None = None
    delta: float
    messages: int | None = None
    why: Why | None = None
    proven: float | None = None
    attack: str = ""
    pairs: int | None = None
    guesses: int | None = None
    right: int | None = None
    tried: int | None = None
    unproven: Why | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def broken(self) -> bool:
        """Is the claim below what was proven?"""
        return self.epsilon is not None and self.proven is not None and self.proven > self.epsilon

    @property
    def breach(self) -> Reason:
        """What is said of a broken claim."""
        told = {"claimed": self.epsilon, "proven": self.proven, "delta": self.delta}
        return reason("claim_broken", **told, attack=self.attack).model_copy(
            update={"seeds": (self.seed,)}
        )


def privacy_of_run(run: Run, configuration: Configuration) -> Privacy | None:
    """Of a complete run; None where no wrapper claims anything, and nothing was guessed about it.

    Raises:
        BrokenFile: what was sent, or a guess, is damaged.
    """
    claims, lower = _claims(run), dict[str, Any]()
    if not claims and not asked_of_members(run):
        return None
    examples = audit.held_examples(run)
    delta = min(DELTA, 1 / examples) if examples else DELTA
    try:
        lower = _proven(audit.audited(run, delta))
    except NotMeasured as error:
        lower = {"unproven": reason("told", text=str(error).rstrip("."))}
    claim = _claim(run, delta) if claims else {"why": reason("no_mechanism")}
    about: dict[str, Any] = {"configuration": configuration, "run": run.id, "seed": run.seed}
    return Privacy(**about, delta=delta, **claim, **lower)


def _proven(found: audit.Proven | None) -> dict[str, Any]:
    """Of ``Privacy`` what was proven."""
    if found is None:
        return {"unproven": reason("not_guessed")}
    told = {k: v for k, v in vars(found).items() if k != "epsilon"}
    return {"proven": found.epsilon, **told}


def _claims(run: Run) -> bool:
    """Does a wrapper say that it noises, or is one not here that may?"""
    try:
        return any(isinstance(w.mechanism(), Gaussian) for w in _wrappers(run))
    except UsageError:
        return True


def _claim(run: Run, delta: float) -> dict[str, Any]:
    """Of ``Privacy`` what the wrappers claim: epsilon, messages and why."""
    none: dict[str, Any] = {"epsilon": None, "messages": None}
    try:
        wrappers = _wrappers(run)
    except UsageError as error:
        return {**none, "why": reason("told", text=str(error).rstrip("."))}
    sent = {str(s["kind"]): s for s in run.meta["sent"] if s["sender"] == "client"}
    shifts, bare, after = {}, [], list[str]()
    for kind in sorted(sent):
        found, reads = _shift(kind, wrappers)
        after += reads
        if found is None and not reads:
            bare.append(kind)
        elif found is not None:
            shifts[kind] = found
    if after:
        return {**none, "why": reason("reads_more", wrappers=tuple(dict.fromkeys(after)))}
    if bare:
        return {**none, "why": reason("not_covered", kinds=tuple(bare))}
    return _composed(run, shifts, {k: int(s["messages"]) for k, s in sent.items()}, delta)


def _composed(
    run: Run, shifts: dict[str, float], sent: dict[str, int], delta: float
) -> dict[str, Any]:
    """The ε of the client whose messages, of each kind with its shift, add up to most."""
    if ROUNDS not in run.meta["files"]:
        return {"epsilon": None, "messages": None, "why": reason("senders_unknown")}
    rows = run.arrays(ROUNDS)
    most, messages = 0.0, 0
    squares: dict[int, float] = {}
    counts: dict[int, int] = {}
    for kind, shift in shifts.items():
        senders = rows[kind][:, 1]
        senders = senders[senders >= 0]
        if len(senders) != sent[kind]:
            return {"epsilon": None, "messages": None, "why": reason("senders_unknown")}
        for client in senders.tolist():
            squares[client] = squares.get(client, 0.0) + shift**2
            counts[client] = counts.get(client, 0) + 1
    for client, square in squares.items():
        if square > most or (square == most and counts[client] > messages):
            most, messages = square, counts[client]
    epsilon = gaussian_epsilon(math.sqrt(most), delta)
    if math.isinf(epsilon):
        return {"epsilon": None, "messages": messages, "why": reason("no_noise")}
    return {"epsilon": epsilon, "messages": messages, "why": None}


def _shift(kind: str, wrappers: Sequence[Wrapper]) -> tuple[float | None, list[str]]:
    """How far apart two messages of a kind may be, in deviations of the noise; None: unbounded.

    And the wrappers that come after the noise and may read more than what it left.
    """
    shift: float | None = None
    reads: list[str] = []
    for wrapper in wrappers:
        if kind not in wrapper.kinds:
            continue
        does: Mechanism | None = wrapper.mechanism()
        if isinstance(does, Gaussian):  # whatever came before: it bounds what it is handed
            alone = does.shift
            shift = alone if shift is None or reads else min(shift, alone)
            reads = []
        elif shift is not None and not isinstance(does, Processing):
            reads.append(type(wrapper).__name__)
    return shift, reads


def _wrappers(run: Run) -> list[Wrapper]:
    """Those of a run, in their order.

    Raises:
        UsageError: one is not installed, or has other parameters by now.
    """
    out = []
    for one in run.spec["wrappers"]:
        kind = registry.load_plugin("wrappers", one["name"])
        out.append(kind.build(one["params"], f"wrapper {one['name']}"))
    return out
