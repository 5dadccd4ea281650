"""A statement of a paper that compares two columns of its table, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from leakbench.reproduce.orders import Less
from leakbench.reproduce.row import Measurement, Row
from leakbench.reproduce.statements import OPEN, Order, Statement, Verdict


@dataclass(frozen=True)
class Below(Order):
    """In each row of ``those`` the measure is below the measure ``than``, and all of them apart.

    ``words``: what the two are called behind a row's label.
    """

    than: str = ""
    words: tuple[str, str] = ("", "")
    those: tuple[str, ...] = ()

    def labels(self) -> tuple[str, ...]:
        """The cases it speaks of."""
        return self.those

    def verdict(self, live: Mapping[str, Measurement]) -> tuple[Verdict, str]:
        """Of one column alone: none."""
        return OPEN, "it takes two columns"

    def judge(self, rows: Sequence[Row], dataset: str, printed: int | None = None) -> Statement:
        """The statement on one data set's rows: each pair's two numbers, as two rows' would be."""
        named = []
        for measure, word in zip((self.measure, self.than), self.words, strict=True):
            for r in rows:
                if r.measure == measure and r.label in self.those:
                    about = {"label": f"{r.label} ({word})", "measure": self.measure}
                    # Both numbers are of the same runs, which take their time once.
                    free = measure == self.than and r.seconds is not None
                    named.append(r.model_copy(update=about | ({"seconds": 0.0} if free else {})))
        lower, upper = self.words
        pairs = tuple((f"{label} ({lower})", f"{label} ({upper})") for label in self.those)
        found = Less(self.text, self.measure, pairs=pairs).judge(named, dataset, printed)
        if found.needs is None:
            return found
        whose = {name: x for pair, x in zip(pairs, self.those, strict=True) for name in pair}
        return replace(found, needs=found.needs.renamed(whose))
