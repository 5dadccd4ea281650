"""The contract of a federated method: a choreography of functions, each run by one party.

A party function reads ``me`` (or ``server``) and the public parameters ``self``, changes that
party's own state, and returns what it sends: {kind: tensor or dict of tensors}. There is no other
way across. The loss is a pure function of (net, batch, me): engines differentiate and vectorise it,
attackers replay it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, Self

from pydantic import Field

from leakbench.base.lazy import torch
from leakbench.base.spec import Spec
from leakbench.base.tree import Tree
from leakbench.federation.mechanism import Mechanism
from leakbench.federation.net import Net
from leakbench.federation.objective import fits
from leakbench.federation.parties import Batch, Client, Each, Facts, Server

if TYPE_CHECKING:
    from torch import Tensor, nn

    from leakbench.federation.task_data import Examples

Sent = Mapping[str, Any] | None
# How papers write what parameters spell out.
LETTERS = {
    "alpha": "α",
    "sigma": "σ",
    "lam": "λ",
    "lam1": "λ1",
    "lam2": "λ2",
    "mu": "μ",
    "k": "K",
    "cos_theta": "cos",
}


class Choreography(Protocol):
    """The verbs of a round; the federation is the only thing that has them."""

    @property
    def t(self) -> int:
        """The number of the round, from 1 on; 0 before the first."""

    def server(self, fn: Any) -> None:
        """Run a function of the server; what it returns goes to this round's clients."""

    def clients(self, fn: Any) -> None:
        """Run a function of every chosen client; what they return goes to the server."""

    def train(self, fn: Any, *, steps: int | None = None, epochs: int | None = None) -> None:
        """Every chosen client trains the model it received on ``fn`` and sends the update."""


class Mixture(NamedTuple):
    """How a sent prototype is made of the true one w and the bank that the client received.

    unit(own w + (1 - own) unit(sum of the ``neighbours`` rows nearest to w, without the client's)).
    """

    own: float  # weight of w, from 0 to 1; the largest where clients draw it
    neighbours: int
    drawn: bool = False  # does each client draw the weight, and tell nobody?


class StepTerms(NamedTuple):
    """What a local step makes of its gradient, beside the rate: as ``torch.optim`` has it.

    In this order: the gradient g is cut to ``clip_value`` number by number, or to ``clip_norm`` as
    a whole (``torch.nn.utils.clip_grad_norm_``; 0: neither); weight_decay w is added, w the
    weights, unless it is ``decoupled``; SGD goes by the velocity v' = momentum v + g, or by
    Nesterov by g + momentum v', Adam by its moments; last, decoupled, by weight_decay w more
    (AdamW). Velocity and moments are begun anew in each round.
    """

    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False
    decoupled: bool = False
    clip_norm: float = 0.0
    clip_value: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    @property
    def clips(self) -> bool:
        """Is a gradient cut before it is used?"""
        return self.clip_norm > 0 or self.clip_value > 0


class Defense(Spec):
    """FedAvg (McMahan et al. 2017, Algorithm 1); a method overrides what it does differently."""

    # Does nobody read a single update (server) or a trained local model (client)?
    fusible: ClassVar[bool] = True
    # Losses that read the batch by ``batch.mean`` alone, of numbers that each example has whatever
    # the others are: clients whose batches differ in size then step side by side. Said by each
    # class for itself: a derived class that says nothing is taken to say no.
    by_example: ClassVar[tuple[str, ...]] = ()
    # Client functions that vmap cannot run: slower, never wrong.
    one_by_one: ClassVar[tuple[str, ...]] = ()
    outputs: ClassVar[Literal["logits", "embedding"]] = "logits"  # what the network ends in
    # May the network end in one logit, of the second of two classes? Not where a loss of the
    # method's own reads a logit for each class.
    single_logit: ClassVar[bool] = True
    # A kind of message, besides the update, of which a gradient can be read; "": none can.
    tells: ClassVar[str] = ""
    plain_loss: ClassVar[str] = "loss"  # the function whose gradient that is
    # Is the next global model this one plus the mean of the updates that were sent (the weighted
    # one)? Who receives both then knows that mean. A class with a round or an aggregation of its
    # own states it for itself; one that says nothing is taken to say no.
    adds_mean: ClassVar[bool] = True
    # Does its loss train a network that says texts? Each class states it for itself.
    texts: ClassVar[bool] = False
    # How its prototypes are compared, if it has any.
    distance: ClassVar[Literal["", "cosine", "euclidean"]] = ""
    paper: ClassVar[str] = "McMahan et al., AISTATS 2017"
    # What people read: "FedHide α 0.01, K 20".
    title: ClassVar[str] = ""  # the class's name where it states none of its own
    principal: ClassVar[tuple[str, ...]] = ()  # parameters always told; others where they differ
    letters: ClassVar[Mapping[str, str]] = {}  # parameter -> letter, besides the usual ones

    average: Literal["plain", "weighted"] = Field(
        "plain", description="weighted by the clients' counts, which are then sent"
    )
    select: Literal["random", "round_robin"] = Field(
        "random", description="how a round's clients are chosen"
    )
    fraction: float = Field(
        1.0, gt=0, le=1, description="share of the clients in a round, rounded, at least one"
    )
    batch: int = Field(16, ge=1, description="examples in a local step")
    steps: int = Field(1, ge=0, description="local steps; 0: by epochs")
    epochs: int = Field(0, ge=0, description="local epochs when steps is 0")
    optimizer: Literal["sgd", "adam", "adam_each_step"] = Field(
        "sgd",
        description=(
            "of the local steps, without momentum, begun anew each round; adam_each_step: at every"
            " step, so lr sign(gradient)"
        ),
    )
    lr: float = Field(0.1, gt=0, description="local learning rate of the model")
    own_lr: float = Field(
        0.1, ge=0, description="local learning rate of what the client keeps for itself"
    )
    decay: float = Field(1.0, gt=0, le=1, description="factor on both rates per round")

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if "title" not in vars(cls):  # not its parent's: that is another method
            cls.title = cls.__name__
        if "texts" not in vars(cls):
            cls.texts = False
        if "adds_mean" not in vars(cls) and {"round", "aggregate"} & {*vars(cls)}:
            cls.adds_mean = False

    @classmethod
    def display(cls) -> dict[str, Any]:
        """The method's display name as run.json has it, with the letters of its own parameters."""
        known = {**LETTERS, **cls.letters}
        letters = {name: known[name] for name in cls.model_fields if name in known}
        return {"title": cls.title, "principal": list(cls.principal), "letters": letters}

    # a round --------------------------------------------------------------------------------------
    def before(self, fed: Choreography) -> None:
        """Phases before round 1, with every client; what is sent to all here lasts."""

    def round(self, fed: Choreography) -> None:
        """One round with the selected clients."""
        fed.server(self.downlink)
        fed.clients(self.prepare)
        fed.train(self.loss)
        fed.clients(self.uplink)
        fed.server(self.aggregate)

    def after(self, fed: Choreography) -> None:
        """Phases after the last round, with every client."""

    # what exists ----------------------------------------------------------------------------------
    def module(self, module: nn.Module, facts: Facts) -> nn.Module:
        """The task's architecture, or one with more stages."""
        return module

    def keeps(self, name: str, module: nn.Module) -> bool:
        """True for model tensors that never leave the client.

        ``name``: the tensor's full name ("head.bias"), which is one of submodule ``module``.
        """
        return False

    def start(self, me: Client) -> None:
        """Name and fill ``me.own`` and ``me.state``; ``me.inbox["model"]`` is the initial model."""

    def start_server(self, server: Server) -> None:
        """Name and fill ``server.state``."""

    def local_steps(self, count: Tensor) -> Tensor:
        """How many steps a client with ``count`` examples takes in a training, () or (n,) int64.

        Of one that lasts as the method's ``steps`` and ``epochs`` say.
        """
        if self.steps:
            return torch.full_like(count, self.steps)
        return self.epochs * -(-count // self.batch)

    def schedule(self, round: int) -> float:
        """Factor on ``lr`` and ``own_lr`` in round ``round``, from 1 on."""
        return self.decay ** max(round - 1, 0)

    def step_schedule(self, round: int) -> tuple[float, ...]:
        """Factors on both rates in each local step of a round, beside ``schedule``.

        The last one holds for all steps that follow; empty: 1 in every step.
        """
        return ()

    def step_terms(self) -> StepTerms:
        """What a local step makes of its gradient: nothing else."""
        return StepTerms()

    # who does what in a round ---------------------------------------------------------------------
    def settled(self) -> int:
        """The round after which its rule changes no more; ``schedule`` included."""
        return 0

    def downlink(self, server: Server) -> Sent:
        """Server to every selected client; a payload in ``Each`` has a row for every receiver."""
        return {"model": server.model}

    def prepare(self, me: Client) -> Sent:
        """Client, before local training: inbox into ``own`` or ``state``."""

    def loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        """Client's loss for one local step, (); no ``no_grad``, ``item`` or ``if`` on a tensor.

        A function of its arguments alone: the losses of several clients may be computed at once.
        """
        return batch.mean(fits(net, batch, me.facts))

    def uplink(self, me: Client) -> Sent:
        """Client to server, after local training, besides the update that ``fed.train`` sends."""

    def aggregate(self, server: Server) -> Sent:
        """Server: the new model, and what the method does with the rest."""
        step = server.mean("update")
        server.model = {k: v + step[k] if k in step else v for k, v in server.model.items()}
        return None

    # for the evaluator and the scorer, neither of which is a party --------------------------------
    def predict(self, net: Net, x: Tensor, me: Client) -> Tensor:
        """Class logits (n, classes) of x (n, ...), or how well x fits this client, (n,).

        Of two classes the logit of the second, (n, 1), will do. A fit is minus the distance, if
        euclidean.
        """
        return net(x)

    def embed(self, net: Net, x: Tensor, me: Client) -> Tensor:
        """What stands for x (n, ...) where two inputs are compared, (n, d).

        The output of a network that ends in an embedding, else what goes into its last stage.
        """
        return net(x) if self.outputs == "embedding" else net.features(x)

    def secrets(self, me: Client) -> dict[str, Tree]:
        """What the method means to hide, for the truth: {"prototype": (dim,)}."""
        return {}

    def inputs(self, me: Client) -> dict[str, Tensor]:
        """The examples behind what this client sends, for the truth: {"features": (n, ...)}."""
        return {}

    def gradient(self, payload: Tree) -> dict[str, Tensor]:
        """The gradient that a message of kind ``tells`` is made of: {parameter: its gradient}.

        Of ``plain_loss``, the mean over the sender's local steps, each at the weights that it was
        taken at.
        """
        return dict(payload)

    def bent_gradient(
        self, moved: Mapping[str, Tensor], before: Mapping[str, Tensor] | None, inbox: Tree
    ) -> dict[str, Tensor]:
        """The same gradient, as an update tells it that is bent by earlier ones.

        Needed beside ``tells``: where a wrapper covers what clients send of that kind, nothing else
        tells it.

        Args:
            moved: how far each parameter went against the gradient, divided by the learning rate
                and the number of steps.
            before: the gradient that the client's update before this one told; None of its first.
            inbox: what the server sent of kind ``tells`` in that round.
        """
        return dict(moved)

    def mixture(self) -> Mixture | None:
        """What a prototype is mixed with before it is sent; None where no bank has a part in it."""
        return None

    def undefended(self) -> Self:
        """The same method whose *uplinks* hide nothing; what it sends is the control transcript."""
        return self

    def hides(self) -> bool:
        """Does this configuration claim to hide anything?"""
        return self.undefended() != self


class Wrapper(Spec):
    """Changes messages of ``kinds`` before they leave whoever sends them, under any method.

    Of clients what they send; of a server that does not keep to its method (``active``) what it
    sends to them.
    """

    active: ClassVar[bool] = False  # True: it is the server's, and no defense

    linear: ClassVar[bool] = False  # True: leaves the mean as it is, so fused rounds stay exact
    sums: ClassVar[bool] = False  # True: the server receives only the sum
    # Are its zeros numbers that it leaves out? Attackers then take none of a message for data. Of
    # a wrapper that says nothing each update is looked at, for which a device has to be waited for,
    # and one that makes a number 0 is refused.
    masks: ClassVar[bool | None] = None
    paper: ClassVar[str] = ""

    kinds: tuple[str, ...] = Field(
        ("update",), min_length=1, description="the kinds of messages it covers"
    )

    def uplink(self, payload: Tree, me: Client) -> Tree:
        """What leaves the client instead of ``payload``."""
        return payload

    def mechanism(self) -> Mechanism | None:
        """What it does to every message that it covers, as far as a claim of (ε, δ) may rest on it.

        None: nothing that such a claim could rest on; it may read more than the message.
        """
        return None

    # of a server's -------------------------------------------------------------------------------
    def of_run(self, audited: Sequence[int], clients: int) -> Self:
        """The same in a run of so many ``clients`` whose rounds ``audited`` are attacked.

        Raises:
            UsageError: it does not suit such a run.
        """
        return self

    def departures(self) -> Sequence[int]:
        """The rounds in which the server sends something else than its method says."""
        return ()

    def aimed(self) -> Sequence[int]:
        """The clients that alone get it; all of the round where there are none."""
        return ()

    def downlink(self, payload: Tree, server: Server, aux: Examples) -> Tree | Each:
        """What the server sends in a round in which it departs, instead of ``payload``.

        ``payload`` itself where it keeps to its method after all.
        ``aux``: auxiliary data, on whose statistics it may rely.
        """
        return payload


def unit(v: Tensor) -> Tensor:
    """Of length 1 along the last axis: v / |v|; 0 stays 0."""
    return v / v.norm(dim=-1, keepdim=True).clamp(min=1e-12)


def others(me: Client) -> Tensor:
    """(clients,) bool, True for every client but this one."""
    return torch.arange(me.facts.clients, device=me.index.device) != me.index
