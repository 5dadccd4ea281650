"""The control: what the clients would have sent with nothing hidden."""

from __future__ import annotations

from typing import Any

import torch
from helpers.federations import federation, wrapper

from leakbench.federation.observer import Observer


class Control(Observer[Any]):
    """Keeps what each uplink sent, and its control."""

    def __init__(self):
        self.told = {}

    def up(self, fed, name, each, sent, draws):
        for kind, bare in fed.undefended(name, each, sent).items() if name != "count" else ():
            self.told[kind] = (sent.get(kind), bare)


def told(kind, *args, **more):
    fed = federation(*args, **more)
    fed.recorder = Control()
    fed.begin()
    fed.step()
    return fed.recorder.told[kind]


def test_noise_of_the_method_is_not_in_the_control():
    sent, bare = told("prototype", "fedgn", sigma=0.1)
    assert not torch.allclose(sent, bare)
    sent, bare = told("prototype", "fedgn", sigma=0.0)
    assert torch.allclose(sent, bare)


def test_what_a_wrapper_does_is_not_in_the_control():
    noise = wrapper("clip_noise", kinds=["features"], noise=1.0)
    covered, bare = told("features", "fedproto", wrappers=[noise])
    plain, same = told("features", "fedproto")
    assert not torch.allclose(covered, bare)
    assert torch.equal(bare, plain)
    assert same is plain  # nothing is computed twice where nothing is hidden
