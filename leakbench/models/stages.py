"""Networks that can be cut: a row of named stages, and heads beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor, nn

SIDE = "side"  # the submodule that holds what stands beside the way of x


class Stages(nn.Module):
    """Named stages in order.

    ``start`` and ``stop`` name the stage *after* which to cut; "input" is before the first. Within
    a stage that is an ``nn.Sequential`` a layer can be named, too ("head.1"). Besides there may be
    heads that x does not pass through (``put_aside``): they are drawn, trained and averaged like
    the rest, and are no stages.

    Args:
        gain: of the initial weights, uniform with standard deviation gain / sqrt(fan in).
        stages: name -> module, in order.
    """

    def __init__(self, stages: dict[str, nn.Module], *, gain: float = 1.0) -> None:
        super().__init__()
        self.gain = gain
        # Stage -> factor on a method's learning rate of its parameters; 1 where it is not named.
        self.rates: dict[str, float] = {}
        for name, stage in stages.items():
            self.add_module(name, stage)

    @property
    def names(self) -> list[str]:
        """The stages' names, in order, without what stands beside them."""
        return [name for name, _ in self.named_children() if name != SIDE]

    def put_aside(self, name: str, head: nn.Module) -> None:
        """A head beside the stages; its tensors are called "side.<name>...."."""
        if SIDE not in dict(self.named_children()):
            self.add_module(SIDE, nn.ModuleDict())
        self.get_submodule(SIDE).add_module(name, head)

    def forward(
        self, x: Tensor, start: str | None = None, stop: str | None = None, side: str | None = None
    ) -> Tensor:
        """The outputs (B, out) for inputs x (B, ...), or the features after ``stop``.

        With ``side`` what the head of that name makes of x.
        """
        if side is not None:
            return self._modules[SIDE].get_submodule(side)(x)  # type: ignore[union-attr]
        for name in self.between(start, stop):
            x = self.get_submodule(name)(x)
        return x

    def between(self, start: str | None = None, stop: str | None = None) -> list[str]:
        """The pieces that x passes through from one cut to the other, in order.

        Raises:
            ValueError: there is no such place to cut.
        """
        names = ["input", *self._pieces((start or "", stop or ""))]
        first, last = names.index(start or "input"), names.index(stop or names[-1])
        return names[first + 1 : last + 1]

    def _pieces(self, cuts: Iterable[str]) -> list[str]:
        """The stages in order; a stage that is cut within as its layers."""
        within, out = {cut.partition(".")[0] for cut in cuts if "." in cut}, []
        for name in self.names:
            layers = [f"{name}.{k}" for k, _ in self.get_submodule(name).named_children()]
            out += layers if name in within else [name]
        return out

    def before(self, layer: str) -> str:
        """The place to cut at for what goes into ``layer``, "head" or "head.2".

        Raises:
            ValueError: it is no stage, and no layer of a stage that is an ``nn.Sequential``.
        """
        stage, _, inner = layer.partition(".")
        whole = not inner or isinstance(self.get_submodule(stage), nn.Sequential)
        pieces = ["input", *self._pieces((layer,))]
        if not whole or layer not in pieces[1:]:
            raise ValueError(f"the network cannot be cut before {layer!r}")
        return pieces[pieces.index(layer) - 1]


def last_layer(module: nn.Module) -> tuple[str, nn.Linear | None]:
    """The name of the last layer that has parameters of its own, and the layer if it is linear.

    What stands beside the stages is none.
    """
    aside = f"{SIDE}." if isinstance(module, Stages) else None
    layers = [
        (name, m)
        for name, m in module.named_modules()
        if [*m.parameters(recurse=False)] and not (aside and name.startswith(aside))
    ]
    name, last = layers[-1] if layers else ("", None)
    return name, last if isinstance(last, nn.Linear) else None


def of_layer(name: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of one layer of a network, by their full names, in their order."""
    at = f"{name}." if name else ""
    return {k: v for k, v in tensors.items() if k.rpartition(".")[0] == at.removesuffix(".")}
