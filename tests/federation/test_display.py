"""A method says how people call it, and run.json keeps that."""

from __future__ import annotations

from typing import ClassVar

import pytest
from helpers.small_runs import trained

from leakbench.base import registry
from leakbench.federation.defense import LETTERS, Defense

# As they stood in tables beside the methods.
TITLES = {
    "fedavg": "FedAvg",
    "fedavg_momentum": "FedAvg, momentum",
    "fedavg_optim": "FedAvg, torch.optim",
    "fedprox": "FedProx",
    "fedhide": "FedHide",
    "fedhide_own_layer": "FedHide, own layer",
    "fedhide_random": "FedHide redrawn",
    "fedgn": "FedGN",
    "fedgn_once": "FedGN once",
    "fedcs": "FedCS",
    "fedcs_once": "FedCS once",
    "fedaws": "FedAwS",
    "fedmetric": "FedMetric",
    "feduv": "FedUV",
    "deepsvdd": "DeepSVDD",
    "flea": "FLea",
    "fedmix": "FedMix",
    "feddata": "FedData",
    "feddecorr": "FedDecorr",
    "fedlc": "FedLC",
    "fedntd": "FedNTD",
    "fedbr": "FedBR",
    "ccvr": "CCVR",
    "fedgen": "FedGen",
    "scaffold": "SCAFFOLD",
    "fedproto": "FedProto",
    "fedpcl": "FedPCL",
    "fedaa": "FedAA",
    "fedbn": "FedBN",
    "moon": "MOON",
    "own_prototypes": "own prototypes",
    "fixed_prototypes": "fixed prototypes",
}
PRINCIPAL = {
    "fedhide": ("alpha", "k"),
    "fedhide_own_layer": ("alpha", "k", "stays"),
    "fedhide_random": ("alpha", "alpha_low", "k"),
    "fedgn": ("sigma",),
    "fedgn_once": ("sigma",),
    "fedcs": ("cos_theta",),
    "fedcs_once": ("cos_theta",),
    "fedavg_momentum": ("momentum",),
    "fedavg_optim": ("optimizer",),
    "fedprox": ("mu",),
    "moon": ("mu",),
    "feddecorr": ("beta",),
    "fedlc": ("tau",),
    "fedntd": ("beta",),
    "fedgen": ("begin",),
    "fedproto": ("lam",),
    "fedpcl": ("temperature",),
}
OWN = {  # letters of a method's own
    "feddecorr": {"beta": "β"},
    "fedlc": {"tau": "τ"},
    "fedntd": {"beta": "β", "tau": "τ"},
    "fedbr": {"gamma": "γ", "tau": "τ"},
}
USUAL = {"alpha": "α", "sigma": "σ", "lam": "λ", "lam1": "λ1", "lam2": "λ2"}
USUAL |= {"mu": "μ", "k": "K", "cos_theta": "cos"}


def test_there_is_no_method_more_and_none_less():
    assert set(registry.names("defenses")) == set(TITLES)
    assert dict(LETTERS) == USUAL


@pytest.mark.parametrize("name", TITLES)
def test_a_method_is_called_as_before(name):
    cls = registry.load_plugin("defenses", name)
    shown = cls.display()
    assert (cls.title, shown["title"]) == (TITLES[name],) * 2
    assert (cls.principal, shown["principal"]) == (
        PRINCIPAL.get(name, ()),
        list(PRINCIPAL.get(name, ())),
    )
    assert set(cls.principal) <= set(cls.model_fields)
    letters = {**USUAL, **OWN.get(name, {})}
    assert shown["letters"] == {k: v for k, v in letters.items() if k in cls.model_fields}


class Hidden(registry.load_plugin("defenses", "fedhide")):
    """A method made of another one."""

    beta: float = 0.5
    letters: ClassVar[dict[str, str]] = {"beta": "β", "k": "κ"}


class Stated(Hidden):
    """One that states its name."""

    title: ClassVar[str] = "Fed, hidden"
    principal: ClassVar[tuple[str, ...]] = ("beta",)


def test_a_method_made_of_another_has_a_name_of_its_own():
    assert Hidden.title == "Hidden"
    assert Hidden.display() == {
        "title": "Hidden",
        "principal": ["alpha", "k"],
        "letters": {"alpha": "α", "beta": "β", "k": "κ", "lam": "λ"},
    }
    assert (Stated.title, Stated.display()["principal"]) == ("Fed, hidden", ["beta"])
    assert type("Third", (Stated,), {}).title == "Third"
    assert Defense.title == ""


def test_run_json_keeps_the_name(tmp_path):
    assert trained(tmp_path).meta["method"] == {
        "title": "FedGN",
        "principal": ["sigma"],
        "letters": {"sigma": "σ", "lam": "λ"},
    }
