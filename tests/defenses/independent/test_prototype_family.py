"""FedHide, its baselines, variants and controls beside a few lines from the paper."""

from __future__ import annotations

import pytest
import torch
from helpers.by_hand import ALONE, Loop, compare, unit

from leakbench.base.streams import SHARED

nets = pytest.mark.parametrize("net", ALONE)
STEPS = {"batch": 8, "fraction": 0.6, "decay": 0.9, "own_lr": 0.5}


class Own(Loop):
    """Park and Yun 2024, Eq. 2 alone: a prototype of the client's, trained with the network."""

    def start(self, c):
        w = self.dice(c).normal("prototype", 8)
        self.own[c]["prototype"] = unit(w) if self.p.stored == "unit" else w

    def positive(self, net, x, c):
        w = unit(self.own[c]["prototype"])
        return (1 - (unit(net(x)) * w).sum(1)).pow(2).mean()

    def loss(self, net, x, y, c):
        return self.positive(net, x, c)

    def uplink(self, c):
        if self.p.stored == "unit":
            self.own[c] = {"prototype": unit(self.own[c]["prototype"])}
        return self.shows(c, unit(self.own[c]["prototype"]))

    def shows(self, c, w):
        return {}

    def logits(self, net, x, c):
        return unit(net(x)) @ unit(self.own[c]["prototype"])


class Fixed(Own):
    """A direction that stays as it was drawn."""

    def start(self, c):
        self.state[c]["prototype"] = unit(self.dice(c).normal("prototype", 8))

    def positive(self, net, x, c):
        return (1 - unit(net(x)) @ self.state[c]["prototype"]).pow(2).mean()

    def uplink(self, c):
        return {}

    def logits(self, net, x, c):
        return unit(net(x)) @ self.state[c]["prototype"]

    each_answers = True


class Shared(Own):
    """Algorithm 1 with Eq. 1 and 3: the newest proxies of all are the negatives of each."""

    def __init__(self, fed):
        super().__init__(fed)
        self.bank = unit(self.dice(SHARED).normal("bank", self.n, 8))

    def tells(self):
        return {"prototype": self.bank}

    def rest(self, c):
        return torch.stack([v for i, v in enumerate(self.bank) if i != c])

    def loss(self, net, x, y, c):
        w = unit(self.own[c]["prototype"])
        return self.positive(net, x, c) + self.p.lam * (1 + self.rest(c) @ w).pow(2).mean()

    def shows(self, c, w):
        return {"prototype": self.proxy(c, w)}

    def aggregate(self):
        super().aggregate()
        self.bank = self.bank.clone()
        for c in self.who:
            self.bank[c] = self.came[c]["prototype"]


class FedHide(Shared):
    """Eq. 4."""

    def weight(self, c):
        return self.p.alpha

    def proxy(self, c, w):
        rest, alpha = self.rest(c), self.weight(c)
        near = sorted(rest, key=lambda v: -float(v @ w))[: self.p.k]
        return unit(alpha * w + (1 - alpha) * unit(sum(near)))


class Redrawn(FedHide):
    """Each client draws alpha in each round."""

    def weight(self, c):
        low, high = self.p.alpha_low, self.p.alpha
        return low + (high - low) * self.dice(c).uniform("alpha")


class FedGN(Shared):
    """Eq. 5."""

    def round_of(self):
        return self.t

    def proxy(self, c, w):
        return unit(w + self.p.sigma * self.dice(c, t=self.round_of()).normal("noise", 8))


class FedGNOnce(FedGN):
    def round_of(self):
        return 0


class FedCS(Shared):
    """Eq. 6: at the cosine from w, along what the draw has at right angles to w."""

    def round_of(self):
        return self.t

    def proxy(self, c, w):
        n = self.dice(c, t=self.round_of()).normal("direction", 8)
        basis = torch.linalg.qr(torch.stack([w, n], 1))[0][:, 1]
        aside = basis * torch.sign(basis @ n)
        angle = torch.acos(torch.tensor(self.p.cos_theta, dtype=torch.float64))
        return angle.cos() * w + angle.sin() * aside


class FedCSOnce(FedCS):
    def round_of(self):
        return 0


class FedAwS(Shared):
    """Yu et al. 2020, Eq. 6: the server spreads the true prototypes, each client gets its own."""

    def round(self):
        self.down(model=self.model)
        for c in self.who:
            self.note(f"to {c}", prototype=self.bank[c])
        self.train("loss")
        self.everyone_sends(self.uplink)
        self.aggregate()

    def prepare(self, c):
        old = self.own[c]["prototype"]
        self.own[c] = {"prototype": old.norm() * self.bank[c]}

    def loss(self, net, x, y, c):
        return self.positive(net, x, c)

    def proxy(self, c, w):
        return w

    def aggregate(self):
        super().aggregate()
        w, p = self.bank.clone(), self.p
        step = torch.zeros_like(w)
        for i in range(self.n):
            near = sorted(range(self.n), key=lambda j: float((w[i] - w[j]).norm()))
            for j in near[1:][: p.top_k or None]:
                apart = w[i] - w[j]
                hinge = max(0.0, p.margin - float(apart.norm()))
                step[i] -= 2 * hinge * apart / apart.norm()
        self.bank = unit(w - p.lam * p.server_lr * step)


class OwnLayer(FedHide):
    """The head, or its bias, stays with the client."""

    def __init__(self, fed):
        super().__init__(fed)
        names = {"head.bias"} | ({"head.weight"} if self.p.stays == "layer" else set())
        assert self.kept[0].keys() == names


METHODS = [
    ("own_prototypes", Own, {}),
    ("own_prototypes", Own, {"stored": "unit"}),
    ("fixed_prototypes", Fixed, {}),
    ("fedhide", FedHide, {"k": 2}),
    ("fedhide", FedHide, {"k": 3, "alpha": 0.5, "stored": "unit", "lam": 1.0}),
    ("fedhide_random", Redrawn, {"k": 2, "alpha": 0.6}),
    ("fedhide_own_layer", OwnLayer, {"k": 2}),
    ("fedhide_own_layer", OwnLayer, {"k": 2, "stays": "bias"}),
    ("fedgn", FedGN, {"sigma": 0.3}),
    ("fedgn_once", FedGNOnce, {"sigma": 0.3}),
    ("fedcs", FedCS, {"cos_theta": 0.3}),
    ("fedcs_once", FedCSOnce, {"cos_theta": -0.3}),
    ("fedaws", FedAwS, {}),
    ("fedaws", FedAwS, {"top_k": 2, "lam": 3.0}),
]


@nets
@pytest.mark.parametrize(("name", "loop", "params"), METHODS)
def test_a_round_of_algorithm_1(net, name, loop, params):
    compare(loop, name, ALONE[net], **{**STEPS, **params})


@nets
def test_several_steps_of_adam(net):
    longer = {**STEPS, "steps": 0, "epochs": 2, "optimizer": "adam", "lr": 0.01, "own_lr": 0.02}
    compare(FedHide, "fedhide", ALONE[net], **longer, k=2, average="weighted")
