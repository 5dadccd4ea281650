"""FedBN (Li et al. 2021): FedAvg whose normalisation layers stay with the client."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field
from torch import Tensor, nn

from defenses._eleven_epochs import ElevenEpochs
from leakbench import Facts, UsageError

NORMS = (nn.modules.batchnorm._BatchNorm, nn.GroupNorm, nn.LayerNorm)


class FedBN(ElevenEpochs):
    """Everything is averaged but normalisation layers, which never leave the client (Algorithm 1).

    That is, their scales, shifts and running statistics. A network without such layers gets a
    BatchNorm behind every convolution or, if it has none, behind every linear layer but the last:
    FedAA compares with FedBN on a network in which it names none. So FedBN's network is then
    another one than the others', and what it gains may be the network's: ``private`` = false, ours,
    is FedAvg on FedBN's network.

    There is no one global model: utility is that of the averaged model with each client's own
    layers, the mean over all clients on the whole test set. A client that was never chosen brings
    its initial ones. Undefended: itself; it claims to hide nothing.
    """

    texts: ClassVar[bool] = True
    paper: ClassVar[str] = "Li et al., ICLR 2021, Algorithm 1"

    private: bool = Field(
        True, description="normalisation layers stay with the client; false: they are averaged, too"
    )

    def module(self, module: nn.Module, facts: Facts) -> nn.Module:
        """The task's architecture, with normalisation layers.

        Raises:
            UsageError: there is nowhere to put one.
        """
        if not any(isinstance(m, NORMS) for m in module.modules()):
            _normalise(module)
        return module

    def keeps(self, name: str, module: nn.Module) -> bool:
        return self.private and isinstance(module, NORMS)


def _normalise(module: nn.Module) -> None:
    """Put a BatchNorm behind every convolution, or every linear layer but the last, in place."""
    layers = dict(module.named_modules())
    convolutions = {k: m for k, m in layers.items() if isinstance(m, nn.Conv2d)}
    norms: dict[str, nn.Module]
    norms = {k: nn.BatchNorm2d(m.out_channels) for k, m in convolutions.items()}
    if not norms:
        linear = [(k, m) for k, m in layers.items() if isinstance(m, nn.Linear)]
        norms = {k: _BatchNorm1d(m.out_features) for k, m in linear[:-1]}
    if not norms:
        raise UsageError(
            "fedbn: this network has no layer behind which a normalisation could stand; take"
            " another task.model."
        )
    for name, norm in norms.items():
        module.set_submodule(name, nn.Sequential(layers[name], norm))


class _BatchNorm1d(nn.BatchNorm1d):
    """Gives one example, which has no statistics, the running ones, where PyTorch refuses it."""

    def forward(self, input: Tensor) -> Tensor:
        if len(input) > 1 or not self.training:
            return super().forward(input)
        mean, var = self.running_mean, self.running_var
        return nn.functional.batch_norm(
            input, mean, var, self.weight, self.bias, training=False, eps=self.eps
        )
