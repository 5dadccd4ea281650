"""FedProto and FedPCL, each beside a few lines from its paper and its authors' code."""

from __future__ import annotations

import pytest
import torch
from helpers.by_hand import NETS, Loop, compare, features, unit
from torch.nn import functional as F

nets = pytest.mark.parametrize("net", NETS)
STEPS = {"batch": 8, "fraction": 0.6, "decay": 0.9, "lr": 0.1}
FAR = 1e6  # a class without a prototype is further than any other


class ClassPrototypes(Loop):
    """Clients send the means of what they make of each class's examples (Eq. 3 of both)."""

    each_answers = True

    def start(self, c):
        wide = torch.zeros(self.classes, self.width(), dtype=torch.float64)
        self.state[c] = {"prototypes": wide, "known": torch.zeros(self.classes).bool()}

    def uplink(self, c):
        labels = sorted(set(self.y[c].tolist()))
        made = self.made(self.net(c=c), self.x[c])
        means = [made[self.y[c] == k].mean(0) for k in labels]
        return {"features": torch.stack(means), "labels": torch.tensor(labels)}

    def holds(self, c, means):
        """Client c holds {label: mean} from here on."""
        self.start(c)
        for k, mean in means.items():
            self.state[c]["prototypes"][k], self.state[c]["known"][k] = mean, True

    def logits(self, net, x, c):
        far = (self.made(net, x)[:, None] - self.state[c]["prototypes"]).norm(dim=2)
        far[:, ~self.state[c]["known"]] = FAR
        return -far


def means_of(sets):
    """{label: the mean of what each of ``sets`` has of it}, all alike."""
    labels = {k for one in sets for k in one}
    found = {k: [one[k] for one in sets if k in one] for k in labels}
    return {k: sum(have) / len(have) for k, have in found.items()}


class FedProto(ClassPrototypes):
    """Tan et al. 2022, Eq. 6 and 7, with the loss and the plain mean of their code."""

    def __init__(self, fed):
        super().__init__(fed)
        assert self.kept[0].keys() == self.arch.state_dict().keys()
        self.bank = {}  # client -> {label: prototype}, the newest

    def width(self):
        return 8

    def made(self, net, x):
        return features(net, x)

    def prepare(self, c):
        if self.bank:
            self.holds(c, self.told)

    def loss(self, net, x, y, c):
        f = features(net, x)
        value = F.cross_entropy(net.head(f), y)
        for v, k in zip(f, y.tolist(), strict=True):
            if self.state[c]["known"][k]:
                away = F.mse_loss(v, self.state[c]["prototypes"][k])
                value = value + self.p.lam * away / len(y)
        return value

    def round(self):
        if self.bank:
            self.told = means_of(list(self.bank.values()))
            mean = torch.zeros(self.classes, 8, dtype=torch.float64)
            for k, v in self.told.items():
                mean[k] = v
            known = torch.tensor([k in self.told for k in range(self.classes)])
            self.down(prototype={"mean": mean, "known": known})
        self.train("loss")
        self.everyone_sends(self.uplink)
        for c, sent in self.came.items():
            new = dict(zip(sent["labels"].tolist(), sent["features"], strict=True))
            self.bank[c] = {**self.bank.get(c, {}), **new}


class FedPCL(ClassPrototypes):
    """Tan et al. 2022, Eq. 6 to 8, the softmax over all classes that there are."""

    def __init__(self, fed):
        super().__init__(fed)
        assert self.kept[0].keys() == {"head.weight", "head.bias"}

    def width(self):
        return self.p.projection

    def made(self, net, x):
        return unit(net(x))

    def moves(self, k):
        return False  # the extractor is fixed, the projection nobody's but the client's

    def before(self):
        self.down(model=self.model)
        self.everyone_sends(self.uplink)

    def prepare(self, c):
        self.holds(c, means_of(self.sets))

    def loss(self, net, x, y, c):
        fixed = torch.nn.Sequential(net.first, net.second).eval()
        r = unit(net.head(fixed(x)))
        everyone = means_of(self.sets)
        value = 0 * r.sum()  # of a class that nobody of the last round had
        for v, k in zip(r, y.tolist(), strict=True):
            own = [self.contrast(v, k, one) for one in self.sets if k in one]
            if own:
                value = value + self.contrast(v, k, everyone) + sum(own) / len(own)
        return value / len(y)

    def contrast(self, v, k, prototypes):
        alike = {j: torch.exp(v @ w / self.p.temperature) for j, w in prototypes.items()}
        return -torch.log(alike[k] / sum(alike.values()))

    def round(self):
        kinds = ("features", "labels")
        pooled = {k: torch.cat([sent[k] for sent in self.came.values()]) for k in kinds}
        pairs = [[sent["labels"].tolist(), sent["features"]] for sent in self.came.values()]
        self.sets = [dict(zip(*pair, strict=True)) for pair in pairs]
        self.down(model=self.model, **pooled, count=torch.tensor([len(s) for s in self.sets]))
        self.train("loss")
        self.everyone_sends(self.uplink)


METHODS = [
    ("fedproto", FedProto, {}),
    ("fedproto", FedProto, {"lam": 3.0, "epochs": 2, "optimizer": "adam", "lr": 0.01}),
    ("fedproto", FedProto, {"fraction": 0.2, "average": "weighted"}),
    ("fedpcl", FedPCL, {"projection": 6, "temperature": 0.5}),
    ("fedpcl", FedPCL, {"projection": 6, "fraction": 1.0, "epochs": 2}),
    ("fedpcl", FedPCL, {"projection": 5, "fraction": 0.2, "optimizer": "adam", "lr": 0.01}),
]


@nets
@pytest.mark.parametrize(("name", "loop", "params"), METHODS)
def test_as_in_the_paper(net, name, loop, params):
    compare(loop, name, NETS[net], **{**STEPS, **params})
