"""Wrappers: what leaves a client instead of its message. Secure sums hide single messages; clipping
bounds, noise is fresh.
"""

import itertools

import pytest
import torch
from helpers.federations import FAST, ONE_STEP, federation, method, run, wrapper
from helpers.small_runs import messages_in
from scipy import stats

from leakbench.attacking.view import ThreatModel, View
from leakbench.base.errors import LeakbenchError, MethodError, UsageError
from leakbench.base.files import read_sealed, read_tree
from leakbench.base.tree import flat
from leakbench.record.folders import load
from leakbench.record.recording import Recording
from leakbench.record.runspec import make_spec
from leakbench.record.training import train_run

SMALL = {"model": "mlp", "width": 8, "dim": 8, "evaluations": 10}


def trained(out, name, wrappers, rounds=3, **params):
    return train_run(
        make_spec(
            name,
            params=params,
            task_params=SMALL,
            rounds=rounds,
            seed=2,
            wrappers=wrappers,
            dtype="float64",
        ),
        out,
    ).path


def size(payload):
    return float(sum(v.double().square().sum() for v in flat(payload).values()) ** 0.5)


@pytest.mark.parametrize("name", ["clip_noise", "secure_sum", "quantise"])
def test_the_count_that_the_server_weighs_by_is_covered_by_nobody(name):
    with pytest.raises(UsageError, match="cannot cover 'count'"):
        federation("fedavg", wrappers=[wrapper(name, kinds=("update", "count"))])


# clip_noise ---------------------------------------------------------------------------------------
def on_the_wire(fed, sent, t=1, phase="train", index=3):
    """What leaves client ``index`` instead of ``sent``."""
    each = {
        "index": torch.tensor(index),
        "count": torch.tensor(9),
        "own": {},
        "state": {},
        "kept": {},
        "inbox": {},
    }
    return fed.runner.wire(sent, fed.runner.me(t, each, {"model": fed.model}), phase)


@pytest.mark.parametrize("scale", [1e-9, 0.01, 1.0, 1e6])
def test_clipping_bounds_the_norm_of_the_whole_message(scale):
    fed = federation("fedavg", wrappers=[wrapper("clip_noise", clip=0.5, noise=0.0)])
    update = {k: scale * torch.ones_like(v) for k, v in fed.model.items()}
    sent = on_the_wire(fed, {"update": update})["update"]
    assert size(sent) == pytest.approx(min(0.5, size(update)), rel=1e-12)
    factor = min(1.0, 0.5 / size(update))
    assert all(torch.allclose(sent[k], factor * v, rtol=1e-12, atol=0) for k, v in update.items())


def test_a_zero_message_stays_finite():
    fed = federation("fedavg", wrappers=[wrapper("clip_noise")])
    sent = on_the_wire(fed, {"update": {k: torch.zeros_like(v) for k, v in fed.model.items()}})[
        "update"
    ]
    assert all(bool(v.isfinite().all()) for v in sent.values())


@pytest.mark.parametrize(("clip", "noise"), [(1.0, 0.1), (0.5, 2.0), (3.0, 0.01)])
def test_the_noise_is_gaussian_with_deviation_noise_times_clip(clip, noise):
    fed = federation("fedavg", wrappers=[wrapper("clip_noise", clip=clip, noise=noise)])
    zero = {k: torch.zeros_like(v) for k, v in fed.model.items()}
    values = torch.cat(
        [
            v.flatten()
            for t in range(1, 20)
            for v in on_the_wire(fed, {"update": zero}, t=t)["update"].values()
        ]
    )
    assert len(values) > 5000
    assert stats.kstest(values.numpy() / (clip * noise), "norm").pvalue > 0.001


def test_noise_differs_by_kind_phase_round_client_tensor_and_wrapper():
    one, two = (
        wrapper("clip_noise", kinds=k, clip=1e9, noise=1e-9)
        for k in (("update", "prototype"), ("update",))
    )
    zero = torch.zeros(64, dtype=torch.float64)
    draws = {}
    for which, wraps in (("one", [one]), ("both", [one, two])):
        fed = federation("fedavg", wrappers=wraps)
        for t, phase, index, kind in itertools.product(
            (1, 2), ("uplink", "train"), (0, 7), ("update", "prototype")
        ):
            for name, v in on_the_wire(fed, {kind: {"a": zero, "b": zero}}, t, phase, index)[
                kind
            ].items():
                draws[which, t, phase, index, kind, name] = v
    first = {k: v for k, v in draws.items() if k[0] == "one"}
    assert len({tuple(v.tolist()) for v in first.values()}) == len(first) == 32
    stacked = torch.stack(list(first.values()))
    matrix = torch.corrcoef(stacked) - torch.eye(len(stacked))
    assert float(matrix.abs().max()) < 5.5 / 64**0.5
    for (
        key,
        v,
    ) in first.items():  # the second wrapper adds dice of its own, and only to what it covers
        more = draws["both", *key[1:]] - v
        assert torch.equal(more, torch.zeros(64, dtype=torch.float64)) == (key[4] == "prototype")
        assert not torch.allclose(more, v)


def test_the_method_draws_the_same_with_and_without_a_wrapper():
    bare, noisy = (
        run(federation("fedgn", wrappers=w, lr=1e-9, own_lr=0.0), 2)
        for w in ([], [wrapper("clip_noise")])
    )
    assert torch.equal(bare.state["bank"], noisy.state["bank"])


def test_every_probe_has_noise_of_its_own(tmp_path):
    """Else two probes' difference would be free of noise."""
    folder = trained(
        tmp_path, "fedavg", [("clip_noise", {"clip": 1e-9, "noise": 1e9})], lr=1e-9, batch=5
    )
    kept = [m for m in messages_in(folder / "transcript") if m.kind == "update"]
    sent = [m for m in kept if not m.part]
    assert {m.probe for m in sent} == {None, 0, 1, 2, 3, 4}
    noise = torch.stack([m.payload["head.bias"] for m in sent])
    assert len(noise) == 3 * 5 * 6
    assert float(torch.pdist(noise).min()) > 0.1  # the updates themselves are clipped to 1e-9


def test_what_is_sent_is_within_the_bound_and_what_is_kept_is_not_touched(tmp_path):
    folder = trained(
        tmp_path,
        "fedhide",
        [("clip_noise", {"clip": 0.01, "noise": 0.0, "kinds": ["update", "prototype"]})],
    )
    sent = [m for m in messages_in(folder / "transcript") if m.sender.startswith("client/")]
    assert {m.kind for m in sent} == {"update", "prototype"}
    assert max(size(m.payload) for m in sent) <= 0.01 * (1 + 1e-12)
    secrets = read_tree(folder / "truth" / "round-000003.safetensors")[0]["everyone"]["prototype"]
    assert torch.allclose(secrets.norm(dim=1), torch.ones(10, dtype=torch.float64))


def test_clipped_averages_really_train_the_model():
    """The server averages what was sent, not what was computed."""
    fed = federation("fedavg", wrappers=[wrapper("clip_noise", clip=1e-3, noise=0.0)])
    before = {k: v.clone() for k, v in fed.model.items()}
    fed.begin()
    fed.step()
    moved = {k: fed.model[k] - v for k, v in before.items()}
    assert 0 < size(moved) <= 1e-3 * (1 + 1e-9)
    single = fed.received["update"]
    assert all(torch.allclose(moved[k], single[k].mean(0), atol=1e-15, rtol=0) for k in moved)


@pytest.mark.parametrize(
    "params", [{"clip": 0}, {"clip": -1.0}, {"noise": -0.1}, {"kinds": []}, {"klip": 1.0}]
)
def test_wrong_parameters_are_refused(params):
    with pytest.raises(LeakbenchError, match="clip_noise"):
        wrapper("clip_noise", **params)


# secure_sum ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", FAST)
def test_the_servers_view_has_no_single_update(tmp_path, name):
    folder = trained(tmp_path, name, [("secure_sum", {})], steps=1)
    recording = Recording(load(folder))
    view = View(ThreatModel(kinds=("update", "sum", "model")), recording, 3)
    assert view.messages("update") == view.messages("update", probe=True) == []
    assert len(view.traffic("update")) == 0
    assert [m.round for m in view.messages("sum")] == [1, 2, 3]
    aggregator = View(ThreatModel(observer="aggregator", kinds=("update", "sum")), recording, 3)
    assert len(aggregator.messages("update")) == 3 * 5
    assert [tuple(r) for r in view.traffic("sum").tolist()] == [(t, -2, -1) for t in (1, 2, 3)]


def test_uplinks_that_no_wrapper_covers_are_listed(tmp_path):
    folder = trained(tmp_path, "fedhide", [("secure_sum", {})], average="weighted")
    sent = {
        (s["kind"], s["sender"], s["receiver"]): s["covered"]
        for s in read_sealed(folder / "run.json")["sent"]
    }
    assert sent == {
        ("count", "client", "server"): False,
        ("prototype", "client", "server"): False,
        ("update", "client", "aggregator"): True,
        ("sum", "aggregator", "server"): False,
        ("model", "server", "client/*"): False,
        ("prototype", "server", "client/*"): False,
    }
    assert read_sealed(folder / "run.json")["hides"] is True
    assert read_sealed(trained(tmp_path, "fedavg", []) / "run.json")["hides"] is False
    assert (
        read_sealed(trained(tmp_path, "fedavg", [("secure_sum", {})]) / "run.json")["hides"] is True
    )


@pytest.mark.parametrize("engine", ["loop", "auto"])
def test_a_secure_sum_changes_no_number(engine):
    """It is the mean that the server takes anyway."""
    bare, summed = (
        run(federation("fedhide", engine, wrappers=w, average="weighted", **ONE_STEP), 3)
        for w in ([], [wrapper("secure_sum")])
    )
    assert max(float((bare.model[k] - v).abs().max()) for k, v in summed.model.items()) < 1e-15
    assert "update" not in summed.received
    assert summed.engine == ("loop" if engine == "loop" else "fused")


@pytest.mark.parametrize("engine", ["loop", "auto"])
def test_a_method_that_reads_single_messages_cannot_be_summed(engine):
    """FedHide's server keeps a bank of single proxies: their sum is of no use to it, and that is
    said.
    """
    with pytest.raises(
        MethodError, match=r"no message of kind 'prototype'.*server.mean\('prototype'\)"
    ):
        run(
            federation("fedhide", engine, wrappers=[wrapper("secure_sum", kinds=("prototype",))]), 1
        )


def test_clipping_then_summing_sums_what_was_clipped():
    both = [wrapper("clip_noise", clip=1e-3, noise=0.0), wrapper("secure_sum")]
    fed = federation("fedavg", wrappers=both)
    fed.begin()
    fed.step()
    assert fed.engine == "parallel"
    assert size(fed.means["update"]) <= 1e-3 * (1 + 1e-9)
    assert method("fedavg").hides() is False


def test_a_sum_over_one_client_is_refused():
    with pytest.raises(UsageError, match="at least two clients"):
        federation("fedavg", wrappers=[wrapper("secure_sum")], fraction=0.1)


@pytest.mark.parametrize(
    ("name", "cover", "kind", "why"),
    [
        ("fedgen", "quantise", "label_counts", "leaves what clients send as 'label_counts' as it"),
        ("fedhide", "without_bias", "prototype", "leaves what clients send as 'prototype' as it"),
        ("fedproto", "clip_noise", "labels", "makes fractions of 'labels'"),
        ("fedaa", "clip_noise", "labels", "makes fractions of 'labels'"),
        ("ccvr", "secure_sum", "features", "of another length for each, so it has no sum"),
        ("flea", "secure_sum", "features", "of another length for each, so it has no sum"),
    ],
)
def test_a_message_that_a_wrapper_cannot_cover_is_refused_in_a_sentence(
    tmp_path, name, cover, kind, why
):
    with pytest.raises(UsageError, match=why):
        trained(tmp_path, name, [(cover, {"kinds": [kind]})])


def test_parts_of_another_length_for_each_have_no_sum_either(tmp_path, monkeypatch):
    monkeypatch.setitem(SMALL, "split", "dir")
    sums = [("secure_sum", {"kinds": ["statistics"]})]
    with pytest.raises(UsageError, match="of another length for each, so it has no sum"):
        trained(tmp_path, "ccvr", sums, shares="statistics")


def test_counts_may_be_noised_and_mean_labels_too(tmp_path):
    for name, kind in (("fedgen", "label_counts"), ("fedmix", "labels")):
        trained(tmp_path, name, [("clip_noise", {"kinds": [kind]})], rounds=1)
