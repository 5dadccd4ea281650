"""Contract: a party sees what was sent to it and nothing else. Parties in processes of their own
end in the very same bits.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers import apart
from helpers.federations import FAST, run, short

import defenses
from leakbench.base import registry
from leakbench.base.files import read_tree
from leakbench.base.tree import flat

ROUNDS = 2
TESTS = Path(__file__).parents[1]
MANY = {"steps": 2, "epochs": 0}
CASES = [
    *({"name": n, "defense": n, "params": {}} for n in FAST),
    {
        "name": "several steps",
        "defense": "fedhide",
        "params": {**MANY, "average": "weighted", "fraction": 0.5},
    },
    {
        "name": "noise",
        "defense": "fedhide",
        "params": {},
        "wrappers": [["clip_noise", {"kinds": ["update", "prototype"]}]],
    },
    {"name": "sum", "defense": "fedaws", "params": {}, "wrappers": [["secure_sum", {}]]},
]
FEW = 4  # clients: each is a process, and of a method four tell as much as ten
ALL = [
    {"name": f"{n} {label}", "defense": n, "params": {**short(n), **params}, "clients": FEW}
    for n in registry.names("defenses")
    for label, params in (
        ("in its own steps", {}),
        ("several steps", MANY),
        ("in part", {"fraction": 0.5}),
    )
]

SNEAKY = '''
"""Clients that talk behind the server's back."""

from typing import Any, ClassVar

import torch

from leakbench import Defense


class {name}(Defense):
    """Passes the mean image to the server {how}."""

    stash: ClassVar[dict[str, Any]] = {{}}

    def start_server(self, server):
        server.state["seen"] = torch.zeros((), dtype=torch.float64)

    def uplink(self, me):
        {write}

    def aggregate(self, server):
        super().aggregate(server)
        server.state["seen"] = torch.as_tensor({read}, dtype=torch.float64)
'''
CHEATS = {
    "attribute": (
        "through a class attribute",
        'type(self).stash["x"] = float(me.data.x.mean())',
        'self.stash.get("x", 0.0)',
    ),
    "module": (
        "through the architecture",
        "me.net.module.stash = float(me.data.x.mean())",
        'getattr(server.module, "stash", 0.0)',
    ),
    "facts": (
        "through what is known of the task",
        'me.facts.__dict__["stash"] = float(me.data.x.mean())',
        'server.facts.__dict__.get("stash", 0.0)',
    ),
}
CHEATING = [{"name": f"by {n}", "defense": f"by_{n}"} for n in CHEATS]


def runs_apart(cases, out, plugins=""):
    """{name: the state in which a case ended with every party in a process of its own}."""
    out.mkdir(exist_ok=True)
    job = json.dumps({"cases": cases, "rounds": ROUNDS, "plugins": str(plugins)})
    done = subprocess.run(
        [sys.executable, "-m", "helpers.apart", job, out],
        cwd=TESTS,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {c["name"]: read_tree(out / f"{c['name']}.safetensors") for c in cases}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """As in the offices: the last bit of a matrix product depends on how many threads share it."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def differences(case, there):
    """Tensors that are not bitwise the same here and there."""
    tree, meta = there
    assert meta["processes"] == 1 + case.get("clients", 10)
    here, apart_ = flat(run(apart.build(case), ROUNDS).snapshot()), flat(tree)
    assert here.keys() == apart_.keys()
    return [
        k for k in here if here[k].dtype != apart_[k].dtype or not torch.equal(here[k], apart_[k])
    ]


@pytest.fixture(scope="module")
def there(tmp_path_factory):
    """How our first methods ended there, and three that cheat; those are known here, too, as long
    as this file runs.
    """
    plugins = tmp_path_factory.mktemp("plugins")
    for name, (how, write, read) in CHEATS.items():
        (plugins / f"by_{name}.py").write_text(
            SNEAKY.format(name=f"By{name.title()}", how=how, write=write, read=read)
        )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(defenses, "__path__", [*defenses.__path__, str(plugins)])
        yield runs_apart([*CASES, *CHEATING], tmp_path_factory.mktemp("there"), plugins)


@pytest.mark.slow
def test_parties_in_processes_of_their_own_end_in_the_same_bits_and_cheats_are_caught(there):
    """What a cheat passes outside the messages arrives here and does not arrive there: else this
    would test nothing. One test: what happened there takes as long for one case as for all.
    """
    found = {c["name"]: differences(c, there[c["name"]]) for c in (*CASES, *CHEATING)}
    assert {name: found[name] for name in found if name.startswith("by ")} == {
        c["name"]: ["server/seen"] for c in CHEATING
    }
    assert {name: d for name, d in found.items() if d and not name.startswith("by ")} == {}


@pytest.mark.slow
def test_every_registered_method_in_processes_of_its_own(tmp_path):
    ended = runs_apart(ALL, tmp_path)
    assert {c["name"]: differences(c, ended[c["name"]]) for c in ALL} == {
        c["name"]: [] for c in ALL
    }


def test_parcels_hold_everything_and_share_nothing():
    x = torch.arange(6.0).view(2, 3)
    value = {
        "a": {"b": x, "none": None, "empty": {}},
        "ragged": [x[0], x],
        "kinds": {"p"},
        "n": 3,
        "i/j": x.T,
    }
    back = apart.opened(apart.parcel(value))
    assert back["a"]["none"] is None
    assert back["a"]["empty"] == {}
    assert back["kinds"] == {"p"}
    assert torch.equal(back["ragged"][1], x)
    assert torch.equal(back["i/j"], x.T)
    back["a"]["b"] += 1
    assert torch.equal(x, torch.arange(6.0).view(2, 3))
