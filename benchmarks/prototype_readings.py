"""FedHide's prototypes alone, under both readings of how they are stored: which one gives the
paper's Table 3?

A network that answers zero has no pull on the prototypes, so what is left is Eq. 3 and 4: a hundred
prototypes that push each other away through their proxies, at the paper's lam = 10, own_lr = 0.1
and 512 dimensions. What a real network adds (prototypes of classes that look alike draw near) is
not here: cosines and collapse can be compared with the paper, P_leak cannot.

python benchmarks/prototype_readings.py [rounds]; results/prototype-readings.md has 10,000
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn

from leakbench.base import registry
from leakbench.federation.evaluate import diagnose
from leakbench.federation.federation import Federation
from leakbench.federation.parties import Facts
from leakbench.federation.task import Task
from leakbench.federation.task_data import Examples, TaskData, one_class_each
from leakbench.models.stages import Stages
from leakbench.results import claims


class Nothing(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.zero = nn.Parameter(torch.zeros(dim))  # there is an update, and it is 0

    def forward(self, x: Tensor) -> Tensor:
        return 0 * self.zero.expand(len(x), -1)


class Blank(Task):
    """A hundred clients with nothing to look at."""

    about, shape, classes, rounds = "nothing", (1,), 100, 10_000
    clients: int = 100
    model: str = "nothing"
    width: int = 1
    dim: int = 512

    def load(self) -> TaskData:
        some = Examples(torch.zeros(100, 1), torch.arange(100))
        return one_class_each(some, some, some, 100)

    def module(self, facts: Facts) -> Stages:
        return Stages({"nothing": Nothing(facts.dim)})


def main(rounds: int) -> None:
    task, kind = Blank(), registry.load("defenses", "fedhide")
    at = sorted({max(1, rounds // 5), rounds // 2, rounds})
    enough = {"as_drawn": rounds, "unit": at[0]}  # what collapses has done so by then
    heads = " | ".join(f"cosine after {t}" for t in at)
    print(
        f"| stored | FedHide | the paper's cosine | {heads} | mean cosine of two prototypes"
        f" |\n|---|---|---|{'---|' * len(at)}---|"
    )
    for stored in ("as_drawn", "unit"):
        for alpha in (0.1, 0.01):
            for k in (5, 10, 20):
                method = kind.build(
                    {"fraction": 0.1, "batch": 1, "alpha": alpha, "k": k, "stored": stored},
                    "fedhide",
                )
                fed = Federation(method, task, task.load())
                fed.begin()
                cells = []
                while fed.t < enough[stored]:
                    fed.step()
                    if fed.t in at:
                        cosine = (fed.secrets()["prototype"] * fed.state["bank"]).sum(1)
                        cells.append(f"{float(cosine.mean()):.2f} ± {float(cosine.std()):.2f}")
                cells += ["" for _ in at[len(cells) :]]
                fields = {"clients": 100, "fraction": 0.1, "rounds": rounds}
                paper = claims.find(
                    "fedhide", method.parameters(), "cifar100", "prototype_cosine", fields
                )
                known = (
                    f"{paper.value:.2f} ± {paper.high - paper.value:.2f}"
                    if paper and paper.high is not None
                    else "?"
                )
                alike = diagnose(fed)["prototype_mean_cosine"]
                print(
                    f"| {stored} | ({alpha:g}, {k}) | {known} | {' | '.join(cells)} |"
                    f" {alike:.3f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else Blank.rounds)
