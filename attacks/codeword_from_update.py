"""Codewords from updates (ours): the signs of the last layer's step are the secret bits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, cast, runtime_checkable

from pydantic import Field

from attacks import _disaggregation, _last_layer_pooled, _linear_codes
from attacks._low_rank import completed
from attacks._output_moves import doubts
from leakbench import models
from leakbench.attacking import Attack, Guess, Metric, Outline, ThreatModel, View
from leakbench.base import torch
from leakbench.federation import kept_names
from leakbench.metrics import CODEWORD_BITS, P_LEAK, RECOVERED, RECOVERY_PRECISION
from leakbench.record import Message

if TYPE_CHECKING:
    from torch import Tensor

# The share of updates that say nothing whose codeword would be taken for right.
SURE = 1e-6


@runtime_checkable
class Coded(Protocol):
    """A method whose clients train towards words of a public binary code."""

    def generator(self) -> Tensor:
        """(message, length) of 0 and 1: a codeword is message @ generator, modulo 2."""

    def public_bits(self, index: Tensor, clients: int) -> Tensor:
        """(k,) of 0 and 1: with what the codeword of client ``index`` begins."""


class CodewordFromUpdate(Attack):
    """Reads the bits of a client's codeword v off the last layer's step, and decodes them.

    FedUV's loss reaches the code stage W through v . tanh(W g) alone, and its slope has one sign.
    So row i of a step of W is v_i times a mix of the batch's embeddings g with positive weights.
    The embeddings of one class point much the same way, and along that direction (the leading right
    singular vector of the step) row i has the sign of v_i: the leading left singular vector is the
    codeword, but for one sign. More surely where the row is long; where tanh is saturated it is
    short, and a single odd image turns it.

    Codewords are those of a public code, so wrong bits are found: the word of the code nearest to
    the vector, weighed by its numbers, that begins with the public number of who sent the update.
    The number also tells the sign: where the opposite of a codeword is one, too, nothing else in
    the last layer does. The word is ``accepted`` if no more than one in a million
    updates that say nothing would have a codeword as near; one that is not is left as it was read.

    No image, label, auxiliary data, proxy or search is needed, and one step of one batch is enough.
    Several local steps add up to the same signs, and so do several rounds (the Gram matrices of the
    steps, each of trace 1, are added). A client whose images have all reached the margin sends a
    zero, and is a failed unit. Under ``secure_sum`` there is no step of one client to read.

    With ``source`` = "pooled" it listens to every round, where a wrapper covers updates: noised
    steps, or their sums over changing cohorts (``_disaggregation``). A client's are read along what
    the network makes of noise, an input of W along which all add up; as the leading vector of its
    mean step; and as above, where it sent any. Of these the one whose word is the least chance.
    """

    about: ClassVar[str] = "which secret codeword does a client's update train towards?"
    left_out: ClassVar[str] = "the last layer of their newest update was not kept"
    paper: ClassVar[str] = "ours; the decoder: Fossorier and Lin, IEEE Trans. Inf. Theory 1995"
    metrics: ClassVar[tuple[Metric, ...]] = (P_LEAK, RECOVERED, RECOVERY_PRECISION, CODEWORD_BITS)

    variants: ClassVar[tuple[dict[str, Any], ...]] = ({}, {"source": "pooled"})

    source: Literal["update", "pooled"] = Field(
        "update", description="what is read: a client's own updates, or these and sums of them"
    )
    together: bool = Field(
        True, description="read all updates of a client so far; false: its newest alone"
    )
    decode: bool = Field(True, description="mend wrong bits; false: the signs as they were read")

    @property
    def threat(self) -> ThreatModel:
        pooled = self.source == "pooled"
        return ThreatModel(
            kinds=("update", *_disaggregation.KINDS) if pooled else ("update",),
            rounds="all" if pooled or self.together else "last",
            knows=("method", "facts"),
            rung="method",
        )

    @property
    def pools(self) -> bool:
        return self.source == "pooled"

    def obstacle(self, run: Outline) -> str:
        why = super().obstacle(run)
        if why:
            return why
        method = run.method
        if not isinstance(method, Coded):
            return "its clients have no codewords"
        name, last = models.last_layer(run.module(), run.facts.shape)
        if last is None or last.out_features != method.generator().shape[1]:
            return "the network does not end in a linear layer with an output for each bit"
        if models.tensor_of(name, "weight") in kept_names(method, run.module()):
            return f"the last layer ({name}) never leaves the client"
        return _disaggregation.uncovered(run) if self.pools else ""

    def seconds(self, run: Outline) -> float:
        more = _last_layer_pooled.seconds(run) if self.pools else 0.0
        return super().seconds(run) + more

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        if self.pools:
            return self._doubted(view, self._pooled(view))
        read = [self._read(view, who, steps) for who, steps in self._steps(view).items()]
        return self._doubted(view, read)

    def _steps(self, view: View) -> dict[str, list[Tensor]]:
        """{client: its own steps of the code stage, oldest first}."""
        name, _ = models.last_layer(view.module, view.facts.shape)
        sent: dict[str, list[Tensor]] = {}
        for m in self._sent(view):
            weight = models.tensor_of(name, "weight")
            step = m.payload[weight].double().cpu()
            if m.sparse:  # an output of which nothing was sent is a bit that is not read
                step = completed(step, m.told()[weight].cpu(), most=1)
            sent.setdefault(m.sender, []).append(step)
        return sent

    def _doubted(self, view: View, found: Iterable[Guess]) -> list[Guess]:
        """With what is said of those whose updates tell of few outputs."""
        name, _ = models.last_layer(view.module, view.facts.shape)
        told: dict[str, list[Message]] = {}
        for m in self._sent(view):
            told.setdefault(m.sender, []).append(m)
        return [
            g
            if g.failed or g.accepted or g.unit not in told
            else replace(g, flags=doubts(told[g.unit], name))
            for g in found
        ]

    def _pooled(self, view: View) -> list[Guess]:
        alone, found, out = self._steps(view), _last_layer_pooled.means(view), []
        for who in self._units(view):
            reads = []
            if who in found:
                mean = found[who]
                reads = [mean.along, *([common_signs([mean.moved])] if mean.moved.any() else [])]
            own = [s for s in alone.get(who, []) if bool(s.isfinite().all()) and bool(s.any())]
            out.append(self._decoded(view, who, [*reads, *([common_signs(own)] if own else [])]))
        return out

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        """A codeword drawn blindly, with the client's public number."""
        code, out = self._method(view).generator(), []
        for who in self._units(view):
            known = self._known(view, who)
            drawn = torch.randint(2, (len(code) - len(known),), generator=rng)
            bits = torch.cat([known, drawn]).to(code) @ code % 2
            out.append(self._guess(view, who, bits > 0))
        return out

    def _units(self, view: View) -> list[str]:
        if self.pools:
            return [f"client/{c}" for c in _disaggregation.heard(view)]
        return list(dict.fromkeys(m.sender for m in self._sent(view)))

    def _sent(self, view: View) -> list[Message]:
        return view.messages("update", last_layer=True)

    def _method(self, view: View) -> Coded:
        return cast("Coded", view.loss_method())  # ``obstacle`` has seen to it

    def _known(self, view: View, who: str) -> Tensor:
        """The bits with which the codeword of client ``who`` begins."""
        index = torch.tensor(int(who.removeprefix("client/")))
        return self._method(view).public_bits(index, view.facts.clients)

    def _read(self, view: View, who: str, steps: list[Tensor]) -> Guess:
        if not all(bool(step.isfinite().all()) for step in steps):
            return Guess(who, view.round, failed="the update is not finite")
        steps = [step for step in steps if bool(step.any())]
        if not steps:
            return Guess(who, view.round, failed="the last layer's step is zero")
        return self._decoded(view, who, [common_signs(steps)])

    def _decoded(self, view: View, who: str, reads: list[Tensor]) -> Guess:
        """Of ``reads`` (length,), each the codeword as its numbers tell it up to one sign."""
        reads = [read for read in reads if bool(read.any())]
        if not reads:
            return Guess(who, view.round, failed=_disaggregation.NOTHING)
        known, code = self._known(view, who), self._method(view).generator()
        begins = reads[0][: len(known)] @ (2.0 * known.double() - 1)
        plain = reads[0] > 0 if begins >= 0 else reads[0] < 0
        if not self.decode:
            return self._guess(view, who, plain)
        words = [_linear_codes.decoded(code, read, known) for read in reads]
        word = min(words, key=lambda one: one.by_chance)
        if word.by_chance * len(words) > SURE:
            return self._guess(view, who, plain)
        return self._guess(view, who, word.bits, accepted=True)

    def _guess(self, view: View, who: str, bits: Tensor, *, accepted: bool = False) -> Guess:
        word = 2 * bits.to(view.device, view.dtype) - 1
        return Guess(who, view.round, {"prototype": word}, accepted=accepted)


def common_signs(steps: list[Tensor]) -> Tensor:
    """(length,) float64, up to one sign: what the rows of all ``steps`` share along one direction.

    Each step (length, dim), none of them zero; the directions are each step's own.
    """
    gram = torch.zeros(len(steps[0]), len(steps[0]), dtype=torch.float64)
    for step in steps:
        whole = step / step.abs().max()
        gram += whole @ whole.T / whole.square().sum()
    vectors: Tensor = torch.linalg.eigh(gram).eigenvectors
    return vectors[:, -1]
