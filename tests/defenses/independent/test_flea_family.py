"""FLea and what it is compared with, each beside a few lines from its paper or authors' code."""

from __future__ import annotations

import math

import pytest
import torch
from helpers.by_hand import COUNTS, NETS, Loop, compare, features
from torch.nn import functional as F

from leakbench.base.streams import SHARED

nets = pytest.mark.parametrize("net", NETS)
SHORT = {"fraction": 0.6, "batch": 8, "epochs": 2, "lr": 0.01, "decay": 0.9}


def soft(logits, target):
    """Cross-entropy with a distribution, (B,)."""
    return -(target * logits.log_softmax(1)).sum(1)


def kl(p, q):
    """KL(softmax p || softmax q), (B,)."""
    return F.kl_div(q.log_softmax(1), p.softmax(1), reduction="none").sum(1)


class Sharing(Loop):
    """What all give before round 1 comes down to all, and stays."""

    def before(self):
        self.everyone_sends(self.gives)
        kinds = self.came[0]
        self.down(**{k: torch.cat([self.came[c][k] for c in self.who]) for k in kinds})

    def some(self, c, name="share", t=None):
        """A fraction of the client's examples, one at least."""
        order = self.dice(c, t=t).permutation(name, COUNTS[c])
        return order[: max(1, int(self.p.share * COUNTS[c]))]

    def groups(self, c, many):
        """Means of ``size`` examples and of their labels."""
        order = self.dice(c).permutation("groups", COUNTS[c])[: many * self.p.size]
        x, y = self.x[c][order], F.one_hot(self.y[c], self.classes).double()[order]
        parts = [slice(i * self.p.size, (i + 1) * self.p.size) for i in range(many)]
        return tuple(torch.stack([v[part].mean(0) for part in parts]) for v in (x, y))


class FedMix(Sharing):
    """FLea, Appendix C.3: means of ``size`` examples, mixed in with a weight ~ Beta(2, 2)."""

    def gives(self, c):
        x, y = self.groups(c, COUNTS[c] // self.p.size)
        return {"mean_data": x, "labels": y}

    def loss(self, net, x, y, c):
        dice, means = self.dice(c, "loss"), self.inbox["mean_data"]
        partner = dice.integers("partner", len(means), len(y))
        each = [len(y)] if self.p.per == "example" else []
        beta = dice.beta("mix", 2, *each)
        a, b = beta.view(-1, 1, 1, 1), beta.view(-1, 1)
        x = a * x + (1 - a) * means[partner]
        y = b * F.one_hot(y, self.classes) + (1 - b) * self.inbox["labels"][partner]
        return soft(net(x), y).mean()


class FedData(Sharing):
    """FLea, Appendix C.3: a tenth of everybody's raw data is everybody's."""

    def gives(self, c):
        return {"data": self.x[c][self.some(c)], "labels": self.y[c][self.some(c)]}

    def loss(self, net, x, y, c):
        drawn = self.dice(c, "loss").integers(
            "shared", len(self.inbox["labels"]), self.p.shared_batch
        )
        x = torch.cat([x, self.inbox["data"][drawn]])
        y = torch.cat([y, self.inbox["labels"][drawn]])
        return F.cross_entropy(net(x), y)


class FedDecorr(Loop):
    """Shi et al. 2023, Eq. 6 and 7: beta / d^2 |K|_F^2; or loss.py of their code."""

    def loss(self, net, x, y, c):
        z = features(net, x)
        n, d = z.shape
        fit = F.cross_entropy(net.head(z), y)
        if self.p.variant == "paper":
            z = (z - z.mean(0)) / (z.var(0, correction=0) + 1e-8).sqrt()
            k = z.T @ z / n
            return fit + self.p.beta * k.square().sum() / d**2
        z = (z - z.mean(0)) / (z.var(0) + 1e-8).sqrt()
        off = (z.T @ z)[~torch.eye(d, dtype=torch.bool)]
        return fit + self.p.beta * off.square().mean() / n


class FedLC(Loop):
    """Zhang et al. 2022, Section 4, over all classes as in FLea's code."""

    def start(self, c):
        counts = torch.tensor([float((self.y[c] == k).sum()) for k in range(self.classes)])
        self.state[c]["margin"] = self.p.tau * (counts.double() + self.p.added) ** -0.25

    def loss(self, net, x, y, c):
        return F.cross_entropy(net(x) - self.state[c]["margin"], y)


class FedNTD(Loop):
    """Lee et al. 2022, Eq. 2 to 4, with the tau^2 of criterion.py."""

    def loss(self, net, x, y, c):
        local = net(x)
        with torch.no_grad():
            glob = self.net()(x)
        wrong = F.one_hot(y, self.classes) == 0
        p, q = (v[wrong].view(len(y), -1) / self.p.tau for v in (glob, local))
        return F.cross_entropy(local, y) + self.p.beta * self.p.tau**2 * kl(p, q).mean()


class FedBR(Sharing):
    """Guo et al. 2023, Eq. 2 and 3, with FLea's mixture: the projector ascends."""

    def gives(self, c):
        many = min(math.ceil(self.p.means / self.n), COUNTS[c] // self.p.size)
        return {"mean_data": self.groups(c, many)[0]}

    def slopes(self, name, net, x, y, c, own):
        p, dice, means = self.p, self.dice(c, "loss"), self.inbox["mean_data"]
        pseudo = means[dice.integers("pseudo", len(means), len(y))]
        q = torch.full((len(y), self.classes), 1 / self.classes, dtype=torch.float64)
        if p.mixed:
            mine = dice.integers("own", len(y), len(y))
            pseudo = (pseudo + x[mine]) / 2
            q = (q + F.one_hot(y[mine], self.classes)) / 2
        z, z_p = features(net, x), features(net, pseudo)
        with torch.no_grad():
            z_g = features(self.net(), pseudo)
        fit = F.cross_entropy(net.head(z), y) + p.lam * soft(net.head(z_p), q).mean()
        head = net.side.projector
        a, near, far = head(z_p), head(z_g), head(z)
        g, o = (torch.exp(p.tau * F.cosine_similarity(a, v)) for v in (near, far))
        contrast = -(g / (g + o)).log().mean()
        named = dict(net.named_parameters())
        descend = torch.autograd.grad(
            fit + p.mu * contrast, list(named.values()), retain_graph=True
        )
        ascend = torch.autograd.grad(contrast, list(named.values()), allow_unused=True)
        grads = [
            -p.gamma * up if k.startswith("side.") else down
            for k, up, down in zip(named, ascend, descend, strict=True)
        ]
        return fit + p.mu * contrast, grads


class CCVR(Sharing):
    """FLea, Appendix C.3: after the last round the head is fitted to everybody's features."""

    before = Loop.before

    def gives(self, c):
        some = self.some(c)
        return {"features": features(self.net(), self.x[c][some]), "labels": self.y[c][some]}

    def after(self):
        self.down(model=self.model)
        self.everyone_sends(self.gives)
        f, y = (torch.cat([self.came[c][k] for c in self.who]) for k in ("features", "labels"))
        net = self.net()
        adam = torch.optim.Adam(net.head.parameters(), lr=self.p.calibration_lr)
        for epoch in range(self.p.calibration_epochs):
            order = self.dice(SHARED).permutation(f"calibration/{epoch}", len(y))
            for rows in order.split(32):
                adam.zero_grad()
                F.cross_entropy(net.head(f[rows]), y[rows]).backward()
                adam.step()
        self.model = {k: v.detach() for k, v in net.state_dict().items()}


class FedGen(Loop):
    """FLea, Appendix C.3: from round begin + 1 on a step also sees what the generator makes."""

    def __init__(self, fed):
        super().__init__(fed)
        self.generator = {k: v.clone() for k, v in fed.state["generator"].items()}

    def made(self, g, labels, noise):
        x = torch.relu(F.linear(torch.cat([noise, labels], 1), g["w0"].T, g["b0"]))
        x = x.view(len(x), -1, 1, 1)
        for i in (1, 2, 3, 4):
            x = F.conv_transpose2d(x, g[f"w{i}"], g[f"b{i}"], stride=2, padding=1)
            x = x.sigmoid() if i == 4 else F.leaky_relu(x, 0.2)
        return x[..., :8, :8]

    def tells(self):
        return {"generator": self.generator} if self.t > self.p.begin else {}

    def loss(self, net, x, y, c):
        value = F.cross_entropy(net(x), y)
        if self.t <= self.p.begin:
            return value
        dice = self.dice(c, "loss")
        labels = dice.integers("labels", self.classes, self.p.generated)
        noise = dice.normal("noise", self.p.generated, self.p.noise)
        with torch.no_grad():
            made = self.made(self.generator, F.one_hot(labels, self.classes), noise)
        # Nobody's data: the running statistics stay those of examples.
        held = {k: v.clone() for k, v in net.named_buffers()}
        said = torch.func.functional_call(net, {**dict(net.named_parameters()), **held}, (made,))
        return value + self.p.weight * F.cross_entropy(said, labels)

    def uplink(self, c):
        return {"label_counts": torch.bincount(self.y[c], minlength=self.classes)}

    def aggregate(self):
        super().aggregate()
        if self.t < self.p.begin:
            return
        p, dice, net = self.p, self.dice(SHARED), self.net()
        counts = sum(self.came[c]["label_counts"] for c in self.who).double()
        below = [float(counts[: k + 1].sum() / counts.sum()) for k in range(self.classes)]
        g = {k: v.clone().requires_grad_() for k, v in self.generator.items()}
        adam = torch.optim.Adam(g.values(), lr=p.generator_lr)
        for step in range(p.generator_steps):
            thrown = dice.uniform(f"labels/{step}", p.generated).tolist()
            y = torch.tensor([min(sum(b <= u for b in below), self.classes - 1) for u in thrown])
            z, other = dice.normal(f"noise/{step}", 2, p.generated, p.noise)
            labels = F.one_hot(y, self.classes)
            x, x2 = self.made(g, labels, z), self.made(g, labels, other)
            apart = (x - x2).abs().mean((1, 2, 3)) / (z - other).abs().mean(1)
            value = F.cross_entropy(net(x), y) - p.diversity * (1 + apart).log().mean()
            adam.zero_grad()
            value.backward()
            adam.step()
        self.generator = {k: v.detach() for k, v in g.items()}


class FLea(Sharing):
    """Xia et al. 2024, Algorithm 1 with Eq. 2, 3, 4 and 8; or the loss of their code."""

    before = Loop.before
    buffer = None

    def tells(self):
        return self.buffer or {}

    def correlation(self, x, f):
        """Eq. 8, doubly centred squared distances; or the code's root of plain ones."""
        root = self.p.correlation == "plain_root"
        n = len(x)
        centre = torch.eye(n, dtype=x.dtype) - 1 / n
        parts = []
        for v in (x.flatten(1), f.flatten(1)):
            d = (v[:, None] - v).square().sum(2)
            parts.append(centre @ (d.clamp(min=1e-7).sqrt() if root else d) @ centre)
        a, b = parts
        xy, xx, yy = (a * b).mean(), (a * a).mean(), (b * b).mean()
        if not root:
            return xy / (xx * yy).sqrt()
        xy, xx, yy = ((v + 1e-7).sqrt() for v in (xy, xx, yy))
        return xy / ((xx + 1e-7).sqrt() * (yy + 1e-7).sqrt())

    def loss(self, net, x, y, c):
        glob = self.net()
        f = net.first(x)

        def rest(net, f):
            return net.head(net.second(f))

        dice, target = self.dice(c, "loss"), F.one_hot(y, self.classes).double()
        mixed = f
        if self.buffer:
            theirs = dice.integers("partner", len(self.buffer["labels"]), len(y))
            beta = dice.beta("mix", self.p.a, len(y))[:, None]
            shared = F.one_hot(self.buffer["labels"][theirs], self.classes).double()
            mixed = beta * f + (1 - beta) * self.buffer["features"][theirs]
            target = beta * target + (1 - beta) * shared
        follows = self.correlation(x, f)
        if self.p.variant == "paper":
            local = rest(net, mixed)
            value = soft(local, target).mean() + self.p.lam1 * kl(local, rest(glob, mixed)).mean()
            return value + self.p.lam2 * follows
        before = self.t - 1  # rounds
        value = (3 - 0.1 * before if before < 20 else 1) * follows
        plain = rest(net, f)
        value = value + F.cross_entropy(plain, y)
        if not self.buffer:
            return value + self.p.lam1 * kl(rest(glob, f), plain).mean() / 2
        of_buffer = self.buffer["features"][theirs]
        local = rest(net, of_buffer)
        value = value + self.p.lam1 * kl(rest(glob, of_buffer), local).mean()
        return value + soft(rest(net, mixed), target).mean()

    def round(self):
        self.down(model=self.model, **self.tells())
        longer = 3 if self.p.variant == "released" and self.t == 1 else 1
        self.train("loss", epochs=self.p.epochs * longer)
        self.aggregate()
        self.down(model=self.model)
        self.everyone_sends(self.shares)
        kinds = ("features", "labels")
        self.buffer = {k: torch.cat([self.came[c][k] for c in self.who]) for k in kinds}

    def shares(self, c):
        some = self.some(c, t=0 if self.p.subset == "fixed" else self.t)
        return {"features": self.net().first(self.x[c][some]), "labels": self.y[c][some]}

    def scale(self):
        return 1 - 0.018 * (self.t - 1) if self.p.variant == "released" else super().scale()


METHODS = [
    ("feddecorr", FedDecorr, {}),
    ("feddecorr", FedDecorr, {"variant": "released"}),
    ("fedlc", FedLC, {"tau": 0.5}),
    ("fedntd", FedNTD, {"tau": 2.0, "beta": 0.7}),
    ("fedmix", FedMix, {"size": 4}),
    ("fedmix", FedMix, {"size": 5, "per": "example"}),
    ("feddata", FedData, {"batch": 4, "shared_batch": 5, "share": 0.2}),
    ("fedbr", FedBR, {"width": 6, "size": 4, "gamma": 0.7, "optimizer": "sgd", "lr": 0.1}),
    ("fedbr", FedBR, {"width": 6, "size": 3, "mixed": False, "optimizer": "sgd", "lr": 0.1}),
    ("ccvr", CCVR, {"share": 0.4, "calibration_epochs": 4}),
    ("fedgen", FedGen, {"begin": 2, "generator_steps": 3, "noise": 5, "channels": 8}),
    ("flea", FLea, {"share": 0.3}),
    ("flea", FLea, {"subset": "fresh", "correlation": "plain_root", "epochs": 1}),
    ("flea", FLea, {"variant": "released", "correlation": "plain_root", "epochs": 1}),
]


@nets
@pytest.mark.parametrize(("name", "loop", "params"), METHODS)
def test_as_in_the_paper(net, name, loop, params):
    compare(loop, name, NETS[net], **{**SHORT, **params})
