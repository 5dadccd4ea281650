"""FedAvg and what changes its local loss or its average, each beside a few lines from its paper."""

from __future__ import annotations

import copy

import pytest
import torch
from helpers.by_hand import NETS, Loop, compare, features
from torch.nn import functional as F

EPOCHS = {"fraction": 0.6, "average": "weighted", "batch": 8, "steps": 0, "epochs": 2}
SGD = {**EPOCHS, "optimizer": "sgd", "lr": 0.1}
ADAM = {**EPOCHS, "optimizer": "adam", "lr": 0.01, "decay": 0.9}
nets = pytest.mark.parametrize("net", NETS)


class FedProx(Loop):
    """Li et al. 2020, Eq. 2: + mu/2 |w - w_t|^2 over the weights."""

    def loss(self, net, x, y, c):
        away = sum((v - self.model[k]).square().sum() for k, v in net.named_parameters())
        return super().loss(net, x, y, c) + self.p.mu / 2 * away


class Momentum(Loop):
    """As the documentation of ``torch.optim.SGD`` writes its step down; begun anew each round."""

    def slopes(self, name, net, x, y, c, own):
        value, grads = super().slopes(name, net, x, y, c, own)
        p, weights = self.p, net.parameters()
        grads = [g + p.weight_decay * v.detach() for g, v in zip(grads, weights, strict=True)]
        if self.step == 0:
            self.speed = grads
        else:
            self.speed = [p.momentum * b + g for b, g in zip(self.speed, grads, strict=True)]
        if not p.nesterov:
            return value, self.speed
        return value, [g + p.momentum * b for b, g in zip(self.speed, grads, strict=True)]


class Optim(Loop):
    """``torch.optim`` itself, after ``torch.nn.utils``, at rates set by hand."""

    def optimizer(self, groups):
        p = self.p
        if p.optimizer == "sgd":
            how = {"momentum": p.momentum, "nesterov": p.nesterov}
            return torch.optim.SGD(groups, weight_decay=p.weight_decay, **how)
        kind = torch.optim.AdamW if p.decoupled else torch.optim.Adam
        how = {"betas": (p.beta1, p.beta2), "eps": p.epsilon}
        return kind(groups, weight_decay=p.weight_decay, **how)

    def bend(self, optimizer, weights):
        if self.p.clip_norm:
            norm = torch.nn.utils.clip_grad_norm_(weights, self.p.clip_norm)
            assert norm > self.p.clip_norm
        if self.p.clip_value:
            torch.nn.utils.clip_grad_value_(weights, self.p.clip_value)
        if self.p.rates:
            rates = [*self.p.rates, *[self.p.rates[-1]] * 99][self.t - 1]
            rate = [*rates, *[rates[-1]] * 99][self.step]
            optimizer.param_groups[0]["lr"] = rate * self.scale()


class FedBN(Loop):
    """Li et al. 2021, Algorithm 1: normalisation layers are each client's own, statistics too."""

    def __init__(self, fed):
        super().__init__(fed)
        norms = [k for k, m in self.arch.named_modules() if isinstance(m, torch.nn.BatchNorm1d)]
        assert len(norms) == 2
        mine = {k for k in self.arch.state_dict() if k.rpartition(".")[0] in norms}
        assert mine == self.kept[0].keys()


class MOON(Loop):
    """Li et al. 2021, Eq. 3 and 4; both other models in evaluation mode, as in their code."""

    def start(self, c):
        self.state[c]["previous"] = dict(self.model)

    def loss(self, net, x, y, c):
        received, previous = self.net(), self.net(self.state[c]["previous"])
        z = features(net, x)
        with torch.no_grad():
            of = [features(other, x) for other in (received, previous)]
        near, far = (torch.exp(F.cosine_similarity(z, v) / self.p.temperature) for v in of)
        return F.cross_entropy(net.head(z), y) + self.p.mu * -(near / (near + far)).log().mean()

    def uplink(self, c):
        self.state[c] = {"previous": copy.copy(self.locals[c])}
        return {}


class SCAFFOLD(Loop):
    """Karimireddy et al. 2020, Algorithm 1 with option II."""

    def start(self, c):
        self.state[c]["variate"] = {k: 0 * v for k, v in self.arch.named_parameters()}
        self.state[c]["variate"] = {k: v.detach() for k, v in self.state[c]["variate"].items()}
        self.c = self.state[c]["variate"]

    def tells(self):
        return {"variate": self.c}

    def slopes(self, name, net, x, y, c, own):
        value, grads = super().slopes(name, net, x, y, c, own)
        turn = {k: self.c[k] - v for k, v in self.state[c]["variate"].items()}
        # What these are the slopes of: the loss and <c - c_i, y - x>.
        bent = sum((turn[k] * (v - self.model[k])).sum() for k, v in net.named_parameters())
        return value + bent, [g + turn[k] for k, g in zip(turn, grads, strict=True)]  # line 10

    def uplink(self, c):
        p, old = self.p, self.state[c]["variate"]
        k_eta = len(self.heard.rows[self.t, "loss", c]) * p.lr * p.decay ** (self.t - 1)
        moved = {k: self.model[k] - self.locals[c][k] for k in old}
        new = {k: old[k] - self.c[k] + moved[k] / k_eta for k in old}  # line 12
        self.state[c] = {"variate": new}
        return {"variate": {"new": new, "change": {k: new[k] - old[k] for k in new}}}

    def aggregate(self):
        super().aggregate()
        changes = [self.came[c]["variate"]["change"] for c in self.who]
        self.c = {k: v + sum(d[k] for d in changes) / self.n for k, v in self.c.items()}  # line 17


METHODS = [
    ("fedavg", Loop, {"batch": 8}),
    ("fedavg", Loop, {"batch": 8, "steps": 3}),
    ("fedavg", Loop, SGD),
    ("fedavg", Loop, ADAM),
    ("fedavg_momentum", Momentum, {**SGD, "weight_decay": 0.1}),
    ("fedavg_momentum", Momentum, {**SGD, "momentum": 0.5, "nesterov": True}),
    ("fedavg_optim", Optim, {**SGD, "clip_norm": 0.05, "momentum": 0.9, "weight_decay": 0.1}),
    ("fedavg_optim", Optim, {**SGD, "clip_value": 0.01, "rates": [[0.3], [0.1, 0.0, 0.2]]}),
    ("fedavg_optim", Optim, {**ADAM, "decay": 1.0, "weight_decay": 0.1, "decoupled": True}),
    (
        "fedavg_optim",
        Optim,
        {**ADAM, "decay": 1.0, "weight_decay": 0.1, "beta1": 0.5, "beta2": 0.9, "epsilon": 0.01},
    ),
    ("fedavg_optim", Optim, {**ADAM, "clip_norm": 0.05, "rates": [[0.02, 0.01], [0.005]]}),
    ("fedprox", FedProx, {**SGD, "mu": 0.3}),
    ("fedprox", FedProx, {**ADAM, "mu": 0.3}),
    ("fedbn", FedBN, SGD),
    ("moon", MOON, {**SGD, "mu": 2.0}),
    ("scaffold", SCAFFOLD, {**SGD, "decay": 0.9}),
    ("scaffold", SCAFFOLD, {"batch": 8, "fraction": 0.6}),
]


@nets
@pytest.mark.parametrize(("name", "loop", "params"), METHODS)
def test_as_in_the_paper(net, name, loop, params):
    compare(loop, name, NETS[net], **params)
