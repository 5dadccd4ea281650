"""What tasks of verification share: a person per client, and pairs of people who are no clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from leakbench.base import UsageError, shared, torch
from leakbench.federation import Examples, Task, TaskData, padded

if TYPE_CHECKING:
    from torch import Tensor

METHODS = ("fedhide", "fedgn", "fedcs", "fedaws")  # FedHide's; all of one setting, its Table 1
OURS = (
    *("fedgn_once", "fedcs_once", "fedhide_random", "fedhide_own_layer"),
    *("own_prototypes", "fixed_prototypes"),
)
KNOWN = "inputs of every client's identity that are auxiliary data, and not the client's; 0: none"
TESTED = "identities on whom verification is tested; none is a client's"


class IdentityTask(Task):
    """Client c has the inputs of one identity; pairs of inputs of other identities are verified.

    Utility is the equal error rate over ``TaskData.pairs``: nobody in them is a client's. Auxiliary
    data are of identities that are neither a client's nor tested; with ``known`` of the clients'
    own, too, inputs that no client holds: who is suspected often has pictures in public. All draws
    are named permutations.
    """

    source: ClassVar[str]  # the set's name in leakbench.data.sets; also of the streams

    utility: Literal["eer"] = Field("eer", description="equal error rate over pairs of strangers")
    known: int = Field(0, ge=0, description=KNOWN)

    @property
    def classes(self) -> int:  # type: ignore[override]
        """The clients' identities: one each."""
        return self.clients

    def order(self, name: str, many: int) -> list[int]:
        """A permutation of ``many`` things, the same in every run of this task."""
        return shared(0, f"task/{self.source}").permutation(name, many).tolist()

    def verified(
        self,
        held: Sequence[Tensor],
        tested: Sequence[Tensor],
        aux: Sequence[Tensor],
        pairs: Tensor,
        unofficial: str,
    ) -> TaskData:
        """The data: client c has ``held[c]`` (n, *shape).

        Identities are numbered: the clients', then the tested, then the auxiliary ones.

        Args:
            held: of each client's identity.
            tested: of each tested identity, (n, *shape) or (n, crops, *shape).
            aux: of each auxiliary identity.
            pairs: (P, 3), rows of ``tested`` in a row, and are they of one identity.
            unofficial: why the set is not the official one, or "".

        Raises:
            UsageError: a client would be left with nothing.
        """
        fewest = min(map(len, held))
        if fewest <= self.known:
            raise UsageError(
                f"task.known = {self.known}, but an identity of {self.source} has {fewest} inputs,"
                " one of which at least must be its client's; use fewer."
            )
        kept, public = held, []
        if self.known:  # else nothing is copied
            orders = [torch.tensor(self.order(f"known/{c}", len(x))) for c, x in enumerate(held)]
            both = list(zip(held, orders, strict=True))
            kept = [x[rows[self.known :].sort().values] for x, rows in both]
            public = [x[rows[: self.known]] for x, rows in both]
        own, strangers = range(len(held)), len(held) + len(tested)
        train, test = _examples(kept, own), _examples(tested, range(len(held), strangers))
        others = range(strangers, strangers + len(aux))
        shown = [*zip(public, own, strict=False), *zip(aux, others, strict=True)]
        auxiliary = _examples([x for x, _ in shown], [y for _, y in shown])
        rows, counts = padded([*torch.split(torch.arange(len(train)), [len(x) for x in kept])])
        stands = torch.arange(len(held))
        return TaskData(
            train, test, auxiliary, rows, counts, stands, unofficial=unofficial, pairs=pairs
        )


def _examples(parts: Sequence[Tensor], numbers: Sequence[int]) -> Examples:
    y = torch.tensor([*numbers]).repeat_interleave(torch.tensor([len(x) for x in parts]))
    return Examples(torch.cat([*parts]), y)


def all_pairs(sizes: Sequence[int]) -> Tensor:
    """(P, 3): every pair of rows of identities that have so many each, and are they of one."""
    whose = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    i, j = torch.combinations(torch.arange(len(whose))).T
    return torch.stack([i, j, (whose[i] == whose[j]).long()], 1)


def same_for_each(methods: Sequence[str], **values: Any) -> dict[str, dict[str, Any]]:
    """The same values for each of ``methods``."""
    return {m: dict(values) for m in methods}
