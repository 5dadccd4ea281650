"""A server that does not keep to the protocol: it plants a model that tells one example apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, Self

from pydantic import Field

from leakbench import Each, Examples, Server, Tree, UsageError, Wrapper
from leakbench.base import stack, torch
from leakbench.models import first_linear, last_layer, tensor_of

if TYPE_CHECKING:
    from torch import Tensor, nn

Model = dict[str, "Tensor"]
HEIGHT = 30.0  # of the other classes' biases: e^-30 of the fished class's probability is left
SMALL = 0.01  # a ReLU's unit: an update is lost in the last digits of large weights
NARROWEST = 0.5  # of the mean distance of windows in a functional's standard deviation, at least
SHUT = 12.0  # what it is given where nothing is to pass: its slope is a rounding
OPEN = 2.0  # what a tanh is given at the edge of what it lets through: its slope there is .07


class ActiveServer(Wrapper):
    """In ``rounds`` the server sends a model of its own making to ``clients``, and reads the reply.

    It changes weights alone, never the network, so that clients train as they always do; what they
    really received is what stands in the record, marked as changed. No defense: a run with it and
    nothing else hides nothing.

    ``class`` (Wen et al. 2022, Section 3.2): of the last layer the rows of all classes but
    ``label`` are 0 and their biases large, so no example of another class has a gradient below it.
    ``feature`` (Section 3.3): that, and only those of the class pass that one feature sets apart.
    ``imprint`` (Fowl et al. 2022, Section 4): the first layer's units are bins of one linear
    functional of the input, so that few examples fall into each. ``trap`` (Boenisch et al. 2023,
    Section 5): its rows are random, the numbers below zero made so large that few examples
    activate each.

    Differs from the papers. Thresholds and scales are taken from auxiliary data, to the last digit.
    Feature fishing sets its threshold at the unit behind which the last layer reads, not in the
    softmax: there examples of other classes beyond the threshold would come through. Where a tanh
    stands for the ReLU of the papers, a unit is a window on both sides and not a threshold: beyond
    it the slope vanishes as well. No layer is put before a network (Fowl et al. insert two): a
    first layer that is no linear one is refused for ``imprint`` and ``trap``.

    The server learns nothing from such a round: its model and its state stand as they stood before,
    and the round is lost to training for everybody, those included who got an honest model. It
    could keep what these sent; under a sum it cannot, and here no server does. What clients keep
    for themselves stays as that round left it.

    Those who are not aimed at get a ``silent`` model, all of whose weights are 0, and whose update
    is the last bias alone (Pasquini et al. 2022, "gradient suppression", by dead ReLUs there), so
    that a sum over all is what the one victim sent; or the ``honest`` one. With ``apart`` several
    victims have units of their own in ``imprint``, and in the others nothing passes: a sum over
    them is read unit by unit (Zhao et al. 2024, LOKI, by kernels of a layer that is put in).
    """

    active: ClassVar[bool] = True
    paper: ClassVar[str] = (
        "Wen et al., ICML 2022; Fowl et al., ICLR 2022; Boenisch et al., EuroS&P 2023; Pasquini et"
        " al., CCS 2022; Zhao et al., S&P 2024"
    )

    kinds: tuple[Literal["model"], ...] = Field(
        ("model",), min_length=1, max_length=1, description="what it changes"
    )
    way: Literal["none", "class", "feature", "imprint", "trap"] = Field(
        "class", description="how the planted model tells examples apart; none: it stays honest"
    )
    rounds: tuple[int, ...] = Field(
        (), description="in which it is sent; empty: in the audited ones"
    )
    clients: tuple[int, ...] = Field((), description="who get it; empty: all of the round")
    others: Literal["silent", "honest"] = Field(
        "silent", description="what the other clients get, where some are named"
    )
    apart: bool = Field(
        False, description="of imprint: has each client that is named units of its own?"
    )
    label: int = Field(0, ge=0, description="of class and feature: the class that is fished for")
    share: float = Field(
        0.1,
        gt=0,
        lt=1,
        description=(
            "of auxiliary examples that pass: of feature, of those of the class; of trap, that"
            " activate a unit"
        ),
    )

    def of_run(self, audited: Sequence[int], clients: int) -> Self:
        if self.way == "none":
            return self
        strange = [t for t in self.rounds if t not in audited]
        if strange:
            raise UsageError(
                f"active_server: round {strange[0]} is not audited, so what it gives away would not"
                f" be recorded: name some of rounds {', '.join(map(str, audited))}."
            )
        nobody = [i for i in self.clients if not 0 <= i < clients]
        if nobody:
            raise UsageError(
                f"active_server: there is no client {nobody[0]}; the {clients} clients are 0 to"
                f" {clients - 1}."
            )
        return self.model_copy(update={"rounds": self.rounds or tuple(audited)})

    def departures(self) -> Sequence[int]:
        return () if self.way == "none" else self.rounds

    def aimed(self) -> Sequence[int]:
        return () if self.way == "none" else self.clients

    def downlink(self, payload: Tree, server: Server, aux: Examples) -> Tree | Each:
        who = server.receivers.tolist()
        if self.clients and not {*self.clients} & {*who}:
            return payload  # nobody is there for whom it would be
        if not self.clients:
            return self._planted(dict(payload), server, aux, -1)
        whole = {i: self._planted(dict(payload), server, aux, i) for i in self.clients if i in who}
        beside = payload if self.others == "honest" else _silent(payload, server.module)
        return Each(stack([whole.get(i, beside) for i in who]))

    def _planted(self, model: Model, server: Server, aux: Examples, client: int) -> Model:
        """The model for ``client``, or for all."""
        if self.way in ("class", "feature"):
            head = self._head(server)
            model |= self._fishing(model, head)
            return model | self._gate(model, head, server, aux) if self.way == "feature" else model
        name, behind = _begin(server, self.way)
        x = aux.x.flatten(1).to(model[tensor_of(name, "weight")])
        if not len(x):
            raise UsageError(
                "active_server: thresholds are taken from auxiliary data, and the task has none."
            )
        if self.way == "trap":
            return model | self._trap(model, server, name, behind, x)
        many = len(model[tensor_of(name, "bias")])
        own = range(many)
        if self.apart and client >= 0:
            own = own[self.clients.index(client) :: len(self.clients)]
        if len(own) < 2:
            raise UsageError(
                f"active_server: {many} units are too few for {len(self.clients)} clients apart."
            )
        return model | _imprint(model, server, name, behind, x, own)

    def _head(self, server: Server) -> str:
        """The last layer's name.

        Raises:
            UsageError: it has no row for each class.
        """
        name, layer = last_layer(server.module, server.facts.shape)
        classes = server.facts.classes
        if layer is None or layer.bias is None or layer.out_features != classes or classes < 2:
            raise UsageError(
                "active_server: fishing for a class needs a linear last layer with a row and a bias"
                " for each class, and this network has none: use way=imprint or way=trap."
            )
        if self.label >= classes:
            raise UsageError(
                f"active_server: there is no class {self.label}; the classes are 0 to"
                f" {classes - 1}."
            )
        return name

    def _fishing(self, model: Model, head: str) -> Model:
        """The last layer of which only the fished class has weights, and hardly any probability."""
        weight, bias = (model[tensor_of(head, key)] for key in ("weight", "bias"))
        alone = torch.zeros_like(weight)
        alone[self.label] = weight[self.label]
        high = torch.full_like(bias, HEIGHT)
        high[self.label] = 0.0
        return {tensor_of(head, "weight"): alone, tensor_of(head, "bias"): high}

    def _gate(self, model: Model, head: str, server: Server, aux: Examples) -> Model:
        """The layer before the last, of which one unit passes ``share`` of the class alone."""
        names = [n for n, _ in _called(server.module, server.facts.shape)]
        layers = dict(server.module.named_modules())
        at = names.index(head)
        squash = layers[names[at - 1]] if at > 1 else None
        name = names[at - 2] if at > 1 else ""
        if not isinstance(layers.get(name), torch.nn.Linear) or not _squashes(squash):
            raise UsageError(
                "active_server: way=feature needs a linear layer and a ReLU or tanh before the last"
                " layer, and this network ends otherwise: use way=class."
            )
        x = aux.x[aux.y == self.label].to(model[tensor_of(head, "weight")])
        if len(x) < 2:
            raise UsageError(
                f"active_server: {len(x)} auxiliary examples of class {self.label} are too few for"
                " a threshold; name another label."
            )
        made = _given(server.module, model, name, x)
        unit = int(made.std(0).argmax())
        factor, shift = _window(made[:, unit], self.share, squash)
        weight, bias = (model[tensor_of(name, key)].clone() for key in ("weight", "bias"))
        weight[unit] *= factor
        bias[unit] = bias[unit] * factor + shift
        read = torch.zeros_like(model[tensor_of(head, "weight")])
        read[self.label, unit] = 1.0
        return {
            tensor_of(name, "weight"): weight,
            tensor_of(name, "bias"): bias,
            tensor_of(head, "weight"): read,
        }

    def _trap(self, model: Model, server: Server, name: str, behind: _Behind, x: Tensor) -> Model:
        """Random rows; their positive part is so small that ``share`` of ``x`` activate each."""
        weight, bias = (model[tensor_of(name, key)] for key in ("weight", "bias"))
        size = server.rng.normal("trap", *weight.shape).abs()
        below = server.rng.uniform("below zero", *weight.shape) < 0.5
        up, down = x @ (size * ~below).T, x @ (size * below).T
        # A row fires where factor * up > down, on so many of x as the quantile says.
        factor = torch.quantile(down / up.clamp(min=1e-9), self.share, dim=0)
        rows = torch.where(below, -size, factor[:, None] * size)
        made = (x @ rows.T).abs()
        if isinstance(behind.squash, torch.nn.ReLU):
            scale = SMALL / made.median(0).values.clamp(min=1e-9)
        else:  # on both sides as many pass
            scale = OPEN / torch.quantile(made, self.share, dim=0).clamp(min=1e-9)
        scale = scale[:, None]
        return {
            tensor_of(name, "weight"): rows * scale,
            tensor_of(name, "bias"): torch.zeros_like(bias),
        }


class _Behind(NamedTuple):
    """What the first layer's units are given to."""

    squash: nn.Module
    reads: str  # the name of the linear layer that reads them; "" if none does


def _imprint(
    model: Model, server: Server, name: str, behind: _Behind, x: Tensor, own: Sequence[int]
) -> Model:
    """Units ``own`` are bins of one functional of the input: at quantiles of that of ``x``.

    Of a ReLU unit i passes all beyond its threshold, and what lies in a bin is the difference of
    two units; for that each must weigh the same in the next layer. Of a tanh a unit is a window,
    and in the next layer weights have signs in turn, or that layer would stand still.
    """
    weight, bias = (model[tensor_of(name, key)] for key in ("weight", "bias"))
    relu, n = isinstance(behind.squash, torch.nn.ReLU), len(own)
    way = server.rng.normal("functional", weight.shape[1])
    way = way / way.norm()
    said = x @ way
    places = torch.arange(n + 1, dtype=said.dtype, device=said.device)
    edges = torch.quantile(said, places / n)
    if relu:
        steep = (1 / (n * said.std().clamp(min=1e-9))).expand(n)
        at = edges[:-1]
    else:
        # Steeper, a weight's last digit would be as large as its step.
        narrowest = NARROWEST * said.std().clamp(min=1e-9) / n
        at = (edges[1:] + edges[:-1]) / 2
        steep = 2 * OPEN / torch.maximum(edges[1:] - edges[:-1], narrowest)
    units = torch.tensor([*own], device=said.device)
    rows = torch.zeros_like(weight).index_copy(0, units, steep[:, None] * way)
    shift = torch.full_like(bias, -1.0 if relu else SHUT).index_copy(0, units, -steep * at)
    out = {tensor_of(name, "weight"): rows, tensor_of(name, "bias"): shift}
    if behind.reads:
        key = tensor_of(behind.reads, "weight")
        each = server.rng.normal("alike", model[key].shape[0])[:, None]
        signs = torch.where(places[:-1] % 2 == 0, 1.0, -1.0).to(each)
        each = each.expand(-1, n) if relu else each * signs
        out[key] = torch.zeros_like(model[key]).index_copy(1, units, each)
    return out


def _silent(payload: Mapping[str, Tensor], module: nn.Module) -> Model:
    """All parameters 0: nothing passes, so of its gradient the last bias alone is left."""
    named = {name for name, _ in module.named_parameters()}
    return {k: torch.zeros_like(v) if k in named else v for k, v in payload.items()}


def _begin(server: Server, way: str) -> tuple[str, _Behind]:
    """The first layer's name, and what stands behind it.

    Raises:
        UsageError: it is no linear layer, or no ReLU or tanh follows.
    """
    module, shape = server.module, server.facts.shape
    name = first_linear(module, shape)
    if not name:
        raise UsageError(
            f"active_server: way={way} reads inputs off a linear first layer with a bias, and this"
            " network begins otherwise; a layer of its own it does not put before it: use"
            " way=class, or -s task.model=mlp."
        )
    called = _called(module, shape)
    names = [n for n, _ in called]
    at = names.index(name) + 1
    squash = called[at][1] if at < len(called) else None
    if not _squashes(squash):
        raise UsageError(
            f"active_server: way={way} needs a ReLU or tanh behind the first layer, and"
            f" {type(squash).__name__} stands there: use way=class."
        )
    reads = called[at + 1][0] if at + 1 < len(called) else ""
    linear = isinstance(dict(module.named_modules()).get(reads), torch.nn.Linear)
    return name, _Behind(called[at][1], reads if linear else "")


def _squashes(layer: nn.Module | None) -> bool:
    return isinstance(layer, torch.nn.ReLU | torch.nn.Tanh)


def _called(module: nn.Module, shape: Sequence[int]) -> list[tuple[str, nn.Module]]:
    """The innermost layers in the order in which an input passes them."""
    found: list[tuple[str, nn.Module]] = []
    hooks = [
        m.register_forward_pre_hook(lambda _m, _x, told=(n, m): found.append(told))
        for n, m in module.named_modules()
        if not [*m.children()]
    ]
    like = next(module.parameters())
    try:
        with torch.no_grad():
            module(torch.zeros(1, *shape).to(like))
    finally:
        for hook in hooks:
            hook.remove()
    return found


def _given(module: nn.Module, model: Model, name: str, x: Tensor) -> Tensor:
    """What the layer ``name`` gives for x (n, ...), with the weights ``model``, (n, units)."""
    seen: list[Tensor] = []
    layer = dict(module.named_modules())[name]
    hook = layer.register_forward_hook(lambda _m, _x, out: seen.append(out))
    try:
        with torch.no_grad():
            torch.func.functional_call(module, model, (x,))
    finally:
        hook.remove()
    return seen[0]


def _window(said: Tensor, share: float, squash: nn.Module | None) -> tuple[float, float]:
    """By what a unit is multiplied, and what is added, so that the top ``share`` of said passes."""
    low = float(torch.quantile(said, 1 - share))
    high = float(said.max())
    if isinstance(squash, torch.nn.ReLU):
        factor = 1 / max(float(said.std()), 1e-9)
        return factor, -factor * low
    factor = 2 * OPEN / max(high - low, 1e-6)
    return factor, -factor * (high + low) / 2
