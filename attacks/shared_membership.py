"""Membership inference by what clients share: features, means, prototypes, data."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from attacks import _prototype_rows as prototypes
from attacks._candidates import by_inputs, clients_of, unasked
from attacks._changed_rows import RowChange, Rows, axes_of
from attacks._feature_messages import Extractor, extractor, unextracted
from attacks._membership_signals import beyond_usual
from leakbench.attacking import Attack, Guess, Metric, Outline, ThreatModel, View
from leakbench.base import flat as leaves_of
from leakbench.base import torch
from leakbench.federation import Examples, party
from leakbench.metrics import MEMBERSHIP_AUC, MEMBERSHIP_TPR, MEMBERSHIP_TPR_LOW
from leakbench.record import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

ROWS = ("features", "data", "mean_data")
SHARED = (*ROWS, "prototype")
RIDGE = 0.1  # of the mean variance of a number
AUXILIARY = 1000  # examples, at most
FEW = 3  # auxiliary examples, by which it is told whether rows were scaled
ALONG = 0.995  # the cosine with what made a row
LEAST = 1e-9  # of a row's variance: no less is told from rounding
# Of a copy a row has a thousandth, at most, that is not its example's: minus the log of that. And a
# tenth of what of most auxiliary examples the nearest row has.
COPIED, CLEARLY, MOSTLY = 7.0, 2.3, 0.99
SECONDS = 0.1  # of a message
OF_A_PROTOTYPE = 0.06  # seconds


class SharedMembership(Attack):
    """Holds what a candidate would have shared against the rows that its client did share.

    A row is the features of an example, which may be mixed with another's (FLea), the mean of some
    examples or of their features (FedMix, FedBR, CCVR), or an example as it is (FedData). Rows and
    candidates are whitened by auxiliary examples that go the same way, each less the mean of its
    class where rows come with labels, and then only rows of the candidate's class count. Of all
    rows that a client sent in all rounds that counts which says most, in deviations of what
    auxiliary examples of the class reach.

    "nearest": minus the distance to the row; what was shared as it is, is found exactly.

    "tracing": the inner product with the row, by which a member of a mean is told (Homer et al.,
    PLoS Genetics 2008; Dwork et al., FOCS 2015, Section 1.1, there with one row and of independent
    numbers, which whitening makes them).

    Rows that a wrapper scaled, as clipping does, are scaled back (``_changed_rows``). Where a row
    is a copy of a candidate, but for a factor and an offset of its own, "nearest" goes by that
    alone. Rows with a number that is not finite are left out.

    A prototype is one more mean: of embeddings (FedMetric), or of what examples pull at it while it
    is trained (FedHide, FedGN, FedCS, FedAwS), so that it is read how it moves from one message to
    the next; what was mixed in is taken out where that can be solved (``prototype_unmixing``). Each
    says little, and what is drawn afresh for it cancels: of prototypes all rounds are added up
    before anything is compared, in a metric that is whitened as far as their noise allows. What an
    example adds is told by the method's own loss at the model that the client received.

    Features are made by the model that the client received in the round, up to the method's
    ``layer``. Candidates are of all that a client trained on, also where a method shares some of
    its examples alone: of the others nothing can be told here.

    Floor: how far the candidate is from the nearest auxiliary example of its class. Control: the
    same of rows that nothing hides.
    """

    about: ClassVar[str] = (
        "whether a client was trained on an example, from the features, means, prototypes or data"
        " that it shared"
    )
    paper: ClassVar[str] = "after Homer et al. (2008) and Dwork et al. (FOCS 2015)"
    metrics: ClassVar[tuple[Metric, ...]] = (MEMBERSHIP_AUC, MEMBERSHIP_TPR, MEMBERSHIP_TPR_LOW)
    over: ClassVar[Literal["stages", "all"]] = "all"
    handed: ClassVar[Literal["", "rows", "banks"]] = "rows"
    left_out: ClassVar[str] = "nothing was kept of what they shared of examples"
    variants: ClassVar[tuple[dict[str, Any], ...]] = ({"signal": "nearest"}, {"signal": "tracing"})

    signal: Literal["nearest", "tracing"] = Field(
        "nearest", description="what speaks for a candidate: a row near to it, or along it"
    )

    @property
    def threat(self) -> ThreatModel:
        return ThreatModel(
            kinds=(*SHARED, "labels", "model", "statistics"),
            rounds="all",
            knows=("aux_data", "candidates", "method", "facts"),
            rung="public",
        )

    @property
    def pools(self) -> bool:
        return True

    def attacks(self, run: Outline) -> tuple[str, ...]:
        sent = {str(s["kind"]) for s in run.sent if s["sender"] == "client"}
        return tuple(kind for kind in SHARED if kind in sent) or SHARED[:1]

    def obstacle(self, run: Outline) -> str:
        why = super().obstacle(run) or unasked(run)
        if why:
            return why
        if run.facts.targets == "tokens":
            return "candidates are images, and what is shared of texts is none"
        read = self.attacks(run)
        why = prototypes.unmade(run) if "prototype" in read else ""
        return why or (unextracted(run) if "features" in read else "")

    def seconds(self, run: Outline) -> float:
        sent = [s for s in run.sent if (s["kind"], s["sender"]) == ("prototype", "client")]
        many = sum(int(s["messages"]) for s in sent)
        return 2 + SECONDS * run.facts.clients * len(run.stages) + OF_A_PROTOTYPE * many

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        asked, aux = view.know("candidates"), view.know("aux_data")
        some = aux.some(torch.randperm(len(aux), generator=rng)[:AUXILIARY].to(aux.y.device))
        told, why = self._of_rows(view, asked, some)
        for client, found in prototypes.added(view, asked, some, rng).items():
            if isinstance(found, str):
                why[client] = found
            else:
                told.setdefault(client, []).append(self._added(found, asked, some, client))
        out = []
        for client in sorted({*told, *why}):
            unit = f"client/{client}"
            if client in told:
                score = torch.stack(told[client]).max(0).values
                out.append(Guess(unit, view.round, {"membership": score}))
            else:
                out.append(Guess(unit, view.round, failed=why[client]))
        return out

    def _of_rows(
        self, view: View, asked: Examples, aux: Examples
    ) -> tuple[dict[int, list[Tensor]], dict[int, str]]:
        """{client: what each of its messages with rows says, (n,)}, and why one says nothing."""
        of, why = clients_of(asked).cpu(), dict[int, str]()
        told: dict[int, list[Tensor]] = {}
        kinds = [kind for kind in ROWS if kind in view.threat.kinds]
        sent = [one for kind in kinds for one in _of_rows(view.of_others(view.messages(kind)))]
        for i, m in enumerate(sorted(sent, key=lambda m: (m.round, m.phase))):
            view.progress(i / len(sent))
            client = party(m.sender)
            mine = asked.some((of == client).nonzero().flatten().to(asked.y.device))
            if not len(mine):
                continue
            found = self._said(view, m, mine, aux)
            if isinstance(found, str):
                why[client] = found
            elif found is not None:
                told.setdefault(client, []).append(found)
        return told, why

    def _added(
        self, found: list[prototypes.Added], asked: Examples, aux: Examples, client: int
    ) -> Tensor:
        """(n,) of all prototypes of a client."""
        y = asked.y[clients_of(asked) == client].cpu()
        known = aux.y[torch.isin(aux.y.cpu(), y).to(aux.y.device)].cpu()
        return beyond_usual(prototypes.said(found, nearest=self.signal == "nearest"), y, known)

    def _said(self, view: View, m: Message, mine: Examples, aux: Examples) -> Tensor | str | None:
        """(n,) of one message; None where it has no row, else why it tells nothing."""
        sent = Rows.of(m.payload, m.told()[""])
        if not len(m.payload):
            return None
        if not len(sent.at):
            return "the message is not finite"
        of: Extractor | str | None = extractor(view, m) if m.kind == "features" else None
        if isinstance(of, str):
            return of
        both = torch.cat([mine.x, aux.x]).to(m.payload.device, view.dtype)  # rows may be integers
        made = both if of is None else of.of(view.facts.input_range.unit(both))
        flat, rows = made.double().flatten(1).cpu(), sent.x
        if flat.shape[1:] != rows.shape[1:]:
            return "its rows have another length than what the model makes of an example"
        y, known = torch.cat([mine.y, aux.y]).cpu(), aux.y.cpu()
        found = self._labels(view, m)
        named = None if found is None else found[sent.at]
        if named is None:
            y, known, named = (torch.zeros(len(t), dtype=torch.int64) for t in (y, known, rows))
        there, nearest = sent.there, self.signal == "nearest"
        if nearest and bool(there.all()):
            alike = _alike(flat, rows)
            usual = float(alike[len(mine) :].quantile(MOSTLY)) if len(aux) else 0.0
            if float(alike[: len(mine)].max()) > max(COPIED, usual + CLEARLY):
                return beyond_usual(alike, mine.y.cpu(), aux.y.cpu())
        rows = rows / self._scale(view, m, flat, len(known))
        if not bool(there.all()):  # zeros that were not sent are no data
            near = _of_sent(flat, y, rows, named, there, of=known, nearest=nearest)
        else:
            flat, rows = _whitened(flat, y, rows, named, of=known)
            near = -torch.cdist(flat, rows) if nearest else flat @ rows.T
        if not bool(near.isfinite().all()):
            return "auxiliary examples, or what the model makes of them, do not differ"
        fits = y[:, None] == named[None]
        near = torch.where(fits, near, -torch.inf).max(1).values
        least = near[near.isfinite()]
        if not len(least):
            return None
        near = near.clamp(min=float(least.min()))  # of whose class nothing was shared
        return beyond_usual(near, mine.y.cpu(), aux.y.cpu())

    def _scale(self, view: View, m: Message, flat: Tensor, known: int) -> float:
        """By how much a wrapper scaled the rows of a message, as clipping does; 1 where none did.

        ``flat`` (n + m, d): what examples make, the last ``known`` of them auxiliary ones. A row
        that lies along one of them was made of it, and tells the scale to the last digit.
        """
        if known < FEW:
            return 1.0
        sent = view.of_others(view.messages(m.kind, round=m.round))
        alike = [Rows.of(o.payload, o.told()[""]) for o in _of_rows(sent) if len(o.payload)]
        alike = [one for one in alike if one.x.shape[1:] == flat.shape[1:]]
        change = RowChange.of(flat[len(flat) - known :], alike)
        if not change.scaled:
            return 1.0
        rows = Rows.of(m.payload, m.told()[""])
        usual = max(change.measured(rows)[0], 1e-300)
        unit = torch.nn.functional.normalize
        near = unit(flat, dim=1) @ unit(rows.x, dim=1).T
        along, which = near.max(0)
        clear = along > ALONG
        if not bool(clear.any()):
            return usual
        made = flat[which[clear]]
        ratio = (rows.x[clear] * made).sum(1) / made.square().sum(1).clamp(min=1e-300)
        return max(float(ratio.median()), 1e-300)

    def _labels(self, view: View, m: Message) -> Tensor | None:
        """(rows,) int64: the classes that were named beside the rows; None where none were."""
        sent = view.messages("labels", sender=m.sender, round=m.round, phase=m.phase)
        y = sent[-1].payload if sent else None
        alike = isinstance(y, torch.Tensor) and y.shape == (len(m.payload),)
        return y.cpu() if alike and y is not None and not y.is_floating_point() else None

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        return by_inputs(view)


def _of_rows(messages: Sequence[Message]) -> list[Message]:
    """Messages as they are, and of one of several tensors one for each that may be of rows."""
    leaves = [(m, t) for m in messages for t in leaves_of(m.payload).values()]
    return [m if t is m.payload else replace(m, payload=t) for m, t in leaves if t.dim() > 1]


def _alike(made: Tensor, rows: Tensor) -> Tensor:
    """(n,): how nearly a row is a copy of each example, but for a factor and an offset of its own.

    Minus the log of the share of its variance that the nearest row leaves unexplained. Neither
    turning a row's sign nor naming another class hides a copy.
    """
    unit = torch.nn.functional.normalize
    centred = (unit(v - v.mean(1, keepdim=True), dim=1) for v in (made, rows))
    one, other = centred
    best = (one @ other.T).square().max(1).values
    return -(1 - best).clamp(min=LEAST).log()


def _whitened(
    flat: Tensor, y: Tensor, rows: Tensor, named: Tensor, *, of: Tensor
) -> tuple[Tensor, Tensor]:
    """Examples (n + m, d) and rows (k, d) less their class's mean, in deviations of auxiliary ones.

    ``y``: (n + m,) classes, ``named``: (k,) the rows'; ``of``: (m,) those of the auxiliary
    examples, which are the last of ``flat`` and tell what is usual.
    """
    aux = flat[len(flat) - len(of) :]
    middle = {c: aux[of == c].mean(0) for c in sorted({*of.tolist()})}
    whole = aux.mean(0)
    flat = flat - torch.stack([middle.get(c, whole) for c in y.tolist()])
    rows = rows - torch.stack([middle.get(c, whole) for c in named.tolist()])
    aux = flat[len(flat) - len(of) :]
    if not float(aux.abs().sum()) > 0:  # of each class there is one alone
        aux = torch.stack([middle[c] for c in of.tolist()]) - whole
    sizes, axes = axes_of(aux)
    spread = sizes.square() / max(len(aux), 1)
    least = RIDGE * float(spread.sum()) / flat.shape[1]
    scale = (spread + least).rsqrt() - max(least, 1e-300) ** -0.5

    def white(v: Tensor) -> Tensor:
        return max(least, 1e-300) ** -0.5 * v + (v @ axes.T * scale) @ axes

    return white(flat), white(rows)


def _of_sent(
    flat: Tensor,
    y: Tensor,
    rows: Tensor,
    named: Tensor,
    there: Tensor,
    *,
    of: Tensor,
    nearest: bool,
) -> Tensor:
    """(n + m, k): the same by the numbers of each row that were sent, ``there`` (k, d), alone.

    Numbers are taken one by one, in deviations of auxiliary examples: whitening mixes them.
    """
    aux = flat[len(flat) - len(of) :]
    middle = {c: aux[of == c].mean(0) for c in sorted({*of.tolist()})}
    spread = (aux - aux.mean(0)).square().mean(0)
    whole, scale = aux.mean(0), (spread + RIDGE * spread.mean()).sqrt()
    flat = (flat - torch.stack([middle.get(c, whole) for c in y.tolist()])) / scale
    rows = (rows - torch.stack([middle.get(c, whole) for c in named.tolist()])) / scale
    sent = there.double()
    along = flat @ (rows * sent).T
    if not nearest:
        return along
    far = flat.square() @ sent.T - 2 * along + (rows * sent).square().sum(1)
    return -far / sent.sum(1).clamp(min=1)
