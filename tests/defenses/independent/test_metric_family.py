"""FedMetric and what it is compared with, each beside a few lines from its paper."""

from __future__ import annotations

from itertools import zip_longest

import pytest
import torch
from helpers.by_hand import ALONE, Loop, compare, unit

nets = pytest.mark.parametrize("net", ALONE)
STEPS = {"batch": 8, "fraction": 0.6, "decay": 0.9}


class FedMetric(Loop):
    """Park, Hosseini and Yun 2021, Algorithm 1 with Eq. 4 to 6, in means over the batch."""

    each_answers = True

    def __init__(self, fed):
        super().__init__(fed)
        self.centres = torch.zeros(self.n, 8, dtype=torch.float64)
        self.margins = torch.zeros(self.n, dtype=torch.float64)

    @property
    def shows(self):
        return self.p.variant != "pos"

    def g(self, net, x):
        return unit(net(x)) if self.p.normalised else net(x)

    def data(self, c):
        """The examples that the centre and the radius are of."""
        if not self.p.sample:
            return self.x[c]
        return self.x[c][self.dice(c).permutation("sample", len(self.x[c]))[: self.p.sample]]

    def start(self, c):
        with torch.no_grad():
            self.prepare(c)
        if self.shows:
            self.state[c]["radius"] = torch.tensor(0.0, dtype=torch.float64)

    def tells(self):
        return {"prototype": self.centres, "statistics": self.margins} if self.shows else {}

    def prepare(self, c):
        centre = self.g(self.net(), self.data(c)).mean(0)
        self.state[c] = {**self.state[c], "prototype": centre}

    def loss(self, net, x, y, c):
        g = self.g(net, x)
        centre = self.state[c]["prototype"]
        if self.p.centre == "batch":
            centre = g.detach().mean(0)
        total = sum((v - centre).norm() for v in g)
        for j in range(self.n):
            if j != c and self.shows:
                inside = (self.margins[j] - (g - self.centres[j]).norm(dim=1)).clamp(min=0)
                total = total + self.p.lam * (inside**2 if self.p.squared else inside).sum()
        return total if self.p.sums else total / len(x)

    def uplink(self, c):
        if not self.shows:
            return {}
        centre = self.state[c]["prototype"]
        radius = max((v - centre).norm() for v in self.g(self.net(self.locals[c]), self.data(c)))
        self.state[c] = {"prototype": centre, "radius": radius}
        d = self.p.scale * radius if self.p.variant == "proxy" else 0 * radius
        x = d * unit(self.dice(c).normal("direction", 8))
        return {"prototype": centre + x, "statistics": radius + d}

    def aggregate(self):
        super().aggregate()
        self.centres, self.margins = self.centres.clone(), self.margins.clone()
        for c in self.who if self.shows else []:
            self.centres[c] = self.came[c]["prototype"]
            self.margins[c] = self.came[c]["statistics"]

    def logits(self, net, x, c):
        return -(self.g(net, x) - self.state[c]["prototype"]).norm(dim=1)

    def embedding(self, net, x):
        return self.g(net, x)


class DeepSVDD(Loop):
    """Ruff et al. 2018, the one-class loss without weight decay, at each client by itself."""

    def __init__(self, fed):
        super().__init__(fed)
        assert not any(k.endswith("bias") for k in self.arch.state_dict())
        assert self.kept[0].keys() == self.arch.state_dict().keys()

    def start(self, c):
        with torch.no_grad():
            centre = self.net(c=c)(self.x[c]).mean(0).tolist()
        far = [v if abs(v) >= self.p.least else self.p.least * (-1) ** (v < 0) for v in centre]
        self.state[c]["centre"] = torch.tensor(far, dtype=torch.float64)

    def round(self):
        self.train("loss")

    def loss(self, net, x, y, c):
        return sum(((v - self.state[c]["centre"]) ** 2).sum() for v in net(x)) / len(x)

    def logits(self, net, x, c):
        return -(net(x) - self.state[c]["centre"]).norm(dim=1)


# Of GF(length + 1), its powers of x highest first.
PRIMITIVE = {15: 0b10011, 31: 0b100101, 127: 0b10000011}


def polynomial(length, k):
    """A BCH code's generator, highest power first: zero at x, x^2, ... and their conjugates."""
    powers = [1]
    for _ in range(length - 1):
        twice = 2 * powers[-1]
        powers.append(twice ^ PRIMITIVE[length] if twice > length else twice)
    roots, i = set(), 0
    while len(roots) < length - k:
        i += 1
        while i not in roots:
            roots.add(i)
            i = 2 * i % length
    g = [1]
    for r in roots:  # times (z + x^r)
        moved = [v and powers[(powers.index(v) + r) % length] for v in g]
        g = [a ^ b for a, b in zip([*g, 0], [0, *moved], strict=True)]
    return g


class FedUV(Loop):
    """FedMetric's Eq. 3, with tanh for sigma: towards a codeword of a BCH code."""

    each_answers = True

    def codeword(self, message):
        """The message, then what is left of it over the generator polynomial."""
        k = len(message)
        divisor, rest = polynomial(self.p.length, k), [*message, *[0] * (self.p.length - k)]
        for i in range(k):
            if rest[i]:
                rest[i:] = [a ^ b for a, b in zip_longest(rest[i:], divisor, fillvalue=0)]
        return [*message, *rest[k:]]

    def start(self, c):
        public = [int(b) for b in f"{c:03b}"[::-1]]  # of five clients
        secret = self.dice(c).integers("message", 2, self.p.message - 3).tolist()
        bits = torch.tensor(self.codeword([*public, *secret]), dtype=torch.float64)
        self.state[c]["codeword"] = 2 * bits - 1

    def correlation(self, net, x, c):
        w = net.code.weight
        g = net.head(net.second(net.first(x)))
        return torch.tanh(g @ w.T) @ self.state[c]["codeword"] / (self.p.divisor or self.p.length)

    def loss(self, net, x, y, c):
        return (1 - self.correlation(net, x, c)).clamp(min=0).pow(2).mean()

    def logits(self, net, x, c):
        return self.correlation(net, x, c)


METHODS = [
    ("fedmetric", FedMetric, {"lam": 0.7}),
    ("fedmetric", FedMetric, {"variant": "true", "average": "weighted"}),
    ("fedmetric", FedMetric, {"variant": "pos", "sums": True, "lr": 0.01}),
    ("fedmetric", FedMetric, {"squared": False, "scale": 0.5, "sample": 6}),
    ("fedmetric", FedMetric, {"centre": "batch", "normalised": True, "steps": 0, "epochs": 2}),
    ("deepsvdd", DeepSVDD, {}),
    ("deepsvdd", DeepSVDD, {"steps": 0, "epochs": 2, "least": 0.4, "average": "weighted"}),
    ("feduv", FedUV, {}),
    ("feduv", FedUV, {"length": 15, "message": 7, "steps": 3}),
    ("feduv", FedUV, {"length": 31, "message": 16, "divisor": 3.0, "steps": 0, "epochs": 2}),
]


@nets
@pytest.mark.parametrize(("name", "loop", "params"), METHODS)
def test_as_in_the_paper(net, name, loop, params):
    compare(loop, name, ALONE[net], **{**STEPS, **params})
