"""Contract: the engine changes nothing but the time. And what methods that break the rules are
told, whatever the engine.
"""

from typing import ClassVar

import pytest
import torch
from helpers.federations import (
    FAST,
    ONE_STEP,
    each_defense,
    federation,
    gap,
    method,
    run,
    short,
    uneven,
    wrapper,
)
from torch import nn

from leakbench import Defense
from leakbench.base import registry
from leakbench.base.errors import LeakbenchError, MethodError, UsageError
from leakbench.federation.choosing import WAYS
from leakbench.federation.evaluate import utility_scores
from leakbench.federation.federation import Federation
from leakbench.models.networks import Stages
from leakbench.models.stages import fix

TOLERANCE = 1e-9
UNEVEN = (40, 23, 17, 16, 31, 9, 12, 50, 28, 5)
MANY_STEPS = {"steps": 3, "epochs": 0, "optimizer": "sgd"}


def stable(what):
    """For how many rounds two computations of a method can be compared.

    FedAA's line search decides by the last bit: the loop itself, begun one rounding away, is 1e-4
    from where it was after four rounds.
    """
    return 2 if what == "fedaa" else 20


def both(what, rounds=20, **more):
    """The same federation run by the reference and by the engine that auto picks."""
    rounds = min(rounds, stable(what))
    slow, fast = (run(federation(what, engine, **more), rounds) for engine in ("loop", "auto"))
    assert slow.engine == "loop"
    assert set(slow.phases.values()) <= {"loop", "one by one"}
    return slow, fast


def trained_fused(fed):
    """Every training was fused, or it says why not."""
    trained = {name for name, how in fed.phases.items() if how in ("fused", *WAYS)}
    return all(fed.phases[name] == "fused" or name in fed.fallbacks for name in trained)


@pytest.mark.parametrize("name", each_defense())
@pytest.mark.parametrize("steps", [ONE_STEP, MANY_STEPS], ids=["one step", "three steps"])
def test_loop_equals_auto_after_twenty_rounds(name, steps):
    slow, fast = both(name, **{**short(name), **steps})
    assert gap(slow, fast) < TOLERANCE
    if steps is ONE_STEP and method(name).fusible:
        assert fast.engine == "fused"
        assert trained_fused(fast)


@pytest.mark.parametrize("name", FAST)
def test_our_first_methods_are_fused_with_one_step(name):
    fed = run(federation(name, **ONE_STEP), 2)
    assert fed.phases["loss"] == "fused"
    assert fed.fallbacks == {}


@pytest.mark.parametrize("name", each_defense())
@pytest.mark.parametrize("batch", [4, 16])
@pytest.mark.parametrize("steps", [ONE_STEP, MANY_STEPS], ids=["one step", "three steps"])
def test_uneven_clients_weighted_and_in_part(name, steps, batch, data):
    """A batch of 4: everybody has one, so rounds stay fused. A batch of 16: some clients have fewer
    examples than that.
    """
    more = {"average": "weighted", "fraction": 0.4, "batch": batch, "data": uneven(data, UNEVEN)}
    slow, fast = both(name, 10, **{**short(name), **more, **steps})
    assert gap(slow, fast) < TOLERANCE


def test_weights_are_the_counts(data):
    """Weighted is not plain, and both engines agree on which is which."""
    fed = {
        a: run(federation("fedavg", average=a, data=uneven(data, UNEVEN)), 1)
        for a in ("plain", "weighted")
    }
    assert gap(fed["plain"], fed["weighted"]) > 1e-4
    share = fed["weighted"]._shares(torch.tensor(UNEVEN))
    assert torch.allclose(share, torch.tensor(UNEVEN).double() / sum(UNEVEN), atol=1e-15, rtol=0)


# Of what clients send: a server that departs has kinds of its own.
UPLINKS = [
    n for n in sorted(registry.names("wrappers")) if not registry.load_plugin("wrappers", n).active
]


@pytest.mark.parametrize(
    "kinds", [("update",), ("prototype",), ("update", "prototype")], ids="+".join
)
@pytest.mark.parametrize("wrap", UPLINKS)
@pytest.mark.parametrize("name", each_defense())
def test_under_every_wrapper(name, wrap, kinds):
    """A method that reads what a wrapper sums is refused by both engines, in the same words.

    So is a wrapper that leaves one of its messages as it is.
    """
    cover, how = [wrapper(wrap, kinds=kinds)], {**short(name), **ONE_STEP, "fraction": 0.5}

    def under(engine):
        try:
            fed = federation(name, engine, wrappers=cover, **how)
            return run(fed, min(4, stable(name))), ""
        except LeakbenchError as error:
            return None, f"{type(error).__name__}: {error}"

    (slow, refused), (fast, again) = under("loop"), under("auto")
    assert refused == again
    if "leaves what clients send" in refused:
        assert wrap in ("without_bias", "soteria")  # they cover updates alone
        return
    if refused:
        assert cover[0].sums
        assert "single" in refused or "sums" in refused
        return
    assert gap(slow, fast) < TOLERANCE
    bent = "update" in kinds and not cover[0].linear
    assert fast.engine == ("fused" if method(name).fusible and not bent else "parallel")


@pytest.mark.parametrize("name", FAST)
def test_fused_is_never_chosen_where_updates_are_clipped(name):
    clipped = [wrapper("clip_noise", kinds=("update",))]
    assert federation(name, wrappers=clipped, **ONE_STEP).engine == "parallel"
    with pytest.raises(UsageError, match="ClipNoise changes single updates"):
        federation(name, "fused", wrappers=clipped, **ONE_STEP)


@pytest.mark.parametrize(
    ("params", "why"),
    [
        (MANY_STEPS, "one local SGD step"),
        ({"steps": 0, "epochs": 1}, "one local SGD step"),
        (ONE_STEP | {"optimizer": "adam"}, "SGD"),
    ],
)
def test_fused_is_refused_where_it_is_not_exact(params, why):
    with pytest.raises(UsageError, match=why):
        federation("fedavg", "fused", **params)


@pytest.mark.parametrize("name", each_defense())
@pytest.mark.parametrize("steps", [ONE_STEP, MANY_STEPS], ids=["one step", "three steps"])
def test_a_batch_of_one_and_a_client_with_one_example_are_finite(name, steps, data):
    for more in ({"batch": 1}, {"data": uneven(data, (1, *UNEVEN[1:]))}):
        how = {**short(name), **more, **steps}
        slow, fast = (federation(name, engine, **how) for engine in ("loop", "auto"))
        slow.begin()
        fast.begin()
        for _ in range(3):
            slow.step()
            fast.step()
            assert bool(fast.losses.isfinite().all())
            assert gap(slow, fast) < TOLERANCE  # which asks for finite numbers


@pytest.mark.parametrize("name", FAST)
@pytest.mark.parametrize(
    "local",
    [{"steps": 0, "epochs": 2}, {"steps": 4, "optimizer": "adam", "lr": 0.01, "own_lr": 0.01}],
    ids=["epochs", "adam"],
)
def test_other_local_training_runs_too(name, local, data):
    slow, fast = both(name, 3, batch=8, data=uneven(data, UNEVEN), **local)
    assert gap(slow, fast) < TOLERANCE


class Normed(Defense):
    """Batch normalisation: buffers that change under vmap."""

    def module(self, module, facts):
        return Stages(
            {
                "first": nn.Sequential(
                    nn.Flatten(), nn.Linear(64, 6), nn.BatchNorm1d(6), nn.Tanh()
                ),
                "head": nn.Linear(6, facts.dim),
            }
        )


class KeptNorm(Normed):
    """The same, kept at the clients."""

    def keeps(self, name, module):
        return isinstance(module, nn.BatchNorm1d)


class KeepsAll(Normed):
    """No federation: nothing but the client's own model."""

    def keeps(self, name, module):
        return True

    def aggregate(self, server):
        pass


@pytest.mark.parametrize("kind", [Normed, KeptNorm, KeepsAll])
@pytest.mark.parametrize("fraction", [1.0, 0.5])
@pytest.mark.parametrize("average", ["plain", "weighted"])
def test_batch_normalisation_shared_and_kept(kind, fraction, average, data):
    slow, fast = both(
        kind(fraction=fraction, average=average, batch=4), 8, data=uneven(data, UNEVEN)
    )
    assert fast.phases["loss"] == "fused"
    assert gap(slow, fast) < TOLERANCE
    running = fast.columns["kept"] if kind is not Normed else fast.model
    assert float(running["first.2.running_mean"].abs().max()) > 1e-3
    assert any(k.endswith("num_batches_tracked") for k in running)


class Fixed(Normed):
    """The same, fixed."""

    def module(self, module, facts):
        module = super().module(module, facts)
        fix(module.get_submodule("first"))
        return module


@pytest.mark.parametrize("local", [{}, {"steps": 3}])
def test_a_fixed_stage_stays_and_is_not_sent(local, data):
    """Its running statistics neither: they would tell of who passed."""
    slow, fast = both(Fixed(batch=4, **local), 3, data=uneven(data, UNEVEN))
    assert gap(slow, fast) < TOLERANCE
    for engine in ("loop", "auto"):
        fed = federation(Fixed(batch=4, **local), engine, data=uneven(data, UNEVEN))
        begun = dict(fed.model)
        fed.begin()
        fed.step()
        sent = fed.means.get("update") or fed.received["update"]
        assert sent.keys() == {"head.weight", "head.bias"}
        stays = {k for k, v in begun.items() if torch.equal(v, fed.model[k])}
        assert stays == begun.keys() - sent.keys()
        assert "first.2.running_mean" in stays


class Branching(Defense):
    """What vmap cannot run, in the loss and in an uplink."""

    def start(self, me):
        me.state["seen"] = torch.zeros((), dtype=torch.float64)

    def loss(self, net, batch, me):
        value = super().loss(net, batch, me)
        return 2 * value if value > 1 else value

    def uplink(self, me):
        me.state["seen"] = me.state["seen"] + float(me.net(me.data.x[:4]).mean())
        return {"statistics": me.state["seen"]}


def test_what_vmap_refuses_is_run_by_the_reference_and_said():
    slow, fast = both(Branching(), 5)
    assert set(fast.fallbacks) == {"loss", "uplink"}
    assert all(reason.strip() for reason in fast.fallbacks.values())
    assert fast.phases == slow.phases == {"loss": "loop", "uplink": "one by one"}
    assert gap(slow, fast) == 0.0
    assert slow.fallbacks == {}


class Looks(Defense):
    """A prediction that vmap cannot run, of a client's own state."""

    calls: ClassVar[list[int]] = []

    def start(self, me):
        me.state["bias"] = me.index.double()

    def predict(self, net, x, me):
        self.calls.append(len(x))
        return net(x) + me.state["bias"] if me.state["bias"].item() > 3 else net(x)


def test_a_prediction_that_vmap_refuses_is_made_one_by_one_and_said():
    fed = run(federation(Looks()), 1)
    first = utility_scores(fed)
    assert "item()" in fed.fallbacks["predict"]
    tried = len(Looks.calls)
    assert torch.equal(utility_scores(fed), first)
    assert len(Looks.calls) == 2 * tried - 1  # it is not tried again


class Announced(Branching):
    """Says so itself: nothing is tried, nothing needs to be said."""

    one_by_one: ClassVar[tuple[str, ...]] = ("uplink",)


def test_a_function_named_one_by_one_is_not_tried():
    assert set(run(federation(Announced()), 1).fallbacks) == {"loss"}


class Crooked(Defense):
    def loss(self, net, batch, me):
        return (net(batch.x) @ torch.ones(3, 3, dtype=torch.float64)).sum()


class Missing(Defense):
    def loss(self, net, batch, me):
        return me.inbox["prototype"].sum()


class Forgetful(Defense):
    def uplink(self, me):
        return {"statistics": me.state["never made"]}


class Unnamed(Defense):
    def uplink(self, me):
        me.state["late"] = torch.zeros(())


class Greedy(Defense):
    def loss(self, net, batch, me):
        return nn.functional.cross_entropy(net(me.data.x), me.data.y)


@pytest.mark.parametrize("engine", ["loop", "auto"])
@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (Crooked, RuntimeError, "mat1 and mat2"),
        (
            Missing,
            MethodError,
            r"no message of kind 'prototype' is in this inbox; it has \['model'\]",
        ),
        (Forgetful, KeyError, "never made"),
        (Unnamed, MethodError, r"state\['late'\] is not named in start"),
        (Greedy, MethodError, "me.data is not for a loss"),
    ],
)
def test_a_real_mistake_surfaces(wrong, error, words, engine):
    with pytest.raises(error, match=words):
        run(federation(wrong(), engine), 1)


class ReadsOne(Defense):
    def aggregate(self, server):
        server.inbox["update"]["head.weight"][0]


class CountsThem(Defense):
    def aggregate(self, server):
        return {"statistics": torch.tensor(len(server.inbox["update"]))}


class WalksThem(Defense):
    def aggregate(self, server):
        return {"statistics": sum(v.sum() for v in server.inbox["update"].values())}


class Rebuilds(Defense):
    def aggregate(self, server):
        server.local_models()


class ReadsTrained(Defense):
    def uplink(self, me):
        return {"statistics": me.trained["head.bias"]}


@pytest.mark.parametrize("engine", ["loop", "auto"])
@pytest.mark.parametrize("nosy", [ReadsOne, CountsThem, WalksThem, Rebuilds, ReadsTrained])
def test_single_updates_and_trained_models_need_fusible_false_in_every_engine(nosy, engine):
    with pytest.raises(MethodError, match="`fusible = False`"):
        run(federation(nosy(), engine), 1)


class Honest(Defense):
    """Reads both, and says so."""

    fusible: ClassVar[bool] = False

    def uplink(self, me):
        return {"statistics": me.trained["head.bias"] - me.net.weights["head.bias"]}

    def aggregate(self, server):
        single = server.inbox["update"]["head.bias"]
        assert torch.allclose(single, server.inbox["statistics"], atol=1e-15, rtol=0)
        models = server.local_models()
        server.model = {k: torch.stack([m[k] for m in models]).mean(0) for k in server.model}


def test_with_fusible_false_both_are_there_and_the_mean_is_the_same():
    slow, fast = both(Honest(), 4)
    assert fast.engine == "parallel"
    assert gap(slow, fast) < TOLERANCE
    assert gap(slow, run(federation("fedavg", "loop"), 4)) < TOLERANCE


class InPlace(Defense):
    """Writes into its own state: kept or lost, depending on who was chosen."""

    def start(self, me):
        me.state["n"] = torch.zeros((), dtype=torch.float64)

    def uplink(self, me):
        me.state["n"] += 1


class IntoInbox(Defense):
    def loss(self, net, batch, me):
        me.inbox["model"]["head.bias"].mul_(0.5)
        return super().loss(net, batch, me)


class IntoBank(Defense):
    """The server overwrites what it has just sent: the transcript would show the later one."""

    def start_server(self, server):
        server.state["bank"] = torch.zeros(10, 3, dtype=torch.float64)

    def downlink(self, server):
        return {"model": server.model, "prototype": server.state["bank"]}

    def aggregate(self, server):
        super().aggregate(server)
        server.state["bank"][server.senders] = 1.0


@pytest.mark.parametrize("engine", ["loop", "auto"])
@pytest.mark.parametrize("fraction", [1.0, 0.3])
@pytest.mark.parametrize(
    ("wrong", "what"),
    [(InPlace, "state/n"), (IntoInbox, "inbox/model/head.bias"), (IntoBank, "state/bank")],
)
def test_writing_into_what_one_was_given_is_refused(wrong, what, fraction, engine):
    with pytest.raises(MethodError, match=f"wrote into '{what}'"):
        run(federation(wrong(fraction=fraction), engine), 1)


class Twice(Defense):
    """Uploads the same thing twice in a round: under one name its noise would repeat."""

    def round(self, fed):
        super().round(fed)
        fed.train(self.loss)


def test_a_function_that_runs_twice_in_a_round_is_refused():
    task = registry.load_plugin("tasks", "digits")(model="mlp", width=8)
    fed = Federation(Twice(), task, task.load(), engine="loop")
    with pytest.raises(MethodError, match="loss ran twice in one round"):
        fed.step()
