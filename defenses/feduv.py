"""FedUV (Hosseini et al. 2021): every client trains towards a secret codeword of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from defenses import _codes
from leakbench import Batch, Client, Defense, Facts, Net, Tree, UsageError
from leakbench.base import torch

if TYPE_CHECKING:
    from torch import Tensor, nn


class FedUV(Defense):
    """Loss max(0, 1 - v . tanh(W g(x)) / c)^2, mean over the batch (FedMetric, Eq. 3).

    v is a codeword in {-1, 1}^length, W is shared. Codewords are those of a BCH code, and any two
    of them differ in ``least_distance`` places at least: 21 of the default's 127. A message is the
    client's public number, which makes codewords distinct, followed by secret random bits: 60 of 64
    with ten clients. W is a linear stage "code" without bias behind the embedding, averaged like
    the rest. Nothing but the update leaves a client, and there is no negative loss.

    It claims to hide the codeword by not sending it. The update gives it away: row i of the step of
    W is v_i times a positive mix of embeddings, so its sign is the bit (``codeword_from_update``).
    Undefended: itself, there is nothing that it adds or leaves out.

    Left open by FedMetric's text, decided here: the code and its length, tanh, and c = length, with
    which the hinge is never reached; a smaller ``divisor`` reaches it.
    """

    outputs: ClassVar[Literal["logits", "embedding"]] = "embedding"
    paper: ClassVar[str] = (
        "Hosseini et al., 2021 (arXiv 2104.08776); Park, Hosseini and Yun, FL-ICML 2021, Eq. 3"
    )

    length: Literal[15, 31, 63, 127, 255] = Field(
        127, description="bits of a codeword: 15, 31, 63, 127 or 255"
    )
    message: int = Field(
        64, ge=1, description="bits of a message; fewer of them, and codewords lie further apart"
    )
    divisor: float = Field(0.0, ge=0, description="c of Eq. 3; 0: the length of a codeword")

    def module(self, module: nn.Module, facts: Facts) -> nn.Module:
        """The task's architecture with the stage "code": (B, dim) -> (B, length).

        Raises:
            UsageError: there is no BCH code of this size, or too few messages for secret ones.
        """
        sizes = _codes.distances(self.length)
        if self.message not in sizes:
            valid = ", ".join(map(str, sorted(sizes)))
            raise UsageError(
                f"feduv: no BCH code of length {self.length} has messages of {self.message} bits;"
                f" those of {valid} bits exist."
            )
        if self.message <= _bits(facts.clients):
            raise UsageError(
                f"feduv: message = {self.message} leaves no secret bit: the numbers of"
                f" {facts.clients} clients take {_bits(facts.clients)}."
            )
        self.generator()  # made once, and before there are parties
        module.add_module("code", torch.nn.Linear(facts.dim, self.length, bias=False))
        return module

    @property
    def least_distance(self) -> int:
        """Places in which any two codewords differ at least."""
        return _codes.distances(self.length)[self.message]

    def generator(self) -> Tensor:
        """(message, length) of 0 and 1, public: a codeword is message @ generator, modulo 2.

        It begins with the message; as in {-1, 1}, 0 is -1.
        """
        return _codes.generator(self.length, self.message)

    def public_bits(self, index: Tensor, clients: int) -> Tensor:
        """(k,) of 0 and 1: with what the codeword of client ``index`` begins, of so many clients.

        ``index`` () int64.
        """
        return (index >> torch.arange(_bits(clients), device=index.device)) & 1

    def start(self, me: Client) -> None:
        number = self.public_bits(me.index, me.facts.clients)
        secret = me.rng.integers("message", 2, self.message - len(number))
        message = torch.cat([number, secret]).to(me.rng.dtype)
        me.state["codeword"] = 2 * ((message @ self.generator().to(message)) % 2) - 1

    def loss(self, net: Net, batch: Batch, me: Client) -> Tensor:
        return (1 - self.predict(net, batch.x, me)).clamp(min=0).square().mean()

    def predict(self, net: Net, x: Tensor, me: Client) -> Tensor:
        return torch.tanh(net(x)) @ me.state["codeword"] / (self.divisor or self.length)

    def secrets(self, me: Client) -> dict[str, Tree]:
        return {"codeword": me.state["codeword"]}

    def hides(self) -> bool:
        """True: that is its claim, and counted as one, so it is no reference, whatever it leaks."""
        return True


def _bits(clients: int) -> int:
    """Bits that tell so many clients apart."""
    return (clients - 1).bit_length()
