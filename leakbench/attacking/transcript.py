"""Messages in memory: a training loop of one's own, attacked without a run folder."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from pydantic import PrivateAttr
from torch import Tensor, nn

from leakbench.attacking import payloads
from leakbench.attacking.attack import Attack
from leakbench.attacking.choices import ReadyAttack, build
from leakbench.attacking.guess import Guess
from leakbench.attacking.public_facts import Outline
from leakbench.attacking.view import View
from leakbench.base import registry
from leakbench.base.errors import MethodError, UnknownName, UsageError
from leakbench.base.raised import first_line
from leakbench.federation.defense import Defense
from leakbench.federation.input_range import DECLARE, InputRange, declared
from leakbench.federation.local_steps import trainings
from leakbench.federation.net import Net, copied
from leakbench.federation.parties import Batch, Client, Facts
from leakbench.federation.task_data import Examples
from leakbench.federation.traffic import Traffic, party
from leakbench.record.knowledge import KNOWLEDGE, Source
from leakbench.record.messages import KINDS, Message

Loss = Callable[[Tensor, Tensor], Tensor]
# Losses that want labels as floats in the shape of the outputs.
BINARY: tuple[Any, ...] = (
    nn.functional.binary_cross_entropy,
    nn.functional.binary_cross_entropy_with_logits,
)
BINARY_LAYERS = (nn.BCELoss, nn.BCEWithLogitsLoss)
_CLIENT = re.compile(r"client/\d+")


class OwnLoss(Defense):
    """FedAvg's round with somebody's own loss(outputs, labels), ()."""

    paper: ClassVar[str] = ""

    _loss: Loss = PrivateAttr()

    @classmethod
    def of(cls, loss: Loss, fields: Mapping[str, Any]) -> OwnLoss:
        """FedAvg's round with ``loss``.

        ``fields``: of the local training; where they name epochs and no steps, it is by epochs.
        """
        by_epochs = {"steps": 0} if fields.get("epochs") else {}
        method = cls.build({**by_epochs, **fields}, "the local training")
        method._loss = copy.deepcopy(loss) if isinstance(loss, nn.Module) else loss
        return method

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """With a loss of its own where that is a module; a function is shared."""
        made = self.model_copy()
        if isinstance(self._loss, nn.Module):
            made._loss = copy.deepcopy(self._loss, memo)
        return made

    def loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        """Somebody's own."""
        outputs = net(batch.x)
        if isinstance(self._loss, nn.Module):  # with the weights of classes, say
            self._loss.to(outputs.device, outputs.dtype)
        y = batch.y
        if self._loss in BINARY or isinstance(self._loss, BINARY_LAYERS):
            y = y.to(outputs.dtype).view_as(outputs)
        try:
            value = self._loss(outputs, y)
        except payloads.FAULTS as error:
            raise MethodError(
                f"the loss does not take outputs {tuple(outputs.shape)} and labels"
                f" {tuple(batch.y.shape)}, which are int64: {first_line(error)}"
            ) from error
        if value.ndim:
            raise MethodError(
                f"the loss gave a tensor of shape {tuple(value.shape)}; it must give one number,"
                " as with reduction='mean'."
            )
        return value


class Transcript(Source):
    """What crossed between clients and a server, in memory: the source of a view.

    It stands in for a run folder, and holds what an attacker may be granted, too. Everything is
    copied. What an attack asks for and nobody gave is named in one sentence. There is no control:
    what would have been sent with nothing defended is a transcript of its own.

    Args:
        model: the network, any ``nn.Module``. The weights in it now are what every client receives
            in each round, until another "model" is added.
        loss: loss(outputs, labels), (), of the local training, in the mode (training or evaluation)
            that each layer of the model is in now. Labels are (B,) int64; torch's binary
            cross-entropies get them as floats in the shape of the outputs.
        shape: of one input, as (1, 8, 8); needed with ``model``, unless ``aux_data`` tell.
        method: instead of ``loss``, a method with a loss and private inputs of its own: a name of
            `leakbench list defenses`, or an object. The model is taken as it is.
        classes: how many there are; as many as the model has outputs unless given, and of one
            output, the logit of the second or its sigmoid, two.
        clients: how many there are; up to the last that is named unless given.
        aux_data: (x, y), examples that a blind guess or an attacker may be granted.
        context: the marker that some clients' inputs carry, if any: square, bump or whistle.
        input_range: where the numbers of an input lie, (low, high) or an ``InputRange``; [0, 1]
            unless given.
        signal: are inputs standardised signals without bounds? As ``InputRange.unbounded()``.
        fields: of the method, as ``lr``, ``steps``, ``epochs`` and ``batch`` of the local SGD; one
            step at 0.1 unless given.

    Raises:
        UsageError: one of these is wrong, or they do not fit together.
    """

    def __init__(
        self,
        model: nn.Module | None = None,
        loss: Loss | None = None,
        *,
        shape: Sequence[int] = (),
        method: str | Defense | None = None,
        classes: int = 0,
        clients: int = 0,
        aux_data: tuple[Tensor, Tensor] | None = None,
        context: str = "",
        input_range: InputRange | tuple[float, float] | None = None,
        signal: bool = False,
        **fields: Any,
    ) -> None:
        self._model = None if model is None else payloads.network(model)
        self.modes = payloads.modes(model)
        self._method = _method(loss, method, fields)
        at = None if self._model is None else next(self._model.parameters())
        self.device = "cpu" if at is None else str(at.device)
        self._dtype = torch.float32 if at is None else at.dtype
        if not isinstance(shape, Sequence):
            raise UsageError(f"shape = {shape!r}: expected the shape of one input, as (1, 28, 28).")
        self._shape, self._clients, self._context = tuple(shape), clients, context
        if aux_data is not None:
            x = payloads.tensors(aux_data[0], "aux_data", self.device)
            self._shape = self._shape or tuple(x.shape[1:])
        self._range = declared(input_range, self._shape, signal=signal)
        self._dim = 0
        if self._model is not None:
            self._dim = payloads.outputs(self._model, self._shape)
            payloads.refuse_dice(self._model, self._shape, self.modes)
        self._classes = classes or (2 if self._dim == 1 else self._dim)
        self._aux = None if aux_data is None else self._examples(x, aux_data[1])
        self._length = 0  # of the prototypes that clients sent
        self._messages: dict[tuple[Any, ...], Message] = {}
        self._behind: dict[tuple[str, int, int, int | None], dict[str, Tensor]] = {}

    def add(
        self,
        kind: str,
        payload: Any,
        *,
        sender: str = "",
        receiver: str = "",
        round: int = 1,
        phase: int | None = None,
        labels: Any = None,
        sparse: bool = False,
    ) -> None:
        """One message that crossed.

        Args:
            kind: one of the kinds in docs/formats.md, as "update" or "prototype".
            payload: a tensor, or a dict of tensors. Of an "update" (the trained model minus the
                received one; after one step -lr * gradient) and of a "model": by the names of the
                model's ``state_dict``, or a sequence in the order of its ``parameters()``.
            sender: "client/3" or "server"; unless given "server" of a model, else "client/0".
            receiver: "server", or of what the server sends "client/*", or "client/3" alone.
            round: from 1 on; 0 for what is sent before and lasts.
            phase: its place in the round; unless given that of the method's first training, and 0
                for what the server sends.
            labels: of the n examples behind an update, for attackers who are granted them: (n,),
                in the order in which they were trained on, the same in every epoch; or (epochs, n),
                a row for each epoch. (n, 1), one-hot (n, classes) and whole floats will do.
            sparse: its zeros were not sent (of the largest k numbers, say), and are no data.

        Raises:
            UsageError: one of these is wrong or does not fit the model, a number is not finite, or
                the message is there already.
        """
        if kind not in KINDS:
            raise UnknownName("kind of message", kind, KINDS)
        sender = sender or ("server" if kind == "model" else "client/0")
        receiver = receiver or ("client/*" if sender == "server" else "server")
        self._check_place(sender, receiver, round)
        what = f"the {kind} of {sender} in round {round}"
        if kind in ("update", "model"):
            payload = payloads.parameters(payload, what, self._network)
        floats = None if self._model is None else self.dtype
        given = payloads.tensors(payload, what, self.device, floats)
        if kind == "update":
            given = {k: v for k, v in given.items() if v.is_floating_point()}
        self._check(kind, sender, given, what)
        place = (sender, round, self._phase(kind, sender, round, phase), None)
        message = Message(round, place[2], sender, receiver, kind, given, sparse=sparse)
        if message.name in self._messages:
            raise UsageError(f"{what} is there already; give another sender, round or phase.")
        if labels is not None:
            if kind != "update":
                raise UsageError(
                    f"{what}: labels= are of the examples behind an update; labels that are sent"
                    " are a message of their own, add('labels', ...)."
                )
            behind = f"the labels behind {what}"
            epochs = self._epochs(round, place[2])
            y = payloads.labels_payload(labels, behind, self._classes, self.device, epochs=epochs)
            self._behind[place] = {"y": y}
        if kind == "prototype" and sender != "server":
            self._length = len(given)
        self._messages[message.name] = message
        for made_of_them in ("transcript", "_traffic"):
            vars(self).pop(made_of_them, None)

    def attack(
        self, attack: str | Attack, *, round: int | None = None, blind: bool = False, **params: Any
    ) -> list[Guess]:
        """What ``attack`` makes of it, under its own threat model: one guess per client attacked.

        Args:
            attack: a name of `leakbench list attacks`, or an object.
            round: the newest round that has happened for the attacker; the last unless given.
            blind: instead, the guess that reads no message of the victim: the floor.
            params: of an attack that is named.

        Raises:
            UsageError: it does not exist or does not fit, a parameter is wrong, something that it
                reads was not given, or there is nothing to attack.
            ThreatViolation: it asked for what it does not declare.
        """
        name = attack if isinstance(attack, str) else type(attack).__name__
        if params and not isinstance(attack, str):
            raise UsageError(f"{name} is an object already: its parameters are its own.")
        choice = build(attack, params) if isinstance(attack, str) else ReadyAttack(name, attack)
        choice = choice.suited(self)
        chosen = choice.attack
        if why := choice.refusal(self):
            raise UsageError(f"{name} does not fit this transcript: {why}.")
        threat = chosen.floor_threat if blind else chosen.threat
        view = View(threat, self, self.rounds if round is None else round)
        found = chosen(view, blind=blind)
        if not found:
            settings = ", ".join(f"{k}={v}" for k, v in chosen.parameters().items())
            raise UsageError(
                f"{name} found nothing to attack in round {view.round} of this transcript with"
                f" its settings {settings}: {chosen.nothing_kept(Outline(self, threat))}."
            )
        return [replace(g, input_range=self._range) for g in found]

    # what a view asks for -------------------------------------------------------------------------
    @property
    def dtype(self) -> torch.dtype:
        """The model's."""
        return self._dtype

    @property
    def rounds(self) -> int:
        """The newest round in which something was sent."""
        return max((m.round for m in self._messages.values()), default=0)

    @property
    def method(self) -> Defense:
        """The method, or FedAvg with the loss that was given.

        Raises:
            UsageError: neither was given.
        """
        if self._method is None:
            raise UsageError(
                "this transcript was given no loss and no method: write Transcript(model, loss,"
                " ...) or Transcript(method=...)."
            )
        return self._method

    @property
    def facts(self) -> Facts:
        """Of the task, as they were given or can be read off the messages."""
        names = {n for m in self._messages.values() for n in (m.sender, m.receiver)}
        clients = [party(n) for n in names if _CLIENT.fullmatch(n)]
        return Facts(
            clients=self._clients or max([0, *clients]) + 1,
            classes=self._classes,
            dim=self._length or self._dim,
            shape=self._shape,
            context=self._context,
            input_range=self._range,
        )

    @cached_property
    def transcript(self) -> list[Message]:
        """Every message in order; first in each round the newest model, unless it was added."""
        said = self._messages.values()
        told = {m.round: m.payload for m in said if (m.kind, m.sender) == ("model", "server")}
        newest = None if self._model is None else _numbers(self._model)
        models = []
        for t in sorted({m.round for m in said}):
            newest = told.get(t, newest)
            if newest is not None and t not in told:
                models.append(Message(t, 0, "server", "client/*", "model", newest))
        return sorted([*models, *said], key=lambda m: (m.round, m.phase))

    @property
    def control(self) -> list[Message]:
        """There is none.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            "a transcript in memory has no control: make a second one of what would have been sent"
            " with nothing defended, and attack that."
        )

    @cached_property
    def _traffic(self) -> Traffic:
        traffic, everybody = Traffic(set()), range(self.facts.clients)
        for m in self.transcript:
            if m.sender == "server":
                alone = m.receiver != "client/*"
                to = [party(m.receiver)] if alone else everybody
                traffic.down(m.round, m.kind, to, m.payload, each=alone)
            else:
                traffic.up(m.round, m.kind, [party(m.sender)], m.payload, summed=False)
        return traffic

    @property
    def traffic(self) -> dict[str, Tensor]:
        """{kind: (messages, 3) round, sender, receiver}, a row for each receiver."""
        return self._traffic.tensors()

    @property
    def sent(self) -> list[dict[str, Any]]:
        """Who sent what to whom, how often and how much."""
        # What a wrapper did to a message before it was added, nobody says.
        return [{**line, "covered": None} for line in self._traffic.table()]

    def module(self) -> nn.Module:
        """A copy of the model.

        Raises:
            UsageError: none was given.
        """
        return copied(self._network)

    def _has(self, held: str) -> bool:
        return self._held(held) is not None

    def _held(self, held: str) -> Any:
        behind = self._behind or None
        return {"updates": behind, "counts": behind, "aux_data": self._aux}.get(held)

    def _without(self, name: str) -> str:
        row = KNOWLEDGE.get(name)
        how = f": {row.given}" if row and row.given else ""
        return f"this transcript was given no {name}{how}."

    @property
    def _network(self) -> nn.Module:
        if self._model is None:
            raise UsageError(
                "this transcript was given no model: write Transcript(model, loss, ...)."
            )
        return self._model

    # what is given --------------------------------------------------------------------------------
    def _examples(self, x: Tensor, y: Any) -> Examples:
        labels = payloads.labels_payload(y, "the labels of aux_data", self._classes, self.device)
        if (len(labels), *self._shape) != tuple(x.shape):
            raise UsageError(
                f"aux_data: expected inputs {(len(labels), *self._shape)}, as the labels and the"
                f" shape say, got {tuple(x.shape)}."
            )
        found = Examples(x, labels).to(self.device, self.dtype)
        beyond = self._range.beyond(found.x)
        if beyond:
            raise UsageError(f"the inputs of aux_data {beyond}: say Transcript({DECLARE}).")
        return found

    def _check_place(self, sender: str, receiver: str, round: int) -> None:
        client = sender if receiver == "server" else receiver
        whole = (sender, receiver) == ("server", "client/*")
        if not whole and ("server" not in (sender, receiver) or not _CLIENT.fullmatch(str(client))):
            raise UsageError(
                f"a message from {sender!r} to {receiver!r}: expected 'client/0' to 'server', or"
                " 'server' to 'client/*' or 'client/0'."
            )
        if self._clients and not whole and party(client) >= self._clients:
            raise UsageError(f"{client}: there are {self._clients} clients, counted from 0.")
        if not isinstance(round, int) or round < 0:
            raise UsageError(f"round = {round!r}: rounds are counted from 1 on; 0 is before them.")

    def _phase(self, kind: str, sender: str, round: int, phase: int | None) -> int:
        found = [t.phase for t in trainings(self._method or Defense(), round)] or [2]
        if kind == "update" and phase is not None and phase not in found:
            raise UsageError(f"phase = {phase}: the method trains in phase {found} of a round.")
        usual = 0 if sender == "server" else found[0]
        return usual if phase is None else phase

    def _epochs(self, round: int, phase: int) -> int:
        """How often each example stood in the training of a phase."""
        made = trainings(self._method or Defense(), round)
        return max([t.epochs for t in made if t.phase == phase and not t.steps], default=1) or 1

    def _check(self, kind: str, sender: str, payload: Any, what: str) -> None:
        """Raise UsageError where a payload is not what attacks take its kind for."""
        if kind == "prototype" and sender != "server":
            vector = isinstance(payload, Tensor) and payload.ndim == 1
            if not vector or not payload.is_floating_point():
                raise UsageError(f"{what}: expected a vector (d,) of floating-point numbers.")
            if self._length not in (0, len(payload)):
                raise UsageError(
                    f"{what} has {len(payload)} numbers, where others have {self._length}."
                )
        if kind == "labels" and not self._classes:
            raise UsageError(f"{what}: say how many classes there are, Transcript(classes=...).")


def _method(
    loss: Loss | None, method: str | Defense | None, fields: Mapping[str, Any]
) -> Defense | None:
    if loss is not None and method is not None:
        raise UsageError("a transcript takes a loss of your own or a method, not both.")
    if loss is not None and not callable(loss):
        raise UsageError(
            f"loss = {loss!r}: expected a function of (the model's output, labels), such as"
            " torch.nn.functional.cross_entropy."
        )
    wrong = [k for k, v in fields.items() if isinstance(v, float) and not math.isfinite(v)]
    if wrong:
        raise UsageError(f"{wrong[0]} = {fields[wrong[0]]}: expected a finite number.")
    if loss is not None:
        return OwnLoss.of(loss, fields)
    if isinstance(method, str):
        named: Defense = registry.load_plugin("defenses", method).build(fields, f"defense {method}")
        return named
    if fields:
        raise UsageError(
            f"{', '.join(fields)}: of the local training, which goes with a loss or with the name"
            " of a method."
        )
    return method


def _numbers(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name, each once."""
    numbers = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {k: v.detach().clone() for k, v in numbers.items()}
