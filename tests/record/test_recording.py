"""Contract: transcript and truth together say what happened, all of it, and nothing
that did not.
"""

import json

import pytest
import torch
from helpers.federations import ONE_STEP, digits, each_defense, short, uneven
from helpers.small_runs import messages_in

from defenses.fedavg import FedAvg
from leakbench.base.errors import UsageError
from leakbench.base.files import read_sealed, read_tree
from leakbench.base.streams import Rng
from leakbench.base.tree import flat, nbytes
from leakbench.federation.batches import batch_plan
from leakbench.federation.federation import Federation
from leakbench.federation.net import Net
from leakbench.federation.net import training_mode as in_training
from leakbench.federation.parties import Batch, Client
from leakbench.record import budget, last_layers, recorder, training
from leakbench.record.folders import load
from leakbench.record.messages import KINDS, LARGE, overlaid, round_file
from leakbench.record.policy import Policy
from leakbench.record.recorder import Recorder
from leakbench.record.runspec import make_spec, parts
from leakbench.record.training import train_run
from leakbench.scoring.truth import Answer, Truth

SMALL = {"model": "mlp", "width": 8, "dim": 8, "evaluations": 10}


def trained(out, name, *, rounds=4, wrappers=(), record="standard", engine="auto", **params):
    spec = make_spec(
        name,
        params={"batch": 4} | params,
        task_params=SMALL,
        rounds=rounds,
        seed=5,
        wrappers=wrappers,
        dtype="float64",
        record=record,
        engine=engine,
    )
    return train_run(spec, out).path, spec


class Told(Rng):
    """Dice that can only repeat what the truth wrote down."""

    given: dict = {}

    def _draw(self, name, make):
        return self.given[f"{self.step}/{name}"]

    def at(self, phase, step=0):
        rng = super().at(phase, step)
        rng.given = self.given
        return rng


def replayed(made, messages, m, entry, loss):
    """The update of one SGD step, from the messages that had arrived and the truth; written without
    the party runner and the engines.
    """
    facts = made.task.facts(made.method)
    module = made.method.module(made.task.module(facts), facts).double()
    early = [
        d
        for d in messages
        if d.sender == "server" and d.receiver in ("client/*", m.sender) and d.probe is None
    ]
    inbox = {d.kind: d.payload for d in early if d.round == 0} | {
        d.kind: d.payload for d in early if d.round == m.round and d.phase < m.phase
    }
    index = int(m.sender.split("/")[1])
    received, kept = inbox["model"], entry.get("kept", {})
    weights = {
        k: v.clone().requires_grad_(k in dict(module.named_parameters()))
        for k, v in {**received, **kept}.items()
    }
    rng = Told(0, "", torch.tensor(index), torch.float64)
    rng.given = flat(entry.get("draws", {}))
    net = Net(module, weights)
    count = entry["count"]
    me = Client(
        torch.tensor(index),
        count,
        m.round,
        facts,
        entry.get("own", {}),
        entry.get("state", {}),
        inbox,
        net,
        rng.at(""),
    )
    with in_training(module, True):
        value = getattr(made.method, loss)(net, Batch(entry["x"], entry["y"]), me)
    moved = {k: v for k, v in weights.items() if v.requires_grad and k in received}
    grads = torch.autograd.grad(value, list(moved.values()), materialize_grads=True)
    rate = made.method.lr * made.method.decay ** (m.round - 1)
    step = {k: -rate * g for k, g in zip(moved, grads, strict=True)}
    buffers = {
        k: weights[k] - v for k, v in received.items() if k not in moved and v.is_floating_point()
    }
    return step | buffers


def losses_of(monkeypatch):
    """{(round, phase): (the loss's name, its steps)}, noted while training goes on; neither
    transcript nor truth says it.
    """
    names = {}
    told = Recorder.training

    def noting(self, fed, name, each, todo):
        names[fed.t, fed.phase] = (name, len(todo.rows(0)))
        told(self, fed, name, each, todo)

    monkeypatch.setattr(Recorder, "training", noting)
    return names


def check_replay(folder, spec, losses, messages):
    """Every recorded update of one step, probes too; returns how many there were."""
    data, counts, made = read_tree(folder / "truth" / "data.safetensors")[0], 0, parts(spec)
    truth = {
        t: read_tree(folder / "truth" / round_file(t))[0]
        for t in {m.round for m in messages if m.kind == "update" and not m.part}
    }
    for m in messages:
        assert all(bool(v.isfinite().all()) for v in flat(m.payload).values()), m.name
        loss, steps = losses.get((m.round, m.phase), ("", 0))
        if m.kind != "update" or m.part or steps != 1:
            continue
        client = m.sender.split("/")[1]
        there = truth[m.round].get("client", {}).get(client, {})
        if str(m.phase) not in there:  # kept to be added up: nobody is attacked at that round
            continue
        entry = there[str(m.phase)]
        entry = entry if m.probe is None else entry["probe"][str(m.probe)]
        assert torch.equal(entry["x"], data["x"][entry["rows"]])
        assert torch.equal(entry["y"], data["y"][entry["rows"]])
        mine = data["rows"][int(client), : int(data["counts"][int(client)])]
        assert set(entry["rows"].tolist()) <= set(mine.tolist())
        assert len(entry["rows"]) == 1 or m.probe is None
        again = replayed(made, messages, m, {**entry, "count": data["counts"][int(client)]}, loss)
        assert again.keys() == m.payload.keys()
        assert max(float((again[k] - v).abs().max()) for k, v in m.payload.items()) < 1e-12
        counts += 1
    return counts


@pytest.mark.parametrize("name", each_defense())
def test_a_recorded_update_is_the_loss_replayed_from_transcript_and_truth(
    tmp_path, monkeypatch, name
):
    losses = losses_of(monkeypatch)
    folder, spec = trained(tmp_path, name, **{**short(name), **ONE_STEP, "decay": 0.9, "batch": 4})
    messages = messages_in(folder / "transcript")
    replayable = check_replay(folder, spec, losses, messages)
    whole = [m for m in messages if m.kind == "update" and not m.part]
    sent = [m for m in whole if losses[m.round, m.phase][1] == 1]
    assert replayable == len(sent)
    if any(s["kind"] == "update" for s in read_sealed(folder / "run.json")["sent"]):
        assert replayable >= 3 * 5  # three audited rounds, five clients, and their probes
        made = parts(spec)
        facts = made.task.facts(made.method)
        layers = made.method.module(made.task.module(facts), facts).modules()
        normed = any(isinstance(m, torch.nn.modules.batchnorm._BatchNorm) for m in layers)
        assert normed or any(m.probe is not None for m in sent)


def test_under_clipping_the_control_holds_the_loss_and_the_transcript_the_noise(
    tmp_path, monkeypatch
):
    losses = losses_of(monkeypatch)
    folder, spec = trained(
        tmp_path, "fedhide", **ONE_STEP, batch=4, wrappers=[("clip_noise", {"clip": 0.5})]
    )
    sent = messages_in(folder / "transcript")
    bare = overlaid(sent, messages_in(folder / "control"))
    assert check_replay(folder, spec, losses, bare) >= 3 * 5 * 5
    changed = {m.name for m in sent if m.kind == "update"}
    assert changed
    assert {m.name for m in messages_in(folder / "control") if m.kind == "update"} == changed


def covered_whole(folder, rounds):
    """{(round, sender)} of whole updates, transcript and control, between the audited rounds."""
    audited = {1, *rounds}
    kept = []
    for room in ("transcript", "control"):
        found = messages_in(folder / room)
        whole = [m for m in found if m.kind == "update" and not m.part and m.probe is None]
        kept.append({(m.round, m.sender) for m in whole if m.round not in audited})
    return kept


def test_whole_updates_of_all_rounds_are_kept_of_small_networks_under_noise(tmp_path, monkeypatch):
    noise = [("clip_noise", {"noise": 0.1})]
    folder, _ = trained(tmp_path / "a", "fedavg", rounds=8, batch=4, wrappers=noise)
    sent, bare = covered_whole(folder, (1, 4, 8))
    assert sent == bare
    assert {t for t, _ in sent} == {2, 3, 5, 6, 7}
    for t, sender in sent:
        labels = read_tree(folder / "known" / round_file(t))[0]["client"]
        assert sum(len(e["y"]) for e in labels[sender.split("/")[1]].values()) >= 4
    monkeypatch.setattr(last_layers, "POOL", 200_000)  # now there is room for last layers alone
    folder, _ = trained(tmp_path / "b", "fedavg", rounds=8, batch=4, wrappers=noise)
    assert covered_whole(folder, (1, 4, 8)) == [set(), set()]
    parts = [m for m in messages_in(folder / "transcript") if m.part and m.kind == "update"]
    assert {m.round for m in parts} >= {2, 3, 5, 6, 7}


def test_probes_are_single_images_of_the_real_batch(tmp_path):
    folder, _ = trained(tmp_path, "fedavg", batch=6)
    truth = read_tree(folder / "truth" / round_file(1))[0]["client"]
    known = read_tree(folder / "known" / round_file(1))[0]["client"]
    assert len(truth) == 5
    for i, phases in truth.items():
        ((phase, entry),) = phases.items()
        rows = [int(entry["probe"][str(j)]["rows"]) for j in range(6)]
        assert rows == entry["rows"].tolist()
        assert torch.equal(known[i][phase]["y"], entry["y"])
        assert [int(known[i][phase]["probe"][str(j)]["y"]) for j in range(6)] == entry["y"].tolist()


@pytest.mark.parametrize(
    ("rounds", "stages"),
    [
        (1, {"final": 1}),
        (2, {"untrained": 1, "final": 2}),
        (3, {"untrained": 1, "middle": 2, "final": 3}),
        (4, {"untrained": 1, "middle": 2, "final": 4}),
        (10, {"untrained": 1, "middle": 5, "final": 10}),
        (20, {"untrained": 1, "early": 2, "middle": 10, "final": 20}),
        (300, {"untrained": 1, "early": 30, "middle": 150, "final": 300}),
        (2000, {"untrained": 1, "early": 200, "middle": 1000, "final": 2000}),
    ],
)
def test_stages(rounds, stages):
    policy = Policy()
    assert policy.stages(rounds) == stages
    assert [t for t in range(rounds + 2) if policy.audits(t, rounds)] == sorted(
        {0, rounds + 1, *stages.values()}
    )


KB = 1024
R = 2000
GRID = {
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    10,
    11,
    13,
    14,
    16,
    18,
    20,
    22,
    25,
    28,
    32,
    35,
    40,
    45,
    50,
    56,
    63,
    71,
    79,
    89,
    100,
    112,
    126,
    141,
    158,
    178,
    200,
}
AUDITED = {0, 1, 200, 1000, 2000, 2001}
BEFORE = {0, 199, 999, 1999, 2000}


def kept(kind, size, *, uplink, fraction=1.0, policy=None):
    return {
        t
        for t in range(R + 2)
        if (policy or Policy()).keeps(kind, size, t, R, uplink=uplink, fraction=fraction)
    }


def test_small_uplinks_are_kept_at_the_end_on_the_grid_and_around_the_audits():
    found = kept("prototype", 4 * KB, uplink=True)
    assert {t for t in found if t <= 200} == GRID | AUDITED.intersection(
        range(201)
    ) | BEFORE.intersection(range(201))
    assert found >= set(range(1801, 2002)) | AUDITED | BEFORE
    between = {t for t in found if 200 < t <= 1800}
    assert 15 <= len(between) <= 22  # almost a decade: 20
    assert 1800 not in found
    assert kept("prototype", 64 * KB, uplink=True) == found


def test_with_part_of_the_clients_the_last_200_of_each_client_are_kept():
    found = kept("prototype", 4 * KB, uplink=True, fraction=0.2)
    assert set(range(1001, 2001)) <= found
    assert 997 not in found
    assert kept("prototype", 4 * KB, uplink=False, fraction=0.2) == kept(
        "prototype", 4 * KB, uplink=False
    )


def test_large_payloads_of_small_kinds_are_kept_in_ten_spaced_rounds():
    spaced = set(range(200, 2001, 200))
    assert kept("features", 64 * KB + 1, uplink=True) == spaced | AUDITED | BEFORE
    broadcast = kept("features", KB * KB, uplink=False)
    assert broadcast == spaced | AUDITED | BEFORE | set(range(1801, 2001))
    assert kept("features", KB * KB + 1, uplink=False) == spaced | AUDITED | BEFORE
    assert kept("features", 10**9, uplink=True, policy=Policy(spaced=0)) == AUDITED | BEFORE


@pytest.mark.parametrize("rounds", [1, 3, 9, 10, 15, 19, 20, 105])
def test_never_more_than_ten_spaced_rounds(rounds):
    policy = Policy()
    plain = {
        t
        for t in range(1, rounds + 1)
        if not policy.audits(t, rounds) and not policy.audits(t + 1, rounds)
    }
    found = {
        t for t in plain if policy.keeps("features", 10**6, t, rounds, uplink=True, fraction=1.0)
    }
    assert len(found) <= 10
    assert len({round(rounds * i / 10) for i in range(1, 11)} - plain - found - {0}) <= 10


@pytest.mark.parametrize("kind", LARGE)
def test_large_kinds_are_kept_in_audited_rounds_alone(kind):
    assert kept(kind, 100, uplink=True) == kept(kind, 100, uplink=False) == AUDITED
    assert kept(kind, 10**9, uplink=True, policy=Policy(name="all")) == set(range(R + 2))


def test_a_run_keeps_what_the_policy_says(tmp_path):
    rounds = 260
    folder, spec = trained(tmp_path, "fedgn", rounds=rounds, fraction=1.0, batch=4)
    messages = messages_in(folder / "transcript")
    size = nbytes(
        next(m.payload for m in messages if m.kind == "prototype" and m.sender == "client/1")
    )

    def rounds_of(kind, client):
        return {m.round for m in messages if m.kind == kind and (m.sender != "server") == client}

    def expected(kind, size, uplink):
        return {
            t
            for t in range(1, rounds + 1)
            if spec.record.keeps(kind, size, t, rounds, uplink=uplink, fraction=1.0)
        }

    assert rounds_of("prototype", True) == expected("prototype", size, True)
    assert rounds_of("prototype", False) == expected("prototype", 10 * size, False)
    assert rounds_of("model", False) == rounds_of("update", True) == {1, 26, 130, 260}
    assert not {59, 33} & rounds_of("prototype", True)
    updates = [m for m in messages if m.kind == "update" and m.round == 26 and not m.part]
    assert len({m.sender for m in updates}) == 5
    assert len([m for m in updates if m.probe is not None]) == 5 * 4
    assert (
        len(
            [
                m
                for m in messages
                if m.kind == "prototype" and m.round == 26 and m.sender != "server"
            ]
        )
        == 10
    )


def test_everything_is_kept_on_request(tmp_path):
    folder, _ = trained(tmp_path, "fedhide", rounds=3, record="all", fraction=0.5)
    messages = messages_in(folder / "transcript")
    for t in (1, 2, 3):
        sent = [m for m in messages if m.round == t]
        assert len({m.sender for m in sent if m.kind == "update"}) == 5
        assert [m.receiver for m in sent if m.sender == "server"] == ["client/*", "client/*"]


def test_the_control_holds_only_what_differs(tmp_path):
    for name, wrappers, kinds in (
        ("fedavg", [], set()),
        ("fedaws", [], set()),
        ("fedgn", [], {"prototype"}),
        ("fedgn", [("clip_noise", {})], {"prototype", "update"}),
        ("fedaws", [("clip_noise", {"kinds": ["prototype"]})], {"prototype"}),
    ):
        folder, _ = trained(tmp_path, name, wrappers=wrappers)
        sent = {m.name: m for m in messages_in(folder / "transcript")}
        control = messages_in(folder / "control")
        assert {m.kind for m in control} == kinds, (name, wrappers)
        for m in control:
            assert not torch.equal(
                flat(m.payload)[next(iter(flat(m.payload)))],
                flat(sent[m.name].payload)[next(iter(flat(m.payload)))],
            )
    gone = {m.name for m in control}
    truth = {t: read_tree(folder / "truth" / round_file(t))[0] for t in {m.round for m in control}}
    for m in control:  # of FedAwS: the true prototype, whatever covered it
        secret = truth[m.round]["client"][m.sender.split("/")[1]][str(m.phase)]["secrets"][
            "prototype"
        ]
        assert torch.equal(m.payload, secret)
    assert gone == {m.name for m in sent.values() if m.kind == "prototype" and m.sender != "server"}


def test_clients_whose_message_hides_nothing_are_not_in_the_control(tmp_path):
    """FedHide with alpha = 1 sends what it would send undefended."""
    folder, _ = trained(tmp_path, "fedhide", alpha=1.0)
    assert not (folder / "control").exists()
    assert read_sealed(folder / "run.json")["hides"] is False


def test_past_an_aggregator_the_control_shows_the_single_updates(tmp_path):
    folder, _ = trained(tmp_path, "fedgn", wrappers=[("secure_sum", {})])
    sent, bare = messages_in(folder / "transcript"), messages_in(folder / "control")
    assert {m.receiver for m in sent if m.kind == "update"} == {"aggregator"}
    assert {(m.sender, m.receiver) for m in sent if m.kind == "sum"} == {("aggregator", "server")}
    assert {m.receiver for m in bare if m.kind == "update"} == {"server"}
    seen = [m for m in overlaid(sent, bare) if m.receiver == "server"]
    assert not [m for m in seen if m.kind == "sum"]
    assert {m.name[2] for m in seen if m.kind == "update" and m.round == 4} == {
        m.sender for m in sent if m.kind == "update" and m.round == 4
    }


def test_the_sum_is_the_mean_of_what_was_sent(tmp_path):
    folder, _ = trained(
        tmp_path,
        "fedavg",
        wrappers=[("secure_sum", {})],
        record="all",
        fraction=0.5,
        average="weighted",
    )
    messages = messages_in(folder / "transcript")
    for t in (1, 4):
        single = [m for m in messages if m.round == t and m.kind == "update" and m.probe is None]
        counts = torch.tensor(
            [float(m.payload) for m in messages if m.round == t and m.kind == "count"]
        )
        (total,) = [m.payload["update"] for m in messages if m.round == t and m.kind == "sum"]
        assert len(single) == len(counts) == 5
        for k, v in total.items():
            mean = sum(c * m.payload[k] for c, m in zip(counts, single, strict=True)) / counts.sum()
            assert torch.allclose(v, mean, atol=1e-12, rtol=0)


def test_sent_counts_what_went_over_the_wire(tmp_path):
    rounds, m, dim = 7, 4, 8
    tables = {}
    for engine in ("loop", "fused"):
        folder, _spec = trained(tmp_path, "fedhide", rounds=rounds, fraction=0.4, engine=engine)
        tables[engine] = {
            (s["kind"], s["sender"], s["receiver"]): s
            for s in read_sealed(folder / "run.json")["sent"]
        }
    assert tables["loop"] == tables["fused"]
    model = nbytes(read_tree(folder / "checkpoint" / "model.safetensors")[0])
    wanted = {
        ("model", "server", "client/*"): (rounds, rounds, rounds * model),
        ("prototype", "server", "client/*"): (rounds, rounds, rounds * 10 * dim * 8),
        ("prototype", "client", "server"): (rounds, rounds * m, rounds * m * dim * 8),
        ("update", "client", "server"): (rounds, rounds * m, rounds * m * model),
    }
    assert {
        k: (s["rounds"], s["messages"], s["bytes"]) for k, s in tables["fused"].items()
    } == wanted
    assert not any(s["covered"] for s in tables["fused"].values())
    assert {k[0] for k in tables["fused"]} <= set(KINDS)


def test_an_each_downlink_is_a_message_for_each(tmp_path):
    folder, _ = trained(tmp_path, "fedaws", rounds=5, fraction=0.4)
    down = [
        m
        for m in messages_in(folder / "transcript")
        if m.kind == "prototype" and m.sender == "server" and m.round == 5
    ]
    assert len({m.receiver for m in down}) == 4
    assert all(m.payload.shape == (8,) for m in down)
    (row,) = [
        s
        for s in read_sealed(folder / "run.json")["sent"]
        if s["sender"] == "server" and s["kind"] == "prototype"
    ]
    assert (row["rounds"], row["messages"], row["bytes"]) == (5, 20, 20 * 64)


@pytest.mark.parametrize("select", ["random", "round_robin"])
def test_rounds_say_who_was_really_chosen(tmp_path, monkeypatch, select):
    chosen = {}
    close = Recorder.close

    def noting(self, fed):
        if 0 < fed.t <= 9:
            chosen[fed.t] = fed.chosen.tolist()
        close(self, fed)

    monkeypatch.setattr(Recorder, "close", noting)
    folder, _ = trained(tmp_path, "fedhide", rounds=9, fraction=0.3, select=select)
    rows = flat(read_tree(folder / "transcript" / "rounds.safetensors")[0])
    up = [[t, i, -1] for t, who in chosen.items() for i in who]
    down = [[t, -1, i] for t, who in chosen.items() for i in who]
    assert rows["update"].tolist() == up
    assert rows["model"].tolist() == down
    assert sorted(rows["prototype"].tolist()) == sorted(up + down)
    assert rows["update"].dtype == torch.int32
    assert all(len(set(who)) == 3 == len(who) for who in chosen.values())
    in_turn = [i for t in (1, 2, 3) for i in chosen[t]]
    assert (len(set(in_turn)) == 9) or select == "random"
    for m in messages_in(folder / "transcript"):
        if m.sender.startswith("client/") and m.probe is None:
            assert [m.round, int(m.sender.split("/")[1]), -1] in rows[m.kind].tolist()


def test_a_run_folder_holds_safetensors_strict_json_and_csv(tmp_path):
    folder, _ = trained(tmp_path, "fedhide", wrappers=[("clip_noise", {})])

    def refuse(name):
        raise AssertionError(f"{name} in JSON")

    for path in folder.rglob("*"):
        if path.is_dir() or path.name.endswith(".lock"):
            continue
        data = path.read_bytes()
        assert path.suffix in (".safetensors", ".json", ".csv"), path
        if path.suffix == ".json":
            text = json.loads(data, parse_constant=refuse)
            assert data.decode() == json.dumps(text, sort_keys=True, indent=1) + "\n"
        if path.suffix == ".safetensors":
            head = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
            json.loads(head["__metadata__"]["leakbench"], parse_constant=refuse)
    assert not {p.relative_to(folder).parts[0] for p in folder.rglob("*")} - {
        *(
            "run.json",
            "utility.csv",
            "utility.safetensors",
            "diagnostics.csv",
            "transcript",
            "control",
            "known",
            "truth",
            "checkpoint",
        )
    }


def test_the_truth_holds_the_true_prototypes_after_the_round(tmp_path):
    folder, spec = trained(tmp_path, "fedgn", rounds=3)
    last = read_tree(folder / "truth" / round_file(3))[0]
    again = Federation(
        parts(spec).method,
        parts(spec).task,
        parts(spec).task.load(),
        seed=5,
        engine=spec.engine,
        dtype=torch.float64,
    )
    again.begin()
    for _ in range(3):
        again.step()
    own = again.columns["own"]["prototype"]
    assert torch.equal(last["everyone"]["prototype"], own / own.norm(dim=1, keepdim=True))
    noise = last["client"]["4"]["3"]["draws"]["0"]["noise"]
    sent = next(
        m.payload
        for m in messages_in(folder / "transcript")
        if m.round == 3 and m.kind == "prototype" and m.sender == "client/4"
    )
    mixed = last["everyone"]["prototype"][4] + 0.1 * noise
    assert torch.allclose(sent, mixed / mixed.norm(), atol=1e-14, rtol=0)


def test_loop_and_fused_write_the_same_utility_and_diagnostics(tmp_path):
    tables = [
        (trained(tmp_path, "fedhide", rounds=5, engine=e)[0] / "diagnostics.csv")
        .read_text()
        .splitlines()
        for e in ("loop", "fused")
    ]
    one, two = ([line.split(",") for line in t] for t in tables)
    assert [r[:2] for r in one] == [r[:2] for r in two]
    assert {r[1] for r in one[1:]} == {"loss", "update_norm", "prototype_mean_cosine"}
    assert (
        max(abs(float(a[2]) - float(b[2])) for a, b in zip(one[1:], two[1:], strict=True)) < 1e-12
    )


def fit(monkeypatch, limit, name="fedhide", rounds=300, **params):
    """The policy that is left where ``limit`` bytes are allowed, and what was said."""
    monkeypatch.setattr(budget, "LIMIT", limit)
    spec = make_spec(name, params=params, task_params=SMALL, rounds=rounds)
    made, said = parts(spec), []
    policy = budget.fitted(
        spec.record,
        lambda: Federation(made.method, made.task, made.task.load()),
        rounds,
        said.append,
    )
    return policy, said


def test_a_record_that_fits_is_left_alone(monkeypatch):
    assert fit(monkeypatch, 2 * 1024**3) == (Policy(), [])


def test_too_large_a_record_lowers_probes_then_audited_then_spaced_then_is_refused(monkeypatch):
    seen, refused = [], ""
    for limit in (
        3_000_000,
        2_000_000,
        1_500_000,
        1_100_000,
        1_000_000,
        800_000,
        600_000,
        500_000,
        450_000,
        400_000,
        350_000,
        300_000,
        250_000,
    ):
        try:
            policy, said = fit(monkeypatch, limit)
        except UsageError as error:
            refused = str(error)
            break
        seen.append((policy.probes, policy.audited, policy.spaced))
        assert len(said) == (policy != Policy())
        kept = f"{policy.probes} probes, {policy.audited} audited clients"
        assert not said or f"{kept}, {policy.spaced} spaced rounds" in said[-1]
    assert "2 GiB are allowed" in refused
    assert refused.endswith("use fewer rounds or a smaller model.")
    order = [
        (16, 5, 10),
        (8, 5, 10),
        (4, 5, 10),
        (1, 5, 10),
        (0, 5, 10),
        (0, 3, 10),
        (0, 1, 10),
        (0, 1, 4),
        (0, 1, 1),
        (0, 1, 0),
    ]
    places = [order.index(s) for s in seen]
    assert places == sorted(places)
    assert places[0] == 0
    assert {s[0] for s in seen} >= {16, 8}
    assert places[-1] > order.index((0, 5, 10))


def test_keeping_everything_is_refused_rather_than_lowered(monkeypatch):
    monkeypatch.setattr(budget, "LIMIT", 1_000_000)
    spec = make_spec("fedhide", task_params=SMALL, rounds=300, record="all")
    made = parts(spec)
    with pytest.raises(UsageError, match="use --record standard"):
        budget.fitted(
            spec.record, lambda: Federation(made.method, made.task, made.task.load()), 300, print
        )


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("fedavg", {}),
        ("fedhide", {"fraction": 0.5}),
        ("fedgn", {"wrappers": [("clip_noise", {})]}),
        ("fedhide", {"record": "all", "batch": 3}),
        pytest.param("moon", {**short("moon"), "fraction": 0.3}, marks=pytest.mark.slow),
        pytest.param("fedaa", {**short("fedaa"), "fraction": 0.3}, marks=pytest.mark.slow),
    ],
)
def test_the_prediction_is_near_what_is_written(tmp_path, name, more):
    folder, spec = trained(tmp_path, name, rounds=20, **more)
    made = parts(spec)
    fed = budget.tried(
        lambda: Federation(
            made.method, made.task, made.task.load(), dtype=torch.float64, wrappers=made.wrappers
        )
    )
    tensors = 0
    for sub in ("transcript", "control", "truth"):
        for path in (folder / sub).glob("round-*") if (folder / sub).exists() else ():
            tensors += nbytes(read_tree(path)[0])
    predicted = budget.predicted(spec.record, fed, 20)
    assert tensors / 1.5 < predicted < 3 * tensors


def test_uneven_clients_are_recorded_too(tmp_path, data):
    """Batches of unequal size, also empty control and a client with a single example."""
    made = parts(make_spec("fedprox", task_params=SMALL, params={"average": "weighted"}))
    few = uneven(data, (1, 5, 30, 40, 50, 60, 70, 80, 90, 100))
    fed = Federation(
        made.method,
        made.task,
        few,
        dtype=torch.float64,
        recorder=Recorder(tmp_path, 2, Policy(name="all")),
    )
    fed.begin()
    fed.step()
    counts = {
        m.sender: int(m.payload) for m in messages_in(tmp_path / "transcript") if m.kind == "count"
    }
    assert counts == {f"client/{i}": int(few.counts[i]) for i in range(10)}
    truth = read_tree(tmp_path / "truth" / round_file(1))[0]["client"]
    assert len(truth["0"]["2"]["rows"]) == 3  # one example, three steps
    assert len(truth["3"]["2"]["rows"]) == 40


def test_many_epochs_of_many_images_are_named_by_their_rows_and_scoring_finds_them(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(recorder, "LARGEST", 64 * 40)
    folder, _ = trained(tmp_path, "fedavg", rounds=10, steps=0, epochs=2, batch=16)
    one, _ = trained(tmp_path / "one", "fedavg", rounds=10, steps=1, batch=100)
    for path, whole in ((folder, False), (one, True)):
        truth = Truth(load(path))
        for i, phases in truth.round(1)["client"].items():
            (entry,) = (e for e in phases.values() if "rows" in e)
            assert ("x" in entry) == whole
            x, y, rows = Answer(truth, int(i), 1).batch()
            assert torch.equal(x, truth.images(entry["rows"]))
            assert torch.equal(y, truth.data["y"][rows])
            assert len(rows) == (100 if whole else 2 * int(truth.data["counts"][int(i)]))


def test_batches_are_made_when_they_are_asked_for(data):
    todo = batch_plan(data, range(3), seed=0, round=1, phase=0, batch=30, steps=0, epochs=2)
    made = todo.batches(data, 1)
    assert [len(b.y) for b in made] == [len(r) for r in todo.rows(1)]
    assert torch.equal(made[-1].x, made[len(made) - 1].x)
    assert [torch.equal(a.x, b.x) for a, b in zip(made[1:3], list(made)[1:3], strict=True)] == [
        True,
        True,
    ]
    with pytest.raises(IndexError):
        made[len(made)]


def test_large_checkpoints_are_written_less_often(tmp_path, monkeypatch):
    """Rounds take so many times as long as writing."""
    clock, written = [0.0], []
    monkeypatch.setattr(training.time, "monotonic", lambda: clock[0])

    def slow(fed, folder, scores, **origins):
        assert origins["origin"]["run"] == spec.folder()
        written.append(fed.t)
        clock[0] += 5.0

    def progress(done, rounds, what):
        clock[0] += 4.0

    monkeypatch.setattr(training.checkpoint, "write_checkpoint", slow)
    spec = make_spec("fedavg", task_params=SMALL, rounds=60)
    train_run(spec, tmp_path, progress=progress)
    assert written[0] == 3  # after ten seconds
    assert written[1] - written[0] == training.CHECKPOINT_SHARE * 5 // 4 + 1


class Silent(FedAvg):
    """Tells its labels, unless it hides them by telling nothing."""

    hide: bool = True

    def uplink(self, me):
        return None if self.hide else {"labels": me.data.y[:4]}

    def undefended(self):
        return self.model_copy(update={"hide": False})


def test_what_is_hidden_by_sending_nothing_is_in_the_control(tmp_path):
    task = digits()
    fed = Federation(Silent(), task, task.load(), recorder=Recorder(tmp_path, 2, Policy()))
    fed.begin()
    fed.step()
    assert "labels" not in {m.kind for m in messages_in(tmp_path / "transcript")}
    bare = [m for m in messages_in(tmp_path / "control") if m.kind == "labels"]
    assert [m.sender for m in bare] == [f"client/{int(i)}" for i in fed.chosen]
    assert all(len(m.payload) == 4 for m in bare)
