"""A loop of somebody's own, watched: what it sends is written as a run folder has it."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from leakbench.base import locks, terminal
from leakbench.base.errors import MethodError, UsageError, suggestion
from leakbench.base.files import (
    digests,
    read_sealed,
    read_tree,
    write_csv,
    write_sealed,
    write_tree,
)
from leakbench.base.lazy import torch
from leakbench.base.tree import Tree, flat, nbytes
from leakbench.federation.evaluate import Evaluations
from leakbench.federation.federation import Federation
from leakbench.federation.local_steps import Training, trainings
from leakbench.federation.optimizer import reach
from leakbench.federation.traffic import Traffic, party
from leakbench.own import likeness
from leakbench.own.arrays import is_whole, short
from leakbench.own.clients import ClientData
from leakbench.own.declared import declared_observer
from leakbench.own.declared_training import DeclaredTraining, declared_training
from leakbench.own.kept_messages import KeptMessages
from leakbench.own.network import Model
from leakbench.own.own_task import make_task
from leakbench.record import audited, exporting, folders, private_data
from leakbench.record import origin as origins
from leakbench.record.columns import RUN_DIAGNOSTICS, RUN_UTILITY
from leakbench.record.folders import Run
from leakbench.record.knowledge import DeclaredObserver
from leakbench.record.messages import Message, StoredTensors, round_file, write_messages
from leakbench.record.run_json import run_described
from leakbench.record.runspec import Choice, Parts, RunSpec, make_spec, parts
from leakbench.record.training import utility_rows

if TYPE_CHECKING:
    from torch import Tensor

STATE = Path("checkpoint") / "outside.safetensors"
SUMS = "secure_sum"  # the wrapper that stands for an aggregator
KINDS = ("weights", "difference", "gradient")
# A difference is small beside the weights, and is no small step away from them.
SMALL = 0.5


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
    _known_loss(loss)
    training = declared_training(sgd, optimizer, optimizer_state)
    make_task(name, data, model=model, begins=False)
    chosen: dict[str, Any] = {"task": name, "seed": seed, "engine": "loop"}
    spec = make_spec(training.defense, params=training.parameters(1), rounds=1, **chosen)
    how: dict[str, Any] = {"keep": keep, "rounds": rounds, "restart": restart}
    how |= {"truth": truth and not data.untold, "observer": declared_observer(observer, len(data))}
    place = Path(mkdtemp(prefix="leakbench-") if out is None else out)
    seen = Observed(place / f"{name}-s{seed}", spec, data, training, frozenset(kinds), **how)
    if out is None:  # gone when nobody holds it any more, and at the latest with the process
        weakref.finalize(seen, shutil.rmtree, place, ignore_errors=True)
    return seen


def _known_loss(loss: Any) -> None:
    """Raise UsageError where it is no cross-entropy: attacks would replay another loss."""
    called = getattr(loss, "__name__", type(loss).__name__)
    plain = (
        *("cross_entropy", "CrossEntropyLoss"),
        *("binary_cross_entropy_with_logits", "BCEWithLogitsLoss"),
    )
    if loss is not None and called not in plain:
        raise UsageError(
            f"loss is {called}: expected cross-entropy ({', '.join(plain)}), which attacks replay;"
            " a loss of your own goes into a method of your own (docs/methods.md)."
        )
    smooth = getattr(loss, "label_smoothing", 0.0)
    weighted = getattr(loss, "weight", None) is not None
    summed = getattr(loss, "reduction", "mean") != "mean"
    if smooth or weighted or summed:
        faults = {"label_smoothing": smooth, "class weights": weighted, "a sum for a mean": summed}
        what = next(name for name, on in faults.items() if on)
        raise UsageError(f"loss has {what}, which attacks do not replay: expected it without.")


@dataclass
class _Round:
    """What was recorded of the round that is open."""

    t: int
    model: Tree = field(default_factory=dict)
    sent: list[Message] = field(default_factory=list)
    bare: list[Message] = field(default_factory=list)  # as it would have been sent uncovered
    truth: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, Any] = field(default_factory=dict)
    # Clients with the rows of their steps, what was sent uncovered, and whether the order is known.
    told: list[tuple[int, list[Tensor], Tree, bool]] = field(default_factory=list)
    moved: list[tuple[int, Tree]] = field(default_factory=list)  # examples, update
    who: list[int] = field(default_factory=list)  # clients that took part


class Observed:
    """The record of a loop that goes on; each round is on the disk when the next one begins.

    A loop that was killed goes on with the round after the last whole one (``begun``); under other
    data, another network or other settings it is refused.
    """

    def __init__(
        self,
        path: Path,
        spec: RunSpec,
        data: ClientData,
        training: DeclaredTraining,
        covered: frozenset[str],
        *,
        keep: Mapping[str, Any] | None,
        rounds: int | None,
        truth: bool,
        observer: DeclaredObserver | None,
        restart: bool,
    ) -> None:
        self._truth, self._observer = truth, observer
        self.path, self._spec, self._own, self._restart = path, spec, data, restart
        self._training = training
        self._parts: Parts = parts(spec)
        self._data = self._parts.task.examined(data.data)
        try:
            self._fed = self._federation()
        except MethodError as error:  # the network is the user's
            said = str(error).rstrip(".")
            raise UsageError(f"model: {said}; give one that the data fit.") from None
        self._shapes = self._expected()
        self._trained = [k for k, v in self._fed.module.named_parameters() if v.requires_grad]
        update = nbytes({k: v for k, v in self._shapes.items() if v.is_floating_point()})
        self._kept = KeptMessages.of(
            keep,
            rounds,
            clients=len(data),
            model=nbytes(self._shapes),
            update=update * (2 if covered else 1),
        )
        self._stored = StoredTensors()  # what stands in the first round's file
        self._receivers: list[int] | None = None
        self._traffic, self._scores = Traffic(set(covered)), Evaluations()
        self._metric = self._parts.task.metric
        self._open: _Round | None = None
        self._rounds = 0  # whole ones
        self._bare = True  # was everything told uncovered, too?
        self._strange = False  # was something sent that the declared training does not make?
        self._summed: bool | None = None  # does the server get sums alone? None: nothing was told
        self._lock: Any = None
        self._ended = False

    # the context ----------------------------------------------------------------------------------
    def __enter__(self) -> Self:
        self._origin = origins.origin_of(self._spec, self._data, "cpu")
        self._lock = locks.training_lock(self.path)
        self._lock.__enter__()
        try:
            self._begin()
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
                self._end()
        finally:
            lock, self._lock, self._open = self._lock, None, None
            lock.__exit__(None, None, None)
            with suppress(OSError):  # which it is not, if anything was written
                self.path.rmdir()

    @property
    def begun(self) -> int:
        """The number of the newest whole round; 0 before the first."""
        return self._rounds

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

    # what is told ---------------------------------------------------------------------------------
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
        receivers = None if clients is None else self._known(clients)
        self._to(round)
        now = self._current(round)
        if now.model:
            raise UsageError(f"the model of round {round} was recorded already: send it once.")
        now.model = self._tensors(tensors, f"the model of round {round}")
        self._receivers = receivers

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
        (number,) = self._known([client])
        if number in now.who:
            raise UsageError(f"client {client} sent an update in round {round} already.")
        given = self._tensors(tensors, whose, whole=what == "weights")
        moved = self._moved(given, now, what, whose)
        self._covered_first(client, given=uncovered is not None)
        if not isinstance(sparse, bool) or (sparse and not self._traffic.covered):
            raise UsageError(
                f"client {client} gives sparse = {sparse!r}: expected True or False, and with True"
                " observe(..., covered=['update']), for something of the update is not sent."
            )
        twin = next((m for m in now.sent if _apart(m.payload, moved) == 0), None)
        if twin is not None:
            raise UsageError(
                f"{whose} are to the last bit those of {twin.sender}: expected what each client"
                " has after its own training."
            )
        training = trainings(self._parts.method, round)[0]
        behind = self._trained_on(number, rows, training) if self._truth else None
        many = self._counted(client, rows, examples, training)
        alone = None if uncovered is None else self._alone(uncovered, number, now, what)
        self._sums(summed=False)
        sent = Message(round, training.phase, f"client/{number}", "server", "update", moved)
        now.sent.append(replace(sent, sparse=sparse))
        plain = None if self._traffic.covered else moved
        if alone:
            plain = alone.payload
            now.bare.append(alone)
        self._behind(now, number, behind, training, plain, ordered=rows is not None)
        if many:
            now.labels[str(number)] = {str(training.phase): {"n": torch.tensor(many)}}
        now.moved.append((int(self._data.sizes[number]), moved))

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
        who = self._known(clients)
        if len(who) < 2 or len(who) != len(list(clients)):
            raise UsageError(
                f"{whose} is of the clients {short(list(clients))}: expected two or more, each"
                " once; of one alone a sum is its update, so record it with seen.update."
            )
        if now.who:
            raise UsageError(f"{whose} was recorded already: expected one for each round.")
        for called, told in (("rows", rows), ("uncovered", uncovered)):
            self._told_of(called, told, who)
        given = self._tensors(total, whose, whole=what == "weights")
        share = 1.0 if mean else 1 / len(who)
        floats = {k: v * share for k, v in given.items() if v.is_floating_point()}
        moved = self._moved(floats, now, what, whose)
        training = trainings(self._parts.method, t)[0]
        each = {}
        if self._truth:
            each = {c: self._trained_on(c, (rows or {}).get(c), training) for c in who}
        alone = {c: self._alone(v, int(c), now, what) for c, v in (uncovered or {}).items()}
        self._sums(summed=True)
        now.bare += alone.values()
        for c in who:
            ordered = rows is not None and c in rows
            plain = alone[c].payload if c in alone else None
            self._behind(now, c, each.get(c), training, plain, ordered=ordered)
        now.sent += [replace(m, receiver="aggregator") for m in alone.values()]
        arrived = (t, training.phase, "aggregator", "server", "sum")
        now.sent.append(Message(*arrived, {"update": moved}))
        now.moved.append((1, moved))

    def _begun_round(self, now: _Round, what: str, *, summed: bool) -> None:
        """Raise UsageError where no model was sent, or sums and single updates are mixed."""
        if self._summed not in (None, summed):
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
        if given and not self._traffic.covered:
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

    def _sums(self, *, summed: bool) -> None:
        """The server gets sums alone, as by the wrapper, or single updates alone."""
        if summed and self._summed is None:
            self._traffic.covered.add("update")
            wrapper = Choice(name=SUMS, params={"kinds": ["update"]})
            self._spec = self._spec.model_copy(update={"wrappers": (wrapper,)})
            self._parts = replace(self._parts, wrappers=parts(self._spec).wrappers)
            # The wrapper's code is among what the record rests on from now on.
            self._origin = origins.origin_of(self._spec, self._data, "cpu")
            vars(self).pop("_about", None)
        self._summed = summed

    def _alone(self, tensors: Mapping[str, Any], client: int, now: _Round, what: str) -> Message:
        """What a client would have sent uncovered, for the control."""
        whose = f"the uncovered {what} of client {client} in round {now.t}"
        told = self._tensors(tensors, whose, whole=what == "weights")
        bare = self._moved(told, now, what, whose)
        phase = trainings(self._parts.method, now.t)[0].phase
        return Message(now.t, phase, f"client/{client}", "server", "update", bare)

    def _behind(
        self,
        now: _Round,
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
        batch = {"y": self._data.train.y[own], "rows": own}
        numbers = len(own) * self._data.train.stored[0].numel()
        if numbers <= 2**18 or training.steps == 1:
            batch["x"] = self._data.train.images(own)
        phase = str(training.phase)
        now.truth[str(client)] = {phase: batch}
        now.labels[str(client)] = {phase: {"y": batch["y"]}}

    def utility(self, metric: str, scores: Any, *, round: int) -> None:
        """What the model after a round gains: a score for each test example, 0 to 1.

        Where nothing is told, it is the accuracy on ``data.test`` of the mean of what was sent.

        Raises:
            UsageError: it is another metric than before, or not a score for each.
        """
        now = self._current(round)
        if metric != self._metric:
            raise UsageError(
                f"utility {metric!r}: this record's is {self._metric!r}; tell it, or nothing."
            )
        many = len(self._data.test)
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
        self._scores.scores[now.t] = found

    # rounds ---------------------------------------------------------------------------------------
    def _current(self, round: int) -> _Round:
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
        if self._open is not None and is_whole(round) and self._open.t == round:
            return
        expected = self._rounds + (self._open is not None) + 1
        if not is_whole(round) or round != expected:
            raise UsageError(
                f"round {round!r} begins after {expected - 1} rounds: expected round={expected};"
                " rounds are counted from 1 on, without a gap."
            )
        self._close()
        self._declare(int(round))
        self._open = _Round(int(round))

    def _declare(self, rounds: int) -> None:
        """The method has the rates of so many rounds; the spec says so once they are whole."""
        if self._training.rates is None:
            return
        params = self._training.parameters(rounds)
        choice = self._spec.defense.model_copy(update={"params": params})
        self._spec = self._spec.model_copy(update={"defense": choice})
        method = parts(self._spec).method
        self._parts = replace(self._parts, method=method)
        self._fed.method = self._fed.runner.method = method

    def _close(self) -> None:
        """Write the open round and the checkpoint behind it."""
        now = self._open
        if now is None:
            return
        if not now.sent:
            raise UsageError(f"no client sent an update in round {now.t}: record one at least.")
        who = sorted(now.who)
        receivers = self._receivers if self._receivers is not None else who
        gone = sorted({*who} - {*receivers})
        if gone:
            raise UsageError(f"client {gone[0]} sent an update of a model that it did not receive.")
        if not self._rounds:  # what is wrong before leaves the folder as it was
            if self._restart:
                _cleared(self.path)
            self._say_size()
            self._keep()
        self._traffic.down(now.t, "model", receivers, now.model, each=False)
        order = sorted(now.sent, key=lambda m: (m.kind == "sum", party(m.sender)))
        one, summed = now.moved[0][1], bool(self._summed)
        self._traffic.up(now.t, "update", who, one, summed=summed, stacked=False)
        self._bare = self._bare and len(now.bare) == len(now.who)
        self._write(now, who, order)
        self._compare(now)
        if now.t not in self._scores.scores:
            self._scores.scores[now.t] = self._measured(now)
        self._rounds, self._open = now.t, None
        self._settle()
        self._keep()
        self._thin(self._kept.held(self._rounds))

    def _settle(self) -> None:
        """The spec says of how many rounds the record is, and what is kept of them."""
        how = {"rounds": self._rounds, "record": self._kept.policy(self._rounds)}
        self._spec = self._spec.model_copy(update=how)

    def _write(self, now: _Round, who: Sequence[int], sent: Sequence[Message]) -> None:
        """The files of a round: of those whose updates are kept."""
        kept = self._kept.senders(who, now.t, self._spec.seed)
        names = {"aggregator", *(f"client/{c}" for c in kept)}
        model = Message(now.t, 0, "server", "client/*", "model", now.model)
        file, head = round_file(now.t), {"round": now.t}
        some = [model, *(m for m in sent if m.sender in names)]
        write_messages(self.path / "transcript" / file, some, self._stored)
        if now.t == 1 and "untrained" in self._kept.stages:
            self._stored = StoredTensors.of(self.path / "transcript" / file)
        as_sent = {m.name: m.payload for m in some}
        bare = [
            m
            for m in now.bare
            if m.sender in names and not _same(m.payload, as_sent.get(m.name, {}))
        ]
        if bare:
            write_messages(self.path / "control" / file, bare)
        for room, told in (("known", now.labels), ("truth", now.truth)):
            of_kept = {c: entry for c, entry in told.items() if int(c) in kept}
            if not self._truth and not of_kept:
                continue
            write_tree(self.path / room / file, {"client": of_kept}, head, sync=False)

    def _thin(self, held: Collection[int]) -> None:
        """Take away the files of all other rounds, those of one that was killed among them."""
        names = {round_file(t) for t in held}
        for file in self.path.glob("*/round-*.safetensors"):
            if file.name not in names:
                file.unlink()

    def _say_size(self) -> None:
        """One line on what the record will take, before anything is written."""
        kept, data = self._kept, self._data
        private = nbytes(data.train.stored)
        beside = nbytes(data.aux.stored) + (private if private <= private_data.LARGEST else 0)
        many = "for each round" if kept.whole and not kept.rounds else ""
        which = "all" if kept.whole else ", ".join(kept.stages)
        size = f"up to {(kept.size + beside) / 1e6:.1f} MB {many}".rstrip()
        terminal.say(
            f"leakbench: {self.path.name} will take {size}, of the rounds {which} and of"
            f" {kept.many} of {len(self._own)} clients; keep=dict(rounds=..., clients=...) keeps"
            " others."
        )

    def _compare(self, now: _Round) -> None:
        """Say where attacks replay something else than was done; one client's update a round.

        What they do not find then acquits nobody.
        """
        if self._strange:
            return
        if self._training.kept and now.t > 1:
            self._strange = True
            terminal.say(
                "leakbench: clients keep the state of their optimizer from round to round, and no"
                f" message tells it: from round {now.t} on attacks replay steps that begin anew,"
                " which are not those that were made. This record may accuse and never acquits"
                " (flag no_control)."
            )
            return
        if not now.told:
            return
        client, steps, sent, ordered = now.told[now.t % len(now.told)]
        self._fed.t = now.t
        found = likeness.unlike(self._fed, now.model, client, steps, sent, ordered=ordered)
        if found is not None:
            self._strange = True
            terminal.say(
                f"leakbench: what client {client} sent in round {now.t} is not what the declared"
                f" training makes of its rows (cosine {found[0]:.2f}, {found[1]:.2g} times as"
                " long): see whether sgd, loss, rows and the scaling of data are those of the loop,"
                " and covered where messages were changed. Until then this record may accuse and"
                " never acquits (flag no_control)."
            )

    def _measured(self, now: _Round) -> Tensor:
        """The metric, of the mean of what was sent, weighted by what clients hold."""
        total = sum(n for n, _ in now.moved)
        after = dict(now.model)
        for n, moved in now.moved:
            after = {k: v + moved[k] * (n / total) if k in moved else v for k, v in after.items()}
        self._fed.t, self._fed.model = now.t, after
        scores = Evaluations()
        scores.add(self._fed)
        self._scores.diagnostics += scores.diagnostics
        return scores.scores[now.t]

    # the folder -----------------------------------------------------------------------------------
    def _begin(self) -> None:
        """A new record, or the one that is there."""
        where = self.path / "run.json"
        if not where.exists():
            if not self._restart and any(p.name != ".lock" for p in self.path.iterdir()):
                raise UsageError(f"{self.path} holds something else: give another name, or out.")
            return
        then = read_sealed(where)
        if not origins.is_outside(then):
            raise UsageError(f"{self.path} is a run that leakbench trained: give another name.")
        if self._restart:
            return
        self._declare(max(int(then["spec"]["rounds"]), 1))
        if then["status"] == "done":
            raise UsageError(
                f"{self.path} is complete: give another name or seed, or restart=True, which"
                " replaces it and its attacks."
            )
        differs = _differs(then["spec"], self._spec.model_dump(mode="json"))
        if not differs and not (self.path / STATE).exists():
            return
        tree, meta = read_tree(self.path / STATE) if not differs else ({}, {})
        if not differs and meta["summed"] is not None:
            self._sums(summed=bool(meta["summed"]))
        if not differs and {*meta["covered"]} != self._traffic.covered:
            differs = "another covered"
        if not differs:
            unlike = origins.unlike_parts(
                meta["origin"], {**self._origin, "run": meta["origin"]["run"]}
            )
            differs = ", ".join(f"{origins.part_text(k)} that differs" for k in unlike)
        if differs:
            raise UsageError(
                f"{self.path} was begun with {differs}: go on as it was begun, give another name,"
                " or restart=True, which replaces it and its attacks."
            )
        if meta["how"] != self._how:
            raise UsageError(
                f"{self.path} was begun with another keep, truth or observer: go on as it was"
                " begun, give another name, or restart=True, which replaces it and its attacks."
            )
        self._rounds, self._bare = int(meta["rounds"]), bool(meta["bare"])
        self._strange = bool(meta["strange"])
        self._traffic.restore(tree.get("traffic", {}), meta["totals"])
        scores = {int(t): v for t, v in flat(tree.get("scores", {})).items()}
        self._scores = Evaluations(scores, [(t, n, v) for t, n, v in meta["diagnostics"]])
        if self._rounds:
            self._settle()
            if "untrained" in self._kept.stages:
                self._stored = StoredTensors.of(self.path / "transcript" / round_file(1))

    def _keep(self) -> None:
        """How things stand between two rounds."""
        rows, totals = self._traffic.state()
        measured = {f"{t:06d}": v for t, v in self._scores.scores.items()}
        tree = {"traffic": rows, "scores": measured}
        meta = {"rounds": self._rounds, "totals": totals, "origin": self._origin}
        meta |= {
            "bare": self._bare,
            "strange": self._strange,
            "summed": self._summed,
            "covered": sorted(self._traffic.covered),
            "how": self._how,
        }
        write_tree(self.path / STATE, tree, {**meta, "diagnostics": self._scores.diagnostics})
        write_sealed(self.path / "run.json", {**self._described(), "status": "running"})

    def _described(self) -> dict[str, Any]:
        """run.json as it stands, without its status."""
        spec = self._spec
        alone = self._strange or (bool(self._traffic.covered) and not self._bare)
        more: dict[str, Any] = {"no_control": True} if alone else {}
        more |= {"declared": self._observer.told} if self._observer else {}
        more |= {"hides": bool(self._traffic.covered)}
        more |= {"id": spec.folder(), "spec": spec.model_dump(mode="json")}
        stages = spec.record.stages(spec.rounds)
        kept = spec.rounds if spec.record.name == "all" else len(stages)
        more |= {"pooled": kept if self._traffic.covered else 0}
        return {**self._about, **more, "stages": stages}

    @property
    def _how(self) -> dict[str, Any]:
        """By which a loop that is gone on with is known, beside its spec."""
        who = self._observer.told if self._observer else {}
        return {"keep": self._kept.settings, "truth": self._truth, "observer": who}

    @cached_property
    def _about(self) -> dict[str, Any]:
        """What of run.json does not depend on the rounds."""
        facts = origins.origin_facts(self._origin, [], self._data)
        told = run_described(self._spec, self._parts, self._federation(), "cpu", facts)
        return {**told, "origin": origins.OUTSIDE, "command": ""}

    def _federation(self) -> Federation:
        """One that begins: of the network, and to measure utility; nothing of it is trained."""
        made, spec = self._parts, self._spec
        return Federation(made.method, made.task, self._data, seed=spec.seed, engine=spec.engine)

    def _end(self) -> None:
        """Everything that is written once, run.json last."""
        self._close()
        if not self._rounds:
            raise UsageError("nothing was recorded: call seen.sent and seen.update in the loop.")
        path = self.path
        write_csv(
            path / "utility.csv", RUN_UTILITY, utility_rows(self._metric, self._scores.scores)
        )
        measured = {f"{t:06d}": v for t, v in self._scores.scores.items()}
        write_tree(path / "utility.safetensors", measured, {"metric": self._metric})
        told = [dict(zip(RUN_DIAGNOSTICS, d, strict=True)) for d in self._scores.diagnostics]
        write_csv(path / "diagnostics.csv", RUN_DIAGNOSTICS, told)
        head = {"columns": ["round", "sender", "receiver"]}
        traffic = self._traffic.tensors()
        write_tree(path / "transcript" / "rounds.safetensors", traffic, head)
        private_data.write_aux(path / "known" / "aux_data.safetensors", self._data, self._spec.task)
        if self._truth:
            truth = path / "truth" / "data.safetensors"
            private_data.write_private_data(truth, self._data, self._spec.task)
        (path / STATE).unlink(missing_ok=True)
        policy = self._spec.record
        if policy.name != "all":
            self._thin(policy.stages(self._rounds).values())
        who = self._observer.words if self._observer else ""
        gone = audited.outside_lacking(policy, self._rounds, traffic["update"].tolist(), who)
        done = {**self._described(), "status": "done", "sent": self._traffic.table()}
        done |= {"missing": audited.missing_lines(gone)}
        done |= {"phases": {"loss": "outside"}, "fallbacks": {}}
        without = ("attacks/", STATE.as_posix(), "run.json")
        write_sealed(path / "run.json", {**done, "files": digests(path, without=without)})
        if not self._truth:
            exporting.untold(folders.load(path))
        self._ended = True

    # what is told, examined -----------------------------------------------------------------------
    def _expected(self) -> dict[str, Tensor]:
        """The tensors of the network by name."""
        return dict(self._fed.model)

    def _known(self, clients: Sequence[int]) -> list[int]:
        plain = clients.tolist() if hasattr(clients, "tolist") else clients
        if isinstance(plain, str) or not isinstance(plain, Iterable):
            raise UsageError(f"clients is {plain!r}: expected a list of the numbers of clients.")
        found = list(plain)
        for c in found:
            self._own.known(c)
        return sorted({int(c) for c in found})

    def _tensors(
        self, given: Mapping[str, Any], whose: str, *, whole: bool = True
    ) -> dict[str, Tensor]:
        """A copy of what was given, which has the network's names, shapes and finite numbers."""
        if not isinstance(given, Mapping):
            raise UsageError(
                f"{whose} came as {type(given).__name__}: expected tensors by name, as"
                " net.state_dict() has them."
            )
        odd = [k for k in given if k not in self._shapes]
        if odd:
            raise UsageError(
                f"in {whose} there is a tensor {odd[0]!r}, which the network has not."
                f"{suggestion(str(odd[0]), self._shapes)}"
            )
        floats = [k for k, v in self._shapes.items() if v.is_floating_point()]
        gone = [k for k in (floats if whole else self._trained) if k not in given]
        if gone:
            raise UsageError(
                f"in {whose} the tensor {gone[0]!r} is missing: give all that the network has."
            )
        out = {}
        for k, v in given.items():
            tensor = _copied(v)
            if tensor is None or tensor.is_floating_point() != (k in floats):
                kind = getattr(v, "dtype", type(v).__name__)
                raise UsageError(
                    f"in {whose} {k!r} is {kind}: expected {self._shapes[k].dtype}, as the network"
                    " has it."
                )
            if tensor.shape != self._shapes[k].shape:
                raise UsageError(
                    f"in {whose} {k!r} is of shape {tuple(tensor.shape)}: expected"
                    f" {tuple(self._shapes[k].shape)}, as the network has it."
                )
            if tensor.is_floating_point():
                tensor = tensor.float()
                if not bool(tensor.isfinite().all()):
                    raise UsageError(
                        f"in {whose} {k!r} is not finite: the training diverged; take a smaller lr."
                    )
            out[k] = tensor
        return out

    def _moved(self, given: Tree, now: _Round, what: str, whose: str) -> dict[str, Tensor]:
        """The difference that is sent, as every run has it."""
        floats = {k: v for k, v in given.items() if v.is_floating_point()}
        if what != "weights" and _length(floats) == 0:
            raise UsageError(
                f"{whose} is zero everywhere: give what came of the client's training."
            )
        if what == "gradient":
            rate = self._gradient_rate(now.t)
            return {k: -rate * v for k, v in floats.items()}
        here = {k: now.model[k] for k in floats}
        size, whole, apart = _length(floats), _length(here), _apart(floats, here)
        if what == "difference":
            if size > SMALL * whole and apart < SMALL * whole:
                raise UsageError(
                    f"{whose} is as long as the model and near it: if these are weights, say"
                    " what='weights'."
                )
            moved = floats
        else:
            if apart > SMALL * whole and size < SMALL * whole:
                raise UsageError(
                    f"{whose} are short beside the model and far from it: if this is a difference,"
                    " say what='difference'."
                )
            moved = {k: v - here[k] for k, v in floats.items()}
        if _length(moved) == 0:
            raise UsageError(
                f"{whose} are those of the model that was sent: give what the client has after its"
                " training."
            )
        return moved

    def _counted(self, client: int, rows: Any, examples: Any, training: Training) -> int:
        """Of a record without truth how many examples are behind an update; 0: nobody knows."""
        if self._truth:
            if examples is not None:
                raise UsageError(
                    f"client {client} gives examples, and its rows say how many they are: expected"
                    " observe(..., truth=False), or no examples."
                )
            return 0
        if rows is not None:
            raise UsageError(
                f"client {client} gives rows, and this record has no truth: expected truth=True,"
                " or examples=, how many there were."
            )
        if examples is None:
            return training.steps * self._parts.method.batch
        if not is_whole(examples) or examples < 1:
            raise UsageError(
                f"examples of client {client} = {examples!r}: expected a whole number from 1 on."
            )
        return int(examples)

    def _gradient_rate(self, t: int) -> float:
        """By what a gradient is multiplied that is sent as it is in round ``t``.

        Raises:
            UsageError: a step of the declared training is no gradient times a rate.
        """
        method = self._parts.method
        terms = method.step_terms()
        if method.optimizer != "sgd" or terms.weight_decay or terms.clips:
            raise UsageError(
                "a gradient is sent as it is, and by sgd a step is more than that: expected lr,"
                " batch and steps alone, or what='difference'."
            )
        return reach(method, t, 1)

    def _trained_on(
        self, client: int, rows: Any, training: Training
    ) -> tuple[Tensor, list[Tensor]]:
        """The rows of the task's data behind an update, (n,), and those of each step.

        Of no step where it cannot be told which stood in it.
        """
        batch, epochs = self._parts.method.batch, training.epochs
        held = self._data.rows[client, : self._data.sizes[client]]
        if rows is None and not epochs:
            raise UsageError(
                f"client {client} trains by steps: say which of its {len(held)} rows it trained on,"
                " rows=[...], or by epochs."
            )
        if rows is None:
            whole = held.repeat(epochs)
            return whole, list(torch.split(whole, training.sizes(len(whole), batch)))
        plain = rows.tolist() if hasattr(rows, "tolist") else rows
        if isinstance(plain, str) or not isinstance(plain, Iterable):
            raise UsageError(
                f"rows of client {client} is {plain!r}: expected a list of places in"
                f" data.client({client}), or one for each step."
            )
        steps = [s.tolist() if hasattr(s, "tolist") else s for s in plain]
        every = [r for s in steps for r in (s if isinstance(s, list | tuple) else [s])]
        for r in every:
            if not is_whole(r):
                raise UsageError(
                    f"client {client} trained on its row {r!r}: expected whole numbers, places in"
                    f" data.client({client}) from 0 to {len(held) - 1}, as rows.long() or"
                    " rows.astype(int) gives."
                )
            if not 0 <= r < len(held):
                raise UsageError(
                    f"client {client} trained on its row {r!r}, and it holds {len(held)}: rows are"
                    f" places in data.client({client}), from 0 to {len(held) - 1}."
                )
        if not every:
            raise UsageError(f"client {client} trained on no row: give those that it trained on.")
        most = training.steps * batch if training.steps else epochs * len(held)
        if len(every) > most:
            raise UsageError(
                f"client {client} trained on {len(every)} rows, and by sgd on {most} at most:"
                f" expected {'steps' if training.steps else 'epochs'} and batch as they are."
            )
        whole = held[torch.tensor(every, dtype=torch.int64)]
        each = [len(s) for s in steps if isinstance(s, list | tuple)]
        if each and training.steps and len(each) != training.steps:
            raise UsageError(
                f"client {client} trained on rows of {len(each)} steps, and by sgd it takes"
                f" {training.steps}: expected a list for each."
            )
        sizes = each if len(each) == len(steps) else training.sizes(len(whole), batch)
        return whole, list(torch.split(whole, sizes)) if sizes else []


def _copied(given: Any) -> Tensor | None:
    """A tensor of its own; None where these are no numbers."""
    try:
        found = torch.as_tensor(given).detach().cpu()
        found = found.clone() if found.layout == torch.strided else found.to_dense()
    except (TypeError, ValueError, RuntimeError):
        return None
    return None if found.is_complex() else found


def _differs(then: Mapping[str, Any], mine: Mapping[str, Any]) -> str:
    """In what a record was begun otherwise, as it is called in ``observe``; empty: in nothing."""
    before, now = then["task"]["params"], mine["task"]["params"]
    for key, called in (("data", "other data"), ("network", "another model")):
        if before.get(key) != now[key]:
            return called
    if then["defense"] != mine["defense"]:
        return "another sgd or optimizer"
    return next((f"another {k}" for k in ("task", "seed") if then[k] != mine[k]), "")


def _same(one: Tree, other: Tree) -> bool:
    """The same tensors to the last bit?"""
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


def _length(tensors: Tree) -> float:
    return float(torch.stack([v.double().norm() for v in tensors.values()]).norm())


def _apart(one: Tree, other: Tree) -> float:
    return _length({k: v - other[k] for k, v in one.items()})


def _cleared(path: Path) -> None:
    """Delete a record and its attacks; nothing that is none."""
    rooms = ("transcript", "control", "known", "truth", "checkpoint", "attacks")
    for room in rooms:
        shutil.rmtree(path / room, ignore_errors=True)
    for name in ("run.json", "utility.csv", "utility.safetensors", "diagnostics.csv"):
        (path / name).unlink(missing_ok=True)
