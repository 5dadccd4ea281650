"""A loop of somebody's own, watched: tiny data and network, and the same messages always."""

import pytest
import torch
from torch import nn

import leakbench as lb

CLIENTS = 3


def thrown(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


X, Y = thrown(0, 40, 5), torch.arange(40) % 2
DATA = lb.clients(X, Y, clients=CLIENTS)


def net(out):
    return nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, out))


SHAPES = {k: v.shape for k, v in net(2).state_dict().items()}


def model(t):
    """What the server sends in round t."""
    return {k: thrown(1000 * t + i, *shape) for i, (k, shape) in enumerate(SHAPES.items())}


def step(t, client, size=0.01):
    """How far a client goes in round t."""
    first = 1000 * t + 100 * (client + 1)
    return {k: size * thrown(first + i, *shape) for i, (k, shape) in enumerate(SHAPES.items())}


def weights(t, client):
    """What it has then."""
    return {k: v + step(t, client)[k] for k, v in model(t).items()}


def observe(out, **how):
    sgd = {"lr": 0.1, "batch": 4, "epochs": 1}
    return lb.observe(out, **{"name": "own", "model": net, "data": DATA, "sgd": sgd, **how})


def loop(seen, first, last):
    for t in range(first, last + 1):
        seen.sent("model", model(t), round=t)
        for c in range(CLIENTS):
            seen.update(weights(t, c), client=c, round=t)


def watched(out, tell, **how):
    """A loop that tells what ``tell`` does."""
    with observe(out, **how) as seen:
        tell(seen)
    return seen


class Killed(Exception):
    pass


def killed(out, tell, **how):
    """The same, killed when it has told."""

    def go(seen):
        tell(seen)
        raise Killed

    with pytest.raises(Killed):
        watched(out, go, **how)


def content(folder):
    """{name: bytes} of all files."""
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }
