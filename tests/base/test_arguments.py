"""A wrong argument of a public function is one sentence."""

import inspect

import pytest

import leakbench as lb
from leakbench import api


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: lb.clients([], [], client=4), "leakbench.clients has no argument client (= 4)."),
        (lambda: lb.clients([]), "leakbench.clients: missing a required argument: 'y'; expected x"),
        (lambda: lb.clients.from_csv("a.csv"), "leakbench.clients.from_csv: missing a required"),
        (lambda: lb.train("fedavg", round=3), "Did you mean 'rounds'?"),
        (lambda: lb.train(), "leakbench.train: missing a required argument: 'defense'"),
        (lambda: lb.attack(), "leakbench.attack: missing a required argument: 'run'"),
        (lambda: lb.report(["a"], "b", "c"), "leakbench.report: too many positional arguments"),
        (lambda: lb.observe("runs", modle=1), "Did you mean 'model'?"),
    ],
)
def test_a_wrong_argument_is_one_sentence(call, said):
    with pytest.raises(lb.UsageError) as raised:
        call()
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_every_public_function_is_held_to_its_signature():
    public = {n: f for n, f in inspect.getmembers(api, inspect.isfunction) if not n.startswith("_")}
    own = [n for n, f in public.items() if f.__module__ == api.__name__]
    assert {"train", "attack", "report", "check"} <= set(own)
    assert [n for n in own if not hasattr(public[n], "__wrapped__")] == []
