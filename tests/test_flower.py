"""A Flower app's record is what its clients sent, and the truth is what they told of it."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("flwr.serverapp.strategy", reason="the extra flower is not installed")

import flwr
from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import Server, SimpleClientManager
from flwr.server import strategy as classic
from flwr.server.compat.grid_client_proxy import GridClientProxy
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping as ServerClips
from flwr.serverapp.strategy import FedAdam, FedAvg
from helpers.flower_grid import RUN, Handed

import leakbench
from leakbench.base.files import read_tree
from leakbench.flower import Recorded, tell
from leakbench.record.messages import read_messages, round_file

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "flower"
EXAMPLE = EXAMPLES / "digits.py"
CLIENTS = 4
# 1.21 itself fails where nobody answers, and where strategies make arrays of a lone number anew.
NEWER = pytest.mark.skipif(
    tuple(map(int, flwr.__version__.split(".")[:2])) < (1, 42), reason="this Flower's own fault"
)


def net():
    dice = torch.Generator().manual_seed(3)
    made = nn.Sequential(nn.Flatten(), nn.Linear(16, 12), nn.BatchNorm1d(12), nn.Linear(12, 4))
    with torch.no_grad():
        for p in made.parameters():
            p.copy_(torch.rand(p.shape, generator=dice) - 0.5)
    return made


@pytest.fixture(scope="module")
def data():
    dice = np.random.default_rng(0)
    x, y = dice.random((240, 1, 4, 4), dtype="float32"), np.arange(240) % 4
    return leakbench.clients(x, y, clients=CLIENTS, split="dir", param=0.5)


def drawn(t, c, data):
    """Two steps of six rows."""
    order = np.random.default_rng([t, c]).permutation(len(data.client(c)[1]))
    return [order[:6], order[6:12]]


def trained(state, t, c, data):
    model = net()
    model.load_state_dict(state)
    x, y = data.client(c)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for rows in drawn(t, c, data):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        optimizer.step()
    return model.state_dict()


def app_of(data, mods, numbers=None):
    app = ClientApp(mods=mods)

    @app.train()
    def train(message, context):
        t, c = message.content["config"]["server-round"], context.node_config["partition-id"]
        state = trained(message.content["arrays"].to_torch_state_dict(), t, c, data)
        told = {"num-examples": len(data.client(c)[1])} | ({} if numbers is None else numbers(c))
        content = {"arrays": ArrayRecord(state), "metrics": MetricRecord(told)}
        return Message(RecordDict(content), reply_to=message)

    return app


def told_of(data, out):
    def rows(message, context):
        t = message.content["config"]["server-round"]
        return drawn(t, context.node_config["partition-id"], data)

    return tell(out=out, name="handed", rows=rows)


@pytest.fixture
def how(data, tmp_path):
    sgd = {"lr": 0.1, "batch": 6, "steps": 2}
    loss = nn.functional.cross_entropy
    return {"out": tmp_path, "name": "handed", "model": net, "data": data, "sgd": sgd, "loss": loss}


def checked(path, data, sent, came, rounds, gone=()):
    """The transcript is replies minus models, and the truth the rows that were drawn."""
    for t in range(1, rounds + 1):
        truth, _ = read_tree(path / "truth" / round_file(t))
        here = [c for c in range(CLIENTS) if (t, c) not in gone]
        assert {*truth["client"]} == {str(c) for c in here}
        model, *updates = read_messages(path / "transcript", [round_file(t)])
        assert [m.sender for m in updates] == [f"client/{c}" for c in here]
        for c, message in zip(here, updates, strict=True):
            (told,) = truth["client"][str(c)].values()
            x, y = data.client(c)
            by_hand = np.concatenate(drawn(t, c, data))
            assert torch.equal(told["y"], y[by_hand])
            assert torch.equal(data.data.train.images(told["rows"]), x[by_hand])
            assert {"1.weight", "2.running_mean"} <= {*message.payload}
            for k, v in message.payload.items():
                assert torch.equal(model.payload[k], sent[t, c][k])
                assert torch.equal(v, came[t, c][k] - sent[t, c][k]), (t, c, k)


def exchanged(grid):
    """{(round, client): state dict} of what was sent and what came."""
    sent, came = {}, {}
    for message, reply in zip(grid.sent, grid.came, strict=True):
        key = message.content["config"]["server-round"], grid.nodes[message.metadata.dst_node_id]
        sent[key] = message.content["arrays"].to_torch_state_dict()
        if not reply.has_error():
            came[key] = reply.content["arrays"].to_torch_state_dict()
    return sent, came


def test_what_is_recorded_is_what_was_sent(data, how, tmp_path):
    grid = Handed(app_of(data, [told_of(data, tmp_path)]), CLIENTS)
    plain = Handed(app_of(data, []), CLIENTS)
    first = ArrayRecord(net().state_dict())
    result = Recorded(FedAvg(fraction_evaluate=0.0), **how).start(grid, first, num_rounds=2)
    without = FedAvg(fraction_evaluate=0.0).start(plain, first, num_rounds=2)
    mine, theirs = (r.arrays.to_torch_state_dict() for r in (result, without))
    for k in {*theirs} - {"2.num_batches_tracked"}:  # Flower's mean of 2 and 2 is 2 or 1.9999
        assert torch.allclose(mine[k], theirs[k], atol=1e-5), k  # replies are added in any order
    checked(tmp_path / "handed-s0", data, *exchanged(grid), 2)
    assert not (tmp_path / ".told").exists()
    # Nothing of what was told is on the wire.
    assert {*grid.came[0].content} == {"arrays", "metrics"}
    assert {*grid.came[0].content["metrics"]} == {"num-examples"}


def started(how, grid, strategy=None, rounds=2, names=True):
    first = net().state_dict()
    arrays = ArrayRecord(first) if names else ArrayRecord([v.numpy() for v in first.values()])
    strategy = FedAvg(fraction_evaluate=0.0) if strategy is None else strategy
    return Recorded(strategy, **how).start(grid, arrays, num_rounds=rounds)


def test_a_node_that_fails_is_left_out_of_its_round(data, how, tmp_path):
    grid = Handed(app_of(data, [told_of(data, tmp_path)]), CLIENTS, fails={(102, 2)})
    started(how, grid)
    checked(tmp_path / "handed-s0", data, *exchanged(grid), 2, gone={(2, 2)})


@NEWER
def test_a_round_that_nobody_answers_is_left_out_and_said(data, how, tmp_path):
    fails = {(100 + c, 1) for c in range(CLIENTS)}
    grid = Handed(app_of(data, [told_of(data, tmp_path)]), CLIENTS, fails=fails)
    with pytest.warns(UserWarning, match="no client sent an update in Flower's round 1"):
        started(how, grid)
    assert leakbench.load(tmp_path / "handed-s0").spec["rounds"] == 1


@NEWER
def test_where_nobody_answers_nothing_is_a_record(data, how, tmp_path):
    fails = {(100 + c, 1) for c in range(CLIENTS)}
    with (
        pytest.warns(UserWarning, match="no client sent"),
        pytest.raises(leakbench.UsageError, match="no client sent an update in any round"),
    ):
        started(how, Handed(app_of(data, []), CLIENTS, fails=fails), rounds=1)


def halved(message, context, call_next):
    """A mod that hides: it sends half of the update."""
    reply = call_next(message, context)
    before = message.content["arrays"].to_torch_state_dict()
    after = reply.content["arrays"].to_torch_state_dict()
    half = {k: (v + before[k]) / 2 if v.is_floating_point() else v for k, v in after.items()}
    reply.content["arrays"] = ArrayRecord(half)
    return reply


@pytest.mark.parametrize("order", [0, 1])
def test_what_a_mod_hides_is_hidden_in_the_record(data, how, tmp_path, order):
    mods = [told_of(data, tmp_path), halved][:: -1 if order else 1]
    grid = Handed(app_of(data, mods), CLIENTS)
    started({**how, "covered": ["update"]}, grid)
    sent, came = exchanged(grid)
    checked(tmp_path / "handed-s0", data, sent, came, 2)
    whole = trained(sent[1, 0], 1, 0, data)
    _, update, *_ = read_messages(tmp_path / "handed-s0" / "transcript", [round_file(1)])
    alone = whole["1.weight"] - sent[1, 0]["1.weight"]
    assert torch.allclose(update.payload["1.weight"], alone / 2, atol=1e-6)


@NEWER
def test_the_server_clips_after_it_has_seen(data, how, tmp_path):
    grid = Handed(app_of(data, [told_of(data, tmp_path)]), CLIENTS)
    inner = FedAvg(fraction_evaluate=0.0)
    clips = ServerClips(inner, noise_multiplier=0.0, clipping_norm=1e-3, num_sampled_clients=4)
    clips_alone = vars(clips).copy()
    started(how, grid, clips)
    checked(tmp_path / "handed-s0", data, *exchanged(grid), 2)
    assert {*vars(clips)} == {*clips_alone}  # nothing is left on it


@NEWER
def test_what_is_gained_is_the_strategys_own(data, how, tmp_path):
    grid = Handed(app_of(data, [told_of(data, tmp_path)]), CLIENTS)
    result = started(how, grid, FedAdam(fraction_evaluate=0.0, eta=3.0))
    model = net()
    model.load_state_dict(result.arrays.to_torch_state_dict())
    x, y = data.test
    by_hand = (model.eval()(x).argmax(1) == y).float()
    kept, _ = read_tree(tmp_path / "handed-s0" / "utility.safetensors")
    assert torch.equal(kept["000002"], by_hand)


def test_a_partition_that_is_sent_names_the_client(data, how, tmp_path):
    app = app_of(data, [], numbers=lambda c: {"partition-id": c})
    sgd = {"lr": 0.1, "batch": 6, "epochs": 1}  # else it would have to be told which rows
    started({**how, "sgd": sgd}, Handed(app, CLIENTS), rounds=1)
    truth, _ = read_tree(tmp_path / "handed-s0" / "truth" / round_file(1))
    for c in range(CLIENTS):
        (told,) = truth["client"][str(c)].values()
        assert torch.equal(told["y"], data.client(c)[1])


def test_nobody_is_guessed(data, how, tmp_path):
    with pytest.raises(leakbench.UsageError, match="does not say whose data") as said:
        started(how, Handed(app_of(data, []), CLIENTS))
    assert str(tmp_path) in str(said.value)
    # It is free again, and what was begun is begun anew.
    started(how, Handed(app_of(data, [told_of(data, tmp_path)]), CLIENTS), rounds=1)
    with pytest.raises(leakbench.UsageError, match="is complete"):
        started(how, Handed(app_of(data, [told_of(data, tmp_path)]), CLIENTS), rounds=1)


def test_inside_another_strategy_it_is_refused(data, how):
    inner = Recorded(FedAvg(fraction_evaluate=0.0), **how)
    clips = ServerClips(inner, noise_multiplier=0.0, clipping_norm=1.0, num_sampled_clients=4)
    with pytest.raises(leakbench.UsageError, match="outermost"):
        clips.start(Handed(app_of(data, []), CLIENTS), ArrayRecord(net().state_dict()))


def test_it_wants_a_strategy(how):
    with pytest.raises(leakbench.UsageError, match="strategy is str"):
        Recorded("fedavg", **how)
    with pytest.raises(leakbench.UsageError, match="rounds = None"):
        Recorded(classic.FedAvg(), **how)


class Trains(NumPyClient):
    """A classic client, who counts its rounds."""

    def __init__(self, c, data):
        self.c, self.data = c, data

    def fit(self, parameters, config):
        state = dict(zip(net().state_dict(), map(torch.tensor, parameters), strict=True))
        after = trained(state, config["t"], self.c, self.data)
        return [v.numpy() for v in after.values()], len(self.data.client(self.c)[1]), {}


def numpy_federation(data, out):
    """Nodes of NumPyClients that tell their rows, who knows them, and a classic strategy."""

    def rows(message, context):
        t = int(message.metadata.group_id)
        return drawn(t, context.node_config["partition-id"], data)

    app = ClientApp(
        client_fn=lambda context: Trains(context.node_config["partition-id"], data).to_client(),
        mods=[tell(out=out, name="handed", rows=rows)],
    )
    grid, manager = Handed(app, CLIENTS), SimpleClientManager()
    for node in grid.nodes:
        manager.register(GridClientProxy(node, grid, RUN))
    first = [v.numpy() for v in net().state_dict().values()]
    inner = classic.FedAvg(
        fraction_evaluate=0.0,
        initial_parameters=ndarrays_to_parameters(first),
        on_fit_config_fn=lambda t: {"t": t},
    )
    return grid, manager, inner


def test_numpy_clients_are_recorded(data, how, tmp_path):
    grid, manager, inner = numpy_federation(data, tmp_path)
    strategy = Recorded(inner, rounds=2, **how)
    Server(client_manager=manager, strategy=strategy).fit(2, None)
    sent, came = {}, {}
    for message, reply in zip(grid.sent, grid.came, strict=True):
        key = int(message.metadata.group_id), grid.nodes[message.metadata.dst_node_id]
        for into, of in ((sent, message), (came, reply)):
            (record,) = of.content.array_records.values()
            arrays = record.to_numpy_ndarrays()
            into[key] = dict(zip(net().state_dict(), map(torch.tensor, arrays), strict=True))
    checked(tmp_path / "handed-s0", data, sent, came, 2)
    assert not (tmp_path / ".told").exists()


def pruned(message, context, call_next):
    """A mod that keeps the model's number but where it moved most."""
    before = message.content["arrays"].to_torch_state_dict()
    reply = call_next(message, context)
    after = reply.content["arrays"].to_torch_state_dict()
    for k, v in after.items():
        if v.is_floating_point():
            moved = (v - before[k]).abs()
            after[k] = torch.where(moved >= moved.flatten().quantile(0.8), v, before[k])
    reply.content["arrays"] = ArrayRecord(after)
    return reply


@pytest.mark.parametrize("sparse", [True, False])
def test_updates_of_which_a_part_was_sent_are_recorded_as_such(data, how, tmp_path, sparse):
    told = {**how, "covered": ("update",), "sparse": sparse}
    started(told, Handed(app_of(data, [pruned, told_of(data, tmp_path)]), CLIENTS), rounds=1)
    _, *updates = read_messages(tmp_path / "handed-s0" / "transcript", [round_file(1)])
    assert [m.sparse for m in updates] == [sparse] * CLIENTS
    again = {**how, "out": tmp_path / "bare", "sparse": True}
    bare = Handed(app_of(data, [told_of(data, tmp_path / "bare")]), CLIENTS)
    with pytest.raises(leakbench.UsageError, match="gives sparse = True"):
        started(again, bare, rounds=1)


class Summing:
    """What SecAgg+ does between clients and strategy: each reply becomes the mean of all."""

    def __init__(self, strategy, honest=True):
        self.strategy, self.honest = strategy, honest

    def __getattr__(self, name):
        return getattr(self.strategy, name)

    def aggregate_fit(self, server_round, results, failures):
        each = [parameters_to_ndarrays(res.parameters) for _, res in results]
        total = sum(res.num_examples for _, res in results)
        mean = [
            sum(a * (res.num_examples / total) for a, (_, res) in zip(some, results, strict=True))
            for some in zip(*each, strict=True)
        ]
        for _, res in results[0 if self.honest else 1 :]:
            res.parameters = ndarrays_to_parameters(mean)
        return self.strategy.aggregate_fit(server_round, results, failures)


@pytest.mark.parametrize("honest", [True, False])
def test_a_mean_that_arrives_alone_is_a_sum(data, how, tmp_path, honest):
    _, manager, inner = numpy_federation(data, tmp_path)
    between = Summing(Recorded(inner, rounds=1, summed=True, **how), honest)
    server = Server(client_manager=manager, strategy=between)
    if not honest:
        with pytest.raises(leakbench.UsageError, match="sent other numbers than node"):
            server.fit(1, None)
        return
    server.fit(1, None)
    path = tmp_path / "handed-s0"
    _, *sent = read_messages(path / "transcript", [round_file(1)])
    assert [(m.sender, m.kind) for m in sent] == [("aggregator", "sum")]
    truth, _ = read_tree(path / "truth" / round_file(1))
    for c in range(CLIENTS):
        (told,) = truth["client"][str(c)].values()
        assert torch.equal(told["y"], data.client(c)[1][np.concatenate(drawn(1, c, data))])


def test_without_flower_it_says_what_to_install():
    code = "import sys; sys.modules['flwr'] = None; import leakbench.flower"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    *_, last = done.stderr.strip().splitlines()
    assert last.startswith("ImportError: leakbench.flower needs flwr 1.21 or newer")
    assert last.endswith("pip install 'flwr>=1.21,<2'.")
    assert "During handling" not in done.stderr


@pytest.mark.slow
def test_the_example_runs_in_flowers_simulation(tmp_path):
    pytest.importorskip("ray", reason="Flower's simulation needs it")
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "OUT": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (page,) = tmp_path.glob("report/index.html")
    assert "labels" in page.read_text(encoding="utf-8")
    (file,) = tmp_path.glob("flower-digits-s0/attacks/*/results.csv")
    with file.open() as rows:
        found = [r for r in csv.DictReader(rows) if r["metric"] == "label_overlap"]
    assert [r["round"] for r in found] == ["1", "2", "3"]
    assert all(float(r["low"]) > float(r["floor_high"]) for r in found)


NOISE = """
import runpy, torch
from leakbench.data import image_sets
def noise(many):
    dice = torch.Generator().manual_seed(many)
    images = torch.randint(256, (many, 3, 32, 32), dtype=torch.uint8, generator=dice)
    return images, torch.arange(many) % 10
image_sets.load_images = lambda _: (noise(600), noise(200))
runpy.run_path({path!r}, run_name="__main__")
"""


@pytest.mark.slow
def test_the_quickstart_runs_as_it_stands(tmp_path):
    """On noise in place of CIFAR-10, which is not here."""
    pytest.importorskip("ray", reason="Flower's simulation needs it")
    done = subprocess.run(
        [sys.executable, "-c", NOISE.format(path=str(EXAMPLES / "quickstart.py"))],
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "OUT": str(tmp_path), "SPLIT": "dir"},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "report" / "index.html").exists()
    assert "is not what the declared" not in done.stderr
    found = list(tmp_path.glob("quickstart-dir-s0/attacks/label_inference-*/results.csv"))
    assert any("label_overlap" in file.read_text(encoding="utf-8") for file in found)
