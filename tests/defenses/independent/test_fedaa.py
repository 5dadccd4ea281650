"""FedAA beside a few lines from its paper: Algorithms 1 to 4."""

from __future__ import annotations

import math

import pytest
import torch
from helpers.by_hand import COUNTS, NETS, Loop, compare, features
from torch import nn
from torch.nn import functional as F

from leakbench.base.streams import SHARED

nets = pytest.mark.parametrize("net", NETS)
# Few of what rounding grows in: steps of a line search, and rounds.
SHORT = {
    "fraction": 0.6,
    "batch": 8,
    "lr": 0.1,
    "epochs": 2,
    "examples": 3,
    "search_steps": 3,
    "tune_steps": 2,
    "tune_lr": 0.1,
    "identifier_epochs": 3,
    "identifier_lr": 0.01,
    "hidden": 5,
}


class FedAA(Loop):
    """Chen et al. 2023, Algorithm 4."""

    def start(self, c):
        if self.p.local == "moon":
            self.state[c] = {"previous": dict(self.model)}

    # on a client
    def loss(self, net, x, y, c):
        """L_k, the cross-entropy or what stands for it (Table 5)."""
        return self.local(net, features(net, x), x, y, c)

    def local(self, net, f, x, y, c):
        value = F.cross_entropy(net.head(f), y)
        if self.p.local == "fedprox":
            away = sum((v - self.model[k]).square().sum() for k, v in net.named_parameters())
            return value + self.p.mu / 2 * away
        if self.p.local == "moon":
            with torch.no_grad():
                of = [features(self.net(m), x) for m in (None, self.state[c]["previous"])]
            near, far = (torch.exp(F.cosine_similarity(f, v) / 0.5) for v in of)
            return value - self.p.mu * (near / (near + far)).log().mean()
        return value

    def second_loss(self, net, x, y, c):
        """Eq. 7: features that the client's identifier does not take for the client's."""
        f = features(net, x)
        value = self.local(net, f, x, y, c)
        if not self.p.identifier:
            return value
        own = torch.sigmoid(self.identifiers[c](f))
        return value - self.p.eta3 * (1 - own).log().mean()

    def names(self, c):
        labels = sorted(set(self.y[c].tolist()))
        if self.p.sends == "names":
            return {"labels": torch.tensor(labels)}
        order = self.dice(c, t=0).permutation("images", COUNTS[c]).tolist()
        rows = []
        for k in labels:
            rows += [i for i in order if self.y[c][i] == k][: self.p.examples]
        return {"labels": self.y[c][rows], "data": self.x[c][rows]}

    def uplink(self, c):
        if self.p.local == "moon":
            self.state[c] = {"previous": dict(self.locals[c])}
        return {}

    # on the server
    def example(self, c, net):
        """Eq. 4: from Gaussian noise to what client c's own model gives its labels."""
        sent = self.came[c]
        if self.p.sends == "images":
            return sent["data"], sent["labels"]
        y = torch.tensor([k for k in sent["labels"].tolist() for _ in range(self.p.examples)])
        noise = self.dice(SHARED).normal(f"noise/{c}", len(y), 1, 8, 8)
        x = (self.p.sigma * noise).requires_grad_()
        steps = self.p.search_steps
        how = {"max_iter": steps, "max_eval": 2 * steps, "history_size": 10}
        lbfgs = torch.optim.LBFGS([x], line_search_fn="strong_wolfe", **how)

        def closure():
            lbfgs.zero_grad()
            value = F.cross_entropy(net(x), y)
            value.backward()
            return value

        lbfgs.step(closure)
        x = x.detach()
        return x.clamp(0, 1) if self.p.clip else x, y

    def tuned(self, net, x, y):
        """Eq. 5: on the examples of the others."""
        sgd = torch.optim.SGD(net.parameters(), lr=self.p.tune_lr)
        for _ in range(self.p.tune_steps):
            sgd.zero_grad()
            F.cross_entropy(net(x), y).backward()
            sgd.step()
        return net

    def identified(self, f):
        """Algorithm 2 and Eq. 6 for each client; ``f``: the features of its examples."""
        dice, d, h = self.dice(SHARED), 8, self.p.hidden
        total = sum(map(len, f.values()))
        steps = max(1, min(math.ceil(total / self.p.batch), *map(len, f.values())))
        for c in self.who:
            layers = [nn.Linear(d, h), nn.Linear(h, h), nn.Linear(h, 1)]
            for i, layer in enumerate(layers, 1):
                bound = layer.in_features**-0.5
                for letter, v in (("w", layer.weight), ("b", layer.bias)):
                    shape = v.T.shape if letter == "w" else (1, len(v))
                    drawn = dice.uniform(f"identifier/{c}/{letter}{i}", *shape)
                    v.data = (2 * drawn - 1).T.reshape(v.shape) * bound
            net = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
            adam = torch.optim.Adam(net.parameters(), lr=self.p.identifier_lr, betas=(0.5, 0.9))
            for epoch in range(self.p.identifier_epochs):
                parts = {}
                for j, (k, v) in enumerate(f.items()):
                    order = dice.permutation(f"identifier/{j}/order/{epoch}", len(v))
                    parts[k] = v[order].tensor_split(steps)
                for s in range(steps):
                    own = torch.sigmoid(net(parts[c][s]))
                    others = torch.sigmoid(net(torch.cat([parts[k][s] for k in f if k != c])))
                    adam.zero_grad()
                    (-own.log().mean() - (1 - others).log().mean()).backward()
                    adam.step()
            self.identifiers[c] = net.requires_grad_(False)

    def adapt(self):
        locals_ = {c: self.net(self.locals[c]) for c in self.who}
        made = {}
        if self.p.identifier or self.p.fine_tune:
            made = {c: self.example(c, locals_[c]) for c in self.who}
        for c in self.who if self.p.fine_tune else []:
            others = [made[k] for k in self.who if k != c]
            x, y = (torch.cat([pair[i] for pair in others]) for i in (0, 1))
            locals_[c] = self.tuned(locals_[c], x, y)
        share, states = self.share(), {c: net.state_dict() for c, net in locals_.items()}
        self.model = {
            k: sum(share[c] * states[c][k] for c in self.who) if v.is_floating_point() else v
            for k, v in self.model.items()
        }
        self.down(model=self.model)
        self.identifiers = {}
        if self.p.identifier:
            with torch.no_grad():
                f = {c: features(self.net(), made[c][0]) for c in self.who}
            self.identified(f)
        for c, net in self.identifiers.items():
            linear = [m for m in net if isinstance(m, nn.Linear)]
            told = {f"w{i}": m.weight.T for i, m in enumerate(linear, 1)}
            told |= {f"b{i}": m.bias[None] for i, m in enumerate(linear, 1)}
            self.note(f"to {c}", identifier=told)

    def round(self):
        self.down(model=self.model)
        self.train("loss")
        self.everyone_sends(self.names)
        self.adapt()
        self.train("second_loss", epochs=self.p.second_epochs)
        self.everyone_sends(self.uplink)
        self.aggregate()


METHODS = [
    ("fedaa", FedAA, {}),
    ("fedaa", FedAA, {"sigma": 0.5, "clip": True, "average": "plain", "second_epochs": 2}),
    ("fedaa", FedAA, {"sends": "images", "examples": 5, "eta3": 3.0, "lr": 0.02}),
    ("fedaa", FedAA, {"local": "fedprox", "mu": 0.3, "fine_tune": False}),
    ("fedaa", FedAA, {"local": "moon", "mu": 2.0}),
    ("fedaa", FedAA, {"identifier": False}),
]


@nets
@pytest.mark.parametrize(("name", "loop", "params"), METHODS)
def test_as_in_the_paper(net, name, loop, params):
    compare(loop, name, NETS[net], **{**SHORT, **params})
