"""The loss behind an update, at the victim's place, with the victim's private inputs left open."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from leakbench.attacking.adam_pair import AdamPair, read_pair
from leakbench.attacking.adam_step import AdamStep
from leakbench.attacking.view import View
from leakbench.base.errors import MethodError
from leakbench.base.lazy import torch
from leakbench.base.streams import DICE, Rng
from leakbench.base.tree import Tree, flat, tmap, unflat
from leakbench.federation.client_tensors import kept_names
from leakbench.federation.net import Net, training_mode
from leakbench.federation.optimizer import Optimizer, rate_factor, step_factor
from leakbench.federation.parties import Batch, Client
from leakbench.federation.party_runner import Inbox
from leakbench.federation.traffic import party
from leakbench.record.messages import Message

if TYPE_CHECKING:
    from torch import Tensor

NUMBER = "index"  # of a client, where it is noted what a loss read
# Slope of several steps of Adam: of two steps of an MLP 18 dB are found with it, 9 dB without.
SOFT = 0.3


class _Private(dict[str, Any]):
    """A client's private tensors in the attacker's copy of the method.

    They are guesses; what is read of them is noted.
    """

    def __init__(self, group: str, guesses: dict[str, Any], read: dict[str, Any]) -> None:
        super().__init__(guesses)
        self.group, self.read = group, read

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        self.read.update(flat(value, f"{self.group}/{name}"))
        return value


class _Guessed(Rng):
    """The victim's dice in the attacker's copy: a given value, or a throw of the attacker's own."""

    given: Mapping[str, Tensor]
    read: dict[str, Any]

    def _draw(self, name: str, make: Callable[[], Tensor]) -> Tensor:
        key, value = f"draw/{name}", make()
        if key in self.given:  # of the largest step: a smaller one throws so many fewer
            whole = self.given[key]
            value = whole[: len(value)] if value.dim() else whole
        self.read[key] = value
        return value

    def _number(self) -> int:
        given = self.given.get(f"draw/{DICE}")
        return super()._number() if given is None else int(given)

    @property
    def _notes(self) -> bool:
        return True

    def at(self, phase: str, step: int = 0) -> _Guessed:
        return self

    def always(self) -> _Guessed:
        return self


class _Victim(Client):
    """The client in the attacker's copy of the method; that its number was read is noted."""

    noted: dict[str, Any] | None = None

    def __getattribute__(self, name: str) -> Any:
        if name == "index" and self.noted is not None:
            self.noted[NUMBER] = True
        return super().__getattribute__(name)


class Replay:
    """The method's own loss where ``message`` (an update) was made.

    ``unknown``: every private tensor and draw that the loss really read, "own/prototype" or
    "draw/mix", with a guess of the right shape made by the method's own ``start`` on the attacker's
    dice. Whoever knows better passes it as ``private``. ``sizes``: how many examples each local
    step had, each step examples of its own; or ``rows``: which of the examples stood in each step,
    where one stood in several (over epochs it is one unknown). Private inputs and draws are taken
    as the same in all steps. ``phase``: the name of the loss. ``dtype``: what the attacker computes
    in; the recording's unless given.

    Raises:
        MethodError: the norm by which the victim cut its steps is of more than it shared.
    """

    def __init__(
        self,
        view: View,
        message: Message,
        rng: torch.Generator,
        *,
        sizes: Sequence[int] = (1,),
        rows: Sequence[Sequence[int]] = (),
        phase: str = "loss",
        dtype: torch.dtype | None = None,
    ) -> None:
        self.dtype, self._sent_in = dtype or view.dtype, view.dtype
        ends = pairwise(accumulate(sizes, initial=0))
        self.rows = tuple(tuple(r) for r in rows) or tuple(tuple(range(a, b)) for a, b in ends)
        self.message = replace(message, payload=self._cast(message.payload))
        self.method, self.phase = view.loss_method(), phase
        self.facts, self.module, self.device = view.facts, view.module.to(self.dtype), view.device
        self.trained = {k for k, v in self.module.named_parameters() if v.requires_grad}
        self.modes = view.modes
        self.inbox = Inbox(self._received(view))
        self.index = torch.tensor(party(message.sender), device=self.device)
        self._seed = int(torch.randint(2**40, (), generator=rng))
        self._places = [torch.tensor(r, device=self.device) for r in self.rows]
        size = max(map(len, self.rows))
        self.blank = Batch(
            torch.zeros(size, *self.facts.shape, dtype=self.dtype, device=self.device),
            torch.zeros(size, dtype=torch.long, device=self.device),
        )
        self._start = self._started(self.blank)
        self.unknown: dict[str, Tensor] = {}
        untrained = self._untrained()
        before = {k: v._version for k, v in untrained.items()}
        self.loss(self.blank, {}, weights=untrained, read=self.unknown)
        # Does the loss go by the client's number, so that it is another one at each client?
        self.numbered = self.unknown.pop(NUMBER, None) is not None
        self._writes = any(untrained[k]._version != v for k, v in before.items())
        if self.method.step_terms().clip_norm:
            alone = [k for k in self.unknown if k.startswith("own/")]
            alone += kept_names(self.method, self.module)
            if alone:
                raise MethodError(
                    f"each step was cut by a norm to which {alone[0]!r} belongs, which never leaves"
                    " the client, so that it cannot be replayed."
                )

    def _started(self, held: Batch) -> dict[str, Any]:
        me = self._me({}, {}, {})
        me.own, me.state, me.get_data = {}, {}, lambda: held
        me.count = torch.tensor(len(held.y), device=self.device)
        self.method.start(me)
        return {"own": me.own, "state": me.state}

    def started(self, held: Batch) -> dict[str, Tensor]:
        """``unknown``, of a client that has the examples ``held``: as ``start`` makes it of them.

        Draws, and what the method does not make at its start, are guessed as before.
        """
        made = flat(self._started(held))
        return {k: made.get(k, v) for k, v in self.unknown.items()}

    @property
    def vectorises(self) -> bool:
        """Can the loss be computed for many victims side by side?

        Not where a layer writes into the model (a batch's statistics), nor where torch's own dice
        are thrown, nor where the method says so.
        """
        return self.vectorises_fixed and not self._writes

    @property
    def vectorises_fixed(self) -> bool:
        """The same of the loss in evaluation mode, in which no layer writes."""
        return not (self.throws or self.phase in self.method.one_by_one)

    @property
    def throws(self) -> bool:
        """Does the loss throw torch's own dice, as dropout does?

        How they fell at the victim nobody else knows: here they fall otherwise, though always the
        same, unless ``private`` says under "draw/dice" at which number they began.
        """
        return f"draw/{DICE}" in self.unknown

    def place(self) -> dict[str, Tensor]:
        """All that the loss reads besides batch and private inputs: who, what it got, its start.

        And what steps of Adam told, for ``compared`` and ``each``.
        """
        told = {} if self.adam is None else self.adam.told
        second = {} if self.pair is None else self.pair.second
        place = {"index": self.index, "inbox": dict(self.inbox), "start": self._start}
        return flat({**place, "adam": told, "pair": second})

    def at(self, place: Mapping[str, Tensor]) -> Replay:
        """The same loss at another victim's ``place``; whose may be a stack's under vmap."""
        moved, tree = copy.copy(self), unflat(dict(place))
        moved.index, moved.inbox = tree["index"], Inbox(tree.get("inbox", {}))
        moved._start = tree.get("start", {})
        moved.adam = None if self.adam is None else self.adam.at(flat(tree.get("adam", {})))
        moved.pair = None if self.pair is None else self.pair.at(flat(tree.get("pair", {})))
        return moved

    @property
    def finite(self) -> bool:
        """Is all finite that the victim had received and sent?"""
        numbers = [*flat(self.message.payload).values(), *flat(dict(self.inbox)).values()]
        return all(bool(t.isfinite().all()) for t in numbers)

    def _received(self, view: View) -> dict[str, Tree]:
        """What the victim had received when it trained.

        This round's earlier messages over those from before round 1.
        """
        m = self.message
        received = {}
        for kind in view.threat.kinds:
            # Of the rounds that can matter alone: each message that is handed out is a copy.
            held = [*view.messages(kind, round=0), *view.messages(kind, round=m.round)]
            for d in held:
                early = d.round == 0 or d.phase < m.phase
                if d.sender == "server" and d.receiver in ("client/*", m.sender) and early:
                    received[kind] = self._cast(d.payload)
        return received

    def _cast(self, payload: Tree) -> Tree:
        """A copy, in the attacker's precision: layers that keep statistics write into it."""

        def one(t: Tensor) -> Tensor:
            return t.to(self.dtype, copy=True) if t.is_floating_point() else t.clone()

        return tmap(one, payload)

    def _me(
        self, private: Mapping[str, Tensor], start: Mapping[str, Any], read: dict[str, Any]
    ) -> Client:
        def group(name: str) -> _Private:
            at = f"{name}/"
            given = {k.removeprefix(at): v for k, v in private.items() if k.startswith(at)}
            whole = {**flat(start.get(name, {})), **given}
            return _Private(name, unflat(whole) if whole else {}, read)

        rng = _Guessed(self._seed, "attack", self.index, self.dtype)
        rng.given, rng.read = private, read
        net = Net(self.module, self._received_model())
        count = torch.tensor(1, device=self.device)
        me = _Victim(
            self.index,
            count,
            self.message.round,
            self.facts,
            group("own"),
            group("state"),
            self.inbox,
            net,
            rng,
        )
        me.noted = read
        return me

    def loss(
        self,
        batch: Batch,
        private: Mapping[str, Tensor],
        *,
        weights: Mapping[str, Tensor] | None = None,
        read: dict[str, Any] | None = None,
        mode: bool = True,
    ) -> Tensor:
        """The victim's loss (), if its batch were ``batch`` and its private inputs ``private``.

        ``mode``: as the victim computes it, in training mode; False: of evaluation, for batches
        that are made otherwise than the victim's.
        """
        received = {**self._received_model(), **self._untrained()}
        net = Net(self.module, {**received, **(weights or {})})
        return self.loss_of(net, batch, private, read=read, mode=mode)

    def _received_model(self) -> dict[str, Tensor]:
        """The model as the victim received it.

        What it keeps of the network for itself is not known: it is taken as a fresh one has it
        (BatchNorm's 1 and 0; a layer's random numbers, which fit nobody).
        """
        received: dict[str, Tensor] = self.inbox.get("model", {})
        tensors = self.module.state_dict()
        return {**{k: tensors[k] for k in kept_names(self.method, self.module)}, **received}

    def _untrained(self) -> dict[str, Tensor]:
        """Copies of what is not trained: BatchNorm in training writes into what it is given.

        The received model stays as it was received, for each step and for a teacher.
        """
        held = {**dict(self.module.named_buffers()), **self.inbox.get("model", {})}
        return {k: v.clone() for k, v in held.items() if k not in self.trained}

    def loss_of(
        self,
        net: Any,
        batch: Batch,
        private: Mapping[str, Tensor],
        *,
        read: dict[str, Any] | None = None,
        mode: bool = True,
    ) -> Tensor:
        """The same with another ``net`` in the victim's place."""
        me = self._me(private, self._start, {} if read is None else read)
        me.net = net
        with training_mode(self.module, self.modes if mode else False), me.rng.lent():
            value: Tensor = getattr(self.method, self.phase)(net, batch, me)
        return value

    def update(self, batch: Batch, private: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The update that the local steps on ``batch`` would have sent.

        Differentiable in the batch and in ``private``.
        """
        whole = self._moves(batch, private)
        return {k: -self.rate * rate_factor(self.module, k) * v for k, v in whole.items()}

    def gradient(self, batch: Batch, private: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """D loss / d (each trained tensor that the update holds), as the victim's optimiser had it.

        Differentiable in the batch and in ``private``. Cut, and with the weights' decay, where the
        method does so. Of several steps: how far they went, over the learning rate, each at the
        weights that the one before it led to. ``batch``: every example once, as ``rows`` numbers
        them.
        """
        if self.adam is None:
            return self._moves(batch, private)
        start, sent = self._moving()
        slope = self._slope(start, batch.some(self._places[0]), private)
        given = self._optimizer().given(start, slope)
        return {k: g for k, g in given.items() if k in sent}

    def each(self, batch: Batch, private: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The gradients of the two steps that ``pair`` tells apart, {"0/name", "1/name"}.

        Differentiable, and as the victim's optimiser had them; the second where the first led to.
        """
        start, sent = self._moving()
        second = {**start, **(self.pair.second if self.pair else {})}
        out: dict[str, Tensor] = {}
        for i, at in enumerate((start, second)):
            slope = self._slope(at, batch.some(self._places[i]), private)
            given = self._optimizer().given(at, slope)
            out |= {f"{i}/{k}": g for k, g in given.items() if k in sent}
        return out

    def _moves(self, batch: Batch, private: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """How far the local steps on ``batch`` went against the gradient, over the rate."""
        start, sent = self._moving()
        rates = {k: self.rate * rate_factor(self.module, k) for k in start}
        optimizer, moved = self._optimizer(), start
        total: dict[str, Tensor] = {}
        for step in (batch.some(rows) for rows in self._places):
            if total:
                moved = {k: v - rates[k] * total[k] for k, v in start.items()}
            for k, went in optimizer.moves(moved, self._slope(moved, step, private)).items():
                went = optimizer.factor * went
                total[k] = total[k] + went if k in total else went
        return {k: g for k, g in total.items() if k in sent}

    def _moving(self) -> tuple[dict[str, Tensor], set[str]]:
        """The weights that the steps moved, as they began, and the names of those that were sent.

        What a wrapper left out of the message moved between the steps all the same, and belongs to
        the norm by which a step is cut.
        """
        model, sent = self.inbox["model"], self.trained & self.message.payload.keys()
        whole = len(self.rows) > 1 or self.method.step_terms().clip_norm > 0
        moving = self.trained & model.keys() if whole else sent
        return {k: v.detach() for k, v in model.items() if k in moving}, sent

    def _optimizer(self) -> Optimizer:
        """The victim's, as it begins."""
        return Optimizer(self.method, self.message.round, self.module, soft=SOFT)

    def _slope(
        self, weights: dict[str, Tensor], batch: Batch, private: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """The gradient of one step, by its ``weights``; a transform, so that vmap can stack it."""
        slope: dict[str, Tensor] = torch.func.grad(
            lambda moved: self.loss(batch, private, weights=moved)
        )(weights)
        return slope

    def observed(self) -> dict[str, Tensor]:
        """The gradient that the recorded update is, of trained tensors only.

        Minus the update over the rate; of a single step of Adam what ``AdamStep`` reads off it. To
        be held against ``compared``.
        """
        if self.adam is not None:
            return self.adam.observed
        return {k: -v / self.rate for k, v in self._update().items()}

    def sent(self) -> dict[str, Tensor]:
        """{name: bool}: which numbers of ``observed()`` the message tells; others are no data."""
        return {k: v for k, v in self.message.told().items() if k in self.trained}

    def compared(self, gradient: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """What of a ``gradient`` is held against ``observed()``; differentiable.

        All of it, as it is, unless the victim took a single step of Adam.
        """
        return dict(gradient) if self.adam is None else self.adam.compared(gradient)

    @cached_property
    def adam(self) -> AdamStep | None:
        """The victim's step, if it was one of Adam and the only one."""
        if self.method.optimizer == "sgd" or len(self.rows) > 1:
            return None
        optimizer, start = self._optimizer(), self.inbox["model"]
        rate, terms = self.rate * step_factor(optimizer.factors, 0), optimizer.terms
        shrunk = rate * terms.weight_decay if terms.decoupled else 0.0
        moved = {k: v + shrunk * start[k] for k, v in self._update().items()}
        return AdamStep(moved, start, rate, self._sent_in, terms.epsilon, sent=self.sent())

    @cached_property
    def pair(self) -> AdamPair | None:
        """The victim's steps, if they were two of Adam whose sum tells them apart."""
        if self.method.optimizer != "adam" or len(self.rows) != 2:
            return None
        optimizer = self._optimizer()
        return read_pair(
            {k: -v / self.rate for k, v in self._update().items()},
            {k: v for k, v in self.inbox["model"].items() if k in self.trained},
            {k: self.rate * rate_factor(self.module, k) for k in self.trained},
            [step_factor(optimizer.factors, step) for step in (0, 1)],
            optimizer.terms,
            self._sent_in,
            self.sent(),
        )

    def _update(self) -> dict[str, Tensor]:
        """What was sent of trained tensors, as if all had been trained at ``rate``."""
        sent = {k: v for k, v in self.message.payload.items() if k in self.trained}
        return {k: v / rate_factor(self.module, k) for k, v in sent.items()}

    @property
    def rate(self) -> float:
        """The local learning rate of this round, of steps whose factor is 1."""
        return self.method.lr * self.method.schedule(self.message.round)
