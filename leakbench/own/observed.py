"""A loop of somebody's own, watched: what it sends is written as a run folder has it."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from leakbench.base import locks, registry
from leakbench.base.arguments import arguments_of
from leakbench.base.errors import UsageError, suggestion
from leakbench.base.lazy import torch
from leakbench.base.tree import Tree
from leakbench.federation.local_steps import Training, trainings
from leakbench.own.arrays import is_whole, short
from leakbench.own.clients import ClientData
from leakbench.own.declared import declared_observer
from leakbench.own.declared_training import declared_training, refuse_other_loss
from leakbench.own.network import Model
from leakbench.own.outside_record import OpenRound, OutsideRecord
from leakbench.own.own_task import make_task
from leakbench.own.told_messages import ToldMessages, apart
from leakbench.record import folders
from leakbench.record.folders import Run
from leakbench.record.messages import Message
from leakbench.record.runspec import make_spec

if TYPE_CHECKING:
    from torch import Tensor

KINDS = ("weights", "difference", "gradient")


@arguments_of("leakbench.observe")
def observe(
    out: str | Path | None = None,
    *,
    name: str,
    model: Model,
    data: ClientData,
    loss: Any = None,
    sgd: Mapping[str, Any] | None = None,
    optimizer: str = "sgd",
    optimizer_state: str = "fresh",
    observer: str | Mapping[str, Any] = "server",
    covered: Sequence[str] = (),
    keep: Mapping[str, Any] | None = None,
    rounds: int | None = None,
    truth: bool = True,
    seed: int = 0,
    restart: bool = False,
) -> Observed:
    """The record of a loop of one's own: a context, whose object is told what is sent.

    Args:
        out: the folder that holds run folders; the record is out/name-s<seed>. None: it lives as
            long as the object does, in a temporary folder, with its attacks.
        name: of the task, small letters, digits and hyphens.
        model: the network that is trained, or a function of the number of outputs that makes it;
            its numbers are not read.
        data: of ``leakbench.clients``: what clients hold, so that guesses can be scored.
        loss: cross-entropy, as ``torch.nn.functional.cross_entropy``; attacks replay it.
        sgd: how clients train: lr (a rate, a list of one for each round, or a function of the
            round; of a round a rate, or a list of one for each local step), batch, steps or epochs;
            momentum, nesterov, weight_decay; clip_norm or clip_value, to which the gradient of a
            step is cut; betas and eps of Adam.
        optimizer: "sgd", "adam" or "adamw".
        optimizer_state: "fresh", where velocity or moments begin anew in each round; "kept", where
            a client goes on with its own: no attack knows them, so the record acquits nobody.
        observer: who is said to observe: "server"; "sum", who receives what clients send summed
            alone; "client/3"; "outsider"; or dict(who=, kinds=, rounds="one", knows=[...]). Attacks
            are held to it. A weaker one than the server, who may know all, acquits nobody.
        covered: kinds that were changed before they were recorded, as by clipping, noise or a sum.
        keep: what stays on the disk, dict(rounds=..., clients=...): of the rounds some of
            "untrained" (the first), "early" and "middle" (near a tenth and half of the loop) and
            "final", all four where nothing is said, or "all", each with every client; how many
            clients of each, drawn, or a list of their numbers; as many as fit into 256 MiB where
            nothing is said, two at least. What is not kept is not attacked, and the record says so.
        rounds: how many the loop will have, if that is known; else powers of two are held until it
            ends, and the nearest to a stage stays.
        truth: False where nobody tells the rows behind an update: there are guesses then and no
            scores, and nothing is acquitted. So it is of ``leakbench.clients.unknown``.
        seed: a number for this repetition of the loop; its numbers of clients stay the same.
        restart: begin anew, whatever is there.

    Raises:
        UsageError: something is wrong with it, or another record is there under this name.
    """
    if out is not None and not isinstance(out, str | Path):
        raise UsageError(f"out is {type(out).__name__}: expected the path of a folder, or None.")
    for called, given in (("restart", restart), ("truth", truth)):
        if not isinstance(given, bool):
            raise UsageError(f"{called} = {given!r}: expected True or False.")
    several = isinstance(covered, list | tuple | set | frozenset)
    kinds: list[Any] = [*covered] if several else [covered]
    for kind in kinds:
        if kind != "update":
            raise UsageError(
                f"covered has {kind!r}: expected ['update'], what clients send, or []."
            )
    refuse_other_loss(loss)
    training = declared_training(sgd, optimizer, optimizer_state)
    make_task(name, data, model=model, begins=False)
    chosen: dict[str, Any] = {"task": name, "seed": seed, "engine": "loop"}
    params = training.parameters(1)
    registry.load_plugin("defenses", training.defense).build(params, "sgd")  # as it is called here
    spec = make_spec(training.defense, params=params, rounds=1, **chosen)
    how: dict[str, Any] = {"keep": keep, "rounds": rounds, "restart": restart}
    how |= {"truth": truth and not data.untold, "observer": declared_observer(observer, len(data))}
    place = Path(mkdtemp(prefix=folders.PASSING) if out is None else out)
    where = place / f"{name}-s{seed}"
    record = OutsideRecord(where, spec, data, training, frozenset(kinds), **how)
    seen = Observed(record, data, truth=how["truth"])
    if out is None:  # gone when nobody holds it any more, and at the latest with the process
        weakref.finalize(seen, shutil.rmtree, place, ignore_errors=True)
    return seen


class Observed:
    """The record of a loop that goes on; each round is on the disk when the next one begins.

    A loop that was killed goes on with the round after the last whole one (``begun``); under other
    data, another network or other settings it is refused. One that is complete takes no more, and
    its ``run`` can be attacked further.
    """

    def __init__(self, record: OutsideRecord, own: ClientData, *, truth: bool) -> None:
        self.path, self._record = record.path, record
        self._told = ToldMessages(
            own, record.data, record.shapes, record.trained, truth, record.method
        )
        self._open: OpenRound | None = None
        self._lock: Any = None
        self._ended = False

    # the context ----------------------------------------------------------------------------------
    def __enter__(self) -> Self:
        self._lock = locks.training_lock(self.path)
        self._lock.__enter__()
        try:
            self._record.begin()
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self._close()
                self._record.end()
                self._ended = True
        finally:
            lock, self._lock, self._open = self._lock, None, None
            lock.__exit__(None, None, None)
            with suppress(OSError):  # which it is not, if anything was written
                self.path.rmdir()

    @property
    def begun(self) -> int:
        """The number of the newest whole round; 0 before the first."""
        return self._record.rounds

    @property
    def run(self) -> Run:
        """The run, for ``leakbench.attack`` and ``leakbench.report``.

        Raises:
            UsageError: the loop has not ended.
        """
        if not self._ended:
            raise UsageError(
                f"{self.path} is still being recorded: ask for .run after the `with` block."
            )
        return folders.load(self.path)

    @arguments_of("sent")
    def sent(
        self,
        kind: str,
        tensors: Mapping[str, Tensor],
        *,
        round: int,
        clients: Sequence[int] | None = None,
    ) -> None:
        """The server sent ``tensors`` to the clients of a round, 1, 2, ...: what they begin with.

        Args:
            kind: "model".
            tensors: as ``state_dict()`` has them; they are copied.
            round: of the loop; the one before is written.
            clients: who received it; all who send an update, if None.

        Raises:
            UsageError: it is no such model, or rounds are out of order.
        """
        if kind != "model":
            raise UsageError(f"the server sent {kind!r}: expected 'model'.")
        receivers = None if clients is None else self._told.clients(clients)
        self._to(round)
        now = self._current(round)
        if now.model:
            raise UsageError(f"the model of round {round} was recorded already: send it once.")
        now.model = self._told.tensors(tensors, f"the model of round {round}")
        now.receivers = receivers

    @arguments_of("update")
    def update(
        self,
        tensors: Mapping[str, Tensor],
        *,
        client: int,
        round: int,
        rows: Any = None,
        what: str = "weights",
        sparse: bool = False,
        uncovered: Mapping[str, Tensor] | None = None,
        examples: int | None = None,
    ) -> None:
        """A client sent this after its training in a round.

        Args:
            tensors: its weights (the difference to the model is taken here); or, as ``what`` says,
                the difference itself, or the "gradient" of one step.
            client: its number in ``data``.
            round: of the loop.
            rows: the places, in ``data.client(client)``, of the examples that it trained on, in
                their order, or a list of them for each step; all of its own if None.
            what: "weights", "difference" or "gradient".
            sparse: where the difference is 0 nothing was sent (of the largest k, say): these zeros
                are no data, and attacks do not match them. Such updates are ``covered``.
            uncovered: the same as it would have been sent without clipping, noise and the like,
                for the control; it stays on this machine, and no attack is shown it.
            examples: of a record without truth, how many it trained on, if that is known; steps of
                whole batches where clients train by steps and nothing is said.

        Raises:
            UsageError: it is not what it is called, or comes out of order.
        """
        now, whose = self._current(round), f"the {what} of client {client} in round {round}"
        round = now.t
        if what not in KINDS:
            raise UsageError(
                f"what = {what!r}: expected one of {', '.join(KINDS)}."
                f"{suggestion(str(what), KINDS)}"
            )
        self._begun_round(now, f"client {client} sends an update", summed=False)
        (number,) = self._told.clients([client])
        if number in now.who:
            raise UsageError(f"client {client} sent an update in round {round} already.")
        given = self._told.tensors(tensors, whose, whole=what == "weights")
        moved = self._told.moved(given, now.model, round, what, whose)
        self._covered_first(client, given=uncovered is not None)
        if not isinstance(sparse, bool) or (sparse and not self._record.covered):
            raise UsageError(
                f"client {client} gives sparse = {sparse!r}: expected True or False, and with True"
                " observe(..., covered=['update']), for something of the update is not sent."
            )
        twin = next((m for m in now.sent if apart(m.payload, moved) == 0), None)
        if twin is not None:
            raise UsageError(
                f"{whose} are to the last bit those of {twin.sender}: expected what each client"
                " has after its own training."
            )
        training = trainings(self._record.method, round)[0]
        behind = self._told.trained_on(number, rows, training) if self._told.truth else None
        many = self._told.counted(client, rows, examples, training)
        alone = None if uncovered is None else self._alone(uncovered, number, now, what)
        self._record.sums(summed=False)
        sent = Message(round, training.phase, f"client/{number}", "server", "update", moved)
        now.sent.append(replace(sent, sparse=sparse))
        plain = None if self._record.covered else moved
        if alone:
            plain = alone.payload
            now.bare.append(alone)
        self._behind(now, number, behind, training, plain, ordered=rows is not None)
        if many:
            now.labels[str(number)] = {str(training.phase): {"n": torch.tensor(many)}}
        now.moved.append((int(self._told.data.sizes[number]), moved))

    @arguments_of("aggregate")
    def aggregate(
        self,
        total: Mapping[str, Tensor],
        *,
        clients: Sequence[int],
        round: int,
        rows: Mapping[int, Any] | None = None,
        what: str = "difference",
        mean: bool = False,
        uncovered: Mapping[int, Mapping[str, Tensor]] | None = None,
    ) -> None:
        """An aggregator gave the server this, the sum of what clients sent it, and nothing else.

        Args:
            total: the sum of the clients' differences to the model; or, as ``what`` says, of their
                "weights".
            clients: the numbers of those that are in it, two or more.
            round: of the loop.
            rows: for each client as in ``update``.
            what: "difference" or "weights".
            mean: it is their mean, weighted or not, and no sum.
            uncovered: what each client would have sent without the aggregator, for the control; it
                stays on this machine, and no attack on the server's part is shown it.

        Raises:
            UsageError: it is not what it is called, comes out of order, or is of one client alone.
        """
        now, whose = self._current(round), f"the sum of round {round}"
        t = now.t
        if what not in ("difference", "weights"):
            raise UsageError(f"what = {what!r}: expected 'difference' or 'weights'.")
        if not isinstance(mean, bool):
            raise UsageError(f"mean = {mean!r}: expected True or False.")
        self._begun_round(now, "a sum arrives", summed=True)
        who = self._told.clients(clients)
        if len(who) < 2 or len(who) != len(list(clients)):
            raise UsageError(
                f"{whose} is of the clients {short(list(clients))}: expected two or more, each"
                " once; of one alone a sum is its update, so record it with seen.update."
            )
        if now.who:
            raise UsageError(f"{whose} was recorded already: expected one for each round.")
        for called, told in (("rows", rows), ("uncovered", uncovered)):
            self._told_of(called, told, who)
        given = self._told.tensors(total, whose, whole=what == "weights")
        share = 1.0 if mean else 1 / len(who)
        floats = {k: v * share for k, v in given.items() if v.is_floating_point()}
        moved = self._told.moved(floats, now.model, t, what, whose)
        training = trainings(self._record.method, t)[0]
        each = {}
        if self._told.truth:
            each = {c: self._told.trained_on(c, (rows or {}).get(c), training) for c in who}
        alone = {c: self._alone(v, int(c), now, what) for c, v in (uncovered or {}).items()}
        self._record.sums(summed=True)
        now.bare += alone.values()
        for c in who:
            ordered = rows is not None and c in rows
            plain = alone[c].payload if c in alone else None
            self._behind(now, c, each.get(c), training, plain, ordered=ordered)
        now.sent += [replace(m, receiver="aggregator") for m in alone.values()]
        arrived = (t, training.phase, "aggregator", "server", "sum")
        now.sent.append(Message(*arrived, {"update": moved}))
        now.moved.append((1, moved))

    def _begun_round(self, now: OpenRound, what: str, *, summed: bool) -> None:
        """Raise UsageError where no model was sent, or sums and single updates are mixed."""
        if self._record.summed not in (None, summed):
            raise UsageError(
                "this record is of single updates and of sums: expected one of the two; give the"
                " other another name."
            )
        if not now.model:
            raise UsageError(
                f"{what} in round {now.t}, and no model was recorded there: call"
                f" seen.sent('model', net.state_dict(), round={now.t}) before."
            )

    def _covered_first(self, client: int, *, given: bool) -> None:
        if given and not self._record.covered:
            raise UsageError(
                f"client {client} gives uncovered, and nothing is covered: expected observe(...,"
                " covered=['update']), or no uncovered."
            )

    @staticmethod
    def _told_of(called: str, told: Any, who: Sequence[int]) -> None:
        """Raise UsageError where ``told`` is not by the numbers of clients in a sum."""
        odd = [c for c in told if c not in who] if isinstance(told, Mapping) else [told]
        if told is not None and odd:
            raise UsageError(
                f"{called} of a sum has {short(odd[0])}: expected a dict by the numbers of its"
                f" clients, {', '.join(map(str, who))}."
            )

    def _alone(self, tensors: Mapping[str, Any], client: int, now: OpenRound, what: str) -> Message:
        """What a client would have sent uncovered, for the control."""
        whose = f"the uncovered {what} of client {client} in round {now.t}"
        told = self._told.tensors(tensors, whose, whole=what == "weights")
        bare = self._told.moved(told, now.model, now.t, what, whose)
        phase = trainings(self._record.method, now.t)[0].phase
        return Message(now.t, phase, f"client/{client}", "server", "update", bare)

    def _behind(
        self,
        now: OpenRound,
        client: int,
        behind: tuple[Tensor, list[Tensor]] | None,
        training: Training,
        plain: Tree | None,
        *,
        ordered: bool,
    ) -> None:
        """The truth behind what a client sent, and what it sent uncovered, where that is told."""
        now.who.append(client)
        if behind is None:
            return
        own, steps = behind
        if plain is not None:
            now.told.append((client, steps, plain, ordered or len(steps) < 2))
        batch = {"y": self._told.data.train.y[own], "rows": own}
        numbers = len(own) * self._told.data.train.stored[0].numel()
        if numbers <= 2**18 or training.steps == 1:
            batch["x"] = self._told.data.train.images(own)
        phase = str(training.phase)
        now.truth[str(client)] = {phase: batch}
        now.labels[str(client)] = {phase: {"y": batch["y"]}}

    @arguments_of("utility")
    def utility(self, metric: str, scores: Any, *, round: int) -> None:
        """What the model after a round gains: a score for each test example, 0 to 1.

        Where nothing is told, it is the accuracy on ``data.test`` of the mean of what was sent.

        Raises:
            UsageError: it is another metric than before, or not a score for each.
        """
        now = self._current(round)
        if metric != self._record.metric:
            raise UsageError(
                f"utility {metric!r}: this record's is {self._record.metric!r}; tell it, or"
                " nothing."
            )
        many = len(self._told.data.test)
        try:
            given = torch.as_tensor(scores)
            found = given.detach().cpu().flatten().float() if not given.is_complex() else None
        except (TypeError, ValueError, RuntimeError):
            found = None
        if found is None:
            raise UsageError(
                f"utility of round {round} is {type(scores).__name__} of no numbers: expected one"
                f" for each of {many} test examples, as in (net(x).argmax(1) == y)."
            )
        if len(found) != many or not bool(found.isfinite().all()):
            raise UsageError(
                f"utility of round {round} has {len(found)} scores: expected a finite one for each"
                f" of {many} test examples, as in (net(x).argmax(1) == y)."
            )
        if float(found.min()) < 0 or float(found.max()) > 1:
            raise UsageError(
                f"utility of round {round} lies between {float(found.min()):g} and"
                f" {float(found.max()):g}: expected 0 to 1 for each example."
            )
        self._record.scores.scores[now.t] = found

    def _current(self, round: int) -> OpenRound:
        if self._open is None or not is_whole(round) or self._open.t != round:
            at = "none is open" if self._open is None else f"round {self._open.t} is open"
            raise UsageError(
                f"round {round!r} was told of, and {at}: begin a round with seen.sent('model', ...,"
                f" round={round})."
            )
        return self._open

    def _to(self, round: int) -> None:
        """Write the round that is open, if another one begins."""
        if self._ended or self._lock is None:
            raise UsageError("nothing is recorded here: use `with leakbench.observe(...) as seen`.")
        if self._record.complete:
            self._record.refuse_more()
        if self._open is not None and is_whole(round) and self._open.t == round:
            return
        expected = self._record.rounds + (self._open is not None) + 1
        if not is_whole(round) or round != expected:
            raise UsageError(
                f"round {round!r} begins after {expected - 1} rounds: expected round={expected};"
                " rounds are counted from 1 on, without a gap."
            )
        self._close()
        self._record.declare(int(round))
        self._told.method = self._record.method
        self._open = OpenRound(int(round))

    def _close(self) -> None:
        """Write the round that is open."""
        if self._open is not None:
            self._record.close(self._open)
            self._open = None
