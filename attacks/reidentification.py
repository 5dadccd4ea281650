"""Re-identification: which nameless feature set of a later round is this client's?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from leakbench.attacking import Attack, Guess, Metric, Outline, ThreatModel, View
from leakbench.base import UsageError, torch
from leakbench.federation import SERVER
from leakbench.metrics import REIDENTIFIED

if TYPE_CHECKING:
    from torch import Tensor

# What a pair of examples with different labels, or an example without a partner, costs: the largest
# distance.
APART = 2.0

Sets = dict[int, "Shared"]  # client -> what it shared in a round


@dataclass(frozen=True)
class Shared:
    """What a client shared in one round.

    Features x (n, ...), labels y (n,) or zeros where none are shared.
    """

    x: Tensor
    y: Tensor


class Reidentification(Attack):
    """Compares the set of features that a client sent in a round with every set of a later round.

    FLea's buffer names nobody, but a client may share the same examples again (``subset`` =
    "fixed"), or others of its own data ("fresh"). For every client of whom features of two rounds
    were kept: the newer of its two newest rounds is the later one, all sets of that round are
    candidates, the one it sent before is the query.

    Between the rounds the model has changed. What changed alike for everybody is taken out by
    standardising every feature over all rows of its round. Two sets are as unlike as their cheapest
    assignment of rows: 1 - cosine of the standardised rows (0 to 2) where the labels agree, 2 where
    they do not and for every row that is left over, divided by the rows of the larger set. So the
    labels alone, which FLea shares in the clear, tell clients apart that hold different classes;
    ``labels`` = false is what the features alone give away. The order of the rows is not used.

    With "fixed" the same examples come back, and only the model stands between them: a high share
    says that several rounds can be put together to one client's history, whatever the features hide
    in each. With "fresh" what is recognised is the client's data as a whole: which classes it holds
    and how its examples look. The control compares the examples themselves: the same ones in other
    rounds if "fixed".

    The observer is the server, which knows the senders and here does not look at them: its guess is
    the same whoever they are. A client that receives the buffer gets the same rows without names,
    but not where one set ends, and only in rounds in which it is chosen itself: the number bounds
    what it can do. (FLea's buffer keeps the clients in the order of their numbers and each client's
    rows together; a server would have to shuffle it.)
    """

    about: ClassVar[str] = (
        "which nameless features of a later round are those of a client seen before?"
    )
    paper: ClassVar[str] = "adaptive; not in FLea"
    metrics: ClassVar[tuple[Metric, ...]] = (REIDENTIFIED,)
    order: ClassVar[int] = 10
    over: ClassVar[Literal["stages", "all"]] = "all"
    left_out: ClassVar[str] = (
        "their features were sent, or kept by the recording policy, in fewer than two rounds with"
        " others in them"
    )

    labels: bool = Field(
        True,
        description=(
            "compare the labels that are shared with the features, too; false: the features alone"
        ),
    )

    @property
    def threat(self) -> ThreatModel:
        return ThreatModel(
            kinds=("features", "labels") if self.labels else ("features",),
            rounds="all",
            rung="method",
        )

    def obstacle(self, run: Outline) -> str:
        why = super().obstacle(run)
        if why:
            return why
        rows = run.traffic("features")
        sent = rows[(rows[:, 1] >= 0) & (rows[:, 2] == SERVER)][:, :2]
        times, senders = torch.unique(sent, dim=0).unbind(1)
        crowded = torch.isin(times, _more_than_once(times))
        if len(_more_than_once(senders[crowded])):
            return ""
        return "no client sends features in two rounds in which others do, too"

    def seconds(self, run: Outline) -> float:
        sent = next(s for s in run.sent if (s["kind"], s["sender"]) == ("features", "client"))
        pairs = run.facts.clients * sent["messages"] / sent["rounds"]
        return float(1 + 2 * pairs * (2e-3 + 1e-8 * sent["bytes"] / sent["messages"]))

    def run(self, view: View, rng: torch.Generator) -> list[Guess]:
        rounds = _rounds(view)
        moments: dict[int, tuple[Tensor, Tensor] | None] = {}
        out = []
        for later, queries in _queries(rounds).items():
            for client, earlier in queries:
                for t in {earlier, later} - set(moments):
                    moments[t] = _moments(rounds[t])
                before, now = moments[earlier], moments[later]
                if before is None or now is None:
                    bad = earlier if before is None else later
                    why = f"the features of round {bad} are not finite"
                    out.append(Guess(f"client/{client}", view.round, failed=why))
                    continue
                query = _standard(rounds[earlier][client], before)
                sets = (_standard(s, now) for _, s in sorted(rounds[later].items()))
                unlike = torch.tensor([unlikeness(query, s) for s in sets], dtype=torch.float64)
                out.append(_guess(view, client, later, -unlike))
        return out

    def blind(self, view: View, rng: torch.Generator) -> list[Guess]:
        """Every set is as likely as every other."""
        rounds = _rounds(view)
        return [
            _guess(view, client, later, torch.zeros(len(rounds[later]), dtype=torch.float64))
            for later, queries in _queries(rounds).items()
            for client, _ in queries
        ]


def unlikeness(a: Shared, b: Shared) -> float:
    """0 to 2: the cheapest assignment of the rows of two sets.

    Their rows x (n, d) have length 1 or 0.
    """
    from scipy.optimize import linear_sum_assignment

    apart = 1 - (a.x @ b.x.T).clamp(-1, 1)
    cost = torch.where(a.y[:, None] == b.y[None, :], apart, APART).cpu().numpy()
    rows, columns = linear_sum_assignment(cost)
    left = abs(len(a.y) - len(b.y))
    return float(cost[rows, columns].sum() + APART * left) / max(len(a.y), len(b.y), 1)


def _guess(view: View, client: int, later: int, likeness: Tensor) -> Guess:
    tensors = {"likeness": likeness, "round": torch.tensor(later)}
    return Guess(f"client/{client}", view.round, tensors)


def _rounds(view: View) -> dict[int, Sets]:
    """{round: {client: what it shared}} of the kept rounds in which more than one did.

    Raises:
        UsageError: no client appears in two of them.
    """
    said = view.messages("labels") if "labels" in view.threat.kinds else []
    labels = {(m.sender, m.round, len(m.payload)): m.payload for m in said}
    found: dict[int, Sets] = {}
    for m in view.messages("features"):
        if m.sender != "server":
            n, client = len(m.payload), int(m.sender.split("/")[1])
            none = torch.zeros(n, dtype=torch.int64, device=m.payload.device)
            y = labels.get((m.sender, m.round, n), none)
            hard = y.argmax(-1) if y.ndim > 1 else y
            found.setdefault(m.round, {})[client] = Shared(m.payload.flatten(1), hard)
    several = {t: sets for t, sets in sorted(found.items()) if len(sets) > 1}
    if not _queries(several):
        raise UsageError(
            "no client's features were kept in two rounds, so nobody can be seen again: train"
            " longer, or with --record all."
        )
    return several


def _queries(rounds: dict[int, Sets]) -> dict[int, list[tuple[int, int]]]:
    """{later round: [(client, round of its query)]}.

    Of each client the two newest rounds in which its features were kept.
    """
    out: dict[int, list[tuple[int, int]]] = {}
    for client in sorted({c for sets in rounds.values() for c in sets}):
        sent = [t for t in sorted(rounds) if client in rounds[t]]
        if len(sent) > 1:
            out.setdefault(sent[-1], []).append((client, sent[-2]))
    return out


def _moments(sets: Sets) -> tuple[Tensor, Tensor] | None:
    """Mean (d,) and 1 / standard deviation (d,) of every feature over all rows of a round.

    0 for one that does not vary; None where one is not finite.
    """
    x = torch.cat([sets[c].x for c in sorted(sets)]).double()
    if not bool(x.isfinite().all()):
        return None
    spread = x.std(0, correction=0)
    varies = spread > 1e-6 * spread.max()
    return x.mean(0), torch.where(varies, 1 / torch.where(varies, spread, 1.0), 0.0)


def _standard(shared: Shared, moments: tuple[Tensor, Tensor]) -> Shared:
    """Rows standardised and brought to length 1; a row without anything left stays 0."""
    mean, scale = moments
    return Shared(
        torch.nn.functional.normalize((shared.x.double() - mean) * scale, dim=1), shared.y
    )


def _more_than_once(values: Tensor) -> Tensor:
    found, counts = torch.unique(values, return_counts=True)
    return found[counts > 1]
